// SPDX-License-Identifier: MIT
//! The laboratory (perigee-lab) as scenarios use it: whatever is not as it must be is a panic that says so.
//!
//! ```text
//! scenarios!  lists a file's scenarios; the runner runs each again inside `unshare -Urnm` (as root: `-nm`), or says why that is not possible here
//! World       that inside: the router's namespace, a private /run, what is needed to make the rest
//! Host        a namespace with an eth0 whose other end is an interface for a port
//! Wire        a TAP as a port's interface: frames go in and come out byte by byte
//! Device      a device under test between two cables: Linux, a router, or another program
//! Router      a running `perigee run`, asked by `perigee show --json` as anyone would
//! Bird, Frr   routing daemons, next to the router or on a host; `speakers`: their configurations
//! Good        `.good()`: the value, or a panic
//! frame       frames to put on a wire
//! ```
//!
//! No test asserts a time. Waiting ends when the condition holds, or fails after [`LONGEST_WAIT`], times
//! `$PERIGEE_PATIENCE`, and says what was seen instead.
#![forbid(unsafe_code)]

pub mod frame;
mod good;
mod host;
mod router;
#[cfg(test)]
mod rules;
mod scenario;
pub mod speakers;
mod wire;
mod world;

pub use good::{Asserts, Good};
pub use host::Host;
pub use perigee_lab::{Bird, Device, Ended, Frr, LONG_WAIT, LONGEST_WAIT, Process, Signal, device, run, tools};
pub use router::{Log, Router};
pub use scenario::{Scenario, main};
pub use wire::Wire;
pub use world::{World, perigee};

use std::fmt::Debug;
use std::time::Duration;

/// A bound that the scenario keeps itself, times `$PERIGEE_PATIENCE`; all that waits here does this already.
///
/// # Panics
/// The variable is not a number.
#[track_caller]
pub fn patient(bound: Duration) -> Duration {
    perigee_lab::patient(bound).good()
}

/// Waits until `look` returns a value, and returns that.
///
/// # Panics
/// It returns none within [`LONGEST_WAIT`].
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    perigee_lab::wait_for(LONGEST_WAIT, what, || Ok(look())).good()
}

/// Waits until a condition holds.
///
/// # Panics
/// It does not hold within [`LONGEST_WAIT`].
#[track_caller]
pub fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    wait_until_for(LONGEST_WAIT, what, holds);
}

/// Waits until what is seen is as it is wanted, and returns it.
///
/// # Panics
/// It does not become so within [`LONGEST_WAIT`]; the message says what was seen last.
#[track_caller]
pub fn wait_seeing<T: Debug>(what: &str, look: impl FnMut() -> T, wanted: impl FnMut(&T) -> bool) -> T {
    wait_seeing_for(LONGEST_WAIT, what, look, wanted)
}

/// [`wait_seeing`] with another limit.
///
/// # Panics
/// It does not become so within that time.
#[track_caller]
pub fn wait_seeing_for<T: Debug>(
    longest: Duration,
    what: &str,
    mut look: impl FnMut() -> T,
    wanted: impl FnMut(&T) -> bool,
) -> T {
    perigee_lab::wait_seeing(longest, what, || Ok(look()), wanted).good()
}

/// [`wait_until`] with another limit.
///
/// # Panics
/// It does not hold within that time.
#[track_caller]
pub fn wait_until_for(longest: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    perigee_lab::wait_until(longest, what, || Ok(holds())).good();
}
