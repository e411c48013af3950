// SPDX-License-Identifier: MIT
//! The states of a neighbor: what is heard of it, and what time does.

use super::pool::Asker;
use super::{Action, Heard, Key, NeighborState, Neighbors, TURN, UNCONFIRMED_MS};
use crate::{Counters, Event, Time};
use perigee_net::MacAddr;

impl Neighbors {
    /// Takes in what was heard (RFC 826 "merge", RFC 4861 7.2.3 and 7.2.5).
    pub(crate) fn heard(&mut self, now: Time, key: Key, heard: Heard, counters: &mut Counters) {
        use NeighborState::{Failed, Incomplete, Reachable, Stale, Static};
        let Some(n) = self.table.get_mut(&key) else {
            let Some(mac) = heard.mac.filter(|_| heard.create) else { return };
            if !self.make_room_for_known(key, counters) {
                return;
            }
            self.insert(key, false, Asker::nobody());
            return self.resolved(now, key, mac, heard.solicited);
        };
        let known = n.mac;
        let differs = heard.mac.is_some() && heard.mac != known;
        match n.state {
            Static => counters.static_neighbor_kept += u64::from(differs),
            // Without a timer the interface is down, and hears nothing.
            Failed if n.timer.is_none() => {}
            Incomplete | Failed => {
                let counts = !n.wanted;
                if let Some(mac) = heard.mac
                    && (!counts || self.make_room_for_known(key, counters))
                {
                    self.resolved(now, key, mac, heard.solicited);
                }
            }
            Reachable if differs && !heard.replace => self.stale(now, key),
            _ if differs && !heard.replace => {}
            state => {
                if let Some(mac) = heard.mac.filter(|_| differs) {
                    n.mac = Some(mac);
                    self.publish(key, Some(mac));
                }
                if heard.solicited {
                    self.confirmed(now, key);
                    self.release(key);
                } else if differs && state != Stale {
                    self.stale(now, key);
                }
            }
        }
    }

    /// What is due by now, up to a number; the rest stays due.
    pub(crate) fn expire(&mut self, now: Time, counters: &mut Counters) {
        for _ in 0..TURN {
            let Some(&(_, key)) = self.timers.first().filter(|(time, _)| *time <= now) else { break };
            self.expired(now, key, counters);
        }
        if self.table.capacity() > TURN.max(8 * self.table.len()) {
            self.table.shrink_to(2 * self.table.len());
        }
    }

    pub(super) fn expired(&mut self, now: Time, key: Key, counters: &mut Counters) {
        use NeighborState::{Delay, Failed, Incomplete, Probe, Reachable, Stale, Static};
        let Some(n) = self.table.get_mut(&key) else { return };
        let (wanted, spent) = (n.wanted, n.tries >= self.config.solicitations);
        let anybody = !wanted && !n.confirmed;
        match n.state {
            Incomplete | Probe if !spent => self.solicit(now, key),
            Incomplete => {
                counters.neighbors_failed += 1;
                self.enter(key, Failed, Some(now.after_millis(self.config.failed_ms)));
                self.release(key);
            }
            Reachable => self.stale(now, key),
            Delay => {
                if anybody && !self.pool(key).budget.take_probe(now) {
                    counters.neighbor_probes_limited += 1;
                    return self.enter(key, Stale, Some(now.after_millis(UNCONFIRMED_MS)));
                }
                self.probe(now, key);
            }
            Probe | Stale | Failed | Static => {
                counters.neighbors_failed += u64::from(n.state == Probe);
                // What waits for a neighbor whose MAC address is known is for Linux: `vouch`.
                counters.drops.source_unresolved += self.take_queue(key).len() as u64;
                self.remove(key);
                if wanted {
                    self.insert(key, true, Asker::nobody());
                    self.ask(now, key);
                }
            }
        }
    }

