// SPDX-License-Identifier: MIT
//! The tables that a rig's router forwards by: ports, neighbors behind each, and routes to /24 networks, or those of a
//! full table.

use crate::request::{Lookups, Request, Routes};
use anyhow::{Context as _, Result, ensure};
use perigee_fib::{Fib, Interfaces, Lookup, NextHopId, NextHopWriter, NextHops, Structure, Via, structures, synth};
use perigee_modules::Tables;
use perigee_net::{Interface, InterfaceAddress, InterfaceId, MacAddr, Policy, Prefix4};
use rand::rngs::StdRng;
use rand::seq::{SliceRandom as _, index};
use rand::{RngExt as _, SeedableRng};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Most ports of a rig's router.
pub const MOST_PORTS: u16 = NEIGHBORS as u16;
/// Where all packets come from.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
pub(crate) const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 0]);
/// Neighbors, behind the ports by turns: as many whatever the number of ports, so that lookups find the same.
const NEIGHBORS: u32 = 64;
/// Prefixes of a synthetic table of the Internet's size.
const INTERNET: usize = 901_899;
/// The /24 networks that packets may be for: from 16.0.0.0 to 99.255.255.0 and from 128.0.0.0 to 168.255.255.0, which
/// nothing is reserved in.
const BLOCKS: [(u32, u32); 2] = [(16 << 24, 84 << 16), (128 << 24, 41 << 16)];
/// How many there are.
pub const MOST_NETWORKS: u32 = BLOCKS[0].1 + BLOCKS[1].1;

/// The MAC address of a port.
pub(crate) fn mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port as u8])
}

/// So many different networks, in random order, each as its first address.
pub fn networks(count: u32, seed: u64) -> Vec<u32> {
    let network = |index: usize| {
        let index = index as u32;
        match index.checked_sub(BLOCKS[0].1) {
            None => BLOCKS[0].0 + (index << 8),
            Some(index) => BLOCKS[1].0 + (index << 8),
        }
    };
    let mut random = StdRng::seed_from_u64(seed);
    index::sample(&mut random, MOST_NETWORKS as usize, count.min(MOST_NETWORKS) as usize)
        .into_iter()
        .map(network)
        .collect()
}

/// A structure for lookups by its name.
fn structure(name: &str) -> Result<&'static Structure<u32>> {
    let known = structures::IPV4;
    let found = known.iter().find(|structure| structure.name == name);
    found.with_context(|| {
        let names: Vec<&str> = known.iter().map(|structure| structure.name).collect();
        format!("found the lookup structure {name:?}; expected one of {}", names.join(", "))
    })
}

/// Where packets are for, and a table with routes there.
pub(crate) struct Made {
    /// Two ways: those at even places come in by the first port, those at odd places by the second.
    pub destinations: Vec<Prefix4>,
    pub tables: Tables,
    /// Of the lookup structure.
    pub bytes: usize,
}

/// What a request asks for; `full` are the prefixes of its table, where that is a full one.
///
/// # Errors
/// A structure that is not known or has no room; no prefixes.
pub(crate) fn make(request: &Request, full: &[Prefix4]) -> Result<Made> {
    let next_hops = neighbors(request.ports)?;
    let mut random = StdRng::seed_from_u64(request.seed);
    let to = |place: usize| NextHopId(NextHopId::FIRST_FREE + neighbor(place, request.ports, request.two_way));
    let (routes, destinations): (Vec<(Prefix4, NextHopId)>, Vec<Prefix4>) = match request.routes {
        Routes::Networks => {
            let networks = networks(request.networks, request.seed);
            let networks =
                networks.iter().map(|network| Ok(Prefix4::new(*network, 24)?)).collect::<Result<Vec<_>>>()?;
            (networks.iter().enumerate().map(|(place, network)| (*network, to(place))).collect(), networks)
        }
        Routes::Internet | Routes::Given => {
            let mut routed: Vec<Prefix4> = full.iter().copied().filter(|prefix| forwarded(*prefix)).collect();
            ensure!(!routed.is_empty(), "routes: found none to addresses that are forwarded, expected at least one");
            routed.shuffle(&mut random);
            routed.truncate(request.networks as usize);
            (full.iter().map(|prefix| (*prefix, to(random.random_range(0..1 << 20)))).collect(), routed)
        }
    };
    let mut writer = (structure(&request.structure)?.new)()?;
    writer.load(&routes)?;
    let v4 = match request.lookups {
        Lookups::Burst => writer.reader(),
        Lookups::Single => Arc::new(Single(writer.reader())),
    };
    let fib = Fib { v4, v6: (structures::DEFAULT6.new)()?.reader(), next_hops, neighbors: Arc::default() };
    let macs: Vec<MacAddr> = (0..request.ports).map(mac).collect();
    Ok(Made { destinations, tables: Tables::new(fib, interfaces(request.ports)?, None, &macs), bytes: writer.memory() })
}

/// A synthetic table of the Internet's size and shape.
pub(crate) fn internet() -> Vec<Prefix4> {
    synth::ipv4(INTERNET, 1).into_iter().map(|(prefix, _)| prefix).collect()
}

/// Are packets to all addresses of this prefix forwarded: is it neither 0.0.0.0/8, loopback, multicast nor reserved?
fn forwarded(prefix: Prefix4) -> bool {
    prefix.len() >= 8 && !matches!(prefix.addr() >> 24, 0 | 127 | 224..)
}

