// SPDX-License-Identifier: MIT
//! Addresses from a route file: a host of each route.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;

use perigee_net::{Prefix, is_host, is_link_local};

use super::description::Family;
use super::error::TrafficError;
use super::random;

/// How often a host is drawn for a route; of a default route, one in nine addresses is none.
const TRIES: u64 = 64;

/// The prefixes at the starts of the lines of `text`, each once; `#` begins a comment, and what follows a prefix (`via
/// 10.0.0.1`, ...) does not count. So lists of prefixes and the router's own route files can be read.
pub(crate) fn prefixes(file: &Path, text: &str) -> Result<Vec<Prefix>, TrafficError> {
    let mut seen = HashSet::new();
    let mut prefixes = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let code = text.split('#').next().unwrap_or_default();
        let Some(word) = code.split_ascii_whitespace().next() else { continue };
        let prefix: Prefix = word.parse().map_err(|why| TrafficError::Route {
            file: file.to_owned(),
            line,
            found: word.chars().take(80).collect(),
            why: format!(" ({why})"),
        })?;
        if seen.insert(prefix) {
            prefixes.push(prefix);
        }
    }
    Ok(prefixes)
}

/// An address in each prefix of a family, as numbers.
pub(crate) fn hosts(file: &Path, text: &str, family: Family, seed: u64) -> Result<Vec<u128>, TrafficError> {
    let mut hosts = Vec::new();
    for prefix in prefixes(file, text)?.into_iter().filter(|prefix| Family::of(prefix.addr()) == family) {
        let drawn = (0..TRIES).map(|turn| host(prefix, random::at(seed, hosts.len() as u64 * TRIES + turn)));
        let good = drawn.into_iter().find(|address| can_be_sent_to(*address));
        let good = good.ok_or_else(|| TrafficError::NoHost { file: file.to_owned(), prefix: prefix.to_string() })?;
        hosts.push(match good {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        });
    }
    if hosts.is_empty() {
        return Err(TrafficError::NoRoutes { file: file.to_owned(), family: family.name() });
    }
    Ok(hosts)
}

/// An address of a prefix from random bits: neither the network's nor the broadcast address where it has them, nor the
/// routers' anycast address (RFC 4291 section 2.6.1).
fn host(prefix: Prefix, random: u64) -> IpAddr {
    let (first, last) = match (prefix.addr(), prefix.last()) {
        (IpAddr::V4(first), IpAddr::V4(last)) => (u128::from(first.to_bits()), u128::from(last.to_bits())),
        (IpAddr::V6(first), IpAddr::V6(last)) => (first.to_bits(), last.to_bits()),
        _ => unreachable!("a prefix has one family"),
    };
    let (low, high) = match last - first {
        0 | 1 => (first, last),
        _ if prefix.addr().is_ipv4() => (first + 1, last - 1),
        _ => (first + 1, last),
    };
    // With 64 random bits, hosts of a prefix shorter than /64 differ in its first 64 bits behind the length.
    let host_bits = 128 - (high - low).leading_zeros();
    let bits = u128::from(random) << host_bits.saturating_sub(64);
    let number = low + bits % (high - low).saturating_add(1);
    match prefix.addr() {
        IpAddr::V4(_) => IpAddr::V4((number as u32).into()),
        IpAddr::V6(_) => IpAddr::V6(number.into()),
    }
}

fn can_be_sent_to(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_host(address),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_loopback() && !v6.is_unspecified() && !is_link_local(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "x.txt";

    #[test]
    fn first_words_count() {
        let text =
            "# a comment\n\n10.0.0.0/8 via 10.0.0.2 dev wan\n  2001:db8::/32#x\r\n10.0.0.0/8 metric 7\n0.0.0.0/0\n";
        let found: Vec<String> = prefixes(Path::new(FILE), text).unwrap().iter().map(Prefix::to_string).collect();
        assert_eq!(found, ["10.0.0.0/8", "2001:db8::/32", "0.0.0.0/0"]);
        assert_eq!(hosts(Path::new(FILE), text, Family::Ipv6, 1).unwrap().len(), 1);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str, family| hosts(Path::new(FILE), text, family, 1).unwrap_err().to_string();
        let wrong = error("10.0.0.0/8\n10.0.0.1/8\n", Family::Ipv4);
        assert!(
            wrong.starts_with("line 2 of the route file x.txt: found \"10.0.0.1/8\", expected a prefix"),
            "{wrong}"
        );
        assert!(error("default via 10.0.0.1", Family::Ipv4).contains("\"default\""));
        assert!(error("10.0.0.0/8", Family::Ipv6).contains("no IPv6 route"));
        assert!(error("", Family::Ipv4).contains("no IPv4 route"));
        assert!(error("224.0.0.0/4", Family::Ipv4).contains("no address that a packet can be sent to"));
        assert!(error("fe80::/10", Family::Ipv6).contains("fe80::/10"));
    }

    proptest! {
        #[test]
        fn a_host_is_in_its_prefix(bits in any::<u128>(), len in 0u8..=128, v4 in any::<bool>(), random in any::<u64>()) {
            let address = if v4 { IpAddr::V4((bits as u32).into()) } else { IpAddr::V6(bits.into()) };
            let prefix = Prefix::truncated(address, if v4 { len.min(32) } else { len }).unwrap();
            let host = host(prefix, random);
            prop_assert!(prefix.contains(host));
            let short = prefix.len() < if v4 { 31 } else { 127 };
            prop_assert!(!short || host != prefix.addr());
            prop_assert!(!short || !v4 || host != prefix.last());
        }
    }
}
