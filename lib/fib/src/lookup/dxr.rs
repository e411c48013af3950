// SPDX-License-Identifier: MIT
//! DXR for IPv4 (Zec, Rizzo, Mikuc: "DXR: Towards a Billion Routing Lookups per Second in Software", 2012): the first 16
//! to 20 bits of an address index a table, and the rest is searched by bisection in the ranges of that chunk. Small, and
//! fast for traffic that stays in few chunks; with random destinations the branches of a bisection cannot be predicted.
//!
//! D16 is the smallest table with the longest bisections, D20 the largest with the shortest. The authors' second format
//! of ranges, of half the size for chunks without prefixes longer than /24, is not implemented.
//!
//! It is not changed in place: changes are collected, and [`commit`](LookupWriter::commit) builds a whole table, which
//! replaces the old one when it is published.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::lookup::runs::{Run, runs};
use crate::lookup::slots::Slots;
use crate::lookup::table::Table;
use crate::lookup::{Lookup, LookupError, LookupWriter, check_id};
use crate::next_hop::NextHopId;
use crate::publish::grace::Grace;
use perigee_net::{Prefix4, PrefixOf};

/// The next hop of a range has 16 bits.
const MAX_ID: u32 = u16::MAX as u32;
/// Addresses looked up side by side.
const PASS: usize = 64;
const NAMES: [&str; 5] = ["dxr16", "dxr17", "dxr18", "dxr19", "dxr20"];

/// The readers' half; it never changes.
pub struct Dxr {
    bits: u8,
    /// By chunk: the number of its ranges in the high half, the index of the first in the low half. Without ranges the low
    /// half is the next hop of the whole chunk.
    chunks: Table<[AtomicU64]>,
    /// Where a range starts within its chunk in the high half, its next hop in the low half. The first starts at 0.
    ranges: Table<[AtomicU32]>,
    used: usize,
}

fn name(bits: u8) -> &'static str {
    NAMES[usize::from(bits) - 16]
}

impl Dxr {
    fn build(slots: &Slots, bits: u8) -> Result<Self, LookupError> {
        let memory = |_| LookupError::Memory { structure: name(bits) };
        let mut ranges: Vec<u32> = Vec::new();
        let mut words = Vec::new();
        words.try_reserve_exact(slots.len()).map_err(|_| memory(()))?;
        let low = u32::MAX >> bits;
        // Left-aligned in 128 bits, as `runs` has its prefixes.
        let aligned = |addr: u32, len| PrefixOf::truncated(u128::from(addr) << 96, len).expect("at most 32 bits");
        for slot in 0..slots.len() {
            let block = aligned((slot as u32) << (32 - bits), bits);
            let inside = slots.list(slot).iter().map(|item| (aligned(item.addr(), item.len()), item.id()));
            let found = runs(block, slots.base(slot), inside);
            if let [Run { leaf, .. }] = found[..] {
                words.push(u64::from(leaf));
                continue;
            }
            words.push((found.len() as u64) << 32 | ranges.len() as u64);
            ranges.try_reserve(found.len()).map_err(|_| memory(()))?;
            ranges.extend(found.iter().map(|run| ((run.start >> 96) as u32 & low) << 16 | run.leaf));
        }
        let used = ranges.len();
        let table = Self {
            bits,
            chunks: Table::zeroed_slice(words.len()).map_err(|_| memory(()))?,
            ranges: Table::zeroed_slice(used.max(1)).map_err(|_| memory(()))?,
            used,
        };
        table.chunks.iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        table.ranges.iter().zip(ranges).for_each(|(to, range)| to.store(range, Ordering::Relaxed));
        Ok(table)
    }

    #[inline(always)]
    fn chunk(&self, address: u32) -> u64 {
        self.chunks[(address >> (32 - self.bits)) as usize].load(Ordering::Relaxed)
    }

    /// The next hop of an address in a chunk.
    #[inline(always)]
    fn search(&self, chunk: u64, address: u32) -> u32 {
        let mut left = (chunk >> 32) as usize;
        if left == 0 {
            return chunk as u32;
        }
        // The range sought is the last that starts at or before the address; it is one of the `left` from `first` on.
        let mut first = chunk as u32 as usize;
        let wanted = (address & u32::MAX >> self.bits) << 16 | MAX_ID;
        while left > 1 {
            let half = left / 2;
            first += if self.ranges[first + half].load(Ordering::Relaxed) <= wanted { half } else { 0 };
            left -= half;
        }
        self.ranges[first].load(Ordering::Relaxed) & MAX_ID
    }
}

