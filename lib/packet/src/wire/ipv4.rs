// SPDX-License-Identifier: MIT
//! IPv4 (RFC 791 3.1), its validation by a router (RFC 1812 5.2.2) and its options.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-----------+---+-------------------------------+
//! |Version|  IHL  |   DSCP    |ECN|         Total Length          |
//! +-------+-------+-----------+---+-----+-------------------------+
//! |        Identification         |0|D|M|     Fragment Offset     |
//! +---------------+---------------+-----+-------------------------+
//! |  Time to Live |   Protocol    |        Header Checksum        |
//! +---------------+---------------+-------------------------------+
//! |                        Source Address                         |
//! |                      Destination Address                      |
//! |               Options, IHL * 4 - 20 bytes of them             |
//! +---------------------------------------------------------------+
//! ```

use std::net::Ipv4Addr;

use crate::wire::bytes::{array, be16, put, put16};
use crate::wire::checksum;
use crate::wire::{Ipv4Options, Malformed};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// A view on a packet: version 4, a whole header, and a total length of at least the header's.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<T> {
    bytes: T,
}

/// A packet that a router may forward: the checks of RFC 1812 5.2.2 in its order, and a total length that was received.
///
/// 1. at least 20 bytes ([`Malformed::Short`]); 2. checksum ([`Malformed::Checksum`]); 3. version 4
///    ([`Malformed::Version`]); 4. IHL at least 5 ([`Malformed::HeaderLength`]); 5. total length at least IHL * 4
///    ([`Malformed::TotalLength`]).
///
/// The checksum covers IHL * 4 bytes. Where IHL is out of range there is no header to sum, and the reason is the
/// version's if that is wrong too, else the header length's.
#[inline]
pub fn validate(bytes: &[u8]) -> Result<Ipv4<&[u8]>, Malformed> {
    let Some(fixed) = bytes.first_chunk::<HEADER_LEN>() else { return Err(Malformed::Short) };
    // Nearly every packet has 0x45 in front: one compare for version and length.
    let right = if fixed[0] == 0x45 { checksum::sum20(fixed) == 0xffff } else { verify_any_header(bytes) };
    if !right {
        return Err(Malformed::Checksum);
    }
    Ipv4::new(bytes)
}

/// Kept out of line, so that the common way stays free of its registers.
#[cold]
#[inline(never)]
fn verify_any_header(bytes: &[u8]) -> bool {
    match bytes.get(..header_len(bytes[0])) {
        Some(header) if header.len() >= HEADER_LEN => checksum::verify(header),
        _ => true,
    }
}

#[inline(always)]
fn header_len(first: u8) -> usize {
    usize::from(first & 0x0f) * 4
}

