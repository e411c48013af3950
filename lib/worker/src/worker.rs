// SPDX-License-Identifier: MIT
//! The worker: what a loop, in Lua or in Rust, drives.

use crate::idle::{self, Drowsiness, Found, Idle, LONGEST_DOZE, LONGEST_WAIT, Looks, Step};
use crate::spread::Spread;
use perigee_fib::Subscriber;
use perigee_modules::stopwatch::Stopwatch;
use perigee_modules::{Context, Counters, CustomReasons, PuntSink, Tables, host, watch};
use perigee_packet::{BATCH_SIZE, Batch, Mask, Memory, ReceiveQueue, TransmitBuffer, pause};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A queue that a worker polls: a device's, or the ring on which other workers hand it its flows.
pub struct Receiver {
    /// Where packets come from.
    pub queue: Box<dyn ReceiveQueue>,
    /// How to give away other workers' flows; `None` where all packets are this worker's.
    pub spread: Option<Spread>,
    /// Whether these packets were received before, by the worker that has handed them over.
    pub handed_over: bool,
}

impl Receiver {
    /// A queue whose packets are all this worker's.
    pub fn new(queue: Box<dyn ReceiveQueue>) -> Receiver {
        Receiver { queue, spread: None, handed_over: false }
    }
}

/// A monotonic clock in ns.
pub use perigee_modules::stopwatch::Clock;

