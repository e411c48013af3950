// SPDX-License-Identifier: MIT
//! From outcomes to evidence: which trials count, at which load, and which have to be run again because of the tester.
//!
//! - A trial that doubts invalidate is run again, up to [`Trust::attempts`] times in all. The last attempt counts, and
//!   results that rest on it are marked.
//! - The device is not blamed for frames that the tester failed to send, and a trial in which it fell short says
//!   nothing about the load that was asked for. It counts at the load that was offered: what was forwarded without loss
//!   there is a lower bound.
//! - If nothing was lost, the trial is run again. A tester that sends about as much in every attempt, and as much as it
//!   ever did, can send no more: that becomes the maximum load. One that sends less stumbles, which changes no bound;
//!   after some rounds of that (`IN_A_ROW`) the search ends: what was forwarded is a lower bound, and all that this
//!   machine can say.
//! - Loss that may be the tester's doing (`Evidence::doubtful`) does not count against a load at or below one that
//!   passed.
//!
//! On a busy machine a tester may have doubts in every trial. Then repetitions do not help, and trials are no longer
//! repeated because of them.

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
    /// Frames were lost, and the tester may be the reason: it fell short, or has doubts about itself.
    pub doubtful: bool,
    /// The tester fell short, so this is not the load that was asked for.
    pub short: bool,
}

/// The first step, as a share of the maximum, when the tester cannot sustain the maximum that it reached before.
const STEP: f64 = 0.005;
/// How often the maximum is lowered by such steps.
const STEPS: u32 = 3;
/// What a tester sends in several trials varies by this share at most, if it sends as much as it can.
const SAG: f64 = 0.05;
/// After this many rounds of attempts in a row in which the tester stumbled, or in all, the search ends.
const IN_A_ROW: u32 = 3;
const IN_ALL: u32 = 8;
/// After this many invalid trials in a row, the search ends, too. A curve of the loss rate has some ten lossy ones.
const HOPELESS: u32 = 15;

/// After this many trials in a row that were invalid in every attempt, doubts do not lead to repetitions.
const PATIENCE: u32 = 2;

/// Outcomes, sifted one by one.
#[derive(Debug, Clone)]
pub(super) struct Sieve {
    trust: Trust,
    /// A trial that loses a larger share than this fails every goal.
    loss_ratio: f64,
    /// Attempts so far at the current trial, if it has to be run again; else 0.
    attempts: u32,
    /// The lowest and the highest load that was offered in these attempts, in frames per second.
    worst: f64,
    best: f64,
    /// The load that the tester can reach, if it has fallen short.
    pub reached: Option<f64>,
    steps: u32,
    /// The highest load that was ever offered, in frames per second.
    capable: f64,
    /// Rounds of attempts in which the tester stumbled: in a row, and in all.
    in_a_row: u32,
    in_all: u32,
    /// Trials in a row that were invalid in every attempt.
    hopeless: u32,
    /// The tester was given up, whatever came after.
    given_up: bool,
}

impl Sieve {
    /// `loss_ratio` is the largest of the goals'.
    pub fn new(trust: Trust, loss_ratio: f64) -> Self {
        let (attempts, steps, in_a_row, in_all, hopeless) = (0, 0, 0, 0, 0);
        let (worst, best, capable) = (f64::INFINITY, 0.0, 0.0);
        Self {
            trust,
            loss_ratio,
            attempts,
            worst,
            best,
            reached: None,
            steps,
            capable,
            in_a_row,
            in_all,
            hopeless,
            given_up: false,
        }
    }

    /// Takes the next outcome. Even one that has to be run again ([`Self::attempt`]) may be evidence.
    pub fn sift(&mut self, outcome: &Outcome) -> Option<Evidence> {
        let offered = outcome.offered();
        let short = outcome.unsent_ratio() > self.trust.unsent;
        let lost = outcome.loss_ratio() > self.loss_ratio;
        let spoiled = outcome.is_spoiled(lost);
        let evidence = Evidence {
            load: if short { offered } else { outcome.load },
            duration: outcome.duration,
            loss_ratio: outcome.loss_ratio(),
            lost: outcome.lost(),
            trusted: !spoiled,
            doubtful: outcome.lost() > 0 && (short || outcome.is_spoiled(true)),
            short,
        };
        // Nothing that was sent proves nothing.
        let evidence = Some(evidence).filter(|_| outcome.sent > 0);
        self.capable = self.capable.max(offered);
        let falls_short = short && !lost;
        if (spoiled && self.hopeless < PATIENCE) || falls_short {
            self.attempts += 1;
            (self.worst, self.best) = (self.worst.min(offered), self.best.max(offered));
            if self.attempts < self.trust.attempts {
                return evidence.filter(|_| !spoiled && !lost);
            }
        }
        self.hopeless = if spoiled { self.hopeless + 1 } else { 0 };
        let (worst, best) = (self.worst, self.best);
        (self.attempts, self.worst, self.best) = (0, f64::INFINITY, 0.0);
        if falls_short {
            self.fall_short(worst, best);
        } else if !short {
            self.in_a_row = 0;
        }
        self.given_up |= self.in_a_row >= IN_A_ROW || self.in_all >= IN_ALL || self.hopeless >= HOPELESS;
        evidence
    }

    /// Which attempt the next trial is, if the last one has to be run again.
    pub fn attempt(&self) -> Option<u32> {
        (self.attempts > 0).then_some(self.attempts + 1)
    }

    /// The tester has stumbled or lost frames too often: this machine cannot find the limit.
    pub fn gave_up(&self) -> bool {
        self.given_up
    }

