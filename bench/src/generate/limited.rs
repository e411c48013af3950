// SPDX-License-Identifier: MIT
//! A port with a known limit, and the searches that look for it: MLRsearch and a binary search with loss verification,
//! on the same port, one after the other, in real time.

use super::Bed;
use crate::statistics::Median;
use anyhow::{Result, ensure};
use perigee_dpdk::{Clock, MBUF, RingReceiver, RingSender, ring};
use perigee_measure::environment::Meanwhile;
use perigee_measure::received::{Interval, Latencies};
use perigee_measure::search::binary::{Binary, Verify};
use perigee_measure::search::evidence::Trust;
use perigee_measure::search::goal::Goal;
use perigee_measure::search::mlr::Mlr;
use perigee_measure::search::profile::Settle;
use perigee_measure::search::throughput::{Found, Limits};
use perigee_measure::search::{Method, Search};
use perigee_measure::station::{Course, End, Station};
use perigee_measure::tester::{Counted, Manner, Ran, Surroundings, Tester, Way};
use perigee_measure::traffic::{Description, Traffic};
use perigee_packet::{Batch, Handle, Memory as _, TransmitQueue};
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames per second that the port lets through.
const LIMIT: f64 = 437_000.0;
/// Frames that it has room for beyond that, a small receive ring: 1.2 ms.
const ROOM: f64 = 512.0;
/// Seconds of the trials that count. What fits into the room makes a load of 0.12 % more pass.
const FINAL: f64 = 1.0;
/// What of its frames the tester may give up in a trial that counts: on a virtual machine it stands still for
/// milliseconds every few seconds. As for the profile `quick`.
const TRUST: Trust = Trust { attempts: 3, unsent: 0.01 };
/// Both searches are run so often, in turn.
const REPEATS: usize = 5;

/// One search.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct One {
    pub pps: f64,
    pub trials: u32,
    pub seconds: f64,
}

/// Both of them.
#[derive(Debug, Clone, Serialize)]
pub struct Searched {
    pub limit: f64,
    pub mlr: Vec<One>,
    pub binary: Vec<One>,
}

impl Searched {
    /// How far MLRsearch's results are off: the median.
    pub fn error_percent(&self) -> f64 {
        Self::error_percent_of(&self.mlr)
    }

    /// That of some searches.
    pub fn error_percent_of(searches: &[One]) -> f64 {
        let errors: Vec<f64> = searches.iter().map(|one| (one.pps - LIMIT).abs() * 100.0 / LIMIT).collect();
        Median::of(&errors).median
    }

    /// Trials of MLRsearch as a share of those of the binary search of the same round: the median.
    pub fn trials_of_binary(&self) -> f64 {
        self.ratio(|one| f64::from(one.trials))
    }

    pub fn time_of_binary(&self) -> f64 {
        self.ratio(|one| one.seconds)
    }

    fn ratio(&self, of: impl Fn(&One) -> f64) -> f64 {
        let ratios: Vec<f64> = self.mlr.iter().zip(&self.binary).map(|(mlr, binary)| of(mlr) / of(binary)).collect();
        Median::of(&ratios).median
    }
}

/// A transmit queue that drops what is beyond its limit.
struct Limited {
    ring: RingSender,
    clock: Clock,
    /// Frames that wait in the made-up buffer, at that time (ns).
    waiting: (f64, u64),
}

impl TransmitQueue for Limited {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        let now = self.clock.now();
        let (waiting, since) = self.waiting;
        let waiting = (waiting - now.saturating_sub(since) as f64 * LIMIT / 1e9).max(0.0);
        let accepted = ((ROOM - waiting).max(0.0) as usize).min(packets.len());
        self.waiting = (waiting + accepted as f64, now);
        let mut rest = packets.split_off(accepted);
        MBUF.free(&mut rest);
        self.ring.transmit(packets);
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        MBUF.free(packets);
    }
}

/// A queue that takes nothing, and one that has nothing.
struct Closed;

impl TransmitQueue for Closed {
    fn transmit(&mut self, _: &mut Vec<Handle>) {}

    fn discard(&self, packets: &mut Vec<Handle>) {
        MBUF.free(packets);
    }
}

