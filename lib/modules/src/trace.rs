// SPDX-License-Identifier: MIT
//! The trace of a packet: every module that had it, with what it decided. This is data; [`watch`](crate::watch) and the
//! worker's context feed it. What a script does to the packet between two modules shows as a change of its bytes.

use crate::reason::Reason;
use crate::registry::ModuleId;
use perigee_net::InterfaceId;
use perigee_packet::{BATCH_SIZE, Batch, Mask, Summary};
use std::sync::Arc;

/// Bytes of the frame that a trace keeps.
const KEPT: usize = 256;
/// Steps beyond which a trace ends: a script may send a packet round in circles.
const MOST_STEPS: usize = 256;

/// Takes traces. Called on workers' threads: it must not wait.
pub trait TraceSink: Send + Sync {
    /// Whether a packet that came in on a port is to be followed.
    fn wants(&self, frame: &[u8], port: u16) -> bool;
    /// Takes a trace that has ended.
    fn put(&self, trace: Box<Trace>);
}

/// What a module (or the script itself) did with the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes on to the next module.
    GoesOn,
    /// The interface it came in on, and where its network header starts.
    Classified {
        interface: InterfaceId,
        /// Offset of the network header in the frame, in bytes.
        l3: usize,
    },
    /// It has a next hop.
    NextHop(u32),
    /// Its TTL or hop limit was the first and is the second.
    Hops(u8, u8),
    /// It has a new Ethernet header, and leaves by a port.
    Applied {
        /// The frame's first bytes, up to its network header.
        header: Vec<u8>,
        port: u16,
    },
    /// It is in a port's transmit buffer.
    Transmitted(u16),
    /// It was dropped.
    Dropped(Reason),
    /// The slow path has it.
    Punted(Reason),
    /// The script has changed it: the number of bytes that differ, those gained or lost included.
    Changed(usize),
    /// The script has moved it into another batch.
    Moved,
    /// The script gathers it with others; it is not followed any further.
    Gathered,
    /// It is gone, and no module has reported why.
    Lost,
    /// The slow path has counted something for it.
    SlowPath {
        /// Whether that ended the packet.
        dropped: bool,
        /// The counter's name.
        rule: &'static str,
        /// The section behind it.
        section: &'static str,
        /// How often.
        times: u64,
    },
    /// It waits in the slow path for its next hop's MAC address.
    Waits,
    /// The slow path has sent a frame for it.
    Sent { port: u16, frame: Summary },
    /// The slow path has given it to Linux.
    Delivered,
}

/// A step of a packet's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The module; `None`: the script itself, or the host.
    pub module: Option<ModuleId>,
    /// What it did.
    pub decision: Decision,
}

/// A packet's path.
pub struct Trace {
    /// The sink that asked for it.
    pub sink: Arc<dyn TraceSink>,
    /// When it came in, in ns of the worker's clock.
    pub time: u64,
    /// The port it came in on.
    pub port: u16,
    /// The frame as it came in: the first 256 bytes.
    pub frame: Vec<u8>,
    /// A summary of that frame.
    pub summary: Summary,
    /// What has happened to it.
    pub steps: Vec<Step>,
    /// Address of the batch it is in, and its slot there.
    place: (usize, u8),
    /// The module that has it now.
    module: Option<ModuleId>,
    /// The frame as the last module left it.
    left: Vec<u8>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Trace({}; {:?})", self.summary, self.steps)
    }
}

fn address(batch: &Batch) -> usize {
    std::ptr::from_ref(batch).addr()
}

impl Trace {
    /// Begins to follow the packet of a slot.
    pub fn begin(sink: Arc<dyn TraceSink>, batch: &Batch, slot: u8, now: u64) -> Box<Trace> {
        let frame = batch.frame(slot).unwrap_or_default();
        Box::new(Trace {
            sink,
            time: now,
            port: batch.port(slot),
            frame: frame[..frame.len().min(KEPT)].to_vec(),
            summary: Summary::of(frame),
            steps: Vec::new(),
            place: (address(batch), slot),
            module: None,
            left: frame.to_vec(),
        })
    }

