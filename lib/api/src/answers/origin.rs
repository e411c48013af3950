// SPDX-License-Identifier: MIT
//! Where a route came from, as text, and routes asked for by it.

use super::{RouteEntry, RouteOrigin};
use perigee_net::RouteProtocol;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

impl RouteEntry {
    /// Where it came from and, for a route of Linux, who gave it to Linux: `static`, `linux/bgp`.
    pub fn origin(&self) -> String {
        match &self.protocol {
            Some(protocol) => format!("{}/{protocol}", self.source),
            None => self.source.to_string(),
        }
    }
}

/// Which routes are asked for by where they came from: `linux`, `bgp`, a number of `/etc/iproute2/rt_protos`, or both
/// as `linux/bgp`. A word that is a source and a protocol, as `static` is, asks for the routes of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SourceFilter {
    /// Those of a source.
    Source(RouteOrigin),
    /// Those that a protocol gave to Linux.
    Protocol(RouteProtocol),
    /// Those of a source, and those that the protocol of the same name gave to Linux.
    Either(RouteOrigin, RouteProtocol),
}

impl SourceFilter {
    /// Whether routes of this source and protocol are asked for.
    pub fn takes(self, source: RouteOrigin, protocol: Option<RouteProtocol>) -> bool {
        match self {
            Self::Source(wanted) => source == wanted,
            Self::Protocol(wanted) => protocol == Some(wanted),
            Self::Either(one, other) => source == one || protocol == Some(other),
        }
    }
}

/// A text that is neither a source nor a protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "found {found:?}, expected where routes come from: {}, a protocol of Linux such as bgp, bird or 186, or both as \
     linux/bgp",
    RouteOrigin::ALL.map(RouteOrigin::name).join(", ")
)]
pub struct ParseSourceError {
    found: String,
}

impl FromStr for SourceFilter {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let protocol = |text: &str| text.parse::<RouteProtocol>().ok();
        let source = RouteOrigin::ALL.into_iter().find(|source| source.name() == text);
        let found = match text.strip_prefix("linux/") {
            // Of the sources Linux alone has protocols.
            Some(text) => protocol(text).map(Self::Protocol),
            None => match (source, protocol(text)) {
                (Some(source), Some(protocol)) => Some(Self::Either(source, protocol)),
                (Some(source), None) => Some(Self::Source(source)),
                (None, protocol) => protocol.map(Self::Protocol),
            },
        };
        found.ok_or_else(|| ParseSourceError { found: text.to_owned() })
    }
}

impl TryFrom<String> for SourceFilter {
    type Error = ParseSourceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for SourceFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source) | Self::Either(source, _) => source.fmt(f),
            Self::Protocol(protocol) => write!(f, "linux/{protocol}"),
        }
    }
}

impl From<SourceFilter> for String {
    fn from(filter: SourceFilter) -> String {
        filter.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_a_protocol_or_both_is_asked_for() {
        let bgp = Some(RouteProtocol(186));
        let all = [
            (RouteOrigin::Connected, None),
            (RouteOrigin::Static, None),
            (RouteOrigin::Linux, None),
            (RouteOrigin::Linux, Some(RouteProtocol(4))),
            (RouteOrigin::Linux, Some(RouteProtocol(77))),
            (RouteOrigin::Linux, bgp),
        ];
        let taken = |text: &str| {
            let filter: SourceFilter = text.parse().unwrap_or_else(|error| panic!("{error}"));
            // As it travels in a URL.
            assert_eq!(String::from(filter).parse(), Ok(filter), "{text}");
            let taken = all.iter().enumerate().filter(|(_, (source, protocol))| filter.takes(*source, *protocol));
            taken.map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(taken("connected"), [0]);
        assert_eq!(taken("linux"), [2, 3, 4, 5]);
        assert_eq!(
            (taken("bgp"), taken("186"), taken("linux/bgp"), taken("linux/186")),
            (vec![5], vec![5], vec![5], vec![5])
        );
        assert_eq!((taken("77"), taken("linux/77"), taken("ospf")), (vec![4], vec![4], vec![]));
        assert_eq!((taken("static"), taken("linux/static"), taken("4")), (vec![1, 3], vec![3], vec![3]));
    }

    #[test]
    fn what_is_neither_is_refused_with_what_was_expected() {
        for text in ["", "bgpd", "linux/", "linux/linux", "static/bgp", "256", "BGP"] {
            let error = text.parse::<SourceFilter>().expect_err(text).to_string();
            let begin = format!("found {text:?}, expected where routes come from: local, connected, static, linux,");
            assert!(error.starts_with(&begin), "{error}");
        }
    }
}
