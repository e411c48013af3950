// SPDX-License-Identifier: MIT
//! The garbage: a frame of each kind for a number.

use super::recipes::{RECIPES, Recipe};
use anyhow::Result;
use perigee_fib::synth::Random;
use perigee_net::MacAddr;
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{arp, ethernet, icmp4, icmp6, ipv4, ipv6, protocol, udp};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The router's addresses on the attacked link, 10.3.0.0/16 and 2001:db8:3::/64.
pub const ROUTER4: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 1);
pub const ROUTER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 1);
/// The network behind the port east, 10.2.0.0/16 and 2001:db8:2::/64: the first 16 bits, and the first 64.
const EAST4: u32 = 0x0a02;
const EAST6: u128 = 0x2001_0db8_0002_0000 << 64;
pub const EDGE4: u32 = 0x0a03;
pub const EDGE6: u128 = 0x2001_0db8_0003_0000 << 64;
/// All OSPF routers (RFC 2328 A.1) and where IGMPv3 reports go (RFC 3376 4.2.14).
const OSPF_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 5);
const IGMP_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);

/// Longest frame.
pub const LONGEST: usize = 128;

/// What the frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Udp,
    Expired,
    Options,
    Errors,
    Echo,
    NoRoute,
    Fragments,
    EtherTypes,
    Ospf,
    Bgp,
    Igmp,
    ArpSenders,
    ArpScan,
    NdScan,
    ArpScanOwn,
    NdScanOwn,
    Solicitations,
    Advertisements,
    /// One that is written as data.
    Made(&'static Recipe),
}

impl Kind {
    /// Those that are written in Rust.
    const CODED: [Kind; 18] = [
        Kind::Udp,
        Kind::Expired,
        Kind::Options,
        Kind::Errors,
        Kind::Echo,
        Kind::NoRoute,
        Kind::Fragments,
        Kind::EtherTypes,
        Kind::Ospf,
        Kind::Bgp,
        Kind::Igmp,
        Kind::ArpSenders,
        Kind::ArpScan,
        Kind::NdScan,
        Kind::ArpScanOwn,
        Kind::NdScanOwn,
        Kind::Solicitations,
        Kind::Advertisements,
    ];

    /// All kinds, in their order.
    pub fn all() -> Vec<Kind> {
        Kind::CODED.into_iter().chain(RECIPES.iter().map(Kind::Made)).collect()
    }

