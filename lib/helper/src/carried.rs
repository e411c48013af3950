// SPDX-License-Identifier: MIT
//! What an interface of Linux carries that is lost once a port takes its packets: addresses of the machine, its default
//! route, and connections, first of all the operator's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::TryStreamExt;
use perigee_net::{InterfaceAddress, is_link_local};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkMessage, Prop};
use rtnetlink::packet_route::route::{RouteAttribute, RouteHeader, RouteMessage};
use rtnetlink::{Handle, RouteMessageBuilder};

use super::client::HelperError;
use super::failure::Failure;
use super::links::{kind, with_netlink};

/// Connections whose ways are looked up; a server may have a million.
const MOST_PEERS: usize = 256;

/// What each of these interfaces carries, in words such as `the address 10.5.0.1/24 of this machine`; nothing, where
/// there is none of that name. `session` is where the operator's own session comes from, if it is known.
///
/// # Errors
/// The kernel does not answer.
pub fn carried(interfaces: &[&str], session: Option<IpAddr>) -> Result<Vec<Vec<String>>, HelperError> {
    let ask = async |netlink: Handle| {
        let all: Vec<LinkMessage> = netlink.link().get().execute().try_collect().await?;
        let stacks = Stacks::new(&all, interfaces);
        let mut found = vec![Vec::new(); interfaces.len()];
        addresses(&netlink, &stacks, &mut found).await?;
        default_routes(&netlink, &stacks, &mut found).await;
        let over = match session {
            Some(peer) => leads_over(&netlink, peer, &stacks).await,
            None => BTreeSet::new(),
        };
        let words = session.map(|peer| format!("the session from {peer} in which this was started"));
        over.iter().for_each(|at| found[*at].extend(words.clone()));
        connections(&netlink, &stacks, (session, &over), &mut found).await;
        Ok(found)
    };
    let failed = |failure: Failure| failure.of("cannot see what the interfaces under ports carry");
    with_netlink(ask).map_err(|failure| HelperError(failed(failure).to_string()))
}

/// Which of the interfaces that are asked about a link belongs to, by its number: it is the interface, or is on top of
/// it, or what it belongs to: VLANs, macvlans, a bridge, a bond.
struct Stacks(BTreeMap<u32, BTreeSet<usize>>);

impl Stacks {
    fn new(all: &[LinkMessage], interfaces: &[&str]) -> Stacks {
        let mut above: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for link in all {
            let own = link.header.index;
            if let Some(below) = below(link) {
                above.entry(below).or_default().push(own);
            }
            let master = link.attributes.iter().find_map(|a| match a {
                LinkAttribute::Controller(master) => Some(*master),
                _ => None,
            });
            above.entry(own).or_default().extend(master);
        }
        let of_link = |link| names(link).map(move |name| (name, link.header.index));
        let named: BTreeMap<&str, u32> = all.iter().flat_map(of_link).collect();
        let mut stacks: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for (at, name) in interfaces.iter().enumerate() {
            let mut left: Vec<u32> = named.get(*name).copied().into_iter().collect();
            while let Some(link) = left.pop() {
                if stacks.entry(link).or_default().insert(at) {
                    left.extend(above.get(&link).into_iter().flatten());
                }
            }
        }
        Stacks(stacks)
    }

    /// The interfaces that a link belongs to.
    fn of(&self, link: u32) -> impl Iterator<Item = usize> {
        self.0.get(&link).into_iter().flatten().copied()
    }
}

/// The names of a link: its own, and those that an administrator or udev has given it besides.
fn names(link: &LinkMessage) -> impl Iterator<Item = &str> {
    link.attributes.iter().flat_map(|a| match a {
        LinkAttribute::IfName(name) => vec![name.as_str()],
        LinkAttribute::PropList(others) => others.iter().filter_map(other_name).collect(),
        _ => Vec::new(),
    })
}

fn other_name(property: &Prop) -> Option<&str> {
    match property {
        Prop::AltIfName(name) => Some(name),
        _ => None,
    }
}

/// The link that this one is on top of; the other end of a cable is none.
fn below(link: &LinkMessage) -> Option<u32> {
    let here = !link.attributes.iter().any(|a| matches!(a, LinkAttribute::LinkNetNsId(_)));
    let below = link.attributes.iter().find_map(|a| match a {
        LinkAttribute::Link(below) => Some(*below),
        _ => None,
    });
    below.filter(|_| here && kind(link) != Some(InfoKind::Veth))
}

async fn addresses(netlink: &Handle, stacks: &Stacks, found: &mut [Vec<String>]) -> Result<(), Failure> {
    let all: Vec<AddressMessage> = netlink.address().get().execute().try_collect().await?;
    for message in all {
        let own = |local: bool| {
            message.attributes.iter().find_map(|a| match a {
                AddressAttribute::Local(address) if local => Some(*address),
                AddressAttribute::Address(address) if !local => Some(*address),
                _ => None,
            })
        };
        let address = own(true).or_else(|| own(false));
        let Some(own) = address.and_then(|own| InterfaceAddress::new(own, message.header.prefix_len).ok()) else {
            continue;
        };
        let local_only = match own.address {
            IpAddr::V4(v4) => v4.is_link_local(),
            v6 => is_link_local(v6),
        };
        for at in stacks.of(message.header.index).filter(|_| !local_only) {
            found[at].push(format!("the address {own} of this machine"));
        }
    }
    Ok(())
}

