// SPDX-License-Identifier: MIT
//! Checksums that a sender on this machine left to its device: the field of TCP or UDP holds the sum of the pseudo header so far
//! (Linux's CHECKSUM_PARTIAL), and the sum of header and data is still to be added.

use perigee_packet::wire::checksum::{finish, sum};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::{protocol, vlan};
use perigee_packet::{Ipv4, Ipv6};

/// Finishes the checksum of TCP or UDP in a frame. Returns whether it was found; other frames stay as they are.
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    let Some((start, end, protocol)) = transport(frame) else { return false };
    let field = match protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return false,
    };
    let Some(transport) = frame.get_mut(start..end).filter(|transport| transport.len() >= field + 2) else {
        return false;
    };
    let check = match finish(sum(transport)) {
        // No checksum, to UDP: its zero is sent as the other one (RFC 768).
        0 if protocol == protocol::UDP => 0xffff,
        check => check,
    };
    transport[field..field + 2].copy_from_slice(&check.to_be_bytes());
    true
}

/// Where the header above IP starts and its data ends, in bytes from the frame's start, and its protocol. `None` for fragments: the
/// sender has finished these itself.
fn transport(frame: &[u8]) -> Option<(usize, usize, u8)> {
    let inner = vlan::innermost(frame).ok()?;
    let network = &frame[inner.offset..];
    match inner.ethertype {
        ethertype::IPV4 => {
            let packet = Ipv4::new(network).ok()?;
            let whole = !packet.more_fragments() && packet.fragment_offset() == 0;
            let (start, end) = (inner.offset + packet.header_len(), inner.offset + packet.total_len());
            whole.then_some((start, end.min(frame.len()), packet.protocol()))
        }
        ethertype::IPV6 => {
            let packet = Ipv6::new(network).ok()?;
            let upper = packet.upper_layer().ok().filter(|upper| !upper.is_fragment())?;
            let start = inner.offset + upper.offset;
            Some((start, start + upper.payload.len(), upper.protocol))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::wire::{checksum, checksums};

    /// Addresses, then a transport header and data of this protocol, in IPv4 or IPv6, with these tags.
    fn frame(v6: bool, protocol: u8, payload: usize, tags: &[[u8; 4]]) -> Vec<u8> {
        let mut network: Vec<u8> = (0..payload).map(|i| (i * 37) as u8).collect();
        let length = payload as u8;
        if v6 {
            let header = [&[0x60, 0, 0, 0, 0, length, protocol, 64][..], &[0xfd; 15], &[1], &[0xfd; 15], &[2]].concat();
            network.splice(0..0, header);
        } else {
            let header = [0x45, 0, 0, 20 + length, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            network.splice(0..0, header);
        }
        let kind: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
        [&[2; 12][..], &tags.concat(), &kind, &network].concat()
    }

    #[test]
    fn what_is_completed_is_what_is_computed() {
        let stacks: [&[[u8; 4]]; 3] = [&[], &[[0x81, 0, 0, 5]], &[[0x88, 0xa8, 0, 5], [0x81, 0, 0, 6]]];
        for (v6, tags) in [false, true].into_iter().flat_map(|v6| stacks.map(|tags| (v6, tags))) {
            for (protocol, field, shortest) in [(protocol::UDP, 6, 8), (protocol::TCP, 16, 20)] {
                for payload in shortest..shortest + 9 {
                    let mut whole = frame(v6, protocol, payload, tags);
                    let l3 = 14 + 4 * tags.len();
                    checksums::fill(&mut whole, l3);
                    let transport = l3 + if v6 { 40 } else { 20 };
                    let mut half = whole.clone();
                    // The sum of the pseudo header, as Linux leaves it.
                    let addresses = if v6 { l3 + 8..l3 + 40 } else { l3 + 12..l3 + 20 };
                    let pseudo = sum(&whole[addresses]) + u32::from(protocol) + payload as u32;
                    let pseudo = checksum::fold(pseudo).to_be_bytes();
                    half[transport + field..transport + field + 2].copy_from_slice(&pseudo);
                    assert_ne!(half, whole);
                    // Padding is no part of it.
                    half.extend([9; 5]);
                    assert!(complete(&mut half));
                    assert_eq!(half[..whole.len()], whole[..], "IPv6: {v6}, {} tags, {payload} bytes", tags.len());
                }
            }
        }
    }

    #[test]
    fn behind_extension_headers() {
        let mut half = frame(true, protocol::UDP, 8 + 10, &[]);
        // Destination options, of 8 bytes, then UDP with nothing but ones in its data.
        half[20] = protocol::DESTINATION_OPTIONS;
        half[54..62].copy_from_slice(&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0]);
        half[62..72].copy_from_slice(&[0, 1, 0, 2, 0, 10, 0x12, 0x34, 0xff, 0xff]);
        assert!(complete(&mut half));
        assert_eq!(half[68..70], finish(1 + 2 + 10 + 0x1234 + 0xffff).to_be_bytes());
    }

    #[test]
    fn others_stay_as_they_are() {
        let mut fragment = frame(false, protocol::UDP, 20, &[]);
        fragment[20] = 0x20;
        let mut cut = frame(true, protocol::TCP, 20, &[]);
        cut.truncate(60);
        let short = frame(false, protocol::TCP, 15, &[]);
        for frame in [fragment, cut, short, frame(false, protocol::SCTP, 20, &[]), vec![0; 14], vec![0; 3]] {
            let mut after = frame.clone();
            assert!(!complete(&mut after));
            assert_eq!(after, frame);
        }
    }
}
