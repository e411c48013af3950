// SPDX-License-Identifier: MIT
//! Several measurements in several rounds, on a machine that others share.
//!
//! A core whose other hyperthread, cache or memory somebody else uses is slower, by up to a half, for a tenth of a
//! second or for minutes at a time, and nothing but packets shows it: a loop of arithmetic runs at full speed while a
//! worker does two thirds of its rate. So rates are those of a measurement's faster windows, and times those of its
//! middle one. Each measurement also has a short **reference** before and behind it, the plain fast path on the same
//! cores; the faster of both, over the fast ones of all references so far, is the **pace**. A measurement between two
//! different references, or at a slow pace, is repeated while patience lasts. What is left of the pace is divided out:
//! rates and times are those of the machine when others leave it alone. Paced loads are scaled beforehand, so that they
//! stay the same share of what the core can do. That goes by the reference, and another loop may be slowed down by
//! another factor: close to its limit, a load is a **share** of what the same measurement forwards saturated, right
//! before and behind, which are its references then. Where much of it is lost even so, the core has become slower in
//! between: that is repeated, too, and left out if another round was not.
//!
//! What takes a core away altogether, a hypervisor above all, makes packets late by far more than their service takes:
//! where times are measured, a loop that only reads the clock counts such **pauses** before and behind.

use crate::arrivals::{Load, Process};
use crate::pauses::{Pauses, lengths};
use crate::request::{Loop, Request, Sample, Sojourn};
use crate::rig::Rig;
use anyhow::Result;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Two references further apart than this, as a ratio, say nothing about what was between them.
const STEADY: f64 = 0.94;
/// At a pace lower than this, more than the pace is different: what misses a cache is slowed down more than what does
/// not.
const FAST: f64 = 0.93;
/// A share of the throughput of which more than this is lost was more than the throughput.
const OVERLOAD: f64 = 0.02;
/// How often a measurement is repeated in a round for either.
pub(crate) const TRIES: usize = 6;
/// How long a reference takes: warm-up, and windows.
pub(crate) const WARM: Duration = Duration::from_millis(15);
pub(crate) const TIME: Duration = Duration::from_millis(40);
const WINDOWS: usize = 8;
/// References that are taken first, to see how fast the machine can be. Several cores are seldom left alone all at
/// once: with few numbers of cores each has three times as many, with many numbers they share what is left.
const FIRST: usize = 20;
const FIRST_OF_SEVERAL: usize = 3 * FIRST;
const FIRST_OF_ALL: usize = 180;
/// How long a measurement is warmed up as its own reference: its loop may have to be compiled.
pub(crate) const WARM_OWN: Duration = Duration::from_millis(100);
/// How long pauses are counted before a paced measurement, and again behind it.
pub(crate) const LOOK: Duration = Duration::from_millis(80);

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

/// References that are taken first on each number of cores: on one, and on several.
pub(crate) fn first_references(requests: &[Request]) -> [usize; 2] {
    let several: BTreeSet<usize> = requests.iter().map(|request| request.cores.len()).filter(|n| *n > 1).collect();
    [FIRST, (FIRST_OF_ALL / several.len().max(1)).clamp(FIRST, FIRST_OF_SEVERAL)]
}

/// The samples of one measurement, a round each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds {
    pub samples: Vec<Sample>,
    /// The reference when others leave the machine alone, in million packets per second.
    pub reference: f64,
}

impl Rounds {
    /// Million packets per second, at the machine's full pace: of the fastest round, as others can only slow one down.
    /// A reference that is slower than the measurement beside it would make it faster than it was, so little of the
    /// pace is divided out; all of it where no round has a fast one.
    pub fn mpps(&self) -> f64 {
        if !self.samples.iter().any(is_good) {
            return median(self.each());
        }
        self.workers().iter().sum()
    }

