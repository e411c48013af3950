// SPDX-License-Identifier: MIT
//! The slow path's thread: it owns time and I/O for lib/slowpath and lib/linux, and everybody's tables.
//!
//! ```text
//!  punt rings ────┐                                     ┌─► ports: transmit queues, twins
//!  assistants ────┤          ┌────────► slow path ──────┤
//!  twins ─────────┼─► round ─┤             ▲            └─► neighbors ─┐
//!  requests ──────┤          ├──► taps     │ routes                    ▼
//!  Linux, helper ─┤          └──► Linux ──┴────────────────────► forwarding ──commit──► workers
//!  clock ─────────┘
//! ```
//!
//! | file | contents |
//! | --- | --- |
//! | `slow.rs` | the thread's parts, its rounds and its sleep |
//! | `slow/frames.rs` | frames in and out, also for taps |
//! | `slow/control.rs` | requests of the API: one line each |
//! | `slow/upkeep.rs` | keeps everything in step: links, interfaces, gateways, Linux |
//!
//! With nothing to do it sleeps in poll(2) until a worker rings the bell, a twin has a frame, or a timer is due.

mod control;
mod frames;
mod upkeep;

pub(crate) use frames::{TURN, tagged};

use crate::assistant::Assistants;
use crate::backends::{ReadFile, Rebuild, ScriptControl};
use crate::forwarding::Forwarding;
use crate::linux::{LinuxParts, LinuxSide};
use crate::mailbox::MailboxEnd;
use crate::ports::Ports;
use crate::reload::{Reads, Reloading};
use crate::taps::Taps;
use crate::workers::Workers;
use perigee_api::answers::VersionStatus;
use perigee_config::{Config, Machine};
use perigee_helper::twin::Twin;
use perigee_modules::Punted;
use perigee_modules::fragments::Fragments;
use perigee_net::InterfaceId;
use perigee_packet::{Batch, Mask, Memory};
use perigee_slowpath::{Config as SlowConfig, SlowPath, Time};
use perigee_worker::{Clock, Stop};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Longest sleep, in ns, and the time to sleep when waiting for something that rings no bell: queues that hardware
/// filters fill, workers that have to let go of old tables.
const LONGEST_SLEEP: u64 = 100_000_000;
const SHORT_SLEEP: u64 = 1_000_000;
/// How often links are checked, in ns: not every driver reports that one is down, and traffic should leave it soon.
const LINKS: u64 = 10_000_000;
/// How long prefixes choose among their routes again before packets have their turn, in ns.
const LINKS_TURN: u64 = 2_000_000;
/// How often memory is reclaimed and silent workers are noticed.
const HOUSEKEEPING: u64 = 250_000_000;
/// How often the kernel is asked what it has lost, apart from requests of the API.
const LOSSES: u64 = 1_000_000_000;
/// While changes keep coming, a table that has to be rebuilt for each commit is not rebuilt more often than this, in
/// ns.
const COMMIT_PAUSE: u64 = 250_000_000;

/// How long Linux's first dump is waited for, in ns.
const LONGEST_DUMP: u64 = 30_000_000_000;

/// The configuration, and where it came from.
pub struct Settings {
    /// The configuration in force.
    pub config: Config,
    /// Its file, for reload.
    pub path: PathBuf,
    /// What configurations are checked against.
    pub machine: Machine,
    /// How its files are read.
    pub read: ReadFile,
}

/// The thread's parts; the caller builds them.
pub struct SlowParts {
    /// The configuration.
    pub settings: Settings,
    /// The ports, with the slow path's queues.
    pub ports: Ports,
    /// The workers' other ends.
    pub workers: Workers,
    /// Further threads of the slow path.
    pub assistants: Assistants,
    /// The tables.
    pub forwarding: Forwarding,
    pub scripts: Box<dyn ScriptControl>,
    /// How to compile filters again.
    pub rebuild: Box<dyn Rebuild>,
    /// The other end of requests.
    pub mailbox: MailboxEnd,
    /// Memory of the packets.
    pub memory: &'static dyn Memory,
    /// Monotonic clock in ns.
    pub clock: Clock,
    /// The router's name and versions, for answers.
    pub version: VersionStatus,
    /// The request to stop.
    pub stop: Stop,
}

/// What the router's configuration says about its slow path. A burst is what comes in 10 ms, as a thread that shares
/// its core may stand still for so long, and at least 50, for senders that try many ways at once.
pub(crate) fn slow_config(config: &Config) -> SlowConfig {
    let rate = config.router.icmp_rate;
    SlowConfig {
        icmp_errors_per_second: rate,
        icmp_errors_per_source: config.router.icmp_source_rate.unwrap_or(rate.div_ceil(10)),
        icmp_error_burst: (rate / 100).max(50).min(rate),
        max_known: config.router.max_neighbors as usize,
        max_unresolved: config.router.max_unresolved as usize,
        requests_per_second: config.router.neighbor_rate,
        secret: secret(),
        ..SlowConfig::default()
    }
}

