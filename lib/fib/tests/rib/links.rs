// SPDX-License-Identifier: MIT
//! Links that go down and come up, while routes change.

use std::collections::BTreeSet;
use std::net::IpAddr;

use perigee_fib::synth::Random;
use perigee_fib::{Action, FibWriter, Leaf, NextHopId, Via, structures};
use perigee_net::{InterfaceId, MacAddr, Member, Multipath, Prefix, Route, RouteSource, RouteTarget};

use crate::changes::{Change, Pair, What, random_change};

const A: InterfaceId = InterfaceId(1);
const B: InterfaceId = InterfaceId(2);

fn prefix(text: &str) -> Prefix {
    text.parse().expect(text)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn via(address: &str, interface: Option<InterfaceId>) -> Route {
    Route::new(RouteSource::Static, RouteTarget::Gateway { address: ip(address), interface })
}

fn group(members: &[(&str, InterfaceId)]) -> Route {
    let member = |(address, interface): &(&str, InterfaceId)| Member {
        address: Some(ip(address)),
        interface: Some(*interface),
        weight: 1,
    };
    let members: Vec<Member> = members.iter().map(member).collect();
    Route::new(RouteSource::Static, RouteTarget::Multipath(Multipath::new(&members).expect("few")))
}

fn small(next_hops: u32) -> FibWriter {
    FibWriter::with(
        next_hops,
        (structures::DEFAULT4.new)().expect("memory"),
        (structures::DEFAULT6.new)().expect("memory"),
    )
    .expect("memory")
}

/// These links are down, and everything that follows from it is done.
fn down(fib: &mut FibWriter, links: &[InterfaceId]) {
    fib.set_down(links.iter().copied().collect()).expect("room");
    while fib.follow_links(2).expect("room") {}
    fib.commit().expect("room");
}

/// Prefixes choose again in turns, between which routes change, links go down and come up, and tables are loaded: when
/// there is nothing left to do, all is as if it had happened at once.
#[test]
fn turns_between_changes_end_where_the_model_does() {
    let seed = std::env::var("PERIGEE_FUZZ_SEED").ok().map(|text| text.parse().expect("a number"));
    for seed in seed.map_or(500..510, |seed: u64| seed..seed + 1) {
        println!("PERIGEE_FUZZ_SEED={seed}");
        let mut random = Random::new(seed);
        let mut pair = Pair::new(1000, seed % 3 == 0);
        for _ in 0..60 {
            for _ in 0..random.below(8) {
                pair.apply(&random_change(&mut random));
                if random.below(3) == 0 {
                    pair.set_down(random.below(16) as u8);
                }
                if random.below(2) == 0 {
                    pair.writer.follow_links(1 + random.below(4) as usize).expect("room");
                }
                if random.below(6) == 0 {
                    pair.apply(&Change { what: What::Commit, ..random_change(&mut random) });
                }
            }
            while pair.writer.follow_links(1 + random.below(4) as usize).expect("room") {}
            pair.apply(&Change { what: What::Commit, ..random_change(&mut random) });
            pair.check();
        }
        pair.finish();
    }
}

/// Before any prefix has its turn, nothing is sent over a link that is down, and all that next hops decide is done.
#[test]
fn next_hops_groups_and_gateways_follow_at_once() {
    let mut fib = small(100);
    let (alone, several, far) = (prefix("20.0.0.0/8"), prefix("30.0.0.0/8"), prefix("40.0.0.0/8"));
    fib.insert(alone, via("10.0.1.2", Some(A))).unwrap();
    fib.insert(several, group(&[("10.0.1.2", A), ("10.0.2.2", B)])).unwrap();
    fib.insert(prefix("192.0.2.0/24"), via("10.0.1.2", Some(A))).unwrap();
    fib.insert(prefix("192.0.2.0/24"), via("10.0.2.2", Some(B)).with_metric(1)).unwrap();
    fib.insert(far, via("192.0.2.1", None)).unwrap();
    for (interface, last) in [(A, 1), (B, 2)] {
        fib.set_neighbor(interface, ip(&format!("10.0.{last}.2")), Some(MacAddr([2, 0, 0, 0, 0, last])));
    }
    fib.commit().unwrap();
    let ways = |fib: &FibWriter, address: &str| -> Vec<Option<InterfaceId>> {
        let of = |flow| match fib.reader().lookup_flow(ip(address), flow).1.action() {
            Action::Forward { interface, .. } => Some(interface),
            Action::Unreachable => None,
            other => panic!("{other:?}"),
        };
        (0..300).map(of).collect()
    };
    let before = ways(&fib, "30.0.0.1");
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 2);

    fib.set_down(BTreeSet::from([A])).unwrap();
    assert!(fib.links_are_followed());
    assert_eq!(ways(&fib, "20.0.0.1")[0], None);
    assert_eq!(fib.decide(ip("20.0.0.1"), 0), Leaf::Fixed(NextHopId::UNREACHABLE), "as workers say");
    assert_eq!(ways(&fib, "40.0.0.1")[0], Some(B), "the gateway has another way");
    assert_eq!(ways(&fib, "30.0.0.1"), vec![Some(B); 300]);

    fib.set_down(BTreeSet::new()).unwrap();
    assert_eq!((ways(&fib, "20.0.0.1")[0], ways(&fib, "40.0.0.1")[0]), (Some(A), Some(A)));
    assert_eq!(ways(&fib, "30.0.0.1"), before, "each flow has its way back");
    while fib.follow_links(1).unwrap() {}
    fib.commit().unwrap();
    assert_eq!(ways(&fib, "30.0.0.1"), before);
}

