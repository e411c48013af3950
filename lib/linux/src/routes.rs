// SPDX-License-Identifier: MIT
//! One route of Linux that is new or gone.

use crate::audit::describe;
use crate::dump::Seen;
use crate::feed::Feed;
use crate::follower::Follower;
use crate::next_hops::NextHops;
use crate::translate::{self, Names, Skip};
use crate::{FeedId, Table};
use perigee_fib::FibError;
use perigee_net::{InterfaceId, Prefix, Route, RouteKey};
use perigee_netlink::message::{NextHopTo, Route as LinuxRoute};
use std::collections::HashMap;

/// The meaning of a feed's numbers.
struct Numbers<'a> {
    by_link: &'a HashMap<u32, InterfaceId>,
    next_hops: &'a NextHops,
}

impl Names for Numbers<'_> {
    fn interface(&self, link: u32) -> Option<InterfaceId> {
        self.by_link.get(&link).copied()
    }

    fn next_hop(&self, id: u32) -> Option<&NextHopTo> {
        self.next_hops.get(id)
    }
}

impl Follower {
    pub(crate) fn route_is_there(&mut self, id: FeedId, dumped: bool, linux: &LinuxRoute, table: &mut dyn Table) {
        // The route may be over a new interface.
        self.refresh_interfaces(table);
        self.named(id, linux.next_hop);
        let prefix = linux.prefix;
        let route = match self.translate(id, linux) {
            Ok(route) => route,
            Err(skip) => return self.left_out(id, dumped, linux, skip, table),
        };
        let key = route.key();
        if linux.appended && matches!(prefix, Prefix::V4(_)) && has(table, prefix, key) {
            self.appended.insert((prefix, key));
            return;
        }
        let Some(feed) = self.feed(id) else { return };
        let complete = feed.complete;
        // The kernel may have several routes with one key: the first is in use. zebra has one route for each key, and
        // its changes arrive in the middle of its table: the last one counts.
        if feed.dump_of(dumped).is_some_and(|seen| !seen.route(prefix, key)) && id == FeedId::Kernel {
            self.appended.insert((prefix, key));
            return;
        }
        // Of the first dump the RIB has nothing yet.
        let (version, merges) = (self.version, dumped && complete && id == FeedId::Kernel);
        let is_known = |seen: &mut Seen| seen.merge(prefix).has(version, table.rib(), prefix, &route);
        if merges && self.feed(id).and_then(|feed| feed.dump.as_mut()).is_some_and(is_known) {
            return;
        }
        if self.insert(table, prefix, route) && dumped && complete {
            self.counters.repaired += 1;
            let version = self.version;
            if let Some(seen) = self.feed(id).and_then(|feed| feed.dump.as_mut()) {
                seen.merge(prefix).changed(version);
            }
        }
    }

    /// Notes that a route names a next-hop object.
    fn named(&mut self, id: FeedId, object: u32) {
        if let Some(feed) = self.feed(id).filter(|_| object != 0) {
            feed.named.insert(object);
            // A notification in the middle of a dump names it as well.
            if let Some(seen) = &mut feed.dump {
                seen.named.insert(object);
            }
        }
    }

    /// A route that is not followed may have replaced one that was, or have been added next to it.
    fn left_out(&mut self, id: FeedId, dumped: bool, linux: &LinuxRoute, skip: Skip, table: &mut dyn Table) {
        self.skip(skip);
        if let Some(feed) = self.feed(id) {
            feed.missed |= matches!(skip, Skip::OtherInterface | Skip::NextHop);
        }
        // The kernel reports a replacement by a notification. zebra's changes are part of its dump.
        let in_dump = dumped && id == FeedId::Kernel;
        if in_dump {
            self.may_name_a_newer_object(id, linux);
        }
        if let (Ok(key), false) = (self.policy.key(linux), in_dump || linux.appended)
            && has(table, linux.prefix, key)
        {
            match (id, skip) {
                (FeedId::Kernel, Skip::OtherInterface) => self.request_resync(),
                _ => self.withdraw(table, linux.prefix, key),
            }
        }
    }

    /// A route of a dump may name a next-hop object that is newer than the dump's list of objects. Notifications of
    /// both follow the dump. Until then the route that it replaces stays.
    fn may_name_a_newer_object(&mut self, id: FeedId, linux: &LinuxRoute) {
        let Ok(key) = self.policy.key(linux) else { return };
        let Some(Feed { dump: Some(seen), next_hops, .. }) = self.feed(id) else { return };
        let known = seen.audit.as_ref().map_or(&*next_hops, |compared| &compared.next_hops);
        if linux.next_hop != 0 && known.get(linux.next_hop).is_none() {
            seen.route(linux.prefix, key);
        }
    }

