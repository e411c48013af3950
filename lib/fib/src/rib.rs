// SPDX-License-Identifier: MIT
//! The routing table: every route from every source, in order of preference, and which one per prefix is in use.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use prefix_trie::PrefixMap;
use thiserror::Error;

use crate::group::MAX_MEMBERS;
use crate::next_hop::{InterfaceId, NextHopId};
use crate::prefix::{Address, Prefix, PrefixOf};

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
    const COUNT: usize = Self::Neighbor as usize + 1;

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

/// The index of a route that was in use and is being removed: beyond every other.
const GONE: usize = usize::MAX;

/// The routes to one prefix; there is at least one.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// Best first.
    pub routes: Vec<Route>,
    /// The one that is in use, and its next hop.
    pub chosen: Option<(usize, NextHopId)>,
}

/// All routes of one family.
pub(crate) struct Table<A: Address>(pub PrefixMap<PrefixOf<A>, Entry>, Counts);

/// How many routes there are of each source, by its number: whoever asks waits for no walk through all of them.
type Counts = [usize; RouteSource::COUNT];

impl<A: Address> Default for Table<A>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    fn default() -> Self {
        Self(PrefixMap::new(), Counts::default())
    }
}

impl<A: Address> Table<A>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    pub fn get(&self, prefix: PrefixOf<A>) -> Option<&Entry> {
        self.0.get(&prefix)
    }

    pub fn routes(&self, prefix: PrefixOf<A>) -> &[Route] {
        self.get(prefix).map_or(&[], |entry| &entry.routes)
    }

    /// The longest prefix with a route that contains `address`, whether its routes are in use or not.
    pub fn covering(&self, address: A) -> Option<(PrefixOf<A>, &Entry)> {
        let host = PrefixOf::host(address);
        let (prefix, entry) = self.0.get_lpm(&host)?;
        if !entry.routes.is_empty() {
            return Some((prefix, entry));
        }
        // Its last route is being removed.
        self.0.cover(&host).filter(|(_, entry)| !entry.routes.is_empty()).last()
    }

    /// Adds a route in its place, and returns the one with the same key that was there.
    pub fn insert(&mut self, prefix: PrefixOf<A>, route: Route) -> Option<Route> {
        let entry = self.0.entry(prefix).or_default();
        self.1[route.source as usize] += 1;
        match entry.routes.binary_search_by_key(&route.key(), Route::key) {
            Ok(at) => {
                let old = std::mem::replace(&mut entry.routes[at], route);
                self.1[old.source as usize] -= 1;
                Some(old)
            }
            Err(at) => {
                entry.routes.insert(at, route);
                if let Some((chosen, _)) = entry.chosen.as_mut().filter(|(chosen, _)| *chosen >= at && *chosen != GONE)
                {
                    *chosen += 1;
                }
                None
            }
        }
    }

    /// Takes a route out. Its entry stays, even without a route: see [`clean_up`](Self::clean_up). If it was in use, the
    /// entry goes on to say so by an index that is beyond every route.
    pub fn remove(&mut self, prefix: PrefixOf<A>, key: RouteKey) -> Option<Route> {
        let entry = self.0.get_mut(&prefix)?;
        let at = entry.routes.binary_search_by_key(&key, Route::key).ok()?;
        if let Some((chosen, _)) = &mut entry.chosen {
            *chosen = match (*chosen).cmp(&at) {
                std::cmp::Ordering::Less => *chosen,
                std::cmp::Ordering::Equal => GONE,
                std::cmp::Ordering::Greater => *chosen - 1,
            };
        }
        let route = entry.routes.remove(at);
        self.1[route.source as usize] -= 1;
        Some(route)
    }

    /// `prefix` and the prefixes inside it, in order.
    pub fn under(&self, prefix: PrefixOf<A>) -> impl Iterator<Item = (PrefixOf<A>, &Entry)> {
        self.0.children(&prefix)
    }

    /// The next hop of what contains `prefix` and more: that of the longest such prefix that has one.
    pub fn next_hop_around(&self, prefix: PrefixOf<A>) -> Option<NextHopId> {
        let cover = self.0.cover(&prefix).filter(|(other, _)| other.len() < prefix.len());
        cover.filter_map(|(_, entry)| entry.next_hop()).last()
    }

    /// What the lookup structure should hold.
    pub fn list(&self) -> Vec<(PrefixOf<A>, NextHopId)> {
        self.0.iter().filter_map(|(prefix, entry)| Some((prefix, entry.next_hop()?))).collect()
    }

    /// The prefixes behind this one, or all, in order.
    fn after(&self, prefix: Option<PrefixOf<A>>) -> impl Iterator<Item = (PrefixOf<A>, &Entry)> {
        self.0.iter().filter(move |(other, _)| prefix.is_none_or(|prefix| *other > prefix))
    }

    /// Forgets an entry without routes.
    pub fn clean_up(&mut self, prefix: PrefixOf<A>) {
        if self.get(prefix).is_some_and(|entry| entry.routes.is_empty()) {
            self.0.remove(&prefix);
        }
    }
}

