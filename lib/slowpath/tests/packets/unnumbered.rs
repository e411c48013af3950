// SPDX-License-Identifier: MIT
//! Links without addresses, host addresses (of Linux's loopback), and peers without a common prefix.

use crate::world::*;
use perigee_net::{AddressAttributes, AddressScope, HostAddress, Interface, InterfaceAddress, InterfaceId, MacAddr};
use perigee_packet::wire::arp::Repr;
use perigee_packet::wire::icmp6;
use perigee_packet::{Ipv4, Ipv6};
use perigee_slowpath::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const LOOPBACK4: &str = "10.255.0.1";
const LOOPBACK6: &str = "2001:db8:ffff::1";

fn host_address(text: &str) -> HostAddress {
    HostAddress { address: prefix(text), attributes: AddressAttributes::default(), station: None }
}

/// Interfaces with these addresses (besides the link-local one), and routes; the loopback has `loopback`.
fn world(interfaces: &[(InterfaceId, &[&str])], routes: &[(&str, RouteDecision)], loopback: &[&str]) -> World {
    let mut w = World::bare(Config::default());
    w.table.0 = routes.iter().map(|(text, decision)| (prefix(text), *decision)).collect();
    let local = loopback.iter().map(|text| (prefix(text), RouteDecision::Local));
    w.table.0.extend(local);
    for (id, addresses) in interfaces {
        let addresses = addresses.iter().map(|text| prefix(text)).collect();
        w.set(*id, Interface { addresses, ..interface(*id) });
    }
    w.input(Input::SetHostAddresses { addresses: loopback.iter().map(|text| host_address(text)).collect() });
    w.advance(1500);
    w.sent.clear();
    w.events.clear();
    w
}

const BOTH: &[(InterfaceId, &[&str])] = &[(LEFT, &["10.0.1.1/24", "2001:db8:1::1/64"]), (RIGHT, &[])];

/// A station on the link of RIGHT by a route alone.
fn neighbor() -> Host {
    Host { v4: v4("10.255.0.2"), v6: v6("2001:db8:ffff::2"), ..host(RIGHT, 2) }
}

fn ask(w: &mut World, from: Host, target: &str) {
    let request = Repr::request(from.mac, from.v4, v4(target));
    w.punt(from.interface, &arp_frame(MacAddr::BROADCAST, &request));
}

fn source4(packet: &[u8]) -> Ipv4Addr {
    Ipv4::new(packet).unwrap().source()
}

fn source6(packet: &[u8]) -> Ipv6Addr {
    Ipv6::new(packet).unwrap().source()
}

#[test]
fn a_link_without_addresses_asks_from_the_loopbacks_and_answers_for_it() {
    let by_link = ("10.255.0.2/32", RouteDecision::Connected(RIGHT));
    let beyond = ("10.9.0.0/16", RouteDecision::Gateway(RIGHT, IpAddr::V4(v4("10.255.0.2"))));
    let mut w = world(BOTH, &[by_link, beyond], &["10.255.0.1/32"]);
    let (a, b) = (host(LEFT, 2), neighbor());
    w.from(a, &udp4(a.v4, v4("10.9.0.1"), 5));
    let request = arp_of(&w.sent[0].1).unwrap();
    assert_eq!((request.sender_ip, request.target_ip), (v4(LOOPBACK4), b.v4));
    // The answer is to that address, so it counts as one.
    w.punt(RIGHT, &arp_frame(mac(RIGHT), &request.reply(b.mac)));
    assert_eq!(w.neighbor(RIGHT, b.v4).unwrap().state, NeighborState::Reachable);
    assert_eq!(w.take_packet().1, b.mac, "what waited");
    // The neighbor asks, and is known from then on: it is on the link by a route.
    w.input(Input::FlushNeighbors { interface: None, address: None });
    ask(&mut w, b, LOOPBACK4);
    let reply = arp_of(&w.sent[0].1).unwrap();
    assert_eq!((reply.sender_ip, reply.sender_mac, reply.target_ip), (v4(LOOPBACK4), mac(RIGHT), b.v4));
    assert_eq!(w.neighbor(RIGHT, b.v4).unwrap().mac, Some(b.mac));
    assert_eq!(w.count("solicitations_without_source"), 0);
}

