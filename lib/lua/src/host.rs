// SPDX-License-Identifier: MIT
//! A worker as its script sees it: the worker itself, and the batches and masks the script has asked for. They belong
//! to the host, which frees what they hold when the script ends, however it ends.

use crate::generation::Generation;
use perigee_modules::{Context, Counter, host};
use perigee_packet::batch::scatter::DropOut;
use perigee_packet::{Batch, Mask, NoRoom, Slot};
use perigee_worker::Worker;
use std::sync::Arc;

/// What a script's JIT compiler did, and how often it threw; written by its worker.
#[derive(Default)]
pub struct ScriptCounters {
    /// Pieces of the script compiled to machine code.
    pub traces: Counter,
    /// Attempts to compile that failed.
    pub trace_aborts: Counter,
    /// Pieces of code that will never be compiled, as too many attempts failed.
    pub blacklisted: Counter,
    /// Size of the VM's heap in KB, as seen last.
    pub heap_kb: Counter,
    /// Times the script threw.
    pub throws: Counter,
    /// Times the script did not return and was stopped.
    pub stalls: Counter,
    /// The generation of the script that was started last.
    pub started: Counter,
    /// The generation of the script that has last finished a round of its loop.
    pub generation: Counter,
    /// Times garbage was collected, by steps.
    pub collections: Counter,
    /// The time that took, in ns.
    pub collection_time: Counter,
    /// A maximum: the longest step's, in ns.
    pub longest_collection: Counter,
    /// Rounds and collections over their budgets.
    pub over_budget: Counter,
    /// A maximum: by how much, in ns, since it was last looked at.
    pub longest_over: Counter,
    /// The budget of a round in ns, or 0; written by the control side.
    pub round_budget: Counter,
    /// The budget of a collection in ns, or 0; written by the control side.
    pub collection_budget: Counter,
}

impl ScriptCounters {
    /// Counts what took longer than its budget.
    fn judge(&self, took: u64, budget: &Counter) {
        let budget = budget.get();
        if budget > 0 && took > budget {
            self.over_budget.add(1);
            self.longest_over.raise(took - budget);
        }
    }
}

/// How often a script may collect garbage, in ns.
const COLLECTION_INTERVAL: u64 = 1_000_000;

/// `perigee_worker`: its first two words are the script's to read.
#[repr(C)]
pub struct ScriptWorker {
    pub(crate) id: u32,
    pub(crate) queues: u32,
    worker: Worker,
    batches: Vec<Box<Batch>>,
    // Boxed: scripts hold their addresses.
    #[allow(clippy::vec_box)]
    masks: Vec<Box<Mask>>,
    #[allow(clippy::vec_box)]
    gathers: Vec<Box<DropOut>>,
    generation: Generation,
    counters: Arc<ScriptCounters>,
    /// The queue that [`Self::next`] polls next.
    queue: usize,
    /// Whether it has found a burst in this round: a script asks for what it has gathered after each.
    had_burst: bool,
    /// Whether the script has not finished a round yet.
    fresh: bool,
    /// When garbage was last collected, or might have been.
    collected: u64,
}

/// What a script is to do next.
pub(crate) enum Next {
    /// Handle a burst of so many packets.
    Burst(usize),
    /// Nothing has come, but gathered packets have waited long enough.
    Gathered,
    /// Collect garbage, and ask again.
    Collect,
    /// Return.
    End,
}

impl ScriptWorker {
    pub(crate) fn new(worker: Worker, generation: Generation, counters: Arc<ScriptCounters>) -> Box<ScriptWorker> {
        let (id, queues) = (worker.id() as u32, worker.queues() as u32);
        let (batches, masks, gathers) = Default::default();
        let (queue, had_burst, fresh, collected) = (0, false, true, 0);
        Box::new(ScriptWorker {
            id,
            queues,
            worker,
            batches,
            masks,
            gathers,
            generation,
            counters,
            queue,
            had_burst,
            fresh,
            collected,
        })
    }

    pub(crate) fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    pub(crate) fn context(&mut self) -> *mut Context {
        self.worker.context()
    }

    /// Goes on until the router stops or a newer script waits.
    #[inline]
    pub(crate) fn running(&self) -> bool {
        self.worker.running() && self.generation.is_current()
    }

