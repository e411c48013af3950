// SPDX-License-Identifier: MIT
//! Ranges for IPv6: an index of the first 16 bits, then indices of 4 to 16 bits where prefixes are dense, and lines of
//! up to eleven runs where they are not.
//!
//! A line is one cache line: the last 32-bit values of its runs, then their leaves, so that one load and one vector
//! compare finish a lookup. How many bits an index takes is chosen node by node, weighing what it saves against what it
//! costs (`build.rs`). The addresses of a batch descend side by side and read their lines last, all together: no branch
//! depends on a single address.
//!
//! A change rewrites what is below one word, in memory that no reader has, and stores the word. What was below it is
//! retired. The word is the deepest one around the prefix, in an index or in a wide line: so what is rewritten are at
//! most the lines of one tree, and what else lies inside the prefix. The default route is kept beside the table.
//!
//! A table whose changes have left gaps is built again as a whole, and so is one in which a removal finds no room:
//! removals do not fail.

mod build;
pub(crate) mod layout;
mod patch;
mod place;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::lookup::blocks::{Block, Blocks};
use crate::lookup::compaction::Compaction;
use crate::lookup::runs::{Run, runs, splice};
use crate::lookup::simd;
use crate::lookup::simd::Isa;
use crate::lookup::table::{Memory, Table};
use crate::lookup::{Arena, Lookup, LookupError, LookupWriter, Parts, Parts6, check_id, fit, one_by_one};
use crate::next_hop::NextHopId;
use crate::publish::grace::Grace;
use crate::rib::tree::PrefixTree;
use perigee_net::{Prefix6, PrefixOf};

use build::{At, Builder};
use layout::*;
use place::Place;

const NAME: &str = "range6";
/// Limit of lines of 64 bytes, the root's 4,096 included: 128 MiB of address space, which takes memory only as it is
/// used.
const MAX_LINES: u32 = 1 << 21;
/// Bits of the root, and so of the slots that are rebuilt after many changes.
const ROOT_BITS: u8 = MAX_STRIDE as u8;
/// A slot is rebuilt after this many changes plus half the number of its prefixes.
const PATIENCE: u32 = 64;
/// The most lines that words can lead to. A table grows up to this many if a removal needs room.
const ALL_LINES: u32 = LINE_MASK + 1;

/// Leaves are ids plus one: 0 means that only the default route matches.
fn leaf(id: NextHopId) -> u32 {
    id.0 + 1
}

/// The readers' half.
pub struct Range6 {
    /// Lines of 64 bytes, which are aligned, as a table starts at a page.
    words: Table<[AtomicU32]>,
    default: Table<[AtomicU32; 1]>,
    isa: Isa,
}

impl Range6 {
    #[inline(always)]
    fn default_id(&self) -> u32 {
        self.default[0].load(Ordering::Acquire)
    }
}

impl Lookup<u128> for Range6 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parts(&self) -> Option<Parts> {
        Some(Parts::V6(Parts6 { words: self.words.line()?, default: self.default.line()? }))
    }

    #[inline]
    fn lookup(&self, address: u128) -> NextHopId {
        match walk(&self.words, address) {
            0 => NextHopId(self.default_id()),
            leaf => NextHopId(leaf - 1),
        }
    }

    fn lookup_batch(&self, addresses: &[u128], ids: &mut [u32]) {
        simd::range6::range6(self.isa, &self.words, self.default_id(), addresses, ids);
        // A next hop is set before its id becomes visible.
        fence(Ordering::Acquire);
    }
}

/// How much a slot, a /16, has changed since it was built as a whole.
#[derive(Clone, Copy, Default)]
struct Wear {
    prefixes: u32,
    changes: u32,
}

/// The control thread's half.
pub struct Range6Writer {
    shared: Arc<Range6>,
    memory: Memory,
    /// Every prefix, from which parts of the table are rebuilt.
    prefixes: PrefixTree<u128, NextHopId>,
    blocks: Blocks,
    slots: HashMap<u16, Wear>,
    /// Lines up to which insertions are accepted, and up to which removals make the table grow.
    limit: u32,
    most: u32,
    compaction: Compaction,
    /// Whether readers do not see a removal yet, for want of memory.
    behind: bool,
    /// Lists that keep their memory: of words, of blocks, and of what a builder compares.
    fresh: Vec<u32>,
    taken: Vec<Block>,
    keys: Vec<u64>,
}

