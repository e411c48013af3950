// SPDX-License-Identifier: MIT
//! `./x bench instructions`: instructions per packet, by valgrind's callgrind, as the difference of a long and a short
//! run. They do not depend on what else the machine does.

mod trend;

use crate::machine::{self, Machine};
use crate::peers::{Bed, Perigee};
use crate::statistics::Median;
use crate::traffic::{self, Traffic};
use crate::worker::{Path as LoopPath, Request};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use indicatif::ProgressBar;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

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
    /// Address family of all packets: 4 or 6
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(4..=6))]
    family: u8,
    /// Filter rules that every packet passes
    #[arg(long, default_value_t = 0)]
    filters: u16,
    /// A short count at one burst size, beside the last records in a file of results; nothing is added to it
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = "bench/RESULTS.md",
        conflicts_with_all = ["bursts", "packets", "paths", "family", "filters", "json", "record"]
    )]
    trend: Option<PathBuf>,
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
/// Counts of which the median is taken: LuaJIT compiles and collects at other times in each process, which is worth up
/// to ten instructions per packet of the difference between two of them.
const LUA_COUNTS: usize = 3;
/// What a burst of 64 takes at full speed, about, in ns: by this the clock of the counted process goes on in each
/// round, whatever its burst.
const STEP: u64 = 2_000;

/// Instructions per packet of each loop, by burst size.
type Counts = Vec<(LoopPath, Vec<(usize, f64)>)>;

/// Runs it.
pub fn instructions(args: &InstructionsArgs) -> Result<ExitCode> {
    ensure!(args.bursts.iter().all(|burst| (1..=256).contains(burst)), "--bursts: a burst has 1 to 256 packets");
    ensure!(args.family != 5, "--family: found 5, expected 4 or 6");
    ensure!(args.packets > 0, "--packets: found 0, expected at least 1");
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    ensure!(
        valgrind.is_ok_and(|status| status.success()),
        "valgrind cannot be run, and it counts the instructions: sudo apt-get install valgrind"
    );
    if let Some(records) = &args.trend {
        return trend::trend(records);
    }
    let counts = counted(args)?;
    let text = format!(
        "{}\n\nInstructions per packet, all of them: the port's receive and transmit functions included (io: with nothing\n\
         between). Callgrind, the difference between runs of {SHORT} and {} packets of IPv{}; lua: the median of {LUA_COUNTS} such.\n",
        table(&counts),
        SHORT + args.packets,
        args.family,
    );
    match args.json {
        true => println!("{}", as_json(&counts)),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench instructions", &Machine::this(), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn counted(args: &InstructionsArgs) -> Result<Counts> {
    let (core, other_core) = machine::cores(None)?;
    let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
    let bed = Bed { sources: vec![folder.path().join("source.pcap")], full: None, core, other_core, hugepages: false };
    let traffic = if args.family == 6 { Traffic::small::<u128>()? } else { Traffic::small::<u32>()? };
    traffic::write_pcap(&bed.sources[0], &traffic.sources[0])?;
    let pairs: usize = args.paths.iter().map(|path| counts_of(*path)).sum();
    let bar = ProgressBar::new((args.bursts.len() * pairs * 2) as u64);
    let mut counts = Vec::new();
    for &path in &args.paths {
        let mut of_loop = Vec::new();
        for &burst in &args.bursts {
            let keep = args.keep.as_ref().map(|folder| folder.join(format!("callgrind.out.{}-{burst}", path.name())));
            let out = keep.unwrap_or_else(|| folder.path().join("callgrind.out"));
            let count = |_| each(&bed, path, burst, args, &out, &bar);
            let all = (0..counts_of(path)).map(count).collect::<Result<Vec<_>>>()?;
            of_loop.push((burst, Median::of(&all).median));
        }
        counts.push((path, of_loop));
    }
    bar.finish_and_clear();
    Ok(counts)
}

fn counts_of(path: LoopPath) -> usize {
    if path == LoopPath::Lua { LUA_COUNTS } else { 1 }
}

/// A row for each loop, and one for what it needs over the empty one.
fn table(counts: &Counts) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let bursts = counts.first().map_or(&[][..], |(_, of_loop)| of_loop);
    table.set_header(["loop".to_owned()].into_iter().chain(bursts.iter().map(|(burst, _)| format!("burst {burst}"))));
    let io = counts.iter().find(|(path, _)| *path == LoopPath::Io).map(|(_, of_loop)| of_loop);
    for (path, of_loop) in counts {
        let row = |name: String, values: Vec<f64>| {
            [name].into_iter().chain(values.into_iter().map(|value| format!("{value:.1}"))).collect::<Vec<_>>()
        };
        table.add_row(row(path.name().to_owned(), of_loop.iter().map(|(_, each)| *each).collect()));
        if let Some(io) = io
            && *path != LoopPath::Io
        {
            let over = of_loop.iter().zip(io).map(|((_, each), (_, io))| each - io);
            table.add_row(row(format!("{} over io", path.name()), over.collect()));
        }
    }
    table
}

