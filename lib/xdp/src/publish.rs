// SPDX-License-Identifier: MIT
//! The router's side: shows the plane what is published as a whole, and reads what it counts.
//!
//! There are two settings. The one that does not hold is written, then the state says that it holds. Packets that are
//! on their way may still read the other one: it may be written again after a grace period of the kernel's, [`grace`].

use crate::compared::differing;
use crate::layout::{INTERFACES, LINK_SLOTS, PORT_ALL_UP, PORTS, Port, Settings};
use crate::load::Maps;
use crate::mapped::Mapped;
use crate::rules::FILTERS;
use crate::settings::{NO_LINK, enter, fill_interfaces, fill_rules, fill_tables, link_slot, link_slots};
use perigee_fib::Arena;
use perigee_modules::Tables;
use perigee_net::Rule;
use rustix::thread::{MembarrierCommand, membarrier};
use std::io;
use std::mem::offset_of;
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
    /// Whether the program is in the interface's driver; else it is behind it, where whatever it redirects is sent.
    pub in_driver: bool,
    /// Whether programs in drivers may send by it (`takes_redirected` of lib/socket). What they cannot
    /// send goes up.
    pub sends: bool,
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
    /// A port's number is out of range.
    #[error("port {number} on the interface with the index {link}; expected fewer than {PORTS} ports")]
    Port {
        /// The port's number.
        number: u16,
        /// The index.
        link: u32,
    },
    /// Packets may still be on their way that read what would be written.
    #[error("the in-kernel plane was shown other tables a moment ago")]
    Unsettled,
    /// Too many rules, where what goes up passes no other filter.
    #[error(
        "{found} rules for {family}; with `stack = \"linux\"` there may be {FILTERS} filters of a family: have fewer, or use \
         nft"
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
    arena: Arc<Arena>,
    next: Box<Settings>,
    current: u32,
    /// How often settings have begun to hold, and how many of those times packets of before are done with.
    shown: u64,
    settled: u64,
    /// The filters that hits are counted for, the workers' counters of them, and whether either is new.
    filters: Vec<Rule>,
    hits: usize,
    renewed: bool,
    /// Families of which all packets go up, as there are too many rules.
    too_many: [bool; 2],
}

