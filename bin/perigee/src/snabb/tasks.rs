// SPDX-License-Identifier: MIT
//! Tasks beside a Snabb program (`perigee task`'s, in its process): the machine they run on, their VMs, and the seats
//! of the program's own threads among them.
//!
//! A device is opened once, for tasks and apps alike, and receives into Snabb's packets. Each of its queues is one
//! task's or one app's.

use super::native;
use super::process::{Process, VmState, lock};
use super::threads::Vm;
use crate::task::machine::{DpdkMachine, enough_queues};
use perigee_dpdk::numa::Topology;
use perigee_dpdk::snabb::SharedPort;
use perigee_dpdk::{self as dpdk, Device, MBUF, PortConfig, RxQueue, TxQueue};
use perigee_lua::mlua::{self, Function, Lua, LuaString, Table};
use perigee_lua::task::{
    self, Beside, Claim, Core, DeviceQueue, DeviceRequest, Failure, Machine, OpenDevice, Seat, Tasks,
};
use perigee_packet::batch::Handle;
use perigee_packet::{Batch, Link, Memory, Pool, Port, PortInfo, PortStats, ReceiveQueue, TransmitQueue};
use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// How long tasks may take to end after they were asked to.
pub const GRACE: Duration = Duration::from_secs(30);

/// The tasks of a process, if its program has asked for them.
#[derive(Default)]
pub struct ProcessTasks {
    tasks: OnceLock<(Arc<Tasks>, Arc<SnabbMachine>)>,
    /// Where a task's VM finds functions: `package.path`, the program's module and its file, if it is one.
    program: Mutex<(String, Option<String>, Option<String>)>,
}

impl ProcessTasks {
    /// The tasks; from the first call on there are some.
    fn of(process: &Arc<Process>) -> &Arc<Tasks> {
        let make = || {
            let weak = Arc::downgrade(process);
            let source = weak.clone();
            let start = move || source.upgrade().ok_or("the process ends")?.dpdk().map(|(eal, _)| eal);
            let base = DpdkMachine::of(process.cores.clone(), Box::new(start));
            let machine = Arc::new(SnabbMachine { base, process: weak.clone() });
            let ports = process.options.ports.devices();
            (Tasks::beside(machine.clone(), Box::new(SnabbTasks(weak)), ports), machine)
        };
        &process.tasks.tasks.get_or_init(make).0
    }

    /// Are there tasks, or could there be?
    pub fn are_there(&self) -> bool {
        self.tasks.get().is_some()
    }

    /// Do tasks run?
    pub fn active(&self) -> bool {
        self.tasks.get().is_some_and(|(tasks, _)| tasks.active())
    }

    /// Asks all tasks to end.
    pub fn stop(&self) {
        if let Some((tasks, _)) = self.tasks.get() {
            tasks.stop();
        }
    }

    /// Waits until all tasks have ended.
    pub fn finish(&self) -> Result<(), Failure> {
        self.tasks.get().map_or(Ok(()), |(tasks, _)| {
            tasks.stop();
            tasks.finish(GRACE)
        })
    }

    /// Closes what tasks have opened, when all seats are gone.
    pub fn give_back(&self) -> Result<(), Failure> {
        self.tasks.get().map_or(Ok(()), |(tasks, machine)| {
            let missing = tasks.give_back();
            machine.base.release();
            missing
        })
    }
}

/// DPDK as tasks beside a Snabb program see it.
struct SnabbMachine {
    base: DpdkMachine,
    process: Weak<Process>,
}

impl SnabbMachine {
    fn process(&self) -> Result<Arc<Process>, String> {
        self.process.upgrade().ok_or_else(|| "the process ends".to_owned())
    }
}

