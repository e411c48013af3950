// SPDX-License-Identifier: MIT
//! What came out of a trial, and whether it may be trusted.

use serde::{Deserialize, Serialize};

use super::Trial;
use crate::verdict;
pub use crate::verdict::Spoils;

/// The outcome of one trial. Frames that the tester failed to send are counted separately from frames that the device
/// lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The intended load in frames per second, one way.
    pub load: f64,
    /// The intended duration in seconds.
    pub duration: f64,
    /// Frames that were to be sent, all directions added up.
    pub intended: u64,
    /// Frames that were sent, all directions added up.
    pub sent: u64,
    /// How many of those came back intact, each counted once.
    pub received: u64,
    /// Additional copies of frames that had already come back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicates: u64,
    /// Reordered frames (RFC 4737).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reordered: u64,
    /// Frames that came back with a broken stamp; they count as lost, too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrupt: u64,
    /// Why the trial may not be trusted, apart from unsent frames, which the counters show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Latencies of the tagged frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Delays>,
    /// If the load dropped during the trial: when the last lost frame was sent, in seconds after the drop. Negative if
    /// it was sent before the drop; absent if no frame was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_lost: Option<f64>,
    /// If the device was reset: time from the last frame received before the outage to the first one after it, in
    /// seconds (RFC 6201 section 4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<f64>,
}

/// Latencies of one trial's tagged frames, in nanoseconds (RFC 8219 section 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// Tagged frames that came back.
    pub frames: u64,
    pub min: f64,
    pub mean: f64,
    /// Typical latency.
    pub median: f64,
    pub p99: f64,
    /// Worst-case latency: the 99.9th percentile.
    pub p999: f64,
    pub max: f64,
}

/// A reason not to trust a trial that is not the device's doing, as it is stored. That frames were not sent is none
/// here: the counters say it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    pub spoils: Spoils,
    /// One sentence, such as "the tester itself dropped 12 frames that it received".
    pub why: String,
}

impl From<&verdict::Doubt> for Doubt {
    fn from(doubt: &verdict::Doubt) -> Doubt {
        Doubt { spoils: doubt.spoils(), why: doubt.to_string() }
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Outcome {
    /// An outcome that consists of counters.
    pub fn new(trial: &Trial, intended: u64, sent: u64, received: u64) -> Self {
        Self {
            load: trial.load,
            duration: trial.duration,
            intended,
            sent,
            received,
            duplicates: 0,
            reordered: 0,
            corrupt: 0,
            doubts: Vec::new(),
            latency: None,
            last_lost: None,
            outage: None,
        }
    }

    /// Frames sent that did not come back.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Share of the sent frames that did not come back, 0 to 1 (Trial Loss Ratio in RFC 9971, but of what was offered).
    /// Zero if nothing was sent; [`Self::unsent_ratio`] tells.
    pub fn loss_ratio(&self) -> f64 {
        ratio(self.lost(), self.sent)
    }

    /// Frames that the tester did not send.
    pub fn unsent(&self) -> u64 {
        self.intended.saturating_sub(self.sent)
    }

    /// Share of the intended frames that the tester did not send, 0 to 1.
    pub fn unsent_ratio(&self) -> f64 {
        ratio(self.unsent(), self.intended)
    }

    /// Why the trial may not be trusted, one sentence per reason; empty if it may. Up to a share of `unsent`, unsent
    /// frames do not matter.
    pub fn reasons(&self, unsent: f64) -> Vec<String> {
        let short = (self.unsent_ratio() > unsent)
            .then(|| format!("The tester sent {} of {} frames, {} too few.", self.sent, self.intended, self.unsent()));
        short.into_iter().chain(self.doubts.iter().map(|doubt| doubt.why.clone())).collect()
    }

    /// Whether the doubts invalidate what the trial says about throughput. They do not if frames were lost although the
    /// load may have been too small. If none were lost, all that was sent was forwarded, whatever disturbed the
    /// tester; only how much that was may be doubtful.
    pub fn is_spoiled(&self, is_lossy: bool) -> bool {
        let spoils = |doubt: &Doubt| match doubt.spoils {
            Spoils::All | Spoils::Loss => is_lossy,
            Spoils::Load => !is_lossy,
            Spoils::Latency => false,
        };
        self.doubts.iter().any(spoils)
    }

    /// The load that was offered to the device, in frames per second, one way.
    pub fn offered(&self) -> f64 {
        self.load * (1.0 - self.unsent_ratio())
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::{Purpose, Shape};
    use super::*;

    #[test]
    fn loss_is_of_what_was_sent_and_the_rest_is_the_testers() {
        let trial =
            Trial { load: 1000.0, duration: 1.0, shape: Shape::Steady, purpose: Purpose::LossRate { attempt: 1 } };
        let mut outcome = Outcome::new(&trial, 1000, 800, 600);
        assert_eq!(
            (outcome.lost(), outcome.loss_ratio(), outcome.unsent(), outcome.offered()),
            (200, 0.25, 200, 800.0)
        );
        assert_eq!(outcome.reasons(0.001), ["The tester sent 800 of 1000 frames, 200 too few."]);
        assert!(outcome.reasons(0.2).is_empty());
        outcome.doubts = vec![Doubt { spoils: Spoils::Latency, why: "The clock stepped.".into() }];
        assert_eq!(outcome.reasons(0.2), ["The clock stepped."]);
        // A miscount, but no loss.
        assert_eq!(Outcome::new(&trial, 1000, 800, 900).lost(), 0);
        assert_eq!(Outcome::new(&trial, 0, 0, 0).unsent_ratio(), 0.0);
        for (spoils, lossy, clean) in [
            (Spoils::Load, false, true),
            (Spoils::Loss, true, false),
            (Spoils::Latency, false, false),
            (Spoils::All, true, false),
        ] {
            outcome.doubts = vec![Doubt { spoils, why: String::new() }];
            assert_eq!((outcome.is_spoiled(true), outcome.is_spoiled(false)), (lossy, clean), "{spoils:?}");
        }
    }
}
