// SPDX-License-Identifier: MIT
//! `perigee route`: static routes of a running router. They last until it ends; `perigee show config` prints what keeps
//! them.

mod load;

use crate::client::RouterArg;
use crate::client::connect;
use anyhow::Result;
use clap::{Args, Subcommand};
use load::LoadArgs;
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
    /// Add or change routes from a file, one a line: `10.1.0.0/16 via 10.0.0.2 dev wan metric 10`, and whatever else `route add` takes
    Load(LoadArgs),
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
    let outcome = match command {
        RouteCommand::Load(args) => return load::load(args),
        RouteCommand::Add(args) => connect(&args.router)?.ask(&AddRoute(change(args.prefix, &args.words)?))?,
        RouteCommand::Del(args) => connect(&args.router)?.ask(&DeleteRoute(change(args.prefix, &args.words)?))?,
    };
    println!("{}", outcome.message);
    Ok(ExitCode::SUCCESS)
}

/// The change that the words behind a prefix ask for.
fn change(prefix: Prefix, words: &[impl AsRef<str>]) -> Result<RouteChange> {
    let mut change = RouteChange::of(prefix);
    let mut gateways: Vec<RouteGateway> = Vec::new();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    for pair in words.chunks(2) {
        match (pair, gateways.last_mut()) {
            ([word, value], _) if *word == "via" || *word == "recursive" => {
                let via: IpAddr =
                    value.parse().map_err(|_| anyhow::anyhow!("{word} {value}: expected an IP address"))?;
                gateways.push(RouteGateway { via, dev: None, recursive: *word == "recursive", weight: 1 });
            }
            ([word, value], Some(gateway)) if *word == "dev" => gateway.dev = Some((*value).to_owned()),
            ([word, value], Some(gateway)) if *word == "weight" => gateway.weight = number("weight", value)?,
            ([word, value], _) if *word == "metric" => change.metric = number("metric", value)?,
            ([word, value], _) if *word == "preference" => change.preference = Some(number("preference", value)?),
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
