// SPDX-License-Identifier: MIT
//! Puts packets into the transmit buffers of their ports, which send them a burst at a time (rebatching).
//!
//! Every packet is consumed: a port without a transmit buffer drops it, under a reason.
//!
//! Cost: one append per packet; the device's transmit function once per burst and port.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_packet::{Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Puts packets into their ports' transmit buffers, which send a burst at a time.";

reasons! { distribute:
    drop NO_PORT = "no_port", "", "the port it should leave by cannot transmit";
}

/// The module; both masks are empty afterwards.
pub fn distribute(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let all = *ip4 | *ip6;
    ctx.counters.module(ModuleId::distribute, all.count());
    let mut lost = Mask::EMPTY;
    for slot in all & batch.live() {
        let port = usize::from(batch.out_port(slot));
        let Some(output) = ctx.outputs.get_mut(port).and_then(Option::as_mut) else {
            lost.set(slot);
            continue;
        };
        let Some(packet) = batch.take_handle(slot) else { continue };
        if let Some(flushed) = output.push(packet, ctx.now) {
            ctx.flushed(port, flushed);
        }
    }
    ctx.drop(batch, lost, NO_PORT);
    (*ip4, *ip6) = (Mask::EMPTY, Mask::EMPTY);
}
