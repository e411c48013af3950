// SPDX-License-Identifier: MIT
//! ARP and neighbor discovery, as a station on the wire sees them.

use perigee_net::MacAddr;
use perigee_packet::Ethernet;
use perigee_packet::wire::arp::{REPLY, REQUEST};
use perigee_tests::{Wire, World, frame, wait_until};

perigee_tests::scenarios![
    arp_is_answered_for_own_addresses_only,
    a_destination_is_asked_for_and_its_packets_wait,
    static_neighbors_are_never_asked,
    who_does_not_answer_is_unreachable,
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
    // A host that asks is known from then on; one that is not on this link only gets its answer, and an address that no host can
    // have gets nothing at all.
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
        let shown = pair.client.run(&format!("ping -n -c 1 -W 10 {address}")).text;
        assert!(shown.contains(message), "{address} was to be {message:?}:\n{shown}");
    }
    assert!(router.dropped("slowpath.neighbor_failed") > 0);
    router.stop();
}
