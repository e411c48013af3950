// SPDX-License-Identifier: MIT
//! Scans and forged senders at 20,000 packets a second: whoever else wants a neighbor gets it (RFC 6583), and what is
//! known stays.

use crate::world::*;
use perigee_net::{InterfaceAddress, InterfaceId, MacAddr, solicited_node};
use perigee_packet::wire::arp::Repr;
use perigee_slowpath::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const OTHER: InterfaceId = InterfaceId(3);
/// Packets of a flood per millisecond.
const PER_MS: u32 = 20;

/// Three links with a /16 and a /64 each; their hosts 2 to 5 answer.
fn world() -> World {
    let mut w = World::bare(Config { secret: 77, ..Config::default() });
    for id in [LEFT, RIGHT, OTHER] {
        let networks = [format!("10.{}.0.1/16", id.0), format!("2001:db8:{}::1/64", id.0)];
        let addresses: Vec<InterfaceAddress> = networks.iter().map(|network| prefix(network)).collect();
        for network in &addresses {
            w.table.0.insert(0, (*network, RouteDecision::Connected(id)));
        }
        w.set(id, perigee_net::Interface { addresses, ..interface(id) });
        for n in 2..=5 {
            w.hosts.insert((id, wide4(id, n).into()), MacAddr([2, 0xaa, 4, 0, id.0 as u8, n as u8]));
            w.hosts.insert((id, wide6(id, n).into()), MacAddr([2, 0xaa, 6, 0, id.0 as u8, n as u8]));
        }
    }
    w.advance(5000);
    w.sent.clear();
    w.events.clear();
    w
}

fn wide4(id: InterfaceId, n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 | u32::from(id.0) << 16 | n)
}

fn wide6(id: InterfaceId, n: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits((0x2001_0db8 << 32 | u128::from(id.0) << 16) << 64 | u128::from(n))
}

/// A packet between two hosts, of one family or the other.
fn packet(is_v6: bool, from: (InterfaceId, u32), to: (InterfaceId, u32)) -> Vec<u8> {
    match is_v6 {
        false => udp4(wide4(from.0, from.1), wide4(to.0, to.1), 8),
        true => udp6(wide6(from.0, from.1), wide6(to.0, to.1), 8),
    }
}

/// Receives a packet on a link from a station whose MAC says nothing.
fn receive(w: &mut World, on: InterfaceId, packet: &[u8]) {
    w.punt(on, &ethernet(mac(on), MacAddr([2, 0xdd, 0, 0, 0, on.0 as u8]), packet));
}

/// Runs for some milliseconds: in each there are [`PER_MS`] packets of a flood, numbered; at those of `at` something
/// else happens as well, and the first of them after which it was `done` is returned.
fn during(
    w: &mut World,
    milliseconds: u32,
    mut flood: impl FnMut(&mut World, u32),
    at: impl Fn(u32) -> bool,
    mut then: impl FnMut(&mut World),
    done: impl Fn(&World) -> bool,
) -> Option<u32> {
    for ms in 0..milliseconds {
        for n in 0..PER_MS {
            flood(w, ms * PER_MS + n);
        }
        if at(ms) {
            then(w);
        }
        w.advance(1);
        if done(w) {
            return Some(ms);
        }
        w.sent.clear();
        w.twin.clear();
        w.events.clear();
    }
    None
}

/// The packet to this host was sent.
fn arrived(w: &World, is_v6: bool, to: InterfaceId, n: u8) -> bool {
    let family = if is_v6 { 6 } else { 4 };
    let mac = [2, 0xaa, family, 0, to.0 as u8, n];
    let data = |frame: &[u8]| frame[12..14] != [0x08, 0x06] && !(is_v6 && frame[20] == 58);
    w.sent.iter().any(|(id, frame)| *id == to && frame[..6] == mac && data(frame))
}

