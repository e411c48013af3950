// SPDX-License-Identifier: MIT
//! Virtual stations on a link, as VRRP has them: addresses that are answered for by a MAC address of their own.

use crate::world::*;
use perigee_net::{AddressAttributes, HostAddress, InterfaceId, MacAddr, Station, solicited_node};
use perigee_packet::wire::arp::Repr;
use perigee_packet::wire::icmp6;
use perigee_packet::{Ethernet, Icmp6, Ipv6};
use perigee_slowpath::*;
use std::net::IpAddr;

/// That of VRRP's group 5.
const VIRTUAL: MacAddr = MacAddr([0, 0, 0x5e, 0, 1, 5]);

fn station(text: &str, interface: InterfaceId) -> HostAddress {
    let station = Some(Station { interface, mac: VIRTUAL });
    HostAddress { address: prefix(text), attributes: AddressAttributes::default(), station }
}

/// The left link has a virtual station with addresses of both families, and a link-local one.
fn world() -> World {
    let mut w = World::new();
    let local = ["10.0.1.254/32", "2001:db8:1::fe/128"].map(|text| (prefix(text), RouteDecision::Local));
    w.table.0.extend(local);
    let addresses = ["10.0.1.254/32", "2001:db8:1::fe/128", "fe80::fe/64"].map(|text| station(text, LEFT)).to_vec();
    w.input(Input::SetHostAddresses { addresses });
    w
}

/// The MAC address in the answer to a solicitation, and the frame's destination.
fn told(w: &mut World) -> MacAddr {
    let (_, frame) = w.sent.pop().expect("an answer");
    let packet = Ipv6::new(Ethernet::new(&frame[..]).unwrap().payload().to_vec()).unwrap();
    let icmp = Icmp6::new(packet.payload()).unwrap();
    match icmp.message() {
        icmp6::Message::NeighborAdvertisement { options, .. } => options.target_link_layer().unwrap().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_virtual_stations_addresses_are_answered_for_by_its_mac_address() {
    let mut w = world();
    let a = host(LEFT, 2);
    let request = Repr::request(a.mac, a.v4, v4("10.0.1.254"));
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request));
    let (_, frame) = w.sent.pop().expect("an answer");
    assert_eq!(arp_of(&frame).map(|arp| (arp.sender_mac, arp.sender_ip)), Some((VIRTUAL, v4("10.0.1.254"))));
    assert_eq!(Ethernet::new(&frame[..]).unwrap().source(), VIRTUAL, "switches learn it");
    for target in ["2001:db8:1::fe", "fe80::fe"] {
        let packet = neighbor_solicitation(a.v6, solicited_node(v6(target)), v6(target), Some(a.mac));
        w.punt(LEFT, &ethernet(MacAddr::from_ipv6_multicast(solicited_node(v6(target))), a.mac, &packet));
        assert_eq!(told(&mut w), VIRTUAL, "{target}");
    }
    // The interface's own are its own MAC address's.
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &Repr::request(a.mac, a.v4, v4("10.0.1.1"))));
    let (_, frame) = w.sent.pop().expect("an answer");
    assert_eq!(arp_of(&frame).map(|arp| arp.sender_mac), Some(mac(LEFT)));
}

#[test]
fn frames_to_a_virtual_station_are_the_routers_on_its_link_alone() {
    let mut w = world();
    let (a, b) = (host(LEFT, 2), host(RIGHT, 2));
    for (to, answered) in [(VIRTUAL, 1), (MacAddr([0, 0, 0x5e, 0, 1, 6]), 1), (mac(LEFT), 2)] {
        w.punt(LEFT, &ethernet(to, a.mac, &ping4(a.v4, v4("10.0.1.254"), b"x")));
        assert_eq!(w.count("echo_replied"), answered, "{to}");
    }
    assert_eq!(w.dropped("other_station"), 1);
    w.punt(RIGHT, &ethernet(VIRTUAL, b.mac, &ping4(b.v4, v4("10.0.1.254"), b"x")));
    assert_eq!(w.dropped("other_station"), 2, "it is on another link");
    w.punt(LEFT, &ethernet(VIRTUAL, a.mac, &ping6(a.v6, v6("fe80::fe"), b"x")));
    assert_eq!(w.count("echo_replied"), 3, "its link-local address, too");
    // Another router becomes the master.
    w.input(Input::SetHostAddresses { addresses: vec![] });
    w.punt(LEFT, &ethernet(VIRTUAL, a.mac, &ping4(a.v4, v4("10.0.1.254"), b"x")));
    assert_eq!(w.dropped("other_station"), 3);
}

/// Two masters for a moment, as VRRP has them: their MAC address is the same, and nobody is in conflict.
#[test]
fn another_masters_announcement_by_the_same_mac_is_no_conflict() {
    let mut w = world();
    let announcement = Repr::request(VIRTUAL, v4("10.0.1.254"), v4("10.0.1.254"));
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &announcement));
    assert_eq!((w.count("address_conflicts"), w.dropped("arp_sender_address")), (0, 1));
    let thief = Repr::request(host(LEFT, 9).mac, v4("10.0.1.254"), v4("10.0.1.254"));
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &thief));
    assert_eq!(w.count("address_conflicts"), 1);
    assert_eq!(w.neighbor(LEFT, IpAddr::V4(v4("10.0.1.254"))), None);
}

/// A neighbor in the network that only the virtual station has was asked for from the interface's address in another
/// network, which hosts need not answer (and Linux does not with `arp_ignore`).
#[test]
fn a_neighbor_in_a_virtual_stations_network_is_asked_for_by_that_station() {
    let mut w = World::new();
    let addresses = vec![station("100.64.7.1/24", LEFT)];
    w.table.0.insert(0, (prefix("100.64.7.0/24"), RouteDecision::Connected(LEFT)));
    w.input(Input::SetHostAddresses { addresses });
    let asked = |w: &mut World, target: &str| {
        let b = host(RIGHT, 2);
        w.sent.clear();
        w.punt(RIGHT, &ethernet(mac(RIGHT), b.mac, &udp4(b.v4, v4(target), 8)));
        let requests = w.sent.iter().filter(|(port, _)| *port == LEFT).filter_map(|(_, frame)| arp_of(frame));
        let sources: Vec<_> = requests.map(|arp| (arp.sender_mac, arp.sender_ip)).collect();
        sources
    };
    assert_eq!(asked(&mut w, "100.64.7.7"), [(VIRTUAL, v4("100.64.7.1"))], "{:?}", w.counters());
    assert_eq!(asked(&mut w, "10.0.1.77"), [(mac(LEFT), v4("10.0.1.1"))], "the interface's own network");
    // What is answered is known.
    let there = MacAddr([2, 0xcc, 0, 0, 0, 7]);
    w.punt(LEFT, &arp_frame(VIRTUAL, &Repr::request(VIRTUAL, v4("100.64.7.1"), v4("100.64.7.7")).reply(there)));
    assert_eq!(w.neighbor(LEFT, IpAddr::V4(v4("100.64.7.7"))).map(|neighbor| neighbor.mac), Some(Some(there)));
    // An address of its own in that network is used.
    let mut interface = interface(LEFT);
    interface.addresses.push(prefix("100.64.7.9/24"));
    w.set(LEFT, interface);
    assert_eq!(asked(&mut w, "100.64.7.8"), [(mac(LEFT), v4("100.64.7.9"))]);
}
