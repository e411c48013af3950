// SPDX-License-Identifier: MIT
//! ICMPv6 (RFC 4443) and neighbor discovery (RFC 4861 4).
//!
//! ```text
//!  0      1      2          4                                8
//! +------+------+----------+--------------------------------+---------
//! | type | code | checksum | rest, by type                  | body
//! +------+------+----------+--------------------------------+---------
//!   1    unreachable        | 0                              | quoted packet
//!   2    packet too big     | MTU                            | quoted packet
//!   3    time exceeded      | 0                              | quoted packet
//!   4    parameter problem  | pointer                        | quoted packet
//!   128, 129 echo           | identifier | sequence          | data
//!   133  router solicit.    | 0                              | options
//!   134  router advertis.   | hop limit | M O | lifetime     | reachable, retrans, options
//!   135  neighbor solicit.  | 0                              | target, options
//!   136  neighbor advertis. | R S O                          | target, options
//!   137  redirect           | 0                              | target, destination, options
//! ```

use std::net::Ipv6Addr;

use crate::wire::bytes::{array, be16, be32, put, put16};
use crate::wire::nd_options::{self, NdOptions};
use crate::wire::{Malformed, checksum, protocol};
use perigee_net::MacAddr;

/// Bytes before the body.
pub const HEADER_LEN: usize = 8;

/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Type: packet too big.
pub const PACKET_TOO_BIG: u8 = 2;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type: echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type: router solicitation.
pub const ROUTER_SOLICITATION: u8 = 133;
/// Type: router advertisement.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Type: neighbor solicitation.
pub const NEIGHBOR_SOLICITATION: u8 = 135;
/// Type: neighbor advertisement.
pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
/// Type: redirect.
pub const REDIRECT: u8 = 137;

/// Codes of [`UNREACHABLE`] (RFC 4443 3.1).
pub mod unreachable {
    /// No route.
    pub const NO_ROUTE: u8 = 0;
    /// Forbidden by a filter.
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 1;
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// The host does not answer.
    pub const ADDRESS: u8 = 3;
    /// Nobody listens on the port.
    pub const PORT: u8 = 4;
}

/// Codes of [`PARAMETER_PROBLEM`] (RFC 4443 3.4).
pub mod parameter_problem {
    /// A header field is wrong.
    pub const HEADER: u8 = 0;
    /// An unknown next header.
    pub const NEXT_HEADER: u8 = 1;
    /// An unknown option.
    pub const OPTION: u8 = 2;
    /// A first fragment without all headers (RFC 7112 5).
    pub const HEADERS_CUT: u8 = 3;
}

/// Codes of [`TIME_EXCEEDED`] (RFC 4443 3.3).
pub mod time_exceeded {
    /// In transit.
    pub const HOP_LIMIT: u8 = 0;
    /// Not all fragments came.
    pub const REASSEMBLY: u8 = 1;
}

/// Is this type an error message, which must never be answered by an error (RFC 4443 2.1, 2.4 (e))?
pub const fn is_error(kind: u8) -> bool {
    kind < 128
}

/// Is this type one of neighbor discovery (RFC 4861 4) or of its secure kind (RFC 3971 6.4)? Such messages are never
/// fragmented (RFC 6980).
pub const fn is_neighbor_discovery(kind: u8) -> bool {
    matches!(kind, ROUTER_SOLICITATION..=REDIRECT | 148 | 149)
}

/// Is this type one of multicast listener discovery (RFC 2710 3, RFC 3810 5, RFC 4286 for the discovery of routers)?
pub const fn is_listener_discovery(kind: u8) -> bool {
    matches!(kind, 130..=132 | 143 | 151..=153)
}

