// SPDX-License-Identifier: MIT
//! `./x bench xdp`: the in-kernel plane beside what the kernel forwards itself, on one core, between veth pairs.
//!
//! ```text
//!  outside    a temporary folder, waits for Ctrl-C, prints and records
//!     | network, mounts and processes of their own
//!  inside     source ── t0 ═ d0, the way to forward, d1 ═ t1, the sink        two veth pairs
//!
//!  programs   BPF programs: source, sink, redirection, routing by the kernel's table
//!  plane      the in-kernel plane with a table, and changes of it
//!  planes     `perigee run` with each kind of port, for --planes
//!  tables     which routes, which destinations
//!  scene      the inside
//!  report     what is printed
//! ```
//!
//! The source is an XDP program that writes the headers of frames in place (BPF_PROG_TEST_RUN with live frames): a
//! source of socket buffers would have veth copy each packet for a program, and measure that. Source, router and sink
//! share one core, so that a rate is that of all three; XDP that only redirects shows what the others leave for a
//! router.

mod plane;
mod planes;
mod programs;
mod report;
mod scene;
mod tables;

use crate::isolated;
use crate::machine::{self, Interrupts, Machine};
use anyhow::{Result, ensure};
use clap::Args;
use perigee_lab::{Isolation, tools};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;
use tables::{Size, Table};

/// Arguments of `./x bench xdp`.
#[derive(Args, Clone)]
pub struct XdpArgs {
    /// Seconds of a measurement
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,
    /// Rounds; each measures every way once
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// The full table: a prefix a line, plain or .gz; without it, one of the Internet's size and shape
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// The in-kernel plane's structure for IPv4: auto, dirb or bm19
    #[arg(long, value_name = "NAME", default_value = "auto")]
    structure: String,
    /// `perigee run` with each kind of port instead: the in-kernel plane, AF_XDP and packet sockets, DPDK's drivers
    #[arg(long, conflicts_with = "structure")]
    planes: bool,
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

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Family {
    Ipv4,
    Ipv6,
}

/// A way to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Way {
    /// The kernel's own forwarding.
    Linux,
    /// The in-kernel plane behind the driver, on socket buffers.
    Generic,
    /// An XDP program that routes by the kernel's table and neighbors, as xdp-forward does.
    Route,
    /// The in-kernel plane in the driver.
    Plane,
    /// An XDP program that sends everything on, as it is.
    Redirect,
}

impl Way {
    const ALL: [Way; 5] = [Way::Linux, Way::Generic, Way::Route, Way::Plane, Way::Redirect];

    fn name(self) -> &'static str {
        match self {
            Way::Linux => "Linux",
            Way::Generic => "the in-kernel plane behind the driver",
            Way::Route => "XDP with bpf_fib_lookup",
            Way::Plane => "the in-kernel plane",
            Way::Redirect => "XDP redirect",
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Sample {
    /// Millions of packets a second, and how many of those sent did not arrive.
    Rate { way: Way, mpps: f64, missing: u64 },
    /// How much longer than an empty program the plane takes for a packet, and one with bpf_fib_lookup.
    Program { ns: f64, fib_lookup_ns: f64 },
    /// A router with such ports: Mpps, and CPU seconds per second while no packet comes.
    Ports { ports: planes::Ports, mpps: f64, idle: f64 },
    /// Changes of routes while packets are forwarded, which all have another route, and how many of them did not
    /// arrive.
    Changes { per_second: f64, lost: u64, packets: u64 },
}

/// What the inside leaves in the folder.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Found {
    tables: Vec<FoundTable>,
}

/// What was found with a table.
#[derive(Debug, Serialize, Deserialize)]
struct FoundTable {
    size: Size,
    family: Family,
    routes: usize,
    /// By round.
    rounds: Vec<Vec<Sample>>,
}

impl Found {
    fn push(&mut self, table: &Table, round: usize, sample: Sample) {
        let (size, family) = (table.size, table.family);
        if !self.tables.iter().any(|found| (found.size, found.family) == (size, family)) {
            self.tables.push(FoundTable { size, family, routes: table.routes.len(), rounds: Vec::new() });
        }
        let found = self.tables.iter_mut().find(|found| (found.size, found.family) == (size, family));
        if let Some(found) = found {
            if found.rounds.len() <= round {
                found.rounds.resize(round + 1, Vec::new());
            }
            found.rounds[round].push(sample);
        }
    }
}

const FOUND: &str = "found.json";

/// Runs it.
pub fn xdp(args: &XdpArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.inside {
        return scene::run(args, folder);
    }
    ensure!((0.05..=60.0).contains(&args.seconds), "--seconds: found {}, expected 0.05 to 60", args.seconds);
    ensure!((1..=1000).contains(&args.rounds), "--rounds: found {}, expected 1 to 1000", args.rounds);
    ensure!(
        ["auto", "dirb", "bm19"].contains(&&*args.structure),
        "--structure: found {:?}, expected auto, dirb or bm19",
        args.structure
    );
    ensure!(rustix::process::geteuid().is_root(), "only root may load XDP programs: sudo ./x bench xdp");
    machine::cores(None)?;
    let path = tools::search_path();
    tools::require(&[tools::IP, tools::UNSHARE, tools::NSENTER, tools::ETHTOOL], &path, "the benchmark")?;
    let mut interrupts = Interrupts::new()?;
    let folder = tempfile::Builder::new().prefix("perigee-xdp-").tempdir_in("/tmp")?;
    let good = isolated::run(Isolation::Root, folder.path(), &path, &mut interrupts)?;
    // The inside has already reported what went wrong.
    let Ok(text) = std::fs::read_to_string(folder.path().join(FOUND)) else { return Ok(ExitCode::FAILURE) };
    let found = serde_json::from_str(&text)?;
    let text = match args.planes {
        true => report::planes(args, &found)?,
        false => {
            let rows = report::rows(&found);
            if args.json { serde_json::to_string_pretty(&rows)? + "\n" } else { report::table(args, &rows) }
        }
    };
    print!("{text}");
    if let Some(file) = &args.record {
        machine::record(file, "bench xdp", &Machine::this(), &text)?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
