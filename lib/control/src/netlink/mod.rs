// SPDX-License-Identifier: MIT
//! Linux' view of the network, followed by netlink (RFC 3549): links, addresses, neighbors, next-hop objects, routes.
//!
//! | file | contents |
//! | --- | --- |
//! | `wire.rs` | the shape of messages and attributes; numbers |
//! | `message.rs` | what a message says |
//! | `decode.rs` | from the one to the other, whatever the bytes are |
//! | `socket.rs` | the two sockets: one for news, one for dumps |
//! | `feed.rs` | the thread that reads them, dumps first and again when news were lost |
//!
//! The crates for netlink (`rtnetlink`, `netlink-packet-route`) serve the helper, which changes little and seldom. Routes come
//! by the million: `decode.rs` makes no memory for one (`cargo run --release -p perigee-control --example decode` compares).

pub mod decode;
mod feed;
pub mod message;
mod socket;
pub mod wire;

pub use feed::{Feed, Scope, Source, SourceCounters, Update};
pub use socket::{NetlinkSockets, open_links, open_monitor, open_plain};

#[cfg(test)]
mod tests;
