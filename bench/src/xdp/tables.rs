// SPDX-License-Identifier: MIT
//! The tables that are measured: a small one and a full one of each family, for Linux and for the plane, and the
//! destinations of packets.

use super::Family;
use super::programs::DESTINATIONS;
use crate::table::{self, Pattern};
use anyhow::Result;
use perigee_fib::{NextHopId, PrefixList};
use perigee_lab::World;
use perigee_net::{MacAddr, Prefix, Prefix4, Prefix6, PrefixOf};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Gateways: neighbors behind the interface that packets leave by.
pub const GATEWAYS: u32 = 64;
/// Destinations of the small table.
const FEW: usize = 2048;
/// Of which gateways and destinations are drawn.
const SEED: u64 = 37;

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    Small,
    Full,
}

/// Routes, each with the number of its gateway, and destinations that have one.
pub struct Table {
    pub size: Size,
    pub family: Family,
    pub routes: Vec<(Prefix, u32)>,
    pub destinations: Vec<IpAddr>,
}

/// The address of a gateway.
pub fn gateway(family: Family, number: u32) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::from_bits(0xc613_0002 + number).into(),
        Family::Ipv6 => Ipv6Addr::from_bits(0x2001_0db8_0019 << 80 | u128::from(number + 2)).into(),
    }
}

/// The MAC address of a gateway.
pub fn gateway_mac(number: u32) -> MacAddr {
    MacAddr([2, 0, 0, 2, 0, number as u8])
}

/// Whether routers forward packets to an address, and none of this bench's own networks has it.
fn is_usable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            !matches!(a, 0 | 127 | 224..) && (a, b & 0xfe) != (198, 18) && (a, b) != (169, 254)
        }
        IpAddr::V6(v6) => v6.segments()[0] & 0xe000 == 0x2000 && v6.segments()[..2] != [0x2001, 0xdb8],
    }
}

impl Table {
    /// Of a list, or of one that has the Internet's size and shape, and a default route: a packet always has a route,
    /// whichever of the others is withdrawn.
    pub fn new(size: Size, family: Family, list: Option<&PrefixList>) -> Table {
        match family {
            Family::Ipv4 => Self::with::<u32>(size, family, list),
            Family::Ipv6 => Self::with::<u128>(size, family, list),
        }
    }

    fn with<A: table::Family>(size: Size, family: Family, list: Option<&PrefixList>) -> Table {
        let few;
        let list = match size {
            Size::Small => {
                few = eight();
                Some(&few)
            }
            Size::Full => list,
        };
        let entries = table::entries::<A>(list, GATEWAYS, SEED);
        let count = if size == Size::Small { FEW } else { DESTINATIONS };
        let drawn = Pattern::Routed.addresses(&entries, count * 2, SEED).into_iter();
        let mut destinations: Vec<IpAddr> =
            drawn.map(|address| Prefix::from(PrefixOf::host(address)).addr()).filter(is_usable).collect();
        destinations.truncate(count);
        let mut routes: Vec<(Prefix, u32)> =
            entries.into_iter().map(|(prefix, id)| (prefix.into(), id.0 - NextHopId::FIRST_FREE)).collect();
        routes.retain(|(prefix, _)| prefix.len() > 0);
        let any = if family == Family::Ipv4 { "0.0.0.0/0" } else { "::/0" };
        routes.push((any.parse().expect("a constant prefix"), 0));
        Table { size, family, routes, destinations }
    }

    /// Puts the routes into Linux's table.
    pub fn give_to_linux(&self, world: &World) -> Result<()> {
        let mut batch = String::new();
        for (prefix, number) in &self.routes {
            let _ = writeln!(batch, "route replace {prefix} via {}", gateway(self.family, *number)); // a String takes everything
        }
        let batch = world.file("routes.batch", &batch)?;
        let family = if self.family == Family::Ipv6 { "-6 " } else { "" };
        world.ip(&format!("{family}-force -batch {}", batch.display())).map(drop)
    }
}

/// Eight routes of each family.
fn eight() -> PrefixList {
    let v4 = (0..8).map(|n| Prefix4::new(10 << 24 | n << 20, 12).expect("a network"));
    let v6 = (0..8u128).map(|n| Prefix6::new(0x2a00 << 112 | n << 108, 20).expect("a network"));
    PrefixList { v4: v4.collect(), v6: v6.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_have_a_route_and_are_forwarded() {
        for family in [Family::Ipv4, Family::Ipv6] {
            let table = Table::new(Size::Small, family, None);
            assert_eq!((table.routes.len(), table.destinations.len()), (9, FEW));
            let has = |address: &IpAddr| table.routes.iter().any(|(prefix, _)| prefix.contains(*address));
            assert!(table.destinations.iter().all(|address| has(address) && is_usable(address)));
        }
        for address in ["0.1.2.3", "127.0.0.1", "198.19.255.1", "224.0.0.1", "169.254.1.1", "fe80::1", "2001:db8:19::2"]
        {
            assert!(!is_usable(&address.parse().unwrap()), "{address}");
        }
    }
}
