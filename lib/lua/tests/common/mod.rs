// SPDX-License-Identifier: MIT
//! A router of one worker between two heap ports, driven by a script.

use perigee_fib::*;
use perigee_lua::{Budgets, Script, Scripts};
use perigee_modules::{Context, Counters, CustomReasons, PuntSink, Punted, Tables};
use perigee_net::{Interface, InterfaceId, MacAddr, Policy, Route, RouteSource, RouteTarget};
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Pool, TransmitBuffer};
use perigee_worker::{Idle, Receiver, Stop, Worker, WorkerParts};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
pub const NEIGHBOR: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x99]);

struct Refuse;
impl PuntSink for Refuse {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        Err(packet)
    }
}

/// Keeps what is punted.
#[derive(Clone, Default)]
pub struct Keep(pub Arc<Mutex<Vec<Vec<u8>>>>);
impl PuntSink for Keep {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        self.0.lock().unwrap().push(packet.packet.bytes().to_vec());
        Ok(())
    }
}

pub struct Bed {
    pub pool: &'static HeapPool,
    pub receive: Vec<HeapQueue>,
    pub transmit: Vec<HeapQueue>,
    pub counters: Arc<Counters>,
    pub custom: Arc<CustomReasons>,
    pub punts: Keep,
    pub stop: Stop,
    pub published: Arc<Mutex<Published<Tables>>>,
    _fib: FibWriter,
}

impl Bed {
    /// 192.0.2.0/24 and 2001:db8::/32 lead out of port 1.
    pub fn new() -> Bed {
        Bed::with_buffers(10_000)
    }

    /// With a pool of that number of packet buffers.
    pub fn with_buffers(buffers: usize) -> Bed {
        let interface = |port: u16| Interface {
            name: format!("p{port}"),
            port,
            vlan: None,
            mtu: 1500,
            mac: MACS[usize::from(port)],
            addresses: vec![],
            up: true,
            attributes: Default::default(),
            policy: Policy::default(),
        };
        let interfaces = Interfaces::new(vec![interface(0), interface(1)]).unwrap();
        let mut fib = FibWriter::new(100).unwrap();
        for (prefix, gateway) in [("192.0.2.0/24", "10.0.0.2"), ("2001:db8::/32", "fd00::2")] {
            let gateway = gateway.parse().unwrap();
            let target = RouteTarget::Gateway { address: gateway, interface: Some(InterfaceId(1)) };
            fib.insert(prefix.parse().unwrap(), Route::new(RouteSource::Static, target)).unwrap();
            fib.set_neighbor(InterfaceId(1), gateway, Some(NEIGHBOR));
        }
        let view = fib.reader();
        let tables = Tables::new(view, Arc::new(interfaces), None, &MACS);
        let pool = HeapPool::leak(buffers);
        let queues = || (0..2).map(|port| HeapQueue::new(pool, port, 4096)).collect::<Vec<_>>();
        Bed {
            pool,
            receive: queues(),
            transmit: queues(),
            counters: Arc::new(Counters::new(2)),
            custom: Arc::default(),
            punts: Keep::default(),
            stop: Stop::default(),
            published: Arc::new(Mutex::new(Published::new(tables))),
            _fib: fib,
        }
    }

    pub fn scripts(&self, script: Script) -> Result<Scripts, perigee_lua::ScriptError> {
        let (published, custom) = (self.published.clone(), self.custom.clone());
        let staging = move || Context {
            now: 0,
            worker: Context::NO_WORKER,
            tables: published.lock().unwrap().subscribe(),
            counters: Arc::new(Counters::new(2)),
            outputs: vec![],
            punts: Box::new(Refuse),
            custom: custom.clone(),
            next_redirect: 0,
            fragments: Default::default(),
            multicast: Default::default(),
            failure: None,
            trace: None,
            stopwatch: Default::default(),
            watched: false,
        };
        Scripts::new(script, 1, Box::new(staging), budgets(), &perigee_lua::thread)
    }

    pub fn worker(&self) -> Worker {
        let output = |queue: &HeapQueue| Some(TransmitBuffer::new(Box::new(queue.clone()), 32, 0));
        let receiver = |queue: &HeapQueue| Receiver::new(Box::new(queue.clone()));
        Worker::new(WorkerParts {
            id: 0,
            receivers: self.receive.iter().map(receiver).collect(),
            outputs: self.transmit.iter().map(output).collect(),
            punts: Box::new(self.punts.clone()),
            tables: self.published.lock().unwrap().subscribe(),
            counters: self.counters.clone(),
            custom: self.custom.clone(),
            memory: self.pool,
            burst: 32,
            idle: Idle::Sleep,
            clock: Arc::new(monotonic),
            stop: self.stop.clone(),
        })
    }

    /// Runs the scripts on a thread while `body` acts on the router; then stops it and checks that no buffer is left.
    pub fn run(&self, scripts: &Scripts, body: impl FnOnce()) {
        let (worker, runner) = (self.worker(), scripts.clone());
        std::thread::scope(|scope| {
            scope.spawn(move || runner.run(worker));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            self.stop.request();
            if let Err(panic) = result {
                std::panic::resume_unwind(panic);
            }
        });
        self.receive.iter().chain(&self.transmit).for_each(|queue| while queue.collect().is_some() {});
        assert_eq!((&self.pool).in_use(), 0, "no packet buffer is left");
    }

    /// Packets that left under a reason.
    #[allow(dead_code, reason = "not every test file asks")]
    pub fn reason(&self, module: &str, name: &str) -> u64 {
        let builtin = perigee_modules::all_reasons()
            .find(|(_, m, info)| *m == module && info.name == name)
            .map(|(reason, ..)| reason);
        let custom = || self.custom.all().into_iter().find(|(_, m, n, _)| m == module && n == name).map(|r| r.0);
        builtin.or_else(custom).map_or(0, |reason| self.counters.reason_packets(reason))
    }
}

/// Budgets with which a stall is found soon.
pub fn budgets() -> Budgets {
    Budgets { stall: Duration::from_millis(300), ..Budgets::default() }
}

pub fn monotonic() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Waits until a condition holds; a test fails if it never does. For minutes: the machine may be busy.
#[track_caller]
pub fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    const LONGEST: Duration = Duration::from_secs(180);
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONGEST, "waited {} s in vain for {what}", LONGEST.as_secs());
        // sleep: between two looks
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An IPv4 UDP packet to 192.0.2.`host` from port 1000 to `port`.
pub fn udp(host: u8, port: u16, ttl: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&MACS[0].octets());
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x55]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 1, 0, 0, ttl, 17]);
    frame[26..34].copy_from_slice(&[198, 51, 100, 1, 192, 0, 2, host]);
    let checksum = perigee_packet::wire::checksum::ipv4_header(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[34..36].copy_from_slice(&1000u16.to_be_bytes());
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame[38..40].copy_from_slice(&26u16.to_be_bytes());
    frame
}

pub fn script(source: &str) -> Script {
    Script { name: "test.lua".to_owned(), source: source.to_owned(), folder: None }
}
