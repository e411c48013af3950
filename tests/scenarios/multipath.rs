// SPDX-License-Identifier: MIT
//! Routes with several gateways: flows are spread over them by weight, keep to their path, and leave a path that fails.

use perigee_tests::{Asserts, Good, Router, Wire, World, frame, wait_until};

perigee_tests::scenarios![flows_spread_by_weight_and_leave_a_dead_path, operator_routes_over_routes,];

const PORTS: &str = r#"
[port.wan]
interface = "w-wan"
addresses = ["10.0.1.1/24"]
[port.one]
interface = "r-one"
addresses = ["10.0.2.1/24"]
[port.two]
interface = "r-two"
addresses = ["10.0.3.1/24"]
"#;
const FLOWS: u16 = 300;

/// Sends one packet of every flow: from a client to 10.9.0.1, with different source ports.
fn send_flows(wan: &Wire, router: &Router) {
    let (mac, before) = (router.mac("wan"), router.workers("received"));
    for flow in 0..FLOWS {
        wan.send(&frame::udp4_ports(mac, "10.0.1.2", "10.9.0.1", (2000 + flow, 9), 20));
        // No faster than one core of a busy machine can receive them.
        if flow % 32 == 31 {
            wait_until("the router to keep up", || router.workers("received") - before > u64::from(flow));
        }
    }
}

fn sent(router: &Router, port: &str) -> u64 {
    router.port(port)["counters"]["transmit_packets"].as_u64().expect("a number")
}

/// Sends every flow once, waits until all have left, and returns how many packets left by each of the two ports.
fn shares(wan: &Wire, router: &Router) -> [u64; 2] {
    let before = ["one", "two"].map(|port| sent(router, port));
    send_flows(wan, router);
    let now = || {
        let after = ["one", "two"].map(|port| sent(router, port));
        [after[0] - before[0], after[1] - before[1]]
    };
    wait_until("all flows to have left", || now().iter().sum::<u64>() >= u64::from(FLOWS));
    now()
}

fn resolved(router: &Router, address: &str) -> bool {
    router.neighbor(address).is_some_and(|(state, _)| state == "reachable")
}

fn flows_spread_by_weight_and_leave_a_dead_path(world: &World) {
    let wan = world.wire("w-wan");
    let one = world.host("one", &["10.0.2.2/24"], &["10.0.2.1"]);
    let two = world.host("two", &["10.0.3.2/24"], &["10.0.3.1"]);
    for server in [&one, &two] {
        // They take the packets and do not answer, so that no other packets blur the counts.
        server.run("ip route add blackhole 10.9.0.1").good();
        server.set("ipv4/ip_forward", "1");
    }
    let route = "[[route]]\nprefix = \"10.9.0.0/24\"\n\
                 via = [{ address = \"10.0.2.2\", weight = 3 }, { address = \"10.0.3.2\" }]\n";
    let router = world.router("", &format!("{PORTS}\n{route}"));
    wait_until("both gateways to be asked for before a packet comes", || {
        resolved(&router, "10.0.2.2") && resolved(&router, "10.0.3.2")
    });

    let [first, second] = shares(&wan, &router);
    // A quarter of 300, and five standard deviations of 7.5; a few more packets are the neighbors' own.
    assert!((38..=120).contains(&second) && first > second, "{first} and {second} of {FLOWS} flows");
    let group = &router.show("nexthops").as_array().expect("a list").clone();
    let group = group.iter().find(|hop| hop["kind"] == "group").expect("a group");
    let share = |at: usize| group["members"][at]["share"].as_f64().expect("a share");
    assert_eq!(share(0) + share(1), 1.0);
    assert_eq!(share(0).max(share(1)), 0.75, "{group}");
    let shown = router.ask("show routes").good().out;
    assert!(shown.contains("10.0.2.2 weight 3") && shown.contains("10.0.3.2 weight 1"), "{shown}");

    // The path with three quarters of the flows fails: the other takes them, and keeps its own.
    one.run("ip link set eth0 down").good();
    // A neighbor that was silent for half a minute is probed, three times (RFC 4861 7.3.3).
    wait_until("the neighbor to be doubted", || !resolved(&router, "10.0.2.2"));
    wait_until("the neighbor to be lost", || router.neighbor("10.0.2.2").is_none_or(|(_, mac)| mac.is_null()));
    let [first, second] = shares(&wan, &router);
    // Not one flow, but packets of the router's own, such as requests for the gateway, a few each second that this
    // takes.
    assert!(first < u64::from(FLOWS / 4), "{first} flows still go to a dead gateway");
    assert!(second >= u64::from(FLOWS), "{second}");

    one.run("ip link set eth0 up").good();
    wait_until("the neighbor to be back", || resolved(&router, "10.0.2.2"));
    let [first, second] = shares(&wan, &router);
    assert!((38..=120).contains(&second) && first > second, "{first} and {second} of {FLOWS} flows");
    router.stop();
}

fn operator_routes_over_routes(world: &World) {
    let _wan = world.wire("w-wan");
    let _one = world.host("one", &["10.0.2.2/24"], &["10.0.2.1"]);
    let _two = world.host("two", &["10.0.3.2/24"], &["10.0.3.1"]);
    let router = world.router("", PORTS);
    let chosen = |prefix: &str| {
        let routes = router.show(&format!("routes --within {prefix}"));
        let best = routes["routes"].as_array().expect("a list").iter().find(|route| route["best"] == true).cloned();
        best.map(|route| (route["dev"].as_str().unwrap_or("-").to_owned(), route["preference"].clone()))
    };
    router.ask("route add 10.8.0.0/24 recursive 10.7.0.1").good();
    assert_eq!(chosen("10.8.0.0/24"), None, "nothing leads to its gateway");
    router.ask("route add 10.8.0.0/24 via 10.0.3.2 preference 200").good();
    assert_eq!(chosen("10.8.0.0/24"), Some(("two".to_owned(), 200.into())));
    router.ask("route add 10.7.0.0/24 via 10.0.2.2 weight 2 via 10.0.2.3").good();
    router.ask("route del 10.7.0.0/24 via 10.0.2.2").refused("no static route");
    assert_eq!(chosen("10.8.0.0/24").map(|(_, preference)| preference), Some(1.into()), "over the group");
    router.ask("route del 10.7.0.0/24 via 10.0.2.2 via 10.0.2.3").good();
    assert_eq!(chosen("10.8.0.0/24"), Some(("two".to_owned(), 200.into())));
    router.ask("route add 10.7.0.0/24 via 10.0.2.2").good();
    assert_eq!(chosen("10.8.0.0/24"), Some(("one".to_owned(), 1.into())));

    let kept = router.ask("show config").good().out;
    assert!(kept.contains("recursive = true") && kept.contains("preference = 200"), "{kept}");
    world.file("kept.toml", &kept);
    world.perigee(&["check", "/run/kept.toml"]).good();
    router.ask("reload").good();
    assert_eq!(chosen("10.8.0.0/24"), Some(("one".to_owned(), 1.into())), "after a reload");
    router.ask("route add 10.6.0.0/24 via 10.0.2.2 weight 257 via 10.0.3.2").refused("expected 1 to 256");
    router.stop();
}
