// SPDX-License-Identifier: MIT
//! Routes made by `ip route`: perigee follows Linux, whatever happens to them.

use crate::{PORTS, Pair};
use perigee_tests::{Good, Host, World, wait_seeing};

perigee_tests::scenarios![
    they_come_change_and_go,
    the_lowest_metric_is_used,
    they_wait_for_their_next_hop,
    tables_and_protocols_are_chosen,
    a_burst_overruns_the_buffer_and_the_table_is_right_all_the_same,
];

/// Client, router, and a server behind which 10.9.0.2 lies.
pub fn with_a_second_hop(world: &World) -> (Pair, Host) {
    let pair = Pair::new(world);
    let far = world.host("far", &["10.9.0.2/24", "2001:db8:9::2/64"], &["10.9.0.1", "2001:db8:9::1"]);
    world.ip("link set r-far netns server");
    world.ip("-n server addr add 10.9.0.1/24 dev r-far");
    world.ip("-n server addr add 2001:db8:9::1/64 dev r-far nodad");
    world.ip("-n server link set r-far up");
    for family in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        pair.server.set(family, "1");
    }
    (pair, far)
}

const NETWORKS: [(&str, &str, &str, &str); 2] =
    [("10.9.0.0/24", "10.9.0.2", "10.0.2.2", "-4"), ("2001:db8:9::/64", "2001:db8:9::2", "2001:db8:2::2", "-6")];

