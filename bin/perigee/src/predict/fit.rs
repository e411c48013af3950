// SPDX-License-Identifier: MIT
//! `perigee predict fit`.

use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `perigee predict fit`.
#[derive(Args)]
pub struct FitArgs {
    /// Measured points
    #[arg(value_name = "POINTS.csv")]
    points: PathBuf,
}

/// Fits.
pub fn fit(args: &FitArgs) -> Result<ExitCode> {
    bail!("{}: found points, expected a perigee that can fit: that comes with its next commits", args.points.display())
}
