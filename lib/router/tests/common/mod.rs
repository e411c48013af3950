// SPDX-License-Identifier: MIT
//! A whole router on heap packets: ports, workers with the native loop, slow path, tables. The tests drive it, on one
//! thread.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod helper;
pub mod kernel;
pub mod log;
pub mod narrow;

use perigee_api::answers::{ScriptStatus, VersionStatus};
use perigee_api::client::ApiClient;
use perigee_api::queries::Reload;
use perigee_api::{Answer, Backend, Query, Reply};
use perigee_config::{Config, FilteredFrom, Machine, Steer, SteerMatch};
use perigee_helper::TwinStatus;
use perigee_helper::twin::Twin;
use perigee_modules::rules::{LinearFilter, Rule, Strict};
use perigee_modules::{Counters, CustomReasons};
use perigee_net::MacAddr;
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::wire::{ethernet, ipv4, protocol};
use perigee_packet::{
    Batch, Handle, Link, Pool, Port, PortInfo, PortStats, ReceiveQueue, TransmitBuffer, TransmitQueue,
};
use perigee_router::{
    AssistantBell, AssistantParts, AssistantThread, Assistants, Below, Fabric, Filters, Forwarding, LinuxFeeds,
    LinuxParts, Lookups, Mailbox, PortQueues, Ports, Progress, ReadScript, Rebuild, Refusal, Ring, RouterPort,
    ScriptControl, ScriptSource, Sender, Settings, Shared, SlowParts, SlowThread, WorkerEnd, Workers, wire,
};
use perigee_worker::{Clock, Idle, Stop, Worker, WorkerParts, native, punt_rings};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The station behind port a.
pub const PEER_A: MacAddr = MacAddr([2, 0, 0, 0, 1, 0xa]);
/// The station behind port b.
pub const PEER_B: MacAddr = MacAddr([2, 0, 0, 0, 1, 0xb]);
/// A queue for the worker, and one for the slow path.
pub const ONE_EACH: Queues = Queues { receive: 1, transmit: 2 };

/// Two ports and a worker.
pub const TWO_PORTS: &str = r#"
[router]
cores = [0]
[port.a]
device = "heap0"
twin = false
addresses = ["10.0.1.1/24"]
[port.b]
device = "heap1"
twin = false
addresses = ["10.0.2.1/24"]
"#;

/// Neighbors that are known from the start: packets to them take the fast path from the first on.
pub fn neighbors(known: &[(&str, MacAddr)]) -> String {
    known.iter().map(|(address, mac)| format!("[[neighbor]]\naddress = \"{address}\"\nmac = \"{mac}\"\n")).collect()
}

/// A port that is a pair of heap queues per direction.
pub struct HeapPort(pub PortInfo);

impl Port for HeapPort {
    fn info(&self) -> PortInfo {
        self.0.clone()
    }
    fn link(&self) -> Link {
        Link { up: true, speed: None, full_duplex: true }
    }
    fn stats(&self) -> PortStats {
        PortStats::default()
    }
    fn set_promiscuous(&self, _on: bool) -> Result<(), String> {
        Ok(())
    }
    fn set_mtu(&self, _mtu: u16) -> Result<(), String> {
        Ok(())
    }
}

/// Rings made of heap queues.
pub struct HeapFabric(pub &'static HeapPool);

struct Producers(HeapQueue);
impl Sender for Producers {
    fn queue(&self) -> Box<dyn TransmitQueue> {
        Box::new(self.0.clone())
    }
}

/// A queue that also sends what is in a ring.
struct Drain {
    ring: HeapQueue,
    queue: Box<dyn TransmitQueue>,
    batch: Box<Batch>,
}

impl TransmitQueue for Drain {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        self.queue.transmit(packets);
        self.poll();
    }
    fn discard(&self, packets: &mut Vec<Handle>) {
        self.queue.discard(packets);
    }
    fn poll(&mut self) {
        self.batch.refill();
        self.ring.receive(&mut self.batch, 256);
        let mut handles: Vec<Handle> =
            self.batch.live().iter().filter_map(|slot| self.batch.take_handle(slot)).collect();
        self.queue.transmit(&mut handles);
        self.queue.discard(&mut handles);
    }
    fn collects(&self) -> bool {
        true
    }
}

