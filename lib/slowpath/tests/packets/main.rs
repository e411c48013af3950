// SPDX-License-Identifier: MIT
//! Packets in, packets out, under a virtual clock. `world.rs` is the harness; the others are tests by topic. A number in a
//! comment is a row of the conformance lists.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod arp;
mod bounds;
mod forward;
mod forward6;
mod fuzz;
mod icmp;
mod icmp6;
mod nd;
mod twin;
mod world;
