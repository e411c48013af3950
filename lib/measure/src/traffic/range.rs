// SPDX-License-Identifier: MIT
//! The values that a field of the frames takes, and in which order.
//!
//! ```text
//! 198.18.0.1                       one value
//! 198.18.0.1-198.18.0.254          from the first to the last, in turn
//! 198.18.0.0/24                    the 256 addresses of a prefix, in turn
//! random:198.18.0.0/16             each once, in an order that the seed makes
//! zipf(1.1):198.18.0.0/16          drawn for each frame by Zipf's law; which address is the first, second, ... the seed says
//! zipf(1):routes:table.txt         addresses only: a host of each prefix of a route file, in any of these orders
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use perigee_net::{MacAddr, Prefix};

use super::error::TrafficError;
use super::text::as_text;

/// In which order the values of a range are used.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Order {
    /// The first, the second, ..., the last, and the first again.
    #[default]
    Sequential,
    /// Each value once in a random order, and again in the same order.
    Random,
    /// Drawn for each frame: the k-th of n values with a probability proportional to 1 / k^s. The exponent s is 0 to
    /// 10.
    Zipf(f64),
}

/// The largest exponent of Zipf's law: with it, already 999 of 1000 frames have the first value.
const STEEPEST: f64 = 10.0;

impl Order {
    /// Takes the order off the front of a range's text.
    fn split(text: &str) -> Result<(Order, &str), TrafficError> {
        if let Some(rest) = text.strip_prefix("random:") {
            return Ok((Order::Random, rest));
        }
        let Some(rest) = text.strip_prefix("zipf(") else { return Ok((Order::Sequential, text)) };
        let exponent = rest.split_once("):").and_then(|(s, rest)| Some((s.parse::<f64>().ok()?, rest)));
        match exponent {
            Some((s, rest)) if (0.0..=STEEPEST).contains(&s) => Ok((Order::Zipf(s), rest)),
            _ => Err(TrafficError::text(
                text,
                "zipf(EXPONENT):RANGE with an exponent from 0 to 10, such as zipf(1.1):1-99",
            )),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Sequential => Ok(()),
            Order::Random => f.write_str("random:"),
            Order::Zipf(s) => write!(f, "zipf({s}):"),
        }
    }
}

/// A VLAN id, 1 to 4094 (IEEE 802.1Q table 9-2: 0 is no VLAN, 4095 is reserved).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VlanId(u16);

