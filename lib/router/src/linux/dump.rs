// SPDX-License-Identifier: MIT
//! A dump against what is there: what a dump does not name is gone.

use super::audit::Found;
use crate::slow::SlowThread;
use perigee_fib::Rib;
use perigee_net::{InterfaceAddress, InterfaceId, Prefix, Prefix4, Prefix6, RouteKey, RouteSource, RouteTarget};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

/// What a dump has named so far. Of a route no more than its key: 12 bytes of an IPv4 one, 32 of an IPv6 one.
pub(crate) struct Seen {
    /// When it began.
    pub began: u64,
    v4: Vec<(Prefix4, u8, u32)>,
    v6: Vec<(Prefix6, u8, u32)>,
    pub links: BTreeSet<u32>,
    pub addresses: BTreeMap<u32, Vec<InterfaceAddress>>,
    pub next_hops: BTreeSet<u32>,
    /// Ids of next-hop objects that routes named.
    pub named: HashSet<u32>,
    pub neighbors: BTreeSet<(InterfaceId, IpAddr)>,
    /// Where nothing is to change: what differs, and how many routes were compared.
    pub audit: Option<(Found, u64)>,
}

impl Seen {
    pub fn new(began: u64, audit: bool) -> Seen {
        Seen {
            began,
            v4: Vec::new(),
            v6: Vec::new(),
            links: BTreeSet::new(),
            addresses: BTreeMap::new(),
            next_hops: BTreeSet::new(),
            named: HashSet::new(),
            neighbors: BTreeSet::new(),
            audit: audit.then(|| (Found::new(), 0)),
        }
    }

    /// A route was named; whether it is the first of its key, those of one key coming one after the other.
    pub fn route(&mut self, prefix: Prefix, key: RouteKey) -> bool {
        match prefix {
            Prefix::V4(prefix) => push(&mut self.v4, (prefix, key.preference, key.metric)),
            Prefix::V6(prefix) => push(&mut self.v6, (prefix, key.preference, key.metric)),
        }
    }

    /// The routes of Linux of one family that the dump did not name. The kernel's order is nearly the RIB's, so that sorting costs
    /// next to nothing, and then both are walked side by side.
    fn unseen(&mut self, rib: &Rib, is_v6: bool) -> Vec<(Prefix, RouteKey)> {
        let routes = rib.of_source(RouteSource::Linux, is_v6, None).map(|(prefix, route)| (prefix, route.key()));
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

/// What of `routes`, which are in order, is not in a list.
fn left_over<P: Ord + Copy + Into<Prefix>>(
    seen: &mut [(P, u8, u32)],
    routes: impl Iterator<Item = (P, RouteKey)>,
) -> Vec<(Prefix, RouteKey)> {
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

impl SlowThread {
    /// All of a dump has come: what it did not name is gone. One with holes says nothing of that.
    pub(super) fn dump_ends(&mut self, at: usize, complete: bool) {
        let Some(mut seen) = self.linux.origins[at].dump.take() else { return };
        if let Some((found, routes)) = seen.audit.take() {
            let found = self.not_in_linux(found, &mut seen, complete);
            return self.audit_dump(found, routes, complete);
        }
        if at == 0 && self.audit_waits() {
            // This one had to be done, and so the next is for the audit.
            self.linux.dump_for_audit();
        }
        let now = (self.parts.clock)();
        self.linux.counters.resyncs += 1;
        self.linux.counters.resync_seconds = now.saturating_sub(seen.began) as f64 / 1e9;
        if !complete {
            return;
        }
        let origin = &mut self.linux.origins[at];
        let first = !std::mem::replace(&mut origin.complete, true);
        origin.lost = false;
        origin.next_hops.retain(|id, _| seen.next_hops.contains(id));
        origin.named = std::mem::take(&mut seen.named);
        let (routes, is_netlink) = (origin.routes, at == 0);
        if routes {
            self.withdraw_unseen(at, &mut seen, first);
        }
        if is_netlink {
            self.links_seen(&seen);
            self.neighbors_seen(&seen);
        }
        if first && is_netlink {
            self.tell_all_neighbors();
        }
    }

    /// Adds what the RIB has of Linux and a dump did not name.
    fn not_in_linux(&self, mut found: Found, seen: &mut Seen, complete: bool) -> Found {
        let rib = self.parts.routing.rib();
        for is_v6 in [false, true].into_iter().filter(|_| complete) {
            for (prefix, key) in seen.unseen(rib, is_v6) {
                let Some(route) = rib.route(prefix, key) else { continue };
                // zebra tells the networks of links too, with metrics of its own; in Linux they are the kernel's.
                if self.linux.origins[0].routes || !matches!(route.target, RouteTarget::Connected { .. }) {
                    found.insert((prefix, key), (None, Some(self.in_words(route))));
                }
            }
        }
        found
    }

    fn withdraw_unseen(&mut self, at: usize, seen: &mut Seen, first: bool) {
        let (side, routing) = (&mut self.linux, &mut self.parts.routing);
        let [mut unseen, unseen6] = [false, true].map(|is_v6| seen.unseen(routing.rib(), is_v6));
        // The kernel counts its way through IPv6's tree, and loses count when the tree changes: only what two dumps in a row do
        // not name is gone.
        let sure = |key: &(Prefix, RouteKey)| at != 0 || side.doubtful.contains(key);
        let (gone, doubtful): (Vec<_>, Vec<_>) = unseen6.into_iter().partition(sure);
        unseen.extend(gone);
        if !doubtful.is_empty() {
            side.dump();
        }
        side.doubtful = doubtful.into_iter().collect();
        if !first {
            side.counters.repaired += unseen.len() as u64;
        }
        for (prefix, key) in unseen {
            side.withdraw(routing, prefix, key);
        }
    }
}
