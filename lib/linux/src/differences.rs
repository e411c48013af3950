// SPDX-License-Identifier: MIT
//! Where the router does not do what Linux's interfaces say. Each difference is one sentence: it is logged when it
//! appears and when it is over, and `perigee show linux` has those there are.

use crate::follower::{Follower, Known};
use crate::links::has_other_mac;
use crate::{Port, Table};
use perigee_config::UnknownRoutes;
use perigee_net::{Interface, InterfaceAddress, Prefix, ReversePath};
use perigee_netlink::message::{Master, NetworkSettings};
use std::collections::BTreeSet;
use std::net::IpAddr;

impl Follower {
    /// Compares the router's interfaces with Linux's, and logs what is new.
    pub(crate) fn look_for_differences(&mut self, table: &dyn Table) {
        let mut found = BTreeSet::new();
        for (index, id) in &self.by_link {
            let (Some(known), Some(interface)) = (self.links.get(index), table.interfaces().get(*id)) else { continue };
            let mut say = |sentence: Option<String>| found.extend(sentence.map(|sentence| (*index, sentence)));
            if let Some(port) = self.setup.ports.iter().find(|port| port.number == interface.port) {
                say(self.other_mac(known, port));
            }
            if let Some(master) = &known.link.master {
                say(self.belongs_to_another(known, master));
            }
            say(self.other_reverse_path(known, interface));
            say(self.other_broadcasts(known, interface));
            say(self.forwards_all_the_same(known));
        }
        for (index, _, missing) in self.missing_addresses() {
            found.extend(missing.into_iter().map(|address| (index, self.missing_address(index, address))));
        }
        let is_off = |v6: &bool| match self.is_linuxs() {
            true => self.network_settings(*v6, NetworkSettings::ALL).forwarding == Some(false),
            false => self.settings.forwarding_off.contains(v6),
        };
        let is_linuxs = self.is_linuxs();
        found.extend([false, true].iter().filter(|v6| is_off(v6)).map(|v6| (0, forwarding_off(*v6, is_linuxs))));
        found.extend([false, true].into_iter().filter_map(|v6| Some((0, self.does_not_forward(v6)?))));
        for (index, known) in &self.links {
            found.extend(self.group_neighbors_on(*index, known).map(|sentence| (*index, sentence)));
        }
        let before = std::mem::replace(&mut self.differences, found);
        for (_, sentence) in self.differences.difference(&before) {
            tracing::warn!("{sentence}");
        }
        for (_, sentence) in before.difference(&self.differences) {
            tracing::info!("this is over: {sentence}");
        }
    }

    fn missing_address(&self, link: u32, address: InterfaceAddress) -> String {
        let name = self.links.get(&link).map_or("a twin", |known| known.link.name.as_str());
        format!(
            "{name} lacks the address {address} in Linux, which the configuration gives it: `perigee reload` or `perigee audit --repair` puts \
             it back"
        )
    }

    fn other_mac(&self, known: &Known, port: &Port) -> Option<String> {
        let (name, found, mac) = (&known.link.name, known.link.mac.filter(|_| has_other_mac(known, port))?, port.mac);
        Some(match known.link.vlan {
            _ if self.is_linuxs() => format!(
                "{name} has the MAC address {found}, and its port {mac}: Linux alone forwards what is sent to the former"
            ),
            None if self.setup.helper => {
                format!(
                    "the twin {name} was given the MAC address {found}, and its port receives by {mac} alone: it gets that back"
                )
            }
            _ => format!(
                "{name} has the MAC address {found}, and its port receives by {mac} alone: hosts that learn the former from Linux do not \
                 reach the router; `ip link set {name} address {mac}` changes it back"
            ),
        })
    }

    /// What it means that a twin belongs to a bridge, a bond or a VRF.
    fn belongs_to_another(&self, known: &Known, master: &Master) -> Option<String> {
        let name = &known.link.name;
        let of = self.links.get(&master.index).map_or_else(|| master.index.to_string(), |of| of.link.name.clone());
        if master.kind != "vrf" {
            let kind = if master.kind.is_empty() { "interface" } else { &master.kind };
            return Some(format!(
                "{name} belongs to the {kind} {of} of Linux: what the router hands to Linux goes there, and the router itself forwards as \
                 before; `ip link set {name} nomaster` takes it out"
            ));
        }
        let followed = master.table.is_none_or(|table| self.policy.follows(table));
        if !followed {
            let table = master.table.unwrap_or_default();
            return Some(format!(
                "{name} is in the VRF {of}, whose table {table} is not followed: `tables` in [linux] names the tables whose routes the \
                 router takes"
            ));
        }
        let apart = self.by_link.keys().filter_map(|link| self.links.get(link));
        let apart =
            apart.filter(|other| other.link.vlan.is_none()).any(|other| other.link.master.as_ref() != Some(master));
        apart.then(|| {
            format!(
                "{name} is in the VRF {of} and other interfaces of the router are not: it has one table for all of them, and keeps no \
                 VRFs apart"
            )
        })
    }

