// SPDX-License-Identifier: MIT
//! The process in which `./x bench forward` measures perigee: EAL starts once per process, so each needs a child of its
//! own.
//!
//! It opens the source, reads requests from standard input, a line of JSON each, and answers each with a [`Sample`].
//! Every request gets a worker of its own on the same queues. The worker's clock, which its loop reads once per round,
//! does the measuring, so the loop is exactly the one that `perigee run` runs.

use crate::machine;
use crate::table;
use crate::traffic::{self, PORTS, Routed};
use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use perigee_dpdk::{
    self as dpdk, AclFilter, Device, DpdkPort, Eal, EalConfig, Hugepages, MBUF, MbufPool, PoolConfig, PortConfig,
};
use perigee_fib::{Published, Subscriber};
use perigee_lua::{Budgets, Script, Scripts, thread};
use perigee_modules::hits::Hits;
use perigee_modules::rules::{Filter, Rule, Strict};
use perigee_modules::{Context, Counters, CustomReasons, PuntSink, Punted, Tables, all_reasons, distribute};
use perigee_net::FiveTuple;
use perigee_packet::{Batch, Mask, Pool, TransmitBuffer};
use perigee_worker::{Clock, Idle, Receiver, Stop, Worker, WorkerParts, native};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Packet buffers: the source keeps [`traffic::PACKETS`] of them.
pub const MBUFS: u32 = 98_303;
/// Memory for them, in MB.
pub const MEMORY: u32 = 512;
/// More of both for each further source.
const MORE_MBUFS: u32 = traffic::PACKETS as u32;
const MORE_MEMORY: u32 = 192;

/// Size of transmit buffers, as in `perigee run` by default.
const TRANSMIT_BURST: usize = 32;
const TRANSMIT_TIMEOUT: u64 = 100_000;

/// Arguments of the child.
#[derive(Args)]
pub struct WorkerArgs {
    /// The pcap file that port 0 receives from; further ones are those of further ports
    #[arg(long = "source", required = true)]
    pub sources: Vec<PathBuf>,
    /// A full routing table, as JSON
    #[arg(long, value_parser = FullTable::from_json)]
    pub full: Option<FullTable>,
    /// Receive the file once only, and write what each port sends to `0.pcap` and `1.pcap` in this folder
    #[arg(long)]
    pub sent: Option<PathBuf>,
    /// The core to run on
    #[arg(long)]
    pub core: usize,
    /// Ordinary memory instead of hugepages
    #[arg(long)]
    pub no_huge: bool,
    /// Filter rules, which deny packets that the source does not have
    #[arg(long, default_value_t = 0)]
    pub filters: u16,
}

/// A full routing table, in one lookup structure after the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FullTable {
    /// A file of prefixes; none: a synthetic table.
    pub routes: Option<PathBuf>,
    /// 4 or 6.
    pub family: u8,
    /// The number of next hops.
    pub next_hops: u32,
    /// Seed of next hops, and of a synthetic table.
    pub seed: u64,
    /// Names of the structures, numbered from 0 in a [`Request`].
    pub structures: Vec<String>,
    /// MB that DPDK's structures need.
    pub memory: u32,
}

impl FullTable {
    fn from_json(text: &str) -> Result<FullTable, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The table as JSON, for the command line.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    fn tables(&self, ports: u16) -> Result<Vec<Result<Tables, String>>> {
        match self.family {
            6 => self.tables_of::<u128>(ports),
            _ => self.tables_of::<u32>(ports),
        }
    }

    /// Tables for each structure, or why there are none.
    fn tables_of<A: Routed>(&self, ports: u16) -> Result<Vec<Result<Tables, String>>> {
        let list = self.routes.as_deref().map(table::read).transpose()?;
        let entries = table::entries::<A>(list.as_ref(), self.next_hops, self.seed);
        let next_hops = traffic::neighbors(self.next_hops)?;
        let known = A::structures();
        let table = |name: &String| {
            let structure = known.iter().find(|structure| structure.name == name);
            let structure = structure.with_context(|| format!("there is no structure {name:?}"))?;
            let mut writer = (structure.new)()?;
            writer.load(&entries)?;
            traffic::tables(A::fib(writer.reader(), next_hops.clone())?, ports)
        };
        Ok(self.structures.iter().map(|name| table(name).map_err(|error| format!("{error:#}"))).collect())
    }
}

