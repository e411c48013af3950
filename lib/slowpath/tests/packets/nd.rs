// SPDX-License-Identifier: MIT
//! Neighbor discovery and duplicate address detection.

use crate::world::*;
use perigee_net::{Interface, MacAddr, solicited_node};
use perigee_packet::Ethernet;
use perigee_slowpath::*;
use std::net::{IpAddr, Ipv6Addr};

const OURS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const UNSPECIFIED: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

fn quiet() -> World {
    let mut world = World::new();
    world.hosts.clear();
    world
}

fn ask(w: &mut World, from: Host, target: Ipv6Addr, mac: Option<MacAddr>) {
    let group = solicited_node(target);
    let packet = neighbor_solicitation(from.v6, group, target, mac);
    w.punt(from.interface, &ethernet(MacAddr::from_ipv6_multicast(group), from.mac, &packet));
}

/// A neighbor advertisement from a host about its own address; flags: solicited, override.
fn tell(w: &mut World, from: Host, mac_told: Option<MacAddr>, solicited: bool, replace: bool) {
    let to = v6(&format!("2001:db8:{}::1", from.interface.0));
    let packet = neighbor_advertisement(from.v6, to, from.v6, mac_told, (false, solicited, replace));
    w.from(from, &packet);
}

fn state(w: &World, of: Host) -> Option<(NeighborState, Option<MacAddr>)> {
    w.neighbor(of.interface, of.v6).map(|n| (n.state, n.mac))
}

#[test]
fn answers_for_global_and_link_local_addresses_and_learns_the_asker() {
    for target in [OURS, mac(LEFT).link_local()] {
        let mut w = quiet();
        let a = host(LEFT, 2);
        ask(&mut w, a, target, Some(a.mac));
        let (interface, frame) = &w.sent[0];
        assert_eq!((*interface, Ethernet::new(&frame[..]).unwrap().destination()), (LEFT, a.mac));
        assert_eq!(advertisement_of(frame), Some((target, target, true, true)));
        assert_eq!(
            (frame[21], frame[58] & 0x80, &frame[78..86]),
            (255, 0x80, &[2, 1, 2, 0, 0, 0, 0, 1][..]),
            "hop limit, router, MAC"
        );
        assert_eq!(w.events, [Event::NeighborResolved { interface: LEFT, address: a.v6.into(), mac: a.mac }]);
        assert!(w.twin.is_empty());
    }
}

#[test]
fn asks_back_where_a_solicitation_tells_no_mac() {
    let mut w = World::new();
    let a = host(LEFT, 2);
    let packet = neighbor_solicitation(a.v6, OURS, OURS, None);
    w.from(a, &packet);
    assert_eq!(solicitation_of(&w.sent[0].1).map(|s| s.1), Some(a.v6));
    assert_eq!(advertisement_of(&w.sent[1].1), Some((OURS, OURS, true, true)));
}

#[test]
fn does_not_answer_for_others_off_link_askers_or_the_other_link() {
    let mut w = quiet();
    let a = host(LEFT, 2);
    ask(&mut w, a, v6("2001:db8:1::9"), Some(a.mac));
    ask(&mut w, a, v6("2001:db8:2::1"), Some(a.mac));
    ask(&mut w, Host { v6: v6("2001:db8:9::9"), ..a }, OURS, Some(a.mac));
    w.silent();
    assert_eq!((w.dropped("nd_not_for_us"), w.slow.neighbors().count()), (3, 0));
}

