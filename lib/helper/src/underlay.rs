// SPDX-License-Identifier: MIT
//! The interfaces under ports, inside the namespace of the calling thread: how they are prepared, and restored. Many
//! share a netlink socket.

use perigee_net::MacAddr;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage, LinkXdp, XdpAttached};
use rtnetlink::{Handle, LinkUnspec};
use serde::{Deserialize, Serialize};

use super::failure::{Failure, Refusal};
use super::links::{attribute, find, name_of, read_setting, set, set_all, setting_path, with_netlink, write_setting};
use super::message::LinkPreparation;

/// Settings that silence the kernel on an interface whose packets belong to a port. Linux takes frames for the
/// interface's own MAC address, and broadcasts, for its own, as an address on a twin is an address of the machine,
/// whatever interface a packet comes in by: so it refuses sources that it does not reach by this interface, which are
/// all of them, and packets for one station in a broadcast frame.
const PORT_SETTINGS: [(&str, &str, &str); 5] = [
    ("ipv4", "forwarding", "0"),
    ("ipv4", "arp_ignore", "8"),
    ("ipv4", "rp_filter", "1"),
    ("ipv4", "drop_unicast_in_l2_multicast", "1"),
    ("ipv6", "disable_ipv6", "1"),
];

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
    /// Whether an XDP program that it has at the end is the driver's of its port.
    leaves_program: bool,
    settings: Vec<(String, String)>,
}

/// The MAC addresses of interfaces, one after the other; `done` says whether to go on.
pub(super) fn macs(names: &[String], done: &mut dyn FnMut(MacAddr) -> bool) -> Result<(), Refusal> {
    let read = async |netlink: Handle| {
        for (at, name) in names.iter().enumerate() {
            let failed = |failure: Failure| failure.of(format_args!("cannot use the interface `{name}`")).at(at);
            if !done(mac(&netlink, name).await.map_err(failed)?) {
                break;
            }
        }
        Ok(())
    };
    with_netlink(read)
}

async fn mac(netlink: &Handle, name: &str) -> Result<MacAddr, Failure> {
    let link = find(netlink, name).await?;
    is_ethernet(&link)?;
    let mac = attribute(&link, |a| match a {
        LinkAttribute::Address(mac) => mac.as_slice().try_into().ok().map(MacAddr),
        _ => None,
    });
    mac.ok_or_else(|| "it has no Ethernet address".to_owned().into())
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

/// How to restore interfaces after [`prepare`], one after the other; `found` says whether to go on. Nothing is changed.
pub(super) fn look(wanted: &[LinkPreparation], found: &mut dyn FnMut(Undo) -> bool) -> Result<(), Refusal> {
    let look = async |netlink: Handle| {
        for (at, wanted) in wanted.iter().enumerate() {
            let failed = |failure: Failure| cannot_prepare(failure, wanted).at(at);
            if !found(look_at(&netlink, wanted).await.map_err(failed)?) {
                break;
            }
        }
        Ok(())
    };
    with_netlink(look)
}

fn cannot_prepare(failure: Failure, wanted: &LinkPreparation) -> Failure {
    failure.of(format_args!("cannot prepare the interface `{}`", wanted.name))
}

async fn look_at(netlink: &Handle, wanted: &LinkPreparation) -> Result<Undo, Failure> {
    let name = &wanted.name;
    let link = find(netlink, name).await?;
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
        leaves_program: wanted.leaves_program && program_mode(&link).is_none(),
        settings: current_settings(name),
    })
}

/// Prepares interfaces under ports, one after the other; `done` says whether to go on.
pub(super) fn prepare(wanted: &[(LinkPreparation, Undo)], done: &mut dyn FnMut(()) -> bool) -> Result<(), Refusal> {
    let apply = async |netlink: Handle| {
        for (at, (wanted, undo)) in wanted.iter().enumerate() {
            let failed = |failure: Failure| cannot_prepare(failure, wanted).at(at);
            prepare_one(&netlink, wanted, undo).await.map_err(failed)?;
            if !done(()) {
                break;
            }
        }
        Ok(())
    };
    with_netlink(apply)
}

async fn prepare_one(netlink: &Handle, wanted: &LinkPreparation, undo: &Undo) -> Result<(), Failure> {
    // Packets that the kernel merged into larger ones than the MTU would be cut off.
    let mut message = LinkUnspec::new_with_index(undo.index).up().append_extra_attribute(LinkAttribute::GroMaxSize(1));
    if let Some(mac) = wanted.other_mac {
        message = message.address(mac.0.to_vec());
    }
    if let Some(mtu) = wanted.mtu {
        message = message.mtu(u32::from(mtu));
    }
    // The settings come first: an interface that comes up with IPv6 sends packets immediately.
    let done = match set_all(&wanted.name, &PORT_SETTINGS) {
        Ok(()) => set(netlink, message).await,
        Err(error) => Err(error),
    };
    if done.is_err() {
        // A half-prepared interface would be worse than none; the first error is the one to report.
        let _ = restore_with(netlink, undo).await;
    }
    done
}