/// All routes of both families. [`FibWriter`](crate::FibWriter) changes them.
#[derive(Default)]
pub struct Rib {
    pub(crate) v4: Table<u32>,
    pub(crate) v6: Table<u128>,
}

impl Rib {
    fn entry(&self, prefix: Prefix) -> Option<&Entry> {
        match prefix {
            Prefix::V4(prefix) => self.v4.get(prefix),
            Prefix::V6(prefix) => self.v6.get(prefix),
        }
    }

    /// The routes to exactly this prefix, best first.
    pub fn routes(&self, prefix: Prefix) -> &[Route] {
        self.entry(prefix).map_or(&[], |entry| &entry.routes)
    }

    /// The route to exactly this prefix with this key.
    pub fn route(&self, prefix: Prefix, key: RouteKey) -> Option<&Route> {
        let routes = self.routes(prefix);
        routes.binary_search_by_key(&key, Route::key).ok().map(|at| &routes[at])
    }

    /// The next at most `limit` prefixes behind this one, or the first ones, in the order of [`iter`](Self::iter): a walk
    /// through all that may be interrupted, and goes on while routes come and go.
    pub fn after(&self, prefix: Option<Prefix>, limit: usize) -> Vec<Prefix> {
        let v4 = match prefix {
            None => Some(self.v4.after(None)),
            Some(Prefix::V4(prefix)) => Some(self.v4.after(Some(prefix))),
            Some(Prefix::V6(_)) => None,
        };
        let v6 = self.v6.after(if let Some(Prefix::V6(prefix)) = prefix { Some(prefix) } else { None });
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
            (false, Some(Prefix::V4(prefix))) => (Some(self.v4.after(Some(prefix))), None),
            (false, _) => (Some(self.v4.after(None)), None),
            (true, Some(Prefix::V6(prefix))) => (None, Some(self.v6.after(Some(prefix)))),
            (true, _) => (None, Some(self.v6.after(None))),
        };
        let v4 = v4.into_iter().flatten().map(|(prefix, entry)| (Prefix::V4(prefix), entry));
        let v6 = v6.into_iter().flatten().map(|(prefix, entry)| (Prefix::V6(prefix), entry));
        v4.chain(v6)
            .flat_map(|(prefix, entry)| entry.routes.iter().map(move |route| (prefix, route)))
            .filter(move |(_, route)| route.source == source)
    }

    /// The next hop of the longest prefix that contains `address` and has a route in use.
    pub(crate) fn next_hop(&self, address: IpAddr) -> Option<NextHopId> {
        match self.lookup(address)?.0 {
            Prefix::V4(prefix) => self.v4.get(prefix)?.next_hop(),
            Prefix::V6(prefix) => self.v6.get(prefix)?.next_hop(),
        }
    }

    /// The route to exactly this prefix that is in use: the best of those whose gateways are reached.
    pub fn chosen(&self, prefix: Prefix) -> Option<&Route> {
        self.entry(prefix).and_then(Entry::route)
    }

    /// The longest prefix that contains `address` and has a route in use, with that route.
    pub fn lookup(&self, address: IpAddr) -> Option<(Prefix, &Route)> {
        match address {
            IpAddr::V4(address) => {
                let cover = self.v4.0.cover(&PrefixOf::host(address.to_bits()));
                cover.filter_map(|(prefix, entry)| Some((prefix.into(), entry.route()?))).last()
            }
            IpAddr::V6(address) => {
                let cover = self.v6.0.cover(&PrefixOf::host(address.to_bits()));
                cover.filter_map(|(prefix, entry)| Some((prefix.into(), entry.route()?))).last()
            }
        }
    }

    /// Every prefix with its routes, best first, and the index of the one in use; IPv4 before IPv6, in order of address.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, &[Route], Option<usize>)> {
        fn show<P: Into<Prefix>>((prefix, entry): (P, &Entry)) -> (Prefix, &[Route], Option<usize>) {
            (prefix.into(), &entry.routes, entry.chosen.map(|(at, _)| at))
        }
        self.v4.0.iter().map(show).chain(self.v6.0.iter().map(show))
    }

    /// How many prefixes have a route.
    pub fn prefixes(&self) -> usize {
        self.v4.0.len() + self.v6.0.len()
    }

    /// How many IPv4 prefixes have a route.
    pub fn prefixes4(&self) -> usize {
        self.v4.0.len()
    }

    /// How many routes there are of a source.
    pub fn count(&self, source: RouteSource) -> usize {
        self.v4.1[source as usize] + self.v6.1[source as usize]
    }
}

