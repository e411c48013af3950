// SPDX-License-Identifier: MIT
//! Every lookup structure against the oracle, after every change.

use perigee_fib::synth::{self, Random};
use perigee_fib::{Dir24Writer, Grace, LookupError, LookupWriter, NextHopId, Prefix4, Prefix6, PrefixOf, Trie6Writer};
use proptest::prelude::*;

use crate::oracle::{Family, Oracle, v4, v6};

/// Where the prefixes of a run are drawn from: `base` with other bits where `varying` has ones.
struct Universe<A> {
    base: A,
    varying: A,
    lengths: &'static [u8],
}

impl<A: Family> Universe<A> {
    fn address(&self, random: &mut Random) -> A {
        self.base.vary(self.varying, random)
    }

    fn prefix(&self, random: &mut Random) -> PrefixOf<A> {
        let len = self.lengths[random.below(self.lengths.len() as u32) as usize];
        PrefixOf::truncated(self.address(random), len).expect("lengths are in range")
    }
}

/// A structure and the oracle, changed together.
struct Pair<A, W> {
    writer: W,
    oracle: Oracle<A>,
    epoch: u64,
}

impl<A: Family, W: LookupWriter<A>> Pair<A, W> {
    fn new(writer: W) -> Self {
        Self { writer, oracle: Oracle::new(), epoch: 0 }
    }

    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) {
        assert_eq!(self.writer.insert(prefix, id), Ok(self.oracle.insert(prefix, id)), "insert {prefix}");
    }

    fn remove(&mut self, prefix: PrefixOf<A>) {
        let missing = LookupError::Missing { prefix: prefix.to_string() };
        assert_eq!(self.writer.remove(prefix), self.oracle.remove(prefix).ok_or(missing), "remove {prefix}");
    }

    /// Readers are one epoch behind, so that memory is reused late, as in a running router.
    fn reclaim(&mut self) {
        self.epoch += 1;
        self.writer.reclaim(Grace { epoch: self.epoch, passed: self.epoch - 1 });
    }

    fn check(&self, addresses: &[A], context: &str) {
        let reader = self.writer.reader();
        let mut ids = vec![u32::MAX; addresses.len()];
        reader.lookup_batch(addresses, &mut ids);
        for (&address, &id) in addresses.iter().zip(&ids) {
            let expected = self.oracle.lookup(address);
            assert_eq!(NextHopId(id), expected, "{context}: batch lookup of {} in {}", address.ip(), reader.name());
            assert_eq!(reader.lookup(address), expected, "{context}: lookup of {} in {}", address.ip(), reader.name());
        }
    }

    fn check_edges(&self, prefix: PrefixOf<A>, context: &str) {
        let (first, last) = (prefix.addr(), prefix.addr().fill(prefix.len()));
        self.check(&[first, last, first.plus(-1), last.plus(1), first.plus(1), last.plus(-1)], context);
    }
}

/// Random changes; after each one its edges and random addresses are looked up, in the end the edges of everything.
fn churn<A: Family, W: LookupWriter<A>>(writer: W, universe: &Universe<A>, steps: u32, seed: u64) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut pair = Pair::new(writer);
    for step in 0..steps {
        let context = format!("seed {seed}, step {step}");
        let known = pair.oracle.prefixes();
        // Rising, then falling, so that dense tables are emptied too.
        let removes = if step < steps / 2 { 3 } else { 7 };
        let prefix = if !known.is_empty() && random.below(10) < removes {
            let prefix = known[random.below(known.len() as u32) as usize];
            pair.remove(prefix);
            prefix
        } else {
            let prefix = universe.prefix(&mut random);
            pair.insert(prefix, NextHopId(random.below(40)));
            prefix
        };
        pair.check_edges(prefix, &context);
        let probes: Vec<A> = (0..random.below(40)).map(|_| universe.address(&mut random)).collect();
        pair.check(&probes, &context);
        if random.below(4) == 0 {
            pair.reclaim();
        }
    }
    for prefix in pair.oracle.prefixes() {
        pair.check_edges(prefix, &format!("seed {seed}, at the end"));
    }
    for prefix in pair.oracle.prefixes() {
        pair.remove(prefix);
    }
    let probes: Vec<A> = (0..600).map(|_| universe.address(&mut random)).collect();
    pair.check(&probes, &format!("seed {seed}, emptied"));
}

