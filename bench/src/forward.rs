// SPDX-License-Identifier: MIT
//! `./x bench forward`: how fast one core forwards, and how much of the time is not bare I/O.
//!
//! dpdk-testpmd and perigee stay alive on the same core and forward in turn, for a fraction of a second each, so that all of
//! them see the same machine. A round gives one rate of each; comparisons are made within a round.

mod report;

use crate::machine::{self, Hugepages, Interrupts, Machine};
use crate::peers::{Bed, Perigee, Testpmd};
use crate::statistics::Median;
use crate::table::{self, Pattern};
use crate::traffic::{self, PACKETS, Traffic};
use crate::worker::{FullTable, MEMORY, Path as LoopPath, Request};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use perigee_fib::structures;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `./x bench forward`.
#[derive(Args)]
pub struct ForwardArgs {
    /// Seconds per measurement
    #[arg(long, default_value_t = 0.15)]
    seconds: f64,
    /// Rounds; each measures testpmd, the Lua loop and the native loop once per burst size
    #[arg(long, default_value_t = 41)]
    pairs: usize,
    /// Packets per burst, 1 to 256
    #[arg(long, value_delimiter = ',', default_value = "32,64,128")]
    bursts: Vec<usize>,
    /// A full routing table instead of 8 routes: a prefix a line, plain or .gz, its IPv4 part; destinations are drawn from it
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
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

/// Warm-up before each of perigee's measurements, in ns: caches, and the JIT compiler of a fresh VM.
const WARM: u64 = 30_000_000;

/// One loop at one burst size.
#[derive(Debug, Clone, Serialize)]
struct Measured {
    /// Mpps, the median of all rounds.
    mpps: f64,
    /// ns per packet more than testpmd at the same burst size.
    ns_over_io: Median,
    /// Rate as a share of testpmd's at the same burst size.
    of_io: Median,
}

/// Lua as a share of native.
#[derive(Debug, Clone, Serialize)]
struct Compared {
    #[serde(flatten)]
    ratio: Median,
    /// Is the interval at most 3 points wide?
    resolved: bool,
}

/// By burst size; JSON wants texts as keys.
type ByBurst<T> = BTreeMap<String, T>;

/// All results; the first fields are the short form.
#[derive(Debug, Clone, Serialize)]
struct Results {
    /// Mpps at a burst of 32, testpmd's default; without one, the best.
    testpmd_io: f64,
    lua: ByBurst<f64>,
    native: ByBurst<f64>,
    testpmd_io_by_burst: ByBurst<f64>,
    details: BTreeMap<LoopPath, ByBurst<Measured>>,
    lua_of_native: ByBurst<Compared>,
    /// Packets that were compared with the expected ones before anything was timed.
    verified: usize,
    pairs: usize,
    seconds: f64,
    core: usize,
    hugepages: bool,
    /// The routes by which packets are forwarded.
    routes: String,
    machine: Machine,
}

/// ns per packet in each round.
#[derive(Default)]
struct Rounds {
    io: Vec<f64>,
    lua: Vec<f64>,
    native: Vec<f64>,
}

/// Runs it.
pub fn forward(args: &ForwardArgs) -> Result<ExitCode> {
    ensure!(args.bursts.iter().all(|burst| (1..=256).contains(burst)), "--bursts: a burst has 1 to 256 packets");
    ensure!((0.01..=3600.0).contains(&args.seconds) && args.pairs > 0, "--seconds: at least 0.01; --pairs: at least 1");
    let (core, other_core) = machine::cores(args.core)?;
    let mut interrupts = Interrupts::new()?;
    let hugepages = Hugepages::reserve(args.hugepages, 2 * MEMORY)?;
    let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
    let (traffic, full) = match &args.routes {
        None => (Traffic::eight()?, None),
        Some(file) => full(file)?,
    };
    let sources = vec![folder.path().join("source.pcap")];
    let bed = Bed { sources, full, core, other_core, hugepages: hugepages.enough };
    traffic::write_pcap(&bed.sources[0], &traffic.sources[0])?;

    let bar = progress((args.pairs * args.bursts.len() + 2) as u64);
    let verified = verify(&bed, &traffic, &bar)?;
    interrupts.check()?;
    let rounds = rounds(args, &bed, &bar, &mut interrupts)?;
    bar.finish_and_clear();
    let results = results(args, &bed, verified, &rounds);
    let text = report::text(&results);
    match args.json {
        true => println!("{}", serde_json::to_string(&results)?),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench forward", &results.machine, &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Next hops of a full table, and the seed of everything random about it.
const NEXT_HOPS: u32 = 250;
const SEED: u64 = 1;

/// A full table in the default structure, and packets to random destinations in it.
fn full(file: &Path) -> Result<(Traffic, Option<FullTable>)> {
    let entries = table::entries::<u32>(Some(&table::read(file)?), NEXT_HOPS, SEED);
    ensure!(!entries.is_empty(), "{} has no IPv4 prefix; expected at least one", file.display());
    let addresses = Pattern::Routed.addresses(&entries, 2 * PACKETS, SEED);
    let structures = vec![structures::DEFAULT4.name.to_owned()];
    let routes = Some(file.to_owned());
    let full = FullTable { routes, family: 4, next_hops: NEXT_HOPS, seed: SEED, structures, memory: 0 };
    Ok((Traffic::full(&entries, &[addresses])?, Some(full)))
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Forwards the source once by each loop, into files, and compares every packet.
fn verify(bed: &Bed, traffic: &Traffic, bar: &ProgressBar) -> Result<usize> {
    let mut verified = 0;
    for path in [LoopPath::Lua, LoopPath::Native] {
        bar.set_message(format!("verifying what leaves ({path:?})"));
        let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
        let mut perigee = Perigee::start(bed, Some(folder.path()))?;
        let request =
            Request { path, burst: 64, warm: 0, time: 60_000_000_000, packets: PACKETS as u64, source: 0, table: 0 };
        let sample = perigee.measure(request)?;
        ensure!(sample.reasons.is_empty(), "packets left the fast path: {:?}", sample.reasons);
        perigee.finish()?;
        let sent = (0..traffic::PORTS).map(|port| traffic::read_pcap(&folder.path().join(format!("{port}.pcap"))));
        verified += traffic.verify(&sent.collect::<Result<Vec<_>>>()?)?;
        bar.inc(1);
    }
    Ok(verified)
}

fn rounds(
    args: &ForwardArgs,
    bed: &Bed,
    bar: &ProgressBar,
    interrupts: &mut Interrupts,
) -> Result<BTreeMap<usize, Rounds>> {
    let mut testpmd = Testpmd::start(bed)?;
    let mut perigee = Perigee::start(bed, None)?;
    let time = Duration::from_secs_f64(args.seconds);
    let mut rounds: BTreeMap<usize, Rounds> = BTreeMap::new();
    for pair in 0..args.pairs {
        for &burst in &args.bursts {
            bar.set_message(format!("round {} of {}, burst {burst}", pair + 1, args.pairs));
            let to = rounds.entry(burst).or_default();
            let (packets, cpu_ns) = testpmd.measure(burst, time)?;
            to.io.push(cpu_ns as f64 / packets as f64);
            // They take turns at going first, as the first of a pair may find a warmer or colder cache.
            let order = [LoopPath::Lua, LoopPath::Native];
            for path in if pair % 2 == 0 { order } else { [order[1], order[0]] } {
                let request = Request {
                    path,
                    burst,
                    warm: WARM,
                    time: time.as_nanos() as u64,
                    packets: u64::MAX,
                    source: 0,
                    table: 0,
                };
                let sample = perigee.measure(request).context("while it was measured")?;
                ensure!(sample.packets > 0, "perigee received nothing in {} s", args.seconds);
                let ns = sample.cpu_ns as f64 / sample.packets as f64;
                if path == LoopPath::Lua { to.lua.push(ns) } else { to.native.push(ns) }
            }
            interrupts.check()?;
            bar.inc(1);
        }
    }
    perigee.finish()?;
    Ok(rounds)
}

fn results(args: &ForwardArgs, bed: &Bed, verified: usize, rounds: &BTreeMap<usize, Rounds>) -> Results {
    let by_burst = |of: &dyn Fn(&Rounds) -> f64| -> ByBurst<f64> {
        rounds.iter().map(|(burst, rounds)| (burst.to_string(), of(rounds))).collect()
    };
    let details = |of: &dyn Fn(&Rounds) -> &Vec<f64>| -> ByBurst<Measured> {
        rounds.iter().map(|(burst, rounds)| (burst.to_string(), measured(of(rounds), &rounds.io))).collect()
    };
    let lua_of_native = rounds.iter().map(|(burst, rounds)| {
        let ratio = Median::of(&both(&rounds.native, &rounds.lua, |native, lua| native / lua));
        (burst.to_string(), Compared { ratio, resolved: ratio.width() <= 0.03 })
    });
    let testpmd_io_by_burst = by_burst(&|rounds| mpps(&rounds.io));
    let best = testpmd_io_by_burst.values().copied().fold(0.0, f64::max);
    Results {
        testpmd_io: testpmd_io_by_burst.get("32").copied().unwrap_or(best),
        lua: by_burst(&|rounds| mpps(&rounds.lua)),
        native: by_burst(&|rounds| mpps(&rounds.native)),
        testpmd_io_by_burst,
        details: [(LoopPath::Lua, details(&|r| &r.lua)), (LoopPath::Native, details(&|r| &r.native))].into(),
        lua_of_native: lua_of_native.collect(),
        verified,
        pairs: args.pairs,
        seconds: args.seconds,
        core: bed.core,
        hugepages: bed.hugepages,
        routes: match &args.routes {
            None => format!("8 routes over {} ports", traffic::PORTS),
            Some(file) => {
                let (file, name) = (file.display(), structures::DEFAULT4.name);
                format!("the IPv4 routes of {file} in {name}, {NEXT_HOPS} neighbors over {} ports", traffic::PORTS)
            }
        },
        machine: Machine::this(),
    }
}

fn mpps(ns: &[f64]) -> f64 {
    1000.0 / Median::of(ns).median
}

/// Combines two values of each round.
fn both(a: &[f64], b: &[f64], combine: fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| combine(*a, *b)).collect()
}

fn measured(ns: &[f64], io: &[f64]) -> Measured {
    let ns_over_io = Median::of(&both(ns, io, |ns, io| ns - io));
    Measured { mpps: mpps(ns), ns_over_io, of_io: Median::of(&both(ns, io, |ns, io| io / ns)) }
}
