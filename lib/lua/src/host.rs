// SPDX-License-Identifier: MIT
//! A worker as its script sees it: the worker itself, and the batches and masks the script has asked for. They belong to
//! the host, which frees what they hold when the script ends, however it ends.

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
}

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
}

impl ScriptWorker {
    pub(crate) fn new(worker: Worker, generation: Generation, counters: Arc<ScriptCounters>) -> Box<ScriptWorker> {
        let (id, queues) = (worker.id() as u32, worker.queues() as u32);
        let (batches, masks, gathers) = Default::default();
        Box::new(ScriptWorker { id, queues, worker, batches, masks, gathers, generation, counters })
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

    pub(crate) fn generation(&mut self) -> &mut Generation {
        &mut self.generation
    }

    pub(crate) fn housekeeping(&mut self) {
        self.worker.housekeeping();
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
