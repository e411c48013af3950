// SPDX-License-Identifier: MIT
//! Echo, and when an ICMP error is sent, what it says, and when not.

use crate::world::*;
use perigee_net::{Interface, MacAddr};
use perigee_packet::Ipv4;
use perigee_packet::wire::{icmp4, ipv4, protocol};
use std::net::Ipv4Addr;

const NOWHERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

fn icmp(from: Ipv4Addr, to: Ipv4Addr, kind: u8) -> Vec<u8> {
    let message = icmp4::Message::Other { kind, code: 0, rest: 0, body: &[0x45; 28] };
    let mut payload = vec![0; message.len()];
    message.emit(&mut payload).unwrap();
    ip4(ipv4::Repr::new(from, to, protocol::ICMP, 0), &[], &payload)
}

// RFC 1812 4.3.2.2, 4.3.3.6: from the address asked, fresh TTL, same data, any size that fits.
#[test]
fn answers_echo_from_the_address_asked() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    for to in ["10.0.1.1", "10.0.2.1", "10.255.255.1"] {
        for len in [0, 1, 56, 548, 1472] {
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            w.from(
                a,
                &edit4(ping4(a.v4, v4(to), &data), |view| {
                    view.set_ttl(1);
                    view.set_tos(0x48);
                }),
            );
            let (interface, mac, reply) = w.take_packet();
            assert_eq!((interface, mac), (LEFT, a.mac));
            assert_eq!(icmp4_of(&reply), (0, 0, 0x0009_0001, &data[..]));
            let view = Ipv4::new(&reply[..]).unwrap();
            assert_eq!((view.source(), view.destination(), view.ttl(), view.tos()), (v4(to), a.v4, 64, 0x48));
        }
    }
    assert!(w.twin.iter().all(|(_, frame)| arp_of(frame).is_some()), "not Linux's business");
}

#[test]
fn echo_reply_records_the_route_and_fits_the_way_back() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    let mut request = ping4(a.v4, v4("10.0.1.1"), &[7; 1000]);
    let payload = request.split_off(20);
    let repr = ipv4::Repr::new(a.v4, v4("10.0.1.1"), protocol::ICMP, 0);
    w.from(a, &ip4(repr, &[7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 0], &payload));
    let reply = w.take_packet().2;
    assert_eq!(reply[20..28], [7, 7, 8, 10, 0, 1, 1, 0]);
    assert_eq!(icmp4_of(&reply).3, [7; 1000]);
    w.set(LEFT, Interface { mtu: 576, ..interface(LEFT) });
    w.sent.clear();
    w.from(a, &ping4(a.v4, v4("10.0.1.1"), &[7; 1000]));
    let pieces = w.take_packets();
    assert!(pieces.len() == 2 && pieces.iter().all(|p| p.2.len() <= 576));
}

#[test]
fn bad_echo_and_redirects_are_dropped_and_the_rest_is_for_linux() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    w.meet(a);
    let mut bad = ping4(a.v4, v4("10.0.1.1"), b"data");
    bad[29] ^= 1;
    w.from(a, &bad);
    w.from(a, &ip4(ipv4::Repr::new(a.v4, v4("10.0.1.1"), protocol::ICMP, 0), &[], &[8, 0, 0]));
    w.from(a, &icmp(a.v4, v4("10.0.1.1"), icmp4::REDIRECT));
    w.silent();
    assert_eq!((w.dropped("bad_icmp"), w.dropped("redirect")), (2, 1));
    for kind in [0, 3, 11, 12, 13] {
        w.from(a, &icmp(a.v4, v4("10.0.1.1"), kind));
    }
    assert_eq!((w.twin.len(), w.sent.len()), (5, 0));
}

// RFC 1812 4.3.2.2, 4.3.2.3, 4.3.2.5: as much as 576 bytes hold, unchanged; precedence 6; fresh TTL.
#[test]
fn quotes_the_packet_as_it_came() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    for len in [0, 8, 100, 520, 528, 529, 1400] {
        let packet = edit4(udp4(a.v4, NOWHERE, len), |view| view.set_ttl(3));
        w.from(a, &[&packet[..], &[0; 9]].concat());
        let error = w.take_packet().2;
        assert_eq!(error.len(), (28 + packet.len()).min(576));
        assert_eq!(icmp4_of(&error).3, &packet[..packet.len().min(548)]);
        let view = Ipv4::new(&error[..]).unwrap();
        assert_eq!((view.ttl(), view.tos(), view.dont_fragment()), (64, 0xc0, false));
    }
}

