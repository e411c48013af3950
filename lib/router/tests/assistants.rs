// SPDX-License-Identifier: MIT
//! A slow path of several threads: every packet is answered once, by whichever thread its flow belongs to.

mod common;

use common::*;
use perigee_api::RouteChange;
use perigee_api::queries::{AddRoute, ShowDrops, ShowMulticast, ShowSlowPath};
use perigee_net::MacAddr;
use perigee_packet::wire::{arp, ethernet, icmp4};
use perigee_packet::{Arp, Ethernet, Icmp4, Ipv4};
use std::collections::BTreeMap;

/// Two ports, the second of which takes small packets only, three threads, these neighbors.
fn three_threads(known: &[(&str, MacAddr)], queues: Queues) -> OnDisk {
    with_groups(known, queues, "")
}

fn with_groups(known: &[(&str, MacAddr)], queues: Queues, groups: &str) -> OnDisk {
    let text = TWO_PORTS
        .replace("[router]\n", "[router]\nslow_paths = 3\nicmp_rate = 1000000000\n")
        .replace("device = \"heap1\"\n", "device = \"heap1\"\nmtu = 576\n");
    OnDisk::new(&(text + &neighbors(known) + groups), queues)
}

const BOTH: [(&str, MacAddr); 2] = [("10.0.1.2", PEER_A), ("10.0.2.2", PEER_B)];
/// A queue for each thread.
const FOUR: Queues = Queues { receive: 1, transmit: 4 };

/// How many errors there are about each source port.
fn errors(frames: &[Vec<u8>], code: (u8, u8)) -> BTreeMap<u16, usize> {
    let mut about = BTreeMap::new();
    for frame in frames {
        let frame = Ethernet::new(&frame[..]).unwrap();
        assert_eq!((frame.destination(), frame.source()), (PEER_A, MacAddr(mac(0))));
        let packet = Ipv4::new(frame.payload()).unwrap();
        assert!(packet.verify_checksum() && packet.source().octets() == [10, 0, 1, 1]);
        let error = Icmp4::new(packet.payload()).unwrap();
        assert!(error.verify_checksum());
        assert_eq!((error.kind(), error.code()), code);
        *about.entry(u16::from_be_bytes([packet.payload()[28], packet.payload()[29]])).or_default() += 1;
    }
    about
}

fn every_flow_once() -> BTreeMap<u16, usize> {
    (1000..1300).map(|port| (port, 1)).collect()
}

fn punt_all(bed: &mut Bed, destination: &str, ttl: u8) {
    for port in 1000..1300 {
        assert!(bed.receive[0][0].inject(&udp(destination, ttl, port)));
    }
    bed.settle();
}

#[test]
fn every_thread_answers_its_flows_and_each_flow_is_answered_once() {
    for queues in [FOUR, ONE_EACH, Queues { receive: 1, transmit: 1 }] {
        let mut router = three_threads(&BOTH, queues);
        let bed = &mut router.bed;
        punt_all(bed, "10.0.2.2", 1);
        if queues.transmit == FOUR.transmit {
            let sent = bed.transmit[0].iter().map(|queue| std::iter::from_fn(|| queue.collect()).collect::<Vec<_>>());
            let sent: Vec<Vec<Vec<u8>>> = sent.collect();
            let shares: Vec<usize> = sent.iter().map(Vec::len).collect();
            // The worker sends nothing; a third of 300 each, and five standard deviations of 8.
            assert!(shares[0] == 0 && shares[1..].iter().all(|share| (60..140).contains(share)), "{shares:?}");
            assert_eq!(errors(&sent.concat(), (icmp4::TIME_EXCEEDED, 0)), every_flow_once());
        } else {
            assert_eq!(errors(&bed.sent(0), (icmp4::TIME_EXCEEDED, 0)), every_flow_once());
            assert!(bed.notes.iter().any(|note| note.contains("3 threads of the slow path")), "{:?}", bed.notes);
        }
        let status = ask(bed, ShowSlowPath {}).unwrap();
        assert_eq!((status.threads, status.events["punted"], status.events["icmp_errors_sent"]), (3, 300, 300));
        let expired = |drop: &&perigee_api::answers::DropStatus| drop.module == "slowpath" && drop.packets > 0;
        let drops = ask(bed, ShowDrops {}).unwrap();
        let drops: Vec<_> = drops.iter().filter(expired).map(|drop| (&drop.reason[..], drop.packets)).collect();
        assert_eq!(drops, [("ttl_expired", 300)]);
        router.end();
    }
}

/// Packets of 1,000 bytes, which port b takes in two pieces each.
fn send_large(bed: &mut Bed, destination: &str) {
    for port in 1000..1300 {
        let mut frame = udp(destination, 64, port);
        frame.resize(14 + 1000, 7);
        let mut packet = Ipv4::new(&mut frame[14..]).unwrap();
        packet.set_total_len(1000);
        packet.fill_checksum();
        bed.receive[0][0].inject(&frame);
    }
    bed.settle();
}

