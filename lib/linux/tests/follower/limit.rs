// SPDX-License-Identifier: MIT
//! More routes than there is room for: no packet of one that is not held takes a shorter prefix.

use crate::world::*;
use perigee_config::{Linux, UnknownRoutes};
use perigee_linux::Setup;
use perigee_net::{ExceptionCause, LinuxOnly, Prefix, RouteTarget};
use perigee_netlink::message::{Hop, Hops, Route, RouteKind};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// A minute, in ns, and some ticks.
const LATER: u64 = 61_000_000_000;

fn to(text: &str) -> Route {
    route(text, 0, &[via(B, "10.0.2.2")])
}

/// A world with a default route and a connected network, and no room for any other route.
fn full(unknown_routes: UnknownRoutes) -> World {
    let mut world = World::with(Setup { linux: Linux { unknown_routes, ..linux() }, ..setup() }, &[]);
    world.kernel.add(route("0.0.0.0/0", 0, &[via(A, "10.0.1.2")]));
    world.kernel.add(route("10.0.2.0/24", 0, &[Hop { link: B, gateway: None, weight: 1 }]));
    world.settle();
    let held = world.router.fib.routes();
    world.router.fib.set_most(held);
    world
}

fn found(world: &World, address: &str) -> Option<(Prefix, RouteTarget)> {
    world.router.fib.rib().lookup(ip(address)).map(|(prefix, route)| (prefix, route.target.clone()))
}

#[test]
fn a_route_beyond_the_limit_does_not_leak() {
    for (unknown_routes, target) in [
        (UnknownRoutes::ToLinux, RouteTarget::ToLinux(LinuxOnly::Limit)),
        (UnknownRoutes::Unreachable, RouteTarget::Refused(LinuxOnly::Limit)),
    ] {
        let mut world = full(unknown_routes);
        world.kernel.add(to("10.9.0.0/16"));
        world.settle();
        let all = prefix("0.0.0.0/0");
        assert_eq!(found(&world, "10.9.0.1"), Some((all, target.clone())), "not by the default route");
        assert_eq!((world.status().refused, world.status().linux_only), (1, 1));
        // A dump changes nothing of it, and the audit finds no difference.
        world.kernel.dump();
        world.settle();
        assert_eq!(found(&world, "10.9.0.1"), Some((all, target)));
        assert_eq!(world.audit(false).total, 0);
        // What is held stays in use.
        assert!(matches!(found(&world, "10.0.2.7"), Some((_, RouteTarget::Connected { .. }))));
        // Linux withdraws it: the next dump knows of none that is missing.
        world.kernel.delete(&to("10.9.0.0/16"));
        world.kernel.dump();
        world.settle();
        assert_eq!(found(&world, "10.9.0.1"), Some((all, gateway(0, "10.0.1.2"))));
        assert_eq!(world.status().linux_only, 0);
    }
}

#[test]
fn routes_are_taken_over_once_there_is_room() {
    let mut world = full(UnknownRoutes::ToLinux);
    world.kernel.add(to("10.9.0.0/16"));
    world.settle();
    world.router.fib.set_most(1000);
    world.pass(LATER);
    world.settle();
    assert_eq!(found(&world, "10.9.0.1"), Some((prefix("10.9.0.0/16"), gateway(1, "10.0.2.2"))));
    assert_eq!(found(&world, "10.8.0.1"), Some((prefix("0.0.0.0/0"), gateway(0, "10.0.1.2"))));
    assert_eq!(world.status().linux_only, 0);
}

/// What goes nowhere else needs nothing in its place.
#[test]
fn what_lies_in_a_route_that_drops_or_in_a_links_network_cannot_leak() {
    let mut world = full(UnknownRoutes::ToLinux);
    world.router.fib.set_most(1000);
    world.kernel.add(Route { kind: RouteKind::Blackhole, ..route("10.9.0.0/16", 0, &[]) });
    world.settle();
    let held = world.router.fib.routes();
    world.router.fib.set_most(held);
    for text in ["10.9.1.0/24", "10.0.2.7/32"] {
        world.kernel.add(route(text, 0, &[via(A, "10.0.1.2")]));
    }
    world.settle();
    assert_eq!((world.status().refused, world.status().linux_only), (2, 0));
    assert_eq!(found(&world, "10.9.1.1"), Some((prefix("10.9.0.0/16"), RouteTarget::Blackhole)));
    assert!(matches!(found(&world, "10.0.2.7"), Some((_, RouteTarget::Connected { .. }))));
}

