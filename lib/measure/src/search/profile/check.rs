// SPDX-License-Identifier: MIT
//! Impossible values in a profile.

use std::fmt::Display;

use super::super::goal::Goal;
use super::*;

/// From Ethernet's minimum, or what IPv6, UDP and the stamp need, to the largest size in RFC 5180.
const SIZES: std::ops::RangeInclusive<u32> = 64..=9216;
const SIZES_IPV6: std::ops::RangeInclusive<u32> = 84..=9216;
/// A day: more is probably a mistake in the unit.
const LONGEST: f64 = 86_400.0;
const MOST: u32 = 10_000;

type Checked = Result<(), Mistake>;

impl Profile {
    /// # Errors
    /// The first impossible value and its key.
    pub fn check(&self) -> Checked {
        for (key, sizes, range) in [("sizes", &self.sizes, SIZES), ("sizes_ipv6", &self.sizes_ipv6, SIZES_IPV6)] {
            for (at, size) in sizes.iter().enumerate() {
                expect(range.contains(size), &format!("{key}[{at}]"), size, || {
                    format!("a frame size with its FCS, {} to {} bytes", range.start(), range.end())
                })?;
            }
        }
        let Settle { learning, ramp, drain, pause } = self.settle;
        for (key, seconds) in [("learning", learning), ("ramp", ramp), ("drain", drain), ("pause", pause)] {
            expect((0.0..=LONGEST).contains(&seconds), &format!("settle.{key}"), seconds, || "0 s to a day".into())?;
        }
        count("trust.attempts", self.trust.attempts)?;
        expect((0.0..1.0).contains(&self.trust.unsent), "trust.unsent", self.trust.unsent, || {
            "a share from 0, below 1".into()
        })?;
        self.throughput.check()?;
        self.latency.iter().try_for_each(LatencyPlan::check)?;
        self.loss_rate.iter().try_for_each(LossRatePlan::check)?;
        self.back_to_back.iter().try_for_each(BackToBackPlan::check)?;
        self.recovery.iter().try_for_each(RecoveryPlan::check)?;
        self.reset.iter().try_for_each(ResetPlan::check)
    }
}

impl ThroughputPlan {
    fn check(&self) -> Checked {
        let names: Vec<_> = self.goals.iter().map(|goal| goal.name.as_str()).collect();
        let key = "throughput.goals";
        expect(!names.is_empty(), key, format!("{names:?}"), || "a goal".into())?;
        expect(self.search == Algorithm::Mlr || names.len() == 1, key, format!("{names:?}"), || {
            "one goal, as binary search has no more; `search` \"mlr\" has".into()
        })?;
        let is_twice = |at: usize| names[..at].contains(&names[at]);
        expect(!(0..names.len()).any(is_twice), key, format!("{names:?}"), || {
            "a name of its own for each goal".into()
        })?;
        for (at, goal) in self.goals.iter().enumerate() {
            check_goal(goal, &format!("{key}[{at}]"))?;
        }
        share("throughput.minimum", self.minimum)?;
        let verify = self.verify.map(|verify| verify.trials);
        expect(
            self.search != Algorithm::Verified || verify.is_some_and(|trials| (2..=MOST).contains(&trials)),
            "throughput.verify",
            format!("{verify:?}"),
            || "`trials`, at least 2, for `search` \"verified\"".into(),
        )
    }
}

