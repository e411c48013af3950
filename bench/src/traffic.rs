// SPDX-License-Identifier: MIT
//! The traffic of `./x bench forward` and `./x bench fib --in-router`, the tables it is forwarded by, and how each
//! packet must leave.
//!
//! [`Traffic::expected`] is the rule that outputs are compared with: it knows nothing of the router's code.

use crate::table::{Entry, Family, Ranges};
use anyhow::{Context as _, Result, ensure};
use perigee_fib::synth::Random;
use perigee_fib::{Fib, FibWriter, Interfaces, Lookup, NextHopId, NextHopWriter, NextHops, Via, structures};
use perigee_modules::Tables;
use perigee_net::{
    Interface, InterfaceAddress, InterfaceId, MacAddr, Policy, Prefix, PrefixOf, Route, RouteSource, RouteTarget,
};
use perigee_packet::wire::{ethernet, ipv4, ipv6, protocol, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

/// Packets in a source's file.
pub const PACKETS: usize = 65_536;
/// Bytes of each IPv4 packet, without FCS: the shortest Ethernet frame.
pub const LENGTH: usize = 60;
/// Bytes of each IPv6 packet: headers without data.
pub const LENGTH6: usize = 62;
/// Ports of the router that it sends on: it receives on the first, and on further ones where there are several sources.
pub const PORTS: u16 = 2;
const SEED: u64 = 20_240_229;
const TTL: u8 = 64;

/// The small table: first address and length of each prefix; route `n` leads to neighbor `n`.
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

/// The same for IPv6: its eight prefixes of this length share 2000::/3; route `n` leads to neighbor `n`, too.
const ROUTES6_LENGTH: u8 = 6;

/// First address of the small table's prefix `n` of IPv6.
fn route6(n: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(1 << 125 | u128::from(n) << (128 - ROUTES6_LENGTH))
}

/// A packet of a source, or one that left.
pub type Frame = Vec<u8>;

pub fn own_mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port as u8])
}

fn neighbor_mac(neighbor: u32) -> MacAddr {
    let [a, b, c, d] = neighbor.to_be_bytes();
    MacAddr([2, 1, a, b, c, d])
}

/// Neighbor `n` is on port `n % 2`.
pub fn port_of(neighbor: u32) -> u16 {
    (neighbor % u32::from(PORTS)) as u16
}

/// The neighbor's number of a next hop in a full table: ids are given out in their order.
pub fn neighbor_of(id: u32) -> Option<u32> {
    id.checked_sub(NextHopId::FIRST_FREE)
}

/// Which neighbor an address is to be sent to.
enum Routes {
    /// The small table.
    Eight,
    /// A full table of IPv4.
    V4(Ranges<u32>),
    /// A full table of IPv6.
    V6(Ranges<u128>),
}

/// The packets of all sources, and how they must leave.
pub struct Traffic {
    pub sources: Vec<Vec<Frame>>,
    routes: Routes,
}

/// An address family that full tables are made of.
pub trait Routed: Family {
    /// The right next hops for a table.
    fn routes(table: &[Entry<Self>]) -> RoutesOf;
    /// The lookup structure that a router has by default.
    fn default_structure() -> &'static str;
    /// The small table's prefixes; prefix `n` leads to neighbor `n`.
    fn small() -> Vec<PrefixOf<Self>>;
    /// Whether a router forwards to it at all.
    fn may_be_forwarded(self) -> bool;
    /// The workers' forwarding table, with nothing in the other family.
    fn fib(reader: Arc<dyn Lookup<Self>>, next_hops: Arc<NextHops>) -> Result<Fib>;
}

/// Wraps the rule so that it stays private.
pub struct RoutesOf(Routes);

impl Routed for u32 {
    fn routes(table: &[Entry<u32>]) -> RoutesOf {
        RoutesOf(Routes::V4(Ranges::of(table)))
    }

    fn default_structure() -> &'static str {
        structures::DEFAULT4.name
    }

    fn small() -> Vec<PrefixOf<u32>> {
        let prefix = |(network, length)| PrefixOf::new(u32::from_be_bytes(network), length);
        ROUTES.into_iter().filter_map(|route| prefix(route).ok()).collect()
    }

    /// RFC 1812 section 5.3.7, RFC 3927 section 7.
    fn may_be_forwarded(self) -> bool {
        !matches!(self >> 24, 0 | 127 | 224..) && self >> 16 != 0xa9fe
    }

    fn fib(v4: Arc<dyn Lookup<u32>>, next_hops: Arc<NextHops>) -> Result<Fib> {
        Ok(Fib { v4, v6: (structures::DEFAULT6.new)()?.reader(), next_hops, neighbors: Arc::default() })
    }
}

