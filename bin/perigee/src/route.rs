// SPDX-License-Identifier: MIT
//! `perigee route`: static routes of a running router. They last until it ends; `perigee show config` prints what keeps
//! them.

mod load;

use crate::client::RouterArg;
use crate::client::connect;
use anyhow::Result;
use clap::{Args, Subcommand};
use load::LoadArgs;
use perigee_api::answers::RouteFate;
use perigee_api::queries::{AddRoute, DeleteRoute};
use perigee_api::{RouteChange, RouteGateway};
use perigee_net::Prefix;
use std::net::IpAddr;
use std::process::ExitCode;
use std::str::FromStr;

/// `perigee route ...`
#[derive(Subcommand)]
pub enum RouteCommand {
    /// Add a route: `perigee route add 10.1.0.0/16 via 10.0.0.2`, or with several gateways `via 10.0.0.2 weight 2 via
    /// 10.0.0.3`
    Add(RouteArgs),
    /// Add or change routes from a file, one a line: `10.1.0.0/16 via 10.0.0.2 dev wan metric 10`, and whatever else
    /// `route add` takes. A file with a mistake is not loaded at all
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
    /// `via ADDRESS`: the neighbor; `dev INTERFACE`: found by the neighbor's address if not given; `weight N`: its
    /// share of the flows if there are several, each with its own `via`; `recursive ADDRESS` instead of `via`: a
    /// router that other routes lead to; `blackhole`, `unreachable` or `prohibit` instead of a gateway: packets
    /// are dropped; at the end `preference N` and `metric N`
    #[arg(num_args = 1.., value_name = "via ADDRESS dev INTERFACE")]
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
    fn prefix(self, words: &[impl AsRef<str>]) -> Result<Prefix> {
        let address = |word: &dyn AsRef<str>| word.as_ref().parse::<IpAddr>().ok();
        let v6 = || words.iter().filter_map(|word| address(word)).any(|address| address.is_ipv6());
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
    let mut words = words.iter().map(AsRef::as_ref);
    while let Some(word) = words.next() {
        if let Some(fate) = FATES.into_iter().find(|fate| fate.name() == word) {
            anyhow::ensure!(change.fate.is_none(), "found `{word}` behind another fate, expected one of them");
            change.fate = Some(fate);
            continue;
        }
        match (word, words.next(), gateways.last_mut()) {
            ("via" | "recursive", Some(value), _) => {
                let via: IpAddr =
                    value.parse().map_err(|_| anyhow::anyhow!("{word} {value}: expected an IP address"))?;
                gateways.push(RouteGateway { via, dev: None, recursive: word == "recursive", weight: 1 });
            }
            ("dev", Some(value), Some(gateway)) => gateway.dev = Some(value.to_owned()),
            ("weight", Some(value), Some(gateway)) => gateway.weight = number("weight", value)?,
            ("metric", Some(value), _) => change.metric = number("metric", value)?,
            ("preference", Some(value), _) => change.preference = Some(number("preference", value)?),
            (word, value, _) => {
                let value = value.map(|value| format!(" {value}")).unwrap_or_default();
                anyhow::bail!(
                    "found `{word}{value}`, expected `via ADDRESS`, and after it `dev INTERFACE` or `weight N`; or `recursive \
                     ADDRESS`, `blackhole`, `unreachable`, `prohibit`, `preference N` or `metric N`"
                )
            }
        }
    }
    if let (Some(fate), [_, ..]) = (change.fate, &gateways[..]) {
        anyhow::bail!("found `{fate}` and a gateway, expected one of them");
    }
    match &gateways[..] {
        [one] if one.weight == 1 => {
            (change.via, change.dev, change.recursive) = (Some(one.via), one.dev.clone(), one.recursive);
        }
        _ => change.gateways = gateways,
    }
    Ok(change)
}

/// What stands where a gateway would.
const FATES: [RouteFate; 3] = [RouteFate::Blackhole, RouteFate::Unreachable, RouteFate::Prohibit];

fn number<T: FromStr>(what: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| anyhow::anyhow!("{what} {value}: expected a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_leads_to_gateways_or_has_one_fate() {
        let read = |text: &str| change("10.1.0.0/16".parse().unwrap(), &text.split(' ').collect::<Vec<_>>());
        let route = read("prohibit metric 5").unwrap();
        assert_eq!((route.fate, route.metric, route.via), (Some(RouteFate::Prohibit), 5, None));
        for wrong in
            ["blackhole via 10.0.0.2", "via 10.0.0.2 blackhole", "blackhole prohibit", "via", "blackhole metric"]
        {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.starts_with("found `") && error.contains("expected"), "{wrong}: {error}");
        }
    }

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
