// SPDX-License-Identifier: MIT
//! [`Lanes`] by AVX2: eight words in a register.

use super::{BATCH_SIZE, Heads, Kernel, Lanes, Mask, Words, place};
use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

const COUNT: usize = 8;

/// Eight words of a register.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

/// Runs a kernel.
///
/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn sort<const M: usize>(count: usize, kernel: &mut impl Kernel<M>) -> [Mask; M] {
    super::sort::<Avx2, M>(count, kernel)
}

/// One intrinsic or a few.
macro_rules! by {
    ($e:expr) => {
        // SAFETY: `Avx2` is named in this file alone, whose `sort` runs where the processor has AVX2. Addresses are of
        // references.
        unsafe { $e }
    };
}

impl Lanes for Avx2 {
    const COUNT: usize = COUNT;
    type Word = __m256i;
    type Truth = __m256i;

    #[inline(always)]
    fn load(from: &[u32; BATCH_SIZE], at: usize) -> __m256i {
        let from: &[u32] = &from[place::<COUNT>(at)..][..COUNT];
        by!(_mm256_loadu_si256(from.as_ptr().cast()))
    }

    #[inline(always)]
    fn load16(from: &[u16; BATCH_SIZE], at: usize) -> __m256i {
        let from: &[u16] = &from[place::<COUNT>(at)..][..COUNT];
        by!(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast())))
    }

    #[inline(always)]
    fn load8(from: &[u8; BATCH_SIZE], at: usize) -> __m256i {
        let from: &[u8] = &from[place::<COUNT>(at)..][..COUNT];
        by!(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast())))
    }

    #[inline(always)]
    fn store(to: &mut [u32; BATCH_SIZE], at: usize, words: __m256i) {
        let to: &mut [u32] = &mut to[place::<COUNT>(at)..][..COUNT];
        by!(_mm256_storeu_si256(to.as_mut_ptr().cast(), words))
    }

    #[inline(always)]
    fn splat(word: u32) -> __m256i {
        by!(_mm256_set1_epi32(word.cast_signed()))
    }

    #[inline(always)]
    fn add(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_add_epi32(a, b))
    }

    #[inline(always)]
    fn sub(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_sub_epi32(a, b))
    }

    #[inline(always)]
    fn mul(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_mullo_epi32(a, b))
    }

    #[inline(always)]
    fn and(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_and_si256(a, b))
    }

    #[inline(always)]
    fn or(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_or_si256(a, b))
    }

    #[inline(always)]
    fn shl<const BY: u32>(a: __m256i) -> __m256i {
        by!(_mm256_sll_epi32(a, _mm_cvtsi32_si128(BY.cast_signed())))
    }

    #[inline(always)]
    fn shr<const BY: u32>(a: __m256i) -> __m256i {
        by!(_mm256_srl_epi32(a, _mm_cvtsi32_si128(BY.cast_signed())))
    }

    #[inline(always)]
    fn shr_each(a: __m256i, by: __m256i) -> __m256i {
        by!(_mm256_srlv_epi32(a, _mm256_and_si256(by, _mm256_set1_epi32(31))))
    }

    #[inline(always)]
    fn swap(a: __m256i) -> __m256i {
        by!({
            let order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
            _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(order))
        })
    }

    #[inline(always)]
    fn gather(table: Words<'_>, index: __m256i) -> __m256i {
        // The index is below the number of words.
        by!({
            let index = _mm256_and_si256(index, _mm256_set1_epi32((table.0.len() - 1) as i32));
            _mm256_i32gather_epi32::<4>(table.0.as_ptr().cast(), index)
        })
    }

    #[inline(always)]
    fn gather_high(table: &[AtomicU64], index: __m256i) -> __m256i {
        if table.is_empty() { Self::splat(0) } else { by!(high_halves(table, index)) }
    }

    #[inline(always)]
    fn equal(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_cmpeq_epi32(a, b))
    }

    #[inline(always)]
    fn greater(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_cmpgt_epi32(a, b))
    }

    #[inline(always)]
    fn both(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_and_si256(a, b))
    }

    #[inline(always)]
    fn either(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_or_si256(a, b))
    }

    #[inline(always)]
    fn not(a: __m256i) -> __m256i {
        by!(_mm256_xor_si256(a, _mm256_set1_epi32(-1)))
    }

    #[inline(always)]
    fn except(a: __m256i, b: __m256i) -> __m256i {
        by!(_mm256_andnot_si256(b, a))
    }

    #[inline(always)]
    fn only(truth: __m256i, word: __m256i) -> __m256i {
        by!(_mm256_and_si256(truth, word))
    }

    #[inline(always)]
    fn blend(bits: u32, yes: __m256i, no: __m256i) -> __m256i {
        by!({
            let each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let mine = _mm256_and_si256(_mm256_set1_epi32(bits.cast_signed()), each);
            _mm256_blendv_epi8(no, yes, _mm256_cmpeq_epi32(mine, each))
        })
    }

    #[inline(always)]
    fn bits(truth: __m256i) -> u32 {
        by!(_mm256_movemask_ps(_mm256_castsi256_ps(truth))).cast_unsigned()
    }

    #[inline(always)]
    unsafe fn heads(frames: *const *const u8) -> Heads<Self> {
        // SAFETY: the caller vouches for the addresses, and for 34 bytes at each: 16 from 2 on, and 16 from 18 on.
        unsafe {
            let [rest, _, kind, w0] = transposed(frames, 2);
            let [w1, w2, w3, w4] = transposed(frames, 18);
            let mut first = _mm_setzero_si128();
            macro_rules! insert {
                ($($i:literal)*) => {
                    $(first = _mm_insert_epi16::<$i>(first, (*frames.add($i)).cast::<u16>().read_unaligned().into());)*
                };
            }
            insert!(0 1 2 3 4 5 6 7);
            Heads { first: _mm256_cvtepu16_epi32(first), rest, kind, words: [w0, w1, w2, w3, w4] }
        }
    }
}

