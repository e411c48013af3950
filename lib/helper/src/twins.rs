// SPDX-License-Identifier: MIT
//! Twins in Linux, inside the namespace of the calling thread: how they are made, and removed. Many share a netlink
//! socket.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};

use futures::TryStreamExt;
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkMessage};
use rtnetlink::{Handle, LinkUnspec};
use tun_rs::{DeviceBuilder, Layer};

use super::failure::{Failure, Refusal};
use super::links::{add_address, attribute, find, is_absent, kind, own_name, set, set_all, with_netlink};
use super::message::{TwinStatus, TwinWanted};

/// Settings below `/proc/sys/net/FAMILY/conf/NAME` that make the kernel a mere host on the twin: the router alone
/// forwards, answers ARP, and decides which addresses there are.
pub(super) const TWIN_SETTINGS: [(&str, &str, &str); 9] = [
    ("ipv4", "forwarding", "0"),
    ("ipv4", "rp_filter", "0"),
    ("ipv4", "arp_ignore", "8"),
    ("ipv6", "forwarding", "0"),
    ("ipv6", "accept_ra", "0"),
    ("ipv6", "keep_addr_on_down", "1"), // as IPv4 does by itself
    ("ipv6", "accept_dad", "0"),
    ("ipv6", "dad_transmits", "0"),
    ("ipv6", "addr_gen_mode", "1"), // none: no link-local address that the router does not know
];

/// From how many on twins are removed together: fewer are not worth a look at all interfaces.
const MANY: usize = 8;

/// The alias by which a twin is known to be one, when its router has ended and it is still there.
const ALIAS: &str = "perigee twin";

/// Makes TAPs as requested, one after the other, in the namespace of this thread; `done` says whether to go on. If
/// anything of one fails it vanishes, as its descriptor is closed.
pub(super) fn make(wanted: &[TwinWanted], done: &mut dyn FnMut((OwnedFd, TwinStatus)) -> bool) -> Result<(), Refusal> {
    let make = async |netlink: Handle| {
        for (at, wanted) in wanted.iter().enumerate() {
            let failed = |failure: Failure| failure.of(format_args!("cannot create the twin `{}`", wanted.name)).at(at);
            if !done(make_one(&netlink, wanted).await.map_err(failed)?) {
                break;
            }
        }
        Ok(())
    };
    with_netlink(make)
}

async fn make_one(netlink: &Handle, wanted: &TwinWanted) -> Result<(OwnedFd, TwinStatus), Failure> {
    let name = &wanted.name;
    if fs::exists(format!("/proc/sys/net/ipv4/conf/{name}")).unwrap_or(false) {
        make_way(netlink, name).await?;
    }
    // Not up yet: the kernel would add a link-local address before that is disabled.
    let device = DeviceBuilder::new().name(name.as_str()).layer(Layer::L2).enable(false).build_sync();
    let device = device.map_err(|error| Failure::from(error).of("/dev/net/tun"))?;
    let fd = device.as_fd().try_clone_to_owned()?;
    let index = find(netlink, name).await?.header.index;
    set_all(name, &TWIN_SETTINGS)?;
    let message = LinkUnspec::new_with_index(index).address(wanted.mac.0.to_vec()).mtu(u32::from(wanted.mtu));
    set(netlink, message.append_extra_attribute(LinkAttribute::IfAlias(ALIAS.to_owned()))).await?;
    for address in &wanted.addresses {
        add_address(netlink, index, *address).await?;
    }
    if wanted.up {
        set(netlink, LinkUnspec::new_with_index(index).up()).await?;
    }
    Ok((fd, TwinStatus { name: name.clone(), namespace: wanted.namespace.clone(), index }))
}

