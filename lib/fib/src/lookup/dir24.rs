// SPDX-License-Identifier: MIT
//! DIR-24-8 for IPv4 (Gupta, Lin, McKeown: "Routing Lookups in Hardware at Memory Access Speeds", 1998): one
//! entry per /24, and groups of 256 entries for those /24 that have longer prefixes inside.
//!
//! In front of it is a summary with one entry per /16, for every /16 that has one next hop throughout: 256 KB that stay
//! in the cache, and with few routes nothing else is read.
//!
//! An entry carries the length of the prefix it comes from, so the writer sees which entries a change owns
//! without a table of its own. The default route is kept beside the table: setting it is one store, and
//! a router with few routes touches few pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use prefix_trie::PrefixMap;

use crate::lookup::table::Table;
use crate::lookup::{Lookup, LookupError, LookupWriter, check_id};
use crate::next_hop::NextHopId;
use crate::publish::grace::{Deferred, Grace};
use perigee_net::Prefix4;

const NAME: &str = "dir24";
const ENTRIES: usize = 1 << 24;
const GROUP: usize = 256;
const MAX_GROUPS: u32 = (ENTRIES / GROUP) as u32;
/// Addresses per pass: their entries are all loaded before any is looked at, so that the cache misses overlap.
const PASS: usize = 256;

/// An entry's low 24 bits are a group's index if this bit is set, else a next hop's id ...
const EXTENDED: u32 = 1 << 31;
const LOW: u32 = (1 << 24) - 1;
/// ... and these bits the length of its prefix, 1 to 32. An entry of zero lies in no prefix but the default.
const LEN_SHIFT: u32 = 24;
/// In the summary: the entries of this /16 differ, and the low bits mean nothing.
const MIXED: u32 = EXTENDED;
/// How many /16 there are, and how many /24 in each.
const SUMMARIES: usize = 1 << 16;
const PER_SUMMARY: usize = ENTRIES / SUMMARIES;

fn entry(id: NextHopId, len: u8) -> u32 {
    id.0 | u32::from(len) << LEN_SHIFT
}

/// Prefix length of an entry that is not extended.
fn len_of(entry: u32) -> u8 {
    (entry >> LEN_SHIFT) as u8
}

/// A table of 2^24 entries.
type Entries = Table<[AtomicU32; ENTRIES]>;

const MEMORY: LookupError = LookupError::Memory { structure: NAME };

/// The readers' half.
pub struct Dir24 {
    summary: Table<[AtomicU32; SUMMARIES]>,
    first: Entries,
    groups: Entries,
    default: AtomicU32,
}

impl Dir24 {
    /// The index of the entry of `address` in `group`. Both parts are in range, so no bounds are checked.
    #[inline]
    fn in_group(group: u32, address: u32) -> usize {
        ((group & 0xffff) << 8 | address & 0xff) as usize
    }

    #[inline]
    fn finish(entry: u32, default: u32) -> u32 {
        if entry == 0 { default } else { entry & LOW }
    }

    #[inline]
    fn group_entry(&self, entry: u32, address: u32) -> u32 {
        self.groups[Self::in_group(entry & LOW, address)].load(Ordering::Relaxed)
    }

    /// The second pass, for a batch with at least one address in a mixed /16.
    fn look_into_mixed(&self, addresses: &[u32], entries: &mut [u32]) {
        let mut any = 0;
        for (entry, &address) in entries.iter_mut().zip(addresses) {
            if *entry & MIXED != 0 {
                *entry = self.first[(address >> 8) as usize].load(Ordering::Relaxed);
                any |= *entry;
            }
        }
        if any & EXTENDED != 0 {
            // A group is filled before its index becomes visible.
            fence(Ordering::Acquire);
            self.look_into_groups(addresses, entries);
        }
    }

    /// The third pass, for a batch with at least one extended entry.
    fn look_into_groups(&self, addresses: &[u32], entries: &mut [u32]) {
        for (entry, &address) in entries.iter_mut().zip(addresses) {
            if *entry & EXTENDED != 0 {
                *entry = self.group_entry(*entry, address);
            }
        }
    }
}

