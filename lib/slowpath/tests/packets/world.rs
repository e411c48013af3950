// SPDX-License-Identifier: MIT
//! Two links, hosts that answer for their addresses, a routing table, and a clock that moves when a test says so.
//!
//! ```text
//! hosts 10.0.1.n, 2001:db8:1::n ── 1 [router] 2 ── hosts 10.0.2.n, 2001:db8:2::n
//!                                                  gateway 10.0.2.254 ── 198.51.100.0/24, 2001:db8:100::/48
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perigee_net::{Interface, InterfaceAddress, InterfaceId, MacAddr, Policy};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::icmp6::{self, Advertisement, Message};
use perigee_packet::wire::{arp, icmp4, ipv4, ipv6, protocol};
use perigee_packet::{Arp, Ethernet, Icmp4, Icmp6, Ipv4, Ipv6};
use perigee_slowpath::*;

/// The link of 10.0.1.0/24.
pub const LEFT: InterfaceId = InterfaceId(1);
/// The link of 10.0.2.0/24.
pub const RIGHT: InterfaceId = InterfaceId(2);

pub struct Table(pub Vec<(InterfaceAddress, RouteDecision)>, pub Groups);

/// What becomes of packets to groups: by group, and by the interface that they came in on.
#[derive(Default)]
pub struct Groups {
    pub decisions: BTreeMap<(IpAddr, InterfaceId), MulticastDecision>,
    /// Interfaces by which Linux must not send to groups with this TTL or a lower one.
    pub confined: BTreeMap<InterfaceId, u8>,
    /// The packets that were asked for.
    pub asked: RefCell<Vec<GroupPacket>>,
    /// What Linux asks for besides the plain route, of IPv4 and of IPv6.
    pub treatment: Option<[Treatment; 2]>,
}

impl Routes for Table {
    fn route(&self, destination: IpAddr, _flow: u32) -> RouteDecision {
        let matching = self.0.iter().filter(|(prefix, _)| prefix.covers(destination));
        matching.max_by_key(|(prefix, _)| prefix.prefix_len).map_or(RouteDecision::NoRoute, |(_, decision)| *decision)
    }

    fn treatment(&self, _: InterfaceId, packet: &[u8]) -> Treatment {
        self.1.treatment.map_or(Treatment::Plain, |[v4, v6]| if packet[0] >> 4 == 4 { v4 } else { v6 })
    }

    fn leads_back(&self, source: IpAddr, by: Option<InterfaceId>) -> bool {
        match self.route(source, 0) {
            RouteDecision::Connected(id) | RouteDecision::Gateway(id, _) => by.is_none_or(|by| by == id),
            _ => false,
        }
    }

    fn multicast(&self, _: Time, packet: &GroupPacket) -> MulticastDecision {
        self.1.asked.borrow_mut().push(*packet);
        let decision = self.1.decisions.get(&(packet.group, packet.interface));
        decision.cloned().unwrap_or(MulticastDecision::NoRoute)
    }

    fn lets_linux_send(&self, interface: InterfaceId, _: IpAddr, ttl: u8) -> bool {
        self.1.confined.get(&interface).is_none_or(|confined| ttl > *confined)
    }
}

pub fn prefix(text: &str) -> InterfaceAddress {
    text.parse().unwrap()
}

pub fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

pub fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    pub interface: InterfaceId,
    pub mac: MacAddr,
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

/// Host `n` on the link of `interface`.
pub fn host(interface: InterfaceId, n: u8) -> Host {
    Host {
        interface,
        mac: MacAddr([2, 0xaa, 0, 0, interface.0 as u8, n]),
        v4: Ipv4Addr::new(10, 0, interface.0 as u8, n),
        v6: Ipv6Addr::new(0x2001, 0xdb8, interface.0, 0, 0, 0, 0, u16::from(n)),
    }
}

/// The router's MAC on an interface.
pub fn mac(interface: InterfaceId) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, interface.0 as u8])
}

pub fn interface(id: InterfaceId) -> Interface {
    let number = id.0;
    Interface {
        name: format!("link{number}"),
        port: number,
        vlan: None,
        mac: mac(id),
        mtu: 1500,
        up: true,
        addresses: vec![prefix(&format!("10.0.{number}.1/24")), prefix(&format!("2001:db8:{number}::1/64"))],
        attributes: Default::default(),
        policy: Policy::default(),
    }
}

