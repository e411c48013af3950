// SPDX-License-Identifier: MIT
//! Random and mutated frames of all kinds, configuration changes and leaps of time, from a seed that is printed.
//! `PERIGEE_FUZZ=n` takes n times as many steps.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::world::*;
use perigee_net::{
    AddressAttributes, AddressScope, HostAddress, Interface, InterfaceAddress, InterfaceId, MacAddr, MulticastOutput,
    Policy, Proxy, ReversePath, Station,
};
use perigee_packet::wire::arp::Repr;
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{icmp4, icmp6, ipv4, ipv6, protocol};
use perigee_packet::{Ethernet, Ipv4, Ipv6};
use perigee_slowpath::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const STEPS: u64 = 300_000;

pub fn pick<T: Copy>(rng: &mut StdRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

fn bytes(rng: &mut StdRng, most: usize) -> Vec<u8> {
    let len = rng.random_range(0..=most);
    (0..len).map(|_| rng.random()).collect()
}

fn any4(rng: &mut StdRng) -> Ipv4Addr {
    const SOME: &[&str] = &[
        "10.0.1.1",
        "10.0.2.1",
        "10.0.1.255",
        "10.0.2.0",
        "255.255.255.255",
        "224.0.0.5",
        "239.1.1.1",
        "0.0.0.0",
        "127.0.0.1",
        "240.0.0.1",
        "169.254.1.1",
        "198.51.100.9",
        "198.18.0.1",
        "192.0.2.1",
        "203.0.113.1",
        "203.0.113.129",
        "10.255.255.1",
        "10.77.0.1",
        "10.78.0.1",
    ];
    match rng.random_range(0..10) {
        0..5 => Ipv4Addr::new(10, 0, rng.random_range(1..3), rng.random_range(2..9)),
        5..9 => v4(pick(rng, SOME)),
        _ => Ipv4Addr::from_bits(rng.random()),
    }
}

fn any6(rng: &mut StdRng) -> Ipv6Addr {
    const SOME: &[&str] = &[
        "2001:db8:1::1",
        "2001:db8:2::1",
        "ff02::1",
        "ff02::2",
        "ff02::5",
        "ff02::1:ff00:1",
        "ff05::1",
        "ff01::1",
        "::",
        "::1",
        "fe80::254",
        "fe80::2",
        "fe80::ff:fe00:1",
        "2001:db8:100::1",
        "2001:db8:200::1",
        "2001:db8:201::1",
        "2001:db8:202::1",
        "2001:db8:300::1",
        "2001:db8:301::1",
        "2001:db8:ffff::1",
    ];
    match rng.random_range(0..10) {
        0..5 => Ipv6Addr::new(0x2001, 0xdb8, rng.random_range(1..3), 0, 0, 0, 0, rng.random_range(2..9)),
        5..9 => v6(pick(rng, SOME)),
        _ => Ipv6Addr::from_bits(rng.random()),
    }
}

fn any_mac(rng: &mut StdRng) -> MacAddr {
    match rng.random_range(0..10) {
        0 => MacAddr::BROADCAST,
        1 => MacAddr::ZERO,
        2 => {
            if rng.random_bool(0.3) {
                VIRTUAL
            } else {
                mac(InterfaceId(rng.random_range(1..3)))
            }
        }
        3 => MacAddr([0x33, 0x33, 0, 0, 0, 1]),
        _ => host(InterfaceId(rng.random_range(1..3)), rng.random_range(2..9)).mac,
    }
}

fn arp(rng: &mut StdRng) -> Vec<u8> {
    let repr = Repr {
        operation: pick(rng, &[1, 1, 2, 2, 3]),
        sender_mac: any_mac(rng),
        sender_ip: any4(rng),
        target_mac: any_mac(rng),
        target_ip: any4(rng),
    };
    arp_frame(MacAddr::BROADCAST, &repr)[14..].to_vec()
}

fn packet4(rng: &mut StdRng) -> Vec<u8> {
    let most = pick(rng, &[40, 40, 200, 1480, 3000]);
    let mut payload = bytes(rng, most);
    let protocol = pick(rng, &[protocol::UDP, protocol::TCP, protocol::ICMP, protocol::ICMP]);
    if protocol == protocol::ICMP && payload.len() >= 8 {
        payload[0] = pick(rng, &[0, 3, 5, 8, 8, 8, 11, 12, 13]);
        perigee_packet::Icmp4::new(&mut payload[..]).unwrap().fill_checksum();
    }
    const OPTIONS: &[&[u8]] = &[
        &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &[68, 4, 5, 0xf0],
        &[131, 7, 4, 10, 0, 2, 3, 0],
        &[137, 7, 4, 198, 51, 100, 7, 0],
        &[137, 7, 4, 198, 51, 100, 9, 0],
        &[131, 7, 4, 10, 255, 255, 1, 0],
        &[137, 7, 4, 10, 255, 255, 1, 0],
        &[148, 4, 0, 0, 1, 1, 1, 0],
    ];
    let options = match rng.random_range(0..8) {
        0 => pick(rng, OPTIONS).to_vec(),
        1 => (0..rng.random_range(0..11) * 4).map(|_| rng.random()).collect(),
        _ => vec![],
    };
    let repr = ipv4::Repr {
        tos: rng.random(),
        identification: rng.random(),
        dont_fragment: rng.random_bool(0.3),
        more_fragments: rng.random_bool(0.1),
        fragment_offset: if rng.random_bool(0.1) { rng.random_range(0..8000) * 8 } else { 0 },
        ttl: pick(rng, &[0, 1, 2, 64, 255]),
        ..ipv4::Repr::new(any4(rng), any4(rng), protocol, 0)
    };
    ip4(repr, &options, &payload)
}

/// Where a piece of a datagram of 64 bytes lies, in bytes. Pieces of one datagram mostly have one length, so that they
/// fit each other.
fn place(rng: &mut StdRng, id: u16) -> std::ops::Range<usize> {
    let len = if rng.random_bool(0.95) { [8, 16, 32][usize::from(id) % 3] } else { pick(rng, &[0, 8, 13, 24]) };
    let start = rng.random_range(0..64 / len.max(8)) * len;
    start..(start + len).min(64)
}

/// A piece of a datagram to the router or a group.
fn piece4(rng: &mut StdRng) -> Vec<u8> {
    let from = host(InterfaceId(rng.random_range(1..3)), 2).v4;
    let some = ["10.255.255.1", "224.0.0.5", "255.255.255.255"];
    let to = v4(if rng.random_bool(0.8) { "10.0.1.1" } else { pick(rng, &some) });
    let id = rng.random_range(0..3);
    let whole = ping4(from, to, &[0; 56]);
    let place = place(rng, id);
    let repr = ipv4::Repr {
        tos: if rng.random_bool(0.1) { rng.random() } else { 0 },
        identification: id,
        more_fragments: place.end < 64,
        fragment_offset: if rng.random_bool(0.02) { 65_528 } else { place.start },
        ..ipv4::Repr::new(from, to, pick(rng, &[protocol::ICMP, protocol::ICMP, protocol::UDP, protocol::TCP]), 0)
    };
    ip4(repr, &[], &whole[20..][place])
}

/// As [`piece4`].
fn fragment6(rng: &mut StdRng) -> Vec<u8> {
    let from = host(InterfaceId(rng.random_range(1..3)), 2).v6;
    let some = ["2001:db8:2::1", "ff02::1", "ff02::5"];
    let to = v6(if rng.random_bool(0.8) { "2001:db8:1::1" } else { pick(rng, &some) });
    let id = rng.random_range(0..3);
    let whole = ping6(from, to, &[0; 56]);
    let place = place(rng, id);
    let at = (if rng.random_bool(0.02) { 65_528 } else { place.start }, place.end < 64);
    let next = pick(rng, &[protocol::ICMPV6, protocol::ICMPV6, protocol::UDP, protocol::DESTINATION_OPTIONS]);
    if rng.random_bool(0.05) {
        let target = any6(rng);
        let whole = neighbor_solicitation(from, to, target, None);
        return piece6(from, to, protocol::ICMPV6, (0, false), 1, &whole[40..]);
    }
    let mut packet = piece6(from, to, next, at, u32::from(id), &whole[40..][place]);
    if rng.random_bool(0.1) {
        packet[1] = rng.random::<u8>() & 0x30;
    }
    packet
}

fn packet6(rng: &mut StdRng) -> Vec<u8> {
    let (from, to) = (any6(rng), any6(rng));
    let hop_limit = pick(rng, &[0, 1, 2, 64, 255]);
    let target = any6(rng);
    let mac_given = Some(any_mac(rng)).filter(|_| rng.random_bool(0.8));
    match rng.random_range(0..6) {
        0 => neighbor_solicitation(from, to, target, mac_given),
        1 => neighbor_advertisement(from, to, target, mac_given, (rng.random(), rng.random(), rng.random())),
        2 => {
            let kind = pick(rng, &[1, 2, 3, 4, 100, 128, 128, 128, 129, 130, 133, 134, 135, 136, 137]);
            let rest = rng.random();
            icmp6_packet(from, to, hop_limit, kind, rest, &bytes(rng, 1500))
        }
        3 => {
            // Extension headers of random contents in a random order.
            let kinds = [protocol::HOP_BY_HOP, protocol::ROUTING, protocol::FRAGMENT, protocol::DESTINATION_OPTIONS];
            let first = pick(rng, &kinds);
            let mut payload = Vec::new();
            for _ in 0..rng.random_range(1..4) {
                let next = pick(rng, &[protocol::ICMPV6, protocol::UDP, kinds[1], kinds[2], kinds[3]]);
                payload.extend_from_slice(&[next, 0, pick(rng, &[0, 1, 5, 0x1e, 0x5e, 0x9e, 0xde, 0xc2])]);
                payload.push(rng.random_range(0..5));
                payload.extend((0..4).map(|_| rng.random::<u8>() & 3));
            }
            payload.extend(bytes(rng, 60));
            ip6(ipv6::Repr { hop_limit, ..ipv6::Repr::new(from, to, first, 0) }, &payload)
        }
        _ => {
            let most = pick(rng, &[40, 1460, 3000]);
            ip6(ipv6::Repr { hop_limit, ..ipv6::Repr::new(from, to, protocol::UDP, 0) }, &bytes(rng, most))
        }
    }
}

pub fn frame(rng: &mut StdRng, interface: InterfaceId) -> Vec<u8> {
    let kind = pick(rng, &[0x0800, 0x0800, 0x0800, 0x86dd, 0x86dd, 0x86dd, 0x0806, 0x88cc]);
    let payload = match kind {
        0x0800 if rng.random_bool(0.3) => piece4(rng),
        0x0800 => packet4(rng),
        0x86dd if rng.random_bool(0.3) => fragment6(rng),
        0x86dd => packet6(rng),
        0x0806 => arp(rng),
        _ => bytes(rng, 100),
    };
    let to = if rng.random_bool(0.8) { mac(interface) } else { any_mac(rng) };
    let mut frame = framed(to, any_mac(rng), kind, &payload);
    if rng.random_bool(0.05) {
        let tag = [0x81, 0, 0, pick(rng, &[0, 100, 101])];
        frame.splice(12..12, tag);
    }
    if rng.random_bool(0.3) {
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..frame.len().min(100));
            frame[at] = rng.random();
        }
        if let Some(Ok(mut view)) = frame.get_mut(14..).map(Ipv4::new) {
            view.fill_checksum(); // Else hardly any mutation gets past the first check.
        }
    }
    match rng.random_range(0..20) {
        0 => frame.truncate(rng.random_range(0..=frame.len())),
        1 => frame.extend(bytes(rng, 60)),
        _ => {}
    }
    frame
}

