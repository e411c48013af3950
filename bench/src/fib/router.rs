// SPDX-License-Identifier: MIT
//! `./x bench fib --in-router`: the same structures inside the forwarding loop, where packets are in the cache too.
//!
//! One process with DPDK has every structure and every source of packets, and forwards with one after the other for a
//! fraction of a second each. The time beyond that of the empty loop, which only receives and transmits, is
//! the router's work, of which only the lookup's part differs between structures.

use super::{FibArgs, dpdk_memory, wanted};
use crate::machine::{self, Hugepages, Interrupts, Machine};
use crate::peers::{Bed, Perigee};
use crate::statistics::Median;
use crate::table;
use crate::table::Family;
use crate::table::Pattern;
use crate::traffic::{self, PACKETS, Routed, Traffic};
use crate::worker::{FullTable, MEMORY, Path as LoopPath, Request};
use anyhow::{Result, ensure};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use perigee_fib::PrefixList;
use serde::Serialize;
use std::process::ExitCode;

/// Warm-up before each measurement, in ns: caches, and the JIT compiler of a fresh VM.
const WARM: u64 = 30_000_000;
const LOOPS: [LoopPath; 2] = [LoopPath::Native, LoopPath::Lua];

/// An object of `--json`.
#[derive(Debug, Clone, Serialize)]
struct Row {
    structure: String,
    family: u8,
    pattern: &'static str,
    #[serde(rename = "loop")]
    path: LoopPath,
    /// Million packets per second, the median of all rounds.
    mpps: f64,
    /// ns per packet more than the empty loop, taken within each round.
    ns_over_io: Median,
    /// Rate as a multiple of the reference's.
    ratio: Option<Median>,
    /// Packets that did not leave as they must: none, or there would be no result.
    wrong: u64,
}

/// The results of one family.
struct Results {
    number: u8,
    routes: usize,
    verified: usize,
    reference: &'static str,
    patterns: Vec<Pattern>,
    rows: Vec<Row>,
    io: Vec<f64>,
    refused: Vec<(String, String)>,
}