impl Machine for SnabbMachine {
    fn memory(&self) -> &'static dyn Memory {
        &MBUF
    }

    fn cores(&self) -> Vec<Core> {
        self.base.cores()
    }

    fn holder(&self, core: usize) -> Option<String> {
        let process = self.process.upgrade()?;
        process.threads.holder(core, process.options.workers, &process.cores)
    }

    fn open(&self, request: &DeviceRequest) -> Result<OpenDevice, String> {
        let process = self.process()?;
        let port = process.share_port(&request.name, |packets| {
            let config = PortConfig::new(Device::named(&request.name));
            let config = PortConfig {
                receive_queues: request.receive_queues,
                transmit_queues: request.transmit_queues,
                receive_descriptors: request.receive_descriptors.unwrap_or(config.receive_descriptors),
                transmit_descriptors: request.transmit_descriptors.unwrap_or(config.transmit_descriptors),
                mtu: request.mtu,
                mac: request.mac,
                promiscuous: request.promiscuous,
                // Those of the tasks' pools, and Snabb's.
                one_pool: false,
                ..config
            };
            SharedPort::open(&self.base.eal()?, &config, packets, false).map_err(|error| error.to_string())
        })?;
        let used = UsedPort { port, name: request.name.clone(), process: self.process.clone() };
        let info = used.info();
        let wanted = [request.receive_queues, request.transmit_queues];
        enough_queues(&request.name, [info.receive_queues, info.transmit_queues], wanted)?;
        if info.offloads.contains(&"fast-free") {
            return Err(format!(
                "{} was opened by the graph before there were tasks, for packets of one pool: require \"perigee.task\" before \
                 engine.configure, or open the device in the program first",
                request.name
            ));
        }
        let (receive, transmit) = queues(&used.port, &info);
        Ok(OpenDevice { port: Box::new(used), receive, transmit })
    }

    fn pool(&self, buffers: u32, room: u16, numa_node: Option<u16>) -> Result<Arc<dyn Pool>, String> {
        self.base.pool(buffers, room, numa_node)
    }

    fn programs_pool(&self, numa_node: Option<u16>) -> Result<Arc<dyn Pool>, String> {
        let node = numa_node.or_else(|| Topology::here().current());
        Ok(self.process()?.pool_of(node)?.for_tasks())
    }

    fn ring(&self, capacity: u32) -> Result<(Box<dyn TransmitQueue>, Box<dyn ReceiveQueue>), String> {
        self.base.ring(capacity)
    }

    fn now(&self) -> u64 {
        self.base.now()
    }

    fn enter(&self, core: usize) -> Result<Box<dyn Any>, String> {
        // It has been started by then; this makes the thread known to it.
        self.base.eal()?;
        self.base.enter(core)
    }
}

/// A port that tasks use; they leave it when it is dropped.
struct UsedPort {
    port: SharedPort,
    name: String,
    process: Weak<Process>,
}

impl Port for UsedPort {
    fn info(&self) -> PortInfo {
        self.port.port().info()
    }

    fn link(&self) -> Link {
        self.port.port().link()
    }

    fn stats(&self) -> PortStats {
        self.port.port().stats()
    }

    fn device_counters(&self) -> Vec<(String, u64)> {
        self.port.port().device_counters()
    }

    fn set_promiscuous(&self, on: bool) -> Result<(), String> {
        self.port.port().set_promiscuous(on)
    }

    fn set_mtu(&self, mtu: u16) -> Result<(), String> {
        self.port.port().set_mtu(mtu)
    }
}

impl Drop for UsedPort {
    fn drop(&mut self) {
        if let Some(process) = self.process.upgrade() {
            process.leave_port(&self.name);
        }
    }
}

/// A queue that a task has from when it uses it first until it ends; until then an app may take it.
struct Slot<Q> {
    take: Box<dyn Fn() -> dpdk::Result<Q> + Send + Sync>,
    queue: Mutex<Option<Q>>,
}

impl<Q: Send> Claim for Slot<Q> {
    fn take(&self) -> Result<(), String> {
        let taken = (self.take)();
        let taken = taken.map_err(|error| format!("{error}: an app has it; use another queue, or stop the app"))?;
        *lock(&self.queue) = Some(taken);
        Ok(())
    }

    fn give_back(&self) {
        drop(lock(&self.queue).take());
    }
}

/// The task's end of a slot.
struct Lent<Q>(Arc<Slot<Q>>);

impl ReceiveQueue for Lent<RxQueue> {
    #[inline]
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        lock(&self.0.queue).as_mut().map_or(0, |queue| queue.receive(batch, burst))
    }
}

impl TransmitQueue for Lent<TxQueue> {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        if let Some(queue) = &mut *lock(&self.0.queue) {
            queue.transmit(packets);
        }
    }

    #[inline]
    fn send(&mut self, batch: &mut Batch, most: usize) -> usize {
        lock(&self.0.queue).as_mut().map_or(0, |queue| queue.send(batch, most))
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        MBUF.free(packets);
    }

    fn poll(&mut self) {
        if let Some(queue) = &mut *lock(&self.0.queue) {
            queue.poll();
        }
    }
}

