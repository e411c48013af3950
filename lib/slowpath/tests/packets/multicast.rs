// SPDX-License-Identifier: MIT
//! Packets to groups that reach beyond their link: where they leave, what Linux hears of them, and that nothing is
//! answered but by Packet Too Big.

use crate::world::*;
use perigee_net::{Interface, InterfaceId, MacAddr, MulticastOutput, Policy, ReversePath};
use perigee_packet::wire::{icmp6, ipv4, ipv6, protocol};
use perigee_packet::{Ipv4, Ipv6};
use perigee_slowpath::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const GROUP4: Ipv4Addr = Ipv4Addr::new(239, 129, 2, 3);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 3);
/// A third link, of 10.0.3.0/24.
const FAR: InterfaceId = InterfaceId(3);

/// Both groups go from the left to the right, and to the third link if their TTL exceeds 32.
fn world() -> World {
    let mut w = World::new();
    w.set(FAR, interface(FAR));
    w.advance(1500);
    forward(&mut w, &[(RIGHT, 1), (FAR, 32)]);
    w.sent.clear();
    w.events.clear();
    w
}

fn forward(w: &mut World, to: &[(InterfaceId, u8)]) {
    let outputs = to.iter().map(|&(interface, ttl)| MulticastOutput { interface, ttl }).collect();
    decide(w, MulticastDecision::Forward(outputs));
}

fn decide(w: &mut World, decision: MulticastDecision) {
    for group in [IpAddr::from(GROUP4), GROUP6.into()] {
        w.table.1.decisions.insert((group, LEFT), decision.clone());
    }
}

/// A packet to its group, from the left.
fn send(w: &mut World, packet: &[u8]) {
    let group = match packet[0] >> 4 {
        4 => IpAddr::V4(Ipv4::new(packet).unwrap().destination()),
        _ => IpAddr::V6(Ipv6::new(packet).unwrap().destination()),
    };
    w.punt(LEFT, &ethernet(MacAddr::of_group(group), host(LEFT, 2).mac, packet));
}

fn four(len: usize, ttl: u8) -> Vec<u8> {
    edit4(udp4(host(LEFT, 2).v4, GROUP4, len), |view| view.set_ttl(ttl))
}

fn six(len: usize, limit: u8) -> Vec<u8> {
    let mut packet = udp6(host(LEFT, 2).v6, GROUP6, len);
    packet[7] = limit;
    packet
}

fn one_hop_less(packet: &[u8]) -> Vec<u8> {
    match packet[0] >> 4 {
        4 => edit4(packet.to_vec(), |view| view.set_ttl(view.ttl() - 1)),
        _ => {
            let mut packet = packet.to_vec();
            packet[7] -= 1;
            packet
        }
    }
}

// RFC 1112 6.4, RFC 2464 7.
#[test]
fn a_copy_for_each_interface() {
    let mut w = world();
    for (packet, mac) in [(four(5, 64), "01:00:5e:01:02:03"), (six(5, 64), "33:33:00:01:00:03")] {
        send(&mut w, &packet);
        let (mac, packet) = (mac.parse().unwrap(), one_hop_less(&packet));
        assert_eq!(w.take_packets(), [(RIGHT, mac, packet.clone()), (FAR, mac, packet)]);
    }
    assert!(w.twin.is_empty());
    assert_eq!((w.count("forwarded"), w.count("multicast_copies")), (2, 4));
    let asked = w.table.1.asked.take();
    assert_eq!(asked.iter().map(|packet| packet.bytes).collect::<Vec<_>>(), [25, 45]);
    assert!(asked.iter().all(|packet| packet.interface == LEFT));
    // To the router's own MAC address, or to all stations (RFC 1812 5.3.4): the group counts.
    w.from(host(LEFT, 2), &four(5, 64));
    w.punt(LEFT, &ethernet(MacAddr::BROADCAST, host(LEFT, 2).mac, &four(5, 64)));
    assert_eq!(w.take_packets().len(), 4);
}

