// SPDX-License-Identifier: MIT
//! Datagrams to the router itself that come in fragments: it answers pings of every size, and Linux's sockets get them
//! whole.

use crate::{PORTS, Pair};
use perigee_packet::wire::icmp4::ECHO_REPLY;
use perigee_tests::{Host, LONGEST_WAIT, Router, World, frame, patient, wait_for, wait_seeing, wait_until};
use std::net::{SocketAddr, UdpSocket};

perigee_tests::scenarios![
    the_router_answers_pings_of_every_size,
    linux_gets_datagrams_whole_and_sends_them_in_fragments,
    overlapping_fragments_reach_nobody,
    a_flood_of_fragments_takes_bounded_memory,
];

/// How often the slow path did something.
fn events(router: &Router, event: &str) -> u64 {
    router.show("slowpath")["events"][event].as_u64().unwrap_or_else(|| panic!("no event {event}"))
}

/// A counter of Linux's in the router's namespace, such as `Ip6ReasmReqds`.
fn linux_counts(name: &str) -> u64 {
    let text = ["snmp", "snmp6"].map(|file| std::fs::read_to_string(format!("/proc/net/{file}")).expect("counters"));
    if let Some(line) = text[1].lines().find(|line| line.split_whitespace().next() == Some(name)) {
        return line.split_whitespace().nth(1).and_then(|value| value.parse().ok()).expect("a number");
    }
    let rows: Vec<Vec<&str>> =
        text[0].lines().filter(|line| line.starts_with("Ip:")).map(|line| line.split_whitespace().collect()).collect();
    let column = rows[0].iter().position(|column| *column == name).unwrap_or_else(|| panic!("no counter {name}"));
    rows[1][column].parse().expect("a number")
}

fn the_router_answers_pings_of_every_size(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    let mut fragmented = 0;
    for (addresses, largest) in [(["10.0.1.1", "10.0.2.1"], 65_507), (["2001:db8:1::1", "2001:db8:2::1"], 65_527)] {
        for address in addresses {
            client.reaches(address);
            for length in [1400, 4000, 20_000, largest] {
                client.ping(5, &format!("-s {length} {address}"));
                fragmented += if length > 1400 { 5 } else { 0 };
            }
        }
    }
    // The router did, not Linux behind it. Where a reply is late, ping asks once more.
    wait_seeing("no fragment to wait for others", || router.show("slowpath")["reassembling"].clone(), |n| *n == 0);
    let reassembled = events(&router, "reassembled");
    assert!(reassembled >= fragmented, "{reassembled} of {fragmented}");
    assert_eq!(events(&router, "fragmented"), reassembled);
    assert_eq!((linux_counts("ReasmReqds"), linux_counts("Ip6ReasmReqds")), (0, 0));
    router.alone();
    router.stop();
}

/// Sends a datagram of this length to an address of the router's, where Linux sends it back.
fn echoed(client: &Host, from: &str, to: &str, length: usize) {
    let sent: Vec<u8> = (0..length as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let here = wait_for("the twin to have the router's address", || UdpSocket::bind(to).ok());
    let there = client.inside(|| UdpSocket::bind(from).expect("a socket"));
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(patient(LONGEST_WAIT))).expect("a timeout");
    }
    there.send_to(&sent, to).expect("the datagram to leave");
    let mut buffer = vec![0; 70_000];
    let (received, back) = here.recv_from(&mut buffer).expect("the datagram");
    assert!(buffer[..received] == sent, "{received} of {length} bytes, or others");
    assert_eq!(back, from.parse::<SocketAddr>().expect("an address"));
    here.send_to(&buffer[..received], back).expect("the answer to leave");
    let received = there.recv(&mut buffer).expect("the answer");
    assert!(buffer[..received] == sent, "{received} of {length} bytes, or others, came back");
    // Once.
    for socket in [&here, &there] {
        socket.set_nonblocking(true).expect("a socket");
        assert!(socket.recv(&mut buffer).is_err(), "it came twice");
    }
}

fn linux_gets_datagrams_whole_and_sends_them_in_fragments(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    for (from, to, address) in [
        ("10.0.1.2:4000", "10.0.1.1:5000", "10.0.1.1"),
        ("[2001:db8:1::2]:4000", "[2001:db8:1::1]:5000", "2001:db8:1::1"),
    ] {
        client.reaches(address);
        for length in [1400, 9000, 65_000] {
            echoed(&client, from, to, length);
        }
    }
    assert_eq!(events(&router, "reassembled"), 4);
    assert_eq!((linux_counts("ReasmReqds"), linux_counts("Ip6ReasmReqds")), (0, 0), "Linux saw no fragment");
    assert_eq!(router.dropped("slowpath.too_big"), 0);
    // 7 and 45 fragments at least came back, but six datagrams went there, each as one frame; the rest are answers to
    // ARP and the like.
    let twin = router.port("wan")["twin"].clone();
    let number = |key: &str| twin[key].as_u64().expect("a number");
    assert!(number("from_linux") >= 2 * (1 + 7 + 45) && number("to_linux") < 30 && number("dropped") == 0, "{twin}");
    router.stop();
}