impl<T: AsRef<[u8]>> Ipv4<T> {
    /// Checks everything but the checksum: [`validate`]'s (1), (3), (4), (5), and that the total length was received.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let packet = Self::new_truncated(bytes)?;
        if packet.total_len() > packet.bytes.as_ref().len() {
            return Err(Malformed::TotalLength);
        }
        Ok(packet)
    }

    /// Like [`Ipv4::new`] for a packet whose end may be missing, such as the one an ICMP error quotes.
    #[inline]
    pub fn new_truncated(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        if b[0] >> 4 != 4 {
            return Err(Malformed::Version);
        }
        let header = header_len(b[0]);
        if header < HEADER_LEN || header > b.len() {
            return Err(Malformed::HeaderLength);
        }
        if usize::from(be16(b, 2)) < header {
            return Err(Malformed::TotalLength);
        }
        Ok(Ipv4 { bytes })
    }

    /// Gives the bytes back.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Header length in bytes, options included: 20..=60.
    #[inline]
    pub fn header_len(&self) -> usize {
        header_len(self.bytes.as_ref()[0])
    }

    /// Whether there are options; such a packet goes to the slow path.
    #[inline]
    pub fn has_options(&self) -> bool {
        self.header_len() > HEADER_LEN
    }

    /// The type of service byte: DSCP and ECN together.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.bytes.as_ref()[1]
    }

    /// Differentiated services code point, 6 bits (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// Explicit congestion notification, 2 bits (RFC 3168).
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos() & 3
    }

    /// Length of header and payload in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        usize::from(be16(self.bytes.as_ref(), 2))
    }

    /// Identification, for reassembly.
    #[inline]
    pub fn identification(&self) -> u16 {
        be16(self.bytes.as_ref(), 4)
    }

    /// The Don't Fragment flag.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        be16(self.bytes.as_ref(), 6) & DONT_FRAGMENT != 0
    }

    /// The More Fragments flag.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        be16(self.bytes.as_ref(), 6) & MORE_FRAGMENTS != 0
    }

    /// Where this fragment's payload lies in the whole one, in bytes: a multiple of 8.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(be16(self.bytes.as_ref(), 6) & OFFSET) * 8
    }

    /// It is one fragment of several.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        be16(self.bytes.as_ref(), 6) & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// Time to live, in hops.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.bytes.as_ref()[8]
    }

    /// What the payload is: see [`crate::wire::protocol`].
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.bytes.as_ref()[9]
    }

    /// The header checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes.as_ref(), 10)
    }

    /// Whether the header checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::verify(self.header())
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(array(self.bytes.as_ref(), 12))
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(array(self.bytes.as_ref(), 16))
    }

    /// The whole header, options included.
    #[inline]
    pub fn header(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.header_len()]
    }

    /// The options, one by one; none where there are none.
    #[inline]
    pub fn options(&self) -> Ipv4Options<'_> {
        Ipv4Options::new(&self.header()[HEADER_LEN..])
    }

    /// What follows the header, without the padding of a short Ethernet frame; of a truncated packet what is there.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        let end = self.total_len().min(bytes.len());
        // A setter may have made the total length too small; then there is no payload.
        bytes.get(self.header_len()..end).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv4<T> {
    /// Sets the type of service byte. Like every setter here but [`Ipv4::decrement_ttl`], it leaves the checksum alone.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        self.bytes.as_mut()[1] = tos;
    }

    /// Sets the length of header and payload, bytes.
    #[inline]
    pub fn set_total_len(&mut self, len: u16) {
        put16(self.bytes.as_mut(), 2, len);
    }

    /// Sets the identification.
    #[inline]
    pub fn set_identification(&mut self, identification: u16) {
        put16(self.bytes.as_mut(), 4, identification);
    }

    /// Sets the flags and the offset: `offset` in bytes, of which only the multiple of 8 below 65536 counts.
    #[inline]
    pub fn set_fragment(&mut self, dont_fragment: bool, more_fragments: bool, offset: usize) {
        let dont_fragment = if dont_fragment { DONT_FRAGMENT } else { 0 };
        let more_fragments = if more_fragments { MORE_FRAGMENTS } else { 0 };
        put16(self.bytes.as_mut(), 6, dont_fragment | more_fragments | (offset / 8) as u16 & OFFSET);
    }

    /// Sets the time to live, hops.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.bytes.as_mut()[8] = ttl;
    }

    /// Sets the protocol.
    #[inline]
    pub fn set_protocol(&mut self, protocol: u8) {
        self.bytes.as_mut()[9] = protocol;
    }

    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.bytes.as_mut(), 10, checksum);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_source(&mut self, address: Ipv4Addr) {
        put(self.bytes.as_mut(), 12, address.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        put(self.bytes.as_mut(), 16, address.octets());
    }

    /// Recomputes the header checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::ipv4_header(self.header());
        self.set_checksum(checksum);
    }

    /// Decrements the TTL and updates the checksum incrementally (RFC 1624, RFC 1812 5.3.1). The caller has checked
    /// that the TTL is above 1; at 0 it stays 0.
    #[inline]
    pub fn decrement_ttl(&mut self) {
        let bytes = self.bytes.as_mut();
        let old = be16(bytes, 8);
        let new = if old >= 0x100 { old - 0x100 } else { old };
        let checksum = checksum::update16(be16(bytes, 10), old, new);
        bytes[8] = (new >> 8) as u8;
        put16(bytes, 10, checksum);
    }

    /// The option bytes, to be written in place (record route, timestamp).
    pub fn options_mut(&mut self) -> &mut [u8] {
        let header = self.header_len();
        &mut self.bytes.as_mut()[HEADER_LEN..header]
    }

    /// [`Ipv4::payload`], to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (header, total) = (self.header_len(), self.total_len());
        let bytes = self.bytes.as_mut();
        let end = total.min(bytes.len());
        bytes.get_mut(header..end).unwrap_or_default()
    }
}

