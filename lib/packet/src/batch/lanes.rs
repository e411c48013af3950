// SPDX-License-Identifier: MIT
//! Code written once for many packets at a time, and run by AVX-512, by AVX2 or by plain code, as the processor has it.
//!
//! A [`Kernel`] handles a group of slots with the operations of [`Lanes`], one packet in each lane, and says by a bit
//! per lane what it found; [`Isa::sort`] runs it over a batch and makes masks of the bits. Kernels are safe code:
//! whatever instructions they are compiled for, the intrinsics stand in the three files below, and only an [`Isa`] that
//! the processor has can be made.
//!
//! Every function here is `#[inline(always)]`, kernels' too: an operation becomes its instruction only where it lands
//! inside the function that was compiled for the instruction set.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod plain;

use super::mask::{BATCH_SIZE, Mask};
use std::sync::atomic::AtomicU64;

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The best one that this processor has.
    pub fn detect() -> Isa {
        *Self::available().last().unwrap_or(&Isa(Set::Plain))
    }

    /// All that this processor has, the best last.
    pub fn available() -> &'static [Isa] {
        #[cfg(target_arch = "x86_64")]
        {
            const ALL: &[Isa] = &[Isa(Set::Plain), Isa(Set::Avx2), Isa(Set::Avx512)];
            // Miri interprets neither; everything else is as fast as the processor allows.
            let avx2 = is_x86_feature_detected!("avx2") && !cfg!(miri);
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl");
            match (avx2, avx512) {
                (true, true) => ALL,
                (true, false) => &ALL[..2],
                _ => &ALL[..1],
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        &[Isa(Set::Plain)]
    }

    /// Its name: "plain", "avx2", "avx512".
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
        }
    }

    /// Runs a kernel over the first `count` slots, which are at most [`BATCH_SIZE`], and returns the masks of what it
    /// found. Bits of slots from `count` on mean nothing.
    #[inline(always)]
    pub fn sort<const M: usize>(self, count: usize, kernel: &mut impl Kernel<M>) -> [Mask; M] {
        match self.0 {
            // Out of line, as it is for processors that hardly anybody has any more.
            Set::Plain => plain::sort(count, kernel),
            // SAFETY: an `Isa` is made by `available` alone, if the processor has it.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { avx2::sort(count, kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { avx512::sort(count, kernel) },
        }
    }
}

/// What is done with a group of slots.
pub trait Kernel<const M: usize> {
    /// Handles the [`Lanes::COUNT`] slots from `at` on, a multiple of that number; returns a bit per slot for each
    /// mask, the first slot's lowest. To be `#[inline(always)]`.
    fn group<L: Lanes>(&mut self, at: usize) -> [u32; M];
}

/// A table of words to [`Lanes::gather`] from; their number is a power of two.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(&'a [u32]);

impl<'a> Words<'a> {
    /// `None` unless the number of words is a power of two.
    #[inline]
    pub fn new(words: &'a [u32]) -> Option<Words<'a>> {
        words.len().is_power_of_two().then_some(Words(words))
    }
}

/// Operations on as many words of 32 bits as the instruction set handles at once.
pub trait Lanes: Copy {
    /// How many: 8 or 16.
    const COUNT: usize;
    /// A word per lane.
    type Word: Copy;
    /// Yes or no per lane.
    type Truth: Copy;

