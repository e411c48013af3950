// SPDX-License-Identifier: MIT
//! The inner loops of DXR for AVX-512, for AVX2 and for any processor. `simd.rs` says why gathers are written in
//! assembly.
//!
//! The ranges of a chunk are written before the entry that leads to them becomes visible, and are not written while a
//! reader may hold them: they are read with plain loads, which leave out what lies behind them, or with ones that the
//! compiler does not see.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Isa, prefetch_at};
use crate::lookup::dxr::layout::Layout;

/// Words behind the last one that ranges may begin at: as many as the longest chunk whose number of starts its entry
/// tells, so that one clamp keeps all of it inside the table.
pub(crate) const BEHIND: usize = 512;

/// Addresses looked up side by side.
const PASS: usize = 64;
/// Starts in the short format that are compared at once: those in a line.
#[cfg(target_arch = "x86_64")]
const WINDOW: u32 = 64;

/// Sets `ids[i]` to the next hop of `addresses[i]`.
///
/// # Panics
/// If the slices differ in length, or the tables are too small.
pub(crate) fn dxr(
    isa: Isa,
    layout: Layout,
    entries: &[AtomicU32],
    words: &[AtomicU32],
    addresses: &[u32],
    ids: &mut [u32],
) {
    assert_eq!(addresses.len(), ids.len(), "one id per address");
    assert!(entries.len() == 1 << layout.bits && (16..=20).contains(&layout.bits), "an entry per chunk");
    assert!(words.len() > BEHIND && words.len() < 1 << 29, "room behind the last ranges");
    let tables = Tables { layout, entries, words };
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only chosen where `Isa::available` has found the instructions.
        Isa::Avx512 => passes(addresses, ids, |addresses, ids| unsafe { avx512::pass(tables, addresses, ids) }),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => passes(addresses, ids, |addresses, ids| unsafe { avx2::pass(tables, addresses, ids) }),
        _ => scalar(tables, addresses, ids),
    }
}

/// What `dxr` has checked.
#[derive(Clone, Copy)]
struct Tables<'a> {
    layout: Layout,
    entries: &'a [AtomicU32],
    words: &'a [AtomicU32],
}

#[cfg(target_arch = "x86_64")]
impl Tables<'_> {
    /// The processor's window holds only a few gathers: this puts all misses of the pass in flight at once.
    #[inline(always)]
    fn prefetch_entries(self, addresses: &[u32; PASS]) {
        let shift = 32 - self.layout.bits;
        addresses
            .iter()
            .for_each(|address| prefetch_at(self.entries.as_ptr().wrapping_add((address >> shift) as usize)));
    }

    /// Likewise, of the bytes from which on there are starts.
    #[inline(always)]
    fn prefetch_ranges(self, starts: &[u32]) {
        let bytes = self.words.as_ptr().cast::<u8>();
        starts.iter().for_each(|byte| prefetch_at(bytes.wrapping_add(*byte as usize)));
    }

    /// Where the ranges in the long format of an entry are, and how many starts they have: these and the next hops lie
    /// inside the table, with room for `behind` more values.
    #[inline(always)]
    fn long(self, entry: u32, behind: usize) -> (*const u16, usize) {
        let (layout, words) = (self.layout, self.words);
        let mut first = (entry & ((1 << layout.word_bits()) - 1)) as usize;
        first = first.min(words.len() - BEHIND);
        let mut starts = (entry >> layout.word_bits() & layout.most_starts()) as usize;
        if starts == 0 {
            let room = words.len() - first - 2 - behind;
            (first, starts) = (first + 1, (words[first].load(Ordering::Relaxed) as usize).min(room));
        }
        (words[first..].as_ptr().cast(), starts)
    }
}

#[inline(always)]
fn passes(addresses: &[u32], ids: &mut [u32], one: impl Fn(&[u32; PASS], &mut [u32; PASS])) {
    let (passes, rest) = addresses.as_chunks::<PASS>();
    let (to, to_rest) = ids.as_chunks_mut::<PASS>();
    for (addresses, ids) in passes.iter().zip(to) {
        one(addresses, ids);
    }
    if !rest.is_empty() {
        let (mut padded, mut out) = ([rest[0]; PASS], [0; PASS]);
        padded[..rest.len()].copy_from_slice(rest);
        one(&padded, &mut out);
        to_rest.copy_from_slice(&out[..rest.len()]);
    }
}

