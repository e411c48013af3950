// SPDX-License-Identifier: MIT
//! The tests of the IPv6 rows, by topic. The sentences above them say what the RFC's text demands.

pub mod addresses;
pub mod discovery;
pub mod errors;
pub mod extensions;
pub mod forwarding;
pub mod neighbors;
pub mod router;

use crate::bench::Bench;
use crate::judge::{Judged, demand};
use crate::wire::{Caught, Packet6, pad};

/// Two packets, plain and with hop-by-hop options: a router may have a fast path for the first and a slow one for the
/// second.
fn both(bench: &mut Bench, make: impl Fn(&mut Bench) -> Packet6) -> [(&'static str, Packet6); 2] {
    [("plain", make(bench)), ("with hop-by-hop options", make(bench).extension(pad()))]
}

/// Demands that a packet that was forwarded is as it was but for the hop limit.
fn is_unchanged(packet: &Packet6, out: &Caught) -> Judged {
    let (was, is) = (packet.to_vec(), out.packet());
    let total = was.len();
    let changed = |at: &usize| *at != 7 && was.get(*at) != is.get(*at);
    let found = (0..total).find(changed);
    demand(found.is_none(), format_args!("byte {} was changed", found.unwrap_or(0)))?;
    demand(
        is[7] == packet.hop_limit.wrapping_sub(1),
        format_args!("the hop limit is {}, it was {}", is[7], packet.hop_limit),
    )
}
