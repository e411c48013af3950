// SPDX-License-Identifier: MIT
//! A multibit trie for IPv6: the first 16 bits at once, then 8 bits per level.
//!
//! An entry is one 64-bit word: the child in the high half, and in the low half the longest prefix that ends in this
//! node. Prefixes are not pushed down into children, so a change stores into one node only, and a reader remembers the
//! last prefix it has passed. A change of either half is one store of the whole word, so readers never see it torn.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use prefix_trie::PrefixMap;

use crate::lookup::compaction::Compaction;
use crate::lookup::table::Table;
use crate::lookup::{Lookup, LookupError, LookupWriter, check_id};
use crate::next_hop::NextHopId;
use crate::publish::grace::{Deferred, Grace};
use perigee_net::Prefix6;

const NAME: &str = "trie6";
const ROOT_BITS: u8 = 16;
const NODE: usize = 256;
/// 512 MiB of address space, which takes memory only as it is used. A host without neighbors takes 14 nodes, one of
/// 20,000 random ones in a /64 four.
const ENTRIES: usize = 1 << 26;
/// Node 0 is never used: as a child it means that there is none.
const MAX_NODES: u32 = (ENTRIES / NODE) as u32 - 1;
/// A fresh node takes as long as this many prefixes elsewhere.
const NODES_PER_COST: usize = 5;
/// Levels below the root.
const LEVELS: usize = (128 - ROOT_BITS as usize) / 8;

/// Low half of an entry: 8 bits of prefix length, 24 of next hop id; 0 if no prefix ends here.
fn leaf(id: NextHopId, len: u8) -> u32 {
    id.0 | u32::from(len) << 24
}

fn len_of(entry: u64) -> u8 {
    (entry >> 24) as u8
}

fn child_of(entry: u64) -> u32 {
    (entry >> 32) as u32
}

fn with_leaf(entry: u64, leaf: u32) -> u64 {
    entry & !u64::from(u32::MAX) | u64::from(leaf)
}

fn with_child(entry: u64, child: u32) -> u64 {
    entry & u64::from(u32::MAX) | u64::from(child) << 32
}

/// The index of `address` in a node `level` levels below the root.
#[inline]
fn step(address: u128, level: usize) -> usize {
    (address >> (104 - 8 * level)) as usize & 0xff
}

/// The readers' half. Both tables are zeroed without being touched, and take memory only as their pages are used.
pub struct Trie6 {
    root: Table<[AtomicU64; 1 << ROOT_BITS]>,
    nodes: Table<[AtomicU64; ENTRIES]>,
    default: AtomicU32,
}

impl Trie6 {
    #[inline]
    fn root_entry(&self, address: u128) -> u64 {
        // Acquire, here and below: a node is emptied before it is linked, and a next hop set before its id is stored.
        self.root[(address >> 112) as usize].load(Ordering::Acquire)
    }

    #[inline]
    fn node_entry(&self, node: u32, address: u128, level: usize) -> u64 {
        self.nodes[(node as usize & MAX_NODES as usize) << 8 | step(address, level)].load(Ordering::Acquire)
    }
}

/// The prefix of this entry, or else the one found further up.
#[inline]
fn pick(entry: u64, above: u32) -> u32 {
    if entry as u32 == 0 { above } else { entry as u32 }
}

impl Lookup<u128> for Trie6 {
    fn name(&self) -> &'static str {
        NAME
    }

    #[inline]
    fn lookup(&self, address: u128) -> NextHopId {
        let mut entry = self.root_entry(address);
        let mut found = pick(entry, self.default.load(Ordering::Acquire));
        for level in 0..LEVELS {
            if child_of(entry) == 0 {
                break;
            }
            entry = self.node_entry(child_of(entry), address, level);
            found = pick(entry, found);
        }
        NextHopId(found & NextHopId::MAX)
    }

    fn lookup_batch(&self, addresses: &[u128], ids: &mut [u32]) {
        assert_eq!(addresses.len(), ids.len(), "one id per address");
        // Walking down side by side, level by level, was not faster: the processor overlaps whole lookups itself.
        for (id, &address) in ids.iter_mut().zip(addresses) {
            *id = self.lookup(address).0;
        }
    }
}

