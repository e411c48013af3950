// SPDX-License-Identifier: MIT
//! The addresses that are looked up, which are the same for all structures.

use super::Entry;
use super::Family;
use clap::ValueEnum;
use perigee_fib::synth::Random;
use serde::{Deserialize, Serialize};

/// How destinations are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Every address alike: any of IPv4, any of 2000::/3
    Uniform,
    /// Every prefix alike, with random host bits
    Routed,
    /// As routed, in ascending order
    Sequential,
    /// 131,072 routed destinations, the n-th most popular 1/n as often as the first
    Zipf,
}

impl Pattern {
    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Uniform => "uniform",
            Pattern::Routed => "routed",
            Pattern::Sequential => "sequential",
            Pattern::Zipf => "zipf",
        }
    }

    /// `count` addresses for a table that is not empty.
    pub fn addresses<A: Family>(self, table: &[Entry<A>], count: usize, seed: u64) -> Vec<A> {
        // Each pattern has its own seed, so that their order on the command line does not matter.
        let random = &mut Random::new(seed ^ (self as u64 + 1) << 32);
        match self {
            Pattern::Uniform => (0..count).map(|_| A::uniform(random)).collect(),
            Pattern::Routed => (0..count).map(|_| routed(table, random)).collect(),
            Pattern::Sequential => {
                let mut addresses: Vec<A> = (0..count).map(|_| routed(table, random)).collect();
                addresses.sort_unstable();
                addresses
            }
            Pattern::Zipf => zipf(table, count, random),
        }
    }
}

fn routed<A: Family>(table: &[Entry<A>], random: &mut Random) -> A {
    let (prefix, _) = table[random.below(table.len() as u32) as usize];
    A::with_host_bits(prefix, A::random(random))
}

const ZIPF_DESTINATIONS: usize = 131_072;

/// Zipf's law with s = 1. The destinations are random, so their ranks say nothing of where they lie.
fn zipf<A: Family>(table: &[Entry<A>], count: usize, random: &mut Random) -> Vec<A> {
    let destinations: Vec<A> = (0..ZIPF_DESTINATIONS).map(|_| routed(table, random)).collect();
    let mut sum = 0.0;
    let upto: Vec<f64> = (1..=ZIPF_DESTINATIONS)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let draw = |random: &mut Random| {
        let at = random.bits() as f64 / 2.0f64.powi(64) * sum;
        upto.partition_point(|end| *end <= at).min(ZIPF_DESTINATIONS - 1)
    };
    (0..count).map(|_| destinations[draw(random)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_fib::{NextHopId, synth};
    use std::collections::HashMap;

    fn table() -> Vec<Entry<u32>> {
        synth::ipv4(2000, 3).into_iter().map(|(prefix, hop)| (prefix, NextHopId(hop))).collect()
    }

    #[test]
    fn patterns_are_fixed_by_their_seed_and_stay_where_they_belong() {
        let table = table();
        for pattern in Pattern::value_variants() {
            let addresses: Vec<u32> = pattern.addresses(&table, 5000, 1);
            assert_eq!(addresses, pattern.addresses(&table, 5000, 1), "{pattern:?}");
            assert_ne!(addresses, pattern.addresses(&table, 5000, 2), "{pattern:?}");
            if *pattern != Pattern::Uniform {
                let routed = |address: &u32| table.iter().any(|(prefix, _)| prefix.contains(*address));
                assert!(addresses.iter().all(routed), "{pattern:?}");
            }
        }
        assert!(Pattern::Sequential.addresses::<u32>(&table, 5000, 1).is_sorted());
        let v6 = Pattern::Uniform.addresses::<u128>(&[], 100, 1);
        assert!(v6.iter().all(|address| address >> 125 == 1), "2000::/3");
    }

    #[test]
    fn zipf_has_the_shares_of_its_law() {
        let count = 400_000;
        let mut times: HashMap<u32, usize> = HashMap::new();
        for address in Pattern::Zipf.addresses(&table(), count, 1) {
            *times.entry(address).or_default() += 1;
        }
        let mut times: Vec<usize> = times.into_values().collect();
        times.sort_unstable_by_key(|times| std::cmp::Reverse(*times));
        // The sum of 1/n up to 131,072 is 12.36.
        let (first, second) = (times[0] as f64 / count as f64, times[1] as f64 / count as f64);
        assert!((0.078..0.084).contains(&first) && (0.038..0.043).contains(&second), "{first}, {second}");
    }
}
