// SPDX-License-Identifier: MIT
//! The control thread's view of the next hops: which gateway each one is, who uses it, and its neighbor's address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

use crate::grace::{Deferred, Grace};
use crate::next_hop::{InterfaceId, Mac, NextHop, NextHopId, NextHops};

/// What a next hop stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Via {
    /// Where packets leave.
    pub interface: InterfaceId,
    /// The neighbor they go to; `None` on a connected network, where it is each packet's own destination. That
    /// stays unresolved: a resolved destination gets a route of its own.
    pub gateway: Option<IpAddr>,
}

struct Entry {
    via: Via,
    /// How many prefixes lead here; an entry that is waiting for readers or free has none.
    uses: u32,
}

/// Gives out the ids of [`NextHops`], one per [`Via`], and stores the neighbors' addresses in them.
pub struct NextHopWriter {
    shared: Arc<NextHops>,
    ids: HashMap<Via, NextHopId>,
    /// By id, from [`NextHopId::FIRST_FREE`] on.
    entries: Vec<Entry>,
    free: Vec<NextHopId>,
    retired: Deferred<NextHopId>,
    neighbors: HashMap<Via, Mac>,
}

impl NextHopWriter {
    /// An empty table with room for `capacity` next hops, at least 1.
    pub fn new(capacity: u32) -> Result<Self, NextHopError> {
        let ids = capacity.saturating_add(NextHopId::FIRST_FREE);
        if capacity == 0 || ids > NextHopId::MAX + 1 {
            return Err(NextHopError::Capacity { capacity });
        }
        let shared = Arc::new(NextHops::new(ids as usize).ok_or(NextHopError::Memory { capacity })?);
        let (free, retired) = (Vec::new(), Deferred::new());
        Ok(Self { shared, ids: HashMap::new(), entries: Vec::new(), free, retired, neighbors: HashMap::new() })
    }

    /// The readers' half.
    pub fn reader(&self) -> &Arc<NextHops> {
        &self.shared
    }

    fn entry(&self, id: NextHopId) -> Option<&Entry> {
        self.entries.get(id.0.checked_sub(NextHopId::FIRST_FREE)? as usize).filter(|entry| entry.uses > 0)
    }

    fn entry_mut(&mut self, id: NextHopId) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(id.0.checked_sub(NextHopId::FIRST_FREE)? as usize)?;
        (entry.uses > 0).then_some(entry)
    }

    /// One more use of the next hop `via`, which is made if there is none yet.
    pub fn acquire(&mut self, via: Via) -> Result<NextHopId, NextHopError> {
        if let Some(&id) = self.ids.get(&via) {
            if let Some(entry) = self.entry_mut(id) {
                entry.uses += 1;
            }
            return Ok(id);
        }
        let id = self.take_id()?;
        self.entries[(id.0 - NextHopId::FIRST_FREE) as usize] = Entry { via, uses: 1 };
        self.ids.insert(via, id);
        self.shared.set(id, self.word(via));
        Ok(id)
    }

    fn take_id(&mut self) -> Result<NextHopId, NextHopError> {
        if let Some(id) = self.free.pop() {
            return Ok(id);
        }
        let id = NextHopId::FIRST_FREE as usize + self.entries.len();
        if id >= self.shared.capacity() {
            return Err(NextHopError::Full { limit: self.entries.len() });
        }
        self.entries.push(Entry { via: Via { interface: InterfaceId(0), gateway: None }, uses: 0 });
        Ok(NextHopId(id as u32))
    }

    /// One use less of `id`. Without any it is given up, and given out again after every reader has let go of it.
    /// Fixed ids are nobody's.
    pub fn release(&mut self, id: NextHopId) {
        let Some(entry) = self.entry_mut(id) else { return };
        entry.uses -= 1;
        if entry.uses == 0 {
            let via = entry.via;
            self.ids.remove(&via);
            self.retired.retire(id);
        }
    }

    /// What `id` stands for, if it is in use.
    pub fn via(&self, id: NextHopId) -> Option<Via> {
        self.entry(id).map(|entry| entry.via)
    }

    /// The neighbor `address` on `interface` has this MAC address now, or none that is known: one store for all
    /// routes through it, present and future.
    pub fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<Mac>) {
        let via = Via { interface, gateway: Some(address) };
        match mac {
            Some(mac) => self.neighbors.insert(via, mac),
            None => self.neighbors.remove(&via),
        };
        if let Some(&id) = self.ids.get(&via) {
            self.shared.set(id, self.word(via));
        }
    }

    fn word(&self, via: Via) -> NextHop {
        match self.neighbors.get(&via) {
            Some(&mac) => NextHop::forward(via.interface, mac),
            None => NextHop::unresolved(via.interface),
        }
    }

    /// How many ids wait for [`reclaim`](Self::reclaim).
    pub fn waiting(&self) -> usize {
        self.retired.len()
    }

    /// Lets ids be given out again that no reader can hold any more.
    pub fn reclaim(&mut self, grace: Grace) {
        for id in self.retired.reclaim(grace) {
            self.shared.set(id, NextHop::NO_ROUTE);
            self.free.push(id);
        }
    }
}

