// SPDX-License-Identifier: MIT
//! DPDK's routing tables against a plain map from (length, prefix) to next hop, alone and as a router has them: twice,
//! with readers that hold on to old copies.

mod common;

use perigee_dpdk::{Eal, fib};
use perigee_fib::synth::{self, Random};
use perigee_fib::{Buffer, Lookup, LookupError, NextHopId, Structure};
use perigee_net::{Address, PrefixOf};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

fn main() {
    common::run_with(
        1024,
        &[
            ("random_tables_alone", random_tables_alone),
            ("random_tables_twice", random_tables_twice),
            ("a_whole_table", a_whole_table),
            ("long_prefixes_come_and_go", long_prefixes_come_and_go),
            ("full", full),
            ("ids_that_do_not_fit", ids_that_do_not_fit),
            ("a_reader_is_never_disturbed", a_reader_is_never_disturbed),
            ("addresses_in_network_order", addresses_in_network_order),
            ("out_of_memory", out_of_memory),
            ("memory_is_as_computed", memory_is_as_computed),
        ],
    );
}

/// What the tests need to know of an address family.
trait Family: Address + Hash {
    fn of(bits: u128) -> Self;
    fn bits(self) -> u128;
}

impl Family for u32 {
    fn of(bits: u128) -> u32 {
        (bits >> 96) as u32
    }
    fn bits(self) -> u128 {
        u128::from(self) << 96
    }
}

impl Family for u128 {
    fn of(bits: u128) -> u128 {
        bits
    }
    fn bits(self) -> u128 {
        self
    }
}

/// The oracle.
struct Oracle<A>(BTreeMap<u8, HashMap<A, NextHopId>>);

impl<A: Family> Oracle<A> {
    fn new() -> Self {
        Self(BTreeMap::new())
    }

    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Option<NextHopId> {
        self.0.entry(prefix.len()).or_default().insert(prefix.addr(), id)
    }

    fn remove(&mut self, prefix: PrefixOf<A>) -> Option<NextHopId> {
        self.0.get_mut(&prefix.len())?.remove(&prefix.addr())
    }

    fn lookup(&self, address: A) -> u32 {
        let found = self.0.iter().rev().find_map(|(len, map)| map.get(&address.truncate(*len)));
        found.map_or(0, |id| id.0)
    }
}

fn random_bits(random: &mut Random) -> u128 {
    u128::from(random.bits()) << 64 | u128::from(random.bits())
}

/// A prefix among few: nested and adjacent ones are frequent, all lengths occur.
fn near<A: Family>(random: &mut Random) -> PrefixOf<A> {
    let len = match random.below(8) {
        0 => 0,
        1 => A::BITS,
        2 => random.below(u32::from(A::BITS) + 1) as u8,
        3..=5 => 20 + random.below(13) as u8,
        _ => 8 * (1 + random.below(u32::from(A::BITS) / 8) as u8),
    };
    // Bytes of few values, some bits in between.
    let mut bytes = [0u8; 16];
    bytes.fill_with(|| [0, 0, 1, 255][random.below(4) as usize]);
    let flipped = 1u128 << (127 - random.below(A::BITS.into()));
    let bits = u128::from_be_bytes(bytes) ^ if random.below(2) == 0 { flipped } else { 0 };
    PrefixOf::truncated(A::of(bits), len).expect("in range")
}

/// Both ends of a prefix, one inside, and the neighbors beyond them.
fn probes<A: Family>(prefix: PrefixOf<A>, random: &mut Random) -> Vec<A> {
    let first = prefix.addr().bits();
    let host_bits = u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
    let last = first | host_bits;
    let step = 1u128 << (128 - u32::from(A::BITS));
    [first, last, first | random_bits(random) & host_bits, first.wrapping_sub(step), last.wrapping_add(step)]
        .map(A::of)
        .to_vec()
}

fn check<A: Family>(reader: &dyn Lookup<A>, oracle: &Oracle<A>, addresses: &[A], what: &str) {
    let mut ids = vec![u32::MAX; addresses.len()];
    reader.lookup_batch(addresses, &mut ids);
    for (&address, &id) in addresses.iter().zip(&ids) {
        assert_eq!(id, oracle.lookup(address), "{}, {what}: {}", reader.name(), address.ip());
        assert_eq!(reader.lookup(address).0, id, "{}, {what}: {} alone", reader.name(), address.ip());
    }
}

