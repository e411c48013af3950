// SPDX-License-Identifier: MIT
//! Who made a route of Linux.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Who made a route of Linux, a routing protocol or a program: by the number that Linux has with the route
/// (`rtm_protocol`). As text it is the name that `ip route` gives it, or the number if that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteProtocol(pub u8);

impl RouteProtocol {
    /// The names, by number: those of iproute2 (`/etc/iproute2/rt_protos`) and FRR (`rt_protos.d/frr.conf`, and its
    /// sources). FRR's file calls 196 `static`, as 4 is called; here each name stands for one number, and it is
    /// `zstatic`, as in FRR's sources.
    pub const NAMES: &[(&str, u8)] = &[
        ("unspec", 0),
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
        ("ovn", 84),
        ("openr", 99),
        ("bgp", 186),
        ("isis", 187),
        ("ospf", 188),
        ("rip", 189),
        ("ripng", 190),
        ("nhrp", 191),
        ("eigrp", 192),
        ("ldp", 193),
        ("sharp", 194),
        ("pbr", 195),
        ("zstatic", 196),
        ("openfabric", 197),
        ("srte", 198),
    ];
}

impl fmt::Display for RouteProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

/// A text that is neither the name of a protocol nor a number up to 255.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "found {found:?}, expected the protocol of a route in Linux: a name as `ip route` shows it, or a number up to 255"
)]
pub struct ParseProtocolError {
    found: String,
}

impl FromStr for RouteProtocol {
    type Err = ParseProtocolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
        let number = number.or_else(|| text.parse().ok());
        number.map(Self).ok_or_else(|| ParseProtocolError { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number has a text, and every text one number.
    #[test]
    fn every_number_is_shown_and_read_back() {
        for number in 0..=255 {
            let protocol = RouteProtocol(number);
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
            assert_eq!(number.to_string().parse(), Ok(protocol));
        }
        let texts = [2, 3, 4, 12, 186, 188, 192, 77].map(|number| RouteProtocol(number).to_string());
        assert_eq!(texts, ["kernel", "boot", "static", "bird", "bgp", "ospf", "eigrp", "77"]);
        let error = "bgpd".parse::<RouteProtocol>().expect_err("no name").to_string();
        assert!(error.starts_with("found \"bgpd\", expected the protocol of a route"), "{error}");
        assert!("256".parse::<RouteProtocol>().is_err());
    }
}
