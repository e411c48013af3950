// SPDX-License-Identifier: MIT
//! `perigee route`: static routes of a running router. They last until it ends; `perigee show config` prints what keeps
//! them.

use crate::cli::RouterArg;
use crate::client::connect;
use anyhow::Result;
use clap::{Args, Subcommand};
use perigee_control::answers::Outcome;
use perigee_control::api::RouteChange;
use std::net::IpAddr;
use std::process::ExitCode;

/// `perigee route ...`
#[derive(Subcommand)]
pub enum RouteCommand {
    /// Add a route: `perigee route add 10.1.0.0/16 via 10.0.0.2`
    Add(RouteArgs),
    /// Delete a static route: `perigee route del 10.1.0.0/16 via 10.0.0.2`
    Del(RouteArgs),
}

/// A route in words.
#[derive(Args)]
pub struct RouteArgs {
    /// The destinations, such as 10.1.0.0/16 or 2001:db8::/32
    prefix: ipnet::IpNet,
    /// `via ADDRESS`: the neighbor; `dev INTERFACE`: found by the neighbor's address if not given; `metric N`
    #[arg(num_args = 2..=6, value_names = ["via ADDRESS", "dev INTERFACE"])]
    words: Vec<String>,
    #[command(flatten)]
    router: RouterArg,
}

pub fn route(command: &RouteCommand) -> Result<ExitCode> {
    let (RouteCommand::Add(args) | RouteCommand::Del(args)) = command;
    let change = change(args)?;
    let client = connect(&args.router)?;
    let outcome: Outcome = match command {
        RouteCommand::Add(_) => client.post("/v1/routes", &change)?,
        RouteCommand::Del(_) => client.delete("/v1/routes", &change)?,
    };
    println!("{}", outcome.message);
    Ok(ExitCode::SUCCESS)
}

fn change(args: &RouteArgs) -> Result<RouteChange> {
    let mut change = RouteChange { prefix: args.prefix, via: None, dev: None, metric: 0 };
    for pair in args.words.chunks(2) {
        match pair {
            [word, value] if word == "via" => {
                let address: IpAddr =
                    value.parse().map_err(|_| anyhow::anyhow!("via {value}: expected an IP address"))?;
                change.via = Some(address);
            }
            [word, value] if word == "dev" => change.dev = Some(value.clone()),
            [word, value] if word == "metric" => {
                change.metric = value.parse().map_err(|_| anyhow::anyhow!("metric {value}: expected a number"))?;
            }
            other => {
                anyhow::bail!("found `{}`, expected `via ADDRESS`, `dev INTERFACE` or `metric N`", other.join(" "))
            }
        }
    }
    Ok(change)
}
