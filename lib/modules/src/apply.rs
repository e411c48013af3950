// SPDX-License-Identifier: MIT
//! Applies the route: writes the Ethernet header of the outgoing interface, with or without a VLAN tag, and `out_port`.
//!
//! A packet whose next hop lost its neighbor since the lookup goes to the slow path.
//!
//! Cost: one write of 12 bytes; for a frame that gains or loses a VLAN tag, its start moves by 4 bytes.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_fib::{Egress, NextHopId};
use perigee_packet::batch::columns::Departure;
use perigee_packet::{Batch, Mask, Slot};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Writes the outgoing interface's Ethernet header: neighbor, own MAC address, VLAN tag.";

reasons! { apply:
    punt STALE = "stale", "", "the next hop lost its neighbor since the lookup";
    drop NO_ROOM = "no_room", "", "no room before the packet for a VLAN tag";
}

/// The module.
pub fn apply(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let all = *ip4 | *ip6;
    if !ctx.counters.enter(ModuleId::apply, all) {
        return;
    }
    let (next_hops, interfaces) = (ctx.tables.next_hops.view(), ctx.tables.interfaces.egresses());
    let odd = batch.readdress(all, |id| {
        let (interface, to) = next_hops.interface_and_mac(NextHopId(id))?;
        // Reserved interface ids are beyond every table: nothing may be sent to such a next hop any more.
        let egress = interfaces.get(usize::from(interface.0)).filter(|egress| egress.vlan == 0)?;
        Some(departure(to, egress))
    });
    if odd.is_empty() {
        return;
    }
    let (mut stale, mut no_room) = (Mask::EMPTY, Mask::EMPTY);
    for mut packet in batch.packets(odd) {
        let next_hop = next_hops.get(NextHopId(packet.next_hop()));
        let egress = interfaces.get(usize::from(next_hop.interface().0));
        let done = egress
            .map(|egress| retag(&mut packet, egress).map(|()| write_header(&mut packet, next_hop.mac_bits(), egress)));
        match done {
            Some(Some(())) => {}
            Some(None) => no_room.set(packet.index()),
            None => stale.set(packet.index()),
        }
    }
    if !(stale | no_room).is_empty() {
        ctx.punt(batch, stale, STALE);
        ctx.drop(batch, no_room, NO_ROOM);
        *ip4 -= stale | no_room;
        *ip6 -= stale | no_room;
    }
}

/// How a frame to a station, whose address is a big-endian number of 48 bits, leaves by an interface.
#[inline(always)]
fn departure(to: u64, egress: &Egress) -> Departure {
    // Two numbers of 48 bits, big-endian, one after the other.
    let (first, last) = egress.mac_parts();
    Departure { first: to << 16 | u64::from(first), last, port: egress.port }
}

/// Writes the Ethernet header's addresses, the destination a big-endian number of 48 bits, and `out_port`.
pub(crate) fn write_header(packet: &mut Slot<'_>, to: u64, egress: &Egress) {
    let Departure { first, last, port } = departure(to, egress);
    packet.set_out_port(port);
    if let Some(head) = packet.addresses_mut() {
        let (start, end) = head.split_at_mut(8);
        start.copy_from_slice(&first.to_be_bytes());
        end.copy_from_slice(&last.to_be_bytes());
    }
}

