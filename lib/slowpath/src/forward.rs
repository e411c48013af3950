// SPDX-License-Identifier: MIT
//! IPv4: where a packet goes, and how it gets there (RFC 1812 5).

use std::net::{IpAddr, Ipv4Addr};

use perigee_net::{InterfaceId, MacAddr, is_forwarded_group, is_host};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::icmp4::{self, unreachable};
use perigee_packet::wire::{flow, ipv4, protocol};
use perigee_packet::{Ipv4, Malformed};

use crate::RouteDecision;
use crate::fragment::fragment;
use crate::frame::Received;
use crate::icmp::Problem;
use crate::machine::{SlowPath, Turn};
use crate::neighbor::{Answer, Key, NextHop, Origin, Pending};
use crate::options::{self, SourceRoute};

/// Where the header has the packet's total length.
const TOTAL_LENGTH: u8 = 2;

impl SlowPath {
    pub(crate) fn ipv4(&mut self, turn: Turn, received: &Received) {
        let bytes = received.payload();
        let (packet, truncated) = match (ipv4::validate(bytes), Ipv4::new_truncated(bytes)) {
            (Ok(packet), _) => (packet, false),
            (Err(Malformed::TotalLength), Ok(packet)) => (packet, true),
            _ => {
                self.counters.drops.bad_header += 1;
                return;
            }
        };
        let id = received.interface;
        let destination = packet.destination();
        let broadcast = destination.is_broadcast() || self.interfaces.is_broadcast_of(destination, id);
        let group = broadcast || destination.is_multicast();
        if self.refuse_source4(turn, received, &packet, group) {
            // It was counted.
        } else if truncated {
            self.counters.drops.truncated += 1;
            self.error4(turn, received, &packet, Problem::Parameter { pointer: TOTAL_LENGTH });
        } else if group {
            self.group4(turn, received, &packet, broadcast);
        } else if received.is_group() {
            self.counters.drops.link_broadcast += 1; // RFC 1812 5.3.4, RFC 1122 3.3.6.
        } else if self.interfaces.is_broadcast(destination) {
            self.directed_broadcast(turn, received, &packet);
        } else if packet.has_options() {
            self.with_options(turn, received, &packet);
        } else {
            self.unicast4(turn, received, &packet, None);
        }
    }

    /// Counts a packet whose source no packet that comes in may have (RFC 1812 5.3.7).
    fn refuse_source4(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>, to_group: bool) -> bool {
        let source = packet.source();
        // A host that does not know its address yet may speak to a group (RFC 1122 3.2.1.3): DHCP, IGMP.
        if source.is_unspecified() && to_group {
            return false;
        }
        let counter = if !is_host(source) || self.interfaces.is_broadcast(source) {
            &mut self.counters.drops.martian_source
        } else if self.interfaces.is_own(IpAddr::V4(source), received.interface) {
            &mut self.counters.drops.own_source
        } else if !self.leads_back(turn, received.interface, source.into()) {
            &mut self.counters.drops.reverse_path
        } else {
            return false;
        };
        *counter += 1;
        true
    }

    /// Broadcasts end here, and so do groups of this link: Linux hears them (RFC 1812 5.3.5).
    fn group4(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>, broadcast: bool) {
        let routed = !broadcast && is_forwarded_group(packet.destination().into());
        if !routed || self.multicast4(turn, received, packet) {
            self.hear4(turn, received, packet);
        }
    }

    /// A packet to all stations or to a group, for Linux.
    fn hear4(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>) {
        let echo = packet.protocol() == protocol::ICMP && packet.payload().first() == Some(&icmp4::ECHO_REQUEST);
        if packet.is_fragment() {
            if let Some(whole) = self.fragment4(turn, received, packet)
                && let Ok(packet) = Ipv4::new(whole.payload())
            {
                self.hear4(turn, &whole, &packet);
            }
        } else if echo {
            self.counters.drops.echo_group += 1;
        } else {
            self.deliver(received);
        }
    }

    /// To the broadcast address of a network on another interface (RFC 1812 5.3.5.2). Where that interface allows it
    /// (RFC 2644), all stations there hear it, and so does Linux (RFC 1812 5.2.3).
    fn directed_broadcast(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>) {
        let destination = packet.destination();
        let target = self.interfaces.link_of_broadcast(destination).filter(|id| self.policy(*id).directed_broadcast);
        let Some(target) = target else {
            self.counters.drops.directed_broadcast += 1;
            return;
        };
        if self.leave_to_owner() {
            return; // It goes to Linux as well.
        }
        match options::scan(packet) {
            Err(_) => self.counters.drops.bad_option += 1,
            Ok(Some(_)) => self.counters.drops.source_route += 1,
            Ok(None) if packet.source().is_link_local() => self.counters.drops.link_local += 1,
            Ok(None) if packet.ttl() <= 1 => self.counters.drops.ttl_expired += 1,
            Ok(None) => {
                self.group4(turn, received, packet, true);
                let next_hop = (target, IpAddr::V4(destination));
                if let Some(mtu) = self.mtu_for4(turn, received, packet, (target, u16::MAX)) {
                    self.transmit4(turn, received, packet, (next_hop, MacAddr::BROADCAST, mtu), None);
                }
            }
        }
    }

