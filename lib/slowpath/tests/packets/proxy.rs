// SPDX-License-Identifier: MIT
//! Proxy ARP and proxy neighbor discovery.

use crate::world::*;
use perigee_net::{Interface, InterfaceId, MacAddr, Policy, Proxy, ReversePath, solicited_node};
use perigee_packet::Ethernet;
use perigee_packet::wire::arp::Repr;
use perigee_slowpath::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// No host answers, and the interface answers for others.
fn answering(interface: InterfaceId, arp: bool, addresses: &[(&str, bool)]) -> World {
    let mut w = World::new();
    w.hosts.clear();
    let addresses = addresses.iter().map(|(text, router)| (text.parse().unwrap(), *router)).collect();
    w.input(Input::SetProxy { interface, proxy: Proxy { arp, addresses } });
    w
}

/// Whether an ARP request on the left link is answered.
fn answered(w: &mut World, from: Host, target: &str) -> bool {
    let request = Repr::request(from.mac, from.v4, v4(target));
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &request));
    let sent = std::mem::take(&mut w.sent);
    match &sent[..] {
        [] => false,
        [(LEFT, frame)] => {
            assert_eq!(Ethernet::new(&frame[..]).unwrap().destination(), from.mac);
            assert_eq!(arp_of(frame), Some(request.reply(mac(LEFT))));
            true
        }
        other => panic!("{other:?}"),
    }
}

/// `ip neigh add proxy` was left out in silence.
#[test]
fn an_entry_is_answered_where_its_route_leaves_elsewhere() {
    let a = host(LEFT, 2);
    let mut w = answering(
        LEFT,
        false,
        &[("198.51.100.7", false), ("10.0.2.9", false), ("10.0.1.9", false), ("192.0.2.1", false)],
    );
    assert!(answered(&mut w, a, "198.51.100.7"), "behind a gateway");
    assert!(answered(&mut w, a, "10.0.2.9"), "on the other link");
    assert!(!answered(&mut w, a, "10.0.1.9"), "the station is on the asker's own link");
    assert!(!answered(&mut w, a, "192.0.2.1"), "a route that drops");
    assert!(!answered(&mut w, a, "10.0.2.8"), "no entry");
    assert_eq!((w.count("solicitations_answered_for_others"), w.dropped("arp_not_for_us")), (2, 3));
    // The asker is learned, as one that asks for the router itself.
    assert_eq!(w.neighbor(LEFT, a.v4).and_then(|n| n.mac), Some(a.mac));
    // Only on that link, and no more once it is gone.
    let b = host(RIGHT, 2);
    w.punt(RIGHT, &arp_frame(MacAddr::BROADCAST, &Repr::request(b.mac, b.v4, v4("198.51.100.7"))));
    w.silent();
    w.input(Input::SetProxy { interface: LEFT, proxy: Proxy::default() });
    assert!(!answered(&mut w, a, "198.51.100.7"));
}

#[test]
fn proxy_arp_answers_for_whatever_leaves_elsewhere() {
    let a = host(LEFT, 2);
    let mut w = answering(LEFT, true, &[]);
    for target in ["10.0.2.3", "10.0.2.1", "198.51.100.7"] {
        let own = target == "10.0.2.1"; // It is the router's, on another link: Linux's route is a local one.
        w.table.0.push((prefix("10.0.2.1/32"), RouteDecision::Local));
        assert_eq!(answered(&mut w, a, target), !own, "{target}");
    }
    for target in
        ["10.0.1.9", "192.0.2.1", "203.0.113.1", "203.0.113.200", "100.64.0.1", "10.0.2.255", "224.0.0.1", "127.0.0.1"]
    {
        assert!(!answered(&mut w, a, target), "{target}");
    }
    // A probe asks whether the address is taken, and a reply asks nothing.
    let probe = Repr { sender_ip: Ipv4Addr::UNSPECIFIED, ..Repr::request(a.mac, a.v4, v4("10.0.2.3")) };
    w.punt(LEFT, &arp_frame(MacAddr::BROADCAST, &probe));
    let reply = Repr { operation: perigee_packet::wire::arp::REPLY, ..Repr::request(a.mac, a.v4, v4("10.0.2.3")) };
    w.punt(LEFT, &arp_frame(mac(LEFT), &reply));
    assert!(w.sent.is_empty());
}

