// SPDX-License-Identifier: MIT
//! Is it a valid IPv4 packet, by RFC 1812 section 5.2.2?
//!
//! Valid packets go on. Those with options, and those to a multicast group, go to the slow path. Broken ones are dropped,
//! each under its reason, and so are addresses that no packet on a wire may have (RFC 1812 5.3.7). The header checksum is
//! the device's word where it has one, else computed; there is no switch to turn it off. Bytes behind the packet are cut
//! off, but for the padding of the shortest Ethernet frame, which does no harm.
//!
//! Cost: one read of the header's 20 bytes; everything unusual is found by one test and looked at again out of line.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_packet::batch::flags;
use perigee_packet::{Batch, Ipv4, Malformed, Mask, Slot, ipv4};

/// What it does, for the documentation.
pub const SUMMARY: &str =
    "Drops broken IPv4 packets and martian addresses; sends packets with options to the slow path.";

reasons! { ipv4_valid:
    drop SHORT = "short", "RFC 1812 5.2.2 (1)", "fewer bytes than an IPv4 header has";
    drop CHECKSUM = "checksum", "RFC 1812 5.2.2 (2)", "the header checksum is wrong";
    drop VERSION = "version", "RFC 1812 5.2.2 (3)", "the version is not 4";
    drop HEADER_LENGTH = "header_length", "RFC 1812 5.2.2 (4)", "the header length is less than 5 words, or more than the frame has";
    drop TOTAL_LENGTH = "total_length", "RFC 1812 5.2.2 (5)", "the total length is less than the header's";
    drop TRUNCATED = "truncated", "RFC 1812 5.2.2", "the total length is more than was received";
    drop MARTIAN_SOURCE = "martian_source", "RFC 1812 5.3.7", "the source is 0/8, 127/8, a group or 240/4";
    drop MARTIAN_DESTINATION = "martian_destination", "RFC 1812 5.3.7", "the destination is 0/8, 127/8 or 240/4";
    punt OPTIONS = "options", "RFC 1812 5.2.4", "the header has options";
    punt MULTICAST = "multicast", "RFC 1812 5.2.1", "the destination is a multicast group";
}

/// Shortest Ethernet frame without FCS, in bytes: shorter ones are padded to it.
const SHORTEST_FRAME: usize = 60;

/// The module.
pub fn ipv4_valid(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    ctx.counters.module(ModuleId::ipv4_valid, mask.count());
    let mut odd = Mask::EMPTY;
    for packet in batch.packets(*mask) {
        odd.set_if(packet.index(), !is_plain(&packet));
    }
    if !odd.is_empty() {
        *mask = *mask - odd | look_again(ctx, batch, odd);
    }
}

/// True for what nearly all packets are: a valid header without options, unicast addresses, nothing behind the packet.
#[inline(always)]
fn is_plain(packet: &Slot<'_>) -> bool {
    let Some(header) = packet.network::<20>() else { return false };
    let frame = packet.frame().len();
    let available = frame - usize::from(packet.l3());
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let checked = match packet.flags() & (flags::IPV4_CHECKSUM_GOOD | flags::IPV4_CHECKSUM_BAD) {
        0 => header_sum(header) == 0xffff,
        word => word == flags::IPV4_CHECKSUM_GOOD,
    };
    let lengths = (total >= 20) & (total <= available) & ((total == available) | (frame <= SHORTEST_FRAME));
    (header[0] == 0x45) & checked & lengths & is_unicast(header[12]) & is_unicast(header[16])
}

/// By its first byte: an address that one host may have. 0/8, 127/8, groups and 240/4 are not.
#[inline(always)]
fn is_unicast(first: u8) -> bool {
    (first.wrapping_sub(1) < 223) & (first != 127)
}

/// One's complement sum of a header without options; 0xffff if its checksum is right (RFC 1071).
#[inline(always)]
fn header_sum(header: &[u8; 20]) -> u16 {
    // The sum does not depend on the byte order, so words are added as the machine reads them.
    let (words, _) = header.as_chunks::<4>();
    let sum: u64 = words.iter().map(|w| u64::from(u32::from_ne_bytes(*w))).sum();
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Finds out what is odd about packets; returns those that are fine after all.
#[inline(never)]
fn look_again(ctx: &mut Context, batch: &mut Batch, odd: Mask) -> Mask {
    let mut fine = Mask::EMPTY;
    for slot in odd {
        let Some(mut packet) = batch.slot(slot) else { continue };
        let only = Mask::only(slot);
        match verdict(&mut packet) {
            Verdict::Fine => fine.set(slot),
            Verdict::Drop(reason) => ctx.drop(batch, only, reason),
            Verdict::Punt(reason) => ctx.punt(batch, only, reason),
        }
    }
    fine
}

enum Verdict {
    Fine,
    Drop(crate::Reason),
    Punt(crate::Reason),
}

/// The checks in the order of RFC 1812 5.2.2, then the addresses.
fn verdict(packet: &mut Slot<'_>) -> Verdict {
    let l3 = usize::from(packet.l3());
    let bytes = packet.frame().get(l3..).unwrap_or(&[]);
    let checked = match packet.flags() & (flags::IPV4_CHECKSUM_GOOD | flags::IPV4_CHECKSUM_BAD) {
        0 => ipv4::validate(bytes),
        flags::IPV4_CHECKSUM_GOOD => Ipv4::new(bytes),
        _ if bytes.len() < ipv4::HEADER_LEN => Err(Malformed::Short),
        _ => Err(Malformed::Checksum),
    };
    let header = match checked {
        Ok(header) => header,
        Err(Malformed::Short) => return Verdict::Drop(SHORT),
        Err(Malformed::Checksum) => return Verdict::Drop(CHECKSUM),
        Err(Malformed::Version) => return Verdict::Drop(VERSION),
        Err(Malformed::TotalLength) if Ipv4::new_truncated(bytes).is_ok() => return Verdict::Drop(TRUNCATED),
        Err(Malformed::TotalLength) => return Verdict::Drop(TOTAL_LENGTH),
        Err(_) => return Verdict::Drop(HEADER_LENGTH),
    };
    let (source, destination, total) = (header.source(), header.destination(), header.total_len());
    if !is_unicast(source.octets()[0]) {
        Verdict::Drop(MARTIAN_SOURCE)
    } else if destination.is_multicast() {
        Verdict::Punt(MULTICAST)
    } else if !is_unicast(destination.octets()[0]) {
        Verdict::Drop(MARTIAN_DESTINATION)
    } else if header.has_options() {
        Verdict::Punt(OPTIONS)
    } else {
        if bytes.len() > total && packet.frame().len() > SHORTEST_FRAME {
            let shortened = packet.resize(l3 + total);
            debug_assert!(shortened.is_ok());
        }
        Verdict::Fine
    }
}