/// A view on a message: at least [`HEADER_LEN`] bytes, and the fixed fields of its type.
#[derive(Clone, Copy, Debug)]
pub struct Icmp6<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Icmp6<T> {
    /// Checks that the header and its type's fixed fields are there; else [`Malformed::Short`]. `bytes` is the whole
    /// upper-layer payload. The option lengths are checked as they are iterated; hop limit 255 and the other rules of
    /// RFC 4861 6.1 and 7.1 are for the caller, who knows the IPv6 header.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN || b.len() < HEADER_LEN + fixed_body_len(b[0]) {
            return Err(Malformed::Short);
        }
        Ok(Icmp6 { bytes })
    }

    /// Gives the bytes back.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Type: [`ECHO_REQUEST`] and so on.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.bytes.as_ref()[0]
    }

    /// Code; its meaning depends on the type.
    #[inline]
    pub fn code(&self) -> u8 {
        self.bytes.as_ref()[1]
    }

    /// The checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes.as_ref(), 2)
    }

    /// Whether the checksum over pseudo header and message is right (RFC 4443 2.3).
    pub fn verify_checksum(&self, source: &Ipv6Addr, destination: &Ipv6Addr) -> bool {
        let bytes = self.bytes.as_ref();
        let pseudo = checksum::pseudo_v6(source, destination, protocol::ICMPV6, bytes.len() as u32);
        checksum::fold(pseudo + checksum::sum(bytes)) == 0xffff
    }

    /// What follows the eight bytes.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..]
    }

    /// The message by its type.
    pub fn message(&self) -> Message<'_> {
        let bytes = self.bytes.as_ref();
        let (code, body, rest) = (self.code(), self.body(), be32(bytes, 4));
        let (identifier, sequence) = (be16(bytes, 4), be16(bytes, 6));
        let other = Message::Other { kind: self.kind(), code, rest, body };
        // A setter may have changed the type since `new`; then the fixed fields are missing.
        let Some((fixed, options)) = body.split_at_checked(fixed_body_len(self.kind())) else { return other };
        let options = NdOptions::new(options);
        match self.kind() {
            UNREACHABLE => Message::Unreachable { code, quoted: body },
            PACKET_TOO_BIG => Message::PacketTooBig { mtu: rest, quoted: body },
            TIME_EXCEEDED => Message::TimeExceeded { code, quoted: body },
            PARAMETER_PROBLEM => Message::ParameterProblem { code, pointer: rest, quoted: body },
            ECHO_REQUEST => Message::EchoRequest { identifier, sequence, data: body },
            ECHO_REPLY => Message::EchoReply { identifier, sequence, data: body },
            ROUTER_SOLICITATION => Message::RouterSolicitation { options },
            ROUTER_ADVERTISEMENT => Message::RouterAdvertisement {
                hop_limit: bytes[4],
                managed: bytes[5] & 0x80 != 0,
                other: bytes[5] & 0x40 != 0,
                lifetime: sequence,
                reachable: be32(fixed, 0),
                retransmit: be32(fixed, 4),
                options,
            },
            NEIGHBOR_SOLICITATION => Message::NeighborSolicitation { target: address(fixed, 0), options },
            NEIGHBOR_ADVERTISEMENT => Message::NeighborAdvertisement {
                router: bytes[4] & 0x80 != 0,
                solicited: bytes[4] & 0x40 != 0,
                r#override: bytes[4] & 0x20 != 0,
                target: address(fixed, 0),
                options,
            },
            REDIRECT => Message::Redirect { target: address(fixed, 0), destination: address(fixed, 16), options },
            _ => other,
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmp6<T> {
    /// Sets the type. Like every setter here, it leaves the checksum alone.
    pub fn set_kind(&mut self, kind: u8) {
        self.bytes.as_mut()[0] = kind;
    }

    /// Sets the code.
    pub fn set_code(&mut self, code: u8) {
        self.bytes.as_mut()[1] = code;
    }

    /// Sets the checksum field.
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.bytes.as_mut(), 2, checksum);
    }

    /// Recomputes the checksum over pseudo header and message.
    pub fn fill_checksum(&mut self, source: &Ipv6Addr, destination: &Ipv6Addr) {
        self.set_checksum(0);
        let bytes = self.bytes.as_ref();
        let pseudo = checksum::pseudo_v6(source, destination, protocol::ICMPV6, bytes.len() as u32);
        let checksum = checksum::finish(pseudo + checksum::sum(bytes));
        self.set_checksum(checksum);
    }

    /// What follows the eight bytes, to be written.
    pub fn body_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }
}

/// Bytes of a type's fixed fields behind the first eight.
const fn fixed_body_len(kind: u8) -> usize {
    match kind {
        ROUTER_ADVERTISEMENT => 8,
        NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT => 16,
        REDIRECT => 32,
        _ => 0,
    }
}

