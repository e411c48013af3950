// SPDX-License-Identifier: MIT
//! What several tasks know by its address: queues of devices, rings, pipes. They live as long as the program's
//! [`Tasks`], so an address that travels from one VM to another stays valid.
//!
//! A queue belongs to one task at a time: the first that uses it has it until it ends. That is what makes it safe to
//! call a queue through an address from any thread.
//!
//! [`Tasks`]: super::Tasks

use super::machine::Claim;
use super::steer::Steering;
use perigee_packet::{BATCH_SIZE, Batch, Port, ReceiveQueue, TransmitQueue};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Nobody has it.
const NOBODY: u32 = 0;

/// Something that one task has at a time.
pub struct Owned<T> {
    owner: AtomicU32,
    /// How messages name it.
    pub name: String,
    /// Where others than tasks may have it.
    claim: Option<Arc<dyn Claim>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through `of`, by the thread of the task that owns it.
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub fn new(name: String, value: T) -> Owned<T> {
        Owned::claimed(name, value, None)
    }

    /// What others than tasks may have instead.
    pub fn claimed(name: String, value: T, claim: Option<Arc<dyn Claim>>) -> Owned<T> {
        Owned { owner: AtomicU32::new(NOBODY), name, claim, value: UnsafeCell::new(value) }
    }

    /// The value, for a task; it becomes this task's if nobody has it. Else: who has it, as a sentence if that is no
    /// task.
    ///
    /// # Safety
    /// Only the task's own thread may ask with its number, and no reference that it got before may live.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn of(&self, task: u32) -> Result<&mut T, Taken> {
        if self.owner.load(Ordering::Relaxed) != task {
            self.take(task)?;
        }
        // SAFETY: the owner's thread alone gets here, and holds no other reference.
        Ok(unsafe { &mut *self.value.get() })
    }

    #[cold]
    fn take(&self, task: u32) -> Result<(), Taken> {
        let taken = self.owner.compare_exchange(NOBODY, task, Ordering::Acquire, Ordering::Relaxed);
        taken.map_err(Taken::By)?;
        if let Some(Err(why)) = self.claim.as_ref().map(|claim| claim.take()) {
            self.owner.store(NOBODY, Ordering::Release);
            return Err(Taken::Elsewhere(why));
        }
        Ok(())
    }

    /// The task that has it.
    #[cfg(test)]
    pub fn owner(&self) -> Option<u32> {
        Some(self.owner.load(Ordering::Relaxed)).filter(|owner| *owner != NOBODY)
    }

    /// A task has ended: what it had, others may have.
    pub fn give_back(&self, task: u32) {
        if self.owner.load(Ordering::Relaxed) == task {
            if let Some(claim) = &self.claim {
                claim.give_back();
            }
            self.owner.store(NOBODY, Ordering::Release);
        }
    }
}

/// Why a task does not get what it asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is this task's.
    By(u32),
    /// It is not a task's: a sentence.
    Elsewhere(String),
}

/// `perigee_receive_queue`
pub type SharedReceiver = Owned<Box<dyn ReceiveQueue>>;

/// `perigee_transmit_queue`
pub type SharedSender = Owned<Sender>;

/// A transmit queue with its rate, which any task may set.
pub struct Sender {
    pub queue: Box<dyn TransmitQueue>,
    rate: Arc<Rate>,
    /// When the next frame may leave, in ns and a fraction.
    due: f64,
}

/// A limit of a queue's rate: how long a frame occupies the queue, in ns per frame and ns per byte in memory. Both 0:
/// no limit.
#[derive(Debug, Default)]
pub struct Rate {
    frame: AtomicU64,
    byte: AtomicU64,
}

impl Rate {
    pub fn set(&self, frame_ns: f64, byte_ns: f64) {
        self.frame.store(frame_ns.to_bits(), Ordering::Relaxed);
        self.byte.store(byte_ns.to_bits(), Ordering::Relaxed);
    }

