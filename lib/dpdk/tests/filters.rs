// SPDX-License-Identifier: MIT
//! Filter lists against a plain first-match loop, with random rules and packets; hardware filters on devices without
//! any.

mod common;

use common::*;
use perigee_dpdk::*;
use perigee_net::{FiveTuple, Key, Key4, Key6, PortRange, Prefix};
use perigee_packet::{Mask, Port};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn main() {
    common::run(&[
        ("acl_is_first_match", acl_is_first_match),
        ("acl_edges", acl_edges),
        ("acl_families_keep_their_order", acl_families_keep_their_order),
        ("no_hardware_filters", no_hardware_filters),
    ]);
}

/// A packet's five fields: addresses left-aligned in 128 bits.
struct Tuple {
    protocol: u8,
    source: u128,
    destination: u128,
    ports: (u16, u16),
}

/// Few distinct values, so that rules overlap and packets hit them.
fn address(rng: &mut StdRng) -> u128 {
    let mut bytes = [0; 16];
    bytes.fill_with(|| [0, 1, 10, 255][rng.random_range(0..4usize)]);
    u128::from_be_bytes(bytes)
}

fn ports(rng: &mut StdRng) -> Option<PortRange> {
    let (a, b) = (rng.random_range(0..2000), rng.random_range(0..2000));
    match rng.random_range(0..3) {
        0 => None,
        1 => Some(PortRange::only(a)),
        _ => PortRange::new(a.min(b), a.max(b)).ok(),
    }
}

fn rule(rng: &mut StdRng, of: fn(u128) -> IpAddr) -> (FiveTuple, Action) {
    let prefix = |rng: &mut StdRng| {
        let address = of(address(rng));
        let bits = if rng.random_bool(0.3) { 0 } else { rng.random_range(0..=Prefix::longest(address)) };
        Prefix::truncated(address, bits).ok()
    };
    let rule = FiveTuple {
        src: prefix(rng),
        dst: prefix(rng),
        proto: rng.random_bool(0.6).then(|| [1, 6, 17][rng.random_range(0..3usize)]),
        sport: ports(rng),
        dport: ports(rng),
    };
    (rule, if rng.random() { Action::Accept } else { Action::Drop })
}

/// A prefix's first address, left-aligned in 128 bits, and its length.
fn bits(prefix: Option<Prefix>) -> (u128, u8) {
    match prefix {
        None => (0, 0),
        Some(Prefix::V4(prefix)) => (u128::from(prefix.addr()) << 96, prefix.len()),
        Some(Prefix::V6(prefix)) => (prefix.addr(), prefix.len()),
    }
}

/// A packet at random, or one on the edge of a rule.
fn packet(rng: &mut StdRng, rules: &[(FiveTuple, Action)]) -> Tuple {
    let near = (!rules.is_empty() && rng.random_bool(0.7)).then(|| &rules[rng.random_range(0..rules.len())].0);
    let edge = |rng: &mut StdRng, range: Option<PortRange>| {
        let range = range.unwrap_or(PortRange::ALL);
        match rng.random_range(0..4) {
            0 => range.first(),
            1 => range.last(),
            2 => range.last().wrapping_add(1),
            _ => range.first().wrapping_sub(1),
        }
    };
    let flip = |rng: &mut StdRng| if rng.random_bool(0.3) { 1u128 << rng.random_range(0..128) } else { 0 };
    match near {
        None => Tuple {
            protocol: rng.random_range(0..20),
            source: address(rng),
            destination: address(rng),
            ports: (rng.random_range(0..2000), rng.random()),
        },
        Some(rule) => Tuple {
            protocol: rule.proto.unwrap_or(17),
            source: bits(rule.src).0 ^ flip(rng),
            destination: bits(rule.dst).0 ^ flip(rng),
            ports: (edge(rng, rule.sport), edge(rng, rule.dport)),
        },
    }
}

/// What the list means: the number of the first rule that matches, from 1, or 0.
fn first_match(rules: &[(FiveTuple, Action)], p: &Tuple) -> u32 {
    let under = |a: u128, prefix| {
        let (first, len) = bits(prefix);
        len == 0 || (a ^ first) >> (128 - u32::from(len)) == 0
    };
    let matches = |(r, _): &(FiveTuple, Action)| {
        r.proto.is_none_or(|protocol| protocol == p.protocol)
            && under(p.source, r.src)
            && under(p.destination, r.dst)
            && r.sport.is_none_or(|range| range.contains(p.ports.0))
            && r.dport.is_none_or(|range| range.contains(p.ports.1))
    };
    rules.iter().position(matches).map_or(0, |i| i as u32 + 1)
}

fn key<const N: usize>(protocol: u8, source: [u8; N], destination: [u8; N], ports: (u16, u16)) -> Key<N> {
    let (source_port, destination_port) = (ports.0.to_be_bytes(), ports.1.to_be_bytes());
    Key { protocol, source, destination, source_port, destination_port, ..Key::ZERO }
}

fn v4(p: &Tuple) -> Key4 {
    let top = |a: u128| ((a >> 96) as u32).to_be_bytes();
    key(p.protocol, top(p.source), top(p.destination), p.ports)
}

fn v6(p: &Tuple) -> Key6 {
    key(p.protocol, p.source.to_be_bytes(), p.destination.to_be_bytes(), p.ports)
}

/// The numbers of the packets whose first match, counted from 1, drops them.
fn dropped(rules: &[(FiveTuple, Action)], matches: &[u32]) -> Mask {
    let drops = |(_, rule): &(usize, &u32)| **rule > 0 && rules[**rule as usize - 1].1 == Action::Drop;
    matches.iter().enumerate().filter(drops).map(|(i, _)| i as u8).collect()
}

