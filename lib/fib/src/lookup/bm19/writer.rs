// SPDX-License-Identifier: MIT
//! The control thread's half of BM19: encodes slots into nodes and leaves, shares equal arrays of leaves, and grows.

mod several;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Bm19, EXTENDED, GROUP, NAME, NARROW_MAX, PLACES};
use crate::lookup::blocks::{Block, Blocks};
use crate::lookup::compaction::Compaction;
use crate::lookup::simd::ipv4::Nodes;
use crate::lookup::simd::{Isa, prefetch};
use crate::lookup::slots::{Item, Slots};
use crate::lookup::table::Memory;
use crate::lookup::{Arena, Lookup, LookupError, LookupWriter, check_id, fit, one_by_one};
use crate::next_hop::NextHopId;
use crate::publish::grace::Grace;
use perigee_net::Prefix4;

/// A slot is a /19.
const BITS: u8 = 19;
/// Limits of the index of a leaf and of the number of a group.
const MAX_LEAVES: u32 = 1 << 30;
const MAX_GROUPS: u32 = 1 << 21;
/// Leaves and groups that an empty table has room for.
const MIN_LEAVES: u32 = 1 << 12;
const MIN_GROUPS: u32 = 1 << 10;

/// The control thread's half.
pub struct Bm19Writer {
    shared: Arc<Bm19>,
    slots: Box<Slots>,
    leaves: Blocks,
    groups: Blocks,
    /// By first leaf: how many further nodes share this array of leaves; and whether there are any.
    sharers: HashMap<u32, u32>,
    is_shared: Bits,
    /// By slot: whether there may be groups.
    has_groups: Bits,
    isa: Isa,
    memory: Memory,
    /// How much room a larger table may have.
    limits: Room,
    compaction: Compaction,
    /// Whether readers do not see a removal yet, for want of memory.
    behind: bool,
    /// Slots of the current change and their new nodes.
    staged: Vec<(usize, u64)>,
    /// Empty, but when several changes are made: what was there before.
    before: Vec<Option<NextHopId>>,
    /// The slot that was encoded last, and the leaf of each of its /24.
    places: (usize, [u32; PLACES]),
}

/// Bits that are cheaper to test than the maps they stand for.
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn get(&self, at: u32) -> bool {
        self.0[at as usize / 64] >> (at % 64) & 1 != 0
    }

    fn set(&mut self, at: u32, to: bool) {
        let word = &mut self.0[at as usize / 64];
        *word = *word & !(1 << (at % 64)) | u64::from(to) << (at % 64);
    }
}

/// How many leaves and groups there is room for.
#[derive(Clone, Copy)]
struct Room {
    leaves: u32,
    groups: u32,
}

/// Why a slot could not be encoded.
enum NoRoom {
    /// The leaves are used up, or must become wider.
    Leaves,
    Groups,
}

impl Bm19Writer {
    /// An empty table.
    pub fn new() -> Result<Self, LookupError> {
        Self::with(Isa::detect(), MAX_LEAVES)
    }

    /// An empty table in memory that others read, too.
    pub fn in_arena(arena: &Arc<Arena>) -> Result<Self, LookupError> {
        Self::within(Memory::Arena(arena.clone()), Isa::detect(), MAX_LEAVES)
    }

    /// An empty table of at most `max_leaves` leaves, looked up by the instructions of `isa`.
    ///
    /// # Panics
    /// If the processor does not have the instructions.
    pub fn with(isa: Isa, max_leaves: u32) -> Result<Self, LookupError> {
        Self::within(Memory::Own, isa, max_leaves)
    }

    pub(crate) fn within(memory: Memory, isa: Isa, max_leaves: u32) -> Result<Self, LookupError> {
        assert!(Isa::available().contains(&isa), "this processor has no {isa:?}");
        let max_leaves = max_leaves.clamp(1, MAX_LEAVES);
        let slots = Box::new(Slots::new(BITS).ok_or(MEMORY)?);
        let limits = Room { leaves: max_leaves, groups: MAX_GROUPS };
        let room = Room { leaves: MIN_LEAVES.min(max_leaves), groups: MIN_GROUPS };
        Self::around(slots, memory, false, room, isa, limits).map_err(|_| MEMORY)
    }

