// SPDX-License-Identifier: MIT
//! Lists of rules about 5-tuples, as the tables hold them for the module `filter`: a trait, and a plain list.
//!
//! A running router's list is compiled for DPDK's `rte_acl`; [`LinearFilter`] goes through its rules one by one, which is what
//! tests compare with.

use perigee_net::{FiveTuple, Key, Key4, Key6};
use perigee_packet::Mask;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A compiled list of rules. Each says of keys, at most [`BATCH_SIZE`](perigee_packet::BATCH_SIZE), which are to be dropped: their
/// numbers, from 0.
pub trait Filter: Send + Sync {
    /// For IPv4.
    fn match4(&self, keys: &[Key4]) -> Mask;
    /// For IPv6.
    fn match6(&self, keys: &[Key6]) -> Mask;
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
    fn match4(&self, keys: &[Key4]) -> Mask {
        Mask::first(keys.len()).filter(|i| self.denies(&keys[usize::from(i)], |a| IpAddr::V4(Ipv4Addr::from(a))))
    }

    fn match6(&self, keys: &[Key6]) -> Mask {
        Mask::first(keys.len()).filter(|i| self.denies(&keys[usize::from(i)], |a| IpAddr::V6(Ipv6Addr::from(a))))
    }
}
