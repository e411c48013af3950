// SPDX-License-Identifier: MIT
//! Every structure in the registry with a table like the Internet's: a synthetic one, or a real one from the file that
//! `PERIGEE_ROUTES` names (one prefix per line, not compressed).

use perigee_fib::synth::{self, Random};
use perigee_fib::{LookupWriter, NextHopId, PrefixList, Structure, structures};
use perigee_net::PrefixOf;

use crate::harness::Group;
use crate::oracle::Family;

const SEED: u64 = 90;
/// How many prefixes a synthetic table has, and how many changes are made to a table.
const PREFIXES: usize = 40_000;
const CHANGES: usize = 24;

fn real() -> Option<PrefixList> {
    let path = std::env::var_os("PERIGEE_ROUTES")?;
    let text = std::fs::read(&path).expect("the file that PERIGEE_ROUTES names");
    Some(PrefixList::parse(&path.to_string_lossy(), &text).expect("one prefix per line"))
}

fn whole<A: Family>(list: &[Structure<A>], prefixes: Vec<PrefixOf<A>>) {
    println!("seed {SEED}, {} prefixes", prefixes.len());
    let mut random = Random::new(SEED);
    let routes: Vec<_> = prefixes.iter().map(|prefix| (*prefix, NextHopId(5 + random.below(250)))).collect();
    let writers: Vec<Box<dyn LookupWriter<A>>> =
        list.iter().map(|structure| (structure.new)().expect(structure.name)).collect();
    let mut group = Group::new(writers);
    group.load(&routes);
    group.check_edges(&prefixes, "loaded");
    let probes: Vec<A> = (0..20_000).map(|_| A::random(&mut random)).collect();
    group.check(&probes, "loaded");
    let some: Vec<_> = (0..CHANGES).map(|_| random.below(prefixes.len() as u32) as usize).collect();
    for at in &some {
        match group.oracle.lookup_exactly(prefixes[*at]) {
            Some(_) => group.remove(prefixes[*at]),
            None => group.insert(prefixes[*at], NextHopId(300)),
        }
        group.check_edges(&[prefixes[*at]], "changed");
        group.reclaim();
    }
    group.check(&probes, "changed");
    let near: Vec<_> = some.iter().flat_map(|at| prefixes[at.saturating_sub(50)..*at].to_vec()).collect();
    group.check_edges(&near, "next to the changes");
}

/// What is shown to be in use is what the configuration calls it; `auto` shows what it has chosen.
#[test]
fn readers_have_the_names_of_the_registry() {
    for structure in structures::IPV4.iter().filter(|structure| structure.name != "auto") {
        assert_eq!((structure.new)().expect("memory").reader().name(), structure.name);
    }
    for structure in structures::IPV6 {
        assert_eq!((structure.new)().expect("memory").reader().name(), structure.name);
    }
}

#[test]
fn ipv4() {
    let prefixes =
        real().map_or_else(|| synth::ipv4(PREFIXES, SEED).into_iter().map(|route| route.0).collect(), |list| list.v4);
    whole(structures::IPV4, prefixes);
}

#[test]
fn ipv6() {
    let prefixes =
        real().map_or_else(|| synth::ipv6(PREFIXES, SEED).into_iter().map(|route| route.0).collect(), |list| list.v6);
    whole(structures::IPV6, prefixes);
}
