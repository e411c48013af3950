// SPDX-License-Identifier: MIT
//! `./x bench fib`: every lookup structure on the same table and the same addresses, in one process and one run.
//!
//! The structures take turns: in each round every one is measured with every pattern for a fraction of a second, so
//! that all see the same machine. Ratios are taken within a round. No answer is trusted: all are compared with an
//! oracle's, before anything is timed and again after the changes.

mod chart;
mod measure;
mod report;
mod results;
mod router;
mod run;
mod shapes;

use crate::machine::{self, Hugepages, Interrupts, Machine};
use crate::table::{self, Family, Pattern};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use perigee_dpdk::{self as dpdk, Eal, EalConfig};
use perigee_fib::{PrefixList, Structure};
use results::Results;
use run::Run;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `./x bench fib`.
#[derive(Args)]
pub struct FibArgs {
    /// A routing table: a prefix a line, both families, plain or .gz [default: synthetic, of the Internet's size and
    /// shape]
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Which structures [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    structures: Vec<String>,
    /// How destinations are drawn [default: all; in the router: routed, zipf, uniform]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    patterns: Vec<Pattern>,
    /// 4 or 6 [default: both]
    #[arg(long, value_parser = clap::value_parser!(u8).range(4..=6))]
    family: Option<u8>,
    /// Different next hops in the table, each as frequent as the others
    #[arg(long, value_name = "N", default_value_t = 250)]
    next_hops: u32,
    /// Also measure each pattern with two cache lines of a packet touched per lookup
    #[arg(long)]
    with_packets: bool,
    /// Measure inside the forwarding loops, native and Lua, instead: packets per second, and ns over an empty loop
    #[arg(long, conflicts_with_all = ["with_packets", "svg"])]
    in_router: bool,
    /// Addresses per batch; in the router, packets per burst
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Seconds per measurement
    #[arg(long, default_value_t = 0.05)]
    seconds: f64,
    /// Rounds; each measures every structure with every pattern once
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Prefixes of each shape besides the table: links full of hosts, nested prefixes; 0: no shapes
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    shapes: u32,
    /// Seconds that a structure may take for each step of a shape
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    shape_seconds: f64,
    /// Seed of next hops, addresses and a synthetic table
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The core to measure on [default: the last this process may use]
    #[arg(long)]
    core: Option<usize>,
    /// Reserve this many hugepages of 2 MB first, for DPDK's structures, and give them back (root only)
    #[arg(long, value_name = "N")]
    hugepages: Option<u64>,
    /// Print JSON: an array with an object per structure, family and pattern
    #[arg(long)]
    json: bool,
    /// Draw the results
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "fib.svg")]
    svg: Option<PathBuf>,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
}

impl FibArgs {
    /// The requested patterns, or the default ones.
    fn patterns(&self, default: &[Pattern]) -> Vec<Pattern> {
        if self.patterns.is_empty() { default.to_vec() } else { self.patterns.clone() }
    }
}

/// Runs it. The exit code says whether all answers were right.
pub fn fib(args: &FibArgs) -> Result<ExitCode> {
    check(args)?;
    let list = args.routes.as_deref().map(table::read).transpose()?;
    // Before the first thread is started.
    dpdk::set_runtime_dir(dpdk::fallback_runtime_dir().as_deref())?;
    if args.in_router {
        return router::in_router(args, list);
    }
    let core = machine::core(args.core)?;
    let interrupts = args.hugepages.map(|_| Interrupts::new()).transpose()?;
    let memory = dpdk_memory(args, list.as_ref());
    let hugepages = Hugepages::reserve(args.hugepages, memory)?;
    let eal = if memory > 0 { Some(start_dpdk(core, memory, &hugepages)?) } else { None };
    dpdk::pin_current_thread(core)?;

    let patterns = args.patterns(&[Pattern::Uniform, Pattern::Routed, Pattern::Sequential, Pattern::Zipf]);
    let mut run = Run::new(args, patterns, list, interrupts);
    let v4 = if args.family != Some(6) { run.family::<u32>()? } else { None };
    let v6 = if args.family != Some(4) { run.family::<u128>()? } else { None };
    let results = Results {
        machine: Machine::this(),
        core,
        dpdk_hugepages: eal.as_ref().map(Eal::hugepages),
        table: args.routes.as_ref().map(|file| file.display().to_string()),
        limits: run.finish(),
        families: v4.into_iter().chain(v6).collect(),
    };
    drop(eal);
    drop(hugepages);
    finish(args, &results)
}

