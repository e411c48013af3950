// SPDX-License-Identifier: MIT
//! IPv6 fragments to the router itself, and its own replies in fragments.

use crate::fragments::{OURS6, data, delivered, joined6, known, sent};
use crate::world::*;
use perigee_net::{Interface, InterfaceAddress, MacAddr};
use perigee_packet::Ipv6;
use perigee_packet::wire::{icmp6, ipv6, protocol};
use perigee_slowpath::*;

#[test]
fn ipv6_row_23_reassembles_packets_to_itself() {
    let mut w = known();
    let a = host(LEFT, 2);
    let orders: [&[usize]; 3] = [&[0, 1, 2, 3], &[3, 2, 1, 0], &[1, 3, 3, 0, 2]];
    for (id, order) in orders.into_iter().enumerate() {
        let whole = udp6(a.v6, v6(OURS6), 5000);
        let pieces = cut6(&whole, 1448, id as u32);
        for at in order {
            assert_eq!(w.twin.len(), 0);
            w.from(a, &pieces[*at]);
        }
        assert_eq!(delivered(&mut w), whole);
    }
    assert_eq!((w.sent.len(), w.count("reassembled"), w.dropped("fragment_duplicate")), (0, 3, 1));
}

// RFC 5722 4, RFC 8200 4.5: also a fragment wholly inside another, which Linux takes.
#[test]
fn ipv6_row_23_overlapping_fragments_are_dropped_with_all_that_follow() {
    let a = host(LEFT, 2);
    let whole = udp6(a.v6, v6(OURS6), 112);
    let payload = &whole[40..];
    let piece = |offset: usize, more, data: &[u8]| piece6(a.v6, v6(OURS6), protocol::UDP, (offset, more), 9, data);
    let first = piece(0, true, &payload[..80]);
    let last = piece(80, false, &payload[80..]);
    let overlapping = [
        piece(16, true, &payload[16..32]), // Inside, the same bytes.
        piece(16, true, &[0xee; 16]),      // Inside, others.
        piece(72, false, &payload[72..]),  // Over the end.
        piece(0, true, &payload[..72]),    // At its place, shorter.
        piece(0, true, &[payload, &[0; 40]].concat()),
        piece(0, true, &[0xee; 80]), // At its place, other bytes.
        piece(0, false, &payload[..80].repeat(2)[..80]),
    ];
    for (n, bad) in overlapping.iter().enumerate().take(6) {
        for order in [[&first, bad, &last], [bad, &first, &last], [&first, &last, bad]] {
            let mut w = known();
            // The last order is whole before the bad one comes: that one then waits alone.
            let late = std::ptr::eq(order[2], bad);
            order.iter().for_each(|piece| w.from(a, piece));
            assert_eq!(w.twin.len(), usize::from(late), "{n}: {:?}", w.counters());
            assert_eq!(w.dropped("fragment_overlap"), if late { 0 } else { 3 }, "{n}");
            w.twin.clear();
            w.advance(59_000);
            w.silent();
        }
    }
    // An atomic fragment with the identification of others has nothing to do with them (RFC 6946 4).
    let mut w = known();
    w.from(a, &first);
    w.from(a, &overlapping[6]);
    assert_eq!(delivered(&mut w)[6], protocol::UDP);
    w.from(a, &last);
    assert_eq!(delivered(&mut w), whole);
}

// RFC 6946.
#[test]
fn ipv6_row_23_atomic_fragments_are_processed_alone() {
    let mut w = known();
    let a = host(LEFT, 2);
    let ping = ping6(a.v6, v6(OURS6), b"atomic");
    w.from(a, &piece6(a.v6, v6(OURS6), protocol::ICMPV6, (0, false), 5, &ping[40..]));
    assert_eq!(icmp6_of(&w.take_packet().2), (icmp6::ECHO_REPLY, 0, 0x0009_0001, &b"atomic"[..]));
    let udp = udp6(a.v6, v6(OURS6), 30);
    let atomic = piece6(a.v6, v6(OURS6), protocol::UDP, (0, false), 5, &udp[40..]);
    w.from(a, &atomic);
    w.from(a, &atomic);
    assert_eq!(w.twin.iter().map(|(_, frame)| frame[14..].to_vec()).collect::<Vec<_>>(), [udp.clone(), udp]);
    assert_eq!(w.slow.reassembling(), Reassembling::default());
}

