// SPDX-License-Identifier: MIT
//! How routes are stored: 13 bytes per IPv4 prefix and 25 per IPv6 prefix, not counting what the tree leaves empty.
//!
//! Most prefixes have one route, and few routes differ: in source, preference, metric or gateway. So each different
//! route is stored once, with the number of prefixes that have it, and a prefix stores the route's number and its next
//! hop. A prefix with several routes has a list of numbers elsewhere.

use std::collections::HashMap;
use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::hash::Secret;
use crate::next_hop::NextHopId;
use crate::next_hop::writer::Via;
use crate::rib::tree::PrefixTree;
use perigee_net::{Address, PrefixOf, Route, RouteKey, RouteSource, RouteTarget};

/// The index of a route that was in use and is being removed: larger than any other.
const GONE: usize = usize::MAX;

/// The number of a route that some prefixes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RouteId(u32);

impl RouteId {
    /// If this bit is set it is the number of a list of several routes.
    const SEVERAL: u32 = 1 << 31;
    const NONE: Self = Self(u32::MAX);
}

/// The routes to one prefix, and which next hop it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// One route, or a list.
    routes: RouteId,
    /// An id of 24 bits, and flags; the id is valid if [`IN_USE`](Self::IN_USE) is set.
    next_hop: u32,
}

impl Entry {
    const IN_USE: u32 = 1 << 31;
    /// The next hop is that of a route that is being removed.
    const GONE: u32 = 1 << 30;
    pub const EMPTY: Self = Self { routes: RouteId::NONE, next_hop: 0 };

    pub fn next_hop(&self) -> Option<NextHopId> {
        (self.next_hop & Self::IN_USE != 0).then_some(NextHopId(self.next_hop & NextHopId::MAX))
    }

    pub fn has_routes(&self) -> bool {
        self.routes != RouteId::NONE
    }

    fn list(&self) -> Option<usize> {
        let RouteId(number) = self.routes;
        (number & RouteId::SEVERAL != 0 && self.has_routes()).then_some((number ^ RouteId::SEVERAL) as usize)
    }
}

/// Several routes to one prefix, best first, and which of them is in use.
#[derive(Default)]
struct Several {
    routes: Vec<RouteId>,
    chosen: usize,
}

/// A route, and the number of prefixes that have it.
struct Shared {
    route: Route,
    prefixes: u32,
    /// See [`Store::mark`].
    marked: bool,
}

/// Every different route, once.
#[derive(Default)]
struct AllRoutes {
    list: Vec<Shared>,
    free: Vec<RouteId>,
    /// The numbers of those that prefixes have, by the route's hash: the routes themselves are in the list alone.
    numbers: HashTable<RouteId>,
    secret: Secret,
    /// The route that was added last: the next one is often the same.
    last: Option<RouteId>,
    /// By neighbor: how many different routes name it together with its interface.
    neighbors: HashMap<Via, u32, Secret>,
}

/// The neighbors that a route names with their interface, and so needs resolved.
fn neighbors_of(route: &Route) -> impl Iterator<Item = Via> {
    let via = |(gateway, interface): (_, Option<_>)| Some(Via { interface: interface?, gateway: Some(gateway) });
    route.gateways().filter_map(via)
}

impl AllRoutes {
    fn get(&self, id: RouteId) -> &Route {
        &self.list[id.0 as usize].route
    }

    /// Another prefix has this route.
    fn add(&mut self, route: Route) -> RouteId {
        if let Some(id) = self.last.filter(|last| *self.get(*last) == route) {
            self.list[id.0 as usize].prefixes += 1;
            return id;
        }
        let hash = self.secret.hash_one(&route);
        if let Some(&id) = self.numbers.find(hash, |id| *self.get(*id) == route) {
            self.list[id.0 as usize].prefixes += 1;
            self.last = Some(id);
            return id;
        }
        for via in neighbors_of(&route) {
            *self.neighbors.entry(via).or_default() += 1;
        }
        let shared = Shared { route, prefixes: 1, marked: false };
        let id = match self.free.pop() {
            Some(id) => {
                self.list[id.0 as usize] = shared;
                id
            }
            None => {
                self.list.push(shared);
                RouteId(self.list.len() as u32 - 1)
            }
        };
        let Self { list, secret, .. } = self;
        self.numbers.insert_unique(hash, id, |id| secret.hash_one(&list[id.0 as usize].route));
        self.last = Some(id);
        id
    }

