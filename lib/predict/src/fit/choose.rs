// SPDX-License-Identifier: MIT
//! Which model: among those that the points determine, the one that predicts points best that were not part of its fit.
//!
//! Each point is predicted by a fit without it (leave-one-out). The models minimise errors of different things, of
//! rates and of times, so information criteria such as AICc, which compare likelihoods of the same data, do not apply
//! as they are, and need more points than parameters by two; errors of rates predicted for points left out are
//! comparable, and count superfluous parameters against a model by themselves. Of models whose mean square error is at
//! most a standard error above the smallest, the one with the fewest parameters is taken (the one-standard-error rule:
//! Breiman et al., 1984; Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, section 7.10).

use super::design::Kind;
use super::lines::Fitted;
use std::fmt::Write as _;

/// Errors below this, as a share, are rounding.
const ROUNDING: f64 = 1e-6;

/// A model that was tried.
pub struct Candidate {
    /// Which one.
    pub kind: Kind,
    /// Its fit, or what is missing.
    pub fitted: Result<Fitted, String>,
}

impl Candidate {
    /// For each point: the squared error of its prediction by a fit without it, where there is one.
    fn errors(&self) -> Vec<Option<f64>> {
        let Ok(Fitted { estimate, used }) = &self.fitted else { return Vec::new() };
        let mut errors = estimate.cross_validated().into_iter();
        let mut next = || errors.next().flatten().map(|error| error * error);
        used.iter().map(|used| if *used { next() } else { None }).collect()
    }

    fn solved(&self) -> usize {
        self.fitted.as_ref().map_or(usize::MAX, |fitted| fitted.estimate.solved())
    }
}

/// The index of the best candidate, and why it is the best.
///
/// # Errors
/// What is missing for each model, if the points determine none.
pub fn choose(candidates: &[Candidate]) -> Result<(usize, String), String> {
    let fits: Vec<usize> = (0..candidates.len()).filter(|&i| candidates[i].fitted.is_ok()).collect();
    if fits.is_empty() {
        let missing = candidates.iter().filter_map(|c| c.fitted.as_ref().err().map(|why| (c.kind.name(), why)));
        return Err(missing.fold("the points identify no model".to_owned(), |mut text, (name, why)| {
            let _ = write!(text, "; {name}: {why}");
            text
        }));
    }
    let errors: Vec<Vec<Option<f64>>> = candidates.iter().map(Candidate::errors).collect();
    let testable: Vec<usize> = fits.iter().copied().filter(|&i| errors[i].iter().any(Option::is_some)).collect();
    let fewest = |among: &[usize], why: &str| {
        let best = among.iter().copied().min_by_key(|&i| candidates[i].solved()).expect("not empty");
        (best, format!("{why}; {} has the fewest parameters", candidates[best].kind.name()))
    };
    match testable[..] {
        [] => return Ok(fewest(&fits, "no point can be left out to test a model")),
        [only] if fits.len() == 1 => return Ok((only, "no other model is determined".to_owned())),
        [only] => {
            return Ok((only, "nothing tests the others: they have as many parameters as points".to_owned()));
        }
        _ => {}
    }
    let common: Vec<usize> =
        (0..errors[testable[0]].len()).filter(|&p| testable.iter().all(|&i| errors[i][p].is_some())).collect();
    if common.is_empty() {
        return Ok(fewest(&testable, "no point tests all models"));
    }
    let scores: Vec<Score> = testable
        .iter()
        .map(|&index| Score::new(index, common.iter().filter_map(|&p| errors[index][p]).collect()))
        .collect();
    Ok(best(&scores, candidates))
}

/// How well a model predicts points that its fit did not see.
struct Score {
    index: usize,
    /// Mean of the squared relative errors.
    mean: f64,
    /// Its standard error.
    error: f64,
    points: usize,
}

impl Score {
    fn new(index: usize, squares: Vec<f64>) -> Self {
        let n = squares.len() as f64;
        let mean = squares.iter().sum::<f64>() / n;
        let variance = squares.iter().map(|square| (square - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Self { index, mean, error: (variance / n).sqrt(), points: squares.len() }
    }
}

/// The one-standard-error rule.
fn best(scores: &[Score], candidates: &[Candidate]) -> (usize, String) {
    let name = |score: &Score| candidates[score.index].kind.name();
    let best = scores.iter().min_by(|a, b| a.mean.total_cmp(&b.mean)).expect("not empty");
    let limit = best.mean + best.error + ROUNDING * ROUNDING;
    let near = scores.iter().filter(|score| score.mean <= limit);
    let chosen = near.min_by_key(|score| candidates[score.index].solved()).expect("the best one is");
    let figures: Vec<String> =
        scores.iter().map(|score| format!("{} {:.3} %", name(score), 100.0 * score.mean.sqrt())).collect();
    let mut why = format!(
        "root mean square error of {} rates, each predicted without its point: {}",
        best.points,
        figures.join(", ")
    );
    if chosen.index != best.index {
        let _ = write!(why, "; {} is within one standard error of the best, with fewer parameters", name(chosen));
    }
    (chosen.index, why)
}
