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
//! Each link has limits of its own for each family, of those that are known and of those that are not resolved, and so has what
//! may be asked per second: `pool.rs` says who makes room for whom, `budget.rs` who may ask. A station that tells its address
//! unasked may be anybody: it is probed as far as the budget goes, gone after half a minute if it was not confirmed, and while
//! there are many of them nobody else hears of it before a packet needs it.
//!
//! The table only decides; its decisions are a list of [`Action`]s, which the machine carries out.

mod budget;
mod pool;

pub(crate) use budget::Origin;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, DefaultHasher, Hash};
use std::net::IpAddr;

use perigee_net::{InterfaceId, MacAddr};

use crate::{Config, Counters, Event, Time};
use budget::{Memory, Secret};
use pool::{Asker, Place, Pool};

/// Timers that are carried out at one time.
const TURN: usize = 1024;
/// How long a neighbor that told its address unasked is kept without being confirmed, once it was not probed, in ms.
const UNCONFIRMED_MS: u64 = 30_000;
/// How long ago a neighbor was refused that is wanted again, in ns: a host tries again after a while.
const AGAIN: std::ops::RangeInclusive<u64> = 200_000_000..=3_000_000_000;
/// Places of the memories of who has answered, and of who was refused: four addresses each.
const ANSWERED: usize = 1 << 14;
const REFUSED: usize = 1 << 15;

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
    /// Too much is asked for already.
    Limited,
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
    /// The caller was told of its MAC by an event. While many stations tell theirs unasked, it is not, until a packet needs one.
    pub reported: bool,
}

/// How many neighbors a link has of one family, gateways and static ones not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborUsage {
    pub interface: InterfaceId,
    pub is_v6: bool,
    /// Those whose MAC is known.
    pub known: usize,
    /// Those of them that told it unasked, and were never confirmed.
    pub unconfirmed: usize,
    /// Those that have not answered.
    pub unresolved: usize,
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
    /// It has answered a request of ours.
    confirmed: bool,
    /// The caller is not told of it yet.
    quiet: bool,
    /// Who asked for it first.
    asker: Asker,
    /// Where it is in the order of its pool.
    number: u64,
    place: Place,
    timer: Option<Time>,
}

/// Hashes with the secret: nobody can choose addresses that share a place.
#[derive(Clone, Debug)]
struct Keyed(Secret);

impl BuildHasher for Keyed {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        self.0.0.hash(&mut hasher);
        hasher
    }
}

#[derive(Debug)]
pub(crate) struct Neighbors {
    config: Config,
    secret: Secret,
    table: HashMap<Key, Neighbor, Keyed>,
    /// By link, and whether it is of IPv6.
    pools: BTreeMap<(InterfaceId, bool), Pool>,
    /// Who has answered, as far as is remembered.
    answered: Memory,
    /// Who was not asked for, as there was too much to ask for.
    refused: Memory,
    /// The number of the next one in a pool.
    next: u64,
    timers: BTreeSet<(Time, Key)>,
    actions: VecDeque<Action>,
    /// Packets waiting, over all neighbors.
    queued: usize,
    /// Their bytes: a reply may have 65,535.
    queued_bytes: usize,
}