impl Undo {
    /// That of an interface of which nothing but its name and number is known: for [`crate::rehearsal`].
    #[doc(hidden)]
    pub fn of_nothing(name: &str, index: u32) -> Undo {
        let (name, settings) = (name.to_owned(), Vec::new());
        Undo {
            name,
            index,
            was_up: false,
            was_promiscuous: false,
            mac: None,
            mtu: None,
            gro: None,
            leaves_program: false,
            settings,
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
        Undo { mac, mtu, leaves_program: self.leaves_program || newer.leaves_program, ..self.clone() }
    }

    /// Whether it is about another interface that had the name which `newer`'s has: one that is gone, or has another
    /// name now.
    pub(super) fn had_the_name_of(&self, newer: &Undo) -> bool {
        self.name == newer.name && self.index != newer.index
    }
}

/// Those whose interface still has its number and its name.
pub(super) fn still_there(all: Vec<Undo>) -> Result<Vec<Undo>, Failure> {
    let look = async |netlink: Handle| {
        let mut left = Vec::new();
        for undo in all {
            if name_of(&netlink, undo.index).await?.as_ref() == Some(&undo.name) {
                left.push(undo);
            }
        }
        Ok(left)
    };
    with_netlink(look)
}

/// Restores interfaces, whatever their names are now, one after the other: what the kernel does to an interface it does
/// under a lock, which several threads would only hand around. Each is `done` as soon as it is. One that is gone needs
/// nothing.
pub(super) fn restore(undo: &[Undo], mut done: impl FnMut(Result<(), Failure>)) -> Result<(), Failure> {
    let restore = async |netlink: Handle| {
        for undo in undo {
            let failed = |failure: Failure| failure.of(format_args!("cannot restore the interface `{}`", undo.name));
            done(restore_one(&netlink, undo).await.map_err(failed));
        }
        Ok(())
    };
    with_netlink(restore)
}

async fn restore_one(netlink: &Handle, undo: &Undo) -> Result<(), Failure> {
    match name_of(netlink, undo.index).await? {
        Some(name) => restore_with(netlink, &undo.renamed(name)).await,
        None => Ok(()),
    }
}

/// Each change is a message of its own: one that is refused does not take the others along. The first refusal is
/// reported.
async fn restore_with(netlink: &Handle, undo: &Undo) -> Result<(), Failure> {
    let message = || LinkUnspec::new_with_index(undo.index);
    let mut changes = Vec::new();
    if !undo.was_up {
        changes.push(message().down());
    }
    // DPDK makes an interface promiscuous and leaves it so.
    changes.push(message().promiscuous(undo.was_promiscuous));
    let mut result = Ok(());
    if undo.leaves_program {
        match find(netlink, &undo.name).await {
            Ok(link) => changes.extend(program_mode(&link).map(|mode| {
                let none = LinkAttribute::Xdp(vec![LinkXdp::Fd(NO_PROGRAM), LinkXdp::Flags(mode)]);
                message().append_extra_attribute(none)
            })),
            Err(error) => result = Err(error),
        }
    }
    changes.extend(undo.mac.clone().map(|mac| message().address(mac)));
    changes.extend(undo.mtu.map(|mtu| message().mtu(mtu)));
    changes.extend(undo.gro.map(|gro| message().append_extra_attribute(LinkAttribute::GroMaxSize(gro))));
    for change in changes {
        result = result.and(set(netlink, change).await);
    }
    // Last: an interface that has IPv6 again makes an address of its MAC address at once.
    for (path, value) in &undo.settings {
        result = result.and(write_setting(path, value).map_err(|error| Failure::from(error).of(path)));
    }
    result
}

/// Instead of a program's descriptor: the interface is to have none (IFLA_XDP_FD).
const NO_PROGRAM: i32 = -1;

/// How an interface's XDP program is attached: XDP_FLAGS_SKB_MODE or XDP_FLAGS_DRV_MODE of linux/if_link.h; `None`
/// without one.
fn program_mode(link: &LinkMessage) -> Option<u32> {
    let attached = attribute(link, |a| match a {
        LinkAttribute::Xdp(of) => of.iter().find_map(|xdp| match xdp {
            LinkXdp::Attached(attached) => Some(*attached),
            _ => None,
        }),
        _ => None,
    })?;
    match attached {
        XdpAttached::Driver => Some(1 << 2),
        XdpAttached::SocketBuffer => Some(1 << 1),
        _ => None,
    }
}

/// What [`PORT_SETTINGS`] will overwrite.
fn current_settings(name: &str) -> Vec<(String, String)> {
    let paths = PORT_SETTINGS.iter().map(|(family, key, _)| setting_path(family, name, key));
    paths.filter_map(|path| read_setting(&path).ok().map(|value| (path, value))).collect()
}
