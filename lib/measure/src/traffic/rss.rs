// SPDX-License-Identifier: MIT
//! Receive side scaling: flows that a device's hash spreads evenly over queues, or that all go to one.
//!
//! The hash is Toeplitz's ("RSS hashing functions", Microsoft) over addresses and ports, or over the addresses alone
//! for ICMP. Its lowest bits choose an entry of the redirection table; entry i leads to queue i modulo their number, as
//! DPDK, Linux and perigee set it.

use std::fmt;
use std::str::FromStr;

use super::error::TrafficError;
use super::text::as_text;

/// Microsoft's default key, which most devices start with.
pub const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// The key 6d5a repeated: both directions of a flow get one hash (Woo, Park: "Scalable TCP session monitoring with
/// symmetric receive-side scaling", 2012).
pub const SYMMETRIC_KEY: [u8; 40] = {
    let mut key = [0x6d; 40];
    let mut at = 1;
    while at < key.len() {
        key[at] = 0x5a;
        at += 2;
    }
    key
};

/// The most bytes of a key, and the fewest: those that IPv6 with ports needs.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 40..=64;
/// The largest redirection table.
const LARGEST_TABLE: u16 = 4096;

const EXPECTED: &str = "a number of queues such as 4, or one of them such as 2/4 (from 0), then optionally ,key=microsoft, \
                        ,key=symmetric or ,key= and 40 to 64 bytes in hex, and ,table=128";

/// How receive side scaling treats the flows.
///
/// ```text
/// 4                                evenly over 4 queues, flow i on queue i modulo 4
/// 2/4                              all on the third of 4 queues
/// 4,key=symmetric,table=512        another key and table than Microsoft's key and 128 entries
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rss {
    /// Queues, at least 1.
    queues: u16,
    /// The queue that all flows go to; `None`: spread.
    queue: Option<u16>,
    key: Vec<u8>,
    /// Entries of the redirection table, a power of two.
    table: u16,
}

impl Rss {
    /// The number of queues.
    pub fn queues(&self) -> u16 {
        self.queues
    }

    /// The queue that all flows go to; `None` if they are spread evenly.
    pub fn queue(&self) -> Option<u16> {
        self.queue
    }

    /// The queue that a flow with this number is to go to.
    pub(crate) fn wanted(&self, flow: u64) -> u16 {
        self.queue.unwrap_or((flow % u64::from(self.queues)) as u16)
    }

    /// The queue that a packet goes to. `input` holds its source and destination address and ports, as on the wire.
    pub fn queue_of(&self, input: &[u8]) -> u16 {
        (toeplitz(&self.key, input) % u32::from(self.table)) as u16 % self.queues
    }
}

/// The Toeplitz hash of `input`: for each bit of it that is set, the 32 bits of the key from there on. Behind the key's
/// end are zeros.
pub fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let byte = |at: usize| key.get(at).copied().unwrap_or(0);
    let mut hash = 0;
    let mut window = u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)]);
    for (at, &bits) in input.iter().enumerate() {
        for bit in (0..8).rev() {
            if bits >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(byte(at + 4) >> bit & 1);
        }
    }
    hash
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let good = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    good.then(|| digits.chunks(2).map(byte).collect()).flatten()
}

impl FromStr for Rss {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Rss, TrafficError> {
        let wrong = || TrafficError::text(text, EXPECTED);
        let mut parts = text.split(',');
        let queues = parts.next().unwrap_or_default();
        let (queue, queues) = match queues.split_once('/') {
            Some((queue, queues)) => (Some(queue.parse().map_err(|_| wrong())?), queues),
            None => (None, queues),
        };
        let mut rss =
            Rss { queues: queues.parse().map_err(|_| wrong())?, queue, key: MICROSOFT_KEY.to_vec(), table: 128 };
        for part in parts {
            match part.split_once('=') {
                Some(("key", "microsoft")) => rss.key = MICROSOFT_KEY.to_vec(),
                Some(("key", "symmetric")) => rss.key = SYMMETRIC_KEY.to_vec(),
                Some(("key", key)) => {
                    rss.key = hex(key).filter(|key| KEY_BYTES.contains(&key.len())).ok_or_else(wrong)?
                }
                Some(("table", entries)) => rss.table = entries.parse().map_err(|_| wrong())?,
                _ => return Err(wrong()),
            }
        }
        if !rss.table.is_power_of_two() || rss.table > LARGEST_TABLE {
            return Err(TrafficError::text(text, "a table with a power of two of entries, at most 4096"));
        }
        if !(1..=rss.table).contains(&rss.queues) || rss.queue.is_some_and(|queue| queue >= rss.queues) {
            return Err(TrafficError::text(
                text,
                "at least 1 queue, at most as many as the table has entries, counted from 0",
            ));
        }
        Ok(rss)
    }
}

