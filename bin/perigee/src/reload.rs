// SPDX-License-Identifier: MIT
//! `perigee reload`: loads configuration and script again, while packets flow.

use crate::client::RouterArg;
use crate::client::connect;
use anyhow::Result;
use clap::Args;
use perigee_api::client::ApiClient;
use perigee_api::queries::Reload;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `perigee reload`.
#[derive(Args)]
pub struct ReloadArgs {
    /// A fast path script instead of the configured one
    script: Option<PathBuf>,
    #[command(flatten)]
    router: RouterArg,
}

pub fn reload(args: &ReloadArgs) -> Result<ExitCode> {
    // The router may run in another folder.
    let script = args.script.as_deref().map(std::path::absolute).transpose()?;
    println!("{}", reload_at(&connect(&args.router)?, script.as_deref())?);
    Ok(ExitCode::SUCCESS)
}

/// Asks a router to reload; returns its answer.
pub fn reload_at(client: &ApiClient, script: Option<&Path>) -> Result<String> {
    Ok(client.ask(&Reload { script: script.map(Path::to_owned) })?.message)
}
