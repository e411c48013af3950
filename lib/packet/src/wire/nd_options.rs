// SPDX-License-Identifier: MIT
//! Options of neighbor discovery messages (RFC 4861 4.6).
//!
//! ```text
//! | type | length in units of 8 bytes, never 0 | body, length * 8 - 2 bytes |
//! ```

use std::net::Ipv6Addr;

use crate::wire::Malformed;
use crate::wire::bytes::{array, be32};
use perigee_net::MacAddr;

/// Type: source link-layer address.
pub const SOURCE_LINK_LAYER: u8 = 1;
/// Type: target link-layer address.
pub const TARGET_LINK_LAYER: u8 = 2;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdOption<'a> {
    /// The sender's MAC.
    SourceLinkLayer(MacAddr),
    /// The target's MAC.
    TargetLinkLayer(MacAddr),
    /// A prefix of the link.
    PrefixInformation {
        /// Leading bits that count.
        len: u8,
        /// Hosts with it are on this link.
        on_link: bool,
        /// Hosts may make addresses from it.
        autonomous: bool,
        /// Seconds.
        valid: u32,
        /// Seconds.
        preferred: u32,
        prefix: Ipv6Addr,
    },
    /// The start of the packet that caused a redirect.
    RedirectedHeader(&'a [u8]),
    /// The link's MTU, bytes of IPv6.
    Mtu(u32),
    /// Any other; to be ignored (RFC 4861 4.6).
    Unknown {
        /// Type.
        kind: u8,
        /// What follows the length byte.
        data: &'a [u8],
    },
}

/// Iterates over options. A wrong length is one error item, and the last: the message must be dropped (RFC 4861 4.6).
#[derive(Clone, Debug)]
pub struct NdOptions<'a> {
    rest: &'a [u8],
}

impl<'a> NdOptions<'a> {
    /// The options in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        NdOptions { rest: bytes }
    }

    /// The MAC in the first source link-layer option; every option must be well-formed.
    pub fn source_link_layer(&self) -> Result<Option<MacAddr>, Malformed> {
        self.find(|option| if let NdOption::SourceLinkLayer(mac) = option { Some(mac) } else { None })
    }

    /// The MAC in the first target link-layer option; every option must be well-formed.
    pub fn target_link_layer(&self) -> Result<Option<MacAddr>, Malformed> {
        self.find(|option| if let NdOption::TargetLinkLayer(mac) = option { Some(mac) } else { None })
    }

    fn find(&self, pick: impl Fn(NdOption<'a>) -> Option<MacAddr>) -> Result<Option<MacAddr>, Malformed> {
        self.clone().try_fold(None, |found: Option<MacAddr>, option| Ok(found.or(pick(option?))))
    }
}

impl<'a> Iterator for NdOptions<'a> {
    type Item = Result<NdOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        let len = rest.get(1).map_or(0, |&len| usize::from(len) * 8);
        let Some((option, after)) = rest.split_at_checked(len).filter(|_| len > 0) else {
            return Some(Err(Malformed::OptionLength));
        };
        let option = read(option);
        if option.is_ok() {
            self.rest = after;
        }
        Some(option)
    }
}

/// Reads one option of at least 8 bytes, type and length included.
fn read(option: &[u8]) -> Result<NdOption<'_>, Malformed> {
    match (option[0], option.len()) {
        // Ethernet's is always 8 bytes (RFC 2464 6).
        (SOURCE_LINK_LAYER, 8) => Ok(NdOption::SourceLinkLayer(MacAddr(array(option, 2)))),
        (TARGET_LINK_LAYER, 8) => Ok(NdOption::TargetLinkLayer(MacAddr(array(option, 2)))),
        (3, 32) => Ok(NdOption::PrefixInformation {
            len: option[2],
            on_link: option[3] & 0x80 != 0,
            autonomous: option[3] & 0x40 != 0,
            valid: be32(option, 4),
            preferred: be32(option, 8),
            prefix: Ipv6Addr::from(array::<16>(option, 16)),
        }),
        (4, _) => Ok(NdOption::RedirectedHeader(&option[8..])),
        (5, 8) => Ok(NdOption::Mtu(be32(option, 4))),
        (1 | 2 | 3 | 5, _) => Err(Malformed::OptionLength),
        (kind, _) => Ok(NdOption::Unknown { kind, data: &option[2..] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    #[test]
    fn reads_every_kind() {
        let prefix = b"\x03\x04\x40\xc0\x00\x01\x51\x80\x00\x00\x38\x40\x00\x00\x00\x00\
            \x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
        let bytes = [
            &b"\x01\x01\x02\x00\x00\x00\x00\x09\x02\x01\x02\x00\x00\x00\x00\x09"[..],
            prefix,
            b"\x04\x02\x00\x00\x00\x00\x00\x00\x60\x00\x00\x00\x00\x00\x3a\xff",
            b"\x05\x01\x00\x00\x00\x00\x05\xdc",
            b"\x0e\x01\x01\x02\x03\x04\x05\x06",
        ]
        .concat();
        let prefix = NdOption::PrefixInformation {
            len: 64,
            on_link: true,
            autonomous: true,
            valid: 86400,
            preferred: 14400,
            prefix: "2001:db8::".parse().unwrap(),
        };
        let expected = [
            NdOption::SourceLinkLayer(MAC),
            NdOption::TargetLinkLayer(MAC),
            prefix,
            NdOption::RedirectedHeader(&[0x60, 0, 0, 0, 0, 0, 0x3a, 0xff]),
            NdOption::Mtu(1500),
            NdOption::Unknown { kind: 14, data: &[1, 2, 3, 4, 5, 6] },
        ];
        assert_eq!(NdOptions::new(&bytes).map(Result::unwrap).collect::<Vec<_>>(), expected);
        assert_eq!(NdOptions::new(&bytes).source_link_layer(), Ok(Some(MAC)));
        assert_eq!(NdOptions::new(&bytes[8..]).source_link_layer(), Ok(None));
    }

    #[test]
    fn a_wrong_length_is_the_last_item_and_spoils_the_message() {
        let good = *b"\x02\x01\x02\x00\x00\x00\x00\x09";
        let bad: &[&[u8]] = &[
            b"\x0e\x00\x00\x00\x00\x00\x00\x00",               // zero would never advance
            b"\x0e",                                           // no length
            b"\x0e\x02\x00\x00\x00\x00\x00\x00",               // beyond the message
            b"\x0e\x01\x00\x00\x00\x00\x00",                   // one byte missing
            &[1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], // a MAC of 14 bytes
        ];
        for bad in bad {
            let bytes = [&good, *bad].concat();
            let items: Vec<_> = NdOptions::new(&bytes).collect();
            assert_eq!(items, [Ok(NdOption::TargetLinkLayer(MAC)), Err(Malformed::OptionLength)], "{bad:02x?}");
            assert_eq!(NdOptions::new(&bytes).target_link_layer(), Err(Malformed::OptionLength));
        }
    }
}
