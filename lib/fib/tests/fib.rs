// SPDX-License-Identifier: MIT
//! Routes in, forwarding out: the control thread's end and the workers' view together.

use std::net::IpAddr;

use perigee_fib::{
    Action, Fib, FibError, FibWriter, InterfaceId, Mac, NextHopId, Prefix, Route, RouteSource, RouteTarget, Via,
};

const MAC: Mac = [2, 0, 0, 0, 0, 7];
const LAN: InterfaceId = InterfaceId(3);
const WAN: InterfaceId = InterfaceId(4);

fn prefix(text: &str) -> Prefix {
    text.parse().expect(text)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn route(source: RouteSource, target: RouteTarget) -> Route {
    Route { source, metric: 0, target }
}

fn via(gateway: &str, interface: Option<InterfaceId>) -> Route {
    route(RouteSource::Static, RouteTarget::Gateway { address: ip(gateway), interface })
}

fn action(fib: &Fib, address: &str) -> Action {
    fib.lookup(ip(address)).1.action()
}

/// Two networks of each family, the router's own addresses in them.
fn router() -> FibWriter {
    let mut writer = FibWriter::new(100).expect("memory");
    for (net, own, interface) in [
        ("192.0.2.0/24", "192.0.2.1/32", LAN),
        ("198.51.100.0/24", "198.51.100.1/32", WAN),
        ("2001:db8:1::/64", "2001:db8:1::1/128", LAN),
        ("2001:db8:2::/64", "2001:db8:2::1/128", WAN),
    ] {
        let connected = route(RouteSource::Connected, RouteTarget::Connected { interface });
        writer.insert(prefix(net), connected).expect("room");
        writer.insert(prefix(own), route(RouteSource::Local, RouteTarget::Local)).expect("room");
    }
    writer
}

#[test]
fn connected_then_resolved_then_lost() {
    for host in ["192.0.2.9", "2001:db8:1::9"] {
        let mut writer = router();
        let fib = writer.reader();
        assert_eq!(action(&fib, host), Action::Unresolved { interface: LAN });
        let (id, _) = fib.lookup(ip(host));
        assert_eq!(writer.via(id), Some(Via { interface: LAN, gateway: None }));

        writer.set_neighbor(LAN, ip(host), Some(MAC));
        assert_eq!(action(&fib, host), Action::Unresolved { interface: LAN }, "no route of its own yet");
        let gateway = RouteTarget::Gateway { address: ip(host), interface: Some(LAN) };
        writer.insert(Prefix::host(ip(host)), route(RouteSource::Neighbor, gateway)).expect("room");
        assert_eq!(action(&fib, host), Action::Forward { interface: LAN, mac: MAC });

        writer.remove(Prefix::host(ip(host)), RouteSource::Neighbor, 0).expect("there");
        assert_eq!(action(&fib, host), Action::Unresolved { interface: LAN });
    }
}

#[test]
fn own_addresses_and_nowhere() {
    let mut writer = router();
    let fib = writer.reader();
    for own in ["192.0.2.1", "2001:db8:2::1"] {
        assert_eq!(fib.lookup(ip(own)), (NextHopId::LOCAL, fib.next_hops.get(NextHopId::LOCAL)));
        assert_eq!(action(&fib, own), Action::Local);
    }
    for far in ["203.0.113.1", "2001:db8:ffff::1"] {
        assert_eq!(action(&fib, far), Action::NoRoute);
        for (target, expected) in [
            (RouteTarget::Blackhole, Action::Blackhole),
            (RouteTarget::Unreachable, Action::Unreachable),
            (RouteTarget::Prohibit, Action::Prohibit),
        ] {
            writer.insert(Prefix::host(ip(far)), route(RouteSource::Static, target)).expect("room");
            assert_eq!(action(&fib, far), expected);
        }
    }
}

#[test]
fn one_store_resolves_every_route_through_a_gateway() {
    let mut writer = router();
    let fib = writer.reader();
    writer.insert(prefix("0.0.0.0/0"), via("198.51.100.9", None)).expect("room");
    writer.insert(prefix("10.0.0.0/8"), via("198.51.100.9", Some(WAN))).expect("room");
    let (id, hop) = fib.lookup(ip("10.1.1.1"));
    assert_eq!(hop.action(), Action::Unresolved { interface: WAN });
    assert_eq!(fib.lookup(ip("8.8.8.8")).0, id, "the interface was found, so it is the same next hop");
    assert_eq!(writer.via(id), Some(Via { interface: WAN, gateway: Some(ip("198.51.100.9")) }));
    writer.set_neighbor(WAN, ip("198.51.100.9"), Some(MAC));
    for address in ["10.1.1.1", "8.8.8.8"] {
        assert_eq!(action(&fib, address), Action::Forward { interface: WAN, mac: MAC });
    }
    assert_eq!(action(&fib, "198.51.100.9"), Action::Unresolved { interface: WAN }, "that is another's route");
}

#[test]
fn a_gateway_with_a_host_route_of_its_own_is_connected() {
    let mut writer = router();
    let target = RouteTarget::Gateway { address: ip("198.51.100.9"), interface: Some(WAN) };
    writer.insert(prefix("198.51.100.9/32"), route(RouteSource::Neighbor, target)).expect("room");
    writer.insert(prefix("10.0.0.0/8"), via("198.51.100.9", None)).expect("found through the neighbor's route");
    assert_eq!(action(&writer.reader(), "10.0.0.1"), Action::Unresolved { interface: WAN });
}

#[test]
fn a_better_source_takes_over_and_gives_back() {
    let mut writer = router();
    let fib = writer.reader();
    writer.insert(prefix("192.0.2.0/24"), via("198.51.100.9", None)).expect("room");
    assert_eq!(action(&fib, "192.0.2.9"), Action::Unresolved { interface: LAN }, "connected before static");
    writer.remove(prefix("192.0.2.0/24"), RouteSource::Connected, 0).expect("there");
    assert_eq!(action(&fib, "192.0.2.9"), Action::Unresolved { interface: WAN });
    assert_eq!(writer.rib().routes(prefix("192.0.2.0/24")).len(), 1);
}

#[test]
fn refused_and_as_it_was() {
    let mut writer = router();
    let before = writer.rib().prefixes();
    let mut why = |text: &str, route| writer.insert(prefix(text), route).expect_err("refused").to_string();
    assert_eq!(
        why("10.0.0.0/8", via("10.0.0.1", None)),
        "gateway 10.0.0.1 is not on a connected network; name the interface, or give one an address in its network"
    );
    assert!(why("10.0.0.0/8", via("192.0.2.1", None)).contains("not on a connected network"), "the router itself");
    for gateway in ["224.0.0.1", "0.0.0.0", "255.255.255.255", "127.0.0.1", "ff02::1", "::", "::1"] {
        let expected = format!("gateway {gateway} is not the address of a neighbor; expected a unicast address");
        assert_eq!(why("10.0.0.0/8", via(gateway, Some(LAN))), expected);
    }
    let missing = writer.remove(prefix("10.0.0.0/8"), RouteSource::Static, 0);
    assert_eq!(missing.expect_err("missing").to_string(), "there is no such route to 10.0.0.0/8");
    assert_eq!(writer.rib().prefixes(), before);
}

#[test]
fn out_of_next_hops_the_replaced_route_is_back() {
    let mut writer = FibWriter::new(1).expect("memory");
    let (net, first) = (prefix("10.0.0.0/8"), via("192.0.2.1", Some(LAN)));
    writer.insert(net, first).expect("room for one");
    let error = writer.insert(net, via("192.0.2.2", Some(LAN))).expect_err("full");
    assert!(matches!(error, FibError::NextHop(_)), "{error}");
    assert!(writer.insert(prefix("11.0.0.0/8"), via("192.0.2.2", Some(LAN))).is_err());
    assert_eq!((writer.rib().routes(net), writer.rib().prefixes()), (&[first][..], 1));
    let (id, _) = writer.reader().lookup(ip("10.0.0.1"));
    assert_eq!(writer.via(id), Some(Via { interface: LAN, gateway: Some(ip("192.0.2.1")) }));
}

#[test]
fn unused_next_hops_wait_and_come_back() {
    let mut writer = FibWriter::new(1).expect("memory");
    let mut published = perigee_fib::Published::new(());
    let mut worker = published.subscribe();
    let net = prefix("2001:db8::/32");
    writer.insert(net, via("2001:db8::1", Some(LAN))).expect("room");
    writer.remove(net, RouteSource::Static, 0).expect("there");
    assert_eq!(writer.waiting(), 3, "a next hop and two nodes");
    writer.reclaim(published.grace());
    assert!(writer.insert(net, via("2001:db8::2", Some(LAN))).is_err(), "the worker is in its batch");
    worker.refresh();
    writer.reclaim(published.grace());
    assert_eq!(writer.waiting(), 0);
    writer.insert(net, via("2001:db8::2", Some(LAN))).expect("room again");
}
