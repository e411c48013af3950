// SPDX-License-Identifier: MIT
//! From bytes to [`Message`]s. Nothing in them is trusted: what is cut off or contradicts itself is counted and left
//! out, and so is what does not concern a router.
//!
//! Written for routes by the million: one pass over the attributes, and no allocation for a route with one next hop.

mod multicast;
mod rules;
mod settings;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perigee_net::{AddressAttributes, AddressScope, InterfaceAddress, MacAddr, Prefix};

use super::message::{Address, Hop, Hops, Link, Master, Message, Neighbor, NextHop, NextHopTo, Route, RouteKind, Vlan};
use super::wire::{AF_INET, AF_INET6, Attributes, NEIGHBOR_PROXY};
use super::wire::{Malformed, Messages, Raw, flag, kind, u16_at, u32_at};

/// What was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages that are shorter than they say, or lack a mandatory part.
    pub malformed: u64,
    /// Messages of families and kinds that do not concern a router.
    pub skipped: u64,
}

/// What a datagram says about the dump that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The dump is over.
    pub done: bool,
    /// The dump may be incomplete: the kernel's table changed meanwhile.
    pub interrupted: bool,
    /// Why the kernel refused the request (errno), or that it lost messages (ENOBUFS).
    pub error: Option<i32>,
}

/// The errno for lost messages.
pub const ENOBUFS: i32 = 105;

/// Decodes a datagram. With `sequence`, only messages that answer the request of that number are taken: others answer
/// an earlier one. Without, the datagram is a notification.
pub fn decode(datagram: &[u8], sequence: Option<u32>, into: &mut Vec<Message>, tally: &mut Tally) -> Dump {
    let mut dump = Dump::default();
    for raw in Messages(datagram) {
        let Ok(raw) = raw else {
            tally.malformed += 1;
            break;
        };
        if sequence.is_some_and(|sequence| sequence != raw.sequence) {
            continue;
        }
        dump.interrupted |= raw.flags & flag::DUMP_INTERRUPTED != 0;
        match raw.kind {
            kind::DONE => {
                dump.done = true;
                // Its body is 0, or the error that ended the dump.
                dump.error = dump.error.or(refusal(&raw));
            }
            kind::ERROR => {
                dump.done = true;
                dump.error = dump.error.or(refusal(&raw));
            }
            kind::OVERRUN => dump.error = Some(ENOBUFS),
            _ => match message(&raw) {
                Ok(Some(message)) => into.push(message),
                Ok(None) => tally.skipped += 1,
                Err(Malformed) => tally.malformed += 1,
            },
        }
    }
    dump
}

/// The errno at the start of a message, which is negative or 0.
fn refusal(raw: &Raw) -> Option<i32> {
    let code = u32_at(raw.body, 0)? as i32;
    (code < 0).then(|| code.saturating_neg())
}