impl Entry {
    pub fn route(&self) -> Option<&Route> {
        self.routes.get(self.chosen?.0)
    }

    pub fn next_hop(&self) -> Option<NextHopId> {
        self.chosen.map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> PrefixOf<u32> {
        text.parse().expect(text)
    }

    fn route(source: RouteSource, metric: u32) -> Route {
        Route::new(source, RouteTarget::Blackhole).with_metric(metric)
    }

    #[test]
    fn preference_before_metric_before_source() {
        let mut table = Table::default();
        let net = prefix("10.0.0.0/8");
        let floating = route(RouteSource::Static, 0).with_preference(200);
        let order = [
            route(RouteSource::Local, 0),
            route(RouteSource::Connected, 0),
            route(RouteSource::Connected, 99),
            route(RouteSource::Static, 10),
            route(RouteSource::Static, 20),
            route(RouteSource::Linux, 0),
            route(RouteSource::Dynamic, 0),
            floating,
            route(RouteSource::Neighbor, 0),
        ];
        // In an order that is neither this one nor its reverse.
        for at in [4, 0, 8, 2, 6, 1, 7, 3, 5] {
            assert_eq!(table.insert(net, order[at].clone()), None);
        }
        assert_eq!(table.routes(net), order);
        let mut other = order[3].clone();
        other.target = RouteTarget::Prohibit;
        assert_eq!(table.insert(net, other.clone()), Some(order[3].clone()), "the same key");
        assert_eq!(table.remove(net, order[3].key()), Some(other));
        assert_eq!(table.remove(net, order[3].key()), None);
        assert_eq!(table.remove(prefix("10.0.0.0/9"), order[0].key()), None);
    }

    #[test]
    fn what_is_in_use_keeps_its_index() {
        let mut table = Table::default();
        let net = prefix("10.0.0.0/8");
        let (near, far) = (route(RouteSource::Static, 10), route(RouteSource::Static, 20));
        table.insert(net, far.clone());
        table.0.get_mut(&net).expect("there").chosen = Some((0, NextHopId::BLACKHOLE));
        table.insert(net, near.clone());
        assert_eq!(table.get(net).and_then(Entry::route), Some(&far));
        table.remove(net, near.key());
        assert_eq!(table.get(net).and_then(Entry::route), Some(&far));
        table.remove(net, far.key());
        let entry = table.get(net).expect("not cleaned up");
        assert_eq!((entry.route(), entry.next_hop()), (None, Some(NextHopId::BLACKHOLE)));
        table.clean_up(net);
        assert!(table.get(net).is_none());
    }

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
