// SPDX-License-Identifier: MIT
//! IPv6 on its way through: hop limit, routes, size, hop-by-hop options, scopes.

use crate::world::*;
use perigee_net::{Interface, MacAddr, Policy, ReversePath};
use perigee_packet::Ipv6;
use perigee_packet::wire::{ipv6, protocol};
use perigee_slowpath::*;
use std::net::Ipv6Addr;

/// From host 1.2 to host 2.3, both known to the router.
fn pair() -> (World, Host, Host) {
    let mut w = World::new();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    w.from(a, &udp6(a.v6, b.v6, 1));
    w.from(b, &udp6(b.v6, a.v6, 1));
    assert_eq!(w.take_packets().len(), 2);
    w.twin.clear();
    (w, a, b)
}

/// A packet with hop-by-hop options: `options` fill the header from its third byte on.
fn with_options(from: Ipv6Addr, to: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    assert_eq!((options.len() + 2) % 8, 0);
    let header = [&[protocol::UDP, ((options.len() + 2) / 8 - 1) as u8][..], options, b"datadata"].concat();
    ip6(ipv6::Repr::new(from, to, protocol::HOP_BY_HOP, 0), &header)
}

// RFC 8200 3 and 4, RFC 6437 3, RFC 7608.
#[test]
fn forwards_with_one_hop_less_and_nothing_else_changed() {
    let (mut w, a, b) = pair();
    let repr =
        ipv6::Repr { traffic_class: 0xff, flow_label: 0xabcde, hop_limit: 2, ..ipv6::Repr::new(a.v6, b.v6, 0, 0) };
    // RFC 8200 4: destination options and a fragment header of nonsense are not the router's to judge.
    for next_header in [protocol::UDP, protocol::DESTINATION_OPTIONS, protocol::FRAGMENT, 200] {
        let packet = ip6(ipv6::Repr { next_header, ..repr }, &[0xff; 9]);
        w.from(a, &[&packet[..], &[0; 5]].concat());
        let (interface, mac, sent) = w.take_packet();
        assert_eq!((interface, mac, sent[7]), (RIGHT, b.mac, 1));
        assert_eq!((&sent[..7], &sent[8..]), (&packet[..7], &packet[8..]));
    }
}

// RFC 8200 3, RFC 4443 2.4(c) and 3.1.
#[test]
fn every_reason_has_its_error() {
    let (mut w, a, b) = pair();
    let mut expired = udp6(a.v6, b.v6, 9);
    expired[7] = 1;
    let to = |text| udp6(a.v6, v6(text), 9);
    let cases = [
        (expired, (3, 0)),
        (to("2001:db8:ffff::1"), (1, 0)),
        (to("2001:db8:201::1"), (1, 3)),
        (to("2001:db8:202::1"), (1, 1)),
    ];
    for (packet, expected) in cases {
        w.from(a, &packet);
        let (interface, mac, error) = w.take_packet();
        assert_eq!((interface, mac), (LEFT, a.mac));
        let (kind, code, rest, quoted) = icmp6_of(&error);
        assert_eq!(((kind, code), rest, quoted), (expected, 0, &packet[..]));
        let view = Ipv6::new(&error[..]).unwrap();
        assert_eq!((view.source(), view.destination(), view.hop_limit()), (v6("2001:db8:1::1"), a.v6, 64));
    }
    w.from(a, &to("2001:db8:200::1"));
    w.silent();
    w.from(a, &to("2001:db8:100::1"));
    assert_eq!(w.take_packet().1, host(RIGHT, 254).mac, "over a link-local gateway");
}

// RFC 8200 4.5, RFC 4443 3.2, RFC 4443 2.4(c).
#[test]
fn too_big_is_told_never_fragmented() {
    let (mut w, a, b) = pair();
    w.set(RIGHT, Interface { mtu: 1300, ..interface(RIGHT) });
    w.sent.clear();
    let packet = udp6(a.v6, b.v6, 1261);
    w.from(a, &packet);
    let error = w.take_packet().2;
    let (kind, code, mtu, quoted) = icmp6_of(&error);
    assert_eq!((kind, code, mtu, error.len()), (2, 0, 1300, 1280));
    assert_eq!(quoted, &packet[..1232]);
    w.from(a, &udp6(a.v6, b.v6, 1260));
    assert_eq!(w.take_packet().2.len(), 1300);
}

