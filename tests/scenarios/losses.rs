// SPDX-License-Identifier: MIT
//! Each place where packets can be lost is flooded: packets received, sent, dropped and missed add up to those offered
//! (docs/losses.md).

use crate::flood::check_sums;
use perigee_net::MacAddr;
use perigee_tests::{Good, Host, Router, Wire, World, frame, wait_seeing, wait_until};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;

perigee_tests::scenarios![
    what_a_packet_sockets_ring_has_no_room_for,
    what_the_ring_of_dpdks_driver_has_no_room_for,
    what_an_af_xdp_sockets_rings_have_no_room_for as root,
    what_nobody_takes_after_a_port_has_sent_it,
    what_is_sent_to_an_interface_that_is_down,
    what_linux_does_not_let_through_to_a_port_and_from_it,
    what_the_queue_of_a_twin_has_no_room_for,
    what_linux_has_no_twin_or_no_address_for,
    a_twin_that_is_set_down_is_shown_so,
];

/// More than any ring here has room for.
const FLOOD: u64 = 5000;

/// The station at the lan's other end is known, so that nothing waits for it.
const LAN: &str = r#"
[port.lan]
interface = "w-lan"
addresses = ["10.0.2.1/24"]
[[neighbor]]
address = "10.0.2.2"
mac = "02:00:00:00:00:99"
"#;

