// SPDX-License-Identifier: MIT
//! Queues of one core: mean and distribution of the sojourn time, batch sizes, loss.
//!
//! | module | answers |
//! | --- | --- |
//! | [`single`] | M/G/1 mean (Pollaczek, Khinchine), M/D/1 distribution (Franx 2001) |
//! | [`chain`] | a server that takes up to B packets at once from a ring with K places, with size mixes and sleep: loss, means |
//! | [`sojourn`] | the same server's distribution of the sojourn time, on a grid |
//! | [`events`] | the same server event by event, with polls, transmit buffer and pauses: for what has no closed form |
//! | [`poisson`] | arrivals in an interval |
//!
//! Times are nanoseconds, rates packets per nanosecond. All sums have positive terms only, so nothing cancels out and a
//! loss of 1e-12 is as exact as one of 0.1.

pub mod chain;
pub mod events;
pub mod poisson;
pub mod single;
pub mod sojourn;

#[cfg(test)]
pub(crate) mod brute;

pub use chain::{BatchServer, Sleep, Steady, TooLarge};
pub use single::Md1;
pub use sojourn::Distribution;
