// SPDX-License-Identifier: MIT
//! All tasks of a program: how they start, what they share, and how they end.

use super::host::{NoSlowPath, TaskHost};
use super::machine::{DeviceQueue, DeviceRequest, Machine, OpenDevice};
use super::native;
use super::runner::{Beside, Runner, Seat};
use super::shared::{Owned, Rate, Sender, SharedDevice, SharedRing};
use super::steer::{self, Rule, Steering};
use crate::vm::{JIT_MODULES, Script, message};
use mlua::{Function, LightUserData, Lua, LuaOptions, StdLib, Table};
use perigee_fib::Interfaces;
use perigee_fib::{Fib, FibWriter, Published};
use perigee_modules::{Context, Counters, CustomReasons, Tables};
use perigee_net::{Interface, MacAddr, Policy};
use perigee_packet::{BATCH_SIZE, Batch, Pool, Port};
use perigee_worker::Pipe;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Never, as a time.
const NEVER: u64 = u64::MAX;
/// Ports that modules have counters for.
const MAX_PORTS: usize = 1024;
/// Bursts that are taken out of a device before it is closed.
const DRAIN: usize = 64;
/// Most tasks, devices, rings and pipes of a program.
const MOST: usize = 4096;

/// Why a program of tasks failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// A task threw, or the script does not load: what, with file and line.
    #[error("{0}")]
    Task(String),
    /// Tasks that do not end, perhaps after another one has thrown.
    #[error(
        "{tasks} did not end: a task has to call `running()` from time to time, or to wait by the functions that do{}",
        after.as_ref().map(|why| format!("; before that, {why}")).unwrap_or_default()
    )]
    Stuck { tasks: String, after: Option<String> },
    /// Packet buffers that nobody has given back.
    #[error("{0} packet buffers are missing at the end: a device has kept them, or this is a bug in perigee")]
    Leak(usize),
}

