// SPDX-License-Identifier: MIT
//! A dump compared with what is there: what a dump does not name is gone.

use crate::audit::Found;
use crate::follower::{Follower, NeighborKey, RouteId};
use crate::limit::is_stand_in;
use crate::merge::Merge;
use crate::next_hops::NextHops;
use crate::{FeedId, Table};
use perigee_fib::Rib;
use perigee_net::{Prefix, Prefix4, Prefix6, RouteKey, RouteSource, RouteTarget};
use perigee_netlink::message::{Address, MulticastKey, Rule};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What a dump has named so far. Routes only by their keys: 12 bytes for IPv4, 32 for IPv6.
#[derive(Default)]
pub(crate) struct Seen {
    /// When it began.
    pub began: u64,
    /// Where the RIB is walked through beside the dump: IPv4, IPv6.
    merges: [Merge; 2],
    v4: Vec<(Prefix4, u8, u32)>,
    v6: Vec<(Prefix6, u8, u32)>,
    pub links: BTreeSet<u32>,
    pub addresses: BTreeMap<u32, Vec<Address>>,
    pub next_hops: BTreeSet<u32>,
    /// Ids of next-hop objects that routes named.
    pub named: HashSet<u32>,
    pub neighbors: BTreeSet<NeighborKey>,
    pub multicast: BTreeSet<MulticastKey>,
    pub rules: Vec<Rule>,
    /// Whether the dump has named all rules.
    pub rules_are_complete: bool,
    /// If the dump is only compared: what it has shown.
    pub audit: Option<Compared>,
}

/// What a dump that is only compared has shown.
#[derive(Default)]
pub(crate) struct Compared {
    /// What differs.
    pub found: Found,
    /// How many routes were compared.
    pub routes: u64,
    /// Next-hop objects as Linux has them, which its routes are read with.
    pub next_hops: NextHops,
}

impl Seen {
    pub fn new(began: u64, audit: bool) -> Seen {
        Seen { began, audit: audit.then(Default::default), ..Seen::default() }
    }

    /// Notes that a route was named; returns whether it is the first of its key (those of one key come in a row).
    pub fn route(&mut self, prefix: Prefix, key: RouteKey) -> bool {
        match prefix {
            Prefix::V4(prefix) => push(&mut self.v4, (prefix, key.preference, key.metric)),
            Prefix::V6(prefix) => push(&mut self.v6, (prefix, key.preference, key.metric)),
        }
    }

    /// The route that was named last is not in the RIB: it need not be remembered.
    pub fn forget(&mut self, prefix: Prefix, key: RouteKey) {
        match prefix {
            Prefix::V4(prefix) => drop(self.v4.pop_if(|last| *last == (prefix, key.preference, key.metric))),
            Prefix::V6(prefix) => drop(self.v6.pop_if(|last| *last == (prefix, key.preference, key.metric))),
        }
    }

    /// Notes a route that Linux need not have, before the one that was named last: what is named next may have the key
    /// of that one.
    pub fn aside(&mut self, prefix: Prefix, key: RouteKey) {
        match prefix {
            Prefix::V4(prefix) => before_last(&mut self.v4, (prefix, key.preference, key.metric)),
            Prefix::V6(prefix) => before_last(&mut self.v6, (prefix, key.preference, key.metric)),
        }
    }

    /// The walk through the RIB's routes of this prefix's family.
    pub fn merge(&mut self, prefix: Prefix) -> &mut Merge {
        &mut self.merges[usize::from(matches!(prefix, Prefix::V6(_)))]
    }

    /// The routes of Linux of one family that the dump did not name. The kernel's order is almost the RIB's, so sorting
    /// costs next to nothing, and then both are walked in parallel.
    fn unseen(&mut self, rib: Rib<'_>, is_v6: bool) -> Vec<RouteId> {
        let routes = rib.routes_of_source(RouteSource::Linux, is_v6, None).map(|(prefix, route)| (prefix, route.key()));
        match is_v6 {
            false => left_over(
                &mut self.v4,
                routes.filter_map(|(p, key)| if let Prefix::V4(p) = p { Some((p, key)) } else { None }),
            ),
            true => left_over(
                &mut self.v6,
                routes.filter_map(|(p, key)| if let Prefix::V6(p) = p { Some((p, key)) } else { None }),
            ),
        }
    }
}

