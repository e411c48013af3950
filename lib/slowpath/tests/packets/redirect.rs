// SPDX-License-Identifier: MIT
//! Redirects: when a sender is told of a better first hop, what it is told, and when not.
//!
//! The second way out of the left link is the gateway 10.0.1.4 or fe80::4, which is host 4 there.

use crate::world::*;
use perigee_net::{Interface, InterfaceId, MacAddr, Policy};
use perigee_packet::wire::{icmp4, icmp6, ipv4, ipv6, protocol};
use perigee_packet::{Icmp4, Icmp6, Ipv4, Ipv6};
use perigee_slowpath::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const FAR4: Ipv4Addr = Ipv4Addr::new(198, 18, 7, 7);
const FAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x300, 0, 0, 0, 0, 7);

/// Packets of host 2 to far destinations leave by the link that they come from, over the gateway there.
fn hairpin() -> (World, Host, Host) {
    hairpin_with(Config::default())
}

fn hairpin_with(config: Config) -> (World, Host, Host) {
    let mut w = World::with(config);
    let (a, gateway) = (host(LEFT, 2), host(LEFT, 4));
    w.hosts.insert((LEFT, v6("fe80::4").into()), gateway.mac);
    w.table.0.push((prefix("198.18.7.0/24"), RouteDecision::Gateway(LEFT, gateway.v4.into())));
    w.table.0.push((prefix("2001:db8:300::/48"), RouteDecision::Gateway(LEFT, v6("fe80::4").into())));
    // The neighbors are known from here on.
    for (from, to) in [(a.v4, gateway.v4), (gateway.v4, a.v4)] {
        w.from(a, &udp4(host(LEFT, 3).v4, to, 1));
        w.from(a, &udp4(from, host(RIGHT, 3).v4, 1));
    }
    for to in [a.v6, gateway.v6, FAR6] {
        w.from(host(RIGHT, 3), &udp6(host(RIGHT, 3).v6, to, 1));
    }
    w.advance(10_000);
    w.sent.clear();
    w.twin.clear();
    (w, a, gateway)
}

/// The redirects among the packets that were sent, and the others.
fn split(w: &mut World) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let redirect = |packet: &Vec<u8>| match packet[0] >> 4 {
        4 => packet[9] == protocol::ICMP && Icmp4::new(&packet[20..]).unwrap().kind() == icmp4::REDIRECT,
        _ => packet[6] == protocol::ICMPV6 && Icmp6::new(&packet[40..]).unwrap().kind() == icmp6::REDIRECT,
    };
    w.take_packets().into_iter().map(|(_, _, packet)| packet).partition(redirect)
}

/// How many redirects a packet of host 2 leads to, forwarded or as a copy of what the fast path forwarded.
fn redirects(w: &mut World, packet: &[u8]) -> [usize; 2] {
    let a = host(LEFT, 2);
    w.from(a, packet);
    let forwarded = split(w).0.len();
    w.input(Input::SentBack { interface: LEFT, frame: &ethernet(mac(LEFT), a.mac, packet) });
    let (copied, others) = split(w);
    assert!(others.is_empty(), "a copy is not forwarded again: {others:?}");
    [forwarded, copied.len()]
}

// RFC 1812 5.2.7.2, 4.3.3.2: for the host alone, with the better next hop; the packet is forwarded all the same.
#[test]
fn ipv4_row_37_redirects_are_for_hosts() {
    let (mut w, a, gateway) = hairpin();
    let before = w.count("redirects_sent");
    // Over the gateway, and to a station that the sender takes for one beyond the router.
    for (to, better) in [(FAR4, gateway.v4), (host(LEFT, 3).v4, host(LEFT, 3).v4)] {
        let packet = edit4(udp4(a.v4, to, 700), |view| view.set_ttl(9));
        w.from(a, &packet);
        let (redirects, forwarded) = split(&mut w);
        assert_eq!(forwarded, [edit4(packet.clone(), |view| view.set_ttl(8))]);
        let [redirect] = &redirects[..] else { panic!("{redirects:?}") };
        let view = Ipv4::new(&redirect[..]).unwrap();
        assert_eq!((view.source(), view.destination(), view.ttl(), view.tos()), (v4("10.0.1.1"), a.v4, 64, 0xc0));
        assert_eq!(icmp4_of(redirect), (5, 1, better.to_bits(), &packet[..548]));
    }
    assert_eq!(w.count("redirects_sent"), before + 2);
}

