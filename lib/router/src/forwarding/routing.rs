// SPDX-License-Identifier: MIT
//! The routes and what is derived from them: interfaces, connected routes, neighbors, operator routes.
//!
//! Except for lookup structures that are patched in place, nothing here is visible to workers: publishing is up to
//! [`Forwarding`](super::Forwarding).

use super::multicast::{Asks, Multicast, decide};
use super::{ForwardingError, lock};
use crate::room::Room;
use perigee_config::Config;
use perigee_fib::{FibError, FibWriter, Interfaces, Leaf, MulticastOrigin, NextHopId, Rib, Via};
use perigee_modules::exceptions::{self, Exceptions};
use perigee_net::{
    HostAddress, Interface, InterfaceId, LinuxOnly, MacAddr, MulticastRoute, Prefix, Prefix4, Route, RouteKey,
    RouteSource, RouteTarget, is_link_local,
};
use perigee_packet::{Ipv4, Ipv6};
use perigee_slowpath::{GroupPacket, MulticastDecision, RouteDecision, Routes, Time, Treatment};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Prefixes that are looked at in one step after links have changed.
const STEP: usize = 1024;
/// Destinations whose prefixes have their turn before others, in one step.
const MOST_ASKED: usize = 1024;

/// Gateways that routes need: interface and address.
pub(crate) type Gateways = BTreeSet<(InterfaceId, IpAddr)>;

/// A route that was changed: its prefix and key, and what was there before.
pub(crate) type Undo = (Prefix, RouteKey, Option<Route>);

/// Routes, the forwarding table that is derived from them, and interfaces.
pub(crate) struct Routing {
    fib: FibWriter,
    interfaces: Arc<Interfaces>,
    /// Interfaces whose connected networks are routes of Linux.
    linux_connects: BTreeSet<InterfaceId>,
    /// Routes added while the router runs: they survive a reload.
    operator: BTreeMap<(Prefix, RouteKey), Route>,
    multicast: Multicast,
    /// Packets that Linux treats otherwise than by the plain route.
    exceptions: Option<Arc<Exceptions>>,
    /// Whether those that are Linux's are refused.
    refuses: bool,
    /// The numbers of ports that have no link.
    no_link: BTreeSet<u16>,
    /// Destinations of packets that were left with a link that is down: their prefixes choose again before others.
    asked: RefCell<Vec<IpAddr>>,
    /// Whether anything has changed since the last [`commit`](Self::commit).
    changed: bool,
    /// How many routes may be held; tables that take the place of others share it.
    room: SharedRoom,
    /// Routes that were refused as there was no room.
    refused: u64,
}

/// Whether a route stands in for others that there is no room for.
fn stands_in(route: &Route) -> bool {
    matches!(route.target, RouteTarget::ToLinux(LinuxOnly::Limit) | RouteTarget::Refused(LinuxOnly::Limit))
}

/// The limit of routes, which a reload's tables have as well.
pub(crate) type SharedRoom = Arc<Mutex<Room>>;

/// What a table is made on.
#[derive(Default)]
pub(crate) struct Links {
    pub interfaces: Vec<Interface>,
    /// Addresses of the router that are on none of them.
    pub host_addresses: Vec<HostAddress>,
    /// The numbers of ports that have no link.
    pub no_link: BTreeSet<u16>,
}

