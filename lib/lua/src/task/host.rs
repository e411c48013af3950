// SPDX-License-Identifier: MIT
//! One task as its script sees it: its context, and the batches, masks and pools that it has asked for. They belong to
//! the host, which frees what they hold when the task ends, however it ends.

use super::group::Tasks;
use super::shared::{SharedReceiver, SharedRing, SharedSender, Taken};
use perigee_modules::{Context, PuntSink, Punted, host};
use perigee_packet::batch::scatter::DropOut;
use perigee_packet::{BATCH_SIZE, Batch, Mask, Pool};
use perigee_worker::Pipe;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an Ethernet header, and of a VLAN tag.
const ETHERNET: u8 = 14;
const TAG: u8 = 4;
/// Empty polls of a queue before its thread lets others have the core.
const POLLS: u32 = 512;
/// How long a pipe is polled before its receiver sleeps.
const SPIN_NS: u64 = 50_000;
/// Longest sleep before a task looks whether it is to end.
const NAP: Duration = Duration::from_millis(5);

/// `perigee_pool`: packet buffers, and what is written into each new packet.
pub struct TaskPool {
    pub pool: Arc<dyn Pool>,
    pub prototype: Vec<u8>,
    lengths: [u16; BATCH_SIZE],
}

impl TaskPool {
    pub fn new(pool: Arc<dyn Pool>, prototype: Vec<u8>) -> TaskPool {
        TaskPool { pool, prototype, lengths: [0; BATCH_SIZE] }
    }

    /// Fills an empty batch with `n` packets of `length` bytes: the prototype, and zeros behind it.
    fn fill(&mut self, batch: &mut Batch, n: usize, length: u16) -> usize {
        self.lengths[..n].fill(length);
        let filled = self.pool.fill(batch, &self.lengths[..n]);
        let head = &self.prototype[..self.prototype.len().min(length.into())];
        let l3 = network_offset(head);
        batch.for_each(Mask::ALL, |packet| {
            let (start, rest) = packet.frame_mut().split_at_mut(head.len());
            start.copy_from_slice(head);
            rest.fill(0);
            packet.set_l3(l3);
        });
        filled
    }
}

/// Where a frame's network header starts, behind up to two VLAN tags.
#[inline]
pub(super) fn network_offset(frame: &[u8]) -> u8 {
    // Those of customers and of providers.
    let is_tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8]));
    match (is_tag(12), is_tag(16)) {
        (false, _) => ETHERNET,
        (true, false) => ETHERNET + TAG,
        (true, true) => ETHERNET + 2 * TAG,
    }
}

/// Tasks have no slow path: what is punted is dropped and counted.
pub struct NoSlowPath;

impl PuntSink for NoSlowPath {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        Err(packet)
    }

    fn room(&mut self) -> usize {
        0
    }
}

/// `perigee_task`: the number is the script's to read.
#[repr(C)]
pub struct TaskHost {
    pub(crate) id: u32,
    group: Arc<Tasks>,
    context: Context,
    #[allow(clippy::vec_box)]
    batches: Vec<Box<Batch>>,
    // Boxed: scripts hold their addresses.
    #[allow(clippy::vec_box)]
    masks: Vec<Box<Mask>>,
    #[allow(clippy::vec_box)]
    gathers: Vec<Box<DropOut>>,
    #[allow(clippy::vec_box)]
    pools: Vec<Box<TaskPool>>,
    message: Box<[u8]>,
    polls: u32,
}

impl TaskHost {
    pub fn new(id: u32, group: Arc<Tasks>) -> Box<TaskHost> {
        let context = group.context();
        let (batches, masks, gathers, pools) = Default::default();
        Box::new(TaskHost { id, group, context, batches, masks, gathers, pools, message: Box::default(), polls: 0 })
    }

    pub fn context(&mut self) -> *mut Context {
        &raw mut self.context
    }

    /// The time in ns that modules see.
    pub fn set_now(&mut self, now: u64) {
        self.context.now = now;
    }

    pub fn new_batch(&mut self) -> *mut Batch {
        self.batches.push(Batch::new(self.group.machine().memory()));
        self.batches.last_mut().map_or(std::ptr::null_mut(), |batch| &raw mut **batch)
    }

    pub fn new_mask(&mut self) -> *mut Mask {
        self.masks.push(Box::default());
        self.masks.last_mut().map_or(std::ptr::null_mut(), |mask| &raw mut **mask)
    }

    pub fn new_gather(&mut self, size: usize, timeout_ns: u64) -> *mut DropOut {
        self.gathers.push(Box::new(DropOut::new(self.group.machine().memory(), size, timeout_ns)));
        self.gathers.last_mut().map_or(std::ptr::null_mut(), |gather| &raw mut **gather)
    }

    pub fn new_pool(&mut self, pool: TaskPool) -> *mut TaskPool {
        self.pools.push(Box::new(pool));
        self.pools.last_mut().map_or(std::ptr::null_mut(), |pool| &raw mut **pool)
    }

    /// Goes on until all tasks are to end, and `extra` ns longer.
    #[inline]
    pub fn running(&mut self, extra: u64) -> bool {
        let now = self.now();
        self.context.now = now;
        self.context.tables.refresh();
        self.group.running(now, extra)
    }

    #[inline]
    pub fn now(&self) -> u64 {
        self.group.machine().now()
    }

