// SPDX-License-Identifier: MIT
//! Threads on cores of their own that work at the same time.

use crate::machine::thread_time;
use anyhow::{Context as _, Result, anyhow};
use perigee_dpdk::Eal;
use perigee_rig::Cores;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A stretch of work, called again and again; returns how much was done.
pub type Work<'s> = Box<dyn FnMut() -> u64 + Send + 's>;

/// How long each works before it is measured: for caches, and until all others work, too.
pub const WARM: Duration = Duration::from_millis(30);

/// Counts one more when it is dropped, however its thread ends.
struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Runs each work on its core, all at once; returns millions per second of CPU time, by thread. A thread that has been
/// measured keeps working until all have been. `eal`: DPDK, if it has been started; pools cache buffers for its
/// threads.
pub fn together(cores: &Cores, time: Duration, works: Vec<(usize, Work<'_>)>, eal: Option<&Eal>) -> Result<Vec<f64>> {
    let (start, measured, all) = (Barrier::new(works.len()), AtomicUsize::new(0), works.len());
    let run = |core: usize, mut work: Work<'_>| {
        let ended = Ended(&measured);
        let registered = eal.map(Eal::register_thread).transpose();
        let pinned = cores.pin(core).context("a thread cannot be pinned");
        start.wait();
        let _registered = registered?;
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
        drop(ended);
        while measured.load(Ordering::Acquire) < all {
            work();
        }
        Ok(rate)
    };
    let run = &run;
    std::thread::scope(|scope| {
        let threads: Vec<_> = works.into_iter().map(|(core, work)| scope.spawn(move || run(core, work))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<f64>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a thread has panicked")))
        };
        threads.into_iter().map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work<'s>() -> Work<'s> {
        Box::new(|| 1)
    }

    #[test]
    fn all_are_measured() {
        let cores = Cores::pretended(5, perigee_dpdk::usable_cores());
        let works = cores.list().iter().map(|core| (*core, work())).collect();
        let rates = together(&cores, Duration::from_millis(20), works, None).unwrap();
        assert!(rates.len() == 5 && rates.iter().all(|rate| *rate > 0.0), "{rates:?}");
    }

    /// A thread that could not be pinned left the others working for ever.
    #[test]
    fn one_that_fails_ends_the_others() {
        let cores = Cores::usable().unwrap();
        let works = vec![(cores.list()[0], work()), (100_000, work())];
        let error = together(&cores, Duration::from_millis(20), works, None).unwrap_err();
        assert!(error.to_string().contains("cannot be pinned"), "{error:#}");
        let panics: Work<'_> = Box::new(|| panic!("as it should"));
        let works = vec![(cores.list()[0], work()), (cores.list()[0], panics)];
        let error = together(&cores, Duration::from_millis(20), works, None).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error:#}");
    }
}