const DENSE4: Universe<u32> =
    Universe { base: 0x0a01_0000, varying: 0x0000_03ff, lengths: &[20, 22, 23, 24, 25, 26, 28, 30, 31, 32] };
const WIDE4: Universe<u32> = Universe {
    base: 0,
    varying: u32::MAX,
    lengths: &[0, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32],
};
const DENSE6: Universe<u128> = Universe {
    base: 0x2001_0db8 << 96,
    varying: 0x0303_0303_0000_0000_0000_0000_0000_0003,
    lengths: &[0, 1, 3, 8, 15, 16, 17, 23, 24, 25, 31, 32, 33, 34, 39, 40, 41, 48, 64, 96, 119, 120, 121, 127, 128],
};
const WIDE6: Universe<u128> = Universe {
    base: 0,
    varying: u128::MAX,
    lengths: &[0, 1, 2, 7, 16, 20, 24, 29, 32, 36, 44, 47, 48, 56, 64, 127, 128],
};

#[test]
fn dir24_dense_and_nested() {
    for seed in 0..12 {
        churn(Dir24Writer::new().expect("memory"), &DENSE4, 500, seed);
    }
}

#[test]
fn dir24_wide() {
    for seed in 100..103 {
        churn(Dir24Writer::new().expect("memory"), &WIDE4, 500, seed);
    }
}

#[test]
fn dir24_at_the_ends_of_the_space() {
    for (seed, base) in [(200, 0), (201, 0xffff_fc00)] {
        churn(Dir24Writer::new().expect("memory"), &Universe { base, ..DENSE4 }, 500, seed);
    }
}

#[test]
fn dir24_shortest_prefixes_over_long_ones() {
    let mut pair = Pair::new(Dir24Writer::new().expect("memory"));
    let texts =
        ["10.1.2.3/32", "128.0.0.0/1", "0.0.0.0/0", "0.0.0.0/1", "10.1.2.0/24", "0.0.0.0/2", "255.255.255.255/32"];
    let prefixes = texts.map(v4);
    let check =
        |pair: &Pair<u32, Dir24Writer>| prefixes.iter().for_each(|prefix| pair.check_edges(*prefix, "short ones"));
    for (id, prefix) in (20..).zip(prefixes) {
        pair.insert(prefix, NextHopId(id));
        check(&pair);
    }
    for prefix in prefixes {
        pair.remove(prefix);
        check(&pair);
    }
}

#[test]
fn trie6_dense_and_nested() {
    for seed in 300..312 {
        churn(Trie6Writer::new().expect("memory"), &DENSE6, 500, seed);
    }
}

#[test]
fn trie6_wide() {
    for seed in 400..404 {
        churn(Trie6Writer::new().expect("memory"), &WIDE6, 500, seed);
    }
}

#[test]
fn dir24_on_a_synthetic_table() {
    let seed = 500;
    println!("seed {seed}");
    let mut pair = Pair::new(Dir24Writer::new().expect("memory"));
    let table = synth::ipv4(50_000, seed);
    for (prefix, id) in &table {
        pair.insert(*prefix, NextHopId(*id));
    }
    let mut random = Random::new(seed);
    let probes: Vec<u32> = (0..100_000).map(|_| u32::random(&mut random)).collect();
    pair.check(&probes, "uniform");
    table.iter().for_each(|(prefix, _)| pair.check_edges(*prefix, "edges"));
    table.iter().step_by(2).for_each(|(prefix, _)| pair.remove(*prefix));
    table.iter().for_each(|(prefix, _)| pair.check_edges(*prefix, "edges after removals"));
}

