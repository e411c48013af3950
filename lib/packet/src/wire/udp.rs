// SPDX-License-Identifier: MIT
//! UDP (RFC 768, over IPv6 RFC 8200 8.1).
//!
//! ```text
//!  0             2                  4        6          8
//! +-------------+------------------+--------+----------+------
//! | source port | destination port | length | checksum | data      length: header and data
//! +-------------+------------------+--------+----------+------
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::wire::bytes::{be16, put16};
use crate::wire::{Malformed, checksum, protocol};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// A view on a datagram: a whole header, and a length of at least 8 that was received.
#[derive(Clone, Copy, Debug)]
pub struct Udp<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Udp<T> {
    /// Checks the header and the length field. Bytes beyond the length are not the datagram's, and allowed.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        let len = usize::from(be16(b, 4));
        if len < HEADER_LEN || len > b.len() {
            return Err(Malformed::TotalLength);
        }
        Ok(Udp { bytes })
    }

    /// Gives the bytes back.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Source port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        be16(self.bytes.as_ref(), 0)
    }

    /// Destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        be16(self.bytes.as_ref(), 2)
    }

    /// Length of header and data, bytes. Named as RFC 768's field, "length".
    #[inline]
    pub fn length(&self) -> usize {
        usize::from(be16(self.bytes.as_ref(), 4))
    }

    /// The checksum as it stands; 0 means that the sender made none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes.as_ref(), 6)
    }

    /// The data, as long as the length field says.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.datagram().get(HEADER_LEN..).unwrap_or_default()
    }

    /// Whether the checksum is right over IPv4, or absent (RFC 768).
    pub fn verify_checksum_v4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        let pseudo = checksum::pseudo_v4(source, destination, protocol::UDP, self.length() as u16);
        self.checksum() == 0 || checksum::fold(pseudo + checksum::sum(self.datagram())) == 0xffff
    }

    /// Whether the checksum is right over IPv6, where it must not be absent (RFC 8200 8.1).
    pub fn verify_checksum_v6(&self, source: &Ipv6Addr, destination: &Ipv6Addr) -> bool {
        let pseudo = checksum::pseudo_v6(source, destination, protocol::UDP, self.length() as u32);
        self.checksum() != 0 && checksum::fold(pseudo + checksum::sum(self.datagram())) == 0xffff
    }

    fn datagram(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        &bytes[..self.length().min(bytes.len())]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Udp<T> {
    /// Sets the source port. Like every setter here, it leaves the checksum alone.
    #[inline]
    pub fn set_source_port(&mut self, port: u16) {
        put16(self.bytes.as_mut(), 0, port);
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_destination_port(&mut self, port: u16) {
        put16(self.bytes.as_mut(), 2, port);
    }

    /// Sets the length of header and data, bytes.
    #[inline]
    pub fn set_length(&mut self, length: u16) {
        put16(self.bytes.as_mut(), 4, length);
    }

    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.bytes.as_mut(), 6, checksum);
    }

    /// The data, to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let len = self.length();
        let bytes = self.bytes.as_mut();
        let end = len.min(bytes.len());
        bytes.get_mut(HEADER_LEN..end).unwrap_or_default()
    }

    /// Recomputes the checksum over IPv4.
    pub fn fill_checksum_v4(&mut self, source: Ipv4Addr, destination: Ipv4Addr) {
        self.fill(checksum::pseudo_v4(source, destination, protocol::UDP, self.length() as u16));
    }

    /// Recomputes the checksum over IPv6.
    pub fn fill_checksum_v6(&mut self, source: &Ipv6Addr, destination: &Ipv6Addr) {
        self.fill(checksum::pseudo_v6(source, destination, protocol::UDP, self.length() as u32));
    }

    fn fill(&mut self, pseudo: u32) {
        self.set_checksum(0);
        // RFC 768: a computed zero is sent as all ones, since zero means "none".
        let checksum = match checksum::finish(pseudo + checksum::sum(self.datagram())) {
            0 => 0xffff,
            checksum => checksum,
        };
        self.set_checksum(checksum);
    }
}

