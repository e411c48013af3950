// SPDX-License-Identifier: MIT
//! Poptrie, for both families.

use perigee_fib::{LookupWriter, NextHopId, PoptrieWriter};
use perigee_net::PrefixOf;
use proptest::prelude::*;

use crate::harness::*;
use crate::oracle::{v4, v6};

fn writers4() -> Vec<Box<dyn LookupWriter<u32>>> {
    vec![Box::new(PoptrieWriter::with_room(1 << 14, 1 << 16).expect("memory"))]
}

fn writers6() -> Vec<Box<dyn LookupWriter<u128>>> {
    vec![Box::new(PoptrieWriter::with_room(1 << 17, 1 << 17).expect("memory"))]
}

const DENSE4: Universe<u32> =
    Universe { base: 0x0a01_0000, varying: 0x0000_3fff, lengths: &[17, 18, 19, 23, 24, 25, 29, 30, 31, 32] };
const WIDE4: Universe<u32> = Universe {
    base: 0,
    varying: u32::MAX,
    lengths: &[0, 1, 8, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32],
};
const NESTED6: Universe<u128> = Universe {
    base: 0x2001_0db8 << 96,
    varying: 0x0303_0303_0000_0000_0000_0000_0000_0003,
    lengths: &[0, 1, 3, 15, 16, 17, 21, 22, 23, 24, 28, 32, 33, 34, 40, 48, 64, 96, 120, 124, 125, 126, 127, 128],
};
const DENSE6: Universe<u128> =
    Universe { base: 0x2001_0d00 << 96, varying: 0x0000_00ff_3f3f << 80, lengths: &[24, 28, 32, 32, 40, 46, 48, 48] };

#[test]
fn ipv4() {
    (0..3).for_each(|seed| churn(writers4(), &DENSE4, 500, seed));
    (10..12).for_each(|seed| churn(writers4(), &WIDE4, 300, seed));
    for (seed, base) in [(20, 0), (21, 0xffff_c000)] {
        churn(writers4(), &Universe { base, ..DENSE4 }, 300, seed);
    }
}

#[test]
fn ipv6() {
    (30..33).for_each(|seed| churn(writers6(), &NESTED6, 400, seed));
    (40..42).for_each(|seed| churn(writers6(), &DENSE6, 400, seed));
}

#[test]
fn whole_tables() {
    loads(writers4(), &DENSE4, &[0, 1, 2, 63, 64, 65, 1001], 50);
    loads(writers4(), &WIDE4, &[0, 1, 2, 500], 51);
    loads(writers6(), &NESTED6, &[0, 1, 2, 65, 500], 52);
    loads(writers6(), &DENSE6, &[3, 2001], 53);
}

#[test]
fn out_of_room_is_as_it_was() {
    let mut group: Group<u32> = Group::new(vec![Box::new(PoptrieWriter::with_room(2, 1 << 10).expect("memory"))]);
    let [a, b] = ["10.0.0.0/24", "10.0.64.0/25"].map(v4);
    group.insert(a, NextHopId(21));
    let error = group.writers[0].insert(b, NextHopId(22)).expect_err("full").to_string();
    assert_eq!(
        error,
        "10.0.64.0/25 does not fit: all 2 nodes of poptrie are in use; remove routes, or use another structure"
    );
    group.check_edges(&[a, b], "refused");
    group.remove(a);
    group.reclaim();
    // A reader may still be in the nodes: there is a new table.
    let old = group.writers[0].reader();
    group.insert(b, NextHopId(22));
    assert!(!std::sync::Arc::ptr_eq(&old, &group.writers[0].reader()));
    group.check_edges(&[a, b], "built again");
    group.remove(b);
    (0..2).for_each(|_| group.reclaim());
    let reader = group.writers[0].reader();
    group.insert(b, NextHopId(23));
    assert!(std::sync::Arc::ptr_eq(&reader, &group.writers[0].reader()), "the nodes are reused");
    group.check_edges(&[a, b], "reused");
    assert!(group.writers[0].insert(a, NextHopId(NextHopId::MAX + 1)).is_err());
}

#[test]
fn under_a_reader() {
    let blocks: Vec<_> =
        (0..16).map(|at: u32| PrefixOf::truncated(0x0a00_0000 | at << 9, 28).expect("in range")).collect();
    flapping(Box::new(PoptrieWriter::<u32>::with_room(60, 400).expect("memory")), v4("10.0.0.0/16"), &blocks, 60);
    let blocks: Vec<_> =
        (0..16).map(|at: u128| PrefixOf::truncated(0x2001_0db8 << 96 | at << 84, 48).expect("in range")).collect();
    flapping(Box::new(PoptrieWriter::<u128>::with_room(60, 400).expect("memory")), v6("2001:db8::/32"), &blocks, 61);
}

fn steps(lengths: std::ops::RangeInclusive<u8>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..32u32, lengths, prop::option::of(0..9u32)), 1..50)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changes_of_ipv4(steps in steps(14..=32)) {
        let prefix = |addr: u32, len| PrefixOf::truncated(0x0a00_3ff0 + addr, len).expect("in range");
        shrinkable(writers4(), &steps, prefix);
    }

    #[test]
    fn any_changes_of_ipv6(steps in steps(8..=40)) {
        let prefix = |addr: u32, len| PrefixOf::truncated((0x20_0100_00f8 + u128::from(addr)) << 88, len).expect("in range");
        shrinkable(writers6(), &steps, prefix);
    }
}
