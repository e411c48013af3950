// SPDX-License-Identifier: MIT
//! The oracle: a plain map from (length, prefix) to next hop, tried from the longest length down.

use std::collections::{BTreeMap, HashMap};

use perigee_fib::NextHopId;
use perigee_fib::synth::Random;
use perigee_net::{Address, Prefix4, Prefix6, PrefixOf};

/// What the tests need to know of an address family.
pub trait Family: Address + std::hash::Hash {
    fn random(random: &mut Random) -> Self;
    /// This address plus `by`, wrapping around at the end.
    fn plus(self, by: i32) -> Self;
    /// This address with random bits where `varying` has ones.
    fn vary(self, varying: Self, random: &mut Random) -> Self;
}

macro_rules! family {
    ($addr:ty) => {
        impl Family for $addr {
            fn random(random: &mut Random) -> Self {
                (u128::from(random.bits()) << 64 | u128::from(random.bits())) as $addr
            }
            fn plus(self, by: i32) -> Self {
                self.wrapping_add(by as $addr)
            }
            fn vary(self, varying: Self, random: &mut Random) -> Self {
                self & !varying | Self::random(random) & varying
            }
        }
    };
}
family!(u32);
family!(u128);

pub fn v4(text: &str) -> Prefix4 {
    text.parse().expect(text)
}

pub fn v6(text: &str) -> Prefix6 {
    text.parse().expect(text)
}

/// Next hops by prefix length and first address.
pub struct Oracle<A> {
    lengths: BTreeMap<u8, HashMap<A, NextHopId>>,
}

impl<A: Family> Oracle<A> {
    pub fn new() -> Self {
        Self { lengths: BTreeMap::new() }
    }

    pub fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Option<NextHopId> {
        self.lengths.entry(prefix.len()).or_default().insert(prefix.addr(), id)
    }

    pub fn remove(&mut self, prefix: PrefixOf<A>) -> Option<NextHopId> {
        self.lengths.get_mut(&prefix.len())?.remove(&prefix.addr())
    }

    pub fn lookup(&self, address: A) -> NextHopId {
        let mut longest_first = self.lengths.iter().rev();
        longest_first.find_map(|(len, map)| map.get(&address.truncate(*len)).copied()).unwrap_or(NextHopId::NO_ROUTE)
    }

    /// The next hop of exactly this prefix.
    pub fn lookup_exactly(&self, prefix: PrefixOf<A>) -> Option<NextHopId> {
        self.lengths.get(&prefix.len())?.get(&prefix.addr()).copied()
    }

    pub fn prefixes(&self) -> Vec<PrefixOf<A>> {
        let all = self
            .lengths
            .iter()
            .flat_map(|(len, map)| map.keys().map(|addr| PrefixOf::new(*addr, *len).expect("no host bits")));
        let mut all: Vec<_> = all.collect();
        all.sort();
        all
    }
}