pub struct World {
    pub slow: SlowPath,
    pub now: Time,
    pub table: Table,
    /// The hosts that answer ARP requests and neighbor solicitations.
    pub hosts: BTreeMap<(InterfaceId, IpAddr), MacAddr>,
    /// Frames sent since the last `take_`.
    pub sent: Vec<(InterfaceId, Vec<u8>)>,
    /// Frames to Linux since the last look.
    pub twin: Vec<(InterfaceId, Vec<u8>)>,
    pub events: Vec<Event>,
}

impl World {
    /// Both interfaces up, addresses known to be unique, hosts 2..=5 and the gateway answering, nothing in the lists.
    pub fn new() -> World {
        World::with(Config::default())
    }

    pub fn with(config: Config) -> World {
        let mut world = World::bare(config);
        for id in [LEFT, RIGHT] {
            world.set(id, interface(id));
        }
        world.advance(1500);
        world.sent.clear();
        world.events.clear();
        world
    }

    /// Routes and hosts, but no interface yet.
    pub fn bare(config: Config) -> World {
        use RouteDecision::*;
        let gateway4 = Gateway(RIGHT, IpAddr::V4(v4("10.0.2.254")));
        let gateway6 = Gateway(RIGHT, IpAddr::V6(v6("fe80::254")));
        let table = Table(
            vec![
                (prefix("10.0.1.0/24"), Connected(LEFT)),
                (prefix("10.0.2.0/24"), Connected(RIGHT)),
                (prefix("198.51.100.0/24"), gateway4),
                (prefix("192.0.2.0/24"), Blackhole),
                (prefix("203.0.113.0/25"), Unreachable),
                (prefix("203.0.113.128/25"), Prohibit),
                (prefix("10.255.255.1/32"), Local),
                (prefix("2001:db8:1::/64"), Connected(LEFT)),
                (prefix("2001:db8:2::/64"), Connected(RIGHT)),
                (prefix("2001:db8:100::/48"), gateway6),
                (prefix("2001:db8:200::/48"), Blackhole),
                (prefix("2001:db8:201::/48"), Unreachable),
                (prefix("2001:db8:202::/48"), Prohibit),
                (prefix("10.77.0.0/16"), ToLinux),
                (prefix("10.78.0.0/16"), Refused),
                (prefix("2001:db8:300::/48"), ToLinux),
                (prefix("2001:db8:301::/48"), Refused),
            ],
            Groups::default(),
        );
        let mut hosts = BTreeMap::new();
        for interface in [LEFT, RIGHT] {
            for n in 2..=5 {
                let host = host(interface, n);
                hosts.insert((interface, IpAddr::V4(host.v4)), host.mac);
                hosts.insert((interface, IpAddr::V6(host.v6)), host.mac);
            }
        }
        hosts.insert((RIGHT, IpAddr::V4(v4("10.0.2.254"))), host(RIGHT, 254).mac);
        hosts.insert((RIGHT, IpAddr::V6(v6("fe80::254"))), host(RIGHT, 254).mac);
        let slow = SlowPath::new(config);
        World { slow, now: Time::from_secs(100), table, hosts, sent: vec![], twin: vec![], events: vec![] }
    }

    pub fn input(&mut self, input: Input<'_>) {
        self.slow.handle(self.now, input, &self.table);
        self.drain();
    }

    pub fn set(&mut self, id: InterfaceId, interface: Interface) {
        self.input(Input::SetInterface { id, interface });
    }

    /// A frame punted on an interface.
    pub fn punt(&mut self, interface: InterfaceId, frame: &[u8]) {
        self.input(Input::Punted { interface, frame });
    }

    /// An IP packet from a host to the router's MAC.
    pub fn from(&mut self, host: Host, packet: &[u8]) {
        self.punt(host.interface, &ethernet(mac(host.interface), host.mac, packet));
    }

    /// Lets the router resolve both addresses of a host.
    pub fn meet(&mut self, host: Host) {
        let (own4, own6) =
            (interface(host.interface).addresses[0].address, interface(host.interface).addresses[1].address);
        let (IpAddr::V4(own4), IpAddr::V6(own6)) = (own4, own6) else { panic!("{own4}, {own6}") };
        self.from(host, &ping4(host.v4, own4, b""));
        self.from(host, &ping6(host.v6, own6, b""));
        (self.sent, self.twin, self.events) = (vec![], vec![], vec![]);
    }

