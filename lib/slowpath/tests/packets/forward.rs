// SPDX-License-Identifier: MIT
//! IPv4 on its way through: TTL, routes, size, options, broadcasts.

use crate::world::*;
use perigee_net::{Interface, MacAddr, Policy, ReversePath};
use perigee_packet::Ipv4;
use perigee_packet::wire::{ipv4, protocol};
use perigee_slowpath::*;
use std::net::Ipv4Addr;

/// From host 1.2 to host 2.3, both known to the router.
fn pair() -> (World, Host, Host) {
    let mut w = World::new();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    w.from(a, &udp4(a.v4, b.v4, 1));
    w.from(b, &udp4(b.v4, a.v4, 1));
    assert_eq!(w.take_packets().len(), 2);
    w.twin.clear();
    w.events.clear();
    (w, a, b)
}

fn with_options(from: Host, to: Ipv4Addr, options: &[u8]) -> Vec<u8> {
    ip4(ipv4::Repr::new(from.v4, to, protocol::UDP, 0), options, b"data")
}

// RFC 1812 5.2.2, 5.2.5, 5.3.1: padding goes, the reserved bits stay, one hop less with a right checksum (checked on
// every frame).
#[test]
fn forwards_with_one_hop_less_and_nothing_else_changed() {
    let (mut w, a, b) = pair();
    let packet = edit4(udp4(a.v4, b.v4, 5), |view| {
        view.set_tos(0xff);
        view.set_ttl(2);
    });
    let mut reserved = packet.clone();
    reserved[6] |= 0x80;
    let reserved = edit4(reserved, |_| ());
    let padded = [&reserved[..], &[0xee; 21]].concat();
    w.from(a, &padded);
    let (interface, mac, sent) = w.take_packet();
    assert_eq!((interface, mac), (RIGHT, b.mac));
    assert_eq!(sent, edit4(reserved, |view| view.set_ttl(1)));
}

// RFC 1812 5.3.1.
#[test]
fn expired_ttl_is_told_from_the_interface_it_leaves_by() {
    let (mut w, a, b) = pair();
    for ttl in [0, 1] {
        w.from(a, &edit4(udp4(a.v4, b.v4, 5), |view| view.set_ttl(ttl)));
        let (interface, mac, error) = w.take_packet();
        assert_eq!((interface, mac), (LEFT, a.mac));
        assert_eq!(icmp4_of(&error).0, 11);
        assert_eq!(Ipv4::new(&error[..]).unwrap().source(), v4("10.0.1.1"));
    }
}

// RFC 1812 4.2.2.9.
#[test]
fn ttl_does_not_matter_to_the_router_itself() {
    let (mut w, a, _) = pair();
    for to in ["10.0.1.1", "10.0.2.1", "10.255.255.1"] {
        for ttl in [0, 1] {
            w.from(a, &edit4(udp4(a.v4, v4(to), 5), |view| view.set_ttl(ttl)));
        }
    }
    assert_eq!((w.twin.len(), w.sent.len()), (6, 0));
}

// RFC 1812 5.2.4.3, 5.2.7.1; for a host that does not answer ARP, see arp.rs.
#[test]
fn every_kind_of_route_has_its_answer() {
    let (mut w, a, _) = pair();
    for (to, code) in [("198.18.0.1", 0), ("203.0.113.1", 1), ("203.0.113.200", 13)] {
        w.from(a, &udp4(a.v4, v4(to), 5));
        let error = w.take_packet().2;
        assert_eq!((icmp4_of(&error).0, icmp4_of(&error).1), (3, code), "{to}");
    }
    w.from(a, &udp4(a.v4, v4("192.0.2.1"), 5));
    w.silent();
    w.from(a, &udp4(a.v4, v4("198.51.100.7"), 5));
    assert_eq!(w.take_packet().1, host(RIGHT, 254).mac);
    w.table.0.push((prefix("198.51.100.7/32"), RouteDecision::NoRoute));
    w.from(a, &udp4(a.v4, v4("198.51.100.7"), 5));
    assert_eq!(icmp4_of(&w.take_packet().2).1, 0, "the longest match");
}

#[test]
fn an_interface_that_is_down_is_host_unreachable() {
    let (mut w, a, b) = pair();
    w.set(RIGHT, Interface { up: false, ..interface(RIGHT) });
    w.sent.clear();
    w.from(a, &udp4(a.v4, b.v4, 5));
    assert_eq!(icmp4_of(&w.take_packet().2).1, 1);
    w.from(b, &udp4(b.v4, a.v4, 5));
    w.silent();
}

