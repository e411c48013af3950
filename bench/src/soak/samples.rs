// SPDX-License-Identifier: MIT
//! What is looked at while the soak runs: memory and descriptors every few seconds; the worker's gaps, beside what the
//! machine did, many times a second, so that what explains a gap happened in the same moment.

use anyhow::{Context as _, Result};
use perigee_api::client::ApiClient;
use perigee_api::queries::TakeGaps;
use perigee_lab::seen;
use rustix::thread::gettid;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Gaps shorter than this are nobody's business, in ns.
pub const GAP: u64 = 1_000_000;
/// How often gaps are looked at.
const MOMENT: Duration = Duration::from_millis(50);

/// One look at memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Since the traffic began.
    pub seconds: f64,
    /// Resident memory of the router and its helpers, in bytes.
    pub memory: u64,
    /// File descriptors of the router.
    pub descriptors: usize,
}

impl Sample {
    /// Looks.
    pub fn look(pid: u32, began: Instant) -> Result<Sample> {
        Ok(Sample {
            seconds: began.elapsed().as_secs_f64(),
            memory: seen::router(pid)?.iter().map(|process| process.resident).sum(),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count),
        })
    }
}

/// A gap of the worker's loop of more than [`GAP`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Gap {
    /// When it was found, since the watch began.
    pub seconds: f64,
    /// How long it was, in ns.
    pub gap: u64,
    /// In the same moment and the one before: how long the worker was ready to run and did not, and how long the
    /// hypervisor had its core, in ns.
    pub waited: u64,
    pub stolen: u64,
    /// How late the probe was woken at most, in ns.
    pub late: u64,
}

impl Gap {
    /// Whether more than [`GAP`] of it is left that nothing the machine did explains.
    pub fn is_the_routers(&self) -> bool {
        self.gap > self.waited + self.stolen + self.late + GAP
    }
}

/// A thread on the worker's core that goes before all others and is woken every millisecond: if it is woken late,
/// neither the worker nor anything else could run there, as the hypervisor had the core, or the kernel did not let go
/// of it.
pub struct Probe {
    latest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Probe {
    /// Starts it; `None` where the system gives nobody real-time priority.
    pub fn start(core: usize) -> Option<Probe> {
        let (latest, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let probe = Probe { latest: latest.clone(), stop: stop.clone() };
        let (sender, thread) = channel();
        let run = move || {
            let _ = perigee_dpdk::pin_current_thread(core);
            let _ = sender.send(gettid().as_raw_nonzero());
            let pause = Duration::from_millis(1);
            while !stop.load(Ordering::Relaxed) {
                let slept = Instant::now();
                sleep(pause);
                let late = slept.elapsed().saturating_sub(pause);
                latest.fetch_max(late.as_nanos() as u64, Ordering::Relaxed);
            }
        };
        std::thread::Builder::new().name("probe".to_owned()).spawn(run).ok()?;
        let priority = ["-f", "-p", "1", &thread.recv().ok()?.to_string()].map(str::to_owned);
        let first = Command::new("chrt").args(priority).stderr(Stdio::null()).status();
        // Dropped, it ends.
        first.is_ok_and(|status| status.success()).then_some(probe)
    }

    fn take(&self) -> u64 {
        self.latest.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What the watch has found.
#[derive(Debug, Default)]
pub struct Watched {
    /// How often it looked.
    pub moments: u64,
    pub gaps: Vec<Gap>,
    /// Whether there was a probe.
    pub probed: bool,
}

/// A thread that looks at the worker's gaps.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Watched>>,
}

impl Watch {
    /// Begins: gaps count from here.
    pub fn start(pid: u32, core: usize, api: ApiClient) -> Result<Watch> {
        let stop = Arc::new(AtomicBool::new(false));
        let machine = move || -> Result<[u64; 2]> {
            let waited = waited(pid).context("/proc does not say how long the worker waited")?;
            Ok([waited, stolen(core).unwrap_or(0)])
        };
        let mut earlier = [machine()?; 2];
        let probe = Probe::start(core);
        api.ask(&TakeGaps {})?;
        let (stopped, began) = (stop.clone(), Instant::now());
        let watch = move || {
            let mut watched = Watched { probed: probe.is_some(), ..Watched::default() };
            while !stopped.load(Ordering::Relaxed) {
                sleep(MOMENT);
                let workers = api.ask(&TakeGaps {})?;
                let gap = workers.iter().map(|worker| worker.longest_gap).fold(0.0, f64::max);
                let now = machine()?;
                let [waited, stolen] = [0, 1].map(|i| now[i].saturating_sub(earlier[0][i]));
                let late = probe.as_ref().map_or(0, Probe::take);
                let seconds = began.elapsed().as_secs_f64();
                let found = Gap { seconds, gap: (gap * 1e9) as u64, waited, stolen, late };
                watched.moments += 1;
                watched.gaps.extend((found.gap > GAP).then_some(found));
                earlier = [earlier[1], now];
            }
            Ok(watched)
        };
        Ok(Watch { stop, thread: std::thread::Builder::new().name("watch".to_owned()).spawn(watch)? })
    }

    /// Ends it.
    pub fn finish(self) -> Result<Watched> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the watch has panicked")))
    }
}

/// How long the worker's thread was ready to run and did not, in ns: the second field of its schedstat.
fn waited(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let worker = tasks
        .flatten()
        .find(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("worker-")))?;
    let text = fs::read_to_string(worker.path().join("schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// How long the hypervisor had a core, in ns: ticks of 10 ms in /proc/stat.
fn stolen(core: usize) -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{core} ")))?;
    let ticks: u64 = line.split_whitespace().nth(7)?.parse().ok()?;
    Some(ticks * 10_000_000)
}

/// The slope of memory over time, in bytes per hour: the line of least squares through the samples.
pub fn slope(samples: &[Sample]) -> f64 {
    let n = samples.len() as f64;
    let mean = |value: fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>() / n;
    let (time, memory) = (mean(|sample| sample.seconds), mean(|sample| sample.memory as f64));
    let (mut above, mut below) = (0.0, 0.0);
    for sample in samples {
        above += (sample.seconds - time) * (sample.memory as f64 - memory);
        below += (sample.seconds - time).powi(2);
    }
    if below > 0.0 { above / below * 3600.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_the_line() {
        let sample = |seconds: f64, memory: u64| Sample { seconds, memory, ..Sample::default() };
        let rising: Vec<Sample> = (0..100).map(|i| sample(f64::from(i), 1_000_000 + 10 * i as u64)).collect();
        assert!((slope(&rising) - 36_000.0).abs() < 1e-3);
        let flat: Vec<Sample> = (0..100).map(|i| sample(f64::from(i), 7)).collect();
        assert_eq!((slope(&flat), slope(&[])), (0.0, 0.0));
    }

    #[test]
    fn a_gap_that_the_machine_explains_is_not_the_routers() {
        let gap = |gap, waited, stolen, late| Gap { gap, waited, stolen, late, ..Gap::default() };
        assert!(gap(2 * GAP + 1, 0, 0, 0).is_the_routers());
        assert!(!gap(2 * GAP, GAP, 0, 0).is_the_routers());
        assert!(!gap(9 * GAP, 6 * GAP, 2 * GAP, 0).is_the_routers());
        assert!(!gap(9 * GAP, 0, 0, 8 * GAP).is_the_routers());
        assert!(gap(9 * GAP, GAP, GAP, GAP).is_the_routers());
    }
}
