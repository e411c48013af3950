// SPDX-License-Identifier: MIT
//! The thread that finds scripts which do not return, and stops them; and what scripts may cost.
//!
//! A worker's script has stalled if it is in it and has passed no batch boundary for [`Budgets::stall`], or if it was
//! asked to end that long ago. A machine that stands still is no script that does: time counts only while this thread
//! runs on time, and a thread that neither runs nor sleeps is waiting for a core.
//!
//! What cannot be stopped ends the process, by force and at once: a thread that stands in a library with a lock, or
//! takes no signal, is a worker that never forwards again, or a lock that everybody needs sooner or later. So does the
//! dynamic loader if it is locked for long, whoever holds it. This thread itself waits for nothing but its own sleep
//! and the scripts' state, and logs by [`super::notes`].

use super::loader::{Job, Loader};
use super::{Shared, Spawn};
use crate::exit::{self, Exit, Hindrance, end_by_force};
use crate::host::ScriptCounters;
use crate::vm::ScriptError;
use perigee_modules::Counters;
use perigee_worker::Stop;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often threads are looked at.
const TICK: Duration = Duration::from_millis(50);
/// A tick that takes longer than this was the machine's fault.
const LATE: Duration = Duration::from_millis(200);
/// How long a thread that stands in a library is asked in one go.
const INSIST: Duration = Duration::from_millis(100);
/// How often a thread that has answered is asked in vain before the process ends: with the pauses, about a second.
const ASKED: u32 = 6;
/// How long the dynamic loader may be locked.
const LOCKED: Duration = Duration::from_millis(2200);
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
    /// The call that it was asked to leave in vain, and how often.
    refused: (u64, u32),
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
        Watched { exit, worker: None, seen, since, cpu, asked: None, refused: (0, 0), over: 0, judged: now }
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
    let mut probe = Probe::start();
    // Workers and the loader close their VMs before they go.
    while !(shared.over.requested() && shared.state().watched.is_empty()) {
        std::thread::sleep(TICK);
        let now = Instant::now();
        let late = now.duration_since(last) > LATE;
        let stalled = stalled(shared, now, late);
        insist(&stalled);
        count_refusals(shared, &stalled, probe.is_locked());
        judge_budgets(shared, loader, now);
        probe.look(late, shared);
        // What this thread takes itself is nobody's lateness.
        last = Instant::now();
    }
}

/// A thread whose script has stalled.
struct Stalled {
    exit: Arc<Exit>,
    call: u64,
    worker: Option<usize>,
    /// Its answers and its CPU time before it was asked.
    answers: u64,
    cpu: Duration,
}

/// Threads whose scripts have stalled.
fn stalled(shared: &Shared, now: Instant, late: bool) -> Vec<Stalled> {
    let mut state = shared.state();
    let (current, stall) = (state.status.generation, state.budgets.stall);
    let mut found = Vec::new();
    for watched in &mut state.watched {
        if late {
            watched.start_again(now);
            watched.asked = None;
        } else if watched.look(now, current, stall) {
            let (exit, worker) = (watched.exit.clone(), watched.worker.as_ref().map(|worker| worker.id));
            let (answers, cpu) = (exit.answers(), exit.cpu_time().unwrap_or_default());
            found.push(Stalled { exit, call: watched.seen.0, worker, answers, cpu });
        }
    }
    found
}

