// SPDX-License-Identifier: MIT
//! TCP (RFC 9293 3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          Source Port          |       Destination Port        |
//! |                        Sequence Number                        |
//! |                    Acknowledgment Number                      |
//! +-------+-------+---------------+-------------------------------+
//! | Offset| rsvd  |C|E|U|A|P|R|S|F|            Window             |
//! +-------+-------+---------------+-------------------------------+
//! |           Checksum            |         Urgent Pointer        |
//! |              Options, Offset * 4 - 20 bytes of them           |
//! +---------------------------------------------------------------+
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::wire::bytes::{be16, be32, put16, put32};
use crate::wire::{Malformed, checksum, protocol};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// The control bits.
#[allow(missing_docs)] // RFC 9293's own names.
pub mod flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    pub const URG: u8 = 0x20;
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;
}

/// A view on a segment: a whole header, options included.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Tcp<T> {
    /// Checks the length and the data offset. `bytes` is the whole IP payload.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        let header = usize::from(b[12] >> 4) * 4;
        if header < HEADER_LEN || header > b.len() {
            return Err(Malformed::HeaderLength);
        }
        Ok(Tcp { bytes })
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

    /// Sequence number.
    #[inline]
    pub fn sequence(&self) -> u32 {
        be32(self.bytes.as_ref(), 4)
    }

    /// Acknowledgment number.
    #[inline]
    pub fn acknowledgment(&self) -> u32 {
        be32(self.bytes.as_ref(), 8)
    }

    /// Header length in bytes, options included: 20..=60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes.as_ref()[12] >> 4) * 4
    }

    /// The control bits: see [`flags`].
    #[inline]
    pub fn flags(&self) -> u8 {
        self.bytes.as_ref()[13]
    }

    /// Receive window, unscaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.bytes.as_ref(), 14)
    }

    /// The checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes.as_ref(), 16)
    }

    /// Urgent pointer.
    #[inline]
    pub fn urgent_pointer(&self) -> u16 {
        be16(self.bytes.as_ref(), 18)
    }

    /// The options, one by one.
    pub fn options(&self) -> TcpOptions<'_> {
        TcpOptions { rest: &self.bytes.as_ref()[HEADER_LEN..self.header_len()] }
    }

    /// The data.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_len()..]
    }

    /// Whether the checksum is right over IPv4.
    pub fn verify_checksum_v4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        let bytes = self.bytes.as_ref();
        let pseudo = checksum::pseudo_v4(source, destination, protocol::TCP, bytes.len() as u16);
        checksum::fold(pseudo + checksum::sum(bytes)) == 0xffff
    }

    /// Whether the checksum is right over IPv6.
    pub fn verify_checksum_v6(&self, source: &Ipv6Addr, destination: &Ipv6Addr) -> bool {
        let bytes = self.bytes.as_ref();
        let pseudo = checksum::pseudo_v6(source, destination, protocol::TCP, bytes.len() as u32);
        checksum::fold(pseudo + checksum::sum(bytes)) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tcp<T> {
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

    /// Sets the sequence number.
    pub fn set_sequence(&mut self, sequence: u32) {
        put32(self.bytes.as_mut(), 4, sequence);
    }

    /// Sets the acknowledgment number.
    pub fn set_acknowledgment(&mut self, acknowledgment: u32) {
        put32(self.bytes.as_mut(), 8, acknowledgment);
    }

    /// Sets the control bits.
    pub fn set_flags(&mut self, flags: u8) {
        self.bytes.as_mut()[13] = flags;
    }

    /// Sets the window.
    pub fn set_window(&mut self, window: u16) {
        put16(self.bytes.as_mut(), 14, window);
    }

    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.bytes.as_mut(), 16, checksum);
    }

    /// Sets the urgent pointer.
    pub fn set_urgent_pointer(&mut self, pointer: u16) {
        put16(self.bytes.as_mut(), 18, pointer);
    }

    /// Computes the checksum over IPv4 anew.
    pub fn fill_checksum_v4(&mut self, source: Ipv4Addr, destination: Ipv4Addr) {
        let len = self.bytes.as_ref().len() as u16;
        self.fill(checksum::pseudo_v4(source, destination, protocol::TCP, len));
    }

    /// Computes the checksum over IPv6 anew.
    pub fn fill_checksum_v6(&mut self, source: &Ipv6Addr, destination: &Ipv6Addr) {
        let len = self.bytes.as_ref().len() as u32;
        self.fill(checksum::pseudo_v6(source, destination, protocol::TCP, len));
    }

    fn fill(&mut self, pseudo: u32) {
        self.set_checksum(0);
        let checksum = checksum::finish(pseudo + checksum::sum(self.bytes.as_ref()));
        self.set_checksum(checksum);
    }
}

/// One option (RFC 9293 3.2, RFC 7323, RFC 2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// The rest is padding; always the last item.
    End,
    /// One byte of padding.
    Nop,
    /// The largest segment that the sender takes, bytes.
    MaximumSegmentSize(u16),
    /// The window counts in units of 2 to this power.
    WindowScale(u8),
    /// Selective acknowledgments are welcome.
    SackPermitted,
    /// Selective acknowledgment: pairs of 4-byte sequence numbers.
    Sack(&'a [u8]),
    /// Value and echo.
    Timestamps(u32, u32),
    /// Any other.
    Unknown {
        /// Type.
        kind: u8,
        /// What follows the length byte.
        data: &'a [u8],
    },
}