fn they_come_change_and_go(world: &World) {
    let (Pair { client, .. }, _far) = with_a_second_hop(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    for (network, address, gateway, family) in NETWORKS {
        client.ping_fails(address);
        world.ip(&format!("{family} route add {network} via {gateway}"));
        client.reaches(address);
        let before = router.workers("transmitted");
        client.ping(20, address);
        router.transmits(before + 40);

        // Routes that drop: each kind under its own reason and with its own ICMP error.
        for (kind, reason) in [
            ("unreachable", "slowpath.unreachable"),
            ("prohibit", "slowpath.prohibited"),
            ("blackhole", if family == "-4" { "ipv4_lookup.blackhole" } else { "ipv6_lookup.blackhole" }),
        ] {
            world.ip(&format!("{family} route replace {kind} {network}"));
            router.becomes(network, |route| route.is_some_and(|route| route["action"] == kind));
            let before = router.dropped(reason);
            if kind == "blackhole" {
                client.ping_fails(address);
            } else {
                client.ping_refused(address);
            }
            router.counts_at_least(reason, before + 1);
            // For IPv6, `replace` leaves a route of another kind beside the new one.
            world.ip(&format!("{family} route del {kind} {network}"));
            world.ip(&format!("{family} route replace {network} via {gateway}"));
            router.leads(network, "lan");
            client.reaches(address);
        }
        world.ip(&format!("{family} route del {network}"));
        router.loses(network);
        client.ping_fails(address);
    }
    router.alone();
    router.audited();
    router.stop();
}

fn the_lowest_metric_is_used(world: &World) {
    let (Pair { client, .. }, _far) = with_a_second_hop(world);
    let router = world.router("", PORTS);
    for (network, address, gateway, family) in NETWORKS {
        let wrong = if family == "-4" { "10.0.1.2" } else { "2001:db8:1::2" };
        world.ip(&format!("{family} route add {network} via {wrong} metric 200"));
        router.leads(network, "wan");
        world.ip(&format!("{family} route add {network} via {gateway} metric 100"));
        router.leads(network, "lan");
        assert_eq!(router.routes(network).len(), 2);
        client.reaches(address);
        client.ping(20, address);
        world.ip(&format!("{family} route del {network} metric 100"));
        router.leads(network, "wan");
        world.ip(&format!("{family} route change {network} via {gateway} metric 200"));
        router.leads(network, "lan");
        client.ping(20, address);
        // More specific ones win, whatever their metric.
        world.ip(&format!("{family} route add blackhole {address} metric 5000"));
        let host = format!("{address}/{}", if family == "-4" { 32 } else { 128 });
        router.becomes(&host, |route| route.is_some_and(|route| route["action"] == "blackhole"));
        client.ping_fails(address);
        world.ip(&format!("{family} route flush {network}"));
        world.ip(&format!("{family} route flush {host}"));
        router.loses(&host);
        router.loses(network);
    }
    router.alone();
    router.audited();
    router.stop();
}

fn they_wait_for_their_next_hop(world: &World) {
    let (Pair { client, server }, _far) = with_a_second_hop(world);
    server.run("ip link set eth0 down").good();
    let router = world.router("", PORTS);
    client.reaches("10.0.1.1");
    for (network, _, gateway, family) in NETWORKS {
        // The twin has no address in the gateway's network.
        world.ip(&format!("{family} route add {network} via {gateway} dev lan onlink"));
    }
    client.ping_fails("10.9.0.2");
    server.run("ip link set eth0 up").good();
    // Lost when the link went down, as always in Linux.
    server.run("ip addr replace 2001:db8:2::2/64 dev eth0 nodad").good();
    server.run("ip route replace default via 10.0.2.1").good();
    server.run("ip -6 route replace default via 2001:db8:2::1").good();
    for (network, address, gateway, family) in NETWORKS {
        // The twin lost its carrier with the port's link, and Linux may have removed the route.
        world.ip(&format!("{family} route replace {network} via {gateway} dev lan onlink"));
        client.reaches(address);
        client.ping(20, address);
    }
    router.alone();
    router.audited();
    router.stop();
}

fn tables_and_protocols_are_chosen(world: &World) {
    let _pair = Pair::new(world);
    let linux = "[linux]\ntables = [\"main\", 100]\nignore_protocols = [\"static\", 201]\n";
    let router = world.router("", &format!("{PORTS}\n{linux}"));
    let add = |words: &str| world.ip(&format!("route add {words} via 10.0.2.2"));
    add("10.20.1.0/24 proto static");
    add("10.20.2.0/24 proto 201");
    add("10.20.3.0/24 table 101");
    add("10.20.4.0/24 table 100");
    add("10.20.5.0/24 proto 202");
    add("10.20.6.0/24 table 100 proto static");
    // The last route is there, so all those before it have been dealt with.
    add("10.20.9.0/24");
    router.leads("10.20.9.0/24", "lan");
    for taken in ["10.20.4.0/24", "10.20.5.0/24"] {
        assert!(router.route(taken).is_some(), "{taken}");
    }
    for ignored in ["10.20.1.0/24", "10.20.2.0/24", "10.20.3.0/24", "10.20.6.0/24"] {
        assert!(router.route(ignored).is_none(), "{ignored}");
    }
    router.audited();
    router.stop();

    let router = world.router("", &format!("{PORTS}\n[linux]\nprotocols = [\"bird\", 202]\n"));
    for words in ["10.20.1.0/24 proto static", "10.20.2.0/24", "10.20.5.0/24 proto 202", "10.20.9.0/24 proto bird"] {
        add(words);
    }
    router.leads("10.20.9.0/24", "lan");
    router.leads("10.20.5.0/24", "lan");
    assert!(router.route("10.20.1.0/24").is_none() && router.route("10.20.2.0/24").is_none());
    router.audited();
    router.stop();

    let router = world.router("", &format!("{PORTS}\n[linux]\nfeed = \"none\"\n"));
    add("10.20.1.0/24");
    router.ask("route add 10.20.9.0/24 via 10.0.2.2").good();
    assert!(router.route("10.20.9.0/24").is_some() && router.route("10.20.1.0/24").is_none());
    router.stop();
}

const BURST: usize = 20_000;

/// Routes by `ip -batch`: in the end perigee has all of them.
fn a_burst_overruns_the_buffer_and_the_table_is_right_all_the_same(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    // As small as the kernel makes them.
    let router = world.router("", &format!("{PORTS}\n[linux]\nreceive_buffer = \"4 KB\"\n"));
    client.reaches("10.0.2.2");
    let lines = |verb: &str, via: &str| -> String {
        (0..BURST).map(|n| format!("route {verb} 20.{}.{}.0/24 via {via}\n", n / 256, n % 256)).collect()
    };
    let total = || router.show("routes --limit 1 --within 20.0.0.0/8")["total"].as_u64().expect("a number");
    let linux = |key: &str| router.show("linux")[key].clone();
    let overruns = || linux("overruns").as_u64().expect("a number");
    let burst = |verb: &str, via: &str| {
        let file = world.file("burst", &lines(verb, via));
        world.ip(&format!("-batch {}", file.display()));
    };
    for (verb, via, wanted) in
        [("add", "10.0.2.2", BURST), ("replace", "10.0.1.2", BURST), ("del", "10.0.1.2", 0), ("add", "10.0.2.2", BURST)]
    {
        // Nobody reads the first one, so that notifications are lost for sure.
        if overruns() == 0 {
            router.while_stopped(|| burst(verb, via));
        } else {
            burst(verb, via);
        }
        wait_seeing(&format!("{wanted} routes after {verb}"), total, |total| *total == wanted as u64);
        wait_seeing("an overrun", overruns, |overruns| *overruns > 0);
    }
    wait_seeing("the resync to end", || linux("state"), |state| state == "following");
    assert!(linux("resyncs").as_u64() > Some(0), "{}", router.show("linux"));
    assert_eq!(total(), BURST as u64, "a resync adds nothing and takes nothing away");
    client.ping(20, "10.0.2.2");
    router.alone();
    router.audited();
    router.stop();
}
