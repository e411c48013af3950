// SPDX-License-Identifier: MIT
//! Links and addresses of Linux to interfaces, and the other way round.
//!
//! An interface with a twin is what the twin is: up or down, its MTU (not beyond the port's) and its addresses. A VLAN that
//! somebody makes on a twin becomes an interface; one that the configuration names follows Linux' VLAN where there is one.
//! Interfaces keep their numbers: one whose VLAN is deleted stays, down.

use super::dump::Seen;
use super::errands::Errand;
use super::twins::missing_link_local;
use super::{Known, LinuxSide};
use crate::slow::SlowThread;
use perigee_config::Device;
use perigee_fib::Interfaces;
use perigee_helper::LinkChange;
use perigee_net::{Interface, InterfaceId};
use perigee_netlink::Update;
use perigee_netlink::message::{Address, Link, Message};
use std::collections::HashMap;

/// Linux says that a link's addresses are gone before it says so of the link: those of the last moment, in ns, were there.
const JUST_GONE: u64 = 1_000_000_000;
/// Addresses of a link that are remembered for that.
const RECENT_ADDRESSES: usize = 64;

/// What a twin is to its port: indices in the list of ports, by Linux' number of the twin.
type Twins = HashMap<u32, usize>;

impl SlowThread {
    fn twin_links(&self) -> Twins {
        let twin =
            |(index, twin): (usize, &Option<crate::twins::PortTwin>)| Some((twin.as_ref()?.entry().index, index));
        self.twins.iter().enumerate().filter_map(twin).collect()
    }

    pub(super) fn link_is_there(&mut self, at: usize, dumped: bool, link: Link) {
        if let Some(seen) = self.linux.origins[at].dump.as_mut().filter(|_| dumped) {
            seen.links.insert(link.index);
        }
        let (index, up) = (link.index, link.up);
        let known = self.linux.links.entry(index).or_insert_with(|| Known {
            link: link.clone(),
            addresses: Vec::new(),
            gone: Vec::new(),
        });
        let (went_down, came_up) = (known.link.up && !up, !known.link.up && up);
        let changed = known.link != link;
        known.link = link;
        // The link may be new, and already known as what it was put in as.
        if changed || !self.linux.by_link.contains_key(&index) {
            self.linux.stale = true;
        }
        if came_up {
            self.restore_link_local(index);
        }
        if went_down {
            // The kernel takes its IPv4 routes away without a word.
            self.linux.suspect();
        }
    }

    /// The kernel takes IPv6's link-local address away when a link goes down, and routing daemons need one.
    fn restore_link_local(&self, link: u32) {
        let Some((port, errands)) = self.twin_links().get(&link).copied().zip(self.linux.errands.as_ref()) else {
            return;
        };
        let info = &self.infos[port];
        let namespace = self.parts.config.router.namespace.clone();
        let add: Vec<_> = missing_link_local(&[], info.mac, info.mtu).into_iter().collect();
        let name = self.parts.config.ports[port].name.clone();
        errands.send(Errand::Link(LinkChange { name, namespace, add, ..LinkChange::default() }));
    }

    pub(super) fn link_is_gone(&mut self, index: u32) {
        let Some(known) = self.linux.links.remove(&index) else { return };
        self.linux.stale = true;
        self.linux.suspect();
        if let Some(port) = self.twin_links().get(&index).copied().filter(|port| !self.linux.making.contains(port)) {
            let name = self.parts.config.ports[port].name.clone();
            if !self.linux.namespace_gone {
                tracing::warn!("the twin {name} was deleted; it is made again");
            }
            let now = (self.parts.clock)();
            let just_gone = known.gone.into_iter().filter(|(when, _)| now.saturating_sub(*when) < JUST_GONE);
            let addresses = known.addresses.into_iter().chain(just_gone.map(|(_, address)| address)).collect();
            self.linux.twinless.insert(port, addresses);
        }
    }

    pub(super) fn address_is_there(&mut self, at: usize, dumped: bool, address: &Address) {
        let entry = address.address;
        if let Some(seen) = self.linux.origins[at].dump.as_mut().filter(|_| dumped) {
            seen.addresses.entry(address.link).or_default().push(entry);
            return;
        }
        let Some(known) = self.linux.links.get_mut(&address.link) else { return };
        // Another prefix length is another address to Linux.
        if !known.addresses.contains(&entry) {
            known.addresses.push(entry);
            self.linux.stale = true;
        }
    }

