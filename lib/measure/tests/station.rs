// SPDX-License-Identifier: MIT
//! Whole trials at stations, on packets of the heap and a clock that goes on by itself: what is sent comes back, or is
//! missed; a queue that refuses, a pool that is empty, a trial that is stopped; neighbors.

use perigee_measure::pace::{self, Bursting, Limit, Pacer, Pattern};
use perigee_measure::received::{Latencies, Received, Settings, Snapshot};
use perigee_measure::replay::{Capture, Playback, Replay};
use perigee_measure::resident::Resident;
use perigee_measure::station::{Course, End, Finished, Listener, Station, Stream};
use perigee_measure::traffic::{Description, Traffic};
use perigee_net::MacAddr;
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Batch, Handle, Pool, ReceiveQueue, TransmitQueue};
use std::cell::Cell;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
const RUN: u16 = 0x1234;

/// A clock that goes on by this many ns whenever somebody looks.
struct Ticking(Cell<u64>, u64);

impl Ticking {
    fn now(&self) -> u64 {
        self.0.set(self.0.get() + self.1);
        self.0.get()
    }
}

/// A device that loses, doubles and delays: every frame that is sent to it is given to `fate`, which says how often it
/// comes out.
struct Device<F> {
    inside: HeapQueue,
    pool: &'static HeapPool,
    fate: F,
}

impl<F: FnMut(u64) -> usize + Send> TransmitQueue for Device<F> {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        // Through a queue and out again, as handles do not show their bytes.
        let mut through = HeapQueue::new(self.pool, 0, packets.len());
        through.transmit(packets);
        while let Some(frame) = through.collect() {
            let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            for _ in 0..(self.fate)(number) {
                assert!(self.inside.inject(&frame), "the device is full");
            }
        }
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        self.inside.discard(packets);
    }
}

struct Bed {
    pool: &'static HeapPool,
    clock: Ticking,
}

impl Bed {
    fn new(buffers: usize, tick: u64) -> Bed {
        Bed { pool: HeapPool::leak(buffers), clock: Ticking(Cell::new(0), tick) }
    }

    fn end(&self, to: impl TransmitQueue + 'static, from: HeapQueue) -> End {
        End::new(Box::new(to), Box::new(from), Arc::new(self.pool), self.pool)
    }

    fn stream(&self, description: &str, pattern: Pattern, limit: Limit) -> Stream {
        let description: Description = serde_json::from_str(description).unwrap();
        let traffic = Traffic::new(&description).unwrap();
        Stream::new(Box::new(traffic), self.pool, Pacer::new(pattern, self.clock.now(), limit, SECOND / 1000), RUN)
    }

    /// Runs stations' ends in one station; what it reported last, and all latencies.
    fn run(&self, ends: Vec<End>, course: &Course) -> (Finished, Snapshot, Latencies) {
        let mut all = Latencies::new(1, None);
        let mut last = Snapshot::default();
        let mut report = |snapshot, latencies: Vec<Latencies>| {
            last = snapshot;
            latencies.iter().for_each(|latencies| all.add(latencies));
        };
        let finished = Station { ends }.run(&|| self.clock.now(), course, &mut report);
        (finished, last, all)
    }
}

fn received(finished: &mut Finished, end: usize) -> &mut Received {
    finished.heard[end].as_mut().expect("a listener")
}

const SECONDS: fn(f64) -> Limit = |s| Limit { frames: None, duration: Some((s * 1e9) as u64) };

