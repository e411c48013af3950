// SPDX-License-Identifier: MIT
//! `[[multicast]]`: routes of groups. And what of multicast may pass an interface: keys of ports and VLANs.

use std::collections::HashSet;
use std::net::IpAddr;

use perigee_net::{
    InterfaceId, MulticastLimits, MulticastOutput, MulticastRoute, Prefix, is_forwarded_group, is_link_local,
};

use super::given::{At, Parsed};
use super::interfaces::Interface;
use super::kind::{at, integer, list, optional, required, text};
use super::networks::{Networks, a_prefix, device, resolve};
use super::reader::Section;
use super::section::{Context, section};

section! {
    /// A static route of a multicast group: packets to the group that come in on one interface leave by others. Routing daemons of
    /// Linux make such routes, too; those given here take precedence.
    pub(crate) struct MulticastKeys(context) keys {
        /// The group. Packets to 224.0.0.0/24, and to IPv6 groups of link-local or smaller scope, are never forwarded.
        group: Option<At<IpAddr>>, required(at(text("a multicast group that reaches beyond its link", a_group))),
            default None => "required", live;
        /// The source whose packets take the route.
        source: Option<At<IpAddr>>, optional(at(text("the address of a host", a_source))),
            default None => "any that has no route of its own", live;
        /// The interface that packets have to come in on; those that come in elsewhere are dropped.
        from: Option<At<String>>, optional(at(device())),
            default None => "the one by which the unicast route leads to the source", live;
        /// The interfaces by which packets leave: a copy by each, but none by where it came in.
        to: Option<Vec<At<String>>>, required(list(at(device()))), default None => "required", live;
    }
}

section! {
    /// What of multicast may pass an interface.
    pub(crate) struct LimitKeys(context) keys {
        /// Packets to groups leave by the interface only if their TTL or hop limit was greater than this when they came in.
        multicast_ttl: u8, integer("a TTL", 1..=255), default 1, live;
        /// Packets to these groups pass the interface in neither direction, whatever the routes (administrative scopes, RFC 2365).
        multicast_boundary: Vec<Prefix>, list(text("a prefix of groups, such as \"239.0.0.0/8\"", a_prefix_of_groups)),
            default Vec::new(), live;
    }
}

fn a_group(text: &str) -> Parsed<IpAddr> {
    let address: IpAddr = text.parse().map_err(|_| String::new())?;
    match address {
        _ if is_forwarded_group(address) => Ok(address),
        _ if address.is_multicast() => Err("packets to it are never forwarded".into()),
        _ => Err(String::new()),
    }
}

fn a_source(text: &str) -> Parsed<IpAddr> {
    let address: IpAddr = text.parse().map_err(|_| String::new())?;
    let local = is_link_local(address) || matches!(address, IpAddr::V4(v4) if v4.is_link_local());
    match address {
        _ if local => Err("packets from it are never forwarded".into()),
        _ if address.is_unspecified() || address.is_multicast() || address.is_loopback() => Err(String::new()),
        _ => Ok(address),
    }
}

fn a_prefix_of_groups(text: &str) -> Parsed<Prefix> {
    let prefix = a_prefix(text)?;
    let inside = if prefix.addr().is_ipv4() { prefix.len() >= 4 } else { prefix.len() >= 8 };
    if inside && prefix.addr().is_multicast() { Ok(prefix) } else { Err("it is not of multicast groups".into()) }
}

impl MulticastKeys {
    /// The keys that describe `route`.
    pub fn of(route: &MulticastRoute, interfaces: &[Interface]) -> Self {
        let name = |id: InterfaceId| At::nowhere(interfaces[id.index()].name.clone());
        Self {
            group: Some(At::nowhere(route.group)),
            source: route.source.map(At::nowhere),
            from: route.from.map(name),
            to: Some(route.to.iter().map(|output| name(output.interface)).collect()),
        }
    }

    /// The route, if interfaces and families fit.
    fn resolve(self, s: &Section, networks: &Networks) -> Option<MulticastRoute> {
        let (group, to) = (self.group?, self.to?);
        let mistakes = s.mistakes();
        if let Some(source) = &self.source
            && source.value.is_ipv4() != group.value.is_ipv4()
        {
            let message = format!("found {}, expected an address of the family of {}", source.value, group.value);
            mistakes.add(&source.span, message);
        }
        let from = self.from.map(|from| resolve(&from, s, networks));
        let mut outputs: Vec<MulticastOutput> = Vec::new();
        for name in to {
            let Some(interface) = resolve(&name, s, networks) else { continue };
            if from == Some(Some(interface)) {
                let message = format!("found {:?}, where packets come in, expected other interfaces", name.value);
                mistakes.add(&name.span, message);
            } else if outputs.iter().any(|output| output.interface == interface) && networks.is_sure() {
                mistakes.add(&name.span, format!("found {:?} a second time, expected it once", name.value));
            }
            outputs.push(MulticastOutput { interface, ttl: 1 });
        }
        let source = self.source.map(|source| source.value);
        Some(MulticastRoute { group: group.value, source, from: from.flatten(), to: outputs })
    }
}

impl LimitKeys {
    /// The keys that describe `limits`.
    pub fn of(limits: &MulticastLimits) -> Self {
        Self { multicast_ttl: limits.ttl, multicast_boundary: limits.boundary.clone() }
    }

    /// What they say.
    pub fn limits(self) -> MulticastLimits {
        MulticastLimits { ttl: self.multicast_ttl, boundary: self.multicast_boundary }
    }
}

pub(crate) fn read_multicast(root: &mut Section, context: &Context, networks: &Networks) -> Vec<MulticastRoute> {
    let mut seen = HashSet::new();
    let mut routes = Vec::new();
    for mut section in root.tables("multicast") {
        let keys = MulticastKeys::read(&mut section, context);
        let place = section.place("group").unwrap_or(section.span.clone());
        if let Some(route) = keys.resolve(&section, networks) {
            if !seen.insert((route.group, route.source)) {
                let message = format!("found a second route of {} from the same source, expected one", route.group);
                section.mistakes().add(&place, message);
            }
            routes.push(route);
        }
        section.finish();
    }
    routes
}
