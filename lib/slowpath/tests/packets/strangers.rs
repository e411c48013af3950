// SPDX-License-Identifier: MIT
//! Linux gets what it answers only from sources that have answered the router: its table of neighbors is the machine's,
//! and forged sources on a link would fill it.

use crate::world::*;
use perigee_net::{InterfaceId, MacAddr};
use perigee_packet::wire::{arp, icmp4, icmp6, ipv4, ipv6, protocol};
use perigee_slowpath::*;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const OWN4: &str = "10.0.1.1";
const OWN6: &str = "2001:db8:1::1";

/// A world whose left link has room for 65,000 hosts.
fn wide() -> World {
    wide_with(Config::default())
}

fn wide_with(config: Config) -> World {
    let mut w = World::with(Config { secret: 77, ..config });
    w.table.0.insert(0, (prefix("10.9.0.0/16"), RouteDecision::Connected(LEFT)));
    let mut interface = interface(LEFT);
    interface.addresses.push(prefix("10.9.0.1/16"));
    w.set(LEFT, interface);
    w.sent.clear();
    w.events.clear();
    w
}

fn stranger4(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a09_000a + n % 60_000)
}

fn stranger6(n: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db8_0001_0000 << 64 | u128::from(0x1_0000 + n))
}

/// The sources of what Linux got, each once.
fn heard_by_linux(w: &World) -> BTreeSet<IpAddr> {
    let source = |frame: &Vec<u8>| match frame[12..14] {
        [0x08, 0x00] => Some(IpAddr::from(*frame[26..30].first_chunk::<4>().unwrap())),
        [0x86, 0xdd] => Some(IpAddr::from(*frame[22..38].first_chunk::<16>().unwrap())),
        _ => None,
    };
    w.twin.iter().filter_map(|(_, frame)| source(frame)).collect()
}

/// What Linux answers, from one source of each family.
fn answered(four: Ipv4Addr, six: Ipv6Addr) -> Vec<Vec<u8>> {
    let tcp = ip4(ipv4::Repr::new(four, v4(OWN4), protocol::TCP, 0), &[], &[0; 20]);
    let mut timestamp = vec![13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    perigee_packet::Icmp4::new(&mut timestamp[..]).unwrap().fill_checksum();
    let timestamp = ip4(ipv4::Repr::new(four, v4(OWN4), protocol::ICMP, 0), &[], &timestamp);
    // To a group, with an option that says: report it.
    let options = [&[protocol::UDP, 0, 0x9e, 4, 0, 0, 0, 0][..], &[0; 8]].concat();
    let options = ip6(ipv6::Repr::new(six, v6("ff02::1"), protocol::DESTINATION_OPTIONS, 0), &options);
    vec![
        udp4(four, v4(OWN4), 8),
        tcp,
        timestamp,
        udp4(four, v4("10.77.0.1"), 8), // By a route that only Linux has.
        udp6(six, v6(OWN6), 8),
        udp6(six, v6("2001:db8:300::1"), 8),
        icmp6_packet(six, v6(OWN6), 255, 139, 0, &[0; 16]), // A node information query.
        options,
    ]
}

#[test]
fn a_forged_source_on_the_link_never_reaches_linux() {
    let mut w = wide();
    for (n, packet) in (0..).zip(answered(stranger4(7), stranger6(7))) {
        w.punt(LEFT, &ethernet(mac(LEFT), MacAddr([2, 0xdd, 0, 0, 0, n]), &packet));
    }
    let advertisement = icmp6_packet(v6("fe80::99"), v6("ff02::1"), 255, icmp6::ROUTER_ADVERTISEMENT, 0, &[0; 8]);
    let all = MacAddr::from_ipv6_multicast(v6("ff02::1"));
    w.punt(LEFT, &ethernet(all, MacAddr([2, 0xdd, 0, 0, 0, 99]), &advertisement));
    assert_eq!((w.twin.len(), w.slow.queued()), (0, 9), "{:?}", w.counters());
    let asked: BTreeSet<_> = w.take_requests().into_iter().collect();
    let expected = [stranger4(7).into(), stranger6(7).into(), v6("fe80::99").into()].map(|address| (LEFT, address));
    assert_eq!(asked, BTreeSet::from(expected));
    w.advance(5000);
    assert_eq!((w.twin.len(), w.slow.queued(), w.dropped("source_unresolved")), (0, 0, 9), "{:?}", w.counters());
    // While the failure is remembered, nothing waits.
    w.punt(LEFT, &ethernet(mac(LEFT), MacAddr([2, 0xdd, 0, 0, 0, 1]), &udp4(stranger4(7), v4(OWN4), 8)));
    assert_eq!((w.twin.len(), w.slow.queued(), w.dropped("source_unresolved")), (0, 0, 10));
}

/// Its first packets wait for its answer, and Linux gets all of them, after it was told of the neighbor.
#[test]
fn a_real_source_reaches_linux_with_its_first_packet() {
    for asks_first in [false, true] {
        let mut w = World::new();
        let a = host(LEFT, 3);
        if asks_first {
            w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &arp::Repr::request(a.mac, a.v4, v4(OWN4))));
            w.punt(LEFT, &ethernet(mac(LEFT), a.mac, &neighbor_solicitation(a.v6, v6(OWN6), v6(OWN6), Some(a.mac))));
        }
        for packet in answered(a.v4, a.v6) {
            w.from(a, &packet);
        }
        assert_eq!(heard_by_linux(&w), BTreeSet::from([a.v4.into(), a.v6.into()]));
        let packets = w.twin.iter().filter(|(_, frame)| frame[6..12] == a.mac.octets() && !is_answer(frame)).count();
        assert_eq!((packets, w.slow.queued()), (8, 0), "{:?}", w.counters());
        let resolved = |address: IpAddr| {
            w.events.iter().any(|event| matches!(event, Event::NeighborResolved { address: a, .. } if *a == address))
        };
        assert!(resolved(a.v4.into()) && resolved(a.v6.into()));
    }
}