// RFC 8200 4.5, RFC 7112 5: what is reported, and where the pointer points.
#[test]
fn ipv6_row_23_what_is_wrong_with_a_fragment_is_reported() {
    let mut w = known();
    let a = host(LEFT, 2);
    let piece = |next, at, data: &[u8]| piece6(a.v6, v6(OURS6), next, at, 1, data);
    for next in [protocol::UDP, protocol::ICMPV6] {
        w.from(a, &piece(next, (0, true), &[128; 21]));
        assert_eq!(icmp6_of(&w.take_packet().2).2, 4, "the payload length");
        w.from(a, &piece(next, (65_528, false), &[0; 8]));
        assert_eq!(icmp6_of(&w.take_packet().2).2, 42, "the fragment offset");
    }
    // Destination options that do not end here; TCP, UDP and ICMPv6 cut through; nothing at all.
    let cut: [(u8, &[u8]); 4] = [
        (protocol::DESTINATION_OPTIONS, &[protocol::UDP, 1, 1, 4, 0, 0, 0, 0]),
        (protocol::DESTINATION_OPTIONS, &[protocol::UDP, 0, 1, 4, 0, 0, 0, 0]),
        (protocol::TCP, &[0; 16]),
        (protocol::SCTP, &[0; 8]),
    ];
    for (next, data) in cut {
        w.from(a, &piece(next, (0, true), data));
        let error = w.take_packet().2;
        let (kind, code, pointer, quoted) = icmp6_of(&error);
        assert_eq!((kind, code, pointer), (icmp6::PARAMETER_PROBLEM, 3, 0));
        assert_eq!(quoted, piece(next, (0, true), data));
    }
    assert_eq!((w.dropped("fragment_malformed"), w.dropped("fragment_too_long")), (2, 2));
    assert_eq!((w.dropped("fragment_headers"), w.slow.reassembling().datagrams), (4, 0));
    // RFC 8200 4.7: nothing need follow where nothing follows.
    w.from(a, &piece(protocol::DESTINATION_OPTIONS, (0, true), &[protocol::NO_NEXT_HEADER, 0, 1, 4, 0, 0, 0, 0]));
    assert_eq!((w.dropped("fragment_headers"), w.slow.reassembling().datagrams), (4, 1));
    // Not about an error, and not about a packet to a group (RFC 4443 2.4(e)).
    w.from(a, &piece(protocol::ICMPV6, (0, true), &[1; 21]));
    let group = piece6(a.v6, v6("ff02::1"), protocol::UDP, (0, true), 1, &[0; 21]);
    w.punt(LEFT, &ethernet(MacAddr([0x33, 0x33, 0, 0, 0, 1]), a.mac, &group));
    w.silent();
    assert_eq!(w.dropped("fragment_malformed"), 4);
}

#[test]
fn ipv6_row_23_time_exceeded_only_with_the_first_fragment() {
    let mut w = known();
    let a = host(LEFT, 2);
    let pieces = cut6(&udp6(a.v6, v6(OURS6), 3000), 1448, 1);
    let others = cut6(&udp6(a.v6, v6(OURS6), 3000), 1448, 2);
    w.from(a, &others[1]);
    w.advance(10);
    w.from(a, &pieces[0]);
    w.advance(59_900);
    w.silent();
    w.advance(100);
    let error = w.take_packet().2;
    let (kind, code, _, quoted) = icmp6_of(&error);
    assert_eq!((kind, code, quoted), (icmp6::TIME_EXCEEDED, 1, &pieces[0][..1232]));
    assert_eq!(w.dropped("fragment_timeout"), 2);
}

