// SPDX-License-Identifier: MIT
//! From outcomes to evidence: which trials count, at which load, and which have to be run again because of the tester.
//!
//! - A trial that doubts invalidate is run again, up to [`Trust::attempts`] times in all. The last attempt counts, and results that
//!   rest on it are marked.
//! - The device is not blamed for frames that the tester failed to send: such a trial counts at the load that was offered. If the
//!   device lost frames all the same, it has failed at that load. If it lost none, the trial is run again, and if the tester falls
//!   short in every attempt, the most that it reached becomes the maximum load. If it cannot sustain that either, the maximum is
//!   lowered in steps that double, so every search ends, whatever the tester does.
//!
//! On a busy machine a tester may stumble in every trial. Then repetitions do not help, and trials are no longer repeated because
//! of doubts. And a load that is lower than what the tester has sent before does not become the maximum the first time.

use serde::{Deserialize, Serialize};

use super::Outcome;

/// When to believe a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// How often a trial that may not be trusted is run, including the first time.
    pub attempts: u32,
    /// Up to this share of the intended frames, unsent ones do not matter.
    pub unsent: f64,
}

impl Default for Trust {
    fn default() -> Self {
        Self { attempts: 3, unsent: 0.001 }
    }
}

/// A trial that counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evidence {
    /// The load that it counts at, in frames per second.
    pub load: f64,
    /// In seconds.
    pub duration: f64,
    pub loss_ratio: f64,
    pub lost: u64,
    pub trusted: bool,
}

/// The first step, as a share of the maximum, when the tester cannot sustain the maximum that it reached before.
const STEP: f64 = 0.005;

/// After this many trials in a row that were invalid in every attempt, doubts do not lead to repetitions.
const PATIENCE: u32 = 2;
/// How often all attempts at a load may fall short of what the tester has sent before, without consequences.
const FORGIVEN: u32 = 1;

/// Outcomes, sifted one by one.
#[derive(Debug, Clone)]
pub(super) struct Sieve {
    trust: Trust,
    /// A trial that loses a larger share than this fails every goal.
    loss_ratio: f64,
    /// Attempts so far at the current trial, if it has to be run again; else 0.
    attempts: u32,
    /// The highest load that was offered in these attempts, in frames per second.
    best: f64,
    /// The load that the tester can reach, if it has fallen short.
    pub reached: Option<f64>,
    steps: u32,
    /// The highest load that was ever offered, in frames per second.
    capable: f64,
    forgiven: u32,
    /// Trials in a row that were invalid in every attempt.
    hopeless: u32,
}

impl Sieve {
    /// `loss_ratio` is the largest of the goals'.
    pub fn new(trust: Trust, loss_ratio: f64) -> Self {
        let (attempts, steps, forgiven, hopeless) = (0, 0, 0, 0);
        Self { trust, loss_ratio, attempts, best: 0.0, reached: None, steps, capable: 0.0, forgiven, hopeless }
    }

    /// Takes the next outcome; `None` if it has to be run again.
    pub fn sift(&mut self, outcome: &Outcome) -> Option<Evidence> {
        let offered = outcome.offered();
        let short = outcome.unsent_ratio() > self.trust.unsent;
        let lost = outcome.loss_ratio() > self.loss_ratio;
        let spoiled = outcome.is_spoiled(lost);
        self.capable = self.capable.max(offered);
        if (spoiled && self.hopeless < PATIENCE) || (short && !lost) {
            self.attempts += 1;
            self.best = self.best.max(offered);
            if self.attempts < self.trust.attempts {
                return None;
            }
        }
        self.hopeless = if spoiled { self.hopeless + 1 } else { 0 };
        let best = self.best;
        (self.attempts, self.best) = (0, 0.0);
        if short && !lost {
            self.lower(best);
        }
        Some(Evidence {
            load: if short { offered } else { outcome.load },
            duration: outcome.duration,
            loss_ratio: outcome.loss_ratio(),
            lost: outcome.lost(),
            trusted: !spoiled,
        })
    }

    /// Which attempt the next trial is, if the last one has to be run again.
    pub fn attempt(&self) -> Option<u32> {
        (self.attempts > 0).then_some(self.attempts + 1)
    }

