// SPDX-License-Identifier: MIT
//! The machine that a measurement runs on: cores, memory, and its description in a record.

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};
use perigee_dpdk as dpdk;
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM during a measurement: reserved memory is given back first.
pub struct Interrupts {
    runtime: Runtime,
    signals: [Signal; 2],
    came: bool,
}

impl Interrupts {
    /// From here on neither signal ends the process by itself.
    pub fn new() -> Result<Interrupts> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]
        };
        Ok(Interrupts { runtime, signals, came: false })
    }

    /// Has one come?
    pub fn came(&mut self) -> bool {
        for signal in &mut self.signals {
            let came =
                self.runtime.block_on(async { tokio::time::timeout(Duration::from_millis(1), signal.recv()).await });
            self.came |= came.is_ok();
        }
        self.came
    }

    /// An error if one came.
    pub fn check(&mut self) -> Result<()> {
        ensure!(!self.came(), "interrupted; nothing is left behind");
        Ok(())
    }
}

/// CPU time of this thread.
pub fn thread_time() -> Duration {
    // A thread can always ask for its own time. By libc: rustix reads the vDSO itself, which valgrind hides.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// CPU time, in s, of the child processes that have ended.
pub fn children_time() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("the CPU time cannot be read")?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// A description of the machine, for readers of the numbers.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor, as the kernel knows it.
    pub processor: String,
    /// Cores this process may use.
    pub cores: usize,
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// DPDK's version.
    pub dpdk: String,
}

impl Machine {
    /// The machine that this runs on.
    pub fn this() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: String, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
            let value = line.and_then(|line| Some(line.split_once([':', '='])?.1.trim().trim_matches('"').to_owned()));
            value.unwrap_or_else(|| "unknown".to_owned())
        };
        let cpu = read("/proc/cpuinfo");
        let numbers = ["cpu family", "model\t", "stepping"].map(|name| field(cpu.clone(), name)).join("/");
        Machine {
            processor: format!("{} (family/model/stepping {numbers})", field(cpu.clone(), "model name")),
            // The process itself may be bound to one.
            cores: cpu.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: field(read("/etc/os-release"), "PRETTY_NAME"),
            dpdk: dpdk::version(),
        }
    }
}

/// The core to measure on: the wanted one, or the last that this process may use.
pub fn core(wanted: Option<usize>) -> Result<usize> {
    let usable = dpdk::usable_cores();
    let core = wanted.or(usable.last().copied()).context("this process may use no core")?;
    ensure!(usable.contains(&core), "--core is {core}, and this process may use only the cores {usable:?}");
    Ok(core)
}

/// The core to measure on, and another one for everything else.
pub fn cores(wanted: Option<usize>) -> Result<(usize, usize)> {
    let (core, usable) = (core(wanted)?, dpdk::usable_cores());
    let Some(other) = usable.iter().copied().find(|other| *other != core) else {
        bail!("this process may use one core only ({core}); dpdk-testpmd needs a second one for its main thread");
    };
    Ok((core, other))
}

/// Is there a program of this name in the PATH?
pub fn program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

/// The scheduler's class for processes that are measured: they give way to nothing but themselves, so that neither
/// other programs nor the kernel's balancing of these empty their caches in the middle of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// SCHED_RR, by `chrt`.
    RealTime,
    /// Like all others, as this user may not have more.
    Normal,
}

/// Between the kernel's own threads of that class.
const REAL_TIME: &str = "50";

impl Priority {
    /// The best that this user may have.
    pub fn best() -> Priority {
        let tried = Command::new("chrt").args(["--rr", REAL_TIME, "true"]).stderr(Stdio::null()).status();
        if tried.is_ok_and(|status| status.success()) { Priority::RealTime } else { Priority::Normal }
    }

    /// Gives it to all threads of a process.
    pub fn give(self, pid: u32) -> Result<()> {
        if self == Priority::RealTime {
            let mut command = Command::new("chrt");
            let pid = pid.to_string();
            let output = command.args(["--all-tasks", "--rr", "--pid", REAL_TIME, &pid]).output()?;
            let error = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "process {pid} cannot have real-time priority: {}", error.trim());
        }
        Ok(())
    }
}

const PAGES: &str = "/proc/sys/vm/nr_hugepages";
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Hugepages, given back when dropped if they were reserved here.
pub struct Hugepages {
    before: Option<u64>,
    /// Are there enough?
    pub enough: bool,
}

impl Hugepages {
    /// Reserves `more` pages of 2 MB, if any; then sees whether `mb` MB are free.
    pub fn reserve(more: Option<u64>, mb: u32) -> Result<Hugepages> {
        let mut pages = Hugepages { before: None, enough: false };
        if let Some(more) = more {
            let before = number(PAGES)?;
            let denied = || {
                format!(
                    "{PAGES} cannot be written; --hugepages needs root. Or reserve them yourself: sudo sysctl vm.nr_hugepages={}",
                    before + more
                )
            };
            std::fs::write(PAGES, (before + more).to_string()).with_context(denied)?;
            pages.before = Some(before);
        }
        let free = number(FREE).unwrap_or(0) * 2;
        pages.enough = free >= u64::from(mb);
        ensure!(
            more.is_none() || pages.enough,
            "{free} MB of hugepages are free and {mb} MB are needed; reserve more, or free memory"
        );
        Ok(pages)
    }
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        if let Some(before) = self.before.take()
            && let Err(error) = std::fs::write(PAGES, before.to_string())
        {
            eprintln!(
                "perigee-bench: hugepages are not given back: {error}; do it yourself: sudo sysctl vm.nr_hugepages={before}"
            );
        }
    }
}

fn number(path: &str) -> Result<u64> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{path} cannot be read"))?;
    text.trim().parse().with_context(|| format!("{path} is no number: {text:?}"))
}

/// Appends a section to a file of results: date, machine and command, then `body` as it was printed.
pub fn record(file: &Path, title: &str, machine: &Machine, body: &str) -> Result<()> {
    let date = Command::new("date").arg("-u").arg("+%F").output().context("date cannot be run")?;
    // Without the name of the benchmark, which is in the title.
    let command: Vec<String> = std::env::args().skip(2).collect();
    let Machine { processor, cores, kernel, system, dpdk } = machine;
    let section = format!(
        "\n## {title}, {}\n\nMachine: {processor}, {cores} cores, {system}, Linux {kernel}, {dpdk}.\n\n```\n$ ./x {title} {}\n{body}```\n",
        String::from_utf8_lossy(&date.stdout).trim(),
        command.join(" "),
    );
    let mut text = std::fs::read_to_string(file)
        .unwrap_or_else(|_| "<!-- SPDX-License-Identifier: MIT -->\n# Results\n".to_owned());
    text.push_str(&section);
    std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))
}
