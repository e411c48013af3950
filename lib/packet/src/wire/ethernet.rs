// SPDX-License-Identifier: MIT
//! Ethernet II (IEEE 802.3 3.1, RFC 894).
//!
//! ```text
//!  0                   6                   12        14
//! +-------------------+-------------------+---------+--------
//! |    destination    |      source       |ethertype| payload
//! +-------------------+-------------------+---------+--------
//! ```

use crate::wire::Malformed;
use crate::wire::bytes::{array, be16, put, put16};
use perigee_net::MacAddr;

/// Bytes of the header, without any tag.
pub const HEADER_LEN: usize = 14;

/// Values of the type field (IANA "IEEE 802 Numbers"), host order.
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// A customer VLAN tag follows (IEEE 802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// A service VLAN tag follows (IEEE 802.1ad).
    pub const QINQ: u16 = 0x88a8;
    /// Values below this are the length of an IEEE 802.3 frame, not a type.
    pub const FIRST: u16 = 0x0600;
}

/// A view on a frame; at least [`HEADER_LEN`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ethernet<T> {
    /// Checks that the header is there; else [`Malformed::Short`].
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        Ok(Ethernet { bytes })
    }

    /// Gives the bytes back.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> MacAddr {
        MacAddr(array(self.bytes.as_ref(), 0))
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> MacAddr {
        MacAddr(array(self.bytes.as_ref(), 6))
    }

    /// Type field, host order; below [`ethertype::FIRST`] it is a length.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        be16(self.bytes.as_ref(), 12)
    }

    /// What follows the type field; padding and tags included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ethernet<T> {
    /// Sets the destination address.
    #[inline]
    pub fn set_destination(&mut self, mac: MacAddr) {
        put(self.bytes.as_mut(), 0, mac.0);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_source(&mut self, mac: MacAddr) {
        put(self.bytes.as_mut(), 6, mac.0);
    }

    /// Sets the type field, host order.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: u16) {
        put16(self.bytes.as_mut(), 12, ethertype);
    }

    /// What follows the type field, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }
}

/// Writes a header at the start of `buf` and returns its length, 14; [`Malformed::Short`] if it does not fit.
#[inline]
pub fn emit(buf: &mut [u8], destination: MacAddr, source: MacAddr, ethertype: u16) -> Result<usize, Malformed> {
    let mut frame = Ethernet::new(buf)?;
    frame.set_destination(destination);
    frame.set_source(source);
    frame.set_ethertype(ethertype);
    Ok(HEADER_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_real_frame() {
        // An ARP request as Linux sends it.
        let bytes = *b"\xff\xff\xff\xff\xff\xff\x52\x54\x00\x12\x34\x56\x08\x06\x00\x01";
        let frame = Ethernet::new(&bytes).unwrap();
        assert!(frame.destination().is_broadcast());
        assert_eq!(frame.source().to_string(), "52:54:00:12:34:56");
        assert_eq!(frame.ethertype(), ethertype::ARP);
        assert_eq!(frame.payload(), [0, 1]);
    }

    #[test]
    fn thirteen_bytes_are_short() {
        assert_eq!(Ethernet::new([0; 13]).unwrap_err(), Malformed::Short);
        assert_eq!(emit(&mut [0; 13], MacAddr::ZERO, MacAddr::ZERO, 0), Err(Malformed::Short));
    }

    #[test]
    fn emit_reads_back() {
        let mut buf = [0; 20];
        let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        assert_eq!(emit(&mut buf, a, b, ethertype::IPV6), Ok(14));
        let frame = Ethernet::new(&buf).unwrap();
        assert_eq!((frame.destination(), frame.source(), frame.ethertype()), (a, b, ethertype::IPV6));
    }
}
