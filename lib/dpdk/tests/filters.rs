// SPDX-License-Identifier: MIT
//! Filter lists against a plain first-match loop, with random rules and packets; hardware filters on devices without
//! any.

mod common;

use common::*;
use perigee_dpdk::*;
use perigee_net::{Filter, FiveTuple, Key, Key4, Key6, PortRange, Prefix, Rule, Verdict};
use perigee_packet::Port;
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

fn rule(rng: &mut StdRng, number: u32, of: fn(u128) -> IpAddr) -> Rule {
    let prefix = |rng: &mut StdRng| {
        let address = of(address(rng));
        let bits = if rng.random_bool(0.3) { 0 } else { rng.random_range(0..=Prefix::longest(address)) };
        Prefix::truncated(address, bits).ok()
    };
    let tuple = FiveTuple {
        src: prefix(rng),
        dst: prefix(rng),
        proto: rng.random_bool(0.6).then(|| [1, 6, 17][rng.random_range(0..3usize)]),
        sport: ports(rng),
        dport: ports(rng),
    };
    Rule { tuple, deny: rng.random(), number }
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
fn packet(rng: &mut StdRng, rules: &[Rule]) -> Tuple {
    let near = (!rules.is_empty() && rng.random_bool(0.7)).then(|| &rules[rng.random_range(0..rules.len())].tuple);
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

/// What the list means: the verdict of the first rule that matches.
fn first_match(rules: &[Rule], p: &Tuple) -> Verdict {
    let under = |a: u128, prefix| {
        let (first, len) = bits(prefix);
        len == 0 || (a ^ first) >> (128 - u32::from(len)) == 0
    };
    let matches = |rule: &&Rule| {
        let r = &rule.tuple;
        r.proto.is_none_or(|protocol| protocol == p.protocol)
            && under(p.source, r.src)
            && under(p.destination, r.dst)
            && r.sport.is_none_or(|range| range.contains(p.ports.0))
            && r.dport.is_none_or(|range| range.contains(p.ports.1))
    };
    rules.iter().find(matches).map_or(Verdict::NONE, Rule::verdict)
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

fn judged4(filter: &AclFilter, keys: &[Key4]) -> Vec<Verdict> {
    let mut verdicts = vec![OTHER; keys.len()];
    filter.judge4(keys, &mut verdicts);
    verdicts
}

fn judged6(filter: &AclFilter, keys: &[Key6]) -> Vec<Verdict> {
    let mut verdicts = vec![OTHER; keys.len()];
    filter.judge6(keys, &mut verdicts);
    verdicts
}

/// That of no list here.
const OTHER: Verdict = Rule { tuple: ALL, deny: true, number: 1 << 29 }.verdict();
const ALL: FiveTuple = FiveTuple { src: None, dst: None, proto: None, sport: None, dport: None };

fn acl_is_first_match(eal: &Eal) {
    let (mut hits, mut misses) = (0, 0);
    for (seed, n) in [(1, 1), (2, 2), (3, 10), (4, 40), (5, 100), (6, 300)] {
        println!("    seed {seed}, {n} rules");
        let mut rng = StdRng::seed_from_u64(seed);
        let v4_of = |a: u128| Ipv4Addr::from((a >> 96) as u32).into();
        // Their numbers say nothing about their order.
        let rules4: Vec<_> = (0..n).map(|i| rule(&mut rng, (7 * i + 3) % 1000, v4_of)).collect();
        let rules6: Vec<_> = (0..n).map(|i| rule(&mut rng, 2000 - i, |a| Ipv6Addr::from(a).into())).collect();
        // One list, in which the families take turns.
        let both: Vec<_> = rules4.iter().zip(&rules6).flat_map(|(a, b)| [*a, *b]).collect();
        let filter = AclFilter::new(eal, &both).unwrap();
        for size in [1, 3, 31, 64, 65, 256, 256, 256, 256] {
            let packets: Vec<Tuple> = (0..size).map(|_| packet(&mut rng, &rules4)).collect();
            let got = judged4(&filter, &packets.iter().map(v4).collect::<Vec<_>>());
            let want: Vec<_> = packets.iter().map(|p| first_match(&rules4, p)).collect();
            assert_eq!(got, want, "IPv4, seed {seed}");
            let hit = got.iter().filter(|verdict| **verdict != Verdict::NONE).count();
            (hits, misses) = (hits + hit, misses + size - hit);
            let packets: Vec<Tuple> = (0..size).map(|_| packet(&mut rng, &rules6)).collect();
            let got = judged6(&filter, &packets.iter().map(v6).collect::<Vec<_>>());
            let want: Vec<_> = packets.iter().map(|p| first_match(&rules6, p)).collect();
            assert_eq!(got, want, "IPv6, seed {seed}");
        }
    }
    println!("    {hits} IPv4 packets hit a rule, {misses} none");
    assert!(hits > 500 && misses > 100, "packets and rules have to meet");
}

fn acl_edges(eal: &Eal) {
    let none = AclFilter::new(eal, &[]).unwrap();
    let (any4, any6) = (key(255, [255; 4], [255; 4], (255, 255)), key(255, [255; 16], [255; 16], (255, 255)));
    assert_eq!(
        (judged4(&none, &[any4; 3]), judged6(&none, &[any6; 3])),
        (vec![Verdict::NONE; 3], vec![Verdict::NONE; 3])
    );

    let host = FiveTuple { src: "192.0.2.1/32".parse().ok(), ..ALL };
    let (first, last) = (Rule { number: 1 << 20, ..Rule::accept(host) }, Rule { number: 9, ..Rule::deny(ALL) });
    let filter = AclFilter::new(eal, &[first, last]).unwrap();
    let key = |last| key(17, [192, 0, 2, last], [1; 4], (0, 0xffff));
    assert_eq!(judged4(&filter, &[key(1), key(2)]), [first.verdict(), last.verdict()]);
    filter.judge4(&[], &mut []);
}

/// Rules without addresses are for both families.
fn acl_families_keep_their_order(eal: &Eal) {
    let (v6, tcp) = (FiveTuple { src: "2001:db8::/32".parse().ok(), ..ALL }, FiveTuple { proto: Some(6), ..ALL });
    let rules = [Rule::deny(v6), Rule::accept(tcp), Rule::deny(ALL)];
    let [v6, tcp, all] = [0, 1, 2].map(|i| Rule { number: i as u32, ..rules[i] });
    let filter = AclFilter::new(eal, &[v6, tcp, all]).unwrap();
    let keys = [6, 17].map(|protocol| key(protocol, [192, 0, 2, 1], [1; 4], (0, 0)));
    assert_eq!(judged4(&filter, &keys), [tcp.verdict(), all.verdict()]);
    let key = |first| key(6, [first; 16], [1; 16], (0, 0));
    let mut inside = key(0);
    inside.source[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    assert_eq!(judged6(&filter, &[inside, key(9)]), [v6.verdict(), tcp.verdict()]);
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
