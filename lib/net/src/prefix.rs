// SPDX-License-Identifier: MIT
//! Address prefixes: an address without host bits and a length (RFC 4632 section 3.1, RFC 4291 section 2.3).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// An address as an integer in host order: `u32` for IPv4, `u128` for IPv6.
pub trait Address: Copy + Ord + fmt::Debug + Send + Sync + 'static {
    /// Number of bits, and so the longest prefix: 32 or 128.
    const BITS: u8;
    /// The first `len` bits, the others cleared. `len` is at most `BITS`.
    fn truncate(self, len: u8) -> Self;
    /// The first `len` bits, the others set. `len` is at most `BITS`.
    fn last(self, len: u8) -> Self;
    /// How many of the first bits are the same in both.
    fn common(self, other: Self) -> u8;
    /// The same address in the standard library's type.
    fn ip(self) -> IpAddr;
}

impl Address for u32 {
    const BITS: u8 = 32;
    fn truncate(self, len: u8) -> u32 {
        self & !u32::MAX.checked_shr(len.into()).unwrap_or(0)
    }
    fn last(self, len: u8) -> u32 {
        self | u32::MAX.checked_shr(len.into()).unwrap_or(0)
    }
    fn common(self, other: u32) -> u8 {
        (self ^ other).leading_zeros() as u8
    }
    fn ip(self) -> IpAddr {
        Ipv4Addr::from_bits(self).into()
    }
}

impl Address for u128 {
    const BITS: u8 = 128;
    fn truncate(self, len: u8) -> u128 {
        self & !u128::MAX.checked_shr(len.into()).unwrap_or(0)
    }
    fn last(self, len: u8) -> u128 {
        self | u128::MAX.checked_shr(len.into()).unwrap_or(0)
    }
    fn common(self, other: u128) -> u8 {
        (self ^ other).leading_zeros() as u8
    }
    fn ip(self) -> IpAddr {
        Ipv6Addr::from_bits(self).into()
    }
}

/// A prefix of one address family; use it as [`Prefix4`] or [`Prefix6`]. Ordered by address, then shorter first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixOf<A> {
    addr: A,
    len: u8,
}

/// An IPv4 prefix, its address in host order.
pub type Prefix4 = PrefixOf<u32>;
/// An IPv6 prefix, its address in host order.
pub type Prefix6 = PrefixOf<u128>;

impl<A: Address> PrefixOf<A> {
    /// A prefix of `len` bits; refuses host bits and lengths over the address's.
    pub fn new(addr: A, len: u8) -> Result<Self, PrefixError> {
        let prefix = Self::truncated(addr, len)?;
        if prefix.addr == addr {
            Ok(prefix)
        } else {
            Err(PrefixError::HostBits { address: addr.ip(), len, expected: prefix.addr.ip() })
        }
    }

    /// The prefix of `len` bits that `addr` is in: the network of an interface's address.
    pub fn truncated(addr: A, len: u8) -> Result<Self, PrefixError> {
        if len > A::BITS {
            return Err(PrefixError::Length { address: addr.ip(), len, longest: A::BITS });
        }
        Ok(Self { addr: addr.truncate(len), len })
    }

    /// The prefix that holds this one address.
    pub fn host(addr: A) -> Self {
        Self { addr, len: A::BITS }
    }

    /// The first address, in host order.
    pub fn addr(self) -> A {
        self.addr
    }

    /// The last address, in host order.
    pub fn last(self) -> A {
        self.addr.last(self.len)
    }

    /// Length in bits, 0 to 32 or 128.
    #[allow(clippy::len_without_is_empty)] // a length of 0 is the default route, not an empty one
    pub fn len(self) -> u8 {
        self.len
    }

    /// Whether `addr` lies in this prefix.
    pub fn contains(self, addr: A) -> bool {
        addr.truncate(self.len) == self.addr
    }
}

impl<A: Address> fmt::Display for PrefixOf<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr.ip(), self.len)
    }
}

