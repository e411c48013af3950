// SPDX-License-Identifier: MIT
//! BM19 for IPv4: one node of eight bytes per /19, a bitmap of the runs of its 32 /24, and where their next hops are.
//!
//! A node's bitmap has a bit for each /24 whose next hop differs from that of the /24 before it; the number of bits set
//! up to an address's /24 is the place of its leaf, counted from the node's base. A /19 with one next hop throughout
//! has no bitmap: its base is the leaf. A leaf is a next hop or, for a /24 with longer prefixes in it, a group of 256
//! of them. The full Internet table takes four megabytes of nodes and about two of leaves.
//!
//! A change encodes its /19 again, into leaves that no reader has, and stores the node as one word. The old leaves are
//! retired. When the leaves are used up, a table with room for more replaces this one.

mod writer;

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};

use crate::lookup::simd::Isa;
use crate::lookup::simd::ipv4::{self, Leaves, Nodes};
use crate::lookup::table::{Memory, Table};
use crate::lookup::{Lookup, Parts, Parts4};
use crate::next_hop::NextHopId;

pub use writer::Bm19Writer;

const NAME: &str = "bm19";
/// How many /24 are in a slot, which is a /19.
pub(crate) const PLACES: usize = 32;
/// How many addresses are in a /24.
const GROUP: usize = 256;
/// A leaf of 32 bits is a group if this bit is set, and the low bits are its number; otherwise they are a next hop.
const EXTENDED: u32 = 1 << 31;
/// A leaf of 16 bits is laid out alike: next hops and groups up to this one fit.
const NARROW_MAX: u32 = (1 << 15) - 1;

/// The readers' half.
pub struct Bm19 {
    nodes: Table<Nodes>,
    leaves: Words,
    /// 256 leaves each, all of them next hops, for every /24 with longer prefixes inside.
    groups: Words,
    isa: Isa,
}

/// Leaves: of 16 bits while all next hops fit, which halves the cache they take.
enum Words {
    Narrow(Table<[AtomicU16]>),
    Wide(Table<[AtomicU32]>),
}

impl Words {
    fn new(memory: &Memory, wide: bool, len: usize) -> Option<Self> {
        let len = len.next_multiple_of(2);
        Some(match wide {
            false => Self::Narrow(memory.slice(len).ok()?),
            true => Self::Wide(memory.slice(len).ok()?),
        })
    }

    /// A leaf, widened to 32 bits.
    #[inline]
    fn get(&self, at: usize) -> u32 {
        match self {
            Self::Narrow(words) => ipv4::widen(words[at].load(Ordering::Relaxed)),
            Self::Wide(words) => words[at].load(Ordering::Relaxed),
        }
    }

    /// Stores leaves, given as 32 bits, from `at` on; all of them fit.
    #[inline]
    fn set(&self, at: usize, leaves: &[u32]) {
        match self {
            Self::Narrow(words) => {
                let narrow = |leaf: u32| (leaf | leaf >> 16) as u16;
                words[at..].iter().zip(leaves).for_each(|(word, leaf)| word.store(narrow(*leaf), Ordering::Relaxed));
            }
            Self::Wide(words) => {
                words[at..].iter().zip(leaves).for_each(|(word, leaf)| word.store(*leaf, Ordering::Relaxed));
            }
        }
    }

    fn is_wide(&self) -> bool {
        matches!(self, Self::Wide(_))
    }

    fn line(&self) -> Option<u32> {
        match self {
            Self::Narrow(words) => words.line(),
            Self::Wide(words) => words.line(),
        }
    }

    fn bytes(&self, words: u32) -> usize {
        words as usize * if self.is_wide() { 4 } else { 2 }
    }
}

impl Bm19 {
    fn new(memory: &Memory, wide: bool, leaves: u32, groups: u32, isa: Isa) -> Option<Self> {
        let leaves = Words::new(memory, wide, leaves as usize)?;
        let groups = Words::new(memory, wide, groups as usize * GROUP)?;
        Some(Self { nodes: memory.table().ok()?, leaves, groups, isa })
    }

    /// Where its parts are in an arena.
    pub(crate) fn parts4(&self) -> Option<Parts4> {
        Some(Parts4 {
            nodes: self.nodes.line()?,
            leaves: self.leaves.line()?,
            groups: self.groups.line()?,
            wide: self.leaves.is_wide(),
            bytes: None,
            codes: None,
        })
    }

    /// The largest next hop and group number that fit.
    fn max(&self) -> u32 {
        if self.leaves.is_wide() { NextHopId::MAX } else { NARROW_MAX }
    }

    /// The node of a slot.
    #[inline]
    fn node(&self, slot: usize) -> u64 {
        // Acquire: leaves are written before their node becomes visible.
        self.nodes[slot].load(Ordering::Acquire)
    }

    /// Finishes the lookups that have found a group.
    #[cold]
    fn look_into_groups(&self, addresses: &[u32], ids: &mut [u32]) {
        // A group is filled before its leaf becomes visible.
        fence(Ordering::Acquire);
        for (id, &address) in ids.iter_mut().zip(addresses) {
            *id = self.in_group(*id, address);
        }
    }

    #[inline]
    fn in_group(&self, leaf: u32, address: u32) -> u32 {
        match leaf & EXTENDED {
            0 => leaf,
            _ => self.groups.get((leaf ^ EXTENDED) as usize * GROUP + address as usize % GROUP),
        }
    }
}

impl Lookup<u32> for Bm19 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parts(&self) -> Option<Parts> {
        self.parts4().map(Parts::V4)
    }

    #[inline]
    fn lookup(&self, address: u32) -> NextHopId {
        let node = self.node((address >> 13) as usize);
        let leaf = match node >> 32 {
            0 => node as u32,
            _ => self.leaves.get(ipv4::leaf_index(node, address) as usize),
        };
        NextHopId(self.in_group(leaf, address))
    }

    #[inline]
    fn prefetch_batch(&self, addresses: &[u32]) {
        if self.isa != Isa::Scalar {
            ipv4::prefetch_nodes(&self.nodes, addresses);
        }
    }

    #[inline]
    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        self.prefetch_batch(addresses);
        self.lookup_prefetched(addresses, ids);
    }

    #[inline]
    fn lookup_prefetched(&self, addresses: &[u32], ids: &mut [u32]) {
        let leaves = match &self.leaves {
            Words::Narrow(leaves) => Leaves::Narrow(leaves),
            Words::Wide(leaves) => Leaves::Wide(leaves),
        };
        let all = ipv4::bm19(self.isa, &self.nodes, leaves, addresses, ids);
        if all & EXTENDED != 0 {
            self.look_into_groups(addresses, ids);
        }
    }
}
