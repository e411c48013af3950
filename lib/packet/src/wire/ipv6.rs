// SPDX-License-Identifier: MIT
//! IPv6 (RFC 8200 3). Its extension headers are in `extension.rs`.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+---------------+---------------------------------------+
//! |Version| Traffic Class |              Flow Label               |
//! +-------+---------------+-------+---------------+---------------+
//! |         Payload Length        |  Next Header  |   Hop Limit   |
//! +-------------------------------+---------------+---------------+
//! |                   Source Address, 16 bytes                    |
//! |                 Destination Address, 16 bytes                 |
//! +---------------------------------------------------------------+
//! ```

use std::net::Ipv6Addr;

use crate::Malformed;
use crate::wire::bytes::{array, be16, be32, put, put16, put32};
use crate::wire::extension::{ExtensionHeaders, UpperLayer};

pub use crate::wire::extension::MAX_EXTENSIONS;

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// Every link carries packets of this many bytes (RFC 8200 5).
pub const MIN_MTU: usize = 1280;

/// A view on a packet: version 6, a whole header, and a payload length that was received.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ipv6<T> {
    /// Checks length, version, and that the payload was received. Jumbograms (RFC 2675) count as having no payload.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let packet = Self::new_truncated(bytes)?;
        if HEADER_LEN + packet.payload_len() > packet.bytes.as_ref().len() {
            return Err(Malformed::TotalLength);
        }
        Ok(packet)
    }

    /// Like [`Ipv6::new`] for a packet whose end may be missing, such as the one an ICMPv6 error quotes.
    #[inline]
    pub fn new_truncated(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        if b[0] >> 4 != 6 {
            return Err(Malformed::Version);
        }
        Ok(Ipv6 { bytes })
    }

    /// Gives the bytes back.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (be16(self.bytes.as_ref(), 0) >> 4) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        be32(self.bytes.as_ref(), 0) & 0xf_ffff
    }

    /// Bytes behind the fixed header, extension headers included.
    #[inline]
    pub fn payload_len(&self) -> usize {
        usize::from(be16(self.bytes.as_ref(), 4))
    }

    /// What follows the fixed header: an extension header or the upper layer (see [`crate::wire::protocol`]).
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.bytes.as_ref()[6]
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.bytes.as_ref()[7]
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.bytes.as_ref(), 8))
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.bytes.as_ref(), 24))
    }

    /// What follows the fixed header, without the padding of a short Ethernet frame.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let rest = &self.bytes.as_ref()[HEADER_LEN..];
        &rest[..self.payload_len().min(rest.len())]
    }

    /// The extension headers, from the outermost in.
    #[inline]
    pub fn extension_headers(&self) -> ExtensionHeaders<'_> {
        ExtensionHeaders::new(self.next_header(), self.payload())
    }

    /// Walks the extension headers to what they carry.
    #[inline]
    pub fn upper_layer(&self) -> Result<UpperLayer<'_>, Malformed> {
        self.extension_headers().upper_layer()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv6<T> {
    /// Sets the traffic class.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let bytes = self.bytes.as_mut();
        let word = be16(bytes, 0) & 0xf00f | u16::from(class) << 4;
        put16(bytes, 0, word);
    }

    /// Sets the flow label; only the low 20 bits count.
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        let bytes = self.bytes.as_mut();
        let word = be32(bytes, 0) & 0xfff0_0000 | label & 0xf_ffff;
        put32(bytes, 0, word);
    }

    /// Sets the number of bytes behind the fixed header.
    #[inline]
    pub fn set_payload_len(&mut self, len: u16) {
        put16(self.bytes.as_mut(), 4, len);
    }

    /// Sets what follows the fixed header.
    #[inline]
    pub fn set_next_header(&mut self, next_header: u8) {
        self.bytes.as_mut()[6] = next_header;
    }

    /// Sets the hop limit.
    #[inline]
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        self.bytes.as_mut()[7] = hop_limit;
    }

    /// Decrements the hop limit. The caller has checked that it is above 1; at 0 it stays 0.
    #[inline]
    pub fn decrement_hop_limit(&mut self) {
        let bytes = self.bytes.as_mut();
        bytes[7] = bytes[7].saturating_sub(1);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_source(&mut self, address: Ipv6Addr) {
        put(self.bytes.as_mut(), 8, address.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv6Addr) {
        put(self.bytes.as_mut(), 24, address.octets());
    }

    /// [`Ipv6::payload`], to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let len = self.payload_len();
        let rest = &mut self.bytes.as_mut()[HEADER_LEN..];
        let end = len.min(rest.len());
        &mut rest[..end]
    }
}

