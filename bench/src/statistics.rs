// SPDX-License-Identifier: MIT
//! Medians and their intervals, without an assumption about how the noise is distributed.

use serde::Serialize;

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Median {
    pub median: f64,
    /// The interval's lower end; minus infinity (null in JSON) where there are too few samples for one.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Median {
    /// The median of samples, with the interval that holds the true median with a probability of at least 95 %: between
    /// the k-th sample from below and the k-th from above, k from the sign test.
    pub fn of(samples: &[f64]) -> Median {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
        let median = if n % 2 == 1 { at(n / 2) } else { (at((n / 2).wrapping_sub(1)) + at(n / 2)) / 2.0 };
        match rank(n) {
            Some(k) => Median { median, low: at(k - 1), high: at(n - k) },
            None => Median { median, low: f64::NEG_INFINITY, high: f64::INFINITY },
        }
    }

    /// Distance between the interval's ends.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The largest k for which both tails together, P(fewer than k of n heads) twice, stay within 5 %.
fn rank(n: usize) -> Option<usize> {
    let (mut term, mut tail, mut k) = (0.5f64.powi(n as i32), 0.0, 0);
    while k < n && 2.0 * (tail + term) <= 0.05 {
        tail += term;
        k += 1;
        term *= (n - k + 1) as f64 / k as f64;
    }
    (k > 0).then_some(k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables() {
        // Conover, Practical Nonparametric Statistics: for n = 5 there is none; n = 6: the extremes; then as listed.
        let known =
            [(5, None), (6, Some(1)), (9, Some(2)), (15, Some(4)), (20, Some(6)), (21, Some(6)), (30, Some(10))];
        for (n, k) in known {
            assert_eq!(rank(n), k, "n = {n}");
        }
    }

    #[test]
    fn median_and_interval() {
        let samples: Vec<f64> = (1..=15).rev().map(f64::from).collect();
        assert_eq!(Median::of(&samples), Median { median: 8.0, low: 4.0, high: 12.0 });
        assert_eq!(Median::of(&samples[..6]).median, 12.5);
        assert!(Median::of(&samples[..3]).width().is_infinite());
    }
}
