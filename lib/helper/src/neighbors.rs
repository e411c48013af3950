// SPDX-License-Identifier: MIT
//! The router's neighbors and VLANs in Linux, inside the namespace of the calling thread.

use std::collections::BTreeSet;
use std::net::IpAddr;

use futures::{StreamExt, TryStreamExt};
use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourState};
use rtnetlink::packet_route::route::RouteProtocol;
use rtnetlink::{Handle, LinkUnspec, LinkVlan};

use super::failure::Failure;
use super::links::{add_address, find, set, set_all, with_netlink};
use super::message::{NeighborChange, PROTOCOL, TwinWanted};
use super::twins::TWIN_SETTINGS;

/// Sets and removes entries of Linux's neighbor table, on changeable links and VLANs on them. Continues after a
/// refusal; the first one is the error.
pub(super) fn change(neighbors: &[NeighborChange], changeable: Option<&BTreeSet<u32>>) -> Result<(), Failure> {
    let apply = async |netlink: Handle| {
        let mut result = Ok(());
        let mut known = changeable.cloned();
        for neighbor in neighbors {
            if let Some(known) = &mut known
                && !known.contains(&neighbor.link)
            {
                if !is_on(&netlink, neighbor.link, known).await {
                    let refusal = format!("the interface {} is no twin of the router's", neighbor.link);
                    result = result.and(Err(refusal.into()));
                    continue;
                }
                known.insert(neighbor.link);
            }
            let done = match neighbor.mac {
                Some(_) => set_neighbor(&netlink, neighbor).await,
                None => remove_neighbor(&netlink, neighbor).await,
            };
            let describe = |error: rtnetlink::Error| {
                Failure::from(error).of(format_args!("Linux does not take {} as a neighbor", neighbor.address))
            };
            result = result.and(done.map_err(describe));
        }
        result
    };
    with_netlink(apply)
}

/// Has Linux ask neighbors that it knows, on interfaces of these names and VLANs on them (NTF_USE). Continues after a
/// refusal; the first one is the error.
pub(super) fn confirm(neighbors: &[(u32, IpAddr)], interfaces: &BTreeSet<String>) -> Result<(), Failure> {
    let ask = async |netlink: Handle| {
        let (mut result, mut known) = (Ok(()), BTreeSet::new());
        for name in interfaces {
            // One may be gone.
            known.extend(find(&netlink, name).await.ok().map(|link| link.header.index));
        }
        for (link, address) in neighbors {
            if !known.contains(link) && !is_on(&netlink, *link, &known).await {
                result = result.and(Err(format!("the interface {link} is no port of the router's").into()));
                continue;
            }
            known.insert(*link);
            let describe = |error: rtnetlink::Error| {
                Failure::from(error).of(format_args!("Linux does not ask the neighbor {address}"))
            };
            result = result.and(confirm_neighbor(&netlink, *link, *address).await.map_err(describe));
        }
        result
    };
    with_netlink(ask)
}

async fn confirm_neighbor(netlink: &Handle, link: u32, address: IpAddr) -> Result<(), rtnetlink::Error> {
    let mut wanted = netlink.neighbours().add(link, address).state(NeighbourState::None).flags(NeighbourFlags::Use);
    let message = std::mem::take(wanted.message_mut());
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::NewNeighbour(message));
    // Not to be created: an address that Linux does not know is not asked for.
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK;
    let mut answers = netlink.clone().request(request)?;
    let mut result = Ok(());
    while let Some(answer) = answers.next().await {
        if let NetlinkPayload::Error(refusal) = answer.payload {
            result = Err(rtnetlink::Error::NetlinkError(refusal));
        }
    }
    absent_is_fine(result)
}

/// Whether a link, a VLAN of an operator's say, is on top of one of `links`, in the same namespace; one that is gone
/// does no harm.
async fn is_on(netlink: &Handle, link: u32, links: &BTreeSet<u32>) -> bool {
    let found = netlink.link().get().match_index(link).execute().try_next().await;
    let found = match found {
        Ok(Some(found)) => found,
        Ok(None) => return true,
        Err(error) => return absent_is_fine(Err(error)).is_ok(),
    };
    let elsewhere = found.attributes.iter().any(|a| matches!(a, LinkAttribute::LinkNetNsId(_)));
    !elsewhere && found.attributes.iter().any(|a| matches!(a, LinkAttribute::Link(below) if links.contains(below)))
}

async fn set_neighbor(netlink: &Handle, neighbor: &NeighborChange) -> Result<(), rtnetlink::Error> {
    let mac = neighbor.mac.map(|mac| mac.0.to_vec()).unwrap_or_default();
    // Reachable, as the router has just heard from it; Linux itself asks again when it has not used it for a while.
    let mut request = netlink
        .neighbours()
        .add(neighbor.link, neighbor.address)
        .link_layer_address(&mac)
        .state(NeighbourState::Reachable)
        .flags(NeighbourFlags::ExtLearned)
        .replace();
    request.message_mut().attributes.push(NeighbourAttribute::Protocol(RouteProtocol::Other(PROTOCOL)));
    absent_is_fine(request.execute().await)
}

async fn remove_neighbor(netlink: &Handle, neighbor: &NeighborChange) -> Result<(), rtnetlink::Error> {
    let mut request = netlink.neighbours().add(neighbor.link, neighbor.address);
    let message = std::mem::take(request.message_mut());
    absent_is_fine(netlink.neighbours().del(message).execute().await)
}

/// The entry, or the whole twin, may be gone by now.
fn absent_is_fine(result: Result<(), rtnetlink::Error>) -> Result<(), rtnetlink::Error> {
    use rustix::io::Errno;
    match &result {
        Err(rtnetlink::Error::NetlinkError(message)) => {
            match message.to_io().raw_os_error().map(Errno::from_raw_os_error) {
                // A twin that is down has no neighbors.
                Some(Errno::NODEV | Errno::NOENT | Errno::NETDOWN) => Ok(()),
                _ => result,
            }
        }
        _ => result,
    }
}

/// A VLAN interface on a twin, if it is one of the changeable ones, with addresses; returns its number.
pub(super) fn make_vlan(
    on: &str,
    vlan: u16,
    wanted: &TwinWanted,
    changeable: Option<&BTreeSet<u32>>,
) -> Result<u32, Failure> {
    let name = &wanted.name;
    let setup = async |netlink: Handle| {
        let below = find(&netlink, on).await?.header.index;
        if changeable.is_some_and(|changeable| !changeable.contains(&below)) {
            return Err(format!("{on} is no twin of the router's").into());
        }
        netlink.link().add(LinkVlan::new(name, below, vlan).build()).execute().await?;
        let index = find(&netlink, name).await?.header.index;
        set_all(name, &TWIN_SETTINGS)?;
        set(&netlink, LinkUnspec::new_with_index(index).mtu(u32::from(wanted.mtu))).await?;
        for address in &wanted.addresses {
            add_address(&netlink, index, *address).await?;
        }
        set(&netlink, LinkUnspec::new_with_index(index).up()).await?;
        Ok(index)
    };
    with_netlink(setup)
        .map_err(|failure: Failure| failure.of(format_args!("cannot create the VLAN interface `{name}`")))
}
