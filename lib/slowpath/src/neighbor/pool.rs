// SPDX-License-Identifier: MIT
//! The neighbors of one link and family: how many there are, and which of them makes room for another.
//!
//! | one more | makes room | in this order |
//! | --- | --- | --- |
//! | that is asked for | one that does not answer | of those that never answered before those that have; of the interface, and then of the group of sources, that asked for most of them; the oldest |
//! | whose MAC address is known | one that told it unasked and was never confirmed, the oldest; then one that is confirmed no more, and not used | |
//!
//! Gateways that next hops need and configured neighbors count nowhere.

use std::collections::{BTreeMap, BTreeSet};

use perigee_net::InterfaceId;

use super::Key;
use super::budget::{Budget, GROUPS};

/// The place of a neighbor in its pool, and what is to be taken out with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A gateway or configured.
    Needed,
    /// No MAC address is known.
    Unresolved(Asker, u64),
    /// It told its MAC address unasked, and has not been confirmed.
    Unconfirmed(u64),
    /// It was confirmed once, and has not been used for long.
    Stale(u64),
    /// It is confirmed, or soon will be again.
    Known,
}

/// Who asked for a neighbor, and whether that had answered before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asker {
    pub familiar: bool,
    pub ingress: Option<InterfaceId>,
    pub group: u8,
}

impl Asker {
    /// Of a neighbor that is needed, or that nobody asked for.
    pub fn nobody() -> Asker {
        Asker { familiar: false, ingress: None, group: 0 }
    }
}

/// In the order in which they came.
type Line = BTreeSet<(u64, Key)>;

#[derive(Debug)]
pub(super) struct Pool {
    pub budget: Budget,
    /// For those that packets for Linux come from.
    pub sources: Budget,
    /// Neighbors with a MAC address.
    pub known: usize,
    pub unresolved: usize,
    /// Packets that wait for them.
    pub queued: usize,
    unconfirmed: Line,
    stale: Line,
    askers: BTreeMap<Asker, Line>,
}

impl Pool {
    pub fn new(rate: u32) -> Pool {
        Pool {
            budget: Budget::new(rate),
            sources: Budget::new(rate / 2),
            known: 0,
            unresolved: 0,
            queued: 0,
            unconfirmed: Line::new(),
            stale: Line::new(),
            askers: BTreeMap::new(),
        }
    }

    /// Those that told their MAC addresses unasked.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    pub fn put(&mut self, key: Key, place: Place) {
        match place {
            Place::Needed => return,
            Place::Unresolved(asker, number) => {
                self.unresolved += 1;
                self.askers.entry(asker).or_default().insert((number, key));
                return;
            }
            Place::Unconfirmed(number) => drop(self.unconfirmed.insert((number, key))),
            Place::Stale(number) => drop(self.stale.insert((number, key))),
            Place::Known => {}
        }
        self.known += 1;
    }

    pub fn take(&mut self, key: Key, place: Place) {
        match place {
            Place::Needed => return,
            Place::Unresolved(asker, number) => {
                self.unresolved -= 1;
                if let Some(line) = self.askers.get_mut(&asker) {
                    line.remove(&(number, key));
                    if line.is_empty() {
                        self.askers.remove(&asker);
                    }
                }
                return;
            }
            Place::Unconfirmed(number) => drop(self.unconfirmed.remove(&(number, key))),
            Place::Stale(number) => drop(self.stale.remove(&(number, key))),
            Place::Known => {}
        }
        self.known -= 1;
    }

    /// The known neighbor that makes room for another.
    pub fn least_known(&self) -> Option<Key> {
        self.unconfirmed.first().or(self.stale.first()).map(|(_, key)| *key)
    }

    /// The unresolved neighbor that makes room for one that is `familiar` or not.
    pub fn least_unresolved(&self, familiar: bool) -> Option<Key> {
        let strange = self.heaviest(false);
        let line = if familiar { strange.or_else(|| self.heaviest(true)) } else { strange };
        line?.first().map(|(_, key)| *key)
    }

    /// The neighbors that most packets wait for, in the order in which these may be taken.
    pub fn heaviest_line(&self) -> impl Iterator<Item = Key> + '_ {
        let line = self.heaviest(false).or_else(|| self.heaviest(true));
        line.into_iter().flatten().map(|(_, key)| *key)
    }

    /// What the group of sources that has most asked for, of the interface that has most.
    fn heaviest(&self, familiar: bool) -> Option<&Line> {
        let range = |ingress, group| Asker { familiar, ingress, group };
        let first = range(None, 0);
        let last = range(Some(InterfaceId(u16::MAX)), GROUPS as u8);
        let mut sums: BTreeMap<Option<InterfaceId>, usize> = BTreeMap::new();
        for (asker, line) in self.askers.range(first..last) {
            *sums.entry(asker.ingress).or_default() += line.len();
        }
        let (ingress, _) = sums.into_iter().max_by_key(|(_, sum)| *sum)?;
        let groups = self.askers.range(range(ingress, 0)..=range(ingress, GROUPS as u8));
        groups.map(|(_, line)| line).max_by_key(|line| line.len())
    }
}
