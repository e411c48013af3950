// SPDX-License-Identifier: MIT
//! A router that runs: its threads, how they start and end, and the account of what they did.

use super::ports::{OpenPort, pci_devices};
use anyhow::{Context as _, Result, bail};
use perigee_api::{Backend as _, Reply, Request, Server};
use perigee_config::Config;
use perigee_dpdk::{self as dpdk, Eal, FlowRule, MbufPool};
use perigee_helper::twin::{Twin, close_together};
use perigee_helper::{Helper, SocketFile, confine, privileges};
use perigee_lua::Scripts;
use perigee_modules::{Counters, CustomReasons, Reason, all_reasons, reason};
use perigee_packet::{Pool, PortInfo};
use perigee_router::{Account, AssistantThread, LinuxParts, Mailbox, PlaneThread, Settings, SlowParts, SlowThread};
use perigee_worker::{Stop, Worker};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::JoinHandle;

/// A router that runs.
pub struct Running {
    pub(super) stop: Stop,
    pub(super) mailbox: Mailbox,
    pub(super) workers: Vec<JoinHandle<()>>,
    pub(super) assistants: Vec<JoinHandle<()>>,
    pub(super) slow: Option<JoinHandle<()>>,
    pub(super) server: Option<Server>,
    /// Removed at the end.
    pub(super) _fpm: Option<SocketFile>,
    pub(super) counters: Vec<Arc<Counters>>,
    pub(super) custom: Arc<CustomReasons>,
    // Dropped in this order: rules and ports before the pools that their buffers go back to.
    pub(super) rules: Vec<FlowRule>,
    pub(super) ports: Vec<OpenPort>,
    pub(super) pools: Vec<Arc<MbufPool>>,
    /// It restores interfaces that are no longer used, and removes twins, and folders that are left.
    pub(super) helper: Option<Arc<Helper>>,
    /// The last ones, as the helper removes all of them together, and the kernel one after the other.
    pub(super) twins: HeldTwins,
}

/// The twins of a slow path that has ended.
#[derive(Clone, Default)]
pub(super) struct HeldTwins(Arc<Mutex<Vec<Twin>>>);

impl HeldTwins {
    fn hold(&self, twins: Vec<Twin>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(twins);
    }
}

impl Drop for HeldTwins {
    fn drop(&mut self) {
        // Of the last of the clones.
        if let Some(twins) = Arc::get_mut(&mut self.0) {
            // Those that the helper has not removed, as it is dead.
            close_together(std::mem::take(twins.get_mut().unwrap_or_else(PoisonError::into_inner)));
        }
    }
}

/// What every thread of the router does first.
fn enter(eal: &Eal) -> Option<dpdk::RegisteredThread> {
    if let Err(error) = privileges::drop_all() {
        tracing::warn!("a thread keeps its capabilities: {error}");
    }
    eal.register_thread().unwrap_or_else(|error| {
        tracing::warn!("{error}");
        None
    })
}