/// The control thread's half.
pub struct Trie6Writer {
    shared: Arc<Trie6>,
    /// Every prefix, to find the next shorter one when one is removed.
    prefixes: PrefixMap<Prefix6, NextHopId>,
    /// By node: the number of prefixes that end in it, plus its children. A node without any is retired.
    used: Vec<u16>,
    free: Vec<u32>,
    retired: Deferred<u32>,
    limit: u32,
    compaction: Compaction,
}

/// How many nodes below the root are passed on the way to a prefix of this length, including the one where it ends.
fn levels(len: u8) -> usize {
    usize::from(len.saturating_sub(ROOT_BITS)).div_ceil(8)
}

/// The entries of a prefix in the node where it ends.
fn span(prefix: Prefix6) -> Range<usize> {
    let (first, free_bits) = match levels(prefix.len()).checked_sub(1) {
        None => ((prefix.addr() >> 112) as usize, ROOT_BITS - prefix.len()),
        Some(level) => (step(prefix.addr(), level), (128 - prefix.len()) % 8),
    };
    first..first + (1 << free_bits)
}

impl Trie6Writer {
    /// An empty table.
    pub fn new() -> Result<Self, LookupError> {
        Self::with_nodes(MAX_NODES)
    }

    /// An empty table with room for at most `limit` nodes below the root (2 KiB each; at most 262,143).
    pub fn with_nodes(limit: u32) -> Result<Self, LookupError> {
        let memory = |_| LookupError::Memory { structure: NAME };
        let root = Table::zeroed().map_err(memory)?;
        let nodes = Table::zeroed().map_err(memory)?;
        let shared = Arc::new(Trie6 { root, nodes, default: AtomicU32::new(0) });
        let limit = limit.min(MAX_NODES);
        Ok(Self {
            shared,
            prefixes: PrefixMap::new(),
            used: vec![0],
            free: Vec::new(),
            retired: Deferred::new(),
            limit,
            compaction: Compaction::default(),
        })
    }

    /// Bytes of so many nodes below the root, and of the root.
    fn bytes(nodes: usize) -> usize {
        size_of::<[AtomicU64; 1 << ROOT_BITS]>() + nodes * NODE * size_of::<AtomicU64>()
    }

    fn node(&self, node: u32) -> &[AtomicU64] {
        &self.shared.nodes[node as usize * NODE..][..NODE]
    }

    /// The entry on the way to `address` that links to the node below the last one of `path`.
    fn link(&self, path: &[u32], address: u128) -> &AtomicU64 {
        match path {
            [] => &self.shared.root[(address >> 112) as usize],
            [.., parent] => &self.node(*parent)[step(address, path.len() - 1)],
        }
    }

    fn set_child(&self, path: &[u32], address: u128, child: u32) {
        let link = self.link(path, address);
        link.store(with_child(link.load(Ordering::Relaxed), child), Ordering::Release);
    }

    /// The nodes below the root on the way to where `prefix` ends, as far as they exist.
    fn path(&self, prefix: Prefix6) -> Vec<u32> {
        let levels = levels(prefix.len());
        let mut path = Vec::with_capacity(levels);
        while path.len() < levels {
            match child_of(self.link(&path, prefix.addr()).load(Ordering::Relaxed)) {
                0 => break,
                child => path.push(child),
            }
        }
        path
    }

    /// As [`path`](Self::path), but makes the missing nodes.
    fn make_path(&mut self, prefix: Prefix6) -> Result<Vec<u32>, LookupError> {
        let mut path = self.path(prefix);
        let missing = levels(prefix.len()) - path.len();
        if missing > self.free.len() + (self.limit as usize + 1 - self.used.len()) {
            let (prefix, limit) = (prefix.into(), self.limit);
            return Err(LookupError::Full { prefix, structure: NAME, what: "nodes", limit });
        }
        for _ in 0..missing {
            // A node is empty when it is new, and when it was retired.
            let node = self.free.pop().unwrap_or(self.used.len() as u32);
            if node as usize == self.used.len() {
                self.used.push(0);
            }
            self.set_child(&path, prefix.addr(), node);
            self.add_use(&path);
            path.push(node);
        }
        Ok(path)
    }

