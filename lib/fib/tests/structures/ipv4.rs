// SPDX-License-Identifier: MIT
//! The structures for IPv4 but Poptrie: DIR-24-8, BM19, DIRB and DXR.

use perigee_fib::synth::Random;
use perigee_fib::{Bm19Writer, Dir24Writer, DirbWriter, DxrWriter, Isa, LookupWriter, NextHopId};
use perigee_net::{Prefix4, PrefixOf};
use proptest::prelude::*;

use crate::harness::*;
use crate::oracle::v4;

type Writers = Vec<Box<dyn LookupWriter<u32>>>;

/// The structures but DXR, once for each instruction set that this processor has.
fn patched() -> Writers {
    let mut writers: Writers = vec![Box::new(Dir24Writer::new().expect("memory"))];
    for isa in Isa::available() {
        writers.push(Box::new(Bm19Writer::with(*isa, 1 << 20).expect("memory")));
        writers.push(Box::new(DirbWriter::with(false, *isa, 1 << 20).expect("memory")));
    }
    writers.push(Box::new(DirbWriter::new(true).expect("memory")));
    writers
}

/// DXR with these numbers of direct bits, once for each instruction set that this processor has. Its next hops have 16
/// bits.
fn dxr(bits: &[u8]) -> Writers {
    let each = bits.iter().flat_map(|bits| Isa::available().iter().map(|isa| (*bits, *isa)));
    each.map(|(bits, isa)| -> Box<dyn LookupWriter<u32>> {
        Box::new(DxrWriter::with(bits, 1 << 20, isa).expect("memory"))
    })
    .collect()
}

const DENSE: Universe<u32> = Universe {
    base: 0x0a01_0000,
    varying: 0x0000_3fff,
    lengths: &[17, 18, 19, 20, 22, 23, 24, 24, 25, 26, 28, 31, 32],
};
const WIDE: Universe<u32> = Universe {
    base: 0,
    varying: u32::MAX,
    lengths: &[0, 1, 8, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32],
};
/// Many host routes in four /24.
const HOSTS: Universe<u32> =
    Universe { base: 0x0a01_fe00, varying: 0x0000_03ff, lengths: &[24, 28, 30, 31, 32, 32, 32] };

#[test]
fn dense() {
    (0..4).for_each(|seed| churn(patched(), &DENSE, 500, seed));
    churn(dxr(&[16, 17, 18, 19, 20]), &DENSE, 500, 5);
}

#[test]
fn wide() {
    (10..12).for_each(|seed| churn(patched(), &WIDE, 200, seed));
    churn(dxr(&[16, 17, 19]), &WIDE, 200, 13);
    churn(dxr(&[18, 20]), &WIDE, 200, 15);
}

#[test]
fn hosts() {
    (20..22).for_each(|seed| churn(patched(), &HOSTS, 600, seed));
    churn(dxr(&[16, 18, 20]), &HOSTS, 600, 23);
}

#[test]
fn changes_in_runs() {
    for (seed, universe) in [(60, &DENSE), (61, &WIDE), (62, &HOSTS), (63, &Universe { base: 0xffff_c000, ..DENSE })] {
        runs(patched(), universe, 60, seed);
    }
    runs(dxr(&[16, 20]), &DENSE, 40, 65);
}

#[test]
fn changes_in_runs_when_there_is_no_room() {
    let isa = Isa::detect();
    runs_when_full(|| Box::new(Bm19Writer::with(isa, 50).expect("memory")), &DENSE, 50, 66);
    runs_when_full(|| Box::new(DirbWriter::with(false, isa, 50).expect("memory")), &DENSE, 50, 67);
    runs_when_full(|| Box::new(Dir24Writer::with_groups(3).expect("memory")), &HOSTS, 50, 68);
}

#[test]
fn at_the_ends_of_the_space() {
    for (seed, base) in [(30, 0), (31, 0xffff_c000)] {
        churn(patched(), &Universe { base, ..DENSE }, 300, seed);
    }
    for (seed, base) in [(33, 0), (35, 0xffff_c000)] {
        churn(dxr(&[16, 18, 20]), &Universe { base, ..DENSE }, 300, seed);
    }
}

