// SPDX-License-Identifier: MIT
//! How long frames were on their way.
//!
//! A latency is the time from a frame's stamp to the moment that its burst was taken from the receive queue, so it
//! contains what the tester adds: queues, polling, the clock. That is measured by a trial without a device, and its
//! smallest latency is the tester's floor. Raw latencies are kept; the floor is taken off where they are summed up, and
//! samples below it are counted, as they say that the floor is too high.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies above this, a minute in ns, are counted as this in percentiles; the maximum is exact.
pub const LONGEST: u64 = 60_000_000_000;

/// Recorded latencies, ns.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
    floor: Option<u64>,
    below_floor: u64,
    from_future: u64,
    /// One of this many frames is recorded.
    every: u32,
    /// Frames until the next that is.
    wait: u32,
}

impl Latencies {
    /// Nothing recorded; one of `every` frames will be. `floor` is the tester's own latency, if it is known, in ns.
    pub fn new(every: u32, floor: Option<u64>) -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("these bounds are constant, and valid");
        let every = every.max(1);
        Latencies {
            histogram,
            sum: 0,
            min: u64::MAX,
            max: 0,
            floor,
            below_floor: 0,
            from_future: 0,
            every,
            wait: every - 1,
        }
    }

    /// Records a frame's latency; `None` for a frame that was sent after it was received.
    #[inline(always)]
    pub fn record(&mut self, latency: Option<u64>) {
        let Some(latency) = latency else {
            self.from_future += 1;
            return;
        };
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        self.wait = self.every - 1;
        self.histogram.saturating_record(latency);
        self.sum += u128::from(latency);
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
        self.below_floor += u64::from(self.floor.is_some_and(|floor| latency < floor));
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Adds what another has recorded.
    pub fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.below_floor += other.below_floor;
        self.from_future += other.from_future;
    }

    /// Forgets what was recorded.
    pub fn clear(&mut self) {
        self.histogram.reset();
        (self.sum, self.min, self.max, self.below_floor, self.from_future) = (0, u64::MAX, 0, 0, 0);
    }

    /// The value that a share `quantile` (0 to 1) of the raw latencies does not exceed, ns, within 0.1 %.
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).clamp(self.min.min(self.max), self.max)
    }

    /// What it comes to; `None` if nothing was recorded and no frame came from the future.
    pub fn summary(&self) -> Option<LatencySummary> {
        let count = self.count();
        if count == 0 && self.from_future == 0 {
            return None;
        }
        let floor = self.floor.unwrap_or(0);
        let without = |latency: u64| latency.saturating_sub(floor);
        let at = |quantile: f64| without(self.quantile(quantile));
        let mean = if count > 0 { self.sum as f64 / count as f64 } else { 0.0 };
        Some(LatencySummary {
            count,
            every: self.every,
            floor_ns: self.floor,
            below_floor: self.below_floor,
            from_future: self.from_future,
            min_ns: without(self.min.min(self.max)),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            p99_99_ns: at(0.9999),
            max_ns: without(self.max),
            mean_ns: (mean - floor as f64).max(0.0),
            deviation_ns: self.histogram.stdev(),
            raw_min_ns: self.min.min(self.max),
            raw_mean_ns: mean,
            raw_max_ns: self.max,
        })
    }
}

/// Latencies in ns, the tester's floor taken off where it is known; `raw` ones are with it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Recorded frames: one of `every`.
    pub count: u64,
    pub every: u32,
    /// The tester's own latency; `None` if it is not known, and contained in all figures.
    pub floor_ns: Option<u64>,
    /// Samples below the floor, which count as 0. More than a few say that it is too high.
    pub below_floor: u64,
    /// Frames received before they were sent: two clocks that differ.
    pub from_future: u64,
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p99_9_ns: u64,
    pub p99_99_ns: u64,
    pub max_ns: u64,
    pub mean_ns: f64,
    /// Standard deviation.
    pub deviation_ns: f64,
    pub raw_min_ns: u64,
    pub raw_mean_ns: f64,
    pub raw_max_ns: u64,
}

