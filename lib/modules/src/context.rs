// SPDX-License-Identifier: MIT
//! What a module sees besides its batch: the worker's tables, counters, transmit buffers and the path to the slow path.

use crate::counters::Counters;
use crate::filter;
use crate::fragments::Fragments;
use crate::host;
use crate::policer;
use crate::reason::{CustomReasons, Reason};
use crate::stopwatch::Stopwatch;
use crate::tables::Tables;
use crate::trace::{Decision, Trace};
use perigee_fib::Subscriber;
use perigee_net::{InterfaceId, PuntClass};
use perigee_packet::batch::flags;
use perigee_packet::batch::rebatch::Flushed;
use perigee_packet::{Batch, Mask, Packet, TransmitBuffer};
use std::sync::Arc;

/// A packet on its way to the slow path, as it was received.
#[derive(Debug)]
pub struct Punted {
    /// The frame, Ethernet header included.
    pub packet: Packet,
    /// Why it is punted.
    pub reason: Reason,
    /// Port it was received on.
    pub port: u16,
    /// Interface it was received on.
    pub interface: InterfaceId,
    /// Next hop found for it; 0 if there was no lookup or no route.
    pub next_hop: u32,
    /// Its path so far, if it is followed.
    pub trace: Option<Box<Trace>>,
}

/// The path to the slow path: a bounded ring. Gives the packet back when it is full.
pub trait PuntSink: Send {
    /// Hands a packet over; the slow path may see it only after the next [`Self::announce`].
    fn punt(&mut self, packet: Punted) -> Result<(), Punted>;

    /// Notifies the slow path, once after any number of packets, that some are there.
    fn announce(&mut self) {}

    /// How many packets it has room for now, at most: those beyond that in a flood are freed together, not one by one.
    fn room(&mut self) -> usize {
        usize::MAX
    }
}

/// A worker's context, lent to every module.
pub struct Context {
    /// Time of this loop's start in ns, monotonic.
    pub now: u64,
    /// The worker's number, from 0; [`Context::NO_WORKER`] where there is none.
    pub worker: usize,
    /// Interfaces, next hops, lookup structures and filters; fixed between two batch boundaries.
    pub tables: Subscriber<Tables>,
    /// This worker's counters.
    pub counters: Arc<Counters>,
    /// One transmit buffer per port; `None` where the port has none for this worker.
    pub outputs: Vec<Option<TransmitBuffer>>,
    /// The path to the slow path.
    pub punts: Box<dyn PuntSink>,
    /// The reasons that scripts and shared libraries have named.
    pub custom: Arc<CustomReasons>,
    /// When the next copy for a redirect is earned, in ns: see `redirect.rs`.
    pub next_redirect: u64,
    /// What `multicast.rs` keeps.
    pub multicast: crate::multicast::Multicast,
    /// Ports of datagrams in fragments, for `filter.rs`.
    pub fragments: Fragments,
    /// What a module failed with: a panic caught at the C boundary. The script turns it into an error.
    pub failure: Option<String>,
    /// The packet that is followed, while there is one.
    pub trace: Option<Box<Trace>>,
    /// Times one burst in many.
    pub stopwatch: Stopwatch,
    /// Whether modules are to be called by `watch.rs`: a packet of this burst is followed, or the burst is timed.
    pub watched: bool,
}

impl Context {
    /// The number of what is no worker: a script that is only loaded, a task.
    pub const NO_WORKER: usize = usize::MAX;

    /// Drops the packets of `mask` under a reason.
    pub fn drop(&mut self, batch: &mut Batch, mask: Mask, reason: Reason) {
        if !mask.is_empty() {
            if self.tapped() {
                self.dropping(batch, mask, reason);
            }
            let n = batch.discard(mask);
            self.counters.reason(reason, n);
        }
    }

    /// Gives the packets of `mask` to the slow path under a reason, but for those that a filter denies; drops and
    /// counts those that find no room.
    pub fn punt(&mut self, batch: &mut Batch, mask: Mask, reason: Reason) {
        if mask.is_empty() {
            return;
        }
        let live = mask & batch.live();
        let live = if self.tables.filter.is_some() { filter::judge(self, batch, live) } else { live };
        let punted = if self.tables.policer.is_some() { self.police(batch, live, reason) } else { live };
        let tapped = self.tapped();
        self.counters.reason(reason, live.count());
        let mut refused = Vec::new();
        let room = self.punts.room();
        for slot in punted.iter().take(room) {
            let (port, interface, next_hop) =
                (batch.port(slot), InterfaceId(batch.interface(slot)), batch.next_hop(slot));
            let trace = if tapped { self.punting(batch, slot, reason) } else { None };
            let Some(packet) = batch.take(slot) else { continue };
            match self.punts.punt(Punted { packet, reason, port, interface, next_hop, trace }) {
                Ok(()) => self.counters.punted.add(1),
                Err(packet) => refused.push(packet),
            }
        }
        self.punts.announce();
        if !refused.is_empty() {
            self.refused(refused);
        }
        // What is left of them found no room.
        if tapped {
            self.dropping(batch, punted, host::PUNT_RING_FULL);
        }
        let refused = batch.discard(punted);
        if refused > 0 {
            self.counters.reason(host::PUNT_RING_FULL, refused);
        }
    }

