// SPDX-License-Identifier: MIT
//! The routes and what follows from them: the forwarding table, the workers' tables, the slow path's view.

use ipnet::IpNet;
use perigee_control::config::{Config, Route as ConfigRoute, RouteTo};
use perigee_fib::{FibWriter, Interface, InterfaceId, Interfaces, Prefix, Published, Route, RouteSource, RouteTarget};
use perigee_modules::Tables;
use perigee_modules::filter::Filter;
use perigee_packet::PortInfo;
use perigee_slowpath::{RouteDecision, Routes};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room for gateways; each costs 8 bytes once it is used.
const NEXT_HOPS: u32 = 1 << 20;

/// Gateways that routes need: interface and address.
pub type Gateways = BTreeSet<(u16, IpAddr)>;

/// A published value that several control threads share. Workers never take this lock: they have subscribers.
pub type SharedTables = Arc<Mutex<Published<Tables>>>;

/// Locks, and goes on after a panic elsewhere: the value is replaced as a whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The configuration's filters, compiled.
#[derive(Clone, Default)]
pub struct Filters {
    /// What is dropped.
    pub deny: Option<Arc<dyn Filter>>,
    /// What goes to the slow path, where no device steers it there.
    pub steer: Option<Arc<dyn Filter>>,
}

/// RIB, forwarding table and interfaces of a router.
pub struct Routing {
    fib: FibWriter,
    interfaces: Arc<Interfaces>,
    filters: Filters,
    macs: Vec<[u8; 6]>,
    /// Routes added while the router runs: they survive a reload.
    by_hand: BTreeMap<(Prefix, u32), Route>,
}

/// A prefix of the configuration as the table knows it.
pub fn prefix(net: IpNet) -> Prefix {
    Prefix::truncated(net.addr(), net.prefix_len()).expect("ipnet keeps lengths within their family")
}

/// The other way round.
pub fn net(prefix: Prefix) -> IpNet {
    IpNet::new(prefix.addr(), prefix.len()).expect("prefixes keep lengths within their family")
}

/// A route of the configuration as the table knows it.
fn static_route(route: &ConfigRoute) -> Route {
    let target = match route.to {
        RouteTo::Via { address, interface } => {
            RouteTarget::Gateway { address, interface: Some(InterfaceId(interface)) }
        }
        RouteTo::Blackhole => RouteTarget::Blackhole,
        RouteTo::Unreachable => RouteTarget::Unreachable,
        RouteTo::Prohibit => RouteTarget::Prohibit,
    };
    Route { source: RouteSource::Static, metric: route.metric, target }
}

/// The interfaces of a configuration, on the ports as they were opened (in the configuration's order).
fn interfaces(config: &Config, ports: &[PortInfo]) -> Result<Interfaces, String> {
    let convert = |interface: &perigee_control::config::Interface| {
        let port = ports.get(usize::from(interface.port)).ok_or("an interface without a port")?;
        Ok(Interface {
            name: interface.name.clone(),
            port: port.port,
            vlan: interface.vlan,
            mtu: interface.mtu,
            mac: port.mac.octets(),
            addresses: interface.addresses.iter().map(|net| (net.addr(), net.prefix_len())).collect(),
        })
    };
    let list = config.interfaces.iter().map(convert).collect::<Result<Vec<_>, String>>()?;
    Interfaces::new(list).map_err(|error| error.to_string())
}

impl Routing {
    /// Everything the configuration says, on the ports as they were opened.
    ///
    /// # Errors
    /// A sentence that says which interface or route does not fit.
    pub fn new(config: &Config, ports: &[PortInfo], filters: Filters) -> Result<Routing, String> {
        let interfaces = Arc::new(interfaces(config, ports)?);
        let width = ports.iter().map(|port| usize::from(port.port) + 1).max().unwrap_or(0);
        let mut macs = vec![[0; 6]; width];
        ports.iter().for_each(|port| macs[usize::from(port.port)] = port.mac.octets());
        let fib = FibWriter::new(NEXT_HOPS).map_err(|error| error.to_string())?;
        let mut routing = Routing { fib, interfaces, filters, macs, by_hand: BTreeMap::new() };
        routing.add_own()?;
        for route in config.all_routes() {
            let found = prefix(route.prefix);
            routing.fib.insert(found, static_route(route)).map_err(|error| format!("route {found}: {error}"))?;
        }
        Ok(routing)
    }

    /// The router's own addresses, their networks, and those networks' broadcast addresses.
    fn add_own(&mut self) -> Result<(), String> {
        let interfaces = self.interfaces.clone();
        let own = interfaces.iter().flat_map(|(id, i)| i.addresses.iter().map(move |a| (id, *a)));
        for (interface, (address, length)) in own {
            let local = Route { source: RouteSource::Local, metric: 0, target: RouteTarget::Local };
            let connected = RouteTarget::Connected { interface };
            let connected = Route { source: RouteSource::Connected, metric: 0, target: connected };
            let network = Prefix::truncated(address, length).map_err(|error| error.to_string())?;
            let mut routes = vec![(Prefix::host(address), local)];
            if network != Prefix::host(address) {
                routes.push((network, connected));
            }
            if let (IpAddr::V4(address), 0..=30) = (address, length) {
                // RFC 1812 5.3.5.2: a directed broadcast is for the router to see, not to forward.
                let host_bits = u32::MAX.checked_shr(length.into()).unwrap_or(0);
                let broadcast = Ipv4Addr::from_bits(address.to_bits() | host_bits);
                routes.push((Prefix::host(broadcast.into()), local));
            }
            for (prefix, route) in routes {
                self.fib.insert(prefix, route).map_err(|error| format!("{prefix}: {error}"))?;
            }
        }
        Ok(())
    }