/// A task that was started, or another thread's place among them.
struct Started {
    name: String,
    /// Not a task: a thread of the program that they run beside.
    guest: bool,
    core: usize,
    /// What its function has returned, encoded; `None` inside if it threw.
    result: Option<Option<Vec<u8>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Started {
    fn is_active(&self) -> bool {
        !self.guest && self.result.is_none()
    }
}

/// What tasks share. Boxes, as scripts hold addresses; nothing is removed before all tasks have ended.
#[derive(Default)]
#[allow(clippy::vec_box)]
struct Objects {
    devices: Vec<Arc<SharedDevice>>,
    rings: Vec<Box<SharedRing>>,
    pipes: Vec<Box<Pipe>>,
    /// Pools of tasks that have ended: their packets may still be on their way.
    pools: Vec<Arc<dyn Pool>>,
    names: BTreeMap<String, Vec<u8>>,
}

/// All tasks of a program.
pub struct Tasks {
    machine: Arc<dyn Machine>,
    runner: Runner,
    /// The devices of the command line, which scripts may call by their numbers.
    ports: Vec<String>,
    /// When the tasks are to end, in ns of the machine's clock.
    end: AtomicU64,
    tasks: Mutex<BTreeMap<u32, Started>>,
    changed: Condvar,
    objects: Mutex<Objects>,
    tables: Mutex<Published<Tables>>,
    /// Lookup structures without routes.
    fib: Fib,
    /// What modules count, per task.
    counters: Mutex<Vec<Arc<Counters>>>,
    custom: Arc<CustomReasons>,
    failures: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tasks {
    /// A program of this script; `ports` are the devices that it may call by their numbers, from 0 on.
    pub fn new(machine: Arc<dyn Machine>, script: Script, ports: Vec<String>) -> Arc<Tasks> {
        Tasks::with(machine, Runner::Script(script), ports)
    }

    /// Tasks beside another program: `runner` makes their VMs, and the program's threads take a [`Seat`] among them.
    pub fn beside(machine: Arc<dyn Machine>, runner: Box<dyn Beside>, ports: Vec<String>) -> Arc<Tasks> {
        let tasks = Tasks::with(machine, Runner::Beside(runner), ports);
        // The number 1, as a script's main task has.
        let program = Started { name: "the program".to_owned(), guest: true, core: 0, result: None, thread: None };
        lock(&tasks.tasks).insert(1, program);
        tasks
    }

    fn with(machine: Arc<dyn Machine>, runner: Runner, ports: Vec<String>) -> Arc<Tasks> {
        // Without routes, it takes no memory to speak of, and cannot fail.
        let fib = FibWriter::new(64).expect("a table for 64 routes").reader();
        let tables = tables(&fib, &[]);
        Arc::new(Tasks {
            machine,
            runner,
            ports,
            end: AtomicU64::new(NEVER),
            tasks: Mutex::default(),
            changed: Condvar::new(),
            objects: Mutex::default(),
            tables: Mutex::new(Published::new(tables)),
            fib,
            counters: Mutex::default(),
            custom: Arc::default(),
            failures: Mutex::default(),
        })
    }

    /// Runs `main` of the script with these arguments, until it and all tasks that it started have ended, or do not end
    /// within `grace` of being asked to. Then gives everything back: devices, rings, pools.
    ///
    /// # Errors
    /// What was thrown first; tasks that do not end; buffers that are missing.
    pub fn run(self: &Arc<Self>, arguments: &[String], grace: Duration) -> Result<(), Failure> {
        let start = native::Start::Main(arguments.to_vec());
        self.start(start, None).map_err(Failure::Task)?;
        match self.finish(grace) {
            Err(stuck @ Failure::Stuck { .. }) => Err(stuck),
            ended => {
                let given_back = self.give_back();
                ended.and(given_back)
            }
        }
    }

    /// Waits until all tasks have ended, or do not within `grace` of being asked to.
    ///
    /// # Errors
    /// What was thrown first, unless the program was told; tasks that do not end.
    pub fn finish(&self, grace: Duration) -> Result<(), Failure> {
        let all_ended = self.wait_all(grace);
        let thrown = lock(&self.failures).first().cloned();
        if !all_ended {
            let tasks = lock(&self.tasks);
            let stuck = tasks.values().filter(|task| task.is_active());
            let stuck: Vec<String> = stuck.map(|task| format!("task {} on core {}", task.name, task.core)).collect();
            return Err(Failure::Stuck { tasks: stuck.join(", "), after: thrown });
        }
        thrown.map_or(Ok(()), |thrown| Err(Failure::Task(thrown)))
    }

    /// What tasks have thrown first; from then on the program knows.
    pub fn take_failure(&self) -> Option<String> {
        let mut failures = lock(&self.failures);
        let first = failures.first().cloned();
        failures.clear();
        first
    }

    /// Do tasks run?
    pub fn active(&self) -> bool {
        lock(&self.tasks).values().any(Started::is_active)
    }

    /// A place among the tasks for a thread that is none: of the program that they run beside. `number` 1 is the
    /// program's own.
    pub fn seat(self: &Arc<Self>, number: Option<u32>, name: &str) -> Seat {
        let mut tasks = lock(&self.tasks);
        let id = number.unwrap_or(tasks.len() as u32 + 1);
        let guest = Started { name: name.to_owned(), guest: true, core: 0, result: None, thread: None };
        tasks.entry(id).or_insert(guest);
        drop(tasks);
        Seat::new(id, name, self)
    }

    /// Closes rings and devices, which free what they hold. When all tasks have ended, and all seats are given back.
    ///
    /// # Errors
    /// Packet buffers are missing then.
    pub fn give_back(&self) -> Result<(), Failure> {
        let Objects { devices, rings, pools, .. } = std::mem::take(&mut *lock(&self.objects));
        let mut batch = Batch::new(self.machine.memory());
        for queue in devices.iter().flat_map(|device| &device.receive) {
            // SAFETY: all tasks have ended: nobody else asks, with this number or another.
            let Ok(queue) = (unsafe { queue.of(u32::MAX) }) else { continue };
            // Devices that are rings keep what was sent to them. One that makes packets itself never runs dry.
            for _ in 0..DRAIN {
                batch.refill();
                if queue.receive(&mut batch, BATCH_SIZE) == 0 {
                    break;
                }
            }
        }
        drop((batch, rings, devices));
        match pools.into_iter().map(|pool| pool.in_use()).sum() {
            0 => Ok(()),
            leak => Err(Failure::Leak(leak)),
        }
    }

    /// Asks all tasks to end: `running()` is false from now on.
    pub fn stop(&self) {
        self.end.fetch_min(self.machine.now(), Ordering::Release);
        self.changed.notify_all();
    }

    /// Asks all tasks to end in `ns` from now.
    pub fn limit(&self, ns: u64) {
        self.end.fetch_min(self.machine.now().saturating_add(ns), Ordering::Release);
    }

    /// Are tasks to go on at time `now`, or have they been asked to end less than `extra` ns before?
    #[inline]
    pub fn running(&self, now: u64, extra: u64) -> bool {
        now < self.end.load(Ordering::Acquire).saturating_add(extra)
    }

    /// The machine they run on.
    pub fn machine(&self) -> &dyn Machine {
        &*self.machine
    }

    /// The device that a script calls by a number.
    pub(crate) fn port(&self, number: usize) -> Result<String, String> {
        self.ports.get(number).cloned().ok_or_else(|| {
            format!(
                "there is no port {number}: {} on the command line; add --port DEVICE, or name the device itself",
                match self.ports.len() {
                    0 => "none is".to_owned(),
                    1 => "one, 0, is".to_owned(),
                    n => format!("{n}, from 0 on, are"),
                }
            )
        })
    }

    /// A context for modules: no routes, one interface per device.
    pub(crate) fn context(&self) -> Context {
        let counters = Arc::new(Counters::new(MAX_PORTS));
        lock(&self.counters).push(counters.clone());
        Context {
            now: self.machine.now(),
            worker: Context::NO_WORKER,
            tables: lock(&self.tables).subscribe(),
            counters,
            outputs: Vec::new(),
            punts: Box::new(NoSlowPath),
            custom: self.custom.clone(),
            next_redirect: 0,
            fragments: Default::default(),
            multicast: Default::default(),
            failure: None,
            trace: None,
            stopwatch: Default::default(),
            watched: false,
        }
    }

    /// What modules have dropped: (module, reason, packets).
    pub(crate) fn drops(&self) -> Vec<(String, String, u64)> {
        let own = perigee_modules::all_reasons()
            .map(|(reason, module, info)| (reason, module.to_owned(), info.name.to_owned()));
        let custom = self.custom.all().into_iter().map(|(reason, module, name, _)| (reason, module, name));
        let counters = lock(&self.counters);
        let counted = own.chain(custom).map(|(reason, module, name)| {
            (module, name, counters.iter().map(|counters| counters.reason_packets(reason)).sum())
        });
        counted.filter(|(.., packets)| *packets > 0).collect()
    }

    /// Starts a task.
    ///
    /// # Errors
    /// No thread can be started, or there are too many tasks.
    pub(crate) fn start(self: &Arc<Self>, start: native::Start, core: Option<usize>) -> Result<u32, String> {
        let name = start.name().to_owned();
        let mut tasks = lock(&self.tasks);
        if tasks.len() >= MOST {
            return Err(format!("{MOST} tasks have been started: that is all a program may start"));
        }
        // Beside another program, new tasks may start when those that were asked to end have.
        if self.runner.is_beside() && !tasks.values().any(Started::is_active) && !self.running(self.machine.now(), 0) {
            self.end.store(NEVER, Ordering::Release);
        }
        let id = tasks.len() as u32 + 1;
        let core = match core {
            Some(core) => core,
            None => self.free_core(&tasks, start.numa_node()),
        };
        let group = self.clone();
        let title = name.clone();
        let body = move || {
            let result = group.body(id, core, start);
            let result = result.map_err(|why| {
                let why = format!("task {title}: {why}");
                lock(&group.failures).push(why);
                group.stop();
            });
            if let Some(task) = lock(&group.tasks).get_mut(&id) {
                task.result = Some(result.ok());
            }
            group.changed.notify_all();
        };
        // Linux keeps 15 characters.
        let thread = std::thread::Builder::new().name(name.chars().take(15).collect()).spawn(body);
        let thread = thread.map_err(|error| format!("no thread for task {name}: {error}"))?;
        tasks.insert(id, Started { name, guest: false, core, result: None, thread: Some(thread) });
        Ok(id)
    }

    /// The core with the fewest tasks, of the wanted NUMA node if one of it is free; the main task waits most of the
    /// time, so its core comes last among the free ones, and first among those in use.
    fn free_core(&self, tasks: &BTreeMap<u32, Started>, node: Option<u16>) -> usize {
        let users = |core: usize| {
            let on = tasks.iter().filter(|(_, task)| task.core == core && task.is_active());
            let others = usize::from(self.machine.holder(core).is_some()) * 2;
            on.map(|(id, _)| if *id == 1 { 1 } else { 2 }).sum::<usize>() + others
        };
        let cores = self.machine.cores();
        let best = cores.iter().min_by_key(|core| {
            let foreign = node.is_some() && core.numa_node.is_some() && core.numa_node != node;
            let users = users(core.number);
            (users > 0, if users == 0 { usize::from(foreign) } else { users }, core.number)
        });
        best.map_or(0, |core| core.number)
    }

    /// A task's thread: its VM, and in it the function.
    fn body(self: &Arc<Self>, id: u32, core: usize, start: native::Start) -> Result<Vec<u8>, String> {
        let _thread = self.machine.enter(core)?;
        let mut host = TaskHost::new(id, self.clone());
        let result = match &self.runner {
            Runner::Script(script) => {
                let (lua, main) = self.vm(script, &mut host, &start, core).map_err(|error| message(&error))?;
                let result = start.call(&lua, &main).map_err(|error| message(&error));
                // The VM before what its script may still refer to.
                drop((main, lua));
                result
            }
            Runner::Beside(program) => {
                return program.run(Seat::of(host, &start, core, self));
            }
        };
        drop(host);
        result
    }

    /// A VM with the script loaded; the function that runs a task in it.
    fn vm(
        self: &Arc<Self>,
        script: &Script,
        host: &mut TaskHost,
        start: &native::Start,
        core: usize,
    ) -> mlua::Result<(Lua, Function)> {
        let (lua, run) = self.empty_vm(script, host, start.name(), core)?;
        chunk(script, &lua)?.call::<()>(())?;
        Ok((lua, run))
    }

    /// A VM with all that scripts can call, for the task `name`, before the script is loaded; the function that runs a
    /// task in it.
    pub(super) fn empty_vm(
        self: &Arc<Self>,
        script: &Script,
        host: &mut TaskHost,
        name: &str,
        core: usize,
    ) -> mlua::Result<(Lua, Function)> {
        // SAFETY: scripts are the user's own code and get the FFI and the debug library on purpose.
        let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, LuaOptions::default()) };
        let package: Table = lua.globals().get("package")?;
        let preload: Table = package.get("preload")?;
        for (name, source) in JIT_MODULES {
            preload.set(*name, lua.load(*source).set_name(format!("={name}")).into_function()?)?;
        }
        if let Some(folder) = &script.folder {
            let before: String = package.get("path")?;
            package.set("path", format!("{}/?.lua;{before}", folder.display()))?;
            lua.globals().set("SCRIPT_FOLDER", folder.display().to_string())?;
        }
        let run = self.furnish(&lua, host, name, core, &script.name, None)?;
        Ok((lua, run))
    }

