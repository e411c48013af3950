// SPDX-License-Identifier: MIT
//! Further threads of the slow path, and the owner's ends of them.
//!
//! ```text
//!  workers ──punt rings, by flow──┬──► owner (slow.rs): judges, owns neighbors, fragments, twins
//!                                 │      ▲        │ interfaces, tables: published
//!                                 │      │ left   ▼
//!                                 └──► assistants: judge ──► transmit queues of their own
//! ```
//!
//! An assistant sends by itself what it can judge by the tables that workers read; the rest it leaves to the owner,
//! packet and all. While a tap is on, that is everything: captures and traces see one thread.

use crate::forwarding::{Asks, decide};
use crate::ports::Outputs;
use crate::slow::{TURN, slow_config, tagged};
use crate::workers::take;
use perigee_config::Config;
use perigee_fib::{Published, Subscriber};
use perigee_modules::{Punted, Tables};
use perigee_net::InterfaceId;
use perigee_packet::{Packet, Pool, TransmitQueue};
use perigee_slowpath::{
    Assistant, Config as SlowConfig, Counters, GroupPacket, InterfaceTable, Limits, MulticastDecision, Output,
    RouteDecision, Routes, SlowPath, Time, Treatment,
};
use perigee_worker::{Bell, Clock, PuntReader, Stop};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// What an assistant leaves to the owner can wait in a ring for so many packets.
const LEFT: usize = 1024;
/// Longest sleep: tables that are replaced wait for every thread that may read them.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// What an assistant is made of.
pub struct AssistantParts {
    /// Its ends of the workers' punt rings.
    pub punts: Vec<PuntReader>,
    /// Its transmit queues, by port number.
    pub outputs: Vec<Option<Box<dyn TransmitQueue>>>,
    /// The pools for what it sends, by port number.
    pub pools: Vec<Option<Arc<dyn Pool>>>,
    /// The workers' tables.
    pub tables: Subscriber<Tables>,
    /// Its bell, which the workers have.
    pub bell: AssistantBell,
    /// The owner's.
    pub owner: Arc<Bell>,
    /// Monotonic clock in ns.
    pub clock: Clock,
    /// The request to stop.
    pub stop: Stop,
}

/// Wakes an assistant.
#[derive(Clone)]
pub struct AssistantBell {
    bell: Arc<Bell>,
    sleeper: Arc<OnceLock<Thread>>,
}

impl Default for AssistantBell {
    fn default() -> AssistantBell {
        let sleeper: Arc<OnceLock<Thread>> = Arc::default();
        let thread = sleeper.clone();
        // A thread that has not begun to run is awake.
        let wake = move || thread.get().into_iter().for_each(Thread::unpark);
        AssistantBell { bell: Arc::new(Bell::new(wake)), sleeper }
    }
}

impl AssistantBell {
    /// The workers' end.
    pub fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }
}

/// What an assistant leaves to the owner.
enum Left {
    /// A packet, untouched.
    Packet(Punted),
    /// An answer, and the interface by which it should leave.
    Own(InterfaceId, Vec<u8>),
}

/// The owner's end of one assistant.
struct End {
    left: rtrb::Consumer<Left>,
    state: Arc<Mutex<State>>,
}

/// What an assistant shows of itself.
#[derive(Clone, Default)]
struct State {
    counters: Counters,
    /// Frames that could not be sent, by port number.
    lost: Vec<u64>,
    /// Packets that the owner's ring had no room for.
    refused: u64,
    /// Frames to interfaces that are gone.
    astray: u64,
}

/// All assistants, as the owner of the tables sees them.
pub struct Assistants {
    config: SlowConfig,
    limits: Arc<Limits>,
    interfaces: Published<InterfaceTable>,
    /// What `interfaces` was published from: see [`SlowPath::interface_changes`].
    changes: u64,
    ends: Vec<End>,
}

impl Assistants {
    /// None yet, for a router of this configuration.
    pub fn new(config: &Config) -> Assistants {
        let config = slow_config(config);
        let limits = Arc::new(Limits::new(&config));
        let interfaces = Published::new(InterfaceTable::default());
        Assistants { config, limits, interfaces, changes: 0, ends: Vec::new() }
    }

    /// One more: what its thread runs.
    pub fn add(&mut self, parts: AssistantParts) -> AssistantThread {
        let AssistantParts { punts, outputs, pools, tables, bell, owner, clock, stop } = parts;
        // Identifications of two threads from one secret would be the same.
        let config = SlowConfig { secret: crate::slow::secret(), ..self.config.clone() };
        let (producer, left) = rtrb::RingBuffer::new(LEFT);
        let state: Arc<Mutex<State>> = Arc::default();
        self.ends.push(End { left, state: state.clone() });
        AssistantThread {
            assistant: Assistant::new(config, self.limits.clone()),
            interfaces: self.interfaces.subscribe(),
            outputs: Outputs::new(outputs, |number| pools.get(usize::from(number)).cloned().flatten()),
            left: producer,
            has_left: false,
            refused: 0,
            astray: 0,
            state,
            taken: Vec::new(),
            punts,
            tables,
            bell,
            owner,
            clock,
            stop,
        }
    }

