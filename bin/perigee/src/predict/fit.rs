// SPDX-License-Identifier: MIT
//! `perigee predict fit`: a profile from measured points, with a full report.

use super::{compared, errors_line, significant};
use crate::output::print;
use crate::table::{or_dash, rows};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use perigee_predict::fit::{self, Candidate, Fit, Kind, Options, Parameter, PointReport, Report};
use perigee_predict::{Per, Router, points};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `perigee predict fit`.
#[derive(Args)]
pub struct FitArgs {
    /// Measured points: a line that names the columns (flows, cores, frame_size, gbps or mpps, ...), then a point a
    /// line
    #[arg(value_name = "POINTS.csv")]
    points: PathBuf,
    /// Write the profile
    #[arg(short, long, value_name = "PROFILE.json")]
    output: Option<PathBuf>,
    /// Which model [default: of those that the points determine, the one that best predicts points it was not fitted
    /// to]
    #[arg(long, value_enum)]
    model: Option<ModelArg>,
    /// Whether each burst or each packet pays for contention between cores in the batch model [default: whatever fits
    /// better]
    #[arg(long, value_enum, value_name = "WHAT")]
    contention_per: Option<PerArg>,
    /// The profile's name [default: the name of the points' file]
    #[arg(long)]
    name: Option<String>,
    /// What was measured, for the profile
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Gbit/s of each link and direction, for points without a column for it, and for the profile
    #[arg(long, value_name = "GBPS", default_value_t = 10.0)]
    link_gbps: f64,
    /// Packets that a core takes at once, for points without a column for it, and for the profile
    #[arg(long, value_name = "N", default_value_t = 32)]
    burst: u32,
    /// Print the profile, not tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModelArg {
    /// The published one: a rate that grows with frame size and cores (Equations 5 to 7)
    Eq7,
    /// A time per packet that grows with the cores
    Contention,
    /// A time per burst and per packet, with a cache
    Batch,
}

#[derive(Clone, Copy, ValueEnum)]
enum PerArg {
    /// Each burst
    Burst,
    /// Each packet
    Packet,
}

impl FitArgs {
    fn options(&self) -> Options {
        let router = Router::default();
        Options {
            kind: self.model.map(|model| match model {
                ModelArg::Eq7 => Kind::Eq7,
                ModelArg::Contention => Kind::Contention,
                ModelArg::Batch => Kind::Batch,
            }),
            contention_per: self.contention_per.map(|per| match per {
                PerArg::Burst => Per::Burst,
                PerArg::Packet => Per::Packet,
            }),
            router: Router {
                link_gbps: self.link_gbps,
                burst: self.burst,
                // A burst comes from one ring.
                receive_ring: router.receive_ring.max(self.burst),
                ..router
            },
            name: self.name.clone().unwrap_or_else(|| {
                self.points.file_stem().map_or_else(|| "profile".to_owned(), |stem| stem.to_string_lossy().into_owned())
            }),
            description: self.description.clone(),
        }
    }
}

/// Fits.
pub fn fit(args: &FitArgs) -> Result<ExitCode> {
    let points = points::load(&args.points)?;
    let fit = fit::fit(&points, &args.points.display().to_string(), &args.options())?;
    let json = fit.profile.to_json();
    if let Some(output) = &args.output {
        fs::write(output, &json)
            .with_context(|| format!("{}: expected a file that can be written", output.display()))?;
    }
    if args.json {
        print(&json)
    } else {
        print(&tables(&fit, args.output.as_deref().map_or(Written::Nowhere, Written::To)))
    }
}

/// Where the profile is.
pub enum Written<'a> {
    Nowhere,
    To(&'a Path),
}

/// The report of a fit.
pub fn tables(fit: &Fit, written: Written<'_>) -> String {
    let report = &fit.report;
    let mut text =
        format!("{}, fitted to {} of {}\n", report.model, count(report.summary.points, "point"), report.file);
    let _ = writeln!(text, "minimised: {}", report.minimised);
    if !report.candidates.is_empty() {
        let _ = writeln!(text, "\n{}", candidates(&report.candidates).trim_fmt());
        for Candidate { model, missing, .. } in &report.candidates {
            if let Some(missing) = missing {
                let _ = writeln!(text, "{model}: {missing}");
            }
        }
        if let Some(why) = &report.chosen_because {
            let _ = writeln!(text, "{} is chosen: {why}", report.model);
        }
    }
    let _ = writeln!(text, "\n{}", parameters(&report.parameters).trim_fmt());
    if let Some(why) = &report.no_intervals {
        let _ = writeln!(text, "{why}");
    }
    let _ = writeln!(text, "\n{}", residuals(&report.points));
    if !report.left_out.is_empty() {
        let _ = writeln!(text, "\nleft out, as links limit the rate:\n{}", residuals(&report.left_out));
    }
    let _ = writeln!(text, "\n{}", summary(report));
    for Parameter { name, held, .. } in &report.parameters {
        if let Some(held) = held {
            let _ = writeln!(text, "warning: {name}: {held}");
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Written::To(output) = written {
        let _ = writeln!(text, "written: {}", output.display());
    }
    text
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn percent(value: f64) -> String {
    format!("{value:+.3}")
}

fn candidates(list: &[Candidate]) -> comfy_table::Table {
    let header = ["model", "solved for", "not determined", "error %", "without the point %"];
    rows(
        &header,
        &["solved for", "error %", "without the point %"],
        list.iter().map(|candidate| {
            let unsigned = |value: f64| format!("{value:.3}");
            vec![
                candidate.model.to_owned(),
                candidate.parameters.to_string(),
                match (&candidate.missing, &candidate.not_determined[..]) {
                    (Some(_), _) => "the model, see below".to_owned(),
                    (None, []) => "-".to_owned(),
                    (None, names) => names.join(", "),
                },
                or_dash(candidate.mean_absolute_percent.map(unsigned)),
                or_dash(candidate.cross_validated.as_ref().map(|cross| unsigned(cross.mean_absolute_percent))),
            ]
        }),
    )
}

fn parameters(list: &[Parameter]) -> comfy_table::Table {
    rows(
        &["parameter", "value", "95 % interval"],
        &["value"],
        list.iter().map(|parameter| {
            let interval = match (parameter.low, parameter.high, &parameter.held) {
                (_, _, Some(_)) => "held".to_owned(),
                (Some(low), Some(high), None) => format!("{} to {}", significant(low), significant(high)),
                _ => "-".to_owned(),
            };
            vec![parameter.name.to_owned(), significant(parameter.value), interval]
        }),
    )
}

fn residuals(list: &[PointReport]) -> String {
    let without = "without it %";
    let lines = list.iter().map(|line| (&line.point, [or_dash(line.cross_validated_percent.map(percent))]));
    compared([without], &[without], lines)
}

fn summary(report: &Report) -> String {
    let summary = &report.summary;
    let worst = (summary.worst.error_percent, summary.worst.line);
    let mut text = errors_line(summary.signed_mean_percent, summary.mean_absolute_percent, worst);
    match &summary.cross_validated {
        Some(cross) => {
            let _ = write!(
                text,
                "\n{}, each predicted without its point: mean absolute {:.3} %, root mean square {:.3} %",
                count(cross.points, "point"),
                cross.mean_absolute_percent,
                cross.root_mean_square_percent
            );
        }
        None => text += "\nno point can be left out: nothing tests this fit",
    }
    let _ = write!(
        text,
        "\n{} solved for, {} of freedom, condition number {:.1}",
        count(summary.parameters, "parameter"),
        count(summary.degrees_of_freedom, "degree"),
        summary.condition_number
    );
    text
}
