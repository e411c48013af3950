// SPDX-License-Identifier: MIT
//! Links without addresses, peers without a common prefix, and the addresses that the router speaks from.

use crate::{PORTS, Pair};
use perigee_tests::{Good, Host, World, wait_seeing};

perigee_tests::scenarios![
    a_link_without_addresses_is_crossed_and_its_neighbor_answered,
    the_loopbacks_addresses_are_the_routers_whatever_feeds_it_routes,
    ipv4_by_ipv6_next_hops_has_traceroute_and_path_mtus,
    peers_on_the_link_by_a_route_are_answered_and_stay_known,
    subnet_router_anycast_addresses_are_the_routers,
    a_deprecated_address_is_not_spoken_from,
];

/// A port with addresses, and one without.
const HALF: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.lan]
interface = "r-server"
"#;

/// An address of the router's that is on none of its ports.
fn add_to_loopback(world: &World, addresses: &[&str]) {
    world.ip("link set lo up");
    for address in addresses {
        world.ip(&format!("addr add {address} dev lo"));
    }
}

/// The routers that a trace names, until `address` answers.
fn trace(host: &Host, address: &str) -> Vec<String> {
    let family = if address.contains(':') { "-6" } else { "-4" };
    let words = format!("traceroute {family} -n -N 1 -q 1 -w 60 -m 5 {address}");
    let text = host.run(&words).good().out;
    let hops = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
    // A link-local address is shown with its link.
    hops.filter_map(|hop| hop.split('%').next()).map(str::to_owned).collect()
}

/// OSPF and BGP unnumbered over IPv4: the router's address is on its loopback, and so is the neighbor's.
fn a_link_without_addresses_is_crossed_and_its_neighbor_answered(world: &World) {
    let client = world.host("client", &["10.0.1.2/24"], &["10.0.1.1"]);
    let server = world.host("server", &[], &[]);
    let router = world.router("", HALF);
    add_to_loopback(world, &["10.255.0.1/32"]);
    for address in ["10.255.0.2/32", "10.9.0.1/32"] {
        world.ip(&format!("-n server addr add {address} dev lo"));
    }
    world.ip("-n server route add 10.255.0.1/32 dev eth0 src 10.255.0.2");
    world.ip("-n server route add 10.0.1.0/24 via 10.255.0.1 dev eth0 onlink src 10.255.0.2");
    world.ip("route add 10.255.0.2/32 dev lan");
    world.ip("route add 10.9.0.0/16 via 10.255.0.2 dev lan");
    router.leads("10.9.0.0/16", "lan");
    client.reaches("10.9.0.1");
    client.ping(20, "10.9.0.1");
    server.ping(20, "-I 10.255.0.2 10.255.0.1");
    assert_eq!(trace(&client, "10.9.0.1"), ["10.0.1.1", "10.9.0.1"]);
    assert_eq!(trace(&server, "10.0.1.2"), ["10.255.0.1", "10.0.1.2"]);
    let neighbors = server.run("ip neigh show 10.255.0.1").text;
    assert!(neighbors.contains(&router.mac("lan").to_string()), "{neighbors}");
    router.audited();

    // Without the loopback's address the other port's is borrowed.
    world.ip("addr del 10.255.0.1/32 dev lo");
    world.ip("-n server route replace 10.0.1.1/32 dev eth0 src 10.255.0.2");
    router.loses("10.255.0.1/32");
    server.reaches("-I 10.255.0.2 10.0.1.1");
    assert_eq!(trace(&server, "10.0.1.2"), ["10.0.1.1", "10.0.1.2"]);
    router.stop();
}

/// FRR's zebra reports no local routes, and without a feed nobody does.
fn the_loopbacks_addresses_are_the_routers_whatever_feeds_it_routes(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    for feed in ["netlink", "fpm", "none"] {
        let router = world.router("", &format!("{PORTS}\n[linux]\nfeed = \"{feed}\""));
        client.reaches("10.0.1.1");
        add_to_loopback(world, &["10.255.0.1/32", "2001:db8:ffff::1/128"]);
        for address in ["10.255.0.1", "2001:db8:ffff::1"] {
            client.reaches(address);
            client.ping(5, address);
        }
        for address in ["10.255.0.1/32", "2001:db8:ffff::1/128"] {
            world.ip(&format!("addr del {address} dev lo"));
            router.loses(address);
        }
        router.stop();
    }
}

