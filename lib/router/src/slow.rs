// SPDX-License-Identifier: MIT
//! The slow path's thread: it owns time and I/O for lib/slowpath, and the routes for everybody.
//!
//! Its sources are the workers' punt rings, queues that hardware filters fill, the twins, timers, and requests from the
//! API. With nothing to do it sleeps in poll(2) until a worker rings the bell, a twin has a frame, or a timer is due.

use crate::change::{Rebuild, ScriptControl};
use crate::linux::errands::Errands;
use crate::linux::{COMMIT_PAUSE, LinuxFeeds, LinuxSide, twins};
use crate::lookups::Lookups;
use crate::routing::{Gateways, Routing, SharedTables, lock};
use crate::taps::TapBoard;
use crate::twins::PortTwin;
use crate::wiring::SlowQueues;
use perigee_api::answers::VersionStatus;
use perigee_api::{Backend, Reply, Request};
use perigee_config::{Config, Machine};
use perigee_helper::twin::Twin;
use perigee_helper::{Helper, TwinStatus};
use perigee_modules::{Counters, CustomReasons, Punted};
use perigee_net::InterfaceId;
use perigee_packet::{Batch, Mask, Memory, PortInfo, TransmitQueue};
use perigee_slowpath::{Config as SlowConfig, Event, Input, Output, SlowPath, Time};
use perigee_worker::{Bell, Clock, Stop};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Frames taken from one source before the next has its turn.
const TURN: usize = 64;
/// Longest sleep, and what it is where something is waited for that rings no bell: queues that hardware filters fill, workers
/// that have to let go of old tables.
const LONGEST_SLEEP: u64 = 100_000_000;
const SHORT_SLEEP: u64 = 1_000_000;

/// A port, as the slow path needs it.
pub struct RouterPort {
    /// The port itself.
    pub port: Arc<dyn perigee_packet::Port>,
    /// Where packets to be sent on it come from.
    pub pool: Arc<dyn perigee_packet::Pool>,
    /// Its twin.
    pub twin: Option<(Twin, TwinStatus)>,
}

/// What the thread is made of.
pub struct SlowParts {
    /// The configuration, and where it came from.
    pub config: Config,
    /// The configuration file's path, for reload.
    pub path: PathBuf,
    /// The ports in the configuration's order.
    pub ports: Vec<RouterPort>,
    /// Its queues.
    pub queues: SlowQueues,
    /// What the workers poll, in words, by worker.
    pub polled: Vec<Vec<String>>,
    /// The workers' punt rings.
    pub punts: Vec<rtrb::Consumer<Punted>>,
    /// The workers' counters.
    pub counters: Vec<Arc<Counters>>,
    /// Names of reasons that scripts make.
    pub custom: Arc<CustomReasons>,
    /// The routes.
    pub routing: Routing,
    /// The tables that workers have.
    pub published: SharedTables,
    /// The tables that scripts are loaded with.
    pub staging: SharedTables,
    /// The lookup structures to choose from.
    pub lookups: Lookups,
    /// What configurations are checked against.
    pub machine: Machine,
    /// The scripts.
    pub scripts: Box<dyn ScriptControl>,
    /// How to make filters anew.
    pub rebuild: Box<dyn Rebuild>,
    /// The privileged helper, where there is one.
    pub helper: Option<Arc<Helper>>,
    /// How Linux is followed.
    pub feeds: LinuxFeeds,
    /// The other end of requests.
    pub mailbox: MailboxEnd,
    /// Memory of the packets.
    pub memory: &'static dyn Memory,
    /// Monotonic clock in ns.
    pub clock: Clock,
    /// Who answers: name, versions.
    pub version: VersionStatus,
    /// The request to stop.
    pub stop: Stop,
}

/// Where requests go in; also the workers' bell.
#[derive(Clone)]
pub struct Mailbox {
    requests: Sender<(Request, Reply)>,
    bell: Arc<Bell>,
}