fn acl_is_first_match(eal: &Eal) {
    let (mut hits, mut misses) = (0, 0);
    for (seed, n) in [(1, 1), (2, 2), (3, 10), (4, 40), (5, 100), (6, 300)] {
        println!("    seed {seed}, {n} rules");
        let mut rng = StdRng::seed_from_u64(seed);
        let rules4: Vec<_> = (0..n).map(|_| rule(&mut rng, |a| Ipv4Addr::from((a >> 96) as u32).into())).collect();
        let rules6: Vec<_> = (0..n).map(|_| rule(&mut rng, |a| Ipv6Addr::from(a).into())).collect();
        // One list, in which the families take turns.
        let both: Vec<_> = rules4.iter().zip(&rules6).flat_map(|(a, b)| [*a, *b]).collect();
        let filter = AclFilter::new(eal, &both).unwrap();
        for size in [1, 3, 31, 64, 65, 256, 256, 256, 256] {
            let packets: Vec<Tuple> = (0..size).map(|_| packet(&mut rng, &rules4)).collect();
            let mut got = vec![u32::MAX; size];
            let keys: Vec<_> = packets.iter().map(v4).collect();
            filter.classify4(&keys, &mut got);
            let want: Vec<u32> = packets.iter().map(|p| first_match(&rules4, p)).collect();
            assert_eq!(got, want, "IPv4, seed {seed}");
            assert_eq!(filter.dropped4(&keys), dropped(&rules4, &want), "IPv4, seed {seed}");
            let hit = got.iter().filter(|result| **result > 0).count();
            (hits, misses) = (hits + hit, misses + size - hit);
            let packets: Vec<Tuple> = (0..size).map(|_| packet(&mut rng, &rules6)).collect();
            let keys: Vec<_> = packets.iter().map(v6).collect();
            filter.classify6(&keys, &mut got);
            let want: Vec<u32> = packets.iter().map(|p| first_match(&rules6, p)).collect();
            assert_eq!(got, want, "IPv6, seed {seed}");
            assert_eq!(filter.dropped6(&keys), dropped(&rules6, &want), "IPv6, seed {seed}");
        }
    }
    println!("    {hits} IPv4 packets hit a rule, {misses} none");
    assert!(hits > 500 && misses > 100, "packets and rules have to meet");
}

fn acl_edges(eal: &Eal) {
    let none = AclFilter::new(eal, &[]).unwrap();
    let mut got = [7; 3];
    let (any4, any6) = (key(255, [255; 4], [255; 4], (255, 255)), key(255, [255; 16], [255; 16], (255, 255)));
    none.classify4(&[any4; 3], &mut got);
    assert_eq!(got, [0; 3]);
    assert_eq!((none.dropped4(&[any4; 3]), none.dropped6(&[any6; 3])), (Mask::EMPTY, Mask::EMPTY));

    let all = FiveTuple::default();
    let host = FiveTuple { src: "192.0.2.1/32".parse().ok(), ..all };
    let filter = AclFilter::new(eal, &[(host, Action::Accept), (all, Action::Drop)]).unwrap();
    let key = |last| key(17, [192, 0, 2, last], [1; 4], (0, 0xffff));
    filter.classify4(&[key(1), key(2)], &mut got);
    assert_eq!(got[..2], [1, 2]);
    assert_eq!(filter.dropped4(&[key(1), key(2)]), Mask::only(1));
    filter.classify4(&[], &mut []);
}

/// Rules without addresses are for both families, each of which numbers its own.
fn acl_families_keep_their_order(eal: &Eal) {
    let all = FiveTuple::default();
    let (v6, tcp) = (FiveTuple { src: "2001:db8::/32".parse().ok(), ..all }, FiveTuple { proto: Some(6), ..all });
    let filter = AclFilter::new(eal, &[(v6, Action::Drop), (tcp, Action::Accept), (all, Action::Drop)]).unwrap();
    let mut got = [7; 2];
    let keys = [6, 17].map(|protocol| key(protocol, [192, 0, 2, 1], [1; 4], (0, 0)));
    filter.classify4(&keys, &mut got);
    assert_eq!((got, filter.dropped4(&keys)), ([1, 2], Mask::only(1)));
    let key = |first| key(6, [first; 16], [1; 16], (0, 0));
    let mut inside = key(0);
    inside.source[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    let keys = [inside, key(9)];
    filter.classify6(&keys, &mut got);
    assert_eq!((got, filter.dropped6(&keys)), ([1, 2], Mask::only(0)));
}

fn no_hardware_filters(eal: &Eal) {
    let pool = pool(eal);
    let wanted = PortConfig { slow_path_queue: true, ..config("net_null0") };
    let port = DpdkPort::open(eal, &wanted, &pool).unwrap();
    let queue = port.slow_path_queue().expect("net_null has queues to spare");
    let error = port.steer(&Steer::EtherType(0x0806), queue).err().unwrap().to_string();
    assert!(error.contains("rte_flow: ") && error.ends_with("the software filter does it"), "{error}");
    assert!(port.info().notes.contains(&error), "{:?}", port.info().notes);
    println!("    {error}");
    let bgp = FiveTuple { proto: Some(6), dport: Some(PortRange::only(179)), ..FiveTuple::default() };
    assert!(port.steer(&Steer::V6(bgp), queue).err().unwrap().to_string().contains("IPv6 ::/0 to ::/0"));
    assert!(port.steer(&Steer::EtherType(1), 9).err().unwrap().to_string().contains("no receive queue 9"));
}
