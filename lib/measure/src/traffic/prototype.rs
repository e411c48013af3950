// SPDX-License-Identifier: MIT
//! The headers of a frame: where each field is, what does not change from frame to frame, and its part of the
//! checksums.
//!
//! A checksum is a sum. So it is put together from the parts that are known at different times: the constant fields
//! once, a flow's fields once per flow, lengths and payload once per size. The stamp sums up to zero and never counts.

use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{checksum, ethernet, icmp4, icmp6, ipv4, ipv6, protocol, udp, vlan};

use super::description::{Family, Protocol};
use super::sizes::{FCS, SMALLEST};
use crate::stamp;

/// Bytes of a TCP header without options (RFC 9293 section 3.1).
const TCP_HEADER: usize = 20;
/// Room for the longest headers and the stamp: two tags, IPv6 and TCP, 100 bytes.
pub(crate) const ROOM: usize = 128;
/// Bytes of the smallest frame in memory.
pub(crate) const SHORTEST: usize = (SMALLEST - FCS) as usize;

/// The kinds of headers of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    pub protocol: Protocol,
    pub family: Family,
    /// VLAN tags, 0 to 2.
    pub tags: u8,
    /// Whether the frame carries a stamp.
    pub stamp: bool,
}

impl Headers {
    fn upper_length(self) -> usize {
        match self.protocol {
            Protocol::Udp => udp::HEADER_LEN,
            Protocol::TcpSyn => TCP_HEADER,
            Protocol::Icmp => icmp4::HEADER_LEN,
        }
    }

    fn ip_length(self) -> usize {
        if self.family == Family::Ipv4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
    }

    /// Where the IP header starts.
    fn ip(self) -> usize {
        ethernet::HEADER_LEN + usize::from(self.tags) * vlan::HEADER_LEN
    }

    /// Where the header of UDP, TCP or ICMP starts.
    fn upper(self) -> usize {
        self.ip() + self.ip_length()
    }

    /// Where the payload starts, and in it the stamp.
    fn payload(self) -> usize {
        self.upper() + self.upper_length()
    }

    /// Where headers and stamp end.
    fn end(self) -> usize {
        self.payload() + if self.stamp { stamp::LENGTH } else { 0 }
    }

    /// A list of what must be in a frame, for errors.
    pub(crate) fn contents(self) -> String {
        let tags = ["Ethernet, ", "Ethernet, a VLAN tag, ", "Ethernet, two VLAN tags, "];
        let tags = tags.get(usize::from(self.tags)).unwrap_or(&tags[2]);
        let upper = match self.protocol {
            Protocol::Udp => "UDP",
            Protocol::TcpSyn => "TCP",
            Protocol::Icmp => "an ICMP echo",
        };
        let family = self.family.name();
        if self.stamp {
            format!("{tags}{family}, {upper} and the stamp")
        } else {
            format!("{tags}{family} and {upper}")
        }
    }
}

/// The smallest frame in bytes, with the FCS, that these headers and the stamp, if there is one, fit into: 64 for UDP
/// or an ICMP echo over IPv4 with a stamp, 76 for TCP over IPv4 with it, 84 for UDP over IPv6 with it, and 4 more for
/// each tag.
pub fn smallest_frame(headers: Headers) -> u16 {
    (headers.end() as u16 + FCS).max(SMALLEST)
}

/// Parts of the two checksums of a frame, unfolded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Of the IPv4 header.
    pub ip: u32,
    /// Of UDP, TCP or ICMP and its pseudo header.
    pub upper: u32,
}

impl Sums {
    #[inline(always)]
    pub fn add(self, other: Sums) -> Sums {
        Sums { ip: self.ip + other.ip, upper: self.upper + other.upper }
    }
}

/// The fields of a frame that a description gives values to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    SourceMac,
    DestinationMac,
    ServiceVlan,
    Vlan,
    Source,
    Destination,
    SourcePort,
    DestinationPort,
}

impl Place {
    /// The same field of the opposite direction. An ICMP echo has one identifier, in the place of the source port.
    pub fn opposite(self, protocol: Protocol) -> Place {
        match self {
            Place::SourceMac => Place::DestinationMac,
            Place::DestinationMac => Place::SourceMac,
            Place::Source => Place::Destination,
            Place::Destination => Place::Source,
            Place::SourcePort if protocol != Protocol::Icmp => Place::DestinationPort,
            Place::DestinationPort => Place::SourcePort,
            Place::SourcePort | Place::ServiceVlan | Place::Vlan => self,
        }
    }
}

