// SPDX-License-Identifier: MIT
//! A transmit queue for devices that take no super-frames: these are cut into segments before they leave.

use crate::batch::port::{Pool, TransmitQueue};
use crate::batch::{Batch, Handle, Memory, Packet};
use crate::wire::SuperFrame;
use std::collections::VecDeque;
use std::sync::Arc;

/// Cuts super-frames, and hands everything else on as it is.
pub struct Cutting {
    queue: Box<dyn TransmitQueue>,
    /// Where segments come from.
    pool: Arc<dyn Pool>,
    memory: &'static dyn Memory,
    /// Segments of one super-frame for which the queue had no room.
    waiting: VecDeque<Handle>,
    some: Vec<Handle>,
    segments: Box<Batch>,
}

/// Segments taken from the pool at once.
const AT_ONCE: usize = 64;

impl Cutting {
    /// A queue before `queue`, for packets of `memory`, of which `pool` has some large enough for what the queue sends.
    pub fn new(queue: Box<dyn TransmitQueue>, pool: Arc<dyn Pool>, memory: &'static dyn Memory) -> Cutting {
        let segments = Batch::new(memory);
        Cutting { queue, pool, memory, waiting: VecDeque::new(), some: Vec::new(), segments }
    }

    /// Sends what waits; says whether all of it has left.
    fn catch_up(&mut self) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        self.some.extend(self.waiting.drain(..));
        self.queue.transmit(&mut self.some);
        self.waiting.extend(self.some.drain(..));
        self.waiting.is_empty()
    }

    /// Cuts a super-frame into segments, which then wait to be sent. If buffers are missing it is given back, and none
    /// of it waits.
    #[cold]
    fn cut(&mut self, packet: Handle) -> Result<(), Handle> {
        let packet = Packet::of(packet, self.memory);
        let whole = packet.gso_size().and_then(|size| SuperFrame::new(packet.bytes(), size));
        let Some(whole) = whole else { return Err(packet.into_handle()) };
        let mut next = 0;
        while next < whole.len() {
            let n = (whole.len() - next).min(AT_ONCE);
            let mut lengths = [0; AT_ONCE];
            for (i, length) in lengths[..n].iter_mut().enumerate() {
                *length = whole.segment_len(next + i) as u16;
            }
            self.segments.refill();
            if self.pool.fill(&mut self.segments, &lengths[..n]) < n {
                self.some.extend(self.waiting.drain(..));
                self.queue.discard(&mut self.some);
                return Err(packet.into_handle());
            }
            let all = self.segments.live();
            for mut segment in self.segments.packets(all) {
                whole.write(next + usize::from(segment.index()), segment.frame_mut());
            }
            let waiting = &mut self.waiting;
            self.segments.take_handles(all, |_, handle| {
                waiting.push_back(handle);
                None
            });
            next += n;
        }
        Ok(())
    }
}

impl TransmitQueue for Cutting {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        if !self.catch_up() {
            return;
        }
        let memory = self.memory;
        let is_super = |packet: &Handle| memory.gso_size(packet).is_some();
        if !packets.iter().any(is_super) {
            return self.queue.transmit(packets);
        }
        let mut rest = VecDeque::from(std::mem::take(packets));
        // They stay with the caller, as packets do for which the queue has no room, but do not hold up those after
        // them.
        let mut uncut = Vec::new();
        while let Some(first) = rest.pop_front() {
            if is_super(&first) {
                uncut.extend(self.cut(first).err());
                if !self.catch_up() {
                    break;
                }
                continue;
            }
            self.some.push(first);
            while rest.front().is_some_and(|next| !is_super(next)) {
                self.some.extend(rest.pop_front());
            }
            self.queue.transmit(&mut self.some);
            if !self.some.is_empty() {
                self.some.drain(..).rev().for_each(|refused| rest.push_front(refused));
                break;
            }
        }
        packets.extend(uncut);
        packets.extend(rest);
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        self.queue.discard(packets);
    }

    fn poll(&mut self) {
        self.catch_up();
        self.queue.poll();
    }

    fn collects(&self) -> bool {
        self.queue.collects()
    }
}

