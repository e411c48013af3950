// SPDX-License-Identifier: MIT
//! The router's own interfaces and addresses, with their state of duplicate address detection.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perigee_net::{Interface, InterfaceAddress, InterfaceId, is_link_local, solicited_node};

use crate::Time;

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

    /// Is it the solicited-node group of one of this interface's addresses?
    pub(crate) fn has_solicited_node(&self, group: Ipv6Addr) -> bool {
        self.detection.keys().any(|address| solicited_node(*address) == group)
    }

    fn valid(&self) -> impl Iterator<Item = &InterfaceAddress> {
        self.config.addresses.iter().filter(|a| self.is_valid(a.address))
    }

    /// The IPv4 address to speak from: one in the prefix of `to` if there is one, else the primary one.
    pub(crate) fn source4(&self, to: Option<Ipv4Addr>) -> Option<Ipv4Addr> {
        let near = to.and_then(|to| self.valid().find(|a| a.covers(IpAddr::V4(to))));
        let any = || self.valid().find(|a| a.address.is_ipv4());
        match near.or_else(any)?.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }

    /// The IPv6 address to speak from: of the same scope as `to`, if there is one; link-local for neighbor discovery.
    pub(crate) fn source6(&self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        let local = to.is_unicast_link_local() || to.is_multicast();
        let all = || self.valid().filter_map(|a| if let IpAddr::V6(v6) = a.address { Some((a, v6)) } else { None });
        let near = all().find(|(a, v6)| !local && !v6.is_unicast_link_local() && a.covers(IpAddr::V6(to)));
        let scope = || all().find(|(_, v6)| v6.is_unicast_link_local() == local);
        // A link-local source reaches no further than the link, so it is only for destinations on it.
        let last = || all().find(|_| self.on_link(IpAddr::V6(to)) || to.is_multicast());
        near.or_else(scope).or_else(last).map(|(_, v6)| v6)
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.detection.values().filter(|d| d.state == AddressState::Tentative).map(|d| d.due).min()
    }
}

/// All interfaces, and which addresses are the router's. Every packet asks several times, so it is all in sorted arrays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interfaces {
    /// By number.
    table: Vec<Option<Own>>,
    /// Which interface has each address that is not link-local: the lowest one.
    owners4: Vec<(Ipv4Addr, InterfaceId)>,
    owners6: Vec<(Ipv6Addr, InterfaceId)>,
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

    fn index(&mut self) {
        self.changes += 1;
        let (mut owners4, mut owners6, mut broadcasts) = (Vec::new(), Vec::new(), Vec::new());
        for (id, own) in self.iter() {
            for a in &own.config.addresses {
                match a.address {
                    _ if is_link_local(a.address) => {}
                    IpAddr::V4(v4) => owners4.push((v4, id)),
                    IpAddr::V6(v6) => owners6.push((v6, id)),
                }
                broadcasts.extend(a.broadcasts().map(|broadcast| (broadcast, id)));
            }
        }
        owners4.sort_unstable();
        owners4.dedup_by_key(|(address, _)| *address);
        owners6.sort_unstable();
        owners6.dedup_by_key(|(address, _)| *address);
        broadcasts.sort_unstable();
        broadcasts.dedup();
        (self.owners4, self.owners6, self.broadcasts) = (owners4, owners6, broadcasts);
    }

    /// The interface that has this address. A link-local one is looked for on the receiving interface alone (RFC 4007 5).
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
        let lowest = self.get(id?);
        here().or(lowest)
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

/// What belongs to a key in a sorted list.
fn find<K: Ord>(sorted: &[(K, InterfaceId)], key: &K) -> Option<InterfaceId> {
    let index = sorted.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
    Some(sorted[index].1)
}
