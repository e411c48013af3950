// SPDX-License-Identifier: MIT
//! What Linux alone can do: its routes are in the table as what they are, and no packet takes the next shorter prefix
//! instead.

use crate::world::*;
use perigee_config::{Linux, UnknownRoutes};
use perigee_linux::Setup;
use perigee_net::{Exception, ExceptionCause, FiveTuple, InterfaceId, LinuxOnly, RouteTarget, Selector};
use perigee_netlink::message::{
    Hop, Hops, Link, Master, Message, NetworkSettings, NextHopTo, Route, RouteKind, Rule, RuleAction,
};

fn good() -> Route {
    route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")])
}

/// Every way in which Linux alone can forward by a route.
fn every_kind() -> Vec<(Route, LinuxOnly)> {
    let too_many: Vec<Hop> = (0..257).map(|n| via(A, &format!("10.0.1.{}", n % 250 + 1))).collect();
    vec![
        (Route { kind: RouteKind::Other, ..good() }, LinuxOnly::Type),
        (Route { encapsulated: true, ..good() }, LinuxOnly::Encapsulation),
        (Route { hops: Hops::One(via(99, "10.0.1.2")), ..good() }, LinuxOnly::OtherInterface),
        (Route { hops: Hops::One(Hop { link: 99, gateway: None, weight: 1 }), ..good() }, LinuxOnly::OtherInterface),
        (Route { hops: vec![via(98, "10.0.1.2"), via(99, "10.0.1.2")].into(), ..good() }, LinuxOnly::OtherInterface),
        (Route { hops: vec![via(A, "10.0.1.2"), via(99, "10.0.1.2")].into(), ..good() }, LinuxOnly::OtherInterface),
        (Route { hops: Hops::None, ..good() }, LinuxOnly::OtherInterface),
        (Route { hops: Hops::One(Hop { link: 0, gateway: None, weight: 1 }), ..good() }, LinuxOnly::OtherInterface),
        (by_object("10.1.0.0/16", 9), LinuxOnly::NextHop),
        (by_object("10.1.0.0/16", 8), LinuxOnly::NextHop),
        (by_object("10.1.0.0/16", 7), LinuxOnly::NextHop),
        (Route { hops: too_many.into(), ..good() }, LinuxOnly::NextHop),
        (Route { unknown: Some(77), ..good() }, LinuxOnly::Attribute),
        (Route { unknown: Some(77), kind: RouteKind::Blackhole, ..good() }, LinuxOnly::Attribute),
    ]
}

fn world(unknown_routes: UnknownRoutes) -> World {
    let mut world = World::with(Setup { linux: Linux { unknown_routes, ..linux() }, ..setup() }, &[]);
    world.kernel.set_object(9, NextHopTo::Other);
    world.kernel.set_object(8, NextHopTo::Group(Box::new([(9, 1)])));
    // Endlessly nested groups.
    world.kernel.set_object(7, NextHopTo::Group(Box::new([(7, 1)])));
    world.settle();
    world
}

#[test]
fn a_route_that_linux_alone_knows_is_no_hole() {
    for (route, why) in every_kind() {
        let text = format!("{route:?}");
        for (unknown_routes, target) in [
            (UnknownRoutes::ToLinux, RouteTarget::ToLinux(why)),
            (UnknownRoutes::Unreachable, RouteTarget::Refused(why)),
        ] {
            let mut world = world(unknown_routes);
            // It replaces a plain one, and gives way to one.
            for _ in 0..2 {
                world.kernel.add(good());
                world.settle();
                assert_eq!(world.target("10.1.0.0/16"), Some(gateway(0, "10.0.1.2")), "{text}");
                assert_eq!(world.status().linux_only, 0, "{text}");
                world.kernel.add(route.clone());
                world.settle();
                assert_eq!(world.target("10.1.0.0/16"), Some(target.clone()), "{text}");
                assert_eq!(world.follower.linux_only().collect::<Vec<_>>(), [(prefix("10.1.0.0/16"), 0, why)]);
            }
            // A dump finds the same, and the audit no difference.
            world.kernel.dump();
            world.settle();
            assert_eq!(world.target("10.1.0.0/16"), Some(target.clone()), "{text}");
            world.follower.begin_audit(world.now, false);
            world.settle();
            assert_eq!(world.audits.pop().flatten().map(|report| report.total), Some(0), "{text}");
            world.kernel.delete(&route);
            world.settle();
            assert_eq!((world.target("10.1.0.0/16"), world.status().linux_only), (None, 0), "{text}");
        }
    }
}

