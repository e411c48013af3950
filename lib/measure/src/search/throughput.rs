// SPDX-License-Identifier: MIT
//! Throughput, however it is looked for: limits, results, and a model of the device for the time left.

use serde::{Deserialize, Serialize};

use super::binary::Binary;
use super::goal::Goal;
use super::loads::{Bounds, Loads};
use super::mlr::Mlr;
use super::{Likely, Method, Outcome, Trial};

/// The loads that a search may ask for, in frames per second, one way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Above zero, and enough for a frame in the shortest trial.
    pub minimum: f64,
    /// The medium's maximum (RFC 2544 section 20), or what the tester reaches.
    pub maximum: f64,
}

/// A search for throughput, of whichever kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Throughput {
    Binary(Binary),
    Mlr(Mlr),
}

/// The throughput that a search found for one goal (RFC 9971, Goal Result).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    pub goal: Goal,
    /// The relevant lower bound: the largest load that passed below those that failed, in frames per second.
    pub lower: Option<f64>,
    /// The relevant upper bound: the smallest load that failed.
    pub upper: Option<f64>,
    /// Conditional throughput: what was forwarded at the lower bound. Without loss, that is the lower bound.
    pub throughput: Option<f64>,
    pub verdict: Verdict,
    /// Does the result rest only on trials that may be trusted?
    pub trusted: bool,
    /// What the tester could send at most, if that was less than the limit, in frames per second.
    pub tester: Option<f64>,
}

/// Is it a result, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Both bounds, within the goal's width: a regular result. All others are irregular ones.
    Regular,
    /// The minimum load fails: there is no throughput.
    MinimumFails,
    /// The maximum load passes: the throughput is the medium's.
    MaximumPasses,
    /// All that the tester could send passes: the throughput is at least this.
    TesterTooSlow,
    /// The search was interrupted, or reached its limit of trials: the bounds are further apart than they should be.
    Unfinished,
}

impl Method for Throughput {
    /// For each goal.
    type Found = Vec<Found>;

    fn next(&self, so_far: &[Outcome]) -> Option<Trial> {
        match self {
            Self::Binary(search) => search.next(so_far),
            Self::Mlr(search) => search.next(so_far),
        }
    }

    fn found(&self, so_far: &[Outcome]) -> Vec<Found> {
        match self {
            Self::Binary(search) => vec![search.found(so_far)],
            Self::Mlr(search) => search.found(so_far),
        }
    }

    fn likely(&self, so_far: &[Outcome]) -> Likely {
        match self {
            Self::Binary(search) => search.likely(so_far),
            Self::Mlr(search) => search.likely(so_far),
        }
    }
}

impl Found {
    /// From the bounds at the end of a search, or before it.
    pub(super) fn new(goal: &Goal, loads: &Loads, limits: &Limits, reached: Option<f64>) -> Self {
        let target = goal.target();
        let Bounds { lower, upper } = loads.bounds(&target);
        let at = lower.and_then(|load| loads.at(load));
        let trusted =
            [lower, upper].into_iter().flatten().filter_map(|load| loads.at(load)).all(|tried| tried.is_trusted());
        Self {
            goal: goal.clone(),
            lower,
            upper,
            throughput: at.map(|tried| tried.conditional_throughput(&target)),
            verdict: verdict(goal, Bounds { lower, upper }, limits, reached),
            trusted,
            tester: reached,
        }
    }
}

pub(super) fn verdict(goal: &Goal, bounds: Bounds, limits: &Limits, reached: Option<f64>) -> Verdict {
    let maximum = limits.maximum_of(reached);
    match (bounds.lower, bounds.upper) {
        (Some(lower), Some(upper)) if goal.target().is_narrow(lower, upper) => Verdict::Regular,
        (_, Some(upper)) if upper <= limits.minimum => Verdict::MinimumFails,
        (Some(lower), _) if lower >= limits.maximum => Verdict::MaximumPasses,
        (Some(lower), _) if lower >= maximum => Verdict::TesterTooSlow,
        (None, _) if maximum < limits.minimum => Verdict::TesterTooSlow,
        _ => Verdict::Unfinished,
    }
}

impl Limits {
    /// The maximum, given what the tester reached.
    pub(super) fn maximum_of(&self, reached: Option<f64>) -> f64 {
        reached.map_or(self.maximum, |reached| reached.min(self.maximum))
    }

    /// What the device is probably like, from the bounds of a goal.
    pub(super) fn likely(&self, goal: &Goal, bounds: Bounds, loads: &Loads, reached: Option<f64>) -> Likely {
        let maximum = self.maximum_of(reached);
        let load = match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) => f64::midpoint(lower, upper),
            (None, Some(upper)) => match loads.at(upper) {
                Some(tried) => tried.forwarded(goal.final_duration) / (1.0 - goal.loss_ratio),
                None => f64::midpoint(self.minimum, upper),
            },
            (Some(lower), None) => (lower * maximum).sqrt(),
            (None, None) => maximum * 0.4,
        };
        Likely { limit: load * (1.0 - goal.loss_ratio), room: 0.0 }
    }
}
