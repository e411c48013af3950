// SPDX-License-Identifier: MIT
//! ICMPv6: what is addressed to this router or a group of it, and the errors it sends (RFC 4443).

use std::net::{IpAddr, Ipv6Addr};

use perigee_packet::wire::icmp6::{self, parameter_problem};
use perigee_packet::wire::{ipv6, protocol};
use perigee_packet::{Icmp6, Ipv6};

use crate::frame::Received;
use crate::local::has_fragment_header;
use crate::machine::{SlowPath, Turn};
use crate::nd::is_solicited_node;

/// RFC 4443 2.4 (c): as much as the minimum MTU holds.
const MAX_ERROR: usize = ipv6::MIN_MTU;
/// The precedence that IPv4's errors have: class selector 6.
const TRAFFIC_CLASS: u8 = 0xc0;

/// An error message without what it quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    kind: u8,
    code: u8,
    /// MTU or pointer.
    rest: u32,
    /// Sent about packets to groups too (RFC 4443 2.4 (e.3)).
    to_groups: bool,
    /// Sent although the packet's type, which may be that of an error, cannot be seen.
    blind: bool,
}

impl Problem {
    pub(crate) fn unreachable(code: u8) -> Self {
        Problem { kind: icmp6::UNREACHABLE, code, rest: 0, to_groups: false, blind: false }
    }

    pub(crate) fn too_big(mtu: u16) -> Self {
        Problem { kind: icmp6::PACKET_TOO_BIG, code: 0, rest: u32::from(mtu), to_groups: true, blind: false }
    }

    pub(crate) fn hop_limit() -> Self {
        Problem {
            kind: icmp6::TIME_EXCEEDED,
            code: icmp6::time_exceeded::HOP_LIMIT,
            rest: 0,
            to_groups: false,
            blind: false,
        }
    }

    /// Not all fragments came in time.
    pub(crate) fn reassembly_time() -> Self {
        Problem { code: icmp6::time_exceeded::REASSEMBLY, ..Problem::hop_limit() }
    }

    /// A first fragment without all headers (RFC 7112 5).
    pub(crate) fn headers_cut() -> Self {
        Problem { code: parameter_problem::HEADERS_CUT, ..Problem::fragment(0) }
    }

    /// A fragment that RFC 8200 4.5 wants reported, though none but the first has the upper layer's header. No honest
    /// error comes in fragments, so that this cannot go on and on.
    pub(crate) fn fragment(pointer: usize) -> Self {
        Problem { blind: true, ..Problem::header(pointer) }
    }

    pub(crate) fn header(pointer: usize) -> Self {
        Problem {
            kind: icmp6::PARAMETER_PROBLEM,
            code: parameter_problem::HEADER,
            rest: pointer as u32,
            to_groups: false,
            blind: false,
        }
    }

    pub(crate) fn option(pointer: usize, to_groups: bool) -> Self {
        Problem { code: parameter_problem::OPTION, to_groups, ..Problem::header(pointer) }
    }
}

impl SlowPath {
    /// A packet to an address of this router (in use or not), or to a group of this link.
    pub(crate) fn local6(&mut self, turn: Turn, received: &Received, packet: &Ipv6<&[u8]>) {
        let destination = packet.destination();
        if let Some(icmp) = plain_icmp(packet) {
            let Ok(icmp) = Icmp6::new(icmp) else {
                self.counters.drops.bad_icmp += 1;
                return;
            };
            if matches!(icmp.kind(), icmp6::NEIGHBOR_SOLICITATION | icmp6::NEIGHBOR_ADVERTISEMENT) {
                return self.neighbor_discovery(turn, received, packet, &icmp);
            }
            if !self.is_in_use(destination, received) {
                self.counters.drops.tentative += 1;
                return;
            }
            match icmp.kind() {
                icmp6::ECHO_REQUEST => return self.echo6(turn, received, packet, &icmp),
                icmp6::REDIRECT => {
                    self.counters.drops.redirect += 1;
                    return;
                }
                _ => {}
            }
        } else if !self.is_in_use(destination, received) {
            self.counters.drops.tentative += 1;
            return;
        } else if let Some(pointer) = routing_type_0(packet) {
            self.counters.drops.routing_header += 1;
            return self.error6(turn, received, packet, Problem::header(pointer));
        } else if has_fragment_header(packet) {
            // The whole has none, else it was dropped: this ends.
            if let Some(whole) = self.fragment6(turn, received, packet)
                && let Ok(packet) = Ipv6::new(whole.payload())
            {
                self.local6(turn, &whole, &packet);
            }
            return;
        }
        self.deliver6(turn, received, packet);
    }