/// `ip unnumbered`: the address of another interface is borrowed.
#[test]
fn a_link_without_addresses_borrows_those_of_other_interfaces() {
    let mut w = world(BOTH, &[("10.255.0.2/32", RouteDecision::Connected(RIGHT))], &[]);
    let (a, b) = (host(LEFT, 2), neighbor());
    w.from(a, &udp4(a.v4, b.v4, 5));
    assert_eq!(arp_of(&w.sent[0].1).unwrap().sender_ip, v4("10.0.1.1"));
    w.sent.clear();
    ask(&mut w, b, "10.0.1.1");
    assert_eq!(arp_of(&w.sent[0].1).unwrap().sender_mac, mac(RIGHT));
}

#[test]
fn a_link_with_addresses_answers_for_the_loopbacks_but_not_for_other_links() {
    let interfaces: &[(InterfaceId, &[&str])] = &[(LEFT, &["10.0.1.1/24"]), (RIGHT, &["10.0.2.1/24"])];
    let routes = [("10.0.1.0/24", RouteDecision::Connected(LEFT)), ("10.0.2.0/24", RouteDecision::Connected(RIGHT))];
    // Linux may have whole prefixes in its table local.
    let mut w = world(interfaces, &routes, &["10.255.0.1/32"]);
    w.table.0.push((prefix("10.7.0.0/16"), RouteDecision::Local));
    for (target, answered) in [
        (LOOPBACK4, true),
        ("10.7.3.4", true),
        ("10.0.1.1", true),
        ("10.0.2.1", false),
        ("10.0.2.255", false),
        ("10.255.0.3", false),
        ("127.0.0.1", false),
    ] {
        ask(&mut w, host(LEFT, 2), target);
        let found = w.sent.iter().filter_map(|(_, frame)| arp_of(frame)).any(|arp| arp.sender_ip == v4(target));
        assert_eq!(found, answered, "{target}");
        w.sent.clear();
    }
    assert_eq!(w.dropped("arp_not_for_us"), 4);
}

#[test]
fn nobody_else_speaks_from_an_address_that_is_on_no_link() {
    let routes = [("10.0.1.0/24", RouteDecision::Connected(LEFT)), ("2001:db8:1::/64", RouteDecision::Connected(LEFT))];
    let mut w = world(BOTH, &routes, &["10.255.0.1/32", "2001:db8:ffff::1/128"]);
    let thief = Host { v4: v4(LOOPBACK4), ..host(LEFT, 9) };
    w.from(thief, &udp4(thief.v4, v4("10.0.1.3"), 5));
    w.from(thief, &udp6(v6(LOOPBACK6), v6("2001:db8:1::3"), 5));
    assert_eq!(w.dropped("own_source"), 2);
    ask(&mut w, thief, "10.0.1.1");
    assert_eq!((w.dropped("arp_sender_address"), w.slow.neighbors().count()), (1, 0));
    let address = IpAddr::V4(thief.v4);
    assert_eq!(w.events, [Event::AddressConflict { interface: LEFT, address, mac: thief.mac }]);
    // The router's own request, which another of its ports on the same link hears, is no conflict.
    ask(&mut w, Host { mac: mac(RIGHT), ..thief }, "10.0.1.3");
    assert_eq!(w.count("address_conflicts"), 1);
    w.sent.clear();
    // It is the router's whatever the table says, and another station's once it is gone.
    w.from(host(LEFT, 2), &ping4(host(LEFT, 2).v4, v4(LOOPBACK4), b"x"));
    assert_eq!(w.count("echo_replied"), 1);
    w.twin.clear();
    w.input(Input::SetHostAddresses { addresses: vec![] });
    w.table.0.retain(|(_, decision)| *decision != RouteDecision::Local);
    w.from(thief, &udp4(thief.v4, v4("10.0.1.1"), 5));
    assert_eq!((w.dropped("own_source"), w.twin.len()), (2, 1));
}

