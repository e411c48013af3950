// SPDX-License-Identifier: MIT
//! One frame per reason: each goes the whole way from classify to distribute and is counted once, under that reason.

use perigee_fib::MulticastOrigin;
use perigee_modules::rules::{Filter, LinearFilter, Rule};
use perigee_modules::testing::*;
use perigee_modules::{Kind, Punted, all_reasons};
use perigee_net::PuntLimit;
use perigee_net::{FiveTuple, InterfaceAddress, Key, MulticastLimits, PortRange, Prefix, ReversePath};
use perigee_packet::wire::tuple;
use perigee_packet::{Mask, Pool};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// What the host counts for the worker and for lib/lua's scripts. Tested there.
const NOT_HERE: [&str; 4] = ["host.unclaimed", "host.script_error", "host.hand_over_full", "host.no_buffer"];

/// Destination that the filter denies.
const DENIED: u8 = 0;
/// Destination that is steered to the slow path.
const STEERED: u8 = 3;
/// Destination of which Linux treats some packets otherwise than others.
const EXCEPTED: u8 = 201;

/// A filter that denies all packets to a destination.
fn deny(to: u8) -> Option<Arc<dyn Filter>> {
    let rule = |to: IpAddr, length: u8| {
        let tuple = FiveTuple { dst: Prefix::truncated(to, length).ok(), ..FiveTuple::default() };
        Rule::deny(tuple)
    };
    let rules = vec![rule(v4(to).into(), 16), rule(v6(to).into(), 48)];
    Some(Arc::new(LinearFilter(rules)))
}

/// Addresses of the router itself.
const OWN4: [u8; 4] = [192, 168, 5, 1];
const OWN6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn rig() -> Rig {
    let mut rig = Rig::with_filters(deny(DENIED), deny(STEERED));
    rig.change_interface(0, |interface| {
        let own = |address: IpAddr, prefix_len| InterfaceAddress { address, prefix_len };
        interface.addresses = vec![own(OWN4.into(), 24), own(OWN6.into(), 64)];
    });
    multicast(&mut rig);
    rig.except(EXCEPTED);
    rig
}

/// The frame with `bytes` from `at` on.
fn set(frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    changed(frame, |frame| frame[at..at + bytes.len()].copy_from_slice(bytes))
}

/// A UDP packet over IPv4 with `bytes` from `at` on, and a header checksum that is right.
fn set4(at: usize, bytes: &[u8]) -> Vec<u8> {
    changed4(udp4(1, 8), |frame| frame[at..at + bytes.len()].copy_from_slice(bytes))
}

fn set6(at: usize, bytes: &[u8]) -> Vec<u8> {
    set(udp6(1, 8), at, bytes)
}

/// A UDP packet to a group.
fn to4(group: u8, payload: usize) -> Vec<u8> {
    to_group(udp4(1, payload), [239, 1, 1, group].into())
}

/// Routes of the groups 1 to 6, each with another fate; 200 and more do not pass the interface that frames come in on.
fn multicast(rig: &mut Rig) {
    let route = |(group, from, origin): (u8, u16, MulticastOrigin)| {
        let to: &[_] = match group {
            6 => &[],
            // Linux's own routes are for their own interfaces.
            3 | 5 => &[(0, 1), (1, 1), (2, 1)],
            _ => &[(2, 1)],
        };
        multicast_route([239, 1, 1, group].into(), None, Some(from), to, origin)
    };
    let (fixed, linux, alone) = (MulticastOrigin::Static, MulticastOrigin::Linux, MulticastOrigin::LinuxAlone);
    let routes = [(1, 0, fixed), (2, 1, fixed), (3, 1, linux), (4, 0, alone), (5, 0, linux), (6, 0, fixed)];
    let boundary = vec!["239.1.1.192/26".parse().unwrap()];
    let limits = vec![MulticastLimits { boundary, ..MulticastLimits::default() }];
    rig.set_multicast(routes.map(route).into(), limits);
}

