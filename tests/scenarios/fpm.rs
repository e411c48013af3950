// SPDX-License-Identifier: MIT
//! FRR's zebra sends its routes to perigee over TCP (FPM, `dplane_fpm_nl`), bypassing the kernel.

use perigee_tests::speakers::{PORTS, announcing_bird, networks, router_frr};
use perigee_tests::{Frr, Good, Host, LONG_WAIT, Router, World, wait_seeing_for};
use std::time::{Duration, Instant};

perigee_tests::scenarios![
    routes_by_fpm_with_next_hop_groups needs BIRDC FRR,
    routes_by_fpm_with_gateways needs BIRDC FRR,
];

const ROUTES: usize = 2000;
const ZEBRA: &str = "zebra -M dplane_fpm_nl";
const FEED: &str = "[linux]\nfeed = \"fpm\"\n";

fn routes_become(router: &Router, count: usize) {
    let total = || router.show("routes --limit 1 --within 20.0.0.0/8")["total"].clone();
    wait_seeing_for(LONG_WAIT, &format!("{count} routes"), total, |total| *total == count);
}

fn follows(router: &Router, client: &Host) {
    for network in networks(ROUTES).step_by(397) {
        let address = network.replace(".0/24", ".9");
        client.reaches(&address);
        let before = router.workers("transmitted");
        client.ping(10, &address);
        router.transmits(before + 20);
    }
    router.alone();
}

/// FRR's interfaces, perigee's twins, went away and came back while perigee restarted. bgpd 8.4 often does not recover from that:
/// it answers its neighbor with "Finite state machine error" for ever, `clear bgp *` or not. Then FRR is restarted too, as an
/// operator would have watchfrr do.
fn comes_back(router: &Router, frr: &mut Frr) {
    let begin = Instant::now();
    let mut again = false;
    let what = format!("{ROUTES} routes, perigee having started again");
    let total = || {
        if !again && begin.elapsed() > Duration::from_secs(30) {
            again = true;
            frr.kill("zebra").good();
            frr.kill("bgpd").good();
            frr.restart(ZEBRA).good();
            frr.restart("bgpd").good();
        }
        router.show("routes --limit 1 --within 20.0.0.0/8")["total"].clone()
    };
    wait_seeing_for(LONG_WAIT, &what, total, |total| *total == ROUTES);
}

fn routes_by_fpm(world: &World, fpm: &str) {
    let client = world.host("client", &["10.0.1.2/24", "2001:db8:1::2/64"], &["10.0.1.1", "2001:db8:1::1"]);
    let server = world.host("server", &["10.0.2.2/24", "2001:db8:2::2/64"], &[]);
    server.run("ip route add local 20.0.0.0/8 dev lo").good();
    let mut router = world.router("", &format!("{PORTS}\n{FEED}"));
    let speaker = server.bird(&announcing_bird(2, ROUTES, 0));
    let mut frr = world.frr(&[ZEBRA, "bgpd"], &format!("{fpm}{}", router_frr(&[2], &["ipv4", "ipv6"])));
    routes_become(&router, ROUTES);
    follows(&router, &client);
    assert_eq!(router.show("linux")["feed"], "fpm");

    let go_and_come_again = |router: &Router| {
        speaker.ask("disable many").good();
        routes_become(router, 0);
        speaker.ask("enable many").good();
        routes_become(router, ROUTES);
    };
    go_and_come_again(&router);

    // All of FRR restarts, as watchfrr does it: perigee gets the whole table again.
    frr.kill("zebra").good();
    frr.kill("bgpd").good();
    frr.restart(ZEBRA).good();
    frr.restart("bgpd").good();
    speaker.says("show protocols four", "Established").good();
    frr.says("show ip route summary", &ROUTES.to_string()).good();
    routes_become(&router, ROUTES);
    go_and_come_again(&router);
    follows(&router, &client);

    // perigee restarts: zebra finds it again.
    router.stop();
    router = world.router("", &format!("{PORTS}\n{FEED}"));
    comes_back(&router, &mut frr);
    follows(&router, &client);
    router.audited();
    router.stop();
}

fn routes_by_fpm_with_next_hop_groups(world: &World) {
    routes_by_fpm(world, "fpm address 127.0.0.1\nfpm use-next-hop-groups\n");
}

fn routes_by_fpm_with_gateways(world: &World) {
    routes_by_fpm(world, "fpm address 127.0.0.1\nno fpm use-next-hop-groups\n");
}