#[test]
fn whole_tables() {
    for (seed, universe) in [(40, &DENSE), (41, &WIDE), (42, &HOSTS)] {
        loads(patched(), universe, &[0, 1, 2, 33, 2001, 3000], seed);
    }
    // Tables of even size have ids over 16 bits, which DXR refuses.
    for (seed, universe) in [(43, &DENSE), (44, &WIDE), (45, &HOSTS)] {
        loads(dxr(&[16, 17, 18, 19, 20]), universe, &[1, 61, 2001], seed);
    }
}

#[test]
fn of_duplicates_in_a_whole_table_the_last_counts() {
    let mut writers = patched();
    writers.extend(dxr(&[16, 20]));
    for prefix in ["10.0.0.0/8", "10.1.2.0/24", "10.1.2.3/32", "0.0.0.0/0"].map(v4) {
        let routes = [(prefix, NextHopId(20)), (v4("10.1.2.0/25"), NextHopId(21)), (prefix, NextHopId(22))];
        for writer in &mut writers {
            writer.load(&routes).expect("room");
            assert_eq!(writer.remove(prefix), Ok(NextHopId(22)), "{}", writer.reader().name());
            assert!(writer.remove(prefix).is_err(), "{}", writer.reader().name());
        }
    }
}

/// Leaves are widened from 16 to 32 bits for the first next hop that needs it.
#[test]
fn large_ids_widen_the_leaves() {
    let sizes = [(1 << 15) - 1, 1 << 15, NextHopId::MAX].map(|limit| {
        let mut group = Group::new(patched());
        group.insert(v4("10.0.0.0/9"), NextHopId(7));
        group.insert(v4("10.1.2.64/26"), NextHopId(8));
        for prefix in ["10.1.0.0/16", "10.1.2.0/24", "10.1.2.128/26"].map(v4) {
            group.insert(prefix, NextHopId(limit));
            group.check_edges(&group.oracle.prefixes(), &format!("next hop {limit}"));
        }
        group.writers[1].memory()
    });
    assert!(sizes[0] < sizes[1] && sizes[1] == sizes[2], "{sizes:?}");
}

#[test]
fn ids_that_do_not_fit_are_refused() {
    let mut writers = patched();
    writers.extend(dxr(&[16, 20]));
    for writer in &mut writers {
        let name = writer.reader().name();
        let max = if name.starts_with("dxr") { 65_535 } else { NextHopId::MAX };
        let id = NextHopId(max + 1);
        let error = writer.insert(v4("10.0.0.0/8"), id).expect_err("refused").to_string();
        // DIRB and BM19 both check, and either may be the one that answers.
        assert!(error.ends_with(&format!("; expected an id up to {max}")), "{name}: {error}");
        assert!(writer.load(&[(v4("10.0.0.0/8"), id)]).is_err(), "{name}");
        assert_eq!(writer.reader().lookup(0x0a00_0001), NextHopId::NO_ROUTE, "{name}");
        writer.insert(v4("10.0.0.0/8"), NextHopId(max)).expect("fits");
        writer.commit().expect("room");
        assert_eq!(writer.reader().lookup(0x0a00_0001), NextHopId(max), "{name}");
    }
}