async fn default_routes(netlink: &Handle, stacks: &Stacks, found: &mut [Vec<String>]) {
    let questions = [
        ("IPv4", RouteMessageBuilder::<Ipv4Addr>::new().build()),
        ("IPv6", RouteMessageBuilder::<Ipv6Addr>::new().build()),
    ];
    for (family, question) in questions {
        // One at a time: a router may have a million routes.
        let mut routes = std::pin::pin!(netlink.route().get(question).execute());
        let mut here = BTreeSet::new();
        // A kernel without the family has none of its routes.
        while let Ok(Some(route)) = routes.try_next().await {
            if is_default(&route) {
                here.extend(leads_out(&route, stacks));
            }
        }
        here.into_iter().for_each(|at| found[at].push(format!("the default route of {family}")));
    }
}

/// TCP connections over each of the interfaces, but for the operator's session over those of which it was said.
async fn connections(
    netlink: &Handle,
    stacks: &Stacks,
    (session, said): (Option<IpAddr>, &BTreeSet<usize>),
    found: &mut [Vec<String>],
) {
    let mut over: BTreeMap<usize, (IpAddr, usize)> = BTreeMap::new();
    for peer in peers().into_iter().take(MOST_PEERS) {
        for at in leads_over(netlink, peer, stacks).await {
            if session != Some(peer) || !said.contains(&at) {
                over.entry(at).or_insert((peer, 0)).1 += 1;
            }
        }
    }
    for (at, (first, count)) in over {
        found[at].push(match count {
            1 => format!("TCP connections with {first}"),
            _ => format!("TCP connections with {first} and {} more", count - 1),
        });
    }
}

fn is_default(route: &RouteMessage) -> bool {
    route.header.destination_prefix_length == 0
        && route.header.table == RouteHeader::RT_TABLE_MAIN
        && matches!(route.header.address_family, AddressFamily::Inet | AddressFamily::Inet6)
}

/// The interfaces that a route leads over.
fn leads_out(route: &RouteMessage, stacks: &Stacks) -> BTreeSet<usize> {
    let ways = route.attributes.iter().flat_map(|a| match a {
        RouteAttribute::Oif(link) => vec![*link],
        RouteAttribute::MultiPath(ways) => ways.iter().map(|way| way.interface_index).collect(),
        _ => Vec::new(),
    });
    ways.flat_map(|link| stacks.of(link)).collect()
}

/// The interfaces over which Linux sends to an address.
async fn leads_over(netlink: &Handle, to: IpAddr, stacks: &Stacks) -> BTreeSet<usize> {
    let question = match to {
        IpAddr::V4(v4) => RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(v4, 32).build(),
        IpAddr::V6(v6) => RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(v6, 128).build(),
    };
    // An error is the answer that there is no way.
    let mut answers = std::pin::pin!(netlink.route().get(question).execute());
    match answers.try_next().await {
        Ok(Some(route)) => leads_out(&route, stacks),
        _ => BTreeSet::new(),
    }
}

/// The other ends of the established TCP connections of this network namespace.
fn peers() -> BTreeSet<IpAddr> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let peers = tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(peer);
    peers.filter(|peer| !peer.is_loopback()).collect()
}

/// The other end of a line of `/proc/net/tcp` or `tcp6`, if the connection is established.
fn peer(line: &str) -> Option<IpAddr> {
    /// `TCP_ESTABLISHED` of the kernel.
    const ESTABLISHED: &str = "01";
    let mut fields = line.split_whitespace();
    let (remote, state) = (fields.nth(2)?, fields.next()?);
    let (address, _) = remote.split_once(':').filter(|_| state == ESTABLISHED)?;
    // Words of 32 bits, each of which this machine has read from the bytes of the network.
    let octets = |at: usize| Some(u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    match address.len() {
        8 => Some(IpAddr::from(octets(0)?)),
        32 => {
            let parts = [octets(0)?, octets(1)?, octets(2)?, octets(3)?].concat();
            Some(IpAddr::from(<[u8; 16]>::try_from(parts).ok()?).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_other_ends_of_connections_are_read() {
        let line = |local: &str, remote: &str, state: &str| {
            peer(&format!("   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000     0        0 1 1"))
        };
        assert_eq!(line("0101000A:0016", "0201000A:C35C", "01"), Some("10.0.1.2".parse().unwrap()));
        assert_eq!(line("0101000A:0016", "0201000A:C35C", "0A"), None, "it listens");
        let six = "B80D0120000000000000000002000000:C35C";
        assert_eq!(line(six, six, "01"), Some("2001:db8::2".parse().unwrap()));
        let mapped = "0000000000000000FFFF00000201000A:C35C";
        assert_eq!(line(mapped, mapped, "01"), Some("10.0.1.2".parse().unwrap()));
        assert_eq!(peer(""), None);
        assert_eq!(line("x", "x", "01"), None);
    }
}