/// Runs it.
pub fn in_router(args: &FibArgs, list: Option<PrefixList>) -> Result<ExitCode> {
    let core = machine::core(args.core)?;
    let mut interrupts = Interrupts::new()?;
    let memory = 4 * MEMORY + dpdk_memory(args, list.as_ref());
    let hugepages = Hugepages::reserve(args.hugepages, memory)?;
    let mut families = Vec::new();
    if args.family != Some(6) {
        families.extend(of_family::<u32>(args, list.as_ref(), core, hugepages.enough, &mut interrupts)?);
    }
    if args.family != Some(4) {
        families.extend(of_family::<u128>(args, list.as_ref(), core, hugepages.enough, &mut interrupts)?);
    }
    let text = text(args, &families, core, hugepages.enough);
    match args.json {
        true => {
            let rows: Vec<&Row> = families.iter().flat_map(|family| &family.rows).collect();
            println!("{}", serde_json::to_string_pretty(&rows)?);
        }
        false => print!("{text}"),
    }
    for (name, why) in families.iter().flat_map(|family| &family.refused) {
        eprintln!("perigee: {name} is left out: {why}");
    }
    if let Some(file) = &args.record {
        machine::record(file, "bench fib --in-router", &Machine::this(), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn of_family<A: Routed>(
    args: &FibArgs,
    list: Option<&PrefixList>,
    core: usize,
    hugepages: bool,
    interrupts: &mut Interrupts,
) -> Result<Option<Results>> {
    let entries = table::entries::<A>(list, args.next_hops, args.seed);
    let names: Vec<String> = wanted::<A>(args).iter().map(|structure| structure.name.to_owned()).collect();
    if names.is_empty() || entries.is_empty() {
        return Ok(None);
    }
    let mut patterns = args.patterns(&[Pattern::Routed, Pattern::Zipf, Pattern::Uniform]);
    // Some uniform addresses have no route and are left out; for IPv6 that is nearly all of them.
    if A::NUMBER == 6 && patterns.contains(&Pattern::Uniform) {
        patterns.retain(|pattern| *pattern != Pattern::Uniform);
        eprintln!(
            "perigee: IPv6: uniform is left out, as nearly none of these addresses has a route to be forwarded by"
        );
    }
    if patterns.is_empty() {
        return Ok(None);
    }
    let addresses: Vec<Vec<A>> = patterns.iter().map(|p| p.addresses(&entries, 64 * PACKETS, args.seed)).collect();
    let traffic = Traffic::full(&entries, &addresses)?;
    let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
    let source = |number: usize| folder.path().join(format!("source{number}.pcap"));
    let full = FullTable {
        routes: args.routes.clone(),
        family: A::NUMBER,
        next_hops: args.next_hops,
        seed: args.seed,
        structures: names,
        memory: dpdk_memory(args, list),
    };
    let sources = (0..patterns.len()).map(source).collect();
    let bed = Bed { sources, full: Some(full.clone()), core, other_core: core, hugepages };
    for (file, frames) in bed.sources.iter().zip(&traffic.sources) {
        traffic::write_pcap(file, frames)?;
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    let bar = ProgressBar::new((full.structures.len() + args.rounds) as u64);
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let say = |message: String| {
        bar.set_message(message);
        bar.tick();
    };
    let (mut verified, mut refused, mut good) = (0, Vec::new(), Vec::new());
    for name in &full.structures {
        say(format!("IPv{}: {name}, verifying what leaves", A::NUMBER));
        match verify(&bed, &full, name, &traffic)? {
            Ok(packets) => {
                verified += packets;
                good.push(name.clone());
            }
            Err(why) => refused.push((name.clone(), why)),
        }
        bar.inc(1);
        interrupts.check()?;
    }
    let full = FullTable { structures: good, ..full };
    let bed = Bed { full: Some(full.clone()), ..bed };
    let mut measured = Rounds::new(patterns.len(), full.structures.len());
    say(format!("IPv{}: building all tables", A::NUMBER));
    let mut perigee = Perigee::start(&bed, None)?;
    for round in 0..args.rounds {
        say(format!("IPv{}: round {} of {}", A::NUMBER, round + 1, args.rounds));
        measured.round(&mut perigee, args, round)?;
        bar.inc(1);
        interrupts.check()?;
    }
    perigee.finish()?;
    bar.finish_and_clear();
    let rows = measured.rows::<A>(&full.structures, &patterns);
    let (io, routes) = (measured.io[0].clone(), entries.len());
    Ok(Some(Results { number: A::NUMBER, routes, verified, reference: A::REFERENCE, patterns, rows, io, refused }))
}

/// Forwards all sources once with one structure, into files, and compares every packet; or why it cannot hold the
/// table.
fn verify(bed: &Bed, full: &FullTable, name: &str, traffic: &Traffic) -> Result<Result<usize, String>> {
    let full = FullTable { structures: vec![name.to_owned()], ..full.clone() };
    let bed = Bed { full: Some(full), ..bed.clone() };
    let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
    let mut perigee = Perigee::start(&bed, Some(folder.path()))?;
    if let Some((_, why)) = perigee.ready.refused.first() {
        return Ok(Err(why.clone()));
    }
    for source in 0..bed.sources.len() as u16 {
        let request = Request {
            path: LoopPath::Native,
            burst: 64,
            warm: 0,
            time: 60_000_000_000,
            packets: PACKETS as u64,
            source,
            step: 0,
            table: 0,
        };
        let sample = perigee.measure(request)?;
        ensure!(sample.reasons.is_empty(), "{name}: packets left the fast path: {:?}", sample.reasons);
    }
    perigee.finish()?;
    let sent = (0..traffic::PORTS).map(|port| traffic::read_pcap(&folder.path().join(format!("{port}.pcap"))));
    Ok(Ok(traffic.verify(&sent.collect::<Result<Vec<_>>>()?)?))
}

/// ns per packet in each round.
struct Rounds {
    /// By pattern.
    io: Vec<Vec<f64>>,
    /// By pattern, structure and loop.
    loops: Vec<Vec<[Vec<f64>; 2]>>,
}

impl Rounds {
    fn new(patterns: usize, structures: usize) -> Rounds {
        Rounds { io: vec![Vec::new(); patterns], loops: vec![vec![Default::default(); structures]; patterns] }
    }

    fn round(&mut self, perigee: &mut Perigee, args: &FibArgs, round: usize) -> Result<()> {
        let mut measure = |path, source: usize, table| -> Result<f64> {
            let time = (args.seconds * 1e9) as u64;
            let request = Request {
                path,
                burst: args.batch,
                warm: WARM,
                time,
                packets: u64::MAX,
                step: 0,
                source: source as u16,
                table,
            };
            let sample = perigee.measure(request)?;
            ensure!(sample.packets > 0, "perigee received nothing in {} s", args.seconds);
            ensure!(sample.reasons.is_empty(), "packets left the fast path: {:?}", sample.reasons);
            Ok(sample.cpu_ns as f64 / sample.packets as f64)
        };
        for (pattern, loops) in self.loops.iter_mut().enumerate() {
            self.io[pattern].push(measure(LoopPath::Io, pattern, 0)?);
            let count = loops.len();
            for turn in 0..count {
                // They take turns at going first.
                let table = (turn + round) % count;
                for (path, rounds) in LOOPS.into_iter().zip(&mut loops[table]) {
                    rounds.push(measure(path, pattern, table)?);
                }
            }
        }
        Ok(())
    }

    fn rows<A: Family>(&self, names: &[String], patterns: &[Pattern]) -> Vec<Row> {
        let within = |a: &[f64], b: &[f64], of: fn(f64, f64) -> f64| {
            Median::of(&a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect::<Vec<f64>>())
        };
        let reference = names.iter().position(|name| name == A::REFERENCE);
        let mut rows = Vec::new();
        for (structure, name) in names.iter().enumerate() {
            for (pattern, loops) in self.loops.iter().enumerate() {
                for (number, path) in LOOPS.into_iter().enumerate() {
                    let ns = &loops[structure][number];
                    rows.push(Row {
                        structure: name.clone(),
                        family: A::NUMBER,
                        pattern: patterns[pattern].name(),
                        path,
                        mpps: 1000.0 / Median::of(ns).median,
                        ns_over_io: within(ns, &self.io[pattern], |ns, io| ns - io),
                        ratio: reference.map(|at| within(ns, &loops[at][number], |ns, reference| reference / ns)),
                        wrong: 0,
                    });
                }
            }
        }
        rows
    }
}

fn text(args: &FibArgs, families: &[Results], core: usize, hugepages: bool) -> String {
    let mut text = String::new();
    for family in families {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let kinds =
            family.patterns.iter().flat_map(|p| LOOPS.map(|path| format!("{} {path:?}", p.name()).to_lowercase()));
        table.set_header(["structure".to_owned()].into_iter().chain(kinds));
        for rows in family.rows.chunk_by(|a, b| a.structure == b.structure) {
            let cell = |row: &Row| {
                let ratio = row.ratio.map_or(String::new(), |ratio| format!(" [{:.2}]", ratio.median));
                format!("{:.1} ({:.1} ns){ratio}", row.mpps, row.ns_over_io.median)
            };
            table.add_row([rows[0].structure.clone()].into_iter().chain(rows.iter().map(cell)));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let from = args.routes.as_ref().map_or_else(|| "synthetic".to_owned(), |file| file.display().to_string());
        text.push_str(&format!(
            "IPv{}, {} prefixes ({from}): Mpps (ns over the empty loop) [multiple of {}'s rate]\n{table}\n\
             Empty loop: {:.1} Mpps. {} packets compared with what they must be, byte by byte, before anything was timed.\n",
            family.number,
            HumanCount(family.routes as u64),
            family.reference,
            1000.0 / Median::of(&family.io).median,
            HumanCount(family.verified as u64),
        ));
        for (name, why) in &family.refused {
            text.push_str(&format!("Left out: {name}: {why}\n"));
        }
        text.push('\n');
    }
    let memory = if hugepages { "hugepages" } else { "ordinary pages" };
    text.push_str(&format!(
        "net_pcap, {} packets per pattern, {} neighbors over {} ports, bursts of {}; uniform: of addresses that have a route.\n\
         Core {core} for all, the forwarding thread's CPU time, medians of {} rounds of {} s each. DPDK's memory: {memory}.\n",
        HumanCount(PACKETS as u64),
        args.next_hops,
        traffic::PORTS,
        args.batch,
        args.rounds,
        args.seconds,
    ));
    text
}
