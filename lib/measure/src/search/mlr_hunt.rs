// SPDX-License-Identifier: MIT
//! How MLRsearch approaches one goal.
//!
//! On the way to the goal there are targets with shorter trials and sums, each longer by the same factor. A target starts from
//! the bounds of the one before (the first from what the device forwarded at the maximum), has them confirmed by its own trials,
//! looks further out in steps that grow where one is not, and halves what is between.

use super::Step;
use super::goal::{Goal, Target};
use super::loads::{Bounds, Loads};
use super::throughput::Limits;

/// The duration sum of a target is at most this many times that of the one before.
const FACTOR: f64 = 12.0;
/// How often the rate forwarded is taken for a guess. More would creep along where loss does not depend on the load.
const GUESSES: u8 = 2;
/// Steps outward grow by this.
const GROWTH: f64 = 2.0;
/// A load that was tried before is taken for one that is this close to it, as a share of the width.
const NEAR: f64 = 0.25;

/// One goal, and how far it is.
#[derive(Debug, Clone)]
pub(super) struct Hunt<'a> {
    goal: &'a Goal,
    targets: Vec<Target>,
    /// The target that is being hunted; past the last one, all is done.
    at: usize,
    /// Loads that should become the target's bounds, in frames per second.
    guess: Bounds,
    guesses: u8,
}

impl<'a> Hunt<'a> {
    pub fn new(goal: &'a Goal) -> Self {
        Self { goal, targets: targets(goal), at: 0, guess: Bounds::default(), guesses: GUESSES }
    }

    pub fn goal(&self) -> &Goal {
        self.goal
    }

    pub fn is_over(&self) -> bool {
        self.at == self.targets.len()
    }

    fn target(&self) -> &Target {
        // Of a hunt that is over, the goal.
        &self.targets[self.at.min(self.targets.len() - 1)]
    }

    pub fn bounds(&self, loads: &Loads) -> Bounds {
        loads.bounds(self.target())
    }

    /// After a trial, by whichever goal it was asked for: on to the next target if this one is reached. One that a later trial
    /// calls in question is not gone back to; the goal itself is, as nothing comes after it.
    pub fn advance(&mut self, loads: &Loads, limits: &Limits, reached: Option<f64>) {
        let goal = self.targets.len() - 1;
        if self.at > goal {
            self.at = goal;
        }
        while self.at <= goal {
            let bounds = self.bounds(loads);
            if !self.is_reached(bounds, limits, reached) {
                if self.at == 0 {
                    self.take_guess(bounds, loads);
                }
                return;
            }
            self.guess = bounds;
            self.at += 1;
        }
    }

    fn is_reached(&self, bounds: Bounds, limits: &Limits, reached: Option<f64>) -> bool {
        let maximum = limits.maximum_of(reached);
        match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) if self.target().is_narrow(lower, upper) => true,
            (_, Some(upper)) if upper <= limits.minimum => true,
            // The maximum may have become less than the bounds that are known.
            (lower, _) => lower.map_or(maximum < limits.minimum, |lower| lower >= maximum),
        }
    }

    /// What the device forwarded at a load that failed may be what it can.
    fn take_guess(&mut self, bounds: Bounds, loads: &Loads) {
        let Some(failed) = bounds.upper.and_then(|upper| loads.at(upper)) else { return };
        if self.guesses == 0 || self.guess.lower.is_some_and(|guess| guess < failed.load) {
            return;
        }
        let target = *self.target();
        let lower = failed.forwarded() / (1.0 - target.loss_ratio) * (1.0 - target.width / 2.0);
        if lower < failed.load * (1.0 - target.width) && bounds.lower.is_none_or(|known| lower > known) {
            self.guesses -= 1;
            self.guess = Bounds { lower: Some(lower), upper: Some(lower / (1.0 - target.width)) };
        }
    }

    /// The load, duration and purpose of the trial that brings this goal on.
    pub fn nominate(&self, loads: &Loads, limits: &Limits, reached: Option<f64>) -> (f64, f64, Step) {
        let maximum = limits.maximum_of(reached);
        let bounds = self.bounds(loads);
        let (load, step) = match (bounds.lower, bounds.upper) {
            (None, None) => (self.guess.lower.or(self.guess.upper).unwrap_or(maximum), Step::Below),
            (None, Some(upper)) => self.below(upper, maximum),
            (Some(lower), None) => self.above(lower, limits.minimum),
            (Some(lower), Some(upper)) => self.between(lower, upper),
        };
        // A load that was tried before saves trials, where it does not make the bounds wider.
        let slack = NEAR * self.target().width * load;
        let (down, up) = match step {
            Step::Above => (slack, 0.0),
            Step::Between => (slack, slack),
            _ => (0.0, slack),
        };
        let load = loads.near(load, (load - down, load + up), bounds).unwrap_or(load);
        let (load, step) = if load >= maximum {
            (maximum, Step::Maximum)
        } else if load <= limits.minimum {
            (limits.minimum, Step::Minimum)
        } else {
            (load, step)
        };
        (load, self.target().duration, step)
    }

    fn below(&self, upper: f64, maximum: f64) -> (f64, Step) {
        match self.guess.lower {
            Some(guess) if guess < upper => (guess, if self.at == 0 { Step::Forwarded } else { Step::Below }),
            guess => (self.outward(guess.unwrap_or(maximum), |load| load < upper, true), Step::Below),
        }
    }

    fn above(&self, lower: f64, minimum: f64) -> (f64, Step) {
        match self.guess.upper {
            Some(guess) if guess > lower => (guess, Step::Above),
            guess => (self.outward(guess.unwrap_or(minimum), |load| load > lower, false), Step::Above),
        }
    }

    /// The first load away from `from`, in steps that grow, that is beyond what is known. `from` stays the same while a target is
    /// hunted: from the bounds themselves, the steps would not grow.
    fn outward(&self, from: f64, is_beyond: impl Fn(f64) -> bool, down: bool) -> f64 {
        let mut steps: f64 = 1.0;
        loop {
            let factor = (1.0 - self.target().width).powf(steps);
            let load = if down { from * factor } else { from / factor };
            // It gets to zero or to infinity some time, which the limits catch.
            if is_beyond(load) || !load.is_normal() {
                return load;
            }
            steps *= GROWTH;
        }
    }

    fn between(&self, lower: f64, upper: f64) -> (f64, Step) {
        let inside = |guess: &f64| *guess > lower && *guess < upper;
        if let Some(guess) = self.guess.lower.filter(inside).or(self.guess.upper.filter(inside)) {
            return (guess, Step::Between);
        }
        // The same share of each of the two.
        ((lower * upper).sqrt(), Step::Between)
    }
}

/// The targets on the way to a goal, and the goal.
fn targets(goal: &Goal) -> Vec<Target> {
    let last = goal.target();
    let initial = goal.initial_duration().min(goal.final_duration);
    let steps = ((last.duration_sum / initial).ln() / FACTOR.ln()).ceil().max(0.0) as i32;
    let mut targets: Vec<_> = (0..steps)
        .map(|step| {
            let duration_sum = initial * (last.duration_sum / initial).powf(f64::from(step) / f64::from(steps));
            Target { duration: duration_sum.min(last.duration), duration_sum, ..last }
        })
        .collect();
    targets.push(last);
    targets
}
