// SPDX-License-Identifier: MIT
//! Synthetic routing tables with the prefix lengths of the real Internet, for tests and benchmarks.

use std::collections::HashSet;

use crate::prefix::{Prefix4, PrefixOf};

/// How many IPv4 prefixes of each length a Tier-1 provider's table of 901,899 has; /25 to /31 are spread evenly.
const IPV4_LENGTHS: [(u8, u32); 25] = [
    (8, 16),
    (9, 13),
    (10, 38),
    (11, 103),
    (12, 299),
    (13, 581),
    (14, 1203),
    (15, 2100),
    (16, 13490),
    (17, 8235),
    (18, 13798),
    (19, 24870),
    (20, 42611),
    (21, 50750),
    (22, 108_623),
    (23, 96510),
    (24, 537_698),
    (25, 11),
    (26, 11),
    (27, 11),
    (28, 11),
    (29, 11),
    (30, 11),
    (31, 10),
    (32, 886),
];

/// Random numbers from a seed (SplitMix64): the same ones on every machine and in every version.
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(end)) >> 32) as u32
    }
}

/// Next hops in a synthetic table: 1 to this many, uniformly.
pub const NEXT_HOPS: u32 = 250;

/// `n` different IPv4 prefixes, each with a number from 1 to [`NEXT_HOPS`], in the real proportion of lengths (for
/// small `n` the rare lengths are left out). As in the real table about half of them lie inside an earlier one.
///
/// # Panics
/// If `n` is over 4 million: the space of the short prefixes would be used up.
pub fn ipv4(n: usize, seed: u64) -> Vec<(Prefix4, u32)> {
    assert!(n <= 4_000_000, "at most 4 million prefixes");
    let mut random = Random::new(seed);
    let total: u32 = IPV4_LENGTHS.iter().map(|(_, count)| count).sum();
    let mut seen = HashSet::with_capacity(n);
    let mut table: Vec<(Prefix4, u32)> = Vec::with_capacity(n);
    while table.len() < n {
        let len = pick_length(random.below(total));
        let mut addr = unicast(&mut random);
        if !table.is_empty() && random.below(2) == 0 {
            let (outer, _) = table[random.below(table.len() as u32) as usize];
            if outer.len() < len {
                addr = outer.addr() | addr & u32::MAX.checked_shr(outer.len().into()).unwrap_or(0);
            }
        }
        let prefix = PrefixOf::truncated(addr, len).expect("lengths of the table are at most 32");
        if seen.insert(prefix) {
            table.push((prefix, 1 + random.below(NEXT_HOPS)));
        }
    }
    table
}

fn pick_length(mut at: u32) -> u8 {
    for (len, count) in IPV4_LENGTHS {
        if at < count {
            return len;
        }
        at -= count;
    }
    unreachable!("`at` is below the sum of all counts")
}

/// A random address of class A to C: 1.0.0.0 to 223.255.255.255.
fn unicast(random: &mut Random) -> u32 {
    (1 << 24) + random.below(223 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_table_in_the_real_proportions() {
        let table = ipv4(20_000, 1);
        assert_eq!(table, ipv4(20_000, 1));
        assert_ne!(table, ipv4(20_000, 2));
        let share = |len| table.iter().filter(|(prefix, _)| prefix.len() == len).count() as f64 / 20_000.0;
        assert!((0.57..0.62).contains(&share(24)), "share of /24: {}", share(24));
        assert!((0.10..0.14).contains(&share(22)), "share of /22: {}", share(22));
        assert!(table.iter().all(|(_, hop)| (1..=NEXT_HOPS).contains(hop)));
    }
}
