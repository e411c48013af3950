// SPDX-License-Identifier: MIT
//! Flows against brute force: the definitions of the RFCs, applied to the list of all arrivals.

use super::density::THRESHOLD;
use super::flow::{Arrival, Flow, History, MAX_N};
use super::reordering::{Reordering, ReorderingSummary};
use crate::buckets::Buckets;
use crate::stamp::Stamp;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

/// Everything about one flow, by looking at all earlier arrivals for every new one.
#[derive(Default)]
struct Oracle {
    /// Arrivals without duplicates, and when.
    arrivals: Vec<(u64, u64)>,
    seen: HashSet<u64>,
    duplicates: u64,
    extents: Buckets,
    late_times: Buckets,
    runs: Vec<usize>,
}

impl Oracle {
    fn arrive(&mut self, sequence: u64, now: u64) -> Arrival {
        if !self.seen.insert(sequence) {
            self.duplicates += 1;
            return Arrival::Duplicate;
        }
        let highest = self.arrivals.iter().map(|(s, _)| *s).max();
        let first_above = self.arrivals.iter().position(|(s, _)| *s > sequence);
        let arrival = match (first_above, highest) {
            (Some(j), _) => {
                self.extents.record((self.arrivals.len() - j) as u64);
                self.late_times.record(now - self.arrivals[j].1);
                self.runs.push(self.arrivals.iter().rev().take_while(|(s, _)| *s > sequence).count());
                Arrival::Late
            }
            (None, Some(highest)) if sequence == highest + 1 => Arrival::Next,
            (None, None) if sequence == 0 => Arrival::Next,
            (None, _) => Arrival::Early,
        };
        self.arrivals.push((sequence, now));
        arrival
    }

    /// Displacements by the definition: the i-th arrival has the i-th of the numbers that came.
    fn displacements(&self) -> BTreeMap<i32, u64> {
        let mut sorted: Vec<u64> = self.seen.iter().copied().collect();
        sorted.sort_unstable();
        let mut counts = BTreeMap::new();
        for ((arrived, _), index) in self.arrivals.iter().zip(sorted) {
            *counts.entry(index as i64 as i32 - *arrived as i64 as i32).or_default() += 1;
        }
        counts
    }
}

/// A flow whose first frame has the number `base`, which frames carry modulo 2^32.
struct Tested {
    flow: Flow,
    history: History,
    statistics: Reordering,
    base: u64,
    limit: usize,
}

impl Tested {
    fn new(base: u64, limit: usize) -> Tested {
        let flow = Flow { next: base, ..Flow::NEW };
        Tested { flow, history: History::default(), statistics: Reordering::default(), base, limit }
    }

    fn arrive(&mut self, sequence: u64, now: u64) -> Arrival {
        let stamp = Stamp { sequence: (self.base + sequence) as u32, time: sequence, ..Stamp::default() };
        if self.flow.expects(stamp.sequence) {
            return Arrival::Next;
        }
        self.history.arrive(&mut self.flow, &stamp, now, self.limit, &mut self.statistics)
    }

    fn unique(&self) -> u64 {
        self.flow.unique() - self.base
    }

    fn summary(&mut self) -> ReorderingSummary {
        self.history.finish(&mut self.statistics);
        self.statistics.summary(self.unique())
    }
}

/// Arrivals of a flow: frames lost, duplicated and delayed by up to `reach` places.
fn arrivals(reach: u64) -> impl Strategy<Value = Vec<u64>> {
    let frame = (0u32..100, 0..=reach, prop::option::weighted(0.1, 0..=4 * reach));
    (prop::collection::vec(frame, 1..300), 0u32..40, 0u32..60).prop_map(|(frames, loss, delayed)| {
        let mut order = vec![];
        for (sequence, (chance, delay, copy)) in frames.into_iter().enumerate() {
            let at = sequence as u64;
            if chance >= loss {
                order.push((at + if chance % 60 < delayed { delay } else { 0 }, at));
                order.extend(copy.map(|later| (at + later, at)));
            }
        }
        order.sort_by_key(|(at, _)| *at);
        order.into_iter().map(|(_, sequence)| sequence).collect()
    })
}

fn bases() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just((1 << 31) - 100), Just((1 << 32) - 50), Just((1 << 32) - 1), Just((5 << 32) - 200)]
}

