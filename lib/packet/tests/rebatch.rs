// SPDX-License-Identifier: MIT
//! Rebatching at transmit: by size, by timeout, into a full queue, and at the end.

use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::batch::rebatch::Flushed;
use perigee_packet::{Batch, Handle, Mask, Memory, Pool, TransmitBuffer, TransmitQueue};

/// A buffer of `size` packets and 100 ns before a queue with room for `capacity`.
fn buffer(capacity: usize, size: usize) -> (&'static HeapPool, HeapQueue, TransmitBuffer) {
    let pool = HeapPool::leak(64);
    let queue = HeapQueue::new(pool, 0, capacity);
    (pool, queue.clone(), TransmitBuffer::new(Box::new(queue), size, 100))
}

fn packet(pool: &'static HeapPool, number: u8) -> Handle {
    pool.packet(&[number]).unwrap().into_handle()
}

#[test]
fn a_full_burst_goes_at_once_and_in_order() {
    let (pool, queue, mut buffer) = buffer(64, 3);
    for number in 0..7 {
        let flushed = buffer.push(packet(pool, number), 0);
        assert_eq!(flushed, (number % 3 == 2).then_some(Flushed { sent: 3, lost: 0 }), "packet {number}");
    }
    assert_eq!((buffer.len(), buffer.is_empty()), (1, false));
    assert_eq!(buffer.flush(), Flushed { sent: 1, lost: 0 });
    assert_eq!((buffer.flush(), buffer.is_empty()), (Flushed::default(), true));
    let sent: Vec<u8> = std::iter::from_fn(|| queue.collect()).map(|frame| frame[0]).collect();
    assert_eq!(sent, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn the_first_packet_waits_no_longer_than_the_timeout() {
    let (pool, queue, mut buffer) = buffer(64, 8);
    assert_eq!(buffer.flush_if_due(1_000_000), None, "nothing waits");
    buffer.push(packet(pool, 0), 1000);
    buffer.push(packet(pool, 1), 1090);
    assert_eq!(buffer.flush_if_due(1099), None);
    assert_eq!(buffer.flush_if_due(900), None, "a clock that steps back is not due");
    assert_eq!(buffer.flush_if_due(1100), Some(Flushed { sent: 2, lost: 0 }));
    buffer.push(packet(pool, 2), 1150);
    assert_eq!(buffer.flush_if_due(1249), None, "the time counts from this burst's first packet");
    assert_eq!(buffer.flush_if_due(1250), Some(Flushed { sent: 1, lost: 0 }));
    drop((queue, buffer));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_full_queue_loses_and_frees_the_rest() {
    let (pool, queue, mut buffer) = buffer(5, 4);
    let flushed: Vec<_> = (0..8).filter_map(|number| buffer.push(packet(pool, number), 0)).collect();
    assert_eq!(flushed, [Flushed { sent: 4, lost: 0 }, Flushed { sent: 1, lost: 3 }]);
    assert_eq!(pool.in_use(), 5);
    let sent: Vec<u8> = std::iter::from_fn(|| queue.collect()).map(|frame| frame[0]).collect();
    assert_eq!((sent, pool.in_use()), (vec![0, 1, 2, 3, 4], 0));
}

#[test]
fn dropping_the_buffer_sends_what_waits() {
    let (pool, queue, mut buffer) = buffer(1, 4);
    buffer.push(packet(pool, 7), 0);
    buffer.push(packet(pool, 8), 0);
    drop(buffer);
    assert_eq!((queue.collect(), queue.collect()), (Some(vec![7]), None));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_size_of_zero_is_one() {
    let (pool, queue, mut buffer) = buffer(1, 0);
    assert_eq!(buffer.push(packet(pool, 7), 0), Some(Flushed { sent: 1, lost: 0 }));
    assert_eq!(queue.collect(), Some(vec![7]));
}

/// A queue that cannot send one kind of packet, as [`Cutting`](perigee_packet::Cutting) a super-frame for want of
/// buffers, but all others.
struct Fussy(&'static HeapPool, HeapQueue);

impl TransmitQueue for Fussy {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        let (mut refused, mut rest): (Vec<_>, Vec<_>) =
            packets.drain(..).partition(|packet| self.0.place(packet).1 == 2);
        self.1.transmit(&mut rest);
        packets.append(&mut refused);
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        self.0.free(packets);
    }
}

/// A burst that was sent straight from its batch lost all packets behind one that could not be sent.
#[test]
fn a_packet_that_cannot_be_sent_does_not_take_those_behind_it_along() {
    let pool = HeapPool::leak(64);
    let queue = HeapQueue::new(pool, 0, 64);
    let mut buffer = TransmitBuffer::new(Box::new(Fussy(pool, queue.clone())), 4, 100);
    let mut batch = Batch::new(pool);
    for number in 0..6 {
        let frame = if number == 1 { vec![number; 2] } else { vec![number] };
        batch.push(pool.packet(&frame).unwrap(), 0).unwrap();
    }
    assert_eq!(buffer.take(&mut batch, Mask::first(6), 0), Some(Flushed { sent: 5, lost: 1 }));
    let sent: Vec<u8> = std::iter::from_fn(|| queue.collect()).map(|frame| frame[0]).collect();
    assert_eq!((sent, pool.in_use(), batch.live()), (vec![0, 2, 3, 4, 5], 0, Mask::EMPTY));
}

/// A burst that leaves straight from its batch, one of which a part waits, and one with a gap.
#[test]
fn bursts_leave_in_order_whichever_way_they_go() {
    let (pool, queue, mut buffer) = buffer(64, 4);
    let mut number = 0;
    for (packets, gap, expected) in
        [(6, None, Some(6)), (1, None, None), (2, None, None), (5, Some(2), Some(7)), (3, None, Some(3))]
    {
        let mut batch = Batch::new(pool);
        for slot in 0..packets {
            if gap == Some(slot) {
                batch.push(pool.packet(&[255]).unwrap(), 0).unwrap();
                batch.discard(Mask::only(slot));
            } else {
                batch.push(pool.packet(&[number]).unwrap(), 0).unwrap();
                number += 1;
            }
        }
        let all = batch.live();
        let sent = buffer.take(&mut batch, all, 0);
        assert_eq!(sent, expected.map(|sent| Flushed { sent, lost: 0 }));
        assert!(batch.live().is_empty());
    }
    let sent: Vec<u8> = std::iter::from_fn(|| queue.collect()).map(|frame| frame[0]).collect();
    assert_eq!((sent, pool.in_use()), ((0..number).collect(), 0));
}
