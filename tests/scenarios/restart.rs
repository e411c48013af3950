// SPDX-License-Identifier: MIT
//! Daemons crash and restart without a lost packet: graceful restart (RFC 4724), with the kernel's routes kept
//! meanwhile. The router restarts and arrives at the same table.

use perigee_tests::speakers::{PORTS, announcing_bird, networks, router_bird, router_frr};
use perigee_tests::{Bird, Good, Host, LONG_WAIT, Process, Router, Signal, World, wait_seeing, wait_seeing_for};
use std::collections::BTreeSet;

perigee_tests::scenarios![
    bird_crashes_and_no_packet_is_lost needs BIRDC,
    bgpd_crashes_and_its_routes_stay needs BIRDC FRR,
    frr_crashes_and_no_packet_is_lost needs BIRDC FRR,
    perigee_starts_again_and_comes_to_the_same_table needs BIRDC,
];

const ROUTES: usize = 1000;

fn announcer(world: &World) -> (Host, Bird, Router) {
    let client = world.host("client", &["10.0.1.2/24", "2001:db8:1::2/64"], &["10.0.1.1", "2001:db8:1::1"]);
    let server = world.host("server", &["10.0.2.2/24", "2001:db8:2::2/64"], &[]);
    server.run("ip route add local 20.0.0.0/8 dev lo").good();
    let router = world.router("", PORTS);
    let speaker = server.bird(&announcing_bird(2, ROUTES, 0));
    (client, speaker, router)
}

/// The announcer's networks for which perigee has routes in use.
fn learned(router: &Router) -> BTreeSet<String> {
    let list = router.show("routes --limit 100000 --within 20.0.0.0/8");
    let best = list["routes"].as_array().expect("a list").iter().filter(|route| route["best"] == true);
    best.map(|route| route["prefix"].as_str().expect("a prefix").to_owned()).collect()
}

fn all_learned(router: &Router) {
    let all: BTreeSet<String> = networks(ROUTES).collect();
    // How many there are, for the message.
    let learned = || {
        let learned = learned(router);
        (learned.len(), learned == all)
    };
    wait_seeing_for(LONG_WAIT, "the announcer's routes", learned, |(_, complete)| *complete);
}

/// A ping every 10 ms to a learned network, until [`no_ping_lost`] ends it.
fn steady(client: &Host) -> Process {
    client.reaches("20.0.3.9");
    client.start("ping -n -i 0.01 20.0.3.9")
}

/// The numbers of the pings that were answered, as they came.
fn answered(said: &str) -> Vec<usize> {
    let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok();
    said.lines().filter(|line| line.contains(" bytes from ")).filter_map(number).collect()
}

/// Ends the ping; every reply must have come. Those that are on their way at its end are not missing, so fifty more are
/// waited for before.
#[track_caller]
fn no_ping_lost(ping: Process) {
    let now = || answered(&ping.stdout()).len();
    let before = now();
    wait_seeing("fifty more pings to be answered", now, |now| *now >= before + 50);
    ping.signal(Signal::INT).good();
    let said = ping.end();
    let numbers = answered(&said.out);
    assert!(numbers.iter().copied().eq(1..=numbers.len()), "a reply is missing, or came twice:\n{}", said.text);
}

fn bird_crashes_and_no_packet_is_lost(world: &World) {
    let (client, speaker, router) = announcer(world);
    let mut bird = world.bird(&router_bird(&[2]));
    all_learned(&router);
    let ping = steady(&client);
    bird.kill().good();
    speaker.says("show protocols all four", "Neighbor graceful restart active").good();
    assert_eq!(world.ip("route show 20.0.3.0/24").lines().count(), 1, "Linux keeps its routes");
    bird.restart().good();
    speaker.says("show protocols four", "Established").good();
    bird.says("show route count table master4", &format!("for {} networks", ROUTES + 2)).good();
    bird.says("show status", "Daemon is up and running").good();
    all_learned(&router);
    no_ping_lost(ping);
    router.alone();
    router.audited();
    router.stop();
}

/// While bgpd is away nothing is lost. When it is back, bgpd 8.4 may report to zebra that it has sent all routes before
/// it has: zebra then removes routes from Linux and adds them again some ms later, and perigee does what Linux does. So
/// pings are counted before that.
fn bgpd_crashes_and_its_routes_stay(world: &World) {
    let (client, speaker, router) = announcer(world);
    let mut frr = world.frr(&["zebra -K 240", "bgpd"], &router_frr(&[2], &["ipv4"]));
    all_learned(&router);
    let ping = steady(&client);
    frr.kill("bgpd").good();
    speaker.says("show protocols all four", "Neighbor graceful restart active").good();
    client.ping(50, "20.0.3.9");
    no_ping_lost(ping);
    assert_eq!(world.ip("route show 20.0.3.0/24").lines().count(), 1, "Linux keeps its routes");
    router.audited();
    frr.restart("bgpd").good();
    speaker.says("show protocols four", "Established").good();
    frr.says("show bgp ipv4 unicast summary", &ROUTES.to_string()).good();
    all_learned(&router);
    client.reaches("20.0.3.9");
    router.alone();
    router.stop();
}

/// All of FRR restarts, as watchfrr does it when zebra has crashed: bgpd does not send a new zebra what the old one
/// knew.
fn frr_crashes_and_no_packet_is_lost(world: &World) {
    let (client, speaker, router) = announcer(world);
    let mut frr = world.frr(&["zebra -K 240", "bgpd"], &router_frr(&[2], &["ipv4"]));
    all_learned(&router);
    let ping = steady(&client);
    frr.kill("zebra").good();
    frr.kill("bgpd").good();
    speaker.says("show protocols all four", "Neighbor graceful restart active").good();
    assert_eq!(world.ip("route show 20.0.3.0/24").lines().count(), 1, "Linux keeps its routes");
    frr.restart("zebra -K 240").good();
    frr.restart("bgpd").good();
    speaker.says("show protocols four", "Established").good();
    frr.says("show bgp ipv4 unicast summary", &ROUTES.to_string()).good();
    all_learned(&router);
    no_ping_lost(ping);
    router.alone();
    router.audited();
    router.stop();
}

fn perigee_starts_again_and_comes_to_the_same_table(world: &World) {
    let (client, speaker, mut router) = announcer(world);
    let bird = world.bird(&router_bird(&[2]));
    all_learned(&router);
    client.ping(20, "20.0.3.9");
    // The twins go, and with them the routes of Linux and the session: both after a crash and after a clean end.
    for crash in [true, false] {
        if crash {
            router.kill();
        } else {
            router.stop();
        }
        bird.says("show protocols four2", "start").good();
        router = world.router("", PORTS);
        speaker.says("show protocols four", "Established").good();
        all_learned(&router);
        client.reaches("20.0.3.9");
        client.ping(20, "20.0.3.9");
        router.alone();
        router.audited();
    }
    router.stop();
}
