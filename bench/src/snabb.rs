// SPDX-License-Identifier: MIT
//! `./x bench snabb`: how fast packets go through graphs of Snabb apps, on one thread and on two.
//!
//! A process of its own measures (`perigee snabb bench`); this makes a table of its output, next to what Snabb itself did on
//! such a machine.

use crate::machine::{self, Machine};
use crate::statistics::Median;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Arguments of `./x bench snabb`.
#[derive(Args)]
pub struct SnabbBenchArgs {
    /// Numbers of forwarding apps between the two ends
    #[arg(long, value_delimiter = ',', default_value = "1,2,5,10,20,50,100")]
    apps: Vec<u16>,
    /// Graphs on one thread: chain (source, apps, sink), ports (the same between two DPDK ports)
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
    #[arg(long, default_value_t = 5)]
    pairs: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
}

/// Mpps of Snabb (2024, RaptorJIT) on one core of a Xeon at 2.5 GHz: source, n forwarding apps with push, sink, 60 bytes.
const SNABB: &[(u16, f64)] = &[(1, 70.0), (2, 58.0), (5, 34.0), (10, 22.0), (20, 12.0), (50, 3.5), (100, 1.3)];

/// A line of `perigee snabb bench`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    graph: String,
    n: u16,
    workers: u16,
    bytes: u16,
    mpps: f64,
    mpps_cpu: f64,
    garbage: f64,
    breaths: f64,
}

/// Runs it.
pub fn snabb(args: &SnabbBenchArgs) -> Result<ExitCode> {
    ensure!(!args.apps.is_empty() && args.rounds > 0, "--apps and --rounds: expected at least one");
    let bar = ProgressBar::new(args.graphs.len() as u64 + u64::from(args.pairs) * 2).with_message("measuring");
    let mut lines = Vec::new();
    for graph in &args.graphs {
        lines.extend(measure(args, graph, &args.apps, 1, args.rounds)?);
        bar.inc(1);
    }
    let chains = two_threads(args, &bar)?;
    bar.finish_and_clear();
    let text = text(args, &lines, &chains);
    if args.json {
        let chains = chains.iter().flat_map(|c| [(1, c.one), (2, c.two)].map(|(workers, mpps)| {
            json!({ "graph": "chains", "n": c.n, "workers": workers, "bytes": args.bytes, "mpps": mpps, "ratio": c.ratio })
        }));
        let all: Vec<_> = lines.iter().map(|line| json!(line)).chain(chains).collect();
        println!("{}", json!({ "snabb": all, "machine": Machine::this() }));
    } else {
        print!("{text}");
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench snabb", &Machine::this(), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &SnabbBenchArgs, graph: &str, apps: &[u16], workers: u16, rounds: u16) -> Result<Vec<Line>> {
    let program = perigee_lab::program()?;
    let list = apps.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let output = Command::new(program)
        .args(["snabb", "--workers", &workers.to_string(), "bench", "--graph", graph, "--apps", &list])
        .args(["--seconds", &args.seconds.to_string(), "--rounds", &rounds.to_string()])
        .args(["--bytes", &args.bytes.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("perigee snabb bench did not start")?;
    ensure!(output.status.success(), "perigee snabb bench failed; its message is above");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Line> =
        text.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("perigee snabb bench's output")?;
    if lines.len() != apps.len() {
        bail!("perigee snabb bench measured {} of {} graphs", lines.len(), apps.len());
    }
    Ok(lines)
}

/// Two chains on one thread and on two, in turn: how much the second thread helps.
#[derive(Debug, Clone, Serialize)]
struct Chains {
    n: u16,
    one: f64,
    two: f64,
    ratio: f64,
    low: f64,
    high: f64,
}

fn two_threads(args: &SnabbBenchArgs, bar: &ProgressBar) -> Result<Vec<Chains>> {
    let apps: Vec<u16> = args.apps.iter().copied().filter(|n| [5, 10, 20].contains(n)).collect();
    if args.pairs == 0 || apps.is_empty() {
        return Ok(Vec::new());
    }
    let mut samples = vec![(Vec::new(), Vec::new()); apps.len()];
    for pair in 0..args.pairs {
        // They take turns at going first, as the machine changes meanwhile.
        for turn in 0..2 {
            let workers = 1 + (pair + turn) % 2;
            for (sample, line) in samples.iter_mut().zip(measure(args, "chains", &apps, workers, 3)?) {
                if workers == 1 { sample.0.push(line.mpps) } else { sample.1.push(line.mpps) }
            }
            bar.inc(1);
        }
    }
    let chains = apps.iter().zip(&samples).map(|(&n, (one, two))| {
        let ratios: Vec<f64> = one.iter().zip(two).map(|(one, two)| two / one).collect();
        let ratio = Median::of(&ratios);
        Chains {
            n,
            one: Median::of(one).median,
            two: Median::of(two).median,
            ratio: ratio.median,
            low: ratio.low,
            high: ratio.high,
        }
    });
    Ok(chains.collect())
}

fn text(args: &SnabbBenchArgs, lines: &[Line], chains: &[Chains]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "graph",
        "apps",
        "Mpps",
        "ns per packet and app",
        "Snabb, Mpps",
        "of Snabb",
        "bytes of garbage per breath",
    ]);
    for line in lines {
        let reference = SNABB.iter().find(|(n, _)| *n == line.n && line.graph == "chain" && args.bytes == 60);
        table.add_row([
            line.graph.clone(),
            line.n.to_string(),
            format!("{:.1}", line.mpps_cpu),
            format!("{:.1}", 1e3 / line.mpps_cpu / f64::from(line.n + 1)),
            reference.map_or("-".to_owned(), |(_, mpps)| format!("{mpps}")),
            reference.map_or("-".to_owned(), |(_, mpps)| format!("{:.2}", line.mpps_cpu / mpps)),
            format!("{:.1}", line.garbage),
        ]);
    }
    let mut text = format!(
        "{table}\n\nPackets of {} bytes, one thread, its CPU time; medians of {} times {} s. Snabb: RaptorJIT on one core of a Xeon at\n\
         2.5 GHz, not measured here. Garbage: what Lua allocates while its collector is off; the engine's start and end included.\n",
        args.bytes, args.rounds, args.seconds
    );
    if !chains.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["apps in each of two chains", "one thread, Mpps", "two threads, Mpps", "ratio"]);
        for c in chains {
            table.add_row([
                c.n.to_string(),
                format!("{:.1}", c.one),
                format!("{:.1}", c.two),
                format!("{:.2} [{:.2}, {:.2}]", c.ratio, c.low, c.high),
            ]);
        }
        text += &format!(
            "\n{table}\n\nBy the clock, in turn: medians of {} pairs, with the interval of the sign test.\n",
            args.pairs
        );
    }
    text
}
