// SPDX-License-Identifier: MIT
//! The inner loops of `range6` for AVX-512, for AVX2 and for any processor. `simd.rs` says why its gathers are written in
//! assembly.
//!
//! Lines are filled before a word that leads to them becomes visible, and are not written while a reader may hold them: they
//! are read with plain loads. The exception are the words of wide lines, in their second halves: these may be replaced at any
//! time and are read one by one, as atomics; vector loads of wide lines leave them out.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::Isa;
use crate::lookup::range6::layout::*;

/// Addresses that descend side by side.
const PASS: usize = 64;

/// Sets `ids[i]` to the next hop's id of `addresses[i]`, or to `default` where only the default route matches.
///
/// # Panics
/// If the slices differ in length, or there is not even a root.
pub(crate) fn range6(isa: Isa, words: &[AtomicU32], default: u32, addresses: &[u128], ids: &mut [u32]) {
    assert_eq!(addresses.len(), ids.len(), "one id per address");
    assert!(words.len() >= 1 << MAX_STRIDE && words.len() < 1 << 30, "there is always a root");
    let (passes, rest) = addresses.as_chunks::<PASS>();
    let (to, to_rest) = ids.as_chunks_mut::<PASS>();
    let one = |addresses: &[u128; PASS], ids: &mut [u32; PASS]| match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only chosen where `Isa::available` has found the instructions.
        Isa::Avx512 => unsafe { avx512::pass(words, default, addresses, ids) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { avx2::pass(words, default, addresses, ids) },
        _ => {
            let pass = descend(words, addresses);
            finish(words, default, addresses, pass, ids, select, run_of);
        }
    };
    for (addresses, ids) in passes.iter().zip(to) {
        one(addresses, ids);
    }
    if !rest.is_empty() {
        let (mut padded, mut out) = ([0; PASS], [0; PASS]);
        padded[..rest.len()].copy_from_slice(rest);
        one(&padded, &mut out);
        to_rest.copy_from_slice(&out[..rest.len()]);
    }
}

/// How words are loaded that lead on. The fence behind them orders all of them at once (`tests/loom_publish.rs`); ThreadSanitizer knows
/// loads that acquire, and no fences.
const LEADS_ON: Ordering = if cfg!(tsan) { Ordering::Acquire } else { Ordering::Relaxed };

/// The id that a leaf stands for.
#[inline(always)]
fn id_of(leaf: u32, default: u32) -> u32 {
    if leaf == 0 { default } else { leaf - 1 }
}

/// The word found for each address, and how many of its bits led there.
struct Pass {
    found: [u32; PASS],
    depth: [u32; PASS],
}

/// Lanes of a pass that are to take some step; with room for one vector more, as whole vectors are stored.
type Lanes = [u32; PASS + 16];

/// Collects the lanes whose word, masked, has this value, and returns their number.
#[inline(always)]
fn select(found: &[u32; PASS], mask: u32, value: u32, lanes: &mut Lanes) -> usize {
    let mut count = 0;
    for (lane, word) in (0..).zip(found) {
        lanes[count] = lane;
        count += usize::from(word & mask == value);
    }
    count
}

#[inline(always)]
fn line(words: &[AtomicU32], word: u32) -> &[AtomicU32] {
    &words[start(word).min(words.len() - LINE)..][..LINE]
}

/// Prefetches the first line of the node that `word` leads to.
#[inline(always)]
fn prefetch(words: &[AtomicU32], word: u32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction; it is only a hint.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line(words, word).as_ptr().cast());
    }
}

/// 32 bits of the address from `depth` on; only its first 64 are looked at.
#[inline(always)]
fn key(address: u128, depth: u32) -> u32 {
    ((((address >> 64) as u64) << (depth & 63)) >> 32) as u32
}

