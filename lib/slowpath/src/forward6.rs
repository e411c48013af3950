// SPDX-License-Identifier: MIT
//! IPv6: where a packet goes, and how it gets there (RFC 8200, RFC 4291, RFC 4443).

use std::net::IpAddr;

use perigee_net::is_forwarded_group;
use perigee_packet::Ipv6;
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::extension::{Ipv6Option, UnknownAction, unknown_action};
use perigee_packet::wire::icmp6::unreachable;
use perigee_packet::wire::{flow, ipv6, protocol};

use crate::RouteDecision;
use crate::frame::Received;
use crate::icmp6::Problem;
use crate::machine::{SlowPath, Turn};
use crate::neighbor::{Answer, NextHop, Origin, Pending};

/// Type of the jumbo payload option, which this router does not know as it forwards no jumbograms (RFC 2675).
const JUMBO: u8 = 0xc2;

/// Where the header has the length of what follows it.
const PAYLOAD_LENGTH: usize = 4;

impl SlowPath {
    pub(crate) fn ipv6(&mut self, turn: Turn, received: &Received) {
        let bytes = received.payload();
        let (packet, truncated) = match (Ipv6::new(bytes), Ipv6::new_truncated(bytes)) {
            (Ok(packet), _) => (packet, false),
            (Err(_), Ok(packet)) => (packet, true),
            _ => {
                self.counters.drops.bad_header += 1;
                return;
            }
        };
        let (source, destination) = (packet.source(), packet.destination());
        let id = received.interface;
        let ours = self.interfaces.is_own_in_use(IpAddr::V6(source), id);
        let owned =
            self.interfaces.is_own(IpAddr::V6(destination), id) || self.interfaces.anycast(destination, id).is_some();
        if source.is_multicast() || source.is_loopback() {
            self.counters.drops.martian_source += 1;
        } else if destination.is_unspecified() || destination.is_loopback() {
            self.counters.drops.martian_destination += 1;
        } else if ours {
            self.own_source6(turn, received, &packet);
        } else if !self.leads_back(turn, received.interface, source.into()) {
            self.counters.drops.reverse_path += 1;
        } else if truncated {
            self.counters.drops.truncated += 1;
            self.error6(turn, received, &packet, Problem::header(PAYLOAD_LENGTH));
        } else if destination.is_multicast() && destination.octets()[1] & 15 < 2 {
            self.counters.drops.multicast_scope += 1;
        } else if received.is_group() && !destination.is_multicast() {
            self.counters.drops.link_broadcast += 1;
        } else if self.hop_by_hop(turn, received, &packet) {
            if is_forwarded_group(destination.into()) {
                if self.multicast6(turn, received, &packet) {
                    self.local6(turn, received, &packet);
                }
            } else if destination.is_multicast() || owned {
                self.local6(turn, received, &packet);
            } else {
                self.forward6(turn, received, &packet);
            }
        }
    }

    /// Another station sends from our address. A neighbor advertisement says which one (RFC 4862 5.4.4).
    fn own_source6(&mut self, turn: Turn, received: &Received, packet: &Ipv6<&[u8]>) {
        if self.leave_to_owner() {
            return; // Events are the owner's.
        }
        self.counters.drops.own_source += 1;
        let ours = self.interfaces.get(received.interface).is_some_and(|own| own.config.mac == received.source);
        if packet.destination().is_multicast() && !ours {
            self.conflict(turn.now, received.interface, IpAddr::V6(packet.source()), received.source);
        }
    }

    /// Walks the hop-by-hop options (RFC 8200 4.2, 4.3). False: the packet ended here.
    fn hop_by_hop(&mut self, turn: Turn, received: &Received, packet: &Ipv6<&[u8]>) -> bool {
        if packet.next_header() != protocol::HOP_BY_HOP {
            return true;
        }
        let Some(Ok(header)) = packet.extension_headers().next() else {
            self.counters.drops.bad_extension += 1;
            return false;
        };
        let mut options = header.options();
        while let Some(option) = options.next() {
            let pointer = header.offset + options.offset();
            let kind = match option {
                Ok(Ipv6Option::Pad1 | Ipv6Option::PadN(_) | Ipv6Option::RouterAlert(_)) => continue,
                Ok(Ipv6Option::Unknown { kind, .. }) => kind,
                Ok(Ipv6Option::Jumbo(_)) => JUMBO,
                Err(_) => {
                    self.counters.drops.bad_extension += 1;
                    self.error6(turn, received, packet, Problem::header(pointer));
                    return false;
                }
            };
            let to_groups = match unknown_action(kind) {
                UnknownAction::Skip => continue,
                UnknownAction::Discard => None,
                UnknownAction::DiscardAndReport => Some(true),
                UnknownAction::DiscardAndReportUnicast => Some(false),
            };
            self.counters.drops.unknown_option += 1;
            if let Some(to_groups) = to_groups {
                self.error6(turn, received, packet, Problem::option(pointer, to_groups));
            }
            return false;
        }
        true
    }

