// SPDX-License-Identifier: MIT
//! The three ways to scatter a batch whose packets go different ways: arrays, masks, drop-outs.

use super::outcome::{Outcome, Picture, Table};
use super::stand::Stand;
use anyhow::{Context as _, Result};
use perigee_dpdk::{Clock, pin_current_thread};
use perigee_fib::synth::Random;
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::batch::scatter::{DropOut, classify, split};
use perigee_packet::{Batch, Mask, Pool as _, Slot};

/// Packets of a batch.
const BATCH: usize = 64;
/// Bytes of a frame, and the one that says which way it goes.
const FRAME: usize = 60;
const WAY: usize = 42;

/// A scheme.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Arrays,
    Masks,
    DropOut,
}

const SCHEMES: [(&str, Scheme); 3] =
    [("arrays", Scheme::Arrays), ("masks", Scheme::Masks), ("drop-out", Scheme::DropOut)];

/// The names of `--scheme`.
pub const NAMES: [&str; 3] = [SCHEMES[0].0, SCHEMES[1].0, SCHEMES[2].0];

/// Batches that take turns, so that the branches of one are not learned by heart.
struct Scene {
    batches: Vec<Box<Batch>>,
    arrays: [Box<Batch>; 2],
    gathered: DropOut,
    clock: Clock,
}

fn way(packet: &mut Slot<'_>) -> usize {
    usize::from(packet.frame()[WAY])
}

/// What a way does with its packets.
fn work(batch: &mut Batch, mask: Mask, step: u8) {
    batch.for_each(mask, |packet| {
        let frame = packet.frame_mut();
        frame[22] = frame[22].wrapping_sub(step);
    });
}

impl Scene {
    fn new(share: f64, batches: usize) -> Result<Scene> {
        let pool = HeapPool::leak((batches + 4) * BATCH);
        let mut random = Random::new(1);
        let mut all = Vec::new();
        for _ in 0..batches {
            let mut batch = Batch::new(pool);
            for _ in 0..BATCH {
                let mut frame = [0; FRAME];
                frame[WAY] = u8::from(f64::from(random.below(1 << 30)) < share * f64::from(1 << 30));
                let packet = pool.packet(&frame).context("the pool is empty")?;
                batch.push(packet, 0).ok().context("the batch is full")?;
            }
            all.push(batch);
        }
        let memory = all[0].memory();
        Ok(Scene {
            batches: all,
            arrays: [Batch::new(memory), Batch::new(memory)],
            gathered: DropOut::new(memory, BATCH, u64::MAX),
            clock: Clock::new(),
        })
    }

    /// Nanoseconds per packet of one pass over all batches; what puts packets back to where they were is not counted.
    fn pass(&mut self, scheme: Scheme) -> f64 {
        let (mut ns, mut packets) = (0, 0);
        for at in 0..self.batches.len() {
            packets += self.batches[at].live().count();
            let began = self.clock.now();
            let batch = &mut self.batches[at];
            match scheme {
                Scheme::Masks => {
                    let [one, two] = classify::<2>(batch, Mask::ALL, way);
                    work(batch, one, 1);
                    work(batch, two, 2);
                }
                Scheme::Arrays => {
                    let [one, two] = &mut self.arrays;
                    split(batch, Mask::ALL, way, &mut [one, two]);
                    work(one, Mask::ALL, 1);
                    work(two, Mask::ALL, 2);
                }
                Scheme::DropOut => {
                    let [one, two] = classify::<2>(batch, Mask::ALL, way);
                    let left = self.gathered.gather(batch, two, 0);
                    work(batch, one, 1);
                    // No room: they go on here.
                    work(batch, left, 2);
                    if let Some(gathered) = self.gathered.ready(0) {
                        work(gathered, Mask::ALL, 2);
                    }
                }
            }
            ns += self.clock.now() - began;
            self.put_back(scheme, at);
        }
        ns as f64 / packets.max(1) as f64
    }

    fn put_back(&mut self, scheme: Scheme, at: usize) {
        let batch = &mut self.batches[at];
        match scheme {
            Scheme::Masks => {}
            Scheme::Arrays => {
                batch.refill();
                for array in &mut self.arrays {
                    array.move_to(Mask::ALL, batch);
                    array.refill();
                }
            }
            // Those that are gathered go back to the batch that filled them up.
            Scheme::DropOut => {
                if let Some(gathered) = self.gathered.ready(0) {
                    if batch.live().is_empty() {
                        batch.refill();
                    }
                    gathered.move_to(Mask::ALL, batch);
                }
            }
        }
    }
}

pub fn scatter(stand: &mut Stand) -> Result<Outcome> {
    let shares = [0.0, 0.01, 0.05, 0.25, 0.5];
    let (passes, batches) = if stand.quick { (200, 64) } else { (2000, 64) };
    let mut outcome = Outcome {
        data: Table::new(&["scheme", "diverging_percent", "ns"]),
        raw: Table::new(&["scheme", "diverging_percent", "pass", "ns"]),
        ..Outcome::default()
    };
    let mut picture = Picture {
        title: "Scattering a batch of 64".into(),
        x: "diverging packets, %".into(),
        y: "ns per packet".into(),
        ..Picture::default()
    };
    let core = stand.cores[0];
    let wanted = |(name, _): &(&str, Scheme)| stand.schemes.is_empty() || stand.schemes.iter().any(|one| one == name);
    let schemes: Vec<(&str, Scheme)> = SCHEMES.into_iter().filter(wanted).collect();
    let names: Vec<&str> = schemes.iter().map(|(name, _)| *name).collect();
    let run = move || {
        pin_current_thread(core)?;
        let mut all = Vec::new();
        for share in shares {
            for &(name, scheme) in &schemes {
                let mut scene = Scene::new(share, batches)?;
                let times: Vec<f64> = (0..passes).map(|_| scene.pass(scheme)).collect();
                all.push((name, share, times));
            }
        }
        anyhow::Ok(all)
    };
    let found = std::thread::spawn(run).join().ok().context("the measuring thread panicked")??;
    for name in names {
        let mut points = Vec::new();
        for (_, share, times) in found.iter().filter(|(other, ..)| *other == name) {
            let mut sorted = times.clone();
            sorted.sort_by(f64::total_cmp);
            let ns = sorted[sorted.len() / 5];
            points.push((share * 100.0, ns));
            outcome.data.row(&[&name, &(share * 100.0), &format!("{ns:.2}")]);
            for (pass, ns) in times.iter().enumerate().step_by(times.len().div_ceil(50)) {
                outcome.raw.row(&[&name, &(share * 100.0), &pass, &format!("{ns:.3}")]);
            }
        }
        outcome.says.push(format!(
            "{name}: {:.1} ns a packet if none diverges, {:.1} if half do.",
            points[0].1,
            points[points.len() - 1].1
        ));
        picture.lines.push((name.to_owned(), points));
    }
    outcome.pictures.push(picture);
    Ok(outcome)
}
