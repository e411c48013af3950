// SPDX-License-Identifier: MIT
//! Which interface an address is on, by its networks or by `dev`.

use std::net::IpAddr;

use perigee_net::{InterfaceAddress, InterfaceId, Prefix, PrefixError, is_link_local};

use super::given::{At, Parsed};
use super::interfaces::Interface;
use super::kind::{Kind, text};
use super::reader::Section;

/// The networks the router is connected to.
pub(crate) struct Networks<'c> {
    interfaces: &'c [Interface],
    /// Whether every interface was read; if not, an address on none of them is not a mistake.
    sure: bool,
}

impl<'c> Networks<'c> {
    pub fn new(interfaces: &'c [Interface], sure: bool) -> Self {
        Self { interfaces, sure }
    }

    /// Whether every interface was read.
    pub fn is_sure(&self) -> bool {
        self.sure
    }

    /// The index of the interface `name`; the error is what was expected.
    pub fn named(&self, name: &str) -> Result<InterfaceId, String> {
        match self.interfaces.iter().position(|i| i.name == name) {
            Some(at) => Ok(InterfaceId(at as u16)),
            // The first interface is a placeholder: because of earlier mistakes the configuration is not used.
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
        let mut best: Option<(InterfaceAddress, InterfaceId)> = None;
        for (index, interface) in self.interfaces.iter().enumerate().filter(|(i, _)| of_device(i)) {
            for net in &interface.addresses {
                if net.address == address {
                    return Err(format!(", an address of `{}` itself, expected that of a neighbor", interface.name));
                }
                let longer = best.is_none_or(|(other, _)| net.prefix_len > other.prefix_len);
                if longer && net.covers(address) {
                    best = Some((*net, InterfaceId(index as u16)));
                }
            }
        }
        match (best, device) {
            // The network's address is one, too, historically.
            (Some((net, _)), _) if net.broadcasts().any(|broadcast| broadcast == address) => {
                Err(format!(", a broadcast address of {}, expected the address of a neighbor", net.network()))
            }
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

/// A prefix without bits beyond its length.
pub(crate) fn a_prefix(text: &str) -> Parsed<Prefix> {
    text.parse().map_err(|error| match error {
        PrefixError::HostBits { len, expected, .. } => format!("it has bits beyond its length; {expected}/{len}?"),
        _ if text.parse::<IpAddr>().is_ok() => "it has no length".into(),
        _ => String::new(),
    })
}

/// The address, if other routes can lead to it; the error is the rest of the sentence "found ADDRESS".
pub(crate) fn far(address: IpAddr) -> Result<IpAddr, String> {
    let reserved = matches!(address, IpAddr::V4(v4) if v4.octets()[0] >= 240);
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() || is_link_local(address) || reserved
    {
        return Err(", expected the address of a router that other routes lead to".into());
    }
    Ok(address)
}

/// `dev`, by name.
pub(crate) fn device() -> Kind<'static, String> {
    text("the name of an interface", |text| Ok(text.to_owned()))
}

/// The interface that `dev` names, or a mistake.
pub(crate) fn resolve(device: &At<String>, s: &Section, networks: &Networks) -> Option<InterfaceId> {
    match networks.named(&device.value) {
        Ok(index) => Some(index),
        Err(expected) => {
            s.mistakes().add(&device.span, format!("found the interface {:?}, expected {expected}", device.value));
            None
        }
    }
}
