// SPDX-License-Identifier: MIT
//! What readers see: how the words of next hops and the buckets of groups follow from what the next hops depend on.

use std::collections::HashSet;

use super::{Group, NextHopWriter, Rank, What};
use crate::next_hop::group;
use crate::next_hop::{self, NextHop, NextHopId};

impl NextHopWriter {
    /// Stores the current state of the recursive next hops `ids` and of all that depend on them, for readers to see.
    pub(crate) fn refresh(&mut self, ids: &[NextHopId]) {
        let order = self.in_order(ids);
        order.into_iter().for_each(|id| self.store(id));
    }

    /// As [`refresh`](Self::refresh) for what depends on the direct next hops `ids`, and not for these.
    pub(super) fn refresh_dependents(&mut self, ids: &[NextHopId]) {
        let order = self.in_order(ids);
        let depends = |writer: &Self, id| !matches!(writer.entry(id).map(|entry| &entry.what), Some(What::Direct(_)));
        for id in order {
            if depends(self, id) {
                self.store(id);
            }
        }
    }

    /// `ids` and all that depend on them, each after what it depends on.
    fn in_order(&self, ids: &[NextHopId]) -> Vec<NextHopId> {
        let (mut order, mut seen) = (Vec::new(), HashSet::new());
        let mut stack: Vec<(NextHopId, bool)> = ids.iter().map(|id| (*id, false)).collect();
        while let Some((id, done)) = stack.pop() {
            if done {
                order.push(id);
            } else if seen.insert(id) {
                stack.push((id, true));
                stack.extend(self.dependents.get(&id).into_iter().flatten().map(|id| (*id, false)));
            }
        }
        order.reverse();
        order
    }

    /// Stores a next hop's word and, if it is a group, the buckets that change their owner.
    pub(super) fn store(&mut self, id: NextHopId) {
        if let Some(mut group) = self.take_group(id) {
            let ranks: Vec<Rank> = group.members.iter().map(|(member, _)| self.rank(*member)).collect();
            group.rank = ranks.iter().copied().max().unwrap_or(Rank::Dead);
            let alive: Vec<bool> = ranks.iter().map(|rank| *rank == group.rank).collect();
            for bucket in 0..group.block.len() {
                let owner = group::owner(&group.owners, bucket, &alive);
                let (member, _) = group.members[usize::from(owner)];
                let (at, leaf) = (group.block.first as usize + bucket, self.bucket_leaf(member, bucket));
                if self.shared.bucket(at) != leaf {
                    self.shared.set_bucket(at, leaf);
                }
            }
            if let Some(entry) = self.entry_mut(id) {
                entry.what = What::Group(group);
            }
        }
        let word = self.word(id);
        if self.shared.get(id) != word {
            self.shared.set(id, word);
        }
    }

    fn take_group(&mut self, id: NextHopId) -> Option<Box<Group>> {
        let entry = self.entry_mut(id)?;
        match std::mem::replace(&mut entry.what, What::Nothing) {
            What::Group(group) => Some(group),
            other => {
                entry.what = other;
                None
            }
        }
    }

    /// Follows the targets of a recursive next hop to their end: a direct one, a group, a fixed one, or a recursive one
    /// without a target.
    pub(super) fn end_of(&self, mut id: NextHopId) -> NextHopId {
        while let Some(What::Recursive { target: Some(target), .. }) = self.entry(id).map(|entry| &entry.what) {
            id = *target;
        }
        id
    }

    pub(super) fn rank(&self, id: NextHopId) -> Rank {
        match self.entry(self.end_of(id)).map(|entry| &entry.what) {
            Some(What::Direct(via)) if self.down.contains(&via.interface) => Rank::Dead,
            // Without a gateway each destination is its own neighbor: the link gets its share whether these are
            // resolved or not.
            Some(What::Direct(via)) if via.gateway.is_some() && !self.neighbors.contains_key(via) => Rank::Unresolved,
            Some(What::Recursive { .. }) => Rank::Dead,
            Some(What::Group(group)) => group.rank,
            _ => Rank::Ready,
        }
    }

    /// The next hop that a bucket owned by `member` holds. If the member is a group itself, its own buckets are spread
    /// over those that it owns.
    fn bucket_leaf(&self, member: NextHopId, bucket: usize) -> NextHopId {
        let end = self.end_of(member);
        match self.entry(end).map(|entry| &entry.what) {
            Some(What::Group(inner)) => {
                let at = next_hop::bucket_of(group::mix(bucket as u64) as u32, inner.block.log2);
                self.shared.bucket(inner.block.first as usize + at)
            }
            _ => end,
        }
    }

    pub(super) fn word(&self, id: NextHopId) -> NextHop {
        let end = self.end_of(id);
        match self.entry(end).map(|entry| &entry.what) {
            Some(What::Direct(via)) if self.down.contains(&via.interface) => NextHop::UNREACHABLE,
            Some(What::Direct(via)) => match self.neighbors.get(via) {
                Some(&mac) => NextHop::forward(via.interface, mac),
                None if via.gateway.is_none() => NextHop::link(via.interface),
                None => NextHop::unresolved(via.interface),
            },
            Some(What::Group(group)) => NextHop::group(group.block.first, group.block.log2),
            Some(What::Recursive { .. }) => NextHop::UNREACHABLE,
            Some(What::Nothing) | None => self.shared.get(end),
        }
    }
}
