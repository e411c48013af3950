// SPDX-License-Identifier: MIT
//! The laboratory: network namespaces with real hosts in them, routing daemons, and a router between them. The demo, the
//! scenarios and the benchmarks are built from it.
//!
//! ```text
//! isolation   may we make namespaces, and how? the command that runs a program inside new ones
//! World       that inside: the router's namespace, a private /run, what is needed to make the rest
//! Host        a namespace with an eth0 whose other end is an interface for a port
//! Wire        a TAP as a port's interface: frames go in and come out byte by byte
//! Device      what a tester measures, between two cables: Linux, perigee, testpmd or any command line
//! Router      a running `perigee run`
//! Bird, Frr   routing daemons, next to the router or on a host; `bird::Configuration`, `frr::bgp`: their configurations
//! seen        what /proc says about processes: helpers, memory
//! Process     what all of these are: started, watched, killed by its number, never outliving its handle
//! tools       which programs and packages are missing
//! ```
//!
//! Everything returns an error whose sentence says what was found, expected, and what to do; a test turns it into a panic.
#![forbid(unsafe_code)]

pub mod bird;
pub mod device;
pub mod frr;
mod host;
pub mod isolation;
mod open;
mod place;
mod process;
mod router;
pub mod seen;
pub mod tools;
mod wire;
mod world;

pub use bird::Bird;
pub use device::Device;
pub use frr::Frr;
pub use host::Host;
pub use isolation::Isolation;
pub use place::Place;
pub use process::{Ended, Process, end_after, run};
pub use router::{Launch, Router, program};
pub use rustix::process::Signal;
pub use wire::Wire;
pub use world::World;

use anyhow::{Result, bail};
use open::Open;
use std::fmt::Debug;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waiting for anything longer than this is a failure. Minutes: they cost nothing where all is well, and the machine may be busy.
pub const LONGEST_WAIT: Duration = Duration::from_secs(180);

/// The limit when waiting for protocols with timers of their own, or for many thousands of routes.
pub const LONG_WAIT: Duration = Duration::from_secs(300);

/// Waits until something is there.
///
/// # Errors
/// It does not come in that time, or `look` fails.
#[track_caller]
pub fn wait_for<T>(longest: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let (_open, start) = (Open::new(what), Instant::now());
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if start.elapsed() > longest {
            bail!("waited {} s in vain for {what}", longest.as_secs());
        }
        sleep(Duration::from_millis(10));
    }
}

/// Waits until something holds.
///
/// # Errors
/// As [`wait_for`].
#[track_caller]
pub fn wait_until(longest: Duration, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    wait_for(longest, what, || Ok(holds()?.then_some(())))
}

/// Waits until what is seen is as it is wanted, and returns it.
///
/// # Errors
/// It does not become so in that time: the error says what was seen last. Or `look` fails.
#[track_caller]
pub fn wait_seeing<T: Debug>(
    longest: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T>,
    mut wanted: impl FnMut(&T) -> bool,
) -> Result<T> {
    let (open, start) = (Open::new(what), Instant::now());
    loop {
        let seen = look()?;
        if wanted(&seen) {
            return Ok(seen);
        }
        if start.elapsed() > longest {
            bail!("waited {} s in vain for {what}; seen last: {seen:?}", longest.as_secs());
        }
        open.seen(format!("{seen:?}"));
        sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_last_is_said_where_a_wait_is_in_vain() {
        let mut seen = 0;
        let mut look = || {
            seen += 1;
            Ok(seen)
        };
        assert_eq!(wait_seeing(LONGEST_WAIT, "three", &mut look, |n| *n == 3).unwrap(), 3);
        let error = wait_seeing(Duration::ZERO, "a hundred", &mut look, |n| *n == 100).unwrap_err();
        assert!(error.to_string().starts_with("waited 0 s in vain for a hundred; seen last: "), "{error}");
    }
}