impl Routed for u128 {
    fn routes(table: &[Entry<u128>]) -> RoutesOf {
        RoutesOf(Routes::V6(Ranges::of(table)))
    }

    fn default_structure() -> &'static str {
        structures::DEFAULT6.name
    }

    fn small() -> Vec<PrefixOf<u128>> {
        (0..ROUTES.len() as u32).filter_map(|n| PrefixOf::new(route6(n).to_bits(), ROUTES6_LENGTH).ok()).collect()
    }

    /// RFC 4291 section 2.4.
    fn may_be_forwarded(self) -> bool {
        self >> 125 == 1
    }

    fn fib(v6: Arc<dyn Lookup<u128>>, next_hops: Arc<NextHops>) -> Result<Fib> {
        Ok(Fib { v4: (structures::DEFAULT4.new)()?.reader(), v6, next_hops, neighbors: Arc::default() })
    }
}

impl Traffic {
    /// UDP to random destinations that the small table covers, the same ones every time; one source.
    pub fn small<A: Routed>() -> Result<Traffic> {
        let mut traffic = Traffic { sources: Vec::new(), routes: Routes::Eight };
        let mut random = Random::new(SEED);
        let mut destination = || loop {
            let address = A::uniform(&mut random);
            if address.may_be_forwarded() && traffic.neighbor(address.ip()).is_some() {
                break address.ip();
            }
        };
        let destinations: Vec<IpAddr> = (0..PACKETS).map(|_| destination()).collect();
        traffic.sources.push(frames(&destinations, 0)?);
        Ok(traffic)
    }

    /// UDP to those of each source's addresses that a full table covers, the first [`PACKETS`] of them.
    pub fn full<A: Routed>(table: &[Entry<A>], sources: &[Vec<A>]) -> Result<Traffic> {
        let mut traffic = Traffic { sources: Vec::new(), routes: A::routes(table).0 };
        for (port, addresses) in (0..).zip(sources) {
            let good = addresses.iter().filter(|a| a.may_be_forwarded()).map(|address| address.ip());
            let good: Vec<IpAddr> = good.filter(|address| traffic.neighbor(*address).is_some()).take(PACKETS).collect();
            ensure!(
                good.len() == PACKETS,
                "only {} of {} addresses drawn have a route, and {PACKETS} are needed; use a table with more routes, or \
                 other patterns",
                good.len(),
                addresses.len()
            );
            traffic.sources.push(frames(&good, port)?);
        }
        Ok(traffic)
    }

    /// The shares of a source's packets that each port must transmit.
    pub fn shares(&self, source: usize) -> Vec<f64> {
        let mut counts = vec![0; PORTS.into()];
        for (port, _) in self.sources[source].iter().filter_map(|frame| self.expected(frame)) {
            counts[usize::from(port)] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / self.sources[source].len() as f64).collect()
    }

    /// The small table's prefixes with the ids of their next hops.
    pub fn small_table<A: Routed>() -> Vec<Entry<A>> {
        A::small().into_iter().zip(NextHopId::FIRST_FREE..).map(|(prefix, id)| (prefix, NextHopId(id))).collect()
    }

    /// The neighbor that packets to an address must leave to.
    fn neighbor(&self, address: IpAddr) -> Option<u32> {
        match (&self.routes, address) {
            (Routes::Eight, IpAddr::V4(address)) => {
                // A comparison of its first bits with each prefix.
                let is_in = |(network, length): &([u8; 4], u8)| {
                    (u32::from_be_bytes(*network) ^ address.to_bits()) >> (32 - length) == 0
                };
                ROUTES.iter().position(is_in).map(|route| route as u32)
            }
            (Routes::Eight, IpAddr::V6(address)) => {
                let bits = address.to_bits();
                let route = (bits >> (128 - ROUTES6_LENGTH)) as u32 & 7;
                (bits >> 125 == 1).then_some(route)
            }
            (Routes::V4(ranges), IpAddr::V4(address)) => neighbor_of(ranges.id(address.to_bits())),
            (Routes::V6(ranges), IpAddr::V6(address)) => neighbor_of(ranges.id(address.to_bits())),
            _ => None,
        }
    }

