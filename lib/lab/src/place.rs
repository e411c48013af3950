// SPDX-License-Identifier: MIT
//! Where a program runs: beside the router, or on a host.

use std::process::Command;

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The router's, where its twins are.
    Router,
    /// A host's, by its name.
    Host(String),
}

impl Place {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Place::Router => "router",
            Place::Host(name) => name,
        }
    }

    /// A command there, in words separated by spaces.
    pub fn command(&self, words: &str) -> Command {
        let mut words = words.split_whitespace();
        match self {
            Place::Router => {
                let mut command = Command::new(words.next().unwrap_or_default());
                command.args(words);
                command
            }
            Place::Host(host) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/run/netns/{host}")).args(words);
                command
            }
        }
    }
}
