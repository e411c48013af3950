// SPDX-License-Identifier: MIT
//! The part of the tables that the follower of Linux may touch: interfaces, and the routes of source Linux. Its audit
//! also compares and repairs lookup structures and next hops.

use super::Forwarding;
use perigee_fib::{FibError, Interfaces, MulticastOrigin, NextHopId, NextHopInfo, Rib};
use perigee_linux::{Audited, KnownNeighbor, Table};
use perigee_modules::exceptions::Exceptions;
use perigee_net::{
    Exception, HostAddress, Interface, InterfaceId, MacAddr, MulticastRoute, Prefix, Route, RouteKey, RouteSource,
};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

impl Table for Forwarding {
    fn interfaces(&self) -> &Interfaces {
        self.routing.interfaces()
    }

    fn set_interfaces(&mut self, list: Vec<Interface>, host_addresses: Vec<HostAddress>) {
        self.renewed = true;
        // A port that is Linux's own interface has the MAC address that Linux gives it.
        for interface in list.iter().filter(|interface| interface.vlan.is_none()) {
            self.macs.get_mut(usize::from(interface.port)).into_iter().for_each(|mac| *mac = interface.mac);
        }
        if let Err(error) = self.routing.set_interfaces(list, host_addresses) {
            tracing::error!("an interface is not as Linux has it: {error}");
        }
    }

    fn set_linux_connects(&mut self, interfaces: BTreeSet<InterfaceId>) {
        if let Err(error) = self.routing.set_linux_connects(interfaces) {
            tracing::error!("a connected network is not as Linux has it: {error}");
        }
    }

    fn rib(&self) -> Rib<'_> {
        self.routing.rib()
    }

    fn insert(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError> {
        debug_assert_eq!(route.source, RouteSource::Linux);
        self.routing.set(prefix, route)
    }

    fn stand_in(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError> {
        debug_assert_eq!(route.source, RouteSource::Linux);
        self.routing.set_reserved(prefix, route)
    }

    fn has_room(&self) -> bool {
        self.routing.has_room()
    }

    fn withdraw(&mut self, prefix: Prefix, key: RouteKey) -> Result<(), FibError> {
        debug_assert_eq!(key.source, RouteSource::Linux);
        self.routing.fib_mut().remove(prefix, key).map(drop)
    }

    fn set_exceptions(&mut self, list: Vec<Exception>, refused: bool) {
        self.renewed = true;
        self.routing.set_exceptions(Exceptions::new(list).map(Arc::new), refused);
    }

    fn set_multicast(&mut self, routes: Vec<(MulticastRoute, MulticastOrigin)>) {
        self.renewed = true;
        self.routing.set_linux_multicast(routes);
    }
}

impl Audited for Forwarding {
    fn uncommitted(&self) -> bool {
        Forwarding::uncommitted(self)
    }

    fn expected(&self, address: IpAddr) -> NextHopId {
        self.routing.fib().expected(address)
    }

    fn found(&self, address: IpAddr) -> NextHopId {
        self.routing.fib().reader().lookup(address).0
    }

    fn repair(&mut self, prefix: Prefix) -> Result<usize, FibError> {
        self.routing.fib_mut().repair(prefix)
    }

    fn next_hops(&self) -> Vec<NextHopInfo> {
        self.routing.fib().next_hops().collect()
    }

    fn on_link(&self) -> Vec<KnownNeighbor> {
        let known =
            |(interface, address, mac): (_, _, Option<MacAddr>)| Some(KnownNeighbor { interface, address, mac: mac? });
        self.routing.fib().on_link().filter_map(known).collect()
    }

    fn found_on_link(&self, interface: InterfaceId, address: IpAddr) -> Option<MacAddr> {
        self.routing.fib().found_on_link(interface, address)
    }

    fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        Forwarding::set_neighbor(self, interface, address, mac);
    }
}
