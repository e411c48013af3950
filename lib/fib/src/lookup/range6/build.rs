// SPDX-License-Identifier: MIT
//! How the nodes of range6 are chosen and written.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::lookup::blocks::{Block, Blocks};
use crate::lookup::runs::{Run, split};

use super::layout::*;

/// How many bytes of table it may cost to save the addresses of one run a step through a line ...
const LINE_STEP: u64 = 12;
/// ... or a step through an index that few addresses of a batch reach.
const INDEX_STEP: u64 = 60;
/// Indices that every lane of a batch steps through in any case, the root included.
const FREE_LEVELS: u32 = 3;

/// Where a node is: how many bits of the address and how many indices lead to it.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub depth: u32,
    pub level: u32,
}

/// Where a run begins, by 32 bits of the address, and which runs it stands for: one, or several that differ further on.
struct Part {
    key: u32,
    from: usize,
    to: usize,
}

/// The parts of a block.
struct Parts {
    parts: Vec<Part>,
    wide: bool,
}

impl Parts {
    /// How many of them fit in one line.
    fn per_line(&self) -> usize {
        if self.wide { WIDE_RUNS } else { NARROW_RUNS }
    }

    fn fit_in_tree(&self) -> bool {
        self.parts.len() <= TREE_LINES * self.per_line()
    }
}

/// Writes nodes where no reader has got yet.
pub(super) struct Builder<'a> {
    pub words: &'a [AtomicU32],
    pub blocks: &'a mut Blocks,
    /// What has been taken so far: to be given back if the rest does not fit.
    pub taken: Vec<Block>,
    /// What [`best_stride`] looks at.
    pub keys: Vec<u64>,
}

impl Builder<'_> {
    /// The word for a block of addresses, all with the same first `depth` bits, that has these runs; the first of them
    /// may begin before it. `None` if there is no room.
    pub fn word(&mut self, runs: &[Run], At { depth, level }: At) -> Option<u32> {
        if runs.len() == 1 {
            return Some(runs[0].leaf);
        }
        let parts = parts(runs, depth).filter(Parts::fit_in_tree);
        let tree = parts.as_ref().map_or(u64::MAX, |p| tree_cost(p.parts.len() as u64, p.per_line() as u64));
        let (stride, cost) = best_stride(&runs[1..], At { depth, level }, &mut self.keys, tree);
        match parts {
            Some(parts) if tree <= cost => self.lines(runs, &parts, At { depth, level }),
            _ => self.index(runs, At { depth, level }, stride),
        }
    }

    /// As [`word`](Self::word) for a block whose word is `old`: what fits as many lines as before goes into lines
    /// again, without weighing whether an index would be better, which takes most of the time.
    pub fn word_again(&mut self, runs: &[Run], at: At, old: u32) -> Option<u32> {
        if old & LEAVES != 0 && runs.len() > 1 && runs.len() <= 6 * NARROW_RUNS {
            let before = if old & KIND == TREE { lines_of(self.words, old) as usize } else { 1 };
            let parts = parts(runs, at.depth).filter(Parts::fit_in_tree);
            if let Some(parts) = parts.filter(|parts| parts.parts.len().div_ceil(parts.per_line()) == before) {
                return self.lines(runs, &parts, at);
            }
        }
        self.word(runs, at)
    }

    /// Makes the words of the 2^`stride` equal parts of a block and calls `put` with each.
    pub fn cells(
        &mut self,
        runs: &[Run],
        At { depth, level }: At,
        stride: u32,
        mut put: impl FnMut(usize, u32),
    ) -> Option<()> {
        split(runs, depth, stride, |cell, inside| {
            put(cell, self.word(inside, At { depth: depth + stride, level: level + 1 })?);
            Some(())
        })
    }

    fn take(&mut self, lines: u32) -> Option<u32> {
        let start = self.blocks.take(lines)?;
        self.taken.push(Block { start, len: lines });
        Some(start)
    }

    fn index(&mut self, runs: &[Run], at: At, stride: u32) -> Option<u32> {
        let word = index(stride, self.take(1 << (stride - MIN_STRIDE))?);
        let node = &self.words[start(word)..][..1 << stride];
        self.cells(runs, at, stride, |cell, word| node[cell].store(word, Ordering::Relaxed))?;
        let deep = at.depth + stride > 48;
        Some(word | if deep { DEEP } else { 0 })
    }

    /// One line, or a tree of them.
    fn lines(&mut self, runs: &[Run], parts: &Parts, at: At) -> Option<u32> {
        // Batches look at the first 64 bits only: are the runs told apart by later ones?
        let deep = at.depth > 32 && runs[1..].iter().any(|run| run.start as u64 != 0);
        let flags = if parts.wide { WIDE } else { 0 } | if deep { DEEP } else { 0 };
        let count = parts.parts.len().div_ceil(parts.per_line());
        if count == 1 {
            let line = self.take(1)?;
            self.line(line, runs, parts.wide, &parts.parts, at)?;
            return Some(LEAVES | flags | line);
        }
        let tree = self.take(count as u32 + 1)?;
        let lines = || (tree + 1..).zip(parts.parts.chunks(parts.per_line()));
        let lasts = lines().skip(1).map(|(_, parts)| parts[0].key - 1);
        let words = &self.words[tree as usize * LINE..][..LINE];
        for (word, last) in words.iter().zip(lasts.chain(std::iter::repeat(u32::MAX))) {
            word.store(last, Ordering::Relaxed);
        }
        for (line, these) in lines() {
            self.line(line, runs, parts.wide, these, at)?;
        }
        Some(TREE | flags | tree)
    }

    /// Fills one line.
    fn line(&mut self, line: u32, runs: &[Run], wide: bool, parts: &[Part], at: At) -> Option<()> {
        let lasts = if wide { WIDE_RUNS } else { NARROW_RUNS } - 1;
        let mut words = [0; LINE];
        words[..lasts].fill(u32::MAX);
        words.iter_mut().zip(&parts[1..]).for_each(|(last, next)| *last = next.key - 1);
        for (run, part) in parts.iter().enumerate() {
            if wide {
                let below = At { depth: at.depth + 32, level: at.level };
                words[WIDE_WORDS + run] = self.word(&runs[part.from..=part.to], below)?;
            } else {
                let place = NARROW_LEAVES + run;
                words[place / 2] |= runs[part.from].leaf << (16 * (place % 2));
            }
        }
        let node = &self.words[line as usize * LINE..][..LINE];
        node.iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        Some(())
    }
}