    /// One prefix fewer has it.
    fn remove(&mut self, id: RouteId) -> Route {
        let shared = &mut self.list[id.0 as usize];
        shared.prefixes -= 1;
        if shared.prefixes > 0 {
            return shared.route.clone();
        }
        let free = Route::new(RouteSource::Static, RouteTarget::Blackhole);
        let route = std::mem::replace(&mut shared.route, free);
        if let Ok(number) = self.numbers.find_entry(self.secret.hash_one(&route), |other| *other == id) {
            number.remove();
        }
        self.last = self.last.filter(|last| *last != id);
        self.free.push(id);
        for via in neighbors_of(&route) {
            let count = self.neighbors.entry(via).or_insert(1);
            *count -= 1;
            if *count == 0 {
                self.neighbors.remove(&via);
            }
        }
        route
    }
}

/// The routes to one prefix, best first.
#[derive(Clone, Copy)]
pub struct Routes<'r> {
    ids: &'r [RouteId],
    all: &'r [Shared],
}

impl<'r> Routes<'r> {
    /// Each of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'r Route> + use<'r> {
        let all = self.all;
        self.ids.iter().map(move |id| &all[id.0 as usize].route)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// One of them.
    pub fn get(&self, at: usize) -> Option<&'r Route> {
        Some(&self.all[self.ids.get(at)?.0 as usize].route)
    }

    /// The best one, whether it is in use or not.
    pub fn first(&self) -> Option<&'r Route> {
        self.get(0)
    }
}

impl std::fmt::Debug for Routes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// All routes of one family.
pub(crate) struct Table<A> {
    pub tree: PrefixTree<A, Entry>,
    pub store: Store,
}

/// What the entries of a table stand for.
#[derive(Default)]
pub(crate) struct Store {
    routes: AllRoutes,
    several: Vec<Several>,
    /// Unused lists.
    free: Vec<u32>,
}

impl Store {
    /// The routes of an entry.
    pub fn routes_of<'r>(&'r self, entry: &'r Entry) -> Routes<'r> {
        Routes { ids: ids(entry, &self.several), all: &self.routes.list }
    }

    /// Marks the routes that `which` is true of, once for all prefixes that have them. Routes that are added later are
    /// not marked.
    pub fn mark(&mut self, which: impl Fn(&Route) -> bool) {
        self.routes.list.iter_mut().for_each(|shared| shared.marked |= which(&shared.route));
    }

    /// Takes back all marks.
    pub fn unmark(&mut self) {
        self.routes.list.iter_mut().for_each(|shared| shared.marked = false);
    }

    /// Whether an entry has a marked route.
    pub fn is_marked(&self, entry: &Entry) -> bool {
        ids(entry, &self.several).iter().any(|id| self.routes.list[id.0 as usize].marked)
    }

    /// See [`Table::chosen`].
    pub fn chosen(&self, entry: &Entry) -> Option<(usize, NextHopId)> {
        let at = match entry.list() {
            _ if entry.next_hop & Entry::GONE != 0 => GONE,
            Some(list) => self.several[list].chosen,
            None => 0,
        };
        Some((at, entry.next_hop()?))
    }

    pub fn set_chosen(&mut self, entry: &mut Entry, chosen: Option<(usize, NextHopId)>) {
        entry.next_hop = match chosen {
            Some((at, NextHopId(id))) => Entry::IN_USE | id | if at == GONE { Entry::GONE } else { 0 },
            None => 0,
        };
        if let (Some(list), Some((at, _))) = (entry.list(), chosen.filter(|(at, _)| *at != GONE)) {
            self.several[list].chosen = at;
        }
    }

    /// Whether an entry has this route already.
    pub fn has(&self, entry: &Entry, route: &Route) -> bool {
        self.routes_of(entry).iter().any(|present| present == route)
    }

    /// Adds a route to an entry in order, and returns the one with the same key that it replaces.
    pub fn insert(&mut self, entry: &mut Entry, route: Route) -> Option<Route> {
        let key = route.key();
        let id = self.routes.add(route);
        if !entry.has_routes() {
            entry.routes = id;
            return None;
        }
        let at = match place(&self.routes, ids(entry, &self.several), key) {
            Ok(at) => {
                let place = match entry.list() {
                    Some(list) => &mut self.several[list].routes[at],
                    None => &mut entry.routes,
                };
                let replaced = std::mem::replace(place, id);
                return Some(self.routes.remove(replaced));
            }
            Err(at) => at,
        };
        let list = entry.list().unwrap_or_else(|| {
            let several = Several { routes: vec![entry.routes], chosen: 0 };
            let list = self.free.pop().unwrap_or(self.several.len() as u32);
            match self.several.get_mut(list as usize) {
                Some(place) => *place = several,
                None => self.several.push(several),
            }
            entry.routes = RouteId(RouteId::SEVERAL | list);
            list as usize
        });
        let several = &mut self.several[list];
        several.routes.insert(at, id);
        several.chosen += usize::from(several.chosen >= at);
        None
    }

