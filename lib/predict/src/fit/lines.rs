// SPDX-License-Identifier: MIT
//! Which points the cores limited, as a fit is based on these. If links did, the rate says nothing about the cores.
//!
//! A point's column `bound` says it. Where that is empty, points whose rate, shared evenly by the cores, is what their
//! flows brought are left out at first; then the model is fitted, and fitted again without those whose rate it says the
//! links limit, until nothing changes. A point that the model takes for limited by links, but that was measured to be
//! well below what they allow, stays: there the model is wrong, and its error should show.

use super::design::{Factor, Kind};
use super::estimate::{Estimate, estimate};
use crate::error::Error;
use crate::points::{Bound, Point};
use crate::profile::{Model, Per, Router};
use crate::saturation::{Saturated, saturated};

/// This near to what the links allow, as a share, the links may have been the limit.
const NEAR_LINE_RATE: f64 = 0.05;
/// Fits until nothing changes, at most.
const MAX_ROUNDS: usize = 20;

/// A fit, and which points it is of.
pub struct Fitted {
    /// The model.
    pub estimate: Estimate,
    /// For each point: is it one of the fit's?
    pub used: Vec<bool>,
}

/// The points, and how fast their links are.
pub struct Measured<'a> {
    pub points: &'a [Point],
    /// For each: Gbit/s of its links.
    pub lines: &'a [f64],
    /// For points without their own values.
    pub router: &'a Router,
}

/// A model's prediction of a point.
pub fn predict(model: &Model, point: &Point, line_gbps: f64, router: &Router) -> Saturated {
    let service =
        model.service(point.cores, point.two_way, Factor::WorkingSet.of(point, router), Factor::punted(point, router));
    let core = service.saturated_gbps(point.frame_size, Factor::Burst.of(point, router) as u32);
    saturated(point, core, line_gbps)
}

/// Fits a model to the points that cores limited.
///
/// # Errors
/// Which measurement is missing.
pub fn fit_cpu_bound(kind: Kind, per: Option<Per>, measured: &Measured) -> Result<Fitted, String> {
    let Measured { points, lines, router } = *measured;
    let limited = |point: &Point, by_model: Saturated| match point.bound {
        Some(bound) => bound == Bound::Line,
        None => by_model.bound == Bound::Line && point.gbps >= by_model.gbps * (1.0 - NEAR_LINE_RATE),
    };
    let at_once = |(point, &line): (&Point, &f64)| {
        let core = point.gbps / f64::from(point.cores);
        // As if each core had done a little more than its share: were its flows exhausted?
        !limited(point, saturated(point, core * (1.0 + NEAR_LINE_RATE / 2.0), line))
    };
    let mut used: Vec<bool> = points.iter().zip(lines).map(at_once).collect();
    let mut notes = Vec::new();
    for round in 0.. {
        let chosen: Vec<&Point> = points.iter().zip(&used).filter(|(_, used)| **used).map(|(point, _)| point).collect();
        let estimated = if chosen.is_empty() {
            Err("links limited all points: measure smaller frames, fewer cores or faster links".to_owned())
        } else {
            estimate(kind, per, &chosen, router)
        };
        let mut found = estimated.map_err(|missing| missing + &left_out(points, &used))?;
        let model = found.model;
        let next: Vec<bool> =
            points.iter().zip(lines).map(|(p, &line)| !limited(p, predict(&model, p, line, router))).collect();
        if next == used || round == MAX_ROUNDS {
            if next != used {
                notes.push(
                    "some points are limited by cores or links according to whether they are part of the fit"
                        .to_owned(),
                );
            }
            found.notes.extend(notes);
            return Ok(Fitted { estimate: found, used });
        }
        used = next;
    }
    unreachable!("the loop ends by its count")
}

/// For the end of an error: the points that were left out.
fn left_out(points: &[Point], used: &[bool]) -> String {
    let lines: Vec<String> =
        points.iter().zip(used).filter(|(_, used)| !**used).map(|(point, _)| point.line.to_string()).collect();
    match lines.len() {
        0 => String::new(),
        1..=20 => format!(" (the links limit the rate in line {}: left out)", lines.join(", ")),
        n => format!(" (the links limit the rate of {n} points: left out)"),
    }
}

/// The rate of each point's links.
///
/// # Errors
/// A point that forwarded more than they carry.
pub fn lines(points: &[Point], file: &str, router: &Router) -> Result<Vec<f64>, Error> {
    points.iter().map(|point| crate::saturation::line_gbps(point, file, router.link_gbps)).collect()
}
