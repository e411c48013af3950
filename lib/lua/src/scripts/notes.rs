// SPDX-License-Identifier: MIT
//! The log, for threads that wait for nothing: a thread of its own writes what they say. Whoever reads the log may
//! stand still, and a C module may keep the dynamic loader's lock, which the log takes at a thread's first line.

use super::Spawn;
use crate::vm::ScriptError;
use std::sync::mpsc::{Sender, channel};

/// How much a note matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    Warn,
    Error,
}

/// Where notes are left.
#[derive(Clone)]
pub(super) struct Notes(Sender<(Level, String)>);

impl Notes {
    /// Starts the thread, which ends with the last of these.
    pub(super) fn start(spawn: Spawn<'_>) -> Result<Notes, ScriptError> {
        let (sender, notes) = channel::<(Level, String)>();
        let body = move || {
            for (level, text) in notes {
                match level {
                    Level::Warn => tracing::warn!("{text}"),
                    Level::Error => tracing::error!("{text}"),
                }
            }
        };
        let started = spawn("script-log", Box::new(body));
        started
            .map_err(|error| ScriptError::Load(format!("the thread that logs for scripts does not start: {error}")))?;
        Ok(Notes(sender))
    }

    /// Leaves a warning.
    pub(super) fn warn(&self, text: String) {
        let _ = self.0.send((Level::Warn, text));
    }

    /// Leaves an error.
    pub(super) fn error(&self, text: String) {
        let _ = self.0.send((Level::Error, text));
    }
}
