// SPDX-License-Identifier: MIT
//! Synthetic routing tables with the prefix lengths of the real Internet, for tests and benchmarks; [`shapes`]: tables
//! that are unlike it.

pub mod shapes;

use std::collections::{HashMap, HashSet};

use perigee_net::{Address, Prefix4, Prefix6, PrefixOf};

/// How many IPv4 prefixes of each length there are in a Tier-1 provider's table of 901,899; /25 to /31 are spread
/// evenly.
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

/// How many IPv6 prefixes of each length there are in the same provider's table of 160,147 ...
#[rustfmt::skip]
const IPV6_LENGTHS: [(u8, u32); 46] = [
    (16, 1), (19, 1), (20, 16), (21, 3), (22, 7), (23, 8), (24, 30), (25, 8), (26, 15), (27, 20), (28, 193),
    (29, 4371), (30, 650), (31, 284), (32, 22548), (33, 2926), (34, 2603), (35, 1043), (36, 5996), (37, 880),
    (38, 1617), (39, 1377), (40, 13418), (41, 903), (42, 2301), (43, 1001), (44, 14365), (45, 1553), (46, 3039),
    (47, 3153), (48, 75488), (49, 11), (50, 3), (52, 1), (55, 1), (56, 24), (58, 20), (60, 2), (64, 184), (112, 2),
    (122, 1), (124, 4), (125, 9), (126, 19), (127, 42), (128, 6),
];

/// ... and how many lie in each /16; all are in 2000::/3.
#[rustfmt::skip]
const IPV6_BLOCKS: [(u16, u32); 60] = [
    (0x2001, 20151), (0x2002, 1), (0x2003, 2), (0x2049, 16), (0x2400, 3646), (0x2401, 5270), (0x2402, 7519),
    (0x2403, 1347), (0x2404, 2451), (0x2405, 2314), (0x2406, 1925), (0x2407, 2728), (0x2408, 7256), (0x2409, 10038),
    (0x240a, 4494), (0x240b, 40), (0x240c, 15), (0x240d, 74), (0x240e, 3149), (0x240f, 2), (0x2600, 5894),
    (0x2601, 8), (0x2602, 2354), (0x2603, 761), (0x2604, 3163), (0x2605, 2471), (0x2606, 2209), (0x2607, 2542),
    (0x2608, 35), (0x2610, 470), (0x2620, 2886), (0x2800, 3171), (0x2801, 844), (0x2802, 8), (0x2803, 2989),
    (0x2804, 18064), (0x2805, 3), (0x2806, 3301), (0x2a00, 3247), (0x2a01, 2761), (0x2a02, 7663), (0x2a03, 2524),
    (0x2a04, 1876), (0x2a05, 1368), (0x2a06, 1894), (0x2a07, 892), (0x2a08, 11), (0x2a09, 1176), (0x2a0a, 1108),
    (0x2a0b, 1927), (0x2a0c, 1100), (0x2a0d, 1658), (0x2a0e, 1825), (0x2a0f, 1214), (0x2a10, 976), (0x2a11, 572),
    (0x2a12, 1036), (0x2a13, 229), (0x2c0e, 27), (0x2c0f, 1452),
];

/// Random numbers from a seed (SplitMix64): the same on every machine and in every version.
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
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

/// The next hops in a synthetic table are 1 to this one, uniformly distributed.
pub const NEXT_HOPS: u32 = 250;

/// `n` different IPv4 prefixes, each with a number from 1 to [`NEXT_HOPS`], in the real proportions of lengths (for
/// small `n` rare lengths may be missing). As in the real table about half of them lie inside another one.
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
        let len = pick(&IPV4_LENGTHS, random.below(total));
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

/// How many times at most a prefix of one length is drawn until it is a new one.
const CHANCES: u32 = 32;

