// SPDX-License-Identifier: MIT
//! The thread that finds scripts which do not return, and stops them; and what scripts may cost.
//!
//! A worker's script has stalled if it is in it and has passed no batch boundary for [`Budgets::stall`], or if it was asked to end
//! that long ago. A machine that stands still is no script that does: time counts only while this thread runs on time, and a thread
//! that neither runs nor sleeps is waiting for a core.

use super::loader::{Job, Loader};
use super::{Shared, Spawn};
use crate::exit::Exit;
use crate::host::ScriptCounters;
use crate::vm::ScriptError;
use perigee_modules::Counters;
use perigee_worker::Stop;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often threads are looked at.
const TICK: Duration = Duration::from_millis(50);
/// A tick that takes longer than this was the machine's fault.
const LATE: Duration = Duration::from_millis(200);
/// How long a thread that stands in a library is asked in one go.
const INSIST: Duration = Duration::from_millis(100);
/// After so many times its budget a script is stopped even if it seems to wait for a core.
const LONG: u32 = 10;
/// The longest that a script may take to load, in C or machine code; in interpreted code instructions are counted.
const LOAD: Duration = Duration::from_secs(1);
/// How long a script that was asked to end has, if that is shorter than its budget.
const END: Duration = Duration::from_millis(500);
/// Rounds or collections over their budget within [`super::WINDOW`] that make the last good script return.
const TOO_MANY: u64 = 3;

/// What a script may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// Time without a batch boundary after which a script is stopped, and the last good one returns.
    pub stall: Duration,
    /// Time that one round of its loop may take, in ns; 0 for any.
    pub round_ns: u64,
    /// Time that one step of its garbage collector may take, in ns; 0 for any.
    pub collection_ns: u64,
    /// What follows when one of the last two is exceeded.
    pub over: OverBudget,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets { stall: Duration::from_millis(700), round_ns: 0, collection_ns: 0, over: OverBudget::Count }
    }
}

/// What follows when a script exceeds its budget for a round or a collection. It is counted in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverBudget {
    /// Nothing else.
    #[default]
    Count,
    /// A warning is logged, every ten seconds at most.
    Warn,
    /// After three times in ten seconds the last good script returns.
    RollBack,
}

/// A thread whose scripts are watched.
pub(super) struct Watched {
    exit: Arc<Exit>,
    worker: Option<WorkerEnd>,
    /// The call and the round it was last seen in, since when, and the thread's CPU time then.
    seen: (u64, u64),
    since: Instant,
    cpu: Duration,
    /// Since when its script has been asked to end.
    asked: Option<Instant>,
    /// Times over budget when that was last judged, and when.
    over: u64,
    judged: Instant,
}

struct WorkerEnd {
    id: usize,
    counters: Arc<Counters>,
    scripts: Arc<ScriptCounters>,
    stop: Stop,
}

impl Watched {
    pub(super) fn worker(
        id: usize,
        exit: Arc<Exit>,
        counters: Arc<Counters>,
        scripts: Arc<ScriptCounters>,
        stop: Stop,
    ) -> Watched {
        Watched { worker: Some(WorkerEnd { id, counters, scripts, stop }), ..Watched::loader(exit) }
    }

    pub(super) fn loader(exit: Arc<Exit>) -> Watched {
        let now = Instant::now();
        let (seen, since, cpu) = ((0, 0), now, Duration::ZERO);
        Watched { exit, worker: None, seen, since, cpu, asked: None, over: 0, judged: now }
    }

    pub(super) fn is_of(&self, exit: &Arc<Exit>) -> bool {
        Arc::ptr_eq(&self.exit, exit)
    }

    /// Notes what the thread has done since the last look; returns whether its script has stalled.
    fn look(&mut self, now: Instant, current: u64, stall: Duration) -> bool {
        let Some(call) = self.exit.in_script() else {
            self.asked = None;
            return false;
        };
        let rounds = self.worker.as_ref().map_or(0, |worker| worker.counters.rounds.get());
        let to_end = self.worker.as_ref().is_some_and(|w| w.stop.requested() || w.scripts.started.get() != current);
        match to_end {
            true => _ = self.asked.get_or_insert(now),
            false => self.asked = None,
        }
        if self.seen != (call, rounds) {
            self.seen = (call, rounds);
            self.start_again(now);
        }
        let limit = if self.worker.is_some() { stall } else { LOAD };
        let asked = self.asked.is_some_and(|asked| now.duration_since(asked) >= limit.min(END));
        let silent = now.duration_since(self.since) >= limit;
        asked || (silent && self.is_to_blame(now.duration_since(self.since), limit))
    }

