// SPDX-License-Identifier: MIT
//! Where figures are measured: a rig, its cores, and how thoroughly.

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use perigee_dpdk::usable_cores;
use perigee_rig::{Manner, Request, Rig, Rounds, Settings, in_rounds};
use std::path::PathBuf;
use std::time::Duration;

/// The stand.
pub struct Stand {
    pub quick: bool,
    /// Cores for workers, the last of the machine first.
    pub cores: Vec<usize>,
    /// A routing table for the figures with a real one.
    pub routes: Option<PathBuf>,
    /// Other programs to compare with, NAME=COMMAND.
    pub peers: Vec<String>,
    /// A built Snabb to compare with, or its tree.
    pub snabb: Option<PathBuf>,
    rig: Option<Rig>,
}

impl Stand {
    /// Nothing is started yet.
    ///
    /// # Errors
    /// This process may use no core.
    pub fn new(quick: bool) -> Result<Stand> {
        let mut cores = usable_cores();
        cores.reverse();
        ensure!(!cores.is_empty(), "this process may use no core");
        Ok(Stand { quick, cores, routes: None, peers: Vec::new(), snabb: None, rig: None })
    }

    /// The table, as words for another bench.
    pub fn routes_words(&self) -> Vec<String> {
        self.routes.iter().flat_map(|file| ["--routes".to_owned(), file.display().to_string()]).collect()
    }

    /// Of two lists the one for this run.
    pub fn choose<'a, T>(&self, quick: &'a [T], whole: &'a [T]) -> &'a [T] {
        if self.quick { quick } else { whole }
    }

    /// A worker on one core, as `perigee run` has it, saturated.
    pub fn plain(&self) -> Request {
        let time = if self.quick { 200 } else { 500 };
        Request { time: Duration::from_millis(time), windows: 10, ..Request::new(vec![self.cores[0]]) }
    }

    /// Measures all of these in rounds.
    ///
    /// # Errors
    /// DPDK does not start, or a request is wrong.
    pub fn rounds(&mut self, requests: &[Request]) -> Result<Vec<Rounds>> {
        let rig = match &mut self.rig {
            Some(rig) => rig,
            none => {
                let huge = std::fs::read_to_string("/proc/meminfo").is_ok_and(|text| {
                    let free = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
                    free.and_then(|free| free.trim().parse::<u64>().ok())
                        .is_some_and(|free| 2 * free >= perigee_rig::MEMORY_MB)
                });
                none.insert(Rig::new(Settings { hugepages: huge }).context("DPDK does not start")?)
            }
        };
        let (rounds, patience) = if self.quick { (2, 20) } else { (5, 300) };
        let manner = Manner { rounds, seed: 1, patience: Duration::from_secs(patience) };
        let style = ProgressStyle::with_template("  {bar:30} {pos}/{len} ({elapsed})");
        let bar = ProgressBar::new(rounds * requests.len() as u64);
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let found = in_rounds(rig, requests, manner, |_| bar.inc(1));
        bar.finish_and_clear();
        found
    }
}
