// SPDX-License-Identifier: MIT
//! Dumps: what they change and what they do not; incomplete ones, among notifications, in doubt.

use crate::world::*;
use perigee_config::Linux;
use perigee_linux::{FeedId, Input, Report, State};
use perigee_net::{LinuxOnly, Prefix, RouteTarget};
use perigee_netlink::message::{Message, NextHopTo};

#[test]
fn the_first_dump_makes_the_router_what_linux_is() {
    let mut world = World::before_the_first_dump(setup(), &[]);
    assert_eq!(world.status().state, State::Reading);
    world.kernel.routes.insert((prefix("10.9.0.0/16"), 0), route("10.9.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.kernel.dump();
    world.settle();
    let status = world.status();
    assert_eq!((status.state, status.links, status.addresses), (State::Following, 2, 4));
    assert_eq!((status.resyncs, status.changes, status.repaired), (1, 1, 0), "the first dump repairs nothing");
    assert_eq!(world.interface("a").addresses.len(), 2);
    assert_eq!(world.target("10.9.0.0/16"), Some(gateway(1, "10.0.2.2")));
}

#[test]
fn what_is_already_there_is_not_touched_by_a_dump() {
    let mut world = World::new();
    for n in 0..50 {
        world.kernel.add(route(&format!("10.{n}.128.0/24"), 0, &[via(B, "10.0.2.2")]));
        world.kernel.add(route(&format!("2001:db8:{n:x}::/48"), 0, &[via(B, "2001:db8:2::2")]));
    }
    world.settle();
    let before = world.status();
    let wanted = world.follower.resync().unwrap();
    assert_eq!(wanted, world.follower.resyncs() + 1);
    while let Some(effect) = world.follower.poll_effect() {
        assert_eq!(effect, perigee_linux::Effect::Dump(FeedId::Kernel));
        world.kernel.dump();
    }
    world.settle();
    assert_eq!(world.follower.resyncs(), wanted);
    let after = world.status();
    assert_eq!((after.changes, after.repaired, after.resyncs), (before.changes, 0, before.resyncs + 1));
    assert!(world.taken().is_empty() && world.requests().is_empty());
}

#[test]
fn a_resync_waits_for_a_dump_that_begins_after_it_was_asked_for() {
    let mut world = World::new();
    world.input(Input::Reported(FeedId::Kernel, Report::DumpBegins));
    assert_eq!(world.status().state, State::Reading);
    assert_eq!(world.follower.resync(), Some(world.follower.resyncs() + 2));
    let mut off = World::before_the_first_dump(perigee_linux::Setup { feeds: vec![], ..setup() }, &[]);
    assert_eq!((off.status().state, off.follower.resync()), (State::Off, None));
    off.settle();
}

#[test]
fn what_a_dump_does_not_name_is_gone_and_what_it_shows_to_differ_is_repaired() {
    let mut world = World::new();
    let routes = |hop| [("10.1.0.0/16", hop), ("10.2.0.0/16", hop), ("10.3.0.0/16", hop)];
    for (text, hop) in routes(via(A, "10.0.1.2")) {
        world.kernel.add(route(text, 0, &[hop]));
    }
    world.settle();
    world.kernel.routes.remove(&(prefix("10.1.0.0/16"), 0));
    world.kernel.routes.insert((prefix("10.2.0.0/16"), 0), route("10.2.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.kernel.routes.insert((prefix("10.2.0.0/16"), 5), route("10.2.0.0/16", 5, &[via(B, "10.0.2.2")]));
    world.kernel.dump();
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), None);
    assert_eq!(world.target("10.2.0.0/16"), Some(gateway(1, "10.0.2.2")));
    assert_eq!(world.target("10.3.0.0/16"), Some(gateway(0, "10.0.1.2")));
    assert_eq!((world.status().repaired, world.status().changes), (3, 6));
}

/// Tables of some hundred routes, of which some change silently, are after a dump what they would be after a dump into
/// nothing.
#[test]
fn a_resync_repairs_exactly_what_differs() {
    use perigee_fib::synth::Random;
    for seed in 0..8 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let any = |random: &mut Random| {
            let (net, len) = (random.below(60), 12 + random.below(13));
            let text = format!("10.{}.{}.0/{len}", 64 + net, 64 * random.below(4));
            let prefix: Prefix = Prefix::truncated(ip(text.split('/').next().unwrap()), len as u8).unwrap();
            let hop = [via(A, "10.0.1.2"), via(B, "10.0.2.2"), via(B, "10.0.2.3")][random.below(3) as usize];
            route(&prefix.to_string(), random.below(2), &[hop])
        };
        let mut world = World::new();
        (0..300).for_each(|_| world.kernel.add(any(&mut random)));
        world.settle();
        for round in 0..4 {
            for _ in 0..random.below(40) {
                let route = any(&mut random);
                let place = random.below(world.kernel.routes.len() as u32) as usize;
                let known = *world.kernel.routes.keys().nth(place).unwrap();
                match random.below(2) {
                    0 => drop(world.kernel.routes.remove(&known)),
                    _ => drop(world.kernel.routes.insert((route.prefix, route.metric), route)),
                }
            }
            let before = world.routes();
            let status = world.status();
            world.kernel.dump();
            world.settle();
            let mut fresh = World::before_the_first_dump(setup(), &[]);
            fresh.kernel.routes = world.kernel.routes.clone();
            fresh.kernel.dump();
            fresh.settle();
            let (now, expected) = (world.routes(), fresh.routes());
            assert_eq!(now, expected, "seed {seed}, round {round}");
            let added = now.iter().filter(|(key, target)| before.get(key) != Some(target)).count();
            let gone = before.keys().filter(|key| !now.contains_key(key)).count();
            let repaired = world.status().repaired - status.repaired;
            assert_eq!(repaired, (added + gone) as u64, "seed {seed}, round {round}");
        }
    }
}

#[test]
fn one_of_two_metrics_is_found_to_be_gone() {
    let mut world = World::new();
    for metric in [0, 5, 9] {
        world.kernel.add(route("10.1.0.0/16", metric, &[via(A, "10.0.1.2")]));
    }
    world.settle();
    world.kernel.routes.remove(&(prefix("10.1.0.0/16"), 5));
    world.kernel.dump();
    world.settle();
    let metrics: Vec<u32> = world.routes().into_keys().map(|(_, metric)| metric).collect();
    assert_eq!(metrics, [0, 9]);
}

/// The kernel loses its place in IPv6's tree when that changes: only routes that two dumps in a row do not name are
/// gone.
#[test]
fn an_ipv6_route_is_gone_when_two_dumps_do_not_name_it() {
    let mut world = World::new();
    let routes = ["2001:db8:7::/48", "2001:db8:8::/48"].map(|text| route(text, 0, &[via(A, "2001:db8:1::2")]));
    routes.iter().for_each(|route| world.kernel.add(route.clone()));
    world.settle();
    // A dump that has overlooked one: the next one names it.
    let mut short = world.kernel.messages();
    short.retain(|message| *message != Message::Route(routes[0].clone()));
    world.kernel.reports.push_back(Report::DumpBegins);
    let dumped = short.into_iter().map(|message| Report::Message { dumped: true, message });
    world.kernel.reports.extend(dumped);
    world.kernel.reports.push_back(Report::DumpEnds { complete: true });
    world.settle();
    assert_eq!((world.routes().len(), world.kernel.dumps), (2, 1), "asked again, and there it was");
    // The other one is really gone, without a notification.
    world.kernel.routes.remove(&(routes[1].prefix, 0));
    world.kernel.dump();
    world.settle();
    assert_eq!((world.routes().len(), world.kernel.dumps), (1, 3));
    assert_eq!(world.status().repaired, 1);
}

#[test]
fn a_dump_with_holes_takes_nothing_away() {
    let mut world = World::new();
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]));
    let permanent = perigee_netlink::message::Neighbor { permanent: true, ..neighbor(A, "10.0.1.9", mac(9)) };
    world.kernel.set_neighbor(permanent);
    world.settle();
    world.taken();
    let before = world.status();
    world.kernel.broken_dump(Vec::new());
    world.settle();
    assert_eq!(world.routes().len(), 1);
    assert!(world.taken().is_empty() && world.interface("a").addresses.len() == 2);
    let after = world.status();
    assert_eq!((after.links, after.addresses, after.resyncs), (before.links, before.addresses, before.resyncs + 1));
}

