// SPDX-License-Identifier: MIT
//! `./x bench changes`: changes of routes per second of CPU time, layer by layer, without Linux in between.
//!
//! ```text
//!  lookup    a lookup structure alone
//!  fib       the routing table, and the lookup structure that follows from it
//!  router    the same through the tables of a router: what its follower of Linux writes to
//!  netlink   the kernel's messages: decoded, followed, into the tables of a router
//!  fpm       zebra's messages, likewise
//! ```
//!
//! A full table stays in place. 100,000 routes of it are withdrawn and announced again in random order: one at a time,
//! each visible to workers at once, and in runs, each visible as a whole. One thread does it all, and a reader passes a
//! batch boundary after each run, as memory comes back only then.

mod layers;

use crate::machine::{self, Interrupts, Machine, thread_time};
use crate::statistics::Median;
use crate::table::{self, Entry, Family};
use anyhow::{Result, ensure};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanCount, ProgressBar};
use layers::{Layer, Of};
use perigee_dpdk as dpdk;
use perigee_fib::synth::Random;
use perigee_fib::{PrefixList, structures};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `./x bench changes`.
#[derive(Args)]
pub struct ChangesArgs {
    /// A routing table: a prefix a line, both families, plain or .gz [default: synthetic, of the Internet's size and
    /// shape]
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Which lookup structures of perigee's own [default: all but DXR, which is rebuilt for each change]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    structures: Vec<String>,
    /// Which layers
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', default_values_t = Of::ALL)]
    layers: Vec<Of>,
    /// Changes that become visible together
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 1024])]
    runs: Vec<usize>,
    /// Routes that are withdrawn and announced again
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    changes: usize,
    /// Different gateways
    #[arg(long, value_name = "N", default_value_t = 250)]
    next_hops: u32,
    /// Rounds; the medians count
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of CPU time after which a measurement is stopped
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    patience: f64,
    /// Seed of next hops, of the order of changes, and of a synthetic table
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The core [default: the last this process may use]
    #[arg(long)]
    core: Option<usize>,
    /// Print JSON: an array with an object per structure, layer and length of runs
    #[arg(long)]
    json: bool,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
}

/// What was measured of one structure, layer and length of runs; rates are per second of CPU time.
#[derive(Serialize)]
struct Row {
    structure: String,
    family: u8,
    layer: Of,
    run: usize,
    withdrawn_per_s: f64,
    announced_per_s: f64,
    /// Microseconds of CPU time per change, withdrawals and announcements together.
    us_per_change: f64,
    /// Prefixes of the table in order, from nothing, in the same runs.
    filled_per_s: f64,
    /// Routes of a dump that changes nothing, from messages on.
    resynced_per_s: Option<f64>,
    /// Prefixes whose next hop differed in the end from that of the table.
    wrong: usize,
}

/// Runs it. The exit code says whether the tables were right in the end.
pub fn changes(args: &ChangesArgs) -> Result<ExitCode> {
    check(args)?;
    let list = args.routes.as_deref().map(table::read).transpose()?;
    let mut interrupts = Interrupts::new()?;
    dpdk::pin_current_thread(machine::core(args.core)?)?;
    let wanted4 = wanted(args, structures::IPV4.iter().map(|structure| structure.name));
    let wanted6 = wanted(args, structures::IPV6.iter().map(|structure| structure.name));
    let bar = ProgressBar::new(((wanted4.len() + wanted6.len()) * args.layers.len() * args.runs.len()) as u64);
    let mut rows = Vec::new();
    family::<u32>(args, list.as_ref(), &wanted4, &mut rows, &bar, &mut interrupts)?;
    family::<u128>(args, list.as_ref(), &wanted6, &mut rows, &bar, &mut interrupts)?;
    bar.finish_and_clear();
    let text = text(args, &rows);
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&rows)?),
        false => print!("{text}"),
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench changes", &Machine::this(), &text)?;
    }
    Ok(if rows.iter().all(|row| row.wrong == 0) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(args: &ChangesArgs) -> Result<()> {
    ensure!(args.changes > 0 && args.rounds > 0, "--changes, --rounds: found 0, expected at least 1");
    ensure!(args.runs.iter().all(|run| *run > 0), "--runs: found 0, expected at least 1");
    let most = layers::MOST_GATEWAYS;
    ensure!((1..=most).contains(&args.next_hops), "--next-hops: found {}, expected 1 to {most}", args.next_hops);
    ensure!((0.01..=3600.0).contains(&args.patience), "--patience: found {}, expected 0.01 to 3600", args.patience);
    let names: Vec<&str> = structures::IPV4.iter().map(|structure| structure.name).collect();
    let names6: Vec<&str> = structures::IPV6.iter().map(|structure| structure.name).collect();
    for name in &args.structures {
        ensure!(
            names.contains(&name.as_str()) || names6.contains(&name.as_str()),
            "--structures: found {name:?}, expected some of these: {} (IPv4); {} (IPv6)",
            names.join(", "),
            names6.join(", ")
        );
    }
    Ok(())
}

/// The structures of a family that are measured.
fn wanted<'n>(args: &ChangesArgs, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let is_wanted = |name: &&str| match args.structures.is_empty() {
        true => !name.starts_with("dxr"),
        false => args.structures.iter().any(|wanted| wanted == name),
    };
    names.filter(is_wanted).collect()
}

