// SPDX-License-Identifier: MIT
//! A frame parsed as far as possible: everything that an [`Expression`](crate::Expression) asks for, and a line to
//! read.
//!
//! Unlike the views this refuses nothing, as it serves to look at frames that are dropped because they are broken:
//! whatever is cut off or makes no sense is `None`.

use crate::wire::ethernet::{self, ethertype};
use crate::wire::extension::ExtensionHeaders;
use crate::wire::vlan;
use crate::wire::{Arp, arp, icmp4, icmp6, protocol};
use perigee_net::MacAddr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Bytes from the destination MAC address on.
    pub length: usize,
    /// Destination and source MAC address.
    pub macs: Option<(MacAddr, MacAddr)>,
    /// VLAN identifier of the outermost tag.
    pub vlan: Option<u16>,
    /// Type of what is in the frame, behind its tags.
    pub ethertype: Option<u16>,
    /// Where the network header starts, in bytes.
    pub network: usize,
    /// Source and destination: of IPv4 and IPv6, and ARP's sender and target.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// TTL or hop limit.
    pub hops: Option<u8>,
    /// The upper layer's number, behind IPv6's extension headers.
    pub protocol: Option<u8>,
    /// Source and destination port, where the protocol has ports and they are here: not in later fragments.
    pub ports: Option<(u16, u16)>,
    /// It is a piece of a larger packet.
    pub fragment: bool,
    /// Type and code of ICMP, operation of ARP.
    pub kind: Option<(u16, u8)>,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

impl Summary {
    /// Parses a frame.
    pub fn of(frame: &[u8]) -> Summary {
        let mut found = Summary {
            length: frame.len(),
            macs: None,
            vlan: None,
            ethertype: None,
            network: 0,
            addresses: None,
            hops: None,
            protocol: None,
            ports: None,
            fragment: false,
            kind: None,
        };
        let Ok(header) = crate::Ethernet::new(frame) else { return found };
        found.macs = Some((header.destination(), header.source()));
        found.ethertype = Some(header.ethertype());
        found.network = ethernet::HEADER_LEN;
        if let Ok(inner) = vlan::innermost(frame) {
            found.vlan = inner.outer_vid;
            found.ethertype = Some(inner.ethertype);
            found.network = inner.offset;
        }
        let packet = &frame[found.network..];
        match found.ethertype {
            Some(ethertype::IPV4) => found.ipv4(packet),
            Some(ethertype::IPV6) => found.ipv6(packet),
            Some(ethertype::ARP) => found.arp(packet),
            _ => {}
        }
        found
    }

    fn ipv4(&mut self, packet: &[u8]) {
        let Some(header) = packet.first_chunk::<20>() else { return };
        let address = |at: usize| IpAddr::V4(Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|i| header[at + i])));
        self.addresses = Some((address(12), address(16)));
        (self.hops, self.protocol) = (Some(header[8]), Some(header[9]));
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        self.fragment = fragment & 0x3fff != 0;
        let length = usize::from(header[0] & 15) * 4;
        if fragment & 0x1fff == 0 && length >= 20 {
            self.upper(header[9], packet.get(length..).unwrap_or_default());
        }
    }

    fn ipv6(&mut self, packet: &[u8]) {
        let Some((header, payload)) = packet.split_first_chunk::<40>() else { return };
        let address = |at: usize| IpAddr::V6(Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| header[at + i])));
        self.addresses = Some((address(8), address(24)));
        self.hops = Some(header[7]);
        let Ok(upper) = ExtensionHeaders::new(header[6], payload).upper_layer() else { return };
        self.protocol = Some(upper.protocol);
        self.fragment = upper.is_fragment();
        if upper.has_header() {
            self.upper(upper.protocol, upper.payload);
        }
    }

    fn upper(&mut self, number: u8, payload: &[u8]) {
        match number {
            protocol::TCP | protocol::UDP | protocol::DCCP | protocol::SCTP | protocol::UDP_LITE => {
                self.ports = be16(payload, 0).zip(be16(payload, 2));
            }
            protocol::ICMP | protocol::ICMPV6 => {
                self.kind = payload.first_chunk::<2>().map(|[kind, code]| ((*kind).into(), *code));
            }
            _ => {}
        }
    }

    fn arp(&mut self, packet: &[u8]) {
        let Ok(message) = Arp::new(packet) else { return };
        self.addresses = Some((message.sender_ip().into(), message.target_ip().into()));
        self.kind = Some((message.operation(), 0));
    }

    /// The name of the upper layer, one word or two.
    fn upper_name(&self) -> String {
        let icmp = |name: &str, kind: &str| match (kind, self.kind) {
            ("", Some((kind, code))) => format!("{name} type {kind} code {code}"),
            _ => format!("{name} {kind}").trim_end().to_owned(),
        };
        let kind = self.kind.map_or(u8::MAX, |(kind, _)| kind as u8);
        match self.protocol {
            Some(protocol::TCP) => "TCP".to_owned(),
            Some(protocol::UDP) => "UDP".to_owned(),
            Some(protocol::ICMP) => icmp("ICMP", icmp4_name(kind)),
            Some(protocol::ICMPV6) => icmp("ICMPv6", icmp6_name(kind)),
            Some(protocol::IGMP) => "IGMP".to_owned(),
            Some(protocol::OSPF) => "OSPF".to_owned(),
            Some(number) => format!("protocol {number}"),
            None => "bad extension headers".to_owned(),
        }
    }
}

fn icmp4_name(kind: u8) -> &'static str {
    match kind {
        icmp4::ECHO_REQUEST => "echo request",
        icmp4::ECHO_REPLY => "echo reply",
        icmp4::UNREACHABLE => "destination unreachable",
        icmp4::TIME_EXCEEDED => "time exceeded",
        icmp4::PARAMETER_PROBLEM => "parameter problem",
        icmp4::REDIRECT => "redirect",
        _ => "",
    }
}

