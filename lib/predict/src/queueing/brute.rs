// SPDX-License-Identifier: MIT
//! The oracle of the closed forms: the same server, simulated event by event, sharing only its description with them.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::VecDeque;

/// A server that takes up to `burst` packets at once from a ring with `ring` places, or from two of them in turn.
#[derive(Clone)]
pub struct Server {
    pub burst: usize,
    pub ring: usize,
    pub burst_ns: f64,
    /// Probabilities and service times in nanoseconds.
    pub packets: Vec<(f64, f64)>,
    /// Idle nanoseconds after which it sleeps, nanoseconds that it takes to wake.
    pub sleep: Option<(f64, f64)>,
    /// Share of the packets that come to a second ring.
    pub other: f64,
}

/// The observations.
pub struct Seen {
    sojourns: Vec<f64>,
    pub offered: u64,
    pub lost: u64,
    pub batches: u64,
    pub busy: f64,
    pub time: f64,
}

/// The seed, unless `PERIGEE_FUZZ_SEED` gives another one. Means of draws are compared with a formula by their
/// standard error, and a few of many thousand draws are further away than that: with another seed each run of the
/// tests would be one more draw.
const SEED: u64 = 1;

/// A seed, printed.
pub fn seed() -> u64 {
    let set = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|text| text.parse().ok());
    let seed = set.unwrap_or(SEED);
    println!("PERIGEE_FUZZ_SEED={seed}");
    seed
}

impl Server {
    /// Offers this many packets, `rate` per nanosecond, after a tenth of them to warm up.
    pub fn run(&self, rate: f64, packets: u64, seed: u64) -> Seen {
        let mut random = StdRng::seed_from_u64(seed);
        let warm_up = packets / 10;
        let mut seen = Seen {
            sojourns: Vec::with_capacity(packets as usize),
            offered: 0,
            lost: 0,
            batches: 0,
            busy: 0.0,
            time: 0.0,
        };
        let gap = |random: &mut StdRng| -(1.0 - random.random::<f64>()).ln() / rate;
        let mut rings: [VecDeque<(f64, f64)>; 2] = Default::default();
        let mut turn = 0;
        let mut next = gap(&mut random);
        let (mut count, mut begin, mut free) = (0u64, None, 0.0);
        // Lets packets come until `until`.
        macro_rules! arrive {
            ($until:expr) => {
                while next <= $until && count < warm_up + packets {
                    let counted = count >= warm_up;
                    count += 1;
                    seen.offered += u64::from(counted);
                    let ring = &mut rings[usize::from(self.other > 0.0 && random.random::<f64>() < self.other)];
                    if ring.len() < self.ring {
                        let mut left = random.random::<f64>();
                        let time = self.packets.iter().find(|(probability, _)| {
                            left -= probability;
                            left < 0.0
                        });
                        ring.push_back((next, time.unwrap_or(&self.packets[0]).1));
                    } else {
                        seen.lost += u64::from(counted);
                    }
                    next += gap(&mut random);
                }
            };
        }
        while count < warm_up + packets {
            let mut now: f64 = free;
            if rings.iter().all(VecDeque::is_empty) {
                now = next;
                arrive!(now);
                if let Some((after, wake)) = self.sleep
                    && now - free > after
                {
                    now += wake;
                    if count > warm_up {
                        seen.busy += wake;
                    }
                    arrive!(now);
                }
            }
            turn = if rings[1 - turn].is_empty() { turn } else { 1 - turn };
            let ring = &mut rings[turn];
            let batch = ring.len().min(self.burst);
            let taken: Vec<_> = ring.drain(..batch).collect();
            let time = self.burst_ns + taken.iter().map(|packet| packet.1).sum::<f64>();
            free = now + time;
            if count > warm_up {
                let begin = *begin.get_or_insert(now);
                seen.batches += 1;
                seen.busy += time;
                seen.sojourns.extend(taken.iter().map(|packet| free - packet.0));
                seen.time = free - begin;
            }
            arrive!(free);
        }
        seen
    }
}

/// A measure of many runs: its mean, and how far that may be from the truth by chance: six standard errors.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub mean: f64,
    pub error: f64,
}

impl Measured {
    pub fn agrees_with(&self, value: f64) -> bool {
        // What every run has in common, such as full batches, has no spread; rounding has.
        (self.mean - value).abs() <= self.error + 2e-6 * value.abs().max(1.0)
    }
}

/// Independent runs.
const RUNS: u64 = 24;

impl Server {
    /// Offers `packets` in each of [`RUNS`] runs, and measures what `measures` tell of each.
    pub fn measure<const N: usize>(
        &self,
        rate: f64,
        packets: u64,
        measures: impl Fn(&mut Seen) -> [f64; N],
    ) -> [Measured; N] {
        let seed = seed();
        let runs: Vec<_> =
            (0..RUNS).map(|run| measures(&mut self.run(rate, packets, seed.wrapping_add(run)))).collect();
        std::array::from_fn(|i| {
            let mean = runs.iter().map(|run| run[i]).sum::<f64>() / RUNS as f64;
            let square = runs.iter().map(|run| (run[i] - mean).powi(2)).sum::<f64>();
            Measured { mean, error: 6.0 * (square / (RUNS * (RUNS - 1)) as f64).sqrt() }
        })
    }
}

impl Seen {
    /// Share of sojourns of at most `time` nanoseconds.
    pub fn at_most(&self, time: f64) -> f64 {
        self.sojourns.iter().filter(|sojourn| **sojourn <= time).count() as f64 / self.sojourns.len() as f64
    }

    pub fn mean(&self) -> f64 {
        self.sojourns.iter().sum::<f64>() / self.sojourns.len() as f64
    }

    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.offered as f64
    }

    pub fn batch(&self) -> f64 {
        self.sojourns.len() as f64 / self.batches as f64
    }

    pub fn utilisation(&self) -> f64 {
        self.busy / self.time
    }
}