    /// Starts to ask, or waits for the interface to come up.
    pub(super) fn start(&mut self, now: Time, key: Key, up: bool) {
        if up { self.ask(now, key) } else { self.enter(key, NeighborState::Failed, None) }
    }

    pub(super) fn ask(&mut self, now: Time, key: Key) {
        if let Some(n) = self.table.get_mut(&key) {
            n.tries = 0;
        }
        self.enter(key, NeighborState::Incomplete, None);
        self.solicit(now, key);
    }

    /// Asks whoever told its MAC address unasked whether it is there.
    pub(super) fn probe(&mut self, now: Time, key: Key) {
        if let Some(n) = self.table.get_mut(&key) {
            n.tries = 0;
        }
        self.enter(key, NeighborState::Probe, None);
        self.solicit(now, key);
    }

    pub(super) fn solicit(&mut self, now: Time, key: Key) {
        let Some(n) = self.table.get_mut(&key) else { return };
        n.tries += 1;
        let (state, mac) = (n.state, n.mac);
        self.enter(key, state, Some(now.after_millis(self.config.retransmit_ms)));
        self.actions.push_back(Action::Solicit(key, mac));
    }

    /// The first MAC of a neighbor.
    pub(super) fn resolved(&mut self, now: Time, key: Key, mac: MacAddr, confirmed: bool) {
        let many = self.pool(key).unconfirmed() >= self.config.max_unresolved;
        if let Some(n) = self.table.get_mut(&key) {
            n.mac = Some(mac);
            // Packets that wait need it now.
            n.quiet = many && !confirmed && !n.wanted && n.queue.is_empty();
        }
        if confirmed {
            self.confirmed(now, key);
        } else {
            self.stale(now, key);
        }
        self.publish(key, Some(mac));
        self.release(key);
    }

    /// It has answered.
    pub(super) fn confirmed(&mut self, now: Time, key: Key) {
        self.answered.put(now, self.secret.hash(key));
        let Some(n) = self.table.get_mut(&key) else { return };
        n.confirmed = true;
        let quiet = std::mem::take(&mut n.quiet);
        let mac = n.mac;
        self.enter(key, NeighborState::Reachable, Some(now.after_millis(self.config.reachable_ms)));
        if quiet {
            self.publish(key, mac);
        }
    }

    /// It is not confirmed any more. What is next depends on whether it may be in use.
    pub(super) fn stale(&mut self, now: Time, key: Key) {
        let Some(n) = self.table.get_mut(&key) else { return };
        if n.wanted || n.idle < self.config.unused_refreshes {
            n.idle = n.idle.saturating_add(1);
            self.enter(key, NeighborState::Delay, Some(now.after_millis(self.config.delay_ms)));
        } else {
            self.enter(key, NeighborState::Stale, Some(now.after_millis(self.config.stale_ms)));
        }
    }

    /// Changes the state and the timer, and with them the place in the pool.
    pub(super) fn enter(&mut self, key: Key, state: NeighborState, timer: Option<Time>) {
        let Some(n) = self.table.get_mut(&key) else { return };
        n.state = state;
        if let Some(old) = n.timer {
            self.timers.remove(&(old, key));
        }
        n.timer = timer;
        self.timers.extend(timer.map(|time| (time, key)));
        self.replace(key);
    }

    /// Informs the caller if what it believes is no longer true.
    pub(super) fn publish(&mut self, key: Key, mac: Option<MacAddr>) {
        let Some(n) = self.table.get_mut(&key).filter(|n| !n.quiet || mac.is_none()) else { return };
        let (interface, address) = key;
        let event = match (std::mem::replace(&mut n.reported, mac), mac) {
            (None, Some(mac)) => Event::NeighborResolved { interface, address, mac },
            (Some(before), Some(mac)) if before != mac => Event::NeighborChanged { interface, address, mac },
            (Some(_), None) => Event::NeighborLost { interface, address },
            _ => return,
        };
        self.actions.push_back(Action::Tell(event));
    }
}