/// The child's first line, when it can be asked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ready {
    /// Numbers of the structures that cannot hold the table, and why.
    pub refused: Vec<(usize, String)>,
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

impl Path {
    /// Its name on the command line, in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Path::Lua => "lua",
            Path::Native => "native",
            Path::Io => "io",
        }
    }
}

/// A request for a measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Request {
    /// The loop.
    pub path: Path,
    /// Packets per burst.
    pub burst: usize,
    /// Nanoseconds that pass before the measurement, for caches and the JIT compiler.
    pub warm: u64,
    /// The measurement ends after this many nanoseconds ...
    pub time: u64,
    /// ... or after this many packets in total, or when the source has no more.
    pub packets: u64,
    /// Nanoseconds by which the worker's clock goes on whenever it is read; 0: it is the machine's. A program that
    /// valgrind slows down fifty times is to do what is due by the clock as rarely, packet by packet, as it does
    /// at full speed.
    pub step: u64,
    /// The source's number.
    pub source: u16,
    /// The number of the structure in [`FullTable::structures`]; 0 with the eight routes.
    pub table: usize,
}

/// The result of a measurement.
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

/// A snapshot of the worker: packets received so far, and its thread's CPU time in ns.
#[derive(Default)]
struct Look {
    packets: AtomicU64,
    cpu_ns: AtomicU64,
}

/// The worker's clock, which also does the measuring.
struct Gauge {
    clock: dpdk::Clock,
    counters: Arc<Counters>,
    stop: Stop,
    request: Request,
    /// The time in ns where the request has a step.
    stepped: AtomicU64,
    /// When there is something to do next, in ns.
    due: AtomicU64,
    first: Look,
    last: Look,
}

