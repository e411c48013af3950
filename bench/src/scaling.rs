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
//! In each round a thread runs alone, on some cores in turn, then several run at once: 2, 4, 8, 12, 16 and so on up to
//! all. Rates are per CPU time of each thread, so that other programs on the machine do not count; what they do to
//! caches and clock does. Ratios are taken within a round. An interrupt reports the finished rounds.

mod forward;
mod plan;
mod threads;

use crate::machine::{self, Hugepages, Interrupts, Machine};
use crate::statistics::Median;
use crate::table::{self, Family as _, Pattern};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use forward::Forward;
use indicatif::{ProgressBar, ProgressStyle};
use perigee_dpdk::{self as dpdk, Eal};
use perigee_fib::{Lookup, LookupWriter};
use perigee_predict::profile::MAX_CORES;
use perigee_rig::{Cores, PRETEND, words};
use plan::Plan;
use serde::Serialize;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use threads::{Work, together};

/// Arguments of `./x bench scaling`.
#[derive(Args)]
pub struct ScalingArgs {
    /// Threads at once, up to this; of many numbers some are measured: 1, 2, 4, 8, 12, 16, 24, 32, 48, 64
    /// [default: as many as this process may use cores, 64 at most]
    #[arg(long)]
    threads: Option<usize>,
    /// What is measured: spin, reads, ports, spread, names of lookup structures [default: all but those of DPDK]
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<String>,
    /// A routing table: a prefix a line, both families, plain or .gz [default: synthetic, of the Internet's size and
    /// shape]
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

/// Something that threads do: the work of each of those with these numbers.
type Subject<'s> = (String, Box<dyn Fn(&[usize]) -> Result<Vec<Work<'s>>> + 's>);

/// Subjects that are no lookup structure.
const OTHERS: [&str; 4] = ["spin", "reads", "ports", "spread"];
const SEED: u64 = 1;
/// Addresses of each thread.
const ADDRESSES: usize = 1 << 20;
const NEXT_HOPS: u32 = 250;
/// MB of memory for packets.
const MEMORY: u32 = 512;

/// The cores for this number of threads, out of those that this process may use.
fn cores(threads: Option<usize>) -> Result<Cores> {
    let mut cores = Cores::usable()?;
    let usable = cores.list().len();
    ensure!(usable > 1, "several threads need two cores, and this process may use core {} only", cores.list()[0]);
    let most = usable.min(MAX_CORES as usize);
    let wanted = threads.unwrap_or(most);
    let expected = if most == 2 { "2".to_owned() } else { format!("2 to {most}") };
    ensure!(
        (2..=most).contains(&wanted),
        "--threads: found {wanted}, expected {expected}: this process may use {usable} cores, and at most {MAX_CORES} \
         are measured"
    );
    cores.take(wanted);
    Ok(cores)
}

/// What a reader of the figures has to know.
fn remarks(cores: &Cores, forward: Option<&Forward>) -> Vec<String> {
    let most = cores.list().len();
    let mut all: Vec<String> = forward.and_then(Forward::remark).into_iter().collect();
    if let Some(physical) = cores.physical() {
        all.push(format!(
            "{most} threads share {physical} physical cores: with more than {physical} some slow each other down."
        ));
    }
    if cores.is_pretended() {
        all.push(format!("The {most} cores are pretended ({PRETEND}): no figure counts."));
    }
    all
}

/// Runs it.
pub fn scaling(args: &ScalingArgs) -> Result<ExitCode> {
    let cores = cores(args.threads)?;
    let most = cores.list().len();
    ensure!((0.01..=60.0).contains(&args.seconds), "--seconds: found {}, expected 0.01 to 60", args.seconds);
    ensure!(args.rounds > 0, "--rounds: found 0, expected at least 1");
    ensure!((1..=256).contains(&args.burst), "--burst: found {}, expected 1 to 256", args.burst);
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
    let memory: Vec<OnceLock<Vec<u32>>> = (0..most).map(|_| OnceLock::new()).collect();
    let ports = || forward.as_ref().context("ports were not opened");
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for name in wanted {
        match name.as_str() {
            "spin" => subjects.push((name.clone(), Box::new(|all| Ok(all.iter().map(|_| spin()).collect())))),
            "reads" => subjects.push((
                name.clone(),
                Box::new(|all| Ok(all.iter().map(|thread| reads(&memory[*thread], *thread as u32)).collect())),
            )),
            "ports" => subjects.push((name.clone(), Box::new(|all| ports()?.workers(all, false)))),
            "spread" => subjects.push((name.clone(), Box::new(|all| ports()?.workers(all, true)))),
            _ => {}
        }
    }
    subjects.extend(tables.iter().map(Table::subject));
    forward.as_ref().map_or(Ok(()), Forward::check)?;
    let mut remarks = remarks(&cores, forward.as_ref());
    let (rows, interrupted) = measure(args, &cores, &subjects, forward.as_ref().map(Forward::eal))?;
    remarks.extend(interrupted.clone());
    drop(subjects);
    if let Some(forward) = forward {
        forward.end()?;
    }
    report(args, &rows, &remarks)?;
    Ok(if interrupted.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Rates of a round: of a thread alone, by its place among the cores; of several threads at once, all together.
struct Round {
    alone: Vec<(usize, f64)>,
    together: Vec<f64>,
}

impl Round {
    /// The mean rate of a thread alone: of those on the first `n` cores, if some of these had their turn.
    fn alone(&self, n: usize) -> f64 {
        let mean = |rates: Vec<f64>| rates.iter().sum::<f64>() / rates.len() as f64;
        let rates = |least: usize| self.alone.iter().filter(|(at, _)| *at < least).map(|(_, rate)| *rate).collect();
        let first: Vec<f64> = rates(n);
        mean(if first.is_empty() { rates(usize::MAX) } else { first })
    }
}

/// All rounds, or as many as there are until an interrupt, and when that was.
fn measure(
    args: &ScalingArgs,
    cores: &Cores,
    subjects: &[Subject<'_>],
    eal: Option<&Eal>,
) -> Result<(Vec<Row>, Option<String>)> {
    let (time, plan) = (Duration::from_secs_f64(args.seconds), Plan::new(cores.list().len()));
    let count = plan.measurements() * subjects.len() * args.rounds;
    eprintln!("{count} measurements: about {}", words(plan.time(subjects.len(), args.rounds, time)));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})");
    let bar = ProgressBar::new(count as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (mut interrupts, mut interrupted) = (Interrupts::new()?, None);
    let mut rates: Vec<Vec<Round>> = subjects.iter().map(|_| Vec::new()).collect();
    'rounds: for round in 0..args.rounds {
        for ((name, subject), rates) in subjects.iter().zip(&mut rates) {
            if interrupts.came() {
                interrupted = Some(format!("Interrupted in round {} of {}.", round + 1, args.rounds));
                break 'rounds;
            }
            bar.set_message(name.clone());
            let run = |threads: &[usize]| {
                let works = threads.iter().map(|thread| cores.list()[*thread]).zip(subject(threads)?).collect();
                bar.inc(1);
                together(cores, time, works, eal)
            };
            let alone = plan.alone(round).into_iter().map(|at| Ok((at, run(&[at])?[0])));
            let alone = alone.collect::<Result<_>>()?;
            let several = plan.numbers.iter().map(|n| Ok(run(&(0..*n).collect::<Vec<_>>())?.iter().sum()));
            rates.push(Round { alone, together: several.collect::<Result<_>>()? });
        }
    }
    bar.finish_and_clear();
    ensure!(rates.iter().any(|rounds| !rounds.is_empty()), "interrupted before anything was measured");
    let median = |values: Vec<f64>| Median::of(&values);
    let row = |(name, rounds): (&String, &Vec<Round>), at: usize, n: usize| Row {
        subject: name.clone(),
        threads: n,
        alone: median(rounds.iter().map(|round| round.alone(n)).collect()).median,
        together: median(rounds.iter().map(|round| round.together[at]).collect()).median,
        ratio: median(rounds.iter().map(|round| round.together[at] / round.alone(n)).collect()),
    };
    let names = subjects.iter().map(|(name, _)| name).zip(&rates).filter(|(_, rounds)| !rounds.is_empty());
    let rows = names.flat_map(|of| plan.numbers.iter().enumerate().map(move |(at, n)| row(of, at, *n))).collect();
    Ok((rows, interrupted))
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

/// Independent reads all over 64 MB, which the thread makes when it first works: then they are near its core.
fn reads(memory: &OnceLock<Vec<u32>>, thread: u32) -> Work<'_> {
    let mut at = thread;
    Box::new(move || {
        const READS: u32 = 1 << 12;
        let memory = memory.get_or_init(|| (0..1 << 24).map(|i: u32| i ^ thread).collect());
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
        (self.name.clone(), Box::new(|all| Ok(all.iter().map(|thread| self.work(&self.addresses[*thread])).collect())))
    }

    fn work<'s>(&'s self, addresses: &'s [u32]) -> Work<'s> {
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

fn report(args: &ScalingArgs, rows: &[Row], remarks: &[String]) -> Result<()> {
    let mut text = String::from("Millions per second of CPU time; ratio: all threads over one, with its interval.\n");
    for remark in remarks {
        text = text + remark + "\n";
        if args.json {
            eprintln!("{remark}");
        }
    }
    text.push('\n');
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
    Ok(())
}