    /// Advances the clock, doing what is due meanwhile.
    pub fn advance(&mut self, ms: u64) {
        let end = self.now.after_millis(ms);
        while let Some(due) = self.slow.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.slow.handle_timeout(self.now, &self.table);
            self.drain();
        }
        self.now = end;
    }

    fn drain(&mut self) {
        let mut answers = VecDeque::new();
        loop {
            while let Some(output) = self.slow.poll_output() {
                match output {
                    Output::Transmit { interface, frame } => {
                        check(&frame);
                        answers.extend(self.answer(interface, &frame).map(|answer| (interface, answer)));
                        self.sent.push((interface, frame));
                    }
                    Output::ToTwin { interface, frame } => self.twin.push((interface, frame)),
                    Output::Event(event) => self.events.push(event),
                    Output::Own { .. } => panic!("only assistants leave packets to others"),
                }
            }
            let Some((interface, frame)) = answers.pop_front() else { return };
            let input = Input::Punted { interface, frame: &frame };
            self.slow.handle(self.now, input, &self.table);
        }
    }

    /// The host's answer to a request.
    fn answer(&self, interface: InterfaceId, frame: &[u8]) -> Option<Vec<u8>> {
        let view = Ethernet::new(frame).unwrap();
        if let Some(request) = arp_of(frame).filter(|arp| arp.operation == arp::REQUEST) {
            let mac = *self.hosts.get(&(interface, IpAddr::V4(request.target_ip)))?;
            return Some(arp_frame(request.sender_mac, &request.reply(mac)));
        }
        let (source, target) = solicitation_of(frame)?;
        let mac = *self.hosts.get(&(interface, IpAddr::V6(target)))?;
        let packet = neighbor_advertisement(target, source, target, Some(mac), (false, true, true));
        (!source.is_unspecified()).then(|| ethernet(view.source(), mac, &packet))
    }

    /// IP packets sent since the last time, without neighbor discovery: interface, destination MAC, packet.
    pub fn take_packets(&mut self) -> Vec<(InterfaceId, MacAddr, Vec<u8>)> {
        let sent = std::mem::take(&mut self.sent);
        let ip = sent.into_iter().filter(|(_, frame)| arp_of(frame).is_none() && !is_nd(frame));
        ip.map(|(id, frame)| (id, Ethernet::new(&frame[..]).unwrap().destination(), frame[14..].to_vec())).collect()
    }

    /// The one IP packet sent since the last time.
    pub fn take_packet(&mut self) -> (InterfaceId, MacAddr, Vec<u8>) {
        let mut packets = self.take_packets();
        assert_eq!(packets.len(), 1, "one packet expected: {packets:?}, counters {:?}", self.counters());
        packets.remove(0)
    }

    /// ARP requests and neighbor solicitations sent since the last time, as targets.
    pub fn take_requests(&mut self) -> Vec<(InterfaceId, IpAddr)> {
        let sent = std::mem::take(&mut self.sent);
        let target = |frame: &[u8]| match arp_of(frame) {
            Some(arp) => (arp.operation == arp::REQUEST).then_some(IpAddr::V4(arp.target_ip)),
            None => solicitation_of(frame).map(|(_, target)| IpAddr::V6(target)),
        };
        sent.iter().filter_map(|(id, frame)| Some((*id, target(frame)?))).collect()
    }

    /// Counters that are not zero.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let counted = self.slow.counters().iter().filter(|count| count.value > 0);
        counted.map(|count| (count.name, count.value)).collect()
    }

    /// How often something happened that is not a drop.
    pub fn count(&self, name: &str) -> u64 {
        self.value(|kind| kind != CounterKind::Drop, name)
    }

    /// How many frames were dropped for a reason.
    pub fn dropped(&self, name: &str) -> u64 {
        self.value(|kind| kind == CounterKind::Drop, name)
    }

    fn value(&self, of: impl Fn(CounterKind) -> bool, name: &str) -> u64 {
        self.slow.counters().iter().find(|count| of(count.kind) && count.name == name).unwrap().value
    }

    pub fn neighbor(&self, interface: InterfaceId, address: impl Into<IpAddr>) -> Option<NeighborInfo> {
        let address = address.into();
        self.slow.neighbors().find(|n| n.interface == interface && n.address == address)
    }

    /// Nothing went out or to Linux.
    pub fn silent(&mut self) {
        assert!(self.sent.is_empty() && self.twin.is_empty(), "sent {:?}, twin {:?}", self.sent, self.twin);
    }
}

/// A frame around an IP packet.
pub fn ethernet(to: MacAddr, from: MacAddr, packet: &[u8]) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 6 { ethertype::IPV6 } else { ethertype::IPV4 };
    framed(to, from, kind, packet)
}

pub fn framed(to: MacAddr, from: MacAddr, kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to.octets()[..], &from.octets(), &kind.to_be_bytes(), payload].concat()
}