/// An interface with random switches.
pub fn any_interface(rng: &mut StdRng, id: InterfaceId) -> Interface {
    let policy = Policy {
        redirects: rng.random_bool(0.8),
        urpf: pick(rng, &[ReversePath::Off, ReversePath::Off, ReversePath::Loose, ReversePath::Strict]),
        directed_broadcast: rng.random(),
        source_routes: rng.random(),
    };
    let plain = interface(id);
    let attributes = plain.addresses.iter().map(|a| (*a, any_attributes(rng)));
    Interface { policy, attributes: attributes.collect(), ..plain }
}

fn any_attributes(rng: &mut StdRng) -> AddressAttributes {
    let toward = InterfaceAddress { address: IpAddr::V6(any6(rng)), prefix_len: rng.random_range(0..=128) }.network();
    AddressAttributes {
        scope: pick(rng, &[AddressScope::Global, AddressScope::Global, AddressScope::Link, AddressScope::Host]),
        deprecated: rng.random_bool(0.3),
        toward: rng.random_bool(0.2).then_some(toward),
    }
}

fn any_station(rng: &mut StdRng) -> Option<Station> {
    let interface = InterfaceId(rng.random_range(1..4));
    rng.random_bool(0.3).then_some(Station { interface, mac: VIRTUAL })
}