/// A random number: the keys of a new hash map are, and differ from one to the next.
pub(crate) fn secret() -> u128 {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}

/// Frames that are lost before they reach the slow path or after it has decided.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lost {
    /// From or to an interface that is not configured, or no longer.
    pub astray: u64,
    /// For Linux, on a port without a twin.
    pub no_twin: u64,
    /// From queues that hardware filters fill: more than `[policer]` lets through.
    pub policed: u64,
    /// From such queues: denied by a filter.
    pub denied: u64,
    /// From Linux: denied by a filter.
    pub denied_linux: u64,
}

/// The thread's state.
pub struct SlowThread {
    pub(crate) parts: SlowParts,
    pub(crate) slow: SlowPath,
    pub(crate) linux: LinuxSide,
    pub(crate) taps: Taps,
    batch: Box<Batch>,
    /// What was taken from a ring; empty between two turns.
    punts: Vec<Punted>,
    /// Reloads whose files are being read.
    pub(crate) reads: Reads,
    /// Reloads that are not answered yet.
    pub(crate) reloading: Vec<Reloading>,
    /// Answers of assistants, with the interfaces they should leave by; as above.
    answers: Vec<(InterfaceId, Vec<u8>)>,
    buffer: Vec<u8>,
    /// For filters: of the frames that devices fill queues with, and of Linux's.
    fragments: [Fragments; 2],
    pub(crate) lost: Lost,
    next_links: u64,
    next_housekeeping: u64,
    next_losses: u64,
    /// When changes were last made visible.
    committed: u64,
    /// The in-kernel plane knows that the tables have everything that Linux says.
    complete: bool,
    started: u64,
}