#[test]
fn what_is_sent_comes_back_in_order_and_in_time() {
    let bed = Bed::new(1000, 250);
    let cable = HeapQueue::new(bed.pool, 0, 512);
    let other = HeapQueue::new(bed.pool, 1, 512);
    let mut left = bed.end(cable.clone(), other.clone());
    let mut right = bed.end(other, cable);
    left.stream =
        Some(bed.stream(r#"{"flows": 7, "source_port": "1-7"}"#, Pattern::Constant { rate: 50_000.0 }, SECONDS(2.5)));
    right.listener = Some(Listener::new(Settings::new(RUN, 7)));
    let course = Course::new(1, SECOND / 10);
    let (mut finished, last, latencies) = bed.run(vec![left, right], &course);
    let sent = finished.sent[0].take().unwrap();
    assert_eq!((sent.account.sent, sent.account.unsent, sent.account.intended), (125_000, 0, Some(125_000)));
    assert_eq!((last.sent, last.sent_bytes, last.received.unique), (125_000, 125_000 * 64, 125_000));
    let outcome = received(&mut finished, 1).close(|flow| sent.frames.written(flow));
    assert_eq!((outcome.sent, outcome.lost, outcome.counters.reordered, outcome.flows_never_sent), (125_000, 0, 0, 0));
    assert_eq!(latencies.count(), 125_000);
    // A round of the loop looks at the clock a few times.
    assert!(latencies.quantile(1.0) <= 10 * 250, "{}", latencies.quantile(1.0));
    assert!(sent.achieved.share_within_1us().unwrap() > 0.99);
    assert!(finished.ended - finished.began >= 2_599_000_000, "frames under way are waited for");
    drop(finished);
    assert_eq!(bed.pool.in_use(), 0);
}

/// Each line of the ramp's seconds showed a rate that was too low, and its frames were "of another trial".
#[test]
fn frames_of_a_ramp_are_in_no_result() {
    let bed = Bed::new(1000, 1000);
    let cable = HeapQueue::new(bed.pool, 0, 512);
    let (mut left, mut right) =
        (bed.end(cable.clone(), HeapQueue::new(bed.pool, 1, 1)), bed.end(HeapQueue::new(bed.pool, 1, 1), cable));
    let (rise, mark) = (SECOND * 8 / 10, RUN ^ 0x0202);
    let start = bed.clock.now() + rise;
    let traffic = Traffic::new(&Description::default()).unwrap();
    let pattern = Pattern::Bursts { frames: 4, within: None, spacing: Bursting::Gap(400_000) };
    assert_eq!(pattern.mean(), Some(10_000.0));
    let stream = Stream::new(Box::new(traffic), bed.pool, Pacer::new(pattern, start, SECONDS(1.5), SECOND / 1000), RUN);
    left.stream = Some(stream.after(pace::ramp(start - rise, rise, 10_000.0, SECOND / 1000), mark));
    right.listener = Some(Listener::new(Settings { ramp: Some(mark), ..Settings::new(RUN, 1) }));
    let course = Course::new(1, SECOND / 10);
    course.report_from(start);
    let (mut seconds, mut latencies) = (vec![], 0);
    let mut report = |snapshot: Snapshot, more: Vec<Latencies>| {
        seconds.push(snapshot);
        latencies += more.iter().map(Latencies::count).sum::<u64>();
    };
    let mut finished = Station { ends: vec![left, right] }.run(&|| bed.clock.now(), &course, &mut report);
    let sent = finished.sent[0].take().unwrap();
    let outcome = received(&mut finished, 1).close(|flow| sent.frames.written(flow));
    // An eighth of the rate for the first tenth of a second, two eighths for the next.
    assert_eq!((sent.ramp, outcome.counters.ramp), (4_500, 4_500));
    assert_eq!((sent.account.sent, sent.account.unsent, outcome.sent, outcome.lost), (15_000, 0, 15_000, 0));
    assert_eq!((outcome.counters.frames, outcome.counters.other_run, latencies), (15_000, 0, 15_000));
    assert!(sent.lasted < 1_500_000_000 && sent.bytes == 15_000 * 64, "{} ns", sent.lasted);
    // The first second is the trial's first one.
    assert!(seconds[0].sent.abs_diff(10_000) <= 4, "{seconds:?}");
    assert!(seconds[0].time.abs_diff(start + SECOND) < 100_000, "{seconds:?}");
}

#[test]
fn both_ways_at_once_each_with_its_loss() {
    let bed = Bed::new(4000, 200);
    let (there, back) = (HeapQueue::new(bed.pool, 0, 2000), HeapQueue::new(bed.pool, 1, 2000));
    let every = |n: u64, times: usize| move |number: u64| if number.is_multiple_of(n) { times } else { 1 };
    let lossy = Device { inside: there.clone(), pool: bed.pool, fate: every(100, 0) };
    let doubling = Device { inside: back.clone(), pool: bed.pool, fate: every(50, 2) };
    let (mut left, mut right) = (bed.end(lossy, back), bed.end(doubling, there));
    for end in [&mut left, &mut right] {
        end.stream = Some(bed.stream("{}", Pattern::Poisson { rate: 20_000.0, seed: 7 }, SECONDS(1.0)));
        end.listener = Some(Listener::new(Settings::new(RUN, 1)));
    }
    let (mut finished, ..) = bed.run(vec![left, right], &Course::new(2, SECOND / 10));
    let sent: Vec<_> = finished.sent.iter_mut().map(|sent| sent.take().unwrap()).collect();
    // What the left sends, the right hears.
    let at_right = received(&mut finished, 1).close(|flow| sent[0].frames.written(flow));
    let at_left = received(&mut finished, 0).close(|flow| sent[1].frames.written(flow));
    assert_eq!((at_right.sent, at_left.sent), (sent[0].account.sent, sent[1].account.sent));
    assert!(at_right.lost > 0 && at_right.counters.duplicates == 0, "{at_right:?}");
    assert!(at_left.lost == 0 && at_left.counters.duplicates > 0, "{at_left:?}");
    drop(finished);
    assert_eq!(bed.pool.in_use(), 0);
}

/// The far end takes nothing for a while, and then a little: frames are given up, what is sent is in order, and no
/// number is missing.
#[test]
fn a_queue_that_refuses_makes_no_loss() {
    let bed = Bed::new(1000, 1000);
    let narrow = HeapQueue::new(bed.pool, 0, 8);
    let mut end = bed.end(narrow.clone(), HeapQueue::new(bed.pool, 0, 1));
    end.stream =
        Some(bed.stream(r#"{"flows": 3, "source_port": "1-3"}"#, Pattern::Constant { rate: 500_000.0 }, SECONDS(0.1)));
    let mut far = narrow;
    let mut seen = Received::new(Settings::new(RUN, 3));
    let (mut batch, mut looks) = (Batch::new(bed.pool), 0u64);
    let mut finished = {
        let clock = std::cell::RefCell::new(|| {
            looks += 1;
            if looks > 20_000 && looks.is_multiple_of(10) {
                batch.refill();
                far.receive(&mut batch, 5);
                seen.batch(&batch, looks);
            }
            bed.clock.now()
        });
        Station { ends: vec![end] }.run(&|| (clock.borrow_mut())(), &Course::new(1, 0), &mut |_, _| {})
    };
    let sent = finished.sent[0].take().unwrap();
    let account = sent.account;
    assert_eq!(account.sent + account.unsent, 50_000, "{account:?}");
    assert!(account.sent > 1000 && account.unsent > 1000, "{account:?}");
    // The rest that lies in the queue.
    loop {
        batch.refill();
        if far.receive(&mut batch, 64) == 0 {
            break;
        }
        seen.batch(&batch, looks);
    }
    let outcome = seen.close(|flow| sent.frames.written(flow));
    assert_eq!((outcome.sent, outcome.lost, outcome.counters.reordered), (account.sent, 0, 0), "{outcome:?}");
    drop((finished, batch, far));
    assert_eq!(bed.pool.in_use(), 0);
}

#[test]
fn an_empty_pool_is_the_testers_shortcoming() {
    let bed = Bed::new(10, 1000);
    let cable = HeapQueue::new(bed.pool, 0, 512);
    let mut end = bed.end(cable.clone(), HeapQueue::new(bed.pool, 0, 1));
    end.stream = Some(bed.stream("{}", Pattern::Constant { rate: 1_000.0 }, SECONDS(1.0)));
    let (mut finished, ..) = bed.run(vec![end], &Course::new(1, 0));
    let sent = finished.sent[0].take().unwrap();
    assert_eq!((sent.account.sent, sent.account.unsent), (10, 990));
    assert!(sent.no_buffers > 0);
    drop((finished, cable));
    assert_eq!(bed.pool.in_use(), 0);
}

#[test]
fn a_stopped_trial_ends_at_once_and_keeps_its_account() {
    let bed = Bed::new(1000, 1000);
    let cable = HeapQueue::new(bed.pool, 0, 512);
    let (mut left, mut right) =
        (bed.end(cable.clone(), HeapQueue::new(bed.pool, 0, 1)), bed.end(HeapQueue::new(bed.pool, 0, 1), cable));
    left.stream = Some(bed.stream("{}", Pattern::Constant { rate: 10_000.0 }, Limit::default()));
    right.listener = Some(Listener::new(Settings::new(RUN, 1)));
    let course = Course::new(1, 60 * SECOND);
    let looks = Cell::new(0);
    let clock = || {
        looks.set(looks.get() + 1);
        if looks.get() == 100_000 {
            course.stop();
        }
        bed.clock.now()
    };
    let finished = Station { ends: vec![left, right] }.run(&clock, &course, &mut |_, _| {});
    assert!(looks.get() < 100_010);
    let sent = finished.sent[0].as_ref().unwrap();
    assert!(sent.account.sent > 100 && sent.account.unsent <= 1, "{:?}", sent.account);
    drop(finished);
    assert_eq!(bed.pool.in_use(), 0);
}

/// Two residents find each other through their ends while frames go by, and none of that is taken for the trial's.
#[test]
fn neighbors_are_answered_during_a_trial() {
    let bed = Bed::new(1000, 1000);
    let (there, back) = (HeapQueue::new(bed.pool, 0, 512), HeapQueue::new(bed.pool, 1, 512));
    let (mut left, mut right) = (bed.end(there.clone(), back.clone()), bed.end(back, there));
    let [here, far] = [1, 2].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
    left.resident = Some(Resident::new(here, vec!["198.18.0.0/16".parse().unwrap()], vec![]));
    right.resident = Some(Resident::new(far, vec!["198.19.0.0/16".parse().unwrap()], vec![]));
    let [from, to] = ["198.18.0.2", "198.19.0.2"].map(|address| address.parse().unwrap());
    let question = left.resident.as_ref().unwrap().ask(from, to);
    assert!(left.send(&question));
    left.stream = Some(bed.stream("{}", Pattern::Constant { rate: 1_000.0 }, SECONDS(0.1)));
    right.listener = Some(Listener::new(Settings::new(RUN, 1)));
    let (mut finished, ..) = bed.run(vec![left, right], &Course::new(1, SECOND / 100));
    assert_eq!(finished.ends[0].resident.as_ref().unwrap().neighbor(to), Some(far));
    assert_eq!(finished.ends[1].resident.as_ref().unwrap().neighbor(from), Some(here));
    let counters = received(&mut finished, 1).counters();
    assert_eq!((counters.unique, counters.foreign), (100, 1));
    drop(finished);
    assert_eq!(bed.pool.in_use(), 0);
}

/// Of a capture of four frames "15 could not be sent in time": departures after its end counted.
#[test]
fn what_is_due_after_the_end_of_a_capture_is_not_unsent() {
    // As many are due at once as the capture has, or one after the other.
    for tick in [15_000, 500] {
        let replay = Replay::new(capture(4, 0), &Playback { speed: None, loops: 1, pad: false }).unwrap();
        let bed = Bed::new(64, tick);
        let cable = HeapQueue::new(bed.pool, 0, 64);
        let mut end = bed.end(cable.clone(), HeapQueue::new(bed.pool, 0, 1));
        let pacer = Pacer::new(Pattern::Constant { rate: 1e6 }, 0, Limit::default(), SECOND);
        end.stream = Some(Stream::new(Box::new(replay), bed.pool, pacer, RUN));
        let (mut finished, ..) = bed.run(vec![end], &Course::new(1, 0));
        let account = finished.sent[0].take().unwrap().account;
        assert_eq!((account.sent, account.unsent, account.intended), (4, 0, Some(4)), "{tick}");
    }
}

/// A capture of `frames` frames of 64 bytes, `gap` us apart.
fn capture(frames: u32, gap: u32) -> Capture {
    let mut file: Vec<u8> =
        [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65535, 1].iter().flat_map(|n| n.to_le_bytes()).collect();
    for i in 0..frames {
        // Every tenth pair leaves together.
        let time = (i - i % 10 / 9) * gap;
        file.extend([0, time, 64, 64].iter().flat_map(|n: &u32| n.to_le_bytes()));
        file.extend((0..64).map(|at| (i + at) as u8));
    }
    Capture::read(&file[..], false, 1 << 20).unwrap()
}

/// A capture with its own timing, twice as fast, in two loops: each frame at its time, all bytes as they were.
#[test]
fn a_capture_keeps_its_timing() {
    let playback = Playback { speed: Some(2.0), loops: 2, pad: false };
    let replay = Replay::new(capture(1000, 100_000), &playback).unwrap();
    let bed = Bed::new(4000, 300);
    let cable = HeapQueue::new(bed.pool, 0, 4000);
    let mut end = bed.end(cable.clone(), HeapQueue::new(bed.pool, 0, 1));
    end.stream = Some(Stream::timed(Box::new(replay), bed.pool, 1_000_000, Limit::default(), RUN));
    let (mut finished, ..) = bed.run(vec![end], &Course::new(1, 0));
    let sent = finished.sent[0].take().unwrap();
    assert_eq!((sent.account.sent, sent.account.unsent, sent.account.intended), (2000, 0, Some(2000)));
    let lateness = &sent.achieved.lateness;
    assert!(lateness.max().unwrap() < 20_000, "{:?}", lateness.max());
    // Half of 2000 gaps of 100 us, but for those after a frame that left with the one before.
    assert_eq!(sent.lasted / 1_000_000, 99);
    for i in 0..2000u32 {
        let frame = cable.collect().expect("a frame");
        assert!(frame.iter().enumerate().all(|(at, byte)| *byte == (i % 1000 + at as u32) as u8), "frame {i}");
    }
    drop((finished, cable));
    assert_eq!(bed.pool.in_use(), 0);
}

/// It ended within the ramp, and the load did not rise.
#[test]
fn a_capture_shorter_than_the_ramp_begins_again_and_is_then_sent_from_its_start() {
    let replay = Replay::new(capture(30, 1000), &Playback { speed: None, loops: 1, pad: false }).unwrap();
    let bed = Bed::new(1000, 1000);
    let cable = HeapQueue::new(bed.pool, 0, 512);
    let mut end = bed.end(cable.clone(), HeapQueue::new(bed.pool, 0, 1));
    let (start, rise, rate) = (SECOND, SECOND / 10, 1000.0);
    let pacer = Pacer::new(Pattern::Constant { rate }, start, Limit::default(), SECOND / 1000);
    let ramp = pace::ramp(start - rise, rise, rate, SECOND / 1000);
    end.stream = Some(Stream::new(Box::new(replay), bed.pool, pacer, RUN).after(ramp, 1));
    let (mut finished, ..) = bed.run(vec![end], &Course::new(1, 0));
    let sent = finished.sent[0].take().unwrap();
    assert_eq!((sent.account.sent, sent.ramp > 40), (30, true), "{} frames of the ramp", sent.ramp);
    let firsts: Vec<u8> = std::iter::from_fn(|| cable.collect()).map(|frame| frame[0]).collect();
    let (ramp, trial) = firsts.split_at(sent.ramp as usize);
    assert!(ramp.iter().enumerate().all(|(at, first)| usize::from(*first) == at % 30), "{ramp:?}");
    assert!(trial.iter().copied().eq(0..30), "{trial:?}");
    drop((finished, cable));
    assert_eq!(bed.pool.in_use(), 0);
}
