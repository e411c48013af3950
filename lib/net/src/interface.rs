// SPDX-License-Identifier: MIT
//! Interfaces of the router: a port, or a VLAN on a port, with MAC address, MTU and IP addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::{MacAddr, Prefix, PrefixError};

/// Number of an interface, from 0, below [`InterfaceId::LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u16);

impl InterfaceId {
    /// Numbers from here on are not interfaces: the forwarding table codes other actions with them.
    pub const LIMIT: u16 = 0xfff0;

    /// The number as an index into a list of interfaces.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An address of an interface and the prefix length of its network; as text `10.0.1.1/24`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceAddress {
    /// The address, host bits and all.
    pub address: IpAddr,
    /// Leading bits that all stations on the link share: 0 to 32 or 128; more counts as all.
    pub prefix_len: u8,
}

impl InterfaceAddress {
    /// An address with a prefix length; refuses lengths over 32 or 128.
    pub fn new(address: IpAddr, prefix_len: u8) -> Result<Self, PrefixError> {
        Prefix::truncated(address, prefix_len)?;
        Ok(Self { address, prefix_len })
    }

    /// Whether the prefix length fits the family.
    pub fn is_valid(self) -> bool {
        self.prefix_len <= Prefix::longest(self.address)
    }

    /// The network of the link: the address without its host bits.
    pub fn network(self) -> Prefix {
        let len = self.prefix_len.min(Prefix::longest(self.address));
        Prefix::truncated(self.address, len).expect("the length was limited to the family's")
    }

    /// Whether `other` is on the link of this prefix; never across families.
    pub fn covers(self, other: IpAddr) -> bool {
        self.network().contains(other)
    }

    /// The two broadcast addresses of an IPv4 prefix: all ones, and all zeros of old (RFC 1812 section 4.2.3.1). A /31
    /// and a /32 have none (RFC 3021).
    pub fn broadcasts(self) -> impl Iterator<Item = Ipv4Addr> {
        let pair = match self.network() {
            Prefix::V4(net) if net.len() <= 30 => Some([net.last(), net.addr()]),
            _ => None,
        };
        pair.into_iter().flatten().map(Ipv4Addr::from_bits)
    }

    /// The subnet-router anycast address of an IPv6 prefix, which all routers on the link have: the prefix and zeros
    /// (RFC 4291 2.6.1). A /127 and a /128 have none (RFC 6164 5), nor has the prefix `::`, which is no address.
    pub fn subnet_router(self) -> Option<Ipv6Addr> {
        match self.network() {
            Prefix::V6(net) if net.len() <= 126 && net.addr() != 0 => Some(Ipv6Addr::from_bits(net.addr())),
            _ => None,
        }
    }
}

/// How far an address reaches, where Linux says so (`ip address`: `scope`). That of an IPv6 address is a part of it
/// instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressScope {
    /// Beyond the link.
    #[default]
    Global,
    /// The link.
    Link,
    /// The machine: no packet that leaves it has such a source.
    Host,
}

/// What is known of an own address besides its prefix; the default is that of a configured one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressAttributes {
    pub scope: AddressScope,
    /// A source only where no other will do (RFC 4862 5.5.4, RFC 6724 5, rule 3). Linux chooses IPv4 sources without
    /// looking at it.
    pub deprecated: bool,
    /// The network whose hosts it is spoken to from, if that is not the address's own: the peer's, or one that has no
    /// connected route.
    pub toward: Option<Prefix>,
}

/// A virtual station on the link of one of the router's interfaces: a MAC address beside the interface's own, as VRRP
/// has it (RFC 5798 7.3). Linux has it as a macvlan on the twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station {
    pub interface: InterfaceId,
    pub mac: MacAddr,
}

/// An address of the router that is on none of its interfaces: of Linux's loopback, say, or of a virtual station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAddress {
    pub address: InterfaceAddress,
    pub attributes: AddressAttributes,
    /// The station that has it, by whose MAC address it is answered for. Its addresses may be link-local.
    pub station: Option<Station>,
}

impl HostAddress {
    /// The subnet-router anycast address of its network.
    pub fn subnet_router(self) -> Option<Ipv6Addr> {
        // That an address has no connected route says nothing of how long its subnet's prefix is.
        let prefix_len = self.attributes.toward.map_or(self.address.prefix_len, Prefix::len);
        InterfaceAddress { prefix_len, ..self.address }.subnet_router()
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

impl fmt::Debug for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for InterfaceAddress {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, prefix_len) = Prefix::parts(text)?;
        Self::new(address, prefix_len)
    }
}

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, which is unique.
    pub name: String,
    /// The port's index.
    pub port: u16,
    /// VLAN id, 1 to 4094 (IEEE 802.1Q); `None` for untagged frames.
    pub vlan: Option<u16>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Own MAC address.
    pub mac: MacAddr,
    /// Whether it is in use. One that is down takes no frames in; it keeps its id, and its port and VLAN.
    pub up: bool,
    /// Own addresses; the first of a family is the primary one.
    pub addresses: Vec<InterfaceAddress>,
    /// Attributes of those of them that are not as configured ones are.
    pub attributes: BTreeMap<InterfaceAddress, AddressAttributes>,
    /// What is done with packets that come in on it, or would leave by it, beyond plain forwarding.
    pub policy: Policy,
}

