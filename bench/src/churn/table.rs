// SPDX-License-Identifier: MIT
//! The routes: a stable part, to which all packets go, and a part that changes.

use super::netlink::Route;
use crate::table::{self as prefixes, Entry, Family, Pattern, Ranges};
use crate::traffic::{self, Frame, Routed};
use anyhow::{Result, ensure};
use perigee_fib::synth::Random;
use perigee_fib::{NextHopId, PrefixList};
use perigee_net::Address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network of the port that all routes lead to; its gateways are number 256 and up.
pub const SINK: (Ipv4Addr, u8, Ipv6Addr, u8) =
    (Ipv4Addr::new(100, 64, 0, 0), 16, Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 0), 64);
/// Room for gateways in it.
pub const MOST_GATEWAYS: u32 = 60_000;
const FIRST_GATEWAY: u32 = 256;

/// A gateway of each family on the sink.
pub fn gateways(number: u32) -> (Ipv4Addr, Ipv6Addr) {
    let host = FIRST_GATEWAY + number;
    (Ipv4Addr::from_bits(SINK.0.to_bits() + host), Ipv6Addr::from_bits(SINK.2.to_bits() + u128::from(host)))
}

/// The routes of one family.
struct Part<A> {
    stable: Vec<Entry<A>>,
    changing: Vec<Entry<A>>,
}

/// All routes.
pub struct Table {
    v4: Part<u32>,
    v6: Part<u128>,
    next_hops: u32,
    seed: u64,
}

/// How the routes are drawn.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    /// Different gateways.
    pub next_hops: u32,
    /// Routes that change, of both families in proportion.
    pub changes: usize,
    /// Seed of everything random.
    pub seed: u64,
}

impl Table {
    /// A table from a list, or a synthetic one of the Internet's size and shape.
    pub fn new(list: Option<&PrefixList>, draw: Draw) -> Result<Table> {
        let v4 = usable::<u32>(list, draw);
        let v6 = usable::<u128>(list, draw);
        let all = v4.len() + v6.len();
        ensure!(
            draw.changes < all,
            "--changes: found {}, expected fewer than the {all} routes of the table",
            draw.changes
        );
        let of_v4 = draw.changes * v4.len() / all;
        let random = &mut Random::new(draw.seed);
        Ok(Table {
            v4: split(v4, of_v4, random),
            v6: split(v6, draw.changes - of_v4, random),
            next_hops: draw.next_hops,
            seed: draw.seed,
        })
    }

    /// The stable part and the changing part, in the order in which Linux gets them.
    pub fn routes(&self) -> (Vec<Route>, Vec<Route>) {
        let both = |v4: &[Entry<u32>], v6: &[Entry<u128>]| v4.iter().map(route).chain(v6.iter().map(route)).collect();
        (both(&self.v4.stable, &self.v6.stable), both(&self.v4.changing, &self.v6.changing))
    }

    /// Routes of IPv4 and IPv6.
    pub fn counts(&self) -> (usize, usize) {
        (self.v4.stable.len() + self.v4.changing.len(), self.v6.stable.len() + self.v6.changing.len())
    }

    /// This many packets of a family, each to an address whose longest prefix is a stable one.
    pub fn packets(&self, family: u8, count: usize) -> Result<Vec<Frame>> {
        let addresses =
            if family == 6 { self.destinations(&self.v6, count) } else { self.destinations(&self.v4, count) };
        ensure!(
            addresses.len() == count,
            "only {} of {count} random addresses of IPv{family} have a stable route; use a table with more routes",
            addresses.len()
        );
        traffic::frames(&addresses, 0)
    }

    fn destinations<A: Routed>(&self, part: &Part<A>, count: usize) -> Vec<IpAddr> {
        if part.stable.is_empty() {
            return Vec::new();
        }
        let changing = NextHopId(NextHopId::FIRST_FREE + self.next_hops);
        let marked = part.changing.iter().map(|(prefix, _)| (*prefix, changing));
        let ranges = Ranges::of(&part.stable.iter().copied().chain(marked).collect::<Vec<_>>());
        let drawn = Pattern::Routed.addresses(&part.stable, 4 * count, self.seed);
        let stable = |address: &A| address.may_be_forwarded() && ranges.id(*address) != changing.0;
        drawn.into_iter().filter(stable).take(count).map(Address::ip).collect()
    }
}