// RFC 1812 5.3.1, 4.3.2.7, RFC 4443 2.4 (e.3).
#[test]
fn ipv4_row_10_ttl_and_thresholds_are_silent() {
    let mut w = world();
    for limit in [0, 1] {
        send(&mut w, &four(5, limit));
        send(&mut w, &six(5, limit));
    }
    w.silent();
    assert_eq!(w.dropped("ttl_expired"), 4);
    for (limit, copies) in [(2, 1), (32, 1), (33, 2)] {
        send(&mut w, &four(5, limit));
        send(&mut w, &six(5, limit));
        assert_eq!(w.take_packets().len(), 2 * copies, "{limit}");
    }
    assert_eq!((w.dropped("ttl_expired"), w.count("icmp_errors_suppressed")), (4, 0));
}

#[test]
fn interfaces_that_are_down_or_gone_are_left_out() {
    let mut w = world();
    w.set(RIGHT, Interface { up: false, ..interface(RIGHT) });
    w.sent.clear();
    send(&mut w, &four(5, 64));
    assert_eq!(w.take_packet().0, FAR);
    w.input(Input::RemoveInterface { id: FAR });
    send(&mut w, &four(5, 64));
    send(&mut w, &six(5, 64));
    w.silent();
    assert_eq!((w.dropped("interface_down"), w.count("forwarded")), (2, 1));
}

// RFC 1812 5.2.6; RFC 1112 6.1 has no answer to what may not be fragmented.
#[test]
fn what_is_too_big_is_fragmented_or_dropped_in_ipv4() {
    let mut w = world();
    w.set(FAR, Interface { mtu: 600, ..interface(FAR) });
    let big = four(1000, 64);
    send(&mut w, &big);
    let sent = w.take_packets();
    assert_eq!(
        sent.iter().map(|(id, _, packet)| (id.0, packet.len())).collect::<Vec<_>>(),
        [(2, 1020), (3, 596), (3, 444)]
    );
    let mac = MacAddr::from_ipv4_multicast(GROUP4);
    assert!(sent.iter().all(|(_, to, packet)| *to == mac && Ipv4::new(&packet[..]).unwrap().ttl() == 63));
    send(&mut w, &edit4(big, |view| view.set_fragment(true, false, 0)));
    let (interface, _, packet) = w.take_packet();
    assert_eq!((interface, packet.len()), (RIGHT, 1020));
    assert_eq!((w.dropped("too_big"), w.count("fragmented"), w.count("forwarded")), (1, 1, 2));
    // Fragments are forwarded as they are.
    for piece in cut4(&four(1000, 64), 504) {
        send(&mut w, &piece);
        assert_eq!(w.take_packets().len(), 2);
    }
}

// RFC 4443 3.2.
#[test]
fn ipv6_row_3_too_big_names_the_smallest_mtu() {
    let mut w = world();
    for (id, mtu) in [(RIGHT, 1400), (FAR, 1300)] {
        w.set(id, Interface { mtu, ..interface(id) });
    }
    let a = host(LEFT, 2);
    let error_of = |w: &mut World| {
        let (interface, mac, error) = w.take_packets().pop().unwrap();
        assert_eq!((interface, mac, Ipv6::new(&error[..]).unwrap().destination()), (LEFT, a.mac, a.v6));
        let (kind, _, mtu, quoted) = icmp6_of(&error);
        assert_eq!((kind, Ipv6::new_truncated(quoted).unwrap().destination()), (icmp6::PACKET_TOO_BIG, GROUP6));
        mtu
    };
    send(&mut w, &six(1400, 64));
    assert_eq!((error_of(&mut w), w.count("forwarded")), (1300, 0));
    send(&mut w, &six(1300, 64));
    assert_eq!(w.sent.len(), 2, "one copy, one error");
    assert_eq!((error_of(&mut w), w.count("forwarded")), (1300, 1));
    // An interface that it would not leave by anyway does not count.
    send(&mut w, &six(1300, 32));
    assert_eq!(w.take_packet().0, RIGHT);
    assert_eq!((w.dropped("too_big"), w.count("icmp_errors_sent")), (2, 2));
}

