// SPDX-License-Identifier: MIT
//! Memory that others than this process read, too: a mapping of a file or of a BPF map, of which tables take parts.
//!
//! Parts are whole lines of 64 bytes, and are known to the other readers by the number of their first line. Line 0 is
//! no table's, so that 0 can mean "none".

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of a line.
pub(super) const LINE: usize = 64;

/// A mapping, and which of its lines are free.
pub struct Arena {
    start: NonNull<u8>,
    lines: usize,
    space: Mutex<Space>,
}

// SAFETY: the mapping belongs to the arena alone, which hands out disjoint parts of it.
unsafe impl Send for Arena {}
// SAFETY: as above; what changes is behind a lock.
unsafe impl Sync for Arena {}

struct Space {
    /// Free lines: how many, by the first. No two of them touch.
    free: BTreeMap<usize, usize>,
    /// Lines from here on have never been used, and are zero.
    fresh: usize,
}

impl Arena {
    /// Maps the first `bytes` bytes of a file or of a BPF map, all of which are zero.
    ///
    /// # Errors
    /// The system refuses it, or there are fewer bytes than two lines have.
    pub fn map(memory: impl AsFd, bytes: usize) -> io::Result<Arc<Arena>> {
        let lines = bytes / LINE;
        if lines < 2 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("an arena of {bytes} bytes holds nothing"),
            ));
        }
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start: *mut u8 = unsafe { mmap(null_mut(), lines * LINE, prot, flags, memory, 0) }?.cast();
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        let space = Space { free: BTreeMap::from([(1, lines - 1)]), fresh: 1 };
        Ok(Arc::new(Arena { start, lines, space: Mutex::new(space) }))
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.lines * LINE
    }

    /// How many of them no table has.
    pub fn free(&self) -> usize {
        self.space().free.values().sum::<usize>() * LINE
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Zeroed lines for so many bytes, the first that fit.
    pub(super) fn lend(self: &Arc<Self>, bytes: usize) -> Option<Loan> {
        let lines = bytes.div_ceil(LINE).max(1);
        let mut space = self.space();
        let (first, room) = space.free.iter().find(|(_, room)| **room >= lines).map(|(first, room)| (*first, *room))?;
        space.free.remove(&first);
        if room > lines {
            space.free.insert(first + lines, room - lines);
        }
        let used = space.fresh.saturating_sub(first).min(lines);
        space.fresh = space.fresh.max(first + lines);
        drop(space);
        // SAFETY: these lines are within the mapping, and were nobody's until now.
        unsafe { self.start.add(first * LINE).write_bytes(0, used * LINE) };
        Some(Loan { arena: self.clone(), first, lines })
    }

    fn give_back(&self, mut first: usize, mut lines: usize) {
        let mut space = self.space();
        let before = space.free.range(..first).next_back().map(|(first, lines)| (*first, *lines));
        if let Some((start, _)) = before.filter(|(start, lines)| start + lines == first) {
            lines += first - start;
            first = start;
        }
        if let Some(behind) = space.free.remove(&(first + lines)) {
            lines += behind;
        }
        space.free.insert(first, lines);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: `map` has mapped it, and every loan has a reference of its own.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.lines * LINE) };
    }
}

/// Lines that are one table's.
pub(super) struct Loan {
    arena: Arc<Arena>,
    first: usize,
    lines: usize,
}

impl Loan {
    /// The number of the first line.
    pub fn line(&self) -> u32 {
        self.first as u32
    }

    pub fn start(&self) -> NonNull<u8> {
        // SAFETY: within the mapping.
        unsafe { self.arena.start.add(self.first * LINE) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.arena.give_back(self.first, self.lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Random;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    pub(crate) fn arena(lines: usize) -> Arc<Arena> {
        let file = memfd_create("arena", MemfdFlags::empty()).expect("a file in memory");
        ftruncate(&file, (lines * LINE) as u64).expect("its size");
        Arena::map(file, lines * LINE).expect("a mapping")
    }

    #[test]
    fn loans_are_zero_do_not_overlap_and_come_back() {
        let arena = arena(200);
        let mut random = Random::new(7);
        let mut loans: Vec<(Loan, u8)> = Vec::new();
        for round in 0..20_000u32 {
            let bytes = |loan: &Loan| unsafe {
                // SAFETY: the loan's lines, which no other loan has.
                std::slice::from_raw_parts_mut(loan.start().as_ptr(), loan.lines * LINE)
            };
            if random.below(2) == 0
                && let Some(loan) = arena.lend(random.below(20 * LINE as u32) as usize)
            {
                assert!(bytes(&loan).iter().all(|byte| *byte == 0) && loan.line() > 0);
                let mark = round as u8 | 1;
                bytes(&loan).fill(mark);
                loans.push((loan, mark));
            } else if !loans.is_empty() {
                let (loan, mark) = loans.swap_remove(random.below(loans.len() as u32) as usize);
                assert!(bytes(&loan).iter().all(|byte| *byte == mark), "another's");
            }
            let lent: usize = loans.iter().map(|(loan, _)| loan.lines * LINE).sum();
            assert_eq!(arena.free() + lent, 199 * LINE);
        }
        loans.clear();
        assert_eq!(arena.space().free, BTreeMap::from([(1, 199)]));
        assert!(arena.lend(199 * LINE + 1).is_none() && arena.lend(199 * LINE).is_some());
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let file = memfd_create("arena", MemfdFlags::empty()).expect("a file in memory");
        assert!(Arena::map(&file, LINE).is_err());
        let closed = std::fs::File::open("/dev/null").expect("a device");
        assert!(Arena::map(closed, 1 << 20).is_err());
    }
}
