// SPDX-License-Identifier: MIT
//! Fits: the parameters of a model from measured points, and how well they are known.
//!
//! ```text
//! points ─► lines: those that cores limited ─► estimate: one model's parameters ─► choose: which model ─► profile, report
//!               ▲          │                      design: the models as sums
//!               └──────────┘                      solve: least squares, what can be told apart
//!             until nothing changes               missing: which measurement is missing
//! ```
//!
//! What is minimised is the sum of squares of relative errors: of the rate for Equation 7, whose parameters make up the
//! rate, of a core's time per packet for the others, whose parameters make up the time. Intervals assume that the
//! relative errors of measurements are independent, normal and of the same size.

mod choose;
mod design;
mod estimate;
mod lines;
mod missing;
mod report;
mod solve;

pub use design::Kind;
pub use lines::predict;
pub use report::{Candidate, CrossValidated, Parameter, PointReport, Report, Summary, Worst};

use crate::error::Error;
use crate::points::Point;
use crate::profile::{Per, Profile, Router};

/// Options of a fit.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The model; none: the one that predicts best among those that the points determine.
    pub kind: Option<Kind>,
    /// Whether bursts or packets pay for the batch model's contention; none: whatever fits better.
    pub contention_per: Option<Per>,
    /// The profile's router. Its links, burst and working set apply to points without their own.
    pub router: Router,
    /// The profile's name.
    pub name: String,
    /// The profile's description.
    pub description: Option<String>,
}

/// A fit.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The fitted profile; its `fit` is the report.
    pub profile: Profile,
    /// How it was made, and how good it is.
    pub report: Report,
}

/// Fits a model to the points of `file`.
///
/// # Errors
/// Points that do not determine the model, and which measurement is missing; points that contradict the links' rates;
/// an invalid router, or a fit whose parameters make no valid profile.
pub fn fit(points: &[Point], file: &str, options: &Options) -> Result<Fit, Error> {
    let router = &options.router;
    router.check("options")?;
    let lines = lines::lines(points, file, router)?;
    let measured = lines::Measured { points, lines: &lines, router };
    let kinds = options.kind.map_or(Kind::ALL.to_vec(), |kind| vec![kind]);
    let mut tried: Vec<choose::Candidate> = kinds
        .into_iter()
        .map(|kind| {
            let fitted = lines::fit_cpu_bound(kind, options.contention_per, &measured);
            choose::Candidate { kind, fitted: fitted.and_then(|fitted| usable(fitted, options)) }
        })
        .collect();
    let refused = |why| Error::Points(format!("{file}: {why}"));
    let (index, chosen_because) = match options.kind {
        Some(kind) => {
            if let Err(why) = &tried[0].fitted {
                return Err(refused(format!("{}: {why}", kind.name())));
            }
            (0, None)
        }
        None => choose::choose(&tried).map(|(index, why)| (index, Some(why))).map_err(refused)?,
    };
    let candidates = tried.iter().map(report::candidate).collect();
    let fitted = tried.swap_remove(index).fitted.expect("a model is chosen among those that were fitted");
    let mut report = report::report(&fitted, &measured, file);
    if options.kind.is_none() {
        report.candidates = candidates;
        report.chosen_because = chosen_because;
    }
    let fit = Some(serde_json::to_value(&report).expect("all keys are strings"));
    Ok(Fit { profile: Profile { fit, ..profile(&fitted, options) }, report })
}

fn profile(fitted: &lines::Fitted, options: &Options) -> Profile {
    let Options { router, name, description, .. } = options.clone();
    // A profile has a name.
    let name = if name.is_empty() { "fitted".to_owned() } else { name };
    Profile { name, description, model: fitted.estimate.model, router, fit: None }
}

/// Refuses a fit that makes no valid profile: a rate of Equation 5 may vanish away from the points.
fn usable(fitted: lines::Fitted, options: &Options) -> Result<lines::Fitted, String> {
    match profile(&fitted, options).check("fit") {
        Ok(()) => Ok(fitted),
        Err(error) => {
            Err(format!("the fitted parameters make no profile ({error}); measure more frame sizes on more cores"))
        }
    }
}

#[cfg(test)]
mod tests {
    mod missing;
    mod synthetic;
    mod truth;
}
