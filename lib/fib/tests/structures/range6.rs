// SPDX-License-Identifier: MIT
//! range6, with every instruction set.

use perigee_fib::{Isa, LookupError, LookupWriter, NextHopId, Range6Writer};
use perigee_net::{Prefix6, PrefixOf};
use proptest::prelude::*;

use crate::harness::*;
use crate::oracle::v6;

const LINES: u32 = 1 << 15;

/// One for each instruction set that this processor has.
fn writers() -> Vec<Box<dyn LookupWriter<u128>>> {
    Isa::available().iter().map(|isa| writer(LINES, *isa)).collect()
}

fn writer(lines: u32, isa: Isa) -> Box<dyn LookupWriter<u128>> {
    Box::new(Range6Writer::with_lines(lines, isa).expect("memory"))
}

/// Nested prefixes of many lengths, around those where indices and lines end.
const NESTED: Universe<u128> = Universe {
    base: 0x2001_0db8 << 96,
    varying: 0x0303_0303_0000_0000_0000_0000_0000_0003,
    lengths: &[
        0, 1, 3, 8, 15, 16, 17, 20, 23, 24, 25, 31, 32, 33, 34, 39, 40, 41, 48, 55, 56, 57, 63, 64, 65, 80, 96, 119,
        120, 121, 127, 128,
    ],
};
/// Many prefixes in one /24: trees, and indices below indices.
const DENSE: Universe<u128> = Universe {
    base: 0x2001_0d00 << 96,
    varying: 0x0000_00ff_3f3f << 80,
    lengths: &[24, 28, 30, 32, 32, 36, 40, 44, 46, 48, 48, 48],
};
/// Many host routes in two /64.
const HOSTS: Universe<u128> = Universe {
    base: 0x2001_0db8 << 96,
    varying: 0x0001_0000_0000_00ff_0fff,
    lengths: &[64, 90, 96, 100, 112, 120, 124, 126, 127, 128, 128, 128],
};
const WIDE: Universe<u128> = Universe {
    base: 0,
    varying: u128::MAX,
    lengths: &[0, 1, 2, 7, 16, 20, 24, 29, 32, 36, 44, 47, 48, 56, 64, 127, 128],
};

#[test]
fn nested() {
    (0..4).for_each(|seed| churn(writers(), &NESTED, 500, seed));
}

#[test]
fn dense() {
    (10..14).for_each(|seed| churn(writers(), &DENSE, 900, seed));
}

#[test]
fn hosts() {
    (20..24).for_each(|seed| churn(writers(), &HOSTS, 700, seed));
}

#[test]
fn wide() {
    (30..32).for_each(|seed| churn(writers(), &WIDE, 300, seed));
}

#[test]
fn changes_in_runs() {
    for (seed, universe) in [(50, &NESTED), (51, &DENSE), (52, &HOSTS), (53, &WIDE), (54, &DENSE)] {
        runs(writers(), universe, 60, seed);
    }
}

#[test]
fn changes_in_runs_when_there_is_no_room() {
    for (seed, universe) in [(55, &DENSE), (56, &NESTED)] {
        runs_when_full(|| writer(4097 + 60, Isa::detect()), universe, 40, seed);
    }
}

#[test]
fn whole_tables() {
    for (seed, universe) in [(40, &NESTED), (41, &DENSE), (42, &HOSTS), (43, &WIDE)] {
        loads(writers(), universe, &[0, 1, 2, 11, 12, 13, 190, 3001], seed);
    }
}

/// One /24 with as many prefixes as the densest one of the Internet's table, inserted one by one.
#[test]
fn grown_by_insertion() {
    let mut group = Group::new(writers());
    for at in 0..4000u32 {
        let at = at.wrapping_mul(2_654_435_761) % 4096;
        let prefix = PrefixOf::truncated(0x2001_0db8 << 96 | u128::from(at) << 82, 48).expect("in range");
        group.insert(prefix, NextHopId(20 + at % 7));
        if at % 16 == 0 {
            group.reclaim();
        }
    }
    group.check_edges(&group.oracle.prefixes(), "grown");
    assert!(group.writers[0].memory() < 2 << 20, "{} bytes", group.writers[0].memory());
}

