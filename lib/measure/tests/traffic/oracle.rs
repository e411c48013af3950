// SPDX-License-Identifier: MIT
//! Frames taken from a traffic, and read back with no code of the traffic's.

use perigee_measure::stamp::{self, Found};
use perigee_measure::traffic::{Frames, Protocol, Traffic};
use perigee_net::MacAddr;
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::wire::{Ethernet, Icmp4, Icmp6, Ipv4, Ipv6, Udp, Vlan};
use perigee_packet::{Batch, Mask, Pool};
use std::net::IpAddr;

/// The trial's number and the time in the stamps of [`take`].
pub const RUN: u16 = 0xbeef;
pub const NOW: u64 = 0x1234_5678_9abc;

/// The next `count` frames, in buffers that were full of other bytes.
pub fn take(traffic: &mut dyn Frames, count: usize) -> Vec<Vec<u8>> {
    let pool = HeapPool::leak(256);
    let mut batch = Batch::new(pool);
    let mut frames = Vec::new();
    while frames.len() < count {
        batch.refill();
        let lengths = traffic.lengths((count - frames.len()).min(37)).to_vec();
        if lengths.is_empty() {
            break;
        }
        for length in &lengths {
            batch.push(pool.packet(&vec![0xaa; usize::from(*length)]).unwrap(), 0).unwrap();
        }
        assert_eq!(traffic.write(&mut batch, Mask::ALL, NOW, RUN), lengths.len());
        for (slot, length) in (0..).zip(lengths) {
            let frame = batch.frame(slot).unwrap();
            assert_eq!(frame.len(), usize::from(length));
            frames.push(frame.to_vec());
        }
    }
    frames
}

/// The ones' complement sum as RFC 1071 4.1 writes it.
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// What identifies a flow on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    pub macs: [MacAddr; 2],
    /// From the outer tag on, 0 where there is none.
    pub tags: [u16; 2],
    pub addresses: [IpAddr; 2],
    /// Of ICMP, identifier and sequence number.
    pub ports: [u16; 2],
}

/// What a frame says.
#[derive(Debug)]
pub struct Read {
    pub tuple: Tuple,
    pub protocol: Protocol,
    pub ttl: u8,
    pub dscp: u8,
    pub stamp: Option<stamp::Stamp>,
}

/// Reads a frame of a traffic, all of whose lengths, checksums and constants must be right.
pub fn read(frame: &[u8], stamped: bool) -> Read {
    let ethernet = Ethernet::new(frame).unwrap();
    let macs = [ethernet.source(), ethernet.destination()];
    let (mut kind, mut rest, mut tags) = (ethernet.ethertype(), ethernet.payload(), Vec::new());
    while let 0x88a8 | 0x8100 = kind {
        let tag = Vlan::new(rest).unwrap();
        tags.push((kind, tag.vid()));
        assert!(tag.pcp() == 0 && !tag.dei());
        (kind, rest) = (tag.ethertype(), &rest[4..]);
    }
    let tags = match tags[..] {
        [] => [0, 0],
        [(0x8100, vid)] => [0, vid],
        [(0x88a8, outer), (0x8100, inner)] => [outer, inner],
        _ => panic!("tags {tags:04x?}"),
    };
    let (addresses, ttl, dscp, number, upper, pseudo): (_, _, _, _, &[u8], Vec<u8>) = match kind {
        0x0800 => {
            let ip = Ipv4::new(rest).unwrap();
            assert_eq!((ip.total_len(), ip.header_len(), ip.identification(), ip.ecn()), (rest.len(), 20, 0, 0));
            assert!(ip.dont_fragment() && !ip.is_fragment());
            assert_eq!(sum(&[&rest[..20]]), 0xffff, "the header's checksum");
            let length = (rest.len() as u16 - 20).to_be_bytes();
            let pseudo = [&rest[12..20], &[0, ip.protocol()], &length].concat();
            let addresses = [ip.source().into(), ip.destination().into()];
            (addresses, ip.ttl(), ip.dscp(), ip.protocol(), &rest[20..], pseudo)
        }
        0x86dd => {
            let ip = Ipv6::new(rest).unwrap();
            assert_eq!((ip.payload_len(), ip.flow_label(), ip.traffic_class() & 3), (rest.len() - 40, 0, 0));
            let length = (rest.len() as u32 - 40).to_be_bytes();
            let pseudo = [&rest[8..40], &length, &[0, 0, 0, ip.next_header()]].concat();
            let addresses = [ip.source().into(), ip.destination().into()];
            (addresses, ip.hop_limit(), ip.traffic_class() >> 2, ip.next_header(), &rest[40..], pseudo)
        }
        _ => panic!("EtherType {kind:04x}"),
    };
    let (protocol, header) = upper_layer(number, upper, &pseudo);
    let port = |at: usize| u16::from_be_bytes([upper[at], upper[at + 1]]);
    let ports = if protocol == Protocol::Icmp { [port(4), port(6)] } else { [port(0), port(2)] };
    let payload = &upper[header..];
    let stamp = stamped.then(|| match stamp::find(frame) {
        Found::Stamp(stamp) => stamp,
        other => panic!("{other:?} where the stamp should be"),
    });
    let pattern = &payload[if stamped { stamp::LENGTH } else { 0 }..];
    assert!(pattern.iter().enumerate().all(|(at, byte)| *byte == at as u8), "payload {pattern:02x?}");
    Read { tuple: Tuple { macs, tags, addresses, ports }, protocol, ttl, dscp, stamp }
}

