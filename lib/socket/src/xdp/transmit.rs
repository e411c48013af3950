// SPDX-License-Identifier: MIT
//! A transmit queue: packets are copied into the socket's memory and freed. A frame that cannot be sent is dropped and
//! counted; while there is no room, frames stay with the caller.

use super::{Way, XdpShared};
use crate::port::LOOK_EVERY;
use crate::sys::send_from;
use crate::sys::xsk::{Kick, Transmitter};
use perigee_packet::{Batch, Handle, TransmitQueue};
use std::sync::Arc;
use std::time::Instant;

/// A transmit queue of an interface.
pub struct XdpTxQueue {
    port: Arc<XdpShared>,
    index: usize,
    /// `None` if there was nothing to take, as the interface came back without it.
    end: Option<Transmitter>,
    generation: u32,
    /// The interface was down or gone when it was last asked to send.
    stopped: Option<Stopped>,
    /// Frames that were counted as sent and never left: the kernel dropped them, or the interface is gone.
    owed: u64,
    looked: Option<Instant>,
    done: Vec<Handle>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    Down,
    Gone,
}

impl XdpTxQueue {
    pub(super) fn new(port: Arc<XdpShared>, index: usize) -> XdpTxQueue {
        let (end, generation) = port.sides[index].transmit.take(&port.generation);
        XdpTxQueue { port, index, end, generation, stopped: None, owed: 0, looked: None, done: Vec::new() }
    }

    fn way(&self) -> &Way<Transmitter> {
        &self.port.sides[self.index].transmit
    }

    /// Takes the new socket, if the port has got new ones.
    #[inline]
    fn follow(&mut self) {
        let XdpTxQueue { port, index, end, generation, .. } = self;
        if let Some(before) = port.sides[*index].transmit.follow(&port.generation, end, generation) {
            let known = self.stopped.take() == Some(Stopped::Gone);
            let left = before.filter(|_| !known).map_or(0, |end| end.pending());
            self.owed += left as u64;
        }
    }

    /// Asks the kernel to send; returns how many frames that were put are lost.
    fn kick(&mut self) -> u64 {
        let Some(end) = &self.end else { return 0 };
        match end.kick() {
            Kick::Went { dropped } => {
                self.stopped = None;
                dropped as u64
            }
            Kick::Stopped { gone } => {
                let now = if gone { Stopped::Gone } else { Stopped::Down };
                // What waits in the ring leaves when the interface is up again, or never.
                let lost = if gone && self.stopped != Some(now) { end.pending() } else { 0 };
                self.stopped = Some(now);
                lost as u64
            }
        }
    }

    /// Tries whether a stopped interface sends again.
    #[cold]
    fn resume(&mut self) {
        if self.stopped == Some(Stopped::Gone) {
            let now = Instant::now();
            if self.looked.is_none_or(|looked| now.duration_since(looked) >= LOOK_EVERY) {
                self.looked = Some(now);
                self.port.look();
                self.follow();
            }
        } else {
            self.owed += self.kick();
        }
    }

    /// Takes packets from the first on; returns how many are done with, sent or dropped.
    fn push(&mut self, packets: &[Handle]) -> usize {
        self.follow();
        if self.stopped.is_some() {
            self.resume();
        }
        let shared = &self.port.base.0;
        let (memory, longest) = (shared.memory, shared.longest_now());
        let Some(end) = self.end.as_mut().filter(|_| self.stopped.is_none()) else {
            // What is sent later than now would be of no use.
            self.way().count(0, 0, packets.len() as u64);
            return packets.len();
        };
        let mut room = end.room();
        if room < packets.len() && end.is_pending() {
            self.owed += self.kick();
            room = self.end.as_mut().map_or(0, Transmitter::room);
        }
        let Some(end) = &mut self.end else { return 0 };
        let n = room.min(packets.len());
        let (mut put, mut bytes) = (0, 0);
        for length in packets[..n].iter().filter_map(|packet| end.put(memory, packet, longest)) {
            put += 1;
            bytes += length as u64;
        }
        end.publish();
        self.owed += self.kick();
        self.count(n as u64 - put, put, bytes);
        n
    }

    /// Counts frames: those dropped behind the socket, which need not be the last ones, are not counted as sent, but
    /// their bytes are.
    fn count(&mut self, refused: u64, put: u64, bytes: u64) {
        let sent = put.saturating_sub(self.owed);
        self.owed = self.owed.saturating_sub(put - sent);
        self.way().count(sent, bytes, refused + put - sent);
    }
}

impl TransmitQueue for XdpTxQueue {
    #[inline]
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        let (done, memory) = (self.push(packets), self.port.base.0.memory);
        if done == packets.len() {
            memory.free(packets);
        } else {
            self.done.extend(packets.drain(..done));
            memory.free(&mut self.done);
        }
    }

    #[inline]
    fn send(&mut self, batch: &mut Batch, most: usize) -> usize {
        assert!(
            std::ptr::addr_eq(batch.memory(), self.port.base.0.memory),
            "a batch that a port sends is of the memory that the port was opened with"
        );
        send_from(batch, most, |packets| self.push(packets))
    }

    fn sends_batches(&self) -> bool {
        true
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        self.port.base.0.memory.free(packets);
    }

    /// Sends what the device had no room for.
    fn poll(&mut self) {
        self.follow();
        if self.stopped.is_none() && self.end.as_ref().is_some_and(Transmitter::is_pending) {
            self.owed += self.kick();
        }
    }
}

impl Drop for XdpTxQueue {
    fn drop(&mut self) {
        let end = self.end.take();
        self.way().give_back(end);
    }
}
