// SPDX-License-Identifier: MIT
//! The helper's changes to Linux's interfaces, inside the namespace of the calling thread.

use std::collections::BTreeSet;
use std::future::Future;
use std::os::fd::{AsFd, OwnedFd};
use std::{fs, io};

use futures::TryStreamExt;
use perigee_net::{InterfaceAddress, MacAddr};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec};
use serde::{Deserialize, Serialize};
use tun_rs::{DeviceBuilder, Layer};

use super::failure::Failure;
use super::ingress;
use super::message::{LinkChange, LinkPreparation, TwinStatus, TwinWanted};

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

/// Settings that silence the kernel on an interface whose packets belong to a port.
const PORT_SETTINGS: [(&str, &str, &str); 3] =
    [("ipv4", "forwarding", "0"), ("ipv4", "arp_ignore", "8"), ("ipv6", "disable_ipv6", "1")];

/// The same where Linux has no traffic control, by which it gets nothing that comes in ([`ingress`]): it then refuses sources that it would
/// not reach by this interface, and packets for one station in a broadcast frame.
const WITHOUT_INGRESS: [(&str, &str, &str); 2] =
    [("ipv4", "rp_filter", "1"), ("ipv4", "drop_unicast_in_l2_multicast", "1")];

/// The state of a prepared interface before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Undo {
    name: String,
    index: u32,
    was_up: bool,
    was_promiscuous: bool,
    mac: Option<Vec<u8>>,
    mtu: Option<u32>,
    gro: Option<u32>,
    had_ingress: bool,
    settings: Vec<(String, String)>,
}

/// The alias by which a twin is known to be one, when its router has ended and it is still there.
const ALIAS: &str = "perigee twin";

/// Makes a TAP as requested, in the namespace of this thread. If anything fails it vanishes, as its descriptor is closed.
pub(super) fn make_twin(wanted: &TwinWanted) -> Result<(OwnedFd, TwinStatus), Failure> {
    let name = &wanted.name;
    let failed = |failure: Failure| failure.of(format_args!("cannot create the twin `{name}`"));
    if fs::exists(format!("/proc/sys/net/ipv4/conf/{name}")).unwrap_or(false) {
        make_way(name).map_err(failed)?;
    }
    // Not up yet: the kernel would add a link-local address before that is disabled.
    let device = DeviceBuilder::new().name(name.as_str()).layer(Layer::L2).enable(false).build_sync();
    let device = device.map_err(|error| failed(Failure::from(error).of("/dev/net/tun")))?;
    let fd = device.as_fd().try_clone_to_owned().map_err(|error| failed(error.into()))?;
    let setup = async |netlink: Handle| {
        let link = find(&netlink, name).await?;
        let index = link.header.index;
        set_all(name, &TWIN_SETTINGS)?;
        let message = LinkUnspec::new_with_index(index).address(wanted.mac.0.to_vec()).mtu(u32::from(wanted.mtu));
        set(&netlink, message.append_extra_attribute(LinkAttribute::IfAlias(ALIAS.to_owned()))).await?;
        for address in &wanted.addresses {
            add_address(&netlink, index, *address).await?;
        }
        if wanted.up {
            set(&netlink, LinkUnspec::new_with_index(index).up()).await?;
        }
        Ok(index)
    };
    let index = with_netlink(setup).map_err(failed)?;
    Ok((fd, TwinStatus { name: name.clone(), namespace: wanted.namespace.clone(), index }))
}

/// Removes a twin that a router has left behind: it has the alias of one, and nobody holds it.
fn make_way(name: &str) -> Result<(), Failure> {
    let taken = || "an interface of that name is there already; rename it or the port".to_owned().into();
    let look = async |netlink: Handle| find(&netlink, name).await;
    let link = with_netlink(look)?;
    if !is_twin(&link) {
        return Err(taken());
    }
    // The kernel refuses to attach to one that somebody holds.
    let held = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false).build_sync();
    held.map_err(|_| {
        Failure::from("another router has a twin of that name; end that one, or rename the port".to_owned())
    })?;
    tracing::info!("the twin `{name}` was left behind by a router that has ended: it is made again");
    remove_twins(&[(name.to_owned(), link.header.index)])
}

