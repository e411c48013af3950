// SPDX-License-Identifier: MIT
//! `perigee demo`.
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// Arguments.
#[derive(Args)]
pub struct DemoArgs {}
pub fn demo(_: &DemoArgs) -> Result<ExitCode> {
    todo!()
}
