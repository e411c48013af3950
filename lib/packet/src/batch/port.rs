// SPDX-License-Identifier: MIT
//! What a worker needs from a device: a queue to receive from, a queue to transmit on, and, for the control side, the
//! port they belong to. Implemented by lib/dpdk for devices and rings, and by [`heap`](crate::batch::heap) for tests.

use crate::batch::{Batch, Handle, Packet};
use perigee_net::MacAddr;
use std::os::fd::BorrowedFd;

/// A receive queue, used by one thread.
pub trait ReceiveQueue: Send {
    /// Fills an empty batch with up to `burst` packets and returns how many came; never waits.
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize;

    /// What becomes readable when packets are there (poll(2)); `None` where the queue can only be polled for them. Who
    /// waits for it calls [`arm`](Self::arm) first.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Has packets that come from now on make [`descriptor`](Self::descriptor) readable. Those that came before may
    /// not: whoever is about to wait receives once more in between. Returns false where that cannot be done now.
    fn arm(&mut self) -> bool {
        self.descriptor().is_some()
    }

    /// Polling goes on: ends what [`arm`](Self::arm) began.
    fn disarm(&mut self) {}

    /// Lets the processor rest without giving the core away, for a few microseconds at most, while nothing comes;
    /// `alone`: no other queue is looked at by this thread, so that packets of this one may end it.
    fn rest(&mut self, alone: bool) {
        let _ = alone;
        pause();
    }

    /// How a thread that sleeps learns of packets.
    fn wakes(&self) -> Wakes {
        if self.descriptor().is_some() { Wakes::Socket } else { Wakes::Timer }
    }
}

/// A rest by pause instructions, which every processor has: 0.2 us to 1 us.
pub fn pause() {
    (0..16).for_each(|_| std::hint::spin_loop());
}

/// How a thread that sleeps learns of packets in a receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wakes {
    /// Not at all: it looks after short sleeps.
    Timer,
    /// As [`Timer`](Self::Timer), and while it rests the processor watches the memory that the device will write to.
    Monitor,
    /// A socket of Linux's becomes readable.
    Socket,
    /// The device sends an interrupt.
    Interrupt,
}

impl std::fmt::Display for Wakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Wakes::Timer => "timer",
            Wakes::Monitor => "monitor and timer",
            Wakes::Socket => "socket",
            Wakes::Interrupt => "interrupt",
        })
    }
}

/// A transmit queue, used by one thread (or a ring to the thread that has the device's queue).
pub trait TransmitQueue: Send {
    /// Takes packets from the front of `packets` as far as there is room; never waits. Those that it leaves still
    /// belong to the caller.
    fn transmit(&mut self, packets: &mut Vec<Handle>);

    /// Takes packets of a batch, from its front, as far as there is room and `most` at most, and returns how many;
    /// never waits. The others stay.
    fn send(&mut self, batch: &mut Batch, most: usize) -> usize {
        let (mut one, mut sent) = (Vec::with_capacity(1), 0);
        let mut full = false;
        let all = batch.live();
        batch.take_handles(all, |_, handle| {
            if full || sent == most {
                return Some(handle);
            }
            one.push(handle);
            self.transmit(&mut one);
            let refused = one.pop();
            full = refused.is_some();
            sent += usize::from(!full);
            refused
        });
        sent
    }

    /// Whether [`send`](Self::send) gives the packets of a batch to the device together, and not one by one.
    fn sends_batches(&self) -> bool {
        false
    }

    /// Frees packets that could not be sent.
    fn discard(&self, packets: &mut Vec<Handle>);

    /// Lets the device finish what it has taken (called from time to time when there is nothing to send).
    fn poll(&mut self) {}

    /// Whether other threads give it packets, which wait for its next use or [`poll`](Self::poll): its owner must not
    /// sleep for long.
    fn collects(&self) -> bool {
        false
    }
}

/// Where new packets come from: a pool of buffers.
pub trait Pool: Send + Sync {
    /// A new packet holding `bytes`; `None` when the pool is empty or its buffers are too small.
    fn packet(&self, bytes: &[u8]) -> Option<Packet>;

    /// Puts new packets of these lengths in bytes into an empty batch, whose bytes are whatever was in the buffers: all
    /// of them, or none where there are not as many buffers. Returns their number.
    fn fill(&self, batch: &mut Batch, lengths: &[u16]) -> usize;

    /// How many buffers are in use now, those cached in queues and devices included.
    fn in_use(&self) -> usize;

    /// How many buffers there are.
    fn size(&self) -> usize;
}

/// State of a port's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// Can packets pass?
    pub up: bool,
    /// Speed in Mbit/s; `None` where the device doesn't know.
    pub speed: Option<u32>,
    /// Both directions at once?
    pub full_duplex: bool,
}

/// A device's own counters, since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Frames received; of a super-frame each segment counts, as it would on a wire.
    pub rx_packets: u64,
    /// Bytes received, without preamble and FCS.
    pub rx_bytes: u64,
    /// Frames lost as no receive descriptor was free.
    pub rx_missed: u64,
    /// Frames with errors, and received ones that could not be made plain.
    pub rx_errors: u64,
    /// Frames lost as no packet buffer was free.
    pub rx_no_buffer: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent, without preamble and FCS.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Super-frames received, and the segments in them, which are among `rx_packets`.
    pub rx_super: SuperFrames,
    /// Super-frames sent, and the segments in them, which are among `tx_packets`.
    pub tx_super: SuperFrames,
}

/// How many [super-frames](crate::wire::super_frame), and how many segments in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SuperFrames {
    /// Super-frames.
    pub frames: u64,
    /// Segments.
    pub segments: u64,
}

/// What a port is and can do, fixed once it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// Number of the port.
    pub port: u16,
    /// Name of the device, as its driver knows it.
    pub device: String,
    /// Name of the driver.
    pub driver: String,
    /// The port's MAC address.
    pub mac: MacAddr,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Receive queues for workers.
    pub receive_queues: u16,
    pub transmit_queues: u16,
    /// NUMA node, where known.
    pub numa_node: Option<u16>,
    /// The names of features that the device does itself ("ipv4-checksum", "rss", "vlan-filter", "flow", ...).
    pub offloads: Vec<&'static str>,
    /// A sentence about each requested feature that is done in software instead.
    pub notes: Vec<String>,
}

/// A started port, as the control side sees it.
pub trait Port: Send + Sync {
    /// What it is and can do.
    fn info(&self) -> PortInfo;
    /// State of its link now.
    fn link(&self) -> Link;
    /// Whether it has a link now: asked many times a second.
    fn is_up(&self) -> bool {
        self.link().up
    }
    /// Its counters now.
    fn stats(&self) -> PortStats;
    /// Further counters of the device, by its driver's names; empty if there are none.
    fn device_counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
    /// Switches promiscuous mode; an error if the device cannot.
    fn set_promiscuous(&self, on: bool) -> Result<(), String>;
    /// Sets the MTU in bytes; an error if the device cannot.
    fn set_mtu(&self, mtu: u16) -> Result<(), String>;
}