impl Gauge {
    fn now(&self) -> u64 {
        let now = match self.request.step {
            0 => self.clock.now(),
            step => self.stepped.fetch_add(step, Relaxed),
        };
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
        to.cpu_ns.store(machine::thread_time().as_nanos() as u64, Relaxed);
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

/// Filters as those of `perigee run`, each about another network of 198.18.0.0/15 and of 2001:2::/48 (RFC 2544, RFC
/// 5180); none without any.
fn rules(eal: &Eal, count: u16) -> Result<Option<Arc<dyn Filter>>> {
    if count == 0 {
        return Ok(None);
    }
    let rule = |number: u16| {
        let prefix = match number % 2 {
            0 => format!("198.18.{}.0/24", number / 2 % 256),
            _ => format!("2001:2:0:{:x}::/64", number / 2),
        };
        let tuple = FiveTuple { src: Some(prefix.parse()?), ..FiveTuple::default() };
        Ok(Rule { number: number.into(), ..Rule::deny(tuple) })
    };
    let rules = (0..count).map(rule).collect::<Result<Vec<_>>>()?;
    Ok(Some(Arc::new(Strict::new(&rules, |rules| AclFilter::new(eal, rules))?)))
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
    /// By structure.
    tables: Vec<Option<SharedTables>>,
    ready: Ready,
}

impl Router {
    fn start(args: &WorkerArgs) -> Result<Router> {
        let hugepages = if args.no_huge { Hugepages::No } else { Hugepages::Yes };
        let more = args.sources.len().saturating_sub(1) as u32;
        let memory_mb = MEMORY + more * MORE_MEMORY + args.full.as_ref().map_or(0, |full| full.memory);
        let eal = Eal::start(&EalConfig { hugepages, memory_mb, main_core: Some(args.core), ..EalConfig::default() })?;
        dpdk::pin_current_thread(args.core)?;
        let pool = MbufPool::new(&eal, PoolConfig { buffers: MBUFS + more * MORE_MBUFS, ..PoolConfig::default() })?;
        let count = PORTS.max(more as u16 + 1);
        let ports = (0..count).map(|port| {
            let receive = match (args.sources.get(usize::from(port)), &args.sent) {
                (Some(source), None) => format!(",rx_pcap={},infinite_rx=1", source.display()),
                // Never polled if it is not of this port: net_pcap wants a source, and without a file to send to it
                // discards.
                (source, _) => format!(",rx_pcap={}", source.unwrap_or(&args.sources[0]).display()),
            };
            let transmit =
                args.sent.as_ref().map_or(String::new(), |to| format!(",tx_pcap={}/{port}.pcap", to.display()));
            let device = Device::Dpdk(format!("net_pcap{port}{receive}{transmit}"));
            DpdkPort::open(&eal, &PortConfig::new(device), &pool)
        });
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        let tables = match &args.full {
            Some(full) => full.tables(count)?,
            None => vec![Ok(traffic::tables(traffic::eight_routes()?, count)?)],
        };
        let filter = rules(&eal, args.filters)?;
        let hits = Arc::new(Hits::new(args.filters.into(), 1));
        let filtered = |table: Tables| table.with_filter(filter.clone()).with_hits(hits.clone());
        let tables = tables.into_iter().map(|table| table.map(filtered));
        let tables: Vec<_> = tables.collect();
        let why = |(number, table): (usize, &Result<Tables, String>)| Some((number, table.as_ref().err()?.clone()));
        let ready = Ready { refused: tables.iter().enumerate().filter_map(why).collect() };
        let shared = |table: Result<Tables, String>| Some(Arc::new(Mutex::new(Published::new(table.ok()?))));
        let tables = tables.into_iter().map(shared).collect();
        Ok(Router { ports, pool, tables, ready })
    }

    fn context(tables: &SharedTables) -> Context {
        Context {
            now: 0,
            worker: Context::NO_WORKER,
            tables: subscribe(tables),
            counters: Arc::new(Counters::new(0)),
            outputs: Vec::new(),
            punts: Box::new(NoPunts),
            custom: Arc::new(CustomReasons::default()),
            next_redirect: 0,
            fragments: Default::default(),
            multicast: Default::default(),
            failure: None,
            trace: None,
            stopwatch: Default::default(),
            watched: false,
        }
    }

    fn worker(
        &self,
        Request { source, burst, .. }: Request,
        tables: &SharedTables,
        counters: &Arc<Counters>,
        clock: Clock,
        stop: &Stop,
    ) -> Result<Worker> {
        let port = self.ports.get(usize::from(source)).with_context(|| format!("there is no source {source}"))?;
        let queue = Box::new(port.rx_queue(0)?);
        let output = |port: &DpdkPort| {
            Ok(Some(TransmitBuffer::new(Box::new(port.tx_queue(0)?), TRANSMIT_BURST, TRANSMIT_TIMEOUT)))
        };
        Ok(Worker::new(WorkerParts {
            id: 0,
            receivers: vec![Receiver::new(queue)],
            outputs: self.ports.iter().take(PORTS.into()).map(output).collect::<Result<_>>()?,
            punts: Box::new(NoPunts),
            tables: subscribe(tables),
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
        let tables = self.tables.get(request.table).cloned().flatten();
        let tables = tables.with_context(|| format!("there is no table {}", request.table))?;
        // For all ports, including those that are only received from.
        let (counters, stop) = (Arc::new(Counters::new(self.ports.len())), Stop::default());
        let clock = dpdk::Clock::new();
        let (due, stepped) = (AtomicU64::new(request.warm), AtomicU64::new(0));
        let (first, last) = (Look::default(), Look::default());
        let (readers, stops) = (counters.clone(), stop.clone());
        let gauge = Gauge { clock, counters: readers, stop: stops, request, stepped, due, first, last };
        let gauge = Arc::new(gauge);
        let asked = gauge.clone();
        let mut worker = self.worker(request, &tables, &counters, Arc::new(move || asked.now()), &stop)?;
        match request.path {
            Path::Lua => {
                let staging = Box::new(move || Router::context(&tables));
                Scripts::new(Script::builtin(), 1, staging, Budgets::default(), &thread)?.run(worker);
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
            reasons: all_reasons().map(count).filter(|(_, packets)| *packets > 0).collect(),
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

/// Runs the child until standard input ends.
pub fn serve(args: &WorkerArgs) -> Result<ExitCode> {
    dpdk::set_runtime_dir(dpdk::fallback_runtime_dir().as_deref())?;
    let router = Router::start(args)?;
    println!("{}", serde_json::to_string(&router.ready)?);
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