    fn forward6(&mut self, turn: Turn, received: &Received, packet: &Ipv6<&[u8]>) {
        let (source, destination) = (packet.source(), packet.destination());
        if source.is_unspecified() {
            self.counters.drops.martian_source += 1;
            return;
        }
        if destination.is_unicast_link_local() {
            self.counters.drops.link_local += 1;
            return;
        }
        let flow = flow::symmetric_hash(packet.into_inner(), 0, ethertype::IPV6);
        let decision = turn.routes.route(IpAddr::V6(destination), flow);
        if decision == RouteDecision::Local {
            return self.local6(turn, received, packet);
        }
        if source.is_unicast_link_local() {
            self.counters.drops.link_local += 1;
            return self.error6(turn, received, packet, Problem::unreachable(unreachable::BEYOND_SCOPE));
        }
        let Some((decision, limit)) = self.treat(turn, received, decision) else { return };
        if decision == RouteDecision::ToLinux {
            // As it came: the hop limit and errors are Linux's.
            return self.deliver_from(turn, received, packet.source().into());
        }
        if packet.hop_limit() <= 1 {
            self.counters.drops.ttl_expired += 1;
            return self.error6(turn, received, packet, Problem::hop_limit());
        }
        let (counter, code) = match decision {
            RouteDecision::Connected(interface) | RouteDecision::Unresolved(interface) => {
                return self.send6(turn, received, packet, (interface, IpAddr::V6(destination)).into(), limit);
            }
            RouteDecision::Gateway(interface, gateway) => {
                return self.send6(turn, received, packet, (interface, gateway).into(), limit);
            }
            RouteDecision::Station(interface, mac) => {
                let next_hop = NextHop { key: (interface, IpAddr::V6(destination)), mac: Some(mac) };
                return self.send6(turn, received, packet, next_hop, limit);
            }
            RouteDecision::NoRoute => (&mut self.counters.drops.no_route, unreachable::NO_ROUTE),
            RouteDecision::Unreachable => (&mut self.counters.drops.unreachable, unreachable::ADDRESS),
            RouteDecision::Refused => (&mut self.counters.drops.route_refused, unreachable::ADDRESS),
            RouteDecision::Prohibit => (&mut self.counters.drops.prohibited, unreachable::ADMINISTRATIVELY_PROHIBITED),
            RouteDecision::Blackhole | RouteDecision::Local | RouteDecision::ToLinux => {
                self.counters.drops.blackhole += 1;
                return;
            }
        };
        *counter += 1;
        self.error6(turn, received, packet, Problem::unreachable(code));
    }

    /// The last steps: size, where the route may have a `limit`, and the next hop's MAC.
    fn send6(&mut self, turn: Turn, received: &Received, packet: &Ipv6<&[u8]>, next_hop: NextHop, limit: u16) {
        let NextHop { key: next_hop, mac: station } = next_hop;
        // Whether a redirect is due depends on the next hop's address.
        if self.assistant && (station.is_none() || next_hop.0 == received.interface) {
            self.leave_to_owner();
            return;
        }
        let Some(mtu) = self.interfaces.get(next_hop.0).filter(|own| own.config.up).map(|own| own.config.mtu) else {
            self.counters.drops.interface_down += 1;
            return self.error6(turn, received, packet, Problem::unreachable(unreachable::ADDRESS));
        };
        // No link of IPv6 takes less (RFC 8200 5).
        let mtu = mtu.min(limit.max(ipv6::MIN_MTU as u16));
        let len = ipv6::HEADER_LEN + packet.payload_len();
        if len > usize::from(mtu) {
            self.counters.drops.too_big += 1;
            return self.error6(turn, received, packet, Problem::too_big(mtu));
        }
        let origin = Origin { ingress: Some(received.interface), source: IpAddr::V6(packet.source()) };
        match self.look_up(turn.now, NextHop { key: next_hop, mac: station }, origin) {
            Answer::AskOwner => {}
            Answer::Mac(mac) => {
                self.redirect6(turn, received, packet, next_hop, Some(mac));
                let mut ready = packet.into_inner()[..len].to_vec();
                if let Ok(mut view) = Ipv6::new(&mut ready[..]) {
                    view.decrement_hop_limit();
                }
                self.counters.forwarded += 1;
                self.transmit_ip(next_hop.0, mac, &ready);
            }
            Answer::Wait => {
                let (interface, frame) = (received.interface, received.frame.to_vec());
                let waiting = Pending::Received { interface, frame, for_linux: false };
                self.neighbors.enqueue(next_hop, waiting, &mut self.counters);
            }
            Answer::Failed => {
                self.counters.drops.neighbor_failed += 1;
                self.error6(turn, received, packet, Problem::unreachable(unreachable::ADDRESS));
            }
            Answer::Full => self.counters.drops.neighbor_table_full += 1,
            Answer::Limited => self.counters.drops.neighbor_limited += 1,
        }
    }
}
