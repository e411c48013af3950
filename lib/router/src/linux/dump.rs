// SPDX-License-Identifier: MIT
//! A dump against what is there: what a dump does not name is gone.

use super::audit::Found;
use crate::slow::SlowThread;
use perigee_fib::{Prefix, Prefix4, Prefix6, RouteKey, RouteSource};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What a dump has named so far. Of a route no more than its key: 12 bytes of an IPv4 one, 32 of an IPv6 one.
pub(crate) struct Seen {
    /// When it began.
    pub began: u64,
    v4: Vec<(Prefix4, u8, u32)>,
    v6: Vec<(Prefix6, u8, u32)>,
    pub links: BTreeSet<u32>,
    pub addresses: BTreeMap<u32, Vec<(IpAddr, u8)>>,
    pub next_hops: BTreeSet<u32>,
    pub neighbors: BTreeSet<(u16, IpAddr)>,
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

    fn sort(&mut self) {
        self.v4.sort_unstable();
        self.v6.sort_unstable();
    }

    fn has(&self, prefix: Prefix, key: RouteKey) -> bool {
        match prefix {
            Prefix::V4(prefix) => self.v4.binary_search(&(prefix, key.preference, key.metric)).is_ok(),
            Prefix::V6(prefix) => self.v6.binary_search(&(prefix, key.preference, key.metric)).is_ok(),
        }
    }
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
        let now = (self.parts.clock)();
        self.linux.counters.resyncs += 1;
        self.linux.counters.resync_seconds = now.saturating_sub(seen.began) as f64 / 1e9;
        if let Some((found, routes)) = seen.audit.take() {
            seen.sort();
            let found = self.not_in_linux(found, &seen, complete);
            return self.audit_dump(found, routes, complete);
        }
        if at == 0 && self.audit_waits() {
            // This one had to be done, and so the next is for the audit.
            self.linux.dump();
        }
        if !complete {
            return;
        }
        let origin = &mut self.linux.origins[at];
        let first = !std::mem::replace(&mut origin.complete, true);
        origin.lost = false;
        origin.next_hops.retain(|id, _| seen.next_hops.contains(id));
        let (routes, is_netlink) = (origin.routes, at == 0);
        if routes {
            seen.sort();
            self.withdraw_unseen(&seen, first);
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
    fn not_in_linux(&self, mut found: Found, seen: &Seen, complete: bool) -> Found {
        for is_v6 in [false, true].into_iter().filter(|_| complete) {
            for (prefix, route) in self.parts.routing.rib().of_source(RouteSource::Linux, is_v6, None) {
                if !seen.has(prefix, route.key()) {
                    found.insert((prefix, route.key()), (None, Some(self.in_words(route))));
                }
            }
        }
        found
    }

    fn withdraw_unseen(&mut self, seen: &Seen, first: bool) {
        let (side, routing) = (&mut self.linux, &mut self.parts.routing);
        let [mut unseen, unseen6] = [false, true].map(|is_v6| -> Vec<(Prefix, RouteKey)> {
            let of_linux = routing.rib().of_source(RouteSource::Linux, is_v6, None);
            let keys = of_linux.map(|(prefix, route)| (prefix, route.key()));
            keys.filter(|(prefix, key)| !seen.has(*prefix, *key)).collect()
        });
        // The kernel counts its way through IPv6's tree, and loses count when the tree changes: only what two dumps in a row do
        // not name is gone.
        let (gone, doubtful): (Vec<_>, Vec<_>) = unseen6.into_iter().partition(|key| side.doubtful.contains(key));
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