    /// The slow path that owns the tables.
    pub fn owner(&self) -> SlowPath {
        SlowPath::sharing(self.config.clone(), self.limits.clone())
    }

    /// Shows the assistants what has become of the interfaces.
    pub fn publish(&mut self, owner: &SlowPath) {
        if !self.ends.is_empty() && self.changes != owner.interface_changes() {
            self.changes = owner.interface_changes();
            self.interfaces.publish(owner.interfaces());
        }
    }

    /// Frees what no assistant reads any more.
    pub(crate) fn reclaim(&mut self) {
        self.interfaces.reclaim();
    }

    /// How many threads the slow path has.
    pub(crate) fn threads(&self) -> usize {
        1 + self.ends.len()
    }

    /// Whether something was left to the owner.
    pub(crate) fn have_left(&self) -> bool {
        self.ends.iter().any(|end| !end.left.is_empty())
    }

    /// Takes up to `most` of what each assistant has left to the owner: packets, and answers with the interfaces they
    /// should leave by.
    pub(crate) fn take_left(&mut self, most: usize, packets: &mut Vec<Punted>, own: &mut Vec<(InterfaceId, Vec<u8>)>) {
        for end in &mut self.ends {
            let Ok(chunk) = end.left.read_chunk(end.left.slots().min(most)) else { continue };
            for left in chunk {
                match left {
                    Left::Packet(packet) => packets.push(packet),
                    Left::Own(interface, packet) => own.push((interface, packet)),
                }
            }
        }
    }

    /// The counters of the owner and all assistants together.
    pub fn counters(&self, owner: &SlowPath) -> Counters {
        let mut sum = owner.counters().clone();
        self.states().for_each(|state| sum += &state.counters);
        sum
    }

    /// Frames that assistants could not send.
    pub(crate) fn lost_to_transmit(&self) -> u64 {
        self.states().map(|state| state.lost.iter().sum::<u64>()).sum()
    }

    /// Frames that assistants could not send on a port.
    pub(crate) fn lost_to_port(&self, number: u16) -> u64 {
        self.states().map(|state| state.lost.get(usize::from(number)).copied().unwrap_or(0)).sum()
    }

    /// Frames of assistants to interfaces that are gone.
    pub(crate) fn astray(&self) -> u64 {
        self.states().map(|state| state.astray).sum()
    }

    /// Packets for the owner that found no room.
    pub(crate) fn refused(&self) -> u64 {
        self.states().map(|state| state.refused).sum()
    }

    fn states(&self) -> impl Iterator<Item = State> + '_ {
        self.ends.iter().map(|end| end.state.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Frees what is still in the rings, once the assistants have ended; returns how much that was.
    pub(crate) fn drain(&mut self) -> usize {
        self.ends.iter_mut().map(|end| std::iter::from_fn(|| end.left.pop().ok()).count()).sum()
    }
}

/// What an assistant's thread runs.
pub struct AssistantThread {
    assistant: Assistant,
    punts: Vec<PuntReader>,
    outputs: Outputs,
    tables: Subscriber<Tables>,
    interfaces: Subscriber<InterfaceTable>,
    bell: AssistantBell,
    owner: Arc<Bell>,
    left: rtrb::Producer<Left>,
    /// Something was left since the owner's bell was last rung.
    has_left: bool,
    refused: u64,
    astray: u64,
    state: Arc<Mutex<State>>,
    /// What was taken from a punt ring; empty between two turns.
    taken: Vec<Punted>,
    clock: Clock,
    stop: Stop,
}

impl AssistantThread {
    /// Runs until the router stops, and then frees what is left.
    pub fn run(&mut self) {
        // Nobody else sets it.
        let _ = self.bell.sleeper.set(std::thread::current());
        while !self.stop.requested() {
            if self.round() {
                continue;
            }
            // A ring from here on wakes the sleeper; what came before is found now.
            self.bell.bell.doze();
            if self.punts.iter().all(|ring| ring.is_empty()) {
                std::thread::park_timeout(LONGEST_SLEEP);
            }
            self.bell.bell.awake();
        }
        self.finish();
    }

    /// Frees what is still in the punt rings, and gives up the queues.
    pub fn finish(&mut self) {
        for ring in &mut self.punts {
            while ring.pop().is_ok() {}
        }
        self.outputs.close();
    }

