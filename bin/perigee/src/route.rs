// SPDX-License-Identifier: MIT
//! `perigee route`: static routes of a running router. They last until it ends; `perigee show config` prints what keeps
//! them.

use crate::client::RouterArg;
use crate::client::connect;
use anyhow::Result;
use clap::{Args, Subcommand};
use perigee_api::queries::{AddRoute, DeleteRoute};
use perigee_api::{RouteChange, RouteGateway};
use perigee_net::Prefix;
use std::net::IpAddr;
use std::process::ExitCode;
use std::str::FromStr;

/// `perigee route ...`
#[derive(Subcommand)]
pub enum RouteCommand {
    /// Add a route: `perigee route add 10.1.0.0/16 via 10.0.0.2`, or with several gateways `via 10.0.0.2 weight 2 via 10.0.0.3`
    Add(RouteArgs),
    /// Delete a static route: `perigee route del 10.1.0.0/16 via 10.0.0.2`
    Del(RouteArgs),
}

/// A route as it is given on the command line.
#[derive(Args)]
pub struct RouteArgs {
    /// The destinations, such as 10.1.0.0/16 or 2001:db8::/32
    #[arg(value_parser = Prefix::around)]
    prefix: Prefix,
    /// `via ADDRESS`: the neighbor; `dev INTERFACE`: found by the neighbor's address if not given; `weight N`: its share of
    /// the flows if there are several, each with its own `via`; `recursive ADDRESS` instead of `via`: a router that other
    /// routes lead to; at the end `preference N` and `metric N`
    #[arg(num_args = 2.., value_names = ["via ADDRESS", "dev INTERFACE"])]
    words: Vec<String>,
    #[command(flatten)]
    router: RouterArg,
}

pub fn route(command: &RouteCommand) -> Result<ExitCode> {
    let (RouteCommand::Add(args) | RouteCommand::Del(args)) = command;
    let change = change(args)?;
    let client = connect(&args.router)?;
    let outcome = match command {
        RouteCommand::Add(_) => client.ask(&AddRoute(change))?,
        RouteCommand::Del(_) => client.ask(&DeleteRoute(change))?,
    };
    println!("{}", outcome.message);
    Ok(ExitCode::SUCCESS)
}

fn change(args: &RouteArgs) -> Result<RouteChange> {
    let mut change = RouteChange::of(args.prefix);
    let mut gateways: Vec<RouteGateway> = Vec::new();
    for pair in args.words.chunks(2) {
        match (pair, gateways.last_mut()) {
            ([word, value], _) if word == "via" || word == "recursive" => {
                let via: IpAddr =
                    value.parse().map_err(|_| anyhow::anyhow!("{word} {value}: expected an IP address"))?;
                gateways.push(RouteGateway { via, dev: None, recursive: word == "recursive", weight: 1 });
            }
            ([word, value], Some(gateway)) if word == "dev" => gateway.dev = Some(value.clone()),
            ([word, value], Some(gateway)) if word == "weight" => gateway.weight = number("weight", value)?,
            ([word, value], _) if word == "metric" => change.metric = number("metric", value)?,
            ([word, value], _) if word == "preference" => change.preference = Some(number("preference", value)?),
            (other, _) => {
                anyhow::bail!(
                    "found `{}`, expected `via ADDRESS`, and after it `dev INTERFACE` or `weight N`; or `recursive ADDRESS`, \
                     `preference N` or `metric N`",
                    other.join(" ")
                )
            }
        }
    }
    match &gateways[..] {
        [one] if one.weight == 1 => {
            (change.via, change.dev, change.recursive) = (Some(one.via), one.dev.clone(), one.recursive);
        }
        _ => change.gateways = gateways,
    }
    Ok(change)
}

fn number<T: FromStr>(what: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| anyhow::anyhow!("{what} {value}: expected a number"))
}