#[test]
fn dir24_out_of_groups_is_as_it_was() {
    let mut pair = Pair::new(Dir24Writer::with_groups(2).expect("memory"));
    let [a, b, c] = ["10.0.0.1/32", "10.0.1.1/32", "10.0.2.1/32"].map(v4);
    pair.insert(v4("10.0.0.0/8"), NextHopId(20));
    pair.insert(a, NextHopId(21));
    pair.insert(b, NextHopId(22));
    let error = pair.writer.insert(c, NextHopId(23)).expect_err("full").to_string();
    assert_eq!(
        error,
        "10.0.2.1/32 does not fit: all 2 groups of long prefixes of dir24 are in use; remove routes, or use another structure"
    );
    pair.check_edges(c, "refused");
    pair.remove(a);
    assert!(pair.writer.insert(c, NextHopId(23)).is_err(), "a reader may still be in the group");
    assert_eq!(pair.writer.waiting(), 1);
    pair.reclaim();
    assert!(pair.writer.insert(c, NextHopId(23)).is_err(), "and still");
    pair.reclaim();
    assert_eq!(pair.writer.waiting(), 0);
    pair.insert(c, NextHopId(23));
    [a, b, c].iter().for_each(|prefix| pair.check_edges(*prefix, "reused"));
}

#[test]
fn trie6_out_of_nodes_is_as_it_was() {
    let mut pair = Pair::new(Trie6Writer::with_nodes(3).expect("memory"));
    let [a, b] = ["2001:db8::/40", "2001:db9::/40"].map(v6);
    pair.insert(a, NextHopId(21));
    let error = pair.writer.insert(b, NextHopId(22)).expect_err("full").to_string();
    assert_eq!(
        error,
        "2001:db9::/40 does not fit: all 3 nodes of trie6 are in use; remove routes, or use another structure"
    );
    pair.check_edges(b, "refused");
    pair.remove(a);
    assert_eq!(pair.writer.waiting(), 3);
    assert!(pair.writer.insert(b, NextHopId(22)).is_err(), "a reader may still be in the nodes");
    pair.reclaim();
    pair.reclaim();
    pair.insert(b, NextHopId(22));
    [a, b].iter().for_each(|prefix| pair.check_edges(*prefix, "reused"));
}

#[test]
fn ids_over_24_bits_are_refused() {
    let id = NextHopId(NextHopId::MAX + 1);
    let mut dir24 = Pair::new(Dir24Writer::new().expect("memory"));
    let mut trie6 = Pair::new(Trie6Writer::new().expect("memory"));
    assert_eq!(
        dir24.writer.insert(Prefix4::host(1), id).expect_err("refused").to_string(),
        "next hop 16777216 does not fit in dir24; expected an id up to 16777215"
    );
    assert!(trie6.writer.insert(Prefix6::host(1), id).is_err());
    dir24.insert(Prefix4::host(1), NextHopId(NextHopId::MAX));
    trie6.insert(Prefix6::host(1), NextHopId(NextHopId::MAX));
    dir24.check(&[0, 1, 2], "largest id");
    trie6.check(&[0, 1, 2], "largest id");
}

/// One change in a tiny universe: insert (with an id) or remove.
type Step = (u32, u8, Option<u32>);

/// Tiny universes shrink well: eight addresses at either side of a boundary between two nodes of the structure.
fn shrinkable<A: Family, W: LookupWriter<A>>(writer: W, steps: &[Step], prefix: impl Fn(u32, u8) -> PrefixOf<A>) {
    let mut pair = Pair::new(writer);
    for (addr, len, change) in steps {
        let prefix = prefix(*addr, *len);
        match change {
            Some(id) => pair.insert(prefix, NextHopId(*id)),
            None => pair.remove(prefix),
        }
        pair.reclaim();
        let edges: Vec<_> = pair.oracle.prefixes();
        pair.check_edges(prefix, "changed");
        edges.iter().for_each(|prefix| pair.check_edges(*prefix, "other"));
    }
}

fn steps(lengths: std::ops::RangeInclusive<u8>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..16u32, lengths, prop::option::of(0..9u32)), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn dir24_any_changes(steps in steps(20..=32)) {
        let prefix = |addr: u32, len| PrefixOf::truncated(0x0a00_00f8 + addr, len).expect("in range");
        shrinkable(Dir24Writer::new().expect("memory"), &steps, prefix);
    }

    #[test]
    fn trie6_any_changes(steps in steps(8..=40)) {
        let prefix = |addr: u32, len| PrefixOf::truncated((0x20_0100_00f8 + u128::from(addr)) << 88, len).expect("in range");
        shrinkable(Trie6Writer::new().expect("memory"), &steps, prefix);
    }
}