/// RFC 8950: links have link-local IPv6 addresses only.
fn ipv4_by_ipv6_next_hops_has_traceroute_and_path_mtus(world: &World) {
    const PORTS: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["fe80::1/64"]
[port.lan]
interface = "r-server"
addresses = ["fe80::1/64"]
"#;
    let host = |name: &str, own4: &str, own6: &str| {
        let host = world.host(name, &[], &[]);
        world.ip(&format!("-n {name} addr add fe80::2/64 dev eth0 nodad"));
        world.ip(&format!("-n {name} addr add {own4}/32 dev lo"));
        world.ip(&format!("-n {name} addr add {own6}/128 dev lo"));
        world.ip(&format!("-n {name} route add default src {own4} via inet6 fe80::1 dev eth0"));
        world.ip(&format!("-n {name} -6 route add default src {own6} via fe80::1 dev eth0"));
        host
    };
    let client = host("client", "10.1.0.1", "2001:db8:a::1");
    let _server = host("server", "10.2.0.1", "2001:db8:b::1");
    let router = world.router("", PORTS);
    for (number, letter, port) in [(1, 'a', "wan"), (2, 'b', "lan")] {
        world.ip(&format!("route add 10.{number}.0.0/24 via inet6 fe80::2 dev {port}"));
        world.ip(&format!("-6 route add 2001:db8:{letter}::/48 via fe80::2 dev {port}"));
    }
    client.reaches("10.2.0.1");
    client.reaches("2001:db8:b::1");
    // Without any address, the dummy one of RFC 7600; a link-local one for IPv6.
    assert_eq!(trace(&client, "10.2.0.1"), ["192.0.0.8", "10.2.0.1"]);
    assert_eq!(trace(&client, "2001:db8:b::1"), ["fe80::1", "2001:db8:b::1"]);
    add_to_loopback(world, &["10.255.0.1/32", "2001:db8:ffff::1/128"]);
    router.becomes("10.255.0.1/32", |route| route.is_some());
    router.becomes("2001:db8:ffff::1/128", |route| route.is_some());
    assert_eq!(trace(&client, "10.2.0.1"), ["10.255.0.1", "10.2.0.1"]);
    assert_eq!(trace(&client, "2001:db8:b::1"), ["2001:db8:ffff::1", "2001:db8:b::1"]);
    client.ping(5, "10.255.0.1");
    client.ping(5, "2001:db8:ffff::1");

    world.ip("link set lan mtu 1400");
    wait_seeing(
        "the router to have the smaller MTU",
        || router.show("ports"),
        |ports| ports.to_string().contains("1400"),
    );
    let output = client.ping_refused("-M do -s 1440 10.2.0.1");
    assert!(output.contains("From 10.255.0.1") && output.contains("mtu = 1400"), "{output}");
    let output = client.ping_refused("-M do -s 1440 2001:db8:b::1");
    assert!(output.contains("From 2001:db8:ffff::1") && output.contains("1400"), "{output}");
    assert!(client.run("ip route get 10.2.0.1").text.contains("mtu 1400"));
    assert!(client.run("ip -6 route get 2001:db8:b::1").text.contains("mtu 1400"));
    router.audited();
    router.stop();
}

