// SPDX-License-Identifier: MIT
//! Packets in, packets out, under a virtual clock. `world.rs` is the harness; the others are tests by topic. Comments
//! name the sections of the RFCs that a test is about.
#![forbid(unsafe_code)]

mod anycast;
mod arp;
mod assistant;
mod bounds;
mod floods;
mod forward;
mod forward6;
mod fragments;
mod fragments6;
mod fuzz;
mod icmp;
mod icmp6;
mod linux_only;
mod multicast;
mod nd;
mod proxy;
mod redirect;
mod stations;
mod strangers;
mod twin;
mod unnumbered;
mod world;