    /// Is it one of these packets?
    pub fn is_in(&self, batch: &Batch, mask: Mask) -> bool {
        self.place.0 == address(batch) && mask.contains(self.place.1)
    }

    /// Adds a step.
    pub fn step(&mut self, module: Option<ModuleId>, decision: Decision) {
        if self.steps.len() < MOST_STEPS {
            self.steps.push(Step { module, decision });
        }
    }

    /// Hands the trace to the sink that asked for it.
    pub fn end(self: Box<Self>) {
        let sink = self.sink.clone();
        sink.put(self);
    }

    /// Before a module: notes what the script has changed. Returns whether the module gets the packet.
    pub(crate) fn enter(&mut self, batch: &Batch, mask: Mask, module: ModuleId) -> bool {
        let here = module == ModuleId::classify || mask.contains(self.place.1);
        let Some(frame) = batch.frame(self.place.1).filter(|_| here && self.place.0 == address(batch)) else {
            return false;
        };
        if frame != self.left {
            let same = frame.iter().zip(&self.left).filter(|(a, b)| a == b).count();
            let changed = frame.len().max(self.left.len()) - same;
            self.step(None, Decision::Changed(changed));
        }
        self.left = frame.to_vec();
        self.module = Some(module);
        true
    }

    /// After a module that has neither dropped nor punted it. Returns whether the trace is at its end.
    pub(crate) fn leave(&mut self, batch: &Batch, module: ModuleId) -> bool {
        let slot = self.place.1;
        self.module = None;
        let Some(frame) = batch.frame(slot) else {
            // The module multicast transmits by itself.
            let sent = matches!(module, ModuleId::distribute | ModuleId::multicast);
            self.step(Some(module), if sent { Decision::Transmitted(batch.out_port(slot)) } else { Decision::Lost });
            return true;
        };
        let hops = |frame: &[u8]| Summary::of(frame).hops;
        let decision = match module {
            ModuleId::classify => {
                Decision::Classified { interface: InterfaceId(batch.interface(slot)), l3: batch.l3(slot) }
            }
            ModuleId::ipv4_lookup | ModuleId::ipv6_lookup => Decision::NextHop(batch.next_hop(slot)),
            ModuleId::apply => {
                let header = frame.get(..batch.l3(slot)).unwrap_or(frame).to_vec();
                Decision::Applied { header, port: batch.out_port(slot) }
            }
            ModuleId::ttl | ModuleId::hop_limit => match (hops(&self.left), hops(frame)) {
                (Some(before), Some(now)) if before != now => Decision::Hops(before, now),
                _ => Decision::GoesOn,
            },
            _ => Decision::GoesOn,
        };
        self.step(Some(module), decision);
        self.left = frame.to_vec();
        self.steps.len() >= MOST_STEPS
    }

    /// The packet was dropped.
    pub(crate) fn dropped(mut self: Box<Self>, reason: Reason) {
        self.step(self.module, Decision::Dropped(reason));
        self.end();
    }

    /// The packet is about to be punted; its trace goes with it.
    pub(crate) fn punted(mut self: Box<Self>, reason: Reason) -> Box<Trace> {
        self.step(self.module, Decision::Punted(reason));
        self
    }

    /// The packet is about to move into another batch, together with the others of `mask`.
    pub(crate) fn moving(&mut self, from: &Batch, mask: Mask, to: &Batch) {
        let moving = mask & from.live();
        if !self.is_in(from, moving) {
            return;
        }
        let slot = to.count() + moving.iter().filter(|slot| *slot < self.place.1).count();
        if slot < BATCH_SIZE {
            self.place = (address(to), slot as u8);
            self.step(None, Decision::Moved);
        }
    }
}
