// SPDX-License-Identifier: MIT
//! Subnet-router anycast addresses (RFC 4291 2.6.1): the prefix and zeros, of each of the router's links.

use crate::world::*;
use perigee_net::{AddressAttributes, HostAddress, Interface, MacAddr, solicited_node};
use perigee_packet::Ipv6;
use perigee_packet::wire::{icmp6, protocol};
use perigee_slowpath::*;
use std::net::Ipv6Addr;

fn ask(w: &mut World, from: Ipv6Addr, target: Ipv6Addr) {
    let (group, a) = (solicited_node(target), host(LEFT, 2));
    let mac_told = (!from.is_unspecified()).then_some(a.mac);
    let packet = neighbor_solicitation(from, group, target, mac_told);
    w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(group), a.mac, &packet));
}

#[test]
fn echo_to_the_subnet_router_anycast_address_is_answered_from_a_unicast_address() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    let near = Host { v6: v6("fe80::2"), ..a };
    w.hosts.insert((LEFT, near.v6.into()), a.mac);
    let cases = [
        (a, "2001:db8:1::", v6("2001:db8:1::1")),
        // Of another link: from an address of the link that the reply leaves by.
        (a, "2001:db8:2::", v6("2001:db8:1::1")),
        (near, "fe80::", mac(LEFT).link_local()),
    ];
    for (from, asked, expected) in cases {
        w.from(a, &ping6(from.v6, v6(asked), b"data"));
        let (interface, mac, reply) = w.take_packet();
        assert_eq!((interface, mac, icmp6_of(&reply).0), (LEFT, a.mac, icmp6::ECHO_REPLY), "{asked}");
        let view = Ipv6::new(&reply[..]).unwrap();
        assert_eq!((view.source(), view.destination()), (expected, from.v6), "{asked}");
    }
    // The rest is for Linux; an error about a packet to it comes from a unicast address (RFC 4443 2.2 b).
    w.twin.clear();
    w.from(a, &udp6(a.v6, v6("2001:db8:2::"), 5));
    assert_eq!(w.twin.len(), 1);
    let mut long = udp6(a.v6, v6("2001:db8:1::"), 5);
    long[5] += 8;
    w.from(a, &long);
    assert_eq!(Ipv6::new(&w.take_packet().2[..]).unwrap().source(), v6("2001:db8:1::1"));
}

/// RFC 4861 7.2.7.
#[test]
fn solicitations_for_it_are_answered_without_override() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    for (target, from) in [("2001:db8:1::", a.v6), ("fe80::", v6("fe80::2"))] {
        ask(&mut w, from, v6(target));
        let answer = w.sent.iter().find_map(|(_, frame)| advertisement_of(frame)).expect("an answer");
        let unicast = if from == a.v6 { v6("2001:db8:1::1") } else { mac(LEFT).link_local() };
        assert_eq!(answer, (unicast, v6(target), true, false), "{target}");
        w.sent.clear();
    }
    // A station that tests it by duplicate address detection gets an answer; its question is no conflict.
    ask(&mut w, Ipv6Addr::UNSPECIFIED, v6("2001:db8:1::"));
    let answer = w.sent.iter().find_map(|(_, frame)| advertisement_of(frame)).expect("an answer");
    assert_eq!(answer, (mac(LEFT).link_local(), v6("2001:db8:1::"), false, false));
    w.sent.clear();
    // That of the other link is none of this one.
    ask(&mut w, a.v6, v6("2001:db8:2::"));
    assert_eq!((w.sent.len(), w.dropped("nd_not_for_us")), (0, 1));
    // Other routers have it, too: neither what they say of it nor what they send from it is a conflict.
    let told =
        neighbor_advertisement(v6("fe80::9"), v6("ff02::1"), v6("2001:db8:1::"), Some(a.mac), (true, false, false));
    w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(v6("ff02::1")), a.mac, &told));
    w.from(a, &ping6(v6("2001:db8:1::"), host(RIGHT, 2).v6, b"x"));
    assert_eq!((w.count("address_conflicts"), w.dropped("own_source"), w.count("forwarded")), (0, 0, 1));
}