/// Two stations, known without being asked.
const WIRES: &str = r#"
[port.wan]
interface = "w-wan"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.lan]
interface = "w-lan"
addresses = ["10.0.2.1/24"]
[[neighbor]]
address = "10.0.1.2"
mac = "02:00:00:00:00:99"
[[neighbor]]
address = "10.0.2.2"
mac = "02:00:00:00:00:99"
[[neighbor]]
address = "2001:db8:1::2"
mac = "02:00:00:00:00:99"
"#;

// RFC 5722: Linux alone takes the fragment that lies inside another.
fn overlapping_fragments_reach_nobody(world: &World) {
    let (wan, _lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", WIRES);
    let mac = router.mac("wan");
    let sockets = ["10.0.1.1:2000", "[2001:db8:1::1]:2000"].map(|address| {
        let socket = wait_for("the twin to have the router's address", || UdpSocket::bind(address).ok());
        socket.set_read_timeout(Some(patient(LONGEST_WAIT))).expect("a timeout");
        socket
    });
    let send = |payload: usize, pieces: &[std::ops::Range<usize>], id: u16| {
        let four = frame::udp4(mac, "10.0.1.2", "10.0.1.1", payload);
        let six = frame::udp6(mac, "2001:db8:1::2", "2001:db8:1::1", payload);
        for bytes in pieces {
            wan.send(&frame::piece4(&four, bytes.clone(), id));
            wan.send(&frame::piece6(&six, bytes.clone(), id.into()));
        }
    };
    // The IPv6 address is not used before it is known to be nobody else's.
    let whole = frame::udp6(mac, "2001:db8:1::2", "2001:db8:1::1", 7);
    let ready = sockets[1].try_clone().expect("a socket");
    ready.set_nonblocking(true).expect("a socket");
    wait_until("the address to be in use", || {
        wan.send(&whole);
        ready.recv(&mut [0; 200]).is_ok()
    });
    ready.set_nonblocking(false).expect("a socket");
    // With UDP's header 112 bytes: one inside another, over the end, at the same place but shorter, in several orders.
    let overlaps =
        [[0..80, 16..32, 80..112], [16..32, 0..80, 80..112], [0..80, 72..112, 80..112], [0..72, 0..80, 80..112]];
    for (id, pieces) in overlaps.iter().enumerate() {
        send(104, pieces, id as u16);
    }
    // In another length: what is received next is this.
    send(64, &[0..40, 40..72], 99);
    for socket in &sockets {
        let mut lengths = std::iter::from_fn(|| socket.recv(&mut [0; 200]).ok()).filter(|length| *length != 7);
        assert_eq!(lengths.next(), Some(64));
        socket.set_nonblocking(true).expect("a socket");
        assert_eq!(lengths.next(), None);
    }
    router.counts("slowpath.fragment_overlap", 2 * 3 * overlaps.len() as u64);
    router.stop();
}

fn a_flood_of_fragments_takes_bounded_memory(world: &World) {
    const FRAGMENTS: u64 = 100_000;
    let (wan, lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", WIRES);
    let mac = router.mac("wan");
    let simple = frame::udp4(mac, "10.0.1.2", "10.0.2.2", 100);
    let (mut arrived, mut most) = (0, (0, 0));
    for n in 0..FRAGMENTS {
        let (net, id) = (n % 200, (n / 200) as u16);
        if n % 2 == 0 {
            let four = frame::udp4(mac, &format!("198.18.{net}.9"), "10.0.1.1", 2000);
            wan.send(&frame::piece4(&four, 8..1288, id));
        } else {
            let six = frame::udp6(mac, &format!("2001:db8:{:x}::9", 0x100 + net), "2001:db8:1::1", 2000);
            wan.send(&frame::piece6(&six, 8..1288, id.into()));
        }
        if n % 10 == 0 {
            wan.send(&simple);
        }
        if n % 100 == 0 {
            arrived += lan.drain().iter().filter(|f| frame::is_udp_to(f, "10.0.2.2")).count() as u64;
        }
        if n % 5000 == 0 {
            let held = router.show("slowpath");
            let number = |key: &str| held[key].as_u64().expect("a number");
            most = most.max((number("reassembling"), number("reassembling_bytes")));
        }
    }
    let held = router.show("slowpath");
    assert!(most.0 > 500 && most.0 <= 1024 && most.1 <= 4 << 20, "{most:?} at most, {held} now");
    assert!(router.dropped("slowpath.fragment_evicted") > 1000);
    // What is simple went on, and was not dropped on the way.
    let arrived = || {
        arrived += lan.drain().iter().filter(|f| frame::is_udp_to(f, "10.0.2.2")).count() as u64;
        (arrived, router.workers("transmitted"))
    };
    let what = "as many simple packets to arrive as workers transmitted";
    let (arrived, _) = wait_seeing(what, arrived, |(arrived, transmitted)| arrived == transmitted);
    assert!(arrived > 0);
    assert_eq!(router.dropped("host.transmit_full"), 0);
    // And others' fragments still become datagrams.
    let ping = frame::echo4(router.mac("lan"), "10.0.2.2", "10.0.2.1");
    for bytes in [8..16, 0..8] {
        lan.send(&frame::piece4(&ping, bytes, 7));
    }
    lan.expect("the reply", |f| frame::icmp(f) == Some((ECHO_REPLY, 0)));
    router.stop();
}
