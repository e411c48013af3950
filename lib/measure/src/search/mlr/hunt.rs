// SPDX-License-Identifier: MIT
//! How MLRsearch approaches one goal.
//!
//! On the way to the goal there are targets with shorter trials, each longer than the one before by the same factor. A
//! target starts from the bounds of its predecessor (the first one, from what the device forwarded at the maximum) and
//! confirms them by its own trials. If a bound does not hold, it searches outward in growing steps and then halves the
//! interval.

use super::super::Step;
use super::super::goal::{Goal, Target};
use super::super::loads::{Bounds, Loads};
use super::super::throughput::Limits;

/// A target's duration sum is at most this many times its predecessor's.
const FACTOR: f64 = 12.0;
/// How often a target takes the forwarded rate as a guess. With more guesses, a device whose loss does not depend on
/// the load would be followed down in tiny steps.
const GUESSES: u8 = 2;
/// The factor by which steps outward grow.
const GROWTH: f64 = 2.0;
/// A load that was tried before is reused in place of one this close to it, as a share of the width.
const NEAR: f64 = 0.25;

/// One goal and its progress.
#[derive(Debug, Clone)]
pub(super) struct Hunt<'a> {
    goal: &'a Goal,
    targets: Vec<Target>,
    /// Index of the current target; past the last one, the hunt is over.
    at: usize,
    /// Loads that are expected to be the target's bounds, in frames per second.
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
        // The goal, if the hunt is over.
        &self.targets[self.at.min(self.targets.len() - 1)]
    }

    pub fn bounds(&self, loads: &Loads) -> Bounds {
        loads.bounds(self.target())
    }

    /// Moves on to the next target if the current one is reached; called after each trial, whichever goal it was for.
    /// Later trials may contradict an earlier target, which does not matter, or the goal itself, which is then
    /// hunted again.
    pub fn advance(&mut self, loads: &Loads, limits: &Limits, reached: Option<f64>) {
        let goal = self.targets.len() - 1;
        if self.at > goal {
            self.at = goal;
        }
        while self.at <= goal {
            let bounds = self.bounds(loads);
            if !self.is_reached(bounds, limits, reached) {
                self.take_guess(bounds, loads);
                return;
            }
            (self.guess, self.guesses) = (bounds, GUESSES);
            self.at += 1;
        }
    }

    fn is_reached(&self, bounds: Bounds, limits: &Limits, reached: Option<f64>) -> bool {
        let maximum = limits.maximum_of(reached);
        match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) if self.target().is_narrow(lower, upper) => true,
            (_, Some(upper)) if upper <= limits.minimum => true,
            // The maximum may have been lowered below the known bounds.
            (lower, _) => lower.map_or(maximum < limits.minimum, |lower| lower >= maximum),
        }
    }

    /// The rate that the device forwarded at a load that failed may be its limit.
    fn take_guess(&mut self, bounds: Bounds, loads: &Loads) {
        let Some(failed) = bounds.upper.and_then(|upper| loads.at(upper)) else { return };
        if self.guesses == 0 || self.guess.lower.is_some_and(|guess| guess < failed.load) {
            return;
        }
        let target = *self.target();
        let lower = failed.forwarded(target.duration) / (1.0 - target.loss_ratio) * (1.0 - target.width / 2.0);
        if lower < failed.load * (1.0 - target.width) && bounds.lower.is_none_or(|known| lower > known) {
            self.guesses -= 1;
            self.guess = Bounds { lower: Some(lower), upper: Some(lower / (1.0 - target.width)) };
        }
    }

    /// The load, duration and purpose of the next trial for this goal.
    pub fn nominate(&self, loads: &Loads, limits: &Limits, reached: Option<f64>) -> (f64, f64, Step) {
        let maximum = limits.maximum_of(reached);
        let bounds = self.bounds(loads);
        let (load, step) = match (bounds.lower, bounds.upper) {
            (None, None) => (self.guess_within(bounds).unwrap_or(maximum), Step::Below),
            (None, Some(upper)) => self.below(upper, maximum),
            (Some(lower), None) => self.above(lower, limits.minimum),
            (Some(lower), Some(upper)) => self.between(lower, upper),
        };
        let load = loads.near(load, self.slack(load, step, bounds), bounds).unwrap_or(load);
        let (load, step) = if load >= maximum {
            (maximum, Step::Maximum)
        } else if load <= limits.minimum {
            (limits.minimum, Step::Minimum)
        } else {
            (load, step)
        };
        (load, self.target().duration, step)
    }

    /// The range in which a load that was tried before may be reused, which saves trials: where it cannot make the
    /// bounds wider than the width.
    fn slack(&self, load: f64, step: Step, bounds: Bounds) -> (f64, f64) {
        let width = self.target().width;
        let slack = NEAR * width * load;
        let is_far = bounds.upper.is_none_or(|upper| load / (1.0 - width) < upper * (1.0 - width));
        match step {
            Step::Above => (load - slack, load),
            Step::Between => (load - slack, load + slack),
            _ => (if is_far { load - slack } else { load }, load + slack),
        }
    }

    fn below(&self, upper: f64, maximum: f64) -> (f64, Step) {
        match self.guess_within(Bounds { lower: None, upper: Some(upper) }) {
            Some(guess) => (guess, Step::Forwarded),
            None => (self.outward(self.guess.lower.unwrap_or(maximum), |load| load < upper, true), Step::Below),
        }
    }

    fn above(&self, lower: f64, minimum: f64) -> (f64, Step) {
        // The highest load that is narrow enough as the upper bound.
        let reach = lower / (1.0 - self.target().width);
        match (self.guess.lower, self.guess.upper) {
            (Some(guess), _) if guess > reach => (guess, Step::Below),
            (_, Some(guess)) if guess > lower => (guess.min(reach), Step::Above),
            (_, guess) => (self.outward(guess.unwrap_or(minimum), |load| load > lower, false), Step::Above),
        }
    }

    /// A guess that is still within the bounds, the lower one first.
    fn guess_within(&self, bounds: Bounds) -> Option<f64> {
        [self.guess.lower, self.guess.upper].into_iter().flatten().find(|guess| bounds.enclose(*guess))
    }

    /// The first load beyond what is known, in growing steps from `from`. `from` has to stay the same throughout a
    /// target: starting from the bound, which moves, the steps would not grow.
    fn outward(&self, from: f64, is_beyond: impl Fn(f64) -> bool, down: bool) -> f64 {
        let mut steps: f64 = 1.0;
        loop {
            let factor = (1.0 - self.target().width).powf(steps);
            let load = if down { from * factor } else { from / factor };
            // Zero or infinity ends the loop; the limits apply then.
            if is_beyond(load) || !load.is_normal() {
                return load;
            }
            steps *= GROWTH;
        }
    }

    fn between(&self, lower: f64, upper: f64) -> (f64, Step) {
        let guess = self.guess_within(Bounds { lower: Some(lower), upper: Some(upper) });
        // Otherwise the geometric mean.
        (guess.unwrap_or_else(|| (lower * upper).sqrt()), Step::Between)
    }
}

/// The targets on the way to a goal, and finally the goal itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_become_longer_by_the_same_factor() {
        let rounded = |goal: &Goal| -> Vec<_> {
            targets(goal)
                .iter()
                .map(|t| ((t.duration * 10.0).round() / 10.0, (t.duration_sum * 10.0).round() / 10.0))
                .collect()
        };
        assert_eq!(rounded(&Goal::rfc2544()), [(1.0, 1.0), (7.7, 7.7), (60.0, 60.0)]);
        assert_eq!(rounded(&Goal::tst009()), [(1.0, 1.0), (11.0, 11.0), (60.0, 120.0)]);
        let long = Goal { initial_duration: None, ..Goal::rfc2544() };
        assert_eq!(rounded(&long), [(60.0, 60.0)]);
        let short = Goal { final_duration: 1.0, duration_sum: 21.0, ..Goal::tst009() };
        assert_eq!(rounded(&short), [(1.0, 1.0), (1.0, 4.6), (1.0, 21.0)]);
    }
}
