// SPDX-License-Identifier: MIT
//! The routing table: every route from every source, in order of preference, and which one per prefix is in use.

pub(crate) mod entries;
pub(crate) mod family;
pub(crate) mod recursion;
pub(crate) mod tree;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

use crate::next_hop::group::MAX_MEMBERS;
use crate::next_hop::{InterfaceId, NextHopId};
use crate::prefix::{Address, Prefix, PrefixOf};
use crate::rib::entries::{Routes, Table};

/// Who gave a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteSource {
    /// The router's own addresses.
    Local,
    /// The networks of the interfaces' addresses.
    Connected,
    /// The configuration, or the operator.
    Static,
    /// The kernel's table.
    Linux,
    /// A routing protocol.
    Dynamic,
    /// A resolved neighbor on a connected network.
    Neighbor,
}

impl RouteSource {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Local, Self::Connected, Self::Static, Self::Linux, Self::Dynamic, Self::Neighbor];

    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Connected => "connected",
            Self::Static => "static",
            Self::Linux => "linux",
            Self::Dynamic => "dynamic",
            Self::Neighbor => "neighbor",
        }
    }

    /// The preference of this source's routes that come without one.
    pub const fn preference(self) -> u8 {
        match self {
            Self::Local | Self::Connected => 0,
            Self::Static => 1,
            Self::Linux => 10,
            Self::Dynamic => 20,
            // Last, as anybody's route to that host comes before it.
            Self::Neighbor => 255,
        }
    }
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteTarget {
    /// To the destination itself, on this interface's link.
    Connected {
        /// The link.
        interface: InterfaceId,
    },
    /// To a router, or to a neighbor that is the destination itself.
    Gateway {
        /// Its address.
        address: IpAddr,
        /// The link it is on. Without, the gateway is reached by the routes to it, and follows them.
        interface: Option<InterfaceId>,
    },
    /// To several gateways, flow by flow.
    Multipath(Multipath),
    /// To the router itself.
    Local,
    /// Nowhere, silently.
    Blackhole,
    /// Nowhere, with ICMP host unreachable.
    Unreachable,
    /// Nowhere, with ICMP administratively prohibited.
    Prohibit,
}

/// One of several gateways of a route, or one of several links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its address; `None`: the destinations themselves, on the link of `interface`.
    pub address: Option<IpAddr>,
    /// The link it is on, as in [`RouteTarget::Gateway`].
    pub interface: Option<InterfaceId>,
    /// Its part of the flows, compared with the other members': 1 to 256.
    pub weight: u16,
}

/// 1 to 256 gateways or links with weights of 1 to 256.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Multipath(Arc<[Member]>);

impl Multipath {
    /// The largest weight.
    pub const MAX_WEIGHT: u16 = 256;

    /// These gateways, if their number and weights are allowed.
    pub fn new(members: &[Member]) -> Result<Self, MultipathError> {
        if members.is_empty() || members.len() > MAX_MEMBERS {
            return Err(MultipathError::Members { members: members.len() });
        }
        match members.iter().find(|member| !(1..=Self::MAX_WEIGHT).contains(&member.weight)) {
            Some(member) => Err(MultipathError::Weight { member: *member }),
            None if members.iter().any(|member| member.address.is_none() && member.interface.is_none()) => {
                Err(MultipathError::Nowhere)
            }
            None => Ok(Self(members.into())),
        }
    }

    /// The gateways.
    pub fn members(&self) -> &[Member] {
        &self.0
    }
}

/// Why several gateways are no route.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MultipathError {
    /// Too many, or none.
    #[error("a route cannot have {members} gateways; expected 1 to {MAX_MEMBERS}")]
    Members {
        /// How many were given.
        members: usize,
    },
    /// Out of range.
    #[error("{member} cannot have the weight {weight}; expected 1 to {max}", weight = member.weight, max = Multipath::MAX_WEIGHT)]
    Weight {
        /// Whose, and the weight given.
        member: Member,
    },
    /// Neither address nor link.
    #[error("a member of a route has neither a gateway nor an interface; expected one of them, or both")]
    Nowhere,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.interface) {
            (Some(address), _) => write!(f, "gateway {address}"),
            (None, Some(InterfaceId(id))) => write!(f, "interface {id}"),
            (None, None) => write!(f, "a member without gateway"),
        }
    }
}

