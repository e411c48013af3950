// SPDX-License-Identifier: MIT
//! Packets: header views that check once and are safe afterwards, checksums, and the batches that packets travel in.
//!
//! ```text
//! wire        header views: ethernet > vlan > arp | ipv4 > icmp4, udp | ipv6 > icmp6, udp; checksums, flows
//! batch       batches of packets: mask (which slots), scatter, rebatch (at transmit); ports, and heap memory for tests
//! expression  filters in tcpdump's syntax
//! ```
//!
//! This crate imports perigee-net alone, knows no clock, thread or socket, and has `unsafe` in a few files only:
//! `batch.rs` and, in `batch`, `packet.rs`, `moves.rs`, `slot.rs` and `columns`, which own and lend packet memory,
//! `lanes`, which has vector instructions, and `heap.rs`, which is packet memory for tests.
#![deny(unsafe_code)]

pub mod batch;
pub mod expression;
pub mod wire;

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use batch::cut::Cutting;
pub use batch::lanes::Isa;
pub use batch::mask::{BATCH_SIZE, Mask};
pub use batch::port::{Link, Pool, Port, PortInfo, PortStats, ReceiveQueue, SuperFrames, TransmitQueue, Wakes, pause};
pub use batch::rebatch::TransmitBuffer;
pub use batch::{Batch, Handle, Memory, NoRoom, Packet, Slot, frame_of};
pub use expression::{Expression, ExpressionError};
pub use wire::{
    Arp, Ethernet, ExtensionHeaders, Icmp4, Icmp6, Ipv4, Ipv4Option, Ipv4Options, Ipv6, Ipv6Option, Ipv6Options,
    Malformed, NdOption, NdOptions, Summary, SuperFrame, Udp, Vlan,
};
