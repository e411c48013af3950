// SPDX-License-Identifier: MIT
//! The scripts of a router's workers: which one is current, how a new one takes over, and what happens when one throws.
//!
//! A new script is loaded once per worker, each time in a fresh VM, on the thread that asks; if that fails anywhere, it is
//! refused and nothing changes. Then every worker's next look at `running()` is false, its loop returns at a batch
//! boundary, and it goes on in the new VM. A script that throws is started again in a fresh VM; after
//! [`THROWS`] throws within [`WINDOW`] the script before it returns on all workers, or the built-in one.

use crate::generation::Generation;
use crate::host::{ScriptCounters, ScriptWorker};
use crate::vm::{Loaded, Script, ScriptError};
use perigee_modules::Context;
use perigee_worker::Worker;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Number of throws ...
pub const THROWS: usize = 3;
/// ... within this time after which the last good script returns.
pub const WINDOW: Duration = Duration::from_secs(10);
/// Pause before a script that keeps throwing is started again when there is none to return to.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes a context for loading: tables as the workers have them, no queues.
pub type Staging = Box<dyn FnMut() -> Context + Send>;

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
    /// The message of the last throw.
    pub last_error: Option<String>,
    /// Throws since the router was started.
    pub throws: u64,
}

struct State {
    script: Script,
    previous: Option<Script>,
    status: ScriptStatus,
    throws: VecDeque<Instant>,
    staging: Staging,
    /// A VM per worker that it has not fetched yet.
    waiting: Vec<Option<Loaded>>,
}

/// The scripts of all workers; shared by the control side and the workers.
#[derive(Clone)]
pub struct Scripts {
    state: Arc<Mutex<State>>,
    current: Arc<AtomicU64>,
    counters: Arc<Vec<Arc<ScriptCounters>>>,
}

impl Scripts {
    /// Loads the first script, once per worker.
    pub fn new(script: Script, workers: usize, mut staging: Staging) -> Result<Scripts, ScriptError> {
        let waiting = load_all(&script, workers, &mut staging)?;
        let status = ScriptStatus {
            name: script.name.clone(),
            generation: 1,
            since: SystemTime::now(),
            reverted: None,
            last_error: None,
            throws: 0,
        };
        let state = State { script, previous: None, status, throws: VecDeque::new(), staging, waiting };
        let counters = (0..workers).map(|_| Arc::default()).collect();
        Ok(Scripts {
            state: Arc::new(Mutex::new(state)),
            current: Arc::new(AtomicU64::new(1)),
            counters: Arc::new(counters),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the script on all workers, or refuses it and changes nothing. Returns the new generation.
    pub fn replace(&self, script: Script) -> Result<u64, ScriptError> {
        self.install(&mut self.state(), script, None)
    }

    /// The script that runs now.
    pub fn current(&self) -> Script {
        self.state().script.clone()
    }

    /// What the API shows of it.
    pub fn status(&self) -> ScriptStatus {
        self.state().status.clone()
    }

    /// Each worker's counters.
    pub fn counters(&self) -> &[Arc<ScriptCounters>] {
        &self.counters
    }

    fn install(&self, state: &mut State, script: Script, reverted: Option<String>) -> Result<u64, ScriptError> {
        let State { staging, waiting, .. } = state;
        *waiting = load_all(&script, waiting.len(), staging)?;
        let last = std::mem::replace(&mut state.script, script);
        // What was taken back must not come back in its turn.
        state.previous = if reverted.is_some() { None } else { Some(last) };
        state.throws.clear();
        state.status.name.clone_from(&state.script.name);
        state.status.since = SystemTime::now();
        state.status.reverted = reverted;
        state.status.generation += 1;
        self.current.store(state.status.generation, Ordering::Release);
        Ok(state.status.generation)
    }

    /// The VM that waits for a worker, and its generation; loads one if it has fetched that already.
    fn fetch(&self, worker: usize) -> Result<(Loaded, u64), ScriptError> {
        let mut state = self.state();
        let generation = state.status.generation;
        if let Some(loaded) = state.waiting.get_mut(worker).and_then(Option::take) {
            return Ok((loaded, generation));
        }
        let State { script, staging, .. } = &mut *state;
        Ok((Loaded::load(script, &mut staging())?, generation))
    }

    /// A worker's script threw. Returns how long to wait before it is started again.
    fn threw(&self, generation: u64, message: String) -> Duration {
        let mut state = self.state();
        state.status.throws += 1;
        state.status.last_error = Some(message.clone());
        if generation != state.status.generation {
            return Duration::ZERO;
        }
        let now = Instant::now();
        state.throws.push_back(now);
        while state.throws.front().is_some_and(|first| now.duration_since(*first) > WINDOW) {
            state.throws.pop_front();
        }
        if state.throws.len() < THROWS {
            return Duration::ZERO;
        }
        let why = format!("{} threw {THROWS} times in {} s: {message}", state.script.name, WINDOW.as_secs());
        let builtin = Script::builtin();
        let good = state.previous.take().or_else(|| (state.script != builtin).then_some(builtin));
        match good.map(|good| self.install(&mut state, good, Some(why))) {
            Some(Ok(_)) => Duration::ZERO,
            // Nothing to return to: it is tried again, slowly.
            Some(Err(_)) | None => PAUSE,
        }
    }

    /// Runs a worker's scripts, one after the other, until the router stops; gives the worker back.
    pub fn run(&self, worker: Worker) {
        let (id, Some(counters)) = (worker.id(), self.counters.get(worker.id()).cloned()) else { return };
        let generation = Generation::none(self.current.clone());
        let mut worker = ScriptWorker::new(worker, generation, counters.clone());
        while worker.worker().running() {
            let (loaded, generation) = match self.fetch(id) {
                Ok(fetched) => fetched,
                Err(error) => {
                    // It loaded before; what it needs to load (a file, a library) has gone since.
                    let pause = self.threw(self.status().generation, error.to_string());
                    counters.throws.add(1);
                    std::thread::sleep(pause.max(PAUSE));
                    continue;
                }
            };
            worker.generation().set(generation);
            let result = loaded.run(&mut worker);
            loaded.note_heap(&counters);
            let ended = !worker.running();
            worker.take_back(result.is_err());
            let message = match result {
                Err(message) => message,
                Ok(()) if ended => continue,
                Ok(()) => "the script's loop returned although worker:running() was true".to_owned(),
            };
            counters.throws.add(1);
            let pause = self.threw(generation, message);
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
        }
        worker.worker().finish();
    }
}

fn load_all(script: &Script, workers: usize, staging: &mut Staging) -> Result<Vec<Option<Loaded>>, ScriptError> {
    (0..workers).map(|_| Loaded::load(script, &mut staging()).map(Some)).collect()
}