impl Lookup<u32> for Dir24 {
    fn name(&self) -> &'static str {
        NAME
    }

    #[inline]
    fn lookup(&self, address: u32) -> NextHopId {
        // Acquire: what an entry stands for is filled before the entry becomes visible.
        let mut entry = self.summary[(address >> 16) as usize].load(Ordering::Acquire);
        if entry & MIXED != 0 {
            entry = self.first[(address >> 8) as usize].load(Ordering::Acquire);
        }
        if entry & EXTENDED != 0 {
            entry = self.group_entry(entry, address);
        }
        NextHopId(Self::finish(entry, self.default.load(Ordering::Acquire)))
    }

    #[inline]
    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        for (addresses, ids) in addresses.chunks(PASS).zip(ids.chunks_mut(PASS)) {
            let mut any = 0;
            for (id, &address) in ids.iter_mut().zip(addresses) {
                *id = self.summary[(address >> 16) as usize].load(Ordering::Relaxed);
                any |= *id;
            }
            // The entries of a /16 are stored before it is marked as mixed, and next hops before their ids.
            fence(Ordering::Acquire);
            if any & MIXED != 0 {
                self.look_into_mixed(addresses, ids);
            }
            let default = self.default.load(Ordering::Acquire);
            for id in ids {
                *id = Self::finish(*id, default);
            }
        }
    }
}

/// The control thread's half.
pub struct Dir24Writer {
    shared: Arc<Dir24>,
    /// Every prefix, to find the next shorter one when one is removed.
    prefixes: PrefixMap<Prefix4, NextHopId>,
    /// Groups from here on have never been used.
    untouched: u32,
    free: Vec<u32>,
    retired: Deferred<u32>,
    limit: u32,
}

impl Dir24Writer {
    /// An empty table.
    pub fn new() -> Result<Self, LookupError> {
        Self::with_groups(MAX_GROUPS)
    }

    /// An empty table with room for at most `limit` /24 that have longer prefixes inside (1 KiB each; at most 65,536).
    pub fn with_groups(limit: u32) -> Result<Self, LookupError> {
        let summary = Table::zeroed().map_err(|_| MEMORY)?;
        let (first, groups) = (Table::zeroed().map_err(|_| MEMORY)?, Table::zeroed().map_err(|_| MEMORY)?);
        let shared = Arc::new(Dir24 { summary, first, groups, default: AtomicU32::new(0) });
        let limit = limit.min(MAX_GROUPS);
        Ok(Self { shared, prefixes: PrefixMap::new(), untouched: 0, free: Vec::new(), retired: Deferred::new(), limit })
    }

    fn full(&self, prefix: Prefix4) -> LookupError {
        LookupError::Full { prefix: prefix.into(), structure: NAME, what: "groups of long prefixes", limit: self.limit }
    }

    fn take_group(&mut self) -> Option<u32> {
        if let Some(group) = self.free.pop() {
            return Some(group);
        }
        let group = self.untouched;
        (group < self.limit).then(|| {
            self.untouched += 1;
            group
        })
    }

    fn group(&self, group: u32) -> &[AtomicU32] {
        &self.shared.groups[group as usize * GROUP..][..GROUP]
    }

    /// The entries of `prefix` in the group of its /24.
    fn part_of_group(&self, group: u32, prefix: Prefix4) -> &[AtomicU32] {
        let start = (prefix.addr() & 0xff) as usize;
        &self.group(group)[start..][..1 << (32 - prefix.len())]
    }

    fn slot(&self, prefix: Prefix4) -> &AtomicU32 {
        &self.shared.first[(prefix.addr() >> 8) as usize]
    }

    /// The group of a prefix longer than /24, which is made if there is none yet.
    fn ensure_group(&mut self, prefix: Prefix4) -> Result<u32, LookupError> {
        let old = self.slot(prefix).load(Ordering::Relaxed);
        if old & EXTENDED != 0 {
            return Ok(old & LOW);
        }
        let group = self.take_group().ok_or_else(|| self.full(prefix))?;
        fill(self.group(group), old, |_| true);
        self.slot(prefix).store(EXTENDED | group, Ordering::Release);
        Ok(group)
    }

    /// Stores `new` in every entry of `prefix` whose length satisfies `owns`.
    fn store(&self, prefix: Prefix4, new: u32, owns: impl Fn(u8) -> bool + Copy) {
        let start = (prefix.addr() >> 8) as usize;
        for slot in &self.shared.first[start..][..1 << (24 - prefix.len())] {
            let old = slot.load(Ordering::Relaxed);
            if old & EXTENDED != 0 {
                fill(self.group(old & LOW), new, owns);
            } else if owns(len_of(old)) {
                slot.store(new, Ordering::Release);
            }
        }
    }

