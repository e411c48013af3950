// SPDX-License-Identifier: MIT
//! Links and addresses of Linux to interfaces, and the reverse.
//!
//! An interface mirrors its twin: up or down, the MTU (not beyond the port's) and the addresses. A VLAN that somebody
//! makes on a twin becomes an interface; one that the configuration names follows Linux's VLAN, if there is one. One of
//! IEEE 802.1ad is Linux's alone.
//! Interfaces keep their numbers: one whose VLAN is deleted stays, down.

use crate::dump::Seen;
use crate::follower::{Follower, Known};
use crate::twins::missing_link_local;
use crate::{FeedId, HelperRequest, Port, Table};
use perigee_fib::Interfaces;
use perigee_helper::LinkChange;
use perigee_net::{
    AddressAttributes, AddressScope, HostAddress, Interface, InterfaceAddress, InterfaceId, Policy, Station,
    is_link_local,
};
use perigee_netlink::message::{Address, Link, Vlan};
use std::collections::HashMap;

/// Linux reports that a link's addresses are gone before it reports that the link is gone: addresses that went this
/// shortly before, in ns, belonged to the link until then.
const JUST_GONE: u64 = 1_000_000_000;
/// How many addresses of a link are remembered for that.
const RECENT_ADDRESSES: usize = 64;

impl Follower {
    /// The index of the port that a link is the twin of.
    pub(crate) fn port_of(&self, link: u32) -> Option<usize> {
        self.setup.ports.iter().position(|port| port.twin == Some(link))
    }

    pub(crate) fn link_is_there(&mut self, id: FeedId, dumped: bool, link: Link) {
        if let Some(seen) = self.feed(id).and_then(|feed| feed.dump_of(dumped)) {
            seen.links.insert(link.index);
        }
        self.refuse_service_vlan(&link);
        self.find_own(&link);
        let Link { index, up, carrier, .. } = link;
        let known = self.links.entry(index).or_insert_with(|| Known {
            link: link.clone(),
            addresses: Vec::new(),
            gone: Vec::new(),
        });
        let (went_down, came_up) = (known.link.up && !up, !known.link.up && up);
        // Which routes have a smaller MTU than their link is another question now.
        let resized = self.has_mtus && known.link.mtu != link.mtu;
        let changed = known.link != link;
        let renamed = (known.link.name != link.name).then(|| known.link.name.clone());
        known.link = link;
        if let Some(before) = renamed.filter(|_| self.port_of(index).is_some() && !self.is_linuxs()) {
            tracing::info!("the twin {before} was renamed to {}, and stays the port's", self.links[&index].link.name);
        }
        // The link may be new, but already known by the values it was inserted with.
        if changed || !self.by_link.contains_key(&index) {
            self.stale = true;
        }
        if came_up {
            self.restore_link_local(index);
        }
        // A link that loses its carrier loses its next-hop objects, and groups lose these members. The kernel reports
        // only the link's state. A first report may come before the objects are removed; the last one comes after.
        let lost_objects = !dumped && !carrier && self.feed(id).is_some_and(|feed| feed.next_hops.lead_over(index));
        if went_down || lost_objects || resized {
            // When a link goes down, the kernel removes its IPv4 routes without a notification.
            self.request_resync();
        }
    }

    /// A port's own interface may have been made again, or have another name or MAC address. The port is on the one that
    /// has the configured name.
    fn find_own(&mut self, link: &Link) {
        if self.is_linuxs() {
            let renamed = |port: &&mut Port| port.twin == Some(link.index) && port.own.as_ref() != Some(&link.name);
            if let Some(port) = self.setup.ports.iter_mut().find(renamed) {
                port.twin = None;
                self.stale = true;
                self.request_resync();
            }
        }
        let is_own = |port: &&mut Port| port.twin.is_none() && port.own.as_ref() == Some(&link.name);
        if let Some(port) = self.setup.ports.iter_mut().find(is_own) {
            port.twin = Some(link.index);
            self.stale = true;
        }
        if self.is_linuxs()
            && let (Some(port), Some(mac)) = (self.port_of(link.index), link.mac)
        {
            self.setup.ports[port].mac = mac;
        }
    }

