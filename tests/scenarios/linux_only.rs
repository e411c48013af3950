// SPDX-License-Identifier: MIT
//! What Linux alone can do: routes and rules that the router does not know are Linux's, and none of their packets takes
//! another way.

use crate::{PORTS, Pair};
use perigee_tests::{Good, Host, Router, World, wait_seeing};
use std::fs;
use std::time::{Duration, Instant};

perigee_tests::scenarios![
    a_route_over_an_interface_that_is_no_port_is_linuxs,
    a_route_to_nowhere_else_takes_no_shorter_prefix,
    packets_of_one_type_of_service_take_their_own_way,
    packets_of_one_source_take_their_own_way,
    a_routes_mtu_is_that_of_its_packets,
    packets_of_a_policy_rule_are_linuxs,
    a_connected_network_is_a_route_of_linux,
];

/// Client, router, a server with everything behind it, and a second way that is an interface of Linux's own.
fn with_a_side_way(world: &World) -> (Pair, Host) {
    let pair = Pair::new(world);
    let side = world.host("side", &["10.0.8.2/24", "2001:db8:8::2/64"], &["10.0.8.1", "2001:db8:8::1"]);
    world.ip("link set r-side up");
    world.ip("addr add 10.0.8.1/24 dev r-side");
    world.ip("addr add 2001:db8:8::1/64 dev r-side nodad");
    // Linux solicits from a link-local address.
    world.ip("addr add fe80::8/64 dev r-side nodad");
    for host in [&pair.server, &side] {
        for address in ["10.9.0.2/32", "2001:db8:9::2/128"] {
            host.run(&format!("ip addr add {address} dev lo")).good();
        }
    }
    (pair, side)
}

/// Linux forwards, between the twins and its other interfaces.
fn let_linux_forward() {
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        fs::write(format!("/proc/sys/net/{file}"), "1").expect("Linux forwards");
    }
}

