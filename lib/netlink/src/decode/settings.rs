// SPDX-License-Identifier: MIT
//! Settings of links, and addresses that the machine answers for.

use super::{ip, number, split};
use crate::message::{NetworkSettings, ProxyNeighbor};
use crate::wire::{AF_INET, AF_INET6, Malformed, NEIGHBOR_PROXY};

/// Whether a message about a neighbor is about an address of another station.
pub(super) fn is_proxy(body: &[u8]) -> bool {
    body.get(10).is_some_and(|flags| flags & NEIGHBOR_PROXY != 0)
}

/// struct ndmsg with NTF_PROXY, NDA_DST.
pub(super) fn proxy_neighbor(body: &[u8]) -> Result<Option<ProxyNeighbor>, Malformed> {
    const DESTINATION: u16 = 1;
    const ROUTER: u8 = 0x80;
    let (head, attributes) = split(body, 12)?;
    let (family, link) = (head[0], number(&head[4..])?);
    if family != AF_INET && family != AF_INET6 {
        return Ok(None);
    }
    let mut address = None;
    for attribute in attributes {
        if let (DESTINATION, value) = attribute? {
            address = Some(ip(family, value)?);
        }
    }
    Ok(Some(ProxyNeighbor { link, address: address.ok_or(Malformed)?, router: head[10] & ROUTER != 0 }))
}

/// struct netconfmsg, which is padded to four bytes; NETCONFA_* (linux/netconf.h), each a signed number of four bytes.
pub(super) fn network_settings(body: &[u8]) -> Result<Option<NetworkSettings>, Malformed> {
    const LINK: u16 = 1;
    const FORWARDING: u16 = 2;
    const REVERSE_PATH: u16 = 3;
    const MULTICAST_FORWARDING: u16 = 4;
    const PROXY_NEIGHBORS: u16 = 5;
    const IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;
    const BROADCAST_FORWARDING: u16 = 8;
    let (head, attributes) = split(body, 4)?;
    if head[0] != AF_INET && head[0] != AF_INET6 {
        return Ok(None); // MPLS
    }
    let (mut link, mut settings) = (None, NetworkSettings { v6: head[0] == AF_INET6, ..NetworkSettings::default() });
    for attribute in attributes {
        let (kind, value) = attribute?;
        let value = || number(value);
        let on = || Ok(Some(value()? != 0));
        match kind {
            LINK => link = Some(value()? as i32),
            FORWARDING => settings.forwarding = on()?,
            REVERSE_PATH => settings.reverse_path = Some(u8::try_from(value()?).unwrap_or(u8::MAX)),
            MULTICAST_FORWARDING => settings.multicast_forwarding = on()?,
            PROXY_NEIGHBORS => settings.proxy_neighbors = on()?,
            IGNORE_ROUTES_WITH_LINKDOWN => settings.ignore_routes_with_linkdown = on()?,
            BROADCAST_FORWARDING => settings.broadcast_forwarding = on()?,
            _ => {}
        }
    }
    Ok(Some(NetworkSettings { link: link.ok_or(Malformed)?, ..settings }))
}