/// The upper halves of entries, by index; 0 beyond the end. In assembly, as the compiler must not take it for an
/// ordinary load, which must not race; the processor reads each aligned word as a whole. A function of its own, as
/// assembly needs the instruction set where it stands.
///
/// # Safety
/// The processor has AVX2; the table is not empty.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn high_halves(table: &[AtomicU64], index: __m256i) -> __m256i {
    let last = _mm256_set1_epi32((table.len() - 1) as i32);
    let within = _mm256_cmpeq_epi32(_mm256_min_epu32(index, last), index);
    let mut out = _mm256_setzero_si256();
    // SAFETY: only indices within the table are read.
    unsafe {
        asm!("vpgatherdd {out}, [{table} + {index}*8 + 4], {mask}",
            out = inout(ymm_reg) out, mask = inout(ymm_reg) within => _, table = in(reg) table.as_ptr(),
            index = in(ymm_reg) index, options(nostack, readonly, preserves_flags));
    }
    out
}

/// Four words from byte `at` of each of eight frames: the first words of all, then the second ones, ...
///
/// # Safety
/// `frames` points to eight addresses, each of `at` + 16 bytes that may be read; the processor has AVX2.
#[inline(always)]
unsafe fn transposed(frames: *const *const u8, at: usize) -> [__m256i; 4] {
    // SAFETY: the caller vouches for it.
    unsafe {
        let load = |i: usize| _mm_loadu_si128((*frames.add(i)).add(at).cast());
        // Frames i and i + 4, so that what four-by-four transpositions within half a register give is in order.
        let two = |i: usize| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(i)), load(i + 4));
        let (a, b, c, d) = (two(0), two(1), two(2), two(3));
        let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(ab, cd),
            _mm256_unpackhi_epi64(ab, cd),
            _mm256_unpacklo_epi64(ab_high, cd_high),
            _mm256_unpackhi_epi64(ab_high, cd_high),
        ]
    }
}
