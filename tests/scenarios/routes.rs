// SPDX-License-Identifier: MIT
//! Static routes: from the configuration, from a file, from the operator; what keeps them and what does not.

use crate::linux_routes::with_a_second_hop;
use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Good, Host, World};

perigee_tests::scenarios![
    routes_lead_over_a_second_router,
    operator_routes_take_effect_at_once,
    show_config_keeps_what_a_restart_loses,
    routes_that_lead_nowhere_say_so,
];

fn hops(client: &Host, address: &str) -> Vec<String> {
    let shown = client.run(&format!("traceroute -n -N 1 -q 1 -w 60 -m 5 {address}")).good().out;
    shown.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned).collect()
}

fn routes_lead_over_a_second_router(world: &World) {
    let (Pair { client, .. }, _far) = with_a_second_hop(world);
    world.file("routes.txt", "# behind the server\n2001:db8:9::/64 via 2001:db8:2::2 dev lan\n");
    let routes = "[[route]]\nprefix = \"10.9.0.0/24\"\nvia = \"10.0.2.2\"\n";
    let router = world.router("", &format!("{PORTS}\n{routes}"));
    client.ping_fails("2001:db8:9::2");
    router.stop();

    let file = world.configuration("", &format!("{PORTS}\n{routes}"));
    let text = std::fs::read_to_string(&file).expect("the configuration");
    world.file("router.toml", &format!("routes_file = \"routes.txt\"\n{text}"));
    let router = perigee_tests::Router::start(&file);
    client.reaches("10.9.0.2");
    client.reaches("2001:db8:9::2");
    assert_eq!(hops(&client, "10.9.0.2"), ["10.0.1.1", "10.0.2.2", "10.9.0.2"]);
    assert_eq!(hops(&client, "2001:db8:9::2"), ["2001:db8:1::1", "2001:db8:2::2", "2001:db8:9::2"]);
    client.ping(20, "10.9.0.2");
    let shown = router.ask("show routes").good().out;
    assert!(shown.contains("10.9.0.0/24") && shown.contains("2001:db8:9::/64"), "{shown}");
    router.alone();
    router.stop();
}

fn operator_routes_take_effect_at_once(world: &World) {
    let (Pair { client, .. }, _far) = with_a_second_hop(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    client.ping_fails("10.9.0.2");
    let added = router.ask("route add 10.9.0.0/24 via 10.0.2.2").good().out;
    assert!(added.contains("10.9.0.0/24"), "{added}");
    client.reaches("10.9.0.2");
    router.ask("route add 2001:db8:9::/64 via 2001:db8:2::2 dev lan").good();
    client.reaches("2001:db8:9::2");
    router.ask("route add 10.9.0.0/24 via 10.0.1.2").refused("already");
    router.ask("route add 10.8.0.0/24 via 10.77.0.1").refused("10.77.0.1");
    router.ask("route add 10.8.0.0/24 via 10.0.2.2 dev moon").refused("moon");
    router.ask("route del 10.9.0.0/24 via 10.0.2.2").good();
    client.ping_fails("10.9.0.2");
    router.ask("route del 10.9.0.0/24 via 10.0.2.2").refused("no static route");
    client.ping(20, "2001:db8:9::2");
    router.stop();
}

fn show_config_keeps_what_a_restart_loses(world: &World) {
    let (Pair { client, .. }, _far) = with_a_second_hop(world);
    let router = world.router("", PORTS);
    router.ask("route add 10.9.0.0/24 via 10.0.2.2").good();
    client.reaches("10.9.0.2");
    router.ask("reload").good();
    client.ping(20, "10.9.0.2");
    let kept = router.ask("show config").good().out;
    router.stop();

    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    client.ping_fails("10.9.0.2");
    router.stop();

    let file = world.file("kept.toml", &kept);
    world.perigee(&["check", "/run/kept.toml"]).good();
    let router = perigee_tests::Router::start(&file);
    client.reaches("10.9.0.2");
    router.stop();
}

fn routes_that_lead_nowhere_say_so(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let route = |prefix: &str, fate: &str| format!("[[route]]\nprefix = \"{prefix}\"\n{fate} = true\n");
    let mut sections = PORTS.to_owned();
    for (prefix4, prefix6, fate) in [
        ("10.20.0.0/16", "2001:db8:20::/48", "unreachable"),
        ("10.21.0.0/16", "2001:db8:21::/48", "prohibit"),
        ("10.22.0.0/16", "2001:db8:22::/48", "blackhole"),
    ] {
        sections += &route(prefix4, fate);
        sections += &route(prefix6, fate);
    }
    let router = world.router("", &sections);
    client.reaches("10.0.1.1");
    client.reaches("2001:db8:1::1");
    for (address, message) in [
        ("10.19.0.1", "Destination Net Unreachable"),
        ("10.20.0.1", "Destination Host Unreachable"),
        ("10.21.0.1", "Packet filtered"),
        ("2001:db8:19::1", "No route"),
        ("2001:db8:20::1", "Address unreachable"),
        ("2001:db8:21::1", "Administratively prohibited"),
    ] {
        let shown = client.ping_refused(address);
        let wanted = message.to_lowercase();
        let said = shown.lines().any(|line| {
            let line = line.to_lowercase();
            line.contains(&wanted) || (message == "No route" && line.contains("unreachable: no route"))
        });
        assert!(said, "ping {address} was to say {message:?}:\n{shown}");
    }
    for (address, reason) in [("10.22.0.1", "ipv4_lookup.blackhole"), ("2001:db8:22::1", "ipv6_lookup.blackhole")] {
        let before = router.dropped(reason);
        assert!(!client.ping_fails(address).contains("From "), "a blackhole answers nothing");
        router.counts(reason, before + 1);
    }
    router.stop();
}
