// SPDX-License-Identifier: MIT
//! Where a program runs: beside the router, or on a host.

use std::process::Command;

/// A network namespace.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Of a host; else the router's.
    host: Option<String>,
}

impl Place {
    /// Beside the router, where its twins are.
    pub fn router() -> Place {
        Place { host: None }
    }

    pub fn host(name: &str) -> Place {
        Place { host: Some(name.to_owned()) }
    }

    /// A command there, in words separated by one space each.
    pub fn command(&self, words: &str) -> Command {
        let mut words = words.split(' ');
        match &self.host {
            None => {
                let mut command = Command::new(words.next().unwrap_or_default());
                command.args(words);
                command
            }
            Some(host) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/run/netns/{host}")).args(words);
                command
            }
        }
    }
}
