// SPDX-License-Identifier: MIT
//! For which other stations the router answers, as Linux would: entries of `ip neigh add proxy`, those of IPv6 where
//! `proxy_ndp` is set, and `proxy_arp`. Linux does so where it forwards, and the router forwards on all of its
//! interfaces.

use crate::Effect;
use crate::follower::Follower;
use perigee_net::{InterfaceId, Proxy};
use perigee_netlink::message::{NetworkSettings, ProxyNeighbor};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of proxies.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    /// Linux's entries.
    entries: BTreeSet<ProxyNeighbor>,
    /// What the slow path was given.
    given: BTreeMap<InterfaceId, Proxy>,
    /// Interfaces have new numbers since, and the slow path has forgotten those that went.
    renumbered: bool,
}

impl Proxies {
    /// The addresses that interfaces answer for.
    pub fn addresses(&self) -> usize {
        self.given.values().map(|proxy| proxy.addresses.len()).sum()
    }

    /// Interfaces have new numbers.
    pub fn renumber(&mut self) {
        self.renumbered = true;
    }
}

impl Follower {
    /// These are all entries.
    pub(crate) fn proxies_are(&mut self, all: Vec<ProxyNeighbor>) {
        let all: BTreeSet<ProxyNeighbor> = all.into_iter().collect();
        self.stale |= self.proxies.entries != all;
        self.proxies.entries = all;
    }

    /// One that Linux reports by itself; no kernel that is known does.
    pub(crate) fn proxy_is_there(&mut self, one: ProxyNeighbor) {
        self.stale |= self.proxies.entries.insert(one);
    }

    /// Gives the slow path what has changed.
    pub(crate) fn refresh_proxies(&mut self) {
        let now: BTreeMap<InterfaceId, Proxy> =
            self.by_link.iter().map(|(link, id)| (*id, self.proxy_of(*link))).collect();
        let nothing = Proxy::default();
        let renumbered = std::mem::take(&mut self.proxies.renumbered);
        let known = self.proxies.given.keys().filter(|id| !now.contains_key(id));
        let gone: Vec<_> = known.map(|id| (*id, Proxy::default())).collect();
        let given = |id: &InterfaceId| self.proxies.given.get(id).unwrap_or(&nothing);
        let changed = |(id, proxy): &(InterfaceId, Proxy)| given(id) != proxy || renumbered && *proxy != nothing;
        let changes: Vec<_> = now.into_iter().chain(gone).filter(changed).collect();
        for (interface, proxy) in changes {
            match proxy == nothing {
                true => drop(self.proxies.given.remove(&interface)),
                false => drop(self.proxies.given.insert(interface, proxy.clone())),
            }
            self.effect(Effect::SetProxy { interface, proxy });
        }
    }

    fn proxy_of(&self, link: u32) -> Proxy {
        let number = i32::try_from(link).unwrap_or(i32::MAX);
        let [arp, nd] = [false, true].map(|v6| {
            let of = |link| self.network_settings(v6, link).proxy_neighbors == Some(true);
            of(NetworkSettings::ALL) || of(number)
        });
        let here = self.proxies.entries.iter().filter(|entry| entry.link == link || entry.link == 0);
        let answered = here.filter(|entry| entry.address.is_ipv4() || nd);
        Proxy { arp, addresses: answered.map(|entry| (entry.address, entry.router)).collect() }
    }
}
