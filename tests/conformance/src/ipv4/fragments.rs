// SPDX-License-Identifier: MIT
//! Fragmentation and reassembly: RFC 1812 4.2.2.7, 4.2.2.8 and 5.2.6, RFC 791 3.1 and 3.2, RFC 1191 4.

use super::both;
use crate::bench::{Bench, LIMIT};
use crate::judge::{Case as _, Judged, demand, same};
use crate::network::NARROW;
use crate::network::Side::{Left, Right};
use crate::seen::is_echo_of4;
use crate::wire::{Caught, Packet4, Probe as _, options};

/// A packet of 1500 bytes, for which the right link is too small.
fn large(bench: &mut Bench) -> Packet4 {
    Packet4::udp(bench.number(), Left.station4(), Right.station4(), 1472)
}

/// As long as before with options.
fn fitted(mut packet: Packet4, total: usize) -> Packet4 {
    packet.payload.truncate(total - packet.header_len());
    packet
}

/// Demands that a packet comes out in fragments that are right: together its payload, each short enough for the link,
/// in steps of 8 bytes, with its identification and a TTL less by one; the last one says that more follow if the packet
/// says so.
pub fn cut(bench: &mut Bench, packet: &Packet4) -> Judged<Vec<Caught>> {
    bench.begin()?;
    bench.send(Left, packet)?;
    let length = |caught: &Caught| caught.ip4().map_or(0, |view| view.total_len() - view.header_len());
    bench.wait(LIMIT, |log| {
        let payload: usize = log.iter().filter(|caught| packet.is_in(caught)).map(length).sum();
        payload >= packet.payload.len() || log.iter().any(|caught| packet.error_in(caught).is_some())
    })?;
    bench.settle(Left)?;
    let seen = bench.seen(packet);
    seen.is_without_error()?;
    let mut pieces = seen.passed;
    demand(pieces.len() > 1, format_args!("found {} fragments, expected several", pieces.len()))?;
    pieces.sort_by_key(|caught| caught.ip4().map_or(0, |view| view.fragment_offset()));
    let mut next = usize::from(packet.flags & 0x1fff) * 8;
    let mut payload = Vec::new();
    let last = pieces.len() - 1;
    for (number, piece) in pieces.iter().enumerate() {
        same("link of a fragment", piece.side, Right)?;
        let view = piece.ip4().filter(|view| view.verify_checksum());
        let Some(view) = view else { return crate::judge::fail("a fragment's header is wrong") };
        demand(view.total_len() <= NARROW, format_args!("a fragment has {} bytes, too many", view.total_len()))?;
        same("TTL of a fragment", view.ttl(), packet.ttl - 1)?;
        same("offset of a fragment", view.fragment_offset(), next)?;
        let more = number < last || packet.flags & 0x2000 != 0;
        same("more fragments to follow", view.more_fragments(), more)?;
        let bytes = &view.into_inner()[view.header_len()..view.total_len()];
        demand(number == last || bytes.len() % 8 == 0, "a fragment but the last is no multiple of 8 bytes")?;
        next += bytes.len();
        payload.extend_from_slice(bytes);
    }
    demand(payload == packet.payload, "the fragments together are not the packet")?;
    Ok(pieces)
}

/// 5.2.6: routers MUST support fragmentation as RFC 791 describes it.
pub fn too_large_packets_are_cut(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, large) {
        let packet = fitted(packet, 1500);
        cut(bench, &packet).case(path)?;
    }
    // One byte too many.
    let packet = large(bench);
    let packet = fitted(packet, NARROW + 1);
    cut(bench, &packet).map(|_| ())
}