/// The fields of a header to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// DSCP and ECN.
    pub tos: u8,
    /// Identification, for reassembly.
    pub identification: u16,
    /// The Don't Fragment flag.
    pub dont_fragment: bool,
    /// The More Fragments flag.
    pub more_fragments: bool,
    /// In bytes, a multiple of 8.
    pub fragment_offset: usize,
    /// Time to live, hops.
    pub ttl: u8,
    /// See [`crate::wire::protocol`].
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Bytes behind the header.
    pub payload_len: usize,
}

impl Repr {
    /// An unfragmented packet with TTL 64, best effort.
    pub fn new(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload_len: usize) -> Self {
        Repr {
            tos: 0,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            source,
            destination,
            payload_len,
        }
    }

    /// Writes a header without options and its checksum at the start of `buf`; returns its length, 20. The payload need
    /// not be there yet. [`Malformed::Short`] if it does not fit, [`Malformed::TotalLength`] above 65535 bytes.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, Malformed> {
        self.emit_with_options(buf, &[])
    }

    /// [`Repr::emit`] with options: a multiple of 4 bytes, at most 40, else [`Malformed::OptionLength`].
    pub fn emit_with_options(&self, buf: &mut [u8], options: &[u8]) -> Result<usize, Malformed> {
        let header = HEADER_LEN + options.len();
        if !options.len().is_multiple_of(4) || header > MAX_HEADER_LEN {
            return Err(Malformed::OptionLength);
        }
        let total = u16::try_from(header + self.payload_len).map_err(|_| Malformed::TotalLength)?;
        let bytes = buf.get_mut(..header).ok_or(Malformed::Short)?;
        bytes[0] = 0x40 | (header / 4) as u8;
        bytes[HEADER_LEN..].copy_from_slice(options);
        let mut packet = Ipv4 { bytes };
        packet.set_tos(self.tos);
        packet.set_total_len(total);
        packet.set_identification(self.identification);
        packet.set_fragment(self.dont_fragment, self.more_fragments, self.fragment_offset);
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_source(self.source);
        packet.set_destination(self.destination);
        packet.fill_checksum();
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ipv4Option;
    use crate::wire::captured::{self, layer};

    fn ping() -> Vec<u8> {
        layer(captured::ECHO_REQUEST_4, 14)
    }

    /// A valid packet, some bytes changed, the checksum made right again over what the IHL then covers.
    fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = ping();
        change(&mut bytes);
        bytes[10..12].fill(0);
        let header = header_len(bytes[0]).clamp(20, bytes.len());
        let checksum = checksum::checksum(&bytes[..header]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    #[test]
    fn reads_a_real_packet() {
        let bytes = ping();
        let packet = validate(&bytes).unwrap();
        assert_eq!((packet.header_len(), packet.total_len(), packet.tos()), (20, 36, 0));
        assert_eq!((packet.identification(), packet.ttl(), packet.protocol()), (0x5b02, 64, 1));
        assert!(packet.dont_fragment() && !packet.more_fragments() && !packet.is_fragment() && !packet.has_options());
        assert_eq!(packet.source(), Ipv4Addr::new(10, 0, 2, 1));
        assert_eq!(packet.destination(), Ipv4Addr::new(10, 0, 2, 2));
        assert_eq!(packet.payload().len(), 16);
        assert!(packet.verify_checksum() && packet.checksum() == 0xc7d4);
    }

    #[test]
    fn rfc_1812_5_2_2_in_its_order() {
        let reason = |bytes: &[u8]| validate(bytes).unwrap_err();
        assert_eq!(reason(&ping()[..19]), Malformed::Short);
        assert_eq!(reason(&[]), Malformed::Short);
        let mut bytes = ping();
        bytes[8] += 1;
        assert_eq!(reason(&bytes), Malformed::Checksum);
        assert_eq!(reason(&changed(|b| b[0] = 0x65)), Malformed::Version);
        assert_eq!(reason(&changed(|b| b[0] = 0x44)), Malformed::HeaderLength);
        assert_eq!(reason(&changed(|b| b[0] = 0x4f)), Malformed::HeaderLength, "60 bytes of header, 36 received");
        assert_eq!(reason(&changed(|b| b[3] = 19)), Malformed::TotalLength);
        assert_eq!(reason(&changed(|b| b[3] = 37)), Malformed::TotalLength, "36 received");
        // The order: the checksum comes before the version, the version before the lengths.
        assert_eq!(
            reason(&{
                let mut b = ping();
                b[0] = 0x65;
                b
            }),
            Malformed::Checksum
        );
        assert_eq!(reason(&changed(|b| (b[0], b[3]) = (0x64, 19))), Malformed::Version);
        assert!(validate(&changed(|b| b[3] = 20)).unwrap().payload().is_empty());
    }

    #[test]
    fn padding_is_not_payload() {
        let mut bytes = ping();
        bytes.extend([0; 10]);
        assert_eq!(validate(&bytes).unwrap().payload().len(), 16);
    }

    #[test]
    fn a_quoted_packet_may_be_cut() {
        let bytes = ping();
        assert_eq!(Ipv4::new(&bytes[..28]).unwrap_err(), Malformed::TotalLength);
        let quoted = Ipv4::new_truncated(&bytes[..28]).unwrap();
        assert_eq!((quoted.total_len(), quoted.payload().len()), (36, 8));
    }

    #[test]
    fn options_of_real_packets() {
        let bytes = layer(captured::RECORD_ROUTE_4, 14);
        let header = validate(&bytes).unwrap();
        assert!(header.has_options());
        let Some(Ok(Ipv4Option::RecordRoute(route))) = header.options().next() else { panic!("no record route") };
        assert_eq!((route.pointer, &route.data[..8]), (16, &[10, 0, 2, 1, 10, 0, 2, 2][..]));
        let bytes = layer(captured::TIMESTAMP_4, 14);
        let header = validate(&bytes).unwrap();
        let first = header.options().next().unwrap().unwrap();
        assert!(matches!(first, Ipv4Option::Timestamp { pointer: 9, overflow: 0, flag: 0, .. }), "{first:?}");
    }

    #[test]
    fn decrement_ttl_keeps_the_checksum_for_all_headers() {
        for (ttl, low) in (1..=255u8).flat_map(|ttl| (0..=255u8).map(move |low| (ttl, low))) {
            let mut bytes = changed(|b| (b[8], b[5]) = (ttl, low));
            let mut packet = Ipv4::new(&mut bytes[..]).unwrap();
            packet.decrement_ttl();
            assert_eq!(packet.ttl(), ttl - 1);
            let updated = packet.checksum();
            packet.fill_checksum();
            assert_eq!(packet.checksum(), updated, "ttl {ttl} identification {low}");
        }
        let mut bytes = changed(|b| b[8] = 0);
        let mut packet = Ipv4::new(&mut bytes[..]).unwrap();
        packet.decrement_ttl();
        assert!(packet.ttl() == 0 && packet.verify_checksum());
    }

    #[test]
    fn emit_reads_back() {
        let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 7));
        let repr = Repr {
            tos: 0xb9,
            identification: 7,
            more_fragments: true,
            fragment_offset: 1480,
            ..Repr::new(a, b, 17, 8)
        };
        let mut buf = [0xff; 40];
        assert_eq!(repr.emit_with_options(&mut buf, b"\x94\x04\x00\x00"), Ok(24));
        let packet = validate(&buf).unwrap();
        assert_eq!((packet.dscp(), packet.ecn(), packet.identification(), packet.ttl()), (46, 1, 7, 64));
        assert!(packet.more_fragments() && !packet.dont_fragment() && packet.is_fragment());
        assert_eq!((packet.fragment_offset(), packet.total_len(), packet.payload().len()), (1480, 32, 8));
        assert_eq!((packet.source(), packet.destination(), packet.protocol()), (a, b, 17));
        assert_eq!(packet.options().next(), Some(Ok(Ipv4Option::RouterAlert(0))));
        assert_eq!(repr.emit(&mut [0; 19]), Err(Malformed::Short));
        assert_eq!(repr.emit_with_options(&mut buf, &[1; 3]), Err(Malformed::OptionLength));
        assert_eq!(repr.emit_with_options(&mut [0; 80], &[1; 44]), Err(Malformed::OptionLength));
        assert_eq!(Repr::new(a, b, 17, 65516).emit(&mut buf), Err(Malformed::TotalLength));
    }
}