/// Which of two hosts gets a ping.
fn arrives(client: &Host, words: &str, hosts: [&Host; 2]) -> [bool; 2] {
    let echoes = |host: &Host| {
        let text = host.run("cat /proc/net/snmp /proc/net/snmp6").good().text;
        let v4 = text.lines().filter(|line| line.starts_with("Icmp:")).filter_map(|line| line.split(' ').nth(9));
        let v6 =
            text.lines().filter(|line| line.starts_with("Icmp6InEchos ")).filter_map(|l| l.split_whitespace().nth(1));
        v4.chain(v6).filter_map(|number| number.parse::<u64>().ok()).sum::<u64>()
    };
    let before = hosts.map(echoes);
    client.run(&format!("ping -c 3 -i 0.2 -W 1 {words}"));
    // On a busy machine ping may end before its echoes have arrived: they would be the next ping's.
    let ended = Instant::now();
    loop {
        let now = hosts.map(echoes);
        let arrived = [0, 1].map(|at| now[at] - before[at]);
        if arrived.iter().sum::<u64>() >= 3 || ended.elapsed() > Duration::from_secs(2) {
            return arrived.map(|echoes| echoes > 0);
        }
        // sleep: between two looks; what is late is waited for
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn listed(router: &Router, prefix: &str) -> bool {
    let status = router.show("linux");
    let routes = status["linux_only_routes"].as_array().cloned().unwrap_or_default();
    routes.iter().any(|route| route["prefix"] == prefix)
}

const FAR: [(&str, &str, &str, &str, &str); 2] = [
    ("10.9.0.0/24", "10.9.0.2", "10.0.2.2", "10.0.8.2", "-4"),
    ("2001:db8:9::/64", "2001:db8:9::2", "2001:db8:2::2", "2001:db8:8::2", "-6"),
];

fn a_route_over_an_interface_that_is_no_port_is_linuxs(world: &World) {
    let (Pair { client, server }, side) = with_a_side_way(world);
    let router = world.router("", PORTS);
    for (network, address, gateway, other, family) in FAR {
        world.ip(&format!("{family} route add default via {gateway}"));
        client.reaches(address);
        assert_eq!(arrives(&client, address, [&server, &side]), [true, false]);
        world.ip(&format!("{family} route add {network} via {other}"));
        router.becomes(network, |route| route.is_some_and(|route| route["action"] == "to-linux"));
        assert!(listed(&router, network));
        // Linux does not forward: the packets end there, and do not leave by the default route.
        assert_eq!(arrives(&client, address, [&server, &side]), [false, false], "{network}");
    }
    router.audited();
    let_linux_forward();
    for (_, address, _, other, _) in FAR {
        client.reaches(address);
        assert_eq!(arrives(&client, address, [&server, &side]), [false, true], "{address}");
        client.reaches(other); // The network of that interface.
    }
    router.says("it leads over an interface that is no port");
    assert!(router.dropped("ipv4_lookup.to_linux") > 0 && router.dropped("ipv6_lookup.to_linux") > 0);
    router.stop();
    // The same, refused.
    let router = world.router("", &format!("{PORTS}\n[linux]\nunknown_routes = \"unreachable\"\n"));
    client.reaches("10.0.2.2");
    for (network, address, ..) in FAR {
        router.becomes(network, |route| route.is_some_and(|route| route["action"] == "refused"));
        let before = router.dropped("slowpath.route_refused");
        client.ping_refused(address);
        router.counts_at_least("slowpath.route_refused", before + 1);
        assert_eq!(arrives(&client, address, [&server, &side]), [false, false]);
    }
    router.audited();
    router.stop();
}

fn a_route_to_nowhere_else_takes_no_shorter_prefix(world: &World) {
    let (Pair { client, server }, side) = with_a_side_way(world);
    let router = world.router("", PORTS);
    for (network, address, gateway, _, family) in FAR {
        world.ip(&format!("{family} route add default via {gateway}"));
        client.reaches(address);
        world.ip(&format!("{family} route add throw {network}"));
        router.becomes(network, |route| route.is_some_and(|route| route["action"] == "to-linux"));
        assert_eq!(arrives(&client, address, [&server, &side]), [false, false], "{network}");
        world.ip(&format!("{family} route del throw {network}"));
        router.loses(network);
        client.reaches(address);
    }
    router.alone();
    router.audited();
    router.stop();
}

fn packets_of_one_type_of_service_take_their_own_way(world: &World) {
    let (Pair { client, server }, side) = with_a_side_way(world);
    let router = world.router("", PORTS);
    world.ip("route add 10.9.0.0/24 via 10.0.2.2");
    world.ip("route add 10.9.0.0/24 tos 0x10 via 10.0.8.2");
    client.reaches("10.9.0.2");
    wait_seeing("the route to be listed", || listed(&router, "10.9.0.0/24"), |listed| *listed);
    assert_eq!(arrives(&client, "10.9.0.2", [&server, &side]), [true, false], "others take the plain route");
    assert_eq!(arrives(&client, "-Q 0x10 10.9.0.2", [&server, &side]), [false, false], "Linux does not forward");
    let_linux_forward();
    assert_eq!(arrives(&client, "-Q 0x10 10.9.0.2", [&server, &side]), [false, true]);
    assert_eq!(arrives(&client, "10.9.0.2", [&server, &side]), [true, false]);
    // A longer prefix is for all types of service.
    world.ip("route add 10.9.0.2/32 via 10.0.2.2");
    router.leads("10.9.0.2/32", "lan");
    assert_eq!(arrives(&client, "-Q 0x10 10.9.0.2", [&server, &side]), [true, false]);
    router.audited();
    router.stop();
}

fn packets_of_one_source_take_their_own_way(world: &World) {
    let (Pair { client, server }, side) = with_a_side_way(world);
    client.run("ip addr add 2001:db8:1::22/64 dev eth0 nodad").good();
    let router = world.router("", PORTS);
    let network = "2001:db8:9::/64";
    world.ip(&format!("-6 route add {network} via 2001:db8:2::2"));
    world.ip(&format!("-6 route add {network} from 2001:db8:1::22/128 via 2001:db8:8::2"));
    client.reaches("2001:db8:2::2");
    wait_seeing("the route to be listed", || listed(&router, network), |listed| *listed);
    let from = |last: &str| format!("-I 2001:db8:1::{last} 2001:db8:9::2");
    assert_eq!(arrives(&client, &from("2"), [&server, &side]), [true, false]);
    assert_eq!(arrives(&client, &from("22"), [&server, &side]), [false, false], "Linux does not forward");
    let_linux_forward();
    assert_eq!(arrives(&client, &from("22"), [&server, &side]), [false, true]);
    assert_eq!(arrives(&client, &from("2"), [&server, &side]), [true, false]);
    router.audited();
    router.stop();
}

fn a_routes_mtu_is_that_of_its_packets(world: &World) {
    let (Pair { client, server }, _side) = with_a_side_way(world);
    let router = world.router("", PORTS);
    for (network, address, gateway, _, family) in FAR {
        for lock in ["", "lock "] {
            world.ip(&format!("{family} route replace {network} via {gateway} mtu {lock}1300"));
            router.leads(network, "lan");
            client.reaches(address);
            let told = client.run(&format!("ping -c 2 -W 1 -M do -s 1400 {address}")).text;
            assert!(told.contains("mtu = 1300") || told.contains("mtu=1300") || told.contains("1300"), "{told}");
            client.run("ip route flush cache; ip -6 route flush cache");
            client.ping(3, &format!("-s 1200 {address}"));
        }
    }
    // IPv4 is cut for who lets it be cut.
    let before = server.run("cat /proc/net/snmp").good().text;
    client.ping(3, "-M dont -s 1400 10.9.0.2");
    let fragments = |text: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
        let at = lines.next().and_then(|names| names.split(' ').position(|name| name == "ReasmReqds")).expect("a name");
        lines.next().and_then(|values| values.split(' ').nth(at)?.parse::<u64>().ok()).expect("a number")
    };
    assert!(fragments(&server.run("cat /proc/net/snmp").good().text) > fragments(&before));
    router.alone();
    router.audited();
    router.stop();
}

fn packets_of_a_policy_rule_are_linuxs(world: &World) {
    let (Pair { client, server }, side) = with_a_side_way(world);
    client.run("ip addr add 10.0.1.22/24 dev eth0").good();
    let router = world.router("", PORTS);
    world.ip("route add 10.9.0.0/24 via 10.0.2.2");
    world.ip("route add default via 10.0.8.2 table 100");
    client.reaches("10.9.0.2");
    let rules = |router: &Router| router.show("linux")["rules"].as_array().map_or(0, Vec::len);
    assert_eq!(rules(&router), 0);
    world.ip("rule add from 10.0.1.22 lookup 100");
    wait_seeing("the rule to be said", || rules(&router), |rules| *rules == 1);
    router.says("from 10.0.1.22/32 lookup 100: such packets are Linux's");
    assert_eq!(arrives(&client, "-I 10.0.1.2 10.9.0.2", [&server, &side]), [true, false]);
    assert_eq!(arrives(&client, "-I 10.0.1.22 10.9.0.2", [&server, &side]), [false, false], "Linux does not forward");
    let_linux_forward();
    assert_eq!(arrives(&client, "-I 10.0.1.22 10.9.0.2", [&server, &side]), [false, true]);
    world.ip("rule del from 10.0.1.22 lookup 100");
    wait_seeing("the rule to be gone", || rules(&router), |rules| *rules == 0);
    assert_eq!(arrives(&client, "-I 10.0.1.22 10.9.0.2", [&server, &side]), [true, false]);
    // As wg-quick does it: everything that `main` has no longer route for.
    world.ip("route add default via 10.0.2.2");
    world.ip("route del 10.9.0.0/24");
    world.ip("rule add not fwmark 51820 lookup 100");
    world.ip("rule add lookup main suppress_prefixlength 0");
    let to_linux = |route: Option<&serde_json::Value>| route.is_some_and(|route| route["action"] == "to-linux");
    router.becomes("0.0.0.0/0", to_linux);
    assert_eq!(arrives(&client, "10.9.0.2", [&server, &side]), [false, true]);
    client.ping(3, "10.0.2.2");
    router.audited();
    router.stop();
}

fn a_connected_network_is_a_route_of_linux(world: &World) {
    let (Pair { client, server }, side) = with_a_side_way(world);
    let router = world.router("", PORTS);
    for (network, address, family) in [("10.0.2.0/24", "10.0.2.2", "-4"), ("2001:db8:2::/64", "2001:db8:2::2", "-6")] {
        client.reaches(address);
        router.becomes(network, |route| route.is_some_and(|route| route["source"] == "linux" && route["dev"] == "lan"));
        world.ip(&format!("{family} route del {network} dev lan"));
        router.loses(network);
        assert_eq!(arrives(&client, address, [&server, &side]), [false, false], "no route is left");
        world.ip(&format!("{family} route add blackhole {network}"));
        router.becomes(network, |route| route.is_some_and(|route| route["action"] == "blackhole"));
        world.ip(&format!("{family} route del blackhole {network}"));
        world.ip(&format!("{family} route add {network} dev lan"));
        router.leads(network, "lan");
        client.reaches(address);
    }
    router.alone();
    router.audited();
    router.stop();
}
