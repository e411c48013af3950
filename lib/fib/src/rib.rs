// SPDX-License-Identifier: MIT
//! The routing table: all routes from all sources, in order of preference, and which one per prefix is in use.

pub(crate) mod entries;
pub(crate) mod family;
pub(crate) mod links;
pub(crate) mod loaded;
pub(crate) mod recursion;
pub(crate) mod tree;

use std::net::IpAddr;

use crate::next_hop::NextHopId;
use crate::rib::entries::{Routes, Table};
use perigee_net::{Address, Prefix, PrefixOf, Route, RouteKey, RouteSource};

/// All routes of both families, as [`FibWriter`](crate::FibWriter) keeps them: to be read only.
#[derive(Clone, Copy)]
pub struct Rib<'t> {
    pub(crate) v4: &'t Table<u32>,
    pub(crate) v6: &'t Table<u128>,
}

impl<'t> Rib<'t> {
    /// The routes to exactly this prefix, best first.
    pub fn routes(self, prefix: Prefix) -> Routes<'t> {
        match prefix {
            Prefix::V4(prefix) => self.v4.routes(prefix),
            Prefix::V6(prefix) => self.v6.routes(prefix),
        }
    }

    /// The route to exactly this prefix with this key.
    pub fn route(self, prefix: Prefix, key: RouteKey) -> Option<&'t Route> {
        self.routes(prefix).iter().find(|route| route.key() == key)
    }

    /// At most `limit` prefixes that follow this one, or the first ones, in the order of [`iter`](Self::iter): for a
    /// walk through all of them that may pause while routes come and go.
    pub fn prefixes_after(self, prefix: Option<Prefix>, limit: usize) -> Vec<Prefix> {
        let v4 = match prefix {
            None => Some(self.v4.tree.iter_after(None)),
            Some(Prefix::V4(prefix)) => Some(self.v4.tree.iter_after(Some(prefix))),
            Some(Prefix::V6(_)) => None,
        };
        let v6 = self.v6.tree.iter_after(if let Some(Prefix::V6(prefix)) = prefix { Some(prefix) } else { None });
        let v4 = v4.into_iter().flatten().map(|(prefix, _)| Prefix::V4(prefix));
        v4.chain(v6.map(|(prefix, _)| Prefix::V6(prefix))).take(limit).collect()
    }

    /// The routes of one source to the IPv4 or IPv6 prefixes that follow this one (of the same family), or to all, by
    /// prefix, then best first: to be compared with another list in the same order, in any number of steps.
    pub fn routes_of_source(
        self,
        source: RouteSource,
        is_v6: bool,
        after: Option<Prefix>,
    ) -> impl Iterator<Item = (Prefix, &'t Route)> {
        let (v4, v6) = match (is_v6, after) {
            (false, Some(Prefix::V4(prefix))) => (Some(self.v4.tree.iter_after(Some(prefix))), None),
            (false, _) => (Some(self.v4.tree.iter_after(None)), None),
            (true, Some(Prefix::V6(prefix))) => (None, Some(self.v6.tree.iter_after(Some(prefix)))),
            (true, _) => (None, Some(self.v6.tree.iter_after(None))),
        };
        let v4 = v4.into_iter().flatten().map(|(prefix, entry)| (Prefix::V4(prefix), self.v4.routes_of(entry)));
        let v6 = v6.into_iter().flatten().map(|(prefix, entry)| (Prefix::V6(prefix), self.v6.routes_of(entry)));
        v4.chain(v6)
            .flat_map(|(prefix, routes)| routes.iter().map(move |route| (prefix, route)))
            .filter(move |(_, route)| route.source == source)
    }

    /// The next hop of the longest prefix that contains `address` and has a route in use.
    pub(crate) fn next_hop(self, address: IpAddr) -> Option<NextHopId> {
        match address {
            IpAddr::V4(address) => self.v4.next_hop_around(PrefixOf::host(address.to_bits()), true),
            IpAddr::V6(address) => self.v6.next_hop_around(PrefixOf::host(address.to_bits()), true),
        }
    }

    /// The route to exactly this prefix that is in use: the best of those whose gateways are reachable.
    pub fn chosen(self, prefix: Prefix) -> Option<&'t Route> {
        match prefix {
            Prefix::V4(prefix) => self.v4.in_use(self.v4.get(prefix)?),
            Prefix::V6(prefix) => self.v6.in_use(self.v6.get(prefix)?),
        }
    }

    /// The longest prefix that contains `address` and has a route in use, with that route.
    pub fn lookup(self, address: IpAddr) -> Option<(Prefix, &'t Route)> {
        match address {
            IpAddr::V4(address) => {
                let mut cover = self.v4.tree.covering(PrefixOf::host(address.to_bits()));
                cover.find_map(|(prefix, entry)| Some((prefix.into(), self.v4.in_use(entry)?)))
            }
            IpAddr::V6(address) => {
                let mut cover = self.v6.tree.covering(PrefixOf::host(address.to_bits()));
                cover.find_map(|(prefix, entry)| Some((prefix.into(), self.v6.in_use(entry)?)))
            }
        }
    }

    /// The longest prefix that contains all of `prefix`, itself among them, and has a route in use, with that route.
    pub fn around(self, prefix: Prefix) -> Option<(Prefix, &'t Route)> {
        match prefix {
            Prefix::V4(prefix) => {
                let mut cover = self.v4.tree.covering(prefix);
                cover.find_map(|(prefix, entry)| Some((prefix.into(), self.v4.in_use(entry)?)))
            }
            Prefix::V6(prefix) => {
                let mut cover = self.v6.tree.covering(prefix);
                cover.find_map(|(prefix, entry)| Some((prefix.into(), self.v6.in_use(entry)?)))
            }
        }
    }

    /// As [`lookup`](Self::lookup), where a route that `counts` counts as if it was in use.
    pub(crate) fn lookup_with(self, address: IpAddr, counts: impl Fn(&Route) -> bool) -> Option<&'t Route> {
        fn find<A: Address>(table: &Table<A>, address: A, counts: impl Fn(&Route) -> bool) -> Option<&Route> {
            table.tree.covering(PrefixOf::host(address)).find_map(|(_, entry)| {
                let in_use = table.chosen(entry).map(|(at, _)| at);
                let mut routes = table.routes_of(entry).iter().enumerate();
                routes.find(|(at, route)| in_use == Some(*at) || counts(route)).map(|(_, route)| route)
            })
        }
        match address {
            IpAddr::V4(address) => find(self.v4, address.to_bits(), counts),
            IpAddr::V6(address) => find(self.v6, address.to_bits(), counts),
        }
    }

    /// Every prefix with its routes, best first, and the index of the one in use; IPv4 before IPv6, by address.
    pub fn iter(self) -> impl Iterator<Item = (Prefix, Routes<'t>, Option<usize>)> {
        fn show<A: Address>(table: &Table<A>) -> impl Iterator<Item = (Prefix, Routes<'_>, Option<usize>)> {
            let chosen = |entry| table.chosen(entry).map(|(at, _)| at);
            table.tree.iter().map(move |(prefix, entry)| (prefix.into(), table.routes_of(entry), chosen(entry)))
        }
        show(self.v4).chain(show(self.v6))
    }

    /// How many prefixes have a route.
    pub fn prefixes(self) -> usize {
        self.v4.tree.len() + self.v6.tree.len()
    }

    /// How many prefixes of each family have a route: IPv4, IPv6.
    pub fn prefixes_by_family(self) -> [usize; 2] {
        [self.v4.tree.len(), self.v6.tree.len()]
    }

    /// How many routes a source has. The cost grows with the number of different routes, not of prefixes.
    pub fn count(self, source: RouteSource) -> u64 {
        self.v4.count(source) + self.v6.count(source)
    }
}
