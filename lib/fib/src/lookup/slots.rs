// SPDX-License-Identifier: MIT
//! The control thread's copy of an IPv4 table that is divided into slots by its top bits: which prefixes reach into
//! each slot. BM19, DIRB and DXR encode one slot at a time from it.
//!
//! Prefixes longer than a slot's are in a sorted list per slot. Shorter ones are in a tree, and the longest of those
//! that cover a slot is its base. So a change touches one list or the bases of some slots, and a slot is encoded from
//! its base and its list alone.

use std::cmp::Ordering::Less;
use std::ops::Range;

use crate::lookup::LookupError;
use crate::lookup::simd::prefetch;
use crate::next_hop::NextHopId;
use crate::rib::tree::PrefixTree;
use perigee_net::Prefix4;

/// A prefix and its next hop in one word: address, 8 bits of length, 24 of id. Ordered by address, then shorter first,
/// so that painting them in order leaves the longest on top.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item(u64);

impl Item {
    fn new(prefix: Prefix4, id: NextHopId) -> Self {
        Self(u64::from(prefix.addr()) << 32 | u64::from(prefix.len()) << 24 | u64::from(id.0))
    }

    /// The first address.
    #[inline]
    pub fn addr(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The prefix length.
    #[inline]
    pub fn len(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// The next hop.
    #[inline]
    pub fn id(self) -> u32 {
        self.0 as u32 & NextHopId::MAX
    }

    /// The prefix, without its next hop.
    fn key(self) -> u64 {
        self.0 >> 24
    }
}

/// The prefixes of a table that has one slot per value of the first `bits` bits.
pub(crate) struct Slots {
    bits: u8,
    /// Prefixes of at most `bits` bits.
    short: PrefixTree<u32, NextHopId>,
    /// By slot: the longest of those that cover it, 8 bits of length and 24 of id.
    bases: Vec<u32>,
    /// By slot: the longer ones, sorted.
    lists: Vec<Vec<Item>>,
    count: usize,
}

impl Slots {
    /// No prefixes; `None` if memory is short.
    pub fn new(bits: u8) -> Option<Self> {
        let (mut bases, mut lists) = (Vec::new(), Vec::new());
        bases.try_reserve_exact(1 << bits).ok()?;
        lists.try_reserve_exact(1 << bits).ok()?;
        bases.resize(1 << bits, 0);
        lists.resize_with(1 << bits, Vec::new);
        Some(Self { bits, short: PrefixTree::new(), bases, lists, count: 0 })
    }

    /// A stand-in without any slots.
    pub fn none() -> Self {
        Self { bits: 0, short: PrefixTree::new(), bases: Vec::new(), lists: Vec::new(), count: 0 }
    }

    /// The prefixes of `routes`; of several routes with one prefix the last counts. `None` if memory is short.
    pub fn load(bits: u8, routes: &[(Prefix4, NextHopId)]) -> Option<Self> {
        let mut slots = Self::new(bits)?;
        for (prefix, id) in routes.iter().filter(|(prefix, _)| prefix.len() <= bits) {
            slots.short.insert(*prefix, *id);
        }
        // By address, then shorter first: the longest is painted last.
        for (prefix, id) in slots.short.iter() {
            slots.bases[range(bits, prefix)].fill(base(prefix.len(), *id));
        }
        for (prefix, id) in routes.iter().filter(|(prefix, _)| prefix.len() > bits) {
            let (list, item) = (&mut slots.lists[slot(bits, prefix.addr())], Item::new(*prefix, *id));
            // Most tables come sorted.
            match list.last().map_or(Less, |last| last.key().cmp(&item.key())) {
                Less => list.push(item),
                _ => drop(insert(list, item)),
            }
        }
        slots.count = slots.short.len() + slots.lists.iter().map(Vec::len).sum::<usize>();
        Some(slots)
    }

    /// Sets or removes the next hop of `prefix`; returns its previous one. [`affected`](Self::affected) says which
    /// slots need encoding: to be called after an insertion, and before a removal.
    pub fn set(&mut self, prefix: Prefix4, id: Option<NextHopId>) -> Option<NextHopId> {
        let old = if prefix.len() <= self.bits { self.set_short(prefix, id) } else { self.set_long(prefix, id) };
        self.count = self.count + usize::from(id.is_some()) - usize::from(old.is_some());
        old
    }

    fn set_short(&mut self, prefix: Prefix4, id: Option<NextHopId>) -> Option<NextHopId> {
        let len = prefix.len();
        let (old, new) = match id {
            Some(id) => (self.short.insert(prefix, id), base(len, id)),
            None => {
                let old = self.short.remove(prefix);
                let cover = self.short.covering(prefix).next();
                (old, cover.map_or(0, |(cover, id)| base(cover.len(), *id)))
            }
        };
        for slot in &mut self.bases[range(self.bits, prefix)] {
            let had = (*slot >> 24) as u8;
            if had == len || had < len && id.is_some() {
                *slot = new;
            }
        }
        old
    }

    fn set_long(&mut self, prefix: Prefix4, id: Option<NextHopId>) -> Option<NextHopId> {
        let slot = slot(self.bits, prefix.addr());
        prefetch(&self.bases[slot]);
        let list = &mut self.lists[slot];
        let item = Item::new(prefix, id.unwrap_or(NextHopId(0)));
        if id.is_some() {
            return insert(list, item);
        }
        let at = list.binary_search_by_key(&item.key(), |item| item.key()).ok()?;
        Some(NextHopId(list.remove(at).id()))
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix4) -> Option<NextHopId> {
        if prefix.len() <= self.bits {
            return self.short.get(prefix).copied();
        }
        let list = &self.lists[slot(self.bits, prefix.addr())];
        let key = Item::new(prefix, NextHopId(0)).key();
        list.binary_search_by_key(&key, |item| item.key()).ok().map(|at| NextHopId(list[at].id()))
    }

    /// Refuses a prefix that is not there.
    pub fn check_present(&self, prefix: Prefix4) -> Result<(), LookupError> {
        match self.get(prefix) {
            Some(_) => Ok(()),
            None => Err(LookupError::Missing { prefix: prefix.into() }),
        }
    }

    /// The slots in which `prefix` shows: those without a longer base. A change of its next hop does not alter them.
    pub fn affected(&self, prefix: Prefix4) -> Affected {
        let range = range(self.bits, prefix);
        if range.len() == 1 {
            return Affected::One(range);
        }
        let covered = range.filter(|slot| (self.bases[*slot] >> 24) as u8 <= prefix.len());
        Affected::Many(covered.collect::<Vec<_>>().into_iter())
    }

    /// The slot of a prefix that is in the list of one: longer than a slot's.
    pub fn slot_of_long(&self, prefix: Prefix4) -> Option<usize> {
        (prefix.len() > self.bits).then(|| slot(self.bits, prefix.addr()))
    }

    /// Prefetches what is known of a slot, but its list.
    pub fn prefetch(&self, slot: usize) {
        prefetch(&self.bases[slot]);
        prefetch(&self.lists[slot]);
    }

    /// Prefetches the beginning of a slot's list.
    pub fn prefetch_list(&self, slot: usize) {
        if let Some(first) = self.lists[slot].first() {
            prefetch(first);
        }
    }

    /// The next hop of the addresses in a slot that no prefix of its list covers.
    #[inline]
    pub fn base(&self, slot: usize) -> u32 {
        self.bases[slot] & NextHopId::MAX
    }

    /// The prefixes inside a slot, in the order in which they are to be painted.
    #[inline]
    pub fn list(&self, slot: usize) -> &[Item] {
        &self.lists[slot]
    }

    /// The largest next hop in use, and how many prefixes are longer than `len`.
    pub fn survey(&self, len: u8) -> (u32, u32) {
        let items = self.lists.iter().flatten();
        let long = items.clone().filter(|item| item.len() > len).count() as u32;
        let bases = self.bases.iter().map(|base| base & NextHopId::MAX).max();
        (items.map(|item| item.id()).max().max(bases).unwrap_or(0), long)
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.bases.len()
    }

    /// How many prefixes there are.
    pub fn prefixes(&self) -> usize {
        self.count
    }
}

/// Inserts an item into a sorted list; returns the previous next hop of its prefix.
fn insert(list: &mut Vec<Item>, item: Item) -> Option<NextHopId> {
    match list.binary_search_by_key(&item.key(), |item| item.key()) {
        Ok(at) => Some(NextHopId(std::mem::replace(&mut list[at], item).id())),
        Err(at) => {
            list.insert(at, item);
            None
        }
    }
}

/// See [`Slots::affected`].
#[derive(Clone)]
pub(crate) enum Affected {
    One(Range<usize>),
    Many(std::vec::IntoIter<usize>),
}

impl Iterator for Affected {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Self::One(range) => range.next(),
            Self::Many(slots) => slots.next(),
        }
    }
}

fn base(len: u8, id: NextHopId) -> u32 {
    u32::from(len) << 24 | id.0
}

fn slot(bits: u8, addr: u32) -> usize {
    (addr >> (32 - bits)) as usize
}

/// The slots that `prefix` reaches into.
fn range(bits: u8, prefix: Prefix4) -> Range<usize> {
    let first = slot(bits, prefix.addr());
    first..first + (1 << bits.saturating_sub(prefix.len()))
}
