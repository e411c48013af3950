// SPDX-License-Identifier: MIT
//! Routes in, forwarding out: the control thread's end together with the workers' view.

use std::net::IpAddr;

use perigee_fib::{Action, Dir24Writer, Fib, FibError, FibWriter, Leaf, NextHopId, NextHopKind, Trie6Writer, Via};
use perigee_net::{
    InterfaceId, LinuxOnly, MacAddr, Member, Multipath, Prefix, Route, RouteKey, RouteSource, RouteTarget,
};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
const LAN: InterfaceId = InterfaceId(3);
const WAN: InterfaceId = InterfaceId(4);

fn prefix(text: &str) -> Prefix {
    text.parse().expect(text)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn route(source: RouteSource, target: RouteTarget) -> Route {
    Route::new(source, target)
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

        let finally = |fib: &Fib| fib.lookup_flow(ip(host), 0).1.action();
        writer.set_neighbor(LAN, ip(host), Some(MAC));
        assert_eq!(finally(&fib), Action::Unresolved { interface: LAN }, "not said to be on the link");
        writer.set_on_link(LAN, ip(host), true).expect("room");
        assert_eq!(finally(&fib), Action::Forward { interface: LAN, mac: MAC });
        assert_eq!(writer.found_on_link(LAN, ip(host)), Some(MAC));
        assert_eq!(writer.on_link().collect::<Vec<_>>(), [(LAN, ip(host), Some(MAC))]);
        assert_eq!(writer.rib().prefixes(), 8, "it takes no prefix");

        writer.set_neighbor(LAN, ip(host), None);
        assert_eq!(finally(&fib), Action::Unresolved { interface: LAN });
        writer.set_neighbor(LAN, ip(host), Some(MAC));
        writer.set_on_link(LAN, ip(host), false).expect("a removal");
        assert_eq!(finally(&fib), Action::Unresolved { interface: LAN });
        // By another link it is another neighbor.
        writer.set_on_link(WAN, ip(host), true).expect("room");
        assert_eq!(finally(&fib), Action::Unresolved { interface: LAN });
    }
}

#[test]
fn own_addresses_and_addresses_without_a_route() {
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
            (RouteTarget::ToLinux(LinuxOnly::Type), Action::ToLinux),
            (RouteTarget::Refused(LinuxOnly::Type), Action::Refused),
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
    assert_eq!(writer.via(id), Some(Via { interface: WAN, gateway: Some(ip("198.51.100.9")) }));
    let same = Leaf::Via(Via { interface: WAN, gateway: Some(ip("198.51.100.9")) });
    assert_eq!(writer.decide(ip("8.8.8.8"), 0), same, "the interface was found");
    assert_eq!(writer.reached_by(ip("198.51.100.9")), writer.via(id));
    writer.set_neighbor(WAN, ip("198.51.100.9"), Some(MAC));
    for address in ["10.1.1.1", "8.8.8.8"] {
        assert_eq!(action(&fib, address), Action::Forward { interface: WAN, mac: MAC });
    }
    assert_eq!(action(&fib, "198.51.100.9"), Action::Unresolved { interface: WAN }, "that address is not on the link");
}

#[test]
fn a_gateway_with_a_host_route_of_its_own_is_connected() {
    let mut writer = router();
    let target = RouteTarget::Gateway { address: ip("198.51.100.9"), interface: Some(WAN) };
    writer.insert(prefix("198.51.100.9/32"), route(RouteSource::Static, target)).expect("room");
    assert_eq!(writer.link_of(ip("198.51.100.9")), Ok(WAN));
    writer.insert(prefix("10.0.0.0/8"), via("198.51.100.9", None)).expect("found through the route to it");
    assert_eq!(action(&writer.reader(), "10.0.0.1"), Action::Unresolved { interface: WAN });
}

