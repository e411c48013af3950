// SPDX-License-Identifier: MIT
//! One VM per thread, and the messages between the program's own and the others.
//!
//! The first VM sends text, and each of the others answers: what it means is up to Lua (snabb/core/threads.lua). A
//! number that a thread reads after every breath says whether it should breathe.

use super::native;
use super::process::{Process, VmState, lock};
use perigee_dpdk as dpdk;
use perigee_dpdk::numa::{self, Place, Topology};
use perigee_lua::mlua::{self, LightUserData, Lua, Table};
use perigee_lua::snabb::{SnabbError, SnabbVm};
use perigee_lua::task;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread is to wait for messages, to breathe, or to end.
const PAUSE: i32 = 0;
const QUIT: i32 = 2;

/// How long an answer may take: apps may open devices when they start.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a thread may take to end; one that is stuck in an app is left until the process ends.
const END: Duration = Duration::from_secs(10);

/// The other threads of a process.
#[derive(Default)]
pub struct Threads {
    threads: Mutex<BTreeMap<u16, Thread>>,
    /// Threads that died, which the first VM looks at after every breath, and why the first of them did.
    died: AtomicI32,
    why: Mutex<Option<String>>,
    /// The exit code that an app on another thread asks for.
    exit_code: Mutex<Option<i32>>,
    /// What each thread has measured of its apps, as text of Lua's (snabb/core/auto.lua).
    costs: Mutex<BTreeMap<u16, String>>,
    /// The cores that threads have, by their numbers; the NUMA node of the first one's devices.
    places: Mutex<BTreeMap<u16, usize>>,
    node: Mutex<Option<u16>>,
}

struct Thread {
    wanted: Arc<AtomicI32>,
    ask: Sender<String>,
    answers: Receiver<Result<String, String>>,
    ended: Receiver<()>,
    handle: JoinHandle<()>,
}

/// A thread's end of its connection to the first VM.
struct Seat {
    wanted: Arc<AtomicI32>,
    asked: Receiver<String>,
    answer: Sender<Result<String, String>>,
}

impl Threads {
    /// Starts a thread, near the devices that its apps use, else near the first thread's.
    fn start(process: &Arc<Process>, number: u16, devices: &[String]) -> Result<(), String> {
        let node = node_of(devices).or(*lock(&process.threads.node)).or_else(|| Topology::here().current());
        let (ask, asked) = channel();
        let (answer, answers) = channel();
        let (end, ended) = channel();
        let wanted = Arc::new(AtomicI32::new(PAUSE));
        let seat = Seat { wanted: wanted.clone(), asked, answer };
        let (eal, _) = process.dpdk()?;
        let shared = process.clone();
        let body = move || {
            pin(&shared, number, node);
            let registered = eal.register_thread();
            if let Err(error) = registered.map_err(|e| e.to_string()).and_then(|_known| serve(&shared, number, seat)) {
                let mut why = lock(&shared.threads.why);
                why.get_or_insert_with(|| format!("worker {number}: {error}"));
                drop(why);
                shared.threads.died.fetch_add(1, Ordering::Release);
            }
            let _ = end.send(());
        };
        let handle = std::thread::Builder::new().name(format!("snabb-{number}")).spawn(body);
        let handle = handle.map_err(|error| format!("no thread for worker {number}: {error}"))?;
        lock(&process.threads.threads).insert(number, Thread { wanted, ask, answers, ended, handle });
        Ok(())
    }

    /// Sends a message to a thread, and waits for its answer.
    fn ask(&self, number: u16, text: String) -> Result<String, String> {
        if self.died.load(Ordering::Acquire) != 0 {
            return Err(lock(&self.why).clone().unwrap_or_default());
        }
        let threads = lock(&self.threads);
        let thread = threads.get(&number).ok_or_else(|| format!("there is no worker {number}"))?;
        let dead = || lock(&self.why).clone().unwrap_or_else(|| format!("worker {number} has ended"));
        thread.ask.send(text).map_err(|_| dead())?;
        match thread.answers.recv_timeout(PATIENCE) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                // A late answer would be taken for that to the next message.
                let why = format!("worker {number} is stuck: no answer for {} s", PATIENCE.as_secs());
                lock(&self.why).get_or_insert_with(|| why.clone());
                self.died.fetch_add(1, Ordering::Release);
                Err(why)
            }
            Err(RecvTimeoutError::Disconnected) => Err(dead()),
        }
    }

    fn want(&self, number: u16, what: i32) -> bool {
        let threads = lock(&self.threads);
        let Some(thread) = threads.get(&number) else { return false };
        thread.wanted.store(what, Ordering::Release);
        true
    }

    /// An app on another thread wants the process to end.
    pub fn ask_for_exit(&self, number: u16, code: i32) {
        lock(&self.exit_code).get_or_insert(code);
        // It is locked while the first VM waits for an answer, which then is the error.
        if let Ok(threads) = self.threads.try_lock()
            && let Some(thread) = threads.get(&number)
        {
            thread.wanted.store(QUIT, Ordering::Release);
        }
        self.died.fetch_add(1, Ordering::Release);
    }

    /// The exit code that somebody has asked for.
    pub fn exit_code(&self) -> Option<i32> {
        *lock(&self.exit_code)
    }

    /// Ends all threads; false: one of them does not end.
    pub fn end(&self) -> bool {
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads.values() {
            thread.wanted.store(QUIT, Ordering::Release);
        }
        let deadline = Instant::now() + END;
        let mut all = true;
        for (_, thread) in threads {
            drop(thread.ask);
            match thread.ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(()) => drop(thread.handle.join()),
                Err(_) => all = false,
            }
        }
        all
    }
}

