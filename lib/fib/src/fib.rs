// SPDX-License-Identifier: MIT
//! The forwarding table: the part that workers look packets up in, and the control thread's end, which makes it follow
//! the routes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

use crate::lookup::structures;
use crate::lookup::table::{Arena, Memory};
use crate::lookup::{Lookup, LookupError, LookupWriter};
use crate::neighbors::{NeighborTable, NeighborTableWriter, TableMemory};
use crate::next_hop::writer::{Leaf, NextHopError, NextHopInfo, NextHopWriter, Via};
use crate::next_hop::{Action, NextHop, NextHopId, NextHops};
use crate::publish::grace::Grace;
use crate::rib::Rib;
use crate::rib::family::{FamilyTables, Refusal};
use crate::rib::loaded::Loaded;
use crate::rib::recursion::Gateways;
use perigee_net::{InterfaceId, MacAddr, Prefix, Route, RouteKey, RouteTarget};

/// The forwarding table as workers see it: shared, changing in place, never locked.
#[derive(Clone)]
pub struct Fib {
    /// IPv4 lookup.
    pub v4: Arc<dyn Lookup<u32>>,
    /// IPv6 lookup.
    pub v6: Arc<dyn Lookup<u128>>,
    /// What the ids found there mean.
    pub next_hops: Arc<NextHops>,
    /// The neighbors on connected networks.
    pub neighbors: Arc<NeighborTable>,
}

impl Fib {
    /// Whether both are the same tables in memory: then nothing needs to be published.
    pub fn is_same(&self, other: &Fib) -> bool {
        Arc::ptr_eq(&self.v4, &other.v4)
            && Arc::ptr_eq(&self.v6, &other.v6)
            && Arc::ptr_eq(&self.next_hops, &other.next_hops)
            && Arc::ptr_eq(&self.neighbors, &other.neighbors)
    }

    /// Looks up a single address, where speed does not matter: the next hop of the longest prefix, which may be a group
    /// or a link.
    pub fn lookup(&self, address: IpAddr) -> (NextHopId, NextHop) {
        let id = match address {
            IpAddr::V4(address) => self.v4.lookup(address.to_bits()),
            IpAddr::V6(address) => self.v6.lookup(address.to_bits()),
        };
        (id, self.next_hops.get(id))
    }

    /// Looks up a packet of a flow, given by the flow's hash, to the end: the next hop is never a group, and is a link
    /// only if the destination is no known neighbor there.
    pub fn lookup_flow(&self, address: IpAddr, flow: u32) -> (NextHopId, NextHop) {
        let (mut id, mut next_hop) = self.lookup(address);
        if next_hop.is_group() {
            id = self.next_hops.member(next_hop, flow);
            next_hop = self.next_hops.get(id);
        }
        let neighbor = next_hop.on_link().and_then(|interface| self.neighbors.find(interface, address));
        match neighbor.map(|neighbor| (neighbor, self.next_hops.get(neighbor))) {
            Some((neighbor, word)) if word.is_forward() => (neighbor, word),
            _ => (id, next_hop),
        }
    }
}

/// The routes, and what follows from them in the forwarding table. Every call changes both or neither.
///
/// A gateway that is given without its interface is reached over other routes. While it is unreachable, routes through
/// it are inactive: they stay in the RIB, and the next best ones are used. `rib/recursion.rs` has the rules.
pub struct FibWriter {
    v4: FamilyTables<u32>,
    v6: FamilyTables<u128>,
    next_hops: NextHopWriter,
    neighbors: NeighborTableWriter,
    /// The most routes that may be held.
    most: usize,
}

impl FibWriter {
    /// An empty table with room for `next_hops` next hops (8 bytes each, once used), and the default lookup structures.
    pub fn new(next_hops: u32) -> Result<Self, FibError> {
        Self::with(next_hops, (structures::DEFAULT4.new)()?, (structures::DEFAULT6.new)()?)
    }