/// The request to stop, shared by all threads of a router.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks all threads that look to come to an end.
    pub fn request(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether they are to come to an end.
    #[inline]
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What a worker is made of.
pub struct WorkerParts {
    /// Number of the worker, from 0.
    pub id: usize,
    /// Queues to poll.
    pub receivers: Vec<Receiver>,
    /// A transmit buffer per port.
    pub outputs: Vec<Option<TransmitBuffer>>,
    /// The way to the slow path.
    pub punts: Box<dyn PuntSink>,
    pub tables: Subscriber<Tables>,
    pub counters: Arc<Counters>,
    /// Names of the reasons that scripts make, shared by all workers.
    pub custom: Arc<CustomReasons>,
    /// Memory of the packets it handles.
    pub memory: &'static dyn Memory,
    /// Packets per burst, 1..=256.
    pub burst: usize,
    /// What to do when nothing comes.
    pub idle: Idle,
    /// Monotonic clock in ns.
    pub clock: Clock,
    /// The request to stop.
    pub stop: Stop,
}

/// A worker: one thread's share of the router.
pub struct Worker {
    context: Context,
    parts: Parts,
}

/// What the script does not see.
struct Parts {
    id: usize,
    receivers: Vec<Receiver>,
    memory: &'static dyn Memory,
    burst: usize,
    drowsiness: Drowsiness,
    looks: Looks,
    busy: bool,
    /// When the last round ended, in ns; the end of time before the first one.
    last_round: u64,
    clock: Clock,
    stop: Stop,
}

impl Worker {
    /// Puts a worker together.
    pub fn new(parts: WorkerParts) -> Worker {
        let WorkerParts { id, receivers, outputs, punts, tables, counters, custom, memory, burst, idle, clock, stop } =
            parts;
        let context = Context {
            now: clock(),
            worker: id,
            tables,
            counters,
            outputs,
            punts,
            custom,
            next_redirect: 0,
            fragments: Default::default(),
            multicast: Default::default(),
            failure: None,
            trace: None,
            stopwatch: Stopwatch::new(clock.clone()),
            watched: false,
        };
        let burst = burst.clamp(1, BATCH_SIZE);
        let (drowsiness, looks) = (Drowsiness::new(idle), Looks::new(receivers.len()));
        let last_round = u64::MAX;
        let parts = Parts { id, receivers, memory, burst, drowsiness, looks, busy: false, last_round, clock, stop };
        Worker { context, parts }
    }

    /// Number of the worker, from 0.
    pub fn id(&self) -> usize {
        self.parts.id
    }

    /// Number of queues to poll.
    pub fn queues(&self) -> usize {
        self.parts.receivers.len()
    }

    /// What modules see.
    #[inline]
    pub fn context(&mut self) -> &mut Context {
        &mut self.context
    }

    /// A new batch for this worker's packets.
    pub fn new_batch(&self) -> Box<Batch> {
        Batch::new(self.parts.memory)
    }

    /// The request to stop.
    pub fn stop(&self) -> Stop {
        self.parts.stop.clone()
    }

    /// The time now, in ns; `context().now` is that of the round's start.
    pub fn now(&self) -> u64 {
        (self.parts.clock)()
    }

    /// A loop is about to begin: the first round's gap is not that since the last one of the loop before.
    pub fn begin(&mut self) {
        self.parts.last_round = u64::MAX;
        self.context.forget_timing();
    }

    /// False once the router is to stop.
    #[inline]
    pub fn running(&self) -> bool {
        !self.parts.stop.requested()
    }

    /// Fills the batch from a queue (counted from 0) and returns how many packets are in it for this worker. What the
    /// script left in the batch is freed and counted; a queue that does not exist brings nothing.
    pub fn receive(&mut self, queue: usize, batch: &mut Batch) -> usize {
        if !batch.live().is_empty() {
            self.take_back(batch);
        }
        if self.context.watched {
            self.context.end_watching();
        }
        batch.refill();
        let counters = &self.context.counters;
        counters.polls.add(1);
        let Some(receiver) = self.parts.receivers.get_mut(queue) else { return 0 };
        let received = receiver.queue.receive(batch, self.parts.burst);
        if received == 0 {
            self.parts.looks.nothing_in(queue);
            return 0;
        }
        self.parts.busy = true;
        counters.bursts.add(1);
        counters.received.add(received as u64);
        counters.received_bytes.add(batch.received_bytes());
        let spread = receiver.spread.is_some();
        let left = match self.context.tables.tapped() {
            true => self.receive_tapped(queue, batch),
            false if spread => self.spread(queue, batch),
            false => received,
        };
        if self.context.stopwatch.is_due() {
            self.context.begin_timing(left);
        }
        left
    }

    /// What is left of a burst that was received, once others' flows are handed over.
    fn spread(&mut self, queue: usize, batch: &mut Batch) -> usize {
        if let Some(spread) = self.parts.receivers.get_mut(queue).and_then(|receiver| receiver.spread.as_mut()) {
            let (spreading, counters) = (spread.spread(batch), &self.context.counters);
            counters.handed_over.add(spreading.handed_over as u64);
            counters.reason(host::HAND_OVER_FULL, spreading.lost);
        }
        batch.live().count()
    }

    /// [`Self::spread`], and shows the burst to taps and trace.
    #[cold]
    #[inline(never)]
    fn receive_tapped(&mut self, queue: usize, batch: &mut Batch) -> usize {
        if !self.parts.receivers[queue].handed_over {
            watch::received(&self.context, batch);
        }
        let left = self.spread(queue, batch);
        watch::begin(&mut self.context, batch);
        left
    }

    /// Frees and counts what the script has left in a batch.
    #[cold]
    fn take_back(&mut self, batch: &mut Batch) {
        let left = batch.live().count() as u64;
        self.context.counters.unclaimed.add(left);
        self.context.drop(batch, Mask::ALL, host::UNCLAIMED);
    }

    /// Between two rounds: what waits is flushed when due, or when the round brought nothing; tables change, and an
    /// idle worker sleeps. Returns how long the round took, in ns.
    pub fn housekeeping(&mut self) -> u64 {
        let (context, parts) = (&mut self.context, &mut self.parts);
        if context.watched {
            context.end_watching();
        }
        context.now = (parts.clock)();
        context.counters.rounds.add(1);
        let took = context.now.saturating_sub(parts.last_round);
        context.counters.longest_gap.raise(took);
        parts.last_round = context.now;
        context.flush_due(!parts.busy);
        self.refresh();
        let (context, parts) = (&mut self.context, &mut self.parts);
        let busy = std::mem::take(&mut parts.busy);
        let found = match parts.looks.round(busy) {
            _ if busy => Found::Packets,
            true => Found::Nothing,
            false => Found::NotAllSeen,
        };
        match parts.drowsiness.round(found, context.now, || all_wake(&parts.receivers, &context.outputs)) {
            Step::Poll => {}
            step => self.be_idle(step),
        }
        took
    }

    /// Takes new tables, if there are some.
    #[inline]
    fn refresh(&mut self) {
        let context = &mut self.context;
        if context.tables.refresh() {
            context.counters.table_swaps.add(1);
            if context.trace.is_some() {
                watch::lost(context);
            }
        }
    }

    /// What an idle worker does before its next round.
    #[cold]
    fn be_idle(&mut self, step: Step) {
        let (context, parts) = (&mut self.context, &mut self.parts);
        match step {
            Step::Poll => {}
            Step::Rest => match &mut parts.receivers[..] {
                [only] => only.queue.rest(!collects(&context.outputs)),
                [first, ..] => first.queue.rest(false),
                [] => pause(),
            },
            Step::Arm => {
                if !parts.receivers.iter_mut().all(|receiver| receiver.queue.arm()) {
                    parts.receivers.iter_mut().for_each(|receiver| receiver.queue.disarm());
                    parts.drowsiness.refused();
                }
            }
            Step::Disarm => parts.receivers.iter_mut().for_each(|receiver| receiver.queue.disarm()),
            Step::Wait => self.sleep(LONGEST_WAIT),
            Step::Sleep(pause) => {
                let all = parts.drowsiness.dozes() && all_wake(&parts.receivers, &context.outputs);
                self.sleep(if all { LONGEST_DOZE } else { pause });
            }
        }
    }

    /// Sleeps so long, or until a queue wakes it.
    fn sleep(&mut self, longest: Duration) {
        let (context, parts) = (&mut self.context, &mut self.parts);
        context.flush_all();
        context.counters.sleeps.add(1);
        let descriptors = parts.receivers.iter().filter_map(|receiver| receiver.queue.descriptor());
        if idle::wait(descriptors, longest) {
            parts.drowsiness.woken();
        }
        // What has come is not to be forwarded by tables from before.
        self.refresh();
        let parts = &mut self.parts;
        parts.last_round = (parts.clock)();
    }

    /// The loop has ended: sends what waits.
    pub fn finish(&mut self) {
        self.context.flush_all();
    }
}

/// Whether all that an idle worker waits for wakes it: packets to receive, and those that other threads have it send.
fn all_wake(receivers: &[Receiver], outputs: &[Option<TransmitBuffer>]) -> bool {
    let queues = !receivers.is_empty() && receivers.iter().all(|receiver| receiver.queue.descriptor().is_some());
    queues && !collects(outputs)
}

/// Whether other threads have the worker send packets, which do not wake it.
fn collects(outputs: &[Option<TransmitBuffer>]) -> bool {
    outputs.iter().flatten().any(TransmitBuffer::collects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::{Handle, TransmitQueue};
    use std::io::{PipeReader, pipe};
    use std::os::fd::{AsFd, BorrowedFd};

    struct Waking(PipeReader);

    impl ReceiveQueue for Waking {
        fn receive(&mut self, _batch: &mut Batch, _burst: usize) -> usize {
            0
        }

        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            Some(self.0.as_fd())
        }
    }

    struct Output {
        collects: bool,
    }

    impl TransmitQueue for Output {
        fn transmit(&mut self, _packets: &mut Vec<Handle>) {}

        fn discard(&self, _packets: &mut Vec<Handle>) {}

        fn collects(&self) -> bool {
            self.collects
        }
    }

    /// Packets that other threads had it send waited up to 1 ms for a worker whose own queues would all have woken it.
    #[test]
    fn who_sends_for_others_does_not_wait_for_its_own_packets_alone() {
        let receivers = [Receiver::new(Box::new(Waking(pipe().unwrap().0)))];
        let has_to_look = |collects| {
            let outputs = [None, Some(TransmitBuffer::new(Box::new(Output { collects }), 32, 0))];
            !all_wake(&receivers, &outputs)
        };
        assert!(!has_to_look(false) && has_to_look(true));
    }
}