impl Routing {
    /// A new table with these interfaces, the configuration's routes, and those of other sources.
    ///
    /// # Errors
    /// An interface or a route does not fit.
    pub fn new(
        mut fib: FibWriter,
        config: &Config,
        Links { interfaces, host_addresses, no_link }: Links,
        others: Vec<(Prefix, Route)>,
        room: SharedRoom,
    ) -> Result<Routing, ForwardingError> {
        let interfaces = Arc::new(Interfaces::new(interfaces)?.with_host_addresses(host_addresses));
        // Those that stand in for others may be beyond the limit.
        let stand_ins = others.iter().filter(|(_, route)| stands_in(route)).count();
        let mut routes = own(&interfaces, &BTreeSet::new());
        routes.extend(others);
        routes.extend(config.all_routes().cloned());
        if !lock(&room).holds(routes.len() - stand_ins) {
            return Err(ForwardingError::NoRoom { routes: routes.len() });
        }
        fib.set_down(down(&interfaces, &no_link)).map_err(ForwardingError::Routes)?;
        fib.load(routes).map_err(ForwardingError::Routes)?;
        let multicast = Multicast::new(config, &interfaces);
        let mut routing = Routing {
            fib,
            interfaces,
            linux_connects: BTreeSet::new(),
            operator: BTreeMap::new(),
            multicast,
            exceptions: None,
            refuses: false,
            no_link,
            asked: RefCell::default(),
            changed: false,
            room,
            refused: 0,
        };
        routing.commit()?;
        Ok(routing)
    }

    /// The forwarding table.
    pub fn fib(&self) -> &FibWriter {
        &self.fib
    }

    /// The forwarding table, to be changed.
    pub fn fib_mut(&mut self) -> &mut FibWriter {
        self.changed = true;
        &mut self.fib
    }

