// SPDX-License-Identifier: MIT
//! IPv4 packets, every field of which a row may choose.

use super::{Caught, IcmpError, Probe, checksum, filling};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{icmp4, protocol};
use std::borrow::Cow;
use std::net::Ipv4Addr;

/// Options that the rows send, by their types.
pub mod options {
    /// Nothing, four bytes of it: enough to take a packet off the fast path.
    pub const NOTHING: [u8; 4] = [1, 1, 1, 1];
    /// An unknown one for experiments (RFC 4727), which fragments have a copy of.
    pub const COPIED: [u8; 4] = [0x9e, 4, 0xca, 0xfe];
    /// An unknown one for experiments, which only the first fragment has.
    pub const NOT_COPIED: [u8; 4] = [0x1e, 4, 0xbe, 0xef];
}

/// An IPv4 packet. Its identification, different for each, tells what it is when it comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet4 {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub tos: u8,
    pub identification: u16,
    /// Flags and fragment offset, as they stand in the header.
    pub flags: u16,
    pub ttl: u8,
    pub protocol: u8,
    /// A multiple of 4 bytes.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

/// In [`Packet4::flags`]: the reserved flag.
pub const RESERVED: u16 = 0x8000;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

impl Packet4 {
    /// UDP with this number of bytes behind the header, from port 1024 and up to port 9; without a checksum (RFC 768).
    pub fn udp(identification: u16, source: Ipv4Addr, destination: Ipv4Addr, data: usize) -> Packet4 {
        let mut payload = Vec::with_capacity(8 + data);
        for word in [1024 | identification & 0x3ff, 9, (8 + data) as u16, 0] {
            payload.extend(word.to_be_bytes());
        }
        payload.extend(filling(u64::from(identification), data));
        Packet4::with(identification, source, destination, protocol::UDP, payload)
    }

    /// An ICMP message; its checksum is filled in.
    pub fn icmp(
        identification: u16,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        (kind, code, rest): (u8, u8, u32),
        body: &[u8],
    ) -> Packet4 {
        let mut payload = vec![kind, code, 0, 0];
        payload.extend(rest.to_be_bytes());
        payload.extend(body);
        let sum = checksum(&payload);
        payload[2..4].copy_from_slice(&sum.to_be_bytes());
        Packet4::with(identification, source, destination, protocol::ICMP, payload)
    }

    /// An echo request with this number of bytes of data.
    pub fn echo(identification: u16, source: Ipv4Addr, destination: Ipv4Addr, data: usize) -> Packet4 {
        let rest = u32::from(identification) << 16 | 1;
        let body = filling(u64::from(identification), data);
        Packet4::icmp(identification, source, destination, (icmp4::ECHO_REQUEST, 0, rest), &body)
    }

    fn with(identification: u16, source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: Vec<u8>) -> Packet4 {
        let (tos, flags, ttl, options) = (0, 0, 64, Vec::new());
        Packet4 { source, destination, tos, identification, flags, ttl, protocol, options, payload }
    }

    /// With this TTL.
    pub fn ttl(self, ttl: u8) -> Packet4 {
        Packet4 { ttl, ..self }
    }

    /// With this type of service.
    pub fn tos(self, tos: u8) -> Packet4 {
        Packet4 { tos, ..self }
    }

    /// From this source.
    pub fn from(self, source: Ipv4Addr) -> Packet4 {
        Packet4 { source, ..self }
    }

    /// To this destination.
    pub fn to(self, destination: Ipv4Addr) -> Packet4 {
        Packet4 { destination, ..self }
    }

    /// With these options, padded with zeros to whole words.
    pub fn options(self, options: &[u8]) -> Packet4 {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        Packet4 { options, ..self }
    }

    /// With these flags besides, such as [`RESERVED`].
    pub fn flags(self, flags: u16) -> Packet4 {
        Packet4 { flags: self.flags | flags, ..self }
    }

    /// Not to be fragmented.
    pub fn dont_fragment(self) -> Packet4 {
        self.flags(DONT_FRAGMENT)
    }

    /// The piece of it that starts `offset` bytes into the payload and has `length` bytes, or all the rest. With the
    /// same options.
    pub fn piece(&self, offset: usize, length: usize) -> Packet4 {
        let end = (offset + length).min(self.payload.len());
        let more = if end < self.payload.len() { MORE_FRAGMENTS } else { 0 };
        let payload = self.payload[offset..end].to_vec();
        Packet4 { payload, flags: self.flags | more | (offset / 8) as u16, ..self.clone() }
    }

    /// The whole packet in pieces with this many bytes of payload, a multiple of 8.
    pub fn pieces(&self, length: usize) -> Vec<Packet4> {
        (0..self.payload.len()).step_by(length).map(|offset| self.piece(offset, length)).collect()
    }

    /// Bytes of its header.
    pub fn header_len(&self) -> usize {
        20 + self.options.len()
    }

    /// All bytes, with the right checksum.
    pub fn to_vec(&self) -> Vec<u8> {
        let header = self.header_len();
        let total = (header + self.payload.len()) as u16;
        let mut bytes = vec![0x40 | (header / 4) as u8, self.tos];
        for word in [total, self.identification, self.flags] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.source.octets());
        bytes.extend(self.destination.octets());
        bytes.extend(&self.options);
        seal(&mut bytes, header);
        bytes.extend(&self.payload);
        bytes
    }
}

/// Makes the checksum of a header right that has this many bytes.
pub fn seal(bytes: &mut [u8], header: usize) {
    bytes[10..12].fill(0);
    let sum = checksum(&bytes[..header]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

impl Probe for Packet4 {
    fn bytes(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.to_vec())
    }

    fn ethertype(&self) -> u16 {
        ethertype::IPV4
    }

    fn is_in(&self, caught: &Caught) -> bool {
        let Some(header) = caught.header4() else { return false };
        let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        field(4) == self.identification && header[9] == self.protocol && header[12..16] == self.source.octets()
    }

    fn error_in(&self, caught: &Caught) -> Option<IcmpError> {
        let error = caught.error4()?;
        let quoted = error.quoted.get(..20)?;
        let same = quoted[4..6] == self.identification.to_be_bytes() && quoted[12..16] == self.source.octets();
        same.then_some(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::wire::ipv4;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

    #[test]
    fn packets_are_valid_and_pieces_make_the_whole() {
        let packet = Packet4::echo(700, A, B, 1000).options(&options::COPIED).flags(RESERVED);
        assert_eq!(ipv4::validate(&packet.to_vec()).unwrap().payload(), &packet.payload[..]);
        let pieces = packet.pieces(400);
        assert_eq!(pieces.len(), 3);
        let views: Vec<Vec<u8>> = pieces.iter().map(Packet4::to_vec).collect();
        let offsets: Vec<_> = views
            .iter()
            .map(|bytes| ipv4::validate(bytes).map(|view| (view.fragment_offset(), view.more_fragments())).unwrap())
            .collect();
        assert_eq!(offsets, [(0, true), (400, true), (800, false)]);
        assert_eq!(pieces.concat_payloads(), packet.payload);
    }

    trait Payloads {
        fn concat_payloads(&self) -> Vec<u8>;
    }

    impl Payloads for Vec<Packet4> {
        fn concat_payloads(&self) -> Vec<u8> {
            self.iter().flat_map(|piece| piece.payload.clone()).collect()
        }
    }
}
