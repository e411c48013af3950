// SPDX-License-Identifier: MIT
//! IPv6 packets, every field of which a row may choose.

use super::{Caught, IcmpError, Probe, checksum, filling};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{icmp6, protocol};
use std::borrow::Cow;
use std::net::Ipv6Addr;

/// An extension header: its number, and its bytes, whose first one is filled in.
pub type Extension = (u8, Vec<u8>);

/// Hop-by-hop options, padded to 8 bytes.
pub fn hop_by_hop(options: &[u8]) -> Extension {
    (protocol::HOP_BY_HOP, with_options(options))
}

/// Destination options, padded to 8 bytes.
pub fn destination_options(options: &[u8]) -> Extension {
    (protocol::DESTINATION_OPTIONS, with_options(options))
}

/// Hop-by-hop options that say nothing: enough to take a packet off the fast path.
pub fn pad() -> Extension {
    hop_by_hop(&[])
}

/// A routing header of this type with one address.
pub fn routing(kind: u8, segments_left: u8, address: Ipv6Addr) -> Extension {
    let mut bytes = vec![0, 2, kind, segments_left, 0, 0, 0, 0];
    bytes.extend(address.octets());
    (protocol::ROUTING, bytes)
}

/// A fragment header; the offset is in bytes, a multiple of 8.
pub fn fragment_header(identification: u32, offset: usize, more: bool) -> Extension {
    let mut bytes = vec![0, 0];
    bytes.extend((offset as u16 | u16::from(more)).to_be_bytes());
    bytes.extend(identification.to_be_bytes());
    (protocol::FRAGMENT, bytes)
}

fn with_options(options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend(options);
    match bytes.len().next_multiple_of(8) - bytes.len() {
        0 => {}
        1 => bytes.push(0),
        room => {
            bytes.extend([1, (room - 2) as u8]);
            bytes.resize(bytes.len() + room - 2, 0);
        }
    }
    bytes[1] = (bytes.len() / 8 - 1) as u8;
    bytes
}

/// An IPv6 packet. A mark of 8 bytes, different for each, is all over its data and tells what it is when it comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet6 {
    pub mark: u64,
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub traffic_class: u8,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub extensions: Vec<Extension>,
    pub protocol: u8,
    /// Its checksum is filled in, at byte 2 or 6, while it has one.
    pub payload: Vec<u8>,
    /// Whether the checksum is filled in.
    pub sums: bool,
}

impl Packet6 {
    /// UDP with this number of bytes behind the header.
    pub fn udp(mark: u64, source: Ipv6Addr, destination: Ipv6Addr, data: usize) -> Packet6 {
        let mut payload = Vec::with_capacity(8 + data);
        for word in [1024 | mark as u16 & 0x3ff, 9, (8 + data) as u16, 0] {
            payload.extend(word.to_be_bytes());
        }
        payload.extend(filling(mark, data));
        Packet6::with(mark, source, destination, protocol::UDP, payload)
    }

    /// An ICMPv6 message.
    pub fn icmp(
        mark: u64,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        (kind, code, rest): (u8, u8, u32),
        body: &[u8],
    ) -> Packet6 {
        let mut payload = vec![kind, code, 0, 0];
        payload.extend(rest.to_be_bytes());
        payload.extend(body);
        Packet6::with(mark, source, destination, protocol::ICMPV6, payload)
    }

    /// An echo request with this number of bytes of data.
    pub fn echo(mark: u64, source: Ipv6Addr, destination: Ipv6Addr, data: usize) -> Packet6 {
        Packet6::icmp(mark, source, destination, (icmp6::ECHO_REQUEST, 0, mark as u32), &filling(mark, data))
    }

    fn with(mark: u64, source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, payload: Vec<u8>) -> Packet6 {
        let (traffic_class, flow_label, hop_limit, extensions) = (0, 0, 64, Vec::new());
        Packet6 {
            mark,
            source,
            destination,
            traffic_class,
            flow_label,
            hop_limit,
            extensions,
            protocol,
            payload,
            sums: true,
        }
    }

    /// With this hop limit.
    pub fn hop_limit(self, hop_limit: u8) -> Packet6 {
        Packet6 { hop_limit, ..self }
    }

    /// From this source.
    pub fn from(self, source: Ipv6Addr) -> Packet6 {
        Packet6 { source, ..self }
    }

    /// To this destination.
    pub fn to(self, destination: Ipv6Addr) -> Packet6 {
        Packet6 { destination, ..self }
    }