fn peers_on_the_link_by_a_route_are_answered_and_stay_known(world: &World) {
    let client = world.host("client", &["10.0.1.2/24", "2001:db8:1::2/64"], &["10.0.1.1", "2001:db8:1::1"]);
    let server = world.host("server", &[], &[]);
    let router = world.router("", HALF);
    world.ip("addr add 10.50.0.1 peer 10.50.0.2/32 dev lan");
    world.ip("-n server addr add 10.50.0.2 peer 10.50.0.1/32 dev eth0");
    world.ip("-6 addr add 2001:db8:50::1 peer 2001:db8:50::2/128 dev lan nodad");
    world.ip("-n server -6 addr add 2001:db8:50::2 peer 2001:db8:50::1/128 dev eth0 nodad");
    // Without `onlink`, Linux looks for a route to the gateway, which is there once the link has its carrier.
    world.ip("-n server route add default via 10.50.0.1 dev eth0 onlink");
    world.ip("-n server -6 route add default via 2001:db8:50::1 dev eth0 onlink");
    for (ours, peer) in [("10.50.0.1", "10.50.0.2"), ("2001:db8:50::1", "2001:db8:50::2")] {
        server.reaches(ours);
        server.ping(20, ours);
        assert!(router.neighbor(peer).is_some(), "{peer} has asked for the router");
        client.reaches(peer);
        assert_eq!(trace(&client, peer).last().map(String::as_str), Some(peer));
    }
    router.audited();

    // Another address of the interface is no reason to forget the peers, and tables that a reload builds have them.
    let loopback = "10.255.0.1";
    add_to_loopback(world, &["10.255.0.1/32"]);
    server.reaches(loopback);
    world.configuration("", &HALF.replace("\"10.0.1.1/24\"", "\"10.0.1.1/24\", \"10.0.1.200/24\""));
    router.ask("reload").good();
    client.reaches("10.0.1.200");
    server.ping(5, loopback);
    let unresolved = || router.dropped("ipv4_lookup.unresolved") + router.dropped("ipv6_lookup.unresolved");
    client.reaches("10.50.0.2");
    client.reaches("2001:db8:50::2");
    let before = unresolved();
    client.ping(20, "10.50.0.2");
    client.ping(20, "2001:db8:50::2");
    assert_eq!(unresolved(), before, "packets to a peer stay in the fast path");
    router.audited();
    router.stop();
}

/// RFC 4291 2.6.1.
fn subnet_router_anycast_addresses_are_the_routers(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("2001:db8:1::1");
    for address in ["2001:db8:1::", "2001:db8:2::"] {
        // Ping names who has answered: a unicast address.
        let output = client.ping(5, address).text;
        assert!(output.contains("from 2001:db8:1::1:"), "{output}");
        assert_eq!(trace(&client, "2001:db8:2::2"), ["2001:db8:1::1", "2001:db8:2::2"]);
    }
    // Of the link itself; which address answers depends on whether the client has a link-local one already.
    let output = client.run("ping -n -c 1 -w 60 -I eth0 fe80::").good().text;
    assert!(!output.contains("bytes from fe80:::"), "{output}");
    // They come and go with the networks.
    world.ip("addr add 2001:db8:7::1/64 dev lan nodad");
    client.reaches("2001:db8:7::");
    world.ip("addr del 2001:db8:7::1/64 dev lan");
    router.loses("2001:db8:7::/128");
    world.ip("addr add 2001:db8:8::1/127 dev lan nodad");
    client.reaches("2001:db8:8::1");
    assert!(router.route("2001:db8:8::/128").is_none(), "a /127 has none");
    router.audited();
    router.stop();
}

/// RFC 6724 rule 3.
fn a_deprecated_address_is_not_spoken_from(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("2001:db8:2::2");
    assert_eq!(trace(&client, "2001:db8:2::2"), ["2001:db8:1::1", "2001:db8:2::2"]);
    world.ip("addr add 2001:db8:1::aaaa/64 dev wan nodad");
    client.reaches("2001:db8:1::aaaa");
    for (old, new) in [("2001:db8:1::1", "2001:db8:1::aaaa"), ("2001:db8:1::aaaa", "2001:db8:1::1")] {
        world.ip(&format!("addr change {new}/64 dev wan nodad preferred_lft forever"));
        world.ip(&format!("addr change {old}/64 dev wan nodad preferred_lft 0"));
        let first = || trace(&client, "2001:db8:2::2").swap_remove(0);
        wait_seeing("the preferred address to be spoken from", first, |first| first == new);
        // It answers all the same.
        client.ping(3, old);
    }
    router.stop();
}
