// SPDX-License-Identifier: MIT
//! Taps of a running router: captures and traces, and what the slow path adds to them.
//!
//! ```text
//! workers ──captured frames──────────────────────────────────► outlet ──► API's thread ──► client
//!         ──traces──► bounded queue ──► slow path's thread: routes by name ──► outlet
//!         ──punted packets, with their traces──► slow path's thread: what it did ──► the same queue
//! ```
//!
//! The slow path's thread shows a punted packet to [`Taps::look`] before the slow path handles it, and to
//! [`Taps::judged`] afterwards: what the slow path has counted in between is what it did with the packet.

mod sinks;

use perigee_api::ApiError;
use perigee_api::taps::{Outlet, TapOn, TapRequest, TapWhat};
use perigee_modules::taps::Seen;
use perigee_modules::trace::{Decision, Trace};
use perigee_modules::{CustomReasons, Taps as WorkerTaps};
use perigee_packet::{Expression, Summary};
use perigee_slowpath::{Count, CounterKind, Counters, SlowPath};
use perigee_worker::Bell;
use sinks::{Capture, Ended, Tracer, with_section};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use perigee_modules::taps::Direction;

/// How many taps may be on at once.
const MOST: usize = 8;
/// How many traces may wait for the slow path's thread.
const WAITING: usize = 256;

/// All taps, on the slow path's thread.
pub(crate) struct Taps {
    taps: Vec<Tap>,
    sender: SyncSender<Ended>,
    ended: Receiver<Ended>,
    /// The trace of the packet that the slow path is handling.
    following: Option<Box<Trace>>,
    custom: Arc<CustomReasons>,
    bell: Arc<Bell>,
}

/// A tap that is on.
struct Tap {
    place: Place,
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

/// How a packet came to the slow path.
pub(crate) enum Arrival {
    /// From a worker's punt ring, with its trace if it is followed.
    Punted(Option<Box<Trace>>),
    /// From a queue that a hardware filter fills.
    Steered,
}

/// The state of the slow path before it handled a packet.
pub(crate) struct Before {
    /// `None` where nobody looks at what it counts.
    counters: Option<Counters>,
    waiting: usize,
}

impl Taps {
    /// No taps yet; `bell` wakes the slow path's thread when a trace has ended.
    pub fn new(custom: Arc<CustomReasons>, bell: Arc<Bell>) -> Taps {
        let (sender, ended) = sync_channel(WAITING);
        Taps { taps: Vec::new(), sender, ended, following: None, custom, bell }
    }

    /// Whether nobody looks at packets.
    pub fn is_empty(&self) -> bool {
        self.taps.is_empty()
    }

