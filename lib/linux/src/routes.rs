// SPDX-License-Identifier: MIT
//! One route of Linux that is new or gone.

use crate::audit::{describe, describe_both};
use crate::dump::Seen;
use crate::exceptions::linux_only;
use crate::feed::Feed;
use crate::follower::Follower;
use crate::next_hops::NextHops;
use crate::translate::{self, Names, Skip};
use crate::{FeedId, Table};
use perigee_fib::FibError;
use perigee_net::{InterfaceId, LinuxOnly, Prefix, Route, RouteKey, RouteTarget};
use perigee_netlink::message::{Hops, NextHopTo, Route as LinuxRoute};
use std::net::IpAddr;

/// The meaning of a feed's numbers.
struct Numbers<'a> {
    follower: &'a Follower,
    next_hops: &'a NextHops,
}

impl Names for Numbers<'_> {
    fn interface(&self, link: u32) -> Option<InterfaceId> {
        let station = || self.follower.station_of(&self.follower.links.get(&link)?.link);
        // What Linux sends by a virtual station leaves by the interface that it is on.
        self.follower.by_link.get(&link).copied().or_else(|| Some(station()?.interface))
    }

    fn next_hop(&self, id: u32) -> Option<&NextHopTo> {
        self.next_hops.get(id)
    }

    fn owns(&self, link: u32, address: IpAddr) -> bool {
        let known = self.follower.links.get(&link).map(|known| known.addresses.as_slice()).unwrap_or_default();
        // A dump in progress has named addresses before routes.
        let dump = self.follower.feeds.first().and_then(|kernel| kernel.dump.as_ref());
        let named = dump.and_then(|seen| seen.addresses.get(&link)).map(Vec::as_slice).unwrap_or_default();
        known.iter().chain(named).any(|own| own.with_prefix.address == address)
    }

    fn mtu(&self, interface: InterfaceId) -> u32 {
        let mut links = self.follower.by_link.iter();
        let known = links.find(|(_, id)| **id == interface).and_then(|(link, _)| self.follower.links.get(link));
        known.map_or(u32::MAX, |known| known.link.mtu)
    }
}

