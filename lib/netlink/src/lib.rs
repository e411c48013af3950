// SPDX-License-Identifier: MIT
//! Linux's view of the network, followed by netlink (RFC 3549): links, addresses, neighbors, next-hop objects, routes.
//!
//! | file | contents |
//! | --- | --- |
//! | `wire.rs` | the layout of messages and attributes; numbers |
//! | `message.rs` | what a message means |
//! | `decode.rs` | from bytes to messages, whatever the bytes are |
//! | `feed.rs` | the thread that reads the two sockets, dumps first and again when notifications were lost |
//! | `fpm.rs` | routes from FRR's zebra over TCP (FPM), as the same updates |
//! | `filters.rs` | what Linux does to forwarded packets: chains of nftables, policies of IPsec |
//! | `statistics.rs` | asks the kernel what it has lost on an interface |
//! | `background.rs` | what the threads of both have in common |
//!
//! The netlink crates (`rtnetlink`, `netlink-packet-route`) serve the helper, which changes little and seldom. Routes
//! come by the million: `decode.rs` allocates nothing for one (`cargo run --release -p perigee-netlink --example
//! decode` compares).

#![forbid(unsafe_code)]

mod background;
pub mod decode;
mod feed;
mod filters;
pub mod fpm;
pub mod message;
mod statistics;
pub mod wire;

pub use feed::{Scope, Source, SourceCounters, Update, follow};
pub use filters::{forward_chains, ipsec_policies};
pub use statistics::{KernelStatistics, LinkLosses, LinkStatistics};

#[cfg(test)]
mod tests;
