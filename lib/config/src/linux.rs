// SPDX-License-Identifier: MIT
//! `[linux]`: which routes of Linux the router follows, how it hears of them, and how often it looks whether all is well.

use std::net::SocketAddr;
use std::time::Duration;

use toml::de::DeValue;

use super::reader::{Parsed, Section, integer_of, unfit};
use super::router::set;
use super::values::{bytes, duration};

/// `[linux]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linux {
    /// Who tells the routes.
    pub feed: Feed,
    /// Tables whose routes are taken; those of the first are preferred to equal ones of the next.
    pub tables: Vec<u32>,
    /// Makers of routes that are taken; all if `None`. Numbers as in `/etc/iproute2/rt_protos`.
    pub protocols: Option<Vec<u8>>,
    /// Makers of routes that are not.
    pub ignore_protocols: Vec<u8>,
    /// Where FRR connects to, in the twins' namespace.
    pub fpm: SocketAddr,
    /// How long FRR has, when it has connected anew, to name the routes that are to stay.
    pub fpm_hold: Duration,
    /// Room for news that nobody has read yet, in bytes.
    pub receive_buffer: u64,
    /// How often Linux, RIB and lookup structure are compared; never if `None`.
    pub audit: Option<Duration>,
}

/// Who tells the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// The kernel.
    Netlink,
    /// FRR's zebra (`dplane_fpm_nl`).
    Fpm,
    /// Nobody.
    None,
}

impl Feed {
    /// As in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Feed::Netlink => "netlink",
            Feed::Fpm => "fpm",
            Feed::None => "none",
        }
    }
}

impl Default for Linux {
    fn default() -> Self {
        Self {
            feed: Feed::Netlink,
            tables: vec![TABLES[0].1],
            protocols: None,
            ignore_protocols: Vec::new(),
            fpm: SocketAddr::from(([127, 0, 0, 1], 2620)),
            fpm_hold: Duration::from_secs(60),
            receive_buffer: 256 << 20,
            audit: None,
        }
    }
}

/// Names of tables (`/etc/iproute2/rt_tables`).
const TABLES: [(&str, u32); 3] = [("main", 254), ("default", 253), ("local", 255)];

/// Names of makers of routes (`/etc/iproute2/rt_protos`).
const PROTOCOLS: [(&str, u8); 21] = [
    ("redirect", 1),
    ("kernel", 2),
    ("boot", 3),
    ("static", 4),
    ("gated", 8),
    ("ra", 9),
    ("mrt", 10),
    ("zebra", 11),
    ("bird", 12),
    ("dnrouted", 13),
    ("xorp", 14),
    ("ntk", 15),
    ("dhcp", 16),
    ("keepalived", 18),
    ("babel", 42),
    ("bgp", 186),
    ("isis", 187),
    ("ospf", 188),
    ("rip", 189),
    ("eigrp", 192),
    ("openr", 99),
];

/// The name of a maker of routes, or its number.
pub fn protocol_name(protocol: u8) -> String {
    let known = PROTOCOLS.iter().find(|(_, number)| *number == protocol);
    known.map_or_else(|| protocol.to_string(), |(name, _)| (*name).to_owned())
}

/// The name of a table, or its number.
pub fn table_name(table: u32) -> String {
    let known = TABLES.iter().find(|(_, number)| *number == table);
    known.map_or_else(|| table.to_string(), |(name, _)| (*name).to_owned())
}

/// A name of a list, or a number from 1 to `last`.
fn named<T: Copy + TryFrom<i64>>(value: &DeValue, names: &[(&str, T)], last: i64) -> Parsed<T> {
    if let Some(text) = value.as_str() {
        return names.iter().find(|(name, _)| *name == text).map_or_else(unfit, |(_, number)| Ok(*number));
    }
    let number = integer_of(value).filter(|number| (1..=last).contains(number));
    number.and_then(|number| T::try_from(number).ok()).map_or_else(unfit, Ok)
}

fn list_of<T>(names: &[(&str, T)]) -> String {
    names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

pub(super) fn read_linux(root: &mut Section) -> Linux {
    let mut linux = Linux::default();
    let Some(mut s) = root.table("linux") else { return linux };
    let feed = s.text("feed", "\"netlink\", \"fpm\" or \"none\"", |text| match text {
        "netlink" => Ok(Feed::Netlink),
        "fpm" => Ok(Feed::Fpm),
        "none" => Ok(Feed::None),
        _ => unfit(),
    });
    set(&mut linux.feed, feed);
    let expected = format!("a table: one of {}, or its number", list_of(&TABLES));
    let tables = s.list("tables", &expected, |value| named(value, &TABLES, u32::MAX.into()));
    for (at, table) in tables.iter().enumerate() {
        if tables[..at].iter().any(|other| other.value == table.value) {
            s.mistakes().add(&table.span, format!("found the table {} a second time", table_name(table.value)));
        }
    }
    // An element that was wrong was reported by itself.
    match (s.place("tables"), s.elements("tables").unwrap_or(1)) {
        (Some(place), 0) => {
            s.mistakes().add(&place, "found no table, expected one at least; `feed = \"none\"` takes none")
        }
        (Some(place), n @ 17..) => s.mistakes().add(&place, format!("found {n} tables, expected 16 at most")),
        (Some(_), _) if tables.is_empty() => {}
        (Some(_), _) => linux.tables = tables.into_iter().map(|table| table.value).collect(),
        (None, _) => {}
    }
    let expected = format!("who makes routes: one of {}, or its number up to 255", list_of(&PROTOCOLS));
    let protocols = s.list("protocols", &expected, |value| named(value, &PROTOCOLS, 255));
    linux.protocols = s.place("protocols").map(|_| protocols.into_iter().map(|at| at.value).collect());
    let ignored = s.list("ignore_protocols", &expected, |value| named(value, &PROTOCOLS, 255));
    linux.ignore_protocols = ignored.into_iter().map(|at| at.value).collect();
    let fpm = s.text("fpm", "an address with a port, such as \"127.0.0.1:2620\"", |text| {
        text.parse().map_err(|_| String::new())
    });
    set(&mut linux.fpm, fpm);
    set(&mut linux.fpm_hold, s.text("fpm_hold", "a time, such as \"60s\"", duration));
    let buffer = s.text("receive_buffer", "a size from \"4 KB\" to \"1 GB\"", |text| match bytes(text)? {
        size if (4 << 10..=1 << 30).contains(&size) => Ok(size),
        _ => Err("out of range".into()),
    });
    set(&mut linux.receive_buffer, buffer);
    let audit = s.text("audit", "a time of 1s or more, such as \"60s\"", |text| match duration(text)? {
        time if time >= Duration::from_secs(1) => Ok(time),
        _ => Err("too short".into()),
    });
    linux.audit = audit.map(|at| at.value);
    s.finish();
    linux
}
