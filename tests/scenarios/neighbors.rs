// SPDX-License-Identifier: MIT
//! ARP and neighbor discovery, as a station on the wire sees them.

use perigee_net::MacAddr;
use perigee_packet::Ethernet;
use perigee_packet::wire::arp::{REPLY, REQUEST};
use perigee_tests::{Good, Wire, World, frame, wait_seeing, wait_until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

perigee_tests::scenarios![
    arp_is_answered_for_own_addresses_only,
    a_destination_is_asked_for_and_its_packets_wait,
    static_neighbors_are_never_asked,
    who_does_not_answer_is_unreachable,
    ip_neigh_flush_reaches_the_router,
    a_scan_keeps_no_new_host_out,
    arp_from_everywhere_keeps_no_new_host_out,
];

const TWO: &str = r#"
[port.wan]
interface = "w-wan"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.lan]
interface = "w-lan"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
[[neighbor]]
address = "10.0.2.77"
mac = "02:00:00:00:00:77"
[[neighbor]]
address = "2001:db8:2::77"
mac = "02:00:00:00:00:77"
"#;

fn replies(wire: &Wire) -> Vec<Vec<u8>> {
    let reply = |f: &Vec<u8>| frame::arp(f).is_some_and(|m| m.operation() == REPLY);
    wire.drain().into_iter().filter(reply).collect()
}

