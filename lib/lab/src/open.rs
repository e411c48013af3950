// SPDX-License-Identifier: MIT
//! The waits of this process that are not over: who ends it because it takes too long says what it was waiting for.

use std::fmt::Write as _;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

static OPEN: Mutex<Vec<Wait>> = Mutex::new(Vec::new());

struct Wait {
    number: u64,
    what: String,
    from: &'static Location<'static>,
    since: Instant,
    seen: Option<String>,
}

fn open() -> MutexGuard<'static, Vec<Wait>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A wait, which is over when this is dropped.
pub(crate) struct Open(u64);

impl Open {
    /// Begins a wait for something, from the caller's line.
    #[track_caller]
    pub(crate) fn new(what: &str) -> Open {
        let mut open = open();
        let number = open.last().map_or(0, |last| last.number + 1);
        open.push(Wait { number, what: what.to_owned(), from: Location::caller(), since: Instant::now(), seen: None });
        Open(number)
    }

    /// Remembers what was seen last instead of what is waited for.
    pub(crate) fn seen(&self, seen: String) {
        if let Some(wait) = open().iter_mut().find(|wait| wait.number == self.0) {
            wait.seen = Some(seen);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        open().retain(|wait| wait.number != self.0);
    }
}

/// A line for each open wait: what is waited for, from which line of the source, for how long, and what was seen last.
pub(crate) fn report() -> String {
    let mut text = String::new();
    for Wait { what, from, since, seen, .. } in open().iter() {
        // Writing to a string does not fail.
        let _ = write!(text, "it has waited for {} s for {what} ({from})", since.elapsed().as_secs());
        let _ = seen.as_ref().map(|seen| write!(text, "; seen last: {seen}"));
        text.push('\n');
    }
    if text.is_empty() {
        text.push_str("no wait of the laboratory's is open: a call of the scenario's own does not return\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_waits_are_told_with_their_line_and_what_was_seen() {
        let (first, second) = (Open::new("a route of this test"), Open::new("a neighbor of this test"));
        second.seen("nothing".to_owned());
        let text = report();
        let line = |what: &str| text.lines().find(|line| line.contains(what)).map(str::to_owned);
        assert!(line("a route of this test").unwrap().contains("open.rs:"), "{text}");
        assert!(line("a neighbor of this test").unwrap().ends_with("; seen last: nothing"), "{text}");
        drop(first);
        assert!(!report().contains("a route of this test") && report().contains("a neighbor of this test"));
        drop(second);
        assert!(!report().contains("of this test"));
    }
}
