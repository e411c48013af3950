// SPDX-License-Identifier: MIT
//! Single routes: which are followed, replaced, withdrawn, left out, and how they are counted.

use crate::world::*;
use perigee_config::{Feed, Linux};
use perigee_linux::{FeedId, LeftOut, Report, Setup, Skip};
use perigee_net::{InterfaceId, LinuxOnly, Member, Multipath, RouteKey, RouteProtocol, RouteSource, RouteTarget};
use perigee_netlink::message::{Hop, Hops, Link, Message, NextHopTo, Route, RouteKind, Vlan};

fn several(ways: &[(u16, &str, u16)]) -> RouteTarget {
    let member = |&(interface, address, weight): &(u16, &str, u16)| Member {
        address: Some(ip(address)),
        interface: Some(InterfaceId(interface)),
        weight,
    };
    RouteTarget::Multipath(Multipath::new(&ways.iter().map(member).collect::<Vec<_>>()).unwrap())
}

#[test]
fn every_kind_of_route_finds_its_target() {
    let mut world = World::new();
    let kind = |text, kind| Route { kind, ..route(text, 0, &[]) };
    world.kernel.set_object(1, NextHopTo::Hop(via(B, "10.0.2.9")));
    world.kernel.set_object(2, NextHopTo::Blackhole);
    world.kernel.set_object(3, NextHopTo::Hop(via(A, "10.0.1.9")));
    world.kernel.set_object(4, NextHopTo::Group(Box::new([(1, 3), (3, 5)])));
    let routes = [
        route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]),
        route("10.2.0.0/16", 0, &[Hop { link: B, gateway: None, weight: 1 }]),
        route("10.3.0.0/16", 0, &[Hop { weight: 2, ..via(A, "10.0.1.2") }, via(B, "10.0.2.2")]),
        kind("10.4.0.0/16", RouteKind::Blackhole),
        kind("10.5.0.0/16", RouteKind::Unreachable),
        kind("10.6.0.0/16", RouteKind::Prohibit),
        by_object("10.7.0.0/16", 1),
        by_object("10.8.0.0/16", 2),
        by_object("10.9.0.0/16", 4),
        Route { table: 255, ..kind("10.10.0.1/32", RouteKind::Local) },
        route("10.11.0.0/16", 0, &[via(0, "10.99.0.1")]),
        route("10.12.0.0/16", 0, &[via(99, "10.0.9.2"), via(B, "10.0.2.2")]),
        // By an object, but also with its hop: the hop counts.
        Route { next_hop: 1, ..route("10.13.0.0/16", 0, &[via(A, "10.0.1.3")]) },
    ];
    routes.into_iter().for_each(|route| world.kernel.add(route));
    world.settle();
    let wanted = [
        ("10.1.0.0/16", gateway(0, "10.0.1.2")),
        ("10.2.0.0/16", RouteTarget::Connected { interface: InterfaceId(1) }),
        ("10.3.0.0/16", several(&[(0, "10.0.1.2", 2), (1, "10.0.2.2", 1)])),
        ("10.4.0.0/16", RouteTarget::Blackhole),
        ("10.5.0.0/16", RouteTarget::Unreachable),
        ("10.6.0.0/16", RouteTarget::Prohibit),
        ("10.7.0.0/16", gateway(1, "10.0.2.9")),
        ("10.8.0.0/16", RouteTarget::Blackhole),
        ("10.9.0.0/16", several(&[(1, "10.0.2.9", 3), (0, "10.0.1.9", 5)])),
        ("10.10.0.1/32", RouteTarget::Local),
        ("10.11.0.0/16", RouteTarget::Gateway { address: ip("10.99.0.1"), interface: None }),
        ("10.12.0.0/16", RouteTarget::ToLinux(LinuxOnly::OtherInterface)),
        ("10.13.0.0/16", gateway(0, "10.0.1.3")),
    ];
    for (text, target) in &wanted {
        assert_eq!(world.target(text).as_ref(), Some(target), "{text}");
    }
    assert_eq!(world.routes().len(), wanted.len());
    assert_eq!((world.status().changes, world.status().refused), (13, 0));
    assert_eq!(world.status().next_hops, 4);
    let preference = |text: &str| world.routes()[&(prefix(text), 0)].0;
    assert!(preference("10.10.0.1/32") < preference("10.1.0.0/16"), "Linux looks into `local` first");
}