    /// Adds a route; returns whether that changes anything.
    ///
    /// # Errors
    /// It does not fit.
    pub fn set(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError> {
        self.make_room();
        let changed = self.fib.set(prefix, route);
        self.count_refusal(&changed);
        let changed = changed?;
        self.changed |= changed;
        Ok(changed)
    }

    /// As [`set`](Self::set) for a route that stands in for others, for which there is no room.
    ///
    /// # Errors
    /// There is none for it, either.
    pub fn set_reserved(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError> {
        let changed = self.fib.set_reserved(prefix, route)?;
        self.changed |= changed;
        Ok(changed)
    }

    /// Lets so many more routes in, which were there before a reload: its own interfaces' routes do not push them out.
    pub fn keep_room_for(&mut self, routes: usize) {
        let held = self.fib.routes();
        let most = lock(&self.room).most(held);
        self.fib.set_most(most.max(held.saturating_add(routes)));
    }

    /// Looks whether there is room for more routes, once what was granted is used up.
    fn make_room(&mut self) {
        let held = self.fib.routes();
        if held >= self.fib.most() || self.fib.most() == usize::MAX {
            self.fib.set_most(lock(&self.room).most(held));
        }
    }

    fn count_refusal<T>(&mut self, result: &Result<T, FibError>) {
        self.refused += u64::from(matches!(result, Err(FibError::TooMany { .. })));
    }

    /// Routes that were refused as there was no room.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The limit of routes.
    pub fn room(&self) -> &SharedRoom {
        &self.room
    }

    /// Whether there is room for a good part more.
    pub fn has_room(&self) -> bool {
        lock(&self.room).has_some(self.fib.routes())
    }

    /// From now until the next [`commit`](Self::commit) changes of routes are collected, and then made together.
    pub fn hold(&mut self) {
        self.fib.hold();
    }

    /// All routes.
    pub fn rib(&self) -> Rib<'_> {
        self.fib.rib()
    }

    pub fn interfaces(&self) -> &Arc<Interfaces> {
        &self.interfaces
    }

    /// Packets that Linux treats otherwise than by the plain route.
    pub fn exceptions(&self) -> Option<Arc<Exceptions>> {
        self.exceptions.clone()
    }

    /// Whether those that are Linux's are answered with "host unreachable".
    pub fn refuses(&self) -> bool {
        self.refuses
    }

    /// Replaces these; `refused`: those that are Linux's are answered with "host unreachable".
    pub fn set_exceptions(&mut self, exceptions: Option<Arc<Exceptions>>, refused: bool) {
        (self.exceptions, self.refuses) = (exceptions, refused);
    }

    /// The routes of groups.
    pub fn multicast(&self) -> &Multicast {
        &self.multicast
    }

    /// Replaces the configuration's routes of groups; returns those before.
    pub fn set_fixed_multicast(&mut self, routes: Vec<MulticastRoute>) -> Vec<MulticastRoute> {
        self.multicast.set_fixed(routes, &self.interfaces)
    }

    /// Replaces Linux's routes of groups.
    pub fn set_linux_multicast(&mut self, routes: Vec<(MulticastRoute, MulticastOrigin)>) {
        self.multicast.set_linux(routes, &self.interfaces);
    }

    /// Goes on with the counts of another table: of its routes of groups, and of refusals.
    pub fn count_on(&mut self, other: &Routing) {
        self.multicast.count_on(&other.multicast, &self.interfaces);
        self.refused += other.refused;
    }

    /// The name of an interface, for people.
    pub fn name_of(&self, interface: InterfaceId) -> String {
        self.interfaces.get(interface).map_or_else(|| "?".to_owned(), |interface| interface.name.clone())
    }

    /// Whether there are changes to [`commit`](Self::commit).
    pub fn uncommitted(&self) -> bool {
        self.changed || self.fib.uncommitted()
    }

    /// Completes all changes so far in the lookup structures.
    ///
    /// # Errors
    /// A lookup structure has no room for a change; it is tried again with the next one. The other changes are visible.
    pub fn commit(&mut self) -> Result<(), FibError> {
        self.changed = false;
        self.fib.commit()
    }

    /// Lets memory be used again that no worker can hold any more.
    pub fn reclaim(&mut self, grace: impl FnOnce() -> perigee_fib::Grace) {
        if self.fib.retired() > 0 {
            self.fib.reclaim(grace());
        }
    }

    /// Other interfaces take the place of those there are, and so do the routes that follow from their addresses. An
    /// interface keeps its number; there may be more of them at the end.
    ///
    /// # Errors
    /// Something does not fit. What does is done.
    pub fn set_interfaces(
        &mut self,
        list: Vec<Interface>,
        host_addresses: Vec<HostAddress>,
    ) -> Result<(), ForwardingError> {
        let interfaces = Interfaces::new(list)?.with_host_addresses(host_addresses);
        let before = self.own();
        self.interfaces = Arc::new(interfaces);
        self.multicast.renew(&self.interfaces);
        self.change_own(&before)
    }

    /// From now on Linux's routes alone say which networks are connected by these interfaces.
    ///
    /// # Errors
    /// A route of another interface does not fit.
    pub fn set_linux_connects(&mut self, interfaces: BTreeSet<InterfaceId>) -> Result<(), ForwardingError> {
        if interfaces == self.linux_connects {
            return Ok(());
        }
        let before = self.own();
        self.linux_connects = interfaces;
        self.change_own(&before)
    }

    /// The routes that follow from the interfaces' addresses.
    fn own(&self) -> BTreeMap<(Prefix, RouteKey), Route> {
        let key = |(prefix, route): (Prefix, Route)| ((prefix, route.key()), route);
        own(&self.interfaces, &self.linux_connects).into_iter().map(key).collect()
    }

    /// The routes that follow from the interfaces' addresses take the place of those `before`.
    fn change_own(&mut self, before: &BTreeMap<(Prefix, RouteKey), Route>) -> Result<(), ForwardingError> {
        let now = self.own();
        self.changed = true;
        let mut result = self.set_down();
        // First what is new: a destination that only changes its interface is never without a route.
        for ((prefix, _), route) in now.iter().filter(|(key, route)| before.get(key) != Some(route)) {
            result = result.and(self.fib.set_reserved(*prefix, route.clone()).map(drop));
        }
        for (prefix, key) in before.keys().filter(|key| !now.contains_key(key)) {
            result = result.and(self.fib.remove(*prefix, *key).map(drop));
        }
        Ok(result?)
    }

    /// The ports of these numbers have no link, and all others have one. What is sent over it takes another way at
    /// once, as far as next hops decide that; prefixes follow in [turns](Self::follow_links).
    ///
    /// # Errors
    /// There is no room for the next hops of other ways. What has room is done.
    pub fn set_links(&mut self, no_link: BTreeSet<u16>) -> Result<(), FibError> {
        self.no_link = no_link;
        self.set_down()
    }

    /// The numbers of ports that have no link.
    pub fn no_link(&self) -> &BTreeSet<u16> {
        &self.no_link
    }

    fn set_down(&mut self) -> Result<(), FibError> {
        self.changed = true;
        self.fib.set_down(down(&self.interfaces, &self.no_link))
    }

    /// Lets some prefixes choose among their routes again after links have changed; returns whether there are more.
    ///
    /// # Errors
    /// There is no room for the next hop of another route. What has room is done.
    pub fn follow_links(&mut self) -> Result<bool, FibError> {
        self.changed = true;
        for destination in self.asked.take() {
            self.fib.follow_links_around(destination)?;
        }
        self.fib.follow_links(STEP)
    }

    /// The static routes of one configuration give way to those of another; operator routes stay. Returns how to
    /// [`undo`](Self::undo) it.
    ///
    /// # Errors
    /// A route does not fit; nothing has changed.
    pub fn follow_static(&mut self, before: &Config, now: &Config) -> Result<Vec<Undo>, ForwardingError> {
        let keyed = |config: &Config| -> BTreeMap<(Prefix, RouteKey), Route> {
            config.all_routes().map(|(prefix, route)| ((*prefix, route.key()), route.clone())).collect()
        };
        let (before, now) = (keyed(before), keyed(now));
        let mut undo = Vec::new();
        // A file of a million routes is one run.
        self.fib.hold();
        let wanted: Vec<_> = now.iter().filter(|(key, _)| !self.operator.contains_key(key)).collect();
        for ((prefix, key), route) in wanted {
            let present = self.rib().route(*prefix, *key).cloned();
            if present.as_ref() == Some(route) {
                continue;
            }
            self.make_room();
            if let Err(error) = self.fib.insert(*prefix, route.clone()) {
                self.undo(undo);
                return Err(ForwardingError::Routes(error));
            }
            undo.push((*prefix, *key, present));
        }
        // Before any route leaves: what does not fit is undone by removals, which need no room.
        if let Err(error) = self.fib.commit() {
            let error = ForwardingError::from(error);
            // A route of somebody else's that does not fit is no reason to refuse this.
            if undo.iter().any(|(prefix, ..)| self.fib.is_refused(*prefix) || error.is_about(*prefix)) {
                self.undo(undo);
                return Err(error);
            }
        }
        self.fib.hold();
        let gone = before.keys().filter(|key| !now.contains_key(key) && !self.operator.contains_key(key));
        let gone: Vec<_> = gone.copied().collect();
        for (prefix, key) in gone {
            match self.fib.remove(prefix, key) {
                Ok(route) => undo.push((prefix, key, Some(route))),
                // An operator has deleted it.
                Err(FibError::Missing { .. }) => {}
                Err(error) => {
                    self.undo(undo);
                    return Err(ForwardingError::Routes(error));
                }
            }
        }
        self.changed = true;
        Ok(undo)
    }

    /// Takes back what [`follow_static`](Self::follow_static) did, which names no route twice. What was added leaves
    /// first and makes room; what has none even then is in the routing table all the same, and tried again.
    pub fn undo(&mut self, mut undo: Vec<Undo>) {
        self.changed = true;
        undo.sort_by_key(|(.., before)| before.is_some());
        let added = undo.partition_point(|(.., before)| before.is_none());
        let replaced = undo.split_off(added);
        for part in [undo, replaced] {
            self.fib.hold();
            for (prefix, key, before) in part {
                let undone = match before {
                    Some(route) => self.fib.set_reserved(prefix, route).map(drop),
                    None => self.fib.remove(prefix, key).map(drop),
                };
                if let Err(error) = undone {
                    tracing::error!("the route to {prefix} is not as it was: {error}");
                }
            }
            if let Err(error) = self.fib.commit() {
                tracing::error!("routes are not as they were: {error}");
            }
        }
    }

    /// Routes that were added while the router runs.
    pub fn operator_routes(&self) -> impl Iterator<Item = (Prefix, &Route)> {
        self.operator.iter().map(|((prefix, _), route)| (*prefix, route))
    }

    /// How many there are.
    pub fn operator_count(&self) -> usize {
        self.operator.len()
    }

    /// Whether a route was added while the router runs.
    pub fn is_operator_route(&self, prefix: Prefix, key: RouteKey) -> bool {
        self.operator.contains_key(&(prefix, key))
    }

    /// Adds an operator route.
    ///
    /// # Errors
    /// It does not fit; nothing has changed.
    pub fn add(&mut self, prefix: Prefix, route: Route) -> Result<(), FibError> {
        self.make_room();
        let added = self.fib.insert(prefix, route.clone());
        self.count_refusal(&added);
        added?;
        self.changed = true;
        self.operator.insert((prefix, route.key()), route);
        Ok(())
    }

    /// Removes a static or operator route.
    ///
    /// # Errors
    /// There is none.
    pub fn remove(&mut self, prefix: Prefix, key: RouteKey) -> Result<Route, FibError> {
        let route = self.fib.remove(prefix, key)?;
        self.changed = true;
        self.operator.remove(&(prefix, key));
        Ok(route)
    }

    /// The gateways that routes need resolved.
    pub fn gateways(&self) -> Gateways {
        self.fib.required_neighbors().into_iter().collect()
    }

    /// A neighbor has been resolved, changed or (without a MAC address) lost: its next hops change, and packets that
    /// are for the neighbor itself are sent by the fast path from now on, or no longer.
    ///
    /// # Errors
    /// There is no room for it: such packets stay in the slow path. Routes through it have the new address.
    pub fn set_neighbor(
        &mut self,
        interface: InterfaceId,
        address: IpAddr,
        mac: Option<MacAddr>,
    ) -> Result<(), FibError> {
        self.changed = true;
        self.fib.set_neighbor(interface, address, mac);
        // No packet to a link-local address is forwarded.
        self.fib.set_on_link(interface, address, mac.is_some() && !is_link_local(address))
    }

    /// Whether a neighbor of this address can be on an interface: it is on the network of one of the interface's
    /// addresses, link-local, or on the link by a route, as a peer is.
    pub fn may_be_on(&self, interface: InterfaceId, address: IpAddr) -> bool {
        let Some(Interface { addresses, .. }) = self.interfaces.get(interface) else { return false };
        is_link_local(address)
            || addresses.iter().any(|own| own.covers(address))
            || self.route(address, 0) == RouteDecision::Connected(interface)
    }
}

/// The interfaces by which nothing can be sent: those that are set down, and those of ports without a link.
fn down(interfaces: &Interfaces, no_link: &BTreeSet<u16>) -> BTreeSet<InterfaceId> {
    let is_down = |interface: &Interface| !interface.up || no_link.contains(&interface.port);
    interfaces.iter().filter(|(_, interface)| is_down(interface)).map(|(id, _)| id).collect()
}

/// The router's own addresses, their networks, and those networks' broadcast and subnet-router anycast addresses. An
/// interface that is down has none of them; link-local addresses are not routed. The networks of the interfaces in
/// `linux_connects` are routes of Linux. Last come addresses that are on no interface.
fn own(interfaces: &Interfaces, linux_connects: &BTreeSet<InterfaceId>) -> Vec<(Prefix, Route)> {
    let mut routes = Vec::new();
    let up = interfaces.iter().filter(|(_, interface)| interface.up);
    let addresses = up.flat_map(|(id, interface)| interface.addresses.iter().map(move |address| (id, *address)));
    for (interface, own) in addresses.filter(|(_, own)| !is_link_local(own.address)) {
        let local = Route::new(RouteSource::Local, RouteTarget::Local);
        let (host, network) = (Prefix::host(own.address), own.network());
        routes.push((host, local.clone()));
        if network != host && !linux_connects.contains(&interface) {
            routes.push((network, Route::new(RouteSource::Connected, RouteTarget::Connected { interface })));
        }
        if let Prefix::V4(network) = network
            && network.len() <= 30
        {
            // RFC 1812 5.3.5.2: a directed broadcast is for the router to see, not to forward.
            routes.push((Prefix4::host(network.last()).into(), local));
        }
    }
    let local = |address: IpAddr| (Prefix::host(address), Route::new(RouteSource::Local, RouteTarget::Local));
    let anycasts = interfaces.iter().filter(|(_, interface)| interface.up).flat_map(|(_, i)| i.subnet_routers());
    let anycasts = anycasts.map(|(anycast, _)| IpAddr::V6(anycast)).filter(|anycast| !is_link_local(*anycast));
    // Virtual stations may have link-local ones.
    let elsewhere = || interfaces.host_addresses().iter().filter(|host| !is_link_local(host.address.address));
    let anycasts = anycasts.chain(elsewhere().filter_map(|host| Some(host.subnet_router()?.into())));
    routes.extend(anycasts.chain(elsewhere().map(|host| host.address.address)).map(local));
    routes
}

fn destination_of(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Ipv4::new_truncated(packet).ok().map(|packet| packet.destination().into()),
        _ => Ipv6::new_truncated(packet).ok().map(|packet| packet.destination().into()),
    }
}