/// Frames that leave the fast path as they are: reason and frame, received on port 0.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let loopback = Ipv6Addr::LOCALHOST.octets();
    vec![
        ("classify.short", udp4(1, 8)[..13].to_vec()),
        ("classify.not_ours", set(udp4(1, 8), 0, &neighbor(1).octets())),
        ("classify.unknown_vlan", tagged(udp4(1, 8), 0, 99)),
        ("classify.arp", arp_request()),
        ("classify.broadcast", set(udp4(1, 8), 0, &[0xff; 6])),
        ("classify.multicast", set(udp6(1, 8), 0, &[0x33, 0x33, 0, 0, 0, 1])),
        ("classify.other_type", set(udp4(1, 8), 12, &[0x88, 0xcc])),
        ("ipv4_valid.short", udp4(1, 8)[..20].to_vec()),
        ("ipv4_valid.checksum", set(udp4(1, 8), 24, &[0, 1])),
        ("ipv4_valid.version", set4(14, &[0x65])),
        ("ipv4_valid.header_length", set4(14, &[0x44])),
        ("ipv4_valid.total_length", set4(16, &[0, 19])),
        ("ipv4_valid.truncated", set4(16, &[0, 37])),
        ("ipv4_valid.martian_source", set4(26, &[127])),
        ("ipv4_valid.martian_destination", set4(30, &[240])),
        ("ipv4_valid.own_source", set4(26, &OWN4)),
        ("ipv4_valid.link_local", set4(26, &[169, 254])),
        ("ipv4_valid.options", with_options(1, &[1; 4])),
        ("ipv4_valid.multicast", set4(30, &[224, 0, 0, 9])),
        ("ipv6_valid.short", udp6(1, 8)[..53].to_vec()),
        ("ipv6_valid.version", set6(14, &[0x40])),
        ("ipv6_valid.truncated", set6(18, &[0, 17])),
        ("ipv6_valid.multicast_source", set6(22, &[0xff])),
        ("ipv6_valid.loopback", set6(22, &loopback)),
        ("ipv6_valid.unspecified", set6(38, &[0; 16])),
        ("ipv6_valid.own_source", set6(22, &OWN6)),
        ("ipv6_valid.hop_by_hop", set6(20, &[0])),
        ("ipv6_valid.multicast", set6(38, &[0xff])),
        ("ipv6_valid.link_local", set6(38, &[0xfe, 0x80])),
        ("filter.ipv4_denied", udp4(DENIED, 8)),
        ("filter.ipv6_denied", udp6(DENIED, 8)),
        ("filter.ipv4_steered", udp4(STEERED, 8)),
        ("filter.ipv6_steered", udp6(STEERED, 8)),
        ("filter.ipv4_exception", udp4(EXCEPTED, 8)),
        ("filter.ipv6_exception", udp6(EXCEPTED, 8)),
        ("multicast.control", changed4(to4(1, 8), |frame| frame[23] = 2)),
        ("multicast.no_route", to4(99, 8)),
        ("multicast.wrong_interface", to4(2, 8)),
        ("multicast.assert", to4(3, 8)),
        ("multicast.linux", to4(4, 8)),
        ("multicast.sample", to4(5, 8)),
        ("multicast.boundary", to4(200, 8)),
        ("multicast.no_output", to4(6, 8)),
        ("multicast.ttl", changed4(to4(1, 8), |frame| frame[22] = 1)),
        ("multicast.too_big", to4(1, 1473)),
        ("ipv4_lookup.local", udp4(LOCAL, 8)),
        ("ipv4_lookup.no_route", udp4(NOWHERE, 8)),
        ("ipv4_lookup.unresolved", udp4(UNRESOLVED, 8)),
        ("ipv4_lookup.unreachable", udp4(UNREACHABLE, 8)),
        ("ipv4_lookup.prohibited", udp4(PROHIBITED, 8)),
        ("ipv4_lookup.blackhole", udp4(BLACKHOLE, 8)),
        ("ipv4_lookup.to_linux", udp4(TO_LINUX, 8)),
        ("ipv4_lookup.refused", udp4(REFUSED, 8)),
        ("ipv6_lookup.local", udp6(LOCAL, 8)),
        ("ipv6_lookup.no_route", udp6(NOWHERE, 8)),
        ("ipv6_lookup.unresolved", udp6(UNRESOLVED, 8)),
        ("ipv6_lookup.unreachable", udp6(UNREACHABLE, 8)),
        ("ipv6_lookup.prohibited", udp6(PROHIBITED, 8)),
        ("ipv6_lookup.blackhole", udp6(BLACKHOLE, 8)),
        ("ipv6_lookup.to_linux", udp6(TO_LINUX, 8)),
        ("ipv6_lookup.refused", udp6(REFUSED, 8)),
        ("mtu.ipv4_too_big", udp4(1, 1473)),
        ("mtu.ipv6_too_big", udp6(1, 1453)),
        ("ttl.expired", set4(22, &[1])),
        ("hop_limit.expired", set6(21, &[1])),
        ("distribute.no_port", udp4(NO_OUTPUT, 8)),
    ]
}

