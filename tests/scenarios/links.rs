// SPDX-License-Identifier: MIT
//! A port's link goes down without any daemon: what was routed over it takes the next best route, the other members of its group, a
//! shorter prefix, or is unreachable; and comes back.
//!
//! ```text
//!                ┌── one ─── one: 20.0.0.1, 2001:db8:20::1
//! client ─── wan [perigee]
//!                └── two ─── two: 20.0.0.1, 2001:db8:20::1
//! ```

use perigee_tests::{Good, Host, Router, Wire, World, frame, wait_for, wait_until};
use serde_json::Value;

perigee_tests::scenarios![
    a_floating_route_takes_over_while_the_link_is_down,
    a_group_of_two_goes_on_with_one,
    a_connected_network_is_unreachable_and_its_address_is_not,
    routes_over_vlans_leave_with_their_port,
    routes_of_linux_are_out_of_use_while_the_link_is_down,
];

const PORTS: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.one]
interface = "r-one"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
[port.two]
interface = "r-two"
addresses = ["10.0.3.1/24", "2001:db8:3::1/64"]
"#;
const NETWORKS: [&str; 2] = ["20.0.0.0/24", "2001:db8:20::/48"];
const FAR: [&str; 2] = ["20.0.0.1", "2001:db8:20::1"];

/// The client, and two hosts that both have the far addresses.
struct Hosts {
    client: Host,
    one: Host,
    two: Host,
}

impl Hosts {
    fn new(world: &World) -> Hosts {
        let host = |name, net: u8| {
            let addresses = [format!("10.0.{net}.2/24"), format!("2001:db8:{net}::2/64")];
            let gateways = [format!("10.0.{net}.1"), format!("2001:db8:{net}::1")];
            world.host(name, &addresses.each_ref().map(String::as_str), &gateways.each_ref().map(String::as_str))
        };
        let hosts = Hosts { client: host("client", 1), one: host("one", 2), two: host("two", 3) };
        for far in [&hosts.one, &hosts.two] {
            far.run("ip addr add 20.0.0.1/32 dev lo").good();
            far.run("ip addr add 2001:db8:20::1/128 dev lo nodad").good();
        }
        hosts
    }

    fn reach(&self) {
        FAR.iter().for_each(|address| self.client.reaches(address));
    }
}

/// Cuts the cable of a port, or mends it, and waits until the router has seen it.
fn set_link(world: &World, router: &Router, port: &str, up: bool) {
    world.ip(&format!("link set r-{port} {}", if up { "up" } else { "down" }));
    wait_until("the router to see it", || router.port(port)["link_up"] == up);
}

/// The routes to a prefix that are out of use because of a link: their interfaces.
fn out_of_use(router: &Router, prefix: &str) -> Vec<Value> {
    router.routes(prefix).into_iter().filter(|route| route["down"] == true).map(|route| route["dev"].clone()).collect()
}

fn a_floating_route_takes_over_while_the_link_is_down(world: &World) {
    let hosts = Hosts::new(world);
    let mut routes = String::new();
    for (prefix, [near, far]) in NETWORKS.iter().zip([["10.0.2.2", "10.0.3.2"], ["2001:db8:2::2", "2001:db8:3::2"]]) {
        routes += &format!("[[route]]\nprefix = \"{prefix}\"\nvia = \"{near}\"\n");
        routes += &format!("[[route]]\nprefix = \"{prefix}\"\nvia = \"{far}\"\npreference = 200\n");
    }
    let router = world.router("", &format!("{PORTS}{routes}"));
    // The same by the API, by metric, over a gateway that the route above carries.
    router.ask("route add 30.0.0.0/24 recursive 20.0.0.1").good();
    let leads = |port: &str| ["30.0.0.0/24"].iter().chain(&NETWORKS).for_each(|prefix| router.leads(prefix, port));
    leads("one");
    hosts.reach();

    set_link(world, &router, "one", false);
    leads("two");
    NETWORKS.iter().for_each(|prefix| assert_eq!(out_of_use(&router, prefix), ["one"]));
    hosts.reach();
    let shown = router.ask("show routes").good().out;
    assert!(shown.contains("link down"), "{shown}");
    router.audited();

    set_link(world, &router, "two", false);
    NETWORKS.iter().for_each(|prefix| router.loses(prefix));
    hosts.client.ping_refused("20.0.0.1");
    set_link(world, &router, "one", true);
    leads("one");
    NETWORKS.iter().for_each(|prefix| assert_eq!(out_of_use(&router, prefix), ["two"]));
    hosts.reach();
    set_link(world, &router, "two", true);
    NETWORKS.iter().for_each(|prefix| assert_eq!(out_of_use(&router, prefix), [""; 0]));
    leads("one");

    // Its twin set down is the same to static routes.
    world.ip("link set one down");
    leads("two");
    hosts.reach();
    world.ip("link set one up");
    leads("one");
    hosts.reach();
    router.audited();
    router.alone();
    router.stop();
}

