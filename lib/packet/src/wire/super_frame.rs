// SPDX-License-Identifier: MIT
//! Super-frames: one frame that stands for many segments of TCP, or many datagrams of UDP, of one flow (Linux: generic
//! segmentation offload, Documentation/networking/segmentation-offloads.rst).
//!
//! ```text
//! +---------+----------------------------------+        +---------+-----------+   +---------+-----------+   +---------+----+
//! | headers | payload                          |  --->  | headers | GSO size  |   | headers | GSO size  |   | headers | .. |
//! +---------+----------------------------------+        +---------+-----------+   +---------+-----------+   +---------+----+
//! ```
//!
//! Its headers are those of the first segment but for lengths, and flags that belong to the last. The *GSO size* says
//! how many bytes of payload a segment has at most. Its transport checksum covers the pseudo header alone.

use crate::wire::checksum::{finish, fold, pseudo_v4, pseudo_v6, sum};
use crate::wire::ethernet::ethertype;
use crate::wire::{protocol, vlan};
use crate::{Ipv4, Ipv6};
use std::num::NonZeroU16;
use std::ops::Range;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A super-frame, and how it is cut into segments.
#[derive(Debug, Clone, Copy)]
pub struct SuperFrame<'a> {
    frame: &'a [u8],
    v6: bool,
    protocol: u8,
    /// Bytes before the IP header, before the transport header, before the payload.
    network: usize,
    transport: usize,
    payload: usize,
    /// End of the payload, before any padding.
    end: usize,
    gso_size: usize,
}

impl<'a> SuperFrame<'a> {
    /// Finds the headers of a super-frame; `None` if there is no TCP or UDP, as a whole, in IPv4 or IPv6.
    pub fn new(frame: &'a [u8], gso_size: NonZeroU16) -> Option<SuperFrame<'a>> {
        let inner = vlan::innermost(frame).ok()?;
        let bytes = &frame[inner.offset..];
        let (v6, protocol, offset, end) = match inner.ethertype {
            ethertype::IPV4 => {
                let packet = Ipv4::new(bytes).ok().filter(|packet| !packet.is_fragment())?;
                (false, packet.protocol(), packet.header_len(), packet.total_len())
            }
            ethertype::IPV6 => {
                let packet = Ipv6::new(bytes).ok()?;
                let upper = packet.upper_layer().ok().filter(|upper| upper.fragment.is_none())?;
                (true, upper.protocol, upper.offset, upper.offset + upper.payload.len())
            }
            _ => return None,
        };
        let (transport, end) = (inner.offset + offset, inner.offset + end);
        let header = match protocol {
            protocol::TCP => usize::from(*frame.get(transport + 12)? >> 4) * 4,
            protocol::UDP => 8,
            _ => return None,
        };
        let payload = transport + header;
        let whole = payload <= end && end <= frame.len() && (protocol == protocol::UDP || header >= 20);
        let network = inner.offset;
        let gso_size = gso_size.get().into();
        whole.then_some(SuperFrame { frame, v6, protocol, network, transport, payload, end, gso_size })
    }

    /// Number of its segments, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        (self.end - self.payload).div_ceil(self.gso_size).max(1)
    }

    /// Is it UDP, and not TCP?
    pub fn is_udp(&self) -> bool {
        self.protocol == protocol::UDP
    }

    /// Is it IPv6, and not IPv4?
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// Does its TCP header say that the sender has reduced its window (CWR, RFC 3168 6.1.2)?
    pub fn has_cwr(&self) -> bool {
        !self.is_udp() && self.frame[self.transport + 13] & CWR != 0
    }

    /// Bytes before the transport header.
    pub fn transport(&self) -> usize {
        self.transport
    }

    /// Bytes of its headers, from Ethernet to transport.
    pub fn headers(&self) -> usize {
        self.payload
    }

    /// Where in the transport header its checksum is, in bytes.
    pub fn checksum_offset(&self) -> usize {
        if self.is_udp() { 6 } else { 16 }
    }

    /// The folded sum of its pseudo header, which the transport checksum's field of a super-frame holds.
    pub fn pseudo_sum(&self) -> u16 {
        fold(self.pseudo(self.frame, self.end - self.transport))
    }

    /// Bytes of the longest segment's IP packet: what an MTU is compared with.
    pub fn longest_packet(&self) -> usize {
        self.payload - self.network + self.gso_size.min(self.end - self.payload)
    }

