// SPDX-License-Identifier: MIT
//! `./x bench instructions`: instructions per packet, by valgrind's callgrind, as the difference of a long and a short
//! run. They do not depend on what else the machine does.

use crate::machine::{self, Machine};
use crate::peers::{Bed, Perigee};
use crate::traffic::{self, Traffic};
use crate::worker::{Path as LoopPath, Request};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use indicatif::ProgressBar;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Arguments of `./x bench instructions`.
#[derive(Args)]
pub struct InstructionsArgs {
    /// Packets per burst, 1 to 256
    #[arg(long, value_delimiter = ',', default_value = "32,64,128")]
    bursts: Vec<usize>,
    /// Packets by which the long run is longer
    #[arg(long, default_value_t = 400_000)]
    packets: u64,
    /// Which loops
    #[arg(long = "loop", value_name = "LOOP", value_enum, value_delimiter = ',', default_values = ["io", "native", "lua"])]
    paths: Vec<LoopPath>,
    /// Keep callgrind's files of the long runs in this folder, for callgrind_annotate
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
}

/// Packets of the short run: everything is warm and compiled by then.
const SHORT: u64 = 200_000;

/// Runs it.
pub fn instructions(args: &InstructionsArgs) -> Result<ExitCode> {
    ensure!(args.bursts.iter().all(|burst| (1..=256).contains(burst)), "--bursts: a burst has 1 to 256 packets");
    let (core, other_core) = machine::cores(None)?;
    let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
    let bed = Bed { sources: vec![folder.path().join("source.pcap")], full: None, core, other_core, hugepages: false };
    traffic::write_pcap(&bed.sources[0], &Traffic::small::<u32>()?.sources[0])?;
    let bar = ProgressBar::new((args.bursts.len() * args.paths.len() * 2) as u64);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["loop".to_owned()].into_iter().chain(args.bursts.iter().map(|burst| format!("burst {burst}"))));
    let mut results = serde_json::Map::new();
    for &path in &args.paths {
        let name = format!("{path:?}").to_lowercase();
        let mut row = vec![name.clone()];
        let mut by_burst = serde_json::Map::new();
        for &burst in &args.bursts {
            let keep = args.keep.as_ref().map(|folder| folder.join(format!("callgrind.out.{name}-{burst}")));
            let out = keep.unwrap_or_else(|| folder.path().join("callgrind.out"));
            let (short, a) = count(&bed, path, burst, SHORT, &out, &bar)?;
            let (long, b) = count(&bed, path, burst, SHORT + args.packets, &out, &bar)?;
            let each = long.abs_diff(short) as f64 / b.abs_diff(a) as f64;
            row.push(format!("{each:.1}"));
            by_burst.insert(burst.to_string(), json!(each));
        }
        table.add_row(row);
        results.insert(name, by_burst.into());
    }
    bar.finish_and_clear();
    let text = format!(
        "{table}\n\nInstructions per packet, all of them: the port's receive and transmit functions included (io: with nothing\n\
         between). Callgrind, the difference between runs of {SHORT} and {} packets.\n",
        SHORT + args.packets
    );
    match args.json {
        true => println!("{}", json!({ "instructions": results })),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench instructions", &Machine::this(), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Instructions of a process that forwards this many packets, and how many it really forwarded.
fn count(bed: &Bed, path: LoopPath, burst: usize, packets: u64, out: &Path, bar: &ProgressBar) -> Result<(u64, u64)> {
    let program = std::env::current_exe().context("the program's own path is not known")?;
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--smc-check=all", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(program).args(Perigee::arguments(bed, None));
    let mut perigee = Perigee::from_command(&mut command)
        .context("valgrind did not run perigee; if it is not there: sudo apt-get install valgrind")?;
    let sample = perigee.measure(Request { path, burst, warm: u64::MAX, time: 0, packets, source: 0, table: 0 })?;
    perigee.finish()?;
    bar.inc(1);
    let text = std::fs::read_to_string(out).with_context(|| format!("callgrind has not written {}", out.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let Some(total) = total.and_then(|total| total.trim().parse().ok()) else {
        bail!("callgrind's file has no totals");
    };
    Ok((total, sample.received))
}
