// SPDX-License-Identifier: MIT
//! ARP for IPv4 on Ethernet (RFC 826).
//!
//! ```text
//!  0      2      4    5    6       8            14          18           24          28
//! +------+------+----+----+-------+------------+-----------+------------+-----------+
//! |htype |ptype |hlen|plen|  op   | sender MAC | sender IP | target MAC | target IP |
//! |  1   |0x0800| 6  | 4  |       |            |           |            |           |
//! +------+------+----+----+-------+------------+-----------+------------+-----------+
//! ```

use std::net::Ipv4Addr;

use crate::wire::Malformed;
use crate::wire::bytes::{array, be16, put, put16};
use perigee_net::MacAddr;

/// Bytes of an ARP packet.
pub const LEN: usize = 28;

/// Operation: who has the target address?
pub const REQUEST: u16 = 1;
/// Operation: the sender answers.
pub const REPLY: u16 = 2;

/// A view on an ARP packet; at least [`LEN`] bytes, Ethernet and IPv4.
#[derive(Clone, Copy, Debug)]
pub struct Arp<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Arp<T> {
    /// Checks the length, the hardware and protocol type and the address lengths, in the order of RFC 826's "Packet
    /// Reception".
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < LEN {
            return Err(Malformed::Short);
        }
        if be16(b, 0) != 1 {
            return Err(Malformed::HardwareType);
        }
        if be16(b, 2) != 0x0800 {
            return Err(Malformed::ProtocolType);
        }
        if (b[4], b[5]) != (6, 4) {
            return Err(Malformed::AddressLength);
        }
        Ok(Arp { bytes })
    }

    /// Gives the bytes back.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// [`REQUEST`], [`REPLY`] or something else.
    #[inline]
    pub fn operation(&self) -> u16 {
        be16(self.bytes.as_ref(), 6)
    }

    /// Sender's MAC.
    #[inline]
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(array(self.bytes.as_ref(), 8))
    }

    /// Sender's address; 0.0.0.0 in a probe (RFC 5227).
    #[inline]
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array(self.bytes.as_ref(), 14))
    }

    /// Target's MAC; without meaning in a request.
    #[inline]
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(array(self.bytes.as_ref(), 18))
    }

    /// Target's address.
    #[inline]
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array(self.bytes.as_ref(), 24))
    }

    /// All fields at once.
    pub fn repr(&self) -> Repr {
        Repr {
            operation: self.operation(),
            sender_mac: self.sender_mac(),
            sender_ip: self.sender_ip(),
            target_mac: self.target_mac(),
            target_ip: self.target_ip(),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Arp<T> {
    /// Sets the operation.
    pub fn set_operation(&mut self, operation: u16) {
        put16(self.bytes.as_mut(), 6, operation);
    }

    /// Sets the sender's MAC.
    pub fn set_sender_mac(&mut self, mac: MacAddr) {
        put(self.bytes.as_mut(), 8, mac.0);
    }

    /// Sets the sender's address.
    pub fn set_sender_ip(&mut self, ip: Ipv4Addr) {
        put(self.bytes.as_mut(), 14, ip.octets());
    }

    /// Sets the target's MAC.
    pub fn set_target_mac(&mut self, mac: MacAddr) {
        put(self.bytes.as_mut(), 18, mac.0);
    }

    /// Sets the target's address.
    pub fn set_target_ip(&mut self, ip: Ipv4Addr) {
        put(self.bytes.as_mut(), 24, ip.octets());
    }
}

/// The fields of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// [`REQUEST`] or [`REPLY`].
    pub operation: u16,
    /// Sender's MAC.
    pub sender_mac: MacAddr,
    /// Sender's address.
    pub sender_ip: Ipv4Addr,
    /// Target's MAC.
    pub target_mac: MacAddr,
    /// Target's address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// A request for `target_ip`.
    pub fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        Repr { operation: REQUEST, sender_mac, sender_ip, target_mac: MacAddr::ZERO, target_ip }
    }

    /// The answer to this request: its target address is at `mac`.
    pub fn reply(&self, mac: MacAddr) -> Self {
        Repr {
            operation: REPLY,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Writes the packet at the start of `buf` and returns its length, 28; [`Malformed::Short`] if it does not fit.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, Malformed> {
        let bytes = buf.get_mut(..LEN).ok_or(Malformed::Short)?;
        put(bytes, 0, [0, 1, 8, 0, 6, 4]);
        let mut packet = Arp { bytes };
        packet.set_operation(self.operation);
        packet.set_sender_mac(self.sender_mac);
        packet.set_sender_ip(self.sender_ip);
        packet.set_target_mac(self.target_mac);
        packet.set_target_ip(self.target_ip);
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has 10.0.2.2? Tell 10.0.2.15.
    const REAL: [u8; 28] =
        *b"\x00\x01\x08\x00\x06\x04\x00\x01\x52\x54\x00\x12\x34\x56\x0a\x00\x02\x0f\x00\x00\x00\x00\x00\x00\x0a\x00\x02\x02";

    #[test]
    fn reads_and_writes_a_real_request() {
        let repr = Arp::new(REAL).unwrap().repr();
        let mac = MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        assert_eq!(repr, Repr::request(mac, Ipv4Addr::new(10, 0, 2, 15), Ipv4Addr::new(10, 0, 2, 2)));
        let mut buf = [0xaa; 28];
        assert_eq!(repr.emit(&mut buf), Ok(28));
        assert_eq!(buf, REAL);
    }

    #[test]
    fn reply_turns_it_around() {
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let reply = Arp::new(REAL).unwrap().repr().reply(mac);
        assert_eq!((reply.operation, reply.sender_mac, reply.sender_ip), (REPLY, mac, Ipv4Addr::new(10, 0, 2, 2)));
        assert_eq!(reply.target_ip, Ipv4Addr::new(10, 0, 2, 15));
        assert_eq!(reply.emit(&mut [0; 27]), Err(Malformed::Short));
    }

    #[test]
    fn each_check_has_its_reason() {
        let broken = |at: usize, value: u8| {
            let mut bytes = REAL;
            bytes[at] = value;
            Arp::new(bytes).unwrap_err()
        };
        assert_eq!(broken(1, 6), Malformed::HardwareType);
        assert_eq!(broken(2, 0x86), Malformed::ProtocolType);
        assert_eq!(broken(4, 8), Malformed::AddressLength);
        assert_eq!(broken(5, 16), Malformed::AddressLength);
        assert_eq!(Arp::new(&REAL[..27]).unwrap_err(), Malformed::Short);
    }
}
