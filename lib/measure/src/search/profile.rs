// SPDX-License-Identifier: MIT
//! Profiles: named sets of durations, goals, frame sizes and repetitions. All values can be overridden, and are
//! checked.

use serde::{Deserialize, Serialize};

use super::back_to_back::BackToBack;
use super::binary::{Binary, Verify};
use super::evidence::Trust;
use super::goal::Goal;
use super::latency::Latency;
use super::loss_rate::LossRate;
use super::mlr::Mlr;
use super::recovery::{Recovery, Reset};
use super::throughput::{Limits, Throughput};

mod builtin;
mod check;

/// How to measure a device. Times are seconds, frame sizes bytes with the FCS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Shown in reports.
    pub name: String,
    /// Frame sizes for IPv4.
    pub sizes: Vec<u32>,
    /// Frame sizes for IPv6.
    pub sizes_ipv6: Vec<u32>,
    pub settle: Settle,
    #[serde(default)]
    pub trust: Trust,
    pub throughput: ThroughputPlan,
    /// `null` in an override leaves out this test; likewise for those below.
    #[serde(default)]
    pub latency: Option<LatencyPlan>,
    #[serde(default)]
    pub loss_rate: Option<LossRatePlan>,
    #[serde(default)]
    pub back_to_back: Option<BackToBackPlan>,
    #[serde(default)]
    pub recovery: Option<RecoveryPlan>,
    #[serde(default)]
    pub reset: Option<ResetPlan>,
}

/// Around each trial (RFC 2544 section 23).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// Wait after learning frames.
    pub learning: f64,
    /// How long the load rises to that of the trial, without a gap before it. Frames of the ramp do not count: a jump
    /// from nothing to the full rate would fake loss where flows are still to be learned.
    #[serde(default)]
    pub ramp: f64,
    /// Wait after the last frame, for frames still in transit.
    pub drain: f64,
    /// Wait before the next trial.
    pub pause: f64,
}

/// How to look for the throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThroughputPlan {
    pub search: Algorithm,
    /// Binary search takes a single goal, and of it the final duration, the loss ratio and the width.
    pub goals: Vec<Goal>,
    /// The minimum load, as a share of the maximum.
    pub minimum: f64,
    /// For a binary search with verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// Kinds of searches for throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Binary search, each trial of which counts.
    Binary,
    /// Binary search with loss verification.
    Verified,
    /// MLRsearch.
    Mlr,
}

/// How to measure latency ([`Latency`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyPlan {
    /// Loads, as shares of the throughput.
    pub shares: Vec<f64>,
    pub duration: f64,
    pub tag_after: f64,
    pub repeats: u32,
    /// The minimum number of tagged frames.
    pub tagged: u64,
}

/// How to measure the frame loss rate ([`LossRate`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossRatePlan {
    /// As a share of the maximum.
    pub step: f64,
    pub duration: f64,
}

/// How to measure back-to-back frames ([`BackToBack`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackToBackPlan {
    pub longest: f64,
    pub repeats: u32,
    /// In frames.
    pub resolution: u64,
    pub idle: f64,
}

/// How to measure system recovery ([`Recovery`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryPlan {
    /// As a share of the throughput.
    pub overload: f64,
    pub duration: f64,
    /// As a share of the overload.
    pub fall: f64,
    pub after: f64,
    pub repeats: u32,
}

/// How to measure a reset ([`Reset`]). No built-in profile includes it, as somebody or something has to reset the
/// device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResetPlan {
    pub duration: f64,
    pub after: f64,
    pub repeats: u32,
}

/// A mistake in a profile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Mistake {
    #[error("found the profile {found}, expected one of {}", Profile::NAMES.join(", "))]
    Name { found: String },
    /// An unknown key, or a value of the wrong kind.
    #[error("profile: {key}: {said}")]
    Shape {
        /// From the outermost on, with dots.
        key: String,
        /// What was found and expected, as serde describes it.
        said: String,
    },
    #[error("profile: {key}: found {found}, expected {expected}")]
    Value { key: String, found: String, expected: String },
    #[error(
        "found a maximum load of {found} frames/s, expected at least {least}, two in the shortest trial; raise it, or \
         `initial_duration`"
    )]
    Maximum { found: f64, least: f64 },
}

