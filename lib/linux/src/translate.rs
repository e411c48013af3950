// SPDX-License-Identifier: MIT
//! Linux's routes translated for the table, or why one is left out.

use std::net::IpAddr;

use perigee_config::Linux as Config;
use perigee_net::{InterfaceId, Member, Multipath, Prefix, Route, RouteKey, RouteSource, RouteTarget, is_link_local};
use perigee_netlink::message::{Hop, Hops, NextHopTo, Route as LinuxRoute, RouteKind};

/// The table of addresses that are this machine's.
const LOCAL: u32 = 255;
/// How deep next-hop groups may be nested: Linux nests none, and a cycle must end.
const DEPTH: usize = 2;

/// Why a route is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// It is in a table that is not followed.
    Table,
    /// It is of a routing protocol that is not followed.
    Protocol,
    /// It is for broadcast, multicast, or an address of an interface of this router, which the router knows anyway.
    Kind,
    /// It is for one type of service only.
    TypeOfService,
    /// It adds a header that this router cannot make.
    Encapsulation,
    /// It is over interfaces that are not the router's.
    OtherInterface,
    /// It names a next-hop object that is not known, or not one for packets.
    NextHop,
    /// It is link-local: never forwarded.
    LinkLocal,
}

impl Skip {
    /// Its name in `perigee show linux`.
    pub fn name(self) -> &'static str {
        match self {
            Skip::Table => "table",
            Skip::Protocol => "protocol",
            Skip::Kind => "kind",
            Skip::TypeOfService => "type_of_service",
            Skip::Encapsulation => "encapsulation",
            Skip::OtherInterface => "other_interface",
            Skip::NextHop => "next_hop",
            Skip::LinkLocal => "link_local",
        }
    }
}

/// Which routes are followed.
pub struct Policy {
    /// The tables, and what is added to the preference of their routes.
    tables: Vec<u32>,
    /// Whether each protocol's routes are followed.
    protocols: [bool; 256],
}

impl Policy {
    /// The policy of a configuration.
    pub fn new(config: &Config) -> Policy {
        let mut protocols = [config.protocols.is_none(); 256];
        for protocol in config.protocols.iter().flatten() {
            protocols[usize::from(*protocol)] = true;
        }
        for protocol in &config.ignore_protocols {
            protocols[usize::from(*protocol)] = false;
        }
        Policy { tables: config.tables.clone(), protocols }
    }

    /// The key that distinguishes the route from others to its prefix.
    ///
    /// # Errors
    /// It is not followed.
    #[inline]
    pub fn key(&self, route: &LinuxRoute) -> Result<RouteKey, Skip> {
        let local = route.table == LOCAL && route.kind == RouteKind::Local;
        let linux = RouteSource::Linux.preference();
        let preference = match self.tables.iter().position(|table| *table == route.table) {
            Some(rank) => linux + rank as u8,
            // Linux looks into this table first.
            None if local => linux - 1,
            None => return Err(Skip::Table),
        };
        if !local && !self.protocols[usize::from(route.protocol)] {
            return Err(Skip::Protocol);
        }
        if route.tos != 0 {
            return Err(Skip::TypeOfService);
        }
        let first = route.prefix.addr();
        if is_link_local(first) || first.is_ipv6() && first.is_multicast() {
            return Err(Skip::LinkLocal);
        }
        Ok(RouteKey { preference, metric: route.metric, source: RouteSource::Linux })
    }
}

/// The meaning of Linux's numbers.
pub trait Names {
    /// The interface behind a link.
    fn interface(&self, link: u32) -> Option<InterfaceId>;
    /// What a next-hop object stands for.
    fn next_hop(&self, id: u32) -> Option<&NextHopTo>;
}

/// Where a route leads.
///
/// # Errors
/// It is left out.
pub fn target(route: &LinuxRoute, names: &impl Names) -> Result<RouteTarget, Skip> {
    match route.kind {
        RouteKind::Unicast if route.encapsulated => Err(Skip::Encapsulation),
        RouteKind::Unicast => match &route.hops {
            Hops::None if route.next_hop != 0 => by_object(route.next_hop, names),
            Hops::Many(_) if is_heavy(route.next_hop, names) => by_object(route.next_hop, names),
            hops => by_hops(hops.as_slice(), names),
        },
        // The router knows the addresses of its own interfaces anyway.
        RouteKind::Local => match route.hops.as_slice() {
            [hop, ..] if names.interface(hop.link).is_some() => Err(Skip::Kind),
            _ if is_loopback(route.prefix) => Err(Skip::Kind),
            _ => Ok(RouteTarget::Local),
        },
        RouteKind::Blackhole => Ok(RouteTarget::Blackhole),
        RouteKind::Unreachable => Ok(RouteTarget::Unreachable),
        RouteKind::Prohibit => Ok(RouteTarget::Prohibit),
        RouteKind::Other => Err(Skip::Kind),
    }
}

