// SPDX-License-Identifier: MIT
//! Structures and the oracle, which are changed together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use perigee_fib::synth::Random;
use perigee_fib::{Grace, Lookup, LookupError, LookupWriter, NextHopId, Published, Subscriber};
use perigee_net::PrefixOf;

use crate::oracle::{Family, Oracle};

/// Where the prefixes of a run are drawn from: `base` with random bits where `varying` has ones.
pub struct Universe<A> {
    pub base: A,
    pub varying: A,
    pub lengths: &'static [u8],
}

impl<A: Family> Universe<A> {
    pub fn address(&self, random: &mut Random) -> A {
        self.base.vary(self.varying, random)
    }

    pub fn prefix(&self, random: &mut Random) -> PrefixOf<A> {
        let len = self.lengths[random.below(self.lengths.len() as u32) as usize];
        PrefixOf::truncated(self.address(random), len).expect("lengths are in range")
    }
}

/// Several writers that must behave alike, and the oracle for them.
pub struct Group<A> {
    pub writers: Vec<Box<dyn LookupWriter<A>>>,
    pub oracle: Oracle<A>,
    epoch: u64,
}

impl<A: Family> Group<A> {
    pub fn new(writers: Vec<Box<dyn LookupWriter<A>>>) -> Self {
        Self { writers, oracle: Oracle::new(), epoch: 0 }
    }

    pub fn load(&mut self, routes: &[(PrefixOf<A>, NextHopId)]) {
        self.oracle = Oracle::new();
        for (prefix, id) in routes {
            self.oracle.insert(*prefix, *id);
        }
        self.writers.iter_mut().for_each(|writer| writer.load(routes).expect("room"));
    }

    pub fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) {
        let expected = self.oracle.insert(prefix, id);
        for writer in &mut self.writers {
            assert_eq!(writer.insert(prefix, id), Ok(expected), "insert {prefix}");
            assert_eq!(writer.commit(), Ok(()), "insert {prefix}");
        }
    }

    pub fn remove(&mut self, prefix: PrefixOf<A>) {
        let missing = LookupError::Missing { prefix: prefix.into() };
        let expected = self.oracle.remove(prefix).ok_or(missing);
        for writer in &mut self.writers {
            assert_eq!(writer.remove(prefix), expected, "remove {prefix}");
            assert_eq!(writer.commit(), Ok(()), "remove {prefix}");
        }
    }

    /// Changes by prefix; a removal of what is not there is none.
    pub fn change_all(&mut self, run: &[(PrefixOf<A>, Option<NextHopId>)], context: &str) {
        for (prefix, id) in run {
            match id {
                Some(id) => self.oracle.insert(*prefix, *id),
                None => self.oracle.remove(*prefix),
            };
        }
        for writer in &mut self.writers {
            assert_eq!(writer.change_all(run), Ok(()), "{context}");
            assert_eq!(writer.commit(), Ok(()), "{context}");
        }
    }

    /// Reclaims with readers one epoch behind, so that memory is reused late, as in a running router.
    pub fn reclaim(&mut self) {
        self.epoch += 1;
        let grace = Grace { epoch: self.epoch, passed: self.epoch - 1 };
        self.writers.iter_mut().for_each(|writer| writer.reclaim(grace));
    }

    pub fn check(&self, addresses: &[A], context: &str) {
        let expected: Vec<_> = addresses.iter().map(|address| self.oracle.lookup(*address)).collect();
        for (at, writer) in self.writers.iter().enumerate() {
            let reader = writer.reader();
            let name = format!("{} {at}", reader.name());
            let mut ids = vec![u32::MAX; addresses.len()];
            reader.lookup_batch(addresses, &mut ids);
            let mut prefetched = vec![u32::MAX; addresses.len()];
            reader.prefetch_batch(addresses);
            reader.lookup_prefetched(addresses, &mut prefetched);
            assert_eq!(prefetched, ids, "{context}: prefetched lookups in {name}");
            for ((&address, &id), &expected) in addresses.iter().zip(&ids).zip(&expected) {
                assert_eq!(NextHopId(id), expected, "{context}: batch lookup of {} in {name}", address.ip());
                assert_eq!(reader.lookup(address), expected, "{context}: lookup of {} in {name}", address.ip());
            }
        }
    }

    /// Checks both ends of these prefixes, and the addresses next to them.
    pub fn check_edges(&self, prefixes: &[PrefixOf<A>], context: &str) {
        let edges = |prefix: &PrefixOf<A>| {
            let (first, last) = (prefix.addr(), prefix.last());
            [first, last, first.plus(-1), last.plus(1), first.plus(1), last.plus(-1)]
        };
        self.check(&prefixes.iter().flat_map(edges).collect::<Vec<_>>(), context);
    }
}

