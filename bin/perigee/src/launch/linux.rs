// SPDX-License-Identifier: MIT
//! The router's side in Linux: twins, VLANs on them, and the feeds by which it follows what happens there.

use super::ports::Opened;
use super::start::Start;
use anyhow::{Context as _, Result};
use perigee_config as config;
use perigee_config::{Config, FpmAddress, FpmGuest, Stack};
use perigee_helper::twin::Twin;
use perigee_helper::{Helper, SocketFile, SocketWanted, TwinStatus, TwinWanted, open_links, open_plain, privileges};
use perigee_net::{InterfaceAddress, MacAddr};
use perigee_netlink::fpm::{self, Door, Guests};
use perigee_netlink::{KernelStatistics, Scope, follow};
use perigee_router::{Below, LinuxFeeds, Mailbox};

/// Makes a twin for each port that should have one, many at a time.
pub(super) fn make_twins(config: &Config, opened: &Opened, start: &Start) -> Result<Vec<Option<(Twin, TwinStatus)>>> {
    let mut twins: Vec<Option<(Twin, TwinStatus)>> = config.ports.iter().map(|_| None).collect();
    let Some(helper) = &opened.helper else { return Ok(twins) };
    let wanted = |(index, port): (usize, &config::Port)| TwinWanted {
        name: port.name.clone(),
        mac: opened.infos[index].mac,
        mtu: port.mtu,
        namespace: config.router.namespace.clone(),
        addresses: with_link_local(&config.interfaces[index].addresses, opened.infos[index].mac, port.mtu),
        up: true,
    };
    let ports: Vec<(usize, &config::Port)> = config.ports.iter().enumerate().filter(|(_, port)| port.twin).collect();
    for part in ports.chunks(perigee_helper::AT_ONCE) {
        start.step()?;
        let wanted: Vec<TwinWanted> = part.iter().copied().map(wanted).collect();
        for ((index, _), twin) in part.iter().zip(helper.make_twins(&wanted)?) {
            twins[*index] = Some(twin);
        }
    }
    Ok(twins)
}

/// The addresses, with the link-local one that the slow path speaks from: routing daemons need one, too.
fn with_link_local(addresses: &[InterfaceAddress], mac: MacAddr, mtu: u16) -> Vec<InterfaceAddress> {
    addresses.iter().copied().chain(perigee_router::missing_link_local(addresses, mac, mtu)).collect()
}

/// The VLANs of the configuration, as Linux's own VLAN interfaces on the twins. A kernel without VLAN devices gets
/// none.
pub(super) fn make_vlans(config: &Config, opened: &Opened) {
    let Some(helper) = &opened.helper else { return };
    for interface in &config.interfaces {
        let (port, info) = (&config.ports[usize::from(interface.port)], &opened.infos[usize::from(interface.port)]);
        let Some(vlan) = interface.vlan.filter(|_| port.twin) else { continue };
        let wanted = TwinWanted {
            name: interface.name.clone(),
            mac: info.mac,
            mtu: interface.mtu,
            namespace: config.router.namespace.clone(),
            addresses: with_link_local(&interface.addresses, info.mac, interface.mtu),
            up: true,
        };
        if let Err(error) = helper.make_vlan(&port.name, vlan, &wanted) {
            tracing::info!("{error}; {} is the router's alone, and Linux does not see it", interface.name);
        }
    }
}

/// Starts to follow Linux, if there are twins or it is the router, and the links under ports.
///
/// With a unix socket for FPM comes its file.
pub(super) fn follow_linux(
    config: &Config,
    opened: &Opened,
    mailbox: &Mailbox,
) -> Result<(LinuxFeeds, Option<Below>, Option<SocketFile>)> {
    let bell = || {
        let bell = mailbox.bell();
        move || bell.ring()
    };
    let (mut feeds, mut below, mut socket) = (LinuxFeeds::default(), None, None);
    let Some(helper) = &opened.helper else { return Ok((feeds, below, socket)) };
    if config.router.stack == Stack::Linux || config.ports.iter().any(|port| port.twin) {
        let sockets = helper.netlink(config.linux.receive_buffer as usize, config.router.namespace.as_ref())?;
        feeds.netlink = Some(Box::new(follow(sockets, Scope::Everything, bell())?));
        let questions = helper.open_socket(SocketWanted::Dumps, config.router.namespace.as_ref())?;
        feeds.statistics = Some(Box::new(KernelStatistics::new(questions)));
    }
    if feeds.netlink.is_some() && config.linux.feed == config::Feed::Fpm {
        let (door, file) = fpm_door(config, helper)?;
        feeds.routes = Some(Box::new(fpm::listen(door, config.linux.fpm_hold, bell())?));
        socket = file;
    }
    if config.ports.iter().any(|port| matches!(port.device, config::Device::Linux { .. })) {
        let reports = Box::new(follow(open_links()?, Scope::Links, bell())?);
        let statistics = Box::new(KernelStatistics::new(open_plain()?));
        below = Some(Below { reports, statistics });
    }
    Ok((feeds, below, socket))
}

/// Where zebra connects to, for those who may.
fn fpm_door(config: &Config, helper: &Helper) -> Result<(Door, Option<SocketFile>)> {
    let (guests, group) = fpm_guests(config.linux.fpm_from.as_deref())?;
    match &config.linux.fpm {
        FpmAddress::Tcp(address) => {
            let open = |socket| helper.open_socket(socket, config.router.namespace.as_ref());
            let (listener, diagnosis) = (open(SocketWanted::Listener(*address))?, open(SocketWanted::Diagnosis)?);
            Ok((Door::tcp(listener, diagnosis, guests)?, None))
        }
        FpmAddress::Unix(path) => {
            let (door, file) = Door::unix(path, group, guests).with_context(|| {
                format!("cannot listen for routes at {}; choose another `fpm` in [linux]", path.display())
            })?;
            helper.remove_at_end(vec![file.path().to_owned()])?;
            Ok((door, Some(file)))
        }
    }
}

/// Who may send routes, and the group of the first of them who is neither root nor who starts the router: a unix socket
/// is its, too.
fn fpm_guests(given: Option<&[FpmGuest]>) -> Result<(Guests, Option<u32>)> {
    let own = rustix::process::geteuid().as_raw();
    // FRR's packages have a user of this name.
    let usual = || ["root", "frr"].iter().filter_map(|name| privileges::user(name).ok());
    let Some(given) = given else {
        let group = usual().find(|(user, _)| ![0, own].contains(user)).map(|(_, group)| group);
        let users = usual().map(|(user, _)| user).chain([own]).collect();
        return Ok((Guests { users, addresses: Vec::new() }, group));
    };
    let (mut guests, mut group) = (Guests::default(), None);
    for guest in given {
        match guest {
            FpmGuest::Address(address) => guests.addresses.push(address.to_canonical()),
            FpmGuest::User(name) => {
                let (user, of_user) = privileges::user(name).context("`fpm_from` in [linux]")?;
                guests.users.push(user);
                group = group.or(Some(of_user).filter(|_| ![0, own].contains(&user)));
            }
        }
    }
    Ok((guests, group))
}
