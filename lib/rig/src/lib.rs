// SPDX-License-Identifier: MIT
//! A test rig: a router's worker between a source and a sink that are made in memory, loaded fully or at any rate, on
//! the cores of one process.
//!
//! ```text
//!  Arrivals ─► Source ─► Worker: the script, or its twin in Rust ─► TransmitBuffer ─► Sink ─► Sojourns
//!  a schedule  makes packets, with the time             │                      takes them, sees how long they were under way
//!              of their arrival                         └► punt ring ─► a thread that empties it
//! ```
//!
//! Sources have their packets come by a schedule, whoever looks: what a worker does not fetch in time waits in a ring,
//! or is lost. So one core is enough to load a worker and to see how late its packets are, and nothing beside it
//! disturbs it.
#![forbid(unsafe_code)]

mod arrivals;
mod cores;
mod devices;
mod duration;
mod gauge;
mod kept;
mod pauses;
mod punts;
mod request;
mod rig;
mod rounds;
mod sink;
mod slow;
mod source;
mod tables;
mod traffic;
mod vantage;

pub use arrivals::{Arrivals, Load, Process};
pub use cores::{Cores, PRETEND};
pub use duration::{Estimate, estimate, words};
pub use pauses::{Pauses, pauses};
pub use request::{Idle, Io, Lookups, Loop, Request, Routes, Sample, Sojourn};
pub use rig::{Rig, Settings, enough_hugepages, memory_mb};
pub use rounds::{Manner, Rounds, SoFar, in_rounds, noise_percent};
pub use slow::slow_path_ns;
pub use tables::{MOST_NETWORKS, MOST_PORTS};
pub use traffic::SIZES;
pub use vantage::Vantage;
