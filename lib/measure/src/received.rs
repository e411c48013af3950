// SPDX-License-Identifier: MIT
//! What came back: counted, put in order by sequence number, and timed, in one pass over each batch.
//!
//! ```text
//!  frame ── no place for a stamp, or a stranger's bytes there ─────────────────► foreign
//!   │ └──── a damaged stamp of ours ──────────────────────────────────────────► corrupted
//!   ▼ stamp ── of another trial ► other_run     of the ramp before this one ► ramp     of a flow that there is not ► unknown_flow
//!  flow ──► next, early, late: unique frames    duplicate    stale: too old to tell
//!   └─► latency, jitter
//! ```
//!
//! For each flow, frames = unique + duplicates + stale, and once it is known how many frames were sent, lost = sent -
//! unique: exactly, unless frames were stale. Frames of which the stamp is whole and another byte is damaged are not
//! recognised as such.

mod density;
mod flow;
mod interval;
mod latency;
mod reordering;
#[cfg(test)]
mod tests;

pub use density::THRESHOLD;
pub use interval::{Interval, Snapshot};
pub use latency::{LONGEST, Latencies, LatencySummary, Variation};
pub use reordering::ReorderingSummary;

use crate::buckets::Buckets;
use crate::pace::Account;
use crate::stamp::{Found, Stamp, find};
use flow::{Arrival, Flow, History};
use perigee_packet::Batch;
use reordering::Reordering;
use serde::{Deserialize, Serialize};

/// Bytes of the FCS, which frames in memory do not have.
const FCS: u64 = 4;
/// Gaps remembered for all flows together; see [`Settings::gaps_per_flow`].
const GAPS: usize = 1 << 20;

/// What a receiver is to expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The trial's mark in each stamp. With two bytes that differ from 0 it is not found in other traffic by chance.
    pub run: u16,
    /// The mark of the frames by which the load rises to that of the trial; `None` without a ramp.
    pub ramp: Option<u16>,
    /// How many flows there are, numbered from 0.
    pub flows: u32,
    /// How many gaps in the sequence numbers of a flow are remembered; a gap takes 40 bytes, and only flows that have
    /// some use any.
    pub gaps_per_flow: usize,
    /// One of this many frames is recorded in the histogram of latencies.
    pub latency_every: u32,
    /// The tester's own latency in ns, if it is known.
    pub floor: Option<u64>,
}

impl Settings {
    /// Every latency is recorded; a flow remembers 4096 gaps, or fewer (but 16) if there are many flows.
    pub fn new(run: u16, flows: u32) -> Settings {
        let gaps_per_flow = (GAPS / flows.max(1) as usize).clamp(16, 4096);
        Settings { run, ramp: None, flows, gaps_per_flow, latency_every: 1, floor: None }
    }
}

/// Frames counted over all flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Frames of this trial's flows: unique + duplicates + stale.
    pub frames: u64,
    /// Their bytes, with FCS.
    pub bytes: u64,
    /// Without duplicates.
    pub unique: u64,
    /// Sequence numbers that did not come, though a higher one of their flow did; late frames lower it.
    pub missing: u64,
    pub duplicates: u64,
    /// Frames that came after one of a higher sequence number (RFC 4737).
    pub reordered: u64,
    /// Older than all that is remembered of their flow: late or duplicates, nobody knows.
    pub stale: u64,
    /// With a damaged stamp of this trial.
    pub corrupted: u64,
    /// Of the ramp before the trial, of which nothing else is counted.
    #[serde(default)]
    pub ramp: u64,
    /// With the stamp of another trial.
    pub other_run: u64,
    /// With this trial's stamp and the number of a flow that there is not.
    pub unknown_flow: u64,
    /// Without a stamp: ARP, neighbor discovery, LLDP and the like.
    pub foreign: u64,
}

/// Receives the frames of one trial.
pub struct Received {
    settings: Settings,
    flows: Box<[Flow]>,
    histories: Vec<History>,
    /// `unique` is not kept, but computed.
    counters: Counters,
    latencies: Latencies,
    /// Magnitudes of the differences of latency between frames that follow each other.
    variation: Buckets,
    reordering: Reordering,
    /// When the last frame of this trial came, ns.
    last: Option<u64>,
    silence: Silence,
}

/// The longest time without a frame of the trial, between two that came; ns of the tester's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Silence {
    pub from: u64,
    pub to: u64,
}

/// One flow at the end of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FlowOutcome {
    pub flow: u32,
    pub sent: u64,
    /// All frames; `unique` is without duplicates and stale ones.
    pub frames: u64,
    pub bytes: u64,
    pub unique: u64,
    /// sent - unique.
    pub lost: u64,
    pub duplicates: u64,
    pub reordered: u64,
    pub stale: u64,
    pub jitter_ns: f64,
    /// A sequence number was received that was not sent: damage that a stamp cannot show, or a mistake of the tester.
    pub never_sent: bool,
}

