// SPDX-License-Identifier: MIT
//! `./x bench forward`: how fast one core forwards, how much of the time is not bare I/O, and how fast others are.
//!
//! All programs stay alive on the same core and forward in turn, for a fraction of a second each, so that all of
//! them see the same machine. A round gives one rate of each; comparisons are made within a round.

mod contest;
mod report;
mod results;

use crate::machine::{self, Hugepages, Interrupts, Priority};
use crate::peers::{Bed, L3FWD_MEMORY, L3fwd, Lookup, Perigee, Rules, fill, places};
use crate::table::{self, Pattern};
use crate::traffic::{self, PACKETS, Routed, Traffic};
use crate::worker::{FullTable, MEMORY, Path as LoopPath, Request};
use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use contest::{Contest, PREFIX, Recruit};
use indicatif::{ProgressBar, ProgressStyle};
use perigee_fib::PrefixList;
use results::{LeftOut, Results};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `./x bench forward`.
#[derive(Args)]
pub struct ForwardArgs {
    /// Seconds per measurement
    #[arg(long, default_value_t = 0.15)]
    seconds: f64,
    /// Rounds; each measures every program once per burst size
    #[arg(long, default_value_t = 41)]
    pairs: usize,
    /// Packets per burst, 1 to 256
    #[arg(long, value_delimiter = ',', default_value = "32,64,128")]
    bursts: Vec<usize>,
    /// A full routing table instead of 8 routes: a prefix a line, plain or .gz; destinations are drawn from it
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Leave IPv6 out
    #[arg(long)]
    no_ipv6: bool,
    /// Others to compare with, built from Debian's sources the first time; with a full table, rte_lpm takes minutes to
    /// load
    #[arg(long, value_name = "PEER", value_enum, value_delimiter = ',')]
    peers: Vec<Peer>,
    /// Any other program with DPDK: its name and a line for the shell, in which {device}, {sink}, {core},
    /// {file_prefix}, {memory} and others are filled in (bench/README.md); may be repeated
    #[arg(long = "peer", value_name = "NAME=COMMAND", value_parser = named)]
    commands: Vec<(String, String)>,
    /// The core to measure on [default: the last this process may use]
    #[arg(long)]
    core: Option<usize>,
    /// Reserve this many hugepages of 2 MB first, and give them back (root only)
    #[arg(long, value_name = "N")]
    hugepages: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
}

/// A program that the benchmark knows how to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// DPDK's example l3fwd, with both of its lookups for IP
    L3fwd,
}

/// How long a program of `--peer` may take until it receives.
const PATIENCE: Duration = Duration::from_secs(60);
/// Next hops of a full table, and the seed of everything random about it.
const NEXT_HOPS: u32 = 250;
const SEED: u64 = 1;

fn named(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, command)| !name.is_empty() && !command.trim().is_empty());
    let (name, command) = parts.ok_or_else(|| format!("found {text:?}, expected NAME=COMMAND"))?;
    Ok((name.to_owned(), command.to_owned()))
}

/// What is forwarded in one family, and by which routes.
struct Course {
    family: u8,
    bed: Bed,
    traffic: Traffic,
    /// The same routes for l3fwd.
    rules: Rules,
    /// The routes, for people.
    routes: String,
}

/// What all programs share.
struct Ground<'a> {
    folder: &'a Path,
    core: usize,
    other_core: usize,
    hugepages: bool,
}

/// Runs it.
pub fn forward(args: &ForwardArgs) -> Result<ExitCode> {
    ensure!(args.bursts.iter().all(|burst| (1..=256).contains(burst)), "--bursts: a burst has 1 to 256 packets");
    ensure!((0.01..=3600.0).contains(&args.seconds) && args.pairs > 0, "--seconds: at least 0.01; --pairs: at least 1");
    let (core, two) = (machine::core(args.core)?, machine::cores(args.core));
    let other_core = two.as_ref().map_or(core, |(_, other)| *other);
    let mut interrupts = Interrupts::new()?;
    let peers = args.peers.len() * Lookup::ALL.len() + args.commands.len();
    let hugepages = Hugepages::reserve(args.hugepages, 3 * MEMORY + peers as u32 * L3FWD_MEMORY)?;
    let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
    let ground = Ground { folder: folder.path(), core, other_core, hugepages: hugepages.enough };
    let list = args.routes.as_deref().map(table::read).transpose()?;
    let four = course::<u32>(args, list.as_ref(), &ground)?.context("the file has no IPv4 prefix; expected one")?;
    let six = if args.no_ipv6 { None } else { course::<u128>(args, list.as_ref(), &ground)? };
    let others = commands(args, &four)?;
    // Mistakes in what was asked for come first.
    two?;
    let mut left_out = LeftOut::default();
    if six.is_none() && !args.no_ipv6 {
        left_out.add("IPv6", "the file has no IPv6 prefix");
    }
    let contests = 1 + usize::from(six.is_some() && !args.peers.is_empty());
    let bar = progress(((args.pairs * args.bursts.len() * contests) + 2 + 2 * usize::from(six.is_some())) as u64);
    let mut verified = 0;
    for course in [Some(&four), six.as_ref()].into_iter().flatten() {
        verified += verify(course, &bar)?;
        interrupts.check()?;
    }
    let l3fwd = match args.peers.contains(&Peer::L3fwd) {
        true => L3fwd::build(&|doing| bar.set_message(doing.to_owned()))
            .map_err(|error| left_out.add("l3fwd", &format!("{error:#}")))
            .ok(),
        false => None,
    };
    let priority = Priority::best();
    let contest = Contest::start(Some(&four), six.as_ref(), priority)?;
    let mut recruits = l3fwd.as_ref().map_or_else(|| Ok(Vec::new()), |l3fwd| lookups(l3fwd, &four))?;
    recruits.extend(others);
    let rounds = contest.run(args, &recruits, &bar, &mut interrupts, &mut left_out)?;
    // l3fwd's tables of IPv6 take the place of those of IPv4.
    let rounds6 = match (&l3fwd, &six) {
        (Some(l3fwd), Some(six)) => {
            let contest = Contest::start(None, Some(six), priority)?;
            contest.run(args, &lookups(l3fwd, six)?, &bar, &mut interrupts, &mut left_out)?
        }
        _ => Default::default(),
    };
    bar.finish_and_clear();
    let results = Results::new(args, &four, six.as_ref(), verified, priority, [&rounds, &rounds6], left_out);
    finish(args, &results)
}

