// SPDX-License-Identifier: MIT
//! Which of its addresses the router speaks from: source address selection (RFC 6724 5), and Linux's choice for IPv4.
//!
//! | rule of RFC 6724 | here |
//! | --- | --- |
//! | 1 the destination itself, 2 scope, 3 deprecated, 5 outgoing interface, 6 label, 8 longest prefix | as it says |
//! | 4 home addresses, 5.5 next hops that advertised a prefix, 7 temporary addresses | a router has none of these |
//!
//! Of equal candidates the first one is chosen.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perigee_net::{AddressAttributes, AddressScope, InterfaceAddress, Prefix};

/// What an ICMP error of a router without any IPv4 address comes from: the dummy address of RFC 7600 4.8, as with
/// Linux.
pub(crate) const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// An IPv6 address that the router may speak from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub address: Ipv6Addr,
    /// Length of the prefix that its link shares.
    pub prefix_len: u8,
    pub deprecated: bool,
    /// It is an address of the interface that the packet leaves by.
    pub outgoing: bool,
}

impl Candidate {
    /// `None`: it is an IPv4 address.
    pub(crate) fn new(own: InterfaceAddress, attributes: AddressAttributes, outgoing: bool) -> Option<Candidate> {
        let IpAddr::V6(address) = own.address else { return None };
        let prefix_len = attributes.toward.map_or(own.prefix_len, Prefix::len);
        Some(Candidate { address, prefix_len, deprecated: attributes.deprecated, outgoing })
    }

    /// Whether no address of another interface can suit a destination better, except the destination itself: its scope
    /// is the same, it is preferred, and it is the outgoing interface's.
    pub(crate) fn needs_no_other(&self, to: Ipv6Addr) -> bool {
        self.outgoing && !self.deprecated && scope(self.address) == scope(to)
    }

    /// How well it suits a destination: the first difference decides.
    fn rank(&self, to: Ipv6Addr) -> [u8; 6] {
        let same = self.address == to;
        let label = label(self.address) == label(to);
        [
            same.into(),
            suits(scope(self.address), scope(to)),
            (!self.deprecated).into(),
            self.outgoing.into(),
            label.into(),
            common_prefix(self.address, to).min(self.prefix_len),
        ]
    }
}

/// The best source for a destination (RFC 6724 5).
pub(crate) fn choose(to: Ipv6Addr, candidates: impl Iterator<Item = Candidate>) -> Option<Candidate> {
    let ranked = candidates.map(|candidate| (candidate.rank(to), candidate));
    let better = |best: ([u8; 6], Candidate), other: ([u8; 6], Candidate)| match other.0.cmp(&best.0) {
        Ordering::Greater => other,
        _ => best,
    };
    ranked.reduce(better).map(|(_, candidate)| candidate)
}

/// Rule 2 as a rank: the smallest scope that reaches as far as the destination's, or else the largest.
fn suits(source: u8, destination: u8) -> u8 {
    const REACHES: u8 = 16;
    if source < destination { source } else { 2 * REACHES - source }
}

/// Scopes as those of groups are numbered (RFC 4291 2.7, RFC 6724 3.1).
fn scope(address: Ipv6Addr) -> u8 {
    const LINK: u8 = 2;
    const SITE: u8 = 5;
    const GLOBAL: u8 = 14;
    match address.octets() {
        [0xff, flags_and_scope, ..] => flags_and_scope & 15,
        [0xfe, second, ..] if second & 0xc0 == 0x80 => LINK,
        [0xfe, second, ..] if second & 0xc0 == 0xc0 => SITE,
        _ if address.is_loopback() => LINK,
        _ => GLOBAL,
    }
}

/// The label of the default policy table's longest matching prefix (RFC 6724 2.1).
fn label(address: Ipv6Addr) -> u8 {
    match (address.segments(), address.octets()) {
        _ if address.is_loopback() => 0,
        ([0, 0, 0, 0, 0, 0xffff, ..], _) => 4,
        ([0, 0, 0, 0, 0, 0, ..], _) => 3,
        ([0x2002, ..], _) => 2,
        ([0x2001, 0, ..], _) => 5,
        ([0x3ffe, ..], _) => 12,
        (_, [0xfc | 0xfd, ..]) => 13,
        (_, [0xfe, second, ..]) if second & 0xc0 == 0xc0 => 11,
        _ => 1,
    }
}

fn common_prefix(a: Ipv6Addr, b: Ipv6Addr) -> u8 {
    (a.to_bits() ^ b.to_bits()).leading_zeros() as u8
}

/// The IPv4 address of an interface that Linux would choose: one in the network of `near`, else the first of those that
/// reach least far. Addresses of the link count where the packet stays `on_link`.
pub(crate) fn choose4(
    addresses: impl Iterator<Item = (InterfaceAddress, AddressAttributes)>,
    near: Option<Ipv4Addr>,
    on_link: bool,
) -> Option<Ipv4Addr> {
    let furthest = if on_link { AddressScope::Link } else { AddressScope::Global };
    // Linux keeps the addresses of a link by scope; among equals the first one was there first, and secondary ones come
    // last.
    let mut best = None;
    for (own, attributes) in addresses.filter(|(_, attributes)| attributes.scope <= furthest) {
        let IpAddr::V4(address) = own.address else { continue };
        let network = || attributes.toward.unwrap_or(own.network());
        let rank = (near.is_some_and(|near| network().contains(near.into())), attributes.scope);
        if best.is_none_or(|(before, _)| rank > before) {
            best = Some((rank, address));
        }
    }
    best.map(|(_, address)| address)
}

#[cfg(test)]
#[path = "source/tests.rs"]
mod tests;
