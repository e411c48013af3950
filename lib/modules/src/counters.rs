// SPDX-License-Identifier: MIT
//! A worker's counters: written by that worker alone, read by any thread at any time.

use crate::reason::{REASON_COUNT, Reason, VALUES};
use crate::registry::ModuleId;
use perigee_packet::Mask;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with a single writer: adding is a load and a store, not a locked instruction.
#[derive(Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; to be called by its one writer only, or counts get lost.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Sets it (for gauges).
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Raises it to `n` if it is below (for maxima).
    #[inline(always)]
    pub fn raise(&self, n: u64) {
        if n > self.0.load(Ordering::Relaxed) {
            self.0.store(n, Ordering::Relaxed);
        }
    }

    /// Resets a maximum to 0 and returns its previous value. Any thread may do this: at worst, a value that the writer
    /// is comparing at that moment is lost.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// Its value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Calls of a module, and packets that came into it.
#[derive(Default)]
struct ModuleCounter {
    calls: Counter,
    packets: Counter,
}

macro_rules! worker_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one worker, on cache lines of their own.
        #[repr(align(128))]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
            modules: [ModuleCounter; ModuleId::COUNT],
            times: Box<[(Counter, Counter)]>,
            reasons: Box<[Counter]>,
            transmitted: Box<[Counter]>,
            lost: Box<[Counter]>,
            values: Box<[Counter]>,
        }

        impl Counters {
            /// Counters at zero, for a router with `ports` ports.
            pub fn new(ports: usize) -> Counters {
                let pairs = |n| std::iter::repeat_with(Default::default).take(n).collect();
                let zeros = |n| std::iter::repeat_with(Counter::default).take(n).collect();
                Counters {
                    $($name: Counter::default(),)*
                    modules: Default::default(),
                    times: pairs(ModuleId::COUNT),
                    reasons: zeros(REASON_COUNT),
                    transmitted: zeros(ports),
                    lost: zeros(ports),
                    values: zeros(VALUES),
                }
            }

            /// The worker's own counters by name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.get()),)*].into_iter()
            }
        }
    };
}

worker_counters! {
    /// Rounds of the loop: batch boundaries passed.
    rounds,
    /// Polls of receive queues.
    polls,
    /// Polls that brought packets.
    bursts,
    /// Packets received.
    received,
    /// Bytes received.
    received_bytes,
    /// Packets handed to the worker their flow belongs to, as the port has too few queues.
    handed_over,
    /// Packets given to the slow path.
    punted,
    /// Packets a script left in its batch: freed by the host.
    unclaimed,
    /// What `count` counted: packets.
    counted,
    /// What `count` counted: bytes.
    counted_bytes,
    /// Times the worker slept.
    sleeps,
    /// How long the bursts took that were timed (`stopwatch.rs`), in ns.
    timed,
    /// Packets of these bursts.
    timed_packets,
    /// Table versions acknowledged.
    table_swaps,
    /// A maximum, not a sum: the longest time between two rounds of the loop, in ns, since it was last reset to 0. Intended
    /// sleep of the worker does not count.
    longest_gap,
}

impl Counters {
    /// Counts a call of a module with the packets of a mask; returns whether there are any.
    #[inline(always)]
    pub fn enter(&self, module: ModuleId, mask: Mask) -> bool {
        let ModuleCounter { calls, packets } = &self.modules[module as usize];
        calls.add(1);
        let any = !mask.is_empty();
        if any {
            packets.add(mask.count() as u64);
        }
        any
    }

    /// Counts a call of a module with `n` packets.
    #[inline(always)]
    pub fn module(&self, module: ModuleId, n: usize) {
        let ModuleCounter { calls, packets } = &self.modules[module as usize];
        calls.add(1);
        packets.add(n as u64);
    }

    /// Counts that a module took so many ns for so many packets of a timed burst.
    pub fn timed_module(&self, module: ModuleId, ns: u64, packets: usize) {
        let (time, counted) = &self.times[module as usize];
        time.add(ns);
        counted.add(packets as u64);
    }

    /// The ns that a module took in timed bursts, and for how many packets.
    pub fn module_time(&self, index: usize) -> (u64, u64) {
        self.times.get(index).map_or((0, 0), |(time, packets)| (time.get(), packets.get()))
    }

    /// The ns of timed bursts that were no module's, but the script's.
    pub fn script_time(&self) -> u64 {
        let modules: u64 = self.times.iter().map(|(time, _)| time.get()).sum();
        self.timed.get().saturating_sub(modules)
    }

    /// Calls of a module.
    pub fn module_calls(&self, index: usize) -> u64 {
        self.modules.get(index).map_or(0, |module| module.calls.get())
    }

    /// Packets that came into a module.
    pub fn module_packets(&self, index: usize) -> u64 {
        self.modules.get(index).map_or(0, |module| module.packets.get())
    }

    /// Counts `n` packets under a reason.
    #[inline]
    pub fn reason(&self, reason: Reason, n: usize) {
        self.reasons[reason.index()].add(n as u64);
    }

    /// Sets what has been counted under a reason so far, by somebody else.
    pub fn set_reason(&self, reason: Reason, packets: u64) {
        self.reasons[reason.index()].set(packets);
    }

    /// Sets how many packets have come into a module so far, by somebody else's count.
    pub fn set_module(&self, index: usize, packets: u64) {
        if let Some(module) = self.modules.get(index) {
            module.packets.set(packets);
        }
    }

    /// A counter or gauge of the script, by its number.
    pub fn value(&self, number: u16) -> Option<&Counter> {
        self.values.get(usize::from(number))
    }

    /// Packets that left under a reason.
    pub fn reason_packets(&self, reason: Reason) -> u64 {
        self.reasons[reason.index()].get()
    }

    /// Counts packets that a port's transmit queue took.
    #[inline]
    pub fn transmitted(&self, port: u16, packets: usize) {
        if let Some(counter) = self.transmitted.get(usize::from(port)) {
            counter.add(packets as u64);
        }
    }

    /// Counts packets that a port's transmit queue had no room for.
    #[cold]
    pub fn lost(&self, port: u16, packets: usize) {
        if let Some(counter) = self.lost.get(usize::from(port)) {
            counter.add(packets as u64);
        }
    }

    /// Packets of this worker that a port's transmit queue had no room for.
    pub fn port_lost(&self, port: u16) -> u64 {
        self.lost.get(usize::from(port)).map_or(0, Counter::get)
    }

    /// Packets that a port's transmit queue took from this worker.
    pub fn port_transmitted(&self, port: u16) -> u64 {
        self.transmitted.get(usize::from(port)).map_or(0, Counter::get)
    }
}
