// SPDX-License-Identifier: MIT
//! Back-to-back frames (RFC 2544 section 26.4, RFC 9004): the longest burst at the maximum rate that the device
//! forwards whole, and what that says about its buffers.
//!
//! This requires a throughput below the maximum rate: otherwise no burst fills the buffers (RFC 9004 section 6.1). Each
//! repetition is an independent binary search for the length of the burst. It starts with the longest one, whose loss
//! leads to a guess: of the frames that the device cannot forward while the burst lasts, it buffers some and loses the
//! rest.

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
    /// The longest burst to try, in seconds at the maximum rate. RFC 2544 asks for at least 2, RFC 9004 for up to 30
    /// if a device passes shorter ones.
    pub longest: f64,
    /// The number of searches.
    pub repeats: u32,
    /// A search ends when the lengths of the bursts that passed and failed are this close, in frames.
    pub resolution: u64,
    /// How long to listen after the device should have forwarded everything, in seconds (at least 2 in RFC 9004).
    pub idle: f64,
    #[serde(default)]
    pub trust: Trust,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// The longest burst without loss that each completed search found, in frames.
    pub longest: Vec<u64>,
    /// Their statistics; the mean is the benchmark.
    pub summary: Option<Summary>,
    /// Implied buffer time: the duration of the mean burst at the maximum rate, in seconds.
    pub implied_buffer: Option<f64>,
    /// Corrected buffer time, without the frames that the device forwards during the burst, in seconds.
    pub corrected_buffer: Option<f64>,
    pub applies: Applies,
    pub trusted: bool,
}

/// Whether the result says something about buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applies {
    Yes,
    /// The throughput is the maximum rate: there is nothing to measure.
    AtMaximum,
    /// The longest burst passed: the test has to be repeated with longer ones.
    TooShort,
    /// The tester could not send a whole burst, and what it sent passed: the device may pass longer ones.
    TesterTooSlow,
    /// Not all searches are complete.
    Unfinished,
}

/// One search, after its trials so far.
#[derive(Debug, Clone, Copy, Default)]
struct Bracket {
    passed: u64,
    failed: Option<u64>,
    plan: Plan,
    guesses: u8,
    /// Longer bursts cannot be tried.
    is_stuck: bool,
}

/// How the next burst is chosen.
#[derive(Debug, Clone, Copy, Default)]
enum Plan {
    #[default]
    Halve,
    /// This length, estimated from the loss of the last burst.
    Guess(u64),
    /// A little longer than what has passed.
    Above,
}

/// How many guesses a search makes from losses before it only halves, which is certain to end.
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
            let evidence = state.sieve.sift(outcome);
            let Some(evidence) = evidence.filter(|_| state.sieve.attempt().is_none()) else { continue };
            state.trusted &= evidence.trusted;
            // One way. Unsent frames make a burst shorter, unless they are too few to matter.
            let whole = (outcome.duration * outcome.load).round();
            let is_whole = outcome.unsent_ratio() <= self.trust.unsent;
            let length = if is_whole { whole } else { (whole * (1.0 - outcome.unsent_ratio())).round() } as u64;
            state.bracket.take(length, outcome.loss_ratio(), self.excess());
            if outcome.lost() == 0 && !is_whole {
                // Longer bursts are out of the tester's reach, so this search ends with what passed.
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
        // The device forwards the burst at its throughput; one that hardly forwards anything is not waited for.
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
        // The last search's result; during the first search, an estimate from its trials.
        let longest = state.ended.last().copied().unwrap_or(match (state.bracket.plan, state.bracket.failed) {
            (Plan::Guess(guess), _) => guess,
            (_, Some(failed)) => u64::midpoint(state.bracket.passed, failed),
            (_, None) => self.longest() / 10,
        });
        Likely { limit: self.throughput, room: longest as f64 * self.excess() }
    }
}
