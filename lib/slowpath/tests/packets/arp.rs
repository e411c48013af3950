// SPDX-License-Identifier: MIT
//! ARP and how the neighbor table handles it.

use crate::world::*;
use perigee_net::{Interface, MacAddr};
use perigee_packet::Ethernet;
use perigee_packet::wire::arp::{REPLY, REQUEST, Repr};
use perigee_slowpath::*;
use std::net::{IpAddr, Ipv4Addr};

fn request(from: Host, target: Ipv4Addr) -> Repr {
    Repr::request(from.mac, from.v4, target)
}

fn reply_to_router(from: Host, mac_of_sender: MacAddr) -> Repr {
    let router = Ipv4Addr::new(10, 0, from.interface.0 as u8, 1);
    Repr {
        operation: REPLY,
        sender_mac: mac_of_sender,
        sender_ip: from.v4,
        target_mac: mac(from.interface),
        target_ip: router,
    }
}

/// No host answers.
fn quiet() -> World {
    let mut world = World::new();
    world.hosts.clear();
    world
}

#[test]
fn answers_requests_for_its_addresses_and_learns_the_asker() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request(a, v4("10.0.1.1"))));
    let (interface, frame) = &w.sent[0];
    assert_eq!((*interface, Ethernet::new(&frame[..]).unwrap().destination()), (LEFT, a.mac));
    assert_eq!(arp_of(frame).unwrap(), request(a, v4("10.0.1.1")).reply(mac(LEFT)));
    assert_eq!(w.events, [Event::NeighborResolved { interface: LEFT, address: a.v4.into(), mac: a.mac }]);
    assert!(w.twin.is_empty(), "requests are not Linux's business");
}

#[test]
fn does_not_answer_for_others_or_on_the_wrong_link() {
    let mut w = quiet();
    for target in ["10.0.1.9", "10.0.2.1"] {
        w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request(host(LEFT, 2), v4(target))));
    }
    w.silent();
    assert_eq!(w.dropped("arp_not_for_us"), 2);
    assert!(w.events.is_empty());
}

#[test]
fn answers_a_probe_but_learns_nothing_from_it() {
    let mut w = quiet();
    let probe = Repr { sender_ip: Ipv4Addr::UNSPECIFIED, ..request(host(LEFT, 2), v4("10.0.1.1")) };
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &probe));
    assert_eq!(arp_of(&w.sent[0].1).unwrap().operation, REPLY);
    assert_eq!(w.slow.neighbors().count(), 0);
}

// RFC 1812 3.3.2: packets wait for the answer, no error meanwhile.
#[test]
fn resolves_and_sends_what_waited() {
    let mut w = quiet();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    for len in 1..=3 {
        w.from(a, &udp4(a.v4, b.v4, len));
    }
    assert_eq!(w.take_requests(), [(RIGHT, IpAddr::V4(b.v4))]);
    assert_eq!(w.slow.queued(), 3);
    w.punt(RIGHT, &arp_frame(mac(RIGHT), &reply_to_router(b, b.mac)));
    let packets = w.take_packets();
    assert_eq!(
        packets.iter().map(|p| (p.0, p.1, p.2.len())).collect::<Vec<_>>(),
        [(RIGHT, b.mac, 21), (RIGHT, b.mac, 22), (RIGHT, b.mac, 23)]
    );
    assert_eq!(w.events, [Event::NeighborResolved { interface: RIGHT, address: b.v4.into(), mac: b.mac }]);
    assert_eq!(w.twin.len(), 1, "Linux hears the reply too");
    assert_eq!(w.count("icmp_errors_sent"), 0);
}

/// A reply that names another target address or MAC, or is a broadcast, is no answer to this router's question: the
/// sender is learned where it is wanted, but not confirmed.
#[test]
fn a_reply_to_another_station_confirms_nothing() {
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    let good = reply_to_router(b, b.mac);
    let other_address = Repr { target_ip: v4("10.0.2.9"), ..good };
    let other_mac = Repr { target_mac: host(RIGHT, 9).mac, ..good };
    let replies = [
        (mac(RIGHT), good, NeighborState::Reachable),
        (mac(RIGHT), other_address, NeighborState::Delay),
        (mac(RIGHT), other_mac, NeighborState::Delay),
        (MacAddr::BROADCAST, good, NeighborState::Delay),
    ];
    for (to, reply, expected) in replies {
        let mut w = quiet();
        w.from(a, &udp4(a.v4, b.v4, 1));
        w.punt(RIGHT, &framed(to, b.mac, 0x0806, &arp_frame(to, &reply)[14..]));
        let neighbor = w.neighbor(RIGHT, b.v4).unwrap();
        assert_eq!((neighbor.state, neighbor.mac), (expected, Some(b.mac)), "{reply:?} to {to}");
    }
}

