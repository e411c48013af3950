// SPDX-License-Identifier: MIT
//! All interfaces by id: which one a received frame belongs to, and what it takes to send out of one.

use thiserror::Error;

use crate::next_hop::mac_bits;
use crate::own::OwnAddresses;
use perigee_net::{HostAddress, Interface, InterfaceAddress, InterfaceId, MacAddr, Prefix, Station};

/// What it takes to send out of an interface: 16 bytes, four interfaces per cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The interface's MAC address as big-endian numbers: its last four bytes, and its first two.
    mac: (u32, u16),
    /// The port's index.
    pub port: u16,
    /// VLAN id to tag frames with, 0 for none.
    pub vlan: u16,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
}

impl Egress {
    /// The interface's MAC address as big-endian numbers: its first two bytes, and the other four.
    #[inline(always)]
    pub fn mac_parts(&self) -> (u16, u32) {
        (self.mac.1, self.mac.0)
    }
}

/// All interfaces by [`InterfaceId`]; immutable, and published as a whole.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    list: Vec<Interface>,
    egress: Vec<Egress>,
    ports: Vec<Ingress>,
    smallest_mtu: u16,
    host_addresses: Vec<HostAddress>,
    /// Virtual stations, in order.
    stations: Vec<Station>,
    own: OwnAddresses,
}

/// Which interface a frame belongs to, for one port.
#[derive(Clone, Debug, Default)]
struct Ingress {
    untagged: Option<InterfaceId>,
    /// By VLAN id; only where the port has VLANs.
    tagged: Option<Box<[Option<InterfaceId>; VLANS]>>,
}

const VLANS: usize = 4096;

impl Interfaces {
    /// The smallest MTU: every IPv4 link must carry 68 bytes (RFC 791 section 3.2).
    pub const SMALLEST_MTU: u16 = 68;

    /// A table of these interfaces, whose ids are their places in the list, from 0.
    pub fn new(list: Vec<Interface>) -> Result<Self, InterfaceError> {
        if list.len() > InterfaceId::LIMIT.into() {
            return Err(InterfaceError::TooMany { found: list.len() });
        }
        let smallest_mtu = list.iter().map(|interface| interface.mtu).min().unwrap_or(0);
        let mut table = Self { egress: list.iter().map(egress).collect(), smallest_mtu, ..Self::default() };
        for (id, interface) in (0..).map(InterfaceId).zip(&list) {
            check(interface)?;
            let slot = table.ingress_slot(interface.port, interface.vlan);
            if let Some(InterfaceId(other)) = slot.replace(id) {
                let other = list[usize::from(other)].name.clone();
                return Err(InterfaceError::Duplicate { name: interface.name.clone(), other });
            }
        }
        // Last, so that two with one port and VLAN are refused whether they are up or not.
        for interface in list.iter().filter(|interface| !interface.up) {
            *table.ingress_slot(interface.port, interface.vlan) = None;
        }
        table.own = OwnAddresses::new(&list, &[]);
        table.list = list;
        Ok(table)
    }

    /// The same table with addresses of the router that are on none of its interfaces.
    #[must_use]
    pub fn with_host_addresses(mut self, host_addresses: Vec<HostAddress>) -> Self {
        self.own = OwnAddresses::new(&self.list, &host_addresses);
        self.stations = host_addresses.iter().filter_map(|host| host.station).collect();
        self.stations.sort_unstable();
        self.stations.dedup();
        self.host_addresses = host_addresses;
        self
    }

    /// Whether a virtual station of this MAC address is on an interface: frames to it are the router's.
    #[cold]
    pub fn has_station(&self, interface: InterfaceId, mac: MacAddr) -> bool {
        self.stations.binary_search(&Station { interface, mac }).is_ok()
    }

    /// Whether there is any virtual station.
    pub fn has_stations(&self) -> bool {
        !self.stations.is_empty()
    }

    /// The addresses of the router that are on none of its interfaces, those that it speaks from first.
    pub fn host_addresses(&self) -> &[HostAddress] {
        &self.host_addresses
    }

