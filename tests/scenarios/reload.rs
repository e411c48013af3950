// SPDX-License-Identifier: MIT
//! Reload: all or nothing, without losing a packet.

use crate::refusals::line_of;
use crate::{PORTS, Pair};
use perigee_tests::Signal;
use perigee_tests::{Asserts, Good, Router, World, wait_until};

perigee_tests::scenarios![
    no_packet_is_lost_by_reloads,
    a_script_that_does_not_load_is_refused_with_its_place,
    a_script_that_throws_gives_way_to_the_last_good_one,
    a_configuration_with_mistakes_is_refused_with_all_of_them,
    what_needs_a_restart_is_refused_in_one_sentence,
    addresses_routes_filters_and_neighbors_follow_the_configuration,
    an_address_that_somebody_removed_is_said_and_comes_back,
    a_vlan_by_reload_gets_its_interface_in_linux,
    two_interfaces_in_one_network_are_refused_or_as_linux_has_them,
];

/// The default fast path.
const SCRIPT: &str = include_str!("../../lua/fastpath.lua");

fn generation(router: &Router) -> u64 {
    router.show("scripts")[0]["generation"].as_u64().expect("a generation")
}

fn no_packet_is_lost_by_reloads(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let script = world.file("mine.lua", SCRIPT);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let pings = client.start_ping(600, "10.0.2.2");
    let first = generation(&router);
    for round in 0..10 {
        let script = if round % 2 == 0 { format!("reload {}", script.display()) } else { "reload".to_owned() };
        router.ask(&script).good();
    }
    pings.end().every_reply(600);
    assert_eq!(generation(&router), first + 10);
    assert_eq!(router.dropped("host.script_error") + router.dropped("host.unclaimed"), 0);
    router.alone();
    router.stop();
}

fn a_script_that_does_not_load_is_refused_with_its_place(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    world.file("broken.lua", "local x = 1\n\nreturn function(worker) worker:batch( end\n");
    router.ask("reload /run/broken.lua").refused("broken.lua:3");
    world.file("wrong.lua", "local x = nil\nreturn x.y\n");
    router.ask("reload /run/wrong.lua").refused("wrong.lua:2");
    router.ask("reload /run/absent.lua").refused("absent.lua");
    // It ended the router.
    world.file("exit.lua", "\nos.exit(4)\n");
    router.ask("reload /run/exit.lua").refused("exit.lua:2: os.exit was called");
    assert_eq!(generation(&router), 1);
    client.ping(20, "10.0.2.2");
    router.stop();
}

fn a_script_that_throws_gives_way_to_the_last_good_one(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let throwing = SCRIPT.replace("m.classify(burst, ip4, ip6)", "error('on purpose')");
    assert_ne!(throwing, SCRIPT);
    world.file("throwing.lua", &throwing);
    router.ask("reload /run/throwing.lua").good();
    client.reaches("10.0.2.2"); // the pings before make it throw
    let shown = router.show("scripts")[0].clone();
    // The one that runs has not thrown.
    assert_eq!((&shown["throws"], &shown["state"]), (&0.into(), &"rolled_back".into()), "{shown}");
    let error = shown["error"].as_str().unwrap_or_default();
    assert!(error.contains("on purpose") && error.contains("throwing.lua:"), "{shown}");
    let lost = router.dropped("host.script_error");
    assert!((3..=32 * 3).contains(&lost), "{lost} packets in three batches");
    client.ping(20, "10.0.2.2");
    assert_eq!(router.dropped("host.script_error"), lost);
    router.stop();
}

fn a_configuration_with_mistakes_is_refused_with_all_of_them(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let file = world.configuration("bursts = 7", &PORTS.replace("10.0.2.1/24", "10.0.2.0/24"));
    let place = format!("router.toml:{}:", line_of(&file, "addresses = [\"10.0.2.0/24"));
    let output = router.ask("reload").refused("router.toml:5:").text;
    for words in ["bursts", "10.0.2.0/24", &place] {
        assert!(output.contains(words), "{words} is not in\n{output}");
    }
    client.ping(20, "10.0.2.2");
    router.stop();
}

fn what_needs_a_restart_is_refused_in_one_sentence(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    world.configuration("burst = 16\nmbufs = 4096", &PORTS.replace("10.0.2.1/24", "10.0.2.3/24"));
    let output = router.ask("reload").refused("needs a restart").text;
    assert!(output.contains("router.burst, router.mbufs") && output.trim().lines().count() == 1, "{output}");
    client.ping(20, "10.0.2.2"); // nor was the address changed
    router.stop();
}

fn twin_addresses(world: &World) -> String {
    world.ip("-o addr show dev wan")
}

