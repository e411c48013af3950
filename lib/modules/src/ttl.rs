// SPDX-License-Identifier: MIT
//! Decrements the TTL of IPv4 packets and corrects the header checksum (RFC 1812 5.3.1, RFC 1624).
//!
//! Packets whose TTL would reach 0 go to the slow path as they came, for an ICMP Time Exceeded.
//!
//! Cost: arithmetic on a column, eight or sixteen packets at a time, and one write of four bytes of the header.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_packet::batch::columns::ChangeWord;
use perigee_packet::batch::lanes::Lanes;
use perigee_packet::{Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Decrements the TTL; expired packets go to the slow path for an ICMP error.";

reasons! { ttl:
    punt EXPIRED = "expired", "RFC 1812 5.3.1", "the TTL would reach 0";
}

/// The module.
pub fn ttl(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    if !ctx.counters.enter(ModuleId::ttl, *mask) {
        return;
    }
    let expired = batch.change_word::<2>(*mask, Decrement);
    ctx.punt(batch, expired, EXPIRED);
    *mask -= expired;
}

/// Takes one off a TTL greater than 1, in the word of TTL, protocol and checksum.
struct Decrement;

impl ChangeWord for Decrement {
    #[inline(always)]
    fn change<L: Lanes>(&self, word: L::Word) -> (L::Word, L::Truth) {
        let lives = L::greater(L::and(word, L::splat(0xff)), L::splat(1));
        // 0x0100 less in the header is 0x0100 more in its checksum, which is the word's upper half in the other byte order; the carry goes
        // round. 0xffff cannot come out but from 0xfeff, and would mean 0 (RFC 1624 section 3): there the carry comes one earlier.
        let carries = L::equal(L::shr::<17>(word), L::splat(0x7fff));
        let less = L::add(word, L::splat(0x1_0000 - 1));
        (L::add(less, L::only(carries, L::splat(0x1_0000))), L::not(lives))
    }
}

/// Takes one off a TTL greater than 0.
pub(crate) fn decrement(header: &mut [u8; 20]) {
    header[8] -= 1;
    // As above.
    let old = u16::from_ne_bytes([header[10], header[11]]);
    let (sum, carry) = old.overflowing_add(u16::from_ne_bytes([1, 0]));
    let new = if sum == 0xffff { 0 } else { sum + u16::from(carry) };
    [header[10], header[11]] = new.to_ne_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, changed4, fix_checksum, udp4};
    use perigee_packet::BATCH_SIZE;

    /// Runs the module on IPv4 headers; returns them as they are afterwards, `None` for those that were punted.
    fn run(rig: &mut Rig, headers: &[[u8; 20]]) -> Vec<Option<[u8; 20]>> {
        rig.batch.refill();
        for header in headers {
            let mut frame = udp4(1, 8);
            frame[14..34].copy_from_slice(header);
            rig.receive_classified(&frame);
        }
        let mask = rig.run(ttl);
        assert_eq!(mask, rig.batch.live(), "the mask is what goes on");
        let header = |slot: u8| rig.batch.frame(slot).map(|frame| *frame[14..].first_chunk().unwrap());
        (0..headers.len()).map(|slot| header(slot as u8)).collect()
    }

    /// A header with this identification, TTL, and the right checksum.
    fn header(identification: u16, ttl: u8) -> [u8; 20] {
        let frame = changed4(udp4(1, 8), |frame| {
            frame[18..20].copy_from_slice(&identification.to_be_bytes());
            frame[22] = ttl;
        });
        *frame[14..].first_chunk().unwrap()
    }

    fn checksum(header: &[u8; 20]) -> u16 {
        u16::from_be_bytes([header[10], header[11]])
    }

    /// For every value that the checksum field can have, what comes out is what a full computation gives.
    #[test]
    fn the_checksum_is_right_for_all_values() {
        let mut rig = Rig::new();
        let mut headers: Vec<_> =
            [2, 64, 255].into_iter().flat_map(|ttl| (0..=u16::MAX).map(move |id| header(id, ttl))).collect();
        // No sender computes 0xffff, but it means the same as 0 and passes the check (RFC 1624 section 3).
        let zeros: Vec<_> = headers.iter().filter(|header| checksum(header) == 0).copied().collect();
        assert!(zeros.len() >= 3);
        headers.extend(zeros.into_iter().map(|mut header| {
            header[10..12].fill(0xff);
            header
        }));
        let mut seen = vec![false; 1 << 16];
        for burst in headers.chunks(BATCH_SIZE) {
            for (before, after) in burst.iter().zip(run(&mut rig, burst)) {
                seen[usize::from(checksum(before))] = true;
                let mut expected = *before;
                expected[8] -= 1;
                fix_checksum(&mut expected);
                assert_eq!(after, Some(expected), "before {before:02x?}");
            }
        }
        assert_eq!(seen.iter().position(|seen| !seen), None, "a checksum was not tried");
    }

    #[test]
    fn every_ttl_but_0_and_1_goes_on() {
        let mut rig = Rig::new();
        let headers: Vec<_> = (0..=255).map(|ttl| header(7, ttl)).collect();
        for (ttl, after) in run(&mut rig, &headers).into_iter().enumerate() {
            assert_eq!(after.map(|header| usize::from(header[8])), (ttl > 1).then(|| ttl - 1));
        }
        assert_eq!(rig.reasons(), [("ttl.expired".to_owned(), 2)]);
        for ttl in 0..2 {
            let punted = rig.punted.try_recv().unwrap();
            assert_eq!((punted.reason, &punted.packet.bytes()[14..34]), (EXPIRED, &header(7, ttl)[..]), "as it came");
        }
    }

    #[test]
    fn a_packet_outside_the_mask_is_left_alone() {
        let mut rig = Rig::new();
        let frame = udp4(1, 8);
        rig.receive_classified(&frame);
        rig.receive_classified(&frame);
        let mut mask = Mask::only(1);
        ttl(&mut rig.ctx, &mut rig.batch, &mut mask);
        assert_eq!((rig.batch.frame(0), mask), (Some(&frame[..]), Mask::only(1)));
    }
}
