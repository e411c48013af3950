// SPDX-License-Identifier: MIT
//! A map from prefixes to values: a B-tree, so that a walk may start anywhere, and without the node per prefix that a binary
//! trie has.

use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, OccupiedEntry};

use perigee_net::{Address, PrefixOf};

/// A map ordered by address, then shorter first.
pub(crate) struct PrefixTree<A, V>(BTreeMap<PrefixOf<A>, V>);

impl<A: Address, V> PrefixTree<A, V> {
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, prefix: PrefixOf<A>) -> Option<&V> {
        self.0.get(&prefix)
    }

    pub fn get_mut(&mut self, prefix: PrefixOf<A>) -> Option<&mut V> {
        self.0.get_mut(&prefix)
    }

    pub fn insert(&mut self, prefix: PrefixOf<A>, value: V) -> Option<V> {
        self.0.insert(prefix, value)
    }

    /// The value of `prefix`, which becomes `value` if there is none.
    pub fn get_or_insert(&mut self, prefix: PrefixOf<A>, value: V) -> &mut V {
        self.0.entry(prefix).or_insert(value)
    }

    /// The place of `prefix`, if it is there: to be changed, and then perhaps removed.
    pub fn occupied(&mut self, prefix: PrefixOf<A>) -> Option<OccupiedEntry<'_, PrefixOf<A>, V>> {
        match self.0.entry(prefix) {
            Entry::Occupied(place) => Some(place),
            Entry::Vacant(_) => None,
        }
    }

    pub fn remove(&mut self, prefix: PrefixOf<A>) -> Option<V> {
        self.0.remove(&prefix)
    }

    pub fn iter(&self) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        self.0.iter().map(|(prefix, value)| (*prefix, value))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PrefixOf<A>, &mut V)> {
        self.0.iter_mut().map(|(prefix, value)| (*prefix, value))
    }

    /// The entries that follow this prefix, or all.
    pub fn iter_after(&self, prefix: Option<PrefixOf<A>>) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = prefix.map_or(Unbounded, Excluded);
        self.0.range((from, Unbounded)).map(|(prefix, value)| (*prefix, value))
    }

    /// The entries from this prefix on.
    pub fn from(&self, prefix: PrefixOf<A>) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        self.0.range(prefix..).map(|(prefix, value)| (*prefix, value))
    }

    /// `prefix` and all prefixes inside it.
    pub fn covered_by(&self, prefix: PrefixOf<A>) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        let last = PrefixOf::host(prefix.last());
        self.0.range(prefix..=last).map(|(prefix, value)| (*prefix, value))
    }

    /// `prefix` and all prefixes that contain it, the longest first.
    pub fn covering(&self, prefix: PrefixOf<A>) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        let address = prefix.addr();
        let mut bound = Some(prefix);
        std::iter::from_fn(move || {
            loop {
                // No covering prefix lies between what is found and the bound. If what is found is not one itself, those that
                // are left contain it too, and so have no more bits than it shares with the address.
                let (found, value) = self.0.range(..=bound?).next_back()?;
                let shorter = |len| PrefixOf::truncated(address, len).ok();
                if found.contains(address) {
                    bound = found.len().checked_sub(1).and_then(shorter);
                    return Some((*found, value));
                }
                bound = shorter(address.common(found.addr()));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Random;

    #[test]
    fn walks_agree_with_a_sorted_list() {
        let seed = 5;
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let any = |random: &mut Random| {
            let len = random.below(33) as u8;
            // Few bits vary, so that prefixes often cover one another.
            PrefixOf::truncated((random.bits() as u32) & 0xe0a0_0106, len).expect("in range")
        };
        for round in 0..200 {
            let (mut tree, mut list) = (PrefixTree::new(), Vec::new());
            for n in 0..round {
                let prefix: PrefixOf<u32> = any(&mut random);
                list.retain(|(other, _)| *other != prefix);
                if random.below(4) > 0 {
                    tree.insert(prefix, n);
                    list.push((prefix, n));
                } else {
                    tree.remove(prefix);
                }
            }
            list.sort_unstable();
            assert_eq!(tree.len(), list.len());
            for _ in 0..50 {
                let prefix = any(&mut random);
                let expect = |wanted: &dyn Fn(PrefixOf<u32>) -> bool| -> Vec<_> {
                    list.iter().copied().filter(|(other, _)| wanted(*other)).collect()
                };
                let mut around = expect(&|other| other.len() <= prefix.len() && other.contains(prefix.addr()));
                around.reverse();
                let own = |(prefix, value): (PrefixOf<u32>, &i32)| (prefix, *value);
                assert_eq!(tree.covering(prefix).map(own).collect::<Vec<_>>(), around, "around {prefix}, seed {seed}");
                let inside = expect(&|other| other.len() >= prefix.len() && prefix.contains(other.addr()));
                assert_eq!(tree.covered_by(prefix).map(own).collect::<Vec<_>>(), inside, "in {prefix}, seed {seed}");
                let behind = expect(&|other| other > prefix);
                assert_eq!(tree.iter_after(Some(prefix)).map(own).collect::<Vec<_>>(), behind);
            }
        }
    }
}