    /// Drops what the port's limits before the slow path refuse; returns the others.
    fn police(&mut self, batch: &mut Batch, mut live: Mask, reason: Reason) -> Mask {
        let Some(policer) = self.tables.policer.clone() else { return live };
        let mut refused = [Mask::EMPTY; PuntClass::ALL.len()];
        for slot in live {
            let Some(frame) = batch.frame(slot) else { continue };
            let packet = policer::classify(frame, reason);
            if !policer.admits(batch.port(slot), packet, self.now) {
                refused[packet.class as usize].set(slot);
            }
        }
        for (class, refused) in PuntClass::ALL.into_iter().zip(refused) {
            self.drop(batch, refused, policer::reason(class));
            live &= !refused;
        }
        live
    }

    /// Gives the slow path a copy of a packet under a reason, if there is room for it and no filter is left to be
    /// asked; the packet stays. Returns whether it did.
    pub fn show(&mut self, batch: &Batch, slot: u8, reason: Reason) -> bool {
        let judged = self.tables.filter.is_none() || batch.flagged(flags::FILTERED).contains(slot);
        if self.punts.room() == 0 || !judged {
            return false;
        }
        let Some(packet) = batch.copy(slot) else { return false };
        let (port, interface, next_hop) = (batch.port(slot), InterfaceId(batch.interface(slot)), batch.next_hop(slot));
        let shown = self.punts.punt(Punted { packet, reason, port, interface, next_hop, trace: None }).is_ok();
        if shown {
            self.counters.reason(reason, 1);
            self.counters.punted.add(1);
            self.punts.announce();
        }
        shown
    }

    /// Is a tap on, or a packet followed?
    #[inline]
    pub fn tapped(&self) -> bool {
        self.tables.taps.is_some() || self.trace.is_some()
    }

    /// Shows packets that are about to be dropped to taps and trace.
    #[cold]
    fn dropping(&mut self, batch: &Batch, mask: Mask, reason: Reason) {
        let dead = mask & batch.live();
        if let Some(taps) = &self.tables.taps {
            for slot in dead {
                if let Some(frame) = batch.frame(slot) {
                    taps.dropped(frame, batch.port(slot), reason, self.now);
                }
            }
        }
        if let Some(trace) = self.trace.take_if(|trace| trace.is_in(batch, dead)) {
            trace.dropped(reason);
        }
    }

    /// The trace of a packet that is about to be punted, which goes with it.
    #[cold]
    fn punting(&mut self, batch: &Batch, slot: u8, reason: Reason) -> Option<Box<Trace>> {
        let trace = self.trace.take_if(|trace| trace.is_in(batch, Mask::only(slot)))?;
        Some(trace.punted(reason))
    }

    /// Counts packets whose ring to the slow path had no room, though another had, shows them to taps and trace, and
    /// frees them.
    #[cold]
    fn refused(&mut self, refused: Vec<Punted>) {
        self.counters.reason(host::PUNT_RING_FULL, refused.len());
        let free = refused.into_iter().map(|punted| {
            if let Some(taps) = &self.tables.taps {
                taps.dropped(punted.packet.bytes(), punted.port, host::PUNT_RING_FULL, self.now);
            }
            if let Some(mut trace) = punted.trace {
                trace.step(None, Decision::Dropped(host::PUNT_RING_FULL));
                trace.end();
            }
            punted.packet
        });
        Packet::free_all(free);
    }

    /// Counts the result of a flush of a transmit buffer.
    #[inline]
    pub fn flushed(&mut self, port: usize, flushed: Flushed) {
        self.counters.transmitted(port as u16, flushed.sent);
        if flushed.lost > 0 {
            self.counters.reason(host::TRANSMIT_FULL, flushed.lost);
            self.counters.lost(port as u16, flushed.lost);
        }
    }

    /// Transmits packets that have waited long enough, on every port: all of them when the worker is idle, as waiting
    /// for more to send together only pays where a core has no time to spare.
    pub fn flush_due(&mut self, idle: bool) {
        let now = if idle { u64::MAX } else { self.now };
        for port in 0..self.outputs.len() {
            if let Some(flushed) = self.outputs[port].as_mut().and_then(|output| output.flush_if_due(now)) {
                self.flushed(port, flushed);
            }
        }
    }

    /// Transmits everything that waits.
    pub fn flush_all(&mut self) {
        for port in 0..self.outputs.len() {
            if let Some(flushed) = self.outputs[port].as_mut().map(TransmitBuffer::flush) {
                self.flushed(port, flushed);
            }
        }
    }
}
