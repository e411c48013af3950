// SPDX-License-Identifier: MIT
//! What is looked at while the soak runs: memory, descriptors, and the worker's gaps beside what the machine did.

use anyhow::{Context as _, Result};
use perigee_api::client::ApiClient;
use perigee_api::queries::TakeGaps;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Gaps shorter than this are nobody's business, in ns.
pub const GAP: u64 = 1_000_000;

/// One look.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Since the traffic began.
    pub seconds: f64,
    /// Resident memory of the router and its helpers, in bytes.
    pub memory: u64,
    /// File descriptors of the router.
    pub descriptors: usize,
    /// The worker's longest gap since the sample before, in ns.
    pub gap: u64,
    /// How long the worker was ready to run and did not, and how long the hypervisor had its core, in ns.
    pub waited: u64,
    pub stolen: u64,
    /// The longest gap of the spinner, in ns.
    pub spinner: u64,
}

impl Sample {
    /// Whether the worker had a gap that nothing the machine did explains.
    pub fn is_the_routers(&self) -> bool {
        self.gap > GAP && self.waited + self.stolen + self.spinner < self.gap - self.gap / 10
    }
}

/// A thread that does nothing but look at the clock, on a core beside the worker's, at the lowest priority: its gaps are the machine's.
pub struct Spinner {
    longest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Spinner {
    /// Starts it on a core of its own; `None` where there is none: it would take the time that it is to watch.
    pub fn start(core: Option<usize>) -> Option<Spinner> {
        let core = core?;
        let (longest, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let spinner = Spinner { longest: longest.clone(), stop: stop.clone() };
        let spin = move || {
            let _ = perigee_dpdk::pin_current_thread(core);
            let mut last = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                let now = Instant::now();
                longest.fetch_max((now - last).as_nanos() as u64, Ordering::Relaxed);
                last = now;
            }
        };
        std::thread::Builder::new().name("spinner".to_owned()).spawn(spin).ok()?;
        Some(spinner)
    }

    fn take(&self) -> u64 {
        self.longest.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The sampler of one router.
pub struct Sampler {
    pid: u32,
    core: usize,
    api: ApiClient,
    began: Instant,
    waited: u64,
    stolen: u64,
    spinner: Option<Spinner>,
}

impl Sampler {
    /// Begins: gaps and waits count from here.
    pub fn new(pid: u32, core: usize, api: ApiClient, spinner: Option<Spinner>) -> Result<Sampler> {
        let (began, waited, stolen) = (Instant::now(), 0, 0);
        let mut sampler = Sampler { pid, core, api, began, waited, stolen, spinner };
        sampler.look()?;
        Ok(sampler)
    }

    /// How long it has been sampling.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Looks.
    pub fn look(&mut self) -> Result<Sample> {
        let workers = self.api.ask(&TakeGaps {})?;
        let gap = workers.iter().map(|worker| worker.longest_gap).fold(0.0, f64::max);
        let waited = waited(self.pid).context("/proc does not say how long the worker waited")?;
        let stolen = stolen(self.core).unwrap_or(0);
        let sample = Sample {
            seconds: self.began.elapsed().as_secs_f64(),
            memory: memory(self.pid)?,
            descriptors: fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, Iterator::count),
            gap: (gap * 1e9) as u64,
            waited: waited.saturating_sub(self.waited),
            stolen: stolen.saturating_sub(self.stolen),
            spinner: self.spinner.as_ref().map_or(0, Spinner::take),
        };
        (self.waited, self.stolen) = (waited, stolen);
        Ok(sample)
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

/// Resident memory of the router and all processes below it.
fn memory(pid: u32) -> Result<u64> {
    let mut all = Vec::new();
    for process in fs::read_dir("/proc")?.flatten() {
        let text = fs::read_to_string(process.path().join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        if let (Some(pid), Some(parent)) = (field("Pid"), field("PPid")) {
            let helper = fs::read(process.path().join("cmdline"))
                .is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(b"helper"));
            all.push((pid as u32, parent as u32, helper, field("VmRSS").unwrap_or(0) * 1024));
        }
    }
    // A standby that has taken over has lost its parent.
    Ok(all
        .iter()
        .filter(|(own, parent, helper, _)| *own == pid || *parent == pid || *helper)
        .map(|(.., rss)| rss)
        .sum())
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
        let sample = |gap, waited, stolen, spinner| Sample { gap, waited, stolen, spinner, ..Sample::default() };
        assert!(!sample(GAP, 0, 0, 0).is_the_routers());
        assert!(sample(2 * GAP, 0, 0, 0).is_the_routers());
        assert!(!sample(2 * GAP, 2 * GAP, 0, 0).is_the_routers());
        assert!(!sample(2 * GAP, GAP, GAP, 0).is_the_routers());
        assert!(!sample(2 * GAP, 0, 0, 2 * GAP).is_the_routers());
        assert!(sample(3 * GAP, GAP, 0, 0).is_the_routers());
    }
}