proptest! {
    #[test]
    fn a_flow_is_what_brute_force_says(base in bases(), order in arrivals(40)) {
        let (mut oracle, mut tested) = (Oracle::default(), Tested::new(base, usize::MAX));
        for (i, &sequence) in order.iter().enumerate() {
            let now = 1000 + 17 * i as u64;
            prop_assert_eq!(tested.arrive(sequence, now), oracle.arrive(sequence, now), "arrival {} of {:?}", i, order);
        }
        prop_assert_eq!(tested.unique(), oracle.seen.len() as u64);
        prop_assert_eq!(tested.history.duplicates, oracle.duplicates);
        let first_open = oracle.seen.iter().max().map_or(0, |highest| highest + 1);
        prop_assert_eq!(tested.flow.missing, first_open - oracle.seen.len() as u64);
        // Stamps have the sequence number as time: that of the first that came from above the highest that is missing.
        let last_lost = (0..first_open).rev().find(|sequence| !oracle.seen.contains(sequence));
        let shown_by = last_lost.and_then(|lost| oracle.arrivals.iter().map(|(s, _)| *s).find(|s| *s > lost));
        prop_assert_eq!(tested.history.last_gap(), shown_by);
        let summary = tested.summary();
        prop_assert_eq!(summary.reordered, oracle.extents.count());
        prop_assert_eq!((summary.extent_mean, summary.extent_max), (oracle.extents.mean(), oracle.extents.max()));
        prop_assert_eq!((summary.late_ns_mean, summary.late_ns_max), (oracle.late_times.mean(), oracle.late_times.max()));
        let n_reordered = |n: usize| oracle.runs.iter().filter(|run| **run >= n).count() as u64;
        prop_assert_eq!(summary.n_reordered, (1..=MAX_N).map(n_reordered).collect::<Vec<_>>());
        let placed: u64 = summary.density.iter().map(|(_, count)| count).sum();
        prop_assert_eq!(placed + summary.beyond_threshold, oracle.seen.len() as u64);
    }

    /// As long as no frame is displaced too far, the density is that of the definition.
    #[test]
    fn the_reorder_density_is_the_definition(base in bases(), order in arrivals(6)) {
        let (mut oracle, mut tested) = (Oracle::default(), Tested::new(base, usize::MAX));
        for &sequence in &order {
            oracle.arrive(sequence, 0);
            tested.arrive(sequence, 0);
        }
        let expected = oracle.displacements();
        prop_assert!(expected.keys().all(|displacement| displacement.abs() <= THRESHOLD));
        let summary = tested.summary();
        prop_assert_eq!(summary.beyond_threshold, 0);
        prop_assert_eq!(summary.density.into_iter().collect::<BTreeMap<_, _>>(), expected, "{:?}", order);
    }

    /// With few gaps remembered, what is not known is called so, and nothing is counted wrongly.
    #[test]
    fn a_short_memory_is_honest(base in bases(), order in arrivals(40), limit in 1usize..6) {
        let (mut oracle, mut tested) = (Oracle::default(), Tested::new(base, limit));
        for &sequence in &order {
            let (found, truth) = (tested.arrive(sequence, 0), oracle.arrive(sequence, 0));
            let unknown = found == Arrival::Stale && matches!(truth, Arrival::Late | Arrival::Duplicate);
            // After a stale frame that was late, its copy is stale as well.
            prop_assert!(found == truth || unknown, "{:?} is {:?}", found, truth);
        }
        let (unique, stale) = (oracle.seen.len() as u64, tested.history.stale);
        prop_assert_eq!(tested.unique() + tested.history.duplicates + stale, order.len() as u64);
        prop_assert!(tested.unique() <= unique && unique <= tested.unique() + stale);
    }
}

/// The example of RFC 4737's n-reordering and of extents: 5 comes three places late, behind 6, 7 and 8.
#[test]
fn three_places_late() {
    let mut tested = Tested::new(0, 64);
    let order = [0, 1, 2, 3, 4, 6, 7, 8, 5, 9];
    let found: Vec<Arrival> = order.iter().map(|sequence| tested.arrive(*sequence, sequence * 10)).collect();
    assert_eq!(found[5..], [Arrival::Early, Arrival::Next, Arrival::Next, Arrival::Late, Arrival::Next]);
    let summary = tested.summary();
    assert_eq!((summary.reordered, summary.extent_max, summary.ratio), (1, Some(3), 0.1));
    assert_eq!(summary.n_reordered[..4], [1, 1, 1, 0]);
    assert_eq!(summary.density, [(-1, 3), (0, 6), (3, 1)]);
    assert_eq!(tested.flow.missing, 0);
}

/// A frame that is as late as the threshold counts, one that is later does not.
#[test]
fn the_threshold_of_displacements() {
    for (late, beyond) in [(16, 0), (17, 1)] {
        let mut tested = Tested::new(0, 64);
        (1..=late).chain([0]).chain(late + 1..late + 40).for_each(|sequence| {
            tested.arrive(sequence, 0);
        });
        let summary = tested.summary();
        assert_eq!(summary.beyond_threshold, beyond);
        assert_eq!(summary.density.iter().find(|(at, _)| *at == 16), Some(&(16, 1)).filter(|_| beyond == 0));
    }
}

/// A gap of a billion frames is one gap; a number from before the first is no frame of this flow.
#[test]
fn numbers_that_are_far_away() {
    let mut tested = Tested::new(0, 64);
    assert_eq!(tested.arrive(u64::from(u32::MAX), 0), Arrival::Stale);
    assert_eq!(tested.arrive(1_000_000_000, 0), Arrival::Early);
    assert_eq!(tested.flow.missing, 1_000_000_000);
    assert_eq!(tested.arrive(500_000_000, 0), Arrival::Late);
    assert_eq!(tested.arrive(500_000_000, 0), Arrival::Duplicate);
    assert_eq!((tested.flow.missing, tested.unique()), (999_999_999, 2));
}

/// A flow that has long been in order again costs nothing more.
#[test]
fn after_a_gap_it_becomes_calm() {
    let mut tested = Tested::new(0, 64);
    tested.arrive(0, 0);
    tested.arrive(2, 0);
    assert!(tested.flow.watched);
    (3..40).for_each(|sequence| assert_eq!(tested.arrive(sequence, 0), Arrival::Next));
    assert!(!tested.flow.watched);
    assert_eq!(tested.summary().density, [(0, 39)]);
}
