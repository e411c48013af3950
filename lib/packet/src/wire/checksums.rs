// SPDX-License-Identifier: MIT
//! All checksums of a frame that was written, at once: IPv4 header, UDP, TCP, ICMP (RFC 791, 768, 9293, 792, 4443).

use super::checksum::{pseudo_v4, pseudo_v6, sum};
use super::protocol;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Writes the checksums of a frame whose network header is at `l3`. A frame that is too short for its headers is left
/// as far as it is; a fragment's transport header, and those behind IPv6 extension headers, are left alone.
pub fn fill(frame: &mut [u8], l3: usize) {
    let Some(network) = frame.get_mut(l3..) else { return };
    match network.first().map(|first| first >> 4) {
        Some(4) => fill_v4(network),
        Some(6) => fill_v6(network),
        _ => {}
    }
}

fn fill_v4(network: &mut [u8]) {
    let header = usize::from(network[0] & 15) * 4;
    let Some(&[_, _, high, low, _, _, f0, f1, _, protocol, ..]) = network.first_chunk::<20>() else { return };
    if header < 20 || network.len() < header {
        return;
    }
    network[10..12].fill(0);
    let check = finish(sum(&network[..header]));
    network[10..12].copy_from_slice(&check.to_be_bytes());
    // Fragments: all but the "do not fragment" bit.
    if u16::from_be_bytes([f0, f1]) & 0xbfff != 0 {
        return;
    }
    let total = usize::from(u16::from_be_bytes([high, low])).min(network.len());
    let address = |at: usize| Ipv4Addr::new(network[at], network[at + 1], network[at + 2], network[at + 3]);
    let pseudo = |length: usize| pseudo_v4(address(12), address(16), protocol, length as u16);
    let pseudo = pseudo(total.saturating_sub(header));
    if let Some(transport) = network.get_mut(header..total) {
        let pseudo = if protocol == protocol::ICMP { 0 } else { pseudo };
        fill_transport(transport, protocol, pseudo);
    }
}

fn fill_v6(network: &mut [u8]) {
    let Some(header) = network.first_chunk::<40>() else { return };
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&header[at..at + 16]).expect("sixteen bytes"));
    let next = header[6];
    let length = length.min(network.len() - 40);
    let pseudo = pseudo_v6(&address(8), &address(24), next, length as u32);
    fill_transport(&mut network[40..40 + length], next, pseudo);
}

fn fill_transport(transport: &mut [u8], protocol: u8, pseudo: u32) {
    let (at, header) = match protocol {
        protocol::UDP => (6, 8),
        protocol::TCP => (16, 20),
        protocol::ICMP | protocol::ICMPV6 => (2, 4),
        _ => return,
    };
    if transport.len() < header {
        return;
    }
    transport[at..at + 2].fill(0);
    let check = match finish(pseudo + sum(transport)) {
        // No checksum, to UDP: its zero is sent as the other one (RFC 768).
        0 if protocol == protocol::UDP => 0xffff,
        check => check,
    };
    transport[at..at + 2].copy_from_slice(&check.to_be_bytes());
}

/// The ones' complement of a sum, its carries added.
fn finish(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checksum::verify;
    use crate::wire::udp;

    const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 0, 1)];

    fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + payload.len()];
        frame[14..18].copy_from_slice(&[0x45, 0, 0, 0]);
        frame[16..18].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
        frame[22] = 64;
        frame[23] = protocol;
        frame[26..30].copy_from_slice(&V4[0].octets());
        frame[30..34].copy_from_slice(&V4[1].octets());
        frame[34..].copy_from_slice(payload);
        frame
    }

    fn v6(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40 + payload.len()];
        frame[14] = 0x60;
        frame[18..20].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        frame[20] = protocol;
        (22..54).for_each(|i| frame[i] = i as u8);
        frame[54..].copy_from_slice(payload);
        frame
    }

    /// The pseudo header and what follows it sum to zero.
    fn transport_is_right(frame: &[u8], v6: bool) -> bool {
        let network = &frame[14..];
        let (addresses, transport, protocol) = match v6 {
            false => (&network[12..20], &network[20..], network[9]),
            true => (&network[8..40], &network[40..], network[6]),
        };
        let mut all = Vec::new();
        if protocol != protocol::ICMP {
            all.extend(addresses);
            all.extend((transport.len() as u32).to_be_bytes());
            all.extend([0, 0, 0, protocol]);
        }
        all.extend(transport);
        verify(&all)
    }

    #[test]
    fn every_protocol_of_both_families_verifies() {
        for length in [20, 21, 46, 1480] {
            let payload: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
            for protocol in [protocol::UDP, protocol::TCP, protocol::ICMP] {
                let mut frame = v4(protocol, &payload);
                fill(&mut frame, 14);
                assert!(verify(&frame[14..34]) && transport_is_right(&frame, false), "IPv4, {protocol}, {length}");
            }
            for protocol in [protocol::UDP, protocol::TCP, protocol::ICMPV6] {
                let mut frame = v6(protocol, &payload);
                fill(&mut frame, 14);
                assert!(transport_is_right(&frame, true), "IPv6, {protocol}, {length}");
            }
        }
    }

    #[test]
    fn what_other_functions_write_is_written() {
        let mut frame = v4(protocol::UDP, &[0; 26]);
        udp::emit(&mut frame[34..], 1, 2, 18).unwrap();
        fill(&mut frame, 14);
        let mut same = frame.clone();
        same[24..26].fill(0);
        let check = crate::wire::checksum::ipv4_header(&same[14..34]);
        assert_eq!(frame[24..26], check.to_be_bytes());
        udp::Udp::new(&mut same[34..]).unwrap().fill_checksum_v4(V4[0], V4[1]);
        assert_eq!(frame[40..42], same[40..42]);
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_ones_by_udp_alone() {
        // The payload's first two bytes make the sum what we want.
        for (protocol, expected) in [(protocol::UDP, [0xff, 0xff]), (protocol::TCP, [0, 0])] {
            let mut frame = v4(protocol, &[0; 20]);
            fill(&mut frame, 14);
            let at = if protocol == protocol::UDP { 40 } else { 50 };
            let check = [frame[at], frame[at + 1]];
            frame[34..36].copy_from_slice(&check);
            fill(&mut frame, 14);
            assert_eq!(frame[at..at + 2], expected);
        }
    }

    #[test]
    fn fragments_and_broken_frames_are_left_as_far_as_they_are() {
        let mut fragment = v4(protocol::UDP, &[7; 30]);
        fragment[20] = 0x20;
        let before = fragment.clone();
        fill(&mut fragment, 14);
        assert!(fragment[34..] == before[34..] && verify(&fragment[14..34]));
        for frame in [v4(protocol::TCP, &[7; 30]), v6(protocol::UDP, &[7; 30])] {
            for end in 0..frame.len() {
                let mut cut = frame[..end].to_vec();
                fill(&mut cut, 14);
                fill(&mut cut, end + 1);
            }
        }
    }
}
