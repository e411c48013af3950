// SPDX-License-Identifier: MIT
//! Every structure with tables that the Internet's is not: a link full of hosts, prefixes nested along whole addresses,
//! each in the order of changes that costs most.

use perigee_fib::synth::shapes::{self, Shape};
use perigee_fib::{
    Bm19Writer, Dir24Writer, DirbWriter, DxrWriter, Isa, LookupWriter, NextHopId, PoptrieWriter, Range6Writer,
    Structure, Trie6Writer, structures,
};
use perigee_net::PrefixOf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::harness::Group;
use crate::oracle::Family;

const SEED: u64 = 70;
/// Hosts of a link, and nested prefixes: the oracle tries as many lengths as these have.
const PREFIXES: u32 = 20_000;
const NESTED: u32 = 3_000;
/// Hosts of a link for DXR, which moves all that is behind a change. One of its sizes has the full number, another one
/// each day.
const PREFIXES_OF_DXR: u32 = 5_000;
/// Changes between two commits of structures whose commit is cheap, and of others.
const BATCH: usize = 32;
const LARGE_BATCH: usize = 4000;

/// A next hop for each prefix: neighbors differ, as those of a link do, or (`alike`) are all behind one gateway.
fn next_hop(at: usize, alike: bool) -> NextHopId {
    NextHopId(if alike { 7 } else { 10 + at as u32 % 250 })
}

/// A boundary of the readers' batches, as in the router: a commit, and what no reader holds any more is reused.
fn boundary<A: Family>(group: &mut Group<A>) {
    assert_eq!(group.writers[0].commit(), Ok(()));
    group.reclaim();
}

/// A structure with two routes that stay: the link's network, and the default.
fn with_a_network<A: Family + shapes::Family>(writer: Box<dyn LookupWriter<A>>) -> Group<A> {
    let mut group = Group::new(vec![writer]);
    group.insert(PrefixOf::truncated(A::LINK.0, 0).expect("in range"), NextHopId(3));
    group.insert(PrefixOf::truncated(A::LINK.0, A::LINK.1).expect("in range"), NextHopId(4));
    (0..2).for_each(|_| boundary(&mut group));
    group
}

/// Days since 1970, of which `$PERIGEE_DAY` repeats one.
fn day() -> u64 {
    let given = std::env::var("PERIGEE_DAY").ok().and_then(|day| day.parse().ok());
    let today = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400);
    given.unwrap_or_else(today)
}

/// How many prefixes a structure has to hold.
fn count(name: &str, shape: Shape) -> u32 {
    match (shape, name.strip_prefix("dxr").and_then(|bits| bits.parse::<u64>().ok())) {
        (Shape::Nested, _) => NESTED,
        (_, Some(bits)) if bits % 5 != day() % 5 => PREFIXES_OF_DXR,
        _ => PREFIXES,
    }
}

/// Inserts all, looks all up, removes all: nothing is refused, nothing stays.
fn comes_and_goes<A: Family + shapes::Family>(structure: &Structure<A>, shape: Shape, alike: bool) {
    let context = format!("{}, {}, alike: {alike}, seed {SEED}", structure.name, shape.name());
    let mut group = with_a_network((structure.new)().expect("memory"));
    let before = group.writers[0].memory();
    let coming = shape.coming::<A>(count(structure.name, shape), SEED);
    let batch = if group.writers[0].commit_is_cheap() { BATCH } else { LARGE_BATCH };
    for (at, prefix) in coming.iter().enumerate() {
        let id = next_hop(at, alike);
        let expected = group.oracle.insert(*prefix, id);
        assert_eq!(group.writers[0].insert(*prefix, id), Ok(expected), "{context}: {prefix}");
        if at % batch == 0 {
            boundary(&mut group);
        }
    }
    boundary(&mut group);
    let all = group.oracle.prefixes();
    group.check_edges(&all, &format!("{context}: inserted"));
    let going = shape.going(&coming, SEED);
    for (at, prefix) in going.iter().enumerate() {
        let expected = group.oracle.remove(*prefix).expect("inserted");
        assert_eq!(group.writers[0].remove(*prefix), Ok(expected), "{context}: {prefix}");
        if at % batch == 0 {
            boundary(&mut group);
        }
        if at == going.len() / 2 {
            boundary(&mut group);
            let some: Vec<_> = all.iter().copied().step_by(7).collect();
            group.check_edges(&some, &format!("{context}: half of them removed"));
        }
    }
    (0..3).for_each(|_| boundary(&mut group));
    group.check_edges(&all, &format!("{context}: removed"));
    // A table is not built again for the last 64 changes. Each of them may leave a KiB; in trie6 seven nodes of 2 KiB.
    let few = 64 * if structure.name == "trie6" { 14 << 10 } else { 1 << 10 };
    let (writer, allowed) = (&group.writers[0], before + (before / 10).max(few));
    assert_eq!((writer.retired(), writer.uncommitted()), (0, false), "{context}");
    assert!(writer.memory() <= allowed, "{context}: {} bytes left of {before} before", writer.memory());
}

fn every_structure<A: Family + shapes::Family>(list: &[Structure<A>]) {
    println!("seed {SEED}, PERIGEE_DAY={}", day());
    for structure in list {
        for shape in Shape::ALL {
            comes_and_goes(structure, shape, false);
        }
        comes_and_goes(structure, Shape::Ends, true);
    }
}

#[test]
fn dense_host_routes_fit_and_leave() {
    every_structure(structures::IPV6);
}

