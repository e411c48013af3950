// SPDX-License-Identifier: MIT
//! Gateways without an interface: which route reaches each of them, and so which routes can be used.
//!
//! The rules, which do not depend on the order in which routes are added:
//!
//! - A route all of whose ways name a link that is down counts as if it was not there.
//! - A gateway's *carrier* is the longest prefix of the routing table that contains it, whether that prefix's routes
//!   are in use or not. The default route carries no gateway, unless that is allowed.
//! - A gateway is reachable if a route of its carrier can be used: the best such route is its *way*. If that is a
//!   connected network, the gateway is a neighbor there; if it has several links, the gateway is a neighbor on each. If
//!   it has a gateway, it is reached through that one. If it is a blackhole, unreachable or prohibit route, it shares
//!   that fate (by which RFC 5635 blackholes traffic). An address of the router itself is not a way.
//! - A route can be used if its gateway, or one of several, has a way of at most [`MAX_DEPTH`] steps. A gateway that
//!   leads back to the route's own prefix, by any routes of the carriers in between, is a loop and is not used.
//!
//! A change of a route affects the gateways that its prefix carried or now carries, and those that depend on them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use prefix_trie::PrefixMap;

use crate::next_hop::NextHopId;
use crate::next_hop::writer::Via;
use crate::rib::entries::{Routes, Table};
use perigee_net::{Address, InterfaceId, PrefixOf, Route, RouteTarget};

/// How many routes may lie on the way from a gateway to the connected network that it is reached over, including that
/// one.
pub const MAX_DEPTH: u8 = 8;

/// What the routing table and its gateways need of an address family.
pub(crate) trait Family: Address + std::hash::Hash {
    /// The address, if it is of this family.
    fn of(address: IpAddr) -> Option<Self>;
}

impl Family for u32 {
    fn of(address: IpAddr) -> Option<u32> {
        if let IpAddr::V4(address) = address { Some(address.to_bits()) } else { None }
    }
}

impl Family for u128 {
    fn of(address: IpAddr) -> Option<u128> {
        if let IpAddr::V6(address) = address { Some(address.to_bits()) } else { None }
    }
}

/// Describes a next hop that has no id yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spec<A> {
    Fixed(NextHopId),
    Via(Via),
    Recursive(A),
    Group(Arc<[(Spec<A>, u32)]>),
}

impl<A: Clone> Spec<A> {
    /// The way to `gateway` over this one: if it is a group, the gateway is a neighbor on each member that is a link.
    fn on_links(self, gateway: IpAddr) -> Self {
        let Self::Group(members) = self else { return self };
        let on_link = |(member, weight): &(Self, u32)| match member {
            Self::Via(Via { interface, gateway: None }) => {
                (Self::Via(Via { interface: *interface, gateway: Some(gateway) }), *weight)
            }
            other => (other.clone(), *weight),
        };
        Self::Group(members.iter().map(on_link).collect())
    }
}

/// How the destinations of a route, or a gateway, are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way<A> {
    pub next: Spec<A>,
    /// How many gateways without an interface are on the way.
    depth: u8,
}

/// What follows from the routes for a gateway.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct State<A> {
    pub carrier: Option<PrefixOf<A>>,
    /// The gateways of the carrier's routes.
    leads_to: Vec<A>,
    /// If this gateway is in a cycle of gateways that lead to one another: the lowest of them, which identifies the
    /// cycle.
    cycle: Option<A>,
    pub way: Option<Way<A>>,
}

impl<A> Default for State<A> {
    fn default() -> Self {
        Self { carrier: None, leads_to: Vec::new(), cycle: None, way: None }
    }
}

struct Tracked<A> {
    id: NextHopId,
    /// The prefixes that have a route through it.
    users: HashSet<PrefixOf<A>>,
    state: State<A>,
}

