// SPDX-License-Identifier: MIT
//! Points that do not determine a parameter: it is named, and so is the measurement that is missing.

use super::synthetic::{batch, grid, objective, point};
use crate::fit::design::{Cache, Form};
use crate::fit::solve::System;
use crate::fit::{Fit, Kind, Options, fit};
use crate::points::{Bound, Point};
use crate::profile::{Model, Per, Profile, Router};
use nalgebra::DMatrix;
use proptest::prelude::*;

const CONTENTION: Model = Model::Contention { c0_ns: 500.0, c_byte_ns: 0.1, d_ns: 30.0, u_ns: 10.0 };
const EQ7: Model = Model::Eq7 { a: 0.0114, a0: 0.0027, b: 0.227, b0: 0.063 };

fn batches() -> Model {
    batch(&[400.0, 60.0, 0.1, 40.0, 3e5, 30.0, 100.0, 30.0, 200.0], Per::Burst)
}

fn fitted(kind: Kind, points: &[Point]) -> Result<Fit, String> {
    let options = Options { kind: Some(kind), contention_per: Some(Per::Burst), ..Options::default() };
    fit(points, "p.csv", &options).map_err(|error| error.to_string())
}

/// Why each parameter that is held is.
fn held(kind: Kind, points: &[Point]) -> Vec<(&'static str, String)> {
    let found = fitted(kind, points).expect("a fit");
    // What is held costs nothing here: the fit still meets the points.
    assert!(objective(&found.profile.model, points) < 1e-12, "{:?}", found.profile.model);
    found.report.parameters.into_iter().filter_map(|p| p.held.map(|held| (p.name, held))).collect()
}

/// What a further core costs is held though it would cost something: two numbers of cores do not tell it from noise.
#[track_caller]
fn is_held_at_a_cost(points: &[Point], expected: &[(&str, &str)]) {
    let found = fitted(Kind::Contention, points).expect("a fit").report.parameters;
    are_held(&found.into_iter().filter_map(|p| p.held.map(|held| (p.name, held))).collect::<Vec<_>>(), expected);
}

#[track_caller]
fn is_held(kind: Kind, points: &[Point], expected: &[(&str, &str)]) {
    are_held(&held(kind, points), expected);
}

