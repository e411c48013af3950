// SPDX-License-Identifier: MIT
//! Several workers behind a port with too few receive queues: the queue's owner gives each packet to the worker its
//! flow belongs to, by a symmetric hash, so both directions of a connection meet the same worker.

use perigee_packet::wire::flow;
use perigee_packet::{Batch, Handle, Mask, TransmitQueue};

/// The rings from one worker to all, and which of them is its own.
pub struct Spread {
    own: usize,
    rings: Vec<Option<Box<dyn TransmitQueue>>>,
    of_worker: Vec<Mask>,
    pending: Vec<Handle>,
}

/// What became of a batch's packets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spreading {
    /// Given to other workers.
    pub handed_over: usize,
    /// Freed as a ring was full.
    pub lost: usize,
}

impl Spread {
    /// Spreads over as many workers as there are rings; `rings[own]` is not used and may be `None`. A flow whose worker
    /// has no ring stays.
    pub fn new(own: usize, rings: Vec<Option<Box<dyn TransmitQueue>>>) -> Spread {
        let of_worker = vec![Mask::EMPTY; rings.len()];
        Spread { own, rings, of_worker, pending: Vec::with_capacity(perigee_packet::BATCH_SIZE) }
    }

    /// Keeps this worker's packets in the batch and hands over the others.
    pub fn spread(&mut self, batch: &mut Batch) -> Spreading {
        self.of_worker.fill(Mask::EMPTY);
        for packet in batch.packets(Mask::ALL) {
            let worker = owner(packet.frame(), self.rings.len());
            self.of_worker[worker].set(packet.index());
        }
        let mut result = Spreading::default();
        for (worker, mask) in self.of_worker.iter().copied().enumerate() {
            let Some(ring) = self.rings[worker].as_mut().filter(|_| worker != self.own && !mask.is_empty()) else {
                continue;
            };
            // Not every receive queue has written the port into the buffer, and the ring carries no more than that.
            let memory = batch.memory();
            self.pending.extend(mask.iter().filter_map(|slot| {
                let port = batch.port(slot);
                let mut handle = batch.take_handle(slot)?;
                memory.set_port(&mut handle, port);
                Some(handle)
            }));
            let all = self.pending.len();
            ring.transmit(&mut self.pending);
            result.lost += self.pending.len();
            result.handed_over += all - self.pending.len();
            if !self.pending.is_empty() {
                ring.discard(&mut self.pending);
            }
        }
        result
    }
}

