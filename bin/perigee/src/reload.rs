// SPDX-License-Identifier: MIT
//! `perigee reload`: configuration and script anew, while packets flow.

use crate::client::RouterArg;
use crate::client::connect;
use anyhow::Result;
use clap::Args;
use perigee_api::answers::Outcome;
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

/// Asks a router to reload; what it says.
pub fn reload_at(client: &perigee_api::client::ApiClient, script: Option<&Path>) -> Result<String> {
    let outcome: Outcome = client.post("/v1/reload", &serde_json::json!({ "script": script }))?;
    Ok(outcome.message)
}
