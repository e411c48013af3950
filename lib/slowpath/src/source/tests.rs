// SPDX-License-Identifier: MIT
//! The choice of a source against the rules of RFC 6724 5 as they stand there, pair by pair.

use super::*;
use crate::Time;
use crate::interface::{AddressState, Detection, Interfaces, Own, Owner};
use perigee_net::{HostAddress, Interface, InterfaceId, MacAddr, Policy};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// The default policy table of RFC 6724 2.1: prefix, length, label.
const POLICY: &[(&str, u32, u8)] = &[
    ("::1", 128, 0),
    ("::", 0, 1),
    ("::ffff:0:0", 96, 4),
    ("2002::", 16, 2),
    ("2001::", 32, 5),
    ("fc00::", 7, 13),
    ("::", 96, 3),
    ("fec0::", 10, 11),
    ("3ffe::", 16, 12),
];

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn matches(address: Ipv6Addr, prefix: &str, len: u32) -> bool {
    (0..len).all(|bit| bit_of(address, bit) == bit_of(v6(prefix), bit))
}

fn bit_of(address: Ipv6Addr, bit: u32) -> u8 {
    address.octets()[bit as usize / 8] >> (7 - bit % 8) & 1
}

fn slow_label(address: Ipv6Addr) -> u8 {
    let matching = POLICY.iter().filter(|(prefix, len, _)| matches(address, prefix, *len));
    matching.max_by_key(|(_, len, _)| *len).unwrap().2
}

/// RFC 6724 3.1.
fn slow_scope(address: Ipv6Addr) -> u32 {
    if address.is_multicast() {
        u32::from(address.octets()[1] % 16)
    } else if matches(address, "fe80::", 10) || address == v6("::1") {
        2
    } else if matches(address, "fec0::", 10) {
        5
    } else {
        14
    }
}

/// RFC 6724 2.2.
fn common_prefix_len(source: &Candidate, to: Ipv6Addr) -> u32 {
    (0..u32::from(source.prefix_len)).take_while(|bit| bit_of(source.address, *bit) == bit_of(to, *bit)).count() as u32
}

/// Whether the rules prefer `a` to `b`: the first rule that says anything decides.
fn prefers(to: Ipv6Addr, a: &Candidate, b: &Candidate) -> Option<bool> {
    let one = |a: bool, b: bool| if a != b { Some(a) } else { None };
    let rule1 = one(a.address == to, b.address == to);
    let (sa, sb, d) = (slow_scope(a.address), slow_scope(b.address), slow_scope(to));
    let rule2 = match sa.cmp(&sb) {
        Ordering::Less => Some(sa >= d),
        Ordering::Greater => Some(sb < d),
        Ordering::Equal => None,
    };
    let rule3 = one(!a.deprecated, !b.deprecated);
    let rule5 = one(a.outgoing, b.outgoing);
    let label = |candidate: &Candidate| slow_label(candidate.address) == slow_label(to);
    let rule6 = one(label(a), label(b));
    let (ca, cb) = (common_prefix_len(a, to), common_prefix_len(b, to));
    let rule8 = (ca != cb).then_some(ca > cb);
    rule1.or(rule2).or(rule3).or(rule5).or(rule6).or(rule8)
}

/// The first candidate to which no other is preferred.
fn slow_choice(to: Ipv6Addr, candidates: &[Candidate]) -> Option<Candidate> {
    let unbeaten = |a: &&Candidate| candidates.iter().all(|b| prefers(to, b, a) != Some(true));
    candidates.iter().find(unbeaten).copied()
}

const PREFIXES: &[&str] = &[
    "2001:db8:1::",
    "2001:db8:1:1::",
    "2001:db8:2::",
    "2001:db8:8000::",
    "2001::",
    "2002:c000:201::",
    "3ffe::",
    "fd00:1::",
    "fc00::",
    "fe80::",
    "fe80:0:0:1::",
    "fec0::",
    "fec0:0:0:1::",
    "::",
    "::ffff:0:0",
    "64:ff9b::",
    "ff02::",
    "ff05::",
    "ff0e::",
    "2a00::",
];

fn address(rng: &mut StdRng) -> Ipv6Addr {
    let prefix = v6(PREFIXES.choose(rng).unwrap()).to_bits();
    let low = match rng.random_range(0..4) {
        0 => 1,
        1 => rng.random_range(0..4),
        2 => u128::from(rng.random::<u32>()),
        _ => u128::from(rng.random::<u64>()),
    };
    Ipv6Addr::from_bits(prefix | low)
}

