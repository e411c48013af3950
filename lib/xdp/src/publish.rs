// SPDX-License-Identifier: MIT
//! The router's side: shows the plane what is published as a whole, and reads what it counts.
//!
//! There are two settings. The one that does not hold is written, then the state says that it holds. Packets that are
//! on their way may still read the other one: it may be written again after a grace period of the kernel's, [`grace`].

use crate::layout::{
    Counters, INTERFACE_HERE, INTERFACE_LOOSE, INTERFACE_REDIRECTS, INTERFACE_STRICT, INTERFACES, Interface,
    LEAVES_WIDE, LINKS, MARK_WORDS, PORT_STATIONS, PORT_UNTAGGED, PORT_VLANS, PORTS, Port, RULES, Settings,
    VLAN_PROBES, VLAN_SLOTS,
};
use crate::load::Maps;
use crate::mapped::Mapped;
use crate::rules::{self, TooMany};
use perigee_fib::{Arena, Marks, Parts};
use perigee_modules::Tables;
use perigee_net::{ReversePath, Rule};
use rustix::thread::{MembarrierCommand, membarrier};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thiserror::Error;
use zerocopy::{FromZeros, IntoBytes};

/// Where packets go that the plane does not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    /// To the port's AF_XDP sockets.
    Socket,
    /// To Linux.
    Linux,
}

/// A port that the plane forwards for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanePort {
    /// The router's number of it.
    pub number: u16,
    /// The index of its interface of Linux.
    pub link: u32,
    /// Where packets go that the plane does not finish.
    pub up: Up,
}

/// The lists that packets are compared with, the first that decides first.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleLists<'a> {
    /// The configured filters.
    pub filters: &'a [Rule],
    /// What goes up whatever else is decided.
    pub steered: &'a [Rule],
}

/// Why the plane cannot forward by some tables.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The lookup structures or next hops are in memory that the kernel does not see.
    #[error("the in-kernel plane cannot read {0}: it is not in the memory that both share")]
    NotShared(&'static str),
    /// Too many interfaces.
    #[error("{found} interfaces; the in-kernel plane has room for {INTERFACES}")]
    Interfaces {
        /// How many there are.
        found: usize,
    },
    /// A port's number or its interface's index is out of range.
    #[error(
        "port {number} on the interface with the index {link}; expected fewer than {PORTS} ports, and indices below \
         {LINKS}"
    )]
    Port {
        /// The port's number.
        number: u16,
        /// The index.
        link: u32,
    },
    /// Too many rules, where what goes up passes no other filter.
    #[error(
        "{found} rules for {family}; the in-kernel plane compares each packet with up to {RULES}: have fewer, or give \
         packets to perigee instead of Linux"
    )]
    Rules {
        /// The family.
        family: &'static str,
        /// How many there are.
        found: usize,
    },
}

/// The plane, as the router sees it.
pub struct PlaneView {
    state: Mapped,
    settings: Mapped,
    counters: Mapped,
    arena: Arc<Arena>,
    next: Box<Settings>,
    current: u32,
}

/// Waits until no packet is on its way that was received before: 10 ms, mostly.
///
/// # Errors
/// The kernel has no such call.
pub fn grace() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::Global)?)
}