/// Every /24 of a /19 has another next hop than its neighbors: 32 leaves per slot, until none are left.
#[test]
fn out_of_leaves_is_as_it_was() {
    let writers: Writers = vec![
        Box::new(Bm19Writer::with(Isa::detect(), 64).expect("memory")),
        Box::new(DirbWriter::with(false, Isa::detect(), 64).expect("memory")),
    ];
    let mut group = Group::new(writers);
    let place = |at: u32| PrefixOf::truncated(0x0a00_0000 | at << 8, 24).expect("in range");
    let mut full = None;
    for at in 0..200 {
        let results: Vec<_> =
            group.writers.iter_mut().map(|writer| writer.insert(place(at), NextHopId(20 + at % 2))).collect();
        assert_eq!(results[0].is_ok(), results[1].is_ok(), "DIRB is in front of BM19");
        if let Err(error) = &results[0] {
            assert_eq!(
                error.to_string(),
                format!(
                    "{} does not fit: all 64 leaves of bm19 are in use; remove routes, or use another structure",
                    place(at)
                )
            );
            full = Some(at);
            break;
        }
        group.oracle.insert(place(at), NextHopId(20 + at % 2));
        group.check_edges(&[place(at)], "filling");
    }
    let at = full.expect("64 leaves are not enough for 200 runs");
    let everything = group.oracle.prefixes();
    group.check_edges(&everything, "refused");
    group.check_edges(&[place(at)], "refused");
    let whole = (0..200).map(|at| (place(at), NextHopId(20 + at % 2))).collect::<Vec<_>>();
    let error = group.writers[0].load(&whole).expect_err("full").to_string();
    assert_eq!(
        error,
        "a table of 200 prefixes does not fit: all 64 leaves of bm19 are in use; load fewer routes, or use another structure"
    );
    group.check_edges(&everything, "a table that does not fit");
    for prefix in everything {
        group.remove(prefix);
        group.reclaim();
    }
    (0..2).for_each(|_| group.reclaim());
    group.insert(place(at), NextHopId(9));
    group.check_edges(&[place(at)], "there is room again");
}

/// Chunks of DXR are in the short format while their ranges begin at borders of /24 and their next hops are below 256.
#[test]
fn dxr_changes_between_its_formats() {
    let seed = 55;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut group = Group::new(dxr(&[16, 17, 18, 19, 20]));
    let place = |at: u32, len| PrefixOf::truncated(0x0a01_0000 | at << 8, len).expect("in range");
    // All 256 ranges that a chunk of dxr16 can have in the short format, then some less.
    for at in 0..256 {
        group.insert(place(at, 24), NextHopId(at ^ 0xff));
    }
    let all = group.oracle.prefixes();
    group.check_edges(&all, "every /24 differs");
    for step in 0..300 {
        let at = random.below(256);
        match random.below(5) {
            0 => group.insert(place(at, 24), NextHopId(256 + random.below(3))),
            1 => group.insert(place(at, 25), NextHopId(random.below(250))),
            2 => group.remove(place(at, 25)),
            3 => group.remove(place(at, 24)),
            _ => group.insert(place(at, 24), NextHopId(random.below(256))),
        }
        group.reclaim();
        group.check_edges(&[place(at, 24), place(at, 25)], &format!("seed {seed}, step {step}"));
        if step % 16 == 0 {
            group.check_edges(&all, &format!("seed {seed}, step {step}"));
        }
    }
    for at in 0..256 {
        group.remove(place(at, 25));
        group.insert(place(at, 24), NextHopId(at ^ 0xff));
        group.reclaim();
    }
    group.check_edges(&all, "short again");
    let routes = |more: u32| (0..256).map(|at| (place(at, 24), NextHopId((at ^ 0xff) + more))).collect::<Vec<_>>();
    for writer in &mut group.writers {
        let [empty, short, long] = [vec![], routes(0), routes(1)].map(|routes| {
            writer.load(&routes).expect("room");
            writer.memory()
        });
        let name = writer.reader().name();
        // 256 next hops and nearly as many starts; next hop 256 makes those of its chunk as long again.
        assert!((512..530).contains(&(short - empty)), "{name}: {} bytes", short - empty);
        assert!(long > short + 10 && long <= empty + 1024, "{name}: {} bytes more", long - short);
    }
}

/// The table of DXR is built again where changes have left gaps, and refuses what does not fit.
#[test]
fn dxr_out_of_words_is_as_it_was() {
    let mut group: Group<u32> = Group::new(vec![Box::new(DxrWriter::with(18, 64, Isa::detect()).expect("memory"))]);
    let place = |at: u32| PrefixOf::truncated(0x0a00_0000 | at << 8, 24).expect("in range");
    let mut refused = None;
    for at in 0..400 {
        let id = NextHopId(20 + at % 2);
        if let Err(error) = group.writers[0].insert(place(at), id) {
            refused = Some((at, error.to_string()));
            break;
        }
        group.oracle.insert(place(at), id);
        group.check_edges(&[place(at)], "filling");
        group.reclaim();
    }
    let (at, error) = refused.expect("64 words are not enough for 400 ranges");
    let expected = format!(
        "{} does not fit: all 64 words of ranges of dxr18 are in use; remove routes, or use another structure",
        place(at)
    );
    assert_eq!(error, expected);
    let everything = group.oracle.prefixes();
    group.check_edges(&everything, "refused");
    group.check_edges(&[place(at)], "refused");
    for prefix in everything {
        group.remove(prefix);
        group.reclaim();
    }
    group.insert(place(at), NextHopId(9));
    group.check_edges(&[place(at)], "there is room again");
}

