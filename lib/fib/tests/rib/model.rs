// SPDX-License-Identifier: MIT
//! What the forwarding table should hold, computed from the list of routes alone: slow, simple and stateless.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use perigee_fib::{MAX_DEPTH, NextHopId};
use perigee_net::{InterfaceId, MacAddr, Member, Prefix, Route, RouteKey, RouteTarget};

/// Where a packet finally goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaf {
    /// To a neighbor.
    Neighbor(InterfaceId, IpAddr),
    /// To its destination on a connected network.
    Link(InterfaceId),
    /// A fixed next hop.
    Fixed(NextHopId),
}

/// A route's next hop: where its flows may go, and through how many gateways without an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Where flows may go.
    pub leaves: BTreeSet<Leaf>,
    /// Whether some flow must go to each of these: not so for a group within a group.
    pub all: bool,
    depth: u8,
    rank: u8,
}

/// Everything that was configured.
#[derive(Clone, Default)]
pub struct Model {
    pub routes: BTreeMap<(Prefix, RouteKey), Route>,
    pub neighbors: BTreeMap<(InterfaceId, IpAddr), MacAddr>,
    /// Those that packets on connected networks find.
    pub on_link: BTreeSet<(InterfaceId, IpAddr)>,
    pub via_default: bool,
    /// Interfaces by which nothing can be sent: a route that has no way but these counts as if it was not there.
    pub down: BTreeSet<InterfaceId>,
}

impl Model {
    fn of(&self, prefix: Prefix) -> impl Iterator<Item = &Route> {
        self.there().filter(move |(p, _)| *p == prefix).map(|(_, route)| route)
    }

    /// The routes that count.
    fn there(&self) -> impl Iterator<Item = (Prefix, &Route)> {
        self.routes.iter().map(|((prefix, _), route)| (*prefix, route)).filter(|(_, route)| !self.is_down(route))
    }

    /// Whether a route has no way but over links that are down.
    pub fn is_down(&self, route: &Route) -> bool {
        let is_down = |interface: Option<InterfaceId>| interface.is_some_and(|i| self.down.contains(&i));
        match &route.target {
            RouteTarget::Connected { interface } => is_down(Some(*interface)),
            RouteTarget::Gateway { interface, .. } => is_down(*interface),
            RouteTarget::Multipath(multipath) => multipath.members().iter().all(|member| is_down(member.interface)),
            _ => false,
        }
    }

    fn longest(&self, address: IpAddr, fits: impl Fn(Prefix) -> bool) -> Option<Prefix> {
        let covering = self.there().map(|(prefix, _)| prefix).filter(|prefix| prefix.contains(address));
        covering.filter(|prefix| fits(*prefix)).max_by_key(|prefix| prefix.len())
    }

    /// Where packets to `address` go; `None`: no route.
    pub fn lookup(&self, address: IpAddr) -> Option<Way> {
        let prefix = self.longest(address, |prefix| self.choose(prefix, None).is_some())?;
        Some(self.choose(prefix, None)?.1)
    }

    /// The route to `prefix` that is used, by packets to it or to reach `gateway`.
    pub fn choose(&self, prefix: Prefix, gateway: Option<IpAddr>) -> Option<(&Route, Way)> {
        self.of(prefix).find_map(|route| Some((route, self.way_of(prefix, route, gateway)?)))
    }

    fn carrier(&self, gateway: IpAddr) -> Option<Prefix> {
        self.longest(gateway, |_| true).filter(|prefix| prefix.len() > 0 || self.via_default)
    }

    /// Whether `gateway` leads to `prefix`, by any routes.
    fn leads_to(&self, gateway: IpAddr, prefix: Prefix, seen: &mut BTreeSet<Prefix>) -> bool {
        let Some(carrier) = self.carrier(gateway) else { return false };
        if carrier == prefix {
            return true;
        }
        seen.insert(carrier)
            && self.of(carrier).any(|route| {
                let mut gateways = route.gateways().filter(|(_, interface)| interface.is_none());
                gateways.any(|(gateway, _)| self.leads_to(gateway, prefix, seen))
            })
    }