/// Random changes; after each commit, everything that changed is checked. `hold`: how many old readers are held at
/// most.
fn random_changes<A: Family>(structure: &Structure<A>, seed: u64, changes: usize, ids: u32, hold: usize) {
    let mut random = Random::new(seed);
    let mut writer = (structure.new)().unwrap_or_else(|error| panic!("{}: {error}", structure.name));
    let mut oracle = Oracle::new();
    let mut all = Vec::new();
    let mut held = Vec::new();
    for step in 0..changes {
        let prefix = near::<A>(&mut random);
        let known = !all.is_empty() && random.below(2) == 0;
        let prefix = if known { all[random.below(all.len() as u32) as usize] } else { prefix };
        if random.below(5) < 2 {
            let removed = writer.remove(prefix);
            match oracle.remove(prefix) {
                Some(id) => assert_eq!(removed, Ok(id), "{} seed {seed} step {step}", structure.name),
                None => assert_eq!(removed, Err(LookupError::Missing { prefix: prefix.into() })),
            }
        } else {
            let id = NextHopId(1 + random.below(ids));
            let inserted = writer.insert(prefix, id).unwrap_or_else(|e| panic!("seed {seed} step {step}: {e}"));
            assert_eq!(inserted, oracle.insert(prefix, id), "{} seed {seed} step {step}", structure.name);
            all.push(prefix);
        }
        if random.below(4) > 0 {
            continue;
        }
        writer.commit().unwrap_or_else(|error| panic!("{error}"));
        let reader = writer.reader();
        if !writer.uncommitted() {
            let recent = all.iter().rev().take(20).chain([&prefix]);
            let addresses: Vec<A> = recent.flat_map(|prefix| probes(*prefix, &mut random)).collect();
            check(&*reader, &oracle, &addresses, &format!("seed {seed}, step {step}"));
        }
        if held.len() < hold && random.below(8) == 0 {
            held.push(reader);
        } else if random.below(4) == 0 {
            held.clear();
        }
    }
    held.clear();
    // The first brings the other copy up to date, the second adds what was changed meanwhile.
    writer.commit().expect("room");
    writer.commit().expect("room");
    assert!(!writer.uncommitted());
    let addresses: Vec<A> = all.iter().flat_map(|prefix| probes(*prefix, &mut random)).collect();
    check(&*writer.reader(), &oracle, &addresses, &format!("seed {seed}, at the end"));
    // All are removed: anything that removals leave behind is found now.
    for prefix in all {
        if oracle.remove(prefix).is_some() {
            writer.remove(prefix).expect("present");
        }
    }
    writer.commit().expect("nothing is added");
    check(&*writer.reader(), &oracle, &addresses, &format!("seed {seed}, empty"));
}

/// The first seed, another one each day, and how many there are.
fn seeds() -> (u64, u64) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let today = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400);
    (number("PERIGEE_FUZZ_SEED").unwrap_or_else(today), number("PERIGEE_FUZZ").unwrap_or(1))
}

fn random_tables(v4: &[Structure<u32>], v6: &[Structure<u128>], hold: usize) {
    let (first, times) = seeds();
    for seed in first..first + times {
        println!("    PERIGEE_FUZZ_SEED={seed}");
        for structure in v4 {
            // rte_fib1 has room for few long prefixes.
            let changes = if structure.name == "rte_fib1" { 1000 } else { 3000 };
            random_changes(structure, seed, changes, 100, hold);
        }
        v6.iter().for_each(|structure| random_changes(structure, seed, 3000, 100, hold));
    }
}

fn random_tables_alone(_: &Eal) {
    random_tables(fib::RAW4, fib::RAW6, 0);
}

fn random_tables_twice(_: &Eal) {
    random_tables(fib::IPV4, fib::IPV6, 2);
}

/// A table with the Internet's lengths, loaded at once.
fn a_whole_table(_: &Eal) {
    let seed = 7;
    println!("    seed {seed}");
    let routes: Vec<_> =
        synth::ipv4(20_000, seed).into_iter().map(|(prefix, hop)| (prefix, NextHopId(1 + hop % 100))).collect();
    for structure in fib::IPV4 {
        let mut writer = (structure.new)().expect("memory");
        let empty = writer.reader();
        writer.load(&routes).expect("room");
        assert!(!Arc::ptr_eq(&empty, &writer.reader()), "a new readers' half");
        let mut oracle = Oracle::new();
        for (prefix, id) in &routes {
            oracle.insert(*prefix, *id);
        }
        let mut random = Random::new(seed);
        let uniform: Vec<u32> = (0..50_000).map(|_| random.bits() as u32).collect();
        check(&*writer.reader(), &oracle, &uniform, "uniform");
        let edges: Vec<u32> = routes.iter().flat_map(|(prefix, _)| probes(*prefix, &mut random)).collect();
        check(&*writer.reader(), &oracle, &edges, "edges");
    }
}

