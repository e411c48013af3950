// SPDX-License-Identifier: MIT
//! Measuring: which frames to send and when, what came back, how to look for a device's throughput, and how to report
//! it.
//!
//! No device, clock, socket or thread is in here: time is an argument, and packets come from the traits of
//! `lib/packet`, so all of it is tested on the heap. `bin/perigee` connects it to ports.
#![forbid(unsafe_code)]

pub mod buckets;
pub mod compare;
pub mod environment;
pub mod pace;
pub mod received;
pub mod replay;
pub mod report;
pub mod resident;
pub mod run;
pub mod search;
pub mod stamp;
pub mod station;
pub mod tester;
pub mod traffic;
pub mod verdict;
