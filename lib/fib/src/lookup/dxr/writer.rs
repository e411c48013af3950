// SPDX-License-Identifier: MIT
//! The control thread's half of DXR: encodes chunks, and stores their entries.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::layout::{LINE, Layout, array_words};
use super::{Dxr, NAMES};
use crate::lookup::blocks::{Block, Blocks};
use crate::lookup::compaction::Compaction;
use crate::lookup::simd::{Isa, prefetch};
use crate::lookup::slots::Slots;
use crate::lookup::{Lookup, LookupError, LookupWriter, check_id};
use crate::next_hop::NextHopId;
use crate::publish::grace::Grace;
use perigee_net::Prefix4;

/// A next hop has 16 bits.
const MAX_ID: u32 = u16::MAX as u32;
/// Words of ranges that insertions may fill, if an entry has bits for so many: 64 MiB of address space, which takes
/// memory only as it is used.
const MAX_WORDS: u32 = 1 << 24;
/// An insertion that finds no room has the table built again if more than one word in this many is free or retired.
const GAPS: u32 = 8;

/// The control thread's half.
pub struct DxrWriter {
    layout: Layout,
    shared: Arc<Dxr>,
    slots: Box<Slots>,
    blocks: Blocks,
    /// Words of ranges up to which insertions are accepted, and up to which removals make the table grow.
    limit: u32,
    most: u32,
    compaction: Compaction,
    /// Whether readers do not see a removal yet, for want of memory.
    behind: bool,
    /// Chunks of the current change and their new entries.
    staged: Vec<(usize, u32)>,
    scratch: Scratch,
}

/// The ranges of the chunk that is being encoded, kept for its memory.
#[derive(Default)]
struct Scratch {
    /// First address and next hop of each range.
    ranges: Vec<(u32, u32)>,
    /// The prefixes that contain the current address of the sweep, the innermost last: last address and next hop.
    open: Vec<(u32, u32)>,
}

impl Scratch {
    /// From `start` on the next hop is `id`, until another one is pushed.
    fn push(&mut self, start: u32, id: u32) {
        if self.ranges.last().is_some_and(|last| last.0 == start) {
            self.ranges.pop();
        }
        if self.ranges.last().is_none_or(|last| last.1 != id) {
            self.ranges.push((start, id));
        }
    }

    /// Ends the prefixes that end before `addr`, or all of them. `last` is the last address of the chunk.
    fn close(&mut self, addr: Option<u32>, last: u32, base: u32) {
        while let Some(&(end, _)) = self.open.last()
            && addr.is_none_or(|addr| end < addr)
        {
            self.open.pop();
            if end != last {
                self.push(end + 1, self.open.last().map_or(base, |open| open.1));
            }
        }
    }

    /// Works out the ranges of a chunk.
    fn sweep(&mut self, slots: &Slots, bits: u32, slot: usize) {
        let first = (slot as u32) << (32 - bits);
        let (last, base) = (first | u32::MAX >> bits, slots.base(slot));
        self.ranges.clear();
        self.ranges.push((first, base));
        for item in slots.list(slot) {
            self.close(Some(item.addr()), last, base);
            self.push(item.addr(), item.id());
            self.open.push((item.addr() | u32::MAX.checked_shr(item.len().into()).unwrap_or(0), item.id()));
        }
        self.close(None, last, base);
    }
}

impl DxrWriter {
    /// An empty table whose chunks are the prefixes of `bits` bits, 16 to 20.
    ///
    /// # Panics
    /// If `bits` is out of that range.
    pub fn new(bits: u8) -> Result<Self, LookupError> {
        Self::with(bits, MAX_WORDS, Isa::detect())
    }

    /// As [`new`](Self::new), for ranges of at most `limit` words of 32 bits, looked up by the instructions of `isa`.
    ///
    /// # Panics
    /// If `bits` is out of range, or this processor does not have the instructions.
    pub fn with(bits: u8, limit: u32, isa: Isa) -> Result<Self, LookupError> {
        assert!((16..=20).contains(&bits), "DXR has chunks of 16 to 20 bits");
        assert!(Isa::available().contains(&isa), "this processor has no {isa:?}");
        let slots = Slots::new(bits).ok_or(memory(bits.into()))?;
        let layout = Layout { bits: bits.into() };
        // What insertions leave is for removals, which split ranges too.
        let limit = limit.clamp(1, MAX_WORDS.min(1 << (layout.word_bits() - 1)));
        Self::around(Box::new(slots), layout, limit, limit, isa).map_err(|_| memory(bits.into()))
    }