/// DPDK's own count of groups goes wrong when a long prefix has its parent's next hop; that must not show.
fn long_prefixes_come_and_go(_: &Eal) {
    for structure in fib::RAW4 {
        let mut writer = (structure.new)().expect("memory");
        let parent = PrefixOf::truncated(0x0a00_0000, 8).expect("in range");
        writer.insert(parent, NextHopId(5)).expect("room");
        for round in 0..3000u32 {
            let long = PrefixOf::truncated(0x0a00_0000 | round << 8, 30).expect("in range");
            writer.insert(long, NextHopId(5)).unwrap_or_else(|error| panic!("{round}: {error}"));
            writer.insert(long, NextHopId(6)).unwrap_or_else(|error| panic!("{round}: {error}"));
            assert_eq!(writer.reader().lookup(long.addr()), NextHopId(6));
            writer.remove(long).expect("present");
            assert_eq!(writer.reader().lookup(long.addr()), NextHopId(5));
        }
    }
    for structure in fib::RAW6 {
        let mut writer = (structure.new)().expect("memory");
        writer.insert(PrefixOf::truncated(0x2001u128 << 112, 16).expect("in range"), NextHopId(5)).expect("room");
        for round in 0..3000u128 {
            let long = PrefixOf::truncated(0x2001u128 << 112 | round << 20, 126).expect("in range");
            writer.insert(long, NextHopId(5)).unwrap_or_else(|error| panic!("{round}: {error}"));
            writer.insert(long, NextHopId(6)).unwrap_or_else(|error| panic!("{round}: {error}"));
            assert_eq!(writer.reader().lookup(long.addr()), NextHopId(6), "{} {round}", structure.name);
            writer.remove(long).expect("present");
            assert_eq!(writer.reader().lookup(long.addr()), NextHopId(5), "{} {round}", structure.name);
        }
    }
}

/// rte_fib1 has few groups: what does not fit is refused, or reported by commit and stored as soon as there is room.
fn full(_: &Eal) {
    let structure = fib::IPV4.iter().find(|structure| structure.name == "rte_fib1").expect("a name of the list");
    let mut writer = (structure.new)().expect("memory");
    let mut oracle = Oracle::new();
    let long = |n: u32| PrefixOf::truncated(0x0a00_0000 | n << 8, 28).expect("in range");
    let mut n = 0;
    let error = loop {
        if let Err(error) = writer.insert(long(n), NextHopId(1 + n % 100)) {
            break error;
        }
        oracle.insert(long(n), NextHopId(1 + n % 100));
        n += 1;
    };
    println!("    {error}");
    assert!(matches!(error, LookupError::Full { structure: "rte_fib1", .. }), "{error}");
    assert!((100..=128).contains(&n), "{n} groups");
    let all: Vec<u32> = (0..n + 4).map(|n| long(n).addr()).collect();
    writer.commit().expect("all is there");
    check(&*writer.reader(), &oracle, &all, "full");

    // While a reader is in the way, nothing is refused, commit reports the shortage, and what was there stays.
    let reader = writer.reader();
    writer.remove(long(0)).expect("present");
    oracle.remove(long(0));
    writer.insert(long(n), NextHopId(7)).expect("there is room now");
    oracle.insert(long(n), NextHopId(7));
    writer.commit().expect("room");
    assert!(!Arc::ptr_eq(&reader, &writer.reader()));
    writer.insert(long(n + 1), NextHopId(8)).expect("only noted, as a reader is in the other copy");
    writer.remove(long(1)).expect("present");
    oracle.remove(long(1));
    writer.insert(long(n + 2), NextHopId(9)).expect("only noted");
    writer.commit().expect("not tried yet");
    assert!(writer.uncommitted());
    drop(reader);
    let error = writer.commit().expect_err("one too many");
    assert!(matches!(error, LookupError::Full { .. }), "{error}");
    assert!(writer.uncommitted() && writer.retired() > 0);
    let mut missing = 0;
    let now = writer.reader();
    for (n, id) in [(n + 1, NextHopId(8)), (n + 2, NextHopId(9))] {
        match now.lookup(long(n).addr()) {
            NextHopId::NO_ROUTE => missing += 1,
            found => assert_eq!((found, oracle.insert(long(n), found)), (id, None)),
        }
    }
    assert_eq!(missing, 1);
    check(&*now, &oracle, &all, "all but one");
    drop(now);
    // As soon as there is room, the prefix is there, without being inserted again.
    writer.remove(long(2)).expect("present");
    oracle.remove(long(2));
    oracle.insert(long(n + 1), NextHopId(8));
    oracle.insert(long(n + 2), NextHopId(9));
    writer.commit().expect("room for all");
    assert!(!writer.uncommitted());
    check(&*writer.reader(), &oracle, &all, "all");
}

