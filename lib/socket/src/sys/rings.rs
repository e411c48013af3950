// SPDX-License-Identifier: MIT
//! The rings of an AF_XDP socket: each has one side that produces entries and one that consumes them, this program and
//! the kernel.
//!
//! What the kernel says of offsets and numbers is checked once and clamped afterwards, so that no entry outside the
//! mapping is ever touched.

use super::check;
use libc::{c_int, off_t, xdp_ring_offset};
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory of the kernel's, or shared with it.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is memory that does not depend on a thread; whoever touches it does so by raw pointers or atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Pages of our own, filled with zeros.
    pub(super) fn anonymous(length: usize) -> io::Result<Mapping> {
        Mapping::new(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    /// What a descriptor has at `offset`.
    fn shared(length: usize, descriptor: c_int, offset: off_t) -> io::Result<Mapping> {
        Mapping::new(length, libc::MAP_SHARED | libc::MAP_POPULATE, descriptor, offset)
    }

    fn new(length: usize, flags: c_int, descriptor: c_int, offset: off_t) -> io::Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping; no address is asked for.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, descriptor, offset) };
        if start == libc::MAP_FAILED {
            return Err(check(-1).expect_err("-1 is an error"));
        }
        Ok(Mapping { start: NonNull::new(start.cast()).expect("a mapping is not at address zero"), length })
    }

    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Where `length` bytes from `offset` on are, if they are inside.
    #[inline]
    pub(super) fn part(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length)?;
        // SAFETY: inside the mapping.
        (end <= self.length).then(|| unsafe { self.start.add(offset) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody points into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A ring of `T`, plain structures of the kernel's.
#[derive(Debug)]
struct Ring<T> {
    // The pointers lead into this.
    _mapping: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    first: NonNull<T>,
    entries: u32,
    _of: PhantomData<T>,
}

// SAFETY: the mapping is this ring's alone.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `entries` (a power of two), as the kernel describes it.
    fn map(descriptor: c_int, page: off_t, layout: &xdp_ring_offset, entries: u32) -> io::Result<Ring<T>> {
        assert!(entries.is_power_of_two());
        let size = entries as usize * size_of::<T>();
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "the kernel describes a ring that cannot be");
        let at =
            |offset: u64| usize::try_from(offset).ok().filter(|at| at % align_of::<T>().max(4) == 0 && *at < 1 << 20);
        let first = at(layout.desc).ok_or_else(strange)?;
        let mapping = Mapping::shared(first + size, descriptor, page)?;
        let word = |offset: u64| {
            let at = usize::try_from(offset).ok().filter(|at| at % 4 == 0 && at + 4 <= first)?;
            mapping.part(at, 4).map(NonNull::cast::<AtomicU32>)
        };
        let words = [layout.producer, layout.consumer, layout.flags].map(word);
        let [Some(producer), Some(consumer), Some(flags)] = words else { return Err(strange()) };
        let first = mapping.part(first, size).ok_or_else(strange)?.cast();
        Ok(Ring { _mapping: mapping, producer, consumer, flags, first, entries, _of: PhantomData })
    }

    #[inline]
    fn word(&self, word: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: one of the three words, inside the mapping and aligned; both sides access them atomically.
        unsafe { word.as_ref() }
    }

    #[inline]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked, so inside the mapping.
        unsafe { self.first.add((index & (self.entries - 1)) as usize) }
    }
}

/// A ring that the kernel consumes.
#[derive(Debug)]
pub(super) struct Producer<T>(Ring<T>, u32);

impl<T: Copy> Producer<T> {
    pub(super) fn map(socket: c_int, page: off_t, layout: &xdp_ring_offset, entries: u32) -> io::Result<Producer<T>> {
        let ring = Ring::map(socket, page, layout, entries)?;
        let next = ring.word(ring.producer).load(Ordering::Relaxed);
        Ok(Producer(ring, next))
    }

    /// Entries that the kernel has not consumed, those included that were not published yet.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        let consumed = self.0.word(self.0.consumer).load(Ordering::Acquire);
        self.1.wrapping_sub(consumed).min(self.0.entries) as usize
    }

    /// Free entries.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.0.entries as usize - self.pending()
    }

    /// Writes the next entry, for which there must be room; the kernel sees it once it is published.
    #[inline]
    pub(super) fn put(&mut self, entry: T) {
        // SAFETY: inside the mapping and aligned; the kernel does not read it before it is published.
        unsafe { self.0.entry(self.1).as_ptr().write(entry) };
        self.1 = self.1.wrapping_add(1);
    }

    #[inline]
    pub(super) fn publish(&self) {
        self.0.word(self.0.producer).store(self.1, Ordering::Release);
    }

    /// Does the kernel want to be called to go on?
    #[inline]
    pub(super) fn wants_wakeup(&self) -> bool {
        self.0.word(self.0.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that the kernel fills.
#[derive(Debug)]
pub(super) struct Consumer<T>(Ring<T>, u32);

impl<T: Copy> Consumer<T> {
    pub(super) fn map(socket: c_int, page: off_t, layout: &xdp_ring_offset, entries: u32) -> io::Result<Consumer<T>> {
        let ring = Ring::map(socket, page, layout, entries)?;
        let next = ring.word(ring.consumer).load(Ordering::Relaxed);
        Ok(Consumer(ring, next))
    }

    /// Entries that are there.
    #[inline]
    pub(super) fn there(&self) -> usize {
        let produced = self.0.word(self.0.producer).load(Ordering::Acquire);
        produced.wrapping_sub(self.1).min(self.0.entries) as usize
    }

    /// The entry that is `ahead` behind the first, less than [`there`](Consumer::there).
    #[inline]
    pub(super) fn get(&self, ahead: usize) -> T {
        // SAFETY: inside the mapping and aligned; any bytes are a valid `T`, a structure of numbers.
        unsafe { self.0.entry(self.1.wrapping_add(ahead as u32)).as_ptr().read_volatile() }
    }

    /// Gives the first `n` entries back.
    #[inline]
    pub(super) fn release(&mut self, n: usize) {
        self.1 = self.1.wrapping_add(n as u32);
        self.0.word(self.0.consumer).store(self.1, Ordering::Release);
    }
}
