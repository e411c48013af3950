// SPDX-License-Identifier: MIT
//! The layout of netlink messages (RFC 3549 2.2, 2.3; linux/netlink.h, linux/rtnetlink.h): headers, attributes,
//! numbers.

/// A message or attribute is shorter than it says, or lacks a mandatory part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Bytes of a message's header (struct nlmsghdr).
pub const HEADER: usize = 16;

/// Kinds of messages.
pub mod kind {
    pub const NOOP: u16 = 1;
    pub const ERROR: u16 = 2;
    pub const DONE: u16 = 3;
    pub const OVERRUN: u16 = 4;
    pub const NEW_LINK: u16 = 16;
    pub const DEL_LINK: u16 = 17;
    pub const GET_LINK: u16 = 18;
    pub const NEW_ADDRESS: u16 = 20;
    pub const DEL_ADDRESS: u16 = 21;
    pub const GET_ADDRESS: u16 = 22;
    pub const NEW_ROUTE: u16 = 24;
    pub const DEL_ROUTE: u16 = 25;
    pub const GET_ROUTE: u16 = 26;
    pub const NEW_NEIGHBOR: u16 = 28;
    pub const DEL_NEIGHBOR: u16 = 29;
    pub const GET_NEIGHBOR: u16 = 30;
    pub const NEW_RULE: u16 = 32;
    pub const DEL_RULE: u16 = 33;
    pub const GET_RULE: u16 = 34;
    pub const NEW_NETWORK_SETTINGS: u16 = 80;
    pub const DEL_NETWORK_SETTINGS: u16 = 81;
    pub const GET_NETWORK_SETTINGS: u16 = 82;
    pub const NEW_STATISTICS: u16 = 92;
    pub const GET_STATISTICS: u16 = 94;
    pub const NEW_NEXT_HOP: u16 = 104;
    pub const DEL_NEXT_HOP: u16 = 105;
    pub const GET_NEXT_HOP: u16 = 106;
}

/// Flags of messages.
pub mod flag {
    pub const REQUEST: u16 = 0x001;
    pub const DUMP_INTERRUPTED: u16 = 0x010;
    pub const DUMP: u16 = 0x300;
    pub const REPLACE: u16 = 0x100;
    pub const APPEND: u16 = 0x800;
}

/// Any address family.
pub const AF_UNSPEC: u8 = 0;
/// The address family of IPv4.
pub const AF_INET: u8 = 2;
/// The address family of IPv6.
pub const AF_INET6: u8 = 10;

/// The flag of a neighbor that is an address of another station, for which the machine answers (NTF_PROXY).
pub const NEIGHBOR_PROXY: u8 = 0x08;

/// The family of IPv4's multicast routes (RTNL_FAMILY_IPMR).
pub const FAMILY_MULTICAST4: u8 = 128;
/// The family of IPv6's multicast routes (RTNL_FAMILY_IP6MR).
pub const FAMILY_MULTICAST6: u8 = 129;

/// A message: its header, and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// See [`kind`].
    pub kind: u16,
    /// See [`flag`].
    pub flags: u16,
    /// The number of the request that it answers; 0 in a notification.
    pub sequence: u32,
    /// What follows the header.
    pub body: &'a [u8],
}

/// Iterates over the messages of a datagram. A malformed one is the last.
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Raw<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.0);
        let length = u32_at(bytes, 0).map_or(0, |length| length as usize);
        if length < HEADER || length > bytes.len() {
            return Some(Err(Malformed));
        }
        self.0 = bytes.get(aligned(length)..).unwrap_or_default();
        Some(Ok(Raw {
            kind: u16_at(bytes, 4).unwrap_or(0),
            flags: u16_at(bytes, 6).unwrap_or(0),
            sequence: u32_at(bytes, 8).unwrap_or(0),
            body: &bytes[HEADER..length],
        }))
    }
}

/// Iterates over the attributes (struct rtattr) behind a message's fixed part, each with its kind. A malformed one is
/// the last.
#[derive(Clone)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Fewer bytes than an attribute's header are padding.
        if self.0.len() < 4 {
            return None;
        }
        let bytes = std::mem::take(&mut self.0);
        let length = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        // The two highest bits mark nested attributes and network byte order.
        let kind = u16::from_ne_bytes([bytes[2], bytes[3]]) & 0x3fff;
        if length < 4 || length > bytes.len() {
            return Some(Err(Malformed));
        }
        self.0 = bytes.get(aligned(length)..).unwrap_or_default();
        Some(Ok((kind, &bytes[4..length])))
    }
}

const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

/// Reads two bytes as a number in the machine's byte order.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Reads four bytes as a number in the machine's byte order.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A request to dump everything of a kind: a header, and a fixed part of `length` bytes in which only the family is
/// set.
pub fn dump_request(kind: u16, family: u8, length: usize, sequence: u32) -> Vec<u8> {
    let mut request = vec![0; HEADER + length];
    request[0..4].copy_from_slice(&((HEADER + length) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&kind.to_ne_bytes());
    request[6..8].copy_from_slice(&(flag::REQUEST | flag::DUMP).to_ne_bytes());
    request[8..12].copy_from_slice(&sequence.to_ne_bytes());
    request[HEADER] = family;
    request
}

/// A request to dump the addresses of others that the machine answers for: of neighbors, a dump names the others alone.
pub fn proxies_request(sequence: u32) -> Vec<u8> {
    let mut request = dump_request(kind::GET_NEIGHBOR, AF_UNSPEC, 12, sequence);
    request[HEADER + 10] = NEIGHBOR_PROXY;
    request
}