#[test]
fn a_route_of_the_local_table_over_another_interface_is_delivered() {
    for kind in [RouteKind::Local, RouteKind::Broadcast, RouteKind::Anycast] {
        let mut world = World::new();
        let hops = Hops::One(Hop { link: 1, gateway: None, weight: 1 });
        world.kernel.add(Route { kind, table: 255, protocol: 2, hops, ..route("10.9.9.255/32", 0, &[]) });
        world.settle();
        assert_eq!(world.target("10.9.9.255/32"), Some(RouteTarget::Local));
    }
}

/// A tunnel next to a port (IPv6, one metric): Linux has both as one route, and reports each that is gone separately.
#[test]
fn a_tunnel_next_to_a_port_is_not_lost_with_the_port() {
    let mut world = World::new();
    let both = route("2001:db8:9::/48", 0, &[via(A, "2001:db8:1::2"), via(99, "2001:db8:99::2")]);
    let tunnel = route("2001:db8:9::/48", 0, &[via(99, "2001:db8:99::2")]);
    let port = route("2001:db8:9::/48", 0, &[via(A, "2001:db8:1::2")]);
    for (gone, left, target) in [
        (&port, &tunnel, RouteTarget::ToLinux(LinuxOnly::OtherInterface)),
        (&tunnel, &port, gateway(0, "2001:db8:1::2")),
    ] {
        world.kernel.add(both.clone());
        world.settle();
        assert_eq!(world.target("2001:db8:9::/48"), Some(RouteTarget::ToLinux(LinuxOnly::OtherInterface)));
        world.kernel.routes.insert((left.prefix, 0), left.clone());
        world.kernel.say(Message::RouteGone(gone.clone()));
        world.settle();
        assert_eq!(world.target("2001:db8:9::/48"), Some(target));
    }
}

/// Two interfaces in one network: Linux uses the route that came first, and the other one when that is gone.
#[test]
fn the_first_of_two_routes_of_one_metric_is_used() {
    let mut world = World::new();
    let [first, second] = [A, B].map(|link| route("2001:db8:9::/48", 256, &[Hop { link, gateway: None, weight: 1 }]));
    world.kernel.add(first.clone());
    world.kernel.beside.push(second.clone());
    world.kernel.say(Message::Route(second.clone()));
    world.settle();
    let over = |interface| Some(RouteTarget::Connected { interface: InterfaceId(interface) });
    let target =
        |world: &World| world.routes().get(&(prefix("2001:db8:9::/48"), 256)).map(|(_, target)| target.clone());
    assert_eq!(target(&world), over(0));
    world.kernel.beside.clear();
    world.kernel.routes.insert((second.prefix, 256), second);
    world.kernel.say(Message::RouteGone(first));
    world.settle();
    assert_eq!(target(&world), over(1));
}