fn a_group_of_two_goes_on_with_one(world: &World) {
    let hosts = Hosts::new(world);
    let router = world.router("", PORTS);
    router.ask("route add 20.0.0.0/24 via 10.0.2.2 via 10.0.3.2").good();
    router.ask("route add 2001:db8:20::/48 via 2001:db8:2::2 via 2001:db8:3::2").good();
    hosts.reach();
    let shares = || {
        let hops = router.show("nexthops");
        let groups = hops.as_array().expect("a list").iter().filter(|hop| hop["kind"] == "group").cloned();
        let share = |member: &Value| member["share"].as_f64().expect("a share");
        groups
            .map(|group| group["members"].as_array().expect("members").iter().map(share).fold(0.0, f64::max))
            .collect::<Vec<_>>()
    };
    wait_until("all gateways to be known", || shares() == [0.5, 0.5]);
    for port in ["one", "two"] {
        set_link(world, &router, port, false);
        assert_eq!(shares(), [1.0, 1.0], "all flows have what is left");
        for prefix in NETWORKS {
            let route = router.route(prefix).expect("a route");
            let down: Vec<_> =
                route["gateways"].as_array().expect("several").iter().map(|g| g["down"] == true).collect();
            assert_eq!(down, [port == "one", port == "two"], "{route}");
        }
        hosts.reach();
        set_link(world, &router, port, true);
        wait_until("both to have their flows again", || shares() == [0.5, 0.5]);
    }
    for port in ["one", "two"] {
        set_link(world, &router, port, false);
    }
    NETWORKS.iter().for_each(|prefix| router.loses(prefix));
    hosts.client.ping_refused("20.0.0.1");
    hosts.client.ping_refused("2001:db8:20::1");
    router.alone();
    router.stop();
}

fn a_connected_network_is_unreachable_and_its_address_is_not(world: &World) {
    let hosts = Hosts::new(world);
    let router = world.router("", PORTS);
    let client = &hosts.client;
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    set_link(world, &router, "one", false);
    for prefix in ["10.0.2.0/24", "2001:db8:2::/64"] {
        router.loses(prefix);
        // The router's own, and Linux's.
        assert_eq!(out_of_use(&router, prefix), ["one", "one"]);
    }
    client.ping_refused("10.0.2.2");
    client.ping_refused("2001:db8:2::2");
    client.reaches("10.0.2.1");
    // A shorter prefix takes over.
    router.ask("route add 10.0.0.0/16 via 10.0.3.2").good();
    router.ask("route add 2001:db8::/32 via 2001:db8:3::2").good();
    hosts.two.run("ip addr add 10.0.2.9/32 dev lo").good();
    hosts.two.run("ip addr add 2001:db8:2::9/128 dev lo nodad").good();
    client.reaches("10.0.2.9");
    client.reaches("2001:db8:2::9");
    set_link(world, &router, "one", true);
    for prefix in ["10.0.2.0/24", "2001:db8:2::/64"] {
        router.leads(prefix, "one");
    }
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    router.audited();
    router.alone();
    router.stop();
}

/// The next UDP packet for an address that leaves by a wire, whose requests for neighbors are answered meanwhile.
fn leaves_by(wire: &Wire, address: &str, vid: Option<u16>) {
    let arrives = || {
        let frame = wire.next()?;
        if frame::arp(&frame).is_some() {
            wire.send(&frame::arp_reply(&frame));
        }
        (frame::is_udp_to(&frame, address) && frame::vid(&frame) == vid).then_some(())
    };
    wait_for(&format!("a packet for {address} with the tag {vid:?}"), arrives);
}

fn routes_over_vlans_leave_with_their_port(world: &World) {
    let (wan, trunk, spare) = (world.wire("r-wan"), world.wire("r-trunk"), world.wire("r-spare"));
    let configuration = r#"
[port.wan]
interface = "r-wan"
addresses = ["10.0.1.1/24"]
[port.trunk]
interface = "r-trunk"
[port.trunk.vlan.7]
addresses = ["10.0.7.1/24"]
[port.spare]
interface = "r-spare"
addresses = ["10.0.8.1/24"]
[[route]]
prefix = "20.0.0.0/24"
via = "10.0.7.2"
[[route]]
prefix = "20.0.0.0/24"
via = "10.0.8.2"
metric = 10
"#;
    let router = world.router("", configuration);
    let send = || wan.send(&frame::udp4(router.mac("wan"), "10.0.1.2", "20.0.0.1", 20));
    let by = |wire: &Wire, dev: &str, vid| {
        router.leads("20.0.0.0/24", dev);
        send();
        leaves_by(wire, "20.0.0.1", vid);
    };
    by(&trunk, "trunk.7", Some(7));
    set_link(world, &router, "trunk", false);
    by(&spare, "spare", None);
    assert_eq!(out_of_use(&router, "20.0.0.0/24"), ["trunk.7"]);
    set_link(world, &router, "trunk", true);
    by(&trunk, "trunk.7", Some(7));
    router.stop();
}

/// Linux keeps its IPv4 routes over a link without a carrier, and would send into it. The router does not, and remembers them: the
/// audit finds the same routes in both.
fn routes_of_linux_are_out_of_use_while_the_link_is_down(world: &World) {
    let hosts = Hosts::new(world);
    let router = world.router("", PORTS);
    world.ip("route add 20.0.0.0/24 via 10.0.2.2 metric 10");
    world.ip("route add 20.0.0.0/24 via 10.0.3.2 metric 20");
    world.ip("-6 route add 2001:db8:20::/48 via 2001:db8:2::2 metric 10");
    world.ip("-6 route add 2001:db8:20::/48 via 2001:db8:3::2 metric 20");
    let leads = |port| NETWORKS.iter().for_each(|prefix| router.leads(prefix, port));
    leads("one");
    hosts.reach();
    set_link(world, &router, "one", false);
    leads("two");
    hosts.reach();
    wait_until("Linux to see it", || world.ip("-o link show dev one").contains("NO-CARRIER"));
    router.audited();
    for prefix in NETWORKS {
        assert_eq!(router.routes(prefix).len(), 2, "it stays in the RIB, as Linux has it");
    }
    set_link(world, &router, "one", true);
    leads("one");
    hosts.reach();
    router.audited();
    router.alone();
    router.stop();
}
