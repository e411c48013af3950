// SPDX-License-Identifier: MIT
//! How a poptrie follows a change of its prefixes: a new version of one node, or of the whole table.

use std::sync::atomic::Ordering;

use prefix_trie::PrefixMap;

use super::{
    Builder, Cell, Family, GAPS, GROWTH, LEAF, NAME, Node, Poptrie, PoptrieWriter, STRIDE, Short, bases, leaf, upto,
};
use crate::lookup::LookupError;
use crate::lookup::blocks::Block;
use crate::lookup::runs::{Run, runs, splice, split};
use crate::next_hop::NextHopId;
use perigee_net::{Prefix6, PrefixOf};

/// Every prefix, its address left-aligned in 128 bits.
type Prefixes = PrefixMap<Prefix6, NextHopId>;

/// A node on the way to a prefix.
#[derive(Clone, Copy)]
struct Step {
    /// Its index, and its content.
    index: u32,
    node: Node,
    /// How many bits of the address lead to it, and the value of the next ones in the prefix.
    depth: u32,
    value: usize,
}

/// What readers can no longer find.
#[derive(Default)]
struct Gone {
    nodes: Vec<Block>,
    leaves: Vec<Block>,
}

impl Gone {
    /// The arrays of a node's children and of its leaves, but not what is below the children.
    fn arrays([vector, leafvec, bases]: Node, gone: &mut Self) {
        if vector != 0 {
            gone.nodes.push(Block { start: (bases >> 32) as u32, len: vector.count_ones() });
        }
        if leafvec != 0 {
            gone.leaves.push(Block { start: bases as u32, len: leafvec.count_ones() });
        }
    }

    /// The arrays of a node, and everything below its children.
    fn all_below<A: Family>(node: Node, shared: &Poptrie<A>, gone: &mut Self) {
        Self::arrays(node, gone);
        let first = (node[2] >> 32) as u32;
        (first..first + node[0].count_ones()).for_each(|child| Self::all_below(shared.node(child), shared, gone));
    }
}

/// The bits of an address that a node at this depth looks at.
fn value_at(address: u128, depth: u32) -> usize {
    (address << depth >> (128 - STRIDE)) as usize
}

/// The block of `len` bits around a prefix that is no shorter.
fn within(prefix: Prefix6, len: u32) -> Prefix6 {
    PrefixOf::truncated(prefix.addr(), len as u8).expect("shorter than a prefix")
}

impl<A: Family> Poptrie<A> {
    fn child(&self, [vector, _, bases]: Node, value: usize) -> Option<u32> {
        (vector >> value & 1 != 0).then(|| (bases >> 32) as u32 + upto(vector, value) - 1)
    }

    fn cells(&self, node: Node) -> [Cell; 1 << STRIDE] {
        let [_, leafvec, bases] = node;
        std::array::from_fn(|value| match self.child(node, value) {
            Some(child) => Cell::Node(self.node(child)),
            None => {
                let index = bases as u32 + upto(leafvec, value) - 1;
                Cell::Leaf(self.leaves[index as usize].load(Ordering::Relaxed))
            }
        })
    }
}

impl<A: Family> PoptrieWriter<A> {
    fn builder<'a>(&'a mut self, shared: &'a Poptrie<A>) -> Builder<'a, A> {
        let (nodes, leaves) = (&mut self.nodes, &mut self.leaves);
        Builder { shared, nodes, leaves, taken_nodes: Vec::new(), taken_leaves: Vec::new(), short: None }
    }

    /// Takes back what a builder has made of something that did not fit.
    fn undo(&mut self, nodes: Vec<Block>, leaves: Vec<Block>) {
        nodes.into_iter().for_each(|block| self.nodes.give_back(block));
        leaves.into_iter().for_each(|block| self.leaves.give_back(block));
    }

    fn retire(&mut self, gone: Gone) {
        gone.nodes.into_iter().for_each(|block| self.nodes.retire(block));
        gone.leaves.into_iter().for_each(|block| self.leaves.retire(block));
    }

    /// The runs of a block, from the prefixes in it and around it.
    fn runs(&self, block: Prefix6) -> Vec<Run> {
        let around = self.prefixes.get_lpm(&within(block, u32::from(block.len()) - 1));
        let cover = around.filter(|(prefix, _)| prefix.len() > 0).map_or(0, |(_, &id)| leaf(id));
        runs(block, cover, self.prefixes.children(&block).map(|(prefix, &id)| (prefix, leaf(id))))
    }

    /// The runs of a block that had one leaf until `prefix` changed. Many prefixes with one next hop may lie in it:
    /// only those in the changed one are looked at.
    fn runs_after(&self, block: Prefix6, leaf: u32, prefix: Prefix6) -> Vec<Run> {
        let known = [Run { start: block.addr(), leaf }];
        splice(&known, block.last(), [(prefix, &self.runs(prefix)[..])].into_iter())
    }