/// Removes a twin that a router has left behind: it has the alias of one, and nobody holds it.
async fn make_way(netlink: &Handle, name: &str) -> Result<(), Failure> {
    let link = find(netlink, name).await?;
    if !is_twin(&link) {
        return Err("an interface of that name is there already; rename it or the port".to_owned().into());
    }
    // The kernel refuses to attach to one that somebody holds.
    let held = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false).build_sync();
    held.map_err(|_| {
        Failure::from("another router has a twin of that name; end that one, or rename the port".to_owned())
    })?;
    tracing::info!("the twin `{name}` was left behind by a router that has ended: it is made again");
    remove_all(netlink, &[(name.to_owned(), link.header.index)]).await
}

/// Removes interfaces by their names and numbers: twins, and VLANs on them. They vanish with the router, unless it had
/// them stay.
pub(super) fn remove(links: &[(String, u32)]) -> Result<(), Failure> {
    let remove = async |netlink: Handle| remove_all(&netlink, links).await;
    with_netlink(remove).map_err(|failure: Failure| failure.of("cannot remove the router's twins"))
}

/// One that is gone needs nothing. The kernel may have given its number to another one, which is left alone: a twin has
/// its alias, a VLAN its name.
async fn remove_all(netlink: &Handle, links: &[(String, u32)]) -> Result<(), Failure> {
    if links.len() >= MANY
        && let Err(error) = remove_as_group(netlink, links).await
    {
        tracing::debug!("the twins cannot be removed together: {error}");
    }
    let mut result = Ok(());
    for (name, index) in links {
        let found = match netlink.link().get().match_index(*index).execute().try_next().await {
            Err(error) if is_absent(&error) => None,
            found => found?,
        };
        let is_vlan = |link: &LinkMessage| kind(link) == Some(InfoKind::Vlan) && own_name(link).as_ref() == Some(name);
        if found.is_some_and(|link| is_twin(&link) || is_vlan(&link)) {
            result = match netlink.link().del(*index).execute().await {
                Err(error) if !is_absent(&error) => result.and(Err(error.into())),
                _ => result,
            };
        }
    }
    result
}

/// Removes twins by one message, about a group that nothing else is in: the kernel waits for all cores once instead of
/// once with each.
async fn remove_as_group(netlink: &Handle, links: &[(String, u32)]) -> Result<(), Failure> {
    let own: BTreeSet<u32> = links.iter().map(|(_, index)| *index).collect();
    let all: Vec<LinkMessage> = netlink.link().get().execute().try_collect().await?;
    let group = unused_group(&all);
    for link in all.iter().filter(|link| own.contains(&link.header.index) && is_twin(link)) {
        let message = LinkUnspec::new_with_index(link.header.index);
        let moved = netlink.link().set(message.append_extra_attribute(LinkAttribute::Group(group)).build());
        match moved.execute().await {
            Err(error) if !is_absent(&error) => return Err(error.into()),
            _ => {}
        }
    }
    // Not of one interface.
    let mut removal = netlink.link().del(0);
    removal.message_mut().attributes.push(LinkAttribute::Group(group));
    match removal.execute().await {
        Err(error) if !is_absent(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The number of a group (`ip link show group`) that no interface is in, and that nobody else chooses.
fn unused_group(all: &[LinkMessage]) -> u32 {
    let group = |link: &LinkMessage| {
        attribute(link, |a| match a {
            LinkAttribute::Group(group) => Some(*group),
            _ => None,
        })
    };
    let used: BTreeSet<u32> = all.iter().filter_map(group).collect();
    let random = || RandomState::new().build_hasher().finish() as u32 | 1 << 31;
    let mut chosen = random();
    while used.contains(&chosen) {
        chosen = random();
    }
    chosen
}

/// Whether it is a twin, of whichever router.
fn is_twin(link: &LinkMessage) -> bool {
    let alias = attribute(link, |a| match a {
        LinkAttribute::IfAlias(alias) => Some(alias.clone()),
        _ => None,
    });
    kind(link) == Some(InfoKind::Tun) && alias.as_deref() == Some(ALIAS)
}
