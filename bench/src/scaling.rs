// SPDX-License-Identifier: MIT
//! `./x bench scaling`: what several threads do beside what one does: forwarding, and lookups alone.
//!
//! | subject | each thread |
//! | --- | --- |
//! | `spin` | multiplies: what the machine's cores allow |
//! | `reads` | reads memory at random, 64 MB of its own: what its caches and memory allow |
//! | `ports` | is a worker with a port of its own, `net_pcap` that repeats a file, and sinks of its own |
//! | `spread` | is a worker; the first one receives from one queue, and flows are spread by software |
//! | a structure | looks addresses of its own up in one shared table |
//!
//! In each round a thread runs alone, on each core in turn, then all run at once. Rates are per CPU time of each thread, so that other
//! programs on the machine do not count; what they do to caches and clock does. Ratios are taken within a round.

mod forward;
mod threads;

use crate::machine::{self, Hugepages, Machine};
use crate::statistics::Median;
use crate::table::{self, Family as _, Pattern};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use forward::Forward;
use perigee_dpdk::{self as dpdk, Eal};
use perigee_fib::{Lookup, LookupWriter};
use serde::Serialize;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use threads::{Work, together};

/// Arguments of `./x bench scaling`.
#[derive(Args)]
pub struct ScalingArgs {
    /// Threads at once, from 1 to this [default: as many as this process may use cores, 8 at most]
    #[arg(long)]
    threads: Option<usize>,
    /// What is measured: spin, reads, ports, spread, names of lookup structures [default: all but those of DPDK]
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<String>,
    /// A routing table: a prefix a line, both families, plain or .gz [default: synthetic, of the Internet's size and shape]
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Seconds per measurement
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// Rounds
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Packets per burst
    #[arg(long, default_value_t = 64)]
    burst: usize,
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

/// What several threads did beside what one did.
#[derive(Debug, Serialize)]
struct Row {
    subject: String,
    threads: usize,
    /// Millions per second of CPU time: by one thread, and by all together.
    alone: f64,
    together: f64,
    /// The second over the first.
    ratio: Median,
}

/// Something that threads do: the work of each of `n` threads.
type Subject<'s> = (String, Box<dyn Fn(usize) -> Result<Vec<Work<'s>>> + 's>);

/// Subjects that are no lookup structure.
const OTHERS: [&str; 4] = ["spin", "reads", "ports", "spread"];
const SEED: u64 = 1;
/// Addresses of each thread.
const ADDRESSES: usize = 1 << 20;
const NEXT_HOPS: u32 = 250;
/// MB of memory for packets.
const MEMORY: u32 = 512;

/// Runs it.
pub fn scaling(args: &ScalingArgs) -> Result<ExitCode> {
    let cores: Vec<usize> = dpdk::usable_cores();
    let most = args.threads.unwrap_or(cores.len().min(8));
    ensure!((2..=cores.len()).contains(&most), "--threads: found {most}, expected 2 to {} cores", cores.len());
    ensure!((0.01..=60.0).contains(&args.seconds), "--seconds: found {}, expected 0.01 to 60", args.seconds);
    ensure!(args.rounds > 0, "--rounds: found 0, expected at least 1");
    ensure!((1..=256).contains(&args.burst), "--burst: found {}, expected 1 to 256", args.burst);
    // The last cores first, as workers are placed.
    let cores: Vec<usize> = cores.into_iter().rev().take(most).collect();
    dpdk::set_runtime_dir(dpdk::fallback_runtime_dir().as_deref())?;
    let hugepages = Hugepages::reserve(args.hugepages, MEMORY)?;
    let own = perigee_fib::structures::IPV4.iter().map(|structure| structure.name);
    let all: Vec<String> = OTHERS.into_iter().chain(own).map(str::to_owned).collect();
    let wanted = if args.subjects.is_empty() { &all } else { &args.subjects };
    let is_wanted = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let forward = match is_wanted("ports") || is_wanted("spread") {
        true => Some(Forward::start(most, args.burst, hugepages.enough)?),
        false => None,
    };
    let tables = tables(args, wanted, most)?;
    let ports = || forward.as_ref().context("ports were not opened");
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for name in wanted {
        match name.as_str() {
            "spin" => subjects.push((name.clone(), Box::new(|n| Ok((0..n).map(|_| spin()).collect())))),
            "reads" => subjects.push((name.clone(), Box::new(|n| Ok((0..n).map(|i| reads(i as u32)).collect())))),
            "ports" => subjects.push((name.clone(), Box::new(|n| ports()?.workers(n, false)))),
            "spread" => subjects.push((name.clone(), Box::new(|n| ports()?.workers(n, true)))),
            _ => {}
        }
    }
    subjects.extend(tables.iter().map(Table::subject));
    forward.as_ref().map_or(Ok(()), Forward::check)?;
    let rows = measure(args, &cores, &subjects, forward.as_ref().map(Forward::eal))?;
    drop(subjects);
    if let Some(forward) = forward {
        forward.end()?;
    }
    report(args, &rows)
}

/// Rates of a round: of a thread alone, by core; of two and more threads at once, by thread.
struct Round {
    alone: Vec<f64>,
    together: Vec<Vec<f64>>,
}

/// All rounds.
fn measure(args: &ScalingArgs, cores: &[usize], subjects: &[Subject<'_>], eal: Option<&Eal>) -> Result<Vec<Row>> {
    let time = Duration::from_secs_f64(args.seconds);
    let mut rates: Vec<Vec<Round>> = subjects.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.rounds {
        for ((_, subject), rates) in subjects.iter().zip(&mut rates) {
            let alone = cores.iter().map(|core| Ok(together(&[*core], time, subject(1)?, eal)?[0]));
            let alone: Vec<f64> = alone.collect::<Result<_>>()?;
            let several = (2..=cores.len()).map(|n| together(&cores[..n], time, subject(n)?, eal));
            rates.push(Round { alone, together: several.collect::<Result<_>>()? });
        }
    }
    let median = |values: Vec<f64>| Median::of(&values);
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let sum = |round: &Round, n: usize| round.together[n - 2].iter().sum::<f64>();
    let row = |(name, rounds): (&String, &Vec<Round>), n: usize| Row {
        subject: name.clone(),
        threads: n,
        alone: median(rounds.iter().map(|round| mean(&round.alone[..n])).collect()).median,
        together: median(rounds.iter().map(|round| sum(round, n)).collect()).median,
        ratio: median(rounds.iter().map(|round| sum(round, n) / mean(&round.alone[..n])).collect()),
    };
    let names = subjects.iter().map(|(name, _)| name).zip(&rates);
    Ok(names.flat_map(|of| (2..=cores.len()).map(move |n| row(of, n))).collect())
}

/// A chain of multiplications.
fn spin<'s>() -> Work<'s> {
    let mut value = SEED;
    Box::new(move || {
        const STEPS: u64 = 1 << 14;
        for _ in 0..STEPS {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        STEPS
    })
}

/// Independent reads all over 64 MB.
fn reads<'s>(thread: u32) -> Work<'s> {
    let memory: Vec<u32> = (0..1 << 24).map(|i: u32| i ^ thread).collect();
    let mut at = thread;
    Box::new(move || {
        const READS: u32 = 1 << 12;
        let mut sum = 0u32;
        for _ in 0..READS {
            at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            sum = sum.wrapping_add(memory[(at >> 8) as usize]);
        }
        black_box(sum);
        READS.into()
    })
}

/// A lookup structure with the table in it, and each thread's addresses.
struct Table {
    name: String,
    // Keeps what readers read.
    _writer: Box<dyn LookupWriter<u32>>,
    reader: Arc<dyn Lookup<u32>>,
    addresses: Arc<Vec<Vec<u32>>>,
}

impl Table {
    fn subject(&self) -> Subject<'_> {
        (self.name.clone(), Box::new(|n| Ok(self.work(n))))
    }

    fn work(&self, n: usize) -> Vec<Work<'_>> {
        self.addresses.iter().take(n).map(|addresses| self.one(addresses)).collect()
    }

    fn one<'s>(&'s self, addresses: &'s [u32]) -> Work<'s> {
        const BATCH: usize = 64;
        let (reader, mut at, mut ids) = (&*self.reader, 0, vec![0; BATCH]);
        Box::new(move || {
            for _ in 0..64 {
                reader.lookup_batch(&addresses[at..at + BATCH], &mut ids);
                black_box(&ids);
                at = (at + BATCH) % ADDRESSES;
            }
            64 * BATCH as u64
        })
    }
}

fn tables(args: &ScalingArgs, wanted: &[String], most: usize) -> Result<Vec<Table>> {
    let known = u32::structures();
    let names: Vec<&str> = known.iter().map(|structure| structure.name).collect();
    let mut tables: Vec<Table> = Vec::new();
    let mut inputs = None;
    for name in wanted.iter().filter(|name| !OTHERS.contains(&name.as_str())) {
        let structure = known.iter().find(|structure| structure.name == name).with_context(|| {
            format!("--subjects: found {name:?}, expected some of {}, {}", OTHERS.join(", "), names.join(", "))
        })?;
        if inputs.is_none() {
            let list = args.routes.as_deref().map(table::read).transpose()?;
            let entries = table::entries::<u32>(list.as_ref(), NEXT_HOPS, SEED);
            let of = |thread| Pattern::Routed.addresses(&entries, ADDRESSES, SEED + thread as u64);
            let addresses = Arc::new((0..most).map(of).collect::<Vec<Vec<u32>>>());
            inputs = Some((entries, addresses));
        }
        let (entries, addresses) = inputs.as_ref().context("a table")?;
        let mut writer = (structure.new)()?;
        writer.load(entries)?;
        let (reader, addresses) = (writer.reader(), addresses.clone());
        tables.push(Table { name: name.to_owned(), _writer: writer, reader, addresses });
    }
    Ok(tables)
}

fn report(args: &ScalingArgs, rows: &[Row]) -> Result<ExitCode> {
    let mut text = String::from("Millions per second of CPU time; ratio: all threads over one, with its interval.\n\n");
    text.push_str("subject     threads     alone  together   ratio\n");
    for Row { subject, threads, alone, together, ratio: Median { median, low, high } } in rows {
        // A String takes everything.
        let _ = writeln!(
            text,
            "{subject:<10} {threads:>8} {alone:>9.2} {together:>9.2}   {median:.2} ({low:.2} to {high:.2})"
        );
    }
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(rows)?),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench scaling", &Machine::this(), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}
