// SPDX-License-Identifier: MIT
//! From a configuration to a running router: helper, DPDK, ports, twins, tables, scripts, threads, API.
//!
//! Any failure is reported in one sentence, and everything is undone: dropping a half-made router closes its ports, and
//! the helper removes twins and restores interfaces when its socket closes.
//! The same happens when the end is asked for during the start.

mod claims;
mod linux;
pub(crate) mod plane;
mod ports;
mod running;
mod start;

pub use claims::ends;
use running::HeldTwins;
pub use running::{Running, spawn};
pub use start::{Interrupted, Start};

use crate::check;
use crate::fabric::DpdkFabric;
use crate::filters::DpdkFilters;
use crate::scripts::{self, LuaScripts};
use anyhow::{Context as _, Result, anyhow};
use perigee_api::Server;
use perigee_api::answers::VersionStatus;
use perigee_config as config;
use perigee_config::{Config, Machine, Router};
use perigee_dpdk::{self as dpdk, Eal, EalConfig, MBUF};
use perigee_helper::privileges::Became;
use perigee_helper::{Helper, Reach, privileges};
use perigee_lua::{Script, Scripts};
use perigee_modules::{Context, Counters, CustomReasons, PuntSink, Punted};
use perigee_packet::{Pool, TransmitBuffer};
use perigee_router::{
    AssistantBell, AssistantParts, AssistantThread, Assistants, Forwarding, KernelPlane, LinuxParts, Lookups, Mailbox,
    PlaneThread, Ports, Rebuild, Settings, SlowParts, Staging, WorkerEnd, WorkerQueues, Workers, wire, wiring,
};
use perigee_worker::{Clock, Idle, PuntReader, Stop, Worker, WorkerParts, punt_rings};
use ports::{Opened, open_ports, pci_devices, queues, router_port, worker_nodes};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Starts a router.
///
/// # Errors
/// One sentence with the way out, or [`Interrupted`]; nothing is left behind.
pub fn launch(config: Config, path: &Path, machine: Machine, start: &Start) -> Result<Running> {
    let script = scripts::read(&config)?;
    claims::take(&config, start)?;
    // Held until it is said that this one ends: when the helper is dropped it restores interfaces, which may take long.
    let mut helper = None;
    let launched = start_helper(&config).and_then(|started| {
        helper.clone_from(&started);
        launch_with(started, script, config, path, machine, start)
    });
    if launched.is_err() {
        ends();
    }
    launched
}

/// Starts a router that has its claims and its helper.
fn launch_with(
    helper: Option<Arc<Helper>>,
    script: Script,
    config: Config,
    path: &Path,
    machine: Machine,
    start: &Start,
) -> Result<Running> {
    // It may take long on a busy machine.
    tracing::info!("{} starts", dpdk::version());
    let eal = start.uninterrupted(|| start_eal(&with_memory(&config), pci_devices(&config)))?;
    if let Some(helper) = &helper {
        helper.remove_at_end(eal.files())?;
    }
    let opened = open_ports(&eal, &config, helper, start)?;
    assemble(config, path, machine, script, eal, opened, start)
}

/// The configuration's `[eal]`, with memory for DPDK's lookup structures, which use no other, and for more packet
/// buffers than usual.
fn with_memory(config: &Config) -> config::Eal {
    let v4 = config.all_routes().filter(|(prefix, _)| prefix.addr().is_ipv4()).count();
    let v6 = config.all_routes().count() - v4;
    let fib = &config.router.fib;
    let tables = dpdk::fib::memory_mb(&fib.v4, v4).saturating_add(dpdk::fib::memory_mb(&fib.v6, v6));
    // Half of what EAL has by default is room enough for the usual pool.
    let usual = EalConfig::default().memory_mb;
    let largest = config.ports.iter().map(|port| port.mtu).max().unwrap_or(0).max(2048);
    let pool = (u64::from(ports::buffers(config, &config.ports)) * (u64::from(largest) + 512)) >> 20;
    let buffers = u32::try_from(pool).unwrap_or(u32::MAX).saturating_sub(usual / 2);
    let memory = config.eal.memory.unwrap_or(usual.saturating_add(buffers));
    config::Eal { memory: Some(memory.saturating_add(tables)), ..config.eal.clone() }
}