    /// For tables, JSON and the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Udp => "UDP to the router",
            Kind::Expired => "TTL 1",
            Kind::Options => "options",
            Kind::Errors => "ICMP errors to the router",
            Kind::Echo => "echo requests to the router",
            Kind::NoRoute => "no route",
            Kind::Fragments => "fragments to the router",
            Kind::EtherTypes => "other Ethernet types",
            Kind::Ospf => "forged OSPF",
            Kind::Bgp => "SYNs to BGP",
            Kind::Igmp => "IGMP reports",
            Kind::ArpSenders => "ARP of 65,000 senders",
            Kind::ArpScan => "ARP scan of east",
            Kind::NdScan => "ND scan of east",
            Kind::ArpScanOwn => "ARP scan of the link",
            Kind::NdScanOwn => "ND scan of the link",
            Kind::Solicitations => "spoofed solicitations",
            Kind::Advertisements => "spoofed advertisements",
            Kind::Made(recipe) => recipe.name,
        }
    }

    /// Addresses a second of a scan.
    pub fn rate(self, others: u64) -> u64 {
        match self {
            Kind::ArpScan | Kind::NdScan | Kind::ArpScanOwn | Kind::NdScanOwn => others.min(20_000),
            _ => others,
        }
    }

    /// Writes a frame for the router with this MAC address; its length. Senders, stations and ports are at random.
    pub fn frame(self, random: &mut Random, router: MacAddr, buffer: &mut [u8; LONGEST]) -> Result<usize> {
        let bits = random.bits();
        // The first 256 addresses of a link are those of real hosts: nobody speaks in their names.
        let low = (bits as u32 & 0xffff).max(0x100);
        // A sender somewhere in the Internet, and one on the link.
        let far = Ipv4Addr::from_bits(30 << 24 | bits as u32 & 0xff_ffff);
        let near = Ipv4Addr::from_bits(EDGE4 << 16 | low);
        let near6 = Ipv6Addr::from_bits(EDGE6 | u128::from(bits >> 8));
        let station = MacAddr([2, 0xee, (bits >> 32) as u8, (bits >> 40) as u8, (bits >> 8) as u8, bits as u8]);
        let mut link = Link { buffer, router, station };
        match self {
            Kind::Udp => link.udp(far, ROUTER4, 64, bits),
            Kind::Expired => link.udp(far, Ipv4Addr::from_bits(EAST4 << 16 | 2), 1, bits),
            Kind::Options => link.options(far, Ipv4Addr::from_bits(EAST4 << 16 | 2)),
            Kind::Errors => link.icmp(far, icmp4::Message::Unreachable { code: 3, mtu: 0, quoted: &quoted(bits) }),
            Kind::Echo => {
                let (identifier, sequence) = (bits as u16, (bits >> 16) as u16);
                link.icmp(far, icmp4::Message::EchoRequest { identifier, sequence, data: &[0; 16] })
            }
            Kind::NoRoute => link.udp(far, Ipv4Addr::from_bits(40 << 24 | bits as u32 & 0xff_ffff), 64, bits),
            Kind::Fragments => link.fragment(far, bits),
            Kind::EtherTypes => link.ethernet(router, 0x8800 | (bits >> 16) as u16 & 0xff, 46),
            Kind::Ospf => link.ospf(near, bits),
            Kind::Bgp => link.syn(far, bits),
            Kind::Igmp => link.igmp(near, bits),
            Kind::ArpSenders => link.arp(near),
            Kind::ArpScan => link.udp(far, Ipv4Addr::from_bits(EAST4 << 16 | low), 64, bits),
            Kind::ArpScanOwn => link.udp(far, near, 64, bits),
            Kind::NdScan => link.udp6(Ipv6Addr::from_bits(EAST6 | u128::from(bits >> 1)), bits),
            Kind::NdScanOwn => link.udp6(near6, bits),
            Kind::Solicitations => link.solicitation(near6),
            Kind::Advertisements => link.advertisement(near6),
            Kind::Made(recipe) => recipe.frame(random, router, link.buffer),
        }
    }
}

/// The packet that an error is about: one that the router may have sent, to anywhere.
fn quoted(bits: u64) -> [u8; 28] {
    let mut packet = [0; 28];
    let to = Ipv4Addr::from_bits(30 << 24 | (bits >> 8) as u32 & 0xff_ffff);
    let header = ipv4::Repr::new(ROUTER4, to, protocol::UDP, 8);
    let _ = header.emit(&mut packet); // both fit
    let _ = udp::emit(&mut packet[ipv4::HEADER_LEN..], bits as u16, 53, 0);
    packet
}

/// A frame in the making.
struct Link<'a> {
    buffer: &'a mut [u8; LONGEST],
    router: MacAddr,
    station: MacAddr,
}