    /// A writer for `slots` with nothing encoded yet, and with room for `room` words. Hands the slots back if memory is
    /// short.
    fn around(slots: Box<Slots>, layout: Layout, room: u32, limit: u32, isa: Isa) -> Result<Self, Box<Slots>> {
        let Some(shared) = Dxr::new(layout, room, isa) else { return Err(slots) };
        Ok(Self {
            layout,
            shared: Arc::new(shared),
            slots,
            blocks: Blocks::in_lines(LINE, room),
            limit,
            most: 1 << layout.word_bits(),
            compaction: Compaction::default(),
            behind: false,
            staged: Vec::new(),
            scratch: Scratch::default(),
        })
    }

    /// A table of `slots` with room for `room` words. Hands the slots back if they do not fit.
    fn build(
        slots: Box<Slots>,
        layout: Layout,
        room: u32,
        limit: u32,
        isa: Isa,
    ) -> Result<Self, (Box<Slots>, LookupError)> {
        let mut writer = Self::around(slots, layout, room, limit, isa).map_err(|slots| (slots, memory(layout.bits)))?;
        for slot in 0..writer.slots.len() {
            let Some(entry) = writer.encode(slot) else {
                let (prefixes, structure) = (writer.slots.prefixes(), name(layout.bits));
                return Err((writer.slots, LookupError::TableFull { prefixes, structure, what: WHAT, limit }));
            };
            writer.shared.entries[slot].store(entry, Ordering::Relaxed);
        }
        Ok(writer)
    }

    /// Builds the table again with room for `room` words. After an error the old one is unchanged.
    fn build_again(&mut self, room: u32) -> Result<(), LookupError> {
        let slots = std::mem::replace(&mut self.slots, Box::new(Slots::none()));
        match Self::build(slots, self.layout, room, self.limit, self.shared.isa) {
            Ok(built) => {
                *self = Self { most: self.most, ..built };
                Ok(())
            }
            Err((slots, error)) => {
                self.slots = slots;
                Err(error)
            }
        }
    }

    /// Builds the table again with as much room as it takes: for a removal that has found none.
    fn grow(&mut self) -> Result<(), LookupError> {
        let mut room = self.limit;
        loop {
            match self.build_again(room) {
                Err(LookupError::TableFull { .. }) if room < self.most => room = (2 * room).min(self.most),
                done => return done,
            }
        }
    }

    /// Writes the ranges of a chunk where no reader looks, and returns its entry. `None` if there is no room.
    fn encode(&mut self, slot: usize) -> Option<u32> {
        if self.slots.list(slot).is_empty() {
            return Some(self.slots.base(slot));
        }
        self.scratch.sweep(&self.slots, self.layout.bits, slot);
        let ranges = &self.scratch.ranges[..];
        let starts = ranges.len() - 1;
        if starts == 0 {
            return Some(ranges[0].1);
        }
        let is_short = ranges.iter().all(|(start, id)| start & 0xff == 0 && *id <= 0xff);
        let width = if is_short { 1 } else { 2 };
        let counted = starts as u32 > self.layout.most_starts();
        let word = self.blocks.take(u32::from(counted) + array_words(starts, width))?;
        let mut to = self.shared.words[word as usize..].iter();
        if counted && let Some(header) = to.next() {
            header.store(starts as u32, Ordering::Relaxed);
        }
        let keys = ranges[1..].iter().map(|(start, _)| self.layout.key(*start, width));
        let (mut filled, mut bits) = (0u64, 0);
        for value in keys.chain(ranges.iter().map(|(_, id)| *id)) {
            filled |= u64::from(value) << bits;
            bits += 8 * width;
            if bits == 32 {
                to.next()?.store(filled as u32, Ordering::Relaxed);
                (filled, bits) = (0, 0);
            }
        }
        if bits > 0 {
            to.next()?.store(filled as u32, Ordering::Relaxed);
        }
        Some(self.layout.entry(word, starts, width))
    }

    /// Calls `release` for what the ranges of this entry occupy, if it has any.
    fn release(&mut self, entry: u32, release: fn(&mut Blocks, Block)) {
        if let Some(chunk) = self.layout.chunk(&self.shared.words, entry) {
            release(&mut self.blocks, chunk.block());
        }
    }

    /// Encodes chunks into `staged`, which is empty if there is no room.
    fn encode_all(&mut self, mut slots: impl Iterator<Item = usize>) -> Option<()> {
        let mut staged = std::mem::take(&mut self.staged);
        let encoded = slots.try_for_each(|slot| {
            staged.push((slot, self.encode(slot)?));
            Some(())
        });
        if encoded.is_none() {
            staged.drain(..).for_each(|(_, entry)| self.release(entry, Blocks::give_back));
        }
        self.staged = staged;
        encoded
    }