#[test]
fn every_count_of_runs_around_the_sizes_of_lines_and_trees() {
    for large in [false, true] {
        for count in (1..30).chain(130..145).chain(180..195) {
            let mut group = Group::new(writers());
            // Irregular gaps, so that no index suits these prefixes.
            let routes: Vec<_> = (0..count)
                .map(|at: u32| {
                    let place = u128::from(at * at % 1021 + at * 977);
                    let id = if large { 70_000 } else { 20 } + at % 5;
                    (PrefixOf::truncated(0x2001_0db8 << 96 | place << 72, 56).expect("in range"), NextHopId(id))
                })
                .collect();
            group.load(&routes);
            group.check_edges(&group.oracle.prefixes(), &format!("{count} prefixes"));
        }
    }
}

#[test]
fn out_of_lines_is_as_it_was() {
    let mut group = Group::new(vec![writer(0, Isa::detect())]);
    let [a, b, c] = ["2001:db8::/40", "2001:db9::/40", "2002::/44"].map(v6);
    group.insert(a, NextHopId(21));
    let error = group.writers[0].insert(c, NextHopId(22)).expect_err("full").to_string();
    assert_eq!(
        error,
        "2002::/44 does not fit: all 4097 lines of range6 are in use; remove routes, or use another structure"
    );
    assert!(
        group.writers[0].insert(b, NextHopId(22)).is_err(),
        "there is no room for the new line next to the old one"
    );
    let whole = LookupError::TableFull { prefixes: 2, structure: "range6", what: "lines", limit: 4097 };
    assert_eq!(group.writers[0].load(&[(a, NextHopId(1)), (c, NextHopId(2))]), Err(whole));
    group.check_edges(&[a, b, c], "refused");
    let short: Prefix6 = v6("2001::/16");
    group.remove(a);
    group.insert(short, NextHopId(23));
    // A reader may still be in the line: there is a new table.
    let old = group.writers[0].reader();
    group.insert(c, NextHopId(22));
    assert!(!std::sync::Arc::ptr_eq(&old, &group.writers[0].reader()));
    group.check_edges(&[a, b, c, short], "built again");
    group.remove(c);
    (0..2).for_each(|_| group.reclaim());
    let reader = group.writers[0].reader();
    group.insert(c, NextHopId(24));
    assert!(std::sync::Arc::ptr_eq(&reader, &group.writers[0].reader()), "the line is reused");
    group.check_edges(&[a, b, c, short], "reused");
}

#[test]
fn large_ids() {
    let mut group = Group::new(writers());
    for (at, prefix) in
        ["::/0", "2000::/3", "2001::/16", "2001:db8::/32", "2001:db8::1/128"].map(v6).into_iter().enumerate()
    {
        group.insert(prefix, NextHopId(NextHopId::MAX - at as u32));
        group.check_edges(&group.oracle.prefixes(), "large");
    }
    let error = group.writers[0].insert(v6("::/0"), NextHopId(NextHopId::MAX + 1)).expect_err("refused").to_string();
    assert_eq!(error, "next hop 16777216 does not fit in range6; expected an id up to 16777215");
}

#[test]
fn under_a_reader() {
    let block =
        |at: u32, len| PrefixOf::truncated(0x2001_0db8 << 96 | u128::from(at * at + 1) << 80, len).expect("in range");
    for (seed, isa) in (50..).zip(Isa::available()) {
        let few: Vec<_> = (0..8).map(|at| block(at, 48)).collect();
        flapping(writer(4_110, *isa), v6("2001:db8::/32"), &few, seed);
        // Enough of them for trees and indices.
        let many: Vec<_> = (0..250).map(|at| block(at, 48)).collect();
        flapping(writer(4_400, *isa), v6("2001:db8::/32"), &many, seed + 10);
        let hosts: Vec<_> = (0..40).map(|at| Prefix6::host(block(at % 5, 128).addr() + u128::from(at))).collect();
        flapping(writer(4_400, *isa), v6("2001:db8::/32"), &hosts, seed + 20);
    }
}

fn steps(lengths: std::ops::RangeInclusive<u8>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..32u32, lengths, prop::option::of(0..9u32)), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changes(steps in steps(8..=40)) {
        let prefix = |addr: u32, len| PrefixOf::truncated((0x20_0100_00f8 + u128::from(addr)) << 88, len).expect("in range");
        shrinkable(writers(), &steps, prefix);
    }

    #[test]
    fn any_changes_of_hosts(steps in steps(100..=128)) {
        let prefix = |addr: u32, len| PrefixOf::truncated((0x2001 << 112) | (0xf0 + u128::from(addr)), len).expect("in range");
        shrinkable(writers(), &steps, prefix);
    }
}
