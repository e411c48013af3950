// SPDX-License-Identifier: MIT
//! One lookup structure's turn: a router with it, the full table, a resync, and windows in which routes change or do
//! not.

use super::netlink::{self, Change, Pump, Route};
use super::router::{Cpu, Memory, Router, SINK_PORT};
use crate::statistics::Median;
use anyhow::{Context as _, Result, bail, ensure};
use perigee_api::answers::{LinuxState, LinuxStatus, WorkerStatus};
use perigee_api::queries::{Resync, ShowLinux};
use std::time::{Duration, Instant};

/// Time between two checks whether the router has caught up.
const POLL: Duration = Duration::from_millis(5);
/// After a dump, the router's thread for netlink waits as long as the dump took before it begins another one: enough
/// for it.
const REST: Duration = Duration::from_secs(2);
/// Warm-up for caches and the JIT compiler.
const WARM: Duration = Duration::from_millis(500);

/// What a worker's rate is counted in.
pub type Counted = fn(&WorkerStatus) -> u64;

/// The part that all turns have in common.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// What the worker does: packets that it forwards, or rounds of a script.
    pub counted: Counted,
    /// Routes that stay.
    pub stable: &'a [Route],
    /// Routes that are withdrawn and announced again.
    pub changing: &'a [Route],
    /// Pairs of a quiet window and one with changes.
    pub pairs: usize,
    /// Seconds of a quiet window, and of one with changes at least.
    pub seconds: f64,
    /// Resyncs, and loads of the full table from a dump, each paired with a bare dump.
    pub resyncs: usize,
    /// How long anything may take.
    pub patience: Duration,
}

/// The results of a turn.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Seconds from the first route to the last one in Linux's table.
    pub linux_s: f64,
    /// Seconds from then to the last one in the lookup structures.
    pub load_s: f64,
    /// Seconds of bare dumps, and of the resyncs paired with them; their ratio.
    pub dump_s: Median,
    pub resync_s: Median,
    pub resync_ratio: Median,
    /// Seconds of loading the full table from a dump, and as a multiple of a bare one.
    pub dump_load_s: Median,
    pub dump_load_ratio: Median,
    /// Memory with the full table, before anything changed.
    pub memory: Memory,
    /// The peak until the end.
    pub peak: u64,
    /// Million packets per second of the worker's CPU time, quiet.
    pub mpps: Median,
    /// Rate with changes as a share of the quiet one: by CPU time, by time of day.
    pub ratio: Median,
    pub wall_ratio: Median,
    /// Changes per second from the first withdrawal to the last announcement in the lookup structures.
    pub changes_per_s: Median,
    /// Changes per second until Linux had all of them.
    pub linux_changes_per_s: Median,
    /// Microseconds of the router's CPU time per change, workers not counted.
    pub cpu_us: Median,
    /// Longest times between two rounds of the worker in s: of all quiet windows, of resyncs, of windows with changes.
    pub gaps: [f64; 3],
    /// The medians of each window's.
    pub usual_gaps: [f64; 3],
    /// All packets, and those that did not leave as they must.
    pub received: u64,
    pub lost: u64,
    /// Times that Linux had no room for notifications.
    pub overruns: u64,
    /// Differences between Linux, RIB and lookup structure in the end.
    pub differences: u64,
}

/// A time with steady traffic.
#[derive(Default)]
struct Window {
    seconds: f64,
    packets: u64,
    cpu: Cpu,
    gap: f64,
}

impl Window {
    /// Packets per second of the worker's CPU time. Its share of the window is read at almost the same times as the
    /// counters.
    fn rate(&self) -> f64 {
        self.packets as f64 / self.cpu.worker
    }

    fn wall_rate(&self) -> f64 {
        self.packets as f64 / self.seconds
    }
}

/// A router with its pump.
struct Turn<'a> {
    plan: &'a Plan<'a>,
    router: Router,
    pump: Pump,
    /// Prefixes in the lookup structures with the full table, and without it.
    full: u64,
    empty: u64,
    last: (WorkerStatus, Cpu),
}

