// SPDX-License-Identifier: MIT
//! Poptrie for both families (Asai, Ohara: "Poptrie: A Compressed Trie with Population Count for Fast and Scalable
//! Software IP Routing Table Lookup", SIGCOMM 2015), written from the paper.
//!
//! The first bits of an address lead straight to a leaf or a node ("direct pointing": 18 bits for IPv4, 16 for IPv6),
//! and each node looks at six more. A node is two bitmaps of 64: `vector` says which values lead to another node,
//! `leafvec` where among the others a leaf differs from the one before it. The children and the leaves of a node are
//! contiguous, so counting bits finds them from `base1` and `base0` on.
//!
//! A change makes a new version of the node where the prefix ends, in a copy of the array that the node and its
//! siblings are in: up to 64 nodes, in memory that no reader has. One store into the parent's word of bases, or into
//! the first table, makes it visible, and what it replaces is retired. The default route is kept beside the table.
//!
//! A table whose changes have left gaps is built again as a whole, and so is one in which a removal finds no room:
//! removals do not fail.

mod change;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use prefix_trie::PrefixMap;

use crate::lookup::blocks::{Block, Blocks};
use crate::lookup::compaction::Compaction;
use crate::lookup::runs::{Run, split};
use crate::lookup::table::Table;
use crate::lookup::{Lookup, LookupError, LookupWriter, check_id};
use crate::next_hop::NextHopId;
use crate::publish::grace::Grace;
use perigee_net::{Address, Prefix6, PrefixOf};

const NAME: &str = "poptrie";
/// How many bits a node looks at.
const STRIDE: u32 = 6;
/// Limits of nodes and leaves: 96 MiB and 64 MiB of address space, which takes memory only as it is used.
const MAX_NODES: u32 = 1 << 22;
const MAX_LEAVES: u32 = 1 << 24;
/// How many times as large a table may become if removals need room.
const GROWTH: u32 = 16;
/// An insertion that finds no room has the table built again if more than one part in this many is free or retired.
const GAPS: u32 = 8;
/// Addresses whose first entries are loaded before any is looked at.
const PASS: usize = 64;
/// An entry of the first table: a leaf if this bit is set, else a node.
const LEAF: u32 = 1 << 31;

/// The address families, as a poptrie sees them.
pub trait Family: Address + Into<u128> {
    /// Bits of the first table.
    const DIRECT: u32;
    /// `bits` bits of the address from `from` on; bits past its end are zero.
    fn bits(self, from: u32, bits: u32) -> usize;
}

impl Family for u32 {
    const DIRECT: u32 = 18;
    #[inline(always)]
    fn bits(self, from: u32, bits: u32) -> usize {
        (u64::from(self) << 32 << from >> (64 - bits)) as usize
    }
}

impl Family for u128 {
    const DIRECT: u32 = 16;
    #[inline(always)]
    fn bits(self, from: u32, bits: u32) -> usize {
        (self << from >> (128 - bits)) as usize
    }
}

/// Leaves are ids plus one: 0 means that only the default route matches.
fn leaf(id: NextHopId) -> u32 {
    id.0 + 1
}

/// A node: `vector`, `leafvec`, and `base1` and `base0` in one word.
type Node = [u64; 3];

/// How many bits of `bitmap` are set up to and including bit `value`.
#[inline(always)]
fn upto(bitmap: u64, value: usize) -> u32 {
    (bitmap & u64::MAX >> (63 - value)).count_ones()
}

/// The readers' half.
pub struct Poptrie<A> {
    direct: Table<[AtomicU32]>,
    nodes: Table<[[AtomicU64; 3]]>,
    leaves: Table<[AtomicU32]>,
    default: AtomicU32,
    family: PhantomData<A>,
}

impl<A: Family> Poptrie<A> {
    #[inline(always)]
    fn node(&self, index: u32) -> Node {
        let words = &self.nodes[index as usize];
        // Acquire: the children are filled before their base becomes visible. The bitmaps of a node never change.
        let bases = words[2].load(Ordering::Acquire);
        [words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed), bases]
    }

    /// The leaf of an address whose first bits have this entry.
    #[inline(always)]
    fn descend(&self, entry: u32, address: A) -> u32 {
        if entry & LEAF != 0 {
            return entry & !LEAF;
        }
        let (mut node, mut depth) = (self.node(entry), A::DIRECT);
        loop {
            let value = address.bits(depth, STRIDE);
            let [vector, leafvec, bases] = node;
            if vector >> value & 1 == 0 {
                let index = bases as u32 + upto(leafvec, value) - 1;
                return self.leaves[index as usize].load(Ordering::Relaxed);
            }
            node = self.node((bases >> 32) as u32 + upto(vector, value) - 1);
            depth += STRIDE;
        }
    }

    #[inline(always)]
    fn id(&self, leaf: u32) -> u32 {
        if leaf == 0 { self.default.load(Ordering::Acquire) } else { leaf - 1 }
    }
}