    /// Sets or removes the next hop of `prefix`. After an error nothing has changed.
    fn change(&mut self, prefix: Prefix4, id: Option<NextHopId>) -> Result<Option<NextHopId>, LookupError> {
        prefetch(&self.shared.entries[self.layout.slot(prefix.addr())]);
        let gone = self.slots.affected(prefix);
        let old = self.slots.set(prefix, id);
        self.compaction.changed();
        let slots = if id.is_some() { self.slots.affected(prefix) } else { gone };
        if self.encode_all(slots).is_none() {
            if id.is_none() {
                self.behind = self.grow().is_err();
            } else {
                self.make_room(prefix).inspect_err(|_| {
                    self.slots.set(prefix, old);
                })?;
            }
            return Ok(old);
        }
        let mut staged = std::mem::take(&mut self.staged);
        for (slot, entry) in staged.drain(..) {
            // Release: the ranges are written before their entry becomes visible, and a next hop before its id.
            let old = self.shared.entries[slot].swap(entry, Ordering::Release);
            self.release(old, Blocks::retire);
        }
        self.staged = staged;
        Ok(old)
    }

    /// For an insertion that has found no room: a table without gaps may have some. The old one remains with its
    /// readers.
    fn make_room(&mut self, prefix: Prefix4) -> Result<(), LookupError> {
        if self.blocks.touched() - self.blocks.used() <= self.limit / GAPS {
            let structure = name(self.layout.bits);
            return Err(LookupError::Full { prefix: prefix.into(), structure, what: WHAT, limit: self.limit });
        }
        self.build_again(self.limit).map_err(|error| error.because_of(prefix.into()))
    }

    /// Bytes of a table with so many words of ranges.
    fn bytes(&self, words: u32) -> usize {
        (self.shared.entries.len() + words as usize) * size_of::<u32>()
    }
}

impl LookupWriter<u32> for DxrWriter {
    fn reader(&self) -> Arc<dyn Lookup<u32>> {
        self.shared.clone()
    }

    fn view(&self) -> &dyn Lookup<u32> {
        &*self.shared
    }

    fn load(&mut self, routes: &[(Prefix4, NextHopId)]) -> Result<(), LookupError> {
        let bits = self.layout.bits;
        routes.iter().try_for_each(|(_, id)| check_id(name(bits), *id, MAX_ID))?;
        let slots = Box::new(Slots::load(bits as u8, routes).ok_or(memory(bits))?);
        let built = Self::build(slots, self.layout, self.limit, self.limit, self.shared.isa);
        *self = Self { most: self.most, ..built.map_err(|(_, error)| error)? };
        Ok(())
    }

    fn insert(&mut self, prefix: Prefix4, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        check_id(name(self.layout.bits), id, MAX_ID)?;
        self.change(prefix, Some(id))
    }

    fn remove(&mut self, prefix: Prefix4) -> Result<NextHopId, LookupError> {
        self.slots.check_present(prefix)?;
        Ok(self.change(prefix, None)?.unwrap_or(NextHopId::NO_ROUTE))
    }

    fn commit(&mut self) -> Result<(), LookupError> {
        if self.behind {
            return self.grow();
        }
        if self.compaction.is_due(self.slots.prefixes(), self.memory(), self.bytes(self.blocks.used())) {
            // If that fails the table stays as it is, which is correct too.
            let _ = self.build_again(self.limit);
        }
        Ok(())
    }

    fn uncommitted(&self) -> bool {
        self.behind
    }

    fn reclaim(&mut self, grace: Grace) {
        self.blocks.reclaim(grace);
    }

    fn retired(&self) -> usize {
        self.blocks.retired()
    }

    fn memory(&self) -> usize {
        self.bytes(self.blocks.touched())
    }
}

/// What runs out.
const WHAT: &str = "words of ranges";

fn name(bits: u32) -> &'static str {
    NAMES[bits as usize - 16]
}

fn memory(bits: u32) -> LookupError {
    LookupError::Memory { structure: name(bits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_without_memory_becomes_visible_at_a_later_commit() {
        let mut writer = DxrWriter::with(16, 1, Isa::detect()).expect("memory");
        let prefix = |text: &str| text.parse::<Prefix4>().expect(text);
        let [a, b] = ["10.0.0.0/17", "10.0.128.0/17"].map(prefix);
        writer.load(&[(a, NextHopId(1)), (b, NextHopId(2))]).expect("one word");
        // No room for the new word beside the old one, nor for a larger table.
        (writer.limit, writer.most) = (0, 0);
        assert_eq!(writer.remove(a), Ok(NextHopId(1)));
        assert!(writer.commit().is_err() && writer.uncommitted());
        assert_eq!(writer.reader().lookup(a.addr()), NextHopId(1), "readers see the state before");
        assert!(writer.remove(a).is_err(), "it is removed already");
        (writer.limit, writer.most) = (1, 1);
        assert_eq!((writer.commit(), writer.uncommitted()), (Ok(()), false));
        assert_eq!(writer.reader().lookup(a.addr()), NextHopId::NO_ROUTE);
        assert_eq!(writer.reader().lookup(b.addr()), NextHopId(2));
    }
}