/// The punted packets so far.
fn punted(rig: &Rig) -> Vec<Punted> {
    rig.punted.try_iter().collect()
}

/// Each frame alone, and all of them in one burst together with frames that go on.
#[test]
fn every_frame_is_counted_under_its_reason_alone() {
    let kinds: std::collections::HashMap<String, Kind> =
        all_reasons().map(|(_, module, info)| (format!("{module}.{}", info.name), info.kind)).collect();
    let mut together = rig();
    for (name, frame) in frames() {
        let mut rig = rig();
        rig.receive(0, &frame);
        rig.run_all();
        assert_eq!(rig.reasons(), [(name.to_owned(), 1)], "frame {frame:02x?}");
        let punted = punted(&rig);
        match kinds[name] {
            Kind::Drop => assert!(punted.is_empty(), "{name}"),
            Kind::Punt => assert_eq!(punted[0].packet.bytes(), frame, "{name} as it came"),
        }
        assert_eq!(rig.ctx.counters.punted.get(), punted.len() as u64);
        assert_eq!(rig.pool.in_use(), punted.len(), "{name}");

        together.receive(0, &udp4(2, 8));
        together.receive(0, &frame);
        together.receive(0, &udp6(1, 8));
    }
    together.run_all();
    let expected: std::collections::BTreeMap<_, _> = frames().iter().map(|(name, _)| (name.to_string(), 1)).collect();
    assert_eq!(together.reasons().into_iter().collect::<std::collections::BTreeMap<_, _>>(), expected);
    assert_eq!(together.sent(1).len(), 2 * frames().len(), "p1.10 and p1 are one port");
}

/// The reasons that need more than a frame.
#[test]
fn the_rest_needs_a_special_state() {
    // A neighbor that gets lost between lookup and apply.
    let mut rig1 = rig();
    rig1.receive_classified(&udp4(2, 8));
    let mut ip4 = rig1.run(perigee_modules::ipv4_lookup::ipv4_lookup);
    rig1.lose_neighbor(2);
    perigee_modules::apply::apply(&mut rig1.ctx, &mut rig1.batch, &mut ip4, &mut Mask::default());
    assert_eq!(rig1.reasons(), [("apply.stale".to_owned(), 1)]);

    // No room for the tag of p1.10.
    let mut rig2 = rig();
    let slot = rig2.receive(0, &udp4(2, 8));
    rig2.use_up_headroom(slot);
    rig2.run_all();
    assert_eq!(rig2.reasons(), [("apply.no_room".to_owned(), 1)]);

    // No route leads back to the frames' sources.
    let mut rig5 = rig();
    rig5.change_interface(0, |interface| interface.policy.urpf = ReversePath::Loose);
    rig5.receive(0, &udp4(1, 8));
    rig5.receive(0, &udp6(1, 8));
    rig5.run_all();
    assert_eq!(rig5.reasons(), [("urpf.ipv4_failed".to_owned(), 1), ("urpf.ipv6_failed".to_owned(), 1)]);

    // A copy: the packet itself goes on.
    let mut rig4 = rig();
    rig4.change_interface(4, |interface| interface.addresses = vec!["198.51.100.1/24".parse().unwrap()]);
    rig4.receive(0, &tagged(udp4(4, 8), 0, 30));
    rig4.run_all();
    assert_eq!(rig4.reasons(), [("redirect.sent_back".to_owned(), 1)]);
    assert_eq!((rig4.sent(0).len(), punted(&rig4).len(), rig4.ctx.counters.punted.get()), (1, 1, 1));

    // A flow to a group without a route, of which Linux hears 32 at once.
    let mut rig6 = rig();
    for _ in 0..33 {
        rig6.receive(0, &to4(99, 8));
    }
    rig6.run_all();
    let limited = [("multicast.no_route", 32), ("multicast.no_route_limited", 1)];
    assert_eq!(rig6.reasons(), limited.map(|(name, count)| (name.to_owned(), count)));

    // No buffer for the copy, and no headroom for the tag of the packet itself.
    let mut rig7 = rig();
    let to = [(1, 1), (2, 1)];
    let route = multicast_route([239, 1, 1, 1].into(), None, Some(0), &to, MulticastOrigin::Static);
    rig7.set_multicast(vec![route], Vec::new());
    let slot = rig7.receive(0, &to4(1, 8));
    rig7.use_up_headroom(slot);
    let held: Vec<_> = std::iter::from_fn(|| rig7.pool.packet(&[0; 60])).collect();
    rig7.run_all();
    let lost = [("multicast.no_buffer", 1), ("multicast.no_room", 1)];
    assert_eq!((rig7.reasons(), rig7.pool.in_use()), (lost.map(|(name, n)| (name.to_owned(), n)).into(), held.len()));

    // A port's queue and the ring to the slow path have room for 1024: fast packets go on when the ring is full.
    let mut rig3 = rig();
    for _ in 0..9 {
        for _ in 0..128 {
            rig3.receive(0, &udp4(1, 8));
            rig3.receive(0, &arp_request());
        }
        rig3.run_all();
    }
    let full = 9 * 128 - 1024;
    let expected = [("host.transmit_full", full), ("host.punt_ring_full", full), ("classify.arp", 9 * 128)];
    assert_eq!(rig3.reasons(), expected.map(|(name, count)| (name.to_owned(), count)));
    assert_eq!((rig3.sent(1).len(), punted(&rig3).len(), rig3.ctx.counters.punted.get()), (1024, 1024, 1024));
    assert_eq!((rig3.dropped(), rig3.pool.in_use()), (2 * full, 0));
}