    /// Puts into a VM all that tasks can call; returns the function that runs a task in it. `beside`: what
    /// `lua/task/host.lua` says of it.
    pub(super) fn furnish(
        self: &Arc<Self>,
        lua: &Lua,
        host: &mut TaskHost,
        name: &str,
        core: usize,
        script: &str,
        beside: Option<Table>,
    ) -> mlua::Result<Function> {
        assert!(super::link() > 0, "the C ABI is linked in");
        let package: Table = lua.globals().get("package")?;
        let preload: Table = package.get("preload")?;
        // A name without a dot is a script's own file.
        let modules = SOURCES.iter().filter(|(name, _)| name.contains('.'));
        for (name, source) in crate::vm::LUA_MODULES.iter().chain(modules) {
            preload.set(*name, lua.load(*source).set_name(format!("={name}")).into_function()?)?;
        }
        let native = native::table(lua, self, host.id, std::ptr::from_mut(host).cast::<c_void>())?;
        native.set("task_name", name)?;
        native.set("core", core)?;
        native.set("script_name", script)?;
        let pointer = LightUserData(std::ptr::from_mut(host).cast());
        let definitions = crate::header::definitions() + crate::header::task_definitions();
        let loaded = lua.load(HOST).set_name("=perigee.task.host");
        loaded.call((definitions, native, pointer, crate::vm::registry(lua)?, beside))
    }