    /// ns per frame, and per byte; `None`: no limit.
    #[inline]
    fn get(&self) -> Option<(f64, f64)> {
        match (self.frame.load(Ordering::Relaxed), self.byte.load(Ordering::Relaxed)) {
            (0, 0) => None,
            (frame, byte) => Some((f64::from_bits(frame), f64::from_bits(byte))),
        }
    }
}

/// How far a limited queue may lag behind its rate and catch up, in ns: a task that loses its core for a while should
/// not lose its rate.
const BACKLOG_NS: f64 = 1_000_000.0;

impl Sender {
    pub fn new(queue: Box<dyn TransmitQueue>, rate: Arc<Rate>) -> Sender {
        Sender { queue, rate, due: 0.0 }
    }

    /// Sends what the queue takes and its rate allows at time `now` (ns); returns how many.
    pub fn send(&mut self, batch: &mut Batch, now: u64) -> usize {
        let Some((frame_ns, byte_ns)) = self.rate.get() else { return self.queue.send(batch, BATCH_SIZE) };
        let now = now as f64;
        // The first frame of all is not late.
        self.due = if self.due == 0.0 { now } else { self.due.max(now - BACKLOG_NS) };
        let (mut after, mut due) = ([0.0; BATCH_SIZE], 0);
        let mut next = self.due;
        for slot in batch.live() {
            if next > now {
                break;
            }
            next += frame_ns + byte_ns * batch.length(slot) as f64;
            after[due] = next;
            due += 1;
        }
        let sent = if due > 0 { self.queue.send(batch, due) } else { 0 };
        if sent > 0 {
            self.due = after[sent - 1];
        }
        sent
    }
}

/// A device and its queues.
pub struct SharedDevice {
    pub name: String,
    pub port: Box<dyn Port>,
    // Boxed: scripts hold their addresses.
    #[allow(clippy::vec_box)]
    pub receive: Vec<Box<SharedReceiver>>,
    #[allow(clippy::vec_box)]
    pub transmit: Vec<Box<SharedSender>>,
    /// Of the transmit queues.
    pub rates: Vec<Arc<Rate>>,
    /// Which packets are which receive queue's, if they share one.
    pub steering: Option<Steering>,
}

/// `perigee_ring`: packets from any task to one.
pub struct SharedRing {
    pub sender: Mutex<Box<dyn TransmitQueue>>,
    pub receiver: SharedReceiver,
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::batch::heap::{HeapPool, HeapQueue};

    /// What is not atomic goes from task to task; ThreadSanitizer says whether it is in order.
    #[test]
    fn tasks_take_turns_at_what_one_has_at_a_time() {
        const TASKS: u32 = 4;
        const TURNS: u32 = 500;
        let owned = Owned::new("a number".to_owned(), 0);
        std::thread::scope(|scope| {
            for task in 1..=TASKS {
                let owned = &owned;
                scope.spawn(move || {
                    let mut turns = 0;
                    while turns < TURNS {
                        // SAFETY: only this thread has the task's number, and the reference is gone at once.
                        match unsafe { owned.of(task) } {
                            Ok(number) => *number += 1,
                            Err(_) => {
                                std::thread::yield_now();
                                continue;
                            }
                        }
                        assert_eq!(owned.owner(), Some(task));
                        owned.give_back(task);
                        turns += 1;
                    }
                });
            }
        });
        assert_eq!(owned.owner(), None);
        // SAFETY: as above.
        assert_eq!(unsafe { owned.of(1) }.map(|number| *number), Ok(TASKS * TURNS));
    }

    /// Lets one have it, if nobody outside has.
    #[derive(Default)]
    struct Door(AtomicU32);

