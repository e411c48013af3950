// SPDX-License-Identifier: MIT
//! A run's report: the results, how far they follow RFC 2544, why trials may not be trusted, the machine, and the raw
//! trials.
//!
//! It is made of a [`Run`], finished or not, and written as
//!
//! | | |
//! | --- | --- |
//! | [`Report::json`] | all of it; what is read back is the same report |
//! | [`Report::markdown`] | tables as RFC 2544 section 26 asks for, with rates in frames/s, on the wire, and as shares of the maximum |
//! | [`Report::html`] | a page with the tables and charts, light and dark, without scripts |
//! | [`Report::results_csv`], [`Report::trials_csv`] | a line for each figure, and one for each trial |
//! | [`Report::points`] | what `perigee predict fit` reads |
//!
//! All rates are frames per second one way, unless something else is said.

mod charts;
mod conformance;
mod csv;
mod html;
mod markdown;
mod points;
mod rows;
mod tables;

pub use conformance::Doubted;
pub use points::{Device, PointsError};
pub use rows::{BackToBackRow, GoalRow, LatencyRow, LossRateRow, RecoveryRow, ResetRow, ThroughputRow};
pub use tables::Table;

use perigee_chart::number::{prefixed, share};
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, Finding};
use crate::pace::rate::wire_bits;
use crate::run::{Maximum, Run, Searching, Settings, Skipped, TrialRecord, duration};
use crate::search::Outcome;
use crate::search::throughput::Verdict;

/// A single trial that forwarded more than the throughput by this factor is worth a word.
const MORE: f64 = 0.95;

/// All that is known of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was measured, as people call it.
    pub target: String,
    /// The profile's name; all of it is in the settings.
    pub profile: String,
    pub settings: Settings,
    /// Whether all tests were run to their ends.
    pub finished: bool,
    /// If not, an estimate of the time that is missing, in seconds.
    pub seconds_left: f64,
    pub environment: Environment,
    pub throughput: Vec<ThroughputRow>,
    pub latency: Vec<LatencyRow>,
    pub loss_rate: Vec<LossRateRow>,
    pub back_to_back: Vec<BackToBackRow>,
    pub recovery: Vec<RecoveryRow>,
    pub reset: Vec<ResetRow>,
    /// Tests that could not be run.
    pub skipped: Vec<Skipped>,
    /// How the settings deviate from RFC 2544, a sentence each.
    pub deviations: Vec<String>,
    /// Trials that may not be trusted.
    pub doubted: Vec<Doubted>,
    /// The raw trials, in their order.
    pub trials: Vec<TrialRecord>,
}

impl Report {
    pub fn new(target: &str, environment: &Environment, run: &Run) -> Self {
        let settings = run.settings();
        let left = run.left();
        let mut report = Self {
            target: target.to_owned(),
            profile: settings.profile.name.clone(),
            settings: settings.clone(),
            finished: run.is_over(),
            seconds_left: left.seconds,
            environment: environment.clone(),
            throughput: vec![],
            latency: vec![],
            loss_rate: vec![],
            back_to_back: vec![],
            recovery: vec![],
            reset: vec![],
            skipped: run.skipped().to_vec(),
            deviations: conformance::deviations(settings),
            doubted: conformance::doubted(settings, run.records()),
            trials: run.records().to_vec(),
        };
        for stage in run.stages().iter().filter(|stage| !stage.outcomes().is_empty()) {
            let (size, trials) = (stage.size, stage.outcomes().len());
            let maximum_pps = settings.maximum(size).unwrap_or(f64::NAN);
            match &stage.searching {
                Searching::Throughput(search) => {
                    let unsent = settings.profile.trust.unsent;
                    let row = ThroughputRow::new(size, search.outcomes(), unsent, maximum_pps, &search.found());
                    report.throughput.push(row);
                }
                Searching::Latency(search) => {
                    report.latency.push(LatencyRow { size, trials, loads: search.found() });
                }
                Searching::LossRate(search) => {
                    report.loss_rate.push(LossRateRow { size, trials, maximum_pps, curve: search.found() });
                }
                Searching::BackToBack(search) => {
                    // Of the bursts: the tester may not reach the medium's.
                    let maximum_pps = search.method().maximum;
                    report.back_to_back.push(BackToBackRow { size, trials, maximum_pps, bursts: search.found() });
                }
                Searching::Recovery(search) => {
                    report.recovery.push(RecoveryRow { size, trials, recovered: search.found() });
                }
                Searching::Reset(search) => report.reset.push(ResetRow { size, trials, times: search.found() }),
            }
        }
        report
    }

