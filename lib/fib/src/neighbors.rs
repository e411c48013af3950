// SPDX-License-Identifier: MIT
//! The neighbors on connected networks, as workers look them up: which next hop belongs to an address on a link.
//!
//! A route to a connected network leads to a link, not to a neighbor. Packets that find such a route, and no others,
//! are looked up here by link and destination. So a neighbor takes nothing of the lookup structures, however many there
//! are, and every prefix that is longer than the connected network's comes before it.
//!
//! A hash table with open addressing: the interface and the address are hashed with a secret, and the slots from there
//! on are compared until one is empty. A slot takes half a cache line. It is patched in place by
//! [`NeighborTableWriter`], which never writes another key into a slot that a reader may be comparing: a slot that was
//! taken out waits for a grace period.

mod writer;

pub use writer::{NeighborTableWriter, TableMemory};

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

use crate::lookup::simd::prefetch;
use crate::lookup::table::Memory;
#[cfg(not(feature = "loom"))]
use crate::lookup::table::Table;
use crate::next_hop::NextHopId;
use crate::publish::sync::atomic::{AtomicU64, Ordering};
use perigee_net::{Address, InterfaceId};

/// Addresses that are hashed, and whose slots are prefetched, before the first of them is compared.
const AHEAD: usize = 32;

/// A slot that has never been used since the table was made: no key is found from here on.
const EMPTY: u64 = 0;
/// A slot whose neighbor was taken out, and which readers may still be looking at.
const DEAD: u64 = 1;
/// As [`DEAD`], after a grace period: it may be used again.
const VACANT: u64 = 2;
/// This bit, the family, the interface, and the next hop's id in the low 24 bits.
const LIVE: u64 = 1 << 63;
const FAMILY: u64 = 1 << 40;
const ID_BITS: u64 = (1 << 24) - 1;

/// What one neighbor takes, and no cache line more.
#[cfg_attr(not(feature = "loom"), derive(zerocopy::FromZeros))]
#[cfg_attr(feature = "loom", derive(Default))]
#[repr(C, align(32))]
struct Slot {
    /// One of the constants above. Stored last, with release: who sees a live slot also sees its address.
    what: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
    #[cfg(not(feature = "loom"))]
    unused: u64,
}

/// A table's slots. The model checker's are not plain memory.
#[cfg(not(feature = "loom"))]
type Slots = Table<[Slot]>;
#[cfg(feature = "loom")]
type Slots = Box<[Slot]>;

#[cfg(not(feature = "loom"))]
fn empty_slots(memory: &Memory, count: usize) -> Option<Slots> {
    memory.slice(count).ok()
}

#[cfg(feature = "loom")]
fn empty_slots(_memory: &Memory, count: usize) -> Option<Slots> {
    Some(std::iter::repeat_with(Slot::default).take(count).collect())
}

/// Where a table of neighbors is in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborParts {
    /// The line at which the slots begin.
    pub slots: u32,
    /// How many slots there are, less one.
    pub mask: u32,
    /// What keys are hashed with.
    pub secret: [u64; 3],
}

/// What a neighbor is found by.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    /// [`LIVE`], family and interface, at their places in a slot.
    scope: u64,
    high: u64,
    low: u64,
}

impl Key {
    #[inline]
    fn new(interface: InterfaceId, is_v6: bool, bits: u128) -> Self {
        let scope = LIVE | if is_v6 { FAMILY } else { 0 } | u64::from(interface.0) << 24;
        Self { scope, high: (bits >> 64) as u64, low: bits as u64 }
    }

    fn of(interface: InterfaceId, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::new(interface, false, v4.to_bits().into()),
            IpAddr::V6(v6) => Self::new(interface, true, v6.to_bits()),
        }
    }
}

/// Numbers that nobody else knows: without them, whoever chooses addresses could fill one place of the table.
#[derive(Clone, Copy, Default)]
struct Secret([u64; 3]);

