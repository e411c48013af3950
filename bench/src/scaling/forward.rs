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

/// Packets of each worker's source, and of all sources together: more workers have fewer packets each.
const PACKETS: usize = 4096;
const ALL_PACKETS: usize = 65_536;
/// Packets in a ring from one worker to another.
const RING: u32 = 1024;
/// Buffers besides those of sources: to begin with, and for each worker, with what waits in its ring, its buffers and
/// its cache.
const BUFFERS: u32 = 16_383;
const BUFFERS_OF_WORKER: usize = RING as usize + 512;
/// Queues that a port of `net_pcap` can have each way.
const QUEUES: usize = 16;
/// Rounds of a stretch of work.
const ROUNDS: usize = 64;

/// Ports, tables and memory, without workers.
pub struct Forward {
    // Dropped in this order: ports before the pool that their buffers go back to.
    ports: Vec<DpdkPort>,
    pool: Arc<MbufPool>,
    tables: RefCell<Published<Tables>>,
    burst: usize,
    layout: Layout,
    clock: Clock,
    eal: Eal,
    _folder: tempfile::TempDir,
}

/// Where workers are: on a port each while DPDK has enough ports, else with queues of a port that they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    workers: usize,
    on_port: usize,
    most_ports: usize,
}

impl Layout {
    fn new(workers: usize, most_ports: usize) -> Result<Layout> {
        let on_port = workers.div_ceil(most_ports);
        let most = QUEUES / usize::from(PORTS) * most_ports;
        ensure!(workers <= most, "found {workers} workers, expected at most {most}: DPDK has {most_ports} ports here");
        Ok(Layout { workers, on_port, most_ports })
    }

    fn ports(self) -> usize {
        self.workers.div_ceil(self.on_port)
    }

    /// A worker's port, and the first of its queues there, as many each way as it has outputs.
    fn place(self, worker: usize) -> (usize, u16) {
        (worker / self.on_port, (worker % self.on_port) as u16 * PORTS)
    }

    /// The ports that packets leave by, behind those that they come in by.
    fn outputs(self) -> std::ops::Range<u16> {
        let ports = self.ports() as u16;
        ports..ports + PORTS
    }