/// All gateways that routes name without an interface.
pub(crate) struct Gateways<A: Address> {
    tracked: PrefixMap<PrefixOf<A>, Tracked<A>>,
    carried: HashMap<PrefixOf<A>, BTreeSet<A>>,
    /// By gateway: the gateways that lead to it.
    led_by: HashMap<A, BTreeSet<A>>,
    via_default: bool,
    /// Interfaces by which nothing can be sent.
    down: Arc<BTreeSet<InterfaceId>>,
}

/// The gateways that a change affects, each after those that it leads to, with their states before the change.
pub(crate) struct Settled<A>(pub Vec<(A, State<A>)>);

impl<A: Family> Gateways<A>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    pub fn new(via_default: bool) -> Self {
        let (tracked, carried, led_by) = (PrefixMap::new(), HashMap::new(), HashMap::new());
        Self { tracked, carried, led_by, via_default, down: Arc::default() }
    }

    /// With these interfaces down. What follows for gateways is up to the caller.
    pub fn set_down(&mut self, down: Arc<BTreeSet<InterfaceId>>) {
        self.down = down;
    }

    fn is_link_down(&self, interface: InterfaceId) -> bool {
        !self.down.is_empty() && self.down.contains(&interface)
    }

    /// Whether all ways of a route name a link that is down.
    pub fn is_down(&self, route: &Route) -> bool {
        !self.down.is_empty() && leads_over_only(route, |interface| self.down.contains(&interface))
    }

    /// The gateways whose carrier is another one since these links went down or came up, or has routes over them.
    pub fn concerned(&self, table: &Table<A>, changed: &BTreeSet<InterfaceId>) -> Vec<A> {
        let concerned = |gateway: A, state: &State<A>| {
            let carrier = self.carrier(table, gateway);
            let routes = carrier.iter().flat_map(|carrier| table.routes(*carrier).iter());
            state.carrier != carrier || routes.into_iter().any(|route| leads_over(route, changed))
        };
        let all = self.tracked.iter().map(|(host, tracked)| (host.addr(), &tracked.state));
        all.filter(|(gateway, state)| concerned(*gateway, state)).map(|(gateway, _)| gateway).collect()
    }

    pub fn via_default(&self) -> bool {
        self.via_default
    }

    fn get(&self, gateway: A) -> Option<&Tracked<A>> {
        self.tracked.get(&PrefixOf::host(gateway))
    }

    /// The recursive next hop of a tracked gateway.
    pub fn id(&self, gateway: A) -> Option<NextHopId> {
        self.get(gateway).map(|tracked| tracked.id)
    }

    /// Starts to track a gateway, whose recursive next hop is `id`.
    pub fn track(&mut self, gateway: A, id: NextHopId) {
        let tracked = Tracked { id, users: HashSet::new(), state: State::default() };
        self.tracked.insert(PrefixOf::host(gateway), tracked);
    }

    /// Records that `prefix` has a route through a tracked gateway.
    pub fn add_user(&mut self, gateway: A, prefix: PrefixOf<A>) {
        if let Some(tracked) = self.tracked.get_mut(&PrefixOf::host(gateway)) {
            tracked.users.insert(prefix);
        }
    }

    /// Records that `prefix` has none any more. With the last prefix the gateway is forgotten, and its next hop
    /// returned.
    pub fn remove_user(&mut self, gateway: A, prefix: PrefixOf<A>) -> Option<NextHopId> {
        let tracked = self.tracked.get_mut(&PrefixOf::host(gateway))?;
        tracked.users.remove(&prefix);
        if !tracked.users.is_empty() {
            return None;
        }
        self.set_state(gateway, State::default());
        self.tracked.remove(&PrefixOf::host(gateway)).map(|tracked| tracked.id)
    }

    pub fn users(&self, gateway: A) -> impl Iterator<Item = PrefixOf<A>> {
        self.get(gateway).into_iter().flat_map(|tracked| tracked.users.iter().copied())
    }

    pub fn state(&self, gateway: A) -> Option<&State<A>> {
        self.get(gateway).map(|tracked| &tracked.state)
    }

    /// Every gateway with its next hop.
    pub fn iter(&self) -> impl Iterator<Item = (A, NextHopId)> {
        self.tracked.iter().map(|(host, tracked)| (host.addr(), tracked.id))
    }

    /// Whether any gateway is inside `prefix`: else no change of it affects one.
    pub fn are_inside(&self, prefix: PrefixOf<A>) -> bool {
        !self.tracked.is_empty() && self.tracked.children(&prefix).next().is_some()
    }

    /// The gateways that `prefix` carried, or now carries.
    pub fn carried_by(&self, table: &Table<A>, prefix: PrefixOf<A>) -> Vec<A> {
        let concerned = |gateway: A, state: &State<A>| {
            state.carrier == Some(prefix) || state.carrier != self.carrier(table, gateway)
        };
        if self.tracked.is_empty() {
            return Vec::new();
        }
        let inside = self.tracked.children(&prefix);
        inside.filter(|(host, tracked)| concerned(host.addr(), &tracked.state)).map(|(host, _)| host.addr()).collect()
    }

    fn carrier(&self, table: &Table<A>, gateway: A) -> Option<PrefixOf<A>> {
        let (carrier, _) = table.covering(gateway, |route| !self.is_down(route))?;
        (carrier.len() > 0 || self.via_default).then_some(carrier)
    }

    /// Determines again the ways of these gateways and of all that depend on them.
    pub fn settle(&mut self, table: &Table<A>, first: &[A]) -> Settled<A> {
        let mut before: BTreeMap<A, State<A>> = BTreeMap::new();
        for &gateway in first {
            let carrier = self.carrier(table, gateway);
            let mut leads_to: Vec<A> =
                carrier.iter().flat_map(|carrier| table.routes(*carrier).iter()).flat_map(recursive).collect();
            leads_to.sort_unstable();
            leads_to.dedup();
            let old = self.set_state(gateway, State { carrier, leads_to, cycle: None, way: None });
            before.entry(gateway).or_insert(old);
        }
        let mut stack: Vec<A> = first.to_vec();
        while let Some(gateway) = stack.pop() {
            for dependent in self.led_by.get(&gateway).into_iter().flatten() {
                if !before.contains_key(dependent) {
                    before.insert(*dependent, self.state(*dependent).cloned().unwrap_or_default());
                    stack.push(*dependent);
                }
            }
        }
        let concerned: Vec<A> = before.keys().copied().collect();
        concerned.iter().for_each(|gateway| self.update(*gateway, |state| state.cycle = None));
        let mut order = Vec::with_capacity(concerned.len());
        for component in self.components(&concerned) {
            let turns = component.len() > 1 || self.leads_to(component[0]).contains(&component[0]);
            let lowest = component.iter().min().copied().filter(|_| turns);
            for &gateway in &component {
                self.update(gateway, |state| state.cycle = lowest);
            }
            for &gateway in &component {
                let way = self.find_way(table, gateway);
                self.update(gateway, |state| state.way = way);
            }
            order.extend(component);
        }
        Settled(order.into_iter().filter_map(|gateway| Some((gateway, before.remove(&gateway)?))).collect())
    }

    /// Undoes [`settle`](Self::settle).
    pub fn restore(&mut self, settled: Settled<A>) {
        for (gateway, state) in settled.0 {
            self.set_state(gateway, state);
        }
    }

    fn update(&mut self, gateway: A, change: impl FnOnce(&mut State<A>)) {
        if let Some(tracked) = self.tracked.get_mut(&PrefixOf::host(gateway)) {
            change(&mut tracked.state);
        }
    }

    fn set_state(&mut self, gateway: A, state: State<A>) -> State<A> {
        let Some(tracked) = self.tracked.get_mut(&PrefixOf::host(gateway)) else { return state };
        let (carrier, leads_to) = (state.carrier, state.leads_to.clone());
        let old = std::mem::replace(&mut tracked.state, state);
        if let Some(carrier) = old.carrier {
            remove_from(&mut self.carried, carrier, gateway);
        }
        old.leads_to.iter().for_each(|to| remove_from(&mut self.led_by, *to, gateway));
        if let Some(carrier) = carrier {
            self.carried.entry(carrier).or_default().insert(gateway);
        }
        for to in leads_to {
            self.led_by.entry(to).or_default().insert(gateway);
        }
        old
    }

    fn leads_to(&self, gateway: A) -> &[A] {
        self.get(gateway).map_or(&[], |tracked| &tracked.state.leads_to)
    }

    /// The strongly connected components of these gateways in the graph of what leads to what, each after those that it
    /// leads to (Tarjan: "Depth-First Search and Linear Graph Algorithms", 1972; without recursive calls, as a chain
    /// may be long).
    fn components(&self, gateways: &[A]) -> Vec<Vec<A>> {
        const NEW: usize = usize::MAX;
        let place: HashMap<A, usize> = gateways.iter().enumerate().map(|(at, gateway)| (*gateway, at)).collect();
        let mut low = vec![NEW; gateways.len()];
        let mut number = low.clone();
        let mut open = vec![false; gateways.len()];
        let (mut path, mut components, mut count) = (Vec::new(), Vec::new(), 0);
        for start in 0..gateways.len() {
            let mut stack = vec![(start, 0)];
            while let Some((at, edge)) = stack.pop() {
                if edge == 0 {
                    if number[at] != NEW {
                        continue;
                    }
                    (number[at], low[at], open[at]) = (count, count, true);
                    count += 1;
                    path.push(at);
                }
                let edges = self.leads_to(gateways[at]);
                if edge > 0 {
                    // The edge before this one has been followed, or needed no visit.
                    if let Some(&to) = place.get(&edges[edge - 1]).filter(|to| open[**to]) {
                        low[at] = low[at].min(low[to]);
                    }
                }
                if let Some(to) = edges.get(edge) {
                    stack.push((at, edge + 1));
                    if let Some(&to) = place.get(to).filter(|to| number[**to] == NEW) {
                        stack.push((to, 0));
                    }
                    continue;
                }
                if low[at] == number[at] {
                    let from = path.iter().rposition(|on| *on == at).unwrap_or(0);
                    let component: Vec<usize> = path.split_off(from);
                    component.iter().for_each(|on| open[*on] = false);
                    components.push(component.into_iter().map(|on| gateways[on]).collect());
                }
            }
        }
        components
    }

    fn find_way(&self, table: &Table<A>, gateway: A) -> Option<Way<A>> {
        let carrier = self.state(gateway)?.carrier?;
        let routes = table.routes(carrier);
        let (at, Way { next, depth }) = self.choose(carrier, routes)?;
        let depth = depth + 1;
        if depth > MAX_DEPTH {
            return None;
        }
        match routes.get(at)?.target {
            RouteTarget::Local => None,
            RouteTarget::Connected { interface } => {
                let via = Via { interface, gateway: Some(gateway.ip()) };
                Some(Way { next: Spec::Via(via), depth })
            }
            RouteTarget::Multipath(_) => Some(Way { next: next.on_links(gateway.ip()), depth }),
            _ => Some(Way { next, depth }),
        }
    }

    /// The best of the routes to `prefix` that can be used: its index, and its way.
    pub fn choose(&self, prefix: PrefixOf<A>, routes: Routes<'_>) -> Option<(usize, Way<A>)> {
        routes.iter().enumerate().find_map(|(at, route)| Some((at, self.way_of(prefix, route)?)))
    }

    fn way_of(&self, prefix: PrefixOf<A>, route: &Route) -> Option<Way<A>> {
        if self.is_down(route) {
            return None;
        }
        let at_once = |next| Some(Way { next, depth: 0 });
        match &route.target {
            RouteTarget::Connected { interface } => at_once(Spec::Via(Via { interface: *interface, gateway: None })),
            RouteTarget::Gateway { address, interface: Some(interface) } => {
                at_once(Spec::Via(Via { interface: *interface, gateway: Some(*address) }))
            }
            RouteTarget::Gateway { address, interface: None } => {
                let gateway = A::of(*address).filter(|gateway| !self.is_loop(prefix, *gateway))?;
                let depth = self.state(gateway)?.way.as_ref()?.depth;
                Some(Way { next: Spec::Recursive(gateway), depth })
            }
            RouteTarget::Multipath(_) => self.way_of_several(prefix, route),
            RouteTarget::Local => at_once(Spec::Fixed(NextHopId::LOCAL)),
            RouteTarget::Blackhole => at_once(Spec::Fixed(NextHopId::BLACKHOLE)),
            RouteTarget::Unreachable => at_once(Spec::Fixed(NextHopId::UNREACHABLE)),
            RouteTarget::Prohibit => at_once(Spec::Fixed(NextHopId::PROHIBIT)),
            // Not for packets that have to be looked up.
            RouteTarget::Selective(_) => None,
            RouteTarget::ToLinux(_) => at_once(Spec::Fixed(NextHopId::TO_LINUX)),
            RouteTarget::Refused(_) => at_once(Spec::Fixed(NextHopId::REFUSED)),
        }
    }

    /// All gateways but loops are members, reachable or not, so that the group stays the same when one of them loses
    /// its way.
    fn way_of_several(&self, prefix: PrefixOf<A>, route: &Route) -> Option<Way<A>> {
        let RouteTarget::Multipath(multipath) = &route.target else { return None };
        let (mut members, mut deepest) = (Vec::new(), None);
        for member in multipath.members() {
            let (next, depth) = match member.interface {
                Some(interface) => {
                    let depth = if self.is_link_down(interface) { None } else { Some(0) };
                    (Spec::Via(Via { interface, gateway: member.address }), depth)
                }
                None => {
                    let gateway = member.address.and_then(A::of).filter(|gateway| !self.is_loop(prefix, *gateway));
                    let Some(gateway) = gateway else { continue };
                    let way = self.state(gateway).and_then(|state| state.way.as_ref());
                    (Spec::Recursive(gateway), way.map(|way| way.depth))
                }
            };
            deepest = deepest.max(depth);
            members.push((next, u32::from(member.weight)));
        }
        Some(Way { next: Spec::Group(members.into()), depth: deepest? })
    }

    /// Whether a route to `prefix` through `gateway` leads back to `prefix`.
    fn is_loop(&self, prefix: PrefixOf<A>, gateway: A) -> bool {
        let Some(cycle) = self.state(gateway).and_then(|state| state.cycle) else { return false };
        let carried = self.carried.get(&prefix).into_iter().flatten();
        carried.filter_map(|gateway| self.state(*gateway)).any(|state| state.cycle == Some(cycle))
    }
}