    fn lower(&mut self, offered: f64) {
        if offered < self.capable * (1.0 - self.trust.unsent) && self.forgiven < FORGIVEN {
            self.forgiven += 1;
            return;
        }
        self.reached = Some(match self.reached {
            None => offered,
            Some(reached) => {
                self.steps += 1;
                offered.min(reached) * (1.0 - STEP * f64::from(1u32 << self.steps.min(7)))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Doubt, Purpose, Shape, Spoils, Trial};
    use super::*;

    fn outcome(load: f64, sent: u64, received: u64) -> Outcome {
        let trial = Trial { load, duration: 1.0, shape: Shape::Steady, purpose: Purpose::LossRate { attempt: 1 } };
        Outcome::new(&trial, load as u64, sent, received)
    }

    #[test]
    fn what_was_sent_and_lost_counts_at_once() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        let evidence = sieve.sift(&outcome(1000.0, 1000, 900)).unwrap();
        assert_eq!((evidence.load, evidence.loss_ratio, evidence.lost, evidence.trusted), (1000.0, 0.1, 100, true));
        assert_eq!((sieve.attempt(), sieve.reached), (None, None));
    }

    #[test]
    fn unsent_frames_are_no_loss() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        // Half of it is sent, and all of that received: two more attempts, then it is believed.
        for attempt in 2..=3 {
            assert_eq!(sieve.sift(&outcome(1000.0, 500, 500)), None);
            assert_eq!(sieve.attempt(), Some(attempt));
        }
        let evidence = sieve.sift(&outcome(1000.0, 480, 480)).unwrap();
        assert_eq!((evidence.load, evidence.loss_ratio), (480.0, 0.0));
        assert_eq!(sieve.reached, Some(500.0), "the best of the three");
    }

    #[test]
    fn a_device_that_loses_what_little_was_sent_has_failed() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        let evidence = sieve.sift(&outcome(1000.0, 500, 400)).unwrap();
        assert_eq!((evidence.load, evidence.loss_ratio), (500.0, 0.2));
        assert_eq!(sieve.reached, None, "the device is slower than the tester");
    }

    #[test]
    fn a_hiccup_of_the_tester_is_forgotten() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        assert_eq!(sieve.sift(&outcome(1000.0, 500, 500)), None);
        let evidence = sieve.sift(&outcome(1000.0, 1000, 1000)).unwrap();
        assert_eq!((evidence.load, evidence.trusted), (1000.0, true));
        assert_eq!((sieve.attempt(), sieve.reached), (None, None));
    }

    #[test]
    fn a_doubt_that_stays_marks_the_evidence() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        let mut doubted = outcome(1000.0, 1000, 999);
        doubted.doubts.push(Doubt { spoils: Spoils::Loss, why: "the tester dropped a frame".into() });
        assert_eq!(sieve.sift(&doubted), None);
        assert_eq!(sieve.sift(&doubted), None);
        let evidence = sieve.sift(&doubted).unwrap();
        assert!(!evidence.trusted);
        assert_eq!(evidence.lost, 1);
    }

    #[test]
    fn a_tester_that_has_sent_more_is_forgiven_once() {
        let mut sieve = Sieve::new(Trust { attempts: 1, unsent: 0.01 }, 0.0);
        // It sends 3000 of 10,000, most of which the device loses; 995 of 1000 are enough.
        assert_eq!(sieve.sift(&outcome(10_000.0, 3000, 1500)).map(|e| e.load.round()), Some(3000.0));
        assert_eq!(sieve.sift(&outcome(1000.0, 995, 995)).map(|e| e.load.round()), Some(1000.0));
        assert_eq!(sieve.sift(&outcome(1000.0, 900, 900)).map(|e| e.load.round()), Some(900.0));
        assert_eq!(sieve.reached, None);
        assert_eq!(sieve.sift(&outcome(1000.0, 900, 900)).map(|e| e.load.round()), Some(900.0));
        assert!(sieve.reached.is_some_and(|reached| (reached - 900.0).abs() < 1e-6));
    }

    #[test]
    fn a_tester_that_always_has_doubts_is_not_asked_again_each_time() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        let mut doubted = outcome(1000.0, 1000, 999);
        doubted.doubts.push(Doubt { spoils: Spoils::All, why: "the processor was stolen".into() });
        let mut evidence =
            |times: usize| (0..times).filter_map(|_| sieve.sift(&doubted)).map(|e| e.trusted).collect::<Vec<_>>();
        assert_eq!(evidence(6), [false, false]);
        assert_eq!(evidence(3), [false, false, false]);
        // One good trial, and there is hope again.
        assert!(sieve.sift(&outcome(1000.0, 1000, 999)).is_some_and(|evidence| evidence.trusted));
        assert_eq!(sieve.sift(&doubted), None);
    }

    #[test]
    fn a_doubt_matters_for_what_it_spoils() {
        let doubted = |spoils, received| {
            let mut outcome = outcome(1000.0, 1000, received);
            outcome.doubts.push(Doubt { spoils, why: "a doubt".into() });
            Sieve::new(Trust::default(), 0.0).sift(&outcome).map(|evidence| evidence.trusted)
        };
        // A tester that may lose frames lost none; frames were lost although the load may have been too small.
        assert_eq!((doubted(Spoils::Loss, 1000), doubted(Spoils::Loss, 999)), (Some(true), None));
        assert_eq!((doubted(Spoils::Load, 999), doubted(Spoils::Load, 1000)), (Some(true), None));
        assert_eq!((doubted(Spoils::Latency, 999), doubted(Spoils::Latency, 1000)), (Some(true), Some(true)));
        assert_eq!((doubted(Spoils::All, 999), doubted(Spoils::All, 1000)), (None, None));
    }

    #[test]
    fn the_maximum_falls_faster_and_faster() {
        let mut sieve = Sieve::new(Trust { attempts: 1, unsent: 0.001 }, 0.0);
        let mut load = 1e6;
        let mut times = 0;
        while load > 1000.0 {
            // A tester that always falls 1 % short.
            let sent = (load * 0.99) as u64;
            sieve.sift(&outcome(load, sent, sent));
            load = sieve.reached.unwrap();
            times += 1;
            assert!(times < 40, "{load}");
        }
    }
}
