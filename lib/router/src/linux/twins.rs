// SPDX-License-Identifier: MIT
//! Twins and namespaces that went away are made anew, and so are sockets that do not work any more.

use super::Origin;
use super::errands::{Done, Errand};
use crate::slow::SlowThread;
use crate::twins::PortTwin;
use perigee_config::Feed as FeedChoice;
use perigee_helper::NetlinkSockets;
use perigee_helper::TwinWanted;
use perigee_net::{InterfaceAddress, MacAddr, Namespace};
use perigee_netlink::{Feed, Scope};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;

/// What tells a namespace from another that takes its name: device and inode of its file.
pub fn identity(namespace: Option<&Namespace>) -> Option<(u64, u64)> {
    let file = std::fs::metadata(namespace?.path()).ok()?;
    Some((file.dev(), file.ino()))
}

/// The link-local address of a twin that has these addresses and none of that kind. Linux has no IPv6 where the MTU is below
/// 1280 bytes (RFC 8200 5).
pub fn missing_link_local(addresses: &[InterfaceAddress], mac: MacAddr, mtu: u16) -> Option<InterfaceAddress> {
    let link_local =
        |own: &InterfaceAddress| matches!(own.address, IpAddr::V6(address) if address.is_unicast_link_local());
    let missing = mtu >= 1280 && !addresses.iter().any(link_local);
    missing.then(|| InterfaceAddress { address: mac.link_local().into(), prefix_len: 64 })
}

impl SlowThread {
    /// Makes again what is missing; to be called now and then.
    pub(crate) fn mend_linux(&mut self) {
        if self.linux.errands.is_none() {
            return;
        }
        self.look_at_namespace();
        if self.linux.namespace_gone {
            return;
        }
        if std::mem::take(&mut self.linux.retry) {
            self.reopen();
        }
        for (port, addresses) in std::mem::take(&mut self.linux.twinless) {
            let wanted = self.twin_wanted(port, &addresses);
            if let Some(errands) = &self.linux.errands {
                self.linux.making.insert(port);
                errands.send(Errand::Twin(port, wanted));
            }
        }
    }

    /// A namespace that was deleted lives on, but nobody can enter it: the one that has its name now is the one to follow.
    fn look_at_namespace(&mut self) {
        let Some(namespace) = self.parts.config.router.namespace.clone() else { return };
        let now = identity(Some(&namespace));
        if now.is_none() {
            if !std::mem::replace(&mut self.linux.namespace_gone, true) {
                tracing::warn!(
                    "the namespace {namespace} is gone; forwarding goes on as it was, and the twins are made again when \
                     there is a namespace of that name"
                );
            }
            return;
        }
        let changed = self.linux.identity != now;
        self.linux.identity = now;
        if std::mem::take(&mut self.linux.namespace_gone) || changed {
            tracing::warn!("the namespace {namespace} is another one now: its twins are made again");
            let ports = (0..self.twins.len()).filter(|port| self.twins[*port].is_some());
            self.linux.twinless = ports.map(|port| (port, Vec::new())).collect();
            self.reopen();
        }
    }

    /// Asks for the sockets anew.
    pub(super) fn reopen(&mut self) {
        if let (Some(errands), false) = (&self.linux.errands, self.linux.reopening) {
            self.linux.reopening = true;
            errands.send(Errand::Sockets(self.linux.config.receive_buffer as usize));
        }
    }

    /// A twin as it was made first, with what was added to it since: Linux takes a twin's addresses away before the twin, so
    /// those it had last may be gone already.
    fn twin_wanted(&self, port: usize, had: &[InterfaceAddress]) -> TwinWanted {
        let info = &self.infos[port];
        let interface = self.parts.routing.interfaces().iter().find(|(_, i)| (i.port, i.vlan) == (info.port, None));
        let now = interface.map(|(_, interface)| interface.addresses.as_slice()).unwrap_or_default();
        let mut addresses = self.parts.config.interfaces[port].addresses.clone();
        for address in now.iter().chain(had) {
            if !addresses.contains(address) {
                addresses.push(*address);
            }
        }
        addresses.extend(missing_link_local(&addresses, info.mac, info.mtu));
        TwinWanted {
            name: self.parts.config.ports[port].name.clone(),
            mac: info.mac,
            mtu: info.mtu,
            namespace: self.parts.config.router.namespace.clone(),
            addresses,
            up: true,
        }
    }

    /// What has come of errands.
    pub(super) fn follow_errands(&mut self) {
        while let Some(done) = self.linux.errands.as_ref().and_then(super::errands::Errands::done) {
            match done {
                Done::Twin(port, Ok(twin), _) => {
                    self.linux.making.remove(&port);
                    self.linux.twinless.remove(&port);
                    tracing::info!("the twin {} is there again", self.parts.config.ports[port].name);
                    self.twins[port] = Some(PortTwin::again(twin, self.twins[port].take()));
                    self.carrier_for_linux(port, self.links[port]);
                    self.linux.stale = true;
                    self.linux.dump();
                    self.tell_all_neighbors();
                }
                Done::Twin(port, Err(error), addresses) => {
                    tracing::warn!("{error}; it is tried again");
                    self.linux.making.remove(&port);
                    self.linux.twinless.insert(port, addresses);
                }
                Done::Sockets(sockets) => {
                    self.linux.reopening = false;
                    if let Err(error) = sockets.and_then(|sockets| self.follow_anew(sockets)) {
                        tracing::warn!("{error}; it is tried again");
                        self.linux.retry = true;
                    }
                }
            }
        }
    }

    fn follow_anew(&mut self, sockets: NetlinkSockets) -> Result<(), String> {
        let bell = self.parts.mailbox.bell();
        let feed = Feed::start(sockets, Scope::Everything, move || bell.ring()).map_err(|error| error.to_string())?;
        let routes = self.linux.config.feed == FeedChoice::Netlink;
        let mut origin = Origin::new(Box::new(feed), routes);
        self.linux.links.clear();
        // What is there stays until the first dump is whole, which has to be done.
        origin.wanted = 1;
        origin.complete = self.linux.origins.first().is_some_and(|origin| origin.complete);
        match self.linux.origins.first_mut() {
            Some(first) => *first = origin,
            None => self.linux.origins.push(origin),
        }
        Ok(())
    }
}
