// SPDX-License-Identifier: MIT
//! Three ways to deal with packets of one batch that must be treated differently.
//!
//! * [`split`]: the packets move into an array (a batch) per class. Right when classes are about equally large and each
//!   gets much work.
//! * [`classify`]: the packets stay, each class gets a bit mask. Right when the work per class is short.
//! * [`DropOut`]: the few that diverge leave the batch and are gathered until they make up a burst or the first has
//!   waited long enough (rebatching); the many go on undisturbed.

use crate::batch::mask::Mask;
use crate::batch::{Batch, Memory, Slot};

/// Sorts the live packets of `mask` by `class` into one mask per class; packets whose class has no mask are in none.
pub fn classify<const N: usize>(
    batch: &mut Batch,
    mask: Mask,
    mut class: impl FnMut(&mut Slot<'_>) -> usize,
) -> [Mask; N] {
    let mut masks = [Mask::EMPTY; N];
    for mut packet in batch.packets(mask) {
        let i = class(&mut packet);
        if let Some(mask) = masks.get_mut(i) {
            mask.set(packet.index());
        }
    }
    masks
}

/// Moves the live packets of `mask` into the batch of their class, in order. Packets stay where their class has no
/// batch or its batch is full. Returns how many moved.
pub fn split(
    batch: &mut Batch,
    mask: Mask,
    mut class: impl FnMut(&mut Slot<'_>) -> usize,
    into: &mut [&mut Batch],
) -> usize {
    let mut moved = 0;
    for slot in mask & batch.live() {
        let target = batch.slot(slot).and_then(|mut packet| into.get_mut(class(&mut packet)));
        if let Some(target) = target {
            moved += batch.move_to(Mask::only(slot), target);
        }
    }
    moved
}

/// Gathers diverging packets over several bursts.
pub struct DropOut {
    batch: Box<Batch>,
    size: usize,
    timeout: u64,
    oldest: u64,
}

impl DropOut {
    /// Gathers packets of one memory until there are `size` (1..=256) or the first has waited `timeout` ns.
    pub fn new(memory: &'static dyn Memory, size: usize, timeout: u64) -> DropOut {
        DropOut { batch: Batch::new(memory), size: size.clamp(1, crate::BATCH_SIZE), timeout, oldest: 0 }
    }

    /// Takes the packets of `mask` out of `batch` at time `now` (ns). Returns the mask of those that found no room and
    /// stay: process the gathered batch first.
    pub fn gather(&mut self, batch: &mut Batch, mask: Mask, now: u64) -> Mask {
        if self.batch.live().is_empty() {
            self.batch.refill();
            self.oldest = now;
        }
        batch.move_to(mask, &mut self.batch);
        mask & batch.live()
    }

    /// The gathered packets, once there are enough of them or they have waited long enough at time `now` (ns). The
    /// caller consumes them; those it leaves stay for the next time.
    pub fn ready(&mut self, now: u64) -> Option<&mut Batch> {
        self.is_ready(now).then_some(&mut *self.batch)
    }

    /// Whether there are [ready](Self::ready) ones.
    pub fn is_ready(&self, now: u64) -> bool {
        let full = self.batch.count() >= self.size;
        let waited = now.saturating_sub(self.oldest) >= self.timeout;
        !self.batch.live().is_empty() && (full || waited)
    }

    /// Is this the batch that packets are gathered in?
    pub fn is_gathered_in(&self, batch: *const Batch) -> bool {
        std::ptr::eq(&*self.batch, batch)
    }

    /// Number of packets gathered.
    pub fn len(&self) -> usize {
        self.batch.live().count()
    }

    /// Is nothing gathered?
    pub fn is_empty(&self) -> bool {
        self.batch.live().is_empty()
    }
}