#[test]
fn routes_for_a_part_of_the_packets_are_exceptions() {
    let mut world = World::new();
    world.kernel.add(good());
    let by_tos = |tos, metric| Route { tos, metric, ..route("10.1.0.0/16", metric, &[via(B, "10.0.2.2")]) };
    let by_source = |source: &str| Route {
        source: Some(prefix(source)),
        ..route("2001:db8:9::/48", 1024, &[via(B, "2001:db8:2::2")])
    };
    let all = [by_tos(0x10, 0), by_tos(0x08, 0), by_source("2001:db8:a::/48"), by_source("2001:db8:b::/48")];
    all.iter().for_each(|route| world.kernel.say(Message::Route(route.clone())));
    world.settle();
    let plain = |world: &World| {
        world.router.fib.rib().lookup(ip("10.1.2.3")).map(|(prefix, route)| (prefix, route.target.clone()))
    };
    assert_eq!(plain(&world), Some((prefix("10.1.0.0/16"), gateway(0, "10.0.1.2"))), "others take the plain route");
    assert_eq!(world.router.fib.rib().lookup(ip("2001:db8:9::1")).map(|(prefix, _)| prefix), None);
    let exception = |dst: &str, selector: Selector| Exception {
        tuple: FiveTuple { dst: Some(prefix(dst)), src: selector.source, ..FiveTuple::default() },
        tos: selector.tos(),
        input: None,
        cause: ExceptionCause::Route,
    };
    let tos = |tos| exception("10.1.0.0/16", Selector { source: None, tos, metric: 0 });
    let from = |source| exception("2001:db8:9::/48", Selector { source: Some(prefix(source)), tos: 0, metric: 1024 });
    let mut wanted = vec![tos(0x10), tos(0x08), from("2001:db8:a::/48"), from("2001:db8:b::/48")];
    let sorted = |mut list: Vec<Exception>| {
        list.sort_by_key(|exception| format!("{exception:?}"));
        list
    };
    assert_eq!(sorted(world.router.exceptions.0.clone()), sorted(wanted.clone()));
    assert_eq!(world.status().linux_only, 4);
    world.kernel.say(Message::RouteGone(by_tos(0x10, 0)));
    world.settle();
    wanted.remove(0);
    assert_eq!(sorted(world.router.exceptions.0.clone()), sorted(wanted));
    assert_eq!(plain(&world), Some((prefix("10.1.0.0/16"), gateway(0, "10.0.1.2"))));
}

#[test]
fn an_mtu_counts_where_it_is_smaller_than_the_links() {
    let mut world = World::new();
    let with = |mtu| Route { mtu, ..good() };
    let mtu = |world: &World| world.router.fib.rib().lookup(ip("10.1.2.3")).map(|(_, route)| route.mtu);
    for (given, counts) in [(1300, 1300), (1500, 0), (9000, 0), (1499, 1499), (0, 0)] {
        world.kernel.add(with(given));
        world.settle();
        assert_eq!(mtu(&world), Some(counts));
        assert_eq!(world.router.exceptions.0.len(), usize::from(counts > 0));
    }
    world.kernel.add(with(1400));
    world.kernel.set_link(Link { mtu: 1400, ..link(A, "a") });
    world.settle();
    assert_eq!((mtu(&world), world.router.exceptions.0.len()), (Some(0), 0), "the link takes no more");
    world.kernel.set_link(link(A, "a"));
    world.settle();
    assert_eq!((mtu(&world), world.router.exceptions.0.len()), (Some(1400), 1));
}

fn rule(priority: u32, table: u32) -> Rule {
    Rule { priority, action: RuleAction::Table(table), ..Rule::default() }
}

/// The rules that every Linux begins with.
fn usual() -> Vec<Rule> {
    vec![rule(0, 255), rule(32766, 254), rule(32767, 253)]
}

/// What these rules make of a router: the exceptions, and how many sentences are said.
fn with_rules(extra: &[Rule]) -> (World, usize) {
    let mut world = World::new();
    for rule in usual().iter().chain(extra) {
        world.kernel.rules.push(rule.clone());
        world.kernel.say(Message::Rule(rule.clone()));
    }
    world.settle();
    let said = world.status().rules.len();
    (world, said)
}

#[test]
fn usual_rules_and_those_of_vrfs_change_nothing() {
    let vrf = Rule { by_vrf: true, ..rule(1000, 0) };
    let later = Rule { source: Some(prefix("10.2.0.0/16")), ..rule(32800, 100) };
    let local = Rule { input: Some("lo".into()), ..rule(10, 100) };
    let (world, said) = with_rules(&[vrf, later, local]);
    assert_eq!((world.router.exceptions.0.len(), said), (0, 0));
}