#[test]
fn the_oldest_waiting_packet_makes_room() {
    let mut w = quiet();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    for len in 1..=10 {
        w.from(a, &udp4(a.v4, b.v4, len));
    }
    assert_eq!((w.slow.queued(), w.dropped("neighbor_queue_full")), (8, 2));
    w.punt(RIGHT, &arp_frame(mac(RIGHT), &reply_to_router(b, b.mac)));
    let lens: Vec<_> = w.take_packets().iter().map(|p| p.2.len() - 20).collect();
    assert_eq!(lens, [3, 4, 5, 6, 7, 8, 9, 10]);
}

// RFC 1812 5.2.7.1, RFC 1122 2.3.2.1: three requests, one per second, then host unreachable for all that waited, then
// quiet for a while.
#[test]
fn failure_is_told_and_remembered() {
    let mut w = World::new();
    let (a, nobody) = (host(LEFT, 2), v4("10.0.2.77"));
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request(a, v4("10.0.1.1"))));
    w.sent.clear();
    for _ in 0..2 {
        w.from(a, &udp4(a.v4, nobody, 10));
    }
    for second in 0..3 {
        assert_eq!(w.take_requests(), [(RIGHT, IpAddr::V4(nobody))], "second {second}");
        w.advance(999);
        w.silent();
        w.advance(1);
    }
    let errors = w.take_packets();
    assert_eq!(errors.len(), 2);
    assert!(errors.iter().all(|e| e.0 == LEFT && e.1 == a.mac && icmp4_of(&e.2).0 == 3 && icmp4_of(&e.2).1 == 1));
    // Held: answered at once, without a request.
    w.advance(100);
    w.from(a, &udp4(a.v4, nobody, 10));
    assert_eq!(icmp4_of(&w.take_packet().2).1, 1);
    w.advance(3000);
    w.sent.clear();
    w.from(a, &udp4(a.v4, nobody, 10));
    assert_eq!(w.take_requests(), [(RIGHT, IpAddr::V4(nobody))]);
}

// RFC 1812 3.3.2.
#[test]
fn group_and_zero_macs_are_refused() {
    let mut w = quiet();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    w.from(a, &udp4(a.v4, b.v4, 1));
    w.sent.clear();
    for bad in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 9]), MacAddr::ZERO] {
        let frame = framed(mac(RIGHT), b.mac, 0x0806, &arp_frame(mac(RIGHT), &reply_to_router(b, bad))[14..]);
        w.punt(RIGHT, &frame);
    }
    w.silent();
    assert_eq!(w.dropped("arp_sender_mac"), 3);
    assert_eq!(w.neighbor(RIGHT, b.v4).unwrap().mac, None);
}

#[test]
fn gratuitous_arp_changes_a_known_neighbor_and_adds_none() {
    let mut w = quiet();
    let a = host(LEFT, 2);
    let moved = MacAddr([2, 0xbb, 0, 0, 0, 1]);
    let gratuitous = |mac| Repr::request(mac, a.v4, a.v4);
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &gratuitous(a.mac)));
    assert_eq!(w.slow.neighbors().count(), 0);
    w.punt(LEFT, &arp_frame(mac(LEFT), &reply_to_router(a, a.mac)));
    w.events.clear();
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &gratuitous(moved)));
    assert_eq!(w.events, [Event::NeighborChanged { interface: LEFT, address: a.v4.into(), mac: moved }]);
    assert_ne!(w.neighbor(LEFT, a.v4).unwrap().state, NeighborState::Reachable, "unasked: not confirmed");
}

#[test]
fn senders_off_the_link_are_answered_but_not_learned() {
    let mut w = quiet();
    let stranger = Host { v4: v4("172.16.0.9"), ..host(LEFT, 2) };
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request(stranger, v4("10.0.1.1"))));
    assert_eq!(arp_of(&w.sent[0].1).unwrap().operation, REPLY);
    assert_eq!(w.slow.neighbors().count(), 0);
    for bad in ["127.0.0.1", "224.0.0.5", "10.0.1.255", "255.255.255.255", "240.0.0.1"] {
        w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request(Host { v4: v4(bad), ..stranger }, v4("10.0.1.1"))));
    }
    assert_eq!(w.dropped("arp_sender_address"), 5);
}

