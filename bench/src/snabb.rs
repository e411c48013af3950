// SPDX-License-Identifier: MIT
//! `./x bench snabb`: how fast packets go through graphs of Snabb apps and through programs of a Snabb tree, beside
//! Snabb itself if there is a built one.
//!
//! ```text
//!  outside   graphs.rs: `perigee snabb bench`    report.rs: tables and JSON
//!     | unshare: namespaces for processes, network and mounts (and users, if not root)
//!  inside    beside.rs: perigee and Snabb in turn    turns.rs: one turn, by a program that both run
//!            runtime.rs: how each runs it, its CPU time    parse.rs: what it prints
//! ```

mod beside;
mod graphs;
mod parse;
mod report;
mod runtime;
mod turns;

use crate::machine::{self, Machine};
use anyhow::{Result, ensure};
use clap::Args;
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `./x bench snabb`.
#[derive(Args, Clone)]
pub struct SnabbBenchArgs {
    /// Numbers of forwarding apps between the two ends
    #[arg(long, value_delimiter = ',', default_value = "1,2,5,10,20,50,100")]
    apps: Vec<u16>,
    /// Graphs on one thread: chain (source, apps, sink), ports (the same between two DPDK ports); none
    #[arg(long, value_delimiter = ',', default_value = "chain,ports")]
    graphs: Vec<String>,
    /// Seconds of a measurement
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// How often each is measured; the median counts
    #[arg(long, default_value_t = 9)]
    rounds: u16,
    /// Bytes of a packet
    #[arg(long, default_value_t = 60)]
    bytes: u16,
    /// Pairs of runs of two chains, on one thread and on two; 0: none
    #[arg(long, default_value_t = 7)]
    pairs: u16,
    /// A built Snabb, which takes turns with perigee (root only)
    #[arg(long, env = "SNABB", value_name = "BINARY")]
    snabb: Option<PathBuf>,
    /// A checkout of snabbco/snabb, for the programs of it [default: the folder of the binary, if it is one]
    #[arg(long, env = "SNABB_TREE", value_name = "FOLDER")]
    tree: Option<PathBuf>,
    /// Programs, in turn with Snabb's: chains (source, --apps, sink), basic1, lwaftr, packetblaster (of a tree),
    /// forward (between two interfaces), start (to the first packet); none
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "chains,basic1,lwaftr,packetblaster,forward,start"
    )]
    rows: Vec<String>,
    /// Turns that each of them has
    #[arg(long, default_value_t = 11)]
    turns: usize,
    /// Seconds of a turn that count
    #[arg(long, default_value_t = 0.5)]
    turn_seconds: f64,
    /// Packets of snabbmark basic1
    #[arg(long, value_name = "PACKETS", default_value_t = 50_000_000)]
    basic1: u64,
    /// The core that both run on [default: the last this process may use]
    #[arg(long)]
    core: Option<usize>,
    /// Reserve this many hugepages of 2 MB first, and give them back (root only) [default: 256 with --snabb]
    #[arg(long, value_name = "N")]
    hugepages: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
    /// The temporary folder: this process is already inside
    #[arg(long, hide = true, value_name = "FOLDER")]
    inside: Option<PathBuf>,
}

/// Runs it. The exit code says whether perigee ran everything.
pub fn snabb(args: &SnabbBenchArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.inside {
        beside::inside(args, folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    check(args)?;
    // A mistake is reported before anything is started.
    let tree = beside::tree(args)?;
    let (cases, left_out) = beside::cases(args, tree.is_some())?;
    let graphs: Vec<_> = args.graphs.iter().filter(|graph| *graph != "none").collect();
    let bar = ProgressBar::new(graphs.len() as u64 + u64::from(args.pairs) * 2).with_message("measuring");
    let mut lines = Vec::new();
    for graph in graphs {
        lines.extend(graphs::measure(args, graph, &args.apps, 1, args.rounds)?);
        bar.inc(1);
    }
    let chains = graphs::two_threads(args, &bar)?;
    bar.finish_and_clear();
    let outcomes = if cases.is_empty() { Vec::new() } else { beside::outside(args)? };
    let text = report::text(args, &lines, &chains, &outcomes, &left_out);
    match args.json {
        true => println!("{}", report::json(args, &lines, &chains, &outcomes, &left_out)),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench snabb", &Machine::this(), &text)?;
    }
    let failed = outcomes.iter().any(|outcome| outcome.error.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn check(args: &SnabbBenchArgs) -> Result<()> {
    ensure!(!args.apps.is_empty() && args.rounds > 0, "--apps and --rounds: expected at least one");
    ensure!((1..=1000).contains(&args.turns), "--turns: found {}, expected 1 to 1000", args.turns);
    let seconds = args.turn_seconds;
    ensure!((0.05..=60.0).contains(&seconds), "--turn-seconds: found {seconds}, expected 0.05 to 60");
    let packets = args.basic1;
    ensure!(
        packets >= 1_000_000,
        "--basic1: found {packets}, expected at least 1000000, or its start counts more than its packets"
    );
    machine::core(args.core)?;
    Ok(())
}
