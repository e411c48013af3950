// SPDX-License-Identifier: MIT
//! Where a program runs: beside the router, or on a host.

use std::ffi::OsStr;
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
        let mut command = self.program(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// A program there, still without arguments; its process has the number of the one that is started.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Place::Router => Command::new(program),
            Place::Host(host) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/run/netns/{host}")).arg(program);
                command
            }
        }
    }
}
