// SPDX-License-Identifier: MIT
//! What an interface of Linux carries that is lost once a port takes its packets: addresses of the machine, its default route, and
//! connections, first of all the operator's own.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::TryStreamExt;
use perigee_net::{InterfaceAddress, is_link_local};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use rtnetlink::packet_route::route::{RouteAttribute, RouteHeader, RouteMessage};
use rtnetlink::{Handle, RouteMessageBuilder};

use super::client::HelperError;
use super::failure::Failure;
use super::links::{find, with_netlink};

/// Connections whose ways are looked up; a server may have a million.
const MOST_PEERS: usize = 256;

/// What an interface carries, in words such as `the address 10.5.0.1/24 of this machine`. `session` is where the operator's own session
/// comes from, if it is known.
///
/// # Errors
/// There is no such interface, or the kernel does not answer.
pub fn carried(interface: &str, session: Option<IpAddr>) -> Result<Vec<String>, HelperError> {
    let ask = async |netlink: Handle| {
        let links = with_those_above(&netlink, find(&netlink, interface).await?.header.index).await?;
        let mut found: Vec<String> = addresses(&netlink, &links).await?;
        found.extend(default_routes(&netlink, &links).await?);
        let session = match session {
            Some(peer) if leads_over(&netlink, peer, &links).await => Some(peer),
            _ => None,
        };
        found.extend(session.map(|peer| format!("the session from {peer} in which this was started")));
        let (mut count, mut first) = (0, None);
        for peer in peers().into_iter().take(MOST_PEERS).filter(|peer| Some(*peer) != session) {
            if leads_over(&netlink, peer, &links).await {
                count += 1;
                first = first.or(Some(peer));
            }
        }
        found.extend(first.map(|peer| match count {
            1 => format!("TCP connections with {peer}"),
            _ => format!("TCP connections with {peer} and {} more", count - 1),
        }));
        Ok(found)
    };
    let failed = |failure: Failure| failure.of(format_args!("cannot see what the interface `{interface}` carries"));
    with_netlink(ask).map_err(|failure| HelperError(failed(failure).to_string()))
}

/// The interface and those that are on top of it, or that it belongs to: VLANs, macvlans, a bridge, a bond.
async fn with_those_above(netlink: &Handle, index: u32) -> Result<BTreeSet<u32>, Failure> {
    let all: Vec<LinkMessage> = netlink.link().get().execute().try_collect().await?;
    let mut links = BTreeSet::from([index]);
    loop {
        let before = links.len();
        for link in &all {
            let master = link.attributes.iter().find_map(|a| match a {
                LinkAttribute::Controller(master) => Some(*master),
                _ => None,
            });
            if links.contains(&link.header.index) {
                links.extend(master);
            } else if is_above(link, &links) {
                links.insert(link.header.index);
            }
        }
        if links.len() == before {
            return Ok(links);
        }
    }
}

/// Whether a link is on top of one of `links`; the other end of a cable is not.
fn is_above(link: &LinkMessage, links: &BTreeSet<u32>) -> bool {
    let here = !link.attributes.iter().any(|a| matches!(a, LinkAttribute::LinkNetNsId(_)));
    let below = link.attributes.iter().any(|a| matches!(a, LinkAttribute::Link(below) if links.contains(below)));
    let is_cable = |info: &LinkInfo| matches!(info, LinkInfo::Kind(InfoKind::Veth));
    let cable =
        link.attributes.iter().any(|a| matches!(a, LinkAttribute::LinkInfo(infos) if infos.iter().any(is_cable)));
    here && below && !cable
}

async fn addresses(netlink: &Handle, links: &BTreeSet<u32>) -> Result<Vec<String>, Failure> {
    let all: Vec<_> = netlink.address().get().execute().try_collect().await?;
    let of_links = all.into_iter().filter(|message| links.contains(&message.header.index));
    let address = |message: rtnetlink::packet_route::address::AddressMessage| {
        let own = |local: bool| {
            message.attributes.iter().find_map(|a| match a {
                AddressAttribute::Local(address) if local => Some(*address),
                AddressAttribute::Address(address) if !local => Some(*address),
                _ => None,
            })
        };
        InterfaceAddress::new(own(true).or_else(|| own(false))?, message.header.prefix_len).ok()
    };
    let local_only = |own: &InterfaceAddress| match own.address {
        IpAddr::V4(v4) => v4.is_link_local(),
        v6 => is_link_local(v6),
    };
    let own = of_links.filter_map(address).filter(|own| !local_only(own));
    Ok(own.map(|own| format!("the address {own} of this machine")).collect())
}

async fn default_routes(netlink: &Handle, links: &BTreeSet<u32>) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    let questions = [
        ("IPv4", RouteMessageBuilder::<Ipv4Addr>::new().build()),
        ("IPv6", RouteMessageBuilder::<Ipv6Addr>::new().build()),
    ];
    for (family, question) in questions {
        // One at a time: a router may have a million routes.
        let mut routes = std::pin::pin!(netlink.route().get(question).execute());
        let mut is_here = false;
        // A kernel without the family has none of its routes.
        while let Ok(Some(route)) = routes.try_next().await {
            is_here |= is_default(&route) && leads_out(&route, links);
        }
        if is_here {
            found.push(format!("the default route of {family}"));
        }
    }
    Ok(found)
}

fn is_default(route: &RouteMessage) -> bool {
    route.header.destination_prefix_length == 0
        && route.header.table == RouteHeader::RT_TABLE_MAIN
        && matches!(route.header.address_family, AddressFamily::Inet | AddressFamily::Inet6)
}

fn leads_out(route: &RouteMessage, links: &BTreeSet<u32>) -> bool {
    route.attributes.iter().any(|a| match a {
        RouteAttribute::Oif(link) => links.contains(link),
        RouteAttribute::MultiPath(ways) => ways.iter().any(|way| links.contains(&way.interface_index)),
        _ => false,
    })
}

/// Whether Linux sends to an address over one of the links.
async fn leads_over(netlink: &Handle, to: IpAddr, links: &BTreeSet<u32>) -> bool {
    let question = match to {
        IpAddr::V4(v4) => RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(v4, 32).build(),
        IpAddr::V6(v6) => RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(v6, 128).build(),
    };
    // An error is the answer that there is no way.
    let mut answers = std::pin::pin!(netlink.route().get(question).execute());
    matches!(answers.try_next().await, Ok(Some(route)) if leads_out(&route, links))
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
