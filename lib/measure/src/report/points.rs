// SPDX-License-Identifier: MIT
//! Points for `perigee predict fit`: how fast the saturated device was, by frame size.
//!
//! The model is of a saturated device, so a point is not the throughput, but what was forwarded of the highest load, in
//! the longest trial at it. Frame sizes where the device was not saturated, or that trial may not be trusted, are left
//! out, with a comment.

use std::fmt::Write as _;

use super::Report;
use super::tables::rate;
use crate::pace::rate::wire_bits;
use crate::run::{Maximum, TrialRecord};
use crate::search::Shape;

/// The columns, as `perigee predict fit` knows them.
const COLUMNS: &str = "flows,cores,frame_size,mpps,two_way,bound,line_gbps,note,source";
/// Loads this close are the same, as a share.
const SAME: f64 = 0.001;

/// What the model has to know of the device and its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Flows of all directions together; flow i is forwarded by core i mod cores.
    pub flows: u32,
    /// Cores that forward.
    pub cores: u32,
}

/// A device that the model cannot describe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointsError {
    #[error("found {flows} flows on {cores} cores, expected at least one core, and a flow for each; send more flows")]
    Cores { flows: u32, cores: u32 },
    #[error("found one flow that goes both ways, expected one for each direction; count the flows of both")]
    BothWays,
}

impl Report {
    /// The points as CSV.
    ///
    /// # Errors
    /// Flows and cores that the model cannot describe.
    pub fn points(&self, device: Device) -> Result<String, PointsError> {
        let Device { flows, cores } = device;
        if cores == 0 || cores > flows {
            return Err(PointsError::Cores { flows, cores });
        }
        let ways = self.settings.ways.count();
        if ways > flows {
            return Err(PointsError::BothWays);
        }
        let line = match self.settings.maximum {
            Maximum::Line(bits) => Some(bits / 1e9),
            Maximum::Frames(_) => None,
        };
        let mut text = format!("{COLUMNS}\n");
        for &size in &self.settings.sizes {
            let _ = match self.saturated(size) {
                Ok((pps, is_line)) => {
                    let mpps = pps * f64::from(ways) / 1e6;
                    let (bound, line) =
                        (if is_line { "line" } else { "cpu" }, line.map_or(String::new(), |l| l.to_string()));
                    let note = cell(&self.target);
                    let source = cell(&format!("perigee bench rfc2544, profile {}", self.profile));
                    let two_way = ways - 1;
                    writeln!(text, "{flows},{cores},{size},{mpps},{two_way},{bound},{line},{note},{source}")
                }
                Err(why) => writeln!(text, "# {size} bytes are left out: {why}"),
            };
        }
        Ok(text)
    }

    /// What was forwarded of the highest load, in frames per second one way, and whether that is all the line carries.
    fn saturated(&self, size: u32) -> Result<(f64, bool), String> {
        let steady = |record: &&TrialRecord| record.size == size && record.trial.shape == Shape::Steady;
        let trials: Vec<_> = self.trials.iter().filter(steady).collect();
        let offered = |record: &&TrialRecord| record.outcome.offered();
        let highest = trials.iter().map(offered).fold(0.0, f64::max);
        let at_highest = trials.iter().filter(|record| offered(record) >= highest * (1.0 - SAME));
        let trusted = at_highest.filter(|record| {
            let outcome = &record.outcome;
            !outcome.is_spoiled(outcome.lost() > 0)
        });
        // The longest trial; of several, the last.
        let longest = trusted.max_by(|a, b| a.trial.duration.total_cmp(&b.trial.duration));
        let Some(record) = longest else { return Err("no trial at the highest load may be trusted".to_owned()) };
        let outcome = &record.outcome;
        let pps = outcome.offered() * (1.0 - outcome.loss_ratio());
        if pps <= 0.0 {
            return Err("nothing was forwarded".to_owned());
        }
        let is_line = match self.settings.maximum {
            Maximum::Line(bits) => pps * wire_bits(f64::from(size)) >= bits * (1.0 - SAME),
            Maximum::Frames(_) => false,
        };
        if outcome.lost() == 0 && !is_line {
            return Err(format!("the device forwarded all of the highest load, {} frames/s", rate(highest)));
        }
        Ok((pps, is_line))
    }
}

/// A text as a cell.
fn cell(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("\"{}\"", line.replace('"', "\"\""))
}
