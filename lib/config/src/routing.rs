// SPDX-License-Identifier: MIT
//! `[[route]]`, `[[neighbor]]`, and which interface an address is on.

use std::collections::HashSet;
use std::net::IpAddr;

use perigee_net::{InterfaceId, Member, Multipath, Prefix, PrefixError, Route, RouteSource, RouteTarget};

use super::model::{Interface, Neighbor};
use super::ports::station;
use super::reader::{At, Parsed, Section, Span};

/// The networks the router is connected to.
pub(super) struct Networks<'c> {
    interfaces: &'c [Interface],
    /// Whether every interface was read; if not, an address on none of them is no mistake.
    sure: bool,
}

impl<'c> Networks<'c> {
    pub fn new(interfaces: &'c [Interface], sure: bool) -> Self {
        Self { interfaces, sure }
    }

    /// The index of the interface `name`; the error is what was expected.
    pub fn named(&self, name: &str) -> Result<InterfaceId, String> {
        match self.interfaces.iter().position(|i| i.name == name) {
            Some(at) => Ok(InterfaceId(at as u16)),
            // The first interface stands in; the mistakes before keep the configuration from use.
            None if !self.sure => Ok(InterfaceId(0)),
            None => {
                let names: Vec<_> = self.interfaces.iter().take(8).map(|i| i.name.as_str()).collect();
                Err(format!("one of {}", names.join(", ")))
            }
        }
    }

