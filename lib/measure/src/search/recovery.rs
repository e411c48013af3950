// SPDX-License-Identifier: MIT
//! System recovery (RFC 2544 section 26.5): how long a device continues to lose frames after an overload. Reset
//! (section 26.6, RFC 6201): how long it forwards nothing after a reset.

use serde::{Deserialize, Serialize};

use super::statistics::Summary;
use super::{Likely, Method, Outcome, Purpose, Shape, Trial};

/// System recovery's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// The throughput that was found, in frames per second, one way.
    pub throughput: f64,
    /// The medium's maximum, in frames per second, one way.
    pub maximum: f64,
    /// The overload, as a multiple of the throughput (1.1); it is limited to the maximum.
    pub overload: f64,
    /// How long the device is overloaded, in seconds (60).
    pub duration: f64,
    /// The load after the drop, as a share of the overload (0.5).
    pub fall: f64,
    /// How long the load stays there, in seconds; this has to be longer than the recovery.
    pub after: f64,
    pub repeats: u32,
}

/// What came out of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovered {
    /// For each overloaded trial, the time from the drop of the load until the last lost frame was sent, in seconds;
    /// zero if none was lost after the drop.
    pub seconds: Vec<f64>,
    pub summary: Option<Summary>,
    /// Trials in which frames were lost until the end: the device did not recover in time, and the value is too low.
    pub not_recovered: u32,
    /// Trials without loss: the device was not overloaded.
    pub not_overloaded: u32,
    pub doubted: u32,
}

/// Loss this close to the end of a trial, as a share of the time after the drop, means that it had not stopped.
const END: f64 = 0.05;

impl Method for Recovery {
    type Found = Recovered;

    fn next(&self, so_far: &[Outcome]) -> Option<Trial> {
        let repeat = so_far.len() as u32 + 1;
        if repeat > self.repeats {
            return None;
        }
        let load = (self.throughput * self.overload).min(self.maximum);
        Some(Trial {
            load,
            duration: self.duration,
            shape: Shape::Fall { load: load * self.fall, duration: self.after },
            purpose: Purpose::Recovery { repeat, of: self.repeats },
        })
    }

    fn found(&self, so_far: &[Outcome]) -> Recovered {
        let count = |is: &dyn Fn(&Outcome) -> bool| so_far.iter().filter(|outcome| is(outcome)).count() as u32;
        let overloaded = |outcome: &Outcome| outcome.last_lost.is_some() || outcome.lost() > 0;
        let seconds: Vec<f64> = so_far
            .iter()
            .filter(|outcome| overloaded(outcome))
            .map(|outcome| outcome.last_lost.unwrap_or(0.0).max(0.0))
            .collect();
        Recovered {
            summary: Summary::of(seconds.iter().copied()),
            not_recovered: seconds.iter().filter(|seconds| **seconds > self.after * (1.0 - END)).count() as u32,
            not_overloaded: count(&|outcome| !overloaded(outcome)),
            doubted: count(&|outcome| !outcome.doubts.is_empty()),
            seconds,
        }
    }

    fn likely(&self, _: &[Outcome]) -> Likely {
        Likely::CLEAN
    }
}

/// The settings of a reset test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// The throughput at the smallest frame size, in frames per second, one way.
    pub throughput: f64,
    /// Of each trial, in seconds; this has to be longer than the outage.
    pub duration: f64,
    /// The time of the reset within the trial, in seconds.
    pub after: f64,
    pub repeats: u32,
}

/// What came out of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResetTimes {
    /// For each trial, the time from the last frame before the outage to the first one after it, in seconds (the
    /// timestamp method of RFC 6201 section 4).
    pub by_timestamps: Vec<f64>,
    /// For each trial, lost frames divided by the load, in seconds (the frame-loss method of RFC 6201 section 4).
    pub by_loss: Vec<f64>,
    /// Statistics of the timestamp method.
    pub summary: Option<Summary>,
    /// Trials in which no frame came back after the reset.
    pub not_back: u32,
    pub doubted: u32,
}

