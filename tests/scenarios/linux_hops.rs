// SPDX-License-Identifier: MIT
//! Several next hops: multipath routes, and routes that name next-hop objects, which change while they are in use.

use perigee_tests::{Good, Host, Router, Wire, World, frame, wait_until};
use serde_json::Value;

perigee_tests::scenarios![multipath_routes, next_hop_objects,];

const PORTS: &str = r#"
[port.wan]
interface = "w-wan"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.one]
interface = "r-one"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
[port.two]
interface = "r-two"
addresses = ["10.0.3.1/24", "2001:db8:3::1/64"]
"#;

/// A wire, the router, and the hosts behind ports one and two.
pub fn started(world: &World) -> (Wire, Router, [Host; 2]) {
    let wire = world.wire("w-wan");
    let hosts = [("one", 2), ("two", 3)].map(|(name, net)| {
        let host = world.host(name, &[&format!("10.0.{net}.2/24"), &format!("2001:db8:{net}::2/64")], &[]);
        // They take the packets and do not answer.
        host.run("ip route add blackhole 10.9.0.0/16").good();
        host.set("ipv4/ip_forward", "1");
        host
    });
    let router = world.router("", PORTS);
    let resolved = |address: &str| router.neighbor(address).is_some_and(|(_, mac)| !mac.is_null());
    // Routes over both, so that both are resolved.
    world.ip("route add 10.99.0.0/24 nexthop via 10.0.2.2 nexthop via 10.0.3.2");
    wait_until("both gateways to be known", || resolved("10.0.2.2") && resolved("10.0.3.2"));
    (wire, router, hosts)
}

/// Gateways and weights of a route, in order.
fn gateways(route: &Value) -> Vec<(String, u64)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let several = route["gateways"].as_array().into_iter().flatten();
    let mut all: Vec<_> = several.filter_map(|entry| Some((text(&entry["via"])?, entry["weight"].as_u64()?))).collect();
    if all.is_empty() {
        all.extend(text(&route["via"]).map(|via| (via, 1)));
    }
    all.sort();
    all
}

/// Waits until a route leads to these gateways, with these weights.
#[track_caller]
pub fn has(router: &Router, prefix: &str, wanted: &[(&str, u64)]) {
    let same = |route: &Value| {
        let found = gateways(route);
        found.iter().map(|(via, weight)| (via.as_str(), *weight)).eq(wanted.iter().copied())
    };
    router.becomes(prefix, |route| route.is_some_and(same));
}

/// How many of 200 flows to an address left by ports one and two.
fn shares(wire: &Wire, router: &Router, address: &str) -> [u64; 2] {
    const FLOWS: u16 = 200;
    let (mac, received) = (router.mac("wan"), router.workers("received"));
    let sent = |port: &str| router.port(port)["counters"]["transmit_packets"].as_u64().expect("a number");
    let before = ["one", "two"].map(sent);
    for flow in 0..FLOWS {
        wire.send(&frame::udp4_ports(mac, "10.0.1.2", address, (2000 + flow, 9), 20));
        if flow % 32 == 31 {
            wait_until("the router to keep up", || router.workers("received") - received > u64::from(flow));
        }
    }
    let now = || {
        let after = ["one", "two"].map(sent);
        [after[0] - before[0], after[1] - before[1]]
    };
    wait_until("all flows to have left", || now().iter().sum::<u64>() >= u64::from(FLOWS));
    now()
}