/// The first steps, through at most three indices, without a branch that depends on an address.
#[inline(always)]
fn descend(words: &[AtomicU32], addresses: &[u128; PASS]) -> Pass {
    let mut pass = Pass { found: [ROOT; PASS], depth: [0; PASS] };
    for (found, &address) in pass.found.iter_mut().zip(addresses) {
        *found = words[(address >> 112) as usize].load(LEADS_ON);
    }
    pass.depth = [MAX_STRIDE; PASS];
    for _ in 0..2 {
        for ((found, depth), &address) in pass.found.iter_mut().zip(&mut pass.depth).zip(addresses) {
            let is_index = *found & (KIND | DEEP) == INDEX;
            let stride = stride(*found);
            let at = start(*found) + (key(address, *depth) >> (32 - stride)) as usize;
            let next = words[if is_index { at.min(words.len() - 1) } else { 0 }].load(LEADS_ON);
            *found = if is_index { next } else { *found };
            *depth += if is_index { stride } else { 0 };
        }
    }
    pass
}

/// The remaining steps: first of the few lanes that are still at an index, then of all that are at a tree, then of all that are
/// at a line.
#[inline(always)]
fn finish(
    words: &[AtomicU32],
    default: u32,
    addresses: &[u128; PASS],
    mut pass: Pass,
    ids: &mut [u32; PASS],
    select: impl Fn(&[u32; PASS], u32, u32, &mut Lanes) -> usize,
    run_of: impl Fn(&[AtomicU32], usize, u32) -> usize,
) {
    let mut lanes = [0; PASS + 16];
    let count = select(&pass.found, KIND | DEEP, INDEX, &mut lanes);
    for lane in lanes[..count].iter().map(|lane| *lane as usize % PASS) {
        let (mut word, mut depth) = (pass.found[lane], pass.depth[lane]);
        while word & (KIND | DEEP) == INDEX {
            let at = start(word) + (key(addresses[lane], depth) >> (32 - stride(word))) as usize;
            depth += stride(word);
            word = words[at.min(words.len() - 1)].load(LEADS_ON);
        }
        (pass.found[lane], pass.depth[lane]) = (word, depth);
    }
    // What a word leads to is filled before the word becomes visible.
    fence(Ordering::Acquire);
    let count = select(&pass.found, LEAVES, LEAVES, &mut lanes);
    lanes[..count].iter().for_each(|lane| prefetch(words, pass.found[*lane as usize % PASS]));
    let count = select(&pass.found, KIND | DEEP, TREE, &mut lanes);
    for lane in lanes[..count].iter().map(|lane| *lane as usize % PASS) {
        let tree = pass.found[lane];
        let run = run_of(line(words, tree), LINE, key(addresses[lane], pass.depth[lane]));
        pass.found[lane] = tree_line(tree, run);
        prefetch(words, pass.found[lane]);
    }
    let count = select(&pass.found, KIND | DEEP | WIDE, LEAVES, &mut lanes);
    for lane in lanes[..count].iter().map(|lane| *lane as usize % PASS) {
        let line = line(words, pass.found[lane]);
        let run = run_of(line, NARROW_RUNS - 1, key(addresses[lane], pass.depth[lane]));
        pass.found[lane] = narrow_leaf(line, run);
    }
    let mut left = 0;
    for (id, &leaf) in ids.iter_mut().zip(&pass.found) {
        *id = id_of(leaf, default);
        left |= leaf & KIND;
    }
    if left != 0 {
        rest(words, default, addresses, &mut pass, ids, run_of);
    }
}

