// SPDX-License-Identifier: MIT
//! Checksums that a sender on this machine left to its device: the field holds the sum of the pseudo header so far
//! (Linux's CHECKSUM_PARTIAL), and the sum of what it covers is still to be added.

use perigee_packet::wire::checksum::{finish, sum};

/// Finishes the Internet checksum over everything from `start` on, whose field is `field` bytes behind that. Returns
/// whether it is there; else the frame stays as it is.
pub(crate) fn complete(frame: &mut [u8], start: usize, field: usize) -> bool {
    let Some(covered) = frame.get_mut(start..).filter(|covered| covered.len() >= field + 2) else { return false };
    // Zero would mean that there is no checksum to UDP (RFC 768); to others both are the same.
    let check = match finish(sum(covered)) {
        0 => 0xffff,
        check => check,
    };
    covered[field..field + 2].copy_from_slice(&check.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::wire::checksum::fold;
    use perigee_packet::wire::{checksums, protocol};

    #[test]
    fn what_is_completed_is_what_is_computed() {
        for (protocol, field, shortest) in [(protocol::UDP, 6, 8), (protocol::TCP, 16, 20)] {
            for payload in shortest..shortest + 9 {
                let header = [0x45, 0, 0, 20 + payload as u8, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
                let mut whole = [&[2; 12][..], &[8, 0], &header].concat();
                whole.extend((0..payload).map(|i| (i * 37) as u8));
                checksums::fill(&mut whole, 14);
                let mut half = whole.clone();
                // The sum of the pseudo header, as Linux leaves it.
                let pseudo = fold(sum(&whole[26..34]) + u32::from(protocol) + payload as u32);
                half[34 + field..36 + field].copy_from_slice(&pseudo.to_be_bytes());
                assert_ne!(half, whole);
                assert!(complete(&mut half, 34, field));
                assert_eq!(half, whole, "{payload} bytes");
            }
        }
    }

    #[test]
    fn a_sum_of_zero_is_not_no_checksum() {
        let mut frame = [0xff, 0xfe, 0, 1, 0, 0];
        assert!(complete(&mut frame, 0, 4));
        assert_eq!(frame[4..], [0xff, 0xff]);
    }

    #[test]
    fn a_field_outside_stays_alone() {
        for (start, field) in [(20, 0), (0, 19), (19, 0), (usize::MAX - 4, 16)] {
            let mut frame = [7; 20];
            assert!(!complete(&mut frame, start, field));
            assert_eq!(frame, [7; 20]);
        }
    }
}
