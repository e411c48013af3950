// SPDX-License-Identifier: MIT
//! `./x bench gen`: how fast and how exactly frames are generated, how soon a known limit is found, what tasks cost.
//!
//! dpdk-testpmd (txonly) and the generator send in turn on the same core, for a fraction of a second each, to devices
//! that free what they get. A round gives one rate of each; ratios are taken within a round.

mod limited;
mod report;

use crate::machine::{self, Hugepages, Interrupts, Machine, thread_time};
use crate::peers::Testpmd;
use crate::statistics::Median;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use perigee_dpdk::{
    Clock, Device, DpdkPort, Eal, EalConfig, Hugepages as Memory, MBUF, MbufPool, PoolConfig, PortConfig,
    pin_current_thread,
};
use perigee_measure::pace::{AchievedSummary, Limit, Pacer, Pattern};
use perigee_measure::station::{BURST, Course, End, Finished, Station, Stream};
use perigee_measure::traffic::{Description, Traffic};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `./x bench gen`.
#[derive(Args)]
pub struct GenerateArgs {
    /// Seconds per measurement of a rate
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// Rounds
    #[arg(long, default_value_t = 21)]
    pairs: usize,
    /// Seconds at each constant rate
    #[arg(long, default_value_t = 10.0)]
    cbr_seconds: f64,
    /// The core to measure on [default: the last this process may use]
    #[arg(long)]
    core: Option<usize>,
    /// Reserve this many hugepages of 2 MB first, and give them back (root only)
    #[arg(long, value_name = "N")]
    hugepages: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
}

/// Parts of the time at a constant rate, each beside a loop without frames.
const SLICES: u32 = 10;
/// MB of memory for packets, of each process.
const MEMORY: u32 = 512;
/// The same frame again and again, as testpmd sends it.
const ONE: &str = "{}";
/// Addresses and ports at random, all checksums right; testpmd's multi-flow changes the source address alone.
const VARYING: &str = r#"{"source": "random:198.18.0.0/16", "source_port": "random:1024-65535"}"#;
/// A flow for every combination: more than are kept ready.
const MANY: &str = r#"{"source": "random:198.18.0.0/16", "source_port": "random:1024-65535", "flows": 16777216}"#;

/// A rate beside testpmd's.
#[derive(Debug, Clone, Serialize)]
struct Rate {
    mpps: f64,
    /// As a share of testpmd's txonly in the same round.
    of_testpmd: Median,
}

/// Gaps at a constant rate.
#[derive(Debug, Clone, Serialize)]
struct Constant {
    pps: f64,
    /// The share of gaps within 1 us of nominal.
    within_1us: f64,
    /// The same of a loop that only reads the clock and notes departures: what this core allows.
    bare_within_1us: f64,
    gap_p99_9_ns: u64,
    gap_max_ns: u64,
    unsent: u64,
}

/// What `bench/tasks/pipe.lua` prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tasks {
    pipe_us: f64,
    ring_mpps: f64,
    ring_best_mpps: f64,
}

/// All results; the first fields are the short form.
#[derive(Debug, Clone, Serialize)]
struct Results {
    testpmd_txonly_mpps: f64,
    gen_mpps: f64,
    gen_varying_mpps: f64,
    cbr: Vec<Constant>,
    search_error_percent: f64,
    /// Trials of MLRsearch, as a share of those of a binary search with loss verification on the same port.
    search_trials_of_binary: f64,
    /// Their time, as a share.
    search_time_of_binary: f64,
    #[serde(flatten)]
    tasks: Tasks,
    testpmd_multi_flow_mpps: f64,
    one: Rate,
    varying: Rate,
    many: Rate,
    search: limited::Searched,
    pairs: usize,
    seconds: f64,
    core: usize,
    hugepages: bool,
    machine: Machine,
}

