// SPDX-License-Identifier: MIT
//! The rig: workers on threads of their own, from their start to what they counted.

use crate::arrivals::{Arrivals, Load};
use crate::cores::Cores;
use crate::devices::{Devices, Feed};
use crate::gauge::{Gauge, Look, Times};
use crate::kept::{Kept, Made, SharedTables, subscribe};
use crate::punts::drained;
use crate::request::{Idle, Io, Loop, Request, Sample, Sojourn};
use crate::sink::{Sink, Sojourns, Taken};
use crate::source::{Count, Source};
use crate::traffic::Traffic;
use crate::vantage;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use hdrhistogram::Histogram;
use perigee_dpdk::{Clock, Eal, EalConfig, Hugepages, MBUF, MbufPool, PoolConfig};
use perigee_lua::{Budgets, Script, Scripts, thread};
use perigee_modules::{Context, Counters, CustomReasons, MODULES, PuntSink, Punted, all_reasons};
use perigee_net::Prefix4;
use perigee_packet::{Pool as _, ReceiveQueue, TransmitBuffer, TransmitQueue};
use perigee_worker::{Receiver, Stop, Worker, WorkerParts, native};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Packet buffers for up to [`WORKERS`] workers: those that workers hold at once, and threads' caches.
const BUFFERS: u32 = 16_384;
const WORKERS: usize = 16;
/// Memory for them, in MB.
const MEMORY_MB: u64 = 96;
/// How long a worker may take beyond what it was asked for: many may share a core.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many times as much memory a rig with this many workers needs as one with one worker.
fn times(workers: usize) -> usize {
    workers.div_ceil(WORKERS).max(1)
}

/// Memory for the packets of a rig with this many workers, in MB.
pub fn memory_mb(workers: usize) -> u64 {
    MEMORY_MB * times(workers) as u64
}

/// Are enough hugepages free for a rig with this many workers?
pub fn enough_hugepages(workers: usize) -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:")?.trim().parse::<u64>().ok());
    let size = text
        .lines()
        .find_map(|line| line.strip_prefix("Hugepagesize:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    free.zip(size).is_some_and(|(free, size)| free * size >= memory_mb(workers) * 1024)
}

/// How a rig is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Packet buffers in hugepages?
    pub hugepages: bool,
    /// The cores of its workers; there are packet buffers for one on each.
    pub cores: Cores,
}

/// What does not change from one measurement to the next is kept.
pub struct Rig {
    eal: Eal,
    pool: Arc<MbufPool>,
    pub(crate) cores: Cores,
    kept: Kept,
    devices: Option<Devices>,
    /// All references on so many cores, in million packets per second.
    pub(crate) references: HashMap<usize, Vec<f64>>,
    /// How many are taken first on one core, and on each number of several.
    pub(crate) first: [usize; 2],
}

/// Where no packet goes: a new VM is tried out on nothing, and not every source has packets for the slow path.
struct NoPunts;

impl PuntSink for NoPunts {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        Err(packet)
    }
}

/// A worker that is about to run.
struct Ready {
    core: usize,
    worker: Worker,
    gauge: Arc<Gauge>,
    sojourns: Sojourns,
    counters: Arc<Counters>,
    sent: Arc<Taken>,
}

impl Rig {
    /// Starts DPDK, which a process can do once.
    ///
    /// # Errors
    /// No memory.
    pub fn new(settings: Settings) -> Result<Rig> {
        let Settings { hugepages, cores } = settings;
        let hugepages = if hugepages { Hugepages::Yes } else { Hugepages::No };
        let workers = cores.list().len();
        // Memory is on the node of the first worker's core.
        let main_core = cores.list().first().copied().filter(|_| !cores.is_pretended());
        let memory_mb = memory_mb(workers) as u32;
        let eal = Eal::start(&EalConfig { hugepages, memory_mb, main_core, ..EalConfig::default() })?;
        let buffers = BUFFERS * times(workers) as u32 - 1;
        let pool = MbufPool::new(&eal, PoolConfig { buffers, ..PoolConfig::default() })?;
        Ok(Rig { eal, pool, cores, kept: Kept::default(), devices: None, references: HashMap::new(), first: [0; 2] })
    }

