// SPDX-License-Identifier: MIT
//! The five-tuple: what filters match, its fields each fixed, a range, or open; and a packet's own, as a key to match.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::Prefix;

/// TCP or UDP ports, both ends included; as text `80` or `1024-65535`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Every port, and 0 where a packet has none.
    pub const ALL: Self = Self { first: 0, last: u16::MAX };

    /// The ports from `first` to `last`; refuses a `last` below `first`.
    pub const fn new(first: u16, last: u16) -> Result<Self, PortRangeError> {
        if first <= last { Ok(Self { first, last }) } else { Err(PortRangeError::Order) }
    }

    /// This one port.
    pub const fn only(port: u16) -> Self {
        Self { first: port, last: port }
    }

    /// The lowest port that matches.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The highest port that matches.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Whether `port` lies in the range.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

/// Why a text is not a range of ports.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PortRangeError {
    /// Not a port.
    #[error("not a number up to 65535")]
    Number,
    /// The last port is below the first.
    #[error("the end is before the beginning")]
    Order,
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let number = |text: &str| {
            // u16's own parser would take "+1".
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits).ok_or(PortRangeError::Number)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Self::new(number(first)?, number(last)?)
    }
}

/// A set of packets by addresses, protocol and ports; a field that is `None` matches everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// Source address.
    pub src: Option<Prefix>,
    /// Destination address, of the same family.
    pub dst: Option<Prefix>,
    /// Protocol number (IANA); of IPv6 that of the upper layer.
    pub proto: Option<u8>,
    /// Source port.
    pub sport: Option<PortRange>,
    /// Destination port.
    pub dport: Option<PortRange>,
}

impl FiveTuple {
    /// Whether it can match IPv4 packets.
    pub fn ipv4(&self) -> bool {
        !self.prefixes().any(|prefix| matches!(prefix, Prefix::V6(_)))
    }

    /// Whether it can match IPv6 packets.
    pub fn ipv6(&self) -> bool {
        !self.prefixes().any(|prefix| matches!(prefix, Prefix::V4(_)))
    }

    fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        [self.src, self.dst].into_iter().flatten()
    }
}

/// What a packet does not show of its 5-tuple. A matcher of rules must not take it for a packet without ports: whoever
/// sees the whole datagram finds them.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// All is here. Packets of protocols without ports, such as ICMP, lack nothing.
    #[default]
    Nothing = 0,
    /// The ports of a protocol that has some: a fragment but the first, or a packet that ends before them.
    Ports = 1,
    /// The protocol, and with it the ports: a chain of extension headers that is broken, too long, or goes on in a
    /// later fragment.
    Protocol = 2,
}

/// A packet's 5-tuple with addresses of `N` bytes, all in network byte order; no padding between the fields, nor behind
/// them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<const N: usize> {
    /// Upper-layer protocol, extension headers skipped.
    pub protocol: u8,
    /// What the packet does not show of the fields below and above; what is missing is 0.
    pub missing: Missing,
    /// Whether it is a fragment: others of its datagram may show what is missing.
    pub fragment: bool,
    /// Zero, so that the addresses are aligned.
    pub zero: u8,
    /// Source address.
    pub source: [u8; N],
    /// Destination address.
    pub destination: [u8; N],
    /// Source port of TCP, UDP, UDP-Lite, DCCP and SCTP, else 0.
    pub source_port: [u8; 2],
    /// Destination port, likewise.
    pub destination_port: [u8; 2],
}

/// The 5-tuple of an IPv4 packet: 16 bytes.
pub type Key4 = Key<4>;
/// The 5-tuple of an IPv6 packet: 40 bytes.
pub type Key6 = Key<16>;

// What matchers in C take.
const _: () = assert!(size_of::<Key4>() == 16 && size_of::<Key6>() == 40);

impl<const N: usize> Key<N> {
    /// An empty key.
    pub const ZERO: Key<N> = Key {
        protocol: 0,
        missing: Missing::Nothing,
        fragment: false,
        zero: 0,
        source: [0; N],
        destination: [0; N],
        source_port: [0; 2],
        destination_port: [0; 2],
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_print_as_they_parse() {
        for (text, first, last) in [("80", 80, 80), ("1024-65535", 1024, 65535), ("0-65535", 0, 65535)] {
            let range: PortRange = text.parse().unwrap();
            assert_eq!((range.to_string().as_str(), range), (text, PortRange { first, last }));
            assert!(range.contains(first) && range.contains(last));
            assert!(first == 0 || !range.contains(first - 1));
            assert!(last == u16::MAX || !range.contains(last + 1));
        }
        for text in ["", "-", "70000", "+1", "1-+2", "80-", "1-2-3"] {
            assert_eq!(text.parse::<PortRange>(), Err(PortRangeError::Number), "{text}");
        }
        assert_eq!("9-1".parse::<PortRange>(), Err(PortRangeError::Order));
    }

    #[test]
    fn a_prefix_decides_the_family() {
        let prefix = |text: &str| Some(text.parse().unwrap());
        let any = FiveTuple::default();
        assert!(any.ipv4() && any.ipv6());
        for tuple in [FiveTuple { src: prefix("0.0.0.0/0"), ..any }, FiveTuple { dst: prefix("10.0.0.0/8"), ..any }] {
            assert!(tuple.ipv4() && !tuple.ipv6());
        }
        for tuple in [FiveTuple { src: prefix("::/0"), ..any }, FiveTuple { dst: prefix("2001:db8::/32"), ..any }] {
            assert!(!tuple.ipv4() && tuple.ipv6());
        }
        let mixed = FiveTuple { src: prefix("10.0.0.0/8"), dst: prefix("::/0"), ..any };
        assert!(!mixed.ipv4() && !mixed.ipv6());
    }
}
