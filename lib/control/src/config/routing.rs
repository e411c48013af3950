// SPDX-License-Identifier: MIT
//! `[[route]]`, `[[neighbor]]`, and which interface an address is on.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::model::{Interface, Neighbor, Route, RouteTo};
use super::ports::station;
use super::reader::{At, Parsed, Section, unfit};

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
    pub fn named(&self, name: &str) -> Result<u16, String> {
        match self.interfaces.iter().position(|i| i.name == name) {
            Some(at) => Ok(at as u16),
            // The first interface stands in; the mistakes before keep the configuration from use.
            None if !self.sure => Ok(0),
            None => {
                let names: Vec<_> = self.interfaces.iter().take(8).map(|i| i.name.as_str()).collect();
                Err(format!("one of {}", names.join(", ")))
            }
        }
    }

    /// The interface through which `address` is reached without a router between: `device`, or the one with the
    /// longest prefix that covers it. The error is the rest of the sentence "found ADDRESS".
    pub fn reach(&self, address: IpAddr, device: Option<u16>) -> Result<u16, String> {
        if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            return Err(", expected the address of a neighbor".into());
        }
        let of_device = |index: &usize| device.is_none_or(|d| usize::from(d) == *index);
        let mut best: Option<(u8, u16)> = None;
        for (index, interface) in self.interfaces.iter().enumerate().filter(|(i, _)| of_device(i)) {
            for net in &interface.addresses {
                if net.addr() == address {
                    return Err(format!(", an address of `{}` itself, expected that of a neighbor", interface.name));
                }
                let longer = best.is_none_or(|(length, _)| net.prefix_len() > length);
                if longer && net.contains(&address) {
                    best = Some((net.prefix_len(), index as u16));
                }
            }
        }
        match (best, device) {
            (Some((_, index)), _) => Ok(index),
            (None, Some(index)) if is_link_local(address) => Ok(index),
            (None, None) if is_link_local(address) => {
                Err(" without `dev`, expected `dev`: each interface has a network of link-local addresses".into())
            }
            (None, device) if !self.sure => Ok(device.unwrap_or(0)),
            (None, device) => Err(self.nowhere(device)),
        }
    }

    fn nowhere(&self, device: Option<u16>) -> String {
        let chosen = self.interfaces.iter().enumerate().filter(|(i, _)| device.is_none_or(|d| usize::from(d) == *i));
        let networks: Vec<String> = chosen
            .flat_map(|(_, i)| i.addresses.iter().map(move |net| format!("{} ({})", net.trunc(), i.name)))
            .take(6)
            .collect();
        let place = match device {
            Some(index) => format!("`{}`", self.interfaces[usize::from(index)].name),
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
pub(super) fn a_prefix(text: &str) -> Parsed<IpNet> {
    let net: IpNet = match text.parse() {
        Ok(net) => net,
        Err(_) if text.parse::<IpAddr>().is_ok() => return Err("it has no length".into()),
        Err(_) => return unfit(),
    };
    match net.trunc() {
        trunc if trunc == net => Ok(net),
        trunc => Err(format!("it has bits beyond its length; {trunc}?")),
    }
}

fn an_address(text: &str) -> Parsed<IpAddr> {
    text.parse().map_err(|_| String::new())
}

/// `dev`, resolved.
pub(super) fn read_device(s: &mut Section, networks: &Networks) -> Option<At<u16>> {
    let name = s.text("dev", "the name of an interface", |text| Ok(text.to_owned()))?;
    match networks.named(&name.value) {
        Ok(value) => Some(At { value, span: name.span }),
        Err(expected) => {
            s.mistakes().add(&name.span, format!("found the interface {:?}, expected {expected}", name.value));
            None
        }
    }
}

pub(super) fn read_routes(root: &mut Section, networks: &Networks) -> Vec<Route> {
    let mut seen = HashSet::new();
    let mut routes = Vec::new();
    for mut section in root.tables("route") {
        let expected = "a prefix, such as \"10.0.0.0/8\"";
        let prefix = section.text("prefix", expected, a_prefix);
        let prefix = section.require("prefix", expected, prefix);
        let to = read_target(&mut section, prefix.as_ref(), networks);
        let metric = section.integer("metric", "a metric", 0..=i64::from(u32::MAX)).map_or(0, |m| m.value);
        if let (Some(prefix), Some(to)) = (prefix, to) {
            if !seen.insert((prefix.value, metric)) {
                section.mistakes().add(
                    &prefix.span,
                    format!(
                        "found a second route to {} with the metric {metric}, expected another metric",
                        prefix.value
                    ),
                );
            }
            routes.push(Route { prefix: prefix.value, to, metric });
        }
        section.finish();
    }
    routes
}

/// `via` with `dev`, or exactly one of the flags.
fn read_target(s: &mut Section, prefix: Option<&At<IpNet>>, networks: &Networks) -> Option<RouteTo> {
    let via = s.text("via", "an IPv4 or IPv6 address", an_address);
    let has_device = s.place("dev");
    let device = read_device(s, networks);
    let flags =
        [("blackhole", RouteTo::Blackhole), ("unreachable", RouteTo::Unreachable), ("prohibit", RouteTo::Prohibit)];
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
        [] => {}
        [(_, to)] => return Some(*to),
        [_, (span, _), ..] => {
            s.mistakes().add(span, "found a second fate for this route, expected one");
            return None;
        }
    }
    let via = s.require("via", "`via = \"ADDRESS\"`, or blackhole, unreachable or prohibit = true", via)?;
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
    match networks.reach(via.value, device.map(|d| d.value)) {
        Ok(interface) => Some(RouteTo::Via { address: via.value, interface }),
        Err(rest) => {
            s.mistakes().add(&via.span, format!("found {}{rest}", via.value));
            None
        }
    }
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
