// SPDX-License-Identifier: MIT
//! [`Lanes`] by AVX-512: sixteen words in a register, and yes and no in a mask register.

use super::{BATCH_SIZE, Heads, Kernel, Lanes, Mask, Words, place};
use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

const COUNT: usize = 16;

/// Sixteen words of a register.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// Runs a kernel.
///
/// # Safety
/// The processor has AVX-512 with the extensions BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn sort<const M: usize>(count: usize, kernel: &mut impl Kernel<M>) -> [Mask; M] {
    super::sort::<Avx512, M>(count, kernel)
}

/// One intrinsic or a few.
macro_rules! by {
    ($e:expr) => {
        // SAFETY: `Avx512` is named in this file alone, whose `sort` runs where the processor has it. Addresses are of
        // references.
        unsafe { $e }
    };
}

impl Lanes for Avx512 {
    const COUNT: usize = COUNT;
    type Word = __m512i;
    type Truth = __mmask16;

    #[inline(always)]
    fn load(from: &[u32; BATCH_SIZE], at: usize) -> __m512i {
        let from: &[u32] = &from[place::<COUNT>(at)..][..COUNT];
        by!(_mm512_loadu_si512(from.as_ptr().cast()))
    }

    #[inline(always)]
    fn load16(from: &[u16; BATCH_SIZE], at: usize) -> __m512i {
        let from: &[u16] = &from[place::<COUNT>(at)..][..COUNT];
        by!(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast())))
    }

    #[inline(always)]
    fn load8(from: &[u8; BATCH_SIZE], at: usize) -> __m512i {
        let from: &[u8] = &from[place::<COUNT>(at)..][..COUNT];
        by!(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast())))
    }

    #[inline(always)]
    fn store(to: &mut [u32; BATCH_SIZE], at: usize, words: __m512i) {
        let to: &mut [u32] = &mut to[place::<COUNT>(at)..][..COUNT];
        by!(_mm512_storeu_si512(to.as_mut_ptr().cast(), words))
    }

    #[inline(always)]
    fn splat(word: u32) -> __m512i {
        by!(_mm512_set1_epi32(word.cast_signed()))
    }

    #[inline(always)]
    fn add(a: __m512i, b: __m512i) -> __m512i {
        by!(_mm512_add_epi32(a, b))
    }

    #[inline(always)]
    fn sub(a: __m512i, b: __m512i) -> __m512i {
        by!(_mm512_sub_epi32(a, b))
    }

    #[inline(always)]
    fn mul(a: __m512i, b: __m512i) -> __m512i {
        by!(_mm512_mullo_epi32(a, b))
    }

    #[inline(always)]
    fn and(a: __m512i, b: __m512i) -> __m512i {
        by!(_mm512_and_si512(a, b))
    }

    #[inline(always)]
    fn or(a: __m512i, b: __m512i) -> __m512i {
        by!(_mm512_or_si512(a, b))
    }

    #[inline(always)]
    fn shl<const BY: u32>(a: __m512i) -> __m512i {
        by!(_mm512_slli_epi32::<BY>(a))
    }

    #[inline(always)]
    fn shr<const BY: u32>(a: __m512i) -> __m512i {
        by!(_mm512_srli_epi32::<BY>(a))
    }

    #[inline(always)]
    fn shr_each(a: __m512i, by: __m512i) -> __m512i {
        by!(_mm512_srlv_epi32(a, _mm512_and_si512(by, _mm512_set1_epi32(31))))
    }

    #[inline(always)]
    fn swap(a: __m512i) -> __m512i {
        by!({
            let order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
            _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(order))
        })
    }

    #[inline(always)]
    fn gather(table: Words<'_>, index: __m512i) -> __m512i {
        // The index is below the number of words.
        by!({
            let index = _mm512_and_si512(index, _mm512_set1_epi32((table.0.len() - 1) as i32));
            _mm512_i32gather_epi32::<4>(index, table.0.as_ptr().cast())
        })
    }

    #[inline(always)]
    fn gather_high(table: &[AtomicU64], index: __m512i) -> __m512i {
        if table.is_empty() { Self::splat(0) } else { by!(high_halves(table, index)) }
    }

    #[inline(always)]
    fn equal(a: __m512i, b: __m512i) -> __mmask16 {
        by!(_mm512_cmpeq_epi32_mask(a, b))
    }

    #[inline(always)]
    fn greater(a: __m512i, b: __m512i) -> __mmask16 {
        by!(_mm512_cmpgt_epi32_mask(a, b))
    }

    #[inline(always)]
    fn both(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }

    #[inline(always)]
    fn either(a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }

    #[inline(always)]
    fn not(a: __mmask16) -> __mmask16 {
        !a
    }

    #[inline(always)]
    fn except(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & !b
    }

    #[inline(always)]
    fn only(truth: __mmask16, word: __m512i) -> __m512i {
        by!(_mm512_maskz_mov_epi32(truth, word))
    }

    #[inline(always)]
    fn blend(bits: u32, yes: __m512i, no: __m512i) -> __m512i {
        by!(_mm512_mask_blend_epi32(bits as __mmask16, no, yes))
    }

    #[inline(always)]
    fn bits(truth: __mmask16) -> u32 {
        truth.into()
    }

    #[inline(always)]
    unsafe fn heads(frames: *const *const u8) -> Heads<Self> {
        // SAFETY: the caller vouches for the addresses, and for 34 bytes at each: 16 from 2 on, and 16 from 18 on.
        unsafe {
            let [rest, _, kind, w0] = transposed(frames, 2);
            let [w1, w2, w3, w4] = transposed(frames, 18);
            let (mut low, mut high) = (_mm_setzero_si128(), _mm_setzero_si128());
            macro_rules! insert {
                ($($i:literal)*) => {$(
                    low = _mm_insert_epi16::<$i>(low, (*frames.add($i)).cast::<u16>().read_unaligned().into());
                    high = _mm_insert_epi16::<$i>(high, (*frames.add(8 + $i)).cast::<u16>().read_unaligned().into());
                )*};
            }
            insert!(0 1 2 3 4 5 6 7);
            let first = _mm512_cvtepu16_epi32(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high));
            Heads { first, rest, kind, words: [w0, w1, w2, w3, w4] }
        }
    }
}

