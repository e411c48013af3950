// SPDX-License-Identifier: MIT
//! The inner loops of BM19 and DIRB. See `simd.rs` for why their gathers are written in assembly.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use super::{Isa, prefetch};

/// Nodes of BM19: a bitmap of runs in the high half, the index of the first leaf in the low half; without a bitmap the
/// leaf.
pub(crate) type Nodes = [AtomicU64; 1 << 19];
/// Bytes of DIRB, four to a word.
pub(crate) type Bytes = [AtomicU32; 1 << 22];

/// A leaf of 16 bits widened to 32: its highest bit stays the highest.
#[inline(always)]
pub(crate) fn widen(leaf: u16) -> u32 {
    u32::from(leaf & 0x7fff) | u32::from(leaf & 0x8000) << 16
}

/// The leaves of BM19, of either width.
#[derive(Clone, Copy)]
pub(crate) enum Leaves<'a> {
    /// Of 16 bits; an even number of them, aligned to 32 bits.
    Narrow(&'a [AtomicU16]),
    /// Of 32 bits.
    Wide(&'a [AtomicU32]),
}

impl Leaves<'_> {
    fn check(self) {
        let (len, fits) = match self {
            Self::Narrow(leaves) => {
                (leaves.len(), leaves.len().is_multiple_of(2) && leaves.as_ptr().cast::<u32>().is_aligned())
            }
            Self::Wide(leaves) => (leaves.len(), true),
        };
        assert!(fits && (1..1 << 31).contains(&len), "whole words of leaves");
    }

    fn scalar(self, nodes: &Nodes, addresses: &[u32], out: &mut [u32]) -> u32 {
        match self {
            Self::Narrow(leaves) => {
                scalar_bm19(nodes, leaves.len(), |at| widen(leaves[at].load(Ordering::Relaxed)), addresses, out)
            }
            Self::Wide(leaves) => {
                scalar_bm19(nodes, leaves.len(), |at| leaves[at].load(Ordering::Relaxed), addresses, out)
            }
        }
    }
}