fn check_goal(goal: &Goal, key: &str) -> Checked {
    let from_zero = || "a share from 0, below 1".into();
    expect((0.0..1.0).contains(&goal.loss_ratio), &format!("{key}.loss_ratio"), goal.loss_ratio, from_zero)?;
    expect((0.0..1.0).contains(&goal.exceed_ratio), &format!("{key}.exceed_ratio"), goal.exceed_ratio, from_zero)?;
    share(&format!("{key}.width"), goal.width)?;
    duration(&format!("{key}.final_duration"), goal.final_duration)?;
    duration(&format!("{key}.duration_sum"), goal.duration_sum)?;
    expect(goal.duration_sum >= goal.final_duration, &format!("{key}.duration_sum"), goal.duration_sum, || {
        format!("at least the final duration, {} s", goal.final_duration)
    })?;
    let initial = goal.initial_duration();
    expect(initial > 0.0 && initial <= goal.final_duration, &format!("{key}.initial_duration"), initial, || {
        format!("more than 0 s, and at most the final duration, {} s", goal.final_duration)
    })
}

impl LatencyPlan {
    fn check(&self) -> Checked {
        expect(!self.shares.is_empty(), "latency.shares", "none", || "loads, as shares of the throughput".into())?;
        for (at, share) in self.shares.iter().enumerate() {
            let key = format!("latency.shares[{at}]");
            expect(*share > 0.0 && *share <= 1.0, &key, share, || "a share of the throughput above 0, up to 1".into())?;
        }
        duration("latency.duration", self.duration)?;
        expect((0.0..self.duration).contains(&self.tag_after), "latency.tag_after", self.tag_after, || {
            format!("from 0 s, and less than the duration, {} s", self.duration)
        })?;
        count("latency.repeats", self.repeats)
    }
}

impl LossRatePlan {
    fn check(&self) -> Checked {
        expect(self.step >= 0.001 && self.step <= 0.1, "loss_rate.step", self.step, || {
            "a share of the maximum from 0.001 to 0.1 (RFC 2544 section 26.3)".into()
        })?;
        duration("loss_rate.duration", self.duration)
    }
}

impl BackToBackPlan {
    fn check(&self) -> Checked {
        duration("back_to_back.longest", self.longest)?;
        count("back_to_back.repeats", self.repeats)?;
        expect(self.resolution > 0, "back_to_back.resolution", self.resolution, || "at least one frame".into())?;
        expect((0.0..=LONGEST).contains(&self.idle), "back_to_back.idle", self.idle, || "0 s to a day".into())
    }
}

impl RecoveryPlan {
    fn check(&self) -> Checked {
        expect((1.0..=10.0).contains(&self.overload), "recovery.overload", self.overload, || {
            "a multiple of the throughput from 1 to 10 (1.1 in RFC 2544 section 26.5)".into()
        })?;
        duration("recovery.duration", self.duration)?;
        share("recovery.fall", self.fall)?;
        duration("recovery.after", self.after)?;
        count("recovery.repeats", self.repeats)
    }
}

impl ResetPlan {
    fn check(&self) -> Checked {
        duration("reset.duration", self.duration)?;
        expect((0.0..self.duration).contains(&self.after), "reset.after", self.after, || {
            format!("from 0 s, and less than the duration, {} s", self.duration)
        })?;
        count("reset.repeats", self.repeats)
    }
}

/// The maximum load in frames per second, given the shortest trial in seconds.
pub(super) fn maximum(found: f64, shortest: f64) -> Checked {
    let least = 2.0 / shortest;
    if found.is_finite() && found >= least { Ok(()) } else { Err(Mistake::Maximum { found, least }) }
}

fn expect(is_good: bool, key: &str, found: impl Display, expected: impl FnOnce() -> String) -> Checked {
    if is_good {
        Ok(())
    } else {
        Err(Mistake::Value { key: key.into(), found: found.to_string(), expected: expected() })
    }
}

fn duration(key: &str, seconds: f64) -> Checked {
    expect(seconds > 0.0 && seconds <= LONGEST, key, seconds, || "more than 0 s, and at most a day".into())
}

fn share(key: &str, share: f64) -> Checked {
    expect(share > 0.0 && share < 1.0, key, share, || "a share above 0 and below 1".into())
}

fn count(key: &str, n: u32) -> Checked {
    expect((1..=MOST).contains(&n), key, n, || format!("1 to {MOST}"))
}
