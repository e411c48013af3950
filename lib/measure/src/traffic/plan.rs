// SPDX-License-Identifier: MIT
//! Which flow and which size the next frames have: decided before their buffers are there, as these depend on the
//! sizes.

use perigee_packet::BATCH_SIZE;

use super::random::{Alias, Random};
use super::sizes::gcd;

/// A field whose value each frame draws.
#[derive(Debug)]
pub(crate) struct Drawing {
    pub alias: Alias,
    pub ranks: u32,
    pub random: Random,
}

/// The frames that come next.
#[derive(Debug)]
pub(crate) struct Plan {
    /// How many are planned.
    pub ready: usize,
    /// Bytes in memory.
    pub lengths: Box<[u16; BATCH_SIZE]>,
    /// Indices of sizes.
    pub sizes: Box<[u16; BATCH_SIZE]>,
    pub flows: Box<[u32; BATCH_SIZE]>,
    /// The drawn values; not used where none is drawn.
    pub ranks: Box<[u32; BATCH_SIZE]>,
    size_turn: SizeTurn,
    flow_turn: FlowTurn,
}

/// The sizes in turn.
#[derive(Debug)]
struct SizeTurn {
    /// Indices of sizes.
    pattern: Vec<u16>,
    /// Bytes in memory of each size.
    lengths: Vec<u16>,
    next: usize,
    /// After so many frames flows and sizes are back at their starts together: then the sizes skip one, so that each
    /// flow has each size.
    period: u64,
    left: u64,
}

/// The flows in turn, or drawn.
#[derive(Debug)]
struct FlowTurn {
    /// How many come in turn; of each there are as many as there are ranks.
    count: u32,
    next: u32,
    drawing: Option<Drawing>,
    /// To start from again.
    seed: Random,
}

impl Plan {
    /// Nothing planned yet. `lengths` in memory of each size, `pattern` of indices into it, and `flows` in all.
    pub fn new(lengths: Vec<u16>, pattern: Vec<u16>, flows: u32, drawing: Option<Drawing>) -> Plan {
        let ranks = drawing.as_ref().map_or(1, |drawing| drawing.ranks);
        let count = flows / ranks;
        let period = match pattern.len() as u64 {
            1 => u64::MAX,
            sizes => u64::from(count) / gcd(count.into(), sizes) * sizes,
        };
        let seed = drawing.as_ref().map_or(Random::new(0), |drawing| drawing.random.clone());
        let first = pattern[0];
        let length = lengths[usize::from(first)];
        Plan {
            ready: 0,
            lengths: Box::new([length; BATCH_SIZE]),
            sizes: Box::new([first; BATCH_SIZE]),
            flows: Box::new([0; BATCH_SIZE]),
            ranks: Box::new([0; BATCH_SIZE]),
            size_turn: SizeTurn { pattern, lengths, next: 0, period, left: period },
            flow_turn: FlowTurn { count, next: 0, drawing, seed },
        }
    }

    /// Back to the first frame.
    pub fn restart(&mut self) {
        self.ready = 0;
        (self.size_turn.next, self.size_turn.left) = (0, self.size_turn.period);
        self.flow_turn.next = 0;
        if let Some(drawing) = &mut self.flow_turn.drawing {
            drawing.random = self.flow_turn.seed.clone();
        }
    }

    /// Plans up to `count` frames, at most [`BATCH_SIZE`].
    #[inline]
    pub fn prepare(&mut self, count: usize) {
        let count = count.min(BATCH_SIZE);
        if self.ready >= count {
            return;
        }
        let new = self.ready..count;
        if self.size_turn.pattern.len() > 1 {
            for at in new.clone() {
                let size = self.size_turn.turn();
                self.sizes[at] = size;
                self.lengths[at] = self.size_turn.lengths[usize::from(size)];
            }
        }
        let turn = &mut self.flow_turn;
        match &mut turn.drawing {
            None => {
                for flow in &mut self.flows[new] {
                    *flow = turn.next;
                    turn.next = if turn.next + 1 == turn.count { 0 } else { turn.next + 1 };
                }
            }
            Some(drawing) => {
                for (flow, rank) in self.flows[new.clone()].iter_mut().zip(&mut self.ranks[new]) {
                    *rank = drawing.alias.draw(drawing.random.bits());
                    *flow = turn.next * drawing.ranks + *rank;
                    turn.next = if turn.next + 1 == turn.count { 0 } else { turn.next + 1 };
                }
            }
        }
        self.ready = count;
    }

    /// The first `count` planned frames are written; those behind them come next.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let rest = count..self.ready;
        if !rest.is_empty() {
            self.lengths.copy_within(rest.clone(), 0);
            self.sizes.copy_within(rest.clone(), 0);
            self.flows.copy_within(rest.clone(), 0);
            self.ranks.copy_within(rest, 0);
        }
        self.ready -= count;
    }
}

impl SizeTurn {
    #[inline(always)]
    fn turn(&mut self) -> u16 {
        if self.left == 0 {
            self.left = self.period;
            self.step();
        }
        self.left -= 1;
        let size = self.pattern[self.next];
        self.step();
        size
    }

    #[inline(always)]
    fn step(&mut self) {
        self.next = if self.next + 1 == self.pattern.len() { 0 } else { self.next + 1 };
    }
}