    /// The interface through which `address` is reached without a router between: `device`, or the one with the
    /// longest prefix that covers it. The error is the rest of the sentence "found ADDRESS".
    pub fn reach(&self, address: IpAddr, device: Option<InterfaceId>) -> Result<InterfaceId, String> {
        if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            return Err(", expected the address of a neighbor".into());
        }
        let of_device = |index: &usize| device.is_none_or(|d| d.index() == *index);
        let mut best: Option<(u8, InterfaceId)> = None;
        for (index, interface) in self.interfaces.iter().enumerate().filter(|(i, _)| of_device(i)) {
            for net in &interface.addresses {
                if net.address == address {
                    return Err(format!(", an address of `{}` itself, expected that of a neighbor", interface.name));
                }
                let longer = best.is_none_or(|(length, _)| net.prefix_len > length);
                if longer && net.covers(address) {
                    best = Some((net.prefix_len, InterfaceId(index as u16)));
                }
            }
        }
        match (best, device) {
            (Some((_, index)), _) => Ok(index),
            (None, Some(index)) if is_link_local(address) => Ok(index),
            (None, None) if is_link_local(address) => {
                Err(" without `dev`, expected `dev`: each interface has a network of link-local addresses".into())
            }
            (None, device) if !self.sure => Ok(device.unwrap_or(InterfaceId(0))),
            (None, device) => Err(self.nowhere(device)),
        }
    }

    fn nowhere(&self, device: Option<InterfaceId>) -> String {
        let chosen = self.interfaces.iter().enumerate().filter(|(i, _)| device.is_none_or(|d| d.index() == *i));
        let networks: Vec<String> = chosen
            .flat_map(|(_, i)| i.addresses.iter().map(move |net| format!("{} ({})", net.network(), i.name)))
            .take(6)
            .collect();
        let place = match device {
            Some(index) => format!("`{}`", self.interfaces[index.index()].name),
            None => "any interface".into(),
        };
        match networks.is_empty() {
            true => format!(", which is in no network of {place}, expected {place} to have an address"),
            false => {
                format!(", which is in no network of {place}, expected an address within {}", networks.join(" or "))
            }
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// A prefix without bits beyond its length.
pub(super) fn a_prefix(text: &str) -> Parsed<Prefix> {
    text.parse().map_err(|error| match error {
        PrefixError::HostBits { len, expected, .. } => format!("it has bits beyond its length; {expected}/{len}?"),
        _ if text.parse::<IpAddr>().is_ok() => "it has no length".into(),
        _ => String::new(),
    })
}

fn an_address(text: &str) -> Parsed<IpAddr> {
    text.parse().map_err(|_| String::new())
}

/// `dev`, resolved.
pub(super) fn read_device(s: &mut Section, networks: &Networks) -> Option<At<InterfaceId>> {
    let name = s.text("dev", "the name of an interface", |text| Ok(text.to_owned()))?;
    match networks.named(&name.value) {
        Ok(value) => Some(At { value, span: name.span }),
        Err(expected) => {
            s.mistakes().add(&name.span, format!("found the interface {:?}, expected {expected}", name.value));
            None
        }
    }
}

pub(super) fn read_routes(root: &mut Section, networks: &Networks) -> Vec<(Prefix, Route)> {
    let mut seen = HashSet::new();
    let mut routes = Vec::new();
    for mut section in root.tables("route") {
        let expected = "a prefix, such as \"10.0.0.0/8\"";
        let prefix = section.text("prefix", expected, a_prefix);
        let prefix = section.require("prefix", expected, prefix);
        let to = read_target(&mut section, prefix.as_ref(), networks);
        let metric = section.integer("metric", "a metric", 0..=i64::from(u32::MAX)).map_or(0, |m| m.value);
        let preference = section
            .integer("preference", "a preference", 0..=255)
            .map_or(RouteSource::Static.preference(), |p| p.value);
        if let (Some(prefix), Some(to)) = (prefix, to) {
            if !seen.insert((prefix.value, preference, metric)) {
                section.mistakes().add(
                    &prefix.span,
                    format!(
                        "found a second route to {} with the metric {metric}, expected another metric",
                        prefix.value
                    ),
                );
            }
            routes.push((prefix.value, Route { source: RouteSource::Static, preference, metric, target: to }));
        }
        section.finish();
    }
    routes
}

/// `via`, or exactly one of the flags.
fn read_target(s: &mut Section, prefix: Option<&At<Prefix>>, networks: &Networks) -> Option<RouteTarget> {
    let fate = read_fate(s)?;
    if fate.is_some() {
        return fate;
    }
    let Some(count) = s.elements("via") else {
        return read_gateway(s, "via", prefix, networks).and_then(to_one);
    };
    let (span, sections) = (s.place("via")?, s.tables("via"));
    let mut gateways = Vec::new();
    for mut section in sections {
        let gateway = read_gateway(&mut section, "address", prefix, networks);
        let weight = section
            .integer("weight", "a weight", 1..=i64::from(Multipath::MAX_WEIGHT))
            .map_or(1, |weight| weight.value);
        section.finish();
        gateways.extend(gateway.map(|gateway| Member { weight, ..gateway }));
    }
    for (key, at) in ["dev", "recursive"].into_iter().filter_map(|key| Some((key, s.place(key)?))) {
        s.mistakes().add(&at, format!("found `{key}` beside several gateways, expected it with each of them"));
    }
    const MOST: usize = Multipath::MAX_MEMBERS;
    if count == 0 || count > MOST {
        s.mistakes().add(&span, format!("found a route with {count} gateways, expected 1 to {MOST}"));
    }
    match gateways[..] {
        _ if gateways.len() != count || count > MOST => None,
        [] => None,
        [one] => to_one(one),
        _ => Multipath::new(&gateways).ok().map(RouteTarget::Multipath),
    }
}

/// A route's only gateway: its weight means nothing.
pub(super) fn to_one(gateway: Member) -> Option<RouteTarget> {
    Some(RouteTarget::Gateway { address: gateway.address?, interface: gateway.interface })
}

/// One of the flags, if any is set; `None` after a mistake.
fn read_fate(s: &mut Section) -> Option<Option<RouteTarget>> {
    // Whatever comes of it, only what is unknown is to be called so.
    ["via", "dev", "recursive"].into_iter().for_each(|key| s.know(key));
    let flags = [
        ("blackhole", RouteTarget::Blackhole),
        ("unreachable", RouteTarget::Unreachable),
        ("prohibit", RouteTarget::Prohibit),
    ];
    let mut targets = Vec::new();
    for (key, to) in flags {
        if let Some(At { value: true, span }) = s.boolean(key) {
            targets.push((span, to));
        }
    }
    if let (Some(_), Some((span, _))) = (s.place("via"), targets.first()) {
        s.mistakes().add(span, "found a route that is both sent on and dropped, expected `via` or this, not both");
        return None;
    }
    match &targets[..] {
        [] => Some(None),
        [(_, to)] => Some(Some(to.clone())),
        [_, (span, _), ..] => {
            s.mistakes().add(span, "found a second fate for this route, expected one");
            None
        }
    }
}

/// A gateway's address under `key`, with `dev` or `recursive`.
fn read_gateway(
    s: &mut Section,
    key: &'static str,
    prefix: Option<&At<Prefix>>,
    networks: &Networks,
) -> Option<Member> {
    let via = s.text(key, "an IPv4 or IPv6 address", an_address);
    let has_device = s.place("dev");
    let device = read_device(s, networks);
    let recursive = s.boolean("recursive").filter(|recursive| recursive.value);
    let expected = match key {
        "via" => "`via = \"ADDRESS\"`, or blackhole, unreachable or prohibit = true",
        _ => "the gateway's address",
    };
    let via = s.require(key, expected, via)?;
    if let Some(prefix) = prefix
        && prefix.value.addr().is_ipv4() != via.value.is_ipv4()
    {
        let message = format!("found {}, expected an address of the family of {}", via.value, prefix.value);
        s.mistakes().add(&via.span, message);
        return None;
    }
    if has_device.is_some() && device.is_none() {
        return None;
    }
    if let Some(recursive) = recursive {
        return a_far_gateway(s, &via, &recursive.span, has_device);
    }
    match networks.reach(via.value, device.map(|d| d.value)) {
        Ok(interface) => Some(Member { address: Some(via.value), interface: Some(interface), weight: 1 }),
        Err(rest) => {
            s.mistakes().add(&via.span, format!("found {}{rest}", via.value));
            None
        }
    }
}

/// A gateway that is reached over other routes: in whatever network it is, but on no interface.
fn a_far_gateway(s: &Section, via: &At<IpAddr>, recursive: &Span, device: Option<Span>) -> Option<Member> {
    if device.is_some() {
        s.mistakes().add(recursive, "found `recursive` beside `dev`, expected one of them");
        return None;
    }
    match far(via.value) {
        Ok(address) => Some(Member { address: Some(address), interface: None, weight: 1 }),
        Err(rest) => {
            s.mistakes().add(&via.span, format!("found {}{rest}", via.value));
            None
        }
    }
}

/// The address, if a route can lead to it; the error is the rest of the sentence "found ADDRESS".
pub(super) fn far(address: IpAddr) -> Result<IpAddr, String> {
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() || is_link_local(address) {
        return Err(", expected the address of a router that other routes lead to".into());
    }
    Ok(address)
}

pub(super) fn read_neighbors(root: &mut Section, networks: &Networks) -> Vec<Neighbor> {
    let mut seen = HashSet::new();
    let mut neighbors = Vec::new();
    for mut section in root.tables("neighbor") {
        let expected = "an IPv4 or IPv6 address";
        let address = section.text("address", expected, an_address);
        let address = section.require("address", expected, address);
        let expected = "the MAC address of one station, such as \"02:00:00:00:00:01\"";
        let mac = section.text("mac", expected, station);
        let mac = section.require("mac", expected, mac);
        let has_device = section.place("dev").is_some();
        let device = read_device(&mut section, networks);
        if let (Some(address), Some(mac)) = (address, mac)
            && (device.is_some() || !has_device)
        {
            match networks.reach(address.value, device.map(|d| d.value)) {
                Err(rest) => section.mistakes().add(&address.span, format!("found {}{rest}", address.value)),
                Ok(interface) if !seen.insert((address.value, interface)) => section.mistakes().add(
                    &address.span,
                    format!("found the neighbor {} a second time, expected it once", address.value),
                ),
                Ok(interface) => neighbors.push(Neighbor { address: address.value, mac: mac.value, interface }),
            }
        }
        section.finish();
    }
    neighbors
}
