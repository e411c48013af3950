// SPDX-License-Identifier: MIT
//! The same answers from the same tables, while the router changes them.

use crate::bed::{Bed, Outcome};
use perigee_fib::synth::{self, Random};
use perigee_modules::testing::{self, INTERFACES, add_routes, changed, changed4, fuzz, neighbor, udp4, udp6};
use perigee_net::{InterfaceId, Prefix, Route, RouteKey, RouteSource, RouteTarget};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn to4(address: u32) -> Vec<u8> {
    changed4(udp4(1, 8), |frame| frame[30..34].copy_from_slice(&address.to_be_bytes()))
}

fn to6(address: u128) -> Vec<u8> {
    changed(udp6(1, 8), |frame| frame[38..54].copy_from_slice(&address.to_be_bytes()))
}

/// A route by one of many neighbors behind the interfaces that can send.
fn route(random: &mut Random, is_v6: bool) -> Route {
    let (interface, host) = (InterfaceId(random.below(5) as u16), random.below(200) + 10);
    let address: IpAddr = match is_v6 {
        false => Ipv4Addr::new(192, 0, 3, host as u8).into(),
        true => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, host as u16).into(),
    };
    Route::new(RouteSource::Static, RouteTarget::Gateway { address, interface: Some(interface) })
}

/// The addresses at the edges of a prefix, and one in it.
fn probes(random: &mut Random, prefix: Prefix) -> Vec<Vec<u8>> {
    match prefix {
        Prefix::V4(v4) => {
            let inside = v4.addr() | random.bits() as u32 & (v4.last() ^ v4.addr());
            [v4.addr(), v4.last(), inside, v4.last().wrapping_add(1)].map(to4).to_vec()
        }
        Prefix::V6(v6) => {
            let bits = u128::from(random.bits()) << 64 | u128::from(random.bits());
            [v6.addr(), v6.last(), v6.addr() | bits & (v6.last() ^ v6.addr())].map(to6).to_vec()
        }
    }
}

pub fn agree_while_routes_change() {
    let (mut random, count) = fuzz();
    for structure in ["auto", "dirb", "bm19"] {
        let mut bed = Bed::with(structure, vec![], vec![], add_routes);
        let seed = random.bits();
        let mut prefixes: Vec<Prefix> =
            synth::ipv4(40_000, seed).into_iter().map(|(prefix, _)| prefix.into()).collect();
        prefixes.extend(synth::ipv6(20_000, seed).into_iter().map(|(prefix, _)| Prefix::from(prefix)));
        for is_v6 in [false, true] {
            for (interface, host) in (0..5).flat_map(|interface| (10..200u8).map(move |host| (interface, host))) {
                let address: IpAddr = match is_v6 {
                    false => Ipv4Addr::new(192, 0, 3, host).into(),
                    true => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, host.into()).into(),
                };
                bed.rig.fib.set_neighbor(InterfaceId(interface), address, Some(neighbor(host)));
            }
        }
        let insert = |bed: &mut Bed, random: &mut Random, prefix: Prefix| {
            let route = route(random, matches!(prefix, Prefix::V6(_)));
            bed.rig.fib.insert(prefix, route).expect("room for a route");
        };
        for prefix in &prefixes {
            insert(&mut bed, &mut random, *prefix);
        }
        commit(&mut bed);
        let mut sent = 0;
        for round in 0..count / 500 {
            for _ in 0..20 {
                let prefix = prefixes[random.below(prefixes.len() as u32) as usize];
                if random.below(3) == 0 {
                    let key = RouteKey::of(RouteSource::Static);
                    let _ = bed.rig.fib.remove(prefix, key);
                } else {
                    insert(&mut bed, &mut random, prefix);
                }
            }
            commit(&mut bed);
            let prefix = prefixes[random.below(prefixes.len() as u32) as usize];
            for frame in probes(&mut random, prefix) {
                let (user, kernel) = bed.compare(0, &frame);
                assert!(!matches!(user, Outcome::Sent(..)) || kernel == user, "{structure}, round {round}: {user:?}");
                sent += u64::from(matches!(kernel, Outcome::Sent(..)));
            }
        }
        assert!(sent > count / 1000, "{structure}: {sent} were sent on in the kernel");
    }
}

/// What the router does at the end of a turn.
fn commit(bed: &mut Bed) {
    bed.rig.fib.commit().expect("room");
    if !bed.rig.fib.reader().is_same(&bed.rig.ctx.tables.fib()) {
        bed.follow_routes();
    }
}

pub fn groups_and_neighbors_agree() {
    let mut bed = Bed::new(vec![], vec![]);
    bed.rig.spread(&[(1, 1), (2, 3), (3, 1)]);
    let link = InterfaceId(4);
    bed.rig.connect(testing::NOWHERE, link);
    for last in (0..=254u8).step_by(2) {
        for address in [on_link(last, false), on_link(last, true)] {
            bed.rig.fib.set_neighbor(link, address, Some(neighbor(last)));
            bed.rig.fib.set_on_link(link, address, true).expect("room for a neighbor");
        }
    }
    bed.follow_routes();
    let mut members = [0; INTERFACES as usize];
    for port in 1000..2000u16 {
        let at = |at: usize| move |frame: &mut Vec<u8>| frame[at..at + 2].copy_from_slice(&port.to_be_bytes());
        for frame in [changed(udp4(testing::SPREAD, 8), at(34)), changed(udp6(testing::SPREAD, 8), at(54))] {
            let (user, kernel) = bed.compare(0, &frame);
            let Outcome::Sent(out, _) = &kernel else { panic!("{user:?}, in the kernel {kernel:?}") };
            members[usize::from(*out)] += 1;
        }
    }
    assert!(members.iter().filter(|count| **count > 100).count() >= 2, "{members:?}");
    for last in 0..=255u8 {
        let frames = [
            changed4(udp4(testing::NOWHERE, 8), |frame| frame[33] = last),
            changed(udp6(testing::NOWHERE, 8), |frame| frame[53] = last),
        ];
        for frame in frames {
            let (user, kernel) = bed.compare(0, &frame);
            assert_eq!(user, kernel, "neighbor {last}");
            assert_eq!(matches!(kernel, Outcome::Sent(..)), last % 2 == 0, "neighbor {last}");
        }
    }
}

/// An address on the connected network.
fn on_link(last: u8, is_v6: bool) -> IpAddr {
    match is_v6 {
        false => (Ipv4Addr::from_bits(testing::v4(testing::NOWHERE).to_bits() & !0xff | u32::from(last))).into(),
        true => Ipv6Addr::from_bits(testing::v6(testing::NOWHERE).to_bits() & !0xff | u128::from(last)).into(),
    }
}