fn finish(args: &ForwardArgs, results: &Results) -> Result<ExitCode> {
    let text = report::text(results);
    match args.json {
        true => println!("{}", serde_json::to_string(results)?),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench forward", &results.machine, &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The small table, or a file's in the default structure, and packets to random destinations in it; none without a
/// prefix of the family.
fn course<A: Routed>(args: &ForwardArgs, list: Option<&PrefixList>, ground: &Ground<'_>) -> Result<Option<Course>> {
    let (traffic, full, entries, routes) = match (&args.routes, list) {
        (Some(file), Some(list)) => {
            let entries = table::entries::<A>(Some(list), NEXT_HOPS, SEED);
            if entries.is_empty() {
                return Ok(None);
            }
            let addresses = Pattern::Routed.addresses(&entries, 2 * PACKETS, SEED);
            let structure = A::default_structure().to_owned();
            let routes = format!(
                "the {} IPv{} routes of {} in {structure}, {NEXT_HOPS} neighbors over {} ports",
                entries.len(),
                A::NUMBER,
                file.display(),
                traffic::PORTS
            );
            let (seed, structures) = (SEED, vec![structure]);
            let routes_of = Some(file.to_owned());
            let full =
                FullTable { routes: routes_of, family: A::NUMBER, next_hops: NEXT_HOPS, seed, structures, memory: 0 };
            (Traffic::full(&entries, &[addresses])?, Some(full), entries, routes)
        }
        _ => {
            let routes = format!("8 routes over {} ports", traffic::PORTS);
            (Traffic::small::<A>()?, None, Traffic::small_table::<A>(), routes)
        }
    };
    let sources = vec![ground.folder.join(format!("source{}.pcap", A::NUMBER))];
    let Ground { core, other_core, hugepages, .. } = *ground;
    let bed = Bed { sources, full, core, other_core, hugepages };
    traffic::write_pcap(&bed.sources[0], &traffic.sources[0])?;
    let rules = Rules::write(ground.folder, &entries)?;
    Ok(Some(Course { family: A::NUMBER, bed, traffic, rules, routes }))
}

/// l3fwd with each of its lookups.
fn lookups(l3fwd: &L3fwd, course: &Course) -> Result<Vec<Recruit>> {
    let places = places(&course.bed, PREFIX, &course.rules);
    let of = |lookup: Lookup| {
        Ok(Recruit {
            name: lookup.name().to_owned(),
            label: format!("l3fwd {} with IPv{}", lookup.name(), course.family),
            command: fill(&l3fwd.command(lookup), &places)?,
            patience: lookup.patience(),
            routes: course.rules.routes,
            shares: Some(course.traffic.shares(0)),
        })
    };
    Lookup::ALL.into_iter().map(of).collect()
}

/// The programs of --peer. A name twice would be one.
fn commands(args: &ForwardArgs, course: &Course) -> Result<Vec<Recruit>> {
    let places = places(&course.bed, PREFIX, &course.rules);
    let mut recruits: Vec<Recruit> = Vec::new();
    for (name, command) in &args.commands {
        let taken = Lookup::ALL.iter().map(|lookup| lookup.name()).chain(recruits.iter().map(|other| &other.name[..]));
        ensure!(
            !taken.into_iter().any(|taken| taken == name),
            "--peer: found the name {name} again, or one of l3fwd's lookups; expected another one"
        );
        let command = fill(command, &places)?;
        recruits.push(Recruit {
            name: name.clone(),
            label: name.clone(),
            command,
            patience: PATIENCE,
            routes: 0,
            shares: None,
        });
    }
    Ok(recruits)
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Forwards the source once by each loop, into files, and compares every packet.
fn verify(Course { family, bed, traffic, .. }: &Course, bar: &ProgressBar) -> Result<usize> {
    let mut verified = 0;
    for path in [LoopPath::Lua, LoopPath::Native] {
        bar.set_message(format!("verifying what leaves (IPv{family}, {})", path.name()));
        let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
        let mut perigee = Perigee::start(bed, Some(folder.path()))?;
        let request = Request {
            path,
            burst: 64,
            warm: 0,
            time: 60_000_000_000,
            packets: PACKETS as u64,
            step: 0,
            source: 0,
            table: 0,
        };
        let sample = perigee.measure(request)?;
        ensure!(sample.reasons.is_empty(), "packets left the fast path: {:?}", sample.reasons);
        perigee.finish()?;
        let sent = (0..traffic::PORTS).map(|port| traffic::read_pcap(&folder.path().join(format!("{port}.pcap"))));
        verified += traffic.verify(&sent.collect::<Result<Vec<_>>>()?)?;
        bar.inc(1);
    }
    Ok(verified)
}
