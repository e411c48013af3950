// SPDX-License-Identifier: MIT
//! Linux's routes translated for the table, or why one is left out. No route that packets could take in Linux is left
//! out: one that this router cannot forward by is in the table as Linux's alone, as packets must never take the next
//! shorter prefix instead.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use perigee_config::{Linux as Config, UnknownRoutes};
use perigee_net::{
    InterfaceId, LinuxOnly, Member, Multipath, Prefix, Route, RouteKey, RouteProtocol, RouteSource, RouteTarget,
    Selector, is_link_local,
};
use perigee_netlink::message::{Hop, Hops, NextHopTo, Route as LinuxRoute, RouteKind};

/// The table of addresses that are this machine's.
const LOCAL: u32 = 255;
/// The table of connected networks.
const MAIN: u32 = 254;
/// The kernel's routes for the networks of addresses have this protocol.
const BY_KERNEL: u8 = 2;
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
            Skip::LinkLocal => "link_local",
        }
    }

    /// What it says of a route.
    pub fn explanation(self) -> &'static str {
        match self {
            Skip::Table => "its table is not followed: see `tables` in [linux]",
            Skip::Protocol => "its protocol is not followed: see `protocols` and `ignore_protocols` in [linux]",
            Skip::Kind => "it is for groups, broadcasts, loopback, or an address that the router knows anyway",
            Skip::LinkLocal => "it is link-local, or for IPv6 groups: no packet is forwarded by it",
        }
    }
}

/// Which routes are followed.
pub struct Policy {
    /// The tables, and what is added to the preference of their routes.
    tables: Vec<u32>,
    /// Whether each protocol's routes are followed.
    protocols: [bool; 256],
    /// What happens to packets by a route of Linux's alone.
    unknown: UnknownRoutes,
    /// Tables that policy rules lead packets to before those that are followed, by whether they are IPv6's and by
    /// number.
    pub ruled: BTreeMap<(bool, u32), Precedence>,
}

/// How the routes of a table that a policy rule leads to compare with those of the tables that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// They go before routes of any length.
    Any,
    /// They go before routes of the same or a shorter length.
    Longest,
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
        Policy { tables: config.tables.clone(), protocols, unknown: config.unknown_routes, ruled: BTreeMap::new() }
    }

    /// Whether the routes are followed that Linux makes of addresses.
    pub fn follows_connected(&self) -> bool {
        self.tables.contains(&MAIN) && self.protocols[usize::from(BY_KERNEL)]
    }

    /// Whether routes of a table are followed.
    pub fn follows(&self, table: u32) -> bool {
        self.tables.contains(&table)
    }

    /// The key that distinguishes the route from others to its prefix.
    ///
    /// # Errors
    /// It is not followed.
    #[inline]
    pub fn key(&self, route: &LinuxRoute) -> Result<RouteKey, Skip> {
        let local = route.table == LOCAL;
        let linux = RouteSource::Linux.preference();
        let preference = match self.tables.iter().position(|table| *table == route.table) {
            // Several may have one metric: theirs is made of what tells them apart, and they have a preference for
            // themselves.
            Some(_) if is_selective(route) => SELECTIVE,
            Some(rank) => linux + rank as u8,
            // Linux looks into this table first.
            None if local => linux - 3,
            None => match self.ruled.get(&(matches!(route.prefix, Prefix::V6(_)), route.table)) {
                Some(Precedence::Any) => BEFORE_ALL,
                Some(Precedence::Longest) => linux - 1,
                None => return Err(Skip::Table),
            },
        };
        if !local && !self.protocols[usize::from(route.protocol)] {
            return Err(Skip::Protocol);
        }
        let first = route.prefix.addr();
        // No packet that comes in by a port goes there. Linux has a route to ::1 in `main`.
        if first.is_loopback() {
            return Err(Skip::Kind);
        }
        if is_link_local(first) || first.is_ipv6() && first.is_multicast() {
            return Err(Skip::LinkLocal);
        }
        let metric = if preference == SELECTIVE { hash_of(selector(route)) } else { route.metric };
        Ok(RouteKey { preference, metric, source: RouteSource::Linux })
    }
}