impl Range6Writer {
    /// An empty table.
    pub fn new() -> Result<Self, LookupError> {
        Self::with_lines(MAX_LINES, Isa::detect())
    }

    /// An empty table of at most `limit` lines of 64 bytes (at least 4,097, at most 2,097,152), looked up by the
    /// instructions of `isa`.
    ///
    /// # Panics
    /// If this processor does not have them.
    pub fn with_lines(limit: u32, isa: Isa) -> Result<Self, LookupError> {
        assert!(Isa::available().contains(&isa), "this processor lacks {isa:?}");
        Self::with_room(Memory::Own, limit.clamp(ROOT_LINES + 1, MAX_LINES), isa)
    }

    /// An empty table of at most `limit` lines in memory that others read, too.
    pub fn in_arena(arena: &Arc<Arena>, limit: u32) -> Result<Self, LookupError> {
        Self::with_room(Memory::Arena(arena.clone()), limit.clamp(ROOT_LINES + 1, MAX_LINES), Isa::detect())
    }

    fn with_room(memory: Memory, limit: u32, isa: Isa) -> Result<Self, LookupError> {
        let words = (limit + simd::range6::BEHIND) as usize * LINE;
        let refused = |_| LookupError::Memory { structure: NAME };
        let (words, default) = (memory.slice(words).map_err(refused)?, memory.table().map_err(refused)?);
        Ok(Self {
            shared: Arc::new(Range6 { words, default, isa }),
            memory,
            prefixes: PrefixTree::new(),
            blocks: Blocks::new(ROOT_LINES, limit),
            slots: HashMap::new(),
            limit,
            most: ALL_LINES,
            compaction: Compaction::default(),
            behind: false,
            fresh: Vec::new(),
            taken: Vec::new(),
            keys: Vec::new(),
        })
    }

    /// Lines of 64 bytes that changes have written so far, since the table was built as a whole: a measure of their
    /// cost.
    pub fn lines_written(&self) -> u64 {
        self.blocks.handed_out()
    }

    /// A table of these prefixes with room for `room` lines; otherwise as this one.
    fn copy(&self, prefixes: &PrefixTree<u128, NextHopId>, room: u32) -> Result<Self, LookupError> {
        let mut copy =
            Self { limit: self.limit, most: self.most, ..Self::with_room(self.memory.clone(), room, self.shared.isa)? };
        for (prefix, _) in prefixes.iter() {
            copy.slots.entry((prefix.addr() >> 112) as u16).or_default().prefixes += 1;
        }
        let default = PrefixOf::truncated(0, 0).expect("the shortest length");
        if let Some(id) = prefixes.get(default) {
            copy.shared.default[0].store(id.0, Ordering::Relaxed);
        }
        let longer = prefixes.iter().filter(|(prefix, _)| prefix.len() > 0);
        let runs = runs(default, 0, longer.map(|(prefix, &id)| (prefix, leaf(id))));
        let shared = copy.shared.clone();
        let mut builder =
            Builder { words: &shared.words, blocks: &mut copy.blocks, taken: Vec::new(), keys: Vec::new() };
        let root = &shared.words[..1 << MAX_STRIDE];
        let put = |cell: usize, word| root[cell].store(word, Ordering::Release);
        if builder.cells(&runs, At { depth: 0, level: 0 }, MAX_STRIDE, put).is_none() {
            let prefixes = prefixes.len();
            return Err(LookupError::TableFull { prefixes, structure: NAME, what: "lines", limit: self.limit });
        }
        Ok(copy)
    }