impl Method for Reset {
    type Found = ResetTimes;

    fn next(&self, so_far: &[Outcome]) -> Option<Trial> {
        let repeat = so_far.len() as u32 + 1;
        (repeat <= self.repeats).then_some(Trial {
            load: self.throughput,
            duration: self.duration,
            shape: Shape::Reset { after: self.after },
            purpose: Purpose::Reset { repeat, of: self.repeats },
        })
    }

    fn found(&self, so_far: &[Outcome]) -> ResetTimes {
        // If the device does not come back, the outage has no end, and losses say only how long the trial was.
        let is_back = |outcome: &&Outcome| outcome.outage.is_some() || outcome.lost() == 0;
        let by_timestamps: Vec<f64> = so_far.iter().filter_map(|outcome| outcome.outage).collect();
        let by_loss: Vec<f64> = so_far.iter().filter(is_back).map(|o| o.loss_ratio() * o.duration).collect();
        ResetTimes {
            summary: Summary::of(by_timestamps.iter().copied()),
            not_back: so_far.iter().filter(|outcome| !is_back(outcome)).count() as u32,
            doubted: so_far.iter().filter(|outcome| !outcome.doubts.is_empty()).count() as u32,
            by_timestamps,
            by_loss,
        }
    }

    fn likely(&self, _: &[Outcome]) -> Likely {
        Likely::CLEAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovery() -> Recovery {
        Recovery { throughput: 1e6, maximum: 1.05e6, overload: 1.1, duration: 60.0, fall: 0.5, after: 10.0, repeats: 5 }
    }

    #[test]
    fn overload_up_to_the_maximum_then_half_of_it() {
        let trial = recovery().next(&[]).unwrap();
        assert_eq!((trial.load, trial.duration), (1.05e6, 60.0));
        assert_eq!(trial.shape, Shape::Fall { load: 0.525e6, duration: 10.0 });
        assert_eq!(trial.seconds(), 70.0);
        let wide = Recovery { maximum: 2e6, ..recovery() }.next(&[]).unwrap();
        assert!((wide.load - 1.1e6).abs() < 1e-3);
    }

    #[test]
    fn time_to_the_last_loss() {
        let method = recovery();
        let trial = method.next(&[]).unwrap();
        let outcome = |lost: u64, last_lost| {
            let mut outcome = Likely::CLEAN.answer(&trial);
            outcome.received -= lost;
            outcome.last_lost = last_lost;
            outcome
        };
        // Loss until 20 ms after the drop, none after it, none at all, loss that does not end, and loss at an unknown
        // time.
        let outcomes = [
            outcome(9, Some(0.02)),
            outcome(9, Some(-0.001)),
            outcome(0, None),
            outcome(9, Some(9.99)),
            outcome(9, None),
        ];
        let found = method.found(&outcomes);
        assert_eq!(found.seconds, [0.02, 0.0, 9.99, 0.0]);
        assert_eq!((found.not_overloaded, found.not_recovered, found.doubted), (1, 1, 0));
        assert_eq!(method.next(&outcomes), None);
    }

    #[test]
    fn reset_by_timestamps_and_by_loss() {
        let method = Reset { throughput: 1e4, duration: 100.0, after: 10.0, repeats: 2 };
        let trial = method.next(&[]).unwrap();
        let mut back = Likely::CLEAN.answer(&trial);
        back.received -= 30_000;
        back.outage = Some(3.001);
        let mut gone = Likely::CLEAN.answer(&trial);
        gone.received = 100_000;
        let found = method.found(&[back, gone]);
        assert_eq!((found.by_timestamps.as_slice(), found.not_back), ([3.001].as_slice(), 1));
        assert_eq!(found.by_loss.len(), 1);
        assert!((found.by_loss[0] - 3.0).abs() < 1e-9);
    }
}
