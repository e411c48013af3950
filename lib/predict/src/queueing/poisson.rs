// SPDX-License-Identifier: MIT
//! Numbers of Poisson arrivals, as vectors of probabilities from 0 on.

/// What is beyond the end of a vector has less than this.
const NEGLIGIBLE: f64 = 1e-19;

/// Probabilities of 0, 1, 2, ... arrivals when `mean` are expected.
///
/// From the mode outwards, so that neither a small nor a large mean underflows; scaled to a sum of 1.
pub fn poisson(mean: f64) -> Vec<f64> {
    if mean <= 0.0 {
        return vec![1.0];
    }
    let mode = mean.floor() as usize;
    let mut weights = vec![0.0; mode + 1];
    weights[mode] = 1.0;
    for k in (0..mode).rev() {
        weights[k] = weights[k + 1] * (k + 1) as f64 / mean;
    }
    // Beyond the mode the terms fall faster than a geometric series of ratio mean / k.
    let mut term = 1.0;
    for k in mode + 1.. {
        term *= mean / k as f64;
        let ratio = mean / (k + 1) as f64;
        if term < NEGLIGIBLE * (1.0 - ratio) {
            break;
        }
        weights.push(term);
    }
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

/// Probabilities of sums of two independent numbers; the end is cut where almost nothing is left.
pub fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x > 0.0) {
        for (sum, y) in sums[i..].iter_mut().zip(b) {
            *sum += x * y;
        }
    }
    cut(&mut sums, NEGLIGIBLE);
    sums
}

/// Cuts the end of a vector that has less than `rest` in all.
pub fn cut(weights: &mut Vec<f64>, rest: f64) {
    let mut left = 0.0;
    while weights.len() > 1 && left + weights[weights.len() - 1] < rest {
        left += weights.pop().unwrap_or(0.0);
    }
}

/// For each j the probability of more than j; summed from the end, where terms are smallest.
pub fn tails(probabilities: &[f64]) -> Vec<f64> {
    let mut tails = vec![0.0; probabilities.len()];
    let mut sum = 0.0;
    for j in (0..probabilities.len()).rev() {
        tails[j] = sum;
        sum += probabilities[j];
    }
    tails
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{Discrete, Poisson};

    #[test]
    fn probabilities_are_those_of_statrs() {
        for mean in [1e-6, 0.3, 1.0, 17.5, 700.0, 20_000.0] {
            let oracle = Poisson::new(mean).unwrap();
            let ours = poisson(mean);
            assert!((ours.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for (k, p) in ours.iter().enumerate() {
                let expected = oracle.pmf(k as u64);
                assert!((p - expected).abs() < 1e-9 * expected + 1e-18, "mean {mean}, {k}: {p}, {expected}");
            }
        }
        assert_eq!(poisson(0.0), [1.0]);
    }

    #[test]
    fn sums_of_poisson_numbers_are_poisson() {
        let (sum, expected) = (convolve(&poisson(2.0), &poisson(3.5)), poisson(5.5));
        for (a, b) in sum.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-15);
        }
    }

    #[test]
    fn tails_are_what_is_above() {
        assert_eq!(tails(&[0.5, 0.25, 0.25]), [0.5, 0.25, 0.0]);
    }
}
