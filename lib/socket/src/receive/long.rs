// SPDX-License-Identifier: MIT
//! Frames that do not fit their slots, and super-frames.

use super::{RxQueue, SHORTEST, copy, finish, put_tag, stamp};
use crate::sys::{Arrival, Frame, Socket};
use perigee_packet::{BATCH_SIZE, Batch, Mask, SuperFrame, SuperFrames};
use std::io;
use std::num::NonZeroU16;

/// Long frames taken at once: two megabytes.
const MOST: usize = 32;
/// The longest frame: an IP packet of 65,535 bytes, with two tags.
const LONGEST: usize = u16::MAX as usize + 14 + 2 * 4;

/// A super-frame that is being cut into segments.
pub(super) struct Cut {
    frame: Vec<u8>,
    gso_size: NonZeroU16,
    arrival: Arrival,
    next: usize,
}

/// Reads a frame into a buffer of its length, wherever it is. Says whether all of it came.
fn read(frame: &Frame<'_>, socket: &Socket, to: &mut [u8]) -> io::Result<bool> {
    if !frame.queued {
        copy(frame, to);
        return Ok(true);
    }
    let length = to.len();
    let Some(tag) = frame.tag else { return Ok(socket.take_queued(to, &mut [])? == length) };
    let (addresses, rest) = to.split_at_mut(12);
    let n = socket.take_queued(addresses, &mut rest[4..])?;
    put_tag(tag, to);
    Ok(n + 4 == length)
}

impl RxQueue {
    /// Takes long frames from the first one on. Super-frames for which there are no buffers are cut; what is no use is
    /// dropped.
    #[cold]
    pub(super) fn receive_long(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let mut lengths = [0; MOST];
        let lengths = &mut lengths[..burst.min(MOST)];
        let mut n = self.long_ones(lengths);
        if n == 0 && self.look() {
            // The MTU may be another now.
            n = self.long_ones(lengths);
        }
        while n > 0 && !self.fill(batch, &lengths[..n]) {
            n /= 2;
        }
        if n == 0 {
            return self.take_apart(batch, burst);
        }
        let (mut bad, mut bytes, mut whole) = (Mask::EMPTY, 0, SuperFrames::default());
        let (number, end) = (self.port.number, self.end());
        for mut packet in batch.packets(Mask::first(n)) {
            packet.set_port(number);
            let frame = end.ring.get(packet.index().into()).expect("a frame stays until it is released");
            if !read(&frame, &end.socket, packet.frame_mut()).unwrap_or(false) {
                bad.set(packet.index());
                continue;
            }
            match frame.offload.gso_size {
                None => finish(&frame, packet.frame_mut()),
                size => packet.set_gso_size(size),
            }
            stamp(frame.arrival, &mut packet);
            if let Some(this) = packet.gso_size().and_then(|size| SuperFrame::new(packet.frame(), size)) {
                whole.frames += 1;
                whole.segments += this.len() as u64;
            }
            bytes += packet.frame().len() as u64;
        }
        self.release(n);
        let plain = n - bad.count() - whole.frames as usize;
        self.count_received(plain + whole.segments as usize, bytes);
        self.port.receive[self.index].whole.add(whole);
        self.count(|side| &side.errors, bad.count() as u64);
        batch.discard(bad);
        batch.live().count()
    }

    /// Fills the batch with buffers for long frames: large ones, or, if they fit there, others.
    fn fill(&self, batch: &mut Batch, lengths: &[u16]) -> bool {
        let (n, port) = (lengths.len(), &self.port);
        let fits = lengths.iter().all(|&length| usize::from(length) <= port.room);
        port.large.as_ref().is_some_and(|pool| pool.fill(batch, lengths) == n)
            || fits && port.pool.fill(batch, lengths) == n
    }

    /// The lengths of the first long frames that are received as they are, and their number.
    fn long_ones(&mut self, lengths: &mut [u16]) -> usize {
        let (slots, longest, whole) = (self.end().ring.slots(), self.port.longest_now(), self.port.large.is_some());
        let mut n = 0;
        while n < lengths.len().min(slots) {
            let Some(frame) = self.end().ring.get(n).filter(|frame| !frame.is_plain()) else { break };
            let fits = if frame.offload.gso_size.is_some() { whole } else { frame.len() <= longest };
            let usable = fits && frame.whole >= SHORTEST && !frame.offload.unknown && !frame.is_lost();
            let Some(length) = u16::try_from(frame.len()).ok().filter(|_| usable) else { break };
            lengths[n] = length;
            n += 1;
        }
        n
    }

    /// Reads the first frame, to be cut into segments, or to be dropped.
    fn take_apart(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let end = self.end();
        let Some(first) = end.ring.get(0) else { return 0 };
        if first.is_lost() {
            self.release(1);
            self.count(|side| &side.lost, 1);
            return 0;
        }
        let mut frame = vec![0; first.len().min(LONGEST)];
        let is_one = first.whole >= SHORTEST && first.len() <= LONGEST;
        if !is_one && first.queued {
            // Out of the socket's queue as well: the next slot's frame is behind it.
            let _ = end.socket.take_queued(&mut frame, &mut []);
        }
        let whole = is_one && read(&first, &end.socket, &mut frame).unwrap_or(false);
        let (gso_size, arrival) = (first.offload.gso_size.filter(|_| whole), first.arrival);
        self.release(1);
        let usable = gso_size.filter(|size| SuperFrame::new(&frame, *size).is_some());
        let Some(gso_size) = usable else {
            self.count(|side| &side.errors, 1);
            return 0;
        };
        self.cut = Some(Box::new(Cut { frame, gso_size, arrival, next: 0 }));
        self.cut_on(batch, burst)
    }

    /// Cuts more segments off the super-frame that is being cut.
    pub(super) fn cut_on(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let Some(mut cut) = self.cut.take() else { return 0 };
        let Some(whole) = SuperFrame::new(&cut.frame, cut.gso_size) else { return 0 };
        let (mut lengths, left) = ([0; BATCH_SIZE], whole.len() - cut.next);
        let there = left.min(burst).min(BATCH_SIZE);
        for (i, length) in lengths[..there].iter_mut().enumerate() {
            *length = whole.segment_len(cut.next + i) as u16;
        }
        if lengths[..there].iter().any(|&length| usize::from(length) > self.port.room.min(self.port.longest_now())) {
            self.count(|side| &side.errors, left as u64);
            return 0;
        }
        let mut n = there;
        while n > 0 && self.port.pool.fill(batch, &lengths[..n]) < n {
            n /= 2;
        }
        if n == 0 {
            // Unlike frames in the ring it would wait in our own memory, and keep those behind it waiting.
            self.count(|side| &side.no_buffer, 1);
            self.count(|side| &side.errors, left as u64);
            return 0;
        }
        let number = self.port.number;
        for mut packet in batch.packets(Mask::first(n)) {
            packet.set_port(number);
            whole.write(cut.next + usize::from(packet.index()), packet.frame_mut());
            stamp(cut.arrival, &mut packet);
        }
        self.count_received(n, lengths[..n].iter().map(|&length| u64::from(length)).sum());
        cut.next += n;
        if n < left {
            self.cut = Some(cut);
        }
        n
    }
}
