// SPDX-License-Identifier: MIT
//! The small values of the configuration: each is parsed from text, without knowing about files.

use std::str::FromStr;
use std::time::Duration;

/// A decimal number without a sign.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

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

/// A time as [`duration`] reads it, in the largest unit that is exact.
pub(super) fn duration_text(time: Duration) -> String {
    let micros = time.as_micros();
    let (factor, unit) = match micros {
        _ if micros.is_multiple_of(1_000_000) => (1_000_000, "s"),
        _ if micros.is_multiple_of(1_000) => (1_000, "ms"),
        _ => (1, "us"),
    };
    format!("{}{unit}", micros / factor)
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

/// A size as [`bytes`] reads it, in the largest unit that is exact.
pub(super) fn bytes_text(size: u64) -> String {
    let (shift, unit) = match size.trailing_zeros() {
        30.. => (30, "GB"),
        20.. => (20, "MB"),
        _ => (10, "KB"),
    };
    format!("{} {unit}", size >> shift)
}

/// Letters, digits, - and _, at least one.
pub(super) fn is_word(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !text.is_empty() && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        assert_eq!((bytes("4 KB"), bytes("2GB")), (Ok(4096), Ok(2 << 30)));
        for text in ["", "4", "4 kB", "4 TB", "-1 MB", "99999999999999999999 KB", "18014398509481985 KB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(duration("2ms"), Ok(Duration::from_millis(2)));
        for text in ["100us", "2ms", "1500us", "60s", "0s"] {
            assert_eq!(duration(text).map(duration_text), Ok(text.to_owned()));
        }
        for text in ["4 KB", "1025 KB", "256 MB", "1 GB"] {
            assert_eq!(bytes(text).map(bytes_text), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in ["", "10", "us", "1h", "99999999999999999999s", "18446744073709551615s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
