// SPDX-License-Identifier: MIT
//! The tests of the IPv4 rows, by topic. The sentences above them say what the RFC's text demands.

pub mod addresses;
pub mod arp;
pub mod errors;
pub mod fragments;
pub mod header;
pub mod messages;
pub mod options;
pub mod redirects;

use crate::bench::Bench;
use crate::wire::{Packet4, options::NOTHING};

/// Two packets, plain and with options: a router may have a fast path for the first and a slow one for the second.
fn both(bench: &mut Bench, make: impl Fn(&mut Bench) -> Packet4) -> [(&'static str, Packet4); 2] {
    [("plain", make(bench)), ("with options", make(bench).options(&NOTHING))]
}
