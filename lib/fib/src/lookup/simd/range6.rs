// SPDX-License-Identifier: MIT
//! The inner loops of `range6` for AVX-512, for AVX2 and for any processor. `simd.rs` says why its gathers are written
//! in assembly.
//!
//! Lines are filled before a word that leads to them becomes visible, and are not written while a reader may hold them:
//! they are read with plain loads. The exception are the words of wide lines, in their second halves: these may be
//! replaced at any time and are read one by one, as atomics; vector loads of wide lines leave them out, or are written
//! in assembly.
//!
//! With AVX-512 all lanes take all steps, whether they need them or not: to compress the lanes of a step, and to find
//! their words again, took more instructions than it saved, and broke the loops up.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::{Isa, prefetch_at};
use crate::lookup::range6::layout::*;

/// Lines behind the last one that a word may lead to: as many as a tree has, so that one clamp keeps all of it inside
/// the table.
pub(crate) const BEHIND: u32 = TREE_LINES as u32 + 1;
/// Addresses that descend side by side.
const PASS: usize = 64;

/// Sets `ids[i]` to the next hop's id of `addresses[i]`, or to `default` where only the default route matches.
///
/// # Panics
/// If the slices differ in length, or there is not even a root.
pub(crate) fn range6(isa: Isa, words: &[AtomicU32], default: u32, addresses: &[u128], ids: &mut [u32]) {
    assert_eq!(addresses.len(), ids.len(), "one id per address");
    let least = (1 << MAX_STRIDE) + BEHIND as usize * LINE;
    assert!(words.len() >= least && words.len() < 1 << 30, "there is always a root");
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

/// How words are loaded that lead on. The fence behind them orders all of them at once (`tests/loom_publish.rs`);
/// ThreadSanitizer knows loads that acquire, and no fences.
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

/// The remaining steps: first of the few lanes that are still at an index, then of all that are at a tree, then of all
/// that are at a line.
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

    /// How many of the first `lasts` words are below `key`. AVX2 compares signed numbers only; a word is not below
    /// `key` if the unsigned maximum of the two is the word.
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
    const LINE_BYTES: u32 = 4 * LINE as u32;

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

    /// Sixteen lanes as they descend: the words found, the bits of each address after them (of its first 48,
    /// left-aligned), and how many bits led there.
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
        let (first, second) = halves(addresses);
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

    /// The first 64 bits of sixteen addresses: the first half of each, and the second.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn halves(addresses: &[u128]) -> (__m512i, __m512i) {
        let (low, high) = (high_halves(&addresses[..8]), high_halves(&addresses[8..LANES]));
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
        (_mm512_permutex2var_epi32(low, odd, high), _mm512_permutex2var_epi32(low, even, high))
    }

    /// Where the lanes of a vector read their lines, in bytes, after they have left the indices; leaves read any line.
    struct Lines {
        first: [u32; LANES],
        /// 32 bits of each address from here on; the same for trees, which look for a line, and 0 for others.
        keys: [u32; LANES],
        tree_keys: [u32; LANES],
        /// How far it is from a tree to the first of its lines; else 0.
        skips: [u32; LANES],
        has_trees: bool,
        has_lines: bool,
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn lines(words: &[AtomicU32], addresses: &[u128], way: Way) -> Lines {
        let (first, second) = halves(addresses);
        let all = |value: u32| _mm512_set1_epi32(value as i32);
        // Shifts by more than 31 bits, or by a negative number of them, leave nothing.
        let depth = way.depth;
        let key = _mm512_or_si512(
            _mm512_or_si512(
                _mm512_sllv_epi32(first, depth),
                _mm512_srlv_epi32(second, _mm512_sub_epi32(all(32), depth)),
            ),
            _mm512_sllv_epi32(second, _mm512_sub_epi32(depth, all(32))),
        );
        let leads_to_line = _mm512_test_epi32_mask(way.found, all(LEAVES));
        let is_tree = _mm512_mask_test_epi32_mask(leads_to_line, way.found, all(INDEX));
        let line = _mm512_maskz_and_epi32(leads_to_line, way.found, all(LINE_MASK));
        let line = _mm512_min_epu32(line, all((words.len() / LINE) as u32 - BEHIND));
        Lines {
            first: array(_mm512_slli_epi32::<{ LINE_BYTES.ilog2() }>(line)),
            keys: array(key),
            tree_keys: array(_mm512_maskz_mov_epi32(is_tree, key)),
            skips: array(_mm512_maskz_mov_epi32(is_tree, all(LINE_BYTES))),
            has_trees: is_tree != 0,
            has_lines: leads_to_line != 0,
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn array(vector: __m512i) -> [u32; LANES] {
        // SAFETY: any bits are words.
        unsafe { std::mem::transmute(vector) }
    }

    /// How many words of a line, of those in `among`, are below a key.
    ///
    /// # Safety
    /// `line` begins a line of the table.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn below(line: *const u8, key: u32, among: __mmask16) -> usize {
        let count: u64;
        // SAFETY: sixteen words are there. Those in the second half of a wide line may change: the compiler does not
        // see the load, and what is read of them does not count. It does not see the count either, which it
        // would make of vectors, of more instructions.
        unsafe {
            asm!("vpcmpnleud {mask} {{{among}}}, {key}, [{line}]", "kmovw {count:e}, {mask}", "popcnt {count}, {count}",
                mask = out(kreg) _, among = in(kreg) among, key = in(zmm_reg) _mm512_set1_epi32(key as i32), line = in(reg) line,
                count = out(reg) count, options(pure, nostack, readonly));
        }
        count as usize
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
    pub fn pass(words: &[AtomicU32], default: u32, addresses: &[u128; PASS], ids: &mut [u32; PASS]) {
        let table = words.as_ptr().cast::<u8>();
        let (addresses, _) = addresses.as_chunks::<LANES>();
        let (ids, _) = ids.as_chunks_mut::<LANES>();
        let mut ways: [Way; VECTORS] = std::array::from_fn(|vector| root(words, &addresses[vector]));
        for _ in 0..3 {
            ways = ways.map(|way| step(words, way));
        }
        for (way, addresses) in ways.iter_mut().zip(addresses) {
            *way = more_steps(words, addresses, *way);
        }
        // What a word leads to is filled before the word becomes visible.
        fence(Ordering::Acquire);
        let mut lines: [Lines; VECTORS] = std::array::from_fn(|vector| lines(words, &addresses[vector], ways[vector]));
        lines.iter().flat_map(|lines| &lines.first).for_each(|line| prefetch_at(table.wrapping_add(*line as usize)));
        for lines in lines.iter_mut().filter(|lines| lines.has_trees) {
            for lane in 0..LANES {
                let line = lines.first[lane] as usize;
                // SAFETY: clamped by `lines`.
                let run = unsafe { below(table.add(line), lines.tree_keys[lane], !0) };
                lines.first[lane] += run as u32 * LINE_BYTES + lines.skips[lane];
                prefetch_at(table.wrapping_add(lines.first[lane] as usize));
            }
        }
        for (lines, ids) in lines.iter().zip(&mut *ids).filter(|(lines, _)| lines.has_lines) {
            for (lane, id) in ids.iter_mut().enumerate() {
                // SAFETY: clamped by `lines`, which leaves room for all lines of a tree.
                let line = unsafe { table.add(lines.first[lane] as usize) };
                // SAFETY: as above.
                let run = unsafe { below(line, lines.keys[lane], (1 << (NARROW_RUNS - 1)) - 1) };
                // SAFETY: the leaf of a run, in the same line, if it is a narrow one: then nobody writes to it; if not,
                // what is read does not count.
                *id = u32::from(unsafe { line.cast::<u16>().add(NARROW_LEAVES + run).read() });
            }
        }
        // Not at once: the loads of whole vectors would wait for the last of these stores.
        for ((lines, way), (addresses, ids)) in lines.iter().zip(&ways).zip(addresses.iter().zip(ids)) {
            close(words, default, addresses, way.found, lines, ids);
        }
    }

    /// Steps on from further indices, which few lanes reach.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn more_steps(words: &[AtomicU32], addresses: &[u128; LANES], way: Way) -> Way {
        let kind = _mm512_and_si512(way.found, _mm512_set1_epi32((KIND | DEEP) as i32));
        let mut mask = _mm512_cmpeq_epi32_mask(kind, _mm512_set1_epi32(INDEX as i32));
        if mask == 0 {
            return way;
        }
        let (mut found, mut depth) = (array(way.found), array(way.depth));
        while mask != 0 {
            let lane = mask.trailing_zeros() as usize % LANES;
            mask &= mask - 1;
            while found[lane] & (KIND | DEEP) == INDEX {
                let stride = stride(found[lane]);
                let at = start(found[lane]) + (key(addresses[lane], depth[lane]) >> (32 - stride)) as usize;
                depth[lane] += stride;
                found[lane] = words[at.min(words.len() - 1)].load(LEADS_ON);
            }
        }
        // SAFETY: as many words as a vector has.
        let [found, depth] = [found, depth].map(|words| unsafe { std::mem::transmute::<[u32; LANES], __m512i>(words) });
        Way { found, depth, ..way }
    }

    /// Makes ids of the leaves of a vector, which are in `ids` where a narrow line was read.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn close(
        words: &[AtomicU32],
        default: u32,
        addresses: &[u128; LANES],
        found: __m512i,
        lines: &Lines,
        ids: &mut [u32; LANES],
    ) {
        let all = |value: u32| _mm512_set1_epi32(value as i32);
        let is_line = _mm512_test_epi32_mask(found, all(LEAVES));
        // SAFETY: sixteen words are there to be read.
        let leaf = unsafe { _mm512_mask_loadu_epi32(found, is_line, ids.as_ptr().cast()) };
        let id = _mm512_sub_epi32(leaf, all(1));
        let id = _mm512_mask_mov_epi32(id, _mm512_testn_epi32_mask(leaf, leaf), all(default));
        // SAFETY: sixteen words are there to be written.
        unsafe { _mm512_storeu_si512(ids.as_mut_ptr().cast(), id) };
        let is_node = _mm512_test_epi32_mask(found, all(KIND));
        let mut rest = _mm512_mask_test_epi32_mask(is_node, found, all(WIDE | DEEP)) | (is_node & !is_line);
        let found = array(found);
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize % LANES;
            rest &= rest - 1;
            let mut word = found[lane];
            if word & (LEAVES | DEEP | WIDE) == LEAVES | WIDE {
                let line = &words[lines.first[lane] as usize / 4..][..LINE];
                let run = run_of(line, WIDE_RUNS - 1, lines.keys[lane]);
                word = line[WIDE_WORDS + run].load(Ordering::Relaxed);
            }
            ids[lane] =
                if word & KIND == 0 { id_of(word, default) } else { id_of(walk(words, addresses[lane]), default) };
        }
    }
}
