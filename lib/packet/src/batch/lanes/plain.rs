// SPDX-License-Identifier: MIT
//! [`Lanes`] for any processor: loops over eight words.

use super::{BATCH_SIZE, Heads, Kernel, Lanes, Mask, Words, place};
use std::sync::atomic::{AtomicU64, Ordering};

const COUNT: usize = 8;

/// Eight words, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Plain;

/// Runs a kernel.
#[inline(never)]
pub(super) fn sort<const M: usize>(count: usize, kernel: &mut impl Kernel<M>) -> [Mask; M] {
    super::sort::<Plain, M>(count, kernel)
}

#[inline(always)]
fn each<T: Copy, U>(a: [T; COUNT], f: impl FnMut(T) -> U) -> [U; COUNT] {
    a.map(f)
}

#[inline(always)]
fn zip<T: Copy, U: Copy, V>(a: [T; COUNT], b: [U; COUNT], mut f: impl FnMut(T, U) -> V) -> [V; COUNT] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

#[inline(always)]
fn column<T: Copy>(from: &[T; BATCH_SIZE], at: usize) -> [T; COUNT] {
    std::array::from_fn(|i| from[place::<COUNT>(at) + i])
}

impl Lanes for Plain {
    const COUNT: usize = COUNT;
    type Word = [u32; COUNT];
    type Truth = [bool; COUNT];

    #[inline(always)]
    fn load(from: &[u32; BATCH_SIZE], at: usize) -> Self::Word {
        column(from, at)
    }

    #[inline(always)]
    fn load16(from: &[u16; BATCH_SIZE], at: usize) -> Self::Word {
        each(column(from, at), u32::from)
    }

    #[inline(always)]
    fn load8(from: &[u8; BATCH_SIZE], at: usize) -> Self::Word {
        each(column(from, at), u32::from)
    }

    #[inline(always)]
    fn store(to: &mut [u32; BATCH_SIZE], at: usize, words: Self::Word) {
        to[place::<COUNT>(at)..][..COUNT].copy_from_slice(&words);
    }

    #[inline(always)]
    fn splat(word: u32) -> Self::Word {
        [word; COUNT]
    }

    #[inline(always)]
    fn add(a: Self::Word, b: Self::Word) -> Self::Word {
        zip(a, b, u32::wrapping_add)
    }

    #[inline(always)]
    fn sub(a: Self::Word, b: Self::Word) -> Self::Word {
        zip(a, b, u32::wrapping_sub)
    }

    #[inline(always)]
    fn mul(a: Self::Word, b: Self::Word) -> Self::Word {
        zip(a, b, u32::wrapping_mul)
    }

    #[inline(always)]
    fn and(a: Self::Word, b: Self::Word) -> Self::Word {
        zip(a, b, |a, b| a & b)
    }

    #[inline(always)]
    fn or(a: Self::Word, b: Self::Word) -> Self::Word {
        zip(a, b, |a, b| a | b)
    }

    #[inline(always)]
    fn shl<const BY: u32>(a: Self::Word) -> Self::Word {
        each(a, |a| a << BY)
    }

    #[inline(always)]
    fn shr<const BY: u32>(a: Self::Word) -> Self::Word {
        each(a, |a| a >> BY)
    }

    #[inline(always)]
    fn shr_each(a: Self::Word, by: Self::Word) -> Self::Word {
        zip(a, by, |a, by| a >> (by & 31))
    }

    #[inline(always)]
    fn swap(a: Self::Word) -> Self::Word {
        each(a, u32::swap_bytes)
    }

    #[inline(always)]
    fn gather(table: Words<'_>, index: Self::Word) -> Self::Word {
        each(index, |index| table.0[index as usize & (table.0.len() - 1)])
    }

    #[inline(always)]
    fn gather_high(table: &[AtomicU64], index: Self::Word) -> Self::Word {
        each(index, |index| table.get(index as usize).map_or(0, |word| (word.load(Ordering::Relaxed) >> 32) as u32))
    }

    #[inline(always)]
    fn equal(a: Self::Word, b: Self::Word) -> Self::Truth {
        zip(a, b, |a, b| a == b)
    }

    #[inline(always)]
    fn greater(a: Self::Word, b: Self::Word) -> Self::Truth {
        zip(a, b, |a, b| a.cast_signed() > b.cast_signed())
    }

    #[inline(always)]
    fn both(a: Self::Truth, b: Self::Truth) -> Self::Truth {
        zip(a, b, |a, b| a & b)
    }

    #[inline(always)]
    fn either(a: Self::Truth, b: Self::Truth) -> Self::Truth {
        zip(a, b, |a, b| a | b)
    }

    #[inline(always)]
    fn not(a: Self::Truth) -> Self::Truth {
        each(a, |a| !a)
    }

    #[inline(always)]
    fn except(a: Self::Truth, b: Self::Truth) -> Self::Truth {
        zip(a, b, |a, b| a & !b)
    }

    #[inline(always)]
    fn only(truth: Self::Truth, word: Self::Word) -> Self::Word {
        zip(truth, word, |truth, word| if truth { word } else { 0 })
    }

    #[inline(always)]
    fn blend(bits: u32, yes: Self::Word, no: Self::Word) -> Self::Word {
        std::array::from_fn(|i| if bits >> i & 1 != 0 { yes[i] } else { no[i] })
    }

    #[inline(always)]
    fn bits(truth: Self::Truth) -> u32 {
        (0..COUNT).fold(0, |bits, i| bits | u32::from(truth[i]) << i)
    }

    #[inline(always)]
    unsafe fn heads(frames: *const *const u8) -> Heads<Self> {
        let (mut first, mut rest, mut kind, mut words) = ([0; COUNT], [0; COUNT], [0; COUNT], [[0; COUNT]; 5]);
        for i in 0..COUNT {
            // SAFETY: the caller vouches for the addresses, and for 34 bytes at each.
            let frame = unsafe { *(*frames.add(i)).cast::<[u8; 34]>() };
            let word = |at: usize| u32::from_ne_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
            first[i] = u16::from_ne_bytes([frame[0], frame[1]]).into();
            rest[i] = word(2);
            kind[i] = word(10);
            for (n, column) in words.iter_mut().enumerate() {
                column[i] = word(14 + 4 * n);
            }
        }
        Heads { first, rest, kind, words }
    }
}
