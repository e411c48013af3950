// SPDX-License-Identifier: MIT
//! Readers on other threads while the tables change under them: they see the old or the new next hop of a changed
//! prefix, and never another's. Groups, nodes and next hops are scarce, so that each is reused many times.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use crate::oracle::{Family, v4, v6};
use perigee_fib::synth::Random;
use perigee_fib::{
    Action, Dir24Writer, Fib, FibWriter, Grace, InterfaceId, LookupWriter, NextHopId, Prefix, PrefixOf, Published,
    Route, RouteSource, RouteTarget, Trie6Writer,
};

/// Changes to make at least, and batches to see at least in which there was something to see.
const CHANGES: u32 = 10_000;
const SIGHTINGS: u32 = 200;
const BLOCKS: u32 = 16;

/// Runs `read` again and again on a thread of its own, a batch boundary after each, while `change` changes things
/// on this one and reclaims what the reader has let go of. `read` returns whether there was something to see.
fn race(mut read: impl FnMut() -> bool + Send, mut change: impl FnMut(Grace) -> bool) {
    let mut published = Published::new(());
    let mut subscriber = published.subscribe();
    let (done, seen) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        let (done, seen) = (&done, &seen);
        let worker = scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    seen.fetch_add(read().into(), Ordering::Relaxed);
                    subscriber.refresh();
                }
                // The writer may be waiting for this core.
                thread::yield_now();
            }
        });
        let mut made = 0;
        // The reader may not be scheduled for a while; a limit, should there be nothing to see ever.
        let enough = |made| made >= CHANGES && seen.load(Ordering::Relaxed) >= SIGHTINGS || made > 1000 * CHANGES;
        while !enough(made) && !worker.is_finished() {
            if change(published.grace()) {
                made += 1;
            } else {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
        worker.join().expect("the reader found nothing wrong");
        println!("{made} changes, {seen:?} batches with something to see");
    });
    assert!(seen.into_inner() >= SIGHTINGS, "the reader saw next to nothing: the test tested nothing");
}

/// Ids of a block's own prefixes; a block's index is in the id, so that another's is recognised.
fn own_ids(block: u32) -> [u32; 3] {
    [100 + 4 * block, 101 + 4 * block, 102 + 4 * block]
}

/// `BLOCKS` blocks side by side under one cover. In each, two nested prefixes come, change and go.
fn flapping<A: Family, W: LookupWriter<A>>(mut writer: W, cover: PrefixOf<A>, blocks: &[[PrefixOf<A>; 2]], seed: u64) {
    println!("seed {seed}");
    let cover_id = 50;
    writer.insert(cover, NextHopId(cover_id)).expect("room");
    let reader = writer.reader();
    let ends = |[outer, inner]: &[PrefixOf<A>; 2]| [inner.addr(), outer.addr().fill(outer.len())];
    let addresses: Vec<A> = blocks.iter().flat_map(ends).collect();
    let mut ids = vec![0; addresses.len()];
    let mut last = ids.clone();
    let read = || {
        reader.lookup_batch(&addresses, &mut ids);
        for (at, &id) in ids.iter().enumerate() {
            let allowed = id == cover_id || own_ids(at as u32 / 2).contains(&id);
            assert!(allowed, "seed {seed}: address {} of block {} got id {id}", addresses[at].ip(), at / 2);
        }
        let changed = ids != last;
        last.clone_from(&ids);
        changed
    };
    let mut random = Random::new(seed);
    let mut present = vec![[false; 2]; blocks.len()];
    let change = |grace| {
        writer.reclaim(grace);
        let (block, which) = (random.below(BLOCKS) as usize, random.below(2) as usize);
        let (prefix, present) = (blocks[block][which], &mut present[block][which]);
        if *present && random.below(2) == 0 {
            writer.remove(prefix).expect("present");
            *present = false;
            return true;
        }
        let id = own_ids(block as u32)[random.below(3) as usize];
        // Refused if all pieces are in use or wait for the reader.
        let inserted = writer.insert(prefix, NextHopId(id)).is_ok();
        *present |= inserted;
        inserted
    };
    race(read, change);
}

#[test]
fn dir24_under_a_reader() {
    let blocks: Vec<_> = (0..BLOCKS)
        .map(|block| [28, 31].map(|len| PrefixOf::truncated(0x0a00_0000 | block << 8 | 0x40, len).expect("in range")))
        .collect();
    flapping(Dir24Writer::with_groups(10).expect("memory"), v4("10.0.0.0/16"), &blocks, 1);
}

#[test]
fn trie6_under_a_reader() {
    let base = 0x2001_0db8 << 96;
    let blocks: Vec<_> = (0..u128::from(BLOCKS))
        .map(|block| [44, 63].map(|len| PrefixOf::truncated(base | block << 88 | 0x40 << 80, len).expect("in range")))
        .collect();
    flapping(Trie6Writer::with_nodes(30).expect("memory"), v6("2001:db8::/32"), &blocks, 2);
}

/// Each destination has a gateway of its own, whose number is in the last byte of its address and of its MAC.
#[test]
fn next_hops_under_a_reader() {
    let seed = 3;
    println!("seed {seed}");
    // Fewer next hops than gateways: ids pass from one to the other.
    let mut writer = FibWriter::new(10).expect("memory");
    let fib = writer.reader();
    let mut random = Random::new(seed);
    let change = |grace| {
        writer.reclaim(grace);
        change_one(&mut writer, &mut random)
    };
    race(|| read_all(&fib), change);
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
                    (interface, mac[5]),
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
        0 => writer.insert(prefix, Route { source: RouteSource::Static, metric: 0, target }).is_ok(),
        1 => writer.remove(prefix, RouteSource::Static, 0).is_ok(),
        2 => {
            writer.set_neighbor(interface, gateway, None);
            true
        }
        _ => {
            writer.set_neighbor(interface, gateway, Some([2, 0, 0, 0, 0, block as u8]));
            true
        }
    }
}