    /// The script of a generation is about to run.
    pub(crate) fn begin(&mut self, generation: u64) {
        self.generation.set(generation);
        self.counters.started.set(generation);
        (self.queue, self.had_burst, self.fresh) = (0, false, true);
        self.worker.begin();
    }

    /// Fills the batch with the next burst: polls the queues in turn until one has packets, with what is to be done
    /// between two rounds after the last. So a script is not called for queues without packets, and its loop is one
    /// that LuaJIT compiles to a single trace.
    pub(crate) fn next(&mut self, batch: &mut Batch) -> Next {
        loop {
            if self.queue > 0 && self.queue >= self.worker.queues() {
                self.queue = 0;
                let collects = self.housekeeping();
                let now = self.worker.context().now;
                let is_due = !self.had_burst && self.gathers.iter().any(|gather| gather.is_ready(now));
                self.had_burst = false;
                if collects {
                    return Next::Collect;
                }
                if is_due {
                    // No queue has this number: the batch is empty then.
                    self.worker.receive(usize::MAX, batch);
                    return Next::Gathered;
                }
            }
            if self.queue == 0 && !self.running() {
                return Next::End;
            }
            let queue = self.queue;
            self.queue += 1;
            if queue < self.worker.queues() {
                let packets = self.worker.receive(queue, batch);
                if packets > 0 {
                    self.had_burst = true;
                    return Next::Burst(packets);
                }
            }
        }
    }

    /// What is to be done between two rounds; returns whether the script is to collect garbage then, and to say so by
    /// [`Self::has_collected`].
    pub(crate) fn housekeeping(&mut self) -> bool {
        let took = self.worker.housekeeping();
        self.counters.judge(took, &self.counters.round_budget);
        if std::mem::take(&mut self.fresh) {
            self.counters.generation.set(self.counters.started.get());
        }
        let now = self.worker.context().now;
        let due = now.saturating_sub(self.collected) >= COLLECTION_INTERVAL;
        if due {
            self.collected = self.worker.now();
        }
        due
    }

    /// The script has collected garbage, if it needed to, since [`Self::housekeeping`] asked for it; its heap has this
    /// size now.
    pub(crate) fn has_collected(&mut self, steps: u32, heap_kb: u64) {
        self.counters.heap_kb.set(heap_kb);
        if steps > 0 {
            let took = self.worker.now().saturating_sub(self.collected);
            self.counters.collections.add(1);
            self.counters.collection_time.add(took);
            self.counters.longest_collection.raise(took);
            self.counters.judge(took, &self.counters.collection_budget);
        }
    }

    pub(crate) fn new_batch(&mut self) -> *mut Batch {
        self.batches.push(self.worker.new_batch());
        self.batches.last_mut().map_or(std::ptr::null_mut(), |batch| &raw mut **batch)
    }

    pub(crate) fn new_mask(&mut self) -> *mut Mask {
        self.masks.push(Box::default());
        self.masks.last_mut().map_or(std::ptr::null_mut(), |mask| &raw mut **mask)
    }

    pub(crate) fn new_gather(&mut self, size: usize, timeout_ns: u64) -> *mut DropOut {
        let memory = self.worker.new_batch().memory();
        self.gathers.push(Box::new(DropOut::new(memory, size, timeout_ns)));
        self.gathers.last_mut().map_or(std::ptr::null_mut(), |gather| &raw mut **gather)
    }

    pub(crate) fn count_trace(&mut self, event: i32) {
        let counters = &self.counters;
        match event {
            0 => counters.traces.add(1),
            1 => counters.trace_aborts.add(1),
            _ => counters.blacklisted.add(1),
        }
    }

    /// The script has ended: frees what its batches hold, and counts it as lost to an error or left unclaimed.
    pub(crate) fn take_back(&mut self, threw: bool) {
        let reason = if threw { host::SCRIPT_ERROR } else { host::UNCLAIMED };
        let gathered = self.gathers.iter().map(|gather| gather.len()).sum::<usize>();
        let context = self.worker.context();
        let mut left = gathered;
        for batch in &mut self.batches {
            left += batch.live().count();
            context.drop(batch, Mask::ALL, reason);
        }
        context.counters.reason(reason, gathered);
        if !threw {
            context.counters.unclaimed.add(left as u64);
        }
        self.batches.clear();
        self.gathers.clear();
        self.masks.clear();
    }
}