// RFC 4861 7.1.
#[test]
fn invalid_messages_are_dropped() {
    let a = host(LEFT, 2);
    let group = solicited_node(OURS);
    let good = neighbor_solicitation(a.v6, group, OURS, Some(a.mac));
    let mut bad: Vec<Vec<u8>> = Vec::new();
    let mut broken = |packet: &[u8], edit: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = packet.to_vec();
        edit(&mut packet);
        bad.push(packet);
    };
    // Repairs the checksum, so that only the fault itself is wrong.
    let repair = |p: &mut Vec<u8>| {
        let (from, to): ([u8; 16], [u8; 16]) = (p[8..24].try_into().unwrap(), p[24..40].try_into().unwrap());
        let mut icmp = perigee_packet::Icmp6::new(&mut p[40..]).unwrap();
        icmp.fill_checksum(&from.into(), &to.into());
    };
    broken(&good, &|p| p[7] = 254);
    broken(&good, &|p| p[42] ^= 1);
    broken(&good, &|p| {
        p[41] = 1;
        repair(p)
    });
    broken(&good, &|p| {
        p[65] = 0;
        repair(p)
    });
    broken(&good, &|p| {
        p[65] = 2;
        repair(p)
    });
    broken(&good, &|p| {
        p[48] = 0xff;
        repair(p)
    });
    // A detecting station must not tell its MAC, and asks the solicited-node group.
    broken(&neighbor_solicitation(UNSPECIFIED, group, OURS, Some(a.mac)), &|_| ());
    broken(&neighbor_solicitation(UNSPECIFIED, v6("ff02::1"), OURS, None), &|_| ());
    // An advertisement to a group answers nobody.
    broken(&neighbor_advertisement(a.v6, v6("ff02::1"), a.v6, Some(a.mac), (false, true, true)), &|_| ());
    let mut w = quiet();
    let n = bad.len() as u64;
    for packet in &bad {
        w.punt(LEFT, &ethernet(mac(LEFT), a.mac, packet));
    }
    assert_eq!(w.dropped("nd_invalid"), n);
    // Group and zero MACs; and a message that is cut off.
    for mac in [MacAddr::BROADCAST, MacAddr::ZERO] {
        ask(&mut w, a, OURS, Some(mac));
    }
    assert_eq!(w.dropped("nd_mac"), 2);
    w.from(a, &icmp6_packet(a.v6, OURS, 255, 135, 0, &[0; 15]));
    assert_eq!(w.dropped("bad_icmp"), 1);
    w.silent();
    assert_eq!(w.slow.neighbors().count(), 0);
    w.punt(LEFT, &ethernet(mac(LEFT), a.mac, &good));
    assert_eq!(w.sent.len(), 1, "the same without fault");
}

// RFC 4861 7.2.2: three solicitations to the group, then address unreachable.
#[test]
fn queues_asks_three_times_then_tells() {
    let mut w = World::new();
    let (a, nobody) = (host(LEFT, 2), v6("2001:db8:2::77"));
    ask(&mut w, a, OURS, Some(a.mac));
    w.sent.clear();
    w.from(a, &udp6(a.v6, nobody, 10));
    for second in 0..3 {
        let frame = w.sent[0].1.clone();
        let group = solicited_node(nobody);
        assert_eq!(Ethernet::new(&frame[..]).unwrap().destination(), MacAddr::from_ipv6_multicast(group));
        assert_eq!(solicitation_of(&frame), Some((mac(RIGHT).link_local(), nobody)));
        assert_eq!(w.take_requests(), [(RIGHT, IpAddr::V6(nobody))], "second {second}");
        w.advance(1000);
    }
    let (interface, to, error) = w.take_packet();
    assert_eq!((interface, to), (LEFT, a.mac));
    assert_eq!((icmp6_of(&error).0, icmp6_of(&error).1), (1, 3));
    // And one that answers gets what waited.
    let b = host(RIGHT, 3);
    w.from(a, &udp6(a.v6, b.v6, 10));
    assert_eq!(w.take_packet().1, b.mac);
    assert_eq!(w.twin.len(), 1, "Linux hears the answer too");
}

