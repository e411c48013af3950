// SPDX-License-Identifier: MIT
//! Memory for tables of many megabytes: zeroed without being touched, and in huge pages where the system has them.
//!
//! Random lookups in ordinary pages miss the TLB nearly every time, which takes longer than the lookup itself. Tables
//! are aligned to huge pages, so that no part of them lies in ordinary ones.
#![allow(unsafe_code)]

mod arena;

pub use arena::Arena;

use std::ops::Deref;
use std::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use zerocopy::FromZeros;

/// Size of a huge page.
const HUGE: usize = 2 << 20;
/// Tables from this size on are whole huge pages.
const LARGE: usize = HUGE / 2;
const PAGE: usize = 4096;

/// The kernel has refused the memory.
#[derive(Debug)]
pub(crate) struct OutOfMemory;

/// Where tables are made.
#[derive(Clone, Default)]
pub(crate) enum Memory {
    /// In memory of this process.
    #[default]
    Own,
    /// In memory that others read, too.
    Arena(Arc<Arena>),
}

impl Memory {
    /// A zeroed table of a size known at compile time.
    pub fn table<T: FromZeros>(&self) -> Result<Table<T>, OutOfMemory> {
        let (start, owner) = self.take(size_of::<T>(), align_of::<T>())?;
        Ok(Table { table: start.cast(), owner })
    }

    /// A zeroed table of `len` words.
    pub fn slice<T: FromZeros>(&self, len: usize) -> Result<Table<[T]>, OutOfMemory> {
        let (start, owner) = self.take(len.checked_mul(size_of::<T>()).ok_or(OutOfMemory)?, align_of::<T>())?;
        let table = NonNull::new(slice_from_raw_parts_mut(start.as_ptr().cast(), len)).ok_or(OutOfMemory)?;
        Ok(Table { table, owner })
    }

    fn take(&self, bytes: usize, align: usize) -> Result<(NonNull<u8>, Owner), OutOfMemory> {
        match self {
            Self::Own => map(bytes, align).map(|(start, mapped)| (start, Owner::Mapped(mapped))),
            Self::Arena(arena) => {
                assert!(align <= arena::LINE, "a table in an arena is aligned to a line");
                let loan = arena.lend(bytes).ok_or(OutOfMemory)?;
                Ok((loan.start(), Owner::Lent(loan)))
            }
        }
    }
}

/// A table that is zero when it is made. Of its own, it takes memory only as its pages are used, 2 MB at a time where the
/// system provides huge pages.
pub(crate) struct Table<T: ?Sized> {
    table: NonNull<T>,
    owner: Owner,
}

/// Whose memory a table is in.
enum Owner {
    /// Its own, of so many bytes.
    Mapped(usize),
    /// An arena's.
    Lent(arena::Loan),
}

// SAFETY: it owns its content, as a box does.
unsafe impl<T: ?Sized + Send> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for Table<T> {}

impl<T: FromZeros> Table<T> {
    /// A zeroed table of a size known at compile time.
    pub fn zeroed() -> Result<Self, OutOfMemory> {
        Memory::Own.table()
    }
}

impl<T: FromZeros> Table<[T]> {
    /// A zeroed table of `len` words.
    pub fn zeroed_slice(len: usize) -> Result<Self, OutOfMemory> {
        Memory::Own.slice(len)
    }
}

impl<T: ?Sized> Table<T> {
    /// Its first line, if it is in an arena.
    pub fn line(&self) -> Option<u32> {
        match &self.owner {
            Owner::Mapped(_) => None,
            Owner::Lent(loan) => Some(loan.line()),
        }
    }
}

impl<T: ?Sized> Deref for Table<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: mapped and aligned for as long as `self` lives; all zeros are a valid `T`, and it is only ever
        // shared.
        unsafe { self.table.as_ref() }
    }
}

impl<T: ?Sized> Drop for Table<T> {
    fn drop(&mut self) {
        // A type that needs no initialisation needs no destructor; an arena's lines are given back by the loan.
        if let Owner::Mapped(bytes) = self.owner {
            // SAFETY: `map` has mapped it.
            let _ = unsafe { munmap(self.table.as_ptr().cast(), bytes) };
        }
    }
}

/// Maps zeroed memory of at least `bytes` bytes; returns its start and its length.
fn map(bytes: usize, align: usize) -> Result<(NonNull<u8>, usize), OutOfMemory> {
    assert!(align <= PAGE, "nothing in a table is aligned to more than a page");
    let unit = if bytes < LARGE { PAGE } else { HUGE };
    let wanted = bytes.max(1).checked_next_multiple_of(unit).ok_or(OutOfMemory)?;
    let mapped = wanted.checked_add(unit - PAGE).filter(|size| *size <= isize::MAX as usize).ok_or(OutOfMemory)?;
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start: *mut u8 = unsafe { mmap_anonymous(null_mut(), mapped, prot, flags) }.map_err(|_| OutOfMemory)?.cast();
    let before = start.align_offset(unit);
    let table = start.wrapping_add(before);
    // SAFETY: whole pages of what was just mapped, before and after the table; the advice changes the size of pages,
    // not their content, and where the system ignores it lookups are slower, no more.
    unsafe {
        if before > 0 {
            let _ = munmap(start.cast(), before);
        }
        if mapped - before > wanted {
            let _ = munmap(table.wrapping_add(wanted).cast(), mapped - before - wanted);
        }
        if unit == HUGE {
            let _ = madvise(table.cast(), wanted, Advice::LinuxHugepage);
        }
    }
    Ok((NonNull::new(table).ok_or(OutOfMemory)?, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn tables_of_every_size_are_zeroed_and_writable_to_the_end() {
        for len in [0, 1, 511, 512, 513, (LARGE / 8) - 1, LARGE / 8, HUGE / 8, HUGE / 8 + 1, 5 * HUGE / 8] {
            let table = Table::<[AtomicU64]>::zeroed_slice(len).expect("memory");
            assert_eq!(table.len(), len);
            assert!(table.iter().all(|word| word.load(Ordering::Relaxed) == 0));
            table.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
            assert!(len * 8 < LARGE || table.as_ptr().addr().is_multiple_of(HUGE));
        }
        let array = Table::<[AtomicU64; 1 << 18]>::zeroed().expect("memory");
        array[(1 << 18) - 1].store(1, Ordering::Relaxed);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(Table::<[AtomicU64]>::zeroed_slice(usize::MAX / 16).is_err());
        assert!(Table::<[AtomicU64]>::zeroed_slice(usize::MAX / 4).is_err());
    }
}