fn addresses_routes_filters_and_neighbors_follow_the_configuration(world: &World) {
    let Pair { client, server } = Pair::new(world);
    server.run("ip addr add 10.9.0.2/32 dev lo").good();
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let changed = PORTS.replace("\"10.0.1.1/24\"", "\"10.0.1.1/24\", \"10.0.1.200/24\"");
    let more = r#"
        [[route]]
        prefix = "10.9.0.0/24"
        via = "10.0.2.2"
        [[filter]]
        dst = "10.0.2.2"
        proto = "icmp"
        action = "drop"
        [[neighbor]]
        address = "10.0.2.77"
        mac = "02:00:00:00:00:77"
    "#;
    world.configuration("", &format!("{changed}\n{more}"));
    router.ask("reload").good();
    client.ping(5, "10.0.1.200");
    assert!(twin_addresses(world).contains("10.0.1.200/24"));
    client.reaches("10.9.0.2");
    client.ping_fails("10.0.2.2");
    router.counts_at_least("filter.ipv4_denied", 1);
    let (state, mac) = router.neighbor("10.0.2.77").expect("the static neighbor");
    assert_eq!((state.as_str(), mac.as_str()), ("static", Some("02:00:00:00:00:77")));

    // And back, by a signal.
    world.configuration("", PORTS);
    router.signal(Signal::HUP);
    router.says("generation 3");
    client.ping(5, "10.0.2.2");
    client.ping_fails("10.0.1.200");
    client.ping_fails("10.9.0.2");
    wait_until("the twin's address to go", || !twin_addresses(world).contains("10.0.1.200"));
    assert!(router.neighbor("10.0.2.77").is_none_or(|(state, _)| state != "static"));

    world.configuration("burst = 7", PORTS);
    router.signal(Signal::HUP);
    router.says("not reloaded:");
    client.ping(5, "10.0.2.2");
    router.stop();
}

/// It stayed away, and reload, audit and `show config` said that all was well.
fn an_address_that_somebody_removed_is_said_and_comes_back(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let lost = "wan lacks the address 10.0.1.1/24 in Linux, which the configuration gives it";
    for repair in ["reload", "audit --repair"] {
        world.ip("addr del 10.0.1.1/24 dev wan");
        router.says(lost);
        // The log of the round before says the same.
        wait_until("the address to go", || !router.ask("show routes").text.contains("10.0.1.1/32"));
        client.ping_fails("10.0.1.1");
        router.ask("audit").refused("wan lacks the address 10.0.1.1/24 of the configuration in Linux");
        router.ask(repair);
        wait_until("the address to come back", || twin_addresses(world).contains("10.0.1.1/24"));
        client.reaches("10.0.1.1");
        client.reaches("10.0.2.2");
        router.says(&format!("this is over: {lost}"));
        router.ask("audit").good();
    }
    // Below 1280 bytes Linux takes a link's IPv6 away.
    world.ip("link set wan mtu 1200");
    router.says("wan lacks the address 2001:db8:1::1/64");
    world.ip("link set wan mtu 1500");
    router.ask("reload").good();
    wait_until("the address to come back", || twin_addresses(world).contains("2001:db8:1::1/64"));
    client.reaches("2001:db8:1::1");
    router.stop();
}

/// It was the router's alone, in silence.
fn a_vlan_by_reload_gets_its_interface_in_linux(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    if !world.lab().ip("link add link r-client name try type vlan id 7").is_ok_and(|_| true) {
        return world.unable("the kernel has no VLAN interfaces");
    }
    world.ip("link del try");
    client.run("ip link add link eth0 name eth0.100 type vlan id 100").good();
    client.run("ip addr add 10.0.100.2/24 dev eth0.100").good();
    client.run("ip link set eth0.100 up").good();
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    world.configuration("", &format!("{PORTS}\n[port.wan.vlan.100]\naddresses = [\"10.0.100.1/24\"]\n"));
    router.ask("reload").good();
    router.says("Linux has the VLAN interface wan.100");
    assert!(world.ip("-o addr show dev wan.100").contains("10.0.100.1/24"));
    client.reaches("10.0.100.1");
    router.audited();
    // Deleted by somebody, it comes back; out of the configuration, it goes.
    world.ip("link del wan.100");
    wait_until("the reload to make it again", || {
        router.ask("reload").good();
        world.ip("-br link").contains("wan.100")
    });
    world.configuration("", PORTS);
    wait_until("the reload to see it", || {
        router.ask("reload").good();
        !world.ip("-br link").contains("wan.100")
    });
    wait_until("the interface to go", || !router.ask("show ports").text.contains("10.0.100.1"));
    client.reaches("10.0.2.2");
    router.stop();
}

/// The first one went dead, in silence.
fn two_interfaces_in_one_network_are_refused_or_as_linux_has_them(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let both = PORTS.replace("\"10.0.2.1/24\"", "\"10.0.1.9/24\"");
    assert_ne!(both, PORTS);
    let words = "found 10.0.1.9/24, whose network `wan` is on already";
    world.refused("", &both).refused("has mistakes");
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    world.configuration("", &both);
    router.ask("reload").refused(words);
    world.configuration("", PORTS);
    // At run time, Linux sends by the first.
    world.ip("addr add 10.0.1.8/24 dev lan");
    wait_until("the second route", || router.ask("show routes").text.contains("10.0.1.8/32"));
    assert!(world.ip("route get 10.0.1.2").contains("dev wan"));
    client.ping(5, "10.0.2.2");
    let routes = router.ask("show routes").text;
    let network = routes.lines().find(|line| line.contains("10.0.1.0/24")).expect("the network");
    assert!(network.split_whitespace().any(|word| word == "wan"), "{routes}");
    router.audited();
    router.stop();
}
