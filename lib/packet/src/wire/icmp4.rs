// SPDX-License-Identifier: MIT
//! ICMP for IPv4 (RFC 792, next-hop MTU of RFC 1191).
//!
//! ```text
//!  0      1      2          4                        8
//! +------+------+----------+------------------------+---------
//! | type | code | checksum | rest, by type          | body
//! +------+------+----------+------------------------+---------
//!   0, 8 echo               | identifier | sequence  | data
//!   3    unreachable        | 0 | MTU if code is 4   | quoted datagram
//!   5    redirect           | router's address       | quoted datagram
//!   11   time exceeded      | 0                      | quoted datagram
//!   12   parameter problem  | pointer | 0            | quoted datagram
//! ```

use std::net::Ipv4Addr;

use crate::wire::bytes::{be16, be32, put, put16, put32};
use crate::wire::{Malformed, checksum};

/// Bytes before the body.
pub const HEADER_LEN: usize = 8;

/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type: source quench, deprecated (RFC 6633).
pub const SOURCE_QUENCH: u8 = 4;
/// Type: redirect.
pub const REDIRECT: u8 = 5;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;

/// Codes of [`UNREACHABLE`] (RFC 792, RFC 1812 5.2.7.1).
pub mod unreachable {
    /// No route to the network.
    pub const NET: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host does not know the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Nobody listens on the port.
    pub const PORT: u8 = 3;
    /// Too large, and fragmenting is forbidden.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// The source route failed.
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    /// Forbidden by a filter.
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 13;
}

/// Codes of [`TIME_EXCEEDED`].
pub mod time_exceeded {
    /// The time to live ran out.
    pub const TTL: u8 = 0;
    /// Reassembly took too long.
    pub const REASSEMBLY: u8 = 1;
}

/// Is this type an error message, which must never be answered by an error (RFC 1122 3.2.2)? Unknown types are not.
pub const fn is_error(kind: u8) -> bool {
    matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// A view on a message; at least [`HEADER_LEN`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct Icmp4<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Icmp4<T> {
    /// Checks that the header is there; else [`Malformed::Short`]. `bytes` is the whole IPv4 payload.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        Ok(Icmp4 { bytes })
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

    /// Whether the checksum, which covers the whole message, is right.
    pub fn verify_checksum(&self) -> bool {
        checksum::verify(self.bytes.as_ref())
    }

    /// What follows the eight bytes: echo data or the quoted datagram.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..]
    }

    /// The message by its type.
    pub fn message(&self) -> Message<'_> {
        let bytes = self.bytes.as_ref();
        let (code, body) = (self.code(), self.body());
        let (identifier, sequence) = (be16(bytes, 4), be16(bytes, 6));
        match self.kind() {
            ECHO_REQUEST => Message::EchoRequest { identifier, sequence, data: body },
            ECHO_REPLY => Message::EchoReply { identifier, sequence, data: body },
            UNREACHABLE => Message::Unreachable { code, mtu: sequence, quoted: body },
            REDIRECT => Message::Redirect { code, router: Ipv4Addr::from_bits(be32(bytes, 4)), quoted: body },
            TIME_EXCEEDED => Message::TimeExceeded { code, quoted: body },
            PARAMETER_PROBLEM => Message::ParameterProblem { code, pointer: bytes[4], quoted: body },
            kind => Message::Other { kind, code, rest: be32(bytes, 4), body },
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmp4<T> {
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

    /// Sets bytes 4..8.
    pub fn set_rest(&mut self, rest: u32) {
        put32(self.bytes.as_mut(), 4, rest);
    }

    /// Recomputes the checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::checksum(self.bytes.as_ref());
        self.set_checksum(checksum);
    }

    /// What follows the eight bytes, to be written.
    pub fn body_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_LEN..]
    }
}

/// A message that was read or is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
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
    /// `mtu` in bytes is that of the next hop for code 4 (RFC 1191 4), 0 for others and for old routers.
    Unreachable {
        code: u8,
        mtu: u16,
        quoted: &'a [u8],
    },
    Redirect {
        code: u8,
        router: Ipv4Addr,
        quoted: &'a [u8],
    },
    TimeExceeded {
        code: u8,
        quoted: &'a [u8],
    },
    /// `pointer` is the wrong byte's offset in the quoted header.
    ParameterProblem {
        code: u8,
        pointer: u8,
        quoted: &'a [u8],
    },
    /// `rest` holds bytes 4..8, host order.
    Other {
        kind: u8,
        code: u8,
        rest: u32,
        body: &'a [u8],
    },
}