// RFC 1812 5.2.7.2: only by the interface it came in on, only to a sender on the next hop's network, no source route.
#[test]
fn ipv4_row_38_redirects_only_where_they_help() {
    let (mut w, a, gateway) = hairpin();
    assert_eq!(redirects(&mut w, &udp4(a.v4, FAR4, 5)), [1, 1]);
    // Out of another interface; from another network; from the next hop itself.
    assert_eq!(redirects(&mut w, &udp4(a.v4, host(RIGHT, 3).v4, 5)), [0, 0]);
    assert_eq!(redirects(&mut w, &udp4(v4("198.51.100.3"), FAR4, 5)), [0, 0]);
    assert_eq!(redirects(&mut w, &udp4(gateway.v4, FAR4, 5)), [0, 0]);
    // From one network of the link to a router on another.
    let mut two = interface(LEFT);
    two.addresses.push(prefix("172.16.0.1/24"));
    w.set(LEFT, two.clone());
    w.sent.clear();
    w.hosts.insert((LEFT, v4("172.16.0.9").into()), host(LEFT, 5).mac);
    assert_eq!(redirects(&mut w, &udp4(v4("172.16.0.9"), FAR4, 5)), [0, 0]);
    // Whatever forbids errors forbids redirects (RFC 1812 4.3.2.7).
    let error = ip4(ipv4::Repr::new(a.v4, FAR4, protocol::ICMP, 0), &[], &[3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(redirects(&mut w, &error), [0, 0]);
    let later = edit4(udp4(a.v4, FAR4, 99), |view| view.set_fragment(false, true, 800));
    assert_eq!(redirects(&mut w, &later), [0, 0]);
    // One that expires is not forwarded.
    assert_eq!(redirects(&mut w, &edit4(udp4(a.v4, FAR4, 5), |view| view.set_ttl(1))), [0, 0]);
    // A source route: of the sender's making.
    two.policy.source_routes = true;
    w.set(LEFT, two);
    w.sent.clear();
    let route = [&[131, 7, 4][..], &FAR4.octets(), &[0]].concat();
    let routed = ip4(ipv4::Repr::new(a.v4, v4("10.0.1.1"), protocol::UDP, 0), &route, b"data");
    w.from(a, &routed);
    let (redirects, forwarded) = split(&mut w);
    assert_eq!((redirects.len(), forwarded.len()), (0, 1));
    // Other options do not matter.
    w.from(a, &ip4(ipv4::Repr::new(a.v4, FAR4, protocol::UDP, 0), &[148, 4, 0, 0], b"data"));
    assert_eq!(split(&mut w).0.len(), 1);
}

#[test]
fn an_interface_may_have_redirects_off() {
    let (mut w, a, _) = hairpin();
    w.set(LEFT, Interface { policy: Policy { redirects: false, ..Policy::default() }, ..interface(LEFT) });
    w.sent.clear();
    assert_eq!(redirects(&mut w, &udp4(a.v4, FAR4, 5)), [0, 0]);
    assert_eq!(redirects(&mut w, &udp6(a.v6, FAR6, 5)), [0, 0]);
}

// RFC 1812 4.3.2.8, RFC 4861 8.2: a limit of their own.
#[test]
fn redirects_are_limited_and_forwarding_is_not() {
    let (mut w, a, _) = hairpin_with(Config { redirects_per_second: 10, redirect_burst: 3, ..Config::default() });
    for packet in [udp4(a.v4, FAR4, 5), udp6(a.v6, FAR6, 5)] {
        for _ in 0..20 {
            w.from(a, &packet);
        }
        let (redirects, forwarded) = split(&mut w);
        assert_eq!((redirects.len(), forwarded.len()), (3, 20));
        w.advance(200);
        for _ in 0..20 {
            w.from(a, &packet);
        }
        assert_eq!(split(&mut w).0.len(), 2);
    }
    assert_eq!((w.count("redirects_limited"), w.count("icmp_errors_limited")), (70, 0));
}

/// Target, destination and options of the one redirect that was sent.
fn redirect6(w: &mut World, a: Host) -> (Ipv6Addr, Ipv6Addr, Vec<u8>) {
    let (redirects, _) = split(w);
    let [redirect] = &redirects[..] else { panic!("{redirects:?}") };
    let view = Ipv6::new(&redirect[..]).unwrap();
    assert_eq!((view.source(), view.destination(), view.hop_limit()), (mac(LEFT).link_local(), a.v6, 255));
    let (kind, code, reserved, body) = icmp6_of(redirect);
    assert_eq!((kind, code, reserved), (137, 0, 0));
    assert!(redirect.len() <= 1280);
    let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&body[at..at + 16]).unwrap());
    (address(0), address(16), body[32..].to_vec())
}

