// SPDX-License-Identifier: MIT
//! Who lives at a tester's end of a cable: a host that answers ARP (RFC 826), neighbor solicitations (RFC 4861) and
//! pings for its addresses, and asks for the device's MAC address. RFC 2544 appendix C wants a device to find its
//! neighbors by itself.

use perigee_net::{MacAddr, Prefix, solicited_node};
use perigee_packet::wire::icmp6::{self, Message};
use perigee_packet::wire::{Arp, Ethernet, Icmp6, Ipv6, arp, checksums, ethernet, ipv6, protocol};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ethernet header, bytes.
const ETHERNET: usize = 14;
/// Shortest frame without FCS, bytes.
const SHORTEST: usize = 60;
/// Most neighbors that are remembered: a device has few.
const NEIGHBORS: usize = 256;

/// A host that has every address of its networks.
#[derive(Clone, Debug)]
pub struct Resident {
    mac: MacAddr,
    networks: Vec<Prefix>,
    /// Addresses in them that are the device's.
    others: Vec<IpAddr>,
    neighbors: BTreeMap<IpAddr, MacAddr>,
}

impl Resident {
    /// A host at `mac` with all addresses of `networks` but `others`.
    pub fn new(mac: MacAddr, networks: Vec<Prefix>, others: Vec<IpAddr>) -> Resident {
        Resident { mac, networks, others, neighbors: BTreeMap::new() }
    }

    /// The MAC address that a neighbor has announced.
    pub fn neighbor(&self, address: IpAddr) -> Option<MacAddr> {
        self.neighbors.get(&address).copied()
    }

    fn is_mine(&self, address: IpAddr) -> bool {
        !self.others.contains(&address) && self.networks.iter().any(|network| network.contains(address))
    }

    fn learn(&mut self, address: IpAddr, mac: MacAddr) {
        if self.neighbors.len() < NEIGHBORS && !self.is_mine(address) {
            self.neighbors.insert(address, mac);
        }
    }

    /// The frame that asks for the MAC address of a neighbor, from an address of ours of the same family.
    pub fn ask(&self, from: IpAddr, neighbor: IpAddr) -> Vec<u8> {
        match (from, neighbor) {
            (IpAddr::V4(from), IpAddr::V4(neighbor)) => {
                self.arp(MacAddr::BROADCAST, &arp::Repr::request(self.mac, from, neighbor))
            }
            (IpAddr::V6(from), IpAddr::V6(neighbor)) => {
                let group = solicited_node(neighbor);
                self.icmp6(MacAddr::from_ipv6_multicast(group), from, group, |buf| {
                    icmp6::emit_solicitation(buf, neighbor, Some(self.mac), &from, &group)
                })
            }
            _ => Vec::new(),
        }
    }

    /// Hears a frame that is no frame of a trial; the answer, if it wants one.
    pub fn hear(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let frame = Ethernet::new(frame).ok()?;
        match frame.ethertype() {
            ethernet::ethertype::ARP => self.hear_arp(frame.payload()),
            ethernet::ethertype::IPV4 => self.hear_ping(frame.source(), frame.payload()),
            ethernet::ethertype::IPV6 => self.hear_v6(frame.source(), frame.payload()),
            _ => None,
        }
    }

    fn hear_arp(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let heard = Arp::new(packet).ok()?.repr();
        self.learn(heard.sender_ip.into(), heard.sender_mac);
        let mine = heard.operation == arp::REQUEST && self.is_mine(heard.target_ip.into());
        mine.then(|| self.arp(heard.sender_mac, &heard.reply(self.mac)))
    }

