// SPDX-License-Identifier: MIT
//! Answers for other stations: proxy ARP (RFC 1027) and proxy neighbor discovery (RFC 4389 4.1.3.3, RFC 4861 7.2.8), as
//! Linux does both.
//!
//! | asked for | answered |
//! | --- | --- |
//! | an IPv4 address, with [`Proxy::arp`] or among [`Proxy::addresses`] | if its route leaves by another interface |
//! | an IPv6 address among [`Proxy::addresses`] | without the override flag: the station itself comes first |
//!
//! Linux delays its answers by a random time (`proxy_delay`) so that the station itself is heard first; these are
//! immediate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perigee_net::{InterfaceId, MacAddr, Proxy, is_host};
use perigee_packet::wire::flow;

use crate::RouteDecision;
use crate::frame::Received;
use crate::machine::{SlowPath, Turn};
use crate::nd::{self, ALL_NODES};
use crate::neighbor::{Heard, NextHop};

impl SlowPath {
    pub(crate) fn set_proxy(&mut self, interface: InterfaceId, proxy: Proxy) {
        match proxy == Proxy::default() {
            true => drop(self.proxies.remove(&interface)),
            false => drop(self.proxies.insert(interface, proxy)),
        }
    }

    /// Whether an ARP request of a station for another one is answered with this router's MAC.
    pub(crate) fn answers_arp_for(
        &self,
        turn: Turn,
        interface: InterfaceId,
        sender: Ipv4Addr,
        target: Ipv4Addr,
    ) -> bool {
        let Some(proxy) = self.proxies.get(&interface) else { return false };
        let asked = proxy.arp || proxy.addresses.contains_key(&IpAddr::V4(target));
        asked
            && is_host(target)
            && !self.interfaces.is_broadcast(target)
            && self.leads_back(turn, interface, IpAddr::V4(sender))
            && self.leaves_elsewhere(turn, interface, IpAddr::V4(target))
    }

    /// A packet from the link would not be sent back there.
    fn leaves_elsewhere(&self, turn: Turn, interface: InterfaceId, target: IpAddr) -> bool {
        match turn.routes.route(target, flow::symmetric_hash_of(target, target, 0, None)) {
            RouteDecision::Connected(by)
            | RouteDecision::Gateway(by, _)
            | RouteDecision::Station(by, _)
            | RouteDecision::Unresolved(by) => by != interface,
            // By an interface that is no port.
            RouteDecision::ToLinux => true,
            RouteDecision::Local
            | RouteDecision::NoRoute
            | RouteDecision::Unreachable
            | RouteDecision::Prohibit
            | RouteDecision::Blackhole
            | RouteDecision::Refused => false,
        }
    }

    /// A solicitation for an address that is none of the interface's; returns whether the router answers for that
    /// station.
    pub(crate) fn solicited_for_another(
        &mut self,
        turn: Turn,
        received: &Received,
        source: Ipv6Addr,
        target: Ipv6Addr,
        mac: Option<MacAddr>,
    ) -> bool {
        let id = received.interface;
        let Some(proxy) = self.proxies.get(&id) else { return false };
        let Some(&router) = proxy.addresses.get(&IpAddr::V6(target)) else { return false };
        let Some(own) = self.interfaces.get(id) else { return false };
        let detects = source.is_unspecified();
        let to = if detects { ALL_NODES } else { source };
        let Some(from) = own.source6(to).filter(|_| detects || own.on_link(IpAddr::V6(source))) else { return false };
        let answer = nd::advertisement_for(from, target, to, own.config.mac, (router, !detects, false));
        self.counters.solicitations_answered_for_others += 1;
        if detects {
            self.transmit_ip(id, MacAddr::from_ipv6_multicast(ALL_NODES), &answer);
            return true;
        }
        let heard = Heard { mac, solicited: false, replace: true, create: true };
        let asker = (id, IpAddr::V6(source));
        self.neighbors.heard(turn.now, asker, heard, &mut self.counters);
        let station = self.neighbors.mac(asker).or(mac);
        self.send_own(turn.now, NextHop { key: asker, mac: station }, answer);
        true
    }
}