/// The helper is needed for twins and for interfaces under ports, and by a router that is no longer root at its end.
fn start_helper(config: &Config) -> Result<Option<Arc<Helper>>> {
    let linux = |port: &config::Port| matches!(port.device, config::Device::Linux { .. });
    let root = rustix::process::geteuid().is_root();
    if !root && !config.ports.iter().any(|port| port.twin || linux(port)) {
        return Ok(None);
    }
    let program = std::env::current_exe().context("the program's own path is not known")?;
    let reach = Reach::to(config.router.namespace.as_ref());
    let helper = claims::shared(|| Helper::start(&program, reach))??;
    let eal = EalConfig {
        file_prefix: config.eal.file_prefix.clone(),
        extra: config.eal.args.clone(),
        ..EalConfig::default()
    };
    // A router that is killed while DPDK starts leaves its folder.
    helper.remove_at_end(Eal::make_runtime_dir(&eal)?.into_iter().collect())?;
    // Before there is anything to restore: whichever of the two is killed, the other one does it.
    helper.stand_by()?;
    Ok(Some(Arc::new(helper)))
}

/// The router becomes an unprivileged user's. Files that only root can remove have been left to the helper.
fn give_up_root(settings: &Settings, helper: Option<&Arc<Helper>>) -> Result<()> {
    if let Some(helper) = helper {
        helper.configuration(&settings.path)?;
        helper.started()?;
    }
    match privileges::become_user().context("the router cannot give up being root")? {
        Became::User(id) => tracing::debug!("the router is user {id} now"),
        Became::Same => tracing::debug!("the router stays the user it is"),
    }
    Ok(())
}

/// Starts DPDK. Without PCI devices it is done by a thread without capabilities, whose children EAL's own threads are.
pub fn start_eal(eal: &config::Eal, pci: Vec<String>) -> Result<Eal> {
    let unprivileged = pci.is_empty();
    let config = EalConfig {
        hugepages: match eal.hugepages {
            config::Hugepages::Auto => dpdk::Hugepages::Auto,
            config::Hugepages::On => dpdk::Hugepages::Yes,
            config::Hugepages::Off => dpdk::Hugepages::No,
        },
        memory_mb: eal.memory.unwrap_or(EalConfig::default().memory_mb),
        file_prefix: eal.file_prefix.clone(),
        pci,
        extra: eal.args.clone(),
        ..EalConfig::default()
    };
    let eal = if unprivileged {
        let start = move || -> Result<Eal> {
            privileges::drop_all()?;
            Ok(Eal::start(&config)?)
        };
        let thread = std::thread::Builder::new().name("eal".to_owned()).spawn(start)?;
        thread.join().map_err(|_| anyhow!("DPDK's start-up panicked"))??
    } else {
        Eal::start(&config)?
    };
    if let Some(note) = eal.note() {
        tracing::warn!("{note}");
    }
    Ok(eal)
}

/// Refuses packets: a script that is only being loaded has none.
struct NoPunts;

impl PuntSink for NoPunts {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        Err(packet)
    }
}

/// Makes the contexts that scripts are loaded with.
fn staging(tables: Staging, custom: Arc<CustomReasons>) -> perigee_lua::Staging {
    Box::new(move || Context {
        now: 0,
        worker: Context::NO_WORKER,
        tables: tables.subscribe(),
        counters: Arc::new(Counters::new(0)),
        outputs: Vec::new(),
        punts: Box::new(NoPunts),
        custom: custom.clone(),
        next_redirect: 0,
        fragments: Default::default(),
        multicast: Default::default(),
        failure: None,
        trace: None,
        stopwatch: Default::default(),
        watched: false,
    })
}

/// The tables of a configuration, and how filters are compiled again.
fn tables(config: &Config, eal: &Eal, opened: &Opened) -> Result<(Forwarding, DpdkFilters)> {
    let rebuild = DpdkFilters { eal: eal.clone(), done: opened.steered.clone() };
    let filters = rebuild.filters(config).map_err(|error| anyhow!(error))?;
    let lookups = match &opened.plane {
        Some(plane) => check::lookups().in_arena(plane.arena()),
        None => lookups(config),
    };
    Ok((Forwarding::new(config, &opened.infos, filters, lookups)?, rebuild))
}

