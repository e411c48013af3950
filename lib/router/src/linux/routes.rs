// SPDX-License-Identifier: MIT
//! One route of Linux that is there, or gone.

use super::translate::{self, Names, Skip};
use super::{LinuxSide, Origin};
use crate::routing::Routing;
use crate::slow::SlowThread;
use perigee_net::{InterfaceId, Prefix, Route, RouteKey};
use perigee_netlink::message::{NextHopTo, Route as LinuxRoute};
use std::collections::HashMap;

/// What numbers mean in a feed.
struct Numbers<'a> {
    by_link: &'a HashMap<u32, InterfaceId>,
    origin: &'a Origin,
}

impl Names for Numbers<'_> {
    fn interface(&self, link: u32) -> Option<InterfaceId> {
        self.by_link.get(&link).copied()
    }

    fn next_hop(&self, id: u32) -> Option<&NextHopTo> {
        self.origin.next_hops.get(&id)
    }
}

impl LinuxSide {
    /// A route in the router's words.
    fn translate(&self, at: usize, route: &LinuxRoute) -> Result<Route, Skip> {
        let RouteKey { preference, metric, source } = self.policy.key(route)?;
        let names = Numbers { by_link: &self.by_link, origin: &self.origins[at] };
        let target = translate::target(route, &names)?;
        Ok(Route { source, preference, metric, target })
    }

    fn skip(&mut self, skip: Skip) {
        *self.counters.skips.entry(skip).or_default() += 1;
    }

    /// What the table refused: said once, counted always.
    fn refused(&mut self, prefix: Prefix, error: &perigee_fib::FibError) {
        self.counters.refused += 1;
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!("a route of Linux to {prefix} is not taken over: {error}; `perigee show linux` counts more");
        }
    }

    /// Takes a route out, and counts.
    pub(super) fn withdraw(&mut self, routing: &mut Routing, prefix: Prefix, key: RouteKey) {
        match routing.withdraw(prefix, key) {
            Ok(_) => self.counters.changes += 1,
            Err(error) => self.refused(prefix, &error),
        }
    }

    pub(super) fn insert(&mut self, routing: &mut Routing, prefix: Prefix, route: Route) -> bool {
        match routing.insert(prefix, route) {
            Ok(changed) => {
                self.counters.changes += u64::from(changed);
                changed
            }
            Err(error) => {
                self.refused(prefix, &error);
                false
            }
        }
    }
}

impl SlowThread {
    pub(super) fn route_is_there(&mut self, at: usize, dumped: bool, linux: &LinuxRoute) {
        // The route may be over an interface that has just come.
        self.refresh_interfaces();
        let (side, routing) = (&mut self.linux, &mut self.parts.routing);
        let (prefix, origin) = (linux.prefix, &mut side.origins[at]);
        if linux.next_hop != 0 {
            origin.named.insert(linux.next_hop);
            if let Some(seen) = &mut origin.dump {
                seen.named.insert(linux.next_hop);
            }
        }
        let translated = side.translate(at, linux);
        let route = match translated {
            Ok(route) => route,
            Err(skip) => {
                side.skip(skip);
                side.origins[at].missed |= matches!(skip, Skip::OtherInterface | Skip::NextHop);
                // It may have replaced one that was followed, or have come beside it.
                if let (Ok(key), false) = (side.policy.key(linux), dumped || linux.appended)
                    && has(routing, prefix, key)
                {
                    match (at, skip) {
                        (0, Skip::OtherInterface) => side.suspect(),
                        _ => side.withdraw(routing, prefix, key),
                    }
                }
                return;
            }
        };
        let key = route.key();
        if linux.appended && matches!(prefix, Prefix::V4(_)) && has(routing, prefix, key) {
            side.appended.insert((prefix, key));
            return;
        }
        if let Some(seen) = side.origins[at].dump.as_mut().filter(|_| dumped) {
            // Of several with one key the first is in use.
            if !seen.route(prefix, key) {
                side.appended.insert((prefix, key));
                return;
            }
        }
        let first = !side.origins[at].complete;
        if side.insert(routing, prefix, route) && dumped && !first {
            side.counters.repaired += 1;
        }
    }

    /// A route of a dump that is compared with the RIB.
    pub(super) fn audit_route(&mut self, at: usize, linux: &LinuxRoute) {
        let side = &mut self.linux;
        // By its own numbers of next-hop objects, not by those of another feed.
        let Ok(route) = side.translate(at, linux) else { return };
        let (prefix, key) = (linux.prefix, route.key());
        let Some(seen) = side.origins[at].dump.as_mut() else { return };
        if !seen.route(prefix, key) {
            return;
        }
        let followed = side.origins[at].routes || is_of_frr(linux.protocol);
        let present = self.parts.routing.rib().route(prefix, key);
        let differs = followed && present != Some(&route);
        let words = differs.then(|| (Some(self.in_words(&route)), present.map(|present| self.in_words(present))));
        if let Some((found, routes)) = self.linux.origins[at].dump.as_mut().and_then(|seen| seen.audit.as_mut()) {
            *routes += u64::from(followed);
            if let Some(words) = words {
                found.insert((prefix, key), words);
            }
        }
    }

    pub(super) fn route_is_gone(&mut self, at: usize, linux: &LinuxRoute) {
        let (side, routing) = (&mut self.linux, &mut self.parts.routing);
        let prefix = linux.prefix;
        let key = match side.policy.key(linux) {
            Ok(key) => key,
            Err(skip) => return side.skip(skip),
        };
        let Some(present) = routing.rib().routes(prefix).iter().find(|route| route.key() == key).cloned() else {
            return;
        };
        if side.appended.remove(&(prefix, key)) {
            side.suspect();
        }
        match side.translate(at, linux) {
            Ok(gone) if gone.target == present.target => side.withdraw(routing, prefix, key),
            // IPv6 says of each way by itself that it is gone.
            Ok(gone) if matches!(prefix, Prefix::V6(_)) => match translate::without(&present, &gone.target) {
                Some(left) if left != present => drop(side.insert(routing, prefix, left)),
                Some(_) => {}
                None => side.withdraw(routing, prefix, key),
            },
            // Another one with the same key, or old news: a dump has overtaken them.
            Ok(_) => {}
            // One beside it over another interface, or all that Linux has of several ways.
            Err(Skip::OtherInterface) if at == 0 => side.suspect(),
            // What its ways were is not known any more.
            Err(_) => side.withdraw(routing, prefix, key),
        }
    }
}

/// What zebra makes: with its feed, other routes of Linux need not be in the RIB.
fn is_of_frr(protocol: u8) -> bool {
    matches!(protocol, 11 | 42 | 186..=198)
}

fn has(routing: &Routing, prefix: Prefix, key: RouteKey) -> bool {
    routing.rib().route(prefix, key).is_some()
}