    /// Linux would check the sources of packets, and the router does not. The setting of all interfaces does not count, as
    /// distributions set it, unless it was Linux that has checked them until now.
    fn other_reverse_path(&self, known: &Known, interface: &Interface) -> Option<String> {
        let name = &known.link.name;
        let of_all = self.network_settings(false, NetworkSettings::ALL).reverse_path.filter(|_| self.is_linuxs());
        let (value, mode) = match self.settings_of(known).reverse_path.max(of_all)? {
            1 => (1, "strict"),
            2 => (2, "loose"),
            _ => return None,
        };
        (interface.policy.urpf == ReversePath::Off).then(|| {
            format!(
                "Linux's net.ipv4.conf.{name}.rp_filter is {value}, and the router checks no sources on {}: `urpf = \"{mode}\"` in the \
                 configuration makes it",
                interface.name
            )
        })
    }

    /// Linux is the router, and is not to forward what comes in here; the plane does.
    fn forwards_all_the_same(&self, known: &Known) -> Option<String> {
        let all = self.network_settings(false, NetworkSettings::ALL).forwarding == Some(false);
        let off = self.is_linuxs() && !all && self.settings_of(known).forwarding == Some(false);
        off.then(|| {
            format!(
                "Linux's net.ipv4.conf.{0}.forwarding is 0, and the in-kernel plane forwards what comes in by {0} all the same: \
                 leave {0} out of the configuration if nothing is to be forwarded there",
                known.link.name
            )
        })
    }

    /// Linux would send packets to broadcast addresses of the link's networks to all stations, and the router does not.
    fn other_broadcasts(&self, known: &Known, interface: &Interface) -> Option<String> {
        let name = &known.link.name;
        let set = self.settings_of(known).broadcast_forwarding == Some(true);
        (set && !self.is_linuxs() && !interface.policy.directed_broadcast).then(|| {
            format!(
                "Linux's net.ipv4.conf.{name}.bc_forwarding is 1, and the router drops directed broadcasts to {}: \
                 `directed_broadcast = true` in the configuration lets them pass",
                interface.name
            )
        })
    }

    /// Linux is to forward by routes and rules that the router does not know, and does not forward what comes from
    /// twins. For IPv4 each twin has a switch; for IPv6 that of all links counts.
    fn does_not_forward(&self, v6: bool) -> Option<String> {
        let is_v6 = |prefix: &Prefix| matches!(prefix, Prefix::V6(_));
        let by_rules = self.meaning.exceptions.iter().filter_map(|exception| exception.tuple.dst);
        let asked = self.has_linux_only()[usize::from(v6)] || by_rules.into_iter().any(|dst| is_v6(&dst) == v6);
        if !asked || self.setup.linux.unknown_routes == UnknownRoutes::Unreachable {
            return None;
        }
        let what = "Linux has routes or rules that it alone can forward by, and drops their packets";
        if v6 {
            let off = self.network_settings(true, NetworkSettings::ALL).forwarding == Some(false);
            return off
                .then(|| format!("{what} of IPv6: `sysctl net.ipv6.conf.all.forwarding=1` lets it forward them"));
        }
        let is_off = |known: &&Known| {
            let setting = self.network_settings(false, link_number(known)).forwarding;
            self.port_of(known.link.index).is_some() && setting == Some(false)
        };
        let mut off = self.links.values().filter(is_off).map(|known| known.link.name.as_str());
        let first = off.next()?;
        let others = match off.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "{what} of IPv4 from {first}{others}: `sysctl net.ipv4.conf.{first}.forwarding=1` lets it forward them"
        ))
    }

    fn group_neighbors_on(&self, index: u32, known: &Known) -> Option<String> {
        if self.is_linuxs() {
            return None;
        }
        let mut on_link =
            self.group_neighbors.range((index, IpAddr::from([0; 4]))..).take_while(|((link, _), _)| *link == index);
        let ((_, address), mac) = on_link.next()?;
        Some(format!(
            "Linux sends to neighbors on {} by the MAC address of a group ({address} by {mac} is the first): the router sends to single \
             stations alone, and asks for these itself",
            known.link.name
        ))
    }

    fn settings_of(&self, known: &Known) -> NetworkSettings {
        self.network_settings(false, link_number(known))
    }
}

fn link_number(known: &Known) -> i32 {
    i32::try_from(known.link.index).unwrap_or(i32::MAX)
}

/// An operator has switched off Linux's forwarding, and may mean the router's.
fn forwarding_off(v6: bool, is_linuxs: bool) -> String {
    let (name, family) = match v6 {
        true => ("net.ipv6.conf.all.forwarding", "IPv6"),
        false => ("net.ipv4.ip_forward", "IPv4"),
    };
    if is_linuxs {
        return format!(
            "{name} is 0: Linux drops what the in-kernel plane leaves to it, and the plane forwards {family} all the same: \
             `sysctl {name}=1` lets Linux forward"
        );
    }
    format!(
        "{name} was set to 0, and the router forwards {family} all the same: that is about Linux alone; a twin that is set down \
         (`ip link set`) stops its port"
    )
}
