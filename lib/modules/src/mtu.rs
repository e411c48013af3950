// SPDX-License-Identifier: MIT
//! Does the packet fit the interface it leaves by?
//!
//! Those too big go to the slow path: to be fragmented (RFC 1812 5.2.6), or for an ICMP error with the MTU (RFC 1191,
//! RFC 4443 3.2). Of a super-frame each segment is judged, as the kernel does not do that. The check comes before TTL and
//! hop limit are changed, so the slow path gets the packet as it came.
//!
//! Cost: a comparison, eight or sixteen packets at a time; of those that do not fit all interfaces a read of length and next hop, and of
//! the interface's table entry. The frame is not touched.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_fib::NextHopId;
use perigee_packet::{Batch, Mask, SuperFrame};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Sends packets larger than the outgoing interface's MTU to the slow path.";

reasons! { mtu:
    punt TOO_BIG4 = "ipv4_too_big", "RFC 1812 5.2.6", "larger than the outgoing interface's MTU: to be fragmented or refused";
    punt TOO_BIG6 = "ipv6_too_big", "RFC 4443 3.2", "larger than the outgoing interface's MTU: to be refused";
}

/// Is it a super-frame whose segments fit?
#[cold]
pub(crate) fn fits_in_segments(batch: &mut Batch, slot: u8, mtu: u16) -> bool {
    let Some(packet) = batch.slot(slot) else { return false };
    let whole = packet.gso_size().and_then(|size| SuperFrame::new(packet.frame(), size));
    whole.is_some_and(|whole| whole.longest_packet() <= mtu.into())
}

/// The module.
pub fn mtu(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let all = *ip4 | *ip6;
    if !ctx.counters.enter(ModuleId::mtu, all) {
        return;
    }
    let (next_hops, interfaces) = (&*ctx.tables.next_hops, &*ctx.tables.interfaces);
    let large = batch.longer(all, interfaces.smallest_mtu());
    if large.is_empty() {
        return;
    }
    let too_big = large.filter(|slot| {
        let next_hop = next_hops.get(NextHopId(batch.next_hop(slot)));
        // A next hop that has lost its neighbor since the lookup is not a question of size: apply finds it.
        let mtu = interfaces.egress(next_hop.interface()).map_or(u16::MAX, |egress| egress.mtu);
        // Padding does not count as too big, as no link has an MTU below the shortest Ethernet frame.
        batch.length(slot).saturating_sub(batch.l3(slot)) > usize::from(mtu) && !fits_in_segments(batch, slot, mtu)
    });
    if !too_big.is_empty() {
        ctx.punt(batch, too_big & *ip4, TOO_BIG4);
        ctx.punt(batch, too_big & *ip6, TOO_BIG6);
        *ip4 -= too_big;
        *ip6 -= too_big;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, SMALL_MTU, tagged, udp4, udp6};

    /// Looks up and checks one frame with `l3` bytes before its network header; true if it goes on.
    fn passes(rig: &mut Rig, frame: &[u8], l3: u8) -> bool {
        rig.batch.refill();
        let slot = rig.receive(0, frame);
        rig.batch.slot(slot).unwrap().set_l3(l3);
        let is_v6 = frame[usize::from(l3)] >> 4 == 6;
        let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
        if is_v6 {
            ip6 = rig.run(crate::ipv6_lookup::ipv6_lookup);
        } else {
            ip4 = rig.run(crate::ipv4_lookup::ipv4_lookup);
        }
        mtu(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        let (mine, other) = if is_v6 { (ip6, ip4) } else { (ip4, ip6) };
        assert!(other.is_empty() && mine == rig.batch.live());
        !mine.is_empty()
    }

    #[test]
    fn the_packet_counts_and_not_its_frame() {
        let mut rig = Rig::new();
        for (to, mtu) in [(1, 1500), (SMALL_MTU, 1280)] {
            let (largest4, largest6) = (mtu - 28, mtu - 48);
            assert!(passes(&mut rig, &udp4(to, largest4), 14));
            assert!(passes(&mut rig, &tagged(udp4(to, largest4), 0, 30), 18));
            assert!(!passes(&mut rig, &udp4(to, largest4 + 1), 14));
            assert!(!passes(&mut rig, &tagged(udp4(to, largest4 + 1), 0, 30), 18));
            assert!(passes(&mut rig, &udp6(to, largest6), 14));
            assert!(!passes(&mut rig, &udp6(to, largest6 + 1), 14));
        }
        assert_eq!(rig.reasons(), [("mtu.ipv4_too_big".to_owned(), 4), ("mtu.ipv6_too_big".to_owned(), 2)]);
        let punted = rig.punted.try_recv().unwrap();
        assert_eq!((punted.packet.bytes(), punted.reason), (&udp4(1, 1473)[..], TOO_BIG4), "as it came");
    }

    #[test]
    fn of_a_super_frame_the_segments_count() {
        let mut rig = Rig::new();
        for (to, limit) in [(1u8, 1500u16), (SMALL_MTU, 1280)] {
            for (over, fits) in [(0, true), (1, false)] {
                rig.batch.refill();
                let slot = rig.receive(0, &udp4(to, 9000));
                let mut packet = rig.batch.slot(slot).unwrap();
                packet.set_l3(14);
                packet.set_gso_size(std::num::NonZeroU16::new(limit - 28 + over));
                let mut ip4 = rig.run(crate::ipv4_lookup::ipv4_lookup);
                mtu(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut Mask::default());
                assert_eq!(!ip4.is_empty(), fits, "segments of {} bytes, MTU {limit}", limit + over);
            }
        }
    }

    #[test]
    fn a_neighbor_lost_meanwhile_is_no_matter_of_size() {
        let mut rig = Rig::new();
        rig.receive_classified(&udp4(1, 8));
        let mut ip4 = rig.run(crate::ipv4_lookup::ipv4_lookup);
        rig.lose_neighbor(1);
        mtu(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut Mask::default());
        assert_eq!((ip4, rig.reasons()), (Mask::only(0), vec![]));
    }
}