// RFC 8200 4.2.
#[test]
fn unknown_options_do_what_their_bits_say() {
    let (mut w, a, b) = pair();
    let options = |kind: u8| [1, 0, kind, 0, 1, 0];
    w.from(a, &with_options(a.v6, b.v6, &options(0x1e)));
    assert_eq!(w.take_packet().1, b.mac);
    w.from(a, &with_options(a.v6, b.v6, &options(0x5e)));
    w.silent();
    for kind in [0x9e, 0xde] {
        let packet = with_options(a.v6, b.v6, &options(kind));
        w.from(a, &packet);
        let error = w.take_packet().2;
        let (error_kind, code, pointer, _) = icmp6_of(&error);
        assert_eq!((error_kind, code, pointer), (4, 2, 44), "pointing at the option");
        // To a group, only 10 reports.
        let group = with_options(a.v6, v6("ff02::5"), &options(kind));
        w.punt(LEFT, &ethernet(MacAddr([0x33, 0x33, 0, 0, 0, 5]), a.mac, &group));
        assert_eq!(w.take_packets().len(), usize::from(kind == 0x9e));
    }
    assert_eq!(w.dropped("unknown_option"), 5);
    // A jumbo payload is unknown here; padding and router alert are not.
    w.from(a, &with_options(a.v6, b.v6, &[0xc2, 4, 0, 1, 0, 0]));
    assert_eq!(icmp6_of(&w.take_packet().2).1, 2);
    w.from(a, &with_options(a.v6, b.v6, &[5, 2, 0, 0, 0, 0]));
    assert_eq!(w.take_packet().1, b.mac);
    w.from(a, &with_options(a.v6, v6("2001:db8:1::1"), &[5, 2, 0, 0, 0, 0]));
    assert_eq!((w.twin.len(), w.sent.len()), (1, 0));
}

#[test]
fn broken_hop_by_hop_options_are_told_or_dropped() {
    let (mut w, a, b) = pair();
    w.from(a, &with_options(a.v6, b.v6, &[1, 0, 1, 9, 0, 0]));
    let error = w.take_packet().2;
    assert_eq!((icmp6_of(&error).0, icmp6_of(&error).1, icmp6_of(&error).2), (4, 0, 44));
    w.from(a, &ip6(ipv6::Repr::new(a.v6, b.v6, protocol::HOP_BY_HOP, 0), &[protocol::UDP, 9, 1, 0]));
    w.silent();
    assert_eq!(w.dropped("bad_extension"), 2);
}

// RFC 4291 2.5.6, 2.5.3, 2.7, RFC 4007 9.
#[test]
fn scopes_are_not_left() {
    let (mut w, a, b) = pair();
    let local = v6("fe80::77");
    w.from(a, &udp6(a.v6, local, 1));
    w.from(a, &udp6(a.v6, mac(RIGHT).link_local(), 1));
    w.from(a, &udp6(v6("::1"), b.v6, 1));
    w.from(a, &udp6(v6("::"), b.v6, 1));
    w.from(a, &udp6(v6("ff02::1"), b.v6, 1));
    w.from(a, &udp6(a.v6, v6("::1"), 1));
    w.from(a, &udp6(a.v6, v6("ff00::1"), 1));
    w.from(a, &udp6(a.v6, v6("ff01::1"), 1));
    w.from(a, &udp6(v6("2001:db8:2::1"), b.v6, 1));
    w.silent();
    w.hosts.insert((LEFT, local.into()), a.mac);
    w.from(a, &udp6(local, b.v6, 1));
    let (interface, mac, error) = w.take_packet();
    assert_eq!((interface, mac, icmp6_of(&error).0, icmp6_of(&error).1), (LEFT, a.mac, 1, 2));
    let names = ["link_local", "martian_source", "martian_destination", "multicast_scope", "own_source"];
    assert_eq!(names.map(|name| w.dropped(name)), [3, 3, 1, 2, 1]);
    // To this link's groups: Linux.
    w.twin.clear();
    w.punt(LEFT, &ethernet(MacAddr([0x33, 0x33, 0, 0, 0, 5]), a.mac, &udp6(local, v6("ff02::5"), 1)));
    assert_eq!(w.twin.len(), 1);
}