    /// As JSON, indented.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is JSON") + "\n"
    }

    /// What was measured and how, in a line: "RFC 2544, profile quick, IPv4, one way".
    pub fn what(&self) -> String {
        let Settings { family, ways, .. } = &self.settings;
        format!("RFC 2544, profile {}, {family}, {ways}", self.profile)
    }

    /// The results as tables.
    pub fn results(&self) -> Vec<Table> {
        tables::results(self)
    }

    /// The throughput at each size, and whether that is all, in a few sentences.
    pub fn headline(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.throughput.iter().map(|row| self.headline_of(row)).collect();
        if lines.is_empty() {
            lines.push("No throughput was measured.".to_owned());
        }
        if !self.finished {
            lines.push(format!(
                "This run is not finished: {} trials were run, and about {} were left. What follows is what is known so far.",
                self.trials.len(),
                duration(self.seconds_left)
            ));
        }
        lines
    }

    fn headline_of(&self, row: &ThroughputRow) -> String {
        let Some(goal) = row.goals.first() else { return String::new() };
        let each_way = if self.settings.ways.count() > 1 { " each way" } else { "" };
        if goal.verdict == Verdict::Unanswered {
            return unanswered(row, each_way);
        }
        let found = match goal.pps {
            Some(pps) if goal.verdict == Verdict::AtLeast => format!(
                "at least {}pps{each_way}, {}bit/s on the wire: {}. {QUIET}",
                prefixed(pps),
                prefixed(pps * wire_bits(f64::from(row.size))),
                the_limit(row)
            ),
            Some(pps) => format!(
                "{}pps{each_way}, {}bit/s on the wire, {} of the maximum",
                prefixed(pps),
                prefixed(pps * wire_bits(f64::from(row.size))),
                share(pps / row.maximum_pps)
            ),
            None => "no throughput was found".to_owned(),
        };
        let but = match goal.verdict {
            // Without a line's rate, the maximum is the most that the tester sent, or what it was asked for.
            Verdict::MaximumPasses if matches!(self.settings.maximum, Maximum::Frames(_)) => {
                " (at least: no higher load was tried)"
            }
            Verdict::Regular | Verdict::MaximumPasses | Verdict::Unanswered | Verdict::AtLeast => "",
            Verdict::MinimumFails => " (the lowest load fails)",
            Verdict::TesterTooSlow => " (at least: the tester could not send more)",
            Verdict::Unfinished => " (the search is not finished)",
        };
        let trust = if goal.trusted { "" } else { "; it rests on trials that may not be trusted" };
        // Trials that contradict each other.
        let more = goal.proven_pps.filter(|proven| proven * MORE > goal.pps.unwrap_or(0.0)).map(|proven| {
            format!(
                "; a trial forwarded {}pps as the goal demands, so the device or this machine varies",
                prefixed(proven)
            )
        });
        format!("{} bytes: {found}{but}{trust}{}.", row.size, more.unwrap_or_default())
    }

    /// Whether a size has no answer for its first goal.
    pub fn is_unanswered(&self) -> bool {
        self.throughput.iter().any(|row| row.goals.first().is_some_and(|goal| goal.verdict == Verdict::Unanswered))
    }

    /// When the first and the last trial began.
    fn period(&self) -> Option<(&str, &str)> {
        Some((&self.trials.first()?.began, &self.trials.last()?.began))
    }

    /// Facts about the machine, the gravest first.
    pub fn findings(&self) -> Vec<Finding> {
        let mut all = self.environment.all();
        all.sort_by_key(|finding| std::cmp::Reverse(finding.judgement));
        all
    }

    /// What became of a trial, by the first goal.
    fn judged(&self, outcome: &Outcome) -> Judged {
        let allowed = self.settings.profile.throughput.goals.first().map_or(0.0, |goal| goal.loss_ratio);
        if !outcome.reasons(self.settings.profile.trust.unsent).is_empty() {
            Judged::Doubted
        } else if outcome.loss_ratio() > allowed {
            Judged::Failed
        } else {
            Judged::Passed
        }
    }
}

/// What to do about it.
const QUIET: &str = "End other programs, or give the tester cores that nothing else uses";

/// How the tester was the limit.
fn the_limit(row: &ThroughputRow) -> String {
    let sent = row.least_sent.filter(|_| row.short_trials > 0).map(|least| {
        format!(
            "in {} of {} trials it sent less than was asked for, down to {}",
            row.short_trials,
            row.trials,
            share(least)
        )
    });
    let lost = (row.doubtful_trials > 0)
        .then(|| format!("in {} of {} frames were lost that may be its own loss", row.doubtful_trials, row.trials));
    let ways: Vec<String> = sent.into_iter().chain(lost).collect();
    format!("the tester was the limit{}{}", if ways.is_empty() { "" } else { ": " }, ways.join(", "))
}

/// A sentence instead of a figure.
fn unanswered(row: &ThroughputRow, each_way: &str) -> String {
    let forwarded = match row.forwarded_pps {
        Some(forwarded) => format!("only a shorter trial was forwarded, at {}pps{each_way}", prefixed(forwarded)),
        None => "no trial was forwarded as the goal demands".to_owned(),
    };
    format!("{} bytes: this machine cannot answer: {}; {forwarded}. {QUIET}.", row.size, the_limit(row))
}

/// What became of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    Passed,
    /// Frames were lost, more than the first goal allows.
    Failed,
    /// It may not be trusted.
    Doubted,
}

impl Judged {
    const ALL: [Judged; 3] = [Judged::Passed, Judged::Failed, Judged::Doubted];

    fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Doubted => "doubted",
        }
    }
}