    /// A writer for `slots` with nothing encoded yet. Hands the slots back if memory is short.
    fn around(
        slots: Box<Slots>,
        memory: Memory,
        wide: bool,
        Room { leaves, groups }: Room,
        isa: Isa,
        limits: Room,
    ) -> Result<Self, Box<Slots>> {
        let Some(shared) = Bm19::new(&memory, wide, leaves, groups, isa) else { return Err(slots) };
        let (is_shared, has_groups) = (Bits::new(leaves as usize), Bits::new(1 << BITS));
        let (shared, leaves, groups) = (Arc::new(shared), Blocks::new(0, leaves), Blocks::new(0, groups));
        let (sharers, staged, before, places) = (HashMap::new(), Vec::new(), Vec::new(), (usize::MAX, [0; PLACES]));
        Ok(Self {
            shared,
            slots,
            leaves,
            groups,
            sharers,
            is_shared,
            has_groups,
            isa,
            memory,
            limits,
            compaction: Compaction::default(),
            behind: false,
            staged,
            before,
            places,
        })
    }

    /// A table of `slots` with room for changes. Unused room costs no memory, as it is never touched.
    fn build(slots: Box<Slots>, memory: Memory, isa: Isa, limits: Room) -> Result<Self, (Box<Slots>, LookupError)> {
        // A prefix starts at most two runs.
        let leaves = (slots.prefixes() as u32).saturating_mul(4).max(MIN_LEAVES).min(limits.leaves);
        let (max_id, long) = slots.survey(24);
        let groups = (2 * long + MIN_GROUPS).min(limits.groups);
        let wide = max_id > NARROW_MAX || groups > NARROW_MAX;
        let mut writer =
            Self::around(slots, memory, wide, Room { leaves, groups }, isa, limits).map_err(|slots| (slots, MEMORY))?;
        let mut arrays: HashMap<u64, Block> = HashMap::new();
        for slot in 0..writer.slots.len() {
            if writer.slots.base(slot) == 0 && writer.slots.list(slot).is_empty() {
                // Its node is zero already.
                continue;
            }
            let node = match writer.encode(slot) {
                Ok(node) => node,
                Err(no_room) => {
                    let (what, limit) = match no_room {
                        NoRoom::Leaves => ("leaves", leaves),
                        NoRoom::Groups => ("groups of long prefixes", groups),
                    };
                    let error = full(writer.slots.prefixes(), what, limit);
                    return Err((writer.slots, error));
                }
            };
            let node = writer.share(node, &mut arrays);
            writer.shared.nodes[slot].store(node, Ordering::Relaxed);
        }
        Ok(writer)
    }