impl Routes for Routing {
    /// The same route that workers find, so that all packets of a flow take one path.
    fn route(&self, destination: IpAddr, flow: u32) -> RouteDecision {
        let mut leaf = self.fib.decide(destination, flow);
        if leaf == Leaf::Fixed(NextHopId::UNREACHABLE) && self.fib.links_are_followed() {
            leaf = self.fib.decide_by_routes(destination, flow);
            let mut asked = self.asked.borrow_mut();
            if asked.len() < MOST_ASKED && asked.last() != Some(&destination) {
                asked.push(destination);
            }
        }
        match leaf {
            Leaf::Via(Via { interface, gateway: Some(gateway) }) if gateway != destination => {
                RouteDecision::Gateway(interface, gateway)
            }
            Leaf::Via(Via { interface, .. }) => RouteDecision::Connected(interface),
            Leaf::Fixed(NextHopId::LOCAL) => RouteDecision::Local,
            Leaf::Fixed(NextHopId::UNREACHABLE) => RouteDecision::Unreachable,
            Leaf::Fixed(NextHopId::PROHIBIT) => RouteDecision::Prohibit,
            Leaf::Fixed(NextHopId::BLACKHOLE) => RouteDecision::Blackhole,
            Leaf::Fixed(NextHopId::TO_LINUX) => RouteDecision::ToLinux,
            Leaf::Fixed(NextHopId::REFUSED) => RouteDecision::Refused,
            Leaf::Fixed(_) => RouteDecision::NoRoute,
        }
    }

