// SPDX-License-Identifier: MIT
//! What is dear to make and is kept from one input to the next: a whole router takes a hundred times as long as most
//! inputs do. It is made anew after some inputs; when one of them fails, those before it are written down, so that all
//! can be replayed in their order.

use std::path::PathBuf;

/// Inputs after which it is made anew.
const INPUTS: usize = 128;

/// Something, and the inputs that it has seen.
pub(crate) struct Kept<T> {
    value: Option<T>,
    seen: Vec<Vec<u8>>,
}

impl<T> Kept<T> {
    /// Nothing yet.
    pub const fn new() -> Kept<T> {
        Kept { value: None, seen: Vec::new() }
    }

    /// Gives it one input. `end` takes what has seen enough.
    pub fn with(&mut self, input: &[u8], make: impl FnOnce() -> T, try_one: impl FnOnce(&mut T), end: impl FnOnce(T)) {
        let value = self.value.get_or_insert_with(make);
        let report = Report(&self.seen);
        try_one(value);
        drop(report);
        self.seen.push(input.to_vec());
        if self.seen.len() >= INPUTS {
            self.seen.clear();
            self.value.take().map(end);
        }
    }
}

/// Writes down the inputs before one that fails, where `PERIGEE_FUZZ_ARTIFACTS` says.
struct Report<'a>(&'a [Vec<u8>]);

impl Drop for Report<'_> {
    fn drop(&mut self) {
        let Some(folder) = std::env::var_os("PERIGEE_FUZZ_ARTIFACTS").filter(|_| std::thread::panicking()) else {
            return;
        };
        let folder = PathBuf::from(folder);
        for (number, input) in self.0.iter().enumerate() {
            let _ = std::fs::write(folder.join(format!("before-{number:03}")), input);
        }
        eprintln!("{} inputs came before it: {}", self.0.len(), folder.join("before-*").display());
    }
}