    /// What must leave for a packet of a source, and by which port: MAC addresses of its route, one TTL or hop limit
    /// less, and a recomputed header checksum.
    pub fn expected(&self, frame: &[u8]) -> Option<(u16, Frame)> {
        let is_v4 = frame.get(12..14)? == [8, 0];
        let destination: IpAddr = match is_v4 {
            true => Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(30..34)?).ok()?).into(),
            false => Ipv6Addr::from(<[u8; 16]>::try_from(frame.get(38..54)?).ok()?).into(),
        };
        let neighbor = self.neighbor(destination)?;
        let mut out = frame.to_vec();
        out[..6].copy_from_slice(&neighbor_mac(neighbor).octets());
        out[6..12].copy_from_slice(&own_mac(port_of(neighbor)).octets());
        if is_v4 {
            out[22] -= 1;
            out[24..26].fill(0);
            let mut sum: u32 = out[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
            while sum > 0xffff {
                sum = (sum >> 16) + (sum & 0xffff);
            }
            out[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        } else {
            out[21] -= 1;
        }
        Some((port_of(neighbor), out))
    }

    /// Compares the packets that left by each port with what must leave for all sources, one after the other, byte by
    /// byte and in order; returns how many.
    pub fn verify(&self, sent: &[Vec<Vec<u8>>]) -> Result<usize> {
        let mut next = vec![0; sent.len()];
        for (number, frame) in self.sources.iter().flatten().enumerate() {
            let (port, want) = self.expected(frame).context("the source has a packet without a route")?;
            let port = usize::from(port);
            let found = sent[port].get(next[port]);
            ensure!(
                found == Some(&want),
                "packet {number} of the source should leave by port {port} as\n  {want:02x?}\nand left as\n  {found:02x?}"
            );
            next[port] += 1;
        }
        let (left, wanted): (usize, usize) = (sent.iter().map(Vec::len).sum(), next.iter().sum());
        ensure!(left == wanted, "{left} packets left, {wanted} should have");
        Ok(wanted)
    }
}

/// Packets that a port receives.
pub fn frames(destinations: &[IpAddr], port: u16) -> Result<Vec<Frame>> {
    let mut random = Random::new(SEED);
    destinations.iter().map(|destination| frame(*destination, port, &mut random)).collect()
}

fn frame(destination: IpAddr, port: u16, random: &mut Random) -> Result<Frame> {
    let (a, b, c) = (random.below(256) as u8, random.below(256) as u8, 1 + random.below(254) as u8);
    let mut frame = vec![0; if destination.is_ipv4() { LENGTH } else { LENGTH6 }];
    let (source_mac, router) = (MacAddr([2, 0, 0, 0, 2, 0]), own_mac(port));
    let udp_at = match destination {
        IpAddr::V4(destination) => {
            ethernet::emit(&mut frame, router, source_mac, 0x0800)?;
            let length = LENGTH - ethernet::HEADER_LEN - ipv4::HEADER_LEN;
            let mut header = ipv4::Repr::new(Ipv4Addr::new(10, a, b, c), destination, protocol::UDP, length);
            header.ttl = TTL;
            header.emit(&mut frame[14..])?;
            34
        }
        IpAddr::V6(destination) => {
            ethernet::emit(&mut frame, router, source_mac, 0x86dd)?;
            let source = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, a.into(), b.into(), c.into());
            let mut header = ipv6::Repr::new(source, destination, protocol::UDP, udp::HEADER_LEN);
            header.hop_limit = TTL;
            header.emit(&mut frame[14..])?;
            54
        }
    };
    let payload = frame.len() - udp_at - udp::HEADER_LEN;
    udp::emit(&mut frame[udp_at..], 1024 + random.below(60_000) as u16, 9, payload)?;
    Ok(frame)
}

fn interfaces(ports: &[u16]) -> Result<Arc<Interfaces>> {
    let interface = |port| Interface {
        name: format!("port{port}"),
        port,
        vlan: None,
        mtu: 1500,
        mac: own_mac(port),
        addresses: vec![
            InterfaceAddress { address: Ipv4Addr::new(10, 0, port as u8, 254).into(), prefix_len: 24 },
            InterfaceAddress { address: Ipv6Addr::new(0xfd00, 0, 0, port, 0, 0, 0, 254).into(), prefix_len: 64 },
        ],
        up: true,
        attributes: Default::default(),
        policy: Policy::default(),
    };
    Ok(Arc::new(Interfaces::new(ports.iter().copied().map(interface).collect())?))
}

/// The tables of a router with this many ports and these lookup structures.
pub fn tables(fib: Fib, ports: u16) -> Result<Tables> {
    tables_on(fib, &(0..ports).collect::<Vec<_>>())
}

/// The same, with its interfaces on these ports; packets leave by the first [`PORTS`] of them.
pub fn tables_on(fib: Fib, ports: &[u16]) -> Result<Tables> {
    let macs: Vec<MacAddr> = (0..ports.len() as u16).map(own_mac).collect();
    Ok(Tables::new(fib, interfaces(ports)?, None, &macs))
}

