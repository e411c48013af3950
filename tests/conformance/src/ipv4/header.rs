// SPDX-License-Identifier: MIT
//! Validation of the header, TTL, choice of the route: RFC 1812 4.2.2.9, 5.2.2 to 5.2.5, 5.3.1.

use super::both;
use crate::bench::Bench;
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::Side::{Left, Right, Third};
use crate::network::{GROUP4, SECOND_GATEWAY};
use crate::seen::is_echo_of4;
use crate::wire::{Caught, Changed, Packet4, RESERVED, seal};
use perigee_net::MacAddr;
use std::net::Ipv4Addr;

/// 5.2.2 (1): what the link layer says of the length must be enough for the shortest header, 20 bytes.
pub fn frame_shorter_than_a_header(bench: &mut Bench) -> Judged {
    for length in [0, 1, 10, 19] {
        let packet = bench.udp4();
        let short = Changed::new(&packet, |bytes| bytes.truncate(length));
        bench.silence(Left, &short).case(format_args!("{length} bytes of IP"))?;
    }
    Ok(())
}

/// 5.2.2 (2): "the IP checksum must be correct". A router MUST verify it.
pub fn bad_checksum(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| bench.udp4()) {
        for at in [10, 11] {
            let wrong = Changed::new(&packet, |bytes| bytes[at] ^= 1);
            bench.silence(Left, &wrong).case(path)?;
        }
        bench.pass(Left, &packet, Right).case(path)?;
    }
    let echo = bench.echo4(Left, 40);
    bench.silence(Left, &Changed::new(&echo, |bytes| bytes[10] ^= 0x80)).case("to the router")
}

/// Sends a packet with another first byte, whose checksum is right whatever a router takes for the header.
fn first_byte(bench: &mut Bench, first: u8) -> Judged {
    for length in [20, usize::from(first & 15) * 4] {
        for (path, packet) in both(bench, |bench| bench.udp4()) {
            let changed = Changed::new(&packet, |bytes| {
                bytes[0] = first;
                let length = length.clamp(12, bytes.len());
                seal(bytes, length);
            });
            bench.silence(Left, &changed).case(format_args!("first byte {first:#04x}, {path}"))?;
        }
    }
    Ok(())
}

/// 5.2.2 (3): "the IP version number must be 4".
pub fn version_is_not_4(bench: &mut Bench) -> Judged {
    [0x05, 0x15, 0x55, 0x65, 0xf5].into_iter().try_for_each(|first| first_byte(bench, first))
}

/// 5.2.2 (4): the header length must be enough for the shortest header, 5 words.
pub fn header_length_below_5(bench: &mut Bench) -> Judged {
    (0x40..0x45).try_for_each(|first| first_byte(bench, first))
}

/// 5.2.2 (5): the total length must be enough for the header that the header length gives.
pub fn total_length_below_the_header(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| bench.udp4()) {
        let header = packet.header_len();
        for total in [0, 19, header - 1] {
            let changed = Changed::new(&packet, |bytes| {
                bytes[2..4].copy_from_slice(&(total as u16).to_be_bytes());
                seal(bytes, header);
            });
            bench.silence(Left, &changed).case(format_args!("total length {total}, {path}"))?;
        }
    }
    Ok(())
}

/// 5.2.2: a packet that was truncated MUST be discarded, and the router SHOULD answer by a Parameter Problem whose
/// pointer points at the total length (bytes 2 and 3).
pub fn total_length_above_what_came(bench: &mut Bench) -> Judged {
    let mut answered = Ok(());
    for (path, packet) in both(bench, |bench| bench.udp4()) {
        for missing in [1, 40] {
            let cut = Changed::new(&packet, |bytes| bytes.truncate(bytes.len() - missing));
            let seen = bench.outcome(Left, &cut)?;
            demand(seen.passed.is_empty(), format_args!("it was forwarded, {path}"))?;
            let pointed = seen.errors.iter().any(|(side, error)| {
                (*side, error.kind, error.code) == (Left, 12, 0) && matches!(error.rest >> 24, 2 | 3) && error.sound
            });
            if !pointed {
                answered =
                    fail(format_args!("dropped (M), but no Parameter Problem for the total length came (S), {path}"));
            }
        }
    }
    answered
}