    /// Builds the table again, with room for `room` lines. After an error it is unchanged.
    fn build_again(&mut self, room: u32) -> Result<(), LookupError> {
        let copy = self.copy(&self.prefixes, room)?;
        let prefixes = std::mem::replace(&mut self.prefixes, PrefixTree::new());
        *self = Self { prefixes, ..copy };
        Ok(())
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

    /// The runs of a block, from the prefixes in it and around it.
    fn runs(&self, block: Prefix6) -> Vec<Run> {
        let mut inside = self.prefixes.covered_by(block).map(|(prefix, &id)| (prefix, leaf(id))).peekable();
        // A prefix that is the block itself covers all of it.
        let cover = if inside.peek().is_some_and(|(prefix, _)| *prefix == block) { 0 } else { self.cover(block) };
        runs(block, cover, inside)
    }

    /// The leaf of the longest prefix around a block, itself not counted; the default route has none.
    fn cover(&self, block: Prefix6) -> u32 {
        let around = self.prefixes.covering(truncated(block, block.len() - 1)).next();
        around.filter(|(prefix, _)| prefix.len() > 0).map_or(0, |(_, &id)| leaf(id))
    }

    /// The runs below these words after changes of prefixes within their block: where lines tell them, only those of
    /// the prefixes themselves are worked out again. Neighboring prefixes with one next hop are one run, so a line
    /// may stand for any number of them.
    fn runs_after(&self, place: &Place, changed: &[Change]) -> Vec<Run> {
        let known = if changed[0].0 == place.block { None } else { self.runs_in_lines(place) };
        let Some(known) = known else { return self.runs(place.block) };
        let mut parts: Vec<(Prefix6, Vec<Run>)> = Vec::new();
        for &(prefix, _) in changed {
            // What is inside a prefix before it is among that one's runs.
            if parts.last().is_none_or(|(last, _)| !last.contains(prefix.addr())) {
                parts.push((prefix, self.runs(prefix)));
            }
        }
        splice(&known, place.block.last(), parts.iter().map(|(prefix, runs)| (*prefix, &runs[..])))
    }

    /// Rewrites what is below these words, which has these runs, and returns how many runs there are. `None` if there
    /// is no room: nothing has changed then.
    fn rewrite(&mut self, place: &Place, runs: &[Run]) -> Option<usize> {
        let depth = place.block.len().into();
        let shared = self.shared.clone();
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.clear();
        let (taken, keys) = (std::mem::take(&mut self.taken), std::mem::take(&mut self.keys));
        let mut builder = Builder { words: &shared.words, blocks: &mut self.blocks, taken, keys };
        if place.bits == 0 {
            let old = shared.words[place.at].load(Ordering::Relaxed);
            fresh.extend(builder.word_again(runs, At { depth, level: place.level }, old));
        } else {
            let at = At { depth, level: place.level - 1 };
            let _ = builder.cells(runs, at, place.bits, |_, word| fresh.push(word));
        }
        let Builder { mut taken, keys, .. } = builder;
        let complete = fresh.len() == 1 << place.bits;
        if complete {
            for (word, fresh) in shared.words[place.at..].iter().zip(&fresh) {
                let old = word.load(Ordering::Relaxed);
                word.store(*fresh, Ordering::Release);
                retire(&shared.words, &mut self.blocks, old);
            }
        } else {
            taken.iter().for_each(|block| self.blocks.give_back(*block));
        }
        taken.clear();
        (self.fresh, self.taken, self.keys) = (fresh, taken, keys);
        complete.then_some(runs.len())
    }

    /// Lines that are free or retired, of all that have been in use.
    fn gaps(&self) -> u32 {
        self.blocks.touched() - self.blocks.used()
    }

    /// Lines that there are besides the root's.
    fn room(&self) -> u32 {
        self.limit - ROOT_LINES
    }

    /// Updates the table after this prefix has been added, changed or removed.
    fn apply(&mut self, prefix: Prefix6) -> Result<(), LookupError> {
        if prefix.len() == 0 {
            self.apply_default(prefix);
            return Ok(());
        }
        let place = self.place(prefix);
        self.apply_at(&place, &[(prefix, None)])?;
        self.wear(prefix);
        Ok(())
    }

    fn apply_default(&mut self, prefix: Prefix6) {
        let default = self.prefixes.get(prefix).map_or(NextHopId::NO_ROUTE, |&id| id);
        self.shared.default[0].store(default.0, Ordering::Release);
    }

    /// Updates the words of a place after these prefixes below them have changed.
    fn apply_at(&mut self, place: &Place, changed: &[Change]) -> Result<(), LookupError> {
        let prefix = changed[0].0;
        // Several are made as a whole or not at all.
        let patched = changed.len() == 1 && self.patch(place, prefix);
        if !patched {
            let runs = self.runs_after(place, changed);
            if self.rewrite(place, &runs).is_none() {
                return Err(LookupError::Full {
                    prefix: prefix.into(),
                    structure: NAME,
                    what: "lines",
                    limit: self.limit,
                });
            }
        }
        changed.iter().for_each(|_| self.compaction.changed());
        if place.block.len() > ROOT_BITS {
            self.slots.entry(slot_of(prefix)).or_default().changes += changed.len() as u32;
        }
        Ok(())
    }

    /// Updates the table after these prefixes, in order, have been added, changed or removed.
    ///
    /// # Errors
    /// For how many that was done: there is no room for the next one, or one behind it in the same place.
    fn apply_all(&mut self, changed: &[Change]) -> Result<(), usize> {
        let mut at = 0;
        while let Some(&(prefix, _)) = changed.get(at) {
            if prefix.len() == 0 {
                self.apply_default(prefix);
                at += 1;
                continue;
            }
            let place = self.place(prefix);
            let inside = changed[at..].iter().take_while(|(other, _)| place.block.contains(other.addr())).count();
            self.apply_at(&place, &changed[at..at + inside]).map_err(|_| at)?;
            at += inside;
        }
        Ok(())
    }

    fn set(&mut self, prefix: Prefix6, id: Option<NextHopId>) -> Option<NextHopId> {
        match id {
            Some(id) => self.prefixes.insert(prefix, id),
            None => self.prefixes.remove(prefix),
        }
    }

    /// After many changes below the root's words the strides no longer suit the slot, and it is rebuilt. Not before all
    /// changes of a run are made: what is built is what all prefixes say.
    fn wear(&mut self, prefix: Prefix6) {
        let slot = slot_of(prefix);
        let wear = wear_of(&self.slots, slot);
        if wear.changes > PATIENCE + wear.prefixes / 2 {
            let place = Place { block: truncated(prefix, ROOT_BITS), at: slot.into(), bits: 0, level: 1 };
            // If there is no room the slot stays as it is, which is correct too.
            let runs = self.rewrite(&place, &self.runs(place.block));
            let prefixes = runs.map_or(wear.prefixes, |runs| runs as u32);
            self.slots.insert(slot, Wear { prefixes, changes: 0 });
        }
    }
}

/// The slot of the root that a prefix lies in, or begins in.
fn slot_of(prefix: Prefix6) -> u16 {
    (prefix.addr() >> 112) as u16
}

/// Retires everything below a word that readers can no longer find.
fn retire(words: &[AtomicU32], blocks: &mut Blocks, word: u32) {
    let line = |line: u32| words[line as usize * LINE..][..LINE].iter().map(|word| word.load(Ordering::Relaxed));
    let first = word & LINE_MASK;
    let len = match word & KIND {
        0 => return,
        INDEX => 1 << (stride(word) - MIN_STRIDE),
        TREE => 1 + lines_of(words, word),
        _ => 1,
    };
    if word & KIND == INDEX {
        (first..first + len).flat_map(line).for_each(|word| retire(words, blocks, word));
    } else if word & WIDE != 0 {
        let lines = if len > 1 { first + 1..first + len } else { first..first + 1 };
        lines.flat_map(|at| line(at).skip(WIDE_WORDS)).for_each(|word| retire(words, blocks, word));
    }
    blocks.retire(Block { start: first, len });
}

/// A prefix and what it has become: a next hop, or nothing.
type Change = (Prefix6, Option<NextHopId>);

/// An insertion that finds no room has the table built again if more than one line in this many is free or retired.
const GAPS: u32 = 8;

fn wear_of(slots: &HashMap<u16, Wear>, slot: u16) -> Wear {
    slots.get(&slot).copied().unwrap_or_default()
}

/// The block of `len` bits around a prefix that is no shorter.
fn truncated(prefix: Prefix6, len: u8) -> Prefix6 {
    PrefixOf::truncated(prefix.addr(), len).expect("shorter than a prefix")
}

impl LookupWriter<u128> for Range6Writer {
    fn reader(&self) -> Arc<dyn Lookup<u128>> {
        self.shared.clone()
    }

