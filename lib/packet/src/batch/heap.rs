// SPDX-License-Identifier: MIT
//! Packets on the heap, and queues of them, which tests, fuzzers and simulators use instead of DPDK.
//!
//! A pool counts its buffers while they live, so a test can tell that none was leaked or freed twice. Buffers have real
//! headroom and an exact end, so that a write outside is found by Miri and the address sanitizer.
#![allow(unsafe_code)]

use crate::batch::port::{Pool, ReceiveQueue, TransmitQueue};
use crate::batch::{Batch, Handle, Memory, Packet};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::num::NonZeroU16;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Free bytes before and behind each packet.
pub const ROOM: usize = 128;

/// A buffer: its memory, and where the packet in it starts and how long it is.
struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    length: usize,
    gso_size: Option<NonZeroU16>,
    port: u16,
}

/// A pool of heap buffers with an upper limit.
#[derive(Debug)]
pub struct HeapPool {
    live: AtomicUsize,
    limit: usize,
}

impl HeapPool {
    /// A pool of up to `limit` buffers. It is never freed, as packets refer to their memory without counting.
    pub fn leak(limit: usize) -> &'static HeapPool {
        Box::leak(Box::new(HeapPool { live: AtomicUsize::new(0), limit }))
    }

    fn allocate(&self, frame: &[u8]) -> Option<(Handle, NonNull<u8>)> {
        u16::try_from(frame.len()).ok()?;
        let room_left = |n: usize| (n < self.limit).then_some(n + 1);
        self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room_left).ok()?;
        let mut bytes = vec![0; ROOM + frame.len() + ROOM].into_boxed_slice();
        bytes[ROOM..ROOM + frame.len()].copy_from_slice(frame);
        let buffer = NonNull::from(Box::leak(Box::new(Buffer {
            bytes,
            start: ROOM,
            length: frame.len(),
            gso_size: None,
            port: 0,
        })));
        // SAFETY: the buffer was just made and is nobody else's; its bytes stay where they are until it is freed.
        unsafe {
            let data = NonNull::new_unchecked((*buffer.as_ptr()).bytes.as_mut_ptr().add(ROOM));
            Some((Handle::new(buffer.cast::<c_void>()), data))
        }
    }
}

// SAFETY: a buffer is a box of its own, freed only in `free`; `copy` makes a fresh one that holds the frame.
unsafe impl Memory for HeapPool {
    fn free(&self, packets: &mut Vec<Handle>) {
        self.live.fetch_sub(packets.len(), Ordering::Relaxed);
        for handle in packets.drain(..) {
            // SAFETY: every handle of this memory comes from `allocate` and is freed once.
            drop(unsafe { Box::from_raw(handle.as_ptr().cast::<Buffer>()) });
        }
    }

    fn region(&self, packet: &Handle) -> (NonNull<u8>, usize) {
        // SAFETY: the handle is a live Buffer; only its bytes' address is taken.
        unsafe {
            let bytes = &raw mut *(*packet.as_ptr().cast::<Buffer>()).bytes;
            (NonNull::new_unchecked(bytes.cast::<u8>()), bytes.len())
        }
    }

    fn place(&self, packet: &Handle) -> (NonNull<u8>, u16) {
        let (start, _) = self.region(packet);
        // SAFETY: the handle is a live Buffer, whose start and length were written by allocate or write_back.
        unsafe {
            let buffer = packet.as_ptr().cast::<Buffer>();
            (start.add((*buffer).start), (*buffer).length as u16)
        }
    }

    fn write_back(&self, packet: &mut Handle, data: NonNull<u8>, length: u16) {
        let (start, _) = self.region(packet);
        // SAFETY: the handle is a live Buffer, lent to us alone.
        let buffer = unsafe { &mut *packet.as_ptr().cast::<Buffer>() };
        buffer.start = data.as_ptr() as usize - start.as_ptr() as usize;
        buffer.length = length.into();
    }

    fn set_port(&self, packet: &mut Handle, port: u16) {
        // SAFETY: the handle is a live Buffer, lent to us alone.
        unsafe { (*packet.as_ptr().cast::<Buffer>()).port = port }
    }

    fn copy(&self, packet: &Handle, bytes: &[u8]) -> Option<(Handle, NonNull<u8>)> {
        let (mut copy, data) = self.allocate(bytes)?;
        self.set_gso_size(&mut copy, self.gso_size(packet));
        Some((copy, data))
    }