/// Why there is no further next hop.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NextHopError {
    /// A table of that size cannot be.
    #[error("a table of {capacity} next hops cannot be made; expected 1 to {max}", max = NextHopId::MAX + 1 - NextHopId::FIRST_FREE)]
    Capacity {
        /// The number asked for.
        capacity: u32,
    },
    /// The allocator refused.
    #[error("not enough memory for a table of {capacity} next hops")]
    Memory {
        /// The number asked for.
        capacity: u32,
    },
    /// All are in use.
    #[error("all {limit} next hops are in use; remove routes, or start with a larger table")]
    Full {
        /// How many there are.
        limit: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next_hop::Action;

    const MAC: Mac = [2, 0, 0, 0, 0, 9];

    fn via(interface: u16, gateway: &str) -> Via {
        Via { interface: InterfaceId(interface), gateway: Some(gateway.parse().expect(gateway)) }
    }

    #[test]
    fn a_neighbor_serves_routes_made_before_and_after_it() {
        let mut writer = NextHopWriter::new(8).expect("writer");
        let table = Arc::clone(writer.reader());
        let (a, b) = (via(1, "10.0.0.1"), via(2, "10.0.0.1"));
        let id = writer.acquire(a).expect("room");
        assert_eq!(id.0, NextHopId::FIRST_FREE);
        assert_eq!(table.get(id).action(), Action::Unresolved { interface: InterfaceId(1) });
        for Via { interface, gateway } in [a, b] {
            writer.set_neighbor(interface, gateway.expect("gateway"), Some(MAC));
        }
        assert_eq!(table.get(id).action(), Action::Forward { interface: InterfaceId(1), mac: MAC });
        let other = writer.acquire(b).expect("room");
        assert_eq!(table.get(other).action(), Action::Forward { interface: InterfaceId(2), mac: MAC });
        writer.set_neighbor(InterfaceId(1), "10.0.0.1".parse().expect("address"), None);
        assert_eq!(table.get(id).action(), Action::Unresolved { interface: InterfaceId(1) });
        assert_eq!(writer.via(id), Some(a), "still found on the slow path");
        assert_eq!(writer.via(NextHopId::LOCAL), None);
    }

    #[test]
    fn an_id_is_not_given_out_while_a_reader_may_hold_it() {
        let mut writer = NextHopWriter::new(1).expect("writer");
        let (a, b) = (via(1, "10.0.0.1"), via(1, "10.0.0.2"));
        let id = writer.acquire(a).expect("room");
        assert_eq!(writer.acquire(a), Ok(id), "one id per gateway");
        writer.release(id);
        assert_eq!(writer.via(id), Some(a), "one use is left");
        writer.release(id);
        writer.release(id);
        assert_eq!(writer.via(id), None);
        assert_eq!(writer.acquire(b), Err(NextHopError::Full { limit: 1 }));
        writer.reclaim(Grace { epoch: 1, passed: 0 });
        assert_eq!(writer.acquire(b), Err(NextHopError::Full { limit: 1 }), "a reader is in its batch");
        assert_eq!(writer.reader().get(id).action(), Action::Unresolved { interface: InterfaceId(1) });
        writer.reclaim(Grace { epoch: 2, passed: 1 });
        assert_eq!(writer.reader().get(id).action(), Action::NoRoute);
        assert_eq!(writer.acquire(b), Ok(id));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for capacity in [0, NextHopId::MAX, u32::MAX] {
            let error = NextHopWriter::new(capacity).err().expect("refused").to_string();
            assert_eq!(error, format!("a table of {capacity} next hops cannot be made; expected 1 to 16777200"));
        }
    }
}