/// Wide lines; and the whole walk for lanes whose word leads where these loops do not go.
#[inline(always)]
fn rest(
    words: &[AtomicU32],
    default: u32,
    addresses: &[u128; PASS],
    pass: &mut Pass,
    ids: &mut [u32; PASS],
    run_of: impl Fn(&[AtomicU32], usize, u32) -> usize,
) {
    for lane in 0..PASS {
        let mut word = pass.found[lane];
        if word & (KIND | DEEP | WIDE) == LEAVES | WIDE {
            let line = line(words, word);
            let run = run_of(line, WIDE_RUNS - 1, key(addresses[lane], pass.depth[lane]));
            word = line[WIDE_WORDS + run].load(Ordering::Relaxed);
            ids[lane] = id_of(word, default);
        }
        if word & KIND != 0 {
            ids[lane] = id_of(walk(words, addresses[lane]), default);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub fn pass(words: &[AtomicU32], default: u32, addresses: &[u128; PASS], ids: &mut [u32; PASS]) {
        let pass = descend(words, addresses);
        finish(words, default, addresses, pass, ids, select, |line, lasts, key| run_of(line, lasts, key));
    }

    /// How many of the first `lasts` words are below `key`. AVX2 compares signed numbers only; a word is not below `key` if the
    /// unsigned maximum of the two is the word.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn run_of(line: &[AtomicU32], lasts: usize, key: u32) -> usize {
        let line = line[..LINE].as_ptr().cast::<__m256i>();
        // SAFETY: eight words, which nobody writes to (see above).
        let low = unsafe { _mm256_loadu_si256(line) };
        // SAFETY: eight more, which nobody writes to, as the line is not a wide one.
        let high = if lasts > WIDE_WORDS { unsafe { _mm256_loadu_si256(line.add(1)) } } else { low };
        let key = _mm256_set1_epi32(key as i32);
        let not_below = |last| {
            let is_larger = _mm256_cmpeq_epi32(_mm256_max_epu32(last, key), last);
            _mm256_movemask_ps(_mm256_castsi256_ps(is_larger)) as u32
        };
        let not_below = not_below(low) | not_below(high) << 8;
        (!not_below & ((1 << lasts) - 1)).count_ones() as usize
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;

    const LANES: usize = 16;
    const VECTORS: usize = PASS / LANES;

    /// The words at `index`, where `mask` is set, else those of `or`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn gather(words: &[AtomicU32], index: __m512i, mask: __mmask16, or: __m512i) -> __m512i {
        let index = _mm512_min_epu32(index, _mm512_set1_epi32(words.len() as i32 - 1));
        let mut out = or;
        // SAFETY: every index is below the table's length; the words are aligned.
        unsafe {
            asm!("vpgatherdd {out} {{{mask}}}, [{table} + {index}*4]",
                out = inout(zmm_reg) out, mask = inout(kreg) mask => _, table = in(reg) words.as_ptr(),
                index = in(zmm_reg) index, options(nostack, readonly, preserves_flags));
        }
        out
    }

    /// The first 64 bits of eight addresses.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn high_halves(addresses: &[u128]) -> __m512i {
        let from = addresses[..8].as_ptr().cast::<__m512i>();
        // SAFETY: eight addresses are two vectors.
        let (low, high) = unsafe { (_mm512_loadu_si512(from), _mm512_loadu_si512(from.add(1))) };
        _mm512_permutex2var_epi64(low, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), high)
    }

    /// Sixteen lanes as they descend: the words found, the bits of each address after them (of its first 48, left-aligned), and
    /// how many bits led there.
    #[derive(Clone, Copy)]
    struct Way {
        found: __m512i,
        bits: __m512i,
        depth: __m512i,
    }

    /// The step through the root.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn root(words: &[AtomicU32], addresses: &[u128]) -> Way {
        let (low, high) = (high_halves(&addresses[..8]), high_halves(&addresses[8..LANES]));
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let first = _mm512_permutex2var_epi32(low, _mm512_or_si512(even, _mm512_set1_epi32(1)), high);
        let second = _mm512_permutex2var_epi32(low, even, high);
        let zero = _mm512_setzero_si512();
        let bits = _mm512_or_si512(_mm512_slli_epi32::<16>(first), _mm512_srli_epi32::<16>(second));
        let found = gather(words, _mm512_srli_epi32::<16>(first), !0, zero);
        Way { found, bits, depth: _mm512_set1_epi32(MAX_STRIDE as i32) }
    }

    /// One step, for the lanes that are at an index.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn step(words: &[AtomicU32], Way { found, bits, depth }: Way) -> Way {
        let kind = _mm512_and_si512(found, _mm512_set1_epi32((KIND | DEEP) as i32));
        let mask = _mm512_cmpeq_epi32_mask(kind, _mm512_set1_epi32(INDEX as i32));
        let stride = _mm512_and_si512(_mm512_srli_epi32::<STRIDE_SHIFT>(found), _mm512_set1_epi32(STRIDE_MASK as i32));
        let stride = _mm512_add_epi32(stride, _mm512_set1_epi32(MIN_STRIDE as i32));
        let line = _mm512_and_si512(found, _mm512_set1_epi32(LINE_MASK as i32));
        let place = _mm512_srlv_epi32(bits, _mm512_sub_epi32(_mm512_set1_epi32(32), stride));
        let index = _mm512_add_epi32(_mm512_slli_epi32::<{ LINE.ilog2() }>(line), place);
        Way {
            found: gather(words, index, mask, found),
            bits: _mm512_mask_sllv_epi32(bits, mask, bits, stride),
            depth: _mm512_mask_add_epi32(depth, mask, depth, stride),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
    pub fn pass(words: &[AtomicU32], default: u32, addresses: &[u128; PASS], ids: &mut [u32; PASS]) {
        let mut ways = [0, 1, 2, 3].map(|vector| root(words, &addresses[vector * LANES..][..LANES]));
        ways = ways.map(|way| step(words, way));
        ways = ways.map(|way| step(words, way));
        let mut pass = Pass { found: [0; PASS], depth: [0; PASS] };
        for (vector, way) in ways.iter().enumerate() {
            let (found, depth) = (&mut pass.found[vector * LANES..], &mut pass.depth[vector * LANES..]);
            // SAFETY: there are sixteen words in each to be written.
            unsafe {
                _mm512_storeu_si512(found[..LANES].as_mut_ptr().cast(), way.found);
                _mm512_storeu_si512(depth[..LANES].as_mut_ptr().cast(), way.depth);
            }
        }
        let select = |found: &[u32; PASS], mask, value, lanes: &mut Lanes| select(found, mask, value, lanes);
        finish(words, default, addresses, pass, ids, select, |line, lasts, key| run_of(line, lasts, key));
    }

    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn select(found: &[u32; PASS], mask: u32, value: u32, lanes: &mut Lanes) -> usize {
        let mut count = 0;
        for vector in 0..VECTORS {
            let from = found[vector * LANES..][..LANES].as_ptr();
            // SAFETY: sixteen words are there to be read.
            let words = unsafe { _mm512_loadu_si512(from.cast()) };
            let words = _mm512_and_si512(words, _mm512_set1_epi32(mask as i32));
            let these = _mm512_cmpeq_epi32_mask(words, _mm512_set1_epi32(value as i32));
            let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32((vector * LANES) as i32));
            let packed = _mm512_maskz_compress_epi32(these, numbers);
            // SAFETY: sixteen words are there to be written.
            unsafe { _mm512_storeu_si512(lanes[count..][..LANES].as_mut_ptr().cast(), packed) };
            count += these.count_ones() as usize;
        }
        count
    }

    /// How many of the first `lasts` words are below `key`.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn run_of(line: &[AtomicU32], lasts: usize, key: u32) -> usize {
        let line = line[..LINE].as_ptr();
        let mask = (1u32 << lasts).wrapping_sub(1) as __mmask16;
        if lasts < WIDE_WORDS {
            // SAFETY: eight words, which nobody writes to (see above).
            let words = unsafe { _mm512_castsi256_si512(_mm256_loadu_si256(line.cast())) };
            return _mm512_mask_cmplt_epu32_mask(mask, words, _mm512_set1_epi32(key as i32)).count_ones() as usize;
        }
        // SAFETY: sixteen words, which nobody writes to, as the line is not a wide one.
        let words = unsafe { _mm512_loadu_si512(line.cast()) };
        _mm512_mask_cmplt_epu32_mask(mask, words, _mm512_set1_epi32(key as i32)).count_ones() as usize
    }
}