    /// The same of each worker alone.
    pub fn workers(&self) -> Vec<f64> {
        // Of each worker by itself: several cores are seldom left alone all at once.
        let workers = self.samples.iter().map(|sample| sample.workers.len()).max().unwrap_or(0);
        let mpps = |sample: &Sample, worker: usize| {
            sample.workers.get(worker).map_or(0.0, |windows| faster(windows)) / pace(sample).clamp(FAST, 1.0 / FAST)
        };
        let fastest = |worker| self.samples.iter().map(|sample| mpps(sample, worker)).fold(0.0, f64::max);
        (0..workers).map(fastest).collect()
    }

    /// The same of each round alone, with all of its pace divided out.
    pub fn each(&self) -> Vec<f64> {
        self.samples.iter().map(mpps).collect()
    }

    /// The rounds at a fast pace that were not overloaded; all, if there are none.
    fn good(&self) -> impl Iterator<Item = &Sample> {
        let any = self.samples.iter().any(is_good);
        self.samples.iter().filter(move |sample| !any || is_good(sample))
    }

    /// How far rounds are apart, as the mean distance from their median, in percent of it.
    pub fn noise_percent(&self) -> f64 {
        noise_percent(&self.each())
    }

    /// The sample of the round with the fastest pace.
    pub fn best(&self) -> Option<&Sample> {
        self.samples.iter().max_by(|a, b| a.pace.total_cmp(&b.pace))
    }

    /// Times at the machine's full pace: of each the median of windows, then of rounds.
    pub fn sojourn(&self) -> Option<Sojourn> {
        Sojourn::median(&self.good().filter_map(sojourn).collect::<Vec<_>>())
    }

    /// Share of a paced load that found the ring full.
    pub fn loss(&self) -> f64 {
        median(self.good().map(|sample| median(sample.lost_of_windows.clone())).collect())
    }

    /// What took the core away beside these rounds of a paced measurement.
    pub fn pauses(&self) -> Pauses {
        let all: Vec<u64> = self.good().flat_map(|sample| sample.pauses_ns.iter().copied()).collect();
        Pauses::of(all, 2 * LOOK * self.good().count().max(1) as u32)
    }

    /// Medians of times of all rounds, at full pace, in ns.
    pub fn medians(&self) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| Some(sojourn(sample)?.p50)).collect()
    }
}

fn pace(sample: &Sample) -> f64 {
    if sample.pace > 0.0 { sample.pace } else { 1.0 }
}

/// The share of windows that are slower than what counts.
const SLOWER: f64 = 0.8;

/// Of the faster windows: others disturb some of them.
fn faster(windows: &[f64]) -> f64 {
    quantile(windows, SLOWER)
}

/// The value that this share of all is smaller than; 0 of none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((share * values.len() as f64) as usize).copied().unwrap_or(0.0)
}

fn is_good(sample: &Sample) -> bool {
    pace(sample) >= FAST && !sample.overloaded
}

/// Of all workers.
fn all(sample: &Sample) -> f64 {
    sample.workers.iter().map(|windows| faster(windows)).sum()
}

fn mpps(sample: &Sample) -> f64 {
    all(sample) / pace(sample)
}

fn sojourn(sample: &Sample) -> Option<Sojourn> {
    Some(Sojourn::median(&sample.sojourns_of_windows)?.times(pace(sample)))
}

/// The middle value, the mean of the two in the middle if there are as many on each side; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n => 0.5 * (values[(n - 1) / 2] + values[n / 2]),
    }
}

/// The mean distance of values from their median, in percent of it.
pub fn noise_percent(values: &[f64]) -> f64 {
    let middle = median(values.to_vec());
    if middle <= 0.0 {
        return 0.0;
    }
    values.iter().map(|value| (value / middle - 1.0).abs()).sum::<f64>() / values.len() as f64 * 100.0
}

/// A sample between two references, with the slower one as a share of the other.
struct Beside {
    sample: Sample,
    steady: f64,
}

impl Beside {
    fn new(sample: Sample, before: f64, behind: f64) -> Beside {
        let steady = before.min(behind) / before.max(behind).max(f64::MIN_POSITIVE);
        Beside { sample: Sample { pace: before.max(behind), ..sample }, steady }
    }

