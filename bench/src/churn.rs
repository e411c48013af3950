// SPDX-License-Identifier: MIT
//! `./x bench churn`: the router under a full table and under the highest rate of route changes, with Linux's real
//! routing table between the source of the routes and the router.
//!
//! ```text
//!  outside   hugepages, a temporary folder, waits for Ctrl-C, prints and records
//!     | unshare: namespaces for processes, network and mounts (and users, if not root)
//!  inside    pump (netlink.rs) -> Linux's table -> netlink -> `perigee run` (router.rs), which forwards without a pause
//!            measure.rs: one lookup structure's turn     bgp.rs: the same table from BIRD to BIRD over BGP
//! ```

mod bgp;
mod inside;
mod measure;
pub mod netlink;
mod report;
mod router;
mod table;

use crate::isolated;
use crate::machine::{self, Hugepages, Interrupts, Machine};
use crate::table as prefixes;
use anyhow::{Result, ensure};
use clap::Args;
use perigee_dpdk as dpdk;
use perigee_fib::structures::{DEFAULT4, DEFAULT6};
use perigee_lab::isolation::{self, Isolation};
use perigee_lab::tools;
use perigee_router::Lookups;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `./x bench churn`.
#[derive(Args, Clone)]
pub struct ChurnArgs {
    /// A routing table: a prefix a line, both families, plain or .gz [default: synthetic, of the Internet's size and
    /// shape]
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Which lookup structures [default: all but rte_lpm, which needs minutes for the table]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    structures: Vec<String>,
    /// Pairs of a quiet window and one with changes
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Seconds of a quiet window, and of one with changes at least
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Routes that are withdrawn and announced again
    #[arg(long, default_value_t = 100_000)]
    changes: usize,
    /// Different gateways of each family; Linux compares a new IPv4 route with those of all the others
    #[arg(long, value_name = "N", default_value_t = 8)]
    next_hops: u32,
    /// Resyncs of the full table, and loads of it from a dump, each paired with a bare netlink dump
    #[arg(long, value_name = "N", default_value_t = 5)]
    resyncs: usize,
    /// Different packets, each to a random destination whose route does not change
    #[arg(long, value_name = "N", default_value_t = 4096)]
    destinations: usize,
    /// Seconds that a structure may take for the full table, or for a window's changes
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// Instead: the full table announced by BIRD to BIRD over BGP through the router
    #[arg(long)]
    bgp: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The worker's core [default: the last this process may use]
    #[arg(long)]
    core: Option<usize>,
    /// Reserve this many hugepages of 2 MB first, and give them back (root only)
    #[arg(long, value_name = "N")]
    hugepages: Option<u64>,
    /// Print JSON: an array with an object per structure
    #[arg(long)]
    json: bool,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
    /// The temporary folder: this process is already inside
    #[arg(long, hide = true, value_name = "FOLDER")]
    inside: Option<PathBuf>,
}

/// The files that the inside leaves in the folder.
const TEXT: &str = "results.txt";
const JSON: &str = "results.json";
/// The way out for users who may not make namespaces.
const SUDO: &str = "sudo ./x bench churn";
/// Left out unless asked for: 2,000 changes per second are not enough for a table of a million.
const SLOW: &str = "rte_lpm";

/// A lookup structure and its family.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    name: String,
    family: u8,
}

impl Subject {
    /// The names of the router's structures: the other family has the default.
    fn fib(&self) -> (String, String) {
        match self.family {
            4 => (self.name.clone(), DEFAULT6.name.to_owned()),
            _ => (DEFAULT4.name.to_owned(), self.name.clone()),
        }
    }
}

/// All lookup structures of a router.
fn lookups() -> Lookups {
    Lookups::default().and(dpdk::fib::IPV4, dpdk::fib::IPV6)
}

/// The requested structures.
fn subjects(args: &ChurnArgs) -> Result<Vec<Subject>> {
    let names = lookups().names();
    let subject = |name: &String, family| Subject { name: name.clone(), family };
    let (v4, v6) = (names.v4.iter().map(|name| subject(name, 4)), names.v6.iter().map(|name| subject(name, 6)));
    let all: Vec<Subject> = v4.chain(v6).collect();
    for name in &args.structures {
        ensure!(
            all.iter().any(|subject| subject.name == *name),
            "--structures: found {name:?}, expected some of these: {} (IPv4); {} (IPv6)",
            names.v4.join(", "),
            names.v6.join(", ")
        );
    }
    let wanted = |subject: &Subject| match args.structures.is_empty() {
        true => subject.name != SLOW,
        false => args.structures.contains(&subject.name),
    };
    Ok(all.into_iter().filter(wanted).collect())
}

