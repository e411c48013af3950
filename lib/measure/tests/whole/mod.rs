// SPDX-License-Identifier: MIT
//! Whole runs on simulated devices, with raw data as a tester would have them.
#![allow(dead_code)] // not every test uses all of it

use super::simulated::Simulated;
use perigee_measure::environment::{Environment, Finding, Judgement};
use perigee_measure::pace::Account;
use perigee_measure::received::{Interval, Latencies, Received, Settings as Receiver, Snapshot};
use perigee_measure::run::{self, Direction, Family, Maximum, Run, Settings, TrialRecord, Ways};
use perigee_measure::search::profile::Profile;
use perigee_measure::search::{Outcome, Shape, Trial};
use perigee_measure::verdict::{Doubt, Verdict};

/// The quick profile at its two sizes, over links of 1 Gbit/s.
pub fn quick() -> Settings {
    Settings::new(Profile::quick(), Family::Ipv4, Ways::One, Maximum::Line(1e9))
}

/// Runs all of it, and takes a look at each trial's record.
pub fn finish(run: &mut Run, device: &mut Simulated, mut look: impl FnMut(&Run)) {
    while let Some((size, trial)) = run.next() {
        look(run);
        let outcome = device.answer(&trial);
        let record = record(size, trial, &outcome, run.records().len(), run.settings().ways);
        run.report(record).expect("the trial that was asked for");
        assert!(run.records().len() < 5000, "the run does not end");
    }
}

/// The record of a trial, with its frames divided between the directions.
pub fn record(size: u32, trial: Trial, simulated: &Outcome, number: usize, ways: Ways) -> TrialRecord {
    let names = ["p0 to p1", "p1 to p0"];
    let count = ways.count() as usize;
    let directions: Vec<_> = names[..count].iter().map(|name| direction(name, &trial, simulated, size)).collect();
    let mut outcome = run::outcome(&trial, &directions);
    if matches!(trial.shape, Shape::Fall { .. }) && outcome.lost() > 0 {
        outcome.last_lost = Some(0.002);
    }
    let began = format!("2026-01-01T{:02}:{:02}:{:02}Z", number / 3600, number / 60 % 60, number % 60);
    TrialRecord { size, trial, outcome, began, directions }
}

fn direction(name: &str, trial: &Trial, simulated: &Outcome, size: u32) -> Direction {
    let (sent, lost) = (simulated.sent, simulated.lost());
    let mut received = Received::new(Receiver::new(1, 1)).close(|_| 0);
    (received.sent, received.lost) = (sent, lost);
    received.counters.frames = sent - lost;
    received.counters.unique = sent - lost;
    received.counters.bytes = (sent - lost) * u64::from(size);
    let mut latencies = Latencies::new(1, None);
    if matches!(trial.shape, Shape::Tagged { .. }) {
        // Longer at higher loads.
        let base = 2000 + (trial.load / 1000.0) as u64;
        (0..1000).for_each(|frame| latencies.record(Some(base + frame * frame / 100)));
    }
    let mut doubts = vec![];
    if simulated.unsent() > 0 {
        doubts.push(Doubt::Unsent { frames: simulated.unsent(), intended: Some(simulated.intended) });
    }
    if !simulated.doubts.is_empty() {
        doubts.push(Doubt::LostInTester { frames: 1 });
    }
    let last = Snapshot { time: 1_000_000_000, sent, ..Snapshot::default() };
    Direction {
        name: name.to_owned(),
        sent: Account { intended: Some(simulated.intended), sent, unsent: simulated.unsent(), pending: Some(0) },
        achieved: None,
        received,
        latency: latencies.summary(),
        variation: None,
        verdict: Verdict { doubts },
        longest_pause_ns: 20_000,
        intervals: vec![Interval::new(0, &Snapshot::default(), &last, None)],
    }
}

/// A machine with something of each judgement.
pub fn environment() -> Environment {
    let finding = |name: &str, value: &str, judgement, advice: Option<&str>| Finding {
        name: name.into(),
        value: value.into(),
        judgement,
        advice: advice.map(str::to_owned),
    };
    Environment {
        findings: vec![
            finding("processor", "Example <CPU> | 16 cores", Judgement::Fine, None),
            finding(
                "governor",
                "powersave",
                Judgement::CostsRepeatability,
                Some("Choose the governor `performance` (cpupower frequency-set -g performance)."),
            ),
            finding("Turbo", "unknown", Judgement::Unknown, None),
            finding("SMT", "on", Judgement::MayFalsify, Some("Switch off the siblings of the tester's processors.")),
        ],
        interfaces: vec![],
    }
}