/// A route inside one that is held: that one is Linux's, and others are not.
#[test]
fn only_the_longest_prefix_around_a_refused_route_is_linuxs() {
    let mut world = full(UnknownRoutes::ToLinux);
    world.router.fib.set_most(1000);
    for text in ["10.8.0.0/16", "10.9.0.0/16"] {
        world.kernel.add(to(text));
    }
    world.settle();
    let held = world.router.fib.routes();
    world.router.fib.set_most(held);
    world.kernel.add(route("10.9.1.0/24", 0, &[via(A, "10.0.1.2")]));
    world.settle();
    assert_eq!(found(&world, "10.9.1.1"), Some((prefix("10.9.0.0/16"), RouteTarget::ToLinux(LinuxOnly::Limit))));
    assert_eq!(found(&world, "10.8.1.1"), Some((prefix("10.8.0.0/16"), gateway(1, "10.0.2.2"))));
    assert_eq!(found(&world, "10.7.1.1"), Some((prefix("0.0.0.0/0"), gateway(0, "10.0.1.2"))));
}

/// More of them than there is room for: the whole family is Linux's, until a dump fits.
#[test]
fn without_room_for_what_stands_in_all_packets_are_linuxs() {
    let mut world = full(UnknownRoutes::ToLinux);
    let held = world.router.fib.routes();
    world.router.fib.set_most(1_000_000);
    let many = |n: u32| format!("11.{}.{}.0/24", n >> 8, n & 255);
    let hop: [Hop; 1] = [via(B, "10.0.2.2")];
    (0..2000).for_each(|n| world.kernel.add(route(&many(n), 0, &hop)));
    world.settle();
    world.router.fib.set_most(held + 2000);
    (0..2000).for_each(|n| world.kernel.add(route(&many(n).replace(".0/24", ".128/25"), 0, &hop)));
    world.settle();
    let whole = |world: &World| world.router.exceptions.0.iter().any(|all| all.cause == ExceptionCause::Rule);
    assert!(whole(&world), "{:?}", world.router.exceptions);
    world.router.fib.set_most(1_000_000);
    world.pass(LATER);
    world.settle();
    assert!(!whole(&world) && world.status().linux_only == 0, "{:?}", world.status());
    assert_eq!(found(&world, "11.7.207.129").map(|(prefix, _)| prefix), Some(prefix("11.7.207.128/25")));
}

/// A world with a default route, 10.8.0.0/16, and the refused 10.9.1.0/24, which the default route's stand-in is
/// around; there is room for one more route.
fn with_a_refused_one() -> World {
    let mut world = full(UnknownRoutes::ToLinux);
    world.kernel.add(to("10.9.1.0/24"));
    world.settle();
    assert_eq!(found(&world, "10.9.1.1"), Some((prefix("0.0.0.0/0"), RouteTarget::ToLinux(LinuxOnly::Limit))));
    make_room(&mut world, 1);
    world
}

fn make_room(world: &mut World, routes: usize) {
    let held = world.router.fib.routes();
    world.router.fib.set_most(held + routes);
}

