// SPDX-License-Identifier: MIT
//! Answers for other stations.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// For which other stations an interface answers ARP requests and neighbor solicitations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    /// ARP requests for every address whose route leaves by another interface (Linux: `proxy_arp`).
    pub arp: bool,
    /// Requests for these addresses, and whether the station is to be announced as a router (IPv6). An IPv4 address
    /// counts where its route leaves by another interface.
    pub addresses: BTreeMap<IpAddr, bool>,
}
