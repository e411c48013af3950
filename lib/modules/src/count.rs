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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, udp4, udp6};

    #[test]
    fn counts_the_live_packets_of_the_mask_and_lets_them_go_on() {
        let mut rig = Rig::new();
        let frames = [udp4(1, 0), udp4(1, 1), udp6(1, 2), udp6(1, 3)];
        for frame in &frames {
            rig.receive(0, frame);
        }
        rig.batch.discard(Mask::only(3));
        let mut mask: Mask = [1, 2, 3, 200].into_iter().collect();
        count(&mut rig.ctx, &mut rig.batch, &mut mask);
        assert_eq!(mask.count(), 4);
        assert_eq!(rig.ctx.counters.counted.get(), 2);
        assert_eq!(rig.ctx.counters.counted_bytes.get(), (frames[1].len() + frames[2].len()) as u64);
        assert_eq!(rig.batch.live(), Mask::first(3));
    }
}
