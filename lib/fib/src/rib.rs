// SPDX-License-Identifier: MIT
//! The routing table: every route from every source, and which one per prefix is the best.

use std::net::IpAddr;

use prefix_trie::PrefixMap;

use crate::next_hop::InterfaceId;
use crate::prefix::{Prefix, Prefix4, Prefix6, PrefixOf};

/// Who gave a route. Earlier ones are preferred, whatever their metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteSource {
    /// The router's own addresses.
    Local,
    /// The networks of the interfaces' addresses.
    Connected,
    /// The configuration, or the operator.
    Static,
    /// A resolved neighbor on a connected network; last, as anybody's route to that host comes before it.
    Neighbor,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
        /// The link it is on; [`FibWriter::insert`](crate::FibWriter::insert) finds it if it is not given.
        interface: Option<InterfaceId>,
    },
    /// To the router itself.
    Local,
    /// Nowhere, silently.
    Blackhole,
    /// Nowhere, with ICMP host unreachable.
    Unreachable,
    /// Nowhere, with ICMP administratively prohibited.
    Prohibit,
}

/// A route; its prefix is its key in the table, together with source and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Who gave it.
    pub source: RouteSource,
    /// Among routes of one source the lowest metric is the best.
    pub metric: u32,
    /// Where it leads.
    pub target: RouteTarget,
}

impl Route {
    fn rank(&self) -> (RouteSource, u32) {
        (self.source, self.metric)
    }
}

/// What a change of the routes of a prefix did to its best one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Same,
    /// This route is the best now.
    Best(Route),
    /// There is none any more.
    Gone,
}

/// What [`Rib::insert`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// The route of the same source and metric that it took the place of.
    pub replaced: Option<Route>,
    /// What it means for the lookup structure.
    pub change: Change,
}

/// What [`Rib::remove`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The route.
    pub route: Route,
    /// What it means for the lookup structure.
    pub change: Change,
}

/// The routes of a prefix, best first; never empty.
type Routes = Vec<Route>;

/// All routes of both families.
#[derive(Default)]
pub struct Rib {
    v4: PrefixMap<Prefix4, Routes>,
    v6: PrefixMap<Prefix6, Routes>,
}

impl Rib {
    /// Adds a route, in place of the one to the same prefix with the same source and metric.
    pub fn insert(&mut self, prefix: Prefix, route: Route) -> Inserted {
        let routes = match prefix {
            Prefix::V4(prefix) => self.v4.entry(prefix).or_default(),
            Prefix::V6(prefix) => self.v6.entry(prefix).or_default(),
        };
        let before = routes.first().copied();
        let replaced = match routes.binary_search_by_key(&route.rank(), Route::rank) {
            Ok(at) => Some(std::mem::replace(&mut routes[at], route)),
            Err(at) => {
                routes.insert(at, route);
                None
            }
        };
        Inserted { replaced, change: change(before, routes.first()) }
    }

    /// Removes the route to `prefix` of this source and metric, if there is one.
    pub fn remove(&mut self, prefix: Prefix, source: RouteSource, metric: u32) -> Option<Removed> {
        let routes = match prefix {
            Prefix::V4(prefix) => self.v4.get_mut(&prefix)?,
            Prefix::V6(prefix) => self.v6.get_mut(&prefix)?,
        };
        let before = routes.first().copied();
        let at = routes.binary_search_by_key(&(source, metric), Route::rank).ok()?;
        let route = routes.remove(at);
        let change = change(before, routes.first());
        if change == Change::Gone {
            match prefix {
                Prefix::V4(prefix) => drop(self.v4.remove(&prefix)),
                Prefix::V6(prefix) => drop(self.v6.remove(&prefix)),
            }
        }
        Some(Removed { route, change })
    }

    /// The routes to exactly this prefix, best first.
    pub fn routes(&self, prefix: Prefix) -> &[Route] {
        match prefix {
            Prefix::V4(prefix) => self.v4.get(&prefix),
            Prefix::V6(prefix) => self.v6.get(&prefix),
        }
        .map_or(&[], Vec::as_slice)
    }

