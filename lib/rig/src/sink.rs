// SPDX-License-Identifier: MIT
//! A transmit queue that takes everything, sees how long packets were under way, and frees them.

use crate::request::Sojourn;
use crate::traffic::STAMP;
use hdrhistogram::Histogram;
use perigee_dpdk::{Clock, MBUF};
use perigee_packet::{BATCH_SIZE, Batch, Handle, Mask, Memory as _, TransmitQueue, frame_of};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest time that is told apart from longer ones, in ns.
const LONGEST: u64 = 10_000_000_000;

/// Significant digits of a time: a window's histogram is small enough to be read and emptied between two bursts.
const DIGITS: u8 = 2;

/// Times from arrival to transmission, in ns, of the packets that carry a stamp.
#[derive(Debug, Clone)]
pub struct Sojourns(Arc<Mutex<Option<Times>>>);

/// What was taken since the beginning, and since the last turn.
#[derive(Debug)]
struct Times {
    before: Histogram<u64>,
    now: Histogram<u64>,
    windows: Vec<Sojourn>,
}

impl Sojourns {
    /// None yet, and none are taken.
    pub fn new() -> Sojourns {
        Sojourns(Arc::default())
    }

    fn taken(&self) -> MutexGuard<'_, Option<Times>> {
        // Nobody else wants it while packets pass.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins, or begins anew; there will be at most so many turns.
    pub fn begin(&self, turns: usize) {
        let histogram = || Histogram::new_with_bounds(1, LONGEST, DIGITS).ok();
        let times = |(before, now)| Times { before, now, windows: Vec::with_capacity(turns) };
        *self.taken() = histogram().zip(histogram()).map(times);
    }

    /// A window ends, and the next one begins.
    pub fn turn(&self) {
        let Some(Times { before, now, windows }) = &mut *self.taken() else { return };
        windows.extend(Sojourn::of(now));
        // They have the same bounds.
        before.add(&*now).unwrap_or(());
        now.reset();
    }

    /// Takes what there is: all times until the last turn, and those of each window. Nothing is added any more.
    pub fn end(&self) -> Option<(Histogram<u64>, Vec<Sojourn>)> {
        self.taken().take().map(|taken| (taken.before, taken.windows))
    }
}

impl Default for Sojourns {
    fn default() -> Sojourns {
        Sojourns::new()
    }
}

/// What a worker's sinks have taken.
#[derive(Debug, Default)]
pub struct Taken {
    /// How often packets came, and how many.
    pub bursts: AtomicU64,
    pub packets: AtomicU64,
}

impl Taken {
    fn add(&self, packets: usize) {
        // One thread writes.
        self.bursts.store(self.bursts.load(Relaxed) + 1, Relaxed);
        self.packets.store(self.packets.load(Relaxed) + packets as u64, Relaxed);
    }
}

/// The queue. `clock` is the source's.
pub struct Sink {
    clock: Clock,
    sojourns: Sojourns,
    count: Arc<Taken>,
    /// Packets on their way back to the pool.
    taken: Vec<Handle>,
}

impl Sink {
    /// A sink, which looks at each packet's stamp.
    pub fn new(clock: Clock, sojourns: Sojourns, count: Arc<Taken>) -> Sink {
        Sink { clock, sojourns, count, taken: Vec::with_capacity(BATCH_SIZE) }
    }

    fn look<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) {
        let now = self.clock.now();
        let mut sojourns = self.sojourns.taken();
        let Some(Times { now: histogram, .. }) = &mut *sojourns else { return };
        for frame in frames {
            let stamp =
                frame.get(STAMP..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            if stamp > 0 {
                histogram.saturating_record(now.saturating_sub(stamp).max(1));
            }
        }
    }
}

impl TransmitQueue for Sink {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        self.look(packets.iter().map(|packet| frame_of(packet, &MBUF)));
        if !packets.is_empty() {
            self.count.add(packets.len());
        }
        MBUF.free(packets);
    }

    fn send(&mut self, batch: &mut Batch, most: usize) -> usize {
        let live = batch.live();
        let mask = match live.count() <= most {
            true => live,
            false => live.iter().take(most).fold(Mask::EMPTY, |mask, slot| mask | Mask::only(slot)),
        };
        batch.append_to(mask, &mut self.taken);
        let n = self.taken.len();
        self.count.add(n);
        self.look(self.taken.iter().map(|packet| frame_of(packet, &MBUF)));
        MBUF.free(&mut self.taken);
        n
    }

    fn sends_batches(&self) -> bool {
        true
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        MBUF.free(packets);
    }
}
