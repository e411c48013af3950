// SPDX-License-Identifier: MIT
//! DXR for IPv4 (Zec, Rizzo, Mikuc: "DXR: Towards a Billion Routing Lookups per Second in Software", 2012): the first
//! 16 to 20 bits of an address index a table, and the rest is searched in the ranges of that chunk, which have the
//! authors' short format where they fit it, else the long one.
//!
//! D16 is the smallest table with the longest searches, D20 the largest with the shortest. The authors bisect the
//! ranges, whose branches cannot be predicted with random destinations. Here starts and next hops are apart
//! (`dxr/layout.rs`), so one vector compare counts the starts that are not behind the address, 64 of them or, in the
//! long format, 32; only longer chunks are bisected down to that.
//!
//! A change writes the ranges of its chunk again where no reader looks, and stores the chunk's entry, one word. The old
//! ranges are retired. A change of a prefix that is as short as a chunk does so for all chunks in which it shows.

pub(crate) mod layout;
mod writer;

use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::lookup::Lookup;
use crate::lookup::simd;
use crate::lookup::simd::Isa;
use crate::lookup::table::Table;
use crate::next_hop::NextHopId;

use layout::Layout;
pub use writer::DxrWriter;

const NAMES: [&str; 5] = ["dxr16", "dxr17", "dxr18", "dxr19", "dxr20"];

/// The readers' half.
pub struct Dxr {
    layout: Layout,
    /// By chunk: see `dxr/layout.rs`.
    entries: Table<[AtomicU32]>,
    words: Table<[AtomicU32]>,
    isa: Isa,
}

impl Dxr {
    /// An empty table with room for so many words of ranges; `None` if memory is short.
    fn new(layout: Layout, room: u32, isa: Isa) -> Option<Self> {
        let words = room as usize + simd::dxr::BEHIND;
        let (entries, words) = (Table::zeroed_slice(1 << layout.bits).ok()?, Table::zeroed_slice(words).ok()?);
        Some(Self { layout, entries, words, isa })
    }

    /// The entry of a chunk.
    #[inline(always)]
    fn entry(&self, slot: usize) -> u32 {
        // Acquire: ranges are written before the entry that leads to them becomes visible.
        self.entries[slot].load(Ordering::Acquire)
    }
}

impl Lookup<u32> for Dxr {
    fn name(&self) -> &'static str {
        NAMES[self.layout.bits as usize - 16]
    }

    #[inline]
    fn lookup(&self, address: u32) -> NextHopId {
        let entry = self.entry(self.layout.slot(address));
        NextHopId(match self.layout.chunk(&self.words, entry) {
            None => entry,
            Some(chunk) => chunk.search(&self.words, self.layout.key(address, chunk.width)),
        })
    }

    #[inline]
    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        simd::dxr::dxr(self.isa, self.layout, &self.entries, &self.words, addresses, ids);
        // A next hop is set before its id becomes visible.
        fence(Ordering::Acquire);
    }
}
