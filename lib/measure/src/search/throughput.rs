// SPDX-License-Identifier: MIT
//! Throughput, whichever way it is searched for: limits, results, and a model of the device to estimate the time left.

use serde::{Deserialize, Serialize};

use super::binary::Binary;
use super::evidence::{Evidence, Sieve};
use super::goal::Goal;
use super::loads::{Bounds, Loads};
use super::mlr::Mlr;
use super::{Likely, Method, Outcome, Trial};

/// The loads that a search may ask for, in frames per second, one way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Above zero, and enough for one frame in the shortest trial.
    pub minimum: f64,
    /// The medium's maximum (RFC 2544 section 20), or the tester's.
    pub maximum: f64,
}

/// A search for throughput of any kind.
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
    /// The relevant lower bound: the highest load that passed, of those below every load that failed; in frames per
    /// second.
    pub lower: Option<f64>,
    /// The relevant upper bound: the lowest load that failed.
    pub upper: Option<f64>,
    /// Conditional throughput: what was forwarded at the lower bound. Without loss, that is the lower bound. `None`
    /// also where the verdict is [`Verdict::Unanswered`]; the least that it can be where it is
    /// [`Verdict::AtLeast`].
    pub throughput: Option<f64>,
    pub verdict: Verdict,
    /// The highest load of which a trial of the final duration lost no more than the goal allows, whatever other
    /// trials say.
    pub proven: Option<f64>,
    /// Whether all trials at the bounds may be trusted.
    pub trusted: bool,
    /// The most that the tester could send, if it fell short, in frames per second.
    pub tester: Option<f64>,
}

/// Whether a result is regular, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Both bounds exist and are within the goal's width: a regular result (RFC 9971 section 4.8.4.1). All others are
    /// irregular.
    Regular,
    /// The minimum load fails: there is no throughput.
    MinimumFails,
    /// The maximum load passes: the device is as fast as the medium.
    MaximumPasses,
    /// The most that the tester could send passes: the throughput is at least that.
    TesterTooSlow,
    /// The tester was the limit: it fell short again and again, or lost frames itself. What a trial of the final
    /// duration forwarded is a lower bound all the same, whatever was asked for.
    AtLeast,
    /// The same, and no such trial was forwarded as the goal demands: this machine cannot answer.
    Unanswered,
    /// The search was interrupted, or reached its limit of trials, before the bounds were close enough.
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
    /// From the bounds, at the end of a search or before.
    pub(super) fn new(goal: &Goal, loads: &Loads, limits: &Limits, sieve: &Sieve) -> Self {
        Self::within(goal, loads, loads.bounds(&goal.target()), limits, sieve)
    }

    /// With bounds that the search found in its own way.
    pub(super) fn within(goal: &Goal, loads: &Loads, bounds: Bounds, limits: &Limits, sieve: &Sieve) -> Self {
        let target = goal.target();
        let Bounds { lower, upper } = bounds;
        let at = lower.and_then(|load| loads.at(load));
        let trusted =
            [lower, upper].into_iter().flatten().filter_map(|load| loads.at(load)).all(|tried| tried.is_trusted());
        let mut verdict = verdict(goal, bounds, limits, sieve);
        if verdict == Verdict::MinimumFails && upper.is_some_and(|upper| loads.is_doubtful(upper)) {
            // What was lost even there may be the tester's doing.
            verdict = Verdict::Unanswered;
        }
        let throughput = at.map(|tried| tried.conditional_throughput(&target));
        let found = Self {
            goal: goal.clone(),
            lower,
            upper,
            throughput: throughput.filter(|_| verdict != Verdict::Unanswered),
            verdict,
            proven: loads.proven(&target),
            trusted,
            tester: sieve.reached,
        };
        match loads.proof(&target) {
            Some(proof) if verdict == Verdict::Unanswered => found.at_least_as(proof),
            _ => found,
        }
    }

    /// With what this trial forwarded as the lower bound.
    fn at_least_as(self, proof: &Evidence) -> Self {
        Self {
            lower: Some(proof.load),
            upper: self.upper.filter(|upper| *upper > proof.load),
            throughput: Some(proof.load * (1.0 - proof.loss_ratio)),
            verdict: Verdict::AtLeast,
            trusted: proof.trusted,
            ..self
        }
    }

    /// What was forwarded without more loss than the goal allows: the throughput, or more, if a single trial showed
    /// more.
    pub fn at_least(&self) -> Option<f64> {
        self.lower.into_iter().chain(self.proven).reduce(f64::max)
    }
}

pub(super) fn verdict(goal: &Goal, bounds: Bounds, limits: &Limits, sieve: &Sieve) -> Verdict {
    let maximum = limits.maximum_of(sieve.reached);
    match (bounds.lower, bounds.upper) {
        (Some(lower), Some(upper)) if goal.target().is_narrow(lower, upper) => Verdict::Regular,
        (_, Some(upper)) if upper <= limits.minimum => Verdict::MinimumFails,
        (Some(lower), _) if lower >= limits.maximum => Verdict::MaximumPasses,
        (Some(lower), _) if lower >= maximum => Verdict::TesterTooSlow,
        (None, _) if maximum < limits.minimum => Verdict::TesterTooSlow,
        _ if sieve.gave_up() => Verdict::Unanswered,
        _ => Verdict::Unfinished,
    }
}

/// Trials of full length after the tester was given up, so that what it sends all the same is a lower bound.
const AFTERWARDS: usize = 7;

/// The load of the next of them: that of the trial that forwarded most as the goal demands, however short it was, then
/// what was forwarded of it, then half of that, and so on. `given_up` is after how many outcomes that was. `None`: one
/// of them has passed, or all were lossy, or a trial of full length has forwarded as much before.
pub(super) fn afterwards(goal: &Goal, limits: &Limits, so_far: &[Outcome], given_up: usize) -> Option<f64> {
    let (before, after) = so_far.split_at(given_up.min(so_far.len()));
    let passes = |outcome: &&Outcome| outcome.sent > 0 && outcome.loss_ratio() <= goal.loss_ratio;
    let is_full = |outcome: &&Outcome| outcome.duration >= goal.final_duration;
    if after.len() >= AFTERWARDS || after.iter().any(|outcome| passes(&outcome) && is_full(&outcome)) {
        return None;
    }
    let most = |outcomes: &mut dyn Iterator<Item = &Outcome>| -> Option<(f64, f64)> {
        let loads = outcomes.map(|outcome| (outcome.load, outcome.offered()));
        loads.reduce(|most, next| if next.1 > most.1 { next } else { most })
    };
    let lossy = || before.iter().map(|outcome| outcome.offered() * (1.0 - outcome.loss_ratio()));
    let (asked, forwarded) = match most(&mut before.iter().filter(passes)) {
        Some(most) => most,
        // All have lost frames, perhaps by the tester's doing.
        None => lossy().filter(|load| *load > 0.0).reduce(f64::min).map(|least| (least, least))?,
    };
    let load = match after.len() {
        0 => asked,
        further => forwarded / f64::from(1u32 << (further - 1).min(31)),
    };
    let load = load.clamp(limits.minimum, limits.maximum);
    let known = most(&mut before.iter().filter(passes).filter(is_full)).map_or(0.0, |known| known.1);
    // Less than what is known says nothing, and neither does the minimum once more.
    let repeats = after.last().is_some_and(|last| last.load <= limits.minimum);
    (forwarded > known && load > known && !repeats).then_some(load)
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
