// SPDX-License-Identifier: MIT
//! The neighbor table, one for ARP and neighbor discovery: states of RFC 4861 7.3.2, the queue of RFC 1122 2.3.2.2, the
//! limits of RFC 6583.
//!
//! ```text
//!            no answer                      (MAC known; packets are sent to it in all of these)
//! Failed ◄──────────── Incomplete ──answer──► Reachable ─► Stale ─use─► Delay ─► Probe ─no answer─► gone
//!   └─ hold ─► gone        ▲                      ▲                               │ answer
//!                        packet                   └───────────────────────────────┘
//! ```
//!
//! Two things differ from a host. The fast path's packets are not seen here, so a stale neighbor counts as used a bounded
//! number of times ([`Config::unused_refreshes`]). And a gateway that next hops need is never forgotten: it is always
//! refreshed, and asked for again after each hold.
//!
//! The table only decides; its decisions are a list of [`Action`]s, which the machine carries out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use perigee_net::{InterfaceId, MacAddr};

use crate::{Config, Counters, Event, Time};

/// A neighbor: its address means something only together with its link.
pub(crate) type Key = (InterfaceId, IpAddr);

/// A packet's next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    /// Of one that only workers' tables know, the address is that of the destination.
    pub key: Key,
    /// Its MAC, where workers' tables have said so.
    pub mac: Option<MacAddr>,
}

impl From<Key> for NextHop {
    fn from(key: Key) -> NextHop {
        NextHop { key, mac: None }
    }
}

/// A packet that waits for its next hop's MAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Somebody else's, as received (Ethernet header, no tag); it is forwarded from the start when the wait is over.
    Received { interface: InterfaceId, frame: Vec<u8> },
    /// This router's own IP packet, ready to go.
    Own(Vec<u8>),
}

impl Pending {
    fn len(&self) -> usize {
        match self {
            Pending::Received { frame: bytes, .. } | Pending::Own(bytes) => bytes.len(),
        }
    }
}

/// What the machine has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask for the neighbor: all stations, or only the one it last was (unicast).
    Solicit(Key, Option<MacAddr>),
    /// Report an event to the caller.
    Tell(Event),
    /// The next hop has a MAC now, or has failed: continue with these packets.
    Release(Vec<(Key, Pending)>),
}

/// The table's answer about a packet's next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Send it there.
    Mac(MacAddr),
    /// Nothing yet: [`Neighbors::enqueue`] it.
    Wait,
    /// It does not answer.
    Failed,
    /// The table is full.
    Full,
    /// The owner of the tables knows: this is an assistant.
    AskOwner,
}

/// What was heard of a neighbor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// Its MAC, if the message has one.
    pub mac: Option<MacAddr>,
    /// It answered a request of ours: the path works in both directions.
    pub solicited: bool,
    /// Another MAC than the known one replaces it.
    pub replace: bool,
    /// An unknown neighbor becomes a known one.
    pub create: bool,
}

/// State of a neighbor (RFC 4861 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeighborState {
    /// Asked for, no answer yet.
    Incomplete,
    /// Confirmed a short while ago.
    Reachable,
    /// Not confirmed for a while, and not used since.
    Stale,
    /// Used since; a probe follows soon.
    Delay,
    /// Being probed.
    Probe,
    /// Does not answer; not asked again for a while.
    Failed,
    /// Configured.
    Static,
}

/// A row of the neighbor table, for showing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborInfo {
    pub interface: InterfaceId,
    pub address: IpAddr,
    /// Its MAC, if known.
    pub mac: Option<MacAddr>,
    pub state: NeighborState,
    /// A next hop needs it: see [`crate::Input::Resolve`].
    pub gateway: bool,
    /// Packets waiting for it.
    pub queued: usize,
}

#[derive(Debug)]
struct Neighbor {
    state: NeighborState,
    /// Known in all states but `Incomplete` and `Failed`.
    mac: Option<MacAddr>,
    /// What the caller believes: the MAC of the last event, unless an event has since said that it is lost.
    reported: Option<MacAddr>,
    queue: VecDeque<Pending>,
    /// Requests sent in this state.
    tries: u8,
    /// Refreshes since the last sign of use.
    idle: u8,
    wanted: bool,
    timer: Option<Time>,
}