/// Where they come out.
pub struct MailboxEnd {
    requests: Receiver<(Request, Reply)>,
    bell: Arc<Bell>,
    wake: OwnedFd,
}

impl Mailbox {
    /// A mailbox and its other end.
    ///
    /// # Errors
    /// The system refuses an eventfd.
    pub fn new() -> std::io::Result<(Mailbox, MailboxEnd)> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let ring = wake.try_clone()?;
        // A full eventfd is one that will wake its reader anyway.
        let bell = Arc::new(Bell::new(move || {
            let _ = rustix::io::write(&ring, &1u64.to_ne_bytes());
        }));
        let (sender, receiver) = channel();
        let end = MailboxEnd { requests: receiver, bell: bell.clone(), wake };
        Ok((Mailbox { requests: sender, bell }, end))
    }

    /// The bell that wakes the slow path.
    pub fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    /// Wakes the slow path, to look at whether it should stop.
    pub fn wake(&self) {
        self.bell.ring();
    }
}

impl MailboxEnd {
    /// The bell that wakes the slow path.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }
}

impl Backend for Mailbox {
    fn handle(&self, request: Request, reply: Reply) {
        // With the slow path gone the reply is dropped, which the server answers with an error.
        if self.requests.send((request, reply)).is_ok() {
            self.bell.ring();
        }
    }
}

/// The thread's state.
pub struct SlowThread {
    pub(crate) parts: Parts,
    pub(crate) machine: SlowPath,
    pub(crate) twins: Vec<Option<PortTwin>>,
    pub(crate) infos: Vec<PortInfo>,
    pub(crate) gateways: Gateways,
    /// By worker: polls seen last, and when they last changed.
    pub(crate) pulse: Vec<(u64, u64)>,
    pub(crate) links: Vec<bool>,
    pub(crate) linux: LinuxSide,
    batch: Box<Batch>,
    buffer: Vec<u8>,
    pub(crate) next_housekeeping: u64,
    /// What was said last of routes that do not fit.
    route_trouble: Option<String>,
    pub(crate) taps: TapBoard,
    pub(crate) lost_to_transmit: u64,
    pub(crate) started: u64,
}

/// What stays of [`SlowParts`].
pub(crate) struct Parts {
    pub config: Config,
    pub path: PathBuf,
    pub ports: Vec<RouterPort>,
    pub outputs: Vec<Option<Box<dyn TransmitQueue>>>,
    pub receivers: Vec<(u16, Box<dyn perigee_packet::ReceiveQueue>)>,
    pub polled: Vec<Vec<String>>,
    pub punts: Vec<rtrb::Consumer<Punted>>,
    pub counters: Vec<Arc<Counters>>,
    pub custom: Arc<CustomReasons>,
    pub routing: Routing,
    pub published: SharedTables,
    pub staging: SharedTables,
    pub lookups: Lookups,
    pub machine: Machine,
    pub scripts: Box<dyn ScriptControl>,
    pub rebuild: Box<dyn Rebuild>,
    pub helper: Option<Arc<Helper>>,
    pub mailbox: MailboxEnd,
    pub clock: Clock,
    pub version: VersionStatus,
    pub stop: Stop,
}