    /// As [`new`](Self::new), with lookup structures of the caller's choice, which are empty.
    pub fn with(
        next_hops: u32,
        v4: Box<dyn LookupWriter<u32>>,
        v6: Box<dyn LookupWriter<u128>>,
    ) -> Result<Self, FibError> {
        Self::within(&Memory::Own, next_hops, v4, v6)
    }

    /// As [`with`](Self::with), in memory that the in-kernel plane reads as well. The structures are chosen by name.
    ///
    /// # Errors
    /// The arena has no room, or the in-kernel plane does not read the structure.
    pub fn in_arena(arena: &Arc<Arena>, next_hops: u32, v4: &str, v6: &str) -> Result<Self, FibError> {
        let (v4, v6) = (structures::in_arena4(v4, arena)?, structures::in_arena6(v6, arena)?);
        Self::within(&Memory::Arena(arena.clone()), next_hops, v4, v6)
    }

    fn within(
        memory: &Memory,
        next_hops: u32,
        v4: Box<dyn LookupWriter<u32>>,
        v6: Box<dyn LookupWriter<u128>>,
    ) -> Result<Self, FibError> {
        let next_hops = NextHopWriter::within(memory, next_hops)?;
        let neighbors = NeighborTableWriter::in_memory(memory.clone())
            .map_err(|TableMemory(slots)| FibError::NeighborMemory { slots })?;
        Ok(Self { v4: FamilyTables::new(v4), v6: FamilyTables::new(v6), next_hops, neighbors, most: usize::MAX })
    }

    /// Lets gateways be reached over the default route. To be called while the table is empty.
    pub fn resolving_via_default(mut self) -> Self {
        self.v4.gateways = Gateways::new(true);
        self.v6.gateways = Gateways::new(true);
        self
    }

    /// Makes this router's choices within groups independent of those of its neighbors, which see the same flows:
    /// `seed` is any number that differs from theirs. A change of seed moves flows to other paths.
    pub fn set_seed(&mut self, seed: u32) {
        self.next_hops.reader().set_seed(seed);
    }

    /// The workers' view. A change may replace the tables in it: to be compared by [`Fib::is_same`], and
    /// published if it differs.
    pub fn reader(&self) -> Fib {
        let (next_hops, neighbors) = (self.next_hops.reader().clone(), self.neighbors.reader().clone());
        Fib { v4: self.v4.lookup.reader(), v6: self.v6.lookup.reader(), next_hops, neighbors }
    }

    /// Nothing can be sent by these interfaces, and by all others something can. Routes over them are out of use, as if
    /// they were not there; they stay in the RIB. For next hops, groups and gateways that are reached over other
    /// routes this takes effect at once; packets that are left with a next hop over such a link are answered as
    /// unreachable. For prefixes that have other routes, or from now on none, by
    /// [`follow_links`](Self::follow_links).
    ///
    /// # Errors
    /// There is no room for the next hops of other ways to a gateway: it is unreachable. Everything else is done.
    pub fn set_down(&mut self, down: BTreeSet<InterfaceId>) -> Result<(), FibError> {
        let changed: BTreeSet<InterfaceId> = self.next_hops.down().symmetric_difference(&down).copied().collect();
        if changed.is_empty() {
            return Ok(());
        }
        let down = Arc::new(down);
        self.next_hops.set_down(down.clone());
        let v4 = self.v4.set_down(&mut self.next_hops, down.clone(), &changed);
        let v6 = self.v6.set_down(&mut self.next_hops, down, &changed);
        Ok(v4.and(v6)?)
    }

    /// Looks at this many prefixes, at least 1, and lets those choose among their routes again whose routes are
    /// concerned by [`set_down`](Self::set_down); returns whether there are more. Its changes are
    /// [held](Self::hold): to be followed by a commit, after one call or several.
    ///
    /// # Errors
    /// There is no room for the next hop of another route: such a prefix stays as it was. Everything else is done.
    pub fn follow_links(&mut self, most: usize) -> Result<bool, FibError> {
        match self.v4.sweep.is_some() {
            true => self.v4.sweep(&mut self.next_hops, most.max(1))?,
            false => self.v6.sweep(&mut self.next_hops, most.max(1))?,
        };
        Ok(self.links_are_followed())
    }

