// SPDX-License-Identifier: MIT
//! Good frames: UDP to every kind of destination, and of every other kind of packet at least one.

use super::router::{ADDRESSES4, ADDRESSES6, FILTERED, PORTS, VLAN};
use crate::bed;
use perigee_net::MacAddr;
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{arp, checksum, ethernet, icmp4, icmp6, ipv4, ipv6, protocol, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const FROM: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
/// How often what can be forwarded is among the templates.
const FORWARDED: usize = 16;
const HOST4: Ipv4Addr = ADDRESSES4[2];
const HOST6: Ipv6Addr = ADDRESSES6[2];

/// A good frame, and the port it comes in by.
#[derive(Clone, Debug)]
pub struct Template {
    /// Port of the router.
    pub port: u16,
    /// The frame, from its destination MAC address on.
    pub frame: Vec<u8>,
}

/// All templates, always in the same order.
pub fn all() -> Vec<Template> {
    let mut packets = Vec::new();
    for to in ADDRESSES4 {
        packets.extend([packet4(to, 64, &[], 20), packet4(to, 1, &[], 20), packet4(to, 64, &[], 1460)]);
    }
    for to in ADDRESSES6 {
        packets.extend([packet6(to, 64, 20), packet6(to, 1, 20), packet6(to, 64, 1440)]);
    }
    // Half of all is what a router is for.
    for _ in 0..FORWARDED {
        packets.extend(ADDRESSES4[..6].iter().map(|to| packet4(*to, 64, &[], 20)));
        packets.extend(ADDRESSES6[..6].iter().map(|to| packet6(*to, 64, 20)));
    }
    packets.extend(others4());
    packets.extend(others6());
    let mut all: Vec<Template> = packets.into_iter().map(|packet| framed(0, &packet)).collect();
    let again: Vec<Template> = all.iter().enumerate().map(|(n, one)| elsewhere(1 + n as u16 % 3, one)).collect();
    all.extend(again);
    all.extend([arp_request(), framed_as(0, MacAddr::BROADCAST, 0x88cc, &[0; 46])]);
    all
}

/// A packet in a frame to a port, or to the group that it is for.
fn framed(port: u16, packet: &[u8]) -> Template {
    let mac = MacAddr(bed::mac(port));
    if packet[0] >> 4 == 4 {
        let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
        let mac = match to {
            Ipv4Addr::BROADCAST => MacAddr::BROADCAST,
            to if to.is_multicast() => MacAddr::of_group(IpAddr::V4(to)),
            _ => mac,
        };
        return framed_as(port, mac, ethertype::IPV4, packet);
    }
    let to: [u8; 16] = packet[24..40].try_into().expect("16 bytes of an IPv6 header");
    let mac = if to[0] == 0xff { MacAddr::of_group(IpAddr::V6(to.into())) } else { mac };
    framed_as(port, mac, ethertype::IPV6, packet)
}

fn framed_as(port: u16, to: MacAddr, kind: u16, payload: &[u8]) -> Template {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    ethernet::emit(&mut frame, to, FROM, kind).expect("room for the header");
    frame.extend_from_slice(payload);
    Template { port, frame }
}

/// The same frame by another port, or by port b's VLAN.
fn elsewhere(port: u16, template: &Template) -> Template {
    let (port, tag) = if port >= PORTS { (1, true) } else { (port, false) };
    let mut frame = template.frame.clone();
    if frame[0] & 1 == 0 {
        frame[..6].copy_from_slice(&bed::mac(port));
    }
    if tag {
        frame.splice(12..12, [0x81, 0, 0, VLAN as u8]);
    }
    Template { port, frame }
}

fn arp_request() -> Template {
    let request = arp::Repr {
        operation: 1,
        sender_mac: FROM,
        sender_ip: HOST4,
        target_mac: MacAddr::ZERO,
        target_ip: Ipv4Addr::new(10, 0, 1, 1),
    };
    let mut packet = [0; 28];
    request.emit(&mut packet).expect("28 bytes");
    framed_as(0, MacAddr::BROADCAST, ethertype::ARP, &packet)
}

/// UDP over IPv4 with options, a multiple of four bytes.
fn packet4(to: Ipv4Addr, ttl: u8, options: &[u8], payload: usize) -> Vec<u8> {
    let mut body = vec![0; 8 + payload];
    udp::emit(&mut body, 1000, 9, payload).expect("room for the header");
    over4(ipv4::Repr { ttl, ..ipv4::Repr::new(HOST4, to, protocol::UDP, body.len()) }, options, &body)
}

fn over4(repr: ipv4::Repr, options: &[u8], body: &[u8]) -> Vec<u8> {
    let header = ipv4::HEADER_LEN + options.len();
    let mut packet = vec![0; header + body.len()];
    let repr = ipv4::Repr { payload_len: body.len(), ..repr };
    repr.emit_with_options(&mut packet, options).expect("room for the header");
    packet[header..].copy_from_slice(body);
    packet
}

fn packet6(to: Ipv6Addr, hop_limit: u8, payload: usize) -> Vec<u8> {
    let mut body = vec![0; 8 + payload];
    udp::emit(&mut body, 1000, 9, payload).expect("room for the header");
    over6(to, hop_limit, protocol::UDP, &body)
}

fn over6(to: Ipv6Addr, hop_limit: u8, next: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN + body.len()];
    let repr = ipv6::Repr { hop_limit, ..ipv6::Repr::new(HOST6, to, next, body.len()) };
    repr.emit(&mut packet).expect("room for the header");
    packet[ipv6::HEADER_LEN..].copy_from_slice(body);
    packet
}

