// SPDX-License-Identifier: MIT
//! Back-to-back frames (RFC 2544 section 26.4, RFC 9004): the longest burst at the maximum rate that the device forwards whole,
//! and what that says about its buffers.
//!
//! Only for a device whose throughput is below the maximum rate: no burst fills the buffers of another (RFC 9004 section 5.3).
//! Each repetition is a binary search of its own over the length of the burst (clause 12.3.2 of TST009 with lengths in place of
//! loads). It starts with the longest burst, and then with what that one's loss says: of the frames that the device cannot
//! forward at once, it buffers some and loses the rest.

use serde::{Deserialize, Serialize};

use super::evidence::{Sieve, Trust};
use super::statistics::Summary;
use super::{Likely, Method, Outcome, Purpose, Shape, Trial};

/// The settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackToBack {
    /// The medium's maximum, or the tester's, in frames per second, one way.
    pub maximum: f64,
    /// The throughput that was found, in frames per second, one way.
    pub throughput: f64,
    /// The longest burst, in seconds at the maximum rate. RFC 2544 wants at least 2; RFC 9004 wants it to be configurable up to
    /// 30, for devices whose bursts are as long as this.
    pub longest: f64,
    /// How many searches.
    pub repeats: u32,
    /// A search ends when the bursts that passed and failed are this close, in frames.
    pub resolution: u64,
    /// Listening after the device has forwarded all, in seconds (at least 2).
    pub idle: f64,
    #[serde(default)]
    pub trust: Trust,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// The longest burst without loss of each search that ended, in frames.
    pub longest: Vec<u64>,
    /// Of those; the mean is the benchmark.
    pub summary: Option<Summary>,
    /// The mean burst at the maximum rate, in seconds.
    pub implied_buffer: Option<f64>,
    /// The same without what the device forwards in that time, in seconds.
    pub corrected_buffer: Option<f64>,
    pub applies: Applies,
    pub trusted: bool,
}

/// Is the result one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applies {
    Yes,
    /// The throughput is the maximum rate: there is nothing to measure.
    AtMaximum,
    /// The longest burst that was allowed passed: the test has to be repeated with longer ones.
    TooShort,
    /// The tester could not send a burst whole, and what it sent passed: the device's longest is at least as long.
    TesterTooSlow,
    /// Not all searches have ended.
    Unfinished,
}

/// One search, after its trials so far.
#[derive(Debug, Clone, Copy, Default)]
struct Bracket {
    passed: u64,
    failed: Option<u64>,
    plan: Plan,
    guesses: u8,
    /// No longer burst can be tried.
    is_stuck: bool,
}

/// What the next burst is chosen by.
#[derive(Debug, Clone, Copy, Default)]
enum Plan {
    #[default]
    Halve,
    /// This long, by the loss of the burst before.
    Guess(u64),
    /// A little longer than what has passed.
    Above,
}

/// How often loss is taken for a guess in one search; after that, halving ends it surely.
const GUESSES: u8 = 3;

struct State {
    sieve: Sieve,
    ended: Vec<u64>,
    bracket: Bracket,
    trusted: bool,
    applies: Applies,
}

impl BackToBack {
    /// In frames.
    fn longest(&self) -> u64 {
        ((self.longest * self.maximum) as u64).max(1)
    }

    /// Share of a burst's frames that the device cannot forward while it lasts.
    fn excess(&self) -> f64 {
        1.0 - self.throughput / self.maximum
    }

    fn replay(&self, so_far: &[Outcome]) -> State {
        let applies = if self.throughput < self.maximum { Applies::Yes } else { Applies::AtMaximum };
        let sieve = Sieve::new(self.trust, 0.0);
        let mut state = State { sieve, ended: Vec::new(), bracket: Bracket::default(), trusted: true, applies };
        for outcome in so_far {
            let Some(evidence) = state.sieve.sift(outcome) else { continue };
            state.trusted &= evidence.trusted;
            // One way. What the tester did not send makes a burst shorter, unless it is too little to matter.
            let whole = (outcome.duration * outcome.load).round();
            let is_whole = outcome.unsent_ratio() <= self.trust.unsent;
            let length = if is_whole { whole } else { (whole * (1.0 - outcome.unsent_ratio())).round() } as u64;
            state.bracket.take(length, outcome.loss_ratio(), self.excess());
            if outcome.lost() == 0 && !is_whole {
                // It does not get nearer to what fails: this search ends with what passed.
                (state.bracket.is_stuck, state.applies) = (true, Applies::TesterTooSlow);
            } else if outcome.lost() == 0 && length >= self.longest() {
                (state.bracket.is_stuck, state.applies) = (true, Applies::TooShort);
            }
            if state.bracket.is_over(self.resolution) {
                state.ended.push(state.bracket.passed);
                state.bracket = Bracket::default();
            }
        }
        state
    }
}