/// A list of one rule.
fn deny_only(tuple: FiveTuple) -> Option<Arc<dyn Filter>> {
    Some(Arc::new(LinearFilter(vec![Rule::deny(tuple)])))
}

/// Rules that deny a frame: all packets of its family, its addresses, and its 5-tuple. None for what is no IP packet.
fn rules_against(frame: &[u8]) -> Vec<FiveTuple> {
    fn rules<const N: usize>(key: &Key<N>, address: fn([u8; N]) -> IpAddr, all: &str) -> Vec<FiveTuple> {
        let [src, dst] = [key.source, key.destination].map(|bytes| Some(Prefix::host(address(bytes))));
        let addresses = FiveTuple { src, dst, ..FiveTuple::default() };
        let [sport, dport] = [key.source_port, key.destination_port].map(u16::from_be_bytes);
        let ports = |port| Some(PortRange::only(port));
        let whole = FiveTuple { proto: Some(key.protocol), sport: ports(sport), dport: ports(dport), ..addresses };
        vec![FiveTuple { src: all.parse().ok(), ..FiveTuple::default() }, addresses, whole]
    }
    match tuple::network(frame) {
        Some((at, false)) => tuple::key4(&frame[at..]).map_or(Vec::new(), |key| rules(&key, IpAddr::from, "0.0.0.0/0")),
        Some((at, true)) => tuple::key6(&frame[at..]).map_or(Vec::new(), |key| rules(&key, IpAddr::from, "::/0")),
        None => Vec::new(),
    }
}

/// Whichever way a packet takes, and whether the script asks the filters or not: what a rule denies reaches neither the
/// slow path nor a port.
#[test]
fn a_rule_that_denies_holds_on_every_way() {
    let fast = ["", "", ""].into_iter().zip([udp4(1, 8), udp6(1, 8), tagged(udp4(1, 8), 0, 30)]);
    // A provider's tag that only says a priority, which the slow path takes off.
    let provider = changed(tagged(udp4(1, 8), 0, 0), |frame| frame[12..14].copy_from_slice(&[0x88, 0xa8]));
    for (name, frame) in frames().into_iter().chain(fast).chain([("classify.other_type", provider)]) {
        let rules = rules_against(&frame);
        // These are not IP, or too short to be.
        let other = ["classify.arp", "classify.other_type", "classify.short", "ipv4_valid.short", "ipv6_valid.short"];
        assert!(!rules.is_empty() || other.contains(&name), "{name}");
        for (tuple, asks) in rules.into_iter().flat_map(|tuple| [(tuple, true), (tuple, false)]) {
            let mut rig = rig();
            rig.set_filter(deny_only(tuple));
            rig.receive(0, &frame);
            if asks {
                rig.run_all()
            } else {
                rig.run_without("filter")
            }
            let sent: Vec<_> = (0..PORTS).flat_map(|port| rig.sent(port)).collect();
            assert!(punted(&rig).is_empty() && sent.is_empty(), "{name}: {tuple:?}, {frame:02x?}");
            let [(reason, 1)] = &rig.reasons()[..] else { panic!("{name}: {:?}", rig.reasons()) };
            assert!(reason.starts_with("filter.ip") || reason == name, "{name}: {reason}");
            assert_eq!(rig.pool.in_use(), 0);
        }
    }
}

