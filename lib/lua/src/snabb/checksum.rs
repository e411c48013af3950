// SPDX-License-Identifier: MIT
//! Internet checksums (RFC 1071, RFC 1624) under the names that programs of a Snabb tree call in C.
//!
//! Sums of 16-bit words do not depend on the order of bytes (RFC 1071, 2(B)): all is summed as it lies in memory, and
//! only what is given and returned in the machine's order is swapped.

use std::ffi::c_void;

/// The sum of the words of `bytes`, the last one filled up with zero, in network order and folded to 16 bits.
fn sum(bytes: &[u8], initial: u32) -> u16 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |byte| u64::from(*byte) << 8);
    let all: u64 = words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    fold(all + last + u64::from(initial))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// # Safety
/// `data` has `length` bytes.
unsafe fn bytes<'a>(data: *const u8, length: usize) -> &'a [u8] {
    if data.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(data, length) }
}

/// The checksum of `length` bytes and an initial value, both in the machine's byte order. Here, Snabb's three variants
/// are one: the compiler vectorizes it for every processor.
///
/// # Safety
/// `data` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cksum_generic(data: *const u8, length: usize, initial: u16) -> u16 {
    // SAFETY: the caller's.
    !sum(unsafe { bytes(data, length) }, initial.into())
}

/// As [`cksum_generic`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cksum_sse2(data: *const u8, length: usize, initial: u16) -> u16 {
    // SAFETY: the caller's.
    unsafe { cksum_generic(data, length, initial) }
}

/// As [`cksum_generic`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cksum_avx2(data: *const u8, length: usize, initial: u16) -> u16 {
    // SAFETY: the caller's.
    unsafe { cksum_generic(data, length, initial) }
}

/// HC' = ~(~HC + ~m + m') (RFC 1624, equation 3), for a word or two of any one byte order.
fn updated(checksum: u16, old: &[u16], new: &[u16]) -> u16 {
    let removed: u64 = old.iter().map(|word| u64::from(!word)).sum();
    let added: u64 = new.iter().map(|word| u64::from(*word)).sum();
    !fold(u64::from(!checksum) + removed + added)
}

/// Writes a value, and the checksum that it changes; all three as they lie in memory.
///
/// # Safety
/// Both cells may be read and written; they need not be aligned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn checksum_update_incremental_16(checksum: *mut u16, value: *mut u16, new: u16) {
    // SAFETY: the caller's.
    unsafe {
        let (was, old) = (checksum.read_unaligned(), value.read_unaligned());
        checksum.write_unaligned(updated(was, &[old], &[new]));
        value.write_unaligned(new);
    }
}

/// As [`checksum_update_incremental_16`], for a value of two words.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn checksum_update_incremental_32(checksum: *mut u16, value: *mut u32, new: u32) {
    let words = |value: u32| [(value >> 16) as u16, value as u16];
    // SAFETY: the caller's.
    unsafe {
        let (was, old) = (checksum.read_unaligned(), value.read_unaligned());
        checksum.write_unaligned(updated(was, &words(old), &words(new)));
        value.write_unaligned(new);
    }
}

/// The packet has no checksum that a pseudo header is part of.
const NO_CHECKSUM: u32 = 0xffff_0001;
/// The packet is damaged, or shorter than it says.
const DAMAGED: u32 = 0xffff_0002;

/// The sum of the pseudo header (RFC 768, RFC 9293 3.1, RFC 8200 8.1) of TCP or UDP behind an IPv4 or IPv6 header, in
/// the machine's order; above 16 bits: 0xffff0001 if there is none, 0xffff0002 if the packet is damaged.
fn pseudo_header(packet: &[u8]) -> u32 {
    let length_at = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let (protocol, addresses, length, behind) = match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => {
            let header = usize::from(packet[0] & 15) * 4;
            let total = length_at(2);
            if header < 20 || total < header || total > packet.len() {
                return DAMAGED;
            }
            if length_at(6) & 0x3fff != 0 {
                return NO_CHECKSUM; // a fragment has only a part of what is summed
            }
            (packet[9], &packet[12..20], total - header, &packet[header..total])
        }
        Some(6) if packet.len() >= 40 => {
            let length = length_at(4);
            if length + 40 > packet.len() {
                return DAMAGED;
            }
            (packet[6], &packet[8..40], length, &packet[40..40 + length])
        }
        _ => return DAMAGED,
    };
    match protocol {
        6 if behind.len() >= 20 => {}
        17 if behind.len() >= 8 => {
            // RFC 768: over IPv4, zero stands for no checksum.
            if packet[0] >> 4 == 4 && behind[6..8] == [0, 0] {
                return NO_CHECKSUM;
            }
        }
        6 | 17 => return DAMAGED,
        _ => return NO_CHECKSUM,
    }
    u32::from(sum(addresses, u32::from(protocol) + length as u32))
}

