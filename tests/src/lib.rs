// SPDX-License-Identifier: MIT
//! Worlds for `perigee` to be tried in: network namespaces with real hosts, cables whose other end is in the test's own
//! hand, and a router between them, all as an ordinary user.
//!
//! ```text
//! scenario()  runs a test again inside `unshare -Urnm`, or says why that is not possible here
//! World       that inside: the router's namespace, a private /run, what is needed to make the rest
//! Host        a namespace with an eth0 whose other end is an interface for a port
//! Wire        a TAP as a port's interface: frames go in and come out byte by byte
//! Router      a running `perigee run`, asked through `perigee show --json` like anybody would
//! Bird, Frr   routing daemons, beside the router or on a host
//! frame       frames to put on a wire
//! ```
//!
//! No test asserts a time. Waiting ends when what is waited for is there, or fails after [`LONGEST_WAIT`].
#![forbid(unsafe_code)]

mod bird;
pub mod frame;
mod frr;
mod host;
mod place;
mod process;
mod router;
mod scenario;
mod wire;
mod world;

pub use bird::Bird;
pub use frr::Frr;
pub use host::Host;
pub use process::{Ended, Process, run};
pub use router::{Log, Router};
pub use scenario::{Needs, not_run, scenario, scenario_with};
pub use wire::Wire;
pub use world::{World, perigee};

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waiting for anything longer than this is a failure. Far more than needed: the machine may be busy.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The same where protocols with timers of their own, or many thousands of routes, are waited for.
pub const LONG_WAIT: Duration = Duration::from_secs(90);

/// Waits until something is there.
///
/// # Panics
/// It does not come in [`LONGEST_WAIT`].
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_at_most(LONGEST_WAIT, what, look)
}

fn wait_at_most<T>(longest: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < longest, "waited in vain for {what}");
        sleep(Duration::from_millis(10));
    }
}

/// Waits until something holds.
///
/// # Panics
/// It does not come true in [`LONGEST_WAIT`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// [`wait_until`] with another limit.
///
/// # Panics
/// It does not come true in that time.
pub fn wait_until_for(longest: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    wait_at_most(longest, what, || holds().then_some(()));
}
