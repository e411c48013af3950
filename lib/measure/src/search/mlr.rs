// SPDX-License-Identifier: MIT
//! Multiple Loss Ratio search, MLRsearch (RFC 9971): throughput for several goals at once.
//!
//! The RFC defines what a result is and leaves the choice of trials open. Here, the first trial is a short one at the
//! maximum, and what the device forwards then is the first guess. Each goal is approached in stages with increasingly
//! long trials (`mlr/hunt.rs`). Every trial counts for all goals.

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Sieve, Trust};
use super::goal::Goal;
use super::loads::Loads;
use super::throughput::{Found, Limits, afterwards};
use super::{Likely, Method, Outcome, Purpose, Shape, Step, Trial};
use hunt::Hunt;

mod hunt;

/// MLRsearch's settings (Controller Input in RFC 9971).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mlr {
    pub goals: Vec<Goal>,
    pub limits: Limits,
    #[serde(default)]
    pub trust: Trust,
    /// The search ends after this many trials, even if it has not found its results.
    #[serde(default = "at_most")]
    pub at_most: u32,
}

/// Enough for 20 trials at each of 50 loads.
fn at_most() -> u32 {
    1000
}

/// A search, after the outcomes so far.
struct State<'a> {
    sieve: Sieve,
    loads: Loads,
    hunts: Vec<Hunt<'a>>,
    trials: u32,
    /// After how many trials the tester was given up.
    given_up: Option<usize>,
}

impl Mlr {
    pub fn new(goals: Vec<Goal>, limits: Limits) -> Self {
        Self { goals, limits, trust: Trust::default(), at_most: at_most() }
    }

    fn replay(&self, so_far: &[Outcome]) -> State<'_> {
        let loss_ratio = self.goals.iter().map(|goal| goal.loss_ratio).fold(0.0, f64::max);
        let mut state = State {
            sieve: Sieve::new(self.trust, loss_ratio),
            loads: Loads::default(),
            hunts: self.goals.iter().map(Hunt::new).collect(),
            trials: 0,
            given_up: None,
        };
        for outcome in so_far {
            state.trials += 1;
            let evidence = state.sieve.sift(outcome);
            state.take(evidence, &self.limits);
            if state.sieve.gave_up() {
                state.given_up.get_or_insert(state.trials as usize);
            }
        }
        state
    }
}

impl State<'_> {
    /// Without evidence, the tester's limit may have changed all the same.
    fn take(&mut self, evidence: Option<Evidence>, limits: &Limits) {
        evidence.into_iter().for_each(|evidence| self.loads.add(evidence));
        for hunt in &mut self.hunts {
            hunt.advance(&self.loads, limits, self.sieve.reached);
        }
    }
}

impl Method for Mlr {
    type Found = Vec<Found>;

    fn next(&self, so_far: &[Outcome]) -> Option<Trial> {
        let state = self.replay(so_far);
        if state.trials >= self.at_most {
            return None;
        }
        let mut open = state.hunts.iter().filter(|hunt| !hunt.is_over());
        if let Some(given_up) = state.given_up {
            let next = |goal| Some((goal, afterwards(goal, &self.limits, so_far, given_up)?));
            let (goal, load) = open.find_map(|hunt| next(hunt.goal()))?;
            let purpose = Purpose::Throughput { goal: goal.name.clone(), step: Step::Forwarded, attempt: 1 };
            return Some(Trial { load, duration: goal.final_duration, shape: Shape::Steady, purpose });
        }
        let hunt = open.next()?;
        let again = state.sieve.attempt().and_then(|attempt| Some((attempt, so_far.last()?)));
        let (load, duration, step) = hunt.nominate(&state.loads, &self.limits, state.sieve.reached);
        // A trial that has to be run again is repeated unchanged.
        let (load, duration, attempt) =
            again.map_or((load, duration, 1), |(attempt, last)| (last.load, last.duration, attempt));
        let purpose = Purpose::Throughput { goal: hunt.goal().name.clone(), step, attempt };
        Some(Trial { load, duration, shape: Shape::Steady, purpose })
    }

    fn found(&self, so_far: &[Outcome]) -> Vec<Found> {
        let state = self.replay(so_far);
        self.goals.iter().map(|goal| Found::new(goal, &state.loads, &self.limits, &state.sieve)).collect()
    }

    fn likely(&self, so_far: &[Outcome]) -> Likely {
        let state = self.replay(so_far);
        let Some(hunt) = state.hunts.iter().find(|hunt| !hunt.is_over()).or(state.hunts.last()) else {
            return Likely::CLEAN;
        };
        self.limits.likely(hunt.goal(), hunt.bounds(&state.loads), &state.loads, state.sieve.reached)
    }
}