impl<A: Address> fmt::Debug for PrefixOf<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix4 {
    type Err = PrefixError;
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        match text.parse()? {
            Prefix::V4(prefix) => Ok(prefix),
            Prefix::V6(_) => {
                Err(PrefixError::Syntax { text: text.to_owned(), expected: "an IPv4 prefix like 10.0.0.0/8" })
            }
        }
    }
}

impl FromStr for Prefix6 {
    type Err = PrefixError;
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        match text.parse()? {
            Prefix::V6(prefix) => Ok(prefix),
            Prefix::V4(_) => {
                Err(PrefixError::Syntax { text: text.to_owned(), expected: "an IPv6 prefix like 2001:db8::/32" })
            }
        }
    }
}

/// A prefix of either family. IPv4 is ordered before IPv6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    /// IPv4.
    V4(Prefix4),
    /// IPv6.
    V6(Prefix6),
}

impl Prefix {
    /// A prefix of `len` bits; refuses host bits and lengths over 32 or 128.
    pub fn new(addr: IpAddr, len: u8) -> Result<Self, PrefixError> {
        Ok(match addr {
            IpAddr::V4(addr) => Self::V4(PrefixOf::new(addr.to_bits(), len)?),
            IpAddr::V6(addr) => Self::V6(PrefixOf::new(addr.to_bits(), len)?),
        })
    }

    /// The prefix of `len` bits that `addr` is in: the connected network of an interface's address.
    pub fn truncated(addr: IpAddr, len: u8) -> Result<Self, PrefixError> {
        Ok(match addr {
            IpAddr::V4(addr) => Self::V4(PrefixOf::truncated(addr.to_bits(), len)?),
            IpAddr::V6(addr) => Self::V6(PrefixOf::truncated(addr.to_bits(), len)?),
        })
    }

    /// The prefix that the text ADDRESS/LENGTH lies in: as [`FromStr`] reads it, but host bits are cleared, not
    /// refused.
    pub fn around(text: &str) -> Result<Self, PrefixError> {
        let (addr, len) = Self::parts(text)?;
        Self::truncated(addr, len)
    }

    /// The prefix that holds this one address.
    pub fn host(addr: IpAddr) -> Self {
        match addr {
            IpAddr::V4(addr) => Self::V4(PrefixOf::host(addr.to_bits())),
            IpAddr::V6(addr) => Self::V6(PrefixOf::host(addr.to_bits())),
        }
    }

    /// The longest prefix of the family of `addr`: 32 or 128.
    pub const fn longest(addr: IpAddr) -> u8 {
        if addr.is_ipv4() { u32::BITS as u8 } else { u128::BITS as u8 }
    }

