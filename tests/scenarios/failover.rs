// SPDX-License-Identifier: MIT
//! Two paths to the same network: flows are spread over both and each keeps to its path; when one path is withdrawn or
//! its link goes down, the other takes all flows.
//!
//! ```text
//!             ┌── one ─── one: 20.0.0.0/24
//! test ─── wan [perigee]
//!             └── two ─── two: 20.0.0.0/24
//! ```

use perigee_tests::speakers::{announcing_bird, router_bird, router_frr};
use perigee_tests::{Bird, Good, Host, LONG_WAIT, Router, Wire, World, frame, run, wait_seeing_for, wait_until_for};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

perigee_tests::scenarios![
    flows_move_to_the_way_that_is_left_with_bird needs BIRDC,
    flows_move_to_the_way_that_is_left_with_frr needs BIRDC FRR,
    flows_move_to_the_way_that_is_left_with_groups_by_fpm needs BIRDC FRR,
    flows_move_to_the_way_that_is_left_with_gateways_by_fpm needs BIRDC FRR,
];

const PORTS: &str = r#"
[port.wan]
interface = "w-wan"
addresses = ["10.0.1.1/24"]
[port.one]
interface = "r-one"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64", "fe80::2:1/64"]
[port.two]
interface = "r-two"
addresses = ["10.0.3.1/24", "2001:db8:3::1/64", "fe80::3:1/64"]
"#;
const NETWORK: &str = "20.0.0.0/24";
const FLOWS: u16 = 200;
const PACKETS: usize = 3;

/// A host that announces the network and receives the packets for it.
struct Way {
    host: Host,
    net: u8,
    socket: UdpSocket,
}

impl Way {
    fn new(world: &World, name: &str, net: u8) -> Way {
        let host = world.host(name, &[&format!("10.0.{net}.2/24"), &format!("2001:db8:{net}::2/64")], &[]);
        host.run("ip addr add 20.0.0.1/32 dev lo").good();
        // The host has no route back to the senders, so reverse-path filtering would drop the packets.
        host.set("ipv4/conf/all/rp_filter", "0");
        host.set("ipv4/conf/eth0/rp_filter", "0");
        let socket = host.inside(|| UdpSocket::bind("20.0.0.1:2000").expect("a socket"));
        socket.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
        Way { host, net, socket }
    }

    /// Announces the network.
    fn bird(&self) -> Bird {
        self.host.bird(&announcing_bird(self.net, 1, 0))
    }

    /// Adds the packets that have come so far, counted by the flow's source port.
    fn hear(&self, into: &mut BTreeMap<u16, usize>) {
        let mut buffer = [0; 2048];
        while let Ok((_, from)) = self.socket.recv_from(&mut buffer) {
            *into.entry(from.port()).or_default() += 1;
        }
    }
}

/// Sends some packets of each flow; returns which flows took each path. Every packet arrives, and no flow takes both
/// paths.
fn flows(wire: &Wire, router: &Router, ways: [&Way; 2]) -> [usize; 2] {
    let mac = router.mac("wan");
    let mut heard = [BTreeMap::new(), BTreeMap::new()];
    // A few at a time, so that they fit into a socket's buffer even if its owner or the router has no core for a while.
    let all: Vec<u16> = (0..PACKETS).flat_map(|_| 0..FLOWS).collect();
    for (number, some) in all.chunks(32).enumerate() {
        for flow in some {
            wire.send(&frame::udp4_ports(mac, "10.0.1.2", "20.0.0.1", (3000 + flow, 2000), 20));
        }
        let sent = number * 32 + some.len();
        let hear = || {
            ways.iter().zip(&mut heard).for_each(|(way, heard)| way.hear(heard));
            heard.iter().flat_map(BTreeMap::values).sum::<usize>()
        };
        wait_seeing_for(LONG_WAIT, &format!("{sent} packets to come"), hear, |came| *came == sent);
    }
    let [one, two] = &heard;
    let split: Vec<_> = one.keys().filter(|flow| two.contains_key(flow)).collect();
    assert!(split.is_empty(), "flows that came both ways: {split:?}");
    [one.len(), two.len()]
}

/// The interfaces on which the network's route has gateways.
fn gateways(router: &Router) -> Vec<String> {
    let Some(route) = router.route(NETWORK) else { return Vec::new() };
    let of = |entry: &serde_json::Value| entry["dev"].as_str().map(str::to_owned);
    let several = route["gateways"].as_array().into_iter().flatten().filter_map(of);
    let mut names: Vec<_> = of(&route).into_iter().chain(several).collect();
    names.sort();
    names
}

/// Linux's routes to the network, for messages.
fn linux() -> String {
    let ask = |words: &str| run(Command::new("ip").args(words.split(' '))).text;
    format!("{}{}", ask(&format!("route show {NETWORK}")), ask("nexthop show"))
}