    /// The tables that workers should see.
    pub fn tables(&self) -> Tables {
        let fib = self.fib.reader();
        Tables::new(fib.v4, fib.v6, fib.next_hops, self.interfaces.clone(), self.filters.deny.clone(), &self.macs)
            .with_steer(self.filters.steer.clone())
    }

    /// The interfaces.
    pub fn interfaces(&self) -> &Arc<Interfaces> {
        &self.interfaces
    }

    /// The routes and their forwarding table.
    pub fn fib(&mut self) -> &mut FibWriter {
        &mut self.fib
    }

    /// All routes.
    pub fn rib(&self) -> &perigee_fib::Rib {
        self.fib.rib()
    }

    /// Bytes of the lookup structures.
    pub fn memory(&self) -> usize {
        let (v4, v6) = self.fib.memory();
        v4 + v6
    }

    /// Routes that were added while the router runs.
    pub fn by_hand(&self) -> impl Iterator<Item = (Prefix, &Route)> {
        self.by_hand.iter().map(|((prefix, _), route)| (*prefix, route))
    }

    /// Adds a route by hand. Returns it as it was stored, its interface found.
    ///
    /// # Errors
    /// A sentence about what does not fit; nothing has changed.
    pub fn add(&mut self, prefix: Prefix, route: Route) -> Result<Route, String> {
        self.fib.insert(prefix, route).map_err(|error| error.to_string())?;
        let routes = self.fib.rib().routes(prefix).iter();
        let same = |r: &&Route| r.source == route.source && r.metric == route.metric;
        let stored = routes.copied().collect::<Vec<_>>().iter().find(same).copied().unwrap_or(route);
        self.by_hand.insert((prefix, route.metric), stored);
        Ok(stored)
    }

    /// Removes a static route.
    ///
    /// # Errors
    /// There is none.
    pub fn remove(&mut self, prefix: Prefix, metric: u32) -> Result<Route, String> {
        let route = self.fib.remove(prefix, RouteSource::Static, metric).map_err(|error| error.to_string())?;
        self.by_hand.remove(&(prefix, metric));
        Ok(route)
    }

    /// The gateways that static routes need.
    pub fn gateways(&self) -> Gateways {
        let routes = self.fib.rib().iter().flat_map(|(_, routes)| routes);
        let gateway = |route: &Route| match (route.source, route.target) {
            (RouteSource::Static, RouteTarget::Gateway { address, interface: Some(interface) }) => {
                Some((interface.0, address))
            }
            _ => None,
        };
        routes.filter_map(gateway).collect()
    }

    /// A neighbor has been resolved, changed or (without a MAC address) lost: its next hops change, and a destination on
    /// a connected network gains or loses the host route that keeps its packets in the fast path.
    pub fn neighbor(&mut self, interface: u16, address: IpAddr, mac: Option<[u8; 6]>) {
        let id = InterfaceId(interface);
        self.fib.set_neighbor(id, address, mac);
        let host = Prefix::host(address);
        let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        if mac.is_none() || link_local {
            // It is missing where the neighbor was only ever a gateway on another network.
            let _ = self.fib.remove(host, RouteSource::Neighbor, 0);
            return;
        }
        let target = RouteTarget::Gateway { address, interface: Some(id) };
        let route = Route { source: RouteSource::Neighbor, metric: 0, target };
        if let Err(error) = self.fib.insert(host, route) {
            tracing::warn!("neighbor {address} stays in the slow path: {error}");
        }
    }

    /// Whether an address is on the network of one of an interface's addresses.
    pub fn on_link(&self, interface: u16, address: IpAddr) -> bool {
        let Some(interface) = self.interfaces.get(InterfaceId(interface)) else { return false };
        let on = |(own, length): &(IpAddr, u8)| Prefix::truncated(*own, *length).is_ok_and(|p| p.contains(address));
        interface.addresses.iter().any(on)
    }
}

impl Routes for Routing {
    fn route(&self, destination: IpAddr) -> RouteDecision {
        let Some((_, route)) = self.fib.rib().lookup(destination) else { return RouteDecision::NoRoute };
        match route.target {
            RouteTarget::Local => RouteDecision::Local,
            RouteTarget::Connected { interface } => RouteDecision::Connected(interface.0),
            RouteTarget::Gateway { address, interface: Some(interface) } if address == destination => {
                RouteDecision::Connected(interface.0)
            }
            RouteTarget::Gateway { address, interface: Some(interface) } => {
                RouteDecision::Gateway(interface.0, address)
            }
            // The table finds the interface of every gateway before it takes the route.
            RouteTarget::Gateway { interface: None, .. } => RouteDecision::NoRoute,
            RouteTarget::Unreachable => RouteDecision::Unreachable,
            RouteTarget::Prohibit => RouteDecision::Prohibit,
            RouteTarget::Blackhole => RouteDecision::Blackhole,
        }
    }
}