#[test]
fn packets_of_a_rule_are_linuxs() {
    let base = || rule(100, 100);
    let any = prefix("0.0.0.0/0");
    let tuple = FiveTuple { dst: Some(any), ..FiveTuple::default() };
    let exception = |tuple| Exception { tuple, tos: None, input: None, cause: ExceptionCause::Rule };
    let source = Some(prefix("10.7.0.0/16"));
    let cases = [
        (Rule { source, ..base() }, exception(FiveTuple { src: source, ..tuple })),
        (Rule { destination: source, ..base() }, exception(FiveTuple { dst: source, ..tuple })),
        (Rule { protocol: Some(17), ..base() }, exception(FiveTuple { proto: Some(17), ..tuple })),
        (Rule { input: Some("b".into()), ..base() }, Exception { input: Some(InterfaceId(1)), ..exception(tuple) }),
        (Rule { action: RuleAction::Refuse, source, ..base() }, exception(FiveTuple { src: source, ..tuple })),
        (Rule { action: RuleAction::Refuse, ..base() }, exception(tuple)),
        (Rule { action: RuleAction::Jump(200), ..base() }, exception(tuple)),
        (Rule { action: RuleAction::Unknown(99), ..base() }, exception(tuple)),
        (Rule { action: RuleAction::Table(254), suppressed: Some(8), ..base() }, exception(tuple)),
        // All that does not come from there: Linux tells which.
        (Rule { inverted: true, source, action: RuleAction::Refuse, ..base() }, exception(tuple)),
    ];
    for (rule, wanted) in cases {
        let (mut world, said) = with_rules(std::slice::from_ref(&rule));
        assert_eq!((world.router.exceptions.0.clone(), said), (vec![wanted], 1), "{rule:?}");
        world.kernel.rules.retain(|other| *other != rule);
        world.kernel.say(Message::RuleGone(rule));
        world.settle();
        assert_eq!((world.router.exceptions.0.len(), world.status().rules.len()), (0, 0));
    }
}

#[test]
fn rules_that_no_packet_from_a_port_matches_are_said() {
    let marked = Rule { asks_for_more: true, ..rule(100, 100) };
    let (world, said) = with_rules(&[marked]);
    assert_eq!((world.router.exceptions.0.len(), said), (0, 1));
}

/// What wg-quick does: all packets without its mark are looked up in a table with a default route into the tunnel, but
/// for those that `main` has a longer route for.
#[test]
fn a_tunnel_for_everything_else_takes_everything_else() {
    let main = Rule { suppressed: Some(0), ..rule(300, 254) };
    let unmarked = Rule { inverted: true, asks_for_more: true, ..rule(400, 51820) };
    let (mut world, said) = with_rules(&[main, unmarked.clone()]);
    assert_eq!(said, 1);
    world.kernel.add(route("0.0.0.0/0", 0, &[via(A, "10.0.1.2")]));
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]));
    let tunnel = Route { table: 51820, ..route("0.0.0.0/0", 7, &[Hop { link: 99, gateway: None, weight: 1 }]) };
    world.kernel.add(tunnel);
    world.settle();
    let chosen = |world: &World, to| world.router.fib.rib().lookup(ip(to)).map(|(_, route)| route.target.clone());
    assert_eq!(chosen(&world, "192.0.2.1"), Some(RouteTarget::ToLinux(LinuxOnly::Rule)));
    assert_eq!(chosen(&world, "10.1.2.3"), Some(gateway(0, "10.0.1.2")), "`main` has a longer one");
    assert!(world.router.exceptions.0.is_empty());
    world.kernel.rules.retain(|rule| *rule != unmarked);
    world.kernel.say(Message::RuleGone(unmarked));
    world.settle();
    assert_eq!(chosen(&world, "192.0.2.1"), Some(gateway(0, "10.0.1.2")));
}

/// Without that first rule, the table's routes go before longer ones of `main`.
#[test]
fn a_table_before_main_goes_before_longer_routes() {
    let (mut world, _) = with_rules(&[rule(400, 100)]);
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]));
    world.kernel.add(Route { table: 100, ..route("10.0.0.0/8", 7, &[via(B, "10.0.2.2")]) });
    world.settle();
    let tuple = FiveTuple { dst: Some(prefix("10.0.0.0/8")), ..FiveTuple::default() };
    let wanted = Exception { tuple, tos: None, input: None, cause: ExceptionCause::Rule };
    assert_eq!(world.router.exceptions.0, [wanted]);
    // The tables of the configuration are followed as it says.
    let linux = Linux { tables: vec![100, 254], ..linux() };
    let mut world = World::with(Setup { linux, ..setup() }, &[]);
    let rules: Vec<Rule> = usual().into_iter().chain([rule(400, 100)]).collect();
    rules.into_iter().for_each(|rule| world.kernel.say(Message::Rule(rule)));
    world.settle();
    assert!(world.router.exceptions.0.is_empty() && world.status().rules.is_empty());
}

