// SPDX-License-Identifier: MIT
//! A packet that is followed: every module that had it, with what it decided.
//!
//! A worker follows at most one packet at a time ([`Context::trace`]). Whoever calls modules (the C ABI, the native loop)
//! calls them through [`one`] and [`two`] while there is one; modules themselves know nothing of it. What a script does to
//! the packet between two calls shows as a change of its bytes. Cold code all through.

use crate::context::Context;
use crate::reason::Reason;
use crate::registry::ModuleId;
use crate::taps::TraceSink;
use perigee_net::InterfaceId;
use perigee_packet::{BATCH_SIZE, Batch, Mask, Summary};
use std::sync::Arc;

/// Bytes of the frame that a trace keeps.
const KEPT: usize = 256;
/// Steps beyond which a trace ends: a script may send a packet round in circles.
const MOST_STEPS: usize = 256;

/// What a module (or the script itself) did with the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is the next module's.
    GoesOn,
    /// It came in on this interface; the network header starts so many bytes on.
    Classified {
        /// The interface.
        interface: InterfaceId,
        /// Bytes.
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
        /// The port.
        port: u16,
    },
    /// It is in a port's transmit buffer.
    Transmitted(u16),
    /// It was dropped.
    Dropped(Reason),
    /// The slow path has it.
    Punted(Reason),
    /// The script has changed so many bytes of it, or its length.
    Changed(usize),
    /// The script has moved it into another batch.
    Moved,
    /// The script gathers it with others; it is not followed any further.
    Gathered,
    /// It is gone, and nobody has said why.
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
    Sent {
        /// The port.
        port: u16,
        /// The frame.
        frame: Summary,
    },
    /// The slow path has given it to Linux.
    Delivered,
}

/// A step on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The module; `None`: the script itself, or the host.
    pub module: Option<ModuleId>,
    /// What it did.
    pub decision: Decision,
}

/// A packet's way.
pub struct Trace {
    /// Who wants to know.
    pub sink: Arc<dyn TraceSink>,
    /// When it came in, in ns of the worker's clock.
    pub time: u64,
    /// The port it came in on.
    pub port: u16,
    /// The frame as it came in: the first 256 bytes.
    pub frame: Vec<u8>,
    /// What was in it then.
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

    /// The trace is at its end.
    pub fn end(self: Box<Self>) {
        let sink = self.sink.clone();
        sink.put(self);
    }

    /// Before a module: notes what the script has changed. Whether the module gets the packet.
    fn enter(&mut self, batch: &Batch, mask: Mask, module: ModuleId) -> bool {
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

    /// After a module that has neither dropped nor punted it. Whether that is the end.
    fn leave(&mut self, batch: &Batch, module: ModuleId) -> bool {
        let slot = self.place.1;
        self.module = None;
        let Some(frame) = batch.frame(slot) else {
            let sent = module == ModuleId::distribute;
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
}

/// Calls a module of one mask while a packet is followed.
#[cold]
#[inline(never)]
pub fn one(
    ctx: &mut Context,
    batch: &mut Batch,
    mask: &mut Mask,
    module: ModuleId,
    run: fn(&mut Context, &mut Batch, &mut Mask),
) {
    let inside = ctx.trace.as_mut().is_some_and(|trace| trace.enter(batch, *mask, module));
    run(ctx, batch, mask);
    if inside {
        after(ctx, batch, module);
    }
}

/// The same for a module of two masks.
#[cold]
#[inline(never)]
pub fn two(
    ctx: &mut Context,
    batch: &mut Batch,
    ip4: &mut Mask,
    ip6: &mut Mask,
    module: ModuleId,
    run: fn(&mut Context, &mut Batch, &mut Mask, &mut Mask),
) {
    let inside = ctx.trace.as_mut().is_some_and(|trace| trace.enter(batch, *ip4 | *ip6, module));
    run(ctx, batch, ip4, ip6);
    if inside {
        after(ctx, batch, module);
    }
}

fn after(ctx: &mut Context, batch: &Batch, module: ModuleId) {
    // Dropped or punted: then it is not here any more.
    if ctx.trace.as_mut().is_some_and(|trace| trace.leave(batch, module)) {
        end(ctx);
    }
}

/// The packet that is followed was dropped.
pub(crate) fn dropped(ctx: &mut Context, reason: Reason) {
    if let Some(trace) = &mut ctx.trace {
        let module = trace.module;
        trace.step(module, Decision::Dropped(reason));
    }
    end(ctx);
}

/// The trace of a packet that is about to be punted, which goes with it.
#[cold]
pub(crate) fn punted(ctx: &mut Context, batch: &Batch, slot: u8, reason: Reason) -> Option<Box<Trace>> {
    let mut trace = ctx.trace.take_if(|trace| trace.is_in(batch, Mask::only(slot)))?;
    let module = trace.module;
    trace.step(module, Decision::Punted(reason));
    Some(trace)
}

/// To be called before packets of a mask move into another batch: the one that is followed is followed there.
#[cold]
pub fn moving(ctx: &mut Context, from: &Batch, mask: Mask, to: &Batch) {
    let moving = mask & from.live();
    let Some(trace) = ctx.trace.as_mut().filter(|trace| trace.is_in(from, moving)) else { return };
    let slot = to.count() + moving.iter().filter(|slot| *slot < trace.place.1).count();
    if slot < BATCH_SIZE {
        trace.place = (address(to), slot as u8);
        trace.step(None, Decision::Moved);
    }
}

/// To be called before packets of a mask are gathered: the one that is followed is lost sight of.
#[cold]
pub fn gathering(ctx: &mut Context, batch: &Batch, mask: Mask) {
    if let Some(trace) = ctx.trace.as_mut().filter(|trace| trace.is_in(batch, mask & batch.live())) {
        trace.step(None, Decision::Gathered);
        end(ctx);
    }
}

/// Ends the trace whose packet nobody has seen since it was moved away.
#[cold]
pub fn lost(ctx: &mut Context) {
    if let Some(trace) = &mut ctx.trace {
        trace.step(None, Decision::Lost);
    }
    end(ctx);
}

fn end(ctx: &mut Context) {
    if let Some(trace) = ctx.trace.take() {
        trace.end();
    }
}
