// SPDX-License-Identifier: MIT
//! Packets in ordinary memory, for programs that have no port (yet): DPDK takes 0.2 s to start, which many programs
//! never need.
//!
//! They are laid out as those of the pool, but are none of its: a device is sent a copy of one, and whoever gives one
//! to the pool has it counted as gone ([`SnabbPool::know`]).

use super::{MAX_PACKETS, SnabbPool};
use crate::error::{Error, Result};
use crate::ffi::{self, SNABB_STRIDE, SNABB_WINDOW};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// Packets that were made before DPDK started. They stay until this is dropped, after everything that uses them.
#[derive(Debug, Default)]
pub struct EarlyPackets {
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: memory that is reached through pointers given out, by one thread at a time for each packet.
unsafe impl Send for EarlyPackets {}

impl EarlyPackets {
    /// Makes n more packets, all of them at most of so many bytes; returns the first window, which the others follow.
    ///
    /// # Errors
    /// That would be more than allowed, or there is no memory.
    pub fn grow(&mut self, n: u32, most_bytes: usize) -> Result<*mut c_void> {
        let all = self.made() as usize + n as usize;
        let why = |reason: &str| {
            Error::new(format!(
                "no memory for {n} more packets of 11,776 bytes each, besides {}: {reason}",
                self.made()
            ))
        };
        if all > MAX_PACKETS as usize {
            return Err(why(&format!("{MAX_PACKETS} are the most")));
        }
        if all * SNABB_STRIDE > most_bytes {
            return Err(why("give more with --memory"));
        }
        let (bytes, prot) = (n as usize * SNABB_STRIDE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: new pages, wherever the kernel likes.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, prot, MapFlags::PRIVATE | MapFlags::NORESERVE) };
        let start = start.map_err(|error| why(&error.to_string()))?;
        // SAFETY: the pages of just now. It is advice: what becomes of it changes speed only.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| why("no address"))?;
        self.chunks.push(Chunk { start, bytes });
        // SAFETY: the window is in the first packet's memory.
        Ok(unsafe { start.as_ptr().add(SNABB_WINDOW) }.cast())
    }

    /// Packets made so far.
    pub fn made(&self) -> u32 {
        self.chunks.iter().map(|chunk| (chunk.bytes / SNABB_STRIDE) as u32).sum()
    }
}

impl Drop for EarlyPackets {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            // SAFETY: mapped above with this length; nobody uses its packets any more.
            let _ = unsafe { munmap(chunk.start.as_ptr().cast(), chunk.bytes) };
        }
    }
}

impl SnabbPool {
    /// The pool counts the early packets that are given to it; call it before the first is.
    pub fn know(&self, early: &EarlyPackets) {
        for chunk in &early.chunks {
            // SAFETY: the pool lives as long as self; it remembers the range as numbers.
            unsafe { ffi::perigee_snabb_pool_know(self.0.pool.as_ptr(), chunk.start.as_ptr().cast(), chunk.bytes) };
        }
    }

    /// Early packets that were given to the pool, or sent: nobody has them any more.
    pub fn gone(&self) -> u32 {
        // SAFETY: the pool lives as long as self.
        unsafe { ffi::perigee_snabb_pool_gone(self.0.pool.as_ptr()) }
    }
}