/// Which of `workers` a frame's flow belongs to.
pub fn owner(frame: &[u8], workers: usize) -> usize {
    let ethertype = |at: usize| frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let (l3, kind) = match ethertype(12) {
        0x8100 => (18, ethertype(16)),
        kind => (14, kind),
    };
    // The high bits choose, as a multiplication spreads a hash over any number of workers evenly.
    ((u64::from(flow::symmetric_hash(frame, l3, kind)) * workers as u64) >> 32) as usize
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use perigee_fib::synth::Random;
    use perigee_modules::testing::{changed, tagged, udp4, udp6};
    use perigee_packet::batch::heap::{HeapPool, HeapQueue};
    use perigee_packet::{Pool, ReceiveQueue};

    /// A UDP frame of some flow, and its answer's.
    fn flow(random: &mut Random) -> (Vec<u8>, Vec<u8>) {
        let (frame, addresses, length) = if random.below(2) == 0 { (udp4(1, 8), 26, 4) } else { (udp6(1, 8), 22, 16) };
        let ports = addresses + 2 * length;
        let there = changed(frame, |frame| {
            for byte in &mut frame[addresses..ports + 4] {
                *byte = random.bits() as u8;
            }
        });
        let back = changed(there.clone(), |frame| {
            frame[..12].rotate_left(6);
            frame[addresses..ports].rotate_left(length);
            frame[ports..ports + 4].rotate_left(2);
        });
        (there, back)
    }

    #[test]
    fn both_directions_have_one_owner_and_every_owner_its_share() {
        let mut random = Random::new(1);
        for workers in 1..=9 {
            let mut flows = vec![0; workers];
            for _ in 0..1000 * workers {
                let (there, back) = flow(&mut random);
                let worker = owner(&there, workers);
                flows[worker] += 1;
                assert_eq!(owner(&back, workers), worker, "{there:02x?}");
                assert_eq!(owner(&tagged(back, 0, 30), workers), worker, "the answer may come by a VLAN: {there:02x?}");
            }
            assert!(flows.iter().all(|flows| (800..1200).contains(flows)), "{flows:?}");
        }
    }

    #[test]
    fn any_bytes_have_an_owner() {
        let mut random = Random::new(2);
        for _ in 0..100_000 {
            let mut frame: Vec<u8> = (0..random.below(70)).map(|_| random.bits() as u8).collect();
            if let Some(kind) = frame.get_mut(12..14) {
                kind.copy_from_slice(&[[0x81, 0], [8, 0], [0x86, 0xdd], [0, 0]][random.below(4) as usize]);
            }
            assert!(owner(&frame, 3) < 3);
        }
    }

    /// A batch of different flows.
    fn burst(pool: &'static HeapPool, n: usize) -> (Box<Batch>, Vec<Vec<u8>>) {
        let (mut batch, mut random) = (Batch::new(pool), Random::new(3));
        let frames: Vec<_> = (0..n).map(|_| flow(&mut random).0).collect();
        for frame in &frames {
            batch.push(pool.packet(frame).unwrap(), 0).unwrap();
        }
        (batch, frames)
    }

    #[test]
    fn each_packet_goes_to_its_owner_in_order() {
        let pool = HeapPool::leak(256);
        let (mut batch, frames) = burst(pool, 200);
        let rings: Vec<_> = (0..3).map(|_| HeapQueue::new(pool, 0, 256)).collect();
        let boxed = rings.iter().map(|ring| Some(Box::new(ring.clone()) as Box<dyn TransmitQueue>));
        let result = Spread::new(1, boxed.collect()).spread(&mut batch);
        let of = |worker| frames.iter().filter(|frame| owner(frame, 3) == worker).cloned().collect::<Vec<_>>();
        let own: Vec<_> = batch.live().iter().map(|slot| batch.frame(slot).unwrap().to_vec()).collect();
        assert_eq!(own, of(1));
        assert_eq!(result, Spreading { handed_over: 200 - own.len(), lost: 0 });
        for worker in [0, 2] {
            assert_eq!(std::iter::from_fn(|| rings[worker].collect()).collect::<Vec<_>>(), of(worker));
        }
        assert_eq!((rings[1].collect(), pool.in_use()), (None, own.len()), "nothing on the own ring");
    }

    /// Packets of ports by sockets came out without a port, and were dropped as another station's.
    #[test]
    fn packets_keep_their_port() {
        let pool = HeapPool::leak(256);
        let mut batch = Batch::new(pool);
        for port in 0..200 {
            batch.push(pool.packet(&udp4(port as u8, 8)).unwrap(), port).unwrap();
        }
        let mut ring = HeapQueue::ring(pool, 256);
        let before: Vec<_> =
            batch.live().iter().map(|slot| (batch.frame(slot).unwrap().to_vec(), batch.port(slot))).collect();
        let spreading = Spread::new(0, vec![None, Some(Box::new(ring.clone()))]).spread(&mut batch);
        assert!(spreading.handed_over > 20, "{spreading:?}");
        batch.refill();
        ring.receive(&mut batch, 256);
        let after: Vec<_> =
            batch.live().iter().map(|slot| (batch.frame(slot).unwrap().to_vec(), batch.port(slot))).collect();
        let expected: Vec<_> = before.into_iter().filter(|(frame, _)| owner(frame, 2) == 1).collect();
        assert_eq!(after, expected);
    }

    #[test]
    fn a_full_ring_loses_and_a_missing_one_keeps() {
        let pool = HeapPool::leak(256);
        let (mut batch, frames) = burst(pool, 200);
        let mut ring = HeapQueue::new(pool, 0, 5);
        let mut spread = Spread::new(0, vec![None, Some(Box::new(ring.clone())), None]);
        let of_1 = frames.iter().filter(|frame| owner(frame, 3) == 1).count();
        assert_eq!(spread.spread(&mut batch), Spreading { handed_over: 5, lost: of_1 - 5 });
        assert_eq!((batch.live().count(), pool.in_use()), (200 - of_1, 200 - of_1 + 5));
        assert_eq!(spread.spread(&mut batch), Spreading::default(), "the others have gone");
        batch.refill();
        assert_eq!((ring.receive(&mut batch, 256), pool.in_use()), (5, 5));
    }
}
