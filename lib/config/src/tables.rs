// SPDX-License-Identifier: MIT
//! A configuration as the tables of a file that says the same: what is printed, and what a reload compares.

use super::filters::FilterKeys;
use super::given::At;
use super::interfaces::{AddressKeys, Interface, PolicyKeys, VlanKeys};
use super::model::Config;
use super::multicast::{LimitKeys, MulticastKeys};
use super::neighbors::NeighborKeys;
use super::ports::DeviceKeys;
use super::routes::{PrefixKeys, RouteKeys, ViaKeys};
use super::routes_file::FileKeys;
use super::section::{Entry, Keys};
use super::steers::{SteerKeys, steered};
use super::tuples::TupleKeys;
use super::workers::{CoreKeys, WorkerKeys};

/// A table of the file.
pub(crate) struct Table {
    /// `[router]`, `[[route]]`; empty for what stands before the first head.
    pub head: String,
    pub entries: Vec<Entry>,
}

impl Table {
    fn new(head: impl Into<String>, entries: impl IntoIterator<Item = Vec<Entry>>) -> Self {
        Self { head: head.into(), entries: entries.into_iter().flatten().collect() }
    }
}

impl Config {
    /// Every table. A key that is not in here is neither printed nor compared.
    pub(crate) fn tables(&self) -> Vec<Table> {
        // All fields are named, so that a new one cannot be forgotten here.
        let Self {
            router,
            eal,
            linux,
            policer,
            workers,
            ports,
            interfaces,
            routes,
            file_routes: _,
            routes_file,
            neighbors,
            multicast,
            filters,
            steers,
            warnings: _,
            places: _,
        } = self;
        let cores = WorkerKeys::of(workers);
        let mut tables = vec![
            Table::new("", [FileKeys { routes_file: routes_file.clone() }.entries()]),
            Table::new("[router]", [Some(router.entries()), cores.as_ref().map(Keys::entries)].into_iter().flatten()),
            Table::new("[eal]", [eal.entries()]),
            Table::new("[linux]", [linux.entries()]),
            Table::new("[policer]", [policer.entries()]),
        ];
        // Only where they name ports: else they are listed above.
        let named = workers.iter().filter(|_| cores.is_none());
        tables.extend(named.map(|worker| Table::new("[[worker]]", [CoreKeys::of(worker, ports).entries()])));
        tables.extend((0..ports.len()).flat_map(|index| self.tables_of_port(index)));
        tables.extend(routes.iter().map(|(prefix, route)| {
            let via = ViaKeys::of(route, interfaces).entries();
            Table::new("[[route]]", [PrefixKeys::of(*prefix).entries(), via, RouteKeys::of(route).entries()])
        }));
        let of_neighbor = |neighbor| NeighborKeys::of(neighbor, interfaces).entries();
        tables.extend(neighbors.iter().map(|neighbor| Table::new("[[neighbor]]", [of_neighbor(neighbor)])));
        let of_group = |route| MulticastKeys::of(route, interfaces).entries();
        tables.extend(multicast.iter().map(|route| Table::new("[[multicast]]", [of_group(route)])));
        tables.extend(filters.iter().map(|filter| {
            Table::new("[[filter]]", [TupleKeys::of(&filter.tuple).entries(), FilterKeys::of(filter).entries()])
        }));
        tables.extend(steers.iter().map(|steer| {
            let tuple = TupleKeys::of(&steer.tuple());
            Table::new("[[steer]]", [steered(&SteerKeys::of(steer, ports), &tuple)])
        }));
        tables
    }

    /// A port and its VLANs.
    fn tables_of_port(&self, index: usize) -> Vec<Table> {
        let port = &self.ports[index];
        let own = &self.interfaces[index];
        let keys = [DeviceKeys::of(&port.device).entries(), port.entries()];
        let mut tables = vec![Table::new(format!("[port.{}]", port.name), keys.into_iter().chain(of_interface(own)))];
        // Only what differs from all ports' limits.
        let all = self.policer.entries();
        let differ = port.policer.entries().into_iter().zip(all).filter(|(own, all)| own.value != all.value);
        let policer = Table::new(format!("[port.{}.policer]", port.name), [differ.map(|(own, _)| own).collect()]);
        tables.extend(Some(policer).filter(|table| !table.entries.is_empty()));
        let of_port = self.interfaces.iter().filter(|interface| usize::from(interface.port) == index);
        tables.extend(of_port.filter_map(|interface| {
            let head = format!("[port.{}.vlan.{}]", port.name, interface.vlan?);
            let mtu = VlanKeys { mtu: Some(At::nowhere(interface.mtu)) };
            Some(Table::new(head, [mtu.entries()].into_iter().chain(of_interface(interface))))
        }));
        tables
    }
}

/// The keys that ports and VLANs have in common.
fn of_interface(interface: &Interface) -> [Vec<Entry>; 3] {
    let limits = LimitKeys::of(&interface.multicast).entries();
    [AddressKeys::of(&interface.addresses).entries(), PolicyKeys::of(interface.policy).entries(), limits]
}