impl Follower {
    pub(crate) fn route_is_there(&mut self, id: FeedId, dumped: bool, linux: &LinuxRoute, table: &mut dyn Table) {
        // The route may be over a new interface.
        self.refresh_interfaces(table);
        self.named(id, linux.next_hop);
        self.has_mtus |= linux.mtu != 0;
        let prefix = linux.prefix;
        let route = match self.translate(id, linux) {
            Ok(route) => route,
            Err(skip) => return self.left_out(id, dumped, linux, skip, table),
        };
        let key = route.key();
        if matches!(linux_only(&route), Some(LinuxOnly::OtherInterface | LinuxOnly::NextHop)) {
            if dumped && self.may_name_a_newer_object(id, linux) {
                return;
            }
            self.is_incomplete(id);
        }
        if !dumped && id == FeedId::Kernel && is_behind(linux, &route, table.rib().route(prefix, key)) {
            self.appended.insert((prefix, key));
            return;
        }
        if !dumped && id == FeedId::Kernel && is_before(linux, table.rib().route(prefix, key)) {
            self.appended.insert((prefix, key));
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

    /// A route that is not followed may have replaced one that was.
    fn left_out(&mut self, id: FeedId, dumped: bool, linux: &LinuxRoute, skip: Skip, table: &mut dyn Table) {
        self.skip(skip);
        self.named_left_out.is_there(linux, skip);
        // The kernel reports a replacement by a notification. zebra's changes are part of its dump.
        let in_dump = dumped && id == FeedId::Kernel;
        if let (Ok(key), false) = (self.policy.key(linux), in_dump || linux.appended)
            && has(table, linux.prefix, key)
        {
            self.withdraw(table, linux.prefix, key);
        }
    }

    /// A route names a link or an object that is not known: it has to be read again once that is.
    fn is_incomplete(&mut self, id: FeedId) {
        if let Some(feed) = self.feed(id) {
            feed.missed = true;
        }
    }

    /// A route of a kernel's dump may name a next-hop object that is newer than the dump's list of objects.
    /// Notifications of both follow the dump. Until then the route that it replaces stays. Returns whether that is
    /// so.
    fn may_name_a_newer_object(&mut self, id: FeedId, linux: &LinuxRoute) -> bool {
        let Ok(key) = self.policy.key(linux) else { return false };
        let Some(Feed { dump: Some(seen), next_hops, .. }) = self.feed(id) else { return false };
        let known = seen.audit.as_ref().map_or(&*next_hops, |compared| &compared.next_hops);
        let is_newer = id == FeedId::Kernel && linux.next_hop != 0 && known.get(linux.next_hop).is_none();
        if is_newer {
            seen.route(linux.prefix, key);
        }
        is_newer
    }

    /// Compares a route of a dump with the RIB.
    pub(crate) fn audit_route(&mut self, id: FeedId, linux: &LinuxRoute, table: &dyn Table) {
        let feed = self.feeds.iter().find(|feed| feed.id == id);
        let Some(compared) = feed.and_then(Feed::compared) else { return };
        let route = match self.translate_by(&compared.next_hops, linux) {
            Ok(route) => route,
            Err(_) => return,
        };
        if linux_only(&route) == Some(LinuxOnly::NextHop) && self.may_name_a_newer_object(id, linux) {
            return;
        }
        let (prefix, key) = (linux.prefix, route.key());
        let is_short = self.limit.short;
        let Some(feed) = self.feed(id) else { return };
        let of_feed = feed.routes;
        let followed = of_feed || is_of_frr(linux.protocol);
        let Some(seen) = feed.dump.as_mut() else { return };
        if !seen.route(prefix, key) || !followed {
            return;
        }
        let Some(compared) = seen.audit.as_mut() else { return };
        compared.routes += 1;
        let present = table.rib().route(prefix, key);
        // zebra need not name the same protocol to Linux and by FPM: its older module `fpm` says `zebra` for all
        // routes, in some versions.
        let is_same = |present: &Route| {
            *present == route || !of_feed && Route { protocol: route.protocol, ..present.clone() } == route
        };
        match present {
            Some(present) if is_same(present) => {}
            Some(present) => {
                let (linux, rib) = describe_both(table.interfaces(), &route, present);
                compared.found.insert((prefix, key), (Some(linux), Some(rib)));
            }
            // What there is no room for is counted and said.
            None if is_short => {}
            None => {
                compared.found.insert((prefix, key), (Some(describe(table.interfaces(), &route)), None));
            }
        }
    }

    pub(crate) fn route_is_gone(&mut self, id: FeedId, linux: &LinuxRoute, table: &mut dyn Table) {
        let prefix = linux.prefix;
        self.named_left_out.is_gone(linux);
        let key = match self.policy.key(linux) {
            Ok(key) => key,
            Err(skip) => return self.skip(skip),
        };
        let Some(present) = table.rib().route(prefix, key).cloned() else { return };
        if self.appended.remove(&(prefix, key)) {
            // Until it is known which of them is left, the one in use stays: a hole would send packets elsewhere.
            return self.request_resync();
        }
        let Ok(gone) = self.translate(id, linux) else { return self.withdraw(table, prefix, key) };
        let (was, is_v6) = (linux_only(&present), matches!(prefix, Prefix::V6(_)));
        let is_selective = matches!(present.target, RouteTarget::Selective(_));
        let is_alone =
            id == FeedId::Zebra || was != Some(LinuxOnly::Rule) && !(is_v6 && (was.is_some() || is_selective));
        match linux_only(&gone) {
            None if is_selective && !is_alone => self.request_resync(),
            _ if gone.target == present.target && is_alone => self.withdraw(table, prefix, key),
            // Its next hops are not known any more.
            Some(LinuxOnly::NextHop) => self.withdraw(table, prefix, key),
            // One next to it over another interface or for other packets, one of its next hops, or all of them: until
            // that is known, it stays, as a hole would send packets elsewhere.
            is if is.or(was).is_some() => match id {
                FeedId::Kernel => self.request_resync(),
                FeedId::Zebra => self.withdraw(table, prefix, key),
            },
            // For IPv6, the kernel reports each next hop that is gone separately.
            _ if is_v6 => match translate::without(&present, &gone.target) {
                Some(left) if left != present => drop(self.insert(table, prefix, left)),
                Some(_) => {}
                None => self.withdraw(table, prefix, key),
            },
            // Another one with the same key, or an old notification that a dump has overtaken.
            _ => {}
        }
    }

    /// Translates a route for the table, with the feed's own numbers of next-hop objects, not those of another feed.
    fn translate(&self, id: FeedId, route: &LinuxRoute) -> Result<Route, Skip> {
        let none = NextHops::default();
        let feed = self.feeds.iter().find(|feed| feed.id == id);
        self.translate_by(feed.map_or(&none, |feed| &feed.next_hops), route)
    }

    fn translate_by(&self, next_hops: &NextHops, route: &LinuxRoute) -> Result<Route, Skip> {
        self.policy.translate(route, &Numbers { follower: self, next_hops })
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
            Ok(()) => {
                (self.counters.changes, self.version) = (self.counters.changes + 1, self.version + 1);
                self.note((prefix, key), None);
                self.stand_in_behind_withdrawal(prefix, key, table);
            }
            Err(error) => self.refused(prefix, &error),
        }
    }

    /// Adds a route, and counts it; returns whether that changed anything.
    fn insert(&mut self, table: &mut dyn Table, prefix: Prefix, route: Route) -> bool {
        let (noted, was_open) = (route.clone(), self.is_open(prefix, table));
        match table.insert(prefix, route) {
            Ok(changed) => {
                self.note((prefix, noted.key()), Some(&noted));
                self.counters.changes += u64::from(changed);
                self.version += u64::from(changed);
                self.stand_in_behind_insert(prefix, was_open, table);
                changed
            }
            Err(error) => {
                self.refused(prefix, &error);
                if matches!(error, FibError::TooMany { .. }) {
                    self.stand_in_for(prefix, noted.key(), table);
                }
                false
            }
        }
    }
}

/// Whether Linux has put a route behind one with the same key, which stays in use.
fn is_behind(linux: &LinuxRoute, route: &Route, present: Option<&Route>) -> bool {
    match linux.prefix {
        Prefix::V4(_) => linux.appended && present.is_some(),
        // A route of several next hops is reported as a whole, also where one is added.
        Prefix::V6(_) => {
            !linux.replaces && !matches!(linux.hops, Hops::Many(_)) && present.is_some_and(|present| present != route)
        }
    }
}

/// Whether Linux has put a route before one with the same key, which is used again when this one is gone.
fn is_before(linux: &LinuxRoute, present: Option<&Route>) -> bool {
    matches!(linux.prefix, Prefix::V4(_)) && !linux.replaces && present.is_some()
}

/// Whether FRR makes routes of this protocol: with zebra's feed, other routes of Linux need not be in the RIB.
fn is_of_frr(protocol: u8) -> bool {
    matches!(protocol, 11 | 42 | 186..=198)
}

fn has(table: &dyn Table, prefix: Prefix, key: RouteKey) -> bool {
    table.rib().route(prefix, key).is_some()
}