/// The MAC address of VRRP's group 5.
const VIRTUAL: MacAddr = MacAddr([0, 0, 0x5e, 0, 1, 5]);

/// Addresses that are on no interface, or on one as well.
pub fn any_host_addresses(rng: &mut StdRng) -> Vec<HostAddress> {
    const SOME: &[&str] =
        &["10.255.255.1/32", "10.0.2.1/32", "2001:db8:ffff::1/128", "2001:db8:fffe::1/64", "2001:db8:1::1/64"];
    let some = SOME.iter().filter(|_| rng.random_bool(0.4)).map(|text| prefix(text)).collect::<Vec<_>>();
    some.into_iter()
        .map(|address| HostAddress { address, attributes: any_attributes(rng), station: any_station(rng) })
        .collect()
}

fn reconfigure(rng: &mut StdRng) -> Input<'static> {
    let id = InterfaceId(rng.random_range(1..4));
    let address = if rng.random() { IpAddr::V4(any4(rng)) } else { IpAddr::V6(any6(rng)) };
    match rng.random_range(0..12) {
        0 | 1 => {
            let mut config = any_interface(rng, id);
            config.mtu = pick(rng, &[0, 20, 28, 68, 576, 1280, 1500, 9000]);
            config.up = rng.random_bool(0.8);
            config.vlan = pick(rng, &[None, None, None, Some(100)]);
            if rng.random_bool(0.2) {
                config.addresses.push(InterfaceAddress { address, prefix_len: rng.random() });
            }
            Input::SetInterface { id, interface: config }
        }
        2 if rng.random_bool(0.2) => Input::RemoveInterface { id },
        2 if rng.random_bool(0.3) => Input::SetHostAddresses { addresses: any_host_addresses(rng) },
        2..5 => Input::SetInterface { id, interface: any_interface(rng, id) },
        5 => Input::SetNeighbor { interface: id, address, mac: any_mac(rng) },
        6 => Input::UnsetNeighbor { interface: id, address },
        7 => Input::Resolve { interface: id, gateway: address },
        8 => Input::Forget { interface: id, gateway: address },
        9 if rng.random_bool(0.1) => Input::FlushNeighbors {
            interface: rng.random_bool(0.7).then_some(id),
            address: rng.random_bool(0.7).then_some(address),
        },
        10 => Input::LearnNeighbor {
            interface: id,
            address,
            mac: any_mac(rng),
            replace: rng.random(),
            confirmed: rng.random(),
        },
        11 => {
            let others = (0..8)
                .map(|_| (if rng.random() { IpAddr::V4(any4(rng)) } else { IpAddr::V6(any6(rng)) }, rng.random()));
            let addresses = others.collect();
            Input::SetProxy { interface: id, proxy: Proxy { arp: rng.random(), addresses } }
        }
        _ => Input::NeighborUsed { interface: id, address },
    }
}

