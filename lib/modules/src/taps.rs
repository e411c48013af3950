// SPDX-License-Identifier: MIT
//! Taps: where somebody looks at packets of a running router. A tap is part of the [`Tables`](crate::Tables), so turning
//! one on or off is a publication, and with none on there is one load and one branch per burst.
//!
//! ```text
//! captures of a port   Worker::receive (as frames came in), distribute (as they go into the transmit buffer)
//! captures of drops    Context::drop, and what the host frees
//! traces               begin in Worker::receive, see `trace`
//! ```
//!
//! Whoever takes the packets is behind a trait and must not wait. What is here is cold code: it may allocate.

use crate::context::Context;
use crate::reason::Reason;
use crate::trace::Trace;
use perigee_packet::{Batch, Mask};
use std::sync::Arc;

/// How long a followed packet may wait in a batch of the script's, in ns.
const PATIENCE: u64 = 1_000_000_000;

/// Which way a captured frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In,
    /// Transmitted.
    Out,
}

/// A frame at a tap.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// From the destination MAC address on.
    pub frame: &'a [u8],
    /// The port it came in on; for one that is transmitted, the port it leaves by.
    pub port: u16,
    /// Which way it went.
    pub direction: Direction,
    /// Why it left, where it did.
    pub reason: Option<Reason>,
    /// When, in ns of the worker's clock: the start of its round.
    pub now: u64,
}

/// Takes captured frames. Called on workers' threads: it must not wait.
pub trait CaptureSink: Send + Sync {
    /// Copies the frame, if it wants it.
    fn put(&self, seen: &Seen<'_>);
}

/// Takes traces. Called on workers' threads: it must not wait.
pub trait TraceSink: Send + Sync {
    /// Whether a packet that came in on a port is to be followed.
    fn wants(&self, frame: &[u8], port: u16) -> bool;
    /// Takes a trace that has ended.
    fn put(&self, trace: Box<Trace>);
}

/// All taps that are on.
#[derive(Clone, Default)]
pub struct Taps {
    /// Captures of ports, by the port's number.
    pub ports: Vec<(u16, Arc<dyn CaptureSink>)>,
    /// Captures of what is dropped.
    pub drops: Vec<Arc<dyn CaptureSink>>,
    /// Who wants packets to be followed.
    pub traces: Vec<Arc<dyn TraceSink>>,
}

impl Taps {
    /// Is none on?
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.drops.is_empty() && self.traces.is_empty()
    }
}

/// A burst as it came in: to be called before anything looks at it.
#[cold]
pub fn received(ctx: &Context, batch: &Batch) {
    let Some(taps) = &ctx.tables.taps else { return };
    for (port, sink) in &taps.ports {
        for slot in batch.live().iter().filter(|slot| batch.port(*slot) == *port) {
            let Some(frame) = batch.frame(slot) else { continue };
            sink.put(&Seen { frame, port: *port, direction: Direction::In, reason: None, now: ctx.now });
        }
    }
}

/// Chooses a packet of a burst to be followed, at most one.
#[cold]
pub fn begin(ctx: &mut Context, batch: &Batch) {
    if ctx.tables.taps.as_ref().is_none_or(|taps| taps.traces.is_empty()) {
        return;
    }
    match &ctx.trace {
        // The one before waits in another batch of the script's: not for ever.
        Some(trace) if ctx.now.saturating_sub(trace.time) > PATIENCE => crate::trace::lost(ctx),
        Some(_) => return,
        None => {}
    }
    let Some(taps) = &ctx.tables.taps else { return };
    // Each has its turn to choose first.
    let first = ctx.counters.bursts.get() as usize % taps.traces.len();
    let (before, after) = taps.traces.split_at(first);
    for sink in after.iter().chain(before) {
        let wanted = |slot: &u8| batch.frame(*slot).is_some_and(|frame| sink.wants(frame, batch.port(*slot)));
        if let Some(slot) = batch.live().iter().find(wanted) {
            ctx.trace = Some(Trace::begin(sink.clone(), batch, slot, ctx.now));
            return;
        }
    }
}

/// Packets that are about to be put into transmit buffers.
#[cold]
pub fn transmitting(ctx: &Context, batch: &Batch, mask: Mask) {
    let Some(taps) = &ctx.tables.taps else { return };
    for (port, sink) in &taps.ports {
        for slot in (mask & batch.live()).iter().filter(|slot| batch.out_port(*slot) == *port) {
            let Some(frame) = batch.frame(slot) else { continue };
            sink.put(&Seen { frame, port: *port, direction: Direction::Out, reason: None, now: ctx.now });
        }
    }
}

/// Packets that are about to be dropped.
#[cold]
pub fn dropping(ctx: &mut Context, batch: &Batch, mask: Mask, reason: Reason) {
    let dead = mask & batch.live();
    for slot in dead {
        if let Some(frame) = batch.frame(slot) {
            dropped(ctx, frame, batch.port(slot), reason);
        }
    }
    if ctx.trace.as_ref().is_some_and(|trace| trace.is_in(batch, dead)) {
        crate::trace::dropped(ctx, reason);
    }
}

/// A packet that is about to be dropped, in no batch any more.
#[cold]
pub fn dropped(ctx: &Context, frame: &[u8], port: u16, reason: Reason) {
    let Some(taps) = &ctx.tables.taps else { return };
    for sink in &taps.drops {
        sink.put(&Seen { frame, port, direction: Direction::In, reason: Some(reason), now: ctx.now });
    }
}