/// A dump that came to nothing made the router forget which next-hop objects routes use, so that routes no longer
/// changed with their objects.
#[test]
fn a_broken_dump_forgets_no_next_hop_objects() {
    let mut world = World::new();
    world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.9")));
    world.kernel.add(by_object("10.114.0.0/17", 1));
    world.kernel.broken_dump(Vec::new());
    world.kernel.set_object(1, NextHopTo::Hop(via(B, "10.0.2.9")));
    world.settle();
    assert_eq!(world.target("10.114.0.0/17"), Some(gateway(1, "10.0.2.9")));
}

#[test]
fn a_resync_forgets_next_hop_objects_that_are_gone() {
    let mut world = World::new();
    world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.9")));
    world.kernel.set_object(2, NextHopTo::Hop(via(A, "10.0.1.8")));
    world.settle();
    world.kernel.next_hops.remove(&1);
    world.kernel.dump();
    world.settle();
    assert_eq!(world.status().next_hops, 1);
    world.kernel.say(Message::Route(by_object("10.1.0.0/16", 1)));
    world.kernel.say(Message::Route(by_object("10.2.0.0/16", 2)));
    world.settle();
    let unknown = Some(RouteTarget::ToLinux(LinuxOnly::NextHop));
    assert_eq!((world.target("10.1.0.0/16"), world.target("10.2.0.0/16")), (unknown, Some(gateway(0, "10.0.1.8"))));
}

