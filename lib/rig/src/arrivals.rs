// SPDX-License-Identifier: MIT
//! When packets come to a receive ring that is made up: by a schedule, whoever looks, as a device's ring fills while
//! its worker does something else.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The arrival process of a ring's packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    /// At random, independent of each other.
    Poisson,
    /// At equal distances.
    Constant,
}

/// What is offered to a ring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// The ring never runs empty, and nothing is lost: the source waits.
    Saturated,
    /// Packets per second, by a process; what finds the ring full is lost.
    Paced {
        /// Of all rings together.
        pps: f64,
        /// How they come.
        process: Process,
    },
    /// This share of what the same workers forward saturated, found right before: [`crate::in_rounds`] makes a pace of
    /// it.
    Share {
        /// Above 0, at most 1.
        share: f64,
        /// How they come.
        process: Process,
    },
}

/// Gaps that are drawn beforehand: a logarithm per packet would be work of the worker's.
const GAPS: usize = 1 << 16;

/// A schedule of arrivals, and the ring that they wait in.
#[derive(Debug)]
pub struct Arrivals {
    /// Gaps as multiples of the mean one; empty: all alike.
    gaps: Vec<f32>,
    at: usize,
    /// The mean gap in ns.
    gap: f64,
    /// When the next packet comes, in ns; before the first look it is not known.
    next: Option<f64>,
    /// Arrival times of those in the ring, in ns.
    waiting: VecDeque<u64>,
    places: usize,
    /// It is filled up whenever it is looked into.
    saturated: bool,
    /// Packets that came, and of them those that found the ring full.
    pub offered: u64,
    pub lost: u64,
}

impl Arrivals {
    /// A schedule of `pps` packets per second, into a ring with so many places.
    pub fn new(pps: f64, process: Process, places: usize, seed: u64) -> Arrivals {
        let mut random = StdRng::seed_from_u64(seed);
        let mut draw = || -(1.0 - random.random::<f64>()).ln();
        let mut gaps: Vec<f32> = match process {
            Process::Constant => Vec::new(),
            Process::Poisson => (0..GAPS).map(|_| draw() as f32).collect(),
        };
        // So that the rate is the one that was asked for, however these came out.
        let sum: f64 = gaps.iter().map(|gap| f64::from(*gap)).sum();
        gaps.iter_mut().for_each(|gap| *gap *= (GAPS as f64 / sum) as f32);
        let waiting = VecDeque::with_capacity(places);
        Arrivals { gaps, at: 0, gap: 1e9 / pps, next: None, waiting, places, saturated: false, offered: 0, lost: 0 }
    }

    /// A ring that never runs empty. Its packets take the same way as those of a schedule, so that they cost the same.
    pub fn saturated(places: usize, seed: u64) -> Arrivals {
        Arrivals { gap: 0.0, saturated: true, ..Arrivals::new(1.0, Process::Poisson, places, seed) }
    }

    /// When the next packet comes that is not in the ring yet, in ns; `None` before the first look.
    pub fn next(&self) -> Option<u64> {
        self.next.map(|next| next.ceil() as u64)
    }

    /// Does the ring hold nothing?
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets come what has come by `now` (ns), and takes up to `burst` packets out of the ring: their arrival times.
    pub fn take(&mut self, now: u64, burst: usize) -> impl ExactSizeIterator<Item = u64> {
        let start = now as f64;
        let mut next = self.next.unwrap_or(start);
        // As many as are taken, at the time that they are taken.
        while if self.saturated { self.waiting.len() < burst } else { next <= start } {
            self.offered += 1;
            if self.waiting.len() < self.places {
                self.waiting.push_back(next as u64);
            } else {
                self.lost += 1;
            }
            let share = match self.gaps.get(self.at) {
                Some(gap) => f64::from(*gap),
                None => 1.0,
            };
            self.at = (self.at + 1) % GAPS;
            next += share * self.gap;
        }
        self.next = Some(if self.saturated { start } else { next });
        let taken = self.waiting.len().min(burst);
        self.waiting.drain(..taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_constant_rate_comes_at_equal_distances_whoever_looks() {
        let mut arrivals = Arrivals::new(1e6, Process::Constant, 4, 1);
        assert_eq!(arrivals.take(5_000, 32).collect::<Vec<_>>(), [5_000], "the first look begins it");
        assert_eq!(arrivals.next(), Some(6_000));
        assert_eq!(arrivals.take(5_999, 32).len(), 0);
        assert_eq!(arrivals.take(8_500, 2).collect::<Vec<_>>(), [6_000, 7_000]);
        assert!(!arrivals.is_empty());
        assert_eq!(arrivals.take(8_500, 2).collect::<Vec<_>>(), [8_000]);
        // Twenty came, four found a place.
        assert_eq!(arrivals.take(28_500, 32).len(), 4);
        assert_eq!((arrivals.offered, arrivals.lost), (24, 16));
    }

    proptest! {
        /// All that came is taken, lost, or still there, and the rate is the one that was asked for.
        #[test]
        fn every_arrival_is_accounted_for(seed: u64, pps in 1e4..1e8, places in 1usize..300, looks in prop::collection::vec(1u64..20_000, 1..200)) {
            let mut arrivals = Arrivals::new(pps, Process::Poisson, places, seed);
            let (mut now, mut taken, mut last) = (1_000, 0, 0);
            for look in &looks {
                now += look;
                for time in arrivals.take(now, 32) {
                    prop_assert!(time <= now && time >= last);
                    (last, taken) = (time, taken + 1);
                }
            }
            let left = arrivals.waiting.len() as u64;
            prop_assert_eq!(arrivals.offered, taken + left + arrivals.lost);
            let begun = 1_000 + looks[0];
            let expected = (now - begun) as f64 * pps / 1e9;
            prop_assert!((arrivals.offered as f64 - expected).abs() <= 8.0 * expected.sqrt() + 20.0);
        }
    }
}