impl Secret {
    /// A random one: the keys of a new hash map are, and differ from one to the next. The model checker wants each run
    /// to be like the one before.
    fn random() -> Self {
        if cfg!(feature = "loom") {
            return Self([1, 2, 3]);
        }
        Self(std::array::from_fn(|_| RandomState::new().build_hasher().finish()))
    }

    /// The product of 128 bits, folded, as in wyhash: each bit of the key has an effect on all bits of the result.
    #[inline]
    fn hash(self, key: Key) -> usize {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let Self([a, b, c]) = self;
        fold(fold(key.high ^ a, key.low ^ b) ^ key.scope, c | 1) as usize
    }
}

/// The workers' half: shared, changing in place, never locked. [`NeighborTableWriter`] fills it.
pub struct NeighborTable {
    /// A power of two, of which some are always empty.
    slots: Slots,
    secret: Secret,
}

/// No neighbors.
impl Default for NeighborTable {
    fn default() -> Self {
        let slots = empty_slots(&Memory::Own, 1);
        Self { slots: slots.expect("a page of memory"), secret: Secret::default() }
    }
}

impl NeighborTable {
    /// Where it is in an arena; `None` if it is in memory that this process alone reads.
    #[cfg(not(feature = "loom"))]
    pub fn parts(&self) -> Option<NeighborParts> {
        let mask = self.slots.len() as u32 - 1;
        Some(NeighborParts { slots: self.slots.line()?, mask, secret: self.secret.0 })
    }

    #[inline]
    fn slot(&self, hash: usize) -> &Slot {
        // In range, as the length is a power of two.
        &self.slots[hash & (self.slots.len() - 1)]
    }

    /// The next hop of a key, searched from its hash on.
    #[inline]
    fn search(&self, key: Key, hash: usize) -> Option<NextHopId> {
        // Ends, as some slots are empty, and at the latest after all of them.
        for at in 0..self.slots.len() {
            let slot = self.slot(hash.wrapping_add(at));
            let what = slot.what.load(Ordering::Acquire);
            if what & !ID_BITS == key.scope
                && slot.low.load(Ordering::Relaxed) == key.low
                && slot.high.load(Ordering::Relaxed) == key.high
            {
                return Some(NextHopId((what & ID_BITS) as u32));
            }
            if what == EMPTY {
                break;
            }
        }
        None
    }

    /// The next hop of the neighbor `address` on the link of `interface`, if it is known.
    pub fn find(&self, interface: InterfaceId, address: IpAddr) -> Option<NextHopId> {
        let key = Key::of(interface, address);
        self.search(key, self.secret.hash(key))
    }

    /// Finds the next hops of many neighbors: `ids[i]` becomes that of `addresses[i]` on the link of `interfaces[i]`,
    /// or [`NextHopId::NO_ROUTE`] if none is known. The cache misses of several addresses overlap.
    ///
    /// # Panics
    /// If the three are not of one length.
    pub fn lookup_batch<A: Address + Into<u128>>(&self, interfaces: &[u16], addresses: &[A], ids: &mut [u32]) {
        assert!(interfaces.len() == addresses.len() && ids.len() == addresses.len(), "one of each for every packet");
        let is_v6 = A::BITS == 128;
        let chunks = interfaces.chunks(AHEAD).zip(addresses.chunks(AHEAD)).zip(ids.chunks_mut(AHEAD));
        for ((interfaces, addresses), ids) in chunks {
            let mut hashes = [0; AHEAD];
            let key = |interface: u16, address: A| Key::new(InterfaceId(interface), is_v6, address.into());
            for ((hash, interface), address) in hashes.iter_mut().zip(interfaces).zip(addresses) {
                *hash = self.secret.hash(key(*interface, *address));
                prefetch(self.slot(*hash));
            }
            for (((id, hash), interface), address) in ids.iter_mut().zip(hashes).zip(interfaces).zip(addresses) {
                *id = self.search(key(*interface, *address), hash).unwrap_or(NextHopId::NO_ROUTE).0;
            }
        }
    }
}