    /// The steadier and the faster, the better; what was overloaded is the last choice.
    fn worth(&self) -> f64 {
        self.steady * self.sample.pace * if self.sample.overloaded { 1e-3 } else { 1.0 }
    }
}

/// The results so far.
pub struct SoFar<'a> {
    rig: &'a Rig,
    requests: &'a [Request],
    all: &'a [Rounds],
}

impl SoFar<'_> {
    /// Of each request, with the pace of each sample relative to the fastest reference so far.
    pub fn rounds(&self) -> Vec<Rounds> {
        let mut all = self.all.to_vec();
        for (rounds, request) in all.iter_mut().zip(self.requests) {
            rounds.reference = match request.load {
                Load::Share { .. } => rounds.samples.iter().map(|sample| sample.pace).fold(0.0, f64::max),
                _ => self.rig.fastest(request.cores.len()),
            };
            // The fastest may have come later than a sample.
            rounds.samples.iter_mut().for_each(|sample| sample.pace /= rounds.reference);
        }
        all
    }
}

/// Measures all of these. `before` is called with the number of the one that comes next and with what has been measured
/// by then; an error of its ends the rounds, for whoever is interrupted.
///
/// # Errors
/// One cannot be measured.
pub fn in_rounds(
    rig: &mut Rig,
    requests: &[Request],
    manner: Manner,
    mut before: impl FnMut(usize, &SoFar<'_>) -> Result<()>,
) -> Result<Vec<Rounds>> {
    let mut all = vec![Rounds::default(); requests.len()];
    let mut patience = manner.patience;
    rig.first = first_references(requests);
    for round in 0..manner.rounds {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.shuffle(&mut StdRng::seed_from_u64(manner.seed.wrapping_add(round)));
        for at in order {
            before(at, &SoFar { rig, requests, all: &all })?;
            let mut sample = rig.beside_reference(&requests[at])?;
            let due = Instant::now();
            for _ in 1..TRIES {
                if rig.is_good(&sample, &requests[at]) || due.elapsed() > patience {
                    break;
                }
                let again = rig.beside_reference(&requests[at])?;
                sample = if again.worth() > sample.worth() { again } else { sample };
            }
            let Beside { sample, .. } = sample;
            patience = patience.saturating_sub(due.elapsed());
            all[at].samples.push(sample);
        }
    }
    Ok(SoFar { rig, requests, all: &all }.rounds())
}

impl Rig {
    /// The reference on so many cores when others leave them alone, in million packets per second: about a tenth of all
    /// references are faster, as the very fastest is a matter of luck. 0: there was none.
    pub fn fastest(&self, cores: usize) -> f64 {
        self.references.get(&cores).map_or(0.0, |all| quantile(all, 0.9))
    }

    /// The plain fast path on these cores, now, in million packets per second.
    fn reference(&mut self, cores: &[usize]) -> Result<f64> {
        let plain = Request::new(cores.to_vec());
        let request = Request { path: Loop::Native, warm: WARM, time: TIME, windows: WINDOWS, ..plain };
        let mpps = all(&self.measure(&request)?);
        self.references.entry(cores.len()).or_default().push(mpps);
        Ok(mpps)
    }

    fn is_good(&self, beside: &Beside, request: &Request) -> bool {
        let fast = match request.load {
            // How fast it can be is not known before all rounds are.
            Load::Share { .. } => !beside.sample.overloaded,
            _ => beside.sample.pace >= FAST * self.fastest(request.cores.len()),
        };
        beside.steady >= STEADY && fast
    }

    /// A measurement, with the faster of the references around it in place of its pace.
    fn beside_reference(&mut self, request: &Request) -> Result<Beside> {
        if let Load::Share { share, process } = request.load {
            return self.beside_itself(request, share, process);
        }
        if !self.references.contains_key(&request.cores.len()) {
            for _ in 0..self.first[usize::from(request.cores.len() > 1)] {
                self.reference(&request.cores)?;
            }
        }
        // They are the same for all cores, as far as anybody knows.
        let look = |rig: &Rig| match request.load {
            Load::Paced { .. } => lengths(&rig.cores, request.cores[0], LOOK),
            _ => Ok(Vec::new()),
        };
        let mut pauses_ns = look(self)?;
        let before = self.reference(&request.cores)?;
        let load = match request.load {
            Load::Paced { pps, process } => {
                Load::Paced { pps: (pps * before / self.fastest(request.cores.len())).max(1.0), process }
            }
            other => other,
        };
        let sample = self.measure(&Request { load, ..request.clone() })?;
        let behind = self.reference(&request.cores)?;
        pauses_ns.extend(look(self)?);
        Ok(Beside::new(Sample { pauses_ns, ..sample }, before, behind))
    }

    /// A paced measurement at a share of what the same forwards saturated, with the faster of two such references in
    /// place of its pace.
    fn beside_itself(&mut self, request: &Request, share: f64, process: Process) -> Result<Beside> {
        request.check()?;
        // Per second of time, in which the core is also taken away: arrivals do not wait for it.
        let saturated =
            Request { load: Load::Saturated, warm: WARM_OWN, time: TIME, windows: WINDOWS, ..request.clone() };
        let mut pauses_ns = lengths(&self.cores, request.cores[0], LOOK)?;
        let before = self.measure(&saturated)?.wall_mpps;
        let load = Load::Paced { pps: (1e6 * share * before).max(1.0), process };
        let sample = self.measure(&Request { load, ..request.clone() })?;
        let behind = self.measure(&saturated)?.wall_mpps;
        pauses_ns.extend(lengths(&self.cores, request.cores[0], LOOK)?);
        let overloaded = median(sample.lost_of_windows.clone()) > OVERLOAD;
        Ok(Beside::new(Sample { pauses_ns, overloaded, ..sample }, before, behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_divided_out() {
        let sample = |mpps: f64, pace: f64| Sample {
            workers: vec![vec![mpps, 1.0, mpps], vec![0.0]],
            pace,
            ..Sample::default()
        };
        let rounds = Rounds { samples: vec![sample(10.0, 0.5), sample(19.0, 1.0), sample(18.0, 0.9)], reference: 50.0 };
        assert_eq!((rounds.each(), rounds.mpps()), (vec![20.0, 19.0, 20.0], 18.0 / FAST));
        let slow = Rounds { samples: vec![sample(10.0, 0.5), sample(12.0, 0.8), sample(8.0, 0.5)], reference: 50.0 };
        assert_eq!(slow.mpps(), 16.0);
        let overloaded = |mpps| Sample { overloaded: true, ..sample(mpps, 1.0) };
        let rounds = Rounds { samples: vec![overloaded(40.0), sample(19.0, 1.0)], reference: 50.0 };
        assert_eq!(rounds.good().count(), 1);
        let rounds = Rounds { samples: vec![overloaded(40.0), overloaded(19.0)], reference: 50.0 };
        assert_eq!(rounds.good().count(), 2);
        assert_eq!(rounds.best().map(|sample| sample.pace), Some(1.0));
        let paced = |p50: f64, pauses_ns: Vec<u64>| Sample {
            sojourns_of_windows: vec![
                Sojourn {
                    packets: 1,
                    mean: p50,
                    p50,
                    p90: p50,
                    p99: 9.0 - p50,
                    p999: p50,
                    max: p50
                };
                3
            ],
            pauses_ns,
            ..sample(1.0, 1.0)
        };
        let rounds =
            Rounds { samples: vec![paced(1.0, vec![5]), paced(2.0, vec![7, 9]), paced(3.0, vec![])], reference: 1.0 };
        let found = rounds.sojourn().unwrap();
        assert_eq!((found.packets, found.p50, found.p99), (9, 2.0, 7.0));
        assert_eq!(rounds.pauses().lengths_ns, [5.0, 7.0, 9.0]);
        assert!((rounds.pauses().per_second - 3.0 / 0.48).abs() < 1e-9);
        assert!((noise_percent(&[10.0, 11.0, 9.0]) - 20.0 / 3.0).abs() < 1e-9 && noise_percent(&[]) == 0.0);
    }
}
