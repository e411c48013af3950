// SPDX-License-Identifier: MIT
//! IPv4 fragments to the router itself, its own replies in fragments, and what fragments cannot fill.

use crate::world::*;
use perigee_net::{Interface, MacAddr};
use perigee_packet::wire::{icmp4, ipv4, ipv6, protocol};
use perigee_packet::{Ipv4, Ipv6};
use perigee_slowpath::*;

const OURS4: &str = "10.0.1.1";
pub const OURS6: &str = "2001:db8:1::1";

pub fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 7) as u8).collect()
}

/// A world whose hosts are configured neighbors: nobody is asked, and Linux gets no answers.
pub fn known() -> World {
    let mut w = World::new();
    for host in [host(LEFT, 2), host(LEFT, 3), host(RIGHT, 3)] {
        for address in [host.v4.into(), host.v6.into()] {
            w.input(Input::SetNeighbor { interface: host.interface, address, mac: host.mac });
        }
    }
    w
}

/// The packet that fragments make, each of which fits `mtu`.
fn joined4(pieces: &[Vec<u8>], mtu: usize) -> Vec<u8> {
    let mut whole = pieces[0][..20].to_vec();
    for (n, piece) in pieces.iter().enumerate() {
        let view = ipv4::validate(piece).unwrap();
        assert!(piece.len() <= mtu && view.fragment_offset() == whole.len() - 20);
        assert_eq!(view.more_fragments(), n + 1 < pieces.len());
        assert_eq!(view.identification(), Ipv4::new(&pieces[0][..]).unwrap().identification());
        whole.extend_from_slice(view.payload());
    }
    let len = whole.len() as u16;
    edit4(whole, |view| {
        // The total length of the first piece is still in it, which is less.
        view.set_total_len(len);
        view.set_fragment(false, false, 0);
    })
}

/// As [`joined4`].
pub fn joined6(pieces: &[Vec<u8>], mtu: usize) -> Vec<u8> {
    let mut whole = pieces[0][..40].to_vec();
    whole[6] = pieces[0][40];
    for (n, piece) in pieces.iter().enumerate() {
        let fields = Ipv6::new(&piece[..]).unwrap().upper_layer().unwrap().fragment.unwrap();
        assert!(piece.len() <= mtu && fields.offset == whole.len() - 40, "{} bytes at {}", piece.len(), fields.offset);
        assert_eq!(fields.more, n + 1 < pieces.len());
        assert_eq!(piece[40..42], pieces[0][40..42]);
        assert_eq!(piece[44..48], pieces[0][44..48]);
        whole.extend_from_slice(&piece[48..]);
    }
    let len = (whole.len() - 40) as u16;
    whole[4..6].copy_from_slice(&len.to_be_bytes());
    whole
}

/// The one frame that Linux got, as a packet.
pub fn delivered(w: &mut World) -> Vec<u8> {
    assert_eq!(w.twin.len(), 1, "counters {:?}", w.counters());
    let (interface, frame) = w.twin.remove(0);
    assert_eq!((interface, &frame[..6]), (LEFT, &mac(LEFT).octets()[..]));
    frame[14..].to_vec()
}

pub fn sent(w: &mut World) -> Vec<Vec<u8>> {
    w.take_packets().into_iter().map(|(_, _, packet)| packet).collect()
}

// RFC 1812 4.2.2.8: Linux gets a datagram whole, in whatever order its fragments come.
#[test]
fn ipv4_row_23_reassembles_packets_to_itself() {
    let mut w = known();
    let a = host(LEFT, 2);
    let orders: [&[usize]; 4] = [&[0, 1, 2, 3], &[3, 2, 1, 0], &[1, 3, 0, 2], &[2, 2, 0, 0, 3, 1]];
    for (order, to) in orders.into_iter().zip([OURS4, "10.0.2.1", "10.255.255.1", OURS4]) {
        let whole = udp4(a.v4, v4(to), 5000);
        let pieces = cut4(&whole, 1480);
        for at in order {
            assert_eq!(w.twin.len(), 0);
            w.from(a, &pieces[*at]);
        }
        assert_eq!(delivered(&mut w), whole);
    }
    assert_eq!((w.sent.len(), w.count("reassembled"), w.dropped("fragment_duplicate")), (0, 4, 2));
    assert_eq!((w.count("fragments_kept"), w.slow.reassembling()), (4 * 3, Reassembling::default()));
}