impl Link<'_> {
    /// The frame around `length` bytes; the least that Ethernet sends.
    fn ethernet(&mut self, to: MacAddr, ethertype: u16, length: usize) -> Result<usize> {
        ethernet::emit(&mut self.buffer[..], to, self.station, ethertype)?;
        Ok((ethernet::HEADER_LEN + length).max(60))
    }

    /// What is behind the Ethernet header.
    fn packet(&mut self) -> &mut [u8] {
        self.buffer.fill(0);
        &mut self.buffer[ethernet::HEADER_LEN..]
    }

    fn ipv4(&mut self, header: &ipv4::Repr, to: MacAddr, fill: impl FnOnce(&mut [u8])) -> Result<usize> {
        let packet = self.packet();
        header.emit(packet)?;
        fill(&mut packet[ipv4::HEADER_LEN..][..header.payload_len]);
        self.ethernet(to, ethertype::IPV4, ipv4::HEADER_LEN + header.payload_len)
    }

    fn udp(&mut self, source: Ipv4Addr, destination: Ipv4Addr, ttl: u8, bits: u64) -> Result<usize> {
        let mut header = ipv4::Repr::new(source, destination, protocol::UDP, udp::HEADER_LEN + 18);
        header.ttl = ttl;
        self.ipv4(&header, self.router, |payload| {
            let _ = udp::emit(payload, bits as u16, (bits >> 16) as u16, 18);
        })
    }

    fn options(&mut self, source: Ipv4Addr, destination: Ipv4Addr) -> Result<usize> {
        let header = ipv4::Repr::new(source, destination, protocol::UDP, udp::HEADER_LEN + 18);
        let packet = self.packet();
        // Record route, with room for one.
        let length = header.emit_with_options(packet, &[7, 7, 4, 0, 0, 0, 0, 0])?;
        udp::emit(&mut packet[length..], 1000, 2000, 18)?;
        self.ethernet(self.router, ethertype::IPV4, length + udp::HEADER_LEN + 18)
    }

    fn icmp(&mut self, source: Ipv4Addr, message: icmp4::Message<'_>) -> Result<usize> {
        let header = ipv4::Repr::new(source, ROUTER4, protocol::ICMP, message.len());
        self.ipv4(&header, self.router, |payload| {
            let _ = message.emit(payload);
        })
    }

    /// A first fragment whose others do not come.
    fn fragment(&mut self, source: Ipv4Addr, bits: u64) -> Result<usize> {
        let mut header = ipv4::Repr::new(source, ROUTER4, protocol::UDP, 32);
        (header.more_fragments, header.identification) = (true, (bits >> 32) as u16);
        self.ipv4(&header, self.router, |_| ())
    }

    /// A hello that is none.
    fn ospf(&mut self, source: Ipv4Addr, bits: u64) -> Result<usize> {
        let mut header = ipv4::Repr::new(source, OSPF_ROUTERS, protocol::OSPF, 44);
        header.ttl = 1;
        self.ipv4(&header, MacAddr([1, 0, 0x5e, 0, 0, 5]), |payload| {
            payload[..4].copy_from_slice(&[2, 1, 0, 44]);
            payload[4..12].copy_from_slice(&bits.to_be_bytes());
        })
    }

    fn syn(&mut self, source: Ipv4Addr, bits: u64) -> Result<usize> {
        let header = ipv4::Repr::new(source, ROUTER4, protocol::TCP, 20);
        self.ipv4(&header, self.router, |payload| {
            payload[..2].copy_from_slice(&(bits as u16).to_be_bytes());
            payload[2..4].copy_from_slice(&179u16.to_be_bytes());
            payload[4..8].copy_from_slice(&(bits as u32).to_be_bytes());
            payload[12..16].copy_from_slice(&[5 << 4, 2, 0xff, 0xff]);
            let sum = perigee_packet::wire::checksum::pseudo_v4(source, ROUTER4, protocol::TCP, 20);
            let sum = fold(sum + perigee_packet::wire::checksum::sum(payload));
            payload[16..18].copy_from_slice(&(!sum).to_be_bytes());
        })
    }

    /// A report that a station joins a group at random (RFC 2236 2).
    fn igmp(&mut self, source: Ipv4Addr, bits: u64) -> Result<usize> {
        let mut header = ipv4::Repr::new(source, IGMP_ROUTERS, protocol::IGMP, 8);
        header.ttl = 1;
        self.ipv4(&header, MacAddr([1, 0, 0x5e, 0, 0, 22]), |payload| {
            payload[0] = 0x16;
            payload[4..8].copy_from_slice(&(239 << 24 | bits as u32 & 0xff_ffff).to_be_bytes());
            let sum = perigee_packet::wire::checksum::checksum(payload);
            payload[2..4].copy_from_slice(&sum.to_be_bytes());
        })
    }

    fn arp(&mut self, sender: Ipv4Addr) -> Result<usize> {
        let message = arp::Repr::request(self.station, sender, ROUTER4);
        let length = message.emit(self.packet())?;
        self.ethernet(MacAddr::BROADCAST, ethertype::ARP, length)
    }

    fn ipv6(&mut self, header: &ipv6::Repr, to: MacAddr, fill: impl FnOnce(&mut [u8])) -> Result<usize> {
        let packet = self.packet();
        header.emit(packet)?;
        fill(&mut packet[ipv6::HEADER_LEN..][..header.payload_len]);
        self.ethernet(to, ethertype::IPV6, ipv6::HEADER_LEN + header.payload_len)
    }

    fn udp6(&mut self, destination: Ipv6Addr, bits: u64) -> Result<usize> {
        let source = Ipv6Addr::from_bits(0x2001_0db8_0030_0000 << 64 | u128::from(bits));
        let header = ipv6::Repr::new(source, destination, protocol::UDP, udp::HEADER_LEN);
        // Its checksum is its receiver's business.
        self.ipv6(&header, self.router, |payload| {
            let _ = udp::emit(payload, bits as u16, (bits >> 16) as u16, 0);
        })
    }

    fn solicitation(&mut self, source: Ipv6Addr) -> Result<usize> {
        let (router, station) = (self.router, self.station);
        let mut header = ipv6::Repr::new(source, ROUTER6, protocol::ICMPV6, 32);
        header.hop_limit = 255;
        self.ipv6(&header, router, |payload| {
            let _ = icmp6::emit_solicitation(payload, ROUTER6, Some(station), &source, &ROUTER6);
        })
    }

    fn advertisement(&mut self, source: Ipv6Addr) -> Result<usize> {
        let (router, station) = (self.router, self.station);
        let mut header = ipv6::Repr::new(source, ROUTER6, protocol::ICMPV6, 32);
        header.hop_limit = 255;
        let message = icmp6::Advertisement {
            router: false,
            solicited: true,
            r#override: true,
            target: source,
            link_layer: Some(station),
        };
        self.ipv6(&header, router, |payload| {
            let _ = message.emit(payload, &source, &ROUTER6);
        })
    }
}

