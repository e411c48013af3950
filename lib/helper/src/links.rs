// SPDX-License-Identifier: MIT
//! The helper's changes to Linux's interfaces, inside the namespace of the calling thread.

use std::collections::BTreeSet;
use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Write};

use futures::TryStreamExt;
use perigee_net::InterfaceAddress;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec};

use super::failure::Failure;
use super::message::LinkChange;

/// Sets an interface up or down, its carrier, its MTU, its MAC address, its addresses, if it is one of the changeable
/// ones. One that is gone, by its number, needs nothing. Returns the number of one that was to be deleted, and is not
/// there any more.
pub(super) fn change(change: &LinkChange, changeable: Option<&BTreeSet<u32>>) -> Result<Option<u32>, Failure> {
    let apply = async |netlink: Handle| {
        let index = match change.index {
            Some(index) => index,
            None => find(&netlink, &change.name).await?.header.index,
        };
        let gone = change.index.filter(|_| change.delete);
        if change.index.is_some() && name_of(&netlink, index).await?.is_none() {
            return Ok(gone);
        }
        if changeable.is_some_and(|changeable| !changeable.contains(&index)) {
            return Err("it is no twin of the router's".to_owned().into());
        }
        match change_at(&netlink, index, change).await {
            // At the router's end it goes at any moment.
            Err(_) if change.index.is_some() && name_of(&netlink, index).await?.is_none() => Ok(gone),
            result => result.map(|()| change.delete.then_some(index)),
        }
    };
    with_netlink(apply).map_err(|failure: Failure| failure.of(format_args!("cannot change `{}`", change.name)))
}

async fn change_at(netlink: &Handle, index: u32, change: &LinkChange) -> Result<(), Failure> {
    if change.delete {
        return Ok(netlink.link().del(index).execute().await?);
    }
    for address in &change.remove {
        remove_address(netlink, index, *address).await?;
    }
    for address in &change.add {
        add_address(netlink, index, *address).await?;
    }
    let mut message = LinkUnspec::new_with_index(index);
    if let Some(mtu) = change.mtu {
        message = message.mtu(u32::from(mtu));
    }
    if let Some(mac) = change.mac {
        message = message.address(mac.0.to_vec());
    }
    if let Some(carrier) = change.carrier {
        message = message.carrier(carrier);
    }
    message = match change.up {
        Some(true) => message.up(),
        Some(false) => message.down(),
        None => message,
    };
    set(netlink, message).await
}

/// Those of the interfaces of these numbers that are gone.
pub(super) fn gone(links: &[u32]) -> Result<Vec<u32>, Failure> {
    let look = async |netlink: Handle| {
        let mut gone = Vec::new();
        for index in links {
            if name_of(&netlink, *index).await?.is_none() {
                gone.push(*index);
            }
        }
        Ok(gone)
    };
    with_netlink(look)
}

/// The present name of the interface of this number.
pub(super) async fn name_of(netlink: &Handle, index: u32) -> Result<Option<String>, Failure> {
    let link = match netlink.link().get().match_index(index).execute().try_next().await {
        Err(error) if is_absent(&error) => None,
        result => result?,
    };
    Ok(link.and_then(|link| own_name(&link)))
}

pub(super) fn own_name(link: &LinkMessage) -> Option<String> {
    attribute(link, |a| match a {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })
}

pub(super) fn kind(link: &LinkMessage) -> Option<InfoKind> {
    attribute(link, |a| match a {
        LinkAttribute::LinkInfo(infos) => infos.iter().find_map(|info| match info {
            LinkInfo::Kind(kind) => Some(kind.clone()),
            _ => None,
        }),
        _ => None,
    })
}

/// Runs `work` with a netlink socket of this thread's namespace.
pub(super) fn with_netlink<T, E, F>(work: impl FnOnce(Handle) -> F) -> Result<T, E>
where
    E: From<Failure>,
    F: Future<Output = Result<T, E>>,
{
    let failed = |error: io::Error| Failure::from(error).of("netlink");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(failed)?;
        let pump = tokio::spawn(connection);
        let result = work(handle).await;
        pump.abort();
        result
    })
}

pub(super) async fn find(netlink: &Handle, name: &str) -> Result<LinkMessage, Failure> {
    let mut links = netlink.link().get().match_name(name.to_owned()).execute();
    let none = || format!("there is no interface `{name}`; `ip link` lists those there are");
    match links.try_next().await {
        Ok(link) => link.ok_or_else(|| none().into()),
        Err(error) if is_absent(&error) => Err(none().into()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn is_absent(error: &rtnetlink::Error) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(message) if message.to_io().kind() == io::ErrorKind::NotFound
        || message.to_io().raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()))
}

pub(super) async fn set(netlink: &Handle, message: LinkMessageBuilder<LinkUnspec>) -> Result<(), Failure> {
    Ok(netlink.link().set(message.build()).execute().await?)
}

pub(super) async fn add_address(netlink: &Handle, index: u32, net: InterfaceAddress) -> Result<(), Failure> {
    // One that is there already, as the helper before this one died just after adding it, is no error.
    let mut request = netlink.address().add(index, net.address, net.prefix_len).replace();
    if net.address.is_ipv6() {
        // The router does duplicate address detection; the kernel's would only delay the use of the address.
        request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    request.execute().await.map_err(|error| refused(net, error))
}

/// Removes an address; it is not an error if somebody else has already removed it.
async fn remove_address(netlink: &Handle, index: u32, net: InterfaceAddress) -> Result<(), Failure> {
    let get = netlink.address().get().set_link_index_filter(index).set_address_filter(net.address);
    let found: Vec<_> = get.execute().try_collect().await.map_err(|error| refused(net, error))?;
    for message in found.into_iter().filter(|message| message.header.prefix_len == net.prefix_len) {
        let removed = netlink.address().del(message).execute().await;
        removed.map_err(|error| refused(net, error))?;
    }
    Ok(())
}

fn refused(net: InterfaceAddress, error: rtnetlink::Error) -> Failure {
    Failure::from(error).of(format_args!("the address {net}"))
}

pub(super) fn attribute<T>(link: &LinkMessage, pick: impl Fn(&LinkAttribute) -> Option<T>) -> Option<T> {
    link.attributes.iter().find_map(pick)
}

pub(super) fn setting_path(family: &str, name: &str, key: &str) -> String {
    format!("/proc/sys/net/{family}/conf/{name}/{key}")
}

/// Reads a setting: a number, by one call.
pub(super) fn read_setting(path: &str) -> io::Result<String> {
    let mut text = [0; 64];
    let length = File::open(path)?.read(&mut text)?;
    String::from_utf8(text[..length].to_vec()).map_err(io::Error::other)
}

/// Writes a setting that has another value: a container may have been started with it, where none can be written.
pub(super) fn write_setting(path: &str, value: &str) -> io::Result<()> {
    if read_setting(path).is_ok_and(|there| there.trim() == value.trim()) {
        return Ok(());
    }
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}

/// Writes settings; a family the kernel was built without needs none.
pub(super) fn set_all(name: &str, settings: &[(&str, &str, &str)]) -> Result<(), Failure> {
    for (family, key, value) in settings {
        let path = setting_path(family, name, key);
        match write_setting(&path, value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.map_err(|error| Failure::from(error).of(path))?,
        }
    }
    Ok(())
}
