// SPDX-License-Identifier: MIT
//! Looking into a running router: what `perigee trace` and `perigee capture` show of real traffic.

use crate::{PORTS, Pair};
use perigee_tests::Signal;
use perigee_tests::{Asserts, Ended, Good, Host, Process, Router, World, frame, perigee, run, wait_until};
use serde_json::Value;
use std::process::Command;

perigee_tests::scenarios![
    a_ping_is_followed_through_every_module,
    a_drop_is_traced_and_captured_with_its_section,
    what_a_port_sends_and_receives_is_a_file_for_tcpdump,
    punts_are_shown_and_mistakes_are_told,
    a_router_that_stops_ends_its_taps,
];

/// Starts `perigee WORDS...` for the router, and waits until it has received something of the stream: the tap is on.
pub(crate) fn start(world: &World, words: &[&str]) -> Process {
    let mut command = Command::new(perigee());
    command.args(words).args(["--socket", "/run/t.sock"]).env("NO_COLOR", "1");
    let process = world.start(&mut command);
    wait_until("the tap to be on", || process.stderr().contains("Ctrl-C ends it"));
    // A worker takes new tables within its next round; so does this request.
    world.perigee(&["show", "workers", "--socket", "/run/t.sock"]).good();
    process
}

fn traces(ended: Ended) -> Vec<Value> {
    let lines = ended.good().out;
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn steps(trace: &Value) -> Vec<(String, String)> {
    let text = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
    let list = trace["steps"].as_array().expect("steps");
    list.iter().map(|step| (text(step, "module"), text(step, "decision"))).collect()
}

fn has(trace: &Value, module: &str, decision: &str) -> bool {
    steps(trace).iter().any(|(m, d)| m == module && d == decision)
}

/// tcpdump's view of a file.
fn tcpdump(file: &str, filter: &str) -> String {
    run(&mut tcpdump_of(file, filter)).good().out
}

/// As root, tcpdump would become another user, whom this namespace does not know: so it runs as nobody, in a namespace
/// of its own.
fn tcpdump_of(file: &str, filter: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-U", "tcpdump", "-n", "-r", file]);
    if !filter.is_empty() {
        command.arg(filter);
    }
    command
}

/// Sends exactly this many pings, however long the replies take: one at a time, as ping waits two round trips for the
/// last of several.
fn ping(host: &Host, count: usize, address: &str) {
    for _ in 0..count {
        host.run(&format!("ping -n -W 120 -c 1 {address}")).good();
    }
}

fn pair(world: &World) -> (Pair, Router) {
    let pair = Pair::new(world);
    let router = world.router("", PORTS);
    router.alone();
    pair.client.reaches("10.0.2.2");
    (pair, router)
}

fn a_ping_is_followed_through_every_module(world: &World) {
    let (Pair { client, .. }, router) = pair(world);
    let both = start(world, &["trace", "--json", "-n", "2", "--filter", "icmp and host 10.0.2.2"]);
    ping(&client, 1, "10.0.2.2");
    let seen = traces(both.end());
    assert_eq!(seen.len(), 2);
    for (trace, port, prefix) in [(&seen[0], "wan", "10.0.2.0/24"), (&seen[1], "lan", "10.0.1.0/24")] {
        assert_eq!(trace["port"], port);
        let modules: Vec<String> = steps(trace).into_iter().map(|(module, _)| module).collect();
        let whole = "classify ipv4_valid filter urpf multicast ipv4_lookup mtu redirect ttl apply distribute";
        assert_eq!(modules.join(" "), whole);
        assert!(has(trace, "distribute", "transmitted"));
        let all = trace["steps"].as_array().expect("steps");
        let lookup = all.iter().find(|step| step["module"] == "ipv4_lookup").expect("a lookup");
        assert_eq!(lookup["route"]["prefix"], prefix, "the neighbor's network: {lookup:#}");
        assert_eq!(lookup["route"]["source"], "linux", "it is a route of Linux");
    }

    // The same as text, and a packet whose TTL expires.
    let expired = start(world, &["trace", "-n", "1", "--filter", "icmp and src 10.0.1.2"]);
    let output = client.ping_refused("-t 1 10.0.2.2");
    assert!(output.contains("From 10.0.1.1"), "{output}");
    let text = expired.end().good().out;
    let line = |module: &str, words: &[&str]| {
        let found = text.lines().any(|l| l.trim_start().starts_with(module) && words.iter().all(|w| l.contains(w)));
        assert!(found, "no line of {module} with {words:?}:\n{text}");
    };
    line("ttl", &["punted as ttl.expired", "RFC 1812 5.3.1"]);
    line("slowpath", &["dropped as slowpath.ttl_expired"]);
    line("slowpath", &["transmitted; port wan: 10.0.1.1 > 10.0.1.2: ICMP time exceeded"]);
    router.stop();
}

fn a_drop_is_traced_and_captured_with_its_section(world: &World) {
    let (wan, _lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", &PORTS.replace("r-client", "w-wan").replace("r-server", "w-lan"));
    let broken = frame::changed(frame::udp4(router.mac("wan"), "10.0.1.2", "10.0.2.2", 8), |f| f[24] ^= 1);
    let trace = start(world, &["trace", "-n", "1", "--filter", "src 10.0.1.2"]);
    let drops = start(world, &["capture", "drops", "-n", "1", "--filter", "udp port 2000"]);
    let file = start(world, &["capture", "drops", "-n", "1", "--filter", "udp", "-w", "/run/drops.pcapng"]);
    wan.send(&broken);
    let text = trace.end().good().out;
    assert!(text.contains("dropped as ipv4_valid.checksum") && text.contains("RFC 1812 5.2.2"), "{text}");
    let line = drops.end().good().out;
    assert!(line.contains(" wan in  10.0.1.2.1000 > 10.0.2.2.2000: UDP, TTL 64, "), "{line}");
    assert!(line.contains("; ipv4_valid.checksum: ") && line.contains("(RFC 1812 5.2.2"), "{line}");
    file.end().good();
    assert!(tcpdump("/run/drops.pcapng", "").contains("10.0.1.2.1000 > 10.0.2.2.2000"));
    let bytes = std::fs::read("/run/drops.pcapng").expect("the file");
    let comment = b"ipv4_valid.checksum: ";
    assert!(bytes.windows(comment.len()).any(|window| window == comment), "the reason is the packet's comment");
    router.stop();
}

fn what_a_port_sends_and_receives_is_a_file_for_tcpdump(world: &World) {
    let (Pair { client, .. }, router) = pair(world);
    let capture = start(world, &["capture", "wan", "-w", "/run/wan.pcapng", "--filter", "icmp"]);
    ping(&client, 50, "10.0.2.2");
    // The router's own answers pass the slow path and the twin.
    ping(&client, 5, "10.0.1.1");
    wait_until("all packets in the file", || run(&mut tcpdump_of("/run/wan.pcapng", "")).out.lines().count() >= 110);
    capture.signal(Signal::INT).good();
    let ended = capture.end().good();
    assert!(ended.text.contains("110 packets, 0 lost"), "{}", ended.text);
    for (filter, packets) in [("src 10.0.1.2 and dst 10.0.2.2", 50), ("src 10.0.2.2", 50), ("host 10.0.1.1", 10)] {
        let shown = tcpdump("/run/wan.pcapng", filter);
        assert_eq!(shown.lines().count(), packets, "{filter}:\n{shown}");
    }
    router.stop();
}

fn punts_are_shown_and_mistakes_are_told(world: &World) {
    let (Pair { client, .. }, router) = pair(world);
    let punts = start(world, &["capture", "punts", "-n", "1", "--filter", "icmp"]);
    client.ping_refused("-t 1 10.0.2.2");
    let line = punts.end().good().out;
    assert!(line.contains("ICMP echo request, TTL 1") && line.contains("; ttl.expired: "), "{line}");

    router.ask("capture moon").refused("there is no port moon; there are wan, lan, and `drops` and `punts`");
    router.ask("trace --filter host").refused("filter, character 5: found the end, expected an address");
    router.ask("capture wan -w /nonsense/x").refused("/nonsense/x cannot be written");
    let taps: Vec<Process> = (0..8)
        .map(|n| {
            let file = format!("/run/{n}.pcapng");
            start(world, &["capture", "lan", "-w", &file])
        })
        .collect();
    router.ask("capture lan").refused("8 taps are on, which is all there can be");
    // A killed client leaves room for another.
    drop(taps);
    let room = || router.ask("trace -n 1 --filter in").text.contains("expected the name of a port");
    wait_until("room for another", room);
    router.stop();
}

/// The router stops while somebody is looking: the streams end, and every packet buffer is returned.
fn a_router_that_stops_ends_its_taps(world: &World) {
    let (Pair { client, .. }, router) = pair(world);
    let (trace, capture) = (start(world, &["trace", "-n", "1000000"]), start(world, &["capture", "lan"]));
    ping(&client, 20, "10.0.2.2");
    router.stop();
    let (trace, capture) = (trace.end(), capture.end());
    assert!(trace.out.contains("transmitted; port lan"), "{}", trace.text);
    assert!(capture.out.contains("lan out 10.0.1.2 > 10.0.2.2: ICMP echo request, TTL 63"), "{}", capture.text);
}
