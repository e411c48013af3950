// SPDX-License-Identifier: MIT
//! From a configuration to a running router: helper, DPDK, ports, twins, tables, scripts, threads, API.
//!
//! Whatever fails is said in one sentence, and what was made before is taken back: dropping a half-made router closes its
//! ports, and the helper removes twins and restores interfaces when its socket closes.

mod linux;

use crate::check;
use crate::fabric::DpdkFabric;
use crate::filters::{self, DpdkFilters};
use crate::scripts::{self, LuaScripts};
use anyhow::{Context as _, Result, anyhow, bail};
use perigee_api::Server;
use perigee_api::answers::VersionStatus;
use perigee_config as config;
use perigee_config::{Config, LinuxDriver, Machine};
use perigee_dpdk::{self as dpdk, DpdkPort, Eal, EalConfig, FlowRule, MBUF, MbufPool, PoolConfig, PortConfig};
use perigee_helper::privileges;
use perigee_helper::twin::Twin;
use perigee_helper::{Helper, LinkPreparation, TwinStatus};
use perigee_lua::{Script, Scripts};
use perigee_modules::{Context, Counters, CustomReasons, PuntSink, Punted, Reason, all_reasons, reason};
use perigee_net::MacAddr;
use perigee_packet::{Pool, Port, PortInfo, ReceiveQueue, TransmitBuffer, TransmitQueue};
use perigee_router::{
    Account, Forwarding, LinuxParts, Mailbox, PortQueues, Ports, Rebuild, RouterPort, Settings, SlowParts, SlowThread,
    Staging, WorkerEnd, WorkerQueues, Workers, wire,
};
use perigee_worker::{Clock, Idle, Stop, Worker, WorkerParts, punt_ring};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A router that runs.
pub struct Running {
    stop: Stop,
    mailbox: Mailbox,
    workers: Vec<JoinHandle<()>>,
    slow: Option<JoinHandle<()>>,
    server: Option<Server>,
    counters: Vec<Arc<Counters>>,
    custom: Arc<CustomReasons>,
    // Dropped in this order: rules and ports before the pools that their buffers go back to.
    _rules: Vec<FlowRule>,
    ports: Vec<DpdkPort>,
    pools: Vec<Arc<MbufPool>>,
}

/// Ports as they were opened, with all that hangs on them.
struct Opened {
    ports: Vec<DpdkPort>,
    infos: Vec<PortInfo>,
    pools: Vec<Arc<MbufPool>>,
    rules: Vec<FlowRule>,
    steered: Vec<config::Steer>,
    helper: Option<Arc<Helper>>,
}

/// Starts a router.
///
/// # Errors
/// One sentence with the way out; nothing is left behind.
pub fn launch(config: Config, path: &Path, machine: Machine) -> Result<Running> {
    let script = scripts::read(config.router.script.as_deref())?;
    let helper = start_helper(&config)?;
    let eal = start_eal(&with_tables(&config), pci_devices(&config))?;
    let opened = open_ports(&eal, &config, helper)?;
    assemble(config, path, machine, script, eal, opened)
}

/// The configuration's `[eal]` with memory for lookup structures that are DPDK's, which have all of theirs there.
fn with_tables(config: &Config) -> config::Eal {
    let v4 = config.all_routes().filter(|(prefix, _)| prefix.addr().is_ipv4()).count();
    let v6 = config.all_routes().count() - v4;
    let fib = &config.router.fib;
    let tables = dpdk::fib::memory_mb(&fib.v4, v4).saturating_add(dpdk::fib::memory_mb(&fib.v6, v6));
    let memory = config.eal.memory.unwrap_or(EalConfig::default().memory_mb);
    config::Eal { memory: Some(memory.saturating_add(tables)), ..config.eal.clone() }
}

/// The helper is needed for twins and for interfaces under ports.
fn start_helper(config: &Config) -> Result<Option<Arc<Helper>>> {
    let linux = |port: &config::Port| matches!(port.device, config::Device::Linux { .. });
    if !config.ports.iter().any(|port| port.twin || linux(port)) {
        return Ok(None);
    }
    let program = std::env::current_exe().context("the program's own path is not known")?;
    Ok(Some(Arc::new(Helper::start(&program)?)))
}