    fn ingress_slot(&mut self, port: u16, vlan: Option<u16>) -> &mut Option<InterfaceId> {
        let port = usize::from(port);
        if self.ports.len() <= port {
            self.ports.resize_with(port + 1, Ingress::default);
        }
        let port = &mut self.ports[port];
        match vlan {
            None => &mut port.untagged,
            Some(vlan) => &mut port.tagged.get_or_insert_with(|| Box::new([None; VLANS]))[usize::from(vlan)],
        }
    }

    /// The interface on which a frame arrived, if it is up. `vlan` is the tag's id, 0 without a tag or for a priority
    /// tag.
    #[inline]
    pub fn ingress(&self, port: u16, vlan: u16) -> Option<InterfaceId> {
        let port = self.ports.get(usize::from(port))?;
        if vlan == 0 {
            return port.untagged;
        }
        *port.tagged.as_ref()?.get(usize::from(vlan))?
    }

    /// What it takes to send out of `id`.
    #[inline]
    pub fn egress(&self, id: InterfaceId) -> Option<&Egress> {
        self.egress.get(usize::from(id.0))
    }

    /// What it takes to send out of each interface, by id.
    #[inline]
    pub fn egresses(&self) -> &[Egress] {
        &self.egress
    }

    /// The smallest MTU of all interfaces, in bytes; 0 if there is none.
    #[inline]
    pub fn smallest_mtu(&self) -> u16 {
        self.smallest_mtu
    }

    /// The addresses that only this router may send from.
    #[inline]
    pub fn own(&self) -> &OwnAddresses {
        &self.own
    }

    /// The interface with this id.
    pub fn get(&self, id: InterfaceId) -> Option<&Interface> {
        self.list.get(usize::from(id.0))
    }

    /// The interface with this name.
    pub fn by_name(&self, name: &str) -> Option<InterfaceId> {
        self.iter().find(|(_, interface)| interface.name == name).map(|(id, _)| id)
    }

    /// All of them, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = (InterfaceId, &Interface)> {
        (0..).map(InterfaceId).zip(&self.list)
    }
}

fn egress(interface: &Interface) -> Egress {
    Egress {
        mac: (mac_bits(interface.mac) as u32, (mac_bits(interface.mac) >> 32) as u16),
        port: interface.port,
        vlan: interface.vlan.unwrap_or(0),
        mtu: interface.mtu,
    }
}

fn check(interface: &Interface) -> Result<(), InterfaceError> {
    let name = || interface.name.clone();
    if let Some(vlan) = interface.vlan
        && !(1..=4094).contains(&vlan)
    {
        return Err(InterfaceError::Vlan { name: name(), vlan });
    }
    if interface.mtu < Interfaces::SMALLEST_MTU {
        return Err(InterfaceError::Mtu { name: name(), mtu: interface.mtu });
    }
    if let Some(&address) = interface.addresses.iter().find(|address| !address.is_valid()) {
        return Err(InterfaceError::Address { name: name(), address });
    }
    Ok(())
}