    /// Waits for a task; what it returned, or `None` if it threw or is not there.
    pub(crate) fn wait(&self, id: u32) -> Option<Vec<u8>> {
        let mut tasks = lock(&self.tasks);
        loop {
            match tasks.get(&id) {
                None => return None,
                Some(Started { result: Some(result), .. }) => return result.clone(),
                Some(_) => tasks = self.pause(tasks),
            }
        }
    }

    /// Waits for all tasks but the one that asks, if it is one.
    pub(crate) fn wait_others(&self, me: u32) {
        let mut tasks = lock(&self.tasks);
        while tasks.iter().any(|(id, task)| *id != me && task.is_active()) {
            tasks = self.pause(tasks);
        }
    }

    fn pause<'a>(&self, tasks: MutexGuard<'a, BTreeMap<u32, Started>>) -> MutexGuard<'a, BTreeMap<u32, Started>> {
        self.changed.wait_timeout(tasks, Duration::from_millis(100)).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for all tasks; false: some have not ended `grace` after they were asked to.
    fn wait_all(&self, grace: Duration) -> bool {
        let mut tasks = lock(&self.tasks);
        while tasks.values().any(Started::is_active) {
            if !self.running(self.machine.now(), grace.as_nanos() as u64) {
                return false;
            }
            tasks = self.pause(tasks);
        }
        let threads: Vec<_> = tasks.values_mut().filter_map(|task| task.thread.take()).collect();
        drop(tasks);
        threads.into_iter().for_each(|thread| drop(thread.join()));
        true
    }

    /// Has a task ended?
    pub(crate) fn ended(&self, id: u32) -> bool {
        !lock(&self.tasks).get(&id).is_some_and(Started::is_active)
    }

    /// A task's name, as messages show it.
    pub(crate) fn name_of(&self, id: u32) -> Option<String> {
        let title = |task: &Started| if task.guest { task.name.clone() } else { format!("task {}", task.name) };
        lock(&self.tasks).get(&id).map(title)
    }

    /// Who else has a task's core, but for the main one, which waits most of the time: "task NAME", and the core.
    pub(crate) fn shares_core(&self, id: u32) -> Option<(String, usize)> {
        let tasks = lock(&self.tasks);
        let core = tasks.get(&id)?.core;
        let mut others = tasks.iter().filter(|(other, task)| **other != id && **other != 1 && task.is_active());
        let other = others.find(|(_, task)| task.core == core).map(|(_, task)| format!("task {}", task.name));
        Some((other.or_else(|| self.machine.holder(core))?, core))
    }

    /// A task has ended: gives back the queues it had, and keeps its pools until their packets are back.
    pub(crate) fn retire(&self, task: u32, pools: Vec<Arc<dyn Pool>>) {
        let mut objects = lock(&self.objects);
        for device in &objects.devices {
            device.receive.iter().for_each(|queue| queue.give_back(task));
            device.transmit.iter().for_each(|queue| queue.give_back(task));
        }
        objects.rings.iter().for_each(|ring| ring.receiver.give_back(task));
        objects.pools.extend(pools);
        objects.pools.retain(|pool| pool.in_use() > 0);
    }

    /// A task needs a queue or a ring, by its address, no more.
    pub(crate) fn leave(&self, task: u32, queue: usize) {
        let objects = lock(&self.objects);
        let receive = objects.devices.iter().flat_map(|device| &device.receive);
        let rings = objects.rings.iter().map(|ring| (&raw const **ring as usize, &ring.receiver));
        let mut receivers = receive.map(|queue| (&raw const **queue as usize, &**queue)).chain(rings);
        if let Some((_, receiver)) = receivers.find(|(address, _)| *address == queue) {
            receiver.give_back(task);
        }
        let mut transmit = objects.devices.iter().flat_map(|device| &device.transmit);
        if let Some(sender) = transmit.find(|sender| &raw const ***sender as usize == queue) {
            sender.give_back(task);
        }
    }

    /// The number of a device that is open, by its name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        lock(&self.objects).devices.iter().position(|device| device.name == name)
    }

    /// Opens a device; its number.
    pub(crate) fn open(&self, request: &DeviceRequest) -> Result<usize, String> {
        let mut objects = lock(&self.objects);
        if objects.devices.len() >= MOST {
            return Err(format!("{MOST} devices are open: that is all a program may open"));
        }
        if objects.devices.iter().any(|device| device.name == request.name) {
            return Err(format!("{} is open already: its options are set when it is opened first", request.name));
        }
        let (opened, steering) = self.open_queues(request)?;
        let name = |i: usize| format!("{i} of {}", request.name);
        let rates: Vec<Arc<Rate>> = opened.transmit.iter().map(|_| Arc::default()).collect();
        let receive = opened.receive.into_iter().enumerate();
        let receive = receive.map(|(i, queue)| Box::new(Owned::claimed(name(i), queue.queue, queue.claim)));
        let transmit = opened.transmit.into_iter().zip(&rates).enumerate().map(|(i, (queue, rate))| {
            Box::new(Owned::claimed(name(i), Sender::new(queue.queue, rate.clone()), queue.claim))
        });
        objects.devices.push(Arc::new(SharedDevice {
            name: request.name.clone(),
            port: opened.port,
            receive: receive.collect(),
            transmit: transmit.collect(),
            rates,
            steering,
        }));
        let ports: Vec<_> = objects.devices.iter().map(|device| (device.name.clone(), device.port.info())).collect();
        lock(&self.tables).publish(tables(&self.fib, &ports));
        Ok(objects.devices.len() - 1)
    }

    /// A device of the machine with as many queues as are asked for, or one each way that they share.
    fn open_queues(&self, request: &DeviceRequest) -> Result<(OpenDevice, Option<Steering>), String> {
        if !request.share {
            return Ok((self.machine.open(request)?, None));
        }
        let (receive, transmit) = (usize::from(request.receive_queues), usize::from(request.transmit_queues));
        // What waits for its task takes no buffer from the device.
        let waiting = (receive * steer::BACKLOG) as u32;
        let buffers = request.buffers.unwrap_or(4096) + waiting;
        let request =
            DeviceRequest { receive_queues: 1, transmit_queues: 1, buffers: Some(buffers), ..request.clone() };
        let mut opened = self.machine.open(&request)?;
        let (Some(receiver), Some(sender)) = (opened.receive.pop(), opened.transmit.pop()) else {
            return Err(format!("{} has no queues", request.name));
        };
        // What several tasks share is theirs for good.
        for claim in receiver.claim.iter().chain(&sender.claim) {
            claim.take()?;
        }
        let (steering, receive) = steer::receive_queues(receiver.queue, self.machine.memory(), receive);
        let receive = receive.into_iter().map(DeviceQueue::from).collect();
        let transmit = steer::transmit_queues(sender.queue, transmit).into_iter().map(DeviceQueue::from).collect();
        Ok((OpenDevice { port: opened.port, receive, transmit }, Some(steering)))
    }

    /// A device by its number.
    pub(crate) fn device(&self, number: usize) -> Result<Arc<SharedDevice>, String> {
        lock(&self.objects).devices.get(number).cloned().ok_or_else(|| format!("there is no device {number}"))
    }

    /// Limits the rate of a transmit queue, by its address: ns per frame and per byte, both 0 for no limit.
    pub(crate) fn set_rate(&self, queue: usize, frame_ns: f64, byte_ns: f64) -> Result<(), String> {
        let objects = lock(&self.objects);
        let mut queues = objects.devices.iter().flat_map(|device| device.transmit.iter().zip(&device.rates));
        let (_, rate) =
            queues.find(|(known, _)| &raw const ***known as usize == queue).ok_or("there is no such queue")?;
        rate.set(frame_ns, byte_ns);
        Ok(())
    }

    /// Sends what matches a rule to a device's receive queue, from 0.
    pub(crate) fn steer(&self, device: usize, queue: usize, rule: Rule) -> Result<(), String> {
        let device = self.device(device)?;
        let Some(steering) = &device.steering else {
            return Err(format!(
                "{} has receive queues of its own, which no rules choose between: open it with share = true",
                device.name
            ));
        };
        if queue >= device.receive.len() {
            return Err(format!("{} has {} receive queues, not one more", device.name, device.receive.len()));
        }
        steering.add(rule, queue);
        Ok(())
    }

    /// The devices of the command line.
    pub(crate) fn ports(&self) -> &[String] {
        &self.ports
    }

    /// Number of devices.
    pub(crate) fn devices(&self) -> usize {
        lock(&self.objects).devices.len()
    }

    /// A new ring; its address.
    pub(crate) fn ring(&self, capacity: u32) -> Result<usize, String> {
        let (sender, receiver) = self.machine.ring(capacity)?;
        let mut objects = lock(&self.objects);
        if objects.rings.len() >= MOST {
            return Err(format!("{MOST} rings are there: that is all a program may make"));
        }
        let name = format!("of ring {}", objects.rings.len());
        objects.rings.push(Box::new(SharedRing { sender: Mutex::new(sender), receiver: Owned::new(name, receiver) }));
        Ok(objects.rings.last().map_or(0, |ring| &raw const **ring as usize))
    }

    /// A new pipe; its address.
    pub(crate) fn pipe(&self, capacity: usize) -> Result<usize, String> {
        let mut objects = lock(&self.objects);
        if objects.pipes.len() >= MOST {
            return Err(format!("{MOST} pipes are there: that is all a program may make"));
        }
        objects.pipes.push(Box::new(Pipe::new(capacity)));
        Ok(objects.pipes.last().map_or(0, |pipe| &raw const **pipe as usize))
    }

    /// A value that all tasks share, by its name.
    pub(crate) fn shared(&self, name: &str) -> Option<Vec<u8>> {
        lock(&self.objects).names.get(name).cloned()
    }

    /// A value that all tasks share, which is this one unless there is one already.
    pub(crate) fn share_once(&self, name: String, value: Vec<u8>) -> Vec<u8> {
        lock(&self.objects).names.entry(name).or_insert(value).clone()
    }

    /// The names of all values that tasks share.
    pub(crate) fn shared_names(&self) -> Vec<String> {
        lock(&self.objects).names.keys().cloned().collect()
    }

    /// Sets a value that all tasks share; `None` removes it.
    pub(crate) fn set_shared(&self, name: String, value: Option<Vec<u8>>) {
        let names = &mut lock(&self.objects).names;
        match value {
            Some(value) => drop(names.insert(name, value)),
            None => drop(names.remove(&name)),
        }
    }
}

