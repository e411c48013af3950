// SPDX-License-Identifier: MIT
//! The scripts of a router's workers: which one is current, how a new one takes over, and what happens when one throws
//! or does not return.
//!
//! ```text
//!  replace ──► loader: a fresh VM for each worker ──► installed: a new generation ──► each worker's loop returns, and it
//!                │ refused: nothing changes                    ▲                      goes on in its new VM
//!                                                             │ the script before, or the built-in one
//!  watchdog: a worker without a round for too long ──left──────┤
//!  worker: its script threw ──── three times in ten seconds ───┘
//! ```
//!
//! | file | contents |
//! | --- | --- |
//! | `scripts.rs` | the current script, and a worker's life with it |
//! | `scripts/loader.rs` | the thread that loads scripts: workers open no files |
//! | `scripts/watchdog.rs` | the thread that finds workers whose script does not return, and the budgets |
//! | `scripts/notes.rs` | the thread that logs what the others say, which wait for nothing |
//!
//! A new script is loaded once per worker, each time in a fresh VM; if that fails anywhere, it is refused and nothing
//! changes. Then every worker's next look at `running()` is false, its loop returns at a batch boundary, and it goes on
//! in the new VM. A script that throws is started again in a fresh VM; after [`THROWS`] throws within [`WINDOW`] the
//! script before it returns on all workers, or the built-in one. After a stall it does so at once.

mod loader;
mod notes;
mod watchdog;

pub use watchdog::{Budgets, OverBudget};

use crate::exit::Exit;
use crate::generation::Generation;
use crate::host::{ScriptCounters, ScriptWorker};
use crate::vm::{Ended, Loaded, Script, ScriptError};
use loader::{Job, Loader, Turn};
use notes::Notes;
use perigee_modules::Context;
use perigee_worker::{Stop, Worker};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use watchdog::Watched;

/// Number of throws ...
pub const THROWS: usize = 3;
/// ... within this time after which the last good script returns.
pub const WINDOW: Duration = Duration::from_secs(10);
/// How long the slow path, which answers nobody meanwhile, waits for a script to be loaded. The watchdog ends what
/// takes longer than a second for one worker.
const LOADING: Duration = Duration::from_secs(10);
/// How long a router's start waits for its first script.
const FIRST: Duration = Duration::from_secs(120);
/// Pause before a script that keeps throwing is started again when there is none to return to.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes a context for loading: tables as the workers have them, no queues.
pub type Staging = Box<dyn FnMut() -> Context + Send>;

/// Starts a thread of a name, which gives up the privileges that it does not need before it runs the body.
pub type Spawn<'a> = &'a dyn Fn(&str, Box<dyn FnOnce() + Send>) -> std::io::Result<()>;

