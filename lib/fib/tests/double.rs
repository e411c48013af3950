// SPDX-License-Identifier: MIT
//! Two copies of a structure that must not change under its readers: a copy that is held never changes, and what is
//! committed agrees with a plain map, whatever readers hold and however little room there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use perigee_fib::{Buffer, DoubleBuffered, Grace, Lookup, LookupError, LookupWriter, NextHopId, SingleBuffered};
use perigee_net::{Prefix4, PrefixOf};
use proptest::prelude::*;

/// By length and address; a lookup tries the longest first.
type Map = BTreeMap<(u8, u32), NextHopId>;

fn look_up(map: &Map, address: u32) -> NextHopId {
    let found = map.iter().rev().find(|((len, addr), _)| PrefixOf::new(*addr, *len).expect("valid").contains(address));
    found.map_or(NextHopId::NO_ROUTE, |(_, id)| *id)
}

const LARGEST_ID: u32 = 100;

/// A structure with little room: 4 prefixes at first, more when a larger one is made, at most `MOST`.
struct Small<const MOST: usize> {
    map: Map,
    room: usize,
}

fn small<const MOST: usize>(room: usize) -> Result<Small<MOST>, LookupError> {
    Ok(Small { map: Map::new(), room: room.clamp(4, MOST) })
}

impl<const MOST: usize> Lookup<u32> for Small<MOST> {
    fn name(&self) -> &'static str {
        "small"
    }
    fn lookup(&self, address: u32) -> NextHopId {
        look_up(&self.map, address)
    }
    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        addresses.iter().zip(ids).for_each(|(address, id)| *id = self.lookup(*address).0);
    }
}

impl<const MOST: usize> Buffer<u32> for Small<MOST> {
    fn set(&mut self, prefix: Prefix4, id: NextHopId) -> Result<(), LookupError> {
        let key = (prefix.len(), prefix.addr());
        if !self.map.contains_key(&key) && self.map.len() >= self.room {
            let (prefix, limit) = (prefix.into(), self.room as u32);
            return Err(LookupError::Full { prefix, structure: "small", what: "places", limit });
        }
        self.map.insert(key, id);
        Ok(())
    }
    fn unset(&mut self, prefix: Prefix4) -> Result<(), LookupError> {
        self.map.remove(&(prefix.len(), prefix.addr()));
        Ok(())
    }
    fn check(&self, id: NextHopId) -> Result<(), LookupError> {
        let refused = LookupError::NextHop { id: id.0, structure: "small", max: LARGEST_ID };
        if id.0 > LARGEST_ID { Err(refused) } else { Ok(()) }
    }
    fn room(&self) -> usize {
        self.room
    }
    fn may_grow(&self) -> bool {
        self.room < MOST
    }
    fn memory(&self) -> usize {
        self.room
    }
}

fn prefix(addr: u32, len: u8) -> Prefix4 {
    PrefixOf::truncated(addr, len).expect("in range")
}

/// What a reader finds for every address that a test uses.
fn seen(reader: &dyn Lookup<u32>) -> Vec<NextHopId> {
    (0..=32).map(|address| reader.lookup(address)).collect()
}

fn expected(map: &Map) -> Vec<NextHopId> {
    (0..=32).map(|address| look_up(map, address)).collect()
}

const GRACE: Grace = Grace { epoch: 1, passed: 1 };

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u8, u32),
    Remove(u32, u8),
    Commit,
    /// A reader is taken and held; or the one held longest is dropped.
    Hold,
    LetGo,
    Reclaim,
    Load(Vec<(u32, u8, u32)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (addr, len, id) = (0..32u32, 27..=32u8, 1..=LARGEST_ID);
    let route = (addr, len, id);
    let step = prop_oneof![
        6 => route.clone().prop_map(|(addr, len, id)| Step::Insert(addr, len, id)),
        3 => (0..32u32, 27..=32u8).prop_map(|(addr, len)| Step::Remove(addr, len)),
        4 => Just(Step::Commit),
        2 => Just(Step::Hold),
        2 => Just(Step::LetGo),
        1 => Just(Step::Reclaim),
        1 => prop::collection::vec(route, 0..6).prop_map(Step::Load),
    ];
    prop::collection::vec(step, 1..80)
}

