// SPDX-License-Identifier: MIT
//! The usual change of range6: one prefix within one line. The line is made anew, the others of its tree are copied.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Range6Writer;
use super::layout::*;
use super::place::Place;
use crate::lookup::blocks::Block;
use crate::lookup::runs::Run;
use perigee_net::Prefix6;

/// The runs of a line: where each begins, by the 32 bits that lines look at, and its leaf.
struct Line {
    runs: [(u32, u32); NARROW_RUNS],
    len: usize,
}

impl Line {
    const EMPTY: Line = Line { runs: [(0, 0); NARROW_RUNS], len: 0 };

    /// The runs of a line that is not wide and begins with `first`.
    fn read(words: &[AtomicU32], first: u32) -> Line {
        let mut line = Line::EMPTY;
        let mut key = first;
        for run in 0..NARROW_RUNS {
            // There are as many places as runs.
            let _ = line.push(key, narrow_leaf(words, run));
            let last = if run < NARROW_RUNS - 1 { words[run].load(Ordering::Relaxed) } else { u32::MAX };
            match last.checked_add(1) {
                Some(next) => key = next,
                None => break,
            }
        }
        line
    }

    /// From `key` on the leaf is `leaf`; `None` if there is no room.
    fn push(&mut self, key: u32, leaf: u32) -> Option<()> {
        if self.len > 0 && self.runs[self.len - 1].0 == key {
            self.len -= 1;
        }
        if self.len == 0 || self.runs[self.len - 1].1 != leaf {
            *self.runs.get_mut(self.len)? = (key, leaf);
            self.len += 1;
        }
        Some(())
    }

    /// This line with the runs from `first` to `last` replaced by `fresh`; `None` if it is too short for them.
    fn with(&self, first: u32, last: u32, fresh: impl Iterator<Item = (u32, u32)>) -> Option<Line> {
        let mut line = Line::EMPTY;
        let runs = &self.runs[..self.len];
        for (key, leaf) in runs.iter().take_while(|(key, _)| *key < first) {
            line.push(*key, *leaf)?;
        }
        for (key, leaf) in fresh {
            line.push(key, leaf)?;
        }
        if let Some(next) = last.checked_add(1) {
            let behind = runs.partition_point(|(key, _)| *key <= next);
            line.push(next, runs[behind - 1].1)?;
            for (key, leaf) in &runs[behind..] {
                line.push(*key, *leaf)?;
            }
        }
        Some(line)
    }

    /// Its words.
    fn words(&self) -> [u32; LINE] {
        let mut words = [0; LINE];
        words[..NARROW_RUNS - 1].fill(u32::MAX);
        for run in 0..self.len {
            if let Some((next, _)) = self.runs[..self.len].get(run + 1) {
                words[run] = next - 1;
            }
            let place = NARROW_LEAVES + run;
            words[place / 2] |= self.runs[run].1 << (16 * (place % 2));
        }
        words
    }
}

impl Range6Writer {
    /// Makes a change of `prefix` visible if it concerns a single line of this place that has room for it; else returns
    /// false, and nothing has changed.
    pub(super) fn patch(&mut self, place: &Place, prefix: Prefix6) -> bool {
        self.try_patch(place, prefix).is_some()
    }

    fn try_patch(&mut self, place: &Place, prefix: Prefix6) -> Option<()> {
        let shared = self.shared.clone();
        let words = &shared.words;
        let (word, depth) = (words[place.at].load(Ordering::Relaxed), place.block.len());
        let fits = place.bits == 0 && prefix != place.block && prefix.len() <= depth + 32;
        // The flag is set by prefixes longer than 64 bits.
        if !fits || word & LEAVES == 0 || word & WIDE != 0 || prefix.len() > 64 {
            return None;
        }
        let key = |address: u128| (address << depth >> 96) as u32;
        let (first, last) = (key(prefix.addr()), key(prefix.last()));
        let tree = (word & KIND == TREE).then(|| &words[start(word)..][..LINE]);
        let which = tree.map_or(0, |tree| run_of(tree, LINE, first));
        if tree.is_some_and(|tree| run_of(tree, LINE, last) != which) {
            return None;
        }
        let begin = match (tree, which.checked_sub(1)) {
            (Some(tree), Some(before)) => tree[before].load(Ordering::Relaxed) + 1,
            _ => 0,
        };
        let at = LINE_MASK & if tree.is_some() { tree_line(word, which) } else { word };
        let line = Line::read(&words[at as usize * LINE..][..LINE], begin);
        let runs = self.runs(prefix);
        if runs.iter().any(|run: &Run| run.leaf > 0xffff || run.start << depth << 32 != 0) {
            return None;
        }
        let line = line.with(first, last, runs.iter().map(|run| (key(run.start), run.leaf)))?;
        if tree.is_none() && line.len == 1 {
            return None;
        }
        let count = if tree.is_some() { 1 + lines_of(words, word) } else { 1 };
        let old = Block { start: word & LINE_MASK, len: count };
        let fresh = self.blocks.take(count)?;
        let to = |at: u32| &words[at as usize * LINE..][..LINE];
        for (from, to) in (old.start..old.start + count).map(to).zip((fresh..fresh + count).map(to)) {
            from.iter().zip(to).for_each(|(from, to)| to.store(from.load(Ordering::Relaxed), Ordering::Relaxed));
        }
        let changed = to(fresh + (at - old.start));
        changed.iter().zip(line.words()).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        // Release: readers find the lines filled.
        words[place.at].store(word & !LINE_MASK | fresh, Ordering::Release);
        self.blocks.retire(old);
        Some(())
    }
}
