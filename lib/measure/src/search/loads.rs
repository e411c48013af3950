// SPDX-License-Identifier: MIT
//! The trials so far by load, and the bounds that follow from them.

use super::evidence::Evidence;
use super::goal::{Class, Target};

/// Trials by load, in ascending order.
#[derive(Debug, Clone, Default)]
pub(super) struct Loads(Vec<Tried>);

/// A load, and the trials at it.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    pub load: f64,
    pub trials: Vec<Evidence>,
}

/// The relevant bounds of RFC 9971 sections 4.8.1 and 4.8.2, in frames per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Bounds {
    /// The largest load below the upper bound that passed.
    pub lower: Option<f64>,
    /// The smallest load that failed.
    pub upper: Option<f64>,
}

impl Bounds {
    /// Whether the load is strictly between the bounds that exist.
    pub fn enclose(&self, load: f64) -> bool {
        self.lower.is_none_or(|lower| load > lower) && self.upper.is_none_or(|upper| load < upper)
    }
}

impl Loads {
    pub fn add(&mut self, evidence: Evidence) {
        match self.0.binary_search_by(|tried| tried.load.total_cmp(&evidence.load)) {
            Ok(at) => self.0[at].trials.push(evidence),
            Err(at) => self.0.insert(at, Tried { load: evidence.load, trials: vec![evidence] }),
        }
    }

    /// Whether all loss at this load may be the tester's doing.
    pub fn is_doubtful(&self, load: f64) -> bool {
        self.at(load).is_some_and(|tried| tried.trials.iter().all(|trial| trial.lost == 0 || trial.doubtful))
    }

    pub fn at(&self, load: f64) -> Option<&Tried> {
        self.0.binary_search_by(|tried| tried.load.total_cmp(&load)).ok().map(|at| &self.0[at])
    }

    /// Without an upper bound, the lower one is the largest load that passed. A load that failed only because of loss
    /// that may be the tester's doing is no upper bound if more than it has passed.
    pub fn bounds(&self, target: &Target) -> Bounds {
        // Looked for only where loss is doubtful.
        let above = |load: f64| {
            let higher = self.0.iter().rev().take_while(|tried| tried.load >= load);
            higher.map(|tried| tried.class(target)).any(|class| class == Class::Lower)
        };
        let mut bounds = Bounds::default();
        for tried in &self.0 {
            match tried.class(target) {
                Class::Lower => bounds.lower = Some(tried.load),
                Class::Upper if tried.fails_for_certain(target) || !above(tried.load) => {
                    bounds.upper = Some(tried.load);
                    break;
                }
                Class::Upper | Class::Undecided => {}
            }
        }
        bounds
    }

    /// The highest load of which a trial as long as the target's lost no more than the target allows.
    pub fn proven(&self, target: &Target) -> Option<f64> {
        self.proof(target).map(|trial| trial.load)
    }

    /// That trial.
    pub fn proof(&self, target: &Target) -> Option<&Evidence> {
        let proves = |trial: &&Evidence| trial.duration >= target.duration && trial.loss_ratio <= target.loss_ratio;
        self.0.iter().rev().find_map(|tried| tried.trials.iter().find(proves))
    }

    /// Of the loads tried before that are within `from..=to` and strictly between the bounds, the one closest to
    /// `load`.
    pub fn near(&self, load: f64, (from, to): (f64, f64), bounds: Bounds) -> Option<f64> {
        self.0
            .iter()
            .map(|tried| tried.load)
            .filter(|l| (from..=to).contains(l) && bounds.enclose(*l))
            .min_by(|a, b| (a - load).abs().total_cmp(&(b - load).abs()))
    }
}

impl Tried {
    fn durations(&self) -> impl Iterator<Item = (f64, f64)> {
        self.trials.iter().map(|trial| (trial.duration, trial.loss_ratio))
    }

    pub fn class(&self, target: &Target) -> Class {
        target.classify(self.durations())
    }

    /// Whether it fails even without the trials in which the tester may have lost the frames.
    fn fails_for_certain(&self, target: &Target) -> bool {
        let certain = self.trials.iter().filter(|trial| !trial.doubtful);
        target.classify(certain.map(|trial| (trial.duration, trial.loss_ratio))) == Class::Upper
    }

    /// In frames per second.
    pub fn conditional_throughput(&self, target: &Target) -> f64 {
        self.load * (1.0 - target.quantile_loss_ratio(self.durations()))
    }

    /// What the device forwarded of this load, in frames per second: the median of the trials that lasted at least this
    /// long, or of all if there are none.
    pub fn forwarded(&self, duration: f64) -> f64 {
        let losses = |duration: f64| {
            let mut losses: Vec<_> =
                self.durations().filter(|trial| trial.0 >= duration).map(|trial| trial.1).collect();
            losses.sort_by(f64::total_cmp);
            losses.get(losses.len() / 2).copied()
        };
        losses(duration).or_else(|| losses(0.0)).map_or(0.0, |loss| self.load * (1.0 - loss))
    }

    pub fn is_trusted(&self) -> bool {
        self.trials.iter().all(|trial| trial.trusted)
    }
}
