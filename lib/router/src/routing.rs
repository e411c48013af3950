// SPDX-License-Identifier: MIT
//! The routes and what follows from them: the forwarding table, the workers' tables, the slow path's view.

use crate::gateways::is_link_local;
use crate::lookups::Lookups;
use perigee_config::Config;
use perigee_fib::{Fib, FibError, FibWriter, Interfaces, Leaf, NextHopId, NextHopInfo, NextHopWriter, Published, Via};
use perigee_modules::filter::Filter;
use perigee_modules::{Tables, Taps};
use perigee_net::{Interface, InterfaceId, MacAddr, Prefix, Prefix4, Route, RouteKey, RouteSource, RouteTarget};
use perigee_packet::PortInfo;
use perigee_slowpath::{RouteDecision, Routes};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room for next hops; each costs 8 bytes once it is used.
const NEXT_HOPS: u32 = NextHopWriter::MAX;

/// Gateways that routes need: interface and address.
pub type Gateways = BTreeSet<(InterfaceId, IpAddr)>;

/// A route that was changed: its prefix and key, and what was there before.
pub type Undo = (Prefix, RouteKey, Option<Route>);

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
    /// What [`tables`](Self::tables) shows of it.
    shown: Fib,
    /// Whether anything has changed since the last [`commit`](Self::commit).
    changed: bool,
    /// Whether there are other interfaces than workers know.
    renewed: bool,
    interfaces: Arc<Interfaces>,
    filters: Filters,
    macs: Vec<MacAddr>,
    /// Routes added while the router runs: they survive a reload.
    by_hand: BTreeMap<(Prefix, RouteKey), Route>,
    /// Where somebody looks at packets.
    taps: Option<Arc<Taps>>,
}

/// The interfaces of a configuration, on the ports as they were opened (in the configuration's order).
///
/// # Errors
/// A sentence: an interface has no port.
pub fn configured(config: &Config, ports: &[PortInfo]) -> Result<Vec<Interface>, String> {
    let convert = |interface: &perigee_config::Interface| {
        let port = ports.get(usize::from(interface.port)).ok_or("an interface without a port")?;
        Ok(Interface {
            name: interface.name.clone(),
            port: port.port,
            vlan: interface.vlan,
            mtu: interface.mtu,
            mac: port.mac,
            up: true,
            addresses: interface.addresses.clone(),
        })
    };
    config.interfaces.iter().map(convert).collect()
}

impl Routing {
    /// Everything the configuration says, on the ports as they were opened.
    ///
    /// # Errors
    /// A sentence that says which interface or route does not fit.
    pub fn new(config: &Config, ports: &[PortInfo], filters: Filters, lookups: &Lookups) -> Result<Routing, String> {
        Self::with(config, configured(config, ports)?, ports, filters, lookups, Vec::new())
    }

    /// The same with interfaces as they are now, and with routes of other sources.
    ///
    /// # Errors
    /// The same.
    pub fn with(
        config: &Config,
        interfaces: Vec<Interface>,
        ports: &[PortInfo],
        filters: Filters,
        lookups: &Lookups,
        others: Vec<(Prefix, Route)>,
    ) -> Result<Routing, String> {
        let interfaces = Arc::new(Interfaces::new(interfaces).map_err(|error| error.to_string())?);
        let width = ports.iter().map(|port| usize::from(port.port) + 1).max().unwrap_or(0);
        let mut macs = vec![MacAddr::ZERO; width];
        ports.iter().for_each(|port| macs[usize::from(port.port)] = port.mac);
        let fib = lookups.make(&config.router.fib, NEXT_HOPS).map_err(|error| error.to_string())?;
        let shown = fib.reader();
        let by_hand = BTreeMap::new();
        let (changed, renewed, taps) = (true, false, None);
        let mut routing = Routing { fib, shown, changed, renewed, interfaces, filters, macs, by_hand, taps };
        routing.fib.set_seed(seed(&routing.macs));
        let mut routes = own(&routing.interfaces)?;
        routes.extend(others);
        routes.extend(config.all_routes().cloned());
        routing.fib.load(routes).map_err(|error| format!("routes: {error}"))?;
        routing.commit()?;
        routing.renewed();
        Ok(routing)
    }

