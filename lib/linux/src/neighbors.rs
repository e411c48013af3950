// SPDX-License-Identifier: MIT
//! Neighbors, both ways: those that operators set in Linux or that Linux has found, and those that the slow path has found.
//!
//! What an operator sets in Linux (`ip neigh add`) counts here as if the configuration had it. What Linux has learned is
//! taken where nothing is known yet. The slow path's own knowledge goes to Linux under a protocol number that marks it, so
//! that it does not come back as a notification.

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
    }

    /// On which of the router's interfaces a neighbor is, if it is one that matters: not one that the router has reported.
    fn neighbor_here(&self, neighbor: &Neighbor) -> Option<(NeighborKey, Option<MacAddr>)> {
        let interface = *self.by_link.get(&neighbor.link)?;
        let address = neighbor.address;
        let is_host = !(address.is_multicast() || address.is_unspecified() || address.is_loopback());
        let mac = neighbor.mac.filter(|mac| mac.is_unicast());
        // An entry that an operator makes permanent keeps the mark of who made it first.
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

    /// A dump has named all there are.
    pub(crate) fn neighbors_seen(&mut self, seen: &Seen) {
        let gone: Vec<_> = self.permanent.keys().filter(|key| !seen.neighbors.contains(key)).copied().collect();
        gone.into_iter().for_each(|key| self.not_permanent(key));
    }

    /// The slow path has found a neighbor, or lost it: Linux should know, too.
    pub(crate) fn neighbor_for_linux(&mut self, key: NeighborKey, mac: Option<MacAddr>) {
        // What an operator has set in Linux, it knows.
        if self.setup.helper && !self.permanent.contains_key(&key) {
            self.unreported.insert(key, mac);
        }
    }

    /// Reports to Linux what has collected.
    pub(crate) fn report_neighbors(&mut self) {
        if self.unreported.is_empty() {
            return;
        }
        let unreported = std::mem::take(&mut self.unreported);
        let link_of = |interface| self.by_link.iter().find(|(_, id)| **id == interface).map(|(link, _)| *link);
        let change = |((interface, address), mac)| Some(NeighborChange { link: link_of(interface)?, address, mac });
        let changes: Vec<_> = unreported.into_iter().filter_map(change).collect();
        if !changes.is_empty() {
            self.ask_helper(HelperRequest::Neighbors(changes));
        }
    }
}
