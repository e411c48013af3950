// SPDX-License-Identifier: MIT
//! A tester between two ends of heap packets, on a clock that goes on whenever somebody looks: devices with a known
//! limit, a known delay, an outage, a fall of the load; two ways at once; learning frames.

use perigee_measure::environment::Meanwhile;
use perigee_measure::received::{Interval, Latencies};
use perigee_measure::search::goal::Goal;
use perigee_measure::search::mlr::Mlr;
use perigee_measure::search::profile::{Profile, Settle};
use perigee_measure::search::throughput::{Limits, Verdict};
use perigee_measure::search::{Purpose, Search, Shape, Trial};
use perigee_measure::station::{Course, End, Station};
use perigee_measure::tester::{Counted, LEARNING, Manner, Ran, Surroundings, Tester, Way};
use perigee_measure::traffic::{Description, Traffic};
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Batch, Handle, Pool, ReceiveQueue, TransmitQueue};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SECOND: u64 = 1_000_000_000;

/// A clock that goes on by 400 ns whenever somebody looks.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn now(&self) -> u64 {
        self.0.fetch_add(400, Ordering::Relaxed) + 400
    }
    fn seen(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A device on a way: at most `rate` frames a second with a buffer of `room`, each `delay` ns late; nothing in its
/// outage.
#[derive(Clone)]
struct Device {
    rate: f64,
    room: f64,
    delay: u64,
    /// It is out from this time to that one, ns.
    outage: Arc<[AtomicU64; 2]>,
}

impl Device {
    fn new(rate: f64, room: f64, delay: u64) -> Device {
        Device { rate, room, delay, outage: Arc::default() }
    }
}

/// The device's ends on one way.
struct In {
    device: Device,
    clock: Clock,
    pool: &'static HeapPool,
    /// Frames' worth of buffer that is taken, at that time.
    taken: (f64, u64),
    delayed: Delayed,
}

type Delayed = Arc<std::sync::Mutex<VecDeque<(u64, Vec<u8>)>>>;

impl TransmitQueue for In {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        let now = self.clock.seen();
        let mut through = HeapQueue::new(self.pool, 0, packets.len());
        through.transmit(packets);
        while let Some(frame) = through.collect() {
            let (taken, since) = self.taken;
            let taken = (taken - (now - since) as f64 * self.device.rate / 1e9).max(0.0);
            let [from, to] = [0, 1].map(|i| self.device.outage[i].load(Ordering::Relaxed));
            let out = (from..to).contains(&now);
            let lost = out || taken + 1.0 > self.device.room;
            self.taken = (if lost { taken } else { taken + 1.0 }, now);
            if !lost {
                self.delayed.lock().unwrap().push_back((now + self.device.delay, frame));
            }
        }
    }
    fn discard(&self, packets: &mut Vec<Handle>) {
        HeapQueue::new(self.pool, 0, 0).discard(packets);
    }
}

struct Out {
    clock: Clock,
    pool: &'static HeapPool,
    delayed: Delayed,
}

impl ReceiveQueue for Out {
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let (now, mut delayed, mut received) = (self.clock.seen(), self.delayed.lock().unwrap(), 0);
        while received < burst && delayed.front().is_some_and(|(time, _)| *time <= now) {
            let (_, frame) = delayed.pop_front().unwrap();
            batch.push(self.pool.packet(&frame).unwrap(), 0).unwrap();
            received += 1;
        }
        received
    }
}

struct Bed {
    clock: Clock,
    device: Device,
    reset: u64,
    reset_error: Option<String>,
    /// Frames that the kernel refuses in a trial, and how often a link goes down in it, at each end.
    refuses: u64,
    falls: u64,
    counted: AtomicU64,
}

impl Surroundings for Bed {
    type Error = Infallible;