// RFC 1812 4.3.2.5: the type of service of what it is about, without its precedence, and not ECN-capable (RFC 3168).
#[test]
fn the_type_of_service_is_copied() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    for (tos, expected) in [(0x00, 0xc0), (0x10, 0xd0), (0x08, 0xc8), (0xb8, 0xd8), (0xff, 0xdc), (0x03, 0xc0)] {
        w.from(a, &edit4(udp4(a.v4, NOWHERE, 5), |view| view.set_tos(tos)));
        assert_eq!(Ipv4::new(&w.take_packet().2[..]).unwrap().tos(), expected, "{tos:#x}");
    }
}

// RFC 1812 4.3.2.4: the way back may be another than the way here.
#[test]
fn the_source_is_of_the_interface_the_error_leaves_by() {
    let mut w = World::new();
    let far = v4("198.51.100.9");
    w.from(host(LEFT, 2), &udp4(far, NOWHERE, 5));
    let (leaves, to, error) = w.take_packet();
    assert_eq!((leaves, to), (RIGHT, host(RIGHT, 254).mac));
    let view = Ipv4::new(&error[..]).unwrap();
    assert_eq!((view.source(), view.destination()), (v4("10.0.2.1"), far));
    // The primary address, or the one in the next hop's prefix.
    let mut config = interface(RIGHT);
    config.addresses.insert(0, prefix("172.16.0.1/24"));
    w.set(RIGHT, config);
    w.sent.clear();
    w.from(host(LEFT, 2), &udp4(far, NOWHERE, 5));
    assert_eq!(Ipv4::new(&w.take_packet().2[..]).unwrap().source(), v4("10.0.2.1"));
    // Nowhere to go: no error.
    w.twin.clear();
    w.from(host(LEFT, 2), &udp4(v4("198.18.7.7"), NOWHERE, 5));
    w.silent();
    assert_eq!(w.count("icmp_errors_unroutable"), 1);
}

// RFC 1812 4.3.2.7: each case for each reason to send an error.
#[test]
fn no_error_where_none_may_be() {
    let mut w = World::new();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    w.set(RIGHT, Interface { mtu: 600, ..interface(RIGHT) });
    w.sent.clear();
    let reasons: [(&str, Ipv4Addr, u8, usize); 5] = [
        ("no route", NOWHERE, 9, 5),
        ("unreachable", v4("203.0.113.1"), 9, 5),
        ("prohibit", v4("203.0.113.200"), 9, 5),
        ("TTL", b.v4, 1, 5),
        ("too big", b.v4, 9, 1000),
    ];
    for (reason, to, ttl, len) in reasons {
        let packet = |from| {
            edit4(udp4(from, to, len), |v| {
                v.set_ttl(ttl);
                v.set_fragment(true, false, 0)
            })
        };
        let error = |kind| edit4(icmp(a.v4, to, kind), |v| v.set_ttl(ttl));
        let before = w.slow.counters().clone();
        for kind in [3, 4, 5, 11, 12] {
            if reason != "too big" {
                w.from(a, &error(kind)); // An ICMP error.
            }
        }
        w.from(a, &edit4(packet(a.v4), |v| v.set_fragment(true, true, 8))); // Not a first fragment.
        w.punt(LEFT, &ethernet(MacAddr::BROADCAST, a.mac, &packet(a.v4))); // A link-layer broadcast.
        w.punt(LEFT, &ethernet(MacAddr([1, 0, 0x5e, 0, 0, 1]), a.mac, &packet(a.v4)));
        for from in ["0.0.0.0", "127.0.0.1", "224.0.0.9", "240.0.0.1", "10.0.1.255", "10.0.1.1", "10.0.2.1"] {
            w.from(a, &packet(v4(from))); // A source that no host has.
        }
        assert_eq!(w.take_packets(), [], "{reason}");
        assert_eq!(w.count("icmp_errors_sent"), before.icmp_errors_sent, "{reason}");
        w.from(a, &packet(a.v4));
        assert_eq!(w.take_packets().len(), 1, "{reason}: the same packet without fault");
    }
    // Packets to groups never come as far as an error.
    for to in ["224.0.0.9", "239.0.0.1", "255.255.255.255", "10.0.1.255", "10.0.2.255"] {
        w.from(a, &edit4(udp4(a.v4, v4(to), 5), |v| v.set_ttl(1)));
        let bad = ip4(ipv4::Repr::new(a.v4, v4(to), protocol::UDP, 0), &[7, 3, 2, 0], &[]);
        w.from(a, &bad);
    }
    assert_eq!(w.take_packets(), []);
    // A question is not an error: it may be answered by one.
    w.from(a, &icmp(a.v4, NOWHERE, 8));
    assert_eq!(icmp4_of(&w.take_packet().2).0, 3);
}

#[test]
fn an_error_without_a_way_back_is_not_sent() {
    let mut w = World::new();
    w.from(host(LEFT, 2), &udp4(v4("172.16.0.1"), NOWHERE, 5));
    w.silent();
    assert_eq!(w.count("icmp_errors_unroutable"), 1);
}