#[track_caller]
fn are_held(found: &[(&'static str, String)], expected: &[(&str, &str)]) {
    assert_eq!(
        found.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        expected.iter().map(|(name, _)| *name).collect::<Vec<_>>()
    );
    for ((_, found), (name, part)) in found.iter().zip(expected) {
        assert!(found.contains(part), "{name}: {found}");
    }
}

#[test]
fn contention() {
    let at = |cores, size, two_way| point(&CONTENTION, cores, size, two_way, 32, 0.0);
    is_held(
        Kind::Contention,
        &[at(1, 64, false), at(1, 512, false)],
        &[
            (
                "d_ns",
                "all points have 1 core; measure on 2 or more cores. Predictions for other numbers of cores are guesses",
            ),
            ("u_ns", "all points have one-way traffic; measure two-way traffic on several cores"),
        ],
    );
    is_held_at_a_cost(
        &[at(1, 64, false), at(2, 64, true)],
        &[
            ("c_byte_ns", "its part counted in c0_ns: all points have frames of 64 bytes; measure a second frame size"),
            ("d_ns", "held at 0: points on 1 and 2 cores suggest"),
            (
                "u_ns",
                "its part counted in d_ns: in these points one-way or two-way traffic changes only together with the number of cores",
            ),
        ],
    );
    is_held(
        Kind::Contention,
        &[at(4, 64, true), at(4, 512, true)],
        &[
            ("d_ns", "its part counted in c0_ns: all points have 4 cores; measure on 1 core"),
            ("u_ns", "its part counted in c0_ns: all points have two-way traffic; measure one-way traffic"),
        ],
    );
    // One-way traffic on several cores tells d and u apart, and so does a third number of cores; only that tells d from
    // noise.
    is_held_at_a_cost(
        &[at(1, 64, false), at(2, 64, false), at(2, 64, true), at(1, 128, false)],
        &[
            ("c_byte_ns", "would be negative"),
            (
                "d_ns",
                "suggest 30.0 ns, and two numbers of cores do not tell contention from noise; measure on a third number of cores",
            ),
        ],
    );
    let apart = [at(1, 64, false), at(2, 64, false), at(2, 64, true), at(1, 128, false), at(4, 64, false)];
    is_held(Kind::Contention, &apart, &[]);
    is_held(Kind::Contention, &[at(1, 64, false), at(2, 64, true), at(3, 64, true), at(1, 128, false)], &[]);
    // Sizes that change with cores only.
    is_held_at_a_cost(
        &[at(1, 64, false), at(2, 128, false)],
        &[
            (
                "c_byte_ns",
                "in these points the frame size changes only together with the number of cores; measure with the frame size changed and the number of cores as before",
            ),
            ("d_ns", "held at 0: points on 1 and 2 cores suggest"),
            ("u_ns", "one-way"),
        ],
    );
}

#[test]
fn eq7() {
    let at = |cores, size| point(&EQ7, cores, size, cores > 1, 32, 0.0);
    for (points, expected) in [
        (
            vec![at(1, 64)],
            "a, a0, b0 cannot be determined: all points have 1 core; measure on 2 or more cores; all points have frames of 64 bytes; measure a second frame size",
        ),
        (vec![at(1, 64), at(1, 512)], "all points have 1 core; measure on 2 or more cores"),
        (vec![at(1, 64), at(4, 64)], "all points have frames of 64 bytes; measure a second frame size"),
        (vec![at(1, 64), at(1, 512), at(4, 64)], "measure frames of 512 bytes on 4 cores, too"),
        (vec![at(1, 64), at(4, 512)], "measure frames of"),
        (vec![at(1, 64), at(2, 128), at(4, 512)], "measure frames of"),
    ] {
        let said = fitted(Kind::Eq7, &points).expect_err("too few");
        assert!(said.starts_with("p.csv: eq7: ") && (said.contains(expected)), "{said}");
    }
    assert!(held(Kind::Eq7, &[at(1, 64), at(1, 512), at(4, 64), at(4, 256)]).is_empty());
}

#[test]
fn batch_needs_two_bursts() {
    let model = batches();
    let said = fitted(Kind::Batch, &[point(&model, 1, 64, false, 32, 0.0)]).expect_err("too few");
    assert_eq!(
        said,
        "p.csv: batch: c_batch_ns cannot be determined: all points have bursts of 32 packets; measure with a second forced \
         burst size (column burst)"
    );
    is_held(
        Kind::Batch,
        &[point(&model, 1, 64, false, 32, 0.0), point(&model, 1, 64, false, 1, 0.0)],
        &[
            ("c_byte_ns", "all points have frames of 64 bytes"),
            (
                "miss_ns",
                "all points have no working set (columns routes, destinations); measure other numbers of routes",
            ),
            ("cache_bytes", "miss_ns is 0"),
            ("d_ns", "all points have 1 core"),
            ("u_ns", "all points have one-way traffic"),
            ("punt_ns", "all points have no packets for the slow path (column punted)"),
            ("punt_burst_ns", "all points have no packets for the slow path (column punted)"),
        ],
    );
}

#[test]
fn the_cache_needs_three_working_sets() {
    let model = batches();
    let with = |sets: &[f64]| {
        let mut points: Vec<Point> = grid(&model).into_iter().filter(|p| p.working_set == Some(0.0)).collect();
        points.extend(sets.iter().map(|&w| point(&model, 1, 64, false, 32, w)));
        points
    };
    is_held(
        Kind::Batch,
        &with(&[1e6]),
        &[("cache_bytes", "held at 0: any size below 1000000 fits as well with another miss_ns")],
    );
    is_held(Kind::Batch, &with(&[1e5, 1e6]), &[("cache_bytes", "held at 100000: any size below 1000000 fits as well")]);
    is_held(Kind::Batch, &with(&[1e6, 2e6]), &[]);
    is_held(Kind::Batch, &with(&[1e5, 1e6, 2e6]), &[]);
    is_held(Kind::Batch, &with(&[1e5]), &[("miss_ns", "would be"), ("cache_bytes", "miss_ns is 0")][1..]);
}

#[test]
fn models_that_points_do_not_identify_are_not_chosen() {
    let at = |cores, size| point(&CONTENTION, cores, size, cores > 1, 32, 0.0);
    let points = [at(1, 64), at(1, 512), at(4, 64)];
    let found = fit(&points, "p.csv", &Options::default()).expect("a fit");
    assert_eq!(found.report.model, "contention");
    let missing: Vec<_> = found.report.candidates.iter().map(|c| (c.model, c.missing.is_some())).collect();
    assert_eq!(missing, [("contention", false), ("eq7", true), ("batch", true)]);
    assert_eq!(found.report.chosen_because.as_deref(), Some("no other model is determined"));
}

#[test]
fn points_that_links_limit_are_no_points() {
    let mut points = vec![point(&CONTENTION, 1, 64, false, 32, 0.0), point(&CONTENTION, 1, 512, false, 32, 0.0)];
    points[0].bound = Some(Bound::Line);
    points[0].line = 17;
    let said = fitted(Kind::Eq7, &points).expect_err("too few");
    assert!(said.ends_with("(the links limit the rate in line 17: left out)"), "{said}");
    points.truncate(1);
    let said = fit(&points, "p.csv", &Options::default()).expect_err("none").to_string();
    assert!(
        said.starts_with("p.csv: the points identify no model; contention: links limited all points: measure smaller"),
        "{said}"
    );
    points[0].line_gbps = Some(0.1);
    let said = fit(&points, "p.csv", &Options::default()).expect_err("too fast").to_string();
    assert!(
        said.starts_with("p.csv:17: found 1.3") && said.contains("expected at most 0.1 for each of 1 directions"),
        "{said}"
    );
}

/// A rate that is well below what links allow stays, though the model takes the links for the limit: its error should
/// show.
#[test]
fn errors_are_not_hidden_behind_links() {
    let mut points: Vec<Point> =
        grid(&CONTENTION).into_iter().filter(|p| p.burst == Some(32) && p.working_set == Some(0.0)).collect();
    // One core is measured to do 9 Gbit/s where it should do 17.9: no link is the reason.
    let slow = points.iter_mut().find(|p| p.cores == 1 && p.frame_size == 1518 && !p.two_way).expect("in the grid");
    slow.line_gbps = Some(10.0);
    slow.gbps = 9.0;
    let line = slow.line;
    let found = fitted(Kind::Contention, &points).expect("a fit");
    assert!(found.report.points.iter().any(|p| p.point.line == line), "left out");
    points.iter_mut().find(|p| p.line == line).expect("in the grid").gbps = 9.9;
    let found = fitted(Kind::Contention, &points).expect("a fit");
    assert!(found.report.left_out.iter().any(|p| p.point.line == line), "not left out");
}

fn any_form() -> impl Strategy<Value = Form> {
    let per = prop_oneof![Just(Per::Burst), Just(Per::Packet)];
    let cache = prop_oneof![Just(Cache::At(0.0)), Just(Cache::At(3e5)), Just(Cache::From(0.0)), Just(Cache::From(4e4))];
    prop_oneof![
        Just(Form::Eq7),
        Just(Form::Contention),
        (per, cache).prop_map(|(per, cache)| Form::Batch { per, cache })
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// As many parameters are kept as the design has singular values, and they predict what all of them could.
    #[test]
    fn as_many_are_kept_as_there_are_singular_values(form in any_form(), chosen in prop::collection::vec(any::<prop::sample::Index>(), 1..12)) {
        let all = grid(&batches());
        let points: Vec<&Point> = chosen.iter().map(|index| &all[index.index(all.len())]).collect();
        let router = Router::default();
        let rows: Vec<Vec<f64>> = points.iter().map(|p| {
            form.regressors(p, &router).iter().map(|r| r / form.target(p)).collect()
        }).collect();
        let system = System::new(&rows);
        let apart = system.apart();
        let design = DMatrix::from_fn(rows.len(), rows[0].len(), |i, j| {
            let length = rows.iter().map(|row| row[j] * row[j]).sum::<f64>().sqrt();
            if length > 0.0 { rows[i][j] / length } else { 0.0 }
        });
        let svd = design.clone().svd(true, true);
        let rank = svd.singular_values.iter().filter(|s| **s > 1e-9).count();
        prop_assert_eq!(apart.kept.len(), rank);
        prop_assert_eq!(apart.kept.len() + apart.dropped.len(), rows[0].len());
        let unbounded = vec![false; rows[0].len()];
        let solution = system.solve(&apart.kept, &unbounded);
        let ones = nalgebra::DVector::from_element(rows.len(), 1.0);
        let least = &design * svd.solve(&ones, 1e-9).expect("both sides were asked for") - &ones;
        prop_assert!((solution.squares - least.norm_squared()).abs() < 1e-9, "{} and {}", solution.squares, least.norm_squared());
    }

    /// Whatever was measured, there is a fit that is a profile, or a reason.
    #[test]
    fn no_points_make_it_panic(
        lines in prop::collection::vec((1..9_u32, 0..4_usize, -9.0..9.0, any::<bool>(), 0..4_usize, 0..5_usize, 0..9_usize), 1..20),
        kind in 0..4_usize,
    ) {
        let points: Vec<Point> = lines.into_iter().zip(2..).map(|((cores, size, gbps, two_way, burst, set, odd), line)| Point {
            line,
            frame_size: [64, 512, 1518, 9216][size],
            // Mostly like measurements, sometimes anything.
            gbps: if odd == 0 { 10_f64.powf(gbps) } else { f64::from(cores) * (1.0 + gbps / 10.0) },
            burst: [None, Some(1), Some(32), Some(1024)][burst],
            working_set: [None, Some(0.0), Some(64.0), Some(1e6), Some(1e11)][set],
            bound: [Some(Bound::Line), Some(Bound::Cpu), None][odd.min(2)],
            line_gbps: Some([1e9, 10.0 * f64::from(cores)][odd.min(1)]),
            ..point(&CONTENTION, cores, 64, two_way, 32, 0.0)
        }).collect();
        let options = Options { kind: [None, Some(Kind::Eq7), Some(Kind::Contention), Some(Kind::Batch)][kind], ..Options::default() };
        match fit(&points, "p.csv", &options) {
            Ok(found) => {
                prop_assert!(Profile::parse(&found.profile.to_json(), "p.json").is_ok());
                prop_assert!(found.report.summary.mean_absolute_percent.is_finite());
                prop_assert_eq!(found.report.points.len() + found.report.left_out.len(), points.len());
            }
            Err(error) => prop_assert!(error.to_string().starts_with("p.csv"), "{error}"),
        }
    }
}