    /// The best route of the longest prefix that contains `address`.
    pub fn lookup(&self, address: IpAddr) -> Option<(Prefix, &Route)> {
        let (prefix, routes) = match address {
            IpAddr::V4(address) => {
                let (prefix, routes) = self.v4.get_lpm(&PrefixOf::host(address.to_bits()))?;
                (prefix.into(), routes)
            }
            IpAddr::V6(address) => {
                let (prefix, routes) = self.v6.get_lpm(&PrefixOf::host(address.to_bits()))?;
                (prefix.into(), routes)
            }
        };
        routes.first().map(|route| (prefix, route))
    }

    /// Every prefix with its routes, best first; IPv4 before IPv6, in order of address.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, &[Route])> {
        let v4 = self.v4.iter().map(|(prefix, routes)| (Prefix::V4(prefix), routes.as_slice()));
        v4.chain(self.v6.iter().map(|(prefix, routes)| (Prefix::V6(prefix), routes.as_slice())))
    }

    /// How many prefixes have a route.
    pub fn prefixes(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

fn change(before: Option<Route>, after: Option<&Route>) -> Change {
    match after {
        None => Change::Gone,
        Some(after) if before == Some(*after) => Change::Same,
        Some(after) => Change::Best(*after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect(text)
    }

    fn route(source: RouteSource, metric: u32, interface: u16) -> Route {
        Route { source, metric, target: RouteTarget::Connected { interface: InterfaceId(interface) } }
    }

    #[test]
    fn source_before_metric_before_nothing() {
        let mut rib = Rib::default();
        let net = prefix("10.0.0.0/8");
        let (far, near) = (route(RouteSource::Static, 20, 1), route(RouteSource::Static, 10, 2));
        let (connected, neighbor) = (route(RouteSource::Connected, 99, 3), route(RouteSource::Neighbor, 0, 4));
        assert_eq!(rib.insert(net, neighbor).change, Change::Best(neighbor));
        assert_eq!(rib.insert(net, far).change, Change::Best(far));
        assert_eq!(rib.insert(net, near).change, Change::Best(near));
        assert_eq!(rib.insert(net, connected).change, Change::Best(connected));
        assert_eq!(rib.insert(net, connected), Inserted { replaced: Some(connected), change: Change::Same });
        assert_eq!(rib.routes(net), [connected, near, far, neighbor]);
        let mut remove = |route: Route| rib.remove(net, route.source, route.metric).expect("there");
        assert_eq!(remove(far), Removed { route: far, change: Change::Same });
        assert_eq!(remove(connected), Removed { route: connected, change: Change::Best(near) });
        assert_eq!(remove(near).change, Change::Best(neighbor));
        assert_eq!(remove(neighbor).change, Change::Gone);
        assert_eq!(rib.remove(net, RouteSource::Static, 10), None);
        assert_eq!((rib.prefixes(), rib.routes(net).len(), rib.iter().count()), (0, 0, 0));
    }

    #[test]
    fn a_replaced_best_route_is_a_change() {
        let mut rib = Rib::default();
        let (old, new) = (route(RouteSource::Static, 0, 1), route(RouteSource::Static, 0, 2));
        rib.insert(prefix("::/0"), old);
        assert_eq!(rib.insert(prefix("::/0"), new), Inserted { replaced: Some(old), change: Change::Best(new) });
    }

    #[test]
    fn lookup_takes_the_longest() {
        let mut rib = Rib::default();
        for (text, interface) in
            [("0.0.0.0/0", 1), ("10.0.0.0/8", 2), ("10.1.0.0/16", 3), ("10.1.0.1/32", 4), ("2001:db8::/32", 5)]
        {
            rib.insert(prefix(text), route(RouteSource::Static, 0, interface));
        }
        let found = |address: &str| rib.lookup(address.parse().expect(address)).map(|(prefix, _)| prefix.to_string());
        for (address, expected) in [
            ("10.1.0.1", "10.1.0.1/32"),
            ("10.1.0.2", "10.1.0.0/16"),
            ("10.2.0.0", "10.0.0.0/8"),
            ("11.0.0.0", "0.0.0.0/0"),
            ("2001:db8::1", "2001:db8::/32"),
        ] {
            assert_eq!(found(address).as_deref(), Some(expected), "{address}");
        }
        assert_eq!(found("2001:db9::1"), None);
        let order: Vec<String> = rib.iter().map(|(prefix, _)| prefix.to_string()).collect();
        assert_eq!(order, ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.0.1/32", "2001:db8::/32"]);
    }
}