impl fmt::Display for Rss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(queue) = self.queue {
            write!(f, "{queue}/")?;
        }
        write!(f, "{}", self.queues)?;
        if self.key == SYMMETRIC_KEY {
            f.write_str(",key=symmetric")?;
        } else if self.key != MICROSOFT_KEY {
            f.write_str(",key=")?;
            self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        if self.table == 128 { Ok(()) } else { write!(f, ",table={}", self.table) }
    }
}

as_text! { Rss; }

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// "Verifying the RSS Hash Calculation", Microsoft: destination, source, hash with ports, hash of addresses alone.
    #[test]
    fn hashes_are_microsofts() {
        let vectors = [
            ("161.142.100.80", 1766u16, "66.9.149.187", 2794u16, 0x51cc_c178, 0x323e_8fc2),
            ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xc626_b0ea, 0xd718_262a),
            ("12.22.207.184", 38024, "24.19.198.95", 12898, 0x5c2b_394a, 0xd2d0_a5de),
        ];
        for (destination, to, source, from, with_ports, addresses) in vectors {
            let octets = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
            let input = [&octets(source)[..], &octets(destination), &from.to_be_bytes(), &to.to_be_bytes()].concat();
            assert_eq!(toeplitz(&MICROSOFT_KEY, &input), with_ports);
            assert_eq!(toeplitz(&MICROSOFT_KEY, &input[..8]), addresses);
        }
        // Microsoft's first vector of IPv6.
        let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let input = [octets("3ffe:2501:200:1fff::7"), octets("3ffe:2501:200:3::1")].concat();
        assert_eq!(toeplitz(&MICROSOFT_KEY, &input), 0x2cc1_8cd5);
        let input = [&input[..], &2794u16.to_be_bytes(), &1766u16.to_be_bytes()].concat();
        assert_eq!(toeplitz(&MICROSOFT_KEY, &input), 0x4020_7d3d);
    }

    #[test]
    fn the_symmetric_key_is() {
        let (a, b) = ([10, 0, 0, 1], [192, 0, 2, 77]);
        let there = [&a[..], &b, &[4, 1], &[0, 53]].concat();
        let back = [&b[..], &a, &[0, 53], &[4, 1]].concat();
        assert_eq!(toeplitz(&SYMMETRIC_KEY, &there), toeplitz(&SYMMETRIC_KEY, &back));
        assert_ne!(toeplitz(&MICROSOFT_KEY, &there), toeplitz(&MICROSOFT_KEY, &back));
    }

    #[test]
    fn texts_are_read_and_written() {
        let hex = format!("3/8,key={},table=256", "0123456789abcdef".repeat(5));
        for text in ["4", "2/4", "1", "4,key=symmetric", "4,table=512", &hex] {
            let rss: Rss = text.parse().unwrap();
            assert_eq!(rss.to_string(), text);
            assert_eq!(serde_json::from_str::<Rss>(&serde_json::to_string(&rss).unwrap()).unwrap(), rss);
        }
        assert_eq!("4,key=microsoft,table=128".parse::<Rss>().unwrap(), serde_json::from_str("4").unwrap());
        for text in [
            "",
            "0",
            "4/4",
            "x",
            "4,key=6d",
            "4,table=100",
            "129",
            "4,table=8192",
            "4,foo=1",
            "4,key",
            "/4",
            "4/",
            "65536",
        ] {
            let error = text.parse::<Rss>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("found {text:?}, expected")), "{error}");
        }
    }
}
