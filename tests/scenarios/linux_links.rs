// SPDX-License-Identifier: MIT
//! Twins as first-class interfaces: what `ip link`, `ip addr` and `ip neigh` do to a twin happens to the port, and vice
//! versa.

use crate::linux_routes::with_a_second_hop;
use crate::{PORTS, Pair};
use perigee_tests::{Good, Host, World, frame, run, wait_for, wait_until};
use std::process::Command;

perigee_tests::scenarios![
    a_twin_goes_down_and_comes_up,
    a_link_of_the_port_is_the_carrier_of_the_twin,
    addresses_come_and_go,
    the_mtu_is_the_twins,
    neighbors_are_shared,
    a_twin_that_is_deleted_is_made_again,
    a_namespace_that_is_removed_is_made_again,
];

/// Addresses that perigee shows for a port.
fn addresses(router: &perigee_tests::Router, port: &str) -> Vec<String> {
    let port = router.port(port);
    let list = port["interfaces"][0]["addresses"].as_array().expect("addresses").iter();
    list.filter_map(|address| address.as_str().map(str::to_owned)).collect()
}

fn a_twin_goes_down_and_comes_up(world: &World) {
    let (Pair { client, .. }, _far) = with_a_second_hop(world);
    let router = world.router("", PORTS);
    world.ip("route add 10.9.0.0/24 via 10.0.2.2");
    world.ip("-6 route add 2001:db8:9::/64 via 2001:db8:2::2");
    client.reaches("10.9.0.2");
    client.reaches("2001:db8:9::2");

    world.ip("link set lan down");
    for lost in ["10.9.0.0/24", "10.0.2.0/24", "2001:db8:9::/64"] {
        router.loses(lost);
    }
    client.ping_fails("10.9.0.2");
    client.ping_fails("10.0.2.2");
    world.ip("link set lan up");
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    client.ping_fails("10.9.0.2");
    world.ip("route add 10.9.0.0/24 via 10.0.2.2");
    world.ip("-6 route replace 2001:db8:9::/64 via 2001:db8:2::2");
    client.reaches("10.9.0.2");
    client.reaches("2001:db8:9::2");
    client.ping(20, "10.9.0.2");
    client.ping(20, "2001:db8:9::2");
    router.alone();
    router.audited();
    router.stop();
}

fn a_link_of_the_port_is_the_carrier_of_the_twin(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let carrier = || world.ip("-o link show dev lan");
    wait_until("a carrier", || carrier().contains("LOWER_UP"));
    server.run("ip link set eth0 down").good();
    wait_until("no carrier", || carrier().contains("NO-CARRIER"));
    server.run("ip link set eth0 up").good();
    wait_until("a carrier again", || carrier().contains("LOWER_UP"));
    server.run("ip route replace default via 10.0.2.1").good();
    client.reaches("10.0.2.2");
    client.ping(20, "10.0.2.2");
    router.alone();
    router.audited();
    router.stop();
}

fn addresses_come_and_go(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    server.run("ip addr add 10.5.0.2/24 dev eth0").good();
    server.run("ip addr add 2001:db8:5::2/64 dev eth0 nodad").good();
    client.ping_fails("10.5.0.2");
    world.ip("addr add 10.5.0.1/24 dev lan");
    world.ip("addr add 2001:db8:5::1/64 dev lan");
    for address in ["10.5.0.1", "10.5.0.2", "2001:db8:5::1", "2001:db8:5::2"] {
        client.reaches(address);
        client.ping(20, address);
    }
    assert!(addresses(&router, "lan").iter().any(|address| address == "10.5.0.1/24"));
    router.audited();
    world.ip("addr del 10.5.0.1/24 dev lan");
    world.ip("addr del 2001:db8:5::1/64 dev lan");
    for network in ["10.5.0.0/24", "2001:db8:5::/64"] {
        router.loses(network);
    }
    for address in ["10.5.0.1", "10.5.0.2", "2001:db8:5::2"] {
        client.ping_fails(address);
    }
    assert!(!addresses(&router, "lan").iter().any(|address| address.contains(":5::1") || address == "10.5.0.1/24"));
    client.ping(20, "10.0.2.2");
    router.alone();
    router.audited();
    router.stop();
}

fn the_mtu_is_the_twins(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    client.ping(5, "-M do -s 1400 10.0.2.2");
    world.ip("link set lan mtu 1300");
    wait_until("the port to have its twin's MTU", || router.port("lan")["interfaces"][0]["mtu"] == 1300);
    for (words, said) in [("-M do -s 1400 10.0.2.2", "mtu = 1300"), ("-M do -s 1400 2001:db8:2::2", "mtu=1300")] {
        let text = client.ping_refused(words);
        let text = text.replace("mtu = ", "mtu=");
        assert!(text.contains(&said.replace("mtu = ", "mtu=")), "{text}");
    }
    // Packets that may be fragmented are.
    client.run("ip route flush cache").good();
    client.ping(5, "-M dont -s 1400 10.0.2.2");
    world.ip("link set lan mtu 1500");
    wait_until("the MTU to be back", || router.port("lan")["interfaces"][0]["mtu"] == 1500);
    client.run("ip route flush cache").good();
    client.ping(5, "-M do -s 1400 10.0.2.2");
    router.alone();
    router.audited();
    router.stop();
}

