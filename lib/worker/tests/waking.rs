// SPDX-License-Identifier: MIT
//! Workers that wait for a device's interrupts, and a packet that comes at each possible moment: none is slept through.
#![cfg(not(feature = "loom"))]

use perigee_fib::Published;
use perigee_modules::testing::{PORTS, routes, tables, udp4};
use perigee_modules::{Counters, CustomReasons};
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Batch, Mask, Pool, ReceiveQueue, TransmitBuffer, Wakes};
use perigee_worker::{Bell, Idle, Receiver, Stop, Worker, WorkerParts, native, punt_rings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A card with interrupts that can be switched. It counts what is done to it, and one packet arrives behind the
/// `arrival`-th of these.
struct Card {
    packets: HeapQueue,
    reader: PipeReader,
    writer: PipeWriter,
    armed: bool,
    events: Cell<u64>,
    arrival: u64,
    waiting: Cell<bool>,
    refuses: bool,
    alone: bool,
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
        assert_eq!(alone, self.alone);
        self.event("rest");
    }

    fn wakes(&self) -> Wakes {
        Wakes::Interrupt
    }
}

/// A card behind whose `arrival`-th event a packet arrives; a far event never comes.
fn card(pool: &'static HeapPool, arrival: u64, refuses: bool) -> (Card, Arc<Mutex<Vec<&'static str>>>) {
    let (reader, writer) = pipe().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let card = Card {
        packets: HeapQueue::new(pool, 0, 16),
        reader,
        writer,
        armed: false,
        events: Cell::new(0),
        arrival,
        waiting: Cell::new(false),
        refuses,
        alone: true,
        log: log.clone(),
    };
    (card, log)
}

/// Runs an adaptive worker with these cards for some rounds of a script. Returns how often it slept, and what has left.
fn run(
    pool: &'static HeapPool,
    cards: Vec<Card>,
    rounds: usize,
    mut round: impl FnMut(&mut Worker, &mut Batch, usize),
) -> (u64, usize) {
    let mut published = Published::new(tables(&routes(), None));
    let outputs: Vec<_> = (0..PORTS).map(|port| HeapQueue::new(pool, port, 16)).collect();
    let buffer = |queue: &HeapQueue| Some(TransmitBuffer::new(Box::new(queue.clone()), 32, 0));
    let (punts, _readers) = punt_rings(64, &[Arc::new(Bell::new(|| {}))]);
    let counters = Arc::new(Counters::new(PORTS.into()));
    // Each look at the clock takes a microsecond.
    let time = AtomicU64::new(0);
    let mut worker = Worker::new(WorkerParts {
        id: 0,
        receivers: cards.into_iter().map(|card| Receiver::new(Box::new(card))).collect(),
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
    (0..rounds).for_each(|number| round(&mut worker, &mut burst, number));
    worker.finish();
    (counters.sleeps.get(), outputs.iter().filter_map(HeapQueue::collect).count())
}

/// Runs a worker for `rounds` rounds, during which one packet arrives; returns what was done to the card, and how often
/// the worker slept.
fn rounds(pool: &'static HeapPool, arrival: u64, refuses: bool, rounds: usize) -> (Vec<&'static str>, u64) {
    let (card, log) = card(pool, arrival, refuses);
    let (slept, sent) = run(pool, vec![card], rounds, |worker, burst, _| native::round(worker, burst));
    assert_eq!(sent, 1, "it has left");
    let log = log.lock().unwrap().clone();
    (log, slept)
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

/// It waited for up to 10 ms beside a packet that had come to a queue before that was armed, and behind its last turn.
#[test]
fn a_script_that_looks_at_its_queues_in_turn_sleeps_through_no_packet() {
    let pool = HeapPool::leak(64);
    for (cards, at) in [(2, 0), (2, 1), (3, 1)] {
        let mut slept_often = 0;
        for arrival in 1..=20 {
            let made = (0..cards).map(|i| card(pool, if i == at { arrival } else { u64::MAX }, false));
            let (made, logs): (Vec<_>, Vec<_>) = made.map(|(card, log)| (Card { alone: false, ..card }, log)).unzip();
            // A card's own assertion fails if the worker waits beside its packet.
            let (slept, _) = run(pool, made, 40 * cards, |worker, burst, round| {
                if logs[at].lock().unwrap().contains(&"packet") {
                    return;
                }
                worker.receive(round % cards, burst);
                burst.discard(Mask::ALL);
                worker.housekeeping();
            });
            let log = logs[at].lock().unwrap();
            assert!(log.contains(&"packet"), "arrived behind event {arrival}: {log:?}");
            slept_often += u64::from(slept > 0);
        }
        assert!((1..20).contains(&slept_often), "it came before and behind the first wait: {slept_often} of 20");
    }
    assert_eq!(pool.in_use(), 0);
}

/// A worker whose script leaves a queue alone goes on looking at the others, between sleeps of at most 250 us.
#[test]
fn a_script_that_never_looks_at_a_queue_arms_nothing() {
    let pool = HeapPool::leak(64);
    let ((first, log), (other, _)) = (card(pool, 300, false), card(pool, u64::MAX, false));
    let made = [first, other].map(|card| Card { alone: false, ..card });
    let (slept, _) = run(pool, made.into(), 400, |worker, burst, _| {
        worker.receive(0, burst);
        burst.discard(Mask::ALL);
        worker.housekeeping();
    });
    let log = log.lock().unwrap();
    assert!(slept > 100 && log.contains(&"packet") && !log.contains(&"armed"), "{slept} sleeps, {log:?}");
}

#[test]
fn a_card_that_refuses_is_polled_between_short_sleeps() {
    let pool = HeapPool::leak(64);
    let (log, _) = rounds(pool, 40, true, 60);
    let refusal = log.iter().position(|event| *event == "armed").unwrap();
    assert_eq!(log[refusal + 1..refusal + 4], ["disarmed", "nothing", "nothing"]);
    assert_eq!(pool.in_use(), 0);
}