/// As above.
///
/// # Safety
/// `packet` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pseudo_header_initial(packet: *const u8, length: usize) -> u32 {
    // SAFETY: the caller's.
    pseudo_header(unsafe { bytes(packet, length) })
}

#[repr(transparent)]
pub(super) struct Kept(pub [*const c_void; 6]);
// SAFETY: addresses, which never change.
unsafe impl Sync for Kept {}
/// Keeps the linker from leaving out what only Lua calls.
#[used]
static KEPT: Kept = Kept([
    cksum_generic as *const c_void,
    cksum_sse2 as *const c_void,
    cksum_avx2 as *const c_void,
    checksum_update_incremental_16 as *const c_void,
    checksum_update_incremental_32 as *const c_void,
    pseudo_header_initial as *const c_void,
]);

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random (xorshift).
    fn random(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    /// RFC 1071, as it is written: word by word, with the carry added at once.
    fn slow(bytes: &[u8], initial: u16) -> u16 {
        let mut sum = u32::from(initial);
        for at in (0..bytes.len()).step_by(2) {
            sum += u32::from(bytes[at]) << 8 | bytes.get(at + 1).map_or(0, |byte| u32::from(*byte));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn checksums_are_those_of_rfc_1071() {
        // The example of its section 3.
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        // SAFETY: the slice's own length.
        assert_eq!(unsafe { cksum_generic(example.as_ptr(), 8, 0) }, !0xddf2);
        let mut seed = 0x5eed;
        for length in (0..70).chain([1499, 9000, 65_535]) {
            let bytes: Vec<u8> = (0..length).map(|_| random(&mut seed) as u8).collect();
            let initial = random(&mut seed) as u16;
            for function in [cksum_generic, cksum_sse2, cksum_avx2] {
                // SAFETY: as above.
                assert_eq!(unsafe { function(bytes.as_ptr(), length, initial) }, slow(&bytes, initial), "{length}");
            }
        }
    }

    #[test]
    fn an_update_is_the_checksum_of_the_new_bytes() {
        let mut seed = 0xfeed;
        for round in 0..20_000 {
            let mut bytes: Vec<u8> = (0..40).map(|_| random(&mut seed) as u8).collect();
            let mut checksum = slow(&bytes, 0).to_be();
            let at = 2 * (random(&mut seed) % 18) as usize;
            let new = random(&mut seed) as u32;
            // SAFETY: both places are within the 40 bytes.
            unsafe {
                if round % 2 == 0 {
                    checksum_update_incremental_16(&raw mut checksum, bytes.as_mut_ptr().add(at).cast(), new as u16);
                } else {
                    checksum_update_incremental_32(&raw mut checksum, bytes.as_mut_ptr().add(at).cast(), new);
                }
            }
            let written = if round % 2 == 0 { (new as u16).to_ne_bytes().to_vec() } else { new.to_ne_bytes().to_vec() };
            assert_eq!(bytes[at..at + written.len()], written);
            // 0 and 0xffff are the same sum.
            let (found, expected) = (u16::from_be(checksum), slow(&bytes, 0));
            assert!(
                found == expected || [found, expected] == [0xffff, 0] || [found, expected] == [0, 0xffff],
                "{round}"
            );
        }
    }

    /// UDP from 10.0.0.1 to 10.0.0.2, with a payload and its checksum.
    fn udp4(payload: &[u8]) -> Vec<u8> {
        let length = 8 + payload.len();
        let mut packet = vec![0x45, 0, 0, (20 + length) as u8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 7, 0, 9, 0, length as u8, 0xff, 0xff]);
        packet.extend(payload);
        let mut summed = packet[12..20].to_vec();
        summed.extend([0, 17, 0, length as u8]);
        packet[26..28].fill(0);
        summed.extend(&packet[20..]);
        let checksum = slow(&summed, 0).to_be_bytes();
        packet[26..28].copy_from_slice(&checksum);
        packet
    }

    #[test]
    fn a_pseudo_header_completes_the_checksum_of_a_packet() {
        let packet = udp4(b"hello");
        let initial = pseudo_header(&packet);
        assert!(initial <= 0xffff);
        assert_eq!(slow(&packet[20..], initial as u16), 0);
        let changed = |change: fn(&mut Vec<u8>)| {
            let mut packet = packet.clone();
            change(&mut packet);
            pseudo_header(&packet)
        };
        assert_eq!(changed(|packet| packet[26..28].fill(0)), NO_CHECKSUM);
        assert_eq!(changed(|packet| packet[6] = 0x20), NO_CHECKSUM);
        assert_eq!(changed(|packet| packet[9] = 1), NO_CHECKSUM);
        assert_eq!(changed(|packet| packet[3] = 200), DAMAGED);
        assert_eq!(changed(|packet| packet[0] = 0x44), DAMAGED);
        assert_eq!(changed(|packet| packet[9] = 6), DAMAGED);
        for length in 0..packet.len() {
            assert_eq!(pseudo_header(&packet[..length]), DAMAGED, "{length} bytes");
        }
    }

    /// TCP or UDP behind an IPv6 header, with its checksum of zero; `said` is the length in the header.
    fn over_ipv6(protocol: u8, said: u16, behind: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, (said >> 8) as u8, said as u8, protocol, 64];
        packet.extend((1..=32).collect::<Vec<u8>>());
        packet.extend(behind);
        packet
    }

    /// The pseudo header of RFC 8200, 8.1, written out and summed.
    fn sum_of_ipv6(protocol: u8, length: u16) -> u32 {
        let mut summed: Vec<u8> = (1..=32).collect();
        summed.extend([0, 0, (length >> 8) as u8, length as u8, 0, 0, 0, protocol]);
        u32::from(!slow(&summed, 0))
    }

    #[test]
    fn a_pseudo_header_of_ipv6_is_that_of_rfc_8200() {
        let (tcp, mut udp) = ([1; 20], [1; 300]);
        assert_eq!(pseudo_header(&over_ipv6(6, 20, &tcp)), sum_of_ipv6(6, 20));
        assert_eq!(pseudo_header(&over_ipv6(17, 300, &udp)), sum_of_ipv6(17, 300));
        assert_eq!(pseudo_header(&over_ipv6(17, 8, &udp)), sum_of_ipv6(17, 8), "what follows is not the packet's");
        udp[6..8].fill(0);
        assert_eq!(pseudo_header(&over_ipv6(17, 8, &udp[..8])), sum_of_ipv6(17, 8), "zero has no meaning of its own");
        assert_eq!(pseudo_header(&over_ipv6(6, 19, &tcp)), DAMAGED);
        assert_eq!(pseudo_header(&over_ipv6(17, 7, &udp)), DAMAGED);
        assert_eq!(pseudo_header(&over_ipv6(6, 21, &tcp)), DAMAGED);
        assert_eq!(pseudo_header(&over_ipv6(58, 20, &tcp)), NO_CHECKSUM);
        assert_eq!(pseudo_header(&over_ipv6(6, 0, &[])), DAMAGED);
        assert_eq!(pseudo_header(&over_ipv6(6, 0, &[])[..39]), DAMAGED);
    }

    #[test]
    fn options_of_ipv4_and_bytes_behind_a_packet_are_not_summed() {
        let plain = pseudo_header(&udp4(b"hello"));
        let mut padded = udp4(b"hello");
        padded.extend([9; 13]);
        assert_eq!(pseudo_header(&padded), plain);
        let mut with_options = udp4(b"hello");
        (with_options[0], with_options[3]) = (0x46, with_options[3] + 4);
        with_options.splice(20..20, [7; 4]);
        assert_eq!(pseudo_header(&with_options), plain);
        // As long as a header and nothing else, and shorter than its header.
        for total in [24, 23] {
            with_options[3] = total;
            assert_eq!(pseudo_header(&with_options), DAMAGED, "{total}");
        }
        // The last fragment, and one that may not be fragmented.
        for (flags, expected) in [([0x00, 0x01], NO_CHECKSUM), ([0x40, 0x00], plain)] {
            padded[6..8].copy_from_slice(&flags);
            assert_eq!(pseudo_header(&padded), expected);
        }
        let mut tcp = udp4(&[0; 12]);
        tcp[9] = 6;
        tcp[26..28].fill(0);
        let expected = u32::from(!slow(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 6, 0, 20], 0));
        assert_eq!(pseudo_header(&tcp), expected, "zero has no meaning of its own in TCP");
    }

    #[test]
    fn nothing_has_the_checksum_of_nothing() {
        // SAFETY: no bytes are read.
        unsafe {
            assert_eq!(cksum_generic(std::ptr::null(), 20, 0), 0xffff);
            assert_eq!(cksum_generic([1, 2].as_ptr(), 0, 0), 0xffff);
            assert_eq!(pseudo_header_initial(std::ptr::null(), 20), DAMAGED);
        }
    }
}
