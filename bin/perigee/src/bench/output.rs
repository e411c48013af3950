// SPDX-License-Identifier: MIT
//! What a run prints: on standard error a line per trial, and on a terminal where it is; at the end the results.

use crate::measure::text;
use crate::table;
use indicatif::{ProgressBar, ProgressStyle};
use perigee_measure::received::Interval;
use perigee_measure::report::Report;
use perigee_measure::run::{Progress, TrialRecord, duration};
use perigee_measure::search::throughput::Verdict;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Doubts that are printed at the end, at most.
const DOUBTS: usize = 5;

/// The trial under way, on a terminal, and finished ones.
pub struct Screen {
    spinner: Option<ProgressBar>,
    now: String,
}

impl Screen {
    pub fn new() -> Screen {
        let spinner = std::io::stderr().is_terminal().then(|| {
            let spinner = ProgressBar::new_spinner();
            // If the template does not compile, indicatif's own style is used.
            let style = ProgressStyle::with_template("{spinner:.cyan} {wide_msg}");
            spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            spinner.enable_steady_tick(Duration::from_millis(100));
            spinner
        });
        Screen { spinner, now: String::new() }
    }

    /// Prints a line.
    pub fn say(&self, line: &str) {
        match &self.spinner {
            Some(spinner) => spinner.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// A step before the first trial.
    pub fn step(&mut self, what: &str) {
        match &self.spinner {
            Some(spinner) => spinner.set_message(what.to_owned()),
            None => eprintln!("{what}"),
        }
    }

    /// A trial begins.
    pub fn begin(&mut self, progress: &Progress) {
        self.now = progress.to_string();
        if let Some(spinner) = &self.spinner {
            spinner.set_message(self.now.clone());
        }
    }

    /// Another second of it.
    pub fn interval(&self, interval: &Interval) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(format!("{} | {}", self.now, text::line(interval, true, true).trim_start()));
        }
    }

    /// It is over. Up to a share of `unsent`, unsent frames do not matter.
    pub fn done(&self, number: usize, record: &TrialRecord, unsent: f64, left: f64) {
        let TrialRecord { size, trial, outcome, .. } = record;
        let lost = match outcome.lost() {
            0 => "none lost".to_owned(),
            lost => format!("{lost} lost ({:.3} %)", outcome.loss_ratio() * 100.0),
        };
        let left = if left > 0.0 { format!("  about {} left", duration(left)) } else { String::new() };
        self.say(&format!(
            "{number:4}  {size:>4} bytes  {:<58} {:>11}  {:>5} s  {lost:<20}{left}",
            trial.purpose.to_string(),
            text::pps(trial.load),
            trial.duration,
        ));
        outcome.reasons(unsent).iter().for_each(|why| self.say(&format!("      DOUBTED: {why}")));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

/// The results, for people.
pub fn summary(report: &Report) -> String {
    let mut text = format!("{}: {}\n\n", report.target, report.what());
    report.headline().iter().for_each(|line| {
        let _ = writeln!(text, "{line}");
    });
    for results in report.results() {
        let header: Vec<&str> = results.header.iter().map(|(name, _)| *name).collect();
        let numbers: Vec<&str> = results.header.iter().filter(|(_, words)| !words).map(|(name, _)| *name).collect();
        let _ = write!(text, "\n{}\n{}\n", results.title, table::rows(&header, &numbers, results.rows.into_iter()));
    }
    text += &doubts(report);
    let grave = report.findings().into_iter().filter(|finding| {
        finding.judgement == perigee_measure::environment::Judgement::MayFalsify && finding.advice.is_some()
    });
    for (at, finding) in grave.enumerate() {
        if at == 0 {
            text += "\nWhat about this machine may falsify the figures\n";
        }
        let _ = writeln!(text, "  {}: {}. {}", finding.name, finding.value, finding.advice.unwrap_or_default());
    }
    text
}

/// Throughput and latency of several devices beside each other.
pub fn beside(reports: &[Report]) -> String {
    let sizes: BTreeSet<u32> = reports.iter().flat_map(|report| &report.throughput).map(|row| row.size).collect();
    let mut rows = Vec::new();
    for size in sizes {
        for report in reports {
            let throughput = report.throughput.iter().find(|row| row.size == size).and_then(|row| row.goals.first());
            let at_load = report.latency.iter().find(|row| row.size == size).and_then(|row| row.loads.first());
            let verdict = throughput.map(|goal| goal.verdict);
            let at_least = matches!(verdict, Some(Verdict::TesterTooSlow | Verdict::AtLeast));
            let none = if verdict == Some(Verdict::Unanswered) { "no answer" } else { "none" };
            let pps = throughput.and_then(|goal| goal.pps).map_or(none.to_owned(), text::pps);
            let time = |ns: Option<f64>| ns.map_or("-".to_owned(), text::time);
            rows.push(vec![
                size.to_string(),
                report.target.clone(),
                if at_least { format!("at least {pps}") } else { pps },
                at_load.map_or("-".to_owned(), |load| text::pps(load.load)),
                time(at_load.map(|load| load.median.median)),
                time(at_load.map(|load| load.p99.median)),
            ]);
        }
    }
    let header = ["bytes", "device", "throughput", "latency at", "median", "p99"];
    format!("{}\n", table::rows(&header, &["bytes"], rows.into_iter()))
}

/// How many trials may not be trusted, and the most frequent reasons.
fn doubts(report: &Report) -> String {
    if report.doubted.is_empty() {
        return String::new();
    }
    let mut reasons: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for why in report.doubted.iter().flat_map(|doubted| &doubted.why) {
        // The same reason with other figures is the same.
        let kind: String = why.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
        reasons.entry(kind).or_insert((0, why)).0 += 1;
    }
    let mut reasons: Vec<(usize, &str)> = reasons.into_values().collect();
    reasons.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let mut text = format!("\n{} of {} trials may not be trusted\n", report.doubted.len(), report.trials.len());
    for (count, why) in reasons.into_iter().take(DOUBTS) {
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times, such as") };
        let _ = writeln!(text, "  {times}: {why}");
    }
    text
}