pub fn arp_frame(to: MacAddr, arp: &arp::Repr) -> Vec<u8> {
    let mut payload = [0; arp::LEN];
    arp.emit(&mut payload).unwrap();
    framed(to, arp.sender_mac, ethertype::ARP, &payload)
}

pub fn arp_of(frame: &[u8]) -> Option<arp::Repr> {
    let view = Ethernet::new(frame).ok()?;
    let arp = || Arp::new(view.payload()).ok().map(|arp| arp.repr());
    (view.ethertype() == ethertype::ARP).then(arp).flatten()
}

fn is_nd(frame: &[u8]) -> bool {
    frame.len() > 54
        && frame[12..14] == [0x86, 0xdd]
        && frame[20] == protocol::ICMPV6
        && (135..=136).contains(&frame[54])
}

/// Source and target of a neighbor solicitation.
pub fn solicitation_of(frame: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let packet = Ipv6::new(is_nd(frame).then(|| &frame[14..])?).ok()?;
    match Icmp6::new(packet.payload()).ok()?.message() {
        Message::NeighborSolicitation { target, .. } => Some((packet.source(), target)),
        _ => None,
    }
}

/// Source, target, solicited and override of a neighbor advertisement.
pub fn advertisement_of(frame: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr, bool, bool)> {
    let packet = Ipv6::new(is_nd(frame).then(|| &frame[14..])?).ok()?;
    match Icmp6::new(packet.payload()).ok()?.message() {
        Message::NeighborAdvertisement { target, solicited, r#override, .. } => {
            Some((packet.source(), target, solicited, r#override))
        }
        _ => None,
    }
}

pub fn ip4(repr: ipv4::Repr, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN + options.len()];
    ipv4::Repr { payload_len: payload.len(), ..repr }.emit_with_options(&mut packet, options).unwrap();
    [packet, payload.to_vec()].concat()
}

/// A UDP-like packet: its payload is not looked at here.
pub fn udp4(from: Ipv4Addr, to: Ipv4Addr, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
    ip4(ipv4::Repr { identification: 7, ..ipv4::Repr::new(from, to, protocol::UDP, 0) }, &[], &payload)
}

/// Changes an IPv4 header and repairs its checksum.
pub fn edit4(mut packet: Vec<u8>, edit: impl FnOnce(&mut Ipv4<&mut [u8]>)) -> Vec<u8> {
    let mut view = Ipv4::new(&mut packet[..]).unwrap();
    edit(&mut view);
    view.fill_checksum();
    packet
}

pub fn ping4(from: Ipv4Addr, to: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let message = icmp4::Message::EchoRequest { identifier: 9, sequence: 1, data };
    let mut payload = vec![0; message.len()];
    message.emit(&mut payload).unwrap();
    ip4(ipv4::Repr::new(from, to, protocol::ICMP, 0), &[], &payload)
}

pub fn ip6(repr: ipv6::Repr, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN];
    ipv6::Repr { payload_len: payload.len(), ..repr }.emit(&mut packet).unwrap();
    [packet, payload.to_vec()].concat()
}

pub fn udp6(from: Ipv6Addr, to: Ipv6Addr, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
    ip6(ipv6::Repr::new(from, to, protocol::UDP, 0), &payload)
}

pub fn icmp6_packet(from: Ipv6Addr, to: Ipv6Addr, hop_limit: u8, kind: u8, rest: u32, body: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; 8 + body.len()];
    icmp6::emit(&mut payload, kind, 0, rest, body, &from, &to).unwrap();
    ip6(ipv6::Repr { hop_limit, ..ipv6::Repr::new(from, to, protocol::ICMPV6, 0) }, &payload)
}

pub fn ping6(from: Ipv6Addr, to: Ipv6Addr, data: &[u8]) -> Vec<u8> {
    icmp6_packet(from, to, 64, icmp6::ECHO_REQUEST, 0x0009_0001, data)
}

pub fn neighbor_solicitation(from: Ipv6Addr, to: Ipv6Addr, target: Ipv6Addr, mac: Option<MacAddr>) -> Vec<u8> {
    let mut payload = vec![0; if mac.is_some() { 32 } else { 24 }];
    icmp6::emit_solicitation(&mut payload, target, mac, &from, &to).unwrap();
    ip6(ipv6::Repr { hop_limit: 255, ..ipv6::Repr::new(from, to, protocol::ICMPV6, 0) }, &payload)
}

