// SPDX-License-Identifier: MIT
//! The tables without a router: routes that follow from addresses, exceptions, what operators add and delete.

use super::*;
use perigee_api::{RouteChange, RouteGateway};
use perigee_fib::MulticastOrigin;
use perigee_linux::Table;
use perigee_net::{
    Exception, ExceptionCause, FiveTuple, HostAddress, Interface, MulticastOutput, MulticastRoute, Route, RouteKey,
    RouteSource, RouteTarget,
};
use perigee_packet::wire::{ipv4, ipv6, protocol};
use perigee_slowpath::{GroupPacket, MulticastDecision, Routes, Time, Treatment};

const TEXT: &str = r#"
[router]
cores = [0]
[port.a]
device = "heap0"
addresses = ["10.0.1.1/24"]
[port.b]
device = "heap1"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
"#;

fn tables_of(text: &str) -> Forwarding {
    let machine = perigee_config::Machine { cores: vec![0], ..Default::default() };
    let config = Config::parse_on("test.toml", text, &machine).unwrap_or_else(|error| panic!("{error}"));
    let info = |(port, config): (u16, &perigee_config::Port)| PortInfo {
        port,
        device: config.name.clone(),
        driver: "heap".to_owned(),
        mac: MacAddr([2, 0, 0, 0, 0, port as u8]),
        mtu: config.mtu,
        receive_queues: 1,
        transmit_queues: 1,
        numa_node: None,
        offloads: vec![],
        notes: vec![],
    };
    let infos: Vec<_> = (0..).zip(&config.ports).map(info).collect();
    Forwarding::new(&config, &infos, Filters::default(), Lookups::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The prefixes of a source's routes.
fn prefixes(of: &Forwarding, source: RouteSource) -> Vec<String> {
    let has = |routes: &perigee_fib::Routes<'_>| routes.iter().any(|route| route.source == source);
    let mut found: Vec<Prefix> = of.rib().iter().filter(|(_, routes, _)| has(routes)).map(|(p, ..)| p).collect();
    found.sort_unstable();
    found.iter().map(ToString::to_string).collect()
}

fn interfaces_of(forwarding: &Forwarding) -> Vec<Interface> {
    forwarding.interfaces().iter().map(|(_, interface)| interface.clone()).collect()
}

#[test]
fn an_address_brings_its_network_and_what_only_the_router_may_answer() {
    let mut forwarding = tables_of(TEXT);
    let mut list = interfaces_of(&forwarding);
    list[0].addresses = ["10.0.1.1/24", "10.0.4.0/31", "10.0.5.1/30", "10.0.6.1/32", "2001:db8:1::5/64", "fe80::5/64"]
        .map(|address| address.parse().unwrap())
        .to_vec();
    list[1].addresses.clear();
    Table::set_interfaces(&mut forwarding, list.clone(), Vec::new());
    let local = [
        "10.0.1.1/32",
        "10.0.1.255/32",
        "10.0.4.0/32",
        "10.0.5.1/32",
        "10.0.5.3/32",
        "10.0.6.1/32",
        "2001:db8:1::/128",
        "2001:db8:1::5/128",
    ];
    let connected = ["10.0.1.0/24", "10.0.4.0/31", "10.0.5.0/30", "2001:db8:1::/64"];
    assert_eq!(prefixes(&forwarding, RouteSource::Local), local);
    assert_eq!(prefixes(&forwarding, RouteSource::Connected), connected);
    // Linux says which networks are connected, if it is asked: the addresses stay the router's.
    Table::set_linux_connects(&mut forwarding, [InterfaceId(0)].into());
    assert_eq!(
        (prefixes(&forwarding, RouteSource::Local), prefixes(&forwarding, RouteSource::Connected)),
        (local.map(str::to_owned).to_vec(), vec![])
    );
    Table::set_linux_connects(&mut forwarding, [InterfaceId(1)].into());
    assert_eq!(prefixes(&forwarding, RouteSource::Connected), connected);
    // One that is set down has none of them, and they come back with it.
    list[0].up = false;
    Table::set_interfaces(&mut forwarding, list.clone(), Vec::new());
    assert_eq!(prefixes(&forwarding, RouteSource::Local), Vec::<String>::new());
    assert_eq!(prefixes(&forwarding, RouteSource::Connected), Vec::<String>::new());
    list[0].up = true;
    Table::set_interfaces(&mut forwarding, list, Vec::new());
    assert_eq!(prefixes(&forwarding, RouteSource::Local), local);
}

#[test]
fn an_address_of_a_host_is_local_without_a_network() {
    let mut forwarding = tables_of(TEXT);
    let list = interfaces_of(&forwarding);
    let before = prefixes(&forwarding, RouteSource::Local);
    let host = |address: &str| HostAddress {
        address: address.parse().unwrap(),
        attributes: Default::default(),
        station: None,
    };
    Table::set_interfaces(&mut forwarding, list, vec![host("192.0.2.1/24"), host("fe80::9/64")]);
    let new: Vec<_> =
        prefixes(&forwarding, RouteSource::Local).into_iter().filter(|prefix| !before.contains(prefix)).collect();
    assert_eq!(new, ["192.0.2.1/32"]);
    assert_eq!(prefixes(&forwarding, RouteSource::Connected).len(), 3);
}

/// A packet without a payload from 198.51.100.1 or 2001:db8:9::1.
fn packet(destination: &str) -> Vec<u8> {
    match destination.parse().unwrap() {
        IpAddr::V4(destination) => {
            let mut packet = vec![0; 20];
            let source = "198.51.100.1".parse().unwrap();
            ipv4::Repr::new(source, destination, protocol::UDP, 0).emit(&mut packet).unwrap();
            packet
        }
        IpAddr::V6(destination) => {
            let mut packet = vec![0; 40];
            let source = "2001:db8:9::1".parse().unwrap();
            ipv6::Repr::new(source, destination, protocol::UDP, 0).emit(&mut packet).unwrap();
            packet
        }
    }
}

#[test]
fn packets_that_linux_treats_otherwise_are_known_to_workers_and_slow_path() {
    let mut forwarding = tables_of(TEXT);
    let mut worker = forwarding.subscribe();
    let exception = |destination: &str, cause| Exception {
        tuple: FiveTuple { dst: Some(destination.parse().unwrap()), ..FiveTuple::default() },
        tos: None,
        input: None,
        cause,
    };
    let treated = |forwarding: &Forwarding, destination: &str| {
        forwarding.routing().treatment(InterfaceId(0), &packet(destination))
    };
    let mtu = |n| Route { mtu: n, ..Route::new(RouteSource::Linux, RouteTarget::Blackhole) };
    for (prefix, n) in [("10.8.0.0/16", 1400), ("2001:db8:8::/48", 1300)] {
        Table::insert(&mut forwarding, prefix.parse().unwrap(), mtu(n)).unwrap();
    }
    let list = vec![
        exception("10.9.0.0/16", ExceptionCause::Rule),
        exception("10.8.0.0/16", ExceptionCause::Mtu),
        exception("2001:db8:8::/48", ExceptionCause::Mtu),
    ];
    assert!(!forwarding.uncommitted() || forwarding.publish().is_ok());
    for (refused, expected) in [(false, Treatment::ToLinux), (true, Treatment::Refused)] {
        Table::set_exceptions(&mut forwarding, list.clone(), refused);
        assert!(forwarding.uncommitted(), "workers do not know it yet");
        forwarding.publish().unwrap();
        assert!(worker.refresh() && worker.exceptions.is_some());
        assert_eq!(treated(&forwarding, "10.9.1.1"), expected);
        assert_eq!(treated(&forwarding, "10.8.1.1"), Treatment::Mtu(1400));
        assert_eq!(treated(&forwarding, "2001:db8:8::1"), Treatment::Mtu(1300));
        assert_eq!(treated(&forwarding, "10.7.1.1"), Treatment::Plain);
        assert_eq!(forwarding.routing().refuses(), refused);
    }
    Table::set_exceptions(&mut forwarding, Vec::new(), false);
    forwarding.publish().unwrap();
    assert!(worker.refresh() && worker.exceptions.is_none());
    assert_eq!(treated(&forwarding, "10.9.1.1"), Treatment::Plain);
}

fn via(prefix: &str, via: &str) -> RouteChange {
    RouteChange { via: Some(via.parse().unwrap()), ..RouteChange::of(prefix.parse().unwrap()) }
}

#[test]
fn what_an_operator_cannot_mean_is_refused_with_the_reason() {
    let mut forwarding = tables_of(TEXT);
    let prefix = "10.9.0.0/16";
    let none = || RouteChange::of(prefix.parse().unwrap());
    let of = |dev: Option<&str>, recursive, address: &str| RouteChange {
        dev: dev.map(str::to_owned),
        recursive,
        ..via(prefix, address)
    };
    for (change, why) in [
        (none(), "`via` is missing"),
        (via(prefix, "2001:db8:2::9"), "are of different families"),
        (of(Some("c"), false, "10.0.1.9"), "there is no interface c; there are a, b"),
        (of(Some("b"), true, "10.0.2.9"), "is recursive and has a `dev`"),
        (of(Some("b"), false, "10.0.1.9"), "10.0.1.9 is on none of the networks of b"),
        (via(prefix, "192.0.2.1"), "192.0.2.1 is not on a connected network"),
    ] {
        let error = forwarding.add_route(&change).unwrap_err();
        assert!(error.message.contains(why), "{}, expected {why}", error.message);
    }
    assert!(prefixes(&forwarding, RouteSource::Static).is_empty());
    for (n, change) in [of(Some("b"), false, "10.0.2.9"), of(None, true, "192.0.2.1")].into_iter().enumerate() {
        let change = RouteChange { metric: n as u32, ..change };
        let said = forwarding.add_route(&change).unwrap();
        assert!(said.starts_with("route to 10.9.0.0/16 via ") && said.contains(" added"), "{said}");
        let again = forwarding.add_route(&change).unwrap_err().message;
        assert!(again.contains(&format!("with metric {n} already")), "{again}");
    }
    // Link-local addresses are on every link, of which one has to be named.
    let by = |dev: Option<&str>| RouteChange { dev: dev.map(str::to_owned), ..via("2001:db8:77::/48", "fe80::1") };
    assert!(forwarding.add_route(&by(None)).is_err() && forwarding.add_route(&by(Some("a"))).is_ok());
}

#[test]
fn a_route_that_leads_nowhere_yet_says_so() {
    let mut forwarding = tables_of(TEXT);
    let far = RouteChange { recursive: true, ..via("10.9.0.0/16", "192.0.2.1") };
    assert!(forwarding.add_route(&far).unwrap().ends_with("it is not used before a route leads to its gateway"));
    assert!(forwarding.add_route(&via("192.0.2.0/24", "10.0.2.9")).unwrap().ends_with("added"));
}

#[test]
fn a_route_is_deleted_by_what_is_said_of_it_and_no_other() {
    let gateway = |via: &str| RouteGateway { via: via.parse().unwrap(), dev: None, recursive: false, weight: 1 };
    let prefix = "10.9.0.0/16";
    let all = || {
        let mut forwarding = tables_of(TEXT);
        let several = RouteChange {
            gateways: vec![gateway("10.0.2.8"), gateway("10.0.1.8")],
            metric: 5,
            ..RouteChange::of(prefix.parse().unwrap())
        };
        let preferred = RouteChange { preference: Some(7), ..via(prefix, "10.0.2.7") };
        for change in [via(prefix, "10.0.2.9"), several, preferred] {
            forwarding.add_route(&change).unwrap();
        }
        forwarding
    };
    let left = |change: RouteChange| {
        let mut forwarding = all();
        let done = forwarding.delete_route(&change);
        let rib = forwarding.rib();
        let keys: Vec<(u8, u32)> =
            rib.routes(prefix.parse().unwrap()).iter().map(|r| (r.preference, r.metric)).collect();
        (done.is_ok(), keys)
    };
    let plain = || RouteChange::of(prefix.parse().unwrap());
    let several =
        |first: &str| RouteChange { gateways: vec![gateway(first), gateway("10.0.2.8")], metric: 5, ..plain() };
    let everything = vec![(1, 0), (1, 5), (7, 0)];
    assert_eq!(left(plain()), (true, vec![(1, 5), (7, 0)]), "the best of metric 0");
    assert_eq!(left(via(prefix, "10.0.2.7")), (true, vec![(1, 0), (1, 5)]));
    assert_eq!(left(RouteChange { preference: Some(7), ..plain() }), (true, vec![(1, 0), (1, 5)]));
    assert_eq!(left(RouteChange { metric: 5, ..plain() }), (true, vec![(1, 0), (7, 0)]));
    assert_eq!(left(several("10.0.1.8")), (true, vec![(1, 0), (7, 0)]), "in any order");
    for wrong in [
        several("10.0.1.7"),
        via(prefix, "10.0.2.1"),
        RouteChange { metric: 6, ..plain() },
        RouteChange { preference: Some(8), ..plain() },
        RouteChange { preference: Some(7), ..via(prefix, "10.0.2.9") },
    ] {
        assert_eq!(left(wrong.clone()), (false, everything.clone()), "{wrong:?}");
    }
    // The router's own are not the operator's to delete.
    assert!(all().delete_route(&RouteChange::of("10.0.1.0/24".parse().unwrap())).is_err());
}

#[test]
fn gateways_are_reported_once_when_a_route_needs_them_and_once_when_none_does() {
    let mut forwarding = tables_of(TEXT);
    let of = |numbers: &[(u16, &str)]| -> Gateways {
        numbers.iter().map(|(id, address)| (InterfaceId(*id), address.parse().unwrap())).collect()
    };
    assert_eq!(forwarding.changed_gateways(), (of(&[]), of(&[])));
    for (prefix, gateway) in [("10.8.0.0/16", "10.0.1.9"), ("10.9.0.0/16", "10.0.2.9")] {
        forwarding.add_route(&via(prefix, gateway)).unwrap();
    }
    assert_eq!(forwarding.changed_gateways(), (of(&[(0, "10.0.1.9"), (1, "10.0.2.9")]), of(&[])));
    assert_eq!(forwarding.changed_gateways(), (of(&[]), of(&[])));
    forwarding.delete_route(&via("10.8.0.0/16", "10.0.1.9")).unwrap();
    forwarding.add_route(&via("10.7.0.0/16", "10.0.2.9")).unwrap();
    assert_eq!(forwarding.changed_gateways(), (of(&[]), of(&[(0, "10.0.1.9")])));
}

#[test]
fn routers_choose_among_equal_paths_differently() {
    let of = |last: u8| seed(&[MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, last])]);
    assert_eq!(of(2), of(2));
    let all: BTreeSet<u32> = (0..=255).map(of).collect();
    assert_eq!(all.len(), 256, "no two of them");
    assert!(seed(&[MacAddr::ZERO]) != seed(&[MacAddr::ZERO; 2]));
}

