// SPDX-License-Identifier: MIT
//! Threads on cores of their own that work at the same time.

use crate::machine::thread_time;
use anyhow::{Context as _, Result, anyhow};
use perigee_dpdk::{self as dpdk, Eal};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A stretch of work, called again and again; returns how much was done.
pub type Work<'s> = Box<dyn FnMut() -> u64 + Send + 's>;

/// How long each works before it is measured: for caches, and until all others work, too.
const WARM: Duration = Duration::from_millis(30);

/// Each work on a core of its own, all at once; millions per second of CPU time, by thread. Whoever has been measured goes on until all
/// have. `eal`: DPDK, if it has been started; pools keep buffers for threads that it knows.
pub fn together(cores: &[usize], time: Duration, works: Vec<Work<'_>>, eal: Option<&Eal>) -> Result<Vec<f64>> {
    let (start, measured, all) = (Barrier::new(works.len()), AtomicUsize::new(0), works.len());
    let run = |core: usize, mut work: Work<'_>| {
        let _registered = eal.map(Eal::register_thread).transpose();
        let pinned = dpdk::pin_current_thread(core).context("a thread cannot be pinned");
        start.wait();
        pinned?;
        let warm = Instant::now();
        while warm.elapsed() < WARM {
            work();
        }
        let (begun, cpu) = (Instant::now(), thread_time());
        let mut done = 0;
        while begun.elapsed() < time {
            done += work();
        }
        let rate = done as f64 / (thread_time() - cpu).as_secs_f64() / 1e6;
        measured.fetch_add(1, Ordering::AcqRel);
        while measured.load(Ordering::Acquire) < all {
            work();
        }
        Ok(rate)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            works.into_iter().zip(cores).map(|(work, core)| scope.spawn(|| run(*core, work))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<f64>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a thread has panicked")))
        };
        threads.into_iter().map(join).collect()
    })
}
