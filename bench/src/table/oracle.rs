// SPDX-License-Identifier: MIT
//! The right answers: the address space cut into ranges with one next hop each, by one sweep over the sorted prefixes.
//!
//! It shares no code with the lookup structures, and its test compares it with a plain map from (length, prefix) to
//! next hop, tried from the longest length down.

use super::Family;
use perigee_fib::NextHopId;
use perigee_net::PrefixOf;

/// A route of the table that is measured.
pub type Entry<A> = (PrefixOf<A>, NextHopId);

/// Ranges in ascending order: `ids[n]` holds from `starts[n]` up to the next start. The first start is 0.
pub struct Ranges<A> {
    starts: Vec<A>,
    ids: Vec<u32>,
}

impl<A: Family> Ranges<A> {
    /// The ranges of a table. Of several routes to one prefix the last counts.
    pub fn of(table: &[Entry<A>]) -> Ranges<A> {
        let mut sorted = table.to_vec();
        // Stable: the last of equal prefixes stays the last. A prefix comes before those inside it.
        sorted.sort_by_key(|(prefix, _)| *prefix);
        let mut ranges = Ranges { starts: vec![A::ONES.truncate(0)], ids: vec![NextHopId::NO_ROUTE.0] };
        // The prefixes that the sweep is in, each with its last address; the innermost is on top.
        let mut open: Vec<(A, u32)> = Vec::new();
        for (prefix, id) in sorted {
            while let Some((end, _)) = open.last().copied().filter(|(end, _)| *end < prefix.addr()) {
                ranges.close(end, &mut open);
            }
            ranges.start(prefix.addr(), id.0);
            open.push((A::with_host_bits(prefix, A::ONES), id.0));
        }
        while let Some((end, _)) = open.last().copied() {
            ranges.close(end, &mut open);
        }
        ranges
    }

    /// The prefix on top ends: behind it the one below holds, unless that ends here, too.
    fn close(&mut self, end: A, open: &mut Vec<(A, u32)>) {
        open.pop();
        if let Some(behind) = end.behind() {
            self.start(behind, open.last().map_or(NextHopId::NO_ROUTE.0, |(_, id)| *id));
        }
    }

    /// From `at` on it is `id`; `at` is never before the last start.
    fn start(&mut self, at: A, id: u32) {
        match self.starts.last() {
            Some(last) if *last == at => *self.ids.last_mut().expect("as long as starts") = id,
            _ => {
                self.starts.push(at);
                self.ids.push(id);
            }
        }
    }

    /// The next hop of an address.
    pub fn id(&self, address: A) -> u32 {
        self.ids[self.starts.partition_point(|start| *start <= address) - 1]
    }

    /// The next hops of many addresses.
    pub fn ids(&self, addresses: &[A]) -> Vec<u32> {
        addresses.iter().map(|address| self.id(*address)).collect()
    }
}

/// First and last address of every prefix and the addresses next to them outside: the likely places of mistakes.
pub fn edges<A: Family>(prefixes: impl Iterator<Item = PrefixOf<A>>) -> Vec<A> {
    let mut edges = Vec::new();
    for prefix in prefixes {
        let (first, last) = (prefix.addr(), A::with_host_bits(prefix, A::ONES));
        edges.extend(first.before());
        edges.extend([first, last]);
        edges.extend(last.behind());
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_fib::synth::Random;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// The plain map.
    struct Plain<A>(HashMap<(u8, A), u32>);

    impl<A: Family> Plain<A> {
        fn of(table: &[Entry<A>]) -> Self {
            Plain(table.iter().map(|(prefix, id)| ((prefix.len(), prefix.addr()), id.0)).collect())
        }

        fn id(&self, address: A) -> u32 {
            (0..=A::BITS).rev().find_map(|len| self.0.get(&(len, address.truncate(len)))).copied().unwrap_or(0)
        }
    }

    fn agree<A: Family>(table: &[Entry<A>], more: &[A]) -> Result<(), TestCaseError> {
        let (ranges, plain) = (Ranges::of(table), Plain::of(table));
        for &address in edges(table.iter().map(|(prefix, _)| *prefix)).iter().chain(more) {
            prop_assert_eq!(ranges.id(address), plain.id(address), "{:?} in {:?}", address, table);
        }
        Ok(())
    }

    fn entries<A: Family>(raw: &[(A, u8, u32)]) -> Vec<Entry<A>> {
        raw.iter().map(|(a, len, id)| (PrefixOf::truncated(*a, *len).unwrap(), NextHopId(*id))).collect()
    }

    proptest! {
        /// Few different high bits, so that prefixes nest, touch and repeat.
        #[test]
        fn ranges_are_the_plain_map_ipv4(
            raw in proptest::collection::vec((0u32..8, any::<u32>(), 0u8..=32, 1u32..9), 0..60),
            more: Vec<u32>,
        ) {
            let raw: Vec<_> = raw.iter().map(|(high, low, len, id)| (high << 29 | low & 7 << (low % 29), *len, *id)).collect();
            agree(&entries(&raw), &more)?;
        }

        #[test]
        fn ranges_are_the_plain_map_ipv6(
            raw in proptest::collection::vec((0u128..4, any::<u128>(), 0u8..=128, 1u32..9), 0..60),
            more: Vec<u128>,
        ) {
            let raw: Vec<_> = raw.iter().map(|(high, low, len, id)| (high << 126 | low & 3 << (low % 126), *len, *id)).collect();
            agree(&entries(&raw), &more)?;
        }
    }

    #[test]
    fn ranges_are_the_plain_map_on_the_shape_of_the_internet() {
        let mut random = Random::new(1);
        let of = |hop: u32| NextHopId(hop);
        let v4: Vec<_> = perigee_fib::synth::ipv4(5000, 7).into_iter().map(|(p, hop)| (p, of(hop))).collect();
        let v6: Vec<_> = perigee_fib::synth::ipv6(5000, 7).into_iter().map(|(p, hop)| (p, of(hop))).collect();
        let more: Vec<u32> = (0..50_000).map(|_| u32::uniform(&mut random)).collect();
        agree(&v4, &more).unwrap();
        let more: Vec<u128> = (0..50_000).map(|_| u128::uniform(&mut random)).collect();
        agree(&v6, &more).unwrap();
    }

    #[test]
    fn whole_space_and_its_ends() {
        let table = entries(&[(0u32, 0, 1), (u32::MAX, 32, 2), (0, 32, 3), (1 << 31, 1, 4), (1 << 31, 1, 5)]);
        let ranges = Ranges::of(&table);
        let found = [0, 1, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX].map(|address| ranges.id(address));
        assert_eq!(found, [3, 1, 1, 5, 5, 2]);
        assert_eq!(Ranges::<u128>::of(&[]).id(7), 0);
    }
}