#[test]
fn what_is_left_out_is_counted_by_its_reason() {
    let mut world = World::new();
    let good = route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]);
    let v6 = |text| route(text, 0, &[via(A, "2001:db8:1::2")]);
    let local = |text, link| Route {
        kind: RouteKind::Local,
        table: 255,
        ..route(text, 0, &[Hop { link, gateway: None, weight: 1 }])
    };
    let cases = [
        (Route { table: 100, ..good.clone() }, Skip::Table),
        (Route { kind: RouteKind::Multicast, ..good.clone() }, Skip::Kind),
        (Route { kind: RouteKind::Broadcast, ..good.clone() }, Skip::Kind),
        (Route { kind: RouteKind::Anycast, ..good.clone() }, Skip::Kind),
        (local("10.0.1.1/32", A), Skip::Kind),
        (local("127.0.0.0/8", 1), Skip::Kind),
        (route("::1/128", 256, &[Hop { link: 1, gateway: None, weight: 1 }]), Skip::Kind),
        (v6("fe80::/64"), Skip::LinkLocal),
        (v6("febf::/64"), Skip::LinkLocal),
        (v6("ff00::/8"), Skip::LinkLocal),
    ];
    for (route, reason) in cases {
        let before = world.status().left_out.get(&reason).copied().unwrap_or(0);
        let text = format!("{route:?}");
        world.kernel.say(Message::Route(route));
        world.settle();
        assert_eq!(world.status().left_out.get(&reason).copied(), Some(before + 1), "{text}");
        assert!(world.routes().is_empty(), "{text}");
    }
    // Prefixes that look like these, but are not.
    for text in ["fec0::/64", "fe00::/64", "fb00::/8"] {
        world.kernel.add(v6(text));
    }
    world.settle();
    assert_eq!(world.routes().len(), 3);
}

/// "78 kind, 48 link local" could not be asked which ones.
#[test]
fn routes_that_are_left_out_are_named() {
    let mut world = World::new();
    let other = |text: &str| Route { table: 100, protocol: 186, ..route(text, 0, &[via(A, "10.0.1.2")]) };
    let named = |world: &World| -> Vec<String> {
        let name = |(route, why): (LeftOut, Skip)| {
            format!("{} table {} by {}: {}", route.prefix, route.table, route.protocol, why.name())
        };
        world.follower.left_out_routes().map(name).collect()
    };
    world.kernel.add(other("10.9.0.0/16"));
    world.kernel.add(route("fe80::/64", 0, &[via(A, "2001:db8:1::2")]));
    world.settle();
    let by = format!("fe80::/64 table 254 by {}: link_local", route("fe80::/64", 0, &[]).protocol);
    assert_eq!(named(&world), ["10.9.0.0/16 table 100 by 186: table", &by]);
    world.kernel.delete(&other("10.9.0.0/16"));
    world.settle();
    assert_eq!(named(&world), [by]);
    // However many there are, some are named, and another dump names them again.
    for n in 0..200 {
        world.kernel.add(other(&format!("10.9.{n}.0/24")));
    }
    world.settle();
    assert_eq!(named(&world).len(), 26);
}

#[test]
fn names_of_reasons_are_those_of_the_api() {
    let names =
        [(Skip::Table, "table"), (Skip::Protocol, "protocol"), (Skip::Kind, "kind"), (Skip::LinkLocal, "link_local")];
    names.iter().for_each(|(skip, name)| assert_eq!(skip.name(), *name));
}