// RFC 1812 5.2.6: fragments, also a fragment; never put together on the way.
#[test]
fn fragments_what_is_too_big() {
    let (mut w, a, b) = pair();
    w.set(RIGHT, Interface { mtu: 600, ..interface(RIGHT) });
    w.sent.clear();
    let whole = edit4(udp4(a.v4, b.v4, 1400), |view| view.set_fragment(false, true, 800));
    w.from(a, &whole);
    let pieces = w.take_packets();
    assert_eq!(pieces.len(), 3);
    let mut payload = Vec::new();
    for (interface, mac, piece) in &pieces {
        let view = Ipv4::new(&piece[..]).unwrap();
        assert_eq!((*interface, *mac, view.ttl()), (RIGHT, b.mac, 63));
        assert!(piece.len() <= 600 && view.more_fragments());
        assert_eq!(view.fragment_offset(), 800 + payload.len());
        payload.extend_from_slice(view.payload());
    }
    assert_eq!(payload, &whole[20..]);
    assert_eq!((w.count("forwarded"), w.count("fragmented")), (3, 1));
    // Each piece that comes in goes out by itself.
    for (_, _, piece) in &pieces {
        w.from(a, piece);
        assert_eq!(w.take_packet().2.len(), piece.len());
    }
}

// RFC 1191 4.
#[test]
fn df_and_too_big_tells_the_next_hops_mtu() {
    let (mut w, a, b) = pair();
    w.set(RIGHT, Interface { mtu: 600, ..interface(RIGHT) });
    w.sent.clear();
    let df = |len| edit4(udp4(a.v4, b.v4, len), |view| view.set_fragment(true, false, 0));
    w.from(a, &df(581));
    let (leaves, _, error) = w.take_packet();
    assert_eq!(leaves, LEFT);
    assert_eq!((icmp4_of(&error).0, icmp4_of(&error).1, icmp4_of(&error).2), (3, 4, 600));
    w.from(a, &df(580));
    assert_eq!(w.take_packet().2.len(), 600);
    // A link too small for any piece: dropped, not looped over.
    w.set(RIGHT, Interface { mtu: 21, ..interface(RIGHT) });
    w.sent.clear();
    w.from(a, &udp4(a.v4, b.v4, 100));
    w.silent();
    assert_eq!(w.dropped("cannot_fragment"), 1);
}

// RFC 1812 5.3.4, 5.3.5.1, 5.3.5.2.
#[test]
fn broadcasts_end_here() {
    let (mut w, a, b) = pair();
    let all = |packet: &[u8]| ethernet(MacAddr::BROADCAST, a.mac, packet);
    w.punt(LEFT, &all(&udp4(a.v4, b.v4, 5)));
    assert_eq!(w.dropped("link_broadcast"), 1);
    w.from(a, &udp4(a.v4, v4("10.0.2.255"), 5));
    w.from(a, &udp4(a.v4, v4("10.0.2.0"), 5));
    assert_eq!(w.dropped("directed_broadcast"), 2);
    w.silent();
    // This link's own go to Linux.
    for to in ["255.255.255.255", "10.0.1.255", "224.0.0.5"] {
        w.punt(LEFT, &all(&udp4(a.v4, v4(to), 5)));
    }
    w.punt(LEFT, &all(&udp4(v4("0.0.0.0"), v4("255.255.255.255"), 5)));
    assert_eq!((w.twin.len(), w.sent.len()), (4, 0));
    w.punt(LEFT, &all(&ping4(a.v4, v4("255.255.255.255"), b"")));
    w.punt(LEFT, &all(&ping4(a.v4, v4("224.0.0.1"), b"")));
    assert_eq!((w.twin.len(), w.sent.len()), (4, 0));
    assert_eq!(w.dropped("echo_group"), 2);
}

