// SPDX-License-Identifier: MIT
//! Where taps and the trace of a packet get to see what happens to packets outside the [`Context`]: on receipt, around
//! each module, between batches, and on the way out.
//!
//! A worker follows at most one packet at a time ([`Context::trace`]), and times one burst in many
//! ([`Context::stopwatch`]). Meanwhile ([`Context::watched`]) the callers of modules (the C ABI, the native loop) call
//! them through [`one`] and [`two`]; modules themselves know nothing of it. All of this is cold code.

use crate::context::Context;
use crate::registry::ModuleId;
use crate::trace::{Decision, Trace};
use perigee_packet::{Batch, Mask};

/// How long a followed packet may wait in a batch of the script's, in ns.
const PATIENCE: u64 = 1_000_000_000;

/// A burst as it came in: to be called before anything looks at it.
#[cold]
pub fn received(ctx: &Context, batch: &Batch) {
    if let Some(taps) = &ctx.tables.taps {
        taps.received(batch, ctx.now);
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
        Some(trace) if ctx.now.saturating_sub(trace.time) > PATIENCE => lost(ctx),
        Some(_) => return,
        None => {}
    }
    let Some(taps) = &ctx.tables.taps else { return };
    let chosen = taps.choose(batch, ctx.counters.bursts.get());
    ctx.watched |= chosen.is_some();
    ctx.trace = chosen.map(|(sink, slot)| Trace::begin(sink.clone(), batch, slot, ctx.now));
}

/// Packets that are about to be put into transmit buffers.
#[cold]
pub fn transmitting(ctx: &Context, batch: &Batch, mask: Mask) {
    if let Some(taps) = &ctx.tables.taps {
        taps.transmitting(batch, mask, ctx.now);
    }
}

/// Calls a module of one mask while a packet is followed or the burst is timed.
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
    let (began, packets) = (ctx.stopwatch.read(), (*mask & batch.live()).count());
    run(ctx, batch, mask);
    ctx.timed(module, began, packets);
    if inside {
        after(ctx, batch, module);
    }
}

/// Calls a module of two masks while a packet is followed or the burst is timed.
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
    let before = if module == ModuleId::classify { Mask::ALL } else { *ip4 | *ip6 };
    let (began, packets) = (ctx.stopwatch.read(), (before & batch.live()).count());
    run(ctx, batch, ip4, ip6);
    ctx.timed(module, began, packets);
    if inside {
        after(ctx, batch, module);
    }
}

fn after(ctx: &mut Context, batch: &Batch, module: ModuleId) {
    // Dropped or punted: then the trace is no longer here.
    if ctx.trace.as_mut().is_some_and(|trace| trace.leave(batch, module)) {
        end(ctx);
    }
}

/// To be called before packets of a mask move into another batch: the one that is followed is followed there.
#[cold]
pub fn moving(ctx: &mut Context, from: &Batch, mask: Mask, to: &Batch) {
    if let Some(trace) = &mut ctx.trace {
        trace.moving(from, mask, to);
    }
}

/// To be called before packets of a mask are gathered: the trace of the one that is followed ends.
#[cold]
pub fn gathering(ctx: &mut Context, batch: &Batch, mask: Mask) {
    if let Some(trace) = ctx.trace.as_mut().filter(|trace| trace.is_in(batch, mask & batch.live())) {
        trace.step(None, Decision::Gathered);
        end(ctx);
    }
}

/// Ends the trace of a packet that has not been seen since it was moved away.
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