/// Sets `out[i]` to the leaf of `addresses[i]`, widened to 32 bits; returns all of them or-ed together.
///
/// # Panics
/// If the slices differ in length, or the leaves are not whole words.
pub(crate) fn bm19(isa: Isa, nodes: &Nodes, leaves: Leaves<'_>, addresses: &[u32], out: &mut [u32]) -> u32 {
    assert_eq!(addresses.len(), out.len(), "one id per address");
    leaves.check();
    match (isa, leaves) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only chosen where `Isa::available` has found the instructions.
        (Isa::Avx512, Leaves::Narrow(leaves)) => unsafe { avx512::bm19(nodes, avx512::Narrow(leaves), addresses, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Isa::Avx512, Leaves::Wide(leaves)) => unsafe { avx512::bm19(nodes, avx512::Wide(leaves), addresses, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Isa::Avx2, _) => unsafe { avx2::bm19(nodes, leaves, addresses, out) },
        _ => leaves.scalar(nodes, addresses, out),
    }
}

/// The index of a leaf, from its node, which has a bitmap.
#[inline(always)]
pub(crate) fn leaf_index(node: u64, address: u32) -> u32 {
    let bitmap = (node >> 32) as u32;
    let upto = bitmap & u32::MAX >> (31 - (address >> 8 & 31));
    (node as u32).wrapping_add(upto.count_ones()).wrapping_sub(1)
}

#[inline(always)]
fn scalar_bm19(nodes: &Nodes, leaves: usize, leaf: impl Fn(usize) -> u32, addresses: &[u32], out: &mut [u32]) -> u32 {
    const PASS: usize = 64;
    let mut all = 0;
    for (addresses, out) in addresses.chunks(PASS).zip(out.chunks_mut(PASS)) {
        let mut found = [0u64; PASS];
        for (node, &address) in found.iter_mut().zip(addresses) {
            *node = nodes[(address >> 13) as usize].load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        for ((out, &node), &address) in out.iter_mut().zip(&found).zip(addresses) {
            let inline = node >> 32 == 0;
            let index = if inline { 0 } else { leaf_index(node, address) };
            let leaf = leaf((index as usize).min(leaves - 1));
            *out = if inline { node as u32 } else { leaf };
            all |= *out;
        }
    }
    all
}

/// Sets `out[i]` to the byte of `addresses[i]`; returns the mask of those that are 255.
///
/// # Panics
/// If the slices differ in length, or there are more than 64.
pub(crate) fn bytes(isa: Isa, table: &Bytes, addresses: &[u32], out: &mut [u32]) -> u64 {
    assert_eq!(addresses.len(), out.len(), "one id per address");
    assert!(addresses.len() <= 64, "one bit per address");
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only chosen where `Isa::available` has found the instructions.
        Isa::Avx512 => unsafe { avx512::bytes(table, addresses, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { avx2::bytes(table, addresses, out) },
        _ => scalar_bytes(table, addresses, out),
    }
}

/// Starts to load the nodes of addresses: the processor's window holds only a few gathers, and this puts all misses in
/// flight at once.
#[inline]
pub(crate) fn prefetch_nodes(nodes: &Nodes, addresses: &[u32]) {
    addresses.iter().for_each(|address| prefetch(&nodes[(address >> 13) as usize]));
}

/// Starts to load the bytes of addresses, likewise.
#[inline]
pub(crate) fn prefetch_bytes(table: &Bytes, addresses: &[u32]) {
    addresses.iter().for_each(|address| prefetch(&table[(address >> 10) as usize]));
}

/// The byte of one address.
#[inline(always)]
pub(crate) fn byte(table: &Bytes, address: u32) -> u32 {
    table[(address >> 10) as usize].load(Ordering::Relaxed) >> (address >> 5 & 24) & 0xff
}

fn scalar_bytes(table: &Bytes, addresses: &[u32], out: &mut [u32]) -> u64 {
    let mut mask = 0;
    for (place, (out, &address)) in out.iter_mut().zip(addresses).enumerate() {
        *out = byte(table, address);
        mask |= u64::from(*out == 255) << (place & 63);
    }
    mask
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;

    const LANES: usize = 16;

    /// A mask of all lanes. The compiler would make it by `kxnor` of some mask register, and processors wait for that
    /// register; it may depend on the previous gather, and then no two gathers overlap.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn all_lanes() -> __mmask16 {
        let mask;
        // SAFETY: a move between registers.
        unsafe {
            asm!("kmovw {mask}, {ones:e}", mask = out(kreg) mask, ones = in(reg) 0xffff, options(pure, nomem, nostack, preserves_flags))
        };
        mask
    }

    /// The words at `index`, where `mask` is set, else those of `or`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn gather32(table: &[AtomicU32], index: __m512i, mask: __mmask16, or: __m512i) -> __m512i {
        // SAFETY: the slice has this many words.
        unsafe { gather_words(table.as_ptr().cast(), table.len(), index, mask, or) }
    }

    /// The words at `index`, where `mask` is set, else those of `or`.
    ///
    /// # Safety
    /// From `table` on there are `len` aligned words of 32 bits, more than 0.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn gather_words(table: *const u32, len: usize, index: __m512i, mask: __mmask16, or: __m512i) -> __m512i {
        let index = _mm512_min_epu32(index, _mm512_set1_epi32(len as i32 - 1));
        let mut out = or;
        // SAFETY: every index is below the table's length.
        unsafe {
            asm!("vpgatherdd {out} {{{mask}}}, [{table} + {index}*4]",
                out = inout(zmm_reg) out, mask = inout(kreg) mask => _, table = in(reg) table,
                index = in(zmm_reg) index, options(nostack, readonly, preserves_flags));
        }
        out
    }

    /// The nodes at eight indices.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn gather64(table: &Nodes, index: __m256i) -> __m512i {
        let index = _mm256_and_si256(index, _mm256_set1_epi32(table.len() as i32 - 1));
        let mut out = _mm512_setzero_si512();
        // SAFETY: every index is below the table's length, a power of two; the words are aligned.
        unsafe {
            asm!("vpgatherdq {out} {{{mask}}}, [{table} + {index}*8]",
                out = inout(zmm_reg) out, mask = inout(kreg) all_lanes() as u8 => _, table = in(reg) table.as_ptr(),
                index = in(ymm_reg) index, options(nostack, readonly, preserves_flags));
        }
        out
    }

    /// The number of ones in each lane of 32 bits. Processors before Ice Lake have no instruction for it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn popcount(v: __m512i) -> __m512i {
        let table = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
        let low = _mm512_set1_epi8(15);
        let ones = _mm512_add_epi8(
            _mm512_shuffle_epi8(table, _mm512_and_si512(v, low)),
            _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16::<4>(v), low)),
        );
        let pairs = _mm512_maddubs_epi16(ones, _mm512_set1_epi8(1));
        _mm512_madd_epi16(pairs, _mm512_set1_epi16(1))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(from: &[u32; LANES]) -> __m512i {
        // SAFETY: sixteen words are there to be read.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(to: &mut [u32; LANES], v: __m512i) {
        // SAFETY: sixteen words are there to be written.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) }
    }

    /// Where leaves are gathered from.
    pub trait Gather: Copy {
        /// The leaves at `index`, widened to 32 bits, where `mask` is set, else those of `or`.
        ///
        /// # Safety
        /// The processor has AVX-512 F.
        unsafe fn gather(self, index: __m512i, mask: __mmask16, or: __m512i) -> __m512i;
        /// The same leaves for any processor.
        fn any(&self) -> Leaves<'_>;
    }

    /// Leaves of 32 bits; there is at least one.
    #[derive(Clone, Copy)]
    pub struct Wide<'a>(pub &'a [AtomicU32]);

    impl Gather for Wide<'_> {
        #[inline]
        #[target_feature(enable = "avx512f")]
        unsafe fn gather(self, index: __m512i, mask: __mmask16, or: __m512i) -> __m512i {
            gather32(self.0, index, mask, or)
        }
        fn any(&self) -> Leaves<'_> {
            Leaves::Wide(self.0)
        }
    }

    /// Leaves of 16 bits; their number is even and not 0.
    #[derive(Clone, Copy)]
    pub struct Narrow<'a>(pub &'a [AtomicU16]);

    impl Gather for Narrow<'_> {
        #[inline]
        #[target_feature(enable = "avx512f")]
        unsafe fn gather(self, index: __m512i, mask: __mmask16, or: __m512i) -> __m512i {
            let pair = _mm512_srli_epi32::<1>(index);
            // SAFETY: two leaves make a word; `Leaves::check` has seen that they are whole words, and aligned.
            let pair = unsafe { gather_words(self.0.as_ptr().cast(), self.0.len() / 2, pair, mask, or) };
            let shift = _mm512_slli_epi32::<4>(_mm512_and_si512(index, _mm512_set1_epi32(1)));
            let leaf = _mm512_srlv_epi32(pair, shift);
            let id = _mm512_and_si512(leaf, _mm512_set1_epi32(0x7fff));
            let extended = _mm512_slli_epi32::<31>(_mm512_srli_epi32::<15>(leaf));
            _mm512_mask_or_epi32(or, mask, id, extended)
        }
        fn any(&self) -> Leaves<'_> {
            Leaves::Narrow(self.0)
        }
    }

    /// Four vectors at a time, so that 64 lookups are in flight.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub fn bm19<L: Gather>(nodes: &Nodes, leaves: L, addresses: &[u32], out: &mut [u32]) -> u32 {
        let (vectors, rest) = addresses.as_chunks::<LANES>();
        let (to, to_rest) = out.as_chunks_mut::<LANES>();
        let mut all = _mm512_setzero_si512();
        for (to, from) in to.chunks_mut(4).zip(vectors.chunks(4)) {
            if let (Ok(to), Ok(from)) = (<&mut [_; 4]>::try_from(&mut *to), <&[_; 4]>::try_from(from)) {
                let addresses = from.map(|from| load(&from));
                let nodes = addresses.map(|address| node(nodes, address));
                for i in 0..4 {
                    let leaf = leaf(leaves, addresses[i], nodes[i]);
                    all = _mm512_or_si512(all, leaf);
                    store(&mut to[i], leaf);
                }
                continue;
            }
            for (to, from) in to.iter_mut().zip(from) {
                let address = load(from);
                let leaf = leaf(leaves, address, node(nodes, address));
                all = _mm512_or_si512(all, leaf);
                store(to, leaf);
            }
        }
        let or = _mm512_reduce_or_epi32(all) as u32;
        match rest {
            [] => or,
            _ => or | leaves.any().scalar(nodes, rest, to_rest),
        }
    }

    /// Bitmaps and bases of sixteen addresses.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn node(nodes: &Nodes, address: __m512i) -> (__m512i, __m512i) {
        let slot = _mm512_srli_epi32::<13>(address);
        let low = gather64(nodes, _mm512_castsi512_si256(slot));
        let high = gather64(nodes, _mm512_extracti64x4_epi64::<1>(slot));
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
        (_mm512_permutex2var_epi32(low, odd, high), _mm512_permutex2var_epi32(low, even, high))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn leaf<L: Gather>(leaves: L, address: __m512i, (bitmap, base): (__m512i, __m512i)) -> __m512i {
        let place = _mm512_and_si512(_mm512_srli_epi32::<8>(address), _mm512_set1_epi32(31));
        let upto = _mm512_srlv_epi32(_mm512_set1_epi32(-1), _mm512_sub_epi32(_mm512_set1_epi32(31), place));
        let ones = popcount(_mm512_and_si512(bitmap, upto));
        let index = _mm512_add_epi32(base, _mm512_sub_epi32(ones, _mm512_set1_epi32(1)));
        // SAFETY: this function is compiled for the same instructions.
        unsafe { leaves.gather(index, _mm512_test_epi32_mask(bitmap, bitmap), base) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub fn bytes(table: &Bytes, addresses: &[u32], out: &mut [u32]) -> u64 {
        let (vectors, rest) = addresses.as_chunks::<LANES>();
        let (to, to_rest) = out.as_chunks_mut::<LANES>();
        let mut mask = 0;
        let mut place = 0;
        for (to, from) in to.iter_mut().zip(vectors) {
            let address = load(from);
            let words = gather32(table, _mm512_srli_epi32::<10>(address), all_lanes(), _mm512_setzero_si512());
            let shift = _mm512_and_si512(_mm512_srli_epi32::<5>(address), _mm512_set1_epi32(24));
            let byte = _mm512_and_si512(_mm512_srlv_epi32(words, shift), _mm512_set1_epi32(255));
            mask |= u64::from(_mm512_cmpeq_epi32_mask(byte, _mm512_set1_epi32(255))) << place;
            store(to, byte);
            place += LANES as u32;
        }
        match rest {
            [] => mask,
            _ => mask | scalar_bytes(table, rest, to_rest) << place,
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;

    const LANES: usize = 8;

    /// The words at `index`, where the highest bit of `mask` is set, else those of `or`.
    ///
    /// # Safety
    /// From `table` on there are `len` aligned words of 32 bits, more than 0.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather_words(table: *const u32, len: usize, index: __m256i, mask: __m256i, or: __m256i) -> __m256i {
        let index = _mm256_min_epu32(index, _mm256_set1_epi32(len as i32 - 1));
        let mut out = or;
        // SAFETY: every index is below the table's length.
        unsafe {
            asm!("vpgatherdd {out}, [{table} + {index}*4], {mask}",
                out = inout(ymm_reg) out, mask = inout(ymm_reg) mask => _, table = in(reg) table,
                index = in(ymm_reg) index, options(nostack, readonly, preserves_flags));
        }
        out
    }

    /// The nodes at four indices.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn gather_nodes(table: &Nodes, index: __m128i) -> __m256i {
        let index = _mm_and_si128(index, _mm_set1_epi32(table.len() as i32 - 1));
        let mut out = _mm256_setzero_si256();
        // SAFETY: every index is below the table's length, a power of two; the words are aligned.
        unsafe {
            asm!("vpgatherdq {out}, [{table} + {index}*8], {mask}",
                out = inout(ymm_reg) out, mask = inout(ymm_reg) _mm256_set1_epi32(-1) => _, table = in(reg) table.as_ptr(),
                index = in(xmm_reg) index, options(nostack, readonly, preserves_flags));
        }
        out
    }

    /// The number of ones in each lane of 32 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn popcount(v: __m256i) -> __m256i {
        let table = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
        let low = _mm256_set1_epi8(15);
        let ones = _mm256_add_epi8(
            _mm256_shuffle_epi8(table, _mm256_and_si256(v, low)),
            _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(v), low)),
        );
        let pairs = _mm256_maddubs_epi16(ones, _mm256_set1_epi8(1));
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(from: &[u32; LANES]) -> __m256i {
        // SAFETY: eight words are there to be read.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(to: &mut [u32; LANES], v: __m256i) {
        // SAFETY: eight words are there to be written.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) }
    }

    /// Bitmaps and bases of eight addresses.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn node(nodes: &Nodes, address: __m256i) -> (__m256i, __m256i) {
        let slot = _mm256_srli_epi32::<13>(address);
        let low = gather_nodes(nodes, _mm256_castsi256_si128(slot));
        let high = gather_nodes(nodes, _mm256_extracti128_si256::<1>(slot));
        // The halves of the four nodes side by side, then those of all eight.
        let halves = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
        let (low, high) = (_mm256_permutevar8x32_epi32(low, halves), _mm256_permutevar8x32_epi32(high, halves));
        (_mm256_permute2x128_si256::<0x31>(low, high), _mm256_permute2x128_si256::<0x20>(low, high))
    }

    /// The leaves of eight addresses.
    #[target_feature(enable = "avx2")]
    pub fn bm19(nodes: &Nodes, leaves: Leaves<'_>, addresses: &[u32], out: &mut [u32]) -> u32 {
        let (vectors, rest) = addresses.as_chunks::<LANES>();
        let (to, to_rest) = out.as_chunks_mut::<LANES>();
        let mut all = 0;
        for (to, from) in to.iter_mut().zip(vectors) {
            let address = load(from);
            let (bitmap, base) = node(nodes, address);
            let place = _mm256_and_si256(_mm256_srli_epi32::<8>(address), _mm256_set1_epi32(31));
            let upto = _mm256_srlv_epi32(_mm256_set1_epi32(-1), _mm256_sub_epi32(_mm256_set1_epi32(31), place));
            let ones = popcount(_mm256_and_si256(bitmap, upto));
            let index = _mm256_add_epi32(base, _mm256_sub_epi32(ones, _mm256_set1_epi32(1)));
            let inline = _mm256_cmpeq_epi32(bitmap, _mm256_setzero_si256());
            store(to, leaf(leaves, index, _mm256_andnot_si256(inline, _mm256_set1_epi32(-1)), base));
            all |= to.iter().fold(0, |all, leaf| all | leaf);
        }
        all | leaves.scalar(nodes, rest, to_rest)
    }

    /// The leaves at `index`, widened to 32 bits, where the lanes of `mask` are set, else those of `or`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn leaf(leaves: Leaves<'_>, index: __m256i, mask: __m256i, or: __m256i) -> __m256i {
        match leaves {
            // SAFETY: the slice has this many words.
            Leaves::Wide(leaves) => unsafe { gather_words(leaves.as_ptr().cast(), leaves.len(), index, mask, or) },
            Leaves::Narrow(leaves) => {
                let pair = _mm256_srli_epi32::<1>(index);
                // SAFETY: two leaves make a word; `Leaves::check` has seen that they are whole words, and aligned.
                let pair = unsafe { gather_words(leaves.as_ptr().cast(), leaves.len() / 2, pair, mask, or) };
                let shift = _mm256_slli_epi32::<4>(_mm256_and_si256(index, _mm256_set1_epi32(1)));
                let leaf = _mm256_srlv_epi32(pair, shift);
                let id = _mm256_and_si256(leaf, _mm256_set1_epi32(0x7fff));
                let extended = _mm256_slli_epi32::<31>(_mm256_srli_epi32::<15>(leaf));
                _mm256_blendv_epi8(or, _mm256_or_si256(id, extended), mask)
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub fn bytes(table: &Bytes, addresses: &[u32], out: &mut [u32]) -> u64 {
        let (vectors, rest) = addresses.as_chunks::<LANES>();
        let (to, to_rest) = out.as_chunks_mut::<LANES>();
        let (mut mask, mut place) = (0, 0);
        for (to, from) in to.iter_mut().zip(vectors) {
            let address = load(from);
            let (index, all) = (_mm256_srli_epi32::<10>(address), _mm256_set1_epi32(-1));
            // SAFETY: the slice has this many words.
            let words = unsafe { gather_words(table.as_ptr().cast(), table.len(), index, all, _mm256_setzero_si256()) };
            let shift = _mm256_and_si256(_mm256_srli_epi32::<5>(address), _mm256_set1_epi32(24));
            let byte = _mm256_and_si256(_mm256_srlv_epi32(words, shift), _mm256_set1_epi32(255));
            let ask = _mm256_cmpeq_epi32(byte, _mm256_set1_epi32(255));
            mask |= (_mm256_movemask_ps(_mm256_castsi256_ps(ask)) as u64) << place;
            store(to, byte);
            place += LANES as u32;
        }
        match rest {
            [] => mask,
            _ => mask | scalar_bytes(table, rest, to_rest) << place,
        }
    }
}