/// ARP and neighbor advertisements, which Linux hears as well.
fn is_answer(frame: &[u8]) -> bool {
    frame[12..14] == [0x08, 0x06] || frame[12..14] == [0x86, 0xdd] && frame[20] == 58 && frame[54] == 136
}

/// Of nobody that Linux would have to ask for: beyond a gateway, to groups, errors, and answers.
#[test]
fn what_linux_does_not_ask_for_is_given_to_it_at_once() {
    let mut w = World::new();
    let (far4, far6, near4, near6) = (v4("198.51.100.7"), v6("2001:db8:100::7"), stranger4(1), stranger6(1));
    let station = MacAddr([2, 0xdd, 0, 0, 0, 1]);
    let groups = [
        ip4(ipv4::Repr::new(near4, v4("224.0.0.5"), 89, 0), &[], &[0; 24]),
        ip6(ipv6::Repr::new(v6("fe80::77"), v6("ff02::5"), 89, 0), &[0; 36]),
        icmp6_packet(v6("fe80::77"), v6("ff02::16"), 1, 143, 0, &[]),
    ];
    let mut error = vec![icmp4::TIME_EXCEEDED, 0, 0, 0, 0, 0, 0, 0];
    perigee_packet::Icmp4::new(&mut error[..]).unwrap().fill_checksum();
    let unicast = [
        udp4(far4, v4(OWN4), 8),
        udp6(far6, v6(OWN6), 8),
        ip4(ipv4::Repr::new(near4, v4(OWN4), protocol::ICMP, 0), &[], &error),
        icmp6_packet(near6, v6(OWN6), 255, icmp6::TIME_EXCEEDED, 0, &[0; 48]),
    ];
    for (to, packet) in
        [MacAddr([1, 0, 0x5e, 0, 0, 5]), MacAddr([0x33, 0x33, 0, 0, 0, 5]), MacAddr([0x33, 0x33, 0, 0, 0, 0x16])]
            .into_iter()
            .zip(&groups)
    {
        w.punt(LEFT, &ethernet(to, station, packet));
    }
    for packet in &unicast {
        w.punt(LEFT, &ethernet(mac(LEFT), station, packet));
    }
    assert_eq!((w.twin.len(), w.take_requests().len(), w.slow.queued()), (7, 0, 0), "{:?}", w.counters());
}

