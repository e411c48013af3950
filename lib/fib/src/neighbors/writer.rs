// SPDX-License-Identifier: MIT
//! The control thread's side of the table of neighbors.
//!
//! ```text
//!            insert                remove              grace period
//!  Empty ─────────────► live ─────────────────► dead ───────────────► vacant ─► live, or
//!                                                                               empty: where an empty slot follows
//! ```
//!
//! At most half of the slots are not empty. The table is made again when it gets fuller than that, or when few of its
//! slots are live: then [`NeighborTableWriter::reader`] changes, and is to be published.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::{DEAD, EMPTY, FAMILY, ID_BITS, Key, LIVE, NeighborTable, Secret, Slot, VACANT, empty_slots};
use crate::lookup::table::Memory;
use crate::next_hop::NextHopId;
use crate::publish::grace::{Deferred, Grace};
use crate::publish::sync::atomic::Ordering;
use perigee_net::InterfaceId;

/// The allocator has refused the memory for a table of this many slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMemory(pub usize);

/// Puts neighbors into a [`NeighborTable`] and takes them out again, under its readers.
pub struct NeighborTableWriter {
    table: Arc<NeighborTable>,
    memory: Memory,
    secret: Secret,
    /// The smallest table.
    least: usize,
    live: usize,
    /// Slots that are not empty.
    taken: usize,
    /// Dead slots of the present table.
    dead: Deferred<usize>,
}

impl NeighborTableWriter {
    /// The fewest slots, unless another number is given.
    const LEAST: usize = 64;
    /// A table is made again before more of it than 1 / `MOST` is taken.
    const MOST: usize = 2;
    /// A table is made again when fewer of its slots than 1 / `FEWEST` are live.
    const FEWEST: usize = 16;

    /// An empty table.
    pub fn new() -> Self {
        Self::with_slots(Self::LEAST)
    }

    /// An empty table that has never fewer slots than `least`, a power of two from 2 on.
    pub fn with_slots(least: usize) -> Self {
        Self::within(Memory::Own, least).expect("memory for a small table")
    }

    pub(crate) fn within(memory: Memory, least: usize) -> Result<Self, TableMemory> {
        assert!(least >= 2 && least.is_power_of_two(), "{least} slots: expected a power of two");
        let secret = Secret::random();
        let slots = empty_slots(&memory, least).ok_or(TableMemory(least))?;
        let table = Arc::new(NeighborTable { slots, secret });
        Ok(Self { table, memory, secret, least, live: 0, taken: 0, dead: Deferred::new() })
    }

    /// The fewest slots, unless another number is given.
    pub(crate) fn in_memory(memory: Memory) -> Result<Self, TableMemory> {
        Self::within(memory, Self::LEAST)
    }

    /// The workers' half. Another one after an [`insert`](Self::insert) or a [`fit`](Self::fit) that has made the table
    /// again.
    pub fn reader(&self) -> &Arc<NeighborTable> {
        &self.table
    }

    /// How many neighbors there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Bytes of the table.
    pub fn memory(&self) -> usize {
        self.table.slots.len() * size_of::<Slot>()
    }

