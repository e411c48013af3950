// SPDX-License-Identifier: MIT
//! Memory for tables of many megabytes: zeroed without being touched, and in huge pages where the system has them. The one
//! file of this crate with `unsafe` in it.
//!
//! Random lookups in 64 MB of ordinary pages miss the TLB nearly every time, which takes longer than the lookup itself.
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
