// SPDX-License-Identifier: MIT
//! What repeated measurements say: mean and median, their spread, and how well they are known.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

/// A summary of repeated measurements, in their unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The number of measurements.
    pub count: usize,
    pub mean: f64,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Sample standard deviation (n - 1); zero for a single measurement.
    pub deviation: f64,
    /// The 1st and the 99th percentile, the measures of variation in RFC 8219 section 10.
    pub p1: f64,
    pub p99: f64,
    /// 95 % confidence interval of the mean by Student's t; `None` for a single measurement.
    pub mean_interval: Option<(f64, f64)>,
    /// Interval of the median with at least 95 % confidence, from order statistics, so that no distribution is
    /// assumed. `None` for fewer than six measurements, which are not enough for that.
    pub median_interval: Option<(f64, f64)>,
}

impl Summary {
    /// `None` without measurements; those that are not finite are left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        Some(Self {
            count: values.len(),
            mean,
            median: median(&values),
            min,
            max,
            deviation,
            p1: percentile(&values, 1.0),
            p99: percentile(&values, 99.0),
            mean_interval: mean_interval(mean, deviation, values.len()),
            median_interval: median_interval(&values),
        })
    }
}

/// `sorted` has at least one value.
fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// The smallest value that at least `percent` % of the values do not exceed (RFC 2330 section 11.3).
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

fn mean_interval(mean: f64, deviation: f64, count: usize) -> Option<(f64, f64)> {
    if count < 2 {
        return None;
    }
    let t = StudentsT::new(0.0, 1.0, count as f64 - 1.0).ok()?.inverse_cdf(0.975);
    let half = t * deviation / (count as f64).sqrt();
    Some((mean - half, mean + half))
}

/// The interval from the k-th smallest to the k-th largest value contains the median unless fewer than k measurements
/// are on one side of it.
fn median_interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let count = sorted.len();
    let sides = Binomial::new(0.5, count as u64).ok()?;
    let k = (1..=count / 2).rev().find(|k| 2.0 * sides.cdf(*k as u64 - 1) <= 0.05)?;
    Some((sorted[k - 1], sorted[count - k]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_samples() {
        let summary = Summary::of((1..=20).map(f64::from)).unwrap();
        assert_eq!((summary.count, summary.mean, summary.median), (20, 10.5, 10.5));
        assert_eq!((summary.min, summary.max, summary.p1, summary.p99), (1.0, 20.0, 1.0, 20.0));
        // Variance 35; t(19, 0.975) = 2.0930.
        assert!((summary.deviation - 35f64.sqrt()).abs() < 1e-12);
        let (low, high) = summary.mean_interval.unwrap();
        let half = 2.093_024 * 35f64.sqrt() / 20f64.sqrt();
        assert!((high - 10.5 - half).abs() < 1e-4 && (10.5 - low - half).abs() < 1e-4, "{low} {high}");
        // The interval from the 6th to the 15th of 20 has a confidence of 95.9 %; from the 7th to the 14th, of 88 %.
        assert_eq!(summary.median_interval, Some((6.0, 15.0)));
    }

    #[test]
    fn few_measurements() {
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([f64::NAN]), None);
        let one = Summary::of([3.0]).unwrap();
        assert_eq!(
            (one.mean, one.median, one.deviation, one.mean_interval, one.median_interval),
            (3.0, 3.0, 0.0, None, None)
        );
        assert_eq!(Summary::of([1.0; 5]).unwrap().median_interval, None);
        assert_eq!(Summary::of([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap().median_interval, Some((1.0, 6.0)));
    }
}
