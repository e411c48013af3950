// SPDX-License-Identifier: MIT
//! What is stored of a trial: the trial, its outcome for the search, and the raw data of each direction.

use serde::{Deserialize, Serialize};

use crate::pace::{Account, AchievedSummary};
use crate::received::{self, Interval, LatencySummary, Variation};
use crate::search::{Delays, Doubt, Outcome, Trial};
use crate::verdict::{self, Verdict};

/// A trial that was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialRecord {
    /// Frame size in bytes, with the FCS.
    pub size: u32,
    pub trial: Trial,
    pub outcome: Outcome,
    /// When it began, as RFC 3339 writes it.
    pub began: String,
    /// Raw data, by direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<Direction>,
}

/// The raw data of one direction of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// Such as "p0 to p1".
    pub name: String,
    /// What was sent.
    pub sent: Account,
    /// The gaps between frames as they were sent; `None` if fewer than two were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved: Option<AchievedSummary>,
    pub received: received::Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<Variation>,
    /// What speaks against the trial.
    pub verdict: Verdict,
    /// The longest pause of a loop that sends or receives, in ns.
    pub longest_pause_ns: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
}

/// The outcome of a trial for the search, from its directions. Latencies are the first direction's that has any:
/// percentiles do not add up, so a caller with the histograms of several puts the percentiles of their sum in place of
/// these. The time of the last loss and of an outage are left to the caller, too.
pub fn outcome(trial: &Trial, directions: &[Direction]) -> Outcome {
    let sum = |of: &dyn Fn(&Direction) -> u64| directions.iter().map(of).sum::<u64>();
    // Without a number of its own, what was sent and given up was intended.
    let intended = |direction: &Direction| {
        let account = direction.sent;
        account.intended.unwrap_or(account.sent + account.unsent + account.pending.unwrap_or(0))
    };
    let mut outcome = Outcome::new(
        trial,
        sum(&intended),
        sum(&|direction| direction.sent.sent),
        sum(&|direction| direction.sent.sent.saturating_sub(direction.received.lost)),
    );
    outcome.duplicates = sum(&|direction| direction.received.counters.duplicates);
    outcome.reordered = sum(&|direction| direction.received.counters.reordered);
    outcome.corrupt = sum(&|direction| direction.received.counters.corrupted);
    outcome.latency = directions.iter().find_map(|direction| direction.latency.as_ref().and_then(delays));
    // The counters show unsent frames.
    let doubts = |direction: &Direction| {
        let doubts = direction.verdict.doubts.iter().filter(|doubt| !matches!(doubt, verdict::Doubt::Unsent { .. }));
        doubts.map(Doubt::from).collect::<Vec<_>>()
    };
    let all: Vec<Vec<Doubt>> = directions.iter().map(doubts).collect();
    for (direction, doubts) in directions.iter().zip(&all) {
        for doubt in doubts {
            // What all have, as the machine is theirs together, is said once.
            let common = all.iter().all(|doubts| doubts.contains(doubt));
            let why = if common { doubt.why.clone() } else { format!("{}: {}", direction.name, doubt.why) };
            if !outcome.doubts.iter().any(|known| known.why == why) {
                outcome.doubts.push(Doubt { why, ..*doubt });
            }
        }
    }
    outcome
}

/// Latencies as searches use them; `None` if none was recorded.
pub fn delays(summary: &LatencySummary) -> Option<Delays> {
    (summary.count > 0).then_some(Delays {
        frames: summary.count,
        min: summary.min_ns as f64,
        mean: summary.mean_ns,
        median: summary.p50_ns as f64,
        p99: summary.p99_ns as f64,
        p999: summary.p99_9_ns as f64,
        max: summary.max_ns as f64,
    })
}
