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
    /// The destinations, such as 10.1.0.0/16 or 2001:db8::/32; `default`: all of the gateway's family
    #[arg(value_name = "PREFIX", value_parser = destinations)]
    prefix: Destinations,
    /// `via ADDRESS`: the neighbor; `dev INTERFACE`: found by the neighbor's address if not given; `weight N`: its share of
    /// the flows if there are several, each with its own `via`; `recursive ADDRESS` instead of `via`: a router that other
    /// routes lead to; at the end `preference N` and `metric N`
    #[arg(num_args = 2.., value_names = ["via ADDRESS", "dev INTERFACE"])]
    words: Vec<String>,
    #[command(flatten)]
    router: RouterArg,
}

/// The destinations of a route, as they are given.
#[derive(Clone, Copy, Debug)]
enum Destinations {
    These(Prefix),
    /// All of the family that the gateway is of.
    All,
}

fn destinations(text: &str) -> Result<Destinations, perigee_net::PrefixError> {
    if text == "default" { Ok(Destinations::All) } else { Prefix::around(text).map(Destinations::These) }
}

impl Destinations {
    fn prefix(self, words: &[String]) -> Result<Prefix> {
        let v6 = || words.iter().filter_map(|word| word.parse::<IpAddr>().ok()).any(|address| address.is_ipv6());
        Ok(match self {
            Destinations::These(prefix) => prefix,
            Destinations::All if v6() => "::/0".parse()?,
            Destinations::All => "0.0.0.0/0".parse()?,
        })
    }
}

pub fn route(command: &RouteCommand) -> Result<ExitCode> {
    let outcome = match command {
        RouteCommand::Load(args) => return load::load(args),
        RouteCommand::Add(args) => connect(&args.router)?.ask(&AddRoute(args.change()?))?,
        RouteCommand::Del(args) => connect(&args.router)?.ask(&DeleteRoute(args.change()?))?,
    };
    println!("{}", outcome.message);
    Ok(ExitCode::SUCCESS)
}

impl RouteArgs {
    fn change(&self) -> Result<RouteChange> {
        change(self.prefix.prefix(&self.words)?, &self.words)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_is_of_the_gateways_family() {
        let prefix = |text: &str, via: &str| {
            let words = ["via", via].map(str::to_owned);
            destinations(text).unwrap().prefix(&words).unwrap().to_string()
        };
        assert_eq!((prefix("default", "10.0.1.2"), prefix("default", "fe80::2")), ("0.0.0.0/0".into(), "::/0".into()));
        assert_eq!(prefix("10.1.2.3/16", "10.0.1.2"), "10.1.0.0/16");
        assert!(destinations("defaults").is_err());
    }
}