/// A whole trial, once it is known what was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub sent: u64,
    /// The flows' losses added up; sent - unique, unless a flow has `never_sent`.
    pub lost: u64,
    pub counters: Counters,
    pub flows: u32,
    pub flows_with_loss: u32,
    /// Flows of which a sequence number was received that was not sent.
    pub flows_never_sent: u32,
    pub reordering: ReorderingSummary,
}

impl Outcome {
    /// Takes off frames that the kernel refused after the tester had handed them over: they were never on the way, so
    /// as many of the missing ones are not lost, but unsent.
    pub fn take_off(&mut self, account: &mut Account, refused: u64) {
        let frames = refused.min(self.lost).min(account.sent);
        self.lost -= frames;
        self.sent = self.sent.saturating_sub(frames);
        account.sent -= frames;
        account.unsent += frames;
    }
}

impl Received {
    pub fn new(settings: Settings) -> Received {
        Received {
            settings,
            flows: vec![Flow::NEW; settings.flows as usize].into(),
            // Room for all, which takes no memory until it is used: to move them while frames come in would take
            // milliseconds.
            histories: Vec::with_capacity(settings.flows as usize),
            counters: Counters::default(),
            latencies: Latencies::new(settings.latency_every, settings.floor),
            variation: Buckets::default(),
            reordering: Reordering::default(),
            last: None,
            silence: Silence::default(),
        }
    }

    /// Takes account of the frames of a batch, which was received at `now` (ns).
    pub fn batch(&mut self, batch: &Batch, now: u64) {
        let before = self.counters.frames;
        for slot in batch.live() {
            if let Some(frame) = batch.frame(slot) {
                self.take(frame, now);
            }
        }
        self.note_silence(before, now);
    }

    /// Takes account of one frame, without FCS, which was received at `now` (ns).
    pub fn frame(&mut self, frame: &[u8], now: u64) {
        let before = self.counters.frames;
        self.take(frame, now);
        self.note_silence(before, now);
    }

    /// Ends a silence if frames of this trial have come, of which there were `before`.
    fn note_silence(&mut self, before: u64, now: u64) {
        if self.counters.frames == before {
            return;
        }
        if let Some(last) = self.last.replace(now)
            && now.saturating_sub(last) > self.silence.to - self.silence.from
        {
            self.silence = Silence { from: last, to: now };
        }
    }

    #[inline(always)]
    fn take(&mut self, frame: &[u8], now: u64) {
        match find(frame) {
            Found::Stamp(stamp) if stamp.run == self.settings.run => {
                self.stamped(&stamp, frame.len() as u64 + FCS, now)
            }
            Found::Stamp(stamp) if Some(stamp.run) == self.settings.ramp => self.counters.ramp += 1,
            Found::Stamp(_) => self.counters.other_run += 1,
            Found::Broken(stamp) if self.was_ours(&stamp) => self.counters.corrupted += 1,
            Found::Broken(_) | Found::Nothing => self.counters.foreign += 1,
        }
    }

    /// Whether a broken stamp was one of this trial: nobody else's bytes in this place have its mark, or half of it and
    /// the number of a flow. So every stamp with one damaged byte is recognised.
    #[cold]
    fn was_ours(&self, stamp: &Stamp) -> bool {
        let ([a, b], [ours_a, ours_b]) = (stamp.run.to_be_bytes(), self.settings.run.to_be_bytes());
        match (a == ours_a, b == ours_b) {
            (true, true) => true,
            (false, false) => false,
            _ => stamp.flow < self.settings.flows,
        }
    }

    #[inline(always)]
    fn stamped(&mut self, stamp: &Stamp, bytes: u64, now: u64) {
        let Some(flow) = self.flows.get_mut(stamp.flow as usize) else {
            self.counters.unknown_flow += 1;
            return;
        };
        self.counters.frames += 1;
        self.counters.bytes += bytes;
        flow.bytes += bytes;
        let follows = if flow.expects(stamp.sequence) { Some(true) } else { self.out_of_order(*stamp, now) };
        let Some(follows) = follows else { return };
        let latency = stamp.age(now);
        self.latencies.record(latency);
        let (Some(latency), Some(flow)) = (latency, self.flows.get_mut(stamp.flow as usize)) else { return };
        let before = std::mem::replace(&mut flow.transit, latency);
        if before != u64::MAX {
            let difference = latency.abs_diff(before);
            // It has 48 bits, and signed numbers are converted by one instruction.
            flow.jitter += (difference as i64 as f64 - flow.jitter) / 16.0;
            if follows {
                self.variation.record(difference);
            }
        }
    }

