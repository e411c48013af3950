// SPDX-License-Identifier: MIT
//! Applies the route: writes the Ethernet header of the outgoing interface, with or without a VLAN tag, and `out_port`.
//!
//! A packet whose next hop lost its neighbor since the lookup goes to the slow path.
//!
//! Cost: one write of 12 bytes; for a frame that gains or loses a VLAN tag, its start moves by 4 bytes.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use perigee_fib::{Egress, NextHop};
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
    ctx.counters.module(ModuleId::apply, all.count());
    let (mut stale, mut tagged, mut no_room) = (Mask::EMPTY, Mask::EMPTY, Mask::EMPTY);
    for mut packet in batch.packets(all) {
        let slot = packet.index();
        let next_hop = ctx.tables.next_hop(packet.next_hop());
        let egress = ctx.tables.interfaces.egress(next_hop.interface());
        match egress {
            Some(egress) if packet.l3() == 14 && egress.vlan == 0 => write_header(&mut packet, next_hop, egress),
            Some(_) => tagged.set(slot),
            // Reserved interface ids are beyond every table: a next hop that is no longer to be sent to.
            None => stale.set(slot),
        }
    }
    for mut packet in batch.packets(tagged) {
        let next_hop = ctx.tables.next_hop(packet.next_hop());
        let egress = ctx.tables.interfaces.egress(next_hop.interface());
        let done =
            egress.map(|egress| retag(&mut packet, egress).map(|()| write_header(&mut packet, next_hop, egress)));
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

#[inline(always)]
fn write_header(packet: &mut Slot<'_>, next_hop: NextHop, egress: &Egress) {
    packet.set_out_port(egress.port);
    if let Some(head) = packet.frame_mut().first_chunk_mut::<12>() {
        // Two numbers of 48 bits, big-endian, one behind the other.
        let both = u128::from(next_hop.mac_bits()) << 80 | u128::from(egress.mac_bits) << 32;
        head.copy_from_slice(&both.to_be_bytes()[..12]);
    }
}

/// Gives the frame the outgoing interface's VLAN tag, or none; `None` if there is no room for it.
fn retag(packet: &mut Slot<'_>, egress: &Egress) -> Option<()> {
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