impl<A: Family> Lookup<A> for Poptrie<A> {
    fn name(&self) -> &'static str {
        NAME
    }

    #[inline]
    fn lookup(&self, address: A) -> NextHopId {
        // Acquire: what an entry leads to is filled before the entry becomes visible.
        let entry = self.direct[address.bits(0, A::DIRECT)].load(Ordering::Acquire);
        NextHopId(self.id(self.descend(entry, address)))
    }

    fn lookup_batch(&self, addresses: &[A], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        for (addresses, ids) in addresses.chunks(PASS).zip(ids.chunks_mut(PASS)) {
            for (id, &address) in ids.iter_mut().zip(addresses) {
                *id = self.direct[address.bits(0, A::DIRECT)].load(Ordering::Relaxed);
            }
            fence(Ordering::Acquire);
            for (id, &address) in ids.iter_mut().zip(addresses) {
                *id = self.id(self.descend(*id, address));
            }
        }
    }
}

/// The control thread's half.
pub struct PoptrieWriter<A> {
    shared: Arc<Poptrie<A>>,
    /// Every prefix, its address left-aligned in 128 bits.
    prefixes: PrefixMap<Prefix6, NextHopId>,
    nodes: Blocks,
    leaves: Blocks,
    /// Nodes and leaves up to which insertions are accepted.
    limits: (u32, u32),
    compaction: Compaction,
    /// Whether readers do not see a removal yet, for want of memory.
    behind: bool,
}

/// What has run out, and its limit.
type Short = (&'static str, u32);

/// What a node has for one of its values: a leaf, or a node below.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Leaf(u32),
    Node(Node),
}

/// The third word of a node.
fn bases(base1: u32, base0: u32) -> u64 {
    u64::from(base1) << 32 | u64::from(base0)
}

/// Writes nodes and leaves that no reader has yet.
struct Builder<'a, A> {
    shared: &'a Poptrie<A>,
    nodes: &'a mut Blocks,
    leaves: &'a mut Blocks,
    /// What has been taken so far: to be given back if the rest does not fit.
    taken_nodes: Vec<Block>,
    taken_leaves: Vec<Block>,
    short: Option<Short>,
}

impl<A: Family> Builder<'_, A> {
    /// The entry of the first table for a block of addresses, all with the same first `A::DIRECT` bits, that has these
    /// runs.
    fn entry(&mut self, runs: &[Run]) -> Option<u32> {
        if let [run] = runs {
            return Some(LEAF | run.leaf);
        }
        let node = self.node(runs, A::DIRECT)?;
        self.put_nodes(&[node])
    }

    fn node(&mut self, runs: &[Run], depth: u32) -> Option<Node> {
        let mut cells = [Cell::Leaf(0); 1 << STRIDE];
        split(runs, depth, STRIDE, |value, inside| {
            cells[value] = self.cell(inside, depth + STRIDE)?;
            Some(())
        })?;
        self.put_cells(&cells)
    }

    /// What a node has for one of its values: a block of addresses with these runs, all with the same first `depth`
    /// bits.
    fn cell(&mut self, runs: &[Run], depth: u32) -> Option<Cell> {
        match runs {
            [run] => Some(Cell::Leaf(run.leaf)),
            _ => self.node(runs, depth).map(Cell::Node),
        }
    }

    /// Writes the children and the leaves of a node with these cells; returns the node.
    fn put_cells(&mut self, cells: &[Cell; 1 << STRIDE]) -> Option<Node> {
        let (mut vector, mut leafvec) = (0, 0);
        let (mut children, mut leaves) = (Vec::new(), Vec::new());
        for (value, cell) in cells.iter().enumerate() {
            match cell {
                Cell::Node(child) => {
                    vector |= 1 << value;
                    children.push(*child);
                }
                Cell::Leaf(leaf) if leaves.last() != Some(leaf) => {
                    leafvec |= 1 << value;
                    leaves.push(*leaf);
                }
                Cell::Leaf(_) => (),
            }
        }
        let (base1, base0) = (self.put_nodes(&children)?, self.put_leaves(&leaves)?);
        Some([vector, leafvec, bases(base1, base0)])
    }

    fn put_nodes(&mut self, nodes: &[Node]) -> Option<u32> {
        if nodes.is_empty() {
            return Some(0);
        }
        let len = nodes.len() as u32;
        let Some(start) = self.nodes.take(len) else {
            self.short = Some(("nodes", self.nodes.limit()));
            return None;
        };
        self.taken_nodes.push(Block { start, len });
        for (to, node) in self.shared.nodes[start as usize..].iter().zip(nodes) {
            to.iter().zip(node).for_each(|(to, word)| to.store(*word, Ordering::Relaxed));
        }
        Some(start)
    }

    fn put_leaves(&mut self, leaves: &[u32]) -> Option<u32> {
        if leaves.is_empty() {
            return Some(0);
        }
        let len = leaves.len() as u32;
        let Some(start) = self.leaves.take(len) else {
            self.short = Some(("leaves", self.leaves.limit()));
            return None;
        };
        self.taken_leaves.push(Block { start, len });
        self.shared.leaves[start as usize..]
            .iter()
            .zip(leaves)
            .for_each(|(to, leaf)| to.store(*leaf, Ordering::Relaxed));
        Some(start)
    }
}

