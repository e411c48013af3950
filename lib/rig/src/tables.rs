// SPDX-License-Identifier: MIT
//! The tables that a rig's router forwards by: two ports, neighbors behind each, and routes to /24 networks.

use anyhow::{Context as _, Result};
use perigee_fib::{Fib, Interfaces, NextHopId, NextHopWriter, NextHops, Structure, Via, structures};
use perigee_modules::Tables;
use perigee_net::{Interface, InterfaceAddress, InterfaceId, MacAddr, Policy, Prefix4};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::index;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Ports of a rig's router: traffic goes from the first to the second, and back.
pub const PORTS: u16 = 2;
/// Where all packets come from.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
pub(crate) const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 0]);
/// Neighbors behind each port.
const NEIGHBORS: u32 = 32;
/// The /24 networks that packets may be for: from 16.0.0.0 to 99.255.255.0 and from 128.0.0.0 to 168.255.255.0, which nothing is reserved in.
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

/// Tables with a route for each network: those at even places lead out of the second port, those at odd places out of the first, if
/// `two_way`; else all lead out of the second. Also the bytes that the structure takes.
///
/// # Errors
/// A structure that is not known or has no room.
pub fn tables(networks: &[u32], two_way: bool, structure_name: &str) -> Result<(Tables, usize)> {
    let next_hops = neighbors()?;
    let mut writer = (structure(structure_name)?.new)()?;
    let route = |(place, network): (usize, &u32)| {
        let port = if two_way && place % 2 == 1 { 0 } else { 1 };
        let neighbor = (place / 2) as u32 % NEIGHBORS * u32::from(PORTS) + port;
        Ok((Prefix4::new(*network, 24)?, NextHopId(NextHopId::FIRST_FREE + neighbor)))
    };
    writer.load(&networks.iter().enumerate().map(route).collect::<Result<Vec<_>>>()?)?;
    let v6 = (structures::DEFAULT6.new)()?.reader();
    let fib = Fib { v4: writer.reader(), v6, next_hops, neighbors: Arc::default() };
    let macs: Vec<MacAddr> = (0..PORTS).map(mac).collect();
    Ok((Tables::new(fib, interfaces()?, None, &macs), writer.memory()))
}

/// Neighbors behind the ports by turns, all of them known; their ids follow each other.
fn neighbors() -> Result<Arc<NextHops>> {
    let mut writer = NextHopWriter::new(NEIGHBORS * u32::from(PORTS))?;
    for neighbor in 0..NEIGHBORS * u32::from(PORTS) {
        let interface = InterfaceId((neighbor % u32::from(PORTS)) as u16);
        let gateway = Ipv4Addr::from_bits(0x0a00_0001 + (u32::from(interface.0) << 16) + neighbor).into();
        writer.acquire(Via { interface, gateway: Some(gateway) })?;
        let [a, b, c, d] = neighbor.to_be_bytes();
        writer.set_neighbor(interface, gateway, Some(MacAddr([2, 1, a, b, c, d])));
    }
    Ok(writer.reader().clone())
}

pub(crate) fn interfaces() -> Result<Arc<Interfaces>> {
    let interface = |port: u16| Interface {
        name: format!("port{port}"),
        port,
        vlan: None,
        mtu: 1500,
        mac: mac(port),
        addresses: vec![InterfaceAddress { address: Ipv4Addr::new(10, port as u8, 255, 254).into(), prefix_len: 16 }],
        up: true,
        policy: Policy::default(),
    };
    Ok(Arc::new(Interfaces::new((0..PORTS).map(interface).collect())?))
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

    #[test]
    fn routes_lead_to_the_other_port() {
        let networks = networks(1000, 1);
        let (two_way, bytes) = tables(&networks, true, "auto").unwrap();
        assert!(bytes > 0);
        for (place, network) in networks.iter().enumerate() {
            let id = two_way.v4.lookup(network | 77);
            assert_eq!((id.0 - NextHopId::FIRST_FREE) % 2, if place % 2 == 1 { 0 } else { 1 });
        }
        assert!(tables(&networks, false, "nonsense").map(|_| ()).unwrap_err().to_string().contains("auto"));
    }
}
