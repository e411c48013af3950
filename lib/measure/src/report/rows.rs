// SPDX-License-Identifier: MIT
//! The results of one test at one frame size, as a report has them.

use serde::{Deserialize, Serialize};

use crate::pace::rate::wire_bits;
use crate::search::Outcome;
use crate::search::back_to_back::Bursts;
use crate::search::goal::Goal;
use crate::search::latency::AtLoad;
use crate::search::loss_rate::Curve;
use crate::search::recovery::{Recovered, ResetTimes};
use crate::search::throughput::{Found, Verdict};

/// Throughput at one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputRow {
    /// In bytes, with the FCS.
    pub size: u32,
    /// The throughput for the first goal, in frames per second, one way.
    pub pps: Option<f64>,
    /// Share of the frames that were lost at the lower bound of the first goal.
    pub loss: Option<f64>,
    /// The number of trials, for all goals.
    pub trials: usize,
    /// The highest load that there can be, in frames per second.
    pub maximum_pps: f64,
    /// Trials in which the tester sent less than was asked for, beyond what does not matter, and the smallest share
    /// that it sent.
    #[serde(default)]
    pub short_trials: usize,
    #[serde(default)]
    pub least_sent: Option<f64>,
    /// Trials that lost frames, perhaps by the tester's doing: it fell short, or has doubts about itself.
    #[serde(default)]
    pub doubtful_trials: usize,
    /// The most that any trial, however short, forwarded as the first goal demands, in frames per second.
    #[serde(default)]
    pub forwarded_pps: Option<f64>,
    pub goals: Vec<GoalRow>,
}

/// Throughput for one goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalRow {
    pub goal: Goal,
    /// Conditional throughput (RFC 9971 section 6.3), in frames per second, one way.
    pub pps: Option<f64>,
    /// The same on the wire, in bits per second.
    pub bits_per_s: Option<f64>,
    /// The same as a share of the maximum.
    pub share: Option<f64>,
    /// Share of the frames that were lost at the lower bound.
    pub loss: Option<f64>,
    /// Relevant bounds, in frames per second.
    pub lower_pps: Option<f64>,
    pub upper_pps: Option<f64>,
    /// The most that a trial forwarded without more loss than the goal allows, in frames per second.
    #[serde(default)]
    pub proven_pps: Option<f64>,
    pub verdict: Verdict,
    /// Whether all trials at the bounds may be trusted.
    pub trusted: bool,
    /// The most that the tester could send, if it fell short.
    pub tester_pps: Option<f64>,
}

/// Latency at one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    pub size: u32,
    pub trials: usize,
    pub loads: Vec<AtLoad>,
}

/// Frame loss rate at one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossRateRow {
    pub size: u32,
    pub trials: usize,
    pub maximum_pps: f64,
    pub curve: Curve,
}

/// Back-to-back frames at one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackToBackRow {
    pub size: u32,
    pub trials: usize,
    /// The rate of the bursts, in frames per second.
    pub maximum_pps: f64,
    pub bursts: Bursts,
}

/// System recovery at one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecoveryRow {
    pub size: u32,
    pub trials: usize,
    pub recovered: Recovered,
}

/// Reset at one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResetRow {
    pub size: u32,
    pub trials: usize,
    pub times: ResetTimes,
}

impl ThroughputRow {
    pub(super) fn new(size: u32, outcomes: &[Outcome], unsent: f64, maximum_pps: f64, found: &[Found]) -> Self {
        let goals: Vec<_> = found.iter().map(|found| GoalRow::new(size, maximum_pps, found)).collect();
        let (pps, loss) = goals.first().map_or((None, None), |goal| (goal.pps, goal.loss));
        let short: Vec<f64> = outcomes.iter().map(Outcome::unsent_ratio).filter(|ratio| *ratio > unsent).collect();
        let least_sent = short.iter().map(|ratio| 1.0 - ratio).reduce(f64::min);
        let doubtful = |o: &&Outcome| o.lost() > 0 && (o.unsent_ratio() > unsent || o.is_spoiled(true));
        let allowed = found.first().map_or(0.0, |found| found.goal.loss_ratio);
        let passed = outcomes.iter().filter(|outcome| outcome.sent > 0 && outcome.loss_ratio() <= allowed);
        let forwarded_pps = passed.map(Outcome::offered).reduce(f64::max);
        Self {
            forwarded_pps,
            size,
            pps,
            loss,
            trials: outcomes.len(),
            maximum_pps,
            short_trials: short.len(),
            doubtful_trials: outcomes.iter().filter(doubtful).count(),
            least_sent,
            goals,
        }
    }
}

impl GoalRow {
    fn new(size: u32, maximum_pps: f64, found: &Found) -> Self {
        let pps = found.throughput;
        Self {
            goal: found.goal.clone(),
            pps,
            bits_per_s: pps.map(|pps| pps * wire_bits(f64::from(size))),
            share: pps.map(|pps| pps / maximum_pps),
            // Of a load and what was forwarded of it; a rounding error is no loss.
            loss: pps.zip(found.lower).map(|(pps, lower)| (1.0 - pps / lower).max(0.0)),
            lower_pps: found.lower,
            upper_pps: found.upper,
            proven_pps: found.at_least(),
            verdict: found.verdict,
            trusted: found.trusted,
            tester_pps: found.tester,
        }
    }
}