    /// Removes a route from an entry. If it was in use, the index of the one in use becomes [`GONE`].
    pub fn remove(&mut self, entry: &mut Entry, key: RouteKey) -> Option<Route> {
        let at = place(&self.routes, ids(entry, &self.several), key).ok()?;
        let Some(list) = entry.list() else {
            let id = std::mem::replace(&mut entry.routes, RouteId::NONE);
            entry.next_hop |= Entry::GONE;
            return Some(self.routes.remove(id));
        };
        let several = &mut self.several[list];
        let id = several.routes.remove(at);
        match several.chosen.cmp(&at) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => entry.next_hop |= Entry::GONE,
            std::cmp::Ordering::Greater => several.chosen -= 1,
        }
        if let [last] = several.routes[..] {
            entry.routes = last;
            *several = Several::default();
            self.free.push(list as u32);
        }
        Some(self.routes.remove(id))
    }
}

impl<A: Address> Default for Table<A> {
    fn default() -> Self {
        Self { tree: PrefixTree::new(), store: Store::default() }
    }
}

impl<A: Address> Table<A> {
    pub fn get(&self, prefix: PrefixOf<A>) -> Option<&Entry> {
        self.tree.get(prefix)
    }

    /// The routes of an entry of this table.
    pub fn routes_of<'r>(&'r self, entry: &'r Entry) -> Routes<'r> {
        self.store.routes_of(entry)
    }

    pub fn routes(&self, prefix: PrefixOf<A>) -> Routes<'_> {
        self.get(prefix).map_or(Routes { ids: &[], all: &[] }, |entry| self.routes_of(entry))
    }

    /// The index of the route of an entry that is in use, and its next hop. While the route is being removed the index
    /// is [`GONE`].
    pub fn chosen(&self, entry: &Entry) -> Option<(usize, NextHopId)> {
        self.store.chosen(entry)
    }

    /// The route of an entry that is in use.
    pub fn in_use<'r>(&'r self, entry: &'r Entry) -> Option<&'r Route> {
        self.routes_of(entry).get(self.chosen(entry)?.0)
    }

    pub fn set_chosen(&mut self, prefix: PrefixOf<A>, chosen: Option<(usize, NextHopId)>) {
        if let Some(entry) = self.tree.get_mut(prefix) {
            self.store.set_chosen(entry, chosen);
        }
    }

    /// Calls `choose` for every prefix, and sets what it returns.
    pub fn choose_all<E>(
        &mut self,
        mut choose: impl FnMut(PrefixOf<A>, Routes<'_>) -> Result<Option<(usize, NextHopId)>, E>,
    ) -> Result<(), E> {
        for (prefix, entry) in self.tree.iter_mut() {
            let chosen = choose(prefix, self.store.routes_of(entry))?;
            self.store.set_chosen(entry, chosen);
        }
        Ok(())
    }

    /// The neighbors that routes name with their interface, and so need resolved.
    pub fn neighbors(&self) -> impl Iterator<Item = Via> {
        self.store.routes.neighbors.keys().copied()
    }

    /// The longest prefix that contains `address` with a route that `counts`, whether that is in use or not.
    pub fn covering(&self, address: A, counts: impl Fn(&Route) -> bool) -> Option<(PrefixOf<A>, &Entry)> {
        // An entry whose last route is being removed has none.
        self.tree.covering(PrefixOf::host(address)).find(|(_, entry)| self.routes_of(entry).iter().any(&counts))
    }

    /// `prefix` and the prefixes inside it, by address.
    pub fn covered_by(&self, prefix: PrefixOf<A>) -> impl Iterator<Item = (PrefixOf<A>, &Entry)> {
        self.tree.covered_by(prefix)
    }

    /// The next hop of the longest prefix around `prefix` that has one; `prefix` counts too if `itself` is set.
    pub fn next_hop_around(&self, prefix: PrefixOf<A>, itself: bool) -> Option<NextHopId> {
        let mut cover = self.tree.covering(prefix).filter(|(other, _)| itself || other.len() < prefix.len());
        cover.find_map(|(_, entry)| entry.next_hop())
    }

    /// What the lookup structure should hold.
    pub fn list(&self) -> Vec<(PrefixOf<A>, NextHopId)> {
        self.tree.iter().filter_map(|(prefix, entry)| Some((prefix, entry.next_hop()?))).collect()
    }

    /// How many routes a source has; the cost grows with the number of different routes.
    pub fn count(&self, source: RouteSource) -> u64 {
        let of_source = self.store.routes.list.iter().filter(|shared| shared.route.source == source);
        of_source.map(|shared| u64::from(shared.prefixes)).sum()
    }

    /// Adds a route in order, and returns the one with the same key that it replaces.
    pub fn insert(&mut self, prefix: PrefixOf<A>, route: Route) -> Option<Route> {
        self.store.insert(self.tree.get_or_insert(prefix, Entry::EMPTY), route)
    }

    /// Removes a route. The entry stays even if it has no route left: see [`clean_up`](Self::clean_up). If the route
    /// was in use, the index of the one in use becomes [`GONE`].
    pub fn remove(&mut self, prefix: PrefixOf<A>, key: RouteKey) -> Option<Route> {
        self.store.remove(self.tree.get_mut(prefix)?, key)
    }

    /// Removes an entry without routes.
    pub fn clean_up(&mut self, prefix: PrefixOf<A>) {
        if self.get(prefix).is_some_and(|entry| !entry.has_routes()) {
            self.tree.remove(prefix);
        }
    }
}