/// The ports that are PCI devices: `0000:03:00.0`, with or without arguments.
fn pci_devices(config: &Config) -> Vec<String> {
    let address = |port: &config::Port| match &port.device {
        config::Device::Dpdk(device) => {
            let name = device.split(',').next().unwrap_or_default();
            let digits = name.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.');
            (digits && name.contains(':') && name.contains('.')).then(|| name.to_owned())
        }
        config::Device::Linux { .. } => None,
    };
    config.ports.iter().filter_map(address).collect()
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
    if !unprivileged {
        return Ok(Eal::start(&config)?);
    }
    let start = move || {
        privileges::drop_all()?;
        Ok(Eal::start(&config)?)
    };
    let thread = std::thread::Builder::new().name("eal".to_owned()).spawn(start)?;
    thread.join().map_err(|_| anyhow!("DPDK's start-up panicked"))?
}

fn open_ports(eal: &Eal, config: &Config, helper: Option<Arc<Helper>>) -> Result<Opened> {
    let mut pools: BTreeMap<Option<u16>, Arc<MbufPool>> = BTreeMap::new();
    let largest = config.ports.iter().map(|port| port.mtu).max().unwrap_or(1500);
    let mut opened =
        Opened { ports: vec![], infos: vec![], pools: vec![], rules: vec![], steered: config.steers.clone(), helper };
    for (index, port) in config.ports.iter().enumerate() {
        let node = numa_node(&port.device);
        let pool = match pools.get(&node) {
            Some(pool) => pool.clone(),
            None => {
                let wanted = PoolConfig { buffers: config.router.mbufs, numa_node: node, ..PoolConfig::default() };
                let pool = MbufPool::new(eal, wanted.for_mtu(largest))?;
                pools.insert(node, pool.clone());
                pool
            }
        };
        let wanted = port_config(config, port, index as u16, opened.helper.as_deref())?;
        let open = DpdkPort::open(eal, &wanted, &pool)?;
        let (rules, done, notes) = filters::steer(&open, index as u16, config);
        opened.rules.extend(rules);
        opened.steered.retain(|steer| steer.port.is_some_and(|p| usize::from(p) != index) || done.contains(steer));
        let info = open.info();
        info.notes.iter().for_each(|note| tracing::debug!("{note}"));
        notes.iter().for_each(|note| tracing::info!("{note}"));
        opened.infos.push(info);
        opened.ports.push(open);
    }
    opened.pools = pools.into_values().collect();
    Ok(opened)
}

/// NUMA node of a PCI device.
fn numa_node(device: &config::Device) -> Option<u16> {
    let config::Device::Dpdk(device) = device else { return None };
    let address = device.split(',').next()?;
    std::fs::read_to_string(format!("/sys/bus/pci/devices/{address}/numa_node")).ok()?.trim().parse().ok()
}

/// How a port is opened; prepares the interface under it.
fn port_config(config: &Config, port: &config::Port, index: u16, helper: Option<&Helper>) -> Result<PortConfig> {
    let workers = config.workers.len() as u16;
    let mut mac = port.mac;
    let device = match &port.device {
        config::Device::Dpdk(device) => dpdk::Device::Dpdk(device.clone()),
        config::Device::Linux { interface, driver } => {
            let helper = helper.ok_or_else(|| anyhow!("the helper process is missing"))?;
            let own = helper.link_mac(interface).with_context(|| format!("port {}", port.name))?;
            let wanted = mac.unwrap_or(own);
            mac = Some(wanted);
            // The kernel hears what an AF_PACKET port hears, and would answer too: it gets a MAC address of its own.
            let clash = *driver == LinuxDriver::AfPacket && wanted == own;
            let other_mac = clash.then(|| another_mac(own));
            let prepared =
                helper.prepare_link(&LinkPreparation { name: interface.clone(), other_mac, mtu: Some(port.mtu) });
            prepared.with_context(|| format!("port {}", port.name))?;
            match driver {
                LinuxDriver::AfPacket => dpdk::Device::Interface(interface.clone()),
                LinuxDriver::AfXdp => dpdk::Device::Xdp(interface.clone()),
            }
        }
    };
    let steers = config.steers.iter().any(|steer| steer.port.is_none_or(|port| port == index));
    Ok(PortConfig {
        receive_queues: port.queues.unwrap_or(workers),
        transmit_queues: workers + 1,
        slow_path_queue: steers,
        mtu: Some(port.mtu),
        mac,
        promiscuous: port.promiscuous,
        ..PortConfig::new(device)
    })
}

