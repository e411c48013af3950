// SPDX-License-Identifier: MIT
//! `perigee predict verify`.

use anyhow::{Result, bail};
use clap::Args;
use perigee_predict::Profile;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `perigee predict verify`.
#[derive(Args)]
pub struct VerifyArgs {
    /// The profile
    #[arg(value_name = "PROFILE.json")]
    profile: PathBuf,
    /// Measured points
    #[arg(value_name = "POINTS.csv")]
    points: PathBuf,
}

/// Compares.
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    Profile::load(&args.profile)?;
    bail!("{}: found points, expected a perigee that can read them: that comes next", args.points.display())
}
