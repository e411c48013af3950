// SPDX-License-Identifier: MIT
//! The functions of `perigee.h` as scripts call them: in any order, with any values that Lua has. A script may fail, which is an error in
//! Lua with a message; it may not crash the process, hold a packet after it was told to give it up, or hand one out twice.
//!
//! One script runs in one VM on a thread of its own. Each input comes to it as a packet, whose bytes `scripts.lua` reads as calls.

use crate::frames::mutate;
use crate::frames::templates::{self, Template};
use crate::input::Input;
use crate::lua_bed::{self, Bed};
use perigee_lua::{Budgets, Scripts};
use perigee_modules::{Context, Counters, PuntSink, Punted};
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::{Batch, Pool, ReceiveQueue, TransmitBuffer};
use perigee_worker::{Idle, Receiver, Worker, WorkerParts};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as Inbox, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

static TEMPLATES: LazyLock<Vec<Template>> = LazyLock::new(templates::all);

/// How long an input may take.
const PATIENCE: u32 = 30;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    static RUNNING: LazyLock<Mutex<Running>> = LazyLock::new(|| Mutex::new(Running::start()));
    // A panic below is the end of the process or of the test.
    RUNNING.lock().expect("no input has failed").run(bytes);
}

/// The script on its thread.
struct Running {
    bed: Bed,
    scripts: Scripts,
    programs: Sender<Vec<u8>>,
    done: Inbox<()>,
}

impl Running {
    fn start() -> Running {
        let bed = Bed::new();
        let script = lua_bed::script(include_str!("scripts.lua"));
        let (published, custom) = (bed.published.clone(), bed.custom.clone());
        let staging = move || Context {
            now: 0,
            worker: Context::NO_WORKER,
            tables: published.lock().expect("nobody else has it").subscribe(),
            counters: Arc::new(Counters::new(2)),
            outputs: vec![],
            punts: Box::new(Gone),
            custom: custom.clone(),
            next_redirect: 0,
            fragments: Default::default(),
            multicast: Default::default(),
            failure: None,
            trace: None,
            stopwatch: Default::default(),
            watched: false,
        };
        // It waits for inputs inside the host, for as long as none comes.
        let budgets = Budgets { stall: Duration::from_secs(1 << 20), ..Budgets::default() };
        let scripts = Scripts::new(script, 1, Box::new(staging), budgets, &perigee_lua::thread).expect("a good script");
        let (programs, inbox) = channel();
        let (end, done) = channel();
        let (worker, runner) = (worker(&bed, inbox, end), scripts.clone());
        std::thread::spawn(move || runner.run(worker));
        let running = Running { bed, scripts, programs, done };
        running.wait();
        running
    }

    fn run(&self, program: &[u8]) {
        // An empty frame is none.
        let program = if program.is_empty() { &[0] } else { program };
        self.programs.send(program.to_vec()).expect("the script runs");
        self.wait();
        self.bed.transmit.iter().for_each(|queue| while queue.collect().is_some() {});
        assert_eq!((&self.bed.pool).in_use(), 0, "packets are left");
    }

    /// Waits until the script asks for the next input.
    fn wait(&self) {
        for _ in 0..PATIENCE * 10 {
            let answer = self.done.recv_timeout(Duration::from_millis(100));
            let status = self.scripts.status();
            assert_eq!((status.throws, status.generation), (0, 1), "the script failed: {:?}", status.last_error);
            match answer {
                Ok(()) => return,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the worker has ended"),
            }
        }
        panic!("the script does not come to an end");
    }
}

/// Nothing is punted while a script loads.
struct Gone;
impl PuntSink for Gone {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        Err(packet)
    }
}

/// Whether an input is being worked on.
#[derive(Clone, Default)]
struct Busy(Arc<AtomicBool>);

/// The slow path: frees what it gets. The script gives it an input that it has done.
struct Sink(Busy);
impl PuntSink for Sink {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        if packet.port == PROGRAM {
            self.0.0.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The port that inputs come from.
const PROGRAM: u16 = 0;

/// The queue of inputs: waits for the next one.
struct Programs {
    pool: &'static HeapPool,
    inbox: Inbox<Vec<u8>>,
    end: Sender<()>,
    busy: Busy,
    current: Arc<Mutex<Vec<u8>>>,
}

impl ReceiveQueue for Programs {
    fn receive(&mut self, batch: &mut Batch, _burst: usize) -> usize {
        // The input itself may ask for packets of this queue.
        if self.busy.0.load(Ordering::Relaxed) {
            return 0;
        }
        let _ = self.end.send(());
        let Ok(program) = self.inbox.recv() else { return 0 };
        let Some(packet) = self.pool.packet(&program) else { return 0 };
        *self.current.lock().expect("one thread") = program;
        self.busy.0.store(true, Ordering::Relaxed);
        usize::from(batch.push(packet, PROGRAM).is_ok())
    }
}

/// The queue of frames, which follow from the input.
struct Frames {
    pool: &'static HeapPool,
    current: Arc<Mutex<Vec<u8>>>,
    frame: Vec<u8>,
}

impl ReceiveQueue for Frames {
    fn receive(&mut self, batch: &mut Batch, burst: usize) -> usize {
        let current = self.current.lock().expect("one thread");
        let mut input = Input::new(&current);
        for _ in 0..burst {
            mutate::frame(&mut self.frame, &TEMPLATES, &mut input);
            let pushed = self.pool.packet(&self.frame).map(|packet| batch.push(packet, 1));
            if !matches!(pushed, Some(Ok(_))) {
                break;
            }
        }
        batch.live().count()
    }
}

fn worker(bed: &Bed, inbox: Inbox<Vec<u8>>, end: Sender<()>) -> Worker {
    let (busy, current) = (Busy::default(), Arc::<Mutex<Vec<u8>>>::default());
    let programs = Programs { pool: bed.pool, inbox, end, busy: busy.clone(), current: current.clone() };
    let frames = Frames { pool: bed.pool, current, frame: Vec::new() };
    let time = AtomicU64::new(1);
    let output = |queue: &perigee_packet::batch::heap::HeapQueue| {
        Some(TransmitBuffer::new(Box::new(queue.clone()), 32, 0))
    };
    Worker::new(WorkerParts {
        id: 0,
        receivers: vec![Receiver::new(Box::new(programs)), Receiver::new(Box::new(frames))],
        outputs: bed.transmit.iter().map(output).collect(),
        punts: Box::new(Sink(busy)),
        tables: bed.published.lock().expect("nobody else has it").subscribe(),
        counters: bed.counters.clone(),
        custom: bed.custom.clone(),
        memory: bed.pool,
        burst: 32,
        idle: Idle::Poll,
        clock: Arc::new(move || time.fetch_add(1000, Ordering::Relaxed)),
        stop: bed.stop.clone(),
    })
}
