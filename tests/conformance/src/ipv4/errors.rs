// SPDX-License-Identifier: MIT
//! What no ICMP error may be about, and how many there may be: RFC 1812 4.3.2.7 and 4.3.2.8.
//!
//! 4.3.2.7: "An ICMP error message MUST NOT be sent as the result of receiving" any of what is sent here, each in a way
//! for which the same packet would be answered otherwise: without TTL, without a route, too large.

use super::both;
use crate::bench::{Bench, LIMIT};
use crate::judge::{Case as _, Judged, demand, same};
use crate::network::Side::{Left, Right};
use crate::network::UNROUTED4;
use crate::wire::{Caught, Packet4, Probe as _};
use perigee_net::MacAddr;
use std::net::Ipv4Addr;

/// The packet in three ways that would be answered by errors: type, code.
fn provocations(bench: &mut Bench, packet: &Packet4) -> [((u8, u8), Packet4); 3] {
    let mut long = packet.clone().dont_fragment();
    long.payload.resize(1500 - long.header_len(), 0x5a);
    let unrouted = packet.clone().from(bench.stranger4()).to(UNROUTED4);
    [((11, 0), packet.clone().ttl(1)), ((3, 0), unrouted), ((3, 4), long)]
}

/// About an ICMP error: the types that RFC 1122 3.2.2 lists.
pub fn about_an_error(bench: &mut Bench) -> Judged {
    let quoted = Packet4::udp(7, Right.station4(), Left.station4(), 8).to_vec();
    for kind in [3, 4, 5, 11, 12] {
        for (path, packet) in
            both(bench, |bench| Packet4::icmp(bench.number(), Left.station4(), Right.station4(), (kind, 0, 0), &quoted))
        {
            for ((_, code), packet) in provocations(bench, &packet) {
                bench.silence(Left, &packet).case(format_args!("ICMP type {kind}, provoking code {code}, {path}"))?;
            }
        }
    }
    // Other ICMP messages are answered.
    for (path, packet) in both(bench, |bench| Packet4::echo(bench.number(), Left.station4(), Right.station4(), 64)) {
        for ((kind, code), mut packet) in provocations(bench, &packet) {
            packet.identification = bench.number();
            bench.refused(Left, &packet, kind, code).case(format_args!("an echo request, {path}"))?;
        }
    }
    Ok(())
}

/// About a fragment other than the first.
pub fn about_a_later_fragment(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| Packet4::udp(bench.number(), Left.station4(), Right.station4(), 3000)) {
        for ((kind, code), whole) in provocations(bench, &packet) {
            if kind == 3 && code == 4 {
                continue; // a fragment that must not be fragmented; below
            }
            bench.silence(Left, &whole.piece(400, 400)).case(format_args!("in the middle, type {kind}, {path}"))?;
            bench.silence(Left, &whole.piece(2800, 400)).case(format_args!("the last one, type {kind}, {path}"))?;
            bench.refused(Left, &whole.piece(0, 400), kind, code).case(format_args!("the first one, {path}"))?;
        }
        let large = packet.clone().dont_fragment();
        bench.silence(Left, &large.piece(1456, 1456)).case(format_args!("too large, {path}"))?;
    }
    Ok(())
}

/// About a packet that was sent as a link-layer broadcast or multicast.
pub fn about_a_link_layer_group(bench: &mut Bench) -> Judged {
    for mac in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 1])] {
        for (path, packet) in both(bench, |bench| bench.udp4()) {
            for ((kind, _), packet) in provocations(bench, &packet) {
                bench.silence_to(Left, mac, &packet).case(format_args!("type {kind}, to {mac}, {path}"))?;
            }
        }
    }
    let alone = bench.udp4().ttl(1);
    bench.refused(Left, &alone, 11, 0).map(|_| ())
}

