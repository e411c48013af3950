// SPDX-License-Identifier: MIT
//! Neighbors, both ways: those that operators set in Linux or that Linux has found, and those that the slow path has found.
//!
//! A neighbor that an operator sets in Linux (`ip neigh add`) counts as if it were in the configuration. One that Linux has
//! learned is taken if nothing is known of it yet. The slow path's neighbors go to Linux with a protocol number that marks
//! them, so that they do not come back as notifications; but if somebody else deletes one there (`ip neigh del`, `ip neigh flush`),
//! the slow path forgets it.

use crate::dump::Seen;
use crate::follower::{Follower, NeighborKey};
use crate::{Effect, FeedId, HelperRequest};
use perigee_helper::{NeighborChange, PROTOCOL};
use perigee_net::MacAddr;
use perigee_netlink::message::Neighbor;

impl Follower {
    pub(crate) fn neighbor_is_there(&mut self, id: FeedId, dumped: bool, neighbor: &Neighbor) {
        let Some((key, mac)) = self.neighbor_here(neighbor) else { return };
        if let Some(seen) = self.feed(id).and_then(|feed| feed.dump_of(dumped)) {
            seen.neighbors.insert(key);
        }
        let (interface, address) = key;
        match mac {
            Some(mac) if neighbor.permanent => {
                if self.permanent.insert(key, mac) != Some(mac) {
                    self.effect(Effect::SetNeighbor { interface, address, mac });
                }
            }
            Some(mac) => {
                self.not_permanent(key);
                self.effect(Effect::LearnNeighbor { interface, address, mac });
            }
            None => self.not_permanent(key),
        }
    }

    pub(crate) fn neighbor_is_gone(&mut self, neighbor: &Neighbor) {
        if let Some((key, _)) = self.neighbor_here(neighbor) {
            self.not_permanent(key);
        }
        if neighbor.protocol == PROTOCOL
            && let Some(&interface) = self.by_link.get(&neighbor.link)
        {
            self.own_is_gone((interface, neighbor.address));
        }
    }

    /// A neighbor that the router had put into Linux is not there any more.
    fn own_is_gone(&mut self, key: NeighborKey) {
        match self.taken_out.get_mut(&key) {
            Some(1) => drop(self.taken_out.remove(&key)),
            Some(times) => *times -= 1,
            None if self.in_linux.remove(&key) => {
                let (interface, address) = key;
                self.effect(Effect::FlushNeighbor { interface, address });
            }
            None => {}
        }
    }

    /// Linux has lost everything that the router had put into it.
    pub(crate) fn report_all_neighbors(&mut self) {
        self.in_linux.clear();
        self.taken_out.clear();
        self.effect(Effect::ReportNeighbors);
    }

    /// The router's interface that a neighbor is on; `None` if it does not matter, as one that the router itself has reported.
    fn neighbor_here(&self, neighbor: &Neighbor) -> Option<(NeighborKey, Option<MacAddr>)> {
        let interface = *self.by_link.get(&neighbor.link)?;
        let address = neighbor.address;
        let is_host = !(address.is_multicast() || address.is_unspecified() || address.is_loopback());
        let mac = neighbor.mac.filter(|mac| mac.is_unicast());
        // An entry that an operator makes permanent keeps the mark of its first creator.
        let own = neighbor.protocol == PROTOCOL && !neighbor.permanent;
        (is_host && !own).then_some(((interface, address), mac))
    }

    /// No operator sets the neighbor in Linux any more; the configuration may still have it.
    fn not_permanent(&mut self, key: NeighborKey) {
        if self.permanent.remove(&key).is_none() {
            return;
        }
        let (interface, address) = key;
        let mut configured = self.setup.neighbors.iter();
        self.effect(match configured.find(|n| (n.interface, n.address) == key).map(|n| n.mac) {
            Some(mac) => Effect::SetNeighbor { interface, address, mac },
            None => Effect::UnsetNeighbor { interface, address },
        });
    }

    /// A dump has named all neighbors.
    pub(crate) fn neighbors_seen(&mut self, seen: &Seen) {
        let gone: Vec<_> = self.permanent.keys().filter(|key| !seen.neighbors.contains(key)).copied().collect();
        gone.into_iter().for_each(|key| self.not_permanent(key));
    }

    /// The slow path has found a neighbor, or lost it: Linux should know, too.
    pub(crate) fn neighbor_for_linux(&mut self, key: NeighborKey, mac: Option<MacAddr>) {
        // Linux knows what an operator has set in it.
        if self.setup.helper && !self.permanent.contains_key(&key) {
            self.unreported.insert(key, mac);
        }
    }

    /// Reports the collected neighbors to Linux.
    pub(crate) fn report_neighbors(&mut self) {
        if self.unreported.is_empty() {
            return;
        }
        let unreported = std::mem::take(&mut self.unreported);
        let link_of = |interface| self.by_link.iter().find(|(_, id)| **id == interface).map(|(link, _)| *link);
        let mut changes = Vec::new();
        for (key, mac) in unreported {
            let Some(link) = link_of(key.0) else { continue };
            match mac {
                Some(_) => drop(self.in_linux.insert(key)),
                None if self.in_linux.remove(&key) => *self.taken_out.entry(key).or_default() += 1,
                // Linux has said that it is gone.
                None => continue,
            }
            changes.push(NeighborChange { link, address: key.1, mac });
        }
        if !changes.is_empty() {
            self.ask_helper(HelperRequest::Neighbors(changes));
        }
    }
}
