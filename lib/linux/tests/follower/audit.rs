// SPDX-License-Identifier: MIT
//! The audit: what it finds, repairs and counts.

use crate::world::*;
use perigee_config::{Feed, Linux};
use perigee_fib::{NextHopInfo, NextHopKind, Via};
use perigee_linux::{AuditReport, Audited, DifferenceKind, FeedId, HelperRequest, Input, KnownNeighbor, Report, Setup};
use perigee_net::{InterfaceId, MacAddr, Prefix, RouteKey, RouteSource};
use perigee_netlink::message::{Hop, Message, Route, RouteKind};
use std::net::IpAddr;
use std::time::Duration;

fn found(report: &AuditReport) -> Vec<(String, String)> {
    let text = |prefix: Option<Prefix>| prefix.map_or("-".to_owned(), |prefix| prefix.to_string());
    report.differences.iter().map(|d| (text(d.prefix), d.kind.to_string())).collect()
}

fn pairs<const N: usize>(list: [(&str, &str); N]) -> Vec<(String, String)> {
    list.map(|(prefix, kind)| (prefix.to_owned(), kind.to_owned())).to_vec()
}

#[test]
fn an_audit_finds_what_was_not_reported_and_repairs_it() {
    let mut world = World::new();
    let via_b = |text, host: &str| route(text, 0, &[via(B, host)]);
    for route in [via_b("10.20.0.0/16", "10.0.2.2"), via_b("10.21.0.0/16", "10.0.2.2")] {
        world.kernel.add(route);
    }
    world.settle();
    world.kernel.routes.remove(&(prefix("10.20.0.0/16"), 0));
    for route in [via_b("10.21.0.0/16", "10.0.2.3"), via_b("10.22.0.0/16", "10.0.2.3")] {
        world.kernel.routes.insert((route.prefix, 0), route);
    }
    let report = world.audit(false);
    let wanted = pairs([
        ("10.20.0.0/16", "not in Linux"),
        ("10.21.0.0/16", "another route"),
        ("10.22.0.0/16", "not in the RIB"),
    ]);
    assert_eq!(found(&report), wanted);
    let sides: Vec<_> = report.differences.iter().map(|d| (d.linux.as_deref(), d.rib.as_deref(), d.metric)).collect();
    assert_eq!(
        sides,
        [
            (None, Some("via 10.0.2.2 dev b"), Some(0)),
            (Some("via 10.0.2.3 dev b"), Some("via 10.0.2.2 dev b"), Some(0)),
            (Some("via 10.0.2.3 dev b"), None, Some(0)),
        ]
    );
    assert_eq!((report.total, report.linux_routes, report.rib_routes, report.repaired), (3, 2, 2, 0));
    assert_eq!(world.routes().len(), 2, "an audit that repairs nothing changes nothing");
    let dumps = world.kernel.dumps;
    assert_eq!(world.audit(true).total, 3);
    assert_eq!(world.kernel.dumps, dumps + 3, "two to be sure, one to repair");
    assert_eq!(world.audit(false).total, 0);
    assert_eq!(world.target("10.22.0.0/16"), Some(gateway(1, "10.0.2.3")));
    let status = world.status();
    assert_eq!((status.audits, status.audit_differences, status.repaired), (3, 6, 3));
}

#[test]
fn a_difference_counts_if_two_dumps_show_it() {
    let mut world = World::new();
    let late = route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]);
    world.kernel.routes.insert((late.prefix, 0), late.clone());
    world.follower.begin_audit(world.now, true);
    world.input(Input::Namespace(None));
    // The notification comes between the two dumps.
    while let Some(report) = world.kernel.reports.pop_front() {
        let ends = matches!(report, Report::DumpEnds { .. });
        world.input(Input::Reported(FeedId::Kernel, report));
        if ends {
            break;
        }
    }
    world.kernel.reports.push_front(Report::Message { dumped: false, message: Message::Route(late) });
    world.settle();
    let report = world.audits.pop().unwrap().unwrap();
    assert_eq!((report.total, report.linux_routes), (0, 1));
    assert_eq!(world.kernel.dumps, 2, "nothing was left to repair");
}

