// SPDX-License-Identifier: MIT
//! Filters drop what they should and nothing else; steers work without hardware support.

use crate::{PORTS, Pair};
use perigee_net::MacAddr;
use perigee_tests::frame::{changed, changed4, is_udp_to, piece4, piece6, udp4_ports, udp6, with_options};
use perigee_tests::{Good, Host, LONGEST_WAIT, World, run, wait_for, wait_until};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

perigee_tests::scenarios![
    filters_decide_by_five_tuple_in_both_families,
    show_filters_prints_the_hits_of_each_rule,
    no_way_leads_round_a_filter,
    nothing_reaches_linux_past_the_router,
    fragments_are_judged_by_the_ports_of_their_first,
    rules_about_linux_are_about_what_it_sends,
    steers_are_done_in_software_where_the_device_cannot,
];

fn connects(client: &Host, address: &str, longest: Duration) -> bool {
    let address: SocketAddr = address.parse().expect("an address");
    client.inside(|| TcpStream::connect_timeout(&address, longest).is_ok())
}

fn filters_decide_by_five_tuple_in_both_families(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let filters = r#"
        [[filter]]
        src = "10.0.1.0/24"
        dst = "10.0.2.2"
        proto = "tcp"
        dport = "5000-5009"
        action = "drop"
        [[filter]]
        dst = "2001:db8:2::/64"
        proto = "tcp"
        dport = 5001
        action = "accept"
        [[filter]]
        dst = "2001:db8:2::/64"
        proto = "tcp"
        dport = "5000-5009"
        action = "drop"
    "#;
    let router = world.router("", &format!("{PORTS}\n{filters}"));
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    let listen = |address: &str| server.inside(|| TcpListener::bind(address).expect("a listener"));
    let _listeners: Vec<_> = [5000, 5001, 5010].map(|port| listen(&format!("[::]:{port}"))).into();
    for (address, open) in [
        ("10.0.2.2:5000", false),
        ("10.0.2.2:5001", false),
        ("10.0.2.2:5010", true),
        ("[2001:db8:2::2]:5000", false),
        ("[2001:db8:2::2]:5001", true), // accepted before the drop
        ("[2001:db8:2::2]:5010", true),
    ] {
        if open {
            assert!(connects(&client, address, LONGEST_WAIT), "{address}");
            continue;
        }
        // Nothing answers: what was dropped is counted.
        let reason = if address.starts_with('[') { "filter.ipv6_denied" } else { "filter.ipv4_denied" };
        let before = router.dropped(reason);
        assert!(!connects(&client, address, Duration::from_millis(700)), "{address}");
        router.counts_at_least(reason, before + 1);
    }
    client.ping(5, "10.0.2.2");
    let shown = router.ask("show filters").good().out;
    assert!(shown.contains("dport 5000-5009") && shown.contains("accept"), "{shown}");
    router.stop();
}

fn show_filters_prints_the_hits_of_each_rule(world: &World) {
    let Pair { client, server: _ } = Pair::new(world);
    let filters = r#"
        [[filter]]
        src = "10.0.1.2"
        dst = "10.0.2.2"
        proto = "icmp"
        action = "accept"
        [[filter]]
        dst = "10.0.2.0/24"
        proto = "icmp"
        action = "drop"
        [[filter]]
        dst = "10.0.1.1"
        proto = "icmp"
        action = "drop"
        [[filter]]
        dst = "192.0.2.0/24"
        action = "drop"
    "#;
    let router = world.router("", &format!("{PORTS}\n{filters}"));
    client.reaches("10.0.2.2");
    let hits = || -> Vec<u64> {
        let shown = router.show("filters");
        shown.as_array().expect("a list").iter().map(|rule| rule["hits"].as_u64().expect("a number")).collect()
    };
    let before = hits();
    assert!(before[0] > 0 && before[1..] == [0, 0, 0], "{before:?}");
    client.ping(7, "10.0.2.2");
    // Two that the fast path drops on their way, and one that is for the router itself.
    client.ping_fails("10.0.2.77");
    client.ping_fails("10.0.2.78");
    client.ping_fails("10.0.1.1");
    let expected = [before[0] + 7, 2, 1, 0];
    assert_eq!(hits(), expected);
    assert_eq!(router.dropped("filter.ipv4_denied"), 3);
    // As people read it: the last column of each rule's line.
    let printed = router.ask("show filters").good().out;
    assert!(printed.lines().next().is_some_and(|heads| heads.trim_end().ends_with("hits")), "{printed}");
    let last = |line: &str| line.split_whitespace().last().and_then(|word| word.parse::<u64>().ok());
    assert_eq!(printed.lines().skip(1).filter_map(last).collect::<Vec<_>>(), expected, "{printed}");
    let metrics = router.ask("show metrics").good().out;
    let metric =
        "perigee_filter_packets_total{number=\"2\",rule=\"dst 10.0.2.0/24 proto 1\",from=\"ports\",action=\"drop\"} 2";
    assert!(metrics.contains(metric), "{metrics}");
    // A reload that leaves the filters alone leaves their hits alone.
    router.ask("reload").good();
    assert_eq!(hits(), expected);
    router.stop();
}