/// Checks the header of UDP, TCP or ICMP; returns which it is, and its length.
fn upper_layer(number: u8, upper: &[u8], pseudo: &[u8]) -> (Protocol, usize) {
    match number {
        17 => {
            let udp = Udp::new(upper).unwrap();
            assert_eq!(udp.length(), upper.len());
            assert_ne!(udp.checksum(), 0, "no checksum");
            assert_eq!(sum(&[pseudo, upper]), 0xffff, "UDP's checksum");
            (Protocol::Udp, 8)
        }
        6 => {
            assert_eq!(upper[4..16], [0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff], "a SYN");
            assert_eq!(upper[18..20], [0, 0], "no urgent data");
            assert_eq!(sum(&[pseudo, upper]), 0xffff, "TCP's checksum");
            (Protocol::TcpSyn, 20)
        }
        1 => {
            let icmp = Icmp4::new(upper).unwrap();
            assert_eq!((icmp.kind(), icmp.code()), (8, 0));
            assert_eq!(sum(&[upper]), 0xffff, "ICMP's checksum");
            (Protocol::Icmp, 8)
        }
        58 => {
            let icmp = Icmp6::new(upper).unwrap();
            assert_eq!((icmp.kind(), icmp.code()), (128, 0));
            assert_eq!(sum(&[pseudo, upper]), 0xffff, "ICMPv6's checksum");
            (Protocol::Icmp, 8)
        }
        _ => panic!("protocol {number}"),
    }
}

/// Reads the next `count` frames, and checks the stamps: sequence numbers without gaps, and one tuple per flow.
pub fn read_all(traffic: &mut Traffic, count: usize) -> Vec<Read> {
    let stamped = traffic.is_stamped();
    let mut tuples = vec![None; traffic.flows() as usize];
    let mut sequences = vec![0; traffic.flows() as usize];
    let read = |frame: Vec<u8>| {
        let read = read(&frame, stamped);
        if let Some(stamp) = read.stamp {
            assert_eq!((stamp.run, stamp.time), (RUN, NOW));
            let flow = stamp.flow as usize;
            assert_eq!(stamp.sequence, sequences[flow], "flow {flow}");
            sequences[flow] += 1;
            assert_eq!(*tuples[flow].get_or_insert(read.tuple), read.tuple, "flow {flow}");
        }
        read
    };
    let reads: Vec<Read> = take(traffic, count).into_iter().map(read).collect();
    if stamped {
        let mut seen: Vec<Tuple> = tuples.into_iter().flatten().collect();
        let flows = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), flows, "two flows are the same");
    }
    reads
}
