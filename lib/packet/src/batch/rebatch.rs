// SPDX-License-Identifier: MIT
//! Rebatching at transmit: packets for one port wait until they make up a burst, or until the first has waited long
//! enough. A device thus gets many packets at once, however mixed the received bursts were.

use crate::batch::mask::{BATCH_SIZE, Mask};
use crate::batch::port::TransmitQueue;
use crate::batch::{Batch, Handle};

/// What a flush did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flushed {
    /// Packets that the queue took.
    pub sent: usize,
    /// Packets freed as the queue was full.
    pub lost: usize,
}

/// Packets waiting for one transmit queue.
pub struct TransmitBuffer {
    queue: Box<dyn TransmitQueue>,
    /// Whether the queue takes a batch's packets together.
    direct: bool,
    pending: Vec<Handle>,
    size: usize,
    timeout: u64,
    /// Since when the first of them waits, in ns.
    oldest: Option<u64>,
}

impl TransmitBuffer {
    /// A buffer that transmits `size` packets at a time (at least 1), or fewer when the first has waited `timeout` ns.
    pub fn new(queue: Box<dyn TransmitQueue>, size: usize, timeout: u64) -> TransmitBuffer {
        let size = size.max(1);
        TransmitBuffer {
            direct: queue.sends_batches(),
            queue,
            pending: Vec::with_capacity(size + BATCH_SIZE),
            size,
            timeout,
            oldest: None,
        }
    }

    /// Adds a packet at time `now` (ns); transmits if that fills a burst.
    #[inline]
    pub fn push(&mut self, packet: Handle, now: u64) -> Option<Flushed> {
        self.pending.push(packet);
        self.flush_if_full(now)
    }

    /// Transmits the waiting packets if there are enough for a burst; else they wait, from time `now` (ns) on unless
    /// they do already.
    #[inline]
    fn flush_if_full(&mut self, now: u64) -> Option<Flushed> {
        if self.pending.len() >= self.size {
            return Some(self.flush());
        }
        if self.oldest.is_none() && !self.pending.is_empty() {
            self.oldest = Some(now);
        }
        None
    }

    /// Adds the packets of `mask`, all of them live, at time `now` (ns); transmits if there are enough for a burst
    /// then.
    ///
    /// At least half a burst is transmitted at once if nothing waits and it is what the batch holds, without a gap:
    /// straight from there, if the queue can.
    #[inline]
    pub fn take(&mut self, batch: &mut Batch, mask: Mask, now: u64) -> Option<Flushed> {
        let n = mask.count();
        if self.direct
            && self.pending.is_empty()
            && 2 * n >= self.size
            && mask == batch.live()
            && mask == Mask::first(n)
        {
            let sent = self.queue.send(batch, n);
            let lost = n - sent;
            if lost > 0 {
                batch.append_to(mask, &mut self.pending);
                self.queue.discard(&mut self.pending);
            }
            return Some(Flushed { sent, lost });
        }
        batch.append_to(mask, &mut self.pending);
        self.flush_if_full(now)
    }

    /// Transmits the waiting packets; those that the queue has no room for are freed.
    #[inline(never)]
    pub fn flush(&mut self) -> Flushed {
        let pending = self.pending.len();
        self.oldest = None;
        self.queue.transmit(&mut self.pending);
        let lost = self.pending.len();
        if lost > 0 {
            self.queue.discard(&mut self.pending);
        }
        Flushed { sent: pending - lost, lost }
    }

    /// Transmits the waiting packets if the first has waited long enough at time `now` (ns).
    #[inline]
    pub fn flush_if_due(&mut self, now: u64) -> Option<Flushed> {
        if self.pending.is_empty() {
            self.queue.poll();
            return None;
        }
        (now.saturating_sub(self.oldest.unwrap_or(now)) >= self.timeout).then(|| self.flush())
    }

    /// Whether other threads give its queue packets: see [`TransmitQueue::collects`].
    pub fn collects(&self) -> bool {
        self.queue.collects()
    }

    /// Number of packets waiting.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Does nothing wait?
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

impl Drop for TransmitBuffer {
    fn drop(&mut self) {
        self.flush();
    }
}