#[test]
fn another_user_of_our_address_is_a_conflict() {
    let mut w = quiet();
    let thief = Host { v4: v4("10.0.1.1"), ..host(LEFT, 9) };
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request(thief, v4("10.0.1.1"))));
    assert_eq!(w.events, [Event::AddressConflict { interface: LEFT, address: thief.v4.into(), mac: thief.mac }]);
    assert!(w.sent.is_empty() && w.slow.neighbors().count() == 0);
    for _ in 0..1000 {
        w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request(thief, v4("10.0.1.1"))));
    }
    assert!(w.events.len() <= 10 && w.count("address_conflicts") == 1001);
    // Our own frame, looped back, is none.
    let before = w.count("address_conflicts");
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &Repr::request(mac(LEFT), v4("10.0.1.1"), v4("10.0.1.1"))));
    assert_eq!(w.count("address_conflicts"), before);
}

#[test]
fn malformed_arp_is_dropped_under_its_reason() {
    let mut w = quiet();
    let good = arp_frame(MacAddr::BROADCAST, &request(host(LEFT, 2), v4("10.0.1.1")));
    w.punt(LEFT, &good[..41]);
    for at in [14, 16, 18, 19, 20] {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        w.punt(LEFT, &bad);
    }
    w.silent();
    assert_eq!(w.dropped("arp_malformed"), 6);
}

// RFC 1122 2.3.2.1: a neighbor is confirmed again by unicast before its MAC is dropped.
#[test]
fn refreshes_by_unicast_and_drops_who_does_not_answer() {
    let mut w = World::new();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    w.from(a, &udp4(a.v4, b.v4, 1));
    assert_eq!(w.neighbor(RIGHT, b.v4).unwrap().state, NeighborState::Reachable);
    w.sent.clear();
    w.events.clear();
    w.advance(30_000 + 5_000);
    let (interface, probe) = &w.sent[0];
    assert_eq!((*interface, Ethernet::new(&probe[..]).unwrap().destination()), (RIGHT, b.mac));
    assert_eq!(w.neighbor(RIGHT, b.v4).unwrap().state, NeighborState::Reachable);
    assert!(w.events.is_empty(), "refreshed without a gap");
    w.hosts.clear();
    w.sent.clear();
    w.advance(30_000 + 5_000 + 2_999);
    assert_eq!(w.take_requests(), [(RIGHT, IpAddr::V4(b.v4)); 3]);
    assert!(w.events.is_empty());
    w.advance(1);
    assert_eq!(w.events, [Event::NeighborLost { interface: RIGHT, address: b.v4.into() }]);
    assert_eq!(w.neighbor(RIGHT, b.v4), None);
}

#[test]
fn unused_neighbors_expire_and_used_ones_stay() {
    let config = Config { unused_refreshes: 0, ..Config::default() };
    let mut w = World::with(config);
    let (used, unused) = (host(RIGHT, 3), host(RIGHT, 4));
    for b in [used, unused] {
        w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, b.v4, 1));
    }
    w.events.clear();
    for _ in 0..60 {
        w.input(Input::NeighborUsed { interface: RIGHT, address: used.v4.into() });
        w.advance(5000);
    }
    assert_eq!(w.events, [Event::NeighborLost { interface: RIGHT, address: unused.v4.into() }]);
    assert!(w.neighbor(RIGHT, used.v4).unwrap().mac.is_some());
}

#[test]
fn a_hint_while_reachable_saves_the_next_refresh() {
    let mut w = World::with(Config { unused_refreshes: 1, ..Config::default() });
    let (hinted, other) = (host(RIGHT, 3), host(RIGHT, 4));
    for b in [hinted, other] {
        w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, b.v4, 1));
    }
    w.advance(35_000);
    w.input(Input::NeighborUsed { interface: RIGHT, address: hinted.v4.into() });
    w.advance(30_000);
    let state = |b: Host| w.neighbor(RIGHT, b.v4).unwrap().state;
    assert_eq!((state(hinted), state(other)), (NeighborState::Delay, NeighborState::Stale));
}

