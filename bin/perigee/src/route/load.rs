// SPDX-License-Identifier: MIT
//! `perigee route load`: many routes at once. The file is read as a whole first, so that mistakes in it are all shown
//! and leave the router as it is; then the router gets it in parts of a request each, every one of which is a single
//! change of its tables.

use super::{change, destinations};
use crate::client::{RouterArg, connect};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use perigee_api::RouteChange;
use perigee_api::answers::LoadedRoutes;
use perigee_api::queries::LoadRoutes;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of a file at most: some five million routes.
const LONGEST: u64 = 256 << 20;
/// Bytes of the routes in a request; the router takes 64 kB.
const PART: usize = 48 * 1024;
/// How many wrong lines are listed; a file of the wrong kind has a million of them.
const LISTED: usize = 20;

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
    refuse_mistakes(&args.file, &text)?;
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
        println!("the first refused is {}:{line}: {why}", name(&args.file));
    }
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The file, as messages name it.
fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// # Errors
/// A line for each mistake.
fn refuse_mistakes(file: &Path, text: &str) -> Result<()> {
    let mut wrong = 0;
    let mut listed = String::new();
    for Wrong { line, why } in routes(text).filter_map(Result::err) {
        wrong += 1;
        if wrong <= LISTED {
            let _ = writeln!(listed, "{}:{line}: {why:#}", name(file)); // a String takes everything
        }
    }
    match wrong {
        0 => Ok(()),
        1 => bail!("{listed}no route was loaded: one line has a mistake"),
        2..=LISTED => bail!("{listed}no route was loaded: {wrong} lines have mistakes"),
        _ => bail!("{listed}no route was loaded: {wrong} lines have mistakes, of which {LISTED} are listed"),
    }
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

/// A line that is no route.
struct Wrong {
    /// Its number, from 1.
    line: usize,
    why: anyhow::Error,
}

/// The routes with the numbers of their lines, from 1.
fn routes(text: &str) -> impl Iterator<Item = Result<(usize, RouteChange), Wrong>> {
    // A byte-order mark, as some editors write it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().enumerate().filter_map(|(at, line)| {
        let words: Vec<&str> = line.split('#').next()?.split_ascii_whitespace().collect();
        let (prefix, words) = words.split_first()?;
        let line = at + 1;
        Some(route(prefix, words).map(|route| (line, route)).map_err(|why| Wrong { line, why }))
    })
}

/// The route of a line.
fn route(prefix: &str, words: &[&str]) -> Result<RouteChange> {
    let route = change(destinations(prefix)?.prefix(words)?, words)?;
    ensure!(
        !route.gateways.is_empty() || route.via.is_some() || route.fate.is_some(),
        "found no gateway behind {prefix}, expected `via ADDRESS` or `recursive ADDRESS`; or `blackhole`, `unreachable` or \
         `prohibit`"
    );
    ensure!(serde_json::to_string(&route)?.len() < PART, "found a route of over {PART} bytes, expected fewer gateways");
    Ok(route)
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
    use perigee_api::answers::RouteFate;

    #[test]
    fn lines_are_read_as_route_add_reads_its_words() {
        let text = "# a comment\n10.1.0.0/16 via 10.0.0.2 dev wan metric 10\n\n2001:db8::/32 recursive fd00::1 # far\n\
                    10.2.0.0/16 via 10.0.0.2 weight 2 via 10.0.0.3\n10.3.0.0/16 blackhole\ndefault via fd00::2\n";
        let read: Vec<(usize, RouteChange)> = routes(text).flatten().collect();
        assert_eq!(read.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4, 5, 6, 7]);
        assert_eq!((read[0].1.dev.as_deref(), read[0].1.metric), (Some("wan"), 10));
        assert!(read[1].1.recursive && read[2].1.gateways.len() == 2);
        assert_eq!((read[3].1.fate, read[3].1.via), (Some(RouteFate::Blackhole), None));
        assert_eq!(read[4].1.prefix.to_string(), "::/0");
    }

    /// The first one alone was said, without its file.
    #[test]
    fn every_mistake_is_said_with_file_and_line() {
        let wrong = [
            ("10.1.0.0/99 via 10.0.0.1", "99"),
            ("10.1.0.0/16", "no gateway"),
            ("10.1.0.0/16 metric 5", "no gateway"),
            ("10.1.0.0/16 over it", "over it"),
            ("10.1.0.0/16 via 10.0.0.1 blackhole", "`blackhole` and a gateway"),
        ];
        let lines: String = wrong.iter().map(|(line, _)| format!("10.0.0.0/16 via 10.9.0.1\n{line}\n")).collect();
        let error = refuse_mistakes(Path::new("some/routes"), &lines).unwrap_err().to_string();
        let said: Vec<&str> = error.lines().collect();
        assert_eq!(said.len(), 6, "{error}");
        for (at, (line, (_, why))) in said.iter().zip(wrong).enumerate() {
            assert!(line.starts_with(&format!("some/routes:{}: ", at * 2 + 2)) && line.contains(why), "{line}");
        }
        assert_eq!(said[5], "no route was loaded: 5 lines have mistakes");
        let error = refuse_mistakes(Path::new("-"), &"x\n".repeat(100)).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 21, "{error}");
        assert!(error.ends_with("100 lines have mistakes, of which 20 are listed"), "{error}");
        assert!(refuse_mistakes(Path::new("-"), "\u{feff}10.0.0.0/16 prohibit\n").is_ok());
    }

    #[test]
    fn every_route_is_in_one_part_and_every_part_fits_a_request() {
        let text: String = (0..5_000).map(|n| format!("10.{}.{}.0/24 via 10.0.0.2\n", n / 250, n % 250)).collect();
        let parts: Vec<_> = parts(routes(&text).flatten()).collect();
        assert!(parts.len() > 3);
        assert_eq!(parts.iter().flatten().map(|(line, _)| *line).collect::<Vec<_>>(), (1..=5_000).collect::<Vec<_>>());
        for part in parts {
            let routes = part.into_iter().map(|(_, route)| route).collect();
            assert!(serde_json::to_string(&LoadRoutes { routes }).unwrap().len() < 64 * 1024);
        }
    }
}
