// SPDX-License-Identifier: MIT
//! The multicast routes that routing daemons have made in Linux.
//!
//! They are few and change seldom, so that the table gets all of them whenever one has changed, or the links behind
//! interfaces have. One with an interface that is not the router's, such as the tunnel over which PIM registers
//! sources, is left to Linux as a whole: what Linux gets of its packets it forwards to all of them, so that the router
//! must not.

use crate::dump::Seen;
use crate::follower::Follower;
use crate::{FeedId, Table};
use perigee_fib::MulticastOrigin;
use perigee_net::{MulticastOutput, MulticastRoute};
use perigee_netlink::message::{MulticastKey, MulticastRoute as LinuxRoute};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of them.
#[derive(Default)]
pub(crate) struct Multicast {
    routes: BTreeMap<MulticastKey, LinuxRoute>,
    /// Those that the last dump did not name.
    doubtful: BTreeSet<MulticastKey>,
    /// Whether the table has others.
    pub stale: bool,
}

impl Follower {
    pub(crate) fn multicast_is_there(&mut self, id: FeedId, dumped: bool, route: LinuxRoute) {
        if let Some(seen) = self.feed(id).and_then(|feed| feed.dump_of(dumped)) {
            seen.multicast.insert(route.key);
        }
        let before = self.multicast.routes.insert(route.key, route.clone());
        self.multicast.stale |= before.as_ref() != Some(&route);
    }

    pub(crate) fn multicast_is_gone(&mut self, key: MulticastKey) {
        self.multicast.stale |= self.multicast.routes.remove(&key).is_some();
    }

    /// A dump is complete. As the kernel finds its place in its table by counting, only what two dumps in a row do not
    /// name is gone.
    pub(crate) fn multicast_seen(&mut self, seen: &Seen) {
        let missing = |key: &&MulticastKey| !seen.multicast.contains(key);
        let missing: BTreeSet<_> = self.multicast.routes.keys().filter(missing).copied().collect();
        let (gone, doubtful): (BTreeSet<_>, BTreeSet<_>) =
            missing.into_iter().partition(|key| self.multicast.doubtful.contains(key));
        gone.into_iter().for_each(|key| self.multicast_is_gone(key));
        if !doubtful.is_empty() {
            self.request_dump();
        }
        self.multicast.doubtful = doubtful;
    }

    /// Brings the table up to date.
    pub(crate) fn refresh_multicast(&mut self, table: &mut dyn Table) {
        // Before the first dump is complete, routes would only come one by one.
        let complete = self.feeds.first().is_some_and(|kernel| kernel.complete);
        if complete && std::mem::take(&mut self.multicast.stale) {
            table.set_multicast(self.multicast.routes.values().map(|route| self.multicast_route(route)).collect());
        }
    }

    /// A route with the router's interfaces.
    fn multicast_route(&self, linux: &LinuxRoute) -> (MulticastRoute, MulticastOrigin) {
        let (group, source) = linux.key;
        let interface = |link: &u32| self.by_link.get(link).copied();
        let from = linux.input.as_ref().and_then(interface);
        let output = |(link, ttl): &(u32, u8)| Some(MulticastOutput { interface: interface(link)?, ttl: *ttl });
        let to: Vec<_> = linux.outputs.iter().filter_map(output).collect();
        let ours = from.is_some() && to.len() == linux.outputs.len();
        let origin = if ours { MulticastOrigin::Linux } else { MulticastOrigin::LinuxAlone };
        (MulticastRoute { group, source, from, to }, origin)
    }
}
