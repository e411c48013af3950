// SPDX-License-Identifier: MIT
//! The table of neighbors: against a map that does the same slowly, after every change; and under a reader.
//! `PERIGEE_FUZZ` multiplies the number of changes, `PERIGEE_FUZZ_SEED` repeats a run.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use perigee_fib::synth::Random;
use perigee_fib::{FibWriter, Grace, NeighborTable, NeighborTableWriter, NextHopId, Published};
use perigee_net::{InterfaceId, MacAddr, Prefix, Route, RouteSource, RouteTarget};

type Key = (InterfaceId, IpAddr);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

/// Random numbers, from a seed that is printed.
fn random() -> Random {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("PERIGEE_FUZZ_SEED={seed}");
    Random::new(seed)
}

/// One of `range` addresses of each family on each of three links. An IPv4 address and an IPv6 address of the same
/// number are different neighbors.
fn key(random: &mut Random, range: u64) -> Key {
    let number = random.bits() % range;
    let address = match random.bits() % 3 {
        0 => Ipv4Addr::from_bits(0x0a00_0000 + number as u32).into(),
        1 => Ipv6Addr::from_bits(0x0a00_0000 + u128::from(number)).into(),
        _ => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 60).into(),
    };
    (InterfaceId(random.bits() as u16 % 3), address)
}

/// Looks each key up, alone and with all others of its family.
fn check(table: &NeighborTable, expected: &BTreeMap<Key, NextHopId>, keys: &[Key]) {
    let id = |key: &Key| expected.get(key).copied();
    for key in keys {
        assert_eq!(table.find(key.0, key.1), id(key), "{key:?}");
    }
    let mut family = (Vec::new(), Vec::new(), Vec::new());
    let mut other = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        match key.1 {
            IpAddr::V4(v4) => {
                family.0.push(key.0.0);
                family.1.push(v4.to_bits());
                family.2.push(id(key).unwrap_or(NextHopId::NO_ROUTE).0);
            }
            IpAddr::V6(v6) => {
                other.0.push(key.0.0);
                other.1.push(v6.to_bits());
                other.2.push(id(key).unwrap_or(NextHopId::NO_ROUTE).0);
            }
        }
    }
    let mut found = vec![u32::MAX; family.0.len()];
    table.lookup_batch(&family.0, &family.1, &mut found);
    assert_eq!(found, family.2);
    let mut found = vec![u32::MAX; other.0.len()];
    table.lookup_batch(&other.0, &other.1, &mut found);
    assert_eq!(found, other.2);
}

/// Tables of all fillings, with periods in which more is added than removed and the reverse.
#[test]
fn the_table_agrees_with_a_map_after_every_change() {
    let mut random = random();
    let changes = 40_000 * number("PERIGEE_FUZZ").unwrap_or(1);
    let (mut writer, mut expected) = (NeighborTableWriter::with_slots(4), BTreeMap::new());
    let (mut epoch, mut most) = (0, 0);
    for change in 0..changes {
        let key = key(&mut random, 300);
        let grows = change / 3000 % 2 == 0;
        if random.bits() % 10 < if grows { 7 } else { 3 } {
            let id = NextHopId(random.bits() as u32 % NextHopId::MAX + 1);
            assert_eq!(writer.insert(key.0, key.1, id), Ok(expected.insert(key, id)));
        } else {
            assert_eq!(writer.remove(key.0, key.1), expected.remove(&key));
        }
        match random.bits() % 20 {
            0 => writer.fit(),
            // Readers are behind by one epoch or by none.
            1..4 => {
                epoch += 1;
                writer.reclaim(Grace { epoch, passed: epoch - random.bits() % 2 });
            }
            _ => {}
        }
        assert_eq!(writer.len(), expected.len());
        let keys: Vec<Key> = (0..10).map(|_| self::key(&mut random, 300)).chain([key]).collect();
        check(writer.reader(), &expected, &keys);
        if change % 1000 == 0 {
            let mut all: Vec<_> = writer.iter().map(|(interface, address, id)| ((interface, address), id)).collect();
            all.sort();
            assert!(all.iter().copied().eq(expected.iter().map(|(key, id)| (*key, *id))));
            most = most.max(all.len());
        }
    }
    assert!(most > 200, "only {most} neighbors at once");
}

#[test]
fn memory_comes_back_when_neighbors_go() {
    let mut writer = NeighborTableWriter::new();
    let empty = writer.memory();
    let address = |n: u32| Ipv4Addr::from_bits(0x0a00_0000 + n).into();
    for n in 0..65_000 {
        writer.insert(InterfaceId(1), address(n), NextHopId(5 + n)).expect("memory");
    }
    assert!(writer.memory() <= 65_000 * 32 * 6, "{} bytes", writer.memory());
    for n in 0..65_000 {
        assert_eq!(writer.remove(InterfaceId(1), address(n)), Some(NextHopId(5 + n)));
        writer.fit();
    }
    assert!(writer.is_empty());
    assert_eq!(writer.memory(), empty);
}