/// 5.2.6, RFC 791 3.2: a fragment is cut as a whole packet is; its offset and that more follow are kept.
pub fn fragments_are_cut(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| Packet4::udp(bench.number(), Left.station4(), Right.station4(), 4000)) {
        let room = (1500 - packet.header_len()) / 8 * 8;
        for offset in [0, room] {
            cut(bench, &packet.piece(offset, room)).case(format_args!("offset {offset}, {path}"))?;
        }
        // The last one: nothing follows.
        let offset = packet.payload.len() / 8 * 8 - room + 8;
        cut(bench, &packet.piece(offset, room)).case(format_args!("the last one, {path}"))?;
    }
    Ok(())
}

/// RFC 791 3.1: options with the copied flag are in all fragments, the others in the first one alone.
pub fn copied_options(bench: &mut Bench) -> Judged {
    let both = [options::NOT_COPIED, options::COPIED].concat();
    let packet = large(bench);
    let packet = fitted(packet.options(&both), 1500);
    let pieces = cut(bench, &packet)?;
    let has = |piece: &Caught, option: [u8; 4]| {
        piece.ip4().is_some_and(|view| view.header()[20..].windows(4).any(|four| four == option))
    };
    for (number, piece) in pieces.iter().enumerate() {
        demand(has(piece, options::COPIED), format_args!("fragment {number} lacks the option that is to be copied"))?;
        let wanted = number == 0;
        let words = if wanted { "lacks" } else { "has" };
        demand(
            has(piece, options::NOT_COPIED) == wanted,
            format_args!("fragment {number} {words} the option that is only in the first one"),
        )?;
    }
    Ok(())
}

/// 5.2.6: a router MUST NOT reassemble any datagram before it forwards it. So a fragment passes though others are
/// missing, and as it came.
pub fn transit_is_not_reassembled(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| Packet4::udp(bench.number(), Left.station4(), Right.station4(), 1000)) {
        let mut pieces = packet.pieces(400);
        // The last one first, the first one never.
        pieces.reverse();
        pieces.pop();
        for piece in pieces {
            let out = bench.pass(Left, &piece, Right).case(path)?;
            let (was, is) = (piece.to_vec(), out.packet());
            demand(is.len() >= was.len() && is[20..was.len()] == was[20..], format_args!("it was changed, {path}"))?;
            same(format_args!("flags and offset, {path}"), &is[2..8], &was[2..8])?;
        }
        for piece in packet.pieces(400) {
            bench.pass(Left, &piece, Right).case(format_args!("in order, {path}"))?;
        }
    }
    Ok(())
}

/// 4.2.2.8: routers MUST support reassembly, of datagrams to themselves (RFC 1122 3.3.2).
pub fn own_packets_are_reassembled(bench: &mut Bench) -> Judged {
    for order in ["in order", "backwards", "the last one first"] {
        for (path, echo) in both(bench, |bench| bench.echo4(Left, 1200)) {
            let mut pieces = echo.pieces(400);
            match order {
                "backwards" => pieces.reverse(),
                "the last one first" => pieces.rotate_right(1),
                _ => {}
            }
            bench.begin()?;
            for piece in &pieces {
                bench.send(Left, piece)?;
            }
            bench
                .expect("the echo reply", |caught| is_echo_of4(caught, &echo))
                .case(format_args!("{order}, {path}"))?;
        }
    }
    Ok(())
}

/// RFC 1191 4: a packet that is too large and must not be fragmented is dropped; Destination Unreachable code 4 has the
/// MTU of the next hop in the lower half of its second word.
pub fn too_large_and_not_to_be_cut(bench: &mut Bench) -> Judged {
    for total in [NARROW + 1, 1500] {
        for (path, packet) in both(bench, large) {
            let packet = fitted(packet, total).dont_fragment();
            let error = bench.refused(Left, &packet, 3, 4).case(format_args!("{total} bytes, {path}"))?;
            same(format_args!("MTU, {path}"), error.rest as usize, NARROW)?;
        }
    }
    for (path, packet) in both(bench, large) {
        let packet = fitted(packet, NARROW).dont_fragment();
        bench.pass(Left, &packet, Right).case(format_args!("{NARROW} bytes, {path}"))?;
    }
    Ok(())
}
