// SPDX-License-Identifier: MIT
//! The process in which `perigee bench forward` measures perigee: EAL starts once per process, so that is the child's.
//!
//! It opens the source, reads requests from standard input, a line of JSON each, and answers each with a [`Sample`].
//! Every request gets a worker of its own on the same queues. The worker's clock, which its loop asks once per round, takes
//! the measurement, so the loop is exactly the one that `perigee run` runs.

use crate::bench::traffic::{self, PORTS};
use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use nix::time::{ClockId, clock_gettime};
use perigee_dpdk::{self as dpdk, Device, DpdkPort, Eal, EalConfig, Hugepages, MBUF, MbufPool, PoolConfig, PortConfig};
use perigee_fib::{Published, Subscriber};
use perigee_lua::{Script, Scripts};
use perigee_modules::{Context, Counters, CustomReasons, PuntSink, Punted, Tables, distribute, reason};
use perigee_packet::{Batch, Mask, Pool, TransmitBuffer};
use perigee_worker::{Clock, Idle, Receiver, Stop, Worker, WorkerParts, native};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Packet buffers: the source keeps [`traffic::PACKETS`] of them.
pub const MBUFS: u32 = 98_303;
/// Memory for them, in MB.
pub const MEMORY: u32 = 512;

/// Transmit buffers as `perigee run` has them by default.
const TRANSMIT_BURST: usize = 32;
const TRANSMIT_TIMEOUT: u64 = 100_000;

/// Arguments of the child.
#[derive(Args)]
pub struct WorkerArgs {
    /// The pcap file that port 0 receives from
    #[arg(long)]
    pub source: PathBuf,
    /// Receive the file once only, and write what each port sends to `0.pcap` and `1.pcap` in this folder
    #[arg(long)]
    pub sent: Option<PathBuf>,
    /// The core to run on
    #[arg(long)]
    pub core: usize,
    /// Ordinary memory instead of hugepages
    #[arg(long)]
    pub no_huge: bool,
}

/// Which loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Path {
    /// `lua/fastpath.lua` in LuaJIT.
    Lua,
    /// The same loop in Rust.
    Native,
    /// Receive and transmit, nothing between: perigee's own share of bare I/O.
    Io,
}

/// What is to be measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Request {
    /// The loop.
    pub path: Path,
    /// Packets per burst.
    pub burst: usize,
    /// Nanoseconds that pass before the measurement, for caches and the JIT compiler.
    pub warm: u64,
    /// The measurement ends after so many nanoseconds ...
    pub time: u64,
    /// ... or after so many packets in all, or when the source has no more.
    pub packets: u64,
}

/// What came out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Packets received while it was measured.
    pub packets: u64,
    /// The thread's CPU time meanwhile, in ns.
    pub cpu_ns: u64,
    /// All packets received, warm-up included.
    pub received: u64,
    /// All packets transmitted.
    pub transmitted: u64,
    /// Packets that left under a reason.
    pub reasons: Vec<(String, u64)>,
}

/// A look at the worker: packets received so far, and its thread's CPU time in ns.
#[derive(Default)]
struct Look {
    packets: AtomicU64,
    cpu_ns: AtomicU64,
}

/// The worker's clock, and with it the measurement.
struct Gauge {
    clock: dpdk::Clock,
    counters: Arc<Counters>,
    stop: Stop,
    request: Request,
    /// When there is something to do next, in ns.
    due: AtomicU64,
    first: Look,
    last: Look,
}

impl Gauge {
    fn now(&self) -> u64 {
        let now = self.clock.now();
        if now >= self.due.load(Relaxed) || self.counters.received.get() >= self.request.packets {
            self.turn(now);
        }
        now
    }

    /// The warm-up is over, or the measurement is.
    #[cold]
    fn turn(&self, now: u64) {
        if self.first.cpu_ns.load(Relaxed) == 0 {
            self.due.store(now + self.request.time, Relaxed);
            self.look(&self.first);
        } else {
            self.look(&self.last);
            self.stop.request();
        }
    }

    fn look(&self, to: &Look) {
        // A thread can always ask for its own time.
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
        to.cpu_ns.store(time.as_nanos() as u64, Relaxed);
        to.packets.store(self.counters.received.get(), Relaxed);
    }
}

/// Nothing is punted: all packets have a route. One that is punted shows in the sample's reasons.
struct NoPunts;

impl PuntSink for NoPunts {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        Err(packet)
    }
}

/// Tables that every worker subscribes to.
type SharedTables = Arc<Mutex<Published<Tables>>>;

fn subscribe(tables: &SharedTables) -> Subscriber<Tables> {
    tables.lock().unwrap_or_else(PoisonError::into_inner).subscribe()
}

/// The router under test, without a worker.
struct Router {
    // Dropped in this order: ports before the pool that their buffers go back to.
    ports: Vec<DpdkPort>,
    pool: Arc<MbufPool>,
    tables: SharedTables,
    eal: Eal,
}