    /// The payload of a segment.
    fn part(&self, index: usize) -> Range<usize> {
        let start = (self.payload + index * self.gso_size).min(self.end);
        start..(start + self.gso_size).min(self.end)
    }

    /// Bytes of a segment's frame.
    pub fn segment_len(&self, index: usize) -> usize {
        self.payload + self.part(index).len()
    }

    /// Writes a segment, counted from 0, as a frame with lengths, flags and checksums of its own.
    ///
    /// # Panics
    /// `to` is not [`segment_len`](SuperFrame::segment_len) bytes long.
    pub fn write(&self, index: usize, to: &mut [u8]) {
        let part = self.part(index);
        to[..self.payload].copy_from_slice(&self.frame[..self.payload]);
        to[self.payload..].copy_from_slice(&self.frame[part.clone()]);
        let length = to.len() - self.network;
        if self.v6 {
            to[self.network + 4..self.network + 6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        } else if let Ok(mut packet) = Ipv4::new_truncated(&mut to[self.network..]) {
            packet.set_total_len(length as u16);
            let identification = packet.identification().wrapping_add(index as u16);
            packet.set_identification(identification);
            packet.fill_checksum();
        }
        let last = part.end == self.end;
        let before = part.start - self.payload;
        let length = to.len() - self.transport;
        let pseudo = self.pseudo(to, length);
        let transport = &mut to[self.transport..];
        if self.is_udp() {
            transport[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        } else {
            let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
            transport[4..8].copy_from_slice(&sequence.wrapping_add(before as u32).to_be_bytes());
            transport[13] &= !(if last { 0 } else { FIN | PSH } | if index == 0 { 0 } else { CWR });
        }
        let field = self.checksum_offset();
        transport[field..field + 2].fill(0);
        let check = match finish(pseudo + sum(transport)) {
            // No checksum, to UDP: its zero is sent as the other one (RFC 768).
            0 if self.is_udp() => 0xffff,
            check => check,
        };
        transport[field..field + 2].copy_from_slice(&check.to_be_bytes());
    }

    /// The sum of the pseudo header of `frame`, whose addresses are where this one's are, for a transport of `length`
    /// bytes.
    fn pseudo(&self, frame: &[u8], length: usize) -> u32 {
        let network = &frame[self.network..];
        if self.v6 {
            let address = |at: usize| <[u8; 16]>::try_from(&network[at..at + 16]).expect("sixteen bytes").into();
            pseudo_v6(&address(8), &address(24), self.protocol, length as u32)
        } else {
            let address = |at: usize| <[u8; 4]>::try_from(&network[at..at + 4]).expect("four bytes").into();
            pseudo_v4(address(12), address(16), self.protocol, length as u16)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checksums;
    use proptest::prelude::*;

    /// A frame with `options` bytes of options of IPv4, or of a header of destination options, and of TCP.
    fn frame(v6: bool, udp: bool, tag: bool, options: usize, payload: &[u8]) -> Vec<u8> {
        let header = if udp { 8 } else { 20 + options };
        let transport = header + payload.len();
        let mut frame = vec![2; 12];
        if tag {
            frame.extend([0x81, 0, 0, 5]);
        }
        let upper = if udp { protocol::UDP } else { protocol::TCP };
        if v6 {
            let extension = options.next_multiple_of(8);
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 1]);
            frame.extend(((extension + transport) as u16).to_be_bytes());
            frame.extend([if extension > 0 { protocol::DESTINATION_OPTIONS } else { upper }, 64]);
            frame.extend([[0xfd; 16], [0xfc; 16]].concat());
            if extension > 0 {
                frame.extend([upper, (extension / 8 - 1) as u8, 1, extension as u8 - 4]);
                frame.resize(frame.len() + extension - 4, 0);
            }
        } else {
            frame.extend([8, 0, 0x45 + (options / 4) as u8, 0]);
            frame.extend(((20 + options + transport) as u16).to_be_bytes());
            frame.extend([0xff, 0xfe, 0x40, 0, 64, upper, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.resize(frame.len() + options, 1);
        }
        if udp {
            frame.extend([0, 7, 0, 9]);
            frame.extend((transport as u16).to_be_bytes());
            frame.extend([0, 0]);
        } else {
            frame.extend([
                0,
                7,
                0,
                9,
                0xff,
                0xff,
                0xff,
                0xf0,
                0,
                0,
                0,
                1,
                ((header / 4) as u8) << 4,
                0x99,
                1,
                0,
                0,
                0,
                0,
                0,
            ]);
            frame.resize(frame.len() + options, 1);
        }
        frame.extend(payload);
        frame
    }

    fn cut(frame: &[u8], gso_size: u16) -> Vec<Vec<u8>> {
        let whole = SuperFrame::new(frame, NonZeroU16::new(gso_size).unwrap()).expect("a super-frame");
        let segment = |index| {
            let mut to = vec![0xa5; whole.segment_len(index)];
            whole.write(index, &mut to);
            to
        };
        (0..whole.len()).map(segment).collect()
    }

    proptest! {
        #[test]
        fn segments_are_what_a_host_would_have_sent(
            v6: bool, udp: bool, tag: bool, options in 0usize..=10, size in 1u16..2000, length in 0usize..9000, padding in 0usize..5,
        ) {
            let options = options * 4;
            let payload: Vec<u8> = (0..length).map(|i| (i * 37 + i / 256) as u8).collect();
            let mut whole = frame(v6, udp, tag, options, &payload);
            whole.resize(whole.len() + padding, 9);
            let segments = cut(&whole, size);
            prop_assert_eq!(segments.len(), length.div_ceil(size.into()).max(1));
            let mut sent = payload.chunks(size.into()).map(<[u8]>::to_vec).collect::<Vec<_>>();
            sent.resize(segments.len(), vec![]);
            let l3 = if tag { 18 } else { 14 };
            let mut before = 0;
            for (index, (segment, part)) in segments.iter().zip(&sent).enumerate() {
                let mut alone = frame(v6, udp, tag, options, part);
                if !v6 {
                    let identification = 0xfffeu16.wrapping_add(index as u16);
                    alone[l3 + 4..l3 + 6].copy_from_slice(&identification.to_be_bytes());
                }
                let transport = segment.len() - part.len() - if udp { 8 } else { 20 + options };
                if !udp {
                    alone[transport + 4..transport + 8].copy_from_slice(&0xffff_fff0u32.wrapping_add(before).to_be_bytes());
                    let last = index + 1 == segments.len();
                    alone[transport + 13] = 0x10 | if last { 0x09 } else { 0 } | if index == 0 { 0x80 } else { 0 };
                }
                before += part.len() as u32;
                // Behind extension headers `fill` leaves the checksum alone: taken from the segment, and verified below.
                checksums::fill(&mut alone, l3);
                let field = transport + if udp { 6 } else { 16 };
                if v6 && options > 0 {
                    alone[field..field + 2].copy_from_slice(&segment[field..field + 2]);
                    let view = SuperFrame::new(segment, NonZeroU16::MAX).unwrap();
                    let total = view.pseudo(segment, segment.len() - transport) + sum(&segment[transport..]);
                    prop_assert_eq!(fold(total), 0xffff);
                }
                prop_assert_eq!(segment, &alone, "segment {} of {}", index, segments.len());
            }
            let view = SuperFrame::new(&whole, NonZeroU16::new(size).unwrap()).unwrap();
            prop_assert_eq!(view.longest_packet(), segments.iter().map(|s| s.len() - l3).max().unwrap());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), size: u16, v6: bool) {
            let mut bytes = bytes;
            if let (Some(kind), true) = (bytes.get_mut(12..15), size % 2 == 0) {
                kind.copy_from_slice(if v6 { &[0x86, 0xdd, 0x60] } else { &[8, 0, 0x45] });
            }
            let Some(whole) = SuperFrame::new(&bytes, NonZeroU16::new(size).unwrap_or(NonZeroU16::MIN)) else { return Ok(()) };
            prop_assert!(whole.len() < 200);
            for index in 0..whole.len() {
                let mut to = vec![0; whole.segment_len(index)];
                whole.write(index, &mut to);
            }
        }
    }

    #[test]
    fn fragments_and_other_protocols_are_none() {
        let good = frame(false, false, false, 0, &[7; 3000]);
        let is = |frame: &[u8]| SuperFrame::new(frame, NonZeroU16::new(1448).unwrap()).is_some();
        let with = |at: usize, byte: u8| {
            let mut frame = good.clone();
            frame[at] = byte;
            frame
        };
        assert!(is(&good));
        for bad in
            [with(20, 0x20), with(23, protocol::ICMP), with(46, 0x40), with(46, 0xf0), with(12, 9), good[..53].to_vec()]
        {
            // A header length of 60 lies within the payload: that one is a super-frame with options.
            assert_eq!(is(&bad), bad[46] == 0xf0, "{:02x?}", &bad[..54.min(bad.len())]);
        }
    }
}
