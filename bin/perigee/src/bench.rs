// SPDX-License-Identifier: MIT
//! `perigee bench`.
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// What.
#[derive(Subcommand)]
pub enum BenchCommand {
    /// x
    Forward,
}
pub fn bench(_: &BenchCommand) -> Result<ExitCode> {
    todo!()
}
