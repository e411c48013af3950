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
//! Two things differ from a host. The fast path's packets are not seen here, so a stale neighbor counts as used a
//! bounded number of times ([`Config::unused_refreshes`]). And a gateway that next hops need is never forgotten: it is
//! always refreshed, and asked for again after each hold.
//!
//! Each link has limits of its own for each family, of those that are known and of those that are not resolved, and so
//! has what may be asked per second: `pool.rs` says who makes room for whom, `budget.rs` who may ask. A station that
//! tells its address unasked may be anybody: it is probed as far as the budget goes, gone after half a minute if it was
//! not confirmed, and while there are many of them nobody else hears of it before a packet needs it.
//!
//! Whoever sends what Linux would answer has to have answered itself: `vouch` in `room.rs`.
//!
//! The table only decides; its decisions are a list of [`Action`]s, which the machine carries out.

mod budget;
mod needs;
mod pool;
mod room;
mod states;

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
/// Of whom packets for Linux may wait at once.
const STRANGERS: usize = 4096;

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
    /// `for_linux`: it waits for who sent it, not for whom it goes to.
    Received { interface: InterfaceId, frame: Vec<u8>, for_linux: bool },
    /// This router's own IP packet, ready to go.
    Own(Vec<u8>),
}

impl Pending {
    fn len(&self) -> usize {
        match self {
            Pending::Received { frame: bytes, .. } | Pending::Own(bytes) => bytes.len(),
        }
    }

    fn is_for_linux(&self) -> bool {
        matches!(self, Pending::Received { for_linux: true, .. })
    }
}

/// Packets that wait, over all neighbors.
#[derive(Debug, Default)]
struct Waiting {
    packets: usize,
    /// Their bytes: a reply may have 65,535.
    bytes: usize,
}

impl Waiting {
    fn add(&mut self, packet: &Pending) {
        self.packets += 1;
        self.bytes += packet.len();
    }

    fn remove(&mut self, packet: &Pending) {
        self.packets -= 1;
        self.bytes -= packet.len();
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
    /// The caller was told of its MAC by an event. While many stations tell theirs unasked, it is not, until a packet
    /// needs one.
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
    /// Who sent packets for Linux that wait, in the order in which the first of each came; some have answered since.
    strangers: VecDeque<Key>,
    /// All that wait, and those of them that are for Linux.
    queued: Waiting,
    for_linux: Waiting,
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
            strangers: VecDeque::new(),
            queued: Waiting::default(),
            for_linux: Waiting::default(),
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
        self.queued.packets
    }

    /// The MAC of a next hop, if it is known.
    pub(crate) fn mac(&self, key: Key) -> Option<MacAddr> {
        self.table.get(&key)?.mac
    }

    /// Where to send a packet for this next hop. Starts to ask if nothing is known, and nobody else is to be asked for
    /// first.
    pub(crate) fn look_up(&mut self, now: Time, key: Key, origin: Origin, counters: &mut Counters) -> Answer {
        self.used(now, key);
        match self.table.get(&key) {
            Some(Neighbor { mac: Some(mac), .. }) => Answer::Mac(*mac),
            Some(Neighbor { state: NeighborState::Incomplete, .. }) => Answer::Wait,
            Some(_) => Answer::Failed,
            None => {
                let group = self.secret.group((origin.ingress, origin.source));
                let asker = Asker { familiar: false, ingress: origin.ingress, group };
                self.begin(now, key, asker, false, counters)
            }
        }
    }