/// Measures one structure. `say` is called with each step.
pub fn turn(plan: &Plan<'_>, router: Router, mut say: impl FnMut(&str) -> Result<()>) -> Result<Measured> {
    say("loading the full table")?;
    let mut router = router;
    let pump = Pump::new(SINK_PORT)?;
    settle(&mut router, plan.patience)?;
    let last = (router.worker()?, router.cpu()?);
    let mut turn = Turn { plan, router, pump, full: 0, empty: 0, last };
    let (linux_s, load_s) = turn.load()?;
    let memory = turn.router.memory()?;
    say("loads from a dump beside bare dumps")?;
    let (bare, loads) = turn.dump_loads()?;
    std::thread::sleep(WARM);
    let astray = turn.router.astray()?;
    say("resyncs beside bare dumps")?;
    let (dumps, resyncs, resync_windows) = turn.resyncs()?;
    let overruns = turn.linux()?.overruns;
    let mut pairs = Vec::new();
    for pair in 0..plan.pairs {
        say(&format!("pair {} of {}", pair + 1, plan.pairs))?;
        pairs.push(turn.pair(pair)?);
    }
    say("comparing, stopping")?;
    let overruns = turn.linux()?.overruns - overruns;
    let peak = turn.router.memory()?.peak;
    let differences = turn.router.differences()?;
    let astray = turn.router.astray()? - astray;
    let account = turn.router.stop()?;
    let missing = account.received.abs_diff(account.transmitted + account.dropped + account.punted);
    let gaps_of = |windows: &mut dyn Iterator<Item = &Window>| windows.map(|w| w.gap).collect::<Vec<_>>();
    let gaps = [
        gaps_of(&mut pairs.iter().map(|pair| &pair.quiet)),
        gaps_of(&mut resync_windows.iter()),
        gaps_of(&mut pairs.iter().map(|pair| &pair.churn)),
    ];
    let median = |of: &dyn Fn(&Pair) -> f64| Median::of(&pairs.iter().map(of).collect::<Vec<_>>());
    let ratio = |of: &[f64], dumps: &[f64]| {
        Median::of(&of.iter().zip(dumps).map(|(time, dump)| time / dump).collect::<Vec<_>>())
    };
    Ok(Measured {
        linux_s,
        load_s,
        dump_s: Median::of(&dumps),
        resync_s: Median::of(&resyncs),
        resync_ratio: ratio(&resyncs, &dumps),
        dump_load_s: Median::of(&loads),
        dump_load_ratio: ratio(&loads, &bare),
        memory,
        peak,
        mpps: median(&|pair| pair.quiet.rate() / 1e6),
        ratio: median(&|pair| pair.churn.rate() / pair.quiet.rate()),
        wall_ratio: median(&|pair| pair.churn.wall_rate() / pair.quiet.wall_rate()),
        changes_per_s: median(&|pair| pair.changes as f64 / pair.applied_s),
        linux_changes_per_s: median(&|pair| pair.changes as f64 / pair.pumped_s),
        cpu_us: median(&|pair| (pair.churn.cpu.slow_path + pair.churn.cpu.others) * 1e6 / pair.changes as f64),
        usual_gaps: [0, 1, 2].map(|kind: usize| Median::of(&gaps[kind]).median),
        gaps: gaps.map(|gaps| gaps.into_iter().fold(0.0, f64::max)),
        received: account.received,
        lost: astray + missing,
        overruns,
        differences,
    })
}