    /// Not tentative, not a duplicate. Groups, and addresses only Linux knows, always are.
    fn is_in_use(&self, destination: Ipv6Addr, received: &Received) -> bool {
        let (address, id) = (IpAddr::V6(destination), received.interface);
        match self.interfaces.owner(address, id) {
            Some(own) => own.is_valid(address),
            None => self.interfaces.anycast(destination, id).unwrap_or(true),
        }
    }

    fn echo6(&mut self, turn: Turn, received: &Received, request: &Ipv6<&[u8]>, icmp: &Icmp6<&[u8]>) {
        let (to, asked) = (request.source(), request.destination());
        if !icmp.verify_checksum(&to, &asked) {
            self.counters.drops.bad_icmp += 1;
            return;
        }
        if to.is_unspecified() {
            self.counters.drops.martian_source += 1;
            return;
        }
        let next_hop = self.way_back(turn, IpAddr::V6(to), received.interface);
        // RFC 4443 4.2: from the address asked; where that is a group or an anycast address, from one of the interface.
        let unicast = || self.interfaces.is_own(IpAddr::V6(asked), received.interface);
        let from =
            if !asked.is_multicast() && !unicast() && self.interfaces.anycast(asked, received.interface).is_some() {
                next_hop.and_then(|next_hop| self.interfaces.source6(next_hop.key.0, to))
            } else if !asked.is_multicast() {
                Some(asked)
            } else if self.is_member(asked, received) {
                self.interfaces.source6(received.interface, to)
            } else {
                self.counters.drops.echo_group += 1;
                return;
            };
        let (Some(next_hop), Some(from)) = (next_hop, from) else {
            self.counters.drops.own_unroutable += 1;
            return;
        };
        let data = icmp.into_inner();
        let mut reply = vec![0; ipv6::HEADER_LEN];
        let repr = ipv6::Repr {
            traffic_class: request.traffic_class(),
            ..ipv6::Repr::new(from, to, protocol::ICMPV6, data.len())
        };
        let written = repr.emit(&mut reply);
        debug_assert!(written.is_ok());
        reply.extend_from_slice(data);
        if let Ok(mut view) = Icmp6::new(&mut reply[ipv6::HEADER_LEN..]) {
            view.set_kind(icmp6::ECHO_REPLY);
            view.fill_checksum(&from, &to);
        }
        self.counters.echo_replied += 1;
        self.send_own(turn.now, next_hop, reply);
    }

    /// All nodes, all routers, and the solicited-node groups of the interface's addresses (RFC 4291 2.8).
    fn is_member(&self, group: Ipv6Addr, received: &Received) -> bool {
        let all = matches!(group.segments(), [0xff02, 0, 0, 0, 0, 0, 0, 1 | 2]);
        all || is_solicited_node(group) && self.interfaces.has_solicited_node(received.interface, group)
    }