/// Iterates over options. A wrong length is one error item, and the last.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        match *rest {
            [] => None,
            [0, ..] => Some(Ok(TcpOption::End)),
            [1, ref after @ ..] => {
                self.rest = after;
                Some(Ok(TcpOption::Nop))
            }
            [kind, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                let (option, after) = rest.split_at(usize::from(len));
                let option = read(kind, &option[2..]);
                if option.is_ok() {
                    self.rest = after;
                }
                Some(option)
            }
            _ => Some(Err(Malformed::OptionLength)),
        }
    }
}

fn read(kind: u8, data: &[u8]) -> Result<TcpOption<'_>, Malformed> {
    match (kind, data.len()) {
        (2, 2) => Ok(TcpOption::MaximumSegmentSize(be16(data, 0))),
        (3, 1) => Ok(TcpOption::WindowScale(data[0])),
        (4, 0) => Ok(TcpOption::SackPermitted),
        (5, len) if len.is_multiple_of(8) => Ok(TcpOption::Sack(data)),
        (8, 8) => Ok(TcpOption::Timestamps(be32(data, 0), be32(data, 4))),
        (2..=5 | 8, _) => Err(Malformed::OptionLength),
        _ => Ok(TcpOption::Unknown { kind, data }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ipv4;
    use crate::wire::captured::{self, layer};

    #[test]
    fn reads_a_real_syn() {
        let bytes = layer(captured::TCP_SYN_4, 14);
        let ip = Ipv4::new(&bytes[..]).unwrap();
        let segment = Tcp::new(ip.payload()).unwrap();
        assert_eq!((segment.source_port(), segment.destination_port()), (0x9574, 80));
        assert_eq!((segment.sequence(), segment.acknowledgment()), (0x4939_ee82, 0));
        assert_eq!((segment.header_len(), segment.flags(), segment.window()), (40, flags::SYN, 0xfaf0));
        assert_eq!((segment.urgent_pointer(), segment.payload()), (0, &[][..]));
        let options: Vec<_> = segment.options().map(Result::unwrap).collect();
        let expected = [
            TcpOption::MaximumSegmentSize(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps(0x8487_c991, 0),
            TcpOption::Nop,
            TcpOption::WindowScale(10),
        ];
        assert_eq!(options, expected);
    }

    #[test]
    fn checksums_of_real_segments() {
        for hex in [captured::TCP_SYN_4, captured::TCP_RST_4] {
            let bytes = layer(hex, 14);
            let ip = Ipv4::new(&bytes[..]).unwrap();
            let mut copy = ip.payload().to_vec();
            let mut segment = Tcp::new(&mut copy[..]).unwrap();
            assert!(segment.verify_checksum_v4(ip.source(), ip.destination()));
            assert!(!segment.verify_checksum_v4(ip.source(), Ipv4Addr::LOCALHOST));
            let sent = segment.checksum();
            segment.fill_checksum_v4(ip.source(), ip.destination());
            assert_eq!(segment.checksum(), sent);
            let (a, b) = (&Ipv6Addr::LOCALHOST, &Ipv6Addr::UNSPECIFIED);
            segment.fill_checksum_v6(a, b);
            assert!(segment.verify_checksum_v6(a, b) && !segment.verify_checksum_v6(a, a));
        }
    }

    #[test]
    fn data_offset_rules() {
        let mut bytes = [0; 24];
        let mut new = |offset: u8, len: usize| {
            bytes[12] = offset << 4;
            Tcp::new(&bytes[..len]).map(|segment| segment.payload().len())
        };
        assert_eq!(new(5, 19), Err(Malformed::Short));
        assert_eq!(new(4, 24), Err(Malformed::HeaderLength));
        assert_eq!(new(7, 24), Err(Malformed::HeaderLength));
        assert_eq!((new(5, 24), new(6, 24)), (Ok(4), Ok(0)));
    }

    #[test]
    fn bad_options_are_the_last_item() {
        let all = |rest| TcpOptions { rest }.collect::<Vec<_>>();
        for bad in [
            &b"\x02"[..],
            b"\x02\x00\x01\x01",
            b"\x02\x01\x01\x01",
            b"\x02\x05\x01\x01",
            b"\x02\x03\x01\x01",
            b"\x05\x06\0\0\0\0",
        ] {
            assert_eq!(all(bad), [Err(Malformed::OptionLength)], "{bad:02x?}");
        }
        let sack = [5, 10, 0, 0, 0, 1, 0, 0, 0, 9, 0, 7];
        assert_eq!(all(&sack), [Ok(TcpOption::Sack(&sack[2..10])), Ok(TcpOption::End)]);
        assert_eq!(all(b"\xfe\x03\x07\x01"), [Ok(TcpOption::Unknown { kind: 254, data: &[7] }), Ok(TcpOption::Nop)]);
    }
}