/// The meaning of Linux's numbers.
pub trait Names {
    /// The interface behind a link.
    fn interface(&self, link: u32) -> Option<InterfaceId>;
    /// What a next-hop object stands for.
    fn next_hop(&self, id: u32) -> Option<&NextHopTo>;
    /// Whether a link has this address.
    fn owns(&self, link: u32, address: IpAddr) -> bool;
    /// Bytes of the longest IP packet that an interface takes.
    fn mtu(&self, interface: InterfaceId) -> u32;
}

/// The preference of routes that go before longer ones of other tables.
pub const BEFORE_ALL: u8 = RouteSource::Linux.preference() - 2;
/// The preference of routes for a part of the packets to their prefix.
const SELECTIVE: u8 = u8::MAX - 1;

/// Whether a route is for a part of the packets to its prefix.
fn is_selective(route: &LinuxRoute) -> bool {
    route.tos != 0 || route.source.is_some()
}

fn selector(route: &LinuxRoute) -> Selector {
    Selector { source: route.source, tos: route.tos, metric: route.metric }
}

fn hash_of(selector: Selector) -> u32 {
    let mut hasher = DefaultHasher::new();
    selector.hash(&mut hasher);
    hasher.finish() as u32
}

impl Policy {
    /// A route as the table has it.
    ///
    /// # Errors
    /// It is left out.
    pub fn translate(&self, route: &LinuxRoute, names: &impl Names) -> Result<Route, Skip> {
        let RouteKey { preference, metric, source } = self.key(route)?;
        let target = self.target(route, names)?;
        let mtu = mtu_of(route.mtu, &target, names);
        let protocol = Some(RouteProtocol(route.protocol));
        Ok(Route { source, preference, metric, target, mtu, protocol })
    }

    fn target(&self, route: &LinuxRoute, names: &impl Names) -> Result<RouteTarget, Skip> {
        let linux_only = |why| match self.unknown {
            UnknownRoutes::ToLinux => RouteTarget::ToLinux(why),
            UnknownRoutes::Unreachable => RouteTarget::Refused(why),
        };
        Ok(match route.kind {
            _ if is_selective(route) && route.table != LOCAL => RouteTarget::Selective(Arc::new(selector(route))),
            // The router knows the addresses of its own interfaces anyway, but not what else is delivered by one.
            RouteKind::Local | RouteKind::Broadcast | RouteKind::Anycast => match route.hops.as_slice() {
                [hop, ..] if names.interface(hop.link).is_some() => match route.kind {
                    RouteKind::Local if !names.owns(hop.link, route.prefix.addr()) => RouteTarget::Local,
                    _ => return Err(Skip::Kind),
                },
                _ => RouteTarget::Local,
            },
            RouteKind::Multicast => return Err(Skip::Kind),
            _ if !self.tables.contains(&route.table) && route.table != LOCAL => linux_only(LinuxOnly::Rule),
            _ if route.unknown.is_some() => linux_only(LinuxOnly::Attribute),
            RouteKind::Blackhole => RouteTarget::Blackhole,
            RouteKind::Unreachable => RouteTarget::Unreachable,
            RouteKind::Prohibit => RouteTarget::Prohibit,
            RouteKind::Unicast => unicast(route, names).unwrap_or_else(linux_only),
            RouteKind::Other => linux_only(LinuxOnly::Type),
        })
    }
}

fn unicast(route: &LinuxRoute, names: &impl Names) -> Result<RouteTarget, LinuxOnly> {
    if route.encapsulated {
        return Err(LinuxOnly::Encapsulation);
    }
    match &route.hops {
        Hops::None if route.next_hop != 0 => by_object(route.next_hop, names),
        Hops::Many(_) if is_heavy(route.next_hop, names) => by_object(route.next_hop, names),
        hops => by_hops(hops.as_slice(), names),
    }
}