    /// Whether there are changes to [`commit`](Self::commit).
    pub fn uncommitted(&self) -> bool {
        self.changed || self.fib.pending()
    }

    /// Makes all changes so far visible: in the tables that workers have, or in new ones, see [`renewed`](Self::renewed).
    ///
    /// # Errors
    /// A lookup structure has no room for a change; it is tried again with the next one. The other changes are visible.
    pub fn commit(&mut self) -> Result<(), String> {
        self.changed = false;
        self.fib.commit().map_err(|error| error.to_string())
    }

    /// Whether a commit costs no more than the changes in it, in both families; else it builds a whole table anew.
    pub fn commit_is_cheap(&self) -> bool {
        self.fib.commit_is_cheap()
    }

    /// Whether [`tables`](Self::tables) are others than before, and so have to be published. To be asked after each
    /// [`commit`](Self::commit).
    pub fn renewed(&mut self) -> bool {
        let reader = self.fib.reader();
        let renewed = !reader.is_same(&self.shown);
        self.shown = reader;
        std::mem::take(&mut self.renewed) || renewed
    }

    /// The tables that workers should see, as of the last [`renewed`](Self::renewed).
    pub fn tables(&self) -> Tables {
        let fib = self.shown.clone();
        Tables::new(fib.v4, fib.v6, fib.next_hops, self.interfaces.clone(), self.filters.deny.clone(), &self.macs)
            .with_steer(self.filters.steer.clone())
            .with_taps(self.taps.clone())
    }

    /// Where somebody looks at packets.
    pub fn taps(&self) -> Option<Arc<Taps>> {
        self.taps.clone()
    }

    /// Puts taps into the [`tables`](Self::tables), which then have to be published.
    pub fn set_taps(&mut self, taps: Option<Arc<Taps>>) {
        self.taps = taps;
    }

    /// The interfaces.
    pub fn interfaces(&self) -> &Arc<Interfaces> {
        &self.interfaces
    }

    /// Other interfaces take the place of those there are, and so do the routes that follow from their addresses. An
    /// interface keeps its number; there may be more of them at the end.
    ///
    /// # Errors
    /// A sentence about what does not fit. What does is done.
    pub fn set_interfaces(&mut self, list: Vec<Interface>) -> Result<(), String> {
        let interfaces = Interfaces::new(list).map_err(|error| error.to_string())?;
        let key = |(prefix, route): (Prefix, Route)| ((prefix, route.key()), route);
        let before: BTreeMap<_, _> = own(&self.interfaces)?.into_iter().map(key).collect();
        let now: BTreeMap<_, _> = own(&interfaces)?.into_iter().map(key).collect();
        self.interfaces = Arc::new(interfaces);
        (self.changed, self.renewed) = (true, true);
        let mut result = Ok(());
        // First what is new: a destination that only changes its interface is never without a route.
        for ((prefix, _), route) in now.iter().filter(|(key, route)| before.get(key) != Some(route)) {
            result = result.and(self.fib.insert(*prefix, route.clone()).map_err(|error| error.to_string()));
        }
        for (prefix, key) in before.keys().filter(|key| !now.contains_key(key)) {
            result = result.and(self.fib.remove(*prefix, *key).map(drop).map_err(|error| error.to_string()));
        }
        result
    }

    /// Other filters; workers have them with the next tables. Returns those before.
    pub fn set_filters(&mut self, filters: Filters) -> Filters {
        (self.changed, self.renewed) = (true, true);
        std::mem::replace(&mut self.filters, filters)
    }

