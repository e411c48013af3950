// SPDX-License-Identifier: MIT
//! From the configuration's ports to open ones: packet pools, Linux interfaces under ports, rules of the hardware,
//! queues.

use super::plane::{XdpPlane, asks_for_plane};
use super::start::Start;
use crate::filters;
use anyhow::{Context as _, Result, anyhow};
use perigee_config as config;
use perigee_config::{Config, LinuxDriver, Stack};
use perigee_dpdk::{self as dpdk, DpdkPort, Eal, FlowRule, MBUF, MbufPool, PoolConfig, PortConfig};
use perigee_helper::twin::Twin;
use perigee_helper::{Helper, LinkPreparation, Refused, TwinStatus};
use perigee_net::MacAddr;
use perigee_packet::{Cutting, Pool, Port, PortInfo, ReceiveQueue, TransmitQueue};
use perigee_router::{PortQueues, RouterPort};
use perigee_socket::{Buffers, LinuxPort, SocketConfig, SocketPort, XdpPort};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A port that is open, by whatever drives it.
pub(super) enum OpenPort {
    Dpdk(DpdkPort),
    /// Its packets are DPDK's all the same, so that they can leave by any port.
    Socket(SocketPort, Arc<MbufPool>),
    Xdp(XdpPort, Arc<MbufPool>),
    /// Its interface is Linux's, and the in-kernel plane forwards there.
    Linux(LinuxPort, Arc<MbufPool>),
}

impl OpenPort {
    pub(super) fn info(&self) -> PortInfo {
        match self {
            OpenPort::Dpdk(port) => port.info(),
            OpenPort::Socket(port, _) => port.info(),
            OpenPort::Xdp(port, _) => port.info(),
            OpenPort::Linux(port, _) => port.info(),
        }
    }

    /// The port, if it is DPDK's.
    fn dpdk(&self) -> Option<&DpdkPort> {
        match self {
            OpenPort::Dpdk(port) => Some(port),
            OpenPort::Socket(..) | OpenPort::Xdp(..) | OpenPort::Linux(..) => None,
        }
    }

    fn receive(&self, index: u16) -> Result<Box<dyn ReceiveQueue>> {
        Ok(match self {
            OpenPort::Dpdk(port) => Box::new(port.rx_queue(index)?),
            OpenPort::Socket(port, _) => Box::new(port.rx_queue(index)?),
            OpenPort::Xdp(port, _) => Box::new(port.rx_queue(index)?),
            OpenPort::Linux(port, _) => Box::new(port.rx_queue(index)?),
        })
    }

    fn transmit(&self, index: u16) -> Result<Box<dyn TransmitQueue>> {
        Ok(match self {
            OpenPort::Dpdk(port) => Box::new(port.tx_queue(index)?),
            OpenPort::Socket(port, _) => Box::new(port.tx_queue(index)?),
            OpenPort::Xdp(port, _) => port.tx_queue(index)?,
            OpenPort::Linux(port, _) => Box::new(port.tx_queue()),
        })
    }

    /// Transmit queues, behind the others, that are the slow path's.
    fn packet_queues(&self) -> u16 {
        match self {
            OpenPort::Dpdk(_) | OpenPort::Socket(..) | OpenPort::Linux(..) => 0,
            OpenPort::Xdp(port, _) => port.packet_queues(),
        }
    }

    pub(super) fn pool(&self) -> Arc<MbufPool> {
        match self {
            OpenPort::Dpdk(port) => port.pool().clone(),
            OpenPort::Socket(_, pool) | OpenPort::Xdp(_, pool) | OpenPort::Linux(_, pool) => pool.clone(),
        }
    }

    fn takes_super_frames(&self) -> bool {
        self.info().offloads.contains(&"super-frames")
    }
}

/// The opened ports, with everything that depends on them.
pub(super) struct Opened {
    pub ports: Vec<OpenPort>,
    pub infos: Vec<PortInfo>,
    /// The workers that poll each port.
    pub pollers: Vec<Vec<usize>>,
    pub pools: Vec<Arc<MbufPool>>,
    pub rules: Vec<FlowRule>,
    pub steered: Vec<config::Steer>,
    pub helper: Option<Arc<Helper>>,
    /// What forwards in the kernel, if a port asks for it.
    pub plane: Option<Arc<XdpPlane>>,
}

