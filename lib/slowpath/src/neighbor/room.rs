// SPDX-License-Identifier: MIT
//! Room for one more neighbor, or one more packet that waits: in its pool, by its budget.

use super::pool::{Asker, Place, Pool};
use super::{AGAIN, Answer, Key, Neighbor, NeighborState, Neighbors};
use crate::{Counters, Time};
use perigee_net::{InterfaceId, MacAddr};
use std::collections::VecDeque;

impl Neighbors {
    /// Whether a neighbor is there that sent a packet for Linux: it has answered, or is configured. `asked`: the
    /// interface and the station that the packet came from.
    pub(crate) fn vouch(
        &mut self,
        now: Time,
        key: Key,
        asked: (InterfaceId, MacAddr),
        counters: &mut Counters,
    ) -> Answer {
        let asker = Asker { familiar: false, ingress: Some(asked.0), group: self.secret.group(asked) };
        let Some(n) = self.table.get(&key) else { return self.begin(now, key, asker, true, counters) };
        let answered = n.confirmed || n.state == NeighborState::Static;
        match (n.state, n.mac) {
            (_, Some(mac)) if answered => {
                self.used(now, key);
                Answer::Mac(mac)
            }
            (NeighborState::Incomplete | NeighborState::Probe, _) => Answer::Wait,
            (_, Some(_)) => {
                let pool = self.pool(key);
                if !pool.budget.take_probe(now) && !pool.sources.take(now, asker.ingress, asker.group, false, false) {
                    return Answer::Limited;
                }
                self.probe(now, key);
                Answer::Wait
            }
            _ => Answer::Failed,
        }
    }

    /// Starts to ask for a neighbor of which nothing is known; `for_linux`: out of the budget of those that packets for
    /// Linux come from.
    pub(super) fn begin(
        &mut self,
        now: Time,
        key: Key,
        asker: Asker,
        for_linux: bool,
        counters: &mut Counters,
    ) -> Answer {
        let (most_known, most) = (self.config.max_known, self.config.max_unresolved);
        let hash = self.secret.hash(key);
        let familiar = self.answered.age(now, hash).is_some();
        let refused = self.refused.age(now, hash);
        let again = refused.is_some_and(|age| AGAIN.contains(&age));
        let pool = self.pool(key);
        if pool.known >= most_known && pool.least_known().is_none() {
            return Answer::Full;
        }
        let budget = if for_linux { &mut pool.sources } else { &mut pool.budget };
        if !budget.take(now, asker.ingress, asker.group, familiar, again) {
            // The time of the first refusal counts.
            if refused.is_none_or(|age| age > *AGAIN.end()) {
                self.refused.put(now, hash);
            }
            return Answer::Limited;
        }
        if pool.unresolved >= most {
            let Some(least) = pool.least_unresolved(familiar) else { return Answer::Full };
            counters.neighbors_displaced_unresolved += 1;
            self.displace(least, counters);
        }
        self.insert(key, false, Asker { familiar, ..asker });
        self.ask(now, key);
        Answer::Wait
    }

    /// The neighbor from whose queue a packet is taken where there is no room for another one's.
    pub(super) fn most_waited_for(&self) -> Option<Key> {
        let pool = self.pools.values().max_by_key(|pool| pool.queued)?;
        let waited_for = |key: &Key| self.table.get(key).is_some_and(|n| !n.queue.is_empty());
        pool.heaviest_line().find(waited_for)
    }

    pub(super) fn drop_oldest(&mut self, key: Key) {
        if let Some(packet) = self.table.get_mut(&key).and_then(|n| n.queue.pop_front()) {
            self.count(&packet, super::Waiting::remove);
            self.pool(key).queued -= 1;
        }
    }

    /// The pool of a neighbor's link and family.
    pub(super) fn pool(&mut self, key: Key) -> &mut Pool {
        let rate = self.config.requests_per_second;
        self.pools.entry((key.0, key.1.is_ipv6())).or_insert_with(|| Pool::new(rate))
    }

    /// Where a neighbor belongs in its pool.
    pub(super) fn place_of(n: &Neighbor) -> Place {
        match n.state {
            _ if n.wanted => Place::Needed,
            NeighborState::Static => Place::Needed,
            _ if n.mac.is_none() => Place::Unresolved(n.asker, n.number),
            _ if !n.confirmed => Place::Unconfirmed(n.number),
            NeighborState::Stale => Place::Stale(n.number),
            _ => Place::Known,
        }
    }

    /// Puts a neighbor that has changed into its place.
    pub(super) fn replace(&mut self, key: Key) {
        let number = self.next;
        let Some(n) = self.table.get_mut(&key) else { return };
        let before = n.place;
        let stale = |n: &Neighbor| matches!(Self::place_of(n), Place::Stale(_));
        // The longest stale goes first; the others are in the order in which they came.
        if stale(n) && !matches!(before, Place::Stale(_)) {
            n.number = number;
        }
        n.place = Self::place_of(n);
        let now = n.place;
        if now != before {
            self.next += 1;
            let pool = self.pool(key);
            pool.take(key, before);
            pool.put(key, now);
        }
    }

    /// Makes room for one more known neighbor on a link; false: those that are there are worth more.
    pub(super) fn make_room_for_known(&mut self, key: Key, counters: &mut Counters) -> bool {
        let most = self.config.max_known;
        let pool = self.pool(key);
        if pool.known < most {
            return true;
        }
        let Some(least) = pool.least_known() else {
            counters.drops.neighbor_table_full += 1;
            return false;
        };
        counters.neighbors_displaced += 1;
        self.displace(least, counters);
        true
    }

    /// Takes a neighbor out for another's sake or an operator's, and what waits for it.
    pub(super) fn displace(&mut self, key: Key, counters: &mut Counters) {
        counters.drops.neighbor_forgotten += self.take_queue(key).len() as u64;
        self.remove(key);
    }

    /// A new entry without MAC, timer or request yet.
    pub(super) fn insert(&mut self, key: Key, wanted: bool, asker: Asker) {
        let state = NeighborState::Incomplete;
        let fresh = Neighbor {
            state,
            mac: None,
            reported: None,
            queue: VecDeque::new(),
            tries: 0,
            idle: 0,
            wanted,
            confirmed: false,
            quiet: false,
            asker,
            number: self.next,
            place: Place::Needed,
            timer: None,
        };
        self.next += 1;
        self.table.insert(key, fresh);
        self.replace(key);
    }

    /// Takes out an entry whose queue is empty.
    pub(super) fn remove(&mut self, key: Key) {
        self.publish(key, None);
        let Some(n) = self.table.remove(&key) else { return };
        if let Some(time) = n.timer {
            self.timers.remove(&(time, key));
        }
        self.pool(key).take(key, n.place);
    }
}
