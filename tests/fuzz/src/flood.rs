// SPDX-License-Identifier: MIT
//! Frames by the billion through the native fast path of a whole router, its slow path behind: the same ones for the
//! same seed.
//!
//! Frames come in pieces, each through a router of its own, with random numbers that follow from the seed and the
//! number of the piece. So the digest of what the fast path sent, and every count, is the same however many threads
//! share the work. Every burst is accounted for; every frame that is sent is looked at; at the end of a piece no buffer
//! may be left.

use crate::bed::{Bed, ONE_EACH, ask};
use crate::frames::account;
use crate::frames::mutate;
use crate::frames::router::{PORTS, configuration};
use crate::frames::templates::{self, Template};
use perigee_api::queries::ShowDrops;
use perigee_packet::{Batch, ReceiveQueue};
use perigee_worker::native;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames of a piece.
const PIECE: u64 = 1 << 20;
/// Bursts between two rounds of the slow path: it gets a sample of what is punted, and the rest finds the ring full.
const SLOW_EVERY: u64 = 64;
/// Without the policer, which tells sources apart by a hash with a secret: no two runs would be the same.
const POLICER: &str = "[policer]\nrouting = 1000000000\ndiscovery = 1000000000\nunresolved = 1000000000\nicmp = 1000000000\n\
                       management = 1000000000\nother = 1000000000\n";
/// Time between two frames, in ns.
const GAP: u64 = 500;

/// What was done, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Frames that came in.
    pub frames: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Frames that the fast path received and sent, those sent to groups counted once for each interface.
    pub forwarded: u64,
    /// Frames that the slow path sent.
    pub slow: u64,
    /// Packets by kind, module and reason: drops and punts, of both paths.
    pub reasons: BTreeMap<String, u64>,
    /// A number that follows from every byte that the fast path sent, and from where and in which order, within each
    /// piece.
    pub digest: u64,
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Outcome) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.forwarded += other.forwarded;
        self.slow += other.slow;
        // The order in which pieces end is the threads' own.
        self.digest = self.digest.wrapping_add(other.digest);
        for (reason, packets) in other.reasons {
            *self.reasons.entry(reason).or_default() += packets;
        }
    }
}

/// Sends `frames` frames through routers, by `threads` threads. `progress` is called with the number of frames that
/// each piece adds.
///
/// # Panics
/// A promise is broken; the message says by which piece of which seed.
pub fn run(frames: u64, seed: u64, threads: usize, folder: &Path, progress: impl Fn(u64) + Sync) -> Outcome {
    let (next, total) = (AtomicU64::new(0), Mutex::new(Outcome::default()));
    let templates = templates::all();
    let pieces = frames.div_ceil(PIECE);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let path = folder.join(format!("flood-{thread}.toml"));
            let (next, total, templates, progress) = (&next, &total, &templates, &progress);
            scope.spawn(move || {
                loop {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    if piece >= pieces {
                        return;
                    }
                    let _report = Report { seed, piece };
                    let outcome = one(PIECE.min(frames - piece * PIECE), seed, piece, templates, &path);
                    progress(outcome.frames);
                    *total.lock().expect("no other thread has failed") += outcome;
                }
            });
        }
    });
    total.into_inner().expect("no thread has failed")
}

/// Says which piece it was when a promise is broken.
struct Report {
    seed: u64,
    piece: u64,
}

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, piece {} of {PIECE} frames", self.seed, self.piece);
        }
    }
}

/// One piece, through a router of its own.
fn one(frames: u64, seed: u64, piece: u64, templates: &[Template], path: &Path) -> Outcome {
    let mut random = SmallRng::seed_from_u64(seed ^ piece.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bed = Bed::new(&(configuration(1, 1) + POLICER), path, ONE_EACH);
    bed.settle();
    account::take_sent(&bed);
    let (mut outcome, mut frame, mut sent) = (Outcome::default(), Vec::new(), Batch::new(bed.pool));
    for burst in 0.. {
        let left = frames - outcome.frames;
        if left == 0 {
            break;
        }
        let n = left.min(random.random_range(1..=32u64));
        for _ in 0..n {
            let port = mutate::frame(&mut frame, templates, &mut random);
            assert!(bed.receive[usize::from(port)][0].inject(&frame), "queues and pool have room for a burst");
            outcome.bytes += frame.len() as u64;
        }
        outcome.frames += n;
        bed.now.fetch_add(n * GAP, Ordering::Relaxed);
        native::round(&mut bed.workers[0], &mut bed.bursts[0]);
        bed.workers[0].context().flush_all();
        account::settled(&mut bed.workers[0]);
        if burst % SLOW_EVERY == 0 {
            bed.slow.round();
        }
        collect(&mut bed, &mut sent, &mut outcome);
    }
    bed.settle();
    collect(&mut bed, &mut sent, &mut outcome);
    for drop in ask(&mut bed, ShowDrops {}).expect("drops can always be shown") {
        if drop.packets > 0 {
            *outcome.reasons.entry(format!("{} {}.{}", drop.kind, drop.module, drop.reason)).or_default() +=
                drop.packets;
        }
    }
    drop(sent);
    assert_eq!(bed.end(), 0, "packet buffers are missing");
    outcome
}

/// Takes out what was sent: looks at it, and adds it to the digest.
fn collect(bed: &mut Bed, sent: &mut Batch, outcome: &mut Outcome) {
    for port in 0..PORTS {
        for (queue, ring) in bed.transmit[usize::from(port)].iter_mut().enumerate() {
            loop {
                sent.refill();
                let n = ring.receive(sent, perigee_packet::BATCH_SIZE);
                if n == 0 {
                    break;
                }
                // The worker's queue is the first.
                *if queue == 0 { &mut outcome.forwarded } else { &mut outcome.slow } += n as u64;
                for slot in sent.live() {
                    let frame = sent.frame(slot).expect("a live slot");
                    account::sendable(port, frame);
                    // The slow path's identifications follow from a secret of each router's own.
                    if queue == 0 {
                        outcome.digest = digest(outcome.digest ^ u64::from(port), frame);
                    }
                }
            }
        }
    }
}

/// FNV-1a over words of 64 bits, mixed at the end.
fn digest(seed: u64, frame: &[u8]) -> u64 {
    let (words, rest) = frame.as_chunks::<8>();
    let mut hash = seed ^ 0xcbf2_9ce4_8422_2325 ^ frame.len() as u64;
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x0100_0000_01b3);
        hash ^= hash >> 29;
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ hash >> 32
}