/// Asks threads to leave their scripts until all have, or for [`INSIST`].
fn insist(stalled: &[Stalled]) {
    if stalled.is_empty() {
        return;
    }
    // A C module may have put a handler of its own in its place.
    exit::install_handler();
    let begin = Instant::now();
    while begin.elapsed() < INSIST {
        let mut left = stalled.iter().filter(|one| one.exit.in_script() == Some(one.call)).peekable();
        if left.peek().is_none() {
            return;
        }
        left.for_each(|one| one.exit.push(one.call));
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Counts who has not left, and ends the process for one that never will. `locked`: the dynamic loader is.
fn count_refusals(shared: &Shared, stalled: &[Stalled], locked: bool) {
    for one in stalled.iter().filter(|one| one.exit.in_script() == Some(one.call)) {
        let who = Who(one.worker);
        let hindrance = one.exit.hindrance(one.answers);
        // A thread that has not run since has not had the chance.
        let ran = one.exit.cpu_time().unwrap_or_default() > one.cpu || one.exit.sleeps_in().is_some();
        if hindrance == Hindrance::Deaf && !ran {
            continue;
        }
        // A worker may wait for who keeps the loader locked, which is not its script's fault.
        if locked && one.worker.is_some() && matches!(hindrance, Hindrance::Library(_)) {
            continue;
        }
        let mut state = shared.state();
        let Some(watched) = state.watched.iter_mut().find(|watched| watched.is_of(&one.exit)) else { continue };
        if watched.refused.0 != one.call {
            watched.refused = (one.call, 0);
        }
        watched.refused.1 += 1;
        let times = watched.refused.1;
        drop(state);
        if times >= ASKED {
            let name = one.exit.script();
            match hindrance {
                Hindrance::Deaf => {
                    end_by_force(format_args!("{who} cannot be stopped: the script {name} takes no signal"))
                }
                Hindrance::InPerigee => {
                    end_by_force(format_args!("{who} cannot be stopped: the script {name} is in a call of perigee's"))
                }
                Hindrance::Library(at) => end_by_force(format_args!(
                    "{who} cannot be stopped: the script {name} is in a call of a library, which may hold a lock \
                     (it stands in {})",
                    at.unwrap_or("a C module or machine code")
                )),
            }
        } else if times == 1 {
            shared
                .notes
                .warn(format!("{who} cannot be stopped yet: its script stands in a library, or takes no signal"));
        }
    }
}

/// Whose thread it is.
struct Who(Option<usize>);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(worker) => write!(f, "worker {worker}"),
            None => f.write_str("the script loader"),
        }
    }
}

/// Takes the dynamic loader's lock now and then, on a thread of its own: who holds it for long stops everybody who
/// starts a thread, logs for the first time or ends.
struct Probe {
    asked: Option<SyncSender<()>>,
    answers: Arc<AtomicU64>,
    questions: u64,
    /// How long there has been no answer, in ticks on time.
    silent: Duration,
    last: Instant,
}

impl Probe {
    fn start() -> Probe {
        let (asked, questions) = sync_channel::<()>(1);
        let answers = Arc::new(AtomicU64::new(0));
        let count = answers.clone();
        let body = move || {
            for () in questions {
                exit::take_loader_lock();
                // Modules that are being loaded are known before they can have stalled.
                exit::learn_modules();
                count.fetch_add(1, Ordering::Release);
            }
        };
        // Without it, there is one safeguard less.
        let started = std::thread::Builder::new().name("loader-probe".to_owned()).spawn(body);
        let (silent, last) = (Duration::ZERO, Instant::now());
        Probe { asked: started.ok().map(|_| asked), answers, questions: 0, silent, last }
    }

    /// Whether the last question has not been answered.
    fn is_locked(&self) -> bool {
        self.answers.load(Ordering::Acquire) != self.questions
    }

