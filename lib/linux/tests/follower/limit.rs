// SPDX-License-Identifier: MIT
//! More routes than there is room for: no packet of one that is not held takes a shorter prefix.

use crate::world::*;
use perigee_config::{Linux, UnknownRoutes};
use perigee_linux::Setup;
use perigee_net::{ExceptionCause, LinuxOnly, Prefix, RouteTarget};
use perigee_netlink::message::{Hop, Route, RouteKind};

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


fn make_room(world: &mut World, routes: usize) {
    let held = world.router.fib.routes();
    world.router.fib.set_most(held + routes);
}


/// Of two routes to one prefix the better one is held: the packets are its.
#[test]
fn a_backup_that_is_refused_takes_no_packets_from_the_better_route() {
    let mut world = full(UnknownRoutes::ToLinux);
    make_room(&mut world, 1);
    world.kernel.add(to("10.9.0.0/16"));
    world.kernel.add(route("10.9.0.0/16", 100, &[via(A, "10.0.1.2")]));
    world.settle();
    assert_eq!(world.status().refused, 1);
    assert_eq!(found(&world, "10.9.0.1"), Some((prefix("10.9.0.0/16"), gateway(1, "10.0.2.2"))));
}