/// A locally administered address that differs from the one given.
fn another_mac(mac: MacAddr) -> MacAddr {
    let mut octets = mac.octets();
    octets[0] = (octets[0] | 0x02) & 0xfe;
    octets[5] ^= 0x80;
    octets[4] ^= 0x70;
    MacAddr(octets)
}

/// All queues of a port.
fn queues(name: &str, port: &DpdkPort) -> Result<PortQueues> {
    let info = port.info();
    let receive = |index| Ok(Box::new(port.rx_queue(index)?) as Box<dyn ReceiveQueue>);
    let transmit = |index| Ok(Box::new(port.tx_queue(index)?) as Box<dyn TransmitQueue>);
    Ok(PortQueues {
        name: name.to_owned(),
        port: info.port,
        receive: (0..info.receive_queues).map(receive).collect::<Result<_>>()?,
        slow_receive: port.slow_path_queue().map(receive).transpose()?,
        transmit: (0..info.transmit_queues).map(transmit).collect::<Result<_>>()?,
    })
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
        tables: tables.subscribe(),
        counters: Arc::new(Counters::new(0)),
        outputs: Vec::new(),
        punts: Box::new(NoPunts),
        custom: custom.clone(),
        failure: None,
        trace: None,
    })
}

/// The tables of a configuration, and how filters are compiled again.
fn tables(config: &Config, eal: &Eal, opened: &Opened) -> Result<(Forwarding, DpdkFilters)> {
    let rebuild = DpdkFilters { eal: eal.clone(), done: opened.steered.clone() };
    let filters = rebuild.filters(config).map_err(|error| anyhow!(error))?;
    Ok((Forwarding::new(config, &opened.infos, filters, check::lookups())?, rebuild))
}

/// What all threads share.
struct Common {
    clock: Clock,
    stop: Stop,
    custom: Arc<CustomReasons>,
    mailbox: Mailbox,
}

/// The workers, and the slow path's ends of them.
fn workers(
    config: &Config,
    queues: Vec<WorkerQueues>,
    opened: &Opened,
    forwarding: &Forwarding,
    common: &Common,
) -> (Vec<Worker>, Vec<WorkerEnd>) {
    let width = opened.infos.iter().map(|info| usize::from(info.port) + 1).max().unwrap_or(0);
    let timeout = config.router.transmit_timeout.as_nanos() as u64;
    let buffer = |queue| TransmitBuffer::new(queue, config.router.transmit_queue.into(), timeout);
    let make = |(id, queues): (usize, WorkerQueues)| {
        let (punts, reader) = punt_ring(config.router.punt_ring as usize, common.mailbox.bell());
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
            idle: if config.router.idle == config::Idle::Poll { Idle::Poll } else { Idle::Sleep },
            clock: common.clock.clone(),
            stop: common.stop.clone(),
        });
        (worker, WorkerEnd { polled: queues.names, punts: reader, counters })
    };
    queues.into_iter().enumerate().map(make).unzip()
}

/// A port as the slow path has it.
fn router_port((port, twin): (&DpdkPort, Option<(Twin, TwinStatus)>)) -> RouterPort {
    RouterPort { port: Arc::new(port.clone()), pool: port.pool().clone() as Arc<dyn Pool>, twin }
}