impl SlowThread {
    /// Puts the thread together and brings its interfaces up.
    pub fn new(parts: SlowParts) -> SlowThread {
        let SlowParts { config, path, mut ports, queues, polled, punts, counters, custom, routing, published, .. } =
            parts;
        let SlowParts {
            staging,
            lookups,
            machine,
            scripts,
            rebuild,
            helper,
            feeds,
            mailbox,
            memory,
            clock,
            version,
            stop,
            ..
        } = parts;
        let SlowQueues { receivers, outputs } = queues;
        let icmp = config.router.icmp_rate;
        let slow =
            SlowConfig { icmp_errors_per_second: icmp, icmp_error_burst: icmp.clamp(1, 50), ..SlowConfig::default() };
        let now = clock();
        let twins = ports.iter_mut().map(|port| port.twin.take().map(PortTwin::new)).collect();
        let infos: Vec<_> = ports.iter().map(|port| port.port.info()).collect();
        let pulse = vec![(0, now); counters.len()];
        let links = vec![false; ports.len()];
        let linux = linux_side(&config, feeds, helper.as_ref(), &mailbox);
        let mut thread = SlowThread {
            parts: Parts {
                config,
                path,
                ports,
                outputs,
                receivers,
                polled,
                punts,
                counters,
                custom,
                routing,
                published,
                staging,
                lookups,
                machine,
                scripts,
                rebuild,
                helper,
                mailbox,
                clock,
                version,
                stop,
            },
            machine: SlowPath::new(slow),
            twins,
            infos,
            gateways: Gateways::new(),
            pulse,
            links,
            linux,
            batch: Batch::new(memory),
            buffer: vec![0; usize::from(u16::MAX)],
            next_housekeeping: 0,
            route_trouble: None,
            taps: TapBoard::new(),
            lost_to_transmit: 0,
            started: now,
        };
        thread.look_at_links();
        thread.set_interfaces();
        thread.set_static_neighbors();
        thread.follow_gateways();
        thread
    }

    /// Runs until the router stops.
    pub fn run(&mut self) {
        while !self.parts.stop.requested() {
            if self.round() {
                continue;
            }
            // Whoever rings from here on wakes the sleeper; what came before is found now.
            self.parts.mailbox.bell.doze();
            match self.round() {
                true => self.parts.mailbox.bell.awake(),
                false => self.sleep(),
            }
        }
    }

    /// Looks at every source once; whether any had something.
    pub fn round(&mut self) -> bool {
        let mut busy = self.take_punts();
        busy |= self.receive();
        busy |= self.read_twins();
        while let Ok((request, reply)) = self.parts.mailbox.requests.try_recv() {
            busy = true;
            self.answer(request, reply);
        }
        let now = (self.parts.clock)();
        if self.machine.next_timeout().is_some_and(|due| due.0 <= now) {
            self.machine.handle_timeout(Time(now), &self.parts.routing);
            busy = true;
        }
        busy |= self.carry_out();
        busy |= self.mind_taps();
        busy |= self.follow_linux();
        self.commit_routes(now);
        busy |= self.go_on_with_audit();
        if now >= self.next_housekeeping {
            self.housekeeping(now);
        }
        busy
    }

    /// Makes what has changed visible, once per burst of changes. Structures that have to be built anew for that wait for
    /// the end of the burst, but not for ever.
    fn commit_routes(&mut self, now: u64) {
        let more_to_come = self.linux.busy() && now.saturating_sub(self.linux.committed) < COMMIT_PAUSE;
        if self.parts.routing.uncommitted() && (self.parts.routing.commit_is_cheap() || !more_to_come) {
            if let Err(error) = self.publish_routes() {
                self.warn_of_routes(error);
            }
            self.linux.committed = (self.parts.clock)();
        }
    }

    /// Tells the slow path something at the current time.
    pub(crate) fn tell(&mut self, input: Input<'_>) {
        self.machine.handle(Time((self.parts.clock)()), input, &self.parts.routing);
    }

    fn take_punts(&mut self) -> bool {
        let mut busy = false;
        for ring in 0..self.parts.punts.len() {
            for _ in 0..TURN {
                let Ok(punted) = self.parts.punts[ring].pop() else { break };
                busy = true;
                self.punted(punted);
            }
            self.carry_out();
        }
        busy
    }

    /// Frames that hardware filters put into the slow path's own queues.
    fn receive(&mut self) -> bool {
        let mut busy = false;
        for index in 0..self.parts.receivers.len() {
            let (port, queue) = &mut self.parts.receivers[index];
            let port = *port;
            self.batch.refill();
            busy |= queue.receive(&mut self.batch, TURN) > 0;
            for slot in self.batch.live() {
                let Some(packet) = self.batch.take(slot) else { continue };
                let interface = self.parts.routing.interfaces().ingress(port, vid(packet.bytes()));
                if let Some(interface) = interface {
                    self.steered(port, interface, packet.bytes());
                }
            }
            self.carry_out();
        }
        busy
    }