fn is_loopback(prefix: Prefix) -> bool {
    prefix.addr().is_loopback()
}

/// Whether an object is a group with weights that do not fit into the 8 bits that the next hops of a route have for
/// them. Then these are wrong (Linux 6.12).
fn is_heavy(id: u32, names: &impl Names) -> bool {
    match names.next_hop(id) {
        Some(NextHopTo::Group(members)) => members.iter().any(|(_, weight)| *weight > Multipath::MAX_WEIGHT),
        _ => false,
    }
}

fn by_object(id: u32, names: &impl Names) -> Result<RouteTarget, Skip> {
    let mut hops = Vec::new();
    match names.next_hop(id) {
        Some(NextHopTo::Blackhole) => return Ok(RouteTarget::Blackhole),
        Some(_) => collect(id, 1, names, &mut hops, DEPTH)?,
        None => return Err(Skip::NextHop),
    }
    by_hops(&hops, names)
}

fn collect(id: u32, weight: u16, names: &impl Names, hops: &mut Vec<Hop>, depth: usize) -> Result<(), Skip> {
    match names.next_hop(id) {
        Some(NextHopTo::Hop(hop)) => hops.push(Hop { weight, ..*hop }),
        Some(NextHopTo::Group(members)) if depth > 0 => {
            for (id, weight) in members {
                collect(*id, *weight, names, hops, depth - 1)?;
            }
        }
        _ => return Err(Skip::NextHop),
    }
    Ok(())
}

/// Next hops over interfaces that are not the router's are left out; if no other remains, so is the route.
fn by_hops(hops: &[Hop], names: &impl Names) -> Result<RouteTarget, Skip> {
    let member = |hop: &Hop| match (names.interface(hop.link), hop.link, hop.gateway) {
        (None, 0, Some(_)) => Some((hop.gateway, None, hop.weight)), // Named without a link: other routes lead there.
        (None, ..) => None,
        (interface, _, gateway) => Some((gateway, interface, hop.weight)),
    };
    if let [hop] = hops {
        return one(member(hop).ok_or(Skip::OtherInterface)?);
    }
    let members: Vec<_> = hops.iter().filter_map(member).collect();
    match members[..] {
        [] => Err(Skip::OtherInterface),
        [hop] => one(hop),
        _ => {
            let heaviest = members.iter().map(|(_, _, weight)| *weight).max().unwrap_or(1);
            let member =
                |&(address, interface, weight): &Way| Member { address, interface, weight: fitted(weight, heaviest) };
            let members: Vec<Member> = members.iter().map(member).collect();
            // More than the table takes: Linux has 256 at most, too.
            Multipath::new(&members).map(RouteTarget::Multipath).map_err(|_| Skip::NextHop)
        }
    }
}

/// A weight among others, of which the heaviest has 16 bits (a group's, from Linux 6.12 on) and the table's has 8.
fn fitted(weight: u16, heaviest: u16) -> u16 {
    let (most, heaviest) = (u32::from(Multipath::MAX_WEIGHT), u32::from(heaviest));
    if heaviest <= most {
        return weight;
    }
    let share = (u32::from(weight) * most + heaviest / 2) / heaviest;
    u16::try_from(share).unwrap_or(Multipath::MAX_WEIGHT).max(1)
}

/// Gateway, interface, weight.
type Way = (Option<IpAddr>, Option<InterfaceId>, u16);

fn one((gateway, interface, _): Way) -> Result<RouteTarget, Skip> {
    match (gateway, interface) {
        (Some(address), interface) => Ok(RouteTarget::Gateway { address, interface }),
        (None, Some(interface)) => Ok(RouteTarget::Connected { interface }),
        (None, None) => Err(Skip::OtherInterface),
    }
}

/// The route without the next hops of `gone` (for IPv6, Linux reports each deleted one separately); `None` if none is left.
pub fn without(route: &Route, gone: &RouteTarget) -> Option<Route> {
    let ways = |target: &RouteTarget| -> Vec<Member> {
        match target {
            &RouteTarget::Gateway { address, interface } => {
                vec![Member { address: Some(address), interface, weight: 1 }]
            }
            &RouteTarget::Connected { interface } => {
                vec![Member { address: None, interface: Some(interface), weight: 1 }]
            }
            RouteTarget::Multipath(multipath) => multipath.members().to_vec(),
            _ => Vec::new(),
        }
    };
    let gone = ways(gone);
    let is_gone = |way: &Member| gone.iter().any(|g| (g.address, g.interface) == (way.address, way.interface));
    let left: Vec<Member> = ways(&route.target).into_iter().filter(|way| !is_gone(way)).collect();
    let target = match left[..] {
        [] => return None,
        [way] => one((way.address, way.interface, 1)).ok()?,
        _ => RouteTarget::Multipath(Multipath::new(&left).ok()?),
    };
    Some(Route { target, ..route.clone() })
}