fn address(bytes: &[u8], at: usize) -> Ipv6Addr {
    Ipv6Addr::from(array::<16>(bytes, at))
}

/// A message that was read or is to be written.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    Unreachable {
        code: u8,
        quoted: &'a [u8],
    },
    /// `mtu` in bytes of IPv6.
    PacketTooBig {
        mtu: u32,
        quoted: &'a [u8],
    },
    /// Code 0: hop limit; 1: reassembly time.
    TimeExceeded {
        code: u8,
        quoted: &'a [u8],
    },
    /// `pointer` is the wrong byte's offset in the quoted packet.
    ParameterProblem {
        code: u8,
        pointer: u32,
        quoted: &'a [u8],
    },
    EchoRequest {
        identifier: u16,
        sequence: u16,
        data: &'a [u8],
    },
    EchoReply {
        identifier: u16,
        sequence: u16,
        data: &'a [u8],
    },
    RouterSolicitation {
        options: NdOptions<'a>,
    },
    /// `lifetime` in seconds, `reachable` and `retransmit` in milliseconds; 0 is "unspecified".
    RouterAdvertisement {
        hop_limit: u8,
        managed: bool,
        other: bool,
        lifetime: u16,
        reachable: u32,
        retransmit: u32,
        options: NdOptions<'a>,
    },
    NeighborSolicitation {
        target: Ipv6Addr,
        options: NdOptions<'a>,
    },
    NeighborAdvertisement {
        router: bool,
        solicited: bool,
        r#override: bool,
        target: Ipv6Addr,
        options: NdOptions<'a>,
    },
    Redirect {
        target: Ipv6Addr,
        destination: Ipv6Addr,
        options: NdOptions<'a>,
    },
    /// `rest` holds bytes 4..8, host order.
    Other {
        kind: u8,
        code: u8,
        rest: u32,
        body: &'a [u8],
    },
}

/// Writes an error message or an echo: type, code, bytes 4..8 in host order, body, checksum. Returns its length;
/// [`Malformed::Short`] if it does not fit. How much to quote is the caller's choice (RFC 4443 2.4 (c): as much as
/// 1280 bytes of IPv6 hold).
pub fn emit(
    buf: &mut [u8],
    kind: u8,
    code: u8,
    rest: u32,
    body: &[u8],
    source: &Ipv6Addr,
    destination: &Ipv6Addr,
) -> Result<usize, Malformed> {
    let len = HEADER_LEN + body.len();
    let bytes = buf.get_mut(..len).ok_or(Malformed::Short)?;
    put(bytes, 0, [kind, code]);
    put(bytes, 4, rest.to_be_bytes());
    bytes[HEADER_LEN..].copy_from_slice(body);
    Icmp6 { bytes }.fill_checksum(source, destination);
    Ok(len)
}

/// Writes a neighbor solicitation for `target`. `link_layer` is the sender's MAC, `None` in a duplicate address
/// detection, whose `source` is `::` (RFC 4861 4.3). Returns its length, 24 or 32; [`Malformed::Short`] if it does not
/// fit.
pub fn emit_solicitation(
    buf: &mut [u8],
    target: Ipv6Addr,
    link_layer: Option<MacAddr>,
    source: &Ipv6Addr,
    destination: &Ipv6Addr,
) -> Result<usize, Malformed> {
    let option = link_layer.map(|mac| (nd_options::SOURCE_LINK_LAYER, mac));
    emit_neighbor(buf, NEIGHBOR_SOLICITATION, 0, target, option, source, destination)
}

/// The fields of a neighbor advertisement (RFC 4861 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// R: the sender is a router.
    pub router: bool,
    /// S: it answers a solicitation sent to a unicast address or from one.
    pub solicited: bool,
    /// O: a cached MAC is to be replaced.
    pub r#override: bool,
    /// The address whose MAC it announces.
    pub target: Ipv6Addr,
    /// The MAC; it may be left out only in the answer to a unicast solicitation.
    pub link_layer: Option<MacAddr>,
}