/// What is longer than the connected network comes before its neighbors, even while its own gateway is not resolved.
#[test]
fn a_longer_prefix_in_a_connected_network_comes_before_the_neighbor() {
    let mut writer = router();
    let fib = writer.reader();
    writer.set_neighbor(LAN, ip("192.0.2.9"), Some(MAC));
    writer.set_on_link(LAN, ip("192.0.2.9"), true).expect("room");
    writer.insert(prefix("192.0.2.8/29"), via("192.0.2.77", Some(LAN))).expect("room");
    let finally = |fib: &Fib| fib.lookup_flow(ip("192.0.2.9"), 0).1.action();
    assert_eq!(finally(&fib), Action::Unresolved { interface: LAN });
    writer.insert(prefix("192.0.2.9/32"), route(RouteSource::Static, RouteTarget::Blackhole)).expect("room");
    assert_eq!(finally(&fib), Action::Blackhole);
    writer.remove(prefix("192.0.2.9/32"), RouteKey::of(RouteSource::Static)).expect("there");
    writer.remove(prefix("192.0.2.8/29"), RouteKey::of(RouteSource::Static)).expect("there");
    assert_eq!(finally(&fib), Action::Forward { interface: LAN, mac: MAC });
}

/// A destination behind several links is a neighbor on the link of its flow.
#[test]
fn links_that_are_members_of_a_group_have_neighbors_of_their_own() {
    let mut writer = router();
    let member = |interface| Member { address: None, interface: Some(interface), weight: 1 };
    let target = RouteTarget::Multipath(Multipath::new(&[member(LAN), member(WAN)]).expect("two"));
    writer.insert(prefix("10.9.0.0/16"), route(RouteSource::Static, target)).expect("room");
    let other = MacAddr([2, 0, 0, 0, 0, 8]);
    for (interface, mac) in [(LAN, MAC), (WAN, other)] {
        writer.set_neighbor(interface, ip("10.9.0.9"), Some(mac));
        writer.set_on_link(interface, ip("10.9.0.9"), true).expect("room");
    }
    let fib = writer.reader();
    let mut ways = [0; 2];
    for flow in 0..200u32 {
        match fib.lookup_flow(ip("10.9.0.9"), flow.wrapping_mul(0x9e37_79b9)).1.action() {
            Action::Forward { interface: LAN, mac: MAC } => ways[0] += 1,
            Action::Forward { interface: WAN, mac } if mac == other => ways[1] += 1,
            action => panic!("{action:?}"),
        }
    }
    assert!(ways.iter().all(|n| *n > 50), "{ways:?}");
}

#[test]
fn a_better_source_takes_over_and_gives_back() {
    let mut writer = router();
    let fib = writer.reader();
    writer.insert(prefix("192.0.2.0/24"), via("198.51.100.9", None)).expect("room");
    assert_eq!(action(&fib, "192.0.2.9"), Action::Unresolved { interface: LAN }, "connected before static");
    writer.remove(prefix("192.0.2.0/24"), RouteKey::of(RouteSource::Connected)).expect("there");
    assert_eq!(action(&fib, "192.0.2.9"), Action::Unresolved { interface: WAN });
    assert_eq!(writer.rib().routes(prefix("192.0.2.0/24")).len(), 1);
}

#[test]
fn a_refused_change_leaves_everything_as_it_was() {
    let mut writer = router();
    let before = writer.rib().prefixes();
    assert_eq!(
        writer.link_of(ip("10.0.0.1")).expect_err("nowhere").to_string(),
        "gateway 10.0.0.1 is not on a connected network; name the interface, or give one an address in its network"
    );
    assert!(writer.link_of(ip("192.0.2.1")).is_err(), "the router itself");
    assert_eq!(writer.link_of(ip("192.0.2.2")), Ok(LAN));
    let mut refusal = |text: &str, route| writer.insert(prefix(text), route).expect_err("refused").to_string();
    assert_eq!(
        refusal("10.0.0.0/8", via("2001:db8:1::9", None)),
        "gateway 2001:db8:1::9 is of another family than 10.0.0.0/8; name the interface it is on"
    );
    for gateway in ["224.0.0.1", "0.0.0.0", "255.255.255.255", "127.0.0.1", "ff02::1", "::", "::1"] {
        let expected = format!("gateway {gateway} is not the address of a neighbor; expected a unicast address");
        assert_eq!(refusal("10.0.0.0/8", via(gateway, Some(LAN))), expected);
    }
    let missing = writer.remove(prefix("10.0.0.0/8"), RouteKey::of(RouteSource::Static));
    assert_eq!(missing.expect_err("missing").to_string(), "there is no such route to 10.0.0.0/8");
    assert_eq!(writer.rib().prefixes(), before);
}