    fn with_options(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>) {
        match options::scan(packet) {
            Err(pointer) => {
                self.counters.drops.bad_option += 1;
                self.error4(turn, received, packet, Problem::Parameter { pointer });
            }
            Ok(Some(_)) if !self.policy(received.interface).source_routes => self.counters.drops.source_route += 1,
            Ok(route) => self.unicast4(turn, received, packet, route),
        }
    }

    fn unicast4(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>, route: Option<SourceRoute>) {
        let destination = packet.destination();
        if !self.interfaces.is_own(IpAddr::V4(destination), received.interface) {
            return self.forward4(turn, received, packet, destination, None);
        }
        // The packet's destination, or an intermediate one of its source route.
        match route.and_then(|route| Some((route, route.next?))) {
            Some((route, next)) => self.forward4(turn, received, packet, next, Some(route)),
            None => self.local4(turn, received, packet),
        }
    }

    /// Forwards a packet towards `destination`, which is its own or the next one of its source route.
    fn forward4(
        &mut self,
        turn: Turn,
        received: &Received,
        packet: &Ipv4<&[u8]>,
        destination: Ipv4Addr,
        route: Option<SourceRoute>,
    ) {
        if !is_host(destination) || self.interfaces.is_broadcast(destination) {
            self.counters.drops.martian_destination += 1;
            return;
        }
        let flow = flow::symmetric_hash(packet.into_inner(), 0, ethertype::IPV4);
        let decision = turn.routes.route(IpAddr::V4(destination), flow);
        if decision == RouteDecision::Local && route.is_none() {
            return self.local4(turn, received, packet); // Whatever the TTL (RFC 1812 4.2.2.9).
        }
        if packet.source().is_link_local() || destination.is_link_local() {
            self.counters.drops.link_local += 1;
            return;
        }
        let Some((decision, limit)) = self.treat(turn, received, decision) else { return };
        if decision == RouteDecision::ToLinux && route.is_none() {
            // As it came: the TTL, fragments and errors are Linux's.
            return self.deliver_from(turn, received, packet.source().into());
        }
        if packet.ttl() <= 1 {
            self.counters.drops.ttl_expired += 1;
            return self.error4(turn, received, packet, Problem::TimeExceeded);
        }
        let (counter, code) = match decision {
            RouteDecision::Connected(interface) => {
                return self.send4(turn, received, packet, (interface, IpAddr::V4(destination)).into(), (route, limit));
            }
            RouteDecision::Gateway(interface, gateway) if !route.is_some_and(|route| route.strict) => {
                return self.send4(turn, received, packet, (interface, gateway).into(), (route, limit));
            }
            RouteDecision::Station(interface, mac) => {
                let next_hop = NextHop { key: (interface, IpAddr::V4(destination)), mac: Some(mac) };
                return self.send4(turn, received, packet, next_hop, (route, limit));
            }
            RouteDecision::Unresolved(interface) => {
                return self.send4(turn, received, packet, (interface, IpAddr::V4(destination)).into(), (route, limit));
            }
            RouteDecision::Gateway(..) | RouteDecision::Local | RouteDecision::ToLinux => {
                (&mut self.counters.drops.source_route_failed, unreachable::SOURCE_ROUTE_FAILED)
            }
            RouteDecision::NoRoute => (&mut self.counters.drops.no_route, unreachable::NET),
            RouteDecision::Unreachable => (&mut self.counters.drops.unreachable, unreachable::HOST),
            RouteDecision::Refused => (&mut self.counters.drops.route_refused, unreachable::HOST),
            RouteDecision::Prohibit => (&mut self.counters.drops.prohibited, unreachable::ADMINISTRATIVELY_PROHIBITED),
            RouteDecision::Blackhole => {
                self.counters.drops.blackhole += 1;
                return;
            }
        };
        *counter += 1;
        self.error4(turn, received, packet, Problem::Unreachable(code));
    }