// RFC 1812 5.3.5.2, 5.2.3, RFC 2644: where the interface of that network allows it, as a link-layer broadcast there.
#[test]
fn ipv4_row_41_directed_broadcasts_are_sent_where_they_are_allowed() {
    let (mut w, a, _) = pair();
    let to = v4("10.0.2.255");
    w.from(a, &udp4(a.v4, to, 5));
    assert_eq!((w.take_packets(), w.dropped("directed_broadcast")), (vec![], 1), "off by default");
    w.set(RIGHT, Interface { policy: Policy { directed_broadcast: true, ..Policy::default() }, ..interface(RIGHT) });
    w.sent.clear();
    w.from(a, &udp4(a.v4, to, 5));
    let (interface, mac, sent) = w.take_packet();
    assert_eq!((interface, mac), (RIGHT, MacAddr::BROADCAST));
    assert_eq!(sent, edit4(udp4(a.v4, to, 5), |view| view.set_ttl(63)));
    assert_eq!(w.twin.len(), 1, "the router itself is a station of that network");
    // Too big: in fragments. The record route option gets the address of the interface that it leaves by.
    w.from(a, &udp4(a.v4, to, 2000));
    assert_eq!(w.take_packets().iter().filter(|(id, mac, _)| (*id, *mac) == (RIGHT, MacAddr::BROADCAST)).count(), 2);
    w.from(a, &with_options(a, to, &[7, 7, 4, 0, 0, 0, 0, 0]));
    assert_eq!(w.take_packet().2[20..28], [7, 7, 8, 10, 0, 2, 1, 0]);
    // Not from a link-layer broadcast, not where it would expire, not with a source route, not to the address of zeros;
    // and Linux does not answer pings. Errors are never sent (RFC 1812 4.3.2.7).
    w.twin.clear();
    w.punt(LEFT, &ethernet(MacAddr::BROADCAST, a.mac, &udp4(a.v4, to, 5)));
    w.from(a, &edit4(udp4(a.v4, to, 5), |view| view.set_ttl(1)));
    w.from(a, &edit4(udp4(a.v4, to, 1600), |view| view.set_fragment(true, false, 0)));
    w.from(a, &with_options(a, to, &[131, 7, 4, 9, 9, 9, 9, 0]));
    w.from(a, &with_options(a, to, &[7, 3, 2, 0]));
    w.from(a, &udp4(a.v4, v4("10.0.2.0"), 5));
    w.from(a, &udp4(v4("169.254.1.1"), to, 5));
    assert_eq!(w.take_packets(), []);
    let names =
        ["link_broadcast", "ttl_expired", "source_route", "too_big", "bad_option", "directed_broadcast", "link_local"];
    assert_eq!(names.map(|name| w.dropped(name)), [1, 1, 1, 1, 1, 2, 1]);
    w.twin.clear();
    w.from(a, &ping4(a.v4, to, b"x"));
    assert_eq!((w.take_packets().len(), w.twin.len(), w.dropped("echo_group")), (1, 0, 1));
    // On its own link it is a broadcast like any other.
    let b = host(RIGHT, 3);
    w.from(b, &udp4(b.v4, to, 5));
    assert_eq!((w.take_packets(), w.twin.len()), (vec![], 1));
}

#[test]
fn martians_and_bad_headers_are_dropped_silently() {
    let (mut w, a, b) = pair();
    for source in ["0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "10.0.2.255", "0.0.0.0"] {
        w.from(a, &udp4(v4(source), b.v4, 5));
    }
    assert_eq!(w.dropped("martian_source"), 7);
    w.from(a, &udp4(v4("10.0.2.1"), b.v4, 5));
    assert_eq!(w.dropped("own_source"), 1);
    for destination in ["0.0.0.1", "127.0.0.1", "240.0.0.1"] {
        w.from(a, &udp4(a.v4, v4(destination), 5));
    }
    assert_eq!(w.dropped("martian_destination"), 3);
    w.from(a, &udp4(v4("169.254.1.1"), b.v4, 5));
    w.from(a, &udp4(a.v4, v4("169.254.1.1"), 5));
    assert_eq!(w.dropped("link_local"), 2);
    let good = udp4(a.v4, b.v4, 5);
    for (at, value) in [(0, 0x44), (0, 0x65), (3, 19), (10, !good[10])] {
        let mut bad = good.clone();
        bad[at] = value;
        // All but the checksum's own fault have a right checksum, as far as there is a header to sum.
        let sum = |bad: &mut [u8]| {
            bad[10..12].fill(0);
            let checksum = perigee_packet::wire::checksum::checksum(&bad[..20]);
            bad[10..12].copy_from_slice(&checksum.to_be_bytes());
        };
        if at != 10 {
            sum(&mut bad);
        }
        w.from(a, &bad);
    }
    w.from(a, &good[..19]);
    assert_eq!(w.dropped("bad_header"), 5);
    w.silent();
}