    /// The kernel removes the IPv6 link-local address when a link goes down, and routing daemons need one. To a VLAN
    /// that somebody else has made it gives one itself.
    fn restore_link_local(&mut self, link: u32) {
        let of_configuration = self.by_link.get(&link).filter(|id| usize::from(id.0) < self.setup.configured);
        let Some(known) = self.links.get(&link) else { return };
        let below = known.link.vlan.filter(|_| of_configuration.is_some()).map(|vlan| vlan.below);
        let Some(port) = self.port_of(below.unwrap_or(link)).map(|port| &self.setup.ports[port]) else { return };
        let add = missing_link_local(&[], port.mac, port.mtu).into_iter().collect();
        let change = LinkChange { add, ..self.change_of(link) };
        self.ask_helper(HelperRequest::Link(change));
    }

    /// Says that a VLAN on a twin is no interface, when it appears.
    fn refuse_service_vlan(&self, link: &Link) {
        let Some(Vlan { below, id, service: true }) = link.vlan else { return };
        if let Some(port) = self.port_of(below).filter(|_| !self.links.contains_key(&link.index)) {
            tracing::warn!(
                "Linux has a VLAN {id} of IEEE 802.1ad on {}: the router knows those of 802.1Q, and leaves {} to Linux",
                self.setup.ports[port].name,
                link.name
            );
        }
    }

    /// A change of a twin, or a VLAN on one, that changes nothing yet. It is asked for by its number, which stays when
    /// it is renamed.
    pub(crate) fn change_of(&self, link: u32) -> LinkChange {
        let port = || self.port_of(link).map(|port| self.setup.ports[port].name.clone());
        let name = self.links.get(&link).map(|known| known.link.name.clone()).or_else(port).unwrap_or_default();
        LinkChange { name, index: Some(link), namespace: self.setup.namespace.clone(), ..LinkChange::default() }
    }

    /// Linux's number of the twin of a port, or of a VLAN on it, and its name there.
    pub fn link_at(&self, port: usize, vlan: Option<u16>) -> Option<(u32, String)> {
        let twin = self.setup.ports.get(port)?.twin?;
        let on_twin = |known: &Known| match (known.link.vlan, vlan) {
            (Some(Vlan { below, id, service: false }), Some(vlan)) => (below, id) == (twin, vlan),
            (_, None) => known.link.index == twin,
            _ => false,
        };
        self.links.values().find(|known| on_twin(known)).map(|known| (known.link.index, known.link.name.clone()))
    }

    /// The addresses that the twin of a port, or of a VLAN on it, has in Linux; `None`: nothing is known of it.
    pub fn addresses_at(&self, port: usize, vlan: Option<u16>) -> Option<Vec<InterfaceAddress>> {
        let (link, _) = self.link_at(port, vlan)?;
        Some(self.links.get(&link)?.addresses.iter().map(|address| address.with_prefix).collect())
    }

    /// The configuration's addresses that Linux's links lack: of each such link its number, its interface and the
    /// addresses.
    pub(crate) fn missing_addresses(&self) -> Vec<(u32, InterfaceId, Vec<InterfaceAddress>)> {
        let missing = |(link, id): (&u32, &InterfaceId)| {
            let has = &self.links.get(link)?.addresses;
            let lacks = |address: &&InterfaceAddress| !has.iter().any(|own| own.with_prefix == **address);
            let missing: Vec<_> = self.setup.addresses.get(id.index())?.iter().filter(lacks).copied().collect();
            (!missing.is_empty()).then_some((*link, *id, missing))
        };
        let mut all: Vec<_> = self.by_link.iter().filter_map(missing).collect();
        all.sort_unstable();
        all
    }