impl Router {
    fn start(args: &WorkerArgs) -> Result<Router> {
        let hugepages = if args.no_huge { Hugepages::No } else { Hugepages::Yes };
        let memory_mb = MEMORY;
        let eal = Eal::start(&EalConfig { hugepages, memory_mb, main_core: Some(args.core), ..EalConfig::default() })?;
        dpdk::pin_current_thread(args.core)?;
        let pool = MbufPool::new(&eal, PoolConfig { buffers: MBUFS, ..PoolConfig::default() })?;
        let source = args.source.display();
        let ports = (0..PORTS).map(|port| {
            let receive = match (port, &args.sent) {
                (0, None) => format!(",rx_pcap={source},infinite_rx=1"),
                // Never polled: net_pcap wants a source, and without a file to send to it discards.
                _ => format!(",rx_pcap={source}"),
            };
            let transmit =
                args.sent.as_ref().map_or(String::new(), |to| format!(",tx_pcap={}/{port}.pcap", to.display()));
            let device = Device::Dpdk(format!("net_pcap{port}{receive}{transmit}"));
            DpdkPort::open(&eal, &PortConfig::new(device), &pool)
        });
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        let tables = Arc::new(Mutex::new(Published::new(traffic::tables()?)));
        Ok(Router { ports, pool, tables, eal })
    }

    fn context(tables: &SharedTables) -> Context {
        Context {
            now: 0,
            tables: subscribe(tables),
            counters: Arc::new(Counters::new(0)),
            outputs: Vec::new(),
            punts: Box::new(NoPunts),
            custom: Arc::new(CustomReasons::default()),
            failure: None,
        }
    }

    fn worker(&self, burst: usize, counters: &Arc<Counters>, clock: Clock, stop: &Stop) -> Result<Worker> {
        let queue = Box::new(self.ports[0].rx_queue(0)?);
        let output = |port: &DpdkPort| {
            Ok(Some(TransmitBuffer::new(Box::new(port.tx_queue(0)?), TRANSMIT_BURST, TRANSMIT_TIMEOUT)))
        };
        Ok(Worker::new(WorkerParts {
            id: 0,
            receivers: vec![Receiver { queue, spread: None }],
            outputs: self.ports.iter().map(output).collect::<Result<_>>()?,
            punts: Box::new(NoPunts),
            tables: subscribe(&self.tables),
            counters: counters.clone(),
            custom: Arc::default(),
            memory: &MBUF,
            burst,
            idle: Idle::Poll,
            clock,
            stop: stop.clone(),
        }))
    }

    fn measure(&self, request: Request) -> Result<Sample> {
        let (counters, stop) = (Arc::new(Counters::new(PORTS.into())), Stop::default());
        let clock = dpdk::Clock::new(&self.eal);
        let (due, first, last) = (AtomicU64::new(request.warm), Look::default(), Look::default());
        let gauge =
            Arc::new(Gauge { clock, counters: counters.clone(), stop: stop.clone(), request, due, first, last });
        let asked = gauge.clone();
        let mut worker = self.worker(request.burst, &counters, Arc::new(move || asked.now()), &stop)?;
        match request.path {
            Path::Lua => {
                let tables = self.tables.clone();
                Scripts::new(Script::builtin(), 1, Box::new(move || Router::context(&tables)))?.run(worker);
            }
            Path::Native => native::run(&mut worker),
            Path::Io => io(&mut worker),
        }
        let difference = |of: fn(&Look) -> &AtomicU64| of(&gauge.last).load(Relaxed) - of(&gauge.first).load(Relaxed);
        let count = |(reason, module, info): (_, &str, &perigee_modules::ReasonInfo)| {
            (format!("{module}.{}", info.name), counters.reason_packets(reason))
        };
        Ok(Sample {
            packets: difference(|look| &look.packets),
            cpu_ns: difference(|look| &look.cpu_ns),
            received: counters.received.get(),
            transmitted: (0..PORTS).map(|port| counters.port_transmitted(port)).sum(),
            reasons: reason::all().map(count).filter(|(_, packets)| *packets > 0).collect(),
        })
    }
}

/// Receive and transmit: every packet leaves by the port that a batch's empty slots name, 0.
fn io(worker: &mut Worker) {
    let mut burst: Box<Batch> = worker.new_batch();
    while worker.running() {
        if worker.receive(0, &mut burst) > 0 {
            distribute::distribute(worker.context(), &mut burst, &mut Mask::ALL.clone(), &mut Mask::default());
        }
        worker.housekeeping();
    }
    worker.finish();
}

/// The child's life: until standard input ends.
pub fn serve(args: &WorkerArgs) -> Result<ExitCode> {
    dpdk::set_runtime_dir(dpdk::fallback_runtime_dir().as_deref())?;
    let router = Router::start(args)?;
    println!("{{}}");
    for line in std::io::stdin().lock().lines() {
        let sample = router.measure(serde_json::from_str(&line?).context("a request is a line of JSON")?)?;
        println!("{}", serde_json::to_string(&sample)?);
        std::io::stdout().flush()?;
    }
    let Router { ports, pool, .. } = router;
    drop(ports);
    ensure!(pool.in_use() == 0, "{} packet buffers did not come back", pool.in_use());
    Ok(ExitCode::SUCCESS)
}
