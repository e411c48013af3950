// SPDX-License-Identifier: MIT
//! IPv4 options (RFC 791 3.1, RFC 2113, RFC 1812 5.2.4): what lies between a header's byte 20 and its end.
//!
//! ```text
//!  end, nop:          | type |
//!  router alert:      | 148  |  4  | value, 2 bytes |
//!  routes:            | type | len | pointer | address, 4 bytes | ...
//!  timestamp:         |  68  | len | pointer | overflow, flag | entries, 4 or 8 bytes each ...
//!  all others:        | type | len | data, len - 2 bytes |
//! ```
//!
//! The pointer counts from 1 at the type byte: 4 is the first address of a route.

use crate::Malformed;
use crate::wire::bytes::be16;

/// End of the options.
pub const END: u8 = 0;
/// No operation: padding.
pub const NOP: u8 = 1;
/// Record route.
pub const RECORD_ROUTE: u8 = 7;
/// Timestamp.
pub const TIMESTAMP: u8 = 68;
/// Loose source and record route.
pub const LOOSE_SOURCE_ROUTE: u8 = 131;
/// Strict source and record route.
pub const STRICT_SOURCE_ROUTE: u8 = 137;
/// Router alert (RFC 2113).
pub const ROUTER_ALERT: u8 = 148;

/// One option; `data` is what follows the fixed fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv4Option<'a> {
    /// The rest is padding; always the last item.
    End,
    /// One byte of padding.
    Nop,
    /// Every router adds its address.
    RecordRoute(Route<'a>),
    /// Every router adds a time of day.
    Timestamp {
        /// As [`Route::pointer`]; 5 is the first entry.
        pointer: u8,
        /// How many routers found no room, 0..=15.
        overflow: u8,
        /// 0: times; 1: addresses and times; 3: addresses given.
        flag: u8,
        /// The entries.
        data: &'a [u8],
    },
    /// Routers should look into the packet (RFC 2113); 0 is the only defined value.
    RouterAlert(u16),
    /// Through these routers and others.
    LooseSourceRoute(Route<'a>),
    /// Through exactly these routers.
    StrictSourceRoute(Route<'a>),
    /// Any other.
    Unknown {
        /// Type byte: copied flag, class, number.
        kind: u8,
        /// What follows the length byte.
        data: &'a [u8],
    },
}

/// The body of a route option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// Which byte of the option, counted from 1, comes next; beyond the length when the route is full or used up.
    pub pointer: u8,
    /// The addresses, 4 bytes each.
    pub data: &'a [u8],
}

/// Must a fragment but the first carry this option too (RFC 791 3.1, "copied flag")?
pub const fn is_copied(kind: u8) -> bool {
    kind & 0x80 != 0
}

/// Iterates over options. A wrong length is one error item, and the last.
#[derive(Clone, Debug)]
pub struct Ipv4Options<'a> {
    bytes: &'a [u8],
    next: usize,
    current: usize,
}

impl<'a> Ipv4Options<'a> {
    /// The options in `bytes`: the header from byte 20 to its end.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Ipv4Options { bytes, next: 0, current: 0 }
    }

    /// Where the last returned item starts, in bytes from the first option byte: 20 less than in the header. For an
    /// error too, as a parameter problem's pointer wants it.
    pub fn offset(&self) -> usize {
        self.current
    }

    fn read(&mut self) -> Result<Ipv4Option<'a>, Malformed> {
        let rest = &self.bytes[self.next..];
        self.current = self.next;
        match rest[0] {
            END => {
                self.next = self.bytes.len();
                return Ok(Ipv4Option::End);
            }
            NOP => {
                self.next += 1;
                return Ok(Ipv4Option::Nop);
            }
            _ => {}
        }
        let len = usize::from(*rest.get(1).ok_or(Malformed::OptionLength)?);
        let option = rest.get(..len).ok_or(Malformed::OptionLength)?;
        self.next += len;
        body(option)
    }
}

