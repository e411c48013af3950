// SPDX-License-Identifier: MIT
//! Linux's settings of its links (`net.ipv4.conf`, `net.ipv6.conf`), as it reports them.

use crate::follower::Follower;
use perigee_netlink::message::NetworkSettings;
use std::collections::{BTreeMap, BTreeSet};

/// The settings of each family, link by link, and those of all links together.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    known: BTreeMap<(bool, i32), NetworkSettings>,
    /// The families whose forwarding somebody has switched off for all links since the start.
    pub forwarding_off: BTreeSet<bool>,
}

impl Follower {
    /// Linux's settings of one link, of [`NetworkSettings::ALL`] or of [`NetworkSettings::DEFAULT`]; one that it has
    /// not named is `None`.
    pub fn network_settings(&self, v6: bool, link: i32) -> NetworkSettings {
        let unknown = NetworkSettings { v6, link, ..NetworkSettings::default() };
        self.settings.known.get(&(v6, link)).copied().unwrap_or(unknown)
    }

    pub(crate) fn settings_are_there(&mut self, settings: NetworkSettings) {
        let before = self.network_settings(settings.v6, settings.link);
        let mut now = before;
        now.merge(&settings);
        if now.link == NetworkSettings::ALL {
            match (before.forwarding, now.forwarding) {
                // Whether it was off before the router came says nothing of what anybody wants of it.
                (Some(true), Some(false)) => drop(self.settings.forwarding_off.insert(now.v6)),
                (_, Some(true)) => drop(self.settings.forwarding_off.remove(&now.v6)),
                _ => {}
            }
        }
        self.settings.known.insert((settings.v6, settings.link), now);
        self.stale |= now != before;
    }

    pub(crate) fn settings_are_gone(&mut self, v6: bool, link: i32) {
        if self.settings.known.remove(&(v6, link)).is_some() {
            self.stale = true;
        }
    }

    /// A link is gone, and its settings with it.
    pub(crate) fn forget_settings(&mut self, link: u32) {
        for v6 in [false, true] {
            self.settings_are_gone(v6, i32::try_from(link).unwrap_or(i32::MAX));
        }
    }
}
