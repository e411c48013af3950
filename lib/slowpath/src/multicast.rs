// SPDX-License-Identifier: MIT
//! Packets to groups that reach beyond their link (RFC 1112, RFC 1812 5.2.1.3, RFC 4291 2.7).
//!
//! | packet | what becomes of it |
//! | --- | --- |
//! | IGMP, MLD, PIM | Linux gets it: routing daemons live there |
//! | without a route | Linux hears some of each flow: a daemon may make a route, a program may have joined the group |
//! | by the wrong interface | dropped; of routes that Linux has made, Linux is shown one per second (RFC 7761 4.6) |
//! | of a route that Linux follows itself | Linux gets it, and it is not forwarded here |
//! | otherwise | one copy for each interface whose threshold its TTL exceeds, in fragments where IPv4 allows it |
//!
//! None of this is answered by an error, except IPv6 packets that are too big for one of the interfaces (RFC 4443 3.2):
//! Packet Too Big names the smallest MTU. The packets that come here have options, are too big for one of the
//! interfaces, or come before workers know the route.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use perigee_net::{InterfaceId, MacAddr, MulticastOutput, is_forwarded_group};
use perigee_packet::wire::ethernet::{Ethernet, ethertype};
use perigee_packet::wire::{icmp6, ipv6, protocol};
use perigee_packet::{Ipv4, Ipv6};

use crate::fragment::fragment;
use crate::frame::Received;
use crate::icmp6::{Problem, plain_icmp};
use crate::machine::{SlowPath, Turn};
use crate::options;
use crate::rate::TokenBucket;
use crate::{GroupPacket, MulticastDecision, Time};

/// Packets without a route that Linux hears per second and cell, and at once. Flows share cells by hash, so that one
/// flood does not hide all other sources.
const PER_SECOND: u32 = 200;
const AT_ONCE: u32 = 32;
const CELLS: usize = 64;

/// Limits what Linux hears of packets without a route.
#[derive(Debug)]
pub(crate) struct Unrouted(Vec<TokenBucket>);

impl Unrouted {
    pub(crate) fn new() -> Unrouted {
        Unrouted((0..CELLS).map(|_| TokenBucket::new(PER_SECOND, AT_ONCE)).collect())
    }

    fn take(&mut self, now: Time, source: IpAddr, group: IpAddr) -> bool {
        let mut hasher = DefaultHasher::new();
        (source, group).hash(&mut hasher);
        self.0[hasher.finish() as usize % CELLS].take(now)
    }
}

impl SlowPath {
    /// A packet to an IPv4 group that reaches beyond its link. True: it is not forwarded here, and Linux is to hear it.
    pub(crate) fn multicast4(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>) -> bool {
        if is_control4(packet) {
            return true;
        }
        let source = packet.source();
        if source.is_unspecified() {
            self.counters.drops.martian_source += 1;
            return false;
        }
        if source.is_link_local() {
            self.counters.drops.link_local += 1;
            return false;
        }
        let (source, group, interface) = (source.into(), packet.destination().into(), received.interface);
        let packet_of_group = GroupPacket { source, group, interface, bytes: packet.total_len() };
        match self.decide(turn, received, &packet_of_group) {
            Fate::Done => false,
            Fate::Heard => true,
            Fate::Forward(outputs) => {
                self.replicate4(turn, received, packet, &outputs);
                false
            }
        }
    }

    /// A packet to an IPv6 group that reaches beyond its link. True: it is not forwarded here, and Linux is to hear it.
    pub(crate) fn multicast6(&mut self, turn: Turn, received: &Received, packet: &Ipv6<&[u8]>) -> bool {
        if is_control6(packet) {
            return true;
        }
        let source = packet.source();
        if source.is_unspecified() {
            self.counters.drops.martian_source += 1;
            return false;
        }
        if source.is_unicast_link_local() {
            self.counters.drops.link_local += 1; // RFC 4291 2.5.6.
            return false;
        }
        let (source, group, interface) = (source.into(), packet.destination().into(), received.interface);
        let bytes = ipv6::HEADER_LEN + packet.payload_len();
        match self.decide(turn, received, &GroupPacket { source, group, interface, bytes }) {
            Fate::Done => false,
            Fate::Heard => true,
            Fate::Forward(outputs) => {
                self.replicate6(turn, received, packet, &outputs);
                false
            }
        }
    }

    /// Asks the routing table, and does what both families have in common.
    fn decide(&mut self, turn: Turn, received: &Received, packet: &GroupPacket) -> Fate {
        let decision = turn.routes.multicast(turn.now, packet);
        if decision == MulticastDecision::NoRoute && self.leave_to_owner() {
            return Fate::Done; // One limit for all, and Linux is the owner's.
        }
        let drops = &mut self.counters.drops;
        match decision {
            MulticastDecision::NoRoute if self.unrouted.take(turn.now, packet.source, packet.group) => {
                return Fate::Heard;
            }
            MulticastDecision::NoRoute => drops.multicast_unrouted += 1,
            MulticastDecision::Boundary => drops.multicast_boundary += 1,
            MulticastDecision::WrongInterface => drops.multicast_wrong_interface += 1,
            // As it is: Linux forwards fragments as fragments, and drops what came in on a wrong interface.
            MulticastDecision::Linux => self.deliver(received),
            MulticastDecision::Forward(outputs) if outputs.is_empty() => drops.multicast_no_output += 1,
            MulticastDecision::Forward(outputs) => return Fate::Forward(outputs),
        }
        Fate::Done
    }