#[test]
fn a_withdrawn_route_of_linux_is_gone_and_one_that_is_not_there_an_error() {
    let mut forwarding = tables_of(TEXT);
    let (prefix, route) = ("10.9.0.0/16".parse().unwrap(), Route::new(RouteSource::Linux, RouteTarget::Blackhole));
    let key: RouteKey = route.key();
    assert!(Table::insert(&mut forwarding, prefix, route.clone()).unwrap());
    assert!(!Table::insert(&mut forwarding, prefix, route).unwrap(), "it was there already");
    assert_eq!(prefixes(&forwarding, RouteSource::Linux), ["10.9.0.0/16"]);
    assert!(Table::withdraw(&mut forwarding, prefix, key).is_ok());
    assert!(prefixes(&forwarding, RouteSource::Linux).is_empty());
    assert!(Table::withdraw(&mut forwarding, prefix, key).is_err());
}

/// Of three groups whose packets come in on port a and leave by port b: a route of the configuration, one of Linux's,
/// and one that Linux follows alone.
fn groups() -> Forwarding {
    let mut forwarding = tables_of(TEXT);
    let route = |group: &str| MulticastRoute {
        group: group.parse().unwrap(),
        source: Some("10.0.1.2".parse().unwrap()),
        from: Some(InterfaceId(0)),
        to: [0, 1].map(|n| MulticastOutput { interface: InterfaceId(n), ttl: 1 }).to_vec(),
    };
    let of_linux = [("232.2.2.2", MulticastOrigin::Linux), ("232.3.3.3", MulticastOrigin::LinuxAlone)];
    forwarding.routing.set_fixed_multicast(vec![route("232.1.1.1")]);
    forwarding.routing.set_linux_multicast(of_linux.map(|(group, origin)| (route(group), origin)).to_vec());
    forwarding
}