    /// A link is in another namespace now. A twin cannot be followed there.
    pub(crate) fn link_is_moved(&mut self, now: u64, index: u32) {
        let is_twin = |port: &usize| !self.is_linuxs() && !self.making.contains(port) && !self.namespace_gone;
        if let Some(port) = self.port_of(index).filter(is_twin) {
            let twin = &self.setup.ports[port].name;
            match &self.setup.namespace {
                Some(namespace) => tracing::warn!(
                    "the twin {twin} was moved out of the namespace {namespace}, which is the one that the router follows; it is \
                     made again there, and the one that was moved vanishes: `namespace` in [router] says where twins are"
                ),
                None => tracing::warn!(
                    "the twin {twin} was moved to another namespace, and the router follows its own; it is made again here, and the \
                     one that was moved vanishes: `namespace` in [router] says where twins are"
                ),
            }
        }
        self.link_goes(now, index);
    }

    pub(crate) fn link_is_gone(&mut self, now: u64, index: u32) {
        if let Some(port) = self.port_of(index).filter(|port| !self.making.contains(port) && !self.is_linuxs())
            && self.links.contains_key(&index)
            && !self.namespace_gone
        {
            tracing::warn!("the twin {} was deleted; it is made again", self.setup.ports[port].name);
        }
        self.link_goes(now, index);
    }

    fn link_goes(&mut self, now: u64, index: u32) {
        self.named_links.remove(&index);
        let Some(known) = self.links.remove(&index) else { return };
        self.forget_settings(index);
        self.group_neighbors.retain(|(link, _), _| *link != index);
        self.stale = true;
        self.request_resync();
        let Some(port) = self.port_of(index).filter(|port| !self.making.contains(port)) else { return };
        if self.is_linuxs() {
            self.setup.ports[port].twin = None;
            return;
        }
        let just_gone = known.gone.into_iter().filter(|(when, _)| now.saturating_sub(*when) < JUST_GONE);
        let had = known.addresses.into_iter().map(|address| address.with_prefix);
        let addresses = had.chain(just_gone.map(|(_, address)| address)).collect();
        self.twinless.insert(port, addresses);
    }

    pub(crate) fn address_is_there(&mut self, id: FeedId, dumped: bool, address: &Address) {
        if let Some(seen) = self.feed(id).and_then(|feed| feed.dump_of(dumped)) {
            seen.addresses.entry(address.link).or_default().push(*address);
            return;
        }
        let Some(known) = self.links.get_mut(&address.link) else { return };
        // Another prefix length is another address to Linux.
        match known.addresses.iter_mut().find(|other| other.with_prefix == address.with_prefix) {
            Some(same) => self.stale |= std::mem::replace(same, *address) != *address,
            None => {
                known.addresses.push(*address);
                self.stale = true;
            }
        }
    }

    pub(crate) fn address_is_gone(&mut self, now: u64, address: &Address) {
        let entry = address.with_prefix;
        let Some(known) = self.links.get_mut(&address.link) else { return };
        let before = known.addresses.len();
        known.addresses.retain(|other| other.with_prefix != entry);
        if known.addresses.len() == before {
            return;
        }
        known.gone.push((now, entry));
        if known.gone.len() > RECENT_ADDRESSES {
            known.gone.remove(0);
        }
        self.stale = true;
        // With an address go the IPv4 routes that use it as their source, without a notification.
        if entry.address.is_ipv4() {
            self.request_resync();
        }
    }

    /// The router has changed a link's addresses or MTU itself: so they are, before Linux reports it.
    pub(crate) fn link_changed(&mut self, change: &LinkChange) {
        let is_meant = |known: &&mut Known| match change.index {
            Some(index) => known.link.index == index,
            None => known.link.name == change.name,
        };
        let Some(known) = self.links.values_mut().find(is_meant) else { return };
        known.addresses.retain(|address| !change.remove.contains(&address.with_prefix));
        let is_new = |added: &&InterfaceAddress| !known.addresses.iter().any(|had| had.with_prefix == **added);
        let added: Vec<_> =
            change.add.iter().filter(is_new).map(|added| Address::new(known.link.index, *added)).collect();
        known.addresses.extend(added);
        if let Some(mtu) = change.mtu {
            known.link.mtu = mtu.into();
        }
        self.stale = true;
    }

