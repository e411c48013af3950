// SPDX-License-Identifier: MIT
//! The laboratory: network namespaces with real hosts in them, routing daemons, and a router between them. The demo,
//! the scenarios and the benchmarks are built from it.
//!
//! ```text
//! isolation   may we make namespaces, and how? the command that runs a program inside new ones
//! World       that inside: the router's namespace, a private /run, what is needed to make the rest
//! Host        a namespace with an eth0 whose other end is an interface for a port
//! Wire        a TAP as a port's interface: frames go in and come out byte by byte
//! Device      what a tester measures, between two cables: Linux, perigee, testpmd or any command line
//! Router      a running `perigee run`
//! Bird, Frr   routing daemons, next to the router or on a host; `bird::Configuration`, `frr::bgp`: their configurations
//! Pings       ping's command line, and how many of its requests were answered
//! seen        what /proc says about processes: helpers, memory
//! Process     what all of these are: started, watched, killed by its number, never outliving its handle
//! wait_for    what all of these wait by; PERIGEE_PATIENCE multiplies its bounds
//! tools       which programs and packages are missing
//! ```
//!
//! Everything returns an error whose sentence says what was found, expected, and what to do; a test turns it into a
//! panic.
#![forbid(unsafe_code)]

pub mod bird;
pub mod device;
pub mod frr;
mod host;
pub mod isolation;
mod open;
mod ping;
mod place;
mod process;
mod router;
pub mod seen;
pub mod tools;
mod waiting;
mod wire;
mod world;

pub use bird::Bird;
pub use device::Device;
pub use frr::Frr;
pub use host::Host;
pub use isolation::Isolation;
pub use ping::{Pings, Replies, RoundTrip};
pub use place::Place;
pub use process::{Ended, Process, end_after, run};
pub use router::{Launch, Router, program};
pub use rustix::process::Signal;
pub use waiting::{LONG_WAIT, LONGEST_WAIT, PATIENCE, budgets, patient, wait_for, wait_seeing, wait_until};
pub use wire::Wire;
pub use world::World;
