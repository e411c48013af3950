// SPDX-License-Identifier: MIT
//! `./x bench power`: what a worker takes of its core, and how late packets are, by idle policy and load.
//!
//! ```text
//!  outside    a temporary folder, waits for Ctrl-C, prints and records
//!     | unshare: namespaces for processes, network and mounts (and users, if not root)
//!  inside     `perigee gen` ── wan, `perigee run`, lan ── `perigee gen`        by packet sockets, by DPDK's, by TAP
//! ```
//!
//! Turns alternate the policies. Each starts a router and loads it with 0, 1, 10, 50 and 100 % of the rate that passes
//! when it polls. CPU time is the worker's thread's, as the kernel's scheduler counts it; delays are those of all
//! frames, from sender to receiver.

mod inside;
mod report;

use crate::isolated;
use crate::machine::{self, Interrupts, Machine};
use anyhow::{Result, ensure};
use clap::Args;
use perigee_lab::{isolation, tools};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `./x bench power`.
#[derive(Args, Clone)]
pub struct PowerArgs {
    /// Seconds of traffic for each policy and load
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Turns of all policies
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Ports: `socket` (packet sockets, which wake the worker), `timer` (DPDK's af_packet, which cannot), `interrupt`
    /// (TAP)
    #[arg(long, value_delimiter = ',', default_values_t = ["socket", "timer", "interrupt"].map(str::to_owned))]
    ports: Vec<String>,
    /// Loads, in percent of the rate that passes
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 1.0, 10.0, 50.0, 100.0])]
    loads: Vec<f64>,
    /// Frames per second that are 100 % [default: what is found to pass with less than 1 % loss while the worker
    /// polls]
    #[arg(long)]
    rate: Option<u64>,
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

/// The idle policies, in the configuration's words.
const POLICIES: [&str; 3] = ["poll", "sleep", "adaptive"];

/// One policy under one load on one kind of port, in one turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Sample {
    port: String,
    idle: String,
    /// Percent of the rate that passes.
    load: f64,
    /// Frames per second that were asked for.
    rate: u64,
    /// The worker's CPU time, per second of wall time.
    cpu: f64,
    /// How long it was ready to run and had no core, per second of wall time.
    waited: f64,
    /// Frames received by the worker in that time, per second.
    received: f64,
    /// Frames that the generator sent, and that did not come back.
    sent: u64,
    lost: u64,
    /// Delays of frames, in ns: median, 99 %, longest; none without load.
    delays: Option<[f64; 3]>,
}

/// The file that the inside leaves in the folder.
const SAMPLES: &str = "samples.json";
/// The way out for users who may not make namespaces.
const SUDO: &str = "sudo ./x bench power";

/// Runs it.
pub fn power(args: &PowerArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.inside {
        return inside::run(args, folder);
    }
    ensure!((0.5..=600.0).contains(&args.seconds), "--seconds: found {}, expected 0.5 to 600", args.seconds);
    ensure!((1..=1000).contains(&args.turns), "--turns: found {}, expected 1 to 1000", args.turns);
    ensure!(args.rate.is_none_or(|rate| (100..=100_000_000).contains(&rate)), "--rate: expected 100 to 100000000");
    for port in &args.ports {
        ensure!(inside::KINDS.contains(&port.as_str()), "--ports: found {port}, expected {}", inside::KINDS.join(", "));
    }
    for load in &args.loads {
        ensure!((0.0..=100.0).contains(load), "--loads: found {load}, expected percentages from 0 to 100");
    }
    let mut interrupts = Interrupts::new()?;
    let path = tools::search_path();
    tools::require(&[tools::IP, tools::UNSHARE, tools::MOUNT, tools::NSENTER], &path, "the benchmark")?;
    let isolation = isolation::isolation(&path, SUDO)?;
    let folder = tempfile::Builder::new().prefix("perigee-power-").tempdir_in("/tmp")?;
    let good = isolated::run(isolation, folder.path(), &path, &mut interrupts)?;
    // The inside has already reported what went wrong.
    let Ok(text) = std::fs::read_to_string(folder.path().join(SAMPLES)) else { return Ok(ExitCode::FAILURE) };
    let rows = report::rows(&serde_json::from_str::<Vec<Sample>>(&text)?);
    let text = if args.json { report::json(&rows)? } else { report::table(&rows) };
    print!("{text}");
    if let Some(file) = &args.record {
        machine::record(file, "bench power", &Machine::this(), &text)?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