/// A sum of 16-bit words in one of them.
pub fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::{Ipv4, Ipv6};

    /// A router that drops garbage for a wrong header would prove nothing.
    #[test]
    fn headers_are_right() {
        let (mut random, mut buffer) = (Random::new(1), [0; LONGEST]);
        for kind in Kind::CODED {
            for _ in 0..100 {
                let length = kind.frame(&mut random, MacAddr([2, 0, 0, 0, 0, 1]), &mut buffer).unwrap();
                let frame = ethernet::Ethernet::new(&buffer[..length]).unwrap();
                match frame.ethertype() {
                    ethertype::IPV4 => {
                        let packet = Ipv4::new(frame.payload()).unwrap();
                        assert!(packet.verify_checksum(), "{}", kind.name());
                        if packet.protocol() == protocol::ICMP {
                            assert!(icmp4::Icmp4::new(packet.payload()).unwrap().verify_checksum());
                        }
                    }
                    ethertype::IPV6 => {
                        let packet = Ipv6::new(frame.payload()).unwrap();
                        if packet.next_header() == protocol::ICMPV6 {
                            let message = icmp6::Icmp6::new(packet.payload()).unwrap();
                            assert!(message.verify_checksum(&packet.source(), &packet.destination()));
                        }
                    }
                    ethertype::ARP => assert_eq!(arp::Arp::new(frame.payload()).unwrap().target_ip(), ROUTER4),
                    other => assert_eq!((kind, other & 0xff00), (Kind::EtherTypes, 0x8800)),
                }
            }
        }
    }
}
