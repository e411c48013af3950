// SPDX-License-Identifier: MIT
//! A whole run of RFC 2544's tests over all frame sizes.
//!
//! For each frame size in turn: throughput, then latency, frame loss rate, back-to-back frames and recovery, as the
//! profile has them, and reset if it was asked for. A run is its [`Settings`] and the [`TrialRecord`]s so far, and
//! nothing else: the next trial and all results follow from the two. So a stored run goes on ([`Run::resume`]).
//!
//! ```text
//!  next() ─► size, trial ─► the caller runs it ─► record ─► report() ─► next() ...
//!                                                   └─► a line in the run's file (store)
//! ```

mod record;
mod settings;
mod stage;
pub mod store;

pub use record::{Direction, TrialRecord, delays, outcome};
pub use settings::{Family, Maximum, Settings, SettingsError, Test, Ways};
pub use stage::{Searching, Stage};

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::search::{Left, Mismatch, Purpose, Trial};
use stage::Measured;

/// A run and its progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    settings: Settings,
    records: Vec<TrialRecord>,
    /// The tests that have begun; the last one is under way, unless the run is over.
    stages: Vec<Stage>,
    skipped: Vec<Skipped>,
    /// The tests to come: frame size and test.
    upcoming: VecDeque<(u32, Test)>,
}

/// A test that was not run at a frame size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub size: u32,
    pub test: Test,
    /// The end of a sentence.
    pub why: String,
}

/// How far a run is. Written out, it is a line such as "64 bytes: throughput (rfc2544): halving, 3rd trial; about 4 min
/// left".
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Trials that were run.
    pub done: usize,
    /// An estimate, as long as the device behaves as it has so far.
    pub left: Left,
    /// The trial to run now, and its frame size; `None` at the end.
    pub now: Option<(u32, Trial)>,
    /// Which trial of its test it is, from 1.
    nth: usize,
}

/// A record that is not one of this run's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(
        "record {number} is a trial with frames of {found} bytes, but with these settings it would be one with {expected} bytes; \
         repeat the settings of the stored run, or start a new one"
    )]
    Size { number: usize, found: u32, expected: u32 },
    #[error(
        "record {number} is a trial for {found}, but with these settings it would be one for {expected}; repeat the settings of \
         the stored run, or start a new one"
    )]
    Purpose { number: usize, found: Purpose, expected: Purpose },
    #[error("record {number}, {size} bytes, {purpose}: {mismatch}")]
    Trial { number: usize, size: u32, purpose: Purpose, mismatch: Mismatch },
    #[error(
        "found record {number}, but with these settings the run ends before it; repeat the settings of the stored run, or start \
         a new one"
    )]
    TooMany { number: usize },
}

