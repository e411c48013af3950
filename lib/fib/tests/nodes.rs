// SPDX-License-Identifier: MIT
//! Copies of every structure by NUMA node, compared with a plain map after every commit.
#![cfg(not(feature = "loom"))]

use perigee_fib::lookup::nodes::{PerNode, Place, read_copy};
use perigee_fib::synth::Random;
use perigee_fib::{Lookup, LookupError, LookupWriter, NextHopId, Published, Structure, structures};
use perigee_net::{Address, Prefix4, Prefix6, PrefixOf};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const COPIES: usize = 3;

/// A place that notes which copies were placed.
fn place() -> (Place, Arc<Mutex<Vec<usize>>>) {
    let placed = Arc::new(Mutex::new(Vec::new()));
    let note = placed.clone();
    let place: Place = Arc::new(move |copy, work: &mut dyn FnMut()| {
        note.lock().unwrap().push(copy);
        work();
    });
    (place, placed)
}

/// Prefixes that overlap, and addresses in and beside them.
trait Few: Address + std::hash::Hash {
    fn prefix(random: &mut Random) -> PrefixOf<Self>;
    fn address(random: &mut Random) -> Self;
}

impl Few for u32 {
    fn prefix(random: &mut Random) -> Prefix4 {
        let length = random.below(33) as u8;
        Prefix4::truncated(u32::address(random), length).unwrap()
    }

    fn address(random: &mut Random) -> u32 {
        0x0a01_0000 | random.below(4) << 14 | random.below(4) << 7 | random.below(4)
    }
}

impl Few for u128 {
    fn prefix(random: &mut Random) -> Prefix6 {
        let length = random.below(129) as u8;
        Prefix6::truncated(u128::address(random), length).unwrap()
    }

    fn address(random: &mut Random) -> u128 {
        let far = u128::from(random.below(4)) << 80 | u128::from(random.below(4)) << 64;
        0x2001_0db8 << 96 | far | u128::from(random.below(4))
    }
}

/// What each copy answers is what the map says.
fn check<A: Few>(reader: &dyn Lookup<A>, map: &HashMap<PrefixOf<A>, NextHopId>, random: &mut Random, what: &str) {
    let addresses: Vec<A> = (0..64).map(|_| A::address(random)).collect();
    let expected: Vec<u32> = addresses
        .iter()
        .map(|address| {
            let covering = map.iter().filter(|(prefix, _)| prefix.contains(*address));
            covering.max_by_key(|(prefix, _)| prefix.len()).map_or(NextHopId::NO_ROUTE.0, |(_, id)| id.0)
        })
        .collect();
    for copy in 0..COPIES + 1 {
        read_copy(copy);
        let mut ids = vec![0; addresses.len()];
        reader.lookup_batch(&addresses, &mut ids);
        assert_eq!(ids, expected, "{what}, copy {copy}");
        reader.prefetch_batch(&addresses);
        reader.lookup_prefetched(&addresses, &mut ids);
        assert_eq!(ids, expected, "{what}, copy {copy}");
        assert_eq!(reader.lookup(addresses[0]).0, expected[0], "{what}, copy {copy}");
    }
    read_copy(0);
}