// The router's own echo is no different (RFC 1812 4.3.3.6).
#[test]
fn ipv4_row_36_answers_echo_of_every_size_that_there_is() {
    let mut w = known();
    let a = host(LEFT, 2);
    for len in [1473, 4000, 20_000, 65_507] {
        let data = data(len);
        for piece in cut4(&ping4(a.v4, v4(OURS4), &data), 1480) {
            w.from(a, &piece);
        }
        let reply = joined4(&sent(&mut w), 1500);
        assert_eq!(icmp4_of(&reply), (icmp4::ECHO_REPLY, 0, 0x0009_0001, &data[..]));
    }
    assert_eq!((w.count("reassembled"), w.count("echo_replied"), w.twin.len()), (4, 4, 0));
}

// RFC 1812 5.2.6: transit packets stay in the pieces that they came in, whatever their order.
#[test]
fn ipv4_row_22_never_reassembles_transit_packets() {
    let mut w = known();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    let pieces = cut4(&udp4(a.v4, b.v4, 3000), 1000);
    for at in [2, 0, 1] {
        w.from(a, &pieces[at]);
        let packet = w.take_packet().2;
        assert_eq!(packet[4..8], pieces[at][4..8]);
        assert_eq!(packet[20..], pieces[at][20..]);
    }
    assert_eq!((w.count("reassembled"), w.count("fragments_kept")), (0, 0));
}

// RFC 1122 3.3.2: between 60 and 120 seconds; an error only if the first fragment was received.
#[test]
fn ipv4_row_23_time_exceeded_quotes_the_first_fragment() {
    let mut w = known();
    let a = host(LEFT, 2);
    let pieces = cut4(&udp4(a.v4, v4(OURS4), 3000), 1480);
    w.from(a, &pieces[0]);
    w.from(a, &pieces[2]);
    let other = cut4(&edit4(udp4(a.v4, v4(OURS4), 3000), |view| view.set_identification(8)), 1480);
    w.from(a, &other[1]);
    w.advance(59_900);
    w.silent();
    w.advance(200);
    let error = w.take_packet().2;
    let (kind, code, _, quoted) = icmp4_of(&error);
    assert_eq!((kind, code, quoted), (icmp4::TIME_EXCEEDED, icmp4::time_exceeded::REASSEMBLY, &pieces[0][..548]));
    assert_eq!((w.dropped("fragment_timeout"), w.slow.reassembling()), (3, Reassembling::default()));
    // What comes now is the start of another wait.
    w.from(a, &pieces[1]);
    assert_eq!((w.slow.reassembling().datagrams, w.twin.len()), (1, 0));
}

// RFC 1858, RFC 3128, RFC 8900 3.7: the router does not let the last copy win, as RFC 791 would.
#[test]
fn ipv4_row_23_refuses_overlaps_and_tiny_first_fragments() {
    let mut w = known();
    let a = host(LEFT, 2);
    let whole = udp4(a.v4, v4(OURS4), 72);
    let piece = |offset: usize, more: bool, data: &[u8]| {
        let repr = ipv4::Repr {
            identification: 7,
            fragment_offset: offset,
            more_fragments: more,
            ..ipv4::Repr::new(a.v4, v4(OURS4), protocol::UDP, 0)
        };
        ip4(repr, &[], data)
    };
    w.from(a, &piece(0, true, &whole[20..60]));
    w.from(a, &piece(16, true, &[0xee; 16]));
    // Its honest constituents, too, until the time is up.
    w.from(a, &piece(40, false, &whole[60..]));
    w.from(a, &piece(0, true, &whole[20..60]));
    w.advance(61_000);
    w.silent();
    assert_eq!((w.dropped("fragment_overlap"), w.slow.reassembling().datagrams), (4, 0));
    // Two ends, data behind the end.
    for bad in [piece(56, false, &[0; 16]), piece(96, true, &[0; 8])] {
        w.from(a, &piece(48, false, &[0; 32]));
        w.from(a, &bad);
        w.advance(61_000);
    }
    w.silent();
    assert_eq!(w.dropped("fragment_overlap"), 8);
    let tcp = |offset: usize, len: usize| {
        let mut packet = piece(offset, true, &vec![0; len]);
        packet[9] = protocol::TCP;
        edit4(packet, |_| {})
    };
    w.from(a, &tcp(0, 8));
    w.from(a, &tcp(8, 64));
    assert_eq!((w.dropped("fragment_tiny"), w.slow.reassembling().datagrams), (2, 0));
    w.from(a, &tcp(0, 16));
    w.from(a, &tcp(16, 16));
    assert_eq!((w.dropped("fragment_tiny"), w.slow.reassembling().datagrams), (2, 1));
}