    /// Frames that Linux sent.
    fn read_twins(&mut self) -> bool {
        let mut busy = false;
        let mut buffer = std::mem::take(&mut self.buffer);
        for index in 0..self.twins.len() {
            for _ in 0..TURN {
                let Some(length) = self.twins[index].as_mut().and_then(|twin| twin.read(&mut buffer)) else { break };
                busy = true;
                let frame = &buffer[..length];
                let interface = self.parts.routing.interfaces().ingress(self.infos[index].port, vid(frame));
                if let Some(interface) = interface {
                    self.tell(Input::FromTwin { interface, frame });
                }
            }
            self.carry_out();
        }
        self.buffer = buffer;
        busy
    }

    /// Does what the slow path has decided; whether there was anything.
    pub(crate) fn carry_out(&mut self) -> bool {
        let mut busy = false;
        while let Some(output) = self.machine.poll_output() {
            busy = true;
            match output {
                Output::Transmit { interface, frame } => self.transmit(interface, &frame),
                Output::ToTwin { interface, frame } => self.give_to_twin(interface, &frame),
                Output::Event(event) => self.event(event),
            }
        }
        busy
    }

    fn transmit(&mut self, interface: InterfaceId, frame: &[u8]) {
        let Some(egress) = self.parts.routing.interfaces().egress(interface).copied() else { return };
        let tagged = tagged(frame, egress.vlan);
        let frame = tagged.as_deref().unwrap_or(frame);
        self.sending(egress.port, frame);
        let pool =
            self.infos.iter().position(|info| info.port == egress.port).map(|index| &self.parts.ports[index].pool);
        let packet = pool.and_then(|pool| pool.packet(frame));
        let queue = self.parts.outputs.get_mut(usize::from(egress.port)).and_then(Option::as_mut);
        let (Some(packet), Some(queue)) = (packet, queue) else {
            self.lost_to_transmit += 1;
            return;
        };
        let mut handles = vec![packet.into_handle()];
        queue.transmit(&mut handles);
        if !handles.is_empty() {
            self.lost_to_transmit += 1;
            queue.discard(&mut handles);
        }
    }

    fn give_to_twin(&mut self, interface: InterfaceId, frame: &[u8]) {
        let Some(egress) = self.parts.routing.interfaces().egress(interface).copied() else { return };
        let index = self.infos.iter().position(|info| info.port == egress.port);
        if let Some(twin) = index.and_then(|index| self.twins[index].as_mut()) {
            let tagged = tagged(frame, egress.vlan);
            twin.write(tagged.as_deref().unwrap_or(frame));
            self.delivering();
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::NeighborResolved { interface, address, mac }
            | Event::NeighborChanged { interface, address, mac } => {
                self.parts.routing.neighbor(interface, address, Some(mac));
                self.neighbor_for_linux(interface, address, Some(mac));
            }
            Event::NeighborLost { interface, address } => {
                self.parts.routing.neighbor(interface, address, None);
                self.neighbor_for_linux(interface, address, None);
            }
            Event::AddressValid { .. } => {}
            Event::AddressDuplicate { interface, address, mac } => {
                let name = self.name_of(interface);
                tracing::error!("{name}: {address} is also {mac}'s: not used until the interface is set up anew");
            }
            Event::AddressConflict { interface, address, mac } => {
                let name = self.name_of(interface);
                tracing::warn!("{name}: {mac} uses our address {address} too");
            }
        }
    }

    pub(crate) fn name_of(&self, interface: InterfaceId) -> String {
        let interface = self.parts.routing.interfaces().get(interface);
        interface.map_or_else(|| "?".to_owned(), |interface| interface.name.clone())
    }