/// A route; its prefix is its key in the table, together with [`RouteKey`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Who gave it.
    pub source: RouteSource,
    /// The lowest preference wins (others call it administrative distance) ...
    pub preference: u8,
    /// ... and among routes of one preference the lowest metric.
    pub metric: u32,
    /// Where it leads.
    pub target: RouteTarget,
}

/// What tells the routes to one prefix apart, in the order in which they are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    /// See [`Route::preference`].
    pub preference: u8,
    /// See [`Route::metric`].
    pub metric: u32,
    /// Where all else is equal, in the order of [`RouteSource`].
    pub source: RouteSource,
}

impl RouteKey {
    /// The key of this source's routes with its own preference and metric 0.
    pub const fn of(source: RouteSource) -> Self {
        Self { preference: source.preference(), metric: 0, source }
    }

    /// The same with this metric.
    pub const fn with_metric(self, metric: u32) -> Self {
        Self { metric, ..self }
    }

    /// The same with this preference.
    pub const fn with_preference(self, preference: u8) -> Self {
        Self { preference, ..self }
    }
}

impl Route {
    /// A route with its source's preference and metric 0.
    pub const fn new(source: RouteSource, target: RouteTarget) -> Self {
        Self { source, preference: source.preference(), metric: 0, target }
    }

    /// The same with this metric.
    pub fn with_metric(self, metric: u32) -> Self {
        Self { metric, ..self }
    }

    /// The same with this preference.
    pub fn with_preference(self, preference: u8) -> Self {
        Self { preference, ..self }
    }

    /// What tells it from the other routes to its prefix.
    pub fn key(&self) -> RouteKey {
        RouteKey { preference: self.preference, metric: self.metric, source: self.source }
    }

    /// Its gateways, each with its interface where one was given. A link without a gateway is none.
    pub fn gateways(&self) -> impl Iterator<Item = (IpAddr, Option<InterfaceId>)> {
        let (one, several) = match &self.target {
            RouteTarget::Gateway { address, interface } => (Some((*address, *interface)), &[][..]),
            RouteTarget::Multipath(multipath) => (None, multipath.members()),
            _ => (None, &[][..]),
        };
        one.into_iter().chain(several.iter().filter_map(|member| Some((member.address?, member.interface))))
    }
}

/// All routes of both families. [`FibWriter`](crate::FibWriter) changes them.
#[derive(Default)]
pub struct Rib {
    pub(crate) v4: Table<u32>,
    pub(crate) v6: Table<u128>,
}

