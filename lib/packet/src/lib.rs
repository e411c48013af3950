// SPDX-License-Identifier: MIT
//! Packets: header views that check once and are safe after, checksums, and the batches that packets travel in.
//!
//! ```text
//! bytes   ethernet > vlan > arp | ipv4 > icmp4, udp, tcp | ipv6 > icmp6, udp, tcp      checksum, flow, addr
//! batch   mask (which slots)   batch (who owns them)   scatter (split, masks, drop-out)   rebatch (at transmit)
//! looks   summary (what is in a frame, in a line)   expression (tcpdump-like filters)
//! ports   port (what a worker needs of a device)   heap (packets and queues without one)
//! ```
//!
//! This crate imports nothing, knows no clock, thread or socket, and has `unsafe` in two files only: `batch.rs`, which owns
//! packet memory, and `heap.rs`, which is such memory.
#![deny(unsafe_code)]

pub mod addr;
pub mod arp;
pub mod batch;
mod bytes;
#[cfg(test)]
mod captured;
pub mod checksum;
pub mod ethernet;
pub mod expression;
pub mod extension;
pub mod flow;
pub mod heap;
pub mod icmp4;
pub mod icmp6;
pub mod ipv4;
pub mod ipv4_options;
pub mod ipv6;
pub mod malformed;
pub mod mask;
pub mod nd_options;
pub mod port;
pub mod protocol;
pub mod rebatch;
pub mod scatter;
pub mod summary;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use addr::MacAddr;
pub use arp::Arp;
pub use batch::{Batch, Handle, Memory, NoRoom, Packet, Slot};
pub use ethernet::Ethernet;
pub use expression::{Expression, ExpressionError};
pub use extension::{ExtensionHeaders, Ipv6Option, Ipv6Options};
pub use icmp4::Icmp4;
pub use icmp6::Icmp6;
pub use ipv4::Ipv4;
pub use ipv4_options::{Ipv4Option, Ipv4Options};
pub use ipv6::Ipv6;
pub use malformed::Malformed;
pub use mask::{BATCH_SIZE, Mask};
pub use nd_options::{NdOption, NdOptions};
pub use port::{Link, Pool, Port, PortInfo, PortStats, ReceiveQueue, TransmitQueue};
pub use rebatch::TransmitBuffer;
pub use summary::Summary;
pub use tcp::Tcp;
pub use udp::Udp;
pub use vlan::Vlan;