    /// As [`follow_links`](Self::follow_links) for the prefixes around an address, which packets ask for.
    ///
    /// # Errors
    /// As there.
    pub fn follow_links_around(&mut self, address: IpAddr) -> Result<(), FibError> {
        match address {
            IpAddr::V4(v4) => self.v4.sweep_around(&mut self.next_hops, v4.to_bits())?,
            IpAddr::V6(v6) => self.v6.sweep_around(&mut self.next_hops, v6.to_bits())?,
        }
        Ok(())
    }

    /// Where a packet of a flow to `destination` should go by the routes as they are, though prefixes have yet to
    /// [follow](Self::follow_links) their links.
    pub fn decide_by_routes(&self, destination: IpAddr, flow: u32) -> Leaf {
        match destination {
            IpAddr::V4(v4) => self.v4.decide(&self.next_hops, v4.to_bits(), flow),
            IpAddr::V6(v6) => self.v6.decide(&self.next_hops, v6.to_bits(), flow),
        }
    }

    /// Whether [`follow_links`](Self::follow_links) has something to do.
    pub fn links_are_followed(&self) -> bool {
        self.v4.sweep.is_some() || self.v6.sweep.is_some()
    }

    /// Whether a route is out of use, as all its ways name a link that is [down](Self::set_down).
    pub fn is_down(&self, route: &Route) -> bool {
        self.v4.gateways.is_down(route)
    }

    /// Whether nothing can be sent by this interface.
    pub fn is_link_down(&self, interface: InterfaceId) -> bool {
        self.next_hops.down().contains(&interface)
    }

    /// Makes all changes so far visible, where a lookup structure collects them, and then releases next hops that are
    /// no longer used. To be called after one change or several, and before [`reclaim`](Self::reclaim); between the
    /// two what [`reader`](Self::reader) returns is to be published.
    pub fn commit(&mut self) -> Result<(), FibError> {
        self.neighbors.fit();
        let (v4, v6) = (self.v4.commit(), self.v6.commit());
        // While a change is not visible, readers may still find the next hops that it has made unused.
        if !self.uncommitted() {
            self.next_hops.commit();
        }
        Ok(v4.and(v6)?)
    }

    /// Whether a [held](Self::hold) change of this prefix was refused when it was made: its route is in the RIB, but
    /// workers do not find it.
    pub fn is_refused(&self, prefix: Prefix) -> bool {
        match prefix {
            Prefix::V4(prefix) => self.v4.is_refused(prefix),
            Prefix::V6(prefix) => self.v6.is_refused(prefix),
        }
    }

    /// Whether some change is not visible yet. After a [`commit`](Self::commit) that means that a reader is in the way
    /// or memory is short: commit again later.
    pub fn uncommitted(&self) -> bool {
        self.v4.uncommitted() || self.v6.uncommitted()
    }

    /// From now until the next [`commit`](Self::commit) changes of routes wait for it, and are made together: many of
    /// them in less time than one by one. What the lookup structure has no room for is then an error of the commit,
    /// not of the change; the prefix is in the structure no longer, and is tried again when others leave. The
    /// routes are up to date all the time.
    pub fn hold(&mut self) {
        self.v4.hold();
        self.v6.hold();
    }

    /// IPv4, IPv6: see [`LookupWriter::choice_reason`].
    pub fn choice_reasons(&self) -> [Option<String>; 2] {
        [self.v4.lookup.choice_reason(), self.v6.lookup.choice_reason()]
    }