impl Drop for Cutting {
    fn drop(&mut self) {
        self.catch_up();
        self.some.extend(self.waiting.drain(..));
        self.queue.discard(&mut self.some);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::heap::{HeapPool, HeapQueue};
    use crate::wire::checksums;
    use std::num::NonZeroU16;

    /// TCP over IPv4 with `length` bytes of payload, all of them `mark`.
    fn tcp(length: usize, mark: u8) -> Vec<u8> {
        let total = (40 + length) as u16;
        let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0], &total.to_be_bytes(), &[0, 1, 0x40, 0, 64, 6, 0, 0]].concat();
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        frame.resize(54 + length, mark);
        checksums::fill(&mut frame, 14);
        frame
    }

    fn handle(pool: &'static HeapPool, length: usize, mark: u8, gso_size: u16) -> Handle {
        let mut handle = pool.packet(&tcp(length, mark)).unwrap().into_handle();
        pool.set_gso_size(&mut handle, NonZeroU16::new(gso_size));
        handle
    }

    #[test]
    fn segments_leave_in_order_however_little_room_there_is() {
        let seed = std::env::var("PERIGEE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(4711u64);
        println!("PERIGEE_SEED={seed}");
        let mut state = seed;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let pool = HeapPool::leak(10_000);
        for _ in 0..200 {
            let capacity = 1 + random(40) as usize;
            let device = HeapQueue::new(pool, 0, capacity);
            let mut queue = Cutting::new(Box::new(device.clone()), Arc::new(pool), pool);
            let (mut packets, mut expected) = (Vec::new(), Vec::new());
            for mark in 0..random(12) as u8 {
                let (length, size) = (random(20_000) as usize, 1 + random(1448) as u16);
                let gso_size = if random(2) == 0 { size } else { 0 };
                packets.push(handle(pool, length, mark, gso_size));
                let most = if gso_size == 0 { length } else { size.into() };
                let mut left = length;
                loop {
                    expected.push((54 + left.min(most), mark));
                    left -= left.min(most);
                    if left == 0 {
                        break;
                    }
                }
            }
            let mut got = Vec::new();
            for _ in 0..100_000 {
                queue.transmit(&mut packets);
                while let Some(frame) = device.collect() {
                    let empty = frame.len() == 54;
                    got.push((frame.len(), frame.last().copied().filter(|_| !empty), frame));
                }
                if got.len() == expected.len() {
                    break;
                }
            }
            assert_eq!(got.len(), expected.len());
            for ((length, mark, frame), expected) in got.iter().zip(&expected) {
                assert_eq!(*length, expected.0);
                assert!(mark.is_none_or(|mark| mark == expected.1));
                let mut right = frame.clone();
                checksums::fill(&mut right, 14);
                assert_eq!(*frame, right, "checksums");
            }
            drop((queue, device));
            assert_eq!(pool.in_use(), 0, "buffers leaked");
        }
    }

    #[test]
    fn without_buffers_a_super_frame_stays_with_the_caller_and_nothing_leaks() {
        let pool = HeapPool::leak(20);
        let device = HeapQueue::new(pool, 0, 100);
        let mut queue = Cutting::new(Box::new(device.clone()), Arc::new(pool), pool);
        let mut packets = vec![handle(pool, 40_000, 1, 1000), handle(pool, 10, 2, 0)];
        queue.transmit(&mut packets);
        assert_eq!(packets.len(), 1, "whoever sends counts it as lost");
        assert!(pool.gso_size(&packets[0]).is_some());
        assert_eq!(device.collect().map(|frame| frame.len()), Some(64));
        assert!(device.collect().is_none(), "a part of it left");
        queue.discard(&mut packets);
        drop((queue, device));
        assert_eq!(pool.in_use(), 0, "buffers leaked");
    }

    #[test]
    fn what_waits_leaves_when_there_is_room() {
        let pool = HeapPool::leak(100);
        let device = HeapQueue::new(pool, 0, 3);
        let mut queue = Cutting::new(Box::new(device.clone()), Arc::new(pool), pool);
        queue.transmit(&mut vec![handle(pool, 5000, 1, 1000)]);
        for _ in 0..3 {
            device.collect().unwrap();
        }
        queue.poll();
        assert!(device.collect().is_some() && device.collect().is_some() && device.collect().is_none());
        drop((queue, device));
        assert_eq!(pool.in_use(), 0);
    }
}
