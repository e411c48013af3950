// SPDX-License-Identifier: MIT
//! Several measurements in several rounds, on a machine that others share.
//!
//! A core whose other hyperthread, cache or memory somebody else uses is slower, by up to a half, for seconds or minutes at a time, and
//! nothing but packets shows it: a loop of arithmetic runs at full speed while a worker does two thirds of its rate. So each
//! measurement has a short **reference** before and behind it, the plain fast path on the same cores. The pace is the mean of both over the
//! fastest reference so far. A measurement between two different references is repeated while patience lasts; what is left of the pace is
//! divided out: rates and times are those of the machine when others leave it alone. Paced loads are scaled beforehand, so that they stay the
//! same share of what the core can do.

use crate::arrivals::Load;
use crate::request::{Loop, Request, Sample, Sojourn};
use crate::rig::Rig;
use anyhow::Result;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use std::time::{Duration, Instant};

/// Two references further apart than this, as a ratio, say nothing about what was between them.
const STEADY: f64 = 0.94;
/// How often a measurement is repeated in a round for that.
const TRIES: usize = 4;
/// How long a reference takes: warm-up, and windows.
const WARM: Duration = Duration::from_millis(15);
const TIME: Duration = Duration::from_millis(40);
const WINDOWS: usize = 8;
/// References that are taken first, to see how fast the machine can be.
const FIRST: usize = 20;

/// How it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// How often each is measured.
    pub rounds: u64,
    /// Of orders.
    pub seed: u64,
    /// How long repetitions may take, all together.
    pub patience: Duration,
}

/// The samples of one measurement, a round each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds {
    pub samples: Vec<Sample>,
    /// The fastest reference, in million packets per second.
    pub reference: f64,
}

impl Rounds {
    /// Million packets per second, at the machine's full pace: the median of rounds.
    pub fn mpps(&self) -> f64 {
        median(self.each())
    }

    /// The same of each round.
    pub fn each(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| median(sample.windows.clone()) / pace(sample)).collect()
    }

    /// How far rounds are apart, as the mean distance from their median, in percent of it.
    pub fn noise_percent(&self) -> f64 {
        noise_percent(&self.each())
    }

    /// The sample of the round with the fastest pace.
    pub fn best(&self) -> Option<&Sample> {
        self.samples.iter().max_by(|a, b| a.pace.total_cmp(&b.pace))
    }

    /// Its times, at the machine's full pace.
    pub fn sojourn(&self) -> Option<Sojourn> {
        let best = self.best()?;
        Some(best.sojourn?.times(pace(best)))
    }

    /// Medians of times of all rounds, at full pace, in ns.
    pub fn medians(&self) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| Some(sample.sojourn?.p50 * pace(sample))).collect()
    }
}

fn pace(sample: &Sample) -> f64 {
    if sample.pace > 0.0 { sample.pace } else { 1.0 }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The mean distance of values from their median, in percent of it.
pub fn noise_percent(values: &[f64]) -> f64 {
    let middle = median(values.to_vec());
    if middle <= 0.0 {
        return 0.0;
    }
    values.iter().map(|value| (value / middle - 1.0).abs()).sum::<f64>() / values.len() as f64 * 100.0
}

/// Measures all of these; `before` is called with the number of the one that comes next.
///
/// # Errors
/// One cannot be measured.
pub fn in_rounds(
    rig: &mut Rig,
    requests: &[Request],
    manner: Manner,
    mut before: impl FnMut(usize),
) -> Result<Vec<Rounds>> {
    let mut all = vec![Rounds::default(); requests.len()];
    let mut patience = manner.patience;
    for round in 0..manner.rounds {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.shuffle(&mut StdRng::seed_from_u64(manner.seed.wrapping_add(round)));
        for at in order {
            before(at);
            let begun = Instant::now();
            let (mut sample, mut steady) = rig.beside_reference(&requests[at])?;
            for _ in 1..TRIES {
                if steady >= STEADY || begun.elapsed() > patience {
                    break;
                }
                let (again, how_steady) = rig.beside_reference(&requests[at])?;
                (sample, steady) = if how_steady > steady { (again, how_steady) } else { (sample, steady) };
            }
            // The first one was due anyway.
            patience = patience.saturating_sub(begun.elapsed() / 2);
            all[at].samples.push(sample);
        }
    }
    for (rounds, request) in all.iter_mut().zip(requests) {
        rounds.reference = rig.fastest(request.cores.len());
        // The fastest may have come later than a sample.
        rounds.samples.iter_mut().for_each(|sample| sample.pace /= rounds.reference);
    }
    Ok(all)
}

impl Rig {
    /// The fastest reference on so many cores, in million packets per second; 0: there was none.
    pub fn fastest(&self, cores: usize) -> f64 {
        self.fastest.get(&cores).copied().unwrap_or(0.0)
    }

    /// The plain fast path on these cores, now, in million packets per second.
    fn reference(&mut self, cores: &[usize]) -> Result<f64> {
        let plain = Request::new(cores.to_vec());
        let request = Request { path: Loop::Native, warm: WARM, time: TIME, windows: WINDOWS, ..plain };
        let mpps = median(self.measure(&request)?.windows);
        let fastest = self.fastest.entry(cores.len()).or_default();
        *fastest = fastest.max(mpps);
        Ok(mpps)
    }

    /// A measurement, with the mean of the references around it in place of its pace, and their ratio.
    fn beside_reference(&mut self, request: &Request) -> Result<(Sample, f64)> {
        if !self.fastest.contains_key(&request.cores.len()) {
            for _ in 0..FIRST {
                self.reference(&request.cores)?;
            }
        }
        let before = self.reference(&request.cores)?;
        let load = match request.load {
            Load::Paced { pps, process } => {
                Load::Paced { pps: (pps * before / self.fastest(request.cores.len())).max(1.0), process }
            }
            saturated => saturated,
        };
        let sample = self.measure(&Request { load, ..request.clone() })?;
        let behind = self.reference(&request.cores)?;
        let ratio = before.min(behind) / before.max(behind).max(f64::MIN_POSITIVE);
        Ok((Sample { pace: 0.5 * (before + behind), ..sample }, ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_divided_out() {
        let sample = |mpps: f64, pace: f64| Sample { windows: vec![mpps; 3], pace, ..Sample::default() };
        let rounds = Rounds { samples: vec![sample(10.0, 0.5), sample(19.0, 1.0), sample(18.0, 0.9)], reference: 50.0 };
        assert_eq!((rounds.each(), rounds.mpps()), (vec![20.0, 19.0, 20.0], 20.0));
        assert_eq!(rounds.best().map(|sample| sample.pace), Some(1.0));
        assert!((noise_percent(&[10.0, 11.0, 9.0]) - 20.0 / 3.0).abs() < 1e-9 && noise_percent(&[]) == 0.0);
    }
}
