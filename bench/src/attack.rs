// SPDX-License-Identifier: MIT
//! `./x bench attack`: a router under floods of garbage, one kind after the other: what the others notice, and what is
//! left a minute later.
//!
//! ```text
//!  outside   a temporary folder, waits for Ctrl-C, prints and records
//!     | unshare: namespaces for processes, network and mounts (and users, if not root)
//!  inside    west ──┐                     ┌── east
//!            (host) │ `perigee run`, BIRD │  (host)
//!                   └────────── edge ─────┘
//!                                 │
//!                              switch ── peer (BIRD: OSPF, BGP)
//!                                 └───── attacker: frames as fast as asked, byte by byte
//! ```
//!
//! The attacker is on the link of the routing sessions. Meanwhile `ping` crosses the router from west to east and asks
//! the router itself; hosts that nobody has spoken to before are asked on east (from west: another port than the
//! flood's; from the peer: the same one) and on the attacked link (from west); sessions may not end; and two namespaces
//! that have nothing to do with the router, but the machine, ping each other. `inside.rs` builds this, `kinds.rs` and
//! `recipes.rs` make the frames, `reach.rs` asks hosts.

mod inside;
mod kinds;
mod reach;
mod recipes;
mod report;

use crate::isolated;
use crate::machine::{self, Interrupts, Machine};
use anyhow::{Result, ensure};
use clap::Args;
use kinds::Kind;
use perigee_lab::{isolation, tools};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `./x bench attack`.
#[derive(Args, Clone)]
pub struct AttackArgs {
    /// Kinds of garbage, by parts of their names [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Frames per second, except of scans, which have 20,000
    #[arg(long, default_value_t = 50_000)]
    rate: u64,
    /// Seconds of each flood
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds after it until memory is looked at again
    #[arg(long, default_value_t = 60.0)]
    rest: f64,
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

/// The file that the inside leaves in the folder.
const RESULTS: &str = "results.json";
/// The way out for users who may not make namespaces.
const SUDO: &str = "sudo ./x bench attack";

impl AttackArgs {
    /// The kinds asked for, in their order.
    fn kinds(&self) -> Vec<Kind> {
        let wanted = |kind: &Kind| self.only.is_empty() || self.only.iter().any(|part| kind.name().contains(part));
        Kind::all().into_iter().filter(wanted).collect()
    }
}

/// Runs it. The exit code says whether everything held.
pub fn attack(args: &AttackArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.inside {
        return inside::run(args, folder);
    }
    let names = || Kind::all().into_iter().map(Kind::name).collect::<Vec<_>>().join("\", \"");
    ensure!(!args.kinds().is_empty(), "--only: found {:?}, expected parts of \"{}\"", args.only, names());
    ensure!((100..=1_000_000).contains(&args.rate), "--rate: found {}, expected 100 to 1000000", args.rate);
    ensure!((5.0..=3600.0).contains(&args.seconds), "--seconds: found {}, expected 5 to 3600", args.seconds);
    ensure!((0.0..=3600.0).contains(&args.rest), "--rest: found {}, expected 0 to 3600", args.rest);
    let mut interrupts = Interrupts::new()?;
    let path = tools::search_path();
    let needed = [tools::IP, tools::UNSHARE, tools::MOUNT, tools::NSENTER, tools::PING, tools::BIRD, tools::BIRDC];
    tools::require(&needed, &path, "the attacks")?;
    tools::require_tun(SUDO)?;
    let isolation = isolation::isolation(&path, SUDO)?;
    let folder = tempfile::Builder::new().prefix("perigee-attack-").tempdir_in("/tmp")?;
    isolated::run(isolation, folder.path(), &path, &mut interrupts)?;
    // The inside has already reported what went wrong.
    let Ok(json) = std::fs::read_to_string(folder.path().join(RESULTS)) else { return Ok(ExitCode::FAILURE) };
    let results: report::Results = serde_json::from_str(&json)?;
    let text = report::text(args, &results);
    match args.json {
        true => println!("{json}"),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench attack", &Machine::this(), &text)?;
    }
    Ok(if results.rows.iter().all(report::Row::held) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
