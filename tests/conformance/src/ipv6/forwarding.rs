// SPDX-License-Identifier: MIT
//! Hop limit, size, flow label, prefixes: RFC 8200 3 and 4.5, RFC 4443 3.2, RFC 6437, RFC 7608, RFC 6164.

use super::{both, is_unchanged};
use crate::bench::Bench;
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::Side::{Left, Right};
use crate::network::{GROUP6, NARROW, NESTED, POINT_TO_POINT_ROUTER, POINT_TO_POINT_STATION, SHORTEST, nested_gateway};
use crate::seen::is_echo_of;
use crate::wire::{IcmpError, Packet6};
use perigee_net::MacAddr;
use std::net::Ipv6Addr;

/// RFC 8200 3: each node that forwards lowers the hop limit by 1; with zero, or lowered to it, the packet is discarded.
/// RFC 4443 3.3: Time Exceeded code 0 MUST be sent. The packet's destination should take it nevertheless (RFC 8200 3).
pub fn hop_limit(bench: &mut Bench) -> Judged {
    for hops in [2, 3, 64, 255] {
        for (path, packet) in both(bench, |bench| bench.udp6().hop_limit(hops)) {
            let out = bench.pass(Left, &packet, Right).case(format_args!("hop limit {hops}, {path}"))?;
            is_unchanged(&packet, &out).case(format_args!("hop limit {hops}, {path}"))?;
        }
    }
    for hops in [1, 0] {
        for (path, packet) in both(bench, |bench| bench.udp6().hop_limit(hops)) {
            bench.refused(Left, &packet, 3, 0).case(format_args!("hop limit {hops}, {path}"))?;
        }
        for (path, echo) in both(bench, |bench| bench.echo6(Left, 40).hop_limit(hops)) {
            bench.begin()?;
            bench.send(Left, &echo)?;
            let what = format!("hop limit {hops}, to the router, {path}");
            bench.expect("the echo reply", |caught| is_echo_of(caught, &echo)).case(what)?;
        }
    }
    Ok(())
}

/// UDP that makes a packet of this length.
fn sized(bench: &mut Bench, total: usize) -> [(&'static str, Packet6); 2] {
    both(bench, |bench| bench.udp6()).map(|(path, packet)| {
        let headers = packet.to_vec().len() - 64;
        let mut sized = Packet6::udp(packet.mark, packet.source, packet.destination, total - headers);
        sized.extensions = packet.extensions;
        (path, sized)
    })
}

fn too_big(bench: &mut Bench) -> Judged<Vec<IcmpError>> {
    let mut errors = Vec::new();
    for total in [NARROW + 1, 1500] {
        for (path, packet) in sized(bench, total) {
            // Refused means too that nothing was forwarded, in pieces either.
            errors.push(bench.refused(Left, &packet, 2, 0).case(format_args!("{total} bytes, {path}"))?);
        }
    }
    Ok(errors)
}

/// RFC 8200 4.5: unlike IPv4, fragmentation is done by sources alone, not by routers along the path.
pub fn never_fragments(bench: &mut Bench) -> Judged {
    too_big(bench)?;
    for (path, packet) in sized(bench, NARROW) {
        let out = bench.pass(Left, &packet, Right).case(format_args!("{NARROW} bytes, {path}"))?;
        is_unchanged(&packet, &out).case(path)?;
    }
    Ok(())
}

/// RFC 4443 3.2: Packet Too Big MUST be sent for a packet larger than the MTU of the link it would leave by, with that
/// MTU. For a packet to a group as well (2.4 (e.3)), in routers that have a route of it.
pub fn packet_too_big(bench: &mut Bench) -> Judged {
    for error in too_big(bench)? {
        same("MTU", error.rest as usize, NARROW)?;
        same("destination of the error", error.destination, Left.station6().into())?;
    }
    let mac = MacAddr::from_ipv6_multicast(GROUP6);
    let fits = bench.udp6().to(GROUP6);
    if bench.offer_to(Left, mac, &fits)?.passed.is_empty() {
        return Ok(());
    }
    for (path, packet) in sized(bench, NARROW + 1) {
        let seen = bench.outcome_to(Left, mac, &packet.to(GROUP6))?;
        demand(seen.passed.is_empty(), format_args!("to a group, {path}: it was forwarded"))?;
        let [(Left, error)] = &seen.errors[..] else {
            return fail(format_args!("to a group, {path}: {} errors, expected one", seen.errors.len()));
        };
        same("type, MTU", (error.kind, error.rest as usize), (2, NARROW)).case(format_args!("to a group, {path}"))?;
    }
    Ok(())
}

/// RFC 6437 3: a forwarding node MUST NOT change a flow label that is not zero (nor, but for security, one that is).
pub fn flow_label(bench: &mut Bench) -> Judged {
    for label in [0x00001, 0x12345, 0xfffff, 0] {
        for class in [0x00, 0xb8, 0x03] {
            for (path, packet) in
                both(bench, |bench| Packet6 { flow_label: label, traffic_class: class, ..bench.udp6() })
            {
                let what = format!("flow label {label:#07x}, traffic class {class:#04x}, {path}");
                let out = bench.pass(Left, &packet, Right).case(&what)?;
                is_unchanged(&packet, &out).case(&what)?;
            }
        }
    }
    Ok(())
}

/// RFC 7608 2: forwarding MUST follow the longest match of prefixes of any length up to 128 bits. RFC 6164 5: routers
/// MUST support prefixes of 127 bits between them, and then have no subnet-router anycast address.
pub fn any_prefix_length(bench: &mut Bench) -> Judged {
    for length in SHORTEST..=128 {
        // The first bit behind the prefix is another one.
        let other = if length < 128 { 1u128 << (127 - length) } else { 0 };
        let destination = Ipv6Addr::from_bits(NESTED.to_bits() ^ other);
        let paths = both(bench, |bench| bench.udp6().to(destination));
        let paths = paths.into_iter().take(if length.is_multiple_of(8) { 2 } else { 1 });
        for (path, packet) in paths {
            let out = bench.pass(Left, &packet, Right).case(format_args!("prefix of {length} bits, {path}"))?;
            let expected = bench.mac(Right, nested_gateway(length) as u8);
            same(format_args!("next hop, prefix of {length} bits, {path}"), out.to(), expected)?;
        }
    }
    for (path, packet) in both(bench, |bench| bench.udp6().to(POINT_TO_POINT_STATION)) {
        let out = bench.pass(Left, &packet, Right).case(format_args!("to the other end of a /127, {path}"))?;
        same(format_args!("next hop in a /127, {path}"), out.to(), bench.mac(Right, 4))?;
    }
    let echo = bench.echo6(Right, 40).from(POINT_TO_POINT_STATION).to(POINT_TO_POINT_ROUTER);
    bench.begin()?;
    bench.send(Right, &echo)?;
    let reply = bench.expect("the echo reply in a /127", |caught| is_echo_of(caught, &echo))?;
    demand(reply.side == Right, "the echo reply in a /127 came on another link")
}
