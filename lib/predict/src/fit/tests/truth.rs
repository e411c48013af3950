// SPDX-License-Identifier: MIT
//! Fits against the models that made the points, against other parameters, against fits without a point, and against
//! chance.

use super::synthetic::{batch, grid, noisy, objective, with};
use crate::fit::{Fit, Kind, Options, fit};
use crate::points::{self, Bound, Point};
use crate::profile::{Model, Per};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::path::Path;

fn options(kind: Kind) -> Options {
    Options { kind: Some(kind), name: "test".to_owned(), ..Options::default() }
}

fn kind(model: &Model) -> Kind {
    match model {
        Model::Eq7 { .. } => Kind::Eq7,
        Model::Contention { .. } => Kind::Contention,
        Model::Batch { .. } => Kind::Batch,
    }
}

fn fitted(model: &Model, points: &[Point]) -> Fit {
    fit(points, "p.csv", &options(kind(model))).expect("a fit")
}

fn published(file: &str) -> Vec<Point> {
    points::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/predict").join(file)).expect("points")
}

/// A model with every parameter at work. Equation 5 has no smaller rate for more cores here.
fn any_model() -> impl Strategy<Value = Model> {
    let per = prop_oneof![Just(Per::Burst), Just(Per::Packet)];
    prop_oneof![
        (0.005..0.05, -0.002..0.02, 0.1..1.0, -0.05..0.2).prop_map(|(a, a0, b, b0)| Model::Eq7 { a, a0, b, b0 }),
        (50.0..900.0, 0.01..1.0, 1.0..50.0, 1.0..50.0).prop_map(|(c0_ns, c_byte_ns, d_ns, u_ns)| Model::Contention {
            c0_ns,
            c_byte_ns,
            d_ns,
            u_ns
        }),
        (100.0..900.0, 10.0..90.0, 0.01..0.5, 10.0..90.0, 0.0..5e5, 1.0..50.0, 1.0..50.0, (1.0..90.0, 1.0..500.0), per)
            .prop_map(|(a, b, c, d, e, f, g, (h, i), per)| batch(&[a, b, c, d, e, f, g, h, i], per)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_made_the_points_is_found(model in any_model()) {
        let points = grid(&model);
        let found = fitted(&model, &points);
        for ((name, truth), (_, value)) in model.parameters().into_iter().zip(found.profile.model.parameters()) {
            prop_assert!((value - truth).abs() <= 1e-6 * truth.abs() + 1e-9, "{name}: {value}, not {truth}");
        }
        if let (Model::Batch { contention_per: a, .. }, Model::Batch { contention_per: b, .. }) = (found.profile.model, model) {
            prop_assert_eq!(a, b);
        }
        prop_assert!(found.report.summary.mean_absolute_percent < 1e-6);
        prop_assert!(found.report.left_out.is_empty() && found.report.summary.points == points.len());
    }

    /// No other parameters are better, neither near the fit's nor far from them.
    #[test]
    fn no_other_parameters_are_better(model in any_model(), seed in any::<u64>()) {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut points = noisy(&grid(&model), 0.03, &mut random);
        // Times that fall with the frame size drive a parameter to its bound.
        if random.random_bool(0.5) {
            for point in &mut points {
                point.gbps *= 1.0 + f64::from(point.frame_size) / 3000.0;
            }
        }
        let found = fitted(&model, &points).profile.model;
        let least = objective(&found, &points);
        let values: Vec<f64> = found.parameters().iter().map(|(_, value)| *value).collect();
        for _ in 0..2000 {
            let mut other = values.clone();
            let step = 10_f64.powf(random.random_range(-5.0..0.0));
            for ((name, _), value) in found.parameters().into_iter().zip(&mut other) {
                let size = value.abs().max(if name == "cache_bytes" { 1e5 } else { 1.0 });
                *value += step * size * random.random_range(-1.0..1.0);
                if !matches!(name, "a0" | "b0") {
                    *value = value.max(0.0);
                }
            }
            let tried = objective(&with(&found, &other), &points);
            prop_assert!(tried >= least * (1.0 - 1e-9), "{tried} < {least}: {other:?}, not {values:?}");
        }
    }

    /// Errors of points left out are those of fits made without them.
    #[test]
    fn cross_validation_is_what_it_says(model in any_model(), seed in any::<u64>()) {
        prop_assume!(!matches!(model, Model::Batch { .. }));
        let points = noisy(&grid(&model), 0.001, &mut StdRng::seed_from_u64(seed));
        let found = fitted(&model, &points);
        prop_assume!(found.report.parameters.iter().all(|parameter| parameter.held.is_none()));
        for (i, point) in points.iter().enumerate() {
            let mut others = points.clone();
            others.remove(i);
            let without = fitted(&model, &others).profile.model;
            let rate = without.service(point.cores, point.two_way, 0.0, crate::Punted::default()).saturated_gbps(point.frame_size, 32) * f64::from(point.cores);
            let said = found.report.points[i].cross_validated_percent.expect("a point among many");
            prop_assert!((said - 100.0 * (rate / point.gbps - 1.0)).abs() < 2e-6, "{said}: {point:?}");
        }
    }
}

/// Of a thousand sets of measurements, the intervals contain the truth in 95 of 100, whatever the parameter.
#[test]
fn intervals_cover_the_truth() {
    let seed = 6;
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (sets, deviation) = (1000, 0.005);
    for model in [
        Model::Eq7 { a: 0.0114, a0: 0.0027, b: 0.227, b0: 0.063 },
        Model::Contention { c0_ns: 560.0, c_byte_ns: 0.1, d_ns: 30.0, u_ns: 20.0 },
        batch(&[400.0, 60.0, 0.1, 40.0, 3e5, 30.0, 100.0, 30.0, 200.0], Per::Burst),
    ] {
        let (points, mut covered) = (grid(&model), vec![0; model.parameters().len()]);
        for _ in 0..sets {
            let found = fitted(&model, &noisy(&points, deviation, &mut random));
            for (i, (parameter, (_, truth))) in found.report.parameters.iter().zip(model.parameters()).enumerate() {
                let (low, high) = (parameter.low.expect("an interval"), parameter.high.expect("an interval"));
                covered[i] += u32::from((low..=high).contains(&truth));
            }
        }
        println!("{}: {covered:?} of {sets}", kind(&model).name());
        // Four standard deviations of a binomial distribution; the cache's size is no linear parameter.
        assert!(covered.iter().all(|n| (922..=978).contains(n)), "{model:?}: {covered:?}");
    }
}

#[test]
fn the_published_parameters() {
    let found = fit(&published("four-points.csv"), "four-points.csv", &options(Kind::Eq7)).expect("a fit");
    for ((name, value), truth) in found.profile.model.parameters().iter().zip([0.011392, 0.002709, 0.227037, 0.063321])
    {
        assert!((value - truth).abs() < 5.1e-7, "{name}: {value}, not {truth}");
    }
    let report = &found.report;
    assert_eq!((report.summary.degrees_of_freedom, report.summary.cross_validated.is_none()), (0, true));
    assert_eq!(report.no_intervals.as_deref(), Some("no intervals: as many parameters as points"));

    let found = fit(&published("contention-points.csv"), "p.csv", &options(Kind::Contention)).expect("a fit");
    for ((name, value), truth) in found.profile.model.parameters().iter().zip([563.4, 0.0, 29.1, 11.1]) {
        assert!((value - truth).abs() < 0.05, "{name}: {value}, not {truth}");
    }
    let held = found.report.parameters[1].held.as_deref().expect("one frame size");
    assert!(held.contains("all points have frames of 64 bytes; measure a second frame size"), "{held}");
}

/// The published table: which rows links limit, and which model it is.
#[test]
fn the_published_table() {
    let points = published("published.csv");
    let found = fit(&points, "p.csv", &Options::default()).expect("a fit");
    let left_out: Vec<(u32, u32)> = found.report.left_out.iter().map(|p| (p.point.flows, p.point.frame_size)).collect();
    assert_eq!(left_out, [(1, 1024), (1, 1518), (3, 512)]);
    assert_eq!(found.report.model, "contention");
    let why = found.report.chosen_because.expect("a reason");
    assert!(why.contains("17 rates") && why.contains("contention 0.4"), "{why}");
    // These rows are left out if the caller asks for it, and only then.
    let mut said = points.clone();
    said.iter_mut().for_each(|p| {
        p.bound = Some(if left_out.contains(&(p.flows, p.frame_size)) { Bound::Line } else { Bound::Cpu })
    });
    let again = fit(&said, "p.csv", &Options::default()).expect("a fit");
    assert_eq!(again.profile.model, found.profile.model);
    said.iter_mut().for_each(|p| p.bound = Some(Bound::Cpu));
    assert_eq!(fit(&said, "p.csv", &Options::default()).expect("a fit").report.left_out.len(), 0);
}

/// The model that made the points is chosen, also with noise; the simpler one where another has nothing to add.
#[test]
fn the_right_model_is_chosen() {
    let seed = 7;
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for model in [
        Model::Eq7 { a: 0.0114, a0: 0.0027, b: 0.227, b0: 0.063 },
        Model::Contention { c0_ns: 560.0, c_byte_ns: 0.2, d_ns: 30.0, u_ns: 20.0 },
        batch(&[400.0, 60.0, 0.1, 40.0, 3e5, 30.0, 100.0, 30.0, 200.0], Per::Packet),
    ] {
        for deviation in [0.0, 0.005] {
            let points = noisy(&grid(&model), deviation, &mut random);
            let found = fit(&points, "p.csv", &Options::default()).expect("a fit");
            assert_eq!(found.report.model, kind(&model).name(), "{:?}", found.report.chosen_because);
            assert_eq!(found.report.candidates.len(), 3);
        }
    }
}

/// What is negative is held at 0, and said.
#[test]
fn what_cannot_be_negative_is_not() {
    let model = Model::Contention { c0_ns: 560.0, c_byte_ns: 0.0, d_ns: 30.0, u_ns: 20.0 };
    let mut points = grid(&model);
    points.iter_mut().for_each(|p| p.gbps *= 1.0 + f64::from(p.frame_size) / 1e5);
    let found = fitted(&model, &points);
    let held = found.report.parameters[1].held.as_deref();
    assert_eq!(held, Some("would be negative, held at 0; the others were fitted again"));
    assert_eq!((found.report.parameters[1].value, found.report.summary.parameters), (0.0, 3));
}

/// What one and two cores tell of a further core is said with its interval; what many tell, only where it is wide.
#[test]
fn contention_that_few_cores_tell_is_a_note() {
    let model = batch(&[389.0, 19.0, 0.0, 40.0, 3e5, 30.0, 100.0, 0.0, 0.0], Per::Burst);
    let said = |most: u32, deviation: f64| {
        let points: Vec<Point> = grid(&model).into_iter().filter(|point| point.cores <= most).collect();
        let found = fitted(&model, &noisy(&points, deviation, &mut StdRng::seed_from_u64(1)));
        found.report.notes.into_iter().find(|note| note.contains("what each further core costs"))
    };
    let few = said(2, 0.01).expect("a note");
    assert!(few.contains("by points on 1 and 2 cores") && few.contains("measure on more numbers of cores"), "{few}");
    let wide = said(8, 0.2).expect("a note");
    assert!(wide.contains("by points on 1, 2, 4 and 8 cores") && wide.contains("with more rounds"), "{wide}");
    assert_eq!(said(8, 0.001), None);
}

/// Two noisy points of two cores suggested 359 ns a burst, and a prediction for sixteen cores multiplied it: a mean
/// error of 59 %.
#[test]
fn contention_that_two_numbers_of_cores_suggest_is_not_carried_to_sixteen() {
    let model = batch(&[389.0, 19.0, 0.0, 40.0, 3e5, 0.0, 0.0, 0.0, 0.0], Per::Burst);
    let points: Vec<Point> = grid(&model).into_iter().filter(|point| point.cores <= 2).collect();
    // One of two cores was slow.
    let slow = |point: &Point| {
        if point.cores == 2 { Point { gbps: 0.7 * point.gbps, ..point.clone() } } else { point.clone() }
    };
    let points: Vec<Point> = points.iter().map(slow).collect();
    let found = fitted(&model, &noisy(&points, 0.01, &mut StdRng::seed_from_u64(1)));
    let further = found.report.parameters.iter().find(|parameter| parameter.name == "d_ns").expect("it has one");
    assert_eq!(further.value, 0.0);
    let held = further.held.as_deref().unwrap_or_default();
    assert!(held.contains("points on 1 and 2 cores suggest") && held.contains("a third number of cores"), "{held}");
    let (low, high) = (further.low.expect("an end"), further.high.expect("an end"));
    assert!(low == 0.0 && high > 50.0, "the interval says what it may be: {low} to {high}");
}
