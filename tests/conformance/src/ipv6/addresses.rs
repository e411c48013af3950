// SPDX-License-Identifier: MIT
//! Addresses that are not forwarded: RFC 4291 2.5.2, 2.5.3, 2.5.6 and 2.7, RFC 4007 9.

use super::{both, is_unchanged};
use crate::bench::Bench;
use crate::judge::{Case as _, Judged, demand, same};
use crate::network::GROUP6;
use crate::network::Side::{Left, Right};
use perigee_net::MacAddr;
use std::net::Ipv6Addr;

const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);

/// Demands that packets from or to each of these addresses are not forwarded.
fn stay(bench: &mut Bench, sources: &[Ipv6Addr], destinations: &[Ipv6Addr]) -> Judged {
    for source in sources {
        for (path, packet) in both(bench, |bench| bench.udp6().from(*source)) {
            bench.stays(Left, &packet).case(format_args!("from {source}, {path}"))?;
        }
    }
    for destination in destinations {
        for (path, packet) in both(bench, |bench| bench.udp6().to(*destination)) {
            bench.stays(Left, &packet).case(format_args!("to {destination}, {path}"))?;
        }
    }
    for (path, packet) in both(bench, |bench| bench.udp6()) {
        bench.pass(Left, &packet, Right).case(format_args!("between others, {path}"))?;
    }
    Ok(())
}

/// RFC 4291 2.5.6: routers MUST NOT forward packets with link-local source or destination addresses to other links.
pub fn link_local(bench: &mut Bench) -> Judged {
    stay(bench, &[Left.station_link_local(), LINK_LOCAL], &[LINK_LOCAL])
}

/// RFC 4291 2.5.3: a packet to or from the loopback address MUST never be forwarded, nor one from the unspecified
/// address (2.5.2).
pub fn loopback_and_unspecified(bench: &mut Bench) -> Judged {
    let both = [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED];
    stay(bench, &both, &both)
}

/// RFC 4291 2.7: multicast addresses MUST NOT be sources; packets to groups are not forwarded beyond their scope; those
/// of scope 0 MUST be silently dropped.
pub fn multicast(bench: &mut Bench) -> Judged {
    let group = |scope: u16| Ipv6Addr::new(0xff00 | scope, 0, 0, 0, 0, 0, 0, 0x4242);
    for source in [group(2), group(0xe)] {
        for (path, packet) in both(bench, |bench| bench.udp6().from(source)) {
            bench.silence(Left, &packet).case(format_args!("from {source}, {path}"))?;
        }
    }
    for destination in [group(0), group(1), group(2)] {
        for (path, packet) in both(bench, |bench| bench.udp6().to(destination)) {
            for mac in [MacAddr::from_ipv6_multicast(destination), bench.mac(Left, 1)] {
                let seen = bench.offer_to(Left, mac, &packet)?;
                let what = format!("to {destination}, frame to {mac}, {path}");
                demand(seen.passed.is_empty(), format_args!("it was forwarded: {what}"))?;
                seen.is_without_error().case(what)?;
            }
        }
    }
    routed_group(bench)
}

/// A router that has a route of a global group forwards its packets, but none from a link-local source (RFC 4291
/// 2.5.6).
fn routed_group(bench: &mut Bench) -> Judged {
    let mac = MacAddr::from_ipv6_multicast(GROUP6);
    for (path, packet) in both(bench, |bench| bench.udp6().to(GROUP6)) {
        let seen = bench.offer_to(Left, mac, &packet)?;
        let Some(copy) = seen.passed.first() else { return Ok(()) };
        same("links of the copy", (copy.side, seen.passed.len()), (Right, 1)).case(path)?;
        is_unchanged(&packet, copy).case(path)?;
        seen.is_without_error().case(path)?;
    }
    for (path, packet) in both(bench, |bench| bench.udp6().from(Left.station_link_local()).to(GROUP6)) {
        bench.silence_to(Left, mac, &packet).case(format_args!("from a link-local address, {path}"))?;
    }
    Ok(())
}

/// RFC 4007 9: if a packet would leave the zone of its source, it is discarded and, unless it is to a group,
/// Destination Unreachable code 2 is sent.
pub fn beyond_scope(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| bench.udp6().from(Left.station_link_local())) {
        bench.refused(Left, &packet, 1, 2).case(path)?;
    }
    Ok(())
}