impl PlaneView {
    /// Maps the plane's maps into memory.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(maps: &Maps) -> io::Result<PlaneView> {
        let words = size_of::<Settings>() / 8;
        Ok(PlaneView {
            state: Mapped::new(&maps.state, 1)?,
            settings: Mapped::new(&maps.settings, 2 * words)?,
            counters: Mapped::new(&maps.counters, maps.cpus * Counters::WORDS)?,
            arena: Arena::map(&maps.arena, maps.arena_bytes)?,
            next: Settings::new_box_zeroed().map_err(|_| io::ErrorKind::OutOfMemory)?,
            current: 0,
        })
    }

    /// The memory for tables that both planes read.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Lets the plane forward by these tables from the next packet on. Before it is called again, a [`grace`] period
    /// has to pass.
    ///
    /// # Errors
    /// The plane cannot forward by them; what it had before holds.
    pub fn publish(&mut self, tables: &Tables, ports: &[PlanePort], lists: RuleLists<'_>) -> Result<(), PublishError> {
        self.next.zero();
        fill_tables(&mut self.next, tables)?;
        fill_interfaces(&mut self.next, tables, ports)?;
        fill_rules(&mut self.next, ports, lists)?;
        let words = self.next.as_bytes().as_chunks::<8>().0;
        let other = 1 - self.current;
        let to = &self.settings.words()[other as usize * words.len()..];
        for (to, word) in to.iter().zip(words) {
            to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        // Release: the settings are written before they hold. The state is the low half of its word.
        self.state.words()[0].store(u64::from(other), Ordering::Release);
        self.current = other;
        Ok(())
    }

    /// What was counted so far, by all processors together.
    pub fn counters(&self) -> Box<Counters> {
        let mut sum = vec![0u64; Counters::WORDS];
        for (at, word) in self.counters.words().iter().enumerate() {
            let sum = &mut sum[at % Counters::WORDS];
            *sum = sum.wrapping_add(word.load(Ordering::Relaxed));
        }
        let mut counters = Counters::new_box_zeroed().expect("memory for counters");
        counters.as_mut_bytes().copy_from_slice(sum.as_bytes());
        counters
    }
}

/// A MAC address as its bytes are in a frame, in the low 48 bits.
fn mac_word([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

fn fill_tables(to: &mut Settings, tables: &Tables) -> Result<(), PublishError> {
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

fn fill_interfaces(to: &mut Settings, tables: &Tables, ports: &[PlanePort]) -> Result<(), PublishError> {
    let interfaces = &tables.interfaces;
    let found = interfaces.iter().count();
    if found > INTERFACES {
        return Err(PublishError::Interfaces { found });
    }
    for port in ports {
        let wrong = || PublishError::Port { number: port.number, link: port.link };
        let view = tables.ports().get(usize::from(port.number)).ok_or_else(wrong)?;
        let place = u8::try_from(port.number + 1).map_err(|_| wrong())?;
        *to.port_of.get_mut(port.link as usize).ok_or_else(wrong)? = place;
        let stations = if interfaces.has_stations() { PORT_STATIONS } else { 0 };
        let untagged = if view.has_untagged { PORT_UNTAGGED } else { 0 };
        let up = match port.up {
            Up::Socket => 0,
            Up::Linux => 1,
        };
        to.ports[usize::from(place)] =
            Port { mac: mac_word(view.mac), untagged: view.untagged, flags: untagged | stations, up, zero: 0 };
    }
    for (id, interface) in interfaces.iter() {
        let here = ports.iter().any(|port| port.number == interface.port);
        let reverse_path = match interface.policy.urpf {
            ReversePath::Off => 0,
            ReversePath::Loose => INTERFACE_LOOSE,
            ReversePath::Strict => INTERFACE_STRICT,
        };
        let flags = if here { INTERFACE_HERE } else { 0 }
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

fn fill_rules(to: &mut Settings, ports: &[PlanePort], lists: RuleLists<'_>) -> Result<(), PublishError> {
    let all_judged_again = ports.iter().all(|port| port.up == Up::Socket);
    match rules::fill4(&mut to.list4, lists.filters, lists.steered) {
        Ok(counts) => (to.rules4, to.all_rules4) = counts,
        Err(TooMany(_)) if all_judged_again => (to.rules4, to.all_rules4) = rules::everything_up4(&mut to.list4),
        Err(TooMany(found)) => return Err(PublishError::Rules { family: "IPv4", found }),
    }
    match rules::fill6(&mut to.list6, lists.filters, lists.steered) {
        Ok(counts) => (to.rules6, to.all_rules6) = counts,
        Err(TooMany(_)) if all_judged_again => (to.rules6, to.all_rules6) = rules::everything_up6(&mut to.list6),
        Err(TooMany(found)) => return Err(PublishError::Rules { family: "IPv6", found }),
    }
    Ok(())
}
