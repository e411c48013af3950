// SPDX-License-Identifier: MIT
//! Whole trials over a device that loses, duplicates, delays and damages frames, received in batches, against sets of
//! what was sent and what came.

mod frames;

use frames::Layers;
use perigee_measure::received::{Counters, Latencies, Received, Settings, Silence};
use perigee_measure::stamp::{LENGTH, Stamp};
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Batch, ReceiveQueue};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashSet;

const RUN: u16 = 0x5a17;

/// A frame on its way: when it arrives, its bytes, and what it is.
struct Sent {
    arrives: u64,
    frame: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Whole(Stamp),
    Corrupted,
    OtherRun,
    UnknownFlow,
    Foreign,
}

fn stamped(stamp: &Stamp, rng: &mut SmallRng) -> Vec<u8> {
    let mut bytes = [0; LENGTH];
    stamp.write(&mut bytes);
    Layers::random(rng).frame(&bytes)
}

/// What a device makes of `frames` frames of each flow, in the order of arrival.
fn over_a_device(rng: &mut SmallRng, sent: &[u32]) -> Vec<Sent> {
    let (loss, copies, delays, damage) =
        (rng.random_range(0..30), rng.random_range(0..10), rng.random_range(0..50), rng.random_range(0..10));
    let percent = |chance: u32, rng: &mut SmallRng| rng.random_range(0..100) < chance;
    let mut arriving = vec![];
    for (flow, &frames) in sent.iter().enumerate() {
        for sequence in 0..frames {
            let time = u64::from(sequence) * 1000 + flow as u64 * 7;
            let stamp = Stamp { run: RUN, flow: flow as u32, sequence, time };
            let mut frame = stamped(&stamp, rng);
            let mut kind = Kind::Whole(stamp);
            if percent(loss, rng) {
                continue;
            }
            if percent(damage, rng) {
                let at = frame.len() - 1 - rng.random_range(0..LENGTH);
                frame[at] ^= rng.random_range(1..=255u8);
                kind = Kind::Corrupted;
            }
            let delay = if percent(delays, rng) { rng.random_range(0..20_000) } else { 500 };
            if percent(copies, rng) {
                let arrives = time + delay + rng.random_range(0..40_000);
                arriving.push(Sent { arrives, frame: frame.clone(), kind });
            }
            arriving.push(Sent { arrives: time + delay, frame, kind });
        }
    }
    for _ in 0..rng.random_range(0..40) {
        let arrives = rng.random_range(0..100_000);
        let other = Stamp { run: !RUN, flow: 0, sequence: 0, time: 0 };
        let unknown = Stamp { run: RUN, flow: sent.len() as u32, sequence: 0, time: 0 };
        let (kind, frame) = match rng.random_range(0..4) {
            0 => (Kind::OtherRun, stamped(&other, rng)),
            1 => (Kind::UnknownFlow, stamped(&unknown, rng)),
            // A multicast DNS answer's header looks like a stamp of run 0, check 0x8400 and flow 1.
            2 => (
                Kind::Foreign,
                Layers::random(rng).frame(b"\x00\x00\x84\x00\x00\x00\x00\x01\x00\x00\x00\x00\x05local\x00"),
            ),
            _ => (Kind::Foreign, [&[0xff; 12][..], &[0x08, 0x06], &[0; 46]].concat()),
        };
        arriving.push(Sent { arrives, frame, kind });
    }
    arriving.sort_by_key(|sent| sent.arrives);
    arriving
}

/// What came, by definition.
#[derive(Default)]
struct Truth {
    counters: Counters,
    seen: HashSet<(u32, u32)>,
    highest: Vec<Option<u32>>,
    /// Per flow: latency of the last frame, jitter.
    jitter: Vec<(Option<u64>, f64)>,
    latencies: Vec<u64>,
}