fn ids<'r>(entry: &'r Entry, several: &'r [Several]) -> &'r [RouteId] {
    match entry.list() {
        Some(list) => &several[list].routes,
        None if entry.has_routes() => std::slice::from_ref(&entry.routes),
        None => &[],
    }
}

/// Where in a list the route with this key is, or belongs.
fn place(routes: &AllRoutes, ids: &[RouteId], key: RouteKey) -> Result<usize, usize> {
    ids.binary_search_by_key(&key, |id| routes.get(*id).key())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> PrefixOf<u32> {
        text.parse().expect(text)
    }

    fn route(source: RouteSource, metric: u32) -> Route {
        Route::new(source, RouteTarget::Blackhole).with_metric(metric)
    }

    #[test]
    fn preference_before_metric_before_source() {
        let mut table = Table::default();
        let net = prefix("10.0.0.0/8");
        let floating = route(RouteSource::Static, 0).with_preference(200);
        let order = [
            route(RouteSource::Local, 0),
            route(RouteSource::Connected, 0),
            route(RouteSource::Connected, 99),
            route(RouteSource::Static, 10),
            route(RouteSource::Static, 20),
            route(RouteSource::Linux, 0),
            route(RouteSource::Dynamic, 0),
            floating,
        ];
        // Inserted in an order that is neither this one nor its reverse.
        for at in [4, 0, 2, 6, 1, 7, 3, 5] {
            assert_eq!(table.insert(net, order[at].clone()), None);
        }
        assert_eq!(table.routes(net).iter().cloned().collect::<Vec<_>>(), order);
        let mut other = order[3].clone();
        other.target = RouteTarget::Prohibit;
        assert_eq!(table.insert(net, other.clone()), Some(order[3].clone()), "the same key");
        assert_eq!(table.remove(net, order[3].key()), Some(other));
        assert_eq!(table.remove(net, order[3].key()), None);
        assert_eq!(table.remove(prefix("10.0.0.0/9"), order[0].key()), None);
    }

    #[test]
    fn what_is_in_use_keeps_its_index() {
        let mut table = Table::default();
        let net = prefix("10.0.0.0/8");
        let (near, far) = (route(RouteSource::Static, 10), route(RouteSource::Static, 20));
        table.insert(net, far.clone());
        table.set_chosen(net, Some((0, NextHopId::BLACKHOLE)));
        table.insert(net, near.clone());
        assert_eq!(table.get(net).and_then(|entry| table.in_use(entry)), Some(&far));
        table.remove(net, near.key());
        assert_eq!(table.get(net).and_then(|entry| table.in_use(entry)), Some(&far));
        table.remove(net, far.key());
        let entry = table.get(net).expect("not cleaned up");
        assert_eq!((table.in_use(entry), entry.next_hop()), (None, Some(NextHopId::BLACKHOLE)));
        table.clean_up(net);
        assert!(table.get(net).is_none());
    }

    #[test]
    fn entries_and_routes_are_small() {
        assert_eq!(size_of::<Entry>(), 8);
        // A route that differs from all others takes both. It took 80 bytes while the table had the route as well.
        assert_eq!((size_of::<Shared>(), size_of::<RouteId>()), (48, 4));
    }

    #[test]
    fn equal_routes_are_one_and_are_forgotten_with_the_last() {
        let mut table = Table::default();
        let nets = ["10.0.0.0/8", "11.0.0.0/8"].map(prefix);
        for net in nets {
            table.insert(net, route(RouteSource::Linux, 7));
            table.insert(net, route(RouteSource::Static, 7));
        }
        assert_eq!(table.store.routes.numbers.len(), 2);
        for net in nets {
            table.remove(net, route(RouteSource::Linux, 7).key());
            table.remove(net, route(RouteSource::Static, 7).key());
            table.clean_up(net);
        }
        assert_eq!((table.store.routes.numbers.len(), table.tree.len(), table.store.free.len()), (0, 0, 2));
        table.insert(nets[0], route(RouteSource::Static, 1));
        assert_eq!(table.store.routes.list.len(), 2, "numbers are reused");
    }
}
