// SPDX-License-Identifier: MIT
//! Addresses that are not forwarded: RFC 1812 5.3.4, 5.3.5, 5.3.7 and 5.3.8, RFC 2644.

use super::both;
use super::errors::invalid_sources;
use crate::bench::Bench;
use crate::judge::{Case as _, Judged};
use crate::network::Side::{Left, Right};
use crate::network::UNROUTED4;
use perigee_net::MacAddr;
use std::net::Ipv4Addr;

/// 5.3.4: a router MUST NOT forward a packet that it received as a link-layer broadcast or multicast unless it is to an
/// IP multicast address.
pub fn link_layer_groups(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| bench.udp4()) {
        for mac in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 2, 2]), MacAddr([0x33, 0x33, 0, 0, 0, 1])] {
            bench.silence_to(Left, mac, &packet).case(format_args!("frame to {mac}, {path}"))?;
        }
        bench.pass(Left, &packet, Right).case(format_args!("frame to the router, {path}"))?;
    }
    Ok(())
}

/// 5.3.5.1: limited broadcasts MUST NOT be forwarded. A default route leads everywhere.
pub fn limited_broadcast(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| bench.udp4().to(Ipv4Addr::BROADCAST)) {
        for mac in [MacAddr::BROADCAST, bench.mac(Left, 1)] {
            bench.silence_to(Left, mac, &packet).case(format_args!("frame to {mac}, {path}"))?;
        }
    }
    Ok(())
}

/// RFC 2644, which changes 5.3.5.2: a router MUST NOT forward network-directed broadcasts unless it was configured to.
pub fn directed_broadcast(bench: &mut Bench) -> Judged {
    let others: Vec<_> = bench.sides().into_iter().filter(|side| *side != Left).collect();
    for side in others {
        for (path, packet) in both(bench, |bench| bench.udp4().to(side.broadcast4())) {
            for mac in [bench.mac(Left, 1), MacAddr::BROADCAST] {
                let seen = bench.offer_to(Left, mac, &packet)?;
                seen.is_silent().case(format_args!("to {}, frame to {mac}, {path}", side.broadcast4()))?;
            }
        }
    }
    Ok(())
}

/// 5.3.7: a router SHOULD NOT forward a packet with an invalid source or destination, or one on network 0 or 127; if
/// that can be switched off, it MUST be on by default. A default route leads everywhere.
pub fn martians(bench: &mut Bench) -> Judged {
    for source in invalid_sources() {
        for (path, packet) in both(bench, |bench| bench.udp4().from(source)) {
            bench.stays(Left, &packet).case(format_args!("from {source}, {path}"))?;
        }
    }
    let destinations = [
        Ipv4Addr::new(0, 0, 0, 1),
        Ipv4Addr::new(0, 1, 2, 3),
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::new(127, 9, 9, 9),
        Ipv4Addr::new(240, 0, 0, 1),
        Ipv4Addr::new(255, 255, 255, 254),
    ];
    for destination in destinations {
        for (path, packet) in both(bench, |bench| bench.udp4().to(destination)) {
            bench.stays(Left, &packet).case(format_args!("to {destination}, {path}"))?;
        }
    }
    // Other addresses that no route but the default one leads to are forwarded.
    let usual = bench.udp4().to(UNROUTED4);
    bench.pass(Left, &usual, Right).map(|_| ())
}

/// Sources for which the way back does not lead over the left link.
fn foreign() -> [Ipv4Addr; 2] {
    [Right.host4(99), Ipv4Addr::new(10, 20, 1, 9)]
}

/// 5.3.8: with source validation, a router MUST silently discard a packet if the interface that it came in on is not
/// the one by which a packet to its source would leave.
pub fn strict_validation(bench: &mut Bench) -> Judged {
    for source in foreign().into_iter().chain([UNROUTED4]) {
        for (path, packet) in both(bench, |bench| bench.udp4().from(source)) {
            bench.silence(Left, &packet).case(format_args!("strict, from {source}, {path}"))?;
        }
    }
    for (path, packet) in both(bench, |bench| bench.udp4()) {
        bench.pass(Left, &packet, Right).case(format_args!("strict, from the link, {path}"))?;
    }
    for (path, packet) in both(bench, |bench| bench.udp4().from(Ipv4Addr::new(10, 30, 0, 9))) {
        bench.pass(Left, &packet, Right).case(format_args!("strict, from behind a gateway on the link, {path}"))?;
    }
    Ok(())
}

/// RFC 3704 2.4: with loose validation, the source needs any route.
pub fn loose_validation(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| bench.udp4().from(UNROUTED4)) {
        bench.silence(Left, &packet).case(format_args!("loose, without a route back, {path}"))?;
    }
    for source in foreign().into_iter().chain([Left.station4()]) {
        for (path, packet) in both(bench, |bench| bench.udp4().from(source)) {
            bench.pass(Left, &packet, Right).case(format_args!("loose, from {source}, {path}"))?;
        }
    }
    Ok(())
}

/// 5.3.8: source validation MUST be off by default.
pub fn no_validation(bench: &mut Bench) -> Judged {
    for source in foreign().into_iter().chain([UNROUTED4]) {
        for (path, packet) in both(bench, |bench| bench.udp4().from(source)) {
            bench.pass(Left, &packet, Right).case(format_args!("by default, from {source}, {path}"))?;
        }
    }
    Ok(())
}