/// The helper switches the twins' forwarding off: then Linux drops what it is given. Of IPv6 the switch of all links
/// counts.
#[test]
fn a_linux_that_is_to_forward_and_does_not_is_named() {
    let mut world = World::new();
    let set = |world: &mut World, v6, link: i32, on| {
        let settings = NetworkSettings { v6, link, forwarding: Some(on), ..<_>::default() };
        world.kernel.say(Message::NetworkSettings(settings));
        world.settle();
        world.status().differences
    };
    for (v6, link) in [(false, A as i32), (false, B as i32), (true, NetworkSettings::ALL)] {
        assert!(set(&mut world, v6, link, false).is_empty(), "there is nothing to forward");
    }
    let foreign = Route { hops: Hops::One(via(99, "10.0.1.2")), ..good() };
    world.kernel.add(foreign.clone());
    world.settle();
    let said = world.status().differences;
    assert!(matches!(&said[..], [one] if one.contains("of IPv4 from a and 1 more")), "{said:?}");
    let said = set(&mut world, false, A as i32, true);
    assert!(matches!(&said[..], [one] if one.contains("from b: `sysctl net.ipv4.conf.b.forwarding=1")), "{said:?}");
    assert!(set(&mut world, false, B as i32, true).is_empty());
    let foreign6 = Route { hops: Hops::One(via(99, "2001:db8:1::2")), ..route("2001:db8:9::/48", 0, &[]) };
    world.kernel.add(foreign6.clone());
    world.settle();
    let said = world.status().differences;
    assert!(matches!(&said[..], [one] if one.contains("sysctl net.ipv6.conf.all.forwarding=1")), "{said:?}");
    world.kernel.delete(&foreign6);
    world.kernel.delete(&foreign);
    for _ in 0..2 {
        world.kernel.dump();
        world.settle();
    }
    assert!(world.status().differences.is_empty());
}

/// The walk through the rules ended at the first table that is followed, and took an inverted rule for one about all
/// packets.
#[test]
fn rules_before_the_last_followed_table_count() {
    let of = |source: &str, table, priority| Rule { source: Some(prefix(source)), ..rule(priority, table) };
    let linux = Linux { tables: vec![100, 254], ..linux() };
    let mut world = World::with(Setup { linux, ..setup() }, &[]);
    for rule in usual().into_iter().chain([rule(100, 100), of("10.1.0.0/16", 300, 200)]) {
        world.kernel.say(Message::Rule(rule));
    }
    world.settle();
    assert_eq!(world.router.exceptions.0.len(), 1, "between the two");
    // Packets from 10/8 skip `main`.
    let (world, said) =
        with_rules(&[Rule { inverted: true, ..of("10.0.0.0/8", 254, 100) }, of("10.0.0.0/8", 200, 200)]);
    assert_eq!((world.router.exceptions.0.len(), said), (2, 2));
    // What is not known may leave any packet out.
    let unclear = Rule { unknown: Some(99), ..rule(100, 254) };
    let (world, said) = with_rules(&[unclear, rule(200, 200)]);
    assert_eq!((world.router.exceptions.0.len(), said), (1, 2));
    // A mask of ports, for one.
    let masked = Rule { unknown: Some(99), source_ports: "16".parse().ok(), tos: 0x10, ..of("10.0.0.0/8", 200, 100) };
    let (world, _) = with_rules(&[masked]);
    let [found] = &world.router.exceptions.0[..] else { panic!("one") };
    assert_eq!((found.tuple.sport, found.tos, found.tuple.src), (None, None, Some(prefix("10.0.0.0/8"))));
    // Linux compares three bits of a type of service.
    let (world, _) = with_rules(&[Rule { tos: 0x18, ..rule(100, 200) }]);
    assert!(world.router.exceptions.0[0].tos.is_some_and(|tos| tos.contains(0xb8)));
}

