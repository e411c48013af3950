// SPDX-License-Identifier: MIT
//! Packets that Linux alone can forward, and those of routes with an MTU.

use crate::world::*;
use perigee_packet::wire::{icmp4, icmp6};
use perigee_packet::{Ipv4, Ipv6};
use perigee_slowpath::*;

fn station() -> (World, Host) {
    let mut w = World::new();
    let a = host(LEFT, 2);
    w.meet(a);
    (w, a)
}

/// Whatever the TTL, in fragments or not: Linux gets it as it came, and answers.
#[test]
fn what_is_linuxs_is_given_to_it_as_it_came() {
    let (mut w, a) = station();
    let v4 = udp4(a.v4, v4("10.77.0.1"), 600);
    let v6 = udp6(a.v6, v6("2001:db8:300::1"), 600);
    let last_hop = edit4(v4.clone(), |view| view.set_ttl(1));
    let packets = [vec![v4.clone(), last_hop, v6.clone()], cut4(&v4, 400), cut6(&v6, 400, 7)].concat();
    let before = w.count("to_twin");
    for packet in &packets {
        w.from(a, packet);
        let frame = ethernet(mac(LEFT), a.mac, packet);
        assert_eq!(std::mem::take(&mut w.twin), [(LEFT, frame)]);
    }
    assert!(w.take_packets().is_empty());
    assert_eq!((w.count("to_twin") - before, w.count("forwarded")), (packets.len() as u64, 0));
}

#[test]
fn what_linux_is_not_let_forward_is_answered() {
    let (mut w, a) = station();
    w.from(a, &udp4(a.v4, v4("10.78.0.1"), 8));
    let (_, _, error) = w.take_packet();
    assert_eq!((icmp4_of(&error).0, icmp4_of(&error).1), (icmp4::UNREACHABLE, icmp4::unreachable::HOST));
    w.from(a, &udp6(a.v6, v6("2001:db8:301::1"), 8));
    let (_, _, error6) = w.take_packet();
    assert_eq!((icmp6_of(&error6).0, icmp6_of(&error6).1), (icmp6::UNREACHABLE, icmp6::unreachable::ADDRESS));
    assert_eq!(w.dropped("route_refused"), 2);
}

#[test]
fn exceptions_go_before_the_plain_route() {
    let (mut w, a) = station();
    let b = host(RIGHT, 3);
    let [to4, to6] = [udp4(a.v4, b.v4, 8), udp6(a.v6, b.v6, 8)];
    w.table.1.treatment = Some([Treatment::ToLinux; 2]);
    for packet in [&to4, &to6] {
        w.from(a, packet);
        assert_eq!(std::mem::take(&mut w.twin).len(), 1);
    }
    w.table.1.treatment = Some([Treatment::Refused; 2]);
    for packet in [&to4, &to6] {
        w.from(a, packet);
        assert_eq!(w.take_packets().len(), 1, "an error");
    }
    assert_eq!((w.dropped("route_refused"), w.count("forwarded")), (2, 0));
    // They are none of packets for the router itself.
    w.table.1.treatment = Some([Treatment::ToLinux; 2]);
    w.from(a, &ping4(a.v4, v4("10.0.2.1"), b""));
    assert_eq!((w.take_packets().len(), w.twin.len()), (1, 0));
}

#[test]
fn a_routes_mtu_is_what_its_packets_may_have() {
    let (mut w, a) = station();
    let b = host(RIGHT, 3);
    w.table.1.treatment = Some([Treatment::Mtu(1300); 2]);
    w.from(a, &udp4(a.v4, b.v4, 1200));
    assert_eq!(w.take_packets().len(), 1);
    let big = udp4(a.v4, b.v4, 1372);
    w.from(a, &edit4(big.clone(), |view| view.set_fragment(true, false, 0)));
    let (_, _, error) = w.take_packet();
    let (kind, code, mtu, _) = icmp4_of(&error);
    assert_eq!((kind, code, mtu), (icmp4::UNREACHABLE, 4, 1300));
    w.from(a, &edit4(big, |view| view.set_fragment(false, false, 0)));
    let pieces = w.take_packets();
    assert!(pieces.len() == 2 && pieces.iter().all(|(_, _, p)| Ipv4::new(&p[..]).unwrap().total_len() <= 1300));
    w.from(a, &udp6(a.v6, b.v6, 1372));
    let (_, _, error) = w.take_packet();
    let (kind, _, mtu, _) = icmp6_of(&error);
    assert_eq!((kind, mtu), (icmp6::PACKET_TOO_BIG, 1300));
    // No link of IPv6 takes less than 1280 bytes (RFC 8200 5).
    w.table.1.treatment = Some([Treatment::Mtu(600); 2]);
    let small = udp6(a.v6, b.v6, 1200);
    w.from(a, &small);
    let (_, _, passed) = w.take_packet();
    assert!(Ipv6::new(&passed[..]).is_ok() && passed.len() == small.len());
}
