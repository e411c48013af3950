// SPDX-License-Identifier: MIT
//! The router's own interfaces and addresses, with their state of duplicate address detection.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perigee_net::{
    AddressAttributes, AddressScope, HostAddress, Interface, InterfaceAddress, InterfaceId, MacAddr, Station,
    is_link_local, solicited_node,
};

use crate::Time;
use crate::source::{self, Candidate};

/// Whether one of the router's own addresses may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// Duplicate address detection runs: it neither answers nor speaks.
    Tentative,
    /// In use.
    Valid,
    /// Another station has it; not in use until the interface comes up again.
    Duplicate,
}

/// One of the router's own addresses, for showing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressInfo {
    pub interface: InterfaceId,
    /// The address and its prefix.
    pub address: InterfaceAddress,
    /// Whether it is in use.
    pub state: AddressState,
}

/// The router's interfaces and addresses at one moment, as an [`Assistant`](crate::Assistant) needs them.
#[derive(Clone, Debug, Default)]
pub struct InterfaceTable(pub(crate) Interfaces);

/// An IPv6 address under duplicate address detection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detection {
    pub state: AddressState,
    /// Solicitations sent.
    pub sent: u8,
    /// When the next step is due, while `Tentative`.
    pub due: Time,
}

/// An interface with its state.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub config: Interface,
    /// State of every IPv6 address; empty while the interface is down.
    pub detection: BTreeMap<Ipv6Addr, Detection>,
}

impl Own {
    /// Takes a configuration; adds the link-local address if it has none.
    pub(crate) fn new(mut config: Interface) -> Self {
        if !config.addresses.iter().any(|a| is_link_local(a.address)) {
            let address = IpAddr::V6(config.mac.link_local());
            config.addresses.push(InterfaceAddress { address, prefix_len: 64 });
        }
        Own { config, detection: BTreeMap::new() }
    }

    /// In use: IPv4 as soon as it is configured, IPv6 once it is known to be unique.
    pub(crate) fn is_valid(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(a) => self.detection.get(&a).is_some_and(|d| d.state == AddressState::Valid),
        }
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.config.addresses.iter().any(|a| a.address == address)
    }

    /// An address of that kind is on this link.
    pub(crate) fn on_link(&self, address: IpAddr) -> bool {
        is_link_local(address) || self.config.addresses.iter().any(|a| a.covers(address))
    }

    /// Is it the solicited-node group of one of this interface's addresses, unicast or anycast?
    pub(crate) fn has_solicited_node(&self, group: Ipv6Addr) -> bool {
        let unicast = self.detection.keys().copied();
        unicast.chain(self.anycasts()).any(|address| solicited_node(address) == group)
    }

    /// The subnet-router anycast addresses of this link, by addresses in use (RFC 4291 2.6.1).
    fn anycasts(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.config.subnet_routers().filter(|(_, by)| self.is_valid(*by)).map(|(anycast, _)| anycast)
    }

    /// If it is the subnet-router anycast address of a network of this link: whether an address on that network is in
    /// use.
    fn subnet_router_by(&self, address: Ipv6Addr) -> Option<bool> {
        let mut by =
            self.config.subnet_routers().filter(|(anycast, _)| *anycast == address).map(|(_, by)| by).peekable();
        by.peek()?;
        Some(by.any(|own| self.is_valid(own)))
    }

    /// Is it the subnet-router anycast address of a network of this link, in use, and no address of the interface
    /// itself?
    pub(crate) fn has_anycast(&self, address: Ipv6Addr) -> bool {
        self.config.up && !self.has(IpAddr::V6(address)) && self.subnet_router_by(address) == Some(true)
    }

    /// Has it an IPv4 address, or does it borrow one?
    pub(crate) fn is_numbered(&self) -> bool {
        self.config.addresses.iter().any(|a| a.address.is_ipv4())
    }

    /// The interface's own IPv4 address to speak from: one in the network of `near` if there is one, else the primary
    /// one.
    fn source4(&self, near: Option<Ipv4Addr>, on_link: bool) -> Option<Ipv4Addr> {
        let all = self.config.addresses.iter().filter(|a| a.address.is_ipv4());
        source::choose4(all.map(|a| (*a, self.config.attributes_of(*a))), near, on_link)
    }

    /// The interface's own IPv6 address to speak from to a station or a group on the link.
    pub(crate) fn source6(&self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        source::choose(to, self.candidates(true)).map(|best| best.address)
    }

    fn candidates(&self, outgoing: bool) -> impl Iterator<Item = Candidate> + '_ {
        let valid = self.config.addresses.iter().filter(|a| a.address.is_ipv6() && self.is_valid(a.address));
        valid.filter_map(move |own| Candidate::new(*own, self.config.attributes_of(*own), outgoing))
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.detection.values().filter(|d| d.state == AddressState::Tentative).map(|d| d.due).min()
    }
}

