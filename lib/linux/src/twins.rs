// SPDX-License-Identifier: MIT
//! Twins and namespaces that went away are made again, and so are sockets that do not work any more.
//!
//! ```text
//!          LinkGone                 handle_timeout              TwinMade
//!  there ────────────► twinless ───────────────────► making ──────────────► there
//!                          ▲                            │ TwinFailed
//!                          └────────────────────────────┘
//! ```
//!
//! While there is no namespace of the twins' name, nothing is requested from the helper.

use crate::feed::Feed;
use crate::follower::Follower;
use crate::{FeedId, HelperRequest, Identity, Table};
use perigee_config::Feed as FeedChoice;
use perigee_helper::TwinWanted;
use perigee_net::{InterfaceAddress, MacAddr, is_link_local};

/// The link-local address of a twin that has these addresses and none of that kind. Linux has no IPv6 where the MTU is
/// below 1280 bytes (RFC 8200 5).
pub fn missing_link_local(addresses: &[InterfaceAddress], mac: MacAddr, mtu: u16) -> Option<InterfaceAddress> {
    let missing = mtu >= 1280 && !addresses.iter().any(|own| is_link_local(own.address));
    missing.then(|| InterfaceAddress { address: mac.link_local().into(), prefix_len: 64 })
}

impl Follower {
    /// Asks for the twins that are missing.
    pub(crate) fn repair_twins(&mut self, table: &dyn Table) {
        if !self.setup.helper || self.namespace_gone {
            return;
        }
        if std::mem::take(&mut self.retry) {
            self.reopen();
        }
        for (port, addresses) in std::mem::take(&mut self.twinless) {
            let wanted = self.twin_wanted(port, &addresses, table);
            self.making.insert(port);
            self.ask_helper(HelperRequest::Twin(port, wanted));
        }
    }

    /// A deleted namespace may live on, but cannot be entered any more: the one that has its name now is the one to
    /// follow. Without twins there is nothing in it.
    pub(crate) fn namespace_is(&mut self, now: Option<Identity>) {
        let Some(namespace) = self.setup.namespace.as_ref().filter(|_| self.setup.helper) else { return };
        if now.is_none() {
            if !std::mem::replace(&mut self.namespace_gone, true) {
                tracing::warn!(
                    "the namespace {namespace} is gone; forwarding goes on as it was, and the twins are made again when \
                     there is a namespace of that name"
                );
            }
            return;
        }
        let changed = self.identity != now;
        self.identity = now;
        if std::mem::take(&mut self.namespace_gone) || changed {
            tracing::warn!("the namespace {namespace} is another one now: its twins are made again");
            let ports = self.setup.ports.iter().enumerate().filter(|(_, port)| port.twin.is_some());
            self.twinless = ports.map(|(port, _)| (port, Vec::new())).collect();
            self.reopen();
        }
    }

    /// Asks for the sockets again.
    pub(crate) fn reopen(&mut self) {
        if self.setup.helper && !std::mem::replace(&mut self.reopening, true) {
            self.ask_helper(HelperRequest::Sockets(self.setup.linux.receive_buffer as usize));
        }
    }

    /// A twin as it was first made, with what was added since: Linux removes a twin's addresses before the twin, so the
    /// last ones may be gone already.
    fn twin_wanted(&self, port: usize, had: &[InterfaceAddress], table: &dyn Table) -> TwinWanted {
        let port = &self.setup.ports[port];
        let interface = table.interfaces().iter().find(|(_, i)| (i.port, i.vlan) == (port.number, None));
        let now = interface.map(|(_, interface)| interface.addresses.as_slice()).unwrap_or_default();
        let mut addresses = port.addresses.clone();
        for own in now.iter().chain(had) {
            if !addresses.contains(own) {
                addresses.push(*own);
            }
        }
        addresses.extend(missing_link_local(&addresses, port.mac, port.mtu));
        TwinWanted {
            name: port.name.clone(),
            mac: port.mac,
            mtu: port.mtu,
            namespace: self.setup.namespace.clone(),
            addresses,
            up: true,
        }
    }

    pub(crate) fn twin_made(&mut self, index: usize, link: u32) {
        self.making.remove(&index);
        self.twinless.remove(&index);
        let Some(port) = self.setup.ports.get_mut(index) else { return };
        port.twin = Some(link);
        let up = port.up;
        tracing::info!("the twin {} is there again", port.name);
        self.port_link(index, up);
        self.stale = true;
        self.request_dump();
        self.report_all_neighbors();
    }

    pub(crate) fn twin_failed(&mut self, port: usize, addresses: &[InterfaceAddress]) {
        self.making.remove(&port);
        self.twinless.insert(port, addresses.to_vec());
    }

    /// There is a new feed from the kernel. Everything stays until its first dump is complete, which has to be applied.
    pub(crate) fn reopened(&mut self) {
        self.reopening = false;
        self.links.clear();
        let mut kernel = Feed::new(FeedId::Kernel, self.setup.linux.feed == FeedChoice::Netlink);
        kernel.wanted = 1;
        kernel.complete = self.feeds.first().is_some_and(|feed| feed.complete);
        match self.feed(FeedId::Kernel) {
            Some(feed) => *feed = kernel,
            None => self.feeds.insert(0, kernel),
        }
    }
}
