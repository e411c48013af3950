// SPDX-License-Identifier: MIT
//! `perigee predict`: profiles from measured points, and what they say about other hardware.

mod fit;
mod verify;

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// What to do.
#[derive(Subcommand)]
pub enum PredictCommand {
    /// Make a profile from measured points
    Fit(fit::FitArgs),
    /// Compare a profile with measured points: predicted, measured, error
    Verify(verify::VerifyArgs),
}

/// Does it.
pub fn predict(command: &PredictCommand) -> Result<ExitCode> {
    match command {
        PredictCommand::Fit(args) => fit::fit(args),
        PredictCommand::Verify(args) => verify::verify(args),
    }
}