/// Flags: router, solicited, override.
pub fn neighbor_advertisement(
    from: Ipv6Addr,
    to: Ipv6Addr,
    target: Ipv6Addr,
    mac: Option<MacAddr>,
    flags: (bool, bool, bool),
) -> Vec<u8> {
    let (router, solicited, r#override) = flags;
    let mut payload = vec![0; if mac.is_some() { 32 } else { 24 }];
    let message = Advertisement { router, solicited, r#override, target, link_layer: mac };
    message.emit(&mut payload, &from, &to).unwrap();
    ip6(ipv6::Repr { hop_limit: 255, ..ipv6::Repr::new(from, to, protocol::ICMPV6, 0) }, &payload)
}

/// The fragments of an IPv4 packet without options, each with at most `room` bytes of its payload.
pub fn cut4(packet: &[u8], room: usize) -> Vec<Vec<u8>> {
    let payload = &packet[20..];
    let cut = |(n, data): (usize, &[u8])| {
        let piece = [&packet[..20], data].concat();
        edit4(piece_of(piece), |view| view.set_fragment(false, n * room + data.len() < payload.len(), n * room))
    };
    payload.chunks(room).enumerate().map(cut).collect()
}

fn piece_of(mut piece: Vec<u8>) -> Vec<u8> {
    let len = piece.len() as u16;
    piece[2..4].copy_from_slice(&len.to_be_bytes());
    piece
}

/// A fragment of an IPv6 packet: what its fragment header says, then `data`.
pub fn piece6(from: Ipv6Addr, to: Ipv6Addr, next: u8, (offset, more): (usize, bool), id: u32, data: &[u8]) -> Vec<u8> {
    let field = (offset as u16 | u16::from(more)).to_be_bytes();
    let payload = [&[next, 0], &field[..], &id.to_be_bytes(), data].concat();
    ip6(ipv6::Repr::new(from, to, protocol::FRAGMENT, 0), &payload)
}

/// The fragments of an IPv6 packet without extension headers, each with at most `room` bytes of its payload.
pub fn cut6(packet: &[u8], room: usize, id: u32) -> Vec<Vec<u8>> {
    let view = Ipv6::new(packet).unwrap();
    let all = view.payload().len();
    let chunks = view.payload().chunks(room).enumerate();
    let place = |n: usize, data: &[u8]| (n * room, n * room + data.len() < all);
    chunks.map(|(n, d)| piece6(view.source(), view.destination(), view.next_header(), place(n, d), id, d)).collect()
}

/// The ICMP message of a packet, with everything around it checked: type, code, bytes 4..8, body.
pub fn icmp4_of(packet: &[u8]) -> (u8, u8, u32, &[u8]) {
    let header = ipv4::validate(packet).unwrap();
    assert_eq!(header.protocol(), protocol::ICMP);
    let payload = &packet[header.header_len()..header.total_len()];
    let icmp = Icmp4::new(payload).unwrap();
    assert!(icmp.verify_checksum());
    (icmp.kind(), icmp.code(), u32::from_be_bytes(payload[4..8].try_into().unwrap()), &payload[8..])
}

/// As [`icmp4_of`].
pub fn icmp6_of(packet: &[u8]) -> (u8, u8, u32, &[u8]) {
    let header = Ipv6::new(packet).unwrap();
    assert_eq!(header.next_header(), protocol::ICMPV6);
    let payload = &packet[40..40 + header.payload_len()];
    let icmp = Icmp6::new(payload).unwrap();
    assert!(icmp.verify_checksum(&header.source(), &header.destination()));
    (icmp.kind(), icmp.code(), u32::from_be_bytes(payload[4..8].try_into().unwrap()), &payload[8..])
}

/// Every frame sent must be this good: unicast source, known type, whole headers, right checksums, nothing behind.
pub fn check(frame: &[u8]) {
    let view = Ethernet::new(frame).unwrap();
    assert!(view.source().is_unicast());
    assert!(!view.destination().is_zero());
    match view.ethertype() {
        ethertype::ARP => assert_eq!(Arp::new(view.payload()).map(|_| view.payload().len()), Ok(arp::LEN)),
        ethertype::IPV4 => {
            let packet = ipv4::validate(view.payload()).unwrap();
            assert_eq!(packet.total_len(), view.payload().len());
            assert!(packet.ttl() > 0);
        }
        ethertype::IPV6 => {
            let packet = Ipv6::new(view.payload()).unwrap();
            assert_eq!(packet.payload_len() + 40, view.payload().len());
            assert!(packet.hop_limit() > 0);
        }
        other => panic!("ethertype {other:#x} sent"),
    }
}