/// While prefixes have yet to have their turn, the routes say where packets should go, and prefixes that are asked for
/// follow at once.
#[test]
fn who_is_asked_for_has_its_turn_first() {
    for seed in 600..620 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut pair = Pair::new(1000, false);
        for _ in 0..60 {
            pair.apply(&random_change(&mut random));
        }
        pair.apply(&Change { what: What::Commit, ..random_change(&mut random) });
        pair.set_down(random.below(16) as u8);
        let mut asked: Vec<IpAddr> = (0..16).map(|last| ip(&format!("10.0.0.{last}"))).collect();
        asked.extend((0..16).map(|last| ip(&format!("2001:db8::{last:x}"))));
        let decided: Vec<Leaf> = asked.iter().map(|address| pair.writer.decide_by_routes(*address, 0)).collect();
        asked.iter().for_each(|address| pair.writer.follow_links_around(*address).expect("room"));
        pair.writer.commit().expect("room");
        for (address, decided) in asked.iter().zip(decided) {
            // The flow of a group may go by another member.
            if !pair.writer.reader().lookup(*address).1.is_group() {
                assert_eq!(pair.writer.decide(*address, 0), decided, "{address}");
            }
            pair.check_address(&pair.writer.reader(), *address);
        }
    }
}

/// Flows of the members that stay do not move when a link goes down, and those of the one that is gone come back to it.
#[test]
fn a_link_that_goes_down_moves_its_own_flows_alone() {
    let mut fib = small(100);
    let members = [("10.0.1.2", A), ("10.0.2.2", B), ("10.0.3.2", InterfaceId(3))];
    for ((address, interface), last) in members.into_iter().zip(1..) {
        fib.set_neighbor(interface, ip(address), Some(MacAddr([2, 0, 0, 0, 0, last])));
    }
    fib.insert(prefix("::/0"), group(&members)).unwrap();
    fib.commit().unwrap();
    let ways = |fib: &FibWriter| -> Vec<Leaf> { (0..1000).map(|flow| fib.decide(ip("2001:db8::1"), flow)).collect() };
    let over = |leaf: &Leaf, by| matches!(leaf, Leaf::Via(Via { interface, .. }) if *interface == by);
    let before = ways(&fib);
    down(&mut fib, &[B]);
    let now = ways(&fib);
    for (before, now) in before.iter().zip(&now) {
        assert!(!over(now, B));
        assert!(over(before, B) || before == now);
    }
    down(&mut fib, &[A, B, InterfaceId(3)]);
    assert_eq!(ways(&fib)[0], Leaf::Fixed(NextHopId::NO_ROUTE), "no member is left, and no other route");
    down(&mut fib, &[]);
    assert_eq!(ways(&fib), before);
}

