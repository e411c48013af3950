// SPDX-License-Identifier: MIT
//! IPv6 extension headers (RFC 8200 4) and the options in them.
//!
//! ```text
//!  hop-by-hop, destination options, routing:  | next | len | ... |     (len + 1) * 8 bytes
//!  fragment:        | next | 0 | offset (13 bits), 0, M | identification, 4 bytes |     8 bytes
//!  authentication:  | next | len | ... |                (len + 2) * 4 bytes (RFC 4302 2.2)
//!  options:         | type | len | data |               Pad1 is one zero byte without length
//! ```
//!
//! The walk is bounded by the payload and by [`MAX_EXTENSIONS`]. It ends at the upper layer, at "no next header", at ESP
//! (what follows is encrypted), and at a fragment but the first (what follows is the middle of something).

use crate::bytes::{be16, be32};
use crate::{Malformed, ipv6, protocol};

/// More extension headers than this in one packet are refused; RFC 8200 4.1 knows at most seven.
pub const MAX_EXTENSIONS: usize = 8;

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Which: [`protocol::HOP_BY_HOP`], [`protocol::DESTINATION_OPTIONS`], [`protocol::ROUTING`],
    /// [`protocol::FRAGMENT`] or [`protocol::AUTHENTICATION`].
    pub kind: u8,
    /// What follows it.
    pub next_header: u8,
    /// Where it starts, in bytes from the IPv6 header's start.
    pub offset: usize,
    /// The whole of it, at least 8 bytes.
    pub bytes: &'a [u8],
}

impl<'a> Extension<'a> {
    /// The options of a hop-by-hop or destination options header; of others none.
    pub fn options(&self) -> Ipv6Options<'a> {
        let holds = matches!(self.kind, protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS);
        Ipv6Options::new(if holds { &self.bytes[2..] } else { &[] })
    }

    /// The fields of a fragment header.
    pub fn fragment(&self) -> Option<Fragment> {
        (self.kind == protocol::FRAGMENT).then(|| Fragment {
            offset: usize::from(be16(self.bytes, 2) & 0xfff8),
            more: self.bytes[3] & 1 != 0,
            identification: be32(self.bytes, 4),
        })
    }

    /// The type and the segments left of a routing header (RFC 8200 4.4).
    pub fn routing(&self) -> Option<(u8, u8)> {
        (self.kind == protocol::ROUTING).then(|| (self.bytes[2], self.bytes[3]))
    }
}

/// The fields of a fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where this piece lies in the fragmentable part, in bytes: a multiple of 8.
    pub offset: usize,
    /// More pieces follow.
    pub more: bool,
    /// Which packet it belongs to.
    pub identification: u32,
}

/// What the extension headers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer<'a> {
    /// Its number (see [`protocol`]); [`protocol::NO_NEXT_HEADER`] where there is none.
    pub protocol: u8,
    /// Where it starts, in bytes from the IPv6 header's start.
    pub offset: usize,
    /// From there to the end of the payload. Of a fragment but the first this is not its header.
    pub payload: &'a [u8],
    /// The fragment header on the way.
    pub fragment: Option<Fragment>,
}

impl UpperLayer<'_> {
    /// It is a piece of a larger packet. An "atomic" fragment, alone behind its fragment header, is not (RFC 6946).
    pub fn is_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.more || fragment.offset > 0)
    }

    /// The upper layer's header is here: the packet is not a fragment, or the first one.
    pub fn has_header(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.offset == 0)
    }
}

/// Iterates over extension headers. A malformed one is one error item, and the last.
#[derive(Clone, Debug)]
pub struct ExtensionHeaders<'a> {
    payload: &'a [u8],
    next_header: u8,
    at: usize,
    seen: usize,
    done: bool,
}

impl<'a> ExtensionHeaders<'a> {
    /// Those of a packet with this next header field and payload.
    #[inline]
    pub fn new(next_header: u8, payload: &'a [u8]) -> Self {
        ExtensionHeaders { payload, next_header, at: 0, seen: 0, done: false }
    }