    /// Compares a route of a dump with the RIB.
    pub(crate) fn audit_route(&mut self, id: FeedId, linux: &LinuxRoute, table: &dyn Table) {
        let feed = self.feeds.iter().find(|feed| feed.id == id);
        let Some(compared) = feed.and_then(Feed::compared) else { return };
        let route = match self.translate_by(&compared.next_hops, linux) {
            Ok(route) => route,
            Err(_) => return self.may_name_a_newer_object(id, linux),
        };
        let (prefix, key) = (linux.prefix, route.key());
        let Some(feed) = self.feed(id) else { return };
        let followed = feed.routes || is_of_frr(linux.protocol);
        let Some(seen) = feed.dump.as_mut() else { return };
        if !seen.route(prefix, key) || !followed {
            return;
        }
        let Some(compared) = seen.audit.as_mut() else { return };
        compared.routes += 1;
        let present = table.rib().route(prefix, key);
        if present != Some(&route) {
            let describe = |route: &Route| Some(describe(table.interfaces(), route));
            compared.found.insert((prefix, key), (describe(&route), present.and_then(describe)));
        }
    }

    pub(crate) fn route_is_gone(&mut self, id: FeedId, linux: &LinuxRoute, table: &mut dyn Table) {
        let prefix = linux.prefix;
        let key = match self.policy.key(linux) {
            Ok(key) => key,
            Err(skip) => return self.skip(skip),
        };
        let Some(present) = table.rib().route(prefix, key).cloned() else { return };
        if self.appended.remove(&(prefix, key)) {
            self.request_resync();
        }
        match self.translate(id, linux) {
            Ok(gone) if gone.target == present.target => self.withdraw(table, prefix, key),
            // For IPv6, the kernel reports each next hop that is gone separately.
            Ok(gone) if matches!(prefix, Prefix::V6(_)) => match translate::without(&present, &gone.target) {
                Some(left) if left != present => drop(self.insert(table, prefix, left)),
                Some(_) => {}
                None => self.withdraw(table, prefix, key),
            },
            // Another one with the same key, or an old notification that a dump has overtaken.
            Ok(_) => {}
            // One next to it over another interface, or all of its next hops.
            Err(Skip::OtherInterface) if id == FeedId::Kernel => self.request_resync(),
            // Its next hops are not known any more.
            Err(_) => self.withdraw(table, prefix, key),
        }
    }

    /// Translates a route for the table, with the feed's own numbers of next-hop objects, not those of another feed.
    fn translate(&self, id: FeedId, route: &LinuxRoute) -> Result<Route, Skip> {
        let feed = self.feeds.iter().find(|feed| feed.id == id).ok_or(Skip::NextHop)?;
        self.translate_by(&feed.next_hops, route)
    }

    fn translate_by(&self, next_hops: &NextHops, route: &LinuxRoute) -> Result<Route, Skip> {
        let RouteKey { preference, metric, source } = self.policy.key(route)?;
        let target = translate::target(route, &Numbers { by_link: &self.by_link, next_hops })?;
        Ok(Route { source, preference, metric, target })
    }

    fn skip(&mut self, skip: Skip) {
        *self.counters.skips.entry(skip).or_default() += 1;
    }

    /// The table has refused a route: it is always counted, and logged once.
    fn refused(&mut self, prefix: Prefix, error: &FibError) {
        self.counters.refused += 1;
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!("a route of Linux to {prefix} is not taken over: {error}; `perigee show linux` counts more");
        }
    }

    /// Removes a route, and counts it.
    pub(crate) fn withdraw(&mut self, table: &mut dyn Table, prefix: Prefix, key: RouteKey) {
        match table.withdraw(prefix, key) {
            Ok(()) => (self.counters.changes, self.version) = (self.counters.changes + 1, self.version + 1),
            Err(error) => self.refused(prefix, &error),
        }
    }

    /// Adds a route, and counts it; returns whether that changed anything.
    fn insert(&mut self, table: &mut dyn Table, prefix: Prefix, route: Route) -> bool {
        match table.insert(prefix, route) {
            Ok(changed) => {
                self.counters.changes += u64::from(changed);
                self.version += u64::from(changed);
                changed
            }
            Err(error) => {
                self.refused(prefix, &error);
                false
            }
        }
    }
}

/// Whether FRR makes routes of this protocol: with zebra's feed, other routes of Linux need not be in the RIB.
fn is_of_frr(protocol: u8) -> bool {
    matches!(protocol, 11 | 42 | 186..=198)
}

fn has(table: &dyn Table, prefix: Prefix, key: RouteKey) -> bool {
    table.rib().route(prefix, key).is_some()
}