/// Runs it. The exit code says whether no packet was lost and nothing differed in the end.
pub fn churn(args: &ChurnArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.inside {
        return inside::run(args, folder);
    }
    check(args)?;
    let mut interrupts = Interrupts::new()?;
    let path = tools::search_path();
    let isolation = isolation(args, &path)?;
    let hugepages = Hugepages::reserve(args.hugepages, 0)?;
    let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir_in("/tmp")?;
    let good = isolated::run(isolation, folder.path(), &path, &mut interrupts)?;
    drop(hugepages);
    let read = |name: &str| fs::read_to_string(folder.path().join(name));
    // The inside has already reported what went wrong.
    let Ok(text) = read(TEXT) else { return Ok(ExitCode::FAILURE) };
    match args.json {
        true => println!("{}", read(JSON)?),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench churn", &Machine::this(), &text)?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(args: &ChurnArgs) -> Result<()> {
    let most = table::MOST_GATEWAYS;
    ensure!((0.01..=3600.0).contains(&args.seconds), "--seconds: found {}, expected 0.01 to 3600", args.seconds);
    ensure!(args.pairs > 0 && args.resyncs > 0, "--pairs, --resyncs: found 0, expected at least 1");
    ensure!((1..=most).contains(&args.next_hops), "--next-hops: found {}, expected 1 to {most}", args.next_hops);
    ensure!(
        (1..=1_000_000).contains(&args.destinations),
        "--destinations: found {}, expected 1 to 1000000",
        args.destinations
    );
    ensure!(args.changes > 0, "--changes: found 0, expected at least 1");
    subjects(args)?;
    // A mistake in the file is reported before anything is started.
    args.routes.as_deref().map(prefixes::read).transpose()?;
    machine::core(args.core)?;
    Ok(())
}

/// How namespaces can be made; an error if a program is missing.
fn isolation(args: &ChurnArgs, path: &str) -> Result<Isolation> {
    let mut needed = vec![tools::IP, tools::UNSHARE, tools::MOUNT];
    if args.bgp {
        needed.extend([tools::NSENTER, tools::BIRD, tools::BIRDC, tools::ETHTOOL]);
    }
    tools::require(&needed, path, "the benchmark")?;
    tools::require_tun(SUDO)?;
    isolation::isolation(path, SUDO)
}

/// MB of DPDK's memory for this many packet buffers and these structures.
fn memory(mbufs: usize, fib: &(String, String), (v4, v6): (usize, usize)) -> u32 {
    let buffers = (mbufs * 2560) >> 20;
    64 + buffers as u32 + dpdk::fib::memory_mb(&fib.0, v4) + dpdk::fib::memory_mb(&fib.1, v6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ChurnArgs,
    }

    fn args(words: &[&str]) -> ChurnArgs {
        Line::parse_from(["churn"].iter().chain(words)).args
    }

    #[test]
    fn structures_of_both_families_are_chosen_by_name() {
        let subject = |name: &str, family| Subject { name: name.to_owned(), family };
        let both = subjects(&args(&["--structures", "poptrie,auto"])).unwrap();
        assert_eq!(both.iter().filter(|s| **s == subject("poptrie", 4) || **s == subject("poptrie", 6)).count(), 2);
        assert!(both.contains(&subject("auto", 4)));
        let all = subjects(&args(&[])).unwrap();
        assert!(all.len() > 10 && !all.contains(&subject(SLOW, 4)));
        assert_eq!(subject("trie6", 6).fib(), ("auto".to_owned(), "trie6".to_owned()));
        let error = subjects(&args(&["--structures", "nonsense"])).unwrap_err().to_string();
        assert!(error.contains("nonsense") && error.contains("poptrie"), "{error}");
    }

    #[test]
    fn bad_numbers_are_refused() {
        for words in [["--seconds", "0"], ["--pairs", "0"], ["--next-hops", "70000"], ["--changes", "0"]] {
            let error = check(&args(&words)).unwrap_err().to_string();
            assert!(error.contains(words[0]), "{error}");
        }
        assert!(check(&args(&[])).is_ok());
    }
}