    fn now(&self) -> u64 {
        self.clock.now()
    }
    fn date(&self) -> String {
        "2026-01-01T00:00:00Z".to_owned()
    }
    fn sleep(&mut self, ns: u64) {
        self.clock.0.fetch_add(ns, Ordering::Relaxed);
    }
    fn run(
        &mut self,
        ends: Vec<End>,
        course: &Arc<Course>,
        line: &mut dyn FnMut(&Interval),
    ) -> Result<Ran, Infallible> {
        let mut latencies: Vec<Option<Latencies>> = Vec::new();
        let listens: Vec<bool> = ends.iter().map(|end| end.listener.is_some()).collect();
        let _ = line;
        let mut report = |_, of: Vec<Latencies>| {
            if latencies.is_empty() {
                latencies = of.into_iter().map(Some).collect();
            } else {
                latencies.iter_mut().zip(&of).for_each(|(sum, more)| sum.as_mut().unwrap().add(more));
            }
        };
        let clock = self.clock.clone();
        let finished = Station { ends }.run(&|| clock.now(), course, &mut report);
        let mut by_end = latencies.into_iter();
        let latencies =
            listens.into_iter().map(|listens| if listens { by_end.next().flatten() } else { None }).collect();
        let longest_pause = finished.longest_pause;
        let ended = finished.ended;
        Ok(Ran { ends: finished.ends, sent: finished.sent, heard: finished.heard, latencies, longest_pause, ended })
    }
    fn counted(&self, _: usize) -> Counted {
        // Both ends are counted before a trial and after it.
        let counts = self.counted.fetch_add(1, Ordering::Relaxed) / 2;
        Counted { up: true, refused: counts * self.refuses, downs: counts * self.falls, ..Counted::default() }
    }
    fn meanwhile(&self) -> Meanwhile {
        Meanwhile::default()
    }
    fn reset_device(&mut self, after: u64) {
        let from = self.clock.seen() + after;
        self.device.outage[0].store(from, Ordering::Relaxed);
        self.device.outage[1].store(from + self.reset, Ordering::Relaxed);
    }
    fn reset_error(&mut self) -> Option<String> {
        self.reset_error.clone()
    }
}

/// A tester whose ways lead through the device, each with a limit of its own.
fn tester(device: &Device, ways: usize) -> (Bed, Tester) {
    tester_with_ramp(device, ways, 0.0)
}

/// The same with a ramp in front of each trial, of so many seconds.
fn tester_with_ramp(device: &Device, ways: usize, ramp: f64) -> (Bed, Tester) {
    let (clock, pool) = (Clock::default(), HeapPool::leak(200_000));
    let delayed: Vec<Delayed> = (0..2).map(|_| Arc::default()).collect();
    let end = |i: usize| {
        let to =
            In { device: device.clone(), clock: clock.clone(), pool, taken: (0.0, 0), delayed: delayed[i].clone() };
        let from = Out { clock: clock.clone(), pool, delayed: delayed[1 - i].clone() };
        End::new(Box::new(to), Box::new(from), Arc::new(pool), pool)
    };
    let way = |i: usize| {
        let traffic = Traffic::new(&Description::default()).unwrap();
        Way::new(format!("{i} to {}", 1 - i), i, 1 - i, Box::new(traffic), 1)
    };
    let manner = Manner {
        settle: Settle { learning: 0.01, ramp, drain: 0.05, pause: 0.01 },
        allowance: SECOND / 1000,
        room: 1024,
        latency_every: 1,
        floor: None,
    };
    let tester = Tester::new(vec![end(0), end(1)], (0..ways).map(way).collect(), pool, manner, 0xfffe);
    let bed = Bed {
        clock,
        device: device.clone(),
        reset: SECOND / 5,
        reset_error: None,
        refuses: 0,
        falls: 0,
        counted: AtomicU64::new(0),
    };
    (bed, tester)
}

fn trial(load: f64, duration: f64, shape: Shape) -> Trial {
    Trial { load, duration, shape, purpose: Purpose::LossRate { attempt: 1 } }
}

fn run(bed: &mut Bed, tester: &mut Tester, trial: &Trial) -> perigee_measure::run::TrialRecord {
    let Ok(record) = tester.trial(bed, 64, trial, |_| {}, &mut |_| {});
    record
}

#[test]
fn a_known_limit_is_found_within_half_a_percent() {
    for ways in [1, 2] {
        let (mut bed, mut tester) = tester(&Device::new(20_000.0, 64.0, 5_000), ways);
        let goal = Goal { width: 0.005, ..Profile::named("quick").unwrap().throughput.goals[0].clone() };
        let limits = Limits { minimum: 1_000.0, maximum: 100_000.0 };
        let mut search = Search::new(Mlr::new(vec![goal], limits));
        while let Some(trial) = search.next() {
            let record = run(&mut bed, &mut tester, &trial);
            assert_eq!((record.outcome.unsent(), record.directions.len()), (0, ways), "{record:?}");
            search.report(record.outcome).unwrap();
        }
        let found = search.found();
        let throughput = found[0].throughput.unwrap();
        assert_eq!(found[0].verdict, Verdict::Regular);
        assert!((throughput - 20_000.0).abs() <= 100.0, "{ways} ways: {throughput}");
    }
}