#[test]
fn out_of_next_hops_the_replaced_route_is_back() {
    let mut writer = FibWriter::new(1).expect("memory");
    let (net, first) = (prefix("10.0.0.0/8"), via("192.0.2.1", Some(LAN)));
    writer.insert(net, first.clone()).expect("room for one");
    let error = writer.insert(net, via("192.0.2.2", Some(LAN))).expect_err("full");
    assert!(matches!(error, FibError::NextHop(_)), "{error}");
    assert!(writer.insert(prefix("11.0.0.0/8"), via("192.0.2.2", Some(LAN))).is_err());
    assert_eq!(writer.rib().routes(net).iter().collect::<Vec<_>>(), [&first]);
    assert_eq!(writer.rib().prefixes(), 1);
    let (id, _) = writer.reader().lookup(ip("10.0.0.1"));
    assert_eq!(writer.via(id), Some(Via { interface: LAN, gateway: Some(ip("192.0.2.1")) }));
}

#[test]
fn unused_next_hops_wait_and_come_back() {
    let mut writer = FibWriter::with(
        1,
        Box::new(Dir24Writer::new().expect("memory")),
        Box::new(Trie6Writer::new().expect("memory")),
    )
    .expect("memory");
    let mut published = perigee_fib::Published::new(());
    let mut worker = published.subscribe();
    let net = prefix("2001:db8::/32");
    writer.insert(net, via("2001:db8::1", Some(LAN))).expect("room");
    writer.remove(net, RouteKey::of(RouteSource::Static)).expect("there");
    assert_eq!(writer.retired(), 3, "a next hop and two nodes");
    writer.reclaim(published.grace());
    worker.refresh();
    writer.reclaim(published.grace());
    assert!(writer.insert(net, via("2001:db8::2", Some(LAN))).is_err(), "not committed: readers may still find it");
    writer.commit().expect("patched in place");
    writer.reclaim(published.grace());
    assert!(writer.insert(net, via("2001:db8::2", Some(LAN))).is_err(), "the worker is in its batch");
    worker.refresh();
    writer.reclaim(published.grace());
    assert_eq!(writer.retired(), 0);
    writer.insert(net, via("2001:db8::2", Some(LAN))).expect("room again");
}

fn several(members: &[(&str, Option<InterfaceId>, u16)]) -> Route {
    let members =
        members.iter().map(|&(address, interface, weight)| Member { address: Some(ip(address)), interface, weight });
    let multipath = Multipath::new(&members.collect::<Vec<_>>()).expect("in range");
    route(RouteSource::Static, RouteTarget::Multipath(multipath))
}

