// SPDX-License-Identifier: MIT
//! Gateways without an interface: which route reaches each of them, and so which routes can be used.
//!
//! The rules, which do not depend on the order in which routes came:
//!
//! - A gateway's *carrier* is the longest prefix of the routing table that contains it, whether that prefix's routes are in
//!   use or not. The default route carries no gateway, unless that is allowed.
//! - A gateway has a way if a route of its carrier can be used: the best such is its way. On a connected network the
//!   gateway is a neighbor, and so it is on each link of a route with several; over a route with a gateway it is reached through that; over a blackhole, unreachable or
//!   prohibit route it shares that fate (RFC 5635 blackholes with it). An address of the router's own is no way.
//! - A route can be used if its gateway, or one of several, has a way of at most [`MAX_DEPTH`] steps. A gateway that leads
//!   back to the route's own prefix, by any routes of the carriers between, is a loop and is not used.
//!
//! A change of a route concerns the gateways that its prefix carried or carries now, and those that depend on them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use prefix_trie::PrefixMap;

use crate::next_hop::NextHopId;
use crate::next_hop::writer::Via;
use crate::rib::entries::{Routes, Table};
use perigee_net::{Address, PrefixOf, Route, RouteTarget};

/// How many routes may lie between a gateway and the connected network that it is reached over, that one included.
pub const MAX_DEPTH: u8 = 8;

/// An address family: what the routing table and its gateways need of one.
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

/// What a next hop should be, before it has an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spec<A> {
    Fixed(NextHopId),
    Via(Via),
    Recursive(A),
    Group(Arc<[(Spec<A>, u32)]>),
}

impl<A: Clone> Spec<A> {
    /// The way to `gateway` over a group: where a member is a link, the gateway is a neighbor there.
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

/// How a route or a gateway is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way<A> {
    pub next: Spec<A>,
    /// How many gateways without an interface are passed.
    depth: u8,
}

/// What is known of a gateway, and follows from the routes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct State<A> {
    pub carrier: Option<PrefixOf<A>>,
    /// The gateways of the carrier's routes.
    leads_to: Vec<A>,
    /// The lowest gateway of those that lead to each other, this one among them.
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
    /// The prefixes with a route through it.
    users: HashSet<PrefixOf<A>>,
    state: State<A>,
}

/// The gateways of all routes that name no interface with them.
pub(crate) struct Gateways<A: Address> {
    tracked: PrefixMap<PrefixOf<A>, Tracked<A>>,
    carried: HashMap<PrefixOf<A>, BTreeSet<A>>,
    /// By gateway: those that lead to it.
    led_by: HashMap<A, BTreeSet<A>>,
    via_default: bool,
}

/// What a change did to the gateways: each that it concerns, after those it leads to, with what was known before.
pub(crate) struct Settled<A>(pub Vec<(A, State<A>)>);

impl<A: Family> Gateways<A>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    pub fn new(via_default: bool) -> Self {
        Self { tracked: PrefixMap::new(), carried: HashMap::new(), led_by: HashMap::new(), via_default }
    }

    pub fn via_default(&self) -> bool {
        self.via_default
    }

    fn get(&self, gateway: A) -> Option<&Tracked<A>> {
        self.tracked.get(&PrefixOf::host(gateway))
    }

    /// The recursive next hop of a gateway that is tracked.
    pub fn id(&self, gateway: A) -> Option<NextHopId> {
        self.get(gateway).map(|tracked| tracked.id)
    }

    /// Starts to track a gateway, with this recursive next hop.
    pub fn track(&mut self, gateway: A, id: NextHopId) {
        let tracked = Tracked { id, users: HashSet::new(), state: State::default() };
        self.tracked.insert(PrefixOf::host(gateway), tracked);
    }

    /// Notes that `prefix` has a route through a gateway that is tracked.
    pub fn add_user(&mut self, gateway: A, prefix: PrefixOf<A>) {
        if let Some(tracked) = self.tracked.get_mut(&PrefixOf::host(gateway)) {
            tracked.users.insert(prefix);
        }
    }

    /// Notes that `prefix` has none any more. The last one takes the gateway with it: its next hop.
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

    /// Every gateway, with its next hop.
    pub fn iter(&self) -> impl Iterator<Item = (A, NextHopId)> {
        self.tracked.iter().map(|(host, tracked)| (host.addr(), tracked.id))
    }

    /// The gateways that `prefix` carried, or carries now.
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
        let (carrier, _) = table.covering(gateway)?;
        (carrier.len() > 0 || self.via_default).then_some(carrier)
    }

    /// Finds the ways of these gateways, and of all that depend on them, anew.
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

    /// Makes everything known again as it was before.
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

    /// The strongly connected components of these gateways by what they lead to, each after those that it leads to (Tarjan:
    /// "Depth-First Search and Linear Graph Algorithms", 1972; without recursion, as a chain may be long).
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
                    // Back from the edge before this one, or past one that needed no visit.
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

    /// The best of the routes to `prefix` that can be used: its index, and where it leads.
    pub fn choose(&self, prefix: PrefixOf<A>, routes: Routes<'_>) -> Option<(usize, Way<A>)> {
        routes.iter().enumerate().find_map(|(at, route)| Some((at, self.way_of(prefix, route)?)))
    }

    fn way_of(&self, prefix: PrefixOf<A>, route: &Route) -> Option<Way<A>> {
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
        }
    }

    /// All gateways but those that are loops are members, so that the group is the same one when one of them loses its way.
    fn way_of_several(&self, prefix: PrefixOf<A>, route: &Route) -> Option<Way<A>> {
        let RouteTarget::Multipath(multipath) = &route.target else { return None };
        let (mut members, mut deepest) = (Vec::new(), None);
        for member in multipath.members() {
            let (next, depth) = match member.interface {
                Some(interface) => (Spec::Via(Via { interface, gateway: member.address }), Some(0)),
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

/// The gateways of a route that come without an interface.
pub(crate) fn recursive<A: Family>(route: &Route) -> impl Iterator<Item = A> {
    route.gateways().filter(|(_, interface)| interface.is_none()).filter_map(|(address, _)| A::of(address))
}

fn remove_from<K: std::hash::Hash + Eq, V: Ord>(map: &mut HashMap<K, BTreeSet<V>>, key: K, value: V) {
    if let Some(set) = map.get_mut(&key) {
        set.remove(&value);
        if set.is_empty() {
            map.remove(&key);
        }
    }
}
