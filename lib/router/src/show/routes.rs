// SPDX-License-Identifier: MIT
//! `perigee show routes`, `nexthops`, `fib` and `neighbors`.

use super::{View, states};
use crate::forwarding::Routing;
use perigee_api::Answers;
use perigee_api::answers::{
    FibStatus, GatewayEntry, IpFamily, NeighborEntry, NeighborUsage, NextHopEntry, NextHopMember, NextHopType,
    RouteAction, RouteEntry, RouteList, RouteOrigin,
};
use perigee_api::queries::{ShowFib, ShowNeighborUsage, ShowNeighbors, ShowNextHops, ShowRoutes};
use perigee_fib::{NextHopInfo, NextHopKind, Via};
use perigee_net::{InterfaceId, Member, Prefix, Route, RouteSource, RouteTarget};
use perigee_slowpath::NeighborInfo;
use std::net::IpAddr;

impl Answers<ShowRoutes> for View<'_> {
    fn answer(&self, ShowRoutes { within, to, source, limit }: ShowRoutes) -> RouteList {
        let routing = self.forwarding.routing();
        let limit = limit.unwrap_or(ShowRoutes::LIMIT);
        let inside = |found: &Prefix| within.is_none_or(|w| w.len() <= found.len() && w.contains(found.addr()));
        let found_by = to.map(|to| routing.rib().lookup(to).map(|(prefix, _)| prefix));
        let inside = |found: &Prefix| inside(found) && found_by.is_none_or(|by| by == Some(*found));
        let (v4, v6) = routing.fib().memory();
        let mut list = RouteList { memory: (v4 + v6) as u64, refused: routing.refused(), ..RouteList::default() };
        for (found, routes, chosen) in routing.rib().iter().filter(|(found, ..)| inside(found)) {
            let wanted = |route: &Route| {
                source.is_none_or(|source| source.takes(origin_of(routing, found, route), route.protocol))
            };
            for (rank, route) in routes.iter().enumerate().filter(|(_, route)| wanted(route)) {
                list.total += 1;
                if list.routes.len() < limit {
                    list.routes.push(route_entry(routing, found, route, chosen == Some(rank)));
                }
            }
        }
        list
    }
}

fn origin_of(routing: &Routing, found: Prefix, route: &Route) -> RouteOrigin {
    if routing.is_operator_route(found, route.key()) { RouteOrigin::Api } else { states::origin(route.source) }
}

pub(super) fn route_entry(routing: &Routing, found: Prefix, route: &Route, best: bool) -> RouteEntry {
    let name = |id: InterfaceId| Some(routing.name_of(id));
    let (action, via, dev) = match route.target {
        RouteTarget::Connected { interface } => (RouteAction::Forward, None, name(interface)),
        RouteTarget::Gateway { address, interface } => {
            (RouteAction::Forward, Some(address), device(routing, address, interface))
        }
        RouteTarget::Multipath(_) => (RouteAction::Forward, None, None),
        RouteTarget::Local => (RouteAction::Local, None, None),
        RouteTarget::Blackhole => (RouteAction::Blackhole, None, None),
        RouteTarget::Unreachable => (RouteAction::Unreachable, None, None),
        RouteTarget::Prohibit => (RouteAction::Prohibit, None, None),
        RouteTarget::ToLinux(_) | RouteTarget::Selective(_) => (RouteAction::ToLinux, None, None),
        RouteTarget::Refused(_) => (RouteAction::Refused, None, None),
    };
    let why = match &route.target {
        RouteTarget::ToLinux(why) | RouteTarget::Refused(why) => Some(why.explanation().to_owned()),
        RouteTarget::Selective(selector) => Some(format!("for packets {selector}")),
        _ => None,
    };
    let source = origin_of(routing, found, route);
    let metric = if let RouteTarget::Selective(selector) = &route.target { selector.metric } else { route.metric };
    let (preference, protocol) = (route.preference, route.protocol.map(|protocol| protocol.to_string()));
    let gateways = gateway_entries(routing, route);
    let is_down = |address, interface| link_down(routing, address, interface).is_some();
    let down = match &route.target {
        RouteTarget::Connected { interface } => is_down(None, Some(*interface)),
        RouteTarget::Gateway { address, interface } => is_down(Some(*address), *interface),
        RouteTarget::Multipath(multipath) => multipath.members().iter().all(|m| is_down(m.address, m.interface)),
        _ => false,
    };
    RouteEntry { prefix: found, source, protocol, action, why, via, dev, gateways, preference, metric, best, down }
}

/// The name of the interface by which a gateway is currently reached, or would be if its link was up.
fn device(routing: &Routing, address: IpAddr, interface: Option<InterfaceId>) -> Option<String> {
    let reached = || Some(routing.fib().reached_by(address)?.interface);
    let id = interface.or_else(reached).or_else(|| link_down(routing, Some(address), None))?;
    Some(routing.name_of(id))
}

/// The link of a route's gateway, or of a connected network, if it is down and keeps the route from being used.
fn link_down(routing: &Routing, address: Option<IpAddr>, interface: Option<InterfaceId>) -> Option<InterfaceId> {
    let fib = routing.fib();
    let unreached = || address.filter(|address| fib.reached_by(*address).is_none());
    interface.or_else(|| fib.link_of(unreached()?).ok()).filter(|link| fib.is_link_down(*link))
}

