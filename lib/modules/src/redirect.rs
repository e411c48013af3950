// SPDX-License-Identifier: MIT
//! Looks for packets that leave by the interface they came in on: their senders may have to be told of a better first hop
//! (RFC 1812 5.2.7.2, RFC 4861 8.2).
//!
//! Every packet goes on. The slow path gets a copy of a few of those whose sender is on the interface's own network, at most
//! 100 per second and worker, and judges whether a redirect is due. One packet of each burst is looked at: when bursts are short, as on a
//! router with little to do, that is every packet; of a flood, a sample. Interfaces with `redirects = false` are left out.
//!
//! Cost: per burst, not per packet: one next hop is compared with one interface. Only the packets looked at are counted, as to
//! count the bits of a mask would be half of the cost.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_net::InterfaceId;
use perigee_packet::{Batch, Mask};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Shows the slow path some of the packets that leave by the interface they came in on.";

reasons! { redirect:
    punt SENT_BACK = "sent_back", "RFC 1812 5.2.7.2", "a copy: the packet goes on, by the interface it came in on, and its sender may know no better way";
}

/// Time that one copy costs, in ns, and how many can be saved up for.
const INTERVAL: u64 = 10_000_000;
const SAVED_UP: u64 = 32;

/// The module; no packet leaves the masks.
pub fn redirect(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let all = *ip4 | *ip6;
    // Any place in the burst is as likely as any other, so that no sender is always hidden behind another.
    let mixed = ctx.now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let place = (mixed * batch.count() as u64) >> 32;
    let Some(slot) = all.next_from(place as u8) else { return };
    ctx.counters.module(ModuleId::redirect, 1);
    // A next hop that packets cannot be sent to has a number that no interface has.
    if ctx.tables.next_hop(batch.next_hop(slot)).interface().0 == batch.interface(slot) {
        sent_back(ctx, batch, slot);
    }
}

#[cold]
#[inline(never)]
fn sent_back(ctx: &mut Context, batch: &Batch, slot: u8) {
    let Some(interface) = ctx.tables.interfaces.get(InterfaceId(batch.interface(slot))) else { return };
    if !interface.policy.redirects || ctx.next_redirect > ctx.now + (SAVED_UP - 1) * INTERVAL {
        return;
    }
    let Some(source) = source(batch, slot) else { return };
    if interface.addresses.iter().any(|own| own.covers(source)) && ctx.show(batch, slot, SENT_BACK) {
        ctx.next_redirect = ctx.next_redirect.max(ctx.now) + INTERVAL;
    }
}

/// The packet's source.
fn source(batch: &Batch, slot: u8) -> Option<IpAddr> {
    let packet = batch.frame(slot)?.get(batch.l3(slot)..)?;
    match packet.first()? >> 4 {
        4 => Some(Ipv4Addr::from(*packet.get(12..)?.first_chunk::<4>()?).into()),
        _ => Some(Ipv6Addr::from(*packet.get(8..)?.first_chunk::<16>()?).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, udp4, udp6};

    /// A rig whose interface 0 has the network of the frames' source, and frames that lead back out of it.
    fn rig(redirects: bool) -> Rig {
        let mut rig = Rig::new();
        rig.change_interface(0, |interface| {
            interface.addresses = vec!["198.51.100.1/24".parse().unwrap(), "2001:db8:ffff::1/64".parse().unwrap()];
            interface.policy.redirects = redirects;
        });
        rig
    }

    /// Looks frames up and runs the module; returns how many copies the slow path got.
    fn run(rig: &mut Rig, frames: &[Vec<u8>]) -> usize {
        rig.batch.refill();
        let mut masks = [Mask::EMPTY; 2];
        for frame in frames {
            let slot = rig.receive_classified(frame);
            rig.batch.slot(slot).unwrap().set_interface(0);
            masks[usize::from(frame[14] >> 4 == 6)].set(slot);
        }
        let [mut ip4, mut ip6] = masks;
        crate::ipv4_lookup::ipv4_lookup(&mut rig.ctx, &mut rig.batch, &mut ip4);
        crate::ipv6_lookup::ipv6_lookup(&mut rig.ctx, &mut rig.batch, &mut ip6);
        let before = (ip4, ip6);
        redirect(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        assert_eq!((ip4, ip6, rig.batch.live()), (before.0, before.1, before.0 | before.1), "every packet goes on");
        let copies: Vec<_> = rig.punted.try_iter().collect();
        for copy in &copies {
            assert!(frames.iter().any(|frame| frame == copy.packet.bytes()), "as it came");
            assert_eq!((copy.reason, copy.interface, copy.port), (SENT_BACK, InterfaceId(0), 0));
        }
        copies.len()
    }

    #[test]
    fn a_copy_of_what_is_sent_back_to_a_network_of_its_own() {
        let mut rig = rig(true);
        assert_eq!(run(&mut rig, &[udp4(0, 8)]), 1);
        assert_eq!(run(&mut rig, &[udp6(0, 8)]), 1);
        assert_eq!(rig.reasons(), [("redirect.sent_back".to_owned(), 2)]);
        assert_eq!(rig.ctx.counters.punted.get(), 2);
        // Out of another interface, of another VLAN on the same port.
        assert_eq!(run(&mut rig, &[udp4(1, 8)]), 0);
        assert_eq!(run(&mut rig, &[udp4(4, 8)]), 0);
        // From somewhere else.
        rig.change_interface(0, |interface| interface.addresses.clear());
        assert_eq!(run(&mut rig, &[udp4(0, 8)]), 0);
        assert_eq!(run(&mut rig, &[udp6(0, 8)]), 0);
        assert_eq!(run(&mut rig, &[]), 0);
    }

    #[test]
    fn an_interface_may_be_left_out() {
        assert_eq!(run(&mut rig(false), &[udp4(0, 8)]), 0);
    }

    #[test]
    fn a_flood_gives_a_few_copies_and_each_place_its_turn() {
        let mut rig = rig(true);
        // 32 saved up, then 100 per second: in 2 seconds, 200.
        let mut copies = 0;
        for round in 0..20_000 {
            rig.ctx.now = 1 + round * 100_000;
            copies += run(&mut rig, &[udp4(0, 8)]);
        }
        assert_eq!(copies, 32 + 199);
        // One sender among many others is found before long.
        let mut frames = vec![udp4(1, 8); 63];
        frames.push(udp4(0, 8));
        let looks = (0..).position(|round| {
            rig.ctx.now += 1_000_003 * (round + 1);
            run(&mut rig, &frames) > 0
        });
        assert!(looks.unwrap() < 1000);
    }

    #[test]
    fn a_full_ring_and_a_lack_of_buffers_cost_no_packet() {
        let mut rig = rig(true);
        rig.fill_punts();
        let frame = udp4(0, 8);
        let slot = rig.receive_classified(&frame);
        rig.batch.slot(slot).unwrap().set_interface(0);
        let mut ip4 = rig.run(crate::ipv4_lookup::ipv4_lookup);
        redirect(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut Mask::default());
        assert_eq!((ip4, rig.ctx.next_redirect), (Mask::only(0), 0));
        assert_eq!(rig.ctx.counters.reason_packets(SENT_BACK), 0);
        assert_eq!(rig.ctx.counters.reason_packets(crate::host::PUNT_RING_FULL), 0, "nothing was lost");
    }
}