#[test]
fn gateways_are_resolved_ahead_kept_and_retried() {
    let mut w = World::new();
    let gateway = IpAddr::V4(v4("10.0.2.254"));
    w.input(Input::Resolve { interface: RIGHT, gateway });
    assert_eq!(w.events, [Event::NeighborResolved { interface: RIGHT, address: gateway, mac: host(RIGHT, 254).mac }]);
    w.advance(3_600_000);
    assert_eq!(w.events.len(), 1, "an hour without traffic does not lose it");
    let mac = w.hosts.remove(&(RIGHT, gateway)).unwrap();
    w.advance(120_000);
    assert_eq!(w.events[1..], [Event::NeighborLost { interface: RIGHT, address: gateway }]);
    w.hosts.insert((RIGHT, gateway), mac);
    w.advance(10_000);
    assert_eq!(w.events[2..], [Event::NeighborResolved { interface: RIGHT, address: gateway, mac }]);
    w.input(Input::Forget { interface: RIGHT, gateway });
    w.hosts.clear();
    w.advance(120_000);
    assert_eq!((w.events.len(), w.neighbor(RIGHT, gateway)), (4, None));
}

#[test]
fn static_neighbors_are_never_asked_for_or_learned_over() {
    let mut w = quiet();
    let b = host(RIGHT, 3);
    let fixed = MacAddr([2, 0xcc, 0, 0, 0, 1]);
    w.input(Input::SetNeighbor { interface: RIGHT, address: b.v4.into(), mac: fixed });
    assert_eq!(w.events, [Event::NeighborResolved { interface: RIGHT, address: b.v4.into(), mac: fixed }]);
    w.punt(RIGHT, &arp_frame(mac(RIGHT), &reply_to_router(b, b.mac)));
    w.advance(3_600_000);
    w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, b.v4, 1));
    assert_eq!(w.take_packet().1, fixed);
    assert_eq!(
        (w.count("static_neighbor_kept"), w.count("solicitations_sent")),
        (1, 4),
        "4: the detection at the start"
    );
    w.input(Input::UnsetNeighbor { interface: RIGHT, address: b.v4.into() });
    assert_eq!(w.events[1..], [Event::NeighborLost { interface: RIGHT, address: b.v4.into() }]);
    w.input(Input::SetNeighbor { interface: RIGHT, address: b.v4.into(), mac: MacAddr::BROADCAST });
    assert_eq!(w.neighbor(RIGHT, b.v4), None);
}

/// An operator's `ip neigh replace` did not hold: what the router had found before stayed.
#[test]
fn what_an_operator_says_replaces_what_was_found() {
    let mut w = quiet();
    let b = host(RIGHT, 3);
    w.hosts.insert((RIGHT, b.v4.into()), b.mac);
    w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, b.v4, 1));
    assert_eq!(w.take_packet().1, b.mac);
    let other = |last| MacAddr([2, 0xcc, 0, 0, 0, last]);
    let learn = |mac, replace, confirmed| Input::LearnNeighbor {
        interface: RIGHT,
        address: b.v4.into(),
        mac,
        replace,
        confirmed,
    };
    w.input(learn(other(1), false, false));
    assert_eq!(w.neighbor(RIGHT, b.v4).and_then(|n| n.mac), Some(b.mac), "Linux alone has found another one");
    for (mac, confirmed, state) in [(other(2), true, NeighborState::Reachable), (other(3), false, NeighborState::Delay)]
    {
        w.input(learn(mac, true, confirmed));
        w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, b.v4, 1));
        assert_eq!(w.take_packet().1, mac);
        assert_eq!(w.neighbor(RIGHT, b.v4).map(|n| n.state), Some(state));
    }
    // It ages as any other: the station does not answer there, and is found where it is.
    w.advance(60_000);
    w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, b.v4, 1));
    assert_eq!(w.neighbor(RIGHT, b.v4).and_then(|n| n.mac), Some(b.mac));
    w.input(learn(MacAddr::BROADCAST, true, true));
    assert_eq!(w.neighbor(RIGHT, b.v4).and_then(|n| n.mac), Some(b.mac), "no station has that");
    // A configured one stays.
    w.input(Input::SetNeighbor { interface: RIGHT, address: b.v4.into(), mac: other(4) });
    w.input(learn(other(5), true, true));
    assert_eq!(w.neighbor(RIGHT, b.v4).and_then(|n| n.mac), Some(other(4)));
}