/// The routes that Linux takes and that are not the bench's own networks.
fn usable<A: Routed>(list: Option<&PrefixList>, draw: Draw) -> Vec<Entry<A>> {
    let own = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64,
        IpAddr::V6(_) => false,
    };
    let mut entries = prefixes::entries::<A>(list, draw.next_hops, draw.seed);
    entries.retain(|(prefix, _)| prefix.len() > 0 && prefix.addr().may_be_forwarded() && !own(prefix.addr().ip()));
    entries
}

/// Separates `changing` random routes from the others.
fn split<A: Family>(mut all: Vec<Entry<A>>, changing: usize, random: &mut Random) -> Part<A> {
    for at in 0..changing {
        let other = at + random.below((all.len() - at) as u32) as usize;
        all.swap(at, other);
    }
    let mut stable = all.split_off(changing);
    // In the order in which a daemon announces and withdraws them.
    stable.sort_unstable_by_key(|(prefix, _)| *prefix);
    all.sort_unstable_by_key(|(prefix, _)| *prefix);
    Part { stable, changing: all }
}

fn route<A: Address>((prefix, id): &Entry<A>) -> Route {
    let (v4, v6) = gateways(id.0 - NextHopId::FIRST_FREE);
    let address = prefix.addr().ip();
    let gateway = if address.is_ipv4() { v4.into() } else { v6.into() };
    Route { address, length: prefix.len(), gateway }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_fib::synth;
    use perigee_net::Prefix;
    use std::collections::HashSet;

    fn small() -> (PrefixList, Table) {
        let v4 = synth::ipv4(20_000, 3).into_iter().map(|(prefix, _)| prefix).collect();
        let v6 = synth::ipv6(4_000, 3).into_iter().map(|(prefix, _)| prefix).collect();
        let list = PrefixList { v4, v6 };
        let table = Table::new(Some(&list), Draw { next_hops: 8, changes: 6_000, seed: 5 }).unwrap();
        (list, table)
    }

    #[test]
    fn every_route_is_in_one_part() {
        let (list, table) = small();
        let (stable, changing) = table.routes();
        assert_eq!(changing.len(), 6_000);
        let of_v4 = changing.iter().filter(|route| route.address.is_ipv4()).count();
        assert!((4_900..5_100).contains(&of_v4), "{of_v4}");
        let all: HashSet<_> = stable.iter().chain(&changing).map(|route| (route.address, route.length)).collect();
        assert_eq!(all.len(), stable.len() + changing.len());
        assert_eq!(table.counts().0 + table.counts().1, all.len());
        assert!(all.len() <= list.v4.len() + list.v6.len() && all.len() > 23_000);
    }

    /// The longest prefix of each destination, found by trying all of them, is a stable one.
    #[test]
    fn packets_go_to_stable_routes() {
        let (_, table) = small();
        let (stable, changing) = table.routes();
        for (family, at) in [(4, 30..34), (6, 38..54)] {
            let packets = table.packets(family, 200).unwrap();
            for packet in packets {
                let bytes = &packet[at.clone()];
                let address: IpAddr = match family {
                    4 => <[u8; 4]>::try_from(bytes).unwrap().into(),
                    _ => <[u8; 16]>::try_from(bytes).unwrap().into(),
                };
                let longest = |routes: &[Route]| {
                    let of = |route: &&Route| {
                        route.address.is_ipv4() == address.is_ipv4()
                            && Prefix::new(route.address, route.length).unwrap().contains(address)
                    };
                    routes.iter().filter(of).map(|route| route.length).max()
                };
                assert!(longest(&stable) > longest(&changing), "{address}");
            }
        }
    }
}