    /// Those of the interfaces by which a packet leaves with this TTL or hop limit, with their MTUs.
    fn leaves_by(&mut self, outputs: &[MulticastOutput], ttl: u8) -> Vec<(InterfaceId, u16)> {
        let high: Vec<_> = outputs.iter().filter(|output| ttl > output.ttl.max(1)).collect();
        self.counters.drops.ttl_expired += u64::from(high.is_empty());
        let mtu = |output: &&MulticastOutput| {
            let own = self.interfaces.get(output.interface).filter(|own| own.config.up)?;
            Some((output.interface, own.config.mtu))
        };
        let leaves: Vec<_> = high.iter().filter_map(mtu).collect();
        self.counters.drops.interface_down += u64::from(leaves.is_empty() && !high.is_empty());
        leaves
    }

    fn replicate4(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>, outputs: &[MulticastOutput]) {
        match options::scan(packet) {
            Err(_) => return self.counters.drops.bad_option += 1,
            Ok(Some(_)) => return self.counters.drops.source_route += 1,
            Ok(None) => {}
        }
        let group = packet.destination();
        let mut copies = 0;
        for (interface, mtu) in self.leaves_by(outputs, packet.ttl()) {
            debug_assert_ne!(interface, received.interface);
            let mtu = usize::from(mtu);
            if packet.total_len() > mtu && packet.dont_fragment() {
                self.counters.drops.too_big += 1;
                continue;
            }
            let Ok(ready) = self.prepare4(turn, packet, (interface, group.into()), None) else {
                self.counters.drops.bad_option += 1;
                continue;
            };
            let Some(pieces) = fragment(&ready, mtu) else {
                self.counters.drops.cannot_fragment += 1;
                continue;
            };
            self.counters.fragmented += u64::from(pieces.len() > 1);
            pieces.iter().for_each(|piece| self.transmit_ip(interface, MacAddr::from_ipv4_multicast(group), piece));
            copies += 1;
        }
        self.replicated(copies);
    }

    fn replicate6(&mut self, turn: Turn, received: &Received, packet: &Ipv6<&[u8]>, outputs: &[MulticastOutput]) {
        let (group, len) = (packet.destination(), ipv6::HEADER_LEN + packet.payload_len());
        let mut ready = packet.into_inner()[..len].to_vec();
        if let Ok(mut view) = Ipv6::new(&mut ready[..])
            && view.hop_limit() > 0
        {
            view.decrement_hop_limit();
        }
        let (mut copies, mut smallest) = (0, None);
        for (interface, mtu) in self.leaves_by(outputs, packet.hop_limit()) {
            debug_assert_ne!(interface, received.interface);
            if len > usize::from(mtu) {
                smallest = Some(smallest.map_or(mtu, |smallest: u16| smallest.min(mtu)));
                continue;
            }
            self.transmit_ip(interface, MacAddr::from_ipv6_multicast(group), &ready);
            copies += 1;
        }
        self.replicated(copies);
        if let Some(mtu) = smallest {
            self.counters.drops.too_big += 1;
            self.error6(turn, received, packet, Problem::too_big(mtu));
        }
    }

    fn replicated(&mut self, copies: u64) {
        self.counters.forwarded += u64::from(copies > 0);
        self.counters.multicast_copies += copies;
    }
}

/// What becomes of a packet to a group.
enum Fate {
    /// It ended here, or Linux has it.
    Done,
    /// Linux is to hear it, like a packet to the router.
    Heard,
    Forward(Vec<MulticastOutput>),
}

fn is_control4(packet: &Ipv4<&[u8]>) -> bool {
    matches!(packet.protocol(), protocol::IGMP | protocol::PIM)
}

fn is_control6(packet: &Ipv6<&[u8]>) -> bool {
    let listener = |icmp: &[u8]| icmp.first().is_some_and(|kind| icmp6::is_listener_discovery(*kind));
    packet.next_header() == protocol::PIM || plain_icmp(packet).is_some_and(listener)
}

/// Whether a frame that Linux sends must not leave by an interface: the group's boundary or the TTL threshold is there.
/// Linux knows neither, and forwards some packets itself.
pub(crate) fn is_confined(turn: Turn, interface: InterfaceId, frame: &[u8]) -> bool {
    let Ok(view) = Ethernet::new(frame) else { return false };
    if !view.destination().is_multicast() {
        return false;
    }
    let (group, ttl) = match view.ethertype() {
        ethertype::IPV4 => match Ipv4::new(view.payload()) {
            Ok(packet) if !is_control4(&packet) => (IpAddr::V4(packet.destination()), packet.ttl()),
            _ => return false,
        },
        ethertype::IPV6 => match Ipv6::new(view.payload()) {
            Ok(packet) if !is_control6(&packet) => (IpAddr::V6(packet.destination()), packet.hop_limit()),
            _ => return false,
        },
        _ => return false,
    };
    is_forwarded_group(group) && !turn.routes.lets_linux_send(interface, group, ttl)
}
