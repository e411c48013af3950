// SPDX-License-Identifier: MIT
//! This machine, measured: what `perigee predict calibrate` and `verify --measure` ask `lib/rig` for.

use super::plan::{Plan, SLOW_LOOKS, SLOW_TIME, idle, paced, saturated};
use crate::signals::on_signals;
use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use perigee_predict::campaign::{Measured, Setting, Slow};
use perigee_predict::profile::MAX_CORES;
use perigee_rig::{
    Cores, Idle, Manner, PRETEND, Pauses, Request, Rig, Rounds, Sample, Settings, SoFar, Sojourn, in_rounds,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long an interrupt may wait for the end of a measurement and its repetitions.
const GRACE: Duration = Duration::from_secs(30);

/// What may be used of this machine.
pub struct Bench {
    rig: Rig,
    cores: Cores,
    manner: Manner,
    interrupted: Arc<AtomicBool>,
}

/// The cores to measure on, of those that this process may use. `most`: workers at once.
fn cores(most: Option<u32>) -> Result<Cores> {
    let mut cores = Cores::usable()?;
    let usable = cores.list().len();
    match most {
        Some(0) => bail!("--cores: found 0, expected at least 1"),
        Some(most) if most > MAX_CORES => {
            bail!("--cores: found {most}, expected at most {MAX_CORES}, the most cores of a profile")
        }
        Some(most) if most as usize > usable => {
            bail!("--cores: found {most}, and this process may use {usable} ({:?})", cores.list())
        }
        _ => cores.take(most.unwrap_or(MAX_CORES) as usize),
    }
    Ok(cores)
}

/// What whoever reads the figures has to know of the cores.
fn remarks(cores: &Cores) -> Vec<String> {
    let (list, mut all) = (cores.list(), Vec::new());
    if cores.is_pretended() {
        all.push(format!("The {} cores are pretended ({PRETEND}): no figure counts.", list.len()));
    }
    if let Some(physical) = cores.physical() {
        let cores = if physical == 1 { "core" } else { "cores" };
        all.push(format!(
            "{} workers share {physical} physical {cores}: from {} workers on some slow each other down.",
            list.len(),
            physical + 1
        ));
    }
    all
}

impl Bench {
    /// Starts DPDK, and says what is measured and how long that takes. `most`: workers at once; `plan` makes a plan for
    /// these cores.
    ///
    /// # Errors
    /// No memory for packets, or no core.
    pub fn start(most: Option<u32>, manner: Manner, plan: impl Fn(&[usize]) -> Plan) -> Result<Bench> {
        let cores = cores(most)?;
        let huge = perigee_rig::enough_hugepages(cores.list().len());
        if !huge {
            let mb = perigee_rig::memory_mb(cores.list().len());
            eprintln!(
                "Packets are in ordinary memory, as fewer than {mb} MB of hugepages are free: \
                 sudo sysctl vm.nr_hugepages={}",
                mb / 2 + 16
            );
        }
        remarks(&cores).iter().for_each(|remark| eprintln!("{remark}"));
        eprintln!("{}", plan(cores.list()));
        let rig = Rig::new(Settings { hugepages: huge, cores: cores.clone() }).context("DPDK does not start")?;
        let interrupted = Arc::new(AtomicBool::new(false));
        let stop = interrupted.clone();
        let stop = move || {
            eprintln!("interrupted: it ends behind this measurement, or at once if you interrupt it again");
            stop.store(true, Ordering::Relaxed);
        };
        on_signals(stop, GRACE)?;
        Ok(Bench { rig, cores, manner, interrupted })
    }

    /// Workers at once, at most.
    pub fn cores(&self) -> u32 {
        self.cores.list().len() as u32
    }

    /// Is it to end? What was being measured then has only some of its rounds, or none.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Measures in rounds, with a bar; `so_far` is called before each measurement. An interrupt ends them early.
    fn rounds(
        &mut self,
        what: &str,
        (requests, words): (&[Request], &[String]),
        mut so_far: impl FnMut(&[Rounds]) -> Result<()>,
    ) -> Result<Vec<Rounds>> {
        let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {msg} ({elapsed})");
        let count = self.manner.rounds * requests.len() as u64;
        let bar = ProgressBar::new(count).with_prefix(what.to_owned());
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        if bar.is_hidden() {
            eprintln!("{what}: {count} measurements");
        }
        let (interrupted, mut partly) = (self.interrupted.clone(), None);
        let found = in_rounds(&mut self.rig, requests, self.manner, |at, measured: &SoFar<'_>| {
            let rounds = measured.rounds();
            so_far(&rounds)?;
            if interrupted.load(Ordering::Relaxed) {
                partly = Some(rounds);
                bail!("interrupted");
            }
            bar.set_message(words[at].clone());
            bar.inc(1);
            Ok(())
        });
        bar.finish_and_clear();
        partly.map_or(found, Ok)
    }

    /// What has been measured of saturated settings: those with a round at least.
    fn measured(&self, settings: &[Setting], rounds: Vec<Rounds>) -> Vec<(Measured, Rounds)> {
        let one = |(setting, rounds): (&Setting, Rounds)| {
            let cores = &self.cores.list()[..setting.cores as usize];
            let slow = self.cores.slow(cores, &rounds.workers()).map(|(core, share)| Slow { core, share });
            (Measured { setting: setting.clone(), mpps: rounds.mpps(), rounds: rounds.each(), slow }, rounds)
        };
        settings.iter().zip(rounds).filter(|(_, rounds)| !rounds.samples.is_empty()).map(one).collect()
    }

    /// Measures saturated settings; `so_far` gets what has been measured, before each measurement. Those without any
    /// round, of which an interrupt is the only cause, are not there.
    ///
    /// # Errors
    /// A measurement fails, or `so_far` does.
    pub fn saturated(
        &mut self,
        what: &str,
        settings: &[Setting],
        mut so_far: impl FnMut(&[Measured]) -> Result<()>,
    ) -> Result<Vec<(Measured, Rounds)>> {
        let requests = saturated(self.cores.list(), self.manner.seed, settings);
        let words: Vec<String> = settings.iter().map(Setting::words).collect();
        let keep = |rounds: &[Rounds]| {
            let one = |(setting, rounds): (&Setting, &Rounds)| {
                let (mpps, rounds) = (rounds.mpps(), rounds.each());
                Measured { setting: setting.clone(), mpps, rounds, slow: None }
            };
            let there = settings.iter().zip(rounds).filter(|(_, rounds)| !rounds.samples.is_empty());
            so_far(&there.map(one).collect::<Vec<_>>())
        };
        let found = self.rounds(what, (&requests, &words), keep)?;
        let found = self.measured(settings, found);
        for (measured, _) in &found {
            if let Some(Slow { core, share }) = measured.slow {
                eprintln!(
                    "{}: core {core} did {share:.2} of what the others did, so that something else slows it down; the \
                     point is left out",
                    measured.setting.words()
                );
            }
        }
        Ok(found)
    }

    /// How long packets stay at a rate.
    ///
    /// # Errors
    /// A measurement fails, or there was an interrupt.
    pub fn paced(&mut self, what: &str, points: &[(Setting, f64)], idle: Idle) -> Result<Vec<Paced>> {
        let requests = paced(self.cores.list(), self.manner.seed, points, idle);
        let words = |(setting, pps): &(Setting, f64)| format!("{}, {:.2} Mpps", setting.words(), pps / 1e6);
        let found = self.rounds(what, (&requests, &points.iter().map(words).collect::<Vec<_>>()), |_| Ok(()))?;
        ensure!(!self.interrupted(), "interrupted");
        let paced = |rounds: Rounds| {
            let sample = rounds.best().context("no packet came back")?.clone();
            let sojourn = rounds.sojourn().context("no packet came back")?;
            Ok(Paced { sojourn, sample, medians: rounds.medians(), loss: rounds.loss(), pauses: rounds.pauses() })
        };
        found.into_iter().map(paced).collect()
    }

    /// Nanoseconds of a look into a ring in which nothing ever is, the shortest of all rounds.
    ///
    /// # Errors
    /// A measurement fails, or there was an interrupt.
    pub fn idle(&mut self) -> Result<f64> {
        let requests = [idle(self.cores.list(), self.manner.seed)];
        let found = self.rounds("idle", (&requests, &["nothing comes".to_owned()]), |_| Ok(()))?;
        ensure!(!self.interrupted(), "interrupted");
        Ok(found[0].samples.iter().map(|sample| sample.round_ns).fold(f64::INFINITY, f64::min))
    }

    /// The reference on each number of cores that was used, when others leave them alone, in million packets per
    /// second.
    pub fn references(&self) -> Vec<(u32, f64)> {
        let of = |cores: u32| (cores, self.rig.fastest(cores as usize));
        (1..=self.cores()).map(of).filter(|(_, mpps)| *mpps > 0.0).collect()
    }

    /// Nanoseconds that the slow path takes for a packet, the least of several looks.
    ///
    /// # Errors
    /// It cannot be measured.
    pub fn slow_path(&self) -> Result<f64> {
        let look = |_| perigee_rig::slow_path_ns(&self.cores, self.cores.list()[0], SLOW_TIME);
        (0..SLOW_LOOKS).map(look).collect::<Result<Vec<_>>>().map(|all| all.into_iter().fold(f64::INFINITY, f64::min))
    }

    /// What interrupts a core that only looks at the time.
    ///
    /// # Errors
    /// The core cannot be used.
    pub fn pauses(&self) -> Result<Pauses> {
        perigee_rig::pauses(&self.cores, self.cores.list()[0], super::plan::PAUSES)
    }
}

/// A paced measurement.
pub struct Paced {
    /// That of the round with the fastest pace.
    pub sample: Sample,
    /// At full pace.
    pub sojourn: Sojourn,
    /// Share of the packets that found their ring full.
    pub loss: f64,
    /// What took the core away beside them.
    pub pauses: Pauses,
    /// Medians of all rounds, in ns.
    pub medians: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remarkable_of_cores_is_said() {
        let said = remarks(&Cores::pretended(16, vec![0, 1]));
        assert_eq!(said, ["The 16 cores are pretended (PERIGEE_PRETEND_CORES): no figure counts."]);
    }
}