#[derive(Debug)]
pub(crate) struct Neighbors {
    config: Config,
    table: BTreeMap<Key, Neighbor>,
    timers: BTreeSet<(Time, Key)>,
    actions: VecDeque<Action>,
    /// Packets waiting, over all neighbors.
    queued: usize,
    /// Their bytes: a reply may have 65,535.
    queued_bytes: usize,
    /// `Incomplete` ones that are not gateways.
    incomplete: usize,
}

impl Neighbors {
    pub(crate) fn new(mut config: Config) -> Self {
        // One request per second and destination at most, whatever the configuration says (RFC 1122 2.3.2.1).
        config.retransmit_ms = config.retransmit_ms.max(1000);
        config.failed_ms = config.failed_ms.max(config.retransmit_ms);
        config.delay_ms = config.delay_ms.max(config.retransmit_ms);
        config.stale_ms = config.stale_ms.max(config.retransmit_ms);
        config.solicitations = config.solicitations.max(1);
        Neighbors {
            config,
            table: BTreeMap::new(),
            timers: BTreeSet::new(),
            actions: VecDeque::new(),
            queued: 0,
            queued_bytes: 0,
            incomplete: 0,
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = NeighborInfo> + '_ {
        self.table.iter().map(|(&(interface, address), n)| NeighborInfo {
            interface,
            address,
            mac: n.mac,
            state: n.state,
            gateway: n.wanted,
            queued: n.queue.len(),
        })
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// The MAC of a next hop, if it is known.
    pub(crate) fn mac(&self, key: Key) -> Option<MacAddr> {
        self.table.get(&key)?.mac
    }

    /// Where to send a packet for this next hop. Starts to ask if nothing is known.
    pub(crate) fn look_up(&mut self, now: Time, key: Key) -> Answer {
        self.used(now, key);
        match self.table.get(&key) {
            Some(Neighbor { mac: Some(mac), .. }) => Answer::Mac(*mac),
            Some(Neighbor { state: NeighborState::Incomplete, .. }) => Answer::Wait,
            Some(_) => Answer::Failed,
            None if self.table.len() >= self.config.max_neighbors || self.incomplete >= self.config.max_incomplete => {
                Answer::Full
            }
            None => {
                self.insert(key, false);
                self.ask(now, key);
                Answer::Wait
            }
        }
    }

    /// Lets a packet wait for a next hop that [`Self::look_up`] said `Wait` about; a newer packet pushes out the oldest, or
    /// several if it is larger.
    pub(crate) fn enqueue(&mut self, key: Key, packet: Pending, counters: &mut Counters) {
        let Some(n) = self.table.get_mut(&key) else { return };
        let config = &self.config;
        while n.queue.len() >= config.queue_per_neighbor.max(1)
            || self.queued >= config.queue_total
            || self.queued_bytes + packet.len() > config.queue_bytes
        {
            counters.drops.neighbor_queue_full += 1;
            let Some(oldest) = n.queue.pop_front() else { return };
            self.queued -= 1;
            self.queued_bytes -= oldest.len();
        }
        self.queued += 1;
        self.queued_bytes += packet.len();
        n.queue.push_back(packet);
    }

    /// The neighbor was used.
    pub(crate) fn used(&mut self, now: Time, key: Key) {
        let Some(n) = self.table.get_mut(&key) else { return };
        n.idle = 0;
        if n.state == NeighborState::Stale {
            self.enter(key, NeighborState::Delay, Some(now.after_millis(self.config.delay_ms)));
        }
    }

    /// A next hop needs this gateway.
    pub(crate) fn resolve(&mut self, now: Time, key: Key, up: bool) {
        if let Some(n) = self.table.get_mut(&key) {
            if !n.wanted {
                n.wanted = true;
                self.incomplete -= usize::from(n.state == NeighborState::Incomplete);
            }
            self.used(now, key);
        } else {
            self.insert(key, true);
            self.start(now, key, up);
        }
    }

    /// No next hop needs this gateway any more.
    pub(crate) fn forget(&mut self, key: Key) {
        let Some(n) = self.table.get_mut(&key).filter(|n| n.wanted) else { return };
        n.wanted = false;
        let incomplete = n.state == NeighborState::Incomplete;
        // Without a timer it was waiting for its interface to come up; now nothing needs it.
        let waits = n.state == NeighborState::Failed && n.timer.is_none();
        // It was never refused, but now it counts among those that are. Its packets are judged again.
        let one_too_many = incomplete && self.incomplete >= self.config.max_incomplete;
        self.incomplete += usize::from(incomplete);
        if one_too_many {
            self.release(key);
        }
        if waits || one_too_many {
            self.remove(key);
        }
    }

    /// Sets a configured neighbor; `up`: whether its interface is up.
    pub(crate) fn set_static(&mut self, key: Key, mac: MacAddr, up: bool) {
        if !self.table.contains_key(&key) {
            self.insert(key, false);
        }
        if let Some(n) = self.table.get_mut(&key) {
            n.mac = Some(mac);
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
            self.insert(key, true);
            self.start(now, key, up);
        }
    }

    /// Takes in what was heard (RFC 826 "merge", RFC 4861 7.2.3 and 7.2.5).
    pub(crate) fn heard(&mut self, now: Time, key: Key, heard: Heard, counters: &mut Counters) {
        use NeighborState::{Failed, Incomplete, Reachable, Stale, Static};
        let Some(n) = self.table.get_mut(&key) else {
            let Some(mac) = heard.mac.filter(|_| heard.create) else { return };
            if self.table.len() >= self.config.max_neighbors {
                counters.drops.neighbor_table_full += 1;
                return;
            }
            self.insert(key, false);
            return self.resolved(now, key, mac, heard.solicited);
        };
        let known = n.mac;
        let differs = heard.mac.is_some() && heard.mac != known;
        match n.state {
            Static => counters.static_neighbor_kept += u64::from(differs),
            // Without a timer the interface is down, and hears nothing.
            Failed if n.timer.is_none() => {}
            Incomplete | Failed => {
                if let Some(mac) = heard.mac {
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
                    self.enter(key, Reachable, Some(now.after_millis(self.config.reachable_ms)));
                } else if differs && state != Stale {
                    self.stale(now, key);
                }
            }
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
                self.insert(key, true);
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

    /// Everything that is due by now.
    pub(crate) fn expire(&mut self, now: Time, counters: &mut Counters) {
        while let Some(&(_, key)) = self.timers.first().filter(|(time, _)| *time <= now) {
            self.expired(now, key, counters);
        }
    }

    fn expired(&mut self, now: Time, key: Key, counters: &mut Counters) {
        use NeighborState::{Delay, Failed, Incomplete, Probe, Reachable, Stale, Static};
        let Some(n) = self.table.get_mut(&key) else { return };
        let (wanted, spent) = (n.wanted, n.tries >= self.config.solicitations);
        match n.state {
            Incomplete | Probe if !spent => self.solicit(now, key),
            Incomplete => {
                counters.neighbors_failed += 1;
                self.enter(key, Failed, Some(now.after_millis(self.config.failed_ms)));
                self.release(key);
            }
            Reachable => self.stale(now, key),
            Delay => {
                n.tries = 0;
                self.enter(key, Probe, None);
                self.solicit(now, key);
            }
            Probe | Stale | Failed | Static => {
                counters.neighbors_failed += u64::from(n.state == Probe);
                self.remove(key);
                if wanted {
                    self.insert(key, true);
                    self.ask(now, key);
                }
            }
        }
    }

    /// A new entry without MAC, timer or request yet.
    fn insert(&mut self, key: Key, wanted: bool) {
        let state = NeighborState::Incomplete;
        let fresh = Neighbor {
            state,
            mac: None,
            reported: None,
            queue: VecDeque::new(),
            tries: 0,
            idle: 0,
            wanted,
            timer: None,
        };
        self.table.insert(key, fresh);
        self.incomplete += usize::from(!wanted);
    }

    /// Takes out an entry whose queue is empty.
    fn remove(&mut self, key: Key) {
        self.enter(key, NeighborState::Failed, None); // The timer and the count of incomplete ones go with it.
        self.publish(key, None);
        self.table.remove(&key);
    }

    /// Starts to ask, or waits for the interface to come up.
    fn start(&mut self, now: Time, key: Key, up: bool) {
        if up { self.ask(now, key) } else { self.enter(key, NeighborState::Failed, None) }
    }

    fn ask(&mut self, now: Time, key: Key) {
        if let Some(n) = self.table.get_mut(&key) {
            n.tries = 0;
        }
        self.enter(key, NeighborState::Incomplete, None);
        self.solicit(now, key);
    }

    fn solicit(&mut self, now: Time, key: Key) {
        let Some(n) = self.table.get_mut(&key) else { return };
        n.tries += 1;
        let (state, mac) = (n.state, n.mac);
        self.enter(key, state, Some(now.after_millis(self.config.retransmit_ms)));
        self.actions.push_back(Action::Solicit(key, mac));
    }

    /// The first MAC of a neighbor.
    fn resolved(&mut self, now: Time, key: Key, mac: MacAddr, confirmed: bool) {
        if let Some(n) = self.table.get_mut(&key) {
            n.mac = Some(mac);
        }
        if confirmed {
            self.enter(key, NeighborState::Reachable, Some(now.after_millis(self.config.reachable_ms)));
        } else {
            self.stale(now, key);
        }
        self.publish(key, Some(mac));
        self.release(key);
    }

    /// It is not confirmed any more. What is next depends on whether it may be in use.
    fn stale(&mut self, now: Time, key: Key) {
        let Some(n) = self.table.get_mut(&key) else { return };
        if n.wanted || n.idle < self.config.unused_refreshes {
            n.idle = n.idle.saturating_add(1);
            self.enter(key, NeighborState::Delay, Some(now.after_millis(self.config.delay_ms)));
        } else {
            self.enter(key, NeighborState::Stale, Some(now.after_millis(self.config.stale_ms)));
        }
    }

    /// Changes the state and the timer, and keeps the count of incomplete entries.
    fn enter(&mut self, key: Key, state: NeighborState, timer: Option<Time>) {
        let Some(n) = self.table.get_mut(&key) else { return };
        if !n.wanted {
            self.incomplete -= usize::from(n.state == NeighborState::Incomplete);
            self.incomplete += usize::from(state == NeighborState::Incomplete);
        }
        n.state = state;
        if let Some(old) = n.timer {
            self.timers.remove(&(old, key));
        }
        n.timer = timer;
        self.timers.extend(timer.map(|time| (time, key)));
    }

    fn release(&mut self, key: Key) {
        let queue = self.take_queue(key);
        if !queue.is_empty() {
            self.actions.push_back(Action::Release(queue.into_iter().map(|packet| (key, packet)).collect()));
        }
    }

    fn take_queue(&mut self, key: Key) -> VecDeque<Pending> {
        let queue = self.table.get_mut(&key).map(|n| std::mem::take(&mut n.queue)).unwrap_or_default();
        self.queued -= queue.len();
        self.queued_bytes -= queue.iter().map(Pending::len).sum::<usize>();
        queue
    }

    /// Informs the caller if what it believes is no longer true.
    fn publish(&mut self, key: Key, mac: Option<MacAddr>) {
        let Some(n) = self.table.get_mut(&key) else { return };
        let (interface, address) = key;
        let event = match (std::mem::replace(&mut n.reported, mac), mac) {
            (None, Some(mac)) => Event::NeighborResolved { interface, address, mac },
            (Some(before), Some(mac)) if before != mac => Event::NeighborChanged { interface, address, mac },
            (Some(_), None) => Event::NeighborLost { interface, address },
            _ => return,
        };
        self.actions.push_back(Action::Tell(event));
    }

    fn keys(&self, which: impl Fn(&Key) -> bool) -> Vec<Key> {
        self.table.keys().filter(|key| which(key)).copied().collect()
    }
}
