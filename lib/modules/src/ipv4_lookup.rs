// SPDX-License-Identifier: MIT
//! Finds the next hop of IPv4 packets: the longest prefix that matches the destination.
//!
//! Packets whose neighbor is known go on with `next_hop` set. Those for the router itself, without a route, with an
//! unreachable or prohibit route, or whose neighbor is not resolved yet go to the slow path; a blackhole route drops.
//!
//! Cost: what the lookup structure takes; the whole batch is looked up together, so that its cache misses overlap.

use crate::context::Context;
use crate::lookup::{finish, lookup_batch, lookup_reasons};
use crate::registry::ModuleId;
use perigee_packet::{BATCH_SIZE, Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Finds the next hop by longest-prefix match; what cannot be sent on goes to the slow path.";

lookup_reasons!(ipv4_lookup, "RFC 1812 5.2.7.1", "RFC 1812 3.3.2", "RFC 1812 5.2.7.1");

/// The module.
pub fn ipv4_lookup(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    ctx.counters.module(ModuleId::ipv4_lookup, mask.count());
    let special = lookup_batch!(ctx, batch, *mask, v4, u32, 20, 16);
    if !special.is_empty() {
        finish(ctx, batch, special, &BY_ACTION);
        *mask -= special;
    }
}
