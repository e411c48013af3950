// SPDX-License-Identifier: MIT
//! A trial: what to send, for how long, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One trial to run (RFC 2544 section 23, phase c).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Frames per second, one way.
    pub load: f64,
    /// How long to send at this load, in seconds.
    pub duration: f64,
    pub shape: Shape,
    /// Shown as progress.
    pub purpose: Purpose,
}

/// How a trial's traffic differs from a constant load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A constant load.
    Steady,
    /// A burst of `frames` frames at the trial's load, which is the maximum. Then the tester listens for at least
    /// `listen` seconds: for as long as the device needs to forward what it has buffered, and for its buffers to
    /// stay empty (RFC 9004 section 6.2).
    Burst { frames: u64, listen: f64 },
    /// After the trial's duration the load drops to `load`, without a gap, for another `duration` seconds (RFC 2544
    /// section 26.5).
    Fall { load: f64, duration: f64 },
    /// Only the latency of frames sent `after` seconds into the trial, or later, counts (RFC 2544 section 26.2).
    Tagged { after: f64 },
    /// The device is reset `after` seconds into the trial (RFC 2544 section 26.6, RFC 6201).
    Reset { after: f64 },
}

/// Why a trial is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Throughput {
        /// The goal's name.
        goal: String,
        step: Step,
        /// Counted from 1; higher if earlier attempts could not be trusted.
        attempt: u32,
    },
    LossRate {
        attempt: u32,
    },
    BackToBack {
        /// Which of the independent searches, counted from 1.
        repeat: u32,
        of: u32,
    },
    Latency {
        /// The load as a share of the throughput.
        share: f64,
        repeat: u32,
        of: u32,
    },
    Recovery {
        repeat: u32,
        of: u32,
    },
    Reset {
        repeat: u32,
        of: u32,
    },
}

/// A step of a search for throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Does the maximum pass?
    Maximum,
    /// Does the minimum pass?
    Minimum,
    /// Near the rate that the device forwarded when it lost frames.
    Forwarded,
    /// A load that should pass.
    Below,
    /// A load that should not pass.
    Above,
    /// Between the bounds.
    Between,
    /// The last trial at this load was lossy; is this one?
    Verify,
}

impl Trial {
    /// Frames to send, one way.
    pub fn frames(&self) -> u64 {
        let frames = (self.load * self.duration).round() as u64;
        match self.shape {
            Shape::Burst { frames, .. } => frames,
            Shape::Fall { load, duration } => frames + (load * duration).round() as u64,
            Shape::Steady | Shape::Tagged { .. } | Shape::Reset { .. } => frames,
        }
    }

    /// Seconds from the first frame to the last, and what the shape adds to them.
    pub fn seconds(&self) -> f64 {
        self.duration
            + match self.shape {
                Shape::Burst { listen, .. } => listen,
                Shape::Fall { duration, .. } => duration,
                Shape::Steady | Shape::Tagged { .. } | Shape::Reset { .. } => 0.0,
            }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput { goal, step, attempt } => {
                write!(f, "throughput ({goal}): {step}")?;
                repeated(f, *attempt)
            }
            Self::LossRate { attempt } => {
                f.write_str("frame loss rate")?;
                repeated(f, *attempt)
            }
            Self::BackToBack { repeat, of } => write!(f, "back-to-back frames, {repeat} of {of}"),
            Self::Latency { share, repeat, of } => {
                write!(f, "latency at {} % of the throughput, {repeat} of {of}", (share * 1000.0).round() / 10.0)
            }
            Self::Recovery { repeat, of } => write!(f, "system recovery, {repeat} of {of}"),
            Self::Reset { repeat, of } => write!(f, "reset, {repeat} of {of}"),
        }
    }
}

fn repeated(f: &mut fmt::Formatter<'_>, attempt: u32) -> fmt::Result {
    if attempt > 1 { write!(f, ", attempt {attempt}") } else { Ok(()) }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Maximum => "maximum load",
            Self::Minimum => "minimum load",
            Self::Forwarded => "the rate forwarded before",
            Self::Below => "looking for a load that passes",
            Self::Above => "looking for a load that fails",
            Self::Between => "halving",
            Self::Verify => "verifying the loss",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_seconds_are_those_of_the_whole_trial() {
        let trial = |shape| Trial { load: 1000.0, duration: 2.0, shape, purpose: Purpose::LossRate { attempt: 1 } };
        let cases = [
            (Shape::Steady, 2000, 2.0),
            (Shape::Tagged { after: 1.0 }, 2000, 2.0),
            (Shape::Reset { after: 1.0 }, 2000, 2.0),
            (Shape::Burst { frames: 2000, listen: 3.0 }, 2000, 5.0),
            (Shape::Fall { load: 500.0, duration: 4.0 }, 4000, 6.0),
        ];
        for (shape, frames, seconds) in cases {
            assert_eq!((trial(shape).frames(), trial(shape).seconds()), (frames, seconds), "{shape:?}");
        }
    }

    #[test]
    fn purposes_are_readable() {
        let throughput = |step, attempt| Purpose::Throughput { goal: "tst009".into(), step, attempt };
        let cases = [
            (throughput(Step::Maximum, 1), "throughput (tst009): maximum load"),
            (throughput(Step::Between, 2), "throughput (tst009): halving, attempt 2"),
            (Purpose::LossRate { attempt: 1 }, "frame loss rate"),
            (Purpose::Latency { share: 0.55, repeat: 3, of: 20 }, "latency at 55 % of the throughput, 3 of 20"),
            (Purpose::BackToBack { repeat: 1, of: 50 }, "back-to-back frames, 1 of 50"),
        ];
        for (purpose, text) in cases {
            assert_eq!(purpose.to_string(), text);
        }
    }
}