impl perigee_packet::ReceiveQueue for Closed {
    fn receive(&mut self, _: &mut Batch, _: usize) -> usize {
        0
    }
}

/// One thread, this one.
struct Here {
    clock: Clock,
}

impl Surroundings for Here {
    type Error = Infallible;

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn date(&self) -> String {
        String::new()
    }

    fn sleep(&mut self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }

    fn run(&mut self, ends: Vec<End>, course: &Arc<Course>, _: &mut dyn FnMut(&Interval)) -> Result<Ran, Infallible> {
        let n = ends.len();
        let mut all: Option<Latencies> = None;
        let mut report = |_, latencies: Vec<Latencies>| {
            for more in latencies {
                match &mut all {
                    Some(all) => all.add(&more),
                    None => all = Some(more),
                }
            }
        };
        let clock = self.clock;
        let finished = Station { ends }.run(&|| clock.now(), course, &mut report);
        // The last end listens.
        let mut latencies = vec![None; n];
        latencies[n - 1] = all;
        Ok(Ran {
            ends: finished.ends,
            sent: finished.sent,
            heard: finished.heard,
            latencies,
            longest_pause: finished.longest_pause,
            ended: finished.ended,
        })
    }

    fn counted(&self, _: usize) -> Counted {
        Counted { up: true, ..Counted::default() }
    }

    fn meanwhile(&self) -> Meanwhile {
        Meanwhile::default()
    }

    fn reset_device(&mut self, _: u64) {}
}

/// Both searches, for a limit to be found within 0.5 %.
pub fn search(bed: &Bed) -> Result<Searched> {
    let (sender, receiver): (RingSender, RingReceiver) = ring(&bed.eal, 8192, None)?;
    let limited = Limited { ring: sender, clock: bed.clock, waiting: (0.0, 0) };
    let left = End::new(Box::new(limited), Box::new(Closed), bed.pool.clone(), &MBUF);
    let right = End::new(Box::new(Closed), Box::new(receiver), bed.pool.clone(), &MBUF);
    let traffic = Traffic::new(&Description::default())?;
    let way = Way::new("left to right".to_owned(), 0, 1, Box::new(traffic), 1);
    let manner = Manner {
        settle: Settle { learning: 0.01, ramp: 0.0, drain: 0.02, pause: 0.0 },
        allowance: 1_000_000,
        room: 8192,
        latency_every: 100,
        floor: None,
    };
    let mut tester = Tester::new(vec![left, right], vec![way], &MBUF, manner, 1);
    let mut here = Here { clock: bed.clock };
    let limits = Limits { minimum: 10_000.0, maximum: 2_000_000.0 };
    let goal = Goal {
        name: "half".to_owned(),
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        width: 0.005,
        initial_duration: Some(0.1),
        final_duration: FINAL,
        duration_sum: 2.0 * FINAL,
    };
    let verified = Binary {
        name: "binary".to_owned(),
        limits,
        duration: FINAL,
        loss_ratio: 0.0,
        width: 0.005,
        verify: Some(Verify { trials: 2, at_once: None }),
        trust: TRUST,
    };
    let mut searched = Searched { limit: LIMIT, mlr: Vec::new(), binary: Vec::new() };
    for _ in 0..REPEATS {
        let mlr = Mlr { trust: TRUST, ..Mlr::new(vec![goal.clone()], limits) };
        searched.mlr.push(run(&mut tester, &mut here, mlr, |found: Vec<Found>| found[0].throughput)?);
        searched.binary.push(run(&mut tester, &mut here, verified.clone(), |found: Found| found.throughput)?);
    }
    Ok(searched)
}

fn run<M: Method>(
    tester: &mut Tester,
    here: &mut Here,
    method: M,
    throughput: impl Fn(M::Found) -> Option<f64>,
) -> Result<One> {
    let (start, mut trials) = (Instant::now(), 0);
    let mut search = Search::new(method);
    while let Some(trial) = search.next() {
        let Ok(record) = tester.trial(here, 64, &trial, |_| {}, &mut |_| {});
        search.report(record.outcome)?;
        trials += 1;
        ensure!(trials < 1000, "the search for a known limit does not end");
    }
    let pps = throughput(search.found()).unwrap_or(0.0);
    Ok(One { pps, trials, seconds: start.elapsed().as_secs_f64() })
}
