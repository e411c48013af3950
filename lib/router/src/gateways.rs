// SPDX-License-Identifier: MIT
//! Gateways of routes as the API names them and as the table does.

use crate::routing::Routing;
use crate::slow::SlowThread;
use perigee_api::answers::{GatewayEntry, NextHopEntry, NextHopMember};
use perigee_api::{ApiError, RouteChange, RouteGateway};
use perigee_fib::{NextHopInfo, NextHopKind, Via};
use perigee_net::{InterfaceId, Member, Multipath, Prefix, Route, RouteTarget};
use std::net::IpAddr;

impl Routing {
    /// A route as the configuration would have it: each gateway on the link it is a neighbor on, if it is one.
    pub fn with_links(&self, route: &Route) -> Route {
        let link = |interface: Option<InterfaceId>, address| interface.or_else(|| self.link_of(address));
        let target = match &route.target {
            &RouteTarget::Gateway { address, interface } => {
                RouteTarget::Gateway { address, interface: link(interface, address) }
            }
            RouteTarget::Multipath(multipath) => RouteTarget::Multipath(multipath.map(|member| {
                let link = member.address.map_or(member.interface, |address| link(member.interface, address));
                Member { interface: link, ..member }
            })),
            other => other.clone(),
        };
        Route { target, ..route.clone() }
    }
}

impl SlowThread {
    /// The target of a route that is to be added by hand.
    pub(crate) fn target(&self, prefix: Prefix, change: &RouteChange) -> Result<RouteTarget, ApiError> {
        let gateways = change.all_gateways()?;
        let members = gateways.iter().map(|gateway| self.member(prefix, gateway)).collect::<Result<Vec<_>, _>>()?;
        match members[..] {
            [] => Err(ApiError::invalid("`via` is missing: the address of a neighbor")),
            [Member { address: Some(address), interface, weight: 1 }] => {
                Ok(RouteTarget::Gateway { address, interface })
            }
            _ => {
                let multipath = Multipath::new(&members).map_err(|error| ApiError::invalid(error.to_string()))?;
                Ok(RouteTarget::Multipath(multipath))
            }
        }
    }

    /// A gateway as the table knows it. One without an interface must be on a connected network, so that a slip of the
    /// finger is noticed, or be called recursive.
    fn member(&self, prefix: Prefix, gateway: &RouteGateway) -> Result<Member, ApiError> {
        let RouteGateway { via: address, dev, recursive, weight } = gateway;
        let (address, weight) = (*address, *weight);
        if address.is_ipv4() != prefix.addr().is_ipv4() {
            return Err(ApiError::invalid(format!("{address} and {prefix} are of different families")));
        }
        let interface = dev.as_deref().map(|name| self.interface(name)).transpose()?;
        match interface {
            Some(_) if *recursive => {
                return Err(ApiError::invalid(format!("{address} is recursive and has a `dev`; expected one of them")));
            }
            Some(id) if !self.parts.routing.on_link(id, address) && !is_link_local(address) => {
                let name = self.name_of(id);
                let message = format!("{address} is on none of the networks of {name}; give one it can be reached by");
                return Err(ApiError::invalid(message));
            }
            None if !recursive => drop(self.parts.routing.find_link(address).map_err(ApiError::invalid)?),
            _ => {}
        }
        Ok(Member { address: Some(address), interface, weight })
    }

    /// The interface that a gateway is reached by now, by name.
    pub(crate) fn device(&self, address: IpAddr, interface: Option<InterfaceId>) -> Option<String> {
        let id = interface.or_else(|| Some(self.parts.routing.reached_by(address)?.interface))?;
        Some(self.name_of(id))
    }

    /// The gateways of a route that has several, to be shown.
    pub(crate) fn gateway_entries(&self, route: &Route) -> Vec<GatewayEntry> {
        let RouteTarget::Multipath(multipath) = &route.target else { return Vec::new() };
        let entry = |&Member { address, interface, weight }: &Member| GatewayEntry {
            via: address,
            dev: match address {
                Some(address) => self.device(address, interface),
                None => interface.map(|id| self.name_of(id)),
            },
            weight,
        };
        multipath.members().iter().map(entry).collect()
    }

    /// All next hops, to be shown.
    pub(crate) fn next_hops(&self) -> Vec<NextHopEntry> {
        self.parts.routing.next_hops().map(|hop| self.next_hop_entry(hop)).collect()
    }

    fn next_hop_entry(&self, hop: NextHopInfo) -> NextHopEntry {
        let NextHopInfo { id, uses, kind } = hop;
        let entry = |kind: &str| NextHopEntry {
            id: id.0,
            kind: kind.to_owned(),
            via: None,
            dev: None,
            mac: None,
            target: None,
            members: Vec::new(),
            uses,
        };
        match kind {
            NextHopKind::Direct { via: Via { interface, gateway }, mac } => {
                let entry = entry(if gateway.is_some() { "neighbor" } else { "connected" });
                NextHopEntry { via: gateway, dev: Some(self.name_of(interface)), mac, ..entry }
            }
            NextHopKind::Recursive { gateway, target } => NextHopEntry {
                via: Some(gateway),
                dev: self.device(gateway, None),
                target: target.map(|id| id.0),
                ..entry("recursive")
            },
            NextHopKind::Group { members, buckets } => {
                let member = |m: perigee_fib::GroupMember| NextHopMember {
                    id: m.id.0,
                    weight: m.weight,
                    share: m.buckets as f64 / buckets as f64,
                };
                NextHopEntry { members: members.into_iter().map(member).collect(), ..entry("group") }
            }
        }
    }
}

pub(crate) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}