    fn view(&self) -> &dyn Lookup<u128> {
        &*self.shared
    }

    fn load(&mut self, routes: &[(Prefix6, NextHopId)]) -> Result<(), LookupError> {
        let mut prefixes = PrefixTree::new();
        for (prefix, id) in routes {
            check_id(NAME, *id, NextHopId::MAX)?;
            prefixes.insert(*prefix, *id);
        }
        let copy = self.copy(&prefixes, self.limit)?;
        *self = Self { prefixes, ..copy };
        Ok(())
    }

    fn insert(&mut self, prefix: Prefix6, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        check_id(NAME, id, NextHopId::MAX)?;
        let old = self.prefixes.insert(prefix, id);
        let mut done = self.apply(prefix);
        if done.is_err() && self.gaps() > self.room() / GAPS {
            // A table without gaps may have room. The old one remains with its readers.
            done = self.build_again(self.limit).map_err(|error| error.because_of(prefix.into()));
        }
        if let Err(error) = done {
            self.set(prefix, old);
            return Err(error);
        }
        Ok(old)
    }

    fn remove(&mut self, prefix: Prefix6) -> Result<NextHopId, LookupError> {
        let id = self.prefixes.remove(prefix).ok_or_else(|| LookupError::Missing { prefix: prefix.into() })?;
        if self.apply(prefix).is_err() {
            self.behind = self.grow().is_err();
        }
        Ok(id)
    }