    /// Every neighbor with its next hop, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (InterfaceId, IpAddr, NextHopId)> + '_ {
        self.table.slots.iter().filter_map(|slot| {
            let what = slot.what.load(Ordering::Relaxed);
            let (high, low) = (slot.high.load(Ordering::Relaxed), slot.low.load(Ordering::Relaxed));
            let address = match what & FAMILY {
                0 => Ipv4Addr::from_bits(low as u32).into(),
                _ => Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into(),
            };
            let entry = (InterfaceId((what >> 24) as u16), address, NextHopId((what & ID_BITS) as u32));
            (what & LIVE != 0).then_some(entry)
        })
    }

    /// From now on the neighbor `address` on `interface` is found with the next hop `id`; returns the one it had
    /// before.
    ///
    /// # Errors
    /// There is no memory for a larger table; nothing has changed.
    pub fn insert(
        &mut self,
        interface: InterfaceId,
        address: IpAddr,
        id: NextHopId,
    ) -> Result<Option<NextHopId>, TableMemory> {
        let key = Key::of(interface, address);
        let what = key.scope | u64::from(id.0) & ID_BITS;
        let mut free = None;
        for at in self.sequence(key) {
            let slot = &self.table.slots[at];
            match slot.what.load(Ordering::Relaxed) {
                EMPTY => {
                    free = free.or(Some(at));
                    break;
                }
                VACANT => free = free.or(Some(at)),
                before if is(slot, before, key) => {
                    slot.what.store(what, Ordering::Release);
                    return Ok(Some(NextHopId((before & ID_BITS) as u32)));
                }
                _ => {}
            }
        }
        let empty = free.is_some_and(|at| self.table.slots[at].what.load(Ordering::Relaxed) == EMPTY);
        match free {
            Some(at) if !empty || (self.taken + 1) * Self::MOST <= self.table.slots.len() => {
                self.taken += usize::from(empty);
                fill(&self.table.slots[at], key, what);
            }
            _ => {
                self.make_again(self.live + 1)?;
                let empty = |at: &usize| self.table.slots[*at].what.load(Ordering::Relaxed) == EMPTY;
                let at = self.sequence(key).find(empty).expect("half of a new table is empty");
                self.taken += 1;
                fill(&self.table.slots[at], key, what);
            }
        }
        self.live += 1;
        Ok(None)
    }

    /// The neighbor is not found any more, though a reader may still hold its next hop; returns that, if there was one.
    pub fn remove(&mut self, interface: InterfaceId, address: IpAddr) -> Option<NextHopId> {
        let key = Key::of(interface, address);
        for at in self.sequence(key) {
            let slot = &self.table.slots[at];
            match slot.what.load(Ordering::Relaxed) {
                EMPTY => return None,
                what if is(slot, what, key) => {
                    slot.what.store(DEAD, Ordering::Release);
                    self.live -= 1;
                    self.dead.retire(at);
                    return Some(NextHopId((what & ID_BITS) as u32));
                }
                _ => {}
            }
        }
        None
    }

    /// Makes the table smaller if it has become much too large. To be called now and again; the new table is to be
    /// published.
    pub fn fit(&mut self) {
        let slots = self.table.slots.len();
        if slots > self.least && self.live * Self::FEWEST < slots {
            // Without memory for a smaller one the table stays as it is.
            self.make_again(self.live).unwrap_or_default();
        }
    }

    /// How many slots wait for [`reclaim`](Self::reclaim).
    pub fn retired(&self) -> usize {
        self.dead.len()
    }

    /// Makes slots usable again, except those that a reader may still be looking at.
    pub fn reclaim(&mut self, grace: Grace) {
        let slots = &self.table.slots;
        let mask = slots.len() - 1;
        let what = |at: usize| slots[at & mask].what.load(Ordering::Relaxed);
        for at in self.dead.reclaim(grace) {
            slots[at].what.store(VACANT, Ordering::Relaxed);
            // Where an empty slot follows, no search goes on behind this one, nor behind vacant ones right before it.
            let mut at = at;
            while what(at) == VACANT && what(at + 1) == EMPTY {
                slots[at & mask].what.store(EMPTY, Ordering::Relaxed);
                self.taken -= 1;
                at = at.wrapping_sub(1) & mask;
            }
        }
    }

    /// Copies everything into a table of the right size for `count` neighbors.
    fn make_again(&mut self, count: usize) -> Result<(), TableMemory> {
        // A quarter full, so that it is not soon made again.
        let size = (count * 2 * Self::MOST).next_power_of_two().max(self.least);
        let slots = empty_slots(&self.memory, size).ok_or(TableMemory(size))?;
        let table = NeighborTable { slots, secret: self.secret };
        for (interface, address, id) in self.iter() {
            let key = Key::of(interface, address);
            let empty = |at: &usize| table.slots[*at].what.load(Ordering::Relaxed) == EMPTY;
            let at = sequence(&table, key).find(empty).expect("a quarter of it is used");
            fill(&table.slots[at], key, key.scope | u64::from(id.0));
        }
        (self.table, self.taken, self.dead) = (Arc::new(table), self.live, Deferred::new());
        Ok(())
    }

    fn sequence(&self, key: Key) -> impl Iterator<Item = usize> + use<> {
        sequence(&self.table, key)
    }
}

impl Default for NeighborTableWriter {
    fn default() -> Self {
        Self::new()
    }
}

/// The slots that a key may be in, in the order of a search.
fn sequence(table: &NeighborTable, key: Key) -> impl Iterator<Item = usize> + use<> {
    let (mask, first) = (table.slots.len() - 1, table.secret.hash(key));
    (0..=mask).map(move |at| first.wrapping_add(at) & mask)
}

/// Whether a slot that says `what` is that of a key.
fn is(slot: &Slot, what: u64, key: Key) -> bool {
    let (high, low) = (slot.high.load(Ordering::Relaxed), slot.low.load(Ordering::Relaxed));
    what & !ID_BITS == key.scope && (high, low) == (key.high, key.low)
}

/// Puts a key into a slot that no reader compares with anything.
fn fill(slot: &Slot, key: Key, what: u64) {
    slot.high.store(key.high, Ordering::Relaxed);
    slot.low.store(key.low, Ordering::Relaxed);
    slot.what.store(what, Ordering::Release);
}