impl Neighbors {
    pub(crate) fn new(mut config: Config) -> Self {
        // One request per second and destination at most, whatever the configuration says (RFC 1122 2.3.2.1).
        config.retransmit_ms = config.retransmit_ms.max(1000);
        config.failed_ms = config.failed_ms.max(config.retransmit_ms);
        config.delay_ms = config.delay_ms.max(config.retransmit_ms);
        config.stale_ms = config.stale_ms.max(config.retransmit_ms);
        config.solicitations = config.solicitations.max(1);
        let secret = Secret(config.secret);
        Neighbors {
            config,
            secret,
            table: HashMap::with_hasher(Keyed(secret)),
            pools: BTreeMap::new(),
            answered: Memory::new(ANSWERED),
            refused: Memory::new(REFUSED),
            next: 0,
            timers: BTreeSet::new(),
            actions: VecDeque::new(),
            queued: 0,
            queued_bytes: 0,
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
            reported: n.reported.is_some(),
        })
    }

    /// How many neighbors each link has, by family.
    pub(crate) fn usage(&self) -> impl Iterator<Item = NeighborUsage> + '_ {
        self.pools.iter().map(|(&(interface, is_v6), pool)| NeighborUsage {
            interface,
            is_v6,
            known: pool.known,
            unconfirmed: pool.unconfirmed(),
            unresolved: pool.unresolved,
        })
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// The MAC of a next hop, if it is known.
    pub(crate) fn mac(&self, key: Key) -> Option<MacAddr> {
        self.table.get(&key)?.mac
    }

    /// Where to send a packet for this next hop. Starts to ask if nothing is known, and nobody else is to be asked for first.
    pub(crate) fn look_up(&mut self, now: Time, key: Key, origin: Origin, counters: &mut Counters) -> Answer {
        self.used(now, key);
        match self.table.get(&key) {
            Some(Neighbor { mac: Some(mac), .. }) => Answer::Mac(*mac),
            Some(Neighbor { state: NeighborState::Incomplete, .. }) => Answer::Wait,
            Some(_) => Answer::Failed,
            None => self.begin(now, key, origin, counters),
        }
    }

    /// Starts to ask for a neighbor of which nothing is known.
    fn begin(&mut self, now: Time, key: Key, origin: Origin, counters: &mut Counters) -> Answer {
        let (most_known, most) = (self.config.max_known, self.config.max_unresolved);
        let (hash, group) = (self.secret.hash(key), self.secret.group(origin));
        let familiar = self.answered.age(now, hash).is_some();
        let refused = self.refused.age(now, hash);
        let again = refused.is_some_and(|age| AGAIN.contains(&age));
        let pool = self.pool(key);
        if pool.known >= most_known && pool.least_known().is_none() {
            return Answer::Full;
        }
        if !pool.budget.take(now, origin.ingress, group, familiar, again) {
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
        self.insert(key, false, Asker { familiar, ingress: origin.ingress, group });
        self.ask(now, key);
        Answer::Wait
    }

    /// Lets a packet wait for a next hop that [`Self::look_up`] said `Wait` about; a newer packet pushes out the oldest, or
    /// several if it is larger. If none waits there, one of those makes room that wait for what others have asked for most.
    pub(crate) fn enqueue(&mut self, key: Key, packet: Pending, counters: &mut Counters) {
        let Some(n) = self.table.get(&key) else { return };
        let mut own = n.queue.len();
        let config = &self.config;
        let (most, total, bytes) = (config.queue_per_neighbor.max(1), config.queue_total, config.queue_bytes);
        while own >= most || self.queued >= total || self.queued_bytes + packet.len() > bytes {
            counters.drops.neighbor_queue_full += 1;
            let from = if own > 0 { Some(key) } else { self.most_waited_for() };
            let Some(from) = from.filter(|_| packet.len() <= bytes && total > 0) else { return };
            self.drop_oldest(from);
            own = own.saturating_sub(usize::from(from == key));
        }
        self.queued += 1;
        self.queued_bytes += packet.len();
        self.pool(key).queued += 1;
        if let Some(n) = self.table.get_mut(&key) {
            n.queue.push_back(packet);
        }
    }

    /// The neighbor from whose queue a packet is taken where there is no room for another one's.
    fn most_waited_for(&self) -> Option<Key> {
        let pool = self.pools.values().max_by_key(|pool| pool.queued)?;
        let waited_for = |key: &Key| self.table.get(key).is_some_and(|n| !n.queue.is_empty());
        pool.heaviest_line().find(waited_for)
    }

    fn drop_oldest(&mut self, key: Key) {
        if let Some(packet) = self.table.get_mut(&key).and_then(|n| n.queue.pop_front()) {
            self.queued -= 1;
            self.queued_bytes -= packet.len();
            self.pool(key).queued -= 1;
        }
    }

    /// The neighbor was used.
    pub(crate) fn used(&mut self, now: Time, key: Key) {
        let Some(n) = self.table.get_mut(&key) else { return };
        n.idle = 0;
        if let Some(mac) = n.mac.filter(|_| std::mem::take(&mut n.quiet)) {
            self.publish(key, Some(mac));
        }
        if self.table.get(&key).is_some_and(|n| n.state == NeighborState::Stale) {
            self.enter(key, NeighborState::Delay, Some(now.after_millis(self.config.delay_ms)));
        }
    }

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

    fn expired(&mut self, now: Time, key: Key, counters: &mut Counters) {
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
                n.tries = 0;
                if anybody && !self.pool(key).budget.take_probe(now) {
                    counters.neighbor_probes_limited += 1;
                    return self.enter(key, Stale, Some(now.after_millis(UNCONFIRMED_MS)));
                }
                self.enter(key, Probe, None);
                self.solicit(now, key);
            }
            Probe | Stale | Failed | Static => {
                counters.neighbors_failed += u64::from(n.state == Probe);
                self.remove(key);
                if wanted {
                    self.insert(key, true, Asker::nobody());
                    self.ask(now, key);
                }
            }
        }
    }

    /// The pool of a neighbor's link and family.
    fn pool(&mut self, key: Key) -> &mut Pool {
        let rate = self.config.requests_per_second;
        self.pools.entry((key.0, key.1.is_ipv6())).or_insert_with(|| Pool::new(rate))
    }

    /// Where a neighbor belongs in its pool.
    fn place_of(n: &Neighbor) -> Place {
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
    fn replace(&mut self, key: Key) {
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
    fn make_room_for_known(&mut self, key: Key, counters: &mut Counters) -> bool {
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
    fn displace(&mut self, key: Key, counters: &mut Counters) {
        counters.drops.neighbor_forgotten += self.take_queue(key).len() as u64;
        self.remove(key);
    }

    /// A new entry without MAC, timer or request yet.
    fn insert(&mut self, key: Key, wanted: bool, asker: Asker) {
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
    fn remove(&mut self, key: Key) {
        self.publish(key, None);
        let Some(n) = self.table.remove(&key) else { return };
        if let Some(time) = n.timer {
            self.timers.remove(&(time, key));
        }
        self.pool(key).take(key, n.place);
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
    fn confirmed(&mut self, now: Time, key: Key) {
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
    fn stale(&mut self, now: Time, key: Key) {
        let Some(n) = self.table.get_mut(&key) else { return };
        if n.wanted || n.idle < self.config.unused_refreshes {
            n.idle = n.idle.saturating_add(1);
            self.enter(key, NeighborState::Delay, Some(now.after_millis(self.config.delay_ms)));
        } else {
            self.enter(key, NeighborState::Stale, Some(now.after_millis(self.config.stale_ms)));
        }
    }

    /// Changes the state and the timer, and with them the place in the pool.
    fn enter(&mut self, key: Key, state: NeighborState, timer: Option<Time>) {
        let Some(n) = self.table.get_mut(&key) else { return };
        n.state = state;
        if let Some(old) = n.timer {
            self.timers.remove(&(old, key));
        }
        n.timer = timer;
        self.timers.extend(timer.map(|time| (time, key)));
        self.replace(key);
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
        if !queue.is_empty() {
            self.pool(key).queued -= queue.len();
        }
        self.queued_bytes -= queue.iter().map(Pending::len).sum::<usize>();
        queue
    }

    /// Informs the caller if what it believes is no longer true.
    fn publish(&mut self, key: Key, mac: Option<MacAddr>) {
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

    fn keys(&self, which: impl Fn(&Key) -> bool) -> Vec<Key> {
        self.table.keys().filter(|key| which(key)).copied().collect()
    }
}