impl Truth {
    fn arrives(&mut self, sent: &Sent) {
        let counters = &mut self.counters;
        let stamp = match sent.kind {
            Kind::Whole(stamp) => stamp,
            Kind::Corrupted => return counters.corrupted += 1,
            Kind::OtherRun => return counters.other_run += 1,
            Kind::UnknownFlow => return counters.unknown_flow += 1,
            Kind::Foreign => return counters.foreign += 1,
        };
        let flow = stamp.flow as usize;
        counters.frames += 1;
        counters.bytes += sent.frame.len() as u64 + 4;
        if !self.seen.insert((stamp.flow, stamp.sequence)) {
            counters.duplicates += 1;
            return;
        }
        counters.unique += 1;
        counters.reordered += u64::from(self.highest[flow].is_some_and(|highest| stamp.sequence < highest));
        self.highest[flow] = self.highest[flow].max(Some(stamp.sequence));
        let latency = sent.arrives - stamp.time;
        self.latencies.push(latency);
        // RFC 3550 6.4.1: J(i) = J(i-1) + (|D(i-1,i)| - J(i-1)) / 16
        if let Some(last) = self.jitter[flow].0.replace(latency) {
            let jitter = &mut self.jitter[flow].1;
            *jitter += (latency.abs_diff(last) as f64 - *jitter) / 16.0;
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_counted_wrongly(seed in any::<u64>(), sent in prop::collection::vec(0u32..150, 1..12), burst in 1usize..64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let flows = sent.len() as u32;
        let arriving = over_a_device(&mut rng, &sent);
        let mut truth = Truth { highest: vec![None; sent.len()], jitter: vec![(None, 0.0); sent.len()], ..Truth::default() };
        let mut received = Received::new(Settings::new(RUN, flows));
        // Frames with the same time of arrival come in the same batch, or one after the other.
        let pool = HeapPool::leak(300);
        let mut queue = HeapQueue::new(pool, 0, 300);
        let mut batch = Batch::new(pool);
        for together in arriving.chunk_by(|a, b| a.arrives == b.arrives) {
            for some in together.chunks(burst) {
                some.iter().for_each(|sent| assert!(queue.inject(&sent.frame)));
                queue.receive(&mut batch, burst);
                received.batch(&batch, some[0].arrives);
                batch.refill();
                some.iter().for_each(|sent| truth.arrives(sent));
            }
        }
        let missing: u64 = truth.highest.iter().flatten().map(|highest| u64::from(*highest) + 1).sum();
        truth.counters.missing = missing - truth.counters.unique;
        prop_assert_eq!(received.counters(), truth.counters);

        let outcome = received.close(|flow| sent[flow as usize].into());
        let total: u64 = sent.iter().map(|frames| u64::from(*frames)).sum();
        prop_assert_eq!((outcome.sent, outcome.lost + outcome.counters.unique), (total, total));
        prop_assert_eq!(outcome.reordering.reordered, truth.counters.reordered);
        prop_assert_eq!(outcome.flows_never_sent, 0);
        let (mut frames, mut with_loss) = (0, 0);
        for flow in 0..flows {
            let of = received.flow(flow, sent[flow as usize].into()).unwrap();
            let came = truth.seen.iter().filter(|(of, _)| *of == flow).count() as u64;
            prop_assert_eq!((of.unique, of.lost), (came, u64::from(sent[flow as usize]) - came));
            prop_assert!((of.jitter_ns - truth.jitter[flow as usize].1).abs() < 1e-6);
            frames += of.frames;
            with_loss += u32::from(of.lost > 0);
        }
        prop_assert_eq!((frames, with_loss), (outcome.counters.frames, outcome.flows_with_loss));
        prop_assert_eq!(received.flow(flows, 0), None);

        let summary = received.latencies().summary();
        prop_assert_eq!(summary.map(|summary| summary.count).unwrap_or(0), truth.latencies.len() as u64);
        prop_assert_eq!(summary.map(|summary| summary.raw_max_ns), truth.latencies.iter().max().copied());
        prop_assert_eq!(summary.map(|summary| summary.raw_min_ns), truth.latencies.iter().min().copied());
    }
}

fn frame(run: u16, flow: u32, sequence: u32, time: u64) -> Vec<u8> {
    stamped(&Stamp { run, flow, sequence, time }, &mut SmallRng::seed_from_u64(1))
}

#[test]
fn delay_variation() {
    let mut received = Received::new(Settings::new(RUN, 1));
    // Latencies 100, 130, 110; one frame lost; 180.
    for (sequence, latency) in [(0, 100), (1, 130), (2, 110), (4, 180)] {
        let time = u64::from(sequence) * 1000;
        received.frame(&frame(RUN, 0, sequence, time), time + latency);
    }
    let variation = received.variation(received.latencies());
    // Those of frames that follow each other: 30 and 20.
    assert_eq!((variation.ipdv_p50_ns, variation.ipdv_max_ns), (Some(20), Some(30)));
    assert_eq!((variation.pdv_p50_ns, variation.pdv_max_ns), (10, 80));
    // ((30 / 16) * 15 / 16 + 20 / 16) * 15 / 16 + 70 / 16
    let jitter = ((30.0 / 16.0) * 15.0 / 16.0 + 20.0 / 16.0) * 15.0 / 16.0 + 70.0 / 16.0;
    assert!((variation.jitter_mean_ns - jitter).abs() < 1e-9 && variation.jitter_max_ns == variation.jitter_mean_ns);
}

#[test]
fn latencies_are_handed_over_by_interval() {
    let settings = Settings { floor: Some(40), ..Settings::new(RUN, 1) };
    let mut received = Received::new(settings);
    let (mut whole, mut spare) = (Latencies::new(1, settings.floor), Latencies::new(1, settings.floor));
    for second in 0..3u32 {
        received.frame(&frame(RUN, 0, second, 0), 50 + u64::from(second));
        received.swap_latencies(&mut spare);
        assert_eq!(spare.summary().map(|summary| (summary.count, summary.p50_ns)), Some((1, 10 + u64::from(second))));
        whole.add(&spare);
        spare.clear();
    }
    // A clock that lags behind the sender's.
    received.frame(&frame(RUN, 0, 3, 1000), 900);
    whole.add(received.latencies());
    let summary = whole.summary().unwrap();
    assert_eq!((summary.count, summary.min_ns, summary.max_ns, summary.from_future), (3, 10, 12, 1));
    assert_eq!(received.counters().unique, 4);
}

#[test]
fn an_outage_and_recovery() {
    let mut received = Received::new(Settings::new(RUN, 2));
    assert_eq!((received.longest_silence(), received.last_missing(0)), (None, None));
    // Both flows once per 100 ns; nothing comes from 1000 to 3000.
    let clock = 5 << 48;
    for step in (0..10).chain(30..40) {
        received.frame(&frame(RUN, 0, step, u64::from(step) * 100), clock + u64::from(step) * 100 + 50);
        received.frame(&frame(RUN, 1, step, u64::from(step) * 100 + 10), clock + u64::from(step) * 100 + 50);
    }
    assert_eq!(received.longest_silence(), Some(Silence { from: clock + 950, to: clock + 3050 }));
    // Frame 30 of flow 1 was sent at 3010.
    assert_eq!(received.last_missing(clock + 4000), Some(990));
    for late in 10..30 {
        received.frame(&frame(RUN, 1, late, u64::from(late) * 100 + 10), clock + 4000);
    }
    assert_eq!(received.last_missing(clock + 4000), Some(1000));
    for late in 10..30 {
        received.frame(&frame(RUN, 0, late, u64::from(late) * 100), clock + 4000);
    }
    assert_eq!(received.last_missing(clock + 4000), None);
    assert_eq!(received.close(|_| 40).lost, 0);
}

#[test]
fn numbers_that_were_never_sent() {
    let mut received = Received::new(Settings::new(RUN, 2));
    received.frame(&frame(RUN, 1, 9, 0), 0);
    let outcome = received.close(|_| 5);
    assert_eq!((outcome.flows_never_sent, outcome.flows_with_loss, outcome.lost), (1, 2, 9));
    assert!(received.flow(1, 5).unwrap().never_sent);
    let text = serde_json::to_value(&outcome).unwrap();
    assert_eq!((&text["counters"]["frames"], &text["reordering"]["ratio"]), (&1.into(), &0.0.into()));
}

/// A frame that follows by its number, but came after a late one, is not compared with that.
#[test]
fn delay_variation_leaves_out_late_frames() {
    let mut received = Received::new(Settings::new(RUN, 1));
    for (sequence, latency) in [(0, 100), (1, 107), (3, 200), (2, 500), (4, 100), (5, 113)] {
        let time = u64::from(sequence) * 1000;
        received.frame(&frame(RUN, 0, sequence, time), time + latency);
    }
    let variation = received.variation(received.latencies());
    assert_eq!((variation.ipdv_p50_ns, variation.ipdv_max_ns), (Some(7), Some(13)));
}

/// The live latency of a receiver without frames, and settings without flows.
#[test]
fn nothing_received() {
    let mut received = Received::new(Settings::new(RUN, 0));
    received.frame(&frame(RUN, 0, 0, 0), 0);
    assert_eq!((received.counters().unknown_flow, received.latencies().summary()), (1, None));
    assert_eq!(received.variation(received.latencies()).pdv_max_ns, 0);
    let outcome = received.close(|_| 0);
    assert_eq!((outcome.sent, outcome.lost), (0, 0));
}