/// 20,000 forged sources a second for five seconds, from one station or from as many: Linux hears none of them, new
/// hosts within a second, and BGP from a known one always.
#[test]
fn a_flood_of_forged_sources_keeps_neither_new_hosts_nor_known_ones_from_linux() {
    for (is_v6, macs, asks_first) in
        [(false, false, false), (true, false, false), (false, true, true), (true, true, true)]
    {
        let mut w = wide();
        let (known, new) = (host(LEFT, 2), host(LEFT, 3));
        w.meet(known);
        let packet = |host: Host| if is_v6 { udp6(host.v6, v6(OWN6), 8) } else { udp4(host.v4, v4(OWN4), 8) };
        let mut took = None;
        for ms in 0..5000u32 {
            for n in ms * 20..ms * 20 + 20 {
                let station = if macs { n } else { 0 };
                let station = MacAddr([2, 0xdd, 0, (station >> 16) as u8, (station >> 8) as u8, station as u8]);
                let forged = if is_v6 { udp6(stranger6(n), v6(OWN6), 8) } else { udp4(stranger4(n), v4(OWN4), 8) };
                w.punt(LEFT, &ethernet(mac(LEFT), station, &forged));
            }
            if ms % 100 == 0 {
                w.twin.clear();
                w.from(known, &packet(known));
                assert_eq!(w.twin.len(), 1, "a known host after {ms} ms");
            }
            if ms >= 2000 && ms % 250 == 0 && took.is_none() {
                if asks_first && is_v6 {
                    let asks = neighbor_solicitation(new.v6, v6(OWN6), v6(OWN6), Some(new.mac));
                    w.punt(LEFT, &ethernet(mac(LEFT), new.mac, &asks));
                } else if asks_first {
                    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &arp::Repr::request(new.mac, new.v4, v4(OWN4))));
                }
                w.from(new, &packet(new));
                let there = if is_v6 { new.v6.into() } else { new.v4.into() };
                took = heard_by_linux(&w).contains(&there).then_some(ms - 2000);
            }
            let real = [known.v4.into(), known.v6.into(), new.v4.into(), new.v6.into()];
            let heard = heard_by_linux(&w);
            assert!(heard.iter().all(|address| real.contains(address)), "{heard:?}");
            w.advance(1);
            w.sent.clear();
            w.events.clear();
        }
        assert!(took.is_some_and(|ms| ms < 1000), "IPv6 {is_v6}, many stations {macs}: {took:?}, {:?}", w.counters());
        assert!(w.dropped("source_limited") > 50_000, "{:?}", w.counters());
        let usage = w.slow.neighbor_usage().find(|usage| usage.interface == LEFT && usage.is_v6 == is_v6).unwrap();
        assert!(usage.unresolved <= 1024 && w.slow.queued() <= 1024, "{usage:?}");
        assert!(w.count("solicitations_sent") < 12_000, "{:?}", w.counters());
    }
}

/// A source of one link's network that comes in on another: Linux would ask for it there.
#[test]
fn a_source_of_another_link_is_asked_for_there() {
    let mut w = World::new();
    let (absent, present) = (v4("10.0.2.77"), host(RIGHT, 3));
    let station = MacAddr([2, 0xdd, 0, 0, 0, 1]);
    w.punt(LEFT, &ethernet(mac(LEFT), station, &udp4(absent, v4(OWN4), 8)));
    w.punt(LEFT, &ethernet(mac(LEFT), station, &udp4(present.v4, v4(OWN4), 8)));
    assert_eq!(heard_by_linux(&w), BTreeSet::from([present.v4.into()]));
    let right: InterfaceId = RIGHT;
    let asked: BTreeSet<_> = w.take_requests().into_iter().collect();
    assert_eq!(asked, BTreeSet::from([(right, absent.into()), (right, present.v4.into())]));
}