/// Gives the frame the outgoing interface's VLAN tag, or none; `None` if there is no room for it.
pub(crate) fn retag(packet: &mut Slot<'_>, egress: &Egress) -> Option<()> {
    let had = packet.l3() == 18;
    let ethertype: [u8; 2] = packet.frame().get(usize::from(packet.l3()).checked_sub(2)?..)?.first_chunk().copied()?;
    match (had, egress.vlan != 0) {
        (true, false) => packet.pull(4).ok()?,
        (false, true) => packet.push(4).ok()?,
        _ => {}
    }
    if egress.vlan == 0 {
        packet.set_l3(14);
        packet.frame_mut().get_mut(12..14)?.copy_from_slice(&ethertype);
    } else {
        packet.set_l3(18);
        let tag = packet.frame_mut().get_mut(12..18)?;
        let [high, low] = egress.vlan.to_be_bytes();
        tag.copy_from_slice(&[0x81, 0x00, high, low, ethertype[0], ethertype[1]]);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{INTERFACES, Rig, changed, neighbor, own_mac, tagged, udp4, udp6};

    /// Port, VLAN and L3 offset of the frames that leave by each interface.
    const EGRESS: [(u16, u16, usize); INTERFACES as usize] =
        [(0, 0, 14), (1, 0, 14), (1, 10, 18), (2, 20, 18), (0, 30, 18), (3, 0, 14)];

    /// Puts a frame into the batch and looks it up.
    fn looked_up(rig: &mut Rig, frame: &[u8], l3: u8) -> Mask {
        rig.batch.refill();
        let slot = rig.receive(0, frame);
        rig.batch.slot(slot).unwrap().set_l3(l3);
        let is_v6 = frame[usize::from(l3)] >> 4 == 6;
        rig.run(if is_v6 { crate::ipv6_lookup::ipv6_lookup } else { crate::ipv4_lookup::ipv4_lookup })
    }

    /// The frame that should leave by interface `to`, from the untagged frame that came in.
    fn expected(frame: &[u8], to: u8) -> Vec<u8> {
        let (port, vlan, _) = EGRESS[usize::from(to)];
        let frame = if vlan == 0 { frame.to_vec() } else { tagged(frame.to_vec(), port, vlan) };
        changed(frame, |frame| {
            frame[..6].copy_from_slice(&neighbor(to).octets());
            frame[6..12].copy_from_slice(&own_mac(port).octets());
        })
    }

    /// Untagged in, tagged in and priority-tagged in, out by every interface: tags are kept out, put in, taken off, swapped.
    #[test]
    fn every_way_in_and_out() {
        let mut rig = Rig::new();
        for to in 0..INTERFACES {
            for plain in [udp4(to, 8), udp6(to, 8), udp4(to, 0)] {
                let prioritized = changed(tagged(plain.clone(), 0, 0), |frame| frame[14] = 0xe0);
                for (frame, l3) in [(&plain, 14), (&tagged(plain.clone(), 0, 30), 18), (&prioritized, 18)] {
                    let mask = looked_up(&mut rig, frame, l3);
                    let is_v6 = plain[14] >> 4 == 6;
                    let (mut ip4, mut ip6) = if is_v6 { (Mask::EMPTY, mask) } else { (mask, Mask::EMPTY) };
                    apply(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
                    assert_eq!(ip4 | ip6, Mask::only(0));
                    let (port, _, l3) = EGRESS[usize::from(to)];
                    assert_eq!((rig.batch.out_port(0), rig.batch.l3(0)), (port, l3));
                    assert_eq!(rig.batch.frame(0), Some(&expected(&plain, to)[..]), "in {frame:02x?}, out by {to}");
                }
            }
        }
        assert_eq!(rig.reasons(), []);
    }

    #[test]
    fn a_neighbor_lost_since_the_lookup() {
        for (to, frame) in [(0, udp4(0, 8)), (3, udp4(3, 8)), (3, udp6(3, 8))] {
            let mut rig = Rig::new();
            let mut mask = looked_up(&mut rig, &frame, 14);
            rig.lose_neighbor(to);
            apply(&mut rig.ctx, &mut rig.batch, &mut mask, &mut Mask::default());
            assert_eq!((mask, rig.reasons()), (Mask::EMPTY, vec![("apply.stale".to_owned(), 1)]));
            let punted = rig.punted.try_recv().unwrap();
            assert_eq!((punted.packet.bytes(), punted.reason), (&frame[..], STALE));
            assert_ne!(punted.next_hop, 0, "the slow path learns where it should have gone");
        }
    }

    #[test]
    fn a_buffer_without_headroom_takes_no_tag_but_gives_one_off() {
        let mut rig = Rig::new();
        for (to, goes_on) in [(2, false), (1, true)] {
            let mut mask = looked_up(&mut rig, &udp4(to, 8), 14);
            rig.use_up_headroom(0);
            apply(&mut rig.ctx, &mut rig.batch, &mut mask, &mut Mask::default());
            assert_eq!(!mask.is_empty(), goes_on);
        }
        assert_eq!(rig.reasons(), [("apply.no_room".to_owned(), 1)]);
        let mut mask = looked_up(&mut rig, &tagged(udp4(2, 8), 0, 30), 18);
        rig.use_up_headroom(0);
        apply(&mut rig.ctx, &mut rig.batch, &mut mask, &mut Mask::default());
        assert_eq!(rig.batch.frame(0), Some(&expected(&udp4(2, 8), 2)[..]), "a tag is swapped in place");
    }

    /// A script may call apply on what classify has never seen.
    #[test]
    fn any_offset_and_length_is_survived() {
        let mut rig = Rig::new();
        for to in 0..INTERFACES {
            for (length, l3) in (0..24).flat_map(|length| (0..=255).map(move |l3| (length, l3))) {
                let mut mask = looked_up(&mut rig, &udp4(to, 8), 14);
                let mut packet = rig.batch.slot(0).unwrap();
                packet.resize(length).unwrap();
                packet.set_l3(l3);
                apply(&mut rig.ctx, &mut rig.batch, &mut mask, &mut Mask::default());
                assert_eq!(mask, rig.batch.live());
            }
        }
    }
}