fn steers_are_done_in_software_where_the_device_cannot(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let steer = "[[steer]]\nport = \"wan\"\nproto = \"udp\"\ndport = 7000\n";
    let router = world.router("", &format!("{PORTS}\n{steer}"));
    let log = router.log();
    assert!(log.to_lowercase().contains("software"), "the log says that the device cannot:\n{log}");
    client.reaches("10.0.2.2");
    let receiver = server.inside(|| UdpSocket::bind("10.0.2.2:7000").expect("a socket"));
    let sender = client.inside(|| UdpSocket::bind("10.0.1.2:0").expect("a socket"));
    receiver.set_nonblocking(true).expect("a socket that does not block");
    let before = router.dropped("filter.ipv4_steered");
    for _ in 0..10 {
        sender.send_to(b"steered", "10.0.2.2:7000").expect("sent");
        let mut buffer = [0; 16];
        wait_for("the packet, by way of the slow path", || receiver.recv(&mut buffer).ok());
    }
    assert_eq!(router.dropped("filter.ipv4_steered") - before, 10);
    let shown = router.show("filters");
    assert_eq!((shown[0]["kind"].as_str(), shown[0]["done_in"].as_str()), (Some("steer"), Some("software")));
    router.stop();
}

/// Two ports with a wire each, and a host behind the second.
const WIRES: &str = r#"
[port.wan]
interface = "w-wan"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.lan]
interface = "w-lan"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
[[neighbor]]
address = "10.0.2.2"
mac = "02:00:00:00:00:99"
[[neighbor]]
address = "2001:db8:2::2"
mac = "02:00:00:00:00:99"
"#;

/// UDP packets to port 9 that the fast path does not handle, each with what it is.
fn unusual(router: MacAddr) -> Vec<(&'static str, Vec<u8>)> {
    let to4 = |to: &str| udp4_ports(router, "10.0.1.2", to, (1024, 9), 40);
    let to6 = |to: &str| changed(udp6(router, "2001:db8:1::2", to, 40), |f| f[56..58].copy_from_slice(&[0, 9]));
    // An extension header of eight bytes, of options that are skipped.
    let extended = |kind: u8, to: &str| {
        changed(to6(to), |f| {
            let next = std::mem::replace(&mut f[20], kind);
            f[19] += 8;
            f.splice(54..54, [next, 0, 1, 4, 0, 0, 0, 0]);
        })
    };
    let tagged = |frame: &[u8], kind: [u8; 2]| [&frame[..12], &kind, &[0x60, 0], &frame[12..]].concat();
    let group4 = |last: u8| changed(to4("224.0.0.0"), |f| f[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, last]));
    vec![
        ("plain", to4("10.0.2.2")),
        ("plain, IPv6", to6("2001:db8:2::2")),
        ("with an option", with_options(to4("10.0.2.2"), &[1, 1, 1, 0])),
        ("with an option, for the router", with_options(to4("10.0.1.1"), &[1, 1, 1, 0])),
        ("with a router alert", with_options(to4("10.0.2.2"), &[148, 4, 0, 0])),
        ("hop-by-hop options", extended(0, "2001:db8:2::2")),
        ("destination options", extended(60, "2001:db8:2::2")),
        ("for the router", to4("10.0.1.1")),
        ("for the router, IPv6", to6("2001:db8:1::1")),
        ("for its other address", to4("10.0.2.1")),
        ("to a group", changed4(group4(5), |p| p[16..20].copy_from_slice(&[224, 0, 0, 5]))),
        ("to an IPv6 group", changed(to6("ff02::1"), |f| f[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]))),
        ("to all stations", changed(to4("10.0.1.255"), |f| f[..6].fill(0xff))),
        ("to all, limited", changed4(changed(to4("10.0.1.2"), |f| f[..6].fill(0xff)), |p| p[16..20].fill(255))),
        ("to all of another network", to4("10.0.2.255")),
        ("with a provider's tag of priority", tagged(&to4("10.0.2.2"), [0x88, 0xa8])),
        ("with a tag of priority", tagged(&to4("10.0.2.2"), [0x81, 0])),
        ("whose TTL ends", changed4(to4("10.0.2.2"), |p| p[8] = 1)),
        ("whose hop limit ends", changed(to6("2001:db8:2::2"), |f| f[21] = 1)),
        ("without a route", to4("192.0.2.1")),
        ("to an unknown neighbor", to4("10.0.2.77")),
        ("link-local", changed4(to4("10.0.2.2"), |p| p[12..14].copy_from_slice(&[169, 254]))),
        ("back by where it came in", to4("10.0.1.77")),
    ]
}