    /// All routes.
    pub fn rib(&self) -> Rib<'_> {
        Rib { v4: &self.v4.table, v6: &self.v6.table }
    }

    /// So many changes ahead [`prefetch`](Self::prefetch) is early enough.
    pub const AHEAD: usize = 8;

    /// Starts to load what a change of this prefix's routes needs into the cache, for a caller that knows what comes
    /// [next but some](Self::AHEAD): changes in no order then do not wait for memory one after the other.
    pub fn prefetch(&self, prefix: Prefix) {
        match prefix {
            Prefix::V4(prefix) => self.v4.table.tree.prefetch(prefix),
            Prefix::V6(prefix) => self.v6.table.tree.prefetch(prefix),
        }
    }

    /// Adds a route, replacing the one to the same prefix with the same [`RouteKey`].
    pub fn insert(&mut self, prefix: Prefix, route: Route) -> Result<(), FibError> {
        self.set(prefix, route).map(drop)
    }

    /// How many routes there are, of both families.
    pub fn routes(&self) -> usize {
        self.v4.routes + self.v6.routes
    }

    /// The most that may be held.
    pub fn most(&self) -> usize {
        self.most
    }

    /// From now on so many routes may be held. What is there stays.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// As [`insert`](Self::insert); returns whether that changed anything.
    pub fn set(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError> {
        self.set_within(self.most, prefix, route)
    }

    /// As [`set`](Self::set) for a route that stands in for others that are not held: [`RESERVED`](Self::RESERVED) of
    /// them have room beyond the limit.
    pub fn set_reserved(&mut self, prefix: Prefix, route: Route) -> Result<bool, FibError> {
        self.set_within(self.most.saturating_add(Self::RESERVED), prefix, route)
    }

    /// Routes beyond the limit that stand in for others.
    pub const RESERVED: usize = 1024;

    fn set_within(&mut self, most: usize, prefix: Prefix, route: Route) -> Result<bool, FibError> {
        check(prefix, &route)?;
        if self.routes() >= most && self.rib().route(prefix, route.key()).is_none() {
            return Err(FibError::TooMany { routes: self.routes() });
        }
        match prefix {
            Prefix::V4(prefix) => Ok(self.v4.insert(&mut self.next_hops, prefix, route)?),
            Prefix::V6(prefix) => Ok(self.v6.insert(&mut self.next_hops, prefix, route)?),
        }
    }

    /// Removes the route to `prefix` with this key, and returns it.
    pub fn remove(&mut self, prefix: Prefix, key: RouteKey) -> Result<Route, FibError> {
        let removed = match prefix {
            Prefix::V4(prefix) => self.v4.remove(&mut self.next_hops, prefix, key)?,
            Prefix::V6(prefix) => self.v6.remove(&mut self.next_hops, prefix, key)?,
        };
        removed.ok_or(FibError::Missing { prefix })
    }

    /// Replaces all routes by these; of several with one prefix and key the last counts. Much faster than inserting
    /// them one by one: for the start of a router.
    pub fn load(&mut self, routes: impl IntoIterator<Item = (Prefix, Route)>) -> Result<(), FibError> {
        let down = self.next_hops.down();
        let mut v4 = Loaded::new(self.v4.gateways.via_default(), down.clone());
        let mut v6 = Loaded::new(self.v6.gateways.via_default(), down.clone());
        let mut stuck = false;
        let result = self.prepare(&mut v4, &mut v6, routes).and_then(|()| self.load_lookup(&v4, &v6, &mut stuck));
        if result.is_ok() {
            v4 = self.v4.replace(v4);
            v6 = self.v6.replace(v6);
        }
        // `v4` and `v6` are now the tables that are not in use: the old ones, or after an error the new ones.
        let mut gone = v6.uses(&mut self.next_hops);
        // If readers still find the refused IPv4 table, its next hops are never released: they must not be reused for
        // others.
        if !stuck {
            gone.extend(v4.uses(&mut self.next_hops));
        }
        self.next_hops.release_at_commit(gone);
        result
    }

    fn prepare(
        &mut self,
        v4: &mut Loaded<u32>,
        v6: &mut Loaded<u128>,
        routes: impl IntoIterator<Item = (Prefix, Route)>,
    ) -> Result<(), FibError> {
        let (mut routes4, mut routes6) = (Vec::new(), Vec::new());
        for (prefix, route) in routes {
            check(prefix, &route)?;
            if routes4.len() + routes6.len() >= self.most.saturating_add(Self::RESERVED) {
                return Err(FibError::TooMany { routes: self.most });
            }
            match prefix {
                Prefix::V4(prefix) => routes4.push((prefix, route)),
                Prefix::V6(prefix) => routes6.push((prefix, route)),
            }
        }
        // In order of address the RIB grows where it was touched last, which suits the caches.
        routes4.sort_by_key(|(prefix, _)| *prefix);
        routes6.sort_by_key(|(prefix, _)| *prefix);
        routes4.into_iter().try_for_each(|(prefix, route)| v4.insert(&mut self.next_hops, prefix, route))?;
        routes6.into_iter().try_for_each(|(prefix, route)| v6.insert(&mut self.next_hops, prefix, route))?;
        v4.settle(&mut self.next_hops)?;
        Ok(v6.settle(&mut self.next_hops)?)
    }

    /// Loads both lookup structures or neither. `stuck` is set if the new IPv4 table could not be taken back.
    fn load_lookup(&mut self, v4: &Loaded<u32>, v6: &Loaded<u128>, stuck: &mut bool) -> Result<(), FibError> {
        self.v4.lookup.load(&v4.list)?;
        if let Err(error) = self.v6.lookup.load(&v6.list) {
            *stuck = self.v4.lookup.load(&self.v4.table.list()).is_err();
            return Err(error.into());
        }
        Ok(())
    }

    /// The next hop that the lookup structure should find for an address: that of the longest prefix that has a route
    /// in use. If [`reader`](Self::reader) finds another after a [`commit`](Self::commit), [`repair`](Self::repair)
    /// corrects it.
    pub fn expected(&self, address: IpAddr) -> NextHopId {
        self.rib().next_hop(address).unwrap_or(NextHopId::NO_ROUTE)
    }

    /// Writes `prefix` and the prefixes inside it to the lookup structure again as the routes have them, whatever the
    /// structure is believed to hold; returns how many prefixes were written. If there are many, the family's whole
    /// table is loaded again, and [`reader`](Self::reader) changes. To be followed by a commit. After an error some
    /// may have been written.
    pub fn repair(&mut self, prefix: Prefix) -> Result<usize, FibError> {
        match prefix {
            Prefix::V4(prefix) => Ok(self.v4.repair(prefix)?),
            Prefix::V6(prefix) => Ok(self.v6.repair(prefix)?),
        }
    }

    /// Whether [`commit`](Self::commit) costs next to nothing: see [`LookupWriter::commit_is_cheap`].
    pub fn commit_is_cheap(&self) -> bool {
        self.v4.lookup.commit_is_cheap() && self.v6.lookup.commit_is_cheap()
    }

    /// The neighbors that routes need resolved: gateways given with their interfaces, and those by which the other
    /// gateways are reached.
    pub fn required_neighbors(&self) -> BTreeSet<(InterfaceId, IpAddr)> {
        let named = self.v4.table.neighbors().chain(self.v6.table.neighbors());
        let mut found: BTreeSet<_> = named.filter_map(|via| Some((via.interface, via.gateway?))).collect();
        let recursive = self.v4.gateways.iter().map(|(_, id)| id).chain(self.v6.gateways.iter().map(|(_, id)| id));
        for id in recursive {
            self.next_hops.neighbors_of(id, |interface, gateway| {
                found.insert((interface, gateway));
            });
        }
        found
    }

    /// The link that `gateway` is on, be it up or down: that of the connected network around it, or of a route to it
    /// alone.
    ///
    /// # Errors
    /// [`FibError::GatewayNotConnected`]; it may still be reachable over a route.
    pub fn link_of(&self, gateway: IpAddr) -> Result<InterfaceId, FibError> {
        match self.rib().lookup_with(gateway, |route| self.is_down(route)).map(|route| &route.target) {
            Some(RouteTarget::Connected { interface }) => Ok(*interface),
            // Say, `192.0.2.9/32 via 192.0.2.9 dev lan`.
            Some(RouteTarget::Gateway { address, interface: Some(interface) }) if *address == gateway => Ok(*interface),
            _ => Err(FibError::GatewayNotConnected { gateway }),
        }
    }

    /// The link and the neighbor by which `gateway`, which a route names without an interface, is reached now. `None`
    /// if it is unreachable, if there are several, or if no route names it so.
    pub fn reached_by(&self, gateway: IpAddr) -> Option<Via> {
        let id = match gateway {
            IpAddr::V4(gateway) => self.v4.gateways.id(gateway.to_bits()),
            IpAddr::V6(gateway) => self.v6.gateways.id(gateway.to_bits()),
        };
        let word = self.next_hops.reader().get(id?);
        match self.next_hops.leaf(id?, 0) {
            Leaf::Via(via) if !word.is_group() => Some(via),
            _ => None,
        }
    }

    /// What a next hop stands for, if it is a neighbor or a connected network.
    pub fn via(&self, id: NextHopId) -> Option<Via> {
        self.next_hops.via(id)
    }

    /// Where a packet of a flow to `destination` finally goes, decided as a worker would: groups and gateways are
    /// resolved.
    pub fn decide(&self, destination: IpAddr, flow: u32) -> Leaf {
        self.next_hops.leaf(self.find(destination), flow)
    }

    /// Whether packets to `address` leave by some interface, or by `by` if that is given: see [`NextHops::leads`].
    pub fn leads(&self, address: IpAddr, by: Option<InterfaceId>) -> bool {
        self.next_hops.reader().leads(self.find(address), by)
    }

    /// The next hop that workers find.
    fn find(&self, address: IpAddr) -> NextHopId {
        match address {
            IpAddr::V4(v4) => self.v4.lookup.view().lookup(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.lookup.view().lookup(v6.to_bits()),
        }
    }

    /// Every next hop in use.
    pub fn next_hops(&self) -> impl Iterator<Item = NextHopInfo> {
        self.next_hops.iter()
    }

    /// Sets the MAC address of the neighbor `address` on `interface`, or removes it. Takes effect at once on all routes
    /// through the neighbor; whether packets that are for the neighbor itself find it is said by
    /// [`set_on_link`](Self::set_on_link).
    pub fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        self.next_hops.set_neighbor(interface, address, mac);
    }

    /// Whether packets to `address`, where a route leads to the link of `interface`, find the neighbor of that address
    /// there (and are sent to it while its MAC address is [set](Self::set_neighbor)). Takes effect at once, unless
    /// [`reader`](Self::reader) changes. Repeating it has no effect.
    ///
    /// # Errors
    /// There is no further next hop, or no memory: such packets stay unresolved.
    pub fn set_on_link(&mut self, interface: InterfaceId, address: IpAddr, known: bool) -> Result<(), FibError> {
        let gone = if known {
            let id = self.next_hops.acquire(Via { interface, gateway: Some(address) })?;
            match self.neighbors.insert(interface, address, id) {
                Ok(before) => before,
                Err(TableMemory(slots)) => {
                    self.next_hops.release_at_commit([id]);
                    return Err(FibError::NeighborMemory { slots });
                }
            }
        } else {
            self.neighbors.remove(interface, address)
        };
        self.next_hops.release_at_commit(gone);
        Ok(())
    }

    /// The neighbors that packets find on links, in no particular order, each with its MAC address if that is known.
    pub fn on_link(&self) -> impl Iterator<Item = (InterfaceId, IpAddr, Option<MacAddr>)> + '_ {
        self.neighbors.iter().map(|(interface, address, id)| (interface, address, self.mac_of(interface, id)))
    }

    /// The MAC address with which packets to `address` find it on the link of `interface`, looked up as workers do.
    pub fn found_on_link(&self, interface: InterfaceId, address: IpAddr) -> Option<MacAddr> {
        self.mac_of(interface, self.neighbors.reader().find(interface, address)?)
    }

    fn mac_of(&self, by: InterfaceId, id: NextHopId) -> Option<MacAddr> {
        match self.next_hops.reader().get(id).action() {
            Action::Forward { interface, mac } if interface == by => Some(mac),
            _ => None,
        }
    }

    /// How much is retired and waits for [`commit`](Self::commit) or [`reclaim`](Self::reclaim).
    pub fn retired(&self) -> usize {
        self.v4.lookup.retired() + self.v6.lookup.retired() + self.next_hops.retired() + self.neighbors.retired()
    }

    /// Makes retired memory usable again, except what a worker may still hold. To be called with
    /// [`Published::grace`](crate::Published::grace), after a [`commit`](Self::commit), and again at intervals while
    /// something is [`retired`](Self::retired).
    pub fn reclaim(&mut self, grace: Grace) {
        self.v4.lookup.reclaim(grace);
        self.v6.lookup.reclaim(grace);
        self.next_hops.reclaim(grace);
        self.neighbors.reclaim(grace);
    }

    /// Bytes of the lookup structures that are or have been in use: IPv4, IPv6.
    pub fn memory(&self) -> (usize, usize) {
        (self.v4.lookup.memory(), self.v6.lookup.memory())
    }
}