fn new_settings() -> Result<Box<Settings>, PublishError> {
    Settings::new_box_zeroed().map_err(|_| PublishError::NotShared("the settings: no memory is left"))
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
            arena: Arena::map(&maps.arena, maps.arena_bytes)?,
            next: Settings::new_box_zeroed().map_err(|_| io::ErrorKind::OutOfMemory)?,
            current: 0,
            shown: 0,
            settled: 0,
            filters: Vec::new(),
            hits: 0,
            renewed: false,
            too_many: [false; 2],
        })
    }

    /// The memory for tables that both planes read.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Lets the plane forward by these tables from the next packet on. A [`grace`] period has to pass, and be
    /// [settled](Self::settle), before the next time.
    ///
    /// # Errors
    /// The plane cannot forward by them; what it had before holds.
    pub fn publish(&mut self, tables: &Tables, ports: &[PlanePort]) -> Result<(), PublishError> {
        self.next.zero();
        fill_tables(&mut self.next, tables)?;
        fill_interfaces(&mut self.next, tables, ports)?;
        let lists = tables.rule_lists().ok_or(PublishError::NotShared("a list of filters"))?;
        let too_many = fill_rules(&mut self.next, &lists, ports)?;
        self.show()?;
        let hits = tables.hits_identity();
        self.renewed |= lists.filters != self.filters || hits != self.hits;
        (self.filters, self.hits, self.too_many) = (lists.filters, hits, too_many);
        Ok(())
    }

    /// What the plane reads otherwise than these tables say, by name: nothing, if it was shown them last.
    ///
    /// # Errors
    /// The plane cannot forward by them.
    pub fn differences(&self, tables: &Tables, ports: &[PlanePort]) -> Result<Vec<&'static str>, PublishError> {
        let mut wanted = new_settings()?;
        fill_tables(&mut wanted, tables)?;
        fill_interfaces(&mut wanted, tables, ports)?;
        let lists = tables.rule_lists().ok_or(PublishError::NotShared("a list of filters"))?;
        fill_rules(&mut wanted, &lists, ports)?;
        Ok(differing(self.held()?.as_ref(), &wanted))
    }

    /// A copy of what the plane reads now.
    fn held(&self) -> Result<Box<Settings>, PublishError> {
        let mut held = new_settings()?;
        let words = self.settings.words();
        let current = self.state.words()[0].load(Ordering::Acquire) as usize & 1;
        let held_words = held.as_mut_bytes().as_chunks_mut::<8>().0;
        for (to, word) in held_words.iter_mut().zip(&words[current * words.len() / 2..]) {
            *to = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        Ok(held)
    }

    /// Lets all packets of these ports go up, as they came, from the next one on: where the plane cannot forward by the
    /// router's tables, and at the end. What goes to Linux has passed the filters that hold now. Otherwise as
    /// [`publish`](Self::publish).
    ///
    /// # Errors
    /// No grace period has passed, or there is no memory.
    pub fn hand_on_everything(&mut self, ports: &[PlanePort]) -> Result<(), PublishError> {
        let held = self.held()?;
        self.next.zero();
        let next = &mut self.next;
        (next.rules4, next.all_rules4, next.list4) = (held.rules4, held.all_rules4, held.list4);
        (next.rules6, next.all_rules6, next.list6) = (held.rules6, held.all_rules6, held.list6);
        for port in ports {
            // One that does not fit was never shown, so that its packets are Linux's.
            if let Ok(place) = enter(&mut self.next, port) {
                self.next.ports[place].flags = PORT_ALL_UP;
            }
        }
        self.show()
    }

    /// Lets all packets of a port go up that the plane has not been shown yet, and forgets the interface that it had
    /// before, if any: in place, so that it takes no grace period.
    ///
    /// # Errors
    /// Its number is out of range.
    pub fn add_port(&mut self, port: &PlanePort, before: Option<u32>) -> Result<(), PublishError> {
        self.next.zero();
        let place = enter(&mut self.next, port)?;
        let entry = Port { flags: PORT_ALL_UP, ..self.next.ports[place] };
        let words = self.settings.words();
        for settings in words.chunks_exact(words.len() / 2) {
            let links = &settings[offset_of!(Settings, links) / 8..][..LINK_SLOTS];
            let find = |link: u32, wanted: &dyn Fn(u64) -> bool| {
                link_slots(link).find(|at| wanted(links[*at].load(Ordering::Relaxed)))
            };
            let is_of = |link: u32| move |slot: u64| slot >> 32 == u64::from(link);
            if let Some(at) = before.and_then(|before| find(before, &is_of(before))) {
                links[at].store(NO_LINK, Ordering::Relaxed);
            }
            let at = (offset_of!(Settings, ports) + place * size_of::<Port>()) / 8;
            for (to, word) in settings[at..].iter().zip(entry.as_bytes().as_chunks::<8>().0) {
                to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            }
            // Last: who finds the port finds its entry.
            let free = |slot: u64| slot == 0 || slot == NO_LINK;
            let at = find(port.link, &is_of(port.link)).or_else(|| find(port.link, &free));
            let at = at.ok_or(PublishError::Port { number: port.number, link: port.link })?;
            links[at].store(link_slot(port.link, place as u8), Ordering::Release);
        }
        Ok(())
    }

    /// The filters that the plane counts packets under, by their places in this list.
    pub fn filters(&self) -> &[Rule] {
        &self.filters
    }

    /// Whether hits count from zero since the last call: there are other filters, or workers count from zero as well.
    pub fn take_renewed(&mut self) -> bool {
        std::mem::take(&mut self.renewed)
    }

    /// Whether all packets of IPv4, and of IPv6, go up, as there are too many filters, steers and exceptions.
    pub fn too_many_rules(&self) -> [bool; 2] {
        self.too_many
    }

    /// How often settings have begun to hold: to be asked before a [`grace`] period, and given to
    /// [`settle`](Self::settle) after it.
    pub fn shown(&self) -> u64 {
        self.shown
    }

    /// A [`grace`] period has passed since settings had begun to hold for so many times.
    pub fn settle(&mut self, shown: u64) {
        self.settled = self.settled.max(shown);
    }

    fn show(&mut self) -> Result<(), PublishError> {
        if self.settled < self.shown {
            return Err(PublishError::Unsettled);
        }
        let words = self.next.as_bytes().as_chunks::<8>().0;
        let other = 1 - self.current;
        let to = &self.settings.words()[other as usize * words.len()..];
        for (to, word) in to.iter().zip(words) {
            to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        // Release: the settings are written before they hold. The state is the low half of its word.
        self.state.words()[0].store(u64::from(other), Ordering::Release);
        self.current = other;
        self.shown += 1;
        Ok(())
    }
}
