// SPDX-License-Identifier: MIT
//! A histogram that costs a few instructions per value: counts in an array, without allocation or error.
//!
//! Values below 64 have a bucket each; above, every power of two has 32 of equal width, so a bucket is at most 1/32 of
//! its values wide. Latencies, of which percentiles are asked for, have the finer hdrhistogram; this is for what is
//! recorded several times per frame: gaps, lateness, delay variation, extents of reordering.

use serde::{Serialize, Serializer};

/// Buckets per power of two, as a power of two.
const FINE: u32 = 5;
const COUNT: usize = (65 - FINE as usize) << FINE;

/// Counts of values of 64 bits.
#[derive(Clone)]
pub struct Buckets {
    counts: Box<[u64; COUNT]>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Buckets {
    fn default() -> Self {
        let counts = vec![0; COUNT].into_boxed_slice().try_into().expect("as many as the array has");
        Buckets { counts, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Buckets {
    #[inline(always)]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Records the same value `n` times.
    #[inline(always)]
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n > 0 {
            self.counts[index(value)] += n;
            self.count += n;
            self.sum += u128::from(value) * u128::from(n);
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Buckets) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value, exactly; `None` if there is none.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, exactly; `None` if there is none.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, exact but for rounding; `None` if there is no value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The value that a share `quantile` (0 to 1) of all values does not exceed, at most 1/32 too large; `None` if
    /// there is no value.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let wanted = ((quantile.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let found = self.iter().find(|(_, _, count)| {
            seen += count;
            seen >= wanted
        });
        found.map(|(_, last, _)| last.clamp(self.min, self.max))
    }

    /// The buckets that hold values, in ascending order: first and last value, count.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, &count)| {
            let (first, last) = bounds(index);
            (first, last, count)
        })
    }
}

impl std::fmt::Debug for Buckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buckets({} values from {:?} to {:?})", self.count, self.min(), self.max())
    }
}

impl PartialEq for Buckets {
    fn eq(&self, other: &Self) -> bool {
        self.counts == other.counts && self.sum == other.sum && self.min == other.min && self.max == other.max
    }
}

/// A list of `[first, last, count]`.
impl Serialize for Buckets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[inline(always)]
fn index(value: u64) -> usize {
    // Below 2 * 32 every value has its own; the shift keeps the leading bit and FINE more.
    let shift = (63 - FINE).saturating_sub(value.leading_zeros());
    (shift << FINE) as usize + (value >> shift) as usize
}

fn bounds(index: usize) -> (u64, u64) {
    let shift = (index >> FINE).saturating_sub(1);
    let first = ((index - (shift << FINE)) as u64) << shift;
    (first, first + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let mut next = Some(0u64);
        for at in 0..COUNT {
            let (first, last) = bounds(at);
            assert_eq!(Some(first), next, "bucket {at}");
            assert_eq!((index(first), index(last)), (at, at));
            assert!((last - first) as f64 <= first as f64 / 32.0, "bucket {at} is {first} to {last}");
            next = last.checked_add(1);
        }
        assert_eq!(next, None, "the last bucket ends with the last value");
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            mut values in prop::collection::vec((any::<u64>(), 0u32..64).prop_map(|(v, s)| v >> s), 1..300), quantile in 0.0..=1f64,
        ) {
            let mut buckets = Buckets::default();
            let mut halves = (Buckets::default(), Buckets::default());
            for (i, &value) in values.iter().enumerate() {
                buckets.record(value);
                if i % 3 == 0 { halves.0.record(value) } else { halves.1.record_n(value, 1) }
            }
            values.sort_unstable();
            let quantile: f64 = quantile;
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let (exact, found) = (values[rank - 1], buckets.quantile(quantile).unwrap());
            prop_assert!(found >= exact && (found - exact) as f64 <= exact as f64 / 32.0, "{exact} {found}");
            prop_assert_eq!((buckets.min(), buckets.max()), (values.first().copied(), values.last().copied()));
            let mean = values.iter().map(|&v| u128::from(v)).sum::<u128>() as f64 / values.len() as f64;
            prop_assert!((buckets.mean().unwrap() - mean).abs() <= mean * 1e-12);
            halves.0.add(&halves.1);
            prop_assert_eq!(buckets, halves.0);
        }
    }

    #[test]
    fn what_is_not_equal() {
        let of = |values: &[u64]| {
            let mut buckets = Buckets::default();
            values.iter().for_each(|value| buckets.record(*value));
            buckets
        };
        // 1000 to 1007 are one bucket.
        assert_eq!(of(&[1000, 1001]), of(&[1001, 1000]));
        assert_ne!(of(&[1000, 1001]), of(&[1000, 1002]));
        assert_ne!(of(&[1000, 1003]), of(&[1001, 1002]));
        assert_ne!(of(&[5, 7]), of(&[6, 6]));
        assert_ne!(of(&[5, 7, 6, 6]), of(&[5, 7, 5, 7]));
    }

    #[test]
    fn without_a_value() {
        let empty = Buckets::default();
        assert_eq!((empty.min(), empty.max(), empty.mean(), empty.quantile(0.5)), (None, None, None, None));
        assert_eq!(serde_json::to_string(&empty).unwrap(), "[]");
    }
}