    /// Waits until `condition` holds, the time is over, or the task is to end.
    fn poll_until<T>(&mut self, timeout: u64, mut condition: impl FnMut(&mut TaskHost) -> Option<T>) -> Option<T> {
        let found = condition(self);
        if found.is_some() || timeout == 0 {
            return found;
        }
        let end = self.now().saturating_add(timeout);
        loop {
            let found = condition(self);
            let now = self.now();
            if found.is_some() || now >= end || !self.group.running(now, 0) {
                return found;
            }
            self.polls = self.polls.wrapping_add(1);
            // On a core of its own this costs next to nothing; on a shared one the others go on.
            if self.polls.is_multiple_of(POLLS) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    /// Fills the batch with up to `burst` packets from a queue; waits for the first up to `timeout` ns. What was left
    /// in the batch is freed, and counted.
    pub fn receive(
        &mut self,
        queue: &SharedReceiver,
        batch: &mut Batch,
        burst: usize,
        timeout: u64,
    ) -> Result<usize, String> {
        self.clear(batch);
        let burst = burst.clamp(1, BATCH_SIZE);
        let id = self.id;
        // SAFETY: this is the task's own thread; the reference ends with this call.
        let receiver = unsafe { queue.of(id) }.map_err(|taken| self.taken("receive", &queue.name, taken))?;
        let n = self.poll_until(timeout, |_| Some(receiver.receive(batch, burst)).filter(|&n| n > 0)).unwrap_or(0);
        batch.for_each(Mask::ALL, |packet| packet.set_l3(network_offset(packet.frame())));
        self.context.counters.received.add(n as u64);
        // Devices may have been opened since.
        self.context.tables.refresh();
        Ok(n)
    }

    /// Sends a batch's packets, waiting for room up to `timeout` ns; the others stay in it. Returns how many were sent.
    pub fn send(&mut self, queue: &SharedSender, batch: &mut Batch, timeout: u64) -> Result<usize, String> {
        let id = self.id;
        // SAFETY: as in `receive`.
        let sender = unsafe { queue.of(id) }.map_err(|taken| self.taken("transmit", &queue.name, taken))?;
        Ok(self.send_all(batch, timeout, |batch, now| sender.send(batch, now)))
    }

    /// [`Self::send`] into a ring.
    pub fn ring_send(&mut self, ring: &SharedRing, batch: &mut Batch, timeout: u64) -> usize {
        self.send_all(batch, timeout, |batch, _| {
            ring.sender.lock().unwrap_or_else(std::sync::PoisonError::into_inner).send(batch, BATCH_SIZE)
        })
    }

    fn send_all(&mut self, batch: &mut Batch, timeout: u64, mut send: impl FnMut(&mut Batch, u64) -> usize) -> usize {
        let mut sent = 0;
        self.poll_until(timeout, |host| {
            let now = host.now();
            sent += send(batch, now);
            batch.live().is_empty().then_some(())
        });
        sent
    }

    /// New packets in a batch; what was left in it is freed, and counted.
    pub fn fill(&mut self, pool: &mut TaskPool, batch: &mut Batch, n: usize, length: usize) -> Result<usize, String> {
        self.clear(batch);
        if !(1..=BATCH_SIZE).contains(&n) {
            return Err(format!("{n} packets at once: 1 to {BATCH_SIZE} fit in a batch"));
        }
        let length =
            u16::try_from(length).map_err(|_| format!("a frame of {length} bytes: at most 65535 are possible"))?;
        Ok(pool.fill(batch, n, length))
    }

    /// Puts a message into a pipe, waiting for room up to `timeout` ns.
    pub fn pipe_send(&mut self, pipe: &Pipe, message: &[u8], timeout: u64) -> bool {
        let mut message = Some(Box::from(message));
        self.poll_until(timeout, |_| {
            message = message.take().and_then(|message| pipe.send(message).err());
            message.is_none().then_some(())
        });
        message.is_none()
    }

    /// The next message of a pipe; waits up to `timeout` ns. It is there until the next call.
    pub fn pipe_receive(&mut self, pipe: &Pipe, timeout: u64) -> Option<&[u8]> {
        let mut message = self.poll_until(timeout.min(SPIN_NS), |_| pipe.receive());
        let end = self.now().saturating_add(timeout.saturating_sub(SPIN_NS));
        while message.is_none() && timeout > SPIN_NS {
            let now = self.now();
            if now >= end || !self.group.running(now, 0) {
                break;
            }
            message = pipe.wait(NAP.min(Duration::from_nanos(end - now)));
        }
        self.message = message?;
        Some(&self.message)
    }

    /// Sleeps until the time has passed or the task is to end.
    pub fn sleep(&mut self, ns: u64) {
        let end = self.now().saturating_add(ns);
        loop {
            let now = self.now();
            if now >= end || !self.group.running(now, 0) {
                return;
            }
            std::thread::sleep(NAP.min(Duration::from_nanos(end - now)));
        }
    }

    fn clear(&mut self, batch: &mut Batch) {
        if !batch.live().is_empty() {
            self.context.counters.unclaimed.add(batch.live().count() as u64);
            self.context.drop(batch, Mask::ALL, host::UNCLAIMED);
        }
        batch.refill();
    }

    fn taken(&self, what: &str, name: &str, taken: Taken) -> String {
        let owner = match taken {
            Taken::Elsewhere(why) => return why,
            Taken::By(owner) => self.group.name_of(owner).unwrap_or_else(|| "another task".to_owned()),
        };
        format!("{what} queue {name} is used by {owner}: a queue is one task's at a time; ask for one queue per task")
    }
}

impl Drop for TaskHost {
    fn drop(&mut self) {
        self.batches.clear();
        self.gathers.clear();
        self.group.retire(self.id, self.pools.drain(..).map(|pool| pool.pool).collect());
    }
}

#[cfg(test)]
mod tests;