    /// Updates the summary after the entries of `prefix` have changed.
    fn summarize(&self, prefix: Prefix4) {
        let start = (prefix.addr() >> 16) as usize;
        for at in start..start + (1 << 16u32.saturating_sub(prefix.len().into())) {
            let entries = &self.shared.first[at * PER_SUMMARY..][..PER_SUMMARY];
            let one = entries[0].load(Ordering::Relaxed);
            let alike = one & EXTENDED == 0 && entries.iter().all(|entry| entry.load(Ordering::Relaxed) == one);
            self.shared.summary[at].store(if alike { one } else { MIXED }, Ordering::Release);
        }
    }

    /// Retires the group of `prefix` if no prefix longer than /24 is left in it.
    fn fold_group(&mut self, prefix: Prefix4, group: u32) {
        let mut entries = self.group(group).iter().map(|entry| entry.load(Ordering::Relaxed));
        if entries.all(|entry| len_of(entry) <= 24) {
            // All entries are equal: this one becomes the entry of the /24.
            let entry = self.group(group)[0].load(Ordering::Relaxed);
            self.slot(prefix).store(entry, Ordering::Release);
            self.retired.retire(group);
        }
    }
}

/// Stores `new` in every entry whose length satisfies `owns`.
fn fill(entries: &[AtomicU32], new: u32, owns: impl Fn(u8) -> bool) {
    for entry in entries {
        if owns(len_of(entry.load(Ordering::Relaxed))) {
            entry.store(new, Ordering::Release);
        }
    }
}

impl LookupWriter<u32> for Dir24Writer {
    fn reader(&self) -> Arc<dyn Lookup<u32>> {
        self.shared.clone()
    }

    fn view(&self) -> &dyn Lookup<u32> {
        &*self.shared
    }

    fn load(&mut self, routes: &[(Prefix4, NextHopId)]) -> Result<(), LookupError> {
        let mut fresh = Self::with_groups(self.limit)?;
        for (prefix, id) in routes {
            fresh.insert(*prefix, *id)?;
        }
        *self = fresh;
        Ok(())
    }

    fn insert(&mut self, prefix: Prefix4, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        check_id(NAME, id, NextHopId::MAX)?;
        let new = entry(id, prefix.len());
        // Entries of longer prefixes are kept.
        let owns = |len| len <= prefix.len();
        match prefix.len() {
            0 => self.shared.default.store(id.0, Ordering::Release),
            1..=24 => self.store(prefix, new, owns),
            _ => {
                let group = self.ensure_group(prefix)?;
                fill(self.part_of_group(group, prefix), new, owns);
            }
        }
        if prefix.len() > 0 {
            self.summarize(prefix);
        }
        Ok(self.prefixes.insert(prefix, id))
    }

    fn remove(&mut self, prefix: Prefix4) -> Result<NextHopId, LookupError> {
        let id = self.prefixes.remove(&prefix).ok_or_else(|| LookupError::Missing { prefix: prefix.into() })?;
        let new = match self.prefixes.get_lpm(&prefix) {
            Some((cover, &id)) if cover.len() > 0 => entry(id, cover.len()),
            _ => 0,
        };
        let owns = |len| len == prefix.len();
        match prefix.len() {
            0 => self.shared.default.store(0, Ordering::Release),
            1..=24 => self.store(prefix, new, owns),
            _ => {
                let group = self.slot(prefix).load(Ordering::Relaxed) & LOW;
                fill(self.part_of_group(group, prefix), new, owns);
                self.fold_group(prefix, group);
            }
        }
        if prefix.len() > 0 {
            self.summarize(prefix);
        }
        Ok(id)
    }

    fn reclaim(&mut self, grace: Grace) {
        self.free.extend(self.retired.reclaim(grace));
    }

    fn retired(&self) -> usize {
        self.retired.len()
    }

    fn memory(&self) -> usize {
        size_of::<[AtomicU32; SUMMARIES]>()
            + size_of::<[AtomicU32; ENTRIES]>()
            + self.untouched as usize * GROUP * size_of::<AtomicU32>()
    }
}