// RFC 791 3.2.
#[test]
fn impossible_lengths_are_refused() {
    let mut w = known();
    let a = host(LEFT, 2);
    let piece = |offset, more, len| {
        let repr = ipv4::Repr {
            fragment_offset: offset,
            more_fragments: more,
            ..ipv4::Repr::new(a.v4, v4(OURS4), protocol::UDP, 0)
        };
        ip4(repr, &[], &vec![0; len])
    };
    for (offset, more, len) in [(0, true, 12), (0, true, 0), (8, false, 0), (65_528, false, 1), (65_512, false, 4)] {
        w.from(a, &piece(offset, more, len));
    }
    assert_eq!((w.dropped("fragment_malformed"), w.dropped("fragment_too_long")), (3, 2));
    assert_eq!(w.slow.reassembling().datagrams, 0);
    w.from(a, &piece(65_512, false, 3));
    assert_eq!(w.slow.reassembling().datagrams, 1);
    w.silent();
}

// The first fragment's options are the datagram's, and count in its length (RFC 791 3.2).
#[test]
fn options_and_congestion_come_through() {
    let mut w = known();
    let a = host(LEFT, 2);
    let part = |offset: usize, more, tos, options: &[u8], len: usize| {
        let repr = ipv4::Repr {
            tos,
            fragment_offset: offset,
            more_fragments: more,
            ..ipv4::Repr::new(a.v4, v4(OURS4), protocol::UDP, 0)
        };
        ip4(repr, options, &data(offset + len)[offset..])
    };
    w.from(a, &part(16, false, 0xb9, &[], 5));
    w.from(a, &part(0, true, 0xbb, &[148, 4, 0, 0], 16));
    let whole = delivered(&mut w);
    let view = ipv4::validate(&whole).unwrap();
    assert_eq!((view.total_len(), view.header_len(), view.tos(), view.payload()), (45, 24, 0xbb, &data(21)[..]));
    // 65,535 bytes with a header of 20, but this one has 24.
    w.from(a, &part(65_512, false, 0, &[], 3));
    for offset in (0..65_512).step_by(1024) {
        w.from(a, &part(offset, true, 0, if offset == 0 { &[148, 4, 0, 0] } else { &[] }, 1024.min(65_512 - offset)));
    }
    assert_eq!((w.twin.len(), w.dropped("fragment_too_long")), (0, 65));
    // RFC 3168 5.3.
    w.from(a, &part(0, true, 3, &[], 8));
    w.from(a, &part(8, false, 0, &[], 8));
    assert_eq!((w.twin.len(), w.dropped("fragment_ecn")), (0, 2));
}

// OSPF's database descriptions may be larger than the MTU (RFC 2328 4.3).
#[test]
fn groups_hear_whole_datagrams() {
    let mut w = known();
    let a = host(LEFT, 2);
    let to_group = |w: &mut World, group: MacAddr, packet: &[u8]| w.punt(LEFT, &ethernet(group, a.mac, packet));
    let four = ip4(ipv4::Repr { identification: 3, ..ipv4::Repr::new(a.v4, v4("224.0.0.5"), 89, 0) }, &[], &data(3000));
    for piece in cut4(&four, 1480) {
        to_group(&mut w, MacAddr([1, 0, 0x5e, 0, 0, 5]), &piece);
    }
    let all = v6("ff02::5");
    let six = ip6(ipv6::Repr::new(v6("fe80::2"), all, 89, 0), &data(3000));
    for piece in cut6(&six, 1448, 3) {
        to_group(&mut w, MacAddr::from_ipv6_multicast(all), &piece);
    }
    let packets: Vec<_> = w.twin.iter().map(|(_, frame)| frame[14..].to_vec()).collect();
    assert_eq!(packets, [four, six]);
    assert!(w.twin.iter().all(|(_, frame)| frame[0] & 1 == 1));
    w.twin.clear();
    // An echo request to a broadcast address is refused in fragments, too (RFC 1812 4.3.3.6).
    for piece in cut4(&ping4(a.v4, v4("10.0.1.255"), &data(3000)), 1480) {
        to_group(&mut w, MacAddr::BROADCAST, &piece);
    }
    w.silent();
    assert_eq!(w.dropped("echo_group"), 1);
}

