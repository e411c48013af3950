// SPDX-License-Identifier: MIT
//! The allocator of an arena of words: blocks of any length, which the control thread takes and which are reused once
//! every reader has let go of them.

use crate::publish::grace::{Deferred, Grace};

/// Each length up to this one has a free list of its own; longer ones are rounded up to a quarter of a power of two.
const EXACT: u32 = 64;

/// A run of words: where it starts, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub start: u32,
    pub len: u32,
}

impl Block {
    /// The indices of its words.
    pub fn words(self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// The allocator of an arena of `limit` words.
pub(crate) struct Blocks {
    limit: u32,
    /// See [`Blocks::in_lines`].
    line: Option<u32>,
    /// Words from here on have never been used.
    top: u32,
    /// Words below `first` and in blocks that are neither free nor retired.
    used: u32,
    /// Words handed out so far, however often.
    handed_out: u64,
    /// Free blocks by length class.
    free: Vec<Vec<u32>>,
    retired: Deferred<Block>,
}

/// The class that a length belongs to, and the length of the blocks in it.
fn class(len: u32) -> (usize, u32) {
    if len <= EXACT {
        return (len as usize, len);
    }
    // Four classes from one power of two to the next.
    let shift = (len - 1).ilog2() - 2;
    let rounded = (((len - 1) >> shift) + 1) << shift;
    let index = EXACT + 4 * (shift - (EXACT.ilog2() - 2)) + ((rounded - 1) >> shift) - 3;
    (index as usize, rounded)
}

impl Blocks {
    /// All words are free but those below `first`, which are never handed out.
    pub fn new(first: u32, limit: u32) -> Self {
        Self { limit, line: None, top: first, used: first, handed_out: 0, free: Vec::new(), retired: Deferred::new() }
    }

    /// As [`new`](Self::new) with no words in front; a block that fits in one line of `line` words lies in one, and a
    /// longer one starts with a line.
    pub fn in_lines(line: u32, limit: u32) -> Self {
        Self { line: Some(line), ..Self::new(0, limit) }
    }

    /// Allocates a block of at least `len` words, 1 or more; `None` if the arena has no room for it. Its content is
    /// undefined.
    pub fn take(&mut self, len: u32) -> Option<u32> {
        let (class, len) = class(len);
        self.handed_out += u64::from(len);
        if let Some(start) = self.free.get_mut(class).and_then(Vec::pop) {
            self.used += len;
            return Some(start);
        }
        let left = self.line.map_or(0, |line| self.top.next_multiple_of(line) - self.top);
        let gap = if left < len { left } else { 0 };
        let end = self.top.checked_add(gap)?.checked_add(len).filter(|end| *end <= self.limit)?;
        if gap > 0 {
            self.free(Block { start: self.top, len: gap });
        }
        self.used += len;
        self.top = end;
        Some(end - len)
    }

    /// Frees a block that no reader has ever seen.
    pub fn give_back(&mut self, block: Block) {
        self.used -= class(block.len).1;
        self.free(block);
    }

    fn free(&mut self, block: Block) {
        let (class, _) = class(block.len);
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(block.start);
    }

    /// Frees a block that readers can no longer find, though some may still be in it.
    pub fn retire(&mut self, block: Block) {
        self.used -= class(block.len).1;
        self.retired.retire(block);
    }

    /// Makes retired blocks usable again, except those that a reader may still be in.
    pub fn reclaim(&mut self, grace: Grace) {
        let ripe: Vec<Block> = self.retired.reclaim(grace).collect();
        ripe.into_iter().for_each(|block| self.free(block));
    }

    /// How many blocks are retired and not reclaimed yet.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Words in use, those that are never handed out included: what a table without gaps would take.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Words handed out so far, again and again if they were freed: the work that changes have made.
    pub fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// Words that are or were in use.
    pub fn touched(&self) -> u32 {
        self.top
    }

    /// Words in the arena.
    pub fn limit(&self) -> u32 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Random;
    use std::collections::BTreeMap;

    #[test]
    fn classes_hold_their_lengths_in_order() {
        let mut last = (0, 0);
        for len in 1..100_000 {
            let (index, rounded) = class(len);
            assert!(rounded >= len && rounded <= len + len / 4, "{len} -> {rounded}");
            assert!(
                (index, rounded) == last || index == last.0 + 1 && rounded > last.1,
                "{len}: {index} after {last:?}"
            );
            assert_eq!(class(rounded), (index, rounded));
            last = (index, rounded);
        }
    }

    /// Blocks in use or retired never overlap.
    #[test]
    fn blocks_never_overlap() {
        takes_and_retires(Blocks::new(5, 20_000), 5);
        takes_and_retires(Blocks::in_lines(16, 20_000), 0);
    }

    fn takes_and_retires(mut blocks: Blocks, first: u32) {
        let seed = 7;
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let line = blocks.line;
        let (mut used, mut epoch, mut refused) = (BTreeMap::new(), 0, 0);
        for _ in 0..20_000 {
            let mut known = used.keys().copied().skip(random.below(used.len() as u32 + 1) as usize);
            match known.next().filter(|_| random.below(2) == 0) {
                Some(start) => {
                    let len = used.remove(&start).expect("known");
                    blocks.retire(Block { start, len });
                }
                None => {
                    let longest = if random.below(9) == 0 { 900 } else { 40 };
                    let len = 1 + random.below(longest);
                    let Some(start) = blocks.take(len) else {
                        refused += 1;
                        continue;
                    };
                    assert!(start >= first && start + len <= 20_000);
                    let in_line = |line| start % line == 0 || start % line + len <= line;
                    assert!(line.is_none_or(in_line), "seed {seed}: block of {len} at {start} lies across lines");
                    let before = used.range(..start).next_back().is_none_or(|(s, l)| s + l <= start);
                    let after = used.range(start..).next().is_none_or(|(s, _)| start + len <= *s);
                    assert!(before && after, "seed {seed}: block of {len} at {start} overlaps");
                    used.insert(start, len);
                }
            }
            if random.below(4) == 0 {
                epoch += 1;
                blocks.reclaim(Grace { epoch, passed: epoch - 1 });
            }
        }
        assert!(refused > 0, "the arena was never full");
        used.into_iter().for_each(|(start, len)| blocks.retire(Block { start, len }));
        (0..2).for_each(|_| blocks.reclaim(Grace { epoch: u64::MAX, passed: u64::MAX }));
        assert_eq!((blocks.retired(), blocks.used()), (0, first));
    }
}