#[test]
fn a_known_delay_is_found_within_a_microsecond() {
    for delay in [0, 3_000, 250_000] {
        let (mut bed, mut tester) = tester(&Device::new(1e6, 64.0, delay), 1);
        let record = run(&mut bed, &mut tester, &trial(5_000.0, 1.0, Shape::Tagged { after: 0.5 }));
        let latency = record.outcome.latency.unwrap();
        // The second half; the loop looks at the clock a few times between a frame and the next look at its queue.
        assert!(latency.frames.abs_diff(2_500) <= 2, "{latency:?}");
        let round = 2_000.0;
        assert!(
            latency.min >= delay as f64 && latency.median <= delay as f64 + 1_000.0 + round,
            "{delay}: {latency:?}"
        );
        assert!(record.directions[0].verdict.is_trusted(), "{:?}", record.directions[0].verdict);
    }
}

/// A jump from nothing to the full rate fakes loss where flows are still to be learned.
#[test]
fn a_ramp_before_a_trial_takes_the_loss_of_a_device_that_has_to_warm_up() {
    let warm_up = |ramp: f64| {
        let (mut bed, mut tester) = tester_with_ramp(&Device::new(1e6, 64.0, 0), 1, ramp);
        // Out from before the trial until some frames of it, or of the ramp, have come.
        let now = bed.clock.seen() + 80_000_000;
        bed.device.outage[0].store(now, Ordering::Relaxed);
        bed.device.outage[1].store(now + 50_000_000, Ordering::Relaxed);
        run(&mut bed, &mut tester, &trial(10_000.0, 0.5, Shape::Steady))
    };
    let (without, with) = (warm_up(0.0), warm_up(0.1));
    assert!(without.outcome.lost() > 0, "{:?}", without.outcome);
    assert_eq!((with.outcome.sent, with.outcome.lost()), (5000, 0), "{:?}", with.outcome);
    let counters = with.directions[0].received.counters;
    assert!(counters.ramp > 0 && counters.other_run == 0, "{counters:?}");
    assert_eq!(with.directions[0].received.counters.duplicates, 0);
}

/// What lay in the tester's own ring counted as the device's loss: "1024 lost (56.2020 %)".
#[test]
fn frames_that_the_kernel_refused_are_unsent_and_not_lost() {
    let (mut bed, mut tester) = tester(&Device::new(10_000.0, 100.0, 0), 1);
    let burst = trial(50_000.0, 0.0, Shape::Burst { frames: 300, listen: 0.1 });
    let plain = run(&mut bed, &mut tester, &burst).outcome;
    bed.refuses = 40;
    let outcome = run(&mut bed, &mut tester, &burst).outcome;
    assert_eq!((outcome.sent, outcome.unsent()), (260, 40), "{outcome:?}");
    assert!(outcome.lost() <= plain.lost() - 35, "{} of {} lost", outcome.lost(), plain.lost());
    // All of them arrived in the end: they were late, and the device has lost none.
    let whole = run(&mut bed, &mut tester, &trial(1_000.0, 0.1, Shape::Steady)).outcome;
    assert_eq!((whole.sent, whole.unsent(), whole.lost()), (100, 0, 0), "{whole:?}");
}

/// `ip link set left down`, and up again a second later: no sentence, and the state of the link at the end says nothing
/// of it.
#[test]
fn a_link_that_was_down_in_between_is_a_doubt() {
    let (mut bed, mut tester) = tester(&Device::new(1e6, 64.0, 0), 1);
    bed.falls = 1;
    let outcome = run(&mut bed, &mut tester, &trial(10_000.0, 0.1, Shape::Steady)).outcome;
    assert!(outcome.is_spoiled(true), "{outcome:?}");
    assert!(outcome.doubts.iter().any(|doubt| doubt.why.contains("were down 2 times")), "{:?}", outcome.doubts);
}

