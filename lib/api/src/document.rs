// SPDX-License-Identifier: MIT
//! docs/api.md, written from the registry of queries and the declarations of their answers.

use crate::answers::SourceFilter;
use crate::declare::{Describe, Visitor};
use crate::queries::{self, Capture, Metrics, Trace};
use crate::taps::TraceLine;
use crate::{Endpoint, Query};
use hyper::Method;
use perigee_net::{InterfaceAddress, MacAddr, Namespace, Prefix};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;

const HEAD: &str = "<!-- SPDX-License-Identifier: MIT -->
# The API of a running router

HTTP and JSON on a unix socket that only the router's own user may use: `socket` in `[router]`, which `perigee run` says at
the start. `perigee show`, `route`, `audit`, `reload`, `trace` and `capture` are clients of it; `--json` prints its answers.

```sh
curl --unix-socket /run/perigee/NAME.sock http://router/v1/ports
curl --unix-socket /run/perigee/NAME.sock 'http://router/v1/routes?within=10.0.0.0/8&limit=5'
curl --unix-socket /run/perigee/NAME.sock -X POST -d '{\"repair\": true}' http://router/v1/audit
```

Parameters of a GET stand in the URL, those of the other methods in a JSON object in the body. An error is
`{\"error\": \"a sentence\"}` under a status from 400 to 599. Counters count since the router started. Lists come in the order of
the configuration where there is one. Fields may be added, and words for states: ignore those you do not know.

This page is written from the declarations in `lib/api/src/queries.rs` and `answers.rs`:
`cargo run -p perigee-api --example document_api > docs/api.md`.
";

/// The whole page.
pub fn documentation() -> String {
    let mut page = Page::default();
    queries::each(&mut page);
    let lines = format!("stream of JSON, one a line: {}", TraceLine::words());
    page.endpoint::<Trace>(&lines);
    TraceLine::sections(&mut page);
    page.endpoint::<Capture>("stream of pcapng");
    page.endpoint::<Metrics>("OpenMetrics text");
    let Page { overview, queries, objects, states, .. } = page;
    format!(
        "{HEAD}\n## Overview\n\n| method and path | answer |\n| --- | --- |\n{overview}\n## Queries\n{queries}\n\
         ## Answers\n{objects}\n## States and kinds\n{states}"
    )
}

/// The page under construction.
#[derive(Default)]
pub struct Page {
    overview: String,
    queries: String,
    objects: String,
    states: String,
    /// Types that have been described.
    seen: Vec<&'static str>,
}

/// A field of an object.
pub struct Row {
    pub name: &'static str,
    /// Its type, as [`Describe::words`] describes it.
    pub kind: String,
    /// Its doc comment.
    pub about: &'static str,
    /// Whether it is left out if it is empty.
    pub optional: bool,
}

impl Row {
    /// The row as a parameter, which is left out where an answer would have null.
    fn parameter(self) -> Row {
        match self.kind.strip_suffix(" or null") {
            Some(kind) => Row { kind: kind.to_owned(), optional: true, ..self },
            None => self,
        }
    }
}

impl Page {
    fn first_time(&mut self, name: &'static str) -> bool {
        let first = !self.seen.contains(&name);
        if first {
            self.seen.push(name);
        }
        first
    }

    /// Describes an object unless that has been done; returns whether it was the first time.
    pub(crate) fn object(&mut self, name: &'static str, about: &str, fields: &[Row]) -> bool {
        let first = self.first_time(name);
        if first {
            // Writing to a String does not fail, here and below.
            let _ = write!(self.objects, "\n### {name}\n\n{}\n\n{}", prose(about), table("field", fields));
        }
        first
    }

    /// Describes an enum, unless that has been done.
    pub(crate) fn state(&mut self, name: &'static str, about: &str, words: Vec<(&str, &str)>) {
        if self.first_time(name) {
            let _ = write!(self.states, "\n### {name}\n\n{}\n\n| value | meaning |\n| --- | --- |\n", prose(about));
            for (word, about) in words {
                let _ = writeln!(self.states, "| `{word}` | {} |", prose(about));
            }
        }
    }

    fn endpoint<E: Endpoint>(&mut self, answer: &str) {
        let call = format!("{} {}", E::METHOD, E::PATH);
        let _ = writeln!(self.overview, "| [`{call}`](#{}) | {answer} |", anchor(&call));
        let _ = write!(self.queries, "\n### {call}\n\n{}\n\n", prose(E::ABOUT));
        if !E::EXPECTED.is_empty() {
            let place = if E::METHOD == Method::GET { "parameter in the URL" } else { "field of the body" };
            let parameters: Vec<Row> = E::fields().into_iter().map(Row::parameter).collect();
            let _ = writeln!(self.queries, "{}", table(place, &parameters));
            E::inner(self);
        }
        let _ = writeln!(self.queries, "Answer: {answer}.");
    }
}

impl Visitor for Page {
    fn query<Q: Query>(&mut self) {
        self.endpoint::<Q>(&Q::Answer::words());
        Q::Answer::sections(self);
    }
}

/// A link to the section of a type.
pub(crate) fn link(name: &str) -> String {
    format!("[{name}](#{})", anchor(name))
}

/// As Markdown's readers make a fragment from a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_');
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// A doc comment in one line.
fn prose(about: &str) -> String {
    about.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn table(what: &str, fields: &[Row]) -> String {
    let mut text = format!("| {what} | type | meaning |\n| --- | --- | --- |\n");
    for Row { name, kind, about, optional } in fields {
        let left_out = if *optional { "; may be left out" } else { "" };
        let _ = writeln!(text, "| `{name}` | {kind}{left_out} | {} |", prose(about).replace('|', "\\|"));
    }
    text
}

macro_rules! describe {
    ($($kind:ty: $words:literal,)*) => {$(
        impl Describe for $kind {
            fn words() -> String {
                $words.to_owned()
            }
        }
    )*};
}

describe! {
    u8: "number", u16: "number", u32: "number", u64: "number", usize: "number", f64: "number",
    bool: "true or false", String: "text", PathBuf: "path",
    MacAddr: "MAC address", IpAddr: "IP address", Prefix: "prefix", InterfaceAddress: "IP address and prefix length", Namespace: "text",
    BTreeMap<String, u64>: "object of numbers", SourceFilter: "text",
}

impl<T: Describe> Describe for Option<T> {
    fn words() -> String {
        format!("{} or null", T::words())
    }

    fn sections(page: &mut Page) {
        T::sections(page);
    }
}

impl<T: Describe> Describe for Vec<T> {
    fn words() -> String {
        format!("list of {}", T::words())
    }

    fn sections(page: &mut Page) {
        T::sections(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_leads_to_a_heading() {
        let page = documentation();
        let headings: Vec<String> = page
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .map(|line| anchor(line.trim_start_matches(['#', ' '])))
            .collect();
        let links: Vec<&str> = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(links.len() > 30, "{}", links.len());
        for link in links {
            assert_eq!(headings.iter().filter(|heading| *heading == link).count(), 1, "{link}");
        }
    }
}
