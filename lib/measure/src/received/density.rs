// SPDX-License-Identifier: MIT
//! Reorder density (RFC 5236): how far each frame is from the place it would have in order.
//!
//! Arrivals get the numbers of the frames that came, in ascending order: the receive index. A frame's displacement is
//! its receive index minus its sequence number: negative if it is early, positive if it is late. Frames that are
//! displaced by more than the threshold count as lost for this metric. Which numbers are lost is known only later, so
//! frames are looked at when [`THRESHOLD`] more have come.
//!
//! A flow whose frames come in order has no displacement, and its density is not computed: it starts with a gap and
//! ends when all frames that are waiting follow each other.

use std::collections::VecDeque;

/// The displacement threshold DT, in frames.
pub const THRESHOLD: i32 = 16;
const WINDOW: usize = THRESHOLD as usize + 1;

/// How many frames were displaced how far.
#[derive(Clone, Debug)]
pub(super) struct Displacements {
    /// By displacement + [`THRESHOLD`]; that of 0 counts only frames near a gap.
    pub counts: [u64; 2 * THRESHOLD as usize + 1],
    /// Later or earlier than the threshold.
    pub beyond: u64,
}

impl Default for Displacements {
    fn default() -> Self {
        Displacements { counts: [0; 2 * THRESHOLD as usize + 1], beyond: 0 }
    }
}

/// The state of RFC 5236's algorithm for a flow that is out of order. Sequence numbers are modulo 2^32.
#[derive(Debug, Default)]
pub(super) struct Density {
    /// The next receive index, RI.
    index: u32,
    /// Arrivals that have none yet.
    window: VecDeque<u32>,
    /// Early arrivals whose number is a receive index to come.
    early: Vec<u32>,
    /// Arrivals in order since the last that was not; `None` if the flow is in order and nothing is to be done.
    calm: Option<usize>,
}

impl Density {
    pub fn is_active(&self) -> bool {
        self.calm.is_some()
    }

    /// The first gap of a flow in order, in which `next` would have come.
    pub fn start(&mut self, next: u32) {
        self.index = next;
        self.calm = Some(0);
    }

    /// A frame that is no duplicate, while active.
    pub fn arrive(&mut self, sequence: u32, in_order: bool, into: &mut Displacements) {
        self.calm = Some(if in_order { self.calm.unwrap_or(0) + 1 } else { 0 });
        if self.ahead(sequence) < 0 {
            into.beyond += 1;
            return;
        }
        self.window.push_back(sequence);
        if self.window.len() == WINDOW {
            self.place(into);
        }
        if self.calm >= Some(WINDOW) {
            // Those that wait follow each other, so each has its own number as its index.
            self.settle(into);
        }
    }

    fn settle(&mut self, into: &mut Displacements) {
        into.counts[THRESHOLD as usize] += self.window.len() as u64;
        self.stop();
    }

    /// The flow is in order; memory is kept for the next time.
    fn stop(&mut self) {
        self.window.clear();
        self.early.clear();
        self.calm = None;
    }

    /// At the end of the trial, no more arrivals are waited for.
    pub fn finish(&mut self, into: &mut Displacements) {
        while !self.window.is_empty() {
            self.place(into);
        }
        self.stop();
    }

    fn ahead(&self, sequence: u32) -> i32 {
        sequence.wrapping_sub(self.index) as i32
    }

    /// Gives the oldest arrival its receive index.
    fn place(&mut self, into: &mut Displacements) {
        // A number that neither waits nor was early is lost: go on to the next that is not.
        let arrived = self.window.iter().chain(&self.early).map(|&s| self.ahead(s)).filter(|ahead| *ahead >= 0).min();
        let Some(sequence) = self.window.pop_front() else { return };
        let Some(lost) = arrived else {
            into.beyond += 1;
            return;
        };
        self.index = self.index.wrapping_add(lost as u32);
        let displacement = -self.ahead(sequence);
        if displacement.abs() > THRESHOLD {
            into.beyond += 1;
            return;
        }
        into.counts[(displacement + THRESHOLD) as usize] += 1;
        if let Some(at) = self.early.iter().position(|early| *early == self.index) {
            self.early.swap_remove(at);
        }
        if displacement < 0 {
            self.early.push(sequence);
        }
        self.index = self.index.wrapping_add(1);
    }
}