/// Whoever told its address unasked and does not answer: the packet is not kept for ever, and Linux never hears of it.
#[test]
fn who_told_its_address_and_does_not_answer_is_not_linuxs() {
    let mut w = wide();
    let liar = MacAddr([2, 0xee, 0, 0, 0, 1]);
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &arp::Repr::request(liar, stranger4(1), v4("10.9.0.1"))));
    w.punt(LEFT, &ethernet(mac(LEFT), liar, &udp4(stranger4(1), v4(OWN4), 8)));
    assert_eq!((w.twin.len(), w.slow.queued()), (0, 1));
    w.advance(10_000);
    assert_eq!((w.twin.len(), w.slow.queued(), w.dropped("source_unresolved")), (0, 0, 1), "{:?}", w.counters());
    assert_eq!(w.neighbor(LEFT, stranger4(1)), None);
}

/// Configured neighbors need not answer, and Linux hears them as well if the link's neighbors are asked for no more.
#[test]
fn a_configured_source_need_not_answer() {
    let mut w = wide();
    let station = MacAddr([2, 0xdd, 0, 0, 0, 1]);
    w.input(Input::SetNeighbor { interface: LEFT, address: stranger4(1).into(), mac: station });
    w.punt(LEFT, &ethernet(mac(LEFT), station, &udp4(stranger4(1), v4(OWN4), 8)));
    assert_eq!(heard_by_linux(&w), BTreeSet::from([stranger4(1).into()]));
}

fn station_mac(n: u32) -> MacAddr {
    MacAddr([2, 0xdd, 0, 0, 0, n as u8])
}

/// A packet from a stranger to the router, which waits for it.
fn for_linux(w: &mut World, n: u32) {
    w.punt(LEFT, &ethernet(mac(LEFT), station_mac(n), &udp4(stranger4(n), v4(OWN4), 8)));
}

/// A packet from the right link to a stranger.
fn transit(w: &mut World, n: u32) {
    let b = host(RIGHT, 2);
    w.punt(RIGHT, &ethernet(mac(RIGHT), b.mac, &udp4(b.v4, stranger4(n), 8)));
}

fn narrow() -> World {
    wide_with(Config { queue_total: 8, ..Config::default() })
}

/// What waits for others counted against the half of the room that packets for Linux have: they were dropped with room
/// left.
#[test]
fn packets_for_linux_have_half_of_the_room_whatever_else_waits() {
    let mut w = narrow();
    (100..104).for_each(|n| transit(&mut w, n));
    assert_eq!(w.slow.queued(), 4);
    (1..5).for_each(|n| for_linux(&mut w, n));
    assert_eq!((w.slow.queued(), w.dropped("source_limited")), (8, 0));
    // Beyond that, those that have waited longest make room, and nothing else does.
    for_linux(&mut w, 5);
    assert_eq!((w.slow.queued(), w.dropped("source_limited"), w.dropped("neighbor_queue_full")), (8, 1, 0));
}

/// A packet to the neighbor whose packets for Linux made room for others went with them, and was counted as one of
/// these.
#[test]
fn a_packet_to_a_stranger_waits_on_when_its_packets_for_linux_make_room() {
    let mut w = narrow();
    for_linux(&mut w, 1);
    transit(&mut w, 1);
    (2..6).for_each(|n| for_linux(&mut w, n));
    assert_eq!((w.slow.queued(), w.dropped("source_limited")), (5, 1));
    w.sent.clear();
    let asked = arp::Repr::request(mac(LEFT), v4("10.9.0.1"), stranger4(1));
    w.punt(LEFT, &arp_frame(mac(LEFT), &asked.reply(station_mac(1))));
    let sent = w.sent.iter().filter(|(port, frame)| *port == LEFT && frame[0..6] == station_mac(1).octets());
    assert_eq!((sent.count(), w.slow.queued()), (1, 4));
}
