// SPDX-License-Identifier: MIT
//! A receive queue that makes its packets when it is asked for them: a device without a device.
//!
//! Its driver costs what a driver costs: a buffer from the pool and the bytes of the headers for each packet. The bytes
//! behind them are whatever the buffer held, as no router looks at them. Nothing runs beside the worker, so one core is
//! enough to load it fully, or at any rate.

use crate::arrivals::Arrivals;
use crate::traffic::{Entry, HEADERS, STAMP, Traffic};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use perigee_dpdk::Clock;
use perigee_packet::{BATCH_SIZE, Batch, Pool, ReceiveQueue, Wakes};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One packet in so many carries the time of its arrival: a prime number, so that all places in a burst have their
/// turn.
const STAMPED: u64 = 7;

/// What a source has counted, for other threads.
#[derive(Debug, Default)]
pub struct Count {
    /// Packets that came to the ring.
    pub offered: AtomicU64,
    /// Those that found it full.
    pub lost: AtomicU64,
    /// CPU time in ns that is the generator's and not the worker's.
    pub beside: AtomicU64,
}

/// The queue.
pub struct Source {
    pool: Arc<dyn Pool>,
    port: u16,
    traffic: Arc<Traffic>,
    lengths: Vec<u16>,
    /// The next packet's number among the entries.
    at: usize,
    /// Packets so far.
    packets: u64,
    arrivals: Arrivals,
    clock: Clock,
    count: Arc<Count>,
    /// What wakes a worker that sleeps, if anything does.
    timer: Option<TimerFd>,
}

impl Source {
    /// A queue of this port. `wakes`: a worker that sleeps is woken by the next
    /// one, as by an interrupt.
    ///
    /// # Errors
    /// The system refuses a timer.
    pub fn new(
        pool: Arc<dyn Pool>,
        port: u16,
        traffic: Arc<Traffic>,
        first: usize,
        arrivals: Arrivals,
        clock: Clock,
        wakes: bool,
    ) -> nix::Result<Source> {
        let timer = || TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC);
        Ok(Source {
            pool,
            port,
            lengths: vec![traffic.length; BATCH_SIZE],
            at: first % traffic.entries.len().max(1),
            traffic,
            packets: 0,
            arrivals,
            clock,
            count: Arc::default(),
            timer: wakes.then(timer).transpose()?,
        })
    }

    /// Where it counts.
    pub fn count(&self) -> Arc<Count> {
        self.count.clone()
    }
}

impl ReceiveQueue for Source {
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let burst = burst.min(BATCH_SIZE);
        let arrivals = &mut self.arrivals;
        let times = arrivals.take(self.clock.now(), burst);
        let n = times.len();
        if n == 0 || self.pool.fill(batch, &self.lengths[..n]) == 0 {
            return 0;
        }
        for (slot, time) in times.enumerate() {
            let stamp = if self.packets.is_multiple_of(STAMPED) { time } else { 0 };
            if let Some(mut slot) = batch.slot(slot as u8) {
                self.traffic.write(slot.frame_mut(), self.traffic.entries[self.at], stamp);
            }
            self.at = if self.at + 1 < self.traffic.entries.len() { self.at + 1 } else { 0 };
            self.packets += 1;
        }
        self.count.offered.store(arrivals.offered, Relaxed);
        self.count.lost.store(arrivals.lost, Relaxed);
        batch.set_ports(self.port);
        n
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.timer.as_ref().map(TimerFd::as_fd)
    }

    fn arm(&mut self) -> bool {
        let (Some(timer), arrivals) = (&self.timer, &self.arrivals) else { return false };
        let now = self.clock.now();
        let wait = match arrivals.next() {
            Some(next) if arrivals.is_empty() => next.saturating_sub(now),
            _ => 0,
        };
        // Nothing would switch it off.
        let wait = Duration::from_nanos(wait.max(1));
        timer.set(Expiration::OneShot(TimeSpec::from(wait)), TimerSetTimeFlags::empty()).is_ok()
    }

    fn disarm(&mut self) {
        if let Some(timer) = &self.timer {
            // One that has not been read stays readable: setting it takes that back.
            let _ = timer.unset();
        }
    }

    fn wakes(&self) -> Wakes {
        if self.timer.is_some() { Wakes::Interrupt } else { Wakes::Timer }
    }
}

impl Traffic {
    /// Writes the headers of an entry's packet, and a stamp behind them.
    #[inline(always)]
    pub(crate) fn write(&self, frame: &mut [u8], entry: Entry, stamp: u64) {
        let Some(frame) = frame.first_chunk_mut::<HEADERS>() else { return };
        *frame = self.template;
        frame[22] = entry.ttl;
        frame[24..26].copy_from_slice(&entry.checksum);
        frame[30..34].copy_from_slice(&entry.destination);
        frame[STAMP..STAMP + 8].copy_from_slice(&stamp.to_ne_bytes());
    }
}
