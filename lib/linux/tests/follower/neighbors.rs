// SPDX-License-Identifier: MIT
//! Neighbors, both ways.

use crate::world::*;
use perigee_config::Neighbor as Configured;
use perigee_helper::{NeighborChange, PROTOCOL};
use perigee_linux::{Effect, HelperRequest, Input, KnownNeighbor, Setup};
use perigee_net::{InterfaceId, MacAddr};
use perigee_netlink::message::Neighbor;

const ON_A: InterfaceId = InterfaceId(0);

fn permanent(text: &str, mac: MacAddr) -> Neighbor {
    Neighbor { permanent: true, ..neighbor(A, text, mac) }
}

/// An entry as the router writes it.
fn own(text: &str, mac: MacAddr) -> Neighbor {
    Neighbor { protocol: PROTOCOL, external: true, ..neighbor(A, text, mac) }
}

/// The same after `ip neigh replace`: the protocol stays, the mark goes.
fn replaced(text: &str, mac: MacAddr) -> Neighbor {
    Neighbor { external: false, ..own(text, mac) }
}

fn adopt(text: &str, mac: MacAddr, confirmed: bool) -> Effect {
    Effect::LearnNeighbor { interface: ON_A, address: ip(text), mac, by_hand: true, confirmed }
}

fn flush(text: &str) -> Effect {
    Effect::FlushNeighbor { interface: ON_A, address: ip(text) }
}

fn set(text: &str, mac: MacAddr) -> Effect {
    Effect::SetNeighbor { interface: ON_A, address: ip(text), mac }
}

fn unset(text: &str) -> Effect {
    Effect::UnsetNeighbor { interface: ON_A, address: ip(text) }
}

fn learn(text: &str, mac: MacAddr) -> Effect {
    Effect::LearnNeighbor { interface: ON_A, address: ip(text), mac, by_hand: false, confirmed: false }
}

fn found(text: &str, mac: Option<MacAddr>) -> Input {
    Input::Neighbor { interface: ON_A, address: ip(text), mac }
}

fn reported(world: &mut World) -> Vec<(u32, String, Option<MacAddr>)> {
    world.settle();
    let changes = world.requests().into_iter();
    let changes = changes.flat_map(|r| if let HelperRequest::Neighbors(changes) = r { changes } else { vec![] });
    changes.map(|NeighborChange { link, address, mac }| (link, address.to_string(), mac)).collect()
}

#[test]
fn what_an_operator_sets_in_linux_is_set_here() {
    let mut world = World::new();
    world.kernel.set_neighbor(permanent("10.0.1.9", mac(9)));
    world.kernel.set_neighbor(permanent("10.0.1.9", mac(9)));
    world.settle();
    assert_eq!(world.taken(), [set("10.0.1.9", mac(9))]);
    assert!(world.follower.is_permanent(ON_A, ip("10.0.1.9")) && !world.follower.is_permanent(ON_A, ip("10.0.1.8")));
    assert_eq!(world.status().permanent_neighbors, 1);
    world.kernel.set_neighbor(permanent("10.0.1.9", mac(8)));
    world.settle();
    assert_eq!(world.taken(), [set("10.0.1.9", mac(8))]);
    world.kernel.delete_neighbor(permanent("10.0.1.9", mac(8)));
    world.kernel.delete_neighbor(permanent("10.0.1.9", mac(8)));
    world.settle();
    assert_eq!(world.taken(), [unset("10.0.1.9")]);
    assert_eq!(world.status().permanent_neighbors, 0);
}

#[test]
fn one_that_is_not_permanent_any_more_is_unset_and_learned() {
    let mut world = World::new();
    world.kernel.set_neighbor(permanent("10.0.1.9", mac(9)));
    world.settle();
    world.taken();
    world.kernel.set_neighbor(neighbor(A, "10.0.1.9", mac(7)));
    world.settle();
    assert_eq!(world.taken(), [unset("10.0.1.9"), learn("10.0.1.9", mac(7))]);
    world.kernel.set_neighbor(permanent("10.0.1.9", mac(9)));
    // It fails: there is no MAC address.
    world.kernel.set_neighbor(Neighbor { mac: None, ..permanent("10.0.1.9", mac(9)) });
    world.settle();
    assert_eq!(world.taken(), [set("10.0.1.9", mac(9)), unset("10.0.1.9")]);
}