impl Fabric for HeapFabric {
    fn hand_over(&mut self, _worker: usize) -> Result<Ring, Refusal> {
        // Port 0: heap queues do not keep the port of a packet, so tests with hand-over receive on port 0 only.
        let queue = HeapQueue::new(self.0, 0, 1024);
        Ok((Box::new(Producers(queue.clone())), Box::new(queue)))
    }
    fn share(&mut self, queue: Box<dyn TransmitQueue>) -> Result<Shared, Refusal> {
        let ring = HeapQueue::new(self.0, 0, 1024);
        let drain = Drain { ring: ring.clone(), queue, batch: Batch::new(self.0) };
        Ok((Box::new(Producers(ring)), Box::new(drain)))
    }
}

struct NoScripts;
impl ScriptControl for NoScripts {
    fn reader(&self) -> ReadScript {
        // What is not there is empty: nothing runs it.
        Box::new(|path| Ok(std::fs::read_to_string(path).unwrap_or_default()))
    }
    fn replace(&self, script: ScriptSource) -> Result<u64, Refusal> {
        match script {
            ScriptSource::Text(path, _) if path.ends_with("broken.lua") => {
                Err("broken.lua:1: unexpected symbol".into())
            }
            _ => Ok(2),
        }
    }
    fn status(&self) -> Vec<ScriptStatus> {
        vec![]
    }
    fn progress(&self, _: u64) -> Progress {
        Progress::Running
    }
    fn set_budgets(&self, _: &perigee_config::Router) {}
}

struct PlainFilters;
impl Rebuild for PlainFilters {
    fn in_hardware(&self, steer: &Steer) -> bool {
        // As if the device knew Ethernet types only.
        matches!(steer.what, SteerMatch::EtherType(_))
    }
    fn filters(&self, config: &Config) -> Result<Filters, Refusal> {
        Ok(filters(config))
    }
}

/// The filters of a configuration, as plain lists.
pub fn filters(config: &Config) -> Filters {
    let list = |from: FilteredFrom| {
        let rules: Vec<Rule> = config.filter_rules(from).collect();
        let list = Strict::new(&rules, |rules| Ok::<_, ()>(LinearFilter(rules.to_vec())));
        let list = list.ok().filter(|_| !rules.is_empty())?;
        Some(Arc::new(list) as Arc<dyn perigee_modules::rules::Filter>)
    };
    Filters { deny: list(FilteredFrom::Ports), deny_linux: list(FilteredFrom::Linux), ..Filters::default() }
}

/// How many queues each port has.
#[derive(Clone, Copy)]
pub struct Queues {
    pub receive: usize,
    pub transmit: usize,
}

/// A twin that is not a TAP, and the end that is Linux's.
fn twin(info: &PortInfo) -> ((Twin, TwinStatus), UnixDatagram) {
    let (here, there) = UnixDatagram::pair().unwrap();
    there.set_nonblocking(true).unwrap();
    let status = TwinStatus { name: info.device.clone(), namespace: None, index: 10 + u32::from(info.port) };
    ((Twin::new(here.into()).unwrap(), status), there)
}

/// The router under test, and what lies on its wires.
pub struct Bed {
    pub pool: &'static HeapPool,
    /// By port and queue.
    pub receive: Vec<Vec<HeapQueue>>,
    /// By port: what a device's filters would fill for the slow path.
    pub steered: Vec<HeapQueue>,
    /// By port and queue.
    pub transmit: Vec<Vec<HeapQueue>>,
    pub workers: Vec<Worker>,
    pub bursts: Vec<Box<Batch>>,
    pub slow: SlowThread,
    pub assistants: Vec<AssistantThread>,
    pub mailbox: Mailbox,
    pub counters: Vec<Arc<Counters>>,
    pub notes: Vec<String>,
    pub now: Arc<AtomicU64>,
    /// Ends the slow path's thread.
    pub stop: Stop,
    /// Linux's ends of the twins, by port, if there are any.
    pub linux: Vec<UnixDatagram>,
}

/// MAC address of a port.
pub fn mac(port: u16) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}

pub fn parse(text: &str) -> Config {
    Config::parse_on("router.toml", text, &machine()).unwrap_or_else(|error| panic!("{error}"))
}

/// A machine with four cores, and all of perigee_fib's lookup structures.
pub fn machine() -> Machine {
    Machine { cores: vec![0, 1, 2, 3], fib: Lookups::default().names(), ..Machine::default() }
}

impl Bed {
    /// A router of a configuration, written to `path` for reload.
    pub fn new(text: &str, path: &Path, queues: Queues) -> Bed {
        Bed::with(text, path, queues, Lookups::default())
    }