// RFC 7739: not one counter for all, and not the same after a restart.
#[test]
fn identifications_of_one_station_say_nothing_about_anothers() {
    let ids = |secret| {
        let mut w = World::with(Config { secret, ..Config::default() });
        [2, 3, 2, 3].map(|n| {
            let from = host(LEFT, n);
            w.from(from, &ping4(from.v4, v4(OURS4), b"x"));
            Ipv4::new(&w.take_packet().2[..]).unwrap().identification()
        })
    };
    let [a, b, next_a, next_b] = ids(7);
    assert_eq!((next_a, next_b), (a.wrapping_add(1), b.wrapping_add(1)));
    assert!(a.abs_diff(b) > 2);
    assert_ne!(ids(8)[0], a);
}

// A broadcast address, a group and a link-local address mean other stations on each link.
#[test]
fn fragments_of_one_link_do_not_mix_with_anothers() {
    let cases =
        [("10.0.1.2", "255.255.255.255"), ("10.0.1.2", "224.0.0.5"), ("169.254.1.2", OURS4), ("10.0.1.2", OURS4)];
    for (from, to) in cases {
        let mut w = known();
        let whole = ip4(ipv4::Repr::new(v4(from), v4(to), 89, 0), &[], &data(2000));
        let pieces = cut4(&whole, 1480);
        let group = v4(to).is_broadcast() || v4(to).is_multicast();
        for (link, piece) in [(LEFT, &pieces[0]), (RIGHT, &pieces[1])] {
            let to = if group { MacAddr::BROADCAST } else { mac(link) };
            w.punt(link, &ethernet(to, host(link, 2).mac, piece));
        }
        let everywhere = (from, to) == ("10.0.1.2", OURS4);
        assert_eq!((w.twin.len(), w.slow.reassembling().datagrams), if everywhere { (1, 0) } else { (0, 2) }, "{to}");
    }
}

#[test]
fn an_interface_that_went_down_meanwhile_gets_nothing() {
    let mut w = known();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    let pieces = cut4(&udp4(a.v4, v4(OURS4), 3000), 1480);
    w.from(a, &pieces[0]);
    w.from(a, &pieces[1]);
    w.set(LEFT, Interface { up: false, ..interface(LEFT) });
    // The last one takes another way.
    w.from(b, &pieces[2]);
    w.silent();
    assert_eq!(w.dropped("interface_down"), 1);
    for piece in &pieces[..2] {
        w.from(b, piece);
    }
    w.input(Input::RemoveInterface { id: RIGHT });
    w.advance(70_000);
    assert_eq!((w.dropped("fragment_timeout"), w.slow.reassembling().datagrams), (2, 0));
}

// RFC 8900 3.7: whatever comes, so much memory and no more; and others are still served.
#[test]
fn a_hundred_thousand_fragments_that_never_fit_take_bounded_memory() {
    let mut w = known();
    let (a, b) = (host(LEFT, 2), host(LEFT, 3));
    let mut most = Reassembling::default();
    for n in 0..100_000u32 {
        let from = v6(&format!("2001:db8:{:x}::{:x}", 0x1000 + n % 7, n % 0xffff));
        if n % 2 == 0 {
            let fragment = piece6(from, v6(OURS6), protocol::UDP, (8 + n as usize % 1000 * 8, true), n, &data(1000));
            w.from(a, &fragment);
        } else {
            let repr = ipv4::Repr {
                identification: n as u16,
                more_fragments: true,
                ..ipv4::Repr::new(v4("198.51.100.7"), v4(OURS4), protocol::UDP, 0)
            };
            w.from(a, &ip4(repr, &[], &data(1000)));
        }
        let now = w.slow.reassembling();
        most = Reassembling { datagrams: most.datagrams.max(now.datagrams), bytes: most.bytes.max(now.bytes) };
        if n % 10_000 == 5_000 {
            for piece in cut6(&ping6(b.v6, v6(OURS6), &data(4000)), 1448, n) {
                w.from(b, &piece);
            }
            assert_eq!(icmp6_of(&joined6(&sent(&mut w), 1500)).3, data(4000));
        }
    }
    let limits = Config::default();
    assert!(most.datagrams <= limits.reassembly_datagrams && most.bytes <= limits.reassembly_bytes, "{most:?}");
    assert!(most.datagrams > 900, "{most:?}");
    w.advance(61_000);
    assert_eq!(w.slow.reassembling(), Reassembling::default());
    assert_eq!(w.dropped("fragment_evicted") + w.dropped("fragment_timeout"), 100_000);
}
