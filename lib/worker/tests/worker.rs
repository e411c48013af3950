// SPDX-License-Identifier: MIT
//! Workers between heap queues, with the loop in Rust: what comes in goes out right, and everything is counted.
#![cfg(not(feature = "loom"))]

use perigee_fib::{Published, Subscriber};
use perigee_modules::testing::{LOCAL, NO_OUTPUT, PORTS, arp_request, changed, fix_checksum, neighbor, own_mac};
use perigee_modules::testing::{routes, tables, tagged, udp4, udp6};
use perigee_modules::{Counters, CustomReasons, Punted, Tables, host};
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Mask, Pool, TransmitBuffer};
use perigee_worker::{Bell, Idle, Receiver, Spread, Stop, Worker, WorkerParts, native, punt_rings};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// A worker and the far ends of its queues.
struct Bench {
    worker: Worker,
    input: HeapQueue,
    outputs: Vec<HeapQueue>,
    counters: Arc<Counters>,
    punted: rtrb::Consumer<Punted>,
    woken: Arc<AtomicUsize>,
    bell: Arc<Bell>,
    stop: Stop,
}

/// How a test's worker differs from the others.
struct Options {
    id: usize,
    burst: usize,
    punt_ring: usize,
    idle: Idle,
    timeout: u64,
    spread: Option<Spread>,
    ring: Option<HeapQueue>,
    stop: Stop,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            id: 0,
            burst: 32,
            punt_ring: 64,
            idle: Idle::Poll,
            timeout: 0,
            spread: None,
            ring: None,
            stop: Stop::default(),
        }
    }
}

/// A worker that receives on port 0 and transmits on all ports but the last.
fn bench(pool: &'static HeapPool, tables: Subscriber<Tables>, options: Options) -> Bench {
    let input = HeapQueue::new(pool, 0, 20_000);
    let outputs: Vec<_> = (0..PORTS).map(|port| HeapQueue::new(pool, port, 20_000)).collect();
    let buffer = |queue: &HeapQueue| Some(TransmitBuffer::new(Box::new(queue.clone()), 32, options.timeout));
    let mut buffers: Vec<_> = outputs.iter().map(buffer).collect();
    buffers[usize::from(PORTS) - 1] = None;
    let woken = Arc::new(AtomicUsize::new(0));
    let wake = Arc::clone(&woken);
    let bell = Arc::new(Bell::new(move || {
        wake.fetch_add(1, Ordering::Relaxed);
    }));
    let (punts, mut readers) = punt_rings(options.punt_ring, &[Arc::clone(&bell)]);
    let punted = readers.remove(0);
    let counters = Arc::new(Counters::new(PORTS.into()));
    let mut receivers = vec![Receiver { queue: Box::new(input.clone()), spread: options.spread, handed_over: false }];
    receivers.extend(options.ring.map(|ring| Receiver { queue: Box::new(ring), spread: None, handed_over: true }));
    let worker = Worker::new(WorkerParts {
        id: options.id,
        receivers,
        outputs: buffers,
        punts: Box::new(punts),
        tables,
        counters: Arc::clone(&counters),
        custom: Arc::new(CustomReasons::default()),
        memory: pool,
        burst: options.burst,
        idle: options.idle,
        clock: Arc::new(|| NOW.get()),
        stop: options.stop.clone(),
    });
    Bench { worker, input, outputs, counters, punted, woken, bell, stop: options.stop }
}

/// A worker alone in its router.
fn alone(options: Options) -> (&'static HeapPool, Published<Tables>, Bench) {
    let pool = HeapPool::leak(40_000);
    let mut published = Published::new(tables(&routes(), None));
    let subscriber = published.subscribe();
    (pool, published, bench(pool, subscriber, options))
}

impl Bench {
    fn inject(&self, frame: &[u8]) {
        assert!(self.input.inject(frame), "the queue is full");
    }

    fn sent(&self, port: u16) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.outputs[usize::from(port)].collect()).collect()
    }

    /// `n` rounds of the loop.
    fn rounds(&mut self, n: usize) {
        let mut burst = self.worker.new_batch();
        (0..n).for_each(|_| native::round(&mut self.worker, &mut burst));
    }
}

/// The frame as it should leave by port 1 or 2: one hop less, MAC addresses of the next link.
fn forwarded(frame: &[u8], interface: u8, port: u16) -> Vec<u8> {
    changed(frame.to_vec(), |frame| {
        frame[..6].copy_from_slice(&neighbor(interface).octets());
        frame[6..12].copy_from_slice(&own_mac(port).octets());
        if frame[12..14] == [8, 0] {
            frame[22] -= 1;
            fix_checksum(&mut frame[14..]);
        } else {
            frame[21] -= 1;
        }
    })
}