fn slot<Q>(take: impl Fn() -> dpdk::Result<Q> + Send + Sync + 'static) -> Arc<Slot<Q>> {
    Arc::new(Slot { take: Box::new(take), queue: Mutex::default() })
}

type Queues = (Vec<DeviceQueue<dyn ReceiveQueue>>, Vec<DeviceQueue<dyn TransmitQueue>>);

fn queues(port: &SharedPort, info: &PortInfo) -> Queues {
    let receive = (0..info.receive_queues).map(|i| {
        let port = port.clone();
        let slot = slot(move || port.port().rx_queue(i));
        DeviceQueue { queue: Box::new(Lent(slot.clone())) as Box<dyn ReceiveQueue>, claim: Some(slot) }
    });
    let transmit = (0..info.transmit_queues).map(|i| {
        let port = port.clone();
        let slot = slot(move || port.port().tx_queue(i));
        DeviceQueue { queue: Box::new(Lent(slot.clone())) as Box<dyn TransmitQueue>, claim: Some(slot) }
    });
    (receive.collect(), transmit.collect())
}

/// Runs tasks in VMs of Snabb's kind.
struct SnabbTasks(Weak<Process>);

impl Beside for SnabbTasks {
    fn run(&self, seat: Seat) -> Result<Vec<u8>, String> {
        let process = self.0.upgrade().ok_or("the process ends")?;
        let vm = Vm::task(&process, seat).map_err(|error| error.to_string())?;
        vm.run("core.tasks", "run", &[]).map_err(|error| error.to_string())?;
        let result = lock(&vm.state().seat).result.take();
        result.ok_or_else(|| "it ended without a result".to_owned())
    }
}

/// A VM's place among the tasks, once it has asked for one, and what its function has returned, if it is a task's.
#[derive(Default)]
pub struct VmSeat {
    pub seat: Option<Seat>,
    pub result: Option<Vec<u8>>,
}

/// The functions about tasks for one VM; `thread` counts from 1, and is 0 in a task's.
pub fn fill(lua: &Lua, to: &Table, process: &Arc<Process>, state: &Arc<VmState>, thread: u16) -> mlua::Result<()> {
    to.set("task_module", lua.create_function(|_, name: String| Ok(task::has_module(&name)))?)?;
    let (shared, mine) = (process.clone(), state.clone());
    let attach = move |lua: &Lua, beside: Table| -> mlua::Result<Function> {
        let mut place = lock(&mine.seat);
        let seat = place.seat.get_or_insert_with(|| {
            let (number, name) =
                if thread == 1 { (Some(1), "the program".to_owned()) } else { (None, format!("worker {thread}")) };
            ProcessTasks::of(&shared).seat(number, &name)
        });
        seat.furnish(lua, beside)
    };
    to.set("attach_tasks", lua.create_function(attach)?)?;
    let shared = process.clone();
    let failure = move |_: &Lua, ()| Ok(shared.tasks.tasks.get().and_then(|(tasks, _)| tasks.take_failure()));
    to.set("task_failure", lua.create_function(failure)?)?;
    let shared = process.clone();
    let started = move |_: &Lua, ()| native::or_message(shared.dpdk().map(|_| true));
    to.set("start_dpdk", lua.create_function(started)?)?;
    let shared = process.clone();
    let set = move |_: &Lua, program: (String, Option<String>, Option<String>)| {
        *lock(&shared.tasks.program) = program;
        Ok(())
    };
    to.set("set_program", lua.create_function(set)?)?;
    let shared = process.clone();
    to.set("program", lua.create_function(move |_, ()| Ok(lock(&shared.tasks.program).clone()))?)?;
    if thread == 0 {
        let mine = state.clone();
        let done = move |_: &Lua, result: LuaString| {
            lock(&mine.seat).result = Some(result.as_bytes().to_vec());
            Ok(())
        };
        to.set("task_done", lua.create_function(done)?)?;
        if let Some(seat) = &lock(&state.seat).seat {
            to.set("task_name", seat.name())?;
            to.set("task_arguments", lua.create_string(seat.arguments())?)?;
            to.set("task_id", seat.id())?;
        }
    }
    Ok(())
}
