// SPDX-License-Identifier: MIT
//! ARP (RFC 826, RFC 1812 3.3.2, RFC 1122 2.3.2, RFC 5227).
//!
//! | heard | answer | learn |
//! | --- | --- | --- |
//! | request for us | reply | the sender, if it is on this link |
//! | request for an address of a virtual station (VRRP) on this link | reply, by the station's MAC | likewise |
//! | request for a host address (of Linux's loopback), or what is local by a route | reply | likewise |
//! | request for another interface's address | reply, if this one has none of IPv4: it borrows | likewise |
//! | request for a station that is answered for (`proxy.rs`) | reply | the sender, if it is on this link |
//! | reply to us | - | the sender, if it is on this link; Linux hears it too |
//! | anything else (gratuitous, for others) | - | the sender, only if it is known already |
//! | probe: sender 0.0.0.0 | reply, if for us | nothing |
//! | sender's MAC a group or zero, sender's address ours or not a host's | - | nothing |

use std::net::{IpAddr, Ipv4Addr};

use perigee_net::is_host;
use perigee_net::{InterfaceId, MacAddr};
use perigee_packet::Arp;
use perigee_packet::wire::arp::{LEN, REPLY, REQUEST, Repr};
use perigee_packet::wire::ethernet::ethertype;

use crate::RouteDecision;
use crate::frame::{self, Received};
use crate::interface::Own;
use crate::machine::{SlowPath, Turn};
use crate::neighbor::Heard;

impl SlowPath {
    pub(crate) fn arp(&mut self, turn: Turn, received: &Received) {
        let arp = match Arp::new(received.payload()) {
            Ok(arp) if matches!(arp.operation(), REQUEST | REPLY) => arp.repr(),
            _ => {
                self.counters.drops.arp_malformed += 1;
                return;
            }
        };
        if !arp.sender_mac.is_unicast() {
            self.counters.drops.arp_sender_mac += 1;
            return;
        }
        let Some(own) = self.interfaces.get(received.interface) else { return };
        let mac = own.config.mac;
        let ours = own.has(IpAddr::V4(arp.sender_ip)) || self.interfaces.is_host_address(IpAddr::V4(arp.sender_ip));
        let for_us = self.answers_for(turn, received.interface, arp.target_ip);
        let probe = arp.sender_ip.is_unspecified();
        if ours || !probe && !self.may_be_neighbor(received.interface, arp.sender_ip) {
            self.counters.drops.arp_sender_address += 1;
            let by_us = |(_, own): (_, &Own)| own.config.mac == arp.sender_mac;
            let by_station = self.interfaces.has_station(received.interface, arp.sender_mac);
            if ours && !by_station && !self.interfaces.iter().any(by_us) {
                self.conflict(turn.now, received.interface, IpAddr::V4(arp.sender_ip), arp.sender_mac);
            }
            return;
        }
        let for_another = !probe
            && arp.operation == REQUEST
            && !for_us
            && self.answers_arp_for(turn, received.interface, arp.sender_ip, arp.target_ip);
        if !probe {
            self.hear_arp(turn, received, &arp, for_us || for_another);
        }
        match arp.operation {
            REQUEST if for_us => {
                self.counters.solicitations_answered += 1;
                let station = self.interfaces.station_of(IpAddr::V4(arp.target_ip), received.interface);
                self.send_arp(received.interface, arp.sender_mac, &arp.reply(station.unwrap_or(mac)));
            }
            REQUEST if for_another => {
                self.counters.solicitations_answered_for_others += 1;
                self.send_arp(received.interface, arp.sender_mac, &arp.reply(mac));
            }
            REPLY => self.deliver(received),
            _ => self.counters.drops.arp_not_for_us += 1,
        }
    }

    /// Does the router answer on this link for an IPv4 address? As Linux does by default (arp_ignore = 0), except that
    /// an interface that has an IPv4 address does not answer for those of other ports.
    fn answers_for(&self, turn: Turn, id: InterfaceId, target: Ipv4Addr) -> bool {
        let (Some(own), address) = (self.interfaces.get(id), IpAddr::V4(target)) else { return false };
        if own.has(address) {
            return true;
        }
        if !is_host(target) || self.interfaces.is_broadcast(target) {
            return false;
        }
        match self.interfaces.owner(address, id) {
            Some(_) => !own.is_numbered(),
            None => self.interfaces.is_host_address(address) || turn.routes.route(address, 0) == RouteDecision::Local,
        }
    }

    fn hear_arp(&mut self, turn: Turn, received: &Received, arp: &Repr, for_us: bool) {
        let Some(own) = self.interfaces.get(received.interface) else { return };
        let sender = IpAddr::V4(arp.sender_ip);
        // A broadcast reply is not an answer to a request of ours.
        let to_us = for_us && arp.target_mac == own.config.mac && !received.is_group();
        let heard = Heard {
            mac: Some(arp.sender_mac),
            solicited: arp.operation == REPLY && to_us,
            replace: true,
            create: for_us && self.is_on_link(turn, received.interface, sender),
        };
        self.neighbors.heard(turn.now, (received.interface, sender), heard, &mut self.counters);
    }

    /// Can a host on this interface have the address?
    fn may_be_neighbor(&self, interface: InterfaceId, address: Ipv4Addr) -> bool {
        is_host(address) && !self.interfaces.is_broadcast_of(address, interface)
    }

    /// Asks for a neighbor: all stations, or only the one it last was.
    pub(crate) fn request(&mut self, interface: InterfaceId, target: Ipv4Addr, mac: Option<MacAddr>) {
        let Some(own) = self.interfaces.get(interface).filter(|own| own.config.up) else { return };
        let Some(source) = self.interfaces.source4(interface, Some(target), true) else {
            self.counters.solicitations_without_source += 1;
            return;
        };
        // By the station's MAC address: the request tells it to whoever hears it.
        let station = self.interfaces.station_of(source.into(), interface).filter(|_| !own.has(source.into()));
        let arp = Repr::request(station.unwrap_or(own.config.mac), source, target);
        self.counters.solicitations_sent += 1;
        self.send_arp(interface, mac.unwrap_or(MacAddr::BROADCAST), &arp);
    }

    /// Announces on the link that an address is here now (RFC 5227 2.3).
    pub(crate) fn announce(&mut self, interface: InterfaceId, address: Ipv4Addr) {
        let Some(own) = self.interfaces.get(interface) else { return };
        let arp = Repr::request(own.config.mac, address, address);
        self.send_arp(interface, MacAddr::BROADCAST, &arp);
    }

    fn send_arp(&mut self, interface: InterfaceId, destination: MacAddr, arp: &Repr) {
        let mut packet = [0; LEN];
        if arp.emit(&mut packet).is_ok() {
            self.transmit(interface, frame::build(destination, arp.sender_mac, ethertype::ARP, &packet));
        }
    }
}