#[test]
fn the_native_loop_forwards_with_the_right_bytes() {
    let (pool, _published, mut bench) = alone(Options::default());
    assert_eq!((bench.worker.id(), bench.worker.queues()), (0, 1));
    for payload in 0..50 {
        bench.inject(&udp4(1, payload));
        bench.inject(&udp6(1, payload));
        bench.inject(&udp4(3, payload));
    }
    bench.rounds(5);
    let both = |payload| [forwarded(&udp4(1, payload), 1, 1), forwarded(&udp6(1, payload), 1, 1)];
    assert_eq!(bench.sent(1), (0..50).flat_map(both).collect::<Vec<_>>());
    let through_vlan = |payload| {
        let plain = forwarded(&udp4(3, payload), 3, 2);
        changed(tagged(plain.clone(), 2, 20), |frame| frame[..12].copy_from_slice(&plain[..12]))
    };
    assert_eq!(bench.sent(2), (0..50).map(through_vlan).collect::<Vec<_>>());
    let counters = &bench.counters;
    assert_eq!((counters.received.get(), counters.polls.get(), counters.bursts.get()), (150, 5, 5));
    let bytes: usize = (0..50).map(|payload| 2 * udp4(1, payload).len() + udp6(1, payload).len()).sum();
    assert_eq!(counters.received_bytes.get(), bytes as u64);
    assert_eq!((counters.port_transmitted(1), counters.port_transmitted(2)), (100, 50));
    assert_eq!((counters.unclaimed.get(), counters.punted.get(), pool.in_use()), (0, 0, 0));
}

#[test]
fn what_a_script_leaves_is_freed_and_counted() {
    let (pool, _published, mut bench) = alone(Options { burst: 3, ..Options::default() });
    (0..8).for_each(|_| bench.inject(&udp4(1, 8)));
    let mut burst = bench.worker.new_batch();
    assert_eq!(bench.worker.receive(0, &mut burst), 3);
    burst.discard(Mask::only(1));
    assert_eq!(bench.worker.receive(0, &mut burst), 3);
    assert_eq!((bench.counters.unclaimed.get(), pool.in_use()), (2, 5));
    assert_eq!(bench.worker.receive(9, &mut burst), 0, "no such queue; the batch is emptied all the same");
    assert_eq!((bench.counters.unclaimed.get(), bench.counters.reason_packets(host::UNCLAIMED)), (5, 5));
    assert_eq!((bench.worker.receive(0, &mut burst), bench.worker.receive(0, &mut burst)), (2, 0));
    assert_eq!((bench.counters.polls.get(), bench.counters.bursts.get(), pool.in_use()), (5, 3, 0));
}

#[test]
fn new_tables_are_seen_at_the_batch_boundary() {
    let (_, mut published, mut bench) = alone(Options::default());
    let mut other = routes();
    let prefix = perigee_net::Prefix::host(perigee_modules::testing::v4(1).into());
    let target = perigee_net::RouteTarget::Blackhole;
    other.insert(prefix, perigee_net::Route::new(perigee_net::RouteSource::Static, target)).expect("room for a route");
    let version = published.publish(tables(&other, None));
    assert!(!published.acknowledged(version));
    bench.inject(&udp4(1, 8));
    bench.rounds(1);
    assert_eq!(bench.sent(1).len(), 1, "the burst was under the old tables");
    assert!(published.acknowledged(version), "housekeeping came after it");
    assert_eq!((published.reclaim(), bench.counters.table_swaps.get()), (1, 1));
    bench.inject(&udp4(1, 8));
    bench.rounds(2);
    assert_eq!(bench.sent(1).len(), 0);
    assert_eq!(bench.counters.reason_packets(perigee_modules::ipv4_lookup::BLACKHOLE), 1);
    assert_eq!(bench.counters.table_swaps.get(), 1, "once");
}

#[test]
fn packets_of_a_busy_worker_leave_after_the_timeout() {
    let (_, _published, mut bench) = alone(Options { timeout: 1000, ..Options::default() });
    let one_more = |bench: &mut Bench, now| {
        NOW.set(now);
        bench.inject(&udp4(1, 8));
        bench.rounds(1);
    };
    NOW.set(5000);
    bench.rounds(1);
    one_more(&mut bench, 5000);
    one_more(&mut bench, 5999);
    assert_eq!(bench.sent(1).len(), 0);
    one_more(&mut bench, 6000);
    assert_eq!((bench.sent(1).len(), bench.counters.port_transmitted(1)), (3, 3));
}