/// The gateways of a route that has several.
fn gateway_entries(routing: &Routing, route: &Route) -> Vec<GatewayEntry> {
    let RouteTarget::Multipath(multipath) = &route.target else { return Vec::new() };
    let entry = |&Member { address, interface, weight }: &Member| GatewayEntry {
        via: address,
        dev: match address {
            Some(address) => device(routing, address, interface),
            None => interface.map(|id| routing.name_of(id)),
        },
        weight,
        down: link_down(routing, address, interface).is_some(),
    };
    multipath.members().iter().map(entry).collect()
}

impl Answers<ShowNextHops> for View<'_> {
    fn answer(&self, _: ShowNextHops) -> Vec<NextHopEntry> {
        let routing = self.forwarding.routing();
        routing.fib().next_hops().map(|hop| next_hop_entry(routing, hop)).collect()
    }
}

fn next_hop_entry(routing: &Routing, hop: NextHopInfo) -> NextHopEntry {
    let NextHopInfo { id, uses, kind } = hop;
    let entry = |kind: NextHopType| NextHopEntry {
        id: id.0,
        kind,
        via: None,
        dev: None,
        mac: None,
        target: None,
        members: Vec::new(),
        uses,
        down: false,
    };
    match kind {
        NextHopKind::Direct { via: Via { interface, gateway }, mac, down } => {
            let entry = entry(if gateway.is_some() { NextHopType::Neighbor } else { NextHopType::Connected });
            NextHopEntry { via: gateway, dev: Some(routing.name_of(interface)), mac, down, ..entry }
        }
        NextHopKind::Recursive { gateway, target } => NextHopEntry {
            via: Some(gateway),
            dev: device(routing, gateway, None),
            target: target.map(|id| id.0),
            ..entry(NextHopType::Recursive)
        },
        NextHopKind::Group { members, buckets } => {
            let member = |m: perigee_fib::GroupMember| NextHopMember {
                id: m.id.0,
                weight: m.weight,
                share: m.buckets as f64 / buckets as f64,
            };
            NextHopEntry { members: members.into_iter().map(member).collect(), ..entry(NextHopType::Group) }
        }
    }
}

impl Answers<ShowFib> for View<'_> {
    fn answer(&self, _: ShowFib) -> Vec<FibStatus> {
        let (forwarding, choice) = (self.forwarding, &self.config.router.fib);
        let prefixes = forwarding.rib().prefixes_by_family().map(|n| n as u64);
        let families = [(IpFamily::V4, &choice.v4), (IpFamily::V6, &choice.v6)];
        let status = |(((family, chosen), (structure, bytes, why)), prefixes)| FibStatus {
            family,
            chosen: String::clone(chosen),
            structure: str::to_owned(structure),
            why,
            prefixes,
            bytes: bytes as u64,
            pending: forwarding.uncommitted() || forwarding.links_are_followed(),
        };
        families.into_iter().zip(forwarding.structures()).zip(prefixes).map(status).collect()
    }
}

impl Answers<ShowNeighbors> for View<'_> {
    fn answer(&self, _: ShowNeighbors) -> Vec<NeighborEntry> {
        let entry = |neighbor: NeighborInfo| NeighborEntry {
            address: neighbor.address,
            mac: neighbor.mac,
            dev: self.forwarding.routing().name_of(neighbor.interface),
            state: states::neighbor(neighbor.state),
        };
        let mut neighbors: Vec<_> = self.slow.neighbors().collect();
        neighbors.sort_unstable_by_key(|neighbor| (neighbor.interface, neighbor.address));
        neighbors.into_iter().map(entry).collect()
    }
}

impl Answers<ShowNeighborUsage> for View<'_> {
    fn answer(&self, _: ShowNeighborUsage) -> Vec<NeighborUsage> {
        let config = self.slow.config();
        let usage = |usage: perigee_slowpath::NeighborUsage| NeighborUsage {
            dev: self.forwarding.routing().name_of(usage.interface),
            family: if usage.is_v6 { IpFamily::V6 } else { IpFamily::V4 },
            known: usage.known as u64,
            unconfirmed: usage.unconfirmed as u64,
            known_limit: config.max_known as u64,
            unresolved: usage.unresolved as u64,
            unresolved_limit: config.max_unresolved as u64,
        };
        self.slow.neighbor_usage().map(usage).collect()
    }
}

/// The number of routes of each source.
pub(super) fn by_source(view: &View<'_>) -> Vec<(RouteOrigin, u64)> {
    let routing = view.forwarding.routing();
    let operator = routing.operator_count() as u64;
    let count = |source: RouteSource| {
        let less = if source == RouteSource::Static { operator } else { 0 };
        (states::origin(source), routing.rib().count(source).saturating_sub(less))
    };
    let sources = RouteSource::ALL.into_iter().map(count).chain([(RouteOrigin::Api, operator)]);
    sources.filter(|(_, n)| *n > 0).collect()
}
