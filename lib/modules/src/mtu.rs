// SPDX-License-Identifier: MIT
//! Does the packet fit the interface it leaves by?
//!
//! Those too big go to the slow path: to be fragmented (RFC 1812 5.2.6), or for an ICMP error with the MTU (RFC 1191,
//! RFC 4443 3.2). The check comes before TTL and hop limit are changed, so the slow path gets the packet as it came.
//!
//! Cost: a read of length and next hop, and of the interface's table entry. The frame is not touched.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_packet::{Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Sends packets larger than the outgoing interface's MTU to the slow path.";

reasons! { mtu:
    punt TOO_BIG4 = "ipv4_too_big", "RFC 1812 5.2.6", "larger than the outgoing interface's MTU: to be fragmented or refused";
    punt TOO_BIG6 = "ipv6_too_big", "RFC 4443 3.2", "larger than the outgoing interface's MTU: to be refused";
}

/// The module.
pub fn mtu(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let all = *ip4 | *ip6;
    ctx.counters.module(ModuleId::mtu, all.count());
    let mut too_big = Mask::EMPTY;
    for slot in all {
        let next_hop = ctx.tables.next_hop(batch.next_hop(slot));
        // A next hop that lost its neighbor since the lookup is no matter of size: apply finds it.
        let mtu = ctx.tables.interfaces.egress(next_hop.interface()).map_or(u16::MAX, |egress| egress.mtu);
        // Padding does not count as too big, as no link has an MTU below the shortest Ethernet frame.
        too_big.set_if(slot, batch.length(slot) - batch.l3(slot).min(batch.length(slot)) > usize::from(mtu));
    }
    if !too_big.is_empty() {
        ctx.punt(batch, too_big & *ip4, TOO_BIG4);
        ctx.punt(batch, too_big & *ip6, TOO_BIG6);
        *ip4 -= too_big;
        *ip6 -= too_big;
    }
}
