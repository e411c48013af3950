// SPDX-License-Identifier: MIT
//! ICMPv6 echo, and when an error is sent and when not.

use crate::world::*;
use perigee_net::{Interface, MacAddr};
use perigee_packet::Ipv6;
use perigee_packet::wire::{ipv6, protocol};

const OURS: &str = "2001:db8:1::1";

// RFC 4443 4.2.
#[test]
fn answers_echo_from_the_address_asked() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    for to in [v6(OURS), v6("2001:db8:2::1"), mac(LEFT).link_local()] {
        for len in [0, 1, 56, 1452] {
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut request = ping6(a.v6, to, &data);
            request[7] = 1;
            w.from(a, &request);
            let (interface, mac, reply) = w.take_packet();
            assert_eq!((interface, mac), (LEFT, a.mac));
            assert_eq!(icmp6_of(&reply), (129, 0, 0x0009_0001, &data[..]));
            let view = Ipv6::new(&reply[..]).unwrap();
            assert_eq!((view.source(), view.destination(), view.hop_limit()), (to, a.v6, 64));
        }
    }
}

#[test]
fn answers_echo_to_its_groups_from_the_interfaces_address() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    let local = v6("fe80::2");
    w.hosts.insert((LEFT, local.into()), a.mac);
    let cases =
        [(a.v6, "ff02::1", v6(OURS)), (local, "ff02::2", mac(LEFT).link_local()), (a.v6, "ff02::1:ff00:1", v6(OURS))];
    for (from, group, expected) in cases {
        w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(v6(group)), a.mac, &ping6(from, v6(group), b"x")));
        let reply = w.take_packet().2;
        let view = Ipv6::new(&reply[..]).unwrap();
        assert_eq!((view.source(), view.destination()), (expected, from));
    }
    w.twin.clear();
    for group in ["ff02::5", "ff02::1:ff99:9999"] {
        w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(v6(group)), a.mac, &ping6(a.v6, v6(group), b"x")));
    }
    w.silent();
    assert_eq!(w.dropped("echo_group"), 2);
}

#[test]
fn bad_echo_and_redirects_are_dropped_and_the_rest_is_for_linux() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    w.meet(a);
    let mut bad = ping6(a.v6, v6(OURS), b"data");
    bad[43] ^= 1;
    w.from(a, &bad);
    w.from(a, &ip6(ipv6::Repr::new(a.v6, v6(OURS), protocol::ICMPV6, 0), &[128, 0, 0]));
    w.from(a, &icmp6_packet(a.v6, v6(OURS), 255, 137, 0, &[0; 32]));
    w.silent();
    assert_eq!((w.dropped("bad_icmp"), w.dropped("redirect")), (2, 1));
    for kind in [1, 2, 3, 4, 129, 130, 133] {
        w.from(a, &icmp6_packet(a.v6, v6(OURS), 255, kind, 0, &[0; 32]));
    }
    w.from(a, &udp6(a.v6, v6(OURS), 5));
    assert_eq!((w.twin.len(), w.sent.len()), (8, 0));
}

// RFC 5095 3.
#[test]
fn routing_header_type_0_is_refused() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    // To the address of the other interface: RFC 4443 2.2 (a) wants the error from there.
    let asked = v6("2001:db8:2::1");
    let routing = |kind: u8, left: u8| {
        let payload =
            [&[protocol::UDP, 2, kind, left, 0, 0, 0, 0][..], &host(RIGHT, 3).v6.octets(), b"datadata"].concat();
        ip6(ipv6::Repr::new(a.v6, asked, protocol::ROUTING, 0), &payload)
    };
    w.from(a, &routing(0, 1));
    let error = w.take_packet().2;
    assert_eq!((icmp6_of(&error).0, icmp6_of(&error).1, icmp6_of(&error).2), (4, 0, 42));
    assert_eq!(Ipv6::new(&error[..]).unwrap().source(), asked);
    w.twin.clear();
    w.from(a, &routing(0, 0));
    w.from(a, &routing(4, 1));
    assert_eq!((w.twin.len(), w.sent.len()), (2, 0));
}

// RFC 4443 2.4(e).
#[test]
fn no_error_where_none_may_be() {
    let mut w = World::new();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    w.set(RIGHT, Interface { mtu: 1280, ..interface(RIGHT) });
    w.sent.clear();
    let nowhere = v6("2001:db8:ffff::1");
    for (reason, to, hop_limit, len) in
        [("no route", nowhere, 9, 5), ("hop limit", b.v6, 1, 5), ("too big", b.v6, 9, 1300)]
    {
        let set = |mut packet: Vec<u8>| {
            packet[7] = hop_limit;
            packet
        };
        let body = vec![0; len + 40];
        for kind in [1, 2, 3, 4, 100, 127, 137] {
            w.from(a, &set(icmp6_packet(a.v6, to, 0, kind, 0, &body)));
        }
        // An error whose type cannot be seen: a later fragment, a cut off chain.
        let piece = [&[protocol::ICMPV6, 0, 1, 0, 0, 0, 0, 1][..], &body].concat();
        w.from(a, &set(ip6(ipv6::Repr::new(a.v6, to, protocol::FRAGMENT, 0), &piece)));
        let cut = [&[protocol::ICMPV6, 255][..], &body].concat();
        w.from(a, &set(ip6(ipv6::Repr::new(a.v6, to, protocol::DESTINATION_OPTIONS, 0), &cut)));
        for from in ["::", "ff02::9", "::1", OURS] {
            w.from(a, &set(udp6(v6(from), to, len)));
        }
        w.punt(LEFT, &ethernet(MacAddr([0x33, 0x33, 0, 0, 0, 1]), a.mac, &set(udp6(a.v6, to, len))));
        assert_eq!(w.take_packets(), [], "{reason}");
        w.from(a, &set(udp6(a.v6, to, len)));
        assert_eq!(w.take_packets().len(), 1, "{reason}: the same packet without fault");
        w.from(a, &set(ping6(a.v6, to, &body)));
        assert_eq!(w.take_packets().len(), 1, "{reason}: a question is not an error");
    }
}
