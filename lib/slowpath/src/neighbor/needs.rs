// SPDX-License-Identifier: MIT
//! What others want of the neighbors: gateways that next hops need, configured ones, interfaces that come and go, and
//! operators who want them forgotten.

use super::pool::Asker;
use super::{Key, Neighbor, NeighborState, Neighbors};
use crate::{Counters, Time};
use perigee_net::{InterfaceId, MacAddr};

impl Neighbors {
    /// A next hop needs this gateway.
    pub(crate) fn resolve(&mut self, now: Time, key: Key, up: bool) {
        if let Some(n) = self.table.get_mut(&key) {
            n.wanted = true;
            self.replace(key);
            self.used(now, key);
        } else {
            self.insert(key, true, Asker::nobody());
            self.start(now, key, up);
        }
    }

    /// No next hop needs this gateway any more.
    pub(crate) fn forget(&mut self, key: Key, counters: &mut Counters) {
        let Some(n) = self.table.get_mut(&key).filter(|n| n.wanted) else { return };
        n.wanted = false;
        // Without a timer it was waiting for its interface to come up; now nothing needs it.
        let waits = n.state == NeighborState::Failed && n.timer.is_none();
        let is_static = n.state == NeighborState::Static;
        // It was never refused, but now it counts among those that are. Its packets are judged again.
        let (known, most_known, most) = (n.mac.is_some(), self.config.max_known, self.config.max_unresolved);
        let pool = self.pool(key);
        let too_many = if known { pool.known >= most_known } else { pool.unresolved >= most };
        let one_too_many = !is_static && too_many;
        if one_too_many {
            counters.neighbors_displaced += u64::from(known);
            counters.neighbors_displaced_unresolved += u64::from(!known);
            self.release(key);
        }
        if waits || one_too_many {
            self.remove(key);
        } else {
            self.replace(key);
        }
    }

    /// Sets a configured neighbor; `up`: whether its interface is up.
    pub(crate) fn set_static(&mut self, key: Key, mac: MacAddr, up: bool) {
        if !self.table.contains_key(&key) {
            self.insert(key, false, Asker::nobody());
        }
        if let Some(n) = self.table.get_mut(&key) {
            n.mac = Some(mac);
            n.quiet = false;
        }
        self.enter(key, NeighborState::Static, None);
        self.publish(key, up.then_some(mac));
        self.release(key);
    }

    /// It is not configured any more.
    pub(crate) fn unset_static(&mut self, now: Time, key: Key, up: bool) {
        let Some(n) = self.table.get(&key).filter(|n| n.state == NeighborState::Static) else { return };
        let wanted = n.wanted;
        self.remove(key);
        if wanted {
            self.insert(key, true, Asker::nobody());
            self.start(now, key, up);
        }
    }

    /// The interface went down: nothing on it can be reached. Gateways and configured neighbors wait for it.
    pub(crate) fn interface_down(&mut self, id: InterfaceId, counters: &mut Counters) {
        for key in self.keys(|key| key.0 == id) {
            let Some(n) = self.table.get(&key) else { continue };
            let (wanted, state) = (n.wanted, n.state);
            counters.drops.interface_down += self.take_queue(key).len() as u64;
            if state == NeighborState::Static {
                self.publish(key, None);
                continue;
            }
            self.remove(key);
            if wanted {
                self.insert(key, true, Asker::nobody());
                self.enter(key, NeighborState::Failed, None);
            }
        }
    }

    /// The interface came up.
    pub(crate) fn interface_up(&mut self, now: Time, id: InterfaceId) {
        for key in self.keys(|key| key.0 == id) {
            match self.table.get(&key) {
                Some(Neighbor { state: NeighborState::Static, mac, .. }) => self.publish(key, *mac),
                Some(n) if n.wanted && n.mac.is_none() => self.ask(now, key),
                _ => {}
            }
        }
    }

    /// Removes neighbors; `keep_needed` spares gateways and configured ones.
    pub(crate) fn remove_all(&mut self, which: impl Fn(&Key) -> bool, keep_needed: bool, counters: &mut Counters) {
        for key in self.keys(which) {
            let Some(n) = self.table.get(&key) else { continue };
            if keep_needed && (n.wanted || n.state == NeighborState::Static) {
                continue;
            }
            counters.drops.interface_down += self.take_queue(key).len() as u64;
            self.remove(key);
        }
    }

    /// Forgets neighbors, but for static ones. Gateways are asked for again.
    pub(crate) fn flush(
        &mut self,
        now: Time,
        which: impl Fn(&Key) -> bool,
        is_up: impl Fn(InterfaceId) -> bool,
        counters: &mut Counters,
    ) {
        for key in self.keys(which) {
            let Some(n) = self.table.get(&key).filter(|n| n.state != NeighborState::Static) else { continue };
            let wanted = n.wanted;
            counters.neighbors_flushed += 1;
            self.displace(key, counters);
            if wanted {
                self.insert(key, true, Asker::nobody());
                self.start(now, key, is_up(key.0));
            }
        }
    }
}
