// SPDX-License-Identifier: MIT
//! Frames to put on a wire, and what to look for in those that come back.

use perigee_net::MacAddr;
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{arp, ethernet, icmp4, ipv4, ipv6, protocol, udp, vlan};
use perigee_packet::{Arp, Ethernet, Icmp4, Ipv4, Ipv6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// A station at the far end of a wire.
pub const STATION: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x99]);

fn framed(from: MacAddr, to: MacAddr, kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    ethernet::emit(&mut frame, to, from, kind).expect("room for the header");
    frame.extend(packet);
    frame
}

/// IPv4 with UDP from 10.0.x to anywhere: ports 1000 and 2000, `payload` bytes of zeros.
pub fn udp4(to: MacAddr, source: &str, destination: &str, payload: usize) -> Vec<u8> {
    udp4_ports(to, source, destination, (1000, 2000), payload)
}

/// IPv4 with UDP like [`udp4`], with other ports.
pub fn udp4_ports(to: MacAddr, source: &str, destination: &str, ports: (u16, u16), payload: usize) -> Vec<u8> {
    let (source, destination) = (v4(source), v4(destination));
    let mut packet = vec![0; ipv4::HEADER_LEN + udp::HEADER_LEN + payload];
    let header = ipv4::Repr::new(source, destination, protocol::UDP, udp::HEADER_LEN + payload);
    let at = header.emit(&mut packet).expect("an IPv4 header");
    udp::emit(&mut packet[at..], ports.0, ports.1, payload).expect("a UDP header");
    framed(STATION, to, ethertype::IPV4, &packet)
}

/// IPv6 with UDP.
pub fn udp6(to: MacAddr, source: &str, destination: &str, payload: usize) -> Vec<u8> {
    let (source, destination) = (v6(source), v6(destination));
    let mut packet = vec![0; ipv6::HEADER_LEN + udp::HEADER_LEN + payload];
    let header = ipv6::Repr::new(source, destination, protocol::UDP, udp::HEADER_LEN + payload);
    let at = header.emit(&mut packet).expect("an IPv6 header");
    udp::emit(&mut packet[at..], 1000, 2000, payload).expect("a UDP header");
    let mut datagram = perigee_packet::Udp::new(&mut packet[at..]).expect("a UDP header");
    datagram.fill_checksum_v6(&source, &destination);
    framed(STATION, to, ethertype::IPV6, &packet)
}

/// An ICMP echo request.
pub fn echo4(to: MacAddr, source: &str, destination: &str) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN + 16];
    let header = ipv4::Repr::new(v4(source), v4(destination), protocol::ICMP, 16);
    let at = header.emit(&mut packet).expect("an IPv4 header");
    let mut echo = Icmp4::new(&mut packet[at..]).expect("an ICMP header");
    echo.set_kind(icmp4::ECHO_REQUEST);
    echo.fill_checksum();
    framed(STATION, to, ethertype::IPV4, &packet)
}

/// An ARP message of [`STATION`], to everybody if it is a request.
pub fn arp_request(source: &str, target: &str) -> Vec<u8> {
    let mut message = vec![0; arp::LEN];
    arp::Repr::request(STATION, v4(source), v4(target)).emit(&mut message).expect("an ARP message");
    framed(STATION, MacAddr::BROADCAST, ethertype::ARP, &message)
}

/// The answer of [`STATION`] to an ARP request, tagged like it.
pub fn arp_reply(request: &[u8]) -> Vec<u8> {
    let (head, tag, body) = split(request);
    let asked = Arp::new(body).expect("an ARP request");
    let mut message = vec![0; arp::LEN];
    asked.repr().reply(STATION).emit(&mut message).expect("an ARP message");
    let reply = framed(STATION, Ethernet::new(head).expect("a frame").source(), ethertype::ARP, &message);
    tag.map_or(reply.clone(), |vid| tagged(reply, vid))
}

/// The frame with an 802.1Q tag.
pub fn tagged(mut frame: Vec<u8>, vid: u16) -> Vec<u8> {
    let kind = u16::from_be_bytes([frame[12], frame[13]]);
    let mut tag = [0; vlan::HEADER_LEN];
    vlan::emit(&mut tag, vid, kind).expect("a tag");
    frame[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
    frame.splice(14..14, tag);
    frame
}

/// Applies a change to the bytes of a frame.
pub fn changed(mut frame: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut frame);
    frame
}

