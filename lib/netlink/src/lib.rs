// SPDX-License-Identifier: MIT
//! Linux' view of the network, followed by netlink (RFC 3549): links, addresses, neighbors, next-hop objects, routes.
//!
//! | file | contents |
//! | --- | --- |
//! | `wire.rs` | the shape of messages and attributes; numbers |
//! | `message.rs` | what a message says |
//! | `decode.rs` | from the one to the other, whatever the bytes are |
//! | `feed.rs` | the thread that reads the two sockets, dumps first and again when notifications were lost |
//! | `fpm.rs` | routes from FRR's zebra over TCP (FPM), as the same updates |
//!
//! The crates for netlink (`rtnetlink`, `netlink-packet-route`) serve the helper, which changes little and seldom. Routes come
//! by the million: `decode.rs` makes no memory for one (`cargo run --release -p perigee-netlink --example decode` compares).

#![forbid(unsafe_code)]

pub mod decode;
mod feed;
pub mod fpm;
pub mod message;
pub mod wire;

pub use feed::{Feed, Scope, Source, SourceCounters, Update};

#[cfg(test)]
mod tests;
