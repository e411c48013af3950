// SPDX-License-Identifier: MIT
//! What a task asks of its host, on a machine whose clock moves when the test says so.

use super::*;
use crate::task::group::tests::{Still, program};
use crate::task::machine::DeviceRequest;
use perigee_packet::batch::heap::HeapQueue;
use perigee_packet::{ReceiveQueue, TransmitQueue};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// A task, its machine, and its group, which has the device 0 with two queues each way.
fn task() -> (Arc<Still>, Arc<Tasks>, Box<TaskHost>) {
    let (machine, tasks) = program(&[], &[]);
    let request = DeviceRequest { receive_queues: 2, transmit_queues: 2, ..DeviceRequest::new("d") };
    tasks.open(&request).unwrap();
    let host = TaskHost::new(7, tasks.clone());
    (machine, tasks, host)
}

/// An Ethernet frame with these tags.
fn frame(tags: &[u16]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    tags.iter().for_each(|tag| frame.extend([(tag >> 8) as u8, *tag as u8, 0, 7]));
    frame.extend([0x08, 0x00]);
    frame.extend([9; 50]);
    frame
}

#[test]
fn a_network_header_is_found_behind_up_to_two_tags() {
    let offset = |tags: &[u16]| network_offset(&frame(tags));
    assert_eq!([offset(&[]), offset(&[0x8100]), offset(&[0x88a8, 0x8100])], [14, 18, 22]);
    assert_eq!([offset(&[0x8100, 0x88a8]), offset(&[0x8100; 3])], [22, 22]);
    assert_eq!([offset(&[0x8101]), offset(&[0x88a9])], [14, 14], "what only begins like a tag is none");
    assert_eq!([&[][..], &[2; 12], &[2; 13]].map(network_offset), [14, 14, 14]);
}

#[test]
fn new_packets_are_the_prototype_and_zeros_behind_it() {
    let (machine, _, mut host) = task();
    let mut batch = Batch::new(machine.pool);
    let mut pool = TaskPool::new(Arc::new(machine.pool), frame(&[0x8100]));
    assert_eq!(host.fill(&mut pool, &mut batch, 3, 100), Ok(3));
    let expected = [frame(&[0x8100]), vec![0; 32]].concat();
    assert!(batch.live().iter().all(|slot| batch.frame(slot) == Some(&expected[..])) && batch.live().count() == 3);
    batch.for_each(Mask::ALL, |packet| assert_eq!(packet.l3(), 18));
    // A shorter one is a part of it. What was in the batch is freed, and counted.
    assert_eq!(host.fill(&mut pool, &mut batch, BATCH_SIZE, 15), Ok(BATCH_SIZE));
    assert!(batch.live().iter().all(|slot| batch.frame(slot) == Some(&expected[..15])));
    assert_eq!((host.context.counters.unclaimed.get(), machine.pool.in_use()), (3, BATCH_SIZE));
    for (n, length) in [(0, 60), (BATCH_SIZE + 1, 60), (1, 65_536)] {
        assert!(host.fill(&mut pool, &mut batch, n, length).is_err(), "{n} of {length} bytes");
    }
}

#[test]
fn packets_are_received_by_the_queues_owner_alone() {
    let (machine, tasks, mut host) = task();
    let device = tasks.device(0).unwrap();
    let mut batch = Batch::new(machine.pool);
    assert_eq!(host.receive(&device.receive[0], &mut batch, 32, 0), Ok(0));
    let mut other = TaskHost::new(8, tasks.clone());
    let error = other.receive(&device.receive[0], &mut batch, 32, 0).unwrap_err();
    assert!(error.starts_with("receive queue 0 of d is used by another task"), "{error}");
    assert_eq!(other.receive(&device.receive[1], &mut batch, 32, 0), Ok(0));
    let error = other.send(&device.transmit[0], &mut batch, 0).and(host.send(&device.transmit[0], &mut batch, 0));
    assert!(error.unwrap_err().starts_with("transmit queue 0 of d is used by another task"));
    // With the task its claims end.
    drop(host);
    assert_eq!(other.receive(&device.receive[0], &mut batch, 32, 0), Ok(0));
}

#[test]
fn a_burst_is_no_longer_than_asked_for_and_its_packets_are_counted() {
    let (machine, _, mut host) = task();
    let queue = HeapQueue::new(machine.pool, 2, 500);
    (0..300).for_each(|_| assert!(queue.inject(&frame(&[0x8100, 0x8100]))));
    let queue = SharedReceiver::new("q".to_owned(), Box::new(queue) as Box<dyn ReceiveQueue>);
    let mut batch = Batch::new(machine.pool);
    for (burst, expected) in [(0, 1), (1, 1), (10, 10), (1000, BATCH_SIZE), (1000, 32)] {
        assert_eq!(host.receive(&queue, &mut batch, burst, 0), Ok(expected));
        batch.for_each(Mask::ALL, |packet| assert_eq!(packet.l3(), 22));
    }
    let counters = &host.context.counters;
    assert_eq!((counters.received.get(), counters.unclaimed.get()), (300, 268), "all but the last burst");
}