// RFC 6980 5: otherwise a fragment header would hide neighbor discovery from switches, and here it would be lost on the
// way to Linux.
#[test]
fn neighbor_discovery_in_fragments_is_dropped() {
    let mut w = known();
    let a = host(LEFT, 2);
    for kind in [133, 134, 135, 136, 137, 148] {
        let message = icmp6_packet(a.v6, v6(OURS6), 255, kind, 0, &[0; 24]);
        let options = [&[protocol::ICMPV6, 0, 1, 4, 0, 0, 0, 0], &message[40..]].concat();
        w.from(a, &piece6(a.v6, v6(OURS6), protocol::ICMPV6, (0, false), 1, &message[40..]));
        w.from(a, &piece6(a.v6, v6(OURS6), protocol::DESTINATION_OPTIONS, (0, false), 1, &options));
        for piece in cut6(&message, 16, 7) {
            w.from(a, &piece);
        }
    }
    w.silent();
    assert_eq!(w.dropped("nd_fragmented"), 18);
}

#[test]
fn a_fragment_of_a_fragment_is_not_unwrapped() {
    let mut w = known();
    let a = host(LEFT, 2);
    let mut inner = udp6(a.v6, v6(OURS6), 8)[40..].to_vec();
    for _ in 0..4000 {
        inner = [&[protocol::FRAGMENT, 0, 0, 0, 0, 0, 0, 1], &inner[..]].concat();
    }
    w.from(a, &piece6(a.v6, v6(OURS6), protocol::FRAGMENT, (0, false), 1, &inner));
    let last = [&[protocol::UDP, 0, 0, 9, 0, 0, 0, 1], &[0; 8][..]].concat();
    w.from(a, &piece6(a.v6, v6(OURS6), protocol::FRAGMENT, (0, false), 1, &last));
    w.silent();
    assert_eq!((w.dropped("bad_extension"), w.slow.reassembling().datagrams), (2, 0));
}

// The headers before the first fragment's header stay, those of the others do not matter (RFC 8200 4.5).
#[test]
fn headers_before_the_fragment_header_are_the_first_fragments() {
    let mut w = known();
    let a = host(LEFT, 2);
    let with = |headers: &[u8], piece: &[u8]| {
        let payload = [headers, &piece[40..]].concat();
        let next = if headers.is_empty() { protocol::FRAGMENT } else { protocol::HOP_BY_HOP };
        ip6(ipv6::Repr { traffic_class: 2, ..ipv6::Repr::new(a.v6, v6(OURS6), next, 0) }, &payload)
    };
    let hop = [protocol::FRAGMENT, 0, 5, 2, 0, 0, 1, 0];
    let ping = ping6(a.v6, v6(OURS6), &data(2000));
    let pieces = cut6(&ping, 1000, 1);
    w.from(a, &with(&[], &pieces[1]));
    w.from(a, &with(&hop, &pieces[0]));
    w.from(a, &with(&[hop, [protocol::FRAGMENT, 0, 1, 4, 0, 0, 0, 0]].concat()[..8], &pieces[2]));
    let reply = joined6(&sent(&mut w), 1500);
    assert_eq!(icmp6_of(&reply), (icmp6::ECHO_REPLY, 0, 0x0009_0001, &data(2000)[..]));
    let udp = udp6(a.v6, v6(OURS6), 2000);
    for piece in cut6(&udp, 1000, 2) {
        w.from(a, &with(&hop, &piece));
    }
    let whole = delivered(&mut w);
    assert_eq!((whole[6], &whole[40..48]), (protocol::HOP_BY_HOP, &[protocol::UDP, 0, 5, 2, 0, 0, 1, 0][..]));
    assert_eq!(whole[48..], udp[40..]);
    assert_eq!(Ipv6::new(&whole[..]).unwrap().payload_len() + 40, whole.len());
}