/// The gateways that a route names without an interface.
pub(crate) fn recursive<A: Family>(route: &Route) -> impl Iterator<Item = A> {
    route.gateways().filter(|(_, interface)| interface.is_none()).filter_map(|(address, _)| A::of(address))
}

/// Whether a route names only links, and `which` is true of all of them.
fn leads_over_only(route: &Route, which: impl Fn(InterfaceId) -> bool) -> bool {
    match &route.target {
        RouteTarget::Connected { interface } | RouteTarget::Gateway { interface: Some(interface), .. } => {
            which(*interface)
        }
        RouteTarget::Multipath(multipath) => multipath.members().iter().all(|m| m.interface.is_some_and(&which)),
        _ => false,
    }
}

/// Whether a route names one of these links.
pub(crate) fn leads_over(route: &Route, links: &BTreeSet<InterfaceId>) -> bool {
    match &route.target {
        RouteTarget::Connected { interface } | RouteTarget::Gateway { interface: Some(interface), .. } => {
            links.contains(interface)
        }
        RouteTarget::Multipath(multipath) => {
            multipath.members().iter().any(|m| m.interface.is_some_and(|interface| links.contains(&interface)))
        }
        _ => false,
    }
}

fn remove_from<K: std::hash::Hash + Eq, V: Ord>(map: &mut HashMap<K, BTreeSet<V>>, key: K, value: V) {
    if let Some(set) = map.get_mut(&key) {
        set.remove(&value);
        if set.is_empty() {
            map.remove(&key);
        }
    }
}
