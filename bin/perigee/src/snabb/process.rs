// SPDX-License-Identifier: MIT
//! What the VMs of a process share: DPDK, started when the first packet or port is asked for; packets; ports, of which
//! apps in several threads may have queues; links between threads.

use super::Options;
use super::tasks::{ProcessTasks, VmSeat};
use super::threads::Threads;
use perigee_dpdk::numa::{Topology, device_node};
use perigee_dpdk::snabb::{Directions, EarlyPackets, SharedPort, SnabbPool, SnabbPort, SnabbRing, ThreadState};
use perigee_dpdk::{Device, Eal, EalConfig, Hugepages, PortConfig, usable_cores};
use perigee_lua::task::Failure;
use perigee_net::MacAddr;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The process; there is one.
pub struct Process {
    pub options: Options,
    /// The cores that it may use, whatever the first thread is bound to later.
    pub cores: Vec<usize>,
    /// Set when a signal asks for the end; Lua looks at it after every breath.
    pub interrupted: AtomicI32,
    pub threads: Threads,
    pub tasks: ProcessTasks,
    /// The end has begun: from then on a signal waits for it.
    ending: AtomicBool,
    dpdk: Mutex<Option<(Eal, SnabbPool)>>,
    /// Packets of a program that has no port yet. Locked after `dpdk`.
    early: Mutex<EarlyPackets>,
    ports: Mutex<BTreeMap<String, (SharedPort, usize)>>,
    rings: Mutex<BTreeMap<String, Arc<SnabbRing>>>,
    states: Mutex<Vec<Arc<VmState>>>,
}

/// The state of one VM's Lua that lies outside of it.
#[derive(Default)]
pub struct VmState {
    pub thread: Mutex<ThreadState>,
    /// By the address by which Lua knows them.
    pub ports: Mutex<BTreeMap<usize, (String, SnabbPort)>>,
    /// Its place among the tasks.
    pub seat: Mutex<VmSeat>,
}

/// What an app requests of its port.
#[derive(Debug, Clone)]
pub struct PortRequest {
    pub queue: u16,
    pub use_of: Directions,
    /// How many queues the device gets if this request opens it.
    pub queues: u16,
    /// Descriptors of each of them.
    pub descriptors: Option<u16>,
    pub mac: Option<MacAddr>,
    pub promiscuous: bool,
    pub mtu: Option<u16>,
    pub copy: bool,
}

