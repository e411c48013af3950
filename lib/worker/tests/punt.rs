// SPDX-License-Identifier: MIT
//! Punt rings to several threads: a flow keeps to one of them and its order, and room is what there is.
#![cfg(not(feature = "loom"))]

use perigee_modules::testing::{arp_request, changed, tagged, udp4, udp6};
use perigee_modules::{PuntSink, Punted, redirect, ttl};
use perigee_net::InterfaceId;
use perigee_packet::Pool;
use perigee_packet::batch::heap::HeapPool;
use perigee_worker::{Bell, PuntReader, PuntRings, punt_rings};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Bench {
    pool: &'static HeapPool,
    rings: PuntRings,
    readers: Vec<PuntReader>,
    bells: Vec<Arc<Bell>>,
    woken: Arc<AtomicUsize>,
}

fn bench(threads: usize, capacity: usize) -> Bench {
    let woken = Arc::new(AtomicUsize::new(0));
    let bell = |_| {
        let woken = woken.clone();
        Arc::new(Bell::new(move || {
            woken.fetch_add(1, Ordering::Relaxed);
        }))
    };
    let bells: Vec<_> = (0..threads).map(bell).collect();
    let (rings, readers) = punt_rings(capacity, &bells);
    Bench { pool: HeapPool::leak(10_000), rings, readers, bells, woken }
}

impl Bench {
    fn punted(&self, frame: &[u8], number: u32) -> Punted {
        let packet = self.pool.packet(frame).unwrap();
        Punted { packet, reason: ttl::EXPIRED, port: 0, interface: InterfaceId(0), next_hop: number, trace: None }
    }

    /// Punts a packet and shows it; which thread got it.
    fn thread_of(&mut self, punted: Punted) -> usize {
        assert!(self.rings.punt(punted).is_ok());
        self.rings.announce();
        let found: Vec<usize> = (0..self.readers.len()).filter(|n| self.readers[*n].pop().is_ok()).collect();
        assert_eq!(found.len(), 1);
        found[0]
    }
}

/// A packet of a flow: of either family, with a tag or without.
fn flow(number: u16) -> Vec<u8> {
    let (frame, at) = if number.is_multiple_of(2) { (udp4(1, 8), 34) } else { (udp6(1, 8), 54) };
    let frame = changed(frame, |frame| frame[at..at + 2].copy_from_slice(&number.to_be_bytes()));
    if number.is_multiple_of(3) { tagged(frame, 0, 100) } else { frame }
}

#[test]
fn flows_are_spread_and_each_keeps_to_its_thread() {
    let mut bench = bench(3, 64);
    let mut shares = [0; 3];
    for number in 0..600 {
        let first = bench.thread_of(bench.punted(&flow(number), 0));
        assert_eq!(bench.thread_of(bench.punted(&flow(number), 1)), first);
        shares[first] += 1;
    }
    // A third each, and five standard deviations of 12.
    assert!(shares.iter().all(|share| (140..260).contains(share)), "{shares:?}");
    // What is not IP, and copies for redirects, are the owner's.
    for number in 0..20 {
        let arp = changed(arp_request(), |frame| frame[11] = number);
        assert_eq!(bench.thread_of(bench.punted(&arp, 0)), 0);
        let copy = Punted { reason: redirect::SENT_BACK, ..bench.punted(&flow(number.into()), 0) };
        assert_eq!(bench.thread_of(copy), 0);
    }
}

/// Random punts, announcements and reads against a model of queues: nothing is lost, duplicated or overtaken, and a
/// ring takes as many as it has room for.
#[test]
fn rings_hold_what_a_model_holds() {
    for seed in 1..=20 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let (threads, capacity) = (random.random_range(1..5), random.random_range(1..40));
        let mut bench = bench(threads, capacity);
        let mut owners: BTreeMap<u16, usize> = BTreeMap::new();
        for number in 0..50 {
            let owner = bench.thread_of(bench.punted(&flow(number), 0));
            owners.insert(number, owner);
        }
        let mut model = vec![VecDeque::new(); threads];
        let mut staged = vec![VecDeque::new(); threads];
        for number in 0..5000 {
            let thread = random.random_range(0..threads);
            match random.random_range(0..10) {
                0..6 => {
                    let flow_number = random.random_range(0..50);
                    let owner = owners[&flow_number];
                    let fits = model[owner].len() + staged[owner].len() < capacity;
                    let taken = bench.rings.punt(bench.punted(&flow(flow_number), number)).is_ok();
                    assert_eq!(taken, fits);
                    if taken {
                        staged[owner].push_back(number);
                    }
                }
                6 => {
                    let free = (0..threads).map(|n| capacity - model[n].len() - staged[n].len()).sum::<usize>();
                    assert_eq!(bench.rings.room(), free);
                }
                7 => {
                    bench.rings.announce();
                    model.iter_mut().zip(&mut staged).for_each(|(ring, staged)| ring.append(staged));
                }
                _ => {
                    let found = bench.readers[thread].pop().ok().map(|punted| punted.next_hop);
                    assert_eq!(found, model[thread].pop_front());
                }
            }
        }
        let pool = bench.pool;
        drop(bench);
        assert_eq!((&pool).in_use(), 0, "staged packets are freed as well");
    }
}

#[test]
fn only_threads_with_new_packets_are_woken() {
    let mut bench = bench(3, 64);
    bench.bells.iter().for_each(|bell| bell.doze());
    let packet = bench.punted(&arp_request(), 0);
    assert!(bench.rings.punt(packet).is_ok());
    assert_eq!(bench.woken.load(Ordering::Relaxed), 0, "there is nothing to be seen yet");
    bench.rings.announce();
    bench.rings.announce();
    assert_eq!((bench.readers[0].slots(), bench.woken.load(Ordering::Relaxed)), (1, 1));
}