/// What becomes of a packet to a group that comes in on an interface after so many tenths of a second, and how many of
/// it were counted by then: in all, and on the wrong interface.
fn decided(of: &Forwarding, asks: Asks, group: &str, input: u16, tenths: u64) -> (MulticastDecision, u64, u64) {
    let (table, interface) = (of.routing().multicast().table(), InterfaceId(input));
    let (source, group) = ("10.0.1.2".parse().unwrap(), group.parse().unwrap());
    let packet = GroupPacket { source, group, interface, bytes: 100 };
    let decision = decide(asks, table, Time(tenths * 100_000_000), &packet, || panic!("the route names the interface"));
    let counters = &table.find(source, group, interface).unwrap().counters;
    assert_eq!(counters.bytes(), 100 * counters.packets());
    (decision, counters.packets(), counters.wrong_interface())
}

/// By port b.
fn forwarded() -> MulticastDecision {
    MulticastDecision::Forward(vec![MulticastOutput { interface: InterfaceId(1), ttl: 1 }])
}

#[test]
fn a_group_of_the_configuration_is_forwarded_by_whoever_is_asked() {
    let groups = groups();
    for (n, asks) in [(1, Asks::Owner), (2, Asks::Assistant)] {
        assert_eq!(decided(&groups, asks, "232.1.1.1", 0, n), (forwarded(), n, n - 1));
        assert_eq!(decided(&groups, asks, "232.1.1.1", 1, n), (MulticastDecision::WrongInterface, n, n));
    }
}