// RFC 4861 7.2.5: one line each.
#[test]
fn advertisements_move_the_states_as_the_table_says() {
    use NeighborState::*;
    let b = host(RIGHT, 3);
    let other = MacAddr([2, 0xbb, 0, 0, 0, 1]);
    let incomplete = || {
        let mut w = quiet();
        w.from(host(LEFT, 2), &udp6(host(LEFT, 2).v6, b.v6, 1));
        w
    };
    let reachable = || {
        let mut w = incomplete();
        tell(&mut w, b, Some(b.mac), true, true);
        w
    };
    // Unknown: nothing is made of it.
    let mut w = quiet();
    tell(&mut w, b, Some(b.mac), true, true);
    assert_eq!(state(&w, b), None);
    // Incomplete: solicited or not; without MAC nothing.
    let mut w = incomplete();
    tell(&mut w, b, None, true, true);
    assert_eq!(state(&w, b), Some((Incomplete, None)));
    tell(&mut w, b, Some(b.mac), false, false);
    assert_eq!(state(&w, b), Some((Delay, Some(b.mac))), "stale, and at once counted as used");
    assert_eq!(state(&reachable(), b), Some((Reachable, Some(b.mac))));
    // Reachable: another MAC without override makes it doubtful, with override it replaces.
    let mut w = reachable();
    tell(&mut w, b, Some(other), true, false);
    assert_eq!(state(&w, b), Some((Delay, Some(b.mac))));
    tell(&mut w, b, Some(other), true, false);
    assert_eq!(state(&w, b), Some((Delay, Some(b.mac))), "not reachable any more: ignored");
    tell(&mut w, b, Some(b.mac), true, false);
    assert_eq!(state(&w, b), Some((Reachable, Some(b.mac))));
    let mut w = reachable();
    tell(&mut w, b, Some(other), false, true);
    assert_eq!(state(&w, b), Some((Delay, Some(other))));
    let mut w = reachable();
    tell(&mut w, b, Some(other), true, true);
    assert_eq!(state(&w, b), Some((Reachable, Some(other))));
    // The same MAC unasked changes nothing.
    let mut w = reachable();
    tell(&mut w, b, Some(b.mac), false, true);
    assert_eq!(state(&w, b), Some((Reachable, Some(b.mac))));
    // Probing, confirmed.
    w.advance(35_500);
    assert_eq!(state(&w, b), Some((Probe, Some(b.mac))));
    tell(&mut w, b, None, true, false);
    assert_eq!(state(&w, b), Some((Reachable, Some(b.mac))));
}

#[test]
fn stale_waits_for_use_then_delays_then_probes_by_unicast() {
    let mut w = World::with(Config { unused_refreshes: 0, ..Config::default() });
    let (a, b) = (host(LEFT, 2), host(RIGHT, 3));
    w.from(a, &udp6(a.v6, b.v6, 1));
    w.hosts.clear();
    w.advance(30_000);
    assert_eq!(state(&w, b).unwrap().0, NeighborState::Stale);
    w.advance(59_999);
    w.sent.clear();
    w.from(a, &udp6(a.v6, b.v6, 1));
    assert_eq!(w.take_packet().1, b.mac, "used as it is");
    assert_eq!(state(&w, b).unwrap().0, NeighborState::Delay);
    w.advance(5000);
    let frame = w.sent.remove(0).1;
    assert_eq!(Ethernet::new(&frame[..]).unwrap().destination(), b.mac);
    assert_eq!(frame[38..54], b.v6.octets(), "sent to the address itself");
    w.advance(3000);
    assert_eq!(state(&w, b), None);
    assert_eq!(w.events.last(), Some(&Event::NeighborLost { interface: RIGHT, address: b.v6.into() }));
}

// RFC 4862 5.4.
#[test]
fn an_address_is_used_only_once_it_is_unique() {
    let mut w = World::bare(Config::default());
    w.set(LEFT, interface(LEFT));
    let local = mac(LEFT).link_local();
    let asked: Vec<_> = w.sent.iter().filter_map(|(_, f)| solicitation_of(f)).collect();
    assert_eq!(asked.len(), 2);
    assert!([OURS, local].iter().all(|a| asked.contains(&(UNSPECIFIED, *a))));
    // Tentative: neither asked for, nor pinged, nor spoken from.
    w.sent.clear();
    let a = host(LEFT, 2);
    ask(&mut w, a, OURS, Some(a.mac));
    w.from(a, &ping6(a.v6, OURS, b"x"));
    w.from(a, &udp6(a.v6, OURS, 1));
    w.from(a, &udp6(a.v6, v6("2001:db8:ffff::1"), 1));
    w.silent();
    assert_eq!((w.dropped("tentative"), w.count("icmp_errors_unroutable")), (3, 1));
    w.advance(1000);
    let valid = |address| Event::AddressValid { interface: LEFT, address };
    assert_eq!(w.events, [valid(OURS), valid(local)]);
    // Announced to all nodes, unsolicited and to replace what they know (RFC 4861 7.2.6).
    let announced: Vec<_> = w.sent.iter().filter_map(|(_, frame)| advertisement_of(frame)).collect();
    assert_eq!(announced, [OURS, local].map(|address| (address, address, false, true)));
    assert!(w.sent.iter().all(|(_, frame)| frame[..6] == [0x33, 0x33, 0, 0, 0, 1]));
    assert!(w.slow.addresses().all(|a| a.state == AddressState::Valid));
    w.sent.clear();
    w.from(a, &ping6(a.v6, OURS, b"x"));
    assert_eq!(w.sent.len(), 2, "solicitation and reply");
}

