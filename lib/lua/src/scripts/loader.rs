// SPDX-License-Identifier: MIT
//! The thread that loads scripts, for operators and for workers whose script has ended: workers open no files.

use super::{PAUSE, Shared, Spawn, Staging, watchdog::Watched};
use crate::exit::Exit;
use crate::vm::{Loaded, Refused, Script, ScriptError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a script is found; the loader's thread does it, as others open no files.
pub(super) type Read = Box<dyn FnOnce() -> Result<Script, ScriptError> + Send>;

/// What the loader is asked for.
pub(super) enum Job {
    /// Another script on all workers, unless who asked has given up.
    Replace(Read, SyncSender<Result<u64, ScriptError>>, Turn),
    /// Another VM for a worker that still has this generation.
    Again { worker: usize, generation: u64 },
    /// The script before this generation returns, or the built-in one.
    Revert { generation: u64, why: String },
}

/// Who decides what becomes of a script that is being loaded: the loader, which installs it, or who asked for it and
/// waits no longer.
#[derive(Clone, Default)]
pub(super) struct Turn(Arc<AtomicBool>);

impl Turn {
    /// Takes the decision; false if the other one has it.
    pub(super) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// The loader's other end.
#[derive(Clone)]
pub(super) struct Loader(Arc<Mutex<Sender<Job>>>);

impl Loader {
    /// Starts the thread.
    pub(super) fn start(shared: &Arc<Shared>, staging: Staging, spawn: Spawn<'_>) -> Result<Loader, ScriptError> {
        let (sender, jobs) = channel();
        let thread = Thread { shared: shared.clone(), staging };
        let started = spawn("script-loader", Box::new(move || thread.run(&jobs)));
        started.map_err(|error| ScriptError::Load(format!("the thread that loads scripts does not start: {error}")))?;
        Ok(Loader(Arc::new(Mutex::new(sender))))
    }

    /// Asks for something; if the thread has ended, for nothing.
    pub(super) fn ask(&self, job: Job) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(job);
    }
}

struct Thread {
    shared: Arc<Shared>,
    staging: Staging,
}

impl Thread {
    fn run(mut self, jobs: &Receiver<Job>) {
        let exit = Exit::of_this_thread();
        self.shared.state().watched.push(Watched::loader(exit.clone()));
        while !self.shared.over.requested() {
            match jobs.recv_timeout(Duration::from_millis(100)) {
                Ok(job) => self.carry_out(job, &exit),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let waiting = std::mem::take(&mut self.shared.state().waiting);
        self.close(waiting, &exit);
        self.shared.state().watched.retain(|watched| !watched.is_of(&exit));
    }

    fn carry_out(&mut self, job: Job, exit: &Exit) {
        match job {
            Job::Replace(read, reply, turn) => {
                let installed = read().and_then(|script| {
                    let vms = self.load_all(&script, exit)?;
                    if !turn.take() {
                        self.close(vms, exit);
                        return Err(ScriptError::Load("nobody waits for it any more".to_owned()));
                    }
                    Ok(self.shared.install(script, vms, None))
                });
                // Who asked may have gone. What follows may take a while.
                let (answer, before) = match installed {
                    Ok((generation, before)) => (Ok(generation), before),
                    Err(error) => (Err(error), Vec::new()),
                };
                let _ = reply.send(answer);
                self.close(before, exit);
            }
            Job::Again { worker, generation } => self.again(worker, generation, exit),
            Job::Revert { generation, why } => self.revert(generation, &why, exit),
        }
    }

    fn load_all(&mut self, script: &Script, exit: &Exit) -> Result<Vec<Option<Loaded>>, ScriptError> {
        let mut loaded = Vec::new();
        for _ in 0..self.shared.counters.len() {
            match Loaded::load(script, &mut (self.staging)(), exit) {
                Ok(vm) => loaded.push(Some(vm)),
                Err(refused) => {
                    loaded.push(refused.loaded);
                    self.close(loaded, exit);
                    return Err(refused.error);
                }
            }
        }
        Ok(loaded)
    }

    /// Closes VMs that no worker gets. The first whose finalizers do not return is the last: the memory of the others
    /// is given up, as each would take a second.
    fn close(&self, vms: Vec<Option<Loaded>>, exit: &Exit) {
        for vm in vms.into_iter().flatten() {
            let name = vm.name.clone();
            if vm.close(exit).is_err() {
                return self.shared.notes.warn(format!("the finalizers of {name} did not return and were stopped"));
            }
        }
    }

    fn again(&mut self, worker: usize, generation: u64, exit: &Exit) {
        let state = self.shared.state();
        if state.status.generation != generation || state.waiting.get(worker).is_none_or(Option::is_some) {
            return;
        }
        let script = state.script.clone();
        drop(state);
        let loaded = Loaded::load(&script, &mut (self.staging)(), exit);
        let mut state = self.shared.state();
        match loaded {
            Ok(loaded) if state.status.generation == generation => {
                state.waiting[worker] = Some(loaded);
                self.shared.loaded.notify_all();
            }
            Ok(late) => {
                drop(state);
                self.close(vec![Some(late)], exit);
            }
            Err(Refused { error, loaded }) => {
                // It loaded before; what it needs to load (a file, a library) has gone since.
                state.status.throws += 1;
                state.status.last_error = Some(error.to_string());
                drop(state);
                self.close(vec![loaded], exit);
                self.revert(generation, &format!("{} does not load any more: {error}", script.name), exit);
            }
        }
    }

    fn revert(&mut self, generation: u64, why: &str, exit: &Exit) {
        let mut state = self.shared.state();
        if state.status.generation != generation {
            return;
        }
        let builtin = Script::builtin();
        let good = state.previous.take().into_iter().chain((state.script != builtin).then_some(builtin));
        let good: Vec<Script> = good.collect();
        drop(state);
        for script in good {
            match self.load_all(&script, exit) {
                Ok(vms) => {
                    self.shared.notes.warn(format!("the script {} runs again: {why}", script.name));
                    let (_, before) = self.shared.install(script, vms, Some(why.to_owned()));
                    return self.close(before, exit);
                }
                Err(error) => {
                    self.shared.notes.error(format!("the script {} does not load any more: {error}", script.name));
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
}
