// SPDX-License-Identifier: MIT
//! What an attacker cannot fill (RFC 6583), and the rate of everything that answers.

use crate::world::*;
use perigee_net::MacAddr;
use perigee_packet::wire::arp;
use perigee_packet::wire::arp::Repr;
use perigee_slowpath::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

// RFC 6583.
#[test]
fn a_scan_fills_neither_table_nor_queue_and_spares_the_known() {
    let config = Config { max_unresolved: 50, queue_total: 100, ..Config::default() };
    let mut w = World::with(config);
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    w.from(a, &udp6(a.v6, b.v6, 1));
    for n in 0..5000u16 {
        let nobody = v6(&format!("2001:db8:2::{:x}", 0x1000 + n));
        w.from(a, &udp6(a.v6, nobody, 1));
    }
    let incomplete = w.slow.neighbors().filter(|n| n.state == NeighborState::Incomplete).count();
    assert_eq!((incomplete, w.slow.queued()), (50, 50));
    // Half of the rate and some more at once; of those that were asked for the latest are there.
    let (limited, displaced) = (w.dropped("neighbor_limited"), w.count("neighbors_displaced_unresolved"));
    assert_eq!((limited + displaced, w.dropped("neighbor_forgotten")), (4950, displaced));
    assert!((400..600).contains(&displaced), "{displaced}");
    w.sent.clear();
    w.from(a, &udp6(a.v6, b.v6, 1));
    assert_eq!(w.take_packet().1, b.mac);
    // A gateway is still resolved, and a host that speaks first is learned.
    w.input(Input::Resolve { interface: RIGHT, gateway: v6("fe80::254").into() });
    assert!(w.neighbor(RIGHT, v6("fe80::254")).unwrap().mac.is_some());
    // And later there is room again.
    w.advance(10_000);
    assert_eq!(w.slow.queued(), 0);
    let late = v6("2001:db8:2::4");
    w.sent.clear();
    w.from(a, &udp6(a.v6, late, 1));
    assert_eq!(w.take_packets().last().unwrap().1, host(RIGHT, 4).mac);
}

// Found by the fuzzer: gateways are not counted among the unresolved until they are forgotten.
#[test]
fn forgotten_gateways_are_no_way_around_the_limit() {
    let mut w = World::with(Config { max_unresolved: 2, ..Config::default() });
    let gateway = |n: u8| IpAddr::V4(Ipv4Addr::new(10, 0, 2, n));
    (100..105).for_each(|n| w.input(Input::Resolve { interface: RIGHT, gateway: gateway(n) }));
    let a = host(LEFT, 2);
    w.from(a, &udp4(a.v4, Ipv4Addr::new(10, 0, 2, 104), 1));
    assert_eq!(w.slow.queued(), 1);
    (100..105).for_each(|n| w.input(Input::Forget { interface: RIGHT, gateway: gateway(n) }));
    let incomplete = w.slow.neighbors().filter(|n| n.state == NeighborState::Incomplete).count();
    assert_eq!((incomplete, w.slow.neighbors().count()), (2, 2));
    // The packet was judged again, and its neighbor made the oldest one go.
    assert_eq!((w.slow.queued(), w.neighbor(RIGHT, gateway(104)).map(|n| n.queued)), (1, Some(1)));
    assert_eq!(w.count("neighbors_displaced_unresolved"), 4);
}

#[test]
fn forged_senders_fill_the_table_up_to_its_limit() {
    let mut w = World::with(Config { max_known: 20, ..Config::default() });
    for n in 10..250 {
        let liar = Host { mac: MacAddr([2, 0xee, 0, 0, 0, n]), ..host(LEFT, n) };
        w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &Repr::request(liar.mac, liar.v4, v4("10.0.1.1"))));
    }
    assert_eq!(w.slow.neighbors().count(), 20);
    assert_eq!(w.count("neighbors_displaced"), 220, "the latest are there");
    w.advance(60_000);
    assert_eq!(w.slow.neighbors().count(), 0, "none of them answered the probes");
}

#[test]
fn waiting_packets_are_bounded_over_all_neighbors() {
    let mut w = World::with(Config { queue_total: 20, ..Config::default() });
    let a = host(LEFT, 2);
    for n in 100..120 {
        for len in 0..4 {
            w.from(a, &udp4(a.v4, Ipv4Addr::new(10, 0, 2, n), len));
        }
    }
    assert_eq!(w.slow.queued(), 20);
    assert_eq!(w.dropped("neighbor_queue_full"), 60);
    w.advance(3000);
    assert_eq!(w.slow.queued(), 0);
}

// A reply of 65,535 bytes waits as one packet, and takes the memory of many.
#[test]
fn bytes_of_waiting_packets_are_bounded_too() {
    let mut w = World::with(Config { queue_bytes: 100_000, ..Config::default() });
    let silent = host(LEFT, 77);
    let ask = |w: &mut World, len: usize, id| {
        let mut request = ping4(silent.v4, v4("10.0.1.1"), &vec![0; len]);
        request[4..6].copy_from_slice(&[0, id]);
        let request = edit4(request, |_| {});
        if len > 1400 { cut4(&request, 1480) } else { vec![request] }.iter().for_each(|piece| w.from(silent, piece));
    };
    (0..4).for_each(|id| ask(&mut w, 1000, id));
    ask(&mut w, 60_000, 9);
    assert_eq!((w.slow.queued(), w.dropped("neighbor_queue_full")), (5, 0));
    // There is room for the second one only where the first one and all before it were.
    ask(&mut w, 60_000, 10);
    assert_eq!((w.slow.queued(), w.dropped("neighbor_queue_full")), (1, 5));
    w.advance(10_000);
    assert_eq!((w.slow.queued(), w.dropped("neighbor_failed")), (0, 1));
    ask(&mut w, 60_000, 11);
    assert_eq!(w.slow.queued(), 1, "what has gone takes no bytes any more");
}