    /// Goes on to the end: what is there, and where.
    #[inline]
    pub fn upper_layer(mut self) -> Result<UpperLayer<'a>, Malformed> {
        let mut fragment = None;
        for header in self.by_ref() {
            fragment = fragment.or(header?.fragment());
        }
        let payload = &self.payload[self.at..];
        Ok(UpperLayer { protocol: self.next_header, offset: ipv6::HEADER_LEN + self.at, payload, fragment })
    }

    /// Where the next header starts, in bytes from the IPv6 header's start; after an error, that of the refused one.
    pub fn offset(&self) -> usize {
        ipv6::HEADER_LEN + self.at
    }

    fn read(&mut self) -> Result<Extension<'a>, Malformed> {
        let kind = self.next_header;
        if kind == protocol::HOP_BY_HOP && self.seen > 0 {
            return Err(Malformed::ExtensionOrder);
        }
        if self.seen == MAX_EXTENSIONS {
            return Err(Malformed::ExtensionCount);
        }
        let rest = &self.payload[self.at..];
        let &[next_header, len, ..] = rest else { return Err(Malformed::ExtensionLength) };
        let len = match kind {
            protocol::FRAGMENT => 8,
            protocol::AUTHENTICATION => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        let bytes = rest.get(..len).ok_or(Malformed::ExtensionLength)?;
        let header = Extension { kind, next_header, offset: self.offset(), bytes };
        self.next_header = next_header;
        self.at += len;
        self.seen += 1;
        self.done = header.fragment().is_some_and(|fragment| fragment.offset > 0);
        Ok(header)
    }
}

impl<'a> Iterator for ExtensionHeaders<'a> {
    type Item = Result<Extension<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done || !is_extension(self.next_header) {
            return None;
        }
        let item = self.read();
        self.done |= item.is_err();
        Some(item)
    }
}

/// Is this next header an extension that [`ExtensionHeaders`] walks over?
#[inline]
pub const fn is_extension(next_header: u8) -> bool {
    use protocol::{AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(next_header, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS)
}

/// One option of a hop-by-hop or destination options header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6Option<'a> {
    /// One byte of padding.
    Pad1,
    /// So many bytes of padding, type and length byte included.
    PadN(usize),
    /// Routers should look into the packet (RFC 2711): 0 MLD, 1 RSVP, 2 active networks.
    RouterAlert(u16),
    /// The real payload length, bytes (RFC 2675).
    Jumbo(u32),
    /// Any other.
    Unknown {
        /// Type byte; [`unknown_action`] says what to do.
        kind: u8,
        /// What follows the length byte.
        data: &'a [u8],
    },
}

/// What a node does with an option that it does not know (RFC 8200 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownAction {
    /// Skip over it.
    Skip,
    /// Drop the packet.
    Discard,
    /// Drop it and send a parameter problem, code 2, pointing at the option type.
    DiscardAndReport,
    /// The same, but only where the destination was no group.
    DiscardAndReportUnicast,
}

/// What the two highest bits of an option type ask for (RFC 8200 4.2).
pub const fn unknown_action(kind: u8) -> UnknownAction {
    match kind >> 6 {
        0 => UnknownAction::Skip,
        1 => UnknownAction::Discard,
        2 => UnknownAction::DiscardAndReport,
        _ => UnknownAction::DiscardAndReportUnicast,
    }
}

/// Iterates over options. A wrong length is one error item, and the last.
#[derive(Clone, Debug)]
pub struct Ipv6Options<'a> {
    bytes: &'a [u8],
    next: usize,
    current: usize,
}

impl<'a> Ipv6Options<'a> {
    /// The options in `bytes`: an extension header from its third byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Ipv6Options { bytes, next: 0, current: 0 }
    }

    /// Where the last returned item starts, in bytes from the extension header's start; for an error too, as a parameter
    /// problem's pointer wants it.
    pub fn offset(&self) -> usize {
        2 + self.current
    }

    fn read(&mut self) -> Result<Ipv6Option<'a>, Malformed> {
        self.current = self.next;
        let rest = &self.bytes[self.next..];
        if rest[0] == 0 {
            self.next += 1;
            return Ok(Ipv6Option::Pad1);
        }
        let &[kind, len, ..] = rest else { return Err(Malformed::OptionLength) };
        let data = rest.get(2..2 + usize::from(len)).ok_or(Malformed::OptionLength)?;
        self.next += 2 + data.len();
        match (kind, data) {
            (1, data) => Ok(Ipv6Option::PadN(2 + data.len())),
            (5, &[high, low]) => Ok(Ipv6Option::RouterAlert(u16::from_be_bytes([high, low]))),
            (0xc2, &[a, b, c, d]) => Ok(Ipv6Option::Jumbo(u32::from_be_bytes([a, b, c, d]))),
            (5 | 0xc2, _) => Err(Malformed::OptionLength),
            (kind, data) => Ok(Ipv6Option::Unknown { kind, data }),
        }
    }
}

impl<'a> Iterator for Ipv6Options<'a> {
    type Item = Result<Ipv6Option<'a>, Malformed>;

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
