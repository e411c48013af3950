// SPDX-License-Identifier: MIT
//! Next-hop objects of Linux (`ip nexthop`), which routes name instead of next hops.

use crate::FeedId;
use crate::follower::Follower;
use perigee_netlink::message::{NextHop, NextHopTo};
use std::collections::{BTreeSet, HashMap};

/// The next-hop objects of a feed, by id.
#[derive(Default)]
pub(crate) struct NextHops {
    objects: HashMap<u32, NextHopTo>,
    /// The groups that name an object.
    groups: HashMap<u32, BTreeSet<u32>>,
}

impl NextHops {
    pub fn get(&self, id: u32) -> Option<&NextHopTo> {
        self.objects.get(&id)
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Adds or replaces an object; returns what it was.
    pub fn insert(&mut self, id: u32, to: NextHopTo) -> Option<NextHopTo> {
        let before = self.remove(id);
        for (member, _) in members(&to) {
            self.groups.entry(*member).or_default().insert(id);
        }
        self.objects.insert(id, to);
        before
    }

    /// Removes an object; returns what it was.
    pub fn remove(&mut self, id: u32) -> Option<NextHopTo> {
        let before = self.objects.remove(&id)?;
        for (member, _) in members(&before) {
            if let Some(groups) = self.groups.get_mut(member) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.groups.remove(member);
                }
            }
        }
        Some(before)
    }

    /// Keeps the objects of these ids.
    pub fn retain(&mut self, ids: &BTreeSet<u32>) {
        let gone: Vec<u32> = self.objects.keys().filter(|id| !ids.contains(id)).copied().collect();
        gone.into_iter().for_each(|id| drop(self.remove(id)));
    }

    /// The groups that an object is a member of.
    pub fn groups_of(&self, id: u32) -> impl Iterator<Item = u32> {
        self.groups.get(&id).into_iter().flatten().copied()
    }

    /// Whether an object leads over a link.
    pub fn lead_over(&self, link: u32) -> bool {
        self.objects.values().any(|to| matches!(to, NextHopTo::Hop(hop) if hop.link == link))
    }
}

fn members(to: &NextHopTo) -> &[(u32, u16)] {
    match to {
        NextHopTo::Group(members) => members,
        _ => &[],
    }
}

impl Follower {
    pub(crate) fn next_hop_is_there(&mut self, id: FeedId, dumped: bool, NextHop { id: object, to }: NextHop) {
        let Some(feed) = self.feed(id) else { return };
        if let Some(seen) = feed.dump_of(dumped) {
            // What is known may be what differs, and is left as it is.
            if let Some(compared) = &mut seen.audit {
                compared.next_hops.insert(object, to);
                return;
            }
            seen.next_hops.insert(object);
        }
        let before = feed.next_hops.insert(object, to);
        self.next_hop_changed(id, object, before);
    }

    pub(crate) fn next_hop_is_gone(&mut self, id: FeedId, object: u32) {
        let Some(feed) = self.feed(id) else { return };
        let before = feed.next_hops.remove(object);
        self.next_hop_changed(id, object, before);
    }

    /// When a next-hop object changes, the kernel notifies about each route that names it or a group with it, unless
    /// that is disabled (nexthop_compat_mode); but routes of a deleted object vanish without a notification, and those
    /// of a group that loses a member change without one.
    fn next_hop_changed(&mut self, id: FeedId, object: u32, before: Option<NextHopTo>) {
        let Some(feed) = self.feed(id) else { return };
        let now = feed.next_hops.get(object);
        // zebra withdraws the routes of an object before the object.
        let unreported = now.is_some() || id == FeedId::Kernel;
        let changed = match &before {
            Some(before) => now != Some(before),
            // Routes may have named it before.
            None => now.is_some() && feed.missed,
        };
        if unreported && changed && feed.routes_lead_to(object) {
            feed.missed = false;
            self.ask(id);
        }
    }
}
