// SPDX-License-Identifier: MIT
//! The control thread's view of the next hops: what each one is, how often it is used, and its neighbor's address.
//!
//! There are three kinds. A direct one is a neighbor on a link, and its word holds the neighbor's MAC address. A
//! recursive one stands for a gateway that is reached over other routes; its word is a copy of its target's, so that a
//! new way to the gateway is one store, whatever the number of routes through it. A group has members of the first two
//! kinds, but its buckets hold direct ones only: readers follow at most one indirection.

mod show;
mod store;

pub use show::{GroupMember, NextHopInfo, NextHopKind};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

use crate::hash::Secret;
use crate::lookup::table::Memory;
use crate::next_hop::buckets::{Block, Buckets};
use crate::next_hop::group::{self, Share};
use crate::next_hop::{NextHop, NextHopId, NextHops};
use crate::publish::grace::{Deferred, Grace};
use perigee_net::{InterfaceId, MacAddr, Multipath};

/// What a next hop stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Via {
    /// The interface that packets leave by.
    pub interface: InterfaceId,
    /// The neighbor they are sent to; `None` on a connected network, where each packet's own destination is the
    /// neighbor. The word of such a next hop is a [link's](NextHop::link).
    pub gateway: Option<IpAddr>,
}

/// So many free ids or places in a map are kept.
const LARGE: usize = 1024;

/// A member of a group: its id and weight.
type Weighted = (NextHopId, u32);

enum What {
    /// Free or retired.
    Nothing,
    Direct(Via),
    Recursive {
        gateway: IpAddr,
        target: Option<NextHopId>,
    },
    Group(Box<Group>),
}

struct Group {
    /// In the order of `owners`' indices.
    members: Arc<[Weighted]>,
    /// The owner of each bucket while all members are alive.
    owners: Box<[u8]>,
    block: Block,
    rank: Rank,
}

/// How usable a next hop is; a group uses its members of the highest rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The gateway is unreachable, or the link is down.
    Dead,
    /// The neighbor's MAC address is not known.
    Unresolved,
    /// Packets can be sent, or are dropped or answered for certain.
    Ready,
}

struct Entry {
    what: What,
    /// How many prefixes, groups and recursive next hops lead here; none if the entry is retired or free.
    uses: u32,
}

/// Where a packet finally goes, once groups and recursive gateways are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// To a neighbor or a connected network.
    Via(Via),
    /// One of the fixed ids.
    Fixed(NextHopId),
}

/// Assigns the ids of [`NextHops`], and stores the neighbors' addresses in their words.
pub struct NextHopWriter {
    shared: Arc<NextHops>,
    direct: HashMap<Via, NextHopId, Secret>,
    groups: HashMap<Arc<[Weighted]>, NextHopId>,
    /// By id, from [`NextHopId::FIRST_FREE`] on.
    entries: Vec<Entry>,
    free: Vec<NextHopId>,
    /// Uses to be given up by the next commit.
    released: Vec<NextHopId>,
    retired: Deferred<(NextHopId, Option<Block>)>,
    buckets: Buckets,
    neighbors: HashMap<Via, MacAddr>,
    /// Interfaces by which nothing can be sent.
    down: Arc<BTreeSet<InterfaceId>>,
    /// By next hop: the groups it is a member of, and the recursive next hops whose target it is.
    dependents: HashMap<NextHopId, BTreeSet<NextHopId>>,
}

impl NextHopWriter {
    /// The largest number of next hops.
    pub const MAX: u32 = NextHopId::MAX + 1 - NextHopId::FIRST_FREE;

    /// An empty table with room for `capacity` next hops, at least 1.
    pub fn new(capacity: u32) -> Result<Self, NextHopError> {
        Self::within(&Memory::Own, capacity)
    }