/// The fields of a header to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// 20 bits.
    pub flow_label: u32,
    /// Bytes behind the fixed header.
    pub payload_len: usize,
    /// See [`crate::wire::protocol`].
    pub next_header: u8,
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Repr {
    /// A packet with hop limit 64, best effort, no flow label.
    pub fn new(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8, payload_len: usize) -> Self {
        Repr { traffic_class: 0, flow_label: 0, payload_len, next_header, hop_limit: 64, source, destination }
    }

    /// Writes the header at the start of `buf` and returns its length, 40. The payload need not be there yet.
    /// [`Malformed::Short`] if it does not fit, [`Malformed::TotalLength`] above 65535 bytes of payload.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, Malformed> {
        let len = u16::try_from(self.payload_len).map_err(|_| Malformed::TotalLength)?;
        let bytes = buf.get_mut(..HEADER_LEN).ok_or(Malformed::Short)?;
        bytes[0] = 0x60;
        let mut packet = Ipv6 { bytes };
        packet.set_traffic_class(self.traffic_class);
        packet.set_flow_label(self.flow_label);
        packet.set_payload_len(len);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_source(self.source);
        packet.set_destination(self.destination);
        Ok(HEADER_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::captured::{self, layer};
    use crate::wire::protocol;

    #[test]
    fn reads_a_real_packet() {
        let bytes = layer(captured::ECHO_REQUEST_6, 14);
        let packet = Ipv6::new(&bytes[..]).unwrap();
        assert_eq!((packet.traffic_class(), packet.flow_label(), packet.payload_len()), (0, 0x98392, 16));
        assert_eq!((packet.next_header(), packet.hop_limit()), (protocol::ICMPV6, 64));
        assert_eq!(packet.source(), "fe80::cce:ff:feb6:b1ca".parse::<Ipv6Addr>().unwrap());
        assert_eq!(packet.destination(), "fe80::e83c:9aff:fe44:7e0a".parse::<Ipv6Addr>().unwrap());
        assert_eq!(packet.payload().len(), 16);
        let upper = packet.upper_layer().unwrap();
        assert_eq!((upper.protocol, upper.offset, upper.has_header()), (protocol::ICMPV6, 40, true));
    }

    #[test]
    fn each_check_has_its_reason() {
        let bytes = layer(captured::ECHO_REQUEST_6, 14);
        assert_eq!(Ipv6::new(&bytes[..39]).unwrap_err(), Malformed::Short);
        assert_eq!(Ipv6::new(&bytes[..55]).unwrap_err(), Malformed::TotalLength);
        assert_eq!(Ipv6::new_truncated(&bytes[..55]).unwrap().payload().len(), 15);
        let mut other = bytes.clone();
        other[0] = 0x45;
        assert_eq!(Ipv6::new(&other[..]).unwrap_err(), Malformed::Version);
        let padded = [bytes, vec![0; 9]].concat();
        assert_eq!(Ipv6::new(&padded[..]).unwrap().payload().len(), 16);
    }

    #[test]
    fn emit_reads_back() {
        let (a, b) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let repr = Repr { traffic_class: 0xb9, flow_label: 0xabcde, ..Repr::new(a, b, protocol::UDP, 4) };
        let mut buf = [0xff; 44];
        assert_eq!(repr.emit(&mut buf), Ok(40));
        let mut packet = Ipv6::new(&mut buf[..]).unwrap();
        assert_eq!((packet.traffic_class(), packet.flow_label(), packet.payload_len()), (0xb9, 0xabcde, 4));
        assert_eq!((packet.source(), packet.destination(), packet.next_header()), (a, b, protocol::UDP));
        packet.decrement_hop_limit();
        assert_eq!(packet.hop_limit(), 63);
        assert_eq!(repr.emit(&mut [0; 39]), Err(Malformed::Short));
        assert_eq!(Repr::new(a, b, 17, 65536).emit(&mut buf), Err(Malformed::TotalLength));
    }
}