#[test]
fn dir24_out_of_groups_is_as_it_was() {
    let mut group: Group<u32> = Group::new(vec![Box::new(Dir24Writer::with_groups(2).expect("memory"))]);
    let [a, b, c] = ["10.0.0.1/32", "10.0.1.1/32", "10.0.2.1/32"].map(v4);
    group.insert(v4("10.0.0.0/8"), NextHopId(20));
    group.insert(a, NextHopId(21));
    group.insert(b, NextHopId(22));
    let error = group.writers[0].insert(c, NextHopId(23)).expect_err("full").to_string();
    assert_eq!(
        error,
        "10.0.2.1/32 does not fit: all 2 groups of long prefixes of dir24 are in use; remove routes, or use another structure"
    );
    group.check_edges(&[c], "refused");
    group.remove(a);
    assert!(group.writers[0].insert(c, NextHopId(23)).is_err(), "a reader may still be in the group");
    assert_eq!(group.writers[0].retired(), 1);
    (0..2).for_each(|_| group.reclaim());
    group.insert(c, NextHopId(23));
    group.check_edges(&[a, b, c], "reused");
}

/// With more next hops than codes DIRB keeps codes for the popular ones; `auto` switches to BM19, and back with another
/// table.
#[test]
fn auto_follows_the_popular_next_hops() {
    let mut writers: Writers =
        vec![Box::new(DirbWriter::new(true).expect("memory")), Box::new(DirbWriter::new(false).expect("memory"))];
    let names = |writers: &Writers| writers.iter().map(|writer| writer.reader().name()).collect::<Vec<_>>();
    let table = |hops: u32, from: u32| -> Vec<(Prefix4, NextHopId)> {
        let place = |at: u32| PrefixOf::truncated(0x0a00_0000 + (at << 8), 24).expect("in range");
        (0..20_000).map(|at| (place(at), NextHopId(from + at % hops))).collect()
    };
    for (hops, from, expected) in [
        (250, 5, "dirb"),
        // Large ids, but few of them: they get codes.
        (250, 40_000, "dirb"),
        (2000, 5, "bm19"),
        (255, 5, "dirb"),
        (3000, 100_000, "bm19"),
    ] {
        let routes = table(hops, from);
        for writer in &mut writers {
            writer.load(&routes).expect("room");
        }
        assert_eq!(names(&writers), [expected, "dirb"], "{hops} next hops from {from} on");
        assert!(
            writers[0].choice_reason().is_some_and(|why| why.contains("next hops")),
            "{:?}",
            writers[0].choice_reason()
        );
        let mut group = Group::new(std::mem::take(&mut writers));
        for (prefix, id) in &routes {
            group.oracle.insert(*prefix, *id);
        }
        let some: Vec<_> = routes.iter().step_by(97).map(|(prefix, _)| *prefix).collect();
        group.check_edges(&some, expected);
        // Changes after the codes were assigned.
        for (at, prefix) in some.iter().enumerate() {
            match at % 3 {
                0 => group.remove(*prefix),
                1 => group.insert(*prefix, NextHopId(77_777)),
                _ => group.insert(*prefix, NextHopId(6)),
            }
            group.reclaim();
        }
        group.check_edges(&some, "changed");
        writers = group.writers;
    }
}

