// SPDX-License-Identifier: MIT
//! The lookups' inner loops for AVX-512, for AVX2 and for any processor; which one runs is chosen at run time. Besides
//! `table.rs` this is the only place in this crate with `unsafe` in it.
//!
//! The tables change while they are read. A gather written in assembly is opaque to the compiler, and the processor
//! reads each aligned word as a whole, old or new, as an atomic load would. (The intrinsics would be ordinary loads,
//! which must not race.) Indices are clamped to the table, so that no table, however corrupted, leads outside of it.
#![allow(unsafe_code)]

pub(crate) mod dxr;
pub(crate) mod ipv4;
pub(crate) mod range6;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every processor has.
    Scalar,
    /// Eight lanes.
    Avx2,
    /// Sixteen lanes.
    Avx512,
}

impl Isa {
    /// The best one that this processor has.
    pub fn detect() -> Self {
        *Self::available().last().unwrap_or(&Self::Scalar)
    }

    /// All that this processor has, the best last.
    pub fn available() -> &'static [Self] {
        #[cfg(target_arch = "x86_64")]
        {
            let all = &[Self::Scalar, Self::Avx2, Self::Avx512];
            let avx2 = is_x86_feature_detected!("avx2");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl");
            // Gathers in assembly are not seen by ThreadSanitizer, which would take what they lead to for unordered.
            match (avx2, avx512 && !cfg!(tsan)) {
                (true, true) => all,
                (true, false) => &all[..2],
                _ => &all[..1],
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        &[Self::Scalar]
    }
}

/// Starts to load into the cache what will be needed soon.
#[inline(always)]
pub(crate) fn prefetch<T>(what: &T) {
    prefetch_at(what);
}

/// As [`prefetch`]; the address may be any.
#[inline(always)]
pub(crate) fn prefetch_at<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: only a hint: nothing is read or written, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
