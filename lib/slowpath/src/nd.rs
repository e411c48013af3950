// SPDX-License-Identifier: MIT
//! Neighbor discovery (RFC 4861 7) and duplicate address detection (RFC 4862 5.4).
//!
//! Linux joins the groups: it has the same addresses on the twin and speaks MLD through it.

use std::net::{IpAddr, Ipv6Addr};

use perigee_net::{InterfaceId, MacAddr, solicited_node};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::icmp6::{self, Advertisement, Message};
use perigee_packet::wire::{ipv6, protocol};
use perigee_packet::{Icmp6, Ipv6, NdOptions};

use crate::frame::{self, Received};
use crate::interface::{AddressState, Detection};
use crate::machine::{SlowPath, Turn};
use crate::neighbor::{Heard, NextHop};
use crate::{Event, Time};

pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// RFC 4861 10 RETRANS_TIMER, which also spaces duplicate address detection.
const DETECTION_MS: u64 = 1000;

/// A neighbor message that passed RFC 4861 7.1.
enum Valid {
    Solicitation { target: Ipv6Addr, mac: Option<MacAddr> },
    Advertisement { target: Ipv6Addr, mac: Option<MacAddr>, solicited: bool, replace: bool },
}

/// The checks of RFC 4861 7.1.1 and 7.1.2; `Err(true)`: only the MAC in it was wrong.
fn validate(packet: &Ipv6<&[u8]>, icmp: &Icmp6<&[u8]>) -> Result<Valid, bool> {
    let (source, destination) = (packet.source(), packet.destination());
    if packet.hop_limit() != 255 || icmp.code() != 0 || !icmp.verify_checksum(&source, &destination) {
        return Err(false);
    }
    let mac = |options: &NdOptions, source: bool| {
        let found = if source { options.source_link_layer() } else { options.target_link_layer() };
        let found = found.map_err(|_| false)?;
        if found.is_some_and(|mac| !mac.is_unicast()) { Err(true) } else { Ok(found) }
    };
    match icmp.message() {
        Message::NeighborSolicitation { target, options } if !target.is_multicast() => {
            let mac = mac(&options, true)?;
            let detects = source.is_unspecified();
            if detects && (mac.is_some() || !is_solicited_node(destination)) {
                return Err(false);
            }
            Ok(Valid::Solicitation { target, mac })
        }
        Message::NeighborAdvertisement { solicited, r#override, target, options, .. }
            if !target.is_multicast() && !source.is_unspecified() && (!solicited || !destination.is_multicast()) =>
        {
            Ok(Valid::Advertisement { target, mac: mac(&options, false)?, solicited, replace: r#override })
        }
        _ => Err(false),
    }
}

/// ff02::1:ff00:0/104.
pub(crate) fn is_solicited_node(address: Ipv6Addr) -> bool {
    solicited_node(address) == address
}

impl SlowPath {
    /// A neighbor solicitation or advertisement to us or a group.
    pub(crate) fn neighbor_discovery(
        &mut self,
        turn: Turn,
        received: &Received,
        packet: &Ipv6<&[u8]>,
        icmp: &Icmp6<&[u8]>,
    ) {
        if self.leave_to_owner() {
            return;
        }
        match validate(packet, icmp) {
            Err(true) => self.counters.drops.nd_mac += 1,
            Err(false) => self.counters.drops.nd_invalid += 1,
            Ok(Valid::Solicitation { target, mac }) => self.solicited(turn, received, packet.source(), target, mac),
            Ok(Valid::Advertisement { target, mac, solicited, replace }) => {
                let heard = Heard { mac, solicited, replace, create: false };
                self.advertised(turn.now, received, target, heard);
            }
        }
    }

    fn solicited(&mut self, turn: Turn, received: &Received, source: Ipv6Addr, target: Ipv6Addr, mac: Option<MacAddr>) {
        let id = received.interface;
        let Some(own) = self.interfaces.get(id) else { return };
        let detects = source.is_unspecified();
        let anycast = own.has_anycast(target);
        let station = self.interfaces.station_of(IpAddr::V6(target), id);
        let for_us = own.has(IpAddr::V6(target)) || anycast || station.is_some();
        if !for_us || !detects && !self.is_on_link(turn, id, IpAddr::V6(source)) {
            if !self.solicited_for_another(turn, received, source, target, mac) {
                self.counters.drops.nd_not_for_us += 1;
            }
            return;
        }
        if !anycast && station.is_none() && !own.is_valid(IpAddr::V6(target)) {
            // RFC 4862 5.4.3: another station tries the same address; our own looped-back frame does not count.
            self.counters.drops.tentative += 1;
            if detects && received.source != own.config.mac {
                self.duplicate(id, target, received.source);
            }
            return;
        }
        self.counters.solicitations_answered += 1;
        if detects {
            return self.advertise(id, target);
        }
        let heard = Heard { mac, solicited: false, replace: true, create: true };
        let asker = (id, IpAddr::V6(source));
        self.neighbors.heard(turn.now, asker, heard, &mut self.counters);
        let Some(answer) = self.advertisement(id, target, source, true) else { return };
        // As with ARP, an answer is no use of the neighbor: whoever asks would make the router probe, and tell others
        // of it.
        let station = self.neighbors.mac(asker).or(mac);
        self.send_own(turn.now, NextHop { key: asker, mac: station }, answer);
    }

    fn advertised(&mut self, now: Time, received: &Received, target: Ipv6Addr, heard: Heard) {
        let id = received.interface;
        let Some(own) = self.interfaces.get(id) else { return };
        if !own.has(IpAddr::V6(target)) {
            self.neighbors.heard(now, (id, IpAddr::V6(target)), heard, &mut self.counters);
            return self.deliver(received);
        }
        self.counters.drops.nd_not_for_us += 1;
        let mac = heard.mac.unwrap_or(received.source);
        if received.source == own.config.mac {
            // Our own, looped back.
        } else if own.is_valid(IpAddr::V6(target)) {
            self.conflict(now, id, IpAddr::V6(target), mac);
        } else {
            self.duplicate(id, target, mac);
        }
    }

    /// Asks for a neighbor: its solicited-node group, or only the station it last was.
    pub(crate) fn solicit(&mut self, interface: InterfaceId, target: Ipv6Addr, mac: Option<MacAddr>) {
        let group = solicited_node(target);
        let Some(own) = self.interfaces.get(interface).filter(|own| own.config.up) else { return };
        let Some(source) = own.source6(group) else {
            self.counters.solicitations_without_source += 1;
            return;
        };
        let destination = if mac.is_some() { target } else { group };
        let packet = solicitation(target, Some(own.config.mac), source, destination);
        let to = mac.unwrap_or(MacAddr::from_ipv6_multicast(group));
        self.send_nd(interface, to, &packet);
    }

    /// Begins duplicate address detection for every address that has no state yet.
    pub(crate) fn start_detection(&mut self, now: Time, id: InterfaceId) {
        let Some(own) = self.interfaces.get_mut(id) else { return };
        for a in &own.config.addresses {
            if let IpAddr::V6(address) = a.address {
                let fresh = Detection { state: AddressState::Tentative, sent: 0, due: now };
                own.detection.entry(address).or_insert(fresh);
            }
        }
        self.detect(now, id);
    }

    /// The next step of every detection that is due: another solicitation, or the address is ours.
    pub(crate) fn detect(&mut self, now: Time, id: InterfaceId) {
        let transmits = self.config.dad_transmits;
        let Some(own) = self.interfaces.get_mut(id) else { return };
        let (mut ask, mut done) = (Vec::new(), Vec::new());
        for (&address, d) in &mut own.detection {
            if d.state != AddressState::Tentative || d.due > now {
                continue;
            }
            if d.sent < transmits {
                d.sent += 1;
                d.due = now.after_millis(DETECTION_MS);
                ask.push(address);
            } else {
                d.state = AddressState::Valid;
                done.push(address);
            }
        }
        for address in ask {
            let group = solicited_node(address);
            let packet = solicitation(address, None, Ipv6Addr::UNSPECIFIED, group);
            self.send_nd(id, MacAddr::from_ipv6_multicast(group), &packet);
        }
        for address in done {
            self.event(Event::AddressValid { interface: id, address });
            self.advertise(id, address);
        }
    }

    /// RFC 4862 5.4.5: the address must not be used.
    fn duplicate(&mut self, interface: InterfaceId, address: Ipv6Addr, mac: MacAddr) {
        let Some(own) = self.interfaces.get_mut(interface) else { return };
        let Some(d) = own.detection.get_mut(&address).filter(|d| d.state == AddressState::Tentative) else { return };
        d.state = AddressState::Duplicate;
        self.counters.address_conflicts += 1;
        self.event(Event::AddressDuplicate { interface, address, mac });
    }

    /// Announces an address to all nodes (RFC 4861 7.2.4 for a detecting station, 7.2.6 unasked).
    fn advertise(&mut self, interface: InterfaceId, address: Ipv6Addr) {
        if let Some(packet) = self.advertisement(interface, address, ALL_NODES, false) {
            self.transmit_ip(interface, MacAddr::from_ipv6_multicast(ALL_NODES), &packet);
        }
    }

    /// This router's answer: R, S if asked, O, and the MAC. For an anycast address, which other routers have too, it
    /// comes from another address, and without O: any of them will do (RFC 4861 7.2.7).
    fn advertisement(
        &self,
        interface: InterfaceId,
        target: Ipv6Addr,
        destination: Ipv6Addr,
        solicited: bool,
    ) -> Option<Vec<u8>> {
        let own = self.interfaces.get(interface)?;
        let anycast = own.has_anycast(target);
        let from = if anycast { own.source6(destination)? } else { target };
        let mac = self.interfaces.station_of(IpAddr::V6(target), interface).unwrap_or(own.config.mac);
        Some(advertisement_for(from, target, destination, mac, (true, solicited, !anycast)))
    }

    fn own_mac(&self, interface: InterfaceId) -> MacAddr {
        self.interfaces.get(interface).map_or(MacAddr::ZERO, |own| own.config.mac)
    }

    fn send_nd(&mut self, interface: InterfaceId, to: MacAddr, packet: &[u8]) {
        self.counters.solicitations_sent += 1;
        let source = self.own_mac(interface);
        self.transmit(interface, frame::build(to, source, ethertype::IPV6, packet));
    }
}

/// An IPv6 packet with hop limit 255 and room for `len` bytes of ICMPv6.
pub(crate) fn packet(source: Ipv6Addr, destination: Ipv6Addr, len: usize) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN + len];
    let repr = ipv6::Repr { hop_limit: 255, ..ipv6::Repr::new(source, destination, protocol::ICMPV6, len) };
    let written = repr.emit(&mut packet);
    debug_assert_eq!(written, Ok(ipv6::HEADER_LEN));
    packet
}

fn solicitation(target: Ipv6Addr, mac: Option<MacAddr>, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut bytes = packet(source, destination, if mac.is_some() { 32 } else { 24 });
    let written = icmp6::emit_solicitation(&mut bytes[ipv6::HEADER_LEN..], target, mac, &source, &destination);
    debug_assert!(written.is_ok());
    bytes
}

/// An advertisement from an address; the flags are R, S and O.
pub(crate) fn advertisement_for(
    source: Ipv6Addr,
    target: Ipv6Addr,
    destination: Ipv6Addr,
    mac: MacAddr,
    (router, solicited, replace): (bool, bool, bool),
) -> Vec<u8> {
    let mut bytes = packet(source, destination, 32);
    let message = Advertisement { router, solicited, r#override: replace, target, link_layer: Some(mac) };
    let written = message.emit(&mut bytes[ipv6::HEADER_LEN..], &source, &destination);
    debug_assert!(written.is_ok());
    bytes
}