impl<'a> Message<'a> {
    /// Bytes that [`Message::emit`] writes.
    pub fn len(&self) -> usize {
        HEADER_LEN + self.parts().3.len()
    }

    /// Never: a message has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message and its checksum at the start of `buf` and returns its length; [`Malformed::Short`] if it
    /// does not fit. How much to quote is the caller's choice (RFC 1812 4.3.2.3: as much as 576 bytes of IP hold).
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, Malformed> {
        let (kind, code, rest, body) = self.parts();
        let bytes = buf.get_mut(..self.len()).ok_or(Malformed::Short)?;
        put(bytes, 0, [kind, code]);
        put(bytes, 4, rest);
        bytes[HEADER_LEN..].copy_from_slice(body);
        Icmp4 { bytes }.fill_checksum();
        Ok(self.len())
    }

    /// Type, code, bytes 4..8, body.
    fn parts(&self) -> (u8, u8, [u8; 4], &'a [u8]) {
        let pair = |a: u16, b: u16| (u32::from(a) << 16 | u32::from(b)).to_be_bytes();
        match *self {
            Message::EchoRequest { identifier, sequence, data } => (ECHO_REQUEST, 0, pair(identifier, sequence), data),
            Message::EchoReply { identifier, sequence, data } => (ECHO_REPLY, 0, pair(identifier, sequence), data),
            Message::Unreachable { code, mtu, quoted } => (UNREACHABLE, code, pair(0, mtu), quoted),
            Message::Redirect { code, router, quoted } => (REDIRECT, code, router.octets(), quoted),
            Message::TimeExceeded { code, quoted } => (TIME_EXCEEDED, code, [0; 4], quoted),
            Message::ParameterProblem { code, pointer, quoted } => {
                (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0], quoted)
            }
            Message::Other { kind, code, rest, body } => (kind, code, rest.to_be_bytes(), body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::captured::{self, layer};
    use crate::wire::{Ipv4, Udp};

    #[test]
    fn reads_and_writes_real_messages() {
        for hex in [captured::ECHO_REQUEST_4, captured::ECHO_REPLY_4, captured::UNREACHABLE_4] {
            let bytes = layer(hex, 34);
            let message = Icmp4::new(&bytes[..]).unwrap();
            assert!(message.verify_checksum());
            let mut buf = vec![0xff; message.message().len()];
            assert_eq!(message.message().emit(&mut buf), Ok(bytes.len()));
            assert_eq!(buf, bytes);
            assert_eq!(message.message().emit(&mut buf[1..]), Err(Malformed::Short));
        }
    }

    #[test]
    fn echo_fields() {
        let bytes = layer(captured::ECHO_REQUEST_4, 34);
        let message = Icmp4::new(&bytes[..]).unwrap();
        let data = &[0, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(message.message(), Message::EchoRequest { identifier: 0x341c, sequence: 1, data });
        assert_eq!(Icmp4::new(&bytes[..7]).unwrap_err(), Malformed::Short);
    }

    #[test]
    fn the_quoted_datagram_is_one() {
        let bytes = layer(captured::UNREACHABLE_4, 34);
        let message = Icmp4::new(&bytes[..]).unwrap();
        let Message::Unreachable { code: unreachable::PORT, mtu: 0, quoted } = message.message() else {
            panic!("{message:?}")
        };
        let quoted = Ipv4::new_truncated(quoted).unwrap();
        assert_eq!(Udp::new(quoted.payload()).unwrap().destination_port(), 7777);
    }

    #[test]
    fn every_kind_reads_back() {
        let quoted = &[0x45, 0, 0, 20, 9][..];
        let messages = [
            Message::EchoReply { identifier: 1, sequence: 2, data: quoted },
            Message::Unreachable { code: unreachable::FRAGMENTATION_NEEDED, mtu: 1400, quoted },
            Message::Redirect { code: 1, router: Ipv4Addr::new(192, 0, 2, 1), quoted },
            Message::TimeExceeded { code: time_exceeded::TTL, quoted },
            Message::ParameterProblem { code: 0, pointer: 22, quoted },
            Message::Other { kind: 13, code: 0, rest: 0x0102_0304, body: quoted },
        ];
        for message in messages {
            let mut buf = [0xff; 13];
            assert_eq!(message.emit(&mut buf), Ok(13));
            let view = Icmp4::new(&buf).unwrap();
            assert!(view.verify_checksum());
            assert_eq!(view.message(), message);
        }
        assert!(is_error(UNREACHABLE) && !is_error(ECHO_REQUEST));
    }
}
