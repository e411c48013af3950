// SPDX-License-Identifier: MIT
//! A frame that came out of the router, and what is looked for in it.

use super::checksum;
use crate::network::Side;
use perigee_net::MacAddr;
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{arp, icmp4, icmp6, protocol};
use perigee_packet::{Arp, Icmp4, Icmp6, Ipv4, Ipv6};
use std::net::IpAddr;

/// A frame, and the link that it came on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    pub side: Side,
    pub frame: Vec<u8>,
}

/// An ICMP message and the packet that it is in.
pub type Message4<'a> = (Ipv4<&'a [u8]>, Icmp4<&'a [u8]>);
/// An ICMPv6 message and the packet that it is in.
pub type Message6<'a> = (Ipv6<&'a [u8]>, Icmp6<&'a [u8]>);

/// An ICMP error of either family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpError {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// TTL, or hop limit.
    pub ttl: u8,
    pub kind: u8,
    pub code: u8,
    /// Bytes 4 to 7 of the message: MTU, pointer or gateway.
    pub rest: u32,
    /// The packet that it is about, as far as it is there.
    pub quoted: Vec<u8>,
    /// Bytes of the whole IP packet.
    pub length: usize,
    /// Whether all checksums are right.
    pub sound: bool,
}

/// ICMPv4 types that report an error about a packet (RFC 1122 3.2.2).
const ERRORS4: [u8; 5] =
    [icmp4::UNREACHABLE, icmp4::SOURCE_QUENCH, icmp4::REDIRECT, icmp4::TIME_EXCEEDED, icmp4::PARAMETER_PROBLEM];

impl Caught {
    /// The station that the frame is for.
    pub fn to(&self) -> MacAddr {
        MacAddr(self.frame[..6].try_into().expect("six bytes"))
    }

    /// The station that sent it.
    pub fn from(&self) -> MacAddr {
        MacAddr(self.frame[6..12].try_into().expect("six bytes"))
    }

    /// Its Ethernet type.
    pub fn ethertype(&self) -> u16 {
        u16::from_be_bytes([self.frame[12], self.frame[13]])
    }

    /// What follows the Ethernet header.
    pub fn packet(&self) -> &[u8] {
        &self.frame[14..]
    }

    /// The IPv4 packet, unchecked, at least its first 20 bytes.
    pub fn header4(&self) -> Option<&[u8]> {
        (self.ethertype() == ethertype::IPV4 && self.packet().len() >= 20).then(|| self.packet())
    }

    /// The IPv4 packet, if its lengths make sense.
    pub fn ip4(&self) -> Option<Ipv4<&[u8]>> {
        self.header4().and_then(|packet| Ipv4::new(packet).ok())
    }

    /// The IPv6 packet, unchecked, at least its first 40 bytes.
    pub fn bytes6(&self) -> Option<&[u8]> {
        (self.ethertype() == ethertype::IPV6 && self.packet().len() >= 40).then(|| self.packet())
    }

    /// The IPv6 packet, if its lengths make sense.
    pub fn ip6(&self) -> Option<Ipv6<&[u8]>> {
        self.bytes6().and_then(|packet| Ipv6::new(packet).ok())
    }

    /// The ARP message.
    pub fn arp(&self) -> Option<Arp<&[u8]>> {
        (self.ethertype() == ethertype::ARP).then(|| Arp::new(self.packet()).ok())?
    }

    /// Whether this is a question for the MAC address of an address: an ARP request or a neighbor solicitation.
    pub fn asks_for(&self, address: impl Into<IpAddr>) -> bool {
        match address.into() {
            IpAddr::V4(address) => {
                self.arp().is_some_and(|message| message.operation() == arp::REQUEST && message.target_ip() == address)
            }
            IpAddr::V6(address) => self.icmp6().is_some_and(|(_, message)| {
                message.kind() == icmp6::NEIGHBOR_SOLICITATION && target(&message) == Some(address)
            }),
        }
    }

