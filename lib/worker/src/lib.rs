// SPDX-License-Identifier: MIT
//! A core's loop: its receive queues, its way to the slow path, its transmit buffers, its view of the tables.
//!
//! ```text
//!  receive queue or ring --> Worker::receive --> the script's batch --> modules --> transmit buffers --> port or ring
//!                              |  a flow of another worker's: over a ring              |
//!                              v                                                       v punts
//!                            [`spread`]                                             [`punt`] ring --> slow path
//! ```
//!
//! The loop itself is a Lua script (lib/lua) or [`native::run`], its twin in Rust. Both call [`Worker::receive`] for
//! every queue and [`Worker::housekeeping`] once per round: there tables change, timeouts pass, and an idle worker
//! sleeps.
#![forbid(unsafe_code)]

mod idle;
pub mod native;
pub mod pipe;
pub mod punt;
pub mod spread;
mod sync;
mod worker;

pub use idle::{Idle, LONGEST_NAP, LONGEST_SLEEP, wake_in_time};
pub use pipe::Pipe;
pub use punt::{Bell, PuntReader, PuntRings, punt_rings};
pub use spread::Spread;
pub use worker::{Clock, Receiver, Stop, Worker, WorkerParts};
