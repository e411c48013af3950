// SPDX-License-Identifier: MIT
//! The prefixes of a tree that lie side by side: addresses, lengths and values apart, so that the prefix looked for is
//! found by comparing few cache lines of addresses, without a branch for each.

use crate::lookup::simd::prefetch;
use perigee_net::{Address, PrefixOf};

/// Entries of a leaf. With 32 or 128 changes of a full table in random order are slower.
pub const ROOM: usize = 64;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Up to [`ROOM`] prefixes with their values, in order.
pub struct Leaf<A, V> {
    count: usize,
    /// Behind the last one in use is the highest address, which no address that is looked for exceeds.
    addresses: [A; ROOM],
    lengths: [u8; ROOM],
    values: [V; ROOM],
}

fn prefix<A: Address>(address: A, length: u8) -> PrefixOf<A> {
    PrefixOf::truncated(address, length).expect("both were a prefix's")
}

impl<A: Address, V: Copy> Leaf<A, V> {
    /// A leaf with one prefix.
    pub fn new(prefix: PrefixOf<A>, value: V) -> Self {
        let mut leaf =
            Self { count: 0, addresses: [prefix.addr().last(0); ROOM], lengths: [0; ROOM], values: [value; ROOM] };
        leaf.insert(0, prefix, value);
        leaf
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Where `prefix` is, or else belongs.
    #[inline]
    pub fn find(&self, prefix: PrefixOf<A>) -> Result<usize, usize> {
        let (address, length) = (prefix.addr(), prefix.len());
        let mut at = match size_of::<A>() {
            // A few vectors.
            ..=4 => self.addresses.iter().map(|other| usize::from(*other < address)).sum(),
            _ => self.addresses[..self.count].partition_point(|other| *other < address),
        };
        while at < self.count && self.addresses[at] == address {
            if self.lengths[at] >= length {
                return if self.lengths[at] == length { Ok(at) } else { Err(at) };
            }
            at += 1;
        }
        Err(at)
    }

    pub fn prefix(&self, at: usize) -> PrefixOf<A> {
        prefix(self.addresses[at], self.lengths[at])
    }

    pub fn value(&self, at: usize) -> &V {
        &self.values[at]
    }

    pub fn value_mut(&mut self, at: usize) -> &mut V {
        &mut self.values[at]
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PrefixOf<A>, &mut V)> {
        let Self { count, addresses, lengths, values } = self;
        let prefixes = addresses[..*count].iter().zip(&*lengths).map(|(addr, len)| prefix(*addr, *len));
        prefixes.zip(values)
    }

    /// Puts a prefix where it [belongs](Self::find); there is room.
    pub fn insert(&mut self, at: usize, prefix: PrefixOf<A>, value: V) {
        let Self { count, addresses, lengths, values } = self;
        addresses.copy_within(at..*count, at + 1);
        lengths.copy_within(at..*count, at + 1);
        values.copy_within(at..*count, at + 1);
        (addresses[at], lengths[at], values[at]) = (prefix.addr(), prefix.len(), value);
        *count += 1;
    }

    pub fn remove(&mut self, at: usize) -> V {
        let value = self.values[at];
        let Self { count, addresses, lengths, values } = self;
        addresses.copy_within(at + 1..*count, at);
        lengths.copy_within(at + 1..*count, at);
        values.copy_within(at + 1..*count, at);
        *count -= 1;
        addresses[*count] = addresses[*count].last(0);
        value
    }

    /// Takes out the entries from `at` on, of which there is one at least.
    pub fn split_off(&mut self, at: usize) -> Self {
        let mut right = Self::new(self.prefix(at), self.values[at]);
        right.take(self, at + 1);
        self.remove(at);
        right
    }

    /// Appends what another leaf has from `from` on, all of which comes behind what is here; there is room.
    pub fn take(&mut self, other: &mut Self, from: usize) {
        let moved = from..other.count;
        let to = self.count..self.count + moved.len();
        self.addresses[to.clone()].copy_from_slice(&other.addresses[moved.clone()]);
        self.lengths[to.clone()].copy_from_slice(&other.lengths[moved.clone()]);
        self.values[to.clone()].copy_from_slice(&other.values[moved]);
        self.count = to.end;
        let highest = other.addresses[0].last(0);
        other.addresses[from..].fill(highest);
        other.count = from;
    }

    /// Starts to load it into the cache.
    pub fn prefetch(&self) {
        prefetch(&self.count);
        self.addresses.iter().step_by(LINE / size_of::<A>()).for_each(prefetch);
        prefetch(&self.lengths);
        self.values.iter().step_by((LINE / size_of::<V>().max(1)).max(1)).for_each(prefetch);
    }
}
