// SPDX-License-Identifier: MIT
//! Boolean expressions over frames, in tcpdump's syntax: which packets `perigee trace` and `perigee capture` are about.
//!
//! ```text
//! expression  either (`or` either)*            `||` too
//! either      one (`and` one)*                 `&&` too
//! one         `not` one | `(` expression `)` | primitive       `!` too
//! primitive   [`src`|`dst`] `host` ADDRESS|PREFIX              ARP's sender and target, too
//!             `src`|`dst` ADDRESS|PREFIX,  [`src`|`dst`] `net` PREFIX
//!             [`src`|`dst`] `port` N[-M],  `sport` N[-M],  `dport` N[-M]
//!             `proto` NAME|N,  `tcp`, `udp`, `icmp`, `icmp6`, `arp`, `ip`, `ip6`
//!             `vlan` [N],  `ether` `src`|`dst`|`host` MAC,  `less` N,  `greater` N,  `in` PORT
//! ```
//!
//! As in tcpdump, `tcp port 80` is `tcp and port 80`, and a packet without ports matches no `port`. Unlike there,
//! primitives look behind a VLAN tag and behind IPv6's extension headers by themselves. The empty expression matches
//! every frame.

mod parse;

use crate::wire::ethernet::ethertype;
use crate::wire::summary::Summary;
use perigee_net::MacAddr;
use std::fmt;
use std::net::IpAddr;

/// Longest expression in bytes.
pub const LONGEST: usize = 4096;
/// Deepest nesting of parentheses and `not`.
pub const DEEPEST: usize = 32;

/// Which end of a packet is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
    Either,
}

impl End {
    /// Whether `is` holds at this end.
    fn of<T>(self, (source, destination): (T, T), is: impl Fn(T) -> bool) -> bool {
        match self {
            End::Source => is(source),
            End::Destination => is(destination),
            End::Either => is(source) || is(destination),
        }
    }

    fn word(self) -> &'static str {
        match self {
            End::Source => "src ",
            End::Destination => "dst ",
            End::Either => "",
        }
    }
}

/// An expression's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    /// An address in a prefix.
    Net(End, IpAddr, u8),
    Port(End, u16, u16),
    Protocol(u8),
    EtherType(u16),
    Vlan(Option<u16>),
    Mac(End, MacAddr),
    /// At most this many bytes.
    Less(usize),
    /// At least this many bytes.
    Greater(usize),
    /// Received (or sent) on a port: its name and number.
    In(String, u16),
}

/// Which packets are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(Node);

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Where, in characters from 1.
    pub position: usize,
    /// What was found there.
    pub found: String,
    /// What was expected instead.
    pub expected: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter, character {}: found {}, expected {}", self.position, self.found, self.expected)
    }
}

impl std::error::Error for ExpressionError {}

impl Expression {
    /// Reads an expression; `port` finds a port's number by its name.
    ///
    /// # Errors
    /// It makes no sense, or is longer than [`LONGEST`] or deeper than [`DEEPEST`].
    pub fn parse(text: &str, port: impl Fn(&str) -> Option<u16>) -> Result<Expression, ExpressionError> {
        parse::parse(text, &port).map(Expression)
    }

    /// Whether a frame of a port (the one it came in on; for a frame that is sent, the one it leaves by) is meant.
    pub fn matches(&self, frame: &[u8], port: u16) -> bool {
        self.0.matches(&Summary::of(frame), port)
    }
}

/// The expression as text, which [`Expression::parse`] reads as the same one.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, true)
    }
}

/// Is the address in the prefix? Families never mix.
fn inside(address: IpAddr, net: IpAddr, length: u8) -> bool {
    match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let shift = 32 - u32::from(length.min(32));
            (a.to_bits() ^ b.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let shift = 128 - u32::from(length.min(128));
            (a.to_bits() ^ b.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        _ => false,
    }
}

impl Node {
    fn matches(&self, frame: &Summary, port: u16) -> bool {
        match self {
            Node::All(all) => all.iter().all(|node| node.matches(frame, port)),
            Node::Any(any) => any.iter().any(|node| node.matches(frame, port)),
            Node::Not(node) => !node.matches(frame, port),
            Node::Net(end, net, length) => {
                frame.addresses.is_some_and(|both| end.of(both, |address| inside(address, *net, *length)))
            }
            Node::Port(end, low, high) => {
                frame.ports.is_some_and(|both| end.of(both, |number| (*low..=*high).contains(&number)))
            }
            Node::Protocol(number) => frame.protocol == Some(*number),
            Node::EtherType(kind) => frame.ethertype == Some(*kind),
            Node::Vlan(None) => frame.vlan.is_some(),
            Node::Vlan(vid) => frame.vlan == *vid,
            Node::Mac(end, mac) => frame.macs.is_some_and(|(to, from)| end.of((from, to), |one| one == *mac)),
            Node::Less(length) => frame.length <= *length,
            Node::Greater(length) => frame.length >= *length,
            Node::In(_, number) => port == *number,
        }
    }

    /// Writes the node; `outer` needs no parentheses around it.
    fn write(&self, f: &mut fmt::Formatter<'_>, outer: bool) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, nodes: &[Node], word: &str| {
            if !outer {
                write!(f, "(")?;
            }
            for (number, node) in nodes.iter().enumerate() {
                if number > 0 {
                    write!(f, " {word} ")?;
                }
                node.write(f, false)?;
            }
            if outer { Ok(()) } else { write!(f, ")") }
        };
        match self {
            Node::All(nodes) => list(f, nodes, "and"),
            Node::Any(nodes) => list(f, nodes, "or"),
            Node::Not(node) => {
                write!(f, "not ")?;
                node.write(f, false)
            }
            Node::Net(end, net, length) => write!(f, "{}net {net}/{length}", end.word()),
            Node::Port(end, low, high) if low == high => write!(f, "{}port {low}", end.word()),
            Node::Port(end, low, high) => write!(f, "{}port {low}-{high}", end.word()),
            Node::Protocol(number) => write!(f, "proto {number}"),
            Node::EtherType(ethertype::IPV4) => write!(f, "ip"),
            Node::EtherType(ethertype::IPV6) => write!(f, "ip6"),
            Node::EtherType(_) => write!(f, "arp"),
            Node::Vlan(None) => write!(f, "vlan"),
            Node::Vlan(Some(vid)) => write!(f, "vlan {vid}"),
            Node::Mac(End::Either, mac) => write!(f, "ether host {mac}"),
            Node::Mac(end, mac) => write!(f, "ether {}{mac}", end.word()),
            Node::Less(length) => write!(f, "less {length}"),
            Node::Greater(length) => write!(f, "greater {length}"),
            Node::In(name, _) => write!(f, "in {name}"),
        }
    }
}