/// Decodes one message; `None` if it does not concern a router.
///
/// # Errors
/// It is cut off, or lacks a mandatory part.
pub fn message(raw: &Raw) -> Result<Option<Message>, Malformed> {
    Ok(match raw.kind {
        kind::NEW_LINK => link(raw.body)?.map(Message::Link),
        kind::DEL_LINK if has_moved(raw.body) => link(raw.body)?.map(|link| Message::LinkMoved(link.index)),
        kind::DEL_LINK => link(raw.body)?.map(|link| Message::LinkGone(link.index)),
        kind::NEW_ADDRESS => address(raw.body)?.map(Message::Address),
        kind::DEL_ADDRESS => address(raw.body)?.map(Message::AddressGone),
        kind::NEW_NEIGHBOR if settings::is_proxy(raw.body) => {
            settings::proxy_neighbor(raw.body)?.map(Message::ProxyNeighbor)
        }
        kind::NEW_NEIGHBOR => neighbor(raw.body)?.map(Message::Neighbor),
        kind::DEL_NEIGHBOR => neighbor(raw.body)?.map(Message::NeighborGone),
        kind::NEW_NETWORK_SETTINGS => settings::network_settings(raw.body)?.map(Message::NetworkSettings),
        kind::DEL_NETWORK_SETTINGS => {
            settings::network_settings(raw.body)?.map(|gone| Message::NetworkSettingsGone(gone.v6, gone.link))
        }
        kind::NEW_NEXT_HOP => Some(Message::NextHop(next_hop(raw.body)?)),
        kind::DEL_NEXT_HOP => Some(Message::NextHopGone(next_hop(raw.body)?.id)),
        kind::NEW_RULE => rules::rule(raw.body)?.map(Message::Rule),
        kind::DEL_RULE => rules::rule(raw.body)?.map(Message::RuleGone),
        kind::NEW_ROUTE if multicast::is_multicast(raw.body) => {
            multicast::multicast_route(raw.body)?.map(Message::MulticastRoute)
        }
        kind::DEL_ROUTE if multicast::is_multicast(raw.body) => {
            multicast::multicast_route(raw.body)?.map(|route| Message::MulticastRouteGone(route.key))
        }
        kind::NEW_ROUTE => {
            let (appended, replaces) = (raw.flags & flag::APPEND != 0, raw.flags & flag::REPLACE != 0);
            route(raw.body)?.map(|route| Message::Route(Route { appended, replaces, ..route }))
        }
        kind::DEL_ROUTE => route(raw.body)?.map(Message::RouteGone),
        _ => None,
    })
}

/// Splits a body into its fixed part and its attributes.
fn split(body: &[u8], fixed: usize) -> Result<(&[u8], Attributes<'_>), Malformed> {
    let (head, rest) = body.split_at_checked(fixed).ok_or(Malformed)?;
    Ok((head, Attributes(rest)))
}

fn number(value: &[u8]) -> Result<u32, Malformed> {
    u32_at(value, 0).ok_or(Malformed)
}

fn mac(value: &[u8]) -> Option<MacAddr> {
    value.try_into().ok().map(MacAddr)
}

/// Decodes an address of this family.
#[inline]
fn ip(family: u8, value: &[u8]) -> Result<IpAddr, Malformed> {
    match family {
        AF_INET => Ok(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(value).map_err(|_| Malformed)?))),
        AF_INET6 => Ok(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(value).map_err(|_| Malformed)?))),
        _ => Err(Malformed),
    }
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// struct ifinfomsg, IFLA_*.
fn link(body: &[u8]) -> Result<Option<Link>, Malformed> {
    const ADDRESS: u16 = 1;
    const NAME: u16 = 3;
    const MTU: u16 = 4;
    const LINK: u16 = 5;
    const MASTER: u16 = 10;
    const LINK_INFO: u16 = 18;
    const LINK_NAMESPACE: u16 = 37;
    const UP: u32 = 1;
    const LOWER_UP: u32 = 1 << 16;
    let (head, attributes) = split(body, 16)?;
    if head[0] != super::wire::AF_UNSPEC {
        return Ok(None); // a bridge's port, or IPv6 settings
    }
    let (index, flags) = (number(&head[4..])?, number(&head[8..])?);
    let (up, carrier) = (flags & UP != 0, flags & LOWER_UP != 0);
    let mut link = Link { index, up, carrier, ..Link::default() };
    let (mut below, mut vlan, mut master, mut belongs) = (None, None, None, (String::new(), None));
    let (mut elsewhere, mut is_mac_vlan) = (false, false);
    for attribute in attributes {
        match attribute? {
            (ADDRESS, value) => link.mac = mac(value),
            (NAME, value) => link.name = text(value),
            (MTU, value) => link.mtu = number(value)?,
            (LINK, value) => below = Some(number(value)?),
            (MASTER, value) => master = Some(number(value)?),
            (LINK_NAMESPACE, _) => elsewhere = true,
            (LINK_INFO, value) => {
                (vlan, link.vrf, belongs) = (vlan_of(value)?, vrf_of(value)?, belongs_to(value)?);
                is_mac_vlan = is_of_kind(value, "macvlan")?;
            }
            _ => {}
        }
    }
    // The number of one in another namespace means something else here.
    link.mac_vlan = below.filter(|_| is_mac_vlan && !elsewhere);
    link.vlan = below.zip(vlan).map(|(below, (id, service))| Vlan { below, id, service });
    let (kind, table) = belongs;
    link.master = master.filter(|index| *index != 0).map(|index| Master { index, kind, table });
    if link.name.is_empty() { Err(Malformed) } else { Ok(Some(link)) }
}

