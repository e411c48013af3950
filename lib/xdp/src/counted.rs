// SPDX-License-Identifier: MIT
//! What the plane counts, read without a lock.

use crate::layout::Counters;
use crate::load::Maps;
use crate::mapped::Mapped;
use perigee_modules::{MODULES, ModuleId, all_reasons};
use std::io;
use std::sync::atomic::Ordering;
use zerocopy::{FromZeros, IntoBytes};

/// The map of counters.
pub struct PlaneCounters(Mapped);

impl PlaneCounters {
    /// Maps it into memory.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(maps: &Maps) -> io::Result<PlaneCounters> {
        Ok(PlaneCounters(Mapped::new(&maps.counters, maps.cpus * Counters::WORDS)?))
    }

    /// What was counted so far, by all processors together.
    pub fn sum(&self) -> Box<Counters> {
        let mut sum = vec![0u64; Counters::WORDS];
        for row in self.0.words().chunks_exact(Counters::WORDS) {
            sum.iter_mut().zip(row).for_each(|(sum, word)| *sum = sum.wrapping_add(word.load(Ordering::Relaxed)));
        }
        let mut counters = Counters::new_box_zeroed().expect("memory for counters");
        counters.as_mut_bytes().copy_from_slice(sum.as_bytes());
        counters
    }
}

impl Counters {
    /// Sets a router's counters to these.
    pub fn count_into(&self, to: &perigee_modules::Counters) {
        count_into(self, to);
    }
}

/// A packet that left under a module's reason has come into it, and into those before it on its family's way.
fn count_into(counted: &Counters, to: &perigee_modules::Counters) {
    const WAY4: [ModuleId; 7] = [
        ModuleId::classify,
        ModuleId::ipv4_valid,
        ModuleId::ipv4_lookup,
        ModuleId::mtu,
        ModuleId::ttl,
        ModuleId::apply,
        ModuleId::distribute,
    ];
    const WAY6: [ModuleId; 7] = [
        ModuleId::classify,
        ModuleId::ipv6_valid,
        ModuleId::ipv6_lookup,
        ModuleId::mtu,
        ModuleId::hop_limit,
        ModuleId::apply,
        ModuleId::distribute,
    ];
    let mut packets = [0u64; ModuleId::COUNT];
    let mut pass = |way: &[ModuleId], count: u64| way.iter().for_each(|module| packets[*module as usize] += count);
    pass(&WAY4, counted.forwarded[0]);
    pass(&WAY6, counted.forwarded[1]);
    for (reason, module, info) in all_reasons().filter(|(reason, ..)| usize::from(reason.0) < counted.reasons.len()) {
        let count = counted.reasons[usize::from(reason.0)];
        to.set_reason(reason, count);
        let is_6 = module.contains('6') || info.name.starts_with("ipv6") || module == "hop_limit";
        let way = if is_6 { &WAY6 } else { &WAY4 };
        let place = way.iter().position(|id| MODULES[*id as usize].name == module);
        // Filters and reverse paths come before the lookup.
        pass(&way[..place.map_or(2, |place| place + 1)], count);
    }
    for (module, count) in packets.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        to.set_module(module, count);
    }
}
