// SPDX-License-Identifier: MIT
//! What a frame costs the tester, in ns: `cargo run --release -p perigee-measure --example costs`.
//!
//! Frames of 64 bytes in batches of 256, flows taking turns; every figure is that of a quiet round, the third best of
//! 60.

use perigee_measure::pace::{ALLOWANCE, Bursting, Limit, Pacer, Pattern};
use perigee_measure::received::{Latencies, Received, Settings};
use perigee_measure::stamp::{LENGTH, Stamp, find};
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::{Batch, Mask, Pool};
use std::hint::black_box;
use std::time::Instant;

const BATCHES: usize = 32;
const FRAMES: usize = BATCHES * 256;
const ROUNDS: usize = 60;
const STAMP_AT: usize = 42;

fn main() {
    let mut batches = batches();
    println!("stamp: write {:.1}, find {:.1}", write_cost(&mut batches), find_cost(&mut batches));
    for flows in [1, 1024, 16384, 65536] {
        let cost = |batches: &mut [Box<Batch>], kind, every| receive_cost(batches, flows, kind, every);
        println!(
            "received, {flows} flows: in order {:.1}, 1 of 100 latencies {:.1}, 1 % lost {:.1}, 1 % swapped {:.1}",
            cost(&mut batches, Damage::None, 1),
            cost(&mut batches, Damage::None, 100),
            cost(&mut batches, Damage::Loss, 1),
            cost(&mut batches, Damage::Swap, 1),
        );
    }
    println!("latencies of an interval, summed up: {:.0} in all", summary_cost());
    let rate = 1e10 / 672.0;
    for (name, pattern) in [
        ("line", Pattern::Line),
        ("constant", Pattern::Constant { rate }),
        ("Poisson", Pattern::Poisson { rate, seed: 1 }),
        ("bursts of 32", Pattern::Bursts { frames: 32, within: None, spacing: Bursting::Mean(rate) }),
    ] {
        println!("pace, {name}: {:.1} in calls of 1, {:.1} of 32", pace_cost(pattern, 1), pace_cost(pattern, 32));
    }
}

fn batches() -> Vec<Box<Batch>> {
    let mut frame = [0; 60];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[23] = 17;
    let pool = HeapPool::leak(FRAMES);
    let fill = |_| {
        let mut batch = Batch::new(pool);
        while batch.room() > 0 {
            let packet = pool.packet(&frame).expect("the pool has room for all");
            batch.push(packet, 0).expect("the batch has room, and is of this pool");
        }
        batch
    };
    (0..BATCHES).map(fill).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Damage {
    None,
    Loss,
    Swap,
}

fn write(batches: &mut [Box<Batch>], mut stamp: impl FnMut() -> Stamp) {
    for batch in batches {
        batch.for_each(Mask::ALL, |slot| {
            let to = slot.frame_mut()[STAMP_AT..].first_chunk_mut::<LENGTH>().expect("a frame of 60 bytes");
            stamp().write(to);
        });
    }
}

fn quiet(mut cost: impl FnMut() -> f64) -> f64 {
    let mut costs: Vec<f64> = (0..ROUNDS).map(|_| cost()).collect();
    costs.sort_by(f64::total_cmp);
    costs[2]
}

fn timed(frames: usize, what: impl FnOnce()) -> f64 {
    let start = Instant::now();
    what();
    start.elapsed().as_nanos() as f64 / frames as f64
}

fn write_cost(batches: &mut [Box<Batch>]) -> f64 {
    let mut sequence = 0;
    quiet(|| {
        timed(FRAMES, || {
            write(batches, || {
                sequence += 1;
                Stamp { run: 0x1234, flow: 7, sequence, time: u64::from(sequence) }
            })
        })
    })
}

fn find_cost(batches: &mut [Box<Batch>]) -> f64 {
    quiet(|| {
        timed(FRAMES, || {
            for batch in batches.iter() {
                for slot in batch.live() {
                    black_box(batch.frame(slot).map(find));
                }
            }
        })
    })
}

fn receive_cost(batches: &mut [Box<Batch>], flows: u32, damage: Damage, every: u32) -> f64 {
    let mut received = Received::new(Settings { latency_every: every, ..Settings::new(0x1234, flows) });
    let mut next = vec![0u32; flows as usize];
    let (mut flow, mut count, mut now) = (0, 0u64, 0u64);
    quiet(|| {
        write(batches, || {
            flow = (flow + 1) % flows;
            count += 1;
            now += 67;
            let sequence = next[flow as usize];
            next[flow as usize] += 1 + u32::from(damage == Damage::Loss && count.is_multiple_of(100));
            let swapped = damage == Damage::Swap && sequence % 200 < 4;
            let sequence = if swapped { sequence ^ 2 } else { sequence };
            Stamp { run: 0x1234, flow, sequence, time: now - 5000 - (count % 61) }
        });
        timed(FRAMES, || batches.iter().for_each(|batch| received.batch(batch, now)))
    })
}

/// Percentiles, addition to the whole trial's and clearing, once per interval.
fn summary_cost() -> f64 {
    let (mut whole, mut interval) = (Latencies::new(1, None), Latencies::new(1, None));
    quiet(|| {
        (0..10_000).for_each(|i| interval.record(Some(5000 + i * i)));
        timed(1, || {
            black_box(interval.summary());
            whole.add(&interval);
            interval.clear();
        })
    })
}

/// Whole calls of `due` and `sent`, divided by the frames sent.
fn pace_cost(pattern: Pattern, burst: usize) -> f64 {
    let mut pacer = Pacer::new(pattern, 0, Limit::default(), ALLOWANCE);
    let mut now = 0;
    quiet(|| {
        let mut sent = 0;
        let start = Instant::now();
        while sent < FRAMES {
            now += 67 * burst as u64;
            let frames = pacer.due(black_box(now), burst).frames;
            pacer.sent(now, frames);
            sent += frames;
        }
        start.elapsed().as_nanos() as f64 / sent as f64
    })
}
