// SPDX-License-Identifier: MIT
//! Taps: places where packets of a running router can be looked at. A tap is part of the [`Tables`](crate::Tables), so
//! turning one on or off is a publication, and with none on there is one load and one branch per burst.
//!
//! ```text
//! captures of a port   Worker::receive (as frames came in), distribute (as they go into the transmit buffer)
//! captures of drops    Context::drop, and what the host frees
//! traces               begin in Worker::receive, see `watch`
//! ```
//!
//! The receivers of the packets are behind a trait and must not wait. This is cold code, which may allocate.

use crate::reason::Reason;
use crate::trace::TraceSink;
use perigee_packet::{Batch, Mask};
use std::sync::Arc;

/// The direction of a captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In,
    /// Transmitted.
    Out,
}

/// A frame at a tap.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// From the destination MAC address on.
    pub frame: &'a [u8],
    /// The port it came in on; for one that is transmitted, the port it leaves by.
    pub port: u16,
    pub direction: Direction,
    /// Why it left, if it did.
    pub reason: Option<Reason>,
    /// When, in ns of the worker's clock: the start of its round.
    pub now: u64,
    /// When it arrived at the interface, in ns since 1970, where that is known.
    pub arrived: Option<u64>,
}

/// Takes captured frames. Called on workers' threads: it must not wait.
pub trait CaptureSink: Send + Sync {
    /// Copies the frame, if it wants it.
    fn put(&self, seen: &Seen<'_>);
}

/// All taps that are on.
#[derive(Clone, Default)]
pub struct Taps {
    /// Captures of ports, by the port's number.
    pub ports: Vec<(u16, Arc<dyn CaptureSink>)>,
    /// Captures of dropped packets.
    pub drops: Vec<Arc<dyn CaptureSink>>,
    /// The sinks that want packets to be followed.
    pub traces: Vec<Arc<dyn TraceSink>>,
}

impl Taps {
    /// Is none on?
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.drops.is_empty() && self.traces.is_empty()
    }

    /// A burst as it came in.
    #[cold]
    pub(crate) fn received(&self, batch: &Batch, now: u64) {
        self.captured(batch, batch.live(), Direction::In, now, |slot| batch.port(slot));
    }

    /// Packets that are about to be put into transmit buffers.
    #[cold]
    pub(crate) fn transmitting(&self, batch: &Batch, mask: Mask, now: u64) {
        self.captured(batch, mask & batch.live(), Direction::Out, now, |slot| batch.out_port(slot));
    }

    /// Shows the packets of `mask` to the captures of their ports.
    fn captured(&self, batch: &Batch, mask: Mask, direction: Direction, now: u64, port_of: impl Fn(u8) -> u16) {
        for (port, sink) in &self.ports {
            for slot in mask.iter().filter(|slot| port_of(*slot) == *port) {
                let Some(frame) = batch.frame(slot) else { continue };
                let arrived = batch.time(slot).filter(|_| direction == Direction::In);
                sink.put(&Seen { frame, port: *port, direction, reason: None, now, arrived });
            }
        }
    }

    /// A packet that is about to be dropped.
    #[cold]
    pub(crate) fn dropped(&self, frame: &[u8], port: u16, reason: Reason, now: u64) {
        for sink in &self.drops {
            sink.put(&Seen { frame, port, direction: Direction::In, reason: Some(reason), now, arrived: None });
        }
    }

    /// Chooses a packet of a burst to be followed; returns its slot and the sink that wants it. `turn` counts bursts,
    /// so that the sinks take turns at choosing first.
    pub(crate) fn choose(&self, batch: &Batch, turn: u64) -> Option<(&Arc<dyn TraceSink>, u8)> {
        let first = (turn as usize).checked_rem(self.traces.len())?;
        let (before, after) = self.traces.split_at(first);
        after.iter().chain(before).find_map(|sink| {
            let wanted = |slot: &u8| batch.frame(*slot).is_some_and(|frame| sink.wants(frame, batch.port(*slot)));
            batch.live().iter().find(wanted).map(|slot| (sink, slot))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::Pool;
    use perigee_packet::batch::flags;
    use perigee_packet::batch::heap::HeapPool;
    use std::sync::Mutex;

    /// Keeps direction and time of arrival.
    #[derive(Default)]
    struct Keeper(Mutex<Vec<(Direction, Option<u64>)>>);

    impl CaptureSink for Keeper {
        fn put(&self, seen: &Seen<'_>) {
            self.0.lock().unwrap().push((seen.direction, seen.arrived));
        }
    }

    #[test]
    fn frames_that_came_in_have_the_time_of_their_arrival() {
        let pool = HeapPool::leak(2);
        let mut batch = Batch::new(pool);
        (0..2).for_each(|n| drop(batch.push(pool.packet(&[n; 60]).unwrap(), 0)));
        let mut first = batch.slot(0).unwrap();
        first.set_time(77);
        first.set_flags(flags::TIME);
        let keeper = Arc::new(Keeper::default());
        let taps = Taps { ports: vec![(0, keeper.clone())], ..Taps::default() };
        taps.received(&batch, 5);
        taps.transmitting(&batch, Mask::ALL, 6);
        let seen = std::mem::take(&mut *keeper.0.lock().unwrap());
        let [out, other] = [(Direction::Out, None), (Direction::In, None)];
        assert_eq!(seen, [(Direction::In, Some(77)), other, out, out]);
    }
}
