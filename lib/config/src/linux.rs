// SPDX-License-Identifier: MIT
//! `[linux]`: which routes of Linux the router follows, how it learns about them, and how often it compares.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use perigee_net::RouteProtocol;
use toml::de::DeValue;

use super::given::{Given, Parsed, unfit};
use super::kind::{Kind, choice, integer_of, list, optional, text, time, value};
use super::router::LONGEST_SOCKET;
use super::section::section;
use super::values::{bytes, bytes_text};

section! {
    /// Which routes of Linux are followed, and how.
    pub struct Linux(context) keys {
        /// Where routes come from: the kernel; FRR's zebra with its module `dplane_fpm_nl`, by TCP; or nowhere. Multicast routes are the
        /// kernel's with either of the first two.
        feed: Feed, choice(FEEDS), default Feed::Netlink, restart;
        /// Tables whose routes are taken; those of the first are preferred to equal ones of the next.
        tables: Vec<u32>, tables_kind(), default vec![TABLES[0].1] => "`[\"main\"]`", live;
        /// Protocols (as Linux calls the programs that make routes) whose routes are taken.
        protocols: Option<Vec<u8>>, optional(protocol_list()), default None => "all", live;
        /// Protocols whose routes are not taken.
        ignore_protocols: Vec<u8>, protocol_list(), default Vec::new(), live;
        /// What happens to packets by a route of Linux that the router cannot forward by: one over an interface that is no port, one
        /// that adds a header, `throw`, one for a type of service or a source, one that a policy rule leads to, or one that is not known. They
        /// are given to Linux, which forwards them where its `forwarding` is on, or answered with ICMP host unreachable.
        unknown_routes: UnknownRoutes, choice(UNKNOWN_ROUTES), default UnknownRoutes::ToLinux, live;
        /// Where FRR connects to: by TCP, in the twins' namespace; or a unix socket, for other programs that speak its
        /// protocol.
        fpm: FpmAddress, fpm_addresses(), default FpmAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 2620))), restart;
        /// Who may connect there: users of this machine, by their names or numbers, and addresses of others. A
        /// connection from this machine is judged by its user alone, where the kernel has the diagnosis of TCP's
        /// sockets (`INET_DIAG`), else by its address; there is one connection at a time.
        fpm_from: Option<Vec<FpmGuest>>, optional(fpm_guests()),
            default None => "root, frr, and the user who starts the router", restart;
        /// How long FRR may take, after it has connected again, to name the routes that stay.
        fpm_hold: Duration, time("a time, such as \"60s\"", Ok), default Duration::from_secs(60), restart;
        /// Buffer for the kernel's notifications until they are read. When it overflows, everything is read again.
        receive_buffer: u64, buffer_size(), default 256 << 20, restart;
        /// How often Linux's table, the RIB and the lookup structures are compared and differences repaired.
        audit: Option<Duration>, optional(time("a time of 1s or more, such as \"60s\"", a_second_at_least)),
            default None => "never", live;
    }
}

/// Where routes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// The kernel.
    Netlink,
    /// FRR's zebra (`dplane_fpm_nl`).
    Fpm,
    /// Nowhere.
    None,
}

/// Where FRR connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FpmAddress {
    /// By TCP.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl Display for FpmAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FpmAddress::Tcp(address) => address.fmt(f),
            FpmAddress::Unix(path) => path.display().fmt(f),
        }
    }
}

fn fpm_addresses() -> Kind<'static, FpmAddress> {
    let expected = "an address with a port, such as \"127.0.0.1:2620\", or the path of a unix socket from `/` on, at \
                    most 107 bytes";
    text(expected, fpm_address)
}

fn fpm_address(text: &str) -> Parsed<FpmAddress> {
    match text.parse() {
        Ok(address) => Ok(FpmAddress::Tcp(address)),
        Err(_) if text.starts_with('/') && text.len() <= LONGEST_SOCKET => Ok(FpmAddress::Unix(text.into())),
        Err(_) => unfit(),
    }
}

/// Who may connect to send routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FpmGuest {
    /// A user of this machine, by name or number.
    User(String),
    /// Another machine, or another network namespace.
    Address(IpAddr),
}

