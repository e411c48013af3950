// SPDX-License-Identifier: MIT
//! Things that may be named only once in a configuration.

use std::collections::HashMap;

/// Remembers what must be there only once, and where it was.
#[derive(Default)]
pub(crate) struct Once(HashMap<String, String>);

impl Once {
    /// Claims `what` for `owner`; returns the previous owner if there is one.
    pub fn claim(&mut self, what: String, owner: &str) -> Option<String> {
        match self.0.get(&what) {
            Some(first) => Some(first.clone()),
            None => {
                self.0.insert(what, owner.to_owned());
                None
            }
        }
    }
}
