// SPDX-License-Identifier: MIT
//! Routes of groups: the configuration's, those of Linux, and the table in which workers and the slow path look them
//! up.

use perigee_config::Config;
use perigee_fib::{Interfaces, MulticastCounters, MulticastInput, MulticastOrigin, MulticastTable};
use perigee_net::{MulticastLimits, MulticastOutput, MulticastRoute};
use perigee_slowpath::{GroupPacket, MulticastDecision, Time};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Whose counters: the configuration's or Linux's route, by group and source.
type CounterKey = (bool, IpAddr, Option<IpAddr>);

/// All multicast routes of a router.
pub(crate) struct Multicast {
    fixed: Vec<MulticastRoute>,
    limits: Vec<MulticastLimits>,
    linux: Vec<(MulticastRoute, MulticastOrigin)>,
    counters: HashMap<CounterKey, Arc<MulticastCounters>>,
    table: Arc<MulticastTable>,
}

fn counter_key(route: &MulticastRoute, origin: MulticastOrigin) -> CounterKey {
    (origin == MulticastOrigin::Static, route.group, route.source)
}

impl Multicast {
    /// The configuration's routes and limits.
    pub fn new(config: &Config, interfaces: &Interfaces) -> Multicast {
        let limits = config.interfaces.iter().map(|interface| interface.multicast.clone()).collect();
        let (fixed, linux) = (config.multicast.clone(), Vec::new());
        let mut new = Multicast { fixed, limits, linux, counters: HashMap::new(), table: Arc::default() };
        new.renew(interfaces);
        new
    }

    /// Goes on with the counts of another one.
    pub fn count_on(&mut self, other: &Multicast, interfaces: &Interfaces) {
        self.counters.extend(other.counters.iter().map(|(key, counters)| (*key, counters.clone())));
        self.renew(interfaces);
    }

    /// Replaces the configuration's routes; returns those before.
    pub fn set_fixed(&mut self, routes: Vec<MulticastRoute>, interfaces: &Interfaces) -> Vec<MulticastRoute> {
        let before = std::mem::replace(&mut self.fixed, routes);
        self.renew(interfaces);
        before
    }

    /// Replaces the routes of Linux, and forgets the counts of those that are gone.
    pub fn set_linux(&mut self, routes: Vec<(MulticastRoute, MulticastOrigin)>, interfaces: &Interfaces) {
        self.linux = routes;
        self.renew(interfaces);
        let used = |counters: &Arc<MulticastCounters>| {
            self.table.entries().iter().any(|entry| Arc::ptr_eq(&entry.counters, counters))
        };
        self.counters.retain(|_, counters| used(counters));
    }

    /// Makes the table again, for these interfaces.
    pub fn renew(&mut self, interfaces: &Interfaces) {
        let fixed = self.fixed.iter().map(|route| (route, MulticastOrigin::Static));
        let all = fixed.chain(self.linux.iter().map(|(route, origin)| (route, *origin)));
        let routes = all.map(|(route, origin)| {
            let counters = self.counters.entry(counter_key(route, origin)).or_default().clone();
            MulticastInput { route: route.clone(), origin, counters }
        });
        self.table = Arc::new(MulticastTable::new(routes, interfaces, self.limits.clone()));
    }

    /// All routes as they are followed.
    pub fn table(&self) -> &MulticastTable {
        &self.table
    }

    /// The table for workers, which pay nothing while there is no route.
    pub fn for_workers(&self) -> Option<Arc<MulticastTable>> {
        (!self.table.is_empty()).then(|| self.table.clone())
    }
}

/// Who asks what becomes of a packet.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Asks {
    /// The owner of the tables.
    Owner,
    /// An assistant, which leaves to the owner what is for Linux: that is neither counted nor taken from Linux's share.
    Assistant,
}

/// What becomes of a packet in the slow path; in the order of the fast path's module `multicast`, from which it may
/// come.
pub(crate) fn decide(
    asks: Asks,
    table: &MulticastTable,
    now: Time,
    packet: &GroupPacket,
    leads_back: impl FnOnce() -> bool,
) -> MulticastDecision {
    let GroupPacket { source, group, interface, bytes } = *packet;
    if !table.admits(interface, group) {
        return MulticastDecision::Boundary;
    }
    let Some(entry) = table.find(source, group, interface) else { return MulticastDecision::NoRoute };
    let (counters, bytes) = (&entry.counters, bytes as u64);
    let owner = asks == Asks::Owner;
    if entry.origin == MulticastOrigin::LinuxAlone {
        if owner {
            counters.used(1, bytes, now.0);
        }
        return MulticastDecision::Linux;
    }
    let linux = entry.origin == MulticastOrigin::Linux;
    let expected = entry.expects(interface, leads_back);
    if linux && !owner && (if expected { counters.sample.is_next(now.0) } else { counters.assert.is_next(now.0) }) {
        return MulticastDecision::Linux;
    }
    if !expected {
        counters.wrong();
        let daemon = linux && owner && counters.assert.take(now.0);
        return if daemon { MulticastDecision::Linux } else { MulticastDecision::WrongInterface };
    }
    counters.used(1, bytes, now.0);
    if linux && owner && counters.sample.take(now.0) {
        return MulticastDecision::Linux;
    }
    let away = |output: &&MulticastOutput| output.interface != interface;
    MulticastDecision::Forward(entry.outputs.iter().filter(away).copied().collect())
}
