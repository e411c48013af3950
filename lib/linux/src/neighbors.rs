// SPDX-License-Identifier: MIT
//! Neighbors, both ways: those that operators set in Linux or that Linux has found, and those that the slow path has
//! found.
//!
//! | in Linux | the router |
//! | --- | --- |
//! | permanent, or without ARP | counts as if it were in the configuration |
//! | found by Linux itself (no protocol) | takes it if nothing is known of the neighbor yet |
//! | changed by an operator or a program, in any other state | takes it, whatever was known; it ages as any other |
//! | failed by hand, or deleted (`ip neigh del`, `flush`) | forgets it, and asks when it is needed |
//! | the MAC address of a group | names it in `perigee show linux`, and asks for the neighbor |
//!
//! The slow path's neighbors go to Linux with a protocol number and as learned elsewhere (NTF_EXT_LEARNED): these two
//! mark them, and do not come back. Whoever changes such an entry by hand leaves the number in it, and takes off the
//! flag.
//!
//! Where the stack is Linux's, its neighbors are the router's, in whatever state, as long as they have a MAC address. The
//! router has none of its own.

use crate::dump::Seen;
use crate::follower::{Follower, NeighborKey};
use crate::{Effect, FeedId, HelperRequest};
use perigee_helper::{NeighborChange, PROTOCOL};
use perigee_net::MacAddr;
use perigee_netlink::message::Neighbor;
use std::net::IpAddr;

/// How many neighbors Linux is asked to confirm at a time: four times a second.
const CONFIRMED_AT_ONCE: usize = 32;

impl Follower {
    pub(crate) fn neighbor_is_there(&mut self, id: FeedId, dumped: bool, neighbor: &Neighbor) {
        self.note_group(neighbor);
        let Some(key) = self.neighbor_here(neighbor) else { return };
        if self.is_linuxs() {
            return self.neighbor_of_linux(id, dumped, key, neighbor);
        }
        let (interface, address) = key;
        let mac = neighbor.mac.filter(|mac| mac.is_unicast());
        if is_own(neighbor) {
            self.by_hand.remove(&key);
            return self.not_permanent(key);
        }
        if let Some(seen) = self.feed(id).and_then(|feed| feed.dump_of(dumped)) {
            seen.neighbors.insert(key);
        }
        match mac {
            Some(mac) if neighbor.permanent => {
                self.by_hand.remove(&key);
                if self.permanent.insert(key, mac) != Some(mac) {
                    self.effect(Effect::SetNeighbor { interface, address, mac });
                }
            }
            Some(mac) => {
                self.not_permanent(key);
                // Linux itself makes entries of no protocol. The same one again is but a new state of it.
                let by_hand = neighbor.protocol != 0 && self.by_hand.insert(key, mac) != Some(mac);
                let confirmed = by_hand && neighbor.reachable;
                self.effect(Effect::LearnNeighbor { interface, address, mac, by_hand, confirmed });
                if by_hand && self.in_linux.get(&key) == Some(&mac) {
                    // It is as the router had it: the entry gets its mark again.
                    self.unreported.insert(key, Some(mac));
                }
            }
            None => {
                self.not_permanent(key);
                self.by_hand.remove(&key);
                if neighbor.failed && self.in_linux.remove(&key).is_some() {
                    self.effect(Effect::FlushNeighbor { interface, address });
                }
            }
        }
    }

    /// A neighbor of Linux's own stack: what Linux sends to, the router sends to, for as long as Linux does.
    fn neighbor_of_linux(&mut self, id: FeedId, dumped: bool, key: NeighborKey, neighbor: &Neighbor) {
        if let Some(seen) = self.feed(id).and_then(|feed| feed.dump_of(dumped)) {
            seen.neighbors.insert(key);
        }
        let by_link = (neighbor.link, neighbor.address);
        match neighbor.stale {
            true if self.unconfirmed.insert(by_link) => self.to_confirm.push_back(by_link),
            true => {}
            false => drop(self.unconfirmed.remove(&by_link)),
        }
        let (interface, address) = key;
        match neighbor.mac.filter(|mac| mac.is_unicast()) {
            Some(mac) if self.permanent.insert(key, mac) == Some(mac) => {}
            Some(mac) => self.effect(Effect::SetNeighbor { interface, address, mac }),
            None => self.not_permanent(key),
        }
    }