    /// The static routes of one configuration give way to those of another; routes by hand stay. Returns how to
    /// [`undo`](Self::undo) it.
    ///
    /// # Errors
    /// A sentence about what does not fit; nothing has changed.
    pub fn follow_static(&mut self, before: &Config, now: &Config) -> Result<Vec<Undo>, String> {
        let keyed = |config: &Config| -> BTreeMap<(Prefix, RouteKey), Route> {
            config.all_routes().map(|(prefix, route)| ((*prefix, route.key()), route.clone())).collect()
        };
        let (before, now) = (keyed(before), keyed(now));
        let mut undo = Vec::new();
        for ((prefix, key), route) in now.iter().filter(|(key, _)| !self.by_hand.contains_key(key)) {
            let present = self.rib().route(*prefix, *key).cloned();
            if present.as_ref() == Some(route) {
                continue;
            }
            if let Err(error) = self.fib.insert(*prefix, route.clone()) {
                self.undo(undo);
                return Err(format!("routes: {error}"));
            }
            undo.push((*prefix, *key, present));
        }
        let gone = before.keys().filter(|key| !now.contains_key(key) && !self.by_hand.contains_key(key));
        let gone: Vec<_> = gone.copied().collect();
        for (prefix, key) in gone {
            // One that was deleted by hand is gone already.
            if let Ok(route) = self.fib.remove(prefix, key) {
                undo.push((prefix, key, Some(route)));
            }
        }
        self.changed = true;
        Ok(undo)
    }

    /// Takes back what [`follow_static`](Self::follow_static) did.
    pub fn undo(&mut self, undo: Vec<Undo>) {
        self.changed = true;
        for (prefix, key, before) in undo.into_iter().rev() {
            let undone = match before {
                Some(route) => self.fib.insert(prefix, route),
                None => self.fib.remove(prefix, key).map(drop),
            };
            if let Err(error) = undone {
                tracing::error!("the route to {prefix} is not as it was: {error}");
            }
        }
    }

    /// The routes and their forwarding table.
    pub fn fib(&mut self) -> &mut FibWriter {
        &mut self.fib
    }