/// The upper halves of entries, by index; 0 beyond the end. As by AVX2; a function of its own, as assembly needs the
/// instruction set where it stands.
///
/// # Safety
/// The processor has AVX-512; the table is not empty.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn high_halves(table: &[AtomicU64], index: __m512i) -> __m512i {
    let within = _mm512_cmplt_epu32_mask(index, _mm512_set1_epi32(table.len() as i32));
    let mut out = _mm512_setzero_si512();
    // SAFETY: only indices within the table are read.
    unsafe {
        asm!("vpgatherdd {out} {{{mask}}}, [{table} + {index}*8 + 4]",
            out = inout(zmm_reg) out, mask = inout(kreg) within => _, table = in(reg) table.as_ptr(),
            index = in(zmm_reg) index, options(nostack, readonly, preserves_flags));
    }
    out
}

/// Four words from byte `at` of each of sixteen frames: the first words of all, then the second ones, ...
///
/// # Safety
/// `frames` points to sixteen addresses, each of `at` + 16 bytes that may be read; the processor has AVX-512.
#[inline(always)]
unsafe fn transposed(frames: *const *const u8, at: usize) -> [__m512i; 4] {
    // SAFETY: the caller vouches for it.
    unsafe {
        let load = |i: usize| _mm_loadu_si128((*frames.add(i)).add(at).cast());
        // Frames i, i + 4, ..., so that what four-by-four transpositions within a quarter of a register give is in
        // order. (A macro, as a closure would not be compiled for AVX-512.)
        macro_rules! four {
            ($i:literal) => {{
                let two = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(load($i)), load($i + 4));
                _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(two, load($i + 8)), load($i + 12))
            }};
        }
        let (a, b, c, d) = (four!(0), four!(1), four!(2), four!(3));
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(ab, cd),
            _mm512_unpackhi_epi64(ab, cd),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ]
    }
}