/// The eight routes of each family, their neighbors known.
pub fn eight_routes() -> Result<Fib> {
    let mut fib = FibWriter::new(64)?;
    for (route, (network, length)) in (0..).zip(ROUTES) {
        let interface = InterfaceId(port_of(route));
        let gateway = Ipv4Addr::new(10, 0, interface.0 as u8, 1 + route as u8).into();
        let target = RouteTarget::Gateway { address: gateway, interface: Some(interface) };
        let prefix = Prefix::new(Ipv4Addr::from(network).into(), length)?;
        fib.insert(prefix, Route::new(RouteSource::Static, target))?;
        fib.set_neighbor(interface, gateway, Some(neighbor_mac(route)));
    }
    for route in 0..ROUTES.len() as u32 {
        let interface = InterfaceId(port_of(route));
        let gateway = Ipv6Addr::new(0xfd00, 0, 0, interface.0, 0, 0, 0, 1 + route as u16).into();
        let target = RouteTarget::Gateway { address: gateway, interface: Some(interface) };
        let prefix = Prefix::new(route6(route).into(), ROUTES6_LENGTH)?;
        fib.insert(prefix, Route::new(RouteSource::Static, target))?;
        fib.set_neighbor(interface, gateway, Some(neighbor_mac(route)));
    }
    Ok(fib.reader())
}

/// The next hops of a full table: `count` neighbors, all known, whose ids are in the order of their numbers.
pub fn neighbors(count: u32) -> Result<Arc<NextHops>> {
    let mut writer = NextHopWriter::new(count)?;
    for neighbor in 0..count {
        let interface = InterfaceId(port_of(neighbor));
        let gateway = Ipv4Addr::from_bits(0x6440_0000 + neighbor).into();
        let id = writer.acquire(Via { interface, gateway: Some(gateway) })?;
        ensure!(neighbor_of(id.0) == Some(neighbor), "next hops are given out in another order than they were");
        writer.set_neighbor(interface, gateway, Some(neighbor_mac(neighbor)));
    }
    Ok(writer.reader().clone())
}

/// Writes packets as a pcap file (microseconds, Ethernet), all at time 0.
pub fn write_pcap(path: &Path, frames: &[Frame]) -> Result<()> {
    let header = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1u32];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in frames {
        let length = (frame.len() as u32).to_le_bytes();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{self, Pattern};

    fn full<A: Routed>(pattern: Pattern) -> Traffic {
        let table = table::entries::<A>(None, 250, 1);
        Traffic::full(&table, &[pattern.addresses(&table, 2 * PACKETS, 1)]).unwrap()
    }

    #[test]
    fn the_traffic_is_fixed_and_survives_its_file() {
        let frames = Traffic::small::<u32>().unwrap().sources.remove(0);
        assert_eq!(frames, Traffic::small::<u32>().unwrap().sources[0]);
        assert!(Traffic::small::<u128>().unwrap().sources[0].iter().all(|frame| frame.len() == LENGTH6));
        let folder = tempfile::tempdir().unwrap();
        write_pcap(&folder.path().join("x.pcap"), &frames).unwrap();
        assert_eq!(read_pcap(&folder.path().join("x.pcap")).unwrap(), frames);
    }

    #[test]
    fn what_is_not_as_expected_is_found() {
        let small = [Traffic::small::<u32>().unwrap(), Traffic::small::<u128>().unwrap()];
        for mut traffic in small.into_iter().chain([full::<u32>(Pattern::Zipf), full::<u128>(Pattern::Routed)]) {
            traffic.sources[0].truncate(100);
            let mut sent = vec![vec![], vec![]];
            for frame in &traffic.sources[0] {
                let (port, frame) = traffic.expected(frame).unwrap();
                sent[usize::from(port)].push(frame);
            }
            assert_eq!(traffic.verify(&sent).unwrap(), 100);
            for byte in 0..traffic.sources[0][0].len() {
                let mut wrong = sent.clone();
                wrong[1][7][byte] ^= 1;
                assert!(traffic.verify(&wrong).is_err(), "byte {byte}");
            }
            let (mut less, mut more) = (sent.clone(), sent.clone());
            less[0].pop();
            more[0].push(sent[0][0].clone());
            assert!(traffic.verify(&less).is_err() && traffic.verify(&more).is_err());
        }
    }

    #[test]
    fn neighbors_have_the_ids_of_the_table() {
        let next_hops = neighbors(250).unwrap();
        let mac = |mac: MacAddr| mac.octets().iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        for neighbor in [0, 1, 249] {
            let next_hop = next_hops.get(NextHopId(NextHopId::FIRST_FREE + neighbor));
            assert_eq!((next_hop.interface().0, next_hop.mac_bits()), (port_of(neighbor), mac(neighbor_mac(neighbor))));
        }
    }
}