    /// The ICMP message of a packet that is not a later fragment.
    pub fn icmp4(&self) -> Option<Message4<'_>> {
        let packet =
            self.ip4().filter(|packet| packet.protocol() == protocol::ICMP && packet.fragment_offset() == 0)?;
        let whole = packet.into_inner();
        let message = Icmp4::new(whole.get(packet.header_len()..packet.total_len())?).ok()?;
        Some((packet, message))
    }

    /// The ICMPv6 message, behind any extension headers.
    pub fn icmp6(&self) -> Option<Message6<'_>> {
        let packet = self.ip6()?;
        let (whole, length) = (packet.into_inner(), packet.payload_len());
        let upper = packet.upper_layer().ok()?;
        let is_icmp = upper.protocol == protocol::ICMPV6 && upper.has_header();
        let message = is_icmp.then(|| Icmp6::new(whole.get(upper.offset..40 + length)?).ok())??;
        Some((packet, message))
    }

    /// The ICMP error.
    pub fn error4(&self) -> Option<IcmpError> {
        let (packet, message) = self.icmp4().filter(|(_, message)| ERRORS4.contains(&message.kind()))?;
        let bytes = message.into_inner();
        Some(IcmpError {
            source: packet.source().into(),
            destination: packet.destination().into(),
            tos: packet.tos(),
            ttl: packet.ttl(),
            kind: message.kind(),
            code: message.code(),
            rest: rest(bytes),
            quoted: bytes[8..].to_vec(),
            length: packet.total_len(),
            sound: packet.verify_checksum() && message.verify_checksum(),
        })
    }

    /// The ICMPv6 error; a redirect is none.
    pub fn error6(&self) -> Option<IcmpError> {
        let (packet, message) = self.icmp6().filter(|(_, message)| message.kind() < 128)?;
        let bytes = message.into_inner();
        let (source, destination) = (packet.source(), packet.destination());
        Some(IcmpError {
            source: source.into(),
            destination: destination.into(),
            tos: packet.traffic_class(),
            ttl: packet.hop_limit(),
            kind: message.kind(),
            code: message.code(),
            rest: rest(bytes),
            quoted: bytes[8..].to_vec(),
            length: 40 + packet.payload_len(),
            sound: message.verify_checksum(&source, &destination),
        })
    }

    /// Whether this is what neighbors on a link say to each other anyway: ARP, neighbor discovery, groups, and what is
    /// not IP.
    pub fn is_chatter(&self) -> bool {
        if let Some(header) = self.header4() {
            return header[9] == 2; // IGMP
        }
        match self.icmp6() {
            Some((_, message)) => matches!(message.kind(), 130..=137 | 143),
            // Not even what is no whole header.
            None => !matches!(self.ethertype(), ethertype::IPV4 | ethertype::IPV6),
        }
    }

    /// In a few words, for a reason.
    pub fn describe(&self) -> String {
        format!("{} on the {} link", perigee_packet::Summary::of(&self.frame), self.side)
    }
}

/// The target of a neighbor solicitation or advertisement.
pub fn target(message: &Icmp6<&[u8]>) -> Option<std::net::Ipv6Addr> {
    let bytes: [u8; 16] = message.into_inner().get(8..24)?.try_into().ok()?;
    Some(bytes.into())
}

fn rest(message: &[u8]) -> u32 {
    u32::from_be_bytes([message[4], message[5], message[6], message[7]])
}

/// The payload that fragments make, if they are all there and fit without gaps or overlaps; a packet that is no
/// fragment is its own.
pub fn reassemble4<'a>(packets: impl IntoIterator<Item = &'a Caught>) -> Option<Vec<u8>> {
    let pieces = packets.into_iter().filter_map(|caught| {
        let packet = caught.ip4().filter(Ipv4::verify_checksum)?;
        let payload = packet.into_inner().get(packet.header_len()..packet.total_len())?.to_vec();
        Some((packet.fragment_offset(), packet.more_fragments(), payload))
    });
    join(pieces.collect())
}