/// About a packet to an IP broadcast or multicast address.
pub fn about_a_group(bench: &mut Bench) -> Judged {
    let groups: [(Ipv4Addr, MacAddr); 5] = [
        (Ipv4Addr::BROADCAST, MacAddr::BROADCAST),
        (Left.broadcast4(), MacAddr::BROADCAST),
        (Right.broadcast4(), MacAddr::BROADCAST),
        (Ipv4Addr::new(224, 0, 0, 1), MacAddr([1, 0, 0x5e, 0, 0, 1])),
        (Ipv4Addr::new(239, 1, 2, 3), MacAddr([1, 0, 0x5e, 1, 2, 3])),
    ];
    for (group, mac) in groups {
        for (path, packet) in both(bench, |bench| bench.udp4().to(group)) {
            for ttl in [1, 64] {
                for to in [mac, bench.mac(Left, 1)] {
                    let packet = Packet4 { identification: bench.number(), ..packet.clone() }.ttl(ttl);
                    let seen = bench.offer_to(Left, to, &packet)?;
                    seen.is_without_error().case(format_args!("to {group}, TTL {ttl}, frame to {to}, {path}"))?;
                }
            }
        }
    }
    let alone = bench.udp4().ttl(1);
    bench.refused(Left, &alone, 11, 0).map(|_| ())
}

/// Sources that no host may have (5.3.7, 4.2.2.11), of which a broadcast address of a connected network is one, as it
/// is no unicast address.
pub fn invalid_sources() -> [Ipv4Addr; 9] {
    [
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::new(0, 1, 2, 3),
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::new(224, 0, 0, 5),
        Ipv4Addr::new(239, 1, 2, 3),
        Ipv4Addr::new(240, 0, 0, 1),
        Ipv4Addr::BROADCAST,
        Left.broadcast4(),
        Right.broadcast4(),
    ]
}

/// About a packet whose source has a network prefix of zero or is invalid. A default route leads everywhere, so that
/// nothing but the rule keeps an error back.
pub fn about_an_invalid_source(bench: &mut Bench) -> Judged {
    for source in invalid_sources() {
        for (path, packet) in both(bench, |bench| bench.udp4().from(source).ttl(1)) {
            let seen = bench.offer(Left, &packet)?;
            seen.is_without_error().case(format_args!("from {source}, {path}"))?;
        }
    }
    let alone = bench.udp4().from(Left.host4(9)).ttl(1);
    bench.answers.set(Left, Left.host4(9), bench.mac(Left, 9));
    bench.refused(Left, &alone, 11, 0).map(|_| ())
}

/// Sends packets without TTL, and returns how many errors about them came, after at least the `expected` ones or in
/// vain.
fn expired(bench: &mut Bench, count: usize, expected: usize) -> Judged<usize> {
    bench.begin()?;
    let mut packets = Vec::new();
    for _ in 0..count {
        let packet = bench.udp4().ttl(1);
        bench.send(Left, &packet)?;
        packets.push(packet);
    }
    let is_error = |caught: &&Caught| packets.iter().any(|packet| packet.error_in(caught).is_some());
    bench.wait(LIMIT, |log| log.iter().filter(is_error).count() >= expected)?;
    bench.settle(Left)?;
    Ok(bench.log().iter().filter(is_error).count())
}

/// 4.3.2.8: a router SHOULD be able to limit the rate at which it sends ICMP errors.
pub fn errors_are_limited(bench: &mut Bench) -> Judged {
    let errors = expired(bench, 400, 1)?;
    demand(errors > 0, "no error came at all")?;
    demand(errors < 200, format_args!("{errors} errors about 400 packets, expected few"))?;
    // Replies are no errors.
    let echo = bench.echo4(Left, 40);
    bench.send(Left, &echo)?;
    bench.expect("an echo reply behind the errors", |caught| crate::seen::is_echo_of4(caught, &echo)).map(|_| ())
}

/// 4.3.2.8: the limit SHOULD be configurable: here there is none, or a high one.
pub fn the_limit_can_be_lifted(bench: &mut Bench) -> Judged {
    let errors = expired(bench, 40, 40)?;
    same("errors about 40 packets without a limit", errors, 40)
}