#[test]
fn the_source_is_the_one_that_the_rules_of_rfc_6724_prefer() {
    let seed = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(6724);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut decided = [0u32; 2];
    for round in 0..50_000 {
        let to = address(&mut rng);
        let candidates: Vec<Candidate> = (0..rng.random_range(0..8))
            .map(|_| Candidate {
                address: address(&mut rng),
                prefix_len: *[0, 32, 48, 64, 127, 128].choose(&mut rng).unwrap(),
                deprecated: rng.random_bool(0.3),
                outgoing: rng.random_bool(0.5),
            })
            .collect();
        let expected = slow_choice(to, &candidates);
        decided[usize::from(expected.is_some())] += 1;
        let found = choose(to, candidates.iter().copied());
        assert_eq!(found, expected, "seed {seed}, round {round}: to {to} from {candidates:?}");
    }
    assert!(decided.iter().all(|n| *n > 1000), "{decided:?}");
}

#[test]
fn labels_and_scopes_are_those_of_the_tables() {
    let mut rng = StdRng::seed_from_u64(1);
    let some = (0..20_000).map(|_| address(&mut rng)).collect::<Vec<_>>();
    let edges = [
        "::1",
        "::",
        "::2",
        "::1:0:0",
        "2001:0:ffff::",
        "2001:1::",
        "fbff::",
        "fdff::",
        "fe7f::",
        "febf::",
        "fec0::",
        "feff::",
    ];
    for address in some.into_iter().chain(edges.map(v6)) {
        assert_eq!(
            (label(address), u32::from(scope(address))),
            (slow_label(address), slow_scope(address)),
            "{address}"
        );
    }
}

/// The examples of RFC 6724 10.1: destination, candidates, the one that is chosen.
#[test]
fn examples_of_rfc_6724() {
    let plain = |text: &str| Candidate { address: v6(text), prefix_len: 64, deprecated: false, outgoing: true };
    for (to, candidates, best) in [
        ("2001:db8:1::1", vec!["2001:db8:3::1", "fe80::1"], "2001:db8:3::1"),
        ("ff05::1", vec!["2001:db8:3::1", "fe80::1"], "2001:db8:3::1"),
        ("fe80::1", vec!["fe80::2", "2001:db8:1::1"], "fe80::2"),
        ("2001:db8:1::1", vec!["2001:db8:1::2", "2001:db8:3::2"], "2001:db8:1::2"),
        ("2001:db8:1::1", vec!["2001:db8:3::2", "2001:db8:1::2"], "2001:db8:1::2"),
        (
            "2002:c633:6401::1",
            vec!["2002:c633:6401::d5e3:7953:13eb:22e8", "2001:db8:1::2"],
            "2002:c633:6401::d5e3:7953:13eb:22e8",
        ),
        ("fd11:1::1", vec!["2001:db8:1::2", "fd22::1"], "fd22::1"),
    ] {
        let found = choose(v6(to), candidates.iter().map(|text| plain(text)));
        assert_eq!(found, Some(plain(best)), "to {to} from {candidates:?}");
    }
    // Rule 3, before 5 and 8.
    let deprecated = Candidate { deprecated: true, ..plain("2001:db8:1::2") };
    let elsewhere = Candidate { outgoing: false, ..plain("2001:db8:3::2") };
    assert_eq!(choose(v6("2001:db8:1::1"), [deprecated, elsewhere].into_iter()), Some(elsewhere));
    assert_eq!(choose(v6("2001:db8:1::1"), [deprecated].into_iter()), Some(deprecated));
}