    /// Gives it the prefixes of [`Routes::Given`](crate::Routes::Given).
    pub fn give(&mut self, prefixes: Vec<Prefix4>) {
        self.kept.give(prefixes);
    }

    /// Opens the devices of [`Io::Devices`], as DPDK names them: the one by which packets are put on a wire, the
    /// router's first port at the wire's other end, and the port that all leave by. The first two may be one that
    /// loops back, such as `net_ring0`.
    ///
    /// # Errors
    /// One cannot be opened.
    pub fn open(&mut self, feed: &str, first: &str, other: &str) -> Result<()> {
        self.devices = Some(Devices::open(&self.eal, &self.pool, feed, first, other)?);
        Ok(())
    }

    /// Measures.
    ///
    /// # Errors
    /// What is asked for is out of bounds, a script fails, or a worker ends by itself.
    pub fn measure(&mut self, request: &Request) -> Result<Sample> {
        request.check()?;
        let usable = self.cores.all();
        for core in &request.cores {
            ensure!(usable.contains(core), "core {core} may not be used by this process; it may use {usable:?}");
        }
        // Off the workers' cores, if there is another one.
        let other = usable.iter().copied().find(|core| !request.cores.contains(core));
        let Made { destinations, tables, bytes } = self.kept.tables(request)?;
        let stop = Stop::default();
        let clock = Clock::new();
        let (eal, cores) = (self.eal.clone(), self.cores.clone());
        let body = move || {
            let _registered = eal.register_thread();
            let _ = other.map(|core| cores.pin(core));
        };
        let (punts, drain): (Vec<Box<dyn PuntSink>>, _) = if request.punted > 0.0 {
            let (rings, drain) = drained(request.cores.len(), body)?;
            (rings.into_iter().map(|rings| Box::new(rings) as Box<dyn PuntSink>).collect(), Some(drain))
        } else {
            // Nothing would wake a slow path, either.
            (request.cores.iter().map(|_| Box::new(NoPunts) as Box<dyn PuntSink>).collect(), None)
        };
        let ready = punts
            .into_iter()
            .enumerate()
            .map(|(number, punts)| self.ready(request, number, punts, &destinations, &tables, clock, &stop))
            .collect::<Result<Vec<_>>>()?;
        let watched: Vec<_> = ready
            .iter()
            .map(|ready| Watched {
                gauge: ready.gauge.clone(),
                sojourns: ready.sojourns.clone(),
                counters: ready.counters.clone(),
                sent: ready.sent.clone(),
            })
            .collect();
        let scripts = match request.path {
            Loop::Native | Loop::Until(_) => None,
            Loop::Lua => {
                let staging = Box::new(move || staging(&tables));
                let scripts = Scripts::new(Script::builtin(), ready.len(), staging, Budgets::default(), &thread);
                Some(Arc::new(scripts.context("the script cannot be loaded")?))
            }
        };
        let threads: Vec<_> = ready.into_iter().map(|ready| self.start(ready, request.path, scripts.clone())).collect();
        let deadline = Instant::now() + request.warm + request.time + PATIENCE;
        let mut ended = false;
        while !watched.iter().all(|watched| watched.gauge.is_over()) && !ended && Instant::now() < deadline {
            // Now and then: it may be the worker's core.
            std::thread::sleep((request.time / 50).clamp(Duration::from_millis(1), Duration::from_millis(50)));
            ended = threads.iter().any(JoinHandle::is_finished);
        }
        let over = watched.iter().all(|watched| watched.gauge.is_over());
        stop.request();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a worker panicked"))??;
        }
        drop(drain);
        ensure!(over, "a worker ended, or did nothing, before it was measured");
        ensure!(self.pool.in_use() == 0, "{} packet buffers did not come back", self.pool.in_use());
        let mut sample = sample(&watched);
        sample.table_bytes = bytes;
        if request.load == Load::Saturated {
            // Its packets came when they were taken.
            sample.sojourn = None;
            sample.sojourns_of_windows.clear();
        }
        Ok(sample)
    }

    fn ready(
        &mut self,
        request: &Request,
        number: usize,
        punts: Box<dyn PuntSink>,
        destinations: &[Prefix4],
        tables: &SharedTables,
        clock: Clock,
        stop: &Stop,
    ) -> Result<Ready> {
        let (sojourns, counters) = (Sojourns::new(), Arc::new(Counters::new(request.ports.into())));
        let (mut receivers, mut sources) = (Vec::new(), Vec::new());
        for (port, flows) in (0..2).zip(request.flows_of(number)).filter(|(_, flows)| *flows > 0) {
            let (traffic, seed) = self.kept.traffic(request, (number, port), destinations)?;
            let (queue, count) = self.receive_queue(request, port, flows, number, traffic, seed, clock)?;
            sources.push(count);
            receivers.push(Receiver::new(queue));
        }
        let timeout = request.transmit_timeout.as_nanos() as u64;
        let sent = Arc::new(Taken::default());
        let output = |port: u16| -> Result<_> {
            let queue: Box<dyn TransmitQueue> = match (request.io, &self.devices) {
                (Io::Devices, Some(devices)) if port > 0 => Box::new(devices.output()?),
                _ => Box::new(Sink::new(clock, sojourns.clone(), sent.clone())),
            };
            Ok(Some(TransmitBuffer::new(queue, request.transmit_burst, timeout)))
        };
        let outputs = (0..request.ports).map(output).collect::<Result<_>>()?;
        let gauge = Arc::new(Gauge::new(clock, counters.clone(), sojourns.clone(), sources, request));
        let asked = gauge.clone();
        let worker = Worker::new(WorkerParts {
            id: number,
            receivers,
            outputs,
            punts,
            tables: subscribe(tables),
            counters: counters.clone(),
            custom: Arc::default(),
            memory: &MBUF,
            burst: request.burst,
            idle: match request.idle {
                Idle::Poll => perigee_worker::Idle::Poll,
                Idle::Adaptive => perigee_worker::Idle::Adaptive,
            },
            clock: Arc::new(move || asked.now()),
            stop: stop.clone(),
        });
        Ok(Ready { core: request.cores[number], worker, gauge, sojourns, counters, sent })
    }

    /// What packets come from, and where it counts.
    fn receive_queue(
        &self,
        request: &Request,
        port: u16,
        flows: u32,
        number: usize,
        traffic: Arc<Traffic>,
        seed: u64,
        clock: Clock,
    ) -> Result<(Box<dyn ReceiveQueue>, Arc<Count>)> {
        if request.io == Io::Devices {
            let devices = self.devices.as_ref().context("devices: none are open")?;
            let feed = Feed::new(devices, self.pool.clone(), traffic)?;
            let count = feed.count();
            return Ok((Box::new(feed), count));
        }
        let arrivals = match request.load {
            Load::Saturated => Arrivals::saturated(request.burst, seed),
            Load::Paced { pps, process } => {
                let pps = pps * f64::from(flows) / f64::from(request.flows);
                Arrivals::new(pps, process, request.receive_ring, seed)
            }
            Load::Share { .. } => bail!("a share of the throughput is measured in rounds, which find the throughput"),
        };
        let wakes = request.idle == Idle::Adaptive;
        let source = Source::new(self.pool.clone(), port, traffic, number * 7919, arrivals, clock, wakes)?;
        let count = source.count();
        Ok((Box::new(source), count))
    }

    fn start(&self, ready: Ready, path: Loop, scripts: Option<Arc<Scripts>>) -> JoinHandle<Result<()>> {
        let (eal, cores) = (self.eal.clone(), self.cores.clone());
        std::thread::spawn(move || {
            let Ready { core, mut worker, .. } = ready;
            let _registered = eal.register_thread()?;
            cores.pin(core)?;
            perigee_worker::wake_in_time();
            match (path, scripts) {
                (Loop::Until(vantage), _) => vantage::run(&mut worker, vantage),
                (_, Some(scripts)) => scripts.run(worker),
                _ => native::run(&mut worker),
            }
            Ok(())
        })
    }
}