impl VlanId {
    /// A VLAN id; `None` outside 1 to 4094.
    pub fn new(id: u16) -> Option<VlanId> {
        (1..=4094).contains(&id).then_some(VlanId(id))
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A type that ranges are made of: an address, a port, a VLAN id, a MAC address.
pub trait Value: Copy + PartialEq + fmt::Debug + fmt::Display {
    /// What a text should be, for errors.
    const EXPECTED: &str;
    /// The value with this text.
    fn read(text: &str) -> Option<Self>;
    /// The value as a number; those between two values of a kind are between their numbers.
    fn number(self) -> u128;
    /// The value with this number, of the same kind as `self`.
    fn with_number(self, number: u128) -> Self;
    /// Whether a range can lead from one to the other.
    fn same_kind(self, _other: Self) -> bool {
        true
    }
    /// The first and last value of a text that is a set of another form, or why it is none.
    fn read_set(_text: &str) -> Option<Result<(Self, Self), String>> {
        None
    }
    /// The text of a set of another form, if the values from `first` to `last` are one.
    fn set_text(_first: Self, _last: Self) -> Option<String> {
        None
    }
}

impl Value for u16 {
    const EXPECTED: &str = "a port from 0 to 65535, or a range such as 1024-65535 or random:1024-65535";

    fn read(text: &str) -> Option<u16> {
        text.parse().ok()
    }

    fn number(self) -> u128 {
        self.into()
    }

    fn with_number(self, number: u128) -> u16 {
        number as u16
    }
}

impl Value for VlanId {
    const EXPECTED: &str = "a VLAN id from 1 to 4094, or a range such as 100-199";

    fn read(text: &str) -> Option<VlanId> {
        VlanId::new(text.parse().ok()?)
    }

    fn number(self) -> u128 {
        self.0.into()
    }

    fn with_number(self, number: u128) -> VlanId {
        VlanId(number as u16)
    }
}

impl Value for MacAddr {
    const EXPECTED: &str = "a MAC address like 02:00:00:00:00:01, or a range 02:00:00:00:00:01-02:00:00:00:00:ff";

    fn read(text: &str) -> Option<MacAddr> {
        text.parse().ok()
    }

    fn number(self) -> u128 {
        self.octets().iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }

    fn with_number(self, number: u128) -> MacAddr {
        let [_, _, octets @ ..] = (number as u64).to_be_bytes();
        MacAddr(octets)
    }
}

impl Value for IpAddr {
    const EXPECTED: &str = "an address, a prefix, or a range such as 198.18.0.1-198.18.0.254 or random:2001:2::/64";

    fn read(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    fn number(self) -> u128 {
        match self {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    fn with_number(self, number: u128) -> IpAddr {
        match self {
            IpAddr::V4(_) => Ipv4Addr::from_bits(number as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(number).into(),
        }
    }

    fn same_kind(self, other: IpAddr) -> bool {
        self.is_ipv4() == other.is_ipv4()
    }

    fn read_set(text: &str) -> Option<Result<(IpAddr, IpAddr), String>> {
        let ends = |prefix: Prefix| (prefix.addr(), prefix.last());
        text.contains('/').then(|| text.parse().map(ends).map_err(|why| why.to_string()))
    }

    fn set_text(first: IpAddr, last: IpAddr) -> Option<String> {
        let bits: u32 = if first.is_ipv4() { 32 } else { 128 };
        let host = (first.number() ^ last.number()).checked_add(1).map_or(128, u128::trailing_zeros);
        let prefix = Prefix::new(first, (bits - host.min(bits)) as u8).ok()?;
        (prefix.last() == last).then(|| prefix.to_string())
    }
}

/// One value, or all values from a first to a last one, and the order that they are used in.
///
/// ```
/// use perigee_measure::traffic::{Order, Range};
///
/// let ports: Range<u16> = "random:1024-65535".parse().unwrap();
/// assert_eq!((ports.order(), ports.len()), (Order::Random, 64512));
/// assert_eq!(ports.to_string(), "random:1024-65535");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range<T> {
    order: Order,
    first: T,
    last: T,
}

impl<T: Value> Range<T> {
    /// The values from `first` to `last`.
    ///
    /// # Errors
    /// `last` is before `first`, or of another address family.
    pub fn new(order: Order, first: T, last: T) -> Result<Range<T>, TrafficError> {
        let found = || format!("{first}-{last}");
        if !first.same_kind(last) {
            return Err(TrafficError::MixedRange { found: found() });
        }
        if last.number() < first.number() {
            return Err(TrafficError::Empty { found: found() });
        }
        Ok(Range { order, first, last })
    }

    /// A single value.
    pub fn one(value: T) -> Range<T> {
        Range { order: Order::Sequential, first: value, last: value }
    }

    /// The order that the values are used in.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The first value.
    pub fn first(&self) -> T {
        self.first
    }

    /// The last value.
    pub fn last(&self) -> T {
        self.last
    }

    /// The number of values, at least 1; 2^128 counts as one less.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u128 {
        (self.last.number() - self.first.number()).saturating_add(1)
    }
}

impl<T: Value> fmt::Display for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.order.fmt(f)?;
        if self.first == self.last {
            return write!(f, "{}", self.first);
        }
        match T::set_text(self.first, self.last) {
            Some(text) => f.write_str(&text),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl<T: Value> FromStr for Range<T> {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Range<T>, TrafficError> {
        let (order, values) = Order::split(text)?;
        let ends = || {
            let (first, last) = values.split_once('-').unwrap_or((values, values));
            Some((T::read(first)?, T::read(last)?))
        };
        let (first, last) = match T::read_set(values) {
            Some(set) => set.map_err(|why| TrafficError::text(text, format!("{} ({why})", T::EXPECTED)))?,
            None => ends().ok_or_else(|| TrafficError::text(text, T::EXPECTED))?,
        };
        Range::new(order, first, last)
    }
}

/// The addresses that frames are sent from or to.
#[derive(Debug, Clone, PartialEq)]
pub enum Addresses {
    /// One address or a range.
    Range(Range<IpAddr>),
    /// A host of each route of a file: one prefix a line, of which only the first word counts; `#` begins a comment. A
    /// more specific route of the file may cover that host, too.
    Routes {
        /// The order that the routes are used in.
        order: Order,
        /// The file; whoever makes the traffic reads it.
        file: PathBuf,
    },
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Addresses::Range(range) => range.fmt(f),
            Addresses::Routes { order, file } => write!(f, "{order}routes:{}", file.display()),
        }
    }
}

impl FromStr for Addresses {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Addresses, TrafficError> {
        let (order, rest) = Order::split(text)?;
        match rest.strip_prefix("routes:") {
            Some("") => Err(TrafficError::text(text, "a file after \"routes:\", such as routes:table.txt")),
            Some(file) => Ok(Addresses::Routes { order, file: file.into() }),
            None => text.parse().map(Addresses::Range),
        }
    }
}

as_text! {
    Range<T>, T: Value;
    Addresses;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn both_ways<T: Value>(text: &str, first: &str, last: &str, order: Order) {
        let range: Range<T> = text.parse().unwrap();
        assert_eq!((range.first.to_string(), range.last.to_string()), (first.to_owned(), last.to_owned()), "{text}");
        assert_eq!((range.order, range.to_string()), (order, text.to_owned()));
        assert_eq!(serde_json::from_str::<Range<T>>(&serde_json::to_string(&range).unwrap()).unwrap(), range);
    }

    #[test]
    fn texts_are_read_and_written() {
        use Order::{Random, Sequential, Zipf};
        both_ways::<IpAddr>("198.18.0.1", "198.18.0.1", "198.18.0.1", Sequential);
        both_ways::<IpAddr>("198.18.0.1-198.18.0.254", "198.18.0.1", "198.18.0.254", Sequential);
        both_ways::<IpAddr>("198.18.0.0/24", "198.18.0.0", "198.18.0.255", Sequential);
        both_ways::<IpAddr>("random:198.18.0.0/16", "198.18.0.0", "198.18.255.255", Random);
        both_ways::<IpAddr>("zipf(1.1):198.18.0.0/16", "198.18.0.0", "198.18.255.255", Zipf(1.1));
        both_ways::<IpAddr>("0.0.0.0/0", "0.0.0.0", "255.255.255.255", Sequential);
        both_ways::<IpAddr>("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Sequential);
        both_ways::<IpAddr>("random:2001:2::/64", "2001:2::", "2001:2::ffff:ffff:ffff:ffff", Random);
        both_ways::<IpAddr>("2001:2::1-2001:2::9", "2001:2::1", "2001:2::9", Sequential);
        both_ways::<u16>("0-65535", "0", "65535", Sequential);
        both_ways::<u16>("zipf(0):7", "7", "7", Zipf(0.0));
        both_ways::<VlanId>("random:1-4094", "1", "4094", Random);
        both_ways::<MacAddr>(
            "02:00:00:00:00:01-02:00:00:00:01:00",
            "02:00:00:00:00:01",
            "02:00:00:00:01:00",
            Sequential,
        );
        assert_eq!("::/0".parse::<Range<IpAddr>>().unwrap().len(), u128::MAX);
        for text in ["routes:a b.txt", "random:routes:/x", "zipf(0.9):routes:x", "10.0.0.0/8"] {
            assert_eq!(text.parse::<Addresses>().unwrap().to_string(), text);
        }
        assert_eq!(serde_json::from_str::<Range<u16>>("53").unwrap(), Range::one(53));
        assert_eq!(serde_json::from_str::<Range<u16>>("53.0").unwrap(), Range::one(53));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Addresses>().unwrap_err().to_string();
        assert!(error("198.18.0.9-198.18.0.1").contains("is empty"));
        assert!(error("198.18.0.9-2001:2::").contains("address family"));
        for text in
            ["", "198.18.0", "198.18.0.1-", "198.18.0.1/24", "random", "zipf:10.0.0.0/8", "routes:", "10.0.0.0/33"]
        {
            assert!(error(text).starts_with("found \""), "{text}");
        }
        assert!(error("random:198.18.0.1/16").contains("expected 198.18.0.0/16"), "{}", error("random:198.18.0.1/16"));
        for text in ["zipf(-1):1-2", "zipf(nan):1-2", "zipf(inf):1-2", "zipf(11):1-2", "zipf():1-2", "zipf(1)1-2"] {
            assert!(text.parse::<Range<u16>>().unwrap_err().to_string().contains("exponent"), "{text}");
        }
        assert!("0".parse::<Range<VlanId>>().is_err() && "4095".parse::<Range<VlanId>>().is_err());
        assert!("65536".parse::<Range<u16>>().is_err() && "-1".parse::<Range<u16>>().is_err());
        assert!(
            serde_json::from_str::<Range<u16>>("-1").is_err() && serde_json::from_str::<Range<u16>>("1.5").is_err()
        );
    }

    proptest! {
        #[test]
        fn any_range_survives_its_text(a in any::<u128>(), b in any::<u128>(), v4 in any::<bool>(), same in 0u32..129, s in 0.0..10.0) {
            // Ends with many equal leading bits, so that prefixes come up.
            let b = if same == 0 { b } else { a ^ (b >> (same - 1)) };
            let make = |bits: u128| if v4 { IpAddr::V4((bits as u32).into()) } else { IpAddr::V6(bits.into()) };
            let (first, last) = (make(a.min(b)), make(a.max(b)));
            for order in [Order::Sequential, Order::Random, Order::Zipf(s)] {
                let Ok(range) = Range::new(order, first, last) else { continue };
                prop_assert_eq!(range.to_string().parse::<Range<IpAddr>>().unwrap(), range);
            }
            let host = 128 - same.min(128);
            let prefix = perigee_net::Prefix::truncated(make(a), if v4 { host.min(32) } else { host } as u8).unwrap();
            let range: Range<IpAddr> = prefix.to_string().parse().unwrap();
            let text = if prefix.addr() == prefix.last() { prefix.addr().to_string() } else { prefix.to_string() };
            prop_assert_eq!(range.to_string(), text);
        }
    }
}
