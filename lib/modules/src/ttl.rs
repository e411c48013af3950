// SPDX-License-Identifier: MIT
//! Takes one off the TTL of IPv4 packets and corrects the header checksum (RFC 1812 5.3.1, RFC 1624).
//!
//! Packets whose TTL would reach 0 go to the slow path as they came, for an ICMP Time Exceeded.
//!
//! Cost: one read and one write of the header, whose cache line is there already.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_packet::{Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Takes one off the TTL; expired packets go to the slow path for an ICMP error.";

reasons! { ttl:
    punt EXPIRED = "expired", "RFC 1812 5.3.1", "the TTL would reach 0";
}

/// The module.
pub fn ttl(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    ctx.counters.module(ModuleId::ttl, mask.count());
    let mut expired = Mask::EMPTY;
    for mut packet in batch.packets(*mask) {
        let slot = packet.index();
        match packet.network_mut::<20>() {
            Some(header) if header[8] > 1 => {
                header[8] -= 1;
                // 0x0100 less in the header is 0x0100 more in its checksum; the carry goes round. 0xffff cannot come
                // out but from 0xfeff, and would mean 0 (RFC 1624 section 3).
                let old = u16::from_be_bytes([header[10], header[11]]);
                let (sum, carry) = old.overflowing_add(0x0100);
                let new = if sum == 0xffff { 0 } else { sum + u16::from(carry) };
                [header[10], header[11]] = new.to_be_bytes();
            }
            _ => expired.set(slot),
        }
    }
    ctx.punt(batch, expired, EXPIRED);
    *mask -= expired;
}