fn scalar(Tables { layout, entries, words }: Tables<'_>, addresses: &[u32], ids: &mut [u32]) {
    for (addresses, ids) in addresses.chunks(PASS).zip(ids.chunks_mut(PASS)) {
        for (id, &address) in ids.iter_mut().zip(addresses) {
            // Acquire: ranges are written before the entry that leads to them becomes visible.
            *id = entries[layout.slot(address)].load(Ordering::Acquire);
        }
        for (id, &address) in ids.iter_mut().zip(addresses) {
            if let Some(chunk) = layout.chunk(words, *id) {
                *id = chunk.search(words, layout.key(address, chunk.width));
            }
        }
    }
}

/// The lanes of a mask.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn lanes(mut mask: u64, mut each: impl FnMut(usize)) {
    while mask != 0 {
        each(mask.trailing_zeros() as usize % PASS);
        mask &= mask - 1;
    }
}

/// Of `starts` ascending values, of which at most `window` can be compared at once: where a window begins that has all
/// values before it not behind the key and all values after it behind it, and how many are in it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn narrow(starts: usize, window: usize, is_reached: impl Fn(usize) -> bool) -> (usize, usize) {
    let (mut first, mut left) = (0, starts);
    while left > window {
        let half = left / 2;
        first += if is_reached(first + half - 1) { half } else { 0 };
        left -= half;
    }
    (first, left)
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;

    const LANES: usize = 16;
    /// Starts in the long format that are compared at once.
    const LONG: usize = 32;

    /// The words at `index`, where `mask` is set, else 0.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn gather(words: &[AtomicU32], index: __m512i, mask: u32) -> __m512i {
        let index = _mm512_min_epu32(index, _mm512_set1_epi32(words.len() as i32 - 1));
        let mut out = _mm512_setzero_si512();
        // SAFETY: every index is below the table's length; the words are aligned. The mask is moved from a general
        // register, so that no gather waits for another one.
        unsafe {
            asm!("kmovw {mask}, {ones:e}", "vpgatherdd {out} {{{mask}}}, [{table} + {index}*4]",
                mask = out(kreg) _, ones = in(reg) mask, out = inout(zmm_reg) out, table = in(reg) words.as_ptr(),
                index = in(zmm_reg) index, options(nostack, readonly, preserves_flags));
        }
        out
    }

    /// What the entries of sixteen addresses say. Lanes whose ranges are not in the short format have no starts here.
    #[derive(Clone, Copy)]
    struct Found {
        entry: __m512i,
        /// The byte at which the line with the starts to be compared begins, and the byte with the next hop that comes
        /// before them.
        line: __m512i,
        hops: __m512i,
        /// Which bytes of the line they are: of the first eight addresses, and of the other eight.
        starts: [__m512i; 2],
        /// The key in the short format, in each byte.
        key: __m512i,
        is_short: __mmask16,
        is_long: __mmask16,
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
    pub fn pass(tables: Tables<'_>, addresses: &[u32; PASS], ids: &mut [u32; PASS]) {
        tables.prefetch_entries(addresses);
        let vectors = [0, 1, 2, 3].map(|vector| descend(tables, load(addresses, vector * LANES)));
        let lines = vectors.map(|found| words(found.line));
        tables.prefetch_ranges(lines.as_flattened());
        for (found, (lines, ids)) in vectors.iter().zip(lines.iter().zip(ids.as_chunks_mut::<LANES>().0)) {
            let (hops, key) = (words(found.hops), words(found.key));
            // SAFETY: any bits are words.
            let starts: [u64; LANES] = unsafe { std::mem::transmute(found.starts) };
            for lane in 0..LANES {
                // SAFETY: the starts begin at least `BEHIND` words before the end, and there are at most 255.
                ids[lane] = unsafe { short(tables, lines[lane], starts[lane], hops[lane], key[lane]) };
            }
            // SAFETY: sixteen words are there to be written.
            unsafe { _mm512_mask_storeu_epi32(ids.as_mut_ptr().cast(), !found.is_short, found.entry) };
        }
        let long = vectors.iter().rev().fold(0, |long, found| long << LANES | u64::from(found.is_long));
        lanes(long, |lane| ids[lane] = self::long(tables, addresses[lane], ids[lane]));
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(from: &[u32; PASS], at: usize) -> __m512i {
        // SAFETY: sixteen words are there to be read.
        unsafe { _mm512_loadu_si512(from[at..at + LANES].as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn words(vector: __m512i) -> [u32; LANES] {
        // SAFETY: any bits are words.
        unsafe { std::mem::transmute(vector) }
    }

    /// Loads the entries of sixteen addresses.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn descend(tables: Tables<'_>, address: __m512i) -> Found {
        let layout = tables.layout;
        let all = |value: u32| _mm512_set1_epi32(value as i32);
        let entry = gather(tables.entries, _mm512_srlv_epi32(address, all(32 - layout.bits)), 0xffff);
        let most = all(layout.most_starts());
        let starts = _mm512_and_si512(_mm512_srlv_epi32(entry, all(layout.word_bits())), most);
        let is_long = _mm512_movepi32_mask(entry);
        let is_short = _mm512_test_epi32_mask(starts, starts) & !is_long;
        let word = _mm512_and_si512(entry, all((1 << layout.word_bits()) - 1));
        let word = _mm512_min_epu32(word, all((tables.words.len() - BEHIND) as u32));
        let first = _mm512_maskz_slli_epi32::<2>(is_short, word);
        let mut left = _mm512_maskz_mov_epi32(is_short, starts);
        let hops = _mm512_add_epi32(first, left);
        let key = _mm512_and_si512(_mm512_srli_epi32::<8>(address), most);
        let mut before = _mm512_setzero_si512();
        let mut step = layout.most_starts().div_ceil(2);
        while step >= WINDOW {
            // Is the start before the second half not behind the key?
            let these = _mm512_cmpgt_epu32_mask(left, all(step));
            let byte = _mm512_add_epi32(_mm512_add_epi32(first, before), all(step - 1));
            let words = gather(tables.words, _mm512_srli_epi32::<2>(byte), these.into());
            let shift = _mm512_slli_epi32::<3>(_mm512_and_si512(byte, all(3)));
            let start = _mm512_and_si512(_mm512_srlv_epi32(words, shift), all(0xff));
            let is_reached = _mm512_mask_cmple_epu32_mask(these, start, key);
            before = _mm512_mask_add_epi32(before, is_reached, before, all(step));
            let left_before = _mm512_min_epu32(left, all(step));
            left = _mm512_mask_sub_epi32(left_before, is_reached, left, all(step));
            step /= 2;
        }
        let low_bytes = _mm512_set4_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0);
        let byte = _mm512_add_epi32(first, before);
        let (line, place) = (_mm512_and_si512(byte, all(!(WINDOW - 1))), _mm512_and_si512(byte, all(WINDOW - 1)));
        let ones = _mm512_set1_epi64(-1);
        let starts = |count: __m256i, place: __m256i| {
            let ones = _mm512_andnot_si512(_mm512_sllv_epi64(ones, _mm512_cvtepu32_epi64(count)), ones);
            _mm512_sllv_epi64(ones, _mm512_cvtepu32_epi64(place))
        };
        let starts = [
            starts(_mm512_castsi512_si256(left), _mm512_castsi512_si256(place)),
            starts(_mm512_extracti64x4_epi64::<1>(left), _mm512_extracti64x4_epi64::<1>(place)),
        ];
        Found {
            entry,
            line,
            starts,
            hops: _mm512_add_epi32(hops, before),
            key: _mm512_shuffle_epi8(key, low_bytes),
            is_short,
            is_long,
        }
    }

    /// The next hop of a lane that has ranges in the short format.
    ///
    /// # Safety
    /// What was found leads into the table, with 64 bytes more behind it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2,popcnt")]
    unsafe fn short(tables: Tables<'_>, line: u32, starts: u64, hops: u32, key: u32) -> u32 {
        let (bytes, key) = (tables.words.as_ptr().cast::<u8>(), _mm512_set1_epi32(key as i32));
        let reached: u64;
        // SAFETY: sixty-four bytes are there. Some may belong to other ranges, which change: the compiler does not see
        // the load, and what is read of them does not count. It does not see the count either, which it would
        // make of vectors, of more instructions.
        unsafe {
            asm!("vpcmpub {mask}, {key}, [{bytes} + {line}], 5", "kmovq {reached}, {mask}", "and {reached}, {starts}",
                "popcnt {reached}, {reached}", mask = out(kreg) _, reached = out(reg) reached, key = in(zmm_reg) key,
                bytes = in(reg) bytes, line = in(reg) line as usize, starts = in(reg) starts,
                options(pure, nostack, readonly));
        }
        // SAFETY: one of the next hops.
        u32::from(unsafe { *bytes.add((hops + reached as u32) as usize) })
    }

    /// The next hop of an address in ranges of the long format.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2,popcnt")]
    fn long(tables: Tables<'_>, address: u32, entry: u32) -> u32 {
        let (at, starts) = tables.long(entry, 0);
        let key = tables.layout.key(address, 2);
        // SAFETY: `starts` starts and one more next hop all lie inside the table.
        let (first, left) = narrow(starts, LONG, |start| unsafe { u32::from(*at.add(start)) <= key });
        let mask = _bzhi_u32(!0, left as u32);
        // SAFETY: as above; what is masked out is not read.
        let these = unsafe { _mm512_maskz_loadu_epi16(mask, at.add(first).cast()) };
        let reached = _mm512_mask_cmple_epu16_mask(mask, these, _mm512_set1_epi16(key as i16)).count_ones() as usize;
        // SAFETY: as above.
        u32::from(unsafe { *at.add(starts + first + reached) })
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::sync::atomic::{AtomicU8, AtomicU16};

    const LANES: usize = 8;
    /// Starts in the long format that are compared at once.
    const LONG: usize = 16;

    /// The words at `index`, where the lanes of `mask` are set, else 0.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn gather(words: &[AtomicU32], index: __m256i, mask: __m256i) -> __m256i {
        let index = _mm256_min_epu32(index, _mm256_set1_epi32(words.len() as i32 - 1));
        let mut out = _mm256_setzero_si256();
        // SAFETY: every index is below the table's length; the words are aligned.
        unsafe {
            asm!("vpgatherdd {out}, [{table} + {index}*4], {mask}",
                out = inout(ymm_reg) out, mask = inout(ymm_reg) mask => _, table = in(reg) words.as_ptr(),
                index = in(ymm_reg) index, options(nostack, readonly, preserves_flags));
        }
        out
    }

    /// What the entries of eight addresses say. Lanes whose ranges are not in the short format have no starts here.
    #[derive(Clone, Copy)]
    struct Found {
        entry: __m256i,
        /// The byte at which the starts to be compared begin, how many they are, and the byte with the next hop that
        /// comes before them.
        starts: __m256i,
        count: __m256i,
        hops: __m256i,
        /// The key in the short format, in each byte.
        key: __m256i,
        is_short: u32,
        is_long: u32,
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub fn pass(tables: Tables<'_>, addresses: &[u32; PASS], ids: &mut [u32; PASS]) {
        tables.prefetch_entries(addresses);
        let vectors: [Found; PASS / LANES] = std::array::from_fn(|vector| {
            let addresses = addresses[vector * LANES..][..LANES].as_ptr();
            // SAFETY: eight words are there to be read.
            descend(tables, unsafe { _mm256_loadu_si256(addresses.cast()) })
        });
        let starts = vectors.map(|found| words(found.starts));
        tables.prefetch_ranges(starts.as_flattened());
        let mut long = 0;
        for (vector, found) in vectors.iter().enumerate() {
            let (entries, starts, count) = (words(found.entry), words(found.starts), words(found.count));
            let (hops, keys) = (words(found.hops), words(found.key));
            for lane in 0..LANES {
                let id = &mut ids[vector * LANES + lane];
                // SAFETY: the starts begin at least `BEHIND` words before the end, and there are at most 255.
                let hop = unsafe { short(tables, starts[lane], count[lane], hops[lane], keys[lane]) };
                *id = if found.is_short >> lane & 1 != 0 { hop } else { entries[lane] };
            }
            long |= u64::from(found.is_long) << (vector * LANES);
        }
        lanes(long, |lane| ids[lane] = self::long(tables, addresses[lane], ids[lane]));
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn words(vector: __m256i) -> [u32; LANES] {
        // SAFETY: any bits are words.
        unsafe { std::mem::transmute(vector) }
    }

    /// Loads the entries of eight addresses.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn descend(tables: Tables<'_>, address: __m256i) -> Found {
        let layout = tables.layout;
        let all = |value: u32| _mm256_set1_epi32(value as i32);
        let sign = |vector| _mm256_movemask_ps(_mm256_castsi256_ps(vector)) as u32;
        let entry = gather(tables.entries, _mm256_srlv_epi32(address, all(32 - layout.bits)), all(!0));
        let most = all(layout.most_starts());
        let starts = _mm256_and_si256(_mm256_srlv_epi32(entry, all(layout.word_bits())), most);
        let is_long = _mm256_srai_epi32::<31>(entry);
        let is_short = _mm256_andnot_si256(is_long, _mm256_cmpgt_epi32(starts, _mm256_setzero_si256()));
        let word = _mm256_and_si256(entry, all((1 << layout.word_bits()) - 1));
        let word = _mm256_min_epu32(word, all((tables.words.len() - BEHIND) as u32));
        let first = _mm256_and_si256(is_short, _mm256_slli_epi32::<2>(word));
        let mut left = _mm256_and_si256(is_short, starts);
        let hops = _mm256_add_epi32(first, left);
        let key = _mm256_and_si256(_mm256_srli_epi32::<8>(address), most);
        let mut before = _mm256_setzero_si256();
        let mut step = layout.most_starts().div_ceil(2);
        while step >= WINDOW {
            // Is the start before the second half not behind the key?
            let these = _mm256_cmpgt_epi32(left, all(step));
            let byte = _mm256_add_epi32(_mm256_add_epi32(first, before), all(step - 1));
            let words = gather(tables.words, _mm256_srli_epi32::<2>(byte), these);
            let shift = _mm256_slli_epi32::<3>(_mm256_and_si256(byte, all(3)));
            let start = _mm256_and_si256(_mm256_srlv_epi32(words, shift), all(0xff));
            let is_reached = _mm256_andnot_si256(_mm256_cmpgt_epi32(start, key), these);
            before = _mm256_add_epi32(before, _mm256_and_si256(is_reached, all(step)));
            let left_behind = _mm256_sub_epi32(left, all(step));
            left = _mm256_blendv_epi8(_mm256_min_epu32(left, all(step)), left_behind, is_reached);
            step /= 2;
        }
        let low_bytes =
            _mm256_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c, 0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c);
        Found {
            entry,
            starts: _mm256_add_epi32(first, before),
            count: left,
            hops: _mm256_add_epi32(hops, before),
            key: _mm256_shuffle_epi8(key, low_bytes),
            is_short: sign(is_short),
            is_long: sign(is_long),
        }
    }

    /// Thirty-two bytes. Some may belong to other ranges, which change: the compiler does not see the load, and what is
    /// read of them does not count.
    ///
    /// # Safety
    /// All of them are in the table.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(at: *const u8) -> __m256i {
        let out;
        // SAFETY: they are there to be read.
        unsafe {
            asm!("vmovdqu {out}, [{at}]", out = out(ymm_reg) out, at = in(reg) at, options(pure, nostack, readonly, preserves_flags))
        };
        out
    }

    /// The next hop of a lane that has ranges in the short format.
    ///
    /// # Safety
    /// What was found leads into the table, with 64 bytes more behind it.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn short(tables: Tables<'_>, starts: u32, count: u32, hops: u32, key: u32) -> u32 {
        let (bytes, key) = (tables.words.as_ptr().cast::<u8>(), _mm256_set1_epi32(key as i32));
        let line = (starts & !(WINDOW - 1)) as usize;
        let reached = |half: usize| {
            // SAFETY: thirty-two bytes are there.
            let these = unsafe { load(bytes.add(line + 32 * half)) };
            let is_reached = _mm256_cmpeq_epi8(_mm256_max_epu8(these, key), key);
            u64::from(_mm256_movemask_epi8(is_reached) as u32) << (32 * half)
        };
        let reached = _bzhi_u64((reached(0) | reached(1)) >> (starts % WINDOW), count).count_ones();
        // SAFETY: one of the next hops. It is an atomic load for ThreadSanitizer's sake, which does not see what orders
        // it.
        let hop = unsafe { AtomicU8::from_ptr(bytes.add((hops + reached) as usize).cast_mut()) };
        u32::from(hop.load(Ordering::Relaxed))
    }

    /// The next hop of an address in ranges of the long format.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn long(tables: Tables<'_>, address: u32, entry: u32) -> u32 {
        // A vector is loaded behind the starts, too.
        let (at, starts) = tables.long(entry, LONG);
        let key = tables.layout.key(address, 2);
        // SAFETY: one of `starts` starts and one more next hop, which all lie inside the table. As to the atomic load,
        // see `short`.
        let value = |which| u32::from(unsafe { AtomicU16::from_ptr(at.add(which).cast_mut()) }.load(Ordering::Relaxed));
        let (first, left) = narrow(starts, LONG, |start| value(start) <= key);
        // SAFETY: the starts, and what lies behind them.
        let these = unsafe { load(at.add(first).cast()) };
        let key = _mm256_set1_epi16(key as i16);
        let is_reached = _mm256_cmpeq_epi16(_mm256_max_epu16(these, key), key);
        let mask = _bzhi_u32(_mm256_movemask_epi8(is_reached) as u32, 2 * left as u32);
        value(starts + first + mask.count_ones() as usize / 2)
    }
}