/// A floating route takes over, then a shorter prefix, then nothing is left; and all are back in the end.
#[test]
fn the_next_best_is_used_while_a_link_is_down() {
    for v6 in [false, true] {
        let (near, around, host) = match v6 {
            false => (prefix("20.0.0.0/24"), prefix("20.0.0.0/8"), ip("20.0.0.9")),
            true => (prefix("2001:db8:20::/48"), prefix("2001:db8::/32"), ip("2001:db8:20::9")),
        };
        let via = |last: u8, interface| match v6 {
            false => via(&format!("10.0.0.{last}"), Some(interface)),
            true => via(&format!("2001:db8::{last}"), Some(interface)),
        };
        let c = InterfaceId(3);
        let mut fib = small(100);
        fib.insert(near, via(1, A)).unwrap();
        fib.insert(near, via(2, B).with_preference(200)).unwrap();
        fib.insert(around, via(3, c)).unwrap();
        let leads = |fib: &FibWriter| match fib.decide(host, 0) {
            Leaf::Via(Via { interface, .. }) => Some(interface),
            Leaf::Fixed(_) => None,
        };
        for (links, way) in [
            (&[][..], Some(A)),
            (&[A], Some(B)),
            (&[A, B], Some(c)),
            (&[A, B, c], None),
            (&[B, c], Some(A)),
            (&[A], Some(B)),
            (&[], Some(A)),
        ] {
            down(&mut fib, links);
            assert_eq!(leads(&fib), way, "{links:?}");
            let used = way.filter(|way| *way != c);
            let chosen = fib.rib().chosen(near).and_then(|route| route.gateways().next()?.1);
            assert_eq!(chosen, used, "{links:?}");
            assert_eq!(fib.is_down(&via(1, A)), links.contains(&A));
        }
    }
}

/// A gateway is found on its network whether the link is up or not: where a route belongs does not change with a cable.
#[test]
fn a_gateway_stays_on_its_link() {
    let mut fib = small(100);
    fib.insert(prefix("10.0.1.0/24"), Route::new(RouteSource::Connected, RouteTarget::Connected { interface: A }))
        .unwrap();
    fib.insert(prefix("0.0.0.0/0"), via("10.0.2.2", Some(B))).unwrap();
    assert_eq!(fib.link_of(ip("10.0.1.9")), Ok(A));
    down(&mut fib, &[A]);
    assert_eq!(fib.link_of(ip("10.0.1.9")), Ok(A));
    assert!(matches!(fib.decide(ip("10.0.1.9"), 0), Leaf::Via(Via { interface: B, .. })));
}

/// A full table of next hops keeps no link from going down: a prefix whose other route has no room is answered as
/// unreachable.
#[test]
fn without_room_for_next_hops_a_link_goes_down_all_the_same() {
    let mut fib = small(2);
    let (first, second) = (prefix("20.0.0.0/8"), prefix("30.0.0.0/8"));
    fib.insert(first, via("10.0.1.2", Some(A))).unwrap();
    fib.insert(first, via("10.0.2.2", Some(B)).with_metric(1)).unwrap();
    fib.insert(second, via("10.0.2.3", Some(B))).unwrap();
    fib.commit().unwrap();
    fib.set_down(BTreeSet::from([A])).unwrap();
    assert!(fib.follow_links(10).is_err(), "there is no room for 10.0.2.2");
    while fib.follow_links(10).unwrap() {}
    fib.commit().unwrap();
    assert_eq!(fib.decide(ip("20.0.0.1"), 0), Leaf::Fixed(NextHopId::UNREACHABLE));
    down(&mut fib, &[]);
    assert!(matches!(fib.decide(ip("20.0.0.1"), 0), Leaf::Via(Via { interface: A, .. })));
}