fn icmp6_name(kind: u8) -> &'static str {
    match kind {
        icmp6::ECHO_REQUEST => "echo request",
        icmp6::ECHO_REPLY => "echo reply",
        icmp6::UNREACHABLE => "destination unreachable",
        icmp6::PACKET_TOO_BIG => "packet too big",
        icmp6::TIME_EXCEEDED => "time exceeded",
        icmp6::PARAMETER_PROBLEM => "parameter problem",
        icmp6::ROUTER_SOLICITATION => "router solicitation",
        icmp6::ROUTER_ADVERTISEMENT => "router advertisement",
        icmp6::NEIGHBOR_SOLICITATION => "neighbor solicitation",
        icmp6::NEIGHBOR_ADVERTISEMENT => "neighbor advertisement",
        _ => "",
    }
}

/// One line: `10.0.1.2.1000 > 10.0.2.2.2000: UDP, TTL 64, 50 bytes`. The MAC addresses only where there is nothing
/// better.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((to, from)) = self.macs else { return write!(f, "{} bytes, no whole Ethernet header", self.length) };
        if let Some(vlan) = self.vlan {
            write!(f, "VLAN {vlan}, ")?;
        }
        match (self.ethertype, self.addresses, self.kind) {
            (Some(ethertype::ARP), Some((sender, target)), Some((arp::REQUEST, _))) => {
                write!(f, "ARP: who has {target}? tell {sender}")?;
            }
            (Some(ethertype::ARP), Some((sender, _)), Some((arp::REPLY, _))) => {
                write!(f, "ARP: {sender} is at {from}")?
            }
            (Some(ethertype::IPV4 | ethertype::IPV6), Some((source, destination)), _) => {
                match self.ports {
                    Some((s, d)) => write!(f, "{source}.{s} > {destination}.{d}: ")?,
                    None => write!(f, "{source} > {destination}: ")?,
                }
                write!(f, "{}", self.upper_name())?;
                if self.fragment {
                    write!(f, ", fragment")?;
                }
                if let Some(hops) = self.hops {
                    let name = if self.ethertype == Some(ethertype::IPV4) { "TTL" } else { "hop limit" };
                    write!(f, ", {name} {hops}")?;
                }
            }
            (kind, ..) => {
                let name = match kind {
                    Some(ethertype::IPV4) => "short IPv4".to_owned(),
                    Some(ethertype::IPV6) => "short IPv6".to_owned(),
                    Some(ethertype::ARP) => "malformed ARP".to_owned(),
                    other => format!("type {:#06x}", other.unwrap_or(0)),
                };
                write!(f, "{from} > {to}: {name}")?;
            }
        }
        write!(f, ", {} bytes", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, upper: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 20 + upper.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2]);
        frame.extend(upper);
        frame
    }

    #[test]
    fn one_line_says_what_it_is() {
        let udp = ipv4(17, &[3, 232, 7, 208, 0, 8, 0, 0]);
        assert_eq!(Summary::of(&udp).to_string(), "10.0.1.2.1000 > 10.0.2.2.2000: UDP, TTL 64, 42 bytes");
        let echo = Summary::of(&ipv4(1, &[8, 0, 0, 0, 0, 0, 0, 0])).to_string();
        assert_eq!(echo, "10.0.1.2 > 10.0.2.2: ICMP echo request, TTL 64, 42 bytes");
        assert_eq!(
            Summary::of(&ipv4(1, &[99, 7])).to_string(),
            "10.0.1.2 > 10.0.2.2: ICMP type 99 code 7, TTL 64, 36 bytes"
        );
        let mut later = udp.clone();
        later[21] = 9;
        assert_eq!(Summary::of(&later).to_string(), "10.0.1.2 > 10.0.2.2: UDP, fragment, TTL 64, 42 bytes");
        let mut tagged = udp.clone();
        tagged.splice(12..12, [0x81, 0, 0x20, 7]);
        assert!(Summary::of(&tagged).to_string().starts_with("VLAN 7, 10.0.1.2.1000 > "));
        assert_eq!(Summary::of(&udp[..20]).to_string(), "02:00:00:00:00:02 > 02:00:00:00:00:01: short IPv4, 20 bytes");
        assert_eq!(Summary::of(&udp[..5]).to_string(), "5 bytes, no whole Ethernet header");
    }

    #[test]
    fn arp_is_a_question_and_an_answer() {
        let mut frame = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 8, 6];
        let mut message = [0; arp::LEN];
        let ask = arp::Repr::request(MacAddr([2, 0, 0, 0, 0, 2]), [10, 0, 1, 2].into(), [10, 0, 1, 1].into());
        ask.emit(&mut message).unwrap();
        frame.extend(message);
        assert_eq!(Summary::of(&frame).to_string(), "ARP: who has 10.0.1.1? tell 10.0.1.2, 42 bytes");
        frame[21] = 2;
        assert_eq!(Summary::of(&frame).to_string(), "ARP: 10.0.1.2 is at 02:00:00:00:00:02, 42 bytes");
    }

    #[test]
    fn extension_headers_are_walked() {
        let mut frame = vec![0; 14 + 40];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60;
        frame[20] = protocol::DESTINATION_OPTIONS;
        frame.extend([17, 0, 1, 4, 0, 0, 0, 0, 0, 53, 0, 54]);
        let found = Summary::of(&frame);
        assert_eq!((found.protocol, found.ports), (Some(17), Some((53, 54))));
        frame.truncate(58);
        assert_eq!((Summary::of(&frame).protocol, Summary::of(&frame).ports), (None, None));
    }
}