/// The MTU of a route to `target`; 0 if none of its links takes more.
fn mtu_of(mtu: u32, target: &RouteTarget, names: &impl Names) -> u16 {
    let is_smaller = |link: Option<InterfaceId>| link.is_none_or(|link| mtu < names.mtu(link));
    let counts = match target {
        RouteTarget::Connected { interface } => is_smaller(Some(*interface)),
        RouteTarget::Gateway { interface, .. } => is_smaller(*interface),
        RouteTarget::Multipath(multipath) => multipath.members().iter().any(|member| is_smaller(member.interface)),
        _ => false,
    };
    u16::try_from(mtu).ok().filter(|_| counts).unwrap_or(0)
}

/// Whether an object is a group with weights that do not fit into the 8 bits that the next hops of a route have for
/// them. Then these are wrong (Linux 6.12).
fn is_heavy(id: u32, names: &impl Names) -> bool {
    match names.next_hop(id) {
        Some(NextHopTo::Group(members)) => members.iter().any(|(_, weight)| *weight > Multipath::MAX_WEIGHT),
        _ => false,
    }
}

fn by_object(id: u32, names: &impl Names) -> Result<RouteTarget, LinuxOnly> {
    let mut hops = Vec::new();
    match names.next_hop(id) {
        Some(NextHopTo::Blackhole) => return Ok(RouteTarget::Blackhole),
        Some(_) => collect(id, 1, names, &mut hops, DEPTH)?,
        None => return Err(LinuxOnly::NextHop),
    }
    by_hops(&hops, names)
}

fn collect(id: u32, weight: u16, names: &impl Names, hops: &mut Vec<Hop>, depth: usize) -> Result<(), LinuxOnly> {
    match names.next_hop(id) {
        Some(NextHopTo::Hop(hop)) => hops.push(Hop { weight, ..*hop }),
        Some(NextHopTo::Group(members)) if depth > 0 => {
            for (id, weight) in members {
                collect(*id, *weight, names, hops, depth - 1)?;
            }
        }
        _ => return Err(LinuxOnly::NextHop),
    }
    Ok(())
}

/// A route with a next hop over an interface that is no port is Linux's: the flows of that next hop must not leave by
/// the others.
fn by_hops(hops: &[Hop], names: &impl Names) -> Result<RouteTarget, LinuxOnly> {
    let member = |hop: &Hop| match (names.interface(hop.link), hop.link, hop.gateway) {
        (None, 0, Some(_)) => Ok((hop.gateway, None, hop.weight)), // Named without a link: other routes lead there.
        (None, ..) => Err(LinuxOnly::OtherInterface),
        (interface, _, gateway) => Ok((gateway, interface, hop.weight)),
    };
    if let [hop] = hops {
        return one(member(hop)?);
    }
    let members: Vec<_> = hops.iter().map(member).collect::<Result<_, _>>()?;
    match members[..] {
        [] => Err(LinuxOnly::OtherInterface),
        [hop] => one(hop),
        _ => {
            let heaviest = members.iter().map(|(_, _, weight)| *weight).max().unwrap_or(1);
            let member =
                |&(address, interface, weight): &Way| Member { address, interface, weight: fitted(weight, heaviest) };
            let members: Vec<Member> = members.iter().map(member).collect();
            // More than the table takes: Linux has 256 at most, too.
            Multipath::new(&members).map(RouteTarget::Multipath).map_err(|_| LinuxOnly::NextHop)
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

fn one((gateway, interface, _): Way) -> Result<RouteTarget, LinuxOnly> {
    match (gateway, interface) {
        (Some(address), interface) => Ok(RouteTarget::Gateway { address, interface }),
        (None, Some(interface)) => Ok(RouteTarget::Connected { interface }),
        (None, None) => Err(LinuxOnly::OtherInterface),
    }
}

/// The route without the next hops of `gone` (for IPv6, Linux reports each deleted one separately); `None` if none is
/// left.
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
