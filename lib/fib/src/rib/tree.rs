// SPDX-License-Identifier: MIT
//! A map from prefixes to values, in which a walk may start anywhere: a tree of three levels with wide nodes.
//!
//! ```text
//!  firsts, branches          one for some thousand prefixes: in the first cache
//!    Branch: firsts, leaves  up to 64 leaves: of a full table, most of them are in the second
//!      Leaf                  up to 64 prefixes: what has to come from memory, as a whole, and so can be asked for in advance
//! ```
//!
//! In a B-tree with narrow nodes (the standard library's) a change of a full table in random order waits for three or
//! four nodes one after the other, and mispredicts a branch in each.

mod leaf;

use leaf::{Leaf, ROOM};
use perigee_net::{Address, PrefixOf};

/// Leaves of a branch.
const WIDTH: usize = 64;

/// A map ordered by address, then shorter first. No leaf is empty, and no branch.
pub(crate) struct PrefixTree<A, V> {
    /// What is before the first of these is in the branch before; the first branch has all that is before the second
    /// one's.
    firsts: Vec<PrefixOf<A>>,
    branches: Vec<Branch<A, V>>,
    count: usize,
    /// What was inserted last: whoever inserts in order leaves full leaves behind.
    newest: Option<PrefixOf<A>>,
}

struct Branch<A, V> {
    /// The same for its leaves.
    firsts: Vec<PrefixOf<A>>,
    leaves: Vec<Box<Leaf<A, V>>>,
}

/// Where a prefix is or belongs.
#[derive(Clone, Copy)]
struct Place {
    branch: usize,
    leaf: usize,
    at: usize,
}

/// The place of a prefix that is there: to be changed, and then perhaps removed.
pub(crate) struct Occupied<'t, A, V> {
    tree: &'t mut PrefixTree<A, V>,
    place: Place,
}

impl<A: Address, V: Copy> Occupied<'_, A, V> {
    pub fn get(&self) -> &V {
        self.tree.leaf(self.place).value(self.place.at)
    }

    pub fn get_mut(&mut self) -> &mut V {
        self.tree.leaf_mut(self.place).value_mut(self.place.at)
    }

    pub fn remove(self) -> V {
        self.tree.remove_at(self.place)
    }
}

/// Which of some nodes `prefix` is in, by their first prefixes; what is before all of them is in the first one, whose
/// own says nothing.
#[inline]
fn which<A: Address>(firsts: &[PrefixOf<A>], prefix: PrefixOf<A>) -> usize {
    firsts.get(1..).map_or(0, |rest| rest.partition_point(|first| *first <= prefix))
}

impl<A: Address, V: Copy> PrefixTree<A, V> {
    pub fn new() -> Self {
        Self { firsts: Vec::new(), branches: Vec::new(), count: 0, newest: None }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    fn leaf(&self, place: Place) -> &Leaf<A, V> {
        &self.branches[place.branch].leaves[place.leaf]
    }

    fn leaf_mut(&mut self, place: Place) -> &mut Leaf<A, V> {
        &mut self.branches[place.branch].leaves[place.leaf]
    }

    /// Where `prefix` is, or else belongs; there may be nothing at all.
    #[inline]
    fn find(&self, prefix: PrefixOf<A>) -> Result<Place, Place> {
        let branch = which(&self.firsts, prefix);
        let Some(node) = self.branches.get(branch) else { return Err(Place { branch: 0, leaf: 0, at: 0 }) };
        let leaf = which(&node.firsts, prefix);
        let place = |at| Place { branch, leaf, at };
        node.leaves[leaf].find(prefix).map(place).map_err(place)
    }

    /// Starts to load what a change of `prefix` needs into the cache.
    pub fn prefetch(&self, prefix: PrefixOf<A>) {
        if let Some(node) = self.branches.get(which(&self.firsts, prefix)) {
            node.leaves[which(&node.firsts, prefix)].prefetch();
        }
    }

    pub fn get(&self, prefix: PrefixOf<A>) -> Option<&V> {
        let place = self.find(prefix).ok()?;
        Some(self.leaf(place).value(place.at))
    }

    pub fn get_mut(&mut self, prefix: PrefixOf<A>) -> Option<&mut V> {
        let place = self.find(prefix).ok()?;
        Some(self.leaf_mut(place).value_mut(place.at))
    }

    pub fn insert(&mut self, prefix: PrefixOf<A>, value: V) -> Option<V> {
        match self.find(prefix) {
            Ok(place) => Some(std::mem::replace(self.leaf_mut(place).value_mut(place.at), value)),
            Err(place) => {
                self.insert_at(place, prefix, value);
                None
            }
        }
    }

    /// The value of `prefix`, which becomes `value` if there is none.
    pub fn get_or_insert(&mut self, prefix: PrefixOf<A>, value: V) -> &mut V {
        let place = match self.find(prefix) {
            Ok(place) => place,
            Err(place) => self.insert_at(place, prefix, value),
        };
        self.leaf_mut(place).value_mut(place.at)
    }

    /// The place of `prefix`, if it is there.
    pub fn occupied(&mut self, prefix: PrefixOf<A>) -> Option<Occupied<'_, A, V>> {
        let place = self.find(prefix).ok()?;
        Some(Occupied { tree: self, place })
    }

