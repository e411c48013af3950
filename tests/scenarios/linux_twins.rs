// SPDX-License-Identifier: MIT
//! Twins, and interfaces under ports, that an operator changes: renamed, with another MAC address, moved, given a
//! master.

use crate::{PORTS, Pair};
use perigee_tests::{Good, World, wait_until};

perigee_tests::scenarios![
    a_twin_that_is_renamed_stays_the_ports,
    a_twin_gets_its_mac_address_back,
    a_twin_that_is_moved_is_made_again,
    a_twin_in_a_bridge_is_named,
    settings_that_the_router_does_not_have_are_named,
    an_interface_under_a_port_that_is_renamed_is_named,
];

/// The sentences about what is not as in Linux.
fn differences(router: &perigee_tests::Router) -> String {
    router.show("linux")["differences"].to_string()
}

/// The helper was asked by the port's name: the twin kept its carrier, and lost its link-local address.
fn a_twin_that_is_renamed_stays_the_ports(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    for words in ["link set lan down", "link set lan name uplink", "link set uplink up"] {
        world.ip(words);
    }
    router.says("the twin lan was renamed to uplink");
    wait_until("its link-local address", || world.ip("-6 addr show dev uplink").contains("fe80::"));
    server.run("ip link set eth0 down").good();
    wait_until("no carrier", || world.ip("-o link show dev uplink").contains("NO-CARRIER"));
    server.run("ip link set eth0 up").good();
    wait_until("a carrier again", || world.ip("-o link show dev uplink").contains("LOWER_UP"));
    server.run("ip route replace default via 10.0.2.1").good();
    client.reaches("10.0.2.2");
    // A reload reaches it, too.
    let more = PORTS.replace("\"10.0.2.1/24\"", "\"10.0.2.1/24\", \"10.6.0.1/24\"");
    world.configuration("", &more);
    router.ask("reload").good();
    wait_until("the reload's address", || world.ip("addr show dev uplink").contains("10.6.0.1/24"));
    router.audited();
    router.stop();
}

/// Hosts learned the twin's MAC address from Linux, and what they sent there was dropped as another station's.
fn a_twin_gets_its_mac_address_back(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let mac = router.mac("lan").to_string();
    world.ip("link set lan address 02:00:00:00:99:01");
    router.says("02:00:00:00:99:01");
    wait_until("its MAC address", || world.ip("-o link show dev lan").contains(&mac));
    wait_until("no difference", || differences(&router) == "[]");
    server.run("ip neigh flush all").good();
    client.reaches("10.0.2.2");
    router.alone();
    router.stop();
}

fn a_twin_that_is_moved_is_made_again(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let elsewhere = world.namespace("elsewhere");
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    world.ip("link set lan netns elsewhere");
    router.says("the twin lan was moved to another namespace");
    router.says("the twin lan is there again");
    wait_until("the one that was moved to vanish", || !elsewhere.run("ip -br link").good().out.contains("lan"));
    client.reaches("10.0.2.2");
    router.stop();
}

fn a_twin_in_a_bridge_is_named(world: &World) {
    let made = perigee_tests::run(std::process::Command::new("ip").args("link add br9 type bridge".split(' ')));
    if made.code != Some(0) {
        return world.unable("this kernel has no bridges");
    }
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    world.ip("link set lan master br9");
    router.says("lan belongs to the bridge br9");
    wait_until("the difference", || differences(&router).contains("br9"));
    client.ping(20, "10.0.2.2");
    world.ip("link set lan nomaster");
    wait_until("no difference", || differences(&router) == "[]");
    router.stop();
}

fn settings_that_the_router_does_not_have_are_named(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let set = |name: &str, value: &str| std::fs::write(format!("/proc/sys/net/{name}"), value).expect("a setting");
    set("ipv4/conf/wan/rp_filter", "1");
    router.says("net.ipv4.conf.wan.rp_filter is 1");
    set("ipv4/ip_forward", "1");
    set("ipv4/ip_forward", "0");
    router.says("net.ipv4.ip_forward was set to 0");
    wait_until("both to be shown", || {
        ["rp_filter", "ip_forward"].iter().all(|name| differences(&router).contains(name))
    });
    client.ping(20, "10.0.2.2");
    set("ipv4/conf/wan/rp_filter", "0");
    set("ipv4/ip_forward", "1");
    wait_until("no difference", || differences(&router) == "[]");
    router.stop();
}

/// It was said that the port has no link, and no more; at the end the interface stayed as the router had prepared it.
fn an_interface_under_a_port_that_is_renamed_is_named(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    for words in ["link set r-server down", "link set r-server name other", "link set other up"] {
        world.ip(words);
    }
    router.says("the interface r-server under a port was renamed to other");
    for words in ["link set other down", "link set other name r-server", "link set r-server up"] {
        world.ip(words);
    }
    router.says("has its name again");
    client.reaches("10.0.2.2");
    router.stop();
    world.nothing_left(&before);
}
