// SPDX-License-Identifier: MIT
//! Assistants alone: each thread puts expired packets into its own punt ring and judges them. What is measured is
//! whether two on two cores get in each other's way: limits, tables and the pool of packets are shared.

use super::traffic::Kind;
use crate::machine::thread_time;
use crate::traffic::{Frame, eight_routes, tables};
use anyhow::{Context as _, Result, anyhow, ensure};
use perigee_config::{Config, Machine};
use perigee_dpdk::{
    Clock, Device, DpdkPort, Eal, EalConfig, Hugepages, MbufPool, PoolConfig, PortConfig, pin_current_thread,
};
use perigee_fib::Published;
use perigee_modules::{PuntSink, Punted, ttl};
use perigee_net::InterfaceId;
use perigee_packet::{Pool, TransmitQueue};
use perigee_router::{AssistantBell, AssistantParts, AssistantThread, Assistants};
use perigee_slowpath::{GroupPacket, Input, MulticastDecision, RouteDecision, Routes, Time};
use perigee_worker::{Bell, PuntRings, Stop, punt_rings};
use std::net::IpAddr;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Packets put into a ring at once.
const BURST: usize = 64;

/// What assistants need besides each other.
pub struct Bed {
    cores: [usize; 2],
    eal: Eal,
    // Dropped in this order: the port before the pool that its buffers go back to.
    port: DpdkPort,
    pool: Arc<MbufPool>,
    frames: Arc<Vec<Frame>>,
}

/// The owner's interfaces need none.
pub struct NoRoutes;

impl Routes for NoRoutes {
    fn route(&self, _destination: IpAddr, _flow: u32) -> RouteDecision {
        RouteDecision::NoRoute
    }

    fn leads_back(&self, _source: IpAddr, _by: Option<InterfaceId>) -> bool {
        false
    }

    fn multicast(&self, _now: Time, _packet: &GroupPacket) -> MulticastDecision {
        MulticastDecision::NoRoute
    }

    fn lets_linux_send(&self, _interface: InterfaceId, _group: IpAddr, _ttl: u8) -> bool {
        true
    }
}

impl Bed {
    /// For one thread on each of these cores.
    pub fn new(cores: [usize; 2]) -> Result<Bed> {
        let eal = Eal::start(&EalConfig {
            hugepages: Hugepages::No,
            memory_mb: 256,
            main_core: Some(cores[0]),
            ..EalConfig::default()
        })?;
        let pool = MbufPool::new(&eal, PoolConfig { buffers: 32_767, ..PoolConfig::default() })?;
        let device = Device::Dpdk("net_null0,no-rx=1".to_owned());
        let port = DpdkPort::open(&eal, &PortConfig { transmit_queues: 2, ..PortConfig::new(device) }, &pool)?;
        let mut frames = Kind::Expired.frames()?;
        let tables = tables(eight_routes()?, 2)?;
        let own = tables.interfaces.get(InterfaceId(0)).context("there is no interface")?.mac;
        frames.iter_mut().for_each(|frame| frame[..6].copy_from_slice(&own.octets()));
        Ok(Bed { cores, eal, port, pool, frames: Arc::new(frames) })
    }

    /// Millions of errors per second of CPU time that `threads` assistants send together.
    pub fn rate(&self, threads: usize, time: Duration) -> Result<f64> {
        let text = "[router]\nicmp_rate = 1000000000\nicmp_source_rate = 1000000000\n\
                    [port.a]\ndevice = \"a\"\ntwin = false\n[port.b]\ndevice = \"b\"\ntwin = false\n";
        let config = Config::parse_on("bench", text, &Machine::default())?;
        let mut assistants = Assistants::new(&config);
        let mut owner = assistants.owner();
        let tables = tables(eight_routes()?, 2)?;
        for (id, interface) in tables.interfaces.iter() {
            owner.handle(Time(0), Input::SetInterface { id, interface: interface.clone() }, &NoRoutes);
        }
        let mut published = Published::new(tables);
        let bell = AssistantBell::default();
        let made = (0..threads).map(|number| {
            let (rings, punts) = punt_rings(4 * BURST, &[bell.bell()]);
            // Errors go back to where their causes come from, which is the first port.
            let outputs = vec![Some(Box::new(self.port.tx_queue(number as u16)?) as Box<dyn TransmitQueue>), None];
            let clock = Clock::new();
            let assistant = assistants.add(AssistantParts {
                punts,
                outputs,
                pools: vec![Some(self.pool.clone()), None],
                tables: published.subscribe(),
                bell: bell.clone(),
                owner: Arc::new(Bell::new(|| {})),
                clock: Arc::new(move || clock.now()),
                stop: Stop::default(),
            });
            Ok((rings, assistant))
        });
        let made: Vec<_> = made.collect::<Result<_>>()?;
        assistants.publish(&owner);
        let start = Arc::new(Barrier::new(threads));
        let running = made.into_iter().zip(self.cores).map(|((rings, assistant), core)| {
            let (eal, pool, frames, start) = (self.eal.clone(), self.pool.clone(), self.frames.clone(), start.clone());
            let body = move || {
                let _registered = eal.register_thread()?;
                pin_current_thread(core)?;
                start.wait();
                run(rings, assistant, &*pool, &frames, time)
            };
            std::thread::spawn(body)
        });
        let running: Vec<_> = running.collect();
        let rates = running.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
        let rate = rates.sum::<Result<f64>>()?;
        let sent: u64 = assistants.counters(&owner).icmp_errors_sent;
        ensure!(sent > 0 && self.pool.in_use() == 0, "{sent} errors were sent, {} buffers lost", self.pool.in_use());
        Ok(rate)
    }
}

/// One thread: millions of packets per second of its CPU time.
fn run(
    mut rings: PuntRings,
    mut assistant: AssistantThread,
    pool: &dyn Pool,
    frames: &[Frame],
    time: Duration,
) -> Result<f64> {
    let (before, begun, mut packets) = (thread_time(), Instant::now(), 0u64);
    for burst in frames.chunks(BURST).cycle() {
        for frame in burst {
            let packet = pool.packet(frame).context("there is no packet buffer left")?;
            let punted =
                Punted { packet, reason: ttl::EXPIRED, port: 0, interface: InterfaceId(0), next_hop: 0, trace: None };
            ensure!(rings.punt(punted).is_ok(), "the ring is full");
        }
        rings.announce();
        assistant.round();
        packets += burst.len() as u64;
        if begun.elapsed() >= time {
            break;
        }
    }
    assistant.finish();
    Ok(packets as f64 / (thread_time() - before).as_secs_f64() / 1e6)
}