/// Where a field is, and what it counts for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    at: usize,
    /// In bytes: 2, 4, 6 or 16.
    width: usize,
    /// Whether it counts for the checksum of the IPv4 header, ...
    pub in_ip: bool,
    /// ... and for that of UDP, TCP or ICMP.
    pub in_upper: bool,
}

/// Sizes and sums of one frame size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fitted {
    /// Bytes in memory, without the FCS.
    pub length: u16,
    /// What the IP header has as its length.
    pub ip_length: u16,
    /// What the UDP header has as its length.
    pub upper_length: u16,
    pub sums: Sums,
}

/// Where the fields are that follow from all others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Computed {
    pub ip_length: usize,
    /// Of UDP.
    pub upper_length: Option<usize>,
    /// Of IPv4.
    pub ip_checksum: Option<usize>,
    pub upper_checksum: usize,
}

/// The headers of all frames, with zeros where flows or sizes differ.
#[derive(Debug, Clone)]
pub(crate) struct Prototype {
    headers: Headers,
    /// Headers, a zero stamp, and in short ones the first bytes of the payload.
    pub bytes: [u8; ROOM],
    /// How many of those bytes a frame starts with.
    pub length: usize,
    pub sums: Sums,
    /// What follows in a frame, long enough for the longest one.
    pub tail: Vec<u8>,
}

/// The payload behind the stamp: 0, 1, 2, ...
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| at as u8).collect()
}

impl Prototype {
    /// Headers with these constants; `longest` is the longest frame in memory in bytes.
    pub fn new(headers: Headers, ttl: u8, dscp: u8, longest: usize) -> Prototype {
        let mut bytes = [0; ROOM];
        let (ip, upper, end) = (headers.ip(), headers.upper(), headers.end());
        let network = if headers.family == Family::Ipv4 { ethertype::IPV4 } else { ethertype::IPV6 };
        let types: &[u16] = match headers.tags {
            0 => &[network],
            1 => &[ethertype::VLAN, network],
            _ => &[ethertype::QINQ, ethertype::VLAN, network],
        };
        for (at, kind) in (12..).step_by(vlan::HEADER_LEN).zip(types) {
            put16(&mut bytes, at, *kind);
        }
        let carried = protocol_number(headers);
        match headers.family {
            // Version, header length, DSCP; Don't Fragment; TTL and protocol.
            Family::Ipv4 => {
                put16(&mut bytes, ip, 0x4500 | u16::from(dscp) << 2);
                put16(&mut bytes, ip + 6, 0x4000);
                put16(&mut bytes, ip + 8, u16::from(ttl) << 8 | u16::from(carried));
            }
            // Version and traffic class; next header and hop limit.
            Family::Ipv6 => {
                put16(&mut bytes, ip, 0x6000 | u16::from(dscp) << 6);
                put16(&mut bytes, ip + 6, u16::from(carried) << 8 | u16::from(ttl));
            }
        }
        match headers.protocol {
            Protocol::Udp => {}
            // Sequence number 1, five words of header, SYN, the largest window.
            Protocol::TcpSyn => {
                put16(&mut bytes, upper + 6, 1);
                put16(&mut bytes, upper + 12, 0x5002);
                put16(&mut bytes, upper + 14, 0xffff);
            }
            Protocol::Icmp if headers.family == Family::Ipv4 => bytes[upper] = icmp4::ECHO_REQUEST,
            Protocol::Icmp => bytes[upper] = icmp6::ECHO_REQUEST,
        }
        let mut sums = Sums { ip: checksum::sum(&bytes[ip..upper]), upper: checksum::sum(&bytes[upper..end]) };
        if has_pseudo_header(headers) {
            sums.upper += u32::from(carried);
        }
        let length = end.max(SHORTEST);
        let mut tail = pattern(longest.max(length) - end);
        bytes[end..length].copy_from_slice(&tail[..length - end]);
        tail.drain(..length - end);
        Prototype { headers, bytes, length, sums, tail }
    }

    /// Where a field is.
    pub fn spot(&self, place: Place) -> Spot {
        let headers = self.headers;
        let spot = |at, width, in_ip, in_upper| Spot { at, width, in_ip, in_upper };
        let pseudo = has_pseudo_header(headers);
        let (first_address, width) = if headers.family == Family::Ipv4 { (12, 4) } else { (8, 16) };
        let first_port = match headers.protocol {
            Protocol::Udp | Protocol::TcpSyn => headers.upper(),
            Protocol::Icmp => headers.upper() + 4,
        };
        match place {
            Place::DestinationMac => spot(0, 6, false, false),
            Place::SourceMac => spot(6, 6, false, false),
            Place::ServiceVlan => spot(14, 2, false, false),
            Place::Vlan => spot(headers.ip() - vlan::HEADER_LEN, 2, false, false),
            Place::Source => spot(headers.ip() + first_address, width, true, pseudo),
            Place::Destination => spot(headers.ip() + first_address + width, width, true, pseudo),
            Place::SourcePort => spot(first_port, 2, false, true),
            Place::DestinationPort => spot(first_port + 2, 2, false, true),
        }
    }

