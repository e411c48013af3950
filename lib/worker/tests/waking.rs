// SPDX-License-Identifier: MIT
//! Workers that wait for a device's interrupts, and a packet that comes at each possible moment: none is slept through.
#![cfg(not(loom))]

use perigee_fib::Published;
use perigee_modules::testing::{PORTS, routes, tables, udp4};
use perigee_modules::{Counters, CustomReasons};
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Batch, Pool, ReceiveQueue, TransmitBuffer, Wakes};
use perigee_worker::{Bell, Idle, Receiver, Stop, Worker, WorkerParts, native, punt_rings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A card with interrupts that can be switched. It counts what is done to it, and one packet arrives behind the `arrival`-th of these.
struct Card {
    packets: HeapQueue,
    reader: PipeReader,
    writer: PipeWriter,
    armed: bool,
    events: Cell<u64>,
    arrival: u64,
    waiting: Cell<bool>,
    refuses: bool,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Card {
    /// Something was done to the card, and something may happen to it now.
    fn event(&self, name: &'static str) {
        self.log.lock().unwrap().push(name);
        self.events.set(self.events.get() + 1);
        if self.events.get() == self.arrival {
            assert!(self.packets.inject(&udp4(1, 8)));
            self.waiting.set(true);
            if self.armed {
                (&self.writer).write_all(b"!").unwrap();
            }
        }
    }

    fn is_readable(&self) -> bool {
        let mut one = [PollFd::from_borrowed_fd(self.reader.as_fd(), PollFlags::IN)];
        poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }
}

impl ReceiveQueue for Card {
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let n = self.packets.receive(batch, burst);
        self.waiting.set(self.waiting.get() && n == 0);
        self.event(if n > 0 { "packet" } else { "nothing" });
        n
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Asked for by a worker that is about to wait.
        let lost = self.armed && self.waiting.get() && !self.is_readable();
        assert!(!lost, "it would sleep beside a packet: {:?}", self.log.lock().unwrap());
        Some(self.reader.as_fd())
    }

    fn arm(&mut self) -> bool {
        self.event("before arm");
        self.armed = !self.refuses;
        self.event("armed");
        self.armed
    }

    fn disarm(&mut self) {
        self.armed = false;
        if self.is_readable() {
            self.reader.read_exact(&mut [0]).unwrap();
        }
        self.event("disarmed");
    }

    fn rest(&mut self, alone: bool) {
        assert!(alone);
        self.event("rest");
    }

    fn wakes(&self) -> Wakes {
        Wakes::Interrupt
    }
}

/// Runs a worker for `rounds` rounds, during which one packet arrives; returns what was done to the card, and how often the worker slept.
fn rounds(pool: &'static HeapPool, arrival: u64, refuses: bool, rounds: usize) -> (Vec<&'static str>, u64) {
    let mut published = Published::new(tables(&routes(), None));
    let (reader, writer) = pipe().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let packets = HeapQueue::new(pool, 0, 16);
    let card = Card {
        packets,
        reader,
        writer,
        armed: false,
        events: Cell::new(0),
        arrival,
        waiting: Cell::new(false),
        refuses,
        log: log.clone(),
    };
    let outputs: Vec<_> = (0..PORTS).map(|port| HeapQueue::new(pool, port, 16)).collect();
    let buffer = |queue: &HeapQueue| Some(TransmitBuffer::new(Box::new(queue.clone()), 32, 0));
    let (punts, _readers) = punt_rings(64, &[Arc::new(Bell::new(|| {}))]);
    let counters = Arc::new(Counters::new(PORTS.into()));
    // Each look at the clock takes a microsecond.
    let time = AtomicU64::new(0);
    let mut worker = Worker::new(WorkerParts {
        id: 0,
        receivers: vec![Receiver::new(Box::new(card))],
        outputs: outputs.iter().map(buffer).collect(),
        punts: Box::new(punts),
        tables: published.subscribe(),
        counters: counters.clone(),
        custom: Arc::new(CustomReasons::default()),
        memory: pool,
        burst: 32,
        idle: Idle::Adaptive,
        clock: Arc::new(move || time.fetch_add(1000, Relaxed)),
        stop: Stop::default(),
    });
    let mut burst = worker.new_batch();
    (0..rounds).for_each(|_| native::round(&mut worker, &mut burst));
    worker.finish();
    assert_eq!(outputs.iter().filter_map(HeapQueue::collect).count(), 1, "it has left");
    let log = log.lock().unwrap().clone();
    (log, counters.sleeps.get())
}

#[test]
fn a_packet_that_comes_at_any_moment_is_received_by_the_next_round() {
    let pool = HeapPool::leak(64);
    // What happens without packets: awake, armed, and waited three times.
    let quiet = ["nothing", "rest"].repeat(5);
    let armed = ["nothing", "before arm", "armed", "nothing", "nothing", "nothing"];
    for arrival in 1..=(quiet.len() + armed.len()) as u64 {
        let (log, slept) = rounds(pool, arrival, false, 20);
        assert!(slept > 0);
        let received = log.iter().position(|event| *event == "packet").unwrap();
        let looks = log[arrival as usize..received].iter().filter(|event| **event == "nothing").count();
        assert_eq!(looks, 0, "arrived behind event {arrival}: {log:?}");
        let common = log.iter().zip(quiet.iter().chain(&armed)).take(arrival as usize);
        assert!(common.clone().all(|(found, expected)| found == expected), "{log:?}");
        let was_armed = log[..received].iter().filter(|event| **event == "armed").count() > 0;
        assert_eq!(log[received + 1] == "disarmed", was_armed, "{log:?}");
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_card_that_refuses_is_polled_between_short_sleeps() {
    let pool = HeapPool::leak(64);
    let (log, _) = rounds(pool, 40, true, 60);
    let refusal = log.iter().position(|event| *event == "armed").unwrap();
    assert_eq!(log[refusal + 1..refusal + 4], ["disarmed", "nothing", "nothing"]);
    assert_eq!(pool.in_use(), 0);
}