/// Who answers the API's requests.
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
) -> Result<Running> {
    let count = config.workers.len();
    let twins = linux::make_twins(&config, &opened)?;
    linux::make_vlans(&config, &opened);
    let queues =
        config.ports.iter().zip(&opened.ports).map(|(c, port)| queues(&c.name, port)).collect::<Result<Vec<_>>>()?;
    let wiring = wire(queues, count, &mut DpdkFabric(&eal)).map_err(|error| anyhow!(error))?;
    wiring.notes.iter().for_each(|note| tracing::info!("{note}"));
    let (forwarding, rebuild) = tables(&config, &eal, &opened)?;
    let clock = dpdk::Clock::new(&eal);
    let (mailbox, end) = Mailbox::new()?;
    let common =
        Common { clock: Arc::new(move || clock.now()), stop: Stop::default(), custom: Arc::default(), mailbox };
    let scripts = Scripts::new(script, count, staging(forwarding.staging(), common.custom.clone()))?;
    let (feeds, underlay) = linux::follow_linux(&config, &opened, &common.mailbox)?;
    let (workers, ends) = workers(&config, wiring.workers, &opened, &forwarding, &common);
    let counters = ends.iter().map(|end| end.counters.clone()).collect();
    let server = Server::start(&config.router.socket, config.router.metrics, Arc::new(common.mailbox.clone()))?;
    let cores: Vec<u16> = config.workers.iter().map(|worker| worker.core).collect();
    let ports = opened.ports.iter().zip(twins).map(router_port).collect();
    let slow = SlowParts {
        version: version(&config, path),
        ports: Ports::new(&config, ports, wiring.slow, underlay),
        settings: Settings { config, path: std::path::absolute(path)?, machine },
        workers: Workers::new(ends, common.custom.clone()),
        forwarding,
        scripts: Box::new(LuaScripts(scripts.clone())),
        rebuild: Box::new(rebuild),
        mailbox: end,
        memory: &MBUF,
        clock: common.clock,
        stop: common.stop.clone(),
    };
    let linux = LinuxParts { feeds, helper: opened.helper };
    let mut running = Running {
        counters,
        custom: common.custom,
        stop: common.stop,
        mailbox: common.mailbox,
        workers: vec![],
        slow: None,
        server: Some(server),
        _rules: opened.rules,
        ports: opened.ports,
        pools: opened.pools,
    };
    running.start_threads(&eal, workers, &cores, &scripts, (slow, linux))?;
    Ok(running)
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

/// Keeps the calling thread off the workers' cores, where there are others: a flood for the slow path costs workers nothing.
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
    fn start_threads(
        &mut self,
        eal: &Eal,
        workers: Vec<Worker>,
        cores: &[u16],
        scripts: &Scripts,
        (slow, linux): (SlowParts, LinuxParts),
    ) -> Result<()> {
        for (worker, core) in workers.into_iter().zip(cores.iter().copied()) {
            let (eal, scripts) = (eal.clone(), scripts.clone());
            let body = move || {
                let _registered = enter(&eal);
                if let Err(error) = dpdk::pin_current_thread(core.into()) {
                    tracing::warn!("worker {} is not pinned: {error}", worker.id());
                }
                scripts.run(worker);
            };
            self.workers.push(self.guarded(format!("worker-{}", self.workers.len()), body)?);
        }
        let (eal, stop) = (eal.clone(), self.stop.clone());
        let cores = cores.to_vec();
        let body = move || {
            let _registered = enter(&eal);
            keep_off(&cores);
            let mut slow = SlowThread::new(slow, linux);
            slow.run();
            debug_assert!(stop.requested());
            slow.finish();
        };
        self.slow = Some(self.guarded("slow-path".to_owned(), body)?);
        privileges::drop_all().context("the capabilities cannot be dropped")?;
        for thread in privileges::still_privileged().unwrap_or_default() {
            tracing::debug!("thread {thread} has capabilities");
        }
        Ok(())
    }

    /// A thread whose end, even by a panic, is the router's.
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

    /// Has a thread ended, or was a stop requested?
    pub fn stopping(&self) -> bool {
        self.stop.requested()
    }

    /// The API's socket.
    pub fn socket(&self) -> Option<&Path> {
        self.server.as_ref().map(Server::path)
    }

    /// Ports as they were opened.
    pub fn ports(&self) -> Vec<PortInfo> {
        self.ports.iter().map(Port::info).collect()
    }

    /// Stops all threads, closes the ports, and checks that every packet buffer came back. What the workers did in all.
    ///
    /// # Errors
    /// A thread panicked, or buffers are missing.
    pub fn shut_down(mut self) -> Result<Account> {
        self.stop.request();
        self.mailbox.wake();
        let mut panicked = 0;
        for thread in std::mem::take(&mut self.workers).into_iter().chain(self.slow.take()) {
            panicked += usize::from(thread.join().is_err());
        }
        drop(self.server.take());
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
    fn account(&self) -> Account {
        let own = all_reasons().filter(|(_, _, info)| info.kind == reason::Kind::Drop).map(|(reason, ..)| reason);
        let custom = self.custom.all().into_iter().filter(|(.., kind)| *kind == reason::Kind::Drop);
        let drops: Vec<Reason> = own.chain(custom.map(|(reason, ..)| reason)).collect();
        let of_worker = |sum: Account, counters: &Arc<Counters>| Account {
            // What another worker was handed counts there.
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
        for thread in std::mem::take(&mut self.workers).into_iter().chain(self.slow.take()) {
            let _ = thread.join();
        }
    }
}