    pub fn remove(&mut self, prefix: PrefixOf<A>) -> Option<V> {
        Some(self.occupied(prefix)?.remove())
    }

    /// Inserts where it [belongs](Self::find) what is not there; returns where it is then.
    fn insert_at(&mut self, place: Place, prefix: PrefixOf<A>, value: V) -> Place {
        self.count += 1;
        let before = self.newest.replace(prefix);
        let Some(branch) = self.branches.get_mut(place.branch) else {
            self.firsts.push(prefix);
            self.branches.push(Branch { firsts: vec![prefix], leaves: vec![Box::new(Leaf::new(prefix, value))] });
            return place;
        };
        let leaf = &mut branch.leaves[place.leaf];
        if leaf.len() < ROOM {
            leaf.insert(place.at, prefix, value);
            return place;
        }
        // Of what comes in order, the next one would be behind this one: it then finds room, and the full leaf stays
        // full.
        let in_order = place.at >= ROOM / 2 && before == Some(leaf.prefix(place.at - 1));
        let (right, now) = if in_order {
            let mut right = Leaf::new(prefix, value);
            right.take(leaf, place.at);
            (right, Place { leaf: place.leaf + 1, at: 0, ..place })
        } else {
            let mut right = leaf.split_off(ROOM / 2);
            match place.at.checked_sub(ROOM / 2).filter(|at| *at > 0) {
                Some(at) => {
                    right.insert(at, prefix, value);
                    (right, Place { leaf: place.leaf + 1, at, ..place })
                }
                None => {
                    leaf.insert(place.at, prefix, value);
                    (right, place)
                }
            }
        };
        branch.firsts.insert(place.leaf + 1, right.prefix(0));
        branch.leaves.insert(place.leaf + 1, Box::new(right));
        self.split_branch(now, in_order)
    }

    /// Splits a branch if it has too many leaves; returns where `place` is then.
    fn split_branch(&mut self, place: Place, in_order: bool) -> Place {
        let branch = &mut self.branches[place.branch];
        if branch.leaves.len() <= WIDTH {
            return place;
        }
        let at = if in_order { place.leaf.max(WIDTH / 2) } else { WIDTH / 2 };
        let right = Branch { firsts: branch.firsts.split_off(at), leaves: branch.leaves.split_off(at) };
        self.firsts.insert(place.branch + 1, right.firsts[0]);
        self.branches.insert(place.branch + 1, right);
        match place.leaf.checked_sub(at) {
            Some(leaf) => Place { branch: place.branch + 1, leaf, ..place },
            None => place,
        }
    }

    fn remove_at(&mut self, place: Place) -> V {
        self.count -= 1;
        let leaf = self.leaf_mut(place);
        let value = leaf.remove(place.at);
        if leaf.len() < ROOM / 4 {
            self.merge_leaf(place);
        }
        value
    }

    /// Two leaves of a branch become one, if one of them has few entries and both fit; one without entries goes in any
    /// case.
    fn merge_leaf(&mut self, place: Place) {
        let branch = &mut self.branches[place.branch];
        if let [only] = &branch.leaves[..] {
            if only.len() == 0 {
                self.firsts.remove(place.branch);
                self.branches.remove(place.branch);
            }
            return;
        }
        let left = place.leaf.min(branch.leaves.len() - 2);
        let [here, next] = &mut branch.leaves[left..left + 2] else { return };
        if here.len() > 0 && next.len() > 0 && here.len() + next.len() > ROOM * 3 / 4 {
            return;
        }
        here.take(next, 0);
        branch.firsts.remove(left + 1);
        branch.leaves.remove(left + 1);
        if branch.leaves.len() < WIDTH / 4 {
            self.merge_branch(place.branch);
        }
    }

    fn merge_branch(&mut self, branch: usize) {
        let Some(left) = self.branches.len().checked_sub(2).map(|last| branch.min(last)) else { return };
        let [here, next] = &mut self.branches[left..left + 2] else { return };
        if here.leaves.len() + next.leaves.len() > WIDTH * 3 / 4 {
            return;
        }
        here.firsts.append(&mut next.firsts);
        here.leaves.append(&mut next.leaves);
        self.firsts.remove(left + 1);
        self.branches.remove(left + 1);
    }