/// The NUMA node of most of these devices, if that matters and is known.
fn node_of(devices: &[String]) -> Option<u16> {
    let of = |name: &String| numa::device_node(Path::new("/sys"), name);
    if Topology::here().several() { numa::node_of_most(devices.iter().map(of)) } else { None }
}

impl Threads {
    /// The core that a thread would have if there were one NUMA node only.
    fn preferred(number: u16, workers: u16, usable: &[usize]) -> Option<usize> {
        let enough = workers > 1 && usable.len() >= usize::from(workers);
        if enough { usable.get(usize::from(number) - 1).copied() } else { None }
    }

    /// Who has a core: "the program" or "worker N", also if that has not been started yet.
    pub fn holder(&self, core: usize, workers: u16, usable: &[usize]) -> Option<String> {
        let places = lock(&self.places);
        let title = |number: u16| if number == 1 { "the program".to_owned() } else { format!("worker {number}") };
        if let Some((number, _)) = places.iter().find(|(_, place)| **place == core) {
            return Some(title(*number));
        }
        let index = usable.iter().position(|&known| known == core)?;
        let number = u16::try_from(index).ok()? + 1;
        (number <= workers && !places.contains_key(&number)).then(|| title(number))
    }

    /// The first thread: it stays on the NUMA node of its devices, where there are several. It gets no core of its own,
    /// as processes that it starts would inherit it.
    fn bind_first(&self, devices: &[String], usable: &[usize]) -> Result<(), String> {
        let (topology, mut node) = (Topology::here(), lock(&self.node));
        let Some(wanted) = node_of(devices).filter(|wanted| *node != Some(*wanted)) else { return Ok(()) };
        *node = Some(wanted);
        match topology.place(usable, &[], None, Some(wanted)) {
            Place::Cores(cores) => dpdk::bind_current_thread(&cores).map_err(|error| error.to_string()),
            _ => Ok(()),
        }
    }
}

/// Gives a thread a core of its own, if there are as many cores as workers, near its devices. The program's own thread
/// is not pinned: processes that it starts would inherit its core.
fn pin(process: &Process, number: u16, node: Option<u16>) {
    let (usable, threads) = (&process.cores, &process.threads);
    let preferred = Threads::preferred(number, process.options.workers, usable);
    let place = {
        let mut places = lock(&threads.places);
        // The first core is the program's.
        let has =
            |core: usize| usable.first() == Some(&core) && number != 1 || places.values().any(|place| *place == core);
        let free: Vec<usize> = usable.iter().copied().filter(|&core| !has(core)).collect();
        let place = Topology::here().place(usable, &free, preferred, node);
        if let Place::Core(core) = place {
            places.insert(number, core);
        }
        place
    };
    let bound = match &place {
        Place::Core(core) => dpdk::pin_current_thread(*core),
        Place::Cores(cores) => dpdk::bind_current_thread(cores),
        Place::Anywhere => Ok(()),
    };
    if let Err(error) = bound {
        eprintln!("note: worker {number}: {error}");
    }
}

/// The body of another thread: its VM answers messages and breathes until it should end.
fn serve(process: &Arc<Process>, number: u16, seat: Seat) -> Result<(), String> {
    let vm = Vm::with_seat(process, number, Some(seat)).map_err(|error| error.to_string())?;
    vm.run("core.threads", "serve", &[]).map(drop).map_err(|error| error.to_string())
}

/// A VM with its state outside of it.
pub struct Vm {
    vm: Option<SnabbVm>,
    process: Arc<Process>,
    state: Arc<VmState>,
}

impl Vm {
    /// The program's own VM.
    pub fn new(process: &Arc<Process>, number: u16) -> Result<Vm, SnabbError> {
        Vm::with_seat(process, number, None)
    }