    /// A dump has named all links and addresses.
    pub(crate) fn links_seen(&mut self, now: u64, seen: &Seen) {
        let gone: Vec<u32> = self.links.keys().filter(|index| !seen.links.contains(index)).copied().collect();
        gone.into_iter().for_each(|index| self.link_is_gone(now, index));
        for (index, known) in &mut self.links {
            known.addresses = seen.addresses.get(index).cloned().unwrap_or_default();
        }
        self.stale = true;
    }

    /// Passes on which interfaces have the connected networks that Linux says: those whose links a complete dump has
    /// named, and then routes. Until then an interface has the networks of its addresses.
    pub(crate) fn refresh_connected(&mut self, table: &mut dyn Table) {
        let follows = self.feeds.first().is_some_and(|kernel| kernel.routes) && self.policy.follows_connected();
        // The connected routes of a VRF are in its table.
        let is_followed = |link: &u32| {
            let master = self.links.get(link).and_then(|known| known.link.master.as_ref());
            master.and_then(|master| master.table).is_none_or(|table| self.policy.follows(table))
        };
        let is_named = |link: &u32| follows && self.named_links.contains(link) && is_followed(link);
        let named = self.by_link.iter().filter(|(link, _)| is_named(link));
        table.set_linux_connects(named.map(|(_, id)| *id).collect());
    }

    /// Brings the interfaces up to date with their links.
    pub(crate) fn refresh_interfaces(&mut self, table: &mut dyn Table) {
        // Before the first dump is complete, the configuration knows more.
        let Some(kernel) = self.feeds.first().filter(|kernel| kernel.complete || kernel.dump.is_some()) else { return };
        let (complete, dumping) = (kernel.complete, kernel.dump.is_some());
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.adopt_vlans(table);
        let links = self.interfaces_by_link(table.interfaces());
        if links != self.by_link {
            let any_new = complete && links.keys().any(|link| !self.named_links.contains(link));
            self.by_link = links;
            self.multicast.stale = true;
            self.ask_for_what_was_missed();
            if any_new {
                // So that its connected networks are Linux's.
                self.request_resync();
            }
        }
        self.rules_changed();
        if !complete {
            return;
        }
        let before = list(table);
        let mut now = before.clone();
        for (link, id) in &self.by_link {
            if let (Some(known), Some(interface)) = (self.links.get(link), now.get_mut(usize::from(id.0))) {
                let port = self.port_by_number(interface.port);
                let largest = port.map_or(0, |port| if self.is_linuxs() { u16::MAX } else { port.mtu });
                overlay(interface, known, largest);
                if let Some(mac) = known.link.mac.filter(|_| self.is_linuxs()) {
                    interface.mac = mac;
                }
            }
        }
        self.down_with_their_links(&mut now);
        let known = table.interfaces().host_addresses();
        // A new feed's first dump has not named all links yet.
        let host_addresses = if dumping { known.to_vec() } else { self.host_addresses() };
        if now != before || host_addresses != known {
            self.say_stations(known, &host_addresses, table.interfaces());
            self.change_interfaces(now, host_addresses, table);
        }
        self.keep_mtus();
        self.refresh_proxies();
        self.look_for_differences(table);
        self.keep_macs();
    }

    fn change_interfaces(&mut self, list: Vec<Interface>, host_addresses: Vec<HostAddress>, table: &mut dyn Table) {
        let addresses = table.interfaces().iter().flat_map(|(_, interface)| &interface.addresses);
        let before = addresses.map(|address| address.network()).collect();
        table.set_interfaces(list, host_addresses);
        self.stand_in_behind_networks(before, table);
        self.effect(crate::Effect::InterfacesChanged);
    }

