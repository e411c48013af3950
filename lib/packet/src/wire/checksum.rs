// SPDX-License-Identifier: MIT
//! The Internet checksum: whole (RFC 1071), over pseudo headers (RFC 768, RFC 8200 8.1), and incremental (RFC 1624).
//!
//! A *sum* is a partial one's complement sum of 16-bit words in network order, unfolded, in a `u32`: the functions here
//! leave room to add thousands of them with `+`, then [`finish`]. A *checksum* is what the header's field holds: the
//! folded sum's complement, host order.

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
    let (half, rest) = rest.as_chunks::<4>();
    if let &[half] = half {
        total = add_carry(total, u64::from(u32::from_ne_bytes(half)));
    }
    let last = match *rest {
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c] => [a, b, c, 0],
        _ => [0; 4],
    };
    total = add_carry(total, u64::from(u32::from_ne_bytes(last)));
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
/// It equals the full computation unless every covered byte is now zero: then it gives 0x0000, the full one 0xffff.
/// Both verify.
#[inline]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    finish(!checksum as u32 + !old as u32 + new as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 4.1 as written: 16 bits at a time, high byte first.
    fn oracle(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
        }
        sum as u16
    }

    #[test]
    fn example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&bytes), 0xddf2);
        assert_eq!(checksum(&bytes), 0x220d);
    }

    #[test]
    fn a_known_header() {
        let mut header = *b"\x45\x00\x00\x73\x00\x00\x40\x00\x40\x11\x00\x00\xc0\xa8\x00\x01\xc0\xa8\x00\xc7";
        assert_eq!(ipv4_header(&header), 0xb861);
        header[10..12].copy_from_slice(&[0xb8, 0x61]);
        assert!(verify(&header));
        header[8] -= 1;
        assert!(!verify(&header));
    }

    /// RFC 1624 4: HC = 0xdd2f, m = 0x5555, m' = 0x3285. Eqn. 2 of RFC 1141 gave 0xffff; right is 0x0000.
    #[test]
    fn example_of_rfc_1624() {
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn zeros() {
        assert_eq!((sum(&[]), checksum(&[]), sum(&[0; 40])), (0, 0xffff, 0));
        assert_eq!(sum(&[0xff; 64]), 0xffff);
        assert!(verify(&[0xff; 64]) && !verify(&[0; 64]));
        // Everything covered has become zero: the two zeros differ, and both verify.
        assert_eq!(update16(!0x1234, 0x1234, 0), 0x0000);
        assert_eq!(checksum(&[0, 0]), 0xffff);
        assert!(verify(&[0, 0, 0xff, 0xff]));
    }

    /// All pairs of an old and a new word near the corners, against the full computation.
    #[test]
    fn update16_at_the_corners() {
        let corners = [0x0000, 0x0001, 0x00ff, 0x0100, 0x7fff, 0x8000, 0xfffe, 0xffff];
        for other in corners.into_iter().chain([0xddf2]) {
            for (old, new) in corners.iter().flat_map(|&old| corners.map(|new| (old, new))) {
                let bytes = |word: u16| [word.to_be_bytes(), u16::to_be_bytes(other)].concat();
                let expected = checksum(&bytes(new));
                let got = update16(checksum(&bytes(old)), old, new);
                // The one difference: of the two zeros, the update gives the other when nothing but zeros is left.
                let expected = if (other, new) == (0, 0) { 0x0000 } else { expected };
                assert_eq!(got, expected, "other {other:04x} old {old:04x} new {new:04x}");
            }
        }
    }

    proptest! {
        #[test]
        fn sum_is_the_oracle_at_any_alignment(bytes in prop::collection::vec(any::<u8>(), 0..200), skip in 0usize..9) {
            let bytes = &bytes[skip.min(bytes.len())..];
            prop_assert_eq!(sum(bytes), u32::from(oracle(bytes)));
        }

        #[test]
        fn carries_survive(ones in 0usize..3000, last in any::<u8>()) {
            let mut bytes = vec![0xff; ones];
            bytes.push(last);
            prop_assert_eq!(sum(&bytes), u32::from(oracle(&bytes)));
        }

        #[test]
        fn pieces_combine(bytes in prop::collection::vec(any::<u8>(), 0..100), cut in 0usize..100) {
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(fold(combine(sum(a), a.len(), sum(b))), oracle(&bytes));
        }

        #[test]
        fn header_is_the_oracle(header in prop::collection::vec(any::<u8>(), 20..=60)) {
            prop_assert_eq!(ipv4_header(&header), !oracle(&header));
        }

        /// One word stays non-zero (an IPv4 header has its version), so that the two agree exactly.
        #[test]
        fn update16_is_the_full_computation(
            mut words in prop::collection::vec(any::<u16>(), 1..20), at in any::<prop::sample::Index>(), new in any::<u16>(),
        ) {
            words.push(0x4500);
            let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
            let before = checksum(&bytes(&words));
            let at = at.index(words.len() - 1);
            let old = std::mem::replace(&mut words[at], new);
            prop_assert_eq!(update16(before, old, new), checksum(&bytes(&words)));
        }

        #[test]
        fn pseudo_headers_are_their_bytes(a in any::<u128>(), b in any::<u128>(), protocol in any::<u8>(), len in any::<u32>()) {
            let [a6, b6] = [a, b].map(Ipv6Addr::from);
            let bytes = [&a6.octets()[..], &b6.octets(), &len.to_be_bytes(), &[0, 0, 0, protocol]].concat();
            prop_assert_eq!(fold(pseudo_v6(&a6, &b6, protocol, len)), oracle(&bytes));
            let [a4, b4] = [a, b].map(|bits| Ipv4Addr::from(bits as u32));
            let bytes = [&a4.octets()[..], &b4.octets(), &[0, protocol], &(len as u16).to_be_bytes()].concat();
            prop_assert_eq!(fold(pseudo_v4(a4, b4, protocol, len as u16)), oracle(&bytes));
        }
    }
}