    /// Makes what has changed in the routes visible to workers, and publishes new tables where that takes them. Once for all
    /// changes of a round.
    pub(crate) fn publish_routes(&mut self) -> Result<(), String> {
        // Old tables that nobody holds any more may be what a lookup structure waits for.
        lock(&self.parts.published).reclaim();
        let done = self.parts.routing.commit();
        if self.parts.routing.renewed() {
            let mut staging = lock(&self.parts.staging);
            staging.publish(self.parts.routing.tables());
            staging.reclaim();
            lock(&self.parts.published).publish(self.parts.routing.tables());
        }
        done
    }

    /// Says once what does not fit: it is tried again and again.
    pub(crate) fn warn_of_routes(&mut self, error: String) {
        if self.route_trouble.as_ref() != Some(&error) {
            tracing::warn!("a route is not in the forwarding table: {error}");
            self.route_trouble = Some(error);
        }
    }

    /// Sleeps until something happens.
    fn sleep(&mut self) {
        self.parts.mailbox.bell.doze();
        let waiting = self.parts.punts.iter().any(|ring| !ring.is_empty());
        if waiting || self.parts.stop.requested() {
            self.parts.mailbox.bell.awake();
            return;
        }
        // A worker rings no bell when it lets go of old tables.
        let bells = self.parts.receivers.is_empty() && !self.parts.routing.uncommitted();
        let longest = if bells { LONGEST_SLEEP } else { SHORT_SLEEP };
        let now = (self.parts.clock)();
        let due = self.machine.next_timeout().map_or(u64::MAX, |time| time.0).min(self.next_housekeeping);
        let pause = due.saturating_sub(now).min(longest);
        let timeout = Timespec { tv_sec: 0, tv_nsec: pause as _ };
        let wake = self.parts.mailbox.wake.as_fd();
        let twins = self.twins.iter().flatten().filter(|twin| twin.usable()).map(AsFd::as_fd);
        let mut fds: Vec<PollFd> =
            std::iter::once(wake).chain(twins).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // An interrupted sleep is a short one.
        let _ = poll(&mut fds, Some(&timeout));
        self.parts.mailbox.bell.awake();
        // It may hold nothing, which is no error: something else has woken us.
        let _ = rustix::io::read(&self.parts.mailbox.wake, &mut [0; 8]);
    }

    /// Frees the packets that are still held here; to be called when the workers have ended.
    pub fn finish(&mut self) {
        for ring in &mut self.parts.punts {
            while ring.pop().is_ok() {}
        }
        self.batch.discard(Mask::ALL);
        self.taps.end();
        self.parts.receivers.clear();
        self.parts.outputs.clear();
    }
}

/// What is known of Linux at the start: nothing yet.
fn linux_side(config: &Config, feeds: LinuxFeeds, helper: Option<&Arc<Helper>>, mailbox: &MailboxEnd) -> LinuxSide {
    let namespace = config.router.namespace.clone();
    let identity = twins::identity(namespace.as_ref());
    let errands = helper.filter(|_| feeds.netlink.is_some()).and_then(|helper| {
        let errands = Errands::start(helper.clone(), namespace, mailbox.bell.clone());
        errands.inspect_err(|error| tracing::warn!("Linux is not told of neighbors and links: {error}")).ok()
    });
    LinuxSide::new(config.linux.clone(), feeds, errands, identity)
}

/// VLAN id of a frame; 0 for an untagged one.
fn vid(frame: &[u8]) -> u16 {
    match frame.get(12..16) {
        Some(&[0x81, 0x00, high, low]) => u16::from_be_bytes([high, low]) & 0x0fff,
        _ => 0,
    }
}

/// The frame with a VLAN tag, where there is a VLAN.
fn tagged(frame: &[u8], vlan: u16) -> Option<Vec<u8>> {
    let (addresses, rest) = frame.split_at_checked(12).filter(|_| vlan != 0)?;
    let [high, low] = vlan.to_be_bytes();
    Some([addresses, &[0x81, 0x00, high, low], rest].concat())
}
