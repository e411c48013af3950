// SPDX-License-Identifier: MIT
//! Points made from a model, with and without noise.

use crate::points::Point;
use crate::profile::{Model, Per, Punted, Router};
use rand::RngExt;
use rand::rngs::StdRng;

/// A point that is limited by cores, its links being fast; its rate is the model's.
pub fn point(model: &Model, cores: u32, frame_size: u32, two_way: bool, burst: u32, working_set: f64) -> Point {
    with_punted(model, cores, frame_size, two_way, burst, working_set, 0.0)
}

/// The same, with a share of the packets for the slow path.
fn with_punted(
    model: &Model,
    cores: u32,
    frame_size: u32,
    two_way: bool,
    burst: u32,
    working_set: f64,
    share: f64,
) -> Point {
    let core = model.service(cores, two_way, working_set, Punted { share, burst }).saturated_gbps(frame_size, burst);
    Point {
        line: 0,
        flows: 8 * cores,
        cores,
        frame_size,
        gbps: core * f64::from(cores),
        two_way,
        burst: Some(burst),
        working_set: Some(working_set),
        punted: Some(share),
        bound: None,
        line_gbps: Some(1e6),
        notes: Vec::new(),
    }
}

/// Points in which every factor varies independently.
pub fn grid(model: &Model) -> Vec<Point> {
    let mut points = Vec::new();
    for cores in [1, 2, 4, 8] {
        for frame_size in [64, 512, 1518] {
            for two_way in [false, true] {
                points.push(point(model, cores, frame_size, two_way, 32, 0.0));
            }
        }
    }
    for burst in [1, 2, 8, 64] {
        points.push(point(model, 1, 64, false, burst, 0.0));
        points.push(point(model, 4, 64, true, burst, 0.0));
    }
    for working_set in [1e4, 4e4, 16e4, 64e4, 256e4] {
        points.push(point(model, 1, 64, false, 32, working_set));
        points.push(point(model, 2, 256, true, 32, working_set));
    }
    for share in [0.02, 0.2, 0.5] {
        points.push(with_punted(model, 1, 64, false, 32, 0.0, share));
        points.push(with_punted(model, 1, 64, false, 8, 0.0, share));
    }
    for (line, point) in points.iter_mut().enumerate() {
        point.line = line as u64 + 2;
    }
    points
}

/// The same points as if measured, with normal relative errors of this standard deviation.
pub fn noisy(points: &[Point], deviation: f64, random: &mut StdRng) -> Vec<Point> {
    let noise = |point: &Point| Point { gbps: point.gbps * (1.0 + deviation * normal(random)), ..point.clone() };
    points.iter().map(noise).collect()
}

/// A number from the standard normal distribution (Box and Muller, 1958).
fn normal(random: &mut StdRng) -> f64 {
    let (u, v): (f64, f64) = (random.random_range(f64::EPSILON..1.0), random.random_range(0.0..1.0));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// What a fit minimises, calculated from the model alone.
pub fn objective(model: &Model, points: &[Point]) -> f64 {
    let error = |point: &Point| {
        let punted =
            Punted { share: point.punted.unwrap_or(0.0), burst: point.burst.unwrap_or(Router::default().burst) };
        let service = model.service(point.cores, point.two_way, point.working_set.unwrap_or(0.0), punted);
        let predicted = service.saturated_ns(point.frame_size, point.burst.unwrap_or(Router::default().burst));
        match model {
            Model::Eq7 { .. } => point.service_ns() / predicted - 1.0,
            Model::Contention { .. } | Model::Batch { .. } => predicted / point.service_ns() - 1.0,
        }
    };
    points.iter().map(|point| error(point).powi(2)).sum()
}

/// The model with other values of its parameters, in the order of [`Model::parameters`].
pub fn with(model: &Model, p: &[f64]) -> Model {
    match *model {
        Model::Eq7 { .. } => Model::Eq7 { a: p[0], a0: p[1], b: p[2], b0: p[3] },
        Model::Contention { .. } => Model::Contention { c0_ns: p[0], c_byte_ns: p[1], d_ns: p[2], u_ns: p[3] },
        Model::Batch { contention_per, .. } => batch(p, contention_per),
    }
}

pub fn batch(p: &[f64], contention_per: Per) -> Model {
    Model::Batch {
        c_batch_ns: p[0],
        c_packet_ns: p[1],
        c_byte_ns: p[2],
        miss_ns: p[3],
        cache_bytes: p[4],
        d_ns: p[5],
        u_ns: p[6],
        punt_ns: p[7],
        punt_burst_ns: p[8],
        contention_per,
    }
}