/// The interface that an address belongs to; `None`: it is on none.
pub(crate) type Owner = Option<InterfaceId>;

/// All interfaces, and which addresses are the router's. Every packet asks several times, so it is all in sorted
/// arrays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interfaces {
    /// By number.
    table: Vec<Option<Own>>,
    /// The router's addresses that are on no interface, those that it speaks from first.
    host_addresses: Vec<HostAddress>,
    /// Which interface has each address that is not link-local: the lowest one, if any has.
    owners4: Vec<(Ipv4Addr, Owner)>,
    owners6: Vec<(Ipv6Addr, Owner)>,
    /// Subnet-router anycast addresses that are not link-local, and the interfaces on whose networks they are.
    anycasts: Vec<(Ipv6Addr, Owner)>,
    /// IPv6 addresses that any interface may speak from: not link-local. Those on no interface come first.
    sources6: Vec<(Owner, InterfaceAddress, AddressAttributes)>,
    /// Directed broadcast addresses of each interface.
    broadcasts: Vec<(Ipv4Addr, InterfaceId)>,
    changes: u64,
}

impl Interfaces {
    pub(crate) fn get(&self, id: InterfaceId) -> Option<&Own> {
        self.table.get(usize::from(id.0))?.as_ref()
    }

    /// How often anything may have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn get_mut(&mut self, id: InterfaceId) -> Option<&mut Own> {
        self.changes += 1;
        self.table.get_mut(usize::from(id.0))?.as_mut()
    }

    pub(crate) fn is_up(&self, id: InterfaceId) -> bool {
        self.get(id).is_some_and(|own| own.config.up)
    }

    pub(crate) fn set(&mut self, id: InterfaceId, own: Own) {
        let index = usize::from(id.0);
        if self.table.len() <= index {
            self.table.resize_with(index + 1, || None);
        }
        self.table[index] = Some(own);
        self.index();
    }

    pub(crate) fn remove(&mut self, id: InterfaceId) {
        if let Some(place) = self.table.get_mut(usize::from(id.0)) {
            *place = None;
        }
        self.index();
    }

    /// Replaces the addresses that are on no interface.
    pub(crate) fn set_host_addresses(&mut self, addresses: Vec<HostAddress>) {
        self.host_addresses = addresses;
        self.index();
    }

    /// The MAC address of the virtual station on an interface's link that has this address.
    pub(crate) fn station_of(&self, address: IpAddr, interface: InterfaceId) -> Option<MacAddr> {
        let here = |host: &HostAddress| host.station.filter(|station| station.interface == interface);
        self.host_addresses.iter().filter(|host| host.address.address == address).find_map(here).map(|s| s.mac)
    }

    /// Whether a virtual station of this MAC address is on an interface's link.
    pub(crate) fn has_station(&self, interface: InterfaceId, mac: MacAddr) -> bool {
        self.host_addresses.iter().any(|host| host.station == Some(Station { interface, mac }))
    }

    /// Is it the solicited-node group of an address of the interface, or of a virtual station on its link?
    pub(crate) fn has_solicited_node(&self, id: InterfaceId, group: Ipv6Addr) -> bool {
        let of_station = |host: &HostAddress| match host.address.address {
            IpAddr::V6(v6) => {
                host.station.is_some_and(|station| station.interface == id) && solicited_node(v6) == group
            }
            IpAddr::V4(_) => false,
        };
        self.get(id).is_some_and(|own| own.has_solicited_node(group)) || self.host_addresses.iter().any(of_station)
    }

    fn index(&mut self) {
        self.changes += 1;
        let (mut owners4, mut owners6, mut anycasts, mut broadcasts) = (vec![], vec![], vec![], vec![]);
        let mut add = |address: IpAddr, owner: Owner| match address {
            _ if is_link_local(address) => {}
            IpAddr::V4(v4) => owners4.push((v4, owner)),
            IpAddr::V6(v6) => owners6.push((v6, owner)),
        };
        for (id, own) in self.iter() {
            for a in &own.config.addresses {
                add(a.address, Some(id));
                broadcasts.extend(a.broadcasts().map(|broadcast| (broadcast, id)));
            }
            anycasts.extend(own.config.subnet_routers().map(|(anycast, _)| (anycast, Some(id))));
        }
        for host in &self.host_addresses {
            add(host.address.address, None);
            anycasts.extend(host.subnet_router().map(|anycast| (anycast, None)));
        }
        let on_none = self.host_addresses.iter().map(|a| (None, a.address, a.attributes));
        let on_any = self.iter().flat_map(|(id, own)| {
            own.config.addresses.iter().map(move |a| (Some(id), *a, own.config.attributes_of(*a)))
        });
        let reaches = |own: &InterfaceAddress, attributes: &AddressAttributes| {
            own.address.is_ipv6() && !is_link_local(own.address) && attributes.scope == AddressScope::Global
        };
        self.sources6 = on_none.chain(on_any).filter(|(_, own, attributes)| reaches(own, attributes)).collect();
        anycasts.retain(|(anycast, _)| !anycast.is_unicast_link_local());
        anycasts.sort_unstable();
        anycasts.dedup();
        sort(&mut owners4);
        sort(&mut owners6);
        broadcasts.sort_unstable();
        broadcasts.dedup();
        (self.owners4, self.owners6, self.anycasts, self.broadcasts) = (owners4, owners6, anycasts, broadcasts);
    }

    /// The interface that has this address. A link-local one is looked for on the receiving interface alone (RFC 4007
    /// 5).
    pub(crate) fn owner(&self, address: IpAddr, receiving: InterfaceId) -> Option<&Own> {
        let here = || self.get(receiving).filter(|own| own.has(address));
        if is_link_local(address) {
            return here();
        }
        // Most addresses that are asked for are nobody's.
        let id = match address {
            IpAddr::V4(v4) => find(&self.owners4, &v4),
            IpAddr::V6(v6) => find(&self.owners6, &v6),
        };
        let lowest = id?.and_then(|id| self.get(id));
        here().or(lowest)
    }

    /// Is it an address of this router? A link-local one is asked for on the receiving interface alone.
    pub(crate) fn is_own(&self, address: IpAddr, receiving: InterfaceId) -> bool {
        match address {
            _ if is_link_local(address) => {
                self.get(receiving).is_some_and(|own| own.has(address)) || self.station_of(address, receiving).is_some()
            }
            IpAddr::V4(v4) => find(&self.owners4, &v4).is_some(),
            IpAddr::V6(v6) => find(&self.owners6, &v6).is_some(),
        }
    }

    /// Is it an address of this router, in use? One that is on no interface always is.
    pub(crate) fn is_own_in_use(&self, address: IpAddr, receiving: InterfaceId) -> bool {
        let owner = match address {
            _ if is_link_local(address) => Some(Some(receiving)),
            IpAddr::V4(v4) => find(&self.owners4, &v4),
            IpAddr::V6(v6) => find(&self.owners6, &v6),
        };
        let Some(owner) = owner else { return false };
        if is_link_local(address) && self.station_of(address, receiving).is_some() {
            return true;
        }
        let own = |id| self.get(id).filter(|own| own.has(address));
        match own(receiving).or(owner.and_then(own)) {
            Some(own) => own.is_valid(address),
            None => owner.is_none(),
        }
    }

    /// Is it an address of this router that is on no interface?
    pub(crate) fn is_host_address(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => find(&self.owners4, &v4) == Some(None),
            IpAddr::V6(v6) => find(&self.owners6, &v6) == Some(None),
        }
    }

    /// Whether it is in use, if it is a subnet-router anycast address of a network of this router, and no unicast
    /// address of its. A link-local one is that of the receiving interface.
    pub(crate) fn anycast(&self, address: Ipv6Addr, receiving: InterfaceId) -> Option<bool> {
        let local = address.is_unicast_link_local().then_some((address, Some(receiving)));
        let from = self.anycasts.partition_point(|(other, _)| *other < address);
        let others = self.anycasts[from..].iter().copied().take_while(|(other, _)| *other == address);
        let in_use = |owner: Owner| match owner.map(|id| self.get(id).filter(|own| own.config.up)) {
            None => Some(true),
            Some(own) => own?.subnet_router_by(address),
        };
        let mut found = local.into_iter().chain(others).filter_map(|(_, owner)| in_use(owner)).peekable();
        found.peek()?;
        (!self.is_own(address.into(), receiving)).then(|| found.any(|in_use| in_use))
    }

    /// The IPv4 address to speak from out of an interface, as Linux chooses it: the interface's own, one that is on no
    /// interface, or any other's. The packet is for `near` next, and stays `on_link` or not. Where a virtual station
    /// alone has an address in the network of `near`, that one: neighbors need not answer one of another network.
    pub(crate) fn source4(&self, outgoing: InterfaceId, near: Option<Ipv4Addr>, on_link: bool) -> Option<Ipv4Addr> {
        let here = || self.get(outgoing)?.source4(near, on_link);
        let by_station = || self.stations_source4(outgoing, near?, on_link);
        let on_none = || source::choose4(self.host_addresses.iter().map(|a| (a.address, a.attributes)), None, false);
        let elsewhere = || self.iter().find_map(|(_, own)| own.source4(None, false));
        by_station().or_else(here).or_else(on_none).or_else(elsewhere)
    }

    /// The address of a virtual station on an interface's link in the network of `near`, where the interface has none.
    fn stations_source4(&self, outgoing: InterfaceId, near: Ipv4Addr, on_link: bool) -> Option<Ipv4Addr> {
        let covers = |own: &InterfaceAddress| own.covers(near.into());
        let stations = self
            .host_addresses
            .iter()
            .filter(|host| host.station.is_some_and(|station| station.interface == outgoing) && covers(&host.address));
        let mut stations = stations.peekable();
        stations.peek()?;
        if self.get(outgoing).is_some_and(|own| own.config.addresses.iter().any(covers)) {
            return None;
        }
        source::choose4(stations.map(|host| (host.address, host.attributes)), Some(near), on_link)
    }

    /// The IPv6 address to speak from out of an interface (RFC 6724 4: any address of a router's, but a link-local one
    /// only of that interface). One that is link-local for a destination that is not is better than none: errors reach
    /// hosts on the link.
    pub(crate) fn source6(&self, outgoing: InterfaceId, to: Ipv6Addr) -> Option<Ipv6Addr> {
        let here = source::choose(to, self.get(outgoing).into_iter().flat_map(|own| own.candidates(true)));
        // What only the link hears comes from the link (RFC 6724 4).
        let of_link = to.is_unicast_link_local() || to.is_multicast();
        if of_link || here.is_some_and(|here| here.needs_no_other(to)) {
            return here.map(|best| best.address);
        }
        let in_use = |owner: Owner, own: InterfaceAddress| match owner {
            Some(id) => id != outgoing && self.get(id).is_some_and(|it| it.is_valid(own.address)),
            None => true,
        };
        let elsewhere = self.sources6.iter().filter(|(owner, own, _)| in_use(*owner, *own));
        let elsewhere = elsewhere.filter_map(|(_, own, attributes)| Candidate::new(*own, *attributes, false));
        source::choose(to, here.into_iter().chain(elsewhere)).map(|best| best.address)
    }

    /// Is it a broadcast address of this interface's prefixes?
    pub(crate) fn is_broadcast_of(&self, address: Ipv4Addr, id: InterfaceId) -> bool {
        self.broadcasts.binary_search(&(address, id)).is_ok()
    }

    /// The interface on whose network this is the broadcast address; that of old, of zeros, does not count
    /// (RFC 1812 4.2.3.1).
    pub(crate) fn link_of_broadcast(&self, address: Ipv4Addr) -> Option<InterfaceId> {
        let ones = |a: &InterfaceAddress| a.broadcasts().next() == Some(address);
        let has = |id: &InterfaceId| self.get(*id).is_some_and(|own| own.config.addresses.iter().any(ones));
        self.having_broadcast(address).find(has)
    }

    /// The interfaces of which this is a broadcast address, in order.
    fn having_broadcast(&self, address: Ipv4Addr) -> impl Iterator<Item = InterfaceId> + '_ {
        let from = self.broadcasts.partition_point(|(other, _)| *other < address);
        self.broadcasts[from..].iter().take_while(move |(other, _)| *other == address).map(|(_, id)| *id)
    }

    /// Is it a broadcast address of any interface's prefixes?
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.having_broadcast(address).next().is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (InterfaceId, &Own)> {
        (0..).zip(&self.table).filter_map(|(id, own)| Some((InterfaceId(id), own.as_ref()?)))
    }

    /// All own addresses with their state.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = AddressInfo> + '_ {
        self.iter().flat_map(|(interface, own)| {
            own.config.addresses.iter().map(move |&address| {
                let state = match address.address {
                    IpAddr::V4(_) => AddressState::Valid,
                    IpAddr::V6(a) => own.detection.get(&a).map_or(AddressState::Tentative, |d| d.state),
                };
                AddressInfo { interface, address, state }
            })
        })
    }
}

/// In order of addresses. An address that several have is that of the lowest interface; one that is on no interface as
/// well is in use whatever becomes of interfaces.
fn sort<K: Ord + Copy>(owners: &mut Vec<(K, Owner)>) {
    owners.sort_unstable();
    owners.dedup_by_key(|(address, _)| *address);
}

/// What belongs to a key in a sorted list.
fn find<K: Ord>(sorted: &[(K, Owner)], key: &K) -> Option<Owner> {
    let index = sorted.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
    Some(sorted[index].1)
}
