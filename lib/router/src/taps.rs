// SPDX-License-Identifier: MIT
//! Taps of a running router: who looks at packets, and what they get from the slow path.
//!
//! ```text
//! workers ──captured frames──────────────────────────────────► outlet ──► API's thread ──► client
//!         ──traces──► bounded queue ──► slow path's thread: routes by name ──► outlet
//!         ──punted packets, with their traces──► slow path's thread: what it did ──► the same queue
//! ```

use crate::routing::lock;
use crate::slow::SlowThread;
use perigee_api::ApiError;
use perigee_api::pcapng;
use perigee_api::taps::{Captured, Outlet, Record, TapOn, TapRequest, TapWhat};
use perigee_modules::taps::{CaptureSink, Direction, Seen};
use perigee_modules::trace::{Decision, Trace, TraceSink};
use perigee_modules::{CustomReasons, Kind, Punted, Reason, Taps};
use perigee_net::InterfaceId;
use perigee_packet::{Expression, Summary};
use perigee_slowpath::{Count, CounterKind, Counters, Input};
use perigee_worker::Bell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

/// Taps that may be on at once.
const MOST: usize = 8;
/// Traces that may wait for the slow path's thread.
const WAITING: usize = 256;

/// A trace that has ended, and where it goes.
type Ended = (Box<Trace>, Outlet);

/// All taps, on the slow path's thread.
pub(crate) struct TapBoard {
    taps: Vec<Tap>,
    sender: SyncSender<Ended>,
    ended: Receiver<Ended>,
    /// The trace of the packet that the slow path has now.
    following: Option<Box<Trace>>,
}

/// A tap that is on.
struct Tap {
    what: Place,
    outlet: Outlet,
    capture: Arc<Capture>,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Port(u16),
    Drops,
    Punts,
    Trace,
}

/// Copies frames into an outlet.
struct Capture {
    filter: Expression,
    outlet: Outlet,
    custom: Arc<CustomReasons>,
    /// What makes the clock's ns those since 1970.
    epoch: u64,
}

/// Chooses packets, and takes their traces.
struct Tracer {
    filter: Expression,
    outlet: Outlet,
    sender: SyncSender<Ended>,
    bell: Arc<Bell>,
}

impl TapBoard {
    pub fn new() -> TapBoard {
        let (sender, ended) = sync_channel(WAITING);
        TapBoard { taps: Vec::new(), sender, ended, following: None }
    }

    /// Captures a frame at a place.
    fn put(&self, place: Place, seen: &Seen<'_>, comment: Option<&str>) {
        for tap in self.taps.iter().filter(|tap| tap.what == place) {
            tap.capture.copy(seen, comment.map(str::to_owned));
        }
    }

    fn has(&self, place: Place) -> bool {
        self.taps.iter().any(|tap| tap.what == place)
    }

    /// The router ends: so do all streams.
    pub fn end(&mut self) {
        self.following = None;
        self.taps.drain(..).for_each(|tap| tap.outlet.end());
    }

    /// Notes what the slow path did with the packet it has now.
    fn note(&mut self, what: impl FnOnce() -> Decision) {
        if let Some(trace) = &mut self.following {
            trace.step(None, what());
        }
    }
}

/// Why a packet left, in a comment: `ipv4_valid.checksum: the header checksum is wrong (RFC 1812 5.2.2)`.
pub(crate) fn explained(reason: Reason, custom: &CustomReasons) -> String {
    match reason.describe() {
        Some((module, info)) => with_section(&format!("{module}.{}: {}", info.name, info.text), info.rfc),
        // A script's: its name is looked up under a lock that is held for moments only.
        None => match custom.all().into_iter().find(|(number, ..)| *number == reason) {
            Some((_, module, name, _)) => format!("{module}.{name}"),
            None => format!("reason {}", reason.0),
        },
    }
}

fn with_section(text: &str, section: &str) -> String {
    if section.is_empty() { text.to_owned() } else { format!("{text} ({section})") }
}