/// The ports that are PCI devices: `0000:03:00.0`, with or without arguments.
pub(super) fn pci_devices(config: &Config) -> Vec<String> {
    config.ports.iter().filter_map(|port| pci_address(&port.device)).map(str::to_owned).collect()
}

fn pci_address(device: &config::Device) -> Option<&str> {
    let config::Device::Dpdk(device) = device else { return None };
    let name = device.split(',').next().unwrap_or_default();
    let digits = name.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.');
    (digits && name.contains(':') && name.contains('.')).then_some(name)
}

/// Packet buffers of the pool for these ports. A NIC keeps a buffer for each descriptor of its queues, and each thread
/// some in its cache: with fewer, a port does not start, or receives nothing.
pub(super) fn buffers<'a>(config: &Config, ports: impl IntoIterator<Item = &'a config::Port>) -> u32 {
    /// What two ports and a few workers take.
    const USUAL: u64 = 16_384;
    let threads = (config.workers.len() + usize::from(config.router.slow_paths)) as u64;
    let queues = |port: &config::Port| port.queues.map_or(config.workers.len() as u64, u64::from) + 1 + threads;
    let of_nics = ports.into_iter().filter(|port| pci_address(&port.device).is_some()).map(queues).sum::<u64>();
    // A cache grows by half before it is emptied.
    let cached = threads * u64::from(PoolConfig::default().cache) * 3 / 2;
    let held = of_nics * u64::from(PortConfig::DESCRIPTORS) + cached;
    config.router.mbufs.unwrap_or(held.max(USUAL).try_into().unwrap_or(u32::MAX))
}

/// Opens all ports, each with the pool of its NUMA node.
pub(super) fn open_ports(eal: &Eal, config: &Config, helper: Option<Arc<Helper>>, start: &Start) -> Result<Opened> {
    let pollers = assigned(config);
    let pools = pools(eal, config)?;
    let large = large_pool(eal, config);
    let steered = config.steers.clone();
    let plane = XdpPlane::load(config)?;
    inherit(config, helper.as_deref())?;
    let mut opened =
        Opened { ports: vec![], infos: vec![], pollers, pools: vec![], rules: vec![], steered, helper, plane };
    let macs = prepare_links(config, opened.helper.as_deref(), start)?;
    let mut ports = BTreeMap::new();
    // DPDK numbers its ports itself; the others get numbers that are left.
    let (dpdk, own): (Vec<_>, Vec<_>) = config.ports.iter().enumerate().partition(|(_, port)| by_dpdk(&port.device));
    for (index, port) in dpdk {
        start.step()?;
        let wanted = port_config(config, port, (index as u16, opened.pollers[index].len()), macs[index]);
        let pool = pools[&numa_node(&port.device)].clone();
        ports.insert(index, OpenPort::Dpdk(DpdkPort::open(eal, &wanted, &pool)?));
    }
    let taken: Vec<u16> = ports.values().map(|port: &OpenPort| port.info().port).collect();
    let mut numbers = (0..).filter(|number| !taken.contains(number));
    let mut prepared = Vec::new();
    for (index, port) in own {
        let wanted = port_config(config, port, (index as u16, opened.pollers[index].len()), macs[index]);
        let pool = pools[&numa_node(&port.device)].clone();
        let number = numbers.next().context("no number is left for a port")?;
        prepared.push((index, port, socket_config(&wanted, number, &pool, config.router.slow_paths), pool));
    }
    // The kernel waits with each one's ring: side by side.
    let plane = &opened.plane;
    let open = |(index, port, wanted, pool): (usize, &config::Port, SocketConfig, Arc<MbufPool>)| {
        let whole = large.clone().filter(|_| super_frames(port)).map(|pool| pool as Arc<dyn Pool>);
        let open = start
            .step()
            .map_err(anyhow::Error::from)
            .and_then(|()| open_own((port, config.router.stack), &wanted, whole, pool, plane));
        (index, open.with_context(|| format!("port {}", port.name)))
    };
    for (index, open) in perigee_socket::side_by_side(prepared, open) {
        ports.insert(index, open?);
    }
    for (index, open) in &ports {
        let (rules, done, notes) = filters::steer(open.dpdk(), *index as u16, config);
        notes.iter().for_each(|note| tracing::info!("{note}"));
        opened.rules.extend(rules);
        opened.steered.retain(|steer| steer.port.is_some_and(|p| usize::from(p) != *index) || done.contains(steer));
        let important = matches!(open, OpenPort::Xdp(..) | OpenPort::Linux(..));
        for note in open.info().notes {
            if important { tracing::info!("{note}") } else { tracing::debug!("{note}") }
        }
    }
    if let (Some(helper), Some(plane)) = (&opened.helper, &opened.plane) {
        helper.remove_at_end(plane.hand_over_pins())?;
    }
    opened.infos = ports.values().map(OpenPort::info).collect();
    opened.ports = ports.into_values().collect();
    opened.pools = pools.into_values().chain(large).collect();
    Ok(opened)
}