/// What [`copy`] could not do.
pub(crate) struct Copied {
    /// Packets for which there was no buffer.
    pub missing: usize,
}

/// Deep copies of packets into another batch, emptied first.
pub(crate) fn copy(from: &Batch, mask: Mask, to: &mut Batch) -> Copied {
    to.refill();
    let mut missing = 0;
    for slot in mask & from.live() {
        match from.copy(slot).map(|packet| to.push(packet, from.port(slot))) {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => missing += 1,
        }
    }
    Copied { missing }
}

/// Changes where a packet starts or ends; the error says why it cannot.
pub(crate) fn reshape(
    batch: &mut Batch,
    slot: u32,
    change: impl FnOnce(&mut Slot<'_>) -> Result<(), NoRoom>,
) -> Result<i32, &'static str> {
    let slot = u8::try_from(slot).map_err(|_| "slots count from 0 to 255")?;
    let mut packet = batch.slot(slot).ok_or("the slot holds no packet")?;
    match change(&mut packet) {
        Ok(()) => Ok(0),
        Err(NoRoom::Head) => Err("no room before the packet"),
        Err(NoRoom::Tail) => Err("no room behind the packet"),
        Err(NoRoom::Short) => Err("the packet is shorter than that"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::ReceiveQueue;
    use perigee_packet::batch::heap::{HeapPool, HeapQueue};

    #[test]
    fn what_takes_longer_than_its_budget_is_counted_and_the_worst_is_known() {
        let counters = ScriptCounters::default();
        let judged = |took, budget: &Counter| {
            counters.judge(took, budget);
            (counters.over_budget.get(), counters.longest_over.get())
        };
        let (none, budget) = (Counter::default(), Counter::default());
        budget.set(100);
        assert_eq!(judged(u64::MAX, &none), (0, 0), "there is no budget");
        assert_eq!(
            [99, 100, 101, 150, 120].map(|took| judged(took, &budget)),
            [(0, 0), (0, 0), (1, 1), (2, 50), (3, 50)]
        );
    }

    /// A batch of frames of 60 bytes, numbered.
    fn batch(pool: &'static HeapPool, frames: u8) -> Box<Batch> {
        let queue = HeapQueue::new(pool, 5, 256);
        (0..frames).for_each(|n| assert!(queue.inject(&[n; 60])));
        let mut batch = Batch::new(pool);
        queue.clone().receive(&mut batch, 256);
        batch
    }

    #[test]
    fn copies_are_whole_and_those_without_a_buffer_are_missing() {
        let pool = HeapPool::leak(13);
        let (from, mut to) = (batch(pool, 8), batch(pool, 2));
        let mask: Mask = [1_u8, 3, 4, 100].into_iter().collect();
        let first =
            |batch: &Batch| batch.live().iter().filter_map(|slot| batch.frame(slot)).map(|f| f[0]).collect::<Vec<_>>();
        assert_eq!((copy(&from, mask, &mut to).missing, first(&to)), (0, vec![1, 3, 4]));
        assert!(to.live().iter().all(|slot| to.port(slot) == 5));
        // 13 buffers less the 8 of the first batch.
        assert_eq!((copy(&from, Mask::ALL, &mut to).missing, first(&to)), (3, vec![0, 1, 2, 3, 4]));
    }

    #[test]
    fn a_packet_is_reshaped_or_the_error_says_why_not() {
        let pool = HeapPool::leak(10);
        let mut batch = batch(pool, 2);
        assert_eq!(reshape(&mut batch, 1, |_| Ok(())), Ok(0));
        for (why, said) in [
            (NoRoom::Head, "no room before the packet"),
            (NoRoom::Tail, "no room behind the packet"),
            (NoRoom::Short, "the packet is shorter than that"),
        ] {
            assert_eq!(reshape(&mut batch, 1, |_| Err(why)), Err(said));
        }
        assert_eq!(reshape(&mut batch, 2, |_| Ok(())), Err("the slot holds no packet"));
        assert_eq!(reshape(&mut batch, 256, |_| Ok(())), Err("slots count from 0 to 255"));
    }
}