/// How many of 10,000 flows take each action, the rarest first.
fn spread(fib: &Fib, address: &str) -> Vec<(Action, u32)> {
    let mut counts: Vec<(Action, u32)> = Vec::new();
    for flow in 0..10_000u32 {
        let action = fib.lookup_flow(ip(address), flow.wrapping_mul(0x9e37_79b9)).1.action();
        match counts.iter_mut().find(|(seen, _)| *seen == action) {
            Some((_, count)) => *count += 1,
            None => counts.push((action, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| *count);
    counts
}

#[test]
fn flows_spread_by_weight_and_move_only_when_they_must() {
    let mut writer = router();
    let fib = writer.reader();
    let members = [("192.0.2.9", Some(LAN), 1), ("198.51.100.9", Some(WAN), 3)];
    writer.insert(prefix("10.0.0.0/8"), several(&members)).expect("room");
    writer.insert(prefix("11.0.0.0/8"), several(&[members[1], members[0]])).expect("room");
    let (id, word) = fib.lookup(ip("10.0.0.1"));
    assert!(word.is_group() && !word.is_forward() && word.action() == Action::Group);
    assert_eq!(fib.lookup(ip("11.0.0.1")).0, id, "equal groups are one");

    let unresolved = spread(&fib, "10.0.0.1");
    assert!(unresolved.iter().all(|(action, _)| matches!(action, Action::Unresolved { .. })), "all are asked for");
    assert_eq!(unresolved.len(), 2);
    writer.set_neighbor(LAN, ip("192.0.2.9"), Some(MAC));
    let lan = Action::Forward { interface: LAN, mac: MAC };
    assert_eq!(spread(&fib, "10.0.0.1"), [(lan, 10_000)], "only one is resolved: it gets everything");
    writer.set_neighbor(WAN, ip("198.51.100.9"), Some(MAC));
    let both = spread(&fib, "10.0.0.1");
    assert_eq!(both[0].0, lan);
    // A quarter of 10,000, and five standard deviations of 43.
    assert!(both[0].1.abs_diff(2500) < 220, "{both:?}");
    writer.set_neighbor(WAN, ip("198.51.100.9"), None);
    writer.set_neighbor(WAN, ip("198.51.100.9"), Some(MAC));
    assert_eq!(spread(&fib, "10.0.0.1"), both, "back to where they were");
    assert_eq!(writer.required_neighbors(), [(LAN, ip("192.0.2.9")), (WAN, ip("198.51.100.9"))].into());

    let group = writer.next_hops().find(|hop| hop.id == id).expect("in use");
    let NextHopKind::Group { members, buckets } = group.kind else { panic!("{group:?}") };
    assert_eq!((group.uses, buckets), (2, 128));
    assert_eq!(members.iter().map(|member| (member.weight, member.buckets)).collect::<Vec<_>>(), [(1, 32), (3, 96)]);
}

#[test]
fn links_without_a_gateway_get_shares_by_weight() {
    let mut writer = router();
    let fib = writer.reader();
    let link = |interface, weight| Member { address: None, interface: Some(interface), weight };
    let neighbor = Member { address: Some(ip("192.0.2.9")), ..link(LAN, 2) };
    let multipath = Multipath::new(&[link(LAN, 1), link(WAN, 1), neighbor]).expect("in range");
    writer.insert(prefix("10.0.0.0/8"), route(RouteSource::Linux, RouteTarget::Multipath(multipath))).expect("room");
    writer.set_neighbor(LAN, ip("192.0.2.9"), Some(MAC));
    let shares = spread(&fib, "10.1.1.1");
    assert_eq!(shares.len(), 3, "{shares:?}");
    assert_eq!(shares[2].0, Action::Forward { interface: LAN, mac: MAC });
    for (action, count) in &shares[..2] {
        assert!(matches!(action, Action::Unresolved { .. }));
        // A quarter of 10,000, and five standard deviations of 43.
        assert!(count.abs_diff(2500) < 220, "{shares:?}");
    }
    let ways: std::collections::BTreeSet<_> =
        (0..1000u32).map(|flow| format!("{:?}", writer.decide(ip("10.1.1.1"), flow))).collect();
    let leaf = |interface, gateway| format!("{:?}", Leaf::Via(Via { interface, gateway }));
    assert_eq!(ways, [leaf(LAN, None), leaf(WAN, None), leaf(LAN, Some(ip("192.0.2.9")))].into());

    // A gateway that is reached over it is a neighbor on each of the links.
    writer.insert(prefix("11.0.0.0/8"), via("10.7.7.7", None)).expect("room");
    assert!(writer.required_neighbors().is_superset(&[(LAN, ip("10.7.7.7")), (WAN, ip("10.7.7.7"))].into()));
    writer.set_neighbor(WAN, ip("10.7.7.7"), Some(MacAddr([2, 0, 0, 0, 0, 8])));
    let shares = spread(&fib, "11.0.0.1");
    assert!(
        shares
            .iter()
            .any(|(action, _)| *action == Action::Forward { interface: WAN, mac: MacAddr([2, 0, 0, 0, 0, 8]) })
    );
}

/// RFC 5549: an IPv4 route through a gateway with an IPv6 address.
#[test]
fn ipv4_over_an_ipv6_gateway() {
    let mut writer = router();
    let fib = writer.reader();
    let other = MacAddr([2, 0, 0, 0, 0, 8]);
    writer.insert(prefix("10.0.0.0/8"), via("fe80::9", Some(LAN))).expect("room");
    let both = [("fe80::9", Some(LAN), 1), ("198.51.100.9", Some(WAN), 1)];
    writer.insert(prefix("11.0.0.0/8"), several(&both)).expect("room");
    assert_eq!(writer.required_neighbors(), [(LAN, ip("fe80::9")), (WAN, ip("198.51.100.9"))].into());
    assert_eq!(action(&fib, "10.1.1.1"), Action::Unresolved { interface: LAN });
    assert_eq!(writer.decide(ip("10.1.1.1"), 0), Leaf::Via(Via { interface: LAN, gateway: Some(ip("fe80::9")) }));
    writer.set_neighbor(WAN, ip("198.51.100.9"), Some(other));
    writer.set_neighbor(LAN, ip("fe80::9"), Some(MAC));
    assert_eq!(action(&fib, "10.1.1.1"), Action::Forward { interface: LAN, mac: MAC });
    let mut ways: Vec<Action> = spread(&fib, "11.1.1.1").into_iter().map(|(action, _)| action).collect();
    ways.sort_by_key(|action| format!("{action:?}"));
    let forward = |interface, mac| Action::Forward { interface, mac };
    assert_eq!(ways, [forward(LAN, MAC), forward(WAN, other)]);
    // The route to the gateway's network does not matter, as the gateway has its interface.
    writer.remove(prefix("2001:db8:1::/64"), RouteKey::of(RouteSource::Connected)).expect("there");
    assert_eq!(action(&fib, "10.1.1.1"), forward(LAN, MAC));
}

#[test]
fn another_seed_sends_flows_another_way() {
    let mut writer = router();
    let fib = writer.reader();
    writer
        .insert(prefix("10.0.0.0/8"), several(&[("192.0.2.9", Some(LAN), 1), ("192.0.2.8", Some(LAN), 1)]))
        .expect("room");
    let way = |flow| fib.lookup_flow(ip("10.0.0.1"), flow).0;
    let before: Vec<NextHopId> = (0..1000).map(way).collect();
    writer.set_seed(7);
    let same = (0..1000).filter(|flow| way(*flow) == before[*flow as usize]).count();
    assert!((400..600).contains(&same), "{same} of 1000 flows took the same path: the seeds are not independent");
}

#[test]
fn recursive_routes_follow_their_gateway() {
    let mut writer = router();
    let fib = writer.reader();
    let far = prefix("10.0.0.0/8");
    writer.insert(far, via("203.0.113.1", None)).expect("inactive, but no error");
    writer.insert(far, via("192.0.2.9", Some(LAN)).with_preference(200)).expect("room");
    assert_eq!(action(&fib, "10.0.0.1"), Action::Unresolved { interface: LAN }, "the next best one");
    assert_eq!(writer.rib().chosen(far).map(|route| route.preference), Some(200));

    writer.insert(prefix("203.0.113.0/24"), via("198.51.100.9", None)).expect("room");
    assert_eq!(action(&fib, "10.0.0.1"), Action::Unresolved { interface: WAN }, "over two gateways");
    let (id, _) = fib.lookup(ip("10.0.0.1"));
    assert_eq!(writer.required_neighbors(), [(LAN, ip("192.0.2.9")), (WAN, ip("198.51.100.9"))].into());
    writer.set_neighbor(WAN, ip("198.51.100.9"), Some(MAC));
    assert_eq!(action(&fib, "10.0.0.1"), Action::Forward { interface: WAN, mac: MAC });

    writer.insert(prefix("203.0.113.0/24"), via("192.0.2.7", None)).expect("room");
    assert_eq!(action(&fib, "10.0.0.1"), Action::Unresolved { interface: LAN });
    assert_eq!(fib.lookup(ip("10.0.0.1")).0, id, "the route's next hop keeps its id and gets another word");
    writer.insert(prefix("203.0.113.1/32"), route(RouteSource::Dynamic, RouteTarget::Blackhole)).expect("room");
    assert_eq!(action(&fib, "10.0.0.1"), Action::Blackhole, "RFC 5635");

    writer.remove(prefix("203.0.113.1/32"), RouteKey::of(RouteSource::Dynamic)).expect("there");
    writer.remove(prefix("203.0.113.0/24"), RouteKey::of(RouteSource::Static)).expect("there");
    assert_eq!(writer.rib().chosen(far).map(|route| route.preference), Some(200));
}

/// The interface of a gateway follows later changes of addresses.
#[test]
fn a_network_that_moves_takes_its_gateways_along() {
    let mut writer = router();
    let fib = writer.reader();
    writer.insert(prefix("10.0.0.0/8"), via("198.51.100.9", None)).expect("room");
    let connected = |interface| route(RouteSource::Connected, RouteTarget::Connected { interface });
    writer.insert(prefix("198.51.100.0/24"), connected(LAN)).expect("room");
    assert_eq!(action(&fib, "10.0.0.1"), Action::Unresolved { interface: LAN });
    writer.remove(prefix("198.51.100.0/24"), connected(LAN).key()).expect("there");
    assert_eq!(action(&fib, "10.0.0.1"), Action::NoRoute);
    assert_eq!(writer.rib().routes(prefix("10.0.0.0/8")).len(), 1, "it stays, inactive");
    writer.insert(prefix("198.51.100.0/25"), connected(WAN)).expect("room");
    assert_eq!(action(&fib, "10.0.0.1"), Action::Unresolved { interface: WAN });
}

#[test]
fn loops_and_long_chains_are_not_used() {
    let mut writer = router();
    let fib = writer.reader();
    writer.insert(prefix("10.0.0.0/8"), via("10.1.1.1", None)).expect("a loop is no error");
    assert_eq!(action(&fib, "10.0.0.1"), Action::NoRoute, "through itself");
    writer.insert(prefix("172.16.0.0/12"), via("10.2.2.2", None)).expect("room");
    writer.insert(prefix("10.2.0.0/16"), via("172.16.0.1", None)).expect("room");
    assert_eq!(action(&fib, "172.17.0.1"), Action::NoRoute, "through each other");
    writer.insert(prefix("172.16.0.0/24"), via("192.0.2.9", None)).expect("room");
    assert_eq!(action(&fib, "172.17.0.1"), Action::Unresolved { interface: LAN }, "a longer prefix breaks the loop");
    // A chain of 20.0.<n>.0/24 via 20.0.<n+1>.1, whose last network is reached through a neighbor.
    let mut writer = router();
    let fib = writer.reader();
    for n in 0..2000u32 {
        let [hi, lo] = [n >> 8, n & 0xff];
        let next = format!("20.{}.{}.1", (n + 1) >> 8, (n + 1) & 0xff);
        writer.insert(prefix(&format!("20.{hi}.{lo}.0/24")), via(&next, None)).expect("room");
        if n == 90 {
            break;
        }
    }
    writer.insert(prefix("20.0.91.0/24"), via("192.0.2.9", None)).expect("room");
    assert_eq!(action(&fib, "20.0.91.7"), Action::Unresolved { interface: LAN });
    assert_eq!(action(&fib, "20.0.84.7"), Action::Unresolved { interface: LAN }, "eight gateways");
    assert_eq!(action(&fib, "20.0.83.7"), Action::NoRoute, "nine");
}

#[test]
fn the_default_route_reaches_no_gateway_unless_it_is_allowed() {
    for allowed in [false, true] {
        let mut writer = FibWriter::new(100).expect("memory");
        if allowed {
            writer = writer.resolving_via_default();
        }
        writer.insert(prefix("0.0.0.0/0"), via("192.0.2.1", Some(LAN))).expect("room");
        writer.insert(prefix("10.0.0.0/8"), via("203.0.113.1", None)).expect("room");
        assert_eq!(writer.rib().chosen(prefix("10.0.0.0/8")).is_some(), allowed);
    }
}

#[test]
fn a_load_is_all_or_nothing() {
    let mut writer = router();
    writer.commit().expect("patched in place");
    let before: Vec<(Prefix, Vec<Route>)> =
        writer.rib().iter().map(|(p, routes, _)| (p, routes.iter().cloned().collect())).collect();
    let many = |n: u32| {
        (0..n).map(|n| (Prefix::host(IpAddr::V4((n << 8).into())), via(&format!("192.0.2.{}", n + 2), Some(LAN))))
    };
    let error = writer.load(many(200)).expect_err("100 next hops only");
    assert!(matches!(error, FibError::NextHop(_)), "{error}");
    let after: Vec<(Prefix, Vec<Route>)> =
        writer.rib().iter().map(|(p, routes, _)| (p, routes.iter().cloned().collect())).collect();
    assert_eq!(before, after);
    assert_eq!(action(&writer.reader(), "192.0.2.9"), Action::Unresolved { interface: LAN });

    let mut writer = router();
    writer.load(many(90)).expect("room");
    let fib = writer.reader();
    assert_eq!((action(&fib, "192.0.2.9"), writer.rib().prefixes()), (Action::NoRoute, 90));
    assert_eq!(action(&fib, "0.0.1.0"), Action::Unresolved { interface: LAN });
}