#[test]
fn tables_rank_and_protocols_are_chosen() {
    let linux =
        Linux { tables: vec![254, 100], protocols: Some(vec![12, 186]), ignore_protocols: vec![186], ..linux() };
    let mut world = World::with(Setup { linux, ..setup() }, &[]);
    let hops = [via(A, "10.0.1.2")];
    world.kernel.say(Message::Route(route("10.1.0.0/16", 0, &hops)));
    world.kernel.say(Message::Route(Route { table: 100, ..route("10.2.0.0/16", 0, &hops) }));
    world.kernel.say(Message::Route(Route { protocol: 186, ..route("10.3.0.0/16", 0, &hops) }));
    world.kernel.say(Message::Route(Route { protocol: 4, ..route("10.4.0.0/16", 0, &hops) }));
    let local = Route { table: 255, protocol: 2, kind: RouteKind::Local, ..route("10.5.0.1/32", 0, &[]) };
    world.kernel.say(Message::Route(local));
    world.settle();
    let routes = world.routes();
    assert_eq!(routes.len(), 3, "{routes:?}");
    assert_eq!(routes[&(prefix("10.1.0.0/16"), 0)].0 + 1, routes[&(prefix("10.2.0.0/16"), 0)].0);
    assert!(routes.contains_key(&(prefix("10.5.0.1/32"), 0)), "addresses of Linux are anybody's");
    assert_eq!(world.status().left_out[&Skip::Protocol], 2);
}

/// A route says who gave it to Linux: also where the same one comes from another protocol, and by a dump.
#[test]
fn a_route_of_linux_has_the_protocol_that_gave_it_to_linux() {
    let mut world = World::new();
    let made_by = |protocol| Route { protocol, ..route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]) };
    let key = RouteKey::of(RouteSource::Linux);
    let protocol = |world: &World| world.router.fib.rib().route(prefix("10.1.0.0/16"), key).and_then(|r| r.protocol);
    for (number, changes) in [(186, 1), (188, 2), (188, 2), (0, 3), (77, 4)] {
        world.kernel.add(made_by(number));
        world.settle();
        assert_eq!(protocol(&world), Some(RouteProtocol(number)));
        assert_eq!(world.status().changes, changes, "protocol {number}");
    }
    world.kernel.routes.insert((prefix("10.1.0.0/16"), 0), made_by(12));
    world.kernel.dump();
    world.settle();
    assert_eq!(protocol(&world), Some(RouteProtocol(12)));
    // Another protocol's notification that comes late is of the route all the same, as Linux has one of this key.
    world.kernel.delete(&made_by(186));
    world.settle();
    assert_eq!(protocol(&world), None);
}

#[test]
fn a_route_is_replaced_and_withdrawn() {
    let mut world = World::new();
    let first = route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]);
    let second = route("10.1.0.0/16", 0, &[via(B, "10.0.2.2")]);
    world.kernel.add(first.clone());
    world.kernel.add(second.clone());
    world.kernel.add(second.clone());
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(1, "10.0.2.2")));
    assert_eq!(world.status().changes, 2, "a route that is there already changes nothing");
    // An old notification: the route that is gone is not the one there is.
    world.kernel.say(Message::RouteGone(first));
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(1, "10.0.2.2")));
    world.kernel.delete(&second);
    world.kernel.say(Message::RouteGone(second));
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), None);
    assert_eq!((world.status().changes, world.status().refused), (3, 0), "what is gone is not gone again");
    assert_eq!(world.kernel.dumps, 0);
}

#[test]
fn a_route_that_is_not_followed_any_more_is_withdrawn() {
    let mut world = World::new();
    let hops = [via(A, "10.0.1.2")];
    for skipped in [
        Route { kind: RouteKind::Multicast, ..route("10.1.0.0/16", 0, &hops) },
        Route { kind: RouteKind::Anycast, ..route("10.1.0.0/16", 0, &hops) },
    ] {
        world.kernel.add(route("10.1.0.0/16", 0, &hops));
        world.settle();
        world.kernel.say(Message::Route(Route { appended: true, ..skipped.clone() }));
        world.settle();
        assert!(world.target("10.1.0.0/16").is_some(), "one that comes beside it replaces nothing");
        world.kernel.say(Message::Route(skipped));
        world.settle();
        assert!(world.target("10.1.0.0/16").is_none());
    }
    assert_eq!(world.kernel.dumps, 0);
}