fn arp_is_answered_for_own_addresses_only(world: &World) {
    let (wan, _lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", TWO);
    let mac = router.mac("wan");
    // Another host, the other port's address, a group address, an unused address.
    let others = ["10.0.1.9", "10.0.2.1", "224.0.0.1", "192.0.2.1"];
    for target in others {
        wan.send(&frame::arp_request("10.0.1.2", target));
    }
    router.counts("slowpath.arp_not_for_us", others.len() as u64);
    assert!(replies(&wan).is_empty(), "one of {others:?} was answered");
    wan.send(&frame::arp_request("10.0.1.2", "10.0.1.1"));
    let reply = wan.expect("the reply", |f| frame::arp(f).is_some_and(|m| m.operation() == REPLY));
    let message = frame::arp(&reply).expect("ARP");
    assert_eq!(message.sender_mac(), mac);
    assert_eq!(
        (message.target_mac(), Ethernet::new(&reply[..]).expect("a frame").destination()),
        (frame::STATION, frame::STATION)
    );
    // A host that asks is known from then on; one that is not on this link only gets its answer, and an address that no
    // host can have gets nothing at all.
    assert!(router.neighbor("10.0.1.2").is_some());
    wan.send(&frame::arp_request("10.0.2.9", "10.0.1.1"));
    wan.expect("the reply", |f| frame::arp(f).is_some_and(|m| m.operation() == REPLY));
    assert!(router.neighbor("10.0.2.9").is_none());
    wan.send(&frame::arp_request("10.0.1.255", "10.0.1.1"));
    router.counts("slowpath.arp_sender_address", 1);
    assert!(router.neighbor("10.0.1.255").is_none() && replies(&wan).is_empty());
    router.stop();
}

fn a_destination_is_asked_for_and_its_packets_wait(world: &World) {
    let (wan, lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", TWO);
    let mac = router.mac("wan");
    for payload in 0..5 {
        wan.send(&frame::udp4(mac, "10.0.1.2", "10.0.2.2", payload));
    }
    let request = lan.expect("a request", |f| frame::asks_for(f, "10.0.2.2"));
    let message = frame::arp(&request).expect("ARP");
    assert_eq!((message.operation(), message.sender_ip().to_string()), (REQUEST, "10.0.2.1".to_owned()));
    assert_eq!(Ethernet::new(&request[..]).expect("a frame").destination(), MacAddr::BROADCAST);
    router.counts("ipv4_lookup.unresolved", 5);
    lan.send(&frame::arp_reply(&request));
    for payload in 0..5 {
        let packet = lan.expect("the packet that waited", |f| frame::is_udp_to(f, "10.0.2.2"));
        assert_eq!(packet.len(), 14 + 28 + payload, "in their order");
    }
    wait_until("the neighbor to be reachable", || {
        router.neighbor("10.0.2.2").is_some_and(|(state, _)| state == "reachable")
    });
    wan.send(&frame::udp4(mac, "10.0.1.2", "10.0.2.2", 99));
    lan.expect("the packet", |f| f.len() == 14 + 28 + 99);
    router.transmits(1);
    assert_eq!(router.workers("transmitted"), 1, "the last one in the fast path");
    router.stop();
}

fn static_neighbors_are_never_asked(world: &World) {
    let (wan, lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let router = world.router("", TWO);
    let mac = router.mac("wan");
    let station = MacAddr([2, 0, 0, 0, 0, 0x77]);
    wan.send(&frame::udp4(mac, "10.0.1.2", "10.0.2.77", 10));
    let packet = lan.expect("the packet", |f| {
        assert!(!frame::asks_for(f, "10.0.2.77"), "asked for a static neighbor");
        frame::is_udp_to(f, "10.0.2.77")
    });
    assert_eq!(Ethernet::new(&packet[..]).expect("a frame").destination(), station);
    wan.send(&frame::udp6(mac, "2001:db8:1::2", "2001:db8:2::77", 10));
    let packet = lan.expect("the packet", |f| frame::is_udp_to(f, "2001:db8:2::77"));
    assert_eq!(Ethernet::new(&packet[..]).expect("a frame").destination(), station);
    router.transmits(2);
    assert_eq!(router.workers("transmitted"), 2, "both in the fast path");
    // A message about it from somebody else does not count.
    lan.send(&frame::arp_request("10.0.2.77", "10.0.2.1"));
    wan.send(&frame::udp4(mac, "10.0.1.2", "10.0.2.77", 11));
    let packet = lan.expect("the packet", |f| frame::is_udp_to(f, "10.0.2.77"));
    assert_eq!(Ethernet::new(&packet[..]).expect("a frame").destination(), station);
    assert_eq!(router.neighbor("10.0.2.77").map(|(state, _)| state).as_deref(), Some("static"));
    router.stop();
}

fn who_does_not_answer_is_unreachable(world: &World) {
    let pair = crate::Pair::new(world);
    let router = world.router("", crate::PORTS);
    pair.client.reaches("10.0.1.1");
    pair.client.reaches("2001:db8:1::1");
    for (address, message) in [("10.0.2.99", "Destination Host Unreachable"), ("2001:db8:2::99", "Address unreachable")]
    {
        // Three requests, a second apart.
        let shown = pair.client.ping_refused(address);
        assert!(shown.contains(message), "{address} was to be {message:?}:\n{shown}");
    }
    assert!(router.dropped("slowpath.neighbor_failed") > 0);
    router.stop();
}

/// What the router knows is forgotten by its own command and by Linux's.
fn ip_neigh_flush_reaches_the_router(world: &World) {
    let pair = crate::Pair::new(world);
    let router = world.router("", crate::PORTS);
    let known = |address: &str| router.neighbor(address).is_some_and(|(_, mac)| !mac.is_null());
    let reached = || {
        pair.client.reaches("10.0.2.2");
        pair.client.reaches("2001:db8:2::2");
        // Linux has heard of them, too.
        wait_until("both in Linux", || {
            let shown = world.ip("neigh show dev lan proto 158");
            shown.contains("10.0.2.2 ") && shown.contains("2001:db8:2::2 ")
        });
        assert!(known("10.0.2.2") && known("2001:db8:2::2") && known("10.0.1.2"));
    };
    reached();
    let flush = |words: &str| router.ask(&format!("neighbor flush {words}")).good().out;
    assert_eq!(flush("--interface lan 10.0.2.2").trim(), "1 neighbor forgotten");
    assert!(!known("10.0.2.2") && known("2001:db8:2::2"));
    reached();
    world.ip("neigh del 10.0.2.2 dev lan");
    wait_until("10.0.2.2 to be forgotten", || !known("10.0.2.2"));
    assert!(known("2001:db8:2::2") && known("10.0.1.2"));
    reached();
    world.ip("neigh flush dev lan");
    world.ip("-6 neigh flush dev lan");
    wait_until("all of the lan to be forgotten", || !known("10.0.2.2") && !known("2001:db8:2::2"));
    assert!(known("10.0.1.2"), "another port's");
    reached();
    let shown = router.ask("show neighbors").good().out;
    assert!(shown.contains("of 65536") && shown.contains("of 1024"), "{shown}");
    router.audited();
    router.stop();
}

/// Two hosts, a third port, and room for many neighbors behind each.
const WIDE: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.1.0.1/16", "2001:db8:1::1/64"]
[port.lan]
interface = "r-server"
addresses = ["10.2.0.1/16", "2001:db8:2::1/64"]
[port.dmz]
interface = "w-dmz"
addresses = ["10.3.0.1/16", "2001:db8:3::1/64"]
"#;

/// Sends numbered frames, at most some 20,000 a second, until `action` has returned.
fn flooded(wire: &Wire, flood: impl Fn(u32) -> Vec<u8> + Sync, action: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                wire.send(&flood(n));
                if n % 200 == 199 {
                    wire.drain();
                    // sleep: so that the router has time for others; nothing is said of the rate
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        });
        // The flood ends even if this panics.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(action));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// While the network of the server is scanned through another port, the client reaches a server that was never heard
/// of, and is itself reached.
fn a_scan_keeps_no_new_host_out(world: &World) {
    let dmz = world.wire("w-dmz");
    let client = world.host("client", &["10.1.0.2/16", "2001:db8:1::2/64"], &["10.1.0.1", "2001:db8:1::1"]);
    let server = world.host("server", &["10.2.0.2/16", "2001:db8:2::2/64"], &["10.2.0.1", "2001:db8:2::1"]);
    let router = world.router("", WIDE);
    let mac = router.mac("dmz");
    let address = |n: u32| (n % 200, n / 200 % 250);
    let scan = |n: u32| match (n % 2, address(n)) {
        (0, (low, high)) => frame::udp4(mac, "10.3.0.2", &format!("10.2.{}.{}", high + 1, low), 8),
        (_, (low, high)) => {
            frame::udp6(mac, "2001:db8:3::2", &format!("2001:db8:2::{:x}:{high:x}:{low:x}", n / 50_000), 8)
        }
    };
    flooded(&dmz, scan, || {
        // By the slow path, or before it where that has no core for more.
        let limits = ["slowpath.neighbor_limited", "host.punt_ring_full", "host.policed_unresolved"];
        let limited = || limits.map(|reason| router.dropped(reason)).iter().sum::<u64>();
        wait_seeing("the scan to be limited", limited, |packets| *packets > 1000);
        client.reaches("10.2.0.2");
        client.reaches("2001:db8:2::2");
        server.reaches("10.1.0.1");
        client.reaches("2001:db8:1::1");
    });
    router.audited();
    router.stop();
}

/// ARP and solicitations from everywhere on one port.
fn arp_from_everywhere_keeps_no_new_host_out(world: &World) {
    let dmz = world.wire("w-dmz");
    let client = world.host("client", &["10.1.0.2/16", "2001:db8:1::2/64"], &["10.1.0.1", "2001:db8:1::1"]);
    let _server = world.host("server", &["10.2.0.2/16", "2001:db8:2::2/64"], &["10.2.0.1", "2001:db8:2::1"]);
    let router = world.router("", WIDE);
    let senders = |n: u32| frame::arp_request(&format!("10.3.{}.{}", n / 250 % 250 + 1, n % 250 + 1), "10.3.0.1");
    let usage = || router.ask("show neighbors").good().out;
    flooded(&dmz, senders, || {
        wait_until("many senders to be known", || {
            let list = router.show("neighbors");
            list.as_array().is_some_and(|list| list.len() > 10_000)
        });
        client.reaches("10.2.0.2");
        client.reaches("2001:db8:2::2");
        client.reaches("10.1.0.1");
    });
    assert!(usage().contains("dmz"), "{}", usage());
    router.audited();
    router.stop();
}