/// With room for everything nothing is ever refused.
fn run_with_room(steps: &[Step]) {
    let mut writer = DoubleBuffered::new(small::<1000>).expect("memory");
    let mut map = Map::new();
    let mut held: Vec<(Arc<dyn Lookup<u32>>, Vec<NextHopId>)> = Vec::new();
    for step in steps {
        match step {
            Step::Insert(addr, len, id) => {
                let prefix = prefix(*addr, *len);
                let before = map.insert((*len, prefix.addr()), NextHopId(*id));
                assert_eq!(writer.insert(prefix, NextHopId(*id)), Ok(before));
            }
            Step::Remove(addr, len) => {
                let prefix = prefix(*addr, *len);
                let before = map.remove(&(*len, prefix.addr()));
                let removed = before.ok_or_else(|| LookupError::Missing { prefix: prefix.into() });
                assert_eq!(writer.remove(prefix), removed);
            }
            Step::Commit => {
                assert_eq!(writer.commit(), Ok(()));
                if held.is_empty() {
                    assert!(!writer.uncommitted(), "no reader is in the way");
                }
            }
            Step::Hold => {
                let reader = writer.reader();
                let contents = seen(&*reader);
                held.push((reader, contents));
            }
            Step::LetGo if held.is_empty() => {}
            Step::LetGo => drop(held.remove(0)),
            Step::Reclaim => {
                writer.reclaim(GRACE);
                if held.is_empty() {
                    assert_eq!(writer.retired(), 0);
                }
            }
            Step::Load(routes) => {
                let routes: Vec<_> =
                    routes.iter().map(|(addr, len, id)| (prefix(*addr, *len), NextHopId(*id))).collect();
                writer.load(&routes).expect("room");
                map = routes.iter().map(|(prefix, id)| ((prefix.len(), prefix.addr()), *id)).collect();
                assert!(!writer.uncommitted(), "a load does not wait for readers");
            }
        }
        for (reader, contents) in &held {
            assert_eq!(&seen(&**reader), contents, "a copy that is held has changed");
        }
        if matches!(step, Step::Commit | Step::Load(_)) && !writer.uncommitted() {
            assert_eq!(seen(&*writer.reader()), expected(&map), "after {step:?}");
        }
    }
    held.clear();
    assert_eq!(writer.commit(), Ok(()));
    assert_eq!(seen(&*writer.reader()), expected(&map));
}

/// With room for 6 a refusal changes nothing, what is noted becomes visible as soon as it fits, and readers lose
/// nothing.
fn run_without_room(steps: &[Step]) {
    let mut writer = DoubleBuffered::new(small::<6>).expect("memory");
    let mut map = Map::new();
    let mut held = None;
    for step in steps {
        match step {
            Step::Insert(addr, len, id) => {
                let prefix = prefix(*addr, *len);
                match writer.insert(prefix, NextHopId(*id)) {
                    Ok(before) => assert_eq!(map.insert((*len, prefix.addr()), NextHopId(*id)), before),
                    Err(error) => assert!(matches!(error, LookupError::Full { .. }), "{error}"),
                }
            }
            Step::Remove(addr, len) => {
                let prefix = prefix(*addr, *len);
                assert_eq!(writer.remove(prefix).ok(), map.remove(&(*len, prefix.addr())));
            }
            Step::Commit => {
                let done = writer.commit();
                assert!(done.is_ok() || map.len() > 6, "{done:?} with {} routes", map.len());
                if held.is_none() && map.len() <= 6 {
                    assert_eq!(seen(&*writer.reader()), expected(&map));
                }
            }
            Step::Hold => held = Some(writer.reader()),
            Step::LetGo => held = None,
            Step::Reclaim => writer.reclaim(GRACE),
            Step::Load(_) => {}
        }
    }
    drop(held);
    // With room for everything again and no reader in the way, everything becomes visible.
    while map.len() > 6 {
        let ((len, addr), id) = map.pop_first().expect("more than six");
        assert_eq!(writer.remove(prefix(addr, len)), Ok(id));
    }
    for _ in 0..2 {
        writer.commit().expect("room");
    }
    assert!(!writer.uncommitted());
    assert_eq!(seen(&*writer.reader()), expected(&map));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_committed_agrees_with_a_map(steps in steps()) {
        run_with_room(&steps);
    }

    #[test]
    fn nothing_is_lost_where_room_is_short(steps in steps()) {
        run_without_room(&steps);
    }
}

#[test]
fn a_next_hop_that_does_not_fit_is_refused_at_once() {
    let mut writer = DoubleBuffered::new(small::<6>).expect("memory");
    let reader = writer.reader();
    let (one, two) = (prefix(1, 32), prefix(2, 32));
    let refused = LookupError::NextHop { id: 101, structure: "small", max: 100 };
    assert_eq!(writer.insert(one, NextHopId(101)), Err(refused.clone()));
    writer.insert(one, NextHopId(1)).expect("fits");
    writer.commit().expect("the other copy is free");
    // Now it is not: `reader` holds it.
    assert_eq!(writer.insert(two, NextHopId(101)), Err(refused.clone()));
    assert_eq!(writer.load(&[(one, NextHopId(2)), (two, NextHopId(101))]), Err(refused));
    assert_eq!(writer.reader().lookup(1), NextHopId(1));
    assert_eq!(reader.lookup(1), NextHopId::NO_ROUTE);
}

#[test]
fn a_single_copy_refuses_changes_under_a_reader() {
    let mut writer = SingleBuffered::new(small::<6>).expect("memory");
    let one = prefix(1, 32);
    writer.insert(one, NextHopId(1)).expect("free");
    let reader = writer.reader();
    assert_eq!(writer.insert(one, NextHopId(2)), Err(LookupError::Busy { structure: "small" }));
    assert_eq!(writer.remove(one), Err(LookupError::Busy { structure: "small" }));
    assert_eq!(reader.lookup(1), NextHopId(1));
    drop(reader);
    for n in 2..=6 {
        writer.insert(prefix(n, 32), NextHopId(n)).expect("it grows");
    }
    assert!(matches!(writer.insert(prefix(7, 32), NextHopId(7)), Err(LookupError::Full { .. })));
    assert_eq!(writer.remove(one), Ok(NextHopId(1)));
    assert_eq!(writer.reader().lookup(6), NextHopId(6));
    writer.load(&[(one, NextHopId(9))]).expect("room");
    assert_eq!((writer.reader().lookup(1), writer.reader().lookup(6)), (NextHopId(9), NextHopId::NO_ROUTE));
}