/// Ids of all sizes: mostly small ones and, if `large`, some around and over 16 bits.
pub fn id(random: &mut Random, large: bool) -> NextHopId {
    NextHopId(if large && random.below(8) == 0 { 65_530 + random.below(40) } else { random.below(40) })
}

/// Makes random changes; looks up the edges of each and random addresses, and at intervals the edges of all prefixes.
pub fn churn<A: Family>(writers: Vec<Box<dyn LookupWriter<A>>>, universe: &Universe<A>, steps: u32, seed: u64) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut group = Group::new(writers);
    for step in 0..steps {
        let context = format!("seed {seed}, step {step}");
        let known = group.oracle.prefixes();
        // More insertions at first, then more removals, so that dense tables are emptied too.
        let removes = if step < steps * 2 / 3 { 2 } else { 9 };
        let prefix = if !known.is_empty() && random.below(10) < removes {
            let prefix = known[random.below(known.len() as u32) as usize];
            group.remove(prefix);
            prefix
        } else {
            let prefix = universe.prefix(&mut random);
            let id = id(&mut random, seed.is_multiple_of(2));
            group.insert(prefix, id);
            prefix
        };
        group.check_edges(&[prefix], &context);
        let probes: Vec<A> = (0..random.below(150)).map(|_| universe.address(&mut random)).collect();
        group.check(&probes, &context);
        if random.below(4) == 0 {
            group.reclaim();
        }
        if step % 64 == 0 {
            group.check_edges(&group.oracle.prefixes(), &context);
        }
    }
    for prefix in group.oracle.prefixes() {
        group.remove(prefix);
    }
    let probes: Vec<A> = (0..600).map(|_| universe.address(&mut random)).collect();
    group.check(&probes, &format!("seed {seed}, emptied"));
    (0..2).for_each(|_| group.reclaim());
    assert!(group.writers.iter().all(|writer| writer.retired() == 0));
}

/// Makes random changes in runs of all lengths, by prefix; looks up the edges of each run, and at intervals all.
pub fn runs<A: Family>(writers: Vec<Box<dyn LookupWriter<A>>>, universe: &Universe<A>, steps: u32, seed: u64) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut group = Group::new(writers);
    for step in 0..steps {
        let context = format!("seed {seed}, run {step}");
        let known = group.oracle.prefixes();
        let removes = if step < steps * 2 / 3 { 3 } else { 8 };
        let longest = 1 << random.below(8);
        let mut run = std::collections::BTreeMap::new();
        for _ in 0..1 + random.below(longest) {
            let id = id(&mut random, seed.is_multiple_of(2));
            // Some of those that go are not there.
            let any = !known.is_empty() && random.below(8) > 0;
            match (random.below(10) < removes, any) {
                (true, true) => run.insert(known[random.below(known.len() as u32) as usize], None),
                (true, false) => run.insert(universe.prefix(&mut random), None),
                (false, _) => run.insert(universe.prefix(&mut random), Some(id)),
            };
        }
        let run: Vec<_> = run.into_iter().collect();
        group.change_all(&run, &context);
        let prefixes: Vec<_> = run.iter().map(|(prefix, _)| *prefix).collect();
        group.check_edges(&prefixes, &context);
        let probes: Vec<A> = (0..random.below(150)).map(|_| universe.address(&mut random)).collect();
        group.check(&probes, &context);
        if random.below(3) == 0 {
            group.reclaim();
        }
        if step % 16 == 0 {
            group.check_edges(&group.oracle.prefixes(), &context);
        }
    }
    group.check_edges(&group.oracle.prefixes(), &format!("seed {seed}, in the end"));
}

