// SPDX-License-Identifier: MIT
//! The time that modules take, and the script between them: one burst in [`EVERY`] is timed, and stands for the others.
//!
//! A timed burst begins when it was received and ends when its worker asks for the next one, or the round is over.
//! Meanwhile the callers of modules call them by `watch.rs`, which times each.

use crate::context::Context;
use crate::registry::ModuleId;
use std::sync::Arc;

/// One burst in so many is timed: few enough to cost nothing (a fiftieth of a clock's reading per packet), and a prime
/// number, so that workers with several queues time all of them.
pub const EVERY: u32 = 127;

/// A monotonic clock in ns.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A worker's stopwatch. By default it has no clock and times nothing.
#[derive(Default)]
pub struct Stopwatch {
    clock: Option<Clock>,
    /// Bursts since one was timed.
    bursts: u32,
    /// Since when the present burst is timed, in ns, if it is, and how many packets it has.
    running: Option<(u64, usize)>,
}

impl Stopwatch {
    /// A stopwatch that times by `clock`.
    pub fn new(clock: Clock) -> Stopwatch {
        Stopwatch { clock: Some(clock), ..Stopwatch::default() }
    }

    /// Counts a burst; returns whether it is to be timed.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.bursts += 1;
        self.bursts == EVERY
    }

    /// The time, while a burst is timed.
    pub(crate) fn read(&self) -> Option<u64> {
        self.running.and(self.clock.as_ref()).map(|clock| clock())
    }
}

impl Context {
    /// Begins to time a burst of this many packets.
    #[cold]
    pub fn begin_timing(&mut self, packets: usize) {
        self.stopwatch.bursts = 0;
        if let Some(clock) = &self.stopwatch.clock {
            self.stopwatch.running = Some((clock(), packets));
            self.watched = true;
        }
    }

    /// The burst that was timed or followed is over.
    #[cold]
    #[inline(never)]
    pub fn end_watching(&mut self) {
        if let (Some(now), Some((began, packets))) = (self.stopwatch.read(), self.stopwatch.running.take()) {
            self.counters.timed.add(now.saturating_sub(began));
            self.counters.timed_packets.add(packets as u64);
        }
        self.watched = self.trace.is_some();
    }

    /// The burst that was timed is given up: the script that had it was stopped.
    pub fn forget_timing(&mut self) {
        self.stopwatch.running = None;
        self.watched = self.trace.is_some();
    }

    /// A module that was called at `began` with so many packets has returned.
    pub(crate) fn timed(&mut self, module: ModuleId, began: Option<u64>, packets: usize) {
        if let (Some(began), Some(now)) = (began, self.stopwatch.read()) {
            self.counters.timed_module(module, now.saturating_sub(began), packets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, udp4};
    use crate::watch;
    use perigee_packet::{Batch, Mask};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn one_burst_in_many_is_timed_module_by_module() {
        let mut rig = Rig::new();
        let time = Arc::new(AtomicU64::new(1000));
        let clock = time.clone();
        rig.ctx.stopwatch = Stopwatch::new(Arc::new(move || clock.load(Ordering::Relaxed)));
        fn busy(_: &mut Context, _: &mut Batch, _: &mut Mask) {}
        let mut timed = 0;
        for _ in 0..3 * EVERY {
            rig.receive(0, &udp4(1, 18));
            rig.receive(0, &udp4(1, 18));
            if rig.ctx.stopwatch.is_due() {
                rig.ctx.begin_timing(2);
                timed += 1;
            }
            let mut mask = rig.batch.live();
            let Rig { ctx, batch, .. } = &mut rig;
            let before = ctx.stopwatch.read();
            time.fetch_add(30, Ordering::Relaxed);
            if ctx.watched {
                watch::one(ctx, batch, &mut mask, ModuleId::ttl, busy);
                ctx.timed(ModuleId::apply, before, 2);
            }
            time.fetch_add(70, Ordering::Relaxed);
            if ctx.watched {
                ctx.end_watching();
            }
            assert!(!ctx.watched && ctx.stopwatch.read().is_none());
            batch.discard(Mask::ALL);
            batch.refill();
        }
        let counters = &rig.ctx.counters;
        assert_eq!(timed, 3);
        assert_eq!((counters.timed.get(), counters.timed_packets.get()), (300, 6));
        assert_eq!(counters.module_time(ModuleId::apply as usize), (90, 6));
        assert_eq!(counters.module_time(ModuleId::ttl as usize), (0, 6));
        assert_eq!(counters.script_time(), 210);
    }
}
