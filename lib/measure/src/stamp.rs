// SPDX-License-Identifier: MIT
//! The stamp in each frame: by it the tester knows its own frames, what is missing, and how long each was on its way.
//!
//! ```text
//!  0               2               4                               8
//! +---------------+---------------+-------------------------------+
//! |      run      |     check     |             flow              |
//! +---------------+---------------+-------------------------------+
//! |           sequence            |       time, upper 4 bytes     |
//! +---------------+---------------+-------------------------------+
//! | time, lower 2 |        big endian; 18 bytes in all
//! +---------------+
//! ```
//!
//! It stands at the start of the payload of UDP, of an ICMP echo, or of TCP, and fits the smallest Ethernet frame with
//! IPv4 and UDP.
//!
//! `check` makes the ones' complement sum (RFC 1071) of the nine words 0xffff. This has two uses. A frame's UDP, TCP or
//! ICMP checksum does not depend on the stamp, as 0xffff is a zero of that arithmetic: it is computed once per flow.
//! And a damaged stamp is recognised, unless the damage keeps the sum modulo 65535. Precisely:
//!
//! - Every change of one byte is recognised: it changes the sum by at most 255 or 255 * 256, which is no multiple of
//!   65535.
//! - Every change within one 16-bit word is recognised, except 0x0000 to 0xffff and back.
//! - Changes of several words are missed where their differences cancel, as when two words are swapped; of random
//!   damage, one in 65535.
//! - 18 zero bytes are not a stamp, as their sum is 0.

use perigee_packet::wire::{Ipv4, Ipv6, ethernet::ethertype, protocol, udp, vlan};

/// Bytes of a stamp.
pub const LENGTH: usize = 18;
/// Times are counted modulo 2 to the power of this many bits, in ns: they wrap around after 78 hours.
pub const TIME_BITS: u32 = 48;

const TIME: u64 = (1 << TIME_BITS) - 1;
/// Where the stamp starts in an untagged frame with UDP and no options.
const OVER_IPV4: usize = 14 + 20 + 8;
const OVER_IPV6: usize = 14 + 40 + 8;

/// What a frame's stamp says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Which trial it belongs to.
    pub run: u16,
    pub flow: u32,
    /// Which frame of its flow, counted from 0.
    pub sequence: u32,
    /// When it was sent: ns of the tester's clock, modulo 2^48.
    pub time: u64,
}

/// What a received frame has where a stamp would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Stamp(Stamp),
    /// Bytes whose check fails, read as if they were a stamp: a damaged one, or a stranger's payload.
    Broken(Stamp),
    /// No place for one: ARP, neighbor discovery, LLDP, a fragment but the first, a payload that is too short.
    Nothing,
}

impl Stamp {
    /// Writes the stamp, its check included.
    #[inline]
    pub fn write(&self, to: &mut [u8; LENGTH]) {
        let time = self.time & TIME;
        let first = u64::from(self.run) << 48 | u64::from(self.flow);
        let second = u64::from(self.sequence) << 32 | time >> 16;
        let last = time as u16;
        let check = !sum(first, second, last);
        to[..8].copy_from_slice(&(first | u64::from(check) << 32).to_be_bytes());
        to[8..16].copy_from_slice(&second.to_be_bytes());
        to[16..].copy_from_slice(&last.to_be_bytes());
    }

    /// Reads the stamp at the start of `bytes`; `None` if they are too few or the check fails.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Stamp> {
        match decode(bytes.first_chunk()?) {
            Found::Stamp(stamp) => Some(stamp),
            _ => None,
        }
    }

    /// How long ago it was sent, in ns; `None` if it is from the future, that is, more than half of the clock's range
    /// old.
    #[inline]
    pub fn age(&self, now: u64) -> Option<u64> {
        let age = now.wrapping_sub(self.time) & TIME;
        (age >> (TIME_BITS - 1) == 0).then_some(age)
    }
}

#[inline(always)]
fn decode(bytes: &[u8; LENGTH]) -> Found {
    let word = |at: usize| u64::from_be_bytes(*bytes[at..].first_chunk().expect("eight bytes before the last two"));
    let (first, second) = (word(0), word(8));
    let last = u16::from_be_bytes([bytes[16], bytes[17]]);
    let stamp = Stamp {
        run: (first >> 48) as u16,
        flow: first as u32,
        sequence: (second >> 32) as u32,
        time: (second & 0xffff_ffff) << 16 | u64::from(last),
    };
    if sum(first, second, last) == 0xffff { Found::Stamp(stamp) } else { Found::Broken(stamp) }
}

