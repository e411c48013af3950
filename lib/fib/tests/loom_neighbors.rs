// SPDX-License-Identifier: MIT
//! The table of neighbors under the model checker, which tries every interleaving and every reordering that is allowed:
//! `cargo test -p perigee-fib --features loom --test loom_neighbors`
#![cfg(feature = "loom")]

use std::net::{IpAddr, Ipv4Addr};

use loom::thread;
use perigee_fib::{NeighborTableWriter, NextHopId, Published};
use perigee_net::InterfaceId;

const LAN: InterfaceId = InterfaceId(1);

fn address(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, n).into()
}

/// A reader that looks for every neighbor in two batches: it finds its own id or none.
fn read(mut subscriber: perigee_fib::Subscriber<()>, table: std::sync::Arc<perigee_fib::NeighborTable>, known: &[u8]) {
    for _ in 0..2 {
        for &n in known {
            let found = table.find(LAN, address(n));
            assert!(found.is_none_or(|id| id == NextHopId(n.into())), "{n} has the next hop {found:?}");
        }
        subscriber.refresh();
    }
}

/// The slot of one neighbor passes to another, in a table that has two; of several others, some hash to the very slot.
#[test]
fn a_slot_is_not_reused_under_a_reader() {
    for other in 2..8 {
        loom::model(move || {
            let mut published = Published::new(());
            let subscriber = published.subscribe();
            let mut writer = NeighborTableWriter::with_slots(2);
            writer.insert(LAN, address(1), NextHopId(1)).expect("memory");
            let table = writer.reader().clone();
            let reader = thread::spawn(move || read(subscriber, table, &[1, other]));
            writer.remove(LAN, address(1));
            writer.reclaim(published.grace());
            // If the reader is still behind, another table is made, which it does not see.
            writer.insert(LAN, address(other), NextHopId(other.into())).expect("memory");
            reader.join().expect("reader");
        });
    }
}

/// A neighbor is found with all of its address or not at all, and a change of its next hop is one store.
#[test]
fn a_neighbor_is_found_whole() {
    loom::model(|| {
        let mut published = Published::new(());
        let subscriber = published.subscribe();
        let mut writer = NeighborTableWriter::with_slots(4);
        let table = writer.reader().clone();
        let reader = thread::spawn(move || read(subscriber, table, &[1, 2]));
        writer.insert(LAN, address(1), NextHopId(1)).expect("memory");
        writer.insert(LAN, address(2), NextHopId(2)).expect("memory");
        writer.remove(LAN, address(1));
        writer.reclaim(published.grace());
        reader.join().expect("reader");
    });
}