/// Its group is one that the router is a member of (RFC 4291 2.8).
#[test]
fn echo_to_its_solicited_node_group_is_answered() {
    let mut w = World::new();
    let (a, group) = (host(LEFT, 2), solicited_node(v6("2001:db8:1::")));
    w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(group), a.mac, &ping6(a.v6, group, b"x")));
    assert_eq!(Ipv6::new(&w.take_packet().2[..]).unwrap().source(), v6("2001:db8:1::1"));
}

/// While all addresses of its network are tentative, nobody speaks for the network yet.
#[test]
fn it_is_not_answered_before_an_address_of_its_network_is_in_use() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    let mut more = interface(LEFT);
    more.addresses.push(prefix("2001:db8:5::1/64"));
    w.set(LEFT, more);
    w.sent.clear();
    w.table.0.push((prefix("2001:db8:5::/128"), RouteDecision::Local));
    w.from(a, &ping6(a.v6, v6("2001:db8:5::"), b"x"));
    ask(&mut w, a.v6, v6("2001:db8:5::"));
    assert_eq!((w.take_packets(), w.dropped("tentative"), w.dropped("nd_not_for_us")), (vec![], 1, 1));
    w.advance(1500);
    w.sent.clear();
    w.from(a, &ping6(a.v6, v6("2001:db8:5::"), b"x"));
    assert_eq!(icmp6_of(&w.take_packet().2).0, icmp6::ECHO_REPLY);
}

/// RFC 6164 5: none on a /127, nor on a /128; and none of a network whose interface is down or whose address is another
/// station's.
#[test]
fn what_has_no_subnet_router_anycast_address() {
    for (text, asked) in [("2001:db8:1::1/127", "2001:db8:1::"), ("2001:db8:1::1/128", "2001:db8:1::1")] {
        let mut w = World::new();
        w.set(LEFT, Interface { addresses: vec![prefix(text)], ..interface(LEFT) });
        w.advance(1500);
        w.sent.clear();
        w.hosts.insert((LEFT, v6("2001:db8:1::").into()), host(LEFT, 9).mac);
        ask(&mut w, v6("fe80::2"), v6("2001:db8:1::"));
        assert_eq!(w.dropped("nd_not_for_us"), 1, "{text}");
        w.from(host(LEFT, 2), &ping6(v6("2001:db8:2::9"), v6(asked), b"x"));
        let ours = asked == "2001:db8:1::1";
        assert_eq!((w.count("echo_replied"), w.count("forwarded")), (u64::from(ours), u64::from(!ours)), "{text}");
    }
    let mut w = World::new();
    let a = host(LEFT, 2);
    w.set(RIGHT, Interface { up: false, ..interface(RIGHT) });
    w.from(a, &ping6(a.v6, v6("2001:db8:2::"), b"x"));
    assert_eq!((w.count("echo_replied"), w.dropped("interface_down")), (0, 1));
}

/// That an address has no connected route (`noprefixroute`) does not make its subnet smaller; one that is on no link
/// has a subnet, too.
#[test]
fn subnets_without_a_connected_route_have_one() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    let alone = prefix("2001:db8:5::1/128");
    let toward = Some("2001:db8:5::/64".parse().unwrap());
    let attributes = AddressAttributes { toward, ..AddressAttributes::default() };
    let mut config = interface(RIGHT);
    config.addresses.push(alone);
    config.attributes.insert(alone, attributes);
    w.set(RIGHT, config);
    let attributes = AddressAttributes::default();
    let elsewhere = HostAddress { address: prefix("2001:db8:6::1/64"), attributes, station: None };
    w.input(Input::SetHostAddresses { addresses: vec![elsewhere] });
    w.advance(1500);
    w.sent.clear();
    for asked in ["2001:db8:5::", "2001:db8:6::"] {
        w.from(a, &ping6(a.v6, v6(asked), b"x"));
        assert_eq!(Ipv6::new(&w.take_packet().2[..]).unwrap().source(), v6("2001:db8:1::1"), "{asked}");
    }
    // A route to a part of the subnet says nothing of the address itself.
    w.table.0.push((prefix("2001:db8:5::/128"), RouteDecision::Blackhole));
    w.from(a, &ping6(a.v6, v6("2001:db8:5::"), b"x"));
    assert_eq!(w.count("echo_replied"), 3);
    assert_eq!(Ipv6::new(&w.take_packet().2[..]).unwrap().next_header(), protocol::ICMPV6);
}