    /// Address and length of the text ADDRESS/LENGTH, as they are written.
    pub(crate) fn parts(text: &str) -> Result<(IpAddr, u8), PrefixError> {
        let syntax = || PrefixError::Syntax {
            text: text.to_owned(),
            expected: "ADDRESS/LENGTH like 10.0.0.0/8 or 2001:db8::/32",
        };
        let (addr, len) = text.split_once('/').ok_or_else(syntax)?;
        // u8's own parser would take "+8" and "0000008".
        if len.len() > 3 || !len.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(syntax());
        }
        Ok((addr.parse().map_err(|_| syntax())?, len.parse().map_err(|_| syntax())?))
    }

    /// Why no packet to an address of this prefix is ever forwarded by a route, if that is so: groups have routes of
    /// their own, and addresses of the machine, of the link alone and reserved ones are dropped or delivered (RFC
    /// 1812 5.3.7, RFC 4291 2.5.3, 2.5.6).
    pub fn never_forwarded(self) -> Option<&'static str> {
        let within = |first: IpAddr, len| {
            self.len() >= len && Self::truncated(self.addr(), len).is_ok_and(|p| p.addr() == first)
        };
        let v4 = |a, b, len| within(Ipv4Addr::new(a, b, 0, 0).into(), len);
        let v6 = |first, len| within(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).into(), len);
        match () {
            () if v4(224, 0, 4) || v6(0xff00, 8) => {
                Some("these are groups, which `[[multicast]]` and multicast routes are for")
            }
            () if v4(127, 0, 8) || self == Self::host(Ipv6Addr::LOCALHOST.into()) => {
                Some("these are loopback addresses")
            }
            () if v4(169, 254, 16) || v6(0xfe80, 10) => Some("these are link-local addresses"),
            () if v4(240, 0, 4) => Some("these addresses are reserved"),
            () if v4(0, 0, 8) => Some("these addresses are no destinations"),
            () => None,
        }
    }

    /// The first address.
    pub fn addr(self) -> IpAddr {
        match self {
            Self::V4(prefix) => prefix.addr().ip(),
            Self::V6(prefix) => prefix.addr().ip(),
        }
    }

    /// The last address.
    pub fn last(self) -> IpAddr {
        match self {
            Self::V4(prefix) => prefix.last().ip(),
            Self::V6(prefix) => prefix.last().ip(),
        }
    }

    /// Length in bits.
    #[allow(clippy::len_without_is_empty)] // a length of 0 is the default route, not an empty one
    pub fn len(self) -> u8 {
        match self {
            Self::V4(prefix) => prefix.len(),
            Self::V6(prefix) => prefix.len(),
        }
    }

    /// Whether `addr` lies in this prefix; never across families.
    pub fn contains(self, addr: IpAddr) -> bool {
        match (self, addr) {
            (Self::V4(prefix), IpAddr::V4(addr)) => prefix.contains(addr.to_bits()),
            (Self::V6(prefix), IpAddr::V6(addr)) => prefix.contains(addr.to_bits()),
            _ => false,
        }
    }
}

impl<A: Address> From<PrefixOf<A>> for Prefix {
    fn from(PrefixOf { addr, len }: PrefixOf<A>) -> Self {
        match addr.ip() {
            IpAddr::V4(addr) => Self::V4(PrefixOf { addr: addr.to_bits(), len }),
            IpAddr::V6(addr) => Self::V6(PrefixOf { addr: addr.to_bits(), len }),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(prefix) => prefix.fmt(f),
            Self::V6(prefix) => prefix.fmt(f),
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (addr, len) = Self::parts(text)?;
        Self::new(addr, len)
    }
}

/// Why something is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrefixError {
    /// Bits are set behind the prefix's length.
    #[error("{address}/{len} has bits set behind its length; expected {expected}/{len}")]
    HostBits {
        /// The address as given.
        address: IpAddr,
        /// The length as given.
        len: u8,
        /// The address without host bits.
        expected: IpAddr,
    },
    /// The length is over the family's.
    #[error("{address}/{len}: the length is too long; expected 0 to {longest}")]
    Length {
        /// The address as given.
        address: IpAddr,
        /// The length as given.
        len: u8,
        /// 32 or 128.
        longest: u8,
    },
    /// Not a prefix's text.
    #[error("\"{text}\" is not a prefix; expected {expected}")]
    Syntax {
        /// What was found.
        text: String,
        /// What was expected.
        expected: &'static str,
    },
}