/// A queue that has room for one packet each time it is used.
struct Slow(HeapQueue);

impl TransmitQueue for Slow {
    fn transmit(&mut self, packets: &mut Vec<perigee_packet::Handle>) {
        self.0.transmit(packets);
    }
    fn send(&mut self, batch: &mut Batch, most: usize) -> usize {
        self.0.send(batch, most.min(1))
    }
    fn discard(&self, packets: &mut Vec<perigee_packet::Handle>) {
        self.0.discard(packets);
    }
}

#[test]
fn a_sender_waits_for_room_as_long_as_it_says() {
    let (machine, tasks, mut host) = task();
    let ring = |machine: &Still| {
        let queue = HeapQueue::ring(machine.pool, 100);
        let receiver = SharedReceiver::new("r".to_owned(), Box::new(queue.clone()) as Box<dyn ReceiveQueue>);
        SharedRing { sender: Mutex::new(Box::new(Slow(queue))), receiver }
    };
    let mut pool = TaskPool::new(Arc::new(machine.pool), frame(&[]));
    let mut batch = Batch::new(machine.pool);
    host.fill(&mut pool, &mut batch, 50, 60).unwrap();
    // At once, and never again.
    assert_eq!(host.ring_send(&ring(&machine), &mut batch, 0), 1);
    // Each look at the clock takes its time, so that this ends.
    machine.step.store(10, Ordering::Relaxed);
    let sent = host.ring_send(&ring(&machine), &mut batch, 100);
    assert!(sent > 1 && sent < 49, "{sent}");
    assert_eq!(host.ring_send(&ring(&machine), &mut batch, u64::MAX), 49 - sent, "until all are sent");
    // A task that is to end waits no more.
    host.fill(&mut pool, &mut batch, 50, 60).unwrap();
    tasks.stop();
    assert!(host.ring_send(&ring(&machine), &mut batch, u64::MAX) <= 2);
}

#[test]
fn messages_of_a_pipe_come_in_order_and_wait_for_room() {
    let (machine, tasks, mut host) = task();
    let pipe = Pipe::new(2);
    assert_eq!(host.pipe_receive(&pipe, 0), None);
    assert_eq!([b"one", b"two"].map(|message| host.pipe_send(&pipe, message, 0)), [true, true]);
    assert!(!host.pipe_send(&pipe, b"three", 0), "it is full");
    machine.step.store(1000, Ordering::Relaxed);
    assert!(!host.pipe_send(&pipe, b"three", 20_000));
    assert_eq!(host.pipe_receive(&pipe, 0), Some(&b"one"[..]));
    assert_eq!(host.pipe_receive(&pipe, SPIN_NS + 1), Some(&b"two"[..]));
    // In vain, for a time that is spent on polling, for a longer one, and until the end.
    assert_eq!(host.pipe_receive(&pipe, SPIN_NS), None);
    machine.step.store(1_000_000, Ordering::Relaxed);
    assert_eq!(host.pipe_receive(&pipe, 20_000_000), None);
    tasks.stop();
    assert_eq!(host.pipe_receive(&pipe, u64::MAX), None);
}

#[test]
fn a_task_sleeps_until_its_time_or_the_end() {
    let (machine, tasks, mut host) = task();
    host.sleep(0);
    machine.step.store(1_000_000, Ordering::Relaxed);
    let before = machine.now.load(Ordering::Relaxed);
    host.sleep(20_000_000);
    assert!(machine.now.load(Ordering::Relaxed) >= before + 20_000_000);
    tasks.stop();
    host.sleep(u64::MAX);
}

#[test]
fn what_a_task_leaves_in_its_batches_is_freed_with_it() {
    let (machine, _, mut host) = task();
    let pool = host.new_pool(TaskPool::new(Arc::new(machine.pool), frame(&[])));
    let (batch, mask) = (host.new_batch(), host.new_mask());
    assert!(!mask.is_null());
    // SAFETY: both are the host's, which lives, and nobody else has them.
    let filled = unsafe { host.fill(&mut *pool, &mut *batch, 5, 60) };
    assert_eq!((filled, machine.pool.in_use()), (Ok(5), 5));
    drop(host);
    assert_eq!(machine.pool.in_use(), 0);
}