    fn hear_v6(&mut self, mac: MacAddr, packet: &[u8]) -> Option<Vec<u8>> {
        let packet = Ipv6::new(packet).ok()?;
        if packet.next_header() != protocol::ICMPV6 {
            return None;
        }
        let (source, destination) = (packet.source(), packet.destination());
        let message = Icmp6::new(packet.payload()).ok()?;
        if !message.verify_checksum(&source, &destination) {
            return None;
        }
        match message.message() {
            Message::NeighborSolicitation { target, .. } if self.is_mine(target.into()) => {
                if !source.is_unspecified() {
                    self.learn(source.into(), mac);
                }
                // Who asks before it has an address is answered to all nodes (RFC 4861 7.2.4).
                let solicited = !source.is_unspecified();
                let (to, to_mac) = match solicited {
                    true => (source, mac),
                    false => (ALL_NODES, MacAddr::from_ipv6_multicast(ALL_NODES)),
                };
                let answer = icmp6::Advertisement {
                    router: false,
                    solicited,
                    r#override: true,
                    target,
                    link_layer: Some(self.mac),
                };
                Some(self.icmp6(to_mac, target, to, |buf| answer.emit(buf, &target, &to)))
            }
            Message::NeighborAdvertisement { target, options, .. } => {
                self.learn(target.into(), options.target_link_layer().ok().flatten().unwrap_or(mac));
                None
            }
            Message::EchoRequest { identifier, sequence, data } if self.is_mine(destination.into()) => {
                let rest = u32::from(identifier) << 16 | u32::from(sequence);
                Some(self.icmp6(mac, destination, source, |buf| {
                    icmp6::emit(buf, icmp6::ECHO_REPLY, 0, rest, data, &destination, &source)
                }))
            }
            _ => None,
        }
    }

    /// An echo request to us becomes its reply: addresses exchanged, another type, checksums anew.
    fn hear_ping(&self, mac: MacAddr, packet: &[u8]) -> Option<Vec<u8>> {
        let header: &[u8; 20] = packet.first_chunk()?;
        let length = usize::from(header[0] & 15) * 4;
        let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let is_request = header[9] == protocol::ICMP && packet.get(length) == Some(&8);
        if header[0] >> 4 != 4 || length < 20 || !is_request || !self.is_mine(address(16).into()) {
            return None;
        }
        let mut frame = self.frame(mac, ethernet::ethertype::IPV4, packet.len());
        let reply = &mut frame[ETHERNET..];
        reply[..packet.len()].copy_from_slice(packet);
        reply[12..16].copy_from_slice(&header[16..20]);
        reply[16..20].copy_from_slice(&header[12..16]);
        reply[length] = 0;
        checksums::fill(&mut frame, ETHERNET);
        Some(frame)
    }