fn ids_that_do_not_fit(_: &Eal) {
    let host = PrefixOf::host(1u32);
    for (name, max) in
        [("rte_lpm", NextHopId::MAX), ("rte_fib1", 127), ("rte_fib", 32767), ("rte_fib4", NextHopId::MAX)]
    {
        let structure = fib::IPV4.iter().find(|structure| structure.name == name).expect("a name of the list");
        let mut writer = (structure.new)().expect("memory");
        let error = writer.insert(host, NextHopId(max + 1)).expect_err("too large");
        assert_eq!(error, LookupError::NextHop { id: max + 1, structure: structure.name, max });
        assert!(writer.load(&[(host, NextHopId(max)), (host, NextHopId(max + 1))]).is_err());
        writer.insert(host, NextHopId(max)).expect("fits");
        writer.commit().expect("room");
        assert_eq!(writer.reader().lookup(1), NextHopId(max), "{name}");
        assert_eq!(writer.reader().lookup(2), NextHopId::NO_ROUTE, "{name}");
    }
    for (name, max) in [("rte_lpm6", (1 << 21) - 1), ("rte_fib6", NextHopId::MAX), ("rte_fib6_2", 32767)] {
        let structure = fib::IPV6.iter().find(|structure| structure.name == name).expect("a name of the list");
        let mut writer = (structure.new)().expect("memory");
        assert!(writer.insert(PrefixOf::host(1), NextHopId(max + 1)).is_err(), "{name}");
        writer.insert(PrefixOf::host(1), NextHopId(max)).expect("fits");
        writer.commit().expect("room");
        assert_eq!(writer.reader().lookup(1), NextHopId(max), "{name}");
    }
}