// RFC 1812 5.2.2: what is longer than it can be is dropped, and its sender told where that stands; 4.3.2.7 holds.
#[test]
fn ipv4_row_6_a_total_length_beyond_the_frame_is_pointed_at() {
    let (mut w, a, b) = pair();
    for (to, len, received) in [(b.v4, 5, 20), (b.v4, 1000, 999), (b.v4, 1000, 30), (v4("10.0.1.1"), 40, 50)] {
        let packet = udp4(a.v4, to, len);
        w.from(a, &packet[..received]);
        let (interface, mac, error) = w.take_packet();
        assert_eq!((interface, mac), (LEFT, a.mac));
        let (kind, code, rest, quoted) = icmp4_of(&error);
        assert_eq!((kind, code, rest >> 24), (12, 0, 2));
        assert_eq!(quoted, &packet[..received.min(548)], "no more than was received");
    }
    assert_eq!((w.dropped("truncated"), w.count("forwarded")), (4, 2));
    let cut = |packet: Vec<u8>| packet[..packet.len() - 1].to_vec();
    w.punt(LEFT, &ethernet(MacAddr::BROADCAST, a.mac, &cut(udp4(a.v4, b.v4, 9))));
    for to in ["224.0.0.5", "255.255.255.255", "10.0.1.255", "10.0.2.255"] {
        w.from(a, &cut(udp4(a.v4, v4(to), 9)));
    }
    w.from(a, &cut(edit4(udp4(a.v4, b.v4, 99), |view| view.set_fragment(false, true, 8))));
    let error = ip4(ipv4::Repr::new(a.v4, b.v4, protocol::ICMP, 0), &[], &[3, 0, 0, 0, 0, 0, 0, 0, 0]);
    w.from(a, &cut(error.clone()));
    w.from(a, &error[..20]);
    assert_eq!((w.dropped("truncated"), w.count("icmp_errors_suppressed")), (12, 8));
    // A forged source is not told either, and a wrong checksum comes first.
    w.from(a, &cut(udp4(v4("10.0.2.1"), b.v4, 9)));
    w.from(a, &cut(udp4(v4("127.0.0.1"), b.v4, 9)));
    let mut wrong = cut(udp4(a.v4, b.v4, 9));
    wrong[10] ^= 1;
    w.from(a, &wrong);
    assert_eq!(["own_source", "martian_source", "bad_header"].map(|name| w.dropped(name)), [1, 1, 1]);
    w.silent();
}