fn neighbors_are_shared(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let wire = world.wire("w-dmz");
    let dmz = "[port.dmz]\ninterface = \"w-dmz\"\naddresses = [\"10.0.3.1/24\", \"2001:db8:3::1/64\"]\n";
    let router = world.router("", &format!("{PORTS}\n{dmz}"));

    // Set in Linux, used by perigee: no request goes out.
    let fixed = "02:00:00:00:00:77";
    for address in ["10.0.3.77", "2001:db8:3::77"] {
        world.ip(&format!("neigh add {address} lladdr {fixed} dev dmz"));
        wait_until("the neighbor", || router.neighbor(address).is_some_and(|(_, mac)| mac == fixed));
    }
    client.reaches("10.0.2.2");
    let _ping = client.start_ping(3, "10.0.3.77");
    let seen = wire.expect("a ping with the neighbor's address", |bytes| {
        frame::ip4(bytes).is_some_and(|packet| packet.destination().to_string() == "10.0.3.77")
    });
    assert_eq!(seen[..6], [2, 0, 0, 0, 0, 0x77]);
    world.ip("neigh del 10.0.3.77 dev dmz");
    wait_until("the neighbor to be forgotten", || router.neighbor("10.0.3.77").is_none_or(|(_, mac)| mac != fixed));

    // Resolved by perigee, known to Linux.
    client.reaches("2001:db8:2::2");
    for address in ["10.0.2.2", "2001:db8:2::2"] {
        let (_, mac) = router.neighbor(address).expect("perigee has forwarded to it");
        let mac = mac.as_str().expect("a MAC address").to_owned();
        wait_until("Linux to know the neighbor", || world.ip(&format!("neigh show {address} dev lan")).contains(&mac));
    }
    // Resolved by Linux, known to perigee.
    for address in ["10.0.1.2", "2001:db8:1::2"] {
        let ping = || run(Command::new("ping").args(["-n", "-c", "1", "-W", "1", address])).code == Some(0);
        wait_until("Linux to reach the client", ping);
        wait_until("perigee to know it", || router.neighbor(address).is_some_and(|(_, mac)| !mac.is_null()));
    }
    router.alone();
    router.audited();
    router.stop();
}

fn a_twin_that_is_deleted_is_made_again(world: &World) {
    let (Pair { client, .. }, _far) = with_a_second_hop(world);
    let router = world.router("", PORTS);
    world.ip("route add 10.9.0.0/24 via 10.0.2.2");
    client.reaches("10.9.0.2");
    world.ip("link del lan");
    let shown = || run(Command::new("ip").args(["-o", "addr", "show", "dev", "lan"])).out;
    wait_until("the twin to be back", || shown().contains("10.0.2.1/24") && shown().contains("2001:db8:2::1/64"));
    // Its routes are gone with it.
    router.loses("10.9.0.0/24");
    world.ip("route add 10.9.0.0/24 via 10.0.2.2");
    client.reaches("10.9.0.2");
    client.reaches("2001:db8:2::2");
    client.ping(20, "10.9.0.2");
    reaches_linux(world, &client, "10.0.2.1:5000");
    router.alone();
    router.audited();
    let log = router.stop();
    log.says("lan");
}

/// A byte to a socket of Linux behind the twins, and back.
fn reaches_linux(_: &World, client: &Host, address: &str) {
    let listener = wait_for("the address", || std::net::TcpListener::bind(address).ok());
    let out = client.inside(|| wait_for("a connection", || std::net::TcpStream::connect(address).ok()));
    listener.accept().expect("a connection");
    drop(out);
}

fn a_namespace_that_is_removed_is_made_again(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let control = world.namespace("control");
    let router = world.router("namespace = \"control\"", PORTS);
    control.run("ip route add 10.9.0.0/24 via 10.0.2.2").good();
    router.leads("10.9.0.0/24", "lan");
    client.reaches("10.0.2.2");
    world.ip("netns del control");
    // There is a new one of that name: the twins are made in it.
    let control = world.namespace("control");
    let shown = || control.run("ip -o addr show dev lan").out;
    wait_until("the twins to be back", || shown().contains("10.0.2.1/24") && shown().contains("2001:db8:2::1/64"));
    router.loses("10.9.0.0/24");
    control.run("ip route add 10.8.0.0/24 via 10.0.2.2").good();
    router.leads("10.8.0.0/24", "lan");
    client.reaches("10.0.2.2");
    let listener = control.inside(|| wait_for("the address", || std::net::TcpListener::bind("10.0.1.1:5000").ok()));
    let out = client.inside(|| wait_for("a connection", || std::net::TcpStream::connect("10.0.1.1:5000").ok()));
    listener.accept().expect("a connection");
    drop(out);
    router.alone();
    router.audited();
    router.stop();
}