#[test]
fn a_group_that_linux_follows_alone_is_counted_by_the_owner_of_the_tables() {
    let groups = groups();
    for (asks, counted) in [(Asks::Assistant, 0), (Asks::Owner, 1), (Asks::Assistant, 1), (Asks::Owner, 2)] {
        assert_eq!(decided(&groups, asks, "232.3.3.3", 0, 1), (MulticastDecision::Linux, counted, 0));
    }
}

/// One in 10 s, by which daemons see that the source is alive. The owner takes it: an assistant leaves it to that one.
#[test]
fn linux_gets_its_share_of_what_is_forwarded_by_its_routes() {
    let groups = groups();
    for (asks, tenths, to, counted) in [
        (Asks::Assistant, 10, MulticastDecision::Linux, 0),
        (Asks::Owner, 10, MulticastDecision::Linux, 1),
        (Asks::Owner, 20, forwarded(), 2),
        (Asks::Assistant, 109, forwarded(), 3),
        (Asks::Assistant, 110, MulticastDecision::Linux, 3),
        (Asks::Owner, 110, MulticastDecision::Linux, 4),
        (Asks::Assistant, 111, forwarded(), 5),
    ] {
        assert_eq!(decided(&groups, asks, "232.2.2.2", 0, tenths), (to, counted, 0), "{tenths}");
    }
}

/// One in a second, for daemons to assert themselves against another router.
#[test]
fn linux_gets_its_share_of_what_comes_in_on_a_wrong_interface() {
    let groups = groups();
    for (asks, tenths, to, counted) in [
        (Asks::Assistant, 10, MulticastDecision::Linux, 0),
        (Asks::Owner, 10, MulticastDecision::Linux, 1),
        (Asks::Owner, 15, MulticastDecision::WrongInterface, 2),
        (Asks::Assistant, 19, MulticastDecision::WrongInterface, 3),
        (Asks::Assistant, 20, MulticastDecision::Linux, 3),
        (Asks::Owner, 20, MulticastDecision::Linux, 4),
    ] {
        assert_eq!(decided(&groups, asks, "232.2.2.2", 1, tenths), (to, 0, counted), "{tenths}");
    }
}
