// SPDX-License-Identifier: MIT
//! What the plane is shown as a whole, made of a router's tables.

use crate::layout::{
    INTERFACE_HERE, INTERFACE_LOOSE, INTERFACE_NO_ADDRESS, INTERFACE_REDIRECTS, INTERFACE_SENDS, INTERFACE_STRICT,
    INTERFACES, Interface, LEAVES_WIDE, LINK_PROBES, LINK_SLOTS, MARK_WORDS, PORT_ALL_UP, PORT_GENERIC, PORT_STATIONS,
    PORT_UNTAGGED, PORT_VLANS, Settings, VLAN_PROBES, VLAN_SLOTS,
};
use crate::publish::{PlanePort, PublishError, Up};
use crate::rules::{self, TooMany};
use perigee_fib::{Marks, Parts};
use perigee_modules::{RuleLists, Tables};
use perigee_net::ReversePath;

/// A MAC address as its bytes are in a frame, in the low 48 bits.
fn mac_word([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// The places of tables in the arena.
pub(crate) fn fill_tables(to: &mut Settings, tables: &Tables) -> Result<(), PublishError> {
    let Some(Parts::V4(v4)) = tables.v4.parts() else { return Err(PublishError::NotShared(tables.v4.name())) };
    let Some(Parts::V6(v6)) = tables.v6.parts() else { return Err(PublishError::NotShared(tables.v6.name())) };
    let hops = tables.next_hops.parts().ok_or(PublishError::NotShared("the table of next hops"))?;
    let neighbors = tables.neighbors.parts().ok_or(PublishError::NotShared("the table of neighbors"))?;
    to.flags = if v4.wide { LEAVES_WIDE } else { 0 };
    (to.nodes, to.leaves, to.groups) = (v4.nodes, v4.leaves, v4.groups);
    (to.bytes, to.codes) = (v4.bytes.unwrap_or(0), v4.codes.unwrap_or(0));
    (to.words6, to.default6) = (v6.words, v6.default);
    (to.next_hops, to.next_hop_count) = hops.words;
    (to.buckets, to.bucket_count) = hops.buckets;
    to.seed = hops.seed;
    (to.neighbors, to.neighbor_mask, to.secret) = (neighbors.slots, neighbors.mask, neighbors.secret);
    let own = tables.interfaces.own();
    to.mark_shift4 = fold_marks(own.marks4(), &mut to.marks4);
    to.mark_shift6 = fold_marks(own.marks6(), &mut to.marks6);
    Ok(())
}

/// Copies marks, of which neighboring ones share a bit if there are too many; returns by how much hashes are shifted.
fn fold_marks(marks: &Marks, to: &mut [u32; MARK_WORDS]) -> u32 {
    let (words, shift) = marks.words();
    let shared = (words.len() / MARK_WORDS).max(1).trailing_zeros();
    for (at, word) in words.iter().enumerate() {
        for bit in (0..32).filter(|bit| word >> bit & 1 != 0) {
            let bit = (at * 32 + bit) >> shared;
            to[bit / 32] |= 1 << (bit % 32);
        }
    }
    shift + shared
}

/// A slot that was taken out.
pub(crate) const NO_LINK: u64 = u64::MAX;

/// What a slot has for an interface of Linux and its port.
pub(crate) fn link_slot(link: u32, place: u8) -> u64 {
    u64::from(link) << 32 | u64::from(place)
}

/// The slots that an interface of Linux is looked for in.
pub(crate) fn link_slots(link: u32) -> impl Iterator<Item = usize> {
    let at = (link.wrapping_mul(0x9e37_79b1) >> (32 - LINK_SLOTS.trailing_zeros())) as usize;
    (0..LINK_PROBES).map(move |i| (at + i) % LINK_SLOTS)
}

/// Enters a port without anything else; returns its place.
pub(crate) fn enter(to: &mut Settings, port: &PlanePort) -> Result<usize, PublishError> {
    let wrong = || PublishError::Port { number: port.number, link: port.link };
    let place = u8::try_from(port.number + 1).map_err(|_| wrong())?;
    let slot = link_slots(port.link).find(|at| to.links[*at] == 0).ok_or_else(wrong)?;
    to.links[slot] = link_slot(port.link, place);
    to.ports[usize::from(place)].up = match port.up {
        Up::Socket => 0,
        Up::Linux => 1,
    };
    Ok(place.into())
}

/// Ports, interfaces and VLANs.
pub(crate) fn fill_interfaces(to: &mut Settings, tables: &Tables, ports: &[PlanePort]) -> Result<(), PublishError> {
    let interfaces = &tables.interfaces;
    let found = interfaces.iter().count();
    if found > INTERFACES {
        return Err(PublishError::Interfaces { found });
    }
    for port in ports {
        let wrong = || PublishError::Port { number: port.number, link: port.link };
        let view = tables.ports().get(usize::from(port.number)).ok_or_else(wrong)?;
        let place = enter(to, port)?;
        let stations = if interfaces.has_stations() { PORT_STATIONS } else { 0 };
        let untagged = if view.has_untagged { PORT_UNTAGGED } else { 0 };
        // Captures and traces are the workers', or Linux's.
        let tapped = if tables.tapped() { PORT_ALL_UP } else { 0 };
        let generic = if port.in_driver { 0 } else { PORT_GENERIC };
        let entry = &mut to.ports[place];
        (entry.mac, entry.untagged) = (mac_word(view.mac), view.untagged);
        entry.flags = untagged | stations | tapped | generic;
    }
    for (id, interface) in interfaces.iter() {
        let own = ports.iter().find(|port| port.number == interface.port);
        let (here, sends) = (own.is_some(), own.is_some_and(|port| port.sends));
        let reverse_path = match interface.policy.urpf {
            ReversePath::Off => 0,
            ReversePath::Loose => INTERFACE_LOOSE,
            ReversePath::Strict => INTERFACE_STRICT,
        };
        // Who waits there for an address by DHCP gets packets to one that is not Linux's yet.
        let waits = own.is_some_and(|port| port.up == Up::Linux)
            && !interface.addresses.iter().any(|own| own.address.is_ipv4());
        let flags = if here { INTERFACE_HERE } else { 0 }
            | if waits { INTERFACE_NO_ADDRESS } else { 0 }
            | if sends { INTERFACE_SENDS } else { 0 }
            | if interface.policy.redirects { INTERFACE_REDIRECTS } else { 0 }
            | reverse_path;
        to.interfaces[usize::from(id.0)] = Interface {
            mac: mac_word(interface.mac.octets()),
            port: if here { interface.port + 1 } else { 0 },
            mtu: interface.mtu,
            vlan: interface.vlan.unwrap_or(0),
            flags,
        };
        if let Some(vlan) = interface.vlan.filter(|_| here && interface.up)
            && !add_vlan(&mut to.vlans, interface.port + 1, vlan, id.0)
        {
            to.ports[usize::from(interface.port + 1)].flags |= PORT_VLANS;
        }
    }
    Ok(())
}

/// Enters a VLAN of a port; false if the places where it would be looked for are taken.
fn add_vlan(slots: &mut [u64; VLAN_SLOTS], port: u16, vlan: u16, interface: u16) -> bool {
    let key = 1 << 32 | u64::from(port) << 16 | u64::from(vlan);
    let at = (key.wrapping_mul(0x9e37_79b1) as u32 >> (32 - VLAN_SLOTS.trailing_zeros())) as usize;
    let free = (0..VLAN_PROBES).map(|i| (at + i) % VLAN_SLOTS).find(|at| slots[*at] == 0);
    free.map(|at| slots[at] = key << 16 | u64::from(interface)).is_some()
}

/// Filters, and what is steered up. Returns for which families there are too many, so that all of their packets go up:
/// to workers, which have all filters, or to Linux, if the filters themselves fit.
pub(crate) fn fill_rules(to: &mut Settings, lists: &RuleLists, ports: &[PlanePort]) -> Result<[bool; 2], PublishError> {
    let all_judged_again = ports.iter().all(|port| port.up == Up::Socket);
    let (filters, steered) = (&lists.filters, &lists.steered);
    let [v4, v6] = ["IPv4", "IPv6"].map(|family| {
        move |TooMany(found)| match all_judged_again {
            true => Ok(()),
            false => Err(PublishError::Rules { family, found }),
        }
    });
    let four = match rules::fill4(&mut to.list4, filters, steered) {
        Ok(filled) => filled,
        Err(error) => v4(error).map(|()| (rules::everything_up4(&mut to.list4), true))?,
    };
    let six = match rules::fill6(&mut to.list6, filters, steered) {
        Ok(filled) => filled,
        Err(error) => v6(error).map(|()| (rules::everything_up6(&mut to.list6), true))?,
    };
    ((to.rules4, to.all_rules4), (to.rules6, to.all_rules6)) = (four.0, six.0);
    Ok([four.1, six.1])
}
