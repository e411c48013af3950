// SPDX-License-Identifier: MIT
//! Groups under a reader: a flow is sent to the old or a new member of its own group, and never to another group's,
//! while members die, come back and are replaced, and while groups, their ids and their buckets pass from one route to
//! another.

use std::net::{IpAddr, Ipv4Addr};

use crate::race::race;
use perigee_fib::synth::Random;
use perigee_fib::{Action, Fib, FibWriter, NextHopId};
use perigee_net::{InterfaceId, MacAddr, Member, Multipath, Prefix, Route, RouteKey, RouteSource, RouteTarget};

const CHANGES: u32 = 20_000;
const SIGHTINGS: u32 = 2_000;
const GROUPS: u16 = 6;
/// Gateways in the network of one group.
const GATEWAYS: u8 = 4;

fn destination(group: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, group as u8, 7)
}

/// A gateway of this group: all of them are on the interface with the group's number, which is in their MAC addresses
/// too.
fn gateway(group: u16, number: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, group as u8, number + 1).into()
}

/// Looks up some flows of every group; returns whether one was forwarded.
fn read_all(fib: &Fib, flows: &mut Random) -> bool {
    let addresses: Vec<u32> = (0..GROUPS).map(|group| destination(group).to_bits()).collect();
    let mut ids = vec![0; addresses.len()];
    fib.v4.lookup_batch(&addresses, &mut ids);
    let mut sent = false;
    for (group, &id) in (0..GROUPS).zip(&ids) {
        for _ in 0..16 {
            let word = fib.next_hops.get(NextHopId(id));
            let word = match word.is_group() {
                true => fib.next_hops.get(fib.next_hops.member(word, flows.bits() as u32)),
                false => word,
            };
            match word.action() {
                Action::Forward { interface, mac } => {
                    assert_eq!((interface.0, u16::from(mac.octets()[4])), (group, group), "another group's member");
                    sent = true;
                }
                Action::Unresolved { interface } => assert_eq!(interface.0, group, "another group's member"),
                // When a gateway loses its way, its next hop is unreachable before its routes are withdrawn.
                other => assert!(matches!(other, Action::NoRoute | Action::Unreachable), "group {group}: {other:?}"),
            }
        }
    }
    sent
}

fn change_one(writer: &mut FibWriter, random: &mut Random) -> bool {
    let group = random.below(GROUPS.into()) as u16;
    let interface = InterfaceId(group);
    let prefix = Prefix::truncated(destination(group).into(), 24).expect("in range");
    let number = random.below(GATEWAYS.into()) as u8;
    match random.below(10) {
        0..=2 => {
            let count = 1 + random.below(u32::from(GATEWAYS) * 2) as usize;
            let mut member = || Member {
                address: Some(gateway(group, random.below(GATEWAYS.into()) as u8)),
                interface: (random.below(2) == 0).then_some(interface),
                weight: 1 + random.below(4) as u16,
            };
            let members: Vec<Member> = std::iter::repeat_with(&mut member).take(count).collect();
            let target = RouteTarget::Multipath(Multipath::new(&members).expect("in range"));
            writer.insert(prefix, Route::new(RouteSource::Static, target)).is_ok()
        }
        3 => writer.remove(prefix, RouteKey::of(RouteSource::Static)).is_ok(),
        4 => {
            let network = Prefix::truncated(gateway(group, 0), 24).expect("in range");
            let route = Route::new(RouteSource::Connected, RouteTarget::Connected { interface });
            match random.below(3) {
                0 => writer.remove(network, route.key()).is_ok(),
                _ => writer.insert(network, route).is_ok(),
            }
        }
        5 | 6 => {
            writer.set_neighbor(interface, gateway(group, number), None);
            true
        }
        _ => {
            writer.set_neighbor(interface, gateway(group, number), Some(MacAddr([2, 0, 0, 0, group as u8, number])));
            true
        }
    }
}

#[test]
fn groups_under_a_reader() {
    let seed = 4;
    println!("seed {seed}");
    // Fewer next hops than all routes together need, so that ids and buckets pass from one to another.
    let mut writer = FibWriter::new(40).expect("memory");
    let fib = writer.reader();
    let (mut flows, mut random) = (Random::new(seed + 1), Random::new(seed));
    let change = |grace| {
        writer.commit().expect("patched in place");
        writer.reclaim(grace);
        change_one(&mut writer, &mut random)
    };
    race(CHANGES, SIGHTINGS, || read_all(&fib, &mut flows), change);
}
