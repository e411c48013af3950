// SPDX-License-Identifier: MIT
//! Tables that the Internet's is not, and orders of changes that hurt: for tests and benchmarks of lookup structures.

use std::collections::HashSet;
use std::hash::Hash;

use super::Random;
use perigee_net::{Address, PrefixOf};

/// What the shapes need to know of an address family.
pub trait Family: Address + Hash {
    /// The network whose hosts are dense: one that a link may have.
    const LINK: (Self, u8);
    /// The network in which prefixes are nested, and the length of the shortest ones.
    const NEST: (Self, u8);
    /// An address of a network: its first address, and random bits behind its length.
    fn within(network: (Self, u8), random: &mut Random) -> Self;
    /// The address this far behind another one.
    fn plus(self, by: u32) -> Self;
}

macro_rules! family {
    ($addr:ty, $link:expr, $nest:expr) => {
        impl Family for $addr {
            const LINK: (Self, u8) = $link;
            const NEST: (Self, u8) = $nest;

            fn within((addr, len): (Self, u8), random: &mut Random) -> Self {
                let bits = u128::from(random.bits()) << 64 | u128::from(random.bits());
                addr | bits as $addr & <$addr>::MAX.checked_shr(len.into()).unwrap_or(0)
            }

            fn plus(self, by: u32) -> Self {
                self.wrapping_add(by.into())
            }
        }
    };
}
family!(u32, (0x0a01 << 16, 16), (0x0b00 << 16, 8));
family!(u128, (0x2001_0db8_0001_0002 << 64, 64), (0x2a00 << 112, 16));

/// A shape by name: which prefixes there are, in which order they come, and in which they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Random hosts of one /64 or /16, added and removed in random order.
    Hosts,
    /// Hosts of one /64 or /16 that lie side by side, added from both ends of the network in turn towards the middle,
    /// and removed from the middle towards both ends.
    Ends,
    /// Every length along random addresses, the longest added first and the shortest removed first: each change shows
    /// below everything that is there.
    Nested,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 3] = [Shape::Hosts, Shape::Ends, Shape::Nested];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Hosts => "hosts",
            Shape::Ends => "ends",
            Shape::Nested => "nested",
        }
    }

    /// About `n` different prefixes of this shape, in the order in which they come.
    ///
    /// # Panics
    /// If `n` is over 60,000: an IPv4 link has no more hosts.
    pub fn coming<A: Family>(self, n: u32, seed: u64) -> Vec<PrefixOf<A>> {
        assert!(n <= 60_000, "at most 60,000 prefixes");
        let mut random = Random::new(seed);
        match self {
            Shape::Hosts => hosts(n as usize, &mut random),
            Shape::Ends => {
                let (first, len) = A::LINK;
                // The last address of an IPv4 link is this far behind the first; a /64 is treated alike.
                let last = u32::from(u16::MAX);
                debug_assert!(A::BITS - len >= 16);
                let at = |n: u32| if n.is_multiple_of(2) { n / 2 } else { last - n / 2 };
                (0..n).map(|n| PrefixOf::host(first.plus(at(n)))).collect()
            }
            Shape::Nested => nested(n as usize, &mut random),
        }
    }

    /// The same prefixes in the order in which they go.
    pub fn going<A: Family>(self, coming: &[PrefixOf<A>], seed: u64) -> Vec<PrefixOf<A>> {
        let mut going = coming.to_vec();
        match self {
            Shape::Hosts => shuffle(&mut going, &mut Random::new(seed ^ 1)),
            Shape::Ends | Shape::Nested => going.reverse(),
        }
        going
    }
}

fn hosts<A: Family>(n: usize, random: &mut Random) -> Vec<PrefixOf<A>> {
    let mut seen = HashSet::with_capacity(n);
    let mut hosts = Vec::with_capacity(n);
    while hosts.len() < n {
        let host = PrefixOf::host(A::within(A::LINK, random));
        if seen.insert(host) {
            hosts.push(host);
        }
    }
    hosts
}

fn nested<A: Family>(n: usize, random: &mut Random) -> Vec<PrefixOf<A>> {
    let mut seen = HashSet::with_capacity(n);
    while seen.len() < n {
        let address = A::within(A::NEST, random);
        seen.extend((A::NEST.1..=A::BITS).map(|len| PrefixOf::truncated(address, len).expect("in range")));
    }
    let mut prefixes: Vec<_> = seen.into_iter().collect();
    prefixes.sort_unstable_by_key(|prefix| (std::cmp::Reverse(prefix.len()), prefix.addr()));
    prefixes
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u32 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_different<A: Family>() {
        for shape in Shape::ALL {
            let coming = shape.coming::<A>(3000, 7);
            assert_eq!(coming, shape.coming::<A>(3000, 7));
            let different: HashSet<_> = coming.iter().collect();
            assert!((3000..3200).contains(&coming.len()) && different.len() == coming.len(), "{}", shape.name());
            let going = shape.going(&coming, 7);
            assert_ne!(going, coming);
            assert_eq!(going.iter().collect::<HashSet<_>>(), different);
        }
    }

    #[test]
    fn prefixes_are_different_and_go_as_they_came() {
        are_different::<u32>();
        are_different::<u128>();
    }

    #[test]
    fn nested_prefixes_come_with_the_longest_first() {
        let coming = Shape::Nested.coming::<u128>(500, 3);
        assert!(coming.is_sorted_by_key(|prefix| std::cmp::Reverse(prefix.len())));
        assert_eq!((coming[0].len(), coming.last().map(|prefix| prefix.len())), (128, Some(16)));
    }
}
