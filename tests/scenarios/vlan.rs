// SPDX-License-Identifier: MIT
//! A port's VLANs are interfaces like any other: tags come off and on, and nothing leaks between them.

use perigee_packet::Ethernet;
use perigee_packet::wire::arp::REPLY;
use perigee_packet::wire::ethernet::ethertype;
use perigee_tests::{Router, Wire, World, frame, wait_until};

perigee_tests::scenarios![
    arp_is_answered_with_the_tag_it_came_with,
    packets_cross_between_tagged_and_untagged,
    an_unknown_vlan_is_dropped,
];

const VLANS: &str = r#"
[port.trunk]
interface = "w-trunk"
addresses = ["10.1.0.1/24"]
[port.trunk.vlan.100]
addresses = ["10.100.0.1/24", "2001:db8:100::1/64"]
[port.trunk.vlan.200]
addresses = ["10.200.0.1/24"]
[port.lan]
interface = "w-lan"
addresses = ["10.2.0.1/24", "2001:db8:2::1/64"]
[[neighbor]]
address = "2001:db8:100::2"
mac = "02:00:00:00:00:99"
"#;

fn world_with_vlans(world: &World) -> (Wire, Wire, Router) {
    let (trunk, lan) = (world.wire("w-trunk"), world.wire("w-lan"));
    let router = world.router("", VLANS);
    (trunk, lan, router)
}

/// Answers the ARP request that the router sends for an address first.
fn answer(wire: &Wire, address: &str, vid: Option<u16>) {
    let request = wire.expect(&format!("a request for {address}"), |f| frame::asks_for(f, address));
    assert_eq!(frame::vid(&request), vid, "the request's tag");
    wire.send(&frame::arp_reply(&request));
}

/// MAC addresses, tag, TTL and checksum of a forwarded packet.
fn check(frame: &[u8], from: perigee_net::MacAddr, vid: Option<u16>) {
    let header = Ethernet::new(frame).expect("a frame");
    assert_eq!((header.destination(), header.source()), (frame::STATION, from));
    assert_eq!(frame::vid(frame), vid);
    if let Some(packet) = frame::ip4(frame) {
        assert_eq!(packet.ttl(), 63);
        assert!(packet.verify_checksum());
    }
    if let Some(packet) = frame::ip6(frame) {
        assert_eq!(packet.hop_limit(), 63);
    }
}

fn arp_is_answered_with_the_tag_it_came_with(world: &World) {
    let (trunk, _lan, router) = world_with_vlans(world);
    let mac = router.mac("trunk");
    for (vid, source, target) in [
        (None, "10.1.0.2", "10.1.0.1"),
        (Some(100), "10.100.0.2", "10.100.0.1"),
        (Some(200), "10.200.0.2", "10.200.0.1"),
    ] {
        let plain = frame::arp_request(source, target);
        trunk.send(&vid.map_or(plain.clone(), |vid| frame::tagged(plain, vid)));
        let fits =
            |f: &[u8]| frame::arp(f).is_some_and(|m| m.operation() == REPLY && m.target_ip().to_string() == source);
        let reply = trunk.expect("an ARP reply", fits);
        assert_eq!(frame::vid(&reply), vid);
        let message = frame::arp(&reply).expect("ARP");
        assert_eq!((message.sender_mac(), message.sender_ip().to_string()), (mac, target.to_owned()));
    }
    // The address of one VLAN is not the other's.
    let before = router.dropped("slowpath.arp_not_for_us") + router.dropped("slowpath.arp_sender_address");
    trunk.send(&frame::tagged(frame::arp_request("10.200.0.3", "10.100.0.1"), 200));
    wait_until("the request to be counted", || {
        router.dropped("slowpath.arp_not_for_us") + router.dropped("slowpath.arp_sender_address") > before
    });
    router.stop();
}

fn packets_cross_between_tagged_and_untagged(world: &World) {
    let (trunk, lan, router) = world_with_vlans(world);
    let (trunk_mac, lan_mac) = (router.mac("trunk"), router.mac("lan"));

    trunk.send(&frame::tagged(frame::udp4(trunk_mac, "10.100.0.2", "10.2.0.2", 30), 100));
    answer(&lan, "10.2.0.2", None);
    check(&lan.expect("the packet, untagged", |f| frame::is_udp_to(f, "10.2.0.2")), lan_mac, None);

    lan.send(&frame::udp4(lan_mac, "10.2.0.2", "10.100.0.2", 30));
    answer(&trunk, "10.100.0.2", Some(100));
    check(&trunk.expect("the packet, tagged", |f| frame::is_udp_to(f, "10.100.0.2")), trunk_mac, Some(100));

    lan.send(&frame::udp6(lan_mac, "2001:db8:2::2", "2001:db8:100::2", 30));
    check(&trunk.expect("the IPv6 packet", |f| frame::is_udp_to(f, "2001:db8:100::2")), trunk_mac, Some(100));

    // From one VLAN to the other, over the same port; then in the fast path, as the neighbor is known.
    trunk.send(&frame::tagged(frame::udp4(trunk_mac, "10.100.0.2", "10.200.0.2", 30), 100));
    answer(&trunk, "10.200.0.2", Some(200));
    check(&trunk.expect("the packet", |f| frame::is_udp_to(f, "10.200.0.2")), trunk_mac, Some(200));
    wait_until("the neighbor's route", || router.neighbor("10.200.0.2").is_some_and(|(state, _)| state == "reachable"));
    let before = router.workers("transmitted");
    for _ in 0..50 {
        trunk.send(&frame::tagged(frame::udp4(trunk_mac, "10.100.0.2", "10.200.0.2", 30), 100));
    }
    for _ in 0..50 {
        check(&trunk.expect("the packet", |f| frame::is_udp_to(f, "10.200.0.2")), trunk_mac, Some(200));
    }
    router.transmits(before + 50);
    assert_eq!(router.workers("transmitted") - before, 50, "in the fast path");
    router.alone();
    router.stop();
}

fn an_unknown_vlan_is_dropped(world: &World) {
    let (trunk, lan, router) = world_with_vlans(world);
    let mac = router.mac("trunk");
    trunk.send(&frame::tagged(frame::udp4(mac, "10.100.0.2", "10.2.0.2", 30), 300));
    router.counts("classify.unknown_vlan", 1);
    // A tag inside a tag is not for the fast path, nor for the slow path.
    trunk.send(&frame::tagged(frame::tagged(frame::udp4(mac, "10.100.0.2", "10.2.0.2", 30), 7), 100));
    router.counts("classify.other_type", 1);
    router.counts("slowpath.bad_frame", 1);
    assert!(lan.drain().iter().all(|f| !frame::is_udp_to(f, "10.2.0.2") && !frame::asks_for(f, "10.2.0.2")));
    let kind = ethertype::VLAN.to_be_bytes();
    assert!(lan.drain().iter().all(|f| f[12..14] != kind));
    router.stop();
}