    fn look(&mut self, late: bool, shared: &Shared) {
        let since = std::mem::replace(&mut self.last, Instant::now());
        let Some(asked) = &self.asked else { return };
        if !self.is_locked() {
            self.silent = Duration::ZERO;
            if asked.try_send(()).is_ok() {
                self.questions += 1;
            }
            return;
        }
        if !late {
            self.silent += since.elapsed().min(LATE);
        }
        if self.silent >= LOCKED {
            let state = shared.state();
            let loader =
                state.watched.iter().find(|watched| watched.worker.is_none() && watched.exit.in_script().is_some());
            let (what, name) =
                loader.map_or(("", ""), |loader| ("; the script being loaded is ", loader.exit.script()));
            end_by_force(format_args!(
                "a C module of a script keeps the dynamic loader locked, which every thread needs sooner or \
                 later{what}{name}"
            ));
        }
    }
}

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
            OverBudget::Warn | OverBudget::RollBack => shared.notes.warn(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A C module on a file system that does not answer ended the process: the script waits for its file inside
    /// perigee, which is not left, and loading has a second.
    #[test]
    fn the_file_of_a_c_module_is_waited_for_no_longer_than_a_script_may_load() {
        assert!(crate::library::PATIENCE < LOAD);
    }

    /// A watched worker without a script, and its script's counters. The exit is this thread's.
    fn worker() -> (exit::Own, Watched, Arc<ScriptCounters>) {
        let (own, scripts) = (Exit::of_this_thread(), Arc::<ScriptCounters>::default());
        let counters = Arc::new(Counters::new(1));
        let watched = Watched::worker(3, Arc::clone(&own), counters, scripts.clone(), Stop::default());
        (own, watched, scripts)
    }

    #[test]
    fn three_times_over_budget_have_their_consequence_at_once_and_fewer_after_the_window() {
        const WINDOW: Duration = crate::scripts::WINDOW;
        let (_own, mut watched, scripts) = worker();
        scripts.started.set(9);
        let begin = watched.judged;
        let mut over = |after: Duration, times, policy| {
            (0..times).for_each(|n| {
                scripts.over_budget.add(1);
                scripts.longest_over.raise(1000 * (n + 1));
            });
            watched.over_budget(begin + after, &Budgets { over: policy, ..Budgets::default() })
        };
        let second = Duration::from_secs(1);
        assert_eq!(over(second, 2, OverBudget::RollBack), None);
        let said = "exceeded its budget 3 times in 10 s, by 2\u{b5}s at worst".to_owned();
        assert_eq!(over(second, 1, OverBudget::RollBack), Some((9, said)), "the third");
        // What was judged counts no more, and the window begins then.
        assert_eq!(over(second, 2, OverBudget::RollBack), None);
        assert_eq!(over(second + WINDOW, 0, OverBudget::RollBack), None, "two in a window are forgotten");
        assert_eq!(over(2 * second + WINDOW, 1, OverBudget::RollBack), None);
        assert_eq!(over(2 * second + WINDOW, 2, OverBudget::RollBack).map(|(generation, _)| generation), Some(9));
        // A warning is due for one, after the window.
        assert_eq!(over(3 * second + WINDOW, 1, OverBudget::Warn), None);
        let said = "exceeded its budget 1 times in 10 s, by 1\u{b5}s at worst".to_owned();
        assert_eq!(over(3 * second + 2 * WINDOW, 0, OverBudget::Warn), Some((9, said)));
        assert_eq!(over(3 * second + 3 * WINDOW, 0, OverBudget::Warn), None, "nothing has happened");
        // What is only counted waits for the window, however often it happens.
        assert_eq!(over(3 * second + 3 * WINDOW, 5, OverBudget::Count), None);
    }

    #[test]
    fn a_loader_has_no_budget_and_nobody_outside_a_script_stalls() {
        let (own, mut watched, scripts) = worker();
        let late = watched.judged + Duration::from_secs(100);
        assert!(!watched.look(late, 5, Duration::ZERO), "it is in no script");
        scripts.over_budget.add(100);
        let mut loader = Watched::loader(Arc::clone(&own));
        assert_eq!(loader.over_budget(late, &Budgets { over: OverBudget::RollBack, ..Budgets::default() }), None);
        assert!(loader.is_of(&own) && watched.is_of(&own));
        let another = std::thread::spawn(|| Arc::clone(&Exit::of_this_thread())).join().unwrap();
        assert!(!watched.is_of(&another));
    }

    #[test]
    fn a_silent_thread_is_to_blame_if_it_has_used_its_time_or_was_silent_for_long() {
        let (end, (tell, told)) = (Arc::new(AtomicU64::new(0)), sync_channel(1));
        let is_over = end.clone();
        let thread = std::thread::spawn(move || {
            tell.send(Arc::clone(&Exit::of_this_thread())).unwrap();
            while is_over.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
        });
        let mut watched = Watched::loader(told.recv().unwrap());
        let limit = Duration::from_secs(100_000);
        watched.start_again(Instant::now());
        assert!(!watched.is_to_blame(limit, limit), "it waits for a core");
        assert!(watched.is_to_blame(limit * LONG, limit));
        assert!(!watched.is_to_blame(limit * LONG - Duration::from_nanos(1), limit));
        // It runs in circles: in the end it has used half of this limit.
        let few = Duration::from_micros(100);
        let start = Instant::now();
        while !watched.is_to_blame(Duration::ZERO, few) {
            assert!(start.elapsed() < Duration::from_secs(120), "a thread that runs uses time");
            std::thread::yield_now();
        }
        // What it has used before counts no more.
        watched.cpu = limit;
        assert!(!watched.is_to_blame(Duration::from_nanos(1), few));
        end.store(1, Ordering::Relaxed);
        thread.join().unwrap();
    }

    #[test]
    fn whose_thread_it_is_stands_in_messages() {
        assert_eq!(
            (Who(Some(3)).to_string(), Who(None).to_string()),
            ("worker 3".to_owned(), "the script loader".to_owned())
        );
    }

    #[test]
    fn a_question_without_an_answer_means_a_locked_loader() {
        let mut probe = Probe::start();
        assert!(!probe.is_locked());
        probe.questions += 1;
        assert!(probe.is_locked(), "one question is not answered");
        probe.answers.fetch_add(1, Ordering::Release);
        assert!(!probe.is_locked());
    }
}
