// SPDX-License-Identifier: MIT
//! Where a change of a prefix takes effect in range6, and which runs are there.

use std::sync::atomic::Ordering;

use super::layout::*;
use super::{Range6Writer, truncated};
use crate::lookup::runs::{Run, push};
use perigee_net::Prefix6;

/// A block of no more prefixes than this is rewritten as a whole, whatever nodes it has: a line holds them all.
const FEW: usize = NARROW_RUNS / 2;

/// Words on the way to a place.
type Above = Vec<(usize, u8, u32)>;

/// The words that a change replaces: consecutive words of one index, or a single one anywhere.
pub(super) struct Place {
    /// The addresses below them.
    pub block: Prefix6,
    /// The first of them.
    pub at: usize,
    /// Their number's base-2 logarithm.
    pub bits: u32,
    /// How many indices lie above them.
    pub level: u32,
}

impl Range6Writer {
    /// Which words a change of `prefix`, which is longer than the default route, replaces: the deepest around it, or
    /// those of the largest block around it that has few prefixes left.
    pub(super) fn place(&self, prefix: Prefix6) -> Place {
        let (mut place, above) = self.deepest(prefix);
        for &(at, depth, level) in above.iter().rev() {
            let block = truncated(prefix, depth);
            let mut inside = self.prefixes.from(block);
            if inside.nth(FEW).is_some_and(|(other, _)| block.contains(other.addr())) {
                break;
            }
            place = Place { block, at, bits: 0, level };
        }
        place
    }

    /// The deepest words around `prefix`, and the single ones on the way there: their places, depths and levels.
    fn deepest(&self, prefix: Prefix6) -> (Place, Above) {
        let words = &self.shared.words;
        let len = u32::from(prefix.len());
        let (mut at, mut word, mut depth, mut level) = (0, ROOT, 0, 0);
        let mut above = Above::default();
        loop {
            if word & KIND == INDEX {
                let (from, to) = (depth, depth + stride(word));
                let below = |bits: u32| (prefix.addr() << from >> (128 - bits)) as usize;
                at = start(word) + below(to - from);
                level += 1;
                if len < to {
                    // The prefix ends inside this node and covers several of its words.
                    return (Place { block: prefix, at, bits: to - len, level }, above);
                }
                depth = to;
            } else if let Some(below) = self.word_of_wide_line(word, prefix, depth) {
                (at, depth) = (below, depth + 32);
            } else {
                above.pop();
                return (Place { block: truncated(prefix, depth as u8), at, bits: 0, level }, above);
            }
            if len == depth {
                return (Place { block: prefix, at, bits: 0, level }, above);
            }
            above.push((at, depth as u8, level));
            word = words[at].load(Ordering::Relaxed);
        }
    }

    /// If this word of a block of `depth` bits leads to wide lines, and the 32 bits of `prefix` that come next have a
    /// word of their own there: where that is.
    fn word_of_wide_line(&self, word: u32, prefix: Prefix6, depth: u32) -> Option<usize> {
        if word & LEAVES == 0 || word & WIDE == 0 || u32::from(prefix.len()) < depth + 32 {
            return None;
        }
        let (key, words) = ((prefix.addr() << depth >> 96) as u32, &self.shared.words);
        let is_tree = word & KIND == TREE;
        let tree = is_tree.then(|| &words[start(word)..][..LINE]);
        let which = tree.map_or(0, |tree| run_of(tree, LINE, key));
        let line = start(if is_tree { tree_line(word, which) } else { word });
        let run = run_of(&words[line..], WIDE_RUNS - 1, key);
        // The last value of the run before: in this line, or in the one before it.
        let before = match (run.checked_sub(1), which.checked_sub(1)) {
            (Some(run), _) => Some(words[line + run].load(Ordering::Relaxed)),
            (None, Some(which)) => tree.map(|tree| tree[which].load(Ordering::Relaxed)),
            (None, None) => None,
        };
        let lasts = [(run < WIDE_RUNS - 1).then_some(line + run), (which < LINE).then_some(start(word) + which)];
        let own =
            lasts.iter().take(1 + usize::from(is_tree)).flatten().map(|at| words[*at].load(Ordering::Relaxed)).min();
        let alone = before.map_or(key == 0, |last| last.wrapping_add(1) == key) && own.unwrap_or(u32::MAX) == key;
        alone.then_some(line + WIDE_WORDS + run)
    }

    /// The runs below a word that is a leaf or leads to lines that are not wide.
    pub(super) fn runs_in_lines(&self, place: &Place) -> Option<Vec<Run>> {
        let (words, word, depth) =
            (&self.shared.words, self.shared.words[place.at].load(Ordering::Relaxed), place.block.len());
        let load = |at: usize| words[at].load(Ordering::Relaxed);
        let mut runs = Vec::new();
        let mut start_of_line = 0;
        let mut add_line = |line: usize, first: u32| {
            let mut key = first;
            for run in 0..NARROW_RUNS {
                let start = place.block.addr() | u128::from(key) << 96 >> depth;
                push(&mut runs, start, narrow_leaf(&words[line..], run));
                let last = if run < NARROW_RUNS - 1 { load(line + run) } else { u32::MAX };
                match last.checked_add(1) {
                    Some(next) => key = next,
                    None => break,
                }
            }
        };
        match word & KIND {
            _ if place.bits > 0 || word & KIND == INDEX || word & KIND != 0 && word & WIDE != 0 => return None,
            0 => runs.push(Run { start: place.block.addr(), leaf: word }),
            LEAVES => add_line(start(word), 0),
            _ => {
                for which in 0..TREE_LINES {
                    add_line(start(tree_line(word, which)), start_of_line);
                    let last = if which < LINE { load(start(word) + which) } else { u32::MAX };
                    match last.checked_add(1) {
                        Some(next) => start_of_line = next,
                        None => break,
                    }
                }
            }
        }
        Some(runs)
    }
}