/// A prefix between a stand-in and a refused route took the packets of that one.
#[test]
fn a_route_between_a_stand_in_and_a_refused_one_does_not_leak() {
    let mut world = with_a_refused_one();
    world.kernel.add(route("10.9.0.0/16", 0, &[via(A, "10.0.1.2")]));
    world.settle();
    assert_eq!(found(&world, "10.9.1.1"), Some((prefix("10.9.0.0/16"), RouteTarget::ToLinux(LinuxOnly::Limit))));
    // One that has none inside is in use. The default route's packets are Linux's until a dump has refused nothing that
    // it is around.
    make_room(&mut world, 1);
    world.kernel.add(to("10.8.0.0/16"));
    world.settle();
    assert_eq!(found(&world, "10.8.0.1"), Some((prefix("10.8.0.0/16"), gateway(1, "10.0.2.2"))));
    for _ in 0..2 {
        make_room(&mut world, 0);
        world.kernel.dump();
        world.settle();
        assert_eq!(found(&world, "10.7.0.1"), Some((prefix("0.0.0.0/0"), gateway(0, "10.0.1.2"))));
        assert_eq!(found(&world, "10.9.1.1"), Some((prefix("10.9.0.0/16"), RouteTarget::ToLinux(LinuxOnly::Limit))));
    }
}

/// Nothing stood in for a refused route while the route around it was harmless, and nothing did when that one was no
/// more.
#[test]
fn a_harmless_route_around_a_refused_one_that_changes_or_goes_does_not_leak() {
    for goes in [false, true] {
        let mut world = full(UnknownRoutes::ToLinux);
        make_room(&mut world, 1);
        let blackhole = Route { kind: RouteKind::Blackhole, ..route("10.9.0.0/16", 0, &[]) };
        world.kernel.add(blackhole.clone());
        world.kernel.add(to("10.9.1.0/24"));
        world.settle();
        assert_eq!(found(&world, "10.9.1.1"), Some((prefix("10.9.0.0/16"), RouteTarget::Blackhole)));
        let around = match goes {
            true => {
                world.kernel.delete(&blackhole);
                "0.0.0.0/0"
            }
            false => {
                world.kernel.add(Route { replaces: true, ..route("10.9.0.0/16", 0, &[via(A, "10.0.1.2")]) });
                "10.9.0.0/16"
            }
        };
        world.settle();
        assert_eq!(found(&world, "10.9.1.1"), Some((prefix(around), RouteTarget::ToLinux(LinuxOnly::Limit))));
    }
}

/// A refused route that no route was around had no stand-in, and a default route that came later took its packets.
#[test]
fn a_default_route_that_comes_behind_a_refusal_does_not_leak() {
    let mut world = World::with(Setup { linux: linux(), ..setup() }, &[]);
    world.kernel.add(route("10.0.2.0/24", 0, &[Hop { link: B, gateway: None, weight: 1 }]));
    world.settle();
    make_room(&mut world, 0);
    for text in ["10.9.1.0/24", "2001:db8:9::/48"] {
        world.kernel.add(route(text, 0, &[via(B, if text.contains(':') { "2001:db8:2::2" } else { "10.0.2.2" })]));
    }
    world.settle();
    assert_eq!((found(&world, "10.9.1.1"), found(&world, "2001:db8:9::1")), (None, None));
    make_room(&mut world, 3);
    world.kernel.add(route("0.0.0.0/0", 0, &[via(A, "10.0.1.2")]));
    world.kernel.add(route("::/0", 0, &[via(A, "2001:db8:1::2")]));
    world.settle();
    for (address, all) in [("10.9.1.1", "0.0.0.0/0"), ("2001:db8:9::1", "::/0")] {
        assert_eq!(found(&world, address), Some((prefix(all), RouteTarget::ToLinux(LinuxOnly::Limit))));
    }
}

/// Of two routes to one prefix the better one is held: the packets are its. When it goes, they are those of the refused
/// one.
#[test]
fn a_backup_that_is_refused_takes_no_packets_from_the_better_route_until_that_goes() {
    let mut world = full(UnknownRoutes::ToLinux);
    make_room(&mut world, 1);
    world.kernel.add(to("10.9.0.0/16"));
    world.kernel.add(route("10.9.0.0/16", 100, &[via(A, "10.0.1.2")]));
    world.settle();
    assert_eq!(world.status().refused, 1);
    assert_eq!(found(&world, "10.9.0.1"), Some((prefix("10.9.0.0/16"), gateway(1, "10.0.2.2"))));
    world.kernel.delete(&to("10.9.0.0/16"));
    world.settle();
    assert_eq!(found(&world, "10.9.0.1"), Some((prefix("0.0.0.0/0"), RouteTarget::ToLinux(LinuxOnly::Limit))));
}

