// SPDX-License-Identifier: MIT
//! The receivers of workers' packets while a tap is on: of a copy of the frame, or of a trace of its path.

use perigee_api::pcapng;
use perigee_api::taps::{Captured, Outlet, Record};
use perigee_modules::taps::{CaptureSink, Direction, Seen};
use perigee_modules::trace::{Trace, TraceSink};
use perigee_modules::{CustomReasons, Reason};
use perigee_packet::Expression;
use perigee_worker::Bell;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// A trace that has ended, and where it goes.
pub type Ended = (Box<Trace>, Outlet);

/// Copies frames into an outlet.
pub struct Capture {
    pub filter: Expression,
    pub outlet: Outlet,
    pub custom: Arc<CustomReasons>,
    /// The offset that turns the clock's ns into ns since 1970.
    pub epoch: u64,
}

impl Capture {
    /// Copies a frame, if it is wanted; `comment` replaces the reason's own.
    pub fn copy(&self, seen: &Seen<'_>, comment: Option<String>) {
        if !self.filter.matches(seen.frame, seen.port) || !self.outlet.take() {
            return;
        }
        let comment = comment.or_else(|| seen.reason.map(|reason| explained(reason, &self.custom)));
        self.outlet.put(Record::Captured(Captured {
            port: seen.port,
            time: seen.arrived.unwrap_or_else(|| seen.now.wrapping_add(self.epoch)),
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

/// Chooses packets, and takes their traces.
pub struct Tracer {
    pub filter: Expression,
    pub outlet: Outlet,
    pub sender: SyncSender<Ended>,
    pub bell: Arc<Bell>,
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

/// A comment on why a packet left: `ipv4_valid.checksum: the header checksum is wrong (RFC 1812 5.2.2)`.
fn explained(reason: Reason, custom: &CustomReasons) -> String {
    match reason.describe() {
        Some((module, info)) => with_section(&format!("{module}.{}: {}", info.name, info.text), info.rfc),
        // A script's reason: its name is looked up under a lock that is held only briefly.
        None => match custom.all().into_iter().find(|(number, ..)| *number == reason) {
            Some((_, module, name, _)) => format!("{module}.{name}"),
            None => format!("reason {}", reason.0),
        },
    }
}

/// A text, followed by the section that it is based on.
pub fn with_section(text: &str, section: &str) -> String {
    if section.is_empty() { text.to_owned() } else { format!("{text} ({section})") }
}
