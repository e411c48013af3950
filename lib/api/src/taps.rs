// SPDX-License-Identifier: MIT
//! Taps, as the API knows them: requests, where the router puts its records, and the contents of a trace.

use crate::answers::RouteEntry;
use crate::declare::{Describe, objects};
use crate::document::Page;
use crate::pcapng::Direction;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Records that may wait for a client; the rest is lost, and counted.
const WAITING: usize = 4096;

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapWhat {
    /// Packets in and out of the port of this name.
    Port(String),
    /// Dropped packets.
    Drops,
    /// Packets for the slow path.
    Punts,
    /// The path of single packets.
    Trace,
}

/// A tap that a client wants.
#[derive(Clone, Debug, PartialEq)]
pub struct TapRequest {
    /// What is looked at.
    pub what: TapWhat,
    /// Which packets, in the syntax of `perigee_packet::expression`; empty for all.
    pub filter: String,
    /// Where records go.
    pub outlet: Outlet,
}

/// The router's answer: the tap is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapOn {
    /// Number and name of each port that packets may be of.
    pub ports: Vec<(u16, String)>,
}

/// A packet at a tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Number of its port.
    pub port: u16,
    /// In ns since 1970.
    pub time: u64,
    pub direction: Option<Direction>,
    /// Its length on the wire.
    pub length: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
    /// Why it was dropped or punted.
    pub comment: Option<String>,
}

/// A record of a tap.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A packet.
    Captured(Captured),
    /// A packet's path.
    Trace(Box<TraceEntry>),
    /// The router ends.
    End,
}

/// The end where the router puts records. It never waits: records that find no room are lost and counted.
#[derive(Clone, Debug)]
pub struct Outlet {
    sender: mpsc::Sender<Record>,
    lost: Arc<AtomicU64>,
    left: Arc<AtomicU64>,
    snaplen: usize,
}

/// The end where the API takes records.
#[derive(Debug)]
pub struct Inlet {
    pub(crate) records: mpsc::Receiver<Record>,
    lost: Arc<AtomicU64>,
}

impl Inlet {
    /// Records lost so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The next record, if one is waiting.
    pub fn ready(&mut self) -> Option<Record> {
        self.records.try_recv().ok()
    }
}

impl PartialEq for Outlet {
    fn eq(&self, other: &Self) -> bool {
        self.sender.same_channel(&other.sender)
    }
}

impl Outlet {
    /// An outlet for at most `count` records, each with at most `snaplen` bytes of a packet.
    pub fn new(count: Option<u64>, snaplen: usize) -> (Outlet, Inlet) {
        let (sender, records) = mpsc::channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let left = Arc::new(AtomicU64::new(count.unwrap_or(u64::MAX)));
        (Outlet { sender, lost: lost.clone(), left, snaplen }, Inlet { records, lost })
    }

    /// How many bytes of a packet are wanted.
    pub fn snaplen(&self) -> usize {
        self.snaplen
    }

    /// Reserves one of the records that are still wanted; false if enough are on their way.
    pub fn take(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Puts a record that was [taken](Self::take).
    pub fn put(&self, record: Record) {
        if self.sender.try_send(record).is_err() {
            self.lose();
        }
    }

    /// Reports that a record that was [taken](Self::take) will not come.
    pub fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the client's stream.
    pub fn end(&self) {
        // If there is no room, the client sees the end when the last outlet is gone.
        let _ = self.sender.try_send(Record::End);
    }

    /// Whether nobody listens any more.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

objects! {
    /// A packet's path through the router.
    #[derive(Default)]
    pub struct TraceEntry {
        /// When it came in, in ns since 1970.
        pub time: u64,
        /// The port it came in on.
        pub port: String,
        /// A one-line description.
        pub packet: String,
        /// Its length in bytes.
        pub length: usize,
        /// Its first bytes as it came in, in hexadecimal digits.
        pub bytes: String,
        /// What happened to it.
        pub steps: Vec<TraceStep>,
    }

    /// A step of a packet's path.
    #[derive(Default)]
    pub struct TraceStep {
        /// The module; `script` for what happens between modules, `slowpath` for the slow path.
        pub module: String,
        /// What the module decided: `goes on`, `next hop`, `dropped`, `punted`, `transmitted`, ..., or the slow path's rule.
        pub decision: String,
        /// More about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub detail: Option<String>,
        /// Why it was dropped or punted, or the slow path's rule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
        /// The RFC section that demands it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rfc: Option<String>,
        /// The id of the next hop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub next_hop: Option<u32>,
        /// The route that was used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub route: Option<RouteEntry>,
    }
}

/// A line of the stream of traces: a [`TraceEntry`], or how many were lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TraceLine {
    /// How many were lost so far.
    Lost {
        /// Their number.
        lost: u64,
    },
    /// A packet's path.
    Trace(Box<TraceEntry>),
}

impl Describe for TraceLine {
    fn words() -> String {
        format!("{}, or `{{\"lost\": NUMBER}}`: how many were lost so far", TraceEntry::words())
    }

    fn sections(page: &mut Page) {
        TraceEntry::sections(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_wanted_and_what_is_lost_is_counted() {
        let (outlet, mut inlet) = Outlet::new(Some(2), 10);
        assert!(outlet.take() && outlet.take() && !outlet.take());
        outlet.put(Record::Trace(Box::default()));
        outlet.lose();
        assert!(outlet.take(), "another may come for the one that was lost");
        assert_eq!((inlet.lost(), inlet.ready().is_some(), inlet.ready()), (1, true, None));

        let (outlet, inlet) = Outlet::new(None, 10);
        for _ in 0..WAITING + 5 {
            assert!(outlet.take());
            outlet.put(Record::Trace(Box::default()));
        }
        assert_eq!(inlet.lost(), 5);
        assert!(!outlet.is_closed());
        drop(inlet);
        assert!(outlet.is_closed());
    }

    #[test]
    fn lines_are_told_apart() {
        let lost = serde_json::to_string(&TraceLine::Lost { lost: 3 }).unwrap();
        assert_eq!(lost, "{\"lost\":3}");
        for line in [TraceLine::Lost { lost: 3 }, TraceLine::Trace(Box::default())] {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<TraceLine>(&text).unwrap(), line);
        }
    }
}