fn follow<A: Few>(structure: &Structure<A>) {
    let (place, placed) = place();
    let mut writer = PerNode::new(COPIES, place, structure.new).unwrap();
    let (mut random, mut map) = (Random::new(11), HashMap::new());
    let what = format!("seed 11, {}", structure.name);
    let load: Vec<_> = (0..20).map(|i| (A::prefix(&mut random), NextHopId(NextHopId::FIRST_FREE + i))).collect();
    writer.load(&load).unwrap();
    map.extend(load);
    check(&*writer.reader(), &map, &mut random, &what);
    for round in 0..40 {
        for _ in 0..1 + random.below(4) {
            let prefix = A::prefix(&mut random);
            if random.below(3) == 0 {
                assert_eq!(writer.remove(prefix).ok(), map.remove(&prefix), "{what}");
            } else {
                let id = NextHopId(NextHopId::FIRST_FREE + random.below(9));
                assert_eq!(writer.insert(prefix, id).unwrap(), map.insert(prefix, id), "{what}");
            }
        }
        // The same changes of a run, sorted, each of another prefix.
        let mut run = BTreeMap::new();
        for _ in 0..random.below(6) {
            let id = (random.below(3) > 0).then(|| NextHopId(NextHopId::FIRST_FREE + random.below(9)));
            run.insert(A::prefix(&mut random), id);
        }
        let run: Vec<_> = run.into_iter().collect();
        writer.change_all(&run).unwrap();
        for (prefix, id) in run {
            match id {
                Some(id) => drop(map.insert(prefix, id)),
                None => drop(map.remove(&prefix)),
            }
        }
        writer.commit().unwrap();
        assert!(!writer.uncommitted());
        writer.reclaim(Published::new(()).grace());
        check(writer.view(), &map, &mut random, &format!("{what}, round {round}"));
    }
    assert_eq!(writer.following(), COPIES - 1);
    assert!((0..COPIES).all(|copy| placed.lock().unwrap().contains(&copy)));
    assert!(Arc::ptr_eq(&writer.reader(), &writer.reader()), "nothing has changed");
}

#[test]
fn all_copies_of_all_structures_follow() {
    structures::IPV4.iter().for_each(follow);
    structures::IPV6.iter().for_each(follow);
}

/// Copies made so far; the second one has no memory for more than three changes.
static MADE: AtomicUsize = AtomicUsize::new(0);

struct Short(Box<dyn LookupWriter<u32>>, usize);

impl LookupWriter<u32> for Short {
    fn reader(&self) -> Arc<dyn Lookup<u32>> {
        self.0.reader()
    }

    fn view(&self) -> &dyn Lookup<u32> {
        self.0.view()
    }

    fn load(&mut self, routes: &[(Prefix4, NextHopId)]) -> Result<(), LookupError> {
        self.0.load(routes)
    }

    fn insert(&mut self, prefix: Prefix4, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        self.1 = self.1.checked_sub(1).ok_or(LookupError::Missing { prefix: prefix.into() })?;
        self.0.insert(prefix, id)
    }

    fn remove(&mut self, prefix: Prefix4) -> Result<NextHopId, LookupError> {
        self.0.remove(prefix)
    }

    fn reclaim(&mut self, grace: perigee_fib::Grace) {
        self.0.reclaim(grace);
    }

    fn retired(&self) -> usize {
        self.0.retired()
    }

    fn memory(&self) -> usize {
        self.0.memory()
    }
}

fn short() -> Result<Box<dyn LookupWriter<u32>>, LookupError> {
    let changes = if MADE.fetch_add(1, Relaxed) == 1 { 3 } else { 6 };
    Ok(Box::new(Short((structures::IPV4[0].new)()?, changes)))
}

#[test]
fn a_copy_without_memory_is_given_up_and_its_readers_read_the_first() {
    let mut writer = PerNode::new(COPIES, place().0, short).unwrap();
    let (mut random, mut map) = (Random::new(5), HashMap::new());
    for n in 1..=6 {
        let (prefix, id) = (Prefix4::new(0x0a01_0000 | n << 7, 25).unwrap(), NextHopId(NextHopId::FIRST_FREE + n));
        writer.insert(prefix, id).unwrap();
        map.insert(prefix, id);
        assert_eq!(writer.following(), if n <= 3 { 2 } else { 1 });
        check(&*writer.reader(), &map, &mut random, &format!("seed 5, change {n}"));
    }
    // What the first copy refuses changes none.
    let refused = Prefix4::new(0x0a01_0000, 24).unwrap();
    assert!(writer.insert(refused, NextHopId(NextHopId::FIRST_FREE)).is_err());
    assert_eq!(writer.following(), 1);
    check(&*writer.reader(), &map, &mut random, "seed 5, refused");
}
