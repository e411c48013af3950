// SPDX-License-Identifier: MIT
//! A BPF map in this process's memory.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

/// Words of a map that the kernel reads, or writes, at the same time.
pub(crate) struct Mapped {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: it owns the mapping, and lends words that are atomic.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps so many words.
    pub fn new(map: impl AsFd, words: usize) -> io::Result<Mapped> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap(null_mut(), words * 8, prot, flags, map, 0) }?;
        Ok(Mapped { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, words })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as `self` lives, and aligned to a page; every bit pattern is a number.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` has mapped it, and no borrow is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}
