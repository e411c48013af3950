// SPDX-License-Identifier: MIT
//! A receive queue without a kernel: its ring and its socket's queue are filled with any values. For the target
//! `socket` of tests/fuzz.

use crate::error::{Error, Result, failed};
use crate::port::{Buffers, SocketPort};
use crate::receive::RxQueue;
use perigee_packet::{Batch, Port, PortStats, ReceiveQueue};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

/// What a kernel writes into a slot of the ring (`struct tpacket2_hdr`), and around it.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// `TP_STATUS_...`; the slot is the program's in any case.
    pub status: u32,
    /// Bytes of the frame.
    pub length: u32,
    /// Bytes of it in the slot.
    pub kept: u32,
    /// Where they start in the slot.
    pub start: u16,
    /// When it arrived, since 1970.
    pub seconds: u32,
    /// And the fraction.
    pub nanoseconds: u32,
    /// Its tag: type and control field.
    pub tag: (u16, u16),
    /// What is left to a device (`struct virtio_net_hdr`).
    pub offload: [u8; 10],
    /// What is in the slot from `start` on.
    pub bytes: &'a [u8],
}

/// A receive queue.
pub struct Rehearsal {
    queue: RxQueue,
    port: SocketPort,
    long: UnixDatagram,
}

impl Rehearsal {
    /// One for IP packets of `mtu` bytes, whose pool has buffers of `room` bytes.
    ///
    /// # Errors
    /// The system has no memory or no socket left.
    pub fn new(buffers: Buffers, mtu: u16, room: u16) -> Result<Rehearsal> {
        let fail = |error| failed("none", "no queue could be pretended", &error);
        let (long, queue) = UnixDatagram::pair().map_err(fail)?;
        [&long, &queue].into_iter().try_for_each(|socket| socket.set_nonblocking(true)).map_err(fail)?;
        let port = SocketPort::pretended(buffers, mtu, room, OwnedFd::from(queue)).map_err(fail)?;
        let queue = port.rx_queue(0)?;
        Ok(Rehearsal { queue, port, long })
    }

    /// A frame arrives; false if the ring is full.
    pub fn arrives(&mut self, arrived: &Arrived<'_>) -> bool {
        self.queue.ring().pretend(arrived)
    }

    /// A frame waits as a whole in the socket's queue, with its offload header ahead of it.
    ///
    /// # Errors
    /// The queue is full.
    pub fn waits(&self, frame: &[u8]) -> Result<()> {
        self.long.send(frame).map(drop).map_err(|error| Error::new(error.to_string()))
    }

    /// Whether there is nothing to be received.
    pub fn is_empty(&mut self) -> bool {
        self.queue.ring().get(0).is_none() && !self.queue.is_cutting()
    }

    /// Receives.
    pub fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        self.queue.receive(batch, burst)
    }

    /// What was counted.
    pub fn stats(&self) -> PortStats {
        self.port.stats()
    }
}