    /// A router with other lookup structures to choose from.
    pub fn with(text: &str, path: &Path, queues: Queues, lookups: Lookups) -> Bed {
        Bed::beside_linux(text, path, queues, lookups, LinuxFeeds::default())
    }

    /// A router whose ports are on Linux interfaces, of which this is known.
    pub fn over_links(text: &str, path: &Path, queues: Queues, below: Below) -> Bed {
        Bed::build(text, path, queues, Lookups::default(), LinuxParts::default(), Some(below))
    }

    /// A router that follows Linux. Each port then has a twin: number 10 and so on in Linux, with nobody at its other
    /// end.
    pub fn beside_linux(text: &str, path: &Path, queues: Queues, lookups: Lookups, feeds: LinuxFeeds) -> Bed {
        Bed::build(text, path, queues, lookups, LinuxParts { feeds, helper: None }, None)
    }

    /// As [`beside_linux`](Self::beside_linux), with a helper.
    pub fn with_helper(text: &str, path: &Path, queues: Queues, linux: LinuxParts) -> Bed {
        Bed::build(text, path, queues, Lookups::default(), linux, None)
    }

    fn build(
        text: &str,
        path: &Path,
        queues: Queues,
        lookups: Lookups,
        linux_parts: LinuxParts,
        below: Option<Below>,
    ) -> Bed {
        std::fs::write(path, text).unwrap();
        let machine = Machine { fib: lookups.names(), ..machine() };
        let config = Config::parse_on("router.toml", text, &machine).unwrap_or_else(|error| panic!("{error}"));
        let pool = HeapPool::leak(20_000);
        let workers = config.workers.len();
        let make = |n: usize| {
            let of_port = |port| (0..n).map(|_| HeapQueue::new(pool, port, 4096)).collect::<Vec<_>>();
            (0..config.ports.len() as u16).map(of_port).collect::<Vec<_>>()
        };
        let (receive, transmit) = (make(queues.receive), make(queues.transmit));
        let info = |(number, port): (u16, &perigee_config::Port)| PortInfo {
            port: number,
            device: port.name.clone(),
            driver: "heap".to_owned(),
            mac: MacAddr(mac(number)),
            mtu: port.mtu,
            receive_queues: queues.receive as u16,
            transmit_queues: queues.transmit as u16,
            numa_node: None,
            offloads: vec![],
            notes: vec![],
        };
        let infos: Vec<PortInfo> = (0..).zip(&config.ports).map(info).collect();
        // Those that filters of a device would fill.
        let steered: Vec<_> = make(1).into_iter().flatten().collect();
        let nowhere = (vec![None; config.ports.len()], vec![None; workers]);
        let pollers = perigee_router::pollers(&config, (&nowhere.0, &nowhere.1));
        let ports = infos.iter().zip(receive.iter().zip(&transmit)).map(|(info, (rx, tx))| PortQueues {
            name: info.device.clone(),
            port: info.port,
            pollers: pollers[usize::from(info.port)].clone(),
            receive: rx.iter().map(|queue| Box::new(queue.clone()) as Box<dyn ReceiveQueue>).collect(),
            slow_transmit: Vec::new(),
            slow_receive: Some(Box::new(steered[usize::from(info.port)].clone())),
            transmit: tx.iter().map(|queue| Box::new(queue.clone()) as Box<dyn TransmitQueue>).collect(),
        });
        let assistant_bells: Vec<_> = (1..config.router.slow_paths).map(|_| AssistantBell::default()).collect();
        let mut wiring = wire(ports.collect(), workers, assistant_bells.len(), &mut HeapFabric(pool)).unwrap();
        let forwarding = Forwarding::new(&config, &infos, filters(&config), lookups).unwrap();
        let now = Arc::new(AtomicU64::new(1));
        let tick = now.clone();
        let clock: Clock = Arc::new(move || tick.load(Ordering::Relaxed));
        let (mailbox, end) = Mailbox::new().unwrap();
        let custom: Arc<CustomReasons> = Arc::default();
        let (mut ends, mut made, mut counters) = (vec![], vec![], vec![]);
        let bells: Vec<_> =
            [mailbox.bell()].into_iter().chain(assistant_bells.iter().map(AssistantBell::bell)).collect();
        let mut punts: Vec<Vec<_>> = assistant_bells.iter().map(|_| vec![]).collect();
        for (id, queues) in wiring.workers.into_iter().enumerate() {
            let (punt, mut readers) = punt_rings(config.router.punt_ring as usize, &bells);
            let reader = readers.remove(0);
            punts.iter_mut().zip(readers).for_each(|(rings, ring)| rings.push(ring));
            counters.push(Arc::new(Counters::new(infos.len())));
            ends.push(WorkerEnd { polled: queues.names, punts: reader, counters: counters[id].clone() });
            made.push(Worker::new(WorkerParts {
                id,
                receivers: queues.receivers,
                outputs: queues
                    .outputs
                    .into_iter()
                    .map(|queue| queue.map(|queue| TransmitBuffer::new(queue, 32, 0)))
                    .collect(),
                punts: Box::new(punt),
                tables: forwarding.subscribe(),
                counters: counters[id].clone(),
                custom: custom.clone(),
                memory: pool,
                burst: 32,
                idle: Idle::Poll,
                clock: clock.clone(),
                stop: Stop::default(),
            }));
        }
        let shared_pool: Arc<dyn Pool> = Arc::new(pool);
        let mut assistants = Assistants::new(&config);
        let queues = std::mem::take(&mut wiring.slow.assistants).into_iter().zip(punts).zip(assistant_bells);
        let add = |((outputs, punts), bell)| {
            let pools = infos.iter().map(|_| Some(shared_pool.clone())).collect();
            let (tables, owner, clock) = (forwarding.subscribe(), mailbox.bell(), clock.clone());
            let stop = Stop::default();
            assistants.add(AssistantParts { punts, outputs, pools, tables, bell, owner, clock, stop })
        };
        let assistant_threads = queues.map(add).collect();
        let twins = infos.iter().filter(|_| linux_parts.feeds.netlink.is_some()).map(twin);
        let (twins, linux): (Vec<_>, Vec<_>) = twins.unzip();
        let mut twins = twins.into_iter();
        let port = |info: &PortInfo| RouterPort {
            port: Arc::new(HeapPort(info.clone())),
            pool: shared_pool.clone(),
            twin: twins.next(),
        };
        let stop = Stop::default();
        let parts = SlowParts {
            ports: Ports::new(&config, infos.iter().map(port).collect(), wiring.slow, below),
            settings: Settings {
                config,
                path: path.to_owned(),
                machine,
                read: Arc::new(|path, _| std::fs::read(path)),
            },
            workers: Workers::new(ends, custom),
            assistants,
            forwarding,
            scripts: Box::new(NoScripts),
            rebuild: Box::new(PlainFilters),
            mailbox: end,
            memory: pool,
            clock,
            version: VersionStatus::default(),
            stop: stop.clone(),
        };
        let slow = SlowThread::new(parts, linux_parts);
        let bursts = made.iter().map(Worker::new_batch).collect();
        let (workers, assistants) = (made, assistant_threads);
        Bed {
            pool,
            receive,
            steered,
            transmit,
            workers,
            bursts,
            slow,
            assistants,
            mailbox,
            counters,
            notes: wiring.notes,
            now,
            stop,
            linux,
        }
    }

