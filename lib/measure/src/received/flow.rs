// SPDX-License-Identifier: MIT
//! What came back of one flow, by its sequence numbers.
//!
//! A flow in order is one cache line: a counter that goes up. What is missing is remembered as a list of gaps, made
//! when a frame comes too early; a late frame is found there and taken out, and a frame that is in no gap has come
//! before. So a flow needs memory for its gaps alone, whatever their size, and up to a limit, beyond which the oldest
//! gap is forgotten: a frame older than that is [`Arrival::Stale`], as nobody can tell whether it came before.

use super::density::Density;
use super::reordering::Reordering;
use crate::stamp::Stamp;
use std::collections::VecDeque;

/// Late arrivals that are remembered for n-reordering, which is counted up to this n.
pub const MAX_N: usize = 16;

/// What is kept for each flow.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    /// The highest sequence number received, and 1 more; in 64 bits, of which frames carry the lower 32.
    pub next: u64,
    /// Sequence numbers below `next` that were not received.
    pub missing: u64,
    /// Bytes of all frames, with FCS.
    pub bytes: u64,
    /// How long the last frame was on its way, in ns; `u64::MAX` before the first.
    pub transit: u64,
    /// RFC 3550's interarrival jitter, ns.
    pub jitter: f64,
    /// Its place in the list of histories, plus 1; 0 as long as it needs none.
    pub history: u32,
    /// Whether every arrival is to be looked at for the reorder density.
    pub watched: bool,
}

/// What a frame is in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The number after the highest.
    Next,
    /// A higher one: those between are missing.
    Early,
    /// One that was missing.
    Late,
    /// It came before.
    Duplicate,
    /// Older than all that is remembered: late or a duplicate.
    Stale,
}

/// What a flow out of order needs beyond [`Flow`].
#[derive(Debug, Default)]
pub(super) struct History {
    /// Missing sequence numbers, ascending.
    gaps: VecDeque<Gap>,
    /// Below it, gaps were forgotten.
    forgotten: u64,
    /// The last late arrivals: sequence number and index.
    late: VecDeque<(u64, u64)>,
    density: Density,
    /// The last arrival, duplicates aside, was a late one.
    pub after_late: bool,
    pub reordered: u64,
    pub duplicates: u64,
    pub stale: u64,
}

/// Sequence numbers `start` to `end` - 1, missing since a higher one arrived.
#[derive(Clone, Copy, Debug)]
struct Gap {
    start: u64,
    end: u64,
    /// Index of that arrival among the flow's arrivals without duplicates, its time in ns, and that of its stamp.
    arrival: u64,
    time: u64,
    sent: u64,
}

impl Flow {
    pub const NEW: Flow =
        Flow { next: 0, missing: 0, bytes: 0, transit: u64::MAX, jitter: 0.0, history: 0, watched: false };

    /// Frames without duplicates.
    pub fn unique(&self) -> u64 {
        self.next - self.missing
    }

    /// Whether a frame is the one that a flow in order expects: then it is counted, and nothing else is to be done.
    #[inline(always)]
    pub fn expects(&mut self, sequence: u32) -> bool {
        let expected = sequence == self.next as u32 && !self.watched;
        self.next += u64::from(expected);
        expected
    }
}

impl History {
    /// Sorts in a frame that [`Flow::expects`] refused; `limit` is how many gaps are remembered.
    pub fn arrive(&mut self, flow: &mut Flow, stamp: &Stamp, now: u64, limit: usize, into: &mut Reordering) -> Arrival {
        let sequence = stamp.sequence;
        // The number that is nearest to what is expected, so that 32 bits may wrap around.
        let ahead = i64::from(sequence.wrapping_sub(flow.next as u32) as i32);
        let arrival = match flow.next.checked_add_signed(ahead) {
            Some(sequence) if ahead >= 0 => self.advance(flow, sequence, stamp.time, now, limit),
            Some(sequence) => self.late(flow, sequence, now, limit, into),
            // Before the flow's first frame.
            None => Arrival::Stale,
        };
        match arrival {
            Arrival::Duplicate => self.duplicates += 1,
            Arrival::Stale => self.stale += 1,
            _ => {
                if self.density.is_active() {
                    self.density.arrive(sequence, arrival == Arrival::Next, &mut into.displacements);
                }
                flow.watched = self.density.is_active();
                self.after_late = arrival == Arrival::Late;
            }
        }
        arrival
    }

    /// A frame that is not below any other.
    fn advance(&mut self, flow: &mut Flow, sequence: u64, sent: u64, now: u64, limit: usize) -> Arrival {
        let (expected, index) = (flow.next, flow.unique());
        flow.next = sequence + 1;
        if sequence == expected {
            return Arrival::Next;
        }
        flow.missing += sequence - expected;
        self.gaps.push_back(Gap { start: expected, end: sequence, arrival: index, time: now, sent });
        self.forget(limit);
        if !self.density.is_active() {
            self.density.start(expected as u32);
        }
        Arrival::Early
    }

    /// A frame below another one: it fills a gap, or came before.
    fn late(&mut self, flow: &mut Flow, sequence: u64, now: u64, limit: usize, into: &mut Reordering) -> Arrival {
        if sequence < self.forgotten {
            return Arrival::Stale;
        }
        let at = self.gaps.partition_point(|gap| gap.end <= sequence);
        let Some(gap) = self.gaps.get(at).copied().filter(|gap| gap.start <= sequence) else {
            return Arrival::Duplicate;
        };
        let index = flow.unique();
        flow.missing -= 1;
        self.reordered += 1;
        let extent = index - gap.arrival;
        into.late(extent, now.saturating_sub(gap.time), self.run_above(sequence, index, extent));
        if self.late.len() == MAX_N {
            self.late.pop_front();
        }
        self.late.push_back((sequence, index));
        match (gap.start == sequence, gap.end == sequence + 1) {
            (true, true) => drop(self.gaps.remove(at)),
            (true, false) => self.gaps[at].start += 1,
            (false, true) => self.gaps[at].end -= 1,
            (false, false) => {
                self.gaps[at].end = sequence;
                self.gaps.insert(at + 1, Gap { start: sequence + 1, ..gap });
                self.forget(limit);
            }
        }
        Arrival::Late
    }

    /// How many arrivals just before this one, `index`, were of higher numbers (RFC 4737 5), up to [`MAX_N`]: all since
    /// the gap was made, but for late ones with lower numbers. Of those, older ones than are remembered are farther
    /// away than that.
    fn run_above(&self, sequence: u64, index: u64, extent: u64) -> usize {
        let lower = self.late.iter().rev().find(|(late, _)| *late < sequence);
        let run = lower.map_or(extent, |(_, at)| extent.min(index - 1 - at));
        run.min(MAX_N as u64) as usize
    }

    fn forget(&mut self, limit: usize) {
        while self.gaps.len() > limit.max(1) {
            self.forgotten = self.gaps.pop_front().map_or(self.forgotten, |gap| gap.end);
        }
    }

    /// Time of the stamp that showed the last gap that is still open: the frames in it were sent before.
    pub fn last_gap(&self) -> Option<u64> {
        self.gaps.back().map(|gap| gap.sent)
    }

    /// The trial is over.
    pub fn finish(&mut self, into: &mut Reordering) {
        self.density.finish(&mut into.displacements);
    }
}