    /// What a frame size, with the FCS, has in its headers.
    pub fn fit(&self, size: u16) -> Fitted {
        let length = size - FCS;
        let headers = self.headers;
        let upper_length = length - headers.upper() as u16;
        // The length fields are in both headers, and in the pseudo header.
        let ip_length = match headers.family {
            Family::Ipv4 => length - headers.ip() as u16,
            Family::Ipv6 => upper_length,
        };
        let mut upper = checksum::sum(&pattern(usize::from(length) - headers.end()));
        upper += if has_pseudo_header(headers) { u32::from(upper_length) } else { 0 };
        upper += if headers.protocol == Protocol::Udp { u32::from(upper_length) } else { 0 };
        Fitted { length, ip_length, upper_length, sums: Sums { ip: ip_length.into(), upper } }
    }

    /// Where lengths and checksums are.
    pub fn computed(&self) -> Computed {
        let (ip, upper) = (self.headers.ip(), self.headers.upper());
        let v4 = self.headers.family == Family::Ipv4;
        let upper_checksum = match self.headers.protocol {
            Protocol::Udp => upper + 6,
            Protocol::TcpSyn => upper + 16,
            Protocol::Icmp => upper + 2,
        };
        Computed {
            ip_length: if v4 { ip + 2 } else { ip + 4 },
            upper_length: (self.headers.protocol == Protocol::Udp).then_some(upper + 4),
            ip_checksum: v4.then_some(ip + 10),
            upper_checksum,
        }
    }

    /// Writes the lengths of a size.
    pub fn put_lengths(&self, head: &mut [u8], fitted: &Fitted) {
        let places = self.computed();
        put16(head, places.ip_length, fitted.ip_length);
        if let Some(length) = places.upper_length {
            put16(head, length, fitted.upper_length);
        }
    }

    /// Writes lengths and checksums; `sums` are those of the constants and the flow.
    pub fn finish(&self, head: &mut [u8], fitted: &Fitted, sums: Sums) {
        self.put_lengths(head, fitted);
        let (places, sums) = (self.computed(), sums.add(fitted.sums));
        if let Some(checksum) = places.ip_checksum {
            put16(head, checksum, checksum::finish(sums.ip));
        }
        let upper = match checksum::finish(sums.upper) {
            // 0 would be no checksum (RFC 768); its other form in ones' complement says the same.
            0 if places.upper_length.is_some() => 0xffff,
            upper => upper,
        };
        put16(head, places.upper_checksum, upper);
    }

    /// Whether these headers end in a stamp.
    pub fn is_stamped(&self) -> bool {
        self.headers.stamp
    }
}

/// The checksum of ICMP over IPv4 has no pseudo header (RFC 792); all others have one.
fn has_pseudo_header(headers: Headers) -> bool {
    (headers.protocol, headers.family) != (Protocol::Icmp, Family::Ipv4)
}

fn protocol_number(headers: Headers) -> u8 {
    match (headers.protocol, headers.family) {
        (Protocol::Udp, _) => protocol::UDP,
        (Protocol::TcpSyn, _) => protocol::TCP,
        (Protocol::Icmp, Family::Ipv4) => protocol::ICMP,
        (Protocol::Icmp, Family::Ipv6) => protocol::ICMPV6,
    }
}

impl Spot {
    /// Whether the field is wider than 32 bits.
    pub fn is_wide(&self) -> bool {
        self.width > 4
    }

    /// Where the field is.
    pub fn bytes(&self) -> std::ops::Range<usize> {
        self.at..self.at + self.width
    }

    /// Writes a value, and adds its part of the checksums.
    pub fn put(&self, head: &mut [u8], value: u128, sums: &mut Sums) {
        let bytes = value.to_be_bytes();
        let bytes = &bytes[bytes.len() - self.width..];
        head[self.bytes()].copy_from_slice(bytes);
        let sum = checksum::sum(bytes);
        sums.ip += if self.in_ip { sum } else { 0 };
        sums.upper += if self.in_upper { sum } else { 0 };
    }
}

fn put16(to: &mut [u8], at: usize, value: u16) {
    to[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
