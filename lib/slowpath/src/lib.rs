// SPDX-License-Identifier: MIT
//! The slow path: everything that the fast path cannot do. A pure state machine, `(now, packet) -> packets and events`.
//!
//! ```text
//! handle(now, input, routes) ─► frame ─► arp     ─┐
//! handle_timeout(now, routes)        ├► nd        ├► neighbor ─► poll_output(): Transmit, ToTwin, Event
//! next_timeout()                     ├► local (reassembly) ─► icmp, icmp6 (echo, errors; rate)
//!                                    ├► forward (options, fragment, redirect)
//!                                    ├► multicast (the same, for each interface of a group's route)
//!                                    └► twin (what Linux gets, once its source has answered)
//! ```
//!
//! It is a full router: a punted frame is the original one, before any change, and goes through every step again, so
//! that a packet is treated alike on either path. Copies of what the fast path sends back ([`Input::SentBack`]) are not
//! forwarded. Only what is rare comes here, so the code prefers simplicity to speed. It has no clock, socket, thread or
//! randomness: the same inputs give the same outputs. All its memory is bounded by [`Config`]. On further threads
//! [`Assistant`]s judge packets by the same rules.
//!
//! Frames are untagged inside: a received frame's VLAN tag is removed if it is the interface's own, and the caller,
//! which transmits an [`Output`], adds the interface's tag.
#![forbid(unsafe_code)]

mod arp;
mod assistant;
mod counters;
mod forward;
mod forward6;
mod fragment;
mod frame;
mod icmp;
mod icmp6;
mod identification;
mod interface;
mod local;
mod machine;
mod multicast;
mod nd;
mod neighbor;
mod options;
mod proxy;
mod rate;
mod reassembly;
mod redirect;
mod source;
mod twin;
mod types;

pub use assistant::Assistant;
pub use counters::{Count, CounterKind, Counters, Drops};
pub use interface::{AddressInfo, AddressState, InterfaceTable};
pub use machine::SlowPath;
pub use neighbor::{NeighborInfo, NeighborState, NeighborUsage};
pub use rate::Limits;
pub use reassembly::Reassembling;
pub use types::{Config, Event, GroupPacket, Input, MulticastDecision, Output, RouteDecision, Routes, Time, Treatment};
