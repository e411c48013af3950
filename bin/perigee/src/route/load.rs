// SPDX-License-Identifier: MIT
//! `perigee route load`: many routes at once. The file is read as a whole first, so that a mistake in it leaves the router as it is;
//! then the router gets it in parts of a request each, every one of which is a single change of its tables.

use super::change;
use crate::client::{RouterArg, connect};
use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Args;
use perigee_api::RouteChange;
use perigee_api::answers::LoadedRoutes;
use perigee_api::queries::LoadRoutes;
use perigee_net::Prefix;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of a file at most: some five million routes.
const LONGEST: u64 = 256 << 20;
/// Bytes of the routes in a request; the router takes 64 kB.
const PART: usize = 48 * 1024;

/// `perigee route load FILE`
#[derive(Args)]
pub struct LoadArgs {
    /// The file; - for standard input. What follows a # is a comment
    file: PathBuf,
    #[command(flatten)]
    router: RouterArg,
}

pub fn load(args: &LoadArgs) -> Result<ExitCode> {
    let text = read(&args.file)?;
    // Twice, as a million of them take more memory than their text.
    for route in routes(&text) {
        route?;
    }
    let client = connect(&args.router)?;
    let (mut sum, mut first) = (LoadedRoutes::default(), None);
    for part in parts(routes(&text).flatten()) {
        let (lines, routes): (Vec<usize>, Vec<RouteChange>) = part.into_iter().unzip();
        let done = client.ask(&LoadRoutes { routes }).with_context(|| {
            let LoadedRoutes { added, changed, .. } = sum;
            let line = lines.first().copied().unwrap_or(0);
            format!(
                "stopped before line {line}, with {added} added and {changed} changed; load the file again to go on"
            )
        })?;
        sum.added += done.added;
        sum.changed += done.changed;
        sum.unchanged += done.unchanged;
        sum.refused += done.refused;
        let refused = done.first_refused.and_then(|refused| Some((*lines.get(refused.at as usize)?, refused.why)));
        first = first.or(refused);
    }
    let LoadedRoutes { added, changed, unchanged, refused, .. } = sum;
    println!("{added} added, {changed} changed, {unchanged} as they were, {refused} refused");
    if let Some((line, why)) = first {
        println!("the first refused is line {line}: {why}");
    }
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(file: &Path) -> Result<String> {
    let mut text = String::new();
    let mut reader: Box<dyn Read> = match file.to_str() {
        Some("-") => Box::new(stdin()),
        _ => Box::new(File::open(file).with_context(|| format!("cannot open {}", file.display()))?),
    };
    let read = reader.by_ref().take(LONGEST + 1).read_to_string(&mut text);
    read.with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(text.len() as u64 <= LONGEST, "{} has over {} MB; load it in parts", file.display(), LONGEST >> 20);
    Ok(text)
}

/// The routes with the numbers of their lines, from 1.
fn routes(text: &str) -> impl Iterator<Item = Result<(usize, RouteChange)>> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let prefix = words.next()?;
        let route = || {
            let prefix = Prefix::around(prefix).map_err(|error| anyhow!("{error}"))?;
            let words: Vec<&str> = words.collect();
            ensure!(words.len() > 1, "found no gateway behind {prefix}, expected `via ADDRESS` or `recursive ADDRESS`");
            let route = change(prefix, &words)?;
            ensure!(
                !route.gateways.is_empty() || route.via.is_some(),
                "found no gateway, expected `via ADDRESS` or `recursive ADDRESS`"
            );
            ensure!(
                serde_json::to_string(&route)?.len() < PART,
                "found a route of over {PART} bytes; it has too many gateways"
            );
            Ok(route)
        };
        let route = route().with_context(|| format!("line {} has a mistake; no route was loaded", at + 1));
        Some(route.map(|route| (at + 1, route)))
    })
}

/// As many as fit a request, again and again.
fn parts(routes: impl Iterator<Item = (usize, RouteChange)>) -> impl Iterator<Item = Vec<(usize, RouteChange)>> {
    let mut routes = routes.peekable();
    std::iter::from_fn(move || {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while let Some((_, route)) = routes.peek() {
            bytes += serde_json::to_string(route).map_or(0, |text| text.len() + 1);
            if !part.is_empty() && bytes > PART {
                break;
            }
            part.extend(routes.next());
        }
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_route_add_reads_its_words() {
        let text = "# a comment\n10.1.0.0/16 via 10.0.0.2 dev wan metric 10\n\n2001:db8::/32 recursive fd00::1 # far\n\
                    10.2.0.0/16 via 10.0.0.2 weight 2 via 10.0.0.3\n";
        let read: Vec<(usize, RouteChange)> = routes(text).map(Result::unwrap).collect();
        assert_eq!(read.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4, 5]);
        assert_eq!((read[0].1.dev.as_deref(), read[0].1.metric), (Some("wan"), 10));
        assert!(read[1].1.recursive && read[2].1.gateways.len() == 2);
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        for (line, told) in [
            ("10.1.0.0/99 via 10.0.0.1", "99"),
            ("10.1.0.0/16", "no gateway"),
            ("10.1.0.0/16 metric 5", "no gateway"),
            ("10.1.0.0/16 over it", "over it"),
        ] {
            let text = format!("10.0.0.0/16 via 10.9.0.1\n{line}\n");
            let error = format!("{:#}", routes(&text).find_map(Result::err).unwrap());
            assert!(error.starts_with("line 2 has a mistake; no route was loaded") && error.contains(told), "{error}");
        }
    }

    #[test]
    fn every_route_is_in_one_part_and_every_part_fits_a_request() {
        let text: String = (0..5_000).map(|n| format!("10.{}.{}.0/24 via 10.0.0.2\n", n / 250, n % 250)).collect();
        let parts: Vec<_> = parts(routes(&text).map(Result::unwrap)).collect();
        assert!(parts.len() > 3);
        assert_eq!(parts.iter().flatten().map(|(line, _)| *line).collect::<Vec<_>>(), (1..=5_000).collect::<Vec<_>>());
        for part in parts {
            let routes = part.into_iter().map(|(_, route)| route).collect();
            assert!(serde_json::to_string(&LoadRoutes { routes }).unwrap().len() < 64 * 1024);
        }
    }
}
