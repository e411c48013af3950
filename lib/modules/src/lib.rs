// SPDX-License-Identifier: MIT
//! What a module is and what it sees, and the modules themselves: a file each, and a line in the [`registry`].
//!
//! ```text
//! classify > ipv4_valid  > filter > urpf > multicast > ipv4_lookup > mtu > ttl       > apply > distribute
//!          > ipv6_valid                              > ipv6_lookup       > hop_limit
//! ```
//!
//! A module is a function of the worker's [`Context`], a batch and a mask (or two, one per family). It narrows the mask
//! to the packets that go on; the rest it drops or punts under a [`Reason`] of its own. It uses no clock and no
//! lock, and allocates no memory, except `filter` once for its first fragment.
#![forbid(unsafe_code)]

#[macro_use]
pub mod registry;

mod catalog;
pub mod context;
pub mod counters;
pub mod exceptions;
pub mod fragments;
pub mod hits;
mod lookup;
pub mod policer;
pub mod reason;
pub mod rules;
pub mod stopwatch;
pub mod tables;
pub mod taps;
pub mod testing;
pub mod trace;
pub mod watch;

// The modules themselves. As rustfmt does not see files that a macro names, `./x check` gives them to it one by one.
macro_rules! declare {
    ($($name:ident($kind:ident),)*) => { $(pub mod $name;)* };
}
for_each_module!(declare);

pub use catalog::{MODULES, Module, Run, all_reasons, documentation};
pub use context::{Context, PuntSink, Punted};
pub use counters::{Counter, Counters};
pub use reason::{CustomReasons, Kind, Reason, ReasonInfo};
pub use registry::ModuleId;
pub use tables::{RuleLists, Tables};
pub use taps::Taps;
pub use trace::Trace;