/// Scans the network behind RIGHT for three seconds; after the first, a host on `from` sends to host 3 there once a
/// second, as a ping does. Returns how long that took.
fn scanned(is_v6: bool, spoofed: bool, from: InterfaceId) -> Option<u32> {
    let mut w = world();
    // Sources all over the link, or one; addresses that are not there, each once.
    let source = |n: u32| if spoofed { 1000 + n % 50_000 } else { 2 };
    let scan = |w: &mut World, n: u32| {
        receive(w, LEFT, &packet(is_v6, (LEFT, source(n)), (RIGHT, 6 + n % 65_000 + if is_v6 { n } else { 0 })));
    };
    let none = during(&mut w, 1000, scan, |_| false, |_| {}, |_| false);
    assert_eq!(none, None);
    let later = |w: &mut World, n: u32| scan(w, 20_000 + n);
    let ping = |w: &mut World| receive(w, from, &packet(is_v6, (from, 4), (RIGHT, 3)));
    let took = during(&mut w, 5000, later, |ms| ms.is_multiple_of(1000), ping, |w| arrived(w, is_v6, RIGHT, 3));
    // The limits held all the time, and something was refused.
    let requests = w.count("solicitations_sent");
    assert!(requests < 9000, "{requests} requests in {took:?} ms and a second");
    assert!(w.dropped("neighbor_limited") > 10_000);
    let usage = w.slow.neighbor_usage().find(|usage| usage.interface == RIGHT && usage.is_v6 == is_v6).unwrap();
    assert!(usage.unresolved <= 1024 && w.slow.queued() <= 1024, "{usage:?}");
    // Links that are not scanned know nothing of it.
    receive(&mut w, LEFT, &packet(is_v6, (LEFT, 2), (OTHER, 3)));
    assert!(arrived(&w, is_v6, OTHER, 3), "another link");
    receive(&mut w, LEFT, &packet(!is_v6, (LEFT, 2), (RIGHT, 3)));
    assert!(arrived(&w, !is_v6, RIGHT, 3), "the other family");
    took
}

#[test]
fn a_scan_keeps_no_new_host_out() {
    for is_v6 in [false, true] {
        for spoofed in [false, true] {
            let took = scanned(is_v6, spoofed, OTHER);
            assert_eq!(took, Some(0), "through another port, IPv6 {is_v6}, spoofed {spoofed}");
            let took = scanned(is_v6, spoofed, LEFT);
            assert!(
                took.is_some_and(|ms| ms <= 2000),
                "through the same one, IPv6 {is_v6}, spoofed {spoofed}: {took:?}"
            );
        }
        assert_eq!(scanned(is_v6, false, LEFT), Some(0), "one source takes nothing from another");
    }
}

/// Who has answered before is asked for at once, whatever else is wanted.
#[test]
fn an_address_that_answered_before_goes_first() {
    let mut w = world();
    receive(&mut w, LEFT, &packet(false, (LEFT, 4), (RIGHT, 3)));
    assert!(arrived(&w, false, RIGHT, 3));
    // It is gone after a while without use: ten refreshes unanswered would do as well.
    w.hosts.remove(&(RIGHT, wide4(RIGHT, 3).into()));
    w.advance(120_000);
    assert_eq!(w.neighbor(RIGHT, wide4(RIGHT, 3)), None);
    w.hosts.insert((RIGHT, wide4(RIGHT, 3).into()), MacAddr([2, 0xaa, 4, 0, RIGHT.0 as u8, 3]));
    // Each scanned address is tried twice, so that what is wanted again is used up, too.
    let scan = |w: &mut World, n: u32| {
        let to = 6 + (n / 10_000 * 5_000 + n % 5_000) % 60_000;
        receive(w, LEFT, &packet(false, (LEFT, 1000 + n % 50_000), (RIGHT, to)));
    };
    during(&mut w, 3000, scan, |_| false, |_| {}, |_| false);
    receive(&mut w, LEFT, &packet(false, (LEFT, 4), (RIGHT, 3)));
    assert!(arrived(&w, false, RIGHT, 3), "{:?}", w.counters());
}

