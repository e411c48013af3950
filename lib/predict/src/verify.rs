// SPDX-License-Identifier: MIT
//! A profile compared with measured points: predicted, measured, error; points of the profile's own fit are counted
//! separately.

use crate::compared::{Compared, percent};
use crate::error::Error;
use crate::fit::predict;
use crate::points::{Bound, Point};
use crate::profile::Profile;
use crate::saturation::line_gbps;
use serde::Serialize;

/// A profile compared with points.
#[derive(Clone, Debug, Serialize)]
pub struct Verification {
    /// The profile's name.
    pub profile: String,
    pub model: &'static str,
    /// Where the points came from.
    pub file: String,
    pub points: Vec<Verified>,
    /// All points together.
    pub all: Errors,
    /// Those that the profile was not fitted to.
    pub new: Option<Errors>,
    /// Those that it was fitted to.
    pub fitted: Option<Errors>,
    /// Those whose rate, as predicted, all cores limit.
    pub limited_by_cores: Option<Errors>,
    /// Those whose rate, as predicted, links limit, at least for one of the flows.
    pub limited_by_links: Option<Errors>,
}

/// A point as measured and as predicted.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// The point.
    #[serde(flatten)]
    pub point: Compared,
    /// Predicted by direction, in Gbit/s on the wire.
    pub directions_gbps: [f64; 2],
    /// What limits the predicted rate: `cores`, or `links` for at least one of the flows.
    pub limit: &'static str,
    /// It is one of the points that the profile was fitted to.
    pub fitted: bool,
}

/// Errors of several points, in percent of what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// How many.
    pub points: usize,
    /// Mean of the errors: those of opposite signs cancel.
    pub signed_mean_percent: f64,
    /// Mean of the errors without their signs.
    pub mean_absolute_percent: f64,
    /// The largest, with its sign.
    pub worst_percent: f64,
    /// The line of that point.
    pub worst_line: u64,
}

impl Errors {
    /// The errors of points, each with its line; nothing if there are none.
    pub fn of(errors: &[(u64, f64)]) -> Option<Self> {
        let n = errors.len() as f64;
        let (worst_line, worst) = *errors.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        Some(Self {
            points: errors.len(),
            signed_mean_percent: percent(errors.iter().map(|(_, error)| error).sum::<f64>() / n),
            mean_absolute_percent: percent(errors.iter().map(|(_, error)| error.abs()).sum::<f64>() / n),
            worst_percent: percent(worst),
            worst_line,
        })
    }
}

/// Predicts every point; `file` is where they came from.
///
/// # Errors
/// No points; a point that forwarded more than its links carry.
pub fn verify(profile: &Profile, points: &[Point], file: &str) -> Result<Verification, Error> {
    let mut verified = Vec::with_capacity(points.len());
    for point in points {
        let line = line_gbps(point, file, profile.router.link_gbps)?;
        let predicted = predict(&profile.model, point, line, &profile.router);
        verified.push(Verified {
            point: Compared::of(point, predicted.gbps),
            directions_gbps: predicted.directions,
            limit: if predicted.bound == Bound::Cpu { "cores" } else { "links" },
            fitted: is_fitted(profile, point),
        });
    }
    let errors = |which: &dyn Fn(&Verified) -> bool| {
        let chosen = verified.iter().filter(|point| which(point));
        Errors::of(
            &chosen
                .map(|Verified { point, .. }| (point.line, point.predicted_gbps / point.gbps - 1.0))
                .collect::<Vec<_>>(),
        )
    };
    let all =
        errors(&|_| true).ok_or_else(|| Error::Points(format!("{file}: found no points, expected at least one")))?;
    Ok(Verification {
        profile: profile.name.clone(),
        model: profile.model.name(),
        file: file.to_owned(),
        all,
        new: errors(&|point| !point.fitted),
        fitted: errors(&|point| point.fitted),
        limited_by_cores: errors(&|point| point.limit == "cores"),
        limited_by_links: errors(&|point| point.limit == "links"),
        points: verified,
    })
}

