// SPDX-License-Identifier: MIT
//! A receive queue: frames are copied out of the socket's memory into buffers of the pool. While there is no buffer
//! they stay there.

use super::{Way, XdpShared};
use crate::port::LOOK_EVERY;
use crate::sys::xsk::Receiver;
use perigee_packet::{BATCH_SIZE, Batch, Mask, ReceiveQueue};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// After how many receptions without a frame the clock is read.
const EMPTY: u32 = 64;

/// A receive queue of an interface.
pub struct XdpRxQueue {
    port: Arc<XdpShared>,
    index: usize,
    /// `None` if there was nothing to take, as the interface came back without it.
    end: Option<Receiver>,
    generation: u32,
    /// Frames taken so far.
    taken: u64,
    /// Up to here they have been counted as waiting for a buffer.
    waited: u64,
    empty: u32,
    looked: Option<Instant>,
}

impl XdpRxQueue {
    pub(super) fn new(port: Arc<XdpShared>, index: usize) -> XdpRxQueue {
        let (end, generation) = port.sides[index].receive.take(&port.generation);
        XdpRxQueue { port, index, end, generation, taken: 0, waited: 0, empty: 0, looked: None }
    }

    fn way(&self) -> &Way<Receiver> {
        &self.port.sides[self.index].receive
    }

    /// Takes the new socket, if the port has got new ones.
    #[inline]
    fn follow(&mut self) {
        let XdpRxQueue { port, index, end, generation, .. } = self;
        let side = &port.sides[*index];
        if let Some(before) = side.receive.follow(&port.generation, end, generation) {
            self.waited = self.taken;
            let left = before.map_or(0, |end| end.there());
            side.left.fetch_add(left as u64, Ordering::Relaxed);
        }
    }

    /// Looks for the interface and its MTU, if it is time again; says whether it did.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            return false;
        }
        self.looked = Some(now);
        self.port.look();
        true
    }

    fn release(&mut self, n: usize) {
        if let Some(end) = &mut self.end {
            end.release(n);
        }
        self.taken += n as u64;
    }

    /// The lengths of frames that can be taken now, and their number. Frames before them that are of no use are
    /// dropped.
    fn waiting(&mut self, lengths: &mut [u16]) -> usize {
        let mut n = 0;
        while let Some(end) = &self.end
            && n < lengths.len()
            && n < end.there()
        {
            let length = end.length(n);
            let shared = &self.port.base.0;
            match length.filter(|length| *length <= shared.room) {
                Some(length) if length <= shared.longest_now() => {
                    lengths[n] = length as u16;
                    n += 1;
                }
                // The next call begins with it, or the MTU may be another now.
                _ if n > 0 => break,
                Some(_) if self.look() => {}
                _ => {
                    self.release(1);
                    self.way().count(0, 0, 1);
                }
            }
        }
        n
    }

    fn nothing(&mut self) -> usize {
        if let Some(end) = &self.end {
            end.wake();
        }
        self.empty = self.empty.wrapping_add(1);
        if self.empty.is_multiple_of(EMPTY) {
            self.look();
        }
        0
    }
}

impl ReceiveQueue for XdpRxQueue {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(Receiver::descriptor)
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        self.follow();
        let mut lengths = [0; BATCH_SIZE];
        let there = self.waiting(&mut lengths[..burst.min(BATCH_SIZE)]);
        if there == 0 {
            return self.nothing();
        }
        let (mut n, pool) = (there, &self.port.base.0.pool);
        while n > 0 && pool.fill(batch, &lengths[..n]) < n {
            n /= 2;
        }
        let side = &self.port.sides[self.index];
        if n < there {
            let (from, to) = (self.waited.max(self.taken + n as u64), self.taken + there as u64);
            side.no_buffer.fetch_add(to.saturating_sub(from), Ordering::Relaxed);
            self.waited = self.waited.max(to);
        }
        let number = self.port.base.0.number;
        let end = self.end.as_ref().expect("frames came from it");
        for mut packet in batch.packets(Mask::first(n)) {
            packet.set_port(number);
            end.copy(packet.index().into(), packet.frame_mut());
        }
        // Another socket may have received into what was copied just now.
        if !self.port.generation.is(self.generation) {
            batch.refill();
            return 0;
        }
        side.receive.count(n as u64, lengths[..n].iter().map(|&length| u64::from(length)).sum(), 0);
        self.release(n);
        n
    }
}

impl Drop for XdpRxQueue {
    fn drop(&mut self) {
        let end = self.end.take();
        self.way().give_back(end);
    }
}