// RFC 4443 4.2, RFC 8200 4.5 and 5.
#[test]
fn ipv6_row_16_echo_replies_larger_than_the_mtu_go_out_in_fragments() {
    let mut w = known();
    let a = host(LEFT, 2);
    let mut identifications = std::collections::BTreeSet::new();
    for len in [1453, 4000, 20_000, 65_527] {
        let data = data(len);
        for piece in cut6(&ping6(a.v6, v6(OURS6), &data), 1448, len as u32) {
            w.from(a, &piece);
        }
        let pieces = sent(&mut w);
        assert_eq!(pieces.len(), (len + 8).div_ceil(1448));
        identifications.insert(pieces[0][44..48].to_vec());
        assert_eq!(icmp6_of(&joined6(&pieces, 1500)), (icmp6::ECHO_REPLY, 0, 0x0009_0001, &data[..]));
    }
    assert_eq!((identifications.len(), w.count("fragmented"), w.count("echo_replied")), (4, 4, 4));
    // A request that fitted where it came from, on the way back over a smaller link.
    let far = v6("2001:db8:100::9");
    w.set(RIGHT, Interface { mtu: 1400, ..interface(RIGHT) });
    w.input(Input::Resolve { interface: RIGHT, gateway: v6("fe80::254").into() });
    w.sent.clear();
    w.from(a, &ping6(far, v6(OURS6), &data(1400)));
    // Behind a gateway no one can cut them further, so they are as small as any link takes.
    assert_eq!(icmp6_of(&joined6(&sent(&mut w), 1280)).3, data(1400));
    // Too small a link for even one fragment: IPv6 does not run there.
    w.set(LEFT, Interface { mtu: 50, ..interface(LEFT) });
    w.from(a, &ping6(a.v6, v6(OURS6), &data(100)));
    assert_eq!(w.dropped("cannot_fragment"), 1);
}

// A link-local address means another station on each link (RFC 4007 6).
#[test]
fn fragments_of_link_local_stations_do_not_mix_across_links() {
    let mut w = known();
    let group = v6("ff02::5");
    let whole = ip6(ipv6::Repr::new(v6("fe80::2"), group, 89, 0), &data(2000));
    let pieces = cut6(&whole, 1448, 1);
    w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(group), host(LEFT, 2).mac, &pieces[0]));
    w.punt(RIGHT, &ethernet(MacAddr::from_ipv6_multicast(group), host(RIGHT, 2).mac, &pieces[1]));
    assert_eq!((w.twin.len(), w.slow.reassembling().datagrams), (0, 2));
    w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(group), host(LEFT, 2).mac, &pieces[1]));
    assert_eq!((w.twin.len(), w.slow.reassembling().datagrams), (1, 1));
}

// RFC 4862 5.4: an address that is not yet the router's alone gets nothing, in fragments neither.
#[test]
fn fragments_to_a_tentative_address_are_dropped() {
    let mut w = known();
    let mut config = interface(LEFT);
    let new = "2001:db8:1::77/64".parse::<InterfaceAddress>().unwrap();
    config.addresses.push(new);
    w.set(LEFT, config);
    let a = host(LEFT, 2);
    let pieces = cut6(&udp6(a.v6, v6("2001:db8:1::77"), 3000), 1448, 1);
    pieces.iter().for_each(|piece| w.from(a, piece));
    assert_eq!((w.dropped("tentative"), w.slow.reassembling().datagrams, w.twin.len()), (3, 0, 0));
}

// RFC 3168 5.3.
#[test]
fn congestion_on_the_way_of_any_fragment_is_that_of_the_datagram() {
    for (marks, expected) in [([3, 2], 3), ([2, 3], 3), ([3, 3], 3), ([2, 1], 2), ([0, 0], 0)] {
        let mut w = known();
        let a = host(LEFT, 2);
        for (mut piece, mark) in cut6(&udp6(a.v6, v6(OURS6), 2000), 1448, 1).into_iter().zip(marks) {
            piece[1] |= mark << 4;
            w.from(a, &piece);
        }
        assert_eq!(Ipv6::new(&delivered(&mut w)[..]).unwrap().traffic_class(), expected, "{marks:?}");
    }
}