    /// Takes a turn at every punt ring; returns whether anything was there.
    pub fn round(&mut self) -> bool {
        self.tables.refresh();
        if self.interfaces.refresh() {
            self.assistant.set_interfaces(&self.interfaces);
        }
        let mut busy = false;
        for ring in 0..self.punts.len() {
            let mut taken = std::mem::take(&mut self.taken);
            take(&mut self.punts[ring], TURN, &mut taken);
            busy |= !taken.is_empty();
            let done = taken.drain(..).filter_map(|punted| self.judge(punted)).collect::<Vec<_>>();
            Packet::free_all(done);
            self.taken = taken;
        }
        if busy {
            self.outputs.flush();
            let (refused, astray) = (self.refused, self.astray);
            let (counters, lost) = (self.assistant.counters().clone(), self.outputs.lost().to_vec());
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State { counters, lost, refused, astray };
            if std::mem::take(&mut self.has_left) {
                self.owner.ring();
            }
        }
        busy
    }

    /// Judges a packet, or leaves it to the owner; returns it if it is done with.
    fn judge(&mut self, punted: Punted) -> Option<Packet> {
        // Super-frames are taken segment by segment, of which the owner may have to see any.
        let owners = self.tables.tapped() || punted.trace.is_some() || punted.packet.gso_size().is_some();
        let now = Time((self.clock)());
        let (interface, frame) = (punted.interface, punted.packet.bytes());
        if owners || !self.assistant.handle(now, interface, frame, &ByTables(&self.tables)) {
            return self.leave(Left::Packet(punted));
        }
        while let Some(output) = self.assistant.poll_output() {
            match output {
                Output::Transmit { interface, frame } => self.send(interface, &frame),
                Output::Own { interface, packet } => drop(self.leave(Left::Own(interface, packet))),
                Output::ToTwin { .. } | Output::Event(_) => debug_assert!(false, "{output:?} is the owner's"),
            }
        }
        Some(punted.packet)
    }

    /// Gives something to the owner; returns a packet that there is no room for, which is counted.
    fn leave(&mut self, left: Left) -> Option<Packet> {
        self.has_left = true;
        let Err(rtrb::PushError::Full(left)) = self.left.push(left) else { return None };
        self.refused += 1;
        match left {
            Left::Packet(punted) => Some(punted.packet),
            Left::Own(..) => None,
        }
    }

    fn send(&mut self, interface: InterfaceId, frame: &[u8]) {
        let Some(egress) = self.tables.interfaces.egress(interface).copied() else {
            self.astray += 1;
            return;
        };
        let tagged = tagged(frame, egress.vlan);
        self.outputs.transmit(egress.port, tagged.as_deref().unwrap_or(frame));
    }
}

/// Routes as workers find them.
struct ByTables<'a>(&'a Tables);

impl Routes for ByTables<'_> {
    fn route(&self, destination: IpAddr, flow: u32) -> RouteDecision {
        use perigee_fib::Action;
        let (_, next_hop) = self.0.fib().lookup_flow(destination, flow);
        match next_hop.action() {
            Action::Forward { interface, mac } => RouteDecision::Station(interface, mac),
            Action::Unresolved { interface } => RouteDecision::Unresolved(interface),
            Action::Local => RouteDecision::Local,
            Action::Unreachable => RouteDecision::Unreachable,
            Action::Prohibit => RouteDecision::Prohibit,
            Action::Blackhole => RouteDecision::Blackhole,
            Action::ToLinux => RouteDecision::ToLinux,
            Action::Refused => RouteDecision::Refused,
            Action::NoRoute | Action::Group => RouteDecision::NoRoute,
        }
    }

    fn treatment(&self, _: InterfaceId, packet: &[u8]) -> Treatment {
        let may_match = self.0.exceptions.as_ref().is_some_and(|exceptions| exceptions.may_match(packet));
        if may_match { Treatment::AskOwner } else { Treatment::Plain }
    }

    fn leads_back(&self, source: IpAddr, by: Option<InterfaceId>) -> bool {
        self.0.next_hops.leads(self.0.find(source), by)
    }

    fn multicast(&self, now: Time, packet: &GroupPacket) -> MulticastDecision {
        let leads_back = || self.leads_back(packet.source, Some(packet.interface));
        let decide = |table| decide(Asks::Assistant, table, now, packet, leads_back);
        self.0.multicast.as_deref().map_or(MulticastDecision::NoRoute, decide)
    }

    fn lets_linux_send(&self, interface: InterfaceId, group: IpAddr, ttl: u8) -> bool {
        // What Linux sends comes to the owner alone.
        self.0.multicast.as_ref().is_none_or(|table| table.admits_from_linux(interface, group, ttl))
    }
}
