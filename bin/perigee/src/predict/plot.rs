// SPDX-License-Identifier: MIT
//! `perigee predict plot`: a chart of a CSV file.

use crate::output::print;
use anyhow::{Context as _, Result};
use clap::Args;
use perigee_chart::Place;
use perigee_predict::plot::{self, Columns};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `perigee predict plot`.
#[derive(Args)]
pub struct PlotArgs {
    /// A header and rows of numbers; a first line `# plot: {"title": ..., "x": ..., "y": [...], ...}` says what to
    /// draw
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// The chart, SVG [default: standard output]
    #[arg(short, long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    /// Column of the horizontal axis [default: what the file says, or the first]
    #[arg(long, value_name = "COLUMN")]
    x: Option<String>,
    /// Columns of the vertical axis, with commas [default: what the file says, or all others]
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    y: Vec<String>,
    /// Column for each of whose values a line is drawn
    #[arg(long, value_name = "COLUMN")]
    series: Option<String>,
    /// Title above the chart
    #[arg(long)]
    title: Option<String>,
    /// Logarithmic horizontal axis
    #[arg(long)]
    log_x: bool,
    /// Logarithmic vertical axis
    #[arg(long)]
    log_y: bool,
}

/// Draws.
pub fn plot(args: &PlotArgs) -> Result<ExitCode> {
    let columns = Columns {
        title: args.title.clone(),
        x: args.x.clone(),
        y: args.y.clone(),
        series: args.series.clone(),
        log_x: args.log_x,
        log_y: args.log_y,
        ..Columns::default()
    };
    let svg = perigee_chart::draw(&plot::read(&args.file, columns)?, Place::File).into_string() + "\n";
    match &args.output {
        None => print(&svg),
        Some(file) => {
            fs::write(file, svg).with_context(|| format!("{}: expected a file that can be written", file.display()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
