// SPDX-License-Identifier: MIT
//! A transmit queue: up to 64 packets by one call. A frame that the kernel refuses is dropped and counted, and never
//! blocks those behind it; while the kernel has no room, frames stay with the caller.

use crate::port::{LOOK_EVERY, Shared, TransmitEnd, TransmitSide, lock};
use crate::sys::{Sent, send_from};
use perigee_packet::{Batch, Handle, TransmitQueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A transmit queue of an interface.
pub struct TxQueue {
    port: Arc<Shared>,
    index: usize,
    /// `None` only while it is dropped.
    end: Option<TransmitEnd>,
    looked: Option<Instant>,
    done: Vec<Handle>,
}

impl TxQueue {
    pub(crate) fn new(port: Arc<Shared>, index: usize, end: TransmitEnd) -> TxQueue {
        TxQueue { port, index, end: Some(end), looked: None, done: Vec::new() }
    }

    fn end(&mut self) -> &mut TransmitEnd {
        self.end.as_mut().expect("a queue has its socket until it is dropped")
    }

    fn count(&self, counter: impl Fn(&TransmitSide) -> &AtomicU64, n: u64) {
        counter(&self.port.transmit[self.index]).fetch_add(n, Ordering::Relaxed);
    }

    /// Sends packets from the first on; returns how many are done with, sent or dropped.
    fn push(&mut self, packets: &[Handle]) -> usize {
        let mut at = 0;
        while at < packets.len() {
            let end = self.end();
            let error = match end.sender.send(&end.socket, &packets[at..]) {
                Sent::Some { packets: n, whole, bytes } => {
                    at += n;
                    self.count(|side| &side.packets, n as u64 - whole.frames + whole.segments);
                    self.port.transmit[self.index].whole.add(whole);
                    self.count(|side| &side.bytes, bytes);
                    continue;
                }
                Sent::None(error) => error.raw_os_error().unwrap_or(0),
            };
            match error {
                // Also where a signal came.
                libc::EAGAIN | libc::EINTR => break,
                libc::ENXIO | libc::ENODEV if self.look() => {}
                libc::ENETDOWN | libc::ENXIO | libc::ENODEV => {
                    self.count(|side| &side.errors, (packets.len() - at) as u64);
                    at = packets.len();
                }
                // This one is too long or too short, or was dropped behind the socket.
                _ => {
                    self.count(|side| &side.errors, 1);
                    at += 1;
                }
            }
        }
        at
    }

    /// Looks for the interface, if it is time again; says whether it is back.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            return false;
        }
        self.looked = Some(now);
        let Some(index) = self.port.find() else { return false };
        if self.end().socket.send_to(index).is_err() {
            return false;
        }
        self.port.found(index);
        true
    }
}

impl TransmitQueue for TxQueue {
    #[inline]
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        let done = self.push(packets);
        let memory = self.end().sender.memory();
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
            std::ptr::addr_eq(batch.memory(), self.port.memory),
            "a batch that a port sends is of the memory that the port was opened with"
        );
        send_from(batch, most, |packets| self.push(packets))
    }

    fn sends_batches(&self) -> bool {
        true
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        self.port.memory.free(packets);
    }
}

impl Drop for TxQueue {
    fn drop(&mut self) {
        *lock(&self.port.transmit[self.index].end) = self.end.take();
    }
}