/// A reason that is added later, a script's own included, opens no hole either.
#[test]
fn no_reason_is_punted_under_past_a_filter() {
    let custom = (512..514).map(perigee_modules::Reason);
    for reason in all_reasons().map(|(reason, ..)| reason).chain(custom) {
        for frame in [udp4(1, 8), udp6(1, 8), with_options(1, &[1; 4])] {
            let mut rig = rig();
            rig.set_filter(deny_only(FiveTuple::default()));
            let slot = rig.receive_classified(&frame);
            rig.ctx.punt(&mut rig.batch, Mask::only(slot), reason);
            assert!(punted(&rig).is_empty(), "{reason:?}");
            assert!(rig.reasons().iter().all(|(name, _)| name.starts_with("filter.ip")), "{:?}", rig.reasons());
        }
    }
}

/// A second packet of each class finds no place.
#[test]
fn what_is_beyond_a_ports_limits_is_dropped_by_class() {
    let frame = |wanted: &str| frames().into_iter().find(|(name, _)| *name == wanted).expect("a frame").1;
    let protocol = |wanted: &str, number: u8| set(frame(wanted), 23, &[number]);
    for (class, frame, reason) in [
        ("routing", protocol("ipv4_lookup.local", 89), "ipv4_lookup.local"),
        ("discovery", frame("classify.arp"), "classify.arp"),
        ("unresolved", frame("ipv4_lookup.unresolved"), "ipv4_lookup.unresolved"),
        ("icmp", protocol("ipv4_lookup.local", 1), "ipv4_lookup.local"),
        ("management", frame("ipv4_lookup.local"), "ipv4_lookup.local"),
        ("other", frame("ttl.expired"), "ttl.expired"),
    ] {
        let mut rig = rig();
        rig.police(&[PuntLimit { rate: 1, burst: 1 }; 6]);
        rig.receive(0, &frame_with_checksum(frame.clone()));
        rig.receive(0, &frame_with_checksum(frame));
        rig.run_all();
        let counts: std::collections::BTreeMap<_, _> = rig.reasons().into_iter().collect();
        assert_eq!(counts, [(format!("host.policed_{class}"), 1), (reason.to_owned(), 2)].into(), "{class}");
        let arrived = punted(&rig).len();
        assert_eq!((arrived, rig.ctx.counters.punted.get(), rig.pool.in_use()), (1, 1, 0), "{class}");
    }
}

/// With the right checksum, if its header is IPv4's.
fn frame_with_checksum(frame: Vec<u8>) -> Vec<u8> {
    if frame[12..14] != [8, 0] {
        return frame;
    }
    let zeroed = set(frame, 24, &[0, 0]);
    let checksum = perigee_packet::wire::checksum::ipv4_header(&zeroed[14..34]);
    set(zeroed, 24, &checksum.to_be_bytes())
}

#[test]
fn no_reason_is_forgotten() {
    let special = [
        "host.policed_routing",
        "host.policed_discovery",
        "host.policed_unresolved",
        "host.policed_icmp",
        "host.policed_management",
        "host.policed_other",
        "urpf.ipv4_failed",
        "urpf.ipv6_failed",
        "redirect.sent_back",
        "multicast.no_route_limited",
        "multicast.no_buffer",
        "multicast.no_room",
        "apply.stale",
        "apply.no_room",
        "host.transmit_full",
        "host.punt_ring_full",
    ];
    let covered: Vec<&str> = frames().iter().map(|(name, _)| *name).chain(special).chain(NOT_HERE).collect();
    for (_, module, info) in all_reasons() {
        let name = format!("{module}.{}", info.name);
        let times = covered.iter().filter(|covered| **covered == name).count();
        assert!(times > 0, "no frame is known that leaves as {name}; add one to frames() in {}", file!());
        assert_eq!(times, 1, "{name} is listed {times} times; one of them is enough");
    }
    let known: Vec<String> = all_reasons().map(|(_, module, info)| format!("{module}.{}", info.name)).collect();
    let gone: Vec<_> = covered.iter().filter(|name| !known.iter().any(|known| known == *name)).collect();
    assert!(gone.is_empty(), "no module has these reasons: {gone:?}");
}