/// A [`Spawn`] for programs whose threads have no privileges to give up.
///
/// # Errors
/// The system's refusal.
pub fn thread(name: &str, body: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

/// What the API shows of a router's script.
#[derive(Debug, Clone)]
pub struct ScriptStatus {
    /// Path, or "built-in".
    pub name: String,
    /// Counts every change of the script.
    pub generation: u64,
    /// Since when it runs.
    pub since: SystemTime,
    /// Why it is not the one that was asked for, if it is not.
    pub reverted: Option<String>,
    /// The message of the last throw or stall of this script.
    pub last_error: Option<String>,
    /// Throws since the router was started.
    pub throws: u64,
}

struct State {
    script: Script,
    previous: Option<Script>,
    status: ScriptStatus,
    throws: VecDeque<Instant>,
    /// Each worker's throws of this script.
    thrown: Vec<u64>,
    /// A VM per worker that it has not fetched yet.
    waiting: Vec<Option<Loaded>>,
    /// Threads whose scripts are watched.
    watched: Vec<Watched>,
    budgets: Budgets,
}

/// What workers, loader and watchdog share.
struct Shared {
    state: Mutex<State>,
    /// A VM waits for a worker, or cannot be had.
    loaded: Condvar,
    current: Arc<AtomicU64>,
    counters: Vec<Arc<ScriptCounters>>,
    notes: Notes,
    /// The owners have gone: the threads end.
    over: Stop,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a script the current one. `reverted`: why it is not the one that was asked for. Returns its generation,
    /// and VMs of the one before that no worker has fetched.
    fn install(
        &self,
        script: Script,
        vms: Vec<Option<Loaded>>,
        reverted: Option<String>,
    ) -> (u64, Vec<Option<Loaded>>) {
        let mut guard = self.state();
        let state = &mut *guard;
        let before = std::mem::replace(&mut state.waiting, vms);
        let last = std::mem::replace(&mut state.script, script);
        // What was taken back must not come back in its turn.
        state.previous = if reverted.is_some() { None } else { Some(last) };
        state.throws.clear();
        state.thrown.fill(0);
        state.status.last_error = None;
        state.status.name.clone_from(&state.script.name);
        state.status.since = SystemTime::now();
        state.status.reverted = reverted;
        state.status.generation += 1;
        self.current.store(state.status.generation, Ordering::Release);
        self.loaded.notify_all();
        (state.status.generation, before)
    }
}

/// The scripts of all workers; shared by the control side and the workers.
#[derive(Clone)]
pub struct Scripts {
    shared: Arc<Shared>,
    loader: Loader,
    _end: Arc<End>,
}

/// Ends the threads when the last of the owners goes.
struct End(Stop);

impl Drop for End {
    fn drop(&mut self) {
        self.0.request();
    }
}

/// What happened to a script at run time, and what follows.
enum Failure {
    Threw(String),
    Stalled(String),
}

impl Scripts {
    /// Loads the first script, once per worker, and starts loader and watchdog.
    ///
    /// # Errors
    /// The script does not load, or a thread cannot be started.
    pub fn new(
        script: Script,
        workers: usize,
        staging: Staging,
        budgets: Budgets,
        spawn: Spawn<'_>,
    ) -> Result<Scripts, ScriptError> {
        let status = ScriptStatus {
            name: script.name.clone(),
            generation: 0,
            since: SystemTime::now(),
            reverted: None,
            last_error: None,
            throws: 0,
        };
        let state = State {
            script: script.clone(),
            previous: None,
            status,
            throws: VecDeque::new(),
            thrown: vec![0; workers],
            waiting: (0..workers).map(|_| None).collect(),
            watched: Vec::new(),
            budgets,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            loaded: Condvar::new(),
            current: Arc::default(),
            counters: (0..workers).map(|_| Arc::default()).collect(),
            notes: Notes::start(spawn)?,
            over: Stop::default(),
        });
        let end = Arc::new(End(shared.over.clone()));
        let loader = Loader::start(&shared, staging, spawn)?;
        watchdog::start(&shared, loader.clone(), spawn)?;
        let scripts = Scripts { loader, shared, _end: end };
        scripts.set_budgets(budgets);
        scripts.replace_within(FIRST, move || Ok(script))?;
        // There was none before the first.
        scripts.shared.state().previous = None;
        Ok(scripts)
    }

    /// Replaces the script on all workers, or refuses it and changes nothing. Returns the new generation; workers may
    /// not have it yet: see [`Self::late`].
    ///
    /// # Errors
    /// It does not load, or takes longer than a second to do so.
    pub fn replace(&self, script: Script) -> Result<u64, ScriptError> {
        self.replace_by(move || Ok(script))
    }

    /// [`Self::replace`] by a script that the loader's thread finds.
    ///
    /// # Errors
    /// Those of `read`, and as there.
    pub fn replace_by(
        &self,
        read: impl FnOnce() -> Result<Script, ScriptError> + Send + 'static,
    ) -> Result<u64, ScriptError> {
        self.replace_within(LOADING, read)
    }

    fn replace_within(
        &self,
        patience: Duration,
        read: impl FnOnce() -> Result<Script, ScriptError> + Send + 'static,
    ) -> Result<u64, ScriptError> {
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        let turn = Turn::default();
        self.loader.ask(Job::Replace(Box::new(read), reply, turn.clone()));
        let ended = || ScriptError::Load("the thread that loads scripts has ended".to_owned());
        match answer.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
            // Either nothing comes of it any more, or it is being installed, which takes no time.
            Err(RecvTimeoutError::Timeout) if turn.take() => Err(ScriptError::Late(patience)),
            Err(RecvTimeoutError::Timeout) => answer.recv().unwrap_or_else(|_| Err(ended())),
        }
    }

    /// Workers that have not finished a round of their loop with the script of a generation.
    pub fn late(&self, generation: u64) -> Vec<usize> {
        let late = |(_, counters): &(usize, &Arc<ScriptCounters>)| counters.generation.get() < generation;
        self.shared.counters.iter().enumerate().filter(late).map(|(worker, _)| worker).collect()
    }

    /// Changes the budgets.
    pub fn set_budgets(&self, budgets: Budgets) {
        for counters in &self.shared.counters {
            counters.round_budget.set(budgets.round_ns);
            counters.collection_budget.set(budgets.collection_ns);
        }
        self.shared.state().budgets = budgets;
    }

    /// The script that runs now.
    pub fn current(&self) -> Script {
        self.shared.state().script.clone()
    }

    /// What the API shows of it.
    pub fn status(&self) -> ScriptStatus {
        self.shared.state().status.clone()
    }

    /// How often the script that runs now has thrown, on each worker.
    pub fn thrown(&self) -> Vec<u64> {
        self.shared.state().thrown.clone()
    }

    /// Each worker's counters.
    pub fn counters(&self) -> &[Arc<ScriptCounters>] {
        &self.shared.counters
    }

    /// The VM that waits for a worker, and its generation; asks for one if it has fetched that already. `None` if the
    /// router stops.
    fn fetch(&self, worker: usize, stop: &Stop) -> Option<(Loaded, u64)> {
        let mut state = self.shared.state();
        let mut asked = None;
        while !stop.requested() {
            let generation = state.status.generation;
            if let Some(loaded) = state.waiting.get_mut(worker).and_then(Option::take) {
                return Some((loaded, generation));
            }
            if asked != Some(generation) {
                asked = Some(generation);
                self.loader.ask(Job::Again { worker, generation });
            }
            let waited = self.shared.loaded.wait_timeout(state, PAUSE / 10);
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        None
    }

    /// A worker's script failed. Returns how long to wait before it is started again.
    fn failed(&self, worker: usize, generation: u64, failure: Failure) -> Duration {
        let (message, stalled) = match failure {
            Failure::Threw(message) => (message, false),
            Failure::Stalled(message) => (message, true),
        };
        self.shared.notes.warn(format!("worker {worker}: {message}"));
        let mut state = self.shared.state();
        state.status.throws += u64::from(!stalled);
        if generation != state.status.generation {
            return Duration::ZERO;
        }
        state.status.last_error = Some(message.clone());
        if let Some(thrown) = state.thrown.get_mut(worker) {
            *thrown += u64::from(!stalled);
        }
        let now = Instant::now();
        state.throws.push_back(now);
        while state.throws.front().is_some_and(|first| now.duration_since(*first) > WINDOW) {
            state.throws.pop_front();
        }
        if state.throws.len() < THROWS && !stalled {
            return Duration::ZERO;
        }
        let why = match stalled {
            true => message,
            false => format!("{} threw {THROWS} times in {} s: {message}", state.script.name, WINDOW.as_secs()),
        };
        self.loader.ask(Job::Revert { generation, why });
        // Where there is nothing to return to, it is tried again, slowly.
        if state.previous.is_none() && state.script == Script::builtin() { PAUSE } else { Duration::ZERO }
    }

    /// Runs a worker's scripts, one after the other, until the router stops; gives the worker back.
    pub fn run(&self, worker: Worker) {
        let (id, Some(counters)) = (worker.id(), self.shared.counters.get(worker.id()).cloned()) else { return };
        let (exit, stop) = (Exit::of_this_thread(), worker.stop());
        let generation = Generation::none(self.shared.current.clone());
        let mut worker = ScriptWorker::new(worker, generation, counters.clone());
        let rounds = worker.worker().context().counters.clone();
        self.shared.state().watched.push(Watched::worker(id, exit.clone(), rounds, counters.clone(), stop.clone()));
        while let Some((mut loaded, generation)) = self.fetch(id, &stop) {
            worker.begin(generation);
            let result = loaded.run(&mut worker, &exit);
            let name = loaded.name.clone();
            // Its finalizers are the script's code: they run while what they may hold is there, and are stopped like
            // the loop.
            let closed = loaded.close(&exit);
            let ended = !worker.running();
            worker.take_back(result.is_err());
            let failure = match result {
                Ok(()) if closed.is_err() => {
                    counters.stalls.add(1);
                    Failure::Stalled(format!("the finalizers of {name} did not return and were stopped"))
                }
                Ok(()) if ended => continue,
                Ok(()) => Failure::Threw("the script's loop returned although it was not to end".to_owned()),
                Err(Ended::Threw(message)) => Failure::Threw(message),
                Err(Ended::Left) => {
                    counters.stalls.add(1);
                    let what = if ended { "went on although its loop was to end" } else { "did not return" };
                    let limit = self.shared.state().budgets.stall;
                    Failure::Stalled(format!("{name} {what} for {limit:?} and was stopped"))
                }
            };
            if matches!(failure, Failure::Threw(_)) {
                counters.throws.add(1);
            }
            if !(ended && stop.requested()) {
                std::thread::sleep(self.failed(id, generation, failure));
            }
        }
        self.shared.state().watched.retain(|watched| !watched.is_of(&exit));
        worker.worker().finish();
    }
}
