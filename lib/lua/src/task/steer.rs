// SPDX-License-Identifier: MIT
//! Several queues over one of a device: receive queues that rules choose between, as a NIC's filters would, and transmit queues that
//! take turns. For devices that have fewer queues than a program has tasks, or no filters.
//!
//! Whichever queue is polled polls the device; what is another queue's waits for it, up to a limit, and what finds no room there is
//! dropped and counted.

use perigee_packet::batch::Handle;
use perigee_packet::expression::Expression;
use perigee_packet::{Batch, Memory, Packet, ReceiveQueue, TransmitQueue};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packets that wait for a queue's task at most.
pub const BACKLOG: usize = 1024;
/// Packets that are asked for at once.
const BURST: usize = 64;

/// Which packets go to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Those that match.
    Expression(Expression),
    /// Frames of an Ethernet type, behind VLAN tags.
    EtherType(u16),
    /// IEEE 1588's event messages over UDP: an IPv4 or IPv6 packet whose UDP payload starts with type 0 and version 2.
    PtpOverUdp,
}

impl Rule {
    fn matches(&self, frame: &[u8], port: u16) -> bool {
        match self {
            Rule::Expression(expression) => expression.matches(frame, port),
            Rule::EtherType(ether_type) => ether_type_of(frame).0 == Some(*ether_type),
            Rule::PtpOverUdp => {
                let payload = udp_payload(frame);
                matches!(payload, Some([0, 2, ..]))
            }
        }
    }
}

/// The Ethernet type behind VLAN tags, and where what it describes starts.
fn ether_type_of(frame: &[u8]) -> (Option<u16>, usize) {
    let mut at = 12;
    loop {
        match frame.get(at..at + 2) {
            Some([0x81, 0] | [0x88, 0xa8]) => at += 4,
            Some(&[high, low]) => return (Some(u16::from_be_bytes([high, low])), at + 2),
            _ => return (None, at),
        }
    }
}

fn udp_payload(frame: &[u8]) -> Option<&[u8]> {
    let (kind, l3) = ether_type_of(frame);
    let header = match kind? {
        0x0800 if *frame.get(l3 + 9)? == 17 => usize::from(frame[l3] & 15) * 4,
        0x86dd if *frame.get(l3 + 6)? == 17 => 40,
        _ => return None,
    };
    frame.get(l3 + header + 8..)
}

struct Device {
    queue: Box<dyn ReceiveQueue>,
    burst: Box<Batch>,
    waiting: Vec<VecDeque<(Packet, u16)>>,
    /// The first that matches counts; without one, packets are queue 0's.
    rules: Vec<(Rule, usize)>,
    missed: Arc<AtomicU64>,
}

impl Device {
    fn poll(&mut self) {
        self.burst.refill();
        if self.queue.receive(&mut self.burst, BURST) == 0 {
            return;
        }
        for slot in self.burst.live() {
            let (frame, port) = (self.burst.frame(slot).unwrap_or_default(), self.burst.port(slot));
            let chosen = self.rules.iter().find(|(rule, _)| rule.matches(frame, port)).map_or(0, |(_, queue)| *queue);
            let waiting = &mut self.waiting[chosen];
            if waiting.len() < BACKLOG
                && let Some(packet) = self.burst.take(slot)
            {
                waiting.push_back((packet, port));
            }
        }
        let dropped = self.burst.refill();
        self.missed.fetch_add(dropped as u64, Ordering::Relaxed);
    }
}

/// What rules of a device's queues are set by, and what they could not keep.
#[derive(Clone)]
pub struct Steering {
    device: Arc<Mutex<Device>>,
    missed: Arc<AtomicU64>,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Steering {
    /// Sends packets that match to a queue, from 0. A rule that is there already changes its queue.
    pub fn add(&self, rule: Rule, queue: usize) {
        let rules = &mut lock(&self.device).rules;
        match rules.iter_mut().find(|(known, _)| *known == rule) {
            Some(known) => known.1 = queue,
            None => rules.push((rule, queue)),
        }
    }

    /// Packets that found no room with their queue.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

struct Part {
    device: Arc<Mutex<Device>>,
    number: usize,
}

impl ReceiveQueue for Part {
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let mut device = lock(&self.device);
        if device.waiting[self.number].is_empty() {
            if self.number == 0 && device.rules.is_empty() {
                return device.queue.receive(batch, burst);
            }
            device.poll();
        }
        let waiting = &mut device.waiting[self.number];
        let n = waiting.len().min(burst);
        // The batch is empty and of the same memory: everything fits.
        waiting.drain(..n).map(|(packet, port)| usize::from(batch.push(packet, port).is_ok())).sum()
    }
}

/// `count` receive queues over one.
pub fn receive_queues(
    queue: Box<dyn ReceiveQueue>,
    memory: &'static dyn Memory,
    count: usize,
) -> (Steering, Vec<Box<dyn ReceiveQueue>>) {
    let missed = Arc::<AtomicU64>::default();
    let waiting = (0..count).map(|_| VecDeque::new()).collect();
    let device = Device { queue, burst: Batch::new(memory), waiting, rules: Vec::new(), missed: missed.clone() };
    let device = Arc::new(Mutex::new(device));
    let part = |number| Box::new(Part { device: device.clone(), number }) as Box<dyn ReceiveQueue>;
    let parts = (0..count).map(part).collect();
    (Steering { device, missed }, parts)
}

struct Turn(Arc<Mutex<Box<dyn TransmitQueue>>>);

impl TransmitQueue for Turn {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        lock(&self.0).transmit(packets);
    }

    fn send(&mut self, batch: &mut Batch, most: usize) -> usize {
        lock(&self.0).send(batch, most)
    }

    fn sends_batches(&self) -> bool {
        lock(&self.0).sends_batches()
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        lock(&self.0).discard(packets);
    }
}

/// `count` transmit queues over one.
pub fn transmit_queues(queue: Box<dyn TransmitQueue>, count: usize) -> Vec<Box<dyn TransmitQueue>> {
    let queue = Arc::new(Mutex::new(queue));
    (0..count).map(|_| Box::new(Turn(queue.clone())) as Box<dyn TransmitQueue>).collect()
}