    fn start_again(&mut self, now: Instant) {
        self.since = now;
        self.cpu = self.exit.cpu_time().unwrap_or_default();
    }

    /// Whether the silence is the script's doing: it has used its time, or sleeps. Otherwise it waits for a core.
    fn is_to_blame(&self, silent: Duration, limit: Duration) -> bool {
        let used = self.exit.cpu_time().unwrap_or_default().saturating_sub(self.cpu);
        used >= limit / 2 || self.exit.sleeps_in().is_some() || silent >= limit * LONG
    }

    /// Counts what exceeds the budgets since the last look; returns a sentence about it if a consequence is due.
    fn over_budget(&mut self, now: Instant, budgets: &Budgets) -> Option<(u64, String)> {
        let worker = self.worker.as_ref()?;
        let total = worker.scripts.over_budget.get();
        let more = total - self.over;
        if now.duration_since(self.judged) < super::WINDOW && (more < TOO_MANY || budgets.over == OverBudget::Count) {
            return None;
        }
        (self.over, self.judged) = (total, now);
        let gap = Duration::from_nanos(worker.scripts.longest_over.take());
        let enough = more >= if budgets.over == OverBudget::RollBack { TOO_MANY } else { 1 };
        let text = format!("exceeded its budget {more} times in {} s, by {gap:?} at worst", super::WINDOW.as_secs());
        enough.then_some((worker.scripts.started.get(), text))
    }
}

/// Starts the thread.
pub(super) fn start(shared: &Arc<Shared>, loader: Loader, spawn: Spawn<'_>) -> Result<(), ScriptError> {
    let shared = shared.clone();
    let started = spawn("watchdog", Box::new(move || run(&shared, &loader)));
    started.map_err(|error| ScriptError::Load(format!("the thread that watches scripts does not start: {error}")))
}

fn run(shared: &Shared, loader: &Loader) {
    let mut last = Instant::now();
    while !shared.over.requested() {
        std::thread::sleep(TICK);
        let now = Instant::now();
        let late = now.duration_since(last) > LATE;
        last = now;
        for (exit, call, worker) in stalled(shared, now, late) {
            insist(&exit, call, worker);
        }
        judge_budgets(shared, loader, now);
    }
}

/// Threads whose scripts have stalled.
fn stalled(shared: &Shared, now: Instant, late: bool) -> Vec<(Arc<Exit>, u64, Option<usize>)> {
    let mut state = shared.state();
    let (current, stall) = (state.status.generation, state.budgets.stall);
    let mut found = Vec::new();
    for watched in &mut state.watched {
        if late {
            watched.start_again(now);
            watched.asked = None;
        } else if watched.look(now, current, stall) {
            found.push((watched.exit.clone(), watched.seen.0, watched.worker.as_ref().map(|worker| worker.id)));
        }
    }
    found
}

/// Asks a thread to leave its script until it has, or for [`INSIST`].
fn insist(exit: &Exit, call: u64, worker: Option<usize>) {
    let begin = Instant::now();
    while exit.in_script() == Some(call) {
        let asleep = exit.sleeps_in().is_some_and(|call| HARMLESS.contains(&call));
        exit.push(call, asleep);
        std::thread::sleep(Duration::from_micros(200));
        if begin.elapsed() >= INSIST {
            let who = worker.map_or("the script loader".to_owned(), |worker| format!("worker {worker}"));
            return tracing::warn!("{who} cannot be stopped yet: its script stands in a library");
        }
    }
}

/// System calls in which a thread of the C library's holds none of its locks.
const HARMLESS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    libc::SYS_flock,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_rt_sigtimedwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

fn judge_budgets(shared: &Shared, loader: &Loader, now: Instant) {
    let mut state = shared.state();
    let budgets = state.budgets;
    let mut found = Vec::new();
    for watched in &mut state.watched {
        found.extend(watched.over_budget(now, &budgets));
    }
    let name = state.script.name.clone();
    let current = state.status.generation;
    drop(state);
    for (generation, what) in found {
        let why = format!("{name} {what}");
        match budgets.over {
            OverBudget::Count => {}
            OverBudget::RollBack if generation == current => loader.ask(Job::Revert { generation, why }),
            OverBudget::Warn | OverBudget::RollBack => tracing::warn!("{why}"),
        }
    }
}
