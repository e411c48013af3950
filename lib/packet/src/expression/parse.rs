// SPDX-License-Identifier: MIT
//! From text to a tree, by recursive descent. Lists are flat, so that only parentheses and `not` nest.

use super::{DEEPEST, End, ExpressionError, LONGEST, Node};
use crate::wire::ethernet::ethertype;
use crate::wire::protocol;
use perigee_net::MacAddr;
use std::net::IpAddr;

const PRIMITIVE: &str = "a primitive such as `host 10.0.0.1`, `net 10.0.0.0/8`, `port 53`, `tcp`, `arp`, `vlan 7`, \
                         `ether src 02:00:00:00:00:01`, `less 100` or `in wan`";

/// A word and where it stands, in characters from 1.
struct Token<'a> {
    text: &'a str,
    position: usize,
}

/// Splits at blanks; parentheses and `!` are words of their own.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut words: Vec<Token> = Vec::new();
    let mut start: Option<(usize, usize)> = None;
    for (number, (at, letter)) in text.char_indices().enumerate() {
        let alone = matches!(letter, '(' | ')' | '!');
        if (alone || letter.is_whitespace())
            && let Some((from, position)) = start.take()
        {
            words.push(Token { text: &text[from..at], position });
        }
        if alone {
            words.push(Token { text: &text[at..at + 1], position: number + 1 });
        } else if !letter.is_whitespace() && start.is_none() {
            start = Some((at, number + 1));
        }
    }
    if let Some((from, position)) = start {
        words.push(Token { text: &text[from..], position });
    }
    words
}

struct Parser<'a> {
    words: Vec<Token<'a>>,
    at: usize,
    end: usize,
    port: &'a dyn Fn(&str) -> Option<u16>,
}

type Parsed<T = Node> = Result<T, ExpressionError>;