// RFC 1812 4.2.2.2, 5.3.13.5, 5.3.13.6.
#[test]
fn record_route_and_timestamp_get_the_outgoing_interfaces_address() {
    let (mut w, a, b) = pair();
    w.from(a, &with_options(a, b.v4, &[7, 7, 4, 0, 0, 0, 0, 0]));
    assert_eq!(w.take_packet().2[20..28], [7, 7, 8, 10, 0, 2, 1, 0]);
    w.from(a, &with_options(a, b.v4, &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
    let sent = w.take_packet().2;
    assert_eq!(sent[20..28], [68, 12, 13, 1, 10, 0, 2, 1]);
    assert_eq!(sent[28] & 0x80, 0x80, "not universal time: there is no clock here");
}

// RFC 1812 5.3.13.1; and router alert, which asks routers on the way to look (RFC 2113).
#[test]
fn unknown_options_pass_unchanged() {
    let (mut w, a, b) = pair();
    for options in [[0x9e, 4, 1, 2], [148, 4, 0, 0], [0x5e, 4, 3, 4]] {
        w.from(a, &with_options(a, b.v4, &options));
        assert_eq!(w.take_packet().2[20..24], options);
    }
    w.from(a, &with_options(a, v4("10.0.1.1"), &[148, 4, 0, 0]));
    assert_eq!((w.twin.len(), w.sent.len()), (1, 0));
}

// RFC 1812 4.3.3.5.
#[test]
fn a_malformed_option_is_pointed_at() {
    let (mut w, a, b) = pair();
    for (options, pointer) in [([1, 7, 9, 4], 22), ([7, 3, 2, 0], 22), ([68, 4, 5, 0xf0], 23)] {
        w.from(a, &with_options(a, b.v4, &options));
        let error = w.take_packet().2;
        let (kind, code, rest, quoted) = icmp4_of(&error);
        assert_eq!((kind, code, rest >> 24), (12, 0, pointer));
        assert_eq!(quoted[20..24], options, "quoted as it came");
    }
    assert_eq!(w.dropped("bad_option"), 3);
}

// RFC 1812 5.3.13, RFC 7126 4.3.
#[test]
fn ipv4_row_46_source_routes_are_dropped_unless_allowed() {
    let route = |kind, next: [u8; 4]| [&[kind, 7, 4][..], &next, &[0]].concat();
    let (mut w, a, b) = pair();
    for kind in [131, 137] {
        w.from(a, &with_options(a, v4("10.0.1.1"), &route(kind, b.v4.octets())));
        w.from(a, &with_options(a, b.v4, &route(kind, [9, 9, 9, 9])));
    }
    w.silent();
    assert_eq!(w.dropped("source_route"), 4);

    let mut w = World::new();
    for id in [LEFT, RIGHT] {
        w.set(id, Interface { policy: Policy { source_routes: id == LEFT, ..Policy::default() }, ..interface(id) });
    }
    w.sent.clear();
    for kind in [131, 137] {
        w.from(a, &with_options(a, v4("10.0.1.1"), &route(kind, b.v4.octets())));
        let (interface, mac, sent) = w.take_packet();
        assert_eq!((interface, mac, Ipv4::new(&sent[..]).unwrap().destination()), (RIGHT, b.mac, b.v4));
        assert_eq!(sent[20..28], [kind, 7, 8, 10, 0, 2, 1, 0]);
    }
    // Loose may go over a gateway, strict may not.
    let far = [198, 51, 100, 7];
    w.from(a, &with_options(a, v4("10.0.1.1"), &route(131, far)));
    assert_eq!(w.take_packet().1, host(RIGHT, 254).mac);
    w.from(a, &with_options(a, v4("10.0.1.1"), &route(137, far)));
    let errors = w.take_packets();
    assert_eq!((icmp4_of(&errors[0].2).0, icmp4_of(&errors[0].2).1), (3, 5));
    // Used up: it is ours.
    w.twin.clear();
    w.from(a, &with_options(a, v4("10.0.1.1"), &[131, 7, 8, 9, 9, 9, 9, 0]));
    assert_eq!(w.twin.len(), 1);
}

#[test]
fn a_packet_that_waited_takes_the_way_that_is_right_when_it_goes() {
    let mut w = World::new();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    let answer = w.hosts.remove(&(RIGHT, b.v4.into())).unwrap();
    w.from(a, &edit4(udp4(a.v4, b.v4, 5), |view| view.set_ttl(9)));
    w.table.0.push((prefix("10.0.2.3/32"), RouteDecision::Gateway(RIGHT, v4("10.0.2.254").into())));
    w.hosts.insert((RIGHT, b.v4.into()), answer);
    w.sent.clear();
    w.advance(1000);
    let (_, mac, sent) = w.take_packet();
    assert_eq!((mac, Ipv4::new(&sent[..]).unwrap().ttl()), (host(RIGHT, 254).mac, 8));
}

// RFC 1812 5.3.8, RFC 3704 2.2 to 2.4: a source needs a route back, by the interface it came in on or by any.
#[test]
fn ipv4_row_43_sources_without_a_way_back_are_dropped_where_that_is_asked_for() {
    let passes = |urpf, source: &str| {
        let (mut w, a, b) = pair();
        w.set(LEFT, Interface { policy: Policy { urpf, ..Policy::default() }, ..interface(LEFT) });
        w.sent.clear();
        w.from(a, &udp4(v4(source), b.v4, 5));
        let passed = w.take_packets().len() == 1;
        assert_eq!(w.dropped("reverse_path"), u64::from(!passed), "{source}");
        // No error goes to such a source.
        w.from(a, &edit4(udp4(v4(source), b.v4, 5), |view| view.set_ttl(1)));
        assert_eq!(w.count("icmp_errors_sent"), u64::from(passed), "{source}");
        passed
    };
    let sources = ["10.0.1.9", "198.51.100.7", "198.18.0.1", "192.0.2.1", "203.0.113.1"];
    assert_eq!(sources.map(|source| passes(ReversePath::Strict, source)), [true, false, false, false, false]);
    assert_eq!(sources.map(|source| passes(ReversePath::Loose, source)), [true, true, false, false, false]);
    let (mut w, a, b) = pair();
    w.set(LEFT, Interface { policy: Policy { urpf: ReversePath::Strict, ..Policy::default() }, ..interface(LEFT) });
    w.sent.clear();
    // A default route counts where it leads out of the interface.
    w.table.0.push((prefix("0.0.0.0/0"), RouteDecision::Gateway(LEFT, host(LEFT, 4).v4.into())));
    w.from(a, &udp4(v4("198.18.0.1"), b.v4, 5));
    assert_eq!(w.take_packets().len(), 1);
    // A host that asks for its first address has none to check.
    let discover = udp4(v4("0.0.0.0"), v4("255.255.255.255"), 5);
    w.punt(LEFT, &ethernet(MacAddr::BROADCAST, a.mac, &discover));
    assert_eq!((w.twin.len(), w.dropped("reverse_path")), (1, 0));
}