/// It waited for the whole timeout, 100 us, where the wire had been silent for 99 of them.
#[test]
fn a_lonely_packet_leaves_as_soon_as_a_round_brings_nothing() {
    let (_, _published, mut bench) = alone(Options { timeout: u64::MAX, ..Options::default() });
    bench.inject(&udp4(1, 8));
    bench.rounds(1);
    assert_eq!(bench.sent(1).len(), 0, "more may come");
    bench.rounds(1);
    assert_eq!((bench.sent(1).len(), bench.counters.port_transmitted(1)), (1, 1));
}

#[test]
fn a_worker_that_sleeps_has_sent_everything_before() {
    let options = Options { timeout: u64::MAX, idle: Idle::Sleep, ..Options::default() };
    let (_, _published, mut bench) = alone(options);
    bench.inject(&udp4(1, 8));
    bench.rounds(1);
    assert_eq!((bench.sent(1).len(), bench.counters.sleeps.get()), (0, 0));
    while bench.counters.sleeps.get() == 0 {
        bench.rounds(1);
    }
    assert_eq!(bench.sent(1).len(), 1);
}

#[test]
fn a_worker_with_packets_does_not_fall_asleep() {
    let options = Options { idle: Idle::Sleep, ..Options::default() };
    let (_, _published, mut bench) = alone(options);
    for _ in 0..200 {
        bench.inject(&udp4(1, 8));
        bench.rounds(1);
    }
    assert_eq!(bench.counters.sleeps.get(), 0);
    bench.rounds(100);
    assert!(bench.counters.sleeps.get() > 0, "without packets it does");
}

/// The time before the first round is no gap, and taking the longest gap sets it back.
#[test]
fn the_longest_gap_between_two_rounds_is_kept_until_it_is_taken() {
    let (_, _published, mut bench) = alone(Options::default());
    for now in [700, 1000, 1300, 1350] {
        NOW.set(now);
        bench.rounds(1);
    }
    assert_eq!(bench.counters.longest_gap.get(), 300);
    assert_eq!((bench.counters.longest_gap.take(), bench.counters.longest_gap.get()), (300, 0));
    NOW.set(1360);
    bench.rounds(1);
    assert_eq!(bench.counters.longest_gap.get(), 10);
}

#[test]
fn the_loop_ends_when_asked_and_sends_what_waits() {
    let (pool, _published, mut bench) = alone(Options { timeout: u64::MAX, ..Options::default() });
    bench.inject(&udp4(1, 8));
    bench.rounds(1);
    bench.stop.request();
    assert!(!bench.worker.running());
    native::run(&mut bench.worker);
    assert_eq!((bench.sent(1).len(), pool.in_use()), (1, 0));
}

/// A flood of packets for the slow path costs the others nothing, and is counted.
#[test]
fn a_full_punt_ring_drops_and_the_fast_path_goes_on() {
    let (pool, _published, mut bench) = alone(Options { punt_ring: 10, ..Options::default() });
    for _ in 0..100 {
        bench.inject(&arp_request());
        bench.inject(&udp4(1, 8));
        bench.inject(&udp4(LOCAL, 8));
        bench.inject(&udp4(NO_OUTPUT, 8));
    }
    bench.rounds(20);
    assert_eq!(bench.sent(1).len(), 100);
    let counters = &bench.counters;
    assert_eq!((counters.punted.get(), counters.reason_packets(host::PUNT_RING_FULL)), (10, 190));
    assert_eq!(counters.reason_packets(perigee_modules::distribute::NO_PORT), 100);
    assert_eq!(pool.in_use(), 10);
    let first = bench.punted.pop().expect("a punted packet");
    assert_eq!((first.packet.bytes(), first.port), (&arp_request()[..], 0));
    // There is room for one more now.
    bench.inject(&arp_request());
    bench.inject(&arp_request());
    bench.rounds(1);
    assert_eq!((bench.counters.punted.get(), bench.counters.reason_packets(host::PUNT_RING_FULL)), (11, 191));
    drop((first, bench));
    assert_eq!(pool.in_use(), 0, "a ring frees what is left in it");
}

#[test]
fn a_punt_wakes_a_sleeping_slow_path_once() {
    let (_, _published, mut bench) = alone(Options::default());
    let bell = Arc::clone(&bench.bell);
    let mut woken_by_punts = |n: usize| {
        (0..n).for_each(|_| bench.inject(&arp_request()));
        bench.rounds(1);
        bench.woken.swap(0, Ordering::Relaxed)
    };
    assert_eq!(woken_by_punts(3), 0, "it is awake");
    bell.doze();
    assert_eq!(woken_by_punts(3), 1);
    bell.doze();
    bell.awake();
    assert_eq!(woken_by_punts(3), 0);
}

