// SPDX-License-Identifier: MIT
//! The multibit trie for IPv6.

use perigee_fib::{LookupWriter, NextHopId, Trie6Writer};
use perigee_net::{Prefix6, PrefixOf};
use proptest::prelude::*;

use crate::harness::*;
use crate::oracle::v6;

fn writers() -> Vec<Box<dyn LookupWriter<u128>>> {
    vec![Box::new(Trie6Writer::new().expect("memory"))]
}

const DENSE: Universe<u128> = Universe {
    base: 0x2001_0db8 << 96,
    varying: 0x0303_0303_0000_0000_0000_0000_0000_0003,
    lengths: &[0, 1, 3, 8, 15, 16, 17, 23, 24, 25, 31, 32, 33, 34, 39, 40, 41, 48, 64, 96, 119, 120, 121, 127, 128],
};
const WIDE: Universe<u128> = Universe {
    base: 0,
    varying: u128::MAX,
    lengths: &[0, 1, 2, 7, 16, 20, 24, 29, 32, 36, 44, 47, 48, 56, 64, 127, 128],
};

#[test]
fn dense_and_nested() {
    (300..308).for_each(|seed| churn(writers(), &DENSE, 500, seed));
}

#[test]
fn wide() {
    (400..403).for_each(|seed| churn(writers(), &WIDE, 500, seed));
}

#[test]
fn whole_tables() {
    loads(writers(), &DENSE, &[0, 1, 2, 65, 500], 410);
}

#[test]
fn out_of_nodes_is_as_it_was() {
    let mut group = Group::new(vec![Box::new(Trie6Writer::with_nodes(3).expect("memory"))]);
    let [a, b] = ["2001:db8::/40", "2001:db9::/40"].map(v6);
    group.insert(a, NextHopId(21));
    let error = group.writers[0].insert(b, NextHopId(22)).expect_err("full").to_string();
    assert_eq!(
        error,
        "2001:db9::/40 does not fit: all 3 nodes of trie6 are in use; remove routes, or use another structure"
    );
    group.check_edges(&[a, b], "refused");
    group.remove(a);
    assert_eq!(group.writers[0].retired(), 3);
    assert!(group.writers[0].insert(b, NextHopId(22)).is_err(), "a reader may still be in the nodes");
    (0..2).for_each(|_| group.reclaim());
    group.insert(b, NextHopId(22));
    group.check_edges(&[a, b], "reused");
}

#[test]
fn large_ids() {
    let mut group = Group::new(writers());
    group.insert(Prefix6::host(1), NextHopId(NextHopId::MAX));
    group.check_edges(&[Prefix6::host(1)], "largest id");
    assert!(group.writers[0].insert(Prefix6::host(1), NextHopId(NextHopId::MAX + 1)).is_err());
}

#[test]
fn under_a_reader() {
    let base = 0x2001_0db8 << 96;
    let blocks: Vec<_> =
        (0..16u128).map(|at| PrefixOf::truncated(base | at << 88 | 0x40 << 80, 63).expect("in range")).collect();
    flapping(Box::new(Trie6Writer::with_nodes(30).expect("memory")), v6("2001:db8::/32"), &blocks, 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changes(steps in prop::collection::vec((0..16u32, 8..=40u8, prop::option::of(0..9u32)), 1..40)) {
        let prefix = |addr: u32, len| PrefixOf::truncated((0x20_0100_00f8 + u128::from(addr)) << 88, len).expect("in range");
        shrinkable(writers(), &steps, prefix);
    }
}