/// As [`reassemble4`], of IPv6.
pub fn reassemble6<'a>(packets: impl IntoIterator<Item = &'a Caught>) -> Option<Vec<u8>> {
    let pieces = packets.into_iter().filter_map(|caught| {
        let packet = caught.ip6()?;
        let (whole, length) = (packet.into_inner(), packet.payload_len());
        let upper = packet.upper_layer().ok()?;
        let (offset, more) = upper.fragment.map_or((0, false), |fragment| (fragment.offset, fragment.more));
        Some((offset, more, whole.get(upper.offset..40 + length)?.to_vec()))
    });
    join(pieces.collect())
}

fn join(mut pieces: Vec<(usize, bool, Vec<u8>)>) -> Option<Vec<u8>> {
    pieces.sort();
    let mut whole = Vec::new();
    let last = pieces.len().checked_sub(1)?;
    for (number, (offset, more, payload)) in pieces.into_iter().enumerate() {
        if offset != whole.len() || more == (number == last) {
            return None;
        }
        whole.extend(payload);
    }
    Some(whole)
}

/// Whether the checksum of an ICMPv4 message is right; of one that was put together from fragments.
pub fn is_sound4(message: &[u8]) -> bool {
    checksum(message) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Packet4, Packet6, framed};

    fn caught(ethertype: u16, packet: &[u8]) -> Caught {
        Caught { side: Side::Right, frame: framed(MacAddr::ZERO, MacAddr::BROADCAST, ethertype, packet) }
    }

    #[test]
    fn fragments_make_a_whole_only_if_none_is_missing_or_doubled() {
        let (a, b) = (Side::Left.station4(), Side::Left.router4());
        let packet = Packet4::echo(3, a, b, 1000);
        let pieces: Vec<_> =
            packet.pieces(400).iter().rev().map(|piece| caught(ethertype::IPV4, &piece.to_vec())).collect();
        assert_eq!(reassemble4(&pieces), Some(packet.payload.clone()));
        assert!(is_sound4(&packet.payload));
        assert_eq!(reassemble4(&pieces[1..]), None);
        assert_eq!(reassemble4([&pieces[0], &pieces[0], &pieces[1], &pieces[2]]), None);
        let packet = Packet6::echo(3, Side::Left.station6(), Side::Left.router6(), 1000);
        let pieces: Vec<_> =
            packet.pieces(9, 400).iter().map(|piece| caught(ethertype::IPV6, &piece.to_vec())).collect();
        assert_eq!(reassemble6(&pieces), Some(packet.upper_layer()));
        assert_eq!(reassemble6(&pieces[..2]), None);
    }

    #[test]
    fn an_error_is_about_the_packet_that_it_quotes() {
        use crate::wire::Probe;
        let (a, b) = (Side::Left.station4(), Side::Left.router4());
        let (asked, other) = (Packet4::udp(7, a, b, 8), Packet4::udp(8, a, b, 8));
        let error = Packet4::icmp(9, b, a, (11, 0, 0), &asked.to_vec());
        let error = caught(ethertype::IPV4, &error.to_vec());
        assert!(asked.error_in(&error).is_some_and(|found| found.sound && found.kind == 11));
        assert!(other.error_in(&error).is_none() && !asked.is_in(&error) && !error.is_chatter());
        let (a, b) = (Side::Left.station6(), Side::Left.router6());
        let asked = Packet6::udp(7 << 40, a, b, 80);
        let error = Packet6::icmp(9, b, a, (2, 0, 1400), &asked.to_vec());
        let error = caught(ethertype::IPV6, &error.to_vec());
        assert!(asked.error_in(&error).is_some_and(|found| found.sound && found.rest == 1400));
        assert!(!asked.is_in(&error));
    }
}