/// Applies a change to an untagged IPv4 packet, from its header on, and makes the header's checksum right again.
pub fn changed4(frame: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    changed(frame, |frame| {
        let packet = &mut frame[ethernet::HEADER_LEN..];
        change(packet);
        let length = (usize::from(packet[0] & 15) * 4).clamp(ipv4::HEADER_LEN, packet.len());
        packet[10..12].fill(0);
        let sum = perigee_packet::wire::checksum::checksum(&packet[..length]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    })
}

/// The frame with IPv4 options (a multiple of 4 bytes).
pub fn with_options(mut frame: Vec<u8>, options: &[u8]) -> Vec<u8> {
    frame.splice(34..34, options.iter().copied());
    let total = (frame.len() - ethernet::HEADER_LEN) as u16;
    changed4(frame, |packet| {
        packet[0] = 0x45 + (options.len() / 4) as u8;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
    })
}

/// A fragment of a frame with an IPv4 packet without options: these bytes of its payload, of which the first is at a
/// multiple of 8.
pub fn piece4(whole: &[u8], bytes: Range<usize>, identification: u16) -> Vec<u8> {
    let (head, payload) = whole.split_at(ethernet::HEADER_LEN + ipv4::HEADER_LEN);
    let piece = [head, &payload[bytes.clone()]].concat();
    let flags = (bytes.start / 8) as u16 | if bytes.end < payload.len() { 0x2000 } else { 0 };
    changed4(piece, |packet| {
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        packet[6..8].copy_from_slice(&flags.to_be_bytes());
    })
}

/// [`piece4`] of an IPv6 packet without extension headers.
pub fn piece6(whole: &[u8], bytes: Range<usize>, identification: u32) -> Vec<u8> {
    let (head, payload) = whole.split_at(ethernet::HEADER_LEN + ipv6::HEADER_LEN);
    let place = bytes.start as u16 | u16::from(bytes.end < payload.len());
    let mut header = [head[20], 0, 0, 0, 0, 0, 0, 0];
    header[2..4].copy_from_slice(&place.to_be_bytes());
    header[4..].copy_from_slice(&identification.to_be_bytes());
    changed([head, &header, &payload[bytes]].concat(), |frame| {
        let len = (frame.len() - head.len()) as u16;
        frame[18..20].copy_from_slice(&len.to_be_bytes());
        frame[20] = protocol::FRAGMENT;
    })
}

/// Splits a frame into its Ethernet header, its VLAN if it has a tag, and the rest.
fn split(frame: &[u8]) -> (&[u8], Option<u16>, &[u8]) {
    let head = &frame[..ethernet::HEADER_LEN];
    match Ethernet::new(frame).expect("a frame").ethertype() {
        ethertype::VLAN => (head, Some(u16::from_be_bytes([frame[14] & 15, frame[15]])), &frame[18..]),
        _ => (head, None, &frame[14..]),
    }
}

/// The frame's VLAN, if it has a tag.
pub fn vid(frame: &[u8]) -> Option<u16> {
    split(frame).1
}

/// The ARP message in a frame.
pub fn arp(frame: &[u8]) -> Option<Arp<&[u8]>> {
    let (_, _, body) = split(frame);
    (ethertype_of(frame) == ethertype::ARP).then(|| Arp::new(body).ok())?
}

/// The IPv4 packet in a frame.
pub fn ip4(frame: &[u8]) -> Option<Ipv4<&[u8]>> {
    let (_, _, body) = split(frame);
    (ethertype_of(frame) == ethertype::IPV4).then(|| Ipv4::new(body).ok())?
}

/// The IPv6 packet in a frame.
pub fn ip6(frame: &[u8]) -> Option<Ipv6<&[u8]>> {
    let (_, _, body) = split(frame);
    (ethertype_of(frame) == ethertype::IPV6).then(|| Ipv6::new(body).ok())?
}

/// Kind and code of the ICMP message in a frame.
pub fn icmp(frame: &[u8]) -> Option<(u8, u8)> {
    let packet = ip4(frame).filter(|packet| packet.protocol() == protocol::ICMP)?;
    Icmp4::new(packet.payload()).ok().map(|message| (message.kind(), message.code()))
}

/// Is this an ARP request for an address?
pub fn asks_for(frame: &[u8], address: &str) -> bool {
    arp(frame).is_some_and(|message| message.operation() == arp::REQUEST && message.target_ip() == v4(address))
}

/// Is this a UDP packet to an address?
pub fn is_udp_to(frame: &[u8], address: &str) -> bool {
    match address.parse().expect("an address") {
        IpAddr::V4(address) => ip4(frame).is_some_and(|p| p.destination() == address && p.protocol() == protocol::UDP),
        IpAddr::V6(address) => {
            ip6(frame).is_some_and(|p| p.destination() == address && p.next_header() == protocol::UDP)
        }
    }
}

fn ethertype_of(frame: &[u8]) -> u16 {
    let at = if vid(frame).is_some() { 16 } else { 12 };
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

fn v4(address: &str) -> Ipv4Addr {
    address.parse().unwrap_or_else(|_| panic!("{address} is no IPv4 address"))
}

fn v6(address: &str) -> Ipv6Addr {
    address.parse().unwrap_or_else(|_| panic!("{address} is no IPv6 address"))
}
