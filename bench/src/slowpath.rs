// SPDX-License-Identifier: MIT
//! `./x bench slowpath`: how many packets the slow path judges, and what a flood of them costs the others.
//!
//! ```text
//!  router.rs    `perigee run` on a source of packets that all, none or every second one are the slow path's
//!  threads.rs   assistants alone, on one core and on two: what they share costs
//!  traffic.rs   the packets
//! ```
//!
//! Rates are per CPU time of the threads concerned, so that a preempted thread is not a slow one. Ratios are taken
//! within a round.

mod report;
mod router;
mod threads;
mod traffic;

use crate::machine::{self, Interrupts, Machine};
use crate::statistics::Median;
use anyhow::{Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use router::Sample;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use threads::Bed;
pub use threads::NoRoutes;
use traffic::Kind;

/// Arguments of `./x bench slowpath`.
#[derive(Args)]
pub struct SlowPathArgs {
    /// Rounds; each measures every kind of packet once
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Seconds per measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The worker's core [default: the last this process may use]
    #[arg(long)]
    core: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
}

/// All results.
#[derive(Debug, Clone, Serialize)]
struct Results {
    /// Millions of packets per second of the slow path's CPU time that came to their end there, by kind.
    judged_mpps: BTreeMap<&'static str, Median>,
    /// Millions of ICMP errors per second of the slow path's CPU time, from TTL 1 to a sent frame.
    errors_mpps: Median,
    /// The rate of simple packets beside as many expired ones, as a share of half the rate without those.
    share_beside_punts: Median,
    /// What two assistants on a core each judge together, as a share of what one does alone.
    two_of_one: Median,
    /// Millions of errors per second of one assistant.
    assistant_mpps: Median,
    pairs: usize,
    seconds: f64,
    core: usize,
    machine: Machine,
}

/// What all rounds have measured.
#[derive(Default)]
struct Rounds {
    judged: BTreeMap<&'static str, Vec<f64>>,
    errors: Vec<f64>,
    shares: Vec<f64>,
    two_of_one: Vec<f64>,
    assistant: Vec<f64>,
}

/// Runs it.
pub fn slow_path(args: &SlowPathArgs) -> Result<ExitCode> {
    ensure!((0.05..=60.0).contains(&args.seconds) && args.pairs > 0, "--seconds: 0.05 to 60; --pairs: at least 1");
    let (core, other) = machine::cores(args.core)?;
    let mut interrupts = Interrupts::new()?;
    let folder = tempfile::tempdir()?;
    let bar = progress(args.pairs as u64);
    let time = Duration::from_secs_f64(args.seconds);
    let mut rounds = Rounds::default();
    for _ in 0..args.pairs {
        for kind in Kind::ALL {
            bar.set_message(kind.name());
            let sample = router::measure(folder.path(), kind, core, time)?;
            rounds.add(kind, &sample);
            interrupts.check()?;
        }
        rounds.share();
        bar.inc(1);
    }
    // Only now: EAL pins this thread, and what it starts from here on would have no other core.
    bar.set_message("assistants");
    let bed = Bed::new([core, other])?;
    for _ in 0..args.pairs {
        let (one, two) = (bed.rate(1, time)?, bed.rate(2, time)?);
        rounds.assistant.push(one);
        rounds.two_of_one.push(two / one);
        interrupts.check()?;
    }
    bar.finish_and_clear();
    let results = rounds.results(args, core);
    let text = report::text(&results);
    match args.json {
        true => println!("{}", serde_json::to_string(&results)?),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench slowpath", &results.machine, &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl Rounds {
    fn add(&mut self, kind: Kind, sample: &Sample) {
        if kind == Kind::Expired {
            self.errors.push(sample.sent_back as f64 / sample.slow_cpu / 1e6);
        }
        let value = match kind {
            // Of these the worker is measured.
            Kind::Simple | Kind::Half => sample.forwarded as f64 / sample.worker_cpu / 1e6,
            _ => sample.judged as f64 / sample.slow_cpu / 1e6,
        };
        self.judged.entry(kind.name()).or_default().push(value);
    }

    /// The round's last two rates of simple packets, compared.
    fn share(&mut self) {
        let last = |kind: Kind| self.judged.get(kind.name()).and_then(|rates| rates.last().copied());
        if let (Some(half), Some(simple)) = (last(Kind::Half), last(Kind::Simple)) {
            self.shares.push(half / (simple / 2.0));
        }
    }

    fn results(&self, args: &SlowPathArgs, core: usize) -> Results {
        Results {
            judged_mpps: self.judged.iter().map(|(kind, rates)| (*kind, Median::of(rates))).collect(),
            errors_mpps: Median::of(&self.errors),
            share_beside_punts: Median::of(&self.shares),
            two_of_one: Median::of(&self.two_of_one),
            assistant_mpps: Median::of(&self.assistant),
            pairs: args.pairs,
            seconds: args.seconds,
            core,
            machine: Machine::this(),
        }
    }
}