/// The ones' complement sum of nine words, folded to 16 bits.
#[inline(always)]
fn sum(first: u64, second: u64, last: u16) -> u16 {
    let (total, carry) = first.overflowing_add(second);
    let total = (total >> 32) + (total & 0xffff_ffff) + u64::from(carry) + u64::from(last);
    let total = (total >> 16) + (total & 0xffff);
    let total = (total >> 16) + (total & 0xffff);
    ((total >> 16) + total) as u16
}

/// Looks for the stamp of a received frame.
#[inline(always)]
pub fn find(frame: &[u8]) -> Found {
    // The place first, then the words: decoded in three places, they would meet in memory, written by words and read by
    // vectors, and wait for each other as long as all the rest takes.
    place(frame).map_or(Found::Nothing, decode)
}

#[inline(always)]
fn place(frame: &[u8]) -> Option<&[u8; LENGTH]> {
    // Nearly every frame: untagged, UDP, no options, not a fragment, and long enough by its own length field, as the
    // padding behind a shorter packet may hold an old frame's bytes.
    if let Some(head) = frame.first_chunk::<{ OVER_IPV4 + LENGTH }>()
        && head[12..15] == [0x08, 0x00, 0x45]
        && head[23] == protocol::UDP
        && u16::from_be_bytes([head[20], head[21]]) & 0x1fff == 0
        && u16::from_be_bytes([head[16], head[17]]) >= (20 + udp::HEADER_LEN + LENGTH) as u16
    {
        return head.last_chunk();
    }
    if let Some(head) = frame.first_chunk::<{ OVER_IPV6 + LENGTH }>()
        && head[12..14] == [0x86, 0xdd]
        && head[14] >> 4 == 6
        && head[20] == protocol::UDP
        && u16::from_be_bytes([head[18], head[19]]) >= (udp::HEADER_LEN + LENGTH) as u16
    {
        return head.last_chunk();
    }
    payload(frame)?.first_chunk()
}

/// The payload that a stamp would stand in: behind up to two VLAN tags, IPv4 with options or IPv6 with extension
/// headers, and UDP, TCP with options, or an ICMP echo.
#[inline(never)]
fn payload(frame: &[u8]) -> Option<&[u8]> {
    let inner = vlan::innermost(frame).ok().filter(|inner| inner.tags <= 2)?;
    let network = &frame[inner.offset..];
    match inner.ethertype {
        ethertype::IPV4 => {
            let packet = Ipv4::new_truncated(network).ok()?;
            let end = packet.total_len().min(network.len());
            let upper = network.get(packet.header_len()..end)?;
            if packet.fragment_offset() == 0 { upper_payload(packet.protocol(), upper) } else { None }
        }
        ethertype::IPV6 => {
            let packet = Ipv6::new_truncated(network).ok()?;
            let upper = packet.upper_layer().ok().filter(|upper| upper.has_header())?;
            let end = upper.offset + upper.payload.len();
            upper_payload(upper.protocol, network.get(upper.offset..end)?)
        }
        _ => None,
    }
}

/// What follows the header of the upper layer, in an even distance from its start, so that its checksum does not see
/// the stamp.
fn upper_payload(protocol: u8, upper: &[u8]) -> Option<&[u8]> {
    const ECHO_REPLY: u8 = 0;
    const ECHO_REQUEST: u8 = 8;
    const ECHO_REQUEST_6: u8 = 128;
    const ECHO_REPLY_6: u8 = 129;
    let header = match (protocol, *upper.first()?) {
        (protocol::UDP, _) => udp::HEADER_LEN,
        (protocol::TCP, _) => usize::from(*upper.get(12)? >> 4) * 4,
        (protocol::ICMP, ECHO_REQUEST | ECHO_REPLY) => 8,
        (protocol::ICMPV6, ECHO_REQUEST_6 | ECHO_REPLY_6) => 8,
        _ => return None,
    };
    // A TCP header is at least 20 bytes.
    if protocol == protocol::TCP && header < 20 { None } else { upper.get(header..) }
}
