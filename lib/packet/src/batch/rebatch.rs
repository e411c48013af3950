// SPDX-License-Identifier: MIT
//! Rebatching at transmit: packets for one port wait until they make up a burst, or until the first has waited long enough. A
//! device thus gets many packets at once, however mixed the received bursts were.

use crate::batch::Handle;
use crate::batch::port::TransmitQueue;

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
    pending: Vec<Handle>,
    size: usize,
    timeout: u64,
    oldest: u64,
}

impl TransmitBuffer {
    /// A buffer that transmits `size` packets at a time (at least 1), or fewer when the first has waited `timeout` ns.
    pub fn new(queue: Box<dyn TransmitQueue>, size: usize, timeout: u64) -> TransmitBuffer {
        let size = size.max(1);
        TransmitBuffer { queue, pending: Vec::with_capacity(size), size, timeout, oldest: 0 }
    }

    /// Adds a packet at time `now` (ns); transmits if that fills a burst.
    #[inline(always)]
    pub fn push(&mut self, packet: Handle, now: u64) -> Option<Flushed> {
        if self.pending.is_empty() {
            self.oldest = now;
        }
        self.pending.push(packet);
        if self.pending.len() >= self.size { Some(self.flush()) } else { None }
    }

    /// Transmits the waiting packets; those that the queue has no room for are freed.
    #[inline(never)]
    pub fn flush(&mut self) -> Flushed {
        let pending = self.pending.len();
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
        (now.saturating_sub(self.oldest) >= self.timeout).then(|| self.flush())
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
