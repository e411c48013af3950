// SPDX-License-Identifier: MIT
//! What came of it: a summary for people, and the same as JSON.

use super::GenArgs;
use crate::measure::ports::TesterPort;
use crate::measure::text;
use perigee_measure::pace::{Account, Achieved, AchievedSummary};
use perigee_measure::received::{Interval, LatencySummary, Outcome, Variation};
use perigee_measure::station::Sent;
use perigee_measure::verdict::{Spoils, Verdict};
use serde::Serialize;

/// Everything that `--json` prints.
#[derive(Serialize)]
pub struct Report {
    device: String,
    to: Option<String>,
    traffic: serde_json::Value,
    rate: String,
    /// The load's rise before what is measured; `null` without one.
    ramp: Option<RampReport>,
    sent: SentReport,
    /// Frames that came back; `null` if none were expected, or none could be told apart.
    received: Option<Outcome>,
    latency: Option<LatencySummary>,
    variation: Option<Variation>,
    /// The longest time in which the tester did not look at its ports.
    longest_pause_ns: u64,
    pub verdict: Verdict,
    intervals: Vec<Interval>,
    #[serde(skip)]
    achieved: Achieved,
}

/// Frames that count nowhere else.
#[derive(Serialize)]
struct RampReport {
    seconds: f64,
    sent: u64,
}

#[derive(Serialize)]
struct SentReport {
    #[serde(flatten)]
    account: Account,
    /// With FCS.
    bytes: u64,
    seconds: f64,
    pps: f64,
    wire_bits_per_s: f64,
    /// Departures as they were; `null` before the second frame.
    achieved: Option<AchievedSummary>,
    /// Times that frames were due and no packet buffer was free.
    no_buffers: u64,
}

impl Report {
    pub fn new(
        args: &GenArgs,
        traffic: serde_json::Value,
        _ports: &[TesterPort],
        sent: &Sent,
        received: Option<Outcome>,
        latency: Option<LatencySummary>,
        variation: Option<Variation>,
        intervals: Vec<Interval>,
        longest_pause_ns: u64,
        verdict: Verdict,
    ) -> Report {
        let seconds = sent.lasted as f64 / 1e9;
        // A rate has as many gaps as frames, and what was measured has one gap less.
        let gaps = sent.account.sent.saturating_sub(1) as f64;
        let pps = if seconds > 0.0 { gaps / seconds } else { 0.0 };
        let mean = if sent.account.sent > 0 { sent.bytes as f64 / sent.account.sent as f64 } else { 0.0 };
        Report {
            device: args.device.clone(),
            to: args.to.clone(),
            traffic,
            rate: args.rate.to_string(),
            ramp: args.ramp.map(|seconds| RampReport { seconds, sent: sent.ramp }),
            sent: SentReport {
                account: sent.account,
                bytes: sent.bytes,
                seconds,
                pps,
                wire_bits_per_s: pps * (mean + 20.0) * 8.0,
                achieved: sent.achieved.summary(),
                no_buffers: sent.no_buffers,
            },
            received,
            latency,
            variation,
            longest_pause_ns,
            verdict,
            intervals,
            achieved: sent.achieved.clone(),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let SentReport { account, seconds, pps, wire_bits_per_s, achieved, .. } = &self.sent;
        let mut to = self.ramp_text();
        to += &format!(
            "\nsent on {}: {} frames in {:.3} s, {}, {} on the wire\n",
            self.device,
            account.sent,
            seconds,
            text::pps(*pps),
            text::bits(*wire_bits_per_s)
        );
        if account.unsent > 0 {
            to += &format!(
                "NOT SENT: {} frames were due and could not be sent in time; the rate was not reached\n",
                account.unsent
            );
        }
        if let Some(achieved) = achieved {
            to += &format!(
                "gaps: mean {}, median {}, 99 % {}, longest {}; {} frames left together with the one before",
                text::time(achieved.gap_mean_ns),
                text::time(achieved.gap_p50_ns as f64),
                text::time(achieved.gap_p99_ns as f64),
                text::time(achieved.gap_max_ns as f64),
                achieved.together
            );
            if achieved.within_1us > 0.0 {
                to += &format!("; {:.3} % within 1 us of nominal", achieved.within_1us * 100.0);
            }
            to += "\n";
            to += &text::histogram(&self.achieved.gaps);
        }
        to += &self.received_text();
        for doubt in &self.verdict.doubts {
            to += &format!("CAREFUL: {doubt}\n");
        }
        to
    }

    fn ramp_text(&self) -> String {
        let Some(RampReport { seconds, sent }) = self.ramp else { return String::new() };
        format!("\nbefore: {sent} frames in {seconds} s of a load that rose to {}; they do not count\n", self.rate)
    }

    fn received_text(&self) -> String {
        let Some(received) = &self.received else { return String::new() };
        let counters = &received.counters;
        let lost = received.lost as f64 * 100.0 / received.sent.max(1) as f64;
        let mut to = format!(
            "\nreceived on {}: {} frames of {}, {} {} ({lost:.4} %)",
            self.to.as_deref().unwrap_or_default(),
            counters.unique,
            received.sent,
            received.lost,
            // What may be the tester's doing is not called loss.
            if received.lost > 0 && self.verdict.spoils(Spoils::Loss) {
                "missing, not the device's loss for certain"
            } else {
                "lost"
            }
        );
        for (what, n) in [
            ("duplicates", counters.duplicates),
            ("reordered", counters.reordered),
            ("corrupted", counters.corrupted),
            ("of other traffic", counters.foreign),
            ("of another trial", counters.other_run),
        ] {
            if n > 0 {
                to += &format!(", {n} {what}");
            }
        }
        to += "\n";
        if let Some(latency) = &self.latency {
            let time = |ns: u64| text::time(ns as f64);
            to += &format!(
                "latency: min {}, 50 % {}, 90 % {}, 99 % {}, 99.9 % {}, max {}, mean {}{}\n",
                time(latency.min_ns),
                time(latency.p50_ns),
                time(latency.p90_ns),
                time(latency.p99_ns),
                time(latency.p99_9_ns),
                time(latency.max_ns),
                text::time(latency.mean_ns),
                latency.floor_ns.map(|floor| format!(" (the tester's {floor} ns taken off)")).unwrap_or_default()
            );
        }
        if let Some(variation) = &self.variation {
            to += &format!("jitter (RFC 3550): {}\n", text::time(variation.jitter_mean_ns));
        }
        to
    }
}