/// Where it is written how to restore the interfaces of a router that was killed, and whose plane forwards on.
fn kept(config: &Config) -> PathBuf {
    Path::new("/run/perigee").join(&config.router.name).with_extension("kept")
}

/// Takes over how to restore interfaces that a router of this name has left prepared, and says whether this one does so.
fn inherit(config: &Config, helper: Option<&Helper>) -> Result<()> {
    let (file, keep) = (kept(config), config.router.plane_persist && config.ports.iter().any(asks_for_plane));
    let Some(helper) = helper.filter(|_| keep || file.exists()) else { return Ok(()) };
    if keep && let Some(folder) = file.parent().filter(|folder| !folder.exists()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("plane_persist = true: cannot make {}", folder.display()))?;
        helper.remove_at_end(vec![folder.to_owned()])?;
    }
    Ok(helper.inherit(&file, keep)?)
}

/// Prepares the interfaces under ports, many at a time: each request takes its turn twice on a busy machine. Those that
/// stay Linux's are left as they are. Returns the MAC address of each port, if it is known yet.
fn prepare_links(config: &Config, helper: Option<&Helper>, start: &Start) -> Result<Vec<Option<MacAddr>>> {
    let mut macs: Vec<Option<MacAddr>> = config.ports.iter().map(|port| port.mac).collect();
    let is_ours = |port: &config::Port| config.router.stack == Stack::Perigee || !asks_for_plane(port);
    if let Some(helper) = helper.filter(|_| config.router.stack == Stack::Linux) {
        let own = config.ports.iter().filter_map(interface_under).map(|(interface, _)| interface.clone());
        helper.follow(own.collect())?;
    }
    let linux = |(index, port)| interface_under(port).filter(|_| is_ours(port)).map(|under| (index, port, under));
    let all: Vec<(usize, &config::Port, _)> = config.ports.iter().enumerate().filter_map(linux).collect();
    for part in all.chunks(perigee_helper::AT_ONCE) {
        start.step()?;
        let helper = helper.ok_or_else(|| anyhow!("the helper process is missing"))?;
        let failed = |Refused { at, error }| {
            let name = part.get(at).map_or("", |(_, port, _)| port.name.as_str());
            anyhow!(error).context(format!("port {name}"))
        };
        let names: Vec<String> = part.iter().map(|(.., (interface, _))| (*interface).clone()).collect();
        let own = helper.link_macs(&names).map_err(failed)?;
        let mut preparations = Vec::with_capacity(part.len());
        for ((index, port, (interface, driver)), own) in part.iter().zip(own) {
            let wanted = port.mac.unwrap_or(own);
            macs[*index] = Some(wanted);
            let mut preparation = LinkPreparation::new(interface, own, wanted, port.mtu);
            // The kernel hears what a packet socket hears, and would answer too: it gets another MAC address. Not so
            // with AF_XDP.
            if matches!(driver, LinuxDriver::Xdp | LinuxDriver::AfXdp) {
                preparation.other_mac = None;
            }
            preparation.leaves_program = *driver == LinuxDriver::AfXdp;
            preparations.push(preparation);
        }
        helper.prepare_links(&preparations).map_err(failed)?;
    }
    Ok(macs)
}