    /// The entries from a place on.
    fn walk(&self, place: Place) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        let Place { mut branch, mut leaf, mut at } = place;
        let mut here = self.branches.get(branch).map(|node| &*node.leaves[leaf]);
        std::iter::from_fn(move || {
            if at == here?.len() {
                (leaf, at) = (leaf + 1, 0);
                if leaf == self.branches[branch].leaves.len() {
                    (branch, leaf) = (branch + 1, 0);
                }
                here = self.branches.get(branch).map(|node| &*node.leaves[leaf]);
            }
            let entry = (here?.prefix(at), here?.value(at));
            at += 1;
            Some(entry)
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        self.walk(Place { branch: 0, leaf: 0, at: 0 })
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PrefixOf<A>, &mut V)> {
        self.branches.iter_mut().flat_map(|branch| &mut branch.leaves).flat_map(|leaf| leaf.iter_mut())
    }

    /// The entries that follow this prefix, or all.
    pub fn iter_after(&self, prefix: Option<PrefixOf<A>>) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        let after = |prefix| match self.find(prefix) {
            Ok(place) => Place { at: place.at + 1, ..place },
            Err(place) => place,
        };
        self.walk(prefix.map_or(Place { branch: 0, leaf: 0, at: 0 }, after))
    }

    /// The entries from this prefix on.
    pub fn from(&self, prefix: PrefixOf<A>) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        let (Ok(place) | Err(place)) = self.find(prefix);
        self.walk(place)
    }

    /// `prefix` and all prefixes inside it.
    pub fn covered_by(&self, prefix: PrefixOf<A>) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        let last = PrefixOf::host(prefix.last());
        self.from(prefix).take_while(move |(inside, _)| *inside <= last)
    }

    /// The last entry up to this prefix.
    fn last_up_to(&self, prefix: PrefixOf<A>) -> Option<(PrefixOf<A>, &V)> {
        let (leaf, at) = match self.find(prefix) {
            Ok(place) => (self.leaf(place), place.at),
            Err(Place { branch, leaf, at: 0 }) => {
                let leaves = match leaf {
                    0 => &self.branches[branch.checked_sub(1)?].leaves[..],
                    _ => &self.branches[branch].leaves[..leaf],
                };
                let before = leaves.last()?;
                (&**before, before.len() - 1)
            }
            Err(place) => (self.leaf(place), place.at - 1),
        };
        Some((leaf.prefix(at), leaf.value(at)))
    }

    /// `prefix` and all prefixes that contain it, the longest first.
    pub fn covering(&self, prefix: PrefixOf<A>) -> impl Iterator<Item = (PrefixOf<A>, &V)> {
        let address = prefix.addr();
        let mut bound = Some(prefix);
        std::iter::from_fn(move || {
            loop {
                // No covering prefix lies between what is found and the bound. If what is found is not one itself,
                // those that are left contain it too, and so have no more bits than it shares with the
                // address.
                let (found, value) = self.last_up_to(bound?)?;
                let shorter = |len| PrefixOf::truncated(address, len).ok();
                if found.contains(address) {
                    bound = found.len().checked_sub(1).and_then(shorter);
                    return Some((found, value));
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

    /// What must hold whatever has been inserted and removed.
    fn check<A: Address>(tree: &PrefixTree<A, u32>) {
        assert_eq!((tree.firsts.len(), tree.iter().count()), (tree.branches.len(), tree.len()));
        assert!(tree.iter().map(|(prefix, _)| prefix).is_sorted_by(|one, next| one < next));
        let is_sorted = |firsts: &[PrefixOf<A>]| firsts.get(1..).is_none_or(|rest| rest.is_sorted());
        assert!(is_sorted(&tree.firsts));
        for (number, branch) in tree.branches.iter().enumerate() {
            assert!(is_sorted(&branch.firsts));
            assert!(
                !branch.leaves.is_empty() && branch.leaves.len() <= WIDTH && branch.firsts.len() == branch.leaves.len()
            );
            for (at, leaf) in branch.leaves.iter().enumerate() {
                assert!(leaf.len() > 0);
                // Nothing is behind what the next node begins with, or before what its own does.
                let (from, is_first) =
                    if at > 0 { (branch.firsts[at], false) } else { (tree.firsts[number], number == 0) };
                assert!(is_first || from <= leaf.prefix(0));
                let behind =
                    if at + 1 < branch.leaves.len() { branch.firsts.get(at + 1) } else { tree.firsts.get(number + 1) };
                assert!(behind.is_none_or(|behind| *behind > leaf.prefix(leaf.len() - 1)));
            }
        }
    }

    fn phases<A: Address>(seed: u64, any: impl Fn(&mut Random) -> PrefixOf<A>) {
        use std::collections::BTreeMap;
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (mut tree, mut oracle) = (PrefixTree::new(), BTreeMap::new());
        // How many are drawn, whether they come in order, and how many of four leave again.
        for (count, sorted, leave) in
            [(9_000, true, 0), (9_000, false, 1), (20_000, false, 4), (6_000, true, 3), (9_000, true, 4)]
        {
            let mut drawn: Vec<PrefixOf<A>> = (0..count).map(|_| any(&mut random)).collect();
            if sorted {
                drawn.sort_unstable();
            }
            for prefix in &drawn {
                let value = random.bits() as u32;
                match random.below(3) {
                    0 => assert_eq!(*tree.get_or_insert(*prefix, value), *oracle.entry(*prefix).or_insert(value)),
                    _ => {
                        assert_eq!(tree.insert(*prefix, value), oracle.insert(*prefix, value), "{prefix}, seed {seed}")
                    }
                }
            }
            check(&tree);
            assert!(tree.iter().map(|(prefix, value)| (prefix, *value)).eq(oracle.clone()), "seed {seed}");
            let all: Vec<PrefixOf<A>> = oracle.keys().copied().collect();
            for prefix in all.iter().filter(|_| random.below(4) < leave) {
                assert_eq!(tree.remove(*prefix), oracle.remove(prefix), "{prefix}, seed {seed}");
            }
            for prefix in drawn {
                assert_eq!(tree.get(prefix), oracle.get(&prefix), "{prefix}, seed {seed}");
                assert_eq!(
                    tree.iter_after(Some(prefix)).next().map(|(next, _)| next),
                    oracle
                        .range((std::ops::Bound::Excluded(prefix), std::ops::Bound::Unbounded))
                        .next()
                        .map(|(next, _)| *next)
                );
                assert_eq!(
                    tree.from(prefix).next().map(|(next, _)| next),
                    oracle.range(prefix..).next().map(|(next, _)| *next)
                );
                assert_eq!(
                    tree.last_up_to(prefix),
                    oracle.range(..=prefix).next_back().map(|(last, value)| (*last, value))
                );
            }
            check(&tree);
            let mut changed = 0;
            tree.iter_mut().zip(oracle.values_mut()).for_each(|((_, one), other)| {
                assert_eq!(one, other);
                (*one, *other, changed) = (changed, changed, changed + 1);
            });
            assert_eq!(changed as usize, oracle.len());
        }
    }

    #[test]
    fn it_agrees_with_a_map_while_nodes_split_and_merge() {
        for seed in 1..4 {
            phases::<u32>(seed, |random| {
                PrefixOf::truncated(random.bits() as u32, 8 + random.below(25) as u8).unwrap()
            });
            phases::<u128>(seed, |random| {
                // Few addresses with many lengths, so that those of one address are in several leaves.
                let address = u128::from(random.below(40)) << 120 | u128::from(random.below(3));
                PrefixOf::truncated(address, random.below(129) as u8).unwrap()
            });
            phases::<u128>(seed, |random| {
                PrefixOf::truncated(u128::from(random.bits()) << 64, random.below(65) as u8).unwrap()
            });
        }
    }

    /// Whoever inserts in order leaves full leaves behind, in the middle of others, too; the worst order half full
    /// ones.
    #[test]
    fn leaves_are_full_or_half_full() {
        let host = |n: u32| PrefixOf::host(n);
        let nodes = |tree: &PrefixTree<u32, u32>| {
            (tree.branches.iter().map(|branch| branch.leaves.len()).sum(), tree.branches.len())
        };
        let count = (ROOM * WIDTH * 8) as u32;
        let mut tree = PrefixTree::new();
        assert_eq!(tree.insert(host(u32::MAX), 0), None);
        (0..count).for_each(|n| assert_eq!(tree.insert(host(n), n), None));
        let (leaves, branches): (usize, usize) = nodes(&tree);
        assert!(leaves <= WIDTH * 8 + WIDTH / 4 && branches <= 9, "{leaves} leaves, {branches} branches");
        let mut tree = PrefixTree::new();
        (0..count).rev().for_each(|n| assert_eq!(tree.insert(host(n), n), None));
        let (leaves, branches) = nodes(&tree);
        assert!(leaves <= WIDTH * 16 + 1 && branches <= 33, "{leaves} leaves, {branches} branches");
        (0..count - 9).for_each(|n| assert_eq!(tree.remove(host(n)), Some(n)));
        assert_eq!(nodes(&tree), (1, 1));
    }
}