impl Profile {
    pub const NAMES: [&str; 3] = ["rfc2544", "tst009", "quick"];

    /// # Errors
    /// If there is no profile of this name.
    pub fn named(name: &str) -> Result<Self, Mistake> {
        match name {
            "rfc2544" => Ok(Self::rfc2544()),
            "tst009" => Ok(Self::tst009()),
            "quick" => Ok(Self::quick()),
            found => Err(Mistake::Name { found: found.into() }),
        }
    }

    /// A copy with some values replaced: objects are merged key by key, all other values replaced as a whole.
    ///
    /// # Errors
    /// Unknown keys and impossible values.
    pub fn with(&self, overrides: serde_json::Value) -> Result<Self, Mistake> {
        let mut value = serde_json::to_value(self).expect("a profile is JSON");
        merge(&mut value, overrides);
        let profile: Self = serde_path_to_error::deserialize(value)
            .map_err(|error| Mistake::Shape { key: error.path().to_string(), said: error.into_inner().to_string() })?;
        profile.check()?;
        Ok(profile)
    }

    /// The time before and after each trial, in seconds.
    pub fn around(&self) -> f64 {
        self.settle.learning + self.settle.ramp + self.settle.drain + self.settle.pause
    }

    /// The search for throughput, up to a maximum in frames per second.
    ///
    /// # Errors
    /// If the maximum is not a number, or amounts to fewer than two frames in the shortest trial.
    pub fn throughput(&self, maximum: f64) -> Result<Throughput, Mistake> {
        let plan = &self.throughput;
        let shortest = plan.goals.iter().map(Goal::initial_duration).fold(f64::INFINITY, f64::min);
        check::maximum(maximum, shortest)?;
        // A trial without frames has no loss ratio (RFC 9971 section 4.6.8.2).
        let limits = Limits { minimum: (maximum * plan.minimum).max(1.0 / shortest), maximum };
        Ok(match (plan.search, plan.goals.first()) {
            (Algorithm::Binary | Algorithm::Verified, Some(goal)) => Throughput::Binary(Binary {
                name: goal.name.clone(),
                limits,
                duration: goal.final_duration,
                loss_ratio: goal.loss_ratio,
                width: goal.width,
                verify: plan.verify.filter(|_| plan.search == Algorithm::Verified),
                trust: self.trust,
            }),
            _ => Throughput::Mlr(Mlr { trust: self.trust, ..Mlr::new(plan.goals.clone(), limits) }),
        })
    }

    /// Latency at shares of this throughput, in frames per second.
    pub fn latency(&self, throughput: f64) -> Option<Latency> {
        let LatencyPlan { shares, duration, tag_after, repeats, tagged } = self.latency.clone()?;
        Some(Latency { throughput, shares, duration, tag_after, repeats, tagged })
    }

    /// Frame loss rate from this maximum down, in frames per second.
    pub fn loss_rate(&self, maximum: f64) -> Option<LossRate> {
        self.loss_rate.map(|LossRatePlan { step, duration }| LossRate { maximum, step, duration, trust: self.trust })
    }

    /// Bursts at this maximum, given the throughput, in frames per second.
    pub fn back_to_back(&self, maximum: f64, throughput: f64) -> Option<BackToBack> {
        let BackToBackPlan { longest, repeats, resolution, idle } = self.back_to_back?;
        Some(BackToBack { maximum, throughput, longest, repeats, resolution, idle, trust: self.trust })
    }

    /// Recovery from an overload, given the throughput, in frames per second.
    pub fn recovery(&self, maximum: f64, throughput: f64) -> Option<Recovery> {
        let RecoveryPlan { overload, duration, fall, after, repeats } = self.recovery?;
        Some(Recovery { throughput, maximum, overload, duration, fall, after, repeats })
    }

    /// Resets at this throughput, in frames per second.
    pub fn reset(&self, throughput: f64) -> Option<Reset> {
        self.reset.map(|ResetPlan { duration, after, repeats }| Reset { throughput, duration, after, repeats })
    }
}

fn merge(value: &mut serde_json::Value, with: serde_json::Value) {
    use serde_json::Value::Object;
    match (value, with) {
        (Object(old), Object(new)) => {
            for (key, new) in new {
                merge(old.entry(key).or_insert(serde_json::Value::Null), new);
            }
        }
        (value, new) => *value = new,
    }
}