/// Locks, even after another thread has panicked with the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    pub fn new(options: Options) -> Process {
        Process {
            options,
            cores: usable_cores(),
            interrupted: AtomicI32::new(0),
            threads: Threads::default(),
            tasks: ProcessTasks::default(),
            ending: AtomicBool::new(false),
            dpdk: Mutex::default(),
            early: Mutex::default(),
            ports: Mutex::default(),
            rings: Mutex::default(),
            states: Mutex::default(),
        }
    }

    /// DPDK and its packets; starts it if this is the first call.
    pub fn dpdk(&self) -> Result<(Eal, SnabbPool), String> {
        let mut dpdk = lock(&self.dpdk);
        if let Some(running) = &*dpdk {
            return Ok(running.clone());
        }
        let config = EalConfig {
            memory_mb: self.options.memory_mb,
            hugepages: self.options.hugepages,
            file_prefix: format!("perigee-snabb-{}", std::process::id()),
            // No devices at the start: those that programs name are opened one by one.
            pci: if Path::new("/sys/bus/pci/devices").exists() { vec!["0000:00:00.0".to_owned()] } else { Vec::new() },
            ..EalConfig::default()
        };
        let started = Eal::start(&config).and_then(|eal| SnabbPool::new(&eal).map(|pool| (eal, pool)));
        let started = started.map_err(|error| error.to_string())?;
        started.1.know(&lock(&self.early));
        *dpdk = Some(started.clone());
        Ok(started)
    }

    /// The packets of a NUMA node, where there is more than one; else all of them.
    pub fn pool_of(&self, node: Option<u16>) -> Result<SnabbPool, String> {
        let (eal, pool) = self.dpdk()?;
        match node.filter(|_| Topology::here().several()) {
            Some(node) => pool.on_node(&eal, node).map_err(|error| error.to_string()),
            None => Ok(pool),
        }
    }

    /// The packets that the calling thread should take: of the node that it runs on.
    pub fn pool_here(&self) -> Result<SnabbPool, String> {
        self.pool_of(Topology::here().current())
    }

    /// The packets that a port receives into: of its node, or of that of the thread that opens it.
    pub fn pool_of_port(&self, name: &str) -> Result<SnabbPool, String> {
        let topology = Topology::here();
        let node = if topology.several() { device_node(Path::new("/sys"), name) } else { None };
        self.pool_of(node.or_else(|| topology.current()))
    }

    /// Makes n more packets; returns how many, and the first one's window if they are early ones: these nobody has yet.
    ///
    /// Before something needs DPDK, packets are ordinary memory, unless hugepages were asked for.
    pub fn grow(&self, n: u32) -> Result<(u32, Option<*mut c_void>), String> {
        if self.options.hugepages == Hugepages::Yes {
            self.dpdk()?;
        }
        let dpdk = lock(&self.dpdk);
        if dpdk.is_some() {
            drop(dpdk);
            return self.pool_here()?.grow(n).map(|made| (made, None)).map_err(|error| error.to_string());
        }
        let most = self.options.memory_mb as usize * 1_000_000;
        lock(&self.early).grow(n, most).map(|first| (n, Some(first))).map_err(|error| error.to_string())
    }

    /// Packets that are somewhere, and those of them in a pool.
    pub fn packets(&self) -> (u32, u32) {
        let dpdk = lock(&self.dpdk);
        let early = lock(&self.early).made();
        dpdk.as_ref().map_or((early, 0), |(_, pool)| {
            let (made, available, gone) = pool.all();
            (early + made - gone, available)
        })
    }

    /// A new VM's state.
    pub fn new_state(&self) -> Arc<VmState> {
        let thread = Mutex::new(ThreadState::on(Topology::here().current()));
        let state = Arc::new(VmState { thread, ..VmState::default() });
        lock(&self.states).push(state.clone());
        state
    }

    /// A VM has ended: everything that it had is given back.
    pub fn retire(&self, state: &Arc<VmState>) {
        let ports: Vec<usize> = lock(&state.ports).keys().copied().collect();
        for port in ports {
            self.close_port(state, port);
        }
        // What it sent to tasks is freed, before DPDK is.
        drop(std::mem::take(&mut *lock(&state.seat)));
        *lock(&state.thread) = ThreadState::default();
        lock(&self.states).retain(|known| !Arc::ptr_eq(known, state));
    }

    /// Has an app or a task opened this port?
    pub fn port_is_open(&self, name: &str) -> bool {
        lock(&self.ports).contains_key(name)
    }

    /// Opens a pair of queues of a port, or one of the two; its address, and whether this is the first that the port
    /// has.
    pub fn open_port(&self, state: &VmState, name: &str, requested: &PortRequest) -> Result<(usize, bool), String> {
        let ((eal, _), pool) = (self.dpdk()?, self.pool_of_port(name)?);
        let mut ports = lock(&self.ports);
        let first = !ports.contains_key(name);
        if first {
            let queues = requested.queues.max(requested.queue + 1);
            let config = PortConfig {
                receive_queues: queues,
                transmit_queues: queues,
                mtu: requested.mtu,
                mac: requested.mac,
                promiscuous: requested.promiscuous,
                // Tasks send packets of others, too; and each NUMA node has a pool.
                one_pool: !self.tasks.are_there() && !Topology::here().several(),
                ..PortConfig::new(Device::named(name))
            };
            let config = PortConfig {
                receive_descriptors: requested.descriptors.unwrap_or(config.receive_descriptors),
                transmit_descriptors: requested.descriptors.unwrap_or(config.transmit_descriptors),
                ..config
            };
            let port = SharedPort::open(&eal, &config, &pool, requested.copy).map_err(|error| error.to_string())?;
            ports.insert(name.to_owned(), (port, 0));
        }
        let (port, users) = ports.get_mut(name).expect("inserted above");
        let queues = match port.queues(requested.queue, requested.use_of, &pool) {
            Ok(queues) => queues,
            Err(error) => {
                if *users == 0 {
                    ports.remove(name);
                }
                return Err(self.taken_by_whom(error.to_string()));
            }
        };
        *users += 1;
        let address = queues.as_ptr() as usize;
        lock(&state.ports).insert(address, (name.to_owned(), queues));
        Ok((address, first))
    }

    /// Gives a pair of queues back; the port is closed with its last.
    pub fn close_port(&self, state: &VmState, address: usize) -> bool {
        let Some((name, queues)) = lock(&state.ports).remove(&address) else { return false };
        drop(queues);
        self.leave_port(&name);
        true
    }

    /// A user of a port leaves; the port is closed with its last.
    pub fn leave_port(&self, name: &str) {
        let mut ports = lock(&self.ports);
        if let Some((_, users)) = ports.get_mut(name) {
            *users -= 1;
            if *users == 0 {
                ports.remove(name);
            }
        }
    }

    /// A port for a user more: the one that is open, or a new one.
    pub fn share_port(
        &self,
        name: &str,
        open: impl FnOnce(&SnabbPool) -> Result<SharedPort, String>,
    ) -> Result<SharedPort, String> {
        let pool = self.pool_of_port(name)?;
        let mut ports = lock(&self.ports);
        if !ports.contains_key(name) {
            ports.insert(name.to_owned(), (open(&pool)?, 0));
        }
        let (port, users) = ports.get_mut(name).expect("inserted above");
        *users += 1;
        Ok(port.clone())
    }

    /// Why an app does not get a queue, where that may be a task's.
    fn taken_by_whom(&self, why: String) -> String {
        if self.tasks.are_there() && why.contains("already in use") {
            return why
                + ", a task's or an app's: give this app another `queue`, of as many as the device was opened with";
        }
        why
    }

    /// The ring of a link between threads, made when the first of them asks.
    pub fn ring(&self, name: &str) -> Result<usize, String> {
        let ((eal, _), pool) = (self.dpdk()?, self.pool_here()?);
        let mut rings = lock(&self.rings);
        if !rings.contains_key(name) {
            let ring = SnabbRing::new(&eal, &pool, 1024).map_err(|error| error.to_string())?;
            rings.insert(name.to_owned(), Arc::new(ring));
        }
        Ok(rings[name].as_ptr() as usize)
    }

    /// Frees the ring of a link that no thread has any more, with the packets in it.
    pub fn free_ring(&self, name: &str) -> bool {
        lock(&self.rings).remove(name).is_some()
    }

    /// Ends the threads, closes ports, gives everything back, and ends the process.
    pub fn exit(&self, code: i32) -> ! {
        self.ending.store(true, Ordering::Release);
        let code = self.end_tasks(code);
        if !self.threads.end() {
            // A thread that is stuck still uses its packets and ports: nothing can be taken from it.
            eprintln!("note: a worker is stuck in an app; the process ends without it");
            self.end(code);
        }
        let states: Vec<_> = std::mem::take(&mut *lock(&self.states));
        for state in &states {
            self.retire(state);
        }
        let code = match self.tasks.give_back() {
            Err(missing) => self.complain(&missing, code),
            Ok(()) => code,
        };
        lock(&self.ports).clear();
        lock(&self.rings).clear();
        let dpdk = lock(&self.dpdk).take();
        if let Some((_, pool)) = &dpdk
            && std::env::var_os("SNABB_DEBUG").is_some()
        {
            let (made, available, _) = pool.all();
            eprintln!("packets at the end: {made} made, {} not returned", made - available);
        }
        if let Some((_, pool)) = &dpdk {
            pool.abandon();
        }
        drop(dpdk);
        self.end(code)
    }

    /// Asks tasks to end, and waits for that; the exit code then.
    fn end_tasks(&self, code: i32) -> i32 {
        match self.tasks.finish() {
            Ok(()) => code,
            Err(stuck @ Failure::Stuck { .. }) => {
                let code = self.complain(&stuck, code);
                // Nothing can be taken from a thread that still uses it.
                self.end(code)
            }
            // One of them has asked for the end with this code.
            Err(_) if self.threads.exit_code().is_some() => self.threads.exit_code().unwrap_or(code),
            Err(thrown) => self.complain(&thrown, code),
        }
    }

    /// Says what went wrong after the program could; the exit code is not 0 then.
    fn complain(&self, failure: &Failure, code: i32) -> i32 {
        eprintln!("{failure}");
        if code == 0 { 1 } else { code }
    }

    /// Ends the process: with a code or, if that is a signal's that has come, by the signal, so that whoever waits for
    /// it sees which.
    fn end(&self, code: i32) -> ! {
        if code != 0 && code == self.interrupted.load(Ordering::Acquire) {
            let _ = signal_hook::low_level::emulate_default_handler(code - 128); // else the code says it
        }
        std::process::exit(code)
    }
}

/// How long a program has to look whether it is interrupted; the engine looks in every breath.
const NOTICE: Duration = Duration::from_secs(5);

/// SIGINT and SIGTERM set `interrupted`; a second one ends the process at once, and so it ends if the program does not
/// look.
pub fn end_on_signals(process: &Arc<Process>) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let process = process.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) =
                (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
            else {
                return;
            };
            let code = tokio::select! {
                _ = interrupt.recv() => 130,
                _ = terminate.recv() => 143,
            };
            process.interrupted.store(code, Ordering::Release);
            process.tasks.stop();
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                () = tokio::time::sleep(NOTICE) => {}
            }
            if process.ending.load(Ordering::Acquire) || process.tasks.active() {
                tokio::time::sleep(super::tasks::GRACE + NOTICE).await;
            }
            process.end(code)
        });
    })?;
    Ok(())
}