/// A route next to ours over an interface that is not the router's took ours away.
#[test]
fn a_route_over_a_foreign_interface_leaves_ours_alone() {
    let mut world = World::new();
    for (text, way) in [("10.20.0.0/16", via(B, "10.0.2.2")), ("2001:db8:20::/48", via(B, "2001:db8:2::2"))] {
        let ours = route(text, 0, &[way]);
        let foreign = route(text, 0, &[Hop { link: 99, ..way }]);
        world.kernel.add(ours);
        world.settle();
        let dumps = world.kernel.dumps;
        world.kernel.say(Message::Route(Route { appended: true, ..foreign.clone() }));
        world.settle();
        assert_eq!(world.kernel.dumps, dumps);
        let gateway = RouteTarget::Gateway { address: way.gateway.unwrap(), interface: Some(InterfaceId(1)) };
        assert_eq!(world.target(text), Some(gateway.clone()));
        world.kernel.say(Message::Route(foreign.clone()));
        world.settle();
        let first = if text.contains(':') { gateway.clone() } else { RouteTarget::ToLinux(LinuxOnly::OtherInterface) };
        assert_eq!(world.target(text), Some(first), "IPv4 puts it before ours, IPv6 behind");
        world.kernel.say(Message::RouteGone(foreign));
        world.settle();
        assert_eq!(
            (world.kernel.dumps, world.target(text)),
            (dumps + 1, Some(gateway)),
            "the kernel is asked which is left"
        );
    }
    assert_eq!(world.routes().len(), 2);
}

#[test]
fn the_second_of_two_with_one_metric_takes_over_when_the_first_goes() {
    let mut world = World::new();
    let first = route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]);
    let second = Route { appended: true, ..route("10.1.0.0/16", 0, &[via(B, "10.0.2.2")]) };
    world.kernel.add(first.clone());
    world.kernel.beside.push(second.clone());
    world.kernel.say(Message::Route(second.clone()));
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(0, "10.0.1.2")), "the first is in use");
    // The kernel reports that the first is gone, but nothing about the second.
    world.kernel.beside.clear();
    world.kernel.routes.insert((second.prefix, 0), Route { appended: false, ..second });
    world.kernel.say(Message::RouteGone(first));
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(1, "10.0.2.2")));
    assert_eq!(world.kernel.dumps, 1);
}

#[test]
fn the_second_of_two_is_known_from_a_dump_too() {
    let mut world = World::new();
    let (first, second) =
        (route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]), route("10.1.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.kernel.routes.insert((first.prefix, 0), first.clone());
    world.kernel.beside.push(second.clone());
    world.kernel.dump();
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(0, "10.0.1.2")), "of several the first is in use");
    world.kernel.beside.clear();
    world.kernel.routes.insert((second.prefix, 0), second);
    world.kernel.say(Message::RouteGone(first));
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(1, "10.0.2.2")));
}

#[test]
fn ipv6_loses_its_ways_one_by_one() {
    let mut world = World::new();
    let (a, b) = (via(A, "2001:db8:1::2"), via(B, "2001:db8:2::2"));
    let c = Hop { link: B, gateway: None, weight: 1 };
    let whole = route("2001:db8:9::/48", 0, &[a, b, c]);
    let gone = |hop| Message::RouteGone(Route { hops: Hops::One(hop), ..whole.clone() });
    world.kernel.say(Message::Route(whole.clone()));
    world.kernel.say(gone(via(A, "2001:db8:1::77")));
    world.settle();
    assert!(matches!(world.target("2001:db8:9::/48"), Some(RouteTarget::Multipath(m)) if m.members().len() == 3));
    assert_eq!(world.status().changes, 1);
    world.kernel.say(gone(c));
    world.settle();
    assert_eq!(world.target("2001:db8:9::/48"), Some(several(&[(0, "2001:db8:1::2", 1), (1, "2001:db8:2::2", 1)])));
    world.kernel.say(gone(a));
    world.settle();
    assert_eq!(world.target("2001:db8:9::/48"), Some(gateway(1, "2001:db8:2::2")));
    // An old notification of all three.
    world.kernel.say(gone(a));
    world.settle();
    assert_eq!(world.target("2001:db8:9::/48"), Some(gateway(1, "2001:db8:2::2")));
    world.kernel.say(Message::RouteGone(whole));
    world.settle();
    assert_eq!(world.target("2001:db8:9::/48"), None);
    // For IPv4 the kernel reports the whole route: another one of that key is an old notification.
    let old = route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]);
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "10.0.1.2"), via(B, "10.0.2.2")]));
    world.kernel.say(Message::RouteGone(old));
    world.settle();
    assert!(world.target("10.1.0.0/16").is_some());
}

