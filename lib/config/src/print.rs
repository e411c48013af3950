// SPDX-License-Identifier: MIT
//! A configuration printed as TOML: everything is spelled out, including defaults, so that it can be kept and edited.

use std::fmt::Write;

use super::model::Config;
use super::tables::Table;

impl Config {
    /// TOML that [`Config::parse`] reads back to this same configuration. Paths are as they were resolved; the
    /// contents of the routes file are not repeated.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for Table { head, entries } in self.tables() {
            if !head.is_empty() {
                let gap = if out.is_empty() { "" } else { "\n" };
                let _ = writeln!(out, "{gap}{head}"); // a String takes everything
            }
            for entry in entries {
                if let Some(value) = entry.value {
                    let _ = writeln!(out, "{} = {value}", entry.key);
                }
            }
        }
        out
    }
}