/// The runs by 32 bits of the address from `depth` on. `None` if there are more than a tree can hold.
fn parts(runs: &[Run], depth: u32) -> Option<Parts> {
    const MOST: usize = NARROW_RUNS * TREE_LINES;
    let key = |run: &Run| (run.start << depth >> 96) as u32;
    let exact = |run: &Run| run.start << depth << 32 == 0;
    let mut parts = Vec::with_capacity(runs.len().min(MOST) + 2);
    parts.push(Part { key: 0, from: 0, to: 0 });
    let mut put = |part: Part| {
        if parts.last().is_some_and(|last: &Part| last.key == part.key) {
            parts.pop();
        }
        parts.push(part);
        parts.len() <= MOST + 1
    };
    let mut at = 1;
    while at < runs.len() {
        let here = key(&runs[at]);
        let room = if exact(&runs[at]) && runs.get(at + 1).is_none_or(|next| key(next) != here) {
            at += 1;
            put(Part { key: here, from: at - 1, to: at - 1 })
        } else {
            // Several runs share this value of the 32 bits: the bits after them tell the runs apart.
            let from = if exact(&runs[at]) { at } else { at - 1 };
            at += runs[at..].iter().take_while(|run| key(run) == here).count();
            put(Part { key: here, from, to: at - 1 })
                && (here == u32::MAX || put(Part { key: here + 1, from: at - 1, to: at - 1 }))
        };
        if !room {
            return None;
        }
    }
    let wide = parts.iter().any(|part| part.from != part.to || runs[part.from].leaf > 0xffff);
    (parts.len() <= MOST).then_some(Parts { parts, wide })
}

/// What lines for this many runs cost, in bytes.
fn tree_cost(runs: u64, per_line: u64) -> u64 {
    let lines = runs.div_ceil(per_line);
    let (lines, steps) = if lines == 1 { (1, 1) } else { (lines + 1, 2) };
    lines * LINE as u64 * 4 + (runs - 1) * steps * LINE_STEP
}

/// The cheapest stride for an index of a block with these boundaries inside it, and its cost in bytes, if that is less
/// than `limit`; else any stride, and `limit`.
fn best_stride(boundaries: &[Run], at: At, keys: &mut Vec<u64>, limit: u64) -> (u32, u64) {
    let step = |level: u32| if level < FREE_LEVELS { 0 } else { INDEX_STEP };
    let further = LINE as u64 * 4 / NARROW_RUNS as u64 + 4 + 2 * LINE_STEP + step(at.level + 1);
    keys.clear();
    keys.extend(boundaries.iter().map(|run| key(run.start << at.depth)));
    let mut best = (MIN_STRIDE, limit);
    for stride in MIN_STRIDE..=MAX_STRIDE.min((128 - at.depth).max(MIN_STRIDE)) {
        let own = (4 << stride) + boundaries.len() as u64 * step(at.level);
        if own >= best.1 {
            break;
        }
        let cost = own + below(keys, stride, further, best.1 - own);
        if cost < best.1 {
            best = (stride, cost);
        }
    }
    best
}

/// The first 64 bits of a boundary, of which the last is set if a later one is: all that an index needs to know of it.
fn key(start: u128) -> u64 {
    (start >> 64) as u64 | u64::from(start as u64 != 0)
}

/// The cost of what is needed below an index of this stride, in bytes, or `limit` if that is less: nothing for cells of
/// a single run, `further` for each run of a cell with too many runs for a tree.
fn below(keys: &[u64], stride: u32, further: u64, limit: u64) -> u64 {
    const MOST: u64 = (NARROW_RUNS * TREE_LINES) as u64;
    let cost = |inside: u64| match inside {
        0 => 0,
        _ if inside < MOST => tree_cost(inside + 1, NARROW_RUNS as u64),
        // Another index, and trees below it.
        _ => inside * further,
    };
    let (mut total, mut cell, mut inside) = (0, 0, 0);
    for key in keys.iter().filter(|key| **key << stride != 0) {
        let of = key >> (64 - stride);
        if of != cell {
            total += cost(inside);
            if total >= limit {
                return limit;
            }
            (cell, inside) = (of, 0);
        }
        inside += 1;
    }
    total + cost(inside)
}
