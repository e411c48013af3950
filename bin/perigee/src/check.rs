// SPDX-License-Identifier: MIT
//! `perigee check`: is a configuration right? Its script and routes file are read, too.

use crate::scripts;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use perigee_config::{Config, ConfigError, Device, Machine};
use perigee_router::Lookups;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `perigee check`.
#[derive(Args)]
pub struct CheckArgs {
    /// The configuration, in TOML
    file: PathBuf,
}

/// All lookup structures that this program has.
pub fn lookups() -> Lookups {
    Lookups::default().and(perigee_dpdk::fib::IPV4, perigee_dpdk::fib::IPV6)
}

/// What configurations are checked against: this machine and this program.
pub fn machine() -> Machine {
    Machine { fib: lookups().names(), ..Machine::here() }
}

/// Loads a configuration, or prints every mistake in it.
pub fn load(file: &std::path::Path, machine: &Machine) -> Result<Config> {
    match Config::load_on(file, machine) {
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
    let config = load(&args.file, &machine())?;
    for port in &config.ports {
        if let Device::Dpdk(device) = &port.device {
            perigee_dpdk::check_captures(device).with_context(|| format!("port {} cannot be opened", port.name))?;
        }
    }
    if config.router.script.is_some() {
        // Without a router one can find out whether it compiles, but not whether it finds its ports.
        scripts::read(&config)?.compile()?;
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