/// As `inet_select_addr` of Linux chooses.
#[test]
fn the_ipv4_source_is_the_one_that_linux_chooses() {
    let with = |text: &str, attributes| (text.parse().unwrap(), attributes);
    let plain = |text: &str| with(text, AddressAttributes::default());
    let of = |scope| AddressAttributes { scope, ..AddressAttributes::default() };
    let toward = |text: &str| AddressAttributes { toward: Some(text.parse().unwrap()), ..AddressAttributes::default() };
    let v4 = |text: &str| -> Ipv4Addr { text.parse().unwrap() };
    let addresses: Vec<(InterfaceAddress, AddressAttributes)> = vec![
        with("127.0.5.1/32", of(AddressScope::Host)),
        plain("10.0.1.1/24"),
        plain("10.0.2.1/24"),
        with("192.168.0.1/24", of(AddressScope::Link)),
        with("10.50.0.1/32", toward("10.50.0.2/32")),
        with("10.60.0.1/32", toward("10.60.0.0/16")),
        // Secondary ones come last.
        plain("10.0.1.2/24"),
        plain("2001:db8::1/64"),
    ];
    for (near, on_link, expected) in [
        (None, false, "10.0.1.1"),
        (None, true, "192.168.0.1"),
        (Some("10.0.2.9"), true, "10.0.2.1"),
        (Some("10.0.1.9"), false, "10.0.1.1"),
        (Some("10.50.0.2"), true, "10.50.0.1"),
        (Some("10.60.7.2"), false, "10.60.0.1"),
        (Some("192.168.0.9"), false, "10.0.1.1"),
        (Some("203.0.113.1"), true, "192.168.0.1"),
    ] {
        let found = choose4(addresses.iter().copied(), near.map(v4), on_link);
        assert_eq!(found, Some(v4(expected)), "near {near:?}, on the link {on_link}");
    }
    let none = [with("127.0.5.1/32", of(AddressScope::Host)), with("192.168.0.1/24", of(AddressScope::Link))];
    assert_eq!(choose4(none.iter().copied(), None, false), None);
}

/// Interfaces with some addresses each, of which some are not in use, and host addresses: what the router speaks from
/// is what the rules choose among all that it may.
#[test]
fn what_the_router_speaks_from_is_the_best_of_all_its_addresses() {
    let seed = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(4443);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut elsewhere = 0;
    for round in 0..5_000 {
        let mut interfaces = Interfaces::default();
        let mut all = Vec::new();
        let random = |rng: &mut StdRng| {
            let prefix_len = *[48, 64, 128].choose(rng).unwrap();
            let own = InterfaceAddress { address: unicast(rng).into(), prefix_len };
            let deprecated = rng.random_bool(0.3);
            (own, AddressAttributes { deprecated, ..AddressAttributes::default() })
        };
        let outgoing = InterfaceId(rng.random_range(0..3));
        let host_addresses: Vec<HostAddress> = (0..rng.random_range(0..3))
            .map(|_| random(&mut rng))
            .map(|(address, attributes)| HostAddress { address, attributes, station: None })
            .collect();
        let mut others: Vec<(Owner, InterfaceAddress, AddressAttributes)> =
            host_addresses.iter().map(|host| (None, host.address, host.attributes)).collect();
        for id in (0..3).map(InterfaceId) {
            let addresses: Vec<_> = (0..rng.random_range(0..3)).map(|_| random(&mut rng)).collect();
            let mut own = Own::new(Interface {
                name: id.0.to_string(),
                port: id.0,
                vlan: None,
                mtu: 1500,
                mac: MacAddr([2, 0, 0, 0, 0, id.0 as u8]),
                up: true,
                addresses: addresses.iter().map(|(own, _)| *own).collect(),
                attributes: addresses.iter().copied().collect(),
                policy: Policy::default(),
            });
            for address in own.config.addresses.clone() {
                let IpAddr::V6(v6) = address.address else { continue };
                let state = if rng.random_bool(0.8) { AddressState::Valid } else { AddressState::Tentative };
                own.detection.entry(v6).or_insert(Detection { state, sent: 0, due: Time(0) });
                let valid = own.is_valid(v6.into());
                let entry = (Some(id), address, own.config.attributes_of(address));
                if valid && id == outgoing {
                    all.extend(Candidate::new(entry.1, entry.2, true));
                } else if valid {
                    others.push(entry);
                }
            }
            interfaces.set(id, own);
        }
        interfaces.set_host_addresses(host_addresses);
        let to = unicast(&mut rng);
        let may = others.iter().filter_map(|(_, own, attributes)| Candidate::new(*own, *attributes, false));
        let may = may.filter(|other| !other.address.is_unicast_link_local() && !to.is_unicast_link_local());
        all.extend(may);
        // A router sends nothing to itself.
        if all.iter().any(|own| own.address == to) {
            continue;
        }
        let expected = slow_choice(to, &all).map(|best| best.address);
        elsewhere += u32::from(slow_choice(to, &all).is_some_and(|best| !best.outgoing));
        assert_eq!(interfaces.source6(outgoing, to), expected, "seed {seed}, round {round}: to {to} from {all:?}");
    }
    assert!(elsewhere > 500, "{elsewhere}");
}

fn unicast(rng: &mut StdRng) -> Ipv6Addr {
    loop {
        let address = address(rng);
        if !address.is_multicast() && !address.is_loopback() && !address.is_unspecified() {
            return address;
        }
    }
}