#[test]
fn a_resync_forgets_which_objects_routes_named_before_it() {
    let mut world = World::new();
    world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.9")));
    world.kernel.add(by_object("10.1.0.0/16", 1));
    world.settle();
    world.kernel.routes.clear();
    world.kernel.dump();
    world.settle();
    let dumps = world.kernel.dumps;
    world.kernel.set_object(1, NextHopTo::Hop(via(B, "10.0.2.9")));
    world.settle();
    assert_eq!(world.kernel.dumps, dumps, "no route follows from it any more");
    // What a notification names in the middle of a dump is not forgotten with it.
    world.input(Input::Reported(FeedId::Kernel, Report::DumpBegins));
    world.input(Input::Reported(
        FeedId::Kernel,
        Report::Message { dumped: false, message: Message::Route(by_object("10.2.0.0/16", 1)) },
    ));
    let messages = world.kernel.messages();
    for message in messages {
        world.input(Input::Reported(FeedId::Kernel, Report::Message { dumped: true, message }));
    }
    world.input(Input::Reported(FeedId::Kernel, Report::DumpEnds { complete: true }));
    world.kernel.next_hops.insert(1, NextHopTo::Hop(via(A, "10.0.1.7")));
    world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.7")));
    world.settle();
    assert_eq!(world.kernel.dumps, dumps + 1);
}

#[test]
fn lost_notifications_show_in_the_state_until_a_dump_is_whole() {
    let mut world = World::new();
    world.kernel.reports.push_back(Report::Lost);
    world.settle();
    assert_eq!(world.status().state, State::Lost);
    world.kernel.broken_dump(Vec::new());
    world.settle();
    assert_eq!(world.status().state, State::Lost);
    world.kernel.dump();
    world.settle();
    assert_eq!(world.status().state, State::Following);
}

#[test]
fn a_dump_is_timed_from_its_begin_to_its_end() {
    let mut world = World::new();
    world.input(Input::Reported(FeedId::Kernel, Report::DumpBegins));
    world.now += 3 * SECOND;
    world.input(Input::Reported(FeedId::Kernel, Report::DumpEnds { complete: false }));
    assert_eq!(world.status().resync_seconds, 3.0);
}

#[test]
fn a_reload_that_changes_which_routes_are_followed_reads_them_again() {
    let mut world = World::new();
    for (text, protocol) in [("10.1.0.0/16", 12), ("10.2.0.0/16", 4)] {
        let route = perigee_netlink::message::Route { protocol, ..route(text, 0, &[via(A, "10.0.1.2")]) };
        world.kernel.add(route);
    }
    world.settle();
    let configure = |world: &mut World, linux| {
        world.follower.configure(linux, vec![vec![], vec![]], 2, vec![]);
        world.input(Input::PortLink { port: 0, up: true });
        world.settle();
    };
    configure(&mut world, linux());
    assert_eq!((world.kernel.dumps, world.routes().len()), (0, 2), "nothing has changed");
    configure(&mut world, Linux { ignore_protocols: vec![4], ..linux() });
    assert_eq!(world.kernel.dumps, 1);
    assert_eq!((world.target("10.2.0.0/16"), world.routes().len()), (None, 1));
}

#[test]
fn a_reload_that_renumbers_interfaces_moves_routes_and_neighbors() {
    let mut world = World::new();
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]));
    let permanent = perigee_netlink::message::Neighbor { permanent: true, ..neighbor(A, "10.0.1.9", mac(9)) };
    world.kernel.set_neighbor(permanent);
    world.settle();
    world.taken();
    // The reload has made b the first interface; the routes were carried over with these numbers or are repaired by the
    // dump.
    let list = [world.interface("b").clone(), world.interface("a").clone()];
    world.router.interfaces = perigee_fib::Interfaces::new(list.to_vec()).unwrap();
    world.follower.interfaces_renumbered();
    assert!(!world.follower.is_permanent(perigee_net::InterfaceId(0), ip("10.0.1.9")));
    world.input(Input::PortLink { port: 0, up: true });
    world.settle();
    assert_eq!(world.kernel.dumps, 1);
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(1, "10.0.1.2")));
    let address = ip("10.0.1.9");
    let set = perigee_linux::Effect::SetNeighbor { interface: perigee_net::InterfaceId(1), address, mac: mac(9) };
    assert_eq!(world.taken(), [set]);
    assert!(world.follower.is_permanent(perigee_net::InterfaceId(1), address));
}