impl Advertisement {
    /// Writes the message. Returns its length, 24 or 32; [`Malformed::Short`] if it does not fit.
    pub fn emit(&self, buf: &mut [u8], source: &Ipv6Addr, destination: &Ipv6Addr) -> Result<usize, Malformed> {
        let flags = u8::from(self.router) << 7 | u8::from(self.solicited) << 6 | u8::from(self.r#override) << 5;
        let option = self.link_layer.map(|mac| (nd_options::TARGET_LINK_LAYER, mac));
        emit_neighbor(buf, NEIGHBOR_ADVERTISEMENT, flags, self.target, option, source, destination)
    }
}

fn emit_neighbor(
    buf: &mut [u8],
    kind: u8,
    flags: u8,
    target: Ipv6Addr,
    option: Option<(u8, MacAddr)>,
    source: &Ipv6Addr,
    destination: &Ipv6Addr,
) -> Result<usize, Malformed> {
    let mut body = [0; 24];
    put(&mut body, 0, target.octets());
    let Some((option, mac)) = option else {
        return emit(buf, kind, 0, u32::from(flags) << 24, &body[..16], source, destination);
    };
    put(&mut body, 16, [option, 1]);
    put(&mut body, 18, mac.0);
    emit(buf, kind, 0, u32::from(flags) << 24, &body, source, destination)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ipv6;
    use crate::wire::captured::{self, layer};

    /// Source, destination and ICMPv6 bytes of a captured frame.
    fn captured(hex: &str) -> (Ipv6Addr, Ipv6Addr, Vec<u8>) {
        let bytes = layer(hex, 14);
        let packet = Ipv6::new(&bytes[..]).unwrap();
        let upper = packet.upper_layer().unwrap();
        assert_eq!(upper.protocol, protocol::ICMPV6);
        (packet.source(), packet.destination(), upper.payload.to_vec())
    }

    #[test]
    fn checksums_of_real_messages() {
        use captured::*;
        for hex in [SOLICITATION_DAD, MLD_REPORT, ROUTER_SOLICITATION, ADVERTISEMENT, ECHO_REQUEST_6, UNREACHABLE_6] {
            let (source, destination, mut bytes) = captured(hex);
            let mut message = Icmp6::new(&mut bytes[..]).unwrap();
            assert!(message.verify_checksum(&source, &destination));
            assert!(!message.verify_checksum(&source, &Ipv6Addr::LOCALHOST));
            let sent = message.checksum();
            message.fill_checksum(&source, &destination);
            assert_eq!(message.checksum(), sent);
        }
    }

    #[test]
    fn reads_and_writes_an_advertisement() {
        let (source, destination, bytes) = captured(captured::ADVERTISEMENT);
        let message = Icmp6::new(&bytes[..]).unwrap();
        let Message::NeighborAdvertisement { router, solicited, r#override, target, options } = message.message()
        else {
            panic!("{message:?}")
        };
        assert_eq!((router, solicited, r#override, target), (false, true, true, source));
        let link_layer = options.target_link_layer().unwrap();
        assert_eq!(link_layer.map(MacAddr::link_local), Some(source));
        let mut buf = [0xff; 32];
        let advertisement = Advertisement { router, solicited, r#override, target, link_layer };
        assert_eq!(advertisement.emit(&mut buf, &source, &destination), Ok(32));
        assert_eq!(buf, bytes[..]);
        assert_eq!(advertisement.emit(&mut buf[1..], &source, &destination), Err(Malformed::Short));
    }

    /// The answer to a unicast solicitation may leave the MAC out (RFC 4861 4.4).
    #[test]
    fn advertisements_have_their_flags_with_and_without_a_mac() {
        let (source, destination, _) = captured(captured::ADVERTISEMENT);
        for (link_layer, len) in [(None, 24), (Some(MacAddr([2, 0, 0, 0, 0, 9])), 32)] {
            for flags in 0..8 {
                let [router, solicited, r#override] = [4, 2, 1].map(|bit| flags & bit != 0);
                let sent = Advertisement { router, solicited, r#override, target: source, link_layer };
                let mut buf = [0xff; 32];
                assert_eq!(sent.emit(&mut buf, &source, &destination), Ok(len));
                let written = Icmp6::new(&buf[..len]).unwrap();
                assert!(written.verify_checksum(&source, &destination));
                assert_eq!(buf[4..8], [flags << 5, 0, 0, 0], "the other bits are reserved");
                let Message::NeighborAdvertisement { router, solicited, r#override, target, options } =
                    written.message()
                else {
                    panic!("{buf:02x?}")
                };
                let link_layer = options.target_link_layer().unwrap();
                assert_eq!(Advertisement { router, solicited, r#override, target, link_layer }, sent);
            }
        }
    }

    #[test]
    fn reads_and_writes_solicitations() {
        let (source, destination, bytes) = captured(captured::SOLICITATION_DAD);
        let message = Icmp6::new(&bytes[..]).unwrap();
        let Message::NeighborSolicitation { target, options } = message.message() else { panic!("{message:?}") };
        assert_eq!((source, destination), (Ipv6Addr::UNSPECIFIED, perigee_net::solicited_node(target)));
        assert_eq!(options.source_link_layer(), Ok(None));
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        for (link_layer, len) in [(None, 24), (Some(mac), 32)] {
            let mut buf = [0xff; 32];
            assert_eq!(emit_solicitation(&mut buf, target, link_layer, &mac.link_local(), &destination), Ok(len));
            let written = Icmp6::new(&buf[..len]).unwrap();
            assert!(written.verify_checksum(&mac.link_local(), &destination));
            let Message::NeighborSolicitation { target: read, options } = written.message() else {
                panic!("{written:?}")
            };
            assert_eq!((read, options.source_link_layer()), (target, Ok(link_layer)));
        }
    }

    #[test]
    fn errors_and_echo_read_back() {
        let (source, destination, bytes) = captured(captured::UNREACHABLE_6);
        let message = Icmp6::new(&bytes[..]).unwrap();
        let Message::Unreachable { code: unreachable::PORT, quoted } = message.message() else { panic!("{message:?}") };
        assert_eq!(Ipv6::new(quoted).unwrap().source(), destination);
        let mut buf = [0xff; 12];
        let mut write = |kind, code, rest| {
            assert_eq!(emit(&mut buf, kind, code, rest, b"abcd", &source, &destination), Ok(12));
            format!("{:?}", Icmp6::new(&buf).unwrap().message())
        };
        assert!(write(PACKET_TOO_BIG, 0, 1280).starts_with("PacketTooBig { mtu: 1280, quoted: [97"));
        assert!(write(TIME_EXCEEDED, 0, 0).starts_with("TimeExceeded { code: 0, quoted: [97"));
        assert!(write(PARAMETER_PROBLEM, 2, 42).starts_with("ParameterProblem { code: 2, pointer: 42, quoted: [97"));
        assert!(write(ECHO_REPLY, 0, 0x0001_0002).starts_with("EchoReply { identifier: 1, sequence: 2, data: [97"));
        assert!(is_error(PACKET_TOO_BIG) && !is_error(ECHO_REQUEST));
    }

    #[test]
    fn router_messages() {
        let (.., bytes) = captured(captured::ROUTER_SOLICITATION);
        let message = Icmp6::new(&bytes[..]).unwrap();
        let Message::RouterSolicitation { options } = message.message() else { panic!("{message:?}") };
        assert!(options.source_link_layer().unwrap().is_some());
        let bytes =
            *b"\x86\x00\x00\x00\x40\x80\x07\x08\x00\x00\x75\x30\x00\x00\x03\xe8\x05\x01\x00\x00\x00\x00\x05\xdc";
        let text = format!("{:?}", Icmp6::new(&bytes).unwrap().message());
        assert!(text.starts_with(
            "RouterAdvertisement { hop_limit: 64, managed: true, other: false, lifetime: 1800, reachable: 30000, retransmit: 1000"
        ));
        let mut redirect = [0; 40];
        (redirect[0], redirect[23], redirect[39]) = (137, 1, 2);
        let message = Icmp6::new(redirect).unwrap();
        let Message::Redirect { target, destination, .. } = message.message() else { panic!("{message:?}") };
        assert_eq!((target, destination), ("::1".parse().unwrap(), "::2".parse().unwrap()));
    }

    #[test]
    fn each_type_has_its_minimum() {
        for (kind, len) in [(1, 8), (128, 8), (133, 8), (134, 16), (135, 24), (136, 24), (137, 40)] {
            let bytes = [&[kind][..], &[0; 39]].concat();
            assert_eq!(Icmp6::new(&bytes[..len - 1]).unwrap_err(), Malformed::Short, "type {kind}");
            assert_eq!(Icmp6::new(&bytes[..len]).unwrap().kind(), kind);
        }
    }
}