pub(super) fn parse(text: &str, port: &dyn Fn(&str) -> Option<u16>) -> Parsed {
    let end = text.chars().count() + 1;
    if text.len() > LONGEST {
        let (found, expected) = (format!("{} bytes", text.len()), format!("at most {LONGEST}"));
        return Err(ExpressionError { position: end, found, expected });
    }
    let mut parser = Parser { words: tokens(text), at: 0, end, port };
    if parser.words.is_empty() {
        return Ok(Node::All(Vec::new()));
    }
    let node = parser.any(0)?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.error("`and`, `or` or the end")),
    }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).map(|word| word.text)
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Takes the next word if it is one of these.
    fn take(&mut self, words: &[&str]) -> bool {
        let found = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(found);
        found
    }

    /// The next word is wrong.
    fn error(&self, expected: impl Into<String>) -> ExpressionError {
        let expected = expected.into();
        match self.words.get(self.at) {
            Some(Token { text, position }) => {
                // A long word would hide the rest of the sentence, and a terminal would follow control characters.
                let short: String = text.chars().take(40).collect();
                let short = short.replace(char::is_control, "?");
                ExpressionError { position: *position, found: format!("`{short}`"), expected }
            }
            None => ExpressionError { position: self.end, found: "the end".to_owned(), expected },
        }
    }

    fn any(&mut self, depth: usize) -> Parsed {
        let mut nodes = vec![self.all(depth)?];
        while self.take(&["or", "||"]) {
            nodes.push(self.all(depth)?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self, depth: usize) -> Parsed {
        let mut nodes = Vec::new();
        loop {
            self.one(depth, &mut nodes)?;
            if !self.take(&["and", "&&"]) {
                break;
            }
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    /// One operand; a protocol's word in front of another primitive makes two.
    fn one(&mut self, depth: usize, to: &mut Vec<Node>) -> Parsed<()> {
        if depth > DEEPEST {
            return Err(self.error(format!("no more than {DEEPEST} parentheses and `not` inside each other")));
        }
        if self.take(&["not", "!"]) {
            let mut inner = Vec::new();
            self.one(depth + 1, &mut inner)?;
            let inner = if inner.len() == 1 { inner.remove(0) } else { Node::All(inner) };
            to.push(Node::Not(Box::new(inner)));
            return Ok(());
        }
        if self.take(&["("]) {
            let inner = self.any(depth + 1)?;
            if !self.take(&[")"]) {
                return Err(self.error("`and`, `or` or `)`"));
            }
            to.push(inner);
            return Ok(());
        }
        if let Some(node) = self.peek().and_then(named) {
            self.at += 1;
            to.push(node);
            let more = ["host", "net", "port", "src", "dst", "sport", "dport"];
            if self.peek().is_none_or(|word| !more.contains(&word)) {
                return Ok(());
            }
        }
        let node = self.primitive()?;
        to.push(node);
        Ok(())
    }

    fn primitive(&mut self) -> Parsed {
        let start = self.at;
        match self.next() {
            Some("src") => self.ended(End::Source),
            Some("dst") => self.ended(End::Destination),
            Some("host" | "net" | "port") => {
                self.at = start;
                self.ended(End::Either)
            }
            Some("sport") => self.ports(End::Source),
            Some("dport") => self.ports(End::Destination),
            Some("proto") => self.protocol(),
            Some("vlan") => self.vlan(),
            Some("ether") => self.mac(),
            Some("less") => Ok(Node::Less(self.number("a length in bytes", 65_535)?)),
            Some("greater") => Ok(Node::Greater(self.number("a length in bytes", 65_535)?)),
            Some("in") => {
                let number = self.peek().and_then(self.port);
                let number = number.ok_or_else(|| self.error("the name of a port of this router"))?;
                Ok(Node::In(self.next().unwrap_or_default().to_owned(), number))
            }
            _ => {
                self.at = start;
                Err(self.error(PRIMITIVE))
            }
        }
    }

    /// What follows `src`, `dst` or neither.
    fn ended(&mut self, end: End) -> Parsed {
        if self.take(&["port"]) {
            return self.ports(end);
        }
        let what = if self.take(&["net"]) { "a prefix" } else { "an address or a prefix" };
        self.take(&["host"]);
        let (address, length) = match self.peek() {
            Some(word) => word.split_once('/').map_or((word, None), |(address, length)| (address, Some(length))),
            None => ("", None),
        };
        let expected = || self.error(format!("{what} such as 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32"));
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(text) => digits(text, longest.into()).ok_or_else(expected)? as u8,
            None => longest,
        };
        self.at += 1;
        Ok(Node::Net(end, truncated(address, length), length))
    }

    fn ports(&mut self, end: End) -> Parsed {
        let word = self.peek().unwrap_or_default();
        let (low, high) = word.split_once('-').unwrap_or((word, word));
        let both = digits(low, 65_535).zip(digits(high, 65_535)).filter(|(low, high)| low <= high);
        let (low, high) = both.ok_or_else(|| self.error("a port's number, or two as in 1000-2000"))?;
        self.at += 1;
        Ok(Node::Port(end, low as u16, high as u16))
    }

    fn protocol(&mut self) -> Parsed {
        let word = self.peek().unwrap_or_default();
        let known = match named(word) {
            Some(Node::Protocol(number)) => Some(number),
            _ => digits(word, 255).map(|number| number as u8),
        };
        let number = known.ok_or_else(|| self.error("tcp, udp, icmp, icmp6 or a protocol's number, 0 to 255"))?;
        self.at += 1;
        Ok(Node::Protocol(number))
    }

    fn vlan(&mut self) -> Parsed {
        let numeric = self.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        if !numeric {
            return Ok(Node::Vlan(None));
        }
        Ok(Node::Vlan(Some(self.number("a VLAN's number, 0 to 4095", 4095)? as u16)))
    }

    fn mac(&mut self) -> Parsed {
        let end = match self.peek() {
            Some("src") => End::Source,
            Some("dst") => End::Destination,
            Some("host") => End::Either,
            _ => return Err(self.error("`src`, `dst` or `host`")),
        };
        self.at += 1;
        let mac: Option<MacAddr> = self.peek().and_then(|word| word.parse().ok());
        let mac = mac.ok_or_else(|| self.error("a MAC address such as 02:00:00:00:00:01"))?;
        self.at += 1;
        Ok(Node::Mac(end, mac))
    }

    fn number(&mut self, what: &str, largest: u32) -> Parsed<usize> {
        let number = self.peek().and_then(|word| digits(word, largest));
        let number = number.ok_or_else(|| self.error(what))?;
        self.at += 1;
        Ok(number as usize)
    }
}

/// Protocols that are primitives of their own.
fn named(word: &str) -> Option<Node> {
    Some(match word {
        "tcp" => Node::Protocol(protocol::TCP),
        "udp" => Node::Protocol(protocol::UDP),
        "icmp" => Node::Protocol(protocol::ICMP),
        "icmp6" => Node::Protocol(protocol::ICMPV6),
        "arp" => Node::EtherType(ethertype::ARP),
        "ip" => Node::EtherType(ethertype::IPV4),
        "ip6" => Node::EtherType(ethertype::IPV6),
        _ => return None,
    })
}

/// A number in digits only: `+5` and the like are not accepted.
fn digits(word: &str, largest: u32) -> Option<u32> {
    let number: u32 = word.parse().ok().filter(|_| word.bytes().all(|b| b.is_ascii_digit()))?;
    (number <= largest).then_some(number)
}

/// The address with its host bits cleared.
fn truncated(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((a.to_bits() & mask).into())
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((a.to_bits() & mask).into())
        }
    }
}
