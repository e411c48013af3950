// SPDX-License-Identifier: MIT
//! Several queues over one of a device: receive queues that rules choose between, as a NIC's filters would, and
//! transmit queues that take turns. For devices that have fewer queues than a program has tasks, or no filters.
//!
//! Whichever queue is polled polls the device; what is another queue's waits for it, up to a limit, and what finds no
//! room there is dropped and counted.

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

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::Pool;
    use perigee_packet::batch::heap::{HeapPool, HeapQueue};

    /// A frame with these VLAN tags, an Ethernet type and what it describes.
    fn frame(tags: &[u16], ether_type: u16, behind: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        tags.iter().for_each(|tag| frame.extend([(tag >> 8) as u8, *tag as u8, 0, 7]));
        frame.extend(ether_type.to_be_bytes());
        frame.extend(behind);
        frame
    }

    /// An IPv4 header of this many bytes, or an IPv6 header, and behind it UDP's with a payload.
    fn over_ip(version: u8, header: usize, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; header];
        packet[0] = version << 4 | if version == 4 { header as u8 / 4 } else { 0 };
        packet[if version == 4 { 9 } else { 6 }] = protocol;
        packet.extend([9; 8]);
        packet.extend(payload);
        packet
    }

    #[test]
    fn an_ethernet_type_is_found_behind_any_number_of_tags() {
        let rule = Rule::EtherType(0x88f7);
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100], &[0x8100, 0x8100, 0x8100]] {
            let whole = frame(tags, 0x88f7, &[]);
            assert!(rule.matches(&whole, 0), "{tags:?}");
            assert!(!rule.matches(&frame(tags, 0x0800, &[]), 0));
            for length in 0..whole.len() {
                assert!(!rule.matches(&whole[..length], 0), "{length} bytes of {}", whole.len());
            }
        }
        // A tag's own type is none to look for, nor is one that only begins like a tag's.
        assert!(!Rule::EtherType(0x8100).matches(&frame(&[0x8100], 0x0800, &[]), 0));
        assert!(Rule::EtherType(0x8101).matches(&frame(&[], 0x8101, &[]), 0));
        assert!(Rule::EtherType(0x88a9).matches(&frame(&[], 0x88a9, &[]), 0));
    }

    #[test]
    fn event_messages_of_ptp_are_known_by_their_udp_payload() {
        let matches = |frame: &[u8]| Rule::PtpOverUdp.matches(frame, 0);
        for (ether_type, version, header) in [(0x0800, 4, 20), (0x0800, 4, 28), (0x86dd, 6, 40)] {
            for tags in [&[][..], &[0x8100]] {
                let whole = frame(tags, ether_type, &over_ip(version, header, 17, &[0, 2]));
                assert!(matches(&whole));
                assert!((0..whole.len()).all(|length| !matches(&whole[..length])));
                for payload in [[1, 2], [0, 1]] {
                    assert!(!matches(&frame(tags, ether_type, &over_ip(version, header, 17, &payload))));
                }
                assert!(!matches(&frame(tags, ether_type, &over_ip(version, header, 6, &[0, 2]))), "TCP");
            }
        }
        assert!(!matches(&frame(&[], 0x88f7, &over_ip(4, 20, 17, &[0, 2]))));
    }

    /// Two queues over one whose frames begin with a byte each; the second takes those of type 0x88f7.
    fn two_queues(pool: &'static HeapPool) -> (HeapQueue, Steering, Vec<Box<dyn ReceiveQueue>>) {
        let device = HeapQueue::new(pool, 3, 4096);
        let (steering, queues) = receive_queues(Box::new(device.clone()), pool, 2);
        steering.add(Rule::EtherType(0x88f7), 1);
        (device, steering, queues)
    }

    fn numbered(n: u16, ether_type: u16) -> Vec<u8> {
        let mut frame = frame(&[], ether_type, &[0; 46]);
        frame[..2].copy_from_slice(&n.to_be_bytes());
        frame
    }

    fn receive(pool: &'static HeapPool, queue: &mut Box<dyn ReceiveQueue>, burst: usize) -> Vec<u16> {
        let mut batch = Batch::new(pool);
        let n = queue.receive(&mut batch, burst);
        assert_eq!(n, batch.live().count());
        assert!(batch.live().iter().all(|slot| batch.port(slot) == 3), "the device's port");
        let number = |slot| batch.frame(slot).map(|frame| u16::from_be_bytes([frame[0], frame[1]]));
        batch.live().iter().filter_map(number).collect()
    }

    #[test]
    fn each_queue_has_its_packets_in_order_and_whoever_polls_first_polls_for_all() {
        let pool = HeapPool::leak(5000);
        let (device, steering, mut queues) = two_queues(pool);
        (0..10).for_each(|n| assert!(device.inject(&numbered(n, if n % 2 == 0 { 0x0800 } else { 0x88f7 }))));
        assert_eq!(receive(pool, &mut queues[0], 3), [0, 2, 4]);
        assert_eq!(receive(pool, &mut queues[1], 256), [1, 3, 5, 7, 9]);
        assert_eq!(receive(pool, &mut queues[0], 256), [6, 8]);
        assert!(receive(pool, &mut queues[0], 256).is_empty() && receive(pool, &mut queues[1], 256).is_empty());
        // A rule that is there already changes its queue.
        steering.add(Rule::EtherType(0x88f7), 0);
        assert!(device.inject(&numbered(7, 0x88f7)));
        assert!(receive(pool, &mut queues[1], 256).is_empty());
        assert_eq!((receive(pool, &mut queues[0], 256), steering.missed()), (vec![7], 0));
    }

    #[test]
    fn what_waits_for_a_queue_keeps_no_more_than_its_backlog() {
        let pool = HeapPool::leak(5000);
        let (device, steering, mut queues) = two_queues(pool);
        let all = BACKLOG as u16 + 5;
        for n in 0..all {
            assert!(device.inject(&numbered(n, 0x88f7)));
            assert!(receive(pool, &mut queues[0], 256).is_empty());
        }
        assert_eq!((steering.missed(), pool.in_use()), (5, BACKLOG));
        let mut rest = Vec::new();
        while rest.len() < BACKLOG {
            rest.extend(receive(pool, &mut queues[1], 256));
        }
        assert_eq!(rest, (0..BACKLOG as u16).collect::<Vec<_>>(), "the first");
    }

    #[test]
    fn transmit_queues_over_one_share_it() {
        let pool = HeapPool::leak(10);
        let device = HeapQueue::new(pool, 3, 2);
        let mut queues = transmit_queues(Box::new(device.clone()), 2);
        let source = HeapQueue::new(pool, 3, 10);
        (0..3).for_each(|n| assert!(source.inject(&numbered(n, 0x0800))));
        let mut batch = Batch::new(pool);
        source.clone().receive(&mut batch, 256);
        assert_eq!((queues[0].send(&mut batch, 1), queues[1].send(&mut batch, 256)), (1, 1));
        assert_eq!((queues[0].send(&mut batch, 256), batch.live().count()), (0, 1), "it is full");
        assert_eq!(queues[0].sends_batches(), device.sends_batches());
        let mut left: Vec<_> = batch.live().iter().filter_map(|slot| batch.take_handle(slot)).collect();
        queues[0].discard(&mut left);
        assert_eq!((left.len(), pool.in_use()), (0, 2));
    }
}
