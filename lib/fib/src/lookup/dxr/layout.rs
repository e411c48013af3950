// SPDX-License-Identifier: MIT
//! What the words of DXR mean, and how one address is looked up in them.
//!
//! A chunk is all addresses with the same first bits. Its entry, a word of 32 bits, is the next hop of the whole chunk,
//! or says where the chunk's ranges are and how many. The ranges are written as two arrays, one behind the other: where
//! each range but the first starts, which is 0, and the next hop of each.
//!
//! ```text
//! entry   bit 31: long · the number of starts · the low bits: the word that the ranges begin at
//!         neither: the next hop of the whole chunk
//! short   all starts on borders of /24, all next hops below 256: a byte for each start, by the last bits of the /24, and each
//!         next hop
//! long    16 bits each, a start by the last bits of the address; where the entry says that there are no starts, there are more
//!         than it has bits for, and their number comes first, in a word of its own
//! ```

use std::sync::atomic::{AtomicU32, Ordering};

use crate::lookup::blocks::Block;

/// Words in a line of 64 bytes. Ranges that fit in one lie in one, longer ones begin with one: so the starts in the
/// short format, which come first, are in whole lines but the last.
pub(crate) const LINE: u32 = 16;
/// The ranges of a chunk are in the long format.
pub(crate) const LONG: u32 = 1 << 31;

/// Which bits of an entry mean what, by how many bits of an address index the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bits of an address that index the table, 16 to 20.
    pub bits: u32,
}

/// Where the ranges of a chunk are.
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    /// The word at which the starts begin.
    pub first: usize,
    /// How many starts there are.
    pub starts: usize,
    /// What a start or a next hop takes, in bytes: 1 or 2.
    pub width: usize,
    /// Whether the number of starts takes a word in front of them.
    pub counted: bool,
}

impl Layout {
    /// The entry of an address.
    #[inline(always)]
    pub fn slot(self, address: u32) -> usize {
        (address >> (32 - self.bits)) as usize
    }

    /// The most starts that an entry can tell: enough for any chunk in the short format.
    #[inline(always)]
    pub fn most_starts(self) -> u32 {
        (1 << (24 - self.bits)) - 1
    }

    /// How many low bits of an entry say where its ranges begin.
    #[inline(always)]
    pub fn word_bits(self) -> u32 {
        7 + self.bits
    }

    /// The last bits of an address or of a /24, which tell it from others in its chunk.
    #[inline(always)]
    pub fn key(self, address: u32, width: usize) -> u32 {
        if width == 1 { address >> 8 & self.most_starts() } else { address & u32::MAX >> self.bits }
    }

    /// The entry of a chunk with ranges.
    pub fn entry(self, word: u32, starts: usize, width: usize) -> u32 {
        let told = if starts as u32 > self.most_starts() { 0 } else { starts as u32 };
        let long = if width == 2 { LONG } else { 0 };
        long | told << self.word_bits() | word
    }

    /// The ranges of a chunk, if it has more than one.
    #[inline(always)]
    pub fn chunk(self, words: &[AtomicU32], entry: u32) -> Option<Chunk> {
        let starts = (entry >> self.word_bits() & self.most_starts()) as usize;
        let first = (entry & ((1 << self.word_bits()) - 1)) as usize;
        match (entry & LONG != 0, starts) {
            (false, 0) => None,
            (false, _) => Some(Chunk { first, starts, width: 1, counted: false }),
            (true, 0) => {
                let starts = words[first].load(Ordering::Relaxed) as usize;
                Some(Chunk { first: first + 1, starts, width: 2, counted: true })
            }
            (true, _) => Some(Chunk { first, starts, width: 2, counted: false }),
        }
    }
}

impl Chunk {
    /// What it occupies.
    pub fn block(self) -> Block {
        let header = u32::from(self.counted);
        Block { start: self.first as u32 - header, len: header + array_words(self.starts, self.width) }
    }

    /// A start or, behind the starts, a next hop.
    #[inline(always)]
    fn get(self, words: &[AtomicU32], at: usize) -> u32 {
        let per_word = 4 / self.width;
        let bits = 8 * self.width;
        let word = words[self.first + at / per_word].load(Ordering::Relaxed);
        word >> (bits * (at % per_word)) & ((1 << bits) - 1)
    }

    /// The next hop of the addresses with this key.
    #[inline(always)]
    pub fn search(self, words: &[AtomicU32], key: u32) -> u32 {
        // How many starts are not behind the key: from `first` to `first + left`.
        let (mut first, mut left) = (0, self.starts);
        while left > 0 {
            let half = left.div_ceil(2);
            first += if self.get(words, first + half - 1) <= key { half } else { 0 };
            left -= half;
        }
        self.get(words, self.starts + first)
    }
}

/// How many words the arrays of so many starts and their next hops take.
pub(crate) fn array_words(starts: usize, width: usize) -> u32 {
    ((2 * starts + 1) * width).div_ceil(4) as u32
}
