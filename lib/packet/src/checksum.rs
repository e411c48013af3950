// SPDX-License-Identifier: MIT
//! The Internet checksum: whole (RFC 1071), over pseudo headers (RFC 768, RFC 8200 8.1), and incremental (RFC 1624).
//!
//! A *sum* is a partial one's complement sum of 16-bit words in network order, unfolded, in a `u32`: add up to 65536
//! sums of this module with `+`, then [`finish`]. A *checksum* is what the header's field holds: the folded sum's
//! complement, host order.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The sum of `bytes`, at most 0xffff; an odd last byte counts as if a zero followed.
///
/// One's complement addition does not care about byte order (RFC 1071 2 (B)): it adds 8 bytes at a time as they lie in
/// memory, at any alignment, brings each carry back in, and swaps once at the end.
#[inline]
pub fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut total = 0u64;
    for &word in words {
        total = add_carry(total, u64::from_ne_bytes(word));
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        total = add_carry(total, u64::from_ne_bytes(last));
    }
    swap_and_fold(total)
}

/// [`sum`] of an IPv4 header without options, as three loads.
#[inline]
pub(crate) fn sum20(header: &[u8; 20]) -> u32 {
    let (words, rest) = header.as_chunks::<8>();
    let total = add_carry(u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1]));
    let last = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]);
    swap_and_fold(add_carry(total, u64::from(last)))
}

#[inline(always)]
fn add_carry(a: u64, b: u64) -> u64 {
    let (total, carry) = a.overflowing_add(b);
    total + u64::from(carry)
}

#[inline(always)]
fn swap_and_fold(total: u64) -> u32 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16 & 0xffff) + (total >> 32);
    u32::from(u16::from_be(fold(total as u32)))
}

/// A sum as 16 bits, the carries brought back in. Not complemented.
#[inline]
pub const fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum + (sum >> 16)) as u16
}

/// The checksum for a sum: what goes into the header's field.
#[inline]
pub const fn finish(sum: u32) -> u16 {
    !fold(sum)
}

/// The checksum of `bytes`, whose own checksum field holds zero.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

/// Whether `bytes`, their own checksum field included, sum up to all ones.
#[inline]
pub fn verify(bytes: &[u8]) -> bool {
    sum(bytes) == 0xffff
}

/// The sum of two pieces of one text, from the sum of each; `first_len` in bytes is the length of the first. An odd one
/// shifts the second by a byte, which swaps its words' halves (RFC 1071 2 (B)).
#[inline]
pub const fn combine(first: u32, first_len: usize, second: u32) -> u32 {
    let second = fold(second);
    let second = if first_len % 2 == 1 { second.swap_bytes() } else { second };
    fold(first) as u32 + second as u32
}

/// The checksum of an IPv4 header (options included) whose checksum field holds zero (RFC 791 3.1).
#[inline]
pub fn ipv4_header(header: &[u8]) -> u16 {
    match header.first_chunk::<20>() {
        Some(fixed) if header.len() == 20 => finish(sum20(fixed)),
        _ => checksum(header),
    }
}

/// The sum of the IPv4 pseudo header (RFC 768, RFC 9293 3.1); `len` is that of the upper-layer header and data, bytes.
#[inline]
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, len: u16) -> u32 {
    let words = |address: Ipv4Addr| (address.to_bits() >> 16) + (address.to_bits() & 0xffff);
    words(source) + words(destination) + u32::from(protocol) + u32::from(len)
}

/// The sum of the IPv6 pseudo header (RFC 8200 8.1); `len` is that of the upper-layer header and data, bytes.
#[inline]
pub fn pseudo_v6(source: &Ipv6Addr, destination: &Ipv6Addr, next_header: u8, len: u32) -> u32 {
    sum(&source.octets()) + sum(&destination.octets()) + u32::from(next_header) + (len >> 16) + (len & 0xffff)
}

/// The checksum after one 16-bit word changed from `old` to `new`: HC' = ~(~HC + ~m + m') (RFC 1624 eqn. 3).
///
/// It equals the full computation but where every covered byte is now zero: there it gives 0x0000, the full one 0xffff.
/// Both verify.
#[inline]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    finish(!checksum as u32 + !old as u32 + new as u32)
}

/// [`update16`] for an aligned 32-bit field, such as an address.
#[inline]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    let (old, removed) = (!old, !checksum as u32);
    finish(removed + (old >> 16) + (old & 0xffff) + (new >> 16) + (new & 0xffff))
}
