// SPDX-License-Identifier: MIT
//! Linux interfaces as ports, without DPDK: by packet sockets, with no privileges beyond CAP_NET_RAW, or by AF_XDP
//! sockets, as root.
//!
//! ```text
//! port       SocketPort: opens the sockets, knows the interface, counts; finds it again when it comes back
//! receive    RxQueue: from a ring that the kernel fills, copied into buffers of a pool; receive/long: super-frames
//! transmit   TxQueue: sendmmsg
//! xdp        XdpPort: the same by AF_XDP sockets; xdp/receive, xdp/transmit
//! linux_port LinuxPort: stays Linux's, with a program that forwards
//! checksum   finishes checksums that the sender left to its device
//! close      the end of many sockets
//! rehearsal  a receive queue without a kernel, for a fuzz target
//! error      what went wrong, in one sentence
//! sys        everything unsafe: rings, system calls, XDP programs at interfaces
//! ```
#![deny(unsafe_code)]

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod checksum;
mod close;
mod error;
mod linux_port;
mod port;
mod receive;
#[doc(hidden)]
pub mod rehearsal;
mod sys;
mod transmit;
mod xdp;

pub use close::{close_together, side_by_side};
pub use error::{Error, Result};
pub use linux_port::{LinuxPort, Watch};
pub use port::{Buffers, SocketConfig, SocketPort};
pub use receive::RxQueue;
pub use sys::{attach, pin, pinned, put_socket, replace, sockets_of, takes_redirected};
pub use transmit::TxQueue;
pub use xdp::{Below, FrameProgram, XdpPort, XdpRxQueue, XdpTxQueue};