/// Why a set of interfaces was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InterfaceError {
    /// More interfaces than ids.
    #[error("found {found} interfaces; expected at most {limit}", limit = InterfaceId::LIMIT)]
    TooMany {
        /// How many were given.
        found: usize,
    },
    /// Two interfaces would receive the same frames.
    #[error("interface {name} has the same port and VLAN as {other}; give one of them another VLAN")]
    Duplicate {
        /// The later one.
        name: String,
        /// The earlier one.
        other: String,
    },
    /// A VLAN id is out of range.
    #[error("interface {name}: VLAN {vlan} does not exist; expected 1 to 4094")]
    Vlan {
        /// The interface.
        name: String,
        /// The id given.
        vlan: u16,
    },
    /// An MTU is smaller than IPv4 allows.
    #[error("interface {name}: an MTU of {mtu} bytes is too small; expected at least {smallest}", smallest = Interfaces::SMALLEST_MTU)]
    Mtu {
        /// The interface.
        name: String,
        /// The MTU given, in bytes.
        mtu: u16,
    },
    /// A prefix length is over 32 or 128.
    #[error("interface {name}: {address} is not an address with a prefix length; expected at most {longest}", longest = Prefix::longest(address.address))]
    Address {
        /// The interface.
        name: String,
        /// The address and length given.
        address: InterfaceAddress,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_net::{MacAddr, Policy};

    fn interface(name: &str, port: u16, vlan: Option<u16>) -> Interface {
        let mac = MacAddr([2, 0, 0, 0, 0, port as u8]);
        Interface {
            name: name.to_owned(),
            port,
            vlan,
            mtu: 1500,
            mac,
            addresses: vec!["192.0.2.1/24".parse().expect("address")],
            up: true,
            attributes: Default::default(),
            policy: Policy::default(),
        }
    }

    #[test]
    fn frames_find_their_interface() {
        let list = vec![
            interface("a", 0, None),
            interface("b", 3, Some(7)),
            interface("c", 3, Some(4094)),
            interface("d", 3, None),
        ];
        let table = Interfaces::new(list).expect("table");
        for (port, vlan, expected) in [(0, 0, Some(0)), (3, 7, Some(1)), (3, 4094, Some(2)), (3, 0, Some(3))] {
            assert_eq!(table.ingress(port, vlan), expected.map(InterfaceId), "port {port} vlan {vlan}");
        }
        for (port, vlan) in [(0, 7), (3, 8), (1, 0), (4, 0), (u16::MAX, u16::MAX), (3, 4096), (3, u16::MAX)] {
            assert_eq!(table.ingress(port, vlan), None, "port {port} vlan {vlan}");
        }
        let egress = table.egress(InterfaceId(2)).expect("egress");
        assert_eq!(*egress, Egress { mac: (0x0000_0003, 0x0200), port: 3, vlan: 4094, mtu: 1500 });
        assert_eq!(size_of::<Egress>(), 16);
        assert_eq!(table.by_name("c"), Some(InterfaceId(2)));
        assert_eq!(table.by_name("e"), None);
        assert!(table.get(InterfaceId(4)).is_none() && table.egress(InterfaceId(u16::MAX)).is_none());
    }

    #[test]
    fn an_interface_that_is_down_receives_nothing_and_keeps_its_id() {
        let down = |name, port, vlan| Interface { up: false, ..interface(name, port, vlan) };
        let list = vec![down("a", 0, None), interface("b", 0, Some(7)), down("c", 0, Some(8)), interface("d", 1, None)];
        let table = Interfaces::new(list.clone()).expect("table");
        for (port, vlan, expected) in [(0, 0, None), (0, 7, Some(1)), (0, 8, None), (1, 0, Some(3))] {
            assert_eq!(table.ingress(port, vlan), expected.map(InterfaceId), "port {port} vlan {vlan}");
        }
        assert_eq!(table.by_name("c"), Some(InterfaceId(2)));
        assert_eq!(table.egress(InterfaceId(2)).map(|egress| egress.vlan), Some(8));
        let twice = Interfaces::new(vec![list[0].clone(), interface("e", 0, None)]).expect_err("refused").to_string();
        assert_eq!(twice, "interface e has the same port and VLAN as a; give one of them another VLAN");
    }

    #[test]
    fn mistakes_are_refused_with_what_was_found_and_expected() {
        let refusal = |list: Vec<Interface>| Interfaces::new(list).expect_err("refused").to_string();
        assert_eq!(
            refusal(vec![interface("a", 1, Some(5)), interface("b", 1, Some(5))]),
            "interface b has the same port and VLAN as a; give one of them another VLAN"
        );
        for vlan in [0, 4095, u16::MAX] {
            assert_eq!(
                refusal(vec![interface("a", 1, Some(vlan))]),
                format!("interface a: VLAN {vlan} does not exist; expected 1 to 4094")
            );
        }
        let small = Interface { mtu: 67, ..interface("a", 1, None) };
        assert_eq!(refusal(vec![small]), "interface a: an MTU of 67 bytes is too small; expected at least 68");
        let long = Interface {
            addresses: vec![InterfaceAddress { address: "192.0.2.1".parse().expect("address"), prefix_len: 33 }],
            ..interface("a", 1, None)
        };
        assert_eq!(
            refusal(vec![long]),
            "interface a: 192.0.2.1/33 is not an address with a prefix length; expected at most 32"
        );
    }
}
