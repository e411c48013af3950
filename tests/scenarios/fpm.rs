// SPDX-License-Identifier: MIT
//! FRR's zebra sends its routes to perigee over TCP (FPM, `dplane_fpm_nl`), bypassing the kernel.

use perigee_tests::speakers::{PORTS, announcing_bird, networks, router_frr};
use perigee_tests::{Frr, Good, Host, LONG_WAIT, Router, World, run, wait_seeing_for, wait_until};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

perigee_tests::scenarios![
    routes_by_fpm_with_next_hop_groups needs BIRDC FRR,
    routes_by_fpm_with_gateways needs BIRDC FRR,
    nobody_but_zebra_sends_routes as root needs BIRDC FRR,
    a_unix_socket_takes_routes_of_those_who_may as root,
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

/// FRR's interfaces, perigee's twins, went away and came back while perigee restarted. bgpd 8.4 often does not recover
/// from that: it answers its neighbor with "Finite state machine error" for ever, `clear bgp *` or not. Then FRR is
/// restarted too, as an operator would have watchfrr do.
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
    assert_eq!(router.show("routes --limit 1 --source linux/bgp --within 20.0.0.0/8")["total"], ROUTES);

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

/// A connection of a user, as a shell opens it, which tries to send what is no route, and prints what it reads until it
/// is sent away.
fn stranger(user: u32, to: &str) -> String {
    let shell = format!("exec 3<>{to} && printf '\\001\\001\\000\\010aaaa' >&3; cat <&3");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user.to_string(), "--regid", &user.to_string(), "--clear-groups", "bash", "-c", &shell]);
    run(&mut command).out
}

/// A process of any user replaced zebra's connection, and after `fpm_hold` its routes.
fn nobody_but_zebra_sends_routes(world: &World) {
    let client = world.host("client", &["10.0.1.2/24", "2001:db8:1::2/64"], &["10.0.1.1", "2001:db8:1::1"]);
    let server = world.host("server", &["10.0.2.2/24", "2001:db8:2::2/64"], &[]);
    server.run("ip route add local 20.0.0.0/8 dev lo").good();
    let router = world.router("", &format!("{PORTS}\n{FEED}fpm_hold = \"1s\"\n"));
    let _speaker = server.bird(&announcing_bird(2, ROUTES, 0));
    let text = format!("fpm address 127.0.0.1\nno fpm use-next-hop-groups\n{}", router_frr(&[2], &["ipv4", "ipv6"]));
    let mut frr = world.frr(&[ZEBRA, "bgpd"], &text);
    routes_become(&router, ROUTES);
    assert_eq!(stranger(65_534, "/dev/tcp/127.0.0.1/2620"), "");
    router.says("user 65534 is not one of those who may send routes; add it to `fpm_from` in [linux] if it may");
    // root may, but not while zebra is connected.
    assert_eq!(stranger(0, "/dev/tcp/127.0.0.1/2620"), "");
    router.says("a second connection for routes, of user 0, from 127.0.0.1");
    assert_eq!(router.log().matches("zebra has connected").count(), 1, "{}", router.log());
    assert_eq!(router.log().matches("zebra has hung up").count(), 0, "{}", router.log());
    follows(&router, &client);
    // A zebra that is started again gets in.
    frr.kill("zebra").good();
    frr.kill("bgpd").good();
    frr.restart(ZEBRA).good();
    frr.restart("bgpd").good();
    wait_until("zebra to connect again", || router.log().matches("zebra has connected").count() >= 2);
    routes_become(&router, ROUTES);
    router.stop();
}

/// Other programs than zebra speak its protocol over a unix socket.
fn a_unix_socket_takes_routes_of_those_who_may(world: &World) {
    let _client = world.host("client", &["10.0.1.2/24"], &["10.0.1.1"]);
    let _server = world.host("server", &["10.0.2.2/24"], &[]);
    let rest = format!("{PORTS}\n{FEED}fpm = \"/run/fpm.sock\"\nfpm_from = [\"root\", \"61000\"]\n");
    let router = world.router("", &rest);
    let path = Path::new("/run/fpm.sock");
    let there = std::fs::metadata(path).expect("a socket");
    assert_eq!((there.mode() & 0o777, there.uid(), there.gid()), (0o660, 0, 61_000));
    let connect = |user: u32, groups: &[u32]| {
        // Its file keeps others out before the router asks who it is; with the group, the router decides.
        let script = "import os, socket, sys\nuser, *groups = map(int, sys.argv[1:])\n\
            os.setgroups(groups); os.setgid(user); os.setuid(user)\n\
            s = socket.socket(socket.AF_UNIX); s.connect('/run/fpm.sock'); s.settimeout(60)\n\
            try: print(len(s.recv(1)))\nexcept OSError as e: print(e)";
        let mut command = Command::new("python3");
        command.args(["-c", script, &user.to_string()]).args(groups.iter().map(u32::to_string));
        run(&mut command)
    };
    assert!(connect(65_534, &[]).text.contains("Permission denied"));
    assert_eq!(connect(65_534, &[61_000]).good().out, "0\n");
    router.says("user 65534 is not one of those who may send routes");
    assert!(!router.log().contains("zebra has connected"));
    let _zebra = UnixStream::connect(path).expect("root may");
    router.says("zebra has connected, of user 0, at /run/fpm.sock");
    assert_eq!(connect(61_000, &[]).good().out, "0\n");
    router.says("a second connection for routes, of user 61000, at /run/fpm.sock, is refused");
    router.stop();
    assert!(!path.exists(), "the socket is left");
}