#[test]
fn a_full_hand_over_ring_is_counted() {
    let pool = HeapPool::leak(1000);
    let ring = HeapQueue::new(pool, 0, 4);
    let mut published = Published::new(tables(&routes(), None));
    let spread = Spread::new(0, vec![None, Some(Box::new(ring.clone()))]);
    let mut bench = bench(pool, published.subscribe(), Options { spread: Some(spread), ..Options::default() });
    for port in 0..200 {
        bench.inject(&flow(port, 0));
    }
    bench.rounds(7);
    let theirs = (0..200).filter(|port| perigee_worker::spread::owner(&flow(*port, 0), 2) == 1).count() as u64;
    let counters = &bench.counters;
    assert_eq!((counters.handed_over.get(), counters.reason_packets(host::HAND_OVER_FULL)), (4, theirs - 4));
    assert_eq!((counters.received.get(), counters.port_transmitted(1)), (200, 200 - theirs));
    drop((bench, ring));
    assert_eq!(pool.in_use(), 0);
}

/// The `number`-th packet of a flow, which is known by its source port.
fn flow(port: u16, number: u32) -> Vec<u8> {
    changed(udp4(1, 8), |frame| {
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[42..46].copy_from_slice(&number.to_be_bytes());
    })
}

/// Two threads behind one queue: nothing is lost, every flow stays with one worker and in order.
#[test]
fn two_workers_share_a_queue() {
    const FLOWS: u16 = 50;
    const PACKETS: u32 = 200;
    let pool = HeapPool::leak(40_000);
    let mut published = Published::new(tables(&routes(), None));
    let ring = HeapQueue::new(pool, 0, 20_000);
    let stop = Stop::default();
    let spread = Spread::new(0, vec![None, Some(Box::new(ring.clone()))]);
    let first = Options { spread: Some(spread), stop: stop.clone(), ..Options::default() };
    let second = Options { id: 1, ring: Some(ring), stop: stop.clone(), ..Options::default() };
    let benches = [first, second].map(|options| bench(pool, published.subscribe(), options));
    let input = benches[0].input.clone();
    let counters = benches.each_ref().map(|bench| Arc::clone(&bench.counters));
    let outputs = benches.each_ref().map(|bench| bench.outputs[1].clone());
    let threads = benches.map(|mut bench| {
        std::thread::spawn(move || {
            native::run(&mut bench.worker);
            bench
        })
    });
    for number in 0..PACKETS {
        for port in 0..FLOWS {
            while !input.inject(&flow(port, number)) {
                std::thread::yield_now();
            }
        }
    }
    let all = u64::from(FLOWS) * u64::from(PACKETS);
    // Until every packet that lives was sent, whether or not some were lost; or nothing happens any more.
    let total = |count: fn(&Counters) -> u64| counters.iter().map(|counters| count(counters)).sum::<u64>();
    let sent = || total(|counters| counters.port_transmitted(1));
    let polls = || total(|counters| counters.polls.get());
    let patience = polls() + 20_000_000;
    while sent() < pool.in_use() as u64 && polls() < patience {
        std::thread::yield_now();
    }
    assert_eq!(sent(), all);
    stop.request();
    for thread in threads {
        thread.join().expect("the worker ends");
    }
    assert_eq!(counters[0].received.get(), all);
    assert_eq!(counters[1].received.get(), counters[0].handed_over.get());
    let mut owner_and_next: HashMap<u16, (usize, u32)> = HashMap::new();
    for (worker, output) in outputs.iter().enumerate() {
        while let Some(frame) = output.collect() {
            let port = u16::from_be_bytes([frame[34], frame[35]]);
            let number = u32::from_be_bytes([frame[42], frame[43], frame[44], frame[45]]);
            let (owner, next) = owner_and_next.entry(port).or_insert((worker, 0));
            assert_eq!((*owner, *next), (worker, number), "flow {port}");
            *next += 1;
        }
    }
    assert_eq!(owner_and_next.len(), usize::from(FLOWS));
    assert!(owner_and_next.values().all(|(_, next)| *next == PACKETS));
    assert!([0, 1].iter().all(|worker| owner_and_next.values().any(|(owner, _)| owner == worker)), "both have work");
    drop((input, outputs));
    assert_eq!(pool.in_use(), 0);
}
