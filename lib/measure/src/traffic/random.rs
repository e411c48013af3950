// SPDX-License-Identifier: MIT
//! Random numbers: a generator, orders without repetition, and Zipf's law. All follow from a seed, the same on every
//! machine.

/// A sequence of random numbers: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    #[inline(always)]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

/// The finalizer of SplitMix64.
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The random numbers of this number among those of a seed, without those before it.
pub(crate) fn at(seed: u64, number: u64) -> u64 {
    mix(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// The numbers from 0 to a limit in a random order, each computed from its place without a table.
#[derive(Debug, Clone)]
pub(crate) enum Shuffle {
    /// A permutation of the numbers below the next power of two, followed until it leads below `limit`.
    Permutation { limit: u64, mask: u64, shift: u32, keys: [u64; 3] },
    /// Drawn from so many numbers that two of the same are as good as impossible.
    Drawn { limit: u128, seed: u64 },
}

/// From here on numbers are drawn: 2^24 of 2^63 have a pair of the same with a probability of 2^-16.
const MANY: u128 = 1 << 63;

impl Shuffle {
    /// An order of the numbers below `limit`, which is at least 1.
    pub fn new(limit: u128, seed: u64) -> Shuffle {
        if limit > MANY {
            return Shuffle::Drawn { limit, seed };
        }
        let limit = limit.max(1) as u64;
        let bits = u64::BITS - (limit - 1).leading_zeros();
        let mut random = Random::new(seed);
        let keys = [random.bits(), random.bits() | 1, random.bits() | 1];
        Shuffle::Permutation { limit, mask: (1u64 << bits) - 1, shift: (bits / 2).max(1), keys }
    }

    /// The number at a place, which is below the limit.
    #[inline]
    pub fn at(&self, place: u64) -> u128 {
        match *self {
            Shuffle::Permutation { limit, mask, shift, keys: [offset, first, second] } => {
                let mut number = place;
                // Each step can be undone, so no two places lead to the same number; nor do they after several turns.
                loop {
                    number = number.wrapping_add(offset) & mask;
                    number = (number ^ number >> shift).wrapping_mul(first) & mask;
                    number = (number ^ number >> shift).wrapping_mul(second) & mask;
                    number ^= number >> shift;
                    if number < limit {
                        return number.into();
                    }
                }
            }
            Shuffle::Drawn { limit, seed } => {
                let bits = u128::from(at(seed, 2 * place)) << 64 | u128::from(at(seed, 2 * place + 1));
                scale(bits, limit)
            }
        }
    }
}

/// The upper half of the product: from a number of 128 random bits one below `limit`.
fn scale(bits: u128, limit: u128) -> u128 {
    let half = |number: u128| (number >> 64, u128::from(number as u64));
    let ((a, b), (c, d)) = (half(bits), half(limit));
    let middle = a * d + ((b * d) >> 64);
    let (high, low) = half(middle);
    a * c + high + ((b * c + low) >> 64)
}

/// The most values that Zipf's law is drawn from.
pub(crate) const MOST_RANKS: u64 = 1 << 24;

/// Numbers drawn with given probabilities in one step each: Walker's aliases, built as Vose does ("A linear algorithm
/// for generating random numbers with a given distribution", 1991).
#[derive(Debug, Clone)]
pub(crate) struct Alias {
    /// Of each number: below which of 2^32 it is taken itself, and which other number otherwise.
    entries: Vec<(u32, u32)>,
}

impl Alias {
    /// Zipf's law over `count` ranks, at most [`MOST_RANKS`]: rank k, from 0, with a probability proportional to
    /// 1 / (k + 1)^s.
    pub fn zipf(count: u32, s: f64) -> Alias {
        let weights: Vec<f64> = (1..=count).map(|rank| f64::from(rank).powf(-s)).collect();
        Alias::new(&weights)
    }

    fn new(weights: &[f64]) -> Alias {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let mut entries: Vec<(u32, u32)> = (0..weights.len() as u32).map(|own| (u32::MAX, own)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|i| shares[*i as usize] < 1.0);
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            let lacking = 1.0 - shares[poor as usize];
            entries[poor as usize] = ((shares[poor as usize] * 4_294_967_296.0) as u32, rich);
            shares[rich as usize] -= lacking;
            if shares[rich as usize] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Alias { entries }
    }

    /// A number from 64 random bits.
    #[inline(always)]
    pub fn draw(&self, bits: u64) -> u32 {
        let number = (((bits >> 32) * self.entries.len() as u64) >> 32) as u32;
        let (below, other) = self.entries[number as usize];
        // Without a branch, as none could be predicted.
        other ^ ((other ^ number) & u32::from((bits as u32) < below).wrapping_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Steele et al.'s generator as published: the first numbers of seed 1234567.
    #[test]
    fn known_numbers() {
        let mut random = Random::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.bits()), expected);
    }

    proptest! {
        #[test]
        fn a_shuffle_has_each_number_once(limit in 1u64..3000, seed in any::<u64>()) {
            let shuffle = Shuffle::new(limit.into(), seed);
            let mut seen = vec![false; limit as usize];
            for place in 0..limit {
                let number = shuffle.at(place) as usize;
                prop_assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
            }
        }

        #[test]
        fn draws_stay_below_the_limit(limit in MANY + 1.., seed in any::<u64>(), place in 0u64..1 << 24) {
            prop_assert!(Shuffle::new(limit, seed).at(place) < limit);
        }

        /// Against the definition, in pieces of 32 bits.
        #[test]
        fn scale_is_the_upper_half(a in any::<u128>(), b in any::<u128>()) {
            let digits = |n: u128| [0, 32, 64, 96].map(|shift| u64::from((n >> shift) as u32));
            let mut product = [0u64; 9];
            for (i, x) in digits(a).iter().enumerate() {
                let mut carry = 0;
                for (j, y) in digits(b).iter().enumerate() {
                    let sum = x * y + product[i + j] + carry;
                    (product[i + j], carry) = (sum & 0xffff_ffff, sum >> 32);
                }
                product[i + 4] += carry;
            }
            let upper = product[4..8].iter().rev().fold(0u128, |n, digit| n << 32 | u128::from(*digit));
            prop_assert_eq!(scale(a, b), upper);
        }
    }

    /// The first half of the places leads to both halves of the numbers evenly, and neighbors are no neighbors.
    #[test]
    fn a_shuffle_is_mixed() {
        for (limit, seed) in [(65_536u64, 1), (64_512, 2), (100_000, 3), (1 << 24, 4)] {
            let shuffle = Shuffle::new(limit.into(), seed);
            let numbers: Vec<i64> = (0..10_000).map(|place| shuffle.at(place) as i64).collect();
            let low = numbers.iter().filter(|number| **number < limit as i64 / 2).count();
            assert!((4600..5400).contains(&low), "{low} of 10000 are in the lower half of {limit}");
            let rising = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
            assert!((4500..5500).contains(&rising), "{rising} of 9999 steps go up");
            let near = numbers.windows(2).filter(|pair| (pair[0] - pair[1]).abs() < limit as i64 / 100).count();
            assert!(near < 400, "{near} of 9999 steps are short");
        }
    }

    /// Chi square of a million draws: with k - 1 degrees of freedom its mean is k - 1 and its variance twice that;
    /// bounds are 5 deviations away.
    #[test]
    fn zipf_has_its_probabilities() {
        for (count, s) in [(1, 1.0), (2, 1.1), (10, 0.0), (100, 1.0), (1000, 0.8), (254, 1.5)] {
            let draws = 1_000_000;
            let alias = Alias::zipf(count, s);
            let mut random = Random::new(7);
            let mut found = vec![0u32; count as usize];
            for _ in 0..draws {
                found[alias.draw(random.bits()) as usize] += 1;
            }
            let weight = |rank: usize| (rank as f64 + 1.0).powf(-s);
            let sum: f64 = (0..found.len()).map(weight).sum();
            let part = |(rank, found): (usize, &u32)| {
                let expected = weight(rank) / sum * f64::from(draws);
                assert!(expected > 20.0);
                (f64::from(*found) - expected).powi(2) / expected
            };
            let chi: f64 = found.iter().enumerate().map(part).sum();
            let freedom = f64::from(count - 1);
            assert!((chi - freedom).abs() <= 5.0 * (2.0 * freedom).sqrt() + 1e-9, "{count} values, s = {s}: {chi}");
        }
    }
}