#[test]
fn routes_of_an_object_that_changes_or_goes_are_asked_for() {
    let mut world = World::new();
    world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.9")));
    world.kernel.set_object(2, NextHopTo::Hop(via(A, "10.0.1.8")));
    world.kernel.add(by_object("10.1.0.0/16", 1));
    world.settle();
    assert_eq!(world.kernel.dumps, 0, "an object that is new changes no route");
    world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.9")));
    world.kernel.set_object(2, NextHopTo::Hop(via(B, "10.0.2.8")));
    world.settle();
    assert_eq!(world.kernel.dumps, 0, "no route follows from these two");
    world.kernel.set_object(1, NextHopTo::Hop(via(B, "10.0.2.9")));
    world.settle();
    assert_eq!(world.kernel.dumps, 1);
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(1, "10.0.2.9")));
    world.kernel.next_hops.remove(&1);
    world.kernel.routes.clear();
    world.kernel.say(Message::NextHopGone(1));
    world.kernel.say(Message::NextHopGone(1));
    world.settle();
    assert_eq!((world.kernel.dumps, world.target("10.1.0.0/16")), (2, None));
    assert_eq!(world.status().next_hops, 1);
}

#[test]
fn a_route_that_does_not_fit_is_counted() {
    let mut world = World::new();
    let refused = route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]);
    world.router.full.insert(refused.prefix);
    world.kernel.add(refused.clone());
    world.kernel.add(refused);
    world.settle();
    assert_eq!((world.status().refused, world.status().changes), (2, 0));
}

/// A router whose routes zebra reports, and its kernel's links.
fn with_zebra() -> World {
    let linux = Linux { feed: Feed::Fpm, ..linux() };
    World::with(Setup { linux, feeds: vec![FeedId::Kernel, FeedId::Zebra], ..setup() }, &[])
}

fn say(world: &mut World, message: Message) {
    world.zebra.push_back(Report::Message { dumped: false, message });
    world.settle();
}

#[test]
fn zebra_reports_the_routes_and_the_kernel_none() {
    let mut world = with_zebra();
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]));
    let of_zebra = Route { protocol: 186, ..route("10.2.0.0/16", 20, &[via(A, "10.0.1.2")]) };
    say(&mut world, Message::Route(of_zebra.clone()));
    world.settle();
    assert_eq!(world.routes().len(), 1);
    assert!(world.routes().contains_key(&(prefix("10.2.0.0/16"), 20)));
    world.kernel.set_link(perigee_netlink::message::Link { up: false, ..link(A, "a") });
    world.settle();
    assert_eq!(world.kernel.dumps, 0, "the kernel need not be asked for routes");
    // zebra withdraws the routes of an object before the object.
    say(
        &mut world,
        Message::NextHop(perigee_netlink::message::NextHop { id: 5, to: NextHopTo::Hop(via(A, "10.0.1.3")) }),
    );
    say(&mut world, Message::Route(by_object("10.3.0.0/16", 5)));
    assert_eq!(world.target("10.3.0.0/16"), Some(gateway(0, "10.0.1.3")));
    say(&mut world, Message::NextHopGone(5));
    assert_eq!(world.zebra_dumps, 0);
    say(&mut world, Message::RouteGone(of_zebra));
    assert_eq!(world.routes().len(), 1);
}