    fn frame(&self, to: MacAddr, kind: u16, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; (ETHERNET + payload).max(SHORTEST)];
        ethernet::emit(&mut frame, to, self.mac, kind).expect("a frame has room for its header");
        frame
    }

    fn arp(&self, to: MacAddr, packet: &arp::Repr) -> Vec<u8> {
        let mut frame = self.frame(to, ethernet::ethertype::ARP, 28);
        packet.emit(&mut frame[ETHERNET..]).expect("a frame has room for an ARP packet");
        frame
    }

    fn icmp6<E: std::fmt::Debug>(
        &self,
        to: MacAddr,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        emit: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Vec<u8> {
        let mut body = vec![0; 1500];
        let length = emit(&mut body).expect("1500 bytes are more than any of our messages has");
        let mut frame = self.frame(to, ethernet::ethertype::IPV6, ipv6::HEADER_LEN + length);
        let mut header = ipv6::Repr::new(source, destination, protocol::ICMPV6, length);
        header.hop_limit = 255;
        header.emit(&mut frame[ETHERNET..]).expect("a frame has room for an IPv6 header");
        frame[ETHERNET + ipv6::HEADER_LEN..][..length].copy_from_slice(&body[..length]);
        frame
    }
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const DEVICE: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn resident(mac: MacAddr, device: bool) -> Resident {
        let networks = ["198.18.0.0/16", "2001:2::/64"].map(|network| network.parse().unwrap()).to_vec();
        let gateways: Vec<IpAddr> = ["198.18.0.1", "2001:2::1"].map(|address| address.parse().unwrap()).to_vec();
        // Another tester's end plays the device: it has the gateways alone.
        if device {
            Resident::new(mac, gateways.iter().map(|&gateway| Prefix::host(gateway)).collect(), vec![])
        } else {
            Resident::new(mac, networks, gateways)
        }
    }

    #[test]
    fn neighbors_are_found_both_ways() {
        let (mut ours, mut device) = (resident(OURS, false), resident(DEVICE, true));
        for (from, gateway) in [("198.18.0.2", "198.18.0.1"), ("2001:2::2", "2001:2::1")] {
            let (from, gateway): (IpAddr, IpAddr) = (from.parse().unwrap(), gateway.parse().unwrap());
            let answer = device.hear(&ours.ask(from, gateway)).expect("an answer");
            assert!(answer.len() >= SHORTEST && ours.hear(&answer).is_none());
            assert_eq!(ours.neighbor(gateway), Some(DEVICE));
            let answer = ours.hear(&device.ask(gateway, from)).expect("an answer");
            device.hear(&answer);
            assert_eq!(device.neighbor(from), Some(OURS));
            // Nobody answers for the other.
            assert!(ours.hear(&device.ask(gateway, gateway)).is_none());
            assert!(device.hear(&ours.ask(from, from)).is_none());
        }
        assert!(ours.ask("198.18.0.2".parse().unwrap(), "2001:2::1".parse().unwrap()).is_empty());
    }

    #[test]
    fn pings_are_answered() {
        let mut ours = resident(OURS, false);
        let v4 = {
            let mut frame = vec![0; 60];
            ethernet::emit(&mut frame, OURS, DEVICE, ethernet::ethertype::IPV4).unwrap();
            frame[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 1, 0, 0, 64, 1, 0, 0, 198, 18, 0, 1, 198, 18, 7, 7]);
            frame[34..40].copy_from_slice(&[8, 0, 0, 0, 1, 2]);
            checksums::fill(&mut frame, 14);
            frame
        };
        let reply = ours.hear(&v4).unwrap();
        assert_eq!((&reply[26..34], reply[34], &reply[..6]), (&[198, 18, 7, 7, 198, 18, 0, 1][..], 0, &DEVICE.0[..]));
        let device = resident(DEVICE, true);
        let (from, to): (Ipv6Addr, Ipv6Addr) = ("2001:2::1".parse().unwrap(), "2001:2::77".parse().unwrap());
        let ping = device
            .icmp6(OURS, from, to, |buf| icmp6::emit(buf, icmp6::ECHO_REQUEST, 0, 0x0001_0002, b"data", &from, &to));
        let reply = ours.hear(&ping).unwrap();
        let packet = Ipv6::new(&reply[14..]).unwrap();
        assert_eq!((packet.source(), packet.destination()), (to, from));
        let message = Icmp6::new(packet.payload()).unwrap();
        assert!(message.verify_checksum(&to, &from));
        assert!(matches!(message.message(), Message::EchoReply { identifier: 1, sequence: 2, data: b"data" }));
    }

    #[test]
    fn any_bytes_are_heard_without_harm() {
        let mut ours = resident(OURS, false);
        let device = resident(DEVICE, true);
        let ask = |from: &str, to: &str| device.ask(from.parse().unwrap(), to.parse().unwrap());
        for frame in [ask("198.18.0.1", "198.18.0.2"), ask("2001:2::1", "2001:2::2")] {
            for end in 0..frame.len() {
                ours.hear(&frame[..end]);
            }
            for at in 0..frame.len() {
                for bit in 0..8 {
                    let mut changed = frame.clone();
                    changed[at] ^= 1 << bit;
                    ours.hear(&changed);
                }
            }
        }
        for i in 0..1000_u32 {
            ours.learn(Ipv4Addr::from_bits(i << 8).into(), DEVICE);
        }
        assert!(ours.neighbors.len() <= NEIGHBORS);
    }
}