impl Rib {
    /// The routes to exactly this prefix, best first.
    pub fn routes(&self, prefix: Prefix) -> Routes<'_> {
        match prefix {
            Prefix::V4(prefix) => self.v4.routes(prefix),
            Prefix::V6(prefix) => self.v6.routes(prefix),
        }
    }

    /// The route to exactly this prefix with this key.
    pub fn route(&self, prefix: Prefix, key: RouteKey) -> Option<&Route> {
        self.routes(prefix).iter().find(|route| route.key() == key)
    }

    /// The next at most `limit` prefixes behind this one, or the first ones, in the order of [`iter`](Self::iter): a walk
    /// through all that may be interrupted, and goes on while routes come and go.
    pub fn after(&self, prefix: Option<Prefix>, limit: usize) -> Vec<Prefix> {
        let v4 = match prefix {
            None => Some(self.v4.tree.after(None)),
            Some(Prefix::V4(prefix)) => Some(self.v4.tree.after(Some(prefix))),
            Some(Prefix::V6(_)) => None,
        };
        let v6 = self.v6.tree.after(if let Some(Prefix::V6(prefix)) = prefix { Some(prefix) } else { None });
        let v4 = v4.into_iter().flatten().map(|(prefix, _)| Prefix::V4(prefix));
        v4.chain(v6.map(|(prefix, _)| Prefix::V6(prefix))).take(limit).collect()
    }

    /// The routes of one source to IPv4 or IPv6 prefixes behind this one (of the same family), or to all, in order of prefix and
    /// then best first: to be compared with another list in the same order, in as many turns as one likes.
    pub fn of_source(
        &self,
        source: RouteSource,
        is_v6: bool,
        after: Option<Prefix>,
    ) -> impl Iterator<Item = (Prefix, &Route)> {
        let (v4, v6) = match (is_v6, after) {
            (false, Some(Prefix::V4(prefix))) => (Some(self.v4.tree.after(Some(prefix))), None),
            (false, _) => (Some(self.v4.tree.after(None)), None),
            (true, Some(Prefix::V6(prefix))) => (None, Some(self.v6.tree.after(Some(prefix)))),
            (true, _) => (None, Some(self.v6.tree.after(None))),
        };
        let v4 = v4.into_iter().flatten().map(|(prefix, entry)| (Prefix::V4(prefix), self.v4.of(entry)));
        let v6 = v6.into_iter().flatten().map(|(prefix, entry)| (Prefix::V6(prefix), self.v6.of(entry)));
        v4.chain(v6)
            .flat_map(|(prefix, routes)| routes.iter().map(move |route| (prefix, route)))
            .filter(move |(_, route)| route.source == source)
    }

    /// The next hop of the longest prefix that contains `address` and has a route in use.
    pub(crate) fn next_hop(&self, address: IpAddr) -> Option<NextHopId> {
        match address {
            IpAddr::V4(address) => self.v4.next_hop_around(PrefixOf::host(address.to_bits()), true),
            IpAddr::V6(address) => self.v6.next_hop_around(PrefixOf::host(address.to_bits()), true),
        }
    }

    /// The route to exactly this prefix that is in use: the best of those whose gateways are reached.
    pub fn chosen(&self, prefix: Prefix) -> Option<&Route> {
        match prefix {
            Prefix::V4(prefix) => self.v4.in_use(self.v4.get(prefix)?),
            Prefix::V6(prefix) => self.v6.in_use(self.v6.get(prefix)?),
        }
    }

    /// The longest prefix that contains `address` and has a route in use, with that route.
    pub fn lookup(&self, address: IpAddr) -> Option<(Prefix, &Route)> {
        match address {
            IpAddr::V4(address) => {
                let mut cover = self.v4.tree.cover(PrefixOf::host(address.to_bits()));
                cover.find_map(|(prefix, entry)| Some((prefix.into(), self.v4.in_use(entry)?)))
            }
            IpAddr::V6(address) => {
                let mut cover = self.v6.tree.cover(PrefixOf::host(address.to_bits()));
                cover.find_map(|(prefix, entry)| Some((prefix.into(), self.v6.in_use(entry)?)))
            }
        }
    }

    /// Every prefix with its routes, best first, and the index of the one in use; IPv4 before IPv6, in order of address.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, Routes<'_>, Option<usize>)> {
        fn show<A: Address>(table: &Table<A>) -> impl Iterator<Item = (Prefix, Routes<'_>, Option<usize>)>
        where
            Prefix: From<PrefixOf<A>>,
        {
            let chosen = |entry| table.chosen(entry).map(|(at, _)| at);
            table.tree.iter().map(move |(prefix, entry)| (prefix.into(), table.of(entry), chosen(entry)))
        }
        show(&self.v4).chain(show(&self.v6))
    }

    /// How many prefixes have a route.
    pub fn prefixes(&self) -> usize {
        self.v4.tree.len() + self.v6.tree.len()
    }

    /// The same by family: IPv4, IPv6.
    pub fn prefixes_by_family(&self) -> [usize; 2] {
        [self.v4.tree.len(), self.v6.tree.len()]
    }

    /// How many routes a source has. Not counted one by one: it costs as much as there are different routes.
    pub fn count(&self, source: RouteSource) -> u64 {
        self.v4.count(source) + self.v6.count(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_gateways_are_1_to_256_of_weights_1_to_256() {
        let member = |weight| Member { address: Some([10, 0, 0, 1].into()), interface: None, weight };
        assert!(Multipath::new(&[member(1); 256]).is_ok_and(|multipath| multipath.members().len() == 256));
        for members in [0, 257] {
            let error = Multipath::new(&vec![member(1); members]).expect_err("refused").to_string();
            assert_eq!(error, format!("a route cannot have {members} gateways; expected 1 to 256"));
        }
        for weight in [0, 257] {
            let error = Multipath::new(&[member(256), member(weight)]).expect_err("refused").to_string();
            assert_eq!(error, format!("gateway 10.0.0.1 cannot have the weight {weight}; expected 1 to 256"));
        }
        let link = Member { address: None, interface: Some(InterfaceId(7)), weight: 300 };
        let error = Multipath::new(&[link]).expect_err("refused").to_string();
        assert_eq!(error, "interface 7 cannot have the weight 300; expected 1 to 256");
        let error = Multipath::new(&[Member { address: None, ..member(1) }]).expect_err("refused").to_string();
        assert_eq!(error, "a member of a route has neither a gateway nor an interface; expected one of them, or both");
    }
}