    /// Returns the node, changed to share an equal array of leaves if there is one already.
    fn share(&mut self, node: u64, arrays: &mut HashMap<u64, Block>) -> u64 {
        let Some(block) = block_of(node) else { return node };
        let leaves = || block.words().map(|at| self.shared.leaves.get(at));
        // Arrays whose hashes collide are not shared; nothing worse happens.
        let hash = leaves().fold(u64::from(block.len), |hash, leaf| {
            (hash.rotate_left(5) ^ u64::from(leaf)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let first = *arrays.entry(hash).or_insert(block);
        if first == block || !first.words().map(|at| self.shared.leaves.get(at)).eq(leaves()) {
            return node;
        }
        self.leaves.give_back(block);
        self.is_shared.set(first.start, true);
        *self.sharers.entry(first.start).or_insert(0) += 1;
        node & !u64::from(u32::MAX) | u64::from(first.start)
    }

    /// Makes the node of a slot and its leaves; leaves the leaf of each of its /24 in `places`.
    fn encode(&mut self, slot: usize) -> Result<u64, NoRoom> {
        let mut places = [self.slots.base(slot); PLACES];
        if self.slots.list(slot).is_empty() && places[0] <= self.shared.max() {
            self.places = (slot, places);
            return Ok(places[0].into());
        }
        let mut long = false;
        for item in self.slots.list(slot) {
            if item.len() > 24 {
                long = true;
                continue;
            }
            let first = (item.addr() >> 8) as usize % PLACES;
            match 1 << (24 - item.len()) {
                1 => places[first] = item.id(),
                count => places[first..first + count].fill(item.id()),
            }
        }
        if long {
            self.encode_groups(slot, &mut places)?;
        }
        self.places = (slot, places);
        let mut bitmap = 1u32;
        let mut runs = [places[0]; PLACES];
        let mut count = 1;
        for place in 1..PLACES {
            let differs = places[place] != places[place - 1];
            bitmap |= u32::from(differs) << place;
            runs[count % PLACES] = places[place];
            count += usize::from(differs);
        }
        let fits = runs[..count].iter().all(|leaf| leaf & !EXTENDED <= self.shared.max());
        if count == 1 && fits {
            return Ok(places[0].into());
        }
        let Some(start) = fits.then(|| self.leaves.take(count as u32)).flatten() else {
            self.drop_groups(&runs[..count]);
            return Err(NoRoom::Leaves);
        };
        self.shared.leaves.set(start as usize, &runs[..count]);
        Ok(u64::from(bitmap) << 32 | u64::from(start))
    }

    /// Makes a group for each /24 with longer prefixes inside.
    #[cold]
    fn encode_groups(&mut self, slot: usize, places: &mut [u32; PLACES]) -> Result<(), NoRoom> {
        self.has_groups.set(slot as u32, true);
        let long: Vec<Item> = self.slots.list(slot).iter().filter(|item| item.len() > 24).copied().collect();
        let mut made = Vec::new();
        for items in long.chunk_by(|a, b| a.addr() >> 8 == b.addr() >> 8) {
            let place = &mut places[(items[0].addr() >> 8) as usize % PLACES];
            let mut group = [*place; GROUP];
            for item in items {
                let first = (item.addr() & 0xff) as usize;
                group[first..first + (1 << (32 - item.len()))].fill(item.id());
            }
            let fits = group.iter().all(|id| *id <= self.shared.max());
            let Some(number) = fits.then(|| self.groups.take(1)).flatten() else {
                self.drop_groups(&made);
                return Err(if fits { NoRoom::Groups } else { NoRoom::Leaves });
            };
            self.shared.groups.set(number as usize * GROUP, &group);
            *place = EXTENDED | number;
            made.push(*place);
        }
        Ok(())
    }

    /// Frees groups that no reader has seen.
    fn drop_groups(&mut self, leaves: &[u32]) {
        for leaf in leaves.iter().filter(|leaf| **leaf & EXTENDED != 0) {
            self.groups.give_back(Block { start: leaf ^ EXTENDED, len: 1 });
        }
    }

    /// Calls `release` for every block that is used by this node of a slot alone.
    fn release(&mut self, slot: usize, node: u64, release: fn(&mut Blocks, Block)) {
        let block = block_of(node);
        if let Some(Block { start, .. }) = block.filter(|block| self.is_shared.get(block.start)) {
            let sharers = self.sharers.entry(start).or_insert(1);
            *sharers -= 1;
            if *sharers == 0 {
                self.sharers.remove(&start);
                self.is_shared.set(start, false);
            }
            return;
        }
        if self.has_groups.get(slot as u32) {
            let leaves = block.map_or(0..0, Block::words).map(|at| self.shared.leaves.get(at));
            let inline = block.is_none().then_some(node as u32);
            for leaf in leaves.chain(inline).filter(|leaf| leaf & EXTENDED != 0) {
                release(&mut self.groups, Block { start: leaf ^ EXTENDED, len: 1 });
            }
        }
        if let Some(block) = block {
            release(&mut self.leaves, block);
        }
    }

    /// Sets or removes the next hop of `prefix`, and calls `changed` for each slot in which that may show. After an
    /// error nothing has changed.
    pub(crate) fn change(
        &mut self,
        prefix: Prefix4,
        id: Option<NextHopId>,
        mut changed: impl FnMut(&Self, usize),
    ) -> Result<Option<NextHopId>, LookupError> {
        // All of these miss the cache: the misses should overlap.
        prefetch(&self.shared.nodes[(prefix.addr() >> 13) as usize]);
        let gone = self.slots.affected(prefix);
        let old = self.slots.set(prefix, id);
        self.compaction.changed();
        let slots = if id.is_some() { self.slots.affected(prefix) } else { gone };
        if self.encode_all(slots.clone()).is_err() {
            // What was encoded last is discarded.
            self.places.0 = usize::MAX;
            if id.is_none() {
                self.behind = self.grow_beyond().is_err();
            } else {
                self.grow(prefix).inspect_err(|_| {
                    self.slots.set(prefix, old);
                })?;
            }
            slots.for_each(|slot| changed(self, slot));
            return Ok(old);
        }
        let mut staged = std::mem::take(&mut self.staged);
        for (slot, node) in staged.drain(..) {
            let old = self.shared.node(slot);
            // Release: the leaves are written before the node becomes visible, and a next hop before its id.
            self.shared.nodes[slot].store(node, Ordering::Release);
            changed(self, slot);
            self.release(slot, old, Blocks::retire);
        }
        self.staged = staged;
        self.places.0 = usize::MAX;
        Ok(old)
    }

    /// Encodes slots into `staged`, which is empty after an error.
    fn encode_all(&mut self, mut slots: impl Iterator<Item = usize>) -> Result<(), NoRoom> {
        let mut staged = std::mem::take(&mut self.staged);
        let encoded = slots.try_for_each(|slot| {
            staged.push((slot, self.encode(slot)?));
            Ok(())
        });
        if encoded.is_err() {
            staged.drain(..).for_each(|(slot, node)| self.release(slot, node, Blocks::give_back));
        }
        self.staged = staged;
        encoded
    }

    /// Makes a table with more leaves, as these are used up. After an error the old one is unchanged.
    fn grow(&mut self, prefix: Prefix4) -> Result<(), LookupError> {
        self.build_again(self.limits).map_err(|error| error.because_of(prefix.into()))
    }

    /// As [`grow`](Self::grow) for a removal, which must not fail: beyond the limits, if need be. If memory is short
    /// the old table is unchanged.
    fn grow_beyond(&mut self) -> Result<(), LookupError> {
        let mut room = self.limits;
        loop {
            match self.build_again(room) {
                Err(LookupError::TableFull { .. }) if room.leaves < MAX_LEAVES || room.groups < MAX_GROUPS => {
                    room.leaves = (2 * room.leaves).min(MAX_LEAVES);
                    room.groups = (2 * room.groups).min(MAX_GROUPS);
                }
                done => return done,
            }
        }
    }

    /// Builds the table again within these limits. After an error the old one is unchanged.
    fn build_again(&mut self, room: Room) -> Result<(), LookupError> {
        let slots = std::mem::replace(&mut self.slots, Box::new(Slots::none()));
        match Self::build(slots, self.memory.clone(), self.isa, room) {
            Ok(built) => {
                *self = Self { limits: self.limits, ..built };
                Ok(())
            }
            Err((slots, error)) => {
                self.slots = slots;
                Err(error)
            }
        }
    }

    /// Whether readers do not see a removal yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind
    }

    /// Makes removals visible that had to wait for memory, and gives memory back that changes have left unused.
    pub(crate) fn tidy(&mut self) -> Result<(), LookupError> {
        if self.behind {
            return self.grow_beyond();
        }
        let used = self.bytes(self.leaves.used(), self.groups.used());
        if self.compaction.is_due(self.slots.prefixes(), self.memory(), used) {
            // If that fails the table stays as it is, which is correct too.
            let _ = self.build_again(self.limits);
        }
        Ok(())
    }

    /// Bytes of a table with so many leaves and groups.
    fn bytes(&self, leaves: u32, groups: u32) -> usize {
        size_of::<Nodes>() + self.shared.leaves.bytes(leaves) + self.shared.groups.bytes(groups * GROUP as u32)
    }

    /// The limit of the number of leaves.
    pub(crate) fn max_leaves(&self) -> u32 {
        self.limits.leaves
    }

    /// Refuses a prefix that is not in the table.
    pub(crate) fn check_present(&self, prefix: Prefix4) -> Result<(), LookupError> {
        self.slots.check_present(prefix)
    }

    /// Where its tables are made.
    pub(crate) fn table_memory(&self) -> &Memory {
        &self.memory
    }

    /// The readers' half, in its concrete type.
    pub(crate) fn shared(&self) -> &Arc<Bm19> {
        &self.shared
    }

    /// The one leaf of a slot without a bitmap.
    pub(crate) fn alike(&self, slot: usize) -> Option<u32> {
        let node = self.shared.node(slot);
        (node >> 32 == 0).then_some(node as u32)
    }

    /// For each /24 of a slot its next hop or, if it has longer prefixes inside, a value with bit 31 set.
    pub(crate) fn places(&self, slot: usize) -> [u32; PLACES] {
        if self.places.0 == slot {
            return self.places.1;
        }
        let node = self.shared.node(slot);
        if node >> 32 == 0 {
            return [node as u32; PLACES];
        }
        let (bitmap, mut at) = ((node >> 32) as u32, node as u32 as usize);
        let mut leaf = 0;
        std::array::from_fn(|place| {
            if bitmap >> place & 1 != 0 {
                leaf = self.shared.leaves.get(at);
                at += 1;
            }
            leaf
        })
    }
}

impl LookupWriter<u32> for Bm19Writer {
    fn reader(&self) -> Arc<dyn Lookup<u32>> {
        self.shared.clone()
    }

    fn view(&self) -> &dyn Lookup<u32> {
        &*self.shared
    }

    fn load(&mut self, routes: &[(Prefix4, NextHopId)]) -> Result<(), LookupError> {
        routes.iter().try_for_each(|(_, id)| check_id(NAME, *id, NextHopId::MAX))?;
        let slots = Box::new(Slots::load(BITS, routes).ok_or(MEMORY)?);
        *self = Self::build(slots, self.memory.clone(), self.isa, self.limits).map_err(|(_, error)| error)?;
        Ok(())
    }

    fn insert(&mut self, prefix: Prefix4, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        check_id(NAME, id, NextHopId::MAX)?;
        self.change(prefix, Some(id), |_, _| ())
    }

    fn remove(&mut self, prefix: Prefix4) -> Result<NextHopId, LookupError> {
        self.check_present(prefix)?;
        Ok(self.change(prefix, None, |_, _| ())?.unwrap_or(NextHopId::NO_ROUTE))
    }

    fn change_all(&mut self, changes: &[(Prefix4, Option<NextHopId>)]) -> Result<(), (usize, LookupError)> {
        if !fit(changes) {
            return one_by_one(self, changes, 0);
        }
        Bm19Writer::change_all(self, changes, |_| (), |_, _| ())
    }

    fn commit(&mut self) -> Result<(), LookupError> {
        self.tidy()
    }

    fn uncommitted(&self) -> bool {
        self.behind
    }

    fn reclaim(&mut self, grace: Grace) {
        self.leaves.reclaim(grace);
        self.groups.reclaim(grace);
    }

    fn retired(&self) -> usize {
        self.leaves.retired() + self.groups.retired()
    }

    fn memory(&self) -> usize {
        self.bytes(self.leaves.touched(), self.groups.touched())
    }
}

const MEMORY: LookupError = LookupError::Memory { structure: NAME };

fn full(prefixes: usize, what: &'static str, limit: u32) -> LookupError {
    LookupError::TableFull { prefixes, structure: NAME, what, limit }
}

/// The array of leaves of a node, if it has one.
fn block_of(node: u64) -> Option<Block> {
    let bitmap = (node >> 32) as u32;
    (bitmap != 0).then(|| Block { start: node as u32, len: bitmap.count_ones() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_out_is_named() {
        let mut writer = Bm19Writer::new().expect("memory");
        writer.limits.groups = 3;
        // The table was made before the limit was lowered: the limit applies once it grows.
        let (mut number, mut refused) = (0, None);
        while refused.is_none() && number <= MIN_GROUPS {
            let host = Prefix4::host(number << 8 | 1);
            refused = writer.insert(host, NextHopId(7)).err();
            number += 1;
        }
        let host = Prefix4::host((number - 1) << 8 | 1);
        let expected = format!(
            "{host} does not fit: all 3 groups of long prefixes of bm19 are in use; remove routes, or use another structure"
        );
        assert_eq!(refused.map(|error| error.to_string()), Some(expected));
        assert_eq!(writer.reader().lookup(host.addr()), NextHopId::NO_ROUTE);
        assert_eq!(writer.reader().lookup(1), NextHopId(7));
    }
}