/// 5.2.2: the link layer's length may be more than the total length, as Ethernet pads; what is behind the packet is not
/// its part and is not passed on.
pub fn padding_is_trimmed(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| Packet4::udp(bench.number(), Left.station4(), Right.station4(), 1)) {
        let total = packet.header_len() + packet.payload.len();
        for length in [46, 47, 200] {
            let padded = Changed::new(&packet, |bytes| bytes.resize(length, 0xaa));
            let out = bench.pass(Left, &padded, Right).case(path)?;
            let rest = &out.packet()[total.min(out.packet().len())..];
            demand(
                rest.iter().all(|byte| *byte == 0),
                format_args!("padding of a frame with {length} bytes was passed on, {path}"),
            )?;
            demand(rest.is_empty() || out.frame.len() <= 60, format_args!("{} bytes were left behind it", rest.len()))?;
        }
    }
    Ok(())
}

/// 5.2.5: reserved bits are neither a reason to drop a packet nor changed; they are copied into each fragment.
pub fn reserved_bits_pass(bench: &mut Bench) -> Judged {
    for tos in [0x01, 0x03, 0xff] {
        for (path, packet) in both(bench, |bench| bench.udp4().flags(RESERVED).tos(tos)) {
            let out = bench.pass(Left, &packet, Right).case(path)?;
            let header = out.packet();
            same(format_args!("type of service, {path}"), header[1], tos)?;
            demand(header[6] & 0x80 != 0, format_args!("the reserved flag was cleared, {path}"))?;
        }
    }
    for (path, packet) in both(bench, |bench| {
        Packet4::udp(bench.number(), Left.station4(), Right.station4(), 1440).flags(RESERVED).tos(0x01)
    }) {
        for piece in super::fragments::cut(bench, &packet).case(path)? {
            let header = piece.packet();
            demand(header[6] & 0x80 != 0, format_args!("the reserved flag was cleared in a fragment, {path}"))?;
            same(format_args!("type of service of a fragment, {path}"), header[1], 0x01)?;
        }
    }
    Ok(())
}

/// 5.3.1: a router MUST lower the TTL by at least one; the checksum is that of the changed header, and nothing else is
/// changed.
pub fn ttl_is_lowered(bench: &mut Bench) -> Judged {
    for ttl in [2, 3, 64, 128, 255] {
        for (path, packet) in both(bench, |bench| bench.udp4().ttl(ttl)) {
            let out = bench.pass(Left, &packet, Right).case(format_args!("TTL {ttl}, {path}"))?;
            is_lowered(&packet, &out).case(format_args!("TTL {ttl}, {path}"))?;
        }
    }
    // Sums at which the change of the TTL carries (RFC 1141, RFC 1624).
    for wanted in [0xfeff_u16, 0xff00, 0xfffe, 0x0000, 0x0100] {
        for (path, packet) in both(bench, |bench| bench.udp4()) {
            let packet = summed(packet, wanted);
            let out = bench.pass(Left, &packet, Right).case(format_args!("checksum {wanted:#06x}, {path}"))?;
            is_lowered(&packet, &out).case(format_args!("checksum {wanted:#06x}, {path}"))?;
        }
    }
    Ok(())
}

/// The packet with an identification for which its checksum is as wanted.
fn summed(mut packet: Packet4, wanted: u16) -> Packet4 {
    packet.identification = 0;
    let bytes = packet.to_vec();
    let sum = !u16::from_be_bytes([bytes[10], bytes[11]]);
    // One's complement: the sum of the others and the identification is the complement of the checksum.
    let difference = u32::from(!wanted) + u32::from(!sum);
    packet.identification = ((difference & 0xffff) + (difference >> 16)) as u16;
    packet
}

fn is_lowered(packet: &Packet4, out: &Caught) -> Judged {
    let (was, is) = (packet.to_vec(), out.packet());
    same("TTL", is[8], packet.ttl - 1)?;
    demand(out.ip4().is_some_and(|view| view.verify_checksum()), "the header checksum is wrong")?;
    let total = was.len();
    demand(
        is.len() >= total && was[..8] == is[..8] && was[9] == is[9] && was[12..] == is[12..total],
        "another byte than TTL and checksum was changed",
    )
}