/// RFC 8950: IPv4 by next hops of IPv6, and no IPv4 address on any link.
#[test]
fn errors_come_from_the_loopbacks_where_links_have_link_local_addresses_only() {
    let gateway = |id| RouteDecision::Gateway(id, IpAddr::V6(v6("fe80::2")));
    let routes = [
        ("10.1.0.0/24", gateway(LEFT)),
        ("10.2.0.0/24", gateway(RIGHT)),
        ("2001:db8:a::/48", gateway(LEFT)),
        ("2001:db8:b::/48", gateway(RIGHT)),
    ];
    let (from4, to4, from6, to6) = (v4("10.1.0.1"), v4("10.2.0.1"), v6("2001:db8:a::1"), v6("2001:db8:b::1"));
    let link_local = mac(LEFT).link_local();
    for (loopback, expected4, expected6) in [
        (&["10.255.0.1/32", "2001:db8:ffff::1/128"][..], v4(LOOPBACK4), v6(LOOPBACK6)),
        // Without any, the dummy address of RFC 7600 4.8, and what the interface has (RFC 4443 2.2).
        (&[], v4("192.0.0.8"), link_local),
    ] {
        let mut w = world(&[(LEFT, &[]), (RIGHT, &[])], &routes, loopback);
        w.hosts.insert((LEFT, v6("fe80::2").into()), host(LEFT, 2).mac);
        let mtu = Interface { mtu: 1400, addresses: vec![], ..interface(RIGHT) };
        w.set(RIGHT, mtu);
        let a = host(LEFT, 2);
        w.from(a, &edit4(udp4(from4, to4, 5), |packet| packet.set_ttl(1)));
        let error = w.take_packet().2;
        assert_eq!((source4(&error), icmp4_of(&error).0), (expected4, 11));
        w.from(a, &edit4(udp4(from4, to4, 1440), |packet| packet.set_fragment(true, false, 0)));
        let error = w.take_packet().2;
        let (kind, code, mtu, _) = icmp4_of(&error);
        assert_eq!((source4(&error), kind, code, mtu), (expected4, 3, 4, 1400));
        let mut expired = udp6(from6, to6, 5);
        expired[7] = 1;
        w.from(a, &expired);
        let error = w.take_packet().2;
        assert_eq!((source6(&error), icmp6_of(&error).0), (expected6, icmp6::TIME_EXCEEDED));
        w.from(a, &udp6(from6, to6, 1440));
        let error = w.take_packet().2;
        let (kind, _, mtu, _) = icmp6_of(&error);
        assert_eq!((source6(&error), kind, mtu), (expected6, icmp6::PACKET_TOO_BIG, 1400));
        assert_eq!(w.count("icmp_errors_unroutable"), 0);
    }
}

/// RFC 4443 2.2 (a).
#[test]
fn an_error_about_a_packet_to_the_loopbacks_address_comes_from_it() {
    let mut w = world(BOTH, &[("2001:db8:1::/64", RouteDecision::Connected(LEFT))], &["2001:db8:ffff::1/128"]);
    let a = host(LEFT, 2);
    w.hosts.insert((LEFT, a.v6.into()), a.mac);
    let mut long = udp6(a.v6, v6(LOOPBACK6), 5);
    long[5] += 8;
    w.from(a, &long);
    assert_eq!(source6(&w.take_packet().2), v6(LOOPBACK6));
}

/// Addresses of the machine or of a link, on no interface of the router's, are no sources for others.
#[test]
fn an_address_of_small_scope_is_no_source_elsewhere() {
    let routes = [("10.1.0.0/24", RouteDecision::Gateway(LEFT, IpAddr::V6(v6("fe80::2"))))];
    let mut w = world(&[(LEFT, &[])], &routes, &[]);
    w.hosts.insert((LEFT, v6("fe80::2").into()), host(LEFT, 2).mac);
    let scoped = |text, scope| {
        let attributes = AddressAttributes { scope, ..AddressAttributes::default() };
        HostAddress { address: prefix(text), attributes, station: None }
    };
    let addresses = vec![
        scoped("10.255.1.1/32", AddressScope::Host),
        scoped("10.255.2.1/32", AddressScope::Link),
        scoped("10.255.3.1/32", AddressScope::Global),
    ];
    w.input(Input::SetHostAddresses { addresses });
    w.from(host(LEFT, 2), &edit4(udp4(v4("10.1.0.1"), v4("10.1.0.2"), 5), |packet| packet.set_ttl(1)));
    assert_eq!(source4(&w.take_packet().2), v4("10.255.3.1"));
}

