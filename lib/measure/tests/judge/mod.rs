// SPDX-License-Identifier: MIT
//! A second implementation of RFC 9971's classification, to check results independently of `search/goal.rs`. It follows
//! the RFC's prose (section 6.1), which computes ratios, where the other one compares sums.

use perigee_measure::search::goal::Goal;

/// A trial as the RFC sees it: load, duration, loss ratio.
pub type Result = (f64, f64, f64);

/// Relevant bounds and conditional throughput, in frames per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    pub lower: Option<f64>,
    pub upper: Option<f64>,
    pub throughput: Option<f64>,
}

pub fn judge(goal: &Goal, trials: &[Result]) -> Judgement {
    let mut loads: Vec<f64> = trials.iter().map(|trial| trial.0).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let upper = loads.iter().copied().find(|load| exceed_ratios(goal, trials, *load).0 > goal.exceed_ratio);
    let lower = loads
        .iter()
        .copied()
        .filter(|load| upper.is_none_or(|upper| *load < upper))
        .rfind(|load| exceed_ratios(goal, trials, *load).1 <= goal.exceed_ratio);
    Judgement { lower, upper, throughput: lower.map(|load| load * (1.0 - quantile(goal, trials, load))) }
}

/// The optimistic and the pessimistic exceed ratio of a load.
fn exceed_ratios(goal: &Goal, trials: &[Result], load: f64) -> (f64, f64) {
    let sum = |is_full: bool, is_high: bool| -> f64 {
        trials
            .iter()
            .filter(|t| t.0 == load && (t.1 >= goal.final_duration) == is_full && (t.2 > goal.loss_ratio) == is_high)
            .map(|t| t.1)
            .sum()
    };
    let subceed = 1.0 - goal.exceed_ratio;
    let balancing = sum(false, false) * (goal.exceed_ratio / subceed);
    let excess = sum(false, true) - balancing;
    let high = sum(true, true) + if excess > 0.0 { excess } else { 0.0 };
    let full = high + sum(true, false);
    let whole = if full > goal.duration_sum { full } else { goal.duration_sum };
    let missing = whole - full;
    (high / whole, (high + missing) / whole)
}

/// The lowest loss ratio that is not exceeded for a share of 1 minus the exceed ratio of the time; missing time counts
/// as lost.
fn quantile(goal: &Goal, trials: &[Result], load: f64) -> f64 {
    let full: Vec<_> = trials.iter().filter(|t| t.0 == load && t.1 >= goal.final_duration).collect();
    let measured: f64 = full.iter().map(|t| t.1).sum();
    let needed = measured.max(goal.duration_sum) * (1.0 - goal.exceed_ratio);
    let mut losses: Vec<f64> = full.iter().map(|t| t.2).collect();
    losses.sort_by(f64::total_cmp);
    losses
        .into_iter()
        .find(|loss| full.iter().filter(|t| t.2 <= *loss).map(|t| t.1).sum::<f64>() >= needed)
        .unwrap_or(1.0)
}
