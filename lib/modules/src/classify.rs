// SPDX-License-Identifier: MIT
//! Sorts frames by destination MAC address, VLAN and Ethernet type.
//!
//! IPv4 and IPv6 packets to the interface's own MAC address, or that of a virtual station on its link (VRRP), go on, in one mask each; `l3` and `interface` are set for all.
//! ARP, broadcasts, multicasts and unknown types to us go to the slow path; packets to groups that reach beyond their link go
//! on where there are multicast routes, and a script that calls `multicast`. Frames for another station (on a promiscuous
//! port), frames of a VLAN that is not configured and frames too short for a header are dropped.
//!
//! Cost: one read of the frame's first 34 bytes, into columns that later modules use, eight or sixteen frames at a time; tagged frames
//! and those to virtual stations are looked at one by one.

use crate::context::Context;
use crate::reason::reasons;
use crate::registry::ModuleId;
use crate::tables::{PortView, Tables};
use perigee_net::is_forwarded_group;
use perigee_packet::{Batch, Mask, Slot};
use std::net::{Ipv4Addr, Ipv6Addr};

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
    ctx.multicast.next_burst(ctx.tables.multicast.is_some());
    ctx.counters.module(ModuleId::classify, all.count());
    let common = batch.common_port();
    let port = common.and_then(|port| ctx.tables.ports().get(usize::from(port))).unwrap_or(&ctx.tables.nobody);
    [*ip4, *ip6] = batch.load_frames(port.mac);
    batch.set_interfaces(port.untagged);
    if !port.has_untagged {
        [*ip4, *ip6] = [Mask::EMPTY; 2];
    }
    if common.is_none() {
        [*ip4, *ip6] = classify_mixed(&ctx.tables, batch, all);
    }
    if !ip4.is_empty() {
        // The lookup's misses pass while the packets are checked.
        batch.expect4(*ip4, |addresses| ctx.tables.v4.prefetch_batch(addresses));
    }
    let rest = all - *ip4 - *ip6;
    if !rest.is_empty() {
        classify_rest(ctx, batch, rest, ip4, ip6);
    }
}

/// A burst of frames that came in on several ports, and were handed over by other workers: each is compared with its own port's
/// MAC address.
#[inline(never)]
fn classify_mixed(tables: &Tables, batch: &mut Batch, all: Mask) -> [Mask; 2] {
    let ports = tables.ports();
    batch.sort(all, |packet| {
        let port = ports.get(usize::from(packet.port())).unwrap_or(&tables.nobody);
        let (ours, ethertype) = match packet.frame().first_chunk::<16>() {
            Some(head) => (port.is_own(head), [head[12], head[13]]),
            None => (false, [0, 0]),
        };
        packet.set_interface(port.untagged);
        let plain = ours & port.has_untagged;
        [plain & (ethertype == IPV4), plain & (ethertype == IPV6)]
    })
}