/// A point-to-point link: peers with /32 and /128, which have no prefix in common.
#[test]
fn a_peer_on_the_link_by_a_route_is_heard_and_answered() {
    let (ours4, ours6) = ("10.50.0.1/32", "2001:db8:50::1/128");
    let peer = Host { v4: v4("10.50.0.2"), v6: v6("2001:db8:50::2"), ..host(RIGHT, 2) };
    let routes = [
        ("10.50.0.2/32", RouteDecision::Connected(RIGHT)),
        ("2001:db8:50::2/128", RouteDecision::Connected(RIGHT)),
        ("2001:db8:51::/48", RouteDecision::Gateway(RIGHT, IpAddr::V6(v6("2001:db8:50::2")))),
    ];
    let toward = |text: &str| AddressAttributes { toward: Some(text.parse().unwrap()), ..AddressAttributes::default() };
    let special: Vec<(InterfaceAddress, AddressAttributes)> =
        vec![(prefix(ours4), toward("10.50.0.2/32")), (prefix(ours6), toward("2001:db8:50::2/128"))];
    let mut w = world(&[(RIGHT, &["10.0.2.1/24", ours4, ours6])], &routes, &[]);
    let numbered = Interface {
        addresses: ["10.0.2.1/24", ours4, ours6].map(prefix).to_vec(),
        attributes: special.into_iter().collect(),
        ..interface(RIGHT)
    };
    w.set(RIGHT, numbered.clone());
    w.advance(1500);
    w.sent.clear();
    ask(&mut w, peer, "10.50.0.1");
    let solicitation =
        |from: Ipv6Addr| neighbor_solicitation(from, v6("ff02::1:ff00:1"), v6("2001:db8:50::1"), Some(peer.mac));
    let group = MacAddr::from_ipv6_multicast(v6("ff02::1:ff00:1"));
    w.punt(RIGHT, &ethernet(group, peer.mac, &solicitation(peer.v6)));
    let ours = v6("2001:db8:50::1");
    assert_eq!(advertisement_of(&w.sent[1].1), Some((ours, ours, true, true)));
    for address in [IpAddr::V4(peer.v4), peer.v6.into()] {
        assert_eq!(w.neighbor(RIGHT, address).unwrap().mac, Some(peer.mac), "{address} is known");
    }
    // Who is reached by a gateway on the link is not on it.
    w.punt(RIGHT, &ethernet(group, peer.mac, &solicitation(v6("2001:db8:51::1"))));
    assert_eq!((w.dropped("nd_not_for_us"), w.slow.neighbors().count()), (1, 2));
    // Another address for the interface is no reason to forget the peer.
    let mut more = numbered.clone();
    more.addresses.push(prefix("10.0.3.1/24"));
    w.set(RIGHT, more);
    assert_eq!(w.slow.neighbors().count(), 2);
    // The peer is spoken to from the address that it is the peer of.
    w.input(Input::FlushNeighbors { interface: None, address: None });
    w.sent.clear();
    w.from(peer, &ping4(peer.v4, v4("10.50.0.1"), b"x"));
    assert_eq!(arp_of(&w.sent[0].1).unwrap().sender_ip, v4("10.50.0.1"));
    // Without the route there is no such neighbor.
    w.table.0.clear();
    w.set(RIGHT, numbered);
    assert_eq!(w.slow.neighbors().count(), 0);
}

/// RFC 6724 rule 3.
#[test]
fn a_deprecated_address_is_spoken_from_only_where_no_other_will_do() {
    let routes = [("2001:db8:1::/64", RouteDecision::Connected(LEFT))];
    let mut w = world(&[], &routes, &[]);
    let a = host(LEFT, 2);
    w.hosts.insert((LEFT, a.v6.into()), a.mac);
    let deprecated = AddressAttributes { deprecated: true, ..AddressAttributes::default() };
    let old = prefix("2001:db8:1::1/64");
    for (addresses, expected) in [
        (&["2001:db8:1::1/64", "2001:db8:1::aaaa/64"][..], "2001:db8:1::aaaa"),
        (&["2001:db8:1::1/64"], "2001:db8:1::1"),
    ] {
        let addresses = addresses.iter().map(|text| prefix(text)).collect();
        w.set(LEFT, Interface { addresses, attributes: [(old, deprecated)].into(), ..interface(LEFT) });
        w.advance(1500);
        w.sent.clear();
        let mut expired = udp6(a.v6, v6("2001:db8:9::1"), 5);
        expired[7] = 1;
        w.from(a, &expired);
        assert_eq!(source6(&w.take_packet().2), v6(expected));
        // It answers all the same (RFC 4862 5.5.4).
        w.from(a, &ping6(a.v6, v6("2001:db8:1::1"), b"x"));
        assert_eq!(source6(&w.take_packet().2), v6("2001:db8:1::1"));
    }
}