fn wan(lines: &str) -> String {
    format!("[port.wan]\n{lines}\naddresses = [\"10.0.1.1/24\"]\n{LAN}")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// A counter of a port, such as `counters.receive_missed`.
fn counter(router: &Router, port: &str, name: &str) -> u64 {
    number(name.split('.').fold(&router.port(port), |value, key| &value[key]))
}

/// What has reached a port: received by workers, or lost before them under some name.
fn reached(router: &Router, port: &str) -> u64 {
    let port = router.port(port);
    let own = ["receive_packets", "receive_missed", "receive_errors"].map(|name| number(&port["counters"][name]));
    let kernel = ["receive_dropped", "receive_errors"].map(|name| number(&port["kernel"][name]));
    own.iter().sum::<u64>() + kernel.iter().sum::<u64>()
}

/// A wire that carries what the router sends, and nothing else.
struct Lan {
    wire: Wire,
    arrived: u64,
}

impl Lan {
    fn new(world: &World) -> Lan {
        let wire = world.wire("w-lan");
        // Linux would send on it, too.
        fs::write("/proc/sys/net/ipv6/conf/w-lan/disable_ipv6", "1").expect("no IPv6 of Linux's own");
        Lan { wire, arrived: 0 }
    }

    fn drain(&mut self) {
        self.arrived += self.wire.drain().len() as u64;
    }

    /// Waits until all that the port has sent has arrived, but for what Linux says that it has lost; returns how much
    /// that is.
    #[track_caller]
    fn gets_what_was_sent(&mut self, router: &Router) -> u64 {
        let account = || {
            self.drain();
            let lost = counter(router, "lan", "kernel.transmit_dropped");
            (self.arrived, lost, counter(router, "lan", "counters.transmit_packets"))
        };
        let what = "what has arrived, and what Linux has lost, to be what was sent";
        wait_seeing(what, account, |(arrived, lost, sent)| arrived + lost == *sent).1
    }
}

/// A port on a wire, whose ring the flood fills while nobody reads it.
fn a_ring_overflows(world: &World, driver: &str, shown: &str) {
    let (wire, mut lan) = (world.wire("w-wan"), Lan::new(world));
    let router = world.router("", &wan(&format!("interface = \"w-wan\"\n{driver}")));
    assert_eq!(router.port("wan")["driver"], shown);
    let packet = frame::udp4(router.mac("wan"), "10.0.1.2", "10.0.2.2", 60);
    let before = reached(&router, "wan");
    router.while_stopped(|| (0..FLOOD).for_each(|_| wire.send(&packet)));
    let accounted = || {
        lan.drain();
        reached(&router, "wan") - before
    };
    wait_seeing("the port to account for all frames", accounted, |frames| *frames == FLOOD);
    let missed = counter(&router, "wan", "counters.receive_missed");
    // A ring has room for 1,024 frames; DPDK's driver has two, of which one helps the other out.
    assert!((FLOOD - 2048..=FLOOD - 1024).contains(&missed), "{missed} of {FLOOD} missed");
    check_sums(&router);
    assert_eq!(router.workers("received"), counter(&router, "wan", "counters.receive_packets"));
    assert_eq!(router.workers("transmitted") + missed, FLOOD);
    lan.gets_what_was_sent(&router);
    // People see it where they look.
    let drops = router.ask("show drops").good().out;
    assert!(drops.contains("receive_missed") && drops.contains(&missed.to_string()), "{drops}");
    let metrics = router.ask("show metrics").good().out;
    assert!(metrics.contains(&format!("perigee_port_receive_missed_total{{port=\"wan\"}} {missed}")), "{metrics}");
    router.stop();
}

fn what_a_packet_sockets_ring_has_no_room_for(world: &World) {
    a_ring_overflows(world, "", "packet");
}

fn what_the_ring_of_dpdks_driver_has_no_room_for(world: &World) {
    a_ring_overflows(world, "driver = \"dpdk:af_packet\"", "net_af_packet");
}

/// Has a host, connected by a veth pair, send `count` datagrams of `length` bytes to the lan.
fn blast(host: &Host, count: u64, length: usize) {
    host.inside(|| {
        let socket = UdpSocket::bind("10.0.1.2:0").expect("a socket");
        (0..count).for_each(|_| assert_eq!(socket.send_to(&vec![0; length], "10.0.2.2:9").expect("sent"), length));
    });
}

/// Frames that a host's interface has sent.
fn sent_by(host: &Host) -> u64 {
    let shown = host.run("ip -s -j link show eth0").good().out;
    let links: Value = serde_json::from_str(&shown).expect("JSON");
    number(&links[0]["stats64"]["tx"]["packets"])
}

fn what_an_af_xdp_sockets_rings_have_no_room_for(world: &World) {
    let client = world.host("client", &["10.0.1.2/24"], &["10.0.1.1"]);
    client.run("ethtool -K eth0 tx off txvlan off").good();
    client.set("ipv6/conf/eth0/disable_ipv6", "1");
    let mut lan = Lan::new(world);
    let router = world.router("", &wan("interface = \"r-client\"\ndriver = \"xdp\""));
    client.reaches("10.0.1.1");
    let counts = || (reached(&router, "wan"), sent_by(&client));
    let (mut before, mut sent) = (0, 0);
    wait_until("the host to be silent", || {
        let last = (before, sent);
        (before, sent) = counts();
        last == (before, sent)
    });
    router.while_stopped(|| blast(&client, FLOOD, 60));
    let accounted = || {
        lan.drain();
        (reached(&router, "wan") - before, sent_by(&client) - sent)
    };
    wait_seeing("the port to account for all frames", accounted, |(reached, sent)| reached == sent);
    let missed = counter(&router, "wan", "counters.receive_missed");
    assert!((FLOOD - 2048..=sent_by(&client) - sent).contains(&missed), "{missed} of {FLOOD} missed");
    check_sums(&router);
    // The host may have sent an ARP request meanwhile.
    let offered = FLOOD..=sent_by(&client) - sent;
    assert!(offered.contains(&(router.workers("transmitted") + missed)), "{missed} of {offered:?} missed");
    lan.gets_what_was_sent(&router);
    router.stop();
}

/// The queue of a TAP that nobody reads: the port has sent the frames, and Linux has lost them.
fn what_nobody_takes_after_a_port_has_sent_it(world: &World) {
    let (wire, mut lan) = (world.wire("w-wan"), Lan::new(world));
    let router = world.router("", &wan("interface = \"w-wan\""));
    let packet = frame::udp4(router.mac("wan"), "10.0.1.2", "10.0.2.2", 60);
    // In pieces that the port's own ring has room for.
    for piece in 1..=FLOOD / 500 {
        (0..500).for_each(|_| wire.send(&packet));
        let received = || counter(&router, "wan", "counters.receive_packets");
        wait_seeing("a piece to be received", received, |received| *received >= piece * 500);
    }
    assert_eq!(counter(&router, "wan", "counters.receive_missed"), 0);
    check_sums(&router);
    let lost = lan.gets_what_was_sent(&router);
    let (errors, dropped) = (counter(&router, "lan", "counters.transmit_errors"), router.dropped("host.transmit_full"));
    assert!(lost + errors + dropped > 0, "{} arrived", lan.arrived);
    assert_eq!(router.workers("transmitted") + dropped, FLOOD);
    assert_eq!(counter(&router, "lan", "counters.transmit_dropped"), dropped);
    assert_eq!(counter(&router, "wan", "counters.transmit_dropped"), 0, "each port has its own");
    router.stop();
}

fn what_is_sent_to_an_interface_that_is_down(world: &World) {
    let (wire, mut lan) = (world.wire("w-wan"), Lan::new(world));
    let router = world.router("", &wan("interface = \"w-wan\""));
    let packet = frame::udp4(router.mac("wan"), "10.0.1.2", "10.0.2.2", 60);
    let given = || {
        let counters = &router.port("lan")["counters"];
        ["transmit_packets", "transmit_errors"].map(|name| number(&counters[name])).iter().sum::<u64>()
    };
    // Linux would send by the twin: MLD reports and router solicitations, for as long as this takes.
    fs::write("/proc/sys/net/ipv6/conf/lan/disable_ipv6", "1").expect("no IPv6 of Linux's own");
    // What the slow path sends by itself at the start.
    let (mut own, mut last) = (given(), u64::MAX);
    wait_until("the router to be silent", || {
        lan.gets_what_was_sent(&router);
        (own, last) = (given(), own);
        own == last
    });
    // Workers have them before anybody notices.
    router.while_stopped(|| {
        (0..1000).for_each(|_| wire.send(&packet));
        world.ip("link set w-lan down");
    });
    wait_seeing("all of them to be received", || router.workers("received"), |received| *received == 1000);
    check_sums(&router);
    let (sent, errors) = (router.workers("transmitted"), counter(&router, "lan", "counters.transmit_errors"));
    // Those that a worker has taken later are for the slow path, as their route is out of use, and end there or in the
    // policer before it.
    let policed =
        ["host.policed_unresolved", "host.policed_other"].iter().map(|reason| router.dropped(reason)).sum::<u64>();
    assert_eq!(sent + router.workers("punted") + policed, 1000);
    assert_eq!(given() - own, errors);
    assert_eq!(errors, sent, "errors, and packets sent by workers");
    let ended = || {
        let reasons = ["interface_down", "unreachable", "no_route"].iter();
        reasons.map(|reason| router.dropped(&format!("slowpath.{reason}"))).sum::<u64>()
    };
    wait_seeing("all punted packets to end", ended, |ended| *ended >= router.workers("punted"));
    // None has left.
    assert_eq!(counter(&router, "lan", "counters.transmit_packets"), lan.arrived);
    router.stop();
}

/// Both ends of a veth have an MTU, and the kernel drops what is longer than the receiver's.
fn what_linux_does_not_let_through_to_a_port_and_from_it(world: &World) {
    const LONG: u64 = 300;
    let client = world.host("client", &["10.0.1.2/24"], &["10.0.1.1"]);
    let mut lan = Lan::new(world);
    let router = world.router("", &wan("interface = \"r-client\""));
    client.reaches("10.0.1.1");
    client.run("ip link set eth0 mtu 3000").good();
    let before = counter(&router, "wan", "kernel.receive_dropped");
    blast(&client, LONG, 2500);
    blast(&client, LONG, 1000);
    let sent_on = || {
        lan.drain();
        router.workers("transmitted")
    };
    wait_seeing("all short ones to be sent on", sent_on, |sent| *sent == LONG);
    lan.gets_what_was_sent(&router);
    assert_eq!(counter(&router, "wan", "kernel.receive_dropped") - before, LONG);
    // The other way: the router's packets are too long for the host.
    client.run("ip link set eth0 mtu 600").good();
    let mac: MacAddr = router.mac("lan");
    let (sent, lost) = (router.workers("transmitted"), counter(&router, "wan", "kernel.transmit_dropped"));
    (0..LONG).for_each(|_| lan.wire.send(&frame::udp4(mac, "10.0.2.2", "10.0.1.2", 1000)));
    router.transmits(sent + LONG);
    let dropped = || counter(&router, "wan", "kernel.transmit_dropped") - lost;
    assert_eq!(wait_seeing("all to be dropped by Linux", dropped, |dropped| *dropped >= LONG), LONG);
    // Newer kernels tell the sender, too, where the interface has no queue.
    let errors = counter(&router, "wan", "counters.transmit_errors");
    assert!([0, LONG].contains(&errors), "{errors} errors");
    check_sums(&router);
    router.stop();
}

/// Linux sends through a twin that nobody reads.
fn what_the_queue_of_a_twin_has_no_room_for(world: &World) {
    let (_wan, mut lan) = (world.wire("w-wan"), Lan::new(world));
    let router = world.router("", &wan("interface = \"w-wan\""));
    world.ip("neigh replace 10.0.2.2 lladdr 02:00:00:00:00:99 dev lan nud permanent");
    let socket = UdpSocket::bind("10.0.2.1:0").expect("a socket on the twin's address");
    let taken = || counter(&router, "lan", "twin.from_linux") + counter(&router, "lan", "twin.missed");
    let before = taken();
    let flood = || {
        for _ in 0..FLOOD {
            // The kernel says of some that its queue is full.
            let _ = socket.send_to(&[0; 60], "10.0.2.2:9");
        }
    };
    router.while_stopped(flood);
    let accounted = || {
        lan.drain();
        taken() - before
    };
    wait_seeing("the twin to account for all frames", accounted, |frames| *frames >= FLOOD);
    // Linux's own discovery may be among them.
    let (all, missed) = (taken() - before, counter(&router, "lan", "twin.missed"));
    assert!(missed > 0 && all < FLOOD + 30, "{all} of {FLOOD}, {missed} missed");
    let slow = ["transmit", "output_full"].map(|reason| router.dropped(&format!("slowpath.{reason}")));
    assert_eq!(slow, [0, 0]);
    lan.gets_what_was_sent(&router);
    let metrics = router.ask("show metrics").good().out;
    assert!(metrics.contains(&format!("perigee_twin_missed_packets_total{{port=\"lan\"}} {missed}")), "{metrics}");
    router.stop();
}

/// Packets for the router itself, where Linux cannot get them.
fn what_linux_has_no_twin_or_no_address_for(world: &World) {
    let (wire, _lan) = (world.wire("w-wan"), world.wire("w-lan"));
    // Linux is to get only what a known neighbor has sent.
    let known = "\n[[neighbor]]\naddress = \"10.0.1.2\"\nmac = \"02:00:00:00:00:99\"\n";
    let router = world.router("", &format!("{}{known}", wan("interface = \"w-wan\"\ntwin = false")));
    let before = router.dropped("slowpath.no_twin");
    let (mac, n) = (router.mac("wan"), 200);
    (0..n).for_each(|_| wire.send(&frame::udp4(mac, "10.0.1.2", "10.0.1.1", 60)));
    router.counts_at_least("slowpath.no_twin", before + n);
    check_sums(&router);
    router.stop();
}

fn a_twin_that_is_set_down_is_shown_so(world: &World) {
    let (_wan, _lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", &wan("interface = \"w-wan\""));
    let line = |port: &str| {
        let shown = router.ask("show ports").good().out;
        shown.lines().find(|line| line.trim_start().starts_with(port)).map(str::to_owned).unwrap_or_default()
    };
    assert!(!line("wan").contains("set down"), "{}", line("wan"));
    world.ip("link set wan down");
    wait_until("the port to be shown as set down", || line("wan").contains("set down"));
    assert!(!line("lan").contains("set down"), "{}", line("lan"));
    let metrics = router.ask("show metrics").good().out;
    assert!(metrics.contains("perigee_interface_up{interface=\"wan\"} 0"), "{metrics}");
    world.ip("link set wan up");
    wait_until("the port to be up again", || !line("wan").contains("set down"));
    router.stop();
}
