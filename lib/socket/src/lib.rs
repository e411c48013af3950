// SPDX-License-Identifier: MIT
//! Linux interfaces as ports, by packet sockets: no DPDK, and no privileges beyond CAP_NET_RAW.
//!
//! ```text
//! port       SocketPort: opens the sockets, knows the interface, counts; finds it again when it comes back
//! receive    RxQueue: from a ring that the kernel fills, copied into buffers of a pool; receive/long: super-frames
//! transmit   TxQueue: sendmmsg
//! checksum   finishes checksums that the sender left to its device
//! error      what went wrong, in one sentence
//! sys        everything unsafe: the ring, system calls
//! ```
#![deny(unsafe_code)]

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod checksum;
mod error;
mod port;
mod receive;
mod sys;
mod transmit;

pub use error::{Error, Result};
pub use port::{Buffers, SocketConfig, SocketPort};
pub use receive::RxQueue;
pub use transmit::TxQueue;