    /// How this layout differs from that of a few workers.
    fn remark(self) -> Option<String> {
        let Layout { workers, on_port, most_ports } = self;
        (on_port > 1).then(|| {
            let ports = self.ports();
            format!(
                "{workers} workers are on {ports} ports, {on_port} on each with queues of their own: DPDK has at most \
                 {most_ports} ports here."
            )
        })
    }
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
        let layout = Layout::new(most, dpdk::max_ports())?;
        let folder = tempfile::tempdir()?;
        let packets = PACKETS.min(ALL_PACKETS / most);
        let mut frames = Traffic::small::<u32>()?.sources.remove(0);
        frames.truncate(packets);
        let hugepages = if hugepages { Hugepages::Yes } else { Hugepages::No };
        let eal = Eal::start(&EalConfig { hugepages, memory_mb: super::MEMORY, ..EalConfig::default() })?;
        let buffers = BUFFERS + (most * (packets + BUFFERS_OF_WORKER)) as u32;
        let pool = MbufPool::new(&eal, PoolConfig { buffers, ..PoolConfig::default() })?;
        let port = |number: usize| {
            // Packets are for the MAC address of the port that they come in on.
            frames.iter_mut().for_each(|frame| frame[5] = number as u8);
            let [file, rest] = ["source", "rest"].map(|name| folder.path().join(format!("{name}{number}.pcap")));
            traffic::write_pcap(&file, &frames)?;
            traffic::write_pcap(&rest, &frames[..1])?;
            // net_pcap drops what is sent. It has as many transmit queues as receive queues, so extra receive queues
            // that no worker reads make room for the outputs.
            let queues = (0..layout.on_port).flat_map(|_| {
                (0..PORTS).map(|queue| format!(",rx_pcap={}", if queue == 0 { &file } else { &rest }.display()))
            });
            let device = format!("net_pcap{number}{},infinite_rx=1", queues.collect::<String>());
            let queues = layout.on_port as u16 * PORTS;
            let config =
                PortConfig { receive_queues: queues, transmit_queues: queues, ..PortConfig::new(Device::Dpdk(device)) };
            let port = DpdkPort::open(&eal, &config, &pool)?;
            ensure!(
                usize::from(port.info().port) == number,
                "DPDK numbers ports in another order than they are opened in"
            );
            Ok(port)
        };
        let ports: Vec<_> = (0..layout.ports()).map(port).collect::<Result<_>>()?;
        // Packets leave by ports that none comes in by, and that DPDK knows nothing of: each worker's outputs stand for
        // them.
        let order: Vec<u16> = layout.outputs().chain(0..ports.len() as u16).collect();
        let tables = traffic::tables_on(traffic::eight_routes()?, &order)?;
        let clock = dpdk::Clock::new();
        let clock: Clock = Arc::new(move || clock.now());
        Ok(Forward { ports, pool, tables: Published::new(tables).into(), burst, layout, clock, eal, _folder: folder })
    }

    /// What a reader of the figures has to know.
    pub fn remark(&self) -> Option<String> {
        self.layout.remark()
    }

    /// The workers of these numbers; `spread`: behind the first one's source.
    pub fn workers(&self, numbers: &[usize], spread: bool) -> Result<Vec<Work<'_>>> {
        let (mut rings, n) = (Vec::new(), numbers.len());
        if spread && n > 1 {
            rings = (0..n).map(|_| dpdk::ring(&self.eal, RING, None)).collect::<dpdk::Result<Vec<_>>>()?;
        }
        let senders: Vec<_> = rings.iter().map(|(sender, _)| sender.clone()).collect();
        let mut inboxes: Vec<_> = rings.into_iter().map(|(_, inbox)| Some(inbox)).collect();
        let worker = |(id, number): (usize, &usize)| {
            let mut receivers = Vec::new();
            if let Some(inbox) = inboxes.get_mut(id).and_then(Option::take) {
                receivers.push(Receiver { queue: Box::new(inbox), spread: None, handed_over: true });
            }
            if id == 0 || !spread {
                let (port, queue) = self.layout.place(*number);
                let mut source = Receiver::new(Box::new(self.ports[port].rx_queue(queue)?));
                let others = senders.iter().map(|ring| Some(Box::new(ring.clone()) as Box<dyn TransmitQueue>));
                source.spread = (!senders.is_empty()).then(|| Spread::new(id, others.collect()));
                receivers.push(source);
            }
            self.work(id, *number, receivers)
        };
        numbers.iter().enumerate().map(worker).collect()
    }

    fn work(&self, id: usize, number: usize, receivers: Vec<Receiver>) -> Result<Work<'_>> {
        let outputs = self.layout.outputs();
        let counters = Arc::new(Counters::new(outputs.end.into()));
        let (port, first) = self.layout.place(number);
        let output = |output: u16| {
            let queue = self.ports[port].tx_queue(first + output)?;
            Ok(Some(TransmitBuffer::new(Box::new(queue), 32, 100_000)))
        };
        let received_only = (0..outputs.start).map(|_| Ok(None));
        let mut worker = Worker::new(WorkerParts {
            id,
            receivers,
            outputs: received_only.chain((0..PORTS).map(output)).collect::<Result<_>>()?,
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
            let done = || outputs.clone().map(|port| counters.port_transmitted(port)).sum::<u64>();
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
        for mut work in self.workers(&(0..self.layout.workers).collect::<Vec<_>>(), false)? {
            let sent = work();
            ensure!(sent > 0, "packets are dropped, not forwarded");
        }
        Ok(())
    }

    /// Closes everything.
    pub fn end(self) -> Result<()> {
        let Forward { ports, pool, tables, eal, .. } = self;
        drop((ports, tables));
        let missing = pool.in_use();
        drop(eal);
        ensure!(missing == 0, "{missing} packet buffers did not come back");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than eight workers were refused: each had three ports of the 32 that Debian's DPDK has.
    #[test]
    fn many_workers_share_the_ports_that_there_are() {
        let few = Layout::new(16, 32).unwrap();
        assert_eq!((few.ports(), few.place(0), few.place(15), few.remark()), (16, (0, 0), (15, 0), None));
        let many = Layout::new(64, 32).unwrap();
        assert_eq!((many.ports(), many.place(0), many.place(1), many.place(63)), (32, (0, 0), (0, 2), (31, 2)));
        let said = many.remark().unwrap();
        assert!(said.starts_with("64 workers are on 32 ports, 2 on each"), "{said}");
        assert_eq!(Layout::new(48, 32).unwrap().ports(), 24);
        for workers in 1..=64 {
            let layout = Layout::new(workers, 32).unwrap();
            let mut places: Vec<_> = (0..workers).map(|worker| layout.place(worker)).collect();
            places.dedup();
            assert!(places.len() == workers && layout.ports() <= 32, "{layout:?}");
        }
        let error = Layout::new(64, 4).unwrap_err().to_string();
        assert!(error.contains("at most 32: DPDK has 4 ports here"), "{error}");
    }
}