#[track_caller]
fn spread_over(router: &Router, interfaces: &[&str]) {
    // Linux's routes come with them, for the message.
    let what = format!("{NETWORK} to lead to {interfaces:?}");
    wait_seeing_for(LONG_WAIT, &what, || (gateways(router), linux()), |(now, _)| now == interfaces);
}

/// What happens when a link is back.
enum AfterLink<'a> {
    /// Both paths are used again.
    Both,
    /// zebra 8.4 creates the next hop again, but does not put it back into the group, from which the kernel had removed
    /// it: Linux continues with the one path that is left, and so must perigee.
    AsLinux,
    /// Both paths are used again, as zebra says by FPM. Version 10 leaves a group to the kernel while the link is down,
    /// and is `silent`; 8.4 puts the next hop back by FPM, and not in Linux, so that an audit may tell.
    AsZebra { silent: &'a Cell<bool> },
}

/// Both paths are used; then one is withdrawn, comes back, loses its link, and comes back.
fn ways_fail(world: &World, feed: &str, after_link: AfterLink, start_daemon: impl FnOnce()) {
    let wire = world.wire("w-wan");
    let (one, two) = (Way::new(world, "one", 2), Way::new(world, "two", 3));
    let router = world.router("", &format!("{PORTS}{feed}"));
    let (bird, _other) = (one.bird(), two.bird());
    start_daemon();
    let resolved = |address: &str| router.neighbor(address).is_some_and(|(_, mac)| !mac.is_null());
    let both = || {
        spread_over(&router, &["one", "two"]);
        wait_until_for(LONG_WAIT, "both neighbors", || resolved("10.0.2.2") && resolved("10.0.3.2"));
        let [first, second] = flows(&wire, &router, [&one, &two]);
        // Half of 200 flows, and six standard deviations of 7.1.
        assert!((58..=142).contains(&first) && first + second == usize::from(FLOWS), "{first} and {second} flows");
    };
    both();

    bird.ask("disable many").good();
    spread_over(&router, &["two"]);
    assert_eq!(flows(&wire, &router, [&one, &two]), [0, usize::from(FLOWS)], "all take what is left");
    bird.ask("enable many").good();
    both();

    two.host.run("ip link set eth0 down").good();
    router.says("port two: link down");
    match after_link {
        AfterLink::AsZebra { silent } if silent.get() => {
            wait_until_for(LONG_WAIT, "no neighbor over a link that is down", || !resolved("10.0.3.2"));
        }
        _ => spread_over(&router, &["one"]),
    }
    assert_eq!(flows(&wire, &router, [&one, &two]), [usize::from(FLOWS), 0], "all take what is left");
    two.host.run("ip link set eth0 up").good();
    router.says("port two: link up");
    match after_link {
        AfterLink::Both | AfterLink::AsZebra { .. } => both(),
        AfterLink::AsLinux => {
            wait_until_for(LONG_WAIT, "the way to be known again", || resolved("10.0.3.2"));
            let members = gateways(&router).len();
            let now = flows(&wire, &router, [&one, &two]);
            assert_eq!(now.iter().filter(|flows| **flows > 0).count(), members, "{now:?}");
        }
    }
    router.alone();
    if !matches!(after_link, AfterLink::AsZebra { .. }) {
        router.audited();
    }
    router.stop();
}

fn flows_move_to_the_way_that_is_left_with_bird(world: &World) {
    let mut bird = None;
    ways_fail(world, "", AfterLink::Both, || bird = Some(world.bird(&router_bird(&[2, 3]))));
}

fn flows_move_to_the_way_that_is_left_with_frr(world: &World) {
    let mut frr = None;
    ways_fail(world, "", AfterLink::AsLinux, || {
        frr = Some(world.frr(&["zebra", "bgpd"], &router_frr(&[2, 3], &["ipv4", "ipv6"])))
    });
}

fn by_fpm(world: &World, configuration: &str, groups: bool) {
    let (mut frr, silent) = (None, Cell::new(false));
    let text = format!("fpm address 127.0.0.1\n{configuration}\n{}", router_frr(&[2, 3], &["ipv4", "ipv6"]));
    ways_fail(world, "[linux]\nfeed = \"fpm\"\n", AfterLink::AsZebra { silent: &silent }, || {
        let started = world.frr(&["zebra -M dplane_fpm_nl", "bgpd"], &text);
        silent.set(groups && !started.ask("show version").good().out.contains("FRRouting 8."));
        frr = Some(started);
    });
}

fn flows_move_to_the_way_that_is_left_with_groups_by_fpm(world: &World) {
    by_fpm(world, "fpm use-next-hop-groups", true);
}

fn flows_move_to_the_way_that_is_left_with_gateways_by_fpm(world: &World) {
    by_fpm(world, "no fpm use-next-hop-groups", false);
}
