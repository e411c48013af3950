// SPDX-License-Identifier: MIT
//! Neighbors, both ways: what Linux was told by hand or has found out, and what the slow path has found out.
//!
//! What is set by hand in Linux (`ip neigh add`) counts here as if the configuration had said it. What Linux has learned is
//! taken where nothing is known yet. The slow path's own knowledge goes to Linux under a protocol number that marks it, so
//! that it does not come back as news.

use super::dump::Seen;
use super::errands::Errand;
use crate::slow::SlowThread;
use perigee_helper::{NeighborChange, PROTOCOL};
use perigee_net::{InterfaceId, MacAddr};
use perigee_netlink::message::Neighbor;
use perigee_slowpath::Input;
use std::net::IpAddr;

impl SlowThread {
    pub(super) fn neighbor_is_there(&mut self, at: usize, dumped: bool, neighbor: &Neighbor) {
        let Some((key, mac)) = self.neighbor_here(neighbor) else { return };
        if let Some(seen) = self.linux.origins[at].dump.as_mut().filter(|_| dumped) {
            seen.neighbors.insert(key);
        }
        let (interface, address) = key;
        match mac {
            Some(mac) if neighbor.permanent => {
                if self.linux.permanent.insert(key, mac) != Some(mac) {
                    self.tell(Input::SetNeighbor { interface, address, mac });
                }
            }
            Some(mac) => {
                self.not_by_hand(key);
                self.tell(Input::LearnNeighbor { interface, address, mac });
            }
            None => self.not_by_hand(key),
        }
    }

    pub(super) fn neighbor_is_gone(&mut self, neighbor: &Neighbor) {
        if let Some((key, _)) = self.neighbor_here(neighbor) {
            self.not_by_hand(key);
        }
    }

    /// On which of the router's interfaces a neighbor is, if it is one that matters: not the router's own word.
    fn neighbor_here(&self, neighbor: &Neighbor) -> Option<((InterfaceId, IpAddr), Option<MacAddr>)> {
        let interface = self.linux.by_link.get(&neighbor.link)?;
        let address = neighbor.address;
        let odd = address.is_multicast() || address.is_unspecified() || address.is_loopback();
        let mac = neighbor.mac.filter(|mac| mac.is_unicast());
        // An entry that somebody makes permanent keeps the mark of who made it first.
        let own_word = neighbor.protocol == PROTOCOL && !neighbor.permanent;
        (!own_word && !odd).then_some(((*interface, address), mac))
    }

    /// The neighbor is not set by hand in Linux any more; the configuration may still say it.
    fn not_by_hand(&mut self, key: (InterfaceId, IpAddr)) {
        if self.linux.permanent.remove(&key).is_none() {
            return;
        }
        let (interface, address) = key;
        let configured = self.parts.config.neighbors.iter().find(|n| (n.interface, n.address) == key).map(|n| n.mac);
        match configured {
            Some(mac) => self.tell(Input::SetNeighbor { interface, address, mac }),
            None => self.tell(Input::UnsetNeighbor { interface, address }),
        }
    }

    /// A dump has named all there are.
    pub(super) fn neighbors_seen(&mut self, seen: &Seen) {
        let gone: Vec<_> = self.linux.permanent.keys().filter(|key| !seen.neighbors.contains(key)).copied().collect();
        gone.into_iter().for_each(|key| self.not_by_hand(key));
    }

    /// The slow path has found a neighbor, or lost it: Linux is to know, too.
    pub(crate) fn neighbor_for_linux(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        // What Linux was told by hand, it knows.
        if self.linux.errands.is_some() && !self.linux.permanent.contains_key(&(interface, address)) {
            self.linux.told.insert((interface, address), mac);
        }
    }

    /// Linux has lost what it was told.
    pub(super) fn tell_all_neighbors(&mut self) {
        let known: Vec<_> = self.machine.neighbors().filter_map(|n| Some((n.interface, n.address, n.mac?))).collect();
        for (interface, address, mac) in known {
            self.neighbor_for_linux(interface, address, Some(mac));
        }
    }

    /// Sends what has collected.
    pub(super) fn tell_neighbors(&mut self) {
        if self.linux.told.is_empty() {
            return;
        }
        let told = std::mem::take(&mut self.linux.told);
        let link_of =
            |interface: InterfaceId| self.linux.by_link.iter().find(|(_, id)| **id == interface).map(|(link, _)| *link);
        let change = |((interface, address), mac)| Some(NeighborChange { link: link_of(interface)?, address, mac });
        let changes: Vec<_> = told.into_iter().filter_map(change).collect();
        if let (Some(errands), false) = (&self.linux.errands, changes.is_empty()) {
            errands.send(Errand::Neighbors(changes));
        }
    }
}