/// Seconds that something takes.
fn timed<T>(what: impl FnOnce() -> Result<T>) -> Result<f64> {
    let start = Instant::now();
    what()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Waits until the router follows Linux, and the last notification about its own twins has come.
fn settle(router: &mut Router, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    let mut before = u64::MAX;
    loop {
        let linux = router.ask(&ShowLinux {})?;
        if linux.state == LinuxState::Following && linux.changes == before {
            return Ok(());
        }
        before = linux.changes;
        ensure!(Instant::now() < deadline, "the router does not follow Linux: it says \"{}\"", linux.state);
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// A quiet window, then one with changes.
struct Pair {
    quiet: Window,
    churn: Window,
    changes: u64,
    /// Seconds until Linux had the last change, and until the lookup structures had it.
    pumped_s: f64,
    applied_s: f64,
}

impl Turn<'_> {
    fn linux(&mut self) -> Result<LinuxStatus> {
        self.router.ask(&ShowLinux {})
    }

    /// Begins a window.
    fn begin(&mut self) -> Result<()> {
        self.last = (self.router.worker()?, self.router.cpu()?);
        Ok(())
    }

    /// Ends a window and begins the next one.
    fn window(&mut self) -> Result<Window> {
        let (worker, cpu) = (self.router.worker()?, self.router.cpu()?);
        let (worker0, cpu0) = std::mem::replace(&mut self.last, (worker.clone(), cpu));
        let packets = (self.plan.counted)(&worker) - (self.plan.counted)(&worker0);
        ensure!(
            packets > 0,
            "the router's worker did nothing for {:.1} s; its worker had {:.3} s of its core, which others may want, too",
            worker.uptime - worker0.uptime,
            cpu.worker - cpu0.worker
        );
        let cpu = Cpu {
            worker: cpu.worker - cpu0.worker,
            slow_path: cpu.slow_path - cpu0.slow_path,
            others: cpu.others - cpu0.others,
        };
        Ok(Window { seconds: worker.uptime - worker0.uptime, packets, cpu, gap: worker.longest_gap })
    }

    /// Waits until this many changes have been applied, or a resync has made up for lost ones, and all routes are in
    /// place.
    fn catch_up(&mut self, before: &LinuxStatus, changes: u64) -> Result<Instant> {
        let deadline = Instant::now() + self.plan.patience;
        loop {
            let linux = self.linux()?;
            let lost = linux.overruns > before.overruns && linux.resyncs > before.resyncs;
            let arrived = linux.changes - before.changes >= changes || lost;
            let (prefixes, pending) = self.router.prefixes()?;
            if arrived && linux.state == LinuxState::Following && prefixes >= self.full && !pending {
                return Ok(Instant::now());
            }
            if Instant::now() > deadline {
                bail!(
                    "not done within {:.0} s: {} of {} prefixes are in the lookup structures, {} of {changes} changes have come",
                    self.plan.patience.as_secs_f64(),
                    prefixes,
                    self.full,
                    linux.changes - before.changes
                );
            }
            std::thread::sleep(POLL);
        }
    }

    /// Loads the full table; returns the seconds that Linux took, and those that the router took afterwards.
    fn load(&mut self) -> Result<(f64, f64)> {
        let before = self.linux()?;
        let (prefixes, _) = self.router.prefixes()?;
        let there = netlink::dump()?;
        let start = Instant::now();
        let all = self.plan.stable.iter().chain(self.plan.changing);
        let loaded = self.pump.pump(Change::Announce, all)?.all()?;
        let pumped = Instant::now();
        (self.full, self.empty) = (prefixes + loaded, prefixes);
        let done = self.catch_up(&before, loaded)?;
        let now = netlink::dump()?;
        ensure!(now == there + loaded, "Linux has {now} routes, expected {there} and {loaded} more");
        Ok(((pumped - start).as_secs_f64(), (done - pumped).as_secs_f64()))
    }

    /// Seconds of bare dumps, and of loading the full table from one: the router leaves Linux's main table for an empty
    /// one, and comes back.
    fn dump_loads(&mut self) -> Result<(Vec<f64>, Vec<f64>)> {
        let (mut dumps, mut loads) = (Vec::new(), Vec::new());
        for _ in 0..self.plan.resyncs {
            dumps.push(timed(netlink::dump)?);
            self.router.follow("default")?;
            let empty = self.empty;
            self.wait_for_prefixes(|prefixes| prefixes <= empty)?;
            std::thread::sleep(REST);
            loads.push(timed(|| {
                self.router.follow("main")?;
                let full = self.full;
                self.wait_for_prefixes(|prefixes| prefixes >= full)
            })?);
        }
        Ok((dumps, loads))
    }

    /// Waits until this many prefixes are in the lookup structures, and workers see them.
    fn wait_for_prefixes(&mut self, enough: impl Fn(u64) -> bool) -> Result<()> {
        let deadline = Instant::now() + self.plan.patience;
        loop {
            let (prefixes, pending) = self.router.prefixes()?;
            if enough(prefixes) && !pending && self.linux()?.state == LinuxState::Following {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "another table is not followed: {prefixes} prefixes are in the lookup structures"
            );
            std::thread::sleep(POLL);
        }
    }

    /// Seconds of bare dumps and of resyncs, and what the worker did during the latter.
    fn resyncs(&mut self) -> Result<(Vec<f64>, Vec<f64>, Vec<Window>)> {
        let (mut dumps, mut resyncs, mut windows) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.plan.resyncs {
            std::thread::sleep(REST);
            dumps.push(timed(netlink::dump)?);
            self.begin()?;
            resyncs.push(timed(|| self.router.ask(&Resync {}).context("a resync cannot be asked for"))?);
            windows.push(self.window()?);
        }
        Ok((dumps, resyncs, windows))
    }

    fn pair(&mut self, number: usize) -> Result<Pair> {
        // They take turns at going first, as the first may find a warmer or colder cache.
        if number.is_multiple_of(2) {
            let quiet = self.quiet()?;
            Ok(Pair { quiet, ..self.churn()? })
        } else {
            let churn = self.churn()?;
            Ok(Pair { quiet: self.quiet()?, ..churn })
        }
    }

    fn quiet(&mut self) -> Result<Window> {
        self.begin()?;
        std::thread::sleep(Duration::from_secs_f64(self.plan.seconds));
        self.window()
    }

    /// Withdraws all changing routes and announces them again, until the time is over.
    fn churn(&mut self) -> Result<Pair> {
        let before = self.linux()?;
        self.begin()?;
        let (start, mut changes) = (Instant::now(), 0);
        while changes == 0 || start.elapsed().as_secs_f64() < self.plan.seconds {
            for change in [Change::Withdraw, Change::Announce] {
                changes += self.pump.pump(change, self.plan.changing)?.all()?;
            }
        }
        let pumped_s = start.elapsed().as_secs_f64();
        let applied_s = (self.catch_up(&before, changes)? - start).as_secs_f64();
        Ok(Pair { quiet: Window::default(), churn: self.window()?, changes, pumped_s, applied_s })
    }
}
