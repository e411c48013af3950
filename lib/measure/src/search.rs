// SPDX-License-Identifier: MIT
//! Searches: which trial comes next, and what the trials so far say about the device.
//!
//! A search is a [`Method`] (its settings) and the [`Outcome`]s so far, and nothing else: the next trial and the result
//! are pure functions of the two. So an interrupted search continues where it stopped ([`Search::resume`]), and the
//! time it still needs is estimated by running it against a model of the device ([`Search::left`]).
//!
//! Loads are frames per second, one way, as in RFC 2544; durations are seconds.

use serde::{Deserialize, Serialize};

pub mod back_to_back;
pub mod binary;
pub mod evidence;
pub mod goal;
pub mod latency;
pub mod loads;
pub mod loss_rate;
pub mod mlr;
pub mod outcome;
pub mod profile;
pub mod recovery;
pub mod statistics;
pub mod throughput;
mod trial;

pub use outcome::{Delays, Doubt, Outcome, Spoils};
pub use trial::{Purpose, Shape, Step, Trial};

/// The settings of a search, and how it chooses its trials.
pub trait Method {
    /// The result; of a search that has not ended, what is known so far.
    type Found;

    /// The next trial after these outcomes, or `None` at the end.
    fn next(&self, so_far: &[Outcome]) -> Option<Trial>;

    /// What the outcomes say so far.
    fn found(&self, so_far: &[Outcome]) -> Self::Found;

    /// What the device is probably like, for an estimate of the time left.
    fn likely(&self, so_far: &[Outcome]) -> Likely;
}

/// A device that forwards frames up to a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Likely {
    /// Frames per second, one way.
    pub limit: f64,
    /// Frames that it can buffer beyond that.
    pub room: f64,
}

impl Likely {
    /// A device without limits.
    const CLEAN: Self = Self { limit: f64::INFINITY, room: 0.0 };

    fn answer(&self, trial: &Trial) -> Outcome {
        let frames = trial.frames();
        Outcome::new(trial, frames, frames, frames.min((self.limit * trial.duration + self.room).ceil() as u64))
    }
}

/// A search and its progress. Serialized, it is what a run stores after each trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search<M> {
    method: M,
    outcomes: Vec<Outcome>,
}

/// An estimate of what a search still has to do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Left {
    pub trials: u32,
    /// The durations of the trials plus the time around each, in seconds.
    pub seconds: f64,
}

/// An outcome that does not answer the trial that the search asked for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Mismatch {
    #[error(
        "trial {number} was {found_load} frames/s for {found_duration} s, but with these settings it would be {load} frames/s \
         for {duration} s; start a new run, or repeat the settings of the stored one"
    )]
    Other { number: usize, load: f64, duration: f64, found_load: f64, found_duration: f64 },
    #[error(
        "found {found} stored trials, but with these settings the search ends after {number}; start a new run, or repeat the \
             settings of the stored one"
    )]
    TooMany { number: usize, found: usize },
}

/// An estimate stops after this many trials.
const HORIZON: u32 = 2000;

impl<M: Method> Search<M> {
    pub fn new(method: M) -> Self {
        Self { method, outcomes: Vec::new() }
    }

    /// Continues after stored outcomes.
    ///
    /// # Errors
    /// If the search would not have asked for these trials, which means that its settings were different.
    pub fn resume(method: M, outcomes: Vec<Outcome>) -> Result<Self, Mismatch> {
        let found = outcomes.len();
        let mut search = Self::new(method);
        for outcome in outcomes {
            search.report(outcome).map_err(|error| match error {
                Mismatch::TooMany { number, .. } => Mismatch::TooMany { number, found },
                other => other,
            })?;
        }
        Ok(search)
    }

    pub fn method(&self) -> &M {
        &self.method
    }

    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The trial to run now, or `None` at the end. It does not change until an outcome is reported.
    pub fn next(&self) -> Option<Trial> {
        self.method.next(&self.outcomes)
    }

    /// Takes the outcome of the trial that [`Self::next`] named.
    ///
    /// # Errors
    /// If its load or duration is a different one, or if the search has ended; the outcome is then ignored.
    pub fn report(&mut self, outcome: Outcome) -> Result<(), Mismatch> {
        let number = self.outcomes.len();
        let trial = self.next().ok_or(Mismatch::TooMany { number, found: number + 1 })?;
        if (trial.load, trial.duration) != (outcome.load, outcome.duration) {
            return Err(Mismatch::Other {
                number: number + 1,
                load: trial.load,
                duration: trial.duration,
                found_load: outcome.load,
                found_duration: outcome.duration,
            });
        }
        self.outcomes.push(outcome);
        Ok(())
    }

    /// The result, or what is known so far.
    pub fn found(&self) -> M::Found {
        self.method.found(&self.outcomes)
    }

    /// How long the search will still take if the device behaves as it has so far. `around` is the time before and
    /// after each trial (learning, listening, settling), in seconds.
    pub fn left(&self, around: f64) -> Left {
        let likely = self.method.likely(&self.outcomes);
        let mut outcomes = self.outcomes.clone();
        let mut left = Left { trials: 0, seconds: 0.0 };
        while let Some(trial) = self.method.next(&outcomes) {
            if left.trials == HORIZON {
                break;
            }
            left.trials += 1;
            left.seconds += trial.seconds() + around;
            outcomes.push(likely.answer(&trial));
        }
        left
    }
}