    /// What the lookup structures of IPv4 and IPv6 are: name, bytes, and why, where they have chosen themselves.
    pub fn structures(&self) -> [(&'static str, usize, Option<String>); 2] {
        let ((v4, v6), [why4, why6]) = (self.fib.memory(), self.fib.why());
        [(self.shown.v4.name(), v4, why4), (self.shown.v6.name(), v6, why6)]
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

    /// A route of Linux is there now; whether that changes anything.
    ///
    /// # Errors
    /// It does not fit.
    pub fn insert(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError> {
        if self.fib.rib().route(prefix, route.key()) == Some(&route) {
            return Ok(false);
        }
        self.changed = true;
        self.fib.insert(prefix, route).map(|()| true)
    }

    /// It is gone.
    ///
    /// # Errors
    /// There is none, or what is left does not fit.
    pub fn withdraw(&mut self, prefix: Prefix, key: RouteKey) -> Result<Route, FibError> {
        self.changed = true;
        self.fib.remove(prefix, key)
    }

    /// Adds a route by hand.
    ///
    /// # Errors
    /// A sentence about what does not fit; nothing has changed.
    pub fn add(&mut self, prefix: Prefix, route: Route) -> Result<(), String> {
        self.fib.insert(prefix, route.clone()).map_err(|error| error.to_string())?;
        self.changed = true;
        self.by_hand.insert((prefix, route.key()), route);
        Ok(())
    }

    /// Removes a static route.
    ///
    /// # Errors
    /// There is none.
    pub fn remove(&mut self, prefix: Prefix, key: RouteKey) -> Result<Route, String> {
        let route = self.fib.remove(prefix, key).map_err(|error| error.to_string())?;
        self.changed = true;
        self.by_hand.remove(&(prefix, key));
        Ok(route)
    }

    /// What workers look up in.
    pub fn reader(&self) -> Fib {
        self.fib.reader()
    }

    /// The next hop of an address by the routes.
    pub fn rib_says(&self, address: IpAddr) -> NextHopId {
        self.fib.expected(address)
    }

    /// Writes a prefix, and those inside it, into the lookup structure anew.
    ///
    /// # Errors
    /// It has no room.
    pub fn repair(&mut self, prefix: Prefix) -> Result<usize, FibError> {
        self.changed = true;
        self.fib.repair(prefix)
    }

    /// The gateways that routes need resolved.
    pub fn gateways(&self) -> Gateways {
        self.fib.wanted().into_iter().collect()
    }

    /// The link of the connected network that a gateway is in, if it is in one.
    pub fn link_of(&self, gateway: IpAddr) -> Option<InterfaceId> {
        self.fib.link_of(gateway).ok()
    }

    /// The same for a gateway that should be in one.
    ///
    /// # Errors
    /// A sentence about what to do.
    pub fn find_link(&self, gateway: IpAddr) -> Result<InterfaceId, String> {
        self.fib.link_of(gateway).map_err(|error| error.to_string())
    }

    /// Where a gateway that a route names without an interface is reached now.
    pub fn reached_by(&self, gateway: IpAddr) -> Option<Via> {
        self.fib.reached_by(gateway)
    }

    /// All next hops in use.
    pub fn next_hops(&self) -> impl Iterator<Item = NextHopInfo> {
        self.fib.next_hops()
    }

    /// A neighbor has been resolved, changed or (without a MAC address) lost: its next hops change, and a destination on
    /// a connected network gains or loses the host route that keeps its packets in the fast path.
    pub fn neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        self.changed = true;
        self.fib.set_neighbor(interface, address, mac);
        let host = Prefix::host(address);
        if mac.is_none() || is_link_local(address) {
            // It is missing where the neighbor was only ever a gateway on another network.
            let _ = self.fib.remove(host, RouteKey::of(RouteSource::Neighbor));
            return;
        }
        let target = RouteTarget::Gateway { address, interface: Some(interface) };
        if let Err(error) = self.fib.insert(host, Route::new(RouteSource::Neighbor, target)) {
            tracing::warn!("neighbor {address} stays in the slow path: {error}");
        }
    }

    /// Whether an address is on the network of one of an interface's addresses.
    pub fn on_link(&self, interface: InterfaceId, address: IpAddr) -> bool {
        let Some(interface) = self.interfaces.get(interface) else { return false };
        interface.addresses.iter().any(|own| own.covers(address))
    }
}

/// The router's own addresses, their networks, and those networks' broadcast addresses. An interface that is down has none
/// of them; link-local addresses are no matter of routes.
fn own(interfaces: &Interfaces) -> Result<Vec<(Prefix, Route)>, String> {
    let mut routes = Vec::new();
    let up = interfaces.iter().filter(|(_, interface)| interface.up);
    let addresses = up.flat_map(|(id, interface)| interface.addresses.iter().map(move |address| (id, *address)));
    for (interface, own) in addresses.filter(|(_, own)| !is_link_local(own.address)) {
        let local = Route::new(RouteSource::Local, RouteTarget::Local);
        let (host, network) = (Prefix::host(own.address), own.network());
        routes.push((host, local.clone()));
        if network != host {
            routes.push((network, Route::new(RouteSource::Connected, RouteTarget::Connected { interface })));
        }
        if let Prefix::V4(network) = network
            && network.len() <= 30
        {
            // RFC 1812 5.3.5.2: a directed broadcast is for the router to see, not to forward.
            routes.push((Prefix4::host(network.last()).into(), local));
        }
    }
    Ok(routes)
}

/// What sets this router's choices among equal ways apart from other routers', and stays the same over reloads and
/// restarts: its MAC addresses.
fn seed(macs: &[MacAddr]) -> u32 {
    // FNV-1a (Fowler, Noll, Vo) with 32 bits; whatever is weak in it is mixed again with each flow.
    macs.iter()
        .flat_map(|mac| mac.octets())
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

impl Routes for Routing {
    /// As the workers find it, so that all packets of a flow go one way.
    fn route(&self, destination: IpAddr, flow: u32) -> RouteDecision {
        match self.fib.decide(destination, flow) {
            Leaf::Via(Via { interface, gateway: Some(gateway) }) if gateway != destination => {
                RouteDecision::Gateway(interface, gateway)
            }
            Leaf::Via(Via { interface, .. }) => RouteDecision::Connected(interface),
            Leaf::Fixed(NextHopId::LOCAL) => RouteDecision::Local,
            Leaf::Fixed(NextHopId::UNREACHABLE) => RouteDecision::Unreachable,
            Leaf::Fixed(NextHopId::PROHIBIT) => RouteDecision::Prohibit,
            Leaf::Fixed(NextHopId::BLACKHOLE) => RouteDecision::Blackhole,
            Leaf::Fixed(_) => RouteDecision::NoRoute,
        }
    }
}
