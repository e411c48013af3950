// SPDX-License-Identifier: MIT
//! `./x bench ns3`: packets per second that the ns-3 module simulates, from two of its examples: the published case
//! study, and the router with eight cores. Both check themselves against closed forms, so the counted packets are right
//! as well.

use crate::machine::{self, Machine};
use crate::statistics::Median;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use indicatif::ProgressBar;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Arguments of `./x bench ns3`.
#[derive(Args)]
pub struct Ns3Args {
    /// Where `./x ns3` has put the module's programs [default: ns3, beside the folder of this program]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Runs of each example; medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
}

/// The examples, with a description of each.
const EXAMPLES: [(&str, &str); 2] = [
    ("softrouter-case-study", "published table, three models"),
    ("softrouter-eight-cores", "1 to 8 cores, six frame sizes, two models"),
];

/// One run.
struct Run {
    /// Packets that were simulated.
    packets: f64,
    /// CPU time, s.
    cpu: f64,
    /// Time of day, s.
    time: f64,
}

/// Runs it.
pub fn ns3(args: &Ns3Args) -> Result<ExitCode> {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => beside_this_program()?,
    };
    let bar = ProgressBar::new(u64::from(args.rounds) * EXAMPLES.len() as u64);
    let mut runs: Vec<Vec<Run>> = EXAMPLES.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.rounds {
        for ((name, _), runs) in EXAMPLES.iter().zip(&mut runs) {
            runs.push(run(&folder.join(name))?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["example", "what", "packets", "time s", "CPU time s", "million packets per CPU second"]);
    let mut results = serde_json::Map::new();
    for ((name, what), runs) in EXAMPLES.iter().zip(&runs) {
        let of = |value: &dyn Fn(&Run) -> f64| Median::of(&runs.iter().map(value).collect::<Vec<f64>>()).median;
        let (packets, cpu, time) = (of(&|run| run.packets), of(&|run| run.cpu), of(&|run| run.time));
        let rate = of(&|run| run.packets / run.cpu / 1e6);
        let cells = [format!("{packets:.0}"), format!("{time:.1}"), format!("{cpu:.1}"), format!("{rate:.2}")];
        table.add_row([(*name).to_owned(), (*what).to_owned()].into_iter().chain(cells));
        results.insert(
            (*name).to_owned(),
            json!({ "packets": packets, "seconds": time, "cpu_seconds": cpu, "mpps": rate }),
        );
    }
    let text = format!(
        "{table}\n\nEach on one core, medians of {} runs, start and end of the process included.\n",
        args.rounds
    );
    match args.json {
        true => println!("{}", json!({ "ns3": results })),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench ns3", &Machine::this(), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `target/ns3`, if this program is in `target/release` or `target/debug`.
pub fn beside_this_program() -> Result<PathBuf> {
    let program = std::env::current_exe().context("the program's own path is not known")?;
    let folder = program.parent().and_then(Path::parent).map(|target| target.join("ns3"));
    folder
        .filter(|folder| folder.is_dir())
        .context("the ns-3 module is not built; `./x ns3` does that, or name its --folder")
}

/// Runs an example once.
fn run(program: &Path) -> Result<Run> {
    let before = machine::children_time()?;
    let start = Instant::now();
    let output = Command::new(program)
        .arg("--csv=none")
        .output()
        .with_context(|| format!("{} does not run; `./x ns3` builds it", program.display()))?;
    let time = start.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(packets) = text.lines().find_map(|line| line.split_once(" packets in ")?.0.trim().parse().ok()) else {
        bail!("{} did not say how many packets it simulated", program.display());
    };
    Ok(Run { packets, cpu: machine::children_time()? - before, time })
}