#[test]
fn an_audit_without_differences_takes_one_dump() {
    let mut world = World::new();
    world.kernel.add(route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.kernel.add(route("2001:db8:9::/48", 0, &[via(B, "2001:db8:2::2")]));
    world.settle();
    assert_eq!(
        world.audit(true),
        AuditReport { linux_routes: 2, rib_routes: 2, prefixes: 2, next_hops: 2, ..AuditReport::default() }
    );
    assert_eq!(world.kernel.dumps, 1);
}

#[test]
fn every_kind_of_route_is_described() {
    let mut world = World::new();
    let kind = |text, kind| Route { kind, ..route(text, 0, &[]) };
    let weighted = Hop { weight: 3, ..via(A, "10.0.1.2") };
    let link_only = Hop { link: B, gateway: None, weight: 1 };
    let routes = [
        (route("10.1.0.0/16", 0, &[link_only]), "dev b"),
        (route("10.2.0.0/16", 0, &[via(A, "10.0.1.2")]), "via 10.0.1.2 dev a"),
        (route("10.3.0.0/16", 0, &[weighted, link_only]), "nexthop via 10.0.1.2 dev a weight 3 nexthop dev b weight 1"),
        (Route { table: 255, ..kind("10.4.0.1/32", RouteKind::Local) }, "local"),
        (kind("10.5.0.0/16", RouteKind::Blackhole), "blackhole"),
        (kind("10.6.0.0/16", RouteKind::Unreachable), "unreachable"),
        (kind("10.7.0.0/16", RouteKind::Prohibit), "prohibit"),
        (route("10.8.0.0/16", 0, &[via(0, "10.99.0.1")]), "via 10.99.0.1"),
    ];
    for (route, _) in &routes {
        world.kernel.routes.insert((route.prefix, 0), route.clone());
    }
    let report = world.audit(false);
    let described: Vec<_> = report.differences.iter().map(|d| d.linux.clone().unwrap()).collect();
    assert_eq!(described, routes.map(|(_, text)| text.to_owned()));
}

#[test]
fn differences_are_listed_up_to_a_thousand_and_counted_beyond() {
    let mut world = World::new();
    for n in 0..1001u32 {
        let route = route(&format!("10.{}.{}.0/24", 100 + n / 250, n % 250), 0, &[via(B, "10.0.2.2")]);
        world.kernel.routes.insert((route.prefix, 0), route);
    }
    let report = world.audit(false);
    assert_eq!((report.total, report.differences.len()), (1001, 1000));
}

/// More prefixes than one turn compares: each is compared once.
#[test]
fn a_wrong_entry_of_a_lookup_structure_is_found_and_written_again() {
    let mut world = World::new();
    for n in 0..2500u32 {
        world.kernel.add(route(&format!("10.{}.{}.0/24", 100 + n / 250, n % 250), 0, &[via(B, "10.0.2.2")]));
    }
    world.settle();
    world.router.forgotten.insert(prefix("10.109.249.0/24"));
    let report = world.audit(false);
    assert_eq!(found(&report), pairs([("10.109.249.0/24", "workers find another next hop")]));
    assert_eq!((report.prefixes, report.repaired), (2500, 0));
    assert_eq!(world.router.forgotten.len(), 1, "it was only looked at");
    let Some(difference) = report.differences.first() else { panic!("a difference") };
    assert!(difference.rib.as_deref().is_some_and(|text| text.starts_with("10.109.249.0: next hop ")));
    assert_ne!(difference.rib, difference.lookup);
    let report = world.audit(true);
    assert_eq!((report.total, report.repaired), (1, 1));
    assert!(world.router.forgotten.is_empty());
    assert_eq!(world.audit(true).total, 0);
    // One that cannot be repaired is not counted as if it were.
    world.router.forgotten.insert(prefix("10.109.249.0/24"));
    world.router.stubborn = true;
    let report = world.audit(true);
    assert_eq!((report.total, report.repaired), (1, 0));
}

#[test]
fn the_last_address_of_a_prefix_is_looked_up_too() {
    let mut world = World::new();
    world.kernel.add(route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.kernel.add(route("2001:db8:9::/48", 0, &[via(B, "2001:db8:2::2")]));
    world.settle();
    world.router.forgotten.insert(prefix("10.20.255.255/32"));
    world.router.forgotten.insert(prefix("2001:db8:9:ffff:ffff:ffff:ffff:ffff/128"));
    let report = world.audit(false);
    let lookups: Vec<_> = report.differences.iter().map(|d| d.lookup.clone().unwrap()).collect();
    let address = |text: &String| text.split(": next").next().unwrap().to_owned();
    assert_eq!(
        lookups.iter().map(address).collect::<Vec<_>>(),
        ["10.20.255.255", "2001:db8:9:ffff:ffff:ffff:ffff:ffff"]
    );
}

#[test]
fn lookups_are_compared_when_everything_is_visible() {
    let mut world = World::new();
    world.router.uncommitted = true;
    world.follower.begin_audit(world.now, false);
    world.settle();
    world.input(Input::Namespace(None));
    world.settle();
    assert!(world.audits.is_empty());
    world.router.uncommitted = false;
    world.now += 2 * SECOND;
    world.settle();
    let report = world.audits.pop().unwrap().unwrap();
    assert_eq!(report.duration, 2 * SECOND);
}

fn neighbor_of(world: &World, address: IpAddr) -> Option<MacAddr> {
    world.router.next_hops().into_iter().find_map(|NextHopInfo { kind, .. }| match kind {
        NextHopKind::Direct { via: Via { gateway, .. }, mac, .. } if gateway == Some(address) => mac,
        _ => None,
    })
}

/// An audit counted a repair of next hops, but repaired nothing.
#[test]
fn a_next_hop_with_another_mac_than_the_neighbor_is_found_and_repaired() {
    let mut world = World::new();
    world.kernel.add(route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.kernel.add(route("10.21.0.0/16", 0, &[via(B, "10.0.2.3")]));
    world.kernel.add(route("10.22.0.0/16", 0, &[via(A, "10.0.1.3")]));
    world.settle();
    let known =
        |interface, text, last| KnownNeighbor { interface: InterfaceId(interface), address: ip(text), mac: mac(last) };
    world.known = vec![known(1, "10.0.2.2", 22), known(0, "10.0.1.3", 13)];
    let set = |world: &mut World, interface, text, last: Option<u8>| {
        let fib = &mut world.router.fib;
        fib.set_neighbor(InterfaceId(interface), ip(text), last.map(mac));
        fib.set_on_link(InterfaceId(interface), ip(text), last.is_some()).unwrap();
    };
    set(&mut world, 1, "10.0.2.2", Some(99));
    set(&mut world, 1, "10.0.2.3", Some(23));
    set(&mut world, 0, "10.0.1.3", Some(13));
    let report = world.audit(false);
    let text = |gateway| format!("the next hop {gateway} on b has another MAC than the neighbor");
    let mut kinds: Vec<_> = report.differences.iter().map(|d| d.kind.to_string()).collect();
    kinds.sort();
    assert_eq!(kinds, [text("10.0.2.2"), text("10.0.2.3")]);
    let sides: Vec<_> =
        report.differences.iter().map(|d| (d.rib.clone().unwrap(), d.lookup.clone().unwrap())).collect();
    assert!(sides.contains(&(mac(22).to_string(), mac(99).to_string())), "{sides:?}");
    assert!(sides.contains(&("no MAC".to_owned(), mac(23).to_string())), "{sides:?}");
    assert_eq!((report.repaired, report.next_hops, report.neighbors), (0, 3, 3));
    assert!(world.router.repaired.is_empty());
    let report = world.audit(true);
    assert_eq!((report.total, report.repaired), (2, 2));
    assert_eq!((neighbor_of(&world, ip("10.0.2.2")), neighbor_of(&world, ip("10.0.2.3"))), (Some(mac(22)), None));
    assert_eq!(world.audit(true).total, 0);
}

/// Neighbors of connected networks that no route names.
#[test]
fn a_neighbor_that_workers_do_not_find_or_find_wrongly_is_repaired() {
    let mut world = World::new();
    world.settle();
    let (b, there, lost, stale) = (InterfaceId(1), ip("10.0.2.2"), ip("10.0.2.3"), ip("10.0.2.4"));
    let known = |address, last| KnownNeighbor { interface: b, address, mac: mac(last) };
    world.known = vec![known(there, 22), known(lost, 23), known(ip("fe80::2"), 24)];
    world.router.fib.set_neighbor(b, ip("fe80::2"), Some(mac(24)));
    for (address, last) in [(there, 22), (stale, 99)] {
        world.router.fib.set_neighbor(b, address, Some(mac(last)));
        world.router.fib.set_on_link(b, address, true).unwrap();
    }
    world.router.fib.set_neighbor(b, lost, Some(mac(23)));
    let report = world.audit(false);
    let kinds: Vec<_> = report.differences.iter().map(|d| d.kind.to_string()).collect();
    assert_eq!(
        kinds,
        [
            "the next hop 10.0.2.4 on b has another MAC than the neighbor",
            "workers do not find the neighbor 10.0.2.3 on b as it is"
        ]
    );
    assert_eq!((report.next_hops, report.neighbors), (2, 3));
    assert_eq!(world.audit(true).repaired, 2);
    assert_eq!(world.audit(false).total, 0);
    let found: Vec<_> = [there, lost, stale].map(|address| world.router.fib.found_on_link(b, address)).into();
    assert_eq!(found, [Some(mac(22)), Some(mac(23)), None]);
}

#[test]
fn a_link_that_is_down_takes_its_neighbors_along() {
    let mut world = World::new();
    world.kernel.add(route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.settle();
    world.known = vec![KnownNeighbor { interface: InterfaceId(1), address: ip("10.0.2.2"), mac: mac(22) }];
    assert_eq!(world.audit(false).total, 1);
    world.input(Input::PortLink { port: 1, up: false });
    assert_eq!(world.audit(false).total, 0, "the port has no link");
    world.input(Input::PortLink { port: 1, up: true });
    assert_eq!(world.audit(false).total, 1);
    world.kernel.set_link(perigee_netlink::message::Link { up: false, ..link(B, "b") });
    world.settle();
    world.kernel.add(route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]));
    assert_eq!(world.audit(false).total, 0, "the interface is down");
}

#[test]
fn a_second_audit_joins_the_first() {
    let mut world = World::new();
    world.kernel.routes.insert((prefix("10.20.0.0/16"), 0), route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.follower.begin_audit(world.now, false);
    world.now += SECOND;
    world.follower.begin_audit(world.now, true);
    world.settle();
    world.input(Input::Namespace(None));
    world.settle();
    assert_eq!(world.audits.len(), 1);
    let report = world.audits.pop().unwrap().unwrap();
    assert_eq!((report.total, report.duration), (1, SECOND), "from the first's begin");
    assert_eq!((world.routes().len(), world.status().audits), (1, 2), "and it repairs, as the second wanted");
}

/// An audit that began while a dump had to be applied waited for ever.
#[test]
fn an_audit_waits_for_a_dump_of_its_own() {
    let mut world = World::new();
    world.kernel.reports.push_back(Report::Lost);
    world.kernel.dump();
    assert_eq!(world.audit(false).total, 0);
    assert_eq!(world.status().resyncs, 3, "the one that had to be applied was, and so was the one that came last");
}

/// A waiting audit took the dump that was meant to find what the kernel had not reported.
#[test]
fn a_dump_that_was_asked_for_is_applied_though_an_audit_waits() {
    let mut world = World::new();
    world.kernel.add(route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.settle();
    world.follower.begin_audit(world.now, false);
    world.input(Input::Namespace(None));
    world.kernel.routes.clear();
    world.kernel.set_link(perigee_netlink::message::Link { up: false, ..link(B, "b") });
    world.settle();
    assert_eq!(world.audits.len(), 1);
    assert!(world.routes().is_empty());
}

#[test]
fn a_dump_with_holes_is_compared_again() {
    let mut world = World::new();
    world.kernel.add(route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.settle();
    world.follower.begin_audit(world.now, false);
    world.kernel.broken_dump(Vec::new());
    world.settle();
    world.input(Input::Namespace(None));
    world.settle();
    let report = world.audits.pop().unwrap().unwrap();
    assert_eq!((report.total, report.linux_routes), (0, 1));
}

#[test]
fn an_audit_that_cannot_go_on_ends() {
    let mut world = World::new();
    world.follower.begin_audit(world.now, false);
    world.input(Input::Reported(FeedId::Kernel, Report::Broken("no more".into())));
    assert_eq!(world.audits, [None]);
    assert_eq!(world.status().audits, 1);
    // One that has done with Linux goes on.
    let mut world = World::new();
    world.router.uncommitted = true;
    world.follower.begin_audit(world.now, false);
    world.input(Input::Namespace(None));
    world.settle();
    world.input(Input::Reported(FeedId::Kernel, Report::Broken("no more".into())));
    assert!(world.audits.is_empty());
    world.router.uncommitted = false;
    world.settle();
    assert!(matches!(&world.audits[..], [Some(_)]));
}

#[test]
fn a_router_that_follows_nothing_audits_its_lookups() {
    let linux = Linux { feed: Feed::None, ..linux() };
    let mut world = World::with(Setup { linux, ..setup() }, &[]);
    world.kernel.add(route("10.20.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.settle();
    assert!(world.routes().is_empty());
    let report = world.audit(false);
    assert_eq!((report.total, report.linux_routes, world.kernel.dumps), (0, 0, 0));
}

#[test]
fn zebras_routes_are_compared_with_those_it_makes_in_linux() {
    let linux = Linux { feed: Feed::Fpm, ..linux() };
    let mut world = World::with(Setup { linux, feeds: vec![FeedId::Kernel, FeedId::Zebra], ..setup() }, &[]);
    let hops = [via(B, "10.0.2.2")];
    let make = |text: &str, protocol, hops: &[Hop]| Route { protocol, ..route(text, 0, hops) };
    let say = |world: &mut World, route: Route| {
        world.zebra.push_back(Report::Message { dumped: false, message: Message::Route(route) });
        world.settle();
    };
    // In both; in zebra alone, a network of a link; in Linux alone, of zebra's protocols and of others.
    say(&mut world, make("10.1.0.0/16", 186, &hops));
    say(&mut world, make("10.2.0.0/16", 11, &[Hop { link: B, gateway: None, weight: 1 }]));
    for (text, protocol) in [("10.1.0.0/16", 186), ("10.3.0.0/16", 4), ("10.4.0.0/16", 11), ("10.5.0.0/16", 42)] {
        world.kernel.routes.insert((prefix(text), 0), make(text, protocol, &hops));
    }
    for (n, protocol) in [(6, 185), (7, 198), (8, 199)] {
        let route = make(&format!("10.{n}.0.0/16"), protocol, &hops);
        world.kernel.routes.insert((route.prefix, 0), route);
    }
    let report = world.audit(false);
    let kind = "not in the RIB";
    assert_eq!(found(&report), pairs([("10.4.0.0/16", kind), ("10.5.0.0/16", kind), ("10.7.0.0/16", kind)]));
    assert_eq!(report.linux_routes, 4);
    // What zebra has and Linux has not.
    say(&mut world, make("10.9.0.0/16", 186, &hops));
    let report = world.audit(false);
    assert!(
        report
            .differences
            .iter()
            .any(|d| d.kind == DifferenceKind::NotInLinux && d.prefix == Some(prefix("10.9.0.0/16")))
    );
    assert_eq!(report.total, 4);
}

/// A route that another protocol has made again is another one; who made it is named where nothing else differs. zebra
/// may name another protocol by FPM than in Linux.
#[test]
fn a_route_of_another_protocol_is_another_route() {
    let made_by = |protocol| Route { protocol, ..route("10.1.0.0/16", 0, &[via(B, "10.0.2.2")]) };
    let mut world = World::new();
    world.kernel.add(made_by(186));
    world.settle();
    world.kernel.routes.insert((prefix("10.1.0.0/16"), 0), made_by(77));
    let report = world.audit(true);
    let sides: Vec<_> = report.differences.iter().map(|d| (d.linux.as_deref(), d.rib.as_deref())).collect();
    assert_eq!(sides, [(Some("via 10.0.2.2 dev b proto 77"), Some("via 10.0.2.2 dev b proto bgp"))]);
    assert_eq!(world.audit(false).total, 0, "it is repaired");

    let linux = Linux { feed: Feed::Fpm, ..linux() };
    let mut world = World::with(Setup { linux, feeds: vec![FeedId::Kernel, FeedId::Zebra], ..setup() }, &[]);
    world.zebra.push_back(Report::Message { dumped: false, message: Message::Route(made_by(11)) });
    world.settle();
    world.kernel.routes.insert((prefix("10.1.0.0/16"), 0), made_by(186));
    let report = world.audit(false);
    assert_eq!((report.total, report.linux_routes), (0, 1));
}

#[test]
fn of_two_with_one_metric_the_first_is_compared() {
    let mut world = World::new();
    let (first, second) =
        (route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]), route("10.1.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.kernel.routes.insert((first.prefix, 0), first);
    world.kernel.beside.push(second);
    world.kernel.dump();
    world.settle();
    let report = world.audit(false);
    assert_eq!((report.total, report.linux_routes), (0, 1));
}

#[test]
fn routes_of_other_sources_are_counted_and_left_alone() {
    let mut world = World::new();
    let fixed = perigee_net::Route::new(RouteSource::Static, gateway(1, "10.0.2.2"));
    world.router.fib.insert(prefix("10.50.0.0/16"), fixed).unwrap();
    world.kernel.add(route("10.50.0.0/16", 0, &[via(A, "10.0.1.2")]));
    world.settle();
    world.kernel.routes.clear();
    world.kernel.dump();
    world.settle();
    assert!(world.routes().is_empty());
    assert!(world.router.fib.rib().route(prefix("10.50.0.0/16"), RouteKey::of(RouteSource::Static)).is_some());
    let report = world.audit(true);
    assert_eq!((report.total, report.rib_routes, report.linux_routes), (0, 1, 0));
}

#[test]
fn an_audit_by_the_configuration_begins_and_repairs_by_itself() {
    let linux = Linux { audit: Some(Duration::from_secs(5)), ..linux() };
    let mut world = World::with(Setup { linux, ..setup() }, &[]);
    let new = route("10.22.0.0/16", 0, &[via(B, "10.0.2.3")]);
    world.kernel.routes.insert((new.prefix, 0), new);
    world.pass(4 * SECOND);
    assert_eq!((world.status().audits, world.routes().len()), (0, 0));
    world.pass(2 * SECOND);
    assert_eq!((world.status().audits, world.status().audit_differences, world.routes().len()), (1, 1, 1));
    world.pass(11 * SECOND);
    assert_eq!((world.status().audits, world.status().audit_differences), (3, 1));
    let mut never = World::new();
    never.pass(100 * SECOND);
    assert_eq!(never.status().audits, 0);
}

#[test]
fn an_audit_that_is_due_does_not_join_one_that_runs() {
    let linux = Linux { audit: Some(Duration::from_secs(5)), ..linux() };
    let mut world = World::with(Setup { linux, ..setup() }, &[]);
    world.pass(SECOND);
    world.router.uncommitted = true;
    world.follower.begin_audit(world.now, false);
    world.pass(20 * SECOND);
    assert_eq!(world.status().audits, 1);
    world.router.uncommitted = false;
    world.settle();
    world.pass(SECOND);
    assert_eq!(world.status().audits, 2);
}

/// An address of the configuration that somebody removed stayed away, and the audit said that all was well.
#[test]
fn an_address_that_linux_has_lost_is_a_difference_and_comes_back_where_that_is_asked_for() {
    let own = "10.0.1.1/24".parse().unwrap();
    let linux = Linux { audit: Some(std::time::Duration::from_secs(60)), ..linux() };
    let mut world = World::with(Setup { addresses: vec![vec![own], vec![]], linux, ..setup() }, &[]);
    assert_eq!((world.audit(true).total, world.requests()), (0, vec![]));
    world.kernel.delete_address(address(A, "10.0.1.1/24"));
    world.settle();
    let said = "a lacks the address 10.0.1.1/24 in Linux, which the configuration gives it";
    assert!(world.status().differences.iter().any(|sentence| sentence.starts_with(said)));
    let report = world.audit(false);
    assert_eq!((report.total, report.repaired, world.requests()), (1, 0, vec![]));
    let difference = &report.differences[0];
    assert_eq!(difference.kind, DifferenceKind::NoAddress { address: own, dev: "a".into() });
    assert_eq!(difference.kind.to_string(), "a lacks the address 10.0.1.1/24 of the configuration in Linux");
    let report = world.audit(true);
    let requests = world.requests();
    let [HelperRequest::Link(change)] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((report.repaired, change.index, &change.add[..]), (1, Some(A), &[own][..]));
}
