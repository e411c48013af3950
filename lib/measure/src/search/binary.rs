// SPDX-License-Identifier: MIT
//! Binary search for throughput: plain (RFC 2544 section 26.1), or with loss verification (ETSI GS NFV-TST 009 clause
//! 12.3.3), where a lossy trial is repeated before it counts.
//!
//! The maximum is tried first, as a device that forwards it needs no search; then, repeatedly, the middle between what
//! passed and what failed. The minimum is tried only if no load above it has passed.

use serde::{Deserialize, Serialize};

use super::evidence::{Sieve, Trust};
use super::goal::Goal;
use super::loads::{Bounds, Loads};
use super::throughput::{Found, Limits, afterwards, verdict};
use super::{Likely, Method, Outcome, Purpose, Shape, Step, Trial};

/// A binary search's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binary {
    /// The name of its goal.
    pub name: String,
    pub limits: Limits,
    /// Of each trial, in seconds.
    pub duration: f64,
    /// Share of the frames that a trial may lose.
    #[serde(default)]
    pub loss_ratio: f64,
    /// The search ends when lower and upper bound are this close, as a share of the upper one.
    pub width: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    #[serde(default)]
    pub trust: Trust,
}

/// Loss verification.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// A load fails only if this many trials are lossy: max(r) in TST009, at least 2.
    pub trials: u32,
    /// A trial that loses more frames than this counts at once: z in TST009. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u64>,
}

/// A search, after the outcomes so far.
struct State {
    sieve: Sieve,
    loads: Loads,
    bounds: Bounds,
    /// Lossy trials at the load under test, and the load; `None` if it has passed or failed.
    under_test: Option<(u32, f64)>,
    /// After how many trials the tester was given up.
    given_up: Option<usize>,
}

impl Binary {
    pub fn new(name: &str, limits: Limits, duration: f64, width: f64, verify: Option<Verify>) -> Self {
        Self { name: name.into(), limits, duration, loss_ratio: 0.0, width, verify, trust: Trust::default() }
    }

    /// This search's goal in the terms of RFC 9971.
    pub fn goal(&self) -> Goal {
        let trials = self.trials();
        Goal {
            name: self.name.clone(),
            loss_ratio: self.loss_ratio,
            exceed_ratio: f64::from(trials - 1) / f64::from(trials),
            final_duration: self.duration,
            duration_sum: self.duration * f64::from(trials),
            initial_duration: None,
            width: self.width,
        }
    }

    fn trials(&self) -> u32 {
        self.verify.map_or(1, |verify| verify.trials.max(1))
    }

    fn replay(&self, so_far: &[Outcome]) -> State {
        let sieve = Sieve::new(self.trust, self.loss_ratio);
        let (loads, bounds) = (Loads::default(), Bounds::default());
        let mut state = State { sieve, loads, bounds, under_test: None, given_up: None };
        for (before, outcome) in so_far.iter().enumerate() {
            let evidence = state.sieve.sift(outcome);
            if state.sieve.gave_up() {
                state.given_up.get_or_insert(before + 1);
            }
            let Some(evidence) = evidence else { continue };
            state.loads.add(evidence);
            if evidence.loss_ratio <= self.loss_ratio {
                // If the tester fell short, it may be less than what passed before, and says nothing about the load
                // under test.
                state.under_test = state.under_test.filter(|_| evidence.short);
                let lower = state.bounds.lower.map_or(evidence.load, |lower| lower.max(evidence.load));
                state.bounds.lower = Some(lower);
                state.bounds.upper =
                    state.bounds.upper.filter(|upper| lower < *upper || !state.loads.is_doubtful(*upper));
                continue;
            }
            if evidence.doubtful && state.bounds.lower.is_some_and(|lower| evidence.load <= lower) {
                state.under_test = None;
                continue;
            }
            let times = state.under_test.map_or(1, |(times, _)| times + 1);
            let at_once = self.verify.and_then(|verify| verify.at_once).is_some_and(|limit| evidence.lost > limit);
            if times < self.trials() && !at_once {
                state.under_test = Some((times, evidence.load));
            } else {
                state.under_test = None;
                state.bounds.upper = Some(state.bounds.upper.map_or(evidence.load, |upper| upper.min(evidence.load)));
            }
        }
        state
    }

    fn middle(&self, state: &State) -> (f64, Step) {
        let maximum = self.limits.maximum_of(state.sieve.reached);
        if let Some((_, load)) = state.under_test.filter(|(_, load)| *load <= maximum) {
            return (load, Step::Verify);
        }
        match state.bounds {
            Bounds { upper: None, .. } => (maximum, Step::Maximum),
            Bounds { lower: None, upper: Some(upper) }
                if self.goal().target().is_narrow(self.limits.minimum, upper) =>
            {
                (self.limits.minimum, Step::Minimum)
            }
            Bounds { lower, upper: Some(upper) } => {
                let load = f64::midpoint(lower.unwrap_or(self.limits.minimum), upper);
                if load < maximum { (load, Step::Between) } else { (maximum, Step::Maximum) }
            }
        }
    }
}

impl Method for Binary {
    type Found = Found;

    fn next(&self, so_far: &[Outcome]) -> Option<Trial> {
        let state = self.replay(so_far);
        let goal = self.goal();
        if let Some(given_up) = state.given_up {
            let load = afterwards(&goal, &self.limits, so_far, given_up)?;
            let purpose = Purpose::Throughput { goal: goal.name, step: Step::Forwarded, attempt: 1 };
            return Some(Trial { load, duration: self.duration, shape: Shape::Steady, purpose });
        }
        if let Some((attempt, last)) = state.sieve.attempt().zip(so_far.last()) {
            let purpose = Purpose::Throughput { goal: goal.name, step: self.middle(&state).1, attempt };
            return Some(Trial { load: last.load, duration: last.duration, shape: Shape::Steady, purpose });
        }
        let is_over =
            verdict(&goal, state.bounds, &self.limits, &state.sieve) != super::throughput::Verdict::Unfinished;
        if is_over && state.under_test.is_none() {
            return None;
        }
        let (load, step) = self.middle(&state);
        let purpose = Purpose::Throughput { goal: goal.name, step, attempt: 1 };
        Some(Trial { load, duration: self.duration, shape: Shape::Steady, purpose })
    }

    fn found(&self, so_far: &[Outcome]) -> Found {
        let state = self.replay(so_far);
        let goal = self.goal();
        // The search decides about loss that counts at once; the goal's sums do not know of it.
        Found::within(&goal, &state.loads, state.bounds, &self.limits, &state.sieve)
    }

    fn likely(&self, so_far: &[Outcome]) -> Likely {
        let state = self.replay(so_far);
        self.limits.likely(&self.goal(), state.bounds, &state.loads, state.sieve.reached)
    }
}
