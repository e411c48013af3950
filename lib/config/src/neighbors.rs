// SPDX-License-Identifier: MIT
//! `[[neighbor]]`: addresses whose MAC address is known beforehand.

use std::collections::HashSet;
use std::net::IpAddr;

use perigee_net::{InterfaceId, MacAddr};

use super::given::At;
use super::interfaces::Interface;
use super::kind::{at, ip_address, optional, required};
use super::networks::{Networks, device, resolve};
use super::ports::station;
use super::reader::Section;
use super::section::{Context, section};

section! {
    /// A neighbor that is not asked for by ARP or ND.
    pub(crate) struct NeighborKeys(context) keys {
        /// The neighbor's address, within a network of the interface.
        address: Option<At<IpAddr>>, required(at(ip_address())), default None => "required", live;
        /// Its MAC address.
        mac: Option<MacAddr>, required(station()), default None => "required", live;
        /// The interface that it is on; needed for link-local addresses.
        dev: Option<At<String>>, optional(at(device())), default None => "the one whose network has the address", live;
    }
}

/// `[[neighbor]]`: an address that is not asked for by ARP or ND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Within a network of the interface.
    pub address: IpAddr,
    /// The address of one station.
    pub mac: MacAddr,
    /// Index in [`Config::interfaces`](super::Config::interfaces).
    pub interface: InterfaceId,
}

impl NeighborKeys {
    /// The keys that describe `neighbor`.
    pub fn of(neighbor: &Neighbor, interfaces: &[Interface]) -> Self {
        let Neighbor { address, mac, interface } = neighbor;
        let name = interfaces[interface.index()].name.clone();
        Self { address: Some(At::nowhere(*address)), mac: Some(*mac), dev: Some(At::nowhere(name)) }
    }

    fn resolve(self, s: &Section, networks: &Networks) -> Option<(Neighbor, At<IpAddr>)> {
        let there = s.place("dev").is_some();
        let device = self.dev.and_then(|dev| resolve(&dev, s, networks));
        let (at, mac) = (self.address?, self.mac?);
        if there && device.is_none() {
            return None;
        }
        match networks.reach(at.value, device) {
            Ok(interface) => Some((Neighbor { address: at.value, mac, interface }, at)),
            Err(rest) => {
                s.mistakes().add(&at.span, format!("found {}{rest}", at.value));
                None
            }
        }
    }
}

pub(crate) fn read_neighbors(root: &mut Section, context: &Context, networks: &Networks) -> Vec<Neighbor> {
    let mut seen = HashSet::new();
    let mut neighbors = Vec::new();
    for mut section in root.tables("neighbor") {
        let keys = NeighborKeys::read(&mut section, context);
        if let Some((neighbor, at)) = keys.resolve(&section, networks) {
            if !seen.insert((neighbor.address, neighbor.interface)) {
                let message = format!("found the neighbor {} a second time, expected it once", neighbor.address);
                section.mistakes().add(&at.span, message);
            }
            neighbors.push(neighbor);
        }
        section.finish();
    }
    neighbors
}
