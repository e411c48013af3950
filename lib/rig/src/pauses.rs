// SPDX-License-Identifier: MIT
//! What takes a core away from a thread that wants it: the system's timer, other threads, a hypervisor.

use crate::cores::Cores;
use anyhow::{Context as _, Result};
use perigee_dpdk::Clock;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Two readings of the clock further apart than this, in ns, have a pause between them: they take some 20.
const SHORTEST: u64 = 2_000;
/// Lengths that a distribution is told by.
const LENGTHS: usize = 20;

/// The pauses of a core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pauses {
    pub per_second: f64,
    /// Their lengths in ns: of so many equal parts of all of them, from the shortest on, the mean of each.
    pub lengths_ns: Vec<f64>,
}

impl Pauses {
    /// From all lengths in a time.
    pub fn of(mut lengths: Vec<u64>, time: Duration) -> Pauses {
        lengths.sort_unstable();
        let parts = LENGTHS.min(lengths.len());
        let part = |at: usize| {
            let part = &lengths[at * lengths.len() / parts..(at + 1) * lengths.len() / parts];
            part.iter().sum::<u64>() as f64 / part.len() as f64
        };
        Pauses { per_second: lengths.len() as f64 / time.as_secs_f64(), lengths_ns: (0..parts).map(part).collect() }
    }
}

/// Looks at the time on this core, and nothing else, for so long.
///
/// # Errors
/// The core cannot be used.
pub fn pauses(cores: &Cores, core: usize, time: Duration) -> Result<Pauses> {
    Ok(Pauses::of(lengths(cores, core, time)?, time))
}

/// The same, with the length of each pause in ns.
pub(crate) fn lengths(cores: &Cores, core: usize, time: Duration) -> Result<Vec<u64>> {
    let cores = cores.clone();
    let look = move || {
        cores.pin(core)?;
        let clock = Clock::new();
        let (mut last, mut lengths) = (clock.now(), Vec::new());
        let end = last + time.as_nanos() as u64;
        while last < end {
            let now = clock.now();
            if now - last > SHORTEST {
                lengths.push(now - last);
            }
            last = now;
        }
        anyhow::Ok(lengths)
    };
    std::thread::spawn(look).join().ok().context("a thread that looks at the time panicked")?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_told_by_means_of_equal_parts() {
        let pauses = Pauses::of((1..=100).rev().collect(), Duration::from_secs(2));
        assert_eq!((pauses.per_second, pauses.lengths_ns.len()), (50.0, 20));
        assert_eq!((pauses.lengths_ns[0], pauses.lengths_ns[19]), (3.0, 98.0));
        assert_eq!(Pauses::of(vec![5, 3], Duration::from_secs(1)).lengths_ns, [3.0, 5.0]);
        assert!(Pauses::of(Vec::new(), Duration::from_secs(1)).lengths_ns.is_empty());
    }

    #[test]
    fn a_core_can_be_looked_at() {
        let cores = Cores::usable().unwrap();
        assert!(pauses(&cores, cores.list()[0], Duration::from_millis(20)).unwrap().per_second >= 0.0);
    }
}
