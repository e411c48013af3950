// SPDX-License-Identifier: MIT
//! The stations at the far ends of the links, which answer when the router asks for them.

use crate::link::Link;
use crate::network::Side;
use crate::wire::{Caught, framed};
use anyhow::Result;
use perigee_net::{MacAddr, solicited_node};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::icmp6::{self, Advertisement};
use perigee_packet::wire::{arp, ipv6, protocol};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A station, and the router's interface that it sees.
pub struct Station {
    pub side: Side,
    pub link: Link,
    /// Its MAC address.
    pub mac: MacAddr,
    /// The router's.
    pub router: MacAddr,
}

impl Station {
    /// A station on this interface of ours.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn open(side: Side, interface: &str, mac: MacAddr, router: MacAddr) -> Result<Station> {
        Ok(Station { side, link: Link::open(interface)?, mac, router })
    }

    /// An ARP request in a frame to everybody.
    pub fn request(&self, source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
        let mut message = [0; arp::LEN];
        arp::Repr::request(self.mac, source, target).emit(&mut message).expect("there is room");
        framed(self.mac, MacAddr::BROADCAST, ethertype::ARP, &message)
    }

    /// A neighbor solicitation from the station's own address.
    pub fn solicitation(&self, target: Ipv6Addr) -> Vec<u8> {
        let (source, group) = (self.side.station6(), solicited_node(target));
        let mut bytes = vec![0; ipv6::HEADER_LEN + 32];
        let repr = ipv6::Repr { hop_limit: 255, ..ipv6::Repr::new(source, group, protocol::ICMPV6, 32) };
        repr.emit(&mut bytes).expect("there is room");
        let message = &mut bytes[ipv6::HEADER_LEN..];
        icmp6::emit_solicitation(message, target, Some(self.mac), &source, &group).expect("there is room");
        framed(self.mac, MacAddr::from_ipv6_multicast(group), ethertype::IPV6, &bytes)
    }
}

/// Who answers ARP and neighbor discovery, and with which MAC address.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<(Side, IpAddr), MacAddr>);

impl Answers {
    /// The address is answered for on this link.
    pub fn set(&mut self, side: Side, address: impl Into<IpAddr>, mac: MacAddr) {
        self.0.insert((side, address.into()), mac);
    }

    /// The address is not answered for.
    pub fn unset(&mut self, side: Side, address: impl Into<IpAddr>) {
        self.0.remove(&(side, address.into()));
    }

    /// The answer to a frame that asks for one of these addresses.
    pub fn answer(&self, asked: &Caught) -> Option<Vec<u8>> {
        if let Some(message) = asked.arp() {
            let mac = self.0.get(&(asked.side, message.target_ip().into()))?;
            return (message.operation() == arp::REQUEST && hears(*mac, asked)).then(|| arp_reply(asked, *mac))?;
        }
        let (packet, message) = asked.icmp6().filter(|(_, m)| m.kind() == icmp6::NEIGHBOR_SOLICITATION)?;
        let target = crate::wire::target(&message)?;
        let mac = self.0.get(&(asked.side, target.into())).filter(|mac| hears(**mac, asked))?;
        // A station that asks whether its address is another's is answered in public (RFC 4861 7.2.4).
        let detects = packet.source().is_unspecified();
        let to = if detects { ALL_NODES } else { packet.source() };
        let hardware = if detects { MacAddr::from_ipv6_multicast(ALL_NODES) } else { asked.from() };
        let router = false;
        let answer = Advertisement { router, solicited: !detects, r#override: true, target, link_layer: Some(*mac) };
        Some(framed(*mac, hardware, ethertype::IPV6, &advertisement(answer, to)))
    }
}

/// Whether a station with this MAC address hears a frame.
fn hears(mac: MacAddr, frame: &Caught) -> bool {
    frame.to() == mac || !frame.to().is_unicast() || !mac.is_unicast()
}

/// The answer of a MAC address to an ARP request, whoever was asked for.
pub fn arp_reply(asked: &Caught, mac: MacAddr) -> Option<Vec<u8>> {
    let mut bytes = [0; arp::LEN];
    asked.arp()?.repr().reply(mac).emit(&mut bytes).expect("there is room");
    // A frame's own source is a single station whatever it claims.
    let source = if mac.is_unicast() { mac } else { MacAddr([2, 0, 0xc0, 0xff, 0xff, 0xff]) };
    Some(framed(source, asked.from(), ethertype::ARP, &bytes))
}

/// A neighbor advertisement from its target, with hop limit 255.
pub fn advertisement(message: Advertisement, to: Ipv6Addr) -> Vec<u8> {
    let length = if message.link_layer.is_some() { 32 } else { 24 };
    let mut bytes = vec![0; ipv6::HEADER_LEN + length];
    let repr = ipv6::Repr { hop_limit: 255, ..ipv6::Repr::new(message.target, to, protocol::ICMPV6, length) };
    repr.emit(&mut bytes).expect("there is room");
    message.emit(&mut bytes[ipv6::HEADER_LEN..], &message.target, &to).expect("there is room");
    bytes
}
