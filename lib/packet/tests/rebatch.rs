// SPDX-License-Identifier: MIT
//! Rebatching at transmit: by size, by timeout, into a full queue, and at the end.

use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::batch::rebatch::Flushed;
use perigee_packet::{Handle, Pool, TransmitBuffer};

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