/// Reads one option, type and length byte included.
fn body(option: &[u8]) -> Result<Ipv4Option<'_>, Malformed> {
    match *option {
        [RECORD_ROUTE, _, pointer, ref data @ ..] => Ok(Ipv4Option::RecordRoute(route(pointer, data)?)),
        [LOOSE_SOURCE_ROUTE, _, pointer, ref data @ ..] => Ok(Ipv4Option::LooseSourceRoute(route(pointer, data)?)),
        [STRICT_SOURCE_ROUTE, _, pointer, ref data @ ..] => Ok(Ipv4Option::StrictSourceRoute(route(pointer, data)?)),
        // RFC 791: the smallest legal pointer is 5.
        [TIMESTAMP, _, pointer, bits, ref data @ ..] if pointer >= 5 && data.len().is_multiple_of(4) => {
            Ok(Ipv4Option::Timestamp { pointer, overflow: bits >> 4, flag: bits & 15, data })
        }
        [ROUTER_ALERT, 4, ..] => Ok(Ipv4Option::RouterAlert(be16(option, 2))),
        [RECORD_ROUTE | LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE | TIMESTAMP | ROUTER_ALERT, ..] => {
            Err(Malformed::OptionLength)
        }
        [kind, _, ref data @ ..] => Ok(Ipv4Option::Unknown { kind, data }),
        _ => Err(Malformed::OptionLength),
    }
}

/// RFC 791: the pointer is at least 4, and addresses are whole.
fn route(pointer: u8, data: &[u8]) -> Result<Route<'_>, Malformed> {
    if pointer < 4 || !data.len().is_multiple_of(4) {
        return Err(Malformed::OptionLength);
    }
    Ok(Route { pointer, data })
}

impl<'a> Iterator for Ipv4Options<'a> {
    type Item = Result<Ipv4Option<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.bytes.len() {
            return None;
        }
        let item = self.read();
        if item.is_err() {
            self.next = self.bytes.len();
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Result<Ipv4Option<'_>, Malformed>> {
        Ipv4Options::new(bytes).collect()
    }

    #[test]
    fn reads_every_kind() {
        let bytes = b"\x01\x07\x07\x08\x0a\x00\x00\x01\x94\x04\x00\x00\x44\x08\x05\x31\x00\x00\x00\x07";
        let route = Route { pointer: 8, data: &[10, 0, 0, 1] };
        let expected = [
            Ok(Ipv4Option::Nop),
            Ok(Ipv4Option::RecordRoute(route)),
            Ok(Ipv4Option::RouterAlert(0)),
            Ok(Ipv4Option::Timestamp { pointer: 5, overflow: 3, flag: 1, data: &[0, 0, 0, 7] }),
        ];
        assert_eq!(all(bytes), expected);
        let route = Route { pointer: 4, data: &[1, 2, 3, 4] };
        assert_eq!(
            all(b"\x83\x07\x04\x01\x02\x03\x04\0"),
            [Ok(Ipv4Option::LooseSourceRoute(route)), Ok(Ipv4Option::End)]
        );
        assert_eq!(
            all(b"\x89\x07\x04\x01\x02\x03\x04\0"),
            [Ok(Ipv4Option::StrictSourceRoute(route)), Ok(Ipv4Option::End)]
        );
        assert_eq!(all(b"\x82\x03\x09\0"), [Ok(Ipv4Option::Unknown { kind: 0x82, data: &[9] }), Ok(Ipv4Option::End)]);
    }

    #[test]
    fn end_hides_the_rest() {
        assert_eq!(all(b"\x00\x07\xff\xff"), [Ok(Ipv4Option::End)]);
    }

    #[test]
    fn a_wrong_length_is_the_last_item() {
        let bad: &[&[u8]] = &[
            b"\x82\x00\x01\x01",                 // length 0 would never advance
            b"\x82\x01\x01\x01",                 // shorter than type and length
            b"\x82\x05\x01\x01",                 // beyond the header
            b"\x82",                             // no length byte
            b"\x07\x02\x01\x01",                 // no pointer
            b"\x07\x07\x03\x00\x00\x00\x00\x00", // pointer into the option's own head
            b"\x07\x06\x04\x00\x00\x00\x00\x00", // three quarters of an address
            b"\x44\x04\x04\x00",                 // timestamp pointer below 5
            b"\x94\x03\x00\x00",                 // router alert of 3 bytes
        ];
        for bytes in bad {
            assert_eq!(all(bytes), [Err(Malformed::OptionLength)], "{bytes:02x?}");
        }
    }

    #[test]
    fn offset_points_at_the_bad_option() {
        let mut options = Ipv4Options::new(b"\x01\x94\x04\x00\x00\x82\xff\x00");
        assert!(options.by_ref().any(|item| item.is_err()));
        assert_eq!(options.offset(), 5);
    }

    #[test]
    fn copied_flag() {
        assert!(is_copied(ROUTER_ALERT) && is_copied(LOOSE_SOURCE_ROUTE) && !is_copied(RECORD_ROUTE));
    }
}
