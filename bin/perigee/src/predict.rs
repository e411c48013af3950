// SPDX-License-Identifier: MIT
//! `perigee predict`: profiles from measured points, and predictions from them for other hardware.

mod calibrate;
mod fit;
mod measured;
mod plan;
mod plot;
mod profiles;
mod rig;
mod run;
mod verify;

use crate::table::rows;
use anyhow::Result;
use clap::Subcommand;
use perigee_predict::compared::Compared;
use std::process::ExitCode;

/// What to do.
#[derive(Subcommand)]
pub enum PredictCommand {
    /// Measure this machine, and make its profile
    Calibrate(calibrate::CalibrateArgs),
    /// Make a profile from measured points
    Fit(fit::FitArgs),
    /// Compare a profile with measured points, or with this machine at new ones: predicted, measured, error
    Verify(verify::VerifyArgs),
    /// Predict how fast a router will be, how much it will lose, how long packets will stay, and how many cores it
    /// needs
    Run(run::RunArgs),
    /// List the profiles that ship, and how near their machines are to this one; or print one of them
    Profiles(profiles::ProfilesArgs),
    /// Draw a CSV file as SVG
    Plot(plot::PlotArgs),
}

/// Runs the subcommand.
pub fn predict(command: &PredictCommand) -> Result<ExitCode> {
    match command {
        PredictCommand::Calibrate(args) => calibrate::calibrate(args),
        PredictCommand::Fit(args) => fit::fit(args),
        PredictCommand::Verify(args) => verify::verify(args),
        PredictCommand::Run(args) => run::run(args),
        PredictCommand::Profiles(args) => profiles::profiles(args),
        PredictCommand::Plot(args) => plot::plot(args),
    }
}

/// A point in a few words: `4 flows, 4 cores, 64 bytes`, and its other columns.
fn point_name(point: &Compared) -> String {
    let plural = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut words =
        vec![plural(point.flows, "flow"), plural(point.cores, "core"), format!("{} bytes", point.frame_size)];
    if point.two_way != perigee_predict::profile::two_way_by_default(point.cores) {
        words.push(if point.two_way { "two-way" } else { "one-way" }.to_owned());
    }
    words.extend(point.burst.map(|burst| format!("bursts of {burst}")));
    words.extend(point.punted.filter(|share| *share > 0.0).map(|share| format!("{share} for the slow path")));
    words.extend(point.working_set_bytes.map(|bytes| format!("tables of {bytes} bytes")));
    words.join(", ")
}

/// A table of points and predictions, one row each, with further columns, some of them numbers.
fn compared<'a, const N: usize>(
    more: [&str; N],
    numbers: &[&str],
    lines: impl Iterator<Item = (&'a Compared, [String; N])>,
) -> String {
    let columns = ["line", "point", "measured Gbit/s", "predicted", "error %"];
    let right = ["line", "measured Gbit/s", "predicted", "error %"];
    let cells = lines.map(|(point, more)| {
        let mut cells = vec![
            point.line.to_string(),
            point_name(point),
            format!("{:.4}", point.gbps),
            format!("{:.4}", point.predicted_gbps),
            format!("{:+.3}", point.error_percent),
        ];
        cells.extend(more);
        cells
    });
    rows(&[&columns[..], &more].concat(), &[&right[..], numbers].concat(), cells).trim_fmt()
}

/// Errors of rates: mean with and without sign, and the worst with its line.
fn errors_line(signed: f64, absolute: f64, (worst, line): (f64, u64)) -> String {
    format!("errors: mean {signed:+.3} %, mean absolute {absolute:.3} %, worst {worst:+.3} % (line {line})")
}

/// A number with six significant digits.
fn significant(value: f64) -> String {
    let before = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    match before {
        -4..=9 => format!("{value:.*}", (5 - before).max(0) as usize),
        _ => format!("{value:.5e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_points_in_words() {
        let numbers = [0.0, 0.011392137, -563.3802, 1.5e6, 1.0e12, 3.0e-9].map(significant);
        assert_eq!(numbers, ["0.00000", "0.0113921", "-563.380", "1500000", "1.00000e12", "3.00000e-9"]);
        let point = |text: &str| {
            Compared::of(&perigee_predict::points::parse(text.as_bytes(), "p.csv").expect("points")[0], 1.0)
        };
        assert_eq!(point_name(&point("flows,cores,frame_size,gbps\n1,1,64,1\n")), "1 flow, 1 core, 64 bytes");
        let all = point("flows,cores,frame_size,gbps,two_way,burst,working_set_bytes\n4,2,512,1,0,8,6400\n");
        assert_eq!(point_name(&all), "4 flows, 2 cores, 512 bytes, one-way, bursts of 8, tables of 6400 bytes");
    }
}
