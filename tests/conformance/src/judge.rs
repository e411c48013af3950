// SPDX-License-Identifier: MIT
//! What a row's test concludes.

use std::fmt::{Debug, Display, Formatter};

/// Why a row's test ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The router does something else than the RFC demands.
    Fail(String),
    /// The target cannot do what the row is about, and need not.
    NotApplicable(String),
}

/// The end of a row's test: passed, or why not.
pub type Judged<T = ()> = Result<T, Stop>;

impl Display for Stop {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Fail(reason) | Stop::NotApplicable(reason) => f.write_str(reason),
        }
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::Fail(format!("{error:#}"))
    }
}

/// A failure, for its reason.
pub fn fail<T>(reason: impl Display) -> Judged<T> {
    Err(Stop::Fail(reason.to_string()))
}

/// Fails unless the condition holds.
pub fn demand(holds: bool, reason: impl Display) -> Judged {
    if holds { Ok(()) } else { fail(reason) }
}

/// Fails unless both are the same: what it is, what was found, what was expected.
pub fn same<T: PartialEq + Debug>(what: impl Display, found: T, expected: T) -> Judged {
    demand(found == expected, format_args!("{what}: found {found:?}, expected {expected:?}"))
}

/// Says which of a row's cases failed.
pub trait Case {
    /// The same end, its reason headed by what it is about.
    fn case(self, what: impl Display) -> Self;
}

impl<T> Case for Judged<T> {
    fn case(self, what: impl Display) -> Self {
        self.map_err(|stop| match stop {
            Stop::Fail(reason) => Stop::Fail(format!("{what}: {reason}")),
            other => other,
        })
    }
}