/// Too many next hops without a code: codes are assigned again, by `commit`, not in the middle of a change.
#[test]
fn codes_are_assigned_again() {
    let mut group = Group::new(vec![Box::new(DirbWriter::new(false).expect("memory"))]);
    let first = group.writers[0].reader();
    for at in 0..16u32 {
        group.insert(PrefixOf::truncated((11 + at) << 24, 8).expect("in range"), NextHopId(300 + at % 3));
    }
    assert!(!std::sync::Arc::ptr_eq(&first, &group.writers[0].reader()), "a new readers' half");
    group.check_edges(&group.oracle.prefixes(), "after");
    assert_eq!(first.lookup(11 << 24), NextHopId(300), "the old half, which is still held, finds the same");
}

/// `recode` once mistook the leaves of a refused route for those of its slot.
#[test]
fn a_refused_change_is_not_painted_when_codes_are_assigned() {
    let mut writer = DirbWriter::with(false, Isa::detect(), 64).expect("memory");
    let mut oracle = crate::oracle::Oracle::new();
    let id = NextHopId(300);
    for at in 0..16u32 {
        let prefix = PrefixOf::truncated((11 + at) << 24, 8).expect("in range");
        writer.insert(prefix, id).expect("one run");
        oracle.insert(prefix, id);
    }
    let refused = (0..400).map(|at: u32| PrefixOf::truncated((at * 2) << 8, 24).expect("in range")).find(|prefix| {
        let inserted = writer.insert(*prefix, id).is_ok();
        if inserted {
            oracle.insert(*prefix, id);
        }
        !inserted
    });
    let refused = refused.expect("64 leaves are not enough");
    writer.commit().expect("codes are assigned");
    let reader = writer.reader();
    for address in [refused.addr(), refused.addr() + 256, refused.addr().wrapping_sub(1), 11 << 24, 0] {
        assert_eq!(reader.lookup(address), oracle.lookup(address), "{address:#x}, {refused} was refused");
    }
}

/// `auto` switches to BM19 while routes are added one by one.
#[test]
fn auto_leaves_dirb_at_a_commit() {
    let mut group = Group::new(vec![Box::new(DirbWriter::new(true).expect("memory"))]);
    assert_eq!(group.writers[0].reader().name(), "dirb");
    for at in 0..600u32 {
        group.insert(PrefixOf::truncated((20 << 24) + (at << 12), 20).expect("in range"), NextHopId(1000 + at));
        group.reclaim();
    }
    assert_eq!(group.writers[0].reader().name(), "bm19");
    group.check_edges(&group.oracle.prefixes(), "after");
}

#[test]
fn under_a_reader() {
    let blocks: Vec<_> =
        (0..16).map(|at: u32| PrefixOf::truncated(0x0a00_0000 | (at * 3) << 8, 24).expect("in range")).collect();
    let hosts: Vec<_> = (0..16).map(|at| Prefix4::host(0x0a00_0000 | ((at % 3) << 8) | (at * 5))).collect();
    for (seed, isa) in (60..).zip(Isa::available()) {
        for (seed, blocks) in [(seed, &blocks), (seed + 10, &hosts)] {
            flapping(Box::new(Bm19Writer::with(*isa, 1000).expect("memory")), v4("10.0.0.0/16"), blocks, seed);
            flapping(Box::new(DirbWriter::with(false, *isa, 1000).expect("memory")), v4("10.0.0.0/16"), blocks, seed);
            for bits in [16, 18, 20] {
                let dxr = DxrWriter::with(bits, 1000, *isa).expect("memory");
                flapping(Box::new(dxr), v4("10.0.0.0/16"), blocks, seed);
            }
        }
    }
    flapping(Box::new(Dir24Writer::with_groups(10).expect("memory")), v4("10.0.0.0/16"), &hosts, 80);
}

fn steps(lengths: std::ops::RangeInclusive<u8>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..32u32, lengths, prop::option::of(0..9u32)), 1..50)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changes(steps in steps(14..=32)) {
        let prefix = |addr: u32, len| PrefixOf::truncated(0x0a00_1ff0 + addr, len).expect("in range");
        shrinkable(patched(), &steps, prefix);
    }

    #[test]
    fn any_changes_of_dxr(steps in steps(14..=32)) {
        let prefix = |addr: u32, len| PrefixOf::truncated(0x0a00_fff0 + addr, len).expect("in range");
        shrinkable(dxr(&[16, 18, 20]), &steps, prefix);
    }
}