    impl Claim for Door {
        fn take(&self) -> Result<(), String> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(()),
                _ => Err("an app has it".to_owned()),
            }
        }

        fn give_back(&self) {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_others_may_have_is_refused_while_they_have_it() {
        let door = Arc::new(Door::default());
        let owned = Owned::claimed("a number".to_owned(), 0, Some(door.clone()));
        // SAFETY: no reference outlives its line.
        let of = |task| unsafe { owned.of(task) }.map(|_| ());
        assert_eq!((of(1), of(1), of(2)), (Ok(()), Ok(()), Err(Taken::By(1))));
        owned.give_back(2);
        assert_eq!((of(2), door.0.load(Ordering::Relaxed)), (Err(Taken::By(1)), 1));
        owned.give_back(1);
        assert_eq!(door.0.swap(1, Ordering::Relaxed), 0);
        assert_eq!(of(2), Err(Taken::Elsewhere("an app has it".to_owned())));
        // The attempt left it to nobody.
        assert_eq!(owned.owner(), None);
        door.give_back();
        assert_eq!(of(2), Ok(()));
    }

    /// A queue with room for all, and frames of 60 bytes in a batch.
    fn frames(pool: &'static HeapPool, n: usize) -> Box<Batch> {
        let source = HeapQueue::new(pool, 0, 256);
        (0..n).for_each(|_| assert!(source.inject(&[0; 60])));
        let mut batch = Batch::new(pool);
        assert_eq!(source.clone().receive(&mut batch, BATCH_SIZE), n);
        batch
    }

    #[test]
    fn a_frame_leaves_when_those_before_it_have_had_their_time() {
        let pool = HeapPool::leak(300);
        let rate: Arc<Rate> = Arc::default();
        let mut sender = Sender::new(Box::new(HeapQueue::new(pool, 1, 256)), rate.clone());
        let mut batch = frames(pool, 200);
        // 1000 ns for a frame, and 10 for each of its 60 bytes.
        rate.set(1000.0, 10.0);
        let start = 50_000_000;
        assert_eq!([0, 1599, 1600, 3199, 3200].map(|after| sender.send(&mut batch, start + after)), [1, 0, 1, 0, 1]);
        // A task that was away catches up at once: what was due at 4800, 6400 and 8000.
        assert_eq!(sender.send(&mut batch, start + 8000), 3);
        let mut batch = frames(pool, 5);
        rate.set(0.0, 0.0);
        assert_eq!(sender.send(&mut batch, start), 5, "no limit");
    }

    #[test]
    fn a_queue_that_catches_up_does_so_for_a_millisecond() {
        let pool = HeapPool::leak(300);
        let rate: Arc<Rate> = Arc::default();
        let mut sender = Sender::new(Box::new(HeapQueue::new(pool, 1, 256)), rate.clone());
        let mut batch = frames(pool, 200);
        rate.set(100_000.0, 0.0);
        assert_eq!(sender.send(&mut batch, 1_000_000), 1);
        // Ten frames' time, and the one that is due now.
        assert_eq!(sender.send(&mut batch, 1_000_000_000), 11);
        assert_eq!([0, 99_999, 100_000].map(|after| sender.send(&mut batch, 1_000_000_000 + after)), [0, 0, 1]);
    }

    #[test]
    fn what_a_full_queue_did_not_take_has_used_no_time() {
        let pool = HeapPool::leak(300);
        let rate: Arc<Rate> = Arc::default();
        let queue = HeapQueue::new(pool, 1, 2);
        let mut sender = Sender::new(Box::new(queue.clone()), rate.clone());
        let mut batch = frames(pool, 20);
        rate.set(100.0, 0.0);
        assert_eq!((sender.send(&mut batch, 1000), sender.send(&mut batch, 2000)), (1, 1));
        assert!(queue.collect().is_some() && queue.collect().is_some());
        // Due since 1200, 1300 and so on; two find room.
        assert_eq!(sender.send(&mut batch, 2000), 2);
        assert!(queue.collect().is_some() && queue.collect().is_some());
        assert_eq!(sender.send(&mut batch, 1400), 1, "the next is due at 1400");
    }
}
