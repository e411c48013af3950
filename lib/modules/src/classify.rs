// SPDX-License-Identifier: MIT
//! Sorts frames by destination MAC address, VLAN and Ethernet type.
//!
//! IPv4 and IPv6 packets to the interface's own MAC address go on, in one mask each; `l3` and `interface` are set for all.
//! ARP, broadcasts, multicasts and unknown types to us go to the slow path. Frames for somebody else (a promiscuous
//! port), frames of a VLAN nobody configured and frames too short for a header are dropped.
//!
//! Cost: one read of the frame's first 16 bytes; a table access more for tagged frames.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use crate::tables::PortView;
use perigee_packet::{Batch, Mask, Slot};

/// What it does, for the documentation.
pub const SUMMARY: &str =
    "Sorts frames by destination MAC address, VLAN and Ethernet type into IPv4, IPv6 and the rest.";

reasons! { classify:
    drop SHORT = "short", "", "shorter than an Ethernet header and its VLAN tag";
    drop NOT_OURS = "not_ours", "", "the destination MAC address is another's (the port is promiscuous)";
    drop UNKNOWN_VLAN = "unknown_vlan", "", "no interface has this VLAN on this port";
    punt ARP = "arp", "RFC 826", "address resolution";
    punt BROADCAST = "broadcast", "RFC 1812 5.3.4", "link-layer broadcast";
    punt MULTICAST = "multicast", "RFC 1812 5.3.4", "link-layer multicast";
    punt OTHER_TYPE = "other_type", "", "an Ethernet type the fast path does not forward";
}

const VLAN: [u8; 2] = [0x81, 0x00];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const ARP_TYPE: [u8; 2] = [0x08, 0x06];

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    Ipv4,
    Ipv6,
    Drop(crate::Reason),
    Punt(crate::Reason),
}

/// The module; `ip4` and `ip6` are set, not narrowed: what they hold before does not count.
pub fn classify(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    let all = batch.live();
    ctx.counters.module(ModuleId::classify, all.count());
    (*ip4, *ip6) = (Mask::EMPTY, Mask::EMPTY);
    let ports = ctx.tables.ports();
    for mut packet in batch.packets(all) {
        let Some(port) = ports.get(usize::from(packet.port())) else { continue };
        let (ours, ethertype) = match packet.frame().first_chunk::<16>() {
            Some(head) => (port.is_own(head), [head[12], head[13]]),
            None => (false, [0, 0]),
        };
        packet.set_l3(14);
        packet.set_interface(port.untagged);
        let plain = ours & port.has_untagged;
        ip4.set_if(packet.index(), plain & (ethertype == IPV4));
        ip6.set_if(packet.index(), plain & (ethertype == IPV6));
    }
    let rest = all - *ip4 - *ip6;
    if !rest.is_empty() {
        classify_rest(ctx, batch, rest, ip4, ip6);
    }
}

/// The uncommon frames: tagged, not to our MAC address, not IP, short.
#[inline(never)]
fn classify_rest(ctx: &mut Context, batch: &mut Batch, rest: Mask, ip4: &mut Mask, ip6: &mut Mask) {
    for slot in rest {
        let class = batch.slot(slot).map(|mut packet| {
            let port = ctx.tables.ports().get(usize::from(packet.port()));
            port.map_or(Class::Drop(NOT_OURS), |port| class_of(port, &mut packet))
        });
        match class {
            Some(Class::Ipv4) => ip4.set(slot),
            Some(Class::Ipv6) => ip6.set(slot),
            Some(Class::Drop(reason)) => ctx.drop(batch, Mask::only(slot), reason),
            Some(Class::Punt(reason)) => ctx.punt(batch, Mask::only(slot), reason),
            None => {}
        }
    }
}

fn class_of(port: &PortView, packet: &mut Slot<'_>) -> Class {
    let Some(head) = packet.frame().first_chunk::<14>() else { return Class::Drop(SHORT) };
    let (destination, mut ethertype) = ([head[0], head[1], head[2], head[3], head[4], head[5]], [head[12], head[13]]);
    let mut interface = port.has_untagged.then_some(port.untagged);
    if ethertype == VLAN {
        let Some(tag) = packet.frame().get(14..18) else { return Class::Drop(SHORT) };
        let vid = u16::from_be_bytes([tag[0] & 0x0f, tag[1]]);
        ethertype = [tag[2], tag[3]];
        // VLAN 0 is a priority tag: the frame belongs to no VLAN (IEEE 802.1Q 9.6).
        if vid != 0 {
            interface = port.vlan(vid);
        }
        packet.set_l3(18);
    }
    let Some(interface) = interface else { return Class::Drop(UNKNOWN_VLAN) };
    packet.set_interface(interface);
    if ethertype == ARP_TYPE {
        Class::Punt(ARP)
    } else if destination == [0xff; 6] {
        Class::Punt(BROADCAST)
    } else if destination[0] & 1 != 0 {
        Class::Punt(MULTICAST)
    } else if destination != port.mac {
        Class::Drop(NOT_OURS)
    } else {
        match ethertype {
            IPV4 => Class::Ipv4,
            IPV6 => Class::Ipv6,
            _ => Class::Punt(OTHER_TYPE),
        }
    }
}