/// The interface of Linux under a port, and what drives it.
fn interface_under(port: &config::Port) -> Option<(&String, LinuxDriver)> {
    match &port.device {
        config::Device::Linux { interface, driver } => Some((interface, *driver)),
        config::Device::Dpdk(_) => None,
    }
}

/// Opens a port by sockets of our own.
fn open_own(
    (port, stack): (&config::Port, Stack),
    wanted: &SocketConfig,
    super_frames: Option<Arc<dyn Pool>>,
    pool: Arc<MbufPool>,
    plane: &Option<Arc<XdpPlane>>,
) -> Result<OpenPort> {
    let plane = plane.as_ref().filter(|_| asks_for_plane(port));
    let program = plane.map(|plane| plane.program(wanted.number, &port.name));
    let buffers = Buffers { pool: pool.clone(), super_frames, memory: &MBUF };
    Ok(match (linux_driver(&port.device), program) {
        (Some(LinuxDriver::Xdp), Some(program)) if stack == Stack::Linux => {
            let port = LinuxPort::open(wanted, program, buffers)?;
            plane.into_iter().for_each(|plane| plane.watch_by(port.watch()));
            OpenPort::Linux(port, pool)
        }
        (Some(LinuxDriver::Xdp), program) => OpenPort::Xdp(XdpPort::open_behind(program, wanted, buffers)?, pool),
        _ => OpenPort::Socket(SocketPort::open(wanted, buffers)?, pool),
    })
}

/// A pool of packet buffers for each NUMA node that has ports.
fn pools(eal: &Eal, config: &Config) -> Result<BTreeMap<Option<u16>, Arc<MbufPool>>> {
    let largest = config.ports.iter().map(|port| port.mtu).max().unwrap_or(1500);
    let mut pools = BTreeMap::new();
    for node in config.ports.iter().map(|port| numa_node(&port.device)) {
        if let Entry::Vacant(missing) = pools.entry(node) {
            let sharing = config.ports.iter().filter(|port| numa_node(&port.device) == node);
            let buffers = buffers(config, sharing);
            let wanted = PoolConfig { buffers, numa_node: node, ..PoolConfig::default() };
            missing.insert(MbufPool::new(eal, wanted.for_mtu(largest))?);
        }
    }
    Ok(pools)
}

/// Buffers for super-frames, shared by all ports: 32 MB. Few are in use at a time, as each is forwarded at once.
const SUPER_FRAMES: PoolConfig =
    PoolConfig { buffers: 511, cache: 32, room: u16::MAX - dpdk::HEADROOM, numa_node: None };

/// The buffers for super-frames, if ports want some. Where there is no memory for them, super-frames are cut.
fn large_pool(eal: &Eal, config: &Config) -> Option<Arc<MbufPool>> {
    if !config.ports.iter().any(super_frames) {
        return None;
    }
    MbufPool::new(eal, SUPER_FRAMES)
        .inspect_err(|error| tracing::info!("super-frames are cut into segments on arrival: {error}"))
        .ok()
}

/// Whether super-frames of a port stay whole.
fn super_frames(port: &config::Port) -> bool {
    linux_driver(&port.device) == Some(LinuxDriver::Packet) && port.super_frames
}

fn linux_driver(device: &config::Device) -> Option<LinuxDriver> {
    match device {
        config::Device::Linux { driver, .. } => Some(*driver),
        config::Device::Dpdk(_) => None,
    }
}

/// Whether DPDK drives it.
fn by_dpdk(device: &config::Device) -> bool {
    !matches!(linux_driver(device), Some(LinuxDriver::Packet | LinuxDriver::Xdp))
}

/// The same port by sockets of our own.
fn socket_config(wanted: &PortConfig, number: u16, pool: &MbufPool, slow_paths: u16) -> SocketConfig {
    SocketConfig {
        number,
        receive_queues: wanted.receive_queues,
        transmit_queues: wanted.transmit_queues - slow_paths,
        // A device's queues may be as few as its workers: what the slow path gave to one of these would wake nobody.
        packet_queues: slow_paths,
        mtu: wanted.mtu,
        mac: wanted.mac,
        promiscuous: wanted.promiscuous,
        room: pool.config().room,
        ..SocketConfig::new(wanted.device.name())
    }
}

