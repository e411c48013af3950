// SPDX-License-Identifier: MIT
//! Redirects: RFC 1812 5.2.7.2.

use super::both;
use crate::bench::{Bench, LIMIT};
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::SAME_LINK_GATEWAY4;
use crate::network::Side::{Left, Right};
use crate::wire::{Caught, IcmpError, Packet4, Probe as _};
use std::net::Ipv4Addr;

const REDIRECT: u8 = 5;
/// Packets that a sender has sent before it must have been redirected: redirects may be limited.
const PACKETS: usize = 5;

/// A destination that the gateway on the left link leads to.
fn beyond(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 30, 0, last)
}

/// Sends the packet some times; returns the redirects about it. One that is expected is waited for: the router may
/// first have to ask for its sender's MAC address, for which the last marker does not wait.
fn redirects(bench: &mut Bench, packet: &Packet4, expected: bool) -> Judged<Vec<IcmpError>> {
    bench.begin()?;
    let mut packets = Vec::new();
    for _ in 0..PACKETS {
        packets.push(Packet4 { identification: bench.number(), ..packet.clone() });
    }
    for packet in &packets {
        bench.send(Left, packet)?;
    }
    bench.wait(LIMIT / 5, |log| packets.iter().all(|packet| log.iter().any(|caught| packet.is_in(caught))))?;
    bench.settle(Left)?;
    if expected {
        let redirects = |caught: &Caught| {
            packets.iter().any(|packet| packet.error_in(caught).is_some_and(|error| error.kind == REDIRECT))
        };
        bench.wait(LIMIT, |log| log.iter().any(redirects))?;
    }
    let mut found = Vec::new();
    for packet in &packets {
        for (side, error) in bench.seen(packet).errors.into_iter().filter(|(_, error)| error.kind == REDIRECT) {
            same("link of a redirect", side, Left)?;
            found.push(error);
        }
    }
    Ok(found)
}

/// Whether the gateway got a packet, at least once.
fn was_forwarded(bench: &Bench, packet: &Packet4) -> bool {
    let gateway = bench.mac(Left, 254);
    let same =
        |header: &[u8]| header[12..16] == packet.source.octets() && header[16..20] == packet.destination.octets();
    bench.log().iter().any(|caught| caught.to() == gateway && caught.header4().is_some_and(same))
}

/// Routers MUST be able to send Redirect for Host (code 1), and MUST NOT send those for networks (codes 0 and 2). Code
/// 3 would need routes that depend on the TOS.
pub fn code_1_alone(bench: &mut Bench) -> Judged {
    for (host, (path, packet)) in (11..).zip(both(bench, |bench| bench.udp4())) {
        // A sender and a destination of its own, as redirects may be limited for each.
        let sender = Left.host4(host);
        bench.answers.set(Left, sender, bench.mac(Left, host));
        let packet = packet.from(sender).to(beyond(host));
        let found = redirects(bench, &packet, true).case(path)?;
        demand(was_forwarded(bench, &packet), format_args!("the packet was not forwarded, {path}"))?;
        if found.is_empty() {
            return fail(format_args!(
                "no redirect came for {PACKETS} packets that leave by the link they came in on, {path}"
            ));
        }
        for redirect in found {
            same(format_args!("code, {path}"), redirect.code, 1)?;
            same(format_args!("gateway, {path}"), Ipv4Addr::from(redirect.rest), SAME_LINK_GATEWAY4)?;
            same(format_args!("destination, {path}"), redirect.destination, sender.into())?;
            same(format_args!("source, {path}"), redirect.source, Left.router4().into())?;
            demand(redirect.sound, format_args!("a checksum is wrong, {path}"))?;
        }
    }
    Ok(())
}

/// A redirect MUST NOT be sent unless the packet leaves by the interface that it came in on, its source is on the same
/// network as the next hop, and it has no source route.
pub fn only_where_it_helps(bench: &mut Bench) -> Judged {
    for (path, packet) in both(bench, |bench| bench.udp4()) {
        let found = redirects(bench, &packet, false)?;
        demand(found.is_empty(), format_args!("a redirect came though the packet leaves by another link, {path}"))?;
        demand(bench.log().iter().any(|caught| caught.side == Right && !caught.is_chatter()), "nothing was forwarded")?;
        let far = packet.clone().from(Ipv4Addr::new(10, 20, 1, 9)).to(beyond(20));
        let found = redirects(bench, &far, false)?;
        demand(found.is_empty(), format_args!("a redirect came though the sender is not on the link, {path}"))?;
        demand(was_forwarded(bench, &far), format_args!("a packet from elsewhere was not forwarded, {path}"))?;
    }
    // A loose source route that is used up: the packet is on its way to its destination; a router may drop it
    // nevertheless.
    let sender = Left.host4(14);
    bench.answers.set(Left, sender, bench.mac(Left, 14));
    let routed = bench.udp4().from(sender).to(beyond(21)).options(&[131, 7, 8, 10, 0, 1, 2]);
    let found = redirects(bench, &routed, false)?;
    demand(found.is_empty(), "a redirect came though the packet has a source route")
}