    fn change_all(&mut self, changes: &[Change]) -> Result<(), (usize, LookupError)> {
        if !fit(changes) {
            return one_by_one(self, changes, 0);
        }
        let before: Vec<_> = changes.iter().map(|&(prefix, id)| self.set(prefix, id)).collect();
        let Err(done) = self.apply_all(changes) else {
            let mut slots = changes.to_vec();
            slots.dedup_by_key(|(prefix, _)| slot_of(*prefix));
            slots.into_iter().filter(|(prefix, _)| prefix.len() > 0).for_each(|(prefix, _)| self.wear(prefix));
            return Ok(());
        };
        // What a place looks like depends on prefixes in it and around it, and these come first: what was done, is
        // done.
        for (&(prefix, _), old) in changes[done..].iter().zip(&before[done..]) {
            self.set(prefix, *old);
        }
        one_by_one(self, changes, done)
    }

    fn commit(&mut self) -> Result<(), LookupError> {
        if self.behind {
            return self.grow();
        }
        let line = |lines: u32| lines as usize * LINE * size_of::<AtomicU32>();
        if self.compaction.is_due(self.prefixes.len(), self.memory(), line(self.blocks.used())) {
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
        self.blocks.touched() as usize * LINE * size_of::<AtomicU32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_without_memory_becomes_visible_at_a_later_commit() {
        let mut writer = Range6Writer::with_lines(0, Isa::detect()).expect("memory");
        let prefix = |text: &str| text.parse::<Prefix6>().expect(text);
        let [a, b] = ["2001:db8::/40", "2001:db8:8000::/40"].map(prefix);
        writer.load(&[(a, NextHopId(1)), (b, NextHopId(2))]).expect("one line");
        // No room for the new line beside the old one, nor for a larger table.
        (writer.limit, writer.most) = (ROOT_LINES, ROOT_LINES);
        assert_eq!(writer.remove(a), Ok(NextHopId(1)));
        assert!(writer.commit().is_err() && writer.uncommitted());
        assert_eq!(writer.reader().lookup(a.addr()), NextHopId(1), "readers see the state before");
        assert!(writer.remove(a).is_err(), "it is removed already");
        (writer.limit, writer.most) = (ROOT_LINES + 1, ROOT_LINES + 1);
        assert_eq!((writer.commit(), writer.uncommitted()), (Ok(()), false));
        assert_eq!(writer.reader().lookup(a.addr()), NextHopId::NO_ROUTE);
        assert_eq!(writer.reader().lookup(b.addr()), NextHopId(2));
    }
}
