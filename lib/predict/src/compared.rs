// SPDX-License-Identifier: MIT
//! A measured point and a model's prediction of it: a row of tables, and a part of JSON.

use crate::points::Point;
use serde::Serialize;

/// A point as measured and as predicted.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Its line in the file.
    pub line: u64,
    pub flows: u32,
    pub cores: u32,
    /// Frame size in bytes.
    pub frame_size: u32,
    /// Flows go both ways.
    pub two_way: bool,
    /// Forced burst size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Working set in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<f64>,
    /// Share of the packets for the slow path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub punted: Option<f64>,
    /// Measured, in Gbit/s on the wire.
    pub gbps: f64,
    /// Predicted, including the limits of links.
    pub predicted_gbps: f64,
    /// Predicted over measured, less 1, in percent.
    pub error_percent: f64,
}

impl Compared {
    /// A point and its predicted rate in Gbit/s on the wire.
    pub fn of(point: &Point, predicted_gbps: f64) -> Self {
        Self {
            line: point.line,
            flows: point.flows,
            cores: point.cores,
            frame_size: point.frame_size,
            two_way: point.two_way,
            burst: point.burst,
            working_set_bytes: point.working_set,
            punted: point.punted,
            gbps: point.gbps,
            predicted_gbps,
            error_percent: percent(predicted_gbps / point.gbps - 1.0),
        }
    }
}

/// A share in percent, with six decimals: further ones are rounding, and would differ between machines.
pub fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6 + 0.0
}