impl Run {
    /// # Errors
    /// Settings that cannot be measured with.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let of_size = |&size: &u32| settings.tests_of(size).into_iter().map(move |test| (size, test));
        let upcoming = settings.sizes.iter().flat_map(of_size).collect();
        let mut run = Self { settings, records: vec![], stages: vec![], skipped: vec![], upcoming };
        run.advance();
        Ok(run)
    }

    /// Continues after stored records.
    ///
    /// # Errors
    /// Settings that cannot be measured with, and records that do not follow from them: the stored run had others.
    pub fn resume(settings: Settings, records: Vec<TrialRecord>) -> Result<Self, RunError> {
        let mut run = Self::new(settings)?;
        records.into_iter().try_for_each(|record| run.report(record))?;
        Ok(run)
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn records(&self) -> &[TrialRecord] {
        &self.records
    }

    /// The tests that have begun, in their order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The tests that could not be run.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    pub fn is_over(&self) -> bool {
        self.next().is_none()
    }

    /// The trial to run now, with its frame size, or `None` at the end. It does not change until a record is reported.
    pub fn next(&self) -> Option<(u32, Trial)> {
        let stage = self.stages.last()?;
        Some((stage.size, stage.next()?))
    }

    /// Takes the record of the trial that [`Self::next`] named.
    ///
    /// # Errors
    /// If it is another one's; the record is then ignored.
    pub fn report(&mut self, record: TrialRecord) -> Result<(), RunError> {
        let number = self.records.len() + 1;
        let Some((size, trial)) = self.next() else { return Err(RunError::TooMany { number }) };
        if record.size != size {
            return Err(RunError::Size { number, found: record.size, expected: size });
        }
        let purpose = trial.purpose.clone();
        if record.trial.purpose != purpose {
            return Err(RunError::Purpose { number, found: record.trial.purpose, expected: purpose });
        }
        let of_trial = |mismatch| RunError::Trial { number, size, purpose, mismatch };
        if record.trial != trial {
            let (found_load, found_duration) = (record.trial.load, record.trial.duration);
            let Trial { load, duration, .. } = trial;
            return Err(of_trial(Mismatch::Other { number, load, duration, found_load, found_duration }));
        }
        let stage = self.stages.last_mut().expect("a trial is of a stage");
        stage.report(record.outcome.clone()).map_err(of_trial)?;
        self.records.push(record);
        self.advance();
        Ok(())
    }

    /// Moves on to the next test with a trial if the one under way is over.
    fn advance(&mut self) {
        while self.next().is_none() {
            let Some((size, test)) = self.upcoming.pop_front() else { return };
            match Stage::new(&self.settings, size, test, self.measured(size)) {
                Ok(stage) => self.stages.push(stage),
                Err(why) => self.skipped.push(Skipped { size, test, why: why.to_owned() }),
            }
        }
    }

    fn measured(&self, size: u32) -> Option<Measured> {
        let stage = self.stages.iter().find(|stage| stage.size == size && stage.test() == Test::Throughput)?;
        Measured::of(&stage.throughput()?)
    }

    /// How far the run is.
    pub fn progress(&self) -> Progress {
        let nth = self.stages.last().map_or(0, |stage| stage.outcomes().len()) + 1;
        Progress { done: self.records.len(), left: self.left(), now: self.next(), nth }
    }

    /// An estimate of what is left: of the search under way, and of the tests to come as if the device were as fast as
    /// it seems.
    pub fn left(&self) -> Left {
        let around = self.settings.profile.around();
        let under_way = self.stages.last().map(|stage| stage.left(around));
        let to_come = self.upcoming.iter().filter_map(|&(size, test)| {
            let measured = self.measured(size).filter(|_| !self.is_under_way(size, Test::Throughput));
            let measured =
                measured.unwrap_or_else(|| Measured { rate: self.guess(size), tester: None, is_bound: false });
            Some(Stage::new(&self.settings, size, test, Some(measured)).ok()?.left(around))
        });
        under_way.into_iter().chain(to_come).fold(Left { trials: 0, seconds: 0.0 }, |sum, left| Left {
            trials: sum.trials + left.trials,
            seconds: sum.seconds + left.seconds,
        })
    }

    fn is_under_way(&self, size: u32, test: Test) -> bool {
        self.stages.last().is_some_and(|stage| stage.size == size && stage.test() == test && stage.next().is_some())
    }

    /// What the throughput at a size may be, in frames per second: what its search points to, or that of the size
    /// before.
    fn guess(&self, size: u32) -> f64 {
        let maximum = self.settings.maximum(size).unwrap_or(f64::INFINITY);
        let mut tests = self.stages.iter().filter(|stage| stage.test() == Test::Throughput);
        let known = match tests.next_back() {
            Some(stage) if self.is_under_way(stage.size, Test::Throughput) => Some(stage.likely().limit),
            Some(stage) => self.measured(stage.size).map(|measured| measured.rate),
            None => None,
        };
        known.map_or(maximum * 0.4, |rate| rate.min(maximum))
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((size, trial)) = &self.now else { return write!(f, "all {} trials are done", self.done) };
        write!(f, "{size} bytes: {}", trial.purpose)?;
        // Others say which repetition they are.
        if matches!(trial.purpose, Purpose::Throughput { .. } | Purpose::LossRate { .. } | Purpose::BackToBack { .. }) {
            write!(f, ", {} trial", ordinal(self.nth))?;
        }
        write!(f, "; about {} left", duration(self.left.seconds))
    }
}

/// 1st, 2nd, 3rd, 4th, 11th, 21st.
fn ordinal(n: usize) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

/// As people say it, rounded up: `40 s`, `4 min`, `2 h 10 min`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).ceil() as u64;
    match (seconds, seconds.div_ceil(60)) {
        (0..=90, _) => format!("{seconds} s"),
        (_, minutes @ 0..=90) => format!("{minutes} min"),
        (_, minutes) => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_as_people_say_them() {
        let ordinals = [1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map(ordinal);
        assert_eq!(ordinals.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th");
        let times = [0.0, 0.2, 90.0, 91.0, 240.0, 5400.0, 5401.0, 7800.0].map(duration);
        assert_eq!(times.join(", "), "0 s, 1 s, 90 s, 2 min, 4 min, 90 min, 1 h 31 min, 2 h 10 min");
    }
}