/// Lets the tries of `prefix-trie` be keyed by these prefixes.
#[cfg(feature = "trie")]
macro_rules! trie_key {
    ($addr:ty) => {
        impl prefix_trie::Prefix for PrefixOf<$addr> {
            type R = $addr;
            fn repr(&self) -> $addr {
                self.addr
            }
            fn prefix_len(&self) -> u8 {
                self.len
            }
            fn from_repr_len(repr: $addr, len: u8) -> Self {
                Self { addr: repr.truncate(len), len }
            }
        }
    };
}
#[cfg(feature = "trie")]
trie_key!(u32);
#[cfg(feature = "trie")]
trie_key!(u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_there_and_back() {
        for text in ["0.0.0.0/0", "10.0.0.0/8", "192.0.2.1/32", "::/0", "2001:db8::/32", "::1/128"] {
            let prefix: Prefix = text.parse().expect(text);
            assert_eq!(prefix.to_string(), text);
        }
    }

    #[test]
    fn refusals_say_what_was_expected() {
        let why = |text: &str| text.parse::<Prefix>().expect_err(text).to_string();
        assert_eq!(why("10.1.2.3/8"), "10.1.2.3/8 has bits set behind its length; expected 10.0.0.0/8");
        assert_eq!(why("10.0.0.0/33"), "10.0.0.0/33: the length is too long; expected 0 to 32");
        assert_eq!(why("::1/129"), "::1/129: the length is too long; expected 0 to 128");
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/0008",
            "10.0.0.0/-1",
            "010.0.0.0/8",
            "::/1000",
            "x/8",
        ] {
            assert!(why(text).contains("expected ADDRESS/LENGTH"), "{text}");
        }
        assert_eq!(Prefix::around("10.1.2.3/8"), "10.0.0.0/8".parse());
        assert_eq!(Prefix::around("10.0.0.0/33"), "10.0.0.0/33".parse());
        assert!("::/0".parse::<Prefix4>().expect_err("v6").to_string().contains("an IPv4 prefix"));
        assert!("0.0.0.0/0".parse::<Prefix6>().expect_err("v4").to_string().contains("an IPv6 prefix"));
    }

    #[test]
    fn first_and_last_address() {
        for (text, last) in
            [("10.0.0.0/8", "10.255.255.255"), ("192.0.2.1/32", "192.0.2.1"), ("2001:db8::/127", "2001:db8::1")]
        {
            let prefix: Prefix = text.parse().expect(text);
            assert_eq!(
                (prefix.addr().to_string() + "/", prefix.last().to_string()),
                (text.split_inclusive('/').next().expect(text).to_owned(), last.to_owned())
            );
        }
        assert_eq!(Prefix4::new(0, 0).expect("default").last(), u32::MAX);
    }

    #[test]
    fn contains_at_the_edges() {
        let all = Prefix4::new(0, 0).expect("default");
        assert!(all.contains(0) && all.contains(u32::MAX));
        let net: Prefix4 = "10.0.0.0/8".parse().expect("net");
        assert!(net.contains(0x0a00_0000) && net.contains(0x0aff_ffff));
        assert!(!net.contains(0x09ff_ffff) && !net.contains(0x0b00_0000));
        assert!(Prefix6::host(7).contains(7) && !Prefix6::host(7).contains(6));
        assert!(!Prefix::V4(all).contains("::1".parse().expect("address")));
    }

    #[test]
    fn groups_and_addresses_of_a_link_or_machine_are_never_forwarded_to() {
        let never = |text: &str| text.parse::<Prefix>().expect(text).never_forwarded().is_some();
        for text in ["224.0.0.0/4", "239.1.0.0/16", "127.0.0.0/8", "127.0.0.1/32", "169.254.0.0/16", "240.0.0.0/4"] {
            assert!(never(text), "{text}");
        }
        for text in
            ["255.255.255.255/32", "0.0.0.0/8", "ff00::/8", "ff05::1/128", "fe80::/10", "fe80::1/128", "::1/128"]
        {
            assert!(never(text), "{text}");
        }
        for text in ["0.0.0.0/0", "224.0.0.0/3", "126.0.0.0/7", "169.254.0.0/15", "223.255.255.0/24", "0.0.0.0/7"] {
            assert!(!never(text), "{text}");
        }
        for text in ["::/0", "fe00::/7", "fe80::/9", "fec0::/10", "2001:db8::/32", "::/127", "::2/128"] {
            assert!(!never(text), "{text}");
        }
    }

    #[test]
    fn ordered_by_address_then_shorter_first() {
        let mut prefixes: Vec<Prefix> =
            ["10.0.0.0/16", "::/0", "10.0.0.0/8", "9.0.0.0/8"].map(|text| text.parse().expect(text)).to_vec();
        prefixes.sort();
        let texts: Vec<String> = prefixes.iter().map(Prefix::to_string).collect();
        assert_eq!(texts, ["9.0.0.0/8", "10.0.0.0/8", "10.0.0.0/16", "::/0"]);
    }
}