    /// `None`: the link is down.
    fn direct(&self, interface: InterfaceId, address: IpAddr) -> Option<Way> {
        if self.down.contains(&interface) {
            return None;
        }
        let rank = if self.neighbors.contains_key(&(interface, address)) { 2 } else { 1 };
        Some(Way { leaves: BTreeSet::from([Leaf::Neighbor(interface, address)]), all: true, depth: 0, rank })
    }

    /// The destinations on a link, each its own neighbor; `None`: it is down.
    fn link(&self, interface: InterfaceId) -> Option<Way> {
        let way = Way { leaves: BTreeSet::from([Leaf::Link(interface)]), all: true, depth: 0, rank: 2 };
        (!self.down.contains(&interface)).then_some(way)
    }

    /// How `gateway` is reached.
    fn reach(&self, gateway: IpAddr) -> Option<Way> {
        let (route, way) = self.choose(self.carrier(gateway)?, Some(gateway))?;
        let way = match route.target {
            RouteTarget::Local => return None,
            RouteTarget::Connected { interface } => self.direct(interface, gateway)?,
            _ => way,
        };
        let depth = way.depth + 1;
        (depth <= MAX_DEPTH).then_some(Way { depth, ..way })
    }

    /// `None`: a loop. `Some(None)`: unreachable, though still a member of a group.
    fn gateway(&self, prefix: Prefix, address: IpAddr, interface: Option<InterfaceId>) -> Option<Option<Way>> {
        match interface {
            Some(interface) => Some(self.direct(interface, address)),
            None if self.leads_to(address, prefix, &mut BTreeSet::new()) => None,
            None => Some(self.reach(address)),
        }
    }

    fn member(&self, prefix: Prefix, member: &Member, to: Option<IpAddr>) -> Option<Option<Way>> {
        match (member.address, member.interface, to) {
            (Some(address), interface, _) => self.gateway(prefix, address, interface),
            (None, Some(interface), Some(gateway)) => Some(self.direct(interface, gateway)),
            (None, Some(interface), None) => Some(self.link(interface)),
            (None, None, _) => unreachable!("Multipath refuses such a member"),
        }
    }

    fn way_of(&self, prefix: Prefix, route: &Route, to: Option<IpAddr>) -> Option<Way> {
        let fixed = |id| Some(Way { leaves: BTreeSet::from([Leaf::Fixed(id)]), all: true, depth: 0, rank: 2 });
        match &route.target {
            RouteTarget::Connected { interface } => self.link(*interface),
            RouteTarget::Gateway { address, interface } => self.gateway(prefix, *address, *interface)?,
            RouteTarget::Multipath(multipath) => {
                let members = multipath.members().iter();
                let members: Vec<_> = members.filter_map(|m| self.member(prefix, m, to)).flatten().collect();
                let depth = members.iter().map(|way| way.depth).max()?;
                let rank = members.iter().map(|way| way.rank).max()?;
                let best: Vec<&Way> = members.iter().filter(|way| way.rank == rank).collect();
                let leaves = best.iter().flat_map(|way| &way.leaves).copied().collect();
                let all = best.iter().all(|way| way.leaves.len() == 1 && way.all);
                Some(Way { leaves, all, depth, rank })
            }
            RouteTarget::Local => fixed(NextHopId::LOCAL),
            RouteTarget::Blackhole => fixed(NextHopId::BLACKHOLE),
            RouteTarget::Unreachable => fixed(NextHopId::UNREACHABLE),
            RouteTarget::Prohibit => fixed(NextHopId::PROHIBIT),
            RouteTarget::Selective(_) => None,
            RouteTarget::ToLinux(_) => fixed(NextHopId::TO_LINUX),
            RouteTarget::Refused(_) => fixed(NextHopId::REFUSED),
        }
    }
}