fn no_way_leads_round_a_filter(world: &World) {
    let rules = "[[filter]]\nproto = \"udp\"\ndport = 9\naction = \"drop\"\n";
    let (wan, lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", &format!("{WIRES}\n{rules}"));
    let frames = unusual(router.mac("wan"));
    let denied = || router.dropped("filter.ipv4_denied") + router.dropped("filter.ipv6_denied");
    for (number, (what, frame)) in (1..).zip(&frames) {
        wan.send(frame);
        wait_until(&format!("a filter's verdict on a packet {what}"), || denied() == number);
    }
    let is_ours = |f: &Vec<u8>| perigee_tests::frame::ip4(f).is_some_and(|p| p.protocol() == 17);
    assert!(lan.drain().iter().all(|f| !is_ours(f) && !is_udp_to(f, "2001:db8:2::2")), "nothing was forwarded");
    // No error tells the sender of a filter.
    assert!(wan.drain().iter().all(|f| perigee_tests::frame::icmp(f).is_none_or(|(kind, _)| kind > 127)));
    router.stop();
}

/// Linux took what was sent to the MAC address that the interface under a port has meanwhile, and what was broadcast,
/// for its own: whoever was on the link reached its sockets past filters and checks of sources, by any of the router's
/// addresses.
fn nothing_reaches_linux_past_the_router(world: &World) {
    let rules = "[[filter]]\nproto = \"udp\"\ndport = 9\naction = \"drop\"\n";
    let known = "[[neighbor]]\naddress = \"10.0.1.2\"\nmac = \"02:00:00:00:00:98\"\n";
    let (wan, _lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", &format!("{WIRES}\n{rules}\n{known}"));
    let listen = |port: u16| {
        let socket = UdpSocket::bind(("0.0.0.0", port)).expect("a socket of Linux's in the router's namespace");
        socket.set_nonblocking(true).expect("a socket that does not block");
        socket
    };
    let (denied, allowed) = (listen(9), listen(10));
    let shown = world.ip("-br link show dev w-wan");
    let own = shown.split_whitespace().nth(2).expect("the interface's MAC address");
    let (own, mac) = (own.parse().expect("a MAC address"), router.mac("wan"));
    assert_ne!(own, mac, "the port has its own");
    for to in [mac, own, MacAddr([0xff; 6])] {
        for source in ["10.0.1.2", "10.0.1.77", "192.0.2.1"] {
            for destination in ["10.0.1.1", "10.0.2.1", "10.0.1.255", "255.255.255.255"] {
                wan.send(&udp4_ports(to, source, destination, (1024, 9), 40));
            }
        }
    }
    // What Linux has from the wire itself, it has before this one, which the router gives it.
    wan.send(&udp4_ports(mac, "10.0.1.2", "10.0.1.1", (1024, 10), 40));
    let mut buffer = [0; 64];
    wait_for("what no filter is about", || allowed.recv(&mut buffer).ok());
    let heard = denied.recv_from(&mut buffer);
    assert!(heard.is_err(), "a packet came past the filter, from {heard:?}");
    router.stop();
}

fn fragments_are_judged_by_the_ports_of_their_first(world: &World) {
    let rules = "[[filter]]\nproto = \"udp\"\ndport = 9\naction = \"drop\"\n";
    let (wan, lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", &format!("{WIRES}\n{rules}"));
    let mac = router.mac("wan");
    let whole = |port| udp4_ports(mac, "10.0.1.2", "10.0.2.2", (1024, port), 120);
    let arrives = |frame: &[u8], identification: u16| {
        wan.send(frame);
        let of = |f: &Vec<u8>| perigee_tests::frame::ip4(f).is_some_and(|p| p.identification() == identification);
        lan.expect("the fragment", |f| of(&f.to_vec()));
    };
    let denied = |frame: &[u8], reason: &str| {
        let before = router.dropped(reason);
        wan.send(frame);
        router.counts_at_least(reason, before + 1);
    };
    // Of a datagram that passes, all fragments do; of one that does not, none, whichever comes first.
    arrives(&piece4(&whole(10), 0..64, 1), 1);
    arrives(&piece4(&whole(10), 64..128, 1), 1);
    denied(&piece4(&whole(9), 0..64, 2), "filter.ipv4_denied");
    denied(&piece4(&whole(9), 64..128, 2), "filter.ipv4_denied");
    denied(&piece4(&whole(9), 64..128, 3), "filter.ipv4_denied");
    // What could be of any port is dropped, before its first fragment.
    denied(&piece4(&whole(10), 64..128, 4), "filter.ipv4_denied");
    let six = udp6(mac, "2001:db8:1::2", "2001:db8:2::2", 120);
    denied(&piece6(&six, 64..128, 7), "filter.ipv6_denied");
    router.stop();
}

fn rules_about_linux_are_about_what_it_sends(world: &World) {
    let Pair { client, server: _ } = Pair::new(world);
    let rule = |from: &str| {
        format!("{PORTS}\n[[filter]]\nproto = \"icmp\"\ndst = \"10.0.1.2\"\naction = \"drop\"\nfrom = \"{from}\"\n")
    };
    let router = world.router("", &rule("linux"));
    client.reaches("10.0.1.1");
    let before = router.dropped("slowpath.denied_linux");
    assert_ne!(
        run(Command::new("ping").args(["-c", "1", "-W", "1", "10.0.1.2"])).code,
        Some(0),
        "no reply, as no request"
    );
    router.counts_at_least("slowpath.denied_linux", before + 1);
    let shown = router.ask("show filters").good().out;
    assert!(shown.contains("linux"), "{shown}");
    router.stop();
}