#[test]
fn what_the_configuration_sets_applies_again() {
    let neighbors = vec![Configured { address: ip("10.0.1.9"), mac: mac(5), interface: ON_A }];
    let mut world = World::with(Setup { neighbors, ..setup() }, &[]);
    world.kernel.set_neighbor(permanent("10.0.1.9", mac(9)));
    world.kernel.delete_neighbor(permanent("10.0.1.9", mac(9)));
    world.settle();
    assert_eq!(world.taken(), [set("10.0.1.9", mac(9)), set("10.0.1.9", mac(5))]);
    // A reload has taken it out of the configuration.
    world.follower.configure(linux(), vec![vec![], vec![]], 2, vec![]);
    world.kernel.set_neighbor(permanent("10.0.1.9", mac(9)));
    world.kernel.delete_neighbor(permanent("10.0.1.9", mac(9)));
    world.settle();
    assert_eq!(world.taken(), [set("10.0.1.9", mac(9)), unset("10.0.1.9")]);
}

#[test]
fn what_is_no_neighbor_of_the_routers_is_passed_over() {
    let mut world = World::new();
    let group = MacAddr([1, 0, 0x5e, 0, 0, 1]);
    for ignored in [
        permanent("224.0.0.1", mac(9)),
        permanent("ff02::1", mac(9)),
        permanent("0.0.0.0", mac(9)),
        permanent("127.0.0.1", mac(9)),
        permanent("10.0.1.9", group),
        permanent("10.0.1.9", MacAddr([0; 6])),
        Neighbor { link: 99, ..permanent("10.0.1.9", mac(9)) },
        own("10.0.1.9", mac(9)),
    ] {
        world.kernel.set_neighbor(ignored);
        world.settle();
        assert!(world.taken().is_empty(), "{ignored:?}");
    }
    // The operator has made the router's own entry permanent.
    world.kernel.set_neighbor(Neighbor { protocol: PROTOCOL, ..permanent("10.0.1.9", mac(9)) });
    world.settle();
    assert_eq!(world.taken(), [set("10.0.1.9", mac(9))]);
}

#[test]
fn a_dump_takes_what_it_does_not_name() {
    let mut world = World::new();
    world.kernel.set_neighbor(permanent("10.0.1.8", mac(8)));
    world.kernel.set_neighbor(permanent("10.0.1.9", mac(9)));
    world.settle();
    world.taken();
    world.kernel.neighbors.retain(|neighbor| neighbor.address != ip("10.0.1.9"));
    world.kernel.dump();
    world.settle();
    assert_eq!(world.taken(), [unset("10.0.1.9")]);
    assert_eq!(world.status().permanent_neighbors, 1);
}

/// Neighbors of the first dump were ignored unless a turn had ended between the links and them.
#[test]
fn neighbors_of_the_first_dump_are_taken() {
    let mut world = World::before_the_first_dump(setup(), &[]);
    world.kernel.neighbors.push(permanent("10.0.1.9", mac(9)));
    world.kernel.dump();
    world.settle();
    assert!(world.taken().contains(&set("10.0.1.9", mac(9))));
}

#[test]
fn what_the_slow_path_finds_is_reported_to_linux() {
    let mut world = World::new();
    world.input(found("10.0.1.5", Some(mac(5))));
    world.input(found("10.0.1.6", Some(mac(6))));
    world.input(found("10.0.1.6", None));
    world.input(found("10.0.1.7", Some(mac(6))));
    world.input(found("10.0.1.7", Some(mac(7))));
    assert_eq!(
        reported(&mut world),
        [(A, "10.0.1.5".to_owned(), Some(mac(5))), (A, "10.0.1.7".to_owned(), Some(mac(7)))],
        "the last word of each, and nothing of one that was never there"
    );
    world.input(found("10.0.1.7", None));
    assert_eq!(reported(&mut world), [(A, "10.0.1.7".to_owned(), None)]);
    assert!(reported(&mut world).is_empty(), "once");
    world.input(Input::Neighbor { interface: InterfaceId(7), address: ip("10.0.7.5"), mac: Some(mac(5)) });
    assert!(reported(&mut world).is_empty(), "Linux has no such link");
    // Linux knows what an operator has set in it.
    world.kernel.set_neighbor(permanent("10.0.1.9", mac(9)));
    world.settle();
    world.input(found("10.0.1.9", Some(mac(9))));
    assert!(reported(&mut world).is_empty());
    let mut alone = World::with(Setup { helper: false, ..setup() }, &[]);
    alone.input(found("10.0.1.5", Some(mac(5))));
    assert!(reported(&mut alone).is_empty());
}

