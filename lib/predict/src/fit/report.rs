// SPDX-License-Identifier: MIT
//! The report on a fit: for tables, for `--json`, and for the profile's `fit`.

use super::choose;
use super::estimate::{Estimate, Estimated};
use super::lines::{Fitted, Measured, predict};
use crate::compared::{Compared, percent};
use crate::points::Bound;
use crate::reach::{FURTHER, cores};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};
use std::collections::BTreeSet;
use std::path::Path;

/// An interval of what a further core costs that is wider than this, of the value itself, is worth a note.
const WIDE: f64 = 0.5;

/// How a fit was made, and how good it is.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The file that the points came from, without its folder: profiles are read elsewhere.
    pub file: String,
    /// The model's name.
    pub model: &'static str,
    /// Why this one, if nobody named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen_because: Option<String>,
    /// The models that were tried, if nobody named one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// What was minimised.
    pub minimised: &'static str,
    /// The parameters, in the profile's order.
    pub parameters: Vec<Parameter>,
    /// Why there are no intervals, if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_intervals: Option<String>,
    /// Further remarks.
    pub notes: Vec<String>,
    /// The fit as a whole.
    pub summary: Summary,
    /// The points that were fitted.
    pub points: Vec<PointReport>,
    /// The points that links limited.
    pub left_out: Vec<PointReport>,
}

/// A model that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// Its name.
    pub model: &'static str,
    /// Parameters solved for.
    pub parameters: usize,
    /// Parameters held because the points do not determine them.
    pub not_determined: Vec<&'static str>,
    /// What is missing, if there is no fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Mean of the absolute relative errors of the rates, in percent.
    pub mean_absolute_percent: Option<f64>,
    /// Mean absolute error of predictions by fits without the point in question.
    pub cross_validated: Option<CrossValidated>,
}

/// A parameter of a fit.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// Its name in the profile.
    pub name: &'static str,
    pub value: f64,
    /// The lower end of the 95 % confidence interval.
    pub low: Option<f64>,
    /// The upper end of the 95 % confidence interval.
    pub high: Option<f64>,
    /// Why it was not solved for. If points suggest a value all the same, the interval is from 0 to what they suggest
    /// at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// A fit as a whole; errors are of rates, in percent of what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Points that were fitted.
    pub points: usize,
    /// Parameters that were solved for.
    pub parameters: usize,
    /// Points less parameters.
    pub degrees_of_freedom: usize,
    /// Mean of the errors.
    pub signed_mean_percent: f64,
    /// Mean of the errors without their signs.
    pub mean_absolute_percent: f64,
    /// The largest one.
    pub worst: Worst,
    /// Standard deviation of the relative errors of what was fitted; none without degrees of freedom.
    pub standard_deviation_percent: Option<f64>,
    /// The largest singular value of the scaled design over the smallest: what errors may be multiplied by, at most.
    pub condition_number: f64,
    /// Errors of points by fits without them.
    pub cross_validated: Option<CrossValidated>,
}

/// The point that is predicted worst.
#[derive(Clone, Debug, Serialize)]
pub struct Worst {
    pub line: u64,
    pub error_percent: f64,
}

/// Errors of rates, each predicted by a fit without its point, in percent of what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct CrossValidated {
    /// Points that could be left out; others determine a parameter alone.
    pub points: usize,
    /// Mean of the errors without their signs.
    pub mean_absolute_percent: f64,
    /// Root of the mean of the squares.
    pub root_mean_square_percent: f64,
}