/// The files of `lua/task`, carried in the binary: (module name, source). Those without a dot in their names are no
/// modules.
pub(super) const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/task_sources.rs"));
const HOST: &str = include_str!("../../../../lua/task/host.lua");

/// A script's text as a function of a VM.
pub(super) fn chunk(script: &Script, lua: &Lua) -> mlua::Result<Function> {
    lua.load(&script.source).set_name(format!("@{}", script.name)).into_function()
}

/// Tables without routes: an interface per port, as modules find it by the port's number.
fn tables(fib: &Fib, ports: &[(String, perigee_packet::PortInfo)]) -> Tables {
    let interface = |(name, info): &(String, perigee_packet::PortInfo)| Interface {
        name: name.clone(),
        port: info.port,
        vlan: None,
        mtu: info.mtu,
        mac: info.mac,
        addresses: vec![],
        up: true,
        attributes: Default::default(),
        policy: Policy::default(),
    };
    let count = ports.iter().map(|(_, info)| usize::from(info.port) + 1).max().unwrap_or(0);
    let mut macs = vec![MacAddr::ZERO; count];
    ports.iter().for_each(|(_, info)| macs[usize::from(info.port)] = info.mac);
    let interfaces = Interfaces::new(ports.iter().map(interface).collect());
    let interfaces = interfaces.unwrap_or_else(|_| Interfaces::new(vec![]).expect("no interface is like another"));
    Tables::new(fib.clone(), Arc::new(interfaces), None, &macs)
}

/// A port's link, for a limited time.
pub(crate) fn wait_for_link(port: &dyn Port, longest: Duration, mut running: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + longest;
    loop {
        if port.link().up {
            return true;
        }
        if Instant::now() >= end || !running() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
pub(super) mod tests;