/// Threads that look up all the time while prefixes come and go: each sees the old or the new next hop.
fn a_reader_is_never_disturbed(_: &Eal) {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::mpsc::channel;
    let seed = 5;
    println!("    seed {seed}");
    for structure in fib::IPV4 {
        let mut writer = (structure.new)().expect("memory");
        writer.insert(PrefixOf::truncated(0, 0).expect("in range"), NextHopId(99)).expect("room");
        writer.commit().expect("room");
        // Each block of addresses has next hops of its own.
        let block = |n: u32| PrefixOf::truncated(0x0a00_0000 | n << 8, 28).expect("in range");
        let allowed = |n: u32, id: u32| id == 99 || id == 2 * n + 1 || id == 2 * n + 2;
        let (sender, receiver) = channel::<Arc<dyn Lookup<u32>>>();
        sender.send(writer.reader()).expect("the reader is there");
        let (done, seen) = (AtomicBool::new(false), AtomicU32::new(0));
        let mut swaps = 0;
        std::thread::scope(|scope| {
            let (done, seen) = (&done, &seen);
            let worker = scope.spawn(move || {
                let addresses: Vec<u32> = (0..40).map(|n| block(n).addr()).collect();
                let mut ids = vec![0; addresses.len()];
                let mut reader = receiver.recv().expect("a first reader");
                let mut last = ids.clone();
                while !done.load(Ordering::Relaxed) {
                    reader.lookup_batch(&addresses, &mut ids);
                    for (n, id) in (0..).zip(&ids) {
                        assert!(allowed(n, *id), "block {n} got {id}");
                    }
                    seen.fetch_add(u32::from(ids != last), Ordering::Relaxed);
                    last.clone_from(&ids);
                    if let Some(latest) = receiver.try_iter().last() {
                        reader = latest;
                    }
                }
            });
            let mut random = Random::new(seed);
            let mut present = [false; 40];
            let mut published = writer.reader();
            while (seen.load(Ordering::Relaxed) < 200 || swaps < 200) && !worker.is_finished() {
                for _ in 0..1 + random.below(8) {
                    let n = random.below(40);
                    if present[n as usize] && random.below(2) == 0 {
                        writer.remove(block(n)).expect("present");
                        present[n as usize] = false;
                    } else {
                        writer.insert(block(n), NextHopId(2 * n + 1 + random.below(2))).expect("room");
                        present[n as usize] = true;
                    }
                }
                writer.commit().expect("room");
                let now = writer.reader();
                if !Arc::ptr_eq(&now, &published) {
                    published = now.clone();
                    sender.send(now).expect("the reader is there");
                    swaps += 1;
                }
                std::thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
            worker.join().expect("the reader found nothing wrong");
        });
        println!("    {}: {swaps} swaps, {seen:?} batches with something new", structure.name);
    }
}

fn addresses_in_network_order(_: &Eal) {
    let seed = 3;
    println!("    seed {seed}");
    let mut random = Random::new(seed);
    let (mut lpm, mut fib) = (fib::Lpm6::new(0).expect("memory"), fib::Fib6::<2>::new(0).expect("memory"));
    let prefixes: Vec<PrefixOf<u128>> = (0..500).map(|_| near(&mut random)).collect();
    for (n, prefix) in prefixes.iter().enumerate() {
        lpm.set(*prefix, NextHopId(1 + n as u32)).expect("room");
        fib.set(*prefix, NextHopId(1 + n as u32)).expect("room");
    }
    let addresses: Vec<u128> = prefixes.iter().flat_map(|prefix| probes(*prefix, &mut random)).collect();
    let turned: Vec<[u8; 16]> = addresses.iter().map(|address| address.to_be_bytes()).collect();
    let mut ids = vec![[0; 4]; addresses.len()];
    let mut column = |at: usize, look_up: &dyn Fn(&mut [u32])| {
        let mut found = vec![0; addresses.len()];
        look_up(&mut found);
        ids.iter_mut().zip(found).for_each(|(row, id)| row[at] = id);
    };
    column(0, &|to| lpm.lookup_batch(&addresses, to));
    column(1, &|to| lpm.lookup_batch_be(&turned, to));
    column(2, &|to| fib.lookup_batch(&addresses, to));
    column(3, &|to| fib.lookup_batch_be(&turned, to));
    for (address, row) in addresses.iter().zip(ids) {
        assert!(row.iter().all(|id| *id == row[0]), "{}: {row:?}", address.ip());
    }
}

fn out_of_memory(_: &Eal) {
    let mut tables = Vec::new();
    let error = loop {
        match fib::Lpm4::new(0) {
            Ok(table) => tables.push(table),
            Err(error) => break error,
        }
    };
    assert_eq!(error, LookupError::Memory { structure: "rte_lpm" });
    println!("    {error}, after {} tables", tables.len());
    tables.truncate(2);
    let mut writer = (fib::RAW4[0].new)().expect("there is room again");
    writer.insert(PrefixOf::host(1), NextHopId(5)).expect("room");
    while let Ok(table) = fib::Lpm4::new(0) {
        tables.push(table);
    }
    let before = writer.reader();
    assert_eq!(writer.load(&[]), Err(LookupError::Memory { structure: "rte_lpm" }));
    assert!(Arc::ptr_eq(&before, &writer.reader()), "the old table stays");
    assert_eq!(before.lookup(1), NextHopId(5));
}

/// What launching a router reserves is what the tables take.
fn memory_is_as_computed(_: &Eal) {
    for routes in [0, 50_000] {
        let heaps = [
            ("rte_lpm", fib::Lpm4::new(routes).expect("memory").heap()),
            ("rte_fib1", fib::Fib4::<0>::new(routes).expect("memory").heap()),
            ("rte_fib", fib::Fib4::<1>::new(routes).expect("memory").heap()),
            ("rte_fib4", fib::Fib4::<2>::new(routes).expect("memory").heap()),
            ("rte_lpm6", fib::Lpm6::new(routes).expect("memory").heap()),
            ("rte_fib6", fib::Fib6::<2>::new(routes).expect("memory").heap()),
            ("rte_fib6_2", fib::Fib6::<1>::new(routes).expect("memory").heap()),
        ];
        for (name, heap) in heaps {
            let (heap, computed) = (heap as f64 / 1048576.0, fib::memory_mb(name, routes) as f64 / 4.0);
            println!("    {name}, {routes} routes: {heap:.1} MB of EAL's memory, {computed:.1} computed");
            assert!(heap <= computed && computed < 1.5 * heap + 4.0, "{name}");
        }
    }
}
