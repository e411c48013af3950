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
//! The walk is bounded by the payload and by [`MAX_EXTENSIONS`]. It ends at the upper layer, at "no next header", at
//! ESP (what follows is encrypted), and at any fragment but the first (what follows is not a header).

use crate::wire::bytes::{be16, be32};
use crate::wire::{Malformed, ipv6, protocol};

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
    /// The extension headers of a packet with this next header field and payload.
    #[inline]
    pub fn new(next_header: u8, payload: &'a [u8]) -> Self {
        ExtensionHeaders { payload, next_header, at: 0, seen: 0, done: false }
    }

    /// Walks to the end; returns what is there, and where.
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
    /// This many bytes of padding, type and length byte included.
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
    /// Like [`DiscardAndReport`](Self::DiscardAndReport), but report only if the destination was not a group.
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

    /// Where the last returned item starts, in bytes from the extension header's start; for an error too, as a
    /// parameter problem's pointer wants it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ipv6;
    use crate::wire::captured::{self, layer};

    /// Hop-by-hop, routing, authentication, first fragment, destination options, then 4 bytes of UDP.
    const CHAIN: &[u8] = b"\x2b\x00\x05\x02\x00\x00\x01\x00\
        \x33\x00\x04\x01\x00\x00\x00\x00\
        \x2c\x02\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\
        \x3c\x00\x00\x01\x01\x02\x03\x04\
        \x11\x00\x01\x04\x00\x00\x00\x00\
        \x00\x35\x00\x35";

    #[test]
    fn walks_every_kind() {
        let headers: Vec<_> = ExtensionHeaders::new(0, CHAIN).map(Result::unwrap).collect();
        let kinds: Vec<_> = headers.iter().map(|header| (header.kind, header.offset)).collect();
        assert_eq!(kinds, [(0, 40), (43, 48), (51, 56), (44, 72), (60, 80)]);
        let options: Vec<_> = headers[0].options().map(Result::unwrap).collect();
        assert_eq!(options, [Ipv6Option::RouterAlert(0), Ipv6Option::PadN(2)]);
        assert_eq!(headers[1].routing(), Some((4, 1)));
        let fragment = Fragment { offset: 0, more: true, identification: 0x0102_0304 };
        assert_eq!(headers[3].fragment(), Some(fragment));
        assert_eq!(headers[4].options().collect::<Vec<_>>(), [Ok(Ipv6Option::PadN(6))]);
        assert_eq!((headers[0].routing(), headers[0].fragment(), headers[1].options().next()), (None, None, None));

        let upper = ExtensionHeaders::new(0, CHAIN).upper_layer().unwrap();
        let expected = UpperLayer { protocol: 17, offset: 88, payload: &CHAIN[48..], fragment: Some(fragment) };
        assert_eq!(upper, expected);
        assert!(upper.has_header() && upper.is_fragment());
    }

    #[test]
    fn a_real_router_alert() {
        let bytes = layer(captured::MLD_REPORT, 14);
        let packet = Ipv6::new(&bytes[..]).unwrap();
        let header = packet.extension_headers().next().unwrap().unwrap();
        assert_eq!(header.options().next(), Some(Ok(Ipv6Option::RouterAlert(0))));
        let upper = packet.upper_layer().unwrap();
        assert_eq!((upper.protocol, upper.offset), (protocol::ICMPV6, 48));
    }

    #[test]
    fn cut_off_chains_are_errors() {
        for len in 0..48 {
            let got = ExtensionHeaders::new(0, &CHAIN[..len]).upper_layer();
            assert_eq!(got, Err(Malformed::ExtensionLength), "{len} bytes");
        }
        assert!(ExtensionHeaders::new(0, &CHAIN[..48]).upper_layer().unwrap().payload.is_empty());
    }

    #[test]
    fn a_later_fragment_ends_the_walk() {
        // Offset 8, and what follows looks like a header of 255 * 8 bytes.
        let mut headers = ExtensionHeaders::new(44, b"\x3c\x00\x00\x08\x00\x00\x00\x07\x11\xff");
        let upper = headers.clone().upper_layer().unwrap();
        assert_eq!((upper.protocol, upper.offset, upper.has_header()), (60, 48, false));
        assert!(headers.next().unwrap().is_ok() && headers.next().is_none());
    }

    #[test]
    fn an_atomic_fragment_is_whole() {
        let upper = ExtensionHeaders::new(44, b"\x11\x00\x00\x00\x00\x00\x00\x07").upper_layer().unwrap();
        assert!(upper.has_header() && !upper.is_fragment() && upper.fragment.is_some());
    }

    #[test]
    fn order_and_count() {
        let late = b"\x00\x00\x01\x04\x00\x00\x00\x00\x11\x00\x01\x04\x00\x00\x00\x00";
        let mut headers = ExtensionHeaders::new(60, late);
        assert_eq!(headers.by_ref().last(), Some(Err(Malformed::ExtensionOrder)));
        assert_eq!(headers.offset(), 48);
        let endless = b"\x3c\x00\x01\x04\x00\x00\x00\x00".repeat(9);
        let headers: Vec<_> = ExtensionHeaders::new(60, &endless).collect();
        assert_eq!((headers.len(), headers.last()), (9, Some(&Err(Malformed::ExtensionCount))));
        let full = [&endless[..56], b"\x3b\x00\x01\x04\x00\x00\x00\x00"].concat();
        assert_eq!(
            ExtensionHeaders::new(60, &full).upper_layer().map(|upper| upper.protocol),
            Ok(protocol::NO_NEXT_HEADER)
        );
    }

    #[test]
    fn options() {
        let all = |bytes| Ipv6Options::new(bytes).collect::<Vec<_>>();
        assert_eq!(all(b"\xc2\x04\x00\x01\x00\x00"), [Ok(Ipv6Option::Jumbo(65536))]);
        let unknown = Ipv6Option::Unknown { kind: 0x3e, data: &[7] };
        assert_eq!(all(b"\x00\x3e\x01\x07\x01\x00"), [Ok(Ipv6Option::Pad1), Ok(unknown), Ok(Ipv6Option::PadN(2))]);
        for bad in [&b"\x3e"[..], b"\x3e\x05\x00\x00\x00\x00", b"\x05\x01\x00\x00\x00\x00", b"\xc2\x02\x00\x00\x00\x00"]
        {
            assert_eq!(all(bad), [Err(Malformed::OptionLength)], "{bad:02x?}");
        }
        let mut options = Ipv6Options::new(b"\x00\x00\xbe\x7f\x00\x00");
        assert!(options.any(|option| option.is_err()));
        assert_eq!(options.offset(), 4);
    }

    #[test]
    fn actions_of_unknown_options() {
        let actions = [0x3e, 0x7e, 0xbe, 0xfe].map(unknown_action);
        use UnknownAction::{Discard, DiscardAndReport, DiscardAndReportUnicast, Skip};
        assert_eq!(actions, [Skip, Discard, DiscardAndReport, DiscardAndReportUnicast]);
    }
}