    /// The entries of the slots from `at` on.
    fn load(from: &[u32; BATCH_SIZE], at: usize) -> Self::Word;
    /// The same of a column of 16 bits.
    fn load16(from: &[u16; BATCH_SIZE], at: usize) -> Self::Word;
    /// The same of a column of 8 bits.
    fn load8(from: &[u8; BATCH_SIZE], at: usize) -> Self::Word;
    /// Writes the entries of the slots from `at` on.
    fn store(to: &mut [u32; BATCH_SIZE], at: usize, words: Self::Word);
    /// The same word in all lanes.
    fn splat(word: u32) -> Self::Word;
    fn add(a: Self::Word, b: Self::Word) -> Self::Word;
    fn sub(a: Self::Word, b: Self::Word) -> Self::Word;
    /// The low 32 bits of the product.
    fn mul(a: Self::Word, b: Self::Word) -> Self::Word;
    fn and(a: Self::Word, b: Self::Word) -> Self::Word;
    fn or(a: Self::Word, b: Self::Word) -> Self::Word;
    fn shl<const BY: u32>(a: Self::Word) -> Self::Word;
    fn shr<const BY: u32>(a: Self::Word) -> Self::Word;
    /// Each word shifted to the right by another's low five bits.
    fn shr_each(a: Self::Word, by: Self::Word) -> Self::Word;
    /// The bytes of each word in reverse order.
    fn swap(a: Self::Word) -> Self::Word;
    /// Entries of a table, by index modulo its size.
    fn gather(table: Words<'_>, index: Self::Word) -> Self::Word;
    /// The upper halves of entries of a table that others write to meanwhile, by index; 0 for an index beyond its end.
    /// Each is read as a whole, as by a relaxed atomic load.
    fn gather_high(table: &[AtomicU64], index: Self::Word) -> Self::Word;
    fn equal(a: Self::Word, b: Self::Word) -> Self::Truth;
    /// Is `a` greater than `b`? As signed numbers.
    fn greater(a: Self::Word, b: Self::Word) -> Self::Truth;
    fn both(a: Self::Truth, b: Self::Truth) -> Self::Truth;
    fn either(a: Self::Truth, b: Self::Truth) -> Self::Truth;
    /// No, where yes was, and yes, where no was.
    fn not(a: Self::Truth) -> Self::Truth;
    /// `a` and not `b`.
    fn except(a: Self::Truth, b: Self::Truth) -> Self::Truth;
    /// `word` where yes, 0 where no.
    fn only(truth: Self::Truth, word: Self::Word) -> Self::Word;
    /// `yes` in the lanes whose bit is set, `no` in the others.
    fn blend(bits: u32, yes: Self::Word, no: Self::Word) -> Self::Word;
    /// A bit per lane.
    fn bits(truth: Self::Truth) -> u32;

    /// The first 34 bytes of frames, whose addresses lie side by side.
    ///
    /// # Safety
    /// `frames` must point to [`COUNT`](Self::COUNT) addresses, each of 34 bytes that may be read.
    unsafe fn heads(frames: *const *const u8) -> Heads<Self>;
}

/// The first 34 bytes of a group of frames, as words in the frames' byte order.
pub struct Heads<L: Lanes> {
    /// Bytes 0 and 1: the destination's first two.
    pub first: L::Word,
    /// Bytes 2 to 5: its other four.
    pub rest: L::Word,
    /// Bytes 10 to 13: the end of the source, and the type in the upper half.
    pub kind: L::Word,
    /// Bytes 14 to 33: a network header's first five words.
    pub words: [L::Word; 5],
}

/// The loop of [`Isa::sort`].
#[inline(always)]
fn sort<L: Lanes, const M: usize>(count: usize, kernel: &mut impl Kernel<M>) -> [Mask; M] {
    let mut masks = [[0; BATCH_SIZE / 64]; M];
    let count = count.min(BATCH_SIZE);
    for word in 0..count.div_ceil(64) {
        let (mut found, mut at) = ([0; M], 64 * word);
        let end = count.min(at + 64);
        while at < end {
            let group = kernel.group::<L>(at);
            for (found, group) in found.iter_mut().zip(group) {
                *found |= u64::from(group) << (at % 64);
            }
            at += L::COUNT;
        }
        for (mask, found) in masks.iter_mut().zip(found) {
            mask[word] = found;
        }
    }
    masks.map(Mask::from_words)
}

/// The place of a group in a column: `at`, and never beyond.
#[inline(always)]
const fn place<const COUNT: usize>(at: usize) -> usize {
    at & (BATCH_SIZE - COUNT)
}