#[test]
fn dense_host_routes_fit_and_leave_ipv4() {
    every_structure(structures::IPV4);
}

/// Inserts until nothing more fits, while a reader stays where it is, so that nothing that was replaced can be reused;
/// then removes everything, and looks in between.
fn is_removed_when_full<A: Family + shapes::Family>(writer: Box<dyn LookupWriter<A>>, prefixes: u32) {
    let name = writer.reader().name();
    let context = format!("{name}, seed {SEED}");
    println!("{context}");
    let mut group = with_a_network(writer);
    let mut refused = 0;
    for shape in [Shape::Nested, Shape::Hosts, Shape::Ends] {
        for (at, prefix) in shape.coming::<A>(prefixes, SEED).into_iter().enumerate() {
            let id = next_hop(at, false);
            match group.writers[0].insert(prefix, id) {
                Ok(_) => drop(group.oracle.insert(prefix, id)),
                Err(_) => refused += 1,
            }
        }
        assert_eq!(group.writers[0].commit(), Ok(()));
    }
    assert!(refused > 0, "{context}: it was never full");
    let all = group.oracle.prefixes();
    group.check_edges(&all, &format!("{context}: full"));
    // The shortest first: they show below everything else.
    let mut going = all.clone();
    going.sort_by_key(|prefix| prefix.len());
    for (at, prefix) in going.iter().enumerate() {
        group.remove(*prefix);
        group.check_edges(&[*prefix], &context);
        if at % 512 == 0 {
            group.check_edges(&all, &format!("{context}: after {at} removals"));
        }
    }
    assert!(!group.writers[0].uncommitted(), "{context}");
    group.check_edges(&all, &format!("{context}: empty"));
}

#[test]
fn what_is_removed_is_removed_even_when_the_structure_is_full() {
    let isa = Isa::detect();
    is_removed_when_full::<u128>(Box::new(Range6Writer::with_lines(4_300, isa).expect("memory")), 1500);
    is_removed_when_full::<u128>(Box::new(PoptrieWriter::with_room(500, 2_000).expect("memory")), 1500);
    is_removed_when_full::<u128>(Box::new(Trie6Writer::with_nodes(500).expect("memory")), 1500);
    is_removed_when_full::<u32>(Box::new(PoptrieWriter::with_room(150, 500).expect("memory")), 1500);
    is_removed_when_full::<u32>(Box::new(Dir24Writer::with_groups(100).expect("memory")), 1500);
    is_removed_when_full::<u32>(Box::new(DxrWriter::with(16, 300, isa).expect("memory")), 300);
    is_removed_when_full::<u32>(Box::new(DxrWriter::with(20, 60, isa).expect("memory")), 200);
    // These are built again for nearly every removal while they are full, whole tables of 2^19 nodes.
    is_removed_when_full::<u32>(Box::new(Bm19Writer::with(isa, 60).expect("memory")), 200);
    is_removed_when_full::<u32>(Box::new(DirbWriter::with(false, isa, 60).expect("memory")), 200);
    is_removed_when_full::<u32>(Box::new(DirbWriter::with(true, isa, 60).expect("memory")), 200);
}

/// What a change costs on average, by a count of what `written` says before and after each.
fn written_per_change<A: Family + shapes::Family, W: LookupWriter<A>>(
    mut writer: W,
    shape: Shape,
    written: impl Fn(&W) -> u64,
) -> u64 {
    let mut sum = 0;
    let coming = shape.coming::<A>(PREFIXES, SEED);
    let going = shape.going(&coming, SEED);
    let changes = coming.iter().map(|prefix| (prefix, true)).chain(going.iter().map(|prefix| (prefix, false)));
    for (at, (prefix, comes)) in changes.enumerate() {
        let before = written(&writer);
        if comes {
            writer.insert(*prefix, next_hop(at, false)).expect("room");
        } else {
            writer.remove(*prefix).expect("inserted");
        }
        sum += written(&writer).saturating_sub(before);
        if at % BATCH == 0 {
            writer.commit().expect("memory");
            let epoch = at as u64 + 1;
            writer.reclaim(perigee_fib::Grace { epoch, passed: epoch });
        }
    }
    sum / (2 * u64::from(PREFIXES))
}

/// A change once rewrote everything in its /16.
#[test]
fn a_change_of_a_dense_link_rewrites_little() {
    println!("seed {SEED}");
    for shape in [Shape::Hosts, Shape::Ends] {
        let writer = Range6Writer::new().expect("memory");
        let lines = written_per_change(writer, shape, Range6Writer::lines_written);
        println!("range6, {}: {lines} lines of 64 bytes per change", shape.name());
        assert!(lines <= 20, "range6, {}: {lines} lines per change", shape.name());
        let writer = PoptrieWriter::<u128>::new().expect("memory");
        let bytes = written_per_change(writer, shape, PoptrieWriter::bytes_written);
        println!("poptrie, IPv6, {}: {bytes} bytes per change", shape.name());
        assert!(bytes <= 4096, "poptrie, {}: {bytes} bytes per change", shape.name());
        let writer = PoptrieWriter::<u32>::new().expect("memory");
        let bytes = written_per_change(writer, shape, PoptrieWriter::bytes_written);
        println!("poptrie, IPv4, {}: {bytes} bytes per change", shape.name());
        assert!(bytes <= 4096, "poptrie, IPv4, {}: {bytes} bytes per change", shape.name());
    }
}
