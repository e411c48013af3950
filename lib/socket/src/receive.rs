// SPDX-License-Identifier: MIT
//! A receive queue: frames are copied from the ring into buffers of the pool. While there is no buffer they stay in the
//! ring.
//!
//! Long frames are read from the socket's queue (sys/ring.rs): super-frames right into large buffers, where there are
//! some; else they are cut into segments here.

mod long;

use crate::checksum;
use crate::port::{LOOK_EVERY, ReceiveEnd, ReceiveSide, Shared, lock};
use crate::sys::{Arrival, Frame, Ring};
use long::Cut;
use perigee_packet::batch::{Slot, flags};
use perigee_packet::{BATCH_SIZE, Batch, Mask, ReceiveQueue};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// After how many receptions without a frame the clock is read.
const EMPTY: u32 = 64;
/// Shortest frame: an Ethernet header.
const SHORTEST: usize = 14;

/// A receive queue of an interface.
pub struct RxQueue {
    port: Arc<Shared>,
    index: usize,
    /// `None` only while it is dropped.
    end: Option<ReceiveEnd>,
    /// Frames taken from the ring so far.
    taken: u64,
    /// Up to here they have been counted as waiting for a buffer.
    waited: u64,
    empty: u32,
    looked: Option<Instant>,
    /// The super-frame that is being cut.
    cut: Option<Box<Cut>>,
}

impl RxQueue {
    pub(crate) fn new(port: Arc<Shared>, index: usize, end: ReceiveEnd) -> RxQueue {
        RxQueue { port, index, end: Some(end), taken: 0, waited: 0, empty: 0, looked: None, cut: None }
    }

    fn end(&mut self) -> &mut ReceiveEnd {
        self.end.as_mut().expect("a queue has its socket until it is dropped")
    }

    /// Its ring: for [`crate::rehearsal`].
    pub(crate) fn ring(&mut self) -> &mut Ring {
        &mut self.end().ring
    }

    /// Whether a super-frame is being cut: for [`crate::rehearsal`].
    pub(crate) fn is_cutting(&self) -> bool {
        self.cut.is_some()
    }

    fn count(&self, counter: impl Fn(&ReceiveSide) -> &AtomicU64, n: u64) {
        counter(&self.port.receive[self.index]).fetch_add(n, Ordering::Relaxed);
    }

    fn count_received(&self, packets: usize, bytes: u64) {
        self.count(|side| &side.packets, packets as u64);
        self.count(|side| &side.bytes, bytes);
    }

    fn release(&mut self, n: usize) {
        self.end().ring.release(n);
        self.taken += n as u64;
    }

    /// The lengths of plain frames that can be taken now, and their number. Frames before them that are of no use are
    /// dropped.
    fn waiting(&mut self, lengths: &mut [u16]) -> usize {
        let slots = self.end().ring.slots();
        let (mut n, most) = (0, lengths.len().min(slots));
        for _ in 0..2 * slots {
            if n == most {
                break;
            }
            let Some(frame) = self.end().ring.get(n) else { break };
            if !frame.is_plain() {
                break;
            }
            let lost = frame.is_lost();
            let (length, whole) = (frame.len(), !lost && !frame.offload.unknown && frame.bytes.len() >= SHORTEST);
            if whole && length <= self.port.room && length <= self.port.longest_now() {
                lengths[n] = length as u16;
                n += 1;
            } else if n > 0 || (whole && length <= self.port.room && self.look()) {
                // The next call begins with it, or the MTU may be another now.
                if n > 0 {
                    break;
                }
            } else {
                self.release(1);
                self.count(|side| if lost { &side.lost } else { &side.errors }, 1);
            }
        }
        n
    }

    /// Looks for the interface and its MTU, if it is time again; says whether it did.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            return false;
        }
        self.looked = Some(now);
        if self.end().socket.bound().is_some() {
            self.port.look_at_mtu();
            return true;
        }
        let Some(index) = self.port.find() else { return true };
        let bound = if self.port.receive.len() == 1 {
            let socket = self.end().socket.clone();
            self.port.listen(&socket, index)
        } else {
            let again = self.port.listen_again(self.index, index);
            again.map(|end| {
                // What came before the interface went away and was not taken goes with its ring.
                let ring = &self.end().ring;
                let left = (0..ring.slots()).take_while(|ahead| ring.get(*ahead).is_some()).count();
                self.count(|side| &side.lost, left as u64);
                self.end = Some(end);
            })
        };
        if bound.is_ok() {
            self.port.found(index);
        }
        true
    }
}

impl ReceiveQueue for RxQueue {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(|end| end.socket.as_fd())
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        if self.cut.is_some() {
            return self.cut_on(batch, burst);
        }
        let Some(first) = self.end().ring.get(0) else {
            self.empty = self.empty.wrapping_add(1);
            if self.empty.is_multiple_of(EMPTY) {
                self.look();
            }
            return 0;
        };
        if !first.is_plain() {
            return self.receive_long(batch, burst);
        }
        let mut lengths = [0; BATCH_SIZE];
        let there = self.waiting(&mut lengths[..burst.min(BATCH_SIZE)]);
        let mut n = there;
        while n > 0 && self.port.pool.fill(batch, &lengths[..n]) < n {
            n /= 2;
        }
        if n < there {
            let (from, to) = (self.waited.max(self.taken + n as u64), self.taken + there as u64);
            self.count(|side| &side.no_buffer, to.saturating_sub(from));
            self.waited = self.waited.max(to);
        }
        let number = self.port.number;
        let ring = &self.end().ring;
        for mut packet in batch.packets(Mask::first(n)) {
            packet.set_port(number);
            let frame = ring.get(packet.index().into()).expect("a frame stays until it is released");
            copy(&frame, packet.frame_mut());
            finish(&frame, packet.frame_mut());
            stamp(frame.arrival, &mut packet);
        }
        self.release(n);
        self.count_received(n, lengths[..n].iter().map(|&length| u64::from(length)).sum());
        n
    }
}

impl Drop for RxQueue {
    fn drop(&mut self) {
        *lock(&self.port.receive[self.index].end) = self.end.take();
    }
}

/// Copies a frame, and puts back its tag.
#[inline]
fn copy(frame: &Frame<'_>, to: &mut [u8]) {
    match frame.tag {
        None => to.copy_from_slice(frame.bytes),
        Some(tag) => {
            to[..12].copy_from_slice(&frame.bytes[..12]);
            put_tag(tag, to);
            to[16..].copy_from_slice(&frame.bytes[12..]);
        }
    }
}

/// Hands the time of its arrival on.
#[inline]
fn stamp(arrival: Arrival, packet: &mut Slot<'_>) {
    packet.set_time(arrival.time);
    packet.set_flags(packet.flags() | flags::TIME | if arrival.by_device { flags::DEVICE_TIME } else { 0 });
}

fn put_tag((kind, control): (u16, u16), frame: &mut [u8]) {
    frame[12..14].copy_from_slice(&kind.to_be_bytes());
    frame[14..16].copy_from_slice(&control.to_be_bytes());
}

/// Finishes the checksum that was left to a device, in a frame that was copied.
#[inline]
fn finish(frame: &Frame<'_>, copied: &mut [u8]) {
    if let Some((start, field)) = frame.offload.checksum {
        let tag = if frame.tag.is_some() { 4 } else { 0 };
        checksum::complete(copied, start + tag, field);
    }
}
