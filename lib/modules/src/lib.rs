// SPDX-License-Identifier: MIT
//! What a module is and sees, and the modules themselves: one file each, and one line in the [`registry`].
//!
//! ```text
//! classify > ipv4_valid  > filter > ipv4_lookup > mtu > ttl       > apply > distribute
//!          > ipv6_valid           > ipv6_lookup       > hop_limit
//! ```
//!
//! A module is a function of the worker's [`Context`], a batch and a mask (or two, one per family). It narrows the mask to
//! the packets that go on; the rest it drops or punts under a [`Reason`] of its own. It takes no clock, no lock, no memory.
#![forbid(unsafe_code)]

pub mod context;
pub mod counters;
pub mod reason;
pub mod registry;
pub mod tables;
pub mod taps;
pub mod trace;

pub mod apply;
pub mod classify;
pub mod count;
pub mod distribute;
pub mod filter;
pub mod hop_limit;
pub mod host;
pub mod ipv4_lookup;
pub mod ipv4_valid;
pub mod ipv6_lookup;
pub mod ipv6_valid;
mod lookup;
pub mod mtu;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod ttl;

pub use context::{Context, PuntSink, Punted};
pub use counters::{Counter, Counters};
pub use reason::{CustomReasons, Kind, Reason, ReasonInfo};
pub use registry::{MODULES, Module, ModuleId, Run};
pub use tables::Tables;
pub use taps::Taps;
pub use trace::Trace;
