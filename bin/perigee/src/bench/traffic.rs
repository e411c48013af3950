// SPDX-License-Identifier: MIT
//! The traffic of `perigee bench forward`, the table it is forwarded by, and what must become of each packet.
//!
//! [`expected`] is the rule that outputs are compared with: it knows nothing of the router's code.

use anyhow::{Context as _, Result, ensure};
use perigee_fib::synth::Random;
use perigee_fib::{FibWriter, Interface, InterfaceId, Interfaces, Prefix, Route, RouteSource, RouteTarget};
use perigee_modules::Tables;
use perigee_packet::{MacAddr, ethernet, ipv4, protocol, udp};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

/// Packets in the source's file.
pub const PACKETS: usize = 65_536;
/// Bytes of each, without FCS: the shortest Ethernet frame.
pub const LENGTH: usize = 60;
/// Ports of the router: it receives on the first and sends on both.
pub const PORTS: u16 = 2;
const SEED: u64 = 20_240_229;
const TTL: u8 = 64;

/// The table: first address and length of each prefix; route `n` leaves by port `n % 2` to a neighbor of its own.
const ROUTES: [([u8; 4], u8); 8] = [
    ([16, 0, 0, 0], 4),
    ([32, 0, 0, 0], 3),
    ([64, 0, 0, 0], 3),
    ([96, 0, 0, 0], 4),
    ([128, 0, 0, 0], 3),
    ([160, 0, 0, 0], 3),
    ([192, 0, 0, 0], 4),
    ([208, 0, 0, 0], 4),
];

/// A packet of the source, or one that left.
pub type Frame = [u8; LENGTH];

fn own_mac(port: u16) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}

fn neighbor_mac(route: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, route as u8]
}

fn port_of(route: usize) -> u16 {
    route as u16 % PORTS
}

/// The route of an address, by a comparison of its first bits with each prefix.
fn route_of(address: Ipv4Addr) -> Option<usize> {
    ROUTES.iter().position(|(network, length)| (u32::from_be_bytes(*network) ^ address.to_bits()) >> (32 - length) == 0)
}

/// The packets: UDP to random destinations that the table covers, the same ones every time.
pub fn frames() -> Result<Vec<Frame>> {
    let mut random = Random::new(SEED);
    (0..PACKETS).map(|_| frame(&mut random)).collect()
}

fn frame(random: &mut Random) -> Result<Frame> {
    let destination = loop {
        let address = Ipv4Addr::from_bits(random.bits() as u32);
        if route_of(address).is_some() {
            break address;
        }
    };
    let source = Ipv4Addr::new(10, random.below(256) as u8, random.below(256) as u8, 1 + random.below(254) as u8);
    let mut frame = [0; LENGTH];
    let payload = LENGTH - ethernet::HEADER_LEN - ipv4::HEADER_LEN - udp::HEADER_LEN;
    ethernet::emit(&mut frame, MacAddr(own_mac(0)), MacAddr([2, 0, 0, 0, 2, 0]), 0x0800)?;
    let mut header = ipv4::Repr::new(source, destination, protocol::UDP, udp::HEADER_LEN + payload);
    header.ttl = TTL;
    header.emit(&mut frame[14..])?;
    udp::emit(&mut frame[34..], 1024 + random.below(60_000) as u16, 9, payload)?;
    Ok(frame)
}

/// The tables of a router that has the eight routes, their neighbors known.
pub fn tables() -> Result<Tables> {
    let interface = |port| Interface {
        name: format!("port{port}"),
        port,
        vlan: None,
        mtu: 1500,
        mac: own_mac(port),
        addresses: vec![(Ipv4Addr::new(10, 0, port as u8, 254).into(), 24)],
    };
    let interfaces = Arc::new(Interfaces::new((0..PORTS).map(interface).collect())?);
    let mut fib = FibWriter::new(64)?;
    for (route, (network, length)) in ROUTES.into_iter().enumerate() {
        let (port, interface) = (port_of(route), InterfaceId(port_of(route)));
        let gateway = Ipv4Addr::new(10, 0, port as u8, 1 + route as u8).into();
        let target = RouteTarget::Gateway { address: gateway, interface: Some(interface) };
        let prefix = Prefix::new(Ipv4Addr::from(network).into(), length)?;
        fib.insert(prefix, Route { source: RouteSource::Static, metric: 0, target })?;
        fib.set_neighbor(interface, gateway, Some(neighbor_mac(route)));
    }
    let macs: Vec<[u8; 6]> = (0..PORTS).map(own_mac).collect();
    let fib = fib.reader();
    Ok(Tables::new(fib.v4, fib.v6, fib.next_hops, interfaces, None, &macs))
}