/// Neighbors that come and go, as many at a time as a table holds, do not fill it with slots that nobody uses.
#[test]
fn a_stream_of_neighbors_takes_no_more_than_those_that_are_there() {
    let mut writer = NeighborTableWriter::new();
    let address = |n: u32| Ipv6Addr::from_bits(u128::from(n) << 40).into();
    let mut most = 0;
    for n in 0..200_000u32 {
        writer.insert(InterfaceId(1), address(n), NextHopId(5)).expect("memory");
        if n >= 1000 {
            writer.remove(InterfaceId(1), address(n - 1000));
        }
        if n % 500 == 0 {
            let epoch = u64::from(n) + 1;
            writer.reclaim(Grace { epoch, passed: epoch });
            writer.fit();
        }
        most = most.max(writer.memory());
    }
    assert!(most <= 8192 * 32, "{most} bytes for 1000 neighbors");
}

/// 65,000 neighbors of a /64 or a /16 take no prefix, and nothing of the lookup structures.
#[test]
fn ipv6_host_routes_do_not_leak() {
    let mut writer = FibWriter::new(200_000).expect("memory");
    let lan = InterfaceId(3);
    for net in ["10.1.0.0/16", "2001:db8:1::/64"] {
        let connected = Route::new(RouteSource::Connected, RouteTarget::Connected { interface: lan });
        writer.insert(net.parse::<Prefix>().expect(net), connected).expect("room");
    }
    writer.commit().expect("room");
    let (memory, next_hops) = (writer.memory(), writer.next_hops().count());
    let addresses = |n: u32| -> [IpAddr; 2] {
        [
            Ipv4Addr::from_bits(0x0a01_0000 + n).into(),
            Ipv6Addr::from_bits(0x2001_0db8_0001_0000 << 64 | u128::from(n) << 32).into(),
        ]
    };
    let mac = MacAddr([2, 0, 0, 0, 0, 7]);
    let (mut epoch, mut turns) = (0, [true, false].into_iter().cycle());
    for known in [true, false, true, false] {
        assert_eq!(turns.next(), Some(known));
        for (n, address) in (1..65_001).flat_map(|n| addresses(n).map(|address| (n, address))) {
            writer.set_neighbor(lan, address, known.then_some(mac));
            writer.set_on_link(lan, address, known).expect("room");
            if n % 1000 == 0 {
                epoch += 1;
                writer.commit().expect("room");
                writer.reclaim(Grace { epoch, passed: epoch });
            }
        }
        assert_eq!((writer.rib().prefixes(), writer.memory()), (2, memory));
        assert_eq!(writer.on_link().count(), if known { 130_000 } else { 0 });
    }
    writer.commit().expect("room");
    writer.reclaim(Grace { epoch: epoch + 1, passed: epoch + 1 });
    assert_eq!((writer.next_hops().count(), writer.retired()), (next_hops, 0));
    for address in addresses(77) {
        assert!(writer.reader().lookup_flow(address, 0).1.on_link().is_some(), "{address} is not found any more");
    }
}

/// A neighbor's id is found under its own address alone, while slots pass from one to another, and tables are replaced.
#[test]
fn a_reader_finds_each_neighbor_or_none() {
    let mut random = random();
    let mut writer = NeighborTableWriter::with_slots(16);
    let mut published = Published::new(Arc::clone(writer.reader()));
    let mut subscriber = published.subscribe();
    let (ended, found) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let address = |n: u32| IpAddr::V6(Ipv6Addr::from_bits(u128::from(n) << 64 | u128::from(!n)));
    let reader = std::thread::spawn({
        let (ended, found) = (ended.clone(), found.clone());
        move || {
            while !ended.load(Ordering::Relaxed) {
                for n in 1..200 {
                    if let Some(id) = subscriber.find(InterfaceId(1), address(n)) {
                        assert_eq!(id, NextHopId(n), "another neighbor's");
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                }
                subscriber.refresh();
            }
        }
    });
    let mut changes = 0u64;
    while changes < 100_000 || found.load(Ordering::Relaxed) < 100_000 {
        let n = random.bits() as u32 % 199 + 1;
        // From nearly none to nearly all, so that tables of several sizes are made.
        let many = (changes / 5000).is_multiple_of(2);
        if random.bits() % 8 < if many { 5 } else { 2 } {
            writer.insert(InterfaceId(1), address(n), NextHopId(n)).expect("memory");
        } else {
            writer.remove(InterfaceId(1), address(n));
        }
        if changes.is_multiple_of(8) {
            writer.fit();
            if !Arc::ptr_eq(writer.reader(), &published.current()) {
                published.publish(Arc::clone(writer.reader()));
            }
            writer.reclaim(published.grace());
            published.reclaim();
        }
        changes += 1;
    }
    ended.store(true, Ordering::Relaxed);
    reader.join().expect("no wrong next hop");
}