/// A point and the fit's prediction of it.
#[derive(Clone, Debug, Serialize)]
pub struct PointReport {
    /// The point.
    #[serde(flatten)]
    pub point: Compared,
    /// Its error by a fit without this point, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_validated_percent: Option<f64>,
    /// Why it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// The report on a fit.
pub fn report(fitted: &Fitted, measured: &Measured, file: &str) -> Report {
    let Fitted { estimate, used } = fitted;
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    let mut without = estimate.cross_validated().into_iter();
    for (i, point) in measured.points.iter().enumerate() {
        let predicted = predict(&estimate.model, point, measured.lines[i], measured.router);
        let mut line =
            PointReport { point: Compared::of(point, predicted.gbps), cross_validated_percent: None, left_out: None };
        if used[i] {
            line.cross_validated_percent = without.next().flatten().map(percent);
            points.push(line);
        } else {
            let why = if point.bound == Some(Bound::Line) { "bound is line" } else { "the links limit its rate" };
            line.left_out = Some(why.to_owned());
            left_out.push(line);
        }
    }
    let (parameters, no_intervals) = parameters(estimate, points.len());
    let notes = [estimate.notes.clone(), further_cores(&parameters, &points).into_iter().collect()].concat();
    Report {
        file: Path::new(file).file_name().map_or_else(|| file.to_owned(), |name| name.to_string_lossy().into_owned()),
        model: estimate.kind.name(),
        chosen_because: None,
        candidates: Vec::new(),
        minimised: estimate.kind.minimised(),
        parameters,
        no_intervals,
        notes,
        summary: summary(estimate, &points),
        points,
        left_out,
    }
}

/// What points on few cores do not tell of many, though the fit has a value for it.
fn further_cores(parameters: &[Parameter], points: &[PointReport]) -> Option<String> {
    let Parameter { value, low, high, held, .. } = parameters.iter().find(|parameter| parameter.name == FURTHER)?;
    let (low, high) = low.zip(*high)?;
    let numbers: Vec<u32> = BTreeSet::from_iter(points.iter().map(|line| line.point.cores)).into_iter().collect();
    let (few, wide) = (numbers.len() < 3, high - low > WIDE * value);
    (few || wide).then(|| {
        let remedy = if few { "measure on more numbers of cores" } else { "measure again, with more rounds" };
        let what = if held.is_some() { "leave out" } else { "multiply" };
        format!(
            "{FURTHER}, what each further core costs, is {low:.0} to {high:.0} ns by points on {}: predictions for more cores {what} what is \
             not known; {remedy}",
            cores(&numbers)
        )
    })
}

fn parameters(estimate: &Estimate, points: usize) -> (Vec<Parameter>, Option<String>) {
    let degrees = points - estimate.solved();
    // Of the relative errors, times Student's t.
    let width = |squares: f64, solved: usize| {
        let degrees = points.checked_sub(solved).filter(|degrees| *degrees > 0)? as f64;
        let t = StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom").inverse_cdf(0.975);
        Some(t * (squares / degrees).sqrt())
    };
    let one = |Estimated { name, value, spread, held, suggested, .. }: &Estimated| {
        let half = width(estimate.squares, estimate.solved()).zip(*spread).map(|(width, spread)| width * spread);
        let most = suggested.and_then(|of| Some(of.value + of.spread * width(of.squares, of.solved)?));
        Parameter {
            name,
            value: *value,
            low: half.map(|half| value - half).or(most.map(|_| 0.0)),
            high: half.map(|half| value + half).or(most),
            held: held.clone(),
        }
    };
    let none = (degrees == 0).then(|| "no intervals: as many parameters as points".to_owned());
    (estimate.parameters.iter().map(one).collect(), none)
}

fn summary(estimate: &Estimate, points: &[PointReport]) -> Summary {
    let n = points.len() as f64;
    let errors = || points.iter().map(|line| line.point.error_percent);
    let worst = points.iter().map(|line| &line.point);
    let worst = worst.max_by(|a, b| a.error_percent.abs().total_cmp(&b.error_percent.abs())).expect("a fit has points");
    let degrees_of_freedom = points.len() - estimate.solved();
    Summary {
        points: points.len(),
        parameters: estimate.solved(),
        degrees_of_freedom,
        signed_mean_percent: errors().sum::<f64>() / n,
        mean_absolute_percent: errors().map(f64::abs).sum::<f64>() / n,
        worst: Worst { line: worst.line, error_percent: worst.error_percent },
        standard_deviation_percent: (degrees_of_freedom > 0)
            .then(|| percent((estimate.squares / degrees_of_freedom as f64).sqrt())),
        condition_number: estimate.condition,
        cross_validated: cross_validated(estimate),
    }
}

fn cross_validated(estimate: &Estimate) -> Option<CrossValidated> {
    let errors: Vec<f64> = estimate.cross_validated().into_iter().flatten().collect();
    let n = errors.len() as f64;
    (!errors.is_empty()).then(|| CrossValidated {
        points: errors.len(),
        mean_absolute_percent: percent(errors.iter().map(|error| error.abs()).sum::<f64>() / n),
        root_mean_square_percent: percent((errors.iter().map(|error| error * error).sum::<f64>() / n).sqrt()),
    })
}

/// The report on a model that was tried.
pub fn candidate(candidate: &choose::Candidate) -> Candidate {
    let model = candidate.kind.name();
    match &candidate.fitted {
        Err(missing) => Candidate {
            model,
            parameters: 0,
            not_determined: Vec::new(),
            missing: Some(missing.clone()),
            mean_absolute_percent: None,
            cross_validated: None,
        },
        Ok(Fitted { estimate, .. }) => {
            let errors = estimate.residuals.iter().map(|residual| estimate.kind.rate_error(*residual).abs());
            Candidate {
                model,
                parameters: estimate.solved(),
                not_determined: estimate.parameters.iter().filter(|p| p.open).map(|p| p.name).collect(),
                missing: None,
                mean_absolute_percent: Some(percent(errors.sum::<f64>() / estimate.residuals.len() as f64)),
                cross_validated: cross_validated(estimate),
            }
        }
    }
}
