// SPDX-License-Identifier: MIT
//! The first process inside: the structures have their turns one after the other. All other processes end with it.

use super::measure::{self, Plan};
use super::report::{self, Facts, Row};
use super::router::{Router, SPIN, Setup, Work};
use super::table::{Draw, Table};
use super::{ChurnArgs, JSON, Subject, TEXT, bgp, memory, prefixes, subjects};
use crate::isolated;
use crate::machine::{self, Hugepages};
use crate::traffic;
use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use perigee_dpdk as dpdk;
use perigee_fib::structures::DEFAULT4;
use perigee_lab::{World, isolation};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Bytes of a packet buffer: DPDK's headers (64 and 128), headroom (128) and room for an Ethernet frame.
const BUFFER: usize = 64 + 128 + 128 + 2048;

/// Runs it; results are left in the folder.
pub fn run(args: &ChurnArgs, folder: &Path) -> Result<ExitCode> {
    isolation::end_with_input(folder)?;
    let world = world(folder)?;
    let list = args.routes.as_deref().map(prefixes::read).transpose()?;
    let draw = Draw { next_hops: args.next_hops, changes: args.changes, seed: args.seed };
    let table = Table::new(list.as_ref(), draw)?;
    if args.bgp {
        return bgp::run(args, &table, &world);
    }
    let core = machine::core(args.core)?;
    let usable = dpdk::usable_cores();
    let other = usable.iter().copied().find(|other| *other != core).unwrap_or(core);
    let bench = Bench { args, table, folder, core, other, usable };
    let (spin, rows) = bench.rows()?;
    let facts = Facts {
        table: args.routes.as_ref().map_or("synthetic".to_owned(), |file| file.display().to_string()),
        routes: bench.table.counts(),
        cores: (core, other),
        hugepages: subjects(args)?.iter().all(|subject| bench.hugepages(subject)),
        source_mb: args.destinations as f64 * BUFFER as f64 / 1_048_576.0,
    };
    fs::write(folder.join(JSON), serde_json::to_string_pretty(&report::json(&spin, &rows))?)?;
    fs::write(folder.join(TEXT), report::text(args, &facts, &spin, &rows))?;
    Ok(if rows.iter().all(Row::is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The namespaces, with room for routes.
fn world(folder: &Path) -> Result<World> {
    let world = isolated::world(folder)?;
    // Before Linux 6.3 it was 4096.
    let room = "/proc/sys/net/ipv6/route/max_size";
    if Path::new(room).exists() {
        fs::write(room, i32::MAX.to_string()).with_context(|| format!("{room} cannot be written"))?;
    }
    Ok(world)
}

/// Steps of a turn beside its pairs.
const STEPS: usize = 4;

struct Bench<'a> {
    args: &'a ChurnArgs,
    table: Table,
    folder: &'a Path,
    core: usize,
    other: usize,
    usable: Vec<usize>,
}

impl Bench<'_> {
    /// A router that may use all cores; then this thread, the pump, keeps off the worker's.
    fn start(&self, subject: &Subject, work: Work) -> Result<Router> {
        let mut all = rustix::thread::CpuSet::new();
        self.usable.iter().for_each(|core| all.set(*core));
        rustix::thread::sched_setaffinity(None, &all)?;
        let router = Router::start(self.folder, &self.setup(subject, work).config())?;
        dpdk::pin_current_thread(self.other)?;
        Ok(router)
    }

    /// The turn in which the worker only spins, and those of the structures.
    fn rows(&self) -> Result<(Row, Vec<Row>)> {
        let args = self.args;
        let subjects = subjects(args)?;
        let (stable, changing) = self.table.routes();
        let plan = Plan {
            counted: |worker| worker.transmitted,
            stable: &stable,
            changing: &changing,
            pairs: args.pairs,
            seconds: args.seconds,
            resyncs: args.resyncs,
            patience: Duration::from_secs(args.patience),
        };
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})");
        let bar = ProgressBar::new(((subjects.len() + 1) * (args.pairs + STEPS)) as u64);
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let row = |number: usize, subject: &Subject, plan: &Plan<'_>, work: Result<Work>| {
            bar.set_position((number * (args.pairs + STEPS)) as u64);
            let (structure, family) = (subject.name.clone(), subject.family);
            let say = |what: &str| {
                bar.set_message(format!("{structure} (IPv{family}): {what}"));
                bar.inc(1);
                Ok(())
            };
            let router = work.and_then(|work| self.start(subject, work));
            let measured = router.and_then(|router| measure::turn(plan, router, say));
            Row { measured: measured.map_err(|error| format!("{error:#}")), structure, family }
        };
        // Under the same changes, which a router with the default structures applies beside it.
        let spinner = Subject { name: DEFAULT4.name.to_owned(), family: 4 };
        let script = self.folder.join("spin.lua");
        fs::write(&script, SPIN)?;
        let rounds = Plan { counted: |worker| worker.idle_polls, ..plan };
        let spin = Row { structure: "spin".to_owned(), ..row(0, &spinner, &rounds, Ok(Work::Spins(script))) };
        let each = subjects.iter().enumerate();
        let rows = each
            .map(|(at, subject)| row(at + 1, subject, &plan, self.source(subject.family).map(Work::Forwards)))
            .collect();
        bar.finish_and_clear();
        Ok((spin, rows))
    }

    fn mbufs(&self) -> usize {
        // The source keeps a buffer for each of its packets.
        self.args.destinations + 16_384
    }

    fn hugepages(&self, subject: &Subject) -> bool {
        let memory = memory(self.mbufs(), &subject.fib(), self.table.counts());
        Hugepages::reserve(None, memory).is_ok_and(|pages| pages.enough)
    }

    fn setup(&self, subject: &Subject, work: Work) -> Setup {
        Setup {
            fib: subject.fib(),
            core: self.core,
            hugepages: self.hugepages(subject),
            memory: memory(self.mbufs(), &subject.fib(), self.table.counts()),
            mbufs: self.mbufs(),
            next_hops: self.args.next_hops,
            work,
        }
    }

    /// The file of packets of a family.
    fn source(&self, family: u8) -> Result<PathBuf> {
        let file = self.folder.join(format!("source{family}.pcap"));
        if !file.exists() {
            traffic::write_pcap(&file, &self.table.packets(family, self.args.destinations)?)?;
        }
        Ok(file)
    }
}