impl SlowThread {
    /// Puts the thread together and brings its interfaces up.
    pub fn new(parts: SlowParts, linux: LinuxParts) -> SlowThread {
        let config = &parts.settings.config;
        let mut thread = SlowThread {
            slow: parts.assistants.owner(),
            linux: LinuxSide::new(linux, config, &parts.ports, parts.mailbox.bell()),
            taps: Taps::new(parts.workers.custom().clone(), parts.mailbox.bell().clone()),
            batch: Batch::new(parts.memory),
            punts: Vec::new(),
            reads: Reads::default(),
            reloading: Vec::new(),
            answers: Vec::new(),
            buffer: vec![0; usize::from(u16::MAX)],
            fragments: Default::default(),
            lost: Lost::default(),
            next_links: 0,
            next_housekeeping: 0,
            next_losses: 0,
            committed: 0,
            complete: false,
            started: (parts.clock)(),
            parts,
        };
        thread.look_at_links();
        thread.parts.forwarding.set_links(thread.parts.ports.without_link());
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
            // A ring from here on wakes the sleeper; what came before is found now.
            self.parts.mailbox.bell().doze();
            match self.round() {
                true => self.parts.mailbox.bell().awake(),
                false => self.sleep(),
            }
        }
    }

    /// Checks every source once; returns whether any had something.
    pub fn round(&mut self) -> bool {
        let mut busy = self.take_punts();
        busy |= self.take_left();
        busy |= self.receive();
        busy |= self.read_twins();
        while let Some(request) = self.parts.mailbox.next() {
            busy = true;
            self.answer(request);
        }
        busy |= self.take_reads();
        let now = self.now();
        if self.linux.follower.next_timeout() <= now {
            self.look_after_linux(now);
        }
        if self.slow.next_timeout().is_some_and(|due| due.0 <= now) {
            self.slow.handle_timeout(Time(now), self.parts.forwarding.routing());
            busy = true;
        }
        busy |= self.carry_out();
        busy |= self.mind_taps();
        busy |= self.follow_linux();
        busy |= self.mind_links(now);
        self.parts.assistants.publish(&self.slow);
        self.commit(now);
        self.say_complete(now);
        busy |= self.go_on_with_audit();
        if !self.reloading.is_empty() {
            self.answer_reloads();
        }
        if now >= self.next_housekeeping {
            self.housekeeping(now);
        }
        busy
    }

    pub(crate) fn now(&self) -> u64 {
        (self.parts.clock)()
    }

    /// Makes changes visible, once per burst of changes. Structures that have to be rebuilt for that wait for the end
    /// of the burst, but not indefinitely.
    fn commit(&mut self, now: u64) {
        let busy = self.linux.is_busy() || self.parts.forwarding.links_are_followed();
        let more_to_come = busy && now.saturating_sub(self.committed) < COMMIT_PAUSE;
        let forwarding = &mut self.parts.forwarding;
        if forwarding.uncommitted() && (forwarding.publish_is_cheap() || !more_to_come) {
            forwarding.publish_or_warn();
            self.committed = self.now();
        }
    }

    /// Tells the in-kernel plane once that the tables have everything that Linux says; after a while in any case.
    fn say_complete(&mut self, now: u64) {
        let waited = now.saturating_sub(self.started) > LONGEST_DUMP;
        if !self.complete && (waited || self.linux.is_complete()) && !self.parts.forwarding.uncommitted() {
            self.complete = true;
            self.parts.workers.plane().into_iter().for_each(|plane| plane.is_complete());
        }
    }

    /// Sleeps until something happens.
    fn sleep(&mut self) {
        let SlowParts { mailbox, workers, assistants, stop, ports, forwarding, .. } = &self.parts;
        mailbox.bell().doze();
        if workers.are_punting() || assistants.have_left() || stop.requested() {
            return mailbox.bell().awake();
        }
        // A worker rings no bell when it lets go of old tables or runs a new script.
        let bells = ports.receivers() == 0 && !forwarding.uncommitted() && self.reloading.is_empty();
        let longest = if bells { LONGEST_SLEEP } else { SHORT_SLEEP };
        let timers = [self.next_housekeeping, self.linux.follower.next_timeout()];
        let due = self.slow.next_timeout().map(|time| time.0).into_iter().chain(timers).min().unwrap_or(u64::MAX);
        let end = due.min(self.now() + longest);
        let waited = std::iter::once(mailbox.as_fd()).chain(ports.descriptors());
        let mut fds: Vec<PollFd> = waited.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        loop {
            let pause = end.saturating_sub(self.now()).min(LINKS);
            let timeout = Timespec { tv_sec: 0, tv_nsec: pause as _ };
            // An interrupted sleep is a short one.
            let is_over = poll(&mut fds, Some(&timeout)) != Ok(0) || self.now() >= end;
            // Looked at without a round, which costs much more.
            let link_changed = ports.a_link_has_changed();
            if link_changed {
                self.next_links = 0;
            }
            if is_over || link_changed {
                break;
            }
        }
        mailbox.bell().awake();
        mailbox.clear();
    }

    /// What is done at intervals: looking for silent workers, reclaiming memory.
    fn housekeeping(&mut self, now: u64) {
        self.next_housekeeping = now + HOUSEKEEPING;
        self.look_at_helper();
        self.parts.forwarding.reclaim();
        self.parts.assistants.reclaim();
        self.parts.workers.listen(now);
        self.parts.ports.outputs().poll();
        if now >= self.next_losses {
            self.look_at_losses(now);
        }
    }

    /// Reads what devices and the kernel have lost.
    fn look_at_losses(&mut self, now: u64) {
        self.next_losses = now + LOSSES;
        self.parts.ports.look_at_losses(self.linux.statistics());
    }

    /// Frees the packets that are still held here; to be called when workers and assistants have ended. Returns the
    /// twins, which Linux has while they are not dropped: the helper removes all of them together.
    pub fn finish(&mut self) -> Vec<Twin> {
        let waiting = self.parts.workers.drain() + self.parts.assistants.drain() + self.slow.queued();
        if waiting > 0 {
            tracing::info!("{waiting} packets still waited for the slow path or for neighbors: they are lost");
        }
        self.batch.discard(Mask::ALL);
        self.taps.end();
        self.parts.ports.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(lines: &str) -> SlowConfig {
        let text = format!("[router]\ncores = [0]\n{lines}\n[port.a]\ndevice = \"heap0\"\n");
        let machine = Machine { cores: vec![0], ..Machine::default() };
        slow_config(&Config::parse_on("test.toml", &text, &machine).unwrap_or_else(|error| panic!("{error}")))
    }

    #[test]
    fn the_slow_path_has_the_limits_that_are_configured() {
        let all = limits(
            "icmp_rate = 70000\nicmp_source_rate = 33\nmax_neighbors = 77\nmax_unresolved = 55\nneighbor_rate = 44",
        );
        assert_eq!((all.icmp_errors_per_second, all.icmp_errors_per_source), (70_000, 33));
        assert_eq!((all.max_known, all.max_unresolved, all.requests_per_second), (77, 55, 44));
        // What comes in 10 ms, at least 50, and never more than in a second.
        let bursts = [70_000, 1000, 30, 0].map(|rate| limits(&format!("icmp_rate = {rate}")).icmp_error_burst);
        assert_eq!(bursts, [700, 50, 30, 0]);
        assert_eq!([1000, 1001].map(|rate| limits(&format!("icmp_rate = {rate}")).icmp_errors_per_source), [100, 101]);
    }

    /// Identifications and choices that follow from it must not be guessed.
    #[test]
    fn a_secret_is_another_one_each_time_in_all_of_its_bits() {
        let all = [0; 200].map(|_| secret());
        let (ones, zeros) = all.iter().fold((0, 0), |(ones, zeros), secret| (ones | secret, zeros | !secret));
        assert_eq!((ones, zeros), (u128::MAX, u128::MAX));
        assert!(limits("").secret != limits("").secret);
    }
}