    /// Lets all parts work until none has anything left to do.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            let before: u64 = self.counters.iter().map(|counters| counters.received.get()).sum();
            for (worker, burst) in self.workers.iter_mut().zip(&mut self.bursts) {
                native::round(worker, burst);
            }
            let mut busy = self.slow.round();
            self.assistants.iter_mut().for_each(|assistant| busy |= assistant.round());
            let after: u64 = self.counters.iter().map(|counters| counters.received.get()).sum();
            if !busy && before == after {
                return;
            }
        }
        panic!("the router never comes to rest");
    }

    /// Lets workers and assistants take what there is, and nobody else.
    pub fn work_without_owner(&mut self) {
        for (worker, burst) in self.workers.iter_mut().zip(&mut self.bursts) {
            (0..10).for_each(|_| native::round(worker, burst));
        }
        for assistant in &mut self.assistants {
            while assistant.round() {}
        }
    }

    /// Lets time pass, in steps of 100 ms.
    pub fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.now.fetch_add(100_000_000, Ordering::Relaxed);
            self.settle();
        }
    }

    /// What the router has sent on a port, over all queues.
    pub fn sent(&self, port: usize) -> Vec<Vec<u8>> {
        self.transmit[port].iter().flat_map(|queue| std::iter::from_fn(|| queue.collect())).collect()
    }

    /// Asks the router, as the API does.
    pub fn ask(&mut self, client: impl FnOnce() -> String + Send) -> String {
        std::thread::scope(|scope| {
            let asking = scope.spawn(client);
            while !asking.is_finished() {
                self.slow.round();
                for assistant in &mut self.assistants {
                    assistant.round();
                }
                for (worker, burst) in self.workers.iter_mut().zip(&mut self.bursts) {
                    native::round(worker, burst);
                }
            }
            asking.join().unwrap()
        })
    }

    /// Asks the router over its socket: the answer's JSON, or `refused: ` and why.
    pub fn call(&mut self, socket: &Path, query: impl Query) -> String {
        self.ask(move || {
            let client = ApiClient::connect(socket).unwrap();
            let answer = client.ask_json(&query);
            answer.map_or_else(|error| format!("refused: {error}"), |value| value.to_string())
        })
    }

    /// Ends everything; returns how many buffers are still in use.
    pub fn end(mut self) -> usize {
        self.assistants.iter_mut().for_each(AssistantThread::finish);
        self.slow.finish();
        let Bed { pool, receive, transmit, workers, bursts, slow, .. } = self;
        drop((workers, bursts, slow));
        receive.iter().chain(&transmit).flatten().for_each(|queue| while queue.collect().is_some() {});
        drop((receive, transmit));
        (&pool).in_use()
    }
}