#[test]
fn a_new_route_is_seen_by_all_threads_and_large_packets_are_cut_by_all() {
    let mut router = three_threads(&BOTH, FOUR);
    let bed = &mut router.bed;
    send_large(bed, "198.18.0.1");
    assert_eq!(errors(&bed.sent(0), (icmp4::UNREACHABLE, 0)), every_flow_once());
    let via = Some("10.0.2.2".parse().unwrap());
    ask(bed, AddRoute(RouteChange { via, ..RouteChange::of("198.18.0.0/15".parse().unwrap()) })).unwrap();
    send_large(bed, "198.18.0.1");
    let shares: Vec<usize> = bed.transmit[1][1..].iter().map(|q| std::iter::from_fn(|| q.collect()).count()).collect();
    assert!(shares.iter().sum::<usize>() == 600 && shares.iter().all(|share| *share > 100), "{shares:?}");
    assert!(bed.sent(0).is_empty());
    router.end();
}

#[test]
fn packets_to_groups_are_cut_and_sent_by_all_threads() {
    let mut router = with_groups(&BOTH, FOUR, "[[multicast]]\ngroup = '239.1.1.1'\nto = ['b']\n");
    let bed = &mut router.bed;
    send_large(bed, "239.1.1.1");
    let shares: Vec<usize> = bed.transmit[1][1..].iter().map(|q| std::iter::from_fn(|| q.collect()).count()).collect();
    assert!(shares.iter().sum::<usize>() == 600 && shares.iter().all(|share| *share > 100), "{shares:?}");
    let routes = ask(bed, ShowMulticast {}).unwrap();
    assert_eq!((routes[0].packets, bed.sent(0).len()), (300, 0));
    let status = ask(bed, ShowSlowPath {}).unwrap();
    assert_eq!((status.events["multicast_copies"], status.events["fragmented"]), (300, 300));
    router.end();
}

// Neighbors are the owner's: what waits for one is left to it, errors to one are given to it.
#[test]
fn what_waits_for_a_neighbor_is_the_owners() {
    let mut router = three_threads(&BOTH[1..], FOUR);
    let bed = &mut router.bed;
    for port in 1000..1008 {
        bed.receive[0][0].inject(&udp("10.0.2.2", 1, port));
        bed.receive[0][0].inject(&udp("10.0.2.7", 64, port));
    }
    bed.settle();
    for (side, peer) in [(0, PEER_A), (1, PEER_B)] {
        let asked = bed.sent(side);
        assert_eq!(asked.len(), 1, "one request for all: {asked:?}");
        let request = Arp::new(&asked[0][14..]).unwrap().repr();
        let mut frame = vec![0; 14 + arp::LEN];
        ethernet::emit(&mut frame, request.sender_mac, peer, ethernet::ethertype::ARP).unwrap();
        request.reply(peer).emit(&mut frame[14..]).unwrap();
        bed.receive[side][0].inject(&frame);
    }
    bed.settle();
    assert_eq!(errors(&bed.sent(0), (icmp4::TIME_EXCEEDED, 0)), (1000..1008).map(|port| (port, 1)).collect());
    assert_eq!(bed.sent(1).len(), 8);
    router.end();
}

/// The thread sleeps when a round had nothing to do.
#[test]
fn a_round_that_takes_what_assistants_have_left_has_had_something_to_do() {
    let mut router = three_threads(&BOTH[1..], FOUR);
    let bed = &mut router.bed;
    for port in 1000..1032 {
        bed.receive[0][0].inject(&udp("10.0.2.7", 64, port));
    }
    for (worker, burst) in bed.workers.iter_mut().zip(&mut bed.bursts) {
        (0..10).for_each(|_| perigee_worker::native::round(worker, burst));
    }
    // Its own flows, which have the neighbor asked for.
    while bed.slow.round() {}
    for assistant in &mut bed.assistants {
        assert!(assistant.round(), "it has flows of 32");
        assert!(bed.slow.round() && !bed.slow.round());
    }
    bed.sent(1);
    router.end();
}

#[test]
fn what_is_left_in_rings_is_freed_at_the_end() {
    let mut router = three_threads(&BOTH, FOUR);
    let bed = &mut router.bed;
    (1000..1300).for_each(|port| assert!(bed.receive[0][0].inject(&udp("10.0.2.2", 1, port))));
    for (worker, burst) in bed.workers.iter_mut().zip(&mut bed.bursts) {
        (0..20).for_each(|_| perigee_worker::native::round(worker, burst));
    }
    assert_eq!(bed.counters[0].punted.get(), 300);
    router.end();
}
