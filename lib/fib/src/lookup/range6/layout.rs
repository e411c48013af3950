// SPDX-License-Identifier: MIT
//! What the words of range6 mean, and how one address is looked up in them.
//!
//! A word is a leaf or leads to a node. A node occupies whole cache lines of sixteen words:
//!
//! ```text
//! leaf    a next hop's id plus one; 0: no prefix but the default
//! index   2^stride words, by the next `stride` bits (4 to 16) of the address
//! line    the last values of up to eleven runs, and their leaves of 16 bits each
//!         wide: the last values of up to eight runs, and their words
//! tree    a line with the last values of up to 17 lines, which follow it
//! ```
//!
//! These values are the address's next 32 bits. A run of one value in a wide line may have a word that leads to a node
//! for the 32 bits after those. Words of indices and those of wide lines are replaced under readers; what else a line
//! holds is not.

use std::sync::atomic::{AtomicU32, Ordering};

/// Words in a line of 64 bytes.
pub(crate) const LINE: usize = 16;

/// These bits say what a word is; if both are clear it is a leaf.
pub(crate) const KIND: u32 = 3 << 30;
pub(crate) const INDEX: u32 = 1 << 30;
pub(crate) const LEAVES: u32 = 2 << 30;
pub(crate) const TREE: u32 = 3 << 30;
/// The line, or every line of the tree, is wide.
pub(crate) const WIDE: u32 = 1 << 26;
/// The node needs more bits of the address than batches look at: an index those after the 48th, a line those after the
/// 64th.
pub(crate) const DEEP: u32 = 1 << 25;
/// The low bits: the node's first line.
pub(crate) const LINE_MASK: u32 = DEEP - 1;
/// The stride of an index, less the smallest one.
pub(crate) const STRIDE_SHIFT: u32 = 26;
pub(crate) const STRIDE_MASK: u32 = 15;
pub(crate) const MIN_STRIDE: u32 = 4;
pub(crate) const MAX_STRIDE: u32 = 16;

/// The root, an index of all values of the first 16 bits, starts at line 0.
pub(crate) const ROOT: u32 = index(MAX_STRIDE, 0);
pub(crate) const ROOT_LINES: u32 = 1 << (MAX_STRIDE - MIN_STRIDE);

/// How many runs a line has, and where its leaves start, in units of 16 bits.
pub(crate) const NARROW_RUNS: usize = 11;
pub(crate) const NARROW_LEAVES: usize = 20;
/// How many runs a wide line has, and where its words start.
pub(crate) const WIDE_RUNS: usize = 8;
pub(crate) const WIDE_WORDS: usize = 8;
/// How many lines a tree has, besides the one that leads to them.
pub(crate) const TREE_LINES: usize = LINE + 1;

/// The word of an index.
pub(crate) const fn index(stride: u32, line: u32) -> u32 {
    INDEX | (stride - MIN_STRIDE) << STRIDE_SHIFT | line
}

/// How many bits of the address an index looks at.
#[inline(always)]
pub(crate) fn stride(index: u32) -> u32 {
    (index >> STRIDE_SHIFT & STRIDE_MASK) + MIN_STRIDE
}

/// Where the node that `word` leads to starts, in words.
#[inline(always)]
pub(crate) fn start(word: u32) -> usize {
    (word & LINE_MASK) as usize * LINE
}

/// The run that `key` is in: how many of the first `lasts` words, the last values of runs, are below it.
#[inline(always)]
pub(crate) fn run_of(line: &[AtomicU32], lasts: usize, key: u32) -> usize {
    line[..lasts].iter().map(|last| usize::from(last.load(Ordering::Relaxed) < key)).sum()
}

/// The leaf of a run in a line that is not wide.
#[inline(always)]
pub(crate) fn narrow_leaf(line: &[AtomicU32], run: usize) -> u32 {
    let at = NARROW_LEAVES + run;
    line[at / 2].load(Ordering::Relaxed) >> (16 * (at % 2)) & 0xffff
}

/// The line of a tree that a key is in, by its run in the tree's first line.
#[inline(always)]
pub(crate) fn tree_line(tree: u32, run: usize) -> u32 {
    (tree ^ TREE ^ LEAVES) + 1 + run as u32
}

/// How many lines a tree has, besides the one that leads to them.
pub(crate) fn lines_of(words: &[AtomicU32], tree: u32) -> u32 {
    let lasts = &words[start(tree)..][..LINE];
    1 + lasts.iter().filter(|last| last.load(Ordering::Relaxed) != u32::MAX).count() as u32
}

/// The leaf of one address.
#[inline]
pub(crate) fn walk(words: &[AtomicU32], address: u128) -> u32 {
    // `rest`: the address's bits still to be looked at, left-aligned.
    let (mut word, mut rest) = (ROOT, address);
    loop {
        if word & KIND == 0 {
            return word;
        }
        let node = &words[start(word)..];
        let key = (rest >> 96) as u32;
        match word & KIND {
            INDEX => {
                let stride = stride(word);
                // Acquire: a node is filled before a word that leads to it becomes visible.
                word = node[(key >> (32 - stride)) as usize].load(Ordering::Acquire);
                rest <<= stride;
            }
            TREE => word = tree_line(word, run_of(node, LINE, key)),
            _ if word & WIDE == 0 => return narrow_leaf(node, run_of(node, NARROW_RUNS - 1, key)),
            _ => {
                // Acquire: as for an index.
                word = node[WIDE_WORDS + run_of(node, WIDE_RUNS - 1, key)].load(Ordering::Acquire);
                rest <<= 32;
            }
        }
    }
}
