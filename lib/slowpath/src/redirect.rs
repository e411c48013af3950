// SPDX-License-Identifier: MIT
//! Redirects: a sender on the link is told of a better first hop (RFC 792, RFC 1812 5.2.7.2, RFC 4861 8.2).
//!
//! One is due when a packet leaves by the interface that it came in on, and its sender is on one network with its next
//! hop. The packet is forwarded all the same. Where the slow path forwards it, that is judged here on the way; of what
//! the fast path sends back it gets copies of a few packets ([`Input::SentBack`](crate::Input::SentBack)). Redirects to
//! this router are dropped where they come in: it never applies one.

use std::net::{IpAddr, Ipv6Addr};

use perigee_net::{InterfaceAddress, InterfaceId, MacAddr};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{flow, icmp6, ipv4, ipv6};
use perigee_packet::{Ipv4, Ipv6};

use crate::RouteDecision;
use crate::frame::Received;
use crate::icmp::Problem;
use crate::machine::{SlowPath, Turn};
use crate::nd::{self, ALL_NODES};
use crate::neighbor::Key;

/// Kinds of options of neighbor discovery (RFC 4861 4.6), and their unit of length in bytes.
const TARGET_LINK_LAYER: u8 = 2;
const REDIRECTED_HEADER: u8 = 4;
const UNIT: usize = 8;
/// RFC 4861 4.5: no more than the minimum MTU.
const LONGEST: usize = ipv6::MIN_MTU;

impl SlowPath {
    /// A copy of a frame that the fast path has sent on by the interface it came in on. Nothing is forwarded here.
    pub(crate) fn sent_back(&mut self, turn: Turn, interface: InterfaceId, frame: &[u8]) {
        self.counters.sent_back += 1;
        let Some(own) = self.interfaces.get(interface).filter(|own| own.config.up) else { return };
        let Ok(received) = Received::new(interface, own.config.vlan, frame) else { return };
        match received.ethertype {
            ethertype::IPV4 => {
                let Ok(packet) = ipv4::validate(received.payload()) else { return };
                if let Some(next_hop) = next_hop(turn, packet.destination().into(), &received) {
                    self.redirect4(turn, &received, &packet, next_hop, packet.has_options());
                }
            }
            ethertype::IPV6 => {
                let Ok(packet) = Ipv6::new(received.payload()) else { return };
                if let Some(next_hop) = next_hop(turn, packet.destination().into(), &received) {
                    let mac = self.neighbors.mac(next_hop);
                    self.redirect6(turn, &received, &packet, next_hop, mac);
                }
            }
            _ => {}
        }
    }

    /// Tells the sender of a packet that is forwarded to `next_hop` of it, if that is due (RFC 1812 5.2.7.2).
    pub(crate) fn redirect4(
        &mut self,
        turn: Turn,
        received: &Received,
        packet: &Ipv4<&[u8]>,
        next_hop: Key,
        source_routed: bool,
    ) {
        let (source, (interface, target)) = (packet.source(), next_hop);
        let Some(own) = self.interfaces.get(interface).filter(|own| own.config.policy.redirects) else { return };
        let IpAddr::V4(router) = target else { return };
        if interface != received.interface || source == router || source_routed || packet.ttl() <= 1 {
            return;
        }
        let common = |own: &&InterfaceAddress| own.covers(source.into()) && own.covers(target);
        // A host takes redirects only from the address that it sends to (RFC 1122 3.2.2.2).
        let Some(IpAddr::V4(from)) = own.config.addresses.iter().find(common).map(|own| own.address) else { return };
        if received.is_group() || !self.may_be_answered(received, packet) {
            self.counters.icmp_errors_suppressed += 1;
        } else if self.limits.redirects4.take(turn.now, interface, source.into()).is_err() {
            self.counters.redirects_limited += 1;
        } else {
            self.counters.redirects_sent += 1;
            let redirect = self.build_error4(from, source, packet, Problem::Redirect { router });
            self.send_own(turn.now, (interface, source.into()).into(), redirect);
        }
    }

    /// Tells the sender of a packet that is forwarded to `next_hop` of it, if that is due (RFC 4861 8.2). `mac` is the
    /// next hop's, if it is known.
    pub(crate) fn redirect6(
        &mut self,
        turn: Turn,
        received: &Received,
        packet: &Ipv6<&[u8]>,
        (interface, target): Key,
        mac: Option<MacAddr>,
    ) {
        let (source, destination) = (packet.source(), packet.destination());
        let Some(own) = self.interfaces.get(interface).filter(|own| own.config.policy.redirects) else { return };
        let IpAddr::V6(target) = target else { return };
        if interface != received.interface || source == target || packet.hop_limit() <= 1 {
            return;
        }
        // A router is named by its link-local address, and by no other (RFC 4861 4.5).
        let named = target == destination || target.is_unicast_link_local();
        let station = !source.is_multicast() && !source.is_unspecified() && !source.is_loopback();
        let ours = self.interfaces.is_own(source.into(), interface);
        let neighbor = station && !ours && !source.is_unicast_link_local() && own.on_link(source.into());
        let routed = !destination.is_multicast() && !destination.is_unicast_link_local() && !received.is_group();
        let from = own.source6(ALL_NODES).filter(Ipv6Addr::is_unicast_link_local);
        let Some(from) = from.filter(|_| named && neighbor && routed) else { return };
        if self.limits.redirects6.take(turn.now, interface, source.into()).is_err() {
            self.counters.redirects_limited += 1;
            return;
        }
        self.counters.redirects_sent += 1;
        let body = body6(target, destination, mac, packet);
        let mut redirect = nd::packet(from, source, icmp6::HEADER_LEN + body.len());
        let written = icmp6::emit(&mut redirect[ipv6::HEADER_LEN..], icmp6::REDIRECT, 0, 0, &body, &from, &source);
        debug_assert!(written.is_ok());
        self.send_own(turn.now, (interface, source.into()).into(), redirect);
    }
}

/// Where a packet of the fast path's went.
fn next_hop(turn: Turn, destination: IpAddr, received: &Received) -> Option<Key> {
    let group = match destination {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    };
    let flow = flow::symmetric_hash(received.payload(), 0, received.ethertype);
    match turn.routes.route(Some(destination).filter(|_| !group)?, flow) {
        RouteDecision::Connected(interface) => Some((interface, destination)),
        RouteDecision::Gateway(interface, gateway) => Some((interface, gateway)),
        _ => None,
    }
}

/// Target, destination and options (RFC 4861 4.5).
fn body6(target: Ipv6Addr, destination: Ipv6Addr, mac: Option<MacAddr>, packet: &Ipv6<&[u8]>) -> Vec<u8> {
    let mut body = [target.octets(), destination.octets()].concat();
    if let Some(mac) = mac {
        body.extend_from_slice(&[TARGET_LINK_LAYER, 1]);
        body.extend_from_slice(&mac.octets());
    }
    let whole = &packet.into_inner()[..ipv6::HEADER_LEN + packet.payload_len()];
    let room = LONGEST - ipv6::HEADER_LEN - icmp6::HEADER_LEN - body.len() - UNIT;
    // Options are counted in units.
    let units = whole.len().min(room) / UNIT;
    body.extend_from_slice(&[REDIRECTED_HEADER, (1 + units) as u8, 0, 0, 0, 0, 0, 0]);
    body.extend_from_slice(&whole[..units * UNIT]);
    body
}