    /// Lets a packet wait for a next hop that [`Self::look_up`] said `Wait` about; a newer packet pushes out the
    /// oldest, or several if it is larger. If none waits there, one of those makes room that wait for what others
    /// have asked for most.
    pub(crate) fn enqueue(&mut self, key: Key, packet: Pending, counters: &mut Counters) {
        let Some(n) = self.table.get(&key) else { return };
        let mut own = n.queue.len();
        let config = &self.config;
        let (most, total, bytes) = (config.queue_per_neighbor.max(1), config.queue_total, config.queue_bytes);
        while own >= most || self.queued.packets >= total || self.queued.bytes + packet.len() > bytes {
            counters.drops.neighbor_queue_full += 1;
            let from = if own > 0 { Some(key) } else { self.most_waited_for() };
            let Some(from) = from.filter(|_| packet.len() <= bytes && total > 0) else { return };
            self.drop_oldest(from);
            own = own.saturating_sub(usize::from(from == key));
        }
        self.count(&packet, Waiting::add);
        self.pool(key).queued += 1;
        if let Some(n) = self.table.get_mut(&key) {
            n.queue.push_back(packet);
        }
    }

    /// Counts a packet that begins to wait, or has waited.
    fn count(&mut self, packet: &Pending, how: impl Fn(&mut Waiting, &Pending)) {
        how(&mut self.queued, packet);
        if packet.is_for_linux() {
            how(&mut self.for_linux, packet);
        }
    }

    /// Lets a packet for Linux wait for the neighbor that sent it, after [`Self::vouch`] said `Wait`. Such packets have
    /// half of the room for all, whatever else waits; the one that has waited longest makes room, as a host that is
    /// there answers within milliseconds.
    pub(crate) fn enqueue_for_linux(
        &mut self,
        key: Key,
        (interface, frame): (InterfaceId, Vec<u8>),
        counters: &mut Counters,
    ) {
        let packet = Pending::Received { interface, frame, for_linux: true };
        let (total, bytes) = (self.config.queue_total / 2, self.config.queue_bytes / 2);
        let is_full = |all: &Self| all.for_linux.packets >= total || all.for_linux.bytes + packet.len() > bytes;
        while is_full(self) || self.strangers.len() >= STRANGERS {
            let Some(oldest) = self.strangers.pop_front() else {
                counters.drops.source_limited += 1;
                return;
            };
            counters.drops.source_limited += self.drop_for_linux(oldest);
        }
        while self.strangers.front().is_some_and(|key| !self.has_for_linux(*key)) {
            self.strangers.pop_front();
        }
        if !self.has_for_linux(key) {
            self.strangers.push_back(key);
        }
        self.enqueue(key, packet, counters);
    }

    fn has_for_linux(&self, key: Key) -> bool {
        self.table.get(&key).is_some_and(|n| n.queue.iter().any(Pending::is_for_linux))
    }

    /// Drops the packets for Linux that wait for a neighbor; returns how many. What goes to that neighbor waits on.
    fn drop_for_linux(&mut self, key: Key) -> u64 {
        let queue = self.take_queue(key);
        let (gone, stay): (VecDeque<_>, VecDeque<_>) = queue.into_iter().partition(Pending::is_for_linux);
        stay.iter().for_each(|packet| self.count(packet, Waiting::add));
        if !stay.is_empty() {
            self.pool(key).queued += stay.len();
        }
        if let Some(n) = self.table.get_mut(&key) {
            n.queue = stay;
        }
        gone.len() as u64
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

    fn release(&mut self, key: Key) {
        let queue = self.take_queue(key);
        if !queue.is_empty() {
            self.actions.push_back(Action::Release(queue.into_iter().map(|packet| (key, packet)).collect()));
        }
    }

    fn take_queue(&mut self, key: Key) -> VecDeque<Pending> {
        let queue = self.table.get_mut(&key).map(|n| std::mem::take(&mut n.queue)).unwrap_or_default();
        queue.iter().for_each(|packet| self.count(packet, Waiting::remove));
        if !queue.is_empty() {
            self.pool(key).queued -= queue.len();
        }
        queue
    }

    fn keys(&self, which: impl Fn(&Key) -> bool) -> Vec<Key> {
        self.table.keys().filter(|key| which(key)).copied().collect()
    }
}
