// SPDX-License-Identifier: MIT
//! `./x bench linux`: what the kernel forwards on one core, by its own routing and by XDP programs.
//!
//! ```text
//!  outside    a temporary folder, waits for Ctrl-C, prints and records
//!     | unshare: namespaces for network and mounts; not for processes, so that the kernel's threads can be seen
//!  inside     `perigee gen` ── t0 ═ d0, the kernel, d1 ═ t1, which drops       two veth pairs
//! ```
//!
//! What d0 receives is worked on by a thread of the kernel's own (threaded NAPI), which is bound to the core that is
//! measured, up to the hand-over to t1; that has another such thread, on the generator's core. So a rate is per CPU
//! second of the forwarding thread: what arrived at t1 by what the scheduler says that the thread has taken.

mod inside;

use crate::machine::{self, Interrupts, Machine};
use crate::statistics::Median;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use perigee_lab::tools;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Arguments of `./x bench linux`.
#[derive(Args, Clone)]
pub struct LinuxArgs {
    /// Seconds of a measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds; each measures every way once
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Also with a full routing table, its IPv4 part: a prefix a line, plain or .gz; destinations are drawn from it
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
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

/// A way to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Way {
    /// The kernel's own forwarding.
    Linux,
    /// An XDP program that routes by the kernel's table and neighbors.
    XdpRoute,
    /// An XDP program that sends everything on, as it is.
    XdpRedirect,
}

impl Way {
    const ALL: [Way; 3] = [Way::Linux, Way::XdpRoute, Way::XdpRedirect];

    fn name(self) -> &'static str {
        match self {
            Way::Linux => "Linux",
            Way::XdpRoute => "XDP with the kernel's table",
            Way::XdpRedirect => "XDP redirect",
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Sample {
    way: Way,
    /// Routes in the kernel's table.
    routes: usize,
    /// Millions of packets that arrived per CPU second of the forwarding thread.
    mpps: f64,
    /// CPU time of that thread per second.
    busy: f64,
}

/// What the inside leaves in the folder.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Found {
    samples: Vec<Sample>,
    /// Ways that could not be measured, and why.
    left_out: BTreeMap<String, String>,
}

/// Samples of one way and table.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    routes: usize,
    mpps: Median,
    busy: f64,
    samples: Vec<f64>,
}

const FOUND: &str = "found.json";
/// How long the inside may take to end once its input is closed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs it.
pub fn linux(args: &LinuxArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.inside {
        return inside::run(args, folder);
    }
    ensure!((0.1..=60.0).contains(&args.seconds), "--seconds: found {}, expected 0.1 to 60", args.seconds);
    ensure!((1..=1000).contains(&args.rounds), "--rounds: found {}, expected 1 to 1000", args.rounds);
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root may bind the kernel's threads to cores: sudo ./x bench linux"
    );
    machine::cores(None)?;
    let path = tools::search_path();
    tools::require(&[tools::IP, tools::UNSHARE, tools::NSENTER, tools::ETHTOOL], &path, "the benchmark")?;
    let mut interrupts = Interrupts::new()?;
    let folder = tempfile::Builder::new().prefix("perigee-linux-").tempdir_in("/tmp")?;
    let good = run_inside(folder.path(), &path, &mut interrupts)?;
    // The inside has already reported what went wrong.
    let Ok(text) = std::fs::read_to_string(folder.path().join(FOUND)) else { return Ok(ExitCode::FAILURE) };
    let found: Found = serde_json::from_str(&text)?;
    let rows = rows(&found.samples);
    let text = match args.json {
        true => json!({"rows": rows, "left_out": found.left_out, "machine": Machine::this()}).to_string() + "\n",
        false => table(args, &rows, &found.left_out),
    };
    print!("{text}");
    if let Some(file) = &args.record {
        machine::record(file, "bench linux", &Machine::this(), &text)?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts this program again, inside, and waits for its end; returns whether it succeeded.
fn run_inside(folder: &std::path::Path, path: &str, interrupts: &mut Interrupts) -> Result<bool> {
    let program = std::env::current_exe().context("the program's own path is not known")?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net"]).arg(program).args(std::env::args_os().skip(1)).arg("--inside").arg(folder);
    let mut child = command.env("PATH", path).stdin(Stdio::piped()).spawn().context("unshare cannot be run")?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if let Err(interrupted) = interrupts.check() {
            drop(child.stdin.take());
            let asked = Instant::now();
            while child.try_wait()?.is_none() {
                if asked.elapsed() > PATIENCE {
                    child.kill()?;
                    bail!("{interrupted:#}, except that the process inside had to be killed");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            return Err(interrupted);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// By table, then by way.
fn rows(samples: &[Sample]) -> Vec<Row> {
    let mut by: BTreeMap<(usize, Way), Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        by.entry((sample.routes, sample.way)).or_default().push(sample);
    }
    let row = |((routes, way), of): ((usize, Way), Vec<&Sample>)| {
        let all = |value: fn(&Sample) -> f64| of.iter().map(|sample| value(sample)).collect::<Vec<f64>>();
        let samples = all(|sample| sample.mpps);
        let busy = Median::of(&all(|sample| sample.busy)).median;
        Row { name: way.name(), routes, mpps: Median::of(&samples), busy, samples }
    };
    by.into_iter().map(row).collect()
}

fn table(args: &LinuxArgs, rows: &[Row], left_out: &BTreeMap<String, String>) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["way", "routes", "Mpps per CPU second", "ns", "CPU s per s"]);
    for row in rows {
        let Median { median, low, high } = row.mpps;
        let interval = if row.mpps.width().is_finite() { format!(" [{low:.3}, {high:.3}]") } else { String::new() };
        table.add_row([
            row.name.to_owned(),
            row.routes.to_string(),
            format!("{median:.3}{interval}"),
            format!("{:.0}", 1e3 / median),
            format!("{:.2}", row.busy),
        ]);
    }
    let left_out: String = left_out.iter().map(|(name, why)| format!("{name} is left out: {why}\n")).collect();
    format!(
        "{table}\n\n{left_out}Packets of 64 bytes between two veth pairs, per CPU second of the kernel's thread that forwards, to the hand-over to the far\n\
         end; medians of {} rounds of {} s, with the interval of the sign test. Less than one CPU second a second: the generator was slower.\n",
        args.rounds, args.seconds
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_put_together_by_table_and_way() {
        let sample = |way, routes, mpps| Sample { way, routes, mpps, busy: 0.5 };
        let samples = [
            sample(Way::XdpRedirect, 8, 3.0),
            sample(Way::Linux, 8, 1.0),
            sample(Way::Linux, 8, 2.0),
            sample(Way::Linux, 8, 1.5),
            sample(Way::Linux, 900, 0.5),
        ];
        let rows = rows(&samples);
        let short: Vec<(&str, usize, f64)> = rows.iter().map(|row| (row.name, row.routes, row.mpps.median)).collect();
        assert_eq!(short, [("Linux", 8, 1.5), ("XDP redirect", 8, 3.0), ("Linux", 900, 0.5)]);
    }
}
