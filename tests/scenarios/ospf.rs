// SPDX-License-Identifier: MIT
//! OSPF over the twins, for IPv4 and IPv6: adjacencies become Full on both sides, routes are exchanged, and traffic
//! follows them, also when a cost changes.
//!
//! ```text
//! client ─── wan [perigee] one ─── one: 10.7.1.1, 10.7.0.1    (BIRD)
//!                          two ─── two: 10.7.2.1, 10.7.0.1    (FRR)
//! ```
//! Neither `one` nor `two` has a default route: an answer comes back only by a route that they have learned.

use perigee_lab::bird::Configuration;
use perigee_lab::frr;
use perigee_tests::{Bird, Frr, Good, Host, LONG_WAIT, Router, World, wait_seeing_for};

perigee_tests::scenarios![
    bird_beside_the_router needs BIRDC FRR,
    frr_beside_the_router needs BIRDC FRR,
];

const PORTS: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64", "fe80::1:1/64"]
[port.one]
interface = "r-one"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64", "fe80::2:1/64"]
[port.two]
interface = "r-two"
addresses = ["10.0.3.1/24", "2001:db8:3::1/64", "fe80::3:1/64"]
"#;

/// Addresses of the two routers behind perigee.
const FAR: [&str; 4] = ["10.7.1.1", "10.7.2.1", "2001:db8:7:1::1", "2001:db8:7:2::1"];
/// An address that both have.
const SHARED: &str = "10.7.0.1";

/// A BIRD that puts all that it learns into Linux.
fn speaker(router_id: &str) -> Configuration {
    Configuration::new(router_id).kernel("ipv4", "all", "").kernel("ipv6", "all", "")
}

/// BIRD on the router's side; `costs` of its interfaces one and two.
fn bird_of_the_router(costs: [u32; 2]) -> String {
    let area = |stub: &str| {
        format!(
            "area 0 {{ interface \"wan\" {{ {stub} }}; interface \"one\" {{ hello 1; dead 4; cost {}; }}; \
             interface \"two\" {{ hello 1; dead 4; cost {}; }}; }};",
            costs[0], costs[1]
        )
    };
    let ospf = format!("protocol ospf v2 four {{ ipv4; {0} }}\nprotocol ospf v3 six {{ ipv6; {0} }}", area("stub;"));
    speaker("10.0.0.1").and(&ospf).text().to_owned()
}

/// FRR on the router's side.
fn frr_of_the_router(costs: [u32; 2]) -> String {
    frr::ospf("10.0.0.1", &[("wan", None), ("one", Some(costs[0])), ("two", Some(costs[1]))])
}

struct Neighbors {
    client: Host,
    one: Bird,
    two: Frr,
}

/// Client, and the routers one and two with what they announce.
fn neighbors(world: &World) -> (Neighbors, Router) {
    let client = world.host("client", &["10.0.1.2/24", "2001:db8:1::2/64"], &["10.0.1.1", "2001:db8:1::1"]);
    let one = world.host("one", &["10.0.2.2/24", "2001:db8:2::2/64"], &[]);
    let two = world.host("two", &["10.0.3.2/24", "2001:db8:3::2/64"], &[]);
    let router = world.router("", PORTS);
    for (host, number) in [(&one, 1), (&two, 2)] {
        host.run(&format!("ip addr add 10.7.{number}.1/32 dev lo")).good();
        host.run(&format!("ip addr add {SHARED}/32 dev lo")).good();
        host.run(&format!("ip addr add 2001:db8:7:{number}::1/128 dev lo")).good();
    }
    let routes = speaker("10.0.0.2").and("protocol direct { ipv6; interface \"lo\"; }").and(
        "protocol ospf v2 four { ipv4; area 0 { interface \"lo\" { stub; }; interface \"eth0\" { hello 1; dead 4; }; }; }\n\
         protocol ospf v3 six { ipv6 { export where source = RTS_DEVICE; }; area 0 { interface \"eth0\" { hello 1; dead 4; }; }; }",
    );
    let one = one.bird(routes.text());
    let two = two.frr(
        &["zebra", "ospfd", "ospf6d"],
        &format!(
            "interface lo\n ip ospf area 0\n{} redistribute connected\n",
            frr::ospf("10.0.0.3", &[("eth0", Some(10))])
        ),
    );
    (Neighbors { client, one, two }, router)
}

