// SPDX-License-Identifier: MIT
//! Which values of several ranges meet in which flow.
//!
//! Every range moves on by one from flow to flow and starts again after its last value. When all are back at the start
//! together, after the least common multiple of their lengths, the shorter ones skip a value: so all combinations come
//! up, each once, and the first flows differ in every range (source 1 sends to destination 1, source 2 to destination
//! 2, ...).

use super::sizes::gcd;

/// The order of the combinations of ranges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Combinations {
    /// Which range has the n-th most values.
    by_length: Vec<usize>,
    /// The ranges' lengths, longest first.
    sorted: Vec<u64>,
    /// The ranges' lengths.
    lengths: Vec<u64>,
    /// Of each but the longest: after how many flows it skips a value, and the combinations of those before it.
    turns: Vec<(u64, u64)>,
}

impl Combinations {
    /// The combinations of ranges of these lengths, each at least 1.
    pub fn new(lengths: &[u64]) -> Combinations {
        let mut by_length: Vec<usize> = (0..lengths.len()).collect();
        by_length.sort_by_key(|range| std::cmp::Reverse(lengths[*range]));
        let sorted: Vec<u64> = by_length.iter().map(|range| lengths[*range]).collect();
        let mut before = sorted.first().copied().unwrap_or(1);
        let mut turns = Vec::new();
        for &length in sorted.iter().skip(1) {
            turns.push(((before / gcd(before, length)).saturating_mul(length), before));
            before = before.saturating_mul(length);
        }
        Combinations { by_length, sorted, lengths: lengths.to_vec(), turns }
    }

    /// The ranges' lengths.
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// How many there are; `u64::MAX` if there are more than that.
    pub fn count(&self) -> u64 {
        self.lengths.iter().fold(1, |count: u64, length| count.saturating_mul(*length))
    }

    /// The value of each range in a flow, by its place in the range.
    pub fn at(&self, flow: u64, places: &mut [u64]) {
        let mut rest = flow;
        for at in (1..self.sorted.len()).rev() {
            let (turn, before) = self.turns[at - 1];
            let along = u128::from(rest) + u128::from(rest / turn);
            places[self.by_length[at]] = (along % u128::from(self.sorted[at])) as u64;
            rest %= before;
        }
        if let (Some(&range), Some(&length)) = (self.by_length.first(), self.sorted.first()) {
            places[range] = rest % length;
        }
    }

    /// In this many flows, from a multiple of it on, every range just goes on from value to value.
    fn straight(&self) -> u64 {
        self.turns.first().map_or(u64::MAX, |(turn, _)| *turn)
    }
}

/// The combinations one after the other, over and over.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    combinations: Combinations,
    /// How many flows there are.
    flows: u64,
    next: u64,
    places: Vec<u64>,
    /// Flows until something other than the next value of each range comes.
    left: u64,
}

impl Steps {
    /// The first `flows` combinations.
    pub fn new(lengths: &[u64], flows: u64) -> Steps {
        let places = vec![0; lengths.len()];
        let mut steps =
            Steps { combinations: Combinations::new(lengths), flows: flows.max(1), next: 0, places, left: 0 };
        steps.seek(0);
        steps
    }

    /// The place of the present flow in a range, and the range's length.
    #[inline(always)]
    pub fn place(&self, range: usize) -> (u64, u64) {
        (self.places[range], self.combinations.lengths[range])
    }

    /// For how many flows, the present one included, every range just goes on from value to value: at least 1.
    #[inline(always)]
    pub fn straight(&self) -> u64 {
        self.left
    }

    /// Goes on by a number of flows that is at most [`straight`](Steps::straight).
    #[inline(always)]
    pub fn advance(&mut self, count: u64) {
        self.next += count;
        self.left -= count;
        if self.left == 0 {
            return self.seek(if self.next == self.flows { 0 } else { self.next });
        }
        for (place, length) in self.places.iter_mut().zip(&self.combinations.lengths) {
            *place += count;
            // A range may be shorter than the burst.
            while *place >= *length {
                *place -= *length;
            }
        }
    }

    /// Goes back by a number of flows.
    pub fn go_back(&mut self, count: u64) {
        let count = count % self.flows;
        self.seek((self.next + self.flows - count) % self.flows);
    }

    /// This flow becomes the present one.
    #[cold]
    pub fn seek(&mut self, flow: u64) {
        self.next = flow;
        self.combinations.at(flow, &mut self.places);
        let straight = self.combinations.straight();
        self.left = (straight - flow % straight).min(self.flows - flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn ranges_move_together_first() {
        let pairs = |lengths: [u64; 2], count: u64| -> Vec<[u64; 2]> {
            let combinations = Combinations::new(&lengths);
            let at = |flow| {
                let mut places = [0; 2];
                combinations.at(flow, &mut places);
                places
            };
            (0..count).map(at).collect()
        };
        assert_eq!(pairs([3, 3], 9), [[0, 0], [1, 1], [2, 2], [0, 1], [1, 2], [2, 0], [0, 2], [1, 0], [2, 1]]);
        assert_eq!(pairs([2, 3], 6), [[0, 0], [1, 1], [0, 2], [1, 0], [0, 1], [1, 2]]);
    }

    proptest! {
        #[test]
        fn each_combination_comes_once(lengths in prop::collection::vec(1u64..9, 0..5)) {
            let combinations = Combinations::new(&lengths);
            prop_assert_eq!(combinations.count(), lengths.iter().product::<u64>());
            let mut seen = HashSet::new();
            for flow in 0..combinations.count() {
                let mut places = vec![0; lengths.len()];
                combinations.at(flow, &mut places);
                prop_assert!(places.iter().zip(&lengths).all(|(place, length)| place < length));
                prop_assert!(seen.insert(places));
            }
        }

        #[test]
        fn steps_are_the_combinations(lengths in prop::collection::vec(1u64..9, 0..5), flows in 1u64..200) {
            let combinations = Combinations::new(&lengths);
            let flows = flows.min(combinations.count());
            let mut steps = Steps::new(&lengths, flows);
            for turn in 0..500 {
                let mut places = vec![0; lengths.len()];
                combinations.at(turn % flows, &mut places);
                prop_assert_eq!(&steps.places, &places, "turn {}", turn);
                steps.advance(1);
            }
            steps.seek(0);
            let mut turn = 0;
            for round in 0..200 {
                let count = steps.straight().min(1 + round % 32);
                steps.advance(count);
                let back = (turn + count).min(round % 7);
                steps.go_back(back);
                turn = turn + count - back;
                let mut places = vec![0; lengths.len()];
                combinations.at(turn % flows, &mut places);
                prop_assert_eq!(&steps.places, &places, "turn {}", turn);
            }
        }
    }

    #[test]
    fn huge_ranges_do_not_overflow() {
        let combinations = Combinations::new(&[u64::MAX, u64::MAX, 3, 1 << 40]);
        assert_eq!(combinations.count(), u64::MAX);
        let mut places = [0; 4];
        combinations.at((1 << 24) - 1, &mut places);
        assert_eq!(places, [(1 << 24) - 1, (1 << 24) - 1, 0, (1 << 24) - 1]);
        let mut steps = Steps::new(&[1 << 40, 1 << 30], 1 << 24);
        steps.advance(1);
        assert_eq!(steps.places, [1, 1]);
    }
}