#[test]
fn a_sender_that_fails_the_reverse_path_check_is_not_answered() {
    let mut w = answering(LEFT, true, &[]);
    let stranger = Host { v4: v4("10.0.2.77"), ..host(LEFT, 7) };
    assert!(answered(&mut w, stranger, "198.51.100.7"));
    let policy = Policy { urpf: ReversePath::Strict, ..Policy::default() };
    w.set(LEFT, Interface { policy, ..interface(LEFT) });
    assert!(!answered(&mut w, stranger, "198.51.100.7"), "its address is on the other link");
    assert!(answered(&mut w, host(LEFT, 2), "198.51.100.7"));
}

fn ask(w: &mut World, from: Host, source: Ipv6Addr, target: &str) {
    let (group, mac) = (solicited_node(v6(target)), (!source.is_unspecified()).then_some(from.mac));
    let packet = neighbor_solicitation(source, group, v6(target), mac);
    w.punt(from.interface, &ethernet(MacAddr::from_ipv6_multicast(group), from.mac, &packet));
}

#[test]
fn a_solicitation_is_answered_without_override() {
    let a = host(LEFT, 2);
    let mut w = answering(LEFT, true, &[("2001:db8:1::77", false), ("2001:db8:1::78", true)]);
    for (target, router) in [("2001:db8:1::77", 0), ("2001:db8:1::78", 0x80)] {
        ask(&mut w, a, a.v6, target);
        let (_, frame) = w.sent.pop().unwrap();
        assert_eq!(Ethernet::new(&frame[..]).unwrap().destination(), a.mac);
        // From an address of the router's: the other one is not its own.
        assert_eq!(advertisement_of(&frame), Some((v6("2001:db8:1::1"), v6(target), true, false)));
        assert_eq!((frame[58] & 0x80, &frame[80..86]), (router, &mac(LEFT).octets()[..]));
        w.sent.clear();
    }
    assert_eq!(w.neighbor(LEFT, a.v6).and_then(|n| n.mac), Some(a.mac));
    // Duplicate address detection hears that the address is taken.
    ask(&mut w, a, Ipv6Addr::UNSPECIFIED, "2001:db8:1::77");
    let (_, frame) = w.sent.pop().unwrap();
    assert_eq!(advertisement_of(&frame), Some((mac(LEFT).link_local(), v6("2001:db8:1::77"), false, false)));
    assert_eq!(frame[38..54], v6("ff02::1").octets());
    // The switch of ARP has no say here; nor is an asker from elsewhere answered.
    ask(&mut w, a, a.v6, "2001:db8:2::9");
    ask(&mut w, Host { v6: v6("2001:db8:9::9"), ..a }, v6("2001:db8:9::9"), "2001:db8:1::77");
    assert_eq!((w.sent.len(), w.count("solicitations_answered_for_others"), w.dropped("nd_not_for_us")), (0, 3, 2));
}

#[test]
fn an_interface_that_is_removed_answers_no_more() {
    let a = host(LEFT, 2);
    let mut w = answering(LEFT, true, &[("2001:db8:1::77", false)]);
    w.input(Input::RemoveInterface { id: LEFT });
    w.set(LEFT, interface(LEFT));
    w.advance(5000);
    w.sent.clear();
    assert!(!answered(&mut w, a, "10.0.2.3"));
    ask(&mut w, a, a.v6, "2001:db8:1::77");
    assert!(w.sent.is_empty());
    assert_eq!(w.neighbor(LEFT, IpAddr::V6(a.v6)), None);
}