/// `n` different IPv6 prefixes, each with a number from 1 to [`NEXT_HOPS`], in the real proportions of lengths and of
/// /16 blocks (for small `n` rare ones may be missing).
///
/// Prefixes lie close together as in the real table: some inside an earlier one, many next to an earlier one of their
/// length. Of 160,147, in the real and in the synthetic table, 57 % and 66 % lie inside another; they fall into 7,267
/// and 9,500 different /24, 29,369 and 35,600 /32, 31,568 and 39,100 /40, 39,661 and 56,600 /44.
///
/// # Panics
/// If `n` is over 2 million: the space of the short prefixes would be used up.
pub fn ipv6(n: usize, seed: u64) -> Vec<(Prefix6, u32)> {
    assert!(n <= 2_000_000, "at most 2 million prefixes");
    let mut random = Random::new(seed);
    let total: u32 = IPV6_LENGTHS.iter().map(|(_, count)| count).sum();
    let mut seen = HashSet::with_capacity(n);
    let mut table: Vec<(Prefix6, u32)> = Vec::with_capacity(n);
    let mut by_length: HashMap<u8, Vec<u128>> = HashMap::new();
    // If a drawn prefix is known already its length gets another chance, or dense lengths would become rare.
    let (mut len, mut chances) = (0, 0);
    while table.len() < n {
        if chances == 0 {
            (len, chances) = (pick(&IPV6_LENGTHS, random.below(total)), CHANCES);
        }
        let block = pick(&IPV6_BLOCKS, random.below(total));
        let fresh = u128::from(block) << 112 | u128::from(random.bits()) << 48 | u128::from(random.bits() >> 16);
        let (inside, beside) = if len <= 32 { (20, 30) } else { (20, 95) };
        let percent = random.below(100);
        let (near, shared) = if percent < inside && !table.is_empty() {
            let (outer, _) = table[random.below(table.len() as u32) as usize];
            (
                outer.addr(),
                if outer.len() < len.min(41) { outer.len() } else { bits_of_an_allocation(len, outer.len()) },
            )
        } else if percent < beside
            && let Some(alike) = by_length.get(&len)
        {
            (alike[random.below(alike.len() as u32) as usize], len.saturating_sub(6))
        } else {
            (fresh, 0)
        };
        let addr = near.truncate(shared) | fresh & u128::MAX.checked_shr(shared.into()).unwrap_or(0);
        let prefix = PrefixOf::truncated(addr, len).expect("lengths of the table are at most 128");
        chances -= 1;
        if seen.insert(prefix) {
            chances = 0;
            table.push((prefix, 1 + random.below(NEXT_HOPS)));
            by_length.entry(len).or_default().push(prefix.addr());
        }
    }
    table
}

/// How many bits two prefixes share if they are cut from one allocation of a /32; none if one is not long enough.
fn bits_of_an_allocation(a: u8, b: u8) -> u8 {
    if a > 32 && b >= 32 { 32 } else { 0 }
}

/// The key that `at`, which is below the sum of all counts, falls on.
fn pick<K: Copy>(counts: &[(K, u32)], mut at: u32) -> K {
    for &(key, count) in counts {
        if at < count {
            return key;
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

    #[test]
    fn ipv6_is_in_the_real_proportions_and_shape() {
        const N: usize = 20_000;
        let table = ipv6(N, 1);
        assert_eq!(table, ipv6(N, 1));
        let share = |of: &dyn Fn(Prefix6) -> bool| table.iter().filter(|(p, _)| of(*p)).count() as f64 / N as f64;
        let (slash_48, slash_32) = (share(&|p| p.len() == 48), share(&|p| p.len() == 32));
        assert!((0.44..0.50).contains(&slash_48), "share of /48: {slash_48}, really 0.47");
        assert!((0.12..0.16).contains(&slash_32), "share of /32: {slash_32}, really 0.14");
        assert_eq!(share(&|p| p.addr() >> 125 == 1), 1.0, "all in 2000::/3");
        let known: HashSet<Prefix6> = table.iter().map(|(prefix, _)| *prefix).collect();
        let is_inside =
            |p: Prefix6| (0..p.len()).any(|len| known.contains(&PrefixOf::truncated(p.addr(), len).unwrap()));
        let inside = share(&is_inside);
        assert!((0.45..0.75).contains(&inside), "share inside another: {inside}, really 0.57");
        assert_eq!(known.len(), N, "all different");
    }

    #[test]
    fn ipv6_counts_are_of_one_table() {
        let lengths: u32 = IPV6_LENGTHS.iter().map(|(_, count)| count).sum();
        let blocks: u32 = IPV6_BLOCKS.iter().map(|(_, count)| count).sum();
        assert_eq!((lengths, blocks), (160_147, 160_147));
    }
}