fn multipath_routes(world: &World) {
    let (wire, router, _hosts) = started(world);
    world.ip("route add 10.9.1.0/24 nexthop via 10.0.2.2 weight 3 nexthop via 10.0.3.2 weight 1");
    has(&router, "10.9.1.0/24", &[("10.0.2.2", 3), ("10.0.3.2", 1)]);
    let [one, two] = shares(&wire, &router, "10.9.1.1");
    // A quarter of 200, and six standard deviations of 6.1; a few more packets are the neighbors' own.
    assert!((13..=87).contains(&two) && one > two, "{one} and {two}");
    world.ip("route replace 10.9.1.0/24 nexthop via 10.0.3.2 weight 1");
    has(&router, "10.9.1.0/24", &[("10.0.3.2", 1)]);
    let [one, _] = shares(&wire, &router, "10.9.1.1");
    // Not one flow, but packets of the neighbors' own, a few each second that this takes.
    assert!(one < 50, "{one}");

    // IPv6: members come and go one by one.
    world.ip("-6 route add 2001:db8:9::/48 nexthop via 2001:db8:2::2 nexthop via 2001:db8:3::2");
    has(&router, "2001:db8:9::/48", &[("2001:db8:2::2", 1), ("2001:db8:3::2", 1)]);
    world.ip("-6 route del 2001:db8:9::/48 via 2001:db8:2::2");
    has(&router, "2001:db8:9::/48", &[("2001:db8:3::2", 1)]);
    world.ip("-6 route append 2001:db8:9::/48 via 2001:db8:2::2");
    has(&router, "2001:db8:9::/48", &[("2001:db8:2::2", 1), ("2001:db8:3::2", 1)]);
    world.ip("-6 route del 2001:db8:9::/48");
    router.loses("2001:db8:9::/48");
    router.alone();
    router.audited();
    router.stop();
}

fn next_hop_objects(world: &World) {
    let (wire, router, _hosts) = started(world);
    world.ip("nexthop add id 1 via 10.0.2.2 dev one");
    world.ip("nexthop add id 2 via 10.0.3.2 dev two");
    world.ip("nexthop add id 10 group 1,3/2,1");
    for number in 1..=50 {
        world.ip(&format!("route add 10.9.{number}.0/24 nhid 10"));
    }
    world.ip("route add 10.9.100.0/24 nhid 1");
    has(&router, "10.9.50.0/24", &[("10.0.2.2", 3), ("10.0.3.2", 1)]);
    has(&router, "10.9.100.0/24", &[("10.0.2.2", 1)]);
    let [one, two] = shares(&wire, &router, "10.9.1.1");
    assert!((13..=87).contains(&two) && one > two, "{one} and {two}");

    // Changing an object changes all its routes, without a notification about any of them.
    world.ip("nexthop replace id 10 group 2");
    for number in [1, 25, 50] {
        has(&router, &format!("10.9.{number}.0/24"), &[("10.0.3.2", 1)]);
    }
    let [one, _] = shares(&wire, &router, "10.9.7.1");
    assert!(one < 50, "{one}");
    world.ip("nexthop replace id 1 via 10.0.3.2 dev two");
    has(&router, "10.9.100.0/24", &[("10.0.3.2", 1)]);
    world.ip("nexthop add id 3 via 10.0.2.2 dev one");
    world.ip("nexthop replace id 10 group 2/3");
    has(&router, "10.9.25.0/24", &[("10.0.2.2", 1), ("10.0.3.2", 1)]);
    router.audited();

    // A deleted member leaves its groups; the last one takes the group and its routes with it.
    world.ip("nexthop del id 3");
    has(&router, "10.9.25.0/24", &[("10.0.3.2", 1)]);
    world.ip("nexthop add id 4 blackhole");
    world.ip("route add 10.9.200.0/24 nhid 4");
    router.becomes("10.9.200.0/24", |route| route.is_some_and(|route| route["action"] == "blackhole"));
    for id in [10, 1, 4] {
        world.ip(&format!("nexthop del id {id}"));
    }
    for lost in ["10.9.1.0/24", "10.9.50.0/24", "10.9.100.0/24", "10.9.200.0/24"] {
        router.loses(lost);
    }
    // Deleting the link removes the rest.
    world.ip("route add 10.9.1.0/24 nhid 2");
    router.leads("10.9.1.0/24", "two");
    world.ip("link set two down");
    router.loses("10.9.1.0/24");
    router.alone();
    router.audited();
    router.stop();
}