#[test]
fn outputs_are_bounded_but_events_are_not_lost() {
    let mut slow = SlowPath::new(Config { max_outputs: 10, dad_transmits: 0, ..Config::default() });
    let table = World::bare(Config::default()).table;
    slow.handle(Time(0), Input::SetInterface { id: LEFT, interface: interface(LEFT) }, &table);
    for n in 2..102 {
        let asker = host(LEFT, n);
        let frame = arp_frame(MacAddr::BROADCAST, &Repr::request(asker.mac, asker.v4, v4("10.0.1.1")));
        slow.handle(Time(0), Input::Punted { interface: LEFT, frame: &frame }, &table);
    }
    let (mut frames, mut resolved) = (0, 0);
    while let Some(output) = slow.poll_output() {
        match output {
            Output::Event(Event::NeighborResolved { .. }) => resolved += 1,
            Output::Event(_) => {}
            _ => frames += 1,
        }
    }
    assert_eq!((frames, resolved), (10, 100));
    // Room again once drained.
    let frame = arp_frame(MacAddr::BROADCAST, &Repr::request(host(LEFT, 2).mac, host(LEFT, 2).v4, v4("10.0.1.1")));
    slow.handle(Time(0), Input::Punted { interface: LEFT, frame: &frame }, &table);
    assert!(matches!(slow.poll_output(), Some(Output::Transmit { .. })));
}

// RFC 1122 2.3.2.1: however packets come and answers fail, a destination is asked at most once a second.
#[test]
fn one_request_per_second_and_destination() {
    let mut w = World::new();
    w.hosts.retain(|(_, address), _| *address == IpAddr::V4(host(RIGHT, 3).v4));
    let a = host(LEFT, 2);
    let mut last: BTreeMap<Ipv4Addr, Time> = BTreeMap::new();
    for step in 0..60_000u64 {
        w.advance(7);
        // At times the one that answers falls silent, comes back, or announces its address unasked.
        match step % 9000 {
            3000 => w.hosts.clear(),
            6000 => {
                w.hosts.insert((RIGHT, host(RIGHT, 3).v4.into()), host(RIGHT, 3).mac);
                let b = host(RIGHT, 3);
                w.punt(RIGHT, &arp_frame(MacAddr::BROADCAST, &Repr::request(b.mac, b.v4, b.v4)));
            }
            _ => {}
        }
        w.from(a, &udp4(a.v4, Ipv4Addr::new(10, 0, 2, [3, 77][step as usize % 2]), 1));
        for (_, frame) in std::mem::take(&mut w.sent) {
            let Some(arp) = arp_of(&frame).filter(|arp| arp.operation == arp::REQUEST) else { continue };
            if let Some(before) = last.insert(arp.target_ip, w.now) {
                // The clock stands at the end of the 7 ms step in which the request was made.
                assert!(w.now >= before.after_millis(993), "{} at {:?} and {:?}", arp.target_ip, before, w.now);
            }
        }
    }
    assert!(w.count("solicitations_sent") > 100 && w.count("neighbors_failed") > 10);
}

// RFC 1812 4.3.2.8, RFC 4443 2.4(f).
#[test]
fn errors_are_limited_to_burst_and_rate() {
    let config = Config { icmp_errors_per_second: 10, icmp_error_burst: 5, ..Config::default() };
    let mut w = World::with(config);
    let a = host(LEFT, 2);
    let count = |w: &mut World| {
        for _ in 0..100 {
            w.from(a, &udp4(a.v4, v4("198.18.0.1"), 1));
            w.from(a, &udp6(a.v6, v6("2001:db8:ffff::1"), 1));
        }
        let packets = w.take_packets();
        let four = packets.iter().filter(|p| p.2[0] >> 4 == 4).count();
        (four, packets.len() - four)
    };
    assert_eq!(count(&mut w), (5, 5));
    w.advance(300);
    assert_eq!(count(&mut w), (3, 3));
    assert_eq!(w.count("icmp_errors_limited") + w.count("icmp_errors_limited_source"), 2 * 192);
    let mut off = World::with(Config { icmp_errors_per_second: 0, ..Config::default() });
    assert_eq!(count(&mut off), (0, 0));
}

// A sender that causes many errors uses up its own share only, not that of others on its link or on another one.
#[test]
fn errors_are_limited_by_interface_and_by_source() {
    let config =
        Config { icmp_errors_per_second: 20, icmp_errors_per_source: 5, icmp_error_burst: 20, ..Config::default() };
    let mut w = World::with(config);
    let errors = |w: &mut World, link, source: Ipv4Addr, n: usize| {
        (0..n).for_each(|n| w.from(host(link, 2), &udp4(source, v4("198.18.0.1"), n)));
        w.take_packets().len()
    };
    let (left, right) = (host(LEFT, 2).v4, host(RIGHT, 2).v4);
    // A neighbor each, so that errors need not wait for ARP.
    assert_eq!((errors(&mut w, LEFT, left, 1), errors(&mut w, RIGHT, right, 1)), (1, 1));
    w.advance(60_000);
    assert_eq!(errors(&mut w, LEFT, left, 100), 20, "the burst");
    assert_eq!(w.count("icmp_errors_limited_source"), 80);
    w.advance(1_000);
    assert_eq!(errors(&mut w, LEFT, left, 100), 5, "the source's rate");
    assert_eq!(errors(&mut w, RIGHT, right, 3), 3);
    assert_eq!(w.count("icmp_errors_limited"), 0);
}