/// A stand-in that is needed no more stayed until there was room for a good part more routes.
#[test]
fn a_stand_in_goes_with_a_dump_behind_a_change_though_there_is_no_room() {
    let mut world = with_a_refused_one();
    make_room(&mut world, 0);
    world.pass(LATER);
    world.settle();
    let dumps = world.kernel.dumps;
    world.pass(LATER);
    assert_eq!(world.kernel.dumps, dumps, "nothing has changed");
    world.kernel.add(Route { replaces: true, ..route("0.0.0.0/0", 0, &[via(A, "10.0.1.3")]) });
    world.kernel.delete(&to("10.9.1.0/24"));
    world.settle();
    world.pass(LATER);
    world.settle();
    assert!(world.kernel.dumps > dumps);
    assert_eq!(found(&world, "10.7.0.1"), Some((prefix("0.0.0.0/0"), gateway(0, "10.0.1.3"))));
}

/// Routes within one another come, change and go in any order, with and without room: after each change no packet goes
/// where a route of Linux does not send it.
#[test]
fn whatever_changes_at_the_limit_no_packet_goes_elsewhere_than_linux_sends_it() {
    let prefixes =
        ["0.0.0.0/0", "10.8.0.0/13", "10.9.0.0/16", "10.9.1.0/24", "10.9.1.128/25", "10.9.2.0/24", "10.10.0.0/16"];
    let addresses = ["10.9.1.129", "10.9.1.1", "10.9.2.1", "10.9.3.1", "10.10.0.1", "10.8.0.1", "20.0.0.1"];
    let mut refused = 0;
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = full(*[UnknownRoutes::ToLinux, UnknownRoutes::Unreachable].choose(&mut rng).unwrap());
        for step in 0..40 {
            let (text, metric) = (*prefixes.choose(&mut rng).unwrap(), [0, 0, 100][rng.random_range(0..3)]);
            let present = world.kernel.routes.get(&(prefix(text), metric)).cloned();
            match (rng.random_range(0..8), present) {
                (0, _) => make_room(&mut world, 1),
                (1, _) => world.kernel.dump(),
                (2, _) => world.pass(LATER),
                (3 | 4, Some(route)) => world.kernel.delete(&route),
                (kind, present) => {
                    let hop = [via(A, "10.0.1.2"), via(B, "10.0.2.2")][rng.random_range(0..2)];
                    let to = match kind {
                        5 => Route { kind: RouteKind::Blackhole, ..route(text, metric, &[]) },
                        _ => route(text, metric, &[hop]),
                    };
                    world.kernel.add(Route { replaces: present.is_some(), ..to });
                }
            }
            world.settle();
            for address in addresses {
                let of_linux = world.kernel.routes.values().filter(|route| route.prefix.contains(ip(address)));
                let best = of_linux.max_by_key(|route| (route.prefix.len(), u32::MAX - route.metric));
                let way = best.map(|route| match &route.hops {
                    Hops::One(Hop { link, gateway: Some(gateway), .. }) => (route.prefix, Some((*link, *gateway))),
                    _ => (route.prefix, None),
                });
                if let Some((found, RouteTarget::Gateway { address: gateway, interface })) = found(&world, address) {
                    let link = if interface.map(|id| id.0) == Some(0) { A } else { B };
                    let ours = Some((found, Some((link, gateway))));
                    assert_eq!(ours, way, "seed {seed}, step {step}: {address}");
                }
            }
        }
        refused += world.status().refused;
        // With room for all of them, nothing stands in for any.
        world.router.fib.set_most(1_000_000);
        for _ in 0..3 {
            world.pass(LATER);
        }
        assert_eq!(world.status().linux_only, 0, "seed {seed}");
    }
    assert!(refused > 100, "{refused}");
}