/// How latency varies, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// RFC 3550 6.4.1, interarrival jitter: mean and maximum over the flows, at the end of the trial.
    pub jitter_mean_ns: f64,
    pub jitter_max_ns: f64,
    /// Inter-packet delay variation (RFC 5481 4.1), its magnitude: between frames of a flow that follow each other.
    pub ipdv_p50_ns: Option<u64>,
    pub ipdv_p99_ns: Option<u64>,
    pub ipdv_p99_9_ns: Option<u64>,
    pub ipdv_max_ns: Option<u64>,
    /// Packet delay variation (RFC 5481 4.2): latency above the smallest one.
    pub pdv_p50_ns: u64,
    pub pdv_p99_ns: u64,
    pub pdv_p99_9_ns: u64,
    pub pdv_max_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn summaries_are_those_of_the_sorted_samples(
            samples in prop::collection::vec((1u64..LONGEST, 0u32..36).prop_map(|(v, s)| (v >> s).max(1)), 1..400),
            floor in prop::option::of(1u64..2000),
        ) {
            let mut whole = Latencies::new(1, floor);
            let mut halves = (Latencies::new(1, floor), Latencies::new(1, floor));
            for (i, &sample) in samples.iter().enumerate() {
                whole.record(Some(sample));
                if i % 2 == 0 { halves.0.record(Some(sample)) } else { halves.1.record(Some(sample)) }
            }
            halves.0.add(&halves.1);
            let summary = whole.summary().unwrap();
            let added = halves.0.summary().unwrap();
            // The deviation alone depends on the order of a sum.
            prop_assert_eq!(LatencySummary { deviation_ns: 0.0, ..summary }, LatencySummary { deviation_ns: 0.0, ..added });
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let less = floor.unwrap_or(0);
            for (quantile, found) in [(0.5, summary.p50_ns), (0.9, summary.p90_ns), (0.99, summary.p99_ns), (0.9999, summary.p99_99_ns)] {
                let exact = sorted[((quantile * sorted.len() as f64).ceil() as usize).max(1) - 1];
                let error = found.abs_diff(exact.saturating_sub(less));
                prop_assert!(error as f64 <= exact as f64 / 1000.0, "{quantile}: {found} instead of {exact} - {less}");
            }
            prop_assert_eq!((summary.raw_min_ns, summary.raw_max_ns), (sorted[0], *sorted.last().unwrap()));
            prop_assert_eq!(summary.min_ns, sorted[0].saturating_sub(less));
            prop_assert_eq!(summary.below_floor, sorted.iter().filter(|sample| **sample < less).count() as u64);
            let mean = sorted.iter().map(|&sample| u128::from(sample)).sum::<u128>() as f64 / sorted.len() as f64;
            prop_assert!((summary.raw_mean_ns - mean).abs() <= mean * 1e-12);
        }
    }

    #[test]
    fn a_sample_of_the_frames() {
        let mut latencies = Latencies::new(10, None);
        (1..=100).for_each(|latency| latencies.record(Some(latency)));
        let summary = latencies.summary().unwrap();
        assert_eq!((summary.count, summary.every, summary.min_ns, summary.max_ns), (10, 10, 10, 100));
        latencies.clear();
        assert_eq!(latencies.summary(), None);
    }

    #[test]
    fn what_cannot_be_is_counted() {
        let mut latencies = Latencies::new(1, Some(500));
        assert_eq!(latencies.summary(), None);
        latencies.record(None);
        latencies.record(Some(400));
        latencies.record(Some(LONGEST * 3));
        let summary = latencies.summary().unwrap();
        assert_eq!((summary.from_future, summary.below_floor, summary.min_ns), (1, 1, 0));
        assert_eq!((summary.raw_min_ns, summary.raw_max_ns), (400, LONGEST * 3));
    }
}