    /// Reports to the sender why its packet was not forwarded, unless a rule forbids it.
    pub(crate) fn error6(&mut self, turn: Turn, received: &Received, packet: &Ipv6<&[u8]>, problem: Problem) {
        if !may_be_answered(received, packet, problem) {
            self.counters.icmp_errors_suppressed += 1;
            return;
        }
        let (to, asked) = (packet.source(), packet.destination());
        let next_hop = self.way_back(turn, IpAddr::V6(to), received.interface);
        // RFC 4443 2.2: from the address the packet was sent to, or else of the interface the error leaves by.
        let from = match self.interfaces.is_own_in_use(IpAddr::V6(asked), received.interface) {
            true => Some(asked),
            false => next_hop.and_then(|next_hop| self.interfaces.source6(next_hop.key.0, to)),
        };
        let (Some(next_hop), Some(from)) = (next_hop, from) else {
            self.counters.icmp_errors_unroutable += 1;
            return;
        };
        let within = self.limits.errors6.take(turn.now, received.interface, IpAddr::V6(to));
        if self.counters.limited(within) {
            return;
        }
        self.counters.icmp_errors_sent += 1;
        self.send_own(turn.now, next_hop, build_error(from, to, packet, problem));
    }
}

fn build_error(from: Ipv6Addr, to: Ipv6Addr, about: &Ipv6<&[u8]>, problem: Problem) -> Vec<u8> {
    let overhead = ipv6::HEADER_LEN + icmp6::HEADER_LEN;
    let whole = about.into_inner();
    // Less than its payload length may have been received.
    let quoted = &whole[..(ipv6::HEADER_LEN + about.payload_len()).min(whole.len()).min(MAX_ERROR - overhead)];
    let mut error = vec![0; overhead + quoted.len()];
    let len = icmp6::HEADER_LEN + quoted.len();
    let repr = ipv6::Repr { traffic_class: TRAFFIC_CLASS, ..ipv6::Repr::new(from, to, protocol::ICMPV6, len) };
    let header = repr.emit(&mut error);
    let Problem { kind, code, rest, .. } = problem;
    let body = icmp6::emit(&mut error[ipv6::HEADER_LEN..], kind, code, rest, quoted, &from, &to);
    debug_assert!(header.is_ok() && body.is_ok());
    error
}

/// The rules of RFC 4443 2.4 (e).
fn may_be_answered(received: &Received, packet: &Ipv6<&[u8]>, problem: Problem) -> bool {
    let source = packet.source();
    let group = received.is_group() || packet.destination().is_multicast();
    let nobody = source.is_unspecified() || source.is_multicast() || source.is_loopback();
    !nobody && (problem.to_groups || !group) && !is_about_error(packet, !problem.blind)
}

/// Is it an ICMPv6 error or a redirect? `unseen`: the answer where it may be one, but the type cannot be seen.
fn is_about_error(packet: &Ipv6<&[u8]>, unseen: bool) -> bool {
    match packet.upper_layer() {
        Ok(upper) if upper.protocol != protocol::ICMPV6 => false,
        Ok(upper) if !upper.has_header() => unseen,
        Ok(upper) => upper.payload.first().map_or(unseen, |&kind| icmp6::is_error(kind) || kind == icmp6::REDIRECT),
        Err(_) => unseen,
    }
}

/// The ICMPv6 message of a packet that has at most hop-by-hop options before it. Linux takes the others: it knows the
/// options of destinations.
pub(crate) fn plain_icmp<'a>(packet: &Ipv6<&'a [u8]>) -> Option<&'a [u8]> {
    let whole = packet.into_inner();
    let payload = &whole[ipv6::HEADER_LEN..ipv6::HEADER_LEN + packet.payload_len()];
    match packet.next_header() {
        protocol::ICMPV6 => Some(payload),
        protocol::HOP_BY_HOP => {
            let first = packet.extension_headers().next()?.ok()?;
            (first.next_header == protocol::ICMPV6).then(|| &payload[first.bytes.len()..])
        }
        _ => None,
    }
}

/// Where the type of a routing header of type 0 with segments left is (RFC 5095 3).
fn routing_type_0(packet: &Ipv6<&[u8]>) -> Option<usize> {
    packet.extension_headers().map_while(Result::ok).find_map(|header| match header.routing() {
        Some((0, left)) if left > 0 => Some(header.offset + 2),
        _ => None,
    })
}