/// Waits until BIRD has this many full adjacencies with both protocols.
fn full_in_bird(bird: &Bird, count: usize) {
    for protocol in ["four", "six"] {
        let what = format!("{count} adjacencies of {protocol} to become Full in BIRD");
        let shown = || bird.ask(&format!("show ospf neighbors {protocol}")).out;
        wait_seeing_for(LONG_WAIT, &what, shown, |shown| shown.matches("Full/").count() == count);
    }
}

/// Waits until FRR has this many full adjacencies with both protocols.
fn full_in_frr(frr: &Frr, count: usize) {
    for words in ["show ip ospf neighbor", "show ipv6 ospf6 neighbor"] {
        let what = format!("{count} adjacencies to become Full in FRR: {words}");
        wait_seeing_for(LONG_WAIT, &what, || frr.ask(words).out, |shown| shown.matches("Full/").count() == count);
    }
}

/// Pings a learned address, and asserts that perigee's workers have forwarded the ping, out of `port` if one is named.
fn follows(router: &Router, client: &Host, address: &str, port: Option<&str>) {
    const PINGS: usize = 30;
    let sent = || port.map_or(0, |port| router.port(port)["counters"]["transmit_packets"].as_u64().expect("a number"));
    client.reaches(address);
    let (before, port_before) = (router.workers("transmitted"), sent());
    client.ping(PINGS, address);
    let both_ways = 2 * PINGS as u64;
    router.transmits(before + both_ways);
    if let Some(port) = port {
        assert!(sent() >= port_before + PINGS as u64, "{address} is not reached by {port}");
    }
}

/// The routes to what was learned name who gave them to Linux.
fn made_by(router: &Router, protocol: &str) {
    for address in FAR {
        let shown = router.show(&format!("routes {address}"));
        let found: Vec<_> = shown["routes"].as_array().expect("routes").iter().map(|r| r["protocol"].clone()).collect();
        assert_eq!(found, [protocol], "{address}");
    }
    let table = router.ask(&format!("show routes {}", FAR[0])).good().out;
    assert!(table.contains(&format!("linux/{protocol}")), "{table}");
}

/// Learned routes are in use; then `turn` moves the path to the shared address from port one to port two.
fn traffic_follows(router: &Router, client: &Host, turn: impl FnOnce()) {
    for address in FAR {
        follows(router, client, address, None);
    }
    router.leads(&format!("{SHARED}/32"), "one");
    follows(router, client, SHARED, Some("one"));
    turn();
    router.leads(&format!("{SHARED}/32"), "two");
    follows(router, client, SHARED, Some("two"));
    router.alone();
    router.audited();
}

fn bird_beside_the_router(world: &World) {
    let (Neighbors { client, one, two }, router) = neighbors(world);
    let bird = world.bird(&bird_of_the_router([10, 20]));
    full_in_bird(&bird, 2);
    full_in_bird(&one, 1);
    full_in_frr(&two, 1);
    traffic_follows(&router, &client, || bird.configure(&bird_of_the_router([30, 20])).good());
    made_by(&router, "bird");
    router.stop();
}

fn frr_beside_the_router(world: &World) {
    let (Neighbors { client, one, two }, router) = neighbors(world);
    let frr = world.frr(&["zebra", "ospfd", "ospf6d"], &frr_of_the_router([10, 20]));
    full_in_frr(&frr, 2);
    full_in_bird(&one, 1);
    full_in_frr(&two, 1);
    traffic_follows(&router, &client, || frr.configure(&["interface one", "ip ospf cost 30"]).good());
    made_by(&router, "ospf");
    router.stop();
}