    /// A task's VM.
    pub fn task(process: &Arc<Process>, place: task::Seat) -> Result<Vm, SnabbError> {
        let state = process.new_state();
        lock(&state.seat).seat = Some(place);
        let native = |lua: &Lua, table: &Table| native::fill(lua, table, process, &state, 0);
        let vm = SnabbVm::new(&process.options.sources, native);
        // However it went: the state goes with it.
        let mut this = Vm { vm: None, process: process.clone(), state };
        this.vm = Some(vm?);
        Ok(this)
    }

    /// What of it lies outside of Lua.
    pub fn state(&self) -> &VmState {
        &self.state
    }

    fn with_seat(process: &Arc<Process>, number: u16, seat: Option<Seat>) -> Result<Vm, SnabbError> {
        let state = process.new_state();
        let native = |lua: &Lua, table: &Table| -> mlua::Result<()> {
            native::fill(lua, table, process, &state, number)?;
            match seat {
                Some(seat) => fill_seat(lua, table, seat),
                None => fill_threads(lua, table, process),
            }
        };
        let vm = SnabbVm::new(&process.options.sources, native)?;
        Ok(Vm { vm: Some(vm), process: process.clone(), state })
    }

    /// Calls a function of a module.
    pub fn run(&self, module: &str, function: &str, args: &[String]) -> Result<i32, SnabbError> {
        self.vm.as_ref().map_or(Ok(0), |vm| vm.call(module, function, args))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Lua first, as it uses what the state holds.
        self.vm = None;
        self.process.retire(&self.state);
    }
}

/// For all VMs: what threads have measured of their apps.
pub fn fill_costs(lua: &Lua, to: &Table, process: &Arc<Process>, number: u16) -> mlua::Result<()> {
    let shared = process.clone();
    let leave = move |_: &Lua, text: String| {
        lock(&shared.threads.costs).insert(number, text);
        Ok(())
    };
    to.set("leave_costs", lua.create_function(leave)?)?;
    let shared = process.clone();
    let left = move |_: &Lua, ()| Ok(lock(&shared.threads.costs).values().cloned().collect::<Vec<_>>());
    to.set("left_costs", lua.create_function(left)?)?;
    let shared = process.clone();
    let forget = move |_: &Lua, ()| {
        lock(&shared.threads.costs).clear();
        Ok(())
    };
    to.set("forget_costs", lua.create_function(forget)?)
}

/// For the first VM: start, ask, want, and the state of the others.
fn fill_threads(lua: &Lua, to: &Table, process: &Arc<Process>) -> mlua::Result<()> {
    to.set("died", LightUserData((&raw const process.threads.died).cast_mut().cast::<c_void>()))?;
    let shared = process.clone();
    let start =
        move |_: &Lua, (number, devices): (u16, Vec<String>)| Ok(Threads::start(&shared, number, &devices).err());
    to.set("start_thread", lua.create_function(start)?)?;
    let shared = process.clone();
    let bind = move |_: &Lua, devices: Vec<String>| Ok(shared.threads.bind_first(&devices, &shared.cores).err());
    to.set("bind_first", lua.create_function(bind)?)?;
    let shared = process.clone();
    let ask = move |_: &Lua, (number, text): (u16, String)| {
        Ok(match shared.threads.ask(number, text) {
            Ok(answer) => (true, answer),
            Err(why) => (false, why),
        })
    };
    to.set("ask_thread", lua.create_function(ask)?)?;
    let shared = process.clone();
    let want = move |_: &Lua, (number, what): (u16, i32)| Ok(shared.threads.want(number, what));
    to.set("want_thread", lua.create_function(want)?)?;
    let shared = process.clone();
    to.set("exit_code", lua.create_function(move |_, ()| Ok(*lock(&shared.threads.exit_code)))?)?;
    let shared = process.clone();
    to.set("death", lua.create_function(move |_, ()| Ok(lock(&shared.threads.why).clone()))?)
}

/// For the others: the next message, its answer, and what is wanted.
fn fill_seat(lua: &Lua, to: &Table, seat: Seat) -> mlua::Result<()> {
    let Seat { wanted, asked, answer } = seat;
    to.set("wanted", LightUserData(Arc::as_ptr(&wanted).cast_mut().cast::<c_void>()))?;
    // While it breathes, a thread checks for messages; otherwise it waits for one.
    let asked = Mutex::new(asked);
    let next = move |_: &Lua, wait: bool| {
        // Kept alive with the function, as Lua has its address.
        let _wanted = &wanted;
        let asked = lock(&asked);
        Ok(if wait { asked.recv_timeout(Duration::from_millis(20)).ok() } else { asked.try_recv().ok() })
    };
    to.set("next_message", lua.create_function(next)?)?;
    let reply = move |_: &Lua, (ok, text): (bool, String)| {
        let _ = answer.send(if ok { Ok(text) } else { Err(text) });
        Ok(())
    };
    to.set("answer", lua.create_function(reply)?)
}