/// The uncommon frames: tagged, not to our MAC address, not IP, short.
#[inline(never)]
fn classify_rest(ctx: &mut Context, batch: &mut Batch, rest: Mask, ip4: &mut Mask, ip6: &mut Mask) {
    let groups = ctx.multicast.in_burst;
    for slot in rest {
        let class = batch.slot(slot).map(|mut packet| {
            let port = ctx.tables.ports().get(usize::from(packet.port()));
            port.map_or(Class::Drop(NOT_OURS), |port| class_of(port, &mut packet, groups))
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

/// Where a frame goes. With `groups`, packets to groups are forwarded.
fn class_of(port: &PortView, packet: &mut Slot<'_>, groups: bool) -> Class {
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
        if groups { group_class(packet, destination, ethertype) } else { Class::Punt(MULTICAST) }
    } else if destination != port.mac && !port.has_station(interface, destination) {
        Class::Drop(NOT_OURS)
    } else {
        match ethertype {
            IPV4 => Class::Ipv4,
            IPV6 => Class::Ipv6,
            _ => Class::Punt(OTHER_TYPE),
        }
    }
}

/// Where a frame to a group of stations goes: only packets to a group that is forwarded go on (RFC 1812 5.3.4).
fn group_class(packet: &Slot<'_>, destination: [u8; 6], ethertype: [u8; 2]) -> Class {
    let v4 = |header: &[u8; 20]| Ipv4Addr::new(header[16], header[17], header[18], header[19]);
    let v6 = |header: &[u8; 40]| Ipv6Addr::from(<[u8; 16]>::try_from(&header[24..]).unwrap_or_default());
    let forwarded = match (destination, ethertype) {
        ([0x01, 0x00, 0x5e, ..], IPV4) => packet.network::<20>().is_some_and(|h| is_forwarded_group(v4(h).into())),
        ([0x33, 0x33, ..], IPV6) => packet.network::<40>().is_some_and(|h| is_forwarded_group(v6(h).into())),
        _ => false,
    };
    match ethertype {
        IPV4 if forwarded => Class::Ipv4,
        IPV6 if forwarded => Class::Ipv6,
        _ => Class::Punt(MULTICAST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, arp_request, changed, neighbor, own_mac, tagged, udp4, udp6};
    use perigee_fib::Published;
    use perigee_net::{AddressAttributes, HostAddress, InterfaceId, MacAddr, Station};
    use std::sync::Arc;

    /// What classify makes of one frame: ("ip4" | "ip6" | the reason, interface, offset of the network header).
    fn classified(port: u16, frame: &[u8]) -> (String, u16, usize) {
        let mut rig = Rig::new();
        let slot = rig.receive(port, frame);
        // Masks are set, not narrowed, so leftovers of the last burst must not count.
        let (mut ip4, mut ip6) = (Mask::ALL, Mask::ALL);
        classify(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        assert_eq!(rig.ctx.counters.module_packets(ModuleId::classify as usize), 1);
        let what = match (ip4.iter().collect::<Vec<_>>().as_slice(), ip6.iter().collect::<Vec<_>>().as_slice()) {
            ([0], []) => "ip4".to_owned(),
            ([], [0]) => "ip6".to_owned(),
            ([], []) => {
                assert!(rig.batch.live().is_empty());
                let [(name, 1)] = &rig.reasons()[..] else { panic!("one reason, once: {:?}", rig.reasons()) };
                name.clone()
            }
            both => panic!("{both:?}"),
        };
        let interface = rig.punted.try_recv().map_or(rig.batch.interface(slot), |punted| {
            assert_eq!((punted.packet.bytes(), punted.port, punted.next_hop), (frame, port, 0), "as it came");
            punted.interface.0
        });
        (what, interface, rig.batch.l3(slot))
    }

    fn expect(port: u16, frame: &[u8], what: &str, interface: u16, l3: usize) {
        assert_eq!(classified(port, frame), (what.to_owned(), interface, l3), "port {port}, frame {frame:02x?}");
    }

    fn to(frame: Vec<u8>, mac: MacAddr) -> Vec<u8> {
        changed(frame, |frame| frame[..6].copy_from_slice(&mac.octets()))
    }

    #[test]
    fn ip_to_us_goes_on_by_family_and_interface() {
        expect(0, &udp4(1, 8), "ip4", 0, 14);
        expect(0, &udp6(1, 8), "ip6", 0, 14);
        expect(1, &to(udp4(1, 8), own_mac(1)), "ip4", 1, 14);
        expect(1, &tagged(udp4(1, 8), 1, 10), "ip4", 2, 18);
        expect(2, &tagged(udp6(1, 8), 2, 20), "ip6", 3, 18);
        expect(0, &tagged(udp4(1, 8), 0, 30), "ip4", 4, 18);
    }

    #[test]
    fn priority_bits_do_not_matter_and_a_priority_tag_is_no_vlan() {
        let prioritized = |vid| changed(tagged(udp4(1, 8), 0, vid), |frame| frame[14] |= 0xf0);
        expect(0, &prioritized(30), "ip4", 4, 18);
        expect(0, &prioritized(0), "ip4", 0, 18);
        expect(
            2,
            &changed(prioritized(0), |frame| frame[..6].copy_from_slice(&own_mac(2).octets())),
            "classify.unknown_vlan",
            0,
            18,
        );
    }

    #[test]
    fn what_is_not_for_us_is_dropped() {
        expect(1, &udp4(1, 8), "classify.not_ours", 1, 14);
        expect(0, &tagged(udp4(1, 8), 1, 30), "classify.not_ours", 4, 18);
        expect(0, &tagged(udp4(1, 8), 0, 10), "classify.unknown_vlan", 0, 18);
        expect(0, &tagged(udp4(1, 8), 0, 4095), "classify.unknown_vlan", 0, 18);
        // Untagged on a port with VLANs only, even if it is a broadcast.
        expect(2, &to(udp4(1, 8), own_mac(2)), "classify.unknown_vlan", 0, 14);
        expect(2, &arp_request(), "classify.unknown_vlan", 0, 14);
        // A port that the tables do not know.
        assert_eq!(classified(9, &udp4(1, 8)).0, "classify.not_ours");
        assert_eq!(classified(u16::MAX, &arp_request()).0, "classify.not_ours");
    }

    /// VRRP's virtual MAC address: packets to it were another station's.
    #[test]
    fn a_virtual_station_is_the_ports_own_on_its_interface_alone() {
        const VIRTUAL: MacAddr = MacAddr([0, 0, 0x5e, 0, 1, 5]);
        let mut rig = Rig::new();
        let station = Some(Station { interface: InterfaceId(0), mac: VIRTUAL });
        let address = "10.0.0.254/32".parse().unwrap();
        let host = HostAddress { address, attributes: AddressAttributes::default(), station };
        let interfaces = rig.ctx.tables.interfaces.as_ref().clone().with_host_addresses(vec![host]);
        let macs: Vec<MacAddr> = (0..crate::testing::PORTS).map(own_mac).collect();
        let tables = Tables::new(rig.ctx.tables.fib(), Arc::new(interfaces), None, &macs);
        rig.ctx.tables = Published::new(tables).subscribe();
        for (port, frame) in [(0, udp4(1, 8)), (0, udp6(1, 8)), (1, udp4(1, 8)), (0, tagged(udp4(1, 8), 0, 30))] {
            rig.receive(port, &to(frame, VIRTUAL));
        }
        let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
        classify(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        assert_eq!((ip4, ip6), (Mask::only(0), Mask::only(1)));
        assert_eq!(rig.reasons(), [("classify.not_ours".to_owned(), 2)]);
    }

    #[test]
    fn the_rest_goes_to_the_slow_path_as_it_came() {
        expect(0, &arp_request(), "classify.arp", 0, 14);
        expect(0, &to(arp_request(), own_mac(0)), "classify.arp", 0, 14);
        expect(1, &changed(tagged(arp_request(), 1, 10), |frame| frame[..6].fill(0xff)), "classify.arp", 2, 18);
        expect(0, &to(udp4(1, 8), MacAddr::BROADCAST), "classify.broadcast", 0, 14);
        expect(0, &to(udp4(1, 8), MacAddr([1, 0, 0x5e, 0, 0, 5])), "classify.multicast", 0, 14);
        expect(0, &to(udp6(1, 8), MacAddr([0x33, 0x33, 0, 0, 0, 1])), "classify.multicast", 0, 14);
        expect(
            0,
            &changed(udp4(1, 8), |frame| frame[12..14].copy_from_slice(&[0x88, 0xcc])),
            "classify.other_type",
            0,
            14,
        );
        // A second tag.
        expect(0, &tagged(tagged(udp4(1, 8), 0, 7), 0, 30), "classify.other_type", 4, 18);
    }

    #[test]
    fn short_frames() {
        let (plain, tagged) = (udp4(1, 8), tagged(udp4(1, 8), 0, 30));
        for length in 0..14 {
            assert_eq!(classified(0, &plain[..length]).0, "classify.short", "{length} bytes");
        }
        for length in 14..18 {
            assert_eq!(classified(0, &tagged[..length]).0, "classify.short", "{length} bytes");
        }
        // Nothing but the Ethernet header: ipv4_valid says what is wrong with it.
        expect(0, &plain[..14], "ip4", 0, 14);
        expect(0, &plain[..15], "ip4", 0, 14);
        expect(0, &tagged[..18], "ip4", 4, 18);
        expect(0, &to(plain, neighbor(0))[..14], "classify.not_ours", 0, 14);
    }
}
