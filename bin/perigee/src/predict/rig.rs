// SPDX-License-Identifier: MIT
//! This machine, measured: what `perigee predict calibrate` and `verify --measure` ask `lib/rig` for.

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use perigee_dpdk::usable_cores;
use perigee_predict::campaign::{Measured, Setting};
use perigee_rig::{Idle, Load, Manner, Pauses, Process, Request, Rig, Rounds, Sample, Settings, Sojourn, in_rounds};
use std::time::Duration;

/// How long a setting is measured in each round, the warm-up before it, and the windows that it is divided into.
const TIME: Duration = Duration::from_millis(400);
const WARM: Duration = Duration::from_millis(250);
const WINDOWS: usize = 20;
/// Looks at the slow path, and how long each is.
const SLOW_LOOKS: usize = 10;
const SLOW_TIME: Duration = Duration::from_millis(50);

/// What may be used of this machine.
pub struct Bench {
    rig: Rig,
    /// Workers' cores, the last ones first: the system's own work is mostly on the first.
    cores: Vec<usize>,
    manner: Manner,
}

impl Bench {
    /// Starts DPDK. `most`: workers at once.
    ///
    /// # Errors
    /// No memory for packets, or no core.
    pub fn start(most: Option<u32>, manner: Manner) -> Result<Bench> {
        let mut cores = usable_cores();
        cores.reverse();
        match most {
            Some(0) => bail!("--cores: found 0, expected at least 1"),
            Some(most) if most as usize > cores.len() => {
                bail!("--cores: found {most}, and this process may use {} ({cores:?})", cores.len())
            }
            Some(most) => cores.truncate(most as usize),
            None => {}
        }
        let huge = perigee_rig::enough_hugepages();
        if !huge {
            eprintln!(
                "Packets are in ordinary memory, as fewer than {} MB of hugepages are free: sudo sysctl vm.nr_hugepages={}",
                perigee_rig::MEMORY_MB,
                perigee_rig::MEMORY_MB / 2 + 16
            );
        }
        let rig = Rig::new(Settings { hugepages: huge }).context("DPDK does not start")?;
        Ok(Bench { rig, cores, manner })
    }

    /// Workers at once, at most.
    pub fn cores(&self) -> u32 {
        self.cores.len() as u32
    }

    fn request(&self, setting: &Setting) -> Request {
        let cores = self.cores.iter().copied().take(setting.cores as usize).collect();
        Request {
            flows: setting.flows,
            two_way: setting.two_way,
            frame_size: setting.frame_size as u16,
            networks: setting.networks,
            punted: setting.punted,
            burst: setting.burst as usize,
            warm: WARM,
            time: TIME,
            windows: WINDOWS,
            seed: self.manner.seed,
            ..Request::new(cores)
        }
    }

    /// Measures in rounds, with a bar.
    fn rounds(&mut self, what: &str, points: &[(Request, String)]) -> Result<Vec<Rounds>> {
        let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {msg} ({elapsed})");
        let bar = ProgressBar::new(self.manner.rounds * points.len() as u64).with_prefix(what.to_owned());
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let requests: Vec<Request> = points.iter().map(|(request, _)| request.clone()).collect();
        let found = in_rounds(&mut self.rig, &requests, self.manner, |at| {
            bar.set_message(points[at].1.clone());
            bar.inc(1);
        });
        bar.finish_and_clear();
        found
    }

    /// Measures saturated settings.
    ///
    /// # Errors
    /// A measurement fails.
    pub fn saturated(&mut self, what: &str, settings: &[Setting]) -> Result<Vec<(Measured, Rounds)>> {
        let points: Vec<_> = settings.iter().map(|setting| (self.request(setting), setting.words())).collect();
        let found = self.rounds(what, &points)?;
        let measured = |(setting, rounds): (&Setting, Rounds)| {
            (Measured { setting: setting.clone(), mpps: rounds.mpps(), rounds: rounds.each() }, rounds)
        };
        Ok(settings.iter().zip(found).map(measured).collect())
    }

    /// How long packets stay at a rate.
    ///
    /// # Errors
    /// A measurement fails.
    pub fn paced(&mut self, what: &str, points: &[(Setting, f64)], idle: Idle) -> Result<Vec<Paced>> {
        let request = |(setting, pps): &(Setting, f64)| {
            let load = Load::Paced { pps: *pps, process: Process::Poisson };
            (Request { load, idle, ..self.request(setting) }, format!("{}, {:.2} Mpps", setting.words(), pps / 1e6))
        };
        let points: Vec<_> = points.iter().map(request).collect();
        let paced = |rounds: Rounds| {
            let sample = rounds.best().context("no packet came back")?.clone();
            let sojourn = rounds.sojourn().context("no packet came back")?;
            Ok(Paced { sojourn, sample, medians: rounds.medians(), loss: rounds.loss(), pauses: rounds.pauses() })
        };
        self.rounds(what, &points)?.into_iter().map(paced).collect()
    }

    /// Nanoseconds of a look into a ring in which nothing ever is, the shortest of all rounds.
    ///
    /// # Errors
    /// A measurement fails.
    pub fn idle(&mut self) -> Result<f64> {
        let load = Load::Paced { pps: 1.0, process: Process::Constant };
        let request = Request { load, ..self.request(&Setting::plain()) };
        let found = self.rounds("idle", &[(request, "nothing comes".to_owned())])?;
        Ok(found[0].samples.iter().map(|sample| sample.round_ns).fold(f64::INFINITY, f64::min))
    }

    /// The reference on each number of cores that was used, when others leave them alone, in million packets per second.
    pub fn references(&self) -> Vec<(u32, f64)> {
        let of = |cores: u32| (cores, self.rig.fastest(cores as usize));
        (1..=self.cores()).map(of).filter(|(_, mpps)| *mpps > 0.0).collect()
    }

    /// Nanoseconds that the slow path takes for a packet, the least of several looks.
    ///
    /// # Errors
    /// It cannot be measured.
    pub fn slow_path(&self) -> Result<f64> {
        let looks = (0..SLOW_LOOKS).map(|_| perigee_rig::slow_path_ns(self.cores[0], SLOW_TIME));
        looks.collect::<Result<Vec<_>>>().map(|all| all.into_iter().fold(f64::INFINITY, f64::min))
    }

    /// What interrupts a core that only looks at the time.
    ///
    /// # Errors
    /// The core cannot be used.
    pub fn pauses(&self) -> Result<Pauses> {
        perigee_rig::pauses(self.cores[0], Duration::from_secs(2))
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