    /// The last steps: size, next hop's MAC, and changes to the packet.
    fn send4(
        &mut self,
        turn: Turn,
        received: &Received,
        packet: &Ipv4<&[u8]>,
        next_hop: NextHop,
        (route, limit): (Option<SourceRoute>, u16),
    ) {
        let NextHop { key: next_hop, mac: station } = next_hop;
        // Whether it may be sent there or a redirect is due depends on the next hop's address.
        if self.assistant && (station.is_none() || next_hop.0 == received.interface || route.is_some()) {
            self.leave_to_owner();
            return;
        }
        let Some(mtu) = self.mtu_for4(turn, received, packet, (next_hop.0, limit)) else { return };
        let origin = Origin { ingress: Some(received.interface), source: IpAddr::V4(packet.source()) };
        match self.look_up(turn.now, NextHop { key: next_hop, mac: station }, origin) {
            Answer::AskOwner => {}
            Answer::Mac(mac) => {
                self.redirect4(turn, received, packet, next_hop, route.is_some());
                self.transmit4(turn, received, packet, (next_hop, mac, mtu), route);
            }
            Answer::Wait => {
                let (interface, frame) = (received.interface, received.frame.to_vec());
                let waiting = Pending::Received { interface, frame, for_linux: false };
                self.neighbors.enqueue(next_hop, waiting, &mut self.counters);
            }
            Answer::Failed => {
                self.counters.drops.neighbor_failed += 1;
                self.error4(turn, received, packet, Problem::Unreachable(unreachable::HOST));
            }
            Answer::Full => self.counters.drops.neighbor_table_full += 1,
            Answer::Limited => self.counters.drops.neighbor_limited += 1,
        }
    }

    /// The MTU of the interface that the packet leaves by, or the route's `limit` if that is smaller; `None`: it ended
    /// here, as the interface is down or the packet too big.
    fn mtu_for4(
        &mut self,
        turn: Turn,
        received: &Received,
        packet: &Ipv4<&[u8]>,
        (leaves_by, limit): (InterfaceId, u16),
    ) -> Option<u16> {
        let Some(mtu) = self.interfaces.get(leaves_by).filter(|own| own.config.up).map(|own| own.config.mtu) else {
            self.counters.drops.interface_down += 1;
            self.error4(turn, received, packet, Problem::Unreachable(unreachable::HOST));
            return None;
        };
        let mtu = mtu.min(limit);
        if packet.total_len() > usize::from(mtu) && packet.dont_fragment() {
            self.counters.drops.too_big += 1;
            self.error4(turn, received, packet, Problem::FragmentationNeeded { mtu });
            return None;
        }
        Some(mtu)
    }

    /// Sends a packet to a next hop whose MAC is known, in pieces no larger than the MTU.
    fn transmit4(
        &mut self,
        turn: Turn,
        received: &Received,
        packet: &Ipv4<&[u8]>,
        (next_hop, mac, mtu): (Key, MacAddr, u16),
        route: Option<SourceRoute>,
    ) {
        match self.prepare4(turn, packet, next_hop, route) {
            Err(pointer) => {
                self.counters.drops.bad_option += 1;
                self.error4(turn, received, packet, Problem::Parameter { pointer });
            }
            Ok(ready) => match fragment(&ready, usize::from(mtu)) {
                Some(pieces) => {
                    self.counters.forwarded += 1;
                    self.counters.fragmented += u64::from(pieces.len() > 1);
                    pieces.iter().for_each(|piece| self.transmit_ip(next_hop.0, mac, piece));
                }
                None => self.counters.drops.cannot_fragment += 1,
            },
        }
    }

    /// The packet with its TTL decremented and its options filled in. `Err`: the wrong byte of an option.
    pub(crate) fn prepare4(
        &self,
        turn: Turn,
        packet: &Ipv4<&[u8]>,
        next_hop: Key,
        route: Option<SourceRoute>,
    ) -> Result<Vec<u8>, u8> {
        let mut ready = packet.into_inner()[..packet.total_len()].to_vec();
        let Ok(mut view) = Ipv4::new(&mut ready[..]) else { return Ok(ready) };
        view.decrement_ttl();
        // The outgoing interface's address (RFC 1812 5.3.13.5, 5.3.13.6).
        if !packet.has_options() {
            return Ok(ready);
        }
        if let Some(ours) = self.speak_from4(next_hop, packet.destination()) {
            let is_own = |a| self.interfaces.is_own(IpAddr::V4(a), next_hop.0);
            options::record(view.options_mut(), ours, is_own, turn.now)?;
            if let Some((route, next)) = route.and_then(|route| Some((route, route.next?))) {
                options::advance(view.options_mut(), &route, ours);
                view.set_destination(next);
            }
            view.fill_checksum();
        }
        Ok(ready)
    }
}