/// Whether IFLA_LINKINFO says that an interface is of this kind.
fn is_of_kind(info: &[u8], kind: &str) -> Result<bool, Malformed> {
    const KIND: u16 = 1;
    for attribute in Attributes(info) {
        if let (KIND, value) = attribute? {
            return Ok(text(value) == kind);
        }
    }
    Ok(false)
}

/// The VLAN in IFLA_LINKINFO, if that is what the interface is: its id, and whether its tags are those of 802.1ad.
fn vlan_of(info: &[u8]) -> Result<Option<(u16, bool)>, Malformed> {
    const KIND: u16 = 1;
    const DATA: u16 = 2;
    const VLAN_ID: u16 = 1;
    const VLAN_PROTOCOL: u16 = 5;
    const SERVICE: [u8; 2] = [0x88, 0xa8];
    let (mut is_vlan, mut id, mut service) = (false, None, false);
    for attribute in Attributes(info) {
        match attribute? {
            (KIND, value) => is_vlan = text(value) == "vlan",
            (DATA, value) => {
                for inner in Attributes(value) {
                    match inner? {
                        (VLAN_ID, value) => id = u16_at(value, 0),
                        (VLAN_PROTOCOL, value) => service = value == SERVICE,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(id.filter(|_| is_vlan).map(|id| (id, service)))
}

/// The table of a VRF, if IFLA_LINKINFO says that the interface is one.
fn vrf_of(info: &[u8]) -> Result<Option<u32>, Malformed> {
    const KIND: u16 = 1;
    const DATA: u16 = 2;
    const VRF_TABLE: u16 = 1;
    let (mut is_vrf, mut table) = (false, None);
    for attribute in Attributes(info) {
        match attribute? {
            (KIND, value) => is_vrf = text(value) == "vrf",
            (DATA, value) => {
                for inner in Attributes(value) {
                    if let (VRF_TABLE, value) = inner? {
                        table = u32_at(value, 0);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(table.filter(|_| is_vrf))
}

/// What IFLA_LINKINFO says of the interface that a link belongs to: its kind, and the table of a VRF.
fn belongs_to(info: &[u8]) -> Result<(String, Option<u32>), Malformed> {
    const KIND: u16 = 4;
    const DATA: u16 = 5;
    const VRF_TABLE: u16 = 1;
    let (mut of, mut table) = (String::new(), None);
    for attribute in Attributes(info) {
        match attribute? {
            (KIND, value) => of = text(value),
            (DATA, value) if of == "vrf" => {
                for inner in Attributes(value) {
                    if let (VRF_TABLE, value) = inner? {
                        table = Some(number(value)?);
                    }
                }
            }
            _ => {}
        }
    }
    Ok((of, table))
}

/// Whether an interface that is gone is in another namespace now (IFLA_NEW_NETNSID).
fn has_moved(body: &[u8]) -> bool {
    const NEW_NAMESPACE: u16 = 45;
    split(body, 16).is_ok_and(|(_, mut attributes)| attributes.any(|a| a.is_ok_and(|(kind, _)| kind == NEW_NAMESPACE)))
}

/// struct ifaddrmsg, IFA_*.
fn address(body: &[u8]) -> Result<Option<Address>, Malformed> {
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    const FLAGS: u16 = 8;
    const OPTIMISTIC: u32 = 0x04;
    const DAD_FAILED: u32 = 0x08;
    const DEPRECATED: u32 = 0x20;
    const TENTATIVE: u32 = 0x40;
    const NO_PREFIX_ROUTE: u32 = 0x200;
    let (head, attributes) = split(body, 8)?;
    let (family, length, link) = (head[0], head[1], number(&head[4..])?);
    if family != AF_INET && family != AF_INET6 {
        return Ok(None);
    }
    let (mut peer, mut local, mut flags) = (None, None, u32::from(head[2]));
    for attribute in attributes {
        match attribute? {
            (ADDRESS, value) => peer = Some(ip(family, value)?),
            (LOCAL, value) => local = Some(ip(family, value)?),
            (FLAGS, value) => flags = number(value)?,
            _ => {}
        }
    }
    let address = local.or(peer).ok_or(Malformed)?;
    let longest = Prefix::longest(address);
    // On a point-to-point link, the prefix is the peer's, and Linux makes a route for it.
    let alone = flags & NO_PREFIX_ROUTE != 0 || peer.is_some_and(|peer| peer != address);
    let prefix_len = if alone { longest } else { length };
    let with_prefix = InterfaceAddress::new(address, prefix_len).map_err(|_| Malformed)?;
    let network = Prefix::truncated(peer.unwrap_or(address), length).map_err(|_| Malformed)?;
    let attributes = AddressAttributes {
        scope: scope(family, head[3]),
        deprecated: flags & DEPRECATED != 0,
        toward: Some(network).filter(|network| *network != with_prefix.network()),
    };
    let tentative = flags & TENTATIVE != 0 && flags & OPTIMISTIC == 0;
    Ok(Some(Address { link, with_prefix, attributes, tentative, duplicate: flags & DAD_FAILED != 0 }))
}

/// RT_SCOPE_*. That of an IPv6 address only repeats what the address says.
fn scope(family: u8, scope: u8) -> AddressScope {
    const SITE: u8 = 200;
    const HOST: u8 = 254;
    match scope {
        _ if family != AF_INET => AddressScope::Global,
        ..SITE => AddressScope::Global,
        SITE..HOST => AddressScope::Link,
        HOST.. => AddressScope::Host,
    }
}

/// struct ndmsg, NDA_*.
fn neighbor(body: &[u8]) -> Result<Option<Neighbor>, Malformed> {
    const DESTINATION: u16 = 1;
    const LINK_ADDRESS: u16 = 2;
    const PROTOCOL: u16 = 12;
    const EXTERNAL: u8 = 0x10;
    const INCOMPLETE: u16 = 0x01;
    const REACHABLE: u16 = 0x02;
    const STALE: u16 = 0x04;
    const FAILED: u16 = 0x20;
    const NO_ARP: u16 = 0x40;
    const PERMANENT: u16 = 0x80;
    let (head, attributes) = split(body, 12)?;
    let (family, link, state) = (head[0], number(&head[4..])?, u16_at(head, 8).ok_or(Malformed)?);
    if family != AF_INET && family != AF_INET6 || head[10] & NEIGHBOR_PROXY != 0 {
        return Ok(None);
    }
    let (mut address, mut link_address, mut protocol) = (None, None, 0);
    for attribute in attributes {
        match attribute? {
            (DESTINATION, value) => address = Some(ip(family, value)?),
            (LINK_ADDRESS, value) => link_address = mac(value),
            (PROTOCOL, value) => protocol = value.first().copied().unwrap_or(0),
            _ => {}
        }
    }
    let usable = state & (INCOMPLETE | FAILED) == 0;
    Ok(Some(Neighbor {
        link,
        address: address.ok_or(Malformed)?,
        mac: link_address.filter(|_| usable),
        permanent: state & (PERMANENT | NO_ARP) != 0,
        reachable: state & REACHABLE != 0,
        stale: state & STALE != 0,
        failed: state & FAILED != 0,
        external: head[10] & EXTERNAL != 0,
        protocol,
    }))
}

/// struct nhmsg, NHA_*.
fn next_hop(body: &[u8]) -> Result<NextHop, Malformed> {
    const ID: u16 = 1;
    const GROUP: u16 = 2;
    const BLACKHOLE: u16 = 4;
    const LINK: u16 = 5;
    const GATEWAY: u16 = 6;
    const ENCAPSULATION: u16 = 8;
    const BRIDGE: u16 = 11;
    let (head, attributes) = split(body, 8)?;
    let (mut id, mut group, mut blackhole, mut other) = (None, None, false, false);
    let mut hop = Hop { link: 0, gateway: None, weight: 1 };
    for attribute in attributes {
        match attribute? {
            (ID, value) => id = Some(number(value)?),
            (GROUP, value) => group = Some(members(value)?),
            (BLACKHOLE, _) => blackhole = true,
            (LINK, value) => hop.link = number(value)?,
            (GATEWAY, value) => hop.gateway = Some(ip(head[0], value)?),
            (ENCAPSULATION | BRIDGE, _) => other = true,
            _ => {}
        }
    }
    let to = match group {
        _ if other => NextHopTo::Other,
        Some(group) => NextHopTo::Group(group),
        None if blackhole => NextHopTo::Blackhole,
        None => NextHopTo::Hop(hop),
    };
    Ok(NextHop { id: id.ok_or(Malformed)?, to })
}

/// An array of struct nexthop_grp: id, and weight minus one, of which Linux 6.12 has made a second byte.
fn members(value: &[u8]) -> Result<Box<[(u32, u16)]>, Malformed> {
    let (members, rest) = value.as_chunks::<8>();
    if !rest.is_empty() || members.is_empty() {
        return Err(Malformed);
    }
    let weight = |low: u8, high: u8| u16::from_le_bytes([low, high]).saturating_add(1);
    let member = |m: &[u8; 8]| (u32::from_ne_bytes([m[0], m[1], m[2], m[3]]), weight(m[4], m[5]));
    Ok(members.iter().map(member).collect())
}

/// struct rtmsg, RTA_*.
fn route(body: &[u8]) -> Result<Option<Route>, Malformed> {
    const DESTINATION: u16 = 1;
    const SOURCE: u16 = 2;
    const LINK: u16 = 4;
    const GATEWAY: u16 = 5;
    const PRIORITY: u16 = 6;
    const PREFERRED_SOURCE: u16 = 7;
    const METRICS: u16 = 8;
    const MULTIPATH: u16 = 9;
    const REALM: u16 = 11;
    const CACHE: u16 = 12;
    const TABLE: u16 = 15;
    const VIA: u16 = 18;
    const PREFERENCE: u16 = 20;
    const ENCAPSULATION_TYPE: u16 = 21;
    const ENCAPSULATION: u16 = 22;
    const EXPIRES: u16 = 23;
    const PAD: u16 = 24;
    const NEXT_HOP: u16 = 30;
    const CLONED: u32 = 0x200;
    let (head, attributes) = split(body, 12)?;
    let (family, length, source_length, tos) = (head[0], head[1], head[2], head[3]);
    if family != AF_INET && family != AF_INET6 || number(&head[8..])? & CLONED != 0 {
        return Ok(None);
    }
    let kind = route_kind(head[7]);
    let mut destination =
        if family == AF_INET { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let (mut table, mut metric, mut next_hop, mut encapsulated) = (u32::from(head[4]), 0, 0, false);
    let (mut hop, mut several) = (Hop { link: 0, gateway: None, weight: 1 }, Hops::None);
    let (mut mtu, mut unknown, mut source) = (0, None, None);
    for attribute in attributes {
        match attribute? {
            (DESTINATION, value) => destination = ip(family, value)?,
            (LINK, value) => hop.link = number(value)?,
            (GATEWAY, value) => hop.gateway = Some(ip(family, value)?),
            (VIA, value) => hop.gateway = Some(via(value)?),
            (PRIORITY, value) => metric = number(value)?,
            (TABLE, value) => table = number(value)?,
            (MULTIPATH, value) => (several, encapsulated) = multipath(family, value)?,
            (ENCAPSULATION, _) => encapsulated = true,
            (NEXT_HOP, value) => next_hop = number(value)?,
            (METRICS, value) => mtu = mtu_of(value)?,
            // What does not change where packets go: for packets of this machine itself, for traffic classes, for
            // display.
            (SOURCE, value) => source = Some(ip(family, value)?),
            (PREFERRED_SOURCE | REALM | CACHE | PREFERENCE | ENCAPSULATION_TYPE | EXPIRES | PAD, _) => {}
            (other, _) => unknown = unknown.or(Some(other)),
        }
    }
    let prefix = Prefix::truncated(destination, length).map_err(|_| Malformed)?;
    let hops = match several {
        Hops::None if hop.link == 0 && hop.gateway.is_none() => Hops::None,
        Hops::None => Hops::One(hop),
        several => several,
    };
    let protocol = head[5];
    let (appended, replaces) = (false, false);
    let source = match (source, source_length) {
        (_, 0) => None,
        (Some(source), length) => Some(Prefix::truncated(source, length).map_err(|_| Malformed)?),
        (None, _) => return Err(Malformed),
    };
    Ok(Some(Route {
        prefix,
        table,
        protocol,
        kind,
        tos,
        source,
        metric,
        hops,
        next_hop,
        appended,
        replaces,
        encapsulated,
        mtu,
        unknown,
    }))
}

/// The MTU in RTA_METRICS, locked or not; 0 if it has none.
fn mtu_of(metrics: &[u8]) -> Result<u32, Malformed> {
    const MTU: u16 = 2;
    let mut mtu = 0;
    for attribute in Attributes(metrics) {
        if let (MTU, value) = attribute? {
            mtu = number(value)?;
        }
    }
    Ok(mtu)
}

fn route_kind(kind: u8) -> RouteKind {
    match kind {
        1 => RouteKind::Unicast,
        2 => RouteKind::Local,
        3 => RouteKind::Broadcast,
        4 => RouteKind::Anycast,
        5 => RouteKind::Multicast,
        6 => RouteKind::Blackhole,
        7 => RouteKind::Unreachable,
        8 => RouteKind::Prohibit,
        _ => RouteKind::Other,
    }
}

/// struct rtvia: a gateway of either family.
fn via(value: &[u8]) -> Result<IpAddr, Malformed> {
    let family = u16_at(value, 0).ok_or(Malformed)?;
    ip(u8::try_from(family).map_err(|_| Malformed)?, &value[2..])
}

/// An array of struct rtnexthop, each with attributes; also returns whether any of them encapsulates.
fn multipath(family: u8, mut value: &[u8]) -> Result<(Hops, bool), Malformed> {
    const GATEWAY: u16 = 5;
    const VIA: u16 = 18;
    const ENCAPSULATION: u16 = 22;
    let (mut hops, mut encapsulated) = (Vec::new(), false);
    while value.len() >= 8 {
        let length = usize::from(u16_at(value, 0).ok_or(Malformed)?);
        if length < 8 || length > value.len() {
            return Err(Malformed);
        }
        let mut hop = Hop { link: number(&value[4..])?, gateway: None, weight: u16::from(value[3]) + 1 };
        for attribute in Attributes(&value[8..length]) {
            match attribute? {
                (GATEWAY, value) => hop.gateway = Some(ip(family, value)?),
                (VIA, value) => hop.gateway = Some(via(value)?),
                (ENCAPSULATION, _) => encapsulated = true,
                _ => {}
            }
        }
        hops.push(hop);
        value = value.get((length + 3) & !3..).unwrap_or_default();
    }
    if hops.is_empty() { Err(Malformed) } else { Ok((hops.into(), encapsulated)) }
}
