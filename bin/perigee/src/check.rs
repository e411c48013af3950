// SPDX-License-Identifier: MIT
//! `perigee check`: is a configuration right? Its script and routes file are read, too.

use anyhow::{Result, bail};
use clap::Args;
use perigee_control::config::{Config, ConfigError};
use perigee_lua::Script;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `perigee check`.
#[derive(Args)]
pub struct CheckArgs {
    /// The configuration, in TOML
    file: PathBuf,
}

/// Loads a configuration, or prints every mistake in it.
pub fn load(file: &std::path::Path) -> Result<Config> {
    match Config::load(file) {
        Ok(config) => {
            config.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            Ok(config)
        }
        Err(error @ ConfigError::Mistakes(_)) => {
            eprintln!("{error}");
            bail!("{} has mistakes; nothing was started", file.display())
        }
        Err(error) => bail!("{error}"),
    }
}

pub fn check(args: &CheckArgs) -> Result<ExitCode> {
    let config = load(&args.file)?;
    if let Some(script) = &config.router.script {
        // Whether it compiles is known without a router; whether it finds its ports is not.
        Script::read(script)?.compile()?;
    }
    println!(
        "{}: {} ports, {} interfaces, {} routes, {} filters, {} workers",
        args.file.display(),
        config.ports.len(),
        config.interfaces.len(),
        config.all_routes().count(),
        config.filters.len(),
        config.workers.len()
    );
    Ok(ExitCode::SUCCESS)
}