/// A prefix with its address left-aligned in 128 bits.
fn aligned<A: Family>(prefix: PrefixOf<A>) -> Prefix6 {
    let addr: u128 = prefix.addr().into();
    PrefixOf::truncated(addr << (128 - A::BITS), prefix.len()).expect("the family's lengths are shorter")
}

impl<A: Family> PoptrieWriter<A> {
    /// An empty table.
    pub fn new() -> Result<Self, LookupError> {
        Self::with_room(MAX_NODES, MAX_LEAVES)
    }

    /// An empty table with room for `nodes` nodes (24 bytes each, at most 4,194,304) and `leaves` leaves (4 bytes each,
    /// at most 16,777,216).
    pub fn with_room(nodes: u32, leaves: u32) -> Result<Self, LookupError> {
        Self::with((nodes.min(MAX_NODES), leaves.min(MAX_LEAVES)))
    }

    fn with((nodes, leaves): (u32, u32)) -> Result<Self, LookupError> {
        let memory = |_| LookupError::Memory { structure: NAME };
        let shared = Poptrie {
            direct: Table::zeroed_slice(1 << A::DIRECT).map_err(memory)?,
            nodes: Table::zeroed_slice(nodes as usize).map_err(memory)?,
            leaves: Table::zeroed_slice(leaves as usize).map_err(memory)?,
            default: AtomicU32::new(NextHopId::NO_ROUTE.0),
            family: PhantomData,
        };
        shared.direct.iter().for_each(|entry| entry.store(LEAF, Ordering::Relaxed));
        Ok(Self {
            shared: Arc::new(shared),
            prefixes: PrefixMap::new(),
            nodes: Blocks::new(0, nodes),
            leaves: Blocks::new(0, leaves),
            limits: (nodes, leaves),
            compaction: Compaction::default(),
            behind: false,
        })
    }

    /// Bytes of nodes and leaves that changes have written so far, since the table was built as a whole: a measure of
    /// their cost.
    pub fn bytes_written(&self) -> u64 {
        self.nodes.handed_out() * size_of::<Node>() as u64 + self.leaves.handed_out() * size_of::<u32>() as u64
    }
}

/// Bytes of so many nodes and leaves.
fn bytes(nodes: u32, leaves: u32) -> usize {
    nodes as usize * size_of::<Node>() + leaves as usize * size_of::<u32>()
}

fn full<A: Family>(prefix: PrefixOf<A>, (what, limit): Short) -> LookupError {
    LookupError::Full { prefix: prefix.into(), structure: NAME, what, limit }
}

impl<A: Family> LookupWriter<A> for PoptrieWriter<A> {
    fn reader(&self) -> Arc<dyn Lookup<A>> {
        self.shared.clone()
    }

    fn view(&self) -> &dyn Lookup<A> {
        &*self.shared
    }

    fn load(&mut self, routes: &[(PrefixOf<A>, NextHopId)]) -> Result<(), LookupError> {
        let mut prefixes = PrefixMap::new();
        for (prefix, id) in routes {
            check_id(NAME, *id, NextHopId::MAX)?;
            prefixes.insert(aligned(*prefix), *id);
        }
        let copy = self.copy(&prefixes, self.limits)?;
        *self = Self { prefixes, ..copy };
        Ok(())
    }

    fn insert(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        check_id(NAME, id, NextHopId::MAX)?;
        let key = aligned(prefix);
        let old = self.prefixes.insert(key, id);
        let mut done = self.apply(key).map_err(|short| full(prefix, short));
        if done.is_err() && self.has_gaps() {
            // A table without gaps may have room. The old one remains with its readers.
            done = self.build_again(self.limits).map_err(|error| error.because_of(prefix.into()));
        }
        if let Err(error) = done {
            match old {
                Some(old) => self.prefixes.insert(key, old),
                None => self.prefixes.remove(&key),
            };
            return Err(error);
        }
        Ok(old)
    }

    fn remove(&mut self, prefix: PrefixOf<A>) -> Result<NextHopId, LookupError> {
        let key = aligned(prefix);
        let id = self.prefixes.remove(&key).ok_or_else(|| LookupError::Missing { prefix: prefix.into() })?;
        if self.apply(key).is_err() {
            self.behind = self.grow().is_err();
        }
        Ok(id)
    }

    fn commit(&mut self) -> Result<(), LookupError> {
        if self.behind {
            return self.grow();
        }
        let direct = size_of_val(&*self.shared.direct);
        let used = direct + bytes(self.nodes.used(), self.leaves.used());
        if self.compaction.is_due(self.prefixes.len(), self.memory(), used) {
            // If that fails the table stays as it is, which is correct too.
            let _ = self.build_again(self.limits);
        }
        Ok(())
    }

    fn uncommitted(&self) -> bool {
        self.behind
    }

    fn reclaim(&mut self, grace: Grace) {
        self.nodes.reclaim(grace);
        self.leaves.reclaim(grace);
    }

    fn retired(&self) -> usize {
        self.nodes.retired() + self.leaves.retired()
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.shared.direct) + bytes(self.nodes.touched(), self.leaves.touched())
    }
}