/// `ip neigh del` and `ip neigh flush` of what the router has put into Linux.
#[test]
fn ip_neigh_flush_reaches_the_router() {
    let mut world = World::new();
    let own = |last: u8| own(&format!("10.0.1.{last}"), mac(last));
    let flush = |last| Effect::FlushNeighbor { interface: InterfaceId(0), address: ip(&format!("10.0.1.{last}")) };
    for last in [5, 6] {
        world.input(found(&format!("10.0.1.{last}"), Some(mac(last))));
        world.settle();
        world.kernel.set_neighbor(own(last));
    }
    world.settle();
    world.taken();
    world.kernel.delete_neighbor(own(5));
    world.settle();
    assert_eq!(world.taken(), [flush(5)]);
    // What follows of that is not taken out of Linux again; nor is its own doing taken for an operator's.
    world.input(found("10.0.1.5", None));
    world.settle();
    assert_eq!(world.taken(), []);
    world.input(found("10.0.1.6", None));
    world.settle();
    world.input(found("10.0.1.6", Some(mac(6))));
    world.settle();
    world.taken();
    world.kernel.delete_neighbor(own(6));
    world.kernel.set_neighbor(own(6));
    world.settle();
    assert_eq!(world.taken(), [], "the removal before the entry was set again");
    world.kernel.delete_neighbor(own(6));
    world.settle();
    assert_eq!(world.taken(), [flush(6)]);
    // One that Linux never had from the router, and one of another program.
    world.kernel.delete_neighbor(own(7));
    world.kernel.delete_neighbor(neighbor(A, "10.0.1.8", mac(8)));
    world.settle();
    assert_eq!(world.taken(), []);
}

#[test]
fn linux_hears_of_all_neighbors_when_it_knows_none() {
    let mut world = World::before_the_first_dump(setup(), &[]);
    world.known.push(KnownNeighbor { interface: ON_A, address: ip("10.0.1.5"), mac: mac(5) });
    let expected = [(A, "10.0.1.5".to_owned(), Some(mac(5)))];
    world.kernel.dump();
    assert_eq!(reported(&mut world), expected, "after the first dump");
    world.kernel.dump();
    assert!(reported(&mut world).is_empty(), "not after the next");
    world.input(Input::TwinMade { port: 0, link: A });
    assert_eq!(reported(&mut world), expected, "and when its twin is made again");
}

/// Entries that the router had written were taken for its own whatever they said now.
#[test]
fn what_is_changed_by_hand_holds_whoever_found_the_neighbor() {
    let mut world = World::new();
    let takes = |world: &mut World, said: Neighbor| {
        world.kernel.set_neighbor(said);
        world.settle();
        world.taken()
    };
    world.input(found("10.0.1.5", Some(mac(5))));
    reported(&mut world);
    assert_eq!(takes(&mut world, own("10.0.1.5", mac(5))), []);
    // ip neigh replace ... nud reachable, and what Linux says of it later.
    assert_eq!(takes(&mut world, replaced("10.0.1.5", mac(6))), [adopt("10.0.1.5", mac(6), true)]);
    let stale = Neighbor { reachable: false, ..replaced("10.0.1.5", mac(6)) };
    assert_eq!(takes(&mut world, stale), [learn("10.0.1.5", mac(6))], "a state is no change");
    // The router writes what it has taken over, and another change is one.
    world.input(found("10.0.1.5", Some(mac(6))));
    assert_eq!(reported(&mut world), [(A, "10.0.1.5".to_owned(), Some(mac(6)))]);
    assert_eq!(takes(&mut world, own("10.0.1.5", mac(6))), []);
    let stale = Neighbor { reachable: false, ..replaced("10.0.1.5", mac(7)) };
    assert_eq!(takes(&mut world, stale), [adopt("10.0.1.5", mac(7), false)]);
    // Static, and static no more.
    let fixed = Neighbor { permanent: true, reachable: false, ..replaced("10.0.1.5", mac(8)) };
    assert_eq!(takes(&mut world, fixed), [set("10.0.1.5", mac(8))]);
    let reachable = replaced("10.0.1.5", mac(9));
    assert_eq!(takes(&mut world, reachable), [unset("10.0.1.5"), adopt("10.0.1.5", mac(9), true)]);
    // Another program's, as zebra's.
    let other = Neighbor { protocol: 11, external: true, ..neighbor(A, "10.0.1.6", mac(6)) };
    assert_eq!(takes(&mut world, other), [adopt("10.0.1.6", mac(6), true)]);
}