    /// All attempts fell short, and offered between `worst` and `best`.
    fn fall_short(&mut self, worst: f64, best: f64) {
        let is_steady = worst >= self.capable * (1.0 - SAG);
        if !is_steady || self.steps > STEPS {
            (self.in_a_row, self.in_all) = (self.in_a_row + 1, self.in_all + 1);
            return;
        }
        let reached = match self.reached {
            None => best,
            Some(reached) => best.min(reached) * (1.0 - STEP * f64::from(1u32 << self.steps)),
        };
        self.steps += 1;
        self.reached = Some(reached.max(self.capable * (1.0 - SAG)));
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
        // Half of it is sent, and all of that received: two more attempts, and each says what was forwarded.
        for attempt in 2..=3 {
            assert_eq!(sieve.sift(&outcome(1000.0, 500, 500)).map(|e| (e.load, e.loss_ratio)), Some((500.0, 0.0)));
            assert_eq!((sieve.attempt(), sieve.reached), (Some(attempt), None));
        }
        let evidence = sieve.sift(&outcome(1000.0, 480, 480)).unwrap();
        assert_eq!((evidence.load, evidence.loss_ratio), (480.0, 0.0));
        assert_eq!((sieve.attempt(), sieve.reached), (None, Some(500.0)), "the best of the three");
    }

    #[test]
    fn a_device_that_loses_what_little_was_sent_has_failed() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        let evidence = sieve.sift(&outcome(1000.0, 500, 400)).unwrap();
        assert_eq!((evidence.load, evidence.loss_ratio, evidence.doubtful), (500.0, 0.2, true));
        assert_eq!(sieve.reached, None, "the device is slower than the tester");
    }

    #[test]
    fn a_hiccup_of_the_tester_is_forgotten() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        assert!(sieve.sift(&outcome(1000.0, 500, 500)).is_some() && sieve.attempt() == Some(2));
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

    /// It sent 40 % of whatever it was asked for, and that was the next maximum: 17,920 frames per second without loss,
    /// then 7,286, then 2,724, and at the end "44 pps".
    #[test]
    fn a_tester_that_falls_short_never_lowers_the_maximum() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        let asked = |sieve: &Sieve| sieve.reached.unwrap_or(44_800.0);
        let mut best = 0.0;
        let mut rounds = 0;
        while !sieve.gave_up() {
            for _ in 0..3 {
                let load = asked(&sieve);
                let sent = (load * 0.4).round() as u64;
                let evidence = sieve.sift(&outcome(load, sent, sent)).expect("what was forwarded is a lower bound");
                best = f64::max(best, evidence.load);
            }
            assert!(asked(&sieve) >= 17_920.0, "{sieve:?}");
            rounds += 1;
        }
        assert_eq!((best, rounds), (17_920.0, 4));
    }

    #[test]
    fn a_tester_that_stumbles_at_times_is_asked_again_and_not_given_up() {
        let mut sieve = Sieve::new(Trust { attempts: 1, unsent: 0.01 }, 0.0);
        // It sends 3000 of 10,000, most of which the device loses; 995 of 1000 are enough.
        assert_eq!(sieve.sift(&outcome(10_000.0, 3000, 1500)).map(|e| e.load.round()), Some(3000.0));
        assert_eq!(sieve.sift(&outcome(1000.0, 995, 995)).map(|e| e.load.round()), Some(1000.0));
        for _ in 0..2 {
            assert_eq!(sieve.sift(&outcome(1000.0, 900, 900)).map(|e| e.load.round()), Some(900.0));
            assert_eq!(sieve.sift(&outcome(1000.0, 900, 900)).map(|e| e.load.round()), Some(900.0));
            assert_eq!((sieve.reached, sieve.gave_up()), (None, false));
            assert_eq!(sieve.sift(&outcome(1000.0, 995, 995)).map(|e| e.load.round()), Some(1000.0));
        }
        for _ in 0..3 {
            sieve.sift(&outcome(1000.0, 900, 900));
        }
        assert!(sieve.gave_up() && sieve.reached.is_none());
    }

    /// A trial at a low load passed then, the search went on, and lost as many frames again, and again.
    #[test]
    fn a_tester_that_was_given_up_stays_so() {
        let mut sieve = Sieve::new(Trust::default(), 0.0);
        let mut doubted = outcome(1000.0, 1000, 999);
        doubted.doubts.push(Doubt { spoils: Spoils::All, why: "the processor was stolen".into() });
        (0..100).take_while(|_| !sieve.gave_up() && sieve.sift(&doubted).is_none_or(|_| true)).for_each(drop);
        assert!(sieve.gave_up());
        assert!(sieve.sift(&outcome(1000.0, 1000, 1000)).is_some_and(|evidence| evidence.trusted) && sieve.gave_up());
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
        // What was forwarded is, whatever disturbed the tester.
        assert_eq!((doubted(Spoils::All, 999), doubted(Spoils::All, 1000)), (None, Some(true)));
    }

    #[test]
    fn what_a_tester_cannot_sustain_is_lowered_a_little_and_then_given_up() {
        let mut sieve = Sieve::new(Trust { attempts: 1, unsent: 0.001 }, 0.0);
        let (mut load, mut times) = (1e6, 0);
        while !sieve.gave_up() {
            // A tester that always falls 1 % short.
            let sent = (load * 0.99) as u64;
            sieve.sift(&outcome(load, sent, sent));
            load = sieve.reached.unwrap_or(load);
            times += 1;
            assert!(load >= 0.94 * 1e6 && times < 20, "{load}");
        }
    }
}