// RFC 6164.
#[test]
fn point_to_point_prefix_of_127_bits() {
    let mut w = World::bare(Config::default());
    w.set(LEFT, interface(LEFT));
    w.set(RIGHT, Interface { addresses: vec![prefix("2001:db8:9::/127")], ..interface(RIGHT) });
    w.table.0.push((prefix("2001:db8:9::/127"), RouteDecision::Connected(RIGHT)));
    let peer = v6("2001:db8:9::1");
    w.hosts.insert((RIGHT, peer.into()), host(RIGHT, 3).mac);
    w.advance(1500);
    w.sent.clear();
    w.from(host(LEFT, 2), &udp6(host(LEFT, 2).v6, peer, 1));
    assert_eq!(w.take_packet().1, host(RIGHT, 3).mac);
}

#[test]
fn cut_off_packets_and_link_broadcasts_are_dropped() {
    let (mut w, a, b) = pair();
    let good = udp6(a.v6, b.v6, 20);
    w.from(a, &good[..39]);
    w.punt(LEFT, &framed(mac(LEFT), a.mac, 0x86dd, &udp4(a.v4, b.v4, 40)));
    assert_eq!(w.dropped("bad_header"), 2);
    w.punt(LEFT, &ethernet(MacAddr::BROADCAST, a.mac, &good));
    assert_eq!(w.dropped("link_broadcast"), 1);
    w.silent();
}

// RFC 4443 3.4: a field with which the packet cannot be processed; 2.4 (e) holds.
#[test]
fn a_payload_length_beyond_the_frame_is_pointed_at() {
    let (mut w, a, b) = pair();
    for (len, received) in [(20, 59), (20, 40), (1400, 1300)] {
        let packet = udp6(a.v6, b.v6, len);
        w.from(a, &packet[..received]);
        let (interface, mac, error) = w.take_packet();
        let (kind, code, pointer, quoted) = icmp6_of(&error);
        assert_eq!((interface, mac, kind, code, pointer), (LEFT, a.mac, 4, 0, 4));
        assert_eq!(quoted, &packet[..received.min(1232)], "no more than was received");
    }
    let cut = |packet: Vec<u8>| packet[..packet.len() - 1].to_vec();
    w.from(a, &cut(udp6(a.v6, v6("ff02::1"), 9)));
    w.from(a, &cut(udp6(v6("::"), b.v6, 9)));
    w.from(a, &cut(icmp6_packet(a.v6, b.v6, 64, 1, 0, b"error")));
    assert_eq!((w.dropped("truncated"), w.count("icmp_errors_suppressed")), (6, 3));
    w.silent();
}

// RFC 3704 2: as for IPv4; link-local sources and stations that detect duplicates have no route and need none.
#[test]
fn sources_without_a_way_back_are_dropped_where_that_is_asked_for() {
    let (mut w, a, b) = pair();
    w.set(LEFT, Interface { policy: Policy { urpf: ReversePath::Strict, ..Policy::default() }, ..interface(LEFT) });
    w.sent.clear();
    let sources = ["2001:db8:1::9", "2001:db8:100::7", "2001:db8:ffff::1", "2001:db8:200::1"];
    for (source, passes) in sources.into_iter().zip([1, 0, 0, 0]) {
        w.from(a, &udp6(v6(source), b.v6, 5));
        assert_eq!(w.take_packets().len(), passes, "{source}");
    }
    assert_eq!(w.dropped("reverse_path"), 3);
    let ours = v6("2001:db8:1::1");
    w.from(a, &ping6(v6("fe80::2"), mac(LEFT).link_local(), b"x"));
    let probe = neighbor_solicitation(v6("::"), v6("ff02::1:ff00:1"), ours, None);
    w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(v6("ff02::1:ff00:1")), a.mac, &probe));
    assert_eq!(
        (w.count("echo_replied"), w.count("solicitations_answered") > 0, w.dropped("reverse_path")),
        (1, true, 3)
    );
}
