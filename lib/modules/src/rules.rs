// SPDX-License-Identifier: MIT
//! Lists of rules about 5-tuples, as the tables hold them for the module `filter`: a trait, its keys, and a plain list.
//!
//! A running router's list is compiled for DPDK's `rte_acl`; [`LinearFilter`] goes through its rules one by one, which is what
//! tests compare with.

use perigee_net::FiveTuple;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A packet's 5-tuple with addresses of `N` bytes, all in network byte order; no padding between the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<const N: usize> {
    /// Upper-layer protocol, extension headers skipped.
    pub protocol: u8,
    /// Zero, so that the addresses are aligned.
    pub zero: [u8; 3],
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

impl<const N: usize> Key<N> {
    /// An empty key.
    pub const ZERO: Key<N> = Key {
        protocol: 0,
        zero: [0; 3],
        source: [0; N],
        destination: [0; N],
        source_port: [0; 2],
        destination_port: [0; 2],
    };
}

/// A compiled list of rules; `denied[i]` is set for each key that is to be dropped and cleared for the others. Both
/// slices have the same length, at most [`BATCH_SIZE`](perigee_packet::BATCH_SIZE).
pub trait Filter: Send + Sync {
    /// For IPv4.
    fn match4(&self, keys: &[Key4], denied: &mut [bool]);
    /// For IPv6.
    fn match6(&self, keys: &[Key6], denied: &mut [bool]);
}

/// A rule of a filter list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The packets it is about.
    pub tuple: FiveTuple,
    /// Drop what matches? Else it goes on.
    pub deny: bool,
}

/// The plain list, first match wins: slow and obviously right.
#[derive(Debug, Clone, Default)]
pub struct LinearFilter(pub Vec<Rule>);

impl LinearFilter {
    fn denies<const N: usize>(&self, key: &Key<N>, address: impl Fn([u8; N]) -> IpAddr) -> bool {
        let (source, destination) = (address(key.source), address(key.destination));
        let [sport, dport] = [key.source_port, key.destination_port].map(u16::from_be_bytes);
        let matches = |Rule { tuple, .. }: &&Rule| {
            tuple.src.is_none_or(|prefix| prefix.contains(source))
                && tuple.dst.is_none_or(|prefix| prefix.contains(destination))
                && tuple.proto.is_none_or(|protocol| protocol == key.protocol)
                && tuple.sport.is_none_or(|range| range.contains(sport))
                && tuple.dport.is_none_or(|range| range.contains(dport))
        };
        self.0.iter().find(matches).is_some_and(|rule| rule.deny)
    }
}

impl Filter for LinearFilter {
    fn match4(&self, keys: &[Key4], denied: &mut [bool]) {
        for (key, denied) in keys.iter().zip(denied) {
            *denied = self.denies(key, |a| IpAddr::V4(Ipv4Addr::from(a)));
        }
    }

    fn match6(&self, keys: &[Key6], denied: &mut [bool]) {
        for (key, denied) in keys.iter().zip(denied) {
            *denied = self.denies(key, |a| IpAddr::V6(Ipv6Addr::from(a)));
        }
    }
}