/// As [`runs`] for a structure that is often full: what it refuses is left out of the oracle as well.
pub fn runs_when_full<A: Family>(
    make: impl Fn() -> Box<dyn LookupWriter<A>>,
    universe: &Universe<A>,
    steps: u32,
    seed: u64,
) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut group = Group::new(vec![make()]);
    let mut refused = 0;
    for step in 0..steps {
        let known = group.oracle.prefixes();
        let mut run = std::collections::BTreeMap::new();
        for _ in 0..1 + random.below(60) {
            match known.is_empty() || random.below(10) < 7 {
                true => run.insert(universe.prefix(&mut random), Some(id(&mut random, false))),
                false => run.insert(known[random.below(known.len() as u32) as usize], None),
            };
        }
        let run: Vec<_> = run.into_iter().collect();
        let mut rest = &run[..];
        while !rest.is_empty() {
            let done = group.writers[0].change_all(rest);
            let (made, next) = match &done {
                Ok(()) => (rest.len(), rest.len()),
                Err((made, _)) => (*made, made + 1),
            };
            for (prefix, id) in &rest[..made] {
                match id {
                    Some(id) => group.oracle.insert(*prefix, *id),
                    None => group.oracle.remove(*prefix),
                };
            }
            refused += usize::from(done.is_err());
            rest = &rest[next..];
            let prefixes: Vec<_> = run.iter().map(|(prefix, _)| *prefix).collect();
            group.check_edges(&prefixes, &format!("seed {seed}, run {step}"));
        }
        group.reclaim();
    }
    group.check_edges(&group.oracle.prefixes(), &format!("seed {seed}, in the end"));
    assert!(refused > 0, "it was never full");
}

/// Loads whole tables of this universe and looks up every edge; then removes a part of each.
pub fn loads<A: Family>(writers: Vec<Box<dyn LookupWriter<A>>>, universe: &Universe<A>, sizes: &[u32], seed: u64) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut group = Group::new(writers);
    for &size in sizes {
        let routes: Vec<_> =
            (0..size).map(|_| (universe.prefix(&mut random), id(&mut random, size % 2 == 0))).collect();
        group.load(&routes);
        let context = format!("seed {seed}, {size} routes");
        group.check_edges(&group.oracle.prefixes(), &context);
        let probes: Vec<A> = (0..2000).map(|_| universe.address(&mut random)).collect();
        group.check(&probes, &context);
        for prefix in group.oracle.prefixes().into_iter().step_by(7) {
            group.remove(prefix);
            group.reclaim();
        }
        group.check_edges(&group.oracle.prefixes(), &context);
        group.check(&probes, &context);
    }
}

/// One change in a tiny universe: an insertion (with an id) or a removal.
pub type Step = (u32, u8, Option<u32>);

/// Makes these changes, whose prefixes come from a tiny universe, so that a failing case shrinks well.
pub fn shrinkable<A: Family>(
    writers: Vec<Box<dyn LookupWriter<A>>>,
    steps: &[Step],
    prefix: impl Fn(u32, u8) -> PrefixOf<A>,
) {
    let mut group = Group::new(writers);
    for (addr, len, change) in steps {
        let prefix = prefix(*addr, *len);
        match change {
            Some(id) => group.insert(prefix, NextHopId(*id)),
            None => group.remove(prefix),
        }
        group.reclaim();
        group.check_edges(&[prefix], "changed");
        group.check_edges(&group.oracle.prefixes(), "all");
    }
}

