// SPDX-License-Identifier: MIT
//! MAC addresses, and the addresses derived from one another: group MACs, solicited-node groups, link-local addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An Ethernet address, in the order of transmission.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// `00:00:00:00:00:00`: no address.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// The address from its six bytes.
    pub const fn new(bytes: [u8; 6]) -> Self {
        MacAddr(bytes)
    }

    /// The six bytes, in the order of transmission.
    #[inline]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// The group bit is set: multicast, and broadcast too.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// All ones.
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        matches!(self.0, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
    }

    /// All zeros.
    #[inline]
    pub const fn is_zero(self) -> bool {
        matches!(self.0, [0, 0, 0, 0, 0, 0])
    }

    /// An address that one station can own: neither a group (IEEE 802 section 8.2) nor zero.
    #[inline]
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && !self.is_zero()
    }

    /// The MAC of an IPv6 group: 33:33 and the low 32 bits (RFC 2464 7).
    pub const fn from_ipv6_multicast(group: Ipv6Addr) -> Self {
        let o = group.octets();
        MacAddr([0x33, 0x33, o[12], o[13], o[14], o[15]])
    }

    /// The MAC of an IPv4 group: 01:00:5e and the low 23 bits (RFC 1112 6.4).
    pub const fn from_ipv4_multicast(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        MacAddr([1, 0, 0x5e, b & 0x7f, c, d])
    }

    /// The MAC of a group of either family.
    pub const fn of_group(group: IpAddr) -> Self {
        match group {
            IpAddr::V4(group) => Self::from_ipv4_multicast(group),
            IpAddr::V6(group) => Self::from_ipv6_multicast(group),
        }
    }

    /// The link-local address fe80::/64 with the modified EUI-64 identifier of this MAC (RFC 4291 2.5.1, RFC 2464 5).
    pub const fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        let bytes = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
        Ipv6Addr::from_bits(u128::from_be_bytes(bytes))
    }
}

/// Whether one host can have an IPv4 address: not 0/8, 127/8, a group, or 240/4 with the limited broadcast (RFC 1812
/// 5.3.7, 4.2.2.11).
pub const fn is_host(address: Ipv4Addr) -> bool {
    !matches!(address.octets()[0], 0 | 127 | 224..)
}

/// Whether an address is valid on one link only: fe80::/10 (RFC 4291 2.5.6), which every link has. No IPv4 address
/// counts, not even in 169.254/16.
pub const fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The solicited-node group of an address: ff02::1:ff00:0/104 and its low 24 bits (RFC 4291 2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let o = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | o[13] as u16, u16::from_be_bytes([o[14], o[15]]))
}

impl From<[u8; 6]> for MacAddr {
    fn from(bytes: [u8; 6]) -> Self {
        MacAddr(bytes)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not six two-digit hexadecimal numbers with colons between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseMacError(String);

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not a MAC address; write it like 02:00:00:00:00:01", self.0)
    }
}

impl std::error::Error for ParseMacError {}

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let fail = || ParseMacError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(fail)?;
            // from_str_radix alone would take "+1".
            if part.len() != 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(fail());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| fail())?;
        }
        if parts.next().is_some() { Err(fail()) } else { Ok(MacAddr(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_host_is_no_group_and_not_reserved() {
        let host = |text: &str| is_host(text.parse().unwrap());
        assert!(["1.0.0.0", "10.0.0.255", "126.255.255.255", "128.0.0.0", "223.255.255.255"].into_iter().all(host));
        let none =
            ["0.0.0.0", "0.255.255.255", "127.0.0.1", "127.255.255.255", "224.0.0.0", "240.0.0.1", "255.255.255.255"];
        assert!(!none.into_iter().any(host));
    }

    #[test]
    fn text_round_trip() {
        let mac: MacAddr = "02:aB:00:00:fF:01".parse().unwrap();
        assert_eq!(mac.0, [2, 0xab, 0, 0, 0xff, 1]);
        assert_eq!(mac.to_string(), "02:ab:00:00:ff:01");
    }

    #[test]
    fn bad_text_is_refused_with_the_text() {
        for text in
            ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "+2:00:00:00:00:01", "0g:00:00:00:00:01"]
        {
            let error = text.parse::<MacAddr>().unwrap_err().to_string();
            assert!(error.contains(&format!("\"{text}\"")), "{error}");
        }
    }

    #[test]
    fn kinds() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        assert!(MacAddr::ZERO.is_zero() && !MacAddr::ZERO.is_unicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast());
    }

    #[test]
    fn derived_addresses() {
        // RFC 4291 2.7.1's own example.
        let node: Ipv6Addr = "4037::01:800:200e:8c6c".parse().unwrap();
        assert_eq!(solicited_node(node), "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
        assert_eq!(MacAddr::from_ipv6_multicast(solicited_node(node)).to_string(), "33:33:ff:0e:8c:6c");
        // The highest of the 24 bits is lost.
        let of_group = |group: &str| MacAddr::of_group(group.parse().unwrap()).to_string();
        assert_eq!(
            (of_group("239.129.2.3"), of_group("224.1.2.3")),
            ("01:00:5e:01:02:03".into(), of_group("225.129.2.3"))
        );
        assert_eq!(of_group("ff05::1:3"), "33:33:00:01:00:03");
        // RFC 2464 4's example: 34-56-78-9A-BC-DE becomes 36-56-78-FF-FE-9A-BC-DE.
        let mac = MacAddr([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(mac.link_local(), "fe80::3656:78ff:fe9a:bcde".parse::<Ipv6Addr>().unwrap());
    }

    #[test]
    fn link_local_is_the_whole_slash_10() {
        for (address, expected) in [
            ("fe7f:ffff::1", false),
            ("fe80::", true),
            ("febf:ffff::1", true),
            ("fec0::1", false),
            ("2001:db8::1", false),
            ("169.254.1.1", false),
        ] {
            assert_eq!(is_link_local(address.parse().unwrap()), expected, "{address}");
        }
    }
}
