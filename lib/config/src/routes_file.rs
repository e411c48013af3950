// SPDX-License-Identifier: MIT
//! The routes file: one route a line, see [`FORMAT`]. A million lines take well under a second: nothing is allocated
//! for a line with one gateway.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::str::FromStr;

use perigee_net::{InterfaceId, Member, Multipath, Prefix, Route, RouteSource, RouteTarget};

use super::interfaces::Interface;
use super::kind::{optional, path};
use super::mistake::{ConfigError, Mistakes};
use super::networks::{Networks, a_prefix, far};
use super::routes::{leads_on, to_one};
use super::section::section;

section! {
    /// Keys that belong to no table.
    pub(crate) struct FileKeys(context) keys {
        /// A file with further static routes, up to millions: see the end of this page.
        routes_file: Option<PathBuf>, optional(path("the path of a file with routes", context.folder)),
            default None => "none", live;
    }
}

/// The format of the routes file.
pub(crate) const FORMAT: &str = "\
One route a line:

```text
# prefix      via address  dev interface  [preference number] [metric number]
10.1.0.0/16   via 10.0.0.2 dev wan
2001:db8::/32 via fe80::2  dev wan        metric 20
10.2.0.0/16   via 10.0.0.2 weight 2 via 10.0.1.2   # two thirds and one third of the flows
10.3.0.0/16   recursive 10.2.0.1          # a gateway that other routes lead to
192.0.2.0/24  blackhole    # or unreachable, or prohibit
```

`dev` may be left out where one interface's network covers the address. A file with one wrong line is not used at all.
";

/// How many wrong lines are listed; a file of the wrong kind has a million of them.
const LISTED: usize = 20;

/// The routes in `text`, the contents of the file `name`, over `interfaces`.
///
/// # Errors
/// The first 20 mistakes.
pub fn parse_routes(name: &str, text: &str, interfaces: &[Interface]) -> Result<Vec<(Prefix, Route)>, ConfigError> {
    let mistakes = Mistakes::new(name, text);
    let mut reader = LineReader { networks: Networks::new(interfaces, true), last: None };
    let mut routes = Vec::with_capacity(text.len() / 40);
    // A byte-order mark, as some editors write it.
    let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut start = text.len() - rest.len();
    for line in rest.split_inclusive('\n') {
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
    last: Option<((IpAddr, Option<InterfaceId>), InterfaceId)>,
}

impl LineReader<'_> {
    fn line(&mut self, line: &str) -> Result<Option<(Prefix, Route)>, Wrong> {
        let code = line.split('#').next().unwrap_or_default();
        let mut words = Words { line, rest: code.split_ascii_whitespace() };
        let Some(first) = words.rest.next() else {
            return Ok(None);
        };
        let prefix = a_prefix(first).map_err(|why| {
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            words.wrong(first, format!("found {first:?}{why}, expected a prefix, such as 10.0.0.0/8"))
        })?;
        let target = match words.next("via ADDRESS, recursive ADDRESS, blackhole, unreachable or prohibit")? {
            "blackhole" => RouteTarget::Blackhole,
            "unreachable" => RouteTarget::Unreachable,
            "prohibit" => RouteTarget::Prohibit,
            word @ ("via" | "recursive") => self.gateways(prefix, word, &mut words)?,
            other => {
                let expected = "via, recursive, blackhole, unreachable or prohibit";
                return Err(words.wrong(other, format!("found {other:?}, expected {expected}")));
            }
        };
        if let Some(why) = prefix.never_forwarded().filter(|_| leads_on(&target)) {
            let message = format!("found {prefix}, expected a prefix that packets are forwarded to: {why}");
            return Err(words.wrong(first, message));
        }
        let preference = words.number("preference", "a preference", RouteSource::Static.preference(), 0..=u8::MAX)?;
        let metric = words.number("metric", "a metric", 0, 0..=u32::MAX)?;
        words.end()?;
        Ok(Some((prefix, Route { source: RouteSource::Static, preference, metric, target, mtu: 0, protocol: None })))
    }

    /// All gateways of a route; `word` begins the first.
    fn gateways<'l>(&mut self, prefix: Prefix, word: &'l str, words: &mut Words<'l>) -> Result<RouteTarget, Wrong> {
        let first = self.gateway(prefix, word, words)?;
        let mut all = Vec::new();
        while let Some(word) = ["via", "recursive"].into_iter().find(|word| words.skip(word)) {
            if all.is_empty() {
                all.push(first);
            }
            all.push(self.gateway(prefix, word, words)?);
            if all.len() > Multipath::MAX_MEMBERS {
                break;
            }
        }
        let target = if all.is_empty() { to_one(first) } else { Multipath::new(&all).ok().map(RouteTarget::Multipath) };
        target.ok_or_else(|| {
            const MOST: usize = Multipath::MAX_MEMBERS;
            let end = words.line.trim_end().len();
            Wrong { span: 0..end, message: format!("found over {MOST} gateways, expected 1 to {MOST}") }
        })
    }

    fn gateway(&mut self, prefix: Prefix, word: &str, words: &mut Words) -> Result<Member, Wrong> {
        let text = words.next("the address of a neighbor")?;
        let address = text.parse().ok().filter(|a: &IpAddr| a.is_ipv4() == prefix.addr().is_ipv4());
        let address = address.ok_or_else(|| {
            let family = if prefix.addr().is_ipv4() { "IPv4" } else { "IPv6" };
            words.wrong(text, format!("found {text:?}, expected an {family} address"))
        })?;
        let interface = match word {
            "via" => Some(self.neighbor(address, text, words)?),
            _ => {
                far(address).map_err(|rest| words.wrong(text, format!("found {address}{rest}")))?;
                None
            }
        };
        let weight = words.number("weight", "a weight", 1, 1..=Multipath::MAX_WEIGHT)?;
        Ok(Member { address: Some(address), interface, weight })
    }

    /// The interface that a neighbor is on.
    fn neighbor(&mut self, address: IpAddr, text: &str, words: &mut Words) -> Result<InterfaceId, Wrong> {
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
        Ok(interface)
    }
}

/// The remaining words of a line.
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

    /// The number after the word `name`, if that is next; `what` names it.
    fn number<T>(&mut self, name: &str, what: &str, default: T, range: RangeInclusive<T>) -> Result<T, Wrong>
    where
        T: FromStr + PartialOrd + Display,
    {
        if !self.skip(name) {
            return Ok(default);
        }
        let text = self.next(what)?;
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (from, to) = (range.start(), range.end());
            self.wrong(text, format!("found {text:?}, expected {what} from {from} to {to}"))
        })
    }

    fn end(&mut self) -> Result<(), Wrong> {
        match self.rest.next() {
            None => Ok(()),
            Some(word) => Err(self.wrong(word, format!("found {word:?}, expected the end of the line"))),
        }
    }
}