    pub(crate) fn within(memory: &Memory, capacity: u32) -> Result<Self, NextHopError> {
        if capacity == 0 || capacity > Self::MAX {
            return Err(NextHopError::Capacity { capacity });
        }
        let ids = capacity + NextHopId::FIRST_FREE;
        let shared = Arc::new(NextHops::new(ids as usize, memory).ok_or(NextHopError::Memory { capacity })?);
        Ok(Self {
            buckets: Buckets::new(shared.buckets()),
            shared,
            direct: HashMap::default(),
            groups: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            released: Vec::new(),
            retired: Deferred::new(),
            neighbors: HashMap::new(),
            down: Arc::default(),
            dependents: HashMap::new(),
        })
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

    /// Adds a use of `id`, which is in use or fixed.
    pub(crate) fn retain(&mut self, id: NextHopId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.uses += 1;
        }
    }

    /// Adds a use of the next hop for `via`, which is made if there is none yet.
    pub fn acquire(&mut self, via: Via) -> Result<NextHopId, NextHopError> {
        if let Some(&id) = self.direct.get(&via) {
            self.retain(id);
            return Ok(id);
        }
        let id = self.take_id(What::Direct(via))?;
        self.direct.insert(via, id);
        self.shared.set(id, self.word(id));
        Ok(id)
    }

    /// Adds a use of the group of these members, which is made if there is none yet. Equal groups are one: the order of
    /// members and a common factor of their weights do not matter, and a member that is named twice has both
    /// weights. If there is one member only, it is a use of that member. The members are direct or recursive, and
    /// in use.
    pub fn acquire_group(&mut self, members: &[Weighted]) -> Result<NextHopId, NextHopError> {
        let members = self.canonical(members)?;
        if let [(id, _)] = *members {
            self.retain(id);
            return Ok(id);
        }
        if let Some(&id) = self.groups.get(&members) {
            self.retain(id);
            return Ok(id);
        }
        let shares: Vec<Share> = members.iter().map(|&(id, weight)| Share { key: self.identity(id), weight }).collect();
        let log2 = group::log2_buckets(&shares);
        let block = self.buckets.take(log2).ok_or(NextHopError::Buckets { limit: self.shared.buckets() })?;
        let owners = group::fill(&shares, log2);
        let group = Group { members: members.clone(), owners, block, rank: Rank::Dead };
        let id = match self.take_id(What::Group(Box::new(group))) {
            Ok(id) => id,
            Err(error) => {
                self.buckets.give_back(block);
                return Err(error);
            }
        };
        for &(member, _) in members.iter() {
            self.retain(member);
            self.dependents.entry(member).or_default().insert(id);
        }
        self.groups.insert(members, id);
        self.store(id);
        Ok(id)
    }

    /// Every member once, in an order that depends on nothing but the members, with weights that have no common factor.
    fn canonical(&self, members: &[Weighted]) -> Result<Arc<[Weighted]>, NextHopError> {
        let mut weights: BTreeMap<(u64, NextHopId), u32> = BTreeMap::new();
        for &(id, weight) in members {
            *weights.entry((self.identity(id), id)).or_default() += weight.max(1);
        }
        if weights.is_empty() || weights.len() > Multipath::MAX_MEMBERS {
            return Err(NextHopError::Members { members: weights.len() });
        }
        let common = weights.values().copied().fold(0, divisor);
        Ok(weights.into_iter().map(|((_, id), weight)| (id, weight / common)).collect())
    }

