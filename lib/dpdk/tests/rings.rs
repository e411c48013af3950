// SPDX-License-Identifier: MIT
//! Rings between threads: nothing is lost, doubled or leaked.

mod common;

use common::*;
use perigee_dpdk::*;
use perigee_packet::{Batch, Handle, Pool, Port, ReceiveQueue, TransmitQueue};
use std::sync::atomic::{AtomicU64, Ordering};

fn main() {
    common::run(&[
        ("in_order_and_with_port", in_order_and_with_port),
        ("a_full_ring_takes_nothing", a_full_ring_takes_nothing),
        ("many_producers", many_producers),
        ("the_owner_of_a_queue_sends_for_others", the_owner_of_a_queue_sends_for_others),
        ("what_is_left_is_freed", what_is_left_is_freed),
    ]);
}

fn in_order_and_with_port(eal: &Eal) {
    let pool = pool(eal);
    let port = open(eal, "net_null0,size=60", &pool);
    let (mut sender, mut receiver) = ring(eal, 100, None).unwrap();
    let mut batch = Batch::new(&MBUF);
    assert_eq!(receiver.receive(&mut batch, 32), 0);
    port.rx_queue(0).unwrap().receive(&mut batch, 50);
    for (i, mut slot) in batch.packets(perigee_packet::Mask::ALL).enumerate() {
        slot.frame_mut()[0] = i as u8;
    }
    let mut packets: Vec<Handle> = (0..50).map(|slot| batch.take_handle(slot).unwrap()).collect();
    sender.transmit(&mut packets);
    assert_eq!((packets.len(), sender.waiting()), (0, 50));
    batch.refill();
    assert_eq!(receiver.receive(&mut batch, 40), 40);
    for slot in 0..40 {
        assert_eq!((batch.frame(slot).unwrap()[0], batch.port(slot)), (slot, port.info().port));
    }
    drop((port, batch, receiver, sender));
    assert_eq!(pool.in_use(), 0);
}

fn a_full_ring_takes_nothing(eal: &Eal) {
    let pool = pool(eal);
    let (mut sender, receiver) = ring(eal, 10, None).unwrap();
    let mut packets: Vec<Handle> = (0..15u8).map(|i| pool.packet(&[i; 60]).unwrap().into_handle()).collect();
    sender.transmit(&mut packets);
    assert_eq!((packets.len(), receiver.waiting()), (5, 10));
    sender.discard(&mut packets);
    assert_eq!(pool.in_use(), 10);
    drop(receiver);
    assert_eq!(pool.in_use(), 10, "the other end still holds the ring");
    drop(sender);
    assert_eq!(pool.in_use(), 0);
}

/// Three threads send numbered packets, one receives: each comes exactly once, and each producer's stay in order.
fn many_producers(eal: &Eal) {
    const EACH: u32 = 5_000;
    let pool = pool(eal);
    let (sender, mut receiver) = ring(eal, 16, None).unwrap();
    let lost = AtomicU64::new(0);
    let mut last = [None::<u32>; 3];
    let mut received = 0;
    std::thread::scope(|scope| {
        for producer in 0..3u8 {
            let (mut sender, pool, lost) = (sender.clone(), &pool, &lost);
            scope.spawn(move || {
                let _registered = eal.register_thread().unwrap();
                for number in 0..EACH {
                    let mut frame = [producer; 60];
                    frame[4..8].copy_from_slice(&number.to_be_bytes());
                    let packet = pool.packet(&frame).expect("the ring holds fewer packets than the pool");
                    let mut packet = vec![packet.into_handle()];
                    // Some are retried for a while, so that both happen: packets get through, and packets meet a full
                    // ring.
                    for _ in 0..number % 64 + 1 {
                        sender.transmit(&mut packet);
                        std::thread::yield_now();
                    }
                    lost.fetch_add(packet.len() as u64, Ordering::Relaxed);
                    sender.discard(&mut packet);
                }
            });
        }
        let mut batch = Batch::new(&MBUF);
        while received + lost.load(Ordering::Relaxed) < 3 * u64::from(EACH) {
            received += receiver.receive(&mut batch, 64) as u64;
            for slot in batch.live() {
                let frame = batch.frame(slot).unwrap();
                let number = u32::from_be_bytes(frame[4..8].try_into().unwrap());
                let last = &mut last[usize::from(frame[0])];
                assert!(last.is_none_or(|l| l < number), "{number} after {last:?}");
                *last = Some(number);
            }
            batch.refill();
        }
    });
    println!("    {received} handed over, {} lost to a full ring", lost.load(Ordering::Relaxed));
    assert!(received > 0);
    assert_eq!((received + lost.into_inner(), receiver.waiting()), (3 * u64::from(EACH), 0));
    assert_eq!(pool.in_use(), 0);
}

fn the_owner_of_a_queue_sends_for_others(eal: &Eal) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.pcap");
    let pool = pool(eal);
    let port = open(eal, &format!("net_pcap0,tx_pcap={}", output.display()), &pool);
    let (mut sender, receiver) = ring(eal, 1000, None).unwrap();
    let mut owner = RingToTx::new(receiver, Box::new(port.tx_queue(0).unwrap()));
    let others = frames(600, 500);
    std::thread::scope(|scope| {
        scope.spawn(|| send(&mut sender, &pool, &others));
    });
    let own = vec![vec![0xee; 60]];
    send(&mut owner, &pool, &own);
    (0..3).for_each(|_| owner.poll());
    assert_eq!(sender.waiting(), 0);
    drop((owner, sender, port));
    assert_eq!(read_pcap(&output), [own, others].concat());
    assert_eq!(pool.in_use(), 0);
}

/// A device that takes nothing: packets wait with the owner, then in the ring, and all are freed in the end.
fn what_is_left_is_freed(eal: &Eal) {
    struct Stuck;
    impl TransmitQueue for Stuck {
        fn transmit(&mut self, _: &mut Vec<Handle>) {}
        fn discard(&self, packets: &mut Vec<Handle>) {
            perigee_packet::Memory::free(&MBUF, packets);
        }
    }
    let pool = pool(eal);
    let (mut sender, receiver) = ring(eal, 1000, None).unwrap();
    let mut owner = RingToTx::new(receiver, Box::new(Stuck));
    send(&mut sender, &pool, &frames(500, 100));
    (0..5).for_each(|_| owner.poll());
    assert_eq!((sender.waiting(), pool.in_use()), (500 - 256, 500));
    drop((owner, sender));
    assert_eq!(pool.in_use(), 0);
}