fn check(args: &FibArgs) -> Result<()> {
    let most = 1 << 20;
    ensure!((1..=256).contains(&args.batch), "--batch: found {}, expected 1 to 256 addresses", args.batch);
    ensure!((1e-4..=3600.0).contains(&args.seconds), "--seconds: found {}, expected 0.0001 to 3600", args.seconds);
    let seconds = args.shape_seconds;
    ensure!((1e-3..=3600.0).contains(&seconds), "--shape-seconds: found {seconds}, expected 0.001 to 3600");
    ensure!(args.rounds > 0, "--rounds: found 0, expected at least 1");
    ensure!(args.family != Some(5), "--family: found 5, expected 4 or 6");
    ensure!((1..=most).contains(&args.next_hops), "--next-hops: found {}, expected 1 to {most}", args.next_hops);
    let v4: Vec<&str> = u32::structures().iter().map(|structure| structure.name).collect();
    let v6: Vec<&str> = u128::structures().iter().map(|structure| structure.name).collect();
    for name in &args.structures {
        ensure!(
            v4.contains(&name.as_str()) || v6.contains(&name.as_str()),
            "--structures: found {name:?}, expected some of these: {} (IPv4); {} (IPv6)",
            v4.join(", "),
            v6.join(", ")
        );
    }
    Ok(())
}

fn wanted<A: Family>(args: &FibArgs) -> Vec<Structure<A>> {
    let is_wanted = |name: &str| args.structures.is_empty() || args.structures.iter().any(|wanted| wanted == name);
    let in_family = args.family.is_none_or(|family| family == A::NUMBER);
    A::structures().into_iter().filter(|structure| in_family && is_wanted(structure.name)).collect()
}

/// MB that DPDK's structures of a family need, or those of the greedier one; 0 if none of them takes part.
fn dpdk_memory(args: &FibArgs, list: Option<&PrefixList>) -> u32 {
    fn of<A: Family>(args: &FibArgs, list: Option<&PrefixList>) -> u32 {
        let routes = list.map_or(A::SYNTHETIC, |list| A::of(list).len());
        // A router needs several copies; here there is one, and room for another while it is made.
        wanted::<A>(args).iter().map(|structure| dpdk::fib::memory_mb(structure.name, routes).div_ceil(2)).sum()
    }
    of::<u32>(args, list).max(of::<u128>(args, list))
}

fn start_dpdk(core: usize, memory_mb: u32, hugepages: &Hugepages) -> Result<Eal> {
    let memory = if hugepages.enough { dpdk::Hugepages::Yes } else { dpdk::Hugepages::No };
    let config = EalConfig { hugepages: memory, memory_mb, main_core: Some(core), ..EalConfig::default() };
    Eal::start(&config).context("DPDK's structures need DPDK; --structures NAME,... leaves them out")
}

fn finish(args: &FibArgs, results: &Results) -> Result<ExitCode> {
    let text = report::text(args, results);
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&results.all_rows()?)?),
        false => print!("{text}"),
    }
    for (structure, why) in results.families.iter().flat_map(|family| &family.refused) {
        eprintln!("perigee: {structure} is left out: {why}");
    }
    if let Some(file) = &args.svg {
        std::fs::write(file, chart::svg(results)).with_context(|| format!("{} cannot be written", file.display()))?;
        eprintln!("perigee: drawn in {}", file.display());
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench fib", &results.machine, &text)?;
    }
    let wrong = results.wrong();
    if wrong > 0 {
        eprintln!("perigee: {wrong} answers were wrong");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
