// SPDX-License-Identifier: MIT
//! What filters match: the five fields that make a flow.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// An address family's addresses.
pub trait Address: Copy + Eq + std::fmt::Display + private::Sealed {
    /// Bits of an address.
    const BITS: u8;
    /// 4 or 6.
    const FAMILY: u8;
    /// The address in network order, left-aligned.
    fn bytes(self) -> [u8; 16];
}

mod private {
    pub trait Sealed {}
    impl Sealed for std::net::Ipv4Addr {}
    impl Sealed for std::net::Ipv6Addr {}
}

impl Address for Ipv4Addr {
    const BITS: u8 = 32;
    const FAMILY: u8 = 4;
    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.octets());
        bytes
    }
}

impl Address for Ipv6Addr {
    const BITS: u8 = 128;
    const FAMILY: u8 = 6;
    fn bytes(self) -> [u8; 16] {
        self.octets()
    }
}

/// Packets by source and destination prefix, protocol and ports. A packet without ports has 0 in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiveTuple<A> {
    /// Source address and prefix length; bits behind the prefix do not matter.
    pub source: (A, u8),
    /// Destination address and prefix length.
    pub destination: (A, u8),
    /// Protocol number (IPv6: of the upper layer); `None`: any.
    pub protocol: Option<u8>,
    /// Source ports.
    pub source_ports: RangeInclusive<u16>,
    /// Destination ports.
    pub destination_ports: RangeInclusive<u16>,
}

/// Every port.
pub const ANY_PORT: RangeInclusive<u16> = 0..=u16::MAX;

impl FiveTuple<Ipv4Addr> {
    /// Matches every IPv4 packet; narrow it with struct update syntax.
    pub const ANY: FiveTuple<Ipv4Addr> = FiveTuple {
        source: (Ipv4Addr::UNSPECIFIED, 0),
        destination: (Ipv4Addr::UNSPECIFIED, 0),
        protocol: None,
        source_ports: ANY_PORT,
        destination_ports: ANY_PORT,
    };
}

impl FiveTuple<Ipv6Addr> {
    /// Matches every IPv6 packet; narrow it with struct update syntax.
    pub const ANY: FiveTuple<Ipv6Addr> = FiveTuple {
        source: (Ipv6Addr::UNSPECIFIED, 0),
        destination: (Ipv6Addr::UNSPECIFIED, 0),
        protocol: None,
        source_ports: ANY_PORT,
        destination_ports: ANY_PORT,
    };
}

impl<A: Address> FiveTuple<A> {
    /// What is wrong with it, as the end of a sentence.
    pub(crate) fn mistake(&self) -> Option<String> {
        for (name, (address, bits)) in [("source", self.source), ("destination", self.destination)] {
            if bits > A::BITS {
                return Some(format!("its {name} {address}/{bits} has a prefix longer than {} bits", A::BITS));
            }
        }
        for (name, ports) in [("source", &self.source_ports), ("destination", &self.destination_ports)] {
            if ports.is_empty() {
                return Some(format!("its {name} ports {}-{} are in the wrong order", ports.start(), ports.end()));
            }
        }
        None
    }
}
