// SPDX-License-Identifier: MIT
//! Workers side by side in one process: each with a source of its own, or behind one source, spread by software.

use super::threads::Work;
use crate::traffic::{self, PORTS, Traffic};
use anyhow::{Result, ensure};
use perigee_dpdk::{self as dpdk, Device, DpdkPort, Eal, EalConfig, Hugepages, MBUF, MbufPool, PoolConfig, PortConfig};
use perigee_fib::Published;
use perigee_modules::{Counters, CustomReasons, PuntSink, Punted, Tables};
use perigee_packet::{Pool as _, Port as _, TransmitBuffer, TransmitQueue};
use perigee_worker::{Clock, Idle, Receiver, Spread, Stop, Worker, WorkerParts, native};
use std::cell::RefCell;
use std::sync::Arc;

/// Buffers: sources hold each packet of their file, so that there are few.
const PACKETS: usize = 4096;
const BUFFERS: u32 = 16_383;
/// Packets in a ring from one worker to another.
const RING: u32 = 1024;
/// Rounds of a stretch of work.
const ROUNDS: usize = 64;

/// Ports, tables and memory, without workers.
pub struct Forward {
    // Dropped in this order: ports before the pool that their buffers go back to.
    sources: Vec<DpdkPort>,
    sinks: Vec<DpdkPort>,
    pool: Arc<MbufPool>,
    tables: RefCell<Published<Tables>>,
    burst: usize,
    clock: Clock,
    eal: Eal,
    _folder: tempfile::TempDir,
}

/// Nothing is punted: all packets have a route.
struct NoPunts;

impl PuntSink for NoPunts {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        Err(packet)
    }
}

impl Forward {
    /// Opens what up to `most` workers need.
    pub fn start(most: usize, burst: usize, hugepages: bool) -> Result<Forward> {
        let folder = tempfile::tempdir()?;
        let mut frames = Traffic::small::<u32>()?.sources.remove(0);
        frames.truncate(PACKETS);
        let hugepages = if hugepages { Hugepages::Yes } else { Hugepages::No };
        let eal = Eal::start(&EalConfig { hugepages, memory_mb: super::MEMORY, ..EalConfig::default() })?;
        let buffers = BUFFERS + (most * 2 * PACKETS) as u32;
        let pool = MbufPool::new(&eal, PoolConfig { buffers, ..PoolConfig::default() })?;
        let open = |device: String| Ok(DpdkPort::open(&eal, &PortConfig::new(Device::Dpdk(device)), &pool)?);
        // Queues of one net_null have their counters on one cache line.
        let sink = |n| open(format!("net_null{n}"));
        let sinks: Vec<_> = (0..PORTS * most as u16).map(sink).collect::<Result<_>>()?;
        // Packets are for the MAC address of the port that they come in on.
        let source = |n: u16| {
            let (file, port) = (folder.path().join(format!("{n}.pcap")), PORTS * most as u16 + n);
            frames.iter_mut().for_each(|frame| frame[5] = port as u8);
            traffic::write_pcap(&file, &frames)?;
            let source = open(format!("net_pcap{n},rx_pcap={},infinite_rx=1", file.display()))?;
            ensure!(source.info().port == port, "DPDK numbers ports in another order than they are opened in");
            Ok(source)
        };
        let sources = (0..most as u16).map(source).collect::<Result<_>>()?;
        let tables = traffic::tables(traffic::eight_routes()?, (PORTS + 1) * most as u16)?;
        let clock = dpdk::Clock::new();
        let clock: Clock = Arc::new(move || clock.now());
        Ok(Forward { sources, sinks, pool, tables: Published::new(tables).into(), burst, clock, eal, _folder: folder })
    }

    /// `n` workers; `spread`: behind the first source's only queue.
    pub fn workers(&self, n: usize, spread: bool) -> Result<Vec<Work<'_>>> {
        let mut rings = Vec::new();
        if spread && n > 1 {
            rings = (0..n).map(|_| dpdk::ring(&self.eal, RING, None)).collect::<dpdk::Result<Vec<_>>>()?;
        }
        let senders: Vec<_> = rings.iter().map(|(sender, _)| sender.clone()).collect();
        let mut inboxes: Vec<_> = rings.into_iter().map(|(_, inbox)| Some(inbox)).collect();
        let worker = |id: usize| {
            let mut receivers = Vec::new();
            if let Some(inbox) = inboxes.get_mut(id).and_then(Option::take) {
                receivers.push(Receiver { queue: Box::new(inbox), spread: None, handed_over: true });
            }
            if id == 0 || !spread {
                let mut source = Receiver::new(Box::new(self.sources[id].rx_queue(0)?));
                let others = senders.iter().map(|ring| Some(Box::new(ring.clone()) as Box<dyn TransmitQueue>));
                source.spread = (!senders.is_empty()).then(|| Spread::new(id, others.collect()));
                receivers.push(source);
            }
            self.work(id, receivers)
        };
        (0..n).map(worker).collect()
    }

    fn work(&self, id: usize, receivers: Vec<Receiver>) -> Result<Work<'_>> {
        let counters = Arc::new(Counters::new(self.sinks.len() + self.sources.len()));
        let buffer = |sink: &DpdkPort| Ok(Some(TransmitBuffer::new(Box::new(sink.tx_queue(0)?), 32, 100_000)));
        let own = self.sinks.iter().skip(id * usize::from(PORTS)).take(PORTS.into());
        let mut worker = Worker::new(WorkerParts {
            id,
            receivers,
            outputs: own.map(buffer).collect::<Result<_>>()?,
            punts: Box::new(NoPunts),
            tables: self.tables.borrow_mut().subscribe(),
            counters: counters.clone(),
            custom: Arc::new(CustomReasons::default()),
            memory: &MBUF,
            burst: self.burst,
            idle: Idle::Poll,
            clock: self.clock.clone(),
            stop: Stop::default(),
        });
        let mut batch = worker.new_batch();
        Ok(Box::new(move || {
            let done = || (0..PORTS).map(|port| counters.port_transmitted(port)).sum::<u64>();
            let before = done();
            (0..ROUNDS).for_each(|_| native::round(&mut worker, &mut batch));
            done() - before
        }))
    }

    /// DPDK.
    pub fn eal(&self) -> &Eal {
        &self.eal
    }

    /// Has one worker forward each source, and checks that nothing is dropped: it would be faster.
    pub fn check(&self) -> Result<()> {
        for mut work in self.workers(self.sources.len(), false)? {
            let sent = work();
            ensure!(sent > 0, "packets are dropped, not forwarded");
        }
        Ok(())
    }

    /// Closes everything.
    pub fn end(self) -> Result<()> {
        let Forward { sources, sinks, pool, tables, eal, .. } = self;
        drop((sources, sinks, tables));
        let missing = pool.in_use();
        drop(eal);
        ensure!(missing == 0, "{missing} packet buffers did not come back");
        Ok(())
    }
}