    /// Turns a tap on; `ports` are numbers and names. Afterwards the workers need the new
    /// [`for_workers`](Self::for_workers).
    ///
    /// # Errors
    /// The filter makes no sense, there is no such port, or too many taps are on.
    pub fn turn_on(&mut self, request: TapRequest, ports: Vec<(u16, String)>, now: u64) -> Result<TapOn, ApiError> {
        if self.taps.len() >= MOST {
            let message = format!("{MOST} taps are on, which is all there can be; end another trace or capture first");
            return Err(ApiError::conflict(message));
        }
        let number = |name: &str| ports.iter().find(|(_, port)| port == name).map(|(number, _)| *number);
        let filter = Expression::parse(&request.filter, number);
        let filter = filter.map_err(|error| ApiError::invalid(error.to_string()))?;
        let place = match &request.what {
            TapWhat::Port(name) => Place::Port(number(name).ok_or_else(|| {
                let known: Vec<&str> = ports.iter().map(|(_, name)| name.as_str()).collect();
                let known = known.join(", ");
                ApiError::not_found(format!("there is no port {name}; there are {known}, and `drops` and `punts`"))
            })?),
            TapWhat::Drops => Place::Drops,
            TapWhat::Punts => Place::Punts,
            TapWhat::Trace => Place::Trace,
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let (outlet, custom, epoch) = (request.outlet, self.custom.clone(), since_1970.wrapping_sub(now));
        let capture = Arc::new(Capture { filter, outlet: outlet.clone(), custom, epoch });
        self.taps.push(Tap { place, outlet, capture });
        let ports = ports.into_iter().filter(|(number, _)| match place {
            Place::Port(port) => port == *number,
            _ => true,
        });
        Ok(TapOn { ports: ports.collect() })
    }

    /// The taps that are the workers'.
    pub fn for_workers(&self) -> Option<Arc<WorkerTaps>> {
        let mut taps = WorkerTaps::default();
        for tap in &self.taps {
            match tap.place {
                Place::Port(port) => taps.ports.push((port, tap.capture.clone())),
                Place::Drops => taps.drops.push(tap.capture.clone()),
                Place::Punts => {}
                Place::Trace => taps.traces.push(Arc::new(Tracer {
                    filter: tap.capture.filter.clone(),
                    outlet: tap.outlet.clone(),
                    sender: self.sender.clone(),
                    bell: self.bell.clone(),
                })),
            }
        }
        (!taps.is_empty()).then(|| Arc::new(taps))
    }

    /// A trace that has ended, where it goes, and the offset that turns its times into ns since 1970.
    pub fn ended(&mut self) -> Option<(Box<Trace>, Outlet, u64)> {
        let (trace, outlet) = self.ended.try_recv().ok()?;
        let epoch = self.taps.iter().find(|tap| tap.outlet == outlet).map_or(0, |tap| tap.capture.epoch);
        Some((trace, outlet, epoch))
    }

    /// Turns off the taps whose clients are gone; returns whether there were any.
    pub fn turn_off_closed(&mut self) -> bool {
        let before = self.taps.len();
        self.taps.retain(|tap| !tap.outlet.is_closed());
        self.taps.len() != before
    }

    /// Ends all streams, as the router ends.
    pub fn end(&mut self) {
        self.following = None;
        self.taps.drain(..).for_each(|tap| tap.outlet.end());
    }

    /// The slow path is about to handle a packet. One with a trace is followed until [`let_go`](Self::let_go).
    pub fn look(&mut self, arrival: Arrival, seen: &Seen<'_>, slow: &SlowPath) -> Before {
        match arrival {
            Arrival::Punted(trace) => {
                self.put(Place::Punts, seen, None);
                self.following = trace;
            }
            Arrival::Steered => {
                self.put(Place::Port(seen.port), seen, None);
                self.put(Place::Punts, seen, Some("steered here by the device"));
            }
        }
        let counted = self.following.is_some() || self.taps.iter().any(|tap| tap.place == Place::Drops);
        Before { counters: counted.then(|| slow.counters().clone()), waiting: slow.queued() }
    }

    /// The slow path has handled the packet: its counters show what it did.
    pub fn judged(&mut self, before: &Before, seen: &Seen<'_>, slow: &SlowPath) {
        let Some(counters) = &before.counters else { return };
        for Count { kind, name: rule, section, value: times } in slow.counters().since(counters) {
            let dropped = kind == CounterKind::Drop;
            if dropped {
                let comment = with_section(&format!("slowpath.{rule}"), section);
                self.put(Place::Drops, seen, Some(&comment));
            }
            // Frames that it sends and gives to Linux are shown by other entries.
            if kind != CounterKind::Frame {
                self.note(|| Decision::SlowPath { dropped, rule, section, times });
            }
        }
        if slow.queued() > before.waiting {
            self.note(|| Decision::Waits);
        }
    }

    /// What happens from now on is not about the followed packet any more.
    pub fn let_go(&mut self) {
        if let Some(trace) = self.following.take() {
            trace.end();
        }
    }

    /// The slow path's frame is about to be sent on a port.
    pub fn sending(&mut self, port: u16, frame: &[u8], now: u64) {
        if self.taps.is_empty() {
            return;
        }
        let seen = Seen { frame, port, direction: Direction::Out, reason: None, now, arrived: None };
        self.put(Place::Port(port), &seen, None);
        self.note(|| Decision::Sent { port, frame: Summary::of(frame) });
    }

    /// A frame was given to Linux.
    pub fn delivered(&mut self) {
        self.note(|| Decision::Delivered);
    }

    /// Captures a frame at `place`.
    fn put(&self, place: Place, seen: &Seen<'_>, comment: Option<&str>) {
        for tap in self.taps.iter().filter(|tap| tap.place == place) {
            tap.capture.copy(seen, comment.map(str::to_owned));
        }
    }

    /// Notes what the slow path did with the packet that it is handling.
    fn note(&mut self, what: impl FnOnce() -> Decision) {
        if let Some(trace) = &mut self.following {
            trace.step(None, what());
        }
    }
}
