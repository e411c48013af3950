// SPDX-License-Identifier: MIT
//! Router advertisements and redirects: RFC 4861 6.2 and 8.

use super::both;
use crate::bench::{Bench, LIMIT};
use crate::judge::{Case as _, Judged, demand, fail, same};
use crate::network::Side::{Left, Right};
use crate::network::{SAME_LINK_GATEWAY6, mac};
use crate::wire::{Caught, Packet6, Probe as _, framed};
use perigee_net::MacAddr;
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::icmp6;
use std::net::Ipv6Addr;
use std::time::Duration;

const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// RFC 4861 6.2.6: an answer to a solicitation is sent within MAX_RA_DELAY_TIME, half a second.
const ANSWER: Duration = Duration::from_millis(600);

/// RFC 4861 6.2.1: AdvSendAdvertisements is false by default, and then a router MUST NOT send advertisements, unasked
/// or asked (6.2.2, 6.2.6). (How those that are switched on are spaced and end is up to the program that sends them.)
pub fn no_advertisements_by_default(bench: &mut Bench) -> Judged {
    let is_advertisement =
        |caught: &Caught| caught.icmp6().is_some_and(|(_, message)| message.kind() == icmp6::ROUTER_ADVERTISEMENT);
    demand(!bench.startup().iter().any(is_advertisement), "a router advertisement came at the start")?;
    let option = [&[1, 1], &mac(bench.world(), Left, 2).octets()[..]].concat();
    let kind = (icmp6::ROUTER_SOLICITATION, 0, 0);
    let asked = Packet6::icmp(bench.mark(), Left.station_link_local(), ALL_ROUTERS, kind, &option).hop_limit(255);
    bench.begin()?;
    bench.send_to(Left, MacAddr::from_ipv6_multicast(ALL_ROUTERS), &asked)?;
    bench.settle(Left)?;
    bench.listen(ANSWER)?;
    demand(!bench.log().iter().any(is_advertisement), "a router solicitation was answered")
}

/// A redirect in a frame.
struct Redirect {
    target: Ipv6Addr,
    destination: Ipv6Addr,
    valid: bool,
    to: Ipv6Addr,
}

fn redirect(caught: &Caught) -> Option<Redirect> {
    let (packet, message) = caught.icmp6().filter(|(_, message)| message.kind() == icmp6::REDIRECT)?;
    let bytes = message.into_inner();
    let address = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(at..at + 16)?).ok()?));
    let (source, to) = (packet.source(), packet.destination());
    let sound = message.verify_checksum(&source, &to);
    // RFC 4861 8.1.
    let valid = sound && source.is_unicast_link_local() && packet.hop_limit() == 255 && message.code() == 0;
    Some(Redirect { target: address(8)?, destination: address(24)?, valid, to })
}

/// RFC 4861 8.2: a router SHOULD send a redirect to a neighbor for whom another first hop on the same link is better,
/// and MUST limit their rate. It MUST NOT change its own routes when it receives one.
pub fn redirects(bench: &mut Bench) -> Judged {
    never_applied(bench)?;
    for (host, (path, packet)) in (0x11..).zip(both(bench, |bench| bench.udp6())) {
        let sender = Left.host6(host);
        bench.answers.set(Left, sender, bench.mac(Left, host as u8));
        let destination = Ipv6Addr::new(0x2001, 0xdb8, 0x30, 0, 0, 0, 0, host);
        let packet = packet.from(sender).to(destination);
        sent(bench, &packet, 5)?;
        // The router may first have to ask for the sender's MAC address, for which the last marker does not wait.
        bench.wait(LIMIT, |log| log.iter().any(|caught| redirect(caught).is_some()))?;
        let found: Vec<_> = bench.log().iter().filter_map(redirect).collect();
        if found.is_empty() {
            return fail(format_args!(
                "no redirect came for packets that leave by the link they came in on, {path} (S)"
            ));
        }
        for redirect in found {
            demand(redirect.valid, format_args!("source, hop limit, code or checksum of a redirect is wrong, {path}"))?;
            same(format_args!("target, {path}"), redirect.target, SAME_LINK_GATEWAY6)?;
            same(format_args!("destination, {path}"), redirect.destination, destination)?;
            same(format_args!("whom the redirect is for, {path}"), redirect.to, sender)?;
        }
        let many = sent(bench, &packet, 100)?.len();
        demand(many < 100, format_args!("{many} redirects came for 100 packets, expected fewer, {path}"))?;
    }
    // None where the packet leaves by another link, and none for senders elsewhere.
    let packet = bench.udp6();
    let other = sent(bench, &packet, 5)?;
    demand(other.is_empty(), "a redirect came though the packet leaves by another link")?;
    let far = packet
        .from(Ipv6Addr::new(0x2001, 0xdb8, 0x20, 0, 0, 0, 0, 9))
        .to(Ipv6Addr::new(0x2001, 0xdb8, 0x30, 0, 0, 0, 0, 9));
    let far = sent(bench, &far, 5)?;
    demand(far.is_empty(), "a redirect came though the sender is not on the link")
}

/// Sends copies of a packet, which must all be forwarded; returns the redirects that came.
fn sent(bench: &mut Bench, packet: &Packet6, count: usize) -> Judged<Vec<Redirect>> {
    bench.begin()?;
    for _ in 0..count {
        bench.send(Left, packet)?;
    }
    bench.wait(LIMIT, |log| log.iter().filter(|caught| packet.is_in(caught)).count() >= count)?;
    bench.settle(Left)?;
    let forwarded = |caught: &&Caught| packet.is_in(caught) && redirect(caught).is_none();
    let passed = bench.log().iter().filter(forwarded).count();
    same("packets that were forwarded", passed, count)?;
    Ok(bench.log().iter().filter_map(redirect).collect())
}

fn never_applied(bench: &mut Bench) -> Judged {
    let destination = Ipv6Addr::new(0x2001, 0xdb8, 0x20, 0, 0, 0, 0, 0x77);
    let packet = bench.udp6().to(destination);
    let before = bench.pass(Left, &packet, Right)?.to();
    // From the gateway that the route names, as far as a router can tell; another one is said to be better.
    let (gateway, better) = (Right.station_link_local(), Right.host6(3));
    let router = Right.router6();
    let body = [&better.octets()[..], &destination.octets()].concat();
    for target in [better, destination] {
        let body =
            if target == better { body.clone() } else { [&destination.octets()[..], &destination.octets()].concat() };
        let lie = Packet6::icmp(bench.mark(), gateway, router, (icmp6::REDIRECT, 0, 0), &body).hop_limit(255);
        let frame = framed(before, bench.mac(Right, 1), ethertype::IPV6, &lie.to_vec());
        bench.begin()?;
        bench.send_frame(Right, &frame)?;
        bench.settle(Right)?;
        bench.listen(Duration::from_millis(50))?;
        for (path, packet) in both(bench, |bench| bench.udp6().to(destination)) {
            let after = bench.pass(Left, &packet, Right).case(path)?.to();
            same(format_args!("next hop behind a redirect to the router, {path}"), after, before)?;
        }
    }
    Ok(())
}