/// What the owner of the tables may be told of Linux.
fn any_treatment(rng: &mut StdRng) -> Treatment {
    match rng.random_range(0..4) {
        0 => Treatment::Plain,
        1 => Treatment::ToLinux,
        2 => Treatment::Refused,
        _ => Treatment::Mtu(rng.random_range(0..=1500)),
    }
}

/// What the caller would know from events and its own configuration.
#[derive(Default)]
struct Mirror {
    neighbors: BTreeMap<(InterfaceId, IpAddr), MacAddr>,
    interfaces: BTreeMap<InterfaceId, Interface>,
    /// Addresses that are on no interface.
    host_addresses: Vec<IpAddr>,
    /// Addresses in use before and after the step: what came from them, the router itself said.
    own: Vec<IpAddr>,
}

impl Mirror {
    fn configured(&mut self, input: &Input<'_>) {
        match input {
            Input::SetInterface { id, interface } => drop(self.interfaces.insert(*id, interface.clone())),
            Input::RemoveInterface { id } => drop(self.interfaces.remove(id)),
            Input::SetHostAddresses { addresses } => {
                self.host_addresses = addresses.iter().map(|own| own.address.address).collect();
            }
            _ => {}
        }
    }

    fn in_use(&self, slow: &SlowPath) -> Vec<IpAddr> {
        let valid = slow.addresses().filter(|a| a.state == AddressState::Valid).map(|a| a.address.address);
        valid.chain(self.host_addresses.iter().copied()).collect()
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::NeighborResolved { interface, address, mac } => {
                assert!(mac.is_unicast());
                assert_eq!(self.neighbors.insert((interface, address), mac), None, "resolved twice: {event:?}");
            }
            Event::NeighborChanged { interface, address, mac } => {
                assert!(mac.is_unicast());
                let before = self.neighbors.insert((interface, address), mac);
                assert!(before.is_some_and(|before| before != mac), "{event:?} after {before:?}");
            }
            Event::NeighborLost { interface, address } => {
                assert!(self.neighbors.remove(&(interface, address)).is_some(), "lost what was not there: {event:?}");
            }
            _ => {}
        }
    }

    /// The caller's view is the slow path's own.
    fn agrees(&self, slow: &SlowPath) {
        let up = |id| self.interfaces.get(&id).is_some_and(|i| i.up);
        let table = slow.neighbors().filter(|n| up(n.interface) && n.reported);
        let known: BTreeMap<_, _> = table.filter_map(|n| Some(((n.interface, n.address), n.mac?))).collect();
        assert_eq!(known, self.neighbors);
    }

    fn sent(&self, id: InterfaceId, frame: &[u8]) {
        let config = &self.interfaces[&id];
        let view = Ethernet::new(frame).unwrap();
        // A virtual station answers ARP itself.
        let by_station = view.source() == VIRTUAL && view.ethertype() == ethertype::ARP;
        assert!(config.up && (view.source() == config.mac || by_station));
        match view.ethertype() {
            0x0800 => {
                assert!(view.payload().len() <= usize::from(config.mtu));
                self.sent4(view.payload());
            }
            // Neighbor discovery has to speak even where the MTU is too small for IPv6.
            0x86dd => self.sent6(view.payload(), usize::from(config.mtu.max(1280))),
            _ => {}
        }
    }

    fn sent4(&self, packet: &[u8]) {
        let view = Ipv4::new(packet).unwrap();
        if !self.own.contains(&view.source().into()) || view.is_fragment() {
            return;
        }
        let (kind, _, _, quoted) = icmp4_of(packet);
        assert!(kind == 0 || icmp4::is_error(kind));
        if kind != 0 {
            let about = Ipv4::new_truncated(quoted).unwrap();
            let error =
                about.protocol() == protocol::ICMP && about.payload().first().is_none_or(|&k| icmp4::is_error(k));
            assert!(!error, "an error about an error: {quoted:?}");
            assert!(about.fragment_offset() == 0 && !about.destination().is_multicast());
            assert!(packet.len() <= 576 && !self.own.contains(&about.source().into()));
        }
    }

    fn sent6(&self, packet: &[u8], mtu: usize) {
        let view = Ipv6::new(packet).unwrap();
        assert!(packet.len() <= mtu);
        if !self.own.contains(&view.source().into()) && !view.source().is_unspecified() {
            return;
        }
        if view.next_header() == protocol::FRAGMENT {
            // Of an echo reply: nothing else of the router's is that long.
            assert!(packet[40] == protocol::ICMPV6 && packet[42..44] != [0, 0]);
            return assert!(packet[42..44] != [0, 1] || packet[48] == 129, "{packet:02x?}");
        }
        let (kind, code, _, quoted) = icmp6_of(packet);
        assert!(matches!(kind, 129 | 135 | 136 | 137) || icmp6::is_error(kind), "type {kind}");
        if kind == icmp6::REDIRECT {
            assert!(view.hop_limit() == 255 && view.source().is_unicast_link_local() && packet.len() <= 1280);
            assert!(!view.destination().is_multicast() && !self.own.contains(&view.destination().into()));
        }
        if icmp6::is_error(kind) {
            let about = Ipv6::new_truncated(quoted).unwrap();
            if let Ok(upper) = about.upper_layer()
                && upper.protocol == protocol::ICMPV6
            {
                // Only about fragments it may be unknown what they are of (RFC 8200 4.5).
                let blind = kind == icmp6::PARAMETER_PROBLEM && matches!(code, 0 | 3) && upper.fragment.is_some();
                let error = upper.payload.first().map_or(!blind, |&k| icmp6::is_error(k) || k == icmp6::REDIRECT);
                assert!(!error || !upper.has_header(), "an error about an error: {quoted:?}");
                assert!(upper.has_header() || blind);
            }
            assert!(packet.len() <= 1280 && !about.source().is_unspecified() && !about.source().is_multicast());
        }
    }
}

