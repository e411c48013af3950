// SPDX-License-Identifier: MIT
//! What disturbed the processors during a trial: counters that are read before and after it.

use super::Root;
use super::machine::ticks;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Counters of the processors used, since boot; of two readings, the later one [`since`](Meanwhile::since) the earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meanwhile {
    /// Time that the host gave to others, in the kernel's ticks (usually of 10 ms); `None` if it cannot be read.
    pub stolen_ticks: Option<u64>,
    /// All time of these processors.
    pub all_ticks: Option<u64>,
    /// Interrupts that they handled.
    pub interrupts: Option<u64>,
}

impl Meanwhile {
    /// Reads the counters of these processors below `root`.
    pub fn read(root: &Path, cores: &[u32]) -> Meanwhile {
        let root = Root(root);
        let stat = root.text("proc/stat").unwrap_or_default();
        let of_core = |core: &u32| {
            let name = format!("cpu{core} ");
            ticks(stat.lines().find(|line| line.starts_with(&name))?)
        };
        let times: Option<Vec<Vec<u64>>> = cores.iter().map(of_core).collect();
        let times = times.filter(|times| !times.is_empty());
        // Guest time is contained in user time.
        let sum = |skip: usize, take: usize| {
            let of = |ticks: &Vec<u64>| ticks.iter().skip(skip).take(take).sum::<u64>();
            times.as_ref().map(|times| times.iter().map(of).sum())
        };
        let interrupts = root.text("proc/interrupts").and_then(|text| interrupts(&text, cores));
        Meanwhile { stolen_ticks: sum(7, 1), all_ticks: sum(0, 8), interrupts }
    }

    /// What was counted since an earlier reading.
    pub fn since(&self, earlier: &Meanwhile) -> Meanwhile {
        let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Meanwhile {
            stolen_ticks: less(self.stolen_ticks, earlier.stolen_ticks),
            all_ticks: less(self.all_ticks, earlier.all_ticks),
            interrupts: less(self.interrupts, earlier.interrupts),
        }
    }

    /// The share of time that was stolen, 0 to 1.
    pub fn stolen(&self) -> Option<f64> {
        let all = self.all_ticks.filter(|all| *all > 0)?;
        Some(self.stolen_ticks? as f64 / all as f64)
    }
}

/// The sum of the columns of these processors in `/proc/interrupts`.
fn interrupts(text: &str, cores: &[u32]) -> Option<u64> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next()?.split_whitespace().collect();
    let at = |core: &u32| columns.iter().position(|column| column.strip_prefix("CPU") == Some(&core.to_string()));
    let wanted: Vec<usize> = cores.iter().map(at).collect::<Option<_>>()?;
    let counts = lines.map(|line| {
        let counts: Vec<&str> = line.split_whitespace().skip(1).take(columns.len()).collect();
        // Lines such as "ERR: 0" have fewer columns, and belong to no processor.
        wanted.iter().filter_map(|at| counts.get(*at)?.parse::<u64>().ok()).sum::<u64>()
            * u64::from(counts.len() == columns.len())
    });
    Some(counts.sum())
}