impl Display for FpmGuest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FpmGuest::User(user) => user.fmt(f),
            FpmGuest::Address(address) => address.fmt(f),
        }
    }
}

fn fpm_guests() -> Kind<'static, Vec<FpmGuest>> {
    let guest = text("a user, by name or number, or an address, such as \"frr\"", fpm_guest);
    list(guest).described("an array of users, by names or numbers, and addresses, such as `[\"frr\", \"10.0.0.1\"]`")
}

fn fpm_guest(text: &str) -> Parsed<FpmGuest> {
    let name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.$@".contains(&byte);
    match text.parse() {
        Ok(address) => Ok(FpmGuest::Address(address)),
        Err(_) if !text.is_empty() && text.bytes().all(name) => Ok(FpmGuest::User(text.to_owned())),
        Err(_) => unfit(),
    }
}

/// What happens to packets by a route of Linux that the router cannot forward by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownRoutes {
    /// Linux forwards them.
    ToLinux,
    /// They are answered with ICMP host unreachable.
    Unreachable,
}

const UNKNOWN_ROUTES: &[(&str, UnknownRoutes)] =
    &[("to-linux", UnknownRoutes::ToLinux), ("unreachable", UnknownRoutes::Unreachable)];

const FEEDS: &[(&str, Feed)] = &[("netlink", Feed::Netlink), ("fpm", Feed::Fpm), ("none", Feed::None)];

/// The most tables that can be followed.
const MOST_TABLES: usize = 16;

/// Names of tables (`/etc/iproute2/rt_tables`).
const TABLES: [(&str, u32); 3] = [("main", 254), ("default", 253), ("local", 255)];

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

fn protocol_list() -> Kind<'static, Vec<u8>> {
    // A route without a protocol is not asked for: the first name is that of number 0.
    let (_, known) = RouteProtocol::NAMES.split_at(1);
    let names = list_of(known);
    let expected = format!("who makes routes: one of {names}, or its number up to 255");
    let protocol = value(expected, move |value| named(value, known, 255), |number| i64::from(*number).into());
    list(protocol).described(format!("an array of names ({names}) or numbers from 1 to 255"))
}

/// One to sixteen tables, each once.
fn tables_kind() -> Kind<'static, Vec<u32>> {
    let expected = format!("a table: one of {}, or its number", list_of(&TABLES));
    Kind::new(expected, read_tables, |tables: &Vec<u32>| {
        Some(tables.iter().map(|table| i64::from(*table)).collect::<Vec<_>>().into())
    })
    .described("an array of 1 to 16 tables, by their names or numbers in `/etc/iproute2/rt_tables`")
}

fn read_tables(given: &Given, expected: &str) -> Option<Vec<u32>> {
    let mut tables = Vec::new();
    let mut count = 0;
    for element in given.elements(expected)? {
        count += 1;
        let table = element.parse(expected, |value| named(value, &TABLES, u32::MAX.into()));
        let Some(table) = table else { continue };
        if tables.contains(&table) {
            let message = format!("found the table {} a second time", table_name(table));
            given.mistakes.add(&element.value.span(), message);
        }
        tables.push(table);
    }
    match count {
        0 => {
            let message = "found no table, expected one at least; `feed = \"none\"` takes none";
            given.mistakes.add(&given.key, message);
        }
        1..=MOST_TABLES => {}
        _ => given.mistakes.add(&given.key, format!("found {count} tables, expected {MOST_TABLES} at most")),
    }
    Some(tables)
}

fn buffer_size() -> Kind<'static, u64> {
    let parse = |value: &DeValue| match bytes(value.as_str().ok_or_else(String::new)?)? {
        size if (4 << 10..=1 << 30).contains(&size) => Ok(size),
        _ => Err("out of range".into()),
    };
    value("a size from \"4 KB\" to \"1 GB\"", parse, |size| bytes_text(*size).into())
}

fn a_second_at_least(time: Duration) -> Parsed<Duration> {
    if time >= Duration::from_secs(1) { Ok(time) } else { Err("too short".into()) }
}
