// SPDX-License-Identifier: MIT
//! The models as sums of parameters times a point's values, which a fit solves for.

use crate::points::Point;
use crate::profile::{Model, Per, Punted, Router, miss_share};

/// A model to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// [`Model::Eq7`].
    Eq7,
    /// [`Model::Contention`].
    Contention,
    /// [`Model::Batch`].
    Batch,
}

impl Kind {
    /// All models, the one with the fewest parameters first.
    pub const ALL: [Self; 3] = [Self::Contention, Self::Eq7, Self::Batch];

    /// Its name in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eq7 => "eq7",
            Self::Contention => "contention",
            Self::Batch => "batch",
        }
    }

    /// What its fit minimises.
    pub fn minimised(self) -> &'static str {
        match self {
            Self::Eq7 => "sum of squares of (predicted - measured) / measured rate on the wire",
            Self::Contention | Self::Batch => "sum of squares of (predicted - measured) / measured time per packet",
        }
    }
}

/// What differs from point to point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    FrameSize,
    Cores,
    /// Do flows go both ways?
    Direction,
    Burst,
    WorkingSet,
    /// The share of packets for the slow path.
    Punted,
}

impl Factor {
    pub fn name(self) -> &'static str {
        match self {
            Self::FrameSize => "the frame size",
            Self::Cores => "the number of cores",
            Self::Direction => "one-way or two-way traffic",
            Self::Burst => "the burst size",
            Self::WorkingSet => "the working set",
            Self::Punted => "the share of packets for the slow path",
        }
    }

    pub fn of(self, point: &Point, router: &Router) -> f64 {
        match self {
            Self::FrameSize => f64::from(point.frame_size),
            Self::Cores => f64::from(point.cores),
            Self::Direction => f64::from(u8::from(point.two_way)),
            Self::Burst => f64::from(point.burst.unwrap_or(router.burst)),
            Self::WorkingSet => point.working_set.unwrap_or(router.working_set_bytes),
            Self::Punted => point.punted.unwrap_or(0.0),
        }
    }

    /// A point's packets for the slow path.
    pub fn punted(point: &Point, router: &Router) -> Punted {
        Punted { share: Self::Punted.of(point, router), burst: Self::Burst.of(point, router) as u32 }
    }

    /// Describes its value: `all points have ...`.
    pub fn say(self, value: f64) -> String {
        match self {
            Self::FrameSize => format!("frames of {value} bytes"),
            Self::Cores if value == 1.0 => "1 core".to_owned(),
            Self::Cores => format!("{value} cores"),
            Self::Direction if value == 0.0 => "one-way traffic".to_owned(),
            Self::Direction => "two-way traffic".to_owned(),
            Self::Burst => format!("bursts of {value} packets"),
            Self::WorkingSet if value == 0.0 => "no working set (columns routes, destinations)".to_owned(),
            Self::WorkingSet => format!("a working set of {value} bytes"),
            Self::Punted if value == 0.0 => "no packets for the slow path (column punted)".to_owned(),
            Self::Punted => format!("{value} of the packets for the slow path"),
        }
    }

    /// What to measure if it is the same in all points.
    pub fn remedy(self, value: f64) -> String {
        match self {
            Self::FrameSize => "measure a second frame size".to_owned(),
            Self::Cores if value == 1.0 => "measure on 2 or more cores".to_owned(),
            Self::Cores => "measure on 1 core".to_owned(),
            Self::Direction if value == 0.0 => "measure two-way traffic on several cores (column two_way)".to_owned(),
            Self::Direction => "measure one-way traffic (column two_way)".to_owned(),
            Self::Burst => "measure with a second forced burst size (column burst)".to_owned(),
            Self::WorkingSet => "measure other numbers of routes and random destinations".to_owned(),
            Self::Punted => "measure with some of the packets for the slow path (column punted)".to_owned(),
        }
    }
}

/// A parameter that a fit solves for.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    pub name: &'static str,
    /// The model needs it.
    pub needed: bool,
    /// It cannot be negative.
    pub bounded: bool,
    /// What its regressor is made of.
    pub factors: &'static [Factor],
}

const fn term(name: &'static str, needed: bool, factors: &'static [Factor]) -> Term {
    Term { name, needed, bounded: true, factors }
}

