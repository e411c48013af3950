// SPDX-License-Identifier: MIT
//! Latency (RFC 2544 section 26.2, RFC 8219 section 7.2) at the throughput and at shares of it, measured by frames that
//! are sent in the last part of a trial. This file plans the trials and summarizes their repetitions; the percentiles
//! of one trial are in its outcome.

use serde::{Deserialize, Serialize};

use super::statistics::Summary;
use super::{Delays, Likely, Method, Outcome, Purpose, Shape, Trial};

/// The settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The throughput that was found, in frames per second, one way.
    pub throughput: f64,
    /// The loads as shares of the throughput.
    pub shares: Vec<f64>,
    /// Of each trial, in seconds.
    pub duration: f64,
    /// Frames are tagged from this time of the trial on, in seconds.
    pub tag_after: f64,
    /// The number of trials at each load.
    pub repeats: u32,
    /// A trial should have at least this many tagged frames.
    pub tagged: u64,
}

/// Latency at one load, over its repetitions, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtLoad {
    /// The load as a share of the throughput.
    pub share: f64,
    /// In frames per second, one way.
    pub load: f64,
    /// The lowest latency of all trials.
    pub min: f64,
    /// The highest latency of all trials.
    pub max: f64,
    /// Of the trials' means; RFC 2544 reports its mean.
    pub mean: Summary,
    /// Of the trials' medians, the typical latencies; RFC 8219 reports its median.
    pub median: Summary,
    /// Of the trials' 99th percentiles.
    pub p99: Summary,
    /// Of the trials' 99.9th percentiles, the worst-case latencies; RFC 8219 reports its median.
    pub p999: Summary,
    /// Trials that say less than they should.
    pub imperfect: Imperfect,
}

/// The number of trials that say less than they should, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imperfect {
    /// No latency was measured; these are not in the summaries.
    pub without: u32,
    /// Too few frames were tagged.
    pub few: u32,
    /// Frames were lost, so queues were full.
    pub lossy: u32,
    /// The tester doubts the trial.
    pub doubted: u32,
}

impl Latency {
    /// The trials alternate between the loads, so that drift affects all of them, and an interrupted run has measured
    /// each.
    fn trial(&self, number: usize) -> Option<Trial> {
        let share = *self.shares.get(number % self.shares.len().max(1))?;
        let repeat = (number / self.shares.len()) as u32;
        (repeat < self.repeats).then(|| Trial {
            load: self.throughput * share,
            duration: self.duration,
            shape: Shape::Tagged { after: self.tag_after },
            purpose: Purpose::Latency { share, repeat: repeat + 1, of: self.repeats },
        })
    }

    fn at_load(&self, share: f64, outcomes: &[&Outcome]) -> Option<AtLoad> {
        let delays: Vec<&Delays> =
            outcomes.iter().filter_map(|outcome| outcome.latency.as_ref()).filter(|d| d.frames > 0).collect();
        let count = |is: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count() as u32;
        let summary = |of: fn(&Delays) -> f64| Summary::of(delays.iter().map(|delays| of(delays)));
        Some(AtLoad {
            share,
            load: self.throughput * share,
            min: delays.iter().map(|delays| delays.min).fold(f64::INFINITY, f64::min),
            max: delays.iter().map(|delays| delays.max).fold(0.0, f64::max),
            mean: summary(|delays| delays.mean)?,
            median: summary(|delays| delays.median)?,
            p99: summary(|delays| delays.p99)?,
            p999: summary(|delays| delays.p999)?,
            imperfect: Imperfect {
                without: (outcomes.len() - delays.len()) as u32,
                few: delays.iter().filter(|delays| delays.frames < self.tagged).count() as u32,
                lossy: count(&|outcome| outcome.lost() > 0),
                doubted: count(&|outcome| !outcome.doubts.is_empty()),
            },
        })
    }
}

impl Method for Latency {
    /// One element for each load with measurements.
    type Found = Vec<AtLoad>;

    fn next(&self, so_far: &[Outcome]) -> Option<Trial> {
        self.trial(so_far.len())
    }

    fn found(&self, so_far: &[Outcome]) -> Vec<AtLoad> {
        self.shares
            .iter()
            .enumerate()
            .filter_map(|(at, share)| {
                let outcomes: Vec<_> = so_far.iter().skip(at).step_by(self.shares.len()).collect();
                self.at_load(*share, &outcomes)
            })
            .collect()
    }

    fn likely(&self, _: &[Outcome]) -> Likely {
        Likely::CLEAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency() -> Latency {
        Latency { throughput: 1e6, shares: vec![0.5, 1.0], duration: 120.0, tag_after: 60.0, repeats: 20, tagged: 500 }
    }

    fn delays(median: f64, frames: u64) -> Delays {
        let p999 = median * 3.0;
        Delays { frames, min: median - 10.0, mean: median + 1.0, median, p99: median * 2.0, p999, max: median * 4.0 }
    }

    #[test]
    fn twenty_trials_at_each_load_by_turns() {
        let method = latency();
        let mut outcomes = Vec::new();
        while let Some(trial) = method.next(&outcomes) {
            assert_eq!(trial.load, if outcomes.len() % 2 == 0 { 0.5e6 } else { 1e6 });
            assert_eq!(trial.shape, Shape::Tagged { after: 60.0 });
            let mut outcome = Likely::CLEAN.answer(&trial);
            outcome.latency = Some(delays(1000.0 + outcomes.len() as f64, 500));
            outcomes.push(outcome);
        }
        assert_eq!(outcomes.len(), 40);
        let found = method.found(&outcomes);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].share, found[0].load, found[0].median.count), (0.5, 0.5e6, 20));
        // Medians are 1000, 1002, ..., 1038 at the first load, and 1001, 1003, ..., 1039 at the second.
        assert_eq!((found[0].median.median, found[1].median.median), (1019.0, 1020.0));
        assert_eq!((found[0].min, found[1].max), (990.0, 1039.0 * 4.0));
        assert_eq!(found[1].imperfect, Imperfect::default());
    }

    #[test]
    fn imperfect_trials_are_counted() {
        let method = Latency { shares: vec![1.0], repeats: 3, ..latency() };
        let trial = method.next(&[]).unwrap();
        let mut outcomes = vec![Likely::CLEAN.answer(&trial); 3];
        outcomes[0].latency = Some(delays(1000.0, 499));
        outcomes[1].latency = Some(delays(1000.0, 500));
        outcomes[1].received -= 1;
        outcomes[2]
            .doubts
            .push(super::super::Doubt { spoils: super::super::Spoils::Latency, why: "the clock stepped".into() });
        let found = method.found(&outcomes);
        assert_eq!(found[0].imperfect, Imperfect { without: 1, few: 1, lossy: 1, doubted: 1 });
        assert_eq!(found[0].median.count, 2);
        assert!(method.found(&[]).is_empty(), "nothing measured yet");
    }
}
