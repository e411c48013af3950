// SPDX-License-Identifier: MIT
//! Is it a valid IPv6 packet that may be forwarded (RFC 8200 section 3, RFC 4291 section 2)?
//!
//! Valid packets go on. Hop-by-hop options, multicast and link-local addresses go to the slow path. Broken ones and
//! addresses that no packet on a wire may have are dropped, each under its reason. Bytes behind the packet are cut off,
//! but for the padding of the shortest Ethernet frame.
//!
//! Cost: one read of the header's 40 bytes; everything unusual is looked at again out of line.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_packet::{Batch, Mask, Slot};

/// What it does, for the documentation.
pub const SUMMARY: &str =
    "Drops broken IPv6 packets; sends hop-by-hop options, multicast and link-local ones to the slow path.";

reasons! { ipv6_valid:
    drop SHORT = "short", "RFC 8200 3", "fewer bytes than an IPv6 header has";
    drop VERSION = "version", "RFC 8200 3", "the version is not 6";
    drop TRUNCATED = "truncated", "RFC 8200 3", "the payload length is more than was received";
    drop MULTICAST_SOURCE = "multicast_source", "RFC 4291 2.7", "the source is a multicast group";
    drop LOOPBACK = "loopback", "RFC 4291 2.5.3", "source or destination is ::1";
    drop UNSPECIFIED = "unspecified", "RFC 4291 2.5.2", "source or destination is ::";
    punt HOP_BY_HOP = "hop_by_hop", "RFC 8200 4.3", "a hop-by-hop options header follows";
    punt MULTICAST = "multicast", "RFC 4291 2.7", "the destination is a multicast group";
    punt LINK_LOCAL = "link_local", "RFC 4291 2.5.6", "source or destination is link-local: never forwarded";
}

const SHORTEST_FRAME: usize = 60;

/// The module.
pub fn ipv6_valid(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    ctx.counters.module(ModuleId::ipv6_valid, mask.count());
    let mut odd = Mask::EMPTY;
    for packet in batch.packets(*mask) {
        odd.set_if(packet.index(), !is_plain(&packet));
    }
    if !odd.is_empty() {
        *mask = *mask - odd | look_again(ctx, batch, odd);
    }
}

/// True for what nearly all packets are: a valid header, global unicast addresses, nothing behind the packet.
#[inline(always)]
fn is_plain(packet: &Slot<'_>) -> bool {
    let Some(header) = packet.network::<40>() else { return false };
    let frame = packet.frame().len();
    let available = frame - usize::from(packet.l3());
    let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let lengths = (total <= available) & ((total == available) | (frame <= SHORTEST_FRAME));
    (header[0] >> 4 == 6) & lengths & (header[6] != 0) & is_plain_address(header[8]) & is_plain_address(header[24])
}

/// By its first byte: neither ::/8, which holds :: and ::1, nor fe00::/7, which holds link-local addresses and groups.
#[inline(always)]
fn is_plain_address(first: u8) -> bool {
    (first != 0) & (first < 0xfe)
}

#[inline(never)]
fn look_again(ctx: &mut Context, batch: &mut Batch, odd: Mask) -> Mask {
    let mut fine = Mask::EMPTY;
    for slot in odd {
        let Some(mut packet) = batch.slot(slot) else { continue };
        match verdict(&mut packet) {
            None => fine.set(slot),
            Some(reason @ (HOP_BY_HOP | MULTICAST | LINK_LOCAL)) => ctx.punt(batch, Mask::only(slot), reason),
            Some(reason) => ctx.drop(batch, Mask::only(slot), reason),
        }
    }
    fine
}

/// Why the packet cannot go on; `None` if it can.
fn verdict(packet: &mut Slot<'_>) -> Option<crate::Reason> {
    let l3 = usize::from(packet.l3());
    let bytes = packet.frame().get(l3..).unwrap_or(&[]);
    let Some(header) = bytes.first_chunk::<40>() else { return Some(SHORT) };
    let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let address = |at: usize| u128::from_be_bytes(std::array::from_fn(|i| header[at + i]));
    let (source, destination) = (address(8), address(24));
    let is_link_local = |a: u128| a >> 118 == 0xfe80 >> 6;
    if header[0] >> 4 != 6 {
        Some(VERSION)
    } else if total > bytes.len() {
        Some(TRUNCATED)
    } else if source >> 120 == 0xff {
        Some(MULTICAST_SOURCE)
    } else if source == 1 || destination == 1 {
        Some(LOOPBACK)
    } else if destination >> 120 == 0xff {
        Some(MULTICAST)
    } else if source == 0 || destination == 0 {
        Some(UNSPECIFIED)
    } else if is_link_local(source) || is_link_local(destination) {
        Some(LINK_LOCAL)
    } else if header[6] == 0 {
        Some(HOP_BY_HOP)
    } else {
        if bytes.len() > total && packet.frame().len() > SHORTEST_FRAME {
            let shortened = packet.resize(l3 + total);
            debug_assert!(shortened.is_ok());
        }
        None
    }
}