    /// The router's addresses on links that are none of its interfaces: the loopback, dummies, VRFs. In Linux's order
    /// of links, in which it looks for a source itself. An address of a link, of the machine, or of a VRF that is not
    /// followed is none of the router's.
    fn host_addresses(&self) -> Vec<HostAddress> {
        // A virtual station that is not in use: VRRP has taken its carrier, as another router is the master.
        let in_reserve = |link: &Link| self.station_of(link).is_some() && !link.carrier;
        let followed = |link: &Link| {
            let master = || self.links.get(&link.master.as_ref()?.index)?.link.vrf;
            link.vrf.or_else(master).is_none_or(|table| self.policy.follows(table))
        };
        let elsewhere = self.links.iter().filter(|(index, known)| {
            known.link.up
                && !self.by_link.contains_key(index)
                && self.port_of(**index).is_none()
                && followed(&known.link)
                && !in_reserve(&known.link)
        });
        let of_link = |known: &Known| {
            let station = self.station_of(&known.link);
            let is_the_routers = move |own: &Address| {
                let address = own.with_prefix.address;
                // Only a station's is asked for on its link.
                let reaches = if is_link_local(address) { station.is_some() } else { !address.is_loopback() };
                own.attributes.scope == AddressScope::Global && reaches
            };
            let in_use = move |own: &Address| is_the_routers(own) && !own.tentative && !own.duplicate;
            let host = |own: &Address| HostAddress { address: own.with_prefix, attributes: own.attributes, station };
            known.addresses.iter().filter(|own| in_use(own)).map(host).collect::<Vec<_>>()
        };
        elsewhere.flat_map(|(_, known)| of_link(known)).collect()
    }

    /// The virtual station that a macvlan on a twin, or on a VLAN of one, stands for: VRRP's.
    pub(crate) fn station_of(&self, link: &Link) -> Option<Station> {
        Some(Station { interface: *self.by_link.get(&link.mac_vlan?)?, mac: link.mac? })
    }

    /// Logs which addresses of virtual stations are the router's from now on, and which are no more.
    fn say_stations(&self, before: &[HostAddress], now: &[HostAddress], interfaces: &Interfaces) {
        let of = |list: &[HostAddress], other: &[HostAddress], words: &str| {
            for HostAddress { address, station, .. } in list.iter().filter(|host| !other.contains(host)) {
                let Some(Station { interface, mac }) = station else { continue };
                let name = interfaces.get(*interface).map_or("an interface", |interface| interface.name.as_str());
                tracing::info!("{name} {words} {} by the MAC address {mac}, as a macvlan on it says", address.address);
            }
        };
        of(now, before, "answers for");
        of(before, now, "does not answer any more for");
    }

    fn port_by_number(&self, number: u16) -> Option<&Port> {
        self.setup.ports.iter().find(|port| port.number == number)
    }

    /// Adopts VLANs that are on a twin but not yet the router's.
    fn adopt_vlans(&mut self, table: &mut dyn Table) {
        let mut list = list(table);
        let before = list.len();
        for known in self.links.values() {
            let Some(Vlan { below, id: vlan, service: false }) = known.link.vlan else { continue };
            let Some(port) = self.port_of(below).map(|port| &self.setup.ports[port]) else { continue };
            let taken = list.iter().any(|i| (i.port, i.vlan) == (port.number, Some(vlan)));
            if taken || !(1..=4094).contains(&vlan) || list.len() >= usize::from(InterfaceId::LIMIT) {
                continue;
            }
            let name = known.link.name.clone();
            tracing::info!("Linux has a VLAN {vlan} on {}: the interface {name}", port.name);
            list.push(Interface {
                name,
                port: port.number,
                vlan: Some(vlan),
                mtu: port.mtu.max(Interfaces::SMALLEST_MTU),
                mac: port.mac,
                up: false,
                addresses: Vec::new(),
                attributes: Default::default(),
                policy: Policy::default(),
            });
        }
        if list.len() > before {
            let host_addresses = table.interfaces().host_addresses().to_vec();
            self.change_interfaces(list, host_addresses, table);
        }
    }

    /// Which interface is behind each link.
    fn interfaces_by_link(&self, interfaces: &Interfaces) -> HashMap<u32, InterfaceId> {
        let find = |(index, known): (&u32, &Known)| {
            let vlan = known.link.vlan.filter(|vlan| !vlan.service);
            let on_twin = vlan.and_then(|vlan| Some((self.port_of(vlan.below)?, Some(vlan.id))));
            let (port, vlan) = on_twin.or_else(|| Some((self.port_of(*index)?, None)))?;
            let place = (self.setup.ports[port].number, vlan);
            let (id, _) = interfaces.iter().find(|(_, i)| (i.port, i.vlan) == place)?;
            Some((*index, id))
        };
        self.links.iter().filter_map(find).collect()
    }

