// SPDX-License-Identifier: MIT
//! `./x soak`: a router under traffic for long, while everything around it changes, flaps and dies.
//!
//! ```text
//!  outside    a temporary folder, waits for Ctrl-C, prints and records
//!     | unshare: namespaces for processes, network and mounts (and users, if not root)
//!  inside     tester ── wan ┐                        ┌ flap ── peer, with BIRD
//!             (`perigee gen`)│ `perigee run`, BIRD   │
//!             tester ── lan ┘  events.rs disturbs it ┘
//!             samples.rs: memory, descriptors, gaps of the worker, and what the machine did meanwhile
//! ```
//!
//! Every lost frame has to be in a counter. Memory may grow by a tenth between the first and the last fifth of the time,
//! and by the VMs of hostile scripts that were stopped, which stay in memory. All of a gap of the worker's loop except a
//! millisecond has to be the machine's: in the same 50 ms the worker was ready to run and did not, the hypervisor had
//! the core, or a thread of real-time priority was woken late on it.

mod events;
mod hostile;
mod inside;
mod report;
mod samples;
pub mod traffic;

use crate::isolated;
use crate::machine::{self, Interrupts, Machine};
use anyhow::{Result, ensure};
use clap::Args;
use perigee_lab::{isolation, tools};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `./x soak`.
#[derive(Args, Clone)]
pub struct SoakArgs {
    /// Minutes of traffic
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Frames per second [default: 90 % of what is found to pass without loss]
    #[arg(long)]
    rate: Option<u64>,
    /// Seconds between two events, on average
    #[arg(long, default_value_t = 2.0)]
    pause: f64,
    /// Seed of the events
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
    /// The temporary folder: this process is already inside
    #[arg(long, hide = true, value_name = "FOLDER")]
    inside: Option<PathBuf>,
}

/// The file that the inside leaves in the folder.
const TEXT: &str = "results.txt";
/// The way out for users who may not make namespaces.
const SUDO: &str = "sudo ./x soak";

/// Runs it. The exit code says whether everything held.
pub fn soak(args: &SoakArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.inside {
        return inside::run(args, folder);
    }
    ensure!((0.1..=10_080.0).contains(&args.minutes), "--minutes: found {}, expected 0.1 to 10080", args.minutes);
    ensure!((0.05..=600.0).contains(&args.pause), "--pause: found {}, expected 0.05 to 600", args.pause);
    ensure!(args.rate.is_none_or(|rate| (100..=100_000_000).contains(&rate)), "--rate: expected 100 to 100000000");
    let mut interrupts = Interrupts::new()?;
    let path = tools::search_path();
    let needed = [tools::IP, tools::UNSHARE, tools::MOUNT, tools::NSENTER, tools::BIRD, tools::BIRDC];
    tools::require(&needed, &path, "the soak")?;
    tools::require_tun(SUDO)?;
    let isolation = isolation::isolation(&path, SUDO)?;
    let folder = tempfile::Builder::new().prefix("perigee-soak-").tempdir_in("/tmp")?;
    let good = isolated::run(isolation, folder.path(), &path, &mut interrupts)?;
    // The inside has already reported what went wrong.
    let Ok(text) = std::fs::read_to_string(folder.path().join(TEXT)) else { return Ok(ExitCode::FAILURE) };
    print!("{text}");
    if let Some(file) = &args.record {
        machine::record(file, "soak", &Machine::this(), &text)?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
