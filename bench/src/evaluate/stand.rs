// SPDX-License-Identifier: MIT
//! Where figures are measured: a rig, its cores, and how thoroughly.

use super::simulated::Simulated;
use crate::machine::Interrupts;
use crate::table;
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use perigee_predict::profile::MAX_CORES;
use perigee_rig::{Cores, Manner, Request, Rig, Rounds, Routes, Settings, estimate, in_rounds};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// The stand.
pub struct Stand {
    pub quick: bool,
    /// Cores for workers, the first to be taken first.
    pub cores: Vec<usize>,
    /// Ctrl-C ends a figure that is measured in rounds. It is kept if each of its measurements has a round.
    pub interrupts: Interrupts,
    /// Has one ended rounds early?
    pub partly: bool,
    /// A routing table for the figures with a real one; without it a synthetic table of the Internet's size.
    pub routes: Option<PathBuf>,
    /// Other programs to compare with, NAME=COMMAND.
    pub peers: Vec<String>,
    /// A built Snabb to compare with, or its tree.
    pub snabb: Option<PathBuf>,
    /// Only these schemes, layouts and lookup structures, where a figure has several; none: all.
    pub schemes: Vec<String>,
    pub layouts: Vec<String>,
    pub structures: Vec<String>,
    /// What was simulated, by networks and structure.
    pub simulated: HashMap<(u32, String), Simulated>,
    settings: Settings,
    rig: Option<Rig>,
}

impl Stand {
    /// Nothing is started yet.
    ///
    /// # Errors
    /// This process may use no core.
    pub fn new(quick: bool, interrupts: Interrupts) -> Result<Stand> {
        let mut cores = Cores::usable()?;
        cores.take(MAX_CORES as usize);
        let none = Vec::new;
        Ok(Stand {
            quick,
            cores: cores.list().to_vec(),
            interrupts,
            partly: false,
            routes: None,
            peers: none(),
            snabb: None,
            schemes: none(),
            layouts: none(),
            structures: none(),
            simulated: HashMap::new(),
            settings: Settings { hugepages: perigee_rig::enough_hugepages(cores.list().len()), cores },
            rig: None,
        })
    }

    /// The table, as words for another bench.
    pub fn routes_words(&self) -> Vec<String> {
        self.routes.iter().flat_map(|file| ["--routes".to_owned(), file.display().to_string()]).collect()
    }

    /// Of two lists the one for this run.
    pub fn choose<'a, T>(&self, quick: &'a [T], whole: &'a [T]) -> &'a [T] {
        if self.quick { quick } else { whole }
    }

    /// The lookup structures that were named, or else these.
    pub fn structures(&self, quick: &[&str], whole: &[&str]) -> Vec<String> {
        let these = || self.choose(quick, whole).iter().map(|&name| name.to_owned()).collect();
        if self.structures.is_empty() { these() } else { self.structures.clone() }
    }

    /// Where routes of the Internet's size come from, and in words.
    pub fn full_table(&self) -> (Routes, &'static str) {
        match &self.routes {
            Some(_) => (Routes::Given, "the table that was given"),
            None => (Routes::Internet, "a synthetic table of 901,899 routes"),
        }
    }

    /// Rounds, and seconds for repetitions.
    pub fn thoroughness(&self) -> (u64, u64) {
        if self.quick { (2, 20) } else { (5, 120) }
    }

    /// A worker on one core, as `perigee run` has it, saturated.
    pub fn plain(&self) -> Request {
        let time = if self.quick { 200 } else { 500 };
        Request { time: Duration::from_millis(time), windows: 10, ..Request::new(vec![self.cores[0]]) }
    }

    /// Measures all of these in rounds. Interrupted, each has those rounds that there were, or it is an error.
    ///
    /// # Errors
    /// DPDK does not start, a request is wrong, or an interrupt came before each was measured once.
    pub fn rounds(&mut self, requests: &[Request]) -> Result<Vec<Rounds>> {
        let (rounds, patience) = self.thoroughness();
        let rig = match &mut self.rig {
            Some(rig) => rig,
            none => {
                let list = self.routes.as_deref().map(table::read).transpose()?;
                let mut rig = Rig::new(self.settings.clone()).context("DPDK does not start")?;
                if let Some(list) = list {
                    rig.give(list.v4);
                }
                none.insert(rig)
            }
        };
        let manner = Manner { rounds, seed: 1, patience: Duration::from_secs(patience) };
        let count = rounds * requests.len() as u64;
        eprintln!("  {count} measurements: {}", estimate(&[requests.to_vec()], manner));
        let style = ProgressStyle::with_template("  {bar:30} {pos}/{len} ({elapsed})");
        let bar = ProgressBar::new(count);
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let (interrupts, mut partly) = (&mut self.interrupts, None);
        let found = in_rounds(rig, requests, manner, |_, so_far| {
            if interrupts.came() {
                partly = Some(so_far.rounds());
                bail!("interrupted");
            }
            bar.inc(1);
            Ok(())
        });
        bar.finish_and_clear();
        let Some(partly) = partly.filter(|all| all.iter().all(|rounds| !rounds.samples.is_empty())) else {
            return found;
        };
        self.partly = true;
        Ok(partly)
    }
}