#[test]
fn an_entry_that_is_as_it_was_gets_its_mark_again() {
    let mut world = World::new();
    world.input(found("10.0.1.5", Some(mac(5))));
    reported(&mut world);
    world.kernel.set_neighbor(replaced("10.0.1.5", mac(5)));
    assert_eq!(reported(&mut world), [(A, "10.0.1.5".to_owned(), Some(mac(5)))]);
    assert!(reported(&mut world).is_empty(), "once");
}

#[test]
fn one_that_fails_or_goes_by_hand_is_forgotten() {
    let mut world = World::new();
    let failed = |n: Neighbor| Neighbor { mac: None, reachable: false, failed: true, ..n };
    for last in [5, 6, 7] {
        world.input(found(&format!("10.0.1.{last}"), Some(mac(last))));
        reported(&mut world);
        world.kernel.set_neighbor(own(&format!("10.0.1.{last}"), mac(last)));
    }
    world.settle();
    world.taken();
    // Linux's own probe has failed: the router knows better.
    world.kernel.set_neighbor(failed(own("10.0.1.5", mac(5))));
    world.settle();
    assert_eq!(world.taken(), []);
    world.kernel.set_neighbor(failed(replaced("10.0.1.5", mac(5))));
    world.kernel.set_neighbor(failed(replaced("10.0.1.5", mac(5))));
    world.settle();
    assert_eq!(world.taken(), [flush("10.0.1.5")], "once");
    // Deleted, whatever its protocol is by then.
    world.kernel.delete_neighbor(Neighbor { protocol: 4, ..replaced("10.0.1.6", mac(6)) });
    world.settle();
    assert_eq!(world.taken(), [flush("10.0.1.6")]);
    // A permanent one that is deleted is found again.
    world.kernel.set_neighbor(Neighbor { permanent: true, ..replaced("10.0.1.7", mac(9)) });
    world.kernel.delete_neighbor(Neighbor { permanent: true, ..replaced("10.0.1.7", mac(9)) });
    world.settle();
    assert_eq!(world.taken(), [set("10.0.1.7", mac(9)), unset("10.0.1.7"), flush("10.0.1.7")]);
}

#[test]
fn neighbors_with_the_mac_address_of_a_group_are_named_once() {
    let mut world = World::new();
    let group = MacAddr([3, 0xbf, 10, 0, 1, 9]);
    let known = |world: &mut World, said: Neighbor| {
        world.kernel.set_neighbor(said);
        world.settle();
        (world.status().group_neighbors, world.status().differences.len())
    };
    assert_eq!(known(&mut world, permanent("10.0.1.9", group)), (1, 1));
    assert_eq!(known(&mut world, permanent("10.0.1.10", MacAddr::BROADCAST)), (2, 1), "one sentence for a link");
    assert!(world.status().differences[0].contains("10.0.1.9"), "{:?}", world.status().differences);
    // Linux's own entries of broadcasts and groups, and one on another link.
    for own in ["10.0.1.255", "255.255.255.255", "224.0.0.5", "ff02::1"] {
        assert_eq!(known(&mut world, permanent(own, MacAddr::BROADCAST)), (2, 1), "{own}");
    }
    assert_eq!(known(&mut world, Neighbor { link: 99, ..permanent("10.0.1.8", group) }), (2, 1));
    assert!(world.taken().is_empty(), "none of them is used");
    assert_eq!(known(&mut world, permanent("10.0.1.9", mac(9))), (1, 1));
    assert_eq!(world.taken(), [set("10.0.1.9", mac(9))]);
    assert_eq!(known(&mut world, permanent("10.0.1.9", group)), (2, 1));
    assert_eq!(world.taken(), [unset("10.0.1.9")]);
    world.kernel.delete_neighbor(permanent("10.0.1.10", MacAddr::BROADCAST));
    world.settle();
    assert_eq!(world.status().group_neighbors, 1);
    world.kernel.neighbors.clear();
    world.kernel.dump();
    world.settle();
    assert_eq!((world.status().group_neighbors, world.status().differences.len()), (0, 0), "a dump does not name it");
}