    fn treatment(&self, input: InterfaceId, packet: &[u8]) -> Treatment {
        let Some(exceptions) = &self.exceptions else { return Treatment::Plain };
        let mut mtu = 0;
        let plain = |destination| self.rib().lookup(destination).map(|(prefix, _)| prefix.len());
        match exceptions.treatment(input, packet, plain) {
            exceptions::Treatment::Plain => Treatment::Plain,
            exceptions::Treatment::Linux if self.refuses => Treatment::Refused,
            exceptions::Treatment::Linux => Treatment::ToLinux,
            exceptions::Treatment::Short => {
                if let Some(destination) = destination_of(packet)
                    && let Some((_, route)) = self.rib().lookup(destination)
                {
                    mtu = route.mtu;
                }
                if mtu == 0 { Treatment::Plain } else { Treatment::Mtu(mtu) }
            }
        }
    }

    /// By the same question as workers ask.
    fn leads_back(&self, source: IpAddr, by: Option<InterfaceId>) -> bool {
        self.fib.leads(source, by)
    }

    fn multicast(&self, now: Time, packet: &GroupPacket) -> MulticastDecision {
        let leads_back = || self.leads_back(packet.source, Some(packet.interface));
        decide(Asks::Owner, self.multicast.table(), now, packet, leads_back)
    }

    fn lets_linux_send(&self, interface: InterfaceId, group: IpAddr, ttl: u8) -> bool {
        self.multicast.table().admits_from_linux(interface, group, ttl)
    }
}
