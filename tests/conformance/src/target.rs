// SPDX-License-Identifier: MIT
//! The router under test: perigee, the kernel, or whatever a command line starts.

mod command;
mod linux;
mod perigee;

use crate::judge::Judged;
use crate::network::{Side, World};
use anyhow::Result;
use perigee_lab::{Host, Process, Router, Signal};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use command::UNABLE;

/// How long a router may take to start, and to stop.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What is tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// `perigee run`, the program, with this line in its ports and as many threads of its slow path.
    Perigee { program: PathBuf, opened: String, slow_paths: u16 },
    /// The kernel's own forwarding.
    Linux,
    /// A command line of the shell.
    Command(String),
}

/// Where a router is: its namespace and the world that it is asked for.
pub struct Place<'a> {
    pub world: World,
    pub host: &'a Host,
    /// The links that there are.
    pub sides: &'a [Side],
    /// For its files.
    pub folder: &'a Path,
}

/// A running router.
pub enum Running {
    /// Nothing that could end.
    Kernel,
    Perigee(Router),
    Program(Process),
}

impl Target {
    /// Whether it is perigee, and its ports are the in-kernel plane's.
    pub fn forwards_in_kernel(&self) -> bool {
        matches!(self, Target::Perigee { opened, .. } if opened.starts_with("plane"))
    }

    /// Starts it. Its interfaces are there, without addresses; it need not forward yet.
    ///
    /// # Errors
    /// It cannot be started so; or it need not be able to, and is not.
    pub fn start(&self, place: &Place) -> Judged<Running> {
        match self {
            Target::Perigee { program, opened, slow_paths } => {
                Ok(Running::Perigee(perigee::start(place, program, opened, *slow_paths)?))
            }
            Target::Linux => linux::start(place).map(|()| Running::Kernel).map_err(Into::into),
            Target::Command(line) => command::start(place, line),
        }
    }

    /// What it is called: `perigee`, `linux`, or the command line.
    pub fn name(&self) -> &str {
        match self {
            Target::Perigee { .. } => "perigee",
            Target::Linux => "linux",
            Target::Command(line) => line,
        }
    }
}

impl Running {
    /// Checks that it has not ended by itself.
    ///
    /// # Errors
    /// It has.
    pub fn check(&mut self) -> Judged {
        match self {
            Running::Kernel => Ok(()),
            Running::Perigee(router) => router.running().map_err(Into::into),
            Running::Program(process) => command::check(process),
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// It does not end well.
    pub fn stop(self) -> Result<()> {
        match self {
            Running::Kernel => Ok(()),
            Running::Perigee(router) => router.stop().map(|_| ()),
            Running::Program(mut process) => {
                if process.ended()?.is_none() {
                    process.signal_group(Signal::TERM)?;
                    process.wait(PATIENCE)?;
                }
                Ok(())
            }
        }
    }
}