/// What is not plain UDP, over IPv4.
fn others4() -> Vec<Vec<u8>> {
    let (near, far, own) = (ADDRESSES4[0], ADDRESSES4[1], Ipv4Addr::new(10, 0, 1, 1));
    let plain = |to, protocol| ipv4::Repr::new(HOST4, to, protocol, 0);
    let echo = |to| {
        let mut body = vec![8, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3, 4];
        let sum = checksum::checksum(&body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        over4(plain(to, protocol::ICMP), &[], &body)
    };
    let mut tcp = vec![0; 20];
    tcp[..4].copy_from_slice(&[4, 0, 0, 179]);
    (tcp[12], tcp[13]) = (0x50, 2);
    let mut denied = vec![0; 28];
    udp::emit(&mut denied, 1000, FILTERED, 20).expect("room for the header");
    let piece = |offset, more, to| {
        let repr = ipv4::Repr { more_fragments: more, fragment_offset: offset, identification: 7, ..plain(to, 17) };
        over4(repr, &[], &[5; 32])
    };
    vec![
        echo(near),
        echo(own),
        over4(plain(own, protocol::TCP), &[], &tcp),
        over4(plain(far, protocol::TCP), &[], &tcp),
        over4(plain(near, protocol::UDP), &[], &denied),
        over4(ipv4::Repr { dont_fragment: true, ..plain(Ipv4Addr::new(10, 0, 7, 2), 17) }, &[], &[0; 1400]),
        over4(plain(Ipv4Addr::new(10, 0, 7, 2), 17), &[], &[0; 1400]),
        over4(plain(Ipv4Addr::new(224, 0, 0, 5), 89), &[], &[2, 1, 0, 44, 0, 0, 0, 0]),
        over4(plain(Ipv4Addr::new(224, 0, 0, 22), 2), &[148, 4, 0, 0], &[0x22, 0, 0xf9, 2, 0, 0, 0, 1]),
        packet4(near, 64, &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0], 20),
        packet4(near, 64, &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0], 20),
        packet4(near, 64, &[131, 7, 4, 10, 0, 2, 2, 0], 20),
        packet4(own, 64, &[137, 7, 4, 10, 0, 3, 2, 0], 20),
        packet4(near, 64, &[1; 40], 20),
        piece(0, true, own),
        piece(32, false, own),
        piece(0, true, near),
        piece(64, false, near),
        error4(near),
    ]
}