/// The neighbor that the route at this place leads to: behind the other ports by turns, seen from the one that its
/// packets come in by.
fn neighbor(place: usize, ports: u16, two_way: bool) -> u32 {
    let (place, ports) = (place as u32, u32::from(ports));
    let came_in = if two_way { place % 2 } else { 0 };
    let (turn, other) = (place / 2 / (ports - 1), place / 2 % (ports - 1));
    let port = if other < came_in { other } else { other + 1 };
    let behind = (NEIGHBORS - port).div_ceil(ports);
    turn % behind * ports + port
}

/// A structure whose addresses are looked up one after the other.
struct Single(Arc<dyn Lookup<u32>>);

impl Lookup<u32> for Single {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn lookup(&self, address: u32) -> NextHopId {
        self.0.lookup(address)
    }

    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        for (id, address) in ids.iter_mut().zip(addresses) {
            *id = self.0.lookup(*address).0;
        }
    }
}

/// Neighbors behind the ports by turns, all of them known; their ids follow each other.
fn neighbors(ports: u16) -> Result<Arc<NextHops>> {
    let mut writer = NextHopWriter::new(NEIGHBORS)?;
    for neighbor in 0..NEIGHBORS {
        let interface = InterfaceId((neighbor % u32::from(ports)) as u16);
        let gateway = Ipv4Addr::from_bits(0x0a00_0001 + (u32::from(interface.0) << 16) + neighbor).into();
        writer.acquire(Via { interface, gateway: Some(gateway) })?;
        let [a, b, c, d] = neighbor.to_be_bytes();
        writer.set_neighbor(interface, gateway, Some(MacAddr([2, 1, a, b, c, d])));
    }
    Ok(writer.reader().clone())
}

pub(crate) fn interfaces(ports: u16) -> Result<Arc<Interfaces>> {
    let interface = |port: u16| Interface {
        name: format!("port{port}"),
        port,
        vlan: None,
        mtu: 1500,
        mac: mac(port),
        addresses: vec![InterfaceAddress { address: Ipv4Addr::new(10, port as u8, 255, 254).into(), prefix_len: 16 }],
        up: true,
        attributes: Default::default(),
        policy: Policy::default(),
    };
    Ok(Arc::new(Interfaces::new((0..ports).map(interface).collect())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn networks_are_different_and_where_nothing_is_reserved() {
        let found: HashSet<u32> = networks(100_000, 7).into_iter().collect();
        assert_eq!(found.len(), 100_000);
        assert!(found.iter().all(|network| network & 0xff == 0 && matches!(network >> 24, 16..100 | 128..169)));
        assert_eq!(networks(10, 7), networks(10, 7));
    }

    /// Where a packet to this address leaves.
    fn port(made: &Made, address: u32, ports: u16) -> u16 {
        ((made.tables.v4.lookup(address).0 - NextHopId::FIRST_FREE) % u32::from(ports)) as u16
    }

    #[test]
    fn routes_lead_to_the_other_ports() {
        for (ports, two_way) in [(2, true), (2, false), (3, true), (8, true), (64, false)] {
            let request = Request { ports, two_way, flows: 2, networks: 1000, ..Request::new(vec![0]) };
            let made = make(&request, &[]).unwrap();
            assert!(made.bytes > 0);
            let mut left = HashSet::new();
            for (place, network) in made.destinations.iter().enumerate() {
                let port = port(&made, network.addr() | 77, ports);
                assert_ne!(port, if two_way && place % 2 == 1 { 1 } else { 0 }, "{ports} ports");
                left.insert(port);
            }
            // Nothing leaves by the first port if all comes in there.
            assert_eq!(left.len(), usize::from(ports) - usize::from(!two_way));
        }
        let unknown = Request { structure: "nonsense".to_owned(), ..Request::new(vec![0]) };
        assert!(make(&unknown, &[]).map(|_| ()).unwrap_err().to_string().contains("auto"));
    }

    #[test]
    fn packets_are_for_prefixes_of_a_full_table() {
        let given: Vec<Prefix4> =
            ["0.0.0.0/0", "127.0.0.0/8", "16.0.0.0/8", "16.1.0.0/16", "20.1.2.3/32", "240.0.0.0/8"]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        for lookups in [Lookups::Burst, Lookups::Single] {
            let request = Request { routes: Routes::Given, lookups, ports: 4, ..Request::new(vec![0]) };
            let made = make(&request, &given).unwrap();
            let found: HashSet<Prefix4> = made.destinations.iter().copied().collect();
            assert_eq!(found, given[2..5].iter().copied().collect(), "as many as there are");
            let addresses: Vec<u32> = made.destinations.iter().map(|prefix| prefix.addr()).collect();
            let mut ids = vec![0; addresses.len()];
            made.tables.v4.lookup_batch(&addresses, &mut ids);
            assert_eq!(ids, addresses.iter().map(|a| made.tables.v4.lookup(*a).0).collect::<Vec<_>>());
            assert!(addresses.iter().all(|address| port(&made, *address, 4) > 0));
        }
        let request = Request { routes: Routes::Given, ..Request::new(vec![0]) };
        assert!(make(&request, &[]).map(|_| ()).unwrap_err().to_string().contains("found none"));
    }
}
