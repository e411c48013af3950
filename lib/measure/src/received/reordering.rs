// SPDX-License-Identifier: MIT
//! How frames were reordered, over all flows: RFC 4737 and RFC 5236.

use super::density::{Displacements, THRESHOLD};
use super::flow::MAX_N;
use crate::buckets::Buckets;
use serde::{Deserialize, Serialize};

/// What is counted while frames come in.
#[derive(Clone, Debug, Default)]
pub(super) struct Reordering {
    extents: Buckets,
    late_times: Buckets,
    /// By the number of arrivals just before with higher sequence numbers; the last stands for all that are longer.
    runs: [u64; MAX_N + 1],
    pub displacements: Displacements,
}

impl Reordering {
    /// A reordered frame: `extent` in arrivals, `late` in ns.
    pub fn late(&mut self, extent: u64, late: u64, run: usize) {
        self.extents.record(extent);
        self.late_times.record(late);
        self.runs[run] += 1;
    }

    /// What it comes to, of `unique` frames received without duplicates.
    pub fn summary(&self, unique: u64) -> ReorderingSummary {
        let count = self.extents.count();
        let n_reordered = (1..=MAX_N).map(|n| self.runs[n..].iter().sum()).collect();
        let moved = |at: usize| self.displacements.counts[at];
        let displaced: u64 =
            (0..self.displacements.counts.len()).filter(|at| *at != THRESHOLD as usize).map(moved).sum();
        let density = (0..self.displacements.counts.len()).map(|at| {
            let displacement = at as i32 - THRESHOLD;
            let in_place = unique - displaced - self.displacements.beyond;
            (displacement, if displacement == 0 { in_place } else { moved(at) })
        });
        ReorderingSummary {
            reordered: count,
            ratio: if unique > 0 { count as f64 / unique as f64 } else { 0.0 },
            extent_mean: self.extents.mean(),
            extent_p99: self.extents.quantile(0.99),
            extent_max: self.extents.max(),
            late_ns_mean: self.late_times.mean(),
            late_ns_p99: self.late_times.quantile(0.99),
            late_ns_max: self.late_times.max(),
            n_reordered,
            density: density.filter(|(_, count)| *count > 0).collect(),
            beyond_threshold: self.displacements.beyond,
        }
    }
}

/// Reordering of a whole trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReorderingSummary {
    /// Frames that came after one of a higher sequence number (RFC 4737 3.3).
    pub reordered: u64,
    /// Their share of all frames without duplicates (RFC 4737 4.1), 0 to 1.
    pub ratio: f64,
    /// Reordering extent (RFC 4737 4.2): how many arrivals ago the first frame of a higher number came.
    pub extent_mean: Option<f64>,
    pub extent_p99: Option<u64>,
    pub extent_max: Option<u64>,
    /// Late time offset (RFC 4737 4.3): how long ago it came, in ns.
    pub late_ns_mean: Option<f64>,
    pub late_ns_p99: Option<u64>,
    pub late_ns_max: Option<u64>,
    /// How many frames are n-reordered (RFC 4737 5), for n from 1: the n arrivals just before have higher numbers.
    /// From n = 3 on, TCP takes them for lost.
    pub n_reordered: Vec<u64>,
    /// Reorder density (RFC 5236) in frames: displacement, negative for early frames, and count.
    pub density: Vec<(i32, u64)>,
    /// Frames displaced by more than the threshold of 16, which RFC 5236 counts as lost.
    pub beyond_threshold: u64,
}
