// SPDX-License-Identifier: MIT
//! Counts packets and bytes, and lets them go on: for scripts that measure a part of the traffic.
//!
//! Cost: one read of each packet's length.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_packet::{Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Counts packets and bytes of a mask, as `counted` and `counted_bytes` of the worker.";

reasons! { count: }

/// The module.
pub fn count(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    let live = *mask & batch.live();
    let packets = live.count();
    let bytes: usize = live.iter().map(|slot| batch.length(slot)).sum();
    ctx.counters.module(ModuleId::count, packets);
    ctx.counters.counted.add(packets as u64);
    ctx.counters.counted_bytes.add(bytes as u64);
}
