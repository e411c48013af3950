// SPDX-License-Identifier: MIT
//! Several changes at once: those of long prefixes in one slot are encoded together, and what the next ones need is
//! prefetched.

use std::sync::atomic::Ordering;

use super::Bm19Writer;
use crate::lookup::LookupError;
use crate::lookup::blocks::Blocks;
use crate::lookup::simd::prefetch;
use crate::next_hop::NextHopId;
use perigee_net::Prefix4;

/// How many changes of several are made between the prefetch of what they need and they themselves.
const AHEAD: usize = 6;

impl Bm19Writer {
    /// Makes changes, each of another prefix, by prefix, and calls `changed` for each slot in which they may show;
    /// `ahead` is called with slots that will change soon.
    ///
    /// # Errors
    /// How many have been made, and why the next one is refused.
    pub(crate) fn change_all(
        &mut self,
        changes: &[(Prefix4, Option<NextHopId>)],
        ahead: impl Fn(usize),
        mut changed: impl FnMut(&Self, usize),
    ) -> Result<(), (usize, LookupError)> {
        let mut at = 0;
        while let Some(&(prefix, id)) = changes.get(at) {
            let Some(slot) = self.slots.slot_of_long(prefix) else {
                if id.is_some() || self.slots.get(prefix).is_some() {
                    self.change(prefix, id, &mut changed).map_err(|error| (at, error))?;
                }
                at += 1;
                continue;
            };
            // Everything misses the cache: the misses of many changes should overlap.
            if let Some((prefix, _)) = changes.get(at + 2 * AHEAD) {
                let slot = (prefix.addr() >> 13) as usize;
                self.slots.prefetch(slot);
                prefetch(&self.shared.nodes[slot]);
                ahead(slot);
            }
            if let Some((prefix, _)) = changes.get(at + AHEAD) {
                self.slots.prefetch_list((prefix.addr() >> 13) as usize);
            }
            let in_slot = |(prefix, _): &&(Prefix4, _)| self.slots.slot_of_long(*prefix) == Some(slot);
            let here = changes[at..].iter().take_while(in_slot).count();
            self.change_slot(slot, &changes[at..at + here], &mut changed)
                .map_err(|(done, error)| (at + done, error))?;
            at += here;
        }
        Ok(())
    }

    /// Makes changes of long prefixes in one slot.
    fn change_slot(
        &mut self,
        slot: usize,
        changes: &[(Prefix4, Option<NextHopId>)],
        mut changed: impl FnMut(&Self, usize),
    ) -> Result<(), (usize, LookupError)> {
        let mut before = std::mem::take(&mut self.before);
        before.extend(changes.iter().map(|(prefix, id)| self.slots.set(*prefix, *id)));
        let encoded = self.encode(slot);
        if let Ok(node) = encoded {
            let old = self.shared.node(slot);
            // As in `change`.
            self.shared.nodes[slot].store(node, Ordering::Release);
            changed(self, slot);
            self.release(slot, old, Blocks::retire);
            changes.iter().for_each(|_| self.compaction.changed());
        } else {
            for ((prefix, _), before) in changes.iter().zip(&before).rev() {
                self.slots.set(*prefix, *before);
            }
        }
        // What was encoded last is not to be taken for the slot's later state.
        self.places.0 = usize::MAX;
        before.clear();
        self.before = before;
        if encoded.is_ok() {
            return Ok(());
        }
        for (done, &(prefix, id)) in changes.iter().enumerate() {
            if id.is_some() || self.slots.get(prefix).is_some() {
                self.change(prefix, id, &mut changed).map_err(|error| (done, error))?;
            }
        }
        Ok(())
    }
}
