// SPDX-License-Identifier: MIT
//! A report as CSV: a line for each figure, and one for each trial.

use serde::Serialize;

use super::Report;
use crate::run::TrialRecord;
use crate::search::statistics::Summary;
use crate::search::{Purpose, Shape};

/// A figure.
#[derive(Serialize)]
struct Line<'a> {
    test: &'static str,
    frame_size: u32,
    /// The goal's name, or the load as a share of the throughput or of the maximum.
    at: &'a str,
    what: &'static str,
    value: f64,
    unit: &'static str,
}

/// A trial. Latencies are in nanoseconds.
#[derive(Serialize)]
struct TrialLine<'a> {
    trial: usize,
    began: &'a str,
    frame_size: u32,
    test: &'static str,
    purpose: String,
    shape: &'static str,
    load_pps: f64,
    duration_s: f64,
    offered_pps: f64,
    intended: u64,
    sent: u64,
    received: u64,
    lost: u64,
    loss_ratio: f64,
    duplicates: u64,
    reordered: u64,
    corrupted: u64,
    latency_min_ns: Option<f64>,
    latency_mean_ns: Option<f64>,
    latency_p50_ns: Option<f64>,
    latency_p99_ns: Option<f64>,
    latency_p99_9_ns: Option<f64>,
    latency_max_ns: Option<f64>,
    last_lost_s: Option<f64>,
    outage_s: Option<f64>,
    result: &'static str,
    why: String,
}

impl Report {
    /// The results: test, frame size, at which goal or load, what, value and unit.
    pub fn results_csv(&self) -> String {
        let mut lines = Lines(::csv::Writer::from_writer(vec![]));
        self.rates(&mut lines);
        self.times(&mut lines);
        lines.text(&["test", "frame_size", "at", "what", "value", "unit"])
    }

    fn rates(&self, lines: &mut Lines) {
        for row in &self.throughput {
            for goal in &row.goals {
                let mut add = |what, value: Option<f64>, unit| {
                    lines.add("throughput", row.size, &goal.goal.name, (what, value, unit));
                };
                add("throughput", goal.pps, "frames/s");
                add("throughput_on_the_wire", goal.bits_per_s, "bit/s");
                add("share_of_maximum", goal.share, "");
                add("loss", goal.loss, "");
                add("lower_bound", goal.proven_pps, "frames/s");
                add("upper_bound", goal.upper_pps, "frames/s");
                add("trusted", Some(f64::from(u8::from(goal.trusted))), "");
            }
        }
        for row in &self.loss_rate {
            for point in &row.curve.points {
                let at = format!("{:.4}", point.load / row.maximum_pps);
                let mut add = |what, value, unit| lines.add("loss_rate", row.size, &at, (what, Some(value), unit));
                add("load", point.load, "frames/s");
                add("loss", point.loss_ratio, "");
                add("trusted", f64::from(u8::from(point.trusted)), "");
            }
        }
    }

    fn times(&self, lines: &mut Lines) {
        for row in &self.latency {
            for at in &row.loads {
                let share = format!("{:.4}", at.share);
                let mut add = |what, value, unit| lines.add("latency", row.size, &share, (what, Some(value), unit));
                add("load", at.load, "frames/s");
                add("min", at.min, "ns");
                add("mean", at.mean.mean, "ns");
                add("p50", at.median.median, "ns");
                add("p99", at.p99.median, "ns");
                add("p99_9", at.p999.median, "ns");
                add("max", at.max, "ns");
            }
        }
        for row in &self.back_to_back {
            lines.spread("back_to_back", row.size, row.bursts.summary.as_ref(), "frames");
            lines.add("back_to_back", row.size, "", ("implied_buffer", row.bursts.implied_buffer, "s"));
            lines.add("back_to_back", row.size, "", ("corrected_buffer", row.bursts.corrected_buffer, "s"));
        }
        for row in &self.recovery {
            lines.spread("recovery", row.size, row.recovered.summary.as_ref(), "s");
        }
        for row in &self.reset {
            lines.spread("reset", row.size, row.times.summary.as_ref(), "s");
        }
    }

    /// The trials, in their order.
    pub fn trials_csv(&self) -> String {
        let mut writer = ::csv::Writer::from_writer(vec![]);
        for (at, record) in self.trials.iter().enumerate() {
            writer.serialize(self.trial_line(at + 1, record)).expect("memory takes every line");
        }
        text(writer)
    }

    fn trial_line<'a>(&self, trial: usize, record: &'a TrialRecord) -> TrialLine<'a> {
        let outcome = &record.outcome;
        let delays = outcome.latency;
        TrialLine {
            trial,
            began: &record.began,
            frame_size: record.size,
            test: match record.trial.purpose {
                Purpose::Throughput { .. } => "throughput",
                Purpose::LossRate { .. } => "loss_rate",
                Purpose::BackToBack { .. } => "back_to_back",
                Purpose::Latency { .. } => "latency",
                Purpose::Recovery { .. } => "recovery",
                Purpose::Reset { .. } => "reset",
            },
            purpose: record.trial.purpose.to_string(),
            shape: match record.trial.shape {
                Shape::Steady => "steady",
                Shape::Burst { .. } => "burst",
                Shape::Fall { .. } => "fall",
                Shape::Tagged { .. } => "tagged",
                Shape::Reset { .. } => "reset",
            },
            load_pps: record.trial.load,
            duration_s: record.trial.duration,
            offered_pps: outcome.offered(),
            intended: outcome.intended,
            sent: outcome.sent,
            received: outcome.received,
            lost: outcome.lost(),
            loss_ratio: outcome.loss_ratio(),
            duplicates: outcome.duplicates,
            reordered: outcome.reordered,
            corrupted: outcome.corrupt,
            latency_min_ns: delays.map(|delays| delays.min),
            latency_mean_ns: delays.map(|delays| delays.mean),
            latency_p50_ns: delays.map(|delays| delays.median),
            latency_p99_ns: delays.map(|delays| delays.p99),
            latency_p99_9_ns: delays.map(|delays| delays.p999),
            latency_max_ns: delays.map(|delays| delays.max),
            last_lost_s: outcome.last_lost,
            outage_s: outcome.outage,
            result: self.judged(outcome).name(),
            why: outcome.reasons(self.settings.profile.trust.unsent).join(" "),
        }
    }
}

struct Lines(::csv::Writer<Vec<u8>>);

impl Lines {
    /// A figure, unless it is not known.
    fn add(
        &mut self,
        test: &'static str,
        frame_size: u32,
        at: &str,
        (what, value, unit): (&'static str, Option<f64>, &'static str),
    ) {
        let Some(value) = value else { return };
        self.0.serialize(Line { test, frame_size, at, what, value, unit }).expect("memory takes every line");
    }

    fn spread(&mut self, test: &'static str, size: u32, summary: Option<&Summary>, unit: &'static str) {
        let Some(summary) = summary else { return };
        let Summary { mean, min, max, deviation, .. } = *summary;
        for (what, value) in [("mean", mean), ("min", min), ("max", max), ("deviation", deviation)] {
            self.add(test, size, "", (what, Some(value), unit));
        }
    }

    /// The text, with the columns' names even if there are no lines.
    fn text(self, header: &[&str]) -> String {
        let text = text(self.0);
        if text.is_empty() { header.join(",") + "\n" } else { text }
    }
}

fn text(writer: ::csv::Writer<Vec<u8>>) -> String {
    let bytes = writer.into_inner().expect("memory takes every line");
    String::from_utf8(bytes).expect("what was written is text")
}