impl Capture {
    fn copy(&self, seen: &Seen<'_>, comment: Option<String>) {
        if !self.filter.matches(seen.frame, seen.port) || !self.outlet.take() {
            return;
        }
        let comment = comment.or_else(|| seen.reason.map(|reason| explained(reason, &self.custom)));
        self.outlet.put(Record::Captured(Captured {
            port: seen.port,
            time: seen.now.wrapping_add(self.epoch),
            direction: Some(match seen.direction {
                Direction::In => pcapng::Direction::In,
                Direction::Out => pcapng::Direction::Out,
            }),
            length: seen.frame.len() as u32,
            bytes: seen.frame[..seen.frame.len().min(self.outlet.snaplen())].to_vec(),
            comment,
        }));
    }
}

impl CaptureSink for Capture {
    fn put(&self, seen: &Seen<'_>) {
        self.copy(seen, None);
    }
}

impl TraceSink for Tracer {
    fn wants(&self, frame: &[u8], port: u16) -> bool {
        self.filter.matches(frame, port) && self.outlet.take()
    }

    fn put(&self, trace: Box<Trace>) {
        match self.sender.try_send((trace, self.outlet.clone())) {
            Ok(()) => self.bell.ring(),
            Err(_) => self.outlet.lose(),
        }
    }
}