/// Writes a header without checksum at the start of `buf` and returns its length, 8. [`Malformed::Short`] if header
/// and payload do not fit, [`Malformed::TotalLength`] above 65535 bytes. Then write the payload and fill the checksum.
pub fn emit(buf: &mut [u8], source_port: u16, destination_port: u16, payload_len: usize) -> Result<usize, Malformed> {
    let length = u16::try_from(HEADER_LEN + payload_len).map_err(|_| Malformed::TotalLength)?;
    let bytes = buf.get_mut(..usize::from(length)).ok_or(Malformed::Short)?;
    let mut datagram = Udp { bytes };
    datagram.set_source_port(source_port);
    datagram.set_destination_port(destination_port);
    datagram.set_length(length);
    datagram.set_checksum(0);
    Ok(HEADER_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::captured::{self, layer};
    use crate::wire::{Ipv4, Ipv6};

    #[test]
    fn reads_real_datagrams_and_their_checksums() {
        let bytes = layer(captured::UDP_4, 14);
        let ip = Ipv4::new(&bytes[..]).unwrap();
        let mut udp = ip.payload().to_vec();
        let mut datagram = Udp::new(&mut udp[..]).unwrap();
        assert_eq!((datagram.source_port(), datagram.destination_port(), datagram.length()), (0x86bf, 7777, 15));
        assert_eq!(datagram.payload(), b"perigee");
        datagram.fill_checksum_v4(ip.source(), ip.destination());
        assert!(datagram.verify_checksum_v4(ip.source(), ip.destination()));
        assert!(!datagram.verify_checksum_v4(ip.source(), Ipv4Addr::LOCALHOST));
        assert_eq!(datagram.checksum(), Udp::new(ip.payload()).unwrap().checksum());

        let bytes = layer(captured::UDP_6, 14);
        let ip = Ipv6::new(&bytes[..]).unwrap();
        let datagram = Udp::new(ip.payload()).unwrap();
        assert!(datagram.verify_checksum_v6(&ip.source(), &ip.destination()));
        assert!(!datagram.verify_checksum_v6(&ip.source(), &Ipv6Addr::LOCALHOST));
    }

    #[test]
    fn length_rules() {
        let bytes = |length: u8| [0, 1, 0, 2, 0, length, 0, 0, 9, 9];
        assert_eq!(Udp::new(&bytes(10)[..7]).unwrap_err(), Malformed::Short);
        assert_eq!(Udp::new(bytes(7)).unwrap_err(), Malformed::TotalLength);
        assert_eq!(Udp::new(bytes(11)).unwrap_err(), Malformed::TotalLength);
        assert_eq!(Udp::new(bytes(8)).unwrap().payload(), b"");
        assert_eq!(Udp::new(bytes(9)).unwrap().payload(), [9]);
    }

    #[test]
    fn zero_is_none_over_ipv4_and_wrong_over_ipv6() {
        let datagram = Udp::new([0, 1, 0, 2, 0, 8, 0, 0]).unwrap();
        assert!(datagram.verify_checksum_v4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST));
        assert!(!datagram.verify_checksum_v6(&Ipv6Addr::LOCALHOST, &Ipv6Addr::LOCALHOST));
    }

    #[test]
    fn a_computed_zero_is_sent_as_ones() {
        let mut buf = [0; 10];
        let any = Ipv4Addr::UNSPECIFIED;
        emit(&mut buf, 0, 0, 2).unwrap();
        let mut datagram = Udp::new(&mut buf[..]).unwrap();
        // Protocol 17, the length 10 twice: the data brings the sum to all ones.
        datagram.payload_mut().copy_from_slice(&(0xffff - 17 - 20u16).to_be_bytes());
        datagram.fill_checksum_v4(any, any);
        assert_eq!(datagram.checksum(), 0xffff);
        assert!(datagram.verify_checksum_v4(any, any));
    }

    #[test]
    fn emit_checks_the_room() {
        assert_eq!(emit(&mut [0; 9], 1, 2, 2), Err(Malformed::Short));
        assert_eq!(emit(&mut [0; 9], 1, 2, 65528), Err(Malformed::TotalLength));
    }
}