    pub(super) fn address_is_gone(&mut self, address: &Address) {
        let entry = address.address;
        let Some(known) = self.linux.links.get_mut(&address.link) else { return };
        let before = known.addresses.len();
        known.addresses.retain(|other| *other != entry);
        if known.addresses.len() != before {
            self.linux.stale = true;
            known.gone.push(((self.parts.clock)(), entry));
            if known.gone.len() > RECENT_ADDRESSES {
                known.gone.remove(0);
            }
            // With an address go the IPv4 routes that speak from it, unsaid.
            if entry.address.is_ipv4() {
                self.linux.suspect();
            }
        }
    }

    /// A dump has named all links and addresses.
    pub(super) fn links_seen(&mut self, seen: &Seen) {
        let gone: Vec<u32> = self.linux.links.keys().filter(|index| !seen.links.contains(index)).copied().collect();
        gone.into_iter().for_each(|index| self.link_is_gone(index));
        for (index, known) in &mut self.linux.links {
            let now = seen.addresses.get(index).cloned().unwrap_or_default();
            if known.addresses != now {
                known.addresses = now;
            }
        }
        self.linux.stale = true;
    }

    /// Brings the interfaces to what Linux says of their links.
    pub(super) fn refresh_interfaces(&mut self) {
        // Before the first dump is whole, the configuration knows more.
        let ready = self.linux.origins.first().is_some_and(|origin| origin.complete || origin.dump.is_some());
        if !self.linux.stale || !ready {
            return;
        }
        self.linux.stale = false;
        let twins = self.twin_links();
        self.adopt_vlans(&twins);
        let complete = self.linux.origins[0].complete;
        let mut list: Vec<Interface> = self.parts.routing.interfaces().iter().map(|(_, i)| i.clone()).collect();
        let links = by_link(&self.linux, &twins, self);
        if links != self.linux.by_link {
            self.linux.by_link = links;
            self.linux.ask_for_what_was_missed();
        }
        if !complete {
            return;
        }
        let before = list.clone();
        for (link, id) in &self.linux.by_link {
            if let (Some(known), Some(interface)) = (self.linux.links.get(link), list.get_mut(usize::from(id.0))) {
                let largest = self.infos.iter().find(|info| info.port == interface.port).map_or(0, |info| info.mtu);
                overlay(interface, known, largest);
            }
        }
        self.down_with_their_links(&mut list, &twins);
        if list != before {
            self.change_interfaces(list);
        }
        self.keep_mtus(&twins);
    }

    fn change_interfaces(&mut self, list: Vec<Interface>) {
        if let Err(error) = self.parts.routing.set_interfaces(list) {
            tracing::error!("an interface is not as Linux has it: {error}");
        }
        self.set_interfaces();
        self.set_static_neighbors();
        self.follow_gateways();
    }

    /// VLANs that are on a twin and none of the router's yet.
    fn adopt_vlans(&mut self, twins: &Twins) {
        let mut list: Vec<Interface> = self.parts.routing.interfaces().iter().map(|(_, i)| i.clone()).collect();
        let before = list.len();
        for known in self.linux.links.values() {
            let Some((below, vlan)) = known.link.vlan else { continue };
            let Some(info) = twins.get(&below).map(|port| self.infos[*port].clone()) else { continue };
            let taken = list.iter().any(|i| (i.port, i.vlan) == (info.port, Some(vlan)));
            if taken || !(1..=4094).contains(&vlan) || list.len() >= usize::from(InterfaceId::LIMIT) {
                continue;
            }
            let (name, mac) = (known.link.name.clone(), info.mac);
            tracing::info!("Linux has a VLAN {vlan} on {}: the interface {name}", self.name_of_port(info.port));
            let mtu = info.mtu.max(Interfaces::SMALLEST_MTU);
            let vlan = Some(vlan);
            list.push(Interface { name, port: info.port, vlan, mtu, mac, up: false, addresses: Vec::new() });
        }
        if list.len() > before {
            self.change_interfaces(list);
        }
    }

    fn name_of_port(&self, port: u16) -> &str {
        let index = self.infos.iter().position(|info| info.port == port);
        index.map_or("?", |index| &self.parts.config.ports[index].name)
    }