/// Runs it.
pub fn generate(args: &GenerateArgs) -> Result<ExitCode> {
    ensure!((0.01..=60.0).contains(&args.seconds) && args.pairs > 0, "--seconds: 0.01 to 60; --pairs: at least 1");
    ensure!((0.1..=600.0).contains(&args.cbr_seconds), "--cbr-seconds: 0.1 to 600");
    let (core, other_core) = machine::cores(args.core)?;
    let mut interrupts = Interrupts::new()?;
    let hugepages = Hugepages::reserve(args.hugepages, 4 * MEMORY)?;
    // Before this thread takes a core: what it starts would have no other.
    let tasks = tasks(hugepages.enough)?;
    let bed = Bed::new(core, hugepages.enough)?;
    let bar = progress(args.pairs as u64 + 3);
    let rounds = rounds(args, &bed, other_core, hugepages.enough, &bar, &mut interrupts)?;
    let mut cbr = Vec::new();
    for pps in [1e5, 1e6] {
        bar.set_message(format!("{pps} frames a second"));
        cbr.push(bed.constant(pps, args.cbr_seconds)?);
        bar.inc(1);
        interrupts.check()?;
    }
    bar.set_message("searches for a known limit");
    let search = limited::search(&bed)?;
    bar.inc(1);
    bar.finish_and_clear();
    let results = results(args, &bed, &rounds, cbr, search, tasks, hugepages.enough);
    let text = report::text(&results);
    match args.json {
        true => println!("{}", serde_json::to_string(&results)?),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench gen", &results.machine, &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The generator's own port, on the core that is measured.
struct Bed {
    core: usize,
    eal: Eal,
    clock: Clock,
    pool: Arc<MbufPool>,
    port: DpdkPort,
}

impl Bed {
    fn new(core: usize, hugepages: bool) -> Result<Bed> {
        let hugepages = if hugepages { Memory::Yes } else { Memory::No };
        let config = EalConfig { hugepages, memory_mb: MEMORY, main_core: Some(core), ..EalConfig::default() };
        let eal = Eal::start(&config)?;
        pin_current_thread(core)?;
        let pool = MbufPool::new(&eal, PoolConfig::default())?;
        let port = DpdkPort::open(&eal, &PortConfig::new(Device::Dpdk("net_null0".into())), &pool)?;
        Ok(Bed { core, eal, clock: Clock::new(), pool, port })
    }

    /// Sends frames of a description; the finished station and the CPU time that it took.
    fn send(&self, description: &str, pattern: Pattern, seconds: f64) -> Result<(Finished, Duration)> {
        let description: Description = serde_json::from_str(description)?;
        let traffic = Traffic::new(&description)?;
        let limit = Limit { frames: None, duration: Some((seconds * 1e9) as u64) };
        let (tx, rx) = (self.port.tx_queue(0)?, self.port.rx_queue(0)?);
        let mut end = End::new(Box::new(tx), Box::new(Nothing(rx)), self.pool.clone(), &MBUF);
        let before = thread_time();
        let pacer = Pacer::new(pattern, self.clock.now(), limit, 1_000_000);
        end.stream = Some(Stream::new(Box::new(traffic), &MBUF, pacer, 0x1234));
        let clock = || self.clock.now();
        let finished = Station { ends: vec![end] }.run(&clock, &Course::new(1, 0), &mut |_, _| {});
        Ok((finished, thread_time() - before))
    }

    /// Millions of frames per second of CPU time.
    fn rate(&self, description: &str, seconds: f64) -> Result<f64> {
        let (finished, time) = self.send(description, Pattern::Line, seconds)?;
        let sent = finished.sent[0].as_ref().context("the stream is gone")?.account.sent;
        Ok(sent as f64 / time.as_secs_f64() / 1e6)
    }

    /// The generator's gaps, and in turn those of a loop without frames: both suffer from the same machine.
    fn constant(&self, pps: f64, seconds: f64) -> Result<Constant> {
        let slice = seconds / f64::from(SLICES);
        let (mut sent, mut bare) = (Vec::new(), Vec::new());
        let mut unsent = 0;
        for _ in 0..SLICES {
            bare.push(self.bare(pps, slice)?);
            let (finished, _) = self.send(ONE, Pattern::Constant { rate: pps }, slice)?;
            let of_slice = finished.sent[0].as_ref().context("the stream is gone")?;
            sent.push(of_slice.achieved.summary().context("nothing was sent")?);
            unsent += of_slice.account.unsent;
        }
        let mean = |of: &[AchievedSummary]| of.iter().map(|slice| slice.within_1us).sum::<f64>() / of.len() as f64;
        let late: Vec<f64> = sent.iter().map(|slice| slice.gap_p99_9_ns as f64).collect();
        Ok(Constant {
            pps,
            within_1us: mean(&sent),
            bare_within_1us: mean(&bare),
            gap_p99_9_ns: Median::of(&late).median as u64,
            gap_max_ns: sent.iter().map(|slice| slice.gap_max_ns).max().unwrap_or(0),
            unsent,
        })
    }

    /// Departures of nothing.
    fn bare(&self, pps: f64, seconds: f64) -> Result<AchievedSummary> {
        let limit = Limit { frames: None, duration: Some((seconds * 1e9) as u64) };
        let mut pacer = Pacer::new(Pattern::Constant { rate: pps }, self.clock.now(), limit, 1_000_000);
        loop {
            let now = self.clock.now();
            let due = pacer.due(now, BURST);
            if due.frames > 0 {
                pacer.sent(now, due.frames);
            } else if due.first.is_none() {
                return pacer.achieved().summary().context("nothing was due");
            }
        }
    }
}

/// A queue that is not polled: net_null makes frames, which nobody wants here.
struct Nothing(#[allow(dead_code, reason = "keeps the queue")] perigee_dpdk::RxQueue);

impl perigee_packet::ReceiveQueue for Nothing {
    fn receive(&mut self, _: &mut perigee_packet::Batch, _: usize) -> usize {
        0
    }
}

/// Mpps in each round.
#[derive(Default)]
struct Rounds {
    testpmd: Vec<f64>,
    multi_flow: Vec<f64>,
    one: Vec<f64>,
    varying: Vec<f64>,
    many: Vec<f64>,
}

fn rounds(
    args: &GenerateArgs,
    bed: &Bed,
    other_core: usize,
    hugepages: bool,
    bar: &ProgressBar,
    interrupts: &mut Interrupts,
) -> Result<Rounds> {
    let start = |several| Testpmd::generator(bed.core, other_core, hugepages, several);
    let (mut testpmd, mut multi_flow) = (start(false)?, start(true)?);
    let time = Duration::from_secs_f64(args.seconds);
    // The better of its bursts, as each program has its best settings.
    let of = |testpmd: &mut Testpmd| -> Result<f64> {
        let mut best: f64 = 0.0;
        for burst in [32, 64] {
            let (packets, cpu_ns) = testpmd.measure(burst, Duration::ZERO, time / 2)?;
            best = best.max(packets as f64 * 1e3 / cpu_ns as f64);
        }
        Ok(best)
    };
    let mut rounds = Rounds::default();
    for pair in 0..args.pairs {
        bar.set_message(format!("round {} of {}", pair + 1, args.pairs));
        rounds.testpmd.push(of(&mut testpmd)?);
        rounds.one.push(bed.rate(ONE, args.seconds)?);
        rounds.varying.push(bed.rate(VARYING, args.seconds)?);
        rounds.many.push(bed.rate(MANY, args.seconds)?);
        rounds.multi_flow.push(of(&mut multi_flow)?);
        interrupts.check()?;
        bar.inc(1);
    }
    Ok(rounds)
}

/// The script of tasks, by the binary beside this one.
fn tasks(hugepages: bool) -> Result<Tasks> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("pipe.lua");
    std::fs::write(&script, include_str!("../tasks/pipe.lua"))?;
    let mut command = Command::new(perigee_lab::program()?);
    command.args(["task", "--hugepages", if hugepages { "yes" } else { "no" }]).arg(script).args(["200000", "4"]);
    let output = command.output().context("perigee task cannot be run")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "perigee task failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).with_context(|| format!("perigee task said {said:?}"))
}

fn results(
    args: &GenerateArgs,
    bed: &Bed,
    rounds: &Rounds,
    cbr: Vec<Constant>,
    search: limited::Searched,
    tasks: Tasks,
    hugepages: bool,
) -> Results {
    let rate = |of: &[f64]| {
        let shares: Vec<f64> = of.iter().zip(&rounds.testpmd).map(|(of, testpmd)| of / testpmd).collect();
        Rate { mpps: Median::of(of).median, of_testpmd: Median::of(&shares) }
    };
    let (one, varying, many) = (rate(&rounds.one), rate(&rounds.varying), rate(&rounds.many));
    Results {
        testpmd_txonly_mpps: Median::of(&rounds.testpmd).median,
        gen_mpps: one.mpps,
        gen_varying_mpps: varying.mpps,
        cbr,
        search_error_percent: search.error_percent(),
        search_trials_of_binary: search.trials_of_binary(),
        search_time_of_binary: search.time_of_binary(),
        tasks,
        testpmd_multi_flow_mpps: Median::of(&rounds.multi_flow).median,
        one,
        varying,
        many,
        search,
        pairs: args.pairs,
        seconds: args.seconds,
        core: bed.core,
        hugepages,
        machine: Machine::this(),
    }
}