    /// Updates the table after this prefix has been added, changed or removed. If there is no room nothing has changed.
    pub(super) fn apply(&mut self, prefix: Prefix6) -> Result<(), Short> {
        if prefix.len() == 0 {
            let default = self.prefixes.get(&prefix).map_or(NextHopId::NO_ROUTE, |&id| id);
            self.shared.default.store(default.0, Ordering::Release);
            return Ok(());
        }
        self.compaction.changed();
        let len = u32::from(prefix.len());
        if len <= A::DIRECT {
            return self.rewrite(prefix, &self.runs(prefix));
        }
        let at = (prefix.addr() >> (128 - A::DIRECT)) as usize;
        let entry = self.shared.direct[at].load(Ordering::Relaxed);
        if entry & LEAF != 0 {
            let block = within(prefix, A::DIRECT);
            return self.rewrite(block, &self.runs_after(block, entry & !LEAF, prefix));
        }
        let path = self.path(entry, prefix);
        self.rewrite_node(at, path, prefix)
    }

    /// The nodes on the way to where a prefix ends.
    fn path(&self, entry: u32, prefix: Prefix6) -> Vec<Step> {
        let (mut index, mut depth, mut path) = (entry, A::DIRECT, Vec::new());
        loop {
            let (node, value) = (self.shared.node(index), value_at(prefix.addr(), depth));
            path.push(Step { index, node, depth, value });
            match self.shared.child(node, value) {
                Some(child) if u32::from(prefix.len()) > depth + STRIDE => (index, depth) = (child, depth + STRIDE),
                _ => return path,
            }
        }
    }

    /// The runs of the cells of a node that a prefix reaches into.
    fn runs_of_cells(&self, step: &Step, prefix: Prefix6) -> Vec<Run> {
        let (len, end) = (u32::from(prefix.len()), step.depth + STRIDE);
        match self.shared.cells(step.node)[step.value] {
            Cell::Leaf(leaf) if len > end => self.runs_after(within(prefix, end), leaf, prefix),
            _ => self.runs(within(prefix, len.min(end))),
        }
    }

    /// Replaces the last node of a path, which begins at this entry of the first table, after a change of `prefix`.
    fn rewrite_node(&mut self, at: usize, mut path: Vec<Step>, prefix: Prefix6) -> Result<(), Short> {
        let shared = self.shared.clone();
        let last = path.pop().expect("an entry leads to a node");
        let runs = self.runs_of_cells(&last, prefix);
        let mut gone = Gone::default();
        let mut builder = self.builder(&shared);
        let link = builder.link(last, &mut path, &runs, prefix, &mut gone);
        let (nodes, leaves, short) = (builder.taken_nodes, builder.taken_leaves, builder.short);
        let Some(link) = link else {
            self.undo(nodes, leaves);
            return Err(short.expect("nothing else stops a builder"));
        };
        // Release: what it leads to has been filled.
        match path.last() {
            Some(parent) => {
                let [vector, _, old] = parent.node;
                gone.nodes.push(Block { start: (old >> 32) as u32, len: vector.count_ones() });
                shared.nodes[parent.index as usize][2].store(bases(link, old as u32), Ordering::Release);
            }
            None => {
                let start = shared.direct[at].load(Ordering::Relaxed);
                gone.nodes.push(Block { start, len: 1 });
                shared.direct[at].store(link, Ordering::Release);
            }
        }
        self.retire(gone);
        Ok(())
    }

    /// Makes the entries of a block from its runs.
    fn rewrite(&mut self, block: Prefix6, runs: &[Run]) -> Result<(), Short> {
        let shared = self.shared.clone();
        let (len, addr) = (u32::from(block.len()), block.addr());
        let bits = A::DIRECT - len;
        let mut fresh = Vec::with_capacity(1 << bits);
        let mut builder = self.builder(&shared);
        let mut put = |runs: &[Run]| {
            fresh.push(builder.entry(runs)?);
            Some(())
        };
        let _ = if bits == 0 { put(runs) } else { split(runs, len, bits, |_, runs| put(runs)) };
        if let Some(short) = builder.short {
            let (nodes, leaves) = (builder.taken_nodes, builder.taken_leaves);
            self.undo(nodes, leaves);
            return Err(short);
        }
        let first = (addr >> (128 - A::DIRECT)) as usize;
        let mut gone = Gone::default();
        for (entry, fresh) in shared.direct[first..].iter().zip(fresh) {
            let old = entry.load(Ordering::Relaxed);
            entry.store(fresh, Ordering::Release);
            if old & LEAF == 0 {
                gone.nodes.push(Block { start: old, len: 1 });
                Gone::all_below(shared.node(old), &shared, &mut gone);
            }
        }
        self.retire(gone);
        Ok(())
    }

