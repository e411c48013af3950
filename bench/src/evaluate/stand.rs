// SPDX-License-Identifier: MIT
//! Where figures are measured: a rig, its cores, and how thoroughly.

use super::simulated::Simulated;
use crate::table;
use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use perigee_dpdk::usable_cores;
use perigee_rig::{Manner, Request, Rig, Rounds, Routes, Settings, in_rounds};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// The stand.
pub struct Stand {
    pub quick: bool,
    /// Cores for workers, the last of the machine first.
    pub cores: Vec<usize>,
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
        let none = Vec::new;
        Ok(Stand {
            quick,
            cores,
            routes: None,
            peers: none(),
            snabb: None,
            schemes: none(),
            layouts: none(),
            structures: none(),
            simulated: HashMap::new(),
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

    /// Measures all of these in rounds.
    ///
    /// # Errors
    /// DPDK does not start, or a request is wrong.
    pub fn rounds(&mut self, requests: &[Request]) -> Result<Vec<Rounds>> {
        let (rounds, patience) = self.thoroughness();
        let rig = match &mut self.rig {
            Some(rig) => rig,
            none => {
                let list = self.routes.as_deref().map(table::read).transpose()?;
                let mut rig =
                    Rig::new(Settings { hugepages: perigee_rig::enough_hugepages() }).context("DPDK does not start")?;
                if let Some(list) = list {
                    rig.give(list.v4);
                }
                none.insert(rig)
            }
        };
        let manner = Manner { rounds, seed: 1, patience: Duration::from_secs(patience) };
        let style = ProgressStyle::with_template("  {bar:30} {pos}/{len} ({elapsed})");
        let bar = ProgressBar::new(rounds * requests.len() as u64);
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let found = in_rounds(rig, requests, manner, |_| bar.inc(1));
        bar.finish_and_clear();
        found
    }
}