/// 65,000 stations ask for the router, 20,000 times a second: on every port and of either family new hosts are found,
/// what is known stays, and nobody hears of stations that no packet is for.
#[test]
fn arp_from_everywhere_keeps_no_new_host_out_and_displaces_nobody_in_use() {
    let mut w = world();
    for (id, is_v6) in [(LEFT, false), (LEFT, true), (RIGHT, false)] {
        receive(&mut w, OTHER, &packet(is_v6, (OTHER, 2), (id, 5)));
        assert!(arrived(&w, is_v6, id, 5));
    }
    w.events.clear();
    let mut told = 0;
    let liar = |w: &mut World, n: u32| {
        let mac = MacAddr([2, 0xee, 0, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
        let request = Repr::request(mac, wide4(LEFT, 6 + n * 7 % 65_000), wide4(LEFT, 0x0001));
        w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request));
    };
    for second in 0..6 {
        let later = |w: &mut World, n: u32| liar(w, second * 20_000 + n);
        for ms in 0..1000 {
            (0..PER_MS).for_each(|n| later(&mut w, ms * PER_MS + n));
            w.advance(1);
            told += w.events.len();
            let lost = |event: &Event| match event {
                Event::NeighborLost { address, .. } => *address == IpAddr::V4(wide4(LEFT, 5)),
                _ => false,
            };
            assert!(!w.events.iter().any(lost), "displaced by a stranger");
            w.events.clear();
            w.sent.clear();
        }
        for (id, is_v6) in [(LEFT, false), (LEFT, true), (RIGHT, false), (RIGHT, true), (OTHER, false), (OTHER, true)] {
            let n = 2 + second % 3;
            receive(&mut w, LEFT, &packet(is_v6, (LEFT, 5), (id, n)));
            assert!(arrived(&w, is_v6, id, n as u8), "host {n} of {id:?}, IPv6 {is_v6}, {:?}", w.counters());
        }
    }
    let usage = w.slow.neighbor_usage().find(|usage| usage.interface == LEFT && !usage.is_v6).unwrap();
    assert!(usage.known <= 65_536 && usage.unconfirmed > 60_000, "{usage:?}");
    assert!(told < 20_000, "{told} events of {} stations", usage.unconfirmed);
    // A minute later they are gone, each of them within half a minute of its last word.
    w.advance(60_000);
    assert!(w.count("neighbor_probes_limited") > 50_000);
    let usage = w.slow.neighbor_usage().find(|usage| usage.interface == LEFT && !usage.is_v6).unwrap();
    assert!(usage.unconfirmed == 0 && usage.known <= 4, "{usage:?}");
}

/// Forged solicitations: all are answered, pings from a known host too, and a packet for a station that told its
/// address unasked is sent to it.
#[test]
fn spoofed_solicitations_stop_neither_pings_nor_known_traffic() {
    let mut w = World::bare(Config { secret: 5, max_known: 2000, ..Config::default() });
    w.set(LEFT, interface(LEFT));
    w.set(RIGHT, interface(RIGHT));
    w.advance(5000);
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    let ours = v6("2001:db8:1::1");
    w.from(a, &udp6(a.v6, b.v6, 1));
    w.from(a, &ping6(a.v6, ours, &[1; 8]));
    w.sent.clear();
    let forged = |n: u32| Ipv6Addr::from_bits(a.v6.to_bits() & !0xffff_ffff | u128::from(0x1_0000 + n));
    for n in 0..20_000u32 {
        let group = solicited_node(ours);
        let mac = MacAddr([2, 0xee, 0, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
        let packet = neighbor_solicitation(forged(n), group, ours, Some(mac));
        w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(group), mac, &packet));
        if n % 20 == 0 {
            w.advance(1);
        }
        if n % 1000 == 0 {
            w.sent.clear();
            w.from(a, &ping6(a.v6, ours, &[1; 8]));
            w.from(a, &udp6(a.v6, b.v6, 1));
            let sent = w.take_packets();
            assert_eq!(sent.len(), 2, "{:?}", w.counters());
            assert_eq!((sent[0].1, icmp6_of(&sent[0].2).0, sent[1].1), (a.mac, 129, b.mac));
        }
    }
    assert_eq!(w.count("solicitations_answered"), 20_000);
    // One of those that nobody heard of: the first packet tells.
    let quiet = w.slow.neighbors().find(|n| n.mac.is_some() && !n.reported).expect("quiet ones").address;
    w.events.clear();
    w.sent.clear();
    let IpAddr::V6(to) = quiet else { panic!("{quiet}") };
    w.from(b, &udp6(b.v6, to, 1));
    assert_eq!(w.take_packets().len(), 1);
    assert!(matches!(w.events[..], [Event::NeighborResolved { address, .. }] if address == quiet), "{:?}", w.events);
}

/// What is due at one time is done in turns.
#[test]
fn timers_are_carried_out_in_turns() {
    let mut w = world();
    for n in 0..3000 {
        let liar = MacAddr([2, 0xee, 0, 0, (n >> 8) as u8, n as u8]);
        let request = Repr::request(liar, wide4(LEFT, 6 + n), wide4(LEFT, 1));
        w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request));
    }
    let due = w.now.after_millis(5000);
    let mut turns = 0;
    while w.slow.next_timeout().is_some_and(|time| time <= due) {
        w.slow.handle_timeout(due, &w.table);
        while w.slow.poll_output().is_some() {}
        turns += 1;
    }
    assert_eq!(turns, 3);
}
