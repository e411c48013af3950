// SPDX-License-Identifier: MIT
//! What Linux gets through a twin.
//!
//! Linux answers most of what is sent to the router, and asks by ARP and neighbor discovery for whom it answers. Its
//! tables of neighbors are those of the whole machine (`gc_thresh3`, 1024 entries over all network namespaces), so
//! forged sources on a link would fill them for everybody. Therefore Linux gets a packet that it may answer only when
//! the neighbor that the answer goes to has answered this router:
//!
//! | the answer goes to | the packet |
//! | --- | --- |
//! | a station beyond a gateway, or nowhere | is Linux's at once: gateways are few |
//! | a neighbor that has answered the router, or is configured | is Linux's at once |
//! | a neighbor that told its MAC address unasked, as whoever asks for the router's does | waits; that neighbor is asked at once |
//! | a neighbor of which nothing is known | waits; it is asked for, as far as a budget for such sources goes |
//!
//! A source beyond the budget is [`source_limited`](crate::Drops), one that does not answer
//! [`source_unresolved`](crate::Drops). The budget has a share for each interface and for groups of stations by their
//! MAC addresses: one station that forges addresses uses up its own share, and the common one.

use std::net::IpAddr;

use perigee_net::is_link_local;
use perigee_packet::Ipv6;
use perigee_packet::wire::{flow, icmp6, protocol};

use crate::frame::Received;
use crate::icmp6::plain_icmp;
use crate::machine::{SlowPath, Turn};
use crate::neighbor::{Answer, Key};
use crate::{Output, RouteDecision};

impl SlowPath {
    /// Gives Linux a packet that it may answer to its source, as soon as that is known to be there.
    pub(crate) fn deliver_from(&mut self, turn: Turn, received: &Received, source: IpAddr) {
        if self.leave_to_owner() {
            return;
        }
        let Some(key) = self.answered_by_way_of(turn, received, source) else { return self.deliver(received) };
        let asked = (received.interface, received.source);
        match self.neighbors.vouch(turn.now, key, asked, &mut self.counters) {
            Answer::Mac(_) | Answer::AskOwner => self.deliver(received),
            Answer::Wait => {
                let waiting = (received.interface, received.frame.to_vec());
                self.neighbors.enqueue_for_linux(key, waiting, &mut self.counters);
            }
            Answer::Failed => self.counters.drops.source_unresolved += 1,
            Answer::Full | Answer::Limited => self.counters.drops.source_limited += 1,
        }
    }

    /// Gives Linux an IPv6 packet to an address of this router or to a group. Of those to groups, it answers only what
    /// has headers that it may not know, and keeps neighbors by router advertisements alone. It answers neither
    /// errors nor answers.
    pub(crate) fn deliver6(&mut self, turn: Turn, received: &Received, packet: &Ipv6<&[u8]>) {
        let kind = plain_icmp(packet).and_then(|icmp| icmp.first().copied());
        let other_headers = || packet.extension_headers().flatten().any(|header| header.kind != protocol::HOP_BY_HOP);
        let answered = match kind {
            Some(kind) if icmp6::is_error(kind) || kind == icmp6::ECHO_REPLY => false,
            Some(icmp6::ROUTER_ADVERTISEMENT) => true,
            _ => !packet.destination().is_multicast() || other_headers(),
        };
        if answered {
            self.deliver_from(turn, received, packet.source().into());
        } else {
            self.deliver(received);
        }
    }

    /// Gives Linux a frame that it keeps no neighbor for.
    pub(crate) fn deliver(&mut self, received: &Received) {
        if !self.leave_to_owner() && self.has_room() {
            self.counters.to_twin += 1;
            let (interface, frame) = (received.interface, received.frame.to_vec());
            self.outputs.push_back(Output::ToTwin { interface, frame });
        }
    }

    /// The neighbor that Linux's answer to a source goes to, if that is the source itself.
    fn answered_by_way_of(&self, turn: Turn, received: &Received, source: IpAddr) -> Option<Key> {
        if source.is_unspecified() {
            return None;
        }
        if source.is_ipv6() && is_link_local(source) {
            return Some((received.interface, source));
        }
        match turn.routes.route(source, flow::symmetric_hash_of(source, source, 0, None)) {
            RouteDecision::Connected(interface) => Some((interface, source)),
            _ => None,
        }
    }
}
