// SPDX-License-Identifier: MIT
//! `perigee reload`: loads configuration and script again, while packets flow.

use crate::client::RouterArg;
use crate::client::connect;
use anyhow::{Result, anyhow};
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
    println!("{}", reload_at(&connect(&args.router)?, args.script.as_deref())?);
    Ok(ExitCode::SUCCESS)
}

/// Asks a router to reload, by a script that is read here if one is given: the router may be a user who may not.
/// Returns its answer.
pub fn reload_at(client: &ApiClient, script: Option<&Path>) -> Result<String> {
    let text = script.map(read).transpose()?;
    // The router may run in another folder.
    let script = script.map(std::path::absolute).transpose()?;
    Ok(client.ask(&Reload { script, text })?.message)
}

/// The longest script that is sent, in bytes: half of the longest request, which has room for two of each.
const LONGEST: u64 = 4 << 20;

fn read(script: &Path) -> Result<String> {
    let name = script.display();
    let text = perigee_file::read(script, LONGEST).map_err(|error| anyhow!("cannot read {name}: {error}"))?;
    String::from_utf8(text).map_err(|_| anyhow!("{name} is no text, expected a Lua script"))
}