/// NUMA node of a device, if it is known.
fn numa_node(device: &config::Device) -> Option<u16> {
    let sys = Path::new("/sys");
    match device {
        config::Device::Dpdk(device) => dpdk::numa::device_node(sys, device),
        // On one node all interfaces share a pool.
        config::Device::Linux { interface, .. } if dpdk::numa::Topology::here().several() => {
            dpdk::numa::device_node(sys, interface)
        }
        config::Device::Linux { .. } => None,
    }
}

/// The NUMA node of each worker, where the machine has several.
pub(super) fn worker_nodes(config: &Config) -> Vec<Option<u16>> {
    let topology = dpdk::numa::Topology::here();
    config.workers.iter().map(|worker| topology.node_of(worker.core.into())).collect()
}

/// The workers that poll each port. Says so where not all poll all, and where packets cross from one node to another.
fn assigned(config: &Config) -> Vec<Vec<usize>> {
    let several = dpdk::numa::Topology::here().several();
    let ports: Vec<_> = config.ports.iter().map(|port| numa_node(&port.device).filter(|_| several)).collect();
    let workers = worker_nodes(config);
    let pollers = perigee_router::pollers(config, (&ports, &workers));
    for ((port, node), pollers) in config.ports.iter().zip(&ports).zip(&pollers) {
        if pollers.len() < config.workers.len() {
            let numbers: Vec<_> = pollers.iter().map(usize::to_string).collect();
            let s = if numbers.len() == 1 { "" } else { "s" };
            tracing::info!("port {}: polled by worker{s} {}", port.name, numbers.join(", "));
        }
        for worker in pollers {
            if let (Some(port_node), Some(own)) = (node, workers[*worker])
                && *port_node != own
            {
                let (name, core) = (&port.name, config.workers[*worker].core);
                tracing::info!(
                    "port {name} is on NUMA node {port_node}, and worker {worker}, on core {core}, on node {own}"
                );
            }
        }
    }
    pollers
}

/// How a port is opened, with a MAC address if it is known yet.
fn port_config(
    config: &Config,
    port: &config::Port,
    (index, pollers): (u16, usize),
    mac: Option<MacAddr>,
) -> PortConfig {
    let workers = config.workers.len() as u16;
    let device = match &port.device {
        config::Device::Dpdk(device) => dpdk::Device::Dpdk(device.clone()),
        config::Device::Linux { interface, driver: LinuxDriver::AfXdp } => dpdk::Device::Xdp(interface.clone()),
        config::Device::Linux { interface, .. } => dpdk::Device::Interface(interface.clone()),
    };
    let steers = config.steers.iter().any(|steer| steer.port.is_none_or(|port| port == index));
    PortConfig {
        receive_queues: port.queues.unwrap_or(pollers as u16),
        transmit_queues: workers + config.router.slow_paths,
        slow_path_queue: steers,
        mtu: Some(port.mtu),
        mac,
        promiscuous: port.promiscuous,
        interrupts: config.router.idle == config::Idle::Adaptive,
        ..PortConfig::new(device)
    }
}

/// All queues of all ports. Where some receive super-frames, the others' are cut before they leave.
pub(super) fn queues(config: &Config, opened: &Opened) -> Result<Vec<PortQueues>> {
    let ports = config.ports.iter().zip(&opened.ports).zip(&opened.pollers);
    let super_frames = opened.ports.iter().any(OpenPort::takes_super_frames);
    let all: Result<Vec<_>> =
        ports.map(|((config, port), pollers)| queues_of(&config.name, port, pollers, super_frames)).collect();
    for (config, port) in config.ports.iter().zip(&opened.ports) {
        if let Some(port) = port.dpdk() {
            say_paths(&config.name, port);
        }
    }
    all.inspect(|all| {
        if config.router.idle != config::Idle::Poll {
            all.iter().for_each(say_what_wakes);
        }
    })
}