    /// A table of these prefixes with room for so many nodes and leaves; otherwise as this one.
    pub(super) fn copy(&self, prefixes: &Prefixes, room: (u32, u32)) -> Result<Self, LookupError> {
        let mut copy = Self { limits: self.limits, ..Self::with(room)? };
        let default = PrefixOf::truncated(0, 0).expect("the shortest length");
        if let Some(id) = prefixes.get(&default) {
            copy.shared.default.store(id.0, Ordering::Relaxed);
        }
        let longer = prefixes.iter().filter(|(prefix, _)| prefix.len() > 0);
        let runs = runs(default, 0, longer.map(|(prefix, &id)| (prefix, leaf(id))));
        copy.rewrite(default, &runs).map_err(|(what, limit)| LookupError::TableFull {
            prefixes: prefixes.len(),
            structure: NAME,
            what,
            limit,
        })?;
        Ok(copy)
    }

    /// Builds the table again with this much room. After an error it is unchanged.
    pub(super) fn build_again(&mut self, room: (u32, u32)) -> Result<(), LookupError> {
        let copy = self.copy(&self.prefixes, room)?;
        let prefixes = std::mem::replace(&mut self.prefixes, PrefixMap::new());
        *self = Self { prefixes, ..copy };
        Ok(())
    }

    /// Builds the table again with as much room as it takes: for a removal that has found none.
    pub(super) fn grow(&mut self) -> Result<(), LookupError> {
        let mut times = 1;
        loop {
            let (nodes, leaves) = self.limits;
            match self.build_again((nodes.saturating_mul(times), leaves.saturating_mul(times))) {
                Err(LookupError::TableFull { .. }) if times < GROWTH => times *= 2,
                done => return done,
            }
        }
    }

    /// Whether so much is free or retired that a table without gaps would have room.
    pub(super) fn has_gaps(&self) -> bool {
        [&self.nodes, &self.leaves].iter().any(|blocks| blocks.touched() - blocks.used() > blocks.limit() / GAPS)
    }
}

/// The leaf of a node that has no other, and no children.
fn only_leaf(cells: &[Cell; 1 << STRIDE]) -> Option<u32> {
    match cells[0] {
        Cell::Leaf(leaf) if cells.iter().all(|cell| *cell == cells[0]) => Some(leaf),
        _ => None,
    }
}

impl<A: Family> Builder<'_, A> {
    /// Makes a new version of the node `last`, in whose cells `prefix` has these runs, or of the nearest one above it,
    /// on `path`, that does not become a single leaf. Returns what leads to it: the place of its array of siblings
    /// if a node is left on the path, else the entry of the first table.
    fn link(
        &mut self,
        last: Step,
        path: &mut Vec<Step>,
        runs: &[Run],
        prefix: Prefix6,
        gone: &mut Gone,
    ) -> Option<u32> {
        let mut cells = self.cells_after(&last, runs, prefix, gone)?;
        Gone::arrays(last.node, gone);
        while let Some(leaf) = only_leaf(&cells) {
            // It becomes a leaf of its parent.
            let Some(parent) = path.pop() else { return Some(LEAF | leaf) };
            cells = self.shared.cells(parent.node);
            cells[parent.value] = Cell::Leaf(leaf);
            Gone::arrays(parent.node, gone);
        }
        let node = self.put_cells(&cells)?;
        match path.last() {
            Some(parent) => self.put_sibling(parent, node),
            None => self.put_nodes(&[node]),
        }
    }

    /// The cells of a node of which those that `prefix` reaches into have these runs.
    fn cells_after(
        &mut self,
        step: &Step,
        runs: &[Run],
        prefix: Prefix6,
        gone: &mut Gone,
    ) -> Option<[Cell; 1 << STRIDE]> {
        let (len, end) = (u32::from(prefix.len()), step.depth + STRIDE);
        let mut cells = self.shared.cells(step.node);
        let reached = &mut cells[step.value..step.value + (1 << end.saturating_sub(len))];
        for cell in reached.iter() {
            if let Cell::Node(node) = cell {
                Gone::all_below(*node, self.shared, gone);
            }
        }
        if let [run] = runs {
            reached.fill(Cell::Leaf(run.leaf));
        } else if len >= end {
            reached[0] = self.cell(runs, end)?;
        } else {
            split(runs, len, end - len, |which, runs| {
                reached[which] = self.cell(runs, end)?;
                Some(())
            })?;
        }
        Some(cells)
    }

    /// Writes the children of a node of which that on the path is replaced by `node`; returns where they are.
    fn put_sibling(&mut self, parent: &Step, node: Node) -> Option<u32> {
        let [vector, _, bases] = parent.node;
        let first = (bases >> 32) as u32;
        let mut children: Vec<Node> = (first..first + vector.count_ones()).map(|at| self.shared.node(at)).collect();
        children[upto(vector, parent.value) as usize - 1] = node;
        self.put_nodes(&children)
    }
}