fn as_json(counts: &Counts) -> serde_json::Value {
    let by_burst = |of_loop: &Vec<(usize, f64)>| -> serde_json::Map<String, serde_json::Value> {
        of_loop.iter().map(|(burst, each)| (burst.to_string(), json!(each))).collect()
    };
    counts.iter().map(|(path, of_loop)| (path.name().to_owned(), json!(by_burst(of_loop)))).collect()
}

/// Instructions per packet: the difference between a run of [`SHORT`] packets and one that is longer.
fn each(
    bed: &Bed,
    path: LoopPath,
    burst: usize,
    args: &InstructionsArgs,
    out: &Path,
    bar: &ProgressBar,
) -> Result<f64> {
    let run = |packets: u64| {
        let counted = count(bed, path, burst, packets, args.filters, out)?;
        bar.inc(1);
        Ok::<_, anyhow::Error>(counted)
    };
    let (start, a) = run(SHORT)?;
    let (end, b) = run(SHORT + args.packets)?;
    ensure!(b > a, "the long run forwarded {b} packets and the short one {a}; expected more in the long one");
    Ok(end.abs_diff(start) as f64 / (b - a) as f64)
}

/// Instructions of a process that forwards this many packets, and how many it really forwarded.
fn count(bed: &Bed, path: LoopPath, burst: usize, packets: u64, filters: u16, out: &Path) -> Result<(u64, u64)> {
    let program = std::env::current_exe().context("the program's own path is not known")?;
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--smc-check=all", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(program).args(Perigee::arguments(bed, None)).arg(format!("--filters={filters}"));
    let mut perigee = Perigee::from_command(&mut command).context("valgrind did not run perigee")?;
    let sample =
        perigee.measure(Request { path, burst, warm: u64::MAX, time: 0, packets, step: STEP, source: 0, table: 0 })?;
    perigee.finish()?;
    let text = std::fs::read_to_string(out).with_context(|| format!("callgrind has not written {}", out.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let Some(total) = total.and_then(|total| total.trim().parse().ok()) else {
        bail!("callgrind's file has no totals");
    };
    Ok((total, sample.received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_at_the_top_of_the_json_and_the_table_shows_what_is_over_io() {
        let counts =
            vec![(LoopPath::Io, vec![(32, 270.0), (64, 260.0)]), (LoopPath::Lua, vec![(32, 381.5), (64, 360.0)])];
        assert_eq!(as_json(&counts), json!({"io": {"32": 270.0, "64": 260.0}, "lua": {"32": 381.5, "64": 360.0}}));
        let text = table(&counts).to_string();
        assert!(text.contains("| lua over io | 111.5    | 100.0    |"), "{text}");
        assert!(!text.contains("io over io"), "{text}");
    }
}