// RFC 4862 5.4.
#[test]
fn a_duplicate_is_not_used() {
    let thief = host(LEFT, 9);
    let solicits = neighbor_solicitation(UNSPECIFIED, solicited_node(OURS), OURS, None);
    let advertises = neighbor_advertisement(OURS, v6("ff02::1"), OURS, Some(thief.mac), (false, false, true));
    for packet in [solicits, advertises] {
        let mut w = World::bare(Config::default());
        w.set(LEFT, interface(LEFT));
        w.advance(500);
        let group = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
        // Our own frame, looped back, is no proof.
        w.punt(LEFT, &ethernet(group, mac(LEFT), &packet));
        assert!(w.events.is_empty());
        w.punt(LEFT, &ethernet(group, thief.mac, &packet));
        assert_eq!(w.events, [Event::AddressDuplicate { interface: LEFT, address: OURS, mac: thief.mac }]);
        w.advance(10_000);
        w.sent.clear();
        ask(&mut w, host(LEFT, 2), OURS, Some(host(LEFT, 2).mac));
        w.silent();
        let state = w.slow.addresses().find(|a| a.address.address == IpAddr::V6(OURS)).unwrap().state;
        assert_eq!(state, AddressState::Duplicate);
        // A link that comes up again tries again.
        w.set(LEFT, Interface { up: false, ..interface(LEFT) });
        w.set(LEFT, interface(LEFT));
        w.advance(1000);
        assert!(w.slow.addresses().all(|a| a.state == AddressState::Valid));
    }
}

#[test]
fn answers_a_detecting_station_so_that_it_gives_way() {
    let mut w = quiet();
    let packet = neighbor_solicitation(UNSPECIFIED, solicited_node(OURS), OURS, None);
    w.punt(LEFT, &ethernet(MacAddr([0x33, 0x33, 0xff, 0, 0, 1]), host(LEFT, 9).mac, &packet));
    let frame = &w.sent[0].1;
    assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(advertisement_of(frame), Some((OURS, OURS, false, true)));
    assert_eq!(w.slow.neighbors().count(), 0);
}

#[test]
fn another_user_of_a_valid_address_is_a_conflict() {
    let mut w = quiet();
    let thief = host(LEFT, 9);
    let packet = neighbor_advertisement(OURS, v6("ff02::1"), OURS, Some(thief.mac), (false, false, true));
    w.punt(LEFT, &ethernet(MacAddr([0x33, 0x33, 0, 0, 0, 1]), thief.mac, &packet));
    assert_eq!(w.events, [Event::AddressConflict { interface: LEFT, address: OURS.into(), mac: thief.mac }]);
    w.silent();
}

#[test]
fn without_detection_addresses_are_valid_at_once_and_changes_keep_the_rest() {
    let mut w = World::bare(Config { dad_transmits: 0, ..Config::default() });
    w.set(LEFT, interface(LEFT));
    assert!(w.slow.addresses().all(|a| a.state == AddressState::Valid));
    let mut w = World::new();
    let mut more = interface(LEFT);
    more.addresses.push(prefix("2001:db8:1::53/64"));
    w.set(LEFT, more);
    let tentative: Vec<_> = w.slow.addresses().filter(|a| a.state == AddressState::Tentative).collect();
    assert_eq!(tentative.len(), 1);
    assert_eq!(w.take_requests(), [(LEFT, v6("2001:db8:1::53").into())], "nothing else is announced again");
}