// RFC 4861 4.5, 4.6.3, 8.2: target, its MAC, and as much of the packet as fits.
#[test]
fn ipv6_row_21_redirects_name_a_better_first_hop() {
    let (mut w, a, gateway) = hairpin();
    let b = host(LEFT, 3);
    for (to, target, mac) in [(FAR6, v6("fe80::4"), gateway.mac), (b.v6, b.v6, b.mac)] {
        for len in [0, 3, 8, 100, 1300] {
            let packet = udp6(a.v6, to, len);
            w.from(a, &packet);
            let (named, destination, options) = redirect6(&mut w, a);
            assert_eq!((named, destination), (target, to));
            assert_eq!((&options[..2], &options[2..8]), (&[2, 1][..], &mac.octets()[..]));
            let quoted = packet.len().min(1184) / 8 * 8;
            assert_eq!(options[8..16], [4, (quoted / 8 + 1) as u8, 0, 0, 0, 0, 0, 0]);
            assert_eq!(&options[16..], &packet[..quoted]);
        }
    }
    assert_eq!(redirects(&mut w, &udp6(a.v6, FAR6, 5)), [1, 1]);
}

// RFC 4861 8.2: not for groups, not to senders elsewhere, and a router is named by its link-local address or not at
// all.
#[test]
fn ipv6_row_21_redirects_only_where_they_help() {
    let (mut w, a, gateway) = hairpin();
    assert_eq!(redirects(&mut w, &udp6(a.v6, host(RIGHT, 3).v6, 5)), [0, 0]);
    assert_eq!(redirects(&mut w, &udp6(v6("2001:db8:100::7"), FAR6, 5)), [0, 0]);
    assert_eq!(redirects(&mut w, &udp6(a.v6, v6("ff0e::1"), 5)), [0, 0]);
    assert_eq!(redirects(&mut w, &udp6(v6("fe80::9"), FAR6, 5))[1], 0);
    // A copy's source has not been judged: one of the router's own is no neighbor, whatever the network covers.
    for source in ["2001:db8:1::1", "2001:db8:2::1", "ff02::1", "::"] {
        assert_eq!(redirects(&mut w, &udp6(v6(source), FAR6, 5)), [0, 0], "{source}");
    }
    let mut expired = udp6(a.v6, FAR6, 5);
    expired[7] = 1;
    assert_eq!(redirects(&mut w, &expired), [0, 0]);
    w.table.0.push((prefix("2001:db8:301::/48"), RouteDecision::Gateway(LEFT, gateway.v6.into())));
    assert_eq!(redirects(&mut w, &udp6(a.v6, v6("2001:db8:301::1"), 5)), [0, 0]);
}

// RFC 1812 5.2.7.2, RFC 4861 8.2: a router applies none.
#[test]
fn ipv6_row_21_a_redirect_to_the_router_is_not_applied() {
    let (mut w, a, gateway) = hairpin();
    let body = [v6("fe80::4").octets(), FAR6.octets()].concat();
    let told = icmp6_packet(v6("fe80::2"), mac(LEFT).link_local(), 255, icmp6::REDIRECT, 0, &body);
    w.from(a, &told);
    let message = icmp4::Message::Redirect { code: 1, router: gateway.v4, quoted: &udp4(v4("10.0.1.1"), FAR4, 0) };
    let mut payload = vec![0; message.len()];
    message.emit(&mut payload).unwrap();
    w.from(a, &ip4(ipv4::Repr::new(a.v4, v4("10.0.1.1"), protocol::ICMP, 0), &[], &payload));
    assert_eq!(w.dropped("redirect"), 2);
    w.silent();
}

// What is wrong with a copy is no business of the slow path's: the packet has long been forwarded.
#[test]
fn copies_that_make_no_sense_are_ignored() {
    let (mut w, a, _) = hairpin();
    let good = ethernet(mac(LEFT), a.mac, &udp4(a.v4, FAR4, 5));
    let before = w.slow.counters().clone();
    let cases = [
        (InterfaceId(9), good.clone()),
        (LEFT, good[..13].to_vec()),
        (LEFT, good[..30].to_vec()),
        (LEFT, framed(mac(LEFT), a.mac, 0x88cc, &good)),
        (LEFT, ethernet(MacAddr::BROADCAST, a.mac, &udp6(a.v6, FAR6, 5))),
        (LEFT, ethernet(mac(LEFT), a.mac, &udp4(a.v4, v4("224.0.0.5"), 5))),
        (LEFT, ethernet(mac(LEFT), a.mac, &ip6(ipv6::Repr::new(a.v6, v6("fe80::4"), 17, 0), &[]))),
        (LEFT, ethernet(mac(LEFT), a.mac, &udp4(a.v4, v4("203.0.113.1"), 5))),
    ];
    let count = cases.len() as u64;
    for (interface, frame) in cases {
        w.input(Input::SentBack { interface, frame: &frame });
    }
    w.silent();
    let found: Vec<_> = w.slow.counters().since(&before).map(|count| (count.name, count.value)).collect();
    assert_eq!(found, [("sent_back", count)]);
}