impl Bracket {
    fn take(&mut self, length: u64, loss_ratio: f64, excess: f64) {
        if loss_ratio == 0.0 {
            self.passed = self.passed.max(length);
            self.plan = if matches!(self.plan, Plan::Guess(_)) { Plan::Above } else { Plan::Halve };
            return;
        }
        let failed = self.failed.map_or(length, |failed| failed.min(length));
        self.failed = Some(failed);
        self.guesses += 1;
        let fewer = (length as f64 * loss_ratio / excess).ceil() as u64;
        let guess = length.saturating_sub(fewer);
        let is_good = self.guesses <= GUESSES && guess > self.passed && guess < failed;
        self.plan = if is_good { Plan::Guess(guess) } else { Plan::Halve };
    }

    fn is_over(&self, resolution: u64) -> bool {
        self.is_stuck || self.failed.is_some_and(|failed| failed.saturating_sub(self.passed) <= resolution.max(1))
    }

    fn next(&self, longest: u64, resolution: u64) -> u64 {
        let Some(failed) = self.failed else { return longest };
        let frames = match self.plan {
            Plan::Guess(guess) => guess.saturating_sub(resolution / 2),
            Plan::Above => self.passed + resolution.max(1),
            Plan::Halve => 0,
        };
        if frames > self.passed && frames < failed { frames } else { u64::midpoint(self.passed, failed) }
    }
}

impl Method for BackToBack {
    type Found = Bursts;

    fn next(&self, so_far: &[Outcome]) -> Option<Trial> {
        let state = self.replay(so_far);
        if state.applies == Applies::AtMaximum || state.ended.len() as u32 >= self.repeats {
            return None;
        }
        let frames = match (state.sieve.attempt(), so_far.last()) {
            (Some(_), Some(last)) => (last.duration * last.load).round() as u64,
            _ => state.bracket.next(self.longest(), self.resolution),
        };
        let duration = frames as f64 / self.maximum;
        // The device takes as long as it needs at its throughput; one that forwards nothing is not waited for.
        let forwarding = frames as f64 / self.throughput.max(self.maximum * 1e-3);
        let listen = (forwarding - duration).max(0.0) + self.idle;
        let purpose = Purpose::BackToBack { repeat: state.ended.len() as u32 + 1, of: self.repeats };
        Some(Trial { load: self.maximum, duration, shape: Shape::Burst { frames, listen }, purpose })
    }

    fn found(&self, so_far: &[Outcome]) -> Bursts {
        let state = self.replay(so_far);
        let is_short = state.applies == Applies::Yes && (state.ended.len() as u32) < self.repeats;
        let summary = Summary::of(state.ended.iter().map(|frames| *frames as f64));
        let implied = summary.as_ref().map(|summary| summary.mean / self.maximum);
        Bursts {
            longest: state.ended,
            implied_buffer: implied,
            corrected_buffer: implied.map(|seconds| seconds * self.excess()),
            summary,
            applies: if is_short { Applies::Unfinished } else { state.applies },
            trusted: state.trusted,
        }
    }

    fn likely(&self, so_far: &[Outcome]) -> Likely {
        let state = self.replay(so_far);
        // As in the search before; in the first one, as its loss has it.
        let longest = state.ended.last().copied().unwrap_or(match (state.bracket.plan, state.bracket.failed) {
            (Plan::Guess(guess), _) => guess,
            (_, Some(failed)) => u64::midpoint(state.bracket.passed, failed),
            (_, None) => self.longest() / 10,
        });
        Likely { limit: self.throughput, room: longest as f64 * self.excess() }
    }
}