    fn gso_size(&self, packet: &Handle) -> Option<NonZeroU16> {
        // SAFETY: the handle is a live Buffer.
        unsafe { (*packet.as_ptr().cast::<Buffer>()).gso_size }
    }

    fn set_gso_size(&self, packet: &mut Handle, size: Option<NonZeroU16>) {
        // SAFETY: the handle is a live Buffer, lent to us alone.
        unsafe { (*packet.as_ptr().cast::<Buffer>()).gso_size = size }
    }
}

impl Pool for &'static HeapPool {
    fn packet(&self, bytes: &[u8]) -> Option<Packet> {
        let (handle, data) = self.allocate(bytes)?;
        // SAFETY: a fresh buffer of this pool that holds `bytes` at `data`.
        Some(unsafe { Packet::from_raw(handle, data, bytes.len() as u16, *self) })
    }

    fn fill(&self, batch: &mut Batch, lengths: &[u16]) -> usize {
        let mut packets = Vec::with_capacity(lengths.len());
        for &length in lengths {
            // Not zeros: who relies on the contents of a new packet is to be found.
            let Some(packet) = self.packet(&vec![0xa5; length.into()]) else { return 0 };
            packets.push(packet);
        }
        packets.into_iter().for_each(|packet| drop(batch.push(packet, 0)));
        lengths.len()
    }

    fn in_use(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    fn size(&self) -> usize {
        self.limit
    }
}

/// A queue of frames with two ends: one thread's transmit queue is another's receive queue, or a test's.
#[derive(Clone)]
pub struct HeapQueue {
    pool: &'static HeapPool,
    port: Option<u16>,
    capacity: usize,
    frames: Arc<Frames>,
}

/// What both ends share; frees the remaining frames when the last end is dropped.
struct Frames {
    pool: &'static HeapPool,
    queue: Mutex<VecDeque<Handle>>,
}

impl Frames {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Handle>> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let mut left: Vec<Handle> = self.lock().drain(..).collect();
        self.pool.free(&mut left);
    }
}

impl HeapQueue {
    /// An empty queue for `capacity` packets of `pool`; what is received from it counts as received on `port`.
    pub fn new(pool: &'static HeapPool, port: u16, capacity: usize) -> HeapQueue {
        HeapQueue { port: Some(port), ..HeapQueue::ring(pool, capacity) }
    }

    /// An empty ring for `capacity` packets of `pool`, which come out with the ports that their buffers name
    /// ([`Memory::set_port`]).
    pub fn ring(pool: &'static HeapPool, capacity: usize) -> HeapQueue {
        HeapQueue { pool, port: None, capacity, frames: Arc::new(Frames { pool, queue: Mutex::default() }) }
    }

    /// Puts a frame into the queue, as a peer would; false when queue or pool are full.
    pub fn inject(&self, frame: &[u8]) -> bool {
        let mut frames = self.frames.lock();
        if frames.len() >= self.capacity {
            return false;
        }
        let Some((handle, _)) = self.pool.allocate(frame) else { return false };
        frames.push_back(handle);
        true
    }

    /// Takes the next frame out, as a peer would.
    pub fn collect(&self) -> Option<Vec<u8>> {
        let handle = self.frames.lock().pop_front()?;
        let bytes = self.bytes(&handle).to_vec();
        self.pool.free(&mut vec![handle]);
        Some(bytes)
    }

    fn bytes<'a>(&self, handle: &'a Handle) -> &'a [u8] {
        let (data, length) = self.pool.place(handle);
        // SAFETY: a live Buffer of the pool, and its place, which was initialised when it was made.
        unsafe { std::slice::from_raw_parts(data.as_ptr(), length.into()) }
    }
}

impl ReceiveQueue for HeapQueue {
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let mut frames = self.frames.lock();
        let burst = burst.min(frames.len());
        for handle in frames.drain(..burst) {
            let (data, length) = self.pool.place(&handle);
            // SAFETY: the handle is a live Buffer.
            let port = self.port.unwrap_or(unsafe { (*handle.as_ptr().cast::<Buffer>()).port });
            // SAFETY: an owned buffer of the pool, with its place as it was written back.
            let packet = unsafe { Packet::from_raw(handle, data, length, self.pool) };
            batch.push(packet, port).expect("receive needs an empty batch of the queue's own memory");
        }
        burst
    }
}

impl TransmitQueue for HeapQueue {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        let mut frames = self.frames.lock();
        let n = packets.len().min(self.capacity.saturating_sub(frames.len()));
        frames.extend(packets.drain(..n));
    }

    fn sends_batches(&self) -> bool {
        true
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        self.pool.free(packets);
    }
}