/// The lookup structures; on a machine with several NUMA nodes in a copy for each of those that have workers.
fn lookups(config: &Config) -> Lookups {
    let nodes = table_nodes(config);
    if nodes.is_empty() {
        return check::lookups();
    }
    let names: Vec<_> = nodes.iter().map(u16::to_string).collect();
    tracing::info!("routing tables are on NUMA node{} {}", if nodes.len() > 1 { "s" } else { "" }, names.join(", "));
    let copies = nodes.len();
    check::lookups().on_nodes(copies, Arc::new(move |copy, work| dpdk::numa::allocate_on(nodes[copy], work)))
}

/// The NUMA nodes that have workers, in rising order; none on a machine with one node.
fn table_nodes(config: &Config) -> Vec<u16> {
    let nodes: BTreeSet<u16> = worker_nodes(config).into_iter().flatten().collect();
    nodes.into_iter().collect()
}

/// What all threads share.
struct Common {
    clock: Clock,
    stop: Stop,
    custom: Arc<CustomReasons>,
    mailbox: Mailbox,
}

/// The workers, the slow path's ends of them, and the ends of its assistants, which these bells wake: the punt rings of
/// each.
fn workers(
    config: &Config,
    queues: Vec<WorkerQueues>,
    opened: &Opened,
    forwarding: &Forwarding,
    common: &Common,
    assistants: &[AssistantBell],
) -> (Vec<Worker>, Vec<WorkerEnd>, Vec<Vec<PuntReader>>) {
    let bells: Vec<_> =
        std::iter::once(common.mailbox.bell()).chain(assistants.iter().map(AssistantBell::bell)).collect();
    let mut of_assistants: Vec<Vec<_>> = assistants.iter().map(|_| Vec::new()).collect();
    let width = opened.infos.iter().map(|info| usize::from(info.port) + 1).max().unwrap_or(0);
    let timeout = config.router.transmit_timeout.as_nanos() as u64;
    let buffer = |queue| TransmitBuffer::new(queue, config.router.transmit_queue.into(), timeout);
    let make = |(id, queues): (usize, WorkerQueues)| {
        let (punts, mut readers) = punt_rings(config.router.punt_ring as usize, &bells);
        let owners = readers.remove(0);
        of_assistants.iter_mut().zip(readers).for_each(|(rings, ring)| rings.push(ring));
        let counters = Arc::new(Counters::new(width));
        let worker = Worker::new(WorkerParts {
            id,
            receivers: queues.receivers,
            outputs: queues.outputs.into_iter().map(|queue| queue.map(buffer)).collect(),
            punts: Box::new(punts),
            tables: forwarding.subscribe(),
            counters: counters.clone(),
            custom: common.custom.clone(),
            memory: &MBUF,
            burst: config.router.burst.into(),
            idle: idle(config.router.idle),
            clock: common.clock.clone(),
            stop: common.stop.clone(),
        });
        (worker, WorkerEnd { polled: queues.names, punts: owners, counters })
    };
    let (workers, ends) = queues.into_iter().enumerate().map(make).unzip();
    (workers, ends, of_assistants)
}

fn idle(policy: config::Idle) -> Idle {
    match policy {
        config::Idle::Poll => Idle::Poll,
        config::Idle::Sleep => Idle::Sleep,
        config::Idle::Adaptive => Idle::Adaptive,
    }
}

/// Puts the assistants of the slow path together.
fn assistants(
    config: &Config,
    (outputs, punts): (Vec<wiring::Outputs>, Vec<Vec<PuntReader>>),
    bells: Vec<AssistantBell>,
    opened: &Opened,
    forwarding: &Forwarding,
    common: &Common,
) -> (Assistants, Vec<AssistantThread>) {
    let mut all = Assistants::new(config);
    let width = opened.infos.iter().map(|info| usize::from(info.port) + 1).max().unwrap_or(0);
    let mut pools = vec![None; width];
    opened.ports.iter().for_each(|port| pools[usize::from(port.info().port)] = Some(port.pool() as Arc<dyn Pool>));
    let parts = outputs.into_iter().zip(punts).zip(bells);
    let add = |((outputs, punts), bell)| {
        let (clock, stop) = (common.clock.clone(), common.stop.clone());
        let (tables, owner) = (forwarding.subscribe(), common.mailbox.bell());
        all.add(AssistantParts { punts, outputs, pools: pools.clone(), tables, bell, owner, clock, stop })
    };
    let threads = parts.map(add).collect();
    (all, threads)
}

/// The program and configuration, as the API reports them.
fn version(config: &Config, path: &Path) -> VersionStatus {
    VersionStatus {
        name: config.router.name.clone(),
        perigee: env!("CARGO_PKG_VERSION").to_owned(),
        dpdk: dpdk::version(),
        pid: std::process::id(),
        uptime: 0.0,
        config: path.display().to_string(),
    }
}

