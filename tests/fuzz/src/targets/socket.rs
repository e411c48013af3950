// SPDX-License-Identifier: MIT
//! What Linux's packet sockets put ahead of frames: the slots of a ring (TPACKET_V2) with lengths, tags and times, what
//! is left to a device (virtio), and long frames in the socket's queue. Whatever they say, nothing outside a frame is
//! read, a good frame is received once, in order and as it came, and what is counted is what was handed out.

use crate::input::Input;
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::{Batch, Pool, SuperFrame};
use perigee_socket::Buffers;
use perigee_socket::rehearsal::{Arrived, Rehearsal};
use std::cell::RefCell;
use std::sync::Arc;

/// Most steps of one input.
const STEPS: usize = 48;
/// Most calls until everything is received: a super-frame may have 65,535 segments.
const CALLS: usize = STEPS * 600;

/// `TP_STATUS_...` of linux/if_packet.h.
const COPY: u32 = 1 << 1;
const CSUMNOTREADY: u32 = 1 << 3;
const VLAN_VALID: u32 = 1 << 4;
const VLAN_TPID_VALID: u32 = 1 << 6;
const STATUS: &[u32] =
    &[0, CSUMNOTREADY, VLAN_VALID, VLAN_VALID | VLAN_TPID_VALID, COPY, COPY | VLAN_VALID, 1 << 31, 4];

/// Where the kernel puts frames, with an offload header ahead.
const START: u16 = 82;

/// Runs one input: the port, then what the kernel does.
pub fn run(bytes: &[u8]) {
    thread_local! {
        static BATCH: RefCell<(Box<Batch>, &'static HeapPool)> = RefCell::new({
            let pool = HeapPool::leak(512);
            (Batch::new(pool), pool)
        });
    }
    BATCH.with(|batch| {
        let (batch, pool) = &mut *batch.borrow_mut();
        Trial::new(pool, &mut Input::new(bytes)).run(batch, &mut Input::new(bytes));
        batch.refill();
        assert_eq!((&*pool).in_use(), 0, "packets are left");
    });
}

/// A frame that has to be received as it is.
struct Good {
    number: usize,
    frame: Vec<u8>,
    /// Where its checksum is, which is finished.
    checksum: Option<usize>,
}

struct Trial {
    queue: Rehearsal,
    mtu: usize,
    room: usize,
    arrived: usize,
    good: Vec<Good>,
    /// Of all good ones so far, those that were received.
    received: usize,
    latest: usize,
    packets: u64,
    bytes: u64,
}

impl Trial {
    fn new(pool: &'static HeapPool, input: &mut Input) -> Trial {
        let choice = input.byte();
        let large: Option<Arc<dyn Pool>> = if choice & 1 == 0 { None } else { Some(Arc::new(pool)) };
        let mtu = [1500, 68, 576, 9000][usize::from(choice >> 1 & 3)];
        let room = [2048, mtu + 22, 4096, 65_535][usize::from(choice >> 3 & 3)].max(mtu + 22);
        let buffers = Buffers { pool: Arc::new(pool), super_frames: large, memory: pool };
        let queue = Rehearsal::new(buffers, mtu, room).expect("a queue");
        let (mtu, room, good) = (mtu.into(), room.into(), Vec::new());
        Trial { queue, mtu, room, arrived: 0, good, received: 0, latest: 0, packets: 0, bytes: 0 }
    }

    fn run(mut self, batch: &mut Batch, input: &mut Input) {
        input.byte();
        for _ in 0..STEPS {
            if input.is_empty() {
                break;
            }
            match input.below(8) {
                0 => self.receive(batch, 1 + input.below(256)),
                1 => drop(self.queue.waits(input.bytes(255))),
                2 => {
                    let frame = super_frame(input);
                    drop(self.queue.waits(&[&[0; 10][..], &frame].concat()));
                }
                _ => self.arrives(input),
            }
        }
        for _ in 0..CALLS {
            if self.queue.is_empty() {
                break;
            }
            self.receive(batch, 256);
        }
        assert!(self.queue.is_empty(), "frames stay in the ring");
        assert_eq!(self.received, self.good.len(), "a good frame is lost");
        let stats = self.queue.stats();
        let plain = stats.rx_packets - stats.rx_super.segments + stats.rx_super.frames;
        assert_eq!((plain, stats.rx_bytes), (self.packets, self.bytes), "{stats:?}");
    }

