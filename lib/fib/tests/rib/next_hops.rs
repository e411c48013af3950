// SPDX-License-Identifier: MIT
//! Next hops under a reader: of a changed route or neighbor it sees the old or the new next hop, and never another
//! route's. They are scarce, so that each is reused many times.

use std::net::{IpAddr, Ipv4Addr};

use crate::race::race;
use perigee_fib::synth::Random;
use perigee_fib::{Action, Fib, FibWriter, NextHopId};
use perigee_net::{InterfaceId, MacAddr, Prefix, Route, RouteKey, RouteSource, RouteTarget};

/// The least number of changes to make, and of batches in which the reader finds something.
const CHANGES: u32 = 10_000;
const SIGHTINGS: u32 = 200;
const BLOCKS: u32 = 16;

/// Each destination has a gateway of its own, whose number is in the last byte of its address and of its MAC.
#[test]
fn next_hops_under_a_reader() {
    let seed = 3;
    println!("seed {seed}");
    // Fewer next hops than gateways, so that ids pass from one to another.
    let mut writer = FibWriter::new(10).expect("memory");
    let fib = writer.reader();
    let mut random = Random::new(seed);
    let change = |grace| {
        writer.commit().expect("patched in place");
        writer.reclaim(grace);
        change_one(&mut writer, &mut random)
    };
    race(CHANGES, SIGHTINGS, || read_all(&fib), change);
}

fn destination(block: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, block as u8, 7)
}

/// Looks at every block's next hop; returns whether one forwards.
fn read_all(fib: &Fib) -> bool {
    let addresses: Vec<u32> = (0..BLOCKS).map(|block| destination(block).to_bits()).collect();
    let mut ids = vec![0; addresses.len()];
    fib.v4.lookup_batch(&addresses, &mut ids);
    let mut forwarded = false;
    for (block, &id) in (0u16..).zip(&ids) {
        match fib.next_hops.get(NextHopId(id)).action() {
            Action::Forward { interface, mac } => {
                assert_eq!(
                    (interface, mac.octets()[5]),
                    (InterfaceId(block), block as u8),
                    "block {block} got another's next hop"
                );
                forwarded = true;
            }
            Action::Unresolved { interface } => {
                assert_eq!(interface, InterfaceId(block), "block {block} got another's")
            }
            other => assert_eq!(other, Action::NoRoute, "block {block}"),
        }
    }
    forwarded
}

/// Adds or removes a route, or a neighbor comes or goes. Returns whether something changed.
fn change_one(writer: &mut FibWriter, random: &mut Random) -> bool {
    let block = random.below(BLOCKS);
    let (interface, gateway) = (InterfaceId(block as u16), IpAddr::V4(Ipv4Addr::new(192, 0, 2, block as u8 + 1)));
    let prefix = Prefix::truncated(destination(block).into(), 24).expect("in range");
    let target = RouteTarget::Gateway { address: gateway, interface: Some(interface) };
    match random.below(4) {
        0 => writer.insert(prefix, Route::new(RouteSource::Static, target)).is_ok(),
        1 => writer.remove(prefix, RouteKey::of(RouteSource::Static)).is_ok(),
        2 => {
            writer.set_neighbor(interface, gateway, None);
            true
        }
        _ => {
            writer.set_neighbor(interface, gateway, Some(MacAddr([2, 0, 0, 0, 0, block as u8])));
            true
        }
    }
}
