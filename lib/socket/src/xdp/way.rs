// SPDX-License-Identifier: MIT
//! How the queues of a port get new sockets while they run, each in a thread of its own.
//!
//! ```text
//! generation   2          3 (odd)                                4
//! port         ───────────┤ new sockets, one after the other ├───
//! queue        uses its socket ─ lets go of it ─ waits ───────── takes the new one
//! ```
//!
//! The new sockets have the same memory for frames as the old ones. A queue that was in the middle of a burst sees
//! behind it that the generation has changed, and forgets what it has copied ([`Generation::is`]); model-checked below.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64};

#[cfg(feature = "loom")]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering, fence},
};
#[cfg(not(feature = "loom"))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering, fence},
};

/// Counts the times that sockets were replaced, twice: odd while they are.
pub(super) struct Generation(AtomicU32);

impl Generation {
    pub(super) fn new() -> Generation {
        Generation(AtomicU32::new(0))
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Sockets are going to be replaced: queues let go of theirs. They must not take a new one before
    /// [`Generation::end`], as the next change would then take it from them.
    pub(super) fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// They have been, or it has failed: queues take what is there.
    pub(super) fn end(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Whether it still was `seen` when everything before this call was read: else another socket may have received
    /// into it.
    pub(super) fn is(&self, seen: u32) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen
    }
}

/// One direction of a queue, as its port sees it.
pub(super) struct Way<T> {
    pub(super) taken: AtomicBool,
    /// What the queue works with, until it takes it.
    end: Mutex<Option<T>>,
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) errors: AtomicU64,
}

impl<T> Way<T> {
    pub(super) fn new(end: T) -> Way<T> {
        let [packets, bytes, errors] = [const { AtomicU64::new(0) }; 3];
        Way { taken: AtomicBool::new(false), end: Mutex::new(Some(end)), packets, bytes, errors }
    }

    fn here(&self) -> MutexGuard<'_, Option<T>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something newer here, between [`Generation::begin`] and [`Generation::end`].
    pub(super) fn put(&self, end: T) {
        *self.here() = Some(end);
    }

    /// What the queue works with from now on, and as of which generation.
    pub(super) fn take(&self, generation: &Generation) -> (Option<T>, u32) {
        let mut here = self.here();
        // Read under the lock that a new one is put here under, so that the two belong together.
        let now = generation.get();
        (if now.is_multiple_of(2) { here.take() } else { None }, now)
    }

    /// Takes what is newer than `end`, which is of the generation `seen`. If there is another generation, returns what
    /// `end` was.
    #[inline]
    pub(super) fn follow(&self, generation: &Generation, end: &mut Option<T>, seen: &mut u32) -> Option<Option<T>> {
        if generation.get() == *seen {
            return None;
        }
        let (newer, now) = self.take(generation);
        *seen = now;
        Some(std::mem::replace(end, newer))
    }

    /// The queue is dropped: another may be taken, and go on with what this one had, unless there is something newer.
    pub(super) fn give_back(&self, end: Option<T>) {
        let mut here = self.here();
        if here.is_none() {
            *here = end;
        }
        self.taken.store(false, std::sync::atomic::Ordering::Release);
    }

    pub(super) fn count(&self, packets: u64, bytes: u64, errors: u64) {
        for (counter, n) in [(&self.packets, packets), (&self.bytes, bytes), (&self.errors, errors)] {
            counter.fetch_add(n, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// A queue took its new socket while others still waited for theirs, and dropped it at the end of the change: it
    /// was silent from then on.
    #[test]
    fn a_queue_that_looks_while_sockets_are_replaced_keeps_its_new_one() {
        let (generation, way) = (Generation::new(), Way::new("first"));
        let (mut end, mut seen) = way.take(&generation);
        assert_eq!(end, Some("first"));
        let mut follow = || {
            way.follow(&generation, &mut end, &mut seen);
            end
        };
        generation.begin();
        assert_eq!(follow(), None, "it lets go");
        way.put("second");
        assert_eq!(follow(), None, "of whatever there is");
        generation.end();
        assert_eq!((follow(), follow()), (Some("second"), Some("second")));
        // One that looks between its own change and the last one's, and not before.
        generation.begin();
        way.put("third");
        assert_eq!(follow(), None);
        generation.end();
        assert_eq!(follow(), Some("third"));
    }

    #[test]
    fn queues_and_sockets_are_of_one_generation_whenever_they_look() {
        const CHANGES: u32 = 20_000;
        let (generation, way) = (Generation::new(), Way::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for change in 1..=CHANGES {
                    generation.begin();
                    way.put(2 * change);
                    generation.end();
                }
            });
            let (mut end, mut seen) = way.take(&generation);
            while seen < 2 * CHANGES {
                way.follow(&generation, &mut end, &mut seen);
                assert_eq!(end, seen.is_multiple_of(2).then_some(seen), "generation {seen}");
            }
        });
    }
}

/// Under the model checker, which tries every interleaving and every reordering that is allowed:
/// `cargo test -p perigee-socket --features loom --lib loom`
#[cfg(all(test, feature = "loom"))]
mod loom_way {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A port's sockets are replaced `CHANGES` times while a queue makes bursts. `memory` stands for the frames: each
    /// socket receives its own number into it, once it is bound.
    fn replaced(changes: u32, bursts: u32) {
        loom::model(move || {
            let (generation, way) = (Arc::new(Generation::new()), Arc::new(Way::new(0)));
            let memory = Arc::new(AtomicU32::new(0));
            let queue = {
                let (generation, way, memory) = (generation.clone(), way.clone(), memory.clone());
                thread::spawn(move || {
                    let (mut end, mut seen) = way.take(&generation);
                    for _ in 0..bursts {
                        way.follow(&generation, &mut end, &mut seen);
                        assert_eq!(end, seen.is_multiple_of(2).then_some(seen), "generation {seen}");
                        let frame = memory.load(Ordering::Relaxed);
                        if end.is_some() && generation.is(seen) {
                            assert!(frame <= seen, "a frame of socket {frame} in a burst of socket {seen}");
                        }
                    }
                    (end, seen)
                })
            };
            for change in 1..=changes {
                generation.begin();
                // The system calls that bind a socket.
                fence(Ordering::SeqCst);
                memory.store(2 * change, Ordering::Relaxed);
                way.put(2 * change);
                generation.end();
            }
            let (mut end, mut seen) = queue.join().expect("queue");
            way.follow(&generation, &mut end, &mut seen);
            assert_eq!((end, seen), (Some(2 * changes), 2 * changes), "the last socket is in use");
        });
    }

    #[test]
    fn a_socket_is_replaced_under_a_queue() {
        replaced(1, 2);
    }

    #[test]
    fn sockets_are_replaced_twice_under_a_queue() {
        replaced(2, 1);
    }
}