fn check(prefix: Prefix, route: &Route) -> Result<(), FibError> {
    for (gateway, interface) in route.gateways() {
        let broadcast = gateway == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
        if gateway.is_unspecified() || gateway.is_multicast() || gateway.is_loopback() || broadcast {
            return Err(FibError::GatewayAddress { gateway });
        }
        if interface.is_none() && gateway.is_ipv4() != matches!(prefix, Prefix::V4(_)) {
            return Err(FibError::GatewayFamily { gateway, prefix });
        }
    }
    Ok(())
}

impl From<Refusal> for FibError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Lookup(error) => error.into(),
            Refusal::NextHop(error) => error.into(),
        }
    }
}

/// Why a change of a route was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FibError {
    /// The lookup structure refused.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// There is no further next hop.
    #[error(transparent)]
    NextHop(#[from] NextHopError),
    /// The allocator refused.
    #[error("not enough memory for a table of neighbors with {slots} slots")]
    NeighborMemory {
        /// The number asked for.
        slots: usize,
    },
    /// The gateway is in no interface's network.
    #[error(
        "gateway {gateway} is not on a connected network; name the interface, or give one an address in its network"
    )]
    GatewayNotConnected {
        /// The gateway given.
        gateway: IpAddr,
    },
    /// The gateway is not the address of a host.
    #[error("gateway {gateway} is not the address of a neighbor; expected a unicast address")]
    GatewayAddress {
        /// The gateway given.
        gateway: IpAddr,
    },
    /// The gateway is of another family than the prefix, and has no interface.
    #[error("gateway {gateway} is of another family than {prefix}; name the interface it is on")]
    GatewayFamily {
        /// The gateway given.
        gateway: IpAddr,
        /// The prefix given.
        prefix: Prefix,
    },
    /// As many routes are held as may be.
    #[error(
        "there are {routes} routes, and no room for more; raise `max_routes` of [router], or give the router more memory"
    )]
    TooMany {
        /// How many there are.
        routes: usize,
    },
    /// There is nothing to remove.
    #[error("there is no such route to {prefix}")]
    Missing {
        /// The prefix given.
        prefix: Prefix,
    },
}