    /// What identifies a next hop, whatever its id: the same after a restart, and on another router.
    fn identity(&self, id: NextHopId) -> u64 {
        let of = |address: IpAddr| match address {
            IpAddr::V4(address) => group::mix(address.to_bits().into()),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                group::mix(group::mix((bits >> 64) as u64) ^ bits as u64)
            }
        };
        match self.entry(id).map(|entry| &entry.what) {
            Some(What::Direct(Via { interface, gateway })) => {
                group::mix(gateway.map_or(0, of) ^ u64::from(interface.0) << 1)
            }
            Some(What::Recursive { gateway, .. }) => group::mix(of(*gateway) ^ 1),
            _ => u64::from(id.0),
        }
    }

    /// A new recursive next hop for `gateway`, without a target yet, with one use.
    pub(crate) fn recursive(&mut self, gateway: IpAddr) -> Result<NextHopId, NextHopError> {
        let id = self.take_id(What::Recursive { gateway, target: None })?;
        self.shared.set(id, self.word(id));
        Ok(id)
    }

    /// Sets the target of a recursive next hop; readers see it after [`refresh`](Self::refresh). The caller's use of
    /// `target` passes to this next hop. Returns the old target, whose use passes to the caller.
    pub(crate) fn set_target(&mut self, id: NextHopId, target: Option<NextHopId>) -> Option<NextHopId> {
        let Some(Entry { what: What::Recursive { target: at, .. }, .. }) = self.entry_mut(id) else { return target };
        let old = std::mem::replace(at, target);
        if let Some(old) = old {
            self.forget_dependent(old, id);
        }
        if let Some(target) = target {
            self.dependents.entry(target).or_default().insert(id);
        }
        old
    }

    fn forget_dependent(&mut self, of: NextHopId, dependent: NextHopId) {
        if let Some(dependents) = self.dependents.get_mut(&of) {
            dependents.remove(&dependent);
            if dependents.is_empty() {
                self.dependents.remove(&of);
            }
        }
    }

    fn take_id(&mut self, what: What) -> Result<NextHopId, NextHopError> {
        let entry = Entry { what, uses: 1 };
        if let Some(id) = self.free.pop() {
            self.entries[(id.0 - NextHopId::FIRST_FREE) as usize] = entry;
            return Ok(id);
        }
        let id = NextHopId::FIRST_FREE as usize + self.entries.len();
        if id >= self.shared.capacity() {
            return Err(NextHopError::Full { limit: self.entries.len() });
        }
        self.entries.push(entry);
        Ok(NextHopId(id as u32))
    }

    /// Releases a use of `id`. With the last one the id is retired, to be reused once every reader has let go of it.
    /// Has no effect on fixed ids.
    pub fn release(&mut self, id: NextHopId) {
        if let Some(entry) = self.entry_mut(id).filter(|entry| entry.uses > 1) {
            entry.uses -= 1;
            return;
        }
        let mut ids = vec![id];
        while let Some(id) = ids.pop() {
            let Some(entry) = self.entry_mut(id) else { continue };
            entry.uses -= 1;
            if entry.uses > 0 {
                continue;
            }
            let mut block = None;
            match std::mem::replace(&mut entry.what, What::Nothing) {
                What::Nothing => {}
                What::Direct(via) => drop(self.direct.remove(&via)),
                What::Recursive { target, .. } => {
                    if let Some(target) = target {
                        self.forget_dependent(target, id);
                        ids.push(target);
                    }
                }
                What::Group(group) => {
                    block = Some(group.block);
                    self.groups.remove(&group.members);
                    for &(member, _) in group.members.iter() {
                        self.forget_dependent(member, id);
                        ids.push(member);
                    }
                }
            }
            self.retired.retire((id, block));
        }
    }

    /// What `id` stands for, if it is in use and direct.
    pub fn via(&self, id: NextHopId) -> Option<Via> {
        match self.entry(id)?.what {
            What::Direct(via) => Some(via),
            _ => None,
        }
    }

    /// Where the packets of a flow that are sent to `id` finally go.
    pub fn leaf(&self, mut id: NextHopId, flow: u32) -> Leaf {
        // Ends, as targets and members never form a loop.
        while let Some(entry) = self.entry(id) {
            id = match &entry.what {
                What::Direct(via) => return self.leaf_of(*via),
                What::Recursive { target: Some(target), .. } => *target,
                What::Group(_) => self.shared.member(self.word(id), flow),
                What::Recursive { target: None, .. } => NextHopId::UNREACHABLE,
                What::Nothing => NextHopId::NO_ROUTE,
            };
        }
        Leaf::Fixed(if id.0 < NextHopId::FIRST_FREE { id } else { NextHopId::NO_ROUTE })
    }

    /// Where packets go that are sent to a neighbor or a connected network.
    pub(crate) fn leaf_of(&self, via: Via) -> Leaf {
        if self.down.contains(&via.interface) { Leaf::Fixed(NextHopId::UNREACHABLE) } else { Leaf::Via(via) }
    }

    /// Calls `found` with each neighbor that packets sent to `id` may finally go to.
    pub(crate) fn neighbors_of(&self, id: NextHopId, mut found: impl FnMut(InterfaceId, IpAddr)) {
        let mut ids = vec![id];
        while let Some(id) = ids.pop() {
            match self.entry(self.end_of(id)).map(|entry| &entry.what) {
                Some(What::Direct(Via { interface, gateway: Some(gateway) })) => found(*interface, *gateway),
                Some(What::Group(group)) => ids.extend(group.members.iter().map(|(member, _)| *member)),
                _ => {}
            }
        }
    }

    /// Sets the MAC address of the neighbor `address` on `interface`, or removes it: one store for all routes through
    /// the neighbor, present and future, and one per bucket that changes its owner in groups of which it is a
    /// member.
    pub fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        let via = Via { interface, gateway: Some(address) };
        let before = match mac {
            Some(mac) => self.neighbors.insert(via, mac),
            None => self.neighbors.remove(&via),
        };
        if before == mac {
            return;
        }
        let Some(&id) = self.direct.get(&via) else { return };
        // Groups send nothing to a neighbor before its address is stored, or after its loss is.
        if mac.is_some() {
            self.shared.set(id, self.word(id));
        }
        self.refresh_dependents(&[id]);
        self.shared.set(id, self.word(id));
    }

    /// Nothing can be sent by these interfaces, and by all others something can. Takes effect at once: packets that
    /// find a next hop of an interface that is down are answered as unreachable, and in groups the other members
    /// take over its buckets. The cost grows with the number of next hops, not of routes.
    pub fn set_down(&mut self, down: Arc<BTreeSet<InterfaceId>>) {
        let before = std::mem::replace(&mut self.down, down);
        let now = &self.down;
        let changed =
            self.direct.iter().filter(|(via, _)| before.contains(&via.interface) != now.contains(&via.interface));
        let (lost, back): (Vec<_>, Vec<_>) = changed.partition(|(via, _)| now.contains(&via.interface));
        let [lost, back] = [lost, back].map(|vias| vias.into_iter().map(|(_, id)| *id).collect::<Vec<NextHopId>>());
        // As with a neighbor: groups send nothing to what is back before its word is stored, or to what is lost after
        // its is.
        back.iter().for_each(|id| self.shared.set(*id, self.word(*id)));
        self.refresh_dependents(&[&lost[..], &back[..]].concat());
        lost.iter().for_each(|id| self.shared.set(*id, self.word(*id)));
    }

    /// Interfaces by which nothing can be sent.
    pub(crate) fn down(&self) -> &Arc<BTreeSet<InterfaceId>> {
        &self.down
    }

    /// Gives up a use of each of these next hops once the changes that no longer lead there are visible: at the next
    /// [`commit`](Self::commit).
    pub(crate) fn release_at_commit(&mut self, ids: impl IntoIterator<Item = NextHopId>) {
        self.released.extend(ids);
    }

    /// The lookup structures no longer lead to what was released before.
    pub(crate) fn commit(&mut self) {
        let mut released = std::mem::take(&mut self.released);
        released.drain(..).for_each(|id| self.release(id));
        released.shrink_to(LARGE);
        self.released = released;
    }

    /// How many uses are to be given up by the next commit, and how many ids wait for [`reclaim`](Self::reclaim).
    pub fn retired(&self) -> usize {
        self.released.len() + self.retired.len()
    }

    /// Makes retired ids and buckets available again, except those that a reader may still hold.
    pub fn reclaim(&mut self, grace: Grace) {
        for (id, block) in self.retired.reclaim(grace) {
            self.shared.set(id, NextHop::NO_ROUTE);
            self.free.push(id);
            if let Some(block) = block {
                self.buckets.give_back(block);
            }
        }
        self.shrink();
    }

    /// Gives memory back that only many neighbors need, once they are gone.
    fn shrink(&mut self) {
        let ends_free = self.entries.last().is_some_and(|entry| entry.uses == 0);
        if ends_free && self.free.len() > LARGE && self.free.len() > self.entries.len() / 2 {
            // The lowest ids are given out first.
            self.free.sort_unstable_by(|a, b| b.cmp(a));
            let last = (NextHopId::FIRST_FREE as usize + self.entries.len()).saturating_sub(1);
            let at_the_end =
                self.free.iter().zip((0..=last).rev()).take_while(|(id, last)| id.0 as usize == *last).count();
            self.free.drain(..at_the_end);
            self.entries.truncate(self.entries.len() - at_the_end);
            self.free.shrink_to(LARGE);
            self.entries.shrink_to(self.entries.len() + LARGE);
        }
        if self.direct.capacity() > LARGE.max(8 * self.direct.len()) {
            self.direct.shrink_to(2 * self.direct.len());
        }
        if self.neighbors.capacity() > LARGE.max(8 * self.neighbors.len()) {
            self.neighbors.shrink_to(2 * self.neighbors.len());
        }
    }
}

fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Why a next hop or a table of them was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NextHopError {
    /// There is no table of this size.
    #[error("a table of {capacity} next hops cannot be made; expected 1 to {max}", max = NextHopWriter::MAX)]
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
    /// A group has too many members, or none.
    #[error("a group of {members} next hops cannot be made; expected 1 to {max}", max = Multipath::MAX_MEMBERS)]
    Members {
        /// How many different members were given.
        members: usize,
    },
    /// There is no room for a group's buckets.
    #[error("all {limit} buckets for groups of next hops are in use; remove routes with several next hops")]
    Buckets {
        /// How many there are.
        limit: usize,
    },
    /// All next hops are in use.
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

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

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
    fn an_id_is_not_reused_while_a_reader_may_hold_it() {
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
    fn memory_comes_back_when_neighbors_go() {
        let mut writer = NextHopWriter::new(100_000).expect("writer");
        let address = |n: u32| IpAddr::V4(std::net::Ipv4Addr::from_bits(n));
        let via = |n| Via { interface: InterfaceId(1), gateway: Some(address(n)) };
        let ids: Vec<_> = (0..50_000).map(|n| writer.acquire(via(n)).expect("room")).collect();
        (0..50_000).for_each(|n| writer.set_neighbor(InterfaceId(1), address(n), Some(MAC)));
        // One that stays, in the middle.
        for n in (0..50_000).filter(|n| *n != 700) {
            writer.set_neighbor(InterfaceId(1), address(n), None);
            writer.release(ids[n as usize]);
        }
        writer.reclaim(Grace { epoch: 1, passed: 1 });
        assert_eq!((writer.entries.len(), writer.free.len()), (701, 700));
        let places = writer.entries.capacity() + writer.direct.capacity() + writer.neighbors.capacity();
        assert!(places < 4 * LARGE, "{places}");
        assert_eq!(writer.reader().get(ids[700]).action(), Action::Forward { interface: InterfaceId(1), mac: MAC });
        let fresh: Vec<_> = (0..800).map(|n| writer.acquire(via(100_000 + n)).expect("room")).collect();
        assert!(!fresh.contains(&ids[700]) && fresh[0] == ids[0], "the lowest ids first, none twice");
        assert_eq!(fresh.iter().collect::<BTreeSet<_>>().len(), 800);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for capacity in [0, NextHopId::MAX, u32::MAX] {
            let error = NextHopWriter::new(capacity).err().expect("refused").to_string();
            assert_eq!(error, format!("a table of {capacity} next hops cannot be made; expected 1 to 16777209"));
        }
    }
}