    /// VLANs of the router whose link, or whose port's twin, is down or gone.
    fn down_with_their_links(&self, list: &mut [Interface], twins: &Twins) {
        let port_up = |port: u16| {
            let index = self.infos.iter().position(|info| info.port == port);
            let twin = twins.iter().find(|(_, at)| Some(**at) == index).map(|(link, _)| link);
            twin.and_then(|link| self.linux.links.get(link)).is_none_or(|known| known.link.up)
        };
        let configured = self.parts.config.interfaces.len();
        for (id, interface) in list.iter_mut().enumerate().filter(|(_, interface)| interface.vlan.is_some()) {
            let followed = self.linux.by_link.values().any(|known| usize::from(known.0) == id);
            if !followed {
                // Of the configuration: up with its port. Of Linux: its VLAN was deleted.
                interface.up = id < configured && port_up(interface.port);
                if id >= configured {
                    interface.addresses.clear();
                }
            }
        }
    }

    /// A port sends no larger packets than it was opened for: Linux is told.
    fn keep_mtus(&mut self, twins: &Twins) {
        let Some(errands) = &self.linux.errands else { return };
        for (link, port) in twins {
            let (largest, known) = (self.infos[*port].mtu, self.linux.links.get(link));
            if let Some(known) = known.filter(|known| known.link.mtu > u32::from(largest)) {
                let name = known.link.name.clone();
                tracing::warn!(
                    "the twin {name} was given an MTU of {} bytes, and its port was opened for {largest}: the \
                     configuration's `mtu` says how large it may be",
                    known.link.mtu
                );
                let namespace = self.parts.config.router.namespace.clone();
                errands.send(Errand::Link(LinkChange { name, namespace, mtu: Some(largest), ..LinkChange::default() }));
            }
        }
    }

    /// The port's link has changed: so does the twin's.
    pub(crate) fn carrier_for_linux(&self, port: usize, up: bool) {
        let (Some(errands), Some(_)) = (&self.linux.errands, &self.twins[port]) else { return };
        let (name, namespace) =
            (self.parts.config.ports[port].name.clone(), self.parts.config.router.namespace.clone());
        errands.send(Errand::Link(LinkChange { name, namespace, carrier: Some(up), ..LinkChange::default() }));
    }

    /// The links under the ports: some drivers do not say when the cable is out.
    pub(super) fn follow_underlay(&mut self) {
        let Some(underlay) = &mut self.linux.underlay else { return };
        let mut changed = false;
        while let Some(update) = underlay.next() {
            let (Update::Dumped(messages) | Update::News(messages)) = update else { continue };
            for message in messages {
                if let Message::Link(link) = message {
                    let no_carrier = !(link.up && link.carrier);
                    changed |= match no_carrier {
                        true => self.linux.no_carrier.insert(link.name),
                        false => self.linux.no_carrier.remove(&link.name),
                    };
                }
            }
        }
        if changed && self.look_at_links() {
            self.set_interfaces();
        }
    }

    /// Whether the Linux interface under a port, if it has one, has a carrier.
    pub(crate) fn underlay_up(&self, port: usize) -> bool {
        match &self.parts.config.ports[port].device {
            Device::Linux { interface, .. } => !self.linux.no_carrier.contains(interface),
            Device::Dpdk(_) => true,
        }
    }
}

/// Which interface is behind each link.
fn by_link(side: &LinuxSide, twins: &Twins, thread: &SlowThread) -> HashMap<u32, InterfaceId> {
    let interfaces = thread.parts.routing.interfaces();
    let find = |(index, known): (&u32, &Known)| {
        let (twin, vlan) = match known.link.vlan {
            Some((below, vlan)) if twins.contains_key(&below) => (below, vlan),
            _ => (*index, 0),
        };
        let port = thread.infos[*twins.get(&twin)?].port;
        let wanted = (port, (vlan != 0).then_some(vlan));
        let (id, _) = interfaces.iter().find(|(_, i)| (i.port, i.vlan) == wanted)?;
        Some((*index, id))
    };
    side.links.iter().filter_map(find).collect()
}

/// What Linux says of a link, on the interface that it stands for.
fn overlay(interface: &mut Interface, known: &Known, largest: u16) {
    interface.up = known.link.up;
    let mtu = u16::try_from(known.link.mtu).unwrap_or(u16::MAX).min(largest);
    interface.mtu = mtu.max(Interfaces::SMALLEST_MTU);
    interface.addresses.clone_from(&known.addresses);
}