    /// A slot of the ring.
    fn arrives(&mut self, input: &mut Input) {
        let status = *input.pick(STATUS);
        let mut offload = [0; 10];
        let frame = match input.below(4) {
            0 => {
                let frame = super_frame(input);
                offload = [1, [1, 4, 5, 3, 0x81][input.below(5)], 0, 0, 0, 0, 34, 0, 16, 0];
                offload[4..6].copy_from_slice(&input.word().to_ne_bytes());
                frame
            }
            1 => (0..14 + input.below(self.mtu + 40)).map(|at| at as u8).collect(),
            _ => input.bytes(255).to_vec(),
        };
        match input.below(6) {
            0 => offload = input.array(),
            1 => offload = [1, 0, 0, 0, 0, 0, input.byte(), 0, input.byte(), 0],
            _ => {}
        }
        let length = frame.len() as u32;
        let mut arrived = Arrived {
            status,
            length,
            kept: length,
            start: START,
            // Which one it is.
            seconds: 10 * (self.arrived as u32 + 1),
            nanoseconds: input.below(3) as u32 * 499_999_999,
            tag: (*input.pick(&[0x8100, 0x88a8, 0, 0xffff]), input.word()),
            offload,
            bytes: &frame,
        };
        if input.chance(60) {
            match input.below(4) {
                0 => arrived.length = [0, 1, 13, 14, 65_536, u32::MAX, length + 1, length / 2][input.below(8)],
                1 => arrived.kept = [0, 1, 13, 14, 65_536, u32::MAX, length + 1, length / 2][input.below(8)],
                2 => arrived.start = input.word(),
                _ => arrived.nanoseconds = input.long(),
            }
        }
        if self.queue.arrives(&arrived) {
            self.good.extend(self.is_good(&arrived));
            self.arrived += 1;
        }
    }

    /// What has to be received of a slot, if it is a plain frame that fits.
    fn is_good(&self, arrived: &Arrived<'_>) -> Option<Good> {
        let length = arrived.bytes.len();
        let tag = (arrived.status & VLAN_VALID != 0).then_some(match arrived.status & VLAN_TPID_VALID {
            0 => 0x8100,
            _ => arrived.tag.0,
        });
        let whole = length + if tag.is_some() { 4 } else { 0 };
        let fits = length >= 14 && whole <= (self.mtu + 22).min(self.room);
        let plain = arrived.start == START && arrived.status & COPY == 0 && arrived.offload[1] == 0;
        if !fits || !plain || arrived.length as usize != length || arrived.kept as usize != length {
            return None;
        }
        // The ring's slots are made for frames whose first tag was taken out.
        let mut frame = arrived.bytes.to_vec();
        if let Some(kind) = tag {
            let tag = [kind.to_be_bytes(), arrived.tag.1.to_be_bytes()].concat();
            drop(frame.splice(12..12, tag));
        }
        let word = |at: usize| usize::from(u16::from_ne_bytes([arrived.offload[at], arrived.offload[at + 1]]));
        let checksum = (arrived.offload[0] & 1 != 0).then(|| word(6) + word(8) + frame.len() - length);
        Some(Good { number: self.arrived, frame, checksum })
    }

    fn receive(&mut self, batch: &mut Batch, burst: usize) {
        batch.refill();
        let n = self.queue.receive(batch, burst);
        assert!(n == batch.live().count() && n <= burst.max(1));
        for slot in batch.live() {
            let frame = batch.frame(slot).expect("a packet").to_vec();
            let size = batch.slot(slot).and_then(|slot| slot.gso_size());
            assert!(frame.len() >= 14, "a frame of {} bytes", frame.len());
            self.packets += 1;
            self.bytes += frame.len() as u64;
            let time = batch.time(slot).expect("a time");
            let number = (time / 10_000_000_000) as usize - 1;
            assert!(number < self.arrived && number >= self.latest, "{number} comes after {}", self.latest);
            self.latest = number;
            if size.is_none() {
                assert!(frame.len() <= self.room.max(self.mtu + 22), "a frame of {} bytes", frame.len());
            }
            if let Some(good) = self.good.get(self.received).filter(|good| good.number <= number) {
                assert_eq!(good.number, number, "a good frame is lost");
                same(good, &frame);
                self.received += 1;
            }
            let whole = size.and_then(|size| SuperFrame::new(&frame, size));
            assert!(whole.is_none_or(|whole| whole.len() > 0));
        }
    }
}

/// Panics if a frame is not what came, apart from the checksum that was to be finished.
fn same(good: &Good, frame: &[u8]) {
    assert_eq!(good.frame.len(), frame.len());
    let field = good.checksum.filter(|at| at + 2 <= frame.len());
    let is_field = |at: usize| field.is_some_and(|field| at == field || at == field + 1);
    let differs = good.frame.iter().zip(frame).enumerate().find(|(at, (a, b))| a != b && !is_field(*at));
    assert!(differs.is_none(), "{differs:?} of {:02x?}", good.frame);
}

/// A frame that may be one of several segments: TCP or UDP over IPv4, with any length.
fn super_frame(input: &mut Input) -> Vec<u8> {
    let length = 54 + input.below(9000);
    let protocol = *input.pick(&[6, 17]);
    let mut frame = vec![7; length];
    frame[..12].fill(2);
    frame[12..14].copy_from_slice(&[8, 0]);
    let total = (length as u16 - 14).to_be_bytes();
    frame[14..34]
        .copy_from_slice(&[69, 0, total[0], total[1], 0, 1, 64, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[46] = 0x50;
    let at = input.below(length);
    if input.chance(60) {
        frame[at] = input.byte();
    }
    frame
}