impl Lookup<u32> for Dxr {
    fn name(&self) -> &'static str {
        name(self.bits)
    }

    fn lookup(&self, address: u32) -> NextHopId {
        NextHopId(self.search(self.chunk(address), address))
    }

    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        for (addresses, ids) in addresses.chunks(PASS).zip(ids.chunks_mut(PASS)) {
            let mut searches = [Search::default(); PASS];
            let (mut count, mut longest) = (0, 0);
            for (place, (id, &address)) in ids.iter_mut().zip(addresses).enumerate() {
                let chunk = self.chunk(address);
                *id = chunk as u32;
                let left = (chunk >> 32) as u32;
                let wanted = (address & u32::MAX >> self.bits) << 16 | MAX_ID;
                searches[count % PASS] = Search { first: *id, left, wanted, place: place as u32 };
                count += usize::from(left > 0);
                longest = longest.max(left);
            }
            self.search_all(&mut searches[..count], longest);
            for search in &searches[..count] {
                ids[search.place as usize % PASS] = self.ranges[search.first as usize].load(Ordering::Relaxed) & MAX_ID;
            }
        }
    }
}

/// One bisection of a batch: see [`Dxr::search`].
#[derive(Clone, Copy, Default)]
struct Search {
    first: u32,
    left: u32,
    wanted: u32,
    place: u32,
}

impl Dxr {
    /// All bisections of a batch side by side, step by step: no branch is to be predicted, and their cache misses overlap.
    fn search_all(&self, searches: &mut [Search], mut longest: u32) {
        while longest > 1 {
            for search in &mut *searches {
                let half = search.left / 2;
                let range = self.ranges[(search.first + half) as usize].load(Ordering::Relaxed);
                search.first += half & u32::from(range <= search.wanted).wrapping_neg();
                search.left -= half;
            }
            longest -= longest / 2;
        }
    }
}

/// The control thread's half.
pub struct DxrWriter {
    bits: u8,
    slots: Slots,
    shared: Arc<Dxr>,
    dirty: bool,
}

impl DxrWriter {
    /// An empty table whose chunks are the prefixes of `bits` bits, 16 to 20.
    ///
    /// # Panics
    /// If `bits` is out of that range.
    pub fn new(bits: u8) -> Result<Self, LookupError> {
        assert!((16..=20).contains(&bits), "DXR has chunks of 16 to 20 bits");
        let slots = Slots::new(bits).ok_or(LookupError::Memory { structure: name(bits) })?;
        let shared = Arc::new(Dxr::build(&slots, bits)?);
        Ok(Self { bits, slots, shared, dirty: false })
    }

    fn check(&self, id: NextHopId) -> Result<(), LookupError> {
        check_id(name(self.bits), id, MAX_ID)
    }
}

impl LookupWriter<u32> for DxrWriter {
    fn reader(&self) -> Arc<dyn Lookup<u32>> {
        self.shared.clone()
    }

    fn view(&self) -> &dyn Lookup<u32> {
        &*self.shared
    }

    fn load(&mut self, routes: &[(Prefix4, NextHopId)]) -> Result<(), LookupError> {
        routes.iter().try_for_each(|(_, id)| self.check(*id))?;
        let slots = Slots::load(self.bits, routes).ok_or(LookupError::Memory { structure: name(self.bits) })?;
        self.shared = Arc::new(Dxr::build(&slots, self.bits)?);
        (self.slots, self.dirty) = (slots, false);
        Ok(())
    }

    fn insert(&mut self, prefix: Prefix4, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        self.check(id)?;
        self.dirty = true;
        Ok(self.slots.set(prefix, Some(id)))
    }

    fn remove(&mut self, prefix: Prefix4) -> Result<NextHopId, LookupError> {
        self.slots.check_present(prefix)?;
        self.dirty = true;
        Ok(self.slots.set(prefix, None).unwrap_or(NextHopId::NO_ROUTE))
    }

    fn commit_is_cheap(&self) -> bool {
        false
    }

    /// Rebuilds the table. After an error the old one stays in use, and the next call tries again.
    fn commit(&mut self) -> Result<(), LookupError> {
        if self.dirty {
            self.shared = Arc::new(Dxr::build(&self.slots, self.bits)?);
            self.dirty = false;
        }
        Ok(())
    }

    /// After a commit: memory was short for the table.
    fn uncommitted(&self) -> bool {
        self.dirty
    }

    fn reclaim(&mut self, _: Grace) {}

    fn retired(&self) -> usize {
        0
    }

    fn memory(&self) -> usize {
        self.shared.chunks.len() * size_of::<AtomicU64>() + self.shared.used * size_of::<AtomicU32>()
    }
}