/// What a script is tried out with.
fn staging(tables: &SharedTables) -> Context {
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

/// A worker that is measured.
struct Watched {
    gauge: Arc<Gauge>,
    sojourns: Sojourns,
    counters: Arc<Counters>,
    sent: Arc<Taken>,
}

fn sample(watched: &[Watched]) -> Sample {
    let windows: Vec<Vec<Look>> = watched.iter().map(|watched| watched.gauge.windows()).collect();
    let all = || windows.iter().flatten();
    let sum = |of: fn(&Look) -> u64| all().map(of).sum::<u64>();
    let share = |a: u64, b: u64| if b > 0 { a as f64 / b as f64 } else { 0.0 };
    // Of each worker's own, as each has a rate.
    let rate = |looks: &[Look], time: fn(&Look) -> u64| {
        share(looks.iter().map(|look| look.received).sum(), looks.iter().map(time).sum()) * 1e3
    };
    let count = windows.iter().map(Vec::len).min().unwrap_or(0);
    let mut histogram: Option<Histogram<u64>> = None;
    let mut sojourns_of_windows = Vec::new();
    for worker in watched {
        let Some((one, windows)) = worker.sojourns.end() else { continue };
        sojourns_of_windows.extend(windows);
        match &mut histogram {
            // They have the same bounds.
            Some(all) => all.add(one).unwrap_or(()),
            none => *none = Some(one),
        }
    }
    let lost = |at: usize| {
        let of = |value: fn(&Look) -> u64| windows.iter().map(|looks| value(&looks[at])).sum::<u64>();
        share(of(|look| look.lost), of(|look| look.offered))
    };
    Sample {
        mpps: windows.iter().map(|looks| rate(looks, |look| look.cpu)).sum(),
        windows: (0..count)
            .map(|at| windows.iter().map(|looks| rate(&looks[at..=at], |look| look.cpu)).sum())
            .collect(),
        workers: windows
            .iter()
            .map(|looks| looks.iter().map(|look| rate(&[*look], |look| look.cpu)).collect())
            .collect(),
        pace: 0.0,
        wall_mpps: windows.iter().map(|looks| rate(looks, |look| look.now)).sum(),
        cpu: share(sum(|look| look.cpu), sum(|look| look.now)),
        offered: sum(|look| look.offered),
        lost: sum(|look| look.lost),
        lost_of_windows: (0..count).map(lost).collect(),
        overloaded: false,
        total: watched.iter().map(|watched| watched.counters.received.get()).sum(),
        batch: share(sum(|look| look.received), sum(|look| look.bursts)),
        sent_batch: {
            let sent =
                |of: fn(&Taken) -> &AtomicU64| watched.iter().map(|watched| of(&watched.sent).load(Relaxed)).sum();
            share(sent(|taken| &taken.packets), sent(|taken| &taken.bursts))
        },
        round_ns: share(sum(|look| look.now), sum(|look| look.rounds)),
        sleeps: sum(|look| look.sleeps),
        gaps: sum(|look| look.gaps),
        in_gaps: share(sum(|look| look.in_gaps), sum(|look| look.now)),
        pauses_ns: Vec::new(),
        table_bytes: 0,
        sojourn: histogram.as_ref().and_then(Sojourn::of),
        sojourns_of_windows,
        modules: modules(watched),
        reasons: reasons(watched),
    }
}

fn modules(watched: &[Watched]) -> Vec<(String, f64)> {
    let times = |of: &dyn Fn(&Times) -> (u64, u64)| {
        watched.iter().map(|watched| of(&watched.gauge.times())).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    };
    let mut all: Vec<(String, f64)> = Vec::new();
    for (index, module) in MODULES.iter().enumerate() {
        let (ns, packets) = times(&|times| times.modules[index]);
        if packets > 0 {
            all.push((module.name.to_owned(), ns as f64 / packets as f64));
        }
    }
    let (ns, packets) = times(&|times| times.script);
    if packets > 0 {
        all.push(("script".to_owned(), ns as f64 / packets as f64));
    }
    all
}

fn reasons(watched: &[Watched]) -> Vec<(String, u64)> {
    let packets = |reason| watched.iter().map(|watched| watched.counters.reason_packets(reason)).sum::<u64>();
    let of = |(reason, module, info): (_, &str, &perigee_modules::ReasonInfo)| {
        (format!("{module}.{}", info.name), packets(reason))
    };
    all_reasons().map(of).filter(|(_, packets)| *packets > 0).collect()
}
