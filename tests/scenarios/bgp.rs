// SPDX-License-Identifier: MIT
//! BGP over the twins: ten thousand routes come, go and come again, and traffic follows them.

use crate::Pair;
use perigee_tests::speakers::{PORTS, announcing_bird, networks, networks6, router_bird, router_frr};
use perigee_tests::{Bird, Good, Host, LONG_WAIT, Router, World, wait_seeing_for};
use serde_json::Value;

perigee_tests::scenarios![
    ten_thousand_routes_by_bird needs BIRDC,
    ten_thousand_routes_by_frr needs BIRDC FRR,
    sources_of_routes_live_side_by_side needs BIRDC,
];

const ROUTES: usize = 10_000;
const ROUTES6: usize = 500;

/// Client and server; the server announces, and answers for whatever it announces.
fn announcer(world: &World) -> (Host, Bird, Router) {
    let client = world.host("client", &["10.0.1.2/24", "2001:db8:1::2/64"], &["10.0.1.1", "2001:db8:1::1"]);
    // No default route: it answers by the routes that it learns.
    let server = world.host("server", &["10.0.2.2/24", "2001:db8:2::2/64"], &[]);
    server.run("ip route add local 20.0.0.0/8 dev lo").good();
    server.run("ip route add local 2001:db8:f000::/48 dev lo").good();
    let router = world.router("", PORTS);
    let speaker = server.bird(&announcing_bird(2, ROUTES, ROUTES6));
    (client, speaker, router)
}

/// An address in each of some of the networks, the first and the last among them.
fn some_addresses() -> Vec<String> {
    let some = networks(ROUTES).step_by(1111).chain(networks(ROUTES).last());
    let some6 = networks6(ROUTES6).step_by(111).chain(networks6(ROUTES6).last());
    let inside = |network: String| network.replace(".0/24", ".9").replace("::/64", "::9");
    some.chain(some6).map(inside).collect()
}

/// Waits until perigee has this many routes of Linux in these networks.
fn routes_become(router: &Router, count: usize, count6: usize) {
    for (within, wanted) in [("20.0.0.0/8", count), ("2001:db8:f000::/48", count6)] {
        let what = format!("{wanted} routes in {within}");
        let total = || router.show(&format!("routes --limit 1 --within {within}"))["total"].as_u64().expect("a number");
        wait_seeing_for(LONG_WAIT, &what, total, |total| *total == wanted as u64);
    }
}

/// Routes come, traffic follows; they go, and it ends; they come again.
fn come_go_and_come_again(router: &Router, client: &Host, speaker: &Bird) {
    let reached = || {
        for address in some_addresses() {
            client.reaches(&address);
            let before = router.workers("transmitted");
            client.ping(10, &address);
            router.transmits(before + 20);
        }
        router.alone();
        router.audited();
    };
    routes_become(router, ROUTES, ROUTES6);
    reached();
    for protocol in ["many", "many6"] {
        speaker.ask(&format!("disable {protocol}")).good();
    }
    routes_become(router, 0, 0);
    router.audited();
    let before = router.dropped("slowpath.no_route");
    for address in some_addresses().iter().step_by(5) {
        client.ping_fails(address);
    }
    // Packets to what is withdrawn have no route.
    router.counts_at_least("slowpath.no_route", before + 1);
    for protocol in ["many", "many6"] {
        speaker.ask(&format!("enable {protocol}")).good();
    }
    routes_become(router, ROUTES, ROUTES6);
    reached();
}

fn ten_thousand_routes_by_bird(world: &World) {
    let (client, speaker, router) = announcer(world);
    let mut bird = world.bird(&router_bird(&[2]));
    wait_seeing_for(
        LONG_WAIT,
        "all routes in BIRD",
        || bird.counts().good(),
        |counts| counts.iter().any(|count| count.table == "master4" && count.networks >= ROUTES as u64),
    );
    come_go_and_come_again(&router, &client, &speaker);
    // BIRD stops cleanly: the routes that it removes from Linux leave perigee as well.
    bird.stop().good();
    routes_become(&router, 0, 0);
    router.audited();
    router.stop();
}

/// zebra gives the kernel next-hop objects, and routes that name them.
fn ten_thousand_routes_by_frr(world: &World) {
    let (client, speaker, router) = announcer(world);
    let _frr = world.frr(&["zebra", "bgpd"], &router_frr(&[2], &["ipv4", "ipv6"]));
    let shown = || world.ip("route show 20.0.0.0/24");
    wait_seeing_for(LONG_WAIT, "the first route in Linux", shown, |shown| shown.contains("nhid"));
    come_go_and_come_again(&router, &client, &speaker);
    let of_bgp =
        |within: &str| router.show(&format!("routes --limit 1 --source bgp --within {within}"))["total"].clone();
    assert_eq!([of_bgp("20.0.0.0/8"), of_bgp("2001:db8:f000::/48")], [ROUTES, ROUTES6]);
    router.stop();
}

/// Routes of a daemon, of `ip` and of the configuration do not disturb each other.
fn sources_of_routes_live_side_by_side(world: &World) {
    let Pair { client, server } = Pair::new(world);
    server.run("ip route add local 20.0.0.0/8 dev lo").good();
    let own = "[[route]]\nprefix = \"20.0.1.0/24\"\nvia = \"10.0.2.2\"\n";
    let router = world.router("", &format!("{PORTS}\n{own}"));
    let _speaker = server.bird(&announcing_bird(2, 3, 0));
    let bird = world.bird(&router_bird(&[2]));
    world.ip("route add 20.0.3.0/24 via 10.0.2.2");
    for number in 0..4 {
        client.reaches(&format!("20.0.{number}.9"));
    }
    let source = |prefix: &str| router.route(prefix).expect("a route")["source"].clone();
    assert_ne!(source("20.0.1.0/24"), source("20.0.0.0/24"), "the configuration's before Linux's");
    let protocol = |prefix: &str| router.route(prefix).expect("a route")["protocol"].clone();
    let protocols = [protocol("20.0.0.0/24"), protocol("20.0.1.0/24"), protocol("20.0.3.0/24")];
    assert_eq!(protocols, [Value::from("bird"), Value::Null, Value::from("boot")]);
    let of_bird = router.ask("show routes --source bird --within 20.0.0.0/8").good().out;
    assert!(of_bird.contains("linux/bird") && of_bird.contains("20.0.0.0/24"), "{of_bird}");
    assert!(!of_bird.contains("20.0.3.0/24") && !of_bird.contains("static"), "{of_bird}");
    let of_linux = router.ask("show routes --source linux --within 20.0.0.0/8").good().out;
    assert!(of_linux.contains("linux/bird") && of_linux.contains("linux/boot"), "{of_linux}");
    let unknown = router.ask("show routes --source birds");
    assert_eq!(unknown.code, Some(2), "{}", unknown.text);
    assert!(unknown.text.contains("found \"birds\", expected where routes come from: local,"), "{}", unknown.text);
    router.becomes("20.0.1.0/24", |_| router.routes("20.0.1.0/24").len() == 2);
    bird.stop().good();
    for lost in ["20.0.0.0/24", "20.0.2.0/24"] {
        router.loses(lost);
    }
    client.ping(10, "20.0.1.9");
    client.ping(10, "20.0.3.9");
    router.alone();
    router.audited();
    router.stop();
}