#[test]
fn rules_of_one_family_say_nothing_of_the_other() {
    let v6 = |rule: Rule| Rule { is_v6: true, ..rule };
    let main = Rule { suppressed: Some(0), ..rule(300, 254) };
    let all = usual().into_iter().map(v6).collect::<Vec<_>>();
    let (mut world, _) = with_rules(&[&all[..], &[main, rule(400, 500), v6(rule(400, 500))]].concat());
    world.kernel.add(Route { table: 500, ..route("0.0.0.0/0", 7, &[via(A, "10.0.1.2")]) });
    world.kernel.add(Route { table: 500, ..route("2001:db8::/32", 7, &[via(A, "2001:db8:1::2")]) });
    world.settle();
    let exceptions: Vec<_> = world.router.exceptions.0.iter().map(|exception| exception.tuple.dst).collect();
    assert_eq!(exceptions, [Some(prefix("2001:db8::/32"))], "IPv4's go behind longer ones of `main`");
    let (mut world, _) = with_rules(&[rule(400, 500)]);
    world.kernel.add(Route { table: 500, ..route("2001:db8::/32", 7, &[via(A, "2001:db8:1::2")]) });
    world.settle();
    assert!(world.routes().is_empty(), "no rule of IPv6 leads there");
}

/// With zebra's feed the routes of other tables are not reported.
#[test]
fn a_table_that_nobody_reports_takes_all_its_packets() {
    let linux = Linux { feed: perigee_config::Feed::Fpm, ..linux() };
    let feeds = vec![perigee_linux::FeedId::Kernel, perigee_linux::FeedId::Zebra];
    let mut world = World::with(Setup { linux, feeds, ..setup() }, &[]);
    for rule in usual().into_iter().chain([rule(400, 500)]) {
        world.kernel.say(Message::Rule(rule));
    }
    world.settle();
    assert_eq!(world.router.exceptions.0.len(), 1);
}

#[test]
fn packets_by_the_ports_of_a_vrf_are_those_of_its_rule() {
    let mut world = World::new();
    let red = 70;
    world.kernel.set_link(Link { vrf: Some(10), ..link(red, "red") });
    let master = Some(Master { index: red, kind: "vrf".to_owned(), table: Some(10) });
    world.kernel.set_link(Link { master, ..link(A, "a") });
    for rule in usual().into_iter().chain([Rule { input: Some("red".into()), ..rule(100, 500) }]) {
        world.kernel.say(Message::Rule(rule));
    }
    world.settle();
    assert_eq!(world.router.exceptions.0.len(), 1);
    assert_eq!(world.router.linux_connects.iter().map(|id| id.0).collect::<Vec<_>>(), [1], "the VRF's table has a's");
}

/// A second next hop behind one source route kept its packets only as long as the first was there.
#[test]
fn a_source_route_stays_while_one_like_it_is_left() {
    let mut world = World::new();
    let by = |way| Route { source: Some(prefix("2001:db8:a::/48")), ..route("2001:db8:9::/48", 1024, &[way]) };
    let [first, second] = [by(via(A, "2001:db8:1::2")), by(via(B, "2001:db8:2::2"))];
    world.kernel.add(first.clone());
    world.kernel.say(Message::Route(second.clone()));
    world.kernel.routes.insert((second.prefix, 1024), second);
    world.kernel.say(Message::RouteGone(first));
    world.settle();
    assert_eq!(world.router.exceptions.0.len(), 1);
}

#[test]
fn a_network_that_is_delivered_by_a_port_is_linuxs() {
    let mut world = World::new();
    let hops = Hops::One(Hop { link: A, gateway: None, weight: 1 });
    world.kernel.add(Route { kind: RouteKind::Local, table: 255, hops, ..route("203.0.113.0/24", 0, &[]) });
    world.settle();
    assert_eq!(world.target("203.0.113.0/24"), Some(RouteTarget::Local));
}

#[test]
fn connected_networks_are_linuxs_once_a_dump_has_named_them() {
    let mut world = World::before_the_first_dump(setup(), &[]);
    world.settle();
    assert!(world.router.linux_connects.is_empty(), "the addresses of the configuration count");
    world.kernel.dump();
    world.settle();
    assert_eq!(world.router.linux_connects.iter().map(|id| id.0).collect::<Vec<_>>(), [0, 1]);
    world.kernel.delete_link(A);
    world.settle();
    assert_eq!(world.router.linux_connects.iter().map(|id| id.0).collect::<Vec<_>>(), [1], "its twin is made again");
    // Who does not follow the kernel's routes has them of addresses.
    let linux = Linux { ignore_protocols: vec![2], ..linux() };
    assert!(World::with(Setup { linux, ..setup() }, &[]).router.linux_connects.is_empty());
}
