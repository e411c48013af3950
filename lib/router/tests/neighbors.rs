// SPDX-License-Identifier: MIT
//! Neighbors in a whole router on heap packets: floods leave nothing behind in the workers' tables, and operators can
//! have neighbors forgotten.

mod common;

use common::*;
use perigee_api::queries::{
    Audit, FlushNeighbors, ShowFib, ShowNeighborUsage, ShowNeighbors, ShowNextHops, ShowRoutes,
};
use perigee_net::{MacAddr, solicited_node};
use perigee_packet::wire::{arp, ethernet, icmp6, ipv6, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Two ports with room for many neighbors, and no limit before the slow path that would spare them the flood.
const WIDE: &str = r#"
[policer]
discovery = 1000000
discovery_burst = 100000
[router]
cores = [0]
max_neighbors = 4096
max_unresolved = 256
[port.a]
device = "heap0"
twin = false
addresses = ["10.0.0.1/16", "2001:db8:1::1/64"]
[port.b]
device = "heap1"
twin = false
addresses = ["10.2.0.1/16", "2001:db8:2::1/64"]
"#;

const OURS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);

fn station(n: u32) -> MacAddr {
    MacAddr([2, 0xee, 0, (n >> 16) as u8, (n >> 8) as u8, n as u8])
}

fn asker6(n: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(OURS.to_bits() & !0xffff | u128::from(0x1_0000 + n))
}

fn asker4(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0100 + n)
}

/// A station's neighbor solicitation for the router.
fn solicitation(n: u32) -> Vec<u8> {
    let group = solicited_node(OURS);
    let mut frame = vec![0; 14 + 40 + 32];
    ethernet::emit(&mut frame, MacAddr::from_ipv6_multicast(group), station(n), ethernet::ethertype::IPV6).unwrap();
    let header = ipv6::Repr { hop_limit: 255, ..ipv6::Repr::new(asker6(n), group, protocol::ICMPV6, 32) };
    header.emit(&mut frame[14..]).unwrap();
    icmp6::emit_solicitation(&mut frame[54..], OURS, Some(station(n)), &asker6(n), &group).unwrap();
    frame
}

/// Its ARP request.
fn request(n: u32) -> Vec<u8> {
    let mut frame = vec![0; 14 + arp::LEN];
    ethernet::emit(&mut frame, MacAddr::BROADCAST, station(n), ethernet::ethertype::ARP).unwrap();
    arp::Repr::request(station(n), asker4(n), Ipv4Addr::new(10, 0, 0, 1)).emit(&mut frame[14..]).unwrap();
    frame
}

/// Prefixes and next hops of both families.
fn sizes(bed: &mut Bed) -> (u64, usize) {
    let fib = ask(bed, ShowFib {}).unwrap();
    (fib.iter().map(|family| family.prefixes).sum(), ask(bed, ShowNextHops {}).unwrap().len())
}

/// 2,000 forged solicitations, and as many ARP requests, left 4,285 prefixes and 4,327 next hops for ever.
#[test]
fn ipv6_host_routes_do_not_leak() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(WIDE, &folder.path().join("router.toml"), ONE_EACH);
    bed.pass(3); // until its IPv6 addresses are valid
    bed.sent(0);
    let before = sizes(&mut bed);
    for n in 0..2000 {
        for frame in [solicitation(n), request(n)] {
            assert!(bed.receive[0][0].inject(&frame));
        }
        if n % 20 == 0 {
            bed.settle();
            bed.sent(0);
        }
    }
    bed.settle();
    let during = sizes(&mut bed);
    assert_eq!(during.0, before.0, "neighbors take no prefixes");
    // The first 256 of each family are told to the tables at once, the others when a packet needs them.
    assert_eq!(during.1, before.1 + 2 * 256);
    assert_eq!(ask(&mut bed, ShowNeighbors {}).unwrap().len(), 4000);
    let report = ask(&mut bed, Audit { repair: false }).unwrap();
    assert_eq!((report.total, report.neighbors), (0, 2 * 256));
    // One of the others is needed.
    let mut packet = udp(&asker4(1999).to_string(), 64, 7);
    packet[..6].copy_from_slice(&mac(1));
    assert!(bed.receive[1][0].inject(&packet));
    bed.settle();
    let sent = bed.sent(0).into_iter().filter(|frame| frame[..6] == station(1999).octets()).count();
    assert_eq!((sent > 0, sizes(&mut bed).1), (true, during.1 + 1));
    bed.pass(75);
    bed.sent(0);
    bed.settle();
    assert_eq!((sizes(&mut bed), ask(&mut bed, ShowNeighbors {}).unwrap().len()), (before, 0));
    assert_eq!(ask(&mut bed, Audit { repair: true }).unwrap().total, 0);
    assert_eq!(bed.end(), 0);
}

#[test]
fn neighbors_are_counted_against_their_limits_and_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{WIDE}{}", neighbors(&[("10.2.0.77", PEER_B)]));
    let mut bed = Bed::new(&text, &folder.path().join("router.toml"), ONE_EACH);
    bed.pass(3);
    for n in 0..3 {
        assert!(bed.receive[0][0].inject(&request(n)));
    }
    assert!(bed.receive[0][0].inject(&solicitation(9)));
    let mut packet = udp("10.2.0.9", 64, 7);
    packet[..6].copy_from_slice(&mac(0));
    assert!(bed.receive[0][0].inject(&packet));
    bed.settle();
    let usage = ask(&mut bed, ShowNeighborUsage {}).unwrap();
    let shown: Vec<_> = usage.iter().map(|u| (u.dev.as_str(), u.family.to_string(), u.known, u.unresolved)).collect();
    assert_eq!(shown, [("a", "IPv4".into(), 3, 0), ("a", "IPv6".into(), 1, 0), ("b", "IPv4".into(), 0, 1)]);
    assert!(usage.iter().all(|usage| (usage.known_limit, usage.unresolved_limit) == (4096, 256)));
    let mut flush = |dev: Option<&str>, address: Option<IpAddr>| {
        let done = ask(&mut bed, FlushNeighbors { dev: dev.map(str::to_owned), address });
        (done.map(|outcome| outcome.message), ask(&mut bed, ShowNeighbors {}).unwrap().len())
    };
    assert_eq!(flush(None, Some(asker4(0).into())), (Ok("1 neighbor forgotten".into()), 5));
    assert_eq!(flush(Some("b"), Some(asker4(1).into())).1, 5);
    assert!(flush(Some("c"), None).0.unwrap_err().contains("there is no interface `c`"));
    assert_eq!(flush(Some("a"), None), (Ok("3 neighbors forgotten".into()), 2));
    assert_eq!(flush(None, None), (Ok("1 neighbor forgotten".into()), 1), "the static one stays");
    assert_eq!(flush(None, None), (Ok("no such neighbor is known; static ones are not forgotten".into()), 1));
    let routes = ask(&mut bed, ShowRoutes { within: None, to: None, source: None, limit: None }).unwrap();
    assert!(routes.routes.iter().all(|route| route.prefix.addr() != IpAddr::V4(asker4(1))));
    assert_eq!(bed.end(), 0);
}
