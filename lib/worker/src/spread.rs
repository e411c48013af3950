// SPDX-License-Identifier: MIT
//! Several workers behind a port with too few receive queues: the queue's owner gives each packet to the worker its flow
//! belongs to, by a symmetric hash, so both directions of a connection meet the same worker.

use perigee_packet::{Batch, Handle, Mask, TransmitQueue, flow};

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
            self.pending.extend(mask.iter().filter_map(|slot| batch.take_handle(slot)));
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
    (u64::from(flow::symmetric_hash(frame, l3, kind)) * workers as u64 >> 32) as usize
}
