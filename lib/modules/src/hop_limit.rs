// SPDX-License-Identifier: MIT
//! Decrements the hop limit of IPv6 packets (RFC 8200 section 3).
//!
//! Packets whose hop limit would reach 0 go to the slow path as they came, for an ICMPv6 Time Exceeded.
//!
//! Cost: arithmetic on a column, eight or sixteen packets at a time, and one write of four bytes of the header.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_packet::batch::columns::ChangeWord;
use perigee_packet::batch::lanes::Lanes;
use perigee_packet::{Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Decrements the hop limit; expired packets go to the slow path for an ICMPv6 error.";

reasons! { hop_limit:
    punt EXPIRED = "expired", "RFC 8200 3", "the hop limit would reach 0";
}

/// Bytes of an IPv6 header.
const HEADER: u16 = 40;

/// The module.
pub fn hop_limit(ctx: &mut Context, batch: &mut Batch, mask: &mut Mask) {
    if !ctx.counters.enter(ModuleId::hop_limit, *mask) {
        return;
    }
    // Nothing shorter than its header leaves; a script need not have called `ipv6_valid`.
    let whole = batch.longer(*mask, HEADER - 1);
    let expired = (*mask - whole) | batch.change_word::<1>(whole, Decrement);
    ctx.punt(batch, expired, EXPIRED);
    *mask -= expired;
}

/// Takes one off a hop limit greater than 1, the last byte of the header's second word.
struct Decrement;

impl ChangeWord for Decrement {
    #[inline(always)]
    fn change<L: Lanes>(&self, word: L::Word) -> (L::Word, L::Truth) {
        let lives = L::greater(L::shr::<24>(word), L::splat(1));
        (L::sub(word, L::splat(1 << 24)), L::not(lives))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, changed, tagged, udp6};

    #[test]
    fn every_hop_limit_but_0_and_1_goes_on() {
        let mut rig = Rig::new();
        let frame = |limit: u8| changed(udp6(1, 8), |frame| frame[21] = limit);
        for limit in 0..=255 {
            rig.receive_classified(&frame(limit));
        }
        let mask = rig.run(hop_limit);
        assert_eq!((mask, rig.batch.live()), (Mask::ALL - Mask::first(2), mask));
        for limit in 2..=255 {
            assert_eq!(rig.batch.frame(limit), Some(&frame(limit - 1)[..]), "nothing else changes");
        }
        assert_eq!(rig.reasons(), [("hop_limit.expired".to_owned(), 2)]);
        for limit in 0..2 {
            assert_eq!(rig.punted.try_recv().unwrap().packet.bytes(), frame(limit), "as it came");
        }
    }

    /// With the 20 bytes that columns ask for they went on.
    #[test]
    fn what_is_shorter_than_a_header_goes_to_the_slow_path() {
        for (l3, frame) in [(14, udp6(1, 8)), (18, tagged(udp6(1, 8), 0, 30))] {
            let mut rig = Rig::new();
            for length in 0..=l3 + 41 {
                let slot = rig.receive(0, &frame[..length]);
                rig.batch.slot(slot).unwrap().set_l3(l3 as u8);
            }
            let whole = Mask::only(l3 as u8 + 40) | Mask::only(l3 as u8 + 41);
            assert_eq!((rig.run(hop_limit), rig.batch.live()), (whole, whole));
            for length in 0..l3 + 40 {
                assert_eq!(rig.punted.try_recv().unwrap().packet.bytes(), &frame[..length], "as it came");
            }
        }
    }
}