/// The ids of a prefix, by its number, so that another prefix's id is recognised.
fn own_ids(block: usize) -> [u32; 3] {
    [100, 101, 102].map(|id| id + 4 * block as u32)
}

/// The id of the prefix around all blocks.
const COVER: u32 = 50;

/// What the reader of [`flapping`] and its writer share.
#[derive(Default)]
struct Race {
    done: AtomicBool,
    /// In how many batches the reader found something else than in the one before.
    sightings: AtomicU32,
}

/// The reader of [`flapping`].
fn watch<A: Family>(
    mut subscriber: Subscriber<Arc<dyn Lookup<A>>>,
    blocks: &[PrefixOf<A>],
    race: &Race,
    context: &str,
) {
    let addresses: Vec<A> = blocks.iter().map(|block| block.addr()).collect();
    let (mut ids, mut last) = (vec![0; addresses.len()], vec![0; addresses.len()]);
    while !race.done.load(Ordering::Relaxed) {
        for _ in 0..64 {
            subscriber.lookup_batch(&addresses, &mut ids);
            for (at, &id) in ids.iter().enumerate() {
                let allowed = id == COVER || own_ids(at).contains(&id);
                assert!(allowed, "{context}: {} of block {at} got id {id}", addresses[at].ip());
            }
            race.sightings.fetch_add(u32::from(ids != last), Ordering::Relaxed);
            last.clone_from(&ids);
            subscriber.refresh();
        }
        thread::yield_now();
    }
}

/// A reader looks up the first address of each of these prefixes again and again, with a batch boundary after each
/// round, while they come, change and go: it sees the cover's id or one of the prefix's own, and never another
/// prefix's.
pub fn flapping<A: Family>(
    mut writer: Box<dyn LookupWriter<A>>,
    cover: PrefixOf<A>,
    blocks: &[PrefixOf<A>],
    seed: u64,
) {
    println!("seed {seed}");
    // Under ThreadSanitizer a tenth of that takes as long.
    const CHANGES: u32 = if cfg!(tsan) { 500 } else { 5_000 };
    const SIGHTINGS: u32 = 100;
    writer.insert(cover, NextHopId(COVER)).expect("room");
    writer.commit().expect("room");
    // As in a router: the readers' half is published again if a change has made a new one.
    let mut published = Published::new(writer.reader());
    let subscriber = published.subscribe();
    let race = Race::default();
    thread::scope(|scope| {
        let worker = scope.spawn(|| watch(subscriber, blocks, &race, &format!("seed {seed}")));
        let mut random = Random::new(seed);
        let mut present = vec![false; blocks.len()];
        let (mut made, mut tried) = (0, 0);
        while (made < CHANGES || race.sightings.load(Ordering::Relaxed) < SIGHTINGS) && !worker.is_finished() {
            tried += 1;
            assert!(tried < 2000 * CHANGES, "the reader found next to nothing: the test tested nothing");
            writer.reclaim(published.grace());
            let at = random.below(blocks.len() as u32) as usize;
            // Refused if all memory is in use or retired.
            let changed = if present[at] && random.below(2) == 0 {
                writer.remove(blocks[at]).map(|_| present[at] = false).is_ok()
            } else {
                let id = NextHopId(own_ids(at)[random.below(3) as usize]);
                writer.insert(blocks[at], id).map(|_| present[at] = true).is_ok()
            };
            match changed && writer.commit().is_ok() {
                true => made += 1,
                false => thread::yield_now(),
            }
            if !Arc::ptr_eq(&*published.current(), &writer.reader()) {
                published.publish(writer.reader());
            }
            published.reclaim();
        }
        race.done.store(true, Ordering::Relaxed);
        worker.join().expect("the reader found nothing wrong");
    });
}