/// Starts a thread that has no part in the router's end.
pub fn spawn(name: &str, body: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    let run = move || {
        if let Err(error) = privileges::drop_all() {
            tracing::warn!("a thread keeps its capabilities: {error}");
        }
        body();
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Says that a barrier is missing, where the kernel has none; once is enough.
fn confined(result: std::io::Result<()>) {
    static SAID: Once = Once::new();
    if let Err(error) = result {
        SAID.call_once(|| tracing::warn!("the router's threads are not confined as they should be: {error}"));
    }
}

/// What the slow path's thread reads while the router runs: configuration, files of routes, and what the kernel says.
fn readable(settings: &Settings) -> Vec<PathBuf> {
    let folder = |path: &Path| path.parent().map(Path::to_owned);
    let files = settings.config.routes_file.iter().filter_map(|file| folder(file));
    let kernel = ["/proc", "/sys", "/run/netns", "/var/run/netns"].map(PathBuf::from);
    folder(&settings.path).into_iter().chain(files).chain(kernel).collect()
}

/// Keeps the calling thread off the workers' cores, if there are others, so that a flood for the slow path costs
/// workers nothing.
fn keep_off(workers: &[u16]) {
    let mut others = rustix::thread::CpuSet::new();
    let free =
        dpdk::usable_cores().into_iter().filter(|core| !workers.iter().any(|worker| usize::from(*worker) == *core));
    free.for_each(|core| others.set(core));
    if others.count() > 0
        && let Err(error) = rustix::thread::sched_setaffinity(None, &others)
    {
        tracing::warn!("the slow path shares the workers' cores: {error}");
    }
}

impl Running {
    /// Starts all threads; `places`: the core of each worker, and which copy of the tables it reads.
    pub(super) fn start_threads(
        &mut self,
        eal: &Eal,
        workers: Vec<Worker>,
        places: &[(u16, usize)],
        scripts: &Scripts,
        (assistants, plane): (Vec<AssistantThread>, Option<PlaneThread>),
        (slow, linux): (SlowParts, LinuxParts),
    ) -> Result<()> {
        // Now: once threads have filters of their own, all of them cannot be given one.
        let devices = self.devices(&slow.settings.config);
        confined(confine::process(devices));
        let cores: Vec<u16> = places.iter().map(|(core, _)| *core).collect();
        for (worker, (core, copy)) in workers.into_iter().zip(places.iter().copied()) {
            let (eal, scripts) = (eal.clone(), scripts.clone());
            let body = move || {
                let _registered = enter(&eal);
                perigee_worker::wake_in_time();
                perigee_fib::lookup::nodes::read_copy(copy);
                if let Err(error) = dpdk::pin_current_thread(core.into()) {
                    tracing::warn!("worker {} is not pinned: {error}", worker.id());
                }
                confined(confine::worker(devices));
                scripts.run(worker);
            };
            self.workers.push(self.guarded(format!("worker-{}", self.workers.len()), body)?);
        }
        for mut assistant in assistants {
            let (eal, cores) = (eal.clone(), cores.to_vec());
            let body = move || {
                let _registered = enter(&eal);
                keep_off(&cores);
                confined(confine::files(&[]));
                assistant.run();
            };
            self.assistants.push(self.guarded(format!("slow-path-{}", self.assistants.len() + 1), body)?);
        }
        if let Some(mut plane) = plane {
            let cores = cores.to_vec();
            let body = move || {
                if let Err(error) = privileges::drop_all() {
                    tracing::warn!("a thread keeps its capabilities: {error}");
                }
                keep_off(&cores);
                confined(confine::files(&[]));
                plane.run();
            };
            let thread = self.guarded("plane".to_owned(), body)?;
            let sleeper = thread.thread().clone();
            slow.forwarding.wake_by(Box::new(move || sleeper.unpark()));
            self.assistants.push(thread);
        }
        let (eal, stop, twins) = (eal.clone(), self.stop.clone(), self.twins.clone());
        let (cores, readable) = (cores.to_vec(), readable(&slow.settings));
        let body = move || {
            let _registered = enter(&eal);
            keep_off(&cores);
            confined(confine::files(&readable));
            let mut slow = SlowThread::new(slow, linux);
            slow.run();
            debug_assert!(stop.requested());
            twins.hold(slow.finish());
        };
        self.slow = Some(self.guarded("slow-path".to_owned(), body)?);
        privileges::drop_all().context("the capabilities cannot be dropped")?;
        for thread in privileges::still_privileged().unwrap_or_default() {
            tracing::debug!("thread {thread} has capabilities");
        }
        Ok(())
    }

    /// Starts a thread whose end, even by a panic, ends the router.
    fn guarded(&self, name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
        struct StopOnDrop(Stop);
        impl Drop for StopOnDrop {
            fn drop(&mut self) {
                self.0.request();
            }
        }
        let guard = StopOnDrop(self.stop.clone());
        let run = move || {
            let _guard = guard;
            body();
        };
        std::thread::Builder::new().name(name).spawn(run).context("a thread cannot be started")
    }

    /// The kinds of devices that its threads work with.
    fn devices(&self, config: &Config) -> confine::Devices {
        // `xdp`, or DPDK's `net_af_xdp`.
        let xdp = self.ports.iter().any(|port| port.info().driver.contains("xdp"));
        confine::Devices { xdp, pci: !pci_devices(config).is_empty() }
    }

    /// Has a thread ended, or was a stop requested?
    pub fn stopping(&self) -> bool {
        self.stop.requested()
    }

    /// Asks the router for something whose answer nobody waits for.
    pub fn ask<A>(&self, request: impl FnOnce(Reply<A>) -> Request) {
        self.mailbox.handle(request(Reply::pair().0));
    }

    /// The API's socket.
    pub fn socket(&self) -> Option<&Path> {
        self.server.as_ref().map(Server::path)
    }

    /// The opened ports.
    pub fn ports(&self) -> Vec<PortInfo> {
        self.ports.iter().map(OpenPort::info).collect()
    }

    /// Stops all threads, closes the ports, and checks that every packet buffer was returned. Returns the workers'
    /// totals.
    ///
    /// # Errors
    /// A thread panicked, or buffers are missing.
    pub fn shut_down(mut self) -> Result<Account> {
        self.stop.request();
        self.mailbox.wake();
        let mut panicked = 0;
        for thread in self.threads() {
            panicked += usize::from(thread.join().is_err());
        }
        drop(self.server.take());
        // Dropped after the pools, with which DPDK ends; first the helper.
        let _twins = self.twins.clone();
        let _helper = self.helper.take();
        let pools = std::mem::take(&mut self.pools);
        let kept = self.kept_by_drivers();
        let account = self.account();
        drop(self);
        let missing: usize = pools.iter().map(|pool| pool.in_use()).sum();
        let missing = missing.saturating_sub(kept);
        if panicked > 0 {
            bail!("{panicked} of the router's threads panicked; the log says where");
        }
        if missing > 0 {
            bail!("{missing} packet buffers did not come back: this is a bug in perigee or in a script's library");
        }
        Ok(account)
    }
}

impl Running {
    /// Takes the threads, in the order in which they end: the slow path frees what the others have left in rings.
    fn threads(&mut self) -> impl Iterator<Item = JoinHandle<()>> + use<> {
        let (workers, assistants) = (std::mem::take(&mut self.workers), std::mem::take(&mut self.assistants));
        workers.into_iter().chain(assistants).chain(self.slow.take())
    }

    fn account(&self) -> Account {
        let own = all_reasons().filter(|(_, _, info)| info.kind == reason::Kind::Drop).map(|(reason, ..)| reason);
        let custom = self.custom.all().into_iter().filter(|(.., kind)| *kind == reason::Kind::Drop);
        let drops: Vec<Reason> = own.chain(custom.map(|(reason, ..)| reason)).collect();
        let of_worker = |sum: Account, counters: &Arc<Counters>| Account {
            // Packets that were handed to another worker are counted there.
            received: sum.received + counters.received.get().saturating_sub(counters.handed_over.get()),
            transmitted: sum.transmitted
                + self.ports().iter().map(|port| counters.port_transmitted(port.port)).sum::<u64>(),
            dropped: sum.dropped + drops.iter().map(|reason| counters.reason_packets(*reason)).sum::<u64>(),
            punted: sum.punted + counters.punted.get(),
        };
        self.counters.iter().fold(Account::default(), of_worker)
    }

    /// Buffers that drivers do not give back: DPDK's AF_XDP driver forgets those in its fill rings when it is closed.
    fn kept_by_drivers(&self) -> usize {
        const FILL_RING: usize = 2048;
        let infos = self.ports();
        let xdp = infos.iter().filter(|info| info.driver == "net_af_xdp");
        xdp.map(|info| usize::from(info.receive_queues) * FILL_RING).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.request();
        self.mailbox.wake();
        for thread in self.threads() {
            let _ = thread.join();
        }
        self.rules.clear();
        perigee_socket::close_together(|| self.ports.clear());
    }
}
