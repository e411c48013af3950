// SPDX-License-Identifier: MIT
//! The small values of the configuration: each parses from text, prints itself back, and knows nothing of files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A MAC address, its bytes in the order of the wire. Prints as `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether one station can own it: not a group address (IEEE 802 8.2), not all zero.
    pub fn is_station(&self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = part
                .and_then(|p| u8::from_str_radix(p, 16).ok())
                .ok_or("not six pairs of hexadecimal digits with colons between")?;
        }
        match parts.next() {
            Some(_) => Err("more than six bytes".into()),
            None => Ok(Self(bytes)),
        }
    }
}

/// A network namespace: by name (`/run/netns/NAME`), by path, or that of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Namespace {
    /// As `ip netns add` makes it, under `/run/netns`.
    Name(String),
    /// Any bind mount of a namespace; begins with `/`.
    Path(PathBuf),
    /// That of this process.
    Pid(u32),
}

impl Namespace {
    /// The file to open to enter it.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Name(name) => PathBuf::from("/run/netns").join(name),
            Self::Path(path) => path.clone(),
            Self::Pid(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Pid(pid) => write!(f, "{pid}"),
        }
    }
}

impl FromStr for Namespace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::Path(text.into()));
        }
        if let Ok(pid) = text.parse() {
            return Ok(Self::Pid(pid));
        }
        let odd = text.is_empty() || text.contains(['/', '\0']) || text == "." || text == "..";
        match odd {
            true => Err("no name of a namespace".into()),
            false => Ok(Self::Name(text.into())),
        }
    }
}

/// Both ends included; as text `80` or `1024-65535`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortRange {
    /// The lowest TCP or UDP port that matches.
    pub first: u16,
    /// The highest one.
    pub last: u16,
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| digits(text).ok_or("not a number up to 65535");
        let (first, last) = (number(first)?, number(last)?);
        match first <= last {
            true => Ok(Self { first, last }),
            false => Err("the end is before the beginning".into()),
        }
    }
}

/// A decimal number without a sign.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// `From<X> for String` and `TryFrom<String> for X` by way of Display and FromStr, as serde wants them.
macro_rules! as_text {
    ($($kind:ty),*) => {$(
        impl From<$kind> for String {
            fn from(value: $kind) -> String {
                value.to_string()
            }
        }

        impl TryFrom<String> for $kind {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
    )*};
}
as_text!(Mac, Namespace, PortRange);

/// Protocol numbers (IANA) that a filter may name.
const PROTOCOLS: [(&str, u8); 9] = [
    ("icmp", 1),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("sctp", 132),
];

/// The protocol number behind `tcp`, `udp`, ...
pub(super) fn protocol(name: &str) -> Option<u8> {
    Some(PROTOCOLS.iter().find(|(known, _)| *known == name)?.1)
}

/// Whether packets of this protocol begin with a source and a destination port.
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132)
}

/// Ethernet types (IANA, IEEE) that a hardware filter may name.
const ETHERTYPES: [(&str, u16); 5] =
    [("ipv4", 0x0800), ("arp", 0x0806), ("ipv6", 0x86dd), ("lacp", 0x8809), ("lldp", 0x88cc)];

/// The Ethernet type behind `arp`, `lldp`, ...
pub(super) fn ethertype(name: &str) -> Option<u16> {
    Some(ETHERTYPES.iter().find(|(known, _)| *known == name)?.1)
}

/// A time such as `100us`, `2ms` or `1s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or("it has no unit")?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return Err("its unit is not us, ms or s".into()),
    };
    let micros = digits::<u64>(number).and_then(|n| n.checked_mul(factor));
    micros.map(Duration::from_micros).ok_or_else(String::new)
}

/// A size such as `4 KB`, `256 MB` or `1 GB`, in units of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or("it has no unit")?;
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim_start() {
        "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        _ => return Err("its unit is not KB, MB or GB".into()),
    };
    digits::<u64>(number).and_then(|n| n.checked_mul(1 << shift)).ok_or_else(String::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_they_parse() {
        for text in ["02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff"] {
            assert_eq!(text.parse::<Mac>().unwrap().to_string(), text);
        }
        for text in ["blue", "/proc/1/ns/net", "4711"] {
            assert_eq!(text.parse::<Namespace>().unwrap().to_string(), text);
        }
        for text in ["80", "1024-65535"] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), text);
        }
        assert_eq!((bytes("4 KB"), bytes("2GB")), (Ok(4096), Ok(2 << 30)));
        for text in ["", "4", "4 kB", "4 TB", "-1 MB", "99999999999999999999 KB", "18014398509481985 KB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(duration("2ms"), Ok(Duration::from_millis(2)));
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "0x:00:00:00:00:01", "+2:00:00:00:00:01"] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
        for text in ["", "..", "a/b"] {
            assert!(text.parse::<Namespace>().is_err(), "{text}");
        }
        for text in ["", "-", "70000", "9-1", "+1"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
        for text in ["", "10", "us", "1h", "99999999999999999999s", "18446744073709551615s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
