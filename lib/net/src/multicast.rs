// SPDX-License-Identifier: MIT
//! Routes of multicast groups: which packets to a group are forwarded, and to where.

use std::net::IpAddr;

use crate::{InterfaceId, Prefix};

/// Whether routers forward packets to an address: a group that reaches beyond its link. 224.0.0/24 does not (RFC 5771
/// 4), nor do IPv6 groups of the reserved, the interface-local and the link-local scope (RFC 4291 2.7).
pub const fn is_forwarded_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(group) => group.is_multicast() && !matches!(group.octets(), [224, 0, 0, _]),
        IpAddr::V6(group) => group.is_multicast() && group.octets()[1] & 15 > 2,
    }
}

/// The way of packets to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastRoute {
    /// The group.
    pub group: IpAddr,
    /// The source, of the group's family; `None`: every source without a route of its own to this group.
    pub source: Option<IpAddr>,
    /// The interface that packets have to come in on; `None`: the one by which the unicast route leads back to the
    /// source.
    pub from: Option<InterfaceId>,
    /// Where they leave. None of them ever leaves by where it came in.
    pub to: Vec<MulticastOutput>,
}

/// An interface by which packets to a group leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MulticastOutput {
    pub interface: InterfaceId,
    /// Only packets leave whose TTL or hop limit was greater than this when they came in; at least 1.
    pub ttl: u8,
}

/// What of multicast may pass an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastLimits {
    /// Only packets leave whose TTL or hop limit was greater than this when they came in; at least 1.
    pub ttl: u8,
    /// Packets to these groups pass in neither direction (RFC 2365 5).
    pub boundary: Vec<Prefix>,
}

impl Default for MulticastLimits {
    fn default() -> MulticastLimits {
        MulticastLimits { ttl: 1, boundary: Vec::new() }
    }
}

impl MulticastLimits {
    /// Whether packets to a group may pass.
    pub fn admit(&self, group: IpAddr) -> bool {
        !self.boundary.iter().any(|prefix| prefix.contains(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn groups_of_the_link_alone_are_not_forwarded() {
        for group in ["224.0.1.0", "232.1.1.1", "239.255.255.255", "ff03::1", "ff05::2", "ff3e::8000:1", "ff0f::1"] {
            assert!(is_forwarded_group(ip(group)), "{group}");
        }
        let others = ["224.0.0.1", "224.0.0.255", "10.0.0.1", "240.0.0.1", "255.255.255.255", "2001:db8::1"];
        for address in others.into_iter().chain(["ff00::1", "ff01::1", "ff02::1", "ff12::1", "ff32::8000:1"]) {
            assert!(!is_forwarded_group(ip(address)), "{address}");
        }
    }

    #[test]
    fn a_boundary_is_of_prefixes_of_either_family() {
        let boundary = vec!["239.0.0.0/8".parse().unwrap(), "ff05::/16".parse().unwrap()];
        let limits = MulticastLimits { boundary, ..MulticastLimits::default() };
        assert!(!limits.admit(ip("239.1.1.1")) && !limits.admit(ip("ff05::1")));
        assert!(limits.admit(ip("232.1.1.1")) && limits.admit(ip("ff08::1")));
        assert!(MulticastLimits::default().admit(ip("239.1.1.1")));
    }
}