/// Says which functions of its driver a port receives and transmits with, where there are several: the vectorised ones
/// take the fewest cycles, and a setting may stand in their way.
fn say_paths(name: &str, port: &DpdkPort) {
    if let [Some(receive), Some(transmit)] = port.paths() {
        tracing::info!("port {name}: receives by \"{receive}\", transmits by \"{transmit}\"");
    }
}

/// Says what a port wakes its workers by: the least of its queues.
fn say_what_wakes(port: &PortQueues) {
    if let Some(wakes) = port.receive.iter().map(|queue| queue.wakes()).min() {
        tracing::info!("port {}: idle workers wake by {wakes}", port.name);
    }
}

fn queues_of(name: &str, port: &OpenPort, pollers: &[usize], super_frames: bool) -> Result<PortQueues> {
    let info = port.info();
    let slow = port.dpdk().and_then(DpdkPort::slow_path_queue);
    let packet = port.packet_queues();
    let cut = super_frames && !port.takes_super_frames();
    let transmit = |index| {
        let queue = port.transmit(index)?;
        Ok(if cut { Box::new(Cutting::new(queue, port.pool(), &MBUF)) } else { queue })
    };
    Ok(PortQueues {
        name: name.to_owned(),
        port: info.port,
        pollers: pollers.to_vec(),
        receive: (0..info.receive_queues).map(|index| port.receive(index)).collect::<Result<_>>()?,
        slow_receive: slow.map(|index| port.receive(index)).transpose()?,
        transmit: (0..info.transmit_queues - packet).map(transmit).collect::<Result<_>>()?,
        slow_transmit: (info.transmit_queues - packet..info.transmit_queues).map(transmit).collect::<Result<_>>()?,
    })
}

/// A port as the slow path uses it.
pub(super) fn router_port(
    (port, twin): (&OpenPort, Option<(Twin, TwinStatus)>),
    config: &config::Port,
    plane: Option<&Arc<XdpPlane>>,
) -> RouterPort {
    let pool = port.pool();
    let port: Arc<dyn Port> = match port {
        OpenPort::Dpdk(port) => Arc::new(port.clone()),
        OpenPort::Socket(port, _) => Arc::new(port.clone()),
        OpenPort::Xdp(port, _) => Arc::new(port.clone()),
        OpenPort::Linux(port, _) => Arc::new(port.clone()),
    };
    let port = match plane.filter(|_| asks_for_plane(config)) {
        Some(plane) => plane.port(port),
        None => port,
    };
    RouterPort { port, pool, twin }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    /// A configuration with two ports, on a machine with 64 cores.
    fn parsed(router: &str, devices: [&str; 2]) -> Config {
        let [one, two] = devices;
        let text = format!("[router]\n{router}\n[port.a]\ndevice = \"{one}\"\n[port.b]\ndevice = \"{two},arg=1\"\n");
        let machine = config::Machine { cores: (0..64).collect(), affinity: vec![], ..check::machine() };
        Config::parse_on("test.toml", &text, &machine).unwrap()
    }

    const NICS: [&str; 2] = ["0000:03:00.0", "0000:03:00.1"];

    /// Two NICs with eight queues each took all 16,384 buffers, and the last queue was left without.
    #[test]
    fn nics_with_many_queues_leave_buffers_for_packets() {
        let of = |router: &str, devices| {
            let config = parsed(router, devices);
            buffers(&config, &config.ports)
        };
        assert_eq!(of("workers = 1", NICS), 16_384);
        assert_eq!(of("workers = 8", NICS), 2 * (8 + 1 + 9) * 1024 + 9 * 384);
        assert_eq!(of("workers = \"auto\"", NICS), 2 * (63 + 1 + 64) * 1024 + 64 * 384);
        assert_eq!(of("workers = 8", ["net_tap0", "net_null0"]), 16_384, "these keep none");
        assert_eq!(of("workers = \"auto\"", ["net_tap0", "net_null0"]), 64 * 384);
        assert_eq!(of("workers = 8\nmbufs = 4096", NICS), 4096, "as configured");
    }

    #[test]
    fn pci_devices_are_told_from_others() {
        assert_eq!(pci_devices(&parsed("", NICS)), NICS);
        assert!(pci_devices(&parsed("", ["net_tap0", "net_null0"])).is_empty());
    }
}