impl SlowThread {
    /// Turns a tap on.
    pub(crate) fn tap(&mut self, request: TapRequest) -> Result<TapOn, ApiError> {
        self.mind_taps();
        if self.taps.taps.len() >= MOST {
            let message = format!("{MOST} taps are on, which is all there can be; end another trace or capture first");
            return Err(ApiError::conflict(message));
        }
        let names: Vec<(u16, String)> = self
            .infos
            .iter()
            .zip(&self.parts.config.ports)
            .map(|(info, port)| (info.port, port.name.clone()))
            .collect();
        let number = |name: &str| names.iter().find(|(_, port)| port == name).map(|(number, _)| *number);
        let filter = Expression::parse(&request.filter, number);
        let filter = filter.map_err(|error| ApiError::invalid(error.to_string()))?;
        let what = match &request.what {
            TapWhat::Port(name) => Place::Port(number(name).ok_or_else(|| {
                let known: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
                ApiError::not_found(format!(
                    "there is no port {name}; there are {}, and `drops` and `punts`",
                    known.join(", ")
                ))
            })?),
            TapWhat::Drops => Place::Drops,
            TapWhat::Punts => Place::Punts,
            TapWhat::Trace => Place::Trace,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let (outlet, custom) = (request.outlet, self.parts.custom.clone());
        let epoch = now.wrapping_sub((self.parts.clock)());
        let capture = Arc::new(Capture { filter, outlet: outlet.clone(), custom, epoch });
        self.taps.taps.push(Tap { what, outlet, capture });
        self.publish_taps();
        let ports = names.into_iter().filter(|(number, _)| match what {
            Place::Port(port) => port == *number,
            _ => true,
        });
        Ok(TapOn { ports: ports.collect() })
    }

    /// Gives workers the taps that are theirs.
    fn publish_taps(&mut self) {
        let mut taps = Taps::default();
        for tap in &self.taps.taps {
            match tap.what {
                Place::Port(port) => taps.ports.push((port, tap.capture.clone())),
                Place::Drops => taps.drops.push(tap.capture.clone()),
                Place::Punts => {}
                Place::Trace => taps.traces.push(Arc::new(Tracer {
                    filter: tap.capture.filter.clone(),
                    outlet: tap.outlet.clone(),
                    sender: self.taps.sender.clone(),
                    bell: self.parts.mailbox.bell(),
                })),
            }
        }
        let taps = (!taps.is_empty()).then(|| Arc::new(taps));
        if taps.is_some() || self.parts.routing.taps().is_some() {
            self.parts.routing.set_taps(taps);
            lock(&self.parts.published).publish(self.parts.routing.tables());
        }
    }

    /// Hands out traces that have ended, and turns off taps whose clients are gone; whether there was anything.
    pub(crate) fn mind_taps(&mut self) -> bool {
        if self.taps.taps.is_empty() {
            return false;
        }
        let mut busy = false;
        while let Ok((trace, outlet)) = self.taps.ended.try_recv() {
            busy = true;
            let epoch = self.taps.taps.iter().find(|tap| tap.outlet == outlet).map_or(0, |tap| tap.capture.epoch);
            let entry = self.trace_entry(&trace, epoch);
            outlet.put(Record::Trace(Box::new(entry)));
        }
        let before = self.taps.taps.len();
        self.taps.taps.retain(|tap| !tap.outlet.is_closed());
        if self.taps.taps.len() != before {
            busy = true;
            self.publish_taps();
        }
        busy
    }

    /// A packet from a punt ring.
    pub(crate) fn punted(&mut self, mut punted: Punted) {
        if self.taps.taps.is_empty() {
            self.tell(Input::Punted { interface: punted.interface, frame: punted.packet.bytes() });
            return;
        }
        let trace = punted.trace.take();
        let seen = Seen {
            frame: punted.packet.bytes(),
            port: punted.port,
            direction: Direction::In,
            reason: Some(punted.reason),
            now: (self.parts.clock)(),
        };
        self.taps.put(Place::Punts, &seen, None);
        match trace {
            Some(trace) => self.follow(trace, punted.interface, seen),
            None => self.watch(punted.interface, seen),
        }
    }

    /// A frame from a queue that a hardware filter fills.
    pub(crate) fn steered(&mut self, port: u16, interface: InterfaceId, frame: &[u8]) {
        if self.taps.taps.is_empty() {
            self.tell(Input::Punted { interface, frame });
            return;
        }
        let seen = Seen { frame, port, direction: Direction::In, reason: None, now: (self.parts.clock)() };
        self.taps.put(Place::Port(port), &seen, None);
        self.taps.put(Place::Punts, &seen, Some("steered here by the device"));
        self.watch(interface, seen);
    }

    /// Tells the slow path of a frame, and captures it if that drops it.
    fn watch(&mut self, interface: InterfaceId, seen: Seen<'_>) {
        let before = self.taps.has(Place::Drops).then(|| self.machine.counters().clone());
        self.tell(Input::Punted { interface, frame: seen.frame });
        if let Some(before) = before {
            self.capture_drop(&before, seen);
        }
    }

    fn capture_drop(&self, before: &Counters, seen: Seen<'_>) {
        for drop in self.machine.counters().since(before).filter(|count| count.kind == CounterKind::Drop) {
            let comment = with_section(&format!("slowpath.{}", drop.name), drop.section);
            self.taps.put(Place::Drops, &seen, Some(&comment));
        }
    }

    /// The same for a packet that is followed: what the slow path counts and sends is what it did.
    fn follow(&mut self, trace: Box<Trace>, interface: InterfaceId, seen: Seen<'_>) {
        // What earlier packets have caused is not this one's.
        self.carry_out();
        let (before, waiting) = (self.machine.counters().clone(), self.machine.queued());
        self.taps.following = Some(trace);
        self.tell(Input::Punted { interface, frame: seen.frame });
        self.capture_drop(&before, seen);
        let after = self.machine.counters().clone();
        for Count { kind, name: rule, section, value: times } in after.since(&before) {
            let dropped = kind == CounterKind::Drop;
            // What it sends and gives to Linux is shown as such.
            if dropped || !["punted", "transmitted", "to_twin"].contains(&rule) {
                self.taps.note(|| Decision::SlowPath { dropped, rule, section, times });
            }
        }
        if self.machine.queued() > waiting {
            self.taps.note(|| Decision::Waits);
        }
        self.carry_out();
        if let Some(trace) = self.taps.following.take() {
            trace.end();
        }
    }

    /// The slow path is about to send a frame on a port.
    pub(crate) fn sending(&mut self, port: u16, frame: &[u8]) {
        if self.taps.taps.is_empty() {
            return;
        }
        let seen = Seen { frame, port, direction: Direction::Out, reason: None, now: (self.parts.clock)() };
        self.taps.put(Place::Port(port), &seen, None);
        self.taps.note(|| Decision::Sent { port, frame: Summary::of(frame) });
    }

    /// The slow path is about to give a frame to Linux.
    pub(crate) fn delivering(&mut self) {
        self.taps.note(|| Decision::Delivered);
    }
}

/// What becomes of a packet under a reason.
pub(crate) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Drop => "dropped",
        Kind::Punt => "punted",
    }
}
