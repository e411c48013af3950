// SPDX-License-Identifier: MIT
//! Packets between Snabb's links and the batches of tasks, and new ones for tasks from Snabb's own pool.

use super::{MAX_PAYLOAD, SharedPort, SnabbPool};
use crate::ffi::{self, SnabbFreelist, SnabbHanded, SnabbLink};
use crate::open_port::check_memory;
use crate::port::DpdkPort;
use perigee_packet::{BATCH_SIZE, Batch, Packet, Pool};
use std::sync::Arc;

/// Moves up to `n` packets of a link to an empty batch, and counts them as freed; for Lua, by name.
///
/// # Safety
/// All pointers must be living objects that no other thread uses meanwhile; the batch one of DPDK's memory; the pool
/// [`SnabbPool::as_ptr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perigee_snabb_to_batch(
    from: *mut SnabbLink,
    to: *mut Batch,
    n: u32,
    pool: *mut ffi::SnabbPackets,
    counts: *mut SnabbFreelist,
    handed: *mut SnabbHanded,
) -> u32 {
    // SAFETY: the caller's.
    let Some(batch) = (unsafe { to.as_mut() }).filter(|batch| batch.live().is_empty()) else { return 0 };
    check_memory(batch);
    batch.refill();
    let n = (n as usize).min(BATCH_SIZE);
    // SAFETY: the shim writes at most `n` owned, whole buffers with their metadata into the arrays; the others are the
    // caller's.
    unsafe {
        batch.receive_with(n, None, |arrays| {
            ffi::perigee_snabb_lend(from, &arrays, n as u16, pool.cast(), counts, handed).into()
        }) as u32
    }
}

/// Moves the packets of a batch to a link, as far as it has room; for Lua, by name.
///
/// # Safety
/// As for [`perigee_snabb_to_batch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perigee_snabb_from_batch(
    from: *mut Batch,
    to: *mut SnabbLink,
    pool: *mut ffi::SnabbPackets,
    handed: *mut SnabbHanded,
) -> u32 {
    // SAFETY: the caller's.
    let Some(batch) = (unsafe { from.as_mut() }) else { return 0 };
    check_memory(batch);
    // SAFETY: the shim takes over the first buffers, as many as it says; the others are the caller's.
    unsafe {
        batch.send_with(BATCH_SIZE, |packets| {
            ffi::perigee_snabb_accept(packets.as_mut_ptr().cast(), packets.len() as u16, to, pool.cast(), handed).into()
        }) as u32
    }
}

impl SharedPort {
    /// The port itself, for those who take single queues of it.
    pub fn port(&self) -> &DpdkPort {
        &self.port
    }
}

/// Snabb's packets as a task's pool: what it sends into the graph needs no copy. How many are in use is Snabb's
/// business.
struct ForTasks(SnabbPool);

impl SnabbPool {
    /// New packets for tasks come from here.
    pub fn for_tasks(&self) -> Arc<dyn Pool> {
        Arc::new(ForTasks(self.clone()))
    }
}

impl Pool for ForTasks {
    fn packet(&self, bytes: &[u8]) -> Option<Packet> {
        if bytes.len() > MAX_PAYLOAD.into() || self.0.size() == 0 && self.0.grow(1000).is_err() {
            return None;
        }
        self.0.0.pool.packet(bytes)
    }

    fn fill(&self, batch: &mut Batch, lengths: &[u16]) -> usize {
        if lengths.iter().any(|&length| length > MAX_PAYLOAD) {
            return 0;
        }
        // Before it has been filled for the first time, a mempool must not be asked.
        let filled = if self.0.size() == 0 { 0 } else { self.0.0.pool.fill(batch, lengths) };
        // As Snabb does: more are made when there are none, until the memory is used up.
        if filled == lengths.len() || self.0.grow(self.0.size().clamp(1000, 65_536)).is_err() {
            return filled;
        }
        self.0.0.pool.fill(batch, lengths)
    }

    fn in_use(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        self.0.size() as usize
    }
}
