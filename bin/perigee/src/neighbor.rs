// SPDX-License-Identifier: MIT
//! `perigee neighbor`: neighbors of a running router.

use crate::client::{RouterArg, connect};
use anyhow::Result;
use clap::{Args, Subcommand};
use perigee_api::queries::FlushNeighbors;
use std::net::IpAddr;
use std::process::ExitCode;

/// `perigee neighbor ...`
#[derive(Subcommand)]
pub enum NeighborCommand {
    /// Forget neighbors, but for static ones: all, or `perigee neighbor flush --interface lan 10.0.2.2`. Gateways are
    /// asked for again at once, the others when a packet needs them
    Flush(FlushArgs),
}

/// Which neighbors.
#[derive(Args)]
pub struct FlushArgs {
    /// Only this one
    address: Option<IpAddr>,
    /// Only those on this interface
    #[arg(long)]
    interface: Option<String>,
    #[command(flatten)]
    router: RouterArg,
}

pub fn neighbor(NeighborCommand::Flush(args): &NeighborCommand) -> Result<ExitCode> {
    let query = FlushNeighbors { dev: args.interface.clone(), address: args.address };
    println!("{}", connect(&args.router)?.ask(&query)?.message);
    Ok(ExitCode::SUCCESS)
}