#[test]
fn zebra_repeats_what_was_left_out_for_a_link_that_was_not_known() {
    let mut world = with_zebra();
    let over_vlan = Route { protocol: 186, ..route("10.2.0.0/16", 0, &[via(30, "10.0.3.2")]) };
    world.zebra_routes.push(over_vlan.clone());
    say(&mut world, Message::Route(over_vlan.clone()));
    let elsewhere = Some(RouteTarget::ToLinux(LinuxOnly::OtherInterface));
    assert_eq!(world.target("10.2.0.0/16"), elsewhere);
    let vlan = |index, name, id| Link { vlan: Some(Vlan { below: A, id, service: false }), ..link(index, name) };
    world.kernel.set_link(vlan(30, "a.7", 7));
    world.settle();
    assert_eq!((world.zebra_dumps, world.target("10.2.0.0/16")), (1, Some(gateway(2, "10.0.3.2"))));
    // Nothing is missed any more: another link is no reason to ask.
    world.kernel.set_link(vlan(31, "a.8", 8));
    world.settle();
    assert_eq!(world.zebra_dumps, 1);
    // zebra's routes over foreign interfaces replace at once: it reports every route of its own.
    let foreign = Route { hops: Hops::One(via(99, "10.9.9.9")), ..over_vlan };
    say(&mut world, Message::Route(foreign));
    assert_eq!(world.target("10.2.0.0/16"), elsewhere);
}

/// zebra 8.4 replaces a route by withdrawing it and naming it again. Within its dump, the second one of a row was taken
/// for a route that Linux has behind another one, and the route was gone for good.
#[test]
fn what_zebra_changes_while_it_sends_its_table_counts() {
    let mut world = with_zebra();
    let by = |hops: &[Hop]| Route { protocol: 186, ..route("10.2.0.0/16", 0, hops) };
    let both = by(&[via(A, "10.0.1.2"), via(B, "10.0.2.2")]);
    let withdrawn = Route { kind: RouteKind::Other, hops: Hops::None, ..both.clone() };
    let told = [
        (Message::Route(both), Some(several(&[(0, "10.0.1.2", 1), (1, "10.0.2.2", 1)]))),
        (Message::RouteGone(withdrawn), None),
        (Message::Route(by(&[via(B, "10.0.2.2")])), Some(gateway(1, "10.0.2.2"))),
        (Message::Route(by(&[via(99, "10.9.9.9")])), Some(RouteTarget::ToLinux(LinuxOnly::OtherInterface))),
        (Message::Route(by(&[via(A, "10.0.1.3")])), Some(gateway(0, "10.0.1.3"))),
        (
            Message::Route(Route { next_hop: 77, hops: Hops::None, ..by(&[]) }),
            Some(RouteTarget::ToLinux(LinuxOnly::NextHop)),
        ),
        (Message::Route(by(&[via(A, "10.0.1.3")])), Some(gateway(0, "10.0.1.3"))),
    ];
    world.zebra.push_back(Report::DumpBegins);
    for (message, expected) in told {
        world.zebra.push_back(Report::Message { dumped: true, message });
        world.settle();
        assert_eq!(world.target("10.2.0.0/16"), expected);
    }
    world.zebra.push_back(Report::DumpEnds { complete: true });
    world.settle();
    assert_eq!(world.target("10.2.0.0/16"), Some(gateway(0, "10.0.1.3")));
}

#[test]
fn zebra_is_not_heard_before_the_kernel_has_named_its_links() {
    let linux = Linux { feed: Feed::Fpm, ..linux() };
    let setup = Setup { linux, feeds: vec![FeedId::Kernel, FeedId::Zebra], ..setup() };
    let mut world = World::before_the_first_dump(setup, &[]);
    assert!(world.follower.is_ready_for(FeedId::Kernel) && !world.follower.is_ready_for(FeedId::Zebra));
    say(&mut world, Message::Route(route("10.2.0.0/16", 0, &[via(A, "10.0.1.2")])));
    assert!(world.routes().is_empty() && world.zebra.len() == 1);
    world.kernel.dump();
    world.settle();
    assert_eq!(world.routes().len(), 1);
}