/// 5.3.1: if the TTL is lowered to zero, the packet MUST be discarded, and unless it is for a group, Time Exceeded code
/// 0 MUST be sent.
pub fn ttl_reaches_0(bench: &mut Bench) -> Judged {
    for ttl in [1, 0] {
        for (path, packet) in both(bench, |bench| bench.udp4().ttl(ttl)) {
            let error = bench.refused(Left, &packet, 11, 0).case(format_args!("TTL {ttl}, {path}"))?;
            same("destination of the error", error.destination, Left.station4().into())?;
        }
        let group = Ipv4Addr::new(239, 1, 2, 3);
        for (path, packet) in both(bench, |bench| bench.udp4().to(group).ttl(ttl)) {
            let mac = MacAddr([1, 0, 0x5e, 1, 2, 3]);
            bench.silence_to(Left, mac, &packet).case(format_args!("TTL {ttl}, to a group, {path}"))?;
        }
    }
    routed_group(bench)
}

/// A router that has a route of the group forwards what it need not drop, and is as silent about the rest.
fn routed_group(bench: &mut Bench) -> Judged {
    let mac = MacAddr::from_ipv4_multicast(GROUP4);
    for (path, packet) in both(bench, |bench| bench.udp4().to(GROUP4).ttl(2)) {
        let seen = bench.offer_to(Left, mac, &packet)?;
        let Some(copy) = seen.passed.first() else { return Ok(()) };
        same("links of the copy", (copy.side, seen.passed.len()), (Right, 1)).case(path)?;
        same("TTL of the copy", copy.packet()[8], 1).case(path)?;
        seen.is_without_error().case(path)?;
    }
    for ttl in [1, 0] {
        for (path, packet) in both(bench, |bench| bench.udp4().to(GROUP4).ttl(ttl)) {
            bench.silence_to(Left, mac, &packet).case(format_args!("TTL {ttl}, to a group with a route, {path}"))?;
        }
    }
    Ok(())
}

/// 4.2.2.9: a router MUST NOT discard a packet merely because it came with TTL zero or one; if it is for the router
/// itself, it MUST try to receive it.
pub fn ttl_0_and_1_to_the_router(bench: &mut Bench) -> Judged {
    for ttl in [1, 0] {
        for (path, echo) in both(bench, |bench| bench.echo4(Left, 40).ttl(ttl)) {
            bench.begin()?;
            bench.send(Left, &echo)?;
            bench
                .expect("the echo reply", |caught| is_echo_of4(caught, &echo))
                .case(format_args!("TTL {ttl}, {path}"))?;
        }
    }
    Ok(())
}

/// 5.2.4.3 (2): of the routes that match, those with the longest prefix stay.
pub fn longest_match(bench: &mut Bench) -> Judged {
    let second = SECOND_GATEWAY;
    let ways = [
        ([10, 20, 1, 1], 2),
        ([10, 20, 30, 5], second),
        ([10, 20, 30, 127], second),
        ([10, 20, 30, 128], 2),
        ([10, 20, 30, 199], 2),
        ([10, 20, 30, 200], second),
        ([10, 20, 30, 201], 2),
        ([10, 20, 31, 0], 2),
        ([10, 0, 2, 2], 2),
    ];
    for (destination, host) in ways {
        let destination = Ipv4Addr::from(destination);
        for (path, packet) in both(bench, |bench| bench.udp4().to(destination)) {
            let out = bench.pass(Left, &packet, Right).case(format_args!("to {destination}, {path}"))?;
            same(format_args!("next hop of {destination}, {path}"), out.to(), bench.mac(Right, host))?;
        }
    }
    if bench.sides().contains(&Third) {
        for (path, packet) in both(bench, |bench| bench.udp4().to(Third.station4())) {
            bench.pass(Left, &packet, Third).case(path)?;
        }
    }
    Ok(())
}

/// 5.2.7.1: without a route, also without a default route, Destination Unreachable code 0 MUST be sent.
pub fn no_route(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, Bench::unrouted4) {
        bench.refused(Left, &packet, 3, 0).case(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checksum;
    use perigee_packet::Ipv4;

    #[test]
    fn packets_get_the_checksum_that_is_wanted() {
        for wanted in [0xfeff_u16, 0xff00, 0xfffe, 0x0000, 0x0100, 0x1234] {
            let packet = summed(Packet4::udp(5, Left.station4(), Right.station4(), 8), wanted);
            let bytes = packet.to_vec();
            let found = u16::from_be_bytes([bytes[10], bytes[11]]);
            assert_eq!(found, wanted);
            assert_eq!(checksum(&bytes[..20]), 0);
            assert!(Ipv4::new(&bytes[..]).unwrap().verify_checksum());
        }
    }
}