    /// A frame of a flow that is not in order, or no longer: whether it follows the frame that came before it, or
    /// `None` if it is a duplicate or stale.
    #[inline(never)]
    fn out_of_order(&mut self, stamp: Stamp, now: u64) -> Option<bool> {
        let flow = &mut self.flows[stamp.flow as usize];
        if flow.history == 0 {
            self.histories.push(History::default());
            flow.history = self.histories.len() as u32;
        }
        let history = &mut self.histories[flow.history as usize - 1];
        let (missing, after_late) = (flow.missing, history.after_late);
        let arrival = history.arrive(flow, &stamp, now, self.settings.gaps_per_flow, &mut self.reordering);
        self.counters.missing = self.counters.missing - missing + flow.missing;
        match arrival {
            Arrival::Next => return Some(!after_late),
            Arrival::Early => return Some(false),
            Arrival::Late => {
                self.counters.reordered += 1;
                return Some(false);
            }
            Arrival::Duplicate => self.counters.duplicates += 1,
            Arrival::Stale => self.counters.stale += 1,
        }
        None
    }

    /// Counters so far.
    pub fn counters(&self) -> Counters {
        let counters = self.counters;
        Counters { unique: counters.frames - counters.duplicates - counters.stale, ..counters }
    }

    /// Latencies recorded since the start, or since they were swapped.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Exchanges the recorded latencies for others, which are empty: so those of an interval are handed to another
    /// thread, which sums them up, while this one goes on receiving.
    pub fn swap_latencies(&mut self, others: &mut Latencies) {
        std::mem::swap(&mut self.latencies, others);
    }

    /// How latency varies so far; `latencies` are those of the whole trial.
    pub fn variation(&self, latencies: &Latencies) -> Variation {
        let measured = self.flows.iter().filter(|flow| flow.transit != u64::MAX);
        let (count, sum, max) = measured
            .fold((0u64, 0.0, 0f64), |(count, sum, max), flow| (count + 1, sum + flow.jitter, max.max(flow.jitter)));
        let least = latencies.quantile(0.0);
        let above = |quantile: f64| latencies.quantile(quantile).saturating_sub(least);
        Variation {
            jitter_mean_ns: if count > 0 { sum / count as f64 } else { 0.0 },
            jitter_max_ns: max,
            ipdv_p50_ns: self.variation.quantile(0.5),
            ipdv_p99_ns: self.variation.quantile(0.99),
            ipdv_p99_9_ns: self.variation.quantile(0.999),
            ipdv_max_ns: self.variation.max(),
            pdv_p50_ns: above(0.5),
            pdv_p99_ns: above(0.99),
            pdv_p99_9_ns: above(0.999),
            pdv_max_ns: above(1.0),
        }
    }

    /// The longest time without frames, such as a device's outage (RFC 6201 4); `None` before the second frame.
    pub fn longest_silence(&self) -> Option<Silence> {
        Some(self.silence).filter(|silence| silence.to > 0)
    }

    /// When the last frame of this trial came, ns.
    pub fn last_heard(&self) -> Option<u64> {
        self.last
    }

    /// When the last frame that is missing was sent, as recovery from overload asks (RFC 2544 26.5): ns before `now`.
    /// It is known by the frame that showed the gap, so the lost one was sent up to one gap of its flow earlier.
    /// Frames lost at the very end of a flow are not seen here, but by [`close`](Received::close). `None` if none
    /// is missing.
    pub fn last_missing(&self, now: u64) -> Option<u64> {
        let gaps = self.histories.iter().filter_map(History::last_gap);
        gaps.filter_map(|time| Stamp { time, ..Stamp::default() }.age(now)).min()
    }

    /// One flow, of which `sent` frames were sent; `None` if there is no such flow.
    pub fn flow(&self, flow: u32, sent: u64) -> Option<FlowOutcome> {
        let state = self.flows.get(flow as usize)?;
        let history = state.history.checked_sub(1).map(|at| &self.histories[at as usize]);
        let count = |what: fn(&History) -> u64| history.map_or(0, what);
        let (duplicates, stale) = (count(|history| history.duplicates), count(|history| history.stale));
        Some(FlowOutcome {
            flow,
            sent,
            frames: state.unique() + duplicates + stale,
            bytes: state.bytes,
            unique: state.unique(),
            lost: sent.saturating_sub(state.unique()),
            duplicates,
            reordered: count(|history| history.reordered),
            stale,
            jitter_ns: state.jitter,
            never_sent: state.next > sent,
        })
    }

    /// Ends the trial, of which `sent` says how many frames of each flow were sent.
    pub fn close(&mut self, sent: impl Fn(u32) -> u64) -> Outcome {
        self.histories.iter_mut().for_each(|history| history.finish(&mut self.reordering));
        // From now on, what comes late is not looked at any more for the reorder density.
        self.flows.iter_mut().for_each(|flow| flow.watched = false);
        let counters = self.counters();
        let mut outcome = Outcome {
            sent: 0,
            lost: 0,
            counters,
            flows: self.settings.flows,
            flows_with_loss: 0,
            flows_never_sent: 0,
            reordering: self.reordering.summary(counters.unique),
        };
        for flow in 0..self.settings.flows {
            let Some(flow) = self.flow(flow, sent(flow)) else { continue };
            outcome.sent += flow.sent;
            outcome.lost += flow.lost;
            outcome.flows_with_loss += u32::from(flow.lost > 0);
            outcome.flows_never_sent += u32::from(flow.never_sent);
        }
        outcome
    }
}