// RFC 1812 5.3.13: each copy has the address of its interface.
#[test]
fn options_are_followed_but_source_routes() {
    let mut w = world();
    let with = |options: &[u8]| ip4(ipv4::Repr::new(host(LEFT, 2).v4, GROUP4, protocol::UDP, 0), options, b"data");
    send(&mut w, &with(&[7, 7, 4, 0, 0, 0, 0, 0]));
    let recorded: Vec<_> = w.take_packets().into_iter().map(|(_, _, packet)| packet[23..27].to_vec()).collect();
    assert_eq!(recorded, [[10, 0, 2, 1], [10, 0, 3, 1]]);
    send(&mut w, &with(&[131, 7, 4, 10, 0, 2, 3, 0]));
    send(&mut w, &with(&[7, 3, 0, 0]));
    w.silent();
    assert_eq!((w.dropped("source_route"), w.dropped("bad_option")), (1, 1));
    // An unknown option of IPv6 that wants to be reported is reported, to groups as well (RFC 8200 4.2); one that does
    // not is not.
    let with = |kind: u8| {
        let payload = [&[protocol::UDP, 0, kind, 4, 0, 0, 0, 0], &six(5, 64)[40..]].concat();
        ip6(ipv6::Repr::new(host(LEFT, 2).v6, GROUP6, protocol::HOP_BY_HOP, 0), &payload)
    };
    send(&mut w, &with(0x3e));
    assert_eq!(w.take_packets().len(), 2);
    send(&mut w, &with(0xfe));
    w.silent();
}

#[test]
fn what_has_no_route_reaches_linux_within_limits() {
    let mut w = world();
    let a = host(LEFT, 2);
    for (packet, other) in [
        (udp4(a.v4, v4("239.9.9.9"), 5), udp4(a.v4, v4("239.9.9.8"), 5)),
        (udp6(a.v6, v6("ff08::9"), 5), udp6(a.v6, v6("ff08::8"), 5)),
    ] {
        let before = w.dropped("multicast_unrouted");
        (0..40).for_each(|_| send(&mut w, &packet));
        assert_eq!((w.twin.len(), w.dropped("multicast_unrouted")), (32, before + 8));
        assert_eq!(w.twin[0].1[14..], packet, "as it is");
        send(&mut w, &other);
        assert_eq!(w.twin.len(), 33, "another flow is not hidden behind it");
        w.advance(1000);
        send(&mut w, &packet);
        assert_eq!(std::mem::take(&mut w.twin).len(), 34);
    }
    // Linux is not asked to answer pings to groups, and gets whole datagrams.
    send(&mut w, &ping4(a.v4, v4("239.9.9.9"), b"x"));
    send(&mut w, &ping6(a.v6, v6("ff08::9"), b"x"));
    assert_eq!((w.twin.len(), w.dropped("echo_group")), (0, 2));
    let whole = udp4(a.v4, v4("239.9.9.9"), 100);
    cut4(&whole, 64).iter().for_each(|piece| send(&mut w, piece));
    assert_eq!(w.twin.pop().unwrap().1[14..], whole);
    w.silent();
}

// RFC 1112 7, RFC 2710 3, RFC 3810 5, RFC 7761 4.9.
#[test]
fn what_routing_daemons_speak_reaches_linux_whatever_the_route() {
    let mut w = world();
    let a = host(LEFT, 2);
    let version_2_report =
        ip4(ipv4::Repr { ttl: 1, ..ipv4::Repr::new(a.v4, GROUP4, 2, 0) }, &[148, 4, 0, 0], &[0x16; 8]);
    // Reports may come from hosts without an address.
    let nobody =
        ip4(ipv4::Repr { ttl: 1, ..ipv4::Repr::new(v4("0.0.0.0"), GROUP4, 2, 0) }, &[148, 4, 0, 0], &[0x16; 8]);
    let local = a.mac.link_local();
    let alert = [protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0];
    let report = |from: Ipv6Addr| {
        let icmp = &icmp6_packet(from, GROUP6, 1, 131, 0, &GROUP6.octets())[40..];
        ip6(
            ipv6::Repr { hop_limit: 1, ..ipv6::Repr::new(from, GROUP6, protocol::HOP_BY_HOP, 0) },
            &[&alert, icmp].concat(),
        )
    };
    let pim = ip4(ipv4::Repr::new(a.v4, GROUP4, protocol::PIM, 0), &[], &[0x20; 8]);
    let pim6 = ip6(ipv6::Repr::new(local, GROUP6, protocol::PIM, 0), &[0x20; 8]);
    for packet in [version_2_report, nobody, report(local), report(v6("::")), pim, pim6] {
        send(&mut w, &packet);
        let (interface, frame) = w.twin.pop().expect("Linux gets it");
        assert_eq!((interface, &frame[14..]), (LEFT, &packet[..]));
    }
    w.silent();
}