    /// Has Linux ask some of the neighbors that it has not heard from for a while. It does so by itself before it sends
    /// to them, and does not see what the router sends.
    pub(crate) fn confirm_neighbors(&mut self) {
        let mut some = Vec::new();
        while some.len() < CONFIRMED_AT_ONCE
            && let Some(next) = self.to_confirm.pop_front()
        {
            // Unless it has answered meanwhile, or is gone.
            some.extend(self.unconfirmed.take(&next));
        }
        if !some.is_empty() {
            self.ask_helper(HelperRequest::Confirm(some));
        }
    }

    pub(crate) fn neighbor_is_gone(&mut self, neighbor: &Neighbor) {
        self.group_neighbors.remove(&(neighbor.link, neighbor.address));
        self.unconfirmed.remove(&(neighbor.link, neighbor.address));
        if let Some(key) = self.neighbor_here(neighbor) {
            self.by_hand.remove(&key);
            self.not_permanent(key);
            self.own_is_gone(key);
        }
    }

    /// A neighbor is not there any more. Of one that the router had put into Linux, somebody else has taken it out.
    fn own_is_gone(&mut self, key: NeighborKey) {
        match self.taken_out.get_mut(&key) {
            Some(1) => drop(self.taken_out.remove(&key)),
            Some(times) => *times -= 1,
            None if self.in_linux.remove(&key).is_some() => {
                let (interface, address) = key;
                self.effect(Effect::FlushNeighbor { interface, address });
            }
            None => {}
        }
    }

    /// Linux sends to the MAC address of a group if an operator says so; the router sends to single stations alone, and
    /// asks for them.
    fn note_group(&mut self, neighbor: &Neighbor) {
        let key = (neighbor.link, neighbor.address);
        let on_link = || self.links.get(&neighbor.link).into_iter().flat_map(|known| &known.addresses);
        // Linux's own entries for broadcasts and groups.
        let is_host = match neighbor.address {
            IpAddr::V4(address) => {
                perigee_net::is_host(address)
                    && !on_link().flat_map(|own| own.with_prefix.broadcasts()).any(|other| other == address)
            }
            IpAddr::V6(address) => !address.is_multicast(),
        };
        let group =
            neighbor.mac.filter(|mac| mac.is_multicast() && is_host && self.by_link.contains_key(&neighbor.link));
        let before = match group {
            Some(mac) => self.group_neighbors.insert(key, mac),
            None => self.group_neighbors.remove(&key),
        };
        self.stale |= before != group;
    }

    /// Linux has lost everything that the router had put into it.
    pub(crate) fn report_all_neighbors(&mut self) {
        self.in_linux.clear();
        self.by_hand.clear();
        self.taken_out.clear();
        self.effect(Effect::ReportNeighbors);
    }

    /// The router's interface that a neighbor is on; `None` if it does not matter.
    fn neighbor_here(&self, neighbor: &Neighbor) -> Option<NeighborKey> {
        let interface = *self.by_link.get(&neighbor.link)?;
        let address = neighbor.address;
        let is_host = !(address.is_multicast() || address.is_unspecified() || address.is_loopback());
        is_host.then_some((interface, address))
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
        let by_link = &self.by_link;
        let named = |(link, address): &(u32, IpAddr)| {
            by_link.get(link).is_some_and(|interface| seen.neighbors.contains(&(*interface, *address)))
        };
        let before = self.group_neighbors.len();
        self.group_neighbors.retain(|key, _| named(key));
        self.stale |= self.group_neighbors.len() != before;
    }

    /// The slow path has found a neighbor, or lost it: Linux should know, too.
    pub(crate) fn neighbor_for_linux(&mut self, key: NeighborKey, mac: Option<MacAddr>) {
        // Linux knows what an operator has set in it.
        if self.setup.helper && !self.is_linuxs() && !self.permanent.contains_key(&key) {
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
                Some(mac) => drop(self.in_linux.insert(key, mac)),
                None if self.in_linux.remove(&key).is_some() => *self.taken_out.entry(key).or_default() += 1,
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

/// Whether an entry is as the router has written it. One that an operator makes permanent keeps the protocol of its
/// first creator.
fn is_own(neighbor: &Neighbor) -> bool {
    let group = neighbor.mac.is_some_and(|mac| mac.is_multicast());
    neighbor.protocol == PROTOCOL && neighbor.external && !neighbor.permanent && !group
}
