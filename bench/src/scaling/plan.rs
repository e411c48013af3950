// SPDX-License-Identifier: MIT
//! Which numbers of threads run, where one runs alone, and how long all of it takes: known before anything runs.

use super::threads::WARM;
use perigee_predict::campaign::ladder;
use std::time::Duration;

/// Cores on which a thread runs alone in a round; of more cores, others have their turn in the next one.
const ALONE: usize = 4;
/// What a measurement takes besides its time.
const SETUP: Duration = Duration::from_millis(15);

/// What runs in each round, for each subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    most: usize,
    /// Numbers of threads at once, from 2 on.
    pub numbers: Vec<usize>,
}

impl Plan {
    /// The plan for up to `most` threads.
    pub fn new(most: usize) -> Plan {
        Plan { most, numbers: ladder(most as u32).into_iter().skip(1).map(|number| number as usize).collect() }
    }

    /// The cores, by their places, on which a thread runs alone in this round.
    pub fn alone(&self, round: usize) -> Vec<usize> {
        let count = self.most.min(ALONE);
        (0..count).map(|at| (round * count + at) % self.most).collect()
    }

    /// Measurements of a subject in a round.
    pub fn measurements(&self) -> usize {
        self.most.min(ALONE) + self.numbers.len()
    }

    /// How long all rounds of these subjects take if each measurement takes `time`.
    pub fn time(&self, subjects: usize, rounds: usize, time: Duration) -> Duration {
        (WARM + SETUP + time) * (self.measurements() * subjects * rounds) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers of threads up to 16 ran in each round, and a thread on each of 16 cores before.
    #[test]
    fn a_round_hardly_grows_with_the_cores() {
        assert_eq!(Plan::new(2), Plan { most: 2, numbers: vec![2] });
        assert_eq!((Plan::new(16).numbers, Plan::new(64).numbers.len()), (vec![2, 4, 8, 12, 16], 9));
        for most in 2..=64 {
            let plan = Plan::new(most);
            // As many subjects and rounds as there are by default.
            let time = plan.time(9, 11, Duration::from_millis(200));
            assert!(time < Duration::from_secs(330), "{most}: {time:?}");
            assert_eq!(plan.alone(0).len() + plan.numbers.len(), plan.measurements());
        }
    }

    #[test]
    fn each_core_is_alone_in_some_round() {
        assert_eq!((Plan::new(2).alone(0), Plan::new(2).alone(7)), (vec![0, 1], vec![0, 1]));
        let mut all: Vec<usize> = (0..4).flat_map(|round| Plan::new(16).alone(round)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..16).collect::<Vec<_>>());
        assert_eq!(Plan::new(6).alone(1), [4, 5, 0, 1]);
    }
}