    /// VLANs of the router whose link, or whose port's twin, is down or gone.
    fn down_with_their_links(&self, list: &mut [Interface]) {
        let port_up = |number: u16| {
            let twin = self.port_by_number(number).and_then(|port| port.twin);
            twin.and_then(|link| self.links.get(&link)).is_none_or(|known| known.link.up)
        };
        for (id, interface) in list.iter_mut().enumerate().filter(|(_, interface)| interface.vlan.is_some()) {
            let followed = self.by_link.values().any(|known| usize::from(known.0) == id);
            if !followed {
                // One of the configuration is up with its port; of one from Linux, the VLAN was deleted.
                interface.up = id < self.setup.configured && port_up(interface.port);
                if id >= self.setup.configured {
                    interface.addresses.clear();
                    interface.attributes.clear();
                }
            }
        }
    }

    /// A port sends no packets larger than it was opened for, and neither should Linux.
    fn keep_mtus(&mut self) {
        if self.is_linuxs() {
            return;
        }
        let too_large = |port: &Port| {
            let known = self.links.get(&port.twin?)?;
            let (name, found, largest) = (&known.link.name, known.link.mtu, port.mtu);
            (self.setup.helper && found > u32::from(largest)).then(|| {
                tracing::warn!(
                    "the twin {name} was given an MTU of {found} bytes, and its port was opened for {largest}: the \
                     configuration's `mtu` says how large it may be"
                );
                HelperRequest::Link(LinkChange { mtu: Some(largest), ..self.change_of(known.link.index) })
            })
        };
        let requests: Vec<_> = self.setup.ports.iter().filter_map(too_large).collect();
        requests.into_iter().for_each(|request| self.ask_helper(request));
    }

    /// A port receives by its own MAC address alone, and hosts learn the twin's from Linux's packets.
    fn keep_macs(&mut self) {
        let other = |port: &Port| {
            let link = port.twin.filter(|twin| self.links.get(twin).is_some_and(|known| has_other_mac(known, port)))?;
            Some(HelperRequest::Link(LinkChange { mac: Some(port.mac), ..self.change_of(link) }))
        };
        let requests: Vec<_> = self.setup.ports.iter().filter_map(other).collect();
        requests.into_iter().for_each(|request| self.ask_helper(request));
    }

    /// The port's link has changed: the twin's carrier follows.
    pub(crate) fn port_link(&mut self, port: usize, up: bool) {
        let Some(port) = self.setup.ports.get_mut(port) else { return };
        port.up = up;
        if let Some(twin) = port.twin {
            let change = LinkChange { carrier: Some(up), ..self.change_of(twin) };
            self.ask_helper(HelperRequest::Link(change));
        }
    }
}

fn list(table: &dyn Table) -> Vec<Interface> {
    table.interfaces().iter().map(|(_, interface)| interface.clone()).collect()
}

/// Whether a twin, or a VLAN on it, has another MAC address than the port.
pub(crate) fn has_other_mac(known: &Known, port: &Port) -> bool {
    known.link.mac.is_some_and(|mac| mac != port.mac)
}

/// Transfers the state of a link to its interface.
fn overlay(interface: &mut Interface, known: &Known, largest: u16) {
    interface.up = known.link.up;
    let mtu = u16::try_from(known.link.mtu).unwrap_or(u16::MAX).min(largest);
    interface.mtu = mtu.max(Interfaces::SMALLEST_MTU);
    // The router sees for itself whether another station has an address, but what Linux has found counts, too.
    let own = || known.addresses.iter().filter(|own| !own.duplicate);
    interface.addresses = own().map(|own| own.with_prefix).collect();
    let special = own().filter(|own| own.attributes != AddressAttributes::default());
    interface.attributes = special.map(|own| (own.with_prefix, own.attributes)).collect();
}