#[test]
fn a_burst_is_as_long_as_asked_for() {
    let (mut bed, mut tester) = tester(&Device::new(10_000.0, 100.0, 0), 1);
    for (frames, lost) in [(50, 0), (100, 0), (300, 150)] {
        let record = run(&mut bed, &mut tester, &trial(50_000.0, 0.0, Shape::Burst { frames, listen: 0.1 }));
        assert_eq!((record.outcome.intended, record.outcome.sent), (frames, frames));
        // It forwards a fifth while the burst comes.
        assert!(record.outcome.lost().abs_diff(lost) <= 12, "{frames}: {} lost", record.outcome.lost());
    }
}

#[test]
fn the_last_lost_frame_after_a_fall_is_timed() {
    // A buffer of 5000 frames takes 0.25 s to empty at 20,000 a second while 10,000 come: nothing is lost after the
    // fall; with more than the device can take, losses go on.
    let (mut bed, mut tester) = tester(&Device::new(10_000.0, 50.0, 0), 1);
    let fall = |load| trial(20_000.0, 0.5, Shape::Fall { load, duration: 0.5 });
    let record = run(&mut bed, &mut tester, &fall(5_000.0));
    let last_lost = record.outcome.last_lost.unwrap();
    assert!((-0.01..=0.001).contains(&last_lost), "{last_lost}");
    assert_eq!(record.outcome.sent, 12_500);
    let record = run(&mut bed, &mut tester, &fall(12_000.0));
    assert!(record.outcome.last_lost.unwrap() > 0.4);
    let record = run(&mut bed, &mut tester, &trial(5_000.0, 0.5, Shape::Fall { load: 2_000.0, duration: 0.5 }));
    assert_eq!((record.outcome.last_lost, record.outcome.lost()), (None, 0));
}

#[test]
fn an_outage_is_timed() {
    let (mut bed, mut tester) = tester(&Device::new(1e6, 64.0, 0), 1);
    let record = run(&mut bed, &mut tester, &trial(10_000.0, 1.0, Shape::Reset { after: 0.3 }));
    let outage = record.outcome.outage.unwrap();
    assert!((outage - 0.2).abs() < 0.001, "{outage}");
    assert!(record.outcome.lost().abs_diff(2_000) <= 2);
}

/// Nothing comes after the reset: the longest gap between frames that came is no outage with an end.
#[test]
fn a_device_that_does_not_come_back_has_no_reset_time() {
    let (mut bed, mut tester) = tester(&Device::new(1e6, 64.0, 0), 1);
    bed.reset = u64::MAX / 2;
    let record = run(&mut bed, &mut tester, &trial(10_000.0, 1.0, Shape::Reset { after: 0.3 }));
    assert_eq!(record.outcome.outage, None);
    assert!(record.outcome.lost() > 6_000, "{}", record.outcome.lost());
}

#[test]
fn a_reset_that_failed_spoils_its_trial() {
    let (mut bed, mut tester) = tester(&Device::new(1e6, 64.0, 0), 1);
    bed.reset_error = Some("no such box".to_owned());
    let record = run(&mut bed, &mut tester, &trial(10_000.0, 0.5, Shape::Reset { after: 0.3 }));
    assert!(record.outcome.is_spoiled(true) && record.outcome.doubts[0].why.contains("no such box"));
    let record = run(&mut bed, &mut tester, &trial(10_000.0, 0.5, Shape::Steady));
    assert!(record.outcome.doubts.is_empty());
}

#[test]
fn learning_frames_come_through_or_do_not() {
    let (mut bed, mut tester) = tester(&Device::new(1e6, 64.0, 0), 2);
    let Ok(learned) = tester.learn(&mut bed);
    assert_eq!(learned, [("0 to 1".to_owned(), LEARNING), ("1 to 0".to_owned(), LEARNING)]);
    bed.device.outage[1].store(u64::MAX, Ordering::Relaxed);
    let Ok(learned) = tester.learn(&mut bed);
    assert!(learned.iter().all(|(_, frames)| *frames == 0));
}

#[test]
fn a_stopped_trial_says_so() {
    let (mut bed, mut tester) = tester(&Device::new(1e6, 64.0, 0), 1);
    let Ok(record) =
        tester.trial(&mut bed, 64, &trial(10_000.0, 5.0, Shape::Steady), |course| course.stop(), &mut |_| {});
    assert!(record.outcome.sent < 10 && !record.directions[0].verdict.is_trusted());
    assert!(
        record.outcome.doubts.iter().any(|doubt| doubt.why.contains("stopped") || doubt.why.contains("interrupted")),
        "{:?}",
        record.outcome.doubts
    );
}