/// An ICMP error about a packet.
fn error4(to: Ipv4Addr) -> Vec<u8> {
    let about = packet4(Ipv4Addr::new(10, 0, 1, 2), 1, &[], 8);
    let mut body = vec![icmp4::TIME_EXCEEDED, 0, 0, 0, 0, 0, 0, 0];
    body.extend(&about[..28]);
    let sum = checksum::checksum(&body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    over4(ipv4::Repr::new(HOST4, to, protocol::ICMP, 0), &[], &body)
}

/// What is not plain UDP, over IPv6.
fn others6() -> Vec<Vec<u8>> {
    let (near, own, all) = (ADDRESSES6[0], ADDRESSES6[11], ADDRESSES6[18]);
    let own_group = ADDRESSES6[19];
    let mut with_sum = Vec::new();
    for (to, hops, body) in [
        (near, 64, vec![icmp6::ECHO_REQUEST, 0, 0, 0, 0, 1, 0, 1, 9, 9]),
        (own, 64, vec![icmp6::ECHO_REQUEST, 0, 0, 0, 0, 1, 0, 1, 9, 9]),
        (own_group, 255, solicitation(own)),
        (own, 255, advertisement(ADDRESSES6[6])),
        (all, 255, vec![134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]),
        (near, 64, vec![3, 0, 0, 0, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 8, 17, 1]),
    ] {
        let mut packet = over6(to, hops, protocol::ICMPV6, &body);
        let pseudo = checksum::pseudo_v6(&HOST6, &to, protocol::ICMPV6, body.len() as u32);
        let sum = checksum::finish(checksum::combine(pseudo, 40, checksum::sum(&packet[40..])));
        packet[42..44].copy_from_slice(&sum.to_be_bytes());
        with_sum.push(packet);
    }
    let fragment = |offset: u16, more: u8, to| {
        let [high, low] = (offset | u16::from(more)).to_be_bytes();
        let mut body = vec![17, 0, high, low, 0, 0, 0, 7];
        body.extend([6; 32]);
        over6(to, 64, protocol::FRAGMENT, &body)
    };
    let chain = |first, headers: &[u8], to| {
        let mut body = headers.to_vec();
        body.extend([0, 9, 0, 9, 0, 8, 0, 0]);
        over6(to, 64, first, &body)
    };
    let hop_by_hop = [17, 0, 5, 2, 0, 0, 1, 0];
    let routing = [17, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let long = [60, 0, 1, 4, 0, 0, 0, 0, 17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    with_sum.extend([
        fragment(0, 1, own),
        fragment(32, 0, own),
        fragment(0, 1, near),
        fragment(64, 0, near),
        chain(protocol::HOP_BY_HOP, &hop_by_hop, near),
        chain(protocol::HOP_BY_HOP, &hop_by_hop, own),
        chain(protocol::ROUTING, &routing, own),
        chain(protocol::ROUTING, &routing, near),
        chain(protocol::HOP_BY_HOP, &long, near),
        chain(protocol::DESTINATION_OPTIONS, &long, own),
        over6(near, 64, 59, &[]),
    ]);
    with_sum
}

fn solicitation(target: Ipv6Addr) -> Vec<u8> {
    let mut body = vec![icmp6::NEIGHBOR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    body.extend(target.octets());
    body.extend([1, 1, 2, 0, 0, 0, 1, 1]);
    body
}

fn advertisement(target: Ipv6Addr) -> Vec<u8> {
    let mut body = vec![icmp6::NEIGHBOR_ADVERTISEMENT, 0, 0, 0, 0x60, 0, 0, 0];
    body.extend(target.octets());
    body.extend([2, 1, 2, 0, 0, 0, 1, 0x63]);
    body
}