fn assemble(
    config: Config,
    path: &Path,
    machine: Machine,
    script: Script,
    eal: Eal,
    opened: Opened,
    start: &Start,
) -> Result<Running> {
    let count = config.workers.len();
    let beside_plane = opened.plane.is_some();
    if beside_plane {
        scripts::say_beside_plane(&script);
    }
    let twins = linux::make_twins(&config, &opened, start)?;
    linux::make_vlans(&config, &opened);
    start.step()?;
    let bells: Vec<AssistantBell> = (1..config.router.slow_paths).map(|_| AssistantBell::default()).collect();
    let mut fabric = DpdkFabric { eal: &eal, nodes: worker_nodes(&config) };
    let mut wiring = wire(queues(&config, &opened)?, count, bells.len(), &mut fabric)?;
    wiring.notes.iter().for_each(|note| tracing::info!("{note}"));
    let (forwarding, rebuild) = tables(&config, &eal, &opened)?;
    start.step()?;
    let clock = dpdk::Clock::new();
    let (mailbox, end) = Mailbox::new()?;
    let common =
        Common { clock: Arc::new(move || clock.now()), stop: Stop::default(), custom: Arc::default(), mailbox };
    let staging = staging(forwarding.staging(), common.custom.clone());
    let scripts = Scripts::new(script, count, staging, scripts::budgets(&config.router), &spawn)?;
    let (feeds, below, fpm) = linux::follow_linux(&config, &opened, &common.mailbox)?;
    let (workers, ends, punts) = workers(&config, wiring.workers, &opened, &forwarding, &common, &bells);
    let queues = (std::mem::take(&mut wiring.slow.assistants), punts);
    let (assistants, helpers) = assistants(&config, queues, bells, &opened, &forwarding, &common);
    let counters = ends.iter().map(|end| end.counters.clone()).collect();
    let Router { socket, socket_group, metrics, .. } = &config.router;
    let server = Server::start_for(socket_group.as_deref(), socket, *metrics, Arc::new(common.mailbox.clone()))?;
    if let Some(helper) = &opened.helper {
        helper.remove_at_end(server.made())?;
    }
    let (nodes, of_workers) = (table_nodes(&config), worker_nodes(&config));
    let copy = |node: Option<u16>| nodes.iter().position(|own| Some(*own) == node).unwrap_or(0);
    let places: Vec<_> =
        config.workers.iter().zip(of_workers).map(|(worker, node)| (worker.core, copy(node))).collect();
    let plane = opened.plane.clone().map(|plane| plane as Arc<dyn KernelPlane>);
    let plane_thread = plane.clone().map(|plane| PlaneThread::new(plane, forwarding.subscribe(), common.stop.clone()));
    let of_config = config.ports.iter().zip(opened.ports.iter().zip(twins));
    let ports = of_config.map(|(config, port)| router_port(port, config, opened.plane.as_ref())).collect();
    let read = scripts::reader(opened.helper.as_ref());
    let slow = SlowParts {
        version: version(&config, path),
        ports: Ports::new(&config, ports, wiring.slow, below),
        settings: Settings { config, path: std::path::absolute(path)?, machine, read: read.clone() },
        workers: Workers::new(ends, common.custom.clone()).and_plane(plane),
        assistants,
        forwarding,
        scripts: Box::new(LuaScripts { scripts: scripts.clone(), read, beside_plane }),
        rebuild: Box::new(rebuild),
        mailbox: end,
        memory: &MBUF,
        clock: common.clock,
        stop: common.stop.clone(),
    };
    start.step()?;
    give_up_root(&slow.settings, opened.helper.as_ref())?;
    let linux = LinuxParts { feeds, helper: opened.helper.clone() };
    let mut running = Running {
        counters,
        custom: common.custom,
        stop: common.stop,
        mailbox: common.mailbox,
        workers: vec![],
        assistants: vec![],
        slow: None,
        server: Some(server),
        _fpm: fpm,
        rules: opened.rules,
        ports: opened.ports,
        pools: opened.pools,
        helper: opened.helper,
        twins: HeldTwins::default(),
    };
    running.start_threads(&eal, workers, &places, &scripts, (helpers, plane_thread), (slow, linux))?;
    Ok(running)
}