/// Those of `routes`, which are sorted, that are not in a list.
fn left_over<P: Ord + Copy + Into<Prefix>>(
    seen: &mut [(P, u8, u32)],
    routes: impl Iterator<Item = (P, RouteKey)>,
) -> Vec<RouteId> {
    seen.sort_unstable();
    let (mut at, mut unseen) = (0, Vec::new());
    for (prefix, key) in routes {
        let wanted = (prefix, key.preference, key.metric);
        while seen.get(at).is_some_and(|seen| *seen < wanted) {
            at += 1;
        }
        if seen.get(at) != Some(&wanted) {
            unseen.push((prefix.into(), key));
        }
    }
    unseen
}

fn push<T: PartialEq>(list: &mut Vec<T>, item: T) -> bool {
    let first = list.last() != Some(&item);
    if first {
        list.push(item);
    }
    first
}

/// Adds an item as the last but one, unless it is there or the last one.
fn before_last<T: PartialEq>(list: &mut Vec<T>, item: T) {
    let at = list.len().saturating_sub(1);
    if !list.get(at.saturating_sub(1)..).unwrap_or_default().contains(&item) {
        list.insert(at, item);
    }
}

impl Follower {
    /// A dump has ended: what it did not name is gone, unless it is incomplete.
    pub(crate) fn dump_ends(&mut self, now: u64, id: FeedId, complete: bool, table: &mut dyn Table) {
        if id == FeedId::Kernel {
            self.rules_seen();
        }
        let Some(mut seen) = self.feed(id).and_then(|feed| feed.dump.take()) else { return };
        if let Some(Compared { found, routes, .. }) = seen.audit.take() {
            let found = if complete { self.not_in_linux(found, &mut seen, table) } else { found };
            return self.audit_dump(found, routes, complete);
        }
        let is_kernel = id == FeedId::Kernel;
        if is_kernel && self.audit_waits() {
            // This one had to be applied, so the next one is for the audit.
            self.dump_for_audit();
        }
        self.counters.resyncs += 1;
        self.counters.resync_seconds = now.saturating_sub(seen.began) as f64 / 1e9;
        let Some(feed) = self.feed(id).filter(|_| complete) else { return };
        let first = !std::mem::replace(&mut feed.complete, true);
        feed.lost = false;
        feed.next_hops.retain(&seen.next_hops);
        feed.named = std::mem::take(&mut seen.named);
        if feed.routes {
            // First: what is withdrawn may be around routes that this dump has refused.
            self.limit_after_dump();
            self.withdraw_unseen(id, &mut seen, first, table);
        }
        if is_kernel {
            self.named_links.clone_from(&seen.links);
            self.links_seen(now, &seen);
            self.neighbors_seen(&seen);
            self.multicast_seen(&seen);
            if first {
                self.report_all_neighbors();
            }
        }
    }

    /// Adds the RIB's routes of Linux that a dump did not name.
    fn not_in_linux(&self, mut found: Found, seen: &mut Seen, table: &dyn Table) -> Found {
        let rib = table.rib();
        let kernel_routes = self.feeds.first().is_some_and(|kernel| kernel.routes);
        for (prefix, key) in [false, true].into_iter().flat_map(|is_v6| seen.unseen(rib, is_v6)) {
            let Some(route) = rib.route(prefix, key) else { continue };
            // zebra reports the networks of links too, with metrics of its own; in Linux they are the kernel's.
            if is_stand_in(route) {
                continue;
            }
            if kernel_routes || !matches!(route.target, RouteTarget::Connected { .. }) {
                found.insert((prefix, key), (None, Some(crate::audit::describe(table.interfaces(), route))));
            }
        }
        found
    }

    fn withdraw_unseen(&mut self, id: FeedId, seen: &mut Seen, first: bool, table: &mut dyn Table) {
        let [mut unseen, unseen6] = [false, true].map(|is_v6| seen.unseen(table.rib(), is_v6));
        // The kernel finds its place in IPv6's tree by counting, and loses it when the tree changes: only routes that
        // two dumps in a row do not name are gone.
        let sure = |route: &RouteId| id == FeedId::Zebra || self.doubtful.contains(route);
        let (gone, doubtful): (Vec<_>, Vec<_>) = unseen6.into_iter().partition(sure);
        unseen.extend(gone);
        if !doubtful.is_empty() {
            self.request_dump();
        }
        self.doubtful = doubtful.into_iter().collect();
        if !first {
            self.counters.repaired += unseen.len() as u64;
        }
        for (prefix, key) in unseen {
            self.withdraw(table, prefix, key);
        }
    }
}
