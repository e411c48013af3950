// SPDX-License-Identifier: MIT
//! Tables of many megabytes: their memory, and a word to the processor about what will be read next. The one file of this
//! crate with `unsafe` in it.
//!
//! Random lookups in 64 MB of ordinary pages miss the TLB nearly every time, which takes longer than the lookup itself; in
//! huge pages they still miss the cache.
#![allow(unsafe_code)]

use rustix::mm::{Advice, madvise};
use zerocopy::{AllocError, FromZeros};

const HUGE: usize = 2 << 20;

/// A zeroed table: only pages that are used cost memory (2 MB at a time where huge pages are allowed).
pub(crate) fn zeroed<T: FromZeros>() -> Result<Box<T>, AllocError> {
    let mut table = T::new_box_zeroed()?;
    let start: *mut u8 = (&raw mut *table).cast();
    let before = start.align_offset(HUGE);
    let whole = size_of::<T>().saturating_sub(before) / HUGE * HUGE;
    // SAFETY: whole pages inside an allocation that is ours alone; the advice changes what they are made of, not what is in
    // them. A system that does not follow it is slower, no more.
    let _ = unsafe { madvise(start.wrapping_add(before).cast(), whole, Advice::LinuxHugepage) };
    Ok(table)
}

/// Where a structure looks first for an address: an array indexed by the address's first bits. Knowing it, a module can
/// have the entry fetched while it still does something else with the packet.
#[derive(Clone, Copy, Debug)]
pub struct FirstLook {
    start: usize,
    /// Bits of the address that do not count.
    shift: u32,
    /// Size of an entry in bytes.
    size: usize,
}

impl FirstLook {
    /// For a structure that does not start with an array: nothing is fetched.
    pub const NONE: FirstLook = FirstLook { start: 0, shift: u32::BITS, size: 0 };

    /// Into an array of 2^(32 - `shift`) entries.
    pub(crate) fn new<T>(array: &[T], shift: u32) -> FirstLook {
        FirstLook { start: array.as_ptr() as usize, shift, size: size_of::<T>() }
    }

    /// Has the entry of `address` fetched into the cache. Does nothing on processors other than x86-64.
    #[inline(always)]
    pub fn prefetch(self, address: u32) {
        let at = self.start.wrapping_add((u64::from(address) >> self.shift) as usize * self.size);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch never faults and changes nothing a program can see, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(at as *const i8);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}