    /// With one more extension header, behind those it has.
    pub fn extension(mut self, extension: Extension) -> Packet6 {
        self.extensions.push(extension);
        self
    }

    /// The payload with its checksum.
    pub fn upper_layer(&self) -> Vec<u8> {
        let mut payload = self.payload.clone();
        let at = match self.protocol {
            protocol::UDP => 6,
            protocol::ICMPV6 => 2,
            _ => return payload,
        };
        if self.sums {
            let mut all = Vec::new();
            all.extend(self.source.octets());
            all.extend(self.destination.octets());
            all.extend((payload.len() as u32).to_be_bytes());
            all.extend([0, 0, 0, self.protocol]);
            payload[at..at + 2].fill(0);
            all.extend(&payload);
            let sum = match checksum(&all) {
                0 if self.protocol == protocol::UDP => 0xffff,
                sum => sum,
            };
            payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        payload
    }

    /// The packet in fragments of this many bytes of payload, a multiple of 8, behind the extension headers it has.
    pub fn pieces(&self, identification: u32, length: usize) -> Vec<Packet6> {
        let whole = self.upper_layer();
        (0..whole.len()).step_by(length).map(|offset| self.piece(identification, offset, length)).collect()
    }

    /// One of them, at any offset that is a multiple of 8.
    pub fn piece(&self, identification: u32, offset: usize, length: usize) -> Packet6 {
        let whole = self.upper_layer();
        let end = (offset + length).min(whole.len());
        let header = fragment_header(identification, offset, end < whole.len());
        let payload = whole[offset..end].to_vec();
        Packet6 { payload, sums: false, ..self.clone() }.extension(header)
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let payload = self.upper_layer();
        let length = self.extensions.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() + payload.len();
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        let mut bytes = first.to_be_bytes().to_vec();
        bytes.extend((length as u16).to_be_bytes());
        bytes.extend([self.extensions.first().map_or(self.protocol, |(kind, _)| *kind), self.hop_limit]);
        bytes.extend(self.source.octets());
        bytes.extend(self.destination.octets());
        let next = self.extensions.iter().skip(1).map(|(kind, _)| *kind).chain([self.protocol]);
        for ((_, header), next) in self.extensions.iter().zip(next) {
            bytes.push(next);
            bytes.extend(&header[1..]);
        }
        bytes.extend(payload);
        bytes
    }
}

impl Probe for Packet6 {
    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.to_vec())
    }

    fn ethertype(&self) -> u16 {
        ethertype::IPV6
    }

    fn is_in(&self, caught: &Caught) -> bool {
        let Some(packet) = caught.bytes6() else { return false };
        packet[8..24] == self.source.octets() && has(packet, self.mark)
    }

    fn error_in(&self, caught: &Caught) -> Option<IcmpError> {
        caught.error6().filter(|error| {
            error.quoted.get(8..24).is_some_and(|source| source == self.source.octets())
                && has(&error.quoted, self.mark)
        })
    }
}

fn has(bytes: &[u8], mark: u64) -> bool {
    bytes.windows(8).any(|eight| eight == mark.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::{Icmp6, Ipv6};

    const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
    const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);

    #[test]
    fn packets_are_valid_behind_all_extension_headers() {
        let packet = Packet6::echo(0x1122_3344_5566_7788, A, B, 100)
            .extension(hop_by_hop(&[0x1e, 1, 7]))
            .extension(routing(0, 1, B))
            .extension(destination_options(&[]));
        let bytes = packet.to_vec();
        let view = Ipv6::new(&bytes[..]).unwrap();
        assert_eq!(view.extension_headers().map(|header| header.unwrap().kind).collect::<Vec<_>>(), [0, 43, 60]);
        let upper = view.upper_layer().unwrap();
        assert_eq!(upper.protocol, protocol::ICMPV6);
        assert!(Icmp6::new(upper.payload).unwrap().verify_checksum(&A, &B));
        assert!(has(&bytes, 0x1122_3344_5566_7788));
    }

    #[test]
    fn pieces_make_the_whole() {
        let packet = Packet6::echo(5, A, B, 1000);
        let pieces = packet.pieces(99, 400);
        assert_eq!(pieces.iter().flat_map(|piece| piece.upper_layer()).collect::<Vec<_>>(), packet.upper_layer());
        let last = pieces[2].to_vec();
        let fragment = Ipv6::new(&last[..]).unwrap().upper_layer().unwrap().fragment.unwrap();
        assert_eq!((fragment.offset, fragment.more, fragment.identification), (800, false, 99));
    }
}