/// What must leave for a packet of the source, and by which port: MAC addresses of its route, one TTL less, and a header
/// checksum that is computed anew.
pub fn expected(frame: &Frame) -> Option<(u16, Frame)> {
    let route = route_of(Ipv4Addr::new(frame[30], frame[31], frame[32], frame[33]))?;
    let mut out = *frame;
    out[..6].copy_from_slice(&neighbor_mac(route));
    out[6..12].copy_from_slice(&own_mac(port_of(route)));
    out[22] -= 1;
    out[24..26].fill(0);
    let mut sum: u32 = out[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    out[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    Some((port_of(route), out))
}

/// Writes packets as a pcap file (microseconds, Ethernet), all at time 0.
pub fn write_pcap(path: &Path, frames: &[Frame]) -> Result<()> {
    let header = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1u32];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    let length = (LENGTH as u32).to_le_bytes();
    for frame in frames {
        bytes.extend([0; 8]);
        bytes.extend(length.iter().chain(&length).chain(frame));
    }
    std::fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}

/// The packets of a pcap file, each as long as it was on the wire.
pub fn read_pcap(path: &Path) -> Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut rest = bytes.get(24..).unwrap_or_default();
    let mut frames = Vec::new();
    while let Some(length) = word(rest, 8) {
        let frame = rest.get(16..16 + length as usize);
        let frame = frame.with_context(|| format!("{} ends in the middle of a packet", path.display()))?;
        frames.push(frame.to_vec());
        rest = &rest[16 + frame.len()..];
    }
    Ok(frames)
}

/// Compares the packets that left by each port with what must leave, byte by byte and in order; returns how many.
pub fn verify(source: &[Frame], sent: &[Vec<Vec<u8>>]) -> Result<usize> {
    let mut next = vec![0; sent.len()];
    for (number, frame) in source.iter().enumerate() {
        let (port, want) = expected(frame).context("the source has a packet without a route")?;
        let port = usize::from(port);
        let found = sent[port].get(next[port]);
        ensure!(
            found.is_some_and(|found| found[..] == want),
            "packet {number} of the source should leave by port {port} as\n  {want:02x?}\nand left as\n  {found:02x?}"
        );
        next[port] += 1;
    }
    let (left, wanted): (usize, usize) = (sent.iter().map(Vec::len).sum(), next.iter().sum());
    ensure!(left == wanted, "{left} packets left, {wanted} should have");
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traffic_is_fixed_and_survives_its_file() {
        let frames = frames().unwrap();
        assert_eq!(frames, super::frames().unwrap());
        let folder = tempfile::tempdir().unwrap();
        write_pcap(&folder.path().join("x.pcap"), &frames).unwrap();
        let read = read_pcap(&folder.path().join("x.pcap")).unwrap();
        assert!(read.iter().map(|frame| &frame[..]).eq(frames.iter().map(|frame| &frame[..])));
    }

    #[test]
    fn what_is_not_as_expected_is_found() {
        let source = frames().unwrap()[..100].to_vec();
        let mut sent = vec![vec![], vec![]];
        for frame in &source {
            let (port, frame) = expected(frame).unwrap();
            sent[usize::from(port)].push(frame.to_vec());
        }
        assert_eq!(verify(&source, &sent).unwrap(), 100);
        for byte in 0..LENGTH {
            let mut wrong = sent.clone();
            wrong[1][7][byte] ^= 1;
            assert!(verify(&source, &wrong).is_err(), "byte {byte}");
        }
        let (mut less, mut more) = (sent.clone(), sent.clone());
        less[0].pop();
        more[0].push(sent[0][0].clone());
        assert!(verify(&source, &less).is_err() && verify(&source, &more).is_err());
    }
}