const EQ7: [Term; 4] = [
    term("b", true, &[Factor::Cores]),
    term("a", true, &[Factor::FrameSize, Factor::Cores]),
    Term { bounded: false, ..term("a0", true, &[Factor::FrameSize]) },
    Term { bounded: false, ..term("b0", true, &[]) },
];
const CONTENTION: [Term; 4] = [
    term("c0_ns", true, &[]),
    term("d_ns", false, &[Factor::Cores]),
    term("c_byte_ns", false, &[Factor::FrameSize]),
    term("u_ns", false, &[Factor::Direction]),
];
/// The last one is there only while the cache's size is looked for: `miss_ns * cache_bytes`.
const BATCH: [Term; 9] = [
    term("c_packet_ns", true, &[]),
    term("c_batch_ns", true, &[Factor::Burst]),
    term("d_ns", false, &[Factor::Cores]),
    term("c_byte_ns", false, &[Factor::FrameSize]),
    term("u_ns", false, &[Factor::Direction]),
    term("punt_ns", false, &[Factor::Punted]),
    term("punt_burst_ns", false, &[Factor::Punted]),
    term("miss_ns", false, &[Factor::WorkingSet]),
    term("cache_bytes", false, &[Factor::WorkingSet]),
];
/// Where `miss_ns` and the product stand in it.
pub const MISS: usize = 7;
pub const PRODUCT: usize = 8;

/// A model that is linear in its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Eq7,
    Contention,
    Batch { per: Per, cache: Cache },
}

/// What is known about the cache's size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cache {
    /// It is this, in bytes.
    At(f64),
    /// It is at least this and less than the next larger working set that was measured. There
    /// `m(W) miss = miss - miss cache / W` for larger working sets: linear in `miss` and `miss cache`.
    From(f64),
}

impl Form {
    /// Its parameters, the more important ones first: of two that cannot be told apart the first is kept.
    pub fn terms(&self) -> &'static [Term] {
        match self {
            Self::Eq7 => &EQ7,
            Self::Contention => &CONTENTION,
            Self::Batch { cache: Cache::At(_), .. } => &BATCH[..PRODUCT],
            Self::Batch { cache: Cache::From(_), .. } => &BATCH,
        }
    }

    /// The target of a point's sum: its rate in Gbit/s (Eq. 5), or a core's time for a packet in nanoseconds.
    pub fn target(&self, point: &Point) -> f64 {
        if *self == Self::Eq7 { point.gbps } else { point.service_ns() }
    }

    /// What each parameter is multiplied by.
    pub fn regressors(&self, point: &Point, router: &Router) -> Vec<f64> {
        let (k, size) = (f64::from(point.cores), f64::from(point.frame_size));
        let two_way = f64::from(u8::from(point.two_way));
        match *self {
            Self::Eq7 => vec![k, k * size, size, 1.0],
            Self::Contention => vec![1.0, k - 1.0, size, two_way],
            Self::Batch { per, cache } => {
                let part = 1.0 / Factor::Burst.of(point, router);
                let contention = if per == Per::Burst { part } else { 1.0 };
                let punted = Factor::punted(point, router);
                let (share, bursts) = (punted.share, punted.bursts() * part);
                let mut row = vec![1.0, part, (k - 1.0) * contention, size, two_way * contention, share, bursts];
                let w = Factor::WorkingSet.of(point, router);
                match cache {
                    Cache::At(cache) => row.push(miss_share(w, cache)),
                    Cache::From(least) if w > least => row.extend([1.0, -1.0 / w]),
                    Cache::From(_) => row.extend([0.0, 0.0]),
                }
                row
            }
        }
    }

    /// The model with these values of its parameters, in the order of [`Form::terms`].
    pub fn model(&self, values: &[f64]) -> Model {
        match *self {
            Self::Eq7 => Model::Eq7 { b: values[0], a: values[1], a0: values[2], b0: values[3] },
            Self::Contention => {
                Model::Contention { c0_ns: values[0], d_ns: values[1], c_byte_ns: values[2], u_ns: values[3] }
            }
            Self::Batch { per, cache } => Model::Batch {
                c_packet_ns: values[0],
                c_batch_ns: values[1],
                d_ns: values[2],
                c_byte_ns: values[3],
                u_ns: values[4],
                punt_ns: values[5],
                punt_burst_ns: values[6],
                miss_ns: values[MISS],
                cache_bytes: match cache {
                    Cache::At(cache) => cache,
                    Cache::From(_) => values[PRODUCT] / values[MISS],
                },
                contention_per: per,
            },
        }
    }
}