fn family<A: Family + layers::Routed>(
    args: &ChangesArgs,
    list: Option<&PrefixList>,
    wanted: &[&str],
    rows: &mut Vec<Row>,
    bar: &ProgressBar,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let mut routes: Vec<Entry<A>> = table::entries(list, args.next_hops, args.seed);
    routes.sort_unstable_by_key(|(prefix, _)| *prefix);
    if routes.is_empty() {
        return Ok(());
    }
    let mut random = Random::new(args.seed);
    let mut order: Vec<u32> = (0..routes.len() as u32).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u32 + 1) as usize);
    }
    order.truncate(args.changes);
    // Once more in the order of changes, as they would come: in a row, not scattered over the memory of a table.
    let (table, flaps) = (0..routes.len() as u32, routes.len() as u32..(routes.len() + order.len()) as u32);
    let again: Vec<Entry<A>> = order.iter().map(|at| routes[*at as usize]).collect();
    routes.extend(again);
    let (table, flaps): (Vec<u32>, Vec<u32>) = (table.collect(), flaps.collect());
    for structure in wanted {
        for &of in &args.layers {
            for &run in &args.runs {
                interrupts.check()?;
                rows.push(measure(args, (&routes, &table), &flaps, structure, of, run)?);
                bar.inc(1);
            }
        }
    }
    Ok(())
}

fn measure<A: Family + layers::Routed>(
    args: &ChangesArgs,
    (routes, all): (&[Entry<A>], &[u32]),
    order: &[u32],
    structure: &str,
    of: Of,
    run: usize,
) -> Result<Row> {
    let mut layer = layers::make(of, structure, routes, all.len(), args.next_hops)?;
    let patience = Duration::from_secs_f64(args.patience);
    // Whatever the layer, structures get the table in the way that a router's start does if there is no time for this
    // one.
    let (filled, fill) = changed(&mut *layer, all, true, run.max(1024), patience)?;
    for rest in all[filled..].chunks(1 << 16) {
        layer.change(rest, true)?;
        layer.commit()?;
    }
    let (mut withdrawn, mut announced, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        let (done, gone) = changed(&mut *layer, order, false, run, patience)?;
        let (again, back) = changed(&mut *layer, &order[..done], true, run, Duration::MAX)?;
        withdrawn.push(done as f64 / gone);
        announced.push(again as f64 / back);
        both.push((gone + back) / (done + again) as f64 * 1e6);
    }
    let mut resyncs = Vec::new();
    for _ in 0..args.rounds {
        let start = thread_time();
        if layer.resync()? {
            resyncs.push(all.len() as f64 / (thread_time() - start).as_secs_f64());
        }
    }
    let resynced = (!resyncs.is_empty()).then(|| Median::of(&resyncs).median);
    Ok(Row {
        structure: structure.to_owned(),
        family: A::NUMBER,
        layer: of,
        run,
        withdrawn_per_s: Median::of(&withdrawn).median,
        announced_per_s: Median::of(&announced).median,
        us_per_change: Median::of(&both).median,
        filled_per_s: filled as f64 / fill,
        resynced_per_s: resynced,
        wrong: layer.wrong(),
    })
}

/// Makes changes in runs until all are made or the time is over; returns how many, and seconds of CPU time.
fn changed(
    layer: &mut dyn Layer,
    order: &[u32],
    announce: bool,
    run: usize,
    patience: Duration,
) -> Result<(usize, f64)> {
    let (start, mut done) = (thread_time(), 0);
    for (n, run) in order.chunks(run).enumerate() {
        layer.change(run, announce)?;
        layer.commit()?;
        done += run.len();
        // The clock is a system call.
        if n % 64 == 63 && thread_time() - start > patience {
            break;
        }
    }
    Ok((done, (thread_time() - start).as_secs_f64()))
}

fn text(args: &ChangesArgs, rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let head = ["structure", "family", "layer", "run", "withdrawn/s", "announced/s", "us each", "filled/s"];
    let head = head.into_iter().chain(["resynced/s", "wrong"]);
    table.set_header(head);
    let count = |rate: f64| HumanCount(rate.round() as u64).to_string();
    for row in rows {
        let Row { structure, family, layer, run, wrong, .. } = row;
        let rates = [count(row.withdrawn_per_s), count(row.announced_per_s), format!("{:.2}", row.us_per_change)];
        let named = [structure.clone(), family.to_string(), layer.to_string(), run.to_string()];
        let rest = [count(row.filled_per_s), row.resynced_per_s.map_or(String::new(), count), wrong.to_string()];
        table.add_row(named.into_iter().chain(rates).chain(rest));
    }
    for column in 3..10 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!(
        "{table}\n\n{} routes of a full table are withdrawn and announced again in random order, seed {}, {} next hops; medians of\n\
         {} rounds, per second of the thread's CPU time. A run becomes visible as a whole; of 1, each change at once. Filled: the\n\
         whole table in order, in runs of 1,024 at least. Resynced: routes of a dump, in order, in which nothing differs.\n",
        HumanCount(args.changes as u64),
        args.seed,
        args.next_hops,
        args.rounds
    )
}