// RFC 3927 7, RFC 4291 2.5.6, RFC 1122 3.2.1.3.
#[test]
fn ipv6_row_10_sources_of_the_link_and_scopes_of_the_node_go_nowhere() {
    let mut w = world();
    for from in ["169.254.1.1", "0.0.0.0", "127.0.0.1", "224.0.0.1"] {
        send(&mut w, &udp4(v4(from), GROUP4, 5));
    }
    for from in ["fe80::2", "::", "::1", "ff05::1"] {
        send(&mut w, &udp6(v6(from), GROUP6, 5));
    }
    for to in ["ff00::1", "ff01::1"] {
        send(&mut w, &udp6(host(LEFT, 2).v6, v6(to), 5));
    }
    w.silent();
    let names = ["link_local", "martian_source", "multicast_scope"];
    assert_eq!(names.map(|name| w.dropped(name)), [2, 6, 2]);
    // Groups of the link are not forwarded, whatever the table says.
    send(&mut w, &udp4(host(LEFT, 2).v4, v4("224.0.0.5"), 5));
    send(&mut w, &udp6(host(LEFT, 2).v6, v6("ff02::5"), 5));
    assert_eq!((w.twin.len(), w.sent.len(), w.table.1.asked.borrow().len()), (2, 0, 0));
}

#[test]
fn what_the_table_refuses_is_counted() {
    let mut w = world();
    for (decision, name) in [
        (MulticastDecision::WrongInterface, "multicast_wrong_interface"),
        (MulticastDecision::Boundary, "multicast_boundary"),
        (MulticastDecision::Forward(Vec::new()), "multicast_no_output"),
    ] {
        decide(&mut w, decision);
        send(&mut w, &four(5, 64));
        send(&mut w, &six(5, 64));
        w.silent();
        assert_eq!(w.dropped(name), 2, "{name}");
    }
    // Linux forwards it itself: fragments stay fragments.
    decide(&mut w, MulticastDecision::Linux);
    for piece in cut4(&four(100, 64), 64).iter().chain(&cut6(&six(100, 64), 64, 1)) {
        send(&mut w, piece);
        assert_eq!(w.twin.pop().unwrap().1[14..], piece[..]);
    }
    w.silent();
    // The check of the interface itself comes first (RFC 3704).
    w.set(LEFT, Interface { policy: Policy { urpf: ReversePath::Strict, ..Policy::default() }, ..interface(LEFT) });
    send(&mut w, &udp4(host(RIGHT, 2).v4, GROUP4, 5));
    send(&mut w, &udp6(host(RIGHT, 2).v6, GROUP6, 5));
    w.silent();
    assert_eq!(w.dropped("reverse_path"), 2);
}

// RFC 2365 5: Linux knows nothing of boundaries and thresholds, and forwards some packets itself.
#[test]
fn what_linux_sends_stays_within_boundaries() {
    let mut w = world();
    w.table.1.confined.insert(RIGHT, 15);
    let mut linux = |packet: &[u8], group: IpAddr| {
        let frame = ethernet(MacAddr::of_group(group), mac(RIGHT), packet);
        w.input(Input::FromTwin { interface: RIGHT, frame: &frame });
        std::mem::take(&mut w.sent).len()
    };
    assert_eq!((linux(&four(5, 15), GROUP4.into()), linux(&six(5, 15), GROUP6.into())), (0, 0));
    assert_eq!((linux(&four(5, 16), GROUP4.into()), linux(&six(5, 16), GROUP6.into())), (1, 1));
    // Groups of the link, and what daemons say to groups.
    let hello = edit4(udp4(v4("10.0.2.1"), v4("224.0.0.5"), 5), |view| view.set_ttl(1));
    let query = ip4(ipv4::Repr { ttl: 1, ..ipv4::Repr::new(v4("10.0.2.1"), GROUP4, 2, 0) }, &[], &[0x11; 8]);
    let query6 = icmp6_packet(mac(RIGHT).link_local(), GROUP6, 1, 130, 0, &[0; 20]);
    assert_eq!(linux(&hello, v4("224.0.0.5").into()) + linux(&query, GROUP4.into()), 2);
    assert_eq!(linux(&query6, GROUP6.into()), 1);
    assert_eq!(w.dropped("multicast_boundary"), 2);
}
