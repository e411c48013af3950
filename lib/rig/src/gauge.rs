// SPDX-License-Identifier: MIT
//! The clock of a worker that is measured. Its loop reads it once per round, so the loop is exactly the one of a router
//! that runs, and nothing else looks at the time.

use crate::request::Request;
use crate::sink::Sojourns;
use crate::source::Count;
use nix::time::{ClockId, clock_gettime};
use perigee_dpdk::Clock;
use perigee_modules::{Counters, MODULES};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A round longer than this in ns is a gap: something else had the core.
const GAP: u64 = 10_000;

/// A worker's counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Look {
    pub now: u64,
    pub cpu: u64,
    pub received: u64,
    pub bursts: u64,
    pub rounds: u64,
    pub sleeps: u64,
    pub offered: u64,
    pub lost: u64,
    /// Gaps so far, and the time in them.
    pub gaps: u64,
    pub in_gaps: u64,
}

impl Look {
    /// What was counted since an earlier look.
    pub fn since(&self, first: &Look) -> Look {
        Look {
            now: self.now - first.now,
            cpu: self.cpu - first.cpu,
            received: self.received - first.received,
            bursts: self.bursts - first.bursts,
            rounds: self.rounds - first.rounds,
            sleeps: self.sleeps - first.sleeps,
            offered: self.offered - first.offered,
            lost: self.lost - first.lost,
            gaps: self.gaps - first.gaps,
            in_gaps: self.in_gaps - first.in_gaps,
        }
    }
}

/// Time and packets of timed bursts: of each module in the registry's order, and of the script between them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Times {
    pub modules: Vec<(u64, u64)>,
    pub script: (u64, u64),
}

impl Times {
    fn of(counters: &Counters) -> Times {
        Times {
            modules: (0..MODULES.len()).map(|index| counters.module_time(index)).collect(),
            script: (counters.script_time(), counters.timed_packets.get()),
        }
    }
}

/// The clock.
pub(crate) struct Gauge {
    clock: Clock,
    counters: Arc<Counters>,
    sojourns: Sojourns,
    sources: Vec<Arc<Count>>,
    /// Nanoseconds before the first look, and between it and each of the next ones; how many windows that makes.
    warm: u64,
    window: u64,
    windows: usize,
    looks: Mutex<Vec<Look>>,
    /// Before the first window.
    begun: Mutex<Times>,
    /// When to look next.
    due: AtomicU64,
    /// When the last round was, gaps so far, and the time in them.
    round: AtomicU64,
    gaps: AtomicU64,
    in_gaps: AtomicU64,
}

impl Gauge {
    pub fn new(
        clock: Clock,
        counters: Arc<Counters>,
        sojourns: Sojourns,
        sources: Vec<Arc<Count>>,
        request: &Request,
    ) -> Gauge {
        Gauge {
            clock,
            counters,
            sojourns,
            sources,
            warm: request.warm.as_nanos() as u64,
            window: request.time.as_nanos() as u64 / request.windows as u64,
            windows: request.windows,
            looks: Mutex::new(Vec::with_capacity(request.windows + 1)),
            begun: Mutex::default(),
            due: AtomicU64::new(0),
            round: AtomicU64::new(u64::MAX),
            gaps: AtomicU64::new(0),
            in_gaps: AtomicU64::new(0),
        }
    }

    /// The time in ns; measures by the way.
    #[inline]
    pub fn now(&self) -> u64 {
        let now = self.clock.now();
        let since = now.saturating_sub(self.round.load(Relaxed));
        if since > GAP {
            self.gaps.store(self.gaps.load(Relaxed) + 1, Relaxed);
            self.in_gaps.store(self.in_gaps.load(Relaxed) + since, Relaxed);
        }
        self.round.store(now, Relaxed);
        if now >= self.due.load(Relaxed) {
            self.turn(now);
        }
        now
    }

    #[cold]
    fn turn(&self, now: u64) {
        if self.due.load(Relaxed) == 0 {
            return self.due.store(now + self.warm.max(1), Relaxed);
        }
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.is_empty() {
            self.sojourns.begin(self.windows);
            *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Times::of(&self.counters);
        }
        if !looks.is_empty() && looks.len() <= self.windows {
            self.sojourns.turn();
        }
        looks.push(self.look(now));
        // The worker goes on; what passes then is not asked for.
        let next = if looks.len() > self.windows { u64::MAX } else { now + self.window };
        self.due.store(next, Relaxed);
    }

    fn look(&self, now: u64) -> Look {
        let counters = &self.counters;
        let cpu = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
        let beside = self.sources.iter().map(|count| count.beside.load(Relaxed)).sum();
        Look {
            now,
            cpu: (cpu.as_nanos() as u64).saturating_sub(beside),
            received: counters.received.get(),
            bursts: counters.bursts.get(),
            rounds: counters.rounds.get(),
            sleeps: counters.sleeps.get(),
            offered: self.sources.iter().map(|count| count.offered.load(Relaxed)).sum(),
            lost: self.sources.iter().map(|count| count.lost.load(Relaxed)).sum(),
            gaps: self.gaps.load(Relaxed),
            in_gaps: self.in_gaps.load(Relaxed),
        }
    }

    /// What was counted in each window; fewer of them while it is still measured.
    pub fn windows(&self) -> Vec<Look> {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.windows(2).map(|pair| pair[1].since(&pair[0])).collect()
    }

    /// What timed bursts took since the first window began.
    pub fn times(&self) -> Times {
        let (begun, now) = (self.begun.lock().unwrap_or_else(PoisonError::into_inner), Times::of(&self.counters));
        let since = |now: (u64, u64), then: (u64, u64)| (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1));
        let modules = now.modules.iter().zip(&begun.modules).map(|(now, then)| since(*now, *then)).collect();
        Times { modules, script: since(now.script, begun.script) }
    }

    /// Has the measurement ended?
    pub fn is_over(&self) -> bool {
        self.windows().len() == self.windows
    }
}