/// A router, and the file that it is reloaded from.
pub struct OnDisk {
    pub bed: Bed,
    pub path: PathBuf,
    _folder: tempfile::TempDir,
}

impl OnDisk {
    /// A router that has sent what it announces at the start.
    pub fn new(text: &str, queues: Queues) -> OnDisk {
        OnDisk::with(text, queues, Lookups::default())
    }

    /// One with other lookup structures to choose from.
    pub fn with(text: &str, queues: Queues, lookups: Lookups) -> OnDisk {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("router.toml");
        let mut bed = Bed::with(text, &path, queues, lookups);
        bed.settle();
        let mut router = OnDisk { bed, path, _folder: folder };
        router.drain();
        router
    }

    /// Reloads it from another text; its message, or why it was refused.
    pub fn reload(&mut self, text: &str) -> Result<String, String> {
        std::fs::write(&self.path, text).unwrap();
        let outcome = ask(&mut self.bed, Reload { script: None, text: None });
        self.bed.settle();
        outcome.map(|outcome| outcome.message)
    }

    /// Forgets what was sent.
    pub fn drain(&mut self) {
        (0..2).for_each(|port| drop(self.bed.sent(port)));
    }

    /// Port a receives a frame; returns what each port sends.
    pub fn receive(&mut self, frame: &[u8]) -> [Vec<Vec<u8>>; 2] {
        assert!(self.bed.receive[0][0].inject(frame));
        self.bed.settle();
        [0, 1].map(|port| self.bed.sent(port))
    }

    /// Ends everything: no buffer may be missing.
    pub fn end(mut self) {
        self.drain();
        assert_eq!(self.bed.end(), 0, "packet buffers are missing");
    }
}

/// Asks the router directly.
pub fn ask<Q: Query>(bed: &mut Bed, query: Q) -> Result<Q::Answer, String> {
    let answer = begin(bed, query);
    wait_for(bed, &answer)
}

/// Asks, and does not wait for the answer.
pub fn begin<Q: Query>(bed: &mut Bed, query: Q) -> Answer<Q::Answer> {
    let (reply, answer) = Reply::pair();
    bed.mailbox.handle(query.request(reply));
    bed.slow.round();
    answer
}

/// Waits for an answer.
pub fn wait_for<A>(bed: &mut Bed, answer: &Answer<A>) -> Result<A, String> {
    // A reload's files are read by another thread.
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_secs(120) {
        bed.slow.round();
        for assistant in &mut bed.assistants {
            assistant.round();
        }
        if let Some(answer) = answer.try_take() {
            return answer.map_err(|error| error.to_string());
        }
    }
    panic!("no answer");
}

/// A UDP packet from 10.0.1.2, port `port`, through the router's port a.
pub fn udp(destination: &str, ttl: u8, port: u16) -> Vec<u8> {
    let mut frame = vec![0; 14 + 20 + 8 + 20];
    ethernet::emit(&mut frame, MacAddr(mac(0)), PEER_A, ethernet::ethertype::IPV4).unwrap();
    let repr = ipv4::Repr {
        ttl,
        ..ipv4::Repr::new("10.0.1.2".parse().unwrap(), destination.parse().unwrap(), protocol::UDP, 28)
    };
    repr.emit(&mut frame[14..]).unwrap();
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[36..40].copy_from_slice(&[0, 9, 0, 28]);
    frame
}
