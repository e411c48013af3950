// SPDX-License-Identifier: MIT
//! Stations on threads, each on a core of its own, and what they report together once a second.

use anyhow::Result;
use perigee_dpdk::{Clock, Eal, pin_current_thread};
use perigee_measure::received::{Interval, Latencies, Snapshot};
use perigee_measure::station::{Course, End, Finished, Station, add};
use std::sync::mpsc::{Sender, channel};

/// One station's report.
struct Report {
    station: usize,
    snapshot: Snapshot,
    latencies: Vec<Latencies>,
}

/// Divides ends among cores: each has its own if there are enough, else the first has all.
pub fn divide(ends: Vec<End>, cores: usize) -> Vec<Station> {
    if ends.len() <= cores {
        return ends.into_iter().map(|end| Station { ends: vec![end] }).collect();
    }
    vec![Station { ends }]
}

/// What stations did together.
pub struct Done {
    pub finished: Vec<Finished>,
    /// All latencies that were recorded, by end; `None` where nobody listened.
    pub latencies: Vec<Option<Latencies>>,
}

/// Runs stations to their end, each on one of `cores`; calls `line` once a second.
pub fn run(
    stations: Vec<Station>,
    eal: &Eal,
    clock: Clock,
    cores: &[usize],
    course: &Course,
    mut line: impl FnMut(&Interval),
) -> Result<Done> {
    let n = stations.len();
    let ends = stations.iter().flat_map(|station| &station.ends);
    let listens: Vec<bool> = ends.map(|end| end.listener.is_some()).collect();
    let (sender, reports) = channel();
    std::thread::scope(|scope| {
        let threads: Vec<_> = stations
            .into_iter()
            .enumerate()
            .map(|(i, station)| {
                let (sender, core) = (sender.clone(), cores[i % cores.len()]);
                let body = move || one(station, i, eal, clock, core, course, &sender);
                std::thread::Builder::new().name(format!("tester-{i}")).spawn_scoped(scope, body)
            })
            .collect::<std::io::Result<_>>()?;
        drop(sender);
        let mut together = Together::new(n, course.reports_begin(clock.now()));
        for report in reports {
            together.take(report, &mut line);
        }
        together.finish(&mut line);
        let finished = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<_>>()?;
        let mut of_listeners = together.latencies.into_iter().flatten();
        let latencies = listens.iter().map(|listens| if *listens { of_listeners.next() } else { None }).collect();
        Ok(Done { finished, latencies })
    })
}

fn one(
    station: Station,
    number: usize,
    eal: &Eal,
    clock: Clock,
    core: usize,
    course: &Course,
    to: &Sender<Report>,
) -> Result<Finished> {
    pin_current_thread(core)?;
    let _registered = eal.register_thread()?;
    let mut report = |snapshot, latencies| {
        // Nobody listens any more once the program ends.
        let _ = to.send(Report { station: number, snapshot, latencies });
    };
    Ok(station.run(&|| clock.now(), course, &mut report))
}

/// Reports of all stations, put together second by second.
struct Together {
    start: u64,
    /// Reports that wait for those of other stations, by station.
    waiting: Vec<std::collections::VecDeque<Report>>,
    before: Snapshot,
    /// The last snapshot of each station.
    last: Vec<Snapshot>,
    /// Those of all intervals, by station and listener.
    latencies: Vec<Vec<Latencies>>,
}

impl Together {
    fn new(stations: usize, start: u64) -> Together {
        let waiting = (0..stations).map(|_| Default::default()).collect();
        Together {
            start,
            waiting,
            before: Snapshot { time: start, ..Snapshot::default() },
            last: vec![Snapshot::default(); stations],
            latencies: vec![vec![]; stations],
        }
    }

    fn take(&mut self, report: Report, line: &mut impl FnMut(&Interval)) {
        self.waiting[report.station].push_back(report);
        while self.waiting.iter().all(|reports| !reports.is_empty()) {
            self.second(line);
        }
    }

    /// What is left of stations that ran longer than others: those that listen.
    fn finish(&mut self, line: &mut impl FnMut(&Interval)) {
        while self.waiting.iter().any(|reports| !reports.is_empty()) {
            self.second(line);
        }
    }

    /// Puts together the next reports. A station that has ended is as its last report says.
    fn second(&mut self, line: &mut impl FnMut(&Interval)) {
        let mut latencies: Option<Latencies> = None;
        for (station, reports) in self.waiting.iter_mut().enumerate() {
            let Some(report) = reports.pop_front() else { continue };
            report.latencies.iter().for_each(|more| join(&mut latencies, more));
            let all = &mut self.latencies[station];
            if all.is_empty() {
                *all = report.latencies;
            } else {
                all.iter_mut().zip(&report.latencies).for_each(|(all, more)| all.add(more));
            }
            self.last[station] = report.snapshot;
        }
        let mut sum = Snapshot::default();
        for snapshot in &self.last {
            sum.time = sum.time.max(snapshot.time);
            sum.sent += snapshot.sent;
            sum.sent_bytes += snapshot.sent_bytes;
            sum.unsent += snapshot.unsent;
            add(&mut sum.received, &snapshot.received);
        }
        let summary = latencies.as_ref().and_then(Latencies::summary);
        line(&Interval::new(self.start, &self.before, &sum, summary.as_ref()));
        self.before = sum;
    }
}

/// Adds latencies to those that there are.
fn join(to: &mut Option<Latencies>, more: &Latencies) {
    match to {
        Some(sum) => sum.add(more),
        None => *to = Some(more.clone()),
    }
}
