// SPDX-License-Identifier: MIT
//! Packets of a program by its telemetry, and the CPU time of the one of its threads that forwards.

use super::telemetry::{PortCounts, Telemetry};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where a program has its telemetry socket that was started with this folder as RUNTIME_DIRECTORY.
pub fn socket(folder: &Path, prefix: &str) -> PathBuf {
    folder.join("dpdk").join(prefix).join("dpdk_telemetry.v2")
}

/// Which packets count.
#[derive(Debug, Clone, Copy)]
pub enum Count {
    /// Those that port 0 received.
    Received,
    /// Those that port 0 transmitted.
    Transmitted,
}

/// Counts of a running program.
pub struct Meter {
    pub telemetry: Telemetry,
    /// `schedstat` of the thread that forwards.
    thread: PathBuf,
    count: Count,
}

/// The kernel adds a running thread's time up once per tick, of 1 to 10 ms; one that does not run keeps its time.
const TICK: Duration = Duration::from_millis(12);

impl Meter {
    /// `thread`: its folder under `/proc/PID/task`.
    pub fn new(telemetry: Telemetry, thread: &Path, count: Count) -> Meter {
        Meter { telemetry, thread: thread.join("schedstat"), count }
    }

    /// Packets so far and the thread's CPU time in ns, right after the kernel has added it up.
    fn look(&self) -> Result<(u64, u64)> {
        let (start, before) = (Instant::now(), cpu_ns(&self.thread)?);
        let mut now = before;
        while now == before && start.elapsed() < TICK {
            std::thread::sleep(Duration::from_micros(20));
            now = cpu_ns(&self.thread)?;
        }
        let PortCounts { received, transmitted } = self.telemetry.port(0)?;
        let packets = match self.count {
            Count::Received => received,
            Count::Transmitted => transmitted,
        };
        Ok((packets, now))
    }

    /// Packets and CPU time in ns of a while of a program that is running: `warm`, then `time`, of which only the
    /// latter counts.
    pub fn measure(&self, warm: Duration, time: Duration) -> Result<(u64, u64)> {
        std::thread::sleep(warm);
        let first = self.look()?;
        std::thread::sleep(time);
        let last = self.look()?;
        Ok((last.0.saturating_sub(first.0), last.1.saturating_sub(first.1)))
    }
}

/// CPU time of a thread by its file `schedstat`, in ns.
pub fn cpu_ns(file: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(file).context("a thread that was measured has ended")?;
    let first = text.split_whitespace().next().and_then(|number| number.parse().ok());
    first.with_context(|| format!("{} says {text:?}", file.display()))
}

/// The folders of a process's threads.
pub fn threads(pid: u32) -> Result<Vec<PathBuf>> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("process {pid} has ended"))?;
    Ok(tasks.flatten().map(|task| task.path()).collect())
}

/// The thread of a process that ran most on a core while `time` passed.
pub fn busiest(pid: u32, core: usize, time: Duration) -> Result<Option<PathBuf>> {
    let used = |thread: &PathBuf| cpu_ns(&thread.join("schedstat")).unwrap_or(0);
    let before: Vec<(PathBuf, u64)> = threads(pid)?.into_iter().map(|thread| (thread.clone(), used(&thread))).collect();
    std::thread::sleep(time);
    let grown = before.into_iter().map(|(thread, before)| (used(&thread).saturating_sub(before), thread));
    let here = grown.filter(|(grown, thread)| *grown > 0 && last_core(thread) == Some(core));
    Ok(here.max().map(|(_, thread)| thread))
}

/// The core that a thread ran on last.
fn last_core(thread: &Path) -> Option<usize> {
    core_of(&std::fs::read_to_string(thread.join("stat")).ok()?)
}

/// Field 39 of `stat`; the second one, a name in parentheses, may hold anything.
fn core_of(stat: &str) -> Option<usize> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_is_found_behind_a_name_with_spaces_and_parentheses() {
        let fields: Vec<String> =
            (3..=52).map(|field| if field == 39 { "1".into() } else { field.to_string() }).collect();
        assert_eq!(core_of(&format!("77 (a ) 5 (x) {}", fields.join(" "))), Some(1));
        assert_eq!(core_of("77 (short) S 1"), None);
    }

    #[test]
    fn the_thread_that_spins_is_the_busiest() {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let asked = stop.clone();
        let spinner = std::thread::Builder::new().name("spinner".into()).spawn(move || {
            while !asked.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        // It may be on any of this process's cores, whatever their numbers, and move; a busy machine may not run it at
        // once, and other tests of this process may be busier on one.
        let cores = perigee_dpdk::usable_cores();
        let start = std::time::Instant::now();
        let in_time = |_: &usize| start.elapsed() < Duration::from_secs(180);
        let found = (0..).take_while(in_time).find_map(|_| {
            let of = |core| busiest(std::process::id(), core, Duration::from_millis(20)).unwrap();
            let name = |thread: &PathBuf| std::fs::read_to_string(thread.join("comm")).unwrap_or_default();
            cores.iter().copied().filter_map(of).find(|thread| name(thread).trim() == "spinner")
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        spinner.unwrap().join().unwrap();
        assert!(found.is_some());
    }
}