impl Interface {
    /// What is known of one of its addresses.
    pub fn attributes_of(&self, address: InterfaceAddress) -> AddressAttributes {
        self.attributes.get(&address).copied().unwrap_or_default()
    }

    /// The subnet-router anycast addresses of its networks, each with the address that is on the network.
    pub fn subnet_routers(&self) -> impl Iterator<Item = (Ipv6Addr, IpAddr)> + '_ {
        let with_attributes =
            |own: &InterfaceAddress| HostAddress { address: *own, attributes: self.attributes_of(*own), station: None };
        self.addresses.iter().map(with_attributes).filter_map(|own| Some((own.subnet_router()?, own.address.address)))
    }
}

/// The switches of an interface that RFCs ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Senders on the link are told of a better first hop (RFC 1812 5.2.7.2, RFC 4861 8.2).
    pub redirects: bool,
    /// The check of the sources of packets that come in (RFC 3704).
    pub urpf: ReversePath,
    /// Packets to the broadcast addresses of its networks are sent to all stations on the link (RFC 2644).
    pub directed_broadcast: bool,
    /// IPv4 source routes of packets that come in are followed (RFC 1812 5.2.4.1, RFC 7126 4.3 and 4.4).
    pub source_routes: bool,
}

/// Unicast reverse path forwarding: whether a packet's source must have a route (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReversePath {
    /// It is not looked at.
    #[default]
    Off,
    /// A route by any interface will do, the default route included (RFC 3704 2.4).
    Loose,
    /// One of the paths to the source must lead out of the interface that the packet came in on (RFC 3704 2.2, 2.3).
    Strict,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { redirects: true, urpf: ReversePath::Off, directed_broadcast: false, source_routes: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str, prefix_len: u8) -> InterfaceAddress {
        InterfaceAddress { address: text.parse().unwrap(), prefix_len }
    }

    #[test]
    fn text_there_and_back() {
        for (text, network) in
            [("10.0.1.1/24", "10.0.1.0/24"), ("10.0.1.1/0", "0.0.0.0/0"), ("2001:db8::1/64", "2001:db8::/64")]
        {
            let own: InterfaceAddress = text.parse().unwrap();
            assert_eq!((own.to_string().as_str(), own.network()), (text, network.parse().unwrap()));
            assert!(own.is_valid());
        }
        let why = |text: &str| text.parse::<InterfaceAddress>().unwrap_err().to_string();
        assert_eq!(why("10.0.0.1/33"), "10.0.0.1/33: the length is too long; expected 0 to 32");
        for text in ["", "10.0.0.1", "10.0.0.1/", "10.0.0.1/+8", "10.0.0.1/ 8", "::1/1000", "x/8", "10.0.0.1/24/24"] {
            assert!(why(text).contains("expected ADDRESS/LENGTH"), "{text}");
        }
        assert!(!address("10.0.0.1", 33).is_valid() && !address("::1", 129).is_valid());
    }

    #[test]
    fn prefixes_cover_at_every_length() {
        let covers = |own: &str, len, other: &str| address(own, len).covers(other.parse().unwrap());
        assert!(covers("10.0.0.1", 24, "10.0.0.255") && !covers("10.0.0.1", 24, "10.0.1.0"));
        assert!(covers("10.0.0.0", 31, "10.0.0.1") && !covers("10.0.0.0", 32, "10.0.0.1"));
        assert!(covers("10.0.0.0", 0, "203.0.113.1") && covers("::1", 0, "2001:db8::"));
        assert!(covers("2001:db8::", 127, "2001:db8::1") && !covers("2001:db8::", 128, "2001:db8::1"));
        assert!(!covers("2001:db8::", 64, "10.0.0.1") && !covers("10.0.0.1", 200, "10.0.0.2"));
    }

    #[test]
    fn subnet_router_of_a_prefix() {
        let of = |text, len| address(text, len).subnet_router().map(|anycast| anycast.to_string());
        assert_eq!(of("2001:db8:1::1", 64).as_deref(), Some("2001:db8:1::"));
        assert_eq!(of("2001:db8:1::6", 126).as_deref(), Some("2001:db8:1::4"));
        assert_eq!(of("fe80::1", 64).as_deref(), Some("fe80::"));
        assert_eq!(
            (of("2001:db8:1::1", 127), of("2001:db8:1::", 128), of("::5", 64), of("10.0.0.1", 24)),
            Default::default()
        );
    }

    #[test]
    fn broadcasts_of_a_prefix() {
        let of = |text, len| address(text, len).broadcasts().map(|b| b.to_string()).collect::<Vec<_>>();
        assert_eq!(of("10.0.0.9", 24), ["10.0.0.255", "10.0.0.0"]);
        assert_eq!(of("10.0.0.9", 30), ["10.0.0.11", "10.0.0.8"]);
        assert!(of("10.0.0.9", 31).is_empty() && of("10.0.0.9", 32).is_empty() && of("2001:db8::1", 64).is_empty());
    }
}