/// Is it one of those that stand in the profile's `fit`? What other programs write there may be anything.
fn is_fitted(profile: &Profile, point: &Point) -> bool {
    let fitted = profile.fit.as_ref().and_then(|fit| fit.get("points")).and_then(|points| points.as_array());
    fitted.is_some_and(|fitted| {
        fitted.iter().any(|f| {
            let number = |key: &str| f.get(key).and_then(serde_json::Value::as_f64);
            let same = |key: &str, value: Option<f64>| match (number(key), value) {
                (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b.abs(),
                (a, b) => a.is_none() && b.is_none(),
            };
            same("flows", Some(f64::from(point.flows)))
                && same("cores", Some(f64::from(point.cores)))
                && same("frame_size", Some(f64::from(point.frame_size)))
                && same("burst", point.burst.map(f64::from))
                && same("working_set_bytes", point.working_set)
                && same("punted", point.punted)
                && same("gbps", Some(point.gbps))
                && f.get("two_way").and_then(serde_json::Value::as_bool) == Some(point.two_way)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::{self, Kind, Options};
    use crate::points;
    use std::path::Path;

    fn points_of(file: &str) -> Vec<Point> {
        points::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/predict").join(file)).expect("points")
    }

    fn fitted(file: &str, kind: Kind) -> Profile {
        let options = Options { kind: Some(kind), name: "p".to_owned(), ..Options::default() };
        fit::fit(&points_of(file), file, &options).expect("a fit").profile
    }

    /// Every value of Equation 5 in the published table, to its last digit; so the limits of links, too.
    #[test]
    fn equation_5_as_published() {
        let (profile, points) = (fitted("four-points.csv", Kind::Eq7), points_of("published.csv"));
        let found = verify(&profile, &points, "p.csv").expect("predictions");
        for (point, predicted) in points.iter().zip(&found.points) {
            let published = point.note_number("published_eq5").expect("a column");
            // Their parameters were rounded to six decimals.
            assert!((predicted.point.predicted_gbps / published - 1.0).abs() < 1e-4, "{published}: {predicted:?}");
        }
        let by_links: Vec<_> =
            found.points.iter().filter(|p| p.limit == "links").map(|p| (p.point.flows, p.point.frame_size)).collect();
        assert_eq!(by_links, [(1, 1024), (1, 1518), (3, 512)]);
        let lines: Vec<_> =
            found.points.iter().filter(|p| p.fitted).map(|p| (p.point.flows, p.point.frame_size)).collect();
        assert_eq!(lines, [(1, 64), (1, 512), (4, 64), (4, 256)]);
        assert_eq!(
            (found.all.points, found.new.expect("some").points, found.fitted.expect("some").points),
            (20, 16, 4)
        );
    }

    /// The published errors: 0.95 % is the mean with signs, over all twenty rows.
    #[test]
    fn the_published_errors() {
        let points = points_of("published.csv");
        let errors = |column: &str, which: &dyn Fn(&Point) -> bool| {
            let chosen = points.iter().filter(|point| which(point));
            let error = |p: &Point| (p.line, p.note_number(column).expect("a column") / p.gbps - 1.0);
            Errors::of(&chosen.map(error).collect::<Vec<_>>()).expect("points")
        };
        let all = errors("published_simulated", &|_| true);
        assert!((all.signed_mean_percent + 0.947).abs() < 5e-4 && all.points == 20, "{all:?}");
        assert!((all.mean_absolute_percent - 1.438).abs() < 5e-4, "{all:?}");
        let cores = |p: &Point| p.flows <= 4 && p.frame_size <= 512 && (p.flows, p.frame_size) != (3, 512);
        let eq5 = errors("published_eq5", &cores);
        assert!((eq5.mean_absolute_percent - 1.605).abs() < 5e-4 && eq5.points == 14, "{eq5:?}");
        let contention = fitted("contention-points.csv", Kind::Contention);
        let chosen: Vec<Point> = points.iter().filter(|p| cores(p)).cloned().collect();
        let found = verify(&contention, &chosen, "p.csv").expect("predictions");
        assert!((found.all.mean_absolute_percent - 0.154).abs() < 5e-4, "{:?}", found.all);
        assert_eq!(found.limited_by_cores, Some(found.all));
    }

    #[test]
    fn profiles_without_a_fit_have_only_new_points() {
        let profile = Profile {
            fit: Some(serde_json::json!({"points": "none", "x": []})),
            ..fitted("four-points.csv", Kind::Eq7)
        };
        let found = verify(&profile, &points_of("four-points.csv"), "p.csv").expect("predictions");
        assert!(found.fitted.is_none() && found.limited_by_links.is_none());
        assert!(verify(&profile, &[], "p.csv").expect_err("none").to_string().contains("found no points"));
    }
}
