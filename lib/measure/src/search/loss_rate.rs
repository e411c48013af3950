// SPDX-License-Identifier: MIT
//! Frame loss rate (RFC 2544 section 26.3): the loss at the maximum load and, in steps, at lower ones, until two
//! successive trials have no loss.

use serde::{Deserialize, Serialize};

use super::evidence::{Sieve, Trust};
use super::{Likely, Method, Outcome, Purpose, Shape, Trial};

/// The settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossRate {
    /// In frames per second, one way.
    pub maximum: f64,
    /// As a share of the maximum; at most 0.1.
    pub step: f64,
    /// Of each trial, in seconds.
    pub duration: f64,
    #[serde(default)]
    pub trust: Trust,
}

/// A point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The offered load in frames per second; less than intended if the tester fell short.
    pub load: f64,
    /// Share of the offered frames that were lost.
    pub loss_ratio: f64,
    pub trusted: bool,
}

/// The curve, from the maximum down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub points: Vec<Point>,
    /// Whether it ends with two successive trials without loss, or with the smallest step; not if the tester fell
    /// short again and again.
    pub complete: bool,
}

impl LossRate {
    /// The points so far, and the lowest load that was asked for.
    fn replay(&self, so_far: &[Outcome]) -> (Sieve, Vec<Point>, f64) {
        let mut sieve = Sieve::new(self.trust, 0.0);
        let (mut points, mut lowest) = (Vec::new(), f64::INFINITY);
        for outcome in so_far {
            let evidence = sieve.sift(outcome);
            if sieve.attempt().is_some() {
                continue;
            }
            lowest = lowest.min(outcome.load);
            points.extend(evidence.map(|e| Point { load: e.load, loss_ratio: e.loss_ratio, trusted: e.trusted }));
        }
        (sieve, points, lowest)
    }

    /// The next load in frames per second: the highest step below those asked for so far that the tester can reach.
    fn load(&self, sieve: &Sieve, points: &[Point], lowest: f64) -> Option<f64> {
        if let [.., a, b] = points
            && a.loss_ratio == 0.0
            && b.loss_ratio == 0.0
        {
            return None;
        }
        let reached = sieve.reached.unwrap_or(f64::INFINITY);
        let steps = (1.0 / self.step).ceil() as u32;
        (0..steps)
            .map(|step| self.maximum * (1.0 - f64::from(step) * self.step))
            // The last step may be a rounding error instead of zero.
            .filter(|load| *load > self.maximum * self.step * 0.01)
            .find(|load| *load < lowest * (1.0 - 1e-9) && *load <= reached)
    }
}

impl Method for LossRate {
    type Found = Curve;

    fn next(&self, so_far: &[Outcome]) -> Option<Trial> {
        let (sieve, points, lowest) = self.replay(so_far);
        if sieve.gave_up() {
            return None;
        }
        let (load, duration, attempt) = match sieve.attempt().zip(so_far.last()) {
            Some((attempt, last)) => (last.load, last.duration, attempt),
            None => (self.load(&sieve, &points, lowest)?, self.duration, 1),
        };
        Some(Trial { load, duration, shape: Shape::Steady, purpose: Purpose::LossRate { attempt } })
    }

    fn found(&self, so_far: &[Outcome]) -> Curve {
        let (sieve, points, _) = self.replay(so_far);
        Curve { points, complete: self.next(so_far).is_none() && !sieve.gave_up() }
    }

    fn likely(&self, so_far: &[Outcome]) -> Likely {
        // The lowest rate forwarded with loss. Without loss so far, there is none at lower loads either; before the
        // first trial, a share of the maximum is as good a guess as any.
        let points = self.replay(so_far).1;
        let lossy = points.iter().filter(|point| point.loss_ratio > 0.0);
        let limit = lossy.map(|point| point.load * (1.0 - point.loss_ratio)).reduce(f64::min);
        let unknown = self.maximum * if points.is_empty() { 0.4 } else { 1.0 };
        Likely { limit: limit.unwrap_or(unknown), room: 0.0 }
    }
}
