// SPDX-License-Identifier: MIT
//! The routes file, one route a line:
//!
//! ```text
//! # prefix      via address  dev interface  [metric number]
//! 10.1.0.0/16   via 10.0.0.2 dev wan
//! 2001:db8::/32 via fe80::2  dev wan        metric 20
//! 192.0.2.0/24  blackhole    # or unreachable, or prohibit
//! ```
//!
//! `dev` may be left out where one interface's network covers the address. A file with one wrong line is not used
//! at all. A million lines take well under a second: nothing is allocated per line.

use std::net::IpAddr;
use std::ops::Range;

use super::mistake::{ConfigError, Mistakes};
use super::model::{Interface, Route, RouteTo};
use super::routing::{Networks, a_prefix};

/// How many wrong lines are listed; a file of the wrong kind has a million of them.
const LISTED: usize = 20;

/// The routes in `text`, the contents of the file `name`, over `interfaces`.
///
/// # Errors
/// The first 20 mistakes.
pub fn parse_routes(name: &str, text: &str, interfaces: &[Interface]) -> Result<Vec<Route>, ConfigError> {
    let mistakes = Mistakes::new(name, text);
    let mut reader = LineReader { networks: Networks::new(interfaces, true), last: None };
    let mut routes = Vec::with_capacity(text.len() / 40);
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        match reader.line(line) {
            Ok(route) => routes.extend(route),
            Err(Wrong { span, message }) => {
                mistakes.add(&(start + span.start..start + span.end), message);
                if mistakes.count() == LISTED {
                    break;
                }
            }
        }
        start += line.len();
    }
    match mistakes.count() {
        0 => Ok(routes),
        _ => Err(ConfigError::Mistakes(mistakes.into_parts().0)),
    }
}

/// A mistake at bytes `span` of a line.
struct Wrong {
    span: Range<usize>,
    message: String,
}

struct LineReader<'c> {
    networks: Networks<'c>,
    /// The last gateway that was resolved; runs of lines share theirs.
    last: Option<((IpAddr, Option<u16>), u16)>,
}

impl LineReader<'_> {
    fn line(&mut self, line: &str) -> Result<Option<Route>, Wrong> {
        let code = line.split('#').next().unwrap_or_default();
        let mut words = Words { line, rest: code.split_ascii_whitespace() };
        let Some(first) = words.rest.next() else {
            return Ok(None);
        };
        let prefix = a_prefix(first).map_err(|why| {
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            words.wrong(first, format!("found {first:?}{why}, expected a prefix, such as 10.0.0.0/8"))
        })?;
        let to = match words.next("via ADDRESS, blackhole, unreachable or prohibit")? {
            "blackhole" => RouteTo::Blackhole,
            "unreachable" => RouteTo::Unreachable,
            "prohibit" => RouteTo::Prohibit,
            "via" => {
                let text = words.next("the address of a neighbor")?;
                let address = text.parse().ok().filter(|a: &IpAddr| a.is_ipv4() == prefix.addr().is_ipv4());
                let address = address.ok_or_else(|| {
                    let family = if prefix.addr().is_ipv4() { "IPv4" } else { "IPv6" };
                    words.wrong(text, format!("found {text:?}, expected an {family} address"))
                })?;
                return self.via(prefix, address, text, words).map(Some);
            }
            other => {
                let expected = "via, blackhole, unreachable or prohibit";
                return Err(words.wrong(other, format!("found {other:?}, expected {expected}")));
            }
        };
        let metric = words.metric()?;
        words.end()?;
        Ok(Some(Route { prefix, to, metric }))
    }

    fn via(&mut self, prefix: ipnet::IpNet, address: IpAddr, text: &str, mut words: Words) -> Result<Route, Wrong> {
        let mut device = None;
        if words.skip("dev") {
            let name = words.next("the name of an interface")?;
            let index = self
                .networks
                .named(name)
                .map_err(|expected| words.wrong(name, format!("found the interface {name:?}, expected {expected}")))?;
            device = Some(index);
        }
        let interface = match self.last {
            Some((key, interface)) if key == (address, device) => interface,
            _ => self
                .networks
                .reach(address, device)
                .map_err(|rest| words.wrong(text, format!("found {address}{rest}")))?,
        };
        self.last = Some(((address, device), interface));
        let metric = words.metric()?;
        words.end()?;
        Ok(Route { prefix, to: RouteTo::Via { address, interface }, metric })
    }
}

/// The words of a line that are left.
struct Words<'l> {
    line: &'l str,
    rest: std::str::SplitAsciiWhitespace<'l>,
}

impl<'l> Words<'l> {
    /// The next word, or a mistake at the line's end.
    fn next(&mut self, expected: &str) -> Result<&'l str, Wrong> {
        self.rest.next().ok_or_else(|| {
            let end = self.line.split('#').next().unwrap_or_default().trim_end().len();
            Wrong { span: end..end, message: format!("found the end of the line, expected {expected}") }
        })
    }

    fn wrong(&self, word: &str, message: String) -> Wrong {
        let start = word.as_ptr() as usize - self.line.as_ptr() as usize;
        Wrong { span: start..start + word.len(), message }
    }

    /// Takes the next word if it is `word`.
    fn skip(&mut self, word: &str) -> bool {
        let mut ahead = self.rest.clone();
        let there = ahead.next() == Some(word);
        if there {
            self.rest = ahead;
        }
        there
    }

    fn metric(&mut self) -> Result<u32, Wrong> {
        if !self.skip("metric") {
            return Ok(0);
        }
        let text = self.next("a metric")?;
        text.parse().map_err(|_| self.wrong(text, format!("found {text:?}, expected a metric from 0 to {}", u32::MAX)))
    }

    fn end(&mut self) -> Result<(), Wrong> {
        match self.rest.next() {
            None => Ok(()),
            Some(word) => Err(self.wrong(word, format!("found {word:?}, expected the end of the line"))),
        }
    }
}