#[test]
fn link_down_loses_neighbors_and_link_up_brings_back_the_needed_ones() {
    let mut w = World::new();
    let gateway = IpAddr::V4(v4("10.0.2.254"));
    let fixed = MacAddr([2, 0xcc, 0, 0, 0, 1]);
    w.input(Input::Resolve { interface: RIGHT, gateway });
    w.input(Input::SetNeighbor { interface: RIGHT, address: v4("10.0.2.9").into(), mac: fixed });
    w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, host(RIGHT, 3).v4, 1));
    w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, v4("10.0.2.99"), 1));
    w.events.clear();
    w.set(RIGHT, Interface { up: false, ..interface(RIGHT) });
    let lost = |e: &Event| matches!(e, Event::NeighborLost { interface: RIGHT, .. });
    assert_eq!((w.events.iter().filter(|e| lost(e)).count(), w.slow.queued()), (3, 0));
    w.events.clear();
    w.sent.clear();
    w.twin.clear();
    w.advance(60_000);
    w.silent();
    w.set(RIGHT, interface(RIGHT));
    let resolved: Vec<_> = w.events.iter().filter(|e| matches!(e, Event::NeighborResolved { .. })).collect();
    assert_eq!(resolved.len(), 2, "the static one and the gateway: {resolved:?}");
    w.input(Input::RemoveInterface { id: RIGHT });
    assert_eq!(w.slow.neighbors().filter(|n| n.interface == RIGHT).count(), 0);
    assert_eq!(w.events.iter().filter(|e| lost(e)).count(), 2);
}

#[test]
fn flushed_neighbors_are_forgotten_and_needed_ones_asked_for_again() {
    let mut w = World::new();
    let gateway = IpAddr::V4(v4("10.0.2.254"));
    let (fixed, b, c) = (MacAddr([2, 0xcc, 0, 0, 0, 1]), host(RIGHT, 3), host(RIGHT, 4));
    w.input(Input::Resolve { interface: RIGHT, gateway });
    w.input(Input::SetNeighbor { interface: RIGHT, address: v4("10.0.2.9").into(), mac: fixed });
    let known = |w: &mut World| {
        for to in [b, c] {
            w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, to.v4, 1));
        }
        w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request(host(LEFT, 2), v4("10.0.1.1"))));
        w.events.clear();
        w.sent.clear();
    };
    known(&mut w);
    let flush = |interface, address| Input::FlushNeighbors { interface, address };
    w.input(flush(Some(RIGHT), Some(b.v4.into())));
    assert_eq!(w.events, [Event::NeighborLost { interface: RIGHT, address: b.v4.into() }]);
    assert!(w.neighbor(RIGHT, b.v4).is_none() && w.neighbor(RIGHT, c.v4).is_some());
    w.input(flush(Some(LEFT), Some(c.v4.into())));
    assert_eq!((w.events.len(), w.count("neighbors_flushed")), (1, 1), "on the other link there is none");
    // All of a link: the gateway is lost and found, the static one stays.
    known(&mut w);
    w.input(flush(Some(RIGHT), None));
    assert_eq!(w.take_requests(), [(RIGHT, gateway)]);
    assert_eq!(w.neighbor(RIGHT, gateway).and_then(|n| n.mac), Some(host(RIGHT, 254).mac));
    assert_eq!(w.neighbor(RIGHT, v4("10.0.2.9")).and_then(|n| n.mac), Some(fixed));
    assert!(w.neighbor(RIGHT, b.v4).is_none() && w.neighbor(LEFT, host(LEFT, 2).v4).is_some());
    // All there are, one that is being asked for among them.
    w.from(host(LEFT, 2), &udp4(host(LEFT, 2).v4, v4("10.0.2.77"), 1));
    w.input(flush(None, None));
    assert_eq!((w.slow.neighbors().count(), w.slow.queued(), w.dropped("neighbor_forgotten")), (2, 0, 1));
}

#[test]
fn announces_its_addresses_when_the_link_comes_up() {
    let mut w = World::bare(Config::default());
    w.set(LEFT, interface(LEFT));
    let announced = w.sent.iter().find_map(|(_, frame)| arp_of(frame)).unwrap();
    assert_eq!(
        (announced.operation, announced.sender_ip, announced.target_ip),
        (REQUEST, v4("10.0.1.1"), v4("10.0.1.1"))
    );
}