fn total(slow: &SlowPath) -> u64 {
    slow.counters().iter().filter(|count| count.name != "punted").map(|count| count.value).sum()
}

/// What becomes of packets to a group from an interface.
pub fn any_group(rng: &mut StdRng) -> (IpAddr, InterfaceId, MulticastDecision) {
    let group = pick(rng, &[IpAddr::from(v4("239.1.1.1")), v6("ff05::1").into()]);
    let (from, to) = pick(rng, &[(1, 2), (2, 1)]);
    let output = MulticastOutput { interface: InterfaceId(to), ttl: rng.random_range(0..64) };
    let decision = match rng.random_range(0..8) {
        0 => MulticastDecision::NoRoute,
        1 => MulticastDecision::Linux,
        2 => MulticastDecision::WrongInterface,
        3 => MulticastDecision::Boundary,
        4 => MulticastDecision::Forward(Vec::new()),
        _ => MulticastDecision::Forward(vec![output]),
    };
    (group, InterfaceId(from), decision)
}

fn run(seed: u64, steps: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let config = Config {
        max_known: 3,
        max_unresolved: 2,
        requests_per_second: 1,
        queue_per_neighbor: 2,
        queue_total: 10,
        queue_bytes: 9000,
        icmp_errors_per_second: 1,
        icmp_errors_per_source: 2,
        icmp_error_burst: 2,
        redirects_per_second: 1,
        redirect_burst: 1,
        max_outputs: 500,
        reassembly_datagrams: 12,
        reassembly_source_datagrams: 9,
        reassembly_bytes: 12_000,
        reassembly_source_bytes: 9000,
        reassembly_fragments: 3,
        secret: seed.into(),
        ..Config::default()
    };
    let mut w = World::bare(config);
    let mut mirror = Mirror::default();
    let mut needed = 0;
    for step in 0..steps {
        let before = mirror.in_use(&w.slow);
        let choice = if step < 2 { 0 } else { rng.random_range(0..100) };
        match choice {
            0 | 1 => {
                let (group, id, decision) = any_group(&mut rng);
                w.table.1.decisions.insert((group, id), decision);
                w.table.1.treatment = rng.random_bool(0.3).then(|| [any_treatment(&mut rng), any_treatment(&mut rng)]);
                let input = if step < 2 {
                    let id = InterfaceId(step as u16 + 1);
                    Input::SetInterface { id, interface: any_interface(&mut rng, id) }
                } else {
                    reconfigure(&mut rng)
                };
                w.input(input.clone());
                mirror.configured(&input);
                needed = w.slow.neighbors().filter(|n| n.gateway || n.state == NeighborState::Static).count();
            }
            2..8 => {
                let ms = pick(&mut rng, &[1, 10, 300, 1000, 6000, 70_000]);
                w.advance(rng.random_range(0..=ms));
            }
            8 => {
                w.now = w.now.after_millis(rng.random_range(0..5000)); // Nobody calls for a while.
                let flood = ethernet(
                    MacAddr([1, 0, 0x5e, 1, 1, 2]),
                    any_mac(&mut rng),
                    &udp4(any4(&mut rng), v4("239.1.1.2"), 5),
                );
                (0..rng.random_range(0..50)).for_each(|_| w.punt(InterfaceId(rng.random_range(1..3)), &flood));
            }
            9 => {
                let (id, frame) = (InterfaceId(rng.random_range(1..4)), bytes(&mut rng, 60));
                w.slow.handle(w.now, Input::FromTwin { interface: id, frame: &frame }, &w.table);
                while let Some(output) = w.slow.poll_output() {
                    assert!(matches!(output, Output::Transmit { interface, .. } if interface == id));
                }
            }
            10..14 => {
                let id = InterfaceId(rng.random_range(1..4));
                let before = w.slow.counters().clone();
                let frame = frame(&mut rng, id);
                w.slow.handle(w.now, Input::SentBack { interface: id, frame: &frame }, &w.table);
                let after = w.slow.counters().clone();
                assert_eq!(after.forwarded, before.forwarded);
                while let Some(output) = w.slow.poll_output() {
                    let Output::Transmit { interface, frame } = output else { panic!("{output:?}") };
                    assert!(interface == id && after.redirects_sent > before.redirects_sent);
                    w.sent.push((interface, frame));
                }
            }
            14 => {
                // A scan of a network, or many stations that ask for the router.
                let (from, forged) = (host(InterfaceId(rng.random_range(1..3)), 2), rng.random());
                for _ in 0..rng.random_range(0..50) {
                    let (own, other) = (v4(&format!("10.0.{}.1", from.interface.0)), rng.random_range(10..250));
                    let stranger = Ipv4Addr::new(10, 0, from.interface.0 as u8, other);
                    match forged {
                        true => w.punt(
                            from.interface,
                            &arp_frame(MacAddr::BROADCAST, &Repr::request(any_mac(&mut rng), stranger, own)),
                        ),
                        false => w.from(from, &udp4(from.v4, Ipv4Addr::new(10, 0, rng.random_range(1..3), other), 1)),
                    }
                }
            }
            _ => {
                let id = InterfaceId(rng.random_range(1..4));
                let frame = frame(&mut rng, id);
                let before = (total(&w.slow), w.slow.queued());
                w.punt(id, &frame);
                let after = (total(&w.slow), w.slow.queued());
                assert!(after.0 > before.0 || after.1 > before.1, "a frame vanished uncounted: {frame:02x?}");
            }
        }
        mirror.own = mirror.in_use(&w.slow).into_iter().filter(|a| before.contains(a)).collect();
        // Nobody else has the dummy address.
        mirror.own.push(v4("192.0.0.8").into());
        std::mem::take(&mut w.events).into_iter().for_each(|event| mirror.event(event));
        std::mem::take(&mut w.sent).iter().for_each(|(id, frame)| mirror.sent(*id, frame));
        w.twin.clear();
        let incomplete = w.slow.neighbors().filter(|n| n.state == NeighborState::Incomplete && !n.gateway).count();
        assert!(w.slow.queued() <= 10 && incomplete <= 2 * 6);
        let (mut known, mut unresolved) = (0, 0);
        for usage in w.slow.neighbor_usage() {
            assert!(usage.known <= 3 && usage.unresolved <= 2 && usage.unconfirmed <= usage.known, "{usage:?}");
            (known, unresolved) = (known + usage.known, unresolved + usage.unresolved);
        }
        let counted = w.slow.neighbors().filter(|n| !n.gateway && n.state != NeighborState::Static);
        let (with, without): (Vec<_>, Vec<_>) = counted.partition(|n| n.mac.is_some());
        assert_eq!((known, unresolved), (with.len(), without.len()));
        let reassembling = w.slow.reassembling();
        assert!(reassembling.datagrams <= 12 && reassembling.bytes <= 12_000);
        assert_eq!(w.slow.neighbors().map(|n| n.queued).sum::<usize>(), w.slow.queued());
        assert!(w.slow.neighbors().count() <= 5 * 6 + needed);
        mirror.agrees(&w.slow);
    }
    // It reached every corner; a fuzzer that stops at the first check finds nothing.
    let never = ["icmp_errors_unroutable", "bad_extension"];
    let must = |name: &str| steps >= STEPS / 2 && !never.contains(&name) && !name.contains("output_full");
    let unreached: Vec<_> = w.slow.counters().iter().filter(|count| must(count.name) && count.value == 0).collect();
    assert!(unreached.is_empty(), "never happened: {unreached:?}");
}

#[test]
fn fuzz() {
    let times = std::env::var("PERIGEE_FUZZ").ok().and_then(|n| n.parse::<u64>().ok()).unwrap_or(1);
    for seed in 0..2 * times {
        println!("seed {seed}");
        run(seed, STEPS / 2);
    }
}