/// Sets an interface up or down, its carrier, its MTU, its MAC address, its addresses, if it is one of the changeable ones. One that is
/// gone, by its number, needs nothing. Returns the number of one that was to be deleted, and is not there any more.
pub(super) fn change(change: &LinkChange, changeable: Option<&BTreeSet<u32>>) -> Result<Option<u32>, Failure> {
    let apply = async |netlink: Handle| {
        let index = match change.index {
            Some(index) if name_of(&netlink, index).await?.is_some() => index,
            Some(_) => return Ok(change.index.filter(|_| change.delete)),
            None => find(&netlink, &change.name).await?.header.index,
        };
        if changeable.is_some_and(|changeable| !changeable.contains(&index)) {
            return Err("it is no twin of the router's".to_owned().into());
        }
        if change.delete {
            netlink.link().del(index).execute().await?;
            return Ok(Some(index));
        }
        for address in &change.remove {
            remove_address(&netlink, index, *address).await?;
        }
        for address in &change.add {
            add_address(&netlink, index, *address).await?;
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
        set(&netlink, message).await.map(|()| None)
    };
    with_netlink(apply).map_err(|failure| failure.of(format_args!("cannot change `{}`", change.name)))
}

/// The MAC address of an interface.
pub(super) fn mac(name: &str) -> Result<MacAddr, Failure> {
    let read = async |netlink: Handle| {
        let link = find(&netlink, name).await?;
        is_ethernet(&link)?;
        let mac = attribute(&link, |a| match a {
            LinkAttribute::Address(mac) => mac.as_slice().try_into().ok().map(MacAddr),
            _ => None,
        });
        mac.ok_or_else(|| "it has no Ethernet address".to_owned().into())
    };
    with_netlink(read).map_err(|failure| failure.of(format_args!("cannot use the interface `{name}`")))
}

/// Refuses interfaces that cannot carry a port, before anything of them is changed.
fn is_ethernet(link: &LinkMessage) -> Result<(), Failure> {
    match link.header.link_layer_type {
        LinkLayerType::Ether => Ok(()),
        LinkLayerType::Loopback => {
            Err("it is Linux's loopback, which leads to no wire; name an Ethernet interface".to_owned().into())
        }
        other => {
            Err(format!("it is no Ethernet interface, but one of type {other:?}; name an Ethernet interface").into())
        }
    }
}

/// How to restore an interface after [`prepare`].
pub(super) fn look(wanted: &LinkPreparation) -> Result<Undo, Failure> {
    let name = &wanted.name;
    let look = async |netlink: Handle| {
        let link = find(&netlink, name).await?;
        is_ethernet(&link)?;
        let mac = attribute(&link, |a| match a {
            LinkAttribute::Address(mac) => Some(mac.clone()),
            _ => None,
        });
        let mtu = attribute(&link, |a| match a {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        Ok(Undo {
            name: name.clone(),
            index: link.header.index,
            was_up: link.header.flags.contains(LinkFlags::Up),
            was_promiscuous: link.header.flags.contains(LinkFlags::Promisc),
            mac: mac.filter(|_| wanted.other_mac.is_some()),
            mtu: mtu.filter(|_| wanted.mtu.is_some()),
            gro: attribute(&link, |a| match a {
                LinkAttribute::GroMaxSize(size) => Some(*size),
                _ => None,
            }),
            // Where Linux has no traffic control, there is none.
            had_ingress: ingress::is_there(&netlink, link.header.index).await.unwrap_or(false),
            settings: current_settings(name),
        })
    };
    with_netlink(look).map_err(|failure| failure.of(format_args!("cannot prepare the interface `{name}`")))
}

/// Prepares the interface under a port.
pub(super) fn prepare(wanted: &LinkPreparation, undo: &Undo) -> Result<(), Failure> {
    let name = &wanted.name;
    let apply = async |netlink: Handle| {
        // Packets that the kernel merged into larger ones than the MTU would be cut off.
        let mut message =
            LinkUnspec::new_with_index(undo.index).up().append_extra_attribute(LinkAttribute::GroMaxSize(1));
        if let Some(mac) = wanted.other_mac {
            message = message.address(mac.0.to_vec());
        }
        if let Some(mtu) = wanted.mtu {
            message = message.mtu(u32::from(mtu));
        }
        // The settings come first: an interface that comes up with IPv6 sends packets immediately.
        let done = match set_all(name, &PORT_SETTINGS) {
            Ok(()) => {
                keep_from_linux(&netlink, undo).await;
                set(&netlink, message).await
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => Ok(()),
            Err(error) => {
                // A half-prepared interface would be worse than none; the first error is the one to report.
                let _ = restore_with(&netlink, undo).await;
                Err(error)
            }
        }
    };
    with_netlink(apply).map_err(|failure| failure.of(format_args!("cannot prepare the interface `{name}`")))
}

/// Linux's own stack gets nothing that comes in by the interface under a port.
async fn keep_from_linux(netlink: &Handle, undo: &Undo) {
    let Err(error) = ingress::close(netlink, undo.index).await else { return };
    let (name, error) = (&undo.name, Failure::from(error));
    let kept = set_all(name, &WITHOUT_INGRESS);
    let rest = match kept {
        Ok(()) => "broadcasts from no address, such as DHCP's, reach Linux by it, past the router's filters".to_owned(),
        Err(why) => format!(
            "what is sent to its own MAC address, and broadcasts, reach Linux past the router's filters ({why})"
        ),
    };
    tracing::warn!(
        "Linux's traffic control refuses to close {name} to Linux itself ({error}): {rest}; it needs sch_ingress and cls_bpf"
    );
}

impl Undo {
    /// That of an interface of which nothing but its name and number is known: for [`crate::rehearsal`].
    #[doc(hidden)]
    pub fn of_nothing(name: &str, index: u32) -> Undo {
        let name = name.to_owned();
        Undo {
            name,
            index,
            was_up: false,
            was_promiscuous: false,
            mac: None,
            mtu: None,
            gro: None,
            settings: vec![],
            had_ingress: false,
        }
    }

    /// Linux's number of the interface, which stays when it is renamed.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The same, of an interface that has another name now.
    fn renamed(&self, name: String) -> Undo {
        let (old, new) = (format!("/conf/{}/", self.name), format!("/conf/{name}/"));
        let settings = self.settings.iter().map(|(path, value)| (path.replace(&old, &new), value.clone())).collect();
        Undo { name, settings, ..self.clone() }
    }

    /// The same, and how to restore what was not to be changed when this was written, and is now: as `newer` has it.
    pub(super) fn and(&self, newer: &Undo) -> Undo {
        let (mac, mtu) = (self.mac.clone().or_else(|| newer.mac.clone()), self.mtu.or(newer.mtu));
        Undo { mac, mtu, ..self.clone() }
    }

    /// Whether it is about another interface that had the name which `newer`'s has: one that is gone, or has another name now.
    pub(super) fn had_the_name_of(&self, newer: &Undo) -> bool {
        self.name == newer.name && self.index != newer.index
    }
}

/// Restores an interface, whatever its name is now. One that is gone needs nothing.
pub(super) fn restore(undo: &Undo) -> Result<(), Failure> {
    let restore = async |netlink: Handle| match name_of(&netlink, undo.index).await? {
        Some(name) => restore_with(&netlink, &undo.renamed(name)).await,
        None => Ok(()),
    };
    with_netlink(restore).map_err(|failure| failure.of(format_args!("cannot restore the interface `{}`", undo.name)))
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
async fn name_of(netlink: &Handle, index: u32) -> Result<Option<String>, Failure> {
    let link = match netlink.link().get().match_index(index).execute().try_next().await {
        Err(error) if is_absent(&error) => None,
        result => result?,
    };
    Ok(link.and_then(|link| own_name(&link)))
}

fn own_name(link: &LinkMessage) -> Option<String> {
    attribute(link, |a| match a {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })
}

/// Each change is a message of its own: one that is refused does not take the others along. The first refusal is reported.
async fn restore_with(netlink: &Handle, undo: &Undo) -> Result<(), Failure> {
    let message = || LinkUnspec::new_with_index(undo.index);
    let mut changes = Vec::new();
    if !undo.was_up {
        changes.push(message().down());
    }
    // DPDK makes an interface promiscuous and leaves it so.
    changes.push(message().promiscuous(undo.was_promiscuous));
    changes.extend(undo.mac.clone().map(|mac| message().address(mac)));
    changes.extend(undo.mtu.map(|mtu| message().mtu(mtu)));
    changes.extend(undo.gro.map(|gro| message().append_extra_attribute(LinkAttribute::GroMaxSize(gro))));
    let mut result = Ok(());
    for change in changes {
        result = result.and(set(netlink, change).await);
    }
    result = result.and(ingress::open(netlink, undo.index, undo.had_ingress).await.map_err(Failure::from));
    // Last: an interface that has IPv6 again makes an address of its MAC address at once.
    for (path, value) in &undo.settings {
        result = result.and(write_setting(path, value).map_err(|error| Failure::from(error).of(path)));
    }
    result
}

/// Removes interfaces by their names and numbers: twins, and VLANs on them. They vanish with the router, unless it had them stay; one that is
/// gone needs nothing. The kernel may have given the number to another one, which is left alone: a twin has its alias, a VLAN its name.
pub(super) fn remove_twins(links: &[(String, u32)]) -> Result<(), Failure> {
    let remove = async |netlink: Handle| {
        let mut result = Ok(());
        for (name, index) in links {
            let found = match netlink.link().get().match_index(*index).execute().try_next().await {
                Err(error) if is_absent(&error) => None,
                found => found?,
            };
            let is_vlan =
                |link: &LinkMessage| kind(link) == Some(InfoKind::Vlan) && own_name(link).as_ref() == Some(name);
            if found.is_some_and(|link| is_twin(&link) || is_vlan(&link)) {
                result = match netlink.link().del(*index).execute().await {
                    Err(error) if !is_absent(&error) => result.and(Err(error.into())),
                    _ => result,
                };
            }
        }
        result
    };
    with_netlink(remove).map_err(|failure| failure.of("cannot remove the router's twins"))
}

/// Whether it is a twin, of whichever router.
fn is_twin(link: &LinkMessage) -> bool {
    let alias = attribute(link, |a| match a {
        LinkAttribute::IfAlias(alias) => Some(alias.clone()),
        _ => None,
    });
    kind(link) == Some(InfoKind::Tun) && alias.as_deref() == Some(ALIAS)
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
pub(super) fn with_netlink<T, F>(work: impl FnOnce(Handle) -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    runtime?.block_on(async {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|error| Failure::from(error).of("netlink"))?;
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

fn is_absent(error: &rtnetlink::Error) -> bool {
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

fn attribute<T>(link: &LinkMessage, pick: impl Fn(&LinkAttribute) -> Option<T>) -> Option<T> {
    link.attributes.iter().find_map(pick)
}

fn setting_path(family: &str, name: &str, key: &str) -> String {
    format!("/proc/sys/net/{family}/conf/{name}/{key}")
}

/// Writes a setting that has another value: a container may have been started with it, where none can be written.
fn write_setting(path: &str, value: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there.trim() == value.trim()) {
        return Ok(());
    }
    fs::write(path, value)
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

/// What [`PORT_SETTINGS`] and [`WITHOUT_INGRESS`] may overwrite.
fn current_settings(name: &str) -> Vec<(String, String)> {
    let paths = PORT_SETTINGS.iter().chain(&WITHOUT_INGRESS).map(|(family, key, _)| setting_path(family, name, key));
    paths.filter_map(|path| fs::read_to_string(&path).ok().map(|value| (path, value))).collect()
}