    /// The last node of `path` has one more prefix or child.
    fn add_use(&mut self, path: &[u32]) {
        if let Some(&node) = path.last() {
            self.used[node as usize] += 1;
        }
    }

    /// The last node of `path` has one prefix fewer: unlinks the nodes that have become empty.
    fn drop_use(&mut self, mut path: Vec<u32>, address: u128) {
        while let Some(node) = path.pop() {
            self.used[node as usize] -= 1;
            if self.used[node as usize] > 0 {
                return;
            }
            self.set_child(&path, address, 0);
            self.retired.retire(node);
        }
    }

    /// Stores `leaf` in every entry of `prefix` whose length satisfies `owns`.
    fn store(&self, path: &[u32], prefix: Prefix6, leaf: u32, owns: impl Fn(u8) -> bool) {
        let entries = path.last().map_or(&self.shared.root[..], |&node| self.node(node));
        for entry in &entries[span(prefix)] {
            let old = entry.load(Ordering::Relaxed);
            if owns(len_of(old)) {
                entry.store(with_leaf(old, leaf), Ordering::Release);
            }
        }
    }
}

impl LookupWriter<u128> for Trie6Writer {
    fn reader(&self) -> Arc<dyn Lookup<u128>> {
        self.shared.clone()
    }

    fn view(&self) -> &dyn Lookup<u128> {
        &*self.shared
    }

    fn load(&mut self, routes: &[(Prefix6, NextHopId)]) -> Result<(), LookupError> {
        let mut fresh = Self::with_nodes(self.limit)?;
        for (prefix, id) in routes {
            fresh.insert(*prefix, *id)?;
        }
        fresh.compaction = Compaction::default();
        *self = fresh;
        Ok(())
    }

    fn insert(&mut self, prefix: Prefix6, id: NextHopId) -> Result<Option<NextHopId>, LookupError> {
        check_id(NAME, id, NextHopId::MAX)?;
        if prefix.len() == 0 {
            self.shared.default.store(id.0, Ordering::Release);
            return Ok(self.prefixes.insert(prefix, id));
        }
        let path = self.make_path(prefix)?;
        // Entries of longer prefixes are kept.
        self.store(&path, prefix, leaf(id, prefix.len()), |len| len <= prefix.len());
        let old = self.prefixes.insert(prefix, id);
        if old.is_none() {
            self.add_use(&path);
        }
        self.compaction.changed();
        Ok(old)
    }

    fn remove(&mut self, prefix: Prefix6) -> Result<NextHopId, LookupError> {
        let id = self.prefixes.remove(&prefix).ok_or_else(|| LookupError::Missing { prefix: prefix.into() })?;
        if prefix.len() == 0 {
            self.shared.default.store(0, Ordering::Release);
            return Ok(id);
        }
        // Readers find a covering prefix that ends in a node above by themselves.
        let cover = match self.prefixes.get_lpm(&prefix) {
            Some((cover, &id)) if cover.len() > 0 && levels(cover.len()) == levels(prefix.len()) => {
                leaf(id, cover.len())
            }
            _ => 0,
        };
        let path = self.path(prefix);
        self.store(&path, prefix, cover, |len| len == prefix.len());
        self.drop_use(path, prefix.addr());
        self.compaction.changed();
        Ok(id)
    }

    fn commit(&mut self) -> Result<(), LookupError> {
        let used = self.used.len() - 1 - self.free.len() - self.retired.len();
        // Where nodes are many, fresh ones cost more than prefixes.
        let cost = self.prefixes.len().max(NODES_PER_COST * used);
        if self.compaction.is_due(cost, self.memory(), Self::bytes(used)) {
            // If memory is short the table stays as it is.
            let routes: Vec<_> = self.prefixes.iter().map(|(prefix, &id)| (prefix, id)).collect();
            let _ = self.load(&routes);
        }
        Ok(())
    }

    fn reclaim(&mut self, grace: Grace) {
        self.free.extend(self.retired.reclaim(grace));
    }

    fn retired(&self) -> usize {
        self.retired.len()
    }

    fn memory(&self) -> usize {
        Self::bytes(self.used.len() - 1)
    }
}
